%% @hidden Walks over all exported families and series, for every format. It holds a part of the
%% series at a time.
-module(whittle_counters_scrape).

-export([fold/2, fold_cells/2, snapshot/0]).
-export_type([event/0, family/0]).

-type family() :: #{name := binary(), type := whittle_counters:type() | unknown,
                    help := binary(), unit := binary(), labels := [atom()],
                    resolution := pos_integer(), schema := whittle_counters_scale:schema(),
                    key := atom()}.
-type event() :: {family, family()}
               | {series, [binary()], Text :: binary(), whittle_counters_table:value()}.
%% The series of a family follow it. Text is `a="x",b="y"'.

%% @doc Folds over the metrics in the order of their names, over the collectors, and over the
%% metrics of the library itself.
-spec fold(fun((event(), Acc) -> Acc), Acc) -> Acc.
fold(Fun, Acc) ->
    fold(fun(#{name := Name} = Metric, A) ->
                 whittle_counters_table:fold_series(
                   fun(Values, Text, Parts, B) ->
                           Value = whittle_counters_table:value(Parts, since_reset),
                           Fun({series, Values, Text, Value}, B)
                   end, Fun({family, family(Metric)}, A), Name)
         end, Fun, Acc).

%% @doc Folds over all series for exporters that report growth since the last time. Counters and
%% histograms come as `{cells, Now}' for whittle_counters_table:gained/2, even while they are
%% hidden after their expiry.
-spec fold_cells(fun((event() | {series, [binary()], binary(), {cells, list()}}, Acc) -> Acc),
                 Acc) -> Acc.
fold_cells(Fun, Acc) ->
    fold(fun(#{name := Name, type := Type} = Metric, A) ->
                 A1 = Fun({family, family(Metric)}, A),
                 case Type of
                     gauge ->
                         whittle_counters_table:fold_series(
                           fun(Values, Text, Parts, B) ->
                                   Value = whittle_counters_table:value(Parts, since_reset),
                                   Fun({series, Values, Text, Value}, B)
                           end, A1, Name);
                     _ ->
                         whittle_counters_table:fold_all(
                           fun(Values, Text, Parts, B) ->
                                   Now = whittle_counters_table:now(Parts),
                                   Fun({series, Values, Text, {cells, Now}}, B)
                           end, A1, Name)
                 end
         end, Fun, Acc).

%% Counted handles the metrics that no fun reads.
fold(Counted, Fun, Acc0) ->
    Metrics = whittle_counters_table:metrics(),
    Readers = start_readers(Metrics),
    try
        Acc1 = lists:foldl(
                 fun(#{read := none} = Metric, Acc) -> Counted(Metric, Acc);
                    (#{name := Name} = Metric, Acc) ->
                         samples(family(Metric), read(Name, Readers), Fun, Acc)
                 end, Acc0, Metrics),
        lists:foldl(fun({Family, Samples}, Acc) -> samples(Family, Samples, Fun, Acc) end,
                    Acc1, lists:zip(whittle_counters_metric:own_families(), own_samples()))
    after
        stop_readers(Readers)
    end.

-dialyzer({no_return, start_readers/1}).
%% These funs belong to users. The scrape continues whatever they do. Each fun has a process of
%% its own, which ends if the fun takes too long. The processes run at the same time, so that a
%% scrape waits for one timeout and not for one of each.
start_readers(Metrics) ->
    Deadline = now_ms() + whittle_counters_option:env(read_timeout),
    {Deadline, maps:from_list([{Name, spawn_monitor(fun() -> answer(Name, Read) end)}
                               || #{name := Name, read := Read} <- Metrics, Read =/= none])}.

stop_readers({_, Readers}) ->
    maps:foreach(fun(_, {Pid, Ref}) ->
                         true = exit(Pid, kill),
                         true = demonitor(Ref, [flush])
                 end, Readers).

read(Name, {Deadline, Readers}) ->
    {Pid, Ref} = map_get(Name, Readers),
    Result = receive
                 {'DOWN', Ref, process, Pid, {?MODULE, Outcome}} -> Outcome;
                 {'DOWN', Ref, process, Pid, Reason} ->
                     {error, {reading_failed, {Name, exit, Reason}}}
             after max(0, Deadline - now_ms()) ->
                     {error, {reading_failed, {Name, timeout,
                                               whittle_counters_option:env(read_timeout)}}}
             end,
    case Result of
        {ok, Samples} -> Samples;
        {error, Why} ->
            _ = whittle_counters_table:reject(Name, Why),
            []
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% The process ends, and its answer is the exit reason.
-spec answer(atom(), fun()) -> no_return().
answer(Name, Read) -> exit({?MODULE, attempt(Name, Read)}).

attempt(Name, Read) ->
    try Read() of
        Number when is_number(Number) -> {ok, [{[], Number}]};
        %% length/1 fails for an improper list.
        Samples when length(Samples) >= 0 -> {ok, Samples};
        Other -> {error, {bad_reading, {Name, Other}}}
    catch
        Class:Reason -> {error, {reading_failed, {Name, Class, Reason}}}
    end.

samples(Family, Samples, Fun, Acc0) ->
    {Acc, _} = lists:foldl(fun(Sample, {Acc, Seen}) -> sample(Family, Sample, Fun, Acc, Seen) end,
                           {Fun({family, Family}, Acc0), #{}}, Samples),
    Acc.

%% Seen has the earlier label sets, because parsers refuse a second one.
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

%% One number that a parser refuses breaks the whole scrape.
fits(counter, Number) when is_number(Number), Number < 0 -> false;
fits(_, Number) -> is_float(Number) orelse is_integer(Number) andalso abs(Number) < 1 bsl 1023.

family(#{name := Key, family := Name} = Metric) ->
    (maps:with([type, help, unit, labels, resolution, schema], Metric))#{name => Name, key => Key}.

own_samples() ->
    [[{[Name, Tag], N} || {{Name, Tag}, N} <- whittle_counters_table:rejected()],
     [{[Name], N} || {Name, N} <- whittle_counters_table:diverted()]].

%% @doc Gives all values as terms, by metric and label values.
-spec snapshot() -> #{binary() => #{[binary()] => whittle_counters_table:value()}}.
snapshot() ->
    {_, All} = fold(fun({family, #{name := Name}}, {_, Acc}) -> {Name, Acc#{Name => #{}}};
                       ({series, Values, _, Value}, {Name, Acc}) ->
                            {Name, maps:update_with(Name, fun(S) -> S#{Values => Value} end, Acc)}
                    end, {none, #{}}),
    All.
