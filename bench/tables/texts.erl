%% Measures string and unicode functions with texts of several scripts (bench/tables/compare).
-module(texts).

-export([main/1]).

-define(RUNS, 15).

%% Writes the shortest time of each function and text, in microseconds.
-spec main([file:filename()]) -> ok.
main([File]) ->
    Times = [{{Text, Name}, shortest(fun() -> Function(Characters) end)}
             || {Text, Part} <- texts(), Characters <- [lists:append(lists:duplicate(40, Part))],
                {Name, Function} <- functions()],
    ok = file:write_file(File, io_lib:format("~p.~n", [Times])).

shortest(Run) ->
    _ = Run(),
    lists:min([element(1, timer:tc(Run)) || _ <- lists:seq(1, ?RUNS)]).

functions() ->
    [{uppercase, fun string:uppercase/1}, {lowercase, fun string:lowercase/1},
     {casefold, fun string:casefold/1}, {length, fun string:length/1},
     {nfc, fun unicode:characters_to_nfc_list/1}, {nfd, fun unicode:characters_to_nfd_list/1},
     {nfkd, fun unicode:characters_to_nfkd_list/1},
     {category, fun(Characters) -> [unicode_util:category(C) || C <- Characters] end}].

texts() ->
    [{ascii, "The quick brown fox jumps over the lazy dog, 1234567890 times. "},
     {latin, [70, 228, 104, 114, 101, 32, 252, 98, 101, 114, 32, 223, 32, 233, 224, 231, 241, 32,
              353, 269, 345, 382, 253, 32, 65, 110, 32, 367, 324, 322, 32]},
     {latin_with_marks, [$a, 16#301, $e, 16#300, $o, 16#308, 32, $u, 16#328, $s, 16#30c, 32]},
     {vietnamese, [7879, 116, 32, 7889, 110, 103, 32, 273, 432, 7901, 110, 103, 32, 7877, 32]},
     {greek, lists:seq(16#3b1, 16#3c9) ++ " "},
     {cyrillic, lists:seq(16#410, 16#44f) ++ " "},
     {hindi, [16#939, 16#93f, 16#928, 16#94d, 16#926, 16#940, 32, 16#915, 16#93c, 16#947, 32]},
     {chinese, lists:seq(16#4e00, 16#4e30)},
     {korean, lists:seq(16#ac00, 16#ac40)}].
