%% @doc Listens on a port. Several acceptors take connections from it.
%%
%% With the setting `reuseport', several VMs listen on the same port, and the kernel spreads the
%% connections over them.
%% @hidden
-module(presence_listener).
-behaviour(gen_server).

-export([start_link/1, port/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-export_type([listener/0]).

-type listener() :: #{name := atom(), port := inet:port_number(), protocol := module(),
                      tls := boolean()}.

%% Milliseconds before an acceptor tries again, if the machine has no descriptor or memory for it
-define(PAUSE, 100).

%% @doc Starts a listener.
-spec start_link(listener()) -> {ok, pid()} | {error, term()} | ignore.
start_link(Listener) -> gen_server:start_link(?MODULE, Listener, []).

%% @doc Returns the port.
-spec port(pid()) -> inet:port_number().
port(Pid) -> gen_server:call(Pid, port).

%% @private
-spec init(listener()) -> {ok, inet:port_number()} | {stop, term()}.
init(#{name := Name, port := Wanted} = Listener) ->
    case gen_tcp:listen(Wanted, options()) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            _ = [spawn_link(fun() -> accept(Socket, Listener) end)
                 || _ <- lists:seq(1, presence_config:get(acceptors))],
            {ok, Port};
        {error, Reason} -> {stop, {cannot_listen, {Name, Wanted, Reason}}}
    end.

options() ->
    Ip = presence_config:get(ip),
    [{ip, Ip}, {reuseaddr, true}, {backlog, presence_config:get(backlog)}]
        ++ [inet6 || tuple_size(Ip) =:= 8]
        ++ [reuseport() || presence_config:get(reuseport)]
        ++ presence_socket:options().

%% OTP 25 has no option of this name. SO_REUSEPORT of SOL_SOCKET has other numbers on MIPS.
reuseport() ->
    case erlang:system_info(system_architecture) of
        "mips" ++ _ -> {raw, 16#ffff, 16#200, <<1:32/native>>};
        _ -> {raw, 1, 15, <<1:32/native>>}
    end.

%% @private
-spec handle_call(term(), gen_server:from(), inet:port_number()) ->
          {reply, term(), inet:port_number()}.
handle_call(port, _, Port) -> {reply, Port, Port};
handle_call(_, _, Port) -> {reply, {error, unknown}, Port}.

%% @private
-spec handle_cast(term(), inet:port_number()) -> {noreply, inet:port_number()}.
handle_cast(_, Port) -> {noreply, Port}.

%% An acceptor ends with its listener, and the listener with an acceptor that crashes.
accept(Listen, #{name := Name} = Listener) ->
    case gen_tcp:accept(Listen) of
        {ok, Socket} ->
            Admission = presence_limits:enter(),
            ok = presence_counts:accepted(Name, case Admission of
                                                    none -> closed;
                                                    _ -> Admission
                                                end),
            ok = admit(Admission, Socket, Listener),
            accept(Listen, Listener);
        {error, closed} -> ok;
        {error, Reason} when Reason =:= emfile; Reason =:= enfile; Reason =:= enobufs;
                             Reason =:= enomem; Reason =:= system_limit ->
            ok = presence_counts:paused(Reason),
            receive after ?PAUSE -> accept(Listen, Listener) end;
        %% The client has gone already.
        {error, _} -> accept(Listen, Listener)
    end.

admit(none, Socket, _) -> gen_tcp:close(Socket);
%% A handshake costs too much for a client that is refused.
admit(refused, Socket, #{tls := true}) ->
    ok = gen_tcp:close(Socket),
    presence_limits:leave(1);
admit(admitted, Socket, #{tls := true, protocol := Protocol}) ->
    presence_tls:upgrade(Socket, Protocol);
admit(Admission, Socket, #{tls := false, protocol := Protocol}) ->
    presence_groups:give(Socket, Protocol, #{admission => Admission, tls => false}).
