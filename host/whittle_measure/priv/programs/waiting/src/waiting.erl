%% @doc Prints one line and waits forever: the smallest program whose idle memory a study can
%% measure.
-module(waiting).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Prints the line and starts the process that waits.
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_Type, _Args) ->
    io:put_chars("waiting\n"),
    {ok, spawn_link(fun wait/0)}.

%% @doc Nothing is left to stop.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

wait() ->
    receive after infinity -> ok end.
