%% @doc Compares two runs of a study.
%% @hidden
-module(whittle_measure_compare).

-export([tables/2]).

-define(LEVEL, 0.05).

%% @doc Returns one table for each response and program that both reports have. A row compares a
%% cell: both medians, their ratio with its interval, and the verdict after Holm's correction over
%% the table.
-spec tables({file:filename(), whittle_measure:report()},
             {file:filename(), whittle_measure:report()}) ->
          {ok, [[[unicode:chardata()]]]}
        | {error, {different_studies, file:filename(), file:filename()}}.
tables({One, #{study := #{responses := Responses}, samples := First}},
       {Other, #{samples := Second}}) ->
    case [Table || Response <- Responses,
                   Table <- [table(Response, {One, First}, {Other, Second})], tl(Table) =/= []] of
        [] -> {error, {different_studies, One, Other}};
        Tables -> {ok, Tables}
    end.

table(#{name := Name} = Response, {One, First}, {Other, Second}) ->
    Unit = whittle_measure_response:unit(Response),
    IsExact = whittle_measure_response:is_exact(Response),
    [Old, New] = [values(atom_to_binary(Name), IsExact, Samples) || Samples <- [First, Second]],
    Cells = [{Cell, Before, maps:get(Cell, New)} || {Cell, Before} <- lists:sort(maps:to_list(Old)),
                                                    is_map_key(Cell, New)],
    Tests = [{Cell, test(logs(Before), logs(After))} || {Cell, Before, After} <- Cells],
    Corrected = lists:zip([Cell || {Cell, #{}} <- Tests],
                          whittle_measure_statistics:holm([P || {_, #{p := P}} <- Tests])),
    [[atom_to_list(Name), One, Other, "ratio", "verdict"]
     | [row(Cell, Before, After, case IsExact of
                                     true -> exact;
                                     false -> proplists:get_value(Cell, Corrected)
                                 end, Unit, whittle_measure_response:better(Response))
        || {Cell, Before, After} <- Cells]].

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

row(Cell, Before, After, P, Unit, Better) ->
    [cell(Cell) | [whittle_measure_table:value(whittle_measure_statistics:median(Values), Unit)
                   || Values <- [Before, After]]]
        ++ ratio(logs(Before), logs(After), P, Better).

ratio(Before, After, P, Better) when Before =/= [], After =/= [] ->
    {Median, Interval} = whittle_measure_statistics:ratio_of_logs(Before, After),
    [whittle_measure_table:comparison(#{median => Median, n => length(After),
                                        interval => Interval}),
     verdict(P, Median, Better)];
ratio(_, _, _, _) -> ["-", "-"].

verdict(exact, Ratio, _) when abs(Ratio - 1) < 1.0e-12 -> "the same";
verdict(exact, Ratio, Better) -> verdict(0.0, Ratio, Better);
verdict(undefined, _, _) -> "too few samples for a test";
verdict(P, _, _) when P >= ?LEVEL -> "no difference";
verdict(_, Ratio, less) when Ratio < 1 -> "better";
verdict(_, Ratio, more) when Ratio > 1 -> "better";
verdict(_, _, _) -> "worse".

cell(Cell) ->
    lists:join(", ", [[Name, $=, Level] || {Name, Level} <- lists:sort(maps:to_list(Cell))]).
