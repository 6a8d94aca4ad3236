%% Tests the reading of files of unknown origin: kinds of files, sizes, limits.
-module(whittle_file_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([sizes/1, kinds/1, replaced/1, of_the_kernel/1, same/1, in_directory/1, errors/1,
         patterns/1,
         link_net/1]).

all() -> [sizes, kinds, replaced, of_the_kernel, same, in_directory, errors, patterns,
          link_net].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% The limit itself is allowed. The pieces of a read have 64 KB.
sizes(Config) ->
    [begin
         Bytes = binary:copy(<<"x">>, Size),
         File = made:file(in("file", Config), Bytes),
         ?assertEqual({ok, Bytes}, whittle_file:whole(File, Size)),
         ?assertEqual({ok, Bytes}, whittle_file:text(File)),
         ?assertEqual({ok, binary:part(Bytes, 0, min(4, Size))}, whittle_file:first(File, 4)),
         Size =:= 0 orelse ?assertEqual({error, efbig}, whittle_file:whole(File, Size - 1))
     end || Size <- [0, 1, 4, 65535, 65536, 65537, 200_000]],
    Large = made:file(in("large", Config), binary:copy(<<"x">>, 4 * 1024 * 1024 + 1)),
    ?assertEqual({error, efbig}, whittle_file:text(Large)).

%% A write that fails leaves the older file, and no part of the new one.
replaced(Config) ->
    File = in("new", Config),
    Names = fun() -> {ok, Found} = file:list_dir(filename:dirname(File)), lists:sort(Found) end,
    Before = Names(),
    [begin
         ?assertEqual(ok, whittle_file:replace(File, [Bytes])),
         ?assertEqual({ok, Bytes}, file:read_file(File))
     end || Bytes <- [<<"one">>, <<"two">>]],
    ok = file:make_symlink("/dev/full", lists:concat([File, ".", os:getpid(), ".part"])),
    ?assertEqual({error, enospc}, whittle_file:replace(File, <<"three">>)),
    ?assertEqual({ok, <<"two">>}, file:read_file(File)),
    ?assertEqual(["new"], Names() -- Before).

%% A read of a pipe would wait.
kinds(Config) ->
    Pipe = in("pipe", Config),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    File = made:file(in("file", Config), "x"),
    [ok = file:make_symlink(To, in(Name, Config))
     || {To, Name} <- [{"file", "link"}, {"nowhere", "broken"}, {"pipe", "to_pipe"}]],
    [begin
         ?assertEqual(Expected, whittle_file:check(Path)),
         ?assertEqual(Expected, result(whittle_file:first(Path, 1))),
         ?assertEqual(Expected, result(whittle_file:whole(Path, 10))),
         ?assertEqual(Expected, result(whittle_digest:file(Path)))
     end || {Path, Expected} <- [{File, ok}, {in("link", Config), ok},
                                 {in("", Config), {error, eisdir}},
                                 {Pipe, {error, eftype}}, {in("to_pipe", Config), {error, eftype}},
                                 {"/dev/zero", {error, eftype}},
                                 {in("broken", Config), {error, enoent}},
                                 {in("file/below", Config), {error, enotdir}}]].

result({ok, _}) -> ok;
result(Error) -> Error.

%% These files claim a size of 0. A real empty file is readable.
of_the_kernel(Config) ->
    [?assertEqual({error, eftype}, whittle_file:whole(File, 1 bsl 20))
     || File <- ["/proc/self/status", "/proc/self/mountinfo"]],
    ?assertEqual(ok, whittle_file:check(made:file(in("empty", Config), ""))).

same(Config) ->
    One = made:file(in("one", Config), "x"),
    Other = made:file(in("other", Config), "x"),
    [Link, Hard] = [in(Name, Config) || Name <- ["link", "hard"]],
    ok = file:make_symlink("one", Link),
    ok = file:make_link(One, Hard),
    ?assertEqual([true, true, true, false, false, false],
                 [whittle_file:is_same(One, Path)
                  || Path <- [One, Link, Hard, Other, in("", Config), in("nowhere", Config)]]),
    ?assertNot(whittle_file:is_same(in("", Config), in("", Config))).

%% The directory may be the target of a link, or of a link above the file. The file need not exist.
in_directory(Config) ->
    Dir = in("dir", Config),
    _ = made:file(filename:join([Dir, "sub", "file"]), "x"),
    ok = file:make_symlink("dir", in("link", Config)),
    ok = file:make_symlink("dir/sub", in("inner", Config)),
    [?assertEqual({File, To, Expected},
                  {File, To, whittle_file:is_in(in(File, Config), in(To, Config))})
     || {File, To, Expected} <- [{"dir/sub/file", "dir", true}, {"dir/new/file", "dir", true},
                                 {"dir/file", "link", true}, {"link/file", "dir", true},
                                 {"inner/file", "dir", true}, {"inner/new/file", "link", true},
                                 {"dir", "dir", false}, {"file", "dir", false},
                                 {"dirs/file", "dir", false}, {"dir/file", "nowhere", false},
                                 {"new/file", "new", true}, {"new/sub/file", "new", true},
                                 {"link/new/file", "dir/new", true},
                                 {"file", "new", false}, {"news/file", "new", false}]].

%% A search finds the same files as filelib. In a name of a directory, no character is special.
patterns(Config) ->
    Dir = in("[{x", Config),
    [made:file(filename:join(Dir, Path), "x")
     || Path <- ["src/a.erl", "src/b/c.erl", "src/b/d/e.erl", "src/b/d/f.hrl", "g.erl",
                 "src/.h.erl"]],
    %% The parts `.' of a directory's name make no difference.
    [?assertEqual({Pattern, lists:usort(filelib:wildcard(Pattern, Dir))},
                  {Pattern, whittle_file:matches(Pattern, Written)})
     || Written <- [Dir, Dir ++ "/", Dir ++ "/.", Dir ++ "/././", Dir ++ "/./src/../."],
        Pattern <- ["**/*.erl", "src/**/*.erl", "src/**/*.{erl,hrl}", "**", "src/**", "*",
                    "src/*.erl",
                    "**/d/**/*.erl", "{src,none}/**/*.erl", "./**/*.erl", "none/**/*.erl",
                    "g.erl"]],
    ?assertEqual([], whittle_file:matches("{a", Dir)),
    ?assertEqual([filename:join(Dir, "src/b/d/f.hrl")], whittle_file:found("**/*.hrl", Dir)).

%% A search enters each directory once, and prefers its own path to a link.
link_net(Config) ->
    [begin
         Level = in("net/d" ++ integer_to_list(N), Config),
         made:file(filename:join(Level, "x.erl"), ""),
         [ok = file:make_symlink("../d" ++ integer_to_list(N + 1), filename:join(Level, Name))
          || N < 9, Name <- ["a", "b"]]
     end || N <- lists:seq(0, 9)],
    [ok = file:make_symlink(".", in("net/" ++ Name, Config)) || Name <- ["a1", "a2"]],
    made:file(in("behind/y.erl", Config), ""),
    [ok = file:make_symlink("../behind", in("net/" ++ Name, Config)) || Name <- ["b1", "b2"]],
    ?assertEqual(["b1/y.erl" | ["d" ++ [$0 + N] ++ "/x.erl" || N <- lists:seq(0, 9)]],
                 whittle_file:matches("**/*.erl", in("net", Config))).

%% Each error is the rest of a sentence on one line, and no two are equal.
errors(_) ->
    Texts = [unicode:characters_to_list(whittle_file:format_error(Reason))
             || Reason <- [eftype, eisdir, efbig, enomem, enoent, eacces]],
    [?assertMatch({match, _}, re:run(Text, "^(is|does|cannot) [^\n]+[^.\n]$")) || Text <- Texts],
    ?assertEqual(length(Texts), length(lists:usort(Texts))).

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
