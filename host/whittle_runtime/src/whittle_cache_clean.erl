%% @doc Lists and removes what the cache holds. Nothing goes while it is being built, and a
%% directory of the cache stays whole until it is gone: it is renamed into `work/' first, under
%% the lock of its name.
-module(whittle_cache_clean).

-include_lib("kernel/include/file.hrl").

-export([entries/1, remove/2, sweep/2]).
-export([begun/1, done/1, undo/0]).
-export_type([kind/0, entry/0]).

%% A part is a library or another piece that VMs are linked from; work is what an interrupted
%% build left, or one that goes on has made so far.
-type kind() :: vm | part | otp | source | work | log.

-type entry() :: #{kind := kind(),
                   name := string(),
                   path := file:filename(),
                   bytes := non_neg_integer(),
                   age := non_neg_integer(),       % seconds since it was made
                   in_use := boolean()}.           % by a build that goes on

%% What flock(1) ends with when another holds the lock; none of its own codes.
-define(BUSY, 99).

%% @doc All that is in the cache, but for the locks.
-spec entries(whittle_runtime:options()) -> {ok, [entry()]} | whittle_runtime:error().
entries(Options) ->
    case whittle_cache:root(Options) of
        {ok, Root} -> entries_in(Root, file:list_dir(Root));
        Error -> Error
    end.

entries_in(Root, {ok, _}) ->
    Sized = [{Kind, Name, Path, bytes(Path)} || Sub <- ["artefacts", "sources", "work", "logs"],
                                                {Kind, Name, Path} <- found(Root, Sub)],
    %% Last: what is said of a build is as new as can be.
    Held = held(Root),
    {ok, [entry(One, Held) || One <- Sized]};
entries_in(_, {error, enoent}) -> {ok, []};
entries_in(Root, {error, Reason}) -> {error, whittle_cache:unwritten(Reason, Root)}.

%% @doc Removes an entry. `in_use' means that a build has begun with it meanwhile.
-spec remove(entry(), whittle_runtime:options()) -> ok | {error, in_use | file:posix()}.
remove(#{in_use := true}, _) -> {error, in_use};
remove(#{path := Path, name := Name}, Options) ->
    {ok, Root} = whittle_cache:root(Options),
    remove_locked(Root, lock_name(Name), Path).

%% @doc Removes what interrupted builds left in `work/'. Own is the name whose lock the caller
%% holds. What other builds are making stays.
-spec sweep(file:filename(), string()) -> ok.
sweep(Root, Own) ->
    lists:foreach(fun({work, Name, Path}) ->
                          case lock_name(Name) of
                              Own -> file:del_dir_r(Path);
                              Other -> remove_locked(Root, Other, Path)
                          end
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

%% @doc Removes all of them. Nobody may write there any more.
-spec undo() -> ok.
undo() ->
    lists:foreach(fun({{?MODULE, Work}, work}) -> done(Work);
                     (_) -> ok
                  end, persistent_term:get()).

%% Internal

found(Root, Sub) ->
    Dir = filename:join(Root, Sub),
    Names = case file:list_dir(Dir) of
                {ok, Listed} -> lists:sort(Listed);
                {error, _} -> []
            end,
    [{kind(Sub, Name), Name, filename:join(Dir, Name)} || Name <- Names].

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

%% The names whose lock a build holds.
held(Root) ->
    Script = "cd \"$1\" 2>/dev/null || exit 0; for lock in *; do [ -f \"$lock\" ] || continue; "
        "flock -n -E " ++ integer_to_list(?BUSY) ++ " \"$lock\" true 2>/dev/null; "
        "[ $? != " ++ integer_to_list(?BUSY) ++ " ] || echo \"$lock\"; done; exit 0",
    case whittle_exec:capture("sh", ["-c", Script, "sh", filename:join(Root, "locks")]) of
        {ok, Names} -> string:lexemes(Names, "\n");
        %% Nobody knows: nothing is safe to remove.
        {error, _} -> ["?"]
    end.

remove_locked(Root, Lock, Path) ->
    Unique = integer_to_list(erlang:unique_integer([positive]), 36)
        ++ integer_to_list(erlang:system_time(microsecond), 36),
    Aside = filename:join([Root, "work", Lock ++ "@" ++ Unique]),
    _ = filelib:ensure_dir(Aside),
    _ = filelib:ensure_dir(filename:join([Root, "locks", Lock])),
    case whittle_exec:capture("flock", ["-n", "-E", integer_to_list(?BUSY),
                                        filename:join([Root, "locks", Lock]),
                                        "mv", "-T", "--", Path, Aside]) of
        {ok, _} -> removed(Aside);
        {error, {status, ?BUSY, _}} -> {error, in_use};
        {error, _} -> {error, eacces}
    end.

removed(Aside) ->
    case filelib:is_dir(Aside) of
        true -> file:del_dir_r(Aside);
        false -> file:delete(Aside)
    end.
