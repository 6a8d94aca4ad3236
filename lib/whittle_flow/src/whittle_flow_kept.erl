%% @hidden Keeps the nodes that a group is connected with across a crash of the group.
-module(whittle_flow_kept).

-export([create/0, connected/2, connections/1, forget/1, forget/2]).

-define(TABLE, whittle_flow_kept).

%% @doc Makes the table. The calling process owns it.
-spec create() -> ok.
create() ->
    _ = ets:new(?TABLE, [named_table, public, bag]),
    ok.

%% @doc Notes that the group is connected with the group of Node.
-spec connected(atom(), node()) -> ok.
connected(Group, Node) -> access(fun() -> ets:insert(?TABLE, {Group, Node}) end).

%% @doc Gives the nodes that the group was connected with.
-spec connections(atom()) -> [node()].
connections(Group) -> [Node || {_, Node} <- ets:lookup(?TABLE, Group)].

%% @doc Forgets a group that ended.
-spec forget(atom()) -> ok.
forget(Group) -> access(fun() -> ets:delete(?TABLE, Group) end).

%% @doc Notes that the group is no longer connected with the group of Node.
-spec forget(atom(), node()) -> ok.
forget(Group, Node) -> access(fun() -> ets:delete_object(?TABLE, {Group, Node}) end).

%% The application may have stopped.
access(Fun) ->
    try Fun() of
        true -> ok
    catch
        error:badarg -> ok
    end.
