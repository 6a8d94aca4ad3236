%% @doc Applies the settings that `whittle tune' wrote. It adds their flags to the program's
%% vm.args, their variables to its environment, and their recording to the options of tree shaking.
%% @hidden
-module(whittle_make_settings).

-export([read/1, add/2, shake/2, format_error/1]).

-export_type([settings/0, error/0]).

-type settings() :: #{flags := [string()], environment := [{string(), string()}],
                      config => [{atom(), atom(), term()}],     % application, key, value
                      build => build()}.

%% Options of the build. The path of the recording begins at the file of settings.
-type build() :: #{evidence_file := file:filename(), seen := keep | only}.

-type error() :: {bad_settings, {file:filename(), unicode:chardata()}}
               | {unreadable, {settings, file:filename(), file:posix() | badarg}}.

%% @doc Reads a file of settings: one map with the keys `flags' and `environment', perhaps `config'
%% and `build', and any others.
-spec read(file:filename()) -> {ok, settings()} | {error, error()}.
read(File) ->
    case whittle_file:text(File) of
        {ok, Bytes} -> checked(File, whittle_term:parse(Bytes));
        {error, Reason} -> {error, {unreadable, {settings, File, Reason}}}
    end.

checked(File, {ok, [#{flags := Flags, environment := Environment} = Map]})
  when length(Flags) >= 0, length(Environment) >= 0 ->        % proper lists
    Wrong = [Flag || Flag <- Flags, not is_flag(Flag)]
        ++ [Pair || Pair <- Environment, not is_variable(Pair)],
    case Wrong of
        [] ->
            case config(maps:get(config, Map, [])) of
                {ok, Config} ->
                    with_build(File, maps:get(build, Map, none),
                               #{flags => Flags, environment => Environment, config => Config});
                error ->
                    {error, {bad_settings,
                             {File, "config is not a list of {Application, [{Key, Value}]}"}}}
            end;
        [First | _] ->
            {error, {bad_settings,
                     {File,
                      io_lib:format("~0tP is neither a flag of the emulator (+P) or its value, nor "
                                    "a variable of the VM", [First, 8])}}}
    end;
checked(File, {ok, _}) ->
    {error, {bad_settings, {File, "it must hold one map with the keys flags and environment"}}};
checked(File, {error, Line}) -> {error, {bad_settings, {File, Line}}}.

config(Config) ->
    try [{Application, Key, Value} || {Application, Keys} <- Config, {Key, Value} <- Keys] of
        Values ->
            Names = [Name || {Application, Key, _} <- Values, Name <- [Application, Key]],
            Pairs = [Pair || {_, Keys} <- Config, Pair <- Keys],
            case lists:all(fun is_atom/1, Names) andalso length(Pairs) =:= length(Values)
                andalso [Item || Item <- Config, not is_tuple(Item)] =:= [] of
                true -> {ok, Values};
                false -> error
            end
    catch error:_ -> error
    end.

with_build(_, none, Settings) -> {ok, Settings};
with_build(File, #{evidence := Name, seen := Seen} = Build, Settings)
  when map_size(Build) =:= 2, Seen =:= keep orelse Seen =:= only ->
    case is_list(Name) andalso Name =/= [] andalso io_lib:char_list(Name)
        andalso filename:basename(Name) =:= Name of
        true ->
            Path = filename:join(filename:dirname(File), Name),
            case file:read_file_info(Path) of
                {ok, _} -> {ok, Settings#{build => #{evidence_file => Path, seen => Seen}}};
                {error, Reason} ->
                    {error, {bad_settings,
                             {File, ["its recording ", Path, " cannot be read (",
                                     file:format_error(Reason), "), and must lie beside it"]}}}
            end;
        false -> {error, {bad_settings, {File, "evidence is not the name of a file beside it"}}}
    end;
with_build(File, _, _) ->
    {error, {bad_settings, {File, "build is not a map with the keys evidence and seen (keep or "
                                  "only)"}}}.

%% A flag with `-' is for init or the program: it could set a cookie, or end the list of flags.
is_flag(Word) -> is_word(Word) andalso hd(Word) =/= $-.

%% A word of vm.args ends at a blank, and `#' begins a comment.
is_word(Word) ->
    io_lib:char_list(Word) andalso Word =/= []
        andalso lists:all(fun(Char) -> Char > $\s andalso Char < 127
                                           andalso not lists:member(Char, "#'\"\\$")
                          end, Word).

%% The cookie would be readable in the output, and other variables are not settings of the VM.
is_variable({Name, Value}) ->
    is_word(Name) andalso is_word(Value)
        andalso re:run(Name, "^(ERL|ESCRIPT)_[A-Z0-9_]+$", [{capture, none}]) =:= match;
is_variable(_) -> false.

%% @doc Adds the recording of the settings to the options of tree shaking. Without such options, it
%% shakes functions. Options of the request win: one that names a recording, or that removes code.
%% The second element has a note for the ledger that says what it did.
-spec shake(settings(), none | whittle_make:shake()) ->
          {none | whittle_make:shake(), [unicode:chardata()]}.
shake(#{build := #{evidence_file := File}}, Shake)
  when is_map_key(evidence_file, Shake); map_get(missing, Shake) =:= crash ->
    {Shake, [["the build does not use the recording ", File, " of --settings, because it has "
              "another one, or removes code (--missing crash)"]]};
shake(#{build := Build}, Shake) ->
    Given = case Shake of
                none -> #{unit => functions};
                _ -> Shake
            end,
    #{unit := Unit, evidence_file := File, seen := Seen} = Both = maps:merge(Build, Given),
    {Both, [io_lib:format("--settings shakes ~s with the recording ~ts (--seen ~s)",
                          [Unit, File, Seen])]};
shake(_, Shake) -> {Shake, []}.

%% @doc Adds the settings to a system, and a note to its ledger. They stand behind the emulator's
%% flags of the program, so they win, and before `-extra', which ends the flags.
-spec add(settings(), whittle_system:system()) -> whittle_system:system().
add(#{flags := Flags, environment := Environment} = Settings, System) ->
    {Config, Absent} = lists:partition(fun({Name, _, _}) ->
                                               whittle_system:app(Name, System) =/= error
                                       end, maps:get(config, Settings, [])),
    #{bytes := Before} = File = maps:get(<<"vm.args">>, whittle_system:files(System),
                                         #{mode => 8#644, bytes => <<>>}),
    Line = whittle_vm_args:add(["\n", lists:join($\s, Flags), "\n"], Before),
    With = case Flags of
               [] -> System;
               _ -> whittle_system:put_file(<<"vm.args">>, File#{bytes := Line}, System)
           end,
    noted(Flags ++ [[Name, $=, Value] || {Name, Value} <- Environment]
              ++ [io_lib:format("~ts:~ts=~0tP", [Name, Key, Value, 8])
                  || {Name, Key, Value} <- Config],
          without(Absent,
                  configured(Config,
                             lists:foldl(fun({Name, Value}, Each) ->
                                                 whittle_system:put_env(
                                                   list_to_binary(Name),
                                                   {default, list_to_binary(Value)}, Each)
                                         end, With, Environment)))).

%% The keys replace those of the `.app' file, so the program needs no parser of terms for them. A
%% sys.config or vm.args of the program wins over both.
configured(Config, System) ->
    lists:foldl(
      fun({Name, Key, Value}, Each) ->
              {ok, #{spec := {application, Name, Keys}} = App} = whittle_system:app(Name, Each),
              Env = lists:keystore(Key, 1, proplists:get_value(env, Keys, []), {Key, Value}),
              Spec = {application, Name, lists:keystore(env, 1, Keys, {env, Env})},
              whittle_system:put_app(App#{spec := Spec}, Each)
      end, System, Config).

without(Absent, System) ->
    lists:foldl(fun(Name, Each) ->
                        whittle_system:note(["--settings has keys of ", atom_to_list(Name),
                                             ", which the program does not contain"], Each)
                end, System, lists:usort([Name || {Name, _, _} <- Absent])).

noted([], System) -> System;
noted(Words, System) ->
    whittle_system:note(["--settings adds ", lists:join($\s, Words)], System).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({unreadable, {settings, File, Reason}}) ->
    [File, $\s, whittle_file:format_error(Reason), ": name a file of `whittle tune' with "
     "--settings"];
format_error({bad_settings, {File, Line}}) ->
    [File, ": ", Line, ": name a file of `whittle tune' with --settings"].
