%% @doc Describes the charts of a run in Vega-Lite ({@link whittle_measure_chart}).
%% @hidden
-module(whittle_load_chart).

-export([percentiles/1, latencies/1, heat/1, users/1, arrivals/1, messages/1, errors/1, cpu/1,
         memory/1]).

%% A chart has fewer pixels than twice this number.
-define(POINTS, 240).
%% The columns of the heat map, and its rows in each power of two.
-define(COLUMNS, 80).
-define(ROWS, 3).
-define(WIDTH, 400).
-define(HEIGHT, 220).
-define(LETTERS, 12).
%% The most lines of one chart.
-define(LINES, 6).

%% @doc Describes the percentiles of each step. The axis shows the tail: each power of ten adds one
%% nine.
-spec percentiles([{binary(), whittle_counters_table:distribution()}]) -> whittle_json:json().
percentiles(Steps) ->
    Most = lists:sublist(lists:reverse(lists:sort([{Count, Name, Distribution}
                                                   || {Name, #{count := Count} = Distribution}
                                                          <- Steps, Count > 0])), ?LINES),
    Values = [#{line => Name, x => Tail, y => quantile(1 - 1 / Tail, Distribution)}
              || {Count, Name, Distribution} <- Most, Tail <- tails(Count)],
    X = #{field => x, type => quantitative, title => <<"percentile">>,
          scale => #{type => log, nice => false},
          axis => #{values => [1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000],
                    labelExpr => <<"datum.value == 1 ? '0 %' : datum.value == 2 ? '50 %' : "
                                   "format(100 - 100 / datum.value, '~r') + ' %'">>}},
    lines(Values, X, times(<<"latency">>, Values)).

%% From 1, the smallest value, to the number of values, the largest.
tails(Count) ->
    [math:pow(10, K / 8) || K <- lists:seq(0, floor(8 * math:log10(Count)))] ++ [Count].

quantile(Part, Distribution) ->
    max(1.0, float(whittle_load_result:quantile(Part, Distribution))) / 1.0e6.

%% @doc Describes the latencies of all steps over time.
-spec latencies([whittle_load_series:row()]) -> whittle_json:json().
latencies(Rows) ->
    Values = [#{line => Name, x => Second, y => quantile(Part, Latency)}
              || {Name, Part} <- [{<<"max">>, 1.0}, {<<"p99">>, 0.99}, {<<"p90">>, 0.9},
                                  {<<"p50">>, 0.5}],
                 #{second := Second, latency := #{count := Count} = Latency} <- thin(Rows),
                 Count > 0],
    lines(Values, seconds(), times(<<"latency">>, Values)).

%% @doc Describes how many steps took which time, over time.
-spec heat([whittle_load_series:row()]) -> whittle_json:json().
heat(Rows) ->
    Thin = whittle_load_series:thin(?COLUMNS, Rows),
    Values = [#{x => Second, x2 => Second + Seconds, y => math:pow(2, Row / ?ROWS) / 1.0e6,
                y2 => math:pow(2, (Row + 1) / ?ROWS) / 1.0e6, n => N}
              || #{second := Second, seconds := Seconds, latency := #{buckets := Buckets}} <- Thin,
                 {Row, N} <- rows(Buckets)],
    Y = times(<<"latency">>, [#{y => Y} || #{y := Low, y2 := High} <- Values, Y <- [Low, High]]),
    (base())#{
      data => #{values => Values},
      mark => #{type => rect, aria => false, color => hd(whittle_measure_chart:colors())},
      encoding => #{x => seconds(), x2 => #{field => x2}, y => Y, y2 => #{field => y2},
                    fillOpacity => #{field => n, type => quantitative, legend => null,
                                     scale => #{type => log, range => [0.15, 1.0]}}}}.

%% Bucket I of a histogram ends at 2^(I/32).
rows(Buckets) ->
    maps:to_list(lists:foldl(fun({I, N}, Sum) ->
                                     whittle_load_second:sums(#{max(0, I - 1) * ?ROWS div 32 => N},
                                                              Sum)
                             end, #{}, Buckets)).

%% @doc Describes the users over time.
-spec users([whittle_load_series:row()]) -> whittle_json:json().
users(Rows) ->
    Thin = thin(Rows),
    over_time([{<<"running">>, [{Second, N} || #{second := Second, running := N} <- Thin]},
               {<<"held">>, [{Second, N} || #{second := Second, held := N} <- Thin]}],
              <<"users">>).

%% @doc Describes planned and actual arrivals.
-spec arrivals([whittle_load_series:row()]) -> whittle_json:json().
arrivals(Rows) ->
    over_time([{Name, rates(Key, Rows)}
               || {Name, Key} <- [{<<"planned">>, planned}, {<<"actual">>, actual}]],
              <<"users per second">>).

%% @doc Describes the messages or requests per second.
-spec messages([whittle_load_series:row()]) -> whittle_json:json().
messages(Rows) ->
    over_time([{Name, rates(Key, Rows)}
               || {Name, Key} <- [{<<"sent">>, sent}, {<<"received">>, received}]],
              <<"per second">>).

rates(Key, Rows) ->
    [{Second, map_get(Key, Row) / Seconds}
     || #{second := Second, seconds := Seconds} = Row <- thin(Rows)].

%% @doc Describes the errors per second, by kind.
-spec errors([whittle_load_series:row()]) -> whittle_json:json().
errors(Rows) ->
    Sums = lists:foldl(fun(#{errors := Each}, Sum) -> whittle_load_second:sums(Each, Sum) end, #{},
                       Rows),
    Kinds = [Kind || {_, Kind} <- lists:sublist(lists:reverse(lists:sort(
                                                 [{N, Kind} || {Kind, N} <- maps:to_list(Sums)])),
                                                ?LINES)],
    over_time([{Kind, [{Second, maps:get(Kind, Errors, 0) / Seconds}
                       || #{second := Second, seconds := Seconds, errors := Errors} <- thin(Rows)]}
               || Kind <- Kinds], <<"errors per second">>).

%% @doc Describes the processors that agents and server used.
-spec cpu([whittle_load_series:row()]) -> whittle_json:json().
cpu(Rows) -> over_time(known([{<<"all agents">>, cpu}, {<<"busiest agent">>, busiest},
                              {<<"server">>, server_cpu}], 1, Rows), <<"processors">>).

%% @doc Describes the memory of agents and server.
-spec memory([whittle_load_series:row()]) -> whittle_json:json().
memory(Rows) -> over_time(known([{<<"all agents">>, rss}, {<<"server">>, server_rss}], 1.0e6, Rows),
                          <<"resident memory, MB">>).

known(Lines, Unit, Rows) ->
    [{Name, Points} || {Name, Key} <- Lines,
                       [_ | _] = Points <- [[{Second, map_get(Key, Row) / Unit}
                                             || #{second := Second} = Row <- thin(Rows),
                                                map_get(Key, Row) =/= none]]].

thin(Rows) -> whittle_load_series:thin(?POINTS, Rows).

%% Internal functions: Vega-Lite

%% The letters are readable on a narrow screen, where the page makes the drawing smaller.
base() ->
    #{config := #{axis := Axis, legend := Legend} = Config} = Base = whittle_measure_chart:base(),
    Base#{width => ?WIDTH, height => ?HEIGHT,
          config := Config#{axis := Axis#{labelFontSize => ?LETTERS, titleFontSize => ?LETTERS},
                            legend := Legend#{labelFontSize => ?LETTERS}}}.

over_time(Lines, Title) ->
    lines([#{line => Name, x => X, y => Y} || {Name, Points} <- Lines, {X, Y} <- Points],
          seconds(), #{field => y, type => quantitative, title => Title,
                       axis => case lists:max([0 | [Y || {_, Points} <- Lines,
                                                         {_, Y} <- Points]]) of
                                   Most when Most >= 10_000 -> #{format => <<"~s">>};
                                   _ -> #{}
                               end}).

lines(Values, X, Y) ->
    Line = #{field => line, type => nominal, sort => null,
             legend => whittle_measure_chart:legend(4)},
    (base())#{
      data => #{values => Values},
      mark => #{type => line, strokeWidth => 1.6, point => has_alone(Values)},
      encoding => #{x => X, y => Y,
                    color => Line#{scale => #{range => whittle_measure_chart:colors()}},
                    strokeDash => Line}}.

%% A line of one point has no length, so the point needs a mark of its own.
has_alone(Values) ->
    Points = maps:groups_from_list(fun(#{line := Name}) -> Name end, Values),
    lists:any(fun(Own) -> length(Own) =:= 1 end, maps:values(Points)).

seconds() ->
    #{field => x, type => quantitative, title => <<"seconds">>, scale => #{nice => false}}.

%% A logarithmic axis of milliseconds, with units at its labels.
times(Title, Values) ->
    {Low, High} = case [Y || #{y := Y} <- Values] of
                      [] -> {0.1, 10.0};
                      Ys -> {lists:min(Ys) / 1.05, lists:max(Ys) * 1.05}
                  end,
    Decades = lists:seq(floor(math:log10(Low)), ceil(math:log10(High))),
    Steps = case length(Decades) > 3 of true -> [1]; false -> [1, 2, 5] end,
    Labels = [Step * math:pow(10, Decade) || Decade <- Decades, Step <- Steps],
    #{field => y, type => quantitative, title => Title,
      scale => #{type => log, nice => false, domain => ends(Low, High, Labels)},
      axis => #{values => Labels,
                labelExpr => <<"datum.value < 0.000999 ? format(datum.value * 1000000, '~r') + "
                               "' ns'"
                               " : datum.value < 0.999 ? format(datum.value * 1000, '~r') + ' us' "
                               ": datum.value < 999 ? format(datum.value, '~r') + ' ms' : "
                               "format(datum.value / 1000, '~r') + ' s'">>}}.

%% The ends of an axis. It has at least two labels, so that a reader sees its unit.
ends(Low, High, Labels) ->
    case [Label || Label <- Labels, Label >= Low, Label =< High] of
        [_, _ | _] -> [Low, High];
        _ ->
            [lists:max([Label || Label <- Labels, Label =< Low]),
             lists:min([Label || Label <- Labels, Label >= High])]
    end.
