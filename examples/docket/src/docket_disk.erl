%% @doc Waits until the logs of Mnesia are on the disks of all nodes.
%%
%% Mnesia acknowledges a transaction when the logs of all nodes have it, but a log waits in memory
%% for up to two seconds. So processes that are killed would lose changes that they have
%% acknowledged. The log of one node is not enough: when all nodes were killed at once, any of them
%% may give its rows to the others. So all members of the generation flush (docket_generation), and
%% a member that has ended leaves the generation first. One flush serves all requests that wait when
%% it begins (whittle_flow_batcher), so a slow disk makes batches larger and not the wait longer.
%% Each request waits no longer than until its own deadline, whatever happens to the batch.
%% @hidden
-module(docket_disk).
-behaviour(whittle_flow_batcher).

-export([child_spec/0, sync/1]).
-export([init/1, handle_batch/2]).

-define(FLUSH_MS, 5000).
-define(PAUSE_MS, 20).

%% @doc Gives the child specification of the process that flushes.
-spec child_spec() -> supervisor:child_spec().
child_spec() -> whittle_flow_batcher:child_spec(?MODULE, ?MODULE, [], #{name => ?MODULE}).

%% @doc Waits until all changes that this process has made are on the disks. `unknown': the deadline
%% has come, or the flush has failed by itself.
-spec sync(docket_deadline:deadline()) -> ok | {error, disk | unknown}.
sync(Until) ->
    %% A reply that comes too late goes nowhere.
    Monitor = monitor(process, ?MODULE, [{alias, reply_demonitor}]),
    ok = whittle_flow_batcher:cast(?MODULE, {Monitor, Until}),
    receive
        {Monitor, Result} -> Result;
        {'DOWN', Monitor, process, _, _} -> {error, disk}
    after docket_deadline:left(Until) ->
            true = demonitor(Monitor, [flush]),
            receive {Monitor, Result} -> Result
            after 0 -> {error, unknown}
            end
    end.

%% @private
-spec init([]) -> [].
init([]) -> [].

%% @private The batch ends with its last request. Each request ends at its own time (sync/1). The
%% processes that this asks may end meanwhile: then nobody knows whether the changes are on the
%% disks.
-spec handle_batch([{reference(), docket_deadline:deadline()}, ...], []) -> [].
handle_batch(Waiting, State) ->
    Result = try flushed(lists:max([Until || {_, Until} <- Waiting]))
             catch _:_ -> {error, unknown}
             end,
    _ = [Monitor ! {Monitor, Result} || {Monitor, _} <- Waiting],
    State.

%% A member that has ended leaves the generation, and the others flush again.
flushed(Until) ->
    case docket_generation:agree(Until) of
        ok ->
            {_, Members} = Generation = docket_generation:current(),
            Results = docket_cluster:multicall(Members, docket_mnesia_replica, flushed,
                                               [Generation],
                                               min(?FLUSH_MS, docket_deadline:left(Until))),
            case lists:usort(Results) of
                [{ok, true}] -> ok;
                [{error, {erpc, timeout}}] when Members =:= [node()] -> {error, unknown};
                %% A node that is alone keeps the change in memory. Others go on without the node.
                _ when Members =:= [node()] -> {error, disk};
                _ -> flushed_again(Until)
            end;
        {error, _} -> {error, unknown}
    end.

flushed_again(Until) ->
    case docket_deadline:left(Until) of
        0 -> {error, unknown};
        _ ->
            _ = docket_generation:renew(Until),
            receive after ?PAUSE_MS -> ok end,
            flushed(Until)
    end.
