%% @doc Writes the results of a study as text for a terminal.
%% @hidden
-module(whittle_measure_table).

-export([rows/2, notes/2, titles/1, json/2, interval_head/1, noise/1, value/2]).
-export([confidence/1, too_few_runs/2, interval/2, comparison/1, verdict/1, levels/1, varied/1,
         unit/1]).

%% @doc Returns the table of one response and program: a head and one row for each cell, for
%% `whittle_table'. The unit is in the head. References of the study have a column of their own.
-spec rows(map(), [whittle_measure_study:cited()]) -> [[unicode:chardata() | integer()]].
rows(#{response := Response, rows := Rows, effects := Effects} = Result, All) ->
    Unit = whittle_measure_response:unit(Response),
    References = [Reference || #{levels := _} = Reference <- references(Result, All)],
    Beside = fun(Cell) -> [Cell || References =/= []] end,
    Name = [atom_to_list(maps:get(name, Response)), ", ", unit(Unit)],
    Head = case whittle_measure_response:is_exact(Response) of
               true -> [Name, "exact", "against the baseline", "verdict"];
               false -> [Name, "median", interval_head(counts(Result)), "against the baseline",
                         "verdict"]
           end,
    Empty = lists:duplicate(length(Head) - 3, ""),
    [Head ++ Beside("reference")
     | [row(Short, Unit, length(Head)) ++ Beside(beside(Row, References))
        || {Short, Row} <- lists:zip(varied(Rows), Rows)]]
        ++ [[effect(Of) | Empty] ++ [comparison(Effect), verdict(Effect)] ++ Beside("")
            || #{changed := Of, effect := Effect} <- Effects].

%% The numbers of values behind the intervals of a result.
counts(#{rows := Rows, effects := Effects}) ->
    [N || #{n := N} <- Rows ++ [Ratio || #{ratio := #{} = Ratio} <- Rows]
              ++ [Effect || #{effect := Effect} <- Effects]].

%% @doc Writes the head of a column of intervals with the confidence of the fewest values: `75 %
%% interval'. One value has no interval.
-spec interval_head([non_neg_integer()]) -> unicode:chardata().
interval_head(Counts) ->
    case [Count || Count <- Counts, Count > 1] of
        [] -> "interval";
        Above -> [confidence(lists:min(Above)), " interval"]
    end.

%% @doc Writes the confidence of an interval of so many values. 93.75 % becomes 93 %: the number
%% promises no more than there is.
-spec confidence(pos_integer()) -> unicode:chardata().
confidence(Count) ->
    [integer_to_list(trunc(100 * whittle_measure_statistics:confidence(Count))), " %"].

%% @doc Writes the noise of the machine as a part of a sentence.
-spec noise(whittle_measure_analysis:noise()) -> unicode:chardata().
noise(#{pace := Pace, others := Others, steal := Steal, memory := Memory}) ->
    io_lib:format("a fixed piece of work varied by ~.1f % between its quartiles, other programs "
                  "used ~.1f % of the CPU time, the hypervisor took ~.1f %, and tasks waited for "
                  "memory in ~.1f % of the time",
                  [100 * Part || Part <- [Pace - 1, Others, Steal, Memory]]).

%% @doc Returns the lines below that table: the confidence of intervals of few runs, the sources of
%% the references, and references that stand in no row.
-spec notes(map(), [whittle_measure_study:cited()]) -> [unicode:chardata()].
notes(Result, All) ->
    References = references(Result, All),
    few(Result)
        ++ [["reference: ", Source] || Source <- unique([Source || #{source := Source, levels := _}
                                                                <- References])]
        ++ [["reference: ", lists:join("; ", [number(Value) || Value <- Values]), $\s, Unit, ": ",
             Source] || #{source := Source, values := Values, unit := Unit} = Reference
                            <- References, not is_map_key(levels, Reference)]
        ++ unique([Note || #{note := Note} <- References]).

few(#{response := Response} = Result) ->
    case whittle_measure_response:is_exact(Response) of
        true -> [];
        false -> too_few_runs("the interval of ~b runs is their range, with a confidence of ~ts; "
                              "95 % needs six runs", counts(Result))
    end.

%% @doc Writes a note for each number of runs that is too small for intervals of 95 %. The format
%% takes the number and the confidence. One run has no interval.
-spec too_few_runs(io:format(), [non_neg_integer()]) -> [unicode:chardata()].
too_few_runs(Format, Counts) ->
    [io_lib:format(Format, [Count, confidence(Count)])
     || Count <- lists:usort(Counts), Count > 1, Count < 6].

%% @doc Returns the titles of factors and levels as a table with a head, or `[]' if there are none.
-spec titles(whittle_measure_study:study()) -> [[unicode:chardata()]].
titles(#{factors := Factors}) ->
    case lists:append([titled([atom_to_list(Name)], Factor)
                       ++ [Row || #{name := Level} = Of <- Levels,
                                  Row <- titled(levels(#{Name => Level}), Of)]
                       || #{name := Name, levels := Levels} = Factor <- Factors]) of
        [] -> [];
        Rows -> [["factor or level", "title"] | Rows]
    end.

titled(Name, #{title := Title}) -> [[Name, Title]];
titled(_, _) -> [].

references(#{response := #{name := Response}, program := Program}, All) ->
    [Reference || #{response := OfResponse, program := OfProgram} = Reference <- All,
                  OfResponse =:= Response, OfProgram =:= Program].

unique([]) -> [];
unique([First | Rest]) -> [First | unique([Each || Each <- Rest, Each =/= First])].

beside(#{levels := Levels}, References) ->
    lists:join("; ", [[lists:join("; ", [number(Value) || Value <- Values]), $\s, Unit]
                      || #{levels := Of, values := Values, unit := Unit} <- References,
                         maps:with(maps:keys(Of), Levels) =:= Of]).

number(Value) when is_integer(Value) -> whittle_number:text(Value);
number(Value) -> io_lib:format("~g", [Value]).

%% @doc Returns one result as data.
-spec json(map(), [whittle_measure_study:cited()]) -> whittle_json:json().
json(#{response := #{name := Name} = Response, program := Program, rows := Rows,
       effects := Effects} = Result, References) ->
    #{response => Name, program => Program, exact => whittle_measure_response:is_exact(Response),
      unit => unicode_text(unit(whittle_measure_response:unit(
                                                                         Response))),
      rows => [maps:map(fun json_value/2, Row) || Row <- Rows],
      references => [maps:map(fun json_value/2, maps:without([program, response], Reference))
                     || Reference <- references(Result, References)],
      effects => [#{changed => maps:from_list(Of), effect => json_value(effect, Effect)}
                  || #{changed := Of, effect := Effect} <- Effects]}.

json_value(interval, {Low, High}) -> [Low, High];
json_value(Key, Text) when Key =:= source; Key =:= unit; Key =:= note -> unicode_text(Text);
json_value(_, #{interval := {Low, High}} = Comparison) -> Comparison#{interval := [Low, High]};
json_value(_, Value) -> Value.

unicode_text(Text) -> unicode:characters_to_binary(Text).

row(#{levels := Levels, median := Median, ratio := Ratio} = Row, Unit, _) ->
    [levels(Levels), value(Median, Unit)]
        ++ [interval(Interval, Unit) || #{interval := Interval} <- [Row]]
        ++ [comparison(Ratio), [verdict(Ratio), failures(Row)]];
row(#{levels := Levels} = Row, _, Width) ->
    [levels(Levels)] ++ lists:duplicate(Width - 2, "-") ++ [failures(Row)].

failures(#{failed := 0}) -> "";
failures(#{failed := Failed, n := N}) -> io_lib:format(" (~b of ~b failed)", [Failed, Failed + N]).

%% @doc Writes levels: `shake=functions, flavor=size'. Names are atoms, or texts as in a sample.
-spec levels(#{atom() => atom()} | #{binary() => binary()}) -> unicode:chardata().
levels(Levels) when map_size(Levels) =:= 0 -> "all";
levels(Levels) ->
    lists:join(", ", [level(Level) || Level <- lists:sort(maps:to_list(Levels))]).

level({Name, Level}) -> [text(Name), $=, text(Level)].

text(Name) when is_atom(Name) -> atom_to_list(Name);
text(Name) -> Name.

%% @doc Shortens the levels of rows, for tables and charts. It removes those that all rows have in
%% common, as a study with `--only' has them. Of a factor that varies alone it removes the level of
%% the baseline. The row of the baseline keeps these levels if it has no others.
-spec varied([whittle_measure_analysis:row()]) -> [whittle_measure_analysis:row()].
varied([_] = Rows) -> Rows;
varied([#{levels := First} | _] = Rows) ->
    Common = [Name || {Name, Level} <- maps:to_list(First),
                      lists:all(fun(#{levels := Levels}) -> maps:get(Name, Levels) =:= Level end,
                                Rows)],
    without_alone([Row#{levels := maps:without(Common, Levels)} || #{levels := Levels} = Row
                                                                       <- Rows]).

without_alone(Rows) ->
    case [Levels || #{levels := Levels, ratio := baseline} <- Rows] of
        [Base] ->
            Alone = [{Name, Level} || {Name, Level} <- maps:to_list(Base),
                                      lists:all(fun(#{levels := Levels}) ->
                                                        is_alone(Name, Levels, Base)
                                                end, Rows)],
            [Row#{levels := short(Levels, maps:to_list(Levels) -- Alone)}
             || #{levels := Levels} = Row <- Rows];
        [] -> Rows
    end.

is_alone(Name, Levels, Base) ->
    maps:get(Name, Levels) =:= maps:get(Name, Base)
        orelse maps:remove(Name, Levels) =:= maps:remove(Name, Base).

short(Levels, []) -> Levels;
short(_, Kept) -> maps:from_list(Kept).

effect(Of) -> ["effect of ", lists:join(" with ", [level(Each) || Each <- Of])].

%% @doc Writes the name of a unit.
-spec unit(whittle_measure_response:unit()) -> string().
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
-spec comparison(#{median := float(), n := non_neg_integer(), atom() => term()} | baseline) ->
          unicode:chardata().
comparison(baseline) -> "1 (baseline)";
comparison(#{n := 0}) -> "-";
comparison(#{median := Median, interval := {Low, High}}) when Low =/= High ->
    io_lib:format("~.3f (~.3f to ~.3f)", [Median, Low, High]);
comparison(#{median := Median}) -> io_lib:format("~.3f", [Median]).

%% @doc Writes the verdict of a comparison in words.
-spec verdict(whittle_measure_analysis:comparison() | baseline) -> unicode:chardata().
verdict(baseline) -> "";
verdict(#{noisy := true, n := N} = Comparison) when N > 1 ->
    [verdict(maps:remove(noisy, Comparison)), " (noisy machine)"];
verdict(#{verdict := better}) -> "better";
verdict(#{verdict := worse}) -> "worse";
verdict(#{verdict := same}) -> "the same";
verdict(#{n := 0}) -> "";
verdict(#{verdict := unknown}) -> "too few blocks for a test";
%% The interval is narrower than the test, which is corrected for the number of comparisons.
verdict(#{verdict := none, interval := {Low, High}}) when Low > 1; High < 1 ->
    "perhaps a difference: run more blocks";
verdict(#{verdict := none, detectable := Detectable}) when Detectable > 10 ->
    "no difference; this run could not have detected a factor of 10";
verdict(#{verdict := none, detectable := Detectable}) ->
    io_lib:format("no difference; this run could have detected ~.1f %", [100 * (Detectable - 1)]).
