%% Tests the MQTT users of `whittle load' with the mosquitto of Debian's packages.
-module(load_mosquitto_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([messages/1, tls/1, ipv6/1, keeps_alive/1, wrong_password/1, refused_topic/1]).

%% mosquitto, and the libraries that a bare Debian lacks
-define(PACKAGES, ["mosquitto", "libcjson1", "libdlt2", "libev4", "libuv1", "libwebsockets17",
                   "libwrap0"]).
-define(USERS, 10).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [messages, tls, ipv6, keeps_alive, wrong_password, refused_topic].

init_per_suite(Config) ->
    case loading:unpacked(?PACKAGES) of
        {ok, [Package | _] = Dirs} ->
            Dir = running:directory("mosquitto", Config),
            Environment = [loading:libraries(Dirs), {"HOME", Dir}],
            Program = filename:join(Package, "usr/sbin/mosquitto"),
            Passwords = filename:join(Package, "usr/bin/mosquitto_passwd"),
            %% The help of mosquitto ends with 3.
            case running:run(Program, ["-h"], #{env => Environment}) of
                {Code, <<"mosquitto version 2.", _/binary>>} when Code =:= 0; Code =:= 3 ->
                    started(Program, Passwords, Environment, Dir, Config);
                {_, Said} -> {skip, "mosquitto does not run here: " ++ binary_to_list(Said)}
            end;
        {error, Text} -> {skip, Text}
    end.

started(Program, Passwords, Environment, Dir, Config) ->
    PasswordFile = filename:join(Dir, "passwords"),
    ok = file:write_file(PasswordFile, "user:secret\n"),
    {0, _} = running:run(Passwords, ["-U", PasswordFile], #{env => Environment}),
    Start = fun(Ports) ->
                    File = configuration(Dir, Ports, PasswordFile),
                    Server = running:start(Program, ["-c", File], #{env => Environment}),
                    _ = running:until(Server, <<" running">>),
                    Server
            end,
    {[Plain, Tls, Ipv6, Ipv6Tls], Server} =
        running:on_free_ports(4, fun(Ports) -> loading:kept(fun() -> Start(Ports) end) end),
    [{dir, Dir}, {server, Server}, {plain, Plain}, {tls, Tls}, {ipv6, Ipv6}, {ipv6_tls, Ipv6Tls}
     | Config].

end_per_suite(Config) -> loading:stopped(proplists:get_value(server, Config)).

%% The users may not read the topics below `hidden'.
configuration(Dir, [Plain, Tls, Ipv6, Ipv6Tls], Passwords) ->
    Certificate = loading:certificate(Dir),
    File = filename:join(Dir, "mosquitto.conf"),
    Rights = filename:join(Dir, "rights"),
    ok = file:write_file(Rights, "user user\ntopic readwrite talk/#\n"),
    [ok = file:change_mode(Name, 8#644)
     || Name <- [Certificate, Certificate ++ ".cert", Passwords]],
    WithTls = ["certfile ", Certificate, ".cert\nkeyfile ", Certificate, "\n"],
    Listener = fun(Port, Address, More) ->
                       ["listener ", integer_to_list(Port), $\s, Address, $\n, More]
               end,
    ok = file:write_file(File, ["allow_anonymous false\npassword_file ", Passwords, "\nacl_file ",
                                Rights, "\nlog_dest stderr\nlog_type all\n",
                                ["user root\n" || os:cmd("id -u") =:= "0\n"],
                                Listener(Plain, "127.0.0.1", ""),
                                Listener(Tls, "127.0.0.1", WithTls),
                                [[Listener(Ipv6, "::1", ""), Listener(Ipv6Tls, "::1", WithTls)]
                                 || loading:has_ipv6()]]),
    File.

%% Each user listens to its own topic. It gets what a user sends there at random, on all levels. The
%% delivery counts from the sender's intended moment.
messages(Config) ->
    Result = load("mqtt", plain, "127.0.0.1",
                  "[connect, {login, \"c${id}\", \"user\", \"secret\"},"
                  " {subscribe, \"talk/${id}/#\", 2}, {wait, \"500 ms\"},"
                  " {repeat, 4, [{publish, \"talk/${random:10}/x\", \"hi ${sent}\"},"
                  "              {publish, \"talk/${random:10}/x\", \"hi ${sent}\", 1},"
                  "              {publish, \"talk/${random:10}/x\", \"hi ${sent}\", 2},"
                  "              {wait, \"50 ms\"}]},"
                  " {publish, \"talk/${id}/last\", \"the end\", 1}, {wait, \"1 s\"},"
                  " {unsubscribe, \"talk/${id}/#\"}, stay]", 0,
                  #{held => ?USERS, <<"delivery">> => 12 * ?USERS, <<"unsubscribe">> => ?USERS},
                  Config),
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []}, Result),
    #{<<"latencies">> := Latencies} = Result,
    ?assertEqual([{<<"connect">>, ?USERS}, {<<"delivery">>, 12 * ?USERS}, {<<"login">>, ?USERS},
                  %% Level 0 has no answer.
                  {<<"publish">>, 9 * ?USERS}, {<<"subscribe">>, ?USERS},
                  {<<"unsubscribe">>, ?USERS}],
                 lists:sort([{Step, Count} || {Step, #{<<"count">> := Count}}
                                                  <- maps:to_list(Latencies)])).

tls(Config) -> talks("mqtts", tls, "127.0.0.1", Config).

ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            talks("mqtt", ipv6, "[::1]", Config),
            talks("mqtts", ipv6_tls, "[::1]", Config);
        false -> {skip, "this machine has no ::1"}
    end.

talks(Scheme, Port, Host, Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := [],
                   <<"latencies">> := #{<<"expect">> := #{<<"count">> := ?USERS}}},
                 load(Scheme, Port, Host,
                      "[connect, {login, \"c${id}\", \"user\", \"secret\"},"
                      " {subscribe, \"talk/${id}\"}, {publish, \"talk/${id}\", \"hello\"},"
                      " {expect, \"talk/${id}\", \"he\"}, stay]", 0,
                      #{held => ?USERS, <<"expect">> => ?USERS}, Config)).

%% mosquitto ends a connection that is silent for one and a half times as long.
keeps_alive(Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load("mqtt", plain, "127.0.0.1",
                      "[connect, {login, \"c${id}\", \"user\", \"secret\"}, stay]", 0,
                      #{held => ?USERS}, [{more, "{keep_alive, \"1 s\"}."} | Config])).

%% A user sends its login and nothing else. mosquitto closes behind its answer, which counts.
wrong_password(Config) ->
    ?assertMatch(#{<<"held">> := 0, <<"events">> := #{<<"sent">> := ?USERS},
                   <<"errors">> := [#{<<"step">> := <<"login">>, <<"kind">> := <<"not_authorized">>,
                                      <<"count">> := ?USERS}]},
                 load("mqtt", plain, "127.0.0.1",
                      "[connect, {login, \"c${id}\", \"user\", \"wrong\"}, stay]", 1,
                      #{errors => ?USERS}, Config)).

%% mosquitto accepts the subscription and the message, and delivers nothing.
refused_topic(Config) ->
    ?assertMatch(#{<<"errors">> := [#{<<"step">> := <<"expect">>, <<"kind">> := <<"timeout">>,
                                      <<"count">> := ?USERS}]},
                 load("mqtt", plain, "127.0.0.1",
                      "[connect, {login, \"c${id}\", \"user\", \"secret\"},"
                      " {subscribe, \"hidden/#\"}, {publish, \"hidden/x\", \"a\"},"
                      " {expect, \"a\"}]", 1, #{<<"subscribe">> => ?USERS, errors => ?USERS},
                      [{more, "{timeout, \"1 s\"}."} | Config])).

load(Scheme, Port, Host, Steps, Code, Counts, Config) ->
    loading:load(proplists:get_value(dir, Config),
                 [io_lib:format("{target, \"~s://~s:~b\"}.~n"
                                "{phases, [{burst, ~b}, {soak, \"4 s\"}]}.~n",
                                [Scheme, Host, proplists:get_value(Port, Config), ?USERS]),
                  proplists:get_value(more, Config, ""), "\n"
                  "{users, [{all, 1, ", Steps, "}]}.\n{thresholds, [\"errors < 1\"]}.\n"], Code,
                 Counts).
