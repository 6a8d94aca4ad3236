%% Tests the decisions of a race on made results.
-module(whittle_tune_race_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([failure_is_out/1, budget_is_hard/1, surely_slower/1, surely_larger/1, noise_keeps_all/1,
         useful_moves/1, front/1, best_holds_all/1, cpu_counts/1, little_cpu_does_not/1,
         noise_limits/1, simulated/1]).

all() -> [failure_is_out, budget_is_hard, surely_slower, surely_larger, noise_keeps_all,
          useful_moves, front, best_holds_all, cpu_counts, little_cpu_does_not,
          noise_limits, simulated].

failure_is_out(_) ->
    Results = blocks(3, [{own, 100, 10}, {a, 50, 10}])
        ++ [#{block => 4, name => a, failed => <<"the program ended with 1">>}],
    ?assertEqual([{a, {failed, <<"the program ended with 1">>}}],
                 whittle_tune_race:out([a], Results, limits())),
    ?assertEqual([], whittle_tune_race:best([a], Results, limits())),
    ?assertMatch(#{failed := 1, runs := 4, peak := 50.0}, whittle_tune_race:summary(a, Results)).

%% One peak above the budget is enough, whatever the median is.
budget_is_hard(_) ->
    Results = blocks(5, [{own, 100, 10}, {a, 50, 10}])
        ++ [result(6, own, 100, 10), result(6, a, 81, 10)],
    ?assertEqual([{a, {over_budget, 81}}],
                 whittle_tune_race:out([a], Results, (limits())#{ram := 80})),
    ?assertEqual([], whittle_tune_race:out([a], Results, (limits())#{ram := 81})),
    ?assertNot(whittle_tune_race:holds(own, Results, (limits())#{ram := 99})).

surely_slower(_) ->
    Results = blocks(4, [{own, 100, 10}, {slow, 50, 12}, {little, 50, 10.3}]),
    ?assertMatch([{slow, {slower, _}}], whittle_tune_race:out([slow, little], Results, limits())),
    ?assertEqual([little], whittle_tune_race:alive([slow, little], Results, limits())).

surely_larger(_) ->
    Results = blocks(4, [{own, 100, 10}, {a, 50, 10}, {b, 60, 10}]),
    ?assertMatch([{b, {larger, _}}], whittle_tune_race:out([a, b], Results, limits())),
    %% One block is not enough to be sure.
    ?assertEqual([], whittle_tune_race:out([a, b], blocks(1, [{own, 100, 10}, {a, 50, 10},
                                                              {b, 60, 10}]), limits())).

noise_keeps_all(_) ->
    Results = [result(1, own, 100, 10), result(2, own, 120, 9), result(3, own, 90, 12),
               result(1, a, 90, 12), result(2, a, 80, 9), result(3, a, 95, 11),
               result(1, b, 85, 10), result(2, b, 90, 11), result(3, b, 88, 12)],
    ?assertEqual([], whittle_tune_race:out([a, b], Results, limits())).

%% The order is that of the gain. A move that changes nothing is not useful.
useful_moves(_) ->
    Results = blocks(2, [{own, 1000, 10}, {same, 999, 10}, {small, 900, 10}, {smaller, 500, 10},
                         {larger, 1100, 10}]),
    ?assertEqual([smaller, small],
                 whittle_tune_race:useful([same, small, smaller, larger], Results,
                                          (limits())#{ram := 400})).

front(_) ->
    Results = blocks(2, [{own, 100, 10}, {a, 50, 15}, {b, 60, 11}, {c, 61, 12}, {d, 200, 9}])
        ++ [#{block => 3, name => a, failed => <<"dead">>}],
    ?assertEqual([b, own, d],
                 [Name || #{name := Name} <- whittle_tune_race:front([own, a, b, c, d], Results)]).

best_holds_all(_) ->
    Results = blocks(3, [{own, 100, 10}, {small, 40, 11}, {middle, 50, 10.4}, {large, 60, 10}]),
    ?assertEqual([middle, large],
                 whittle_tune_race:best([small, middle, large], Results, limits())),
    ?assertEqual([small, middle, large],
                 whittle_tune_race:best([small, middle, large], Results,
                                        (limits())#{slowdown := 0.2})),
    ?assertEqual([], whittle_tune_race:best([unknown], Results, limits())).

%% A workload with a fixed rate takes as long as before, but more CPU time.
cpu_counts(_) ->
    Results = [#{block => Block, name => Name, peak => 100, time => 1000, cpu => Cpu}
               || Block <- [1, 2, 3], {Name, Cpu} <- [{own, 1000}, {a, 1500}]],
    ?assertEqual(150, round(100 * whittle_tune_race:slowdown(a, Results))),
    ?assertNot(whittle_tune_race:holds(a, Results, limits())).

little_cpu_does_not(_) ->
    Results = [#{block => Block, name => Name, peak => 100, cpu => Cpu}
               || Block <- [1, 2, 3], {Name, Cpu} <- [{own, 20}, {a, 40}]],
    ?assertEqual(1.0, whittle_tune_race:slowdown(a, Results)),
    ?assert(whittle_tune_race:holds(a, Results, limits())).

%% Quiet runs show less than 1 %, noisy ones do not show 5 %.
noise_limits(_) ->
    Quiet = blocks(5, [{own, 100, 10}, {a, 50, 10}]),
    ?assert(whittle_tune_race:detectable([own, a], Quiet) < 0.01),
    Noisy = [result(Block, Name, 100, Time)
             || {Block, Times} <- [{1, [10, 14]}, {2, [12, 9]}, {3, [10, 11]}],
                {Name, Time} <- lists:zip([own, a], Times)],
    ?assert(whittle_tune_race:detectable([own, a], Noisy) > 0.05),
    ?assertEqual(0.0, whittle_tune_race:detectable([own], Noisy)).

%% In races with 3 % of noise, the true best is still there after eight blocks in nearly all races,
%% and a candidate of 1.2 times its memory in nearly none.
simulated(_) ->
    Alive = [race(Seed) || Seed <- lists:seq(1, 100)],
    ?assert(length([yes || Names <- Alive, lists:member(best, Names)]) >= 90),
    ?assert(length([no || Names <- Alive, lists:member(worse, Names)]) =< 10).

race(Seed) ->
    {Results, _} = lists:mapfoldl(
                     fun({Block, {Name, Peak}}, State0) ->
                             {Noise, State} = rand:normal_s(State0),
                             {result(Block, Name, max(1, round(Peak * (1 + 0.03 * Noise))), 10),
                              State}
                     end, rand:seed_s(exsss, Seed),
                     [{Block, Each} || Block <- lists:seq(1, 8),
                                       Each <- [{own, 100_000}, {best, 50_000}, {near, 50_500},
                                                {worse, 60_000}]]),
    lists:foldl(fun(Block, Names) ->
                        So = [Result || #{block := Of} = Result <- Results, Of =< Block],
                        whittle_tune_race:alive(Names, So, limits())
                end, [best, near, worse], lists:seq(1, 8)).

%% Internal functions

limits() -> #{ram => none, slowdown => 0.05}.

%% Blocks with a little spread, as a real machine has.
blocks(Count, Candidates) ->
    [result(Block, Name, Peak, Time * (1 + Block / 1000))
     || Block <- lists:seq(1, Count), {Name, Peak, Time} <- Candidates].

result(Block, Name, Peak, Time) ->
    #{block => Block, name => Name, peak => Peak, time => Time, cpu => 10}.
