%% @hidden Lists and removes what the cache holds. Nothing goes while it is being built, and a
%% directory of the cache stays whole until it is gone: it is renamed into `work/' first, under
%% the lock of its name.
%%
%% The cache may be a directory that other programs use too. So only what a build makes is
%% taken for Whittle's, by its name and by what lies in it or beside it; all else is listed and
%% left. Symbolic links are not followed.
-module(whittle_cache_clean).

-include_lib("kernel/include/file.hrl").

-export([entries/1, remove/2, sweep/2]).
-export([begun/1, done/1, undo/0]).
-export_type([kind/0, entry/0, left/0]).

%% A part is a library or another piece that VMs are linked from; work is what an interrupted
%% build left, or one that goes on has made so far.
-type kind() :: vm | part | otp | source | work | log.

%% `other' is not Whittle's.
-type entry() :: #{kind := kind() | other,
                   name := string(),
                   path := file:filename(),
                   bytes := non_neg_integer(),
                   age := non_neg_integer(),       % seconds since it was made
                   in_use := boolean()}.           % by a build that goes on

%% Why something was not removed.
-type left() :: in_use | not_ours | file:posix().

%% The end of an artefact's name and of a source's, as whittle_cache and whittle_source make it,
%% and what is added to them in work/.
-define(HEX16, "-[0-9a-f]{16}").
-define(HEX8, "-[0-9a-f]{8}").
-define(TRY, "@[0-9A-Z]+").

-define(KINDS, ["artefacts", "sources", "work", "logs"]).

%% @doc All that is in the cache, but for the locks. Errors: `cache_link' where one of its
%% directories is a symbolic link, and those of a directory that cannot be read.
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
    %% Last: what is said of a build is as new as can be.
    Held = held(Root),
    [entry(One, Held) || One <- Sized].

%% @doc Removes an entry. `in_use' means that a build has begun with it meanwhile, `not_ours'
%% that Whittle did not make it.
-spec remove(entry(), whittle_runtime:options()) -> ok | {error, left()}.
remove(#{kind := other}, _) -> {error, not_ours};
remove(#{in_use := true}, _) -> {error, in_use};
remove(#{path := Path, name := Name}, Options) ->
    {ok, Root} = whittle_cache_dir:root(Options),
    remove_locked(Root, lock_name(Name), Path).

%% @doc Removes what interrupted builds left in `work/'. Own is the name whose lock the caller
%% holds. What other builds are making stays, and so does what is not Whittle's.
-spec sweep(file:filename(), string()) -> ok.
sweep(Root, Own) ->
    lists:foreach(fun({work, Name, Path}) ->
                          case lock_name(Name) of
                              Own -> file:del_dir_r(Path);
                              Other -> remove_locked(Root, Other, Path)
                          end;
                     ({other, _, _}) -> ok
                  end, found(Root, "work")).

%% @doc Says that a build begins to write into a directory of `work/'.
-spec begun(file:filename()) -> ok.
begun(Work) -> persistent_term:put({?MODULE, Work}, work).

%% @doc Removes such a directory.
-spec done(file:filename()) -> ok.
done(Work) ->
    _ = file:del_dir_r(Work),
    _ = persistent_term:erase({?MODULE, Work}),
    ok.

%% @doc Removes all of them, and returns those that it could not remove, each with the reason.
%% Nobody may write there any more, and the VM must end afterwards: they stay in the list. To
%% take one out would wait for each process that has read the list, and the one that made it
%% is suspended.
-spec undo() -> [{file:filename(), file:posix() | badarg}].
undo() ->
    lists:append([undo(Work) || {{?MODULE, Work}, work} <- persistent_term:get()]).

%% Internal

undo(Work) ->
    case file:del_dir_r(Work) of
        ok -> [];
        {error, enoent} -> [];
        {error, Reason} -> [{Work, Reason}]
    end.

%% Nothing below a link: it may lead to anywhere.
found(Root, Sub) ->
    Dir = filename:join(Root, Sub),
    Names = case type(Dir) =:= directory andalso file:list_dir(Dir) of
                {ok, Listed} -> lists:sort(Listed);
                _ -> []
            end,
    [{case is_ours(Sub, Root, Name) of true -> kind(Sub, Name); false -> other end, Name,
      filename:join(Dir, Name)} || Name <- Names].

%% Whether a build made it. An artefact and a source hold their description; of a directory
%% in work/ and of a log the build has left the lock.
is_ours("artefacts", Root, Name) ->
    is_called(Name, ?HEX16) andalso is_described(Root, "artefacts", Name);
is_ours("sources", Root, Name) ->
    is_called(Name, ?HEX8) andalso is_described(Root, "sources", Name);
is_ours("work", Root, Name) ->
    %% What is removed lies there for a moment, and a log is a file.
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
    %% A build reads artefacts and sources of other names than its own.
    InUse = case Kind of
                other -> false;
                _ when Kind =:= work; Kind =:= log -> lists:member(lock_name(Name), Held);
                _ -> Held =/= []
            end,
    #{kind => Kind, name => Name, path => Path, in_use => InUse, bytes => Bytes,
      age => max(0, erlang:system_time(second) - made(Path))}.

%% `NAME-HEX@UNIQUE' in work/, `NAME-HEX.log' in logs/.
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

%% Links are not followed: a build may have made one to anywhere.
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

%% The names whose lock a build holds, `in-use' among them where one reads the cache.
held(Root) ->
    case whittle_lock:held(filename:join(Root, "locks")) of
        {ok, Names} -> Names;
        %% Nobody knows: nothing is safe to remove.
        {error, no_flock} -> ["?"]
    end.

remove_locked(Root, Name, Path) ->
    Unique = integer_to_list(erlang:unique_integer([positive]), 36)
        ++ integer_to_list(erlang:system_time(microsecond), 36),
    Aside = filename:join([Root, "work", Name ++ "@" ++ Unique]),
    Lock = filename:join([Root, "locks", Name]),
    _ = filelib:ensure_dir(Aside),
    _ = filelib:ensure_dir(Lock),
    case whittle_lock:take(Lock, #{wait => 0}) of
        {ok, Held} ->
            Moved = file:rename(Path, Aside),
            ok = whittle_lock:release(Held),
            case Moved of
                ok -> removed(Aside);
                {error, enoent} -> ok;          % another `whittle clean' was faster
                {error, _} = Error -> Error
            end;
        busy -> {error, in_use};
        {error, _} -> {error, eacces}
    end.

%% A log is a file.
removed(Aside) ->
    case file:del_dir_r(Aside) of
        {error, enotdir} -> file:delete(Aside);
        Result -> Result
    end.
