%% @doc Sums up the readings of each sensor. A real store would write to a disk here, once for
%% each batch.
-module(sensors_store).
-behaviour(whittle_flow_batcher).

-export([init/1, handle_batch/2]).

-type state() :: {whittle_counters:handle(), #{pos_integer() => {pos_integer(), float()}}}.

-spec init([]) -> state().
init([]) ->
    {ok, Stored} = whittle_counters:handle(sensor_stored_seconds),
    {Stored, #{}}.

-spec handle_batch([{pos_integer(), float(), integer()}], state()) -> state().
handle_batch(Readings, {Stored, Sums}) ->
    {Stored, lists:foldl(fun({Sensor, Celsius, Taken}, Acc) ->
                                 ok = whittle_counters:observe_since(Stored, Taken),
                                 {N, Sum} = maps:get(Sensor, Acc, {0, 0.0}),
                                 Acc#{Sensor => {N + 1, Sum + Celsius}}
                         end, Sums, Readings)}.
