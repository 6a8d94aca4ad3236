%% @doc prometheus.erl's gauges.
-module(prometheus_gauge).

-export([new/1, declare/1, set/2, set/3, inc/1, inc/2, inc/3, dec/1, dec/2, dec/3,
         set_to_current_time/1, set_duration/2, set_duration/3, track_inprogress/2,
         track_inprogress/3, value/1, value/2, reset/1, reset/2, remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-spec new(list()) -> ok.
new(Spec) -> prometheus_spec:new(gauge, Spec, #{value => float}).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_spec:declare(gauge, Spec, #{value => float}).

-spec set(name(), number()) -> ok.
set(Name, Value) -> set(Name, [], Value).

-spec set(name(), list(), number()) -> ok.
set(Name, Labels, Value) ->
    prometheus_spec:answer(whittle_counters:set(prometheus_spec:name(Name), Labels, Value)).

-spec set_to_current_time(name()) -> ok.
set_to_current_time(Name) -> set(Name, erlang:system_time(second)).

%% @doc Sets it to the seconds that the fun takes.
-spec set_duration(name(), fun(() -> Result)) -> Result.
set_duration(Name, Fun) -> set_duration(Name, [], Fun).

-spec set_duration(name(), list(), fun(() -> Result)) -> Result.
set_duration(Name, Labels, Fun) ->
    Start = erlang:monotonic_time(),
    try Fun()
    after
        Took = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond),
        ok = set(Name, Labels, Took / 1.0e9)
    end.

%% @doc Is one more while the fun runs.
-spec track_inprogress(name(), fun(() -> Result)) -> Result.
track_inprogress(Name, Fun) -> track_inprogress(Name, [], Fun).

-spec track_inprogress(name(), list(), fun(() -> Result)) -> Result.
track_inprogress(Name, Labels, Fun) ->
    ok = inc(Name, Labels, 1),
    try Fun()
    after ok = dec(Name, Labels, 1)
    end.

-spec inc(name()) -> ok.
inc(Name) -> inc(Name, [], 1).

-spec inc(name(), list() | number()) -> ok.
inc(Name, Labels) when is_list(Labels) -> inc(Name, Labels, 1);
inc(Name, N) -> inc(Name, [], N).

-spec inc(name(), list(), number()) -> ok.
inc(Name, Labels, N) ->
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
reset(Name, Labels) ->
    whittle_counters:set(prometheus_spec:name(Name), Labels, 0) =:= ok.

-spec remove(name()) -> boolean().
remove(Name) -> remove(Name, []).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_counter:remove(Name, Labels).
