%% Tests which texts can be names and paths of files in an output.
-module(whittle_file_name_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([names/1, paths/1, printable/1, each_error_is_one_line/1]).

all() -> [names, paths, printable, each_error_is_one_line].

-define(ODD, [<<>>, <<".">>, <<"..">>, <<"a\nb">>, <<"a", 0>>, <<127>>, <<255>>,
              <<"a", 16#AD/utf8>>, <<16#202E/utf8, "gnp">>, <<16#2028/utf8>>, <<16#85/utf8>>,
              <<16#E0041/utf8>>]).

names(_) ->
    [?assertEqual({Name, ok}, {Name, whittle_file_name:check(Name)})
     || Name <- [a, "a", <<"a">>, 'with space', "a-1.2+3", <<"ä€𝄞"/utf8>>, [16#E4, 16#20AC],
                 binary:copy(<<"x">>, 255), binary:copy(<<"ä"/utf8>>, 127)]],
    [?assertMatch({Name, {error, [_ | _]}}, {Name, whittle_file_name:check(Name)})
     || Name <- ['', "", "-a", ".a", "a/b", "/", [16#D800], binary:copy(<<"x">>, 256),
                 binary:copy(<<"ä"/utf8>>, 128) | ?ODD]].

paths(_) ->
    [?assertEqual({Path, ok}, {Path, whittle_file_name:check_path(Path)})
     || Path <- [<<"a">>, <<"a/b/c">>, <<".a/-b">>, <<"a/...">>, <<"ä/b"/utf8>>]],
    [?assertMatch({Path, {error, [_ | _]}}, {Path, whittle_file_name:check_path(Path)})
     || Odd <- ?ODD, Path <- [Odd, <<"a/", Odd/binary>>, <<Odd/binary, "/a">>,
                              <<"a/", Odd/binary, "/b">>]],
    %% Each name is short enough, but the path is not.
    Long = iolist_to_binary(lists:join("/", lists:duplicate(16#8000, "a"))),
    ?assertMatch({error, [_ | _]}, whittle_file_name:check_path(<<Long/binary, "/a">>)).

%% Escapes replace exactly the characters that a name must not contain.
printable(_) ->
    Shown = fun(Text) -> unicode:characters_to_list(whittle_file_name:printable(Text)) end,
    ?assertEqual("a\\x{A}b", Shown("a\nb")),
    ?assertEqual([16#E4, 16#20AC | " 'x'"], Shown(<<"ä€ 'x'"/utf8>>)),
    ?assertEqual("\\x{202E}gnp", Shown([[16#202E], <<"gnp">>])),
    ?assertEqual("a\\x{FF}b\\x{A}\\x{E2}", Shown([<<"a", 255>>, "b\n", <<16#E2>>])),
    ?assertEqual("[\"no \",arm]", Shown(["no ", arm])),
    ?assertEqual("{a,\"\\n\"}", Shown({a, "\n"})),
    Lines = fun(Text) -> unicode:characters_to_list(whittle_file_name:printable_lines(Text)) end,
    ?assertEqual("a\\x{1B}\n\nb\n", Lines([<<"a\e">>, "\n\nb", $\n])),
    ?assertEqual("a\n\\x{FF}\nb", Lines([<<"a\n", 255>>, "\nb"])),
    made:holds(1000, proper_types:list(proper_types:integer(0, 16#D7FF)),
               fun(Text) ->
                       Name = [Char || Char <- [$a | lists:sublist(Shown(Text), 60)],
                                       Char =/= $/],
                       whittle_file_name:check(Name) =:= ok
               end).

each_error_is_one_line(_) ->
    [begin
         {error, Why} = whittle_file_name:check(Name),
         ?assertEqual({nomatch, Why}, {re:run(Why, "[\n.]$"), Why})
     end || Name <- ["", "-a", ".a", "a/b", <<255>>, "a\nb", [$a, 16#AD]]].
