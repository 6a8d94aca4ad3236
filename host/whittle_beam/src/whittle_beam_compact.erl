%% @hidden Compact terms: a tag of three bits and a number, in as few bytes as can be.
%%
%% Four bits of number fit into the tag's byte and eleven into two bytes; longer
%% ones have a count of bytes, which is such a term itself when it is above 8.
%% `lib/compiler/src/beam_asm.erl' writes them, `erts/emulator/beam/beam_file.c'
%% reads them.
-module(whittle_beam_compact).

-export([number/1, integer/1, put/3]).

-export_type([tag/0]).

-type tag() :: 0..7.

%% No compiler writes integers of more than 16 bytes into code (they are literals);
%% the bound keeps a damaged length from making a huge one.
-define(MAX_BYTES, 4096).

%% @doc The number of the term at the start, whatever its tag, and what follows.
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

%% @doc As {@link number/1}, for a term with the tag of integers: those of more than
%% two bytes have a sign.
-spec integer(binary()) -> {integer(), binary()} | error.
integer(Term) ->
    case long(Term) of
        {Size, Bytes} ->
            <<Value:Size/signed-unit:8, Rest/binary>> = Bytes,
            {Value, Rest};
        error -> number(Term)
    end.

%% The size of a number in bytes of its own, with at least those.
long(<<7:3, 3:2, _:3, Count/binary>>) ->
    case number(Count) of
        {More, Bytes} -> held(More + 9, Bytes);
        error -> error
    end;
long(<<Count:3, 3:2, _:3, Bytes/binary>>) -> held(Count + 2, Bytes);
long(_) -> error.

held(Size, Bytes) when Size =< ?MAX_BYTES, byte_size(Bytes) >= Size -> {Size, Bytes};
held(_, _) -> error.

%% @doc Puts a term before what is there; the bytes come out in reverse.
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

%% In two's complement, in as few bytes as hold the sign, two at least.
signed(N) when N >= -16#8000, N < 16#8000 -> <<N:16>>;
signed(N) ->
    Magnitude = binary:encode_unsigned(abs(N)),
    Size = byte_size(Magnitude),
    case <<N:Size/unit:8>> of
        <<Sign:1, _/bits>> = Bytes when Sign =:= 1, N < 0; Sign =:= 0, N >= 0 -> Bytes;
        Bytes when N < 0 -> <<255, Bytes/binary>>;
        Bytes -> <<0, Bytes/binary>>
    end.
