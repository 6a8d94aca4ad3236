%% @doc Keeps Mnesia from undoing changes that it has made.
%%
%% Mnesia's log has an entry for each change, and a second entry, the decision: whether the change
%% was made or aborted. A dump, or a start, puts the changes into the files of the tables, but for
%% those that were aborted. A node has the changes in memory too, so it misses one that a dump left
%% out only after its next start. In OTP 27 to 29, this may happen to a change that was made:
%%
%% - Mnesia stops on a node, while a change waits for the word of the node that makes it
%%   (`mnesia_tm:commit_participant/7'). The node tells the others that the change is aborted, and
%%   they log that (`mnesia_recover:merge_decisions/3'). So mnesia_recover, which tells them, is
%%   suspended first here. Then the change stays open on this node, as after a crash.
%% - A node starts with a change in its log whose end it does not know, and the nodes that it asks
%%   do not know it either, or do not answer in time. Then it tells the others that the change is
%%   aborted. So the others dump their logs first.
%% - A dump finds a change for which not all nodes have voted. It waits for 0.1 s, and leaves the
%%   change out (`mnesia_recover:wait_for_decision/2'). So the log that is dumped here has no change
%%   that has not ended: changes are held up while the log moves away, and also while a node starts
%%   or a table gets a copy, because then Mnesia dumps the logs of all nodes by itself.
%% @hidden
-module(docket_mnesia_decisions).

-export([init/0, stop/0, kill/0, silence/1, await_logged/0, sync_log/0, sync_new_log/0]).
-export([dump/0, dump_if_due/0, before_start/1, starts/2, change_table/2, hold/1]).

-include_lib("kernel/include/file.hrl").

%% Each change writes a row of this table.
-define(TABLE, docket_case).
-define(SILENCE_MS, 1000).
%% Mnesia dumps its log by itself after so many changes or milliseconds: never.
-define(NEVER, 1 bsl 40).
-define(DUE_WRITES, 1000).
-define(DUE_MS, 180_000).
-define(POLL_MS, 2).
-define(DUMP_MS, 4000).
-define(HOLD_MS, 2000).
-define(MERGE_MS, 1500).
-define(CALL_MS, 5000).
-define(STOP_MS, 30_000).

%% @doc Sets Mnesia's settings, and prepares for the end of the whole node, when OTP stops Mnesia
%% before docket.
-spec init() -> ok.
init() ->
    [ok = application:set_env(mnesia, Key, ?NEVER)
     || Key <- [dump_log_write_threshold, dump_log_time_threshold]],
    application:set_env(kernel, shutdown_func, {?MODULE, silence}).

%% @doc Stops Mnesia, and kills it if it does not stop. While the whole node stops, OTP does so, and
%% answers no request for it.
-spec stop() -> ok.
stop() ->
    ok = silence(stop),
    case is_stopping() of
        true -> ok;
        false ->
            case docket_worker:run(fun mnesia:stop/0, ?STOP_MS) of
                {done, stopped} -> until(fun are_logs_closed/0, infinity);
                _ -> kill()
            end
    end.

%% @doc Kills Mnesia, which does not end its start. First mnesia_recover ends, which could tell
%% other nodes that changes were aborted. All processes of an application have the same group
%% leader, the application master. It must report their end.
%%
%% OTP may start Mnesia only now, because of a request of a process that has been killed. And each
%% process may start another one until it has ended. So this repeats until nothing is left.
-spec kill() -> ok.
kill() ->
    _ = [killed(Process) || Process <- named([mnesia_recover])],
    Masters = [group_leader_of(Process) || Process <- named([mnesia_sup])],
    _ = [killed(Process) || Master <- Masters, Process <- processes() -- [Master],
                            group_leader_of(Process) =:= Master],
    _ = [killed(Process) || Process <- named(mnesia:ms())],
    %% OTP keeps a started application in its list until somebody stops it.
    _ = docket_worker:run(fun() -> application:stop(mnesia) end, ?CALL_MS),
    case not is_stopping() andalso is_started() of
        true ->
            receive after ?POLL_MS -> ok end,
            kill();
        false -> ok
    end.

%% While the whole node stops, OTP answers no request for an application.
is_stopping() -> element(1, init:get_status()) =:= stopping.

named(Names) -> [Process || Name <- Names, Process <- [whereis(Name)], is_pid(Process)].

%% Also true while OTP starts or stops Mnesia. The names of its processes are those of modules.
is_started() ->
    Info = application:info(),
    lists:any(fun(Key) -> lists:keymember(mnesia, 1, proplists:get_value(Key, Info, [])) end,
              [starting, started, running])
        orelse named(mnesia:ms()) =/= [] orelse not are_logs_closed().

%% Each log has a process of disk_log, which closes it a moment after the end of Mnesia. Other
%% programs may have logs in the same directory.
are_logs_closed() ->
    case docket_config:get(dir) of
        none -> true;
        Dir ->
            not lists:any(fun(Log) -> is_in(filename:absname(Dir), disk_log:info(Log)) end,
                          disk_log:all())
    end.

is_in(_, {error, no_such_log}) -> false;
is_in(Dir, Info) ->
    File = proplists:get_value(file, Info),
    filename:dirname(File) =:= Dir andalso docket_mnesia_files:is_log(filename:basename(File)).

%% Undefined for a process that has ended
group_leader_of(Process) ->
    case process_info(Process, group_leader) of
        {group_leader, Leader} -> Leader;
        undefined -> undefined
    end.

killed(Process) ->
    Monitor = monitor(process, Process),
    true = exit(Process, kill),
    receive {'DOWN', Monitor, process, Process, _} -> ok end.

%% @doc Keeps Mnesia, which ends next, from telling other nodes that changes were aborted. After a
%% timeout the request is still in the queue of mnesia_recover, before anything that it could tell.
-spec silence(Reason :: term()) -> ok.
silence(_) ->
    try sys:suspend(mnesia_recover, ?SILENCE_MS)
    catch exit:_ -> ok
    end.

%% @doc Waits until Mnesia has logged all decisions that have reached this node. The log may still
%% be in memory. False if Mnesia does not run.
-spec await_logged() -> boolean().
await_logged() -> mnesia_recover:sync() =:= ok.

%% @doc Waits until the log of this node is on its disk, if its database has one.
-spec sync_log() -> ok | {error, term()}.
sync_log() ->
    case mnesia:system_info(use_dir) of
        true -> mnesia:sync_log();
        false -> ok
    end.

%% @doc Writes a log that is new since the last call to the disk, in a process of its own. The
%% calling process remembers the log. Mnesia itself dumps its log for each change of the tables, on
%% all nodes, and leaves the header of the new log in memory. After a loss of power of all nodes, a
%% log without a header counts as damaged.
-spec sync_new_log() -> ok.
sync_new_log() ->
    Log = inode(latest()),
    _ = [spawn(fun sync_log/0) || put({?MODULE, log}, Log) =/= Log, is_integer(Log)],
    ok.

latest() -> filename:join(mnesia:system_info(directory), "LATEST.LOG").

%% @doc Begins a dump in a process of its own, if the log has so many changes, or the last dump was
%% so long ago, that it is due. The calling process remembers the last one.
-spec dump_if_due() -> ok.
dump_if_due() ->
    Now = erlang:monotonic_time(millisecond),
    Writes = mnesia:system_info(transaction_log_writes),
    _ = [put(?MODULE, {spawn(fun dump/0), Now, Writes}) || is_due(get(?MODULE), Now, Writes)],
    ok.

is_due(undefined, _, _) -> true;
is_due({Dumper, Time, Before}, Now, Writes) ->
    %% Mnesia counts from its start.
    IsDue = Writes < Before orelse Writes - Before >= ?DUE_WRITES orelse Now - Time >= ?DUE_MS,
    IsDue andalso not is_process_alive(Dumper).

%% @doc Dumps the log of this node, with all changes that other nodes may still call aborted. Other
%% nodes ask this.
-spec dump() -> boolean().
dump() -> docket_worker:run(fun dumped/0, ?DUMP_MS, mnesia_tm) =:= {done, true}.

%% The locks wait for the end of each change.
dumped() ->
    Log = latest(),
    Former = filename:join(filename:dirname(Log), "PREVIOUS.LOG"),
    %% The locks must not wait for a dump that goes on.
    ok = until(fun() -> is_atom(inode(Former)) end, infinity),
    {atomic, {Dumper, Ended}} =
        mnesia:transaction(fun() ->
                                   _ = lock(),
                                   Before = inode(Log),
                                   Process = spawn_monitor(fun() -> exit(mnesia:dump_log()) end),
                                   ok = until(fun() -> has_begun(Log, Before, Process) end,
                                              infinity),
                                   %% Mnesia deletes the former log soon, but does not write the
                                   %% header of the new one to the disk.
                                   ok = sync_log(),
                                   Process
                           end),
    receive {'DOWN', Ended, process, Dumper, Result} -> Result =:= dumped end.

%% Waits for the end of each change, and holds up further ones.
lock() -> mnesia:read_lock_table(?TABLE).

%% Tells whether the dump has begun, or has ended. The new log is another file while the old one is
%% there. An empty log stays.
has_begun(Log, Before, {Dumper, _}) ->
    inode(Log) =/= Before orelse not is_process_alive(Dumper).

%% Returns an atom if there is no such file.
inode(File) ->
    case file:read_file_info(File, [raw]) of
        {ok, #file_info{inode = Inode}} -> Inode;
        {error, Reason} -> Reason
    end.

%% Waits until a function returns true, or until a time in milliseconds.
until(Is, End) ->
    case Is() orelse erlang:monotonic_time(millisecond) >= End of
        true -> ok;
        false ->
            receive after ?POLL_MS -> ok end,
            until(Is, End)
    end.

%% @doc Lets the nodes from which this one loads its rows, and all that they are connected to, dump
%% their logs. Mnesia does not run here.
-spec before_start([node()]) -> ok | {wait, iodata()}.
before_start(Sources) ->
    Nodes = running(Sources),
    Busy = [Node || {Node, Result} <- asked(Nodes, dump, []),
                    not lists:member(Result, [{ok, true}, earlier])],
    case (Sources -- Nodes) ++ Busy of
        [] -> ok;
        Missing -> {wait, ["waits until ", docket_config:names(Missing), " can dump the log"]}
    end.

running(Sources) ->
    Running = docket_cluster:multicall(Sources, mnesia, system_info, [running_db_nodes], ?CALL_MS),
    %% They may not have noticed yet that this node has ended.
    lists:usort(lists:append([Nodes || {ok, Nodes} <- Running])) -- [node()].

asked(Nodes, Function, Arguments) ->
    Results = docket_cluster:multicall(Nodes, ?MODULE, Function, Arguments, ?CALL_MS),
    lists:zip(Nodes, [earlier(Result) || Result <- Results]).

%% An earlier program has no such function.
earlier({error, {exception, undef, _}}) -> earlier;
earlier(Result) -> Result.

%% @doc Starts Mnesia here while the other nodes make no changes: they dump their logs when their
%% databases become one with this one.
-spec starts([node()], fun(() -> Result)) -> Result | {wait, iodata()}.
starts([], Start) -> Start();
starts(Sources, Start) ->
    while_held(running(Sources), fun() -> together(Start(), Sources) end).

%% @doc Calls a function that gives a table a copy or another form, while no node makes changes.
%% Mnesia itself locks the table, which is enough for the one that each change writes.
-spec change_table(atom(), fun(() -> Result)) -> Result | {wait, iodata()}.
change_table(?TABLE, Change) -> Change();
change_table(_, Change) -> while_held(mnesia:system_info(running_db_nodes), Change).

%% Calls a function while the given nodes make no changes, for up to two seconds.
while_held(Nodes, Fun) ->
    Held = asked(Nodes, hold, [node()]),
    try
        case [Node || {Node, Result} <- Held, not is_held(Result)] of
            [] -> Fun();
            Busy -> {wait, ["waits for the end of a change on ", docket_config:names(Busy)]}
        end
    after
        [Holder ! release || {_, {ok, {held, Holder}}} <- Held]
    end.

is_held(earlier) -> true;
is_held({ok, {held, _}}) -> true;
is_held(_) -> false.

together(ok, Sources) ->
    until(fun() -> Sources -- mnesia:system_info(running_db_nodes) =:= [] end,
          erlang:monotonic_time(millisecond) + ?MERGE_MS);
together(Result, _) -> Result.

%% @doc Waits for the end of all changes of this node, and holds up further ones while another node
%% starts: until the returned process gets `release', that node ends, or some time is over. Other
%% nodes ask this.
-spec hold(node()) -> {held, pid()} | busy.
hold(Node) ->
    Self = self(),
    {Holder, Monitor} = spawn_monitor(fun() -> hold(Node, Self) end),
    receive
        {Holder, held} ->
            true = demonitor(Monitor, [flush]),
            {held, Holder};
        {'DOWN', Monitor, process, Holder, _} -> busy
    after ?HOLD_MS ->
            true = exit(Holder, kill),
            busy
    end.

hold(Node, Caller) ->
    true = erlang:monitor_node(Node, true),
    mnesia:transaction(fun() ->
                               _ = lock(),
                               Caller ! {self(), held},
                               receive
                                   release -> ok;
                                   {nodedown, Node} -> ok
                               after ?HOLD_MS -> ok
                               end
                       end).
