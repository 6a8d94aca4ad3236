%% @doc Keeps and joins curves of memory over time. A point is a list: milliseconds since the start,
%% and then the bytes of each kind of memory.
%% @hidden
-module(whittle_measure_curve).

-export([thin/2, median/1]).

-export_type([curve/0]).

-type curve() :: [[number()]].

%% The most points of a curve on a page. A chart has fewer pixels than twice this number.
-define(POINTS, 240).

%% @doc Keeps at most `Most' points. Of neighbors it keeps the point with the largest first value
%% behind the time, so that the curve keeps its peak.
-spec thin(pos_integer(), curve()) -> curve().
thin(Most, Curve) ->
    Count = length(Curve),
    case Count =< Most of
        true -> Curve;
        false ->
            Groups = maps:groups_from_list(fun({Index, _}) -> (Index - 1) * Most div Count end,
                                           fun({_, Point}) -> Point end, lists:enumerate(Curve)),
            [largest(Points) || {_, Points} <- lists:sort(maps:to_list(Groups))]
    end.

largest(Points) ->
    {_, Point} = lists:max([{Value, Point} || [_, Value | _] = Point <- Points]),
    Point.

%% @doc Returns the median of curves at each time. Between two points a curve is a line. The median
%% ends where fewer than half of the curves go on.
-spec median([curve()]) -> curve().
median([Curve]) -> thin(?POINTS, Curve);
median(Curves) ->
    Ends = lists:sort([hd(lists:last(Curve)) || Curve <- Curves]),
    Starts = lists:sort([hd(hd(Curve)) || Curve <- Curves]),
    Middle = fun(Times) -> lists:nth((length(Times) + 1) div 2, Times) end,
    {Start, End} = {Middle(Starts), Middle(Ends)},
    Count = min(?POINTS, lists:max([length(Curve) || Curve <- Curves])),
    Step = (End - Start) / max(1, Count - 1),
    lists:append([at(Start + Step * Index, Step, Curves) || Index <- lists:seq(0, Count - 1)]).

at(Time, Step, Curves) ->
    Values = [Values || Curve <- Curves, Values <- near(Time, Step, Curve)],
    [[Time | [whittle_measure_statistics:median(Kind) || Kind <- columns(Values)]]
     || 2 * length(Values) >= length(Curves)].

columns([[] | _]) -> [];
columns([]) -> [];
columns(Rows) -> [[First || [First | _] <- Rows] | columns([Rest || [_ | Rest] <- Rows])].

%% The values of a curve at a time. Runs do not begin and end at the same moments, so a curve has
%% its first and last values for one step more.
near(Time, Step, [[First | Values] | _]) when Time < First -> [Values || First - Time =< Step];
near(Time, Step, Curve) ->
    [Last | Values] = lists:last(Curve),
    case Time > Last of
        true -> [Values || Time - Last =< Step];
        false -> [between(Time, Curve)]
    end.

between(_, [[_ | Values]]) -> Values;
between(Time, [[Before | Old], [After | New] | _]) when Time =< After ->
    Part = (Time - Before) / max(1, After - Before),
    [Low + Part * (High - Low) || {Low, High} <- lists:zip(Old, New)];
between(Time, [_ | Rest]) -> between(Time, Rest).
