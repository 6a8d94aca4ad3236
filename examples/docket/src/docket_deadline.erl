%% @doc Keeps the moment at which the server gives a request up.
%% @hidden
-module(docket_deadline).

-export([new/0, left/1]).

-export_type([deadline/0]).

-type deadline() :: integer().          % of the monotonic clock, in milliseconds

%% @doc Makes the deadline of a request that begins now, with the setting `deadline'.
-spec new() -> deadline().
new() -> now_ms() + docket_config:get(deadline).

%% @doc Returns the milliseconds that are left, 0 after the deadline.
-spec left(deadline()) -> non_neg_integer().
left(Deadline) -> max(0, Deadline - now_ms()).

now_ms() -> erlang:monotonic_time(millisecond).
