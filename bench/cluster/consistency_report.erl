%% @doc Writes the report of a run as a table, or as JSON.
-module(consistency_report).

-export([text/2, json/2, outcome/2]).

%% @doc Tells whether the store has kept its promises. It has not if a verdict breaks one. `open':
%% no verdict does, but the run ended early, or judged no case.
-spec outcome(consistency_run:options(), consistency_run:report()) -> kept | broken | open.
outcome(Options, #{verdicts := Verdicts, cases := Cases, stopped := Stopped}) ->
    case [Kind || Kind <- promises:broken_by(Options), is_map_key(Kind, Verdicts)] of
        [_ | _] -> broken;
        [] when Stopped =:= none, Cases > 0 -> kept;
        [] -> open
    end.

%% @doc Formats a table. A run that judged nothing has none.
-spec text(consistency_run:options(), consistency_run:report()) -> unicode:chardata().
text(Options, #{cases := 0, verdicts := Verdicts} = Report) when map_size(Verdicts) =:= 0 ->
    [name(Options), ": nothing was judged\n", stopped(Report)];
text(#{nodes := Nodes, clients := Clients, seed := Seed, out := Out} = Options,
     #{faults := Faults, seconds := Seconds, cases := Cases, operations := Operations,
       verdicts := Verdicts, slowest_ms := Slowest} = Report) ->
    [io_lib:format("~s, ~b nodes, ~b clients, seed ~b~n~b faults in ~b s: ~ts~n"
                   "~b cases, ~b operations: ~ts~n"
                   "all nodes ready at most ~.1f s after the last fault of a round~n~n"
                   "~-14s~8s~8s  ~s~n",
                   [name(Options), Nodes, Clients, Seed, lists:sum(maps:values(Faults)), Seconds,
                    counts(Faults), Cases, lists:sum(maps:values(Operations)), counts(Operations),
                    Slowest / 1000, "verdict", "cases", "times", "promise"]),
     [begin
          {Bad, Times} = maps:get(Kind, Verdicts, {0, 0}),
          io_lib:format("~-14s~8b~8b  ~s~n",
                        [Kind, Bad, Times, promise(lists:member(Kind, promises:broken_by(Options)),
                                                   Bad)])
      end || Kind <- verdicts:kinds()],
     [["\nhistories and verdicts: ", Out, "\n"] || map_size(Verdicts) > 0],
     stopped(Report)].

name(#{store := "ra"}) -> "store ra";
name(#{mode := Mode}) -> ["mode ", Mode].

stopped(#{stopped := none}) -> [];
stopped(#{stopped := Why, unjudged := 0}) -> ["\nstopped early: ", Why, "\n"];
stopped(#{stopped := Why, unjudged := Faults}) ->
    io_lib:format("~nstopped early, so the last round, with ~b faults, is not judged: ~ts~n",
                  [Faults, Why]).

counts(Counts) ->
    lists:join(", ", [io_lib:format("~s ~b", [Name, Count])
                      || {Name, Count} <- lists:sort(maps:to_list(Counts))]).

promise(false, _) -> "none";
promise(true, 0) -> "kept";
promise(true, _) -> "BROKEN".

%% @doc Formats an object with the same figures. `kept' is null if the outcome is open. Ra has no
%% mode. A run that judged nothing has no verdicts.
-spec json(consistency_run:options(), consistency_run:report()) -> iodata().
json(#{store := Store, mode := Mode, nodes := Nodes, clients := Clients, seed := Seed} = Options,
     #{faults := Faults, seconds := Seconds, cases := Cases, operations := Operations,
       verdicts := Verdicts, slowest_ms := Slowest, unjudged := Unjudged,
       stopped := Stopped} = Report) ->
    [object([{store, string(Store)}, {mode, case Store of "ra" -> null; _ -> string(Mode) end},
             {nodes, Nodes}, {clients, Clients}, {seed, Seed}, {seconds, Seconds},
             {faults, object(lists:sort(maps:to_list(Faults)))}, {unjudged_faults, Unjudged},
             {cases, Cases}, {operations, object(lists:sort(maps:to_list(Operations)))},
             {slowest_ms, Slowest},
             {verdicts, object([{Kind, object([{cases, Bad}, {times, Times},
                                               {promised, lists:member(
                                                            Kind, promises:broken_by(Options))}])}
                                || Cases > 0 orelse map_size(Verdicts) > 0,
                                   Kind <- verdicts:kinds(),
                                   {Bad, Times} <- [maps:get(Kind, Verdicts, {0, 0})]])},
             {kept, case outcome(Options, Report) of
                        kept -> true;
                        broken -> false;
                        open -> null
                    end},
             {stopped, case Stopped of none -> null; _ -> string(Stopped) end}]), $\n].

object(Pairs) ->
    ["{", lists:join(",", [[string(atom_to_list(Key)), ":", value(Value)]
                           || {Key, Value} <- Pairs]), "}"].

value(Value) when is_integer(Value) -> integer_to_list(Value);
value(Value) when is_atom(Value) -> atom_to_list(Value);
value(Value) -> Value.

string(Text) ->
    [$", [escaped(Char) || Char <- unicode:characters_to_list(Text)], $"].

escaped(Char) when Char =:= $"; Char =:= $\\; Char < 32; Char > 126 ->
    [io_lib:format("\\u~4.16.0b", [Unit])
     || <<Unit:16>> <= unicode:characters_to_binary([Char], unicode, utf16)];
escaped(Char) -> Char.
