%% Tests the parser of terms in text form against OTP's own.
-module(whittle_term_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([terms/1, new_strings/1, older_strings/1, written_terms/1, keywords/1, all_tokens/1]).
-export([too_many_names/1, long_numbers/1, large_binaries/1, encodings/1]).

all() -> [terms, new_strings, older_strings, written_terms, keywords, all_tokens, too_many_names,
          long_numbers, large_binaries, encodings].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% The parser returns the same terms as file:consult/1, and a message for an invalid text.
terms(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "terms"),
    Same = fun(Bytes) ->
                   ok = file:write_file(File, Bytes),
                   case {file:consult(File), whittle_term:parse(Bytes)} of
                       {{ok, Terms}, {ok, Terms}} -> true;
                       {{error, _}, {error, Words}} ->
                           is_binary(unicode:characters_to_binary(Words));
                       _ -> false
                   end
           end,
    [?assert(Same(Bytes))
     || Bytes <- [<<>>, <<" % only a comment">>, <<"a. b.\n">>, <<"a">>, <<"{a, ">>, <<"$">>,
                  <<"\"open">>, <<"a.b.">>, <<"%% coding: latin-1\n\"\344\".\n">>,
                  <<"\"ä\".\n"/utf8>>]],
    made:holds(500, proper_types:list(proper_types:elements("a1. \n{}[]\"',%$#")),
               fun(Text) -> Same(list_to_binary(Text)) end).

%% The strings of OTP 27. OTP 29 gives the same results.
new_strings(_) ->
    [?assertEqual({Text, {ok, Terms}}, {Text, whittle_term:parse(Text)})
     || {Text, Terms} <-
            [{<<"~\"a\\nb\".">>, [<<"a\nb">>]},
             {<<"[~b\"a\", {~B[b\\]}].">>, [[<<"a">>, {<<"b\\">>}]]},
             {<<"[~s(a\"), ~S\"b\\\"].">>, [["a\"", "b\\"]]}, {<<"~\"\".">>, [<<>>]},
             {<<"~'a\\'b'.">>, [<<"a'b">>]}, {<<"~\"\303\244\".">>, [<<"\303\244">>]},
             {<<"{$\", $\\\", $~, 'a~\"b', \"~\"}. % ~\"\n">>, [{$", $", $~, 'a~"b', "~"}]},
             {<<"\"\"\"\n  He said \"x\\n\n   y\n  \"\"\".">>, ["He said \"x\\n\n y"]},
             {<<"[\"\"\" \n\"\"\", a].">>, [["", a]]},
             {<<"~\"\"\"\n a\\b\n \"\"\".">>, [<<"a\\b">>]},
             {<<"\"\"\"\"\na\"\"\"b\n\"\"\"\".">>, ["a\"\"\"b"]},
             {<<"~B\"\"\"\n  a\n\n  b\n  \"\"\".">>, [<<"a\n\nb">>]},
             {<<"[~b\"\"\"\n a\\tb\"\n \"\"\", ~s\"\"\"\nc\\\"\n\"\"\"].">>,
              [[<<"a\tb\"">>, "c\""]]}]],
    [?assertMatch({Text, {error, _}}, {Text, whittle_term:parse(Text)})
     || Text <- [<<"~.">>, <<"[~a].">>, <<"~x\"a\".">>, <<"~\"a">>, <<"\"\"\"\na\"\"\"">>]],
    %% An error has the line of the text.
    ?assertMatch({error, "line 5: " ++ _}, refused(<<"[\"\"\"\n a\n b\n \"\"\",\n}].">>)).

%% Any other text stays as it is.
older_strings(_) ->
    Letters = proper_types:list(proper_types:elements("ab~\"\"'$\\^%\n [](){}")),
    made:holds(2000, Letters,
               fun(Text) ->
                       Rewritten = whittle_syntax:older(Text),
                       Rewritten =:= Text orelse lists:member($~, Text)
                           orelse string:find(Text, "\"\"\"") =/= nomatch
               end),
    %% Each of these starts would otherwise search the rest of the text: half an hour.
    [?assertEqual(Endless, whittle_syntax:older(Endless))
     || Start <- ["~( ", "~S[ ", "\"\"\"\n\"x\" ", "~B\"\"\"\n\"x\" "],
        Endless <- [lists:append(lists:duplicate(200_000, Start))]].

%% OTP 27 has keywords that are atoms for OTP 25.
written_terms(_) ->
    ?assertEqual(<<"%% coding: utf-8\n{'maybe',#{'else' => \"maybe\"},maybe_not}.\n">>,
                 whittle_term:to_text({'maybe', #{'else' => "maybe"}, maybe_not})),
    made:holds(500, proper_types:any(),
               fun(Term) ->
                       {ok, [Term]} =:= whittle_term:parse(whittle_term:to_text(Term))
               end).

keywords(_) ->
    ?assertEqual(["else", "maybe"],
                 whittle_term:new_keywords(<<"[{a, maybe}, else, 'maybe', \"else\", maybe_a].">>)).

all_tokens(_) ->
    {ok, Tokens} = whittle_term:all_tokens(<<"{a, % b\n\"c\"}">>),
    ?assertEqual("{a, % b\n\"c\"}", lists:append([erl_scan:text(Token) || Token <- Tokens])),
    [?assertEqual(error, whittle_term:all_tokens(Text))
     || Text <- [<<"\"a">>, binary:copy(<<"9">>, 20_001)]].

%% Reading a number of three million digits takes minutes.
long_numbers(_) ->
    Digits = fun(Count) -> binary:copy(<<"9">>, Count) end,
    Long = Digits(3_000_000),
    [?assertMatch({error, "it has more than 20000 letters and digits in a row" ++ _},
                  refused(Bytes))
     || Bytes <- [<<"{a, ", Long/binary, "}.">>, <<"16#", Long/binary, ".">>,
                  <<"1.", Long/binary, ".">>, <<"a.\n-", Long/binary>>]],
    {ok, [Number]} = whittle_term:parse(<<(Digits(20_000))/binary, ".">>),
    ?assertEqual(Digits(20_000), integer_to_binary(Number)),
    %% The names around such a number stay.
    ?assertMatch([{'{', _}, {atom, _, a}, {',', _}, {integer, _, 0}, {',', _}, {atom, _, b},
                  {'}', _}, {dot, _}],
                 whittle_term:tokens(<<"{a, ", Long/binary, ", b}.\n">>)),
    ?assert(whittle_term:begins(<<"{a, ", Long/binary, ", b}.\n">>, 4_000_000)).

%% The text of such a binary is short.
large_binaries(_) ->
    [begin
         ?assertEqual({Segment, {error, "line 1: the binaries of the term may have at most "
                                        "10,000,000 bytes: make them smaller"}},
                      {Segment, refused(<<"{a, [<<", Segment/binary, ">>]}.\n">>)}),
         ?assert(whittle_term:begins(<<"<<", Segment/binary, ">>.\n">>, 1000))
     end || Segment <- [<<"0:99999999999">>, <<"0:(+99999999999)">>, <<"0:400000/unit:256">>,
                        <<"0:(400000)/integer-unit:256-big">>,
                        <<"1, 0:400000/unit:1-unit:256">>,
                        <<"\"aaa\" \"bbb\":20000000">>, <<"0:50000000, 1, 0:50000000">>,
                        <<"0:99999999999/binary">>]],
    ?assertEqual({ok, [<<1:8000, "ab":16/unit:2>>]},
                 whittle_term:parse(<<"<<1:8000, \"ab\":16/unit:2>>.">>)),
    %% Each segment has a unit of its own.
    ?assertEqual({ok, [{unit, <<1:400000, 2:8/unit:256>>, <<3:400000>>}]},
                 whittle_term:parse(<<"{unit, <<1:400000/unit:1, 2:8/unit:256>>, "
                                      "<<3:400000>>}.">>)).

refused(Bytes) ->
    case whittle_term:parse(Bytes) of
        {error, Words} -> {error, lists:flatten(Words)};
        {ok, _} -> ok
    end.

%% The parser refuses a text with more names than this VM has room for, before any name becomes an
%% atom.
too_many_names(_) -> made:in_small_vm(fun too_many_names/0).

too_many_names() ->
    Name = fun(N) -> [$z | string:pad(integer_to_list(N, 36), 4, leading, $0)] end,
    Room = erlang:system_info(atom_limit) * 3 div 4,
    Text = fun(From, To) ->
                   iolist_to_binary([$[, lists:join($,, [Name(N) || N <- lists:seq(From, To)]),
                                     "]."])
           end,
    Quoted = fun(First, Names) ->
                     iolist_to_binary([$[, First, $', lists:join("','", Names), "']."])
             end,
    Before = erlang:system_info(atom_count),
    [begin
         {error, Words} = whittle_term:parse(Bytes),
         error = whittle_term:all_tokens(Bytes),
         ?assertMatch({match, _}, re:run(Words, "^it has more different names than Whittle "))
     end || Bytes <- [Text(1, Room),
                      Quoted("", [[$!, Name(N), $!] || N <- lists:seq(1, Room)]),
                      %% The text has an open quote in a string, and names of bytes that are not
                      %% letters.
                      Quoted("\"'\",", [<<N:24>> || N <- lists:seq(1, Room),
                                                    binary:match(<<N:24>>, [<<$'>>, <<$\\>>])
                                                        =:= nomatch])]],
    ?assert(erlang:system_info(atom_count) - Before < Room div 8),
    %% Repeated names count once.
    Often = iolist_to_binary([$[, lists:duplicate(Room, "zz,"), "zz]."]),
    ?assertMatch({ok, [[zz | _]]}, whittle_term:parse(Often)),
    ?assertMatch({ok, [[_ | _]]}, whittle_term:parse(Text(1, 1000))).

%% A text that is not valid UTF-8 counts as Latin-1, as for OTP's own parser of old files.
encodings(_) ->
    ?assertEqual([16#E4], whittle_term:text(<<"ä"/utf8>>)),
    ?assertEqual([16#E4], whittle_term:text(<<16#E4>>)),
    ?assertEqual("%% coding: latin-1\n" ++ [16#C3, 16#A4],
                 whittle_term:text(<<"%% coding: latin-1\n", 16#C3, 16#A4>>)).
