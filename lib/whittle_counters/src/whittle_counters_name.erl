%% @doc Checks names, units and labels by the rules of OpenMetrics, and formats label sets.
%%
%% The rules come from the OpenMetrics 1.0 text format. A metric's name is
%% `[a-zA-Z_:][a-zA-Z0-9_:]*'. A label's name is `[a-zA-Z_][a-zA-Z0-9_]*' without two leading
%% underscores. A unit ends the name. No two families may have a sample name in common.
-module(whittle_counters_name).

-export([family/2, samples/2, check/3, label_names/2, nanoseconds/1]).
-export([values/2, text/2, escape/1, escape_help/1]).

%% @doc Gives the family's name. For a counter it has no `_total'. This application does not use
%% the module string, because string loads unicode_util, which takes 600 KB, four times as much as
%% the whole application.
-spec family(atom(), whittle_counters:type()) -> binary().
family(Name, counter) ->
    Text = atom_to_binary(Name),
    case ends(Text, <<"_total">>) of
        true -> binary:part(Text, 0, byte_size(Text) - byte_size(<<"_total">>));
        false -> Text
    end;
family(Name, _) ->
    atom_to_binary(Name).

%% @doc Gives every name that the family's samples may have, the family's own first.
-spec samples(binary(), whittle_counters:type()) -> [binary()].
samples(Family, counter) ->
    [Family, <<Family/binary, "_total">>, <<Family/binary, "_created">>];
samples(Family, gauge) ->
    [Family];
samples(Family, histogram) ->
    [Family | [<<Family/binary, Suffix/binary>>
               || Suffix <- [<<"_bucket">>, <<"_count">>, <<"_sum">>, <<"_created">>]]].

%% @doc Checks a metric's name and unit. A counter's name may end in `_total'. The unit, if there
%% is one, ends the family's name.
-spec check(atom(), whittle_counters:type(), binary()) ->
          ok | {error, {bad_name | bad_unit, term()}}.
check(Name, Type, Unit) ->
    Family = family(Name, Type),
    Reserved = [<<"_total">>, <<"_created">>, <<"_bucket">>, <<"_count">>,
                <<"_sum">>, <<"_info">>],
    case matches(Family, "^[a-zA-Z_:][a-zA-Z0-9_:]*$")
        andalso not lists:any(fun(End) -> ends(Family, End) end, Reserved) of
        false -> {error, {bad_name, Name}};
        true when Unit =:= <<>> -> ok;
        true ->
            case matches(Unit, "^[a-zA-Z0-9_:]+$")
                andalso ends(Family, <<"_", Unit/binary>>) of
                true -> ok;
                false -> {error, {bad_unit, {Name, Unit}}}
            end
    end.

%% @doc Gives the nanoseconds of a unit of time. The result is `none' for another unit.
-spec nanoseconds(binary()) -> pos_integer() | none.
nanoseconds(<<"nanoseconds">>) -> 1;
nanoseconds(<<"microseconds">>) -> 1000;
nanoseconds(<<"milliseconds">>) -> 1000000;
nanoseconds(<<"seconds">>) -> 1000000000;
nanoseconds(<<"minutes">>) -> 60000000000;
nanoseconds(<<"hours">>) -> 3600000000000;
nanoseconds(<<"days">>) -> 86400000000000;
nanoseconds(_) -> none.

%% @doc Checks label names.
-spec label_names([term()], whittle_counters:type()) ->
          ok | {error, {bad_label_name, term()}}.
label_names(Names, Type) when is_list(Names) ->
    Taken = [le || Type =:= histogram],
    case [N || N <- Names, not is_atom(N) orelse lists:member(N, Taken)
                   orelse not matches(atom_to_binary(N), "^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$")]
        ++ (Names -- lists:usort(Names)) of
        [] -> ok;
        [Bad | _] -> {error, {bad_label_name, Bad}}
    end;
label_names(Names, _) ->
    {error, {bad_label_name, Names}}.

%% @doc Gives the texts of a label set's values, in the order in which the metric names its
%% labels. A value is an atom, an integer, a UTF-8 binary or a list of characters. The set may
%% also be a map from label to value.
-spec values([atom()], term()) ->
          {ok, [binary()]} | {error, {bad_labels | bad_label_value, term()}}.
values(Names, Labels) when is_map(Labels) ->
    case map_size(Labels) =:= length(Names)
        andalso lists:all(fun(N) -> is_map_key(N, Labels) end, Names) of
        true -> values(Names, [map_get(N, Labels) || N <- Names]);
        false -> {error, {bad_labels, {Names, Labels}}}
    end;
values(Names, Labels) ->
    try length(Labels) =:= length(Names) andalso [value(L) || L <- Labels] of
        false -> {error, {bad_labels, {Names, Labels}}};
        Values -> {ok, Values}
    catch
        error:badarg -> {error, {bad_labels, {Names, Labels}}};
        throw:Bad -> {error, {bad_label_value, Bad}}
    end.

value(V) when is_atom(V) -> atom_to_binary(V);
value(V) when is_integer(V) -> integer_to_binary(V);
value(V) when is_binary(V); is_list(V) ->
    try unicode:characters_to_binary(V) of
        Text when is_binary(Text) -> Text;
        _ -> throw(V)
    catch
        error:badarg -> throw(V)
    end;
value(V) -> throw(V).

%% @doc Formats a label set as `a="x",b="y"', escaped. The text is empty without labels.
-spec text([atom()], [binary()]) -> binary().
text(Names, Values) ->
    Pairs = lists:zipwith(fun(N, V) -> [atom_to_binary(N), "=\"", escape(V), $"] end,
                          Names, Values),
    iolist_to_binary(lists:join($,, Pairs)).

%% @doc Escapes a label value that stands in quotes.
-spec escape(binary()) -> binary().
escape(Text) -> << <<(escape_char(C, true))/binary>> || <<C>> <= Text >>.

%% @doc Escapes help text. Quotes stay, as in Prometheus' format.
-spec escape_help(binary()) -> binary().
escape_help(Text) -> << <<(escape_char(C, false))/binary>> || <<C>> <= Text >>.

escape_char($\\, _) -> <<"\\\\">>;
escape_char($\n, _) -> <<"\\n">>;
escape_char($", true) -> <<"\\\"">>;
escape_char(C, _) -> <<C>>.

matches(Text, Pattern) -> re:run(Text, Pattern, [{capture, none}, dollar_endonly]) =:= match.

ends(Text, End) ->
    Size = byte_size(Text) - byte_size(End),
    Size > 0 andalso binary:part(Text, Size, byte_size(End)) =:= End.
