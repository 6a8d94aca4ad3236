%% @doc Records the functions that a program calls, for builds that keep only these in memory
%% (`seen').
%%
%% The program is built whole, and runs once under its workload, before the builds that need the
%% recording. The recording lies beside the samples, so a study that goes on uses the same one.
%% @hidden
-module(whittle_measure_record).

-import(whittle_measure_samples, [named/2]).
-import(whittle_work, [steps/1]).

-export([complete/4, written/2]).

%% @doc Adds the recording to a build that needs one.
-spec complete(whittle_measure_subject:build(), whittle_measure_study:study(), file:filename(),
               fun((whittle_make:event()) -> term())) ->
          {ok, whittle_measure_subject:build()}
        | {error, whittle_measure_subject:reason() | whittle_measure_samples:error()}.
complete(#{program := #{name := Name} = Program, request := Request} = Build, Study, Dir, Tell) ->
    case whittle_measure_subject:records(Build) of
        false -> {ok, Build};
        true ->
            Whole = Build#{request := maps:remove(shake, Request)},
            Hash = erlang:phash2({Program, maps:get(request, Whole)}),
            File = filename:join([Dir, "recordings", lists:concat([Name, "-", Hash, ".trace"])]),
            case filelib:is_regular(File) of
                true -> {ok, Build#{recording => File}};
                false ->
                    steps([fun(_) -> whole(Whole, Study, Dir, Tell) end,
                           fun(Subject) -> recorded(Subject, Program, Study) end,
                           fun(Bytes) -> written(File, Bytes) end,
                           fun(_) -> {ok, Build#{recording => File}} end])
            end
    end.

whole(Build, #{base := Base}, Dir, Tell) ->
    case whittle_measure_subject:prepare(Build, Base, filename:join(Dir, "builds"), Tell, none) of
        {ok, {Made, _}} ->
            {ok, whittle_measure_subject:subject(#{program => maps:get(program, Build),
                                                   levels => #{}}, Made)};
        {error, _} = Error -> Error
    end.

recorded(Subject, #{name := Name} = Program, #{duration := Duration, base := Base}) ->
    Variables = whittle_measure_subject:variables(#{program => Program, levels => #{}}, Base),
    case whittle_measure_observe:record(Subject, (settings(Program, Duration))
                                        #{variables => Variables}) of
        {ok, _, {ok, _} = Ok} -> Ok;
        {ok, _, empty} -> {error, {recording, Name, "it has no function of the program"}};
        {error, {run, Reason}} ->
            {error, {recording, Name, whittle_measure_observe:format_error(Reason)}};
        {error, {directory, Dir, Reason}} ->
            {error, {recording, Name, [Dir, ": ", file:format_error(Reason)]}}
    end.

%% Nothing measures this run, so it needs no readings of the memory.
settings(Program, Duration) ->
    maps:merge(maps:with([ready, workload], Program),
               #{duration => 1000 * Duration,
                 patience => whittle_measure_observe:patience(1000 * Duration),
                 interval => 1000 * Duration}).

%% @doc Writes a recording, whole or not at all, because a study that goes on uses the file.
-spec written(file:filename(), binary()) -> ok | {error, whittle_measure_samples:error()}.
written(File, Bytes) ->
    Dir = filename:dirname(File),
    steps([fun(_) -> named(Dir, filelib:ensure_path(Dir)) end,
           fun(_) -> named(File, whittle_file:replace(File, Bytes)) end]).
