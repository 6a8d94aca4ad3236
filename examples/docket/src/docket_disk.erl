%% @doc Waits until Mnesia's log is on the disk.
%%
%% Mnesia acknowledges a transaction when its log has it, but the log waits in memory for up to two
%% seconds. So a process that is killed would lose changes that it has acknowledged. One flush
%% serves all requests that wait when it begins (whittle_flow_batcher), so a slow disk makes batches
%% larger and not the wait longer.
%% @hidden
-module(docket_disk).
-behaviour(whittle_flow_batcher).

-export([child_spec/0, sync/0]).
-export([init/1, handle_batch/2]).

%% @doc Gives the child specification of the process that flushes.
-spec child_spec() -> supervisor:child_spec().
child_spec() -> whittle_flow_batcher:child_spec(?MODULE, ?MODULE, [], #{name => ?MODULE}).

%% @doc Waits until all changes that this process has made are on the disk.
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
    Result = try mnesia:sync_log() of
                 ok -> ok;
                 {error, _} -> {error, disk}
             catch exit:_ -> {error, disk}
             end,
    _ = [Pid ! {Monitor, Result} || {Pid, Monitor} <- Waiting],
    State.
