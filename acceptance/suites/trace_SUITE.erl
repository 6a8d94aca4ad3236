%% Tests `whittle trace' with real programs: Whittle's outputs, the stock VMs of two OTP releases,
%% and commands that fail. Tests `whittle build --evidence' with the recordings.
-module(trace_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([from_first_to_last/1, two_nodes/1, trace_in_a_trace/1, killed/1, halted/1, loaded_late/1]).
-export([embedded/1, recorder_gone/1, recorder_of_a_newer/1]).
-export([escript_that_returns/1, escript_that_fails/1, without_a_last_reading/1,
         nothing_of_the_programs_own/1]).
-export([the_commands_own/1, nothing_recorded/1, no_command/1, nowhere_to_write/1,
         program_as_output/1]).
-export([not_written/1, odd_names/1, traced_is_ours/1]).
-export([signals_are_passed_on/1, interrupt_is_passed_on/1, control_c/1, crash_dump/1]).
-export([plan_holds/1, feature_that_was_used/1, edge_that_is_missing/1, other_build/1,
         driver_of_another_otp/1, other_program/1, own_in_another_version/1, old_file/1,
         bad_evidence/1, bad_words/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= init_per_suite,
               F =/= end_per_suite, F =/= module_info].

init_per_suite(Config) ->
    Hello = running:build(example(), out("hello", Config)),
    {0, _} = trace(out("hello.trace", Config), [Hello]),
    Probe = running:build(running:fixture("probe"), out("probe", Config)),
    Words = out("words.escript", Config),
    ok = file:write_file(Words, "#!/usr/bin/env escript\n-module(words).\n-export([main/1]).\n"
                         "main([\"fall\"]) -> error(on_purpose);\n"
                         "main([\"halt\"]) -> halt(3);\n"
                         "main(Words) -> io:format(\"~0p~n\", [Words]).\n"),
    [{hello, Hello}, {probe, Probe}, {words, running:build(Words, out("words", Config))} | Config].

end_per_suite(_) -> ok.

%% The recording

%% It holds calls before the kernel and after the last application, and no function without a call.
from_first_to_last(Config) ->
    Hello = proplists:get_value(hello, Config),
    File = out("first.trace", Config),
    {0, Output} = trace(File, [Hello]),
    ?assertMatch({match, _},
                 re:run(Output, "^Hello from one file.\n.*first.trace: \\d+ functions of \\d+ "
                        "modules \\(1 module of the program itself\\), called in one VM\n$")),
    [?assertEqual({Mfa, Is}, {Mfa, is_called(Mfa, File)})
     || {Mfa, Is} <- [{{logger_server, start_link, 0}, true}, {{kernel, init, 1}, true},
                      {{hello, start, 2}, true}, {{hello, stop, 1}, true}, {{hello, wait, 0}, true},
                      {{sofs, set, 1}, false}]].

%% Each command removes the temporary directories of commands that have ended. The directory of a
%% recording stays until its own command ends.
trace_in_a_trace(Config) ->
    Hello = proplists:get_value(hello, Config),
    [Inner, Outer] = [out(Name, Config) || Name <- ["inner.trace", "outer.trace"]],
    {0, _} = trace(Outer, ["sh", "-c", "\"$0\" trace -o \"$1\" -- \"$2\" && \"$2\"",
                           filename:join(running:root(), "whittle"), Inner, Hello]),
    [?assert(is_called({hello, start, 2}, File)) || File <- [Inner, Outer]].

%% Nodes of several OTP releases, one after the other in one command.
two_nodes(Config) ->
    File = out("two.trace", Config),
    {0, Output} = trace(File, ["sh", "-c", "\"$0\" -noshell -s sets new -s init stop && "
                               "\"$1\" -noshell -s orddict new -s init stop",
                               os:find_executable("erl"), stock()]),
    ?assertMatch({_, _}, binary:match(Output, <<" in 2 VMs\n">>)),
    ?assert(is_called({sets, new, 0}, File)),
    ?assert(is_called({orddict, new, 0}, File)).

%% It holds calls from long before a node's end, however the node ends.
killed(Config) ->
    File = out("killed.trace", Config),
    ?assertMatch({137, _}, trace(File, node_that("os:cmd(\"kill -9 \" ++ os:getpid())"))),
    ?assert(is_called({sofs, empty_set, 0}, File)).

halted(Config) ->
    File = out("halted.trace", Config),
    ?assertMatch({5, _}, trace(File, node_that("halt(5)"))),
    ?assert(is_called({sofs, empty_set, 0}, File)).

%% A module that loads after the recorder, and loads again.
loaded_late(Config) ->
    File = out("late.trace", Config),
    {0, _} = trace(File, node_that("code:unstick_mod(sofs), code:purge(sofs),"
                                   "{module, _} = code:load_file(sofs), sofs:set([]),"
                                   "init:stop()")),
    ?assert(is_called({sofs, empty_set, 0}, File)),
    ?assert(is_called({sofs, set, 1}, File)).

%% The node continues after its recording has a call, and not after a time.
node_that(Goes) ->
    ["erl", "-noshell", "-eval",
     "false = code:is_loaded(sofs), sofs:empty_set(),"
     "[Mine] = filelib:wildcard(os:getenv(\"WHITTLE_TRACE\") ++ \"/*-*\"),"
     "Wait = fun(Wait) -> {ok, Bytes} = file:read_file(Mine),"
     " case binary:match(Bytes, <<\"empty_set\">>) of nomatch -> Wait(Wait); _ -> ok end end,"
     "Wait(Wait), " ++ Goes ++ "."].

%% The escript ends long before the second reading, and the recorder reads once more at its end.
escript_that_returns(Config) ->
    [begin
         File = out("returns.trace", Config),
         {0, Output} = trace(File, [proplists:get_value(words, Config), "a", "b"]),
         ?assertMatch({match, _},
                      re:run(Output, "^\\[\"a\",\"b\"\\]\n.*: \\d+ functions of \\d+ modules "
                             "\\(1 module of the program itself\\), called in one VM\n$")),
         [?assert(is_called(Mfa, File)) || Mfa <- [{words, main, 1}, {io, format, 2}]]
     end || _ <- lists:seq(1, 5)].

escript_that_fails(Config) ->
    File = out("fails.trace", Config),
    {127, Output} = trace(File, [proplists:get_value(words, Config), "fall"]),
    ?assertEqual(nomatch, binary:match(Output, <<"note">>)),
    [?assert(is_called(Mfa, File)) || Mfa <- [{words, main, 1}, {erl_error, format_exception, 3}]].

%% For a program that halts by itself, a message says that its end may be missing.
without_a_last_reading(Config) ->
    [begin
         {3, Output} = trace(out("last.trace", Config),
                             ["sh", "-c", Command, proplists:get_value(words, Config)]),
         ?assertMatch({_, {_, _}}, {Command, binary:match(Output, [Note])})
     end || {Command, Note} <-
                [{"\"$0\"; \"$0\" halt",
                  <<"\nwhittle: note: one VM called halt/1, was killed or still runs, so its last "
                    "calls may be missing\n">>},
                 {"\"$0\"; \"$0\" halt; \"$0\" halt",
                  <<"\nwhittle: note: 2 VMs called halt/1, were killed or still run, so their last "
                    "calls may be missing\n">>}]].

nothing_of_the_programs_own(Config) ->
    File = out("otp.trace", Config),
    [begin
         {0, Output} = trace(File, [Erl, "-noshell", "-s", "init", "stop"]),
         ?assertMatch({match, _},
                      re:run(Output, "modules \\(0 modules of the program itself\\), called "
                                     "in one VM\n"
                             "whittle: note: the recording has no function of the program itself: "
                             "a VM that halts soon after its start may end before Whittle reads "
                             "its calls; see docs/recordings.md of Whittle's source\n$"))
     end || Erl <- ["erl", stock()]].

%% A VM that loads no modules by itself runs with and without the recorder.
embedded(Config) ->
    [begin
         {_, Output} = trace(out("embedded.trace", Config),
                             [Erl, "-mode", "embedded", "-noshell",
                              "-eval", "io:put_chars(\"ran\\n\"), init:stop()."]),
         ?assertMatch(<<"ran\n", _/binary>>, Output)
     end || Erl <- [os:find_executable("erl"), stock()]].

%% The same holds for a program that starts after the end of the command.
recorder_gone(Config) ->
    File = out("gone.trace", Config),
    ?assertEqual({1, <<"ran\n", (nothing(File, "erl"))/binary>>},
                 trace(File, ["sh", "-c", "rm -r \"$WHITTLE_TRACE\"; erl -noshell -eval "
                              "'io:put_chars(\"ran\\n\"), init:stop().'"])).

%% The host's OTP compiles the recorder, so an older VM cannot load it.
recorder_of_a_newer(Config) ->
    case release("erl") < release(stock()) of
        false -> {skip, "the stock OTP is no newer than the host's"};
        true ->
            Lib = filename:join(running:directory("newer", Config), "lib"),
            [begin
                 To = filename:join([Lib, filename:basename(App), "ebin"]),
                 ok = filelib:ensure_path(To),
                 [{ok, _} = file:copy(File, filename:join(To, filename:basename(File)))
                  || File <- filelib:wildcard(filename:join(App, "ebin/*"))]
             end || App <- filelib:wildcard(filename:join(lib(), "*"))],
            Sources = filename:join(running:root(), "device/whittle_trace/src/*.erl"),
            {0, _} = running:run(filename:join(filename:dirname(stock()), "erlc"),
                                 ["-o", filename:join(Lib, "whittle_trace/ebin")
                                  | filelib:wildcard(Sources)]),
            File = out("newer.trace", Config),
            Command = ["erl", "-noshell", "-eval", "io:put_chars(\"ran\\n\"), init:stop()."],
            {1, Output} = running:run(whittle(), ["trace", "-o", File, "--" | Command],
                                      #{env => [{"WHITTLE_LIB", Lib}]}),
            ?assertMatch({_, _}, binary:match(Output, <<"ran\n">>)),
            ?assertMatch({_, _}, binary:match(Output, nothing(File, "erl")))
    end.

%% The command

the_commands_own(Config) ->
    File = out("own.trace", Config),
    ?assertMatch({3, <<"in a  b\n", _/binary>>},
                 running:run(whittle(), ["trace", "-o", File, "--", "sh", "-c",
                                         "read -r x; echo \"$x $1\"; erl -noshell -s init stop;"
                                         " exit 3", "sh", "a  b"],
                             #{input => "in\n", env => [{"ERL_AFLAGS", "-s sets new"}]})),
    %% The user's own flags work too.
    ?assert(is_called({sets, new, 0}, File)),
    Closed = "\"$0\" trace -o \"$1\" -- sh -c 'exit 3' <&-",
    ?assertMatch({3, _}, running:run("/bin/sh", ["-c", Closed, whittle(), File])).

nothing_recorded(Config) ->
    File = out("nothing.trace", Config),
    Line = nothing(File, "erl"),
    ?assertEqual({1, Line}, trace(File, ["true"])),
    ?assertEqual({7, Line}, trace(File, ["sh", "-c", "exit 7"])),
    ?assertNot(filelib:is_file(File)).

no_command(Config) ->
    [?assertEqual({Code, iolist_to_binary(["whittle: ", Line, $\n])},
                  running:whittle(["trace" | Words]))
     || {Code, Words, Line} <-
            [{1, ["--", "no/such"], "no/such is not an executable program: correct the command"},
             {2, [], "`whittle trace' needs -- CMD; see `whittle help trace'"},
             {2, ["-o", "x", "--"], "`whittle trace' needs -- CMD; see `whittle help trace'"},
             {2, ["erl"], "put -- before `erl': `whittle trace -- CMD'; see `whittle help trace'"},
             {2, ["-o", "x", "erl", "-noshell"],
              "put -- before `erl': `whittle trace -- CMD'; see `whittle help trace'"},
             {2, ["--typo", "x", "erl"], "there is no option --typo; see `whittle help trace'"},
             {2, ["--typo", "-o", "x"], "there is no option --typo; see `whittle help trace'"},
             {2, ["-noshell"], "there is no option -noshell; see `whittle help trace'"},
             {2, ["-o"], "-o needs a value; see `whittle help trace'"}]],
    ?assertEqual([], filelib:wildcard(out("no*", Config))).

%% The message comes before the command runs.
nowhere_to_write(Config) ->
    Dir = filename:dirname(out("x", Config)),
    [?assertEqual({1, iolist_to_binary(["whittle: ", Line, $\n])},
                  trace(File, ["sh", "-c", "echo ran"]))
     || {File, Line} <- [{Dir, [Dir, " is a directory: name a file with -o"]},
                         {"/dev/null", "/dev/null is a pipe, a socket, a device or a file of the "
                                       "kernel: name a file with -o"},
                         {Dir ++ "/no/x",
                          [Dir, "/no/x cannot be written, because the directory ", Dir, "/no does "
                           "not exist: create it, or name another output with -o"]}]].

%% The output of neither command replaces the program that it runs.
program_as_output(Config) ->
    Program = out("program", Config),
    ok = file:write_file(Program, "#!/bin/sh\necho ran\n"),
    ok = file:change_mode(Program, 8#755),
    Refused = {1, iolist_to_binary(["whittle: ", Program, " is the program itself: name another "
                                    "output with -o\n"])},
    ?assertEqual(Refused, trace(Program, [Program])),
    ?assertEqual(Refused, running:whittle(["tune", Program, "-o", Program])).

%% A failure during the run must not lose the recording of an hour.
not_written(Config) ->
    File = out("between.trace", Config),
    {1, Output} = trace(File, ["sh", "-c", "mkdir \"$0\"; erl -noshell -s sets new -s init stop",
                               File]),
    {match, [Kept]} = re:run(Output, ["^whittle: ", File, " is a directory: name a file with -o; "
                                      "the recording is in (.*): move it\n$"],
                             [{capture, all_but_first, list}]),
    ?assert(is_called({sets, new, 0}, Kept)),
    {ok, _} = file:copy(Kept, out("moved.trace", Config)),
    ok = file:del_dir_r(filename:dirname(Kept)).

%% A program's path that looks like an assignment; a temporary directory with a relative path, or
%% with a pattern in its name.
odd_names(Config) ->
    Dir = filename:dirname(out("odd/x", Config)),
    Program = filename:join(Dir, "A=b it's"),
    ok = file:write_file(Program, "#!/bin/sh\ncd / && erl -noshell -s sets new -s init stop\n"
                         "echo \"$1\"\n"),
    ok = file:change_mode(Program, 8#755),
    Temporary = "t [x] {y} it's",
    _ = file:make_dir(filename:join(Dir, Temporary)),
    ?assertMatch({0, <<"a  b\n", _/binary>>},
                 running:run(whittle(), ["trace", "-o", "odd.trace", "--", Program, "a  b"],
                             #{cd => Dir, env => [{"TMPDIR", Temporary}]})),
    ?assert(is_called({sets, new, 0}, filename:join(Dir, "odd.trace"))),
    ?assertEqual({ok, []}, file:list_dir(filename:join(Dir, Temporary))).

%% The user has set a variable that the script uses itself.
traced_is_ours(Config) ->
    File = out("ours/x", Config),
    ok = file:write_file(File, "mine"),
    ?assertMatch({0, _}, running:run(whittle(), ["trace", "-o", out("ours.trace", Config), "--",
                                                 "erl", "-noshell", "-s", "init", "stop"],
                                     #{env => [{"WHITTLE_TRACED", filename:dirname(File)}]})),
    ?assertEqual({ok, <<"mine">>}, file:read_file(File)).

%% Signals that go to the command alone. erl ends with 1 after SIGUSR1.
signals_are_passed_on(Config) ->
    File = out("signals.trace", Config),
    [begin
         %% Under `nohup' the tests themselves ignore this signal.
         Trace = running:start("/usr/bin/env",
                               ["--default-signal=HUP", whittle(), "trace", "-o", File, "--",
                                "erl", "-noshell", "-eval", "io:put_chars(\"ready\\n\")."],
                               #{env => [{"ERL_CRASH_DUMP_SECONDS", "0"}]}),
         <<>> = running:until(Trace, <<"ready\n">>),
         running:signal(Trace, Signal),
         ?assertMatch({Code, _}, running:ended(Trace))
     end || {Signal, Code} <- [{"HUP", 129}, {"USR1", 1}, {"USR2", 140}, {"ALRM", 142},
                             {"TERM", 0}]],
    ?assert(is_called({init, stop, 0}, File)).

%% SIGINT to the command alone. The program is the output, because it stops on the first SIGINT, and
%% a second one would end it at once.
interrupt_is_passed_on(Config) ->
    File = out("interrupt.trace", Config),
    Temporary = filename:dirname(out("temporary/file", Config)),
    ok = filelib:ensure_path(Temporary),
    Trace = running:start(whittle(), ["trace", "-o", File, "--", proplists:get_value(probe, Config),
                                      "wait"], #{env => [{"TMPDIR", Temporary}]}),
    _ = running:until(Trace, <<"ready ">>),
    running:signal(Trace, "INT"),
    ?assertMatch({130, _}, running:ended(Trace)),
    ?assert(is_called({init, stop, 0}, File)),
    ?assertEqual({ok, []}, file:list_dir(Temporary)).

%% A typed Ctrl-C is for the program; the command still writes the recording.
control_c(Config) ->
    File = out("typed.trace", Config),
    Typed = out("typed", Config),
    ok = file:write_file(Typed, [whittle(), " trace -o ", File, " -- ",
                                 proplists:get_value(probe, Config), " wait\n"]),
    Terminal = running:start("/bin/sh", ["-c", "env --default-signal=INT,QUIT script -qec "
                                         "\". '" ++ Typed ++ "'\" /dev/null"]),
    _ = running:until(Terminal, <<"ready ">>),
    true = port_command(Terminal, [3]),
    {130, Output} = running:ended(Terminal),
    ?assertMatch({match, _}, re:run(Output, "typed.trace: \\d+ functions ")),
    ?assert(is_called({init, stop, 0}, File)).

%% Settings of whittle's own VM do not reach the program.
crash_dump(Config) ->
    Dump = out("dump", Config),
    {1, _} = running:run(whittle(), ["run", proplists:get_value(probe, Config), "abort"],
                         #{env => [{"ERL_CRASH_DUMP", Dump}]}),
    ?assertMatch({ok, <<"=erl_crash_dump:", _/binary>>}, file:read_file(Dump)),
    {0, Output} = trace(out("own.trace", Config),
                        ["sh", "-c", "erl -noshell -s init stop; "
                         "echo \"seconds $ERL_CRASH_DUMP_SECONDS, terminal $WHITTLE_TERMINAL\""]),
    ?assertMatch(<<"seconds , terminal \n", _/binary>>, Output).

%% The build

%% The shaken output contains every function that the whole system called, or an entry explains it.
plan_holds(Config) ->
    ?assertMatch({0, _}, build("holds", ["--evidence", out("hello.trace", Config)], Config)).

%% The program reads a setting from its start as a term.
feature_that_was_used(Config) ->
    File = out("terms.trace", Config),
    Set = [{"ERL_FLAGS", "-hello foo 1"}],
    {0, _} = running:run(whittle(), ["trace", "-o", File, "--", proplists:get_value(hello, Config)],
                         #{env => Set}),
    {1, Lines} = build("terms", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^erl_scan:string/1: the feature terms is off$")),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^whittle: the build would remove \\d+ functions? "
                                    "that the recorded run called: keep all of them with --seen "
                                    "keep, or name each one with --keep FILE or turn its feature "
                                    "on or off with --feature$")),
    ?assertMatch({0, _}, build("terms", ["--evidence", File, "--seen", "keep"], Config)),
    ?assertEqual({0, <<"Hello from one file.\n">>},
                 running:run(out("terms", Config), [], #{env => Set})).

edge_that_is_missing(Config) ->
    File = out("edge.trace", Config),
    {0, _} = trace(File, [stock(), "-noshell", "-boot", "no_dot_erlang", "-s", "sofs", "empty_set",
                          "-pa", ebin(), "-s", "hello", "stop", "now", "-s", "init", "stop"]),
    {1, Lines} = build("edge", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^sofs:empty_set/0: Whittle found no kept function "
                                    "that calls it$")),
    {0, _} = build("edge", ["--evidence", File, "--seen", "keep"], Config),
    ?assertEqual({0, <<"sofs:empty_set/0 is kept\n  called by the recording\n\n">>},
                 running:whittle(["why", out("edge", Config), "sofs:empty_set/0"])),
    %% A cold function that the recording contains becomes hot.
    Load = out("edge_load", Config),
    {0, _} = running:whittle(["build", example(), "-o", Load, "--shake", "functions",
                              "--evidence", File]),
    ?assertEqual({0, <<"sofs:empty_set/0 is kept\n  called by the recording\n\n">>},
                 running:whittle(["why", Load, "sofs:empty_set/0"])).

%% The recording comes from another OTP than the build's.
other_build(Config) ->
    File = out("other.trace", Config),
    {0, _} = trace(File, ["erl", "-noshell", "-s", "init", "stop"]),
    {1, Line} = build("other", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Line, "^whittle: the recording is of another version of the "
                                    "program: its module \\w+ is different; record again with "
                                    "`whittle trace', with the program and the OTP of this "
                                    "build\n$")).

%% The tests are Erlang programs on the host's OTP; functions that only they call do not count.
driver_of_another_otp(Config) ->
    case release("erl") =:= release(stock()) of
        true -> {skip, "the stock OTP is the host's"};
        false ->
            File = out("driver.trace", Config),
            {0, Output} = trace(File, ["erl", "-noshell", "-eval",
                                       "digraph:new(),io:put_chars(os:cmd(os:getenv(\"PROGRAM\"))),"
                                       "init:stop()."],
                                [{"PROGRAM", proplists:get_value(hello, Config)}]),
            ?assertMatch({_, _}, binary:match(Output, <<" in 2 VMs\n">>)),
            ?assert(is_called({digraph, new, 0}, File)),
            {0, Said} = build("driver", ["--evidence", File], Config),
            ?assertMatch({_, _}, binary:match(Said, <<"the recording has 2 VMs, and the build "
                                                      "uses 1 of them: ">>)),
            %% The driver alone is no recording of the program.
            Alone = out("alone.trace", Config),
            {0, _} = trace(Alone, ["erl", "-noshell", "-eval", "digraph:new(), init:stop()."]),
            {1, Line} = build("driver", ["--evidence", Alone], Config),
            ?assertMatch({_, _}, binary:match(Line, <<"the recording is of another version of "
                                                      "the program: ">>))
    end.

%% Another program on the same OTP shares nothing else with it, whatever happens to the rest.
other_program(Config) ->
    Line = fun(Other, This) ->
                   unicode:characters_to_binary(
                     ["whittle: the recording is of another program (module ", Other, "), and "
                      "this build is of ", This, ": name the recording of ", This, " with "
                      "--evidence, or build the program of ", Other, $\n])
           end,
    File = out("other_program.trace", Config),
    {0, _} = trace(File, [proplists:get_value(words, Config)]),
    ?assertEqual({1, Line("words", "hello")},
                 build("other_program", ["--evidence", File], Config)),
    Words = ["build", out("words.escript", Config), "-o", out("other_program", Config), "--shake",
             "functions", "--evidence", out("hello.trace", Config)],
    ?assertEqual({1, Line("hello", "words")}, running:whittle(Words)).

own_in_another_version(Config) ->
    Dir = out("changed", Config),
    Source = filename:join(Dir, "src/hello.erl"),
    {0, <<>>} = running:run("/bin/cp", ["-R", example(), Dir]),
    {ok, Text} = file:read_file(Source),
    ok = file:write_file(Source, binary:replace(Text, <<"Hello from">>, <<"Good bye from">>)),
    File = out("changed.trace", Config),
    {0, Output} = trace(File, ["sh", "-c", "\"$0\" && \"$1\"", proplists:get_value(hello, Config),
                               running:build(Dir, out("changed_hello", Config))]),
    ?assertMatch(<<"Hello from one file.\nGood bye from one file.\n", _/binary>>, Output),
    %% One of both programs is the program of the build.
    ?assertMatch({0, _}, build("changed_build", ["--evidence", File], Config)),
    {0, _} = trace(File, [out("changed_hello", Config)]),
    ?assertEqual({1, <<"whittle: the recording is of another version of the program: its module "
                       "hello is different; record again with `whittle trace', with the program "
                       "and the OTP of this build\n">>},
                 build("changed_build", ["--evidence", File], Config)).

%% An earlier `whittle trace' wrote this format.
old_file(Config) ->
    File = out("old.trace", Config),
    ok = file:write_file(File, "whittle evidence 1\n"),
    ?assertEqual({1, iolist_to_binary(["whittle: ", File, " has the format of another version of "
                                       "Whittle (1): record it again with `whittle trace'\n"])},
                 build("old", ["--evidence", File], Config)).

bad_evidence(Config) ->
    File = out("bad.trace", Config),
    {ok, Good} = file:read_file(out("hello.trace", Config)),
    [begin
         ok = file:write_file(File, Bytes),
         ?assertEqual({1, iolist_to_binary(["whittle: ", File, $\s, Words, $\n])},
                      build("bad", ["--evidence", File], Config))
     end || {Bytes, Words} <-
                [{"lists:map/2\n", "is not a recording of `whittle trace': name one with "
                                   "--evidence"},
                 {binary:part(Good, 0, byte_size(Good) - 1),
                  "is damaged: record it again with `whittle trace'"}]],
    ?assertEqual({1, iolist_to_binary(["whittle: ", File, ".no cannot be read (no such file or "
                                       "directory): check the path given to --evidence\n"])},
                 build("bad", ["--evidence", File ++ ".no"], Config)).

bad_words(Config) ->
    [?assertEqual({2, iolist_to_binary(["whittle: ", Line, $\n])},
                  running:whittle(["build", example(), "-o", out("words", Config) | Words]))
     || {Words, Line} <- [{["--evidence", "x"],
                           "--evidence has no effect without --shake: add --shake functions"},
                          {["--shake", "functions", "--seen", "keep"],
                           "--seen has no effect without a recording: name one with "
                           "--evidence FILE"}]].

%% Internal functions

whittle() -> filename:join(running:root(), "whittle").

stock() -> filename:join(running:otp_root(), "bin/erl").

lib() -> filename:dirname(filename:dirname(filename:dirname(code:which(whittle)))).

release(Erl) ->
    {0, Release} = running:run("/bin/sh", ["-c", "exec \"$0\" -noshell -eval "
                                           "'io:put_chars(erlang:system_info(otp_release)), "
                                           "halt().'", Erl]),
    Release.

%% Returns the command's message for a VM that it cannot record.
nothing(File, Erl) ->
    iolist_to_binary(["whittle: the trace recorded nothing, so Whittle did not write "
                      "", File, ": the "
                      "command started no Erlang VM that Whittle can record, or the VM ended at "
                      "once; give a command that starts a VM of OTP ", release(Erl),
                      " or newer, or an executable that Whittle built without --shake "
                      "(docs/recordings.md of Whittle's source describes both)\n"]).

trace(File, Command) -> running:whittle(["trace", "-o", File, "--" | Command]).

trace(File, Command, Env) ->
    running:run(whittle(), ["trace", "-o", File, "--" | Command], #{env => Env}).

build(Name, Options, Config) ->
    running:whittle(["build", example(), "-o", out(Name, Config), "--shake", "functions",
                     "--missing", "crash" | Options]).

is_called({M, F, A}, File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, Evidence} = whittle_shake_evidence:from_binary(Bytes),
    lists:any(fun({Of, _, Functions}) -> Of =:= M andalso lists:member({F, A}, Functions) end,
              whittle_shake_evidence:calls(Evidence)).

%% The directory where the build compiled the example.
ebin() -> filename:join(example(), "_build/default/lib/hello/ebin").

example() -> filename:join([running:root(), "examples", "hello"]).

out(Name, Config) ->
    Out = filename:join([proplists:get_value(priv_dir, Config), "trace", Name]),
    ok = filelib:ensure_dir(Out),
    Out.
