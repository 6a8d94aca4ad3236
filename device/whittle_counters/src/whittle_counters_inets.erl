%% @doc A module for inets' httpd: `{modules, [whittle_counters_inets, ...]}'
%% answers `GET /metrics' and leaves the rest to those behind it.
-module(whittle_counters_inets).

-include_lib("inets/include/httpd.hrl").
-export([do/1]).

%% @doc Answers a scrape.
-spec do(#mod{}) -> {proceed, list()}.
do(#mod{method = "GET", request_uri = "/metrics", parsed_header = Headers, data = Data}) ->
    Accept = list_to_binary(proplists:get_value("accept", Headers, "")),
    Format = whittle_counters_http:negotiate(Accept),
    {ok, Body} = whittle_counters_stream:collect(
                   fun(Write) -> whittle_counters_http:stream(Format, Write) end),
    Head = [{code, 200}, {content_type, binary_to_list(whittle_counters_http:content_type(Format))},
            {content_length, integer_to_list(iolist_size(Body))}],
    {proceed, [{response, {response, Head, Body}} | Data]};
do(#mod{data = Data}) ->
    {proceed, Data}.
