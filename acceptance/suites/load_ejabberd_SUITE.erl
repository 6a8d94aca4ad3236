%% Tests the XMPP users of `whittle load' with the ejabberd of Debian's packages, on the stock VM.
-module(load_ejabberd_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([plain/1, scram/1, tls/1, ipv6/1, shipped/1, wrong_password/1, wrong_domain/1]).

%% ejabberd, and what Debian's Erlang and this project's own packages lack
-define(PACKAGES, ["ejabberd", "erlang-base64url", "erlang-goldrush", "erlang-idna", "erlang-jose",
                   "erlang-lager", "erlang-mnesia", "erlang-os-mon", "erlang-p1-acme",
                   "erlang-p1-cache-tab", "erlang-p1-eimp", "erlang-p1-mqtree", "erlang-p1-pkix",
                   "erlang-p1-stringprep", "erlang-p1-stun", "erlang-p1-tls", "erlang-p1-utils",
                   "erlang-p1-xml", "erlang-p1-xmpp", "erlang-p1-yaml", "erlang-p1-yconf",
                   "erlang-p1-zlib", "erlang-unicode-util-compat", "libexpat1", "libyaml-0-2"]).
-define(USERS, 10).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [plain, scram, tls, ipv6, shipped, wrong_password, wrong_domain].

init_per_suite(Config) ->
    case erlang:system_info(otp_release) of
        "25" ->
            case loading:unpacked(?PACKAGES) of
                {ok, Dirs} -> started(libraries(Dirs), Config);
                {error, Text} -> {skip, Text}
            end;
        Other -> {skip, "Debian 12's ejabberd is compiled for OTP 25, and this is " ++ Other}
    end.

started(Libraries, Config) ->
    Dir = running:directory("ejabberd", Config),
    {[Plain, Tls, Ipv6, Ipv6Tls, Http], Server} =
        running:on_free_ports(5, fun(Ports) ->
                                         loading:kept(fun() -> server(Dir, Ports, Libraries) end)
                                 end),
    [registered(Http, integer_to_list(N)) || N <- lists:seq(0, ?USERS - 1)],
    [{dir, Dir}, {server, Server}, {plain, Plain}, {tls, Tls}, {ipv6, Ipv6}, {ipv6_tls, Ipv6Tls}
     | Config].

server(Dir, Ports, Libraries) ->
    Server = running:start(
               filename:join(code:root_dir(), "bin/erl"),
               ["-noinput", "-mnesia", "dir", "\"" ++ filename:join(Dir, "db") ++ "\"",
                "-s", "ejabberd"],
               #{env => [{"HOME", Dir}, {"EJABBERD_CONFIG_PATH", configuration(Dir, Ports)},
                         {"EJABBERD_LOG_PATH", filename:join(Dir, "ejabberd.log")}
                         | Libraries]}),
    %% This is the last listener in its configuration.
    _ = running:until(Server, <<" for ejabberd_http">>),
    Server.

end_per_suite(Config) -> loading:stopped(proplists:get_value(server, Config)).

%% Each user sends messages to all users at random, itself among them.
plain(Config) ->
    Result = load(talking("plain", Config), 0, #{held => ?USERS, <<"delivery">> => 3 * ?USERS}),
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := [],
                   <<"events">> := #{<<"connected">> := ?USERS}}, Result),
    #{<<"latencies">> := Latencies} = Result,
    ?assertEqual([{<<"connect">>, ?USERS}, {<<"delivery">>, 3 * ?USERS}, {<<"login">>, ?USERS},
                  {<<"roster">>, ?USERS}],
                 lists:sort([{Step, Count} || {Step, #{<<"count">> := Count}}
                                                  <- maps:to_list(Latencies)])).

scram(Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load(talking("scram", Config), 0, #{held => ?USERS})).

tls(Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load(scenario("xmpps", tls, "{domain, \"localhost\"}.",
                               "[connect, {login, \"u${id}\", \"secret\"}, stay]", Config),
                      0, #{held => ?USERS})).

ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            [?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                          load(scenario(Scheme, "[::1]", Port, "{domain, \"localhost\"}.",
                                        "[connect, {login, \"u${id}\", \"secret\"}, stay]", Config),
                               0, #{held => ?USERS}))
             || {Scheme, Port} <- [{"xmpp", ipv6}, {"xmpps", ipv6_tls}]];
        false -> {skip, "this machine has no ::1"}
    end.

%% The scenario of examples/presence drives this server too.
shipped(Config) ->
    Dir = proplists:get_value(dir, Config),
    File = filename:join(Dir, "shipped.load"),
    ok = short_load:write(filename:join(running:example("presence"), "xmpp.load"), File,
                          #{port => proplists:get_value(plain, Config), users => ?USERS,
                            soak => "10 s"}, []),
    {ok, Scenario} = file:read_file(File),
    #{<<"held">> := ?USERS, <<"errors">> := [], <<"latencies">> := Latencies} =
        load({Dir, Scenario}, 0,
             #{held => ?USERS, <<"roster">> => 1, <<"delivery">> => {3, <<"roster">>}}),
    #{<<"delivery">> := #{<<"count">> := Delivered}, <<"roster">> := #{<<"count">> := Talkers}} =
        Latencies,
    ?assertEqual(3 * Talkers, Delivered).

wrong_password(Config) ->
    ?assertMatch(#{<<"held">> := 0,
                   <<"errors">> := [#{<<"step">> := <<"login">>, <<"kind">> := <<"not_authorized">>,
                                      <<"count">> := ?USERS}]},
                 load(scenario("xmpp", plain, "{domain, \"localhost\"}.",
                               "[connect, {login, \"u${id}\", \"wrong\"}, stay]", Config),
                      1, #{errors => ?USERS})).

wrong_domain(Config) ->
    ?assertMatch(#{<<"held">> := 0,
                   <<"errors">> := [#{<<"step">> := <<"login">>,
                                      <<"kind">> := <<"host_unknown">>}]},
                 load(scenario("xmpp", plain, "{domain, \"example.org\"}.",
                               "[connect, {login, \"u${id}\", \"secret\"}, stay]", Config),
                      1, #{errors => ?USERS})).

talking(Mechanism, Config) ->
    scenario("xmpp", plain, "{domain, \"localhost\"}. {mechanism, " ++ Mechanism ++ "}.",
             "[connect, {login, \"u${id}\", \"secret\"}, roster, presence, {wait, \"1 s\"},"
             " {repeat, 3, [{message, \"u${random:" ++ integer_to_list(?USERS) ++ "}\","
             " \"hello\"}, {wait, \"100 ms\"}]}, stay]", Config).

%% The users come at once. Four seconds are enough on a quiet machine.
scenario(Scheme, Port, More, Steps, Config) ->
    scenario(Scheme, "127.0.0.1", Port, More, Steps, Config).

scenario(Scheme, Host, Port, More, Steps, Config) ->
    {proplists:get_value(dir, Config),
     [io_lib:format("{target, \"~s://~s:~b\"}.~n{phases, [{burst, ~b}, {soak, \"4 s\"}]}.~n",
                    [Scheme, Host, proplists:get_value(Port, Config), ?USERS]),
      More, "\n{users, [{all, 1, ", Steps, "}]}.\n{thresholds, [\"errors < 1\"]}.\n"]}.

load({Dir, Scenario}, Code, Counts) -> loading:load(Dir, Scenario, Code, Counts).

%% The server

libraries(Dirs) ->
    Paths = [Path || Dir <- Dirs, Pattern <- ["usr/lib/erlang/lib", "usr/lib/*-linux-gnu"],
                     Path <- filelib:wildcard(filename:join(Dir, Pattern))],
    [{"ERL_LIBS", lists:append(lists:join(":", Paths))}, loading:libraries(Dirs)].

configuration(Dir, [Plain, Tls, Ipv6, Ipv6Tls, Http]) ->
    Certificate = loading:certificate(Dir),
    File = filename:join(Dir, "ejabberd.yml"),
    ok = file:write_file(
           File, ["hosts: [localhost]\n"
                  "loglevel: info\n"
                  "certfiles: [", Certificate, "]\n"
                  "listen:\n",
                  [io_lib:format("  - {port: ~b, ip: \"~s\", backlog: 100, module: ~s}~n",
                                 [Port, Address, Module])
                   || {Port, Address, Module} <-
                          [{Plain, "127.0.0.1", "ejabberd_c2s, access: c2s"},
                           {Tls, "127.0.0.1", "ejabberd_c2s, access: c2s, tls: true"}]
                          ++ [Listener || loading:has_ipv6(),
                                          Listener <- [{Ipv6, "::1", "ejabberd_c2s, access: c2s"},
                                                       {Ipv6Tls, "::1", "ejabberd_c2s, access: c2s,"
                                                        " tls: true"}]]
                          ++ [{Http, "127.0.0.1",
                               "ejabberd_http, request_handlers: {/api: mod_http_api}"}]],
                  "access_rules: {c2s: {allow: all}}\n"
                  "api_permissions: {all: {who: all, what: \"*\"}}\n"
                  "modules: {mod_admin_extra: {}, mod_ping: {}, mod_roster: {}}\n"]),
    File.

registered(Http, N) ->
    {ok, _} = application:ensure_all_started(inets),
    Body = ["{\"user\": \"u", N, "\", \"host\": \"localhost\", \"password\": \"secret\"}"],
    {ok, {{_, 200, _}, _, _}} =
        httpc:request(post, {"http://127.0.0.1:" ++ integer_to_list(Http) ++ "/api/register", [],
                             "application/json", iolist_to_binary(Body)}, [], []),
    ok.
