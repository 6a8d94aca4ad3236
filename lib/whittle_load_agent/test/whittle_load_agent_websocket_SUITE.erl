%% Tests the client for WebSocket.
-module(whittle_load_agent_websocket_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([sha1/1, handshake/1, refused/1, steps/1, in_pieces/1, control/1, forbidden/1, sizes/1,
         small_frames/1, small_reads/1, noise/1]).

-import(whittle_load_agent_bytes, [pieces/2, survives/3]).
-import(whittle_load_agent_websocket, [data/2, step/3, match/2, bye/1, keep_alive/1]).

-define(USER, #{id => 7, row => {}, random => 16#01020304, clock => 5}).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [sha1, handshake, refused, steps, in_pieces, control, forbidden, sizes, small_frames,
     small_reads, noise].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

%% A large frame in small reads is not read again by each: the state knows how many bytes it needs.
small_reads(_) ->
    {ok, [], [], Begun} = data(<<16#82, 127, 100_000:64, 1>>, {open, <<>>, none, 0}),
    Last = lists:foldl(fun(_, State) ->
                               ?assertEqual(100_010, element(4, State)),
                               {ok, [], [], Next} = data(<<2>>, State),
                               Next
                       end, Begun, lists:seq(1, 1000)),
    {ok, [{message, Message}], [], {open, <<>>, none, 0}} =
        data(binary:copy(<<3>>, 98_999), Last),
    ?assertEqual(100_000, byte_size(Message)).

sha1(_) ->
    ?assert(proper:quickcheck(
              ?FORALL(Bytes, ?LET(N, integer(0, 200), binary(N)),
                      whittle_load_agent_sha1:hash(Bytes) =:= crypto:hash(sha, Bytes)),
              [{to_file, user}, 500])).

%% The key and its proof are those of RFC 6455, section 1.3, in the shape of this client's.
handshake(_) ->
    {Request, Response, State} = asked(none),
    {match, [Key]} = re:run(Request, "^Sec-WebSocket-Key: ([^\r]*)\r$",
                            [multiline, {capture, [1], binary}]),
    ?assertEqual(16, byte_size(base64:decode(Key))),
    ?assertMatch({match, _}, re:run(Request, "^GET /a/7 HTTP/1.1\r\nHost: localhost:80\r\n"
                                    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                                    "Sec-WebSocket-Version: 13\r\n.*\r\n\r\n$", [dotall])),
    ?assertEqual({ok, [opened], []}, opened(data(response(Response), State))),
    %% Case and other tokens mean nothing. A frame may follow at once.
    ?assertEqual({ok, [opened, {message, <<"x">>}], []},
                 opened(data(<<(response([{"upgrade", "WebSocket"},
                                          {"CONNECTION", "keep-alive, UPGRADE"}
                                          | tl(tl(Response))]))/binary, 16#81, 1, "x">>, State))),
    {WithProtocol, Response2, State2} = asked(<<"chat">>),
    ?assertMatch({match, _}, re:run(WithProtocol, "\r\nSec-WebSocket-Protocol: chat\r\n")),
    ?assertEqual({ok, [opened], []},
                 opened(data(response([{"Sec-WebSocket-Protocol", "chat"} | Response2]), State2))),
    ?assertEqual({error, no_websocket}, data(response(Response2), State2)),
    ?assertEqual({error, wrong_subprotocol},
                 data(response([{"Sec-WebSocket-Protocol", "other"} | Response2]), State2)).

refused(_) ->
    {_, [Upgrade, Connection, Accept] = All, State} = asked(none),
    [?assertEqual({Kind, {error, Kind}}, {Kind, data(response(Fields), State)})
     || {Kind, Fields} <-
            [{no_websocket, [Connection, Accept]}, {no_websocket, [Upgrade, Accept]},
             {no_websocket, [Upgrade, Connection]},
             {no_websocket, [Upgrade, {"Connection", "close"}, Accept]},
             {wrong_accept, [Upgrade, Connection,
                             {"Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZ"}]},
             {wrong_subprotocol, [{"Sec-WebSocket-Protocol", "x"} | All]},
             {unknown_extension, [{"Sec-WebSocket-Extensions", "permessage-deflate"} | All]}]],
    {ok, [Event], [], _} = data(<<"HTTP/1.1 404 Not Found\r\n\r\n">>, State),
    ?assertEqual({error, <<"status_404">>}, match(opened, Event)),
    ?assertEqual({error, no_websocket}, data(<<"SSH-2.0-x\r\n">>, State)),
    ?assertEqual({error, too_long}, endless(State, binary:copy(<<"X: y\r\n">>, 1000))),
    ?assertEqual({error, not_upgraded}, step({send, []}, ?USER, State)),
    ?assertEqual({error, upgraded_twice}, step(upgrade, ?USER, open())).

steps(_) ->
    Open = open(),
    {sent, Text, Open} = step({send, [<<"hello ">>, id]}, ?USER, Open),
    ?assertEqual({1, <<"hello 7">>}, unmasked(Text)),
    {sent, Binary, Open} = step({send_binary, [<<0, 255>>, sent]}, ?USER, Open),
    ?assertEqual({2, <<0, 255, "sent=5;">>}, unmasked(Binary)),
    {await, Ask, Await, Open} = step({ask, [<<"hi">>], [<<"h">>]}, ?USER, Open),
    ?assertEqual({1, <<"hi">>}, unmasked(Ask)),
    ?assert(match(Await, {message, <<"hi">>})),
    ?assertNot(match(Await, {message, <<"ih">>})),
    {await, [], Await, Open} = step({expect, [<<"h">>]}, ?USER, Open),
    [?assertEqual({Size, {1, binary:copy(<<"x">>, Size)}},
                  {Size, unmasked(element(2, step({send, [binary:copy(<<"x">>, Size)]}, ?USER,
                                                  Open)))})
     || Size <- [0, 1, 125, 126, 65_535, 65_536, 100_001]],
    ?assertEqual({8, <<1000:16>>}, unmasked(bye(Open))),
    ?assertEqual([], bye(element(3, asked(none)))),
    {Ping, Open} = keep_alive(Open),
    ?assertEqual({9, <<>>}, unmasked(Ping)).

%% The events do not depend on fragments, on the pieces in which their bytes arrive, and on pings
%% between them. Each ping has its answer.
in_pieces(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Messages, Sizes}, {list(message()), list(integer(1, 40))},
                      begin
                          Bytes = iolist_to_binary([Frames || {_, _, Frames} <- Messages]),
                          {Events, Out, State} = fed(pieces(Bytes, Sizes), open()),
                          State =:= open()
                              andalso Events =:= [{message, Text} || {Text, _, _} <- Messages]
                              andalso Out =:= lists:append([Pings || {_, Pings, _} <- Messages])
                      end), [{to_file, user}, 1000])).

control(_) ->
    {ok, [], Pong, _} = data(<<16#89, 2, "ab">>, open()),
    ?assertEqual({10, <<"ab">>}, unmasked(Pong)),
    ?assertEqual({ok, [], [], open()}, data(<<16#8A, 2, "ab">>, open())),
    [begin
         {error, Given, Answer} = data(Bytes, open()),
         ?assertEqual({Bytes, Kind, {8, Code}}, {Bytes, Given, unmasked(Answer)})
     end || {Bytes, Kind, Code} <- [{<<16#88, 0>>, closed, <<>>},
                                    {<<16#88, 4, 1001:16, "by">>, <<"closed_1001">>, <<1001:16>>},
                                    {<<16#88, 2, 1005:16>>, bad_frame, <<1005:16>>},
                                    {<<16#88, 1, 3>>, bad_frame, <<>>},
                                    {<<16#88, 3, 1000:16, 255>>, bad_utf8, <<1000:16>>}]].

forbidden(_) ->
    [?assertEqual({Bytes, {error, Kind}}, {Bytes, data(Bytes, open())})
     || {Bytes, Kind} <-
            [{<<16#C1, 0>>, bad_frame},                       % a reserved bit
             {<<16#83, 0>>, bad_frame}, {<<16#8B, 0>>, bad_frame},
             {<<16#81, 16#81, 0:32, 1>>, bad_frame},          % a mask
             {<<16#09, 0>>, bad_frame},                       % a fragment of a ping
             {<<16#89, 126, 126:16>>, bad_frame},             % a ping that is too long
             {<<16#81, 126, 125:16>>, bad_frame},             % not the shortest length
             {<<16#81, 127, 65_535:64>>, bad_frame},
             {<<16#81, 127, 1:1, 0:63>>, too_long},
             {<<16#80, 0>>, bad_frame},                       % nothing to continue
             {<<16#01, 0, 16#81, 0>>, bad_frame},             % a message in a message
             {<<16#81, 1, 255>>, bad_utf8}]].

sizes(_) ->
    [?assertMatch({ok, [{message, <<_:Size/binary>>}], [], _},
                  data(frame(1, 1, binary:copy(<<"a">>, Size)), open()))
     || Size <- [125, 126, 65_535, 65_536, 1_000_000]],
    ?assertEqual({error, too_long}, data(<<16#81, 127, 1_000_001:64>>, open())),
    {ok, [], [], State} = data(frame(0, 1, binary:copy(<<"a">>, 600_000)), open()),
    ?assertEqual({error, too_long}, data(<<16#00, 127, 600_000:64>>, State)).

%% Many empty fragments take no memory, and neither do the bytes around a small rest.
small_frames(_) ->
    {ok, [], [], Begun} = data(<<1, 1, "a">>, open()),
    {ok, [], [], Same} = data(binary:copy(<<0, 0>>, 10_000), Begun),
    ?assertEqual(erts_debug:flat_size(Begun), erts_debug:flat_size(Same)),
    {ok, [_], [], Rest} = data(<<(frame(1, 1, binary:copy(<<"a">>, 100_000)))/binary, 16#81>>,
                               open()),
    ?assert(lists:sum([binary:referenced_byte_size(Field) || Field <- tuple_to_list(Rest),
                                                             is_binary(Field)]) < 1000).

%% Any bytes are read or refused.
noise(_) ->
    Words = [<<16#81, 1, "a">>, <<16#01, 0>>, <<16#80, 0>>, <<16#89, 0>>, <<16#88, 0>>, <<126>>,
             <<127>>, <<0>>, <<"HTTP/1.1 101 x\r\n">>, <<"Upgrade: websocket\r\n">>, <<"\r\n">>],
    ?assert(proper:quickcheck(
              ?FORALL({State, Pieces}, {oneof([open(), element(3, asked(none))]),
                                        list(oneof([oneof(Words), binary(3)]))},
                      survives(whittle_load_agent_websocket, Pieces, State)),
              [{to_file, user}, 3000])).

%% Internal

endless(State, Bytes) ->
    case data(<<"HTTP/1.1 101 x\r\n">>, State) of
        {ok, [], [], Next} -> endless(Next, Bytes, 100)
    end.

endless(State, Bytes, Left) when Left > 0 ->
    case data(Bytes, State) of
        {ok, [], [], Next} -> endless(Next, Bytes, Left - 1);
        Other -> Other
    end.

%% The request, the fields of a right response, and the state
asked(Subprotocol) ->
    Options = #{host => <<"localhost:80">>, path => [<<"/a/">>, id], subprotocol => Subprotocol},
    {await, Request, opened, State} =
        step(upgrade, ?USER, whittle_load_agent_websocket:init(Options, ?USER)),
    {match, [Key]} = re:run(Request, "Sec-WebSocket-Key: ([^\r]*)", [{capture, [1], binary}]),
    Accept = base64:encode(crypto:hash(sha, [Key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"])),
    {iolist_to_binary(Request),
     [{"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Accept", Accept}],
     State}.

response(Fields) ->
    iolist_to_binary(["HTTP/1.1 101 Switching Protocols\r\n",
                      [[Name, ": ", Value, "\r\n"] || {Name, Value} <- Fields], "\r\n"]).

open() ->
    {_, Fields, State} = asked(none),
    {ok, [opened], [], Open} = data(response(Fields), State),
    Open.

opened({ok, Events, Out, _}) -> {ok, Events, Out};
opened(Other) -> Other.

%% A message in fragments, with pings between them: its text, the pongs, its bytes
message() ->
    ?LET({All, Pings}, {non_empty(list(part())), list(integer(0, 5))},
         begin
             %% More might be longer than the longest message.
             Parts = lists:sublist(All, 14),
             Count = length(Parts),
             Frames = [[frame(case N of Count -> 1; _ -> 0 end, case N of 1 -> 1; _ -> 0 end, Part),
                        [frame(1, 9, <<"p">>) || P <- Pings, P =:= N, N < Count]]
                       || {N, Part} <- lists:zip(lists:seq(1, Count), Parts)],
             {iolist_to_binary(Parts), [<<"p">> || P <- Pings, P >= 1, P < Count], Frames}
         end).

part() -> oneof([<<>>, <<"ab">>, <<"é"/utf8>>, binary:copy(<<"x">>, 125),
                 binary:copy(<<"y">>, 126), binary:copy(<<"z">>, 70_000)]).

frame(Final, Code, Payload) ->
    case byte_size(Payload) of
        Size when Size < 126 -> <<Final:1, 0:3, Code:4, Size, Payload/binary>>;
        Size when Size < 65_536 -> <<Final:1, 0:3, Code:4, 126, Size:16, Payload/binary>>;
        Size -> <<Final:1, 0:3, Code:4, 127, Size:64, Payload/binary>>
    end.

unmasked(Frame) -> unmasked_bytes(iolist_to_binary(Frame)).

unmasked_bytes(<<1:1, 0:3, Code:4, 1:1, 127:7, Size:64, Key:4/binary, Bytes:Size/binary>>) ->
    {Code, without(Key, Bytes)};
unmasked_bytes(<<1:1, 0:3, Code:4, 1:1, 126:7, Size:16, Key:4/binary, Bytes:Size/binary>>) ->
    {Code, without(Key, Bytes)};
unmasked_bytes(<<1:1, 0:3, Code:4, 1:1, Size:7, Key:4/binary, Bytes:Size/binary>>) ->
    {Code, without(Key, Bytes)}.

without(Key, Bytes) ->
    Size = byte_size(Bytes),
    crypto:exor(Bytes, binary:part(binary:copy(Key, Size div 4 + 1), 0, Size)).

fed(Pieces, State) ->
    lists:foldl(fun(Piece, {Events, Pongs, Before}) ->
                        {ok, More, Out, After} = data(Piece, Before),
                        {Events ++ More,
                         Pongs ++ [Text || Frame <- Out, {10, Text} <- [unmasked(Frame)]], After}
                end, {[], [], State}, Pieces).
