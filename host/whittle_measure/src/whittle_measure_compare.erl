%% @doc Compares two runs of a study, as tables for people and as data.
%% @hidden
-module(whittle_measure_compare).

-export([compare/2, tables/1, json/1]).

-export_type([comparison/0]).

%% Of one response. The cells of all programs are its rows.
-type comparison() ::
        #{response := atom(),
          unit := whittle_measure_response:unit(),
          runs := {file:filename(), file:filename()},
          rows := [row()]}.

%% The medians of a cell in both runs. The ratio is that of the second to the first. The cell has
%% the program and the level of each factor.
-type row() :: #{cell := #{binary() => binary()},
                 first := number(), second := number(),
                 ratio := none | #{median := float(), n := pos_integer(),
                                   interval := whittle_measure_statistics:interval()},
                 verdict := none | same | better | worse | unknown | impossible}.

-define(LEVEL, 0.05).

%% @doc Compares, for each response, the cells that both reports have: both medians, their ratio
%% with its interval, and the verdict after Holm's correction over the cells of the response.
-spec compare({file:filename(), whittle_measure:report()},
              {file:filename(), whittle_measure:report()}) ->
          {ok, [comparison()]} | {error, {different_studies, file:filename(), file:filename()}}.
compare({One, #{study := #{responses := Responses}, samples := First}},
        {Other, #{samples := Second}}) ->
    case [#{response => Name, unit => whittle_measure_response:unit(Response),
            runs => {One, Other}, rows => Rows}
          || #{name := Name} = Response <- Responses,
             [_ | _] = Rows <- [rows(Response, First, Second)]] of
        [] -> {error, {different_studies, One, Other}};
        Comparisons -> {ok, Comparisons}
    end.

rows(#{name := Name} = Response, First, Second) ->
    IsExact = whittle_measure_response:is_exact(Response),
    [Old, New] = [values(atom_to_binary(Name), IsExact, Samples) || Samples <- [First, Second]],
    Cells = [{Cell, Before, maps:get(Cell, New)} || {Cell, Before} <- lists:sort(maps:to_list(Old)),
                                                    is_map_key(Cell, New)],
    Tests = [{Cell, test(logs(Before), logs(After))} || {Cell, Before, After} <- Cells],
    Corrected = lists:zip([Cell || {Cell, #{}} <- Tests],
                          whittle_measure_statistics:holm([P || {_, #{p := P}} <- Tests])),
    [row(Cell, Before, After, case IsExact of
                                  true -> exact;
                                  false -> proplists:get_value(Cell, Corrected)
                              end, whittle_measure_response:better(Response))
     || {Cell, Before, After} <- Cells].

values(Name, true, Samples) ->
    maps:from_list([{Cell, [Value]}
                    || #{<<"cells">> := Cells, <<"values">> := #{Name := Value}}
                           <- whittle_measure_samples:builds(Samples),
                       Cell <- Cells]);
values(Name, false, Samples) ->
    maps:groups_from_list(fun({Cell, _}) -> Cell end, fun({_, Value}) -> Value end,
                          [{Cell, Value} || #{<<"cell">> := Cell,
                                              <<"values">> := #{Name := Value}}
                                                <- whittle_measure_samples:runs(Samples)]).

logs(Values) -> [math:log(Value) || Value <- Values, Value > 0].

test([_, _ | _] = One, [_, _ | _] = Other) -> whittle_measure_statistics:welch_test(One, Other);
test(_, _) -> none.

row(Cell, Before, After, P, Better) ->
    maps:merge(#{cell => Cell, first => whittle_measure_statistics:median(Before),
                 second => whittle_measure_statistics:median(After)},
               ratio(logs(Before), logs(After), P, Better)).

ratio(Before, After, P, Better) when Before =/= [], After =/= [] ->
    {Median, Interval} = whittle_measure_statistics:ratio_of_logs(Before, After),
    #{ratio => #{median => Median, n => length(After), interval => Interval},
      verdict => verdict(P, Median, Better)};
ratio(_, _, _, _) -> #{ratio => none, verdict => impossible}.

verdict(exact, Ratio, _) when abs(Ratio - 1) < 1.0e-12 -> same;
verdict(exact, Ratio, Better) -> verdict(0.0, Ratio, Better);
verdict(undefined, _, _) -> unknown;
verdict(P, _, _) when P >= ?LEVEL -> none;
verdict(_, Ratio, less) when Ratio < 1 -> better;
verdict(_, Ratio, more) when Ratio > 1 -> better;
verdict(_, _, _) -> worse.

%% @doc Writes each comparison as a table for a terminal.
-spec tables([comparison()]) -> [[[unicode:chardata()]]].
tables(Comparisons) ->
    [[[atom_to_list(Name), One, Other, "ratio", "verdict"]
      | [[cell(Cell), whittle_measure_table:value(Before, Unit),
          whittle_measure_table:value(After, Unit),
          case Ratio of none -> "-"; _ -> whittle_measure_table:comparison(Ratio) end,
          word(Verdict)]
         || #{cell := Cell, first := Before, second := After, ratio := Ratio,
              verdict := Verdict} <- Rows]]
     || #{response := Name, unit := Unit, runs := {One, Other}, rows := Rows} <- Comparisons].

word(same) -> "the same";
word(unknown) -> "too few samples for a test";
word(none) -> "no difference";
word(better) -> "better";
word(worse) -> "worse";
word(impossible) -> "-".

cell(Cell) ->
    lists:join(", ", [[Name, $=, Level] || {Name, Level} <- lists:sort(maps:to_list(Cell))]).

%% @doc Writes the comparisons as data.
-spec json([comparison()]) -> whittle_json:json().
json(Comparisons) ->
    [#{response => Name, unit => text(whittle_measure_table:unit(Unit)), first => text(One),
       second => text(Other),
       rows => [#{levels => Cell, first => Before, second => After,
                  ratio => case Ratio of
                               none -> null;
                               #{median := Median, n := N, interval := {Low, High}} ->
                                   #{median => Median, n => N, interval => [Low, High]}
                           end,
                  verdict => Verdict}
                || #{cell := Cell, first := Before, second := After, ratio := Ratio,
                     verdict := Verdict} <- Rows]}
     || #{response := Name, unit := Unit, runs := {One, Other}, rows := Rows} <- Comparisons].

text(Chars) -> unicode:characters_to_binary(Chars).
