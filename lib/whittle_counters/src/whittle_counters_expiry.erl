%% @hidden Finds stale and hot series.
%%
%% An expired series stays hidden in the table for ?GRACE seconds. An update may have begun before
%% the expiry, with the cell from its lookup. If the cell grows within these seconds, the series
%% comes back with its whole value.
-module(whittle_counters_expiry).

-include("whittle_counters_series.hrl").

-export([sweep/2]).

%% Seconds for which the sweep watches an expired series. An update that began before the expiry
%% ends within this time, unless the system suspends its process for longer.
-define(GRACE, 60).
%% Updates per second from which a cold counter becomes striped. From this rate on, a tenth of a
%% core's time would go into the shared line (bench/counters).
-define(HOT, 500000).

%% @doc Checks every series at second Now of `erlang:monotonic_time/1'.
-spec sweep(integer(), whittle_counters_series:store()) -> whittle_counters_series:store().
sweep(Now, Store) ->
    Store1 = ets:foldl(fun(Row, S) -> look_at(Row, Now, S) end, Store, ?SERIES),
    case whittle_counters_series:is_pending(Store1) of
        true -> whittle_counters_series:publish(Store1);
        false -> Store1
    end.

look_at(#series{key = {Name, _}, parts = Parts, last = Last, seen = Seen} = Row, Now, Store) ->
    {ok, Metric, _} = whittle_counters_table:metric(Name),
    case updates(whittle_counters_table:value(Parts, raw)) of
        Last -> unchanged(Row, Now, Metric, Store);
        Value -> changed(Row#series{last = Value, seen = Now}, Value, Last, max(1, Now - Seen),
                         Metric, Store)
    end.

unchanged(#series{handled = false, expired = false, seen = Seen} = Row,
          Now, #{expire_after := Limit}, Store) when Now - Seen >= Limit ->
    whittle_counters_series:hide(Row, Now, Store);
unchanged(#series{expired = Since} = Row, Now, _, Store) when is_integer(Since) ->
    case Now - Since >= ?GRACE of
        true -> whittle_counters_series:remove(Row, Store);
        false -> Store
    end;
unchanged(_, _, _, Store) ->
    Store.

changed(#series{stripe = plain, expired = false} = Row, Value, Last, Seconds,
        #{type := Type} = Metric, Store) when Type =/= gauge ->
    case (Value - Last) div Seconds > ?HOT of
        true -> whittle_counters_series:promote(Row, Metric, Store);
        false -> keep(Row, Store)
    end;
changed(Row, _, _, _, _, Store) ->
    keep(Row#series{expired = false}, Store).

%% Gives the number that shows whether a series was updated. For a histogram it is the count,
%% because all of its buckets would take too much memory.
updates(#{count := Count}) -> Count;
updates(Value) -> Value.

keep(Row, Store) ->
    true = ets:insert(?SERIES, Row),
    Store.
