%% @doc Writes what a search found: tables, the page, and the file of settings.
%% @hidden
-module(whittle_tune_report).

-export([tables/1, page/2, signature/0, write/3, text/2, json/1]).

-define(MEGABYTE, 1.0e6).
-define(SIGNATURE, "%% Settings that `whittle tune' found for ").

%% @doc Returns the tables of a search: the validation, the front of the search, and the recommended
%% settings. The first row of each is its head.
-spec tables(whittle_tune_search:found()) -> [[[unicode:chardata() | integer()]]].
tables(#{validation := Validation, validated := Validated, best := Best, results := Results,
         candidates := Candidates} = Found) ->
    Front = whittle_tune_race:front([Name || #{name := Name} <- Candidates], Results),
    [with_head("validation", [whittle_tune_race:summary(Name, Validation) || Name <- Validated],
               Best),
     with_head("best of the search", Front, Best),
     [["setting", "value", "unit", "effect"] | settings(Best, Found)]].

with_head(Title, Summaries, Best) ->
    Counts = [Runs - Failed || #{runs := Runs, failed := Failed} <- Summaries],
    [[Title, "peak RSS", "against own", whittle_measure:interval_head(Counts), "time or CPU",
      "runs", ""]
     | [row(Summary, Best) || Summary <- Summaries]].

row(#{name := Name, runs := Runs, failed := Failed} = Summary, Best) ->
    Mark = [case Name of
                Best -> "recommended";
                _ -> ""
            end, [io_lib:format(" (~b of ~b failed)", [Failed, Runs]) || Failed > 0]],
    case Summary of
        #{peak := Peak, ratio := Ratio, interval := {Low, High}, slowdown := Slowdown} ->
            [atom_to_list(Name), round(Peak), io_lib:format("~.3f", [Ratio]),
             interval(Runs - Failed, Low, High), io_lib:format("~.3f", [Slowdown]), Runs,
             Mark];
        _ -> [atom_to_list(Name), "-", "-", "-", "-", Runs, Mark]
    end.

%% One run has no interval.
interval(1, _, _) -> "-";
interval(_, Low, High) -> io_lib:format("~.3f to ~.3f", [Low, High]).

settings(Best, #{settings := Settings} = Found) ->
    Values = values(Best, Found),
    [[atom_to_list(Name), whittle_tune_settings:format_value(maps:get(Name, Values)),
      maps:get(unit, Setting, ""), Effect]
     || #{name := Name, effect := Effect} = Setting <- Settings, is_map_key(Name, Values)].

values(Best, #{candidates := Candidates}) ->
    hd([Values || #{name := Name, values := Values} <- Candidates, Name =:= Best] ++ [#{}]).

%% @doc Writes the page of a search into the directory of its samples.
-spec page(file:filename(), whittle_tune_search:found()) ->
          {ok, whittle_measure:report()} | {error, whittle_measure:reason()}.
page(Dir, Found) ->
    #{candidates := Candidates, results := Results, validation := Validation,
      about := About} = Found,
    Ran = [Name || #{name := Name} <- Results ++ Validation],
    Names = [Name || #{name := Name} <- Candidates, lists:member(Name, Ran)],
    case whittle_tune_study:complete(Dir, Names, [front(Found)], About) of
        ok -> whittle_measure:report(Dir);
        {error, _} = Error -> Error
    end.

%% The trade-off between memory and time, as a chart of points.
front(#{results := Results, validation := Validation, candidates := Candidates, best := Best}) ->
    All = Results ++ Validation,
    Names = [Name || #{name := Name} <- Candidates],
    Front = [Name || #{name := Name} <- whittle_tune_race:front(Names, All)],
    Points = [#{name => atom_to_binary(Name), peak => Peak / ?MEGABYTE, slowdown => Slowdown,
                front => case Name of
                             Best -> <<"recommended">>;
                             own -> <<"the program's own settings">>;
                             _ -> case lists:member(Name, Front) of
                                      true -> <<"nothing is better in both">>;
                                      false -> <<"another is better in both">>
                                  end
                         end}
              || Name <- Names,
                 #{peak := Peak, slowdown := Slowdown} <- [whittle_tune_race:summary(Name, All)]],
    Table = [["candidate", "peak RSS, MB", "time or CPU time, ratio", "kind"]
             | [[Name, io_lib:format("~.2f", [Peak]), io_lib:format("~.3f", [Slowdown]), Kind]
                || #{name := Name, peak := Peak, slowdown := Slowdown, front := Kind}
                       <- lists:sort(fun(#{peak := A}, #{peak := B}) -> A =< B end, Points)]],
    #{title => "Memory against time", table => Table,
      text => "Each point is the median of one candidate. Left is less memory, down is faster.",
      chart => whittle_measure_chart:points(Points)}.

%% @doc Returns the first bytes of each file of settings.
-spec signature() -> binary().
signature() -> <<?SIGNATURE>>.

%% @doc Writes the file of settings, for `whittle build --settings'. It replaces only an older one.
-spec write(file:filename(), file:filename(), whittle_tune_search:found()) ->
          ok | {error, {pack, whittle_pack:error()}}.
write(File, Path, Found) ->
    case whittle_pack:write_beside(File, text(Path, Found), signature()) of
        ok -> ok;
        {error, Reason} -> {error, {pack, Reason}}
    end.

%% @doc Returns the text of the file of settings.
-spec text(file:filename(), whittle_tune_search:found()) -> binary().
text(Path, #{best := Best, settings := Settings} = Found) ->
    Values = values(Best, Found),
    {Flags, Variables} = whittle_tune_settings:command(Values, Settings),
    binary([?SIGNATURE, filename:basename(Path), ".\n"
            "%% To use them: whittle build --settings FILE, or write the flags into vm.args.\n",
            io_lib:format("~tp.~n", [(maps:with([build], Found))
                                     #{flags => Flags, environment => Variables,
                                       config => config(Values, Settings),
                                       settings => Values}])]).

%% As a file sys.config has it.
config(Values, Settings) ->
    [{list_to_atom(Application), [{list_to_atom(Key), term(Text)}]}
     || {Application, Key, Text} <- whittle_tune_settings:config(Values, Settings)].

term(Text) ->
    {ok, [Term]} = whittle_term:parse(list_to_binary([Text, ".\n"])),
    Term.

%% @doc Returns what a search found as data (docs/json.md).
-spec json(whittle_tune_search:found()) -> whittle_json:json().
json(#{best := Best, holds := Holds, detectable := Detectable, validation := Validation,
       validated := Validated,
       settings := Settings, candidates := Candidates, results := Results} = Found) ->
    {Flags, Variables} = whittle_tune_settings:command(values(Best, Found), Settings),
    #{recommended => Best, holds => Holds, detectable => Detectable,
      flags => [binary(Flag) || Flag <- Flags],
      environment => maps:from_list([{binary(Name), binary(Value)} || {Name, Value} <- Variables]),
      config => [#{application => binary(Application), key => binary(Key), value => binary(Text)}
                 || {Application, Key, Text}
                        <- whittle_tune_settings:config(values(Best, Found), Settings)],
      validation => [summary(whittle_tune_race:summary(Name, Validation)) || Name <- Validated],
      front => [summary(Summary)
                || Summary <- whittle_tune_race:front([Name || #{name := Name} <- Candidates],
                                                      Results)]}.

summary(#{interval := {Low, High}} = Summary) -> Summary#{interval := [Low, High]};
summary(Summary) -> Summary.

binary(Text) -> unicode:characters_to_binary(Text).
