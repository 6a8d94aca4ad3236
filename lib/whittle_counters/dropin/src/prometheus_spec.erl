%% @hidden What the drop-in modules share: a prometheus.erl specification, a
%% proplist, as a definition; its names as atoms; its errors; and its scales.
%%
%% A metric whose name has a unit of time in it, or that has a `duration_unit', takes
%% native time and is exported in that unit, unless `duration_unit' is false; others
%% take plain numbers. The scale of each metric is a persistent term: they are few,
%% and looked up at each observation.
-module(prometheus_spec).

-export([declare/2, new/2, name/1, scale/1, answer/1, observed/1, value/2, reset/2, remove/2]).
-export_type([scale/0]).

-type scale() :: {duration | plain, PerUnit :: pos_integer()}.
%% How many nanoseconds, or how many of what is kept, are one exported unit.

-define(UNITS, [microseconds, milliseconds, seconds, minutes, hours, days]).

%% Of numbers that are no time, parts that are kept of a whole one. Of bytes none:
%% their sums would not fit into 64 bits.
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
    %% The longer ones first: there are seconds in milliseconds.
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

%% The scale of a metric; plain whole numbers for one that was defined elsewhere.
-spec scale(atom()) -> scale().
scale(Name) -> persistent_term:get({?MODULE, Name}, {plain, 1}).

-spec name(atom() | string() | binary()) -> atom().
name(Name) when is_atom(Name) -> Name;
name(Name) -> binary_to_atom(iolist_to_binary(Name)).

%% A series that is not there is `undefined', what else is wrong is raised.
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

%% prometheus.erl raises where whittle_counters answers.
-spec answer(ok | {error, whittle_counters:reason()}) -> ok.
answer(ok) -> ok;
answer({error, Reason}) -> raise(Reason).

%% The same for an observation. The originals take every number: one that has no
%% place here is counted in whittle_counters_rejected_total, and the caller lives on.
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
