%% Tests whittle_measure_analysis on samples with known effects.
-module(whittle_measure_analysis_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([ratios/1, uncertain/1, effects/1, interaction/1, failed_runs/1, one_block/1, warm_up/1,
         noise/1, more_is_better/1, exact/1, beyond_all_numbers/1, few_blocks/1,
         noisy_verdicts/1]).

all() ->
    [ratios, uncertain, effects, interaction, failed_runs, one_block, warm_up, noise,
     more_is_better, exact, beyond_all_numbers, few_blocks, noisy_verdicts].

%% Blocks differ by far more than the cells, and the ratios are found all the same.
ratios(_) ->
    #{rows := Rows} = result(#{}, samples(12, fun(_, Level) -> level(Level, 1.0, 0.8) end)),
    ?assertMatch([#{ratio := baseline, n := 12, failed := 0},
                  #{ratio := #{verdict := better, n := 12}}], of_b(one, Rows)),
    [_, #{ratio := #{median := Ratio, interval := {Low, High}}}] = of_b(one, Rows),
    ?assert(abs(Ratio - 0.8) < 0.02),
    ?assert(Low < Ratio andalso Ratio < High),
    %% The other factor has no effect, and the row says how large one would have to be.
    [#{ratio := #{verdict := none, detectable := Detectable}} | _] = of_b(two, Rows),
    ?assert(Detectable > 1.0 andalso Detectable < 1.1).

%% The interval excludes 1, and the corrected test does not show a difference.
uncertain(_) ->
    Verdict = fun(Interval) ->
                      lists:flatten(whittle_measure_table:verdict(
                                      #{median => 0.5, interval => Interval, n => 3,
                                        verdict => none, detectable => 20.0}))
              end,
    ?assertEqual("perhaps a difference: run more blocks", Verdict({0.4, 0.6})),
    ?assertEqual("perhaps a difference: run more blocks", Verdict({1.4, 1.6})),
    ?assertEqual("no difference; this run could not have detected a factor of 10",
                 Verdict({0.4, 1.1})).

effects(_) ->
    #{effects := Effects} = result(#{}, samples(12, fun(_, Level) -> level(Level, 1.0, 0.8) end)),
    #{median := A, verdict := better} = effect([{a, new}], Effects),
    ?assert(abs(A - 0.8) < 0.01),
    ?assertMatch(#{verdict := none}, effect([{b, two}], Effects)),
    ?assertMatch(#{verdict := none}, effect([{a, new}, {b, two}], Effects)).

%% `new' helps only together with `two'.
interaction(_) ->
    Factor = fun(#{<<"a">> := <<"new">>, <<"b">> := <<"two">>}, _) -> 0.7;
                (_, _) -> 1.0
             end,
    #{effects := Effects} = result(#{}, samples(12, Factor)),
    #{median := Both, verdict := better} = effect([{a, new}, {b, two}], Effects),
    ?assert(abs(Both - 0.7) < 0.02),
    #{median := Main} = effect([{a, new}], Effects),
    ?assert(abs(Main - math:sqrt(0.7)) < 0.02).

failed_runs(_) ->
    Samples = [case Sample of
                   #{<<"block">> := 3, <<"cell">> := #{<<"a">> := <<"new">>}} ->
                       Sample#{<<"values">> := #{}, <<"failed">> := #{<<"run">> => <<"it died">>}};
                   _ -> Sample
               end || Sample <- samples(6, fun(_, Level) -> level(Level, 1.0, 0.8) end)],
    #{rows := Rows} = result(#{}, Samples),
    ?assertMatch([#{n := 6, failed := 0}, #{n := 5, failed := 1, ratio := #{n := 5}}],
                 of_b(one, Rows)).

one_block(_) ->
    #{rows := Rows} = result(#{}, samples(1, fun(_, Level) -> level(Level, 1.0, 0.8) end)),
    ?assertMatch([#{}, #{ratio := #{verdict := unknown, n := 1}}], of_b(one, Rows)).

%% Two blocks that differ much, with many tests: no float holds what they could detect.
beyond_all_numbers(_) ->
    Samples = [case Sample of
                   #{<<"block">> := 2, <<"cell">> := #{<<"a">> := <<"new">>}} ->
                       Sample#{<<"values">> => #{<<"first_line">> => 1.0e9 * Value}};
                   _ -> Sample
               end || #{<<"values">> := #{<<"first_line">> := Value}} = Sample
                          <- samples(2, fun(_, _) -> 1.0 end)],
    #{rows := Rows} = result(#{}, Samples),
    ?assertMatch([#{}, #{ratio := #{verdict := none, detectable := Factor, n := 2}}]
                   when Factor > 1.0e300, of_b(one, Rows)).

%% The head has the confidence of the fewest runs, and a line below the table explains it.
few_blocks(_) ->
    Shown = fun(Blocks) ->
                    Result = result(#{}, samples(Blocks, fun(_, _) -> 1.0 end)),
                    [Head | _] = whittle_measure_table:rows(Result, []),
                    {lists:flatten(lists:nth(3, Head)),
                     [lists:flatten(Note) || Note <- whittle_measure_table:notes(Result, [])]}
            end,
    ?assertEqual({"interval", []}, Shown(1)),
    ?assertEqual({"75 % interval", ["the interval of 3 runs is their range, with a confidence of "
                                    "75 %; 95 % needs six runs"]}, Shown(3)),
    ?assertEqual({"95 % interval", []}, Shown(6)).

warm_up(_) ->
    Samples = samples(4, fun(_, Level) -> level(Level, 1.0, 0.8) end),
    Warm = [Sample#{<<"block">> := 0, <<"values">> := #{<<"first_line">> => 1.0e9}}
            || #{<<"block">> := 1} = Sample <- Samples],
    ?assertEqual(result(#{}, Samples), result(#{}, Warm ++ Samples)).

more_is_better(_) ->
    Response = #{name => score, kind => printed, pattern => "(.*)", unit => "points",
                 better => more},
    Samples = [Sample#{<<"values">> := #{<<"score">> => Value}}
               || #{<<"values">> := #{<<"first_line">> := Value}} = Sample
                      <- samples(12, fun(_, Level) -> level(Level, 1.0, 1.2) end)],
    #{rows := Rows} = result(#{responses => [Response]}, Samples),
    ?assertMatch([#{}, #{ratio := #{verdict := better}}], of_b(one, Rows)).

%% A size needs one sample for all cells of a build, and no test. Samples of runs do not count.
exact(_) ->
    Cell = fun(A, B) -> #{<<"program">> => <<"p">>, <<"a">> => A, <<"b">> => B} end,
    Build = fun(A, Value) ->
                    #{<<"block">> => <<"build">>, <<"failed">> => #{},
                      <<"cells">> => [Cell(A, B) || B <- [<<"one">>, <<"two">>]],
                      <<"values">> => #{<<"size">> => Value}}
            end,
    Runs = [Sample#{<<"values">> => #{<<"size">> => 7}}
            || Sample <- samples(3, fun(_, _) -> 1.0 end)],
    #{rows := Rows, effects := Effects} =
        result(#{responses => [#{name => size, kind => size}],
                 programs => [#{name => p, input => "x"}]},
               [Build(<<"old">>, 1000), Build(<<"new">>, 750) | Runs]),
    ?assertMatch([#{median := 1000.0, n := 1, ratio := baseline},
                  #{median := 750.0, n := 1, ratio := #{verdict := better}}], of_b(one, Rows)),
    [?assertEqual([], [Key || Key <- [interval, p, detectable], is_map_key(Key, Of)])
     || #{ratio := Ratio} = Row <- Rows, Of <- [Row | [Ratio || is_map(Ratio)]]],
    [_, #{ratio := #{median := Ratio}}] = of_b(two, Rows),
    ?assert(abs(Ratio - 0.75) < 1.0e-9),
    #{median := A, verdict := better} = effect([{a, new}], Effects),
    ?assert(abs(A - 0.75) < 1.0e-9),
    ?assertMatch(#{verdict := same}, effect([{b, two}], Effects)),
    ?assertMatch(#{verdict := same}, effect([{a, new}, {b, two}], Effects)).

noise(_) ->
    Samples = samples(8, fun(_, _) -> 1.0 end),
    ?assertMatch(#{verdict := quiet}, whittle_measure_analysis:noise(Samples)),
    Disturbed = [Sample#{<<"machine">> := Machine#{<<"others">> => 0.5}}
                 || #{<<"machine">> := Machine} = Sample <- Samples],
    ?assertMatch(#{verdict := noisy}, whittle_measure_analysis:noise(Disturbed)),
    Waiting = [Sample#{<<"machine">> := Machine#{<<"memory_wait">> => 0.06}}
               || #{<<"machine">> := Machine} = Sample <- Samples],
    ?assertMatch(#{verdict := noisy, memory := 0.06}, whittle_measure_analysis:noise(Waiting)),
    Uneven = [Sample#{<<"machine">> := Machine#{<<"pace">> => 5000 + 1000 * Block}}
              || #{<<"machine">> := Machine, <<"block">> := Block} = Sample <- Samples],
    ?assertMatch(#{verdict := noisy}, whittle_measure_analysis:noise(Uneven)).

%% Each verdict of a noisy run says so, also in the data.
noisy_verdicts(_) ->
    Samples = samples(12, fun(_, Level) -> level(Level, 1.0, 0.8) end),
    Noisy = [Sample#{<<"machine">> := Machine#{<<"others">> => 0.5}}
             || #{<<"machine">> := Machine} = Sample <- Samples],
    Verdicts = fun(Of) ->
                       Result = result(#{}, Of),
                       [_ | Rows] = whittle_measure_table:rows(Result, []),
                       {[lists:flatten(lists:nth(5, Row)) || Row <- Rows],
                        maps:get(effects, whittle_measure_table:json(Result, []))}
               end,
    {["" | Quiet], [#{effect := Effect} | _]} = Verdicts(Samples),
    ?assert(lists:member("better", Quiet)),
    ?assertNot(is_map_key(noisy, Effect)),
    {["" | Loud], Effects} = Verdicts(Noisy),
    [?assertMatch({_, {match, _}}, {Verdict, re:run(Verdict, " \\(noisy machine\\)$")})
     || Verdict <- Loud],
    [?assertMatch(#{effect := #{noisy := true}}, Each) || Each <- Effects].

%% Internal functions

level(<<"new">>, _, New) -> New;
level(_, Old, _) -> Old.

study(Changes) ->
    maps:merge(#{programs => [#{name => p}], references => [],
                 factors => [#{name => a, levels => [#{name => old}, #{name => new}]},
                             #{name => b, levels => [#{name => one}, #{name => two}]}],
                 baseline => #{a => old, b => one},
                 responses => [#{name => first_line, kind => first_line}]}, Changes).

result(Changes, Samples) ->
    [Result] = whittle_measure_analysis:results(study(Changes), Samples),
    Result.

%% Samples with a noise of 1 % and a drift of the machine. `Factor' gives the effect of a cell.
samples(Blocks, Factor) ->
    {Samples, _} = lists:mapfoldl(
                     fun({Block, A, B}, State0) ->
                             {Noise, State} = rand:normal_s(State0),
                             Cell = #{<<"program">> => <<"p">>, <<"a">> => A, <<"b">> => B},
                             Value = 100 * (1 + Block / 3) * Factor(Cell, A) * (1 + Noise / 100),
                             {#{<<"block">> => Block, <<"cell">> => Cell,
                                <<"values">> => #{<<"first_line">> => Value},
                                <<"failed">> => #{}, <<"curve">> => [],
                                <<"machine">> => #{<<"pace">> => 5000, <<"others">> => 0.01,
                                                   <<"steal">> => 0.0}}, State}
                     end, rand:seed_s(exsss, 42),
                     [{Block, A, B} || Block <- lists:seq(1, Blocks), A <- [<<"old">>, <<"new">>],
                                       B <- [<<"one">>, <<"two">>]]),
    Samples.

%% The rows with one level of b: `old', then `new'.
of_b(Level, Rows) ->
    [Row || A <- [old, new], #{levels := #{a := OfA, b := OfB}} = Row <- Rows, OfA =:= A,
            OfB =:= Level].

effect(Of, Effects) ->
    [Effect] = [Effect || #{changed := Changed, effect := Effect} <- Effects, Changed =:= Of],
    Effect.
