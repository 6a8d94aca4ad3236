%% Tests the client for MQTT.
-module(whittle_load_agent_mqtt_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([login/1, steps/1, levels/1, numbers/1, in_pieces/1, moments/1, forbidden/1, sizes/1,
         noise/1]).

-import(whittle_load_agent_bytes, [pieces/2, survives/3]).
-import(whittle_load_agent_mqtt, [data/2, step/3, match/2, bye/1, keep_alive/1]).

-define(USER, #{id => 7, row => {}, random => 3, clock => 5}).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [login, steps, levels, numbers, in_pieces, moments, forbidden, sizes, noise].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

login(_) ->
    New = new(),
    ?assertEqual([], bye(New)),
    ?assertEqual({[], New}, keep_alive(New)),
    ?assertEqual({error, not_logged_in}, step({publish, [], [], 0}, ?USER, New)),
    {await, Anonymous, online, Asked} = step({login, [<<"c">>, id]}, ?USER, New),
    ?assertEqual(<<16#10, 14, 4:16, "MQTT", 4, 2, 60:16, 2:16, "c7">>,
                 iolist_to_binary(Anonymous)),
    {await, Named, online, _} = step({login, [<<"c">>], [<<"u">>], [<<"pw">>]}, ?USER, New),
    ?assertEqual(<<16#10, 20, 4:16, "MQTT", 4, 16#C2, 60:16, 1:16, "c", 1:16, "u", 2:16, "pw">>,
                 iolist_to_binary(Named)),
    {ok, [online], [[]], Online} = data(<<16#20, 2, 0, 0>>, Asked),
    ?assert(match(online, online)),
    ?assertEqual({error, logged_in_twice}, step({login, []}, ?USER, Online)),
    ?assertEqual(<<16#E0, 0>>, bye(Online)),
    ?assertEqual({<<16#C0, 0>>, Online}, keep_alive(Online)),
    [begin
         {ok, [Event], _, _} = data(<<16#20, 2, 0, Code>>, Asked),
         ?assertEqual({Code, {error, Kind}}, {Code, match(online, Event)})
     end || {Code, Kind} <- [{1, wrong_version}, {2, identifier_rejected}, {3, unavailable},
                             {4, bad_credentials}, {5, not_authorized}, {6, refused}]].

steps(_) ->
    Online = online(),
    {await, Subscribe, Subscribed, S1} = step({subscribe, [<<"a/+">>], 1}, ?USER, Online),
    ?assertEqual(<<16#82, 8, 1:16, 3:16, "a/+", 1>>, iolist_to_binary(Subscribe)),
    {ok, [Granted], _, S2} = data(<<16#90, 3, 1:16, 1>>, S1),
    ?assert(match(Subscribed, Granted)),
    {ok, [Other], _, _} = data(<<16#90, 3, 2:16, 1>>, S1),
    ?assertNot(match(Subscribed, Other)),
    {ok, [Refused], _, _} = data(<<16#90, 3, 1:16, 128>>, S1),
    ?assertEqual({error, subscription_refused}, match(Subscribed, Refused)),
    {await, Unsubscribe, Unsubscribed, S3} = step({unsubscribe, [<<"a/+">>]}, ?USER, S2),
    ?assertEqual(<<16#A2, 7, 2:16, 3:16, "a/+">>, iolist_to_binary(Unsubscribe)),
    {ok, [Gone], _, S4} = data(<<16#B0, 2, 2:16>>, S3),
    ?assert(match(Unsubscribed, Gone)),
    {sent, Publish, S4} = step({publish, [<<"t">>], [<<"x">>, id], 0}, ?USER, S4),
    ?assertEqual(<<16#30, 5, 1:16, "tx7">>, iolist_to_binary(Publish)),
    {ok, [Message], [[]], S4} = data(<<16#30, 7, 2:16, "a/", "abc">>, S4),
    [?assertEqual({Step, Expected},
                  {Step, match(element(3, step(Step, ?USER, S4)), Message)})
     || {Step, Expected} <- [{{expect, [<<"ab">>]}, true}, {{expect, [<<"b">>]}, false},
                             {{expect, [<<"a/">>], [<<"ab">>]}, true},
                             {{expect, [<<"b/">>], [<<"ab">>]}, false}]],
    {sent, Large, _} = step({publish, [<<"t">>], [binary:copy(<<"x">>, 200)], 0}, ?USER, S4),
    ?assertMatch(<<16#30, 203, 1, 1:16, "t", "x", _/binary>>, iolist_to_binary(Large)).

%% Level 1 has one answer, and level 2 three packets behind the first, in both directions.
levels(_) ->
    Online = online(),
    {await, One, {published, 1, 1} = Await1, S1} = step({publish, [<<"t">>], [], 1}, ?USER, Online),
    ?assertEqual(<<16#32, 5, 1:16, "t", 1:16>>, iolist_to_binary(One)),
    {ok, [Ack], _, S2} = data(<<16#40, 2, 1:16>>, S1),
    ?assert(match(Await1, Ack)),
    {await, Two, Await2, S3} = step({publish, [<<"t">>], [], 2}, ?USER, S2),
    ?assertEqual(<<16#34, 5, 1:16, "t", 2:16>>, iolist_to_binary(Two)),
    {ok, [], Release, S4} = data(<<16#50, 2, 2:16>>, S3),
    ?assertEqual(<<16#62, 2, 2:16>>, iolist_to_binary(Release)),
    {ok, [Complete], _, S5} = data(<<16#70, 2, 2:16>>, S4),
    ?assert(match(Await2, Complete)),
    {ok, [{message, <<"t">>, <<"a">>}], Ack1, S6} = data(<<16#32, 6, 1:16, "t", 9:16, "a">>, S5),
    ?assertEqual(<<16#40, 2, 9:16>>, iolist_to_binary(Ack1)),
    %% The server sends the same message a second time.
    Message = <<6, 1:16, "t", 9:16, "b">>,
    {ok, [{message, <<"t">>, <<"b">>}], Received, S7} = data(<<16#34, Message/binary>>, S6),
    ?assertEqual(<<16#50, 2, 9:16>>, iolist_to_binary(Received)),
    {ok, [], Again, S7} = data(<<16#3C, Message/binary>>, S7),
    ?assertEqual(<<16#50, 2, 9:16>>, iolist_to_binary(Again)),
    {ok, [], Complete1, S8} = data(<<16#62, 2, 9:16>>, S7),
    ?assertEqual(<<16#70, 2, 9:16>>, iolist_to_binary(Complete1)),
    {ok, [{message, <<"t">>, <<"b">>}], _, _} = data(<<16#34, Message/binary>>, S8).

%% 0 is not the number of a packet.
numbers(_) ->
    {_, Ids} = lists:foldl(fun(_, {State, Before}) ->
                                   {await, _, {published, 1, Id}, Next} =
                                       step({publish, [], [], 1}, ?USER, State),
                                   {Next, [Id | Before]}
                           end, {online(), []}, lists:seq(1, 65_537)),
    ?assertEqual([2, 1, 65_535, 65_534], lists:sublist(Ids, 4)),
    ?assertEqual(1, lists:min(Ids)).

%% The events and answers do not depend on the pieces in which the bytes arrive.
in_pieces(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Packets, Sizes}, {list(packet()), list(integer(1, 40))},
                      begin
                          Bytes = iolist_to_binary([Packet || {_, Packet} <- Packets]),
                          {Events, Out, State} = fed(pieces(Bytes, Sizes), online()),
                          {Whole, Answers, Same} = fed([Bytes], online()),
                          State =:= Same andalso Events =:= Whole andalso Out =:= Answers
                              andalso Events =:= lists:append([Event || {Event, _} <- Packets])
                      end), [{to_file, user}, 1000])).

moments(_) ->
    ?assertMatch({ok, [{delivered, 123, {message, <<"t">>, <<"a sent=123;">>}}], _, _},
                 data(<<16#30, 14, 1:16, "ta sent=123;">>, online())),
    [?assertEqual({Text, plain}, {Text, whittle_load_agent_text:delivered(Text, plain)})
     || Text <- [<<>>, <<"sent=">>, <<"sent=;">>, <<"sent=12">>, <<"sent=1x;">>,
                 <<"sent=123456789012345678901;">>, <<"sen">>]].

forbidden(_) ->
    [?assertEqual({Bytes, {error, bad_packet}}, {Bytes, data(Bytes, State)})
     || {Bytes, State} <-
            [{<<16#20, 2, 0, 0>>, online()}, {<<16#20, 2, 1, 0>>, asked()},
             {<<16#30, 3, 1:16, "t">>, asked()}, {<<16#00, 0>>, online()},
             {<<16#F0, 0>>, online()}, {<<16#36, 5, 1:16, "t", 1:16>>, online()},
             {<<16#32, 5, 1:16, "t", 0:16>>, online()}, {<<16#30, 2, 1:16>>, online()},
             {<<16#40, 3, 1:16, 0>>, online()}, {<<16#60, 2, 1:16>>, online()},
             {<<16#90, 3, 1:16, 3>>, online()}, {<<16#D0, 1, 0>>, online()},
             {<<16#C0, 0>>, online()}]].

sizes(_) ->
    ?assertMatch({error, too_long}, data(<<16#30, 255, 255, 255, 255>>, online())),
    ?assertMatch({error, too_long}, data(<<16#30, 255, 255, 255, 127>>, online())),
    {ok, [], [], Partly} = data(<<16#30, 16#C0, 16#84, 16#3D, 1:16, "t">>, online()),
    {ok, [{message, <<"t">>, Payload}], _, Last} = data(binary:copy(<<"x">>, 999_997), Partly),
    ?assertEqual(999_997, byte_size(Payload)),
    ?assertEqual(online(), Last).

%% Any bytes are read or refused.
noise(_) ->
    Words = [<<16#20, 2, 0, 0>>, <<16#30, 4, 1:16, "ta">>, <<16#34, 5, 1:16, "t", 1:16>>,
             <<16#62, 2, 1:16>>, <<16#90, 3, 1:16>>, <<255>>, <<0>>, <<16#D0, 0>>],
    ?assert(proper:quickcheck(
              ?FORALL({State, Pieces}, {oneof([online(), asked(), new()]),
                                        list(oneof([oneof(Words), binary(3)]))},
                      survives(whittle_load_agent_mqtt, Pieces, State)),
              [{to_file, user}, 3000])).

%% Internal

new() -> whittle_load_agent_mqtt:init(#{keep_alive => 60}, ?USER).

asked() ->
    {await, _, online, State} = step({login, [<<"c">>]}, ?USER, new()),
    State.

online() ->
    {ok, [online], _, State} = data(<<16#20, 2, 0, 0>>, asked()),
    State.

%% A packet and its events
packet() ->
    oneof([{[], <<16#D0, 0>>},
           {[{published, 1, 5}], <<16#40, 2, 5:16>>},
           {[], <<16#50, 2, 6:16>>},
           ?LET({Level, Topic, Payload}, {integer(0, 1), topic(), payload()},
                begin
                    Id = [<<77:16>> || Level =:= 1],
                    Contents = iolist_to_binary([<<(byte_size(Topic)):16>>, Topic, Id, Payload]),
                    {[{message, Topic, Payload}],
                     [16#30 bor (Level bsl 1), length_of(byte_size(Contents)), Contents]}
                end)]).

topic() -> oneof([<<"a">>, <<"a/b/c">>, binary:copy(<<"t">>, 300)]).

payload() -> oneof([<<>>, <<0>>, binary:copy(<<"p">>, 120), binary:copy(<<"q">>, 20_000)]).

length_of(Length) when Length < 128 -> [Length];
length_of(Length) -> [128 + Length rem 128 | length_of(Length div 128)].

fed(Pieces, State) ->
    lists:foldl(fun(Piece, {Events, Answers, Before}) ->
                        {ok, More, Out, After} = data(Piece, Before),
                        {Events ++ More, iolist_to_binary([Answers, Out]), After}
                end, {[], <<>>, State}, Pieces).
