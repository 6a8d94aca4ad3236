%% @doc A metric's definition: checked options, defaults, and the one line that
%% says what is wrong.
-module(whittle_counters_metric).

-export([check/3, format_error/1]).

-define(DEFAULTS, #{help => <<>>, unit => <<>>, labels => [], value => integer, read => none,
                    error => 0.05, resolution => 1, range => {1, (1 bsl 59) - 1},
                    stripe => auto, max_series => 1000, expire_after => infinity,
                    windows => []}).

%% Coarser than one bucket for a power of two there is none, and that errs by 0.414.
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

%% Which options a metric has: one that would change nothing is refused.
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

%% A timer's unit says how many nanoseconds are one.
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
    %% One that no float holds would cost the scrape.
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

%% @doc One line for a reason, which says what to do.
-spec format_error(whittle_counters:reason()) -> unicode:chardata().
format_error({bad_labels, {[], Given}}) when is_number(Given) ->
    io_lib:format("the metric has no labels; to count by a number give both, as in "
                  "inc(Name, [], ~0tp)", [Given]);
format_error({bad_option, {window, Window}}) ->
    io_lib:format("a rate's window is a whole number of seconds, one of the metric's windows or "
                  "less: ~0tp", [Window]);
format_error({cannot_listen, Reason}) ->
    io_lib:format("cannot listen there; ~ts: ~0tp", [listen(Reason), Reason]);
format_error({Tag, Context}) when is_atom(Tag) ->
    io_lib:format(format(Tag) ++ "~0tp", [Context]);
format_error(Other) ->
    io_lib:format("unexpected: ~0tp", [Other]).

listen(eaddrnotavail) -> "no interface of this machine has the address, choose another ip";
listen(eafnosupport) -> "this machine has no such addresses, choose another ip";
listen(eacces) -> "the system does not allow it, choose a port from 1024 on";
listen(_) -> "choose another port".

format(not_started) -> "not running; start the application ";
format(unknown_metric) -> "no such metric; define it first with new/3: ";
format(unknown_series) -> "no such series; it was deleted, has expired or was never updated: ";
format(read_at_scrape) ->
    "the metric is read by its fun at the scrape only; snapshot/0 reads it too: ";
format(already_defined) ->
    "the metric is already defined, otherwise; use the same options or another name. "
        "Differences as {Option, Defined, Now}: ";
format(name_taken) -> "the samples of another metric have this name; choose another: ";
format(bad_name) ->
    "not a metric's name in OpenMetrics (an atom like [a-zA-Z_:][a-zA-Z0-9_:]* that does not end "
        "with _created, _bucket, _count, _sum or _info, nor with _total but for a counter); "
        "choose another: ";
format(bad_unit) -> "the name must end with _UNIT (before _total); rename one of them: ";
format(bad_type) -> "not a type; use counter, gauge, histogram or timer: ";
format(bad_option) ->
    "not an option here, or its value not allowed; see the type options() of the module that was "
        "called, and the README on which option goes with which type: ";
format(bad_label_name) -> "not a label's name, or twice; choose another: ";
format(bad_labels) ->
    "the labels do not fit the metric; give a value for each of its names, as {Names, Given}: ";
format(bad_label_value) ->
    "a label's value must be text (atom, integer, UTF-8 binary, characters): ";
format(bad_step) -> "a counter grows by whole numbers from 0; use a gauge to go down: ";
format(bad_value) -> "a gauge of this kind does not take this; define it with value => float: ";
format(out_of_range) -> "a histogram takes whole numbers from 0 to 2^59-1: ";
format(bad_handle) -> "neither a metric's name nor a handle of the type, as {Given, Wanted}: ";
format(wrong_type) -> "the metric is of another type, as {Name, Its, Wanted}: ";
format(read_only) -> "the gauge is read by its fun and cannot be set: ";
format(series_full) -> "the metric has max_series series; raise it or drop a label: ";
format(bad_reading) ->
    "the fun gave no number that can be exported (a counter's is 0 or more); return one or "
        "[{Labels, Number}]: ";
format(reading_failed) ->
    "the gauge's fun crashed or took longer than read_timeout, its series are left out: ";
format(read_twice) -> "the gauge's fun gave a label set twice; the first is taken: ";
format(exemplar_too_long) -> "an exemplar has at most 128 characters; keep only an id: ";
format(scrape_cut_off) -> "a scrape was cut off by its client: ";
format(bad_quantile) -> "a quantile is a number from 0 to 1: ";
format(cannot_listen) -> "cannot listen there; choose another port: ";
format(bad_rule) ->
    "not a list of rules {Metric, inc | {inc | add | set | observe, Key}, [MetadataKey]}: ";
format(push_failed) -> "a push was not sent, the next tells of it; check host and network: ";
format(no_samples) -> "no rate yet; define the metric with windows => [Seconds], or wait: ";
format(registry_failed) -> "the registry crashed during the call; it was restarted, try again: ";
format(Tag) -> atom_to_list(Tag) ++ ": ".
