%% @hidden Computes the checksum of a VM. The first code of the VM computes the same checksum at
%% its start.
%%
%% docs/pack-format.md defines the checksum. native/launcher/entry.c is the other implementation.
%% That code has no library, so the checksum uses four lanes, one multiplication for each word and
%% no table. This module is pure.
-module(whittle_elf_sum).

-export([sum/2]).

%% The odd factor has 27 bits. Its product with a word is not a bignum here.
-define(FACTOR, 16#5bd1e95).
-define(WORD, 16#ffffffff).

%% @doc Computes the checksum of ranges of bytes, as words in the given byte order. The result is
%% never 0, because 0 marks a VM that has no checksum.
-spec sum(little | big, [binary()]) -> 1..16#ffffffff.
sum(Endian, Ranges) ->
    {A, B, C, D} = lists:foldl(fun(Range, {A, B, C, D}) -> add(Endian, Range, A, B, C, D) end,
                               {1, 2, 3, 4}, Ranges),
    max(1, mix(mix(mix(A, B), C), D)).

add(little, <<P:32/little, Q:32/little, R:32/little, S:32/little, Rest/binary>>, A, B, C, D) ->
    add(little, Rest, mix(A, P), mix(B, Q), mix(C, R), mix(D, S));
add(big, <<P:32, Q:32, R:32, S:32, Rest/binary>>, A, B, C, D) ->
    add(big, Rest, mix(A, P), mix(B, Q), mix(C, R), mix(D, S));
add(Endian, <<Byte, Rest/binary>>, A, B, C, D) ->
    add(Endian, Rest, mix(A, Byte), B, C, D);
add(_, <<>>, A, B, C, D) ->
    {A, B, C, D}.

mix(Lane, Word) ->
    Product = ((Lane bxor Word) * ?FACTOR) band ?WORD,
    (Product bsl 15) band ?WORD bor (Product bsr 17).
