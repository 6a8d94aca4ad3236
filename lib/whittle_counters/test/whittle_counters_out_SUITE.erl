%% Tests the exporters other than the text formats: HTTP with each server's handler, StatsD, rates,
%% telemetry.
-module(whittle_counters_out_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([readme/1, http/1, http_idle_clients/1, http_bad_requests/1, http_cut_off/1,
         http_too_long/1, http_crowd/1, http_gone/1, http_slow_clients/1, http_unread_crowd/1,
         http_unread_few/1, http_fresh/1, http_deadline/1, http_ends/1, accepts/1, restart/1,
         port_taken/1, bad_options/1, inets/1, cowboy/1, elli/1, protobuf/1, statsd/1,
         statsd_tells_once/1, statsd_long/1, statsd_units/1, statsd_over_udp/1, statsd_unsent/1,
         rates/1, telemetry/1]).

suite() -> [{timetrap, {minutes, 2}}].

%% A request of the metrics
-define(GET, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").

all() ->
    [readme, http, http_idle_clients, http_bad_requests, http_cut_off, http_too_long,
     http_crowd, http_gone, http_slow_clients, http_unread_crowd, http_unread_few, http_fresh,
     http_deadline, http_ends, accepts, restart, port_taken,
     bad_options,
     inets, cowboy, elli, protobuf, statsd, statsd_tells_once, statsd_long, statsd_units,
     statsd_over_udp, statsd_unsent, rates, telemetry].

-define(W, whittle_counters).

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Only the test cases search for stale series.
    ok = application:set_env(whittle_counters, sweep_every, 3600000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    ok = ?W:new(jobs_total, counter, #{labels => [kind]}),
    ok = ?W:inc(jobs_total, [a], 5),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

start() ->
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0}),
    {Pid, whittle_counters_http:port(Pid)}.

stop(Pid) ->
    unlink(Pid),
    exit(Pid, kill).

%% A connection that is reset instead of closed is a failure.
request(Port, Text) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port,
                                   [binary, {active, false}, {show_econnreset, true}]),
    ok = gen_tcp:send(Socket, Text),
    Answer = receive_all(Socket, <<>>),
    gen_tcp:close(Socket),
    Answer.

receive_all(Socket, Answer) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Data} -> receive_all(Socket, <<Answer/binary, Data/binary>>);
        {error, closed} -> Answer
    end.

%% Runs the README's first example on a free port.
readme(_) ->
    [Block, Vm] = whittle_readme:first_use(?MODULE, whittle_counters),
    ?assert(length(string:lexemes(Block, "\n")) =< 10),
    Here = string:replace(Block, "9568", "0"),
    Bound = whittle_readme:run(lists:flatten(Here), []),
    Endpoint = proplists:get_value('Endpoint', Bound),
    ?assertEqual([], whittle_readme:run(Vm, [])),
    Answer = request(whittle_counters_http:port(Endpoint), "GET /metrics HTTP/1.0\r\n\r\n"),
    Line = <<"requests_total{method=\"get\",code=\"200\"} 2\n">>,
    ?assertMatch({_, _}, binary:match(Answer, Line)),
    ?assertMatch({_, _}, binary:match(Answer, <<"\nerlang_vm_memory_bytes{kind=\"total\"} ">>)),
    stop(Endpoint).

http(_) ->
    {ok, _} = application:ensure_all_started(inets),
    {Pid, Port} = start(),
    Url = "http://127.0.0.1:" ++ integer_to_list(Port) ++ "/metrics",
    Get = fun(Accept) ->
                  {ok, {{_, 200, _}, Headers, Body}} =
                      httpc:request(get, {Url, [{"accept", Accept}]}, [], [{body_format, binary}]),
                  {proplists:get_value("content-type", Headers), Body}
          end,
    {"text/plain; version=0.0.4; charset=utf-8", Text} = Get("*/*"),
    ?assertEqual(whittle_counters_text:render(prometheus), Text),
    {"application/openmetrics-text; version=1.0.0; charset=utf-8", Open} =
        Get("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
    ?assertEqual(whittle_counters_text:render(openmetrics), Open),
    {"application/vnd.google.protobuf" ++ _, _} =
        Get("application/vnd.google.protobuf;encoding=delimited"),
    Old = request(Port, "GET /metrics HTTP/1.0\r\n\r\n"),
    ?assertEqual(Text, lists:last(binary:split(Old, <<"\r\n\r\n">>))),
    stop(Pid).

http_bad_requests(_) ->
    {Pid, Port} = start(),
    Status = fun(Text) -> <<"HTTP/1.1 ", Code:3/binary, _/binary>> = request(Port, Text), Code end,
    ?assertEqual(<<"404">>, Status("GET / HTTP/1.1\r\nHost: h\r\n\r\n")),
    ?assertEqual(<<"405">>, Status("POST /metrics HTTP/1.1\r\nHost: h\r\n\r\n")),
    ?assertEqual(<<"400">>, Status("nonsense\r\n\r\n")),
    ?assertEqual(<<"400">>, Status("GET /metrics HTTP/1.1\r\nHost: h\r\nno header\r\n\r\n")),
    Lengths = fun(Values) ->
                      Status(["GET /metrics HTTP/1.1\r\nHost: h\r\n",
                              [["Content-Length: ", Value, "\r\n"] || Value <- Values], "\r\n"])
              end,
    [?assertEqual({Values, <<"400">>}, {Values, Lengths(Values)})
     || Values <- [["5", "6"], ["5, 6"], ["x"], ["-1"], [""]]],
    [?assertEqual({Values, <<"200">>}, {Values, Lengths(Values)})
     || Values <- [["0"], ["5", "5"], ["5, 5"]]],
    %% HTTP/1.0 needs no host.
    [?assertEqual({Text, Code}, {Text, Status(["GET /metrics HTTP/", Text, "\r\n\r\n"])})
     || {Text, Code} <- [{"1.0", <<"200">>}, {"1.1", <<"400">>}, {"1.1\r\nhost:", <<"200">>},
                         {"1.1\r\nHost: a\r\nHost: a", <<"400">>}]],
    %% The client gets the answer although the endpoint does not read the body before it.
    ?assertEqual(<<"405">>, Status(["POST /metrics HTTP/1.1\r\nHost: h\r\n\r\n",
                                    binary:copy(<<0>>, 50000)])),
    [begin
         {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
         ok = gen_tcp:send(Socket, rand:bytes(rand:uniform(300))),
         ok = gen_tcp:close(Socket)
     end || _ <- lists:seq(1, 200)],
    ?assertEqual(<<"200">>, Status("GET /metrics?x=1 HTTP/1.1\r\nHost: h\r\n\r\n")),
    ?assertMatch([<<"HTTP/1.1 404", _/binary>>, <<>>],
                 binary:split(request(Port, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"), <<"\r\n\r\n">>)),
    ?assertEqual(<<"200">>, Status("\r\n" ?GET)),
    ?assertEqual(<<"400">>, Status("\r\n\r\n" ?GET)),
    ?assertMatch({_, _}, binary:match(request(Port, "PUT / HTTP/1.1\r\nHost: h\r\n\r\n"),
                                      <<"\r\nAllow: GET, HEAD\r\n">>)),
    ?assertMatch([<<"HTTP/1.1 200", _/binary>>, <<>>],
                 binary:split(request(Port, "HEAD /metrics HTTP/1.1\r\nHost: h\r\n\r\n"),
                              <<"\r\n\r\n">>)),
    stop(Pid).

%% Clients that connect and send no request do not keep others from being served.
http_idle_clients(_) ->
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 3600000}),
    Port = whittle_counters_http:port(Pid),
    Idle = [begin
                {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
                Socket
            end || _ <- lists:seq(1, 20)],
    [?assertMatch(<<"HTTP/1.1 200", _/binary>>, request(Port, ?GET))
     || _ <- lists:seq(1, 5)],
    %% Clients that have their answer and do not close do not either.
    Open = [begin
                {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port,
                                               [binary, {active, false}, {exit_on_close, false}]),
                ok = gen_tcp:send(Socket, ?GET),
                <<"HTTP/1.1 200", _/binary>> = receive_all(Socket, <<>>),
                Socket
            end || _ <- lists:seq(1, 5)],
    [ok = gen_tcp:close(Socket) || Socket <- Idle ++ Open],
    stop(Pid).

%% The endpoint counts a client that goes away in the middle, and serves the next one.
http_cut_off(_) ->
    ok = many_series(),
    {Pid, Port} = start(),
    Socket = slow_client(Port),
    ok = inet:setopts(Socket, [{linger, {true, 0}}]),
    ok = gen_tcp:close(Socket),
    wait(fun() ->
                 lists:keymember({undefined, scrape_cut_off}, 1, whittle_counters_table:rejected())
         end),
    <<"HTTP/1.1 200", _/binary>> = request(Port, ?GET),
    stop(Pid).

%% The endpoint answers a request that is too long: the client sees the status and no reset,
%% although it sends everything before it reads.
http_too_long(_) ->
    {Pid, Port} = start(),
    Status = fun(Text) -> <<"HTTP/1.1 ", Code:3/binary, _/binary>> = request(Port, Text), Code end,
    Get = "GET /metrics HTTP/1.1\r\nHost: h\r\n",
    Bytes = fun(Count) -> binary:copy(<<"a">>, Count) end,
    [?assertEqual({Sent, Code}, {Sent, Status(Text)})
     || {Sent, Code, Text} <-
            [{uri, <<"414">>, ["GET /", Bytes(9000), " HTTP/1.1\r\nHost: h\r\n\r\n"]},
             {uri_without_end, <<"414">>, ["GET /", Bytes(200000)]},
             {long_uri, <<"404">>, ["GET /", Bytes(8000), " HTTP/1.1\r\nHost: h\r\n\r\n"]},
             {header, <<"431">>, [Get, "a: ", Bytes(100000), "\r\n\r\n"]},
             {header_without_end, <<"431">>, [Get, "a: ", Bytes(100000)]},
             {headers, <<"431">>, [Get, ["a: b\r\n" || _ <- lists:seq(1, 100)], "\r\n"]},
             {bytes_of_headers, <<"431">>,
              [Get, [["a: ", Bytes(8000), "\r\n"] || _ <- lists:seq(1, 5)], "\r\n"]},
             {many_headers, <<"200">>,
              [Get, ["a: b\r\n" || _ <- lists:seq(1, 99)], "\r\n"]},
             {long_header, <<"200">>, [Get, "a: ", Bytes(8000), "\r\n\r\n"]}]],
    %% The client sends single bytes, and does not send the end.
    {ok, Quick} = whittle_counters_http:start_link(#{port => 0, timeout => 1}),
    ?assertMatch(<<"HTTP/1.1 408 ", _/binary>>,
                 request(whittle_counters_http:port(Quick), "GET /met")),
    stop(Quick),
    stop(Pid).

%% Many more clients than the endpoint accepts connect and send no request; the deadline is an
%% hour. Others take their answer and stay. The endpoint still answers the next scrape.
http_crowd(_) ->
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 3600000}),
    Port = whittle_counters_http:port(Pid),
    Connect = fun(Options) ->
                      {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port,
                                                     [binary, {active, false} | Options]),
                      Socket
              end,
    Crowd = [case I rem 3 of
                 0 ->
                     Socket = Connect([{exit_on_close, false}]),
                     ok = gen_tcp:send(Socket, ?GET),
                     <<"HTTP/1.1 200", _/binary>> = receive_all(Socket, <<>>),
                     Socket;
                 _ -> Connect([])
             end || I <- lists:seq(1, 600)],
    ?assertMatch(<<"HTTP/1.1 200", _/binary>>, request(Port, ?GET)),
    %% The endpoint has closed the oldest connections, and has as many open as it may.
    ?assertMatch({error, _}, gen_tcp:recv(hd(Crowd), 0)),
    {monitors, Open} = process_info(Pid, monitors),
    ?assert(length(Open) =< 65),
    [ok = gen_tcp:close(Socket) || Socket <- Crowd],
    stop(Pid).

%% Clients that are gone before the endpoint accepts them take no places: their connections may end
%% before the endpoint handles its messages.
http_gone(_) ->
    {Pid, Port} = start(),
    Storms = [spawn_monitor(fun() -> [gone(Port) || _ <- lists:seq(1, 4000)] end)
              || _ <- lists:seq(1, 8)],
    [receive {'DOWN', Ref, process, Storm, Reason} -> ?assertEqual(normal, Reason) end
     || {Storm, Ref} <- Storms],
    Idle = [begin
                {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
                Socket
            end || _ <- lists:seq(1, 100)],
    ?assertMatch(<<"HTTP/1.1 200", _/binary>>, request(Port, ?GET)),
    [ok = gen_tcp:close(Socket) || Socket <- Idle],
    stop(Pid).

gone(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [{linger, {true, 0}}]),
    ok = gen_tcp:close(Socket).

%% Clients that begin to read their answers and then stop have all places. Other clients still get
%% their answers, at once and not after the deadline of an hour.
http_slow_clients(_) ->
    ok = many_series(),
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 3600000, patience => 1}),
    Port = whittle_counters_http:port(Pid),
    Slow = [unread(Port) || _ <- lists:seq(1, 64)] ++ [slow_client(Port)],
    Answer = request(Port, "GET /metrics HTTP/1.0\r\n\r\n"),
    ?assertMatch({_, _}, binary:match(Answer, <<"\nmany_total{id=\"50000\"} 1\n">>)),
    ?assert(lists:member({undefined, scrape_cut_off},
                         [Key || {Key, _} <- whittle_counters_table:rejected()])),
    [ok = gen_tcp:close(Socket) || Socket <- Slow],
    stop(Pid).

%% With the default settings the endpoint soon answers a scrape behind many clients that do not
%% read. The time limit in this test allows for a busy machine.
http_unread_crowd(_) ->
    ok = many_series(),
    {Pid, Port} = start(),
    Crowd = [unread(Port) || _ <- lists:seq(1, 300)],
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, ?GET),
    ?assertMatch({ok, <<"HTTP/1.1 200", _/binary>>}, gen_tcp:recv(Socket, 0, 8000)),
    Rest = receive_all(Socket, <<>>),
    ?assertMatch({_, _}, binary:match(Rest, <<"\nmany_total{id=\"50000\"} 1\n">>)),
    [ok = gen_tcp:close(Client) || Client <- Crowd],
    stop(Pid).

%% A few clients that do not read do not fill the endpoint, but each may hold an answer in memory.
%% The endpoint cuts off all but the newest four, even though no client waits.
http_unread_few(_) ->
    ok = many_series(),
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 3600000, patience => 1}),
    Port = whittle_counters_http:port(Pid),
    Slow = [slow_client(Port) || _ <- lists:seq(1, 12)],
    wait(fun() -> length(element(2, process_info(Pid, monitors))) =:= 4 end),
    [?assertEqual(closed, until_error(Socket)) || Socket <- lists:sublist(Slow, 8)],
    [ok = gen_tcp:close(Socket) || Socket <- Slow],
    stop(Pid).

%% Without a crowd, an answer contains all counts from before its request.
http_fresh(_) ->
    {Pid, Port} = start(),
    [begin
         ok = ?W:inc(jobs_total, [a]),
         Line = iolist_to_binary(["\njobs_total{kind=\"a\"} ", integer_to_list(I), "\n"]),
         Answer = request(Port, ?GET),
         ?assertMatch({I, {_, _}}, {I, binary:match(Answer, Line)})
     end || I <- lists:seq(6, 50)],
    stop(Pid).

%% A whole answer has one deadline. Here a gauge uses it up: its fun never returns, and the scrape
%% waits for read_timeout, which is longer. The client notices it, because the connection is reset.
http_deadline(_) ->
    ok = ?W:new(stuck, gauge, #{read => fun() -> receive never -> 1 end end}),
    ok = many_series(),
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 1000}),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, whittle_counters_http:port(Pid),
                                   [binary, {active, false}, {show_econnreset, true}]),
    ok = gen_tcp:send(Socket, ?GET),
    ?assertEqual(econnreset, until_error(Socket)),
    ?assert(lists:member({undefined, scrape_cut_off},
                         [Key || {Key, _} <- whittle_counters_table:rejected()])),
    stop(Pid).

until_error(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> until_error(Socket);
        {error, Reason} -> Reason
    end.

%% All connections end with the endpoint: one that sends no request, one that has its answer, and
%% one that waits.
http_ends(_) ->
    ok = many_series(),
    {ok, Pid} = whittle_counters_http:start_link(#{port => 0, timeout => 3600000,
                                                   patience => 3600000}),
    Port = whittle_counters_http:port(Pid),
    {ok, Idle} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    Slow = [slow_client(Port) || _ <- lists:seq(1, 4)],
    ok = ?W:new(stuck, gauge, #{read => fun() -> receive never -> 1 end end}),
    {ok, Waits} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Waits, ?GET),
    wait(fun() ->
                 {monitors, Open} = process_info(Pid, monitors),
                 [1 || {process, P} <- Open,
                       process_info(P, current_function)
                           =:= {current_function, {whittle_counters_shared, get, 4}}] =:= [1]
         end),
    stop(Pid),
    [?assertEqual({error, closed}, gen_tcp:recv(Socket, 0)) || Socket <- [Idle, Waits]],
    [ok = gen_tcp:close(S) || S <- Slow].

many_series() ->
    ok = ?W:new(many, counter, #{labels => [id], max_series => 60000}),
    _ = [ok = ?W:inc(many, [I]) || I <- lists:seq(1, 50000)],
    ok.

%% Sends a request, and reads nothing of the answer.
unread(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port,
                                   [binary, {active, false}, {recbuf, 4096}]),
    ok = gen_tcp:send(Socket, ?GET),
    Socket.

%% Reads the first bytes of its answer, and nothing more.
slow_client(Port) ->
    Socket = unread(Port),
    {ok, _} = gen_tcp:recv(Socket, 100),
    Socket.

%% The largest q wins, and among equals the format with the most information.
accepts(_) ->
    [?assertEqual({Accept, Format}, {Accept, whittle_counters_http:negotiate(Accept)})
     || {Format, Accept} <-
            [{prometheus, <<>>}, {prometheus, <<"*/*">>}, {prometheus, <<"image/png">>},
             {protobuf, <<"application/vnd.google.protobuf;encoding=delimited;q=0.6,"
                          "application/openmetrics-text;version=1.0.0;q=0.5,"
                          "text/plain;version=0.0.4;q=0.4,*/*;q=0.3">>},
             {openmetrics, <<"application/openmetrics-text; version=1.0.0, text/plain; q=0.5">>},
             {openmetrics, <<"application/vnd.google.protobuf;q=0.25,"
                             "Application/OpenMetrics-Text;q=0.375">>},
             {protobuf, <<"application/vnd.google.protobuf; encoding=delimited; "
                          "proto=io.prometheus.client.MetricFamily">>},
             {prometheus, <<"application/vnd.google.protobuf;encoding=text">>},
             {prometheus, <<"application/vnd.google.protobuf;proto=x;encoding=delimited">>},
             {prometheus, <<"application/openmetrics-text;q=0.3,text/plain">>},
             {prometheus, <<"application/vnd.google.protobuf;q=0, */*;q=0.1">>},
             {prometheus, <<"application/openmetrics-text;q=0.000,text/*;q=1.000">>},
             {openmetrics, <<"application/openmetrics-text;q=0.nonsense">>}]].

wait(True) -> case True() of true -> ok; false -> erlang:yield(), wait(True) end.

port_taken(_) ->
    {Pid, Port} = start(),
    _ = process_flag(trap_exit, true),
    ?assertEqual({error, {cannot_listen, eaddrinuse}},
                 whittle_counters_http:start_link(#{port => Port})),
    stop(Pid).

bad_options(_) ->
    [?assertEqual({error, {bad_option, Bad}},
                  Module:start_link(maps:from_list([Bad])))
     || {Module, Bad} <- [{whittle_counters_http, {port, 70000}},
                          {whittle_counters_http, {timeout, 0}},
                          {whittle_counters_http, {ip, "localhost"}},
                          {whittle_counters_http, {prot, 80}},
                          {whittle_counters_statsd, {style, graphite}},
                          {whittle_counters_statsd, {every, -1}},
                          {whittle_counters_statsd, {every, 1 bsl 32}},
                          {whittle_counters_http, {timeout, 1 bsl 32}},
                          {whittle_counters_http, {patience, 0}},
                          {whittle_counters_statsd, {prefix, "x"}},
                          {whittle_counters_statsd, {host, {1, 2, 3}}},
                          {whittle_counters_statsd, {host, {300, 1, 1, 1}}},
                          {whittle_counters_statsd, {host, ""}},
                          {whittle_counters_statsd, {host, "a b"}},
                          {whittle_counters_statsd, {host, [{127, 0, 0, 1}]}}]],
    ?assertEqual({error, {bad_option, []}}, whittle_counters_http:start_link([])),
    [?assertEqual({error, {bad_rule, Bad}}, whittle_counters_telemetry:attach(x, [x], Rules))
     || {Bad, Rules} <- [{none, none}, {{m, inc, [a | b]}, [{m, inc, [a | b]}]},
                         {{m, inc, [a]}, {m, inc, [a]}}]].

%% The exporters belong to other processes. These continue while the application does not run.
restart(_) ->
    {Pid, Port} = start(),
    {ok, Statsd} = whittle_counters_statsd:start_link(#{port => 9}),
    ok = application:stop(whittle_counters),
    ?assertMatch(<<"HTTP/1.1 503 ", _/binary>>, request(Port, ?GET)),
    ok = whittle_counters_statsd:push(Statsd),
    ok = application:start(whittle_counters),
    ?assertMatch(<<"HTTP/1.1 200 ", _/binary>>, request(Port, ?GET)),
    stop(Pid),
    stop(Statsd).

inets(Config) ->
    {ok, _} = application:ensure_all_started(inets),
    Root = proplists:get_value(priv_dir, Config),
    {ok, Pid} = inets:start(httpd, [{port, 0}, {bind_address, {127, 0, 0, 1}},
                                    {server_name, "test"},
                                    {server_root, Root}, {document_root, Root},
                                    {modules, [whittle_counters_inets, mod_get]}]),
    [{port, Port}] = httpd:info(Pid, [port]),
    Url = fun(Path) -> "http://127.0.0.1:" ++ integer_to_list(Port) ++ Path end,
    {ok, {{_, 200, _}, _, Body}} =
        httpc:request(get, {Url("/metrics"), []}, [], [{body_format, binary}]),
    ?assertEqual(whittle_counters_text:render(prometheus), Body),
    {ok, {{_, 200, _}, _, _}} = httpc:request(Url("/metrics?x=1")),
    [{ok, {{_, 404, _}, _, _}} = httpc:request(Url(Other)) || Other <- ["/nothing", "/metricsx"]],
    ok = application:stop(whittle_counters),
    {ok, {{_, 503, _}, _, _}} = httpc:request(Url("/metrics")),
    ok = inets:stop(httpd, Pid).

%% cowboy and elli are not available here. These modules replace the functions that the handlers
%% call, as the documentation describes them.
cowboy(_) ->
    stand_in(cowboy_req,
             ["header(<<\"accept\">>, #{accept := A}, _) -> A.",
              "stream_reply(200, #{<<\"content-type\">> := T}, R) -> R#{type => T}.",
              "stream_body(P, F, #{test := Pid}) -> Pid ! {body, iolist_to_binary(P), F}, ok.",
              "reply(Status, _, _, R) -> R#{status => Status}."]),
    {ok, #{type := Type}, state} =
        whittle_counters_cowboy:init(#{accept => <<"*/*">>, test => self()}, state),
    ?assertEqual(<<"text/plain; version=0.0.4; charset=utf-8">>, Type),
    ?assertEqual(whittle_counters_text:render(prometheus), bodies()),
    ok = application:stop(whittle_counters),
    ?assertMatch({ok, #{status := 503}, state}, whittle_counters_cowboy:init(#{}, state)).

bodies() ->
    receive
        {body, Piece, nofin} -> <<Piece/binary, (bodies())/binary>>;
        {body, Piece, fin} -> Piece
    end.

elli(_) ->
    stand_in(elli_request,
             ["method({M, _}) -> M.", "path({_, P}) -> P.",
              "get_header(<<\"Accept\">>, _, D) -> D."]),
    {200, [{<<"Content-Type">>, _}], Body} =
        whittle_counters_elli:handle({'GET', [<<"metrics">>]}, []),
    ?assertEqual(whittle_counters_text:render(prometheus), iolist_to_binary(Body)),
    ?assertEqual(ignore, whittle_counters_elli:handle({'GET', []}, [])),
    ?assertEqual(ok, whittle_counters_elli:handle_event(request_complete, [], [])),
    ok = application:stop(whittle_counters),
    ?assertMatch({503, _, _}, whittle_counters_elli:handle({'GET', [<<"metrics">>]}, [])).

stand_in(Module, Functions) ->
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(F),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || F <- Functions],
    {ok, Module, Code} = compile:forms([{attribute, 1, module, Module},
                                        {attribute, 1, compile, [export_all, nowarn_export_all]}
                                        | Forms]),
    {module, Module} = code:load_binary(Module, "stand_in", Code).

%% In examples/sensors Prometheus itself reads this format. Here the test checks its shape.
protobuf(_) ->
    ok = ?W:new(took_seconds, timer),
    [ok = ?W:observe(took_seconds, V) || V <- [0, 1000000000, 1000000000, 2000000000]],
    {ok, Pieces} = whittle_counters_stream:collect(fun whittle_counters_protobuf:stream/1),
    Families = delimited(iolist_to_binary(Pieces)),
    Names = [proplists:get_value(1, F) || F <- Families],
    ?assertEqual([<<"jobs_total">>, <<"took_seconds">>], Names),
    [_, Took] = Families,
    Histogram = fields(proplists:get_value(7, fields(proplists:get_value(4, Took)))),
    ?assertEqual(4, proplists:get_value(1, Histogram)),
    ?assertEqual(<<4.0/float-little>>, proplists:get_value(2, Histogram)),
    ?assertEqual(6, proplists:get_value(5, Histogram)),
    ?assertEqual(1, proplists:get_value(7, Histogram)),
    %% Two values are in the bucket up to 1 (index 0 or 1 after the move), and one is an octave
    %% higher.
    ?assertEqual(2, length(proplists:get_all_values(12, Histogram))),
    ?assertEqual([4, 1], proplists:get_all_values(13, Histogram)).

delimited(<<>>) -> [];
delimited(Bytes) ->
    {Size, Rest} = varint(Bytes),
    <<Message:Size/binary, More/binary>> = Rest,
    [fields(Message) | delimited(More)].

fields(<<>>) -> [];
fields(Bytes) ->
    {Tag, Rest} = varint(Bytes),
    {Value, More} = case Tag band 7 of
                        0 -> varint(Rest);
                        1 -> split(8, Rest);
                        2 -> {Size, R} = varint(Rest), split(Size, R)
                    end,
    [{Tag bsr 3, Value} | fields(More)].

split(Size, Bytes) ->
    <<Value:Size/binary, More/binary>> = Bytes,
    {Value, More}.

varint(<<0:1, N:7, Rest/binary>>) -> {N, Rest};
varint(<<1:1, N:7, Rest/binary>>) ->
    {M, Rest1} = varint(Rest),
    {(M bsl 7) bor N, Rest1}.

statsd(_) ->
    ok = ?W:new(depth, gauge),
    ok = ?W:set(depth, -3),
    ok = ?W:new(size, histogram, #{labels => [kind]}),
    [ok = ?W:observe(size, ["a b"], V) || V <- [0, 8, 8]],
    {[First], Seen} = whittle_counters_statsd:packets(statsd, #{}),
    ?assertEqual([<<"jobs.a:5|c">>, <<"depth:0|g">>, <<"depth:-3|g">>, <<"size.a_b:0|ms|@1.0">>,
                  <<"size.a_b:7.661">>],
                 lists:sort(fun order/2, [shorten(L) || L <- lines(First)])),
    ok = ?W:inc(jobs_total, [a], 2),
    ok = ?W:set(depth, 1),
    {[Second], _} = whittle_counters_statsd:packets(dogstatsd, Seen),
    ?assertEqual([<<"depth:1|g">>, <<"jobs:2|c|#kind:a">>],
                 lists:sort(lines(Second))),
    ok = ?W:new(many, counter, #{labels => [id]}),
    [ok = ?W:inc(many, [I]) || I <- lists:seq(1, 500)],
    {Packets, _} = whittle_counters_statsd:packets(statsd, #{}),
    ?assert(length(Packets) > 2),
    ?assert(lists:all(fun(P) -> byte_size(P) =< 1432 end, Packets)).

lines(Packet) -> binary:split(Packet, <<"\n">>, [global]).

%% The middle of a bucket is not a round number.
shorten(<<"size.a_b:7.66", _/binary>>) -> <<"size.a_b:7.661">>;
shorten(Line) -> Line.

order(<<"jobs", _/binary>>, _) -> true;
order(_, <<"jobs", _/binary>>) -> false;
order(<<"depth:0|g">>, _) -> true;
order(_, <<"depth:0|g">>) -> false;
order(A, B) -> A =< B.

%% Each update is in exactly one push, for any events between two pushes.
statsd_tells_once(_) ->
    ok = ?W:new(c, counter, #{labels => [id], expire_after => 5}),
    ok = ?W:new(h, histogram),
    Read = counters:new(1, []),
    ok = ?W:new(r, counter, #{read => fun() -> counters:get(Read, 1) end}),
    Inc = fun(N) -> fun() -> ok = ?W:inc(c, [a], N) end end,
    Reset = fun() -> {ok, _} = ?W:reset(c, [a]) end,
    Gone = fun(Seconds) ->
                   fun() ->
                           Now = erlang:monotonic_time(second) + Seconds,
                           ok = whittle_counters_registry:sweep(Now)
                   end
           end,
    Steps = [{10, [Inc(10)]}, {19, [Inc(7), Reset, Inc(12)]}, {0, [Reset]}, {1, [Inc(1)]},
             %% The series expires, and comes back with its value.
             {0, [Gone(0), Gone(10)]}, {2, [Inc(2)]},
             %% A process deletes the series, and a new one starts at zero.
             {3, [fun() -> ok = ?W:delete(c, [a]) end, Inc(3)]},
             %% The series becomes striped, and updates come through the old cell and the new one.
             {9, [Inc(4), fun() -> {ok, _} = ?W:handle(c, [a]) end, Inc(5)]}],
    lists:foldl(fun({Expected, Do}, Seen) ->
                        [F() || F <- Do],
                        {Packets, Seen1} = whittle_counters_statsd:packets(statsd, Seen),
                        Lines = lists:append([lines(P) || P <- Packets]),
                        Told = [binary_to_integer(N)
                                || <<"c.a:", Rest/binary>> <- Lines,
                                   [N, <<"c">>] <- [binary:split(Rest, <<"|">>)]],
                        ?assertEqual(Expected, lists:sum(Told)),
                        Seen1
                end, #{}, Steps),
    %% The same holds for buckets, and for a counter that a fun reads.
    ok = ?W:observe(h, 1),
    ok = counters:put(Read, 1, 5),
    {_, Seen2} = whittle_counters_statsd:packets(statsd, #{}),
    {ok, _} = ?W:reset(h),
    [ok = ?W:observe(h, 1) || _ <- [1, 2]],
    ok = counters:put(Read, 1, 8),
    {[Packet], Seen3} = whittle_counters_statsd:packets(statsd, Seen2),
    [HLine] = [L || <<"h:", _/binary>> = L <- lines(Packet)],
    ?assertMatch({_, _}, binary:match(HLine, <<"|ms|@0.5">>)),
    ?assert(lists:member(<<"r:3|c">>, lines(Packet))),
    ok = counters:put(Read, 1, 2),
    ?assertMatch({[<<"r:2|c">>], _}, whittle_counters_statsd:packets(statsd, Seen3)).

%% A label that is too long for a datagram does not keep other series from the push.
statsd_long(_) ->
    ok = ?W:new(c, counter, #{labels => [id]}),
    [ok = ?W:inc(c, [Id]) || Id <- [a, binary:copy(<<"x">>, 66000), b]],
    Told = fun(Packets) -> [L || P <- Packets, <<"c.", _/binary>> = L <- lines(P)] end,
    {Packets, Seen} = whittle_counters_statsd:packets(statsd, #{}),
    ?assertEqual([<<"c.a:1|c">>, <<"c.b:1|c">>], lists:sort(Told(Packets))),
    ?assertEqual(1, proplists:get_value({undefined, line_too_long},
                                        whittle_counters_table:rejected())),
    {Later, _} = whittle_counters_statsd:packets(statsd, Seen),
    ?assertEqual([], Told(Later)).

%% StatsD's timers are in milliseconds. An empty label does not make an empty part of a name.
statsd_units(_) ->
    ok = ?W:new(took_seconds, timer),
    ok = ?W:new(took_minutes, timer, #{unit => "minutes"}),
    ok = ?W:new(size_bytes, histogram, #{unit => "bytes"}),
    [ok = ?W:observe(Name, V) || {Name, V} <- [{took_seconds, 50000000}, {size_bytes, 1000},
                                               {took_minutes, 50000000}]],
    ok = ?W:new(reqs, counter, #{labels => [a, b]}),
    ok = ?W:inc(reqs, ["", "x"]),
    Values = fun(Style) ->
                     {[Packet], _} = whittle_counters_statsd:packets(Style, #{}),
                     maps:from_list([list_to_tuple(binary:split(L, <<":">>)) || L <- lines(Packet)])
             end,
    Near = fun(Expected, Text) ->
                   [Number | _] = binary:split(Text, <<"|">>),
                   ?assert(abs(binary_to_float(Number) / Expected - 1) < 0.05, Text)
           end,
    #{<<"took_seconds">> := S, <<"took_minutes">> := M, <<"size_bytes">> := B,
      <<"reqs._.x">> := <<"1|c">>} = Values(statsd),
    [Near(Expected, Text) || {Expected, Text} <- [{50, S}, {50, M}, {1000, B}]],
    #{<<"took_seconds">> := D, <<"took_minutes">> := E} = Values(dogstatsd),
    [Near(Expected, Text) || {Expected, Text} <- [{0.05, D}, {0.05 / 60, E}]].

statsd_over_udp(_) ->
    {ok, Socket} = gen_udp:open(0, [binary, {active, true}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    {ok, Pid} = whittle_counters_statsd:start_link(#{port => Port}),
    ok = whittle_counters_statsd:push(Pid),
    receive {udp, Socket, _, _, Packet} -> ?assertEqual(<<"jobs.a:5|c">>, Packet) end,
    ok = gen_server:stop(Pid),
    over_ipv6().

%% Runs only on a machine with IPv6.
over_ipv6() ->
    case gen_udp:open(0, [binary, inet6, {active, true}, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            [begin
                 {ok, Pid} = whittle_counters_statsd:start_link(#{host => Host, port => Port}),
                 ok = whittle_counters_statsd:push(Pid),
                 receive {udp, Socket, _, _, Packet} -> ?assertEqual(<<"jobs.a:5|c">>, Packet) end,
                 ok = gen_server:stop(Pid)
             end || Host <- ["::1", {0, 0, 0, 0, 0, 0, 0, 1}]];
        {error, _} -> ok
    end.

%% The exporter reports counts that it could not send, and sends them as soon as it can.
statsd_unsent(_) ->
    {ok, Pid} = whittle_counters_statsd:start_link(#{host => "nobody.invalid"}),
    [?assertMatch({error, {push_failed, {"nobody.invalid", _}}}, whittle_counters_statsd:push(Pid))
     || _ <- [1, 2]],
    ?assertMatch(#{[<<"undefined">>, <<"push_failed">>] := 2},
                 maps:get(<<"whittle_counters_rejected">>, ?W:snapshot())),
    {ok, Socket} = gen_udp:open(0, [binary, {active, true}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    _ = sys:replace_state(Pid, fun(S) -> S#{host := {127, 0, 0, 1}, port := Port} end),
    ok = whittle_counters_statsd:push(Pid),
    receive {udp, Socket, _, _, Packet} ->
            ?assert(lists:member(<<"jobs.a:5|c">>, lines(Packet)))
    end,
    ok = gen_server:stop(Pid).

rates(_) ->
    ok = ?W:new(seen_total, counter, #{windows => [10, 60]}),
    ok = ?W:new(took, histogram, #{windows => [10]}),
    Samples = lists:foldl(
                fun(Second, Acc) ->
                        ok = ?W:inc(seen_total, [], 5),
                        ok = ?W:observe(took, 1000),
                        whittle_counters_rate:sample(1000 * Second, Acc)
                end, #{}, lists:seq(1, 100)),
    Growth = fun(Name, Window) ->
                     whittle_counters_rate:growth({Name, []}, Window, 100000, Samples)
             end,
    ?assertEqual({ok, 5.0}, Growth(seen_total, 10)),
    ?assertEqual({ok, 5.0}, Growth(seen_total, 60)),
    ?assertEqual({ok, 1.0}, Growth(took, 10)),
    ok = ?W:inc(seen_total, [], 100),
    ?assertEqual({ok, 15.0}, Growth(seen_total, 10)),
    %% A reset changes no rate.
    {ok, 600} = ?W:reset(seen_total, []),
    ?assertEqual({ok, 15.0}, Growth(seen_total, 10)),
    ok = ?W:delete(took),
    ?assertMatch({error, {unknown_series, _}}, Growth(took, 10)),
    %% Another series of the same name, with other windows, has its own samples.
    ok = ?W:new(took, histogram, #{windows => [60]}),
    ok = ?W:observe(took, 1000),
    ?assertEqual({error, {no_samples, {took, 10}}}, Growth(took, 10)),
    #{{took, []} := {_, #{60 := [{101000, 1}]}}} = whittle_counters_rate:sample(101000, Samples),
    ok = ?W:delete(took),
    %% A counter that passes 2^63 - 1 goes on from -2^63.
    ok = ?W:new(large_total, counter, #{windows => [10]}),
    [ok = ?W:inc(large_total, [], (1 bsl 59) - 1) || _ <- lists:seq(1, 16)],
    Before = whittle_counters_rate:sample(1000, #{}),
    ok = ?W:inc(large_total, [], 30),
    ?assertEqual({ok, 10.0}, whittle_counters_rate:growth({large_total, []}, 10, 4000, Before)),
    %% A gauge may fall.
    ok = ?W:new(depth, gauge, #{windows => [10]}),
    ok = ?W:set(depth, 50),
    Deep = whittle_counters_rate:sample(1000, #{}),
    ok = ?W:set(depth, 20),
    ?assertEqual({ok, -10.0}, whittle_counters_rate:growth({depth, []}, 10, 4000, Deep)),
    ?assertNot(is_map_key({took, []}, whittle_counters_rate:sample(101000, Samples))),
    %% The first window needs a sample each second, the other one every six seconds.
    #{{seen_total, []} := {_, #{10 := Seconds, 60 := Sixes}}} = Samples,
    ?assertEqual([1000 * S || S <- lists:seq(100, 90, -1)], [T || {T, _} <- Seconds]),
    ?assertEqual([1000 * S || S <- lists:seq(97, 37, -6)], [T || {T, _} <- Sixes]),
    %% For a window between them, the library uses the samples of the longer one.
    ?assertEqual({ok, (5 * 33 + 100) / 33}, Growth(seen_total, 30)),
    %% After a new definition, there are no samples of the new window yet.
    ok = ?W:delete(seen_total),
    ok = ?W:new(seen_total, counter, #{windows => [300]}),
    ok = ?W:inc(seen_total),
    ?assertEqual({error, {no_samples, {seen_total, 300}}}, Growth(seen_total, 300)),
    ok = ?W:delete(seen_total),
    ok = ?W:new(seen_total, counter, #{windows => [10]}),
    ok = ?W:inc(seen_total),
    ?assertMatch({error, {no_samples, _}}, ?W:rate(jobs_total, [a], 10)),
    whittle_counters_rate ! sample,
    {ok, Rate} = ?W:rate(seen_total, [], 10),
    ?assert(is_float(Rate)).

telemetry(_) ->
    stand_in(telemetry,
             ["attach(Id, Event, Fun, Config) -> put(attached, {Id, Event, Fun, Config}), ok."]),
    ok = ?W:new(took, histogram, #{labels => [method]}),
    Rules = [{jobs_total, inc, [kind]}, {took, {observe, duration}, [method]}],
    ok = whittle_counters_telemetry:attach(web, [web, stop], Rules),
    {_, [web, stop], Fun, Config} = get(attached),
    ok = Fun([web, stop], #{duration => 7}, #{kind => a, method => get}, Config),
    ok = Fun([web, stop], #{}, #{kind => b}, Config),
    ?assertEqual({ok, 6}, ?W:value(jobs_total, [a])),
    ?assertEqual({ok, 1}, ?W:value(jobs_total, [b])),
    ?assertMatch({ok, #{count := 1, sum := 7}}, ?W:value(took, [get])),
    [?assertEqual({error, {bad_rule, Rule}}, whittle_counters_telemetry:attach(x, [y], [Rule]))
     || Rule <- [{jobs_total, crash, []}, {jobs_total, {apply, x}, []}, {jobs_total, inc, kind},
                 jobs_total]].
