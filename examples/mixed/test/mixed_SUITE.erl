%% Tests the phases of mixed: each one ends, and holds as much data as it should.
-module(mixed_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([each_phase_holds_data/1, scale_multiplies_data/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [each_phase_holds_data, scale_multiplies_data].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

each_phase_holds_data(_) ->
    [?assertMatch({Name, Bytes} when Bytes > 100000, {Name, held(Name, 1)})
     || Name <- mixed_phases:names()].

scale_multiplies_data(_) ->
    [?assert(held(Name, 3) > 2 * held(Name, 1)) || Name <- [processes, messages, ets, binaries]].

%% Runs a phase in a process of its own, as mixed does.
held(Name, Scale) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({held, mixed_phases:run(Name, Scale)}) end),
    receive {'DOWN', Monitor, process, Pid, Reason} ->
            {held, Bytes} = Reason,
            Bytes
    end.
