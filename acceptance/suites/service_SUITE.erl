%% Tests an output as a service: a named node that its own file asks and stops, and that connects to
%% a stock node of the same OTP.
-module(service_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2]).
-export([asked_by_its_own_file/1, asked_by_a_hidden_node/1,
         evaluation_ends_with_its_asker/1, stopped_by_a_signal/1,
         reader_of_an_answer_ends/1, stopped_by_its_own_file/1, shell_in_it/1,
         shell_of_a_node_that_ends/1, shell_ends_with_its_node/1, shell_without_a_terminal/1,
         killed_with_heart/1, heart_without_a_reader/1,
         stopped_with_heart/1, not_running/1, other_cookie/1,
         no_name/1, requests_that_are_no_text/1,
         name_with_a_new_line/1, odd_program_names/1, wrong_words/1, stock_node_calls_it/1,
         stock_node_finds_global_names/1,
         it_calls_a_stock_node/1,
         cookie_from_a_file/1, cookie_file_read_by_others/1,
         cookie_file_of_somebody_else/1, cookie_made_up/1,
         fixed_port_without_epmd/1, relay_between_nodes/1]).

all() -> [{group, whole}, {group, shaken}, {group, cut}, {group, cold}].

%% In the group `cut', the VM lacks the parts that the program does not reach. In the group `cold',
%% half of all functions load at their first call. The case that waits 15 s runs in the group with
%% everything and in the one with the least.
groups() ->
    [{Name, [], cases() -- [stopped_by_a_signal || Name =:= shaken orelse Name =:= cold]}
     || Name <- [whole, shaken, cut, cold]].

cases() ->
    [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

init_per_group(Name, Config) ->
    Dir = running:directory(filename:join("services", Name), Config),
    Build = fun(Path, Program, Remote) ->
                    Out = filename:join(Dir, Program),
                    case Name of
                        whole -> running:build(Path, Out);
                        shaken -> running:build(Path, Out, running:shaken(Remote));
                        cut -> running:build(Path, Out, running:cut(Remote));
                        cold -> planned:build(Path, Out, planned:a_half(29))
                    end
            end,
    Remote = "probe:double/1,erlang:node/0,erlang:nodes/1",
    [{probe, Build(running:fixture("probe"), "probe", Remote)},
     {relay, Build(running:example("relay"), "relay", "none")},
     {epmd, running:free_port()} | Config].

end_per_group(_, Config) -> running:end_epmd(proplists:get_value(epmd, Config)).

init_per_testcase(Case, Config) ->
    [{node, atom_to_list(Case)} | Config].

asked_by_its_own_file(Config) ->
    {Port, <<"ready ", Pid/binary>>} = node(Config, []),
    ?assertEqual({0, <<"pong\n">>}, ask(Config, ["--whittle-ping"])),
    ?assertEqual({0, <<Pid/binary, "\n">>}, ask(Config, ["--whittle-pid"])),
    ?assertEqual({0, <<"{3,\"x\"}\n">>}, ask(Config, ["--whittle-eval", "A = 1, {A + 2, \"x\"}"])),
    ?assertEqual({0, <<"2\n">>}, ask(Config, ["--whittle-eval", "1+1"])),
    %% The locale of the test is C.
    ?assertEqual({0, <<"é€\nok\n"/utf8>>},
                 ask(Config, ["--whittle-eval",
                              <<"\"é€\" = [233, 8364], io:put_chars(\"é€\\n\")"/utf8>>])),
    ?assertEqual({0, <<"2\n">>}, ask(Config, ["--whittle-eval", "1+1 % two"])),
    ?assertEqual({0, <<"2\n">>}, ask(Config, ["--whittle-eval=erlang", "1+1"])),
    %% The dot of a character does not end the expression.
    ?assertEqual({0, <<"46\n">>}, ask(Config, ["--whittle-eval", "$."])),
    ?assertEqual({0, <<"46\n">>}, ask(Config, ["--whittle-eval", "$.."])),
    ?assertEqual({0, <<"2\n">>}, ask(Config, ["--whittle-eval", "1+1. % two"])),
    ?assertEqual({2, <<"probe: cannot parse 1 +: it ends too soon\n">>},
                 ask(Config, ["--whittle-eval", "1 +"])),
    ?assertEqual({2, <<"probe: cannot parse X: write a term without variables, operators, calls "
                       "and funs\n">>},
                 ask(Config, ["--whittle-rpc", "lists", "reverse", "X"])),
    ?assertMatch({2, <<"probe: ", _/binary>>}, ask(Config, ["--whittle-eval=elixir", "1+1"])),
    %% The expression's output appears here; it has no input.
    ?assertEqual({0, <<"here\neof\n">>},
                 ask(Config, ["--whittle-eval", "io:put_chars(\"here\\n\"), io:get_line(\"\")"])),
    %% The expression removes the link to the command.
    ?assertEqual({0, <<"here\n">>},
                 ask(Config, ["--whittle-eval",
                              "{links, Links} = process_info(self(), links), "
                              "[unlink(Link) || Link <- Links], here"])),
    ?assertEqual({0, <<"42\n">>}, ask(Config, ["--whittle-rpc", "probe", "double", "21"])),
    {1, Failed} = ask(Config, ["--whittle-rpc", "probe", "double", "a"]),
    ?assertMatch({match, _}, re:run(Failed, "error.*arith|an error occurred when evaluating")),
    stop(Port).

%% A visible node would become a member of the cluster, for as long as the request takes.
asked_by_a_hidden_node(Config) ->
    {Port, <<"ready ", _/binary>>} = node(Config, []),
    ?assertEqual({0, <<"[]\n">>}, ask(Config, ["--whittle-rpc", "erlang", "nodes", "visible"])),
    {0, Hidden} = ask(Config, ["--whittle-rpc", "erlang", "nodes", "hidden"]),
    ?assertMatch({match, _}, re:run(Hidden, "^\\['?whittle-[0-9]+@")),
    stop(Port).

%% A signal ends the command at once, and the evaluation in the running node ends too.
evaluation_ends_with_its_asker(Config) ->
    {Port, _} = node(Config, []),
    [begin
         Asker = running:start(proplists:get_value(probe, Config),
                               ["--whittle-eval",
                                Traps ++ "register(busy, self()), io:put_chars(\"begun\\n\"), "
                                "receive never -> ok end"], #{env => env(Config)}),
         <<"begun">> = running:line(Asker),
         running:signal(Asker, Signal),
         ?assertEqual({Code, <<>>}, running:ended(Asker)),
         ?assertEqual({0, <<"ended\n">>},
                      ask(Config, ["--whittle-eval",
                                   "Busy = monitor(process, busy), receive {'DOWN', Busy, _, _, _} "
                                   "-> ended after 60000 -> lives end"]))
     end || {Signal, Code} <- [{"TERM", 143}, {"INT", 130}, {"KILL", 137}],
            Traps <- ["", "process_flag(trap_exit, true), "]],
    ?assertEqual({0, <<"pong\n">>}, ask(Config, ["--whittle-ping"])),
    stop(Port).

%% A node that is stopped answers nothing, and its connections stay.
stopped_by_a_signal(Config) ->
    {Port, _} = node(Config, []),
    Probe = proplists:get_value(probe, Config),
    Evaluation = running:start(Probe, ["--whittle-eval", "io:put_chars(\"begun\\n\"), "
                                       "receive never -> ok end"], #{env => env(Config)}),
    <<"begun">> = running:line(Evaluation),
    Shell = running:start(Probe, ["--whittle-remote"], #{env => env(Config)}),
    true = port_command(Shell, "node().\n"),
    _ = running:until(Shell, <<")2> ">>),
    running:signal(Port, "STOP"),
    {1, NotConnected} = ask(Config, ["--whittle-ping"]),
    ?assertMatch({match, _}, re:run(NotConnected, "does not answer: it is not running, or it is "
                                    "stopped \\(SIGSTOP\\)")),
    [begin
         {1, Said} = running:ended(Asker),
         ?assertMatch({match, _}, re:run(Said, "has not answered for 15 s: it is stopped "
                                         "\\(SIGSTOP\\) or overloaded"))
     end || Asker <- [Evaluation, Shell]],
    running:signal(Port, "CONT"),
    ?assertEqual({0, <<"pong\n">>}, ask(Config, ["--whittle-ping"])),
    stop(Port).

%% The reader of the output ends after one byte.
reader_of_an_answer_ends(Config) ->
    {Port, _} = node(Config, []),
    Script = "{ \"$0\" --whittle-eval \"$1\"; echo code $? >&2; } | head -c 1",
    {0, Output} = running:run("/bin/sh", ["-c", Script, proplists:get_value(probe, Config),
                                          "lists:duplicate(1000000, $a)"], #{env => env(Config)}),
    ?assertMatch({match, _}, re:run(Output, "code 141$", [multiline])),
    stop(Port).

stopped_by_its_own_file(Config) ->
    {Port, _} = node(Config, []),
    ?assertEqual({0, <<"ok\n">>}, ask(Config, ["--whittle-stop"])),
    ?assertEqual({0, <<"stopped\n">>}, running:ended(Port)).

%% On a terminal, as a person uses it: the running node answers, and continues after the user has
%% left the shell by its menu.
shell_in_it(Config) ->
    {Port, <<"ready ", Pid/binary>>} = node(Config, []),
    Shell = shell(Config, Pid),
    %% Three times to the left, then a digit before the plus.
    true = port_command(Shell, "1+2.\e[D\e[D\e[D4\r"),
    ?assertMatch({match, _}, re:run(running:until(Shell, <<")3> ">>), "\\n16\r")),
    %% Ctrl-C interrupts the evaluation in the shell, and shows no menu.
    true = port_command(Shell, "receive never -> ok end.\r"),
    _ = running:until(Shell, <<"ok end.\r\n">>),
    true = port_command(Shell, "\^C"),
    Interrupted = running:until(Shell, <<"killed">>),
    ?assertEqual(nomatch, binary:match(Interrupted, <<"BREAK">>)),
    true = port_command(Shell, "\^G"),
    _ = running:until(Shell, <<" --> ">>),
    true = port_command(Shell, "q\r"),
    ?assertMatch({0, _}, running:ended(Shell)),
    ?assertEqual({0, <<"pong\n">>}, ask(Config, ["--whittle-ping"])),
    stop(Port).

%% The node stops between the connection and its first answer: its application_controller is a
%% process that ends the node at the first question.
shell_of_a_node_that_ends(Config) ->
    Name = proplists:get_value(node, Config),
    Do = "unregister(application_controller), register(application_controller, self()), "
        "io:put_chars(\"ready\\n\"), receive {'$gen_call', _, which_applications} -> halt(0) end.",
    Port = running:start(erl(), ["-noshell", "-sname", Name, "-setcookie", "crumb", "-eval", Do],
                         #{env => env(Config)}),
    <<"ready">> = running:line(Port),
    {1, Said} = ask(Config, ["--whittle-remote"]),
    ?assertMatch({match, _},
                 re:run(Said, ["^probe: ", Name,
                               "@[^ ]+ ended before it answered; see its log\n$"])),
    {0, _} = running:ended(Port).

%% The terminal works as before when the shell has ended.
shell_ends_with_its_node(Config) ->
    {Port, <<"ready ", Pid/binary>>} = node(Config, []),
    Shell = shell(Config, Pid, "; echo code $?; stty -a"),
    running:signal(Port, "KILL"),
    {137, _} = running:ended(Port),
    {0, Said} = running:ended(Shell),
    ?assertMatch({match, _}, re:run(Said, ["probe: ", proplists:get_value(node, Config),
                                           "@[^ ]+ ended; see its log\r?\ncode 1\r?\n"])),
    [?assertMatch({match, _}, re:run(Said, "[ ;\n]" ++ Mode ++ "[ ;\r\n]"))
     || Mode <- ["icanon", "echo", "isig", "opost"]].

%% Standard input stays open.
shell_without_a_terminal(Config) ->
    {Port, _} = node(Config, []),
    Shell = running:start(proplists:get_value(probe, Config), ["--whittle-remote"],
                          #{env => env(Config)}),
    true = port_command(Shell, "node().\n"),
    _ = running:until(Shell, <<")2> ">>),
    running:signal(Port, "KILL"),
    {137, _} = running:ended(Port),
    {1, Said} = running:ended(Shell),
    ?assertMatch({match, _}, re:run(Said, ["probe: ", proplists:get_value(node, Config),
                                           "@[^ ]+ ended; see its log\n"])).

%% Starts a shell and waits for its first answer.
shell(Config, Pid) -> shell(Config, Pid, "").

%% AFTER are commands that run after the shell has ended.
shell(Config, Pid, After) ->
    Program = ["'", proplists:get_value(probe, Config), "' --whittle-remote", After],
    Shell = running:start(os:find_executable("script"),
                          ["-qec", lists:flatten(Program), "/dev/null"],
                          #{env => [{"TERM", "xterm"} | env(Config)]}),
    Prompt = running:until(Shell, <<")1> ">>),
    Name = proplists:get_value(node, Config),
    ?assertMatch({match, _}, re:run(Prompt, ["\\(", Name, "@"])),
    true = port_command(Shell, "{node(), os:getpid()}.\r"),
    Answer = running:until(Shell, <<")2> ">>),
    ?assertMatch({match, _}, re:run(Answer, ["{'?", Name, "@.*,\\s*\"", Pid, "\"}"])),
    Shell.

%% heart runs this file again. The second node has no heart, and ends.
killed_with_heart(Config) ->
    Port = with_heart("unset ERL_FLAGS; exec '" ++ proplists:get_value(probe, Config)
                      ++ "' args again", Config),
    running:signal(Port, "KILL"),
    {137, Output} = running:ended(Port),
    ?assertMatch({match, _}, re:run(Output, "^\\[\"args\",\"again\"\\]$", [multiline])).

%% The reader of standard error has ended, so the new program writes to nobody. Each reader of a
%% pipe waits for its writer.
heart_without_a_reader(Config) ->
    Probe = proplists:get_value(probe, Config),
    [Errors, Ended] = [Probe ++ Extension || Extension <- [".errors", ".ended"]],
    {0, _} = running:run("/usr/bin/mkfifo", [Errors, Ended]),
    Script = "head -c 1 \"$1\" >/dev/null & exec \"$0\" wait 2>\"$1\"",
    Port = running:start("/bin/sh", ["-c", Script, Probe, Errors],
                         #{env => [{"ERL_FLAGS", "-heart"},
                                   {"HEART_COMMAND", "unset ERL_FLAGS; '" ++ Probe ++ "' args; "
                                    "echo $? >'" ++ Ended ++ "'"} | env(Config)]}),
    _ = running:until(Port, <<"ready ">>),
    running:signal(Port, "KILL"),
    {137, _} = running:ended(Port),
    ?assertEqual({0, <<"0\n">>}, running:run("/bin/cat", [Ended])).

%% heart does not restart a node that its user stops.
stopped_with_heart(Config) ->
    Port = with_heart("echo started again >&2", Config),
    running:signal(Port, "TERM"),
    {0, Output} = running:ended(Port),
    ?assertMatch({match, _}, re:run(Output, "^stopped$", [multiline])),
    ?assertEqual(nomatch, re:run(Output, "started again")).

with_heart(Command, Config) ->
    Port = running:start(proplists:get_value(probe, Config), ["wait"],
                         #{env => [{"ERL_FLAGS", "-heart"}, {"HEART_COMMAND", Command}
                                   | env(Config)]}),
    _ = running:until(Port, <<"ready ">>),
    Port.

not_running(Config) ->
    {1, Output} = ask(Config, ["--whittle-ping"]),
    ?assertMatch({match, _}, re:run(Output, "does not answer")).

other_cookie(Config) ->
    {Port, _} = node(Config, []),
    {1, Output} = ask(Config, ["--whittle-ping"], [{"RELEASE_COOKIE", "another"}]),
    ?assertMatch({match, _}, re:run(Output, "it has another name, epmd port or cookie")),
    stop(Port).

no_name(Config) ->
    {1, Output} = running:run(proplists:get_value(probe, Config), ["--whittle-ping"]),
    ?assertMatch({match, _}, re:run(Output, "name of the running node is unknown: "
                                         "set RELEASE_NODE")).

%% A name cannot break the line of the error.
name_with_a_new_line(Config) ->
    ?assertEqual({2, <<"probe: a\\x{A}b: is not a node name: use letters, digits, _ and -; @HOST "
                       "may follow\n">>},
                 running:run(proplists:get_value(probe, Config), ["wait"],
                             #{env => [{"RELEASE_NODE", "a\nb"}]})).

%% The VM reads a word that begins with - as a flag, and only words in UTF-8.
odd_program_names(Config) ->
    Ask = fun(Name, Words) ->
                  running:run(os:find_executable("bash"),
                              ["-c", "exec -a $'" ++ Name ++ "' \"$0\" \"$@\"",
                               proplists:get_value(probe, Config) | Words],
                              #{env => env(Config)})
          end,
    Names = [{"-app", "./-app"}, {"-extra", "./-extra"}, {"--", "./--"}, {"-s\\377", "./-s?"},
             {"a\\377b", "a?b"}, {"\\303\\251", <<"é"/utf8>>}, {"+x", "+x"}],
    {Port, _} = node(Config, []),
    [begin
         ?assertEqual({Name, {0, <<"pong\n">>}}, {Name, Ask(Name, ["--whittle-ping"])}),
         ?assertEqual({Name, {0, <<"2\n">>}}, {Name, Ask(Name, ["--whittle-eval", "1+1"])})
     end || {Name, _} <- Names],
    stop(Port),
    [begin
         {1, Said} = Ask(Name, ["--whittle-ping"]),
         Begin = iolist_to_binary([Word, ": "]),
         ?assertMatch({Name, Rest} when is_binary(Rest), {Name, string:prefix(Said, Begin)}),
         ?assertNotEqual(nomatch, binary:match(Said, <<" does not answer">>))
     end || {Name, Word} <- Names].

wrong_words(Config) ->
    [?assertMatch({2, _}, ask(Config, Words))
     || Words <- [["--whittle-rpc"], ["--whittle-rpc", "lists"], ["--whittle-eval=erlang", "1 +"],
                  ["--whittle-rpc", "lists", "sum", "[1"]]].

%% No node needs to run: the request itself is wrong. open_port/2 passes the bytes of a binary as
%% they are.
requests_that_are_no_text(Config) ->
    [?assertEqual({2, iolist_to_binary(["probe: ", Flag, ": an argument is not valid UTF-8; write "
                                        "the argument in UTF-8\n"])},
                  ask(Config, [Flag | Words]))
     || [Flag | Words] <- [["--whittle-eval", <<255>>], ["--whittle-rpc", <<255>>, "x"],
                           ["--whittle-rpc", "lists", <<255>>],
                           ["--whittle-rpc", "lists", "reverse", <<$", 255, $">>]]],
    Long = lists:duplicate(300, $m),
    [?assertEqual({2, <<"probe: the name of a module or function is longer than 255 characters: "
                        "correct the first two arguments\n">>},
                  ask(Config, ["--whittle-rpc" | Words]))
     || Words <- [[Long, "x"], ["lists", Long]]].

stock_node_calls_it(Config) ->
    {Port, _} = node(Config, []),
    Call = "io:format(\"~p\", [erpc:call(list_to_atom(\"" ++ proplists:get_value(node, Config)
        ++ "@\" ++ lists:last(string:split(atom_to_list(node()), \"@\"))), probe, double, [21])]),"
        "halt().",
    ?assertEqual({0, <<"42">>},
                 running:run(erl(), ["-noshell", "-sname", "stock1", "-setcookie", "crumb",
                                     "-eval", Call], #{env => env(Config)})),
    stop(Port).

%% Without the feature `global' in the relay, the stock node would wait forever. Then the call ends
%% it.
stock_node_finds_global_names(Config) ->
    {Port, _} = relay(Config, "relay_global", []),
    Call = "[_, Host] = string:split(atom_to_list(node()), \"@\"),"
        "pong = net_adm:ping(list_to_atom(\"relay_global@\" ++ Host)),"
        "spawn(fun() -> receive after 60000 -> halt(1) end end),"
        "io:format(\"~p\", [global:sync()]), halt().",
    ?assertEqual({0, <<"ok">>},
                 running:run(erl(), ["-noshell", "-sname", "stock3", "-setcookie", "crumb",
                                     "-eval", Call], #{env => env(Config)})),
    stop(Port).

it_calls_a_stock_node(Config) ->
    Stock = running:start(erl(), ["-noshell", "-sname", "stock2", "-setcookie", "crumb", "-eval",
                                  "io:format(\"~s~n\", [node()])"], #{env => env(Config)}),
    Name = running:line(Stock),
    {0, Output} = ask(Config, ["connect", binary_to_list(Name)]),
    ?assertEqual(<<"{true,'", Name/binary, "'}\n">>, requoted(Output, Name)),
    running:signal(Stock, "TERM"),
    {0, _} = running:ended(Stock).

cookie_from_a_file(Config) ->
    File = cookie_file(Config, 8#600),
    ?assertEqual({0, <<"secret\n">>},
                 ask(Config, ["cookie"], [{"RELEASE_COOKIE", false},
                                          {"WHITTLE_COOKIE_FILE", File}])).

cookie_file_read_by_others(Config) ->
    File = cookie_file(Config, 8#644),
    {1, Output} = ask(Config, ["cookie"], [{"RELEASE_COOKIE", false},
                                           {"WHITTLE_COOKIE_FILE", File}]),
    ?assertMatch({match, _}, re:run(Output, "chmod 600")).

%% Only root can change the owner of a file, so other users skip this case.
cookie_file_of_somebody_else(Config) ->
    File = cookie_file(Config, 8#600),
    case file:change_owner(File, 65534) of
        ok ->
            ?assertEqual({1, iolist_to_binary(["probe: WHITTLE_COOKIE_FILE: ", File, ": the cookie "
                                               "file belongs to another user; run chown on it\n"
                                              ])},
                         ask(Config, ["cookie"], [{"RELEASE_COOKIE", false},
                                                  {"WHITTLE_COOKIE_FILE", File}]));
        {error, eperm} -> {skip, "only root can give a file to somebody else"}
    end.

cookie_made_up(Config) ->
    Home = running:directory("home without a cookie", Config),
    Ask = fun() -> ask(Config, ["cookie"], [{"RELEASE_COOKIE", false}, {"HOME", Home}]) end,
    {0, One} = Ask(),
    {0, Other} = Ask(),
    ?assert(byte_size(One) > 20),
    ?assertNotEqual(One, Other),
    ?assertEqual({ok, []}, file:list_dir(Home)).

fixed_port_without_epmd(Config) ->
    Port = running:free_port(),
    Env = [{"ERL_DIST_PORT", integer_to_list(Port)},
           {"ERL_EPMD_PORT", integer_to_list(running:free_port())}],
    {Node, <<"ready ", Pid/binary>>} = node(Config, Env),
    %% All nodes have this port, so a node that connects to one that has ended reaches itself, and
    %% logs an error. The first request makes the running node load code. So it answers before it
    %% monitors the node of the request.
    ?assertEqual({0, <<Pid/binary, "\n">>}, ask(Config, ["--whittle-pid"], Env)),
    ?assertEqual({0, <<"pong\n">>}, ask(Config, ["--whittle-ping"], Env)),
    running:signal(Node, "TERM"),
    {0, Log} = running:ended(Node),
    ?assertEqual(nomatch, binary:match(Log, <<"Cannot get connection id">>)).

%% In the example, a line from a client of one node reaches the client of the other.
relay_between_nodes(Config) ->
    {One, OnePort} = relay(Config, "relay_one", []),
    Host = string:trim(os:cmd("hostname -s")),
    {Other, OtherPort} = relay(Config, "relay_other", ["relay_one@" ++ Host]),
    {ok, Sender} = gen_tcp:connect("localhost", OnePort, [binary, {packet, line}]),
    {ok, Reader} = gen_tcp:connect("localhost", OtherPort, [binary, {packet, line}]),
    relayed(Sender, Reader),
    [stop(Port) || Port <- [One, Other]].

%% Before the nodes have found each other, a line comes back to its sender only. Then the test sends
%% the next one.
relayed(Sender, Reader) ->
    ok = gen_tcp:send(Sender, "hello over there\n"),
    receive
        {tcp, Reader, Line} -> ?assertEqual(<<"hello over there\n">>, Line);
        {tcp, Sender, _} -> relayed(Sender, Reader)
    end.

%% Shared functions

%% Starts a named node that waits, and returns its first line.
node(Config, Env) ->
    Port = running:start(proplists:get_value(probe, Config), ["wait"],
                         #{env => env(Config) ++ Env}),
    {Port, running:line(Port)}.

relay(Config, Name, Nodes) ->
    Flags = lists:flatten(io_lib:format("-relay port 0 -relay nodes '~0p' -relay retry 50",
                                        [[list_to_atom(N) || N <- Nodes]])),
    Port = running:start(proplists:get_value(relay, Config), [],
                         #{env => [{"ERL_FLAGS", Flags} | env([{node, Name} | Config])]}),
    Line = running:line(Port),
    {match, [Number]} = re:run(Line, "port (\\d+)", [{capture, [1], list}]),
    {Port, list_to_integer(Number)}.

stop(Port) ->
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port),
    ok.

ask(Config, Words) -> ask(Config, Words, []).

ask(Config, Words, Env) ->
    running:run(proplists:get_value(probe, Config), Words, #{env => env(Config) ++ Env}).

%% In open_port/2 the last setting of a name wins.
env(Config) ->
    [{"RELEASE_NODE", proplists:get_value(node, Config)}, {"RELEASE_COOKIE", "crumb"},
     {"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))}].

erl() -> filename:join([running:otp_root(), "bin", "erl"]).

%% The VM prints atoms with quotes only if they need them.
requoted(Output, Name) ->
    binary:replace(binary:replace(Output, <<"'">>, <<>>, [global]), Name,
                   <<"'", Name/binary, "'">>).

cookie_file(Config, Mode) ->
    File = filename:join(proplists:get_value(priv_dir, Config),
                         "cookie" ++ integer_to_list(Mode)),
    _ = file:delete(File),
    ok = file:write_file(File, "secret\n"),
    ok = file:change_mode(File, Mode),
    File.
