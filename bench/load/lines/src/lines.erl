%% @doc Sends everything back that a client sends. Several of these VMs share one port.
%%
%% The first argument is the port. The program writes `listening' when it accepts, and ends when its
%% standard input ends. A group of connections that waits hibernates, and reads 64 bytes at once.
-module(lines).
-behaviour(application).

-export([start/2, stop/1]).
%% A group wakes up here.
-export([group/3]).

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
%% memory. It accepts them itself, with a function that OTP does not document: gen_tcp:accept/1
%% copies the options of the listener with 45 system calls, although the kernel and the driver have
%% copied them already (57 us of CPU time for each connection, against 91).
accepting(Listener) -> spawn(fun() -> accepting(Listener, 0, 0) end).

accepting(Listener, Open, Accepted) ->
    case prim_inet:async_accept(Listener, -1) of
        {ok, _} -> group(Listener, Open, Accepted);
        {error, _} -> later(Listener, Open, Accepted)
    end.

later(Listener, Open, Accepted) ->
    _ = erlang:send_after(?FULL_MS, self(), accept),
    group(Listener, Open, Accepted).

%% @private Open is the number of connections, Accepted that of all connections so far.
-spec group(gen_tcp:socket(), non_neg_integer(), non_neg_integer()) -> ok.
group(_, 0, ?GROUP) -> ok;
group(Listener, Open, Accepted) ->
    receive
        {tcp, Socket, Bytes} ->
            group(Listener, sent(gen_tcp:send(Socket, Bytes), Socket, Open), Accepted);
        {tcp_passive, Socket} -> group(Listener, read_on(Socket, Open), Accepted);
        {tcp_closed, _} -> group(Listener, Open - 1, Accepted);
        {tcp_error, _, _} -> group(Listener, Open, Accepted);
        {inet_async, Listener, _, {ok, Socket}} -> accepted(Socket, Listener, Open, Accepted + 1);
        {inet_async, Listener, _, {error, _}} -> later(Listener, Open, Accepted);
        accept -> accepting(Listener, Open, Accepted)
    after ?IDLE_MS -> erlang:hibernate(?MODULE, group, [Listener, Open, Accepted])
    end.

accepted(Socket, Listener, Open, Accepted) ->
    true = inet_db:register_socket(Socket, inet_tcp),
    Now = read_on(Socket, Open + 1),
    case Accepted of
        ?GROUP ->
            accepting(Listener),
            group(Listener, Now, Accepted);
        _ -> accepting(Listener, Now, Accepted)
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
