%% @doc What is there only for as long as something is done: temporary directories,
%% outputs that are half written, older outputs that were moved aside.
%%
%% Whoever makes such a thing says first how it is undone, and takes that back when
%% it is done. When the command is told to stop in the middle, all that is left is
%% undone at once ({@link undo_all/0}): there is one list, for every room.
-module(whittle_unfinished).

-export([begun/2, done/1, undo_all/0]).

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
%% be running any more.
-spec undo_all() -> ok.
undo_all() ->
    lists:foreach(fun({{?MODULE, Place}, Undo}) ->
                          _ = Undo(),
                          done(Place);
                     (_) -> ok
                  end, persistent_term:get()).
