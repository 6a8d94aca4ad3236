%% Tests how curves of memory are kept and joined.
-module(whittle_measure_curve_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([thin/1, keeps_the_peak/1, median/1, unequal_lengths/1, one/1]).

all() -> [thin, keeps_the_peak, median, unequal_lengths, one].

%% A curve has at most the given number of points, in order, and a short curve stays as it is.
thin(_) ->
    [begin
         Curve = [[Time, Time rem 7, 1, 2] || Time <- lists:seq(1, Count)],
         Thin = whittle_measure_curve:thin(600, Curve),
         ?assert(length(Thin) =< 600),
         ?assertEqual(min(Count, 600), length(Thin)),
         ?assertEqual(Thin, lists:sort(Thin)),
         ?assertEqual([], Thin -- Curve)
     end || Count <- [0, 1, 599, 600, 601, 1200, 6001]].

keeps_the_peak(_) ->
    Curve = [[Time, case Time of 1234 -> 99; _ -> 5 end, 0, 0] || Time <- lists:seq(1, 5000)],
    ?assert(lists:member([1234, 99, 0, 0], whittle_measure_curve:thin(600, Curve))).

%% The runs do not read the memory at the same moments.
median(_) ->
    Line = fun(Shift, Height) ->
                   [[Time * 1000 + Shift, Height + Time, 0] || Time <- lists:seq(0, 10)]
           end,
    Median = whittle_measure_curve:median([Line(0, 10), Line(100, 20), Line(200, 90)]),
    ?assertEqual(11, length(Median)),
    [?assert(Value >= 19.5 andalso Value =< 30.5) || [Time, Value, _] <- Median, Time > 200],
    ?assertEqual([100.0, 10_100.0], [hd(Point) || Point <- [hd(Median), lists:last(Median)]]).

%% A run that ended early does not shorten the others.
unequal_lengths(_) ->
    Short = [[0, 1, 1], [1000, 1, 1]],
    Long = [[Time, 5, 5] || Time <- lists:seq(0, 9000, 1000)],
    Median = whittle_measure_curve:median([Long, Short, Long]),
    ?assertEqual(9000.0, hd(lists:last(Median))),
    ?assertEqual([5], lists:usort([round(Value) || [_, Value, _] <- Median])).

one(_) ->
    ?assertEqual([[0, 1], [5, 2]], whittle_measure_curve:median([[[0, 1], [5, 2]]])),
    ?assertEqual([[3.0, 1.5]], whittle_measure_curve:median([[[3, 1]], [[3, 2]]])).
