%% @doc Takes out the functions that the program cannot reach.
-module(whittle_pass_shake).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> shake.

%% @private
-spec doc() -> string().
doc() -> "only the functions that the program can reach".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
run(System, #{shake := Options}) ->
    case whittle_shake:plan(System, Options) of
        {ok, Plan} -> {ok, whittle_shake:cut(Plan, System)};
        {error, _} = Error -> Error
    end.
