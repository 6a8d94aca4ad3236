%% @doc Replaces prometheus.erl's gauges. As there, a gauge with a unit of time in its name takes
%% native time: see prometheus_spec.
-module(prometheus_gauge).

-export([new/1, declare/1, set/2, set/3, inc/1, inc/2, inc/3, dec/1, dec/2, dec/3,
         set_to_current_time/1, set_duration/2, set_duration/3, track_inprogress/2,
         track_inprogress/3, value/1, value/2, reset/1, reset/2, remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-spec new(list()) -> ok.
new(Spec) -> prometheus_spec:new(gauge, Spec).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_spec:declare(gauge, Spec).

-spec set(name(), number()) -> ok.
set(Name, Value) -> set(Name, [], Value).

-spec set(name(), list(), number()) -> ok.
set(Name, Labels, Value) -> put(prometheus_spec:name(Name), Labels, Value, fun scaled/2).

put(Name, Labels, Value, Scaled) ->
    prometheus_spec:answer(whittle_counters:set(Name, Labels, Scaled(Name, Value))).

%% Passes a term that is not a number on, so that the gauge refuses it.
scaled(Name, Value) when is_number(Value) ->
    case prometheus_spec:scale(Name) of
        {duration, PerUnit} ->
            erlang:convert_time_unit(trunc(Value), native, nanosecond) / PerUnit;
        {plain, _} -> Value
    end;
scaled(_, Value) -> Value.

-spec set_to_current_time(name()) -> ok.
set_to_current_time(Name) ->
    put(prometheus_spec:name(Name), [], erlang:system_time(second), fun(_, Now) -> Now end).

%% @doc Sets the gauge to the time that the fun takes. The time is in the unit in the gauge's name,
%% or in native time without a unit.
-spec set_duration(name(), fun(() -> Result)) -> Result.
set_duration(Name, Fun) -> set_duration(Name, [], Fun).

-spec set_duration(name(), list(), fun(() -> Result)) -> Result.
set_duration(Name, Labels, Fun) ->
    Start = erlang:monotonic_time(),
    try Fun()
    after ok = set(Name, Labels, erlang:monotonic_time() - Start)
    end.

%% @doc Adds one to the gauge while the fun runs. A unit in the gauge's name has no effect here.
-spec track_inprogress(name(), fun(() -> Result)) -> Result.
track_inprogress(Name, Fun) -> track_inprogress(Name, [], Fun).

-spec track_inprogress(name(), list(), fun(() -> Result)) -> Result.
track_inprogress(Name, Labels, Fun) ->
    ok = plus(Name, Labels, 1),
    try Fun()
    after ok = plus(Name, Labels, -1)
    end.

-spec inc(name()) -> ok.
inc(Name) -> inc(Name, [], 1).

-spec inc(name(), list() | number()) -> ok.
inc(Name, Labels) when is_list(Labels) -> inc(Name, Labels, 1);
inc(Name, N) -> inc(Name, [], N).

-spec inc(name(), list(), number()) -> ok.
inc(Name, Labels, N) -> plus(Name, Labels, scaled(prometheus_spec:name(Name), N)).

plus(Name, Labels, N) ->
    prometheus_spec:answer(whittle_counters:add(prometheus_spec:name(Name), Labels, N)).

-spec dec(name()) -> ok.
dec(Name) -> inc(Name, [], -1).

-spec dec(name(), list() | number()) -> ok.
dec(Name, Labels) when is_list(Labels) -> inc(Name, Labels, -1);
dec(Name, N) -> inc(Name, [], -N).

-spec dec(name(), list(), number()) -> ok.
dec(Name, Labels, N) -> inc(Name, Labels, -N).

-spec value(name()) -> number() | undefined.
value(Name) -> value(Name, []).

-spec value(name(), list()) -> number() | undefined.
value(Name, Labels) -> prometheus_spec:value(Name, Labels).

-spec reset(name()) -> boolean().
reset(Name) -> reset(Name, []).

-spec reset(name(), list()) -> boolean().
reset(Name, Labels) -> prometheus_spec:reset(Name, Labels).

-spec remove(name()) -> boolean().
remove(Name) -> remove(Name, []).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_spec:remove(Name, Labels).
