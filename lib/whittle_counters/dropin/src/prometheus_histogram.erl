%% @doc Replaces prometheus.erl's histograms.
%%
%% Buckets are exponential; the buckets of a specification have no effect. As in prometheus.erl, a
%% histogram with a unit of time in its name takes native time (see prometheus_spec). Other
%% histograms take numbers and keep millionths; with `bytes' in the name they keep whole numbers.
%% `whittle_counters_rejected_total' counts a value that is negative or beyond 2^59 of these parts.
-module(prometheus_histogram).

-export([new/1, declare/1, observe/2, observe/3, observe_duration/2, observe_duration/3,
         value/1, value/2, reset/1, reset/2, remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-spec new(list()) -> ok.
new(Spec) -> prometheus_spec:new(histogram, Spec).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_spec:declare(histogram, Spec).

-spec observe(name(), number()) -> ok.
observe(Name, Value) -> observe(Name, [], Value).

-spec observe(name(), list(), number()) -> ok.
observe(Name, Labels, Value) ->
    Metric = prometheus_spec:name(Name),
    prometheus_spec:observed(
      whittle_counters:observe(Metric, Labels, kept(prometheus_spec:scale(Metric), Value))).

%% Passes a term that is not a number on, so that the histogram refuses it.
kept({duration, _}, Value) when is_number(Value) ->
    erlang:convert_time_unit(trunc(Value), native, nanosecond);
kept({plain, PerUnit}, Value) when is_number(Value) ->
    %% A number that does not fit into a float is out of range.
    try round(Value * PerUnit) catch error:badarith -> -1 end;
kept(_, Value) -> Value.

-spec observe_duration(name(), fun(() -> Result)) -> Result.
observe_duration(Name, Fun) -> observe_duration(Name, [], Fun).

-spec observe_duration(name(), list(), fun(() -> Result)) -> Result.
observe_duration(Name, Labels, Fun) ->
    Start = erlang:monotonic_time(),
    try Fun()
    after ok = observe(Name, Labels, erlang:monotonic_time() - Start)
    end.

%% @doc Returns {Buckets, Sum}. Buckets has the counts of the buckets that are not empty.
-spec value(name()) -> {[pos_integer()], number()} | undefined.
value(Name) -> value(Name, []).

-spec value(name(), list()) -> {[pos_integer()], number()} | undefined.
value(Name, Labels) ->
    case prometheus_spec:value(Name, Labels) of
        #{sum := Sum, buckets := Buckets, zeros := Zeros} ->
            {_, PerUnit} = prometheus_spec:scale(prometheus_spec:name(Name)),
            {[Zeros || Zeros > 0] ++ [N || {_, N} <- Buckets], Sum / PerUnit};
        undefined -> undefined
    end.

-spec reset(name()) -> boolean().
reset(Name) -> reset(Name, []).

-spec reset(name(), list()) -> boolean().
reset(Name, Labels) -> prometheus_spec:reset(Name, Labels).

-spec remove(name()) -> boolean().
remove(Name) -> remove(Name, []).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_spec:remove(Name, Labels).
