%% Tests how examples/docket/stage refuses arguments, what it says about its nodes, a program that
%% ends at once, and when the stage builds its program again.
-module(stage_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0]).
-export([help/1, wrong_nodes/1, wrong_options/1, status/1, ended_program/1, builds/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [help, wrong_nodes, wrong_options, status, ended_program, builds].

%% The stage builds its program again when a part of it has changed, and not otherwise. Another
%% program takes the place of Whittle.
builds(Config) ->
    Root = filename:join(proplists:get_value(priv_dir, Config), "builds"),
    In = fun(File) -> filename:join(Root, File) end,
    Sources = ["examples/docket/stage", "examples/docket/README.md", "examples/docket/src/a.erl",
               "examples/docket/priv/a.css", "lib/whittle_counters/src/a.erl",
               "lib/whittle_flow/src/a.erl", "host/whittle/src/a.erl", "device/a/src/a.erl",
               "native/launcher/a.c"],
    [begin
         ok = filelib:ensure_dir(In(File)),
         ok = file:write_file(In(File), <<>>)
     end || File <- ["_build/a" | Sources]],
    {ok, _} = file:copy(script(), In("examples/docket/stage")),
    ok = file:write_file(In("whittle"),
                         "#!/bin/sh\necho built >>builds\n: >\"$4\"; chmod +x \"$4\"\n"),
    [ok = file:change_mode(In(File), 8#755) || File <- ["whittle", "examples/docket/stage"]],
    Old = fun(File) -> ok = file:change_time(In(File), {{2020, 1, 1}, {0, 0, 0}}) end,
    lists:foreach(Old, Sources),
    Built = fun() ->
                    {0, _} = running:run(In("examples/docket/stage"), ["build"], #{}),
                    {ok, Lines} = file:read_file(In("builds")),
                    length(binary:matches(Lines, <<"built">>))
            end,
    [begin
         ?assertEqual({File, Times}, {File, Built()}),
         ok = file:change_time(In(File), {{2090, 1, 1}, {0, 0, 0}}),
         ?assertEqual({File, Times + 1}, {File, Built()}),
         ok = Old(File)
     end || {Times, File} <- lists:enumerate(Sources)].

%% Who asks for help gets it, and nothing else happens: `down --help' ends no stage.
help(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "help"),
    {2, Help} = stage([], Dir),
    ?assertMatch({match, _}, re:run(Help, "^usage: stage up .*^exit: 0 done", [multiline, dotall])),
    [?assertEqual({Words, {0, Help}}, {Words, stage(Words, Dir)})
     || Words <- [["help"], ["--help"], ["-h"], ["up", "--help"], ["up", "--nodes", "3", "-h"],
                  ["serve", "--help"], ["down", "--help"]]],
    [?assertEqual({Word, {2, iolist_to_binary(["stage: there is no ", Kind, $\s, Word,
                                               "; all commands: ", script(), " help\n"])}},
                  {Word, stage([Word], Dir)})
     || {Word, Kind} <- [{"bogus", "command"}, {"--bogus", "option"}]],
    ?assertEqual(false, filelib:is_file(Dir)).

%% The stage reads how many nodes it has before it does anything, so no node needs to run.
wrong_nodes(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "wrong_nodes"),
    ok = filelib:ensure_path(Dir),
    ok = file:write_file(filename:join(Dir, "nodes"), "4\n"),
    [?assertEqual({Words, {Code, iolist_to_binary(["stage: ", Line, $\n])}},
                  {Words, stage(Words, Dir)})
     || {Words, Code, Line} <-
            [{["part", "1", "1"], 2, "node 1 cannot stand on two sides"},
             {["part", "1,2", "3,2"], 2, "node 2 cannot stand on two sides"},
             {["cut", "1", "1"], 2, "node 1 cannot stand on two sides"},
             {["part", "1", ""], 2, "name a node by its number, 1 to 4"},
             {["part", "1,", "2"], 2, "name a node by its number, 1 to 4"},
             {["part", "1", "02"], 2, "name a node by its number, 1 to 4"},
             {["kill", "1,9"], 2, "there are nodes 1 to 4"},
             {["clock", "1", "5"], 1, "node 1 has no clock of its own; start with --program "
              "bench/cluster/with_clock"},
             {["clock", "1", "+5"], 2,
              "clock takes a node and seconds, such as 1 3600 or 1 -3600"},
             {["clock", "1"], 2, "clock takes a node and seconds, such as 1 3600 or 1 -3600"},
             {["damage", "1"], 2,
              "damage takes a node and the name of a file, such as 1 docket_case.DCD"},
             {["damage", "1", "../nodes"], 2,
              "damage takes a node and the name of a file, such as 1 docket_case.DCD"},
             {["damage", "1", "LATEST.LOG"], 0, "node 1 has no file LATEST.LOG"}]],
    %% Only the first byte of a file changes.
    File = filename:join([Dir, "data-2", "a.DCD"]),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, <<1, 2, 3>>),
    ?assertEqual({0, <<>>}, stage(["damage", "2", "a.DCD"], Dir)),
    ?assertEqual({ok, <<"x", 2, 3>>}, file:read_file(File)),
    %% A node with a clock has its file.
    Clock = filename:join(Dir, "data-1.clock"),
    [begin
         ok = file:write_file(Clock, "+0\n"),
         ?assertEqual({0, <<>>}, stage(["clock", "1", Seconds], Dir)),
         ?assertEqual({ok, Written}, file:read_file(Clock))
     end || {Seconds, Written} <- [{"5", <<"+5\n">>}, {"-3600", <<"-3600\n">>}]].

wrong_options(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "wrong_options"),
    [?assertEqual({Words, {0, <<>>}}, {Words, stage(["check" | Words], Dir)})
     || Words <- [["--nodes", "3", "--cpu", "0.5"], ["--mode", "transaction"],
                  ["--mode", "ets", "--nodes", "1", "--copies", "ram"]]],
    [?assertEqual({Words, {2, iolist_to_binary(["stage: ", Line, $\n])}},
                  {Words, stage([Command | Words], Dir)})
     || Command <- ["check", "up", "serve"],
        {Words, Line} <-
            [{["--bogus"], ["there is no option --bogus; all options: ", script(), " --help"]},
             {["--bogus", "1"], ["there is no option --bogus; all options: ", script(), " --help"]},
             {["bogus"], ["bogus is no option; all options: ", script(), " --help"]},
             {["--nodes"], "--nodes needs a value"},
             {["--mode", "foo"],
              "--mode takes transaction, sync_transaction, async_dirty, sync_dirty or ets"},
             {["--mode", "ets", "--nodes", "1"], "--mode ets needs --nodes 1 --copies ram"},
             {["--store", "ra", "--copies", "ram"],
              "--store ra needs directories: leave --copies ram out"},
             {["--cpu", "x"], "--cpu takes a number from 0.01 to 64"},
             {["--tick", "0"], "--tick takes seconds, 1 to 999"},
             {["--tick", "1000"], "--tick takes seconds, 1 to 999"},
             {["--room", "x"], "--room takes megabytes, such as 16MB"},
             {["--program", "/nowhere"],
              "--program takes an executable, and /nowhere is none"},
             {["--program", "/tmp"], "--program takes an executable, and /tmp is none"}]],
    ?assertEqual(false, filelib:is_file(Dir)).

%% Only an answer of a node is a reason. Another `ip' answers for the nodes.
status(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "status"),
    Tools = Dir ++ ".tools",
    Ip = filename:join(Tools, "ip"),
    ok = filelib:ensure_dir(Ip),
    ok = file:write_file(Ip, "#!/bin/sh\nfor url; do :; done\ncase $url in\n"
                         "*.1:8080/ready) printf 200 ;;\n*.2:8080/ready) printf 503 ;;\n"
                         "*) printf 000; exit 7 ;;\nesac\n"),
    ok = file:change_mode(Ip, 8#755),
    ok = filelib:ensure_path(Dir),
    [ok = file:write_file(filename:join(Dir, Name), Text)
     || {Name, Text} <- [{"nodes", "4\n"}, {"node-1.log", "one\n"},
                         {"node-2.log", "a\nit waits\n\n"}, {"node-3.log", "it ends\n"}]],
    ?assertEqual({0, <<"docket1: ready\ndocket2: not ready; its last line: it waits\n"
                       "docket3: does not run; its last line: it ends\n"
                       "docket4: does not run\n">>},
                 stage(["status"], Dir, [{"PATH", Tools ++ ":" ++ os:getenv("PATH")}])).

%% The stage does not wait for nodes that have ended, and shows what docket said.
ended_program(Config) ->
    case [Tool || Tool <- ["ip", "haproxy", "curl", "lsblk"], os:find_executable(Tool) =:= false]
        ++ [Dir || Dir <- ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/blkio"],
                   not filelib:is_dir(Dir)]
        ++ ["root" || os:cmd("id -u") =/= "0\n"] of
        [] ->
            Dir = filename:join(proplists:get_value(priv_dir, Config), "ended"),
            Program = Dir ++ ".program",
            ok = file:write_file(Program, "#!/bin/sh\necho docket: the setting mode is bad\n"
                                 "echo Kernel pid terminated\nexit 1\n"),
            ok = file:change_mode(Program, 8#755),
            ?assertEqual({1, <<"stage: node 1 has ended: docket: the setting mode is bad\n"
                               "stage: removing what is there\n">>},
                         stage(["up", "--nodes", "1", "--program", Program], Dir)),
            ?assertEqual(false, filelib:is_file(Dir));
        [Missing | _] -> {skip, "a stage needs " ++ Missing}
    end.

%% The name and the directory are of this test, so it touches no other stage.
stage(Arguments, Dir) -> stage(Arguments, Dir, []).

stage(Arguments, Dir, Settings) ->
    running:run(script(), Arguments,
                #{env => [{"STAGE_DIR", Dir}, {"STAGE_NAME", "t" ++ os:getpid()} | Settings]}).

script() -> filename:join(running:example("docket"), "stage").
