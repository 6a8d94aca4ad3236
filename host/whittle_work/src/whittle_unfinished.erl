%% @doc What is there only for as long as something is done: temporary directories,
%% outputs that are half written, older outputs that were moved aside.
%%
%% Whoever makes such a thing says first how it is undone, and takes that back when
%% it is done. When the command is told to stop in the middle, all that is left is
%% undone at once ({@link undo_all/0}): there is one list, for every room.
-module(whittle_unfinished).

-export([begun/2, done/1, undo_all/0]).
-export([make_directory/1, remove_directory/1]).

%% @doc Says how something that is about to be made is undone; what was said of the
%% same place before no longer holds. To be called before it is made.
-spec begun(file:filename_all(), fun(() -> term())) -> ok.
begun(Place, Undo) ->
    %% No process is asked: the one that stops everything has to see it at any time.
    persistent_term:put({?MODULE, Place}, Undo).

%% @doc There is nothing to be undone any more.
-spec done(file:filename_all()) -> ok.
done(Place) ->
    _ = persistent_term:erase({?MODULE, Place}),
    ok.

%% @doc Undoes everything that is begun and not done. Those that made it must not
%% be running any more, and nothing goes on afterwards: what was undone stays in the list. To
%% take it from there could wait for ever, for a process that was suspended while it changed
%% the list. One that fails does not keep the others from being undone; the
%% places of those that failed come back, each with the reason.
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

%% @doc Makes a directory for a while, below the one that the environment's `TMPDIR' names,
%% else /tmp, for its user alone. Its name begins with the given word and is absolute. An
%% error has the directory that cannot be written.
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

%% @doc Removes such a directory with all that is in it.
-spec remove_directory(file:filename()) -> ok.
remove_directory(Dir) ->
    _ = file:del_dir_r(Dir),
    done(Dir).
