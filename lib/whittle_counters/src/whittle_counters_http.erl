%% @doc Serves scrapes over HTTP.
%%
%% It answers `GET /metrics' in the format that the Accept header chooses. The handlers for other
%% servers share its functions.
%%
%% One process accepts, and each connection has a process of its own. All clients that ask at the
%% same moment share one answer (whittle_counters_shared), because making an answer costs the
%% most. While the endpoint serves more than ?SLOW clients, an answer may be up to ?AGE_MS old. So
%% a crowd of clients costs one answer per second, in processor time and in memory.
%%
%% A client has `timeout' for its request, and again for the whole answer. If more than
%% ?CONNECTIONS are open, the endpoint closes one. It takes a client that has its answer, or else
%% the client with the longest idle time, if that time is at least `patience'. An idle client has
%% sent no request, or has read nothing of its answer. At most ?BACKLOG clients wait in the
%% kernel's queue before a client. They delay it by ?BACKLOG / ?CONNECTIONS * `patience', 0.8 s by
%% default, and by the time of two answers. A client that has begun to read may pause for
%% ?PAUSE_MS longer. If more than ?SLOW clients do not read, the endpoint closes the others within
%% a second, even when no client waits, because each may hold an answer of its own in memory. The
%% endpoint counts the scrapes that it cuts off.
%%
%% The endpoint does not answer 503 to a crowd, because an honest client in the crowd would get no
%% answer. It does not serve a queue a few clients at a time, because each would wait for all
%% before it.
-module(whittle_counters_http).

-export([start_link/1, child_spec/1, port/1]).
-export([negotiate/1, stream/2, content_type/1, answer/1, stopped/0]).
-export_type([options/0, format/0]).

-type options() :: #{
        %% The port. Default: 9568. 0 takes any free port, see port/1.
        port => inet:port_number(),
        %% The address to listen on. Default: this machine only. `any' stands for all addresses.
        ip => inet:ip_address() | any,
        %% Milliseconds that a client may take for its request, for the whole answer, and to
        %% close. Default: 10000.
        timeout => pos_integer(),
        %% Milliseconds that a client may be idle (ask nothing, or read nothing of its answer)
        %% while others wait for its place. Default: 50.
        patience => pos_integer()}.

-type format() :: prometheus | openmetrics | protobuf.

-define(CONNECTIONS, 64).
%% The number of clients that may use all of `timeout' without reading their answers.
-define(SLOW, 4).
-define(AGE_MS, 1000).
%% The bytes of one write. A client that has read none of them for a while is idle.
-define(PIECE, 16384).
%% The extra idle time in milliseconds for a client that has taken so many bytes. They are more
%% than the kernel holds for a client that reads nothing. On a busy machine, a client that reads
%% was idle for 50 ms in one scrape of twenty.
-define(PAUSE_MS, 200).
-define(READ, 262144).
%% A time in the far future. The connection does not wait for its client.
-define(BUSY, (1 bsl 62)).
%% Connections that wait in the kernel until the endpoint accepts them. A long queue keeps a crowd
%% from making a scrape wait until its client tries again (a second). The kernel may allow fewer.
-define(BACKLOG, 1024).
%% Bytes that wait in the kernel for a client. The kernel's default can be megabytes, which is
%% more than all other memory of a scrape.
-define(SNDBUF, 65536).
%% Bytes of a request that the endpoint reads and discards after the answer.
-define(REST, 1048576).

%% @doc Gives the child specification for your supervisor.
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
            accept(#{listen => Listen, timeout => timeout(Options),
                     patience => maps:get(patience, Options, 50), open => #{},
                     answers => whittle_counters_shared:start_link(fun body/1, ?AGE_MS),
                     asked => counters:new(1, [])});
        {error, Reason} ->
            proc_lib:init_ack(Parent, {error, {cannot_listen, Reason}})
    end.

timeout(Options) -> maps:get(timeout, Options, 10000).

%% @doc Gives the port that an endpoint listens on.
-spec port(pid()) -> inet:port_number().
port(Endpoint) ->
    {dictionary, Dictionary} = process_info(Endpoint, dictionary),
    proplists:get_value(?MODULE, Dictionary).

%% `open' maps a connection's process to its state (`asking', `asked' or `answered') and to an
%% atomic. The atomic holds the time since which the connection waits for its client, or ?BUSY.
%% `asked' holds the number of clients in service, for the connections.
accept(State) ->
    #{listen := Listen} = State1 = drop_slow(news(State)),
    case gen_tcp:accept(Listen, 1000) of
        {ok, Socket} -> accept(connected(Socket, State1));
        {error, timeout} -> accept(State1);
        %% For example, no descriptor is free. A closed connection frees its descriptor.
        {error, Reason} when Reason =/= closed -> accept(close_one(none, 1000, news(State1)));
        {error, closed} -> exit(shutdown)
    end.

connected(Socket, State) ->
    Self = self(),
    Since = atomics:new(1, []),
    ok = atomics:put(Since, 1, now_ms()),
    Common = maps:with([answers, timeout, asked], State),
    {Pid, _} = spawn_monitor(fun() ->
                                     receive {go, Socket} -> serve(Socket, Self, Since, Common) end
                             end),
    _ = gen_tcp:controlling_process(Socket, Pid),
    Pid ! {go, Socket},
    %% The process is gone before its message arrives, which may be its end.
    #{open := Open} = State,
    make_room(Pid, news(State#{open := Open#{Pid => {asking, Since}}})).

%% Handles messages in which connections report their state.
news(#{open := Open, asked := Asked} = State) ->
    receive
        {Pid, Now} when Now =:= asked; Now =:= answered -> news(is(Pid, Now, State));
        {'DOWN', _, process, Pid, _} -> news(closed(Pid, State))
    after 0 ->
            ok = counters:put(Asked, 1, length([asked || {asked, _} <- maps:values(Open)])),
            State
    end.

%% A closed connection may have sent a message before.
is(Pid, Now, #{open := Open} = State) ->
    case Open of
        #{Pid := {_, Since}} -> State#{open := Open#{Pid := {Now, Since}}};
        _ -> State
    end.

closed(Pid, #{open := Open} = State) -> State#{open := maps:remove(Pid, Open)}.

make_room(_, #{open := Open} = State) when map_size(Open) =< ?CONNECTIONS -> State;
make_room(New, #{patience := Patience} = State) ->
    make_room(New, close_one(New, Patience, news(State))).

%% Closes a connection that has its answer, or else one that has been idle for long enough. If
%% there is none yet, the function waits until a connection reports, or may be idle for long
%% enough.
close_one(New, Wait, #{open := Open, patience := Patience} = State) ->
    Now = now_ms(),
    case lists:sort([{How =/= answered, atomics:get(Since, 1), Pid}
                     || {Pid, {How, Since}} <- maps:to_list(Open), Pid =/= New]) of
        [{IsOwed, Since, Pid} | _] when not IsOwed; Now - Since >= Patience -> close(Pid, State);
        Others ->
            Left = lists:min([Wait | [Since + Patience - Now || {_, Since, _} <- Others]]),
            receive
                {Pid, How} when How =:= asked; How =:= answered -> is(Pid, How, State);
                {'DOWN', _, process, Pid, _} -> closed(Pid, State)
            after Left -> State
            end
    end.

%% Of the clients that do not read their answers, only the newest few stay, because each may hold
%% an answer of another moment in memory.
drop_slow(#{open := Open, patience := Patience} = State) ->
    Now = now_ms(),
    Slow = lists:sort([{Idle, Pid} || {Pid, {asked, Since}} <- maps:to_list(Open),
                                      Idle <- [Now - atomics:get(Since, 1)], Idle >= Patience]),
    lists:foldl(fun({_, Pid}, S) -> close(Pid, S) end, State,
                lists:nthtail(min(?SLOW, length(Slow)), Slow)).

close(Pid, #{open := Open} = State) ->
    true = exit(Pid, kill),
    receive {'DOWN', _, process, Pid, _} -> ok end,
    _ = [whittle_counters_table:reject(undefined, {scrape_cut_off, slow})
         || {asked, _} <- [map_get(Pid, Open)]],
    closed(Pid, State).

serve(Socket, Endpoint, Since, #{answers := Answers, timeout := Timeout, asked := Asked}) ->
    ok = whittle_counters_shared:join(Answers),
    Client = fun() -> #{socket => Socket, deadline => now_ms() + Timeout, since => Since} end,
    case whittle_counters_request:read(Socket, now_ms() + Timeout) of
        {ok, Request} ->
            ok = atomics:put(Since, 1, ?BUSY),
            Endpoint ! {self(), asked},
            answer(Request, (Client())#{answers => Answers, asked => Asked});
        {error, closed} -> ok;
        {error, Status} -> plain(Status, refusal(Status), Client())
    end,
    ok = atomics:put(Since, 1, now_ms()),
    Endpoint ! {self(), answered},
    _ = gen_tcp:shutdown(Socket, write),
    drain(Socket, now_ms() + Timeout, ?REST),
    gen_tcp:close(Socket).

refusal(400) -> <<"bad request\n">>;
refusal(408) -> <<"the request took too long\n">>;
refusal(414) -> <<"the request line is too long\n">>;
refusal(431) -> <<"the headers are too long, or too many\n">>.

%% Writes to the client, within the deadline of the whole answer.
send(Client, Data) -> send(Client, Data, 0).

send(#{socket := Socket, deadline := Deadline, since := Since}, Data, Pause) ->
    case left(Deadline) of
        0 -> {error, timeout};
        Left ->
            _ = inet:setopts(Socket, [{send_timeout, Left}]),
            ok = atomics:put(Since, 1, now_ms() + Pause),
            gen_tcp:send(Socket, Data)
    end.

%% Reads until the client closes. To close a socket with unread data sends a reset, which may
%% destroy the answer before the client has read it.
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
answer(#{method := 'HEAD'}, Client) -> plain(404, <<>>, Client);
answer(#{method := 'GET'}, Client) -> plain(404, <<"see /metrics\n">>, Client);
answer(_, Client) -> plain(405, <<"only GET and HEAD\n">>, Client).

head(Format) ->
    [<<"HTTP/1.1 200 OK\r\nContent-Type: ">>, content_type(Format),
     <<"\r\nConnection: close\r\n">>].

%% Until the answer is complete, the end of the connection is a reset.
scrape(#{accept := Accept}, Client) ->
    #{socket := Socket, deadline := Deadline, answers := Answers, asked := Asked} = Client,
    Format = negotiate(Accept),
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    case whittle_counters_shared:get(Answers, Format, begun(Asked), left(Deadline)) of
        {ok, {Size, Pieces}} ->
            Head = [head(Format), <<"Content-Length: ">>, integer_to_binary(Size),
                    <<"\r\n\r\n">>],
            sent(written([Head | Pieces], Client, 0), Socket);
        {error, _} = Error -> sent(Error, Socket)
    end.

%% Gives the earliest time at which the answer may have begun.
begun(Asked) ->
    Now = erlang:monotonic_time(),
    case counters:get(Asked, 1) > ?SLOW of
        true -> Now - erlang:convert_time_unit(?AGE_MS, millisecond, native);
        false -> Now
    end.

%% Makes a whole answer. Its parts are binaries, so that the senders share them.
body(Format) ->
    {ok, Pieces} = whittle_counters_stream:collect(
                     fun(Write) ->
                             stream(Format, fun(Piece) -> Write([iolist_to_binary(Piece)]) end)
                     end),
    Binaries = lists:flatten(Pieces),
    {lists:sum([byte_size(Binary) || Binary <- Binaries]), Binaries}.

%% Sent is the number of bytes that the client has taken. The client has read those that the
%% kernel no longer holds.
written([], _, _) -> ok;
written([<<Piece:?PIECE/binary, Rest/binary>> | Pieces], Client, Sent) when Rest =/= <<>> ->
    written([Piece, Rest | Pieces], Client, Sent);
written([Piece | Pieces], Client, Sent) ->
    Pause = if Sent >= ?READ -> ?PAUSE_MS; true -> 0 end,
    case send(Client, Piece, Pause) of
        ok -> written(Pieces, Client, Sent + iolist_size(Piece));
        {error, _} = Error -> Error
    end.

sent(ok, Socket) ->
    _ = inet:setopts(Socket, [{linger, {false, 0}}]),
    ok;
sent({error, Reason}, Socket) ->
    {error, _} = whittle_counters_table:reject(undefined, {scrape_cut_off, Reason}),
    gen_tcp:close(Socket).

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

%% @doc Chooses the format for an Accept header. The format with the largest q wins, and among
%% equals the one with the most information. The client gets protobuf and OpenMetrics only if it
%% asks for them, and the text format by default.
-spec negotiate(binary()) -> format().
negotiate(Accept) ->
    Plain = << <<(if C >= $A, C =< $Z -> C + 32; true -> C end)>>
               || <<C>> <= Accept, C =/= $\s, C =/= $\t >>,
    Wanted = [{Q, tells(Format), Format}
              || Range <- binary:split(Plain, <<",">>, [global]),
                 [Type | Parameters] <- [binary:split(Range, <<";">>, [global])],
                 Format <- format(Type, Parameters), Q <- [quality(Parameters)], Q > 0],
    case Wanted of
        [] -> prometheus;
        _ -> element(3, lists:max(Wanted))
    end.

%% The only form of protobuf that this library writes is that of delimited MetricFamily messages.
format(<<"application/vnd.google.protobuf">>, Parameters) ->
    [protobuf || [] =:= [Other || Other <- Parameters, is_other_form(Other)]];
format(<<"application/openmetrics-text">>, _) -> [openmetrics];
format(<<"text/plain">>, _) -> [prometheus];
format(<<"text/*">>, _) -> [prometheus];
format(<<"*/*">>, _) -> [prometheus];
format(_, _) -> [].

is_other_form(<<"proto=", Message/binary>>) -> Message =/= <<"io.prometheus.client.metricfamily">>;
is_other_form(<<"encoding=", Encoding/binary>>) -> Encoding =/= <<"delimited">>;
is_other_form(_) -> false.

tells(protobuf) -> 3;
tells(openmetrics) -> 2;
tells(prometheus) -> 1.

%% Reads q in thousandths. A q that is not a number counts as absent.
quality([<<"q=1", _/binary>> | _]) -> 1000;
quality([<<"q=0.", Digits/binary>> | _]) ->
    try binary_to_integer(binary:part(<<Digits/binary, "000">>, 0, 3))
    catch error:badarg -> 1000
    end;
quality([<<"q=0">> | _]) -> 0;
quality([_ | Parameters]) -> quality(Parameters);
quality([]) -> 1000.

%% @doc Gives a whole answer for a server: status, Content-Type, body.
-spec answer(Accept :: binary()) -> {200 | 503, binary(), iodata()}.
answer(Accept) ->
    case whittle_counters_sup:is_up() of
        true ->
            Format = negotiate(Accept),
            {ok, Body} = whittle_counters_stream:collect(fun(Write) -> stream(Format, Write) end),
            {200, content_type(Format), Body};
        false -> stopped()
    end.

%% @doc Gives the answer for the time in which the application does not run.
-spec stopped() -> {503, binary(), binary()}.
stopped() -> {503, <<"text/plain">>, <<"whittle_counters does not run\n">>}.

%% @doc Writes all metrics in a format.
-spec stream(format(), whittle_counters_stream:write()) -> ok | {error, term()}.
stream(protobuf, Write) -> whittle_counters_protobuf:stream(Write);
stream(Format, Write) -> whittle_counters_text:stream(Format, Write).

%% @doc Gives the Content-Type of a format.
-spec content_type(format()) -> binary().
content_type(protobuf) -> whittle_counters_protobuf:content_type();
content_type(Format) -> whittle_counters_text:content_type(Format).
