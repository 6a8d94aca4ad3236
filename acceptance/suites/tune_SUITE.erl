%% Tests `whittle tune' with a built program: as it runs it, and as a running node.
-module(tune_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([explained/1, explained_application/1, node_explained/1, serial_explained/1,
         other_cookie/1, no_node/1, lines_of_a_failure/1, wrong_arguments/1, searched/1, page/1,
         built/1, recorded/1, bad_recordings/1, emulated_program/1, same_under_emulation/1,
         interrupted/1]).

all() -> [explained, explained_application, node_explained, serial_explained, other_cookie,
          no_node, lines_of_a_failure, wrong_arguments, interrupted, searched, page, built,
          recorded, bad_recordings, emulated_program, same_under_emulation].

%% The relay has nothing that answers calls of other nodes but `rex'.
init_per_suite(Config) ->
    Dir = running:directory("tune", Config),
    Relay = running:build(running:example("relay"), filename:join(Dir, "relay"),
                          ["--shake", "functions", "--missing", "crash", "--remote", "none",
                           "--data", "none", "--atoms", "none", "--feature", "+terms"]),
    ok = file:write_file(filename:join(Dir, "sys.config"), "[{relay, [{port, 0}]}].\n"),
    ok = running:install_charts(),
    [{dir, Dir}, {relay, Relay}, {epmd, running:free_port()} | Config].

end_per_suite(Config) -> running:end_epmd(proplists:get_value(epmd, Config)).

%% Each line of the table has a name, bytes and a share, and the last is the sum.
explained(Config) ->
    {0, Output} = tune(["--explain", relay(Config), "--seconds", "2"], Config),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
     || Pattern <- ["^memory +bytes +share$",
                    "^processes: heaps and stacks +[1-9][0-9,]+ +[0-9.]+ %$",
                    "^process table \\(\\+P\\) +196,608 ",
                    "^free space in eheap_alloc carriers +[1-9]",
                    "^the VM's program +[1-9]",
                    "^stacks of threads +[1-9]",
                    "^resident \\(RSS\\) +[1-9][0-9,]+ +100.0 %$",
                    "^process +bytes +unused$",
                    "^code_server +[1-9]",
                    "^ETS table +bytes$",
                    "^change to the code +bytes now +bytes then +measured by$",
                    "^let the process hibernate: code_server +[1-9]",
                    "^The line of C code is what the other lines leave\\."]],
    ?assertEqual(nomatch, re:run(Output, "is unexplained")),
    {0, Json} = tune(["--explain", relay(Config), "--seconds", "1", "--json"], Config),
    #{<<"rss">> := Rss, <<"lines">> := Lines, <<"changes">> := #{<<"list">> := [Change | _]}} =
        jiffy:decode(Json, [return_maps]),
    ?assertEqual(Rss, lists:sum([Bytes || #{<<"bytes">> := Bytes} <- Lines])),
    ?assertMatch(#{<<"kind">> := <<"hibernate">>, <<"now">> := _, <<"then">> := _}, Change).

%% Whittle builds an application first, and runs a workload beside it.
explained_application(Config) ->
    {0, Output} = tune(["--explain", running:example("relay"),
                        "--workload", "test -d /proc/$WHITTLE_PID"], Config),
    ?assertMatch({match, _}, re:run(Output, "^relay +[1-9]", [multiline])).

node_explained(Config) ->
    Relay = start(Config),
    {0, Output} = tune(["--explain", "--node", name()], Config),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
     || Pattern <- ["^processes: heaps and stacks +[1-9]", "^resident \\(RSS\\) +[1-9]",
                    "^net_kernel +[1-9]", "a garbage collection on the node$"]],
    ?assertEqual(nomatch, re:run(Output, "is unexplained")),
    ok = running:signal(Relay, "TERM"),
    {0, _} = running:ended(Relay).

%% A shaken program without distribution, on a pseudo-terminal.
serial_explained(Config) ->
    Program = running:build(running:fixture("console"), in("console", Config),
                            ["--shake", "functions", "--missing", "crash"]),
    Script = filename:join(running:root(),
                           "host/whittle_tune/test/whittle_tune_serial_SUITE_data/cable.py"),
    Cable = open_port({spawn_executable, os:find_executable("python3")},
                      [{args, [Script, "0", "1", Program]}, {line, 1000}]),
    Line = receive {Cable, {data, {eol, Path}}} -> Path end,
    {0, Output} = tune(["--explain", "--serial", Line], Config),
    true = port_close(Cable),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
     || Pattern <- ["^processes: heaps and stacks +[1-9]", "^stacks of threads +[1-9]",
                    "^resident \\(RSS\\) +[1-9]", "^code_server +[1-9]",
                    "^A console does not show which changes"]],
    ?assertEqual(nomatch, re:run(Output, "is unexplained")).

other_cookie(Config) ->
    Relay = start(Config),
    ?assertMatch({1, <<"whittle: tuned (without @HOST this is a node of this machine) does not "
                       "answer: it is not running, or it has another cookie", _/binary>>},
                 tune(["--explain", "--node", name()], [{"RELEASE_COOKIE", "another"}], Config)),
    ok = running:signal(Relay, "TERM"),
    {0, _} = running:ended(Relay).

no_node(Config) ->
    ?assertMatch({1, <<"whittle: nobody (without @HOST this is a node of this machine) does not "
                       "answer: ", _/binary>>},
                 tune(["--explain", "--node", "nobody"], Config)),
    %% A long name needs neither epmd nor a domain of this machine.
    ?assertEqual({1, <<"whittle: nobody@127.0.0.1 does not answer: it is not running, or it has "
                       "another cookie (set RELEASE_COOKIE or WHITTLE_COOKIE_FILE as for the "
                       "node)\n">>},
                 tune(["--explain", "--node", "nobody@127.0.0.1"],
                      [{"ERL_EPMD_PORT", integer_to_list(running:free_port())}], Config)).

%% The last lines of the program stand above the error line.
lines_of_a_failure(Config) ->
    Program = filename:join(proplists:get_value(dir, Config), "failing"),
    ok = file:write_file(Program, "#!/bin/sh\necho one\necho two\nexit 3\n"),
    ok = file:change_mode(Program, 8#755),
    ?assertEqual({1, <<"one\ntwo\nwhittle: the program ended with exit code 3: its last line is "
                       "`two': correct the program or its arguments\n">>},
                 tune(["--explain", Program, "--workload", "tail -f /dev/null"], Config)).

wrong_arguments(Config) ->
    [begin
         {Got, Line} = tune(Arguments, Config),
         ?assertEqual({Arguments, Code}, {Arguments, Got}),
         ?assertMatch({Line, {match, _}}, {Line, re:run(Line, Pattern)})
     end
     || {Arguments, Code, Pattern} <-
            [{[], 2, "needs"},
             {["--explain"], 2, "needs PATH, --node NAME or --serial LINE; see"},
             {["--serial", "/dev/x"], 2, "--serial needs --explain"},
             {["--explain", "--serial", "/dev/x", "a"], 2, "so `a' has no effect"},
             {["--explain", "--serial", "/dev/x", "--node", "a"], 2, "--node has no effect with"},
             {["--explain", "--serial", "/dev/x", "--ready", "a"], 2, "--ready has no effect with"},
             {["--explain", "--serial", "/nowhere"], 1, "^whittle: /nowhere cannot be opened"},
             {["--explain", "/nowhere"], 1, "^whittle: /nowhere is neither a program nor"},
             {["--explain", "a", "b"], 2, "unexpected argument `b'"},
             {["--explain", "--node", "x", "a"], 2, "so `a' has no effect"},
             {["--explain", "a", "--ram", "24M"], 2, "--ram has no effect with --explain: remove"},
             {["--explain", "a", "--max-slowdown", "9%"], 2, "--max-slowdown has no effect with"},
             {["--explain", "a", "--time", "9"], 2, "--time has no effect with --explain"},
             {["--explain", "a", "--blocks", "9"], 2, "--blocks has no effect with --explain"},
             {["--explain", "a", "-o", "f"], 2, "--out has no effect with --explain"},
             {["--explain", "--node", "x", "--ram", "9"], 2, "--ram has no effect with --node"},
             {["--explain", "--node", "x", "--seconds", "9"], 2, "--seconds has no effect with"},
             {["--explain", "a", "--seconds", "0"], 2, "--seconds cannot be `0'"},
             {["--explain", "a", "--ready", "("], 2, "--ready: missing"},
             {["--node", "x"], 2, "--node needs --explain"},
             {["a", "--try", "relay workers"], 2, "--try cannot be `relay workers'; give an"},
             {["a", "--try", "Relay workers 1"], 2, "--try cannot be"},
             {["a", "--try", "relay workers \"x\""], 2, "--try cannot be"},
             {["a", "--try", "relay workers {1"], 2, "--try cannot be"},
             {["--explain", "a", "--try", "a b 1"], 2, "--try has no effect with --explain"},
             {["a", "--ram", "24"], 2, "--ram is 24 bytes: give a size such as 24M"},
             {["a", "--ram", "24X"], 2, "--ram cannot be `24X'; give a size such as 24M"},
             {["a", "--max-slowdown", "much"], 2, "--max-slowdown cannot be `much'"},
             {["a", "--time", "0"], 2, "--time cannot be `0'; give a time such as"},
             {["/nowhere"], 1, "^whittle: /nowhere is neither a program nor"},
             {[relay(Config), "-o", "/nowhere/x"], 1, "/nowhere"},
             {[relay(Config), "--ram", "2M", "-o", in("small", Config)], 1,
              "whittle: the program's code and the VM alone take [0-9,]+ bytes, more than"}]].

%% A search of a program that works for half a second. Its settings hold the limits in runs that the
%% search did not use.
searched(Config) ->
    {0, Output} = tune([working(Config), "--time", "20m", "--blocks", "1", "--max-slowdown", "100%",
                        "-o", in("found", Config)], Config),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
     || Pattern <- ["^validation +peak RSS +against own", "^own +[1-9][0-9,]+ +1.000 ",
                    "^stock +", "^mea_min +", "^whittle +", "^grisp_nano +", " recommended$",
                    "^best of the search +", "^setting +value", "^the settings: .*/found$",
                    "^the page: .*/found.tuning/page.html$"]],
    {ok, [#{flags := [_ | _]}]} = file:consult(in("found", Config)).

%% The browser shows the trade-off and a chart for each response.
page(Config) ->
    Page = in("found.tuning/page.html", Config),
    #{text := Text} = Opened = pages:opened(Page),
    ?assertMatch(#{figures := 4, tables := 4}, Opened),
    ?assertMatch({_, _}, binary:match(Text, <<"Memory against time">>)),
    ?assertMatch({_, _}, binary:match(Text, <<"Made by whittle tune ">>)).

%% A build with the settings: the VM has them.
built(Config) ->
    Settings = in("chosen", Config),
    ok = file:write_file(Settings, "#{flags => [\"+P\", \"2048\"],\n"
                                   "  environment => [{\"ERL_FULLSWEEP_AFTER\", \"7\"}]}.\n"),
    Script = in("limits.escript", Config),
    ok = file:write_file(Script, "#!/usr/bin/env escript\nmain(_) -> io:format(\"~p ~p\", "
                                 "[erlang:system_info(process_limit), "
                                 "erlang:system_info(fullsweep_after)]).\n"),
    Limits = running:build(Script, in("limits", Config), ["--settings", Settings]),
    ?assertEqual({0, <<"2048 {fullsweep_after,7}">>}, running:run(Limits, [])),
    ?assertMatch({1, <<"whittle: /nowhere cannot be read", _/binary>>},
                 running:whittle(["build", Script, "-o", in("limits", Config), "--settings",
                                  "/nowhere"])).

%% A build uses the recording that the file of settings names, and says so.
recorded(Config) ->
    Hello = running:build(running:example("hello"), in("hello", Config)),
    Settings = with_recording("recorded.settings", Hello, Config),
    {0, Output} = running:whittle(["build", running:example("hello"), "-o", in("seen", Config),
                                   "--settings", Settings]),
    ?assertMatch({match, _},
                 re:run(Output, "^note: --settings shakes functions with the recording "
                        "\\S+/recorded.settings.trace \\(--seen only\\)$", [multiline])).

%% A recording that is missing, damaged, or of another program ends the build with one line.
bad_recordings(Config) ->
    Other = in("other.escript", Config),
    ok = file:write_file(Other, "#!/usr/bin/env escript\n-module(other).\n-export([main/1]).\n"
                         "main(_) -> io:put_chars(\"other\\n\").\n"),
    Settings = with_recording("other.settings", running:build(Other, in("other", Config)), Config),
    Trace = Settings ++ ".trace",
    Build = fun() -> running:whittle(["build", running:example("hello"), "-o", in("no", Config),
                                      "--settings", Settings]) end,
    Line = fun(Pattern) ->
                   {1, Output} = Build(),
                   ?assertMatch({Output, {match, _}},
                                {Output, re:run(Output, ["^whittle: \\S+/other.settings", Pattern,
                                                         "[^\n]*\n$"])})
           end,
    {1, Refused} = Build(),
    ?assertMatch({match, _},
                 re:run(Refused, "whittle: the recording is of another program \\(module other\\), "
                        "and this build is of hello: [^\n]*\n$")),
    ok = file:write_file(Trace, "no recording"),
    Line(".trace is not a recording"),
    ok = file:delete(Trace),
    Line(": its recording \\S+/other.settings.trace cannot be read .*, and must lie beside it: ").

%% The account of a program for another processor is that of the program, not of its emulator.
emulated_program(Config) ->
    [Target] = [Each || #{name := "armv7"} = Each <- whittle_runtime:targets()],
    case emulated:lacks(Target) of
        none ->
            Program = filename:join(code:priv_dir(whittle_measure), "programs/waiting"),
            Waiting = running:build(Program, in("waiting", Config), ["--target", "armv7"]),
            {0, Json} = tune(["--explain", Waiting, "--seconds", "1", "--json"], Config),
            #{<<"rss">> := Rss, <<"lines">> := Lines} = jiffy:decode(Json, [return_maps]),
            Bytes = fun(Name) -> hd([Number || #{<<"name">> := Of, <<"bytes">> := Number} <- Lines,
                                               Of =:= Name]) end,
            %% qemu alone takes 25 MB.
            ?assert(Rss < 20_000_000, Rss),
            ?assertEqual(Rss, lists:sum([Number || #{<<"bytes">> := Number} <- Lines])),
            ?assert(Bytes(<<"the VM's program">>) > 1_000_000),
            ?assert(Bytes(<<"processes: heaps and stacks">>) > 50_000);
        Lack -> {skip, Lack}
    end.

%% One program has about the same memory with and without an emulator for this processor. The memory
%% of the emulator alone, 25 MB, is larger than that of the program.
same_under_emulation(Config) ->
    Default = whittle_runtime:default_target(),
    [#{triple := Triple}] = [Each || #{name := Name} = Each <- whittle_runtime:targets(),
                                     Name =:= Default],
    case os:find_executable("qemu-" ++ hd(string:lexemes(Triple, "-"))) of
        false -> {skip, "there is no qemu-user"};
        Emulator ->
            Script = in("under an emulator", Config),
            ok = file:write_file(Script, ["#!/bin/sh\nexec env WHITTLE_EMULATOR='", Emulator, "' '",
                                          Emulator, "' '", relay(Config), "'\n"]),
            ok = file:change_mode(Script, 8#755),
            [Here, There] = [rss(Program, Config) || Program <- [relay(Config), Script]],
            ?assert(There < 2 * Here andalso Here < 2 * There, {Here, There})
    end.

rss(Program, Config) ->
    {0, Json} = tune(["--explain", Program, "--seconds", "2", "--json"], Config),
    #{<<"rss">> := Rss} = jiffy:decode(Json, [return_maps]),
    Rss.

%% Ctrl-C ends a search at once, and the samples are there. The program says that a run begins, in a
%% pipe.
interrupted(Config) ->
    Said = in("said", Config),
    "" = os:cmd("mkfifo '" ++ Said ++ "'"),
    Reader = running:start("/bin/sh", ["-c", "exec 3<>\"$0\"; cat <&3", Said]),
    Program = program("interrupted", ["echo run >'", Said, "'\n"], Config),
    Tune = running:start(filename:join(running:root(), "whittle"),
                         ["tune", Program, "-o", in("stopped", Config)], #{env => keep}),
    %% Two runs for the account, and then those of the search.
    _ = running:until(Reader, <<"run\nrun\nrun\nrun\nrun\n">>),
    ok = running:signal(Tune, "INT"),
    {130, _} = running:ended(Tune),
    ok = running:signal(Reader, "TERM"),
    {ok, Samples} = file:read_file(in("stopped.tuning/samples.jsonl", Config)),
    ?assertEqual(2, length(binary:matches(Samples, <<"\n">>))).

%% Internal functions

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).

%% A file of settings as a search with --record writes it, for a program that it ran.
with_recording(Name, Program, Config) ->
    Settings = in(Name, Config),
    ok = file:write_file(Settings, ["#{flags => [], environment => [], build => #{evidence => \"",
                                    Name, ".trace\", seen => only}}.\n"]),
    {0, _} = running:whittle(["trace", "-o", Settings ++ ".trace", "--", Program]),
    Settings.

working(Config) -> program("working", "", Config).

%% A VM that works for a third of a second and ends. `init:stop/0' would take another second. The
%% run for the account has ERL_CRASH_DUMP and waits longer, so that the VM is still there then.
program(Name, First, Config) ->
    File = in(Name, Config),
    ok = file:write_file(File, ["#!/bin/sh\n", First, "exec '", os:find_executable("erl"),
                                "' -noshell -eval 'io:put_chars(\"ready\\n\"), "
                                "[lists:foldl(fun(N, S) -> [N | S] end, [], lists:seq(1, 40000)) "
                                "|| _ <- lists:seq(1, 8)], "
                                "receive after case os:getenv(\"ERL_CRASH_DUMP\") of false -> 300; "
                                "_ -> 1500 end -> halt() end'\n"]),
    ok = file:change_mode(File, 8#755),
    File.

name() -> "tuned".

relay(Config) -> proplists:get_value(relay, Config).

%% The relay runs as a node on loopback.
start(Config) ->
    Port = running:start(relay(Config), [],
                         #{env => [{"ERL_FLAGS", "-sname " ++ name() ++ " -kernel "
                                    "inet_dist_use_interface {127,0,0,1}"}
                                   | environment(Config)]}),
    _ = running:until(Port, <<"listens">>),
    Port.

environment(Config) ->
    [{"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))},
     {"ERL_EPMD_ADDRESS", "127.0.0.1"},
     {"RELEASE_COOKIE", "tuning"},
     {"RELX_CONFIG_PATH", filename:join(proplists:get_value(dir, Config), "sys.config")}].

tune(Arguments, Config) -> tune(Arguments, [], Config).

%% Later settings win.
tune(Arguments, Environment, Config) ->
    Names = [Name || {Name, _} <- Environment],
    Kept = [Pair || {Name, _} = Pair <- environment(Config), not lists:member(Name, Names)],
    running:run(filename:join(running:root(), "whittle"), ["tune" | Arguments],
                #{env => Kept ++ Environment}).
