%% Tests the picture: its points, its file, and its parts on several processes.
-module(docket_picture_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([points/1, limits/1, parallel/1, lost_node/1, png/1]).

all() -> [points, limits, parallel, lost_node, png].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

%% Points of which mathematics knows whether they belong to the set. -1 and 0 do, 1 does not: 1, 2,
%% 5.
points(_) ->
    ?assertMatch(<<0>>, point(0, 0)),
    ?assertMatch(<<0>>, point(-1, 0)),
    ?assertMatch(<<0>>, point(0, 1)),
    %% The gray is the same on both sides of the real axis.
    [?assertEqual(point(X, Y), point(X, -Y)) || X <- [-2, -0.5, 0.3, 1], Y <- [0.1, 0.7, 1.3]],
    <<Early>> = point(2, 2),
    <<Late>> = point(-0.75, 0.1),
    ?assert(Early > Late),
    ?assert(Late > 0).

point(X, Y) ->
    {ok, Area} = docket_picture:area(#{<<"width">> => 1, <<"height">> => 1, <<"x">> => X,
                                       <<"y">> => Y,
                                       <<"span">> => 1.0e-9}),
    docket_picture:rows(Area, 0, 0).

limits(_) ->
    [?assertMatch({_, {error, _}}, {Values, docket_picture:area(Values)})
     || Values <- [#{<<"width">> => 0}, #{<<"width">> => 1001}, #{<<"width">> => 2.5},
                   #{<<"steps">> => 1001}, #{<<"span">> => 0}, #{<<"x">> => -5}]],
    {error, Why} = docket_picture:area(#{<<"width">> => 0}),
    ?assertEqual(<<"width takes a whole number from 1 to 1000">>, iolist_to_binary(Why)).

parallel(_) ->
    Area = area(),
    ?assertEqual(docket_picture:rows(Area, 0, 60), docket_compute:rows(Area)).

%% A node that lacks the code, or ends, costs nothing but its work.
lost_node(_) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, name => peer:random_name()}),
    true = net_kernel:connect_node(peer:call(Peer, erlang, node, [])),
    Area = area(),
    ?assertEqual(docket_picture:rows(Area, 0, 60), docket_compute:rows(Area)),
    ok = peer:stop(Peer).

area() ->
    {ok, Area} = docket_picture:area(#{<<"width">> => 33, <<"height">> => 61, <<"steps">> => 50}),
    Area.

%% The file has the signature, three chunks with right checksums, and the points.
png(_) ->
    Points = list_to_binary([X * Y rem 256 || Y <- lists:seq(1, 5), X <- lists:seq(1, 7)]),
    <<137, "PNG\r\n", 26, "\n", Chunks/binary>> = iolist_to_binary(docket_png:gray(7, Points)),
    [{<<"IHDR">>, <<7:32, 5:32, 8, 0:32>>}, {<<"IDAT">>, Data}, {<<"IEND">>, <<>>}] =
        chunks(Chunks),
    ?assertEqual(Points, << <<Row/binary>> || <<0, Row:7/binary>> <= zlib:uncompress(Data) >>).

chunks(<<>>) -> [];
chunks(<<Size:32, Type:4/binary, Data:Size/binary, Crc:32, Rest/binary>>) ->
    ?assertEqual(Crc, erlang:crc32([Type, Data])),
    [{Type, Data} | chunks(Rest)].
