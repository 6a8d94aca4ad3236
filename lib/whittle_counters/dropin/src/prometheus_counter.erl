%% @doc Replaces prometheus.erl's counters. They take whole numbers only. The exported name always
%% ends with `_total'.
-module(prometheus_counter).

-export([new/1, declare/1, inc/1, inc/2, inc/3, value/1, value/2, reset/1, reset/2,
         remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-spec new(list()) -> ok.
new(Spec) -> prometheus_spec:new(counter, Spec).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_spec:declare(counter, Spec).

-spec inc(name()) -> ok.
inc(Name) -> inc(Name, [], 1).

-spec inc(name(), list() | non_neg_integer()) -> ok.
inc(Name, Labels) when is_list(Labels) -> inc(Name, Labels, 1);
inc(Name, N) -> inc(Name, [], N).

-spec inc(name(), list(), non_neg_integer()) -> ok.
inc(Name, Labels, N) ->
    prometheus_spec:answer(whittle_counters:inc(prometheus_spec:name(Name), Labels, N)).

-spec value(name()) -> non_neg_integer() | undefined.
value(Name) -> value(Name, []).

-spec value(name(), list()) -> non_neg_integer() | undefined.
value(Name, Labels) -> prometheus_spec:value(Name, Labels).

-spec reset(name()) -> boolean().
reset(Name) -> reset(Name, []).

-spec reset(name(), list()) -> boolean().
reset(Name, Labels) -> prometheus_spec:reset(Name, Labels).

-spec remove(name()) -> boolean().
remove(Name) -> remove(Name, []).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_spec:remove(Name, Labels).
