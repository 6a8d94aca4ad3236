%% @hidden Builds one artifact from a job: the cache has it, or a recipe runs.
%%
%% If the job has `verify', each use compares the artifact with the built files, and reads the files
%% that `verify' names completely. An artifact that only other artifacts use is verified when they
%% use it.
-module(whittle_runtime_job).

-import(whittle_work, [steps/1]).

-export([build/2, key/1]).

-export_type([job/0]).

-type job() ::
        #{name := string(),                 % of the artifact in the cache
          task := string(),                 % for a person
          recipe := whittle_recipe:recipe(),
          inputs := map(),                  % a part of the key
          identify := [string()],           % commands that print the versions of compilers
          variables := [{string(), file:filename()}], % of the recipe: other artifacts
          describe := fun((Out :: file:filename()) -> {ok, map()} | {error, term()}),
          source => map(),                  % whittle_source
          files => #{file:filename() => binary()}, % in the recipe's work directory
          check => fun(() -> ok | {error, term()}), % before a build
          verify => [file:filename()]}.

%% @doc Finds the artifact of a job in the cache, or builds it.
-spec build(job(), whittle_runtime:options()) -> {ok, map()} | {error, whittle_runtime:reason()}.
build(Job, Options) ->
    steps([fun(_) -> key(Job) end,
           fun(Key) -> build(Job, Key, Options) end]).

build(Job, Key, Options) ->
    #{name := Name, task := Task, recipe := Recipe, variables := Variables,
      describe := Describe} = Job,
    Source = maps:get(source, Job, none),
    Check = maps:get(check, Job, fun() -> ok end),
    Make = fun(Place = #{out := Out}) ->
                   steps([fun(_) -> Check() end,
                          fun(_) -> verified(Source, Options) end,
                          fun(_) -> verified_parts(Variables, Options) end,
                          fun(_) -> lay_out(maps:get(files, Job, #{}), Place) end,
                          fun(_) -> whittle_recipe:run(Task, Recipe, Variables
                                                     ++ source_variable(Source),
                                                     Place, Options) end,
                          fun(_) -> Describe(Out) end])
           end,
    case {whittle_cache:artifact(Name, Key, Make, Options), Job} of
        {{ok, #{dir := Dir} = Built}, #{verify := Always}} ->
            steps([fun(_) -> whittle_cache:verify(Dir, Always, Options) end,
                   fun(_) -> {ok, Built} end]);
        {Result, _} ->
            Result
    end.

%% @doc Returns all that can influence the bytes of a job's artifact. The error is `bad_tool', if a
%% command that prints a version cannot run here.
-spec key(job()) -> {ok, map()} | {error, whittle_runtime:reason()}.
key(#{recipe := Recipe, inputs := Inputs, identify := Identify} = Job) ->
    Versions = [version(Command) || Command <- Identify],
    case [Error || {bad_tool, _} = Error <- Versions] of
        [] ->
            %% Do not rename a key here: that would build every VM again.
            {ok, Inputs#{plan => whittle_recipe:essence(Recipe),
                         source => case Job of
                                       #{source := Source} -> whittle_source:fingerprint(Source);
                                       #{} -> none
                                   end,
                         compiler => Versions}};
        [Error | _] -> {error, Error}
    end.

%% Returns the first line that a command prints, and its output on stderr. If a limit of the caller
%% or a signal ends it, that says nothing about the compiler, and must not become a part of the key.
%% A file that is missing may: the check before the build names its package.
version(Command) ->
    Script = ["v=$(", Command, ") || exit; printf '%s\\n' \"${v%%\n*}\""],
    case whittle_program:capture("sh", ["-c", lists:append(Script)]) of
        {error, {status, Status, Output}} when Status >= 126 ->
            {bad_tool, #{command => Command, status => Status, output => Output}};
        Result -> Result
    end.

%% Writes the files that a recipe expects in its work directory.
lay_out(Files, #{work := Work}) ->
    Written = [whittle_cache_dir:unwritten(Reason, Work)
               || {Path, Bytes} <- maps:to_list(Files), To <- [filename:join(Work, Path)],
                  {error, Reason} <- [filelib:ensure_dir(To), file:write_file(To, Bytes)]],
    case Written of
        [] -> ok;
        [Error | _] -> {error, Error}
    end.

verified(none, _Options) -> ok;
verified(Source, Options) -> whittle_source:verify(Source, Options).

%% Verifies the artifacts among a recipe's variables.
verified_parts(Variables, Options) ->
    steps([fun(_) -> whittle_cache:verify(Dir, [], Options) end || {_, Dir} <- Variables]).

source_variable(none) -> [];
source_variable(#{main := Main}) -> [{"SOURCE", Main}].
