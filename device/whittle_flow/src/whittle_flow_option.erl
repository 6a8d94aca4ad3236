%% @doc Checks options, for all parts of whittle_flow.
-module(whittle_flow_option).

-export([check/2]).

%% @doc Whether Options is a map with only Allowed keys and fitting values.
-spec check([atom()], term()) -> ok | {error, whittle_flow:reason()}.
check(Allowed, Options) when is_map(Options) ->
    case [{K, V} || {K, V} <- lists:sort(maps:to_list(Options)),
                    not (lists:member(K, Allowed) andalso fits(K, V))] of
        [] -> order(Options);
        [Bad | _] -> {error, {bad_option, Bad}}
    end;
check(_, Options) -> {error, {bad_option, Options}}.

order(#{floor := Floor, ceiling := Ceiling}) when Floor > Ceiling ->
    {error, {bad_option, {floor, Floor}}};
order(_) -> ok.

fits(key, V) -> is_function(V, 1);
fits(name, V) -> is_atom(V) andalso V =/= undefined;
fits(policy, {priority, V}) -> is_function(V, 1);
fits(policy, V) -> lists:member(V, [block, oldest, newest]);
fits(K, V) when K =:= wait; K =:= retire_after -> is_integer(V) andalso V >= 0;
fits(intensity, {N, Seconds}) -> fits(wait, N) andalso fits(shards, Seconds);
fits(intensity, _) -> false;
fits(_, V) -> is_integer(V) andalso V > 0.
