%% @doc Computes SHA-1 (RFC 3174) for the handshake of WebSocket.
%%
%% OTP has SHA-1 in crypto only, and crypto would make the agent 2 MB larger. The handshake hashes
%% 60 bytes once for each connection. Nothing here needs a secure hash.
%% @hidden
-module(whittle_load_agent_sha1).

-export([hash/1]).

-define(WORD, 16#FFFFFFFF).

%% @doc Computes the 20 bytes of a hash.
-spec hash(binary()) -> <<_:160>>.
hash(Bytes) ->
    Size = byte_size(Bytes),
    %% One bit, then as many zeros as fill a block up to the eight bytes of the length
    Zeros = (119 - Size rem 64) rem 64,
    blocks(<<Bytes/binary, 16#80, 0:Zeros/unit:8, (8 * Size):64>>,
           16#67452301, 16#EFCDAB89, 16#98BADCFE, 16#10325476, 16#C3D2E1F0).

blocks(<<>>, A, B, C, D, E) -> <<A:32, B:32, C:32, D:32, E:32>>;
blocks(<<Block:64/binary, Rest/binary>>, A, B, C, D, E) ->
    %% The last sixteen words, the newest first.
    Words = lists:reverse([Word || <<Word:32>> <= Block]),
    {A1, B1, C1, D1, E1} = rounds(0, lists:reverse(Words), Words, A, B, C, D, E),
    blocks(Rest, (A + A1) band ?WORD, (B + B1) band ?WORD, (C + C1) band ?WORD,
           (D + D1) band ?WORD, (E + E1) band ?WORD).

rounds(80, _, _, A, B, C, D, E) -> {A, B, C, D, E};
rounds(T, [Word | Next], Last, A, B, C, D, E) when T < 16 ->
    round(T, Word, Next, Last, A, B, C, D, E);
rounds(T, [], Last, A, B, C, D, E) ->
    [_, _, W3, _, _, _, _, W8, _, _, _, _, _, W14, _, W16] = Last,
    Word = left(W3 bxor W8 bxor W14 bxor W16, 1),
    round(T, Word, [], [Word | lists:droplast(Last)], A, B, C, D, E).

round(T, Word, Next, Last, A, B, C, D, E) ->
    {F, K} = if T < 20 -> {(B band C) bor ((B bxor ?WORD) band D), 16#5A827999};
                T < 40 -> {B bxor C bxor D, 16#6ED9EBA1};
                T < 60 -> {(B band C) bor (B band D) bor (C band D), 16#8F1BBCDC};
                true -> {B bxor C bxor D, 16#CA62C1D6}
             end,
    rounds(T + 1, Next, Last, (left(A, 5) + F + E + K + Word) band ?WORD, A, left(B, 30), C, D).

left(Word, N) -> ((Word bsl N) band ?WORD) bor (Word bsr (32 - N)).
