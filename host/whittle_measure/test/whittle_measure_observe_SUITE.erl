%% Tests whittle_measure_observe with programs of sh: what it sees, and how it ends them.
-module(whittle_measure_observe_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([ends_by_itself/1, is_ended/1, ready_line/1, never_ready/1, fails/1, not_started/1,
         memory_of_children/1, work_is_counted/1, environment/1, workload/1,
         workload_fails/1, workload_reports/1, last_look/1, largest_memory/1, flood/1,
         short_pieces/1]).

all() -> [ends_by_itself, is_ended, ready_line, never_ready, fails, not_started,
          memory_of_children, work_is_counted, environment, workload,
          workload_fails, workload_reports, last_look, largest_memory, flood, short_pieces].

ends_by_itself(_) ->
    {ok, #{first_line := First, ready := Ready, ended := Ended, output := Output}} =
        run("echo one; echo two", #{}),
    ?assertEqual(<<"one\ntwo\n">>, Output),
    ?assertEqual(First, Ready),
    ?assert(First =< Ended).

%% A program that would run forever, and its child, are gone when the run is over.
is_ended(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "pids"),
    {ok, Seen} = run("tail -f /dev/null & echo $$ $! >'" ++ File ++ "'; echo ready; wait",
                     #{duration => 300}),
    ?assertNot(is_map_key(ended, Seen)),
    {ok, Pids} = file:read_file(File),
    [?assertNot(filelib:is_dir(["/proc/", Pid])) || Pid <- string:lexemes(Pids, " \n")].

ready_line(_) ->
    {ok, #{first_line := First, ready := Ready}} =
        run("echo begin; echo listening on port 7",
            #{ready => "port \\d+"}),
    ?assert(First =< Ready),
    {ok, #{ready := _}} = run("printf 'port 7 without an end'; echo", #{ready => "port \\d+"}).

never_ready(_) ->
    Error = run("echo begin; exec tail -f /dev/null", #{ready => "listening", duration => 300}),
    ?assertMatch({error, {not_ready, 300, <<"begin\n">>}}, Error),
    ?assertEqual("the program was not ready after 0 s (its last line is `begin'): correct the "
                 "pattern of its `ready' line, or allow more time", text(Error)).

fails(_) ->
    Error = run("echo begin; echo no room >&2; exit 3", #{}),
    ?assertMatch({error, {failed, 3, _}}, Error),
    ?assertEqual("the program ended with exit code 3: its last line is `no room'", text(Error)),
    Dump = <<"no secret\r\n\r\nCrash dump is being written to: /tmp/dump...done\r\n">>,
    ?assertEqual("the program ended with exit code 1: its last line is `no secret'",
                 text({error, {failed, 1, Dump}})).

not_started(_) ->
    ?assertMatch({error, {failed, 127, _}},
                 whittle_measure_observe:run(#{program => "/nowhere/program", arguments => [],
                                               environment => []}, settings(#{}))).

%% The memory of a child counts: dd holds its block of 40 MB.
memory_of_children(_) ->
    {ok, #{memory := Memory}} =
        run("exec 2>/dev/null; echo ready; dd if=/dev/zero bs=40M | { dd of=/dev/null bs=1; }",
            #{duration => 3000}),
    Most = lists:max([Rss || {_, #{rss := Rss}} <- Memory]),
    ?assert(Most > 40_000_000),
    [?assertEqual(Rss, Anonymous + File)
     || {_, #{rss := Rss, anonymous := Anonymous, file := File}} <- Memory].

work_is_counted(_) ->
    {ok, #{work := #{cpu := Busy}, watched := Watched}} =
        run("echo ready; while :; do :; done", #{duration => 2000}),
    ?assert(Busy > 0),
    ?assert(Busy =< 2 * Watched),
    {ok, #{work := #{cpu := Idle}}} = run("echo ready; exec tail -f /dev/null", #{duration => 500}),
    ?assert(Idle < Busy),
    %% A program that has only printed a line has worked, and not for whole milliseconds. The kernel
    %% may count its time only when it waits, so it waits for another program first.
    {ok, Started} = whittle_program:start("/bin/sh",
                                          ["-c", "sleep 0; echo ready; exec tail -f /dev/null"],
                                          #{}),
    {output, _} = whittle_program:next(Started, infinity),
    #{cpu := Little} = whittle_measure_process:work(whittle_program:pid(Started)),
    ok = whittle_program:stop(Started),
    ?assertMatch({Little, true}, {Little, is_float(Little) andalso Little /= trunc(Little)}).

%% A flood of output ends with the time of the run, or with an error, and takes little memory.
flood(_) ->
    {_, Output} = case too_fast(run("exec yes", #{duration => 1000, patience => 60_000})) of
                      {ok, #{first_line := _, output := Last}} -> {ok, Last};
                      {error, {too_fast, Last}} -> {error, Last}
                  end,
    ?assert(byte_size(Output) =< 1_000_000),
    Never = run("exec yes", #{duration => 1000, ready => "never"}),
    ?assertMatch({error, {Tag, _}} when Tag =:= too_fast, too_fast(Never)),
    Endless = run("exec tr '\\0' x </dev/zero", #{duration => 1000}),
    ?assertMatch({error, {too_fast, _}}, too_fast(Endless)),
    ?assertEqual("the program prints faster than Whittle can read: let it print less, or send "
                 "its output to a file (its last line is `y')",
                 text({error, {too_fast, <<"y\ny\n">>}})),
    {ok, _} = run("echo ready; exec tail -f /dev/null",
                  #{workload => "yes | head -c 20000000", duration => 60_000,
                    patience => 60_000}).

%% Thousands of short pieces may wait while the engine reads /proc. They end no valid run.
short_pieces(_) ->
    _ = [self() ! {piece, Number} || Number <- lists:seq(1, 20_000)],
    ?assertMatch({ok, #{output := <<"one\ntwo\n">>}}, run("echo one; echo two", #{})).

%% On a slow machine such a program may never get ahead of its reader.
too_fast({error, {not_ready, _, Output}}) -> {error, {too_fast, Output}};
too_fast(Error) -> Error.

environment(_) ->
    {ok, #{output := Output}} =
        whittle_measure_observe:run(#{program => "/bin/sh", arguments => ["-c", "echo $GIVEN"],
                                      environment => [{"GIVEN", "here"}]}, settings(#{})),
    ?assertEqual(<<"here\n">>, Output).

%% The workload begins when the program is ready, and the run ends with it.
workload(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "gate"),
    {ok, #{workload := Time, output := Output} = Seen} =
        run("mkfifo '" ++ File ++ "'; echo ready; read line <'" ++ File ++ "'; echo $line; "
            "exec tail -f /dev/null",
            #{workload => "echo \"work for $WHITTLE_PID\" >'" ++ File ++ "'; test -d "
                          "/proc/$WHITTLE_PID"}),
    ?assertMatch(<<"ready\n", _/binary>>, Output),
    ?assert(Time > 0),
    ?assertNot(is_map_key(ended, Seen)).

workload_fails(_) ->
    Error = run("echo ready; exec tail -f /dev/null", #{workload => "echo no; exit 3"}),
    ?assertEqual("the workload ended with 3: its last line is `no'", text(Error)),
    Endless = run("echo ready; exec tail -f /dev/null",
                  #{workload => "exec tail -f /dev/null", duration => 300}),
    ?assertMatch({error, {workload_endless, 300, _}}, Endless),
    Early = run("echo ready", #{workload => "exec tail -f /dev/null"}),
    ?assertMatch({error, {ended_early, _}}, Early),
    %% The last act of a workload may be to end the program.
    ?assertMatch({ok, #{workload := _}},
                 run("trap 'exit 0' TERM; echo ready; tail -f /dev/null & wait",
                     #{workload => "kill $WHITTLE_PID"})).

%% Its variables reach the workload and not the program, and its output comes back.
workload_reports(_) ->
    {ok, #{reported := Reported, output := Output}} =
        run("echo ready ${GIVEN-nothing}; exec tail -f /dev/null",
            #{workload => "echo given $GIVEN", variables => [{"GIVEN", "7"}]}),
    ?assertEqual({<<"given 7\n">>, <<"ready nothing\n">>}, {Reported, Output}),
    %% Also if it ends the program.
    ?assertMatch({ok, #{reported := <<"last\n">>}},
                 run("trap 'exit 0' TERM; echo ready; tail -f /dev/null & wait",
                     #{workload => "kill $WHITTLE_PID; echo last"})).

%% The look at the end adds to the outcome while the program still runs.
last_look(_) ->
    Look = fun(Started) ->
                   Dir = ["/proc/", integer_to_list(whittle_program:pid(Started))],
                   #{alive => filelib:is_dir(Dir)}
           end,
    ?assertMatch({ok, #{alive := true}},
                 run("echo ready; exec tail -f /dev/null", #{duration => 100, last => Look})).

%% The kernel sees the memory between two readings.
largest_memory(_) ->
    {ok, #{peak := Peak, memory := Memory}} =
        run("echo ready; exec tail -f /dev/null", #{duration => 500}),
    ?assert(Peak >= lists:max([Rss || {_, #{rss := Rss}} <- Memory])),
    %% A VM that held 80 MB and freed them.
    {ok, #{peak := Freed}} =
        run("exec erl -noshell -eval 'B = binary:copy(<<7>>, 80000000), 7 = binary:last(B), "
            "erlang:garbage_collect(), io:put_chars(\"ready\\n\"), receive x -> ok end'",
            #{duration => 100, interval => 60_000, patience => 60_000}),
    ?assert(Freed > 80_000_000).

%% Internal functions

run(Script, Settings) ->
    whittle_measure_observe:run(#{program => "/bin/sh", arguments => ["-c", Script],
                                  environment => []}, settings(Settings)).

settings(Settings) -> maps:merge(#{duration => 10_000, interval => 20}, Settings).

text({error, Error}) -> lists:flatten(whittle_measure_observe:format_error(Error)).
