%% A batcher that records its handled messages. A test can hold it, and can make it crash.
-module(whittle_flow_ledger).
-behaviour(whittle_flow_batcher).

-export([init/1, handle_batch/2, info/2]).

init(Table) -> {Table, 0}.

handle_batch(Batch, {Table, Last}) ->
    _ = [error(asked_to) || {crash, _} <- Batch],
    %% Checks that messages come in order, and none a second time.
    _ = [ets:insert(Table, {twice, N}) || N <- Batch, not ets:insert_new(Table, {N})],
    _ = Batch =:= lists:sort(Batch) andalso hd(Batch) > Last
        orelse ets:insert(Table, {twice, out_of_order}),
    {Table, lists:last(Batch)}.

info(hold, State) -> receive release -> State end;
info(_, State) -> State.
