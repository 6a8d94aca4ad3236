%% Tests the starts of users in an agent that is late.
-module(whittle_load_agent_pace_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([late/1, crashed/1]).

-define(USERS, 200_000).

all() -> [late, crashed].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_counters),
    ok = whittle_load_agent_tally:new(),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

%% All users should have started already. The agent answers although it starts one after another,
%% and at the end the plan has all of them.
late(_) ->
    Plan = #{target => #{}, rows => {}, sources => [], hibernate => 0, seed => 1, shard => {0, 1},
             phases => [{rate, constant, ?USERS, ?USERS, 1_000_000_000}],
             classes => [#{name => <<"a">>, weight => 1, program => {'end'}}]},
    Agents = whittle_load_agent_user:prepare(Plan),
    Start = erlang:monotonic_time(millisecond) * 1_000_000 - 2_000_000_000,
    {ok, Pace} = whittle_load_agent_pace:start_link(Plan, Start, Agents),
    Before = whittle_load_agent_pace:take(Pace),
    Last = whittle_load_agent_pace:last(Pace),
    true = unlink(Pace),
    exit(Pace, kill),
    Sum = fun(Element) -> lists:sum([element(Element, Pair) || Arrivals <- [Before, Last],
                                                               Pair <- maps:values(Arrivals)])
          end,
    ?assertEqual(?USERS, Sum(1)),
    ?assert(Sum(2) < ?USERS).

%% The process of the samples does not wait for one that has crashed.
crashed(_) ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    ?assertExit(noproc, whittle_load_agent_pace:take(Pid)),
    ?assertExit(noproc, whittle_load_agent_pace:last(Pid)).
