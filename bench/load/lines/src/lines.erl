%% @doc Sends everything back that a client sends. Several of these VMs share one port.
%%
%% The first argument is the port. The program writes `listening' when it accepts, and ends when its
%% standard input ends. A connection that waits hibernates, and reads 64 bytes at once.
-module(lines).
-behaviour(application).

-export([start/2, stop/1]).
%% A connection wakes up here.
-export([held/1]).

-define(ACCEPTORS, 64).
%% A VM without free descriptors accepts again after this time.
-define(FULL_MS, 100).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_, _) ->
    [Port] = init:get_plain_arguments(),
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port),
                                    [binary, {active, false}, {ip, {127, 0, 0, 1}}, {buffer, 64},
                                     {reuseaddr, true}, {reuseport, true}, {nodelay, true},
                                     {backlog, 4096}]),
    [accepting(Listener) || _ <- lists:seq(1, ?ACCEPTORS)],
    {ok, spawn_link(fun until_end_of_input/0)}.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

until_end_of_input() ->
    Port = open_port({fd, 0, 1}, [binary, eof]),
    true = port_command(Port, <<"listening\n">>),
    receive {Port, eof} -> halt(0) end.

%% The process that accepts a connection also holds it.
accepting(Listener) ->
    spawn(fun() ->
                  Socket = accept(Listener),
                  accepting(Listener),
                  rest(Socket)
          end).

accept(Listener) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} -> Socket;
        {error, _} ->
            receive after ?FULL_MS -> accept(Listener) end
    end.

rest(Socket) ->
    case inet:setopts(Socket, [{active, once}]) of
        ok -> erlang:hibernate(?MODULE, held, [Socket]);
        {error, _} -> gen_tcp:close(Socket)
    end.

%% @private
-spec held(gen_tcp:socket()) -> ok.
held(Socket) ->
    receive
        {tcp, Socket, Bytes} ->
            case gen_tcp:send(Socket, Bytes) of
                ok -> rest(Socket);
                {error, _} -> gen_tcp:close(Socket)
            end;
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> ok
    end.
