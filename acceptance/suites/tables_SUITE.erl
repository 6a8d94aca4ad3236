%% Tests that unicode_util gives the same answers when its clauses are tables.
-module(tables_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, each_character/1, shaken/1]).

all() -> [each_character, shaken].

each_character(Config) -> ?assertEqual(<<"true ", (stock(Config))/binary>>, built([], Config)).

%% The pass comes before the one that removes functions.
shaken(Config) ->
    Words = ["--shake", "functions", "--missing", "crash", "--remote", "unicode_util",
             "--data", "none"],
    ?assertEqual(<<"true ", (stock(Config))/binary>>, built(Words, Config)).

built(Words, Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "characters"),
    {0, Said} = running:run(running:build(running:fixture("characters"), Out, Words), []),
    Said.

%% The sum on the stock VM, where unicode_util has its clauses
stock(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Bin = filename:join(running:otp_root(), "bin"),
    Source = filename:join(running:fixture("characters"), "src/characters.erl"),
    {0, _} = running:run(filename:join(Bin, "erlc"), ["-o", Dir, Source]),
    {0, <<"false ", Sum/binary>>} =
        running:run(filename:join(Bin, "erl"),
                    ["-noshell", "-pa", Dir, "-eval", "characters:print(), halt()."]),
    Sum.
