%% @doc A metric's definition: checked options, defaults, and the one line that
%% says what is wrong.
-module(whittle_counters_metric).

-export([check/3, format_error/1]).

-define(DEFAULTS, #{help => <<>>, unit => <<>>, labels => [], value => integer, read => none,
                    error => 0.05, resolution => 1, range => {1, (1 bsl 59) - 1},
                    stripe => auto, max_series => 1000, expire_after => infinity,
                    windows => []}).

%% @doc Makes a definition of a name, a type and options.
-spec check(term(), term(), term()) ->
          {ok, whittle_counters:metric()} | {error, whittle_counters:reason()}.
check(Name, _, _) when not is_atom(Name) -> {error, {bad_name, Name}};
check(Name, timer, Options) when is_map(Options) ->
    check(Name, histogram, maps:merge(#{unit => <<"seconds">>, resolution => 1000000000}, Options));
check(_, Type, _) when Type =/= counter, Type =/= gauge, Type =/= histogram ->
    {error, {bad_type, Type}};
check(Name, Type, Options) ->
    case whittle_counters_option:check(fun option/2, Options) of
        ok -> named(Name, Type, maps:merge(?DEFAULTS, Options));
        {error, _} = Error -> Error
    end.

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

option(help, V) -> is_text(V);
option(unit, V) -> is_text(V);
option(labels, V) -> whittle_counters_option:is_list_of(fun(_) -> true end, V);
option(value, V) -> V =:= integer orelse V =:= float;
option(read, V) -> is_function(V, 0);
option(error, V) -> is_float(V) andalso V > 0;
option(resolution, V) ->
    %% One that no float holds would cost the scrape.
    whittle_counters_option:is_positive(V) andalso V =< whittle_counters_scale:max_value();
option(range, {Low, High}) ->
    is_integer(Low) andalso is_integer(High) andalso Low >= 0 andalso Low < High
        andalso High =< whittle_counters_scale:max_value();
option(stripe, V) -> lists:member(V, [auto, always, never]);
option(max_series, V) -> whittle_counters_option:is_positive(V);
option(expire_after, infinity) -> true;
option(expire_after, V) -> whittle_counters_option:is_positive(V);
option(windows, V) ->
    whittle_counters_option:is_list_of(fun whittle_counters_option:is_positive/1, V);
option(_, _) -> false.

is_text(V) when is_binary(V); is_list(V) ->
    try is_binary(unicode:characters_to_binary(V)) catch error:badarg -> false end;
is_text(_) -> false.

%% @doc One line for a reason, which ends with what to do.
-spec format_error(whittle_counters:reason()) -> unicode:chardata().
format_error({Tag, Context}) ->
    io_lib:format(format(Tag) ++ "~0tp", [Context]);
format_error(Other) ->
    io_lib:format("unexpected: ~0tp", [Other]).

format(not_started) -> "not running; start the application ";
format(unknown_metric) -> "no such metric; define it first with new/3: ";
format(unknown_series) -> "no such series; it was deleted or never updated: ";
format(already_defined) ->
    "the metric is already defined, otherwise; use the same options or another name. "
        "Differences as {Option, Defined, Now}: ";
format(name_taken) -> "the samples of another metric have this name; choose another: ";
format(bad_name) -> "not a metric's name in OpenMetrics ([a-zA-Z_:][a-zA-Z0-9_:]*, no reserved "
                        "ending such as _count); choose another: ";
format(bad_unit) -> "the name must end with _UNIT (before _total); rename one of them: ";
format(bad_type) -> "not a type; use counter, gauge, histogram or timer: ";
format(bad_option) -> "option unknown or its value not allowed; see options(): ";
format(bad_label_name) -> "not a label's name, or twice; choose another: ";
format(bad_labels) -> "the labels do not fit the metric; give a value for each of the first: ";
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
format(bad_rule) -> "not a rule; give {Metric, inc | {inc | add | set | observe, Key}, Labels}: ";
format(no_samples) -> "no rate yet; define the metric with windows => [Seconds], or wait: ";
format(registry_failed) -> "the registry crashed during the call; it was restarted, try again: ";
format(Tag) -> atom_to_list(Tag) ++ ": ".
