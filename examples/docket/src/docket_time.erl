%% @doc Writes times.
%% @hidden
-module(docket_time).

-export([now/0, is_time/1, text/1]).

-define(YEAR_10000, 253402300800000).   % RFC 3339 has no later years

%% @doc Returns milliseconds since 1970.
-spec now() -> integer().
now() -> erlang:system_time(millisecond).

%% @doc Tells whether a term is a time that text/1 can write.
-spec is_time(term()) -> boolean().
is_time(Milliseconds) ->
    is_integer(Milliseconds) andalso Milliseconds >= 0 andalso Milliseconds < ?YEAR_10000.

%% @doc Writes milliseconds since 1970 as RFC 3339 does, in UTC.
-spec text(integer()) -> binary().
text(Milliseconds) ->
    list_to_binary(calendar:system_time_to_rfc3339(Milliseconds,
                                                   [{unit, millisecond}, {offset, "Z"}])).
