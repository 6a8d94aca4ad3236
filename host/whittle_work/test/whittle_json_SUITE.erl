%% Checks that another program reads the same values from the encoded text.
-module(whittle_json_SUITE).

-export([all/0]).
-export([values/1, read_by_python/1, not_text/1, long_numbers/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

all() -> [values, read_by_python, not_text, long_numbers].

values(_) ->
    [?assertEqual(Text, iolist_to_binary(whittle_json:encode(Value)))
     || {Text, Value} <- [{<<"{}">>, #{}}, {<<"[]">>, []},
                          {<<"{\"a\":[1,-2,0.5],\"b\":null}">>,
                           #{<<"b">> => null, a => [1, -2, 0.5]}},
                          {<<"[true,false,\"other\",\"\"]">>, [true, false, other, <<>>]},
                          {<<"\"\\\"\\\\\\n\\r\\t\\u0000\\u001f\"">>, <<"\"\\\n\r\t", 0, 31>>}]],
    ok.

read_by_python(Config) ->
    Chars = [C || C <- lists:seq(0, 16#2ff)] ++ [16#ffff, 16#10ffff],
    Dir = ?config(priv_dir, Config),
    ok = file:write_file(filename:join(Dir, "a.json"),
                         whittle_json:encode(unicode:characters_to_binary(Chars))),
    Program = "import json; print([ord(c) for c in json.load(open('a.json', encoding='utf-8'))])",
    Printed = os:cmd("cd '" ++ Dir ++ "' && python3 -c \"" ++ Program ++ "\""),
    ?assertEqual(lists:flatten(io_lib:format("~w", [Chars])),
                 [C || C <- Printed, C =/= $\s, C =/= $\n]).

not_text(_) ->
    ?assertError(badarg, whittle_json:encode(<<255>>)).

long_numbers(_) ->
    Digits = fun(Count) -> binary:copy(<<"9">>, Count) end,
    [?assertMatch({Text, {ok, _}}, {Text, whittle_json:decode(Text)})
     || Text <- [<<"{\"a\":12}">>, Digits(20_000),
                 <<"[", (Digits(20_000))/binary, ",", (Digits(20_000))/binary, "]">>]],
    [?assertEqual(error, whittle_json:decode(Text))
     || Text <- [Digits(20_001), <<"[1.", (Digits(3_000_000))/binary, "]">>, <<"[">>]].
