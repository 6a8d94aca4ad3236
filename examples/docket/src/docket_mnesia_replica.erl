%% @doc Speaks for the copies of this node: that they take part in a change, and that a change is on
%% the disk. The node that makes a change asks all members of the generation.
%% @hidden
-module(docket_mnesia_replica).

-export([fingerprint/2, receivers/0, leaves_out/1, is_ready/0, is_complete/0, is_source/0,
         complete/0, forget/0, join/1, sums/0, confirm/3, flushed/1]).

-export_type([row/0]).

-define(JOIN_MS, 10000).
-define(CALL_MS, 5000).

-type row() :: {docket_store:table(), Key :: term(), Fingerprint :: binary()}.

%% @doc Returns a fingerprint of the rows with a key, as this node has them.
-spec fingerprint(docket_store:table(), term()) -> binary().
fingerprint(Table, Key) ->
    %% The same bytes in each release of OTP
    Bytes = term_to_binary(docket_mnesia_tables:rows(Table, Key),
                           [deterministic, {minor_version, 2}]),
    erlang:md5(Bytes).

%% @doc Lists the nodes to which Mnesia sends each change of this node.
%%
%% In OTP 27 to 29 several processes of Mnesia change these lists at once, when nodes end and come
%% back (`mnesia_controller:add_active_replica/4'). So a node that runs and has all tables may be
%% missing: it would miss changes, and nothing in Mnesia would notice.
-spec receivers() -> [node()].
receivers() ->
    [First | More] = [receivers(Name) || Name <- docket_mnesia_tables:names()],
    [Node || Node <- First, lists:all(fun(Nodes) -> lists:member(Node, Nodes) end, More)].

receivers(Table) ->
    try mnesia:table_info(Table, where_to_commit) of
        {blocked, Copies} -> [Node || {Node, _} <- Copies];
        Copies -> [Node || {Node, _} <- Copies]
    catch exit:{aborted, _} -> []
    end.

%% @doc Tells whether this node may make changes, and does not send them to a node. Other nodes ask
%% this.
-spec leaves_out(node()) -> boolean().
leaves_out(Node) ->
    is_complete() andalso docket_generation:may_change()
        andalso not lists:member(Node, receivers()).

%% @doc Tells whether this node has all tables, and has joined a generation of which most nodes run.
-spec is_ready() -> boolean().
is_ready() ->
    persistent_term:get(?MODULE, incomplete) =:= joined andalso docket_mnesia_tables:is_loaded()
        andalso docket_generation:may_change().

%% @doc Tells whether this node has all rows of the members: its own, or those that it has compared.
-spec is_complete() -> boolean().
is_complete() ->
    persistent_term:get(?MODULE, incomplete) =/= incomplete
        andalso docket_mnesia_tables:is_loaded().

%% @doc Tells whether other nodes may take the rows of this one.
-spec is_source() -> boolean().
is_source() -> is_complete() andalso docket_generation:is_member(node()).

%% @doc Notes that the tables are complete.
-spec complete() -> ok.
complete() -> persistent_term:put(?MODULE, complete).

%% @doc Forgets that the tables are complete, because they load anew.
-spec forget() -> ok.
forget() ->
    ok = docket_mnesia_unsettled:add_all(),
    incomplete().

incomplete() -> persistent_term:put(?MODULE, incomplete).

%% @doc Makes this node, which has loaded the tables from others, a member. It must have the same
%% rows as a node that is ready, while nobody can change any. They must be on its disk too.
%%
%% Mnesia on a third node may learn late that this one loads, and its changes of that time come
%% neither with the tables nor after them. The error is `alone' if there is no node to compare with.
%% The modes async_dirty and sync_dirty compare no rows.
-spec join(Loaded :: own | from_others) ->
          ok | {differs, node()} | {error, minority | not_ready | busy | disk | alone}.
join(own) -> joined(docket_generation:join());
join(from_others) ->
    case docket_worker:run(fun locked_join/0, ?JOIN_MS, mnesia_tm) of
        {done, {counts, Error}} -> Error;
        {done, ok} -> joined(ok);
        {done, Other} -> not_joined(Other);
        _ -> not_joined({error, busy})
    end.

joined(ok) -> persistent_term:put(?MODULE, joined);
joined({error, _} = Error) -> Error.

%% The members may change rows that this node does not get.
not_joined(Result) ->
    ok = incomplete(),
    Result.

locked_join() ->
    Join = fun() ->
                   _ = [mnesia:write_lock_table(Name) || Name <- docket_mnesia_tables:names()],
                   Others = mnesia:system_info(running_db_nodes) -- [node()],
                   compared([Node || Node <- Others,
                                     docket_cluster:call(Node, ?MODULE, is_source, [], ?CALL_MS)])
           end,
    case mnesia:transaction(Join) of
        {atomic, Result} -> Result;
        {aborted, _} -> {error, busy}
    end.

compared([]) -> {error, alone};
compared(Nodes) ->
    case differing(Nodes, docket_config:get(mode)) of
        [] ->
            %% A member has all changes on its disk.
            case is_on_disk() of
                true ->
                    ok = complete(),
                    joined_generation(Nodes);
                false -> {error, disk}
            end;
        [Node | _] -> {differs, Node}
    end.

%% The dirty modes take no locks. Rows change while nodes compare them, and the copies may stay
%% different: these modes do not promise equal copies.
differing(_, Mode) when Mode =:= async_dirty; Mode =:= sync_dirty -> [];
differing(Nodes, _) ->
    Own = sums(),
    [Node || Node <- Nodes, docket_cluster:call(Node, ?MODULE, sums, [], ?CALL_MS) =/= Own].

joined_generation(Nodes) ->
    Stored = [docket_cluster:call(Node, docket_generation, stored, [], ?CALL_MS) || Node <- Nodes],
    AllCount = lists:all(fun({{_, Members}, _}) -> lists:member(node(), Members) end, Stored),
    case docket_generation:adopt(lists:max(Stored)) of
        ok ->
            case docket_generation:join() of
                ok -> ok;
                %% The members cannot change a row without this node, so it stays complete.
                {error, _} = Error when AllCount -> {counts, Error};
                {error, _} = Error -> Error
            end;
        {error, _} -> {error, disk}
    end.

%% A node without a directory has no log.
is_on_disk() ->
    docket_config:get(dir) =:= none
        orelse docket_mnesia_decisions:await_logged() andalso mnesia:sync_log() =:= ok
        andalso docket_disk_watch:failure() =:= none.

%% @doc Returns the number of rows of each table, and a sum that depends on all rows.
-spec sums() -> [{atom(), Rows :: non_neg_integer(), Sum :: non_neg_integer()}].
sums() ->
    [{Name, ets:info(Name, size),
      ets:foldl(fun(Row, Sum) -> Sum + erlang:phash2(Row, 1 bsl 32) end, 0, Name)}
     || Name <- docket_mnesia_tables:names()].

%% @doc Tells whether this node has the same generation and the same rows, and sees all members run
%% and get its changes. The caller has locked the rows. It changes them next, as the notes say; if
%% the answer is true, this node keeps the notes.
-spec confirm(docket_generation:generation(), [row()], [docket_mnesia_unsettled:note()]) ->
          boolean().
confirm({_, Members} = Generation, Rows, Notes) ->
    docket_generation:current() =:= Generation
        andalso Members -- mnesia:system_info(running_db_nodes) =:= []
        andalso Members -- receivers() =:= []
        andalso is_complete()
        andalso lists:all(fun({Table, Key, Fingerprint}) ->
                                  fingerprint(Table, Key) =:= Fingerprint
                          end, Rows)
        andalso docket_mnesia_unsettled:add(Notes) =:= ok.

%% @doc Waits until the log of this node is on its disk, and confirms the generation.
-spec flushed(docket_generation:generation()) -> boolean() | {error, disk}.
flushed(Generation) ->
    case is_on_disk() of
        true -> confirm(Generation, [], []);
        false ->
            ok = docket_mnesia_member:disk_failed(),
            {error, disk}
    end.
