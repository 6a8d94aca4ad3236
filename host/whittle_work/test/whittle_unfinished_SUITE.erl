%% Tests the list of things to undo when a signal stops the work.
-module(whittle_unfinished_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2]).
-export([undo_says_what_is_left/1, directory/1, no_directory/1, abandoned/1, tree/1,
         protected_link/1, what_is_left/1]).

all() ->
    [undo_says_what_is_left, directory, no_directory, abandoned, tree, protected_link,
     what_is_left].

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

%% undo_all/0 only reads the list: a change would wait for the process that is suspended.
undo_says_what_is_left(Config) ->
    Dir = proplists:get_value(dir, Config),
    [File, There, Gone] = [filename:join(Dir, Name) || Name <- ["file", "there", "gone"]],
    Below = filename:join(File, "below"),
    ok = file:write_file(File, "x"),
    ok = file:make_dir(There),
    Places = [Below, There, Gone, "raises"],
    [ok = whittle_unfinished:begun(Place, fun() -> file:del_dir_r(Place) end) || Place <- Places],
    ok = whittle_unfinished:begun("raises", fun() -> error(on_purpose) end),
    Listed = lists:sort(persistent_term:get()),
    try
        ?assertEqual([{Below, enotdir}, {"raises", on_purpose}],
                     lists:sort(whittle_unfinished:undo_all())),
        ?assertNot(filelib:is_file(There)),
        ?assertEqual(Listed, lists:sort(persistent_term:get()))
    after
        [ok = whittle_unfinished:done(Place) || Place <- Places]
    end,
    ?assertEqual([], whittle_unfinished:undo_all()).

%% Only its user can read a temporary directory, and nothing stays of it.
directory(Config) ->
    in_tmpdir(proplists:get_value(dir, Config),
              fun() ->
                      {ok, One} = whittle_unfinished:make_directory("some"),
                      {ok, Other} = whittle_unfinished:make_directory("some"),
                      ?assertNotEqual(One, Other),
                      ?assertEqual("700\n", os:cmd("stat -c %a '" ++ One ++ "'")),
                      ok = file:write_file(filename:join(One, "file"), "x"),
                      ok = whittle_unfinished:remove_directory(One),
                      ?assertEqual([], whittle_unfinished:undo_all()),
                      ?assertEqual({error, enoent}, file:list_dir(Other)),
                      ok = whittle_unfinished:remove_directory(Other)
              end).

%% The error names the directory that $TMPDIR names, and the list stays as it was.
no_directory(Config) ->
    Nowhere = filename:join(proplists:get_value(dir, Config), "nowhere"),
    Listed = lists:sort(persistent_term:get()),
    in_tmpdir(Nowhere, fun() ->
                               ?assertEqual({error, {Nowhere, enoent}},
                                            whittle_unfinished:make_directory("some"))
                       end),
    ?assertEqual(Listed, lists:sort(persistent_term:get())).

%% A killed VM leaves its directory, and a later one removes it. The directories of other processes,
%% machines and programs stay, and so does everything behind a link.
abandoned(Config) ->
    Dir = proplists:get_value(dir, Config),
    Kept = filename:join(Dir, "kept"),
    ok = filelib:ensure_path(filename:join(Kept, "below")),
    in_tmpdir(Dir, fun() ->
        {ok, Own} = whittle_unfinished:make_directory("whittle"),
        ["whittle", Process, Here, Time, Count] = string:lexemes(filename:basename(Own), "-"),
        ?assertEqual(os:getpid(), Process),
        %% os:cmd/1 does not wait for the end of its own shell, but that one does for this one.
        Gone = string:trim(os:cmd("sh -c 'echo $$'")),
        Named = fun(Words) -> filename:join(Dir, lists:flatten(lists:join("-", Words))) end,
        Left = [Named(["whittle", Gone, Here, Time, "0"]),
                Named(["whittle-load", Gone, Here, Time, Count])],
        Stay = [Named(["whittle", "1", Here, Time, "0"]), Named(["whittle", Gone, Time, "1"]),
                Named(["whittle", Gone, Here ++ "0", Time, "1"]),
                Named(["other", Gone, Here, Time, "1"])],
        [ok = filelib:ensure_path(filename:join(Each, "below")) || Each <- Left ++ Stay],
        Link = Named(["whittle", Gone, Here, Time, "7"]),
        File = Named(["whittle", Gone, Here, Time, "8"]),
        ok = file:make_symlink(Kept, Link),
        ok = file:make_symlink(Kept, filename:join(hd(Left), "link")),
        ok = file:write_file(File, "x"),
        %% A name of another user's file
        Other = filename:join(Dir, [26085, 26412]),
        ok = file:write_file(Other, "x"),
        {ok, Next} = whittle_unfinished:make_directory("whittle-trace"),
        {ok, Names} = file:list_dir(Dir),
        ?assertEqual(lists:sort([filename:basename(Each)
                                 || Each <- [Own, Next, Kept, Link, File, Other | Stay]]),
                     lists:sort(Names)),
        ?assertEqual({ok, ["below"]}, file:list_dir(Kept)),
        [ok = whittle_unfinished:remove_directory(Each) || Each <- [Own, Next]]
    end).

in_tmpdir(Dir, Fun) ->
    Before = os:getenv("TMPDIR"),
    true = os:putenv("TMPDIR", Dir),
    try Fun()
    after
        case Before of
            false -> os:unsetenv("TMPDIR");
            Value -> os:putenv("TMPDIR", Value)
        end
    end.

%% A link goes, and the file or directory that it names stays.
tree(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Tree, Kept] = [filename:join(Dir, Name) || Name <- ["tree", "kept"]],
    ok = filelib:ensure_path(filename:join([Tree, "one", "two"])),
    ok = filelib:ensure_path(Kept),
    ok = file:write_file(filename:join(Kept, "file"), "x"),
    ok = file:write_file(filename:join([Tree, "one", <<"\xff">>]), "x"),
    ok = file:make_symlink(Kept, filename:join(Tree, "link")),
    ok = file:make_symlink("nothing", filename:join(Tree, "dangling")),
    ?assertEqual(ok, whittle_unfinished:remove_tree(Tree)),
    ?assertEqual({error, enoent}, file:read_link_info(Tree)),
    ?assertEqual({ok, ["file"]}, file:list_dir(Kept)),
    ?assertEqual(ok, whittle_unfinished:remove_tree(filename:join(Kept, "file"))),
    ?assertEqual({error, enoent}, whittle_unfinished:remove_tree(filename:join(Kept, "file"))),
    ?assertEqual({error, enotdir},
                 whittle_unfinished:remove_tree(filename:join(code:which(?MODULE), "below"))).

%% The kernel answers the same for a link in such a directory as for a directory.
protected_link(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Tree, Kept] = [filename:join(Dir, Name) || Name <- ["tree", "kept"]],
    [ok = filelib:ensure_path(Each) || Each <- [Tree, Kept]],
    ok = file:write_file(filename:join(Kept, "file"), "x"),
    ok = file:make_symlink(Kept, filename:join(Tree, "link")),
    case os:cmd("chattr +a '" ++ Tree ++ "'") of
        "" ->
            try
                ?assertEqual({error, eperm}, whittle_unfinished:remove_tree(Tree)),
                ?assertEqual({ok, ["file"]}, file:list_dir(Kept))
            after
                os:cmd("chattr -a '" ++ Tree ++ "'")
            end;
        Said -> {skip, "chattr: " ++ string:trim(Said)}
    end.

what_is_left(Config) ->
    Dir = proplists:get_value(dir, Config),
    Places = [filename:join(Dir, "gone"), Dir],
    [ok = whittle_unfinished:begun(Place, fun() -> ok end) || Place <- Places],
    ?assertEqual([Dir], whittle_unfinished:left()),
    [ok = whittle_unfinished:done(Place) || Place <- Places],
    ?assertEqual([], whittle_unfinished:left()).
