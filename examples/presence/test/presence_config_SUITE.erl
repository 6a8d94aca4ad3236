%% Tests the settings, the file of users, and the limits of memory that a control group states.
-module(presence_config_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([defaults/1, variables/1, wrong/1, no_secret/1, users/1, wrong_users/1, control_groups/1,
         memory/1]).

all() -> [defaults, variables, wrong, no_secret, users, wrong_users, control_groups, memory].

init_per_testcase(_, Config) ->
    _ = application:load(presence),
    application:set_env(presence, secret, "secret"),
    Config.

end_per_testcase(_, _) ->
    [os:unsetenv(V) || S <- os:getenv(), "PRESENCE_" ++ _ = V <- [hd(string:split(S, "="))]],
    application:unset_env(presence, secret).

defaults(_) ->
    ok = presence_config:load(),
    ?assertEqual(5222, presence_config:get(xmpp_port)),
    ?assertEqual({127, 0, 0, 1}, presence_config:get(ip)),
    ?assert(presence_config:get(plain_here)),
    ?assert(presence_users:check(<<"ann">>, <<"secret">>)),
    ?assertNot(presence_users:check(<<"ann">>, <<"secres">>)),
    ?assertNot(presence_users:check(<<"ann">>, <<"secret1">>)),
    ?assertNot(presence_users:check(<<"a b">>, <<"secret">>)).

%% A variable wins over the application's environment.
variables(_) ->
    put_env([{"XMPP_PORT", "none"}, {"LINES_PORT", "0"}, {"IP", "::1"}, {"REUSEPORT", "true"},
             {"NODES", "a@b, c@d"}, {"DOMAIN", "example.org"}, {"PLAIN", "tls"},
             {"LIMIT", "12"}, {"SECRET", "other"}]),
    ok = presence_config:load(),
    ?assertEqual([none, 0, {0, 0, 0, 0, 0, 0, 0, 1}, true, [a@b, c@d], <<"example.org">>, 12],
                 [presence_config:get(Key)
                  || Key <- [xmpp_port, lines_port, ip, reuseport, nodes, domain, limit]]),
    ?assertNot(presence_config:get(plain_here)),
    ?assert(presence_users:check(<<"ann">>, <<"other">>)).

wrong(_) ->
    [begin
         put_env([{Name, Value}]),
         {error, Reason} = presence_config:load(),
         Line = unicode:characters_to_list(presence_config:format_error(Reason)),
         ?assertMatch({Line, {match, _}}, {Line, re:run(Line, "PRESENCE_" ++ Name ++ ".*give ")}),
         os:unsetenv("PRESENCE_" ++ Name)
     end || {Name, Value} <- [{"XMPP_PORT", "70000"}, {"LINES_PORT", "x"}, {"IP", "localhost"},
                              {"REUSEPORT", "yes"}, {"LIMIT", "0"}, {"PLAIN", "maybe"},
                              {"MEMORY_HIGH", "101"}, {"ACCEPTORS", "-1"}]],
    %% A secret never reaches a log.
    application:set_env(presence, secret, {hunter2}),
    {error, Reason} = presence_config:load(),
    ?assertEqual(nomatch, string:find(presence_config:format_error(Reason), "hunter2")).

no_secret(_) ->
    application:unset_env(presence, secret),
    {error, Reason} = presence_config:load(),
    ?assertMatch([_ | _], string:find(presence_config:format_error(Reason), "PRESENCE_SECRET")).

users(Config) ->
    File = file("ann:secret\n\nb\xc3\xb6b:with:colon\n", Config),
    put_env([{"USERS", File}]),
    ok = presence_config:load(),
    ?assert(presence_users:check(<<"ann">>, <<"secret">>)),
    ?assert(presence_users:check(<<"b\xc3\xb6b">>, <<"with:colon">>)),
    ?assertNot(presence_users:check(<<"ann">>, <<"with:colon">>)),
    ?assertNot(presence_users:check(<<"cat">>, <<"secret">>)).

wrong_users(Config) ->
    [begin
         put_env([{"USERS", file(Text, Config)}]),
         {error, Reason} = presence_config:load(),
         ?assertMatch([_ | _], string:find(presence_config:format_error(Reason), Line))
     end || {Text, Line} <- [{"ann:a\nbob\n", ":2: "}, {"a/b:c\n", ":1: "}, {"ann:\n", ":1: "}]],
    put_env([{"USERS", filename:join(proplists:get_value(priv_dir, Config), "absent")}]),
    {error, Reason} = presence_config:load(),
    ?assertMatch([_ | _], string:find(presence_config:format_error(Reason), "cannot be read")),
    put_env([{"USERS", "/dev/zero"}]),
    {error, Endless} = presence_config:load(),
    ?assertMatch([_ | _], string:find(presence_config:format_error(Endless), "cannot be read")).

control_groups(_) ->
    ?assertEqual([{v1, "/sys/fs/cgroup/memory/a/b"}, {v1, "/sys/fs/cgroup/memory"}],
                 presence_memory:cgroup(<<"7:cpu,cpuacct:/x\n4:memory:/a/b\n">>)),
    ?assertEqual([{v2, "/sys/fs/cgroup/user.slice"}, {v2, "/sys/fs/cgroup"}],
                 presence_memory:cgroup(<<"0::/user.slice\n">>)),
    ?assertEqual([], presence_memory:cgroup(<<"nonsense\n::\n1:cpu\n">>)).

%% The memory of this VM is less than that of the machine.
memory(_) ->
    {ok, Own} = presence_memory:used(presence_memory:source(1)),
    ?assert(Own > 1_000_000),
    Source = presence_memory:source(auto),
    {ok, Used} = presence_memory:used(Source),
    ?assert(Used < element(tuple_size(Source), Source)).

put_env(Variables) -> [true = os:putenv("PRESENCE_" ++ Name, Value) || {Name, Value} <- Variables].

file(Text, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "users"),
    ok = file:write_file(File, list_to_binary(Text)),
    File.
