%% @doc A tiny HTTP endpoint for scrapes, and what the handlers for other
%% servers share: `GET /metrics', the format chosen by the Accept header.
%%
%% One process accepts; each connection has its own, of ?CONNECTIONS at most, others wait in
%% the listen queue. At most ?SCRAPES of those that have asked are answered at a time;
%% a client that is slow to ask or
%% to take is dropped after `timeout'. A scrape that is cut off is counted.
-module(whittle_counters_http).

-export([start_link/1, child_spec/1, port/1]).
-export([negotiate/1, stream/2, content_type/1, answer/1, stopped/0]).
-export_type([options/0, format/0]).

-type options() :: #{
        %% 9568 by default; 0 takes any that is free, see port/1.
        port => inet:port_number(),
        %% Address to listen on; only this machine by default. `any' for all.
        ip => inet:ip_address() | any,
        %% Milliseconds that a client may take for its request, for each piece of
        %% the answer, and to close; 10000 by default.
        timeout => pos_integer()}.

-type format() :: prometheus | openmetrics | protobuf.

-define(CONNECTIONS, 64).
-define(SCRAPES, 4).
%% Headers that a request may have; they are 8 KB at most each.
-define(HEADERS, 100).
%% Bytes that wait in the kernel for a client. Its own choice can be megabytes,
%% which is more than all else that a scrape takes.
-define(SNDBUF, 65536).
%% Bytes of a request that are read and thrown away behind the answer.
-define(REST, 65536).

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
option(_, _) -> false.

init(Parent, Options) ->
    Ip = case maps:get(ip, Options, {127, 0, 0, 1}) of any -> []; Address -> [{ip, Address}] end,
    case gen_tcp:listen(maps:get(port, Options, 9568),
                        [binary, {active, false}, {packet, http_bin}, {reuseaddr, true},
                         {send_timeout, timeout(Options)}, {send_timeout_close, true},
                         {packet_size, 8192}, {backlog, 16}, {sndbuf, ?SNDBUF} | Ip]) of
        {ok, Listen} ->
            {ok, Port} = inet:port(Listen),
            _ = put(?MODULE, Port),
            ok = proc_lib:init_ack(Parent, {ok, self()}),
            accept(Listen, Options#{gate => spawn_link(fun() -> gate(0, []) end)}, 0);
        {error, Reason} ->
            proc_lib:init_ack(Parent, {error, {cannot_listen, Reason}})
    end.

timeout(Options) -> maps:get(timeout, Options, 10000).

%% @doc The port that an endpoint listens on.
-spec port(pid()) -> inet:port_number().
port(Endpoint) ->
    {dictionary, Dictionary} = process_info(Endpoint, dictionary),
    proplists:get_value(?MODULE, Dictionary).

accept(Listen, Options, Running) when Running >= ?CONNECTIONS ->
    receive {'DOWN', _, process, _, _} -> accept(Listen, Options, Running - 1) end;
accept(Listen, Options, Running) ->
    case gen_tcp:accept(Listen, 1000) of
        {ok, Socket} ->
            {Pid, _} = spawn_monitor(fun() ->
                                             receive {go, Socket} -> serve(Socket, Options) end
                                     end),
            _ = gen_tcp:controlling_process(Socket, Pid),
            Pid ! {go, Socket},
            accept(Listen, Options, ended(Running + 1));
        {error, timeout} -> accept(Listen, Options, ended(Running));
        %% Out of descriptors, say: those who scrape now give theirs back.
        {error, Reason} when Reason =/= closed -> accept(Listen, Options, ended(Running));
        {error, closed} -> exit(shutdown)
    end.

%% Lets those in that have asked, in their order, until they leave or end.
gate(Running, [Pid | Waiting]) when Running < ?SCRAPES ->
    Monitor = monitor(process, Pid),
    Pid ! {enter, self(), Monitor},
    gate(Running + 1, Waiting);
gate(Running, Waiting) ->
    receive
        {enter, Pid} -> gate(Running, Waiting ++ [Pid]);
        {leave, Monitor} ->
            true = demonitor(Monitor, [flush]),
            gate(Running - 1, Waiting);
        {'DOWN', _, process, _, _} -> gate(Running - 1, Waiting)
    end.

%% Ends with the endpoint. What comes after the answer keeps nobody out.
gated(Fun, #{gate := Gate}) ->
    Watch = monitor(process, Gate),
    Gate ! {enter, self()},
    receive
        {enter, Gate, Monitor} ->
            true = demonitor(Watch, [flush]),
            ok = Fun(),
            Gate ! {leave, Monitor},
            ok;
        {'DOWN', Watch, process, _, _} -> exit(shutdown)
    end.

ended(Running) ->
    receive {'DOWN', _, process, _, _} -> ended(Running - 1)
    after 0 -> Running
    end.

serve(Socket, Options) ->
    Timeout = timeout(Options),
    Deadline = now_ms() + Timeout,
    case gen_tcp:recv(Socket, 0, Timeout) of
        {ok, {http_request, Method, Uri, Version}} ->
            case headers(Socket, Deadline, ?HEADERS, <<>>) of
                {ok, Accept} ->
                    gated(fun() -> answer(Socket, Method, path(Uri), Version, Accept) end,
                          Options);
                error -> plain(Socket, 400, <<"bad request\n">>)
            end;
        _ ->
            plain(Socket, 400, <<"bad request\n">>)
    end,
    _ = gen_tcp:shutdown(Socket, write),
    _ = inet:setopts(Socket, [{packet, raw}]),
    drain(Socket, now_ms() + Timeout, ?REST),
    gen_tcp:close(Socket).

headers(_, _, 0, _) -> error;
headers(Socket, Deadline, Left, Accept) ->
    case gen_tcp:recv(Socket, 0, left(Deadline)) of
        {ok, http_eoh} -> {ok, Accept};
        {ok, {http_header, _, 'Accept', _, Value}} -> headers(Socket, Deadline, Left - 1, Value);
        {ok, {http_header, _, _, _, _}} -> headers(Socket, Deadline, Left - 1, Accept);
        _ -> error
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

path({abs_path, Path}) -> hd(binary:split(Path, <<"?">>));
path({absoluteURI, _, _, _, Path}) -> path({abs_path, Path});
path(_) -> <<>>.

answer(Socket, 'GET', <<"/metrics">>, Version, Accept) ->
    case whittle_counters_sup:is_up() of
        true -> scrape(Socket, Version, Accept);
        false ->
            {Status, _, Body} = stopped(),
            plain(Socket, Status, Body)
    end;
answer(Socket, 'HEAD', <<"/metrics">>, _, Accept) ->
    case whittle_counters_sup:is_up() of
        true -> _ = gen_tcp:send(Socket, [head(negotiate(Accept)), <<"\r\n">>]), ok;
        false -> plain(Socket, 503, <<>>)
    end;
answer(Socket, 'GET', _, _, _) -> plain(Socket, 404, <<"see /metrics\n">>);
answer(Socket, _, _, _, _) -> plain(Socket, 405, <<"only GET and HEAD\n">>).

head(Format) ->
    [<<"HTTP/1.1 200 OK\r\nContent-Type: ">>, content_type(Format),
     <<"\r\nConnection: close\r\n">>].

scrape(Socket, Version, Accept) ->
    Format = negotiate(Accept),
    Chunked = Version >= {1, 1},
    Head = [head(Format), [<<"Transfer-Encoding: chunked\r\n">> || Chunked], <<"\r\n">>],
    Write = fun(Piece) ->
                    gen_tcp:send(Socket, case Chunked of
                                             true -> chunk(Piece);
                                             false -> Piece
                                         end)
            end,
    maybe_cut_off(case gen_tcp:send(Socket, Head) of
                      ok ->
                          case stream(Format, Write) of
                              ok when Chunked -> gen_tcp:send(Socket, <<"0\r\n\r\n">>);
                              Result -> Result
                          end;
                      Error -> Error
                  end).

chunk(Piece) -> [integer_to_binary(iolist_size(Piece), 16), <<"\r\n">>, Piece, <<"\r\n">>].

maybe_cut_off(ok) -> ok;
maybe_cut_off({error, Reason}) ->
    {error, _} = whittle_counters_table:reject(undefined, {scrape_cut_off, Reason}),
    ok.

plain(Socket, Status, Body) ->
    _ = gen_tcp:send(Socket, [<<"HTTP/1.1 ">>, integer_to_binary(Status), $\s, reason(Status),
                              <<"\r\nContent-Type: text/plain\r\nConnection: close\r\n">>,
                              [<<"Allow: GET, HEAD\r\n">> || Status =:= 405],
                              <<"Content-Length: ">>, integer_to_binary(byte_size(Body)),
                              <<"\r\n\r\n">>, Body]),
    ok.

reason(400) -> <<"Bad Request">>;
reason(404) -> <<"Not Found">>;
reason(405) -> <<"Method Not Allowed">>;
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
