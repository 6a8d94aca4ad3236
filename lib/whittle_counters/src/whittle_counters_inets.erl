%% @doc Answers `GET /metrics' as a module of inets' httpd.
%%
%% Put it into `{modules, [whittle_counters_inets, ...]}'. It leaves other requests to the next
%% modules.
-module(whittle_counters_inets).

-include_lib("inets/include/httpd.hrl").
-export([do/1]).

%% @doc Answers a scrape.
-spec do(#mod{}) -> {proceed, list()}.
do(#mod{method = "GET", request_uri = "/metrics" ++ Rest, parsed_header = Headers, data = Data})
  when Rest =:= []; hd(Rest) =:= $? ->
    {Status, Type, Body} =
        whittle_counters_http:answer(list_to_binary(proplists:get_value("accept", Headers, ""))),
    Head = [{code, Status}, {content_type, binary_to_list(Type)},
            {content_length, integer_to_list(iolist_size(Body))}],
    {proceed, [{response, {response, Head, Body}} | Data]};
do(#mod{data = Data}) ->
    {proceed, Data}.
