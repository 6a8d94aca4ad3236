%% @doc Sends everything back that a client sends. Several of these VMs share one port.
%%
%% The first argument is the port. The program writes `listening' when it accepts, and ends when its
%% standard input ends. A group of connections that waits hibernates, and reads 64 bytes at once.
-module(lines).
-behaviour(application).

-export([start/2, stop/1]).
%% A group wakes up here.
-export([group/2]).

-define(ACCEPTORS, 64).
%% The connections of a process
-define(GROUP, 32).
%% A socket gives so many reads before the process asks for more.
-define(READS, 16).
%% A process without work hibernates after this time.
-define(IDLE_MS, 100).
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

%% A process holds many connections, as in examples/presence: each connection then needs less
%% memory.
accepting(Listener) -> spawn(fun() -> accepting(Listener, group(), ?GROUP) end).

accepting(Listener, Group, 0) ->
    Group ! full,
    accepting(Listener, group(), ?GROUP);
accepting(Listener, Group, Free) ->
    Socket = accept(Listener),
    case gen_tcp:controlling_process(Socket, Group) of
        ok ->
            Group ! {take, Socket},
            accepting(Listener, Group, Free - 1);
        {error, _} ->
            ok = gen_tcp:close(Socket),
            accepting(Listener, Group, Free)
    end.

group() -> spawn(fun() -> group(0, growing) end).

accept(Listener) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} -> Socket;
        {error, _} ->
            receive after ?FULL_MS -> accept(Listener) end
    end.

%% @private Open is the number of connections.
-spec group(non_neg_integer(), growing | full) -> ok.
group(0, full) -> ok;
group(Open, Growth) ->
    receive
        {tcp, Socket, Bytes} -> group(sent(gen_tcp:send(Socket, Bytes), Socket, Open), Growth);
        {tcp_passive, Socket} -> group(read_on(Socket, Open), Growth);
        {tcp_closed, _} -> group(Open - 1, Growth);
        {tcp_error, _, _} -> group(Open, Growth);
        {take, Socket} -> group(read_on(Socket, Open + 1), Growth);
        full -> group(Open, full)
    after ?IDLE_MS -> erlang:hibernate(?MODULE, group, [Open, Growth])
    end.

%% If the connection has failed, no message about its end may follow.
sent(ok, _, Open) -> Open;
sent({error, _}, Socket, Open) -> ended(Socket, Open).

read_on(Socket, Open) ->
    case inet:setopts(Socket, [{active, ?READS}]) of
        ok -> Open;
        {error, _} -> ended(Socket, Open)
    end.

ended(Socket, Open) ->
    ok = gen_tcp:close(Socket),
    receive {tcp_closed, Socket} -> ok after 0 -> ok end,
    Open - 1.
