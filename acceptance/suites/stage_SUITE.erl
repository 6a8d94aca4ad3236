%% Tests how examples/docket/stage refuses arguments, and a program that ends at once.
-module(stage_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0]).
-export([wrong_nodes/1, wrong_options/1, ended_program/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [wrong_nodes, wrong_options, ended_program].

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
             {["clock", "1"], 2, "clock takes a node and seconds, such as 1 3600 or 1 -3600"}]],
    %% A node with a clock has its file.
    Clock = filename:join(Dir, "data-1.clock"),
    [begin
         ok = file:write_file(Clock, "+0\n"),
         ?assertEqual({0, <<>>}, stage(["clock", "1", Seconds], Dir)),
         ?assertEqual({ok, Written}, file:read_file(Clock))
     end || {Seconds, Written} <- [{"5", <<"+5\n">>}, {"-3600", <<"-3600\n">>}]].

wrong_options(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "wrong_options"),
    ?assertEqual({0, <<>>}, stage(["check", "--nodes", "3", "--cpu", "0.5"], Dir)),
    [?assertEqual({Words, {2, iolist_to_binary(["stage: ", Line, $\n])}},
                  {Words, stage([Command | Words], Dir)})
     || Command <- ["check", "up"],
        {Words, Line} <-
            [{["--cpu", "x"], "--cpu takes a number from 0.01 to 64"},
             {["--tick", "0"], "--tick takes seconds, 1 or more"},
             {["--room", "x"], "--room takes a value such as 16MB"},
             {["--program", "/nowhere"],
              "--program takes an executable, and /nowhere is none"},
             {["--program", "/tmp"], "--program takes an executable, and /tmp is none"}]],
    ?assertEqual(false, filelib:is_file(Dir)).

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
stage(Arguments, Dir) ->
    running:run(filename:join(running:example("docket"), "stage"), Arguments,
                #{env => [{"STAGE_DIR", Dir}, {"STAGE_NAME", "t" ++ os:getpid()}]}).
