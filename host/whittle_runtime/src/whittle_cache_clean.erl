%% @hidden Lists and removes the contents of the cache.
%%
%% It removes nothing that a build is writing. A directory of the cache stays complete until
%% it disappears: this module takes the lock of its name and renames it into `work/' first.
%%
%% Other programs may use the same directory. So this module treats only the output of builds as
%% Whittle's: it checks the name, and the files inside or beside. It lists everything else and
%% does not remove it. It does not follow symbolic links.
-module(whittle_cache_clean).

-include_lib("kernel/include/file.hrl").

-export([entries/1, remove/2, sweep/3]).
-export_type([kind/0, entry/0, left/0]).

%% A `part' is a library or another component of VMs. `work' is the directory of a build that
%% was interrupted or is still running.
-type kind() :: vm | part | otp | source | work | log.

%% `other' does not belong to Whittle.
-type entry() :: #{kind := kind() | other,
                   name := string(),
                   path := file:filename(),
                   bytes := non_neg_integer(),
                   age := non_neg_integer(),       % seconds since its creation
                   in_use := boolean()}.           % by a build that is running

%% The reason why an entry stays.
-type left() :: in_use | not_ours | file:posix().

%% The ends of names: whittle_cache makes those of artifacts, whittle_source those of sources.
%% ?TRY is the addition for directories in work/.
-define(HEX16, "-[0-9a-f]{16}").
-define(HEX8, "-[0-9a-f]{8}").
-define(TRY, "@[0-9A-Z]+").

-define(KINDS, ["artefacts", "sources", "work", "logs"]).

%% @doc Lists the whole cache, except the locks.
%%
%% The error is `cache_link' if one of the cache's directories is a symbolic link, or the error
%% of a directory that cannot be read.
-spec entries(whittle_runtime:options()) -> {ok, [entry()]} | {error, whittle_runtime:reason()}.
entries(Options) ->
    case whittle_cache_dir:root(Options) of
        {ok, Root} -> entries_in(Root, file:list_dir(Root));
        Error -> Error
    end.

entries_in(Root, {ok, _}) ->
    case [Dir || Sub <- ["locks" | ?KINDS], Dir <- [filename:join(Root, Sub)],
                 type(Dir) =:= symlink] of
        [] -> {ok, all(Root)};
        [Link | _] -> {error, {cache_link, #{link => Link}}}
    end;
entries_in(_, {error, enoent}) -> {ok, []};
entries_in(Root, {error, Reason}) -> {error, whittle_cache_dir:unwritten(Reason, Root)}.

all(Root) ->
    Sized = [{Kind, Name, Path, bytes(Path)} || Sub <- ?KINDS,
                                                {Kind, Name, Path} <- found(Root, Sub)],
    %% Read the locks last, so that they are as recent as possible.
    Held = held(Root),
    [entry(One, Held) || One <- Sized].

%% @doc Removes an entry.
%%
%% `in_use' means that a build has begun to use the entry. `not_ours' means that Whittle did
%% not create it.
-spec remove(entry(), whittle_runtime:options()) -> ok | {error, left()}.
remove(#{kind := other}, _) -> {error, not_ours};
remove(#{in_use := true}, _) -> {error, in_use};
remove(#{path := Path, name := Name}, Options) ->
    {ok, Root} = whittle_cache_dir:root(Options),
    remove_locked(Root, lock_name(Name), Path, fun() -> ok end).

%% @doc Removes the remains of interrupted builds from `work/'.
%%
%% The caller holds the lock of the name Own. The directories of other running builds stay, and
%% so does everything that Whittle did not create. The function calls Tell before each directory
%% that it removes.
-spec sweep(file:filename(), string(), fun(() -> term())) -> ok.
sweep(Root, Own, Tell) ->
    lists:foreach(fun({work, Name, Path}) ->
                          case lock_name(Name) of
                              Own ->
                                  remove_registered(Path, fun() -> _ = Tell(), ok end);
                              Other -> remove_locked(Root, Other, Path, Tell)
                          end;
                     ({other, _, _}) -> ok
                  end, found(Root, "work")).

%%% Internal functions

%% Lists nothing below a symbolic link, because the link may lead anywhere.
found(Root, Sub) ->
    Dir = filename:join(Root, Sub),
    Names = case type(Dir) =:= directory andalso file:list_dir(Dir) of
                {ok, Listed} -> lists:sort(Listed);
                _ -> []
            end,
    [{case is_ours(Sub, Root, Name) of true -> kind(Sub, Name); false -> other end, Name,
      filename:join(Dir, Name)} || Name <- Names].

%% Tells whether a build created the entry. An artifact and a source contain their description.
%% For a directory in work/ and for a log, the build has left the lock.
is_ours("artefacts", Root, Name) ->
    is_called(Name, ?HEX16) andalso is_described(Root, "artefacts", Name);
is_ours("sources", Root, Name) ->
    is_called(Name, ?HEX8) andalso is_described(Root, "sources", Name);
is_ours("work", Root, Name) ->
    %% An artifact lies in work/ for a moment during its removal. A log is a file.
    is_called(Name, "(" ?HEX16 "|" ?HEX8 ")" ?TRY) andalso has_lock(Root, Name)
        andalso lists:member(type(filename:join([Root, "work", Name])), [directory, regular]);
is_ours("logs", Root, Name) ->
    is_called(Name, "(" ?HEX16 "|" ?HEX8 ")\\.log") andalso has_lock(Root, Name)
        andalso type(filename:join([Root, "logs", Name])) =:= regular.

is_called(Name, End) ->
    re:run(Name, "^[^.@][^@]*" ++ End ++ "$", [unicode, dollar_endonly, {capture, none}])
        =:= match.

is_described(Root, Sub, Name) ->
    Dir = filename:join([Root, Sub, Name]),
    type(Dir) =:= directory andalso type(filename:join(Dir, "whittle.config")) =:= regular.

has_lock(Root, Name) -> type(filename:join([Root, "locks", lock_name(Name)])) =:= regular.

type(Path) ->
    case file:read_link_info(Path) of
        {ok, #file_info{type = Type}} -> Type;
        {error, _} -> none
    end.

kind("sources", _) -> source;
kind("work", _) -> work;
kind("logs", _) -> log;
kind("artefacts", "runtime-" ++ _) -> vm;
kind("artefacts", "otp-" ++ _) -> otp;
kind("artefacts", "suites-" ++ _) -> otp;
kind("artefacts", _) -> part.

entry({Kind, Name, Path, Bytes}, Held) ->
    %% A build reads artifacts and sources with other names than its own.
    InUse = case Kind of
                other -> false;
                _ when Kind =:= work; Kind =:= log -> lists:member(lock_name(Name), Held);
                _ -> Held =/= []
            end,
    #{kind => Kind, name => Name, path => Path, in_use => InUse, bytes => Bytes,
      age => max(0, erlang:system_time(second) - made(Path))}.

%% The names are `NAME-HEX@UNIQUE' in work/ and `NAME-HEX.log' in logs/.
lock_name(Name) ->
    [Before | _] = string:split(Name, "@"),
    case lists:suffix(".log", Before) of
        true -> lists:sublist(Before, length(Before) - 4);
        false -> Before
    end.

made(Path) ->
    case file:read_link_info(Path, [{time, posix}]) of
        {ok, #file_info{mtime = Time}} -> Time;
        {error, _} -> erlang:system_time(second)
    end.

%% Does not follow symbolic links: a build may have created a link to anywhere.
bytes(Path) ->
    case file:read_link_info(Path) of
        {ok, #file_info{type = directory}} ->
            case file:list_dir_all(Path) of
                {ok, Names} -> lists:sum([bytes(filename:join(Path, Name)) || Name <- Names]);
                {error, _} -> 0
            end;
        {ok, #file_info{size = Size}} -> Size;
        {error, _} -> 0
    end.

%% Lists the names that builds have locked. `in-use' is one of them if a build reads the cache.
held(Root) ->
    case whittle_lock:held(filename:join(Root, "locks")) of
        {ok, Names} -> Names;
        %% Nothing is safe to remove if the locks are unknown.
        {error, _} -> ["?"]
    end.

remove_locked(Root, Name, Path, Tell) ->
    Unique = integer_to_list(erlang:unique_integer([positive]), 36)
        ++ integer_to_list(erlang:system_time(microsecond), 36),
    Aside = filename:join([Root, "work", Name ++ "@" ++ Unique]),
    Lock = filename:join([Root, "locks", Name]),
    _ = filelib:ensure_dir(Aside),
    _ = filelib:ensure_dir(Lock),
    case whittle_lock:take(Lock, #{wait => 0}) of
        {ok, Held} ->
            remove_registered(Aside, fun() ->
                                        Moved = file:rename(Path, Aside),
                                        ok = whittle_lock:release(Held),
                                        _ = Moved =:= ok andalso Tell(),
                                        Moved
                                end);
        busy -> {error, in_use};
        {error, _} -> {error, eacces}
    end.

%% Removes a directory in work/. It registers the directory, and then calls a function that may move
%% an entry of the cache there. If a signal stops the command meanwhile, `whittle_stop' removes the
%% rest.
remove_registered(Dir, Before) ->
    ok = whittle_unfinished:begun(Dir, fun() -> whittle_unfinished:remove_tree(Dir) end),
    Removed = case Before() of
                  ok -> whittle_unfinished:remove_tree(Dir);
                  {error, enoent} -> ok;        % another `whittle clean' removed it first
                  {error, _} = Error -> Error
              end,
    ok = whittle_unfinished:done(Dir),
    Removed.
