%% Tests the parser of terms in text form against OTP's own.
-module(whittle_term_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([terms/1, too_many_names/1, encodings/1]).

all() -> [terms, too_many_names, encodings].

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
