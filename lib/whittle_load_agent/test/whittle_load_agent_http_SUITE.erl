%% Tests the client for HTTP.
-module(whittle_load_agent_http_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([requests/1, responses/1, in_pieces/1, unasked/1, ends/1, kept/1, wrong/1, statuses/1,
         noise/1]).

-import(whittle_load_agent_bytes, [pieces/2, survives/3]).

-define(USER, #{id => 7, row => {}, random => 3, clock => 0}).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [requests, responses, in_pieces, unasked, ends, kept, wrong, statuses, noise].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

requests(_) ->
    ?assertEqual(<<"GET /a/7 HTTP/1.1\r\nHost: localhost:80\r\n\r\n">>,
                 request({request, <<"GET">>, [<<"/a/">>, id], none, [], any})),
    ?assertEqual(<<"POST / HTTP/1.1\r\nHost: localhost:80\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 4\r\n\r\nhi 7">>,
                 request({request, <<"POST">>, [<<"/">>], [<<"text/plain">>], [<<"hi ">>, id],
                          201})),
    {await, Bytes, _, _} =
        whittle_load_agent_http:step({request, <<"GET">>, [<<"/">>], none, [], any}, ?USER,
                                     new([{<<"A">>, [<<"b">>, id]}, {<<"C">>, [<<"d">>]}])),
    ?assertEqual(<<"GET / HTTP/1.1\r\nHost: localhost:80\r\nA: b7\r\nC: d\r\n\r\n">>,
                 iolist_to_binary(Bytes)).

%% Each case: the method, the response, and the events
-define(RESPONSES,
        [{<<"GET">>, <<"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi">>,
          [{response, 200, false, none}]},
         {<<"GET">>, <<"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n">>,
          [{response, 200, true, none}]},
         {<<"GET">>, <<"HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\nx">>,
          [{response, 404, true, none}]},
         {<<"GET">>, <<"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx">>,
          [{response, 200, false, none}]},
         {<<"HEAD">>, <<"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n">>,
          [{response, 200, false, none}]},
         {<<"GET">>, <<"HTTP/1.1 204 No Content\r\n\r\n">>, [{response, 204, false, none}]},
         {<<"GET">>, <<"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n"
                       "Content-Length: 0\r\n\r\n">>, [{response, 201, false, none}]},
         {<<"GET">>, <<"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5;x=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n">>,
          [{response, 200, false, none}]}]).

responses(_) ->
    [?assertEqual({Bytes, Events}, {Bytes, events(Method, [Bytes])})
     || {Method, Bytes, Events} <- ?RESPONSES].

%% The borders of messages mean nothing.
in_pieces(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({{Method, Bytes, Events}, Sizes}, {oneof(?RESPONSES), list(integer(1, 20))},
                      Events =:= events(Method, pieces(Bytes, Sizes))),
              [{numtests, 500}, {to_file, user}])).

%% A second response answers nothing: neither the same request nor the next one.
unasked(_) ->
    Response = <<"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n">>,
    {ok, [{response, 200, false, none}, Unasked], [], State} =
        whittle_load_agent_http:data(<<Response/binary, Response/binary>>, asked(<<"GET">>)),
    ?assertNot(whittle_load_agent_http:match({status, any}, Unasked)),
    ?assertEqual({ok, []}, whittle_load_agent_http:closed(State)),
    ?assertMatch({ok, [{unasked, 200}], [], _}, whittle_load_agent_http:data(Response, State)).

%% Without a length, the end of the connection is the end of the body.
ends(_) ->
    {ok, [], [], Open} = whittle_load_agent_http:data(<<"HTTP/1.1 200 OK\r\n\r\nhel">>,
                                                      asked(<<"GET">>)),
    {ok, [], [], Later} = whittle_load_agent_http:data(<<"lo">>, Open),
    ?assertEqual({ok, [{response, 200, true, none}]}, whittle_load_agent_http:closed(Later)),
    {ok, [], [], Cut} = whittle_load_agent_http:data(<<"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
                                                       "\r\nhel">>, asked(<<"GET">>)),
    ?assertEqual({error, closed}, whittle_load_agent_http:closed(Cut)),
    ?assertEqual({ok, []}, whittle_load_agent_http:closed(new())).

%% A request that keeps its answer gives the body, in each form and in any pieces.
kept(_) ->
    Step = {keep, {request, <<"GET">>, [<<"/">>], none, [], any}},
    {await, _, Await, Asked} = whittle_load_agent_http:step(Step, ?USER, new()),
    Head = <<"HTTP/1.1 200 OK\r\n">>,
    [begin
         {Given, State} =
             lists:foldl(fun(Piece, {Before, Each}) ->
                                 {ok, Events, [], Next} = whittle_load_agent_http:data(Piece, Each),
                                 {Before ++ Events, Next}
                         end, {[], Asked}, [<<Byte>> || <<Byte>> <= <<Head/binary, Rest/binary>>]),
         {ok, Last} = whittle_load_agent_http:closed(State),
         [Event] = Given ++ Last,
         ?assertEqual({Rest, Found}, {Rest, whittle_load_agent_http:match(Await, Event)}),
         ?assertEqual({Rest, Body},
                      {Rest, iolist_to_binary(whittle_load_agent_http:text(Event))})
     end || {Rest, Found, Body} <-
                [{<<"Content-Length: 5\r\n\r\nhello">>, true, <<"hello">>},
                 {<<"Content-Length: 0\r\n\r\n">>, true, <<>>},
                 {<<"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n">>, true,
                  <<"hello">>},
                 {<<"\r\nhello">>, last, <<"hello">>}]].

wrong(_) ->
    [?assertMatch({Bytes, {error, _}},
                  {Bytes, whittle_load_agent_http:data(Bytes, asked(<<"GET">>))})
     || Bytes <- [<<"220 mail.example ESMTP\r\n">>, <<"GET / HTTP/1.1\r\n">>,
                  <<"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n">>,
                  <<"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n">>,
                  <<"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n">>,
                  <<"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n">>,
                  <<"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n">>]],
    ?assertMatch({error, _}, whittle_load_agent_http:data(
                               iolist_to_binary(["HTTP/1.1 200 OK\r\nX: ",
                                                 binary:copy(<<"x">>, 100_000)]),
                               asked(<<"GET">>))).

statuses(_) ->
    [?assertEqual({Expected, Event, Result},
                  {Expected, Event, whittle_load_agent_http:match({status, Expected}, Event)})
     || {Expected, Event, Result} <-
            [{any, {response, 200, false, none}, true}, {any, {response, 302, true, none}, last},
             {any, {response, 404, false, none}, {error, <<"status_404">>}},
             {404, {response, 404, false, none}, true},
             {200, {response, 201, false, none}, {error, <<"status_201">>}}]].

%% Any bytes are read or refused.
noise(_) ->
    Words = [<<"HTTP/1.1 200 OK\r\n">>, <<"HTTP/1.1 ">>, <<"\r\n">>, <<"Content-Length: 3\r\n">>,
             <<"Transfer-Encoding: chunked\r\n">>, <<"3\r\n">>, <<"abc">>, <<"0\r\n">>, <<":">>],
    ?assert(proper:quickcheck(
              ?FORALL(Pieces, list(oneof([oneof(Words), binary(3)])),
                      survives(whittle_load_agent_http, Pieces, asked(<<"GET">>))),
              [{numtests, 2000}, {to_file, user}])).

%% Internal

new() -> new([]).

new(Headers) ->
    whittle_load_agent_http:init(#{host => <<"localhost:80">>, headers => Headers}, ?USER).

asked(Method) ->
    {await, _, _, State} =
        whittle_load_agent_http:step({request, Method, [<<"/">>], none, [], any}, ?USER, new()),
    State.

request(Step) ->
    {await, Bytes, _, _} = whittle_load_agent_http:step(Step, ?USER, new()),
    iolist_to_binary(Bytes).

events(Method, Pieces) ->
    {Events, _} = lists:foldl(fun(Bytes, {Before, State}) ->
                                      {ok, Given, [], Next} =
                                          whittle_load_agent_http:data(Bytes, State),
                                      {Before ++ Given, Next}
                              end, {[], asked(Method)}, Pieces),
    Events.
