%% @doc All that is exported, as one walk over families and series that every
%% format uses. Holds a chunk of series at a time.
-module(whittle_counters_scrape).

-export([fold/2, snapshot/0]).
-export_type([event/0, family/0]).

-type family() :: #{name := binary(), type := whittle_counters:type() | unknown,
                    help := binary(), unit := binary(), labels := [atom()],
                    resolution := pos_integer(), schema := whittle_counters_scale:schema(),
                    key := atom()}.
-type event() :: {family, family()}
               | {series, [binary()], Text :: binary(), whittle_counters_table:value()}.
%% A family's series follow it; Text is `a="x",b="y"'.

%% @doc Folds over everything: the metrics in the order of their names, the
%% collectors, and what the library says of itself.
-spec fold(fun((event(), Acc) -> Acc), Acc) -> Acc.
fold(Fun, Acc0) ->
    Acc1 = lists:foldl(fun(Metric, Acc) -> metric(Metric, Fun, Acc) end, Acc0,
                       whittle_counters_table:metrics()),
    lists:foldl(fun({Name, Type, Help, Labels, Samples}, Acc) ->
                        samples(family(Name, Type, Help, Labels), Samples, Fun, Acc)
                end, Acc1, own()).

metric(#{name := Name, read := none} = Metric, Fun, Acc) ->
    whittle_counters_table:fold_series(
      fun(Values, Text, Parts, A) ->
              Fun({series, Values, Text, whittle_counters_table:value(Parts, since_reset)}, A)
      end, Fun({family, family(Metric)}, Acc), Name);
metric(#{name := Name, read := Read} = Metric, Fun, Acc) ->
    samples(family(Metric), read(Name, Read), Fun, Acc).

%% A fun of somebody else's: whatever it does, the scrape goes on.
read(Name, Read) ->
    try Read() of
        Number when is_number(Number) -> [{[], Number}];
        Samples when is_list(Samples) -> Samples;
        Other ->
            _ = whittle_counters_table:reject(Name, {bad_reading, {Name, Other}}),
            []
    catch
        Class:Reason ->
            _ = whittle_counters_table:reject(Name, {reading_failed, {Name, Class, Reason}}),
            []
    end.

samples(#{labels := Names, key := Key} = Family, Samples, Fun, Acc) ->
    lists:foldl(fun(Sample, A) -> sample(Key, Names, Sample, Fun, A) end,
                Fun({family, Family}, Acc), Samples).

sample(Key, Names, {Labels, Number}, Fun, Acc) when is_number(Number) ->
    case whittle_counters_name:values(Names, Labels) of
        {ok, Values} ->
            Fun({series, Values, whittle_counters_name:text(Names, Values), Number}, Acc);
        {error, Reason} ->
            _ = whittle_counters_table:reject(Key, Reason),
            Acc
    end;
sample(Key, _, Other, _, Acc) ->
    _ = whittle_counters_table:reject(Key, {bad_reading, {Key, Other}}),
    Acc.

family(#{name := Key, family := Name} = Metric) ->
    (maps:with([type, help, unit, labels, resolution, schema], Metric))#{name => Name, key => Key}.

family(Name, Type, Help, Labels) ->
    #{name => Name, type => Type, help => Help, unit => <<>>, labels => Labels,
      resolution => 1, schema => 0, key => binary_to_atom(Name)}.

own() ->
    [{<<"whittle_counters_rejected">>, counter, <<"Updates that could not be done">>,
      [metric, reason],
      [{[Name, Tag], N} || {{Name, Tag}, N} <- whittle_counters_table:rejected()]},
     {<<"whittle_counters_overflow_updates">>, counter,
      <<"Updates counted in an overflow series because the metric was full">>, [metric],
      [{[Name], N} || {Name, N} <- whittle_counters_table:diverted()]}].

%% @doc Everything as terms: values by metric and label values.
-spec snapshot() -> #{binary() => #{[binary()] => whittle_counters_table:value()}}.
snapshot() ->
    {_, All} = fold(fun({family, #{name := Name}}, {_, Acc}) -> {Name, Acc#{Name => #{}}};
                       ({series, Values, _, Value}, {Name, Acc}) ->
                            {Name, maps:update_with(Name, fun(S) -> S#{Values => Value} end, Acc)}
                    end, {none, #{}}),
    All.
