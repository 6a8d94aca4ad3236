%% @doc Encodes and decodes the frames on the line. Pure.
%%
%% ```
%% start   length  kind   from    to      seq     item            CRC-32
%% 16#B5   1 byte  1 byte 8 bytes 8 bytes 4 bytes 6 bytes or none 4 bytes
%% '''
%%
%% Numbers have the most significant byte first. The length counts kind to item: 21, or 27
%% with an item. The CRC is zlib's (erlang:crc32/1) of length to item. `from' and `to' are
%% boot numbers, which blinky_link explains; `to' is 0 where the sender knows of nobody.
%%
%% A frame that does not pass is stepped over by one byte, so that a frame within it is found:
%% noise costs the frames that it fell on and no others. No frame is longer than 33 bytes; a
%% false start waits for no more.
-module(blinky_frame).

-export([encode/1, decode/1]).
-export_type([frame/0, kind/0, boot/0, seq/0, item/0, reason/0]).

-type boot() :: 0..16#ffffffffffffffff.
-type seq() :: 0..16#ffffffff.
-type kind() :: hello | ask | grant | item | ack.
-type reason() :: full | edges | unheard | doubt.
%% A press, or word of presses that were not taken: how many, 0 where nobody knows.
-type item() :: press | {gap, reason(), non_neg_integer()}.
-type frame() :: #{kind := kind(), from := boot(), to := boot(), seq := seq(),
                   item => item()}.                     % with the kind `item', only

-define(START, 16#B5).
-define(PLAIN, 21).
-define(ITEM, 27).

%% @doc Gives the bytes of a frame.
-spec encode(frame()) -> binary().
encode(#{kind := Kind, from := From, to := To, seq := Seq} = Frame) ->
    Tail = case Frame of
               #{item := Item} -> item(Item);
               #{} -> <<>>
           end,
    Body = <<(kind(Kind)), From:64, To:64, Seq:32, Tail/binary>>,
    Summed = <<(byte_size(Body)), Body/binary>>,
    <<?START, Summed/binary, (erlang:crc32(Summed)):32>>.

%% @doc Gives the frames in these bytes, the bytes at their end that may begin another (at most
%% 32), and the number of bytes stepped over.
-spec decode(binary()) -> {[frame()], binary(), non_neg_integer()}.
decode(Bytes) -> decode(Bytes, [], 0).

decode(<<?START, Length, Rest/binary>> = Bytes, Frames, Skipped)
  when Length =:= ?PLAIN; Length =:= ?ITEM ->
    case Rest of
        <<Body:Length/binary, Sum:32, More/binary>> ->
            case erlang:crc32([Length, Body]) =:= Sum andalso frame(Body) of
                false -> skip(Bytes, Frames, Skipped);
                Frame -> decode(More, [Frame | Frames], Skipped)
            end;
        _ -> {lists:reverse(Frames), binary:copy(Bytes), Skipped}
    end;
decode(<<?START>>, Frames, Skipped) -> {lists:reverse(Frames), <<?START>>, Skipped};
decode(<<>>, Frames, Skipped) -> {lists:reverse(Frames), <<>>, Skipped};
decode(Bytes, Frames, Skipped) -> skip(Bytes, Frames, Skipped).

skip(<<_, Rest/binary>>, Frames, Skipped) -> decode(Rest, Frames, Skipped + 1).

frame(<<Number, From:64, To:64, Seq:32, Tail/binary>>) ->
    Frame = #{kind => kind_of(Number), from => From, to => To, seq => Seq},
    case {Frame, Tail} of
        {#{kind := none}, _} -> false;
        {#{kind := item}, <<_:6/binary>>} ->
            case item_of(Tail) of
                none -> false;
                Item -> Frame#{item => Item}
            end;
        {#{kind := item}, _} -> false;
        {_, <<>>} -> Frame;
        _ -> false
    end.

kind(hello) -> 1;
kind(ask) -> 2;
kind(grant) -> 3;
kind(item) -> 4;
kind(ack) -> 5.

kind_of(1) -> hello;
kind_of(2) -> ask;
kind_of(3) -> grant;
kind_of(4) -> item;
kind_of(5) -> ack;
kind_of(_) -> none.

item(press) -> <<1, 0, 0:32>>;
item({gap, Reason, Count}) -> <<2, (reason(Reason)), (min(Count, 16#ffffffff)):32>>.

item_of(<<1, 0, 0:32>>) -> press;
item_of(<<2, Number, Count:32>>) ->
    case reason_of(Number) of
        none -> none;
        Reason -> {gap, Reason, Count}
    end;
item_of(_) -> none.

reason(full) -> 1;
reason(edges) -> 2;
reason(unheard) -> 3;
reason(doubt) -> 4.

reason_of(1) -> full;
reason_of(2) -> edges;
reason_of(3) -> unheard;
reason_of(4) -> doubt;
reason_of(_) -> none.
