%% Frames among whatever else is on a line.
-module(blinky_frame_SUITE).
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([layout/1, in_pieces/1, among_noise/1, any_bytes/1]).
-export([frame/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [layout, in_pieces, among_noise, any_bytes].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

%% As blinky_frame's head says; the CRC by Python's zlib.crc32.
layout(_) ->
    <<16#B5, 21, 1, 1:64, 2:64, 3:32, 16#EBD254A0:32>> =
        blinky_frame:encode(#{kind => hello, from => 1, to => 2, seq => 3}),
    <<16#B5, 27, 4, 1:64, 2:64, 3:32, 2, 1, 9:32, 16#420D31A8:32>> =
        blinky_frame:encode(#{kind => item, from => 1, to => 2, seq => 3,
                              item => {gap, full, 9}}).

%% Cut wherever it may be, nothing is lost and nothing stepped over.
in_pieces(_) ->
    check(?FORALL({Frames, Sizes}, {list(frame()), non_empty(list(range(1, 40)))},
                  begin
                      Bytes = << <<(blinky_frame:encode(F))/binary>> || F <- Frames >>,
                      {Frames, <<>>, 0} =:= pieces(Bytes, Sizes, Sizes, <<>>, [], 0)
                  end)).

pieces(<<>>, _, _, Rest, Frames, Skipped) -> {Frames, Rest, Skipped};
pieces(Bytes, [], Sizes, Rest, Frames, Skipped) ->
    pieces(Bytes, Sizes, Sizes, Rest, Frames, Skipped);
pieces(Bytes, [Size | More], Sizes, Rest, Frames, Skipped) ->
    {Piece, Later} = split_binary(Bytes, min(Size, byte_size(Bytes))),
    {Found, Rest1, Count} = blinky_frame:decode(<<Rest/binary, Piece/binary>>),
    true = byte_size(Rest1) =< 32,
    pieces(Later, More, Sizes, Rest1, Frames ++ Found, Skipped + Count).

%% Noise, beginnings of frames and damaged frames between them: all whole ones are found, as
%% soon as 32 bytes more have come.
among_noise(_) ->
    check(?FORALL(Parts, list({noise(), frame()}),
                  begin
                      Bytes = << <<(noise_of(Noise))/binary, (blinky_frame:encode(F))/binary>>
                                 || {Noise, F} <- Parts >>,
                      {Found, Rest, Skipped} = blinky_frame:decode(<<Bytes/binary, 0:256>>),
                      Whole = << <<(blinky_frame:encode(F))/binary>> || F <- Found >>,
                      Found =:= [F || {_, F} <- Parts]
                          andalso byte_size(Whole) + Skipped + byte_size(Rest)
                              =:= byte_size(Bytes) + 32
                  end)).

noise() -> oneof([binary(), {frame(), range(1, 26)}, {frame(), {turn, range(0, 26)}}]).

noise_of({Frame, {turn, At}}) ->
    <<Before:At/binary, Byte, After/binary>> = blinky_frame:encode(Frame),
    <<Before/binary, (Byte bxor 16), After/binary>>;
noise_of({Frame, Length}) ->
    %% The next frame's first byte would complete one frame of 256 that lacks its last.
    <<Before:Length/binary, Next, _/binary>> = blinky_frame:encode(Frame),
    <<Before/binary, (bnot Next)>>;
noise_of(Bytes) -> Bytes.

any_bytes(_) ->
    check(?FORALL(Bytes, list(oneof([16#B5, 21, 27, 1, 4, byte()])),
                  begin
                      {_, Rest, _} = blinky_frame:decode(list_to_binary(Bytes)),
                      byte_size(Rest) =< 32
                  end)).

boot() -> range(0, 16#ffffffffffffffff).

frame() ->
    oneof([?LET({Kind, From, To, Seq},
                {oneof([hello, ask, grant, ack]), boot(), boot(), range(0, 16#ffffffff)},
                #{kind => Kind, from => From, to => To, seq => Seq}),
           ?LET({From, To, Seq, Item},
                {boot(), boot(), range(0, 16#ffffffff),
                 oneof([press, {gap, oneof([full, edges, unheard, doubt]), range(0, 1000)}])},
                #{kind => item, from => From, to => To, seq => Seq, item => Item})]).

check(Property) ->
    case proper:quickcheck(Property, [{numtests, 500}, {on_output, fun quiet/2}]) of
        true -> ok;
        Other -> error({property, Other, proper:counterexample()})
    end.

quiet(_, _) -> ok.
