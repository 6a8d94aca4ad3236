%% @hidden Formats the reasons of errors. It is a separate module, so that a small system that
%% formats no errors leaves the texts out.
-module(whittle_counters_error).

-export([format/1]).

%% @doc Formats a reason as one line. The line says what to do.
-spec format(whittle_counters:reason()) -> unicode:chardata().
format({bad_labels, {[], Given}}) when is_number(Given) ->
    io_lib:format("the metric has no labels; to count by a number give labels and number, as in "
                  "inc(Name, [], ~0tp)", [Given]);
format({bad_labels, {exemplar, Given}}) ->
    io_lib:format("an exemplar is a map from label names to values: ~0tp", [Given]);
format({bad_option, {Key, Value} = Option})
  when not is_list(Value), not is_binary(Value), (Key =:= help orelse Key =:= unit) ->
    io_lib:format("the option ~s must be a text; write it between quotes: ~0tp", [Key, Option]);
format({bad_option, {window, Window}}) ->
    io_lib:format("a rate's window is a whole number of seconds, at most the longest of the "
                  "metric's windows: ~0tp", [Window]);
format({cannot_listen, Reason}) ->
    io_lib:format("the endpoint cannot listen at this address and port; ~ts: ~0tp",
                  [listen(Reason), Reason]);
format({Tag, Context}) when is_atom(Tag) ->
    io_lib:format(text(Tag) ++ "~0tp", [Context]);
format(Other) ->
    io_lib:format("unexpected: ~0tp", [Other]).

listen(eaddrnotavail) -> "no interface of this machine has the address, choose another ip";
listen(eafnosupport) -> "this machine has no such addresses, choose another ip";
listen(eacces) -> "the system does not allow it, choose a port from 1024 on";
listen(_) -> "choose another port".

text(not_started) -> "the application does not run; start it: ";
text(unknown_metric) -> "no such metric; define it first with new/3: ";
text(unknown_series) -> "no such series; it was deleted, has expired or was never updated: ";
text(read_at_scrape) ->
    "the metric is read by its fun at the scrape only; snapshot/0 reads it too: ";
text(already_defined) ->
    "the metric is already defined with other options; use the same options or another name. "
        "Differences as {Option, Defined, Now}: ";
text(name_taken) -> "the samples of another metric have this name; choose another: ";
text(bad_name) ->
    "OpenMetrics does not allow this name for a metric (it takes an atom like "
        "[a-zA-Z_:][a-zA-Z0-9_:]* that does not end with _created, _bucket, _count, _sum or "
        "_info; only a counter's name may end with _total); choose another: ";
text(bad_unit) -> "the metric's name must end with _UNIT (before _total); rename one of them: ";
text(bad_type) -> "the type is unknown; use counter, gauge, histogram or timer: ";
text(bad_option) ->
    "the function does not take this option or this value; see the type options() of the module "
        "that you called, and the README on which option goes with which type: ";
text(bad_label_name) ->
    "a label's name is an atom like [a-zA-Z_][a-zA-Z0-9_]* that does not begin with __, is not le "
        "in a histogram, and occurs once; choose another: ";
text(bad_labels) ->
    "the labels do not fit the metric; give a value for each of its names. {Names, Given}: ";
text(bad_label_value) ->
    "a label's value must be text (atom, integer, UTF-8 binary, characters): ";
text(bad_step) ->
    "a counter grows by whole numbers from 0 to 2^59-1 at a time; use a gauge to go down: ";
text(bad_value) ->
    "a gauge takes whole numbers of 64 bits, or with value => float any number that a float can "
        "hold: ";
text(out_of_range) -> "a histogram takes whole numbers from 0 to 2^59-1: ";
text(bad_handle) ->
    "this is neither a metric's name nor a handle of the type; take a handle of the wanted type. "
        "{Given, Wanted}: ";
text(wrong_type) ->
    "the metric has another type; use the functions of its type. {Name, Its, Wanted}: ";
text(read_only) -> "the metric's fun gives its values; you cannot set it: ";
text(series_full) -> "the metric has max_series series; raise it or drop a label: ";
text(bad_reading) ->
    "the fun gave no number that can be exported (a counter's is 0 or more); return one or "
        "[{Labels, Number}]: ";
text(reading_failed) ->
    "the metric's fun crashed or took longer than read_timeout; the scrape leaves its series out: ";
text(read_twice) -> "the metric's fun gave a label set twice; the scrape takes the first: ";
text(exemplar_too_long) -> "an exemplar has at most 128 characters; keep only an id: ";
text(scrape_cut_off) ->
    "a scrape was cut off: its client went away, or did not read it in time (`timeout' and "
        "`patience' of whittle_counters_http), or the scrape itself failed: ";
text(bad_quantile) -> "a quantile is a number from 0 to 1: ";
text(bad_rule) ->
    "this is not a list of rules {Metric, inc | {inc | add | set | observe, Key}, [MetadataKey]}: ";
text(push_failed) ->
    "a push was not sent, and the next one sends its counts; check host and network: ";
text(line_too_long) ->
    "the StatsD line of a series is longer than a datagram and was left out; cut its labels. "
        "{Name, Bytes}: ";
text(no_samples) -> "no rate yet; define the metric with windows => [Seconds], or wait: ";
text(registry_failed) -> "the registry crashed during the call; it was restarted, try again: ";
text(Tag) -> atom_to_list(Tag) ++ ": ".
