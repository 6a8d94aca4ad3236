%% @hidden Gathers the output of a format, and passes it on in pieces of a fixed size. The memory
%% does not grow with the number of series.
-module(whittle_counters_stream).

-export([run/3, add/2, collect/1]).
-export_type([write/0, out/0]).

-type write() :: fun((iodata()) -> ok | {error, term()}).
%% The function that takes the next piece. After an error there is no further call.

-record(out, {limit :: pos_integer(), write :: write(),
              pieces = [] :: iodata(), size = 0 :: non_neg_integer()}).
-opaque out() :: #out{}.

%% @doc Runs a producer, which adds to the given output, and writes the rest at the end. A failed
%% write ends the producer.
-spec run(pos_integer(), write(), fun((out()) -> out())) -> ok | {error, term()}.
run(Limit, Write, Produce) ->
    try
        case Produce(#out{limit = Limit, write = Write}) of
            #out{size = 0} -> ok;
            Out -> #out{} = flush(Out), ok
        end
    catch
        throw:{?MODULE, Error} -> Error
    end.

%% @doc Adds to the output, and writes when a piece is complete.
-spec add(iodata(), out()) -> out().
add(Data, #out{limit = Limit, pieces = Pieces, size = Size} = Out) ->
    Binary = iolist_to_binary(Data),
    Out1 = Out#out{pieces = [Pieces, Binary], size = Size + byte_size(Binary)},
    if
        Size + byte_size(Binary) >= Limit -> flush(Out1);
        true -> Out1
    end.

flush(#out{write = Write, pieces = Pieces} = Out) ->
    case Write(Pieces) of
        ok -> Out#out{pieces = [], size = 0};
        {error, _} = Error -> throw({?MODULE, Error})
    end.

%% @doc Gathers all pieces of a stream in memory.
-spec collect(fun((write()) -> ok | {error, term()})) -> {ok, iodata()} | {error, term()}.
collect(Stream) ->
    Key = {?MODULE, make_ref()},
    undefined = put(Key, []),
    try Stream(fun(Piece) -> _ = put(Key, [get(Key), Piece]), ok end) of
        ok -> {ok, get(Key)};
        {error, _} = Error -> Error
    after
        erase(Key)
    end.
