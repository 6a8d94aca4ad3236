%% @hidden Starts and cancels the timers of a serial line. Some of them never end.
-module(whittle_serial_timer).

-export([start/2, cancel/1]).
-export_type([timer/0]).

-type timer() :: reference() | none.

%% @doc Starts a timer that sends `{timeout, Timer, Message}' to the calling process after Time
%% milliseconds. For `infinity' it starts none.
-spec start(timeout(), term()) -> timer().
start(infinity, _) -> none;
start(Time, Message) -> erlang:start_timer(Time, self(), Message).

%% @doc Cancels a timer. Its message may be on its way already. The receiver knows it by its
%% reference and ignores it.
-spec cancel(timer()) -> ok.
cancel(none) -> ok;
cancel(Timer) ->
    _ = erlang:cancel_timer(Timer),
    ok.
