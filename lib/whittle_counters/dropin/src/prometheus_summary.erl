%% @doc Replaces prometheus.erl's summaries. They are histograms here, and the export has
%% histograms. So unlike a summary they have quantiles.
-module(prometheus_summary).

-export([new/1, declare/1, observe/2, observe/3, observe_duration/2, observe_duration/3,
         value/1, value/2, reset/1, reset/2, remove/1, remove/2]).

-type name() :: atom() | string() | binary().

-spec new(list()) -> ok.
new(Spec) -> prometheus_histogram:new(Spec).

-spec declare(list()) -> boolean().
declare(Spec) -> prometheus_histogram:declare(Spec).

-spec observe(name(), number()) -> ok.
observe(Name, Value) -> prometheus_histogram:observe(Name, Value).

-spec observe(name(), list(), number()) -> ok.
observe(Name, Labels, Value) -> prometheus_histogram:observe(Name, Labels, Value).

-spec observe_duration(name(), fun(() -> Result)) -> Result.
observe_duration(Name, Fun) -> prometheus_histogram:observe_duration(Name, Fun).

-spec observe_duration(name(), list(), fun(() -> Result)) -> Result.
observe_duration(Name, Labels, Fun) -> prometheus_histogram:observe_duration(Name, Labels, Fun).

%% @doc Returns {Count, Sum}.
-spec value(name()) -> {non_neg_integer(), number()} | undefined.
value(Name) -> value(Name, []).

-spec value(name(), list()) -> {non_neg_integer(), number()} | undefined.
value(Name, Labels) ->
    case prometheus_histogram:value(Name, Labels) of
        {Counts, Sum} -> {lists:sum(Counts), Sum};
        undefined -> undefined
    end.

-spec reset(name()) -> boolean().
reset(Name) -> prometheus_histogram:reset(Name).

-spec reset(name(), list()) -> boolean().
reset(Name, Labels) -> prometheus_histogram:reset(Name, Labels).

-spec remove(name()) -> boolean().
remove(Name) -> prometheus_histogram:remove(Name).

-spec remove(name(), list()) -> boolean().
remove(Name, Labels) -> prometheus_histogram:remove(Name, Labels).
