%% @doc Encrypts a connection, in a process of its own: a handshake waits for the client.
%%
%% Only this module and presence_socket call ssl. An executable without ssl works as long as no
%% `certificate' is set.
%% @hidden
-module(presence_tls).

-export([upgrade/2]).

%% @doc Takes a socket of the calling process, and gives it to a group when it is encrypted. If that
%% fails, the socket is closed, and the connection does not count any more.
-spec upgrade(gen_tcp:socket(), module()) -> ok.
upgrade(Socket, Module) ->
    Pid = spawn(fun() -> receive yours -> handshake(Socket, Module) end end),
    case gen_tcp:controlling_process(Socket, Pid) of
        ok -> Pid ! yours, ok;
        {error, _} ->
            exit(Pid, kill),
            ended(Socket)
    end.

handshake(Socket, Module) ->
    Self = self(),
    _ = spawn(fun() ->
                      _ = monitor(process, Self),
                      watch(Socket)
              end),
    Certificate = presence_config:get(certificate),
    Key = case presence_config:get(key) of none -> Certificate; File -> File end,
    %% The server counts a failed handshake. A report of each would let clients flood the log.
    try ssl:handshake(Socket, [{certfile, Certificate}, {keyfile, Key}, {hibernate_after, 1000},
                               {log_level, error}],
                      presence_config:get(handshake_timeout)) of
        {ok, Encrypted} ->
            presence_groups:give(Encrypted, Module, #{admission => admitted, tls => true});
        {error, _} -> ended(Socket)
    catch _:_ -> ended(Socket)
    end.

%% A long handshake must not keep others out. The process of the handshake notices the end of the
%% connection.
watch(Socket) ->
    receive {'DOWN', _, process, _, _} -> ok
    after presence_config:get(silent_timeout) ->
        case presence_limits:is_crowded() of
            true -> _ = gen_tcp:shutdown(Socket, read_write), ok;
            false -> watch(Socket)
        end
    end.

ended(Socket) ->
    ok = gen_tcp:close(Socket),
    ok = presence_counts:ended(error),
    presence_limits:leave(1).
