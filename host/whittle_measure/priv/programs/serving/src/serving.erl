%% @doc Answers HTTP requests of its own clients over the loopback interface, and prints how many it
%% answered in a second. One process accepts, and each connection has a process at each end. A
%% client sends its next request when it has the whole answer. The server closes no connection.
-module(serving).
-behaviour(application).

-export([start/2, stop/1]).

-define(USAGE, "usage: serving [SECONDS [CLIENTS]]\n"
        "Serves CLIENTS clients (default 16, at most 1000) for SECONDS (default 3).\n").

%% The bytes of an answer, without its head.
-define(BODY, 1024).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_Type, _Args) ->
    {ok, spawn_link(fun() -> run(init:get_plain_arguments()) end)}.

%% @private
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

run(Arguments) ->
    case options(Arguments) of
        {ok, Seconds, Clients} ->
            load(Seconds, Clients),
            init:stop();
        error ->
            io:put_chars(standard_error, ?USAGE),
            init:stop(2)
    end,
    receive after infinity -> ok end.

options(Arguments) ->
    try {lists:map(fun list_to_integer/1, Arguments), length(Arguments)} of
        {[], 0} -> {ok, 3, 16};
        {[Seconds], 1} when Seconds > 0, Seconds =< 86400 -> {ok, Seconds, 16};
        {[Seconds, Clients], 2} when Seconds > 0, Seconds =< 86400, Clients > 0, Clients =< 1000 ->
            {ok, Seconds, Clients};
        _ -> error
    catch
        error:badarg -> error
    end.

load(Seconds, Clients) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {packet, http_bin},
                                        {active, false}, {backlog, Clients}, {nodelay, true}]),
    {ok, Port} = inet:port(Listener),
    _ = spawn_link(fun() -> accept(Listener) end),
    Start = now_us(),
    End = Start + 1000000 * Seconds,
    Self = self(),
    Started = [spawn_link(fun() -> Self ! {self(), requests(connect(Port), End, 0)} end)
               || _ <- lists:seq(1, Clients)],
    Answered = lists:sum([receive {Client, Count} -> Count end || Client <- Started]),
    io:format("answered ~b requests~nscore ~.1f~n",
              [Answered, Answered * 1000000 / (now_us() - Start)]).

%% Internal functions: the server

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Server = spawn(fun() -> receive go -> answer(Socket, binary:copy(<<"a">>, ?BODY)) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! go,
    accept(Listener).

answer(Socket, Body) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, 'GET', {abs_path, Path}, _}} ->
            case headers(Socket, []) of
                {ok, Headers} ->
                    ok = gen_tcp:send(Socket, page(Path, Headers, Body)),
                    answer(Socket, Body);
                closed -> ok
            end;
        {error, _} -> ok
    end.

headers(Socket, Headers) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_header, _, Name, _, Value}} -> headers(Socket, [{Name, Value} | Headers]);
        {ok, http_eoh} -> {ok, maps:from_list(Headers)};
        {error, _} -> closed
    end.

page(Path, Headers, Body) ->
    Length = byte_size(Path) + byte_size(Body),
    ["HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Host: ", maps:get('Host', Headers, <<>>),
     "\r\nContent-Length: ", integer_to_list(Length), "\r\n\r\n", Path, Body].

%% Internal functions: a client

connect(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true},
                                                          {packet, http_bin}]),
    Socket.

requests(Socket, End, Count) ->
    case now_us() >= End of
        true -> Count;
        false ->
            Path = ["/item/", integer_to_list(Count)],
            ok = gen_tcp:send(Socket, ["GET ", Path, " HTTP/1.1\r\nHost: localhost\r\n"
                                       "Accept: text/plain\r\nUser-Agent: serving\r\n\r\n"]),
            {ok, {http_response, _, 200, _}} = gen_tcp:recv(Socket, 0),
            {ok, #{'Content-Length' := Length}} = headers(Socket, []),
            ok = inet:setopts(Socket, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(Socket, binary_to_integer(Length)),
            ok = inet:setopts(Socket, [{packet, http_bin}]),
            true = byte_size(Body) =:= iolist_size(Path) + ?BODY,
            requests(Socket, End, Count + 1)
    end.

now_us() -> erlang:monotonic_time(microsecond).
