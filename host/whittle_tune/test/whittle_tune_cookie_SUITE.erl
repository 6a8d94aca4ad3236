%% Tests where the cookie of `whittle tune --node' comes from, and which cookies it refuses.
-module(whittle_tune_cookie_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([order/1, wrong_variables/1, wrong_files/1, wrong_home_files/1, owner/1, wrong_names/1]).

-define(VARIABLES, ["RELEASE_COOKIE", "ERLANG_COOKIE", "WHITTLE_COOKIE_FILE", "HOME",
                    "XDG_CONFIG_HOME"]).

suite() -> [{timetrap, {seconds, 30}}].

all() -> [order, wrong_variables, wrong_files, wrong_home_files, owner, wrong_names].

init_per_testcase(Case, Config) ->
    [{dir, Dir} | _] = Own = made:dir(Case, Config),
    Before = [{Name, os:getenv(Name)} || Name <- ?VARIABLES],
    _ = [os:unsetenv(Name) || Name <- ?VARIABLES],
    true = os:putenv("HOME", Dir),
    [{before, Before} | Own].

end_per_testcase(_, Config) ->
    [case Value of
         false -> os:unsetenv(Name);
         _ -> os:putenv(Name, Value)
     end || {Name, Value} <- proplists:get_value(before, Config)].

%% Each source counts more than the sources before it.
order(Config) ->
    Dir = dir(Config),
    ?assertEqual({error, no_cookie}, whittle_tune_cookie:read()),
    cookie_file(filename:join(Dir, ".config/erlang/.erlang.cookie"), "configured \n"),
    ?assertEqual({ok, 'configured '}, whittle_tune_cookie:read()),
    cookie_file(filename:join(Dir, "xdg/erlang/.erlang.cookie"), "other\n"),
    true = os:putenv("XDG_CONFIG_HOME", filename:join(Dir, "xdg")),
    ?assertEqual({ok, other}, whittle_tune_cookie:read()),
    cookie_file(filename:join(Dir, ".erlang.cookie"), "-home\r\n"),
    ?assertEqual({ok, '-home'}, whittle_tune_cookie:read()),
    true = os:putenv("WHITTLE_COOKIE_FILE",
                     cookie_file(filename:join(Dir, "file"), " \n m\x{fc}\t\n")),
    ?assertEqual({ok, 'm\x{fc}'}, whittle_tune_cookie:read()),
    true = os:putenv("ERLANG_COOKIE", "erlang"),
    ?assertEqual({ok, erlang}, whittle_tune_cookie:read()),
    true = os:putenv("RELEASE_COOKIE", lists:duplicate(255, $r)),
    ?assertEqual({ok, list_to_atom(lists:duplicate(255, $r))}, whittle_tune_cookie:read()).

wrong_variables(_) ->
    [begin
         true = os:putenv("RELEASE_COOKIE", Cookie),
         ?assertEqual({error, {bad_cookie, "RELEASE_COOKIE", Problem}},
                      whittle_tune_cookie:read())
     end || {Cookie, Problem} <- [{"-setcookie", flag}, {lists:duplicate(256, $a), too_long},
                                  {"a\tb", control_character}, {"a\x{7f}", control_character}]].

wrong_files(Config) ->
    Dir = dir(Config),
    Pipe = filename:join(Dir, "pipe"),
    "" = os:cmd("mkfifo -m 600 '" ++ Pipe ++ "'"),
    File = filename:join(Dir, "file"),
    Open = cookie_file(filename:join(Dir, "open"), "secret\n"),
    ok = file:change_mode(Open, 8#644),
    [begin
         true = os:putenv("WHITTLE_COOKIE_FILE", Path),
         _ = [cookie_file(Path, Text) || Path =:= File],
         ?assertEqual({Text, {error, {bad_cookie, "WHITTLE_COOKIE_FILE: " ++ Path, Problem}}},
                      {Text, whittle_tune_cookie:read()})
     end || {Path, Text, Problem} <-
                [{"/dev/zero", "", {unreadable, eftype}}, {Pipe, "", {unreadable, eftype}},
                 {Dir, "", {unreadable, eisdir}},
                 {filename:join(Dir, "none"), "", {unreadable, enoent}},
                 {Open, "", not_private},
                 {File, lists:duplicate(300, $a), too_long}, {File, " \n", empty},
                 {File, lists:duplicate(5000, $\s), {unreadable, efbig}},
                 {File, [<<"a">>, 0, <<"b\n">>], control_character},
                 {File, "a\nb\n", control_character}, {File, "-a\n", flag},
                 {File, [<<255>>], not_latin1}, {File, "\x{20ac}", not_latin1}]].

wrong_home_files(Config) ->
    File = filename:join(dir(Config), ".erlang.cookie"),
    [begin
         cookie_file(File, Text),
         ?assertEqual({Text, {error, {bad_cookie, File, Problem}}},
                      {Text, whittle_tune_cookie:read()})
     end || {Text, Problem} <- [{"m\x{fc}\n", not_ascii}, {"a\nb\n", not_ascii}, {"", empty},
                                {"\n", empty}, {lists:duplicate(256, $a), too_long}]],
    ok = file:change_mode(File, 8#640),
    ?assertEqual({error, {bad_cookie, File, not_private}}, whittle_tune_cookie:read()),
    ok = file:delete(File),
    "" = os:cmd("mkfifo -m 600 '" ++ File ++ "'"),
    ?assertEqual({error, {bad_cookie, File, {unreadable, eftype}}}, whittle_tune_cookie:read()).

%% Only root can give a file away.
owner(Config) ->
    case os:cmd("id -u") of
        "0\n" ->
            File = cookie_file(filename:join(dir(Config), "file"), "secret\n"),
            ok = file:change_owner(File, 12345),
            true = os:putenv("WHITTLE_COOKIE_FILE", File),
            ?assertMatch({error, {bad_cookie, _, not_owned}}, whittle_tune_cookie:read());
        _ -> {skip, "this test needs root"}
    end.

%% The command would fail with a report of a bug.
wrong_names(_) ->
    true = os:putenv("RELEASE_COOKIE", "secret"),
    [?assertEqual({error, {bad_name, Name}}, whittle_tune:explain_node(Name))
     || Name <- ["", "@", "a@", "@b", "a@b@c", "a b", "a@b c", "a\n", "\x{fc}", "a.b",
                 lists:duplicate(256, $a), "a@" ++ lists:duplicate(254, $b)]].

%% Internal

dir(Config) -> proplists:get_value(dir, Config).

cookie_file(File, Text) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, case lists:all(fun is_integer/1, Text) of
                                   true -> unicode:characters_to_binary(Text);
                                   false -> Text
                               end),
    ok = file:change_mode(File, 8#600),
    File.
