%% @doc Takes the account of a running node over distribution.
%%
%% The node needs no code for this: `erlang:system_info/1' answers with the same text that a crash
%% dump contains. The call goes to the process `rex' of the node, which every node with distribution
%% runs, because a system from which unreachable code was removed may have no `erpc'.
%% @hidden
-module(whittle_tune_node).

-export([account/1]).

-export_type([error/0]).

-type error() :: {no_distribution, string()}
               | {no_answer, string()}
               | {call_failed, string(), term()}
               | {no_kernel, string()}
               | {bad_name, string()}
               | whittle_tune_cookie:error().

-define(CALL_MS, 60_000).

%% A name without a host gets @ and the name of this machine, of at most 64 characters. An atom has
%% at most 255.
-define(MOST_NAME, 255 - 1 - 64).

%% @doc Connects to a node and takes its account. The name may lack its host. {@link
%% whittle_tune_cookie} finds the cookie.
%%
%% This VM must have the flag `-nocookie'. Without it, OTP reads `~/.erlang.cookie', and writes the
%% file if there is none.
-spec account(string()) -> {ok, whittle_measure_account:account()} | {error, error()}.
account(Name) ->
    whittle_work:steps([fun(_) -> checked(Name) end,
                        fun(_) -> whittle_tune_cookie:read() end,
                        fun(Cookie) -> start(Name, Cookie) end,
                        fun(Node) -> connected(Node, Name) end,
                        fun(Node) ->
                                try taken(Node, Name)
                                catch throw:{call, Reason} -> {error, {call_failed, Name, Reason}}
                                end
                        end]).

%% The name must become an atom, also with the host that full/1 adds.
checked(Name) when length(Name) =< ?MOST_NAME ->
    case re:run(Name, "^[A-Za-z0-9_-]+(@[^@\\s\\p{Cc}]+)?$",
                [unicode, dollar_endonly, {capture, none}]) of
        match -> ok;
        nomatch -> {error, {bad_name, Name}}
    end;
checked(Name) -> {error, {bad_name, Name}}.

%% This node listens to no other node, and takes its name from the node that it connects to.
start(Name, Cookie) ->
    Domain = domain(Name),
    Started = case net_kernel:start(own(Domain), #{name_domain => Domain, hidden => true,
                                                   dist_listen => false}) of
                  {error, {already_started, _}} -> ok;
                  {ok, _} -> ok;
                  {error, _} -> {error, {no_distribution, Name}}
              end,
    case Started of
        ok ->
            Node = full(Name),
            true = erlang:set_cookie(Node, Cookie),
            {ok, Node};
        {error, _} = Error -> Error
    end.

domain(Name) ->
    case string:split(Name, "@") of
        [_, Host] ->
            case lists:member($., Host) of
                true -> longnames;
                false -> shortnames
            end;
        _ -> shortnames
    end.

%% With long names, OTP needs this machine's domain, and many machines have none. No node looks for
%% the host of a node that does not listen, so any host does.
own(longnames) -> 'undefined@127.0.0.1';
own(shortnames) -> undefined.

full(Name) ->
    case lists:member($@, Name) of
        true -> list_to_atom(Name);
        false ->
            {ok, Host} = inet:gethostname(),
            list_to_atom(Name ++ "@" ++ Host)
    end.

connected(Node, Name) ->
    case net_kernel:connect_node(Node) of
        true -> {ok, Node};
        _ -> {error, {no_answer, Name}}
    end.

%% The kernel's account comes first: the answers of the VM take memory.
taken(Node, Name) ->
    Pid = list_to_integer(call(Node, os, getpid, [])),
    {ok, Host} = inet:gethostname(),
    Kernel = case call(Node, inet, gethostname, []) of
                 {ok, Host} -> whittle_measure_kernel:read(Pid);
                 _ -> remote(Node)
             end,
    case Kernel of
        {ok, Memory} ->
            [_, _, Procs] = Text = [iolist_to_binary([$\n, call(Node, erlang, system_info, [Item])])
                                    || Item <- [system_version, info, procs]],
            Vm = whittle_measure_dump:parse(with_word(Node, iolist_to_binary(Text))),
            Call = fun(Module, Function, Arguments) -> call(Node, Module, Function, Arguments) end,
            {ok, (whittle_measure_account:make(Vm, Memory))
             #{changes => whittle_tune_live:changes(Call, Procs)}};
        {error, _} -> {error, {no_kernel, Name}}
    end.

%% The text names the word size as a dump does.
with_word(Node, Text) ->
    case call(Node, erlang, system_info, [wordsize]) of
        8 -> <<"[64-bit]", Text/binary>>;
        4 -> Text
    end.

%% On another machine, the node reads its own files. Its threads' stack pointers are unknown.
remote(Node) ->
    case {call(Node, file, read_file, ["/proc/self/smaps"]),
          call(Node, file, read_link_all, ["/proc/self/exe"])} of
        {{ok, Text}, {ok, Program}} ->
            {ok, whittle_measure_kernel:parse(Text, unicode:characters_to_binary(Program), [],
                                              fun(_, _) -> unknown end)};
        _ -> {error, none}
    end.

%% The message that `rpc:call/4' of OTP 22 sends; `rex' of all later releases answers it.
call(Node, Module, Function, Arguments) ->
    try gen_server:call({rex, Node}, {call, Module, Function, Arguments, group_leader()},
                        ?CALL_MS) of
        {badrpc, Reason} -> throw({call, Reason});
        Answer -> Answer
    catch
        exit:{Reason, _} -> throw({call, Reason})
    end.
