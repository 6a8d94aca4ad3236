%% @doc Keeps the rows in Mnesia.
%%
%% The setting `mode' chooses the activity of an operation that writes or reads by key. A scan reads
%% the local replica without locks, because a lock on the whole table would stop all writers.
%% @hidden
-module(docket_store_mnesia).
-behaviour(docket_store).

-export([check/0, start_link/0, ready/0, run/2, format_error/1]).
-export([read/3, write/2, delete/2, before/2]).

-define(CONFIRM_MS, 2000).
-define(PAUSE_MS, 20).

%% @doc Checks the directory.
-spec check() -> ok | {error, docket_mnesia_schema:error()}.
check() -> docket_mnesia_schema:directory().

%% @doc Starts the process that starts Mnesia.
-spec start_link() -> gen_server:start_ret().
start_link() -> docket_mnesia_member:start_link().

%% @doc Tells whether all tables are loaded, and most nodes have copies.
-spec ready() -> boolean().
ready() -> docket_mnesia_replica:is_ready().

%% @doc Runs an operation as one activity of Mnesia. In a synchronous mode, a change is on the disk
%% when this returns, if there is a directory.
-spec run(write | read | scan, docket_cases:operation()) ->
          {ok, term()} | {error, docket_cases:refusal() | docket_store:refusal()}.
run(Kind, Operation) ->
    Fun = fun() -> docket_cases:work(?MODULE, Operation) end,
    %% While a table loads, a scan would see a part of it.
    case {docket_mnesia_schema:is_loaded(), Kind} of
        {true, write} -> changed(Fun, now_ms() + docket_config:get(deadline));
        {true, _} -> stored(Kind, Fun);
        {false, _} -> {error, not_ready}
    end.

%% A node that has just ended is still among the members for a moment.
changed(Fun, Until) ->
    Result = case docket_generation:agree() of
                 ok -> stored(write, Fun);
                 {error, _} = Error -> Error
             end,
    IsLate = now_ms() > Until,
    case Result of
        {error, other_copies} when not IsLate ->
            _ = docket_generation:renew(),
            pause(),
            changed(Fun, Until);
        {error, other_copies} -> {error, minority};
        _ -> Result
    end.

now_ms() -> erlang:monotonic_time(millisecond).

pause() -> receive after ?PAUSE_MS -> ok end.

stored(Kind, Fun) ->
    case {Kind, activity(Kind, Fun), docket_config:get(mode), docket_config:get(dir)} of
        {write, {ok, _} = Done, Mode, [_ | _]}
          when Mode =:= sync_transaction; Mode =:= sync_dirty ->
            case docket_disk:sync() of
                ok -> Done;
                {error, _} = Error -> Error
            end;
        {_, Result, _, _} -> Result
    end.

%% The activity runs in a process of its own, because it could wait forever: for a lock of a node
%% that is cut off, or for a database that restarts after a partition.
activity(Kind, Fun) ->
    Database = monitor(process, mnesia_tm),
    Mode = mode(Kind),
    {Worker, Ended} = spawn_monitor(fun() -> exit({done, attempt(Kind, Mode, Fun)}) end),
    Result = receive
                 {'DOWN', Ended, process, Worker, {done, Done}} -> Done;
                 {'DOWN', Ended, process, Worker, Reason} -> exit(Reason);
                 {'DOWN', Database, process, _, noproc} -> given_up(Worker, Ended, read);
                 {'DOWN', Database, process, _, _} -> given_up(Worker, Ended, Kind)
             after docket_config:get(deadline) -> given_up(Worker, Ended, Kind)
             end,
    true = demonitor(Database, [flush]),
    Result.

given_up(Worker, Ended, Kind) ->
    true = exit(Worker, kill),
    receive
        {'DOWN', Ended, process, Worker, {done, Done}} -> Done;
        {'DOWN', Ended, process, Worker, _} when Kind =:= write -> {error, unknown};
        {'DOWN', Ended, process, Worker, _} -> {error, not_ready}
    end.

attempt(Kind, Mode, Fun) ->
    Checked = case Kind =:= write andalso lists:member(Mode, [transaction, sync_transaction]) of
                  true -> fun() -> confirmed(Fun) end;
                  false -> Fun
              end,
    try mnesia:activity(Mode, Checked)
    catch
        exit:{aborted, {no_majority, _}} -> {error, minority};
        exit:{aborted, other_copies} -> {error, other_copies};
        %% Another node has ended within the transaction.
        exit:{aborted, {node_not_running, Node}} when Kind =:= write, Node =/= node() ->
            {error, other_copies};
        exit:{aborted, Reason}:Stack ->
            case is_absent(Reason) of
                true -> {error, not_ready};
                false -> erlang:raise(exit, {aborted, Reason}, Stack)
            end
    end.

%% After a partition that only some nodes have noticed, one node's rows may be old. So all members
%% confirm, while the rows are locked, that they have the same rows and the same generation.
confirmed(Fun) ->
    _ = erase(?MODULE),
    case Fun() of
        {ok, _} = Done ->
            {_, Members} = Generation = docket_generation:current(),
            Rows = case get(?MODULE) of undefined -> []; Locked -> Locked end,
            case lists:usort(erpc:multicall(Members, docket_mnesia_replica, confirm,
                                            [Generation, Rows], ?CONFIRM_MS)) of
                [{ok, true}] -> Done;
                _ -> mnesia:abort(other_copies)
            end;
        {error, _} = Error -> Error
    end.

%% The reasons of Mnesia for a table that is not loaded, or a database that does not run
is_absent(Reason) when is_tuple(Reason) ->
    lists:member(element(1, Reason), [no_exists, node_not_running])
        orelse is_absent(element(1, Reason));
is_absent(_) -> false.

mode(scan) -> async_dirty;
mode(_) -> docket_config:get(mode).

%% @doc Reads the row with a key.
-spec read(docket_store:table(), term(), read | write) -> [docket_store:row()].
read(Table, Key, read) -> mnesia:read(Table, Key, read);
read(Table, Key, write) ->
    Rows = mnesia:read(Table, Key, write),
    %% The table still has the rows from before this transaction.
    _ = put(?MODULE, [{Table, Key, docket_mnesia_replica:fingerprint(Table, Key)}
                      | case get(?MODULE) of undefined -> []; Others -> Others end]),
    Rows.

%% @doc Writes a row.
-spec write(docket_store:table(), docket_store:row()) -> ok.
write(Table, Row) -> mnesia:write(Table, Row, write).

%% @doc Deletes the row with a key.
-spec delete(docket_store:table(), term()) -> ok.
delete(Table, Key) -> mnesia:delete(Table, Key, write).

%% @doc Finds the greatest key before a key.
-spec before(docket_store:table(), term()) -> term() | '$end_of_table'.
before(Table, Key) -> mnesia:prev(Table, Key).

%% @doc Formats the reason why the store did not start.
-spec format_error(docket_mnesia_schema:error()) -> unicode:chardata().
format_error(Reason) -> docket_mnesia_schema:format_error(Reason).
