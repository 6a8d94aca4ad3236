%% @doc Writes Prometheus' text format 0.0.4 and OpenMetrics 1.0, as a stream.
%%
%% The export adds up a histogram's buckets at powers of two of the observed unit. Fine buckets
%% end there too, so the counts are exact. The protobuf format has the fine buckets
%% (whittle_counters_protobuf).
-module(whittle_counters_text).

-export([stream/2, render/1, content_type/1]).
-export_type([format/0]).

-type format() :: prometheus | openmetrics.

%% Bytes that the export gathers before a write. With fewer bytes the cost of a write shows, and
%% with more bytes only memory grows (bench/counters).
-define(FLUSH, 16384).

%% @doc Gives the Content-Type of a format.
-spec content_type(format()) -> binary().
content_type(prometheus) -> <<"text/plain; version=0.0.4; charset=utf-8">>;
content_type(openmetrics) -> <<"application/openmetrics-text; version=1.0.0; charset=utf-8">>.

%% @doc Gives all metrics in one piece.
-spec render(format()) -> binary().
render(Format) ->
    {ok, Chunks} = whittle_counters_stream:collect(fun(Write) -> stream(Format, Write) end),
    iolist_to_binary(Chunks).

%% @doc Writes all metrics in pieces of about 16 KB. If Write returns an error, the function stops
%% and returns it.
-spec stream(format(), whittle_counters_stream:write()) -> ok | {error, term()}.
stream(Format, Write) ->
    whittle_counters_stream:run(?FLUSH, Write, fun(Out) ->
        {_, Out1} = whittle_counters_scrape:fold(
                      fun(Event, {Family, O}) -> event(Format, Event, Family, O) end,
                      {none, Out}),
        case Format of
            openmetrics -> whittle_counters_stream:add(<<"# EOF\n">>, Out1);
            prometheus -> Out1
        end
    end).

event(Format, {family, #{name := Name} = Family}, _, Out) ->
    {Family, whittle_counters_stream:add(head(Format, sample_name(Format, Name, Family), Family),
                                         Out)};
event(Format, {series, Values, Text, #{buckets := _} = Value}, Family, Out) ->
    {Family, whittle_counters_stream:add(histogram(Format, Family, Values, Text, Value), Out)};
event(_, {series, _, Text, Value}, Family, Out) ->
    {Family, whittle_counters_stream:add(sample(Family, Text, Value), Out)}.

%% OpenMetrics names a counter's family without `_total'. Prometheus' own format has only the
%% sample's name.
sample_name(prometheus, Name, #{type := counter}) -> [Name, "_total"];
sample_name(_, Name, _) -> Name.

head(Format, Name, #{type := Type, help := Help, unit := Unit}) ->
    [[["# HELP ", Name, $\s, help(Format, Help), $\n] || Help =/= <<>>],
     ["# TYPE ", Name, $\s, atom_to_binary(Type), $\n],
     [["# UNIT ", Name, $\s, Unit, $\n] || Format =:= openmetrics, Unit =/= <<>>]].

help(prometheus, Help) -> whittle_counters_name:escape_help(Help);
help(openmetrics, Help) -> whittle_counters_name:escape(Help).

sample(#{name := Name, type := counter}, Text, Value) ->
    line([Name, "_total"], Text, number(Value));
sample(#{name := Name}, Text, Value) ->
    line(Name, Text, number(Value)).

line(Name, <<>>, Number) -> [Name, $\s, Number, $\n];
line(Name, Text, Number) -> [Name, ${, Text, $}, $\s, Number, $\n].

histogram(Format, #{name := Name, key := Key, resolution := Resolution, schema := Schema},
          Values, Text,
          #{count := Count, sum := Sum, zeros := Zeros, buckets := Buckets}) ->
    Sep = case Text of <<>> -> <<>>; _ -> <<",">> end,
    Exemplar = fun(E) when Format =:= openmetrics ->
                       whittle_counters_exemplar:text(Key, Values, E, Resolution);
                  (_) -> []
               end,
    Bucket = fun(Le, N, Example) ->
                     [Name, "_bucket{", Text, Sep, "le=\"", Le, "\"} ", integer_to_binary(N),
                      Example, $\n]
             end,
    [[Bucket(le(Format, E, Resolution), N, Exemplar(E))
      || {E, N} <- powers(Buckets, Schema, Zeros)],
     Bucket("+Inf", Count, []),
     line([Name, "_sum"], Text, scaled(Sum, Resolution)),
     line([Name, "_count"], Text, integer_to_binary(Count))].

%% Gives cumulative counts at the powers of two, from the one under the lowest bucket to the one
%% over the highest.
powers([], _, _) -> [];
powers([{First, _} | _] = Buckets, Schema, Zeros) ->
    {Last, _} = lists:last(Buckets),
    Width = 1 bsl Schema,
    cumulate(lists:seq(First div Width, (Last + Width - 1) div Width), Width, Buckets, Zeros).

cumulate([], _, _, _) -> [];
cumulate([E | Powers], Width, Buckets, Sum) ->
    {Under, Over} = lists:splitwith(fun({I, _}) -> I =< E * Width end, Buckets),
    Sum1 = lists:foldl(fun({_, N}, S) -> S + N end, Sum, Under),
    [{E, Sum1} | cumulate(Powers, Width, Over, Sum1)].

le(prometheus, E, 1) -> integer_to_binary(1 bsl E);
le(openmetrics, E, 1) -> [integer_to_binary(1 bsl E), ".0"];
le(_, E, Resolution) -> number((1 bsl E) / Resolution).

scaled(Sum, 1) -> number(Sum);
scaled(Sum, Resolution) -> number(Sum / Resolution).

number(N) when is_integer(N) -> integer_to_binary(N);
number(F) -> float_to_binary(F, [short]).
