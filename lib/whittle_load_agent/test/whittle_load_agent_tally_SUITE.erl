%% Tests the counts of an agent.
-module(whittle_load_agent_tally_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([taken_once/1]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [taken_once].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_counters),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

taken_once(_) ->
    ok = whittle_load_agent_tally:new(),
    ok = whittle_load_agent_tally:count(started),
    ok = whittle_load_agent_tally:count(received, 3),
    ok = whittle_load_agent_tally:error(<<"login">>, not_authorized),
    ok = whittle_load_agent_tally:error(<<"login">>, not_authorized),
    ok = whittle_load_agent_tally:error(<<"ask">>, timeout),
    ok = whittle_load_agent_tally:latency(<<"ask">>, 1000),
    ok = whittle_load_agent_tally:unanswered(<<"ask">>, 5000),
    ok = whittle_load_agent_tally:late(0),
    #{events := Events, errors := Errors, latencies := Latencies, unanswered := Unanswered,
      late := Late} =
        whittle_load_agent_tally:take(),
    ?assertMatch(#{started := 1, received := 3, ended := 0}, Events),
    ?assertEqual(#{{<<"login">>, <<"not_authorized">>} => 2, {<<"ask">>, <<"timeout">>} => 1},
                 Errors),
    ?assertMatch(#{<<"ask">> := #{count := 2, sum := 6000}}, Latencies),
    ?assertMatch(#{count := 1, sum := 5000}, Unanswered),
    ?assertMatch(#{count := 1, zeros := 1}, Late),
    #{events := None, errors := NoErrors, latencies := NoLatencies} =
        whittle_load_agent_tally:take(),
    ?assertEqual([0], lists:usort(maps:values(None))),
    ?assertEqual({#{}, #{}}, {NoErrors, NoLatencies}).
