%% @doc Keeps the runs of the study `otp': one numbered directory for each, in a directory that is
%% the store.
%%
%% A run is a directory of samples (docs/measure.md) and a file `otp.json', which holds the bytes by
%% object and module, the checks, the machine and the compiler. That file is written last, so a run
%% without it is not complete.
%% @hidden
-module(whittle_measure_otp_store).

-import(whittle_work, [steps/1]).

-export([before/1, place/2, write/2, read/1]).
-export([format_error/1]).

-export_type([stored/0, error/0]).

-type stored() :: #{dir := file:filename(),
                    facts := #{binary() => term()},             % of otp.json
                    study := whittle_measure_study:study(),
                    samples := [whittle_measure_samples:sample()]}.

-type error() :: {no_run, file:filename()}
               | {nothing_to_resume, file:filename()}
               | {no_store, file:filename(), file:posix() | badarg}
               | {unreadable_run, file:filename(), file:posix() | badarg | terminated}
               | {other_format, file:filename()}
               | {damaged_run, file:filename()}
               | whittle_measure_samples:error().

-define(FORMAT, 1).

%% @doc Reads the run to compare with: the one that `against' names, or else the last complete one
%% in the store `dir'.
-spec before(#{dir := file:filename(), against => file:filename(), _ => _}) ->
          {ok, stored() | none} | {error, error()}.
before(#{against := Dir}) ->
    case {is_complete(Dir), last(Dir)} of
        {true, _} -> read(Dir);
        {false, {ok, Run}} -> read(Run);
        {false, none} -> {error, {no_run, Dir}}
    end;
before(#{dir := Store}) ->
    case last(Store) of
        {ok, Run} -> read(Run);
        none -> {ok, none}
    end.

last(Store) ->
    case [Run || Run <- runs(Store), is_complete(Run)] of
        [] -> none;
        Complete -> {ok, lists:last(Complete)}
    end.

%% Ordered by number.
runs(Store) ->
    case file:list_dir(Store) of
        {ok, Names} ->
            Numbers = [Number || Name <- Names, {Number, ""} <- [string:to_integer(Name)],
                                 name(Number) =:= Name],
            [filename:join(Store, name(Number)) || Number <- lists:sort(Numbers)];
        {error, _} -> []
    end.

name(Number) when is_integer(Number), Number > 0 ->
    lists:flatten(string:pad(integer_to_list(Number), 4, leading, $0));
name(_) -> none.

is_complete(Run) -> filelib:is_regular(file(Run)).

file(Run) -> filename:join(Run, "otp.json").

%% @doc Makes the directory of the next run; or, to resume, finds the last one if it is not
%% complete. The second element tells whether it holds samples.
-spec place(file:filename(), boolean()) -> {ok, {file:filename(), boolean()}} | {error, error()}.
place(Store, true) ->
    case lists:reverse(runs(Store)) of
        [Last | _] ->
            case is_complete(Last) of
                true -> {error, {nothing_to_resume, Store}};
                %% A run writes study.json after its programs are built, and before its samples.
                false -> {ok, {Last, filelib:is_regular(filename:join(Last, "study.json"))}}
            end;
        [] -> {error, {nothing_to_resume, Store}}
    end;
place(Store, false) ->
    case filelib:ensure_path(Store) of
        ok ->
            Taken = [list_to_integer(filename:basename(Run)) || Run <- runs(Store)],
            next(Store, lists:max([0 | Taken]) + 1);
        {error, Reason} -> {error, {no_store, Store, Reason}}
    end.

%% Another command may take the same number at the same moment.
next(Store, Number) ->
    Run = filename:join(Store, name(Number)),
    case file:make_dir(Run) of
        ok -> {ok, {Run, false}};
        {error, eexist} -> next(Store, Number + 1);
        {error, Reason} -> {error, {no_store, Store, Reason}}
    end.

%% @doc Writes the facts of a run, whole or not at all. The run is then complete.
-spec write(file:filename(), map()) -> ok | {error, error()}.
write(Run, Facts) ->
    File = file(Run),
    whittle_measure_samples:named(
      File, whittle_file:replace(File, [whittle_json:encode(Facts), $\n])).

%% @doc Reads a complete run.
-spec read(file:filename()) -> {ok, stored()} | {error, error()}.
read(Run) ->
    steps([fun(_) -> facts(Run) end,
           fun(Facts) ->
                   case whittle_measure_samples:read_study(Run) of
                       {ok, {_, Study, Samples}} ->
                           {ok, #{dir => Run, facts => Facts, samples => Samples, study => Study}};
                       {error, _} = Error -> Error
                   end
           end]).

facts(Run) ->
    case file:read_file(file(Run)) of
        {ok, Bytes} ->
            case whittle_json:decode(Bytes) of
                {ok, #{<<"format">> := ?FORMAT} = Facts} ->
                    case is_whole(Facts) of
                        true -> {ok, Facts};
                        false -> {error, {damaged_run, file(Run)}}
                    end;
                {ok, #{<<"format">> := Other}} when Other =/= ?FORMAT ->
                    {error, {other_format, file(Run)}};
                _ -> {error, {damaged_run, file(Run)}}
            end;
        {error, Reason} -> {error, {unreadable_run, file(Run), Reason}}
    end.

%% Tells whether the facts have everything that the comparison reads.
is_whole(#{<<"target">> := _, <<"compiler">> := _, <<"machine">> := #{},
           <<"subjects">> := [_ | _] = Subjects}) ->
    lists:all(fun is_subject/1, Subjects);
is_whole(_) -> false.

is_subject(#{<<"level">> := Level, <<"vsn">> := Vsn, <<"release">> := Release,
             <<"totals">> := #{}, <<"objects">> := #{}, <<"modules">> := #{},
             <<"checks">> := Checks}) ->
    is_binary(Level) andalso is_binary(Vsn) andalso is_list(Checks)
        andalso is_binary(Release) andalso is_integer(catch binary_to_integer(Release));
is_subject(_) -> false.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({no_run, Dir}) ->
    [Dir, " holds no complete run of the study otp: name one that `whittle measure otp' wrote"];
format_error({nothing_to_resume, Store}) ->
    ["the last run in ", Store, " is complete, or there is none: leave out --resume"];
format_error({no_store, Place, Reason}) ->
    [Place, " cannot be used (", file:format_error(Reason), "): name another directory with -o"];
format_error({unreadable_run, File, Reason}) ->
    [File, " cannot be read (", file:format_error(Reason), "): check its rights, or name another "
     "directory with --against"];
format_error({other_format, File}) ->
    [File, " was written by another version of Whittle: name another directory with -o, or another "
     "run with --against"];
format_error({damaged_run, File}) ->
    [File, " is damaged: remove its directory, or name another run with --against"].
