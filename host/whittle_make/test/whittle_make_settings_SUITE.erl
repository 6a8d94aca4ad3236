%% Tests whittle_make_settings: the file, and what a system gets from it.
-module(whittle_make_settings_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([added/1, keys/1, behind_the_programs_own/1, before_extra/1, no_flags/1, build_options/1,
         bad_files/1]).

all() -> [added, keys, behind_the_programs_own, before_extra, no_flags, build_options, bad_files].

added(Config) ->
    {ok, Settings} = read("#{flags => [\"+P\", \"2048\"], other => 1,\n"
                          "  environment => [{\"ERL_FULLSWEEP_AFTER\", \"0\"}]}.\n", Config),
    System = whittle_make_settings:add(Settings, system()),
    ?assertMatch(#{<<"vm.args">> := #{bytes := <<"\n+P 2048\n">>, mode := 8#644}},
                 whittle_system:files(System)),
    ?assertEqual(#{<<"ERL_FULLSWEEP_AFTER">> => {default, <<"0">>}}, whittle_system:env(System)).

%% A key of an application replaces that of its .app file. A note names an application that the
%% program does not contain.
keys(Config) ->
    {ok, Settings} = read("#{flags => [], environment => [],\n"
                          "  config => [{hello, [{workers, 4}, {names, [\"a b\"]}]},\n"
                          "             {other, [{key, 1}]}]}.\n", Config),
    App = #{name => hello, vsn => "1", modules => #{}, files => #{}, origin => #{kind => input},
            spec => {application, hello, [{vsn, "1"}, {env, [{workers, 2}, {port, 7}]}]}},
    System = whittle_make_settings:add(Settings, whittle_system:put_app(App, system())),
    {ok, #{spec := {application, hello, Keys}}} = whittle_system:app(hello, System),
    ?assertEqual([{names, ["a b"]}, {port, 7}, {workers, 4}],
                 lists:sort(proplists:get_value(env, Keys))),
    ?assertEqual(error, whittle_system:app(other, System)).

%% The last flag wins.
behind_the_programs_own(Config) ->
    {ok, Settings} = read("#{flags => [\"+P\", \"2048\"], environment => []}.", Config),
    Release = whittle_system:put_file(<<"vm.args">>, #{mode => 8#600, bytes => <<"+P 9000">>},
                                      system()),
    ?assertMatch(#{<<"vm.args">> := #{bytes := <<"+P 9000\n+P 2048\n">>, mode := 8#600}},
                 whittle_system:files(whittle_make_settings:add(Settings, Release))).

before_extra(Config) ->
    {ok, Settings} = read("#{flags => [\"+P\", \"2048\"], environment => []}.", Config),
    Release = whittle_system:put_file(<<"vm.args">>,
                                      #{mode => 8#600,
                                        bytes => <<"# -extra\n+P 9\n-extra a +P 1">>},
                                      system()),
    ?assertMatch(#{<<"vm.args">> :=
                       #{bytes := <<"# -extra\n+P 9\n\n+P 2048\n-extra a +P 1">>}},
                 whittle_system:files(whittle_make_settings:add(Settings, Release))).

no_flags(Config) ->
    {ok, Settings} = read("#{flags => [], environment => []}.", Config),
    ?assertEqual(system(), whittle_make_settings:add(Settings, system())).

%% The recording lies beside the file of settings. What the command says wins, and a note tells what
%% the build uses.
build_options(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "a run.trace"),
    ok = file:write_file(File, "recorded"),
    {ok, Settings} = read("#{flags => [], environment => [],\n"
                          "  build => #{evidence => \"a run.trace\", seen => only}}.\n", Config),
    Shake = fun(Given) -> whittle_make_settings:shake(Settings, Given) end,
    {#{unit := functions, evidence_file := File, seen := only}, [Used]} = Shake(none),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Used), <<"a run.trace (--seen only)">>)),
    ?assertMatch({#{unit := modules, evidence_file := File, seen := keep}, [_]},
                 Shake(#{unit => modules, missing => load, seen => keep})),
    [begin
         {Given, [Note]} = Shake(Given),
         ?assertMatch({_, _}, binary:match(iolist_to_binary(Note), <<"does not use">>))
     end || Given <- [#{unit => functions, missing => load, evidence_file => "other"},
                      #{unit => functions, missing => crash}]],
    {ok, Plain} = read("#{flags => [], environment => []}.", Config),
    ?assertEqual({none, []}, whittle_make_settings:shake(Plain, none)).

bad_files(Config) ->
    [begin
         Error = read(Text, Config),
         ?assertMatch({Text, {error, {bad_settings, {_, _}}}}, {Text, Error}),
         {error, Reason} = Error,
         Line = unicode:characters_to_list(whittle_make:format_error(Reason)),
         ?assertEqual({Text, nomatch}, {Text, re:run(Line, "\n")})
     end
     || Text <- ["", "nothing", "#{flags => []}.", "[].", "#{flags => [1], environment => []}.",
                 "#{flags => [\"+P 5\"], environment => []}.",
                 "#{flags => [\"#\"], environment => []}.",
                 "#{flags => [\"+S\" | x], environment => []}.",
                 "#{flags => [[$+, $S | x]], environment => []}.",
                 "#{flags => [], environment => [x | y]}.",
                 "#{flags => [[16#20ac]], environment => []}.",
                 "#{flags => [\"$HOME\"], environment => []}.",
                 "#{flags => [\"-setcookie\", \"x\"], environment => []}.",
                 "#{flags => [\"-extra\"], environment => []}.",
                 "#{flags => [], environment => [{\"RELEASE_COOKIE\", \"x\"}]}.",
                 "#{flags => [], environment => [{\"ERLANG_COOKIE\", \"x\"}]}.",
                 "#{flags => [], environment => [{\"ERL_A=B\", \"x\"}]}.",
                 "#{flags => [], environment => [], config => only}.",
                 "#{flags => [], environment => [], config => [only]}.",
                 "#{flags => [], environment => [], config => [{hello, only}]}.",
                 "#{flags => [], environment => [], config => [{hello, [{\"k\", 1}]}]}.",
                 "#{flags => [], environment => [], config => [{hello, [k]}]}.",
                 "#{flags => [], environment => [], build => only}.",
                 "#{flags => [], environment => [], build => #{seen => only}}.",
                 "#{flags => [], environment => [], build => #{evidence => \"\", seen => only}}.",
                 "#{flags => [], environment => [], build => #{evidence => \"x\", seen => all}}.",
                 "#{flags => [], environment => [],\n"
                 "  build => #{evidence => \"absent.trace\", seen => only}}.",
                 "#{flags => [], environment => [],\n"
                 "  build => #{evidence => \"x\", seen => only, unit => modules}}.",
                 "#{flags => [], environment => [\"A=b\"]}.",
                 "#{flags => [], environment => [{\"A\", \"b\nc\"}]}."]],
    Unreadable = {unreadable, {settings, "/nowhere", enoent}},
    ?assertEqual({error, Unreadable}, whittle_make_settings:read("/nowhere")),
    ?assertEqual(unreadable, whittle_make:code(Unreadable)),
    ?assertEqual("/nowhere cannot be read (no such file or directory): name a file of `whittle "
                 "tune' with --settings", lists:flatten(whittle_make:format_error(Unreadable))).

%% Internal functions

system() -> whittle_system:new(#{name => "hello", vsn => "1", otp => "29"}).

read(Text, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "the settings"),
    ok = file:write_file(File, Text),
    whittle_make_settings:read(File).
