%% @doc Requests and sets a GPIO line that the configuration describes.
-module(blinky_pin).

-export([request/2, set/2]).
-export_type([pin/0]).

-type pin() :: {whittle_gpio:chip(), whittle_gpio:line()}
             | {whittle_gpio:chip(), whittle_gpio:line(), whittle_gpio:line_options()}.

%% A line of an owner that was killed is free once its request has seen that.
-define(AGAIN, 20).
-define(ATTEMPTS, 100).

%% @doc Requests the line; the options are those that the configuration does not name.
-spec request(pin() | none, whittle_gpio:line_options()) ->
          {ok, whittle_gpio:request() | none} | {error, term()}.
request(none, _) -> {ok, none};
request({Chip, Line}, Options) -> request({Chip, Line, #{}}, Options);
request({Chip, Line, Named}, Options) ->
    request(Chip, [{Line, maps:merge(Options, Named)}], ?ATTEMPTS).

request(Chip, Lines, Attempts) ->
    case whittle_gpio:request(Chip, Lines, #{consumer => "blinky"}) of
        {error, ebusy} when Attempts > 1 ->
            receive after ?AGAIN -> request(Chip, Lines, Attempts - 1) end;
        Result -> Result
    end.

%% @doc Sets the one line of a request.
-spec set(whittle_gpio:request(), 0 | 1) -> ok | {error, term()}.
set(Request, Level) -> whittle_gpio:set_bits(Request, Level, 1).
