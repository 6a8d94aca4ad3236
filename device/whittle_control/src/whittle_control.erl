%% @doc Carries one request to a running node and ends with its answer.
%%
%% `PROGRAM --whittle-REQUEST' starts the same executable as a short-lived
%% hidden node that boots kernel and stdlib only and calls {@link main/0}. The
%% launcher says in flags what is asked (`-whittle_request'), of which node
%% (`-whittle_node'), and the program's name (`-whittle_program'); a request's own words
%% are the plain arguments.
%%
%% Exit codes: 0 answered, 1 the node is not there or the request failed, 2 the
%% words of the request were wrong.
-module(whittle_control).

-export([main/0, start/0, shell/0]).

%% Modules of the running node, which this one may lack.
-dialyzer({nowarn_function, [start_shell/1]}).

%% OTP 25 lacks it; the launcher calls shell/0 from OTP 26 on.
-ignore_xref([{shell, start_interactive, 1}]).

-define(FAILED, 1).
-define(MISUSED, 2).

%% How long the running node may take to end before `stop' gives up waiting.
%% Its applications stop in order, and a supervisor's child may take 5 s by
%% default and as long as it likes by choice.
-define(STOP_TIMEOUT_MS, 120_000).

%% @doc Does what the flags ask and halts. To be called by `-s'.
-spec main() -> no_return().
main() ->
    Node = full_name(flag(whittle_node)),
    Answer = try
                 request(flag(whittle_request), Node, init:get_plain_arguments())
             catch
                 throw:{Code, Text} -> {Code, Text}
             end,
    finish(Answer).

%% @doc Starts a shell in the running node, where OTP is older than 26. To be named by
%% `-user': it starts the process that is registered under this name.
-spec start() -> pid().
start() ->
    user_drv:start(['tty_sl -c -e', found_shell()]).

%% @doc Starts a shell in the running node, from OTP 26 on. To be called by `-s'.
-spec shell() -> ok.
shell() ->
    {Node, _, _, _} = Shell = found_shell(),
    case start_shell(Shell) of
        ok -> ok;
        {error, Reason} ->
            finish({?FAILED, io_lib:format("~s has no shell to show (~tp); ask it with "
                                           "--whittle-eval", [Node, Reason])})
    end.

%% Requests

request("eval", Node, Words) ->
    connect(Node),
    Language = case runs_elixir(Node) of
                   true -> "eval=elixir";
                   false -> "eval=erlang"
               end,
    request(Language, Node, Words);
request("eval=" ++ _, _Node, [""]) ->
    {?MISUSED, "--whittle-eval takes expressions, as in 'node()'"};
request("eval=erlang", Node, [Text]) ->
    Expressions = parse(Text, fun erl_parse:parse_exprs/1),
    connect(Node),
    case call(Node, erl_eval, exprs, [Expressions, []]) of
        {value, Value, _Bindings} -> {0, io_lib:format("~tp", [Value])}
    end;
request("eval=elixir", Node, [Text]) ->
    connect(Node),
    case has(Node, 'Elixir.Code') of
        true ->
            {Value, _Bindings} = elixir(Node, Text),
            {0, call(Node, 'Elixir.Kernel', inspect, [Value, [{limit, infinity},
                                                              {pretty, true}]])};
        false ->
            {?MISUSED, io_lib:format("~s has no Elixir to evaluate this with: write Erlang, with "
                                     "--whittle-eval=erlang", [Node])}
    end;
request("rpc", Node, [Module, Function | Words]) ->
    Arguments = [parse(Word, fun erl_parse:parse_term/1) || Word <- Words],
    connect(Node),
    Value = call(Node, list_to_atom(Module), list_to_atom(Function), Arguments),
    {0, io_lib:format("~tp", [Value])};
request("rpc", _Node, _) ->
    {?MISUSED, "--whittle-rpc takes MODULE FUNCTION [TERM...]"};
request("ping", Node, []) ->
    connect(Node),
    {0, "pong"};
request("pid", Node, []) ->
    connect(Node),
    {0, call(Node, os, getpid, [])};
request("stop", Node, []) ->
    connect(Node),
    monitor_node(Node, true),
    ok = call(Node, init, stop, []),
    receive
        {nodedown, Node} -> {0, "ok"}
    after ?STOP_TIMEOUT_MS ->
        {?FAILED, io_lib:format("~s is still stopping after ~b s; look at its log",
                                [Node, ?STOP_TIMEOUT_MS div 1000])}
    end.

elixir(Node, Text) ->
    try
        call(Node, 'Elixir.Code', eval_string, [unicode:characters_to_binary(Text), []],
             fun(Class, Reason, Stack) -> throw({elixir, Class, Reason, Stack}) end)
    catch
        throw:{elixir, error, #{'__struct__' := Kind} = Raised, _}
          when Kind =:= 'Elixir.SyntaxError'; Kind =:= 'Elixir.TokenMissingError';
               Kind =:= 'Elixir.MismatchedDelimiterError' ->
            misread(Text, call(Node, 'Elixir.Exception', message, [Raised]));
        throw:{elixir, Class, Reason, Stack} ->
            throw({?FAILED, call(Node, 'Elixir.Exception', format, [Class, Reason, Stack])})
    end.

%% A node that runs the application `elixir' was written in it: its operator writes it too.
runs_elixir(Node) ->
    lists:keymember(elixir, 1, call(Node, application, which_applications, [])).

has(Node, Module) ->
    case call(Node, code, ensure_loaded, [Module]) of
        {module, Module} -> true;
        {error, _} -> false
    end.

%% A shell

%% The running node's shell, or the end with the reason why it cannot be asked.
found_shell() ->
    try
        Node = full_name(flag(whittle_node)),
        connect(Node),
        shell_of(Node)
    catch
        throw:Answer -> finish(Answer)
    end.

%% Elixir's where it is packed.
shell_of(Node) ->
    case runs_elixir(Node) andalso has(Node, 'Elixir.IEx') of
        true -> {Node, 'Elixir.IEx', start, []};
        false -> {Node, shell, start, []}
    end.

start_shell({Node, Module, Function, Arguments}) ->
    shell:start_interactive({remote, atom_to_list(Node), {Module, Function, Arguments}}).

connect(Node) ->
    case net_kernel:connect_node(Node) of
        true -> ok;
        _ -> throw({?FAILED, io_lib:format("~s does not answer: it is not running, or its "
                                           "cookie is another one (set RELEASE_COOKIE or "
                                           "WHITTLE_COOKIE_FILE as it was for the node)",
                                           [Node])})
    end.

%% What erpc puts around an exception of the other node tells a person nothing.
%% It prints here, and there is nothing to be read: standard input is somebody else's.
call(Node, Module, Function, Arguments) ->
    call(Node, Module, Function, Arguments, fun raised/3).

call(Node, Module, Function, Arguments, Raised) ->
    User = group_leader(),
    group_leader(spawn_link(fun() -> without_input(User) end), self()),
    try
        erpc:call(Node, Module, Function, Arguments)
    catch
        error:{exception, Reason, Stack} -> Raised(error, Reason, theirs(Stack));
        exit:{exception, Reason} -> Raised(exit, Reason, []);
        throw:Value -> Raised(throw, Value, []);
        exit:{signal, Reason} -> Raised(exit, Reason, []);
        error:{erpc, noconnection} ->
            throw({?FAILED, io_lib:format("~s ended before it answered", [Node])});
        error:{erpc, Reason} ->
            throw({?FAILED, io_lib:format("~s cannot be asked (~tp)", [Node, Reason])})
    after
        group_leader(User, self())
    end.

%% A group leader that passes output on and ends all input.
without_input(User) ->
    receive
        {io_request, From, As, Request}
          when element(1, Request) =:= get_until; element(1, Request) =:= get_line;
               element(1, Request) =:= get_chars; element(1, Request) =:= get_password ->
            From ! {io_reply, As, eof};
        Request ->
            User ! Request
    end,
    without_input(User).

-spec raised(error | exit | throw, term(), [tuple()]) -> no_return().
raised(Class, Reason, Stack) ->
    throw({?FAILED, erl_error:format_exception(Class, Reason, Stack)}).

theirs(Stack) -> lists:takewhile(fun({erpc, _, _, _}) -> false; (_) -> true end, Stack).

%% Words

%% A final dot may be left out. The scanner tells it from that of a character (`$.') and of
%% a comment.
parse(Text, Parser) ->
    case erl_scan:string(Text) of
        {ok, Tokens, End} ->
            case Parser(with_dot(Tokens, End)) of
                {ok, Parsed} -> Parsed;
                {error, {_, erl_parse, Why}} -> misread(Text, erl_parse:format_error(Why))
            end;
        {error, {_, erl_scan, Why}, _} ->
            misread(Text, erl_scan:format_error(Why))
    end.

with_dot(Tokens, End) ->
    case lists:reverse(Tokens) of
        [{dot, _} | _] -> Tokens;
        _ -> Tokens ++ [{dot, End}]
    end.

-spec misread(string(), unicode:chardata()) -> no_return().
misread(Word, Why) ->
    throw({?MISUSED, io_lib:format("cannot read ~ts: ~ts", [Word, Why])}).

%% The node and the end

flag(Name) ->
    {ok, [[Value]]} = init:get_argument(Name),
    Value.

%% vm.args may leave the host out of a name; ours has it by now.
full_name(Name) ->
    case lists:member($@, Name) of
        true -> list_to_atom(Name);
        false ->
            [_, Host] = string:split(atom_to_list(node()), "@"),
            list_to_atom(Name ++ "@" ++ Host)
    end.

-spec finish({non_neg_integer(), unicode:chardata()}) -> no_return().
finish({0, Text}) ->
    io:put_chars([Text, $\n]),
    halt(0);
finish({Code, Text}) ->
    Program = flag(whittle_program),
    io:put_chars(standard_error, [Program, ": ", Text, $\n]),
    halt(Code).
