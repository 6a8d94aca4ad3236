%% @doc exometer's common calls. A metric's name is a list, such as
%% `[my, requests]', and becomes `my_requests'. Types: counter, gauge, histogram,
%% meter (a counter with rates over 1, 5 and 15 minutes).
-module(exometer).

-export([new/2, new/3, ensure/3, re_register/3, update/2, get_value/1, get_value/2, reset/1,
         delete/1]).

-type name() :: [atom() | integer() | string() | binary()].

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

%% exometer's counters can go down.
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
        {ok, #{type := histogram}, _} -> whittle_counters:observe(Id, [], Value);
        {error, _} -> {error, not_found}
    end.

-spec get_value(name()) -> {ok, [{atom(), term()}]} | {error, not_found}.
get_value(Name) ->
    Id = id(Name),
    case whittle_counters:value(Id) of
        {ok, #{count := Count, sum := Sum}} -> {ok, [{n, Count}, {mean, Sum / max(1, Count)}]};
        {ok, Value} ->
            Rates = [{Key, Rate} || {Key, Window} <- [{one, 60}, {five, 300}, {fifteen, 900}],
                                    {ok, Rate} <- [whittle_counters:rate(Id, [], Window)]],
            {ok, [{value, Value}, {count, Value} | Rates]};
        {error, _} -> {error, not_found}
    end.

-spec get_value(name(), atom() | [atom()]) -> {ok, [{atom(), term()}]} | {error, not_found}.
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
