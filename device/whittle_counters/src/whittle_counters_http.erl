%% @doc A tiny HTTP endpoint for scrapes, and what the handlers for other
%% servers share: `GET /metrics', the format chosen by the Accept header.
%%
%% One process accepts; each connection has its own. When more than ?CONNECTIONS are open,
%% the oldest one that has its answer, or has not asked yet, is closed. At most ?SCRAPES of
%% those that have asked are answered at a time. A client has `timeout' for its request and
%% again for the whole answer; while others wait, a client that does not read its answer is
%% cut off after `patience'. A scrape that is cut off is counted.
-module(whittle_counters_http).

-export([start_link/1, child_spec/1, port/1]).
-export([negotiate/1, stream/2, content_type/1, answer/1, stopped/0]).
-export_type([options/0, format/0]).

-type options() :: #{
        %% 9568 by default; 0 takes any that is free, see port/1.
        port => inet:port_number(),
        %% Address to listen on; only this machine by default. `any' for all.
        ip => inet:ip_address() | any,
        %% Milliseconds that a client may take for its request, for the whole answer,
        %% and to close; 10000 by default.
        timeout => pos_integer(),
        %% Milliseconds that a client may leave its answer unread, all in all, while others
        %% wait for theirs; 500 by default.
        patience => pos_integer()}.

-type format() :: prometheus | openmetrics | protobuf.

-define(CONNECTIONS, 64).
-define(SCRAPES, 4).
%% Connections that wait in the kernel until they are accepted, so that a crowd does not make
%% a scrape wait until its client tries again (a second). The kernel may allow fewer.
-define(BACKLOG, 1024).
%% Bytes that wait in the kernel for a client. Its own choice can be megabytes,
%% which is more than all else that a scrape takes.
-define(SNDBUF, 65536).
%% Bytes of a request that are read and thrown away behind the answer.
-define(REST, 1048576).

%% @doc A child of your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) -> #{id => ?MODULE, start => {?MODULE, start_link, [Options]}}.

%% @doc Starts the endpoint.
-spec start_link(options()) -> {ok, pid()} | {error, whittle_counters:reason()}.
start_link(Options) ->
    case whittle_counters_option:check(fun option/2, Options) of
        ok -> proc_lib:start_link(erlang, apply, [fun init/2, [self(), Options]]);
        {error, _} = Error -> Error
    end.

option(port, V) -> whittle_counters_option:is_port(V);
option(ip, V) -> V =:= any orelse inet:is_ip_address(V);
option(timeout, V) -> whittle_counters_option:is_timeout(V);
option(patience, V) -> whittle_counters_option:is_timeout(V);
option(_, _) -> false.

init(Parent, Options) ->
    Ip = case maps:get(ip, Options, {127, 0, 0, 1}) of any -> []; Address -> [{ip, Address}] end,
    case gen_tcp:listen(maps:get(port, Options, 9568),
                        [binary, {active, false}, {packet, raw}, {reuseaddr, true},
                         {send_timeout, timeout(Options)}, {send_timeout_close, true},
                         {backlog, ?BACKLOG}, {sndbuf, ?SNDBUF} | Ip]) of
        {ok, Listen} ->
            {ok, Port} = inet:port(Listen),
            _ = put(?MODULE, Port),
            ok = proc_lib:init_ack(Parent, {ok, self()}),
            Gate = whittle_counters_gate:start_link(?SCRAPES, maps:get(patience, Options, 500)),
            accept(#{listen => Listen, gate => Gate, timeout => timeout(Options), count => 0,
                     open => #{}});
        {error, Reason} ->
            proc_lib:init_ack(Parent, {error, {cannot_listen, Reason}})
    end.

timeout(Options) -> maps:get(timeout, Options, 10000).

%% @doc The port that an endpoint listens on.
-spec port(pid()) -> inet:port_number().
port(Endpoint) ->
    {dictionary, Dictionary} = process_info(Endpoint, dictionary),
    proplists:get_value(?MODULE, Dictionary).

%% `open' maps a connection's process to its number and to how far it is: it is `asking',
%% `asked', or `answered'.
accept(#{listen := Listen, count := Count} = State) ->
    case gen_tcp:accept(Listen, 1000) of
        {ok, Socket} ->
            Self = self(),
            {Pid, _} = spawn_monitor(fun() ->
                                             receive {go, Socket} -> serve(Socket, Self, State) end
                                     end),
            _ = gen_tcp:controlling_process(Socket, Pid),
            Pid ! {go, Socket},
            #{open := Open} = News = news(State),
            accept(make_room(Pid, News#{count := Count + 1,
                                        open := Open#{Pid => {asking, Count}}}));
        {error, timeout} -> accept(news(State));
        %% Out of descriptors, say: the oldest gives its one back.
        {error, Reason} when Reason =/= closed -> accept(close_oldest(none, 1000, news(State)));
        {error, closed} -> exit(shutdown)
    end.

%% Connections have said how far they are.
news(State) ->
    receive
        {Pid, Now} when Now =:= asked; Now =:= answered -> news(is(Pid, Now, State));
        {'DOWN', _, process, Pid, _} -> news(closed(Pid, State))
    after 0 -> State
    end.

%% One that was closed may have said something before.
is(Pid, Now, #{open := Open} = State) ->
    case Open of
        #{Pid := {_, Number}} -> State#{open := Open#{Pid := {Now, Number}}};
        _ -> State
    end.

closed(Pid, #{open := Open} = State) -> State#{open := maps:remove(Pid, Open)}.

make_room(_, #{open := Open} = State) when map_size(Open) =< ?CONNECTIONS -> State;
make_room(New, State) -> make_room(New, close_oldest(New, infinity, State)).

%% Those who have asked keep their places. If all have, one of them ends soon: each has a
%% deadline, and the gate its patience.
close_oldest(New, Wait, #{open := Open} = State) ->
    case lists:sort([{How =:= asking, Number, Pid}
                     || {Pid, {How, Number}} <- maps:to_list(Open),
                        How =/= asked, Pid =/= New]) of
        [{_, _, Pid} | _] ->
            true = exit(Pid, kill),
            receive {'DOWN', _, process, Pid, _} -> closed(Pid, State) end;
        [] ->
            receive
                {Pid, Now} when Now =:= asked; Now =:= answered -> is(Pid, Now, State);
                {'DOWN', _, process, Pid, _} -> closed(Pid, State)
            after Wait -> State
            end
    end.

serve(Socket, Endpoint, #{gate := Gate, timeout := Timeout}) ->
    ok = whittle_counters_gate:join(Gate),
    case whittle_counters_request:read(Socket, now_ms() + Timeout) of
        {ok, Request} ->
            Endpoint ! {self(), asked},
            whittle_counters_gate:pass(
              Gate, fun(Waiting) ->
                            answer(Request, #{socket => Socket, deadline => now_ms() + Timeout,
                                              waiting => Waiting})
                    end);
        {error, closed} -> ok;
        {error, Status} ->
            plain(Status, refusal(Status), #{socket => Socket, deadline => now_ms() + Timeout,
                                             waiting => fun(Send) -> Send() end})
    end,
    Endpoint ! {self(), answered},
    _ = gen_tcp:shutdown(Socket, write),
    drain(Socket, now_ms() + Timeout, ?REST),
    gen_tcp:close(Socket).

refusal(400) -> <<"bad request\n">>;
refusal(408) -> <<"the request took too long\n">>;
refusal(414) -> <<"the request line is too long\n">>;
refusal(431) -> <<"the headers are too long, or too many\n">>.

%% Writes to the client, within the deadline of the whole answer.
send(#{socket := Socket, deadline := Deadline, waiting := Waiting}, Data) ->
    case left(Deadline) of
        0 -> {error, timeout};
        Left ->
            _ = inet:setopts(Socket, [{send_timeout, Left}]),
            Waiting(fun() -> gen_tcp:send(Socket, Data) end)
    end.

%% Reads until the client closes. To close while something is unread would be a
%% reset, which may take the answer away before the client has read it.
drain(Socket, Deadline, Left) when Left > 0 ->
    case gen_tcp:recv(Socket, 0, left(Deadline)) of
        {ok, Data} -> drain(Socket, Deadline, Left - byte_size(Data));
        {error, _} -> ok
    end;
drain(_, _, _) -> ok.

now_ms() -> erlang:monotonic_time(millisecond).
left(Deadline) -> max(0, Deadline - now_ms()).

answer(#{method := 'GET', path := <<"/metrics">>} = Request, Client) ->
    case whittle_counters_sup:is_up() of
        true -> scrape(Request, Client);
        false ->
            {Status, _, Body} = stopped(),
            plain(Status, Body, Client)
    end;
answer(#{method := 'HEAD', path := <<"/metrics">>, accept := Accept}, Client) ->
    case whittle_counters_sup:is_up() of
        true -> _ = send(Client, [head(negotiate(Accept)), <<"\r\n">>]), ok;
        false -> plain(503, <<>>, Client)
    end;
answer(#{method := 'GET'}, Client) -> plain(404, <<"see /metrics\n">>, Client);
answer(_, Client) -> plain(405, <<"only GET and HEAD\n">>, Client).

head(Format) ->
    [<<"HTTP/1.1 200 OK\r\nContent-Type: ">>, content_type(Format),
     <<"\r\nConnection: close\r\n">>].

%% Until it is complete, the end of the connection is a reset: an answer of HTTP/1.0 says its
%% length in no other way.
scrape(#{version := Version, accept := Accept}, #{socket := Socket} = Client) ->
    Format = negotiate(Accept),
    Chunked = Version >= {1, 1},
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    Head = [head(Format), [<<"Transfer-Encoding: chunked\r\n">> || Chunked], <<"\r\n">>],
    Write = fun(Piece) when Chunked -> send(Client, chunk(Piece));
               (Piece) -> send(Client, Piece)
            end,
    case written([fun() -> send(Client, Head) end,
                  fun() -> stream(Format, Write) end
                  | [fun() -> send(Client, <<"0\r\n\r\n">>) end || Chunked]]) of
        ok ->
            _ = inet:setopts(Socket, [{linger, {false, 0}}]),
            ok;
        {error, Reason} ->
            {error, _} = whittle_counters_table:reject(undefined, {scrape_cut_off, Reason}),
            gen_tcp:close(Socket)
    end.

written([]) -> ok;
written([Write | Writes]) ->
    case Write() of
        ok -> written(Writes);
        {error, _} = Error -> Error
    end.

chunk(Piece) -> [integer_to_binary(iolist_size(Piece), 16), <<"\r\n">>, Piece, <<"\r\n">>].

plain(Status, Body, Client) ->
    _ = send(Client, [<<"HTTP/1.1 ">>, integer_to_binary(Status), $\s, reason(Status),
                      <<"\r\nContent-Type: text/plain\r\nConnection: close\r\n">>,
                      [<<"Allow: GET, HEAD\r\n">> || Status =:= 405],
                      <<"Content-Length: ">>, integer_to_binary(byte_size(Body)),
                      <<"\r\n\r\n">>, Body]),
    ok.

reason(400) -> <<"Bad Request">>;
reason(404) -> <<"Not Found">>;
reason(405) -> <<"Method Not Allowed">>;
reason(408) -> <<"Request Timeout">>;
reason(414) -> <<"URI Too Long">>;
reason(431) -> <<"Request Header Fields Too Large">>;
reason(503) -> <<"Service Unavailable">>.

%% @doc The format for an Accept header: the one with the largest q, of several the
%% one that tells most. Protobuf and OpenMetrics only where they are asked for; the
%% text format where nothing else is.
-spec negotiate(binary()) -> format().
negotiate(Accept) ->
    Plain = << <<(if C >= $A, C =< $Z -> C + 32; true -> C end)>>
               || <<C>> <= Accept, C =/= $\s, C =/= $\t >>,
    Wanted = [{Q, tells(Format), Format}
              || Range <- binary:split(Plain, <<",">>, [global]),
                 [Type | Parameters] <- [binary:split(Range, <<";">>, [global])],
                 Format <- format(Type), Q <- [quality(Parameters)], Q > 0],
    case Wanted of
        [] -> prometheus;
        _ -> element(3, lists:max(Wanted))
    end.

format(<<"application/vnd.google.protobuf">>) -> [protobuf];
format(<<"application/openmetrics-text">>) -> [openmetrics];
format(<<"text/plain">>) -> [prometheus];
format(<<"text/*">>) -> [prometheus];
format(<<"*/*">>) -> [prometheus];
format(_) -> [].

tells(protobuf) -> 3;
tells(openmetrics) -> 2;
tells(prometheus) -> 1.

%% In thousandths; what is no number counts as though it were not there.
quality([<<"q=1", _/binary>> | _]) -> 1000;
quality([<<"q=0.", Digits/binary>> | _]) ->
    try binary_to_integer(binary:part(<<Digits/binary, "000">>, 0, 3))
    catch error:badarg -> 1000
    end;
quality([<<"q=0">> | _]) -> 0;
quality([_ | Parameters]) -> quality(Parameters);
quality([]) -> 1000.

%% @doc A whole answer for a server that takes one: status, Content-Type, body.
-spec answer(Accept :: binary()) -> {200 | 503, binary(), iodata()}.
answer(Accept) ->
    case whittle_counters_sup:is_up() of
        true ->
            Format = negotiate(Accept),
            {ok, Body} = whittle_counters_stream:collect(fun(Write) -> stream(Format, Write) end),
            {200, content_type(Format), Body};
        false -> stopped()
    end.

%% @doc The answer while the application does not run.
-spec stopped() -> {503, binary(), binary()}.
stopped() -> {503, <<"text/plain">>, <<"whittle_counters does not run\n">>}.

%% @doc Writes everything in a format.
-spec stream(format(), whittle_counters_stream:write()) -> ok | {error, term()}.
stream(protobuf, Write) -> whittle_counters_protobuf:stream(Write);
stream(Format, Write) -> whittle_counters_text:stream(Format, Write).

%% @doc The Content-Type of a format.
-spec content_type(format()) -> binary().
content_type(protobuf) -> whittle_counters_protobuf:content_type();
content_type(Format) -> whittle_counters_text:content_type(Format).
