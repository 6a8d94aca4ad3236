%% @doc Answers `GET /metrics' as an elli handler, also in elli_middleware. It ignores other
%% requests. The build needs nothing of elli.
-module(whittle_counters_elli).

-ignore_xref([{elli_request, method, 1}, {elli_request, path, 1},
              {elli_request, get_header, 3}]).
-export([handle/2, handle_event/3]).

%% @doc Answers a scrape.
-spec handle(term(), term()) -> {200 | 503, [{binary(), binary()}], iodata()} | ignore.
handle(Request, _) ->
    case {elli_request:method(Request), elli_request:path(Request)} of
        {'GET', [<<"metrics">>]} ->
            Accept = elli_request:get_header(<<"Accept">>, Request, <<>>),
            {Status, Type, Body} = whittle_counters_http:answer(Accept),
            {Status, [{<<"Content-Type">>, Type}], Body};
        _ -> ignore
    end.

%% @doc Ignores elli's events.
-spec handle_event(atom(), list(), term()) -> ok.
handle_event(_, _, _) -> ok.
