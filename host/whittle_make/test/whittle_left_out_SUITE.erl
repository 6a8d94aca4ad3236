%% @doc Two applications that may not call each other agree on which parts of OTP are not built.
-module(whittle_left_out_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([recipe_agrees/1]).

all() -> [recipe_agrees].

%% odbc is left out too, but its Erlang part is installed all the same.
recipe_agrees(_) ->
    [Script] = [Lines || #{name := "configure", script := Lines}
                             <- whittle_recipe_otp:recipe(#{kind => tarball})],
    {match, Found} = re:run(lists:join($\n, Script), "--without-(\\w+)",
                            [global, {capture, all_but_first, list}]),
    Names = [list_to_atom(Name) || [Name] <- Found, Name =/= "javac"],
    ?assertEqual([odbc], [Name || Name <- Names, not whittle_otp:is_left_out(Name)]),
    ?assertEqual([], [Name || Name <- Names, not whittle_otp:is_otp(Name)]),
    ?assertNot(whittle_otp:is_left_out(inets)),
    ?assertEqual([], [Name || Name <- [debugger, dialyzer, diameter, et, jinterface, megaco,
                                       observer, reltool, snmp, wx] -- Names]).
