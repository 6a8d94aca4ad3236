%% @hidden Publishes the tree from names to cells, for readers that use no process.
%%
%% The tree is one persistent term, a `whittle_counters_tree:tree()'. The registry collects new
%% paths and adds them together. It does so at most every `publish_after' milliseconds, and uses
%% at most a twentieth of the time, because replacing a persistent term makes the VM scan every
%% process.
%%
%% The table of requested paths keeps a reader from requesting a path twice before its
%% publication.
-module(whittle_counters_publication).

%% Functions for the registry
-export([begin_with/1, later/3, drop/2, is_pending/1, publish/1]).
%% Functions for all processes
-export([ask/1, unask/1, forget/0]).
-export_type([publication/0]).

-define(TREE, whittle_counters).
-define(ASKED, whittle_counters_asked).

-record(publication, {
    pending = #{} :: #{whittle_counters_tree:path() => whittle_counters_cell:cell() | delete},
    timer = none :: none | reference(),
    pause = 0 :: non_neg_integer()      % cost of the last publication, in milliseconds
}).
-opaque publication() :: #publication{}.

%% @doc Replaces the tree by one of these paths. It removes the paths of the old tree.
-spec begin_with(#{whittle_counters_tree:path() => whittle_counters_cell:cell()}) -> publication().
begin_with(Paths) ->
    true = ets:delete_all_objects(?ASKED),
    _ = persistent_term:put(?TREE, #{}),
    publish(#publication{pending = Paths}).

%% @doc Collects a path. The calling process gets the message `publish' when it should call
%% publish/1.
-spec later(whittle_counters_tree:path(), whittle_counters_cell:cell(), publication()) ->
          publication().
later(Path, Cell, #publication{pending = Pending, timer = Timer, pause = Pause} = Publication) ->
    Later = Publication#publication{pending = Pending#{Path => Cell}},
    case Timer of
        none ->
            Wait = max(Pause, whittle_counters_option:env(publish_after)),
            Later#publication{timer = erlang:send_after(Wait, self(), publish)};
        _ -> Later
    end.

%% @doc Removes a path from the tree with the next publication.
-spec drop(whittle_counters_tree:path(), publication()) -> publication().
drop(Path, #publication{pending = Pending} = Publication) ->
    Publication#publication{pending = Pending#{Path => delete}}.

%% @doc Tells whether the tree lacks a change.
-spec is_pending(publication()) -> boolean().
is_pending(#publication{pending = Pending}) -> map_size(Pending) > 0.

%% @doc Puts the collected changes into the tree.
-spec publish(publication()) -> publication().
publish(#publication{pending = Pending, timer = Timer}) ->
    Start = erlang:monotonic_time(millisecond),
    Tree = maps:fold(fun(Path, delete, T) -> whittle_counters_tree:delete(Path, T);
                        (Path, Cell, T) -> whittle_counters_tree:put(Path, Cell, T)
                     end, persistent_term:get(?TREE, #{}), Pending),
    persistent_term:put(?TREE, Tree),
    true = ets:delete_all_objects(?ASKED),
    _ = Timer =/= none andalso erlang:cancel_timer(Timer),
    #publication{pause = 20 * (erlang:monotonic_time(millisecond) - Start)}.

%% @doc Notes that a process requests a path. The result is true for the first request since the
%% last publication.
-spec ask(whittle_counters_tree:path()) -> boolean().
ask(Path) ->
    whittle_counters_table:access(fun() -> ets:insert_new(?ASKED, {Path}) end, false).

%% @doc Allows the next request for the path.
-spec unask(whittle_counters_tree:path()) -> ok.
unask(Path) ->
    true = ets:delete(?ASKED, Path),
    ok.

%% @doc Erases the tree when the application stops.
-spec forget() -> ok.
forget() ->
    _ = persistent_term:erase(?TREE),
    ok.
