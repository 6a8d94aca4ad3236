%% Tests the removal of white space.
-module(whittle_trim_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([blanks/1, linear/1]).

all() -> [blanks, linear].

blanks(_) ->
    [?assertEqual({Text, Trimmed}, {Text, whittle_trim:blanks(Text)})
     || {Text, Trimmed} <- [{<<>>, <<>>}, {<<" ">>, <<>>}, {<<"a">>, <<"a">>},
                            {<<"\r\n\t a b \t\r\n">>, <<"a b">>}, {<<" a\n\nb ">>, <<"a\n\nb">>},
                            {<<" \377 ">>, <<"\377">>}, {<<"\v a\f">>, <<"\v a\f">>}]].

%% Twice as many blanks within a text take twice as much work.
linear(_) ->
    Trim = fun(Count) ->
                   Blanks = binary:copy(<<" ">>, Count),
                   Text = <<"a", Blanks/binary, "b">>,
                   made:work(fun() -> ?assertEqual(Text, whittle_trim:blanks(
                                                           <<Blanks/binary, Text/binary,
                                                             Blanks/binary>>))
                             end)
           end,
    [Less, More] = [Trim(Count) || Count <- [10_000, 20_000]],
    ?assert(More < 3 * Less).
