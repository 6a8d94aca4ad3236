%% @doc Compares two runs of a study, as tables for people and as data.
%% @hidden
-module(whittle_measure_compare).

-export([compare/3, notes/1, tables/1, json/1]).
-export([format_error/1]).

-export_type([comparison/0, error/0]).

%% Of one response. The cells of all programs are its rows.
-type comparison() ::
        #{response := atom(),
          unit := whittle_measure_response:unit(),
          runs := {file:filename(), file:filename()},
          notes := [unicode:chardata()],      % what limits all verdicts
          rows := [row()]}.

%% The medians of a cell in both runs. The ratio is that of the second to the first. The cell has
%% the program and the level of each factor.
-type row() :: #{cell := #{binary() => binary()},
                 first := number(), second := number(),
                 %% `n' is the number of values on the side that has fewer
                 ratio := none | #{median := float(), n := pos_integer(),
                                   interval := whittle_measure_statistics:interval()},
                 verdict := none | same | better | worse | unknown | impossible,
                 noisy => true,               % the machine was, in one of the runs
                 %% the ratio above 1 that two such runs show in four of five cases; not if exact
                 detectable => float()}.

-type error() :: {different_studies, file:filename(), file:filename()}
               | {not_a_factor, string(), file:filename(), [atom()]}
               | {several_levels, string(), file:filename()}.

-define(LEVEL, 0.05).

%% @doc Compares, for each response, the cells that both reports have: both medians, their ratio
%% with its interval, and the verdict after Holm's correction over the cells of the response. A
%% factor in `Differs' does not count: the runs may have another level of it, but only one each.
-spec compare({file:filename(), whittle_measure:report()},
              {file:filename(), whittle_measure:report()}, [string()]) ->
          {ok, [comparison()]} | {error, error()}.
compare({One, #{study := #{responses := Responses}} = First} = Old, {Other, Second} = New,
        Differs) ->
    Noisy = [Dir || {Dir, #{noise := #{verdict := noisy}}} <- [Old, New]],
    case [Error || Name <- Differs, Run <- [Old, New], Error <- wrong(Name, Run)] of
        [Error | _] -> {error, Error};
        [] ->
            [Before, After] = [without(Differs, Samples)
                               || #{samples := Samples} <- [First, Second]],
            case [#{response => Name, unit => whittle_measure_response:unit(Response),
                    runs => {One, Other},
                    notes => limits(Noisy, First, Second) ++ few(Rows),
                    rows => [marked(Noisy, Response, Row) || Row <- Rows]}
                  || #{name := Name} = Response <- Responses,
                     [_ | _] = Rows <- [rows(Response, Before, After)]] of
                [] -> {error, {different_studies, One, Other}};
                Comparisons -> {ok, Comparisons}
            end
    end.

%% @doc Returns the lines below the tables: what limits the verdicts.
-spec notes([comparison()]) -> [unicode:chardata()].
notes(Comparisons) ->
    lists:uniq([unicode:characters_to_binary(Note) || #{notes := Own} <- Comparisons, Note <- Own]).

%% @doc Writes each comparison as a table for a terminal.
-spec tables([comparison()]) -> [[[unicode:chardata()]]].
tables(Comparisons) ->
    [[[atom_to_list(Name), One, Other, "ratio", "verdict"]
      | [[whittle_measure_table:levels(Cell), whittle_measure_table:value(Before, Unit),
          whittle_measure_table:value(After, Unit),
          case Ratio of none -> "-"; _ -> whittle_measure_table:comparison(Ratio) end,
          verdict(Row)]
         || #{cell := Cell, first := Before, second := After, ratio := Ratio} = Row <- Rows]]
     || #{response := Name, unit := Unit, runs := {One, Other}, rows := Rows} <- Comparisons].

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
                  verdict => Verdict, detectable => maps:get(detectable, Row, null),
                  noisy => maps:get(noisy, Row, false)}
                || #{cell := Cell, first := Before, second := After, ratio := Ratio,
                     verdict := Verdict} = Row <- Rows],
       notes => [text(Note) || Note <- Notes]}
     || #{response := Name, unit := Unit, runs := {One, Other}, notes := Notes,
          rows := Rows} <- Comparisons].

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({different_studies, One, Other}) ->
    [One, " and ", Other, " have no cell and response in common: compare two runs of one study, or "
     "name a factor whose level differs with --differs"];
format_error({not_a_factor, Name, Dir, Known}) ->
    ["--differs: the study in ", Dir, " has no factor ", Name, "; its factors are ",
     lists:join(", ", [atom_to_list(Each) || Each <- Known])];
format_error({several_levels, Name, Dir}) ->
    ["--differs: the run in ", Dir, " has several levels of ", Name, ": measure one level alone "
     "with --only"].

%% Internal

wrong(Text, {Dir, #{study := #{factors := Factors}, samples := Samples}}) ->
    case lists:member(Text, [atom_to_list(Name) || #{name := Name} <- Factors]) of
        false -> [{not_a_factor, Text, Dir, [Name || #{name := Name} <- Factors]}];
        true ->
            Key = list_to_binary(Text),
            [{several_levels, Text, Dir}
             || length(lists:usort([Level || Sample <- Samples,
                                             #{Key := Level}
                                                 <- whittle_measure_stored:cells(Sample)])) > 1]
    end.

without([], Samples) -> Samples;
without(Texts, Samples) ->
    Keys = [list_to_binary(Text) || Text <- Texts],
    [case Sample of
         #{<<"cells">> := Cells} ->
             Sample#{<<"cells">> := lists:usort([maps:without(Keys, Cell) || Cell <- Cells])};
         #{<<"cell">> := Cell} -> Sample#{<<"cell">> := maps:without(Keys, Cell)}
     end || Sample <- Samples].

limits(Noisy, #{facts := #{<<"machine">> := One}}, #{facts := #{<<"machine">> := Other}}) ->
    ["the runs are of different machines, so their times and memory may differ for that reason"
     || not whittle_measure_machine:is_same(One, Other)]
        ++ [["the machine was noisy in ", lists:join(" and in ", Noisy), ": measure again when it "
             "is quiet"] || Noisy =/= []].

%% The interval of a ratio has the confidence of the run with fewer values.
few(Rows) ->
    whittle_measure_table:too_few_runs(
      "an interval of ~b runs has a confidence of ~ts at least; 95 % needs six runs on each side",
      [N || #{ratio := #{n := N, interval := {Low, High}}} <- Rows, Low =/= High]).

marked([], _, Row) -> Row;
marked(_, Response, Row) ->
    case whittle_measure_response:is_exact(Response) of
        true -> Row;
        false -> Row#{noisy => true}
    end.

rows(#{name := Name} = Response, First, Second) ->
    IsExact = whittle_measure_response:is_exact(Response),
    [Old, New] = [values(atom_to_binary(Name), IsExact, Samples) || Samples <- [First, Second]],
    Cells = [{Cell, Before, maps:get(Cell, New)} || {Cell, Before} <- lists:sort(maps:to_list(Old)),
                                                    is_map_key(Cell, New)],
    Tests = [{Cell, test(logs(Before), logs(After))} || {Cell, Before, After} <- Cells],
    Ps = [P || {_, #{p := P}} <- Tests],
    Corrected = lists:zip([Cell || {Cell, #{}} <- Tests], whittle_measure_statistics:holm(Ps)),
    Level = ?LEVEL / max(1, length(Ps)),
    [case IsExact of
         true -> row(Cell, Before, After, exact, Response);
         false ->
             maps:merge(row(Cell, Before, After, proplists:get_value(Cell, Corrected), Response),
                        detectable(logs(Before), logs(After), Level))
     end || {Cell, Before, After} <- Cells].

%% No float is larger than e^709.
detectable([_, _ | _] = One, [_, _ | _] = Other, Level) ->
    Log = whittle_measure_statistics:detectable_difference(One, Other, Level),
    #{detectable => math:exp(min(Log, 700.0))};
detectable(_, _, _) -> #{}.

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

row(Cell, Before, After, P, Response) ->
    Better = whittle_measure_response:better(Response),
    maps:merge(#{cell => Cell, first => whittle_measure_statistics:median(Before),
                 second => whittle_measure_statistics:median(After)},
               ratio(logs(Before), logs(After), P, Better)).

ratio(Before, After, P, Better) when Before =/= [], After =/= [] ->
    {Median, Interval} = whittle_measure_statistics:ratio_of_logs(Before, After),
    #{ratio => #{median => Median, n => min(length(Before), length(After)), interval => Interval},
      verdict => verdict(P, Median, Better)};
ratio(_, _, _, _) -> #{ratio => none, verdict => impossible}.

verdict(exact, Ratio, _) when abs(Ratio - 1) < 1.0e-12 -> same;
verdict(exact, Ratio, Better) -> verdict(0.0, Ratio, Better);
verdict(undefined, _, _) -> unknown;
verdict(P, _, _) when P >= ?LEVEL -> none;
verdict(_, Ratio, less) when Ratio < 1 -> better;
verdict(_, Ratio, more) when Ratio > 1 -> better;
verdict(_, _, _) -> worse.

verdict(#{verdict := unknown}) -> "too few samples for a test";
verdict(#{verdict := impossible}) -> "-";
verdict(#{ratio := Ratio} = Row) ->
    whittle_measure_table:verdict(
      maps:merge(Ratio, maps:with([verdict, detectable, noisy], Row))).

text(Chars) -> unicode:characters_to_binary(Chars).
