%% @doc Speaks for the copies of this node: that they take part in a change, and that a change is on
%% the disk. The node that makes a change asks all members of the generation.
%% @hidden
-module(docket_mnesia_replica).

-export([fingerprint/2, confirm/2, flushed/1]).

-type row() :: {docket_store:table(), Key :: term(), Fingerprint :: binary()}.

%% @doc Returns a fingerprint of the rows with a key, as this node has them.
-spec fingerprint(docket_store:table(), term()) -> binary().
fingerprint(Table, Key) -> erlang:md5(term_to_binary(ets:lookup(Table, Key), [deterministic])).

%% @doc Tells whether this node has the same generation and the same rows, and sees all members run.
%% The caller has locked the rows.
-spec confirm(docket_generation:generation(), [row()]) -> boolean().
confirm({_, Members} = Generation, Rows) ->
    docket_generation:current() =:= Generation
        andalso Members -- mnesia:system_info(running_db_nodes) =:= []
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
