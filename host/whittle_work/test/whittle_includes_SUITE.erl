%% Tests the search for files that source includes.
-module(whittle_includes_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([attributes/1, places/1, first_counts/1, again/1, passed_over/1, large/1, linear/1]).

all() -> [attributes, places, first_counts, again, passed_over, large, linear].

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(filename:join(Dir, "a")),
    "" = os:cmd("mkfifo '" ++ filename:join(Dir, "pipe") ++ "'"),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% The preprocessor opens the file that each of these forms names.
attributes(Config) ->
    Pipe = in("pipe", Config),
    true = os:putenv("WHITTLE_INCLUDED", in("", Config)),
    [?assertEqual({Text, {error, {Pipe, eftype}}}, {Text, check([Text], [], #{}, Config)})
     || Text <- ["-include(\"pipe\").", "- include ( \"pi\" \"pe\" ) .", "-'include'(\"pipe\").",
                 "-%x\n%y\n include(%z\n\"pipe\").", "-%\n'include'(\"pipe\").",
                 ["-%", lists:duplicate(10_000, $x), "\ninclude(\"pipe\")."],
                 ["-", lists:duplicate(10_000, $\n), "include(\"pipe\")."],
                 <<"-\1\240\302\240include(\"pipe\").">>, "-include_lib(\"pipe\").",
                 "-include(\"" ++ Pipe ++ "\").", "x(.\n-include(\"\\x{70}ipe\").",
                 "-doc {file, \"pipe\"}.", "-moduledoc({file, \"pipe\"}).",
                 [255, "-include(\"pipe\")."],
                 "-include(\"$WHITTLE_INCLUDED/pipe\")."]],
    true = os:unsetenv("WHITTLE_INCLUDED"),
    [?assertEqual({Text, ok}, {Text, check([Text], [], #{}, Config)})
     || Text <- ["", "x() -> include(\"pipe\").", "-file(\"pipe\", 1).", "-doc \"pipe\".",
                 "-include(\"none\").", "-include(\"a\").", "-include(\"$WHITTLE_NONE/pipe\").",
                 "-include(x, \"pipe\").", "-include(\"pipe\" ", "-include().", "-doc {a, b}."]].

%% Includes lie in the directory of the file that names them, in the given ones, or in an
%% application.
places(Config) ->
    ok = file:write_file(in("a/x.hrl", Config), "-include(\"../pipe\")."),
    Found = {error, {in("a/../pipe", Config), eftype}},
    ?assertEqual(Found, check("-include(\"a/x.hrl\").", [], #{}, Config)),
    ?assertEqual(ok, check("-include(\"x.hrl\").", [], #{}, Config)),
    ?assertEqual(Found, check("-include(\"x.hrl\").", [in("a", Config)], #{}, Config)),
    ?assertEqual(Found, check("-include_lib(\"app/x.hrl\").", [], #{"app" => in("a", Config)},
                              Config)),
    ?assertEqual(ok, check("-include(\"app/x.hrl\").", [], #{"app" => in("a", Config)}, Config)).

%% The compiler never opens the second path.
first_counts(Config) ->
    ok = file:write_file(in("a/pipe", Config), ""),
    File = in("a/source.erl", Config),
    ok = file:write_file(File, "-include(\"pipe\")."),
    ?assertEqual(ok, whittle_includes:check(File, [in("", Config)], #{})),
    ok = file:delete(in("a/pipe", Config)),
    ?assertEqual({error, {in("pipe", Config), eftype}},
                 whittle_includes:check(File, [in("", Config)], #{})).

again(Config) ->
    ?assertEqual(ok, check("-include(\"source.erl\"). -include(\"a/../source.erl\").", [], #{},
                           Config)).

%% The compiler reports other mistakes.
passed_over(Config) ->
    ?assertEqual(ok, whittle_includes:check(in("none", Config), [], #{})),
    ?assertEqual(ok, whittle_includes:check(in("a", Config), [], #{})).

%% The check cannot know which file such a source names.
large(Config) ->
    File = in("source.erl", Config),
    Blanks = lists:duplicate(10_000, $\n),
    Comment = ["%", lists:duplicate(10_000, $x), "\n"],
    ?assertEqual({error, {File, efbig}},
                 check(["-include(\"pipe\").", lists:duplicate(10_000_000, $\s)], [], #{}, Config)),
    [?assertEqual({Text, {error, {File, {long_attribute, 3}}}},
                  {Text, check(["x.\n\n" | Text], [], #{}, Config)})
     || Text <- [["-include(", Blanks, "\"pipe\")."], ["-include_lib", Blanks, "(\"pipe\")."],
                 ["-'include'(\"pi\"", Comment, "\"pe\")."],
                 ["-doc ({", Blanks, "file, \"pipe\"})."],
                 ["-moduledoc ", Comment, "{file, \"pipe\"}."]]],
    %% Many names elsewhere hide no include, and a long documentation names no file.
    made:in_small_vm(fun() ->
                             Names = [["z", integer_to_list(N), ","]
                                      || N <- lists:seq(1, erlang:system_info(atom_limit))],
                             ?assertEqual({error, {in("pipe", Config), eftype}},
                                          check([Names, "\n-include(\"pipe\")."], [], #{}, Config)),
                             %% The attribute itself has too many names for a VM without room.
                             fill(erlang:system_info(atom_limit) * 3 div 4 - 100),
                             Many = ["-doc([", [["y", integer_to_list(N), ","]
                                                || N <- lists:seq(1, 200)], "z])."],
                             ?assertMatch({error, {File, {too_many_atoms, _}}},
                                          check(Many, [], #{}, Config))
                     end),
    [?assertEqual(ok, check(Text, [], #{}, Config))
     || Text <- [["-doc \"", Blanks, "\"."], ["-doc ~\"", Blanks, "\"."],
                 ["-doc #{", Blanks, "}."], ["\ninclude it", Blanks]]].

%% With a search of comments from each hyphen, the first text took 82 seconds for 50,000 pieces, and
%% the time grew with the square of the bytes.
linear(Config) ->
    [begin
         [Less, More] = [work_of(binary:copy(Piece, Count), Config) || Count <- [10_000, 20_000]],
         ?assertMatch({Piece, true}, {Piece, More < 3 * Less})
     end || Piece <- [<<"-%">>, <<"-\n">>, <<"\n">>, <<"- ">>, <<" ">>]].

%% Returns the work of a check.
work_of(Text, Config) ->
    File = made:file(in("source.erl", Config), Text),
    made:work(fun() -> ?assertEqual(ok, whittle_includes:check(File, [], #{})) end).

%% Makes atoms until this VM has so many.
fill(Count) ->
    case erlang:system_info(atom_count) < Count of
        true ->
            _ = list_to_atom("fill" ++ integer_to_list(erlang:unique_integer([positive]))),
            fill(Count);
        false -> ok
    end.

check(Text, Dirs, Apps, Config) ->
    File = in("source.erl", Config),
    ok = file:write_file(File, Text),
    whittle_includes:check(File, Dirs, Apps).

in("", Config) -> proplists:get_value(dir, Config);
in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
