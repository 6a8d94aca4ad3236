%% @doc Finds series: results whose names differ only in the number at their end, such as
%% `cycles_1', `cycles_2' and `cycles_4'. The page shows them in one chart and one table.
%% @hidden
-module(whittle_measure_series).

-export([of_results/1, has/2, table/1]).

-export_type([series/0]).

%% The results are in the order of their numbers, and all of one program and one unit.
-type series() :: #{name := string(), program := atom(), unit := whittle_measure_response:unit(),
                    points := [{Number :: non_neg_integer(),
                                whittle_measure_analysis:result()}, ...]}.

%% Two points make no curve.
-define(LEAST, 3).

%% @doc Finds the series of results, in the order of their first ones.
-spec of_results(whittle_measure_analysis:results()) -> [series()].
of_results(Results) ->
    Numbered = [{{Name, Program, whittle_measure_response:unit(Response)}, {Number, Result}}
                || #{response := Response, program := Program} = Result <- Results,
                   {Name, Number} <- number(maps:get(name, Response))],
    [#{name => Name, program => Program, unit => Unit, points => lists:keysort(1, Points)}
     || {Name, Program, Unit} = Key <- lists:uniq([Key || {Key, _} <- Numbered]),
        Points <- [[Point || {Of, Point} <- Numbered, Of =:= Key]],
        length(Points) >= ?LEAST].

number(Name) ->
    case re:run(atom_to_list(Name), "^(.+)_([0-9]{1,9})$", [{capture, all_but_first, list}]) of
        {match, [Start, Digits]} -> [{Start, list_to_integer(Digits)}];
        nomatch -> []
    end.

%% @doc Tells whether a series has a result.
-spec has(series(), whittle_measure_analysis:result()) -> boolean().
has(#{points := Points}, Result) -> lists:keymember(Result, 2, Points).

%% @doc Returns a table: a head with the cells, and a row for each number, with the medians and
%% their intervals.
-spec table(series()) -> [[unicode:chardata()]].
table(#{name := Name, unit := Unit, points := [{_, First} | _] = Points}) ->
    [[[Name, "_N, ", whittle_measure_table:unit(Unit)]
      | [whittle_measure_table:levels(Levels) || #{levels := Levels} <- varied(First)]]
     | [[integer_to_list(Number) | [cell(Row, Unit) || Row <- varied(Result)]]
        || {Number, Result} <- Points]].

varied(#{rows := Rows}) -> whittle_measure_table:varied(Rows).

cell(#{median := Median, interval := {Low, High} = Interval}, Unit) when Low =/= High ->
    [whittle_measure_table:value(Median, Unit), " (",
     whittle_measure_table:interval(Interval, Unit), ")"];
cell(#{median := Median}, Unit) -> whittle_measure_table:value(Median, Unit);
cell(_, _) -> "-".
