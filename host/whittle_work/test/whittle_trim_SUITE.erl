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

%% Blanks within a text cost no more than others.
linear(_) ->
    Blanks = binary:copy(<<" ">>, 5_000_000),
    Text = <<"a", Blanks/binary, "b">>,
    ?assertEqual(Text, whittle_trim:blanks(<<Blanks/binary, Text/binary, Blanks/binary>>)).
