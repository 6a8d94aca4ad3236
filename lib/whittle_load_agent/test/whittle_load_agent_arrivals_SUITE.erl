%% Tests the streams of intended starts, and the random times.
-module(whittle_load_agent_arrivals_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([constant/1, ramp/1, poisson/1, shards_add_up/1, bursts_and_traces/1, closed/1, in_order/1,
         repeatable/1, moments/1, same_numbers_everywhere/1]).

-define(SECOND, 1_000_000_000).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [constant, ramp, poisson, shards_add_up, bursts_and_traces, closed, in_order, repeatable,
     moments, same_numbers_everywhere].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

constant(_) ->
    ?assertEqual([?SECOND div 4 + N * (?SECOND div 2) || N <- lists:seq(0, 5)],
                 starts([{rate, constant, 2, 2, 3 * ?SECOND}], {0, 1}, 1)).

%% From 0 to 10 users a second in 10 s: the user number N + 1/2 comes at sqrt(2 (N + 1/2)) seconds.
ramp(_) ->
    Starts = starts([{rate, constant, 0, 10, 10 * ?SECOND}], {0, 1}, 1),
    ?assertEqual(50, length(Starts)),
    [?assert(abs(At / ?SECOND - math:sqrt(2 * (N + 0.5))) < 1.0e-6)
     || {N, At} <- lists:zip(lists:seq(0, 49), Starts)],
    %% A ramp down has as many, in the mirror.
    Down = starts([{rate, constant, 10, 0, 10 * ?SECOND}], {0, 1}, 1),
    [?assert(abs(10 * ?SECOND - A - B) < 1000) || {A, B} <- lists:zip(Starts, lists:reverse(Down))].

%% 20,000 are expected; the standard deviation is their root, 141. The seed is fixed.
poisson(_) ->
    Starts = starts([{rate, poisson, 1000, 1000, 20 * ?SECOND}], {0, 1}, 7),
    ?assert(abs(length(Starts) - 20_000) < 4 * 141),
    %% The gaps of a Poisson process have a standard deviation that equals their mean.
    Gaps = [B - A || {A, B} <- lists:zip(lists:droplast(Starts), tl(Starts))],
    Mean = lists:sum(Gaps) / length(Gaps),
    Deviation = math:sqrt(lists:sum([(Gap - Mean) * (Gap - Mean) || Gap <- Gaps]) / length(Gaps)),
    ?assert(abs(Deviation / Mean - 1) < 0.03).

%% All agents together start the users of one agent, where these are not drawn.
shards_add_up(_) ->
    Phases = [{rate, constant, 0, 40, 3 * ?SECOND}, {burst, 7}, {pause, ?SECOND},
              {trace, [1, 5, 9, 12, 13], 20}],
    All = starts(Phases, {0, 1}, 1),
    [?assertEqual(All, lists:sort(lists:append([starts(Phases, {I, Count}, 1)
                                                || I <- lists:seq(0, Count - 1)])))
     || Count <- [2, 3, 11]],
    %% The sum of four drawn streams has the same rate.
    Drawn = lists:append([starts([{rate, poisson, 500, 500, 20 * ?SECOND}], {I, 4}, 1)
                          || I <- lists:seq(0, 3)]),
    ?assert(abs(length(Drawn) - 10_000) < 400).

bursts_and_traces(_) ->
    ?assertEqual([0, 0, 10, 13, 14, 14, 14],
                 starts([{burst, 2}, {pause, 10}, {trace, [0, 3], 4}, {burst, 3}], {0, 1}, 1)),
    ?assertEqual(14, whittle_load_agent_arrivals:duration(
                       [{burst, 2}, {pause, 10}, {trace, [0, 3], 4}, {burst, 3}])).

%% The number changes at the start of each phase, and is 0 behind the last.
closed(_) ->
    Phases = [{closed, 1, 10}, {closed, 2, 10}, {closed, 5, 10}, {pause, 5}, {closed, 1, 1}],
    ?assertEqual([{0, 1}, {10, 2}, {20, 5}, {30, 0}, {35, 1}, {36, 0}], starts(Phases, {0, 1}, 1)),
    %% Five users on two agents.
    ?assertEqual([{0, 1}, {10, 1}, {20, 3}, {30, 0}, {35, 1}, {36, 0}], starts(Phases, {0, 2}, 1)),
    ?assertEqual([{0, 0}, {10, 1}, {20, 2}, {30, 0}, {35, 0}, {36, 0}], starts(Phases, {1, 2}, 1)).

%% Each start lies in its phase, and none before the one before.
in_order(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Phases, {Index, Count}, Seed}, {list(phase()), shard(), int()},
                      begin
                          Starts = starts(Phases, {Index, Count}, Seed),
                          Times = [case Start of {At, _} -> At; At -> At end || Start <- Starts],
                          Times =:= lists:sort(Times)
                              andalso lists:all(
                                        fun(At) ->
                                                At >= 0 andalso
                                                    At =< whittle_load_agent_arrivals:duration(
                                                            Phases)
                                        end, Times)
                      end), [{to_file, user}, 300])).

repeatable(_) ->
    Phases = [{rate, poisson, 0, 300, 2 * ?SECOND}],
    ?assertEqual(starts(Phases, {1, 3}, 5), starts(Phases, {1, 3}, 5)),
    ?assertNotEqual(starts(Phases, {1, 3}, 5), starts(Phases, {1, 3}, 6)),
    ?assertNotEqual(starts(Phases, {1, 3}, 5), starts(Phases, {2, 3}, 5)).

%% The mean of 100,000 numbers lies within five standard errors of the mean of the distribution.
moments(_) ->
    N = 100_000,
    [begin
         {Values, _} = lists:mapfoldl(fun(_, State) ->
                                              whittle_load_agent_random:time(Time, State)
                                      end, whittle_load_agent_random:seed(Time), lists:seq(1, N)),
         Mean = lists:sum(Values) / N,
         Variance = lists:sum([(V - Mean) * (V - Mean) || V <- Values]) / N,
         ?assert(abs(Mean - whittle_load_agent_random:mean(Time))
                 =< 1 + 5 * math:sqrt(Variance / N))
     end || Time <- [{constant, 5}, {uniform, 1000, 5000}, {exponential, 1_000_000},
                     {lognormal, 1_000_000, 0.5}, {pareto, 1_000_000, 3.5}]],
    ?assertEqual(infinity, whittle_load_agent_random:mean({pareto, 1, 0.9})),
    %% The longest waits have an end.
    {Longest, _} = whittle_load_agent_random:time({pareto, 1_000_000_000, 0.1},
                                                  whittle_load_agent_random:seed(3)),
    ?assert(Longest =< 30 * 24 * 3600 * ?SECOND).

%% A scenario repeats on every OTP: these are the numbers of OTP 25.
same_numbers_everywhere(_) ->
    Seed = whittle_load_agent_random:seed({1, users, 0}),
    {Numbers, _} = lists:mapfoldl(fun(_, State) -> whittle_load_agent_random:below(1000, State) end,
                                  Seed, lists:seq(1, 8)),
    ?assertEqual([396, 175, 763, 752, 861, 583, 879, 441], Numbers).

starts(Phases, Shard, Seed) ->
    starts(whittle_load_agent_arrivals:next(whittle_load_agent_arrivals:new(Phases, Shard, Seed))).

starts(none) -> [];
starts({start, At, Stream}) -> [At | starts(whittle_load_agent_arrivals:next(Stream))];
starts({closed, At, Users, Stream}) ->
    [{At, Users} | starts(whittle_load_agent_arrivals:next(Stream))].

phase() ->
    oneof([{rate, oneof([poisson, constant]), rate(), rate(), integer(1_000_000, 3 * ?SECOND)},
           {burst, integer(1, 20)},
           {pause, integer(0, ?SECOND)},
           {closed, integer(0, 20), integer(1, ?SECOND)},
           ?LET(Times, list(integer(0, 1000)), {trace, lists:sort(Times), 1000})]).

rate() -> oneof([0, integer(0, 100), float(0.0, 100.0)]).

shard() -> ?LET(Count, integer(1, 9), {integer(0, Count - 1), Count}).
