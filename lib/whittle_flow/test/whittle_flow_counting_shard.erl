%% A shard that records its handled messages outside of itself.
-module(whittle_flow_counting_shard).
-behaviour(whittle_flow_shard).
-export([init/1, handle/3]).

init(Table) -> Table.

handle(Key, _, Table) ->
    _ = ets:update_counter(Table, Key, 1, {Key, 0}),
    Table.
