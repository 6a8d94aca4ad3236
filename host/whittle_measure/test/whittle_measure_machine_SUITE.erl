%% Tests whittle_measure_machine: the work of a program that has ended is not that of others.
-module(whittle_measure_machine_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([ended_programs/1, pace/1]).

all() -> [ended_programs, pace].

%% The program works until the kernel has counted 100 ms. The programs that it starts count too.
ended_programs(_) ->
    Before = whittle_measure_machine:look(),
    Ended = whittle_measure_process:cpu_of_ended(),
    {0, _} = whittle_program:run(
               "/bin/sh",
               ["-c", "while [ \"$(awk '{ print $14 + $15 }' /proc/$$/stat)\" -lt 10 ]; do "
                "i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done; done"], #{}),
    Grown = whittle_measure_process:cpu_of_ended() - Ended,
    ?assert(Grown >= 100),
    #{busy := Busy, others := Others} =
        whittle_measure_machine:between(Before, whittle_measure_machine:look()),
    ?assert(Others < Busy).

pace(_) -> ?assert(whittle_measure_machine:pace() > 100).
