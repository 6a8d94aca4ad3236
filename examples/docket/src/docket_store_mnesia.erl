%% @doc Keeps the rows in Mnesia.
%%
%% The setting `mode' chooses the activity of an operation that writes or reads by key. A scan reads
%% the local replica without locks, because a lock on the whole table would stop all writers.
%%
%% Mnesia may run a transaction several times. The process dictionary holds the reads and writes of
%% the present run (`#run{}').
%% @hidden
-module(docket_store_mnesia).
-behaviour(docket_store).

-export([check/0, children/1, start_link/0, ready/0, run/2, format_error/1]).
-export([read/3, write/2, delete/2, before/2]).

-define(CONFIRM_MS, 2000).
-define(PAUSE_MS, 20).

-record(run, {rows = [] :: [docket_mnesia_replica:row()],       % that all members must have
              written = [] :: [{docket_store:table(), Key :: term()}],
              seen = [] :: [docket_mnesia_unsettled:note()],    % about the rows that it has read
              made = [] :: [docket_mnesia_unsettled:note()]}).  % about its own change

%% @doc Checks the directory.
-spec check() -> ok | {error, docket_mnesia_schema:error()}.
check() -> docket_mnesia_schema:directory().

%% @doc Returns the child specifications: of the generation, the notes, the given process, and the
%% process that flushes.
-spec children(supervisor:child_spec()) -> [supervisor:child_spec()].
children(Store) ->
    [#{id => generation, start => {docket_generation, start_link, []}},
     #{id => unsettled, start => {docket_mnesia_unsettled, start_link, []}}, Store,
     docket_disk:child_spec()].

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
    case {docket_mnesia_replica:is_complete(), Kind} of
        {true, write} -> changed(Fun, docket_deadline:new());
        {true, _} ->
            case stored(Kind, Fun, docket_deadline:new()) of
                %% A member has not made the change yet that this would show.
                {error, other_copies} -> {error, not_ready};
                Result -> Result
            end;
        {false, _} -> {error, not_ready}
    end.

%% A node that has just ended is still among the members for a moment.
changed(Fun, Deadline) ->
    Result = case docket_generation:agree(Deadline) of
                 ok -> stored(write, Fun, Deadline);
                 {error, _} = Error -> Error
             end,
    Left = docket_deadline:left(Deadline),
    case Result of
        {error, other_copies} when Left > 0 ->
            _ = docket_generation:renew(Deadline),
            pause(),
            changed(Fun, Deadline);
        {error, other_copies} -> {error, minority};
        _ -> Result
    end.

pause() -> receive after ?PAUSE_MS -> ok end.

%% A reader waits for the disks like a writer, if they may lack what it has read.
stored(Kind, Fun, Deadline) ->
    {Result, #run{seen = Seen} = Run} = activity(Kind, Fun, Deadline),
    case {is_flushed(Kind, Result), Seen} of
        {false, []} -> Result;
        {IsChange, _} ->
            case docket_disk:sync(Deadline) of
                ok ->
                    ok = settle(Kind, Run),
                    Result;
                {error, _} = Error when IsChange -> Error;
                {error, _} -> {error, not_ready}
            end
    end.

is_flushed(write, {ok, _}) ->
    docket_config:get(dir) =/= none
        andalso lists:member(docket_config:get(mode), [sync_transaction, sync_dirty]);
is_flushed(_, _) -> false.

%% A scan takes no locks, so a note that it has seen may be about a change that is not made yet.
settle(scan, _) -> ok;
settle(_, #run{seen = Seen, made = []}) -> docket_mnesia_unsettled:settle(Seen);
settle(_, #run{seen = Seen, made = Made}) ->
    {_, Members} = docket_generation:current(),
    ok = docket_cluster:cast(Members -- [node()], docket_mnesia_unsettled, settle, [Made]),
    docket_mnesia_unsettled:settle(Made ++ Seen).

activity(Kind, Fun, Deadline) ->
    Mode = mode(Kind),
    case docket_worker:run(fun() -> attempt(Kind, Mode, Fun) end, docket_deadline:left(Deadline),
                           mnesia_tm) of
        {done, Result} -> Result;
        {failed, Reason} -> exit(Reason);
        {stopped, Reason} when Kind =:= write, Reason =/= noproc -> {{error, unknown}, #run{}};
        {stopped, _} -> {{error, not_ready}, #run{}}
    end.

attempt(Kind, Mode, Fun) ->
    IsChecked = Kind =:= write andalso lists:member(Mode, [transaction, sync_transaction]),
    Attempt = fun() ->
                  _ = put(?MODULE, #run{}),
                  Result = Fun(),
                  case {Result, get(?MODULE)} of
                      {{ok, _}, Run} when IsChecked -> confirmed(Result, Run#run.written, Run);
                      {_, #run{seen = [_ | _]} = Run} when Kind =/= scan ->
                          confirmed(Result, [], Run);
                      _ -> Result
                  end
          end,
    try {mnesia:activity(Mode, Attempt, [], access(Kind)), get(?MODULE)}
    catch
        exit:{aborted, {no_majority, _}} -> {{error, minority}, #run{}};
        exit:{aborted, other_copies} -> {{error, other_copies}, #run{}};
        %% Another node has ended within the transaction.
        exit:{aborted, {node_not_running, Node}} when Kind =:= write, Node =/= node() ->
            {{error, other_copies}, #run{}};
        exit:{aborted, Reason}:Stack ->
            case is_absent(Reason) of
                true -> {{error, not_ready}, #run{}};
                false -> erlang:raise(exit, {aborted, Reason}, Stack)
            end
    end.

%% After a partition that only some nodes have noticed, one node's rows may be old. So all members
%% confirm, while the rows are locked, that they have the same rows and the same generation. Before
%% a flush that a reader waits for, they confirm that they have made the change.
confirmed(Result, Written, #run{rows = Rows} = Run) ->
    {_, Members} = Generation = docket_generation:current(),
    Change = make_ref(),
    Made = [{Key, Change} || docket_mnesia_unsettled:is_needed(), Key <- Written],
    case lists:usort(docket_cluster:multicall(Members, docket_mnesia_replica, confirm,
                                              [Generation, Rows, Made], ?CONFIRM_MS)) of
        [{ok, true}] ->
            _ = put(?MODULE, Run#run{made = Made}),
            Result;
        _ -> mnesia:abort(other_copies)
    end.

%% The reasons of Mnesia for a table that is not loaded, or a database that does not run
is_absent(Reason) when is_tuple(Reason) ->
    lists:member(element(1, Reason), [no_exists, node_not_running])
        orelse is_absent(element(1, Reason));
is_absent(_) -> false.

%% A scan reads no documents.
access(scan) -> mnesia;
access(_) -> mnesia_frag.

mode(scan) -> async_dirty;
mode(_) -> docket_config:get(mode).

%% @doc Reads the row with a key.
-spec read(docket_store:table(), term(), read | write) -> [docket_store:row()].
read(Table, Key, Lock) ->
    Found = mnesia:read(Table, Key, Lock),
    #run{rows = Rows, seen = Seen} = Run = get(?MODULE),
    Notes = case docket_mnesia_unsettled:is_needed() of
                true -> docket_mnesia_unsettled:notes(Table, Key);
                false -> []
            end,
    %% The table still has the rows from before this transaction.
    Own = [{Table, Key, docket_mnesia_replica:fingerprint(Table, Key)}
           || Lock =:= write orelse Notes =/= []],
    _ = put(?MODULE, Run#run{rows = Own ++ Rows, seen = Notes ++ Seen}),
    [docket_cases:upgraded(Row) || Row <- Found].

%% @doc Writes a row.
-spec write(docket_store:table(), docket_store:row()) -> ok.
write(Table, Row) ->
    Key = element(2, Row),
    ok = written(Table, Key),
    mnesia:write(Table, fitted(Table, Key, Row), write).

%% The rows of a table without fragments have versions, and the table may get a later one until this
%% has the lock.
fitted(Table, Key, Row) ->
    case docket_mnesia_tables:is_fragmented(Table) of
        true -> Row;
        false ->
            _ = mnesia:lock({record, Table, Key}, write),
            docket_cases:fitted(Row, mnesia:table_info(Table, arity))
    end.

%% @doc Deletes the row with a key.
-spec delete(docket_store:table(), term()) -> ok.
delete(Table, Key) ->
    ok = written(Table, Key),
    mnesia:delete(Table, Key, write).

written(Table, Key) ->
    #run{written = Written} = Run = get(?MODULE),
    _ = put(?MODULE, Run#run{written = [{Table, Key} | Written]}),
    ok.

%% @doc Finds the greatest key before a key.
-spec before(docket_store:table(), term()) -> term() | '$end_of_table'.
before(Table, Key) -> mnesia:prev(Table, Key).

%% @doc Formats the reason why the store did not start.
-spec format_error(docket_mnesia_schema:error()) -> unicode:chardata().
format_error(Reason) -> docket_mnesia_schema:format_error(Reason).
