%% @hidden Makes and compares definitions of metrics, with checked options and defaults.
-module(whittle_counters_metric).

-export([check/3, difference/2, clash/2, own_families/0]).

-define(DEFAULTS, #{help => <<>>, unit => <<>>, labels => [], value => integer, read => none,
                    error => 0.05, resolution => 1, range => {1, (1 bsl 59) - 1},
                    stripe => auto, max_series => 1000, expire_after => infinity,
                    windows => []}).

%% The coarsest schema has one bucket for a power of two, with an error of 0.414.
-define(LARGEST_ERROR, 0.42).

%% @doc Makes a definition of a name, a type and options.
-spec check(term(), term(), term()) ->
          {ok, whittle_counters:metric()} | {error, whittle_counters:reason()}.
check(Name, _, _) when not is_atom(Name) -> {error, {bad_name, Name}};
check(_, Type, _) when Type =/= counter, Type =/= gauge, Type =/= histogram, Type =/= timer ->
    {error, {bad_type, Type}};
check(Name, Type, Options) ->
    Kind = if is_map_key(read, Options) -> {read, Type}; true -> Type end,
    Fits = fun(Key, Value) -> has(Kind, Key) andalso option(Type, Key, Value) end,
    case whittle_counters_option:check(Fits, Options) of
        ok -> typed(Name, Type, maps:merge(?DEFAULTS, Options));
        {error, _} = Error -> Error
    end.

%% Tells which options a metric has. The library refuses an option without effect.
has({read, counter}, Key) -> common(Key) orelse Key =:= read;
has({read, gauge}, Key) -> common(Key) orelse Key =:= read;
has({read, Type}, Key) -> Key =/= read andalso has(Type, Key);
has(counter, Key) -> common(Key) orelse series(Key) orelse Key =:= stripe;
has(gauge, Key) -> common(Key) orelse series(Key) orelse Key =:= value;
has(histogram, resolution) -> true;
has(histogram, Key) -> has(timer, Key);
has(timer, Key) ->
    common(Key) orelse series(Key) orelse lists:member(Key, [stripe, error, range]).

common(Key) -> lists:member(Key, [help, unit, labels]).
series(Key) -> lists:member(Key, [max_series, expire_after, windows]).

%% The unit of a timer gives the nanoseconds in one exported unit.
typed(Name, timer, #{unit := Unit} = Options) ->
    Text = case Unit of <<>> -> <<"seconds">>; _ -> unicode:characters_to_binary(Unit) end,
    named(Name, histogram,
          Options#{unit := Text, resolution := whittle_counters_name:nanoseconds(Text)});
typed(Name, Type, Options) -> named(Name, Type, Options).

named(Name, Type, #{help := Help, unit := Unit0, labels := Labels, error := Error} = Options) ->
    Unit = unicode:characters_to_binary(Unit0),
    case {whittle_counters_name:check(Name, Type, Unit),
          whittle_counters_name:label_names(Labels, Type),
          whittle_counters_scale:schema_for(Error)} of
        {ok, ok, {ok, Schema}} ->
            {ok, Options#{name => Name, type => Type, schema => Schema,
                          family => whittle_counters_name:family(Name, Type),
                          help => unicode:characters_to_binary(Help), unit => Unit}};
        {ok, ok, error} -> {error, {bad_option, {error, Error}}};
        {ok, Bad, _} -> Bad;
        {Bad, _, _} -> Bad
    end.

option(_, help, V) -> is_text(V);
option(timer, unit, V) ->
    is_text(V) andalso
        whittle_counters_name:nanoseconds(unicode:characters_to_binary(V)) =/= none;
option(_, unit, V) -> is_text(V);
option(_, labels, V) -> whittle_counters_option:is_list_of(fun(_) -> true end, V);
option(_, value, V) -> V =:= integer orelse V =:= float;
option(_, read, V) -> is_function(V, 0);
option(_, error, V) ->
    is_float(V) andalso V > 0 andalso V =< ?LARGEST_ERROR;
option(_, resolution, V) ->
    %% A number that does not fit into a float would break the scrape.
    whittle_counters_option:is_positive(V) andalso V =< whittle_counters_scale:max_value();
option(_, range, {Low, High}) ->
    is_integer(Low) andalso is_integer(High) andalso Low >= 0 andalso Low < High
        andalso High =< whittle_counters_scale:max_value();
option(_, stripe, V) -> lists:member(V, [auto, always, never]);
option(_, max_series, V) -> whittle_counters_option:is_positive(V);
option(_, expire_after, infinity) -> true;
option(_, expire_after, V) -> whittle_counters_option:is_positive(V);
option(_, windows, V) ->
    whittle_counters_option:is_list_of(fun whittle_counters_option:is_positive/1, V);
option(_, _, _) -> false.

is_text(V) when is_binary(V); is_list(V) ->
    try is_binary(unicode:characters_to_binary(V)) catch error:badarg -> false end;
is_text(_) -> false.

%% @doc Gives the options in which a new definition differs from the old one. It compares only the
%% caller's options, because the schema follows from the error.
-spec difference(whittle_counters:metric(), whittle_counters:metric()) ->
          [{Option :: atom(), Old :: term(), New :: term()}].
difference(Old, New) ->
    [{Key, maps:get(Key, Old, none), Value}
     || {Key, Value} <- lists:sort(maps:to_list(New)), Key =/= schema,
        maps:get(Key, Old, none) =/= Value].

%% @doc Finds a defined metric, or a family of the library, that has a sample of the same name.
-spec clash(whittle_counters:metric(), [whittle_counters:metric()]) -> none | atom().
clash(#{family := Family, type := Type}, Metrics) ->
    Mine = whittle_counters_name:samples(Family, Type),
    Theirs = [{Key, F, T} || #{key := Key, name := F, type := T}
                                 <- own_families()]
        ++ [{N, F, T} || #{name := N, family := F, type := T} <- Metrics],
    case [N || {N, F, T} <- Theirs, Mine -- whittle_counters_name:samples(F, T) =/= Mine] of
        [] -> none;
        [First | _] -> First
    end.

%% @doc Gives the families of the library itself. Nobody can define them.
-spec own_families() -> [whittle_counters_scrape:family()].
own_families() ->
    [own(whittle_counters_rejected_total, <<"Updates that could not be done">>, [metric, reason]),
     own(whittle_counters_overflow_updates_total,
         <<"Updates counted in an overflow series because the metric was full">>, [metric])].

own(Key, Help, Labels) ->
    #{name => whittle_counters_name:family(Key, counter), type => counter, help => Help,
      unit => <<>>, labels => Labels, resolution => 1, schema => 0, key => Key}.
