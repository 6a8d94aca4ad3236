%% @doc Listens on a TCP port, and gives each connection to a client process.
%%
%% The port is the application's `port'; with 0 the system chooses one, which is
%% printed and can be asked for.
-module(relay_listener).
-behaviour(gen_server).

-export([start_link/0, port/0]).
-export([init/1, handle_call/3, handle_cast/2]).

%% @doc Starts the listener.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Gives the port that the relay listens on.
-spec port() -> inet:port_number().
port() ->
    gen_server:call(?MODULE, port).

%% @private
-spec init([]) -> {ok, inet:port_number()} | {stop, term()}.
init([]) ->
    {ok, Wanted} = application:get_env(relay, port),
    case gen_tcp:listen(Wanted, [{reuseaddr, true}, {backlog, 128}
                                 | relay_client:options()]) of
        {ok, Listen} ->
            {ok, Port} = inet:port(Listen),
            io:format("relay listens on port ~w~n", [Port]),
            _ = spawn_link(fun() -> accept(Listen) end),
            {ok, Port};
        {error, Reason} ->
            {stop, {listen, Wanted, Reason}}
    end.

%% @private
-spec handle_call(term(), gen_server:from(), inet:port_number()) ->
          {reply, term(), inet:port_number()}.
handle_call(port, _, Port) ->
    {reply, Port, Port};
handle_call(_, _, Port) ->
    {reply, {error, unknown}, Port}.

%% @private
-spec handle_cast(term(), inet:port_number()) -> {noreply, inet:port_number()}.
handle_cast(_, Port) ->
    {noreply, Port}.

%% It is linked with the listener: either ends with the other.
accept(Listen) ->
    case gen_tcp:accept(Listen) of
        {ok, Socket} ->
            {ok, Client} = relay_sup:start_client(Socket),
            ok = give(Socket, Client),
            accept(Listen);
        {error, econnaborted} ->
            accept(Listen);
        {error, Full} when Full =/= closed ->
            %% A descriptor or a port is free again when some client has left.
            receive after 100 -> accept(Listen) end
    end.

give(Socket, Client) ->
    case gen_tcp:controlling_process(Socket, Client) of
        ok -> Client ! socket_is_yours, ok;
        %% It is closed already; the client will see it.
        {error, _} -> Client ! {tcp_closed, Socket}, ok
    end.
