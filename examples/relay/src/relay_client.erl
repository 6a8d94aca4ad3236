%% @doc Serves one client: a socket that sends lines and gets lines.
%%
%% The relay disconnects a client that does not read for five seconds, or for which 10,000 lines
%% wait, so that its mailbox cannot grow forever.
-module(relay_client).
-behaviour(gen_server).

-export([start_link/1, options/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The lines that may wait for a client
-define(MOST_WAITING, 10_000).

%% @doc Starts a client; it reads once it has been given the socket and told so
%% with `socket_is_yours'.
-spec start_link(gen_tcp:socket()) -> {ok, pid()} | {error, term()} | ignore.
start_link(Socket) ->
    gen_server:start_link(?MODULE, Socket, []).

%% @doc Gives the socket options that a client needs. Lines longer than 4096 bytes are
%% relayed in pieces.
-spec options() -> [gen_tcp:option()].
options() ->
    [binary, {packet, line}, {active, false}, {buffer, 4096}, {nodelay, true},
     {send_timeout, 5000}, {send_timeout_close, true}].

%% @private
-spec init(gen_tcp:socket()) -> {ok, gen_tcp:socket()}.
init(Socket) ->
    ok = relay:join(),
    {ok, Socket}.

%% @private
-spec handle_call(term(), gen_server:from(), gen_tcp:socket()) ->
          {reply, {error, unknown}, gen_tcp:socket()}.
handle_call(_, _, Socket) ->
    {reply, {error, unknown}, Socket}.

%% @private
-spec handle_cast(term(), gen_tcp:socket()) -> {noreply, gen_tcp:socket()}.
handle_cast(_, Socket) ->
    {noreply, Socket}.

%% @private
-spec handle_info(term(), gen_tcp:socket()) ->
          {noreply, gen_tcp:socket()} | {stop, normal, gen_tcp:socket()}.
handle_info({tcp, Socket, Line}, Socket) ->
    ok = relay:send(Line),
    listen(Socket);
handle_info(socket_is_yours, Socket) ->
    listen(Socket);
handle_info({line, Line}, Socket) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    case Waiting < ?MOST_WAITING andalso gen_tcp:send(Socket, Line) of
        ok -> {noreply, Socket};
        _ -> {stop, normal, Socket}             % too slow, or gone
    end;
handle_info({tcp_closed, Socket}, Socket) ->
    {stop, normal, Socket};
handle_info({tcp_error, Socket, _}, Socket) ->
    {stop, normal, Socket}.

listen(Socket) ->
    case inet:setopts(Socket, [{active, once}]) of
        ok -> {noreply, Socket};
        {error, _} -> {stop, normal, Socket}
    end.
