%% @hidden Stores the literals of each module without compression. The pack compresses all modules
%% together, and it cannot compress data that is deflated already. This pass makes the system
%% larger and the output smaller.
%%
%% OTP 28 and newer read plain literals. Older releases get the literals in a zlib stream without
%% compression.
-module(whittle_pass_literals).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> literals.

%% @private
-spec doc() -> string().
doc() -> "literals inflated, so that the pack compresses them better".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system()} | {error, whittle_pass:reason()}.
run(System, _) ->
    Otp = list_to_integer(whittle_system:otp(System)),
    case whittle_modules:rewrite(#{keep => all, literals => {plain, Otp}}, System) of
        {ok, Inflated} -> {ok, Inflated};
        {error, Error} -> {error, {system, Error}}
    end.
