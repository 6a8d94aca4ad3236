%% @doc Describes the charts of a study in Vega-Lite (vega.github.io/vega-lite).
%%
%% The descriptions are data. `web/chart' draws them. Lines and texts take the color of the page, so
%% that one drawing serves light and dark pages. The colors of data are those of Okabe and Ito
%% ("Color Universal Design", 2008), which people with any color vision can tell apart. The blue is
%% lighter than theirs, for dark pages.
-module(whittle_measure_chart).

-export([intervals/2, series/1, curves/3, accounts/1, points/1]).
%% Parts for the charts of other applications.
-export([base/0, colors/0, legend/1]).

-define(WIDTH, 460).
-define(COLORS, [<<"#2b8cca">>, <<"#d55e00">>, <<"#009e73">>, <<"#cc79a7">>, <<"#e69f00">>,
                 <<"#56b4e9">>]).
%% Charts with more kinds than these colors also use gray and a dark yellow.
-define(MORE_COLORS, ?COLORS ++ [<<"#999999">>, <<"#b8a800">>]).

%% @doc Describes the medians of one result with their intervals, one line for each cell. Behind
%% them a stroke marks the value of each run, so that the chart shows the distribution. A line
%% across the chart marks the baseline. An exact value has no interval and no strokes. `Runs' has
%% the values of each row.
-spec intervals(map(), [[number()]]) -> whittle_json:json().
intervals(#{response := Response, rows := Rows}, Runs) ->
    Unit = whittle_measure_response:unit(Response),
    Strokes = [#{cell => text(whittle_measure_table:levels(Levels)), run => scaled(Value, Unit)}
               || {#{levels := Levels}, Values}
                      <- lists:zip(whittle_measure_table:varied(Rows), Runs),
                  Value <- Values],
    Values = [maps:merge(#{cell => text(whittle_measure_table:levels(Levels)),
                           median => scaled(Median, Unit), baseline => Ratio =:= baseline},
                         ends(Row, Unit))
              || #{levels := Levels, median := Median, ratio := Ratio} = Row
                     <- whittle_measure_table:varied(Rows)],
    Y = #{field => cell, type => nominal, sort => null, title => null,
          axis => #{labelLimit => 480}},
    X = #{type => quantitative, title => text(axis(Response, Unit)), scale => #{zero => true}},
    (base())#{data => #{values => Values}, height => #{step => 22},
              layer =>
                  [#{data => #{values => Strokes},
                     mark => #{type => tick, color => currentColor, opacity => 0.4, thickness => 1,
                               size => 14},
                     encoding => #{x => X#{field => run}, y => Y}}
                   || Strokes =/= []] ++
                  [#{transform => [#{filter => <<"datum.baseline">>}],
                     mark => #{type => rule, strokeDash => [4, 4], color => currentColor,
                               opacity => 0.6},
                     encoding => #{x => X#{field => median}}},
                   #{transform => [#{filter => <<"isValid(datum.low)">>}],
                     mark => #{type => rule, color => hd(?COLORS), strokeWidth => 2},
                     encoding => #{x => X#{field => low}, x2 => #{field => high}, y => Y}},
                   #{mark => #{type => point, filled => true, color => hd(?COLORS), size => 60},
                     encoding => #{x => X#{field => median}, y => Y}}]}.

%% @doc Describes the medians of a series with their intervals: one line for each cell, the numbers
%% on a scale on which each doubling takes the same length.
-spec series(whittle_measure_series:series()) -> whittle_json:json().
series(#{name := Name, unit := Unit, points := [{_, #{response := Response}} | _] = Points}) ->
    Values = [maps:merge(#{cell => text(whittle_measure_table:levels(Levels)), number => Number,
                           median => scaled(Median, Unit)}, ends(Row, Unit))
              || {Number, #{rows := Rows}} <- Points,
                 #{levels := Levels, median := Median} = Row <- whittle_measure_table:varied(Rows)],
    X = #{field => number, type => quantitative, title => <<"N">>,
          scale => case Points of
                       [{0, _} | _] -> #{type => linear};
                       _ -> #{type => log, base => 2}
                   end,
          axis => #{values => [Number || {Number, _} <- Points]}},
    %% A title that all of them have is that of the series.
    Title = case lists:usort([maps:get(title, Each, none) || {_, #{response := Each}} <- Points]) of
                [One] when One =/= none -> One;
                _ -> [Name, "_N"]
            end,
    Y = #{type => quantitative, title => text(axis(Response#{title => Title}, Unit))},
    Cell = #{field => cell, type => nominal, sort => null, legend => legend(2)},
    Color = Cell#{scale => #{range => ?MORE_COLORS}},
    (base())#{data => #{values => Values}, height => 240,
              layer =>
                  [#{transform => [#{filter => <<"isValid(datum.low)">>}],
                     mark => #{type => rule, strokeWidth => 2, opacity => 0.5},
                     encoding => #{x => X, y => Y#{field => low}, y2 => #{field => high},
                                   color => Color}},
                   #{mark => #{type => line, point => true},
                     encoding => #{x => X, y => Y#{field => median}, color => Color,
                                   strokeDash => Cell}}]}.

%% @doc Describes the memory of a program over time: one line for each level of a factor. `Column'
%% is the place in a point of a curve: 2 is RSS, 3 PSS, 4 anonymous memory.
-spec curves(2..4, unicode:chardata(),
             {unicode:chardata(), [{unicode:chardata(), whittle_measure_curve:curve()}]}) ->
          whittle_json:json().
curves(Column, Title, {Factor, Lines}) ->
    Values = [#{level => text(Level), time => hd(Point) / 1000,
                megabytes => lists:nth(Column, Point) / 1.0e6}
              || {Level, Points} <- Lines, Point <- Points],
    Level = #{field => level, type => nominal, sort => null, legend => legend(4)},
    (base())#{data => #{values => Values}, height => 240, title => text(Factor),
              mark => #{type => line, interpolate => linear},
              encoding =>
                  #{x => #{field => time, type => quantitative, title => <<"seconds">>},
                    y => #{field => megabytes, type => quantitative,
                           title => text([Title, ", MB"])},
                    color => Level#{scale => #{range => ?MORE_COLORS}},
                    strokeDash => Level}}.

%% @doc Describes the groups of bytes that make up the memory of each cell, as bars.
-spec accounts([{unicode:chardata(), [{unicode:chardata(), number()}]}]) -> whittle_json:json().
accounts(Cells) ->
    Values = [#{cell => text(Cell), group => text(Group), megabytes => Bytes / 1.0e6,
                order => Order}
              || {Cell, Groups} <- Cells, {Order, {Group, Bytes}} <- lists:enumerate(Groups)],
    Order = [text(Group) || {_, Groups} <- lists:sublist(Cells, 1), {Group, _} <- Groups],
    (base())#{data => #{values => Values}, height => #{step => 22},
              mark => #{type => bar, stroke => currentColor, strokeWidth => 0.4},
              encoding =>
                  #{x => #{field => megabytes, type => quantitative, stack => zero,
                           title => <<"resident memory at the end of the run, MB">>},
                    y => #{field => cell, type => nominal, sort => null, title => null,
                           axis => #{labelLimit => 480}},
                    color => #{field => group, type => nominal, sort => Order,
                               scale => #{domain => Order, range => ?MORE_COLORS},
                               legend => legend(2)},
                    order => #{field => order, type => quantitative}}}.

%% @doc Describes a legend of so many columns below the chart, where it also fits a narrow page.
%% Without a canvas, Vega takes 0.8 of the height for the width of each letter, so a limit that fits
%% the text would cut it.
-spec legend(pos_integer()) -> whittle_json:json().
legend(Columns) -> #{title => null, labelLimit => 480, orient => bottom, columns => Columns}.

%% @doc Describes points of two values: megabytes and a ratio of time. `front' is the kind of a
%% point, which its color and its shape show.
-spec points([#{name := binary(), peak := float(), slowdown := float(), front := binary()}]) ->
          whittle_json:json().
points(Points) ->
    X = #{field => peak, type => quantitative, title => <<"largest resident memory, MB">>,
          scale => #{zero => false}},
    Y = #{field => slowdown, type => quantitative, scale => #{zero => false},
          title => <<"time or CPU time, as a ratio to the program's own settings">>},
    Kind = #{field => front, type => nominal, sort => null, legend => #{title => null,
                                                                       labelLimit => 260}},
    (base())#{data => #{values => Points}, height => 300,
              layer => [#{mark => #{type => point, filled => true, size => 70},
                          encoding => #{x => X, y => Y,
                                        color => Kind#{scale => #{range => ?COLORS}},
                                        shape => Kind}},
                        #{mark => #{type => text, align => left, dx => 8, fontSize => 9,
                                    color => currentColor},
                          encoding => #{x => X, y => Y,
                                        text => #{field => name, type => nominal}}}]}.

%% Internal functions

ends(#{interval := {Low, High}}, Unit) -> #{low => scaled(Low, Unit), high => scaled(High, Unit)};
ends(_, _) -> #{}.

%% @doc Describes a chart without data, marks and encodings.
-spec base() -> #{atom() | binary() => whittle_json:json()}.
base() ->
    #{<<"$schema">> => <<"https://vega.github.io/schema/vega-lite/v6.json">>,
      width => ?WIDTH, background => null,
      config => #{axis => #{labelColor => currentColor, titleColor => currentColor,
                            tickColor => currentColor, domainColor => currentColor,
                            gridColor => currentColor, gridOpacity => 0.15},
                  legend => #{labelColor => currentColor, titleColor => currentColor},
                  title => #{color => currentColor, fontSize => 11, fontWeight => normal,
                             anchor => start},
                  view => #{stroke => null},
                  font => <<"sans-serif">>}}.

%% @doc Returns the colors of data.
-spec colors() -> [binary()].
colors() -> ?COLORS.

scaled(Value, bytes) -> Value / 1.0e6;
scaled(Value, _) -> float(Value).

axis(Response, bytes) -> [whittle_measure_response:title(Response), ", MB"];
axis(Response, milliseconds) -> [whittle_measure_response:title(Response), ", ms"];
axis(Response, count) -> whittle_measure_response:title(Response);
axis(Response, Unit) -> [whittle_measure_response:title(Response), ", ", Unit].

text(Chars) -> unicode:characters_to_binary(Chars).
