%% A batcher that writes down what it handled, can be held, and crashes when asked to.
-module(whittle_flow_ledger).
-behaviour(whittle_flow_batcher).

-export([init/1, handle_batch/2, info/2]).

init(Table) -> {Table, 0}.

handle_batch(Batch, {Table, Last}) ->
    _ = [error(asked_to) || {crash, _} <- Batch],
    %% In order, and none that was there before.
    _ = [ets:insert(Table, {twice, N}) || N <- Batch, not ets:insert_new(Table, {N})],
    _ = Batch =:= lists:sort(Batch) andalso hd(Batch) > Last
        orelse ets:insert(Table, {twice, out_of_order}),
    {Table, lists:last(Batch)}.

info(hold, State) -> receive release -> State end;
info(_, State) -> State.
