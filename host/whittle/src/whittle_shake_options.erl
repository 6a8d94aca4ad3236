%% @doc Describes the options of a plan on the command line, and makes the option `shake' of {@link
%% whittle_make:make/1} from their values.
-module(whittle_shake_options).

-export([described/0, options/1]).

%% @doc Describes the options that name what a plan keeps.
-spec described() -> [whittle_command_line:option()].
described() ->
    [#{name => feature, long => "feature", value => "+X,-Y", list => true,
       offered => fun() -> [[Sign | atom_to_list(Name)]
                            || {Name, _} <- whittle_shake:features(), Sign <- "+-"]
                  end,
       help => "features (parts of OTP) to turn on (+X) and off (-Y); `whittle features' "
               "lists them"},
     #{name => keep, long => "keep", value => "FILE",
       help => "a file of entry points, one M, M:F or M:F/A on each line; % begins a "
               "comment"},
     #{name => evidence, long => "evidence", value => "FILE",
       help => "a recording of `whittle trace'; --seen sets how the build uses it"},
     #{name => seen, long => "seen", value => "WAY",
       one_of => fun() -> [refuse, keep, only] end,
       help => "how to use the recording; refuse: fail if the build would remove a recorded "
               "function (default with --missing crash); keep: keep the recorded "
               "functions (default with --missing load); only: keep only the "
               "recorded functions in memory, and load any other function when "
               "something calls it"},
     #{name => remote, long => "remote", value => "NAMES",
       help => "the functions that other nodes call, separated by commas; or none"},
     #{name => data, long => "data", value => "NAMES",
       help => "the functions that the program calls by names from data (binary_to_term, "
              "file:consult), separated by commas; or none"},
     #{name => atoms, long => "atoms", value => "NAMES",
       help => "the functions that the program calls by names from text (list_to_atom), "
              "separated by commas; or none"},
     #{name => code, long => "code", value => "NAMES",
       help => "the functions that plugins and upgrades call (code that the program loads "
              "while it runs: code:load_binary), separated by commas; or none"}].

%% @doc Makes the option `shake' of {@link whittle_make:make/1}. It refuses an option that needs
%% shaking if shaking is off.
-spec options(whittle_command_line:values()) ->
          {ok, none | whittle_make:shake()} | {error, whittle:failure()}.
options(#{shake := none} = Values) ->
    case [Name || Name <- [missing, feature, keep, evidence, seen | whittle_shake:kinds()],
                  is_map_key(Name, Values)] of
        [] -> checked(none, Values);
        [Name | _] ->
            whittle_failure:usage(["--", atom_to_list(Name),
                                   " has no effect without --shake: add --shake functions"])
    end;
options(#{shake := Unit} = Values) ->
    whittle_work:steps(
      [fun(_) -> {ok, #{unit => Unit, missing => maps:get(missing, Values, load),
                        declared => #{}}} end,
       fun(Options) -> features(Values, Options) end,
       fun(Options) -> keep(Values, Options) end,
       fun(Options) -> evidence(Values, Options) end
       | [fun(Options) -> declared(Kind, Values, Options) end
          || Kind <- whittle_shake:kinds()]
       ++ [fun(Options) -> checked(Options, Values) end]]).

%% Internal

features(#{feature := Words}, Options) ->
    Known = [atom_to_list(Name) || {Name, _} <- whittle_shake:features()],
    case [wrong_feature(Word, Known) || Word <- Words,
                                        not lists:member(tl(Word), Known)
                                            orelse not lists:member(hd(Word), "+-")] of
        [Wrong | _] ->
            whittle_failure:usage([Wrong, "; `whittle features' lists them"]);
        [] ->
            {ok, Options#{on => [list_to_existing_atom(Name) || [$+ | Name] <- Words],
                          off => [list_to_existing_atom(Name) || [$- | Name] <- Words]}}
    end;
features(_, Options) ->
    {ok, Options}.

wrong_feature([Sign | Name], Known) when Sign =:= $+; Sign =:= $- ->
    ["--feature: there is no feature `", Name, $', whittle_suggestion:hint(Name, Known)];
wrong_feature(Word, _) ->
    ["--feature takes +X and -X, separated by commas, not `", Word, $'].

keep(#{keep := File}, Options) -> {ok, Options#{keep_file => File}};
keep(_, Options) -> {ok, Options}.

evidence(Values, Options) ->
    {ok, maps:merge(Options, maps:from_list([{Key, Value}
                                             || {Option, Key} <- [{evidence, evidence_file},
                                                                  {seen, seen}],
                                                #{Option := Value} <- [Values]]))}.

declared(Kind, Values, #{declared := Declared} = Options) ->
    case Values of
        #{Kind := Text} ->
            case whittle_shake_name:parse_list(Text) of
                {ok, Names} -> {ok, Options#{declared := Declared#{Kind => Names}}};
                {error, "none"} ->
                    whittle_failure:usage(["--", atom_to_list(Kind),
                                           " has `none' and other names: give one or the other"]);
                {error, Word} ->
                    whittle_failure:usage(["--", atom_to_list(Kind), ": `", Word,
                                           "' is not of the form M, M:F or M:F/A"])
            end;
        _ -> {ok, Options}
    end.

%% The build checks which options go together. Here a conflict is a usage error.
checked(Shake, #{vm := Vm}) ->
    case whittle_make:check_shake(Shake, case Vm of program -> program; _ -> whole end) of
        ok -> {ok, Shake};
        {error, Conflict} -> whittle_failure:usage(conflict(Conflict))
    end.

conflict({on_and_off, Name}) ->
    Both = atom_to_list(Name),
    ["--feature has +", Both, " and -", Both, ": remove one of them"];
conflict({needs_load, seen}) ->
    "--seen only cannot go with --missing crash, because the program must be able to load the "
        "functions that the run did not call: use --missing load";
conflict({needs_evidence, seen}) ->
    "--seen has no effect without a recording: name one with --evidence FILE";
conflict({needs_crash, vm}) ->
    "--vm program needs a plan that removes code: add --shake functions --missing crash".
