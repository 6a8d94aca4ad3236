%% @doc Treats plain and encrypted sockets alike.
%% @hidden
-module(presence_socket).

-export([options/0, send/2, activate/2, give/2, finish/1, close/1]).

%% An idle connection holds a buffer of this size, because the VM allocates it before bytes arrive.
%% bench/load/README.md has the figures.
-define(IDLE_BUFFER, 64).
%% A client that logs in sends more.
-define(LOGIN_BUFFER, 1024).

%% @doc Returns the options of a listening socket that its connections inherit.
-spec options() -> [gen_tcp:option()].
options() ->
    [binary, {active, false}, {packet, raw}, {buffer, ?LOGIN_BUFFER}, {nodelay, true},
     {keepalive, true}, {send_timeout, presence_config:get(send_timeout)},
     {send_timeout_close, true}].

%% @doc Sends bytes. A client that does not read makes the caller wait `send_timeout' milliseconds,
%% once, because the connection ends then.
-spec send(presence_group:socket(), iodata()) -> ok | {error, term()}.
send(Socket, Bytes) when is_port(Socket) -> gen_tcp:send(Socket, Bytes);
send(Socket, Bytes) -> ssl:send(Socket, Bytes).

%% @doc Asks for the next bytes: of a client that logs in, or of one that is mostly idle.
-spec activate(presence_group:socket(), login | idle | stay) -> ok | {error, term()}.
activate(Socket, idle) when is_port(Socket) ->
    inet:setopts(Socket, [{buffer, ?IDLE_BUFFER}, {active, once}]);
activate(Socket, _) when is_port(Socket) -> inet:setopts(Socket, [{active, once}]);
activate(Socket, _) -> ssl:setopts(Socket, [{active, once}]).

%% @doc Makes another process the owner of a socket.
-spec give(presence_group:socket(), pid()) -> ok | {error, term()}.
give(Socket, Pid) when is_port(Socket) -> gen_tcp:controlling_process(Socket, Pid);
give(Socket, Pid) -> ssl:controlling_process(Socket, Pid).

%% @doc Says that no more bytes follow. The client still gets those before.
-spec finish(presence_group:socket()) -> ok | {error, term()}.
finish(Socket) when is_port(Socket) -> gen_tcp:shutdown(Socket, write);
finish(Socket) -> ssl:shutdown(Socket, write).

%% @doc Closes a socket.
-spec close(presence_group:socket()) -> ok.
close(Socket) when is_port(Socket) -> gen_tcp:close(Socket);
close(Socket) ->
    _ = ssl:close(Socket),
    ok.
