%% @doc Sends one request to a running node, prints the answer and halts.
%%
%% `PROGRAM --whittle-REQUEST' starts the same executable as a short-lived hidden node. That node
%% boots only kernel and stdlib, and calls {@link main/0}. Flags from the launcher give the
%% request (`-whittle_request'), the running node (`-whittle_node') and the program's name
%% (`-whittle_program'). The arguments of the request are the plain arguments.
%%
%% Exit codes: 0 after an answer; 1 if the node does not answer or the request fails; 2 if the
%% arguments of the request are wrong. SIGTERM and SIGINT end this process at once (the launcher
%% sees to it), and the call in the running node ends with it.
-module(whittle_control).

-export([main/0, start/0, shell/0]).

%% OTP 25 lacks shell:start_interactive/1.
-dialyzer({nowarn_function, [start_shell/1]}).

%% The launcher calls shell/0 only from OTP 26 on, which has this function.
-ignore_xref([{shell, start_interactive, 1}]).

-define(FAILED, 1).
-define(MISUSED, 2).

%% How long `stop' waits for the end of the running node. The node stops its applications one
%% after the other. A supervisor gives each child 5 s by default, and may give it any time.
-define(STOP_TIMEOUT_MS, 120_000).

%% The port of the terminal in OTP 25
-define(TERMINAL, 'tty_sl -c -e').
-define(LOOK_MS, 5).

%% A call may take any time. After this time without its result, this node asks the running node for
%% a sign of life.
-define(PATIENCE_MS, 5_000).

%% This node waits so long for that sign. It does not wait until the connection ends: the kernel
%% keeps the connections of a process that is stopped (SIGSTOP), and OTP ends them after a minute,
%% or never with a large `net_ticktime'.
-define(SILENCE_MS, 15_000).

%% @doc Handles the request in the flags and halts. The launcher calls it with `-s'.
-spec main() -> no_return().
main() ->
    %% The words of a request are UTF-8 in every locale, and so is the answer.
    _ = [io:setopts(Device, [{encoding, unicode}]) || Device <- [standard_io, standard_error]],
    Node = full_name(flag(whittle_node)),
    Answer = try
                 request(flag(whittle_request), Node, words())
             catch
                 throw:{Code, Text} -> {Code, Text}
             end,
    finish(Answer).

%% @doc Starts a shell in the running node, for OTP 25. The launcher names this module with
%% `-user', so the function starts the process that is registered as `user'.
-spec start() -> pid().
start() ->
    {Node, _, _, _} = Shell = found_shell(),
    ok = end_with(Node),
    User = user_drv:start([?TERMINAL, Shell]),
    _ = spawn(fun check_terminal/0),
    User.

%% If OTP 25 does not know the terminal, it starts a shell of this hidden node instead. It opens the
%% terminal before it registers `user'.
check_terminal() ->
    User = whereis(user),
    Names = [erlang:port_info(Port, name) || Port <- erlang:ports()],
    case lists:member({name, atom_to_list(?TERMINAL)}, Names) of
        true -> ok;
        false when User =:= undefined ->
            receive after ?LOOK_MS -> check_terminal() end;
        false ->
            finish({?FAILED, ["TERM=", os:getenv("TERM", ""), " names no terminal that this file "
                              "knows: set TERM=vt100, or use --whittle-eval"]})
    end.

%% @doc Starts a shell in the running node, for OTP 26 and later. The launcher calls it with `-s'.
-spec shell() -> ok.
shell() ->
    {Node, _, _, _} = Shell = found_shell(),
    ok = end_with(Node),
    case start_shell(Shell) of
        ok -> ok;
        {error, Reason} ->
            finish({?FAILED, io_lib:format("~ts cannot start a shell (~tp); use "
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
    case call(Node, erl_eval, exprs, [Expressions, []], fun not_evaluated/3) of
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
            {?MISUSED, io_lib:format("~ts does not contain Elixir: write Erlang, and use "
                                     "--whittle-eval=erlang", [Node])}
    end;
request("rpc", Node, [Module, Function | Words]) ->
    Arguments = [parse(Word, fun erl_parse:parse_term/1) || Word <- Words],
    [M, F] = [name(Word) || Word <- [Module, Function]],
    connect(Node),
    Value = call(Node, M, F, Arguments),
    {0, io_lib:format("~tp", [Value])};
request("rpc", _Node, _) ->
    {?MISUSED, "--whittle-rpc takes MODULE FUNCTION [TERM...]"};
request("ping", Node, []) ->
    connect(Node),
    %% A connection shows only that the node's net_kernel runs, and not that it answers calls.
    case answers(Node) of
        true -> {0, "pong"};
        false -> throw(silent(Node))
    end;
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
        {?FAILED, io_lib:format("~ts is still stopping after ~b s; look at its log",
                                [Node, ?STOP_TIMEOUT_MS div 1000])}
    end.

elixir(Node, Text) ->
    try
        call(Node, 'Elixir.Code', eval_string, [unicode:characters_to_binary(Text), []],
             fun raised_in_elixir/3)
    catch
        throw:{elixir, error, #{'__struct__' := Kind} = Raised, _}
          when Kind =:= 'Elixir.SyntaxError'; Kind =:= 'Elixir.TokenMissingError';
               Kind =:= 'Elixir.MismatchedDelimiterError' ->
            misread(Text, call(Node, 'Elixir.Exception', message, [Raised]));
        throw:{elixir, Class, Reason, Stack} ->
            throw({?FAILED, call(Node, 'Elixir.Exception', format, [Class, Reason, Stack])})
    end.

-spec raised_in_elixir(error | exit | throw, term(), [tuple()]) -> no_return().
raised_in_elixir(Class, Reason, Stack) ->
    throw({elixir, Class, Reason, Stack}).

%% An operator of a node that runs the application `elixir' expects to write Elixir.
runs_elixir(Node) ->
    lists:keymember(elixir, 1, call(Node, application, which_applications, [])).

has(Node, Module) ->
    case call(Node, code, ensure_loaded, [Module]) of
        {module, Module} -> true;
        {error, _} -> false
    end.

%% A shell

%% Returns the running node's shell. Prints the reason and halts if the node does not answer.
found_shell() ->
    try
        Node = full_name(flag(whittle_node)),
        connect(Node),
        shell_of(Node)
    catch
        throw:Answer -> finish(Answer)
    end.

%% IEx, if the node runs Elixir and IEx is in the pack.
shell_of(Node) ->
    ok = check_shell(node()),
    case runs_elixir(Node) andalso has(Node, 'Elixir.IEx') of
        true -> {Node, 'Elixir.IEx', start, []};
        false ->
            ok = check_shell(Node),
            {Node, shell, start, []}
    end.

%% Ends the request if a node has no shell. `--missing crash' removes OTP's shell and the evaluation
%% of expressions, unless the program needs them.
check_shell(Node) ->
    case has(Node, shell) of
        true -> ok;
        false -> throw({?FAILED, ["the file has no shell: ",
                                  case has(Node, erl_eval) of
                                      true -> "use --whittle-eval, or build with --feature +shell";
                                      false -> "build with --feature +eval,+shell"
                                  end]})
    end.

-spec not_evaluated(error | exit | throw, term(), [tuple()]) -> no_return().
not_evaluated(error, undef, [{erl_eval, exprs, _, _} | _]) ->
    throw({?FAILED, "the file cannot evaluate Erlang: build with --feature +eval"});
not_evaluated(Class, Reason, Stack) -> raised(Class, Reason, Stack).

%% Ends this node when the running one ends or does not answer any more. Its shell would wait for a
%% new job, without a terminal forever.
end_with(Node) ->
    _ = spawn(fun() ->
                      true = monitor_node(Node, true),
                      watch(Node)
              end),
    ok.

watch(Node) ->
    receive
        {nodedown, Node} ->
            leave_shell({?FAILED, io_lib:format("~ts ended; see its log", [Node])})
    after ?PATIENCE_MS ->
        case answers(Node) of
            true -> watch(Node);
            false -> leave_shell(silent(Node))
        end
    end.

%% The shell also sees that the node ended, and offers a new job. It must not write that into or
%% behind this node's message.
-spec leave_shell({non_neg_integer(), unicode:chardata()}) -> no_return().
leave_shell(Answer) ->
    _ = [erlang:suspend_process(Process)
         || Name <- [user_drv, user_drv_writer], Process <- [whereis(Name)], is_pid(Process)],
    finish(Answer).

start_shell({Node, Module, Function, Arguments}) ->
    shell:start_interactive({remote, atom_to_list(Node), {Module, Function, Arguments}}).

connect(Node) ->
    case net_kernel:connect_node(Node) of
        true -> ok;
        _ -> throw({?FAILED, io_lib:format("~ts does not answer: it is not running, or it is "
                                           "stopped (SIGSTOP), or it has another name, epmd port "
                                           "or cookie (set RELEASE_NODE, ERL_EPMD_PORT, and "
                                           "RELEASE_COOKIE or WHITTLE_COOKIE_FILE as for the "
                                           "node)",
                                           [Node])})
    end.

%% Calls a function in the running node. Takes erpc's own tuples and stack entries out of an
%% exception, because they do not help a person. The function's output appears here. It reads the
%% end of the input, because standard input may belong to other commands of the caller.
call(Node, Module, Function, Arguments) ->
    call(Node, Module, Function, Arguments, fun raised/3).

call(Node, Module, Function, Arguments, Raised) ->
    User = group_leader(),
    group_leader(spawn_link(fun() -> without_input(User) end), self()),
    try
        linked_call(Node, Module, Function, Arguments)
    catch
        error:{exception, Reason, Stack} -> Raised(error, Reason, theirs(Stack));
        exit:{exception, Reason} -> Raised(exit, Reason, []);
        throw:Value -> Raised(throw, Value, []);
        exit:{signal, Reason} -> Raised(exit, Reason, []);
        error:{erpc, noconnection} ->
            throw({?FAILED, io_lib:format("~ts ended before it answered; see its log", [Node])});
        error:{erpc, silence} -> throw(silent(Node));
        error:{erpc, Reason} ->
            throw({?FAILED, io_lib:format("the call to ~ts failed (~tp): look at the log of "
                                            "this node, and run the command again",
                                            [Node, Reason])})
    after
        group_leader(User, self())
    end.

%% Calls a function as erpc:call/4 does. If this node ends, for example by a signal, the called
%% process ends too, because it is linked to the caller. `whittle_control_end' ends it if it traps
%% exits. A node of an older build lacks that module, and logs nothing about it.
linked_call(Node, Module, Function, Arguments) ->
    Mark = make_ref(),
    Traps = process_flag(trap_exit, true),
    Request = spawn_request(Node, erpc, execute_call, [Mark, Module, Function, Arguments],
                            [link, monitor]),
    {Kind, Reason} = receive
                         {spawn_reply, Request, error, Why} ->
                             {spawn_reply, Why};
                         {spawn_reply, Request, ok, Pid} ->
                             Together = spawn_request(Node, erpc, execute_call,
                                                      [make_ref(), whittle_control_end, together,
                                                       [self(), Pid]],
                                                      [monitor, {reply, error_only}]),
                             Ended = ended(Request, Pid),
                             ok = without_monitor(Together),
                             {down, Ended}
                     after ?SILENCE_MS -> error({erpc, silence})
                     end,
    process_flag(trap_exit, Traps),
    erpc:call_result(Kind, Request, Mark, Reason).

ended(Request, Pid) ->
    receive
        {'DOWN', Request, process, Pid, Why} ->
            ok = without_exit(Pid),
            Why
    after ?PATIENCE_MS ->
        case answers(node(Pid)) of
            true -> ended(Request, Pid);
            false -> error({erpc, silence})
        end
    end.

%% Waits until the other process has ended too. If this node ended before that process monitors it,
%% the monitor would make the running node connect to this one. With a fixed port for all nodes
%% (`-erl_epmd_port') it would reach itself, and log an error.
without_monitor(Together) ->
    receive
        {'DOWN', Together, process, _, _} -> ok;
        {spawn_reply, Together, error, _} -> ok
    after ?PATIENCE_MS -> ok
    end.

%% A node that has ended answers too, because this node reports the lost connection.
answers(Node) ->
    Request = spawn_request(Node, erlang, node, []),
    receive {spawn_reply, Request, _, _} -> true
    after ?SILENCE_MS -> false
    end.

silent(Node) ->
    {?FAILED, io_lib:format("~ts has not answered for ~b s: it is stopped (SIGSTOP) or "
                            "overloaded; let it run, and try again",
                            [Node, ?SILENCE_MS div 1000])}.

%% Removes the link's report of the end. There is none if the call removed the link.
without_exit(Pid) ->
    true = unlink(Pid),
    receive {'EXIT', Pid, _} -> ok
    after 0 -> ok
    end.

%% A group leader that passes output on and answers every read with the end of the input.
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
    throw({?FAILED, erl_error:format_exception(Class, Reason, with_caller(Reason, Stack),
                                               #{stack_trim_fun => fun is_erpc/3})}).

%% Adds the entry of the caller if the asked function itself is not there. `erl_error' looks in it
%% for the explanation of an `undef' (whittle_start_removed). The report does not show it.
with_caller(undef, [{_, _, _, More}] = Stack) -> Stack ++ [{erpc, execute_call, 4, More}];
with_caller(_, Stack) -> Stack.

is_erpc(Module, _, _) -> Module =:= erpc.

theirs(Stack) -> lists:takewhile(fun({erpc, _, _, _}) -> false; (_) -> true end, Stack).

%% Arguments

%% An atom has at most 255 characters.
name(Word) when length(Word) =< 255 -> list_to_atom(Word);
name(_) -> throw({?MISUSED, "the name of a module or function is longer than 255 characters: "
                          "correct the first two arguments"}).

%% Adds the final dot if it is missing. Only the scanner can distinguish it from the dot in `$.'
%% or in a comment.
parse(Text, Parser) ->
    case erl_scan:string(Text) of
        {ok, Tokens, End} ->
            case Parser(with_dot(Tokens, End)) of
                {ok, Parsed} -> Parsed;
                {error, {_, erl_parse, Why}} -> misread(Text, plain(erl_parse:format_error(Why)))
            end;
        {error, {_, erl_scan, Why}, _} ->
            misread(Text, erl_scan:format_error(Why))
    end.

%% The final dot is usually not the user's, and "bad term" is a word of the parser.
plain(Why) ->
    case lists:flatten(Why) of
        "syntax error before: '.'" -> "it ends too soon";
        "bad term" -> "write a term without variables, operators, calls and funs";
        _ -> Why
    end.

with_dot(Tokens, End) ->
    case lists:reverse(Tokens) of
        [{dot, _} | _] -> Tokens;
        _ -> Tokens ++ [{dot, End}]
    end.

-spec misread(string(), unicode:chardata()) -> no_return().
misread(Word, Why) ->
    throw({?MISUSED, io_lib:format("cannot parse ~ts: ~ts", [Word, Why])}).

%% The words of the request. In the locale C, OTP takes their bytes for Latin-1; the launcher has
%% checked that they are UTF-8.
words() ->
    Words = init:get_plain_arguments(),
    case file:native_name_encoding() of
        latin1 -> [unicode:characters_to_list(list_to_binary(Word)) || Word <- Words];
        utf8 -> Words
    end.

%% The node and the end

flag(Name) ->
    {ok, [[Value]]} = init:get_argument(Name),
    Value.

%% Adds the host if vm.args gives the name without one. This node runs on the same host.
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
