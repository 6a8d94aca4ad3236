%% @doc Writes Prometheus' protobuf format with native histograms.
%%
%% The output consists of length-delimited `io.prometheus.client.MetricFamily' messages. The
%% fields are those of metrics.proto in prometheus/client_model.
%%
%% The buckets of a native histogram end at powers of 2^(1/2^schema) of the exported unit. If the
%% resolution of a histogram is not a power of two, as for nanoseconds exported in seconds, its
%% buckets lie between these ends. The export moves them to the nearest ends, by at most half a
%% bucket. This doubles the relative error (8.9 % for the default). Count and sum are exact.
%%
%% The length of a message precedes it, so the export holds a whole family in memory.
-module(whittle_counters_protobuf).

-export([stream/1, content_type/0]).

%% @doc Gives the Content-Type of the format.
-spec content_type() -> binary().
content_type() ->
    <<"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
      "encoding=delimited">>.

%% @doc Writes all metrics, one family at a time.
-spec stream(whittle_counters_stream:write()) -> ok | {error, term()}.
stream(Write) ->
    whittle_counters_stream:run(1, Write, fun(Out) ->
        {Family, Metrics, Out1} =
            whittle_counters_scrape:fold(fun event/2, {none, [], Out}),
        finish(Family, Metrics, Out1)
    end).

event({family, Next}, {Family, Metrics, Out}) -> {Next, [], finish(Family, Metrics, Out)};
event({series, Values, _, Value}, {Family, Metrics, Out}) ->
    {Family, [bytes(4, metric(Family, Values, Value)) | Metrics], Out}.

%% Prometheus refuses a family without metrics.
finish(_, [], Out) -> Out;
finish(#{name := Name, type := Type, help := Help, unit := Unit}, Metrics, Out) ->
    Message = iolist_to_binary([bytes(1, sample_name(Name, Type)), bytes(2, Help),
                                integer(3, type(Type)), lists:reverse(Metrics),
                                [bytes(5, Unit) || Unit =/= <<>>]]),
    whittle_counters_stream:add([varint(byte_size(Message)), Message], Out).

sample_name(Name, counter) -> <<Name/binary, "_total">>;
sample_name(Name, _) -> Name.

type(counter) -> 0;
type(gauge) -> 1;
type(histogram) -> 4.

metric(#{labels := Names, type := Type} = Family, Values, Value) ->
    [[bytes(1, [bytes(1, atom_to_binary(N)), bytes(2, V)])
      || {N, V} <- lists:zip(Names, Values)],
     case Type of
         counter -> bytes(3, double(1, Value));
         gauge -> bytes(2, double(1, Value));
         histogram -> bytes(7, histogram(Family, Value))
     end].

histogram(#{resolution := Resolution, schema := Schema},
          #{count := Count, sum := Sum, zeros := Zeros, buckets := Buckets}) ->
    Shift = round(math:log2(Resolution) * (1 bsl Schema)),
    Moved = [{I - Shift, N} || {I, N} <- Buckets],
    [integer(1, Count), double(2, Sum / Resolution), integer(5, zigzag(Schema)),
     %% The zero bucket holds only zero. An empty histogram needs a span without length, or
     %% Prometheus does not recognize it as a native one.
     double(6, 0.0), integer(7, Zeros),
     case Moved of
         [] -> bytes(12, [integer(1, 0), integer(2, 0)]);
         _ -> spans(Moved)
     end].

%% Makes runs of buckets without a gap. The first offset starts at bucket 0, the others at the end
%% of the previous run. Counts are differences to the previous bucket.
spans(Buckets) ->
    {Spans, Deltas, _, _} =
        lists:foldl(fun({I, N}, {[{Offset, Length} | Rest], Ds, I0, N0}) when I =:= I0 + 1 ->
                            {[{Offset, Length + 1} | Rest], [N - N0 | Ds], I, N};
                       ({I, N}, {Ss, Ds, I0, N0}) ->
                            {[{I - I0 - 1, 1} | Ss], [N - N0 | Ds], I, N}
                    end, {[], [], -1, 0}, Buckets),
    [[bytes(12, [integer(1, zigzag(Offset)), integer(2, Length)])
      || {Offset, Length} <- lists:reverse(Spans)],
     [integer(13, zigzag(D)) || D <- lists:reverse(Deltas)]].

zigzag(N) when N >= 0 -> 2 * N;
zigzag(N) -> -2 * N - 1.

bytes(Field, Data) -> [varint((Field bsl 3) bor 2), varint(iolist_size(Data)), Data].
integer(Field, N) -> [varint(Field bsl 3), varint(N)].
double(Field, N) -> [varint((Field bsl 3) bor 1), <<N:64/float-little>>].

varint(N) when N < 128 -> <<N>>;
varint(N) -> [<<1:1, N:7>>, varint(N bsr 7)].
