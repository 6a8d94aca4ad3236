%% @hidden Keeps sources and artifacts in the cache, as directories that are always complete.
%%
%% A build creates its directory below `work/' and renames it to the final name at the end.
%% A lock ({@link whittle_lock}) lets one build at a time create a given directory; a second
%% build waits and then finds the result. A build that the user stops removes its directory
%% at once ({@link whittle_unfinished:undo_all/0}). The next build, of any name, removes the
%% directory of a build that was killed. So the cache never needs a repair.
%%
%% The cache refuses directories that another user can change. whittle_source compares a
%% source with its checksums before each use. `verify/3' and whittle_sums compare an artifact
%% with the checksums that the build recorded.
%%
%% ```
%% ROOT/sources/NAME/            a fetched source and its checksums
%% ROOT/artefacts/NAME-HEX/      the result of a build; HEX is a hash of all inputs
%% ROOT/logs/NAME-HEX.log        the output of the last build
%% ROOT/locks/in-use             builds lock it shared, `whittle clean --yes' exclusively
%% ROOT/locks/NAME-HEX           the lock of one directory
%% ROOT/work/NAME-HEX@TRY/       directories that builds are writing
%% '''
%%
%% `artefacts' keeps its older spelling, because another name would build every VM again.
-module(whittle_cache).

%% Locks on the whole cache
-export([reading/2, alone/2]).
%% Sources and artifacts
-export([source/3, sources/2, forget_source/2, artifact/4, artifacts/2, is_kept/3, verify/3]).

-export_type([workplace/0]).

-type workplace() ::
        #{work := file:filename(),      % the cache always removes it afterwards
          out := file:filename(),       % becomes the artifact
          log := file:filename(),
          id := string()}.

-define(META, "whittle.config").
%% The format of an artifact's own records, part of its key. Artifacts from before Whittle
%% recorded checksums have other names. Whittle builds them again, because nothing can prove
%% that they are unchanged.
-define(FORM, {sums, 1}).

%% @doc Calls the function while nobody removes anything from the cache.
%%
%% It excludes {@link alone/2}. If the cache cannot be locked (it belongs to another user, or
%% the file system has no locks), it calls the function nevertheless. The function then finds
%% out whether it can use the cache.
-spec reading(fun(() -> Result), whittle_runtime:options()) -> Result.
reading(Fun, Options) ->
    case in_use(Options) of
        {ok, File} ->
            Lock = case whittle_lock:take(File, #{mode => shared, wait => 0}) of
                       busy ->
                           whittle_runtime_progress:tell("cache", "waiting for `whittle clean'",
                                                          Options),
                           whittle_lock:take(File, #{mode => shared, wait => infinity});
                       Result -> Result
                   end,
            with(Lock, Fun);
        error ->
            Fun()
    end.

%% @doc Calls the function while no build reads the cache.
%%
%% The error is `build_running', or the error of a lock file that cannot be locked. If no lock
%% file can be created, it calls the function without a lock.
-spec alone(fun(() -> Result), whittle_runtime:options()) ->
          Result | {error, whittle_runtime:reason()}.
alone(Fun, Options) ->
    case in_use(Options) of
        {ok, File} ->
            case locked(whittle_lock:take(File, #{wait => 0}), File) of
                {ok, _} = Lock -> with(Lock, Fun);
                busy -> {error, {build_running, #{lock => File}}};
                {error, _} = Error -> Error
            end;
        error ->
            Fun()
    end.

with({ok, Lock}, Fun) ->
    try Fun()
    after
        whittle_lock:release(Lock)
    end;
with({error, _}, Fun) ->
    Fun().

%% Returns the lock file, if a cache exists or can be created.
in_use(Options) ->
    case whittle_cache_dir:root(Options) of
        {ok, Root} ->
            Locks = filename:join(Root, "locks"),
            case first_error([made(Root), made_private(Locks)]) of
                ok -> {ok, filename:join(Locks, "in-use")};
                {error, _} -> error
            end;
        {error, _} -> error
    end.

%% @doc Returns a kept source, or lets Make fetch it.
%%
%% Make receives a directory and fetches the source into it. It returns the source with file
%% names relative to that directory.
-spec source(string(), fun((file:filename()) ->
                 {ok, whittle_source:source()} | {error, whittle_runtime:reason()}),
             whittle_runtime:options()) ->
          {ok, whittle_source:source()} | {error, whittle_runtime:reason()}.
source(Name, Make, Options) ->
    Build = fun(#{out := Out}) -> Make(Out) end,
    case kept("sources", Name, {Build, fun whittle_sums:narrow_all/1}, Options) of
        {ok, Final, Source} -> {ok, source_in(Final, Source)};
        Error -> Error
    end.

%% @doc Lists the kept sources with the name Name, or Name followed by a dash and more.
-spec sources(string(), whittle_runtime:options()) -> [whittle_source:source()].
sources(Name, Options) ->
    case whittle_cache_dir:root(Options) of
        {ok, Root} ->
            Dir = filename:join(Root, "sources"),
            [source_in(Final, Source)
             || Found <- filelib:wildcard(Name ++ "{,-*}", Dir),
                Final <- [filename:join(Dir, Found)],
                {ok, Source} <- [meta(Final)]];
        {error, _} -> []
    end.

source_in(Dir, Source = #{main := Main, sums := Sums}) ->
    Absolute = maps:from_list([{filename:join(Dir, File), Sum}
                               || {File, Sum} <- maps:to_list(Sums)]),
    Source#{main => filename:join(Dir, Main), sums => Absolute}.

%% @doc Removes a kept source whose files are damaged.
%%
%% It does not remove a tarball that belongs to the user.
-spec forget_source(whittle_source:source(), whittle_runtime:options()) -> ok.
forget_source(#{main := Main}, Options) ->
    {ok, Root} = whittle_cache_dir:root(Options),
    Final = filename:dirname(Main),
    _ = [file:del_dir_r(Final) || filename:dirname(Final) =:= filename:join(Root, "sources")],
    ok.

%% @doc Returns the artifact for Inputs (any term), or lets Make build it.
%%
%% Make returns a map that describes the artifact. The cache adds `dir' and `id' to that map.
-spec artifact(string(), term(),
               fun((workplace()) -> {ok, map()} | {error, whittle_runtime:reason()}),
               whittle_runtime:options()) ->
          {ok, map()} | {error, whittle_runtime:reason()}.
artifact(Name, Inputs, Make, Options) ->
    {Id, Full} = named(Name, Inputs),
    Build = fun(Place = #{out := Out}) ->
                    case Make(Place#{id => Id}) of
                        {ok, Meta} ->
                            %% For a person who wants to know why two builds differ.
                            Text = io_lib:format("~tp.~n", [Inputs]),
                            write(filename:join(Out, "inputs.config"), Text,
                                  fun() -> {ok, Meta} end);
                        Error ->
                            Error
                    end
            end,
    case kept("artefacts", Full, {Build, fun whittle_sums:record/1}, Options) of
        {ok, Final, Meta} -> {ok, Meta#{dir => Final, id => Id}};
        Error -> Error
    end.

%% @doc Tells whether the cache has the artifact for Inputs.
-spec is_kept(string(), term(), whittle_runtime:options()) -> boolean().
is_kept(Name, Inputs, Options) ->
    {_, Full} = named(Name, Inputs),
    case whittle_cache_dir:root(Options) of
        {ok, Root} -> meta(filename:join([Root, "artefacts", Full])) =/= none;
        {error, _} -> false
    end.

named(Name, Inputs) ->
    Id = string:slice(whittle_digest:bytes(canonical({?FORM, Inputs})), 0, 32),
    {Id, Name ++ "-" ++ string:slice(Id, 0, 16)}.

%% @doc Checks that an artifact's directory still holds the files that the build wrote.
%%
%% Any other directory passes. It always reads the files in Always, and reads another file only
%% if its metadata differs. Errors: `changed_artifact', `open_artifact'.
-spec verify(file:filename(), [file:filename()], whittle_runtime:options()) ->
          ok | {error, whittle_runtime:reason()}.
verify(Dir, Always, Options) ->
    {ok, Root} = whittle_cache_dir:root(Options),
    case filename:dirname(Dir) =:= filename:join(Root, "artefacts") of
        true -> whittle_sums:check(Dir, Always);
        false -> ok
    end.

%% @doc Lists the directories of the artifacts whose name begins with Name and a dash.
-spec artifacts(string(), whittle_runtime:options()) -> [file:filename()].
artifacts(Name, Options) ->
    case whittle_cache_dir:root(Options) of
        {ok, Root} ->
            Dir = filename:join(Root, "artefacts"),
            [filename:join(Dir, Found) || Found <- filelib:wildcard(Name ++ "-*", Dir)];
        {error, _} -> []
    end.

%% Maps have no defined order in the external format without OTP 26's option
%% `deterministic', so this function turns them into sorted lists.
canonical(Term) ->
    term_to_binary(sorted(Term), [{minor_version, 2}]).

sorted(Map) when is_map(Map) ->
    {map, lists:sort([{sorted(K), sorted(V)} || {K, V} <- maps:to_list(Map)])};
sorted(List) when is_list(List) ->
    [sorted(E) || E <- List];
sorted(Tuple) when is_tuple(Tuple) ->
    list_to_tuple([sorted(E) || E <- tuple_to_list(Tuple)]);
sorted(Term) ->
    Term.

%%% Creating a complete directory

kept(Kind, Name, Build, Options) ->
    case whittle_cache_dir:root(Options) of
        {ok, Root} ->
            Final = filename:join([Root, Kind, Name]),
            case kept(Root, Name, Final, Build, Options) of
                {ok, Meta} -> {ok, Final, Meta};
                Error -> Error
            end;
        Error ->
            Error
    end.

kept(Root, Name, Final, Build, Options) ->
    Dirs = [filename:join(Root, D) || D <- ["locks", "work", "logs"]],
    Checked = [Root, filename:dirname(Final), Final | Dirs] ++ files_of_source(Final),
    case {whittle_sums:owned(Checked), meta(Final)} of
        {ok, {ok, Meta}} ->
            {ok, Meta};
        {ok, none} ->
            case first_error([made(D) || D <- [Root, filename:dirname(Final) | Dirs]]) of
                ok -> locked(Root, Name, Final, Build, Options);
                {error, Reason} -> {error, whittle_cache_dir:unwritten(Reason, Root)}
            end;
        {Error, _} ->
            Error
    end.

%% The checksums of a source lie in a file beside it, so no other user may write either.
files_of_source(Final) ->
    case filename:basename(filename:dirname(Final)) of
        "sources" -> whittle_file:found("*", Final);
        _ -> []
    end.

%% Creates directories that no other user can write, whatever the user's umask is.
made(Dir) ->
    case filelib:is_dir(Dir) of
        true ->
            ok;
        false ->
            case filelib:ensure_path(Dir) of
                ok -> whittle_sums:narrow(Dir);
                Error -> Error
            end
    end.

%% Who can read a file can lock it, so other users may not look into the directory of locks.
made_private(Dir) ->
    case made(Dir) of
        ok ->
            _ = file:change_mode(Dir, 8#700),    % it fails in the cache of another user
            ok;
        Error -> Error
    end.

locked(Root, Name, Final, Build, Options) ->
    Lock = filename:join([Root, "locks", Name]),
    case lock(Lock, Name, Options) of
        {ok, Held} ->
            try
                case meta(Final) of
                    {ok, Meta} -> {ok, Meta};
                    none -> build(Root, Name, Final, Build, Options)
                end
            after
                whittle_lock:release(Held)
            end;
        Error ->
            Error
    end.

build(Root, Name, Final, {Build, Seal}, Options) ->
    Works = filename:join(Root, "work"),
    ok = whittle_cache_clean:sweep(Root, Name, fun() ->
                                                       whittle_runtime_progress:tell(
                                                         Name, "removing an interrupted build",
                                                         Options)
                                               end),
    %% The name is new each time: the processes of an interrupted build may live for another
    %% second and still write into their directory.
    Unique = integer_to_list(erlang:system_time(microsecond), 36),
    Work = filename:join(Works, Name ++ "@" ++ Unique),
    Out = filename:join(Work, "out"),
    Log = filename:join([Root, "logs", Name ++ ".log"]),
    ok = whittle_unfinished:begun(Work, fun() -> whittle_unfinished:remove_tree(Work) end),
    try
        case first_error([made(Work), made(Out), closed(Work, Final)]) of
            ok ->
                finish(Build(#{work => Work, out => Out, log => Log, id => ""}),
                       Seal, Out, Final);
            {error, Reason} ->
                {error, whittle_cache_dir:unwritten(Reason, Works)}
        end
    after
        whittle_unfinished:remove_directory(Work)
    end.

%% Closes an artifact's directory to other users until the build ends, so the build may create
%% files with open permissions. A source's stays open: apt fetches as a user of its own.
closed(Work, Final) ->
    case filename:basename(filename:dirname(Final)) of
        "artefacts" -> file:change_mode(Work, 8#700);
        "sources" -> ok
    end.

finish({ok, Meta}, Seal, Out, Final) ->
    Text = io_lib:format("~tp.~n", [Meta]),
    write(filename:join(Out, ?META), Text,
          fun() ->
                  %% An artifact without its description is incomplete.
                  _ = file:del_dir_r(Final),
                  case Seal(Out) of
                      ok -> renamed(file:rename(Out, Final), Final, Meta);
                      {error, Reason} -> {error, whittle_cache_dir:unwritten(Reason, Out)}
                  end
          end);
finish(Error, _Seal, _Out, _Final) ->
    Error.

renamed(ok, _, Meta) -> {ok, Meta};
renamed({error, Reason}, Final, _) -> {error, whittle_cache_dir:unwritten(Reason, Final)}.

write(File, Text, Then) ->
    case file:write_file(File, unicode:characters_to_binary(Text)) of
        ok -> Then();
        {error, Reason} -> {error, whittle_cache_dir:unwritten(Reason, filename:dirname(File))}
    end.

meta(Dir) ->
    case whittle_file:text(filename:join(Dir, ?META)) of
        {ok, Text} ->
            case whittle_term:parse(Text) of
                {ok, [Meta]} when is_map(Meta) -> {ok, Meta};
                _ -> none
            end;
        {error, _} -> none
    end.

first_error(Results) ->
    hd([E || E = {error, _} <- Results] ++ [ok]).

%%% The lock

lock(File, Name, Options) ->
    case whittle_lock:take(File, #{wait => 0}) of
        busy ->
            whittle_runtime_progress:tell(Name, "waiting for another build of this artifact",
                                          Options),
            locked(whittle_lock:take(File, #{wait => infinity}), File);
        Result ->
            locked(Result, File)
    end.

locked({error, no_flock}, _) -> {error, {no_tool, #{tool => "flock", package => "util-linux"}}};
locked({error, Reason}, File) ->
    {error, whittle_cache_dir:unwritten(Reason, filename:dirname(File))};
locked(Locked, _) -> Locked.
