%% @doc Replaces exometer's common functions.
%%
%% A metric's name is a list, such as `[my, requests]', and becomes `my_requests'. The types are
%% counter, gauge, histogram and meter (a counter with rates over 1, 5 and 15 minutes). A histogram
%% computes its median and percentiles from all observed values, within 4.4 %. It takes whole
%% numbers from 0, and rounds other numbers.
-module(exometer).

-export([new/2, new/3, ensure/3, re_register/3, update/2, update_or_create/4]).
-export([get_value/1, get_value/2, sample/1, reset/1, delete/1]).

-type name() :: [atom() | integer() | string() | binary()].
-type point() :: atom() | 50..999.

-spec new(name(), atom()) -> ok.
new(Name, Type) -> new(Name, Type, []).

-spec new(name(), atom(), list()) -> ok.
new(Name, Type, _) ->
    case whittle_counters_table:metric(id(Name)) of
        {ok, _, _} -> error(exists);
        {error, _} -> ensure(Name, Type, [])
    end.

-spec ensure(name(), atom(), list()) -> ok.
ensure(Name, Type, _) ->
    prometheus_spec:answer(define(id(Name), Type)).

-spec re_register(name(), atom(), list()) -> ok.
re_register(Name, Type, Options) ->
    _ = delete(Name),
    ensure(Name, Type, Options).

%% A counter of exometer can go down, so it becomes a gauge.
define(Id, counter) -> whittle_counters:new(Id, gauge);
define(Id, gauge) -> whittle_counters:new(Id, gauge, #{value => float});
define(Id, histogram) -> whittle_counters:new(Id, histogram);
define(Id, meter) -> whittle_counters:new(Id, counter, #{windows => [60, 300, 900]});
define(_, Type) -> {error, {bad_type, Type}}.

-spec update(name(), number()) -> ok | {error, not_found | term()}.
update(Name, Value) ->
    Id = id(Name),
    case whittle_counters_table:metric(Id) of
        {ok, #{type := gauge, value := integer}, _} -> whittle_counters:add(Id, [], Value);
        {ok, #{type := gauge}, _} -> whittle_counters:set(Id, [], Value);
        {ok, #{type := counter}, _} -> whittle_counters:inc(Id, [], Value);
        {ok, #{type := histogram}, _} when is_float(Value) ->
            whittle_counters:observe(Id, [], round(Value));
        {ok, #{type := histogram}, _} -> whittle_counters:observe(Id, [], Value);
        {error, _} -> {error, not_found}
    end.

-spec update_or_create(name(), number(), atom(), list()) -> ok | {error, term()}.
update_or_create(Name, Value, Type, Options) ->
    case update(Name, Value) of
        {error, not_found} ->
            ok = ensure(Name, Type, Options),
            update(Name, Value);
        Answer -> Answer
    end.

%% This library has no metrics with samples.
-spec sample(name()) -> ok.
sample(_) -> ok.

-spec get_value(name()) -> {ok, [{point(), term()}]} | {error, not_found}.
get_value(Name) ->
    Id = id(Name),
    case whittle_counters:value(Id) of
        {ok, #{} = Distribution} -> {ok, points(Id, Distribution)};
        {ok, Value} ->
            Rates = [{Key, Rate} || {Key, Window} <- [{one, 60}, {five, 300}, {fifteen, 900}],
                                    {ok, Rate} <- [whittle_counters:rate(Id, [], Window)]],
            {ok, [{value, Value}, {count, Value} | Rates]};
        {error, _} -> {error, not_found}
    end.

points(Id, #{count := Count, sum := Sum} = Distribution) ->
    {ok, #{schema := Schema}, _} = whittle_counters_table:metric(Id),
    Quantile = fun(Q) -> whittle_counters_scale:quantile(Schema, Distribution, Q) end,
    [{n, Count}, {mean, Sum / max(1, Count)}, {min, Quantile(0)}, {max, Quantile(1)},
     {median, Quantile(0.5)}, {50, Quantile(0.5)}, {75, Quantile(0.75)}, {90, Quantile(0.9)},
     {95, Quantile(0.95)}, {99, Quantile(0.99)}, {999, Quantile(0.999)}].

-spec get_value(name(), point() | [point()]) -> {ok, [{point(), term()}]} | {error, not_found}.
get_value(Name, Points) ->
    case get_value(Name) of
        {ok, All} when is_list(Points) -> {ok, [P || {K, _} = P <- All, lists:member(K, Points)]};
        {ok, All} -> {ok, [P || {K, _} = P <- All, K =:= Points]};
        Error -> Error
    end.

-spec reset(name()) -> ok | {error, not_found}.
reset(Name) -> found(whittle_counters:reset(id(Name))).

-spec delete(name()) -> ok | {error, not_found}.
delete(Name) -> found(whittle_counters:delete(id(Name))).

found(ok) -> ok;
found({ok, _}) -> ok;
found({error, _}) -> {error, not_found}.

id(Name) -> binary_to_atom(iolist_to_binary(lists:join($_, [text(N) || N <- Name]))).

text(N) when is_atom(N) -> atom_to_binary(N);
text(N) when is_integer(N) -> integer_to_binary(N);
text(N) -> unicode:characters_to_binary(N).
