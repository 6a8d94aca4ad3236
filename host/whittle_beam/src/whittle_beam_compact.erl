%% @hidden Reads and writes compact terms: a tag of three bits and a number.
%%
%% A term takes the fewest possible bytes. A number of four bits fits into the byte of the tag,
%% and one of eleven bits into two bytes. A longer number has a count of bytes before it; a count
%% above 8 is a compact term itself. `lib/compiler/src/beam_asm.erl' writes compact terms and
%% `erts/emulator/beam/beam_file.c' reads them.
-module(whittle_beam_compact).

-export([number/1, integer/1, put/3]).

-export_type([tag/0]).

-type tag() :: 0..7.

%% No compiler writes integers of more than 16 bytes into code; it uses literals for them. This
%% limit prevents a huge number from a damaged length.
-define(MAX_BYTES, 4096).

%% @doc Reads the number of the first term, with any tag, and returns the remaining bytes.
-spec number(binary()) -> {non_neg_integer(), binary()} | error.
number(<<Byte, Rest/binary>>) when Byte band 8 =:= 0 -> {Byte bsr 4, Rest};
number(<<Byte, Low, Rest/binary>>) when Byte band 16 =:= 0 ->
    {(Byte bsr 5) bsl 8 bor Low, Rest};
number(Term) ->
    case long(Term) of
        {Size, Bytes} ->
            <<Value:Size/unit:8, Rest/binary>> = Bytes,
            {Value, Rest};
        error -> error
    end.

%% @doc Reads a number as {@link number/1} does, from a term with the tag of integers.
%%
%% A number of more than two bytes has a sign.
-spec integer(binary()) -> {integer(), binary()} | error.
integer(Term) ->
    case long(Term) of
        {Size, Bytes} ->
            <<Value:Size/signed-unit:8, Rest/binary>> = Bytes,
            {Value, Rest};
        error -> number(Term)
    end.

%% Reads the size of a number that has bytes of its own, and checks that they exist.
long(<<7:3, 3:2, _:3, Count/binary>>) ->
    case number(Count) of
        {More, Bytes} -> held(More + 9, Bytes);
        error -> error
    end;
long(<<Count:3, 3:2, _:3, Bytes/binary>>) -> held(Count + 2, Bytes);
long(_) -> error.

held(Size, Bytes) when Size =< ?MAX_BYTES, byte_size(Bytes) >= Size -> {Size, Bytes};
held(_, _) -> error.

%% @doc Puts a term before an accumulator. The bytes are in reverse order.
-spec put(tag(), integer(), [byte() | binary()]) -> [byte() | binary()].
put(Tag, N, Reversed) when N >= 0, N < 16 -> [N bsl 4 bor Tag | Reversed];
put(Tag, N, Reversed) when N >= 0, N < 16#800 ->
    [N band 255, (N bsr 3) band 2#11100000 bor Tag bor 8 | Reversed];
put(Tag, N, Reversed) ->
    Bytes = signed(N),
    case byte_size(Bytes) of
        Size when Size =< 8 -> [Bytes, (Size - 2) bsl 5 bor 2#11000 bor Tag | Reversed];
        Size -> [Bytes | put(0, Size - 9, [2#11111000 bor Tag | Reversed])]
    end.

%% Encodes in two's complement, in the fewest bytes that hold the sign, but at least two.
signed(N) when N >= -16#8000, N < 16#8000 -> <<N:16>>;
signed(N) ->
    Magnitude = binary:encode_unsigned(abs(N)),
    Size = byte_size(Magnitude),
    case <<N:Size/unit:8>> of
        <<Sign:1, _/bits>> = Bytes when Sign =:= 1, N < 0; Sign =:= 0, N >= 0 -> Bytes;
        Bytes when N < 0 -> <<255, Bytes/binary>>;
        Bytes -> <<0, Bytes/binary>>
    end.
