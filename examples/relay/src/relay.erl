%% @doc Sends each line of a TCP client to all clients of all connected nodes, the sender too.
%%
%% The clients of all nodes are one group of `pg'; a line goes to each member as
%% a message, over Erlang distribution where it has to.
-module(relay).
-behaviour(application).

%% The application
-export([start/2, stop/1]).
%% The group
-export([join/0, send/1]).
%% What runs where
-export([port/0]).

-define(SCOPE, ?MODULE).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    relay_sup:start_link(?SCOPE).

%% @private
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

%% @doc Makes the calling process a client: it gets `{line, Bytes}' for each line.
-spec join() -> ok.
join() ->
    pg:join(?SCOPE, clients, self()).

%% @doc Sends a line to all clients of all connected nodes.
-spec send(binary()) -> ok.
send(Line) ->
    lists:foreach(fun(Client) -> Client ! {line, Line} end,
                  pg:get_members(?SCOPE, clients)).

%% @doc Gives the TCP port that this node listens on.
-spec port() -> inet:port_number().
port() ->
    relay_listener:port().
