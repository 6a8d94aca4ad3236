%% Tests the messages of tools/setup about a machine, by the commands that it finds there, the
%% checks and summaries of make, and that make does nothing if everything is built.
-module(setup_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([all_there/1, missing_elsewhere/1, missing_without_rights/1, asks_nothing/1,
         said_at_once/1, part_needs/1, made_once/1, packages_are_well_formed/1, skips_are_told/1,
         failed_tests/1, parts_beside/1, failed_builds/1, format_of_scripts/1]).

all() ->
    [all_there, missing_elsewhere, missing_without_rights, asks_nothing, said_at_once,
     part_needs, made_once, packages_are_well_formed, skips_are_told, failed_tests, parts_beside,
     failed_builds, format_of_scripts].

%% The tests run, so this machine has everything, with Debian's packages or without. A test never
%% installs anything.
all_there(Config) ->
    ?assertEqual({0, <<>>}, install(without(["apt-get"], Config))),
    ?assertEqual({0, <<>>}, install(without(["apt-get", "dpkg-query"], Config))).

missing_elsewhere(Config) ->
    ?assertEqual({2, <<"setup: this is not a Debian system; install what has these "
                       "(Debian's package):\n"
                       "  zstd (zstd): compresses the pack\n"
                       "  strace (strace): shows that nothing is written to disk\n">>},
                 install(without(["dpkg-query", "zstd", "strace"], Config))).

missing_without_rights(Config) ->
    Bin = without(["dpkg-query", "zstd", "strace", "id", "sudo"], Config),
    command(Bin, "dpkg-query", "exit 1"),
    command(Bin, "id", "echo 1000"),
    {2, Said} = install(Bin),
    ?assertMatch({match, _}, re:run(Said, "^setup: no rights .*\n  apt-get install "
                                    "--no-install-recommends .*\\bzstd\\b.*\\bstrace\\b.*\n$")),
    %% Only its package identifies this one, so a machine without packages lacks it.
    ?assertMatch({match, _}, re:run(Said, "\\bdpkg-dev\\b")),
    ?assertEqual(nomatch, re:run(Said, "\\bpatch\\b")).

%% sudo passes on no environment, and no package may ask a question.
asks_nothing(Config) ->
    Bin = without(["dpkg-query", "zstd", "id", "sudo", "apt-get"], Config),
    Said = filename:join(Bin, "said"),
    command(Bin, "dpkg-query", "exit 1"),
    command(Bin, "id", "echo 1000"),
    command(Bin, "sudo", "shift; exec env -i PATH=\"$PATH\" \"$@\""),
    %% The first two words set how long apt-get waits for its lock.
    command(Bin, "apt-get", "echo \"$3 $DEBIAN_FRONTEND\" >>'" ++ Said ++ "'"),
    ?assertMatch({0, <<"setup: installing ", _/binary>>}, install(Bin)),
    ?assertEqual({ok, <<"update \ninstall noninteractive\n">>}, file:read_file(Said)).

%% The message comes before any other work.
said_at_once(_Config) ->
    ?assertMatch([<<"tools/setup build test cross board web lib">> | _], commands("test")).

%% One part installs only what it needs, and it is checked like the whole.
part_needs(_Config) ->
    [<<"tools/setup build web">> | Web] = commands("test PART=web"),
    ?assertEqual([<<"tools/format">>, <<"rebar3 xref">>],
                 [Line || Line <- Web, Check <- [<<"tools/format">>, <<"rebar3 xref">>],
                          Line =:= Check]),
    ?assertEqual([], [Line || Line <- Web, string:find(Line, "whittle build") =/= nomatch]),
    [<<"tools/setup build test">> | Host] = commands("test PART=host"),
    ?assertMatch([_], [Line || Line <- Host, string:find(Line, "whittle build") =/= nomatch]).

commands(Words) ->
    {0, Commands} = running:run(os:find_executable("make"),
                                ["-n", "--no-print-directory", "-C", running:root()
                                 | string:lexemes(Words, " ")]),
    binary:split(Commands, <<"\n">>, [global]).

%% The last lines of a run name each skipped test. Here another make stands for the runner.
skips_are_told(Config) ->
    Dir = running:directory("skips", Config),
    Log = filename:join(Dir, "log"),
    ok = file:write_file(
           Log, <<"%%% one_SUITE ==> init_per_suite: \e[0;35mSKIPPED\e[0m\n"
                 "%%% one_SUITE ==> \e[0;35m{tc_user_skip,\"no qemu\"}\e[0m\n"
                 "%%% one_SUITE ==> boots: \e[0;35mSKIPPED\e[0m\n"
                 "%%% one_SUITE ==> \e[0;35m{tc_user_skip,\"no qemu\"}\e[0m\n"
                 "%%% one_SUITE ==> runs: \e[0;32mOK\e[0m\n"
                 "Skipped 1 (1, 0) tests. Passed 1 tests.\n"
                 "ok 2 - reads a map # SKIP no OTP 29\n"
                 "﹣ reads a list (0.17ms) # no OTP 25\n"/utf8>>),
    ?assertEqual({0, <<"\nskipped:\n  web: one_SUITE:boots: no qemu\n"
                       "  web: reads a list: no OTP 25\n"
                       "  web: reads a map: no OTP 29\n">>},
                 with_log(Log, "\nskipped:", Dir)).

%% Runs tools/test on the log of a part. Returns what it says from a text on.
with_log(Log, From, Dir) ->
    [ok = filelib:ensure_path(filename:join(Dir, Sub)) || Sub <- ["tools", "bin"]],
    Script = filename:join(Dir, "tools/test"),
    {ok, _} = file:copy(filename:join(running:root(), "tools/test"), Script),
    command(filename:join(Dir, "bin"), "make", "cat '" ++ Log ++ "'"),
    {Code, Said} = running:run("/bin/sh", [Script, "web"],
                               #{env => [{"PATH", filename:join(Dir, "bin") ++ ":"
                                          ++ os:getenv("PATH")}]}),
    {Code, string:find(Said, From)}.

%% The last lines say why a test failed: the log of a run elsewhere may show only its end.
failed_tests(Config) ->
    Dir = running:directory("reasons", Config),
    Log = filename:join(Dir, "log"),
    ok = file:write_file(
           Log, ["%%% one_SUITE ==> stops: \e[0;31mFAILED\e[0m\n%%% one_SUITE ==> \e[0;31mwrong\n",
                 "  line: 7\e[0m\n%%% one_SUITE ==> runs: \e[0;32mOK\e[0m\n",
                 "Failed 1 tests. Passed 1 tests.\n"]),
    ?assertMatch({1, <<"\nfailed:\n  web: one_SUITE:stops\n    %%% one_SUITE ==> stops: FAILED\n"
                       "    %%% one_SUITE ==> wrong\n      line: 7\n">>},
                 with_log(Log, "\nfailed:", Dir)).

%% The parts `measure' and `otp' run beside `acceptance', and count like it. If their process ends,
%% they fail, even if there is a log of an earlier run.
parts_beside(Config) ->
    Dir = running:directory("beside", Config),
    Bin = filename:join(Dir, "bin"),
    [ok = filelib:ensure_path(filename:join(Dir, Sub))
     || Sub <- ["tools", "bin", "acceptance/suites", "_build/test/parts"]],
    Script = filename:join(Dir, "tools/test"),
    {ok, _} = file:copy(filename:join(running:root(), "tools/test"), Script),
    ok = file:change_mode(Script, 8#755),
    [ok = file:write_file(filename:join([Dir, "acceptance/suites", Name]), "")
     || Name <- ["a_SUITE.erl", "load_a_SUITE.erl"]],
    Run = fun(Measure, Otp) ->
                  command(Bin, "rebar3", ["case $* in *load_*) ", Measure, " ;; esac; "
                                          "echo All 2 tests passed."]),
                  command(filename:join(Dir, "acceptance"), "otp-suites", Otp),
                  {Code, Said} = running:run(Script, ["acceptance", "measure", "otp"],
                                             #{env => [{"PATH", Bin ++ ":" ++ os:getenv("PATH")}]}),
                  {Code, re:replace(Said, " +", " ", [global, {return, binary}])}
          end,
    {0, Passed} = Run("true", "echo 3 passed, 0 failed"),
    ?assertMatch({match, _}, re:run(Passed, "acceptance 2 passed 0 failed .*\nmeasure 2 passed .*\n"
                                    "otp 3 passed .*\n7 passed, 0 failed, 0 skipped\n$")),
    {1, Failed} = Run("true", "echo 3 passed, 0 failed; exit 1"),
    ?assertMatch({match, _}, re:run(Failed, "\nfailed:\n otp: see _build/test/parts/otp.log\n")),
    {1, Killed} = Run("kill -KILL 0", "echo 3 passed, 0 failed"),
    ?assertMatch({match, _}, re:run(Killed, "\nmeasure 0 passed 1 failed .*\n"
                                    "otp 0 passed 1 failed ")).

%% If a build for the last parts fails, its log is shown, and those parts do not run.
failed_builds(Config) ->
    Dir = running:directory("failed", Config),
    ok = filelib:ensure_path(filename:join(Dir, "tools")),
    Script = filename:join(Dir, "tools/test"),
    {ok, _} = file:copy(filename:join(running:root(), "tools/test"), Script),
    {1, Said} = running:run("/bin/sh", [Script, "acceptance"],
                            #{env => [{"WHITTLE_PREPARE", "echo no compiler; exit 3"}]}),
    ?assertEqual(<<"== builds for the last parts: their log is _build/test/parts/prepare.log\n"
                   "no compiler\n">>, Said).

%% The check of the format reads scripts too, with and without an extension.
format_of_scripts(Config) ->
    Dir = running:directory("format", Config),
    ok = filelib:ensure_path(filename:join(Dir, "tools")),
    Script = filename:join(Dir, "tools/format"),
    {ok, _} = file:copy(filename:join(running:root(), "tools/format"), Script),
    Long = ["#!/usr/bin/env escript\n%% ", lists:duplicate(98, $x), "\n"],
    [ok = file:write_file(filename:join(Dir, Name), Long) || Name <- ["a.escript", "b"]],
    {0, _} = running:run(os:find_executable("git"), ["init", "-q", Dir]),
    ?assertEqual({1, <<"a.escript:2: longer than 100 columns\nb:2: longer than 100 columns\n">>},
                 running:run("/bin/sh", [Script])).

%% make compiles no module and builds no VM: each such step would print a line.
made_once(_Config) ->
    Make = fun() ->
                   {0, Said} = running:run(os:find_executable("make"),
                                           ["-C", running:root(), "vm", "runtimes"],
                                           #{env => keep}),
                   Said
           end,
    %% The first one may have to compile what has changed since the last `make'.
    _ = Make(),
    Before = beams(),
    Said = Make(),
    ?assertEqual([], beams() -- Before),
    ?assertEqual(nomatch, re:run(Said, "^.+: .+ (\\(\\d+ of \\d+\\)|\\d+ %)$", [multiline])).

beams() ->
    [{File, filelib:last_modified(File)}
     || File <- filelib:wildcard(filename:join(running:root(),
                                               "_build/default/lib/*/ebin/*.beam"))].

packages_are_well_formed(_Config) ->
    {ok, Text} = file:read_file(filename:join(running:root(), "tools/packages")),
    Lines = [Line || Line <- binary:split(Text, <<"\n">>, [global, trim]),
                     binary:first(Line) =/= $#],
    [?assertMatch({match, _}, re:run(Line, "^(build|test|cross|targets|cluster|measure|board|web|"
                                     "lib)"
                                     " +[a-z0-9.+-]+ +(-|(erl:|c:|py:|/)?[A-Za-z0-9_.+/|-]+) +"
                                     "[^ ].*[^ ]$"))
     || Line <- Lines].

install(Path) ->
    running:run(filename:join(running:root(), "tools/setup"), ["build", "test"],
                #{env => [{"PATH", Path}]}).

%% Creates a directory with all commands except these.
without(Names, Config) ->
    Bin = running:directory(lists:flatten(lists:join($-, ["without" | Names])), Config),
    [_ = file:make_symlink(Command, filename:join(Bin, Name))
     || Dir <- string:lexemes(os:getenv("PATH"), ":"),
        Command <- filelib:wildcard(filename:join(Dir, "*")),
        Name <- [filename:basename(Command)], not lists:member(Name, Names)],
    Bin.

command(Bin, Name, Line) ->
    File = filename:join(Bin, Name),
    ok = file:write_file(File, ["#!/bin/sh\n", Line, "\n"]),
    ok = file:change_mode(File, 8#755).
