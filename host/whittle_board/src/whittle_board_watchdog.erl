%% @hidden Checks the values of the variable WHITTLE_WATCHDOG, which native/init/watchdog.h reads.
-module(whittle_board_watchdog).

-export([is_valid/1]).

%% The limits of native/init/watchdog.h.
-define(LEAST_SECONDS, 2).
-define(MOST_SECONDS, 999).

%% @doc Tells whether a text is `SECONDS' or `SECONDS,START': the seconds from the last sign of
%% health to the reset, and those until the first sign.
-spec is_valid(string()) -> boolean().
is_valid(Text) ->
    Numbers = string:split(Text, ",", all),
    length(Numbers) =< 2 andalso lists:all(fun is_seconds/1, Numbers).

is_seconds(Text) ->
    case re:run(Text, "^[0-9]{1,3}$", [unicode, dollar_endonly, {capture, none}]) of
        match ->
            Seconds = list_to_integer(Text),
            Seconds >= ?LEAST_SECONDS andalso Seconds =< ?MOST_SECONDS;
        nomatch -> false
    end.
