%% @hidden Computes deadlines and the remaining time.
-module(whittle_flow_deadline).

-export([until/1, left/1]).
-export_type([until/0]).

-type until() :: integer() | infinity.
%% In milliseconds of erlang:monotonic_time/1.

%% @doc Computes the time after so many milliseconds.
-spec until(timeout()) -> until().
until(infinity) -> infinity;
until(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% @doc Gives the remaining milliseconds, at least 0.
-spec left(until()) -> timeout().
left(infinity) -> infinity;
left(Until) -> max(0, Until - erlang:monotonic_time(millisecond)).
