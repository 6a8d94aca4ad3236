%% @doc Writes times.
%% @hidden
-module(docket_time).

-export([now/0, text/1]).

%% @doc Returns milliseconds since 1970.
-spec now() -> integer().
now() -> erlang:system_time(millisecond).

%% @doc Writes milliseconds since 1970 as RFC 3339 does, in UTC.
-spec text(integer()) -> binary().
text(Milliseconds) ->
    list_to_binary(calendar:system_time_to_rfc3339(Milliseconds,
                                                   [{unit, millisecond}, {offset, "Z"}])).
