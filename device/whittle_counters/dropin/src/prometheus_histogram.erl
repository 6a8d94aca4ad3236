%% @doc prometheus.erl's histograms. The buckets that a specification names are
%% not used: these are exponential. Observed are, as there, numbers of the unit:
%% they are kept in billionths of it, so that seconds and bytes both fit.
-module(prometheus_histogram).

-export([new/1, declare/1, observe/2, observe/3, observe_duration/2, observe_duration/3,
         value/1, value/2, reset/1, reset/2, remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-define(RESOLUTION, 1000000000).

-spec new(list()) -> ok.
new(Spec) -> prometheus_spec:new(histogram, Spec, #{resolution => ?RESOLUTION}).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_spec:declare(histogram, Spec, #{resolution => ?RESOLUTION}).

-spec observe(name(), number()) -> ok.
observe(Name, Value) -> observe(Name, [], Value).

-spec observe(name(), list(), number()) -> ok.
observe(Name, Labels, Value) when is_number(Value) ->
    prometheus_spec:answer(whittle_counters:observe(prometheus_spec:name(Name), Labels,
                                                    round(Value * ?RESOLUTION)));
observe(_, _, Value) ->
    error({out_of_range, Value}).

-spec observe_duration(name(), fun(() -> Result)) -> Result.
observe_duration(Name, Fun) -> observe_duration(Name, [], Fun).

-spec observe_duration(name(), list(), fun(() -> Result)) -> Result.
observe_duration(Name, Labels, Fun) ->
    Start = erlang:monotonic_time(),
    try Fun()
    after
        ok = prometheus_spec:answer(
               whittle_counters:observe_since(prometheus_spec:name(Name), Labels, Start))
    end.

%% @doc As {Buckets, Sum}: the counts of the buckets that are not empty.
-spec value(name()) -> {[pos_integer()], number()} | undefined.
value(Name) -> value(Name, []).

-spec value(name(), list()) -> {[pos_integer()], number()} | undefined.
value(Name, Labels) ->
    case prometheus_spec:value(Name, Labels) of
        #{sum := Sum, buckets := Buckets, zeros := Zeros} ->
            {[Zeros || Zeros > 0] ++ [N || {_, N} <- Buckets], Sum / ?RESOLUTION};
        undefined -> undefined
    end.

-spec reset(name()) -> boolean().
reset(Name) -> reset(Name, []).

-spec reset(name(), list()) -> boolean().
reset(Name, Labels) -> prometheus_counter:reset(Name, Labels).

-spec remove(name()) -> boolean().
remove(Name) -> remove(Name, []).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_counter:remove(Name, Labels).
