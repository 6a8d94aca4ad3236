%% @doc Writes the report of a run as a table, or as JSON.
-module(consistency_report).

-export([text/2, json/2, outcome/2]).

%% @doc Tells whether the mode has kept its promises. It has not if a verdict breaks one. `open': no
%% verdict does, but the run ended early, or judged no case.
-spec outcome(consistency_run:options(), consistency_run:report()) -> kept | broken | open.
outcome(#{mode := Mode}, #{verdicts := Verdicts, cases := Cases, stopped := Stopped}) ->
    case [Kind || Kind <- promises:broken_by(Mode), is_map_key(Kind, Verdicts)] of
        [_ | _] -> broken;
        [] when Stopped =:= none, Cases > 0 -> kept;
        [] -> open
    end.

%% @doc Formats a table. A run that judged nothing has none.
-spec text(consistency_run:options(), consistency_run:report()) -> unicode:chardata().
text(#{mode := Mode}, #{cases := 0, verdicts := Verdicts, stopped := Stopped})
  when map_size(Verdicts) =:= 0 ->
    [io_lib:format("mode ~s: nothing was judged~n", [Mode]), stopped(Stopped)];
text(#{mode := Mode, nodes := Nodes, clients := Clients, seed := Seed, out := Out},
     #{faults := Faults, seconds := Seconds, cases := Cases, operations := Operations,
       verdicts := Verdicts, slowest_ms := Slowest, stopped := Stopped}) ->
    [io_lib:format("mode ~s, ~b nodes, ~b clients, seed ~b~n~b faults in ~b s: ~ts~n"
                   "~b cases, ~b operations: ~ts~n"
                   "all nodes ready at most ~.1f s after the last fault of a round~n~n"
                   "~-14s~8s~8s  ~s~n",
                   [Mode, Nodes, Clients, Seed, lists:sum(maps:values(Faults)), Seconds,
                    counts(Faults), Cases, lists:sum(maps:values(Operations)), counts(Operations),
                    Slowest / 1000, "verdict", "cases", "times", "promise"]),
     [begin
          {Bad, Times} = maps:get(Kind, Verdicts, {0, 0}),
          io_lib:format("~-14s~8b~8b  ~s~n",
                        [Kind, Bad, Times, promise(lists:member(Kind, promises:broken_by(Mode)),
                                                   Bad)])
      end || Kind <- verdicts:kinds()],
     [["\nhistories and verdicts: ", Out, "\n"] || map_size(Verdicts) > 0],
     stopped(Stopped)].

stopped(none) -> [];
stopped(Why) -> ["\nstopped early, so later faults are not judged: ", Why, "\n"].

counts(Counts) ->
    lists:join(", ", [io_lib:format("~s ~b", [Name, Count])
                      || {Name, Count} <- lists:sort(maps:to_list(Counts))]).

promise(false, _) -> "none";
promise(true, 0) -> "kept";
promise(true, _) -> "BROKEN".

%% @doc Formats an object with the same figures. `kept' is null if the outcome is open. A run that
%% judged nothing has no verdicts.
-spec json(consistency_run:options(), consistency_run:report()) -> iodata().
json(#{mode := Mode, nodes := Nodes, clients := Clients, seed := Seed} = Options,
     #{faults := Faults, seconds := Seconds, cases := Cases, operations := Operations,
       verdicts := Verdicts, slowest_ms := Slowest, stopped := Stopped} = Report) ->
    [object([{mode, string(Mode)}, {nodes, Nodes}, {clients, Clients}, {seed, Seed},
             {seconds, Seconds}, {faults, object(lists:sort(maps:to_list(Faults)))},
             {cases, Cases}, {operations, object(lists:sort(maps:to_list(Operations)))},
             {slowest_ms, Slowest},
             {verdicts, object([{Kind, object([{cases, Bad}, {times, Times},
                                               {promised, lists:member(
                                                            Kind, promises:broken_by(Mode))}])}
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
