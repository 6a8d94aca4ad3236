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

-dialyzer({no_return, read/2}).
%% A fun of somebody else's: whatever it does, the scrape goes on. It has a
%% process of its own, which is ended when it takes too long.
read(Name, Read) ->
    Timeout = application:get_env(whittle_counters, read_timeout, 2000),
    {Pid, Ref} = spawn_monitor(fun() -> answer(Name, Read) end),
    Result = receive
                 {'DOWN', Ref, process, Pid, {?MODULE, Outcome}} -> Outcome;
                 {'DOWN', Ref, process, Pid, Reason} ->
                     {error, {reading_failed, {Name, exit, Reason}}}
             after Timeout ->
                     true = exit(Pid, kill),
                     true = demonitor(Ref, [flush]),
                     {error, {reading_failed, {Name, timeout, Timeout}}}
             end,
    case Result of
        {ok, Samples} -> Samples;
        {error, Why} ->
            _ = whittle_counters_table:reject(Name, Why),
            []
    end.

%% What it ends with is its answer.
-spec answer(atom(), fun()) -> no_return().
answer(Name, Read) -> exit({?MODULE, attempt(Name, Read)}).

attempt(Name, Read) ->
    try Read() of
        Number when is_number(Number) -> {ok, [{[], Number}]};
        %% length/1 fails for one that is improper.
        Samples when length(Samples) >= 0 -> {ok, Samples};
        Other -> {error, {bad_reading, {Name, Other}}}
    catch
        Class:Reason -> {error, {reading_failed, {Name, Class, Reason}}}
    end.

samples(Family, Samples, Fun, Acc0) ->
    {Acc, _} = lists:foldl(fun(Sample, {Acc, Seen}) -> sample(Family, Sample, Fun, Acc, Seen) end,
                           {Fun({family, Family}, Acc0), #{}}, Samples),
    Acc.

%% Seen has the label sets that were there before: parsers refuse a second one.
sample(#{key := Key, labels := Names, type := Type}, {Labels, Number} = Sample, Fun, Acc, Seen) ->
    case {fits(Type, Number), whittle_counters_name:values(Names, Labels)} of
        {true, {ok, Values}} when is_map_key(Values, Seen) ->
            refuse(Key, {read_twice, {Key, Values}}, Acc, Seen);
        {true, {ok, Values}} ->
            {Fun({series, Values, whittle_counters_name:text(Names, Values), Number}, Acc),
             Seen#{Values => true}};
        {true, {error, Reason}} -> refuse(Key, Reason, Acc, Seen);
        {false, _} -> refuse(Key, {bad_reading, {Key, Sample}}, Acc, Seen)
    end;
sample(#{key := Key}, Other, _, Acc, Seen) ->
    refuse(Key, {bad_reading, {Key, Other}}, Acc, Seen).

refuse(Key, Reason, Acc, Seen) ->
    _ = whittle_counters_table:reject(Key, Reason),
    {Acc, Seen}.

%% One number that a parser does not take costs it the whole scrape.
fits(counter, Number) when is_number(Number), Number < 0 -> false;
fits(_, Number) -> is_float(Number) orelse is_integer(Number) andalso abs(Number) < 1 bsl 1023.

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
