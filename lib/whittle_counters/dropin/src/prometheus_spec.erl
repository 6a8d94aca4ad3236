%% @hidden Translates prometheus.erl's specifications, names and errors for the drop-in modules.
%%
%% If a metric has a unit of time in its name, or a `duration_unit', it takes native time, and the
%% export uses that unit. With `duration_unit' set to false, and without a unit, a metric takes
%% plain numbers. The scale of each metric is a persistent term, because there are few metrics, and
%% each observation reads its scale.
-module(prometheus_spec).

-export([declare/2, new/2, name/1, scale/1, answer/1, observed/1, value/2, reset/2, remove/2]).
-export_type([scale/0]).

-type scale() :: {duration | plain, PerUnit :: pos_integer()}.
%% The number of nanoseconds, or of kept parts, in one exported unit.

-define(UNITS, [microseconds, milliseconds, seconds, minutes, hours, days]).

%% The kept parts of one, for numbers that are not times. Bytes have no parts, because their sums
%% would not fit into 64 bits.
-define(PARTS, 1000000).

-spec declare(counter | gauge | histogram, list()) -> boolean().
declare(Type, Spec) ->
    {Name, Options, Scale} = checked(Type, Spec),
    case whittle_counters_table:metric(Name) of
        {ok, _, _} -> false;
        {error, _} -> define(Name, Type, Options, Scale), true
    end.

-spec new(counter | gauge | histogram, list()) -> ok.
new(Type, Spec) ->
    {Name, Options, Scale} = checked(Type, Spec),
    case whittle_counters_table:metric(Name) of
        {ok, _, _} ->
            error({mf_already_exists, {default, Name}, "Consider using declare instead."});
        {error, _} -> define(Name, Type, Options, Scale)
    end.

checked(Type, Spec) ->
    Name = name(fetch(name, Spec)),
    [error({unsupported_metric_spec_key, Key, Spec})
     || {Key, Only} <- [{registry, default}, {constant_labels, []}],
        proplists:get_value(Key, Spec, Only) =/= Only],
    Scale = scale(Type, Name, proplists:get_value(duration_unit, Spec)),
    Options = #{labels => proplists:get_value(labels, Spec, []), help => fetch(help, Spec)},
    {Name, maps:merge(Options, kept(Type, Scale)), Scale}.

fetch(Key, Spec) ->
    case proplists:get_value(Key, Spec) of
        undefined -> error({missing_metric_spec_key, Key, Spec});
        Value -> Value
    end.

kept(counter, _) -> #{};
kept(gauge, _) -> #{value => float};
kept(histogram, {_, PerUnit}) -> #{resolution => PerUnit}.

define(Name, Type, Options, Scale) ->
    ok = answer(whittle_counters:new(Name, Type, Options)),
    persistent_term:put({?MODULE, Name}, Scale).

scale(counter, _, _) -> {plain, 1};
scale(Type, _, false) -> plain(Type, <<>>);
scale(Type, Name, Wanted) ->
    Text = atom_to_binary(Name),
    %% The first match counts. ?UNITS has milliseconds before seconds, which is a part of it.
    Named = [U || U <- ?UNITS, binary:match(Text, atom_to_binary(U)) =/= nomatch],
    case {Named, Wanted} of
        {[], undefined} -> plain(Type, Text);
        {[Unit | _], undefined} -> duration(Unit);
        {[], Unit} -> duration(Unit);
        {[Unit | _], Unit} -> duration(Unit);
        {_, Other} -> error({invalid_value, Other, "duration unit doesn't match metric name"})
    end.

duration(Unit) ->
    case lists:member(Unit, ?UNITS) of
        true -> {duration, whittle_counters_name:nanoseconds(atom_to_binary(Unit))};
        false -> error({invalid_value, Unit, "unknown duration unit"})
    end.

plain(gauge, _) -> {plain, 1};
plain(histogram, Name) ->
    case binary:match(Name, <<"bytes">>) of
        nomatch -> {plain, ?PARTS};
        _ -> {plain, 1}
    end.

%% Returns the scale of a metric. If these modules did not define it, it takes whole numbers.
-spec scale(atom()) -> scale().
scale(Name) -> persistent_term:get({?MODULE, Name}, {plain, 1}).

-spec name(atom() | string() | binary()) -> atom().
name(Name) when is_atom(Name) -> Name;
name(Name) -> binary_to_atom(iolist_to_binary(Name)).

%% Returns `undefined' for a missing series, and raises any other error.
-spec value(atom() | string() | binary(), list()) -> whittle_counters_table:value() | undefined.
value(Name, Labels) ->
    case whittle_counters:value(name(Name), Labels) of
        {ok, Value} -> Value;
        {error, {unknown_series, _}} -> undefined;
        {error, Reason} -> raise(Reason)
    end.

-spec reset(atom() | string() | binary(), list()) -> boolean().
reset(Name, Labels) -> done(whittle_counters:reset(name(Name), Labels)).

-spec remove(atom() | string() | binary(), list()) -> boolean().
remove(Name, Labels) -> done(whittle_counters:delete(name(Name), Labels)).

done(ok) -> true;
done({ok, _}) -> true;
done({error, {unknown_series, _}}) -> false;
done({error, Reason}) -> raise(Reason).

%% Raises the errors that whittle_counters returns, as prometheus.erl does.
-spec answer(ok | {error, whittle_counters:reason()}) -> ok.
answer(ok) -> ok;
answer({error, Reason}) -> raise(Reason).

%% The same for an observation. The originals accept every number. So a number that does not fit
%% here raises nothing, and whittle_counters_rejected_total counts it.
-spec observed(ok | {error, whittle_counters:reason()}) -> ok.
observed({error, {out_of_range, V}}) when is_integer(V) -> ok;
observed(Answer) -> answer(Answer).

-spec raise(whittle_counters:reason()) -> no_return().
raise({unknown_metric, Name}) -> error({unknown_metric, default, Name});
raise({bad_labels, {Names, Given}}) when is_list(Given) ->
    error({invalid_metric_arity, length(Given), length(Names)});
raise({Tag, Value}) when Tag =:= bad_step; Tag =:= bad_value; Tag =:= out_of_range ->
    error({invalid_value, Value, whittle_counters:format_error({Tag, Value})});
raise(Reason) -> error(Reason).
