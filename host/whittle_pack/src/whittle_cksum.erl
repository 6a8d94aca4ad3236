%% @hidden Computes the checksum that the POSIX program `cksum' prints.
-module(whittle_cksum).

-export([sum/1]).

%% @doc Returns the output of `cksum' for these bytes as its input, without the newline.
%%
%% POSIX defines a CRC-32 that takes the highest bit of a byte first. `erlang:crc32/2' takes the
%% lowest bit first, so this function reverses the bits of the bytes and of the result. The
%% checksum also covers the size, the lowest byte first and without leading zeros.
-spec sum(binary()) -> iodata().
sum(Bytes) ->
    Size = byte_size(Bytes),
    Table = list_to_tuple([reversed(Byte, 8) || Byte <- lists:seq(0, 255)]),
    Length = case Size of
                 0 -> <<>>;
                 _ -> binary:encode_unsigned(Size, little)
             end,
    Turned = << <<(element(Byte + 1, Table))>> || <<Byte>> <= <<Bytes/binary, Length/binary>> >>,
    %% crc32/2 inverts the given value before it begins. The specified value is zero.
    Crc = reversed(erlang:crc32(16#ffffffff, Turned), 32),
    [integer_to_list(Crc), $\s, integer_to_list(Size)].

reversed(Number, Width) ->
    Bits = lists:reverse([Bit || <<Bit:1>> <= <<Number:Width>>]),
    <<Reversed:Width>> = << <<Bit:1>> || Bit <- Bits >>,
    Reversed.
