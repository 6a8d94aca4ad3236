%% @doc Keeps Mnesia from undoing changes that it has made.
%%
%% A log of Mnesia has the changes and, apart from them, which of them were made or aborted. A dump,
%% or a start, takes the changes into the files of the tables, but for those that were aborted. In
%% OTP 25 to 29 a node may call a change aborted that the others have made, and then they log that
%% too (`mnesia_recover:merge_decisions/3'). They have the change in memory, and lose it at the next
%% start. It happens in two ways:
%%
%% - Mnesia stops, while a change waits for the word of the node that makes it
%%   (`mnesia_tm:commit_participant/7'). So mnesia_recover, which tells the others, is stopped first
%%   here. Then the change stays open on this node, as after a crash.
%% - A node starts with a change in its log whose end it does not know, and the nodes that it asks
%%   do not know it either, or do not answer in time. So the others dump their logs first.
%% @hidden
-module(docket_mnesia_decisions).

-export([init/0, stop/0, silence/1, is_logged/0, dumped/1, dump/0]).

-define(SILENCE_MS, 1000).
-define(DUMP_MS, 4000).
-define(CALL_MS, 5000).

%% @doc Prepares for the end of the whole node, when OTP stops Mnesia before docket.
-spec init() -> ok.
init() -> application:set_env(kernel, shutdown_func, {?MODULE, silence}).

%% @doc Stops Mnesia.
-spec stop() -> ok.
stop() ->
    ok = silence(stop),
    stopped = mnesia:stop(),
    ok.

%% @doc Keeps Mnesia, which ends next, from telling other nodes that changes were aborted.
-spec silence(Reason :: term()) -> ok.
silence(_) ->
    try sys:suspend(mnesia_recover, ?SILENCE_MS)
    catch exit:_ -> ok
    end.

%% @doc Tells whether the log has which changes were made. It need not be on the disk.
-spec is_logged() -> boolean().
is_logged() -> mnesia_recover:sync() =:= ok.

%% @doc Lets the nodes from which this one loads its rows, and all that they are connected to, dump
%% their logs. Mnesia does not run here.
-spec dumped([node()]) -> ok | {wait, iodata()}.
dumped(Sources) ->
    Running = erpc:multicall(Sources, mnesia, system_info, [running_db_nodes], ?CALL_MS),
    Nodes = lists:usort(lists:append([Nodes || {ok, Nodes} <- Running])),
    Results = lists:zip(Nodes, erpc:multicall(Nodes, ?MODULE, dump, [], ?CALL_MS)),
    case [Node || {Node, Result} <- Results, not is_dumped(Result)] of
        [] -> ok;
        Busy -> {wait, ["waits until ", docket_config:names(Busy), " has dumped its log"]}
    end.

is_dumped({ok, IsDumped}) -> IsDumped;
%% An earlier program
is_dumped({error, {exception, undef, _}}) -> true;
is_dumped(_) -> false.

%% @doc Dumps the log of this node, with all changes that other nodes may still call aborted: the
%% locks wait for the end of each change. Other nodes ask this.
-spec dump() -> boolean().
dump() ->
    Locks = fun() -> [mnesia:read_lock_table(Name) || Name <- docket_mnesia_tables:names()] end,
    Dump = fun() ->
                   {atomic, _} = mnesia:transaction(Locks),
                   mnesia:dump_log()
           end,
    docket_worker:run(Dump, ?DUMP_MS, mnesia_tm) =:= {done, dumped}.
