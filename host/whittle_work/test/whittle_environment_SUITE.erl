%% Tests that the user's variables for Erlang reach the user's programs, and no other programs.
-module(whittle_environment_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([renamed/1, plain/1, withheld/1]).

all() -> [renamed, plain, withheld].

-define(NAMES, ["WHITTLE_USER_ERL_FLAGS", "WHITTLE_USER_ERL_LIBS", "ERL_FLAGS", "ERL_LIBS",
                "ERL_OTP27_FLAGS", "ERL_ZFLAGS", "ERL_CRASH_DUMP", "RELEASE_NODE", "VMARGS_PATH"]).

init_per_testcase(_, Config) ->
    Before = [{Name, os:getenv(Name)} || Name <- ?NAMES],
    [os:unsetenv(Name) || Name <- ?NAMES],
    [{before, Before} | Config].

end_per_testcase(_, Config) ->
    [case Value of
         false -> os:unsetenv(Name);
         _ -> os:putenv(Name, Value)
     end || {Name, Value} <- proplists:get_value(before, Config)].

%% As in a VM that the script `whittle' started.
renamed(_) ->
    Flags = "-a 'b=c'\n\"\\ü",
    true = os:putenv("WHITTLE_USER_ERL_FLAGS", Flags),
    true = os:putenv("WHITTLE_USER_ERL_LIBS", ""),
    ?assertEqual([Flags, "", none],
                 [whittle_environment:value(Name, none)
                  || Name <- ["ERL_FLAGS", "ERL_LIBS", "ERL_NEVER"]]),
    ?assertEqual({0, shown([none, none])}, run(#{})),
    %% A port unsets a variable that is empty.
    ?assertEqual({0, shown([Flags, none])}, run(#{of_user => true})),
    ?assertEqual({0, shown(["own", none])}, run(#{of_user => true, env => [{"ERL_FLAGS", "own"}]})),
    %% The program could be Whittle again.
    {0, Names} = whittle_program:run("/usr/bin/env", [], #{of_user => true}),
    ?assertEqual(nomatch, binary:match(Names, <<"WHITTLE_USER_">>)),
    {ok, Started} = whittle_program:start("/bin/sh", ["-c", "test \"$ERL_FLAGS\" = \"$1\"", "sh",
                                                      Flags], #{of_user => true}),
    ?assertEqual({ended, 0}, whittle_program:next(Started, infinity)).

%% Without the script, all programs inherit the variables.
plain(_) ->
    true = os:putenv("ERL_FLAGS", "plain"),
    ?assertEqual("plain", whittle_environment:value("ERL_FLAGS", none)),
    ?assertEqual({0, shown(["plain", none])}, run(#{of_user => true})).

%% A VM of Whittle's own inherits no variable that changes it, and all others.
withheld(_) ->
    [true = os:putenv(Name, "of the user") || Name <- ?NAMES],
    {0, Seen} = whittle_program:run("/usr/bin/env", [],
                                    #{env => whittle_environment:withheld([{"ERL_ZFLAGS",
                                                                            "own"}])}),
    Lines = binary:split(Seen, <<"\n">>, [global]),
    ?assertEqual([<<"ERL_CRASH_DUMP=of the user">>, <<"ERL_ZFLAGS=own">>],
                 lists:sort([Line || Line <- Lines, Name <- ?NAMES,
                                     string:prefix(Line, Name ++ "=") =/= nomatch])),
    ?assert(lists:any(fun(Line) -> string:prefix(Line, "PATH=") =/= nomatch end, Lines)).

run(Settings) ->
    whittle_program:run("/bin/sh", ["-c", "printf '%s|%s' \"${ERL_FLAGS-none}\" "
                                          "\"${ERL_LIBS-none}\""], Settings).

shown(Values) ->
    unicode:characters_to_binary(lists:join($|, [case Value of none -> "none"; _ -> Value end
                                                 || Value <- Values])).
