%% @hidden Makes, reads and sets cells, the words of shared memory behind a series.
%%
%% A cold cell is one word (8 bytes) of an atomics array that it shares with other cells. A
%% striped cell has a word for each scheduler, in lines of 64 bytes that eight cells share. It
%% takes (schedulers + 1) * 8 bytes, and updates from many cores use different lines. A word never
%% serves a second series. The garbage collector frees an array when the last series and the last
%% handle of the array are gone. So an update through an old handle can only reach its own series.
-module(whittle_counters_cell).

-include("whittle_counters_cell.hrl").

-export([pages/0, counter/3, gauge/3, histogram/4, with_segment/3]).
-export([set_level/2, add_level/2, fits/2, take/1, read/1, buckets/1, zeros/1]).
-export([metric/1, id/1, bytes/1]).
-export_type([cell/0, pages/0, stripe/0]).

-type cell() :: #counter{} | #striped{} | #gauge{} | #level{} | #histogram{}.
-type stripe() :: plain | striped.
-type pages() :: #{atom() => {term(), pos_integer()}}.
%% The arrays that still have room, and the next free word in each.

%% Words in an array of cold cells. The number is small, because one living series keeps its whole
%% array.
-define(PAGE, 64).

%% Buckets in a segment, as in whittle_counters_scale.
-define(SEGMENT, 32).

%% @doc Makes an empty set of arrays.
-spec pages() -> pages().
pages() -> #{}.

%% @doc Makes a counter's cell.
-spec counter(stripe(), atom(), pages()) -> {#counter{} | #striped{}, pages()}.
counter(plain, Name, Pages) ->
    {Ref, Ix, Pages1} = words(atomic, 1, Pages),
    {#counter{ref = Ref, ix = Ix, name = Name}, Pages1};
counter(striped, Name, Pages) ->
    {Ref, Ix, Pages1} = words(striped, 1, Pages),
    {#striped{ref = Ref, ix = Ix, name = Name}, Pages1}.

%% @doc Makes a gauge's cell. It is never striped, because a process can set it.
-spec gauge(integer | float, atom(), pages()) -> {#gauge{} | #level{}, pages()}.
gauge(integer, Name, Pages) ->
    {Ref, Ix, Pages1} = words(atomic, 1, Pages),
    {#gauge{ref = Ref, ix = Ix, name = Name}, Pages1};
gauge(float, Name, Pages) ->
    {Ref, Ix, Pages1} = words(atomic, 1, Pages),
    {#level{ref = Ref, ix = Ix, name = Name}, Pages1}.

%% @doc Makes a histogram's cell, without any bucket.
-spec histogram(stripe(), {atom(), [binary()]}, whittle_counters_scale:schema(), pages()) ->
          {#histogram{}, pages()}.
histogram(Stripe, Key, Schema, Pages) ->
    {Ref, Ix, Pages1} = words(Stripe, 2, Pages),
    Segments = erlang:make_tuple(whittle_counters_scale:segments(Schema), 0),
    {#histogram{key = Key, schema = Schema, ref = Ref, ix = Ix, segments = Segments}, Pages1}.

%% @doc Adds a segment to a histogram that lacks it.
-spec with_segment(stripe(), non_neg_integer(), #histogram{}) -> #histogram{}.
with_segment(Stripe, Segment, #histogram{segments = Segments} = Cell) ->
    case element(Segment + 1, Segments) of
        0 ->
            Ref = array(Stripe, ?SEGMENT),
            Cell#histogram{segments = setelement(Segment + 1, Segments, Ref)};
        _ ->
            Cell
    end.

words(Kind, N, Pages) ->
    case Pages of
        #{Kind := {Ref, Ix}} when Ix + N - 1 =< ?PAGE ->
            {Ref, Ix, Pages#{Kind := {Ref, Ix + N}}};
        _ ->
            Ref = array(Kind, ?PAGE),
            {Ref, 1, Pages#{Kind => {Ref, 1 + N}}}
    end.

array(plain, N) -> counters:new(N, [atomics]);
array(striped, N) -> counters:new(N, [write_concurrency]);
array(atomic, N) -> atomics:new(N, [{signed, true}]).

%% @doc Sets a level. A number that does not fit into a float raises badarg.
-spec set_level(#level{}, number()) -> ok.
set_level(#level{ref = Ref, ix = Ix}, N) -> atomics:put(Ref, Ix, bits(N)).

%% @doc Adds to a level. A result that does not fit into a float raises badarg or badarith. If
%% another process sets the level in between, the function tries again.
-spec add_level(#level{}, number()) -> ok.
add_level(#level{ref = Ref, ix = Ix} = Level, N) ->
    Old = atomics:get(Ref, Ix),
    case atomics:compare_exchange(Ref, Ix, Old, bits(level(Old) + N)) of
        ok -> ok;
        _ -> add_level(Level, N)
    end.

bits(N) ->
    <<Bits:64/signed>> = <<N/float>>,
    Bits.

level(Bits) ->
    <<Float/float>> = <<Bits:64>>,
    Float.

%% @doc Tells whether a gauge of this kind takes the number.
-spec fits(integer | float, term()) -> boolean().
fits(integer, N) -> is_integer(N) andalso N >= -(1 bsl 63) andalso N < 1 bsl 63;
fits(float, N) when is_number(N) -> try is_float(float(N)) catch error:badarg -> false end;
fits(float, _) -> false.

%% @doc Sets a gauge to zero and gives its value until then. An update at the same time counts in
%% this value or in the gauge.
-spec take(#gauge{} | #level{}) -> number().
take(#gauge{ref = Ref, ix = Ix}) -> atomics:exchange(Ref, Ix, 0);
take(#level{ref = Ref, ix = Ix}) -> level(atomics:exchange(Ref, Ix, 0)).

%% @doc Reads the value of a cell. For a histogram this is its sum.
-spec read(cell()) -> number().
read(#counter{ref = Ref, ix = Ix}) -> atomics:get(Ref, Ix);
read(#striped{ref = Ref, ix = Ix}) -> counters:get(Ref, Ix);
read(#gauge{ref = Ref, ix = Ix}) -> atomics:get(Ref, Ix);
read(#level{ref = Ref, ix = Ix}) -> level(atomics:get(Ref, Ix));
read(#histogram{ref = Ref, ix = Ix}) -> counters:get(Ref, Ix).

%% @doc Counts the observations of zero.
-spec zeros(#histogram{}) -> integer().
zeros(#histogram{ref = Ref, ix = Ix}) -> counters:get(Ref, Ix + 1).

%% @doc Reads the buckets that are not empty, lowest first.
-spec buckets(#histogram{}) -> [{whittle_counters_scale:index(), pos_integer()}].
buckets(#histogram{segments = Segments}) ->
    [{(S - 1) * ?SEGMENT + B - 1, N}
     || S <- lists:seq(1, tuple_size(Segments)),
        Ref <- [element(S, Segments)], Ref =/= 0,
        B <- lists:seq(1, ?SEGMENT),
        N <- [counters:get(Ref, B)], N =/= 0].

%% @doc Gives the name of the cell's metric.
-spec metric(cell()) -> atom().
metric(#histogram{key = {Name, _}}) -> Name;
metric(#counter{name = Name}) -> Name;
metric(#striped{name = Name}) -> Name;
metric(#gauge{name = Name}) -> Name;
metric(#level{name = Name}) -> Name.

%% @doc Gives the identity of a cell. It stays when the cell gets more segments.
-spec id(cell()) -> {term(), pos_integer()}.
id(#histogram{ref = Ref, ix = Ix}) -> {Ref, Ix};
id(#counter{ref = Ref, ix = Ix}) -> {Ref, Ix};
id(#striped{ref = Ref, ix = Ix}) -> {Ref, Ix};
id(#gauge{ref = Ref, ix = Ix}) -> {Ref, Ix};
id(#level{ref = Ref, ix = Ix}) -> {Ref, Ix}.

%% @doc Gives the bytes of shared memory that the cell takes. They are its own words, without the
%% unused words of an array that it shares.
-spec bytes(cell()) -> non_neg_integer().
bytes(#striped{ref = Ref}) -> word_bytes(Ref);
bytes(#counter{}) -> 8;
bytes(#gauge{}) -> 8;
bytes(#level{}) -> 8;
bytes(#histogram{ref = Ref, segments = Segments}) ->
    2 * word_bytes(Ref)
        + lists:sum([maps:get(memory, counters:info(S)) || S <- tuple_to_list(Segments), S =/= 0]).

word_bytes(Ref) ->
    #{size := Size, memory := Memory} = counters:info(Ref),
    Memory div Size.
