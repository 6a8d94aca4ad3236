%% @doc Waits until the logs of Mnesia are on the disks of all nodes.
%%
%% Mnesia acknowledges a transaction when the logs of all nodes have it, but a log waits in memory
%% for up to two seconds. So processes that are killed would lose changes that they have
%% acknowledged. The log of one node is not enough: when all nodes were killed at once, any of them
%% may give its rows to the others. So all members of the generation flush (docket_generation), and
%% a member that has ended leaves the generation first. One flush serves all requests that wait when
%% it begins (whittle_flow_batcher), so a slow disk makes batches larger and not the wait longer.
%% @hidden
-module(docket_disk).
-behaviour(whittle_flow_batcher).

-export([child_spec/0, sync/0]).
-export([init/1, handle_batch/2]).

-define(FLUSH_MS, 5000).
-define(PAUSE_MS, 20).

%% @doc Gives the child specification of the process that flushes.
-spec child_spec() -> supervisor:child_spec().
child_spec() -> whittle_flow_batcher:child_spec(?MODULE, ?MODULE, [], #{name => ?MODULE}).

%% @doc Waits until all changes that this process has made are on the disks.
-spec sync() -> ok | {error, disk | unknown}.
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
    Result = flushed(erlang:monotonic_time(millisecond) + docket_config:get(deadline)),
    _ = [Pid ! {Monitor, Result} || {Pid, Monitor} <- Waiting],
    State.

%% A member that has ended leaves the generation, and the others flush again.
flushed(Until) ->
    case docket_generation:agree() of
        ok ->
            {_, Members} = Generation = docket_generation:current(),
            Results = docket_cluster:multicall(Members, docket_mnesia_replica, flushed,
                                               [Generation], ?FLUSH_MS),
            case lists:usort(Results) of
                [{ok, true}] -> ok;
                %% A node that is alone keeps the change in memory. Others go on without the node.
                _ when Members =:= [node()] -> {error, disk};
                _ -> flushed_again(Until)
            end;
        {error, _} -> {error, unknown}
    end.

flushed_again(Until) ->
    case erlang:monotonic_time(millisecond) > Until of
        true -> {error, unknown};
        false ->
            _ = docket_generation:renew(),
            receive after ?PAUSE_MS -> ok end,
            flushed(Until)
    end.
