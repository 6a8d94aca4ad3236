%% @doc The smallest application that does something: it prints one line and
%% stops the node.
-module(hello).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Prints the line; `init:stop/0' ends the node in order once it is up, so
%% that the exit code is 0 and nothing printed is lost.
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_Type, _Args) ->
    io:put_chars("Hello from one file.\n"),
    init:stop(),
    {ok, spawn_link(fun wait/0)}.

%% @doc Nothing is left to stop.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

%% An application lives as long as the process that it started.
wait() ->
    receive after infinity -> ok end.
