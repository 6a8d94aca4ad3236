%% @doc Writes OTP's reports to stderr, as the default handler of `logger'. When stderr cannot be
%% written, as after the end of a terminal, OTP's own handlers print a line to stdout.
%% @hidden
-module(whittle_report).

-export([log/2]).

%% @doc Writes an event, or drops it if stderr cannot be written.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(Event, #{formatter := {Module, Config}}) ->
    try io:put_chars(standard_error, Module:format(Event, Config))
    catch _:_ -> ok
    end.
