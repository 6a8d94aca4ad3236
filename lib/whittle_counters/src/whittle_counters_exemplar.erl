%% @hidden Keeps exemplars of histogram series. For each power of two it keeps the last
%% observation that had one.
-module(whittle_counters_exemplar).

-export([create/0, text/1, put/4, text/4, delete/2]).

-define(TABLE, whittle_counters_exemplars).

%% The largest length of names and values in OpenMetrics, in characters.
-define(LENGTH, 128).

%% @doc Makes the table. The calling process owns it.
-spec create() -> ok.
create() ->
    _ = ets:new(?TABLE, [named_table, public, ordered_set]),
    ok.

%% @doc Formats an exemplar's labels for the export, if OpenMetrics allows them.
-spec text(term()) -> {ok, binary()} | {error, whittle_counters:reason()}.
text(Exemplar) when is_map(Exemplar) ->
    Names = lists:sort(maps:keys(Exemplar)),
    case {whittle_counters_name:label_names(Names, counter),
          whittle_counters_name:values(Names, Exemplar)} of
        {ok, {ok, Texts}} ->
            Length = lists:sum([length(unicode:characters_to_list(T)) || T <- Texts])
                + lists:sum([length(atom_to_list(N)) || N <- Names]),
            case Length =< ?LENGTH of
                true -> {ok, whittle_counters_name:text(Names, Texts)};
                false -> {error, {exemplar_too_long, Length}}
            end;
        {ok, Error} -> Error;
        {Error, _} -> Error
    end;
text(Exemplar) ->
    {error, {bad_labels, {exemplar, Exemplar}}}.

%% @doc Keeps an exemplar of an observed value. text/1 made its text.
-spec put(atom(), [binary()], non_neg_integer(), binary()) -> ok.
put(Name, Values, V, Text) ->
    Row = {{Name, Values, power(V)}, Text, V, erlang:system_time(millisecond)},
    _ = whittle_counters_table:access(fun() -> ets:insert(?TABLE, Row) end, none),
    stay(Name, Values).

%% Another process may have deleted the series since the observation.
stay(Name, Values) ->
    case whittle_counters_table:series({Name, Values}) of
        {ok, _} -> ok;
        none -> delete(Name, Values)
    end.

%% The exponent of the smallest power of two that is not less than the value.
power(V) when V =< 1 -> 0;
power(V) -> whittle_counters_scale:index(0, V).

%% @doc Formats the exemplar after the bucket up to 2^Power on its line. The result is empty
%% without an exemplar.
-spec text(atom(), [binary()], non_neg_integer(), pos_integer()) -> iodata().
text(Name, Values, Power, Resolution) ->
    case whittle_counters_table:access(fun() -> ets:lookup(?TABLE, {Name, Values, Power}) end,
                                       []) of
        [] -> [];
        [{_, Text, V, At}] ->
            [" # {", Text, "} ", float_to_binary(V / Resolution, [short]), $\s,
             float_to_binary(At / 1000, [{decimals, 3}])]
    end.

%% @doc Deletes the exemplars of a series.
-spec delete(atom(), [binary()]) -> ok.
delete(Name, Values) ->
    Match = {{Name, Values, '_'}, '_', '_', '_'},
    _ = whittle_counters_table:access(fun() -> ets:match_delete(?TABLE, Match) end, none),
    ok.
