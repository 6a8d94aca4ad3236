%% @hidden Sums the bytes of a VM, as its first code does when it starts.
%%
%% docs/pack-format.md defines the sum, and native/launcher/entry.c is the other half. It is
%% made for that code, which has no library: four lanes, a multiplication a word, and no
%% table. Pure.
-module(whittle_elf_sum).

-export([sum/2]).

%% The odd factor has 27 bits, so that the product of a word and it is no bignum here.
-define(FACTOR, 16#5bd1e95).
-define(WORD, 16#ffffffff).

%% @doc The sum of ranges of bytes, whose words are in that byte order. Never 0, which says
%% in a VM that it has no sum.
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
