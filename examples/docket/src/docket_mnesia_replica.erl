%% @doc Speaks for the copies of this node: that they take part in a change, and that a change is on
%% the disk. The node that makes a change asks all members of the generation.
%% @hidden
-module(docket_mnesia_replica).

-export([fingerprint/2, receivers/0, confirm/2, flushed/1]).

-type row() :: {docket_store:table(), Key :: term(), Fingerprint :: binary()}.

%% @doc Returns a fingerprint of the rows with a key, as this node has them.
-spec fingerprint(docket_store:table(), term()) -> binary().
fingerprint(Table, Key) -> erlang:md5(term_to_binary(ets:lookup(Table, Key), [deterministic])).

%% @doc Lists the nodes to which Mnesia sends each change of this node.
%%
%% In OTP 25 to 29 several processes of Mnesia change these lists at once, when nodes end and come
%% back (`mnesia_controller:add_active_replica/4'). So a node that runs and has all tables may be
%% missing: it would miss changes, and nothing in Mnesia would notice.
-spec receivers() -> [node()].
receivers() ->
    [First | More] = [receivers(Name) || {Name, _, _} <- docket_cases:tables()],
    [Node || Node <- First, lists:all(fun(Nodes) -> lists:member(Node, Nodes) end, More)].

receivers(Table) ->
    try mnesia:table_info(Table, where_to_commit) of
        {blocked, Copies} -> [Node || {Node, _} <- Copies];
        Copies -> [Node || {Node, _} <- Copies]
    catch exit:{aborted, _} -> []
    end.

%% @doc Tells whether this node has the same generation and the same rows, and sees all members run
%% and get its changes. The caller has locked the rows.
-spec confirm(docket_generation:generation(), [row()]) -> boolean().
confirm({_, Members} = Generation, Rows) ->
    docket_generation:current() =:= Generation
        andalso Members -- mnesia:system_info(running_db_nodes) =:= []
        andalso Members -- receivers() =:= []
        andalso docket_mnesia_schema:is_loaded()
        andalso lists:all(fun({Table, Key, Fingerprint}) ->
                                  fingerprint(Table, Key) =:= Fingerprint
                          end, Rows).

%% @doc Waits until the log of this node is on its disk, and confirms the generation.
-spec flushed(docket_generation:generation()) -> boolean() | {error, disk}.
flushed(Generation) ->
    case {mnesia:sync_log(), docket_disk_watch:has_failed()} of
        {ok, false} -> confirm(Generation, []);
        _ ->
            ok = docket_mnesia_member:disk_failed(),
            {error, disk}
    end.
