%% @hidden What the drop-in modules share: a prometheus.erl specification, a
%% proplist, as a definition, and its names as atoms.
-module(prometheus_spec).

-export([declare/3, new/3, name/1, answer/1, value/2]).

-spec declare(whittle_counters:type(), list(), whittle_counters:options()) -> boolean().
declare(Type, Spec, More) ->
    Known = whittle_counters_table:metric(name(proplists:get_value(name, Spec))),
    ok = new(Type, Spec, More),
    element(1, Known) =:= error.

-spec new(whittle_counters:type(), list(), whittle_counters:options()) -> ok.
new(Type, Spec, More) ->
    Options = More#{labels => proplists:get_value(labels, Spec, []),
                    help => proplists:get_value(help, Spec, "")},
    answer(whittle_counters:new(name(proplists:get_value(name, Spec)), Type, Options)).

-spec name(atom() | string() | binary()) -> atom().
name(Name) when is_atom(Name) -> Name;
name(Name) -> binary_to_atom(iolist_to_binary(Name)).

%% A series that is not there is `undefined', what else is wrong is raised.
-spec value(atom() | string() | binary(), list()) -> whittle_counters_table:value() | undefined.
value(Name, Labels) ->
    case whittle_counters:value(name(Name), Labels) of
        {ok, Value} -> Value;
        {error, {unknown_series, _}} -> undefined;
        {error, Reason} -> error(Reason)
    end.

%% prometheus.erl raises where whittle_counters answers.
-spec answer(ok | {error, whittle_counters:reason()}) -> ok.
answer(ok) -> ok;
answer({error, Reason}) -> error(Reason).
