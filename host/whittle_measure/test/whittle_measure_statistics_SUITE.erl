%% Tests whittle_measure_statistics against SciPy on generated data, and the coverage of its
%% intervals by simulation.
-module(whittle_measure_statistics_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([quantiles/1, t_tests/1, welch_tests/1, t_quantiles/1, holm/1, bootstrap/1, coverage/1,
         few_values/1, many_values/1, power/1, same_values/1, slopes/1, exact_slope/1]).

all() ->
    [quantiles, t_tests, welch_tests, t_quantiles, holm, bootstrap, coverage, few_values,
     many_values, power, same_values, slopes, exact_slope].

quantiles(_) ->
    Sets = sets(),
    Ours = [[whittle_measure_statistics:quantile(Part, Set) || Part <- [0.0, 0.1, 0.5, 0.9, 1.0]]
            ++ [whittle_measure_statistics:mean(Set), whittle_measure_statistics:deviation(Set),
                whittle_measure_statistics:geometric_mean([abs(V) || V <- Set])]
            || Set <- Sets],
    compare(Ours, "[[*numpy.quantile(s, [0, .1, .5, .9, 1]), numpy.mean(s), numpy.std(s, ddof=1), "
            "scipy.stats.gmean(numpy.abs(s))] for s in data]", Sets).

t_tests(_) ->
    Sets = sets(),
    Ours = [begin
                #{mean := Mean, error := Error, p := P} = whittle_measure_statistics:t_test(Set),
                [Mean, Error, P]
            end || Set <- Sets],
    compare(Ours, "[[numpy.mean(s), scipy.stats.sem(s), scipy.stats.ttest_1samp(s, 0).pvalue] "
            "for s in data]", Sets).

welch_tests(_) ->
    Sets = sets(),
    Pairs = [[One, Other] || One <- Sets, Other <- Sets, One =/= Other],
    Ours = [begin
                #{mean := Mean, p := P} = whittle_measure_statistics:welch_test(One, Other),
                [Mean, P]
            end || [One, Other] <- Pairs],
    compare(Ours, "[[numpy.mean(b) - numpy.mean(a), scipy.stats.ttest_ind(a, b, equal_var=False)."
            "pvalue] for a, b in data]", Pairs).

t_quantiles(_) ->
    Points = [[Above, Freedom] || Above <- [0.2, 0.05, 0.025, 0.0005],
                                  Freedom <- [1, 2, 5, 30, 999]],
    %% SciPy inverts its distribution with an error of some 1.0e-9. With one degree of freedom, the
    %% quantile has a closed form.
    Ours = [whittle_measure_statistics:t_quantile(Above, Freedom) || [Above, Freedom] <- Points],
    close(Ours, scipy("[scipy.stats.t.isf(a, f) for a, f in data]", Points), 1.0e-8),
    [close(whittle_measure_statistics:t_quantile(Above, 1), 1 / math:tan(Above * math:pi()))
     || [Above, 1] <- Points].

slopes(_) ->
    Sets = [Set || [_, _, _ | _] = Set <- sets()],
    Points = [lists:zip(lists:seq(1, length(Set)), Set) || Set <- Sets],
    Ours = [begin
                #{slope := Slope, at_zero := AtZero, error := Error, interval := {Low, High}} =
                    whittle_measure_statistics:slope(Set),
                [Slope, AtZero, Error, Low, High]
            end || Set <- Points],
    %% The quantile of t is SciPy's, which has an error of some 1.0e-9.
    close(lists:append(Ours),
          lists:append(
            scipy("[(lambda r, h: [r.slope, r.intercept, r.stderr, r.slope - h * r.stderr, "
                  "r.slope + h * r.stderr])(scipy.stats.linregress(range(1, len(s) + 1), s), "
                  "scipy.stats.t.isf(.025, len(s) - 2)) for s in data]", Sets)), 1.0e-7).

exact_slope(_) ->
    #{slope := Slope, at_zero := AtZero, error := Error} =
        whittle_measure_statistics:slope([{0, 3}, {1, 5}, {10, 23}]),
    close([Slope, AtZero, Error], [2.0, 3.0, 0.0], 1.0e-9).

%% SciPy 1.10 has no correction of Holm, so the test states it in another form: the largest of the
%% corrected values up to each rank.
holm(_) ->
    {Sets, _} = lists:mapfoldl(fun(Size, State) -> floats(Size, State) end, rand:seed_s(exsss, 7),
                               [1, 2, 3, 10, 50]),
    compare([whittle_measure_statistics:holm(Set) || Set <- Sets],
            "[(lambda o, n: [float(max(min(1, (n - r) * s[o[r]]) for r in range(k + 1)))"
            " for k in numpy.argsort(o)])(numpy.argsort(s), len(s)) for s in data]", Sets).

%% Both draw 2,000 resamples, so that the ends differ a little.
bootstrap(_) ->
    Sets = [Set || Set <- sets(), length(Set) >= 10],
    Ours = [tuple_to_list(whittle_measure_statistics:interval(
                            fun whittle_measure_statistics:mean/1, Set, 1)) || Set <- Sets],
    Theirs = scipy("[list(scipy.stats.bootstrap((s,), numpy.mean, method='percentile', "
                   "n_resamples=20000, random_state=1).confidence_interval) for s in data]", Sets),
    [begin
         Width = High - Low,
         ?assert(abs(OurLow - Low) < 0.1 * Width),
         ?assert(abs(OurHigh - High) < 0.1 * Width)
     end || {[OurLow, OurHigh], [Low, High]} <- lists:zip(Ours, Theirs)].

%% The interval of a median contains the true median as often as it promises. A share of 300 sets
%% has a deviation of 2.5 % at most.
coverage(_) ->
    [begin
         Promised = whittle_measure_statistics:confidence(Count),
         Share = share_of_hits(Count),
         ?assertMatch({_, true, _}, {Count, Share > Promised - 0.05, Share}),
         %% The interval of few values is no wider than its confidence needs.
         ?assertMatch({_, true, _}, {Count, Count > 5 orelse Share < Promised + 0.05, Share})
     end || Count <- lists:seq(3, 10)].

share_of_hits(Count) ->
    {Hits, _} = lists:mapfoldl(
                  fun(_, State0) ->
                          {Set, State} = lists:mapfoldl(fun(_, S) -> rand:normal_s(S) end, State0,
                                                        lists:seq(1, Count)),
                          {Low, High} = whittle_measure_statistics:median_interval(Set),
                          {Low =< 0 andalso 0 =< High, State}
                  end, rand:seed_s(exsss, 3), lists:seq(1, 300)),
    length([hit || true <- Hits]) / 300.

%% The confidence of the range, and the ranks of tables of the sign test.
few_values(_) ->
    ?assertEqual([0.0, 0.5, 0.75, 0.875, 0.9375, 0.95, 0.95],
                 [whittle_measure_statistics:confidence(Count) || Count <- lists:seq(1, 7)]),
    [?assertEqual({Count, Low, High},
                  begin
                      {From, To} = whittle_measure_statistics:median_interval(lists:seq(1, Count)),
                      {Count, round(From), round(To)}
                  end)
     || {Count, Low, High} <- [{2, 1, 2}, {5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {11, 2, 10},
                               {12, 3, 10}, {15, 4, 12}, {20, 6, 15}]].

%% 2^-1100 is no float.
many_values(_) ->
    [begin
         {Low, High} = whittle_measure_statistics:median_interval(lists:seq(1, Count)),
         Width = 1.96 * math:sqrt(Count),
         ?assertMatch({_, Share} when Share > 0.99, {Count, (High - Low) / Width}),
         ?assertMatch({_, Share} when Share < 1.1, {Count, (High - Low) / Width})
     end || Count <- [900, 1100]].

%% A t test finds a difference of the stated size in about four of five samples.
power(_) ->
    {Found, _} = lists:mapfoldl(
                   fun(_, State0) ->
                           {Noise, State} = lists:mapfoldl(fun(_, S) -> rand:normal_s(S) end,
                                                           State0, lists:seq(1, 12)),
                           %% The true deviation is 1, so the stated size is near this one.
                           Size = whittle_measure_statistics:detectable([-0.957, 0.957] ++ unit(10),
                                                                        0.05),
                           #{p := P} = whittle_measure_statistics:t_test([N + Size || N <- Noise]),
                           {P < 0.05, State}
                   end, rand:seed_s(exsss, 5), lists:seq(1, 500)),
    Share = length([found || true <- Found]) / 500,
    ?assert(Share > 0.7),
    ?assert(Share < 0.9).

%% Values with the deviation 1.
unit(Count) -> [case N rem 2 of 0 -> 0.957; 1 -> -0.957 end || N <- lists:seq(1, Count)].

same_values(_) ->
    ?assertMatch(#{p := 1.0}, whittle_measure_statistics:t_test([0, 0, 0])),
    ?assertMatch(#{p := +0.0}, whittle_measure_statistics:t_test([2, 2, 2])),
    ?assertEqual({3.0, 3.0}, whittle_measure_statistics:interval(
                               fun whittle_measure_statistics:median/1, [3], 1)),
    ?assertEqual({3.0, 3.0}, whittle_measure_statistics:interval(
                               fun whittle_measure_statistics:median/1, [3, 3, 3], 1)).

%% Internal functions

%% Sets of 2 to 60 values around different means.
sets() ->
    {Sets, _} = lists:mapfoldl(
                  fun({Size, Mean, Spread}, State0) ->
                          lists:mapfoldl(fun(_, S0) ->
                                                 {Normal, S} = rand:normal_s(S0),
                                                 {Mean + Spread * Normal, S}
                                         end, State0, lists:seq(1, Size))
                  end, rand:seed_s(exsss, 11),
                  [{Size, Mean, Spread} || Size <- [2, 3, 10, 60],
                                           {Mean, Spread} <- [{0.0, 1.0}, {1.0, 0.5},
                                                              {1.0e6, 20.0}]]),
    Sets.

floats(Size, State) ->
    lists:mapfoldl(fun(_, S) -> rand:uniform_s(S) end, State, lists:seq(1, Size)).

compare(Ours, Expression, Data) ->
    close(Ours, scipy(Expression, Data)).

close(One, Other) -> close(One, Other, 1.0e-9).

close(One, Other, Relative) when is_list(One) ->
    ?assertEqual(length(One), length(Other)),
    lists:foreach(fun({A, B}) -> close(A, B, Relative) end, lists:zip(One, Other));
close(One, Other, Relative) ->
    ?assert(abs(One - Other) =< Relative * max(abs(One), abs(Other)) + 1.0e-12).

%% Evaluates an expression of Python over the data. /usr/bin/python3 is Debian's, whose package
%% python3-scipy tools/packages names.
scipy(Expression, Data) ->
    Program = ["import sys, json, numpy, scipy.stats\n",
               "data = json.load(sys.stdin)\n",
               "print(json.dumps(", Expression, ", default=float))\n"],
    {ok, Output} = whittle_program:filter(
                     "/usr/bin/python3 -c "
                     ++ unicode:characters_to_list(whittle_program:quoted(Program)),
                     iolist_to_binary(whittle_json:encode(Data)), infinity),
    jiffy:decode(Output).
