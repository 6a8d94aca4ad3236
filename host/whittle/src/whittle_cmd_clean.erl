%% @doc Implements `whittle clean'. It lists the contents of the VM cache by kind and age, and
%% removes them with `--yes'.
-module(whittle_cmd_clean).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "clean", arguments => [],
      help => "list the contents of the VM cache; with --yes, remove them",
      options => [#{name => kind, long => "kind", value => "KIND",
                    one_of => fun() -> [vm, part, otp, source, work, log] end,
                    help => "list or remove this kind only; docs/runtime.md of Whittle's source "
                            "explains the kinds"},
                  #{name => older_than, long => "older-than", value => "AGE",
                    help => "list or remove only entries that are at least this old: 12h, "
                            "30d or 4w (hours, days or weeks)"},
                  #{name => yes, long => "yes",
                    help => "remove the listed entries; without this option, only list them"},
                  whittle_command_line:json()]}.

%% @doc Lists or removes the entries of the cache. It removes nothing while a build runs. It keeps
%% files that Whittle did not write, and lists them.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(Values) ->
    whittle_work:steps([fun(_) -> age(Values) end,
                         fun(Age) -> wanted(Age, Values) end,
                         fun(Entries) -> carry_out(Entries, Values) end,
                         fun(Done) -> {ok, report(Done, Values)} end]).

%% Internal

age(#{older_than := Text}) ->
    case string:to_integer(Text) of
        {Number, [Unit]} when is_integer(Number), Number >= 0 ->
            case Unit of
                $h -> {ok, Number * 3600};
                $d -> {ok, Number * 86400};
                $w -> {ok, Number * 7 * 86400};
                _ -> no_age(Text)
            end;
        _ -> no_age(Text)
    end;
age(_) -> {ok, 0}.

no_age(Text) ->
    whittle_failure:usage(["--older-than cannot be `", Text, "'; give a number of hours, days or "
                           "weeks, for example 12h, 30d or 4w; see `whittle help clean'"]).

wanted(Age, Values) ->
    case whittle_runtime:cached(#{}) of
        {ok, Entries} ->
            {ok, [Entry || #{kind := Kind, age := Old} = Entry <- Entries, Old >= Age,
                           maps:get(kind, Values, Kind) =:= Kind]};
        {error, Reason} -> whittle_failure:make({runtime, Reason})
    end.

%% Removes the entries, and returns each with its new state.
carry_out([], _) ->
    {ok, []};
carry_out(Entries, #{yes := true}) ->
    case whittle_runtime:alone(fun() -> {ok, [removed(Entry) || Entry <- Entries]} end, #{}) of
        {ok, _} = Done -> Done;
        {error, Reason} -> whittle_failure:make({runtime, Reason})
    end;
carry_out(Entries, _) ->
    {ok, [Entry#{done => case Entry of
                             #{kind := other} -> left;
                             #{in_use := true} -> in_use;
                             #{in_use := false} -> kept
                         end} || Entry <- Entries]}.

removed(Entry) ->
    Entry#{done => case whittle_runtime:uncache(Entry, #{}) of
                       ok -> removed;
                       {error, in_use} -> in_use;
                       {error, not_ours} -> left;
                       {error, _} -> failed
                   end}.

report([], Values) ->
    #{text => "the cache has no matching entries\n", json => json([], Values)};
report(Entries, Values) ->
    Rows = [[atom_to_list(Kind), Bytes, days(Age), [shown(Entry), says(Done)]]
            || #{kind := Kind, bytes := Bytes, age := Age, done := Done} = Entry <- Entries],
    Total = ["total", lists:sum([Bytes || #{bytes := Bytes} <- Entries]), "", ""],
    #{text => [whittle_table:text([["kind", "bytes", "age", "name"] | Rows] ++ [Total]), $\n,
               closing(Entries, Values)],
      json => json(Entries, Values)}.

%% A file of somebody else may lie in any directory of the cache.
shown(#{kind := other, path := Path}) -> Path;
shown(#{name := Name}) -> Name.

says(in_use) -> " (a build uses it)";
says(left) -> " (Whittle did not create it, so it stays)";
says(failed) -> " (Whittle could not remove it: check its permissions)";
says(_) -> "".

closing(Entries, #{yes := true}) ->
    ["removed: ", whittle_number:text(sum(removed, Entries)), " bytes\n"];
closing(Entries, _) ->
    case lists:any(fun(#{done := Done}) -> Done =:= in_use end, Entries) of
        true ->
            ["Whittle removed nothing; when no build runs, `whittle clean --yes' with the same "
             "options removes ",
             whittle_number:text(sum(kept, Entries) + sum(in_use, Entries)), " bytes\n"];
        false -> ["Whittle removed nothing; `whittle clean --yes' with the same options removes ",
                  whittle_number:text(sum(kept, Entries)), " bytes\n"]
    end.

sum(What, Entries) ->
    lists:sum([Bytes || #{bytes := Bytes, done := Done} <- Entries, Done =:= What]).

days(Age) when Age < 86400 -> [integer_to_list(Age div 3600), " h"];
days(Age) -> [integer_to_list(Age div 86400), " d"].

json(Entries, Values) ->
    #{removing => is_map_key(yes, Values), removed_bytes => sum(removed, Entries),
      entries => [#{kind => Kind, name => unicode:characters_to_binary(Name),
                    path => unicode:characters_to_binary(Path), bytes => Bytes,
                    age_seconds => Age, state => Done}
                  || #{kind := Kind, name := Name, path := Path, bytes := Bytes, age := Age,
                       done := Done} <- Entries]}.
