%% @doc Sends everything back that a client sends, or answers a request of HTTP and closes the
%% connection. Variables of the environment choose how it treats its sockets.
%%
%% Each connection has a process. The program listens on port 7000 of the loopback interface, prints
%% `listening', and runs until it is ended.
%%
%% | variable | value | default |
%% | ANSWERING_PROTOCOL | lines, http | lines |
%% | ANSWERING_TRANSPORT | inet, inet_socket (gen_tcp on `socket'), socket (the module) | inet |
%% | ANSWERING_ACTIVE | once, true, false, or a number | once |
%% | ANSWERING_BUFFER, ANSWERING_RECBUF, ANSWERING_SNDBUF | bytes | the VM's, the kernel's |
%% | ANSWERING_HIBERNATE | yes, no | yes |
%% | ANSWERING_ACCEPTORS, ANSWERING_BACKLOG | numbers | 8, 1024 |
%% | ANSWERING_REUSEPORT | yes: each acceptor has a listening socket of its own | no |
-module(answering).
-behaviour(application).

-export([start/2, stop/1]).
%% A connection wakes up here.
-export([woken/2]).

-define(PORT, 7000).
%% A VM without free descriptors accepts again after this time.
-define(FULL_MS, 100).
-define(ANSWER, <<"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n">>).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_, _) ->
    Settings = #{protocol => atom("PROTOCOL", lines),
                 transport => atom("TRANSPORT", inet),
                 active => active(value("ACTIVE", "once")),
                 hibernate => value("HIBERNATE", "yes") =:= "yes"},
    Acceptors = list_to_integer(value("ACCEPTORS", "8")),
    Listeners = case value("REUSEPORT", "no") of
                    "yes" -> [listen(Settings) || _ <- lists:seq(1, Acceptors)];
                    "no" -> lists:duplicate(Acceptors, listen(Settings))
                end,
    Pid = spawn_link(fun() -> io:put_chars("listening\n"), receive stop -> ok end end),
    _ = [accepting(Listener, Settings) || Listener <- Listeners],
    {ok, Pid}.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

value(Name, Default) -> os:getenv("ANSWERING_" ++ Name, Default).

atom(Name, Default) -> list_to_atom(value(Name, atom_to_list(Default))).

active(Text) when Text =:= "once"; Text =:= "true"; Text =:= "false" -> list_to_atom(Text);
active(Text) -> list_to_integer(Text).

listen(#{transport := socket}) ->
    {ok, Socket} = socket:open(inet, stream, tcp),
    ok = socket:setopt(Socket, {socket, reuseaddr}, true),
    [ok = socket:setopt(Socket, {socket, reuseport}, true) || value("REUSEPORT", "no") =:= "yes"],
    [ok = socket:setopt(Socket, {socket, rcvbuf}, Bytes) || {recbuf, Bytes} <- sizes()],
    [ok = socket:setopt(Socket, {socket, sndbuf}, Bytes) || {sndbuf, Bytes} <- sizes()],
    [ok = socket:setopt(Socket, {otp, rcvbuf}, Bytes) || {buffer, Bytes} <- sizes()],
    ok = socket:bind(Socket, #{family => inet, port => ?PORT, addr => loopback}),
    ok = socket:listen(Socket, backlog()),
    Socket;
listen(#{transport := Transport}) ->
    {ok, Socket} = gen_tcp:listen(
                     ?PORT, [{inet_backend, socket} || Transport =:= inet_socket]
                     ++ [binary, {active, false}, {ip, {127, 0, 0, 1}}, {reuseaddr, true},
                         {nodelay, true}, {backlog, backlog()} | sizes()]
                     ++ [{raw, 1, 15, <<1:32/native>>} || value("REUSEPORT", "no") =:= "yes"]),
    Socket.

backlog() -> list_to_integer(value("BACKLOG", "1024")).

sizes() ->
    [{Option, list_to_integer(Text)}
     || {Option, Name} <- [{buffer, "BUFFER"}, {recbuf, "RECBUF"}, {sndbuf, "SNDBUF"}],
        Text <- [value(Name, "")], Text =/= ""].

%% The process that accepts a connection also serves it.
accepting(Listener, Settings) ->
    spawn(fun() ->
                  Socket = accept(Listener, Settings),
                  accepting(Listener, Settings),
                  begun(Socket, Settings)
          end).

accept(Listener, #{transport := Transport} = Settings) ->
    Accepted = case Transport of
                   socket -> socket:accept(Listener);
                   _ -> gen_tcp:accept(Listener)
               end,
    case Accepted of
        {ok, Socket} -> Socket;
        {error, _} -> receive after ?FULL_MS -> accept(Listener, Settings) end
    end.

%% With `{active, N}' or `true', the VM delivers bytes without further requests.
begun(Socket, #{transport := Transport, active := Active} = Settings)
  when Transport =/= socket, Active =/= once, Active =/= false ->
    case inet:setopts(Socket, [{active, Active}]) of
        ok -> wait(Socket, Settings);
        {error, _} -> gen_tcp:close(Socket)
    end;
begun(Socket, Settings) -> rest(Socket, Settings).

%% Asks for the next bytes.
rest(Socket, #{transport := socket} = Settings) ->
    case socket:recv(Socket, 0, nowait) of
        {ok, Bytes} -> answer(Bytes, Socket, Settings);
        {select, _} -> wait(Socket, Settings);
        {error, _} -> socket:close(Socket)
    end;
rest(Socket, #{active := false} = Settings) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> answer(Bytes, Socket, Settings);
        {error, _} -> gen_tcp:close(Socket)
    end;
rest(Socket, #{active := once} = Settings) ->
    case inet:setopts(Socket, [{active, once}]) of
        ok -> wait(Socket, Settings);
        {error, _} -> gen_tcp:close(Socket)
    end;
rest(Socket, Settings) -> wait(Socket, Settings).

wait(Socket, #{hibernate := true} = Settings) ->
    erlang:hibernate(?MODULE, woken, [Socket, Settings]);
wait(Socket, Settings) -> woken(Socket, Settings).

%% @private
-spec woken(gen_tcp:socket() | socket:socket(), map()) -> ok | {error, term()}.
woken(Socket, #{active := Active} = Settings) ->
    receive
        {tcp, Socket, Bytes} -> answer(Bytes, Socket, Settings);
        {tcp_passive, Socket} ->
            case inet:setopts(Socket, [{active, Active}]) of
                ok -> wait(Socket, Settings);
                {error, _} -> gen_tcp:close(Socket)
            end;
        {'$socket', Socket, select, _} -> rest(Socket, Settings);
        {'$socket', Socket, abort, _} -> socket:close(Socket);
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> ok
    end.

answer(Bytes, Socket, #{protocol := lines} = Settings) ->
    case send(Socket, Bytes, Settings) of
        ok -> rest(Socket, Settings);
        {error, _} -> close(Socket, Settings)
    end;
%% A request without a body comes in one piece here.
answer(_, Socket, #{protocol := http} = Settings) ->
    _ = send(Socket, ?ANSWER, Settings),
    close(Socket, Settings).

send(Socket, Bytes, #{transport := socket}) -> socket:send(Socket, Bytes);
send(Socket, Bytes, _) -> gen_tcp:send(Socket, Bytes).

close(Socket, #{transport := socket}) -> socket:close(Socket);
close(Socket, _) -> gen_tcp:close(Socket).
