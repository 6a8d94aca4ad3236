%% @doc Writes the results of a study as text for a terminal.
%% @hidden
-module(whittle_measure_table).

-export([rows/1, json/1, value/2, interval/2, comparison/1, verdict/1, levels/1]).

%% @doc Returns the table of one response and program: a head and one row for each cell, for
%% `whittle_table'. The unit is in the head.
-spec rows(map()) -> [[unicode:chardata() | integer()]].
rows(#{response := Response, rows := Rows, effects := Effects}) ->
    Unit = whittle_measure_response:unit(Response),
    [[[atom_to_list(maps:get(name, Response)), ", ", unit(Unit)], "median", "95 % interval",
      "against the baseline", "verdict"]
     | [row(Row, Unit) || Row <- Rows]]
        ++ [[effect(Of), "", "", comparison(Effect), verdict(Effect)]
            || #{changed := Of, effect := Effect} <- Effects].

%% @doc Returns one result as data.
-spec json(map()) -> whittle_json:json().
json(#{response := #{name := Name} = Response, program := Program, rows := Rows,
       effects := Effects}) ->
    #{response => Name, program => Program, unit => unicode_text(unit(whittle_measure_response:unit(
                                                                         Response))),
      rows => [maps:map(fun json_value/2, maps:without([interval], Row)) || Row <- Rows],
      effects => [#{changed => maps:from_list(Of), effect => json_value(effect, Effect)}
                  || #{changed := Of, effect := Effect} <- Effects]}.

json_value(_, #{interval := {Low, High}} = Comparison) -> Comparison#{interval := [Low, High]};
json_value(_, Value) -> Value.

unicode_text(Text) -> unicode:characters_to_binary(Text).

row(#{levels := Levels, median := Median, interval := Interval, ratio := Ratio} = Row, Unit) ->
    [levels(Levels), value(Median, Unit), interval(Interval, Unit), comparison(Ratio),
     [verdict(Ratio), failures(Row)]];
row(#{levels := Levels} = Row, _) ->
    [levels(Levels), "-", "-", "-", failures(Row)].

failures(#{failed := 0}) -> "";
failures(#{failed := Failed, n := N}) -> io_lib:format(" (~b of ~b failed)", [Failed, Failed + N]).

%% @doc Writes levels: `shake=functions, flavor=size'.
-spec levels(#{atom() => atom()}) -> unicode:chardata().
levels(Levels) when map_size(Levels) =:= 0 -> "all";
levels(Levels) ->
    lists:join(", ", [[atom_to_list(Name), $=, atom_to_list(Level)]
                      || {Name, Level} <- lists:sort(maps:to_list(Levels))]).

effect(Of) -> ["effect of ", lists:join(" with ", [[atom_to_list(Name), $=, atom_to_list(Level)]
                                                   || {Name, Level} <- Of])].

unit(bytes) -> "bytes";
unit(milliseconds) -> "ms";
unit(count) -> "count";
unit(Text) -> Text.

%% @doc Writes a value in its unit.
-spec value(float(), whittle_measure_response:unit()) -> unicode:chardata().
value(Value, bytes) -> whittle_number:text(round(Value));
value(Value, _) when Value >= 1000 -> whittle_number:text(round(Value));
value(Value, _) when Value >= 100 -> io_lib:format("~.1f", [float(Value)]);
value(Value, _) -> io_lib:format("~.2f", [float(Value)]).

%% @doc Writes an interval in its unit.
-spec interval(whittle_measure_statistics:interval(), whittle_measure_response:unit()) ->
          unicode:chardata().
interval({Same, Same}, _) -> "-";
interval({Low, High}, Unit) -> [value(Low, Unit), " to ", value(High, Unit)].

%% @doc Writes a ratio with its interval: `0.61 (0.60 to 0.63)'.
-spec comparison(whittle_measure_analysis:comparison() | baseline) -> unicode:chardata().
comparison(baseline) -> "1 (baseline)";
comparison(#{n := 0}) -> "-";
comparison(#{median := Median, interval := {Same, Same}}) -> io_lib:format("~.3f", [Median]);
comparison(#{median := Median, interval := {Low, High}}) ->
    io_lib:format("~.3f (~.3f to ~.3f)", [Median, Low, High]).

%% @doc Writes the verdict of a comparison in words.
-spec verdict(whittle_measure_analysis:comparison() | baseline) -> unicode:chardata().
verdict(baseline) -> "";
verdict(#{verdict := better}) -> "better";
verdict(#{verdict := worse}) -> "worse";
verdict(#{verdict := unknown}) -> "too few blocks for a test";
verdict(#{verdict := none, detectable := Detectable}) ->
    io_lib:format("no difference; this run could have detected ~.1f %", [100 * (Detectable - 1)]).
