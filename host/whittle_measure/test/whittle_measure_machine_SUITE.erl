%% Tests whittle_measure_machine: the work of a program is not that of others.
-module(whittle_measure_machine_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([ended_programs/1, apart/1, pace/1]).

all() -> [ended_programs, apart, pace].

%% The program works until the kernel has counted 100 ms. The programs that it starts count too.
ended_programs(_) ->
    Before = whittle_measure_machine:look(),
    Ended = whittle_measure_process:cpu_of_ended(),
    {0, _} = whittle_program:run(
               "/bin/sh",
               ["-c", busy()], #{}),
    Grown = whittle_measure_process:cpu_of_ended() - Ended,
    ?assert(Grown >= 100),
    #{busy := Busy, others := Others} =
        whittle_measure_machine:between(Before, whittle_measure_machine:look(), 0),
    ?assert(Others < Busy).

busy() ->
    "while [ \"$(awk '{ print $14 + $15 }' /proc/$$/stat)\" -lt 10 ]; do "
    "i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done; done".

%% A descendant outside of the program's process group goes on when the program is killed.
apart(_) ->
    Before = whittle_measure_machine:look(),
    {ok, Started} = whittle_program:start(
                      "/bin/sh",
                      ["-c", "setsid sh -c \"$WORK; echo \\$\\$; exec sleep 600\" & wait"],
                      #{env => [{"WORK", busy()}]}),
    {output, Pid} = whittle_program:next(Started, infinity),
    try is_apart(Before, Started)
    after
        ok = whittle_program:stop(Started),
        [] = os:cmd("kill " ++ binary_to_list(string:trim(Pid)))
    end.

is_apart(Before, Started) ->
    Processes = whittle_measure_process:cpu_apart(whittle_program:pid(Started)),
    Outcome = {ok, #{cpu_apart => [{1 bsl 30, 1_000_000} | Processes]}},
    Apart = whittle_measure_observe:cpu_apart(Outcome),
    ?assert(Apart >= 100 andalso Apart < 1_000_000),
    Look = whittle_measure_machine:look(),
    #{others := Without} = whittle_measure_machine:between(Before, Look, 0),
    #{others := With} = whittle_measure_machine:between(Before, Look, Apart),
    ?assert(With < Without).

pace(_) -> ?assert(whittle_measure_machine:pace() > 100).
