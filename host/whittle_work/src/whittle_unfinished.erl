%% @doc Tracks temporary directories, half-written outputs, and older outputs that were moved
%% aside.
%%
%% Code that creates such a file first registers a function that removes it. It drops the function
%% when the work is done. If a signal stops the command, {@link undo_all/0} undoes everything that
%% is left at once. All applications share one list.
-module(whittle_unfinished).

-export([begun/2, done/1, undo_all/0]).
-export([make_directory/1, remove_directory/1]).

%% @doc Registers how to undo a file that you are about to create. Call this function before you
%% create the file. The new function replaces an older function for the same path.
-spec begun(file:filename_all(), fun(() -> term())) -> ok.
begun(Place, Undo) ->
    %% This needs no other process, because the process that stops the command must see the list
    %% at any time.
    persistent_term:put({?MODULE, Place}, Undo).

%% @doc Drops the function that is registered for a path.
-spec done(file:filename_all()) -> ok.
done(Place) ->
    _ = persistent_term:erase({?MODULE, Place}),
    ok.

%% @doc Undoes everything that is registered. The processes that registered it must have stopped,
%% and no work may follow, because the entries stay in the list. Removing an entry could wait
%% forever for a process that was suspended while it changed the list. A function that fails does
%% not stop the others. The result lists the path and the reason of each failure.
-spec undo_all() -> [{file:filename_all(), term()}].
undo_all() ->
    lists:append([undo(Place, Undo) || {{?MODULE, Place}, Undo} <- persistent_term:get()]).

undo(Place, Undo) ->
    try Undo() of
        {error, Reason} when Reason =/= enoent -> [{Place, Reason}];
        _ -> []
    catch
        _:Reason -> [{Place, Reason}]
    end.

%% @doc Creates a temporary directory that only its user can read. The directory lies below the
%% one that the environment variable `TMPDIR' names, or below /tmp. Its path is absolute, and its
%% name begins with the given prefix. The error names the directory that the user cannot write to.
-spec make_directory(string()) ->
          {ok, file:filename()} | {error, {file:filename(), file:posix() | badarg}}.
make_directory(Begin) ->
    Base = filename:absname(os:getenv("TMPDIR", "/tmp")),
    Name = io_lib:format("~s-~s-~w-~w", [Begin, os:getpid(), erlang:system_time(),
                                         erlang:unique_integer([positive])]),
    Dir = filename:join(Base, lists:flatten(Name)),
    begun(Dir, fun() -> file:del_dir_r(Dir) end),
    case whittle_work:steps([fun(_) -> file:make_dir(Dir) end,
                              fun(_) -> file:change_mode(Dir, 8#700) end]) of
        ok ->
            {ok, Dir};
        {error, Reason} ->
            done(Dir),
            {error, {Base, Reason}}
    end.

%% @doc Removes a registered directory with all its contents, and drops its function.
-spec remove_directory(file:filename()) -> ok.
remove_directory(Dir) ->
    _ = file:del_dir_r(Dir),
    done(Dir).
