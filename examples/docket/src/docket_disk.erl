%% @doc Waits until the logs of Mnesia are on the disks of all nodes.
%%
%% Mnesia acknowledges a transaction when the logs of all nodes have it, but a log waits in memory
%% for up to two seconds. So processes that are killed would lose changes that they have
%% acknowledged. The log of one node is not enough: when all nodes were killed at once, any of them
%% may give its rows to the others. One flush serves all requests that wait when it begins
%% (whittle_flow_batcher), so a slow disk makes batches larger and not the wait longer.
%% @hidden
-module(docket_disk).
-behaviour(whittle_flow_batcher).

-export([child_spec/0, sync/0]).
-export([init/1, handle_batch/2]).

-define(FLUSH_MS, 5000).

%% @doc Gives the child specification of the process that flushes.
-spec child_spec() -> supervisor:child_spec().
child_spec() -> whittle_flow_batcher:child_spec(?MODULE, ?MODULE, [], #{name => ?MODULE}).

%% @doc Waits until all changes that this process has made are on the disks.
-spec sync() -> ok | {error, disk}.
sync() ->
    Monitor = monitor(process, ?MODULE),
    ok = whittle_flow_batcher:cast(?MODULE, {self(), Monitor}),
    receive
        {Monitor, Result} ->
            true = demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, _, _} -> {error, disk}
    end.

%% @private
-spec init([]) -> [].
init([]) -> [].

%% @private
-spec handle_batch([{pid(), reference()}, ...], []) -> [].
handle_batch(Waiting, State) ->
    Result = try flushed(mnesia:system_info(running_db_nodes))
             catch _:_ -> {error, disk}
             end,
    _ = [Pid ! {Monitor, Result} || {Pid, Monitor} <- Waiting],
    State.

%% A node that has ended meanwhile does not count: the others know that its rows are old.
flushed(Nodes) ->
    Results = erpc:multicall(Nodes, mnesia, sync_log, [], ?FLUSH_MS),
    Failed = [Node || {Node, Result} <- lists:zip(Nodes, Results), Result =/= {ok, ok}],
    Running = mnesia:system_info(running_db_nodes),
    case lists:member(node(), Nodes) andalso lists:member(node(), Running)
        andalso [Node || Node <- Failed, lists:member(Node, Running)] of
        [] -> ok;
        _ -> {error, disk}
    end.
