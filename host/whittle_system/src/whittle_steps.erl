%% @hidden Steps one after the other, until one fails; for the rooms above this one too.
%% OTP 25 has no `maybe' that one may use.
-module(whittle_steps).

-export([steps/1]).

%% @doc Each step gets what the one before it gave (`none', where that was a bare `ok').
%% What the last one gives comes back, or the first error.
-spec steps([fun((term()) -> ok | {ok, term()} | {error, Error})]) ->
          ok | {ok, term()} | {error, Error}.
steps(Steps) ->
    lists:foldl(fun(Step, {ok, Value}) -> Step(Value);
                   (Step, ok) -> Step(none);
                   (_, {error, _} = Error) -> Error
                end, ok, Steps).
