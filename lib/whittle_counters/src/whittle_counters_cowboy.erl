%% @doc Answers scrapes as a cowboy handler: `{"/metrics", whittle_counters_cowboy, []}' in the
%% routes. It works with cowboy 2. The build needs nothing of cowboy.
-module(whittle_counters_cowboy).

-ignore_xref([{cowboy_req, header, 3}, {cowboy_req, reply, 4}, {cowboy_req, stream_reply, 3},
              {cowboy_req, stream_body, 3}]).
-export([init/2]).

%% @doc Answers a scrape as a stream.
-spec init(map(), term()) -> {ok, map(), term()}.
init(Request, State) ->
    case whittle_counters_sup:is_up() of
        true -> {ok, scrape(Request), State};
        false ->
            {Status, Type, Body} = whittle_counters_http:stopped(),
            {ok, cowboy_req:reply(Status, #{<<"content-type">> => Type}, Body, Request), State}
    end.

scrape(Request) ->
    Format = whittle_counters_http:negotiate(cowboy_req:header(<<"accept">>, Request, <<>>)),
    Type = whittle_counters_http:content_type(Format),
    Streamed = cowboy_req:stream_reply(200, #{<<"content-type">> => Type}, Request),
    ok = whittle_counters_http:stream(
           Format, fun(Piece) -> cowboy_req:stream_body(Piece, nofin, Streamed) end),
    ok = cowboy_req:stream_body(<<>>, fin, Streamed),
    Streamed.
