%% @doc Treats plain and encrypted sockets alike.
%% @hidden
-module(presence_socket).

-export([options/0, waiting/1, send/2, activate/1, pause/1, give/2, finish/1, close/1]).

%% The VM allocates a connection's buffer before bytes arrive, so an idle connection holds one
%% (bench/load/README.md). A larger buffer for the login only would not help: the VM keeps released
%% buffers, and takes one of these for an idle connection.
-define(BUFFER, 64).
%% So many buffers may arrive before the group asks for more. Asking costs as much as a buffer.
-define(READS, 16).
%% Bytes that wait in the VM for a client that does not read, because the kernel takes no more. With
%% MUCH of them, the client has `send_timeout' milliseconds to read; with MOST, it ends.
-define(MUCH, 8192).
-define(MOST, 262_144).
%% A send that reaches this mark waits for the client. The queue has at most MOST bytes and one
%% send.
-define(MARK, 1 bsl 30).

%% @doc Returns the options of a listening socket that its connections inherit.
-spec options() -> [gen_tcp:option()].
options() ->
    [binary, {active, false}, {packet, raw}, {buffer, ?BUFFER}, {nodelay, true},
     {keepalive, true}, {high_watermark, ?MARK},
     {send_timeout, presence_config:get(send_timeout)}, {send_timeout_close, true}].

%% @doc Tells how much waits for a client that does not read. With `most', the caller must not send.
-spec waiting(presence_group:socket()) -> little | much | most.
waiting(Socket) ->
    case pending(Socket) of
        Bytes when Bytes >= ?MOST -> most;
        Bytes when Bytes >= ?MUCH -> much;
        _ -> little
    end.

pending(Socket) when is_port(Socket) ->
    case erlang:port_info(Socket, queue_size) of
        {queue_size, Bytes} -> Bytes;
        undefined -> 0
    end;
pending(Socket) ->
    case ssl:getstat(Socket, [send_pend]) of
        {ok, [{send_pend, Bytes}]} -> Bytes;
        {error, _} -> 0
    end.

%% @doc Sends bytes.
-spec send(presence_group:socket(), iodata()) -> ok | {error, term()}.
send(Socket, Bytes) when is_port(Socket) -> gen_tcp:send(Socket, Bytes);
send(Socket, Bytes) -> ssl:send(Socket, Bytes).

%% @doc Asks for the next bytes. When some have arrived, the owner gets `{tcp_passive, Socket}' or
%% `{ssl_passive, Socket}', and nothing more until it asks again.
-spec activate(presence_group:socket()) -> ok | {error, term()}.
activate(Socket) when is_port(Socket) -> inet:setopts(Socket, [{active, ?READS}]);
activate(Socket) -> ssl:setopts(Socket, [{active, ?READS}]).

%% @doc Leaves the next bytes of a plain socket in the kernel.
-spec pause(gen_tcp:socket()) -> ok | {error, term()}.
pause(Socket) -> inet:setopts(Socket, [{active, false}]).

%% @doc Makes another process the owner of a socket.
-spec give(presence_group:socket(), pid()) -> ok | {error, term()}.
give(Socket, Pid) when is_port(Socket) -> gen_tcp:controlling_process(Socket, Pid);
give(Socket, Pid) -> ssl:controlling_process(Socket, Pid).

%% @doc Says that no more bytes follow. The client still gets those before.
-spec finish(presence_group:socket()) -> ok | {error, term()}.
finish(Socket) when is_port(Socket) -> gen_tcp:shutdown(Socket, write);
finish(Socket) -> ssl:shutdown(Socket, write).

%% @doc Closes a socket, and drops the bytes that wait in the VM for a client that does not read.
%% With them, `gen_tcp' would wait 5 seconds, or 3 minutes if the client takes a few bytes now and
%% then. The other clients of the caller would wait too.
-spec close(presence_group:socket()) -> ok.
close(Socket) when is_port(Socket) ->
    _ = case inet:getstat(Socket, [send_pend]) of
            {ok, [{send_pend, Waiting}]} when Waiting > 0 ->
                inet:setopts(Socket, [{linger, {true, 0}}]);
            _ -> ok
        end,
    gen_tcp:close(Socket);
close(Socket) ->
    _ = ssl:close(Socket),
    ok.
