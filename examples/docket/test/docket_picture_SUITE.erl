%% Tests the picture: its points, its file, and its parts on several processes.
-module(docket_picture_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
%% A function that another node runs
-export([tell/1]).
-export([points/1, limits/1, parallel/1, lost_node/1, hung_node/1, too_slow/1, png/1]).

all() -> [points, limits, parallel, lost_node, hung_node, too_slow, png].

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
    ?assertEqual({ok, docket_picture:rows(Area, 0, 60)}, rows(Area, [])).

%% A minute is far more than these pictures need.
rows(Area, Nodes) -> docket_compute:rows(Area, Nodes, now_ms() + 60_000).

now_ms() -> erlang:monotonic_time(millisecond).

%% A node that lacks the code, or ends, costs nothing but its work.
lost_node(_) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, name => peer:random_name()}),
    Node = peer:call(Peer, erlang, node, []),
    true = net_kernel:connect_node(Node),
    Area = area(),
    ?assertEqual({ok, docket_picture:rows(Area, 0, 60)}, rows(Area, [Node])),
    ok = peer:stop(Peer).

%% A node that hangs gets rows, and does not send them. The others do them too.
hung_node(_) ->
    {ok, Peer, Node} = peer:start_link(#{connection => standard_io, name => peer:random_name(),
                                         args => ["-pa" | code:get_path()]}),
    true = net_kernel:connect_node(Node),
    {module, _} = peer:call(Peer, code, load_file, [docket_compute]),
    Test = self(),
    Hang = "-module(docket_picture).\n-export([rows/3]).\n"
        "rows(_, _, _) -> docket_picture_hangs ! hangs, receive never -> ok end.\n",
    {module, _} = peer:call(Peer, code, load_binary, [docket_picture, "test", compiled(Hang)]),
    true = peer:call(Peer, erlang, register, [docket_picture_hangs, teller(Node, Test)]),
    %% Large enough that the node gets some before the others have done all
    {ok, Area} = docket_picture:area(#{<<"width">> => 1000, <<"height">> => 61,
                                       <<"steps">> => 500}),
    ?assertEqual({ok, docket_picture:rows(Area, 0, 60)}, rows(Area, [Node])),
    receive hangs -> ok end,
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ok = peer:stop(Peer).

%% A process of that node that hands everything on
teller(Node, Test) -> spawn(Node, ?MODULE, tell, [Test]).

tell(Test) ->
    receive Message -> Test ! Message end,
    tell(Test).

compiled(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, _, Beam} = compile:forms(forms(Tokens, [])),
    Beam.

forms([], []) -> [];
forms([{dot, _} = Dot | Tokens], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | forms(Tokens, [])];
forms([Token | Tokens], Form) -> forms(Tokens, [Token | Form]).

%% The largest picture ends at the deadline, and leaves nothing behind.
too_slow(_) ->
    {ok, Area} = docket_picture:area(#{<<"width">> => 1000, <<"height">> => 1000,
                                       <<"steps">> => 1000, <<"span">> => 0.1}),
    Before = length(processes()),
    ?assertEqual({error, slow}, docket_compute:rows(Area, [], now_ms() + 50)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ok = until_ended(Before).

until_ended(Before) ->
    case length(processes()) =< Before of
        true -> ok;
        false -> until_ended(Before)
    end.

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
