%% Tests the form of numbers for people.
-module(whittle_number_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([thousands/1, no_digit_is_lost/1]).

all() -> [thousands, no_digit_is_lost].

thousands(_) ->
    [?assertEqual(Text, lists:flatten(whittle_number:text(N)))
     || {N, Text} <- [{0, "0"}, {7, "7"}, {999, "999"}, {1000, "1,000"}, {1001, "1,001"},
                      {-1, "-1"}, {-1000, "-1,000"}, {1_000_000, "1,000,000"},
                      {1_234_567, "1,234,567"}, {-12_034_005, "-12,034,005"}]].

no_digit_is_lost(_) ->
    made:holds(1000, proper_types:largeint(),
               fun(N) ->
                       Text = lists:flatten(whittle_number:text(N)),
                       list_to_integer(lists:append(string:split(Text, ",", all))) =:= N
                           andalso re:run(Text, "^-?\\d{1,3}(,\\d{3})*$", [{capture, none}])
                           =:= match
               end).
