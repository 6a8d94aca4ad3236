%% Tests `whittle load' with a built agent. The server is a built relay.
-module(load_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([visitors/1, check/1, missed/1, json/1, several_agents/1, example/1, wrong_arguments/1,
         wrong_scenario/1, no_server/1, ipv6/1, tls/1, remote/1]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [visitors, check, missed, json, several_agents, example, wrong_arguments, wrong_scenario,
     no_server, ipv6, tls, remote].

init_per_suite(Config) ->
    Dir = running:directory("load", Config),
    Relay = running:build(running:example("relay"), filename:join(Dir, "relay"), []),
    ok = file:write_file(filename:join(Dir, "sys.config"), "[{relay, [{port, 0}]}].\n"),
    [{dir, Dir}, {relay, Relay} | Config].

end_per_suite(_) -> ok.

init_per_testcase(_, Config) ->
    Relay = running:start(proplists:get_value(relay, Config), [],
                          #{env => [{"RELX_CONFIG_PATH",
                                     filename:join(proplists:get_value(dir, Config),
                                                   "sys.config")}]}),
    {match, [Port]} = re:run(running:line(Relay), "[0-9]+$", [{capture, first, list}]),
    [{server, Relay}, {port, Port} | Config].

end_per_testcase(_, Config) ->
    Relay = proplists:get_value(server, Config),
    ok = running:signal(Relay, "TERM"),
    {0, _} = running:ended(Relay),
    ok.

visitors(Config) ->
    {0, Output} = load(scenario([], Config), []),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
     || Pattern <- ["^started +20$", "^connected +20$", "^held at the end +20$",
                    "^latency +count +mean +p50 +p90 +p99 +p99.9 +max$", "^ask +20 +[0-9.]+ ",
                    "^connect +20 +[0-9.]+ ", "^errors < 1 +0 +met$"]].

%% A check starts no user. The second one needs more than any machine has.
check(Config) ->
    {0, Output} = running:whittle(["load", "check", scenario([], Config)]),
    ?assertMatch({match, _}, re:run(Output, "^users at once, at most +20\nagents +1$",
                                    [multiline])),
    ?assertMatch({match, _}, re:run(Output, "^descriptors of an agent +84 +[0-9,]+ +enough$",
                                    [multiline])),
    File = filename:join(proplists:get_value(dir, Config), "many.load"),
    ok = file:write_file(File, "{target, \"tcp://127.0.0.1:1\"}. {phases, [{burst, 90000000}]}. "
                               "{users, [{a, 1, [connect]}]}."),
    ?assertMatch({1, _}, running:whittle(["load", "check", File, "--json"])),
    ?assertMatch({2, <<"whittle: `whittle load check' needs SCENARIO", _/binary>>},
                 running:whittle(["load", "check"])).

%% A missed threshold is a result, and no error.
missed(Config) ->
    {1, Output} = load(scenario([{limit, "held >= 1000"}], Config), []),
    ?assertMatch({match, _}, re:run(Output, "^held >= 1000 +20 +missed$", [multiline])),
    ?assertEqual(nomatch, re:run(Output, "whittle: ")).

json(Config) ->
    {0, Output} = load(scenario([], Config), ["--json", "--seed", "7"]),
    [Line | _] = lists:reverse(binary:split(Output, <<"\n">>, [global, trim_all])),
    #{<<"events">> := Events, <<"held">> := 20, <<"latencies">> := Latencies, <<"vms">> := [Vm],
      <<"thresholds">> := [#{<<"met">> := true}]} = jiffy:decode(Line, [return_maps]),
    ?assertMatch(#{<<"started">> := 20, <<"connected">> := 20, <<"sent">> := 20}, Events),
    ?assertMatch(#{<<"ask">> := #{<<"count">> := 20, <<"p99">> := P99, <<"p50">> := P50}}
                   when P99 >= P50, Latencies),
    %% The agent is small.
    #{<<"rss">> := Rss} = Vm,
    ?assert(Rss < 40_000_000).

several_agents(Config) ->
    {0, Output} = load(scenario([], Config), ["--agents", "3", "--json"]),
    ?assertMatch(#{<<"agents">> := 3, <<"lost">> := 0, <<"held">> := 20},
                 jiffy:decode(lists:last(binary:split(Output, <<"\n">>, [global, trim_all])),
                              [return_maps])).

%% The shipped example is a scenario; its run would take half a minute.
example(Config) ->
    {ok, Text} = file:read_file(filename:join(running:example("relay"), "visitors.load")),
    Short = lists:foldl(fun({Old, New}, Now) -> string:replace(Now, Old, New) end, Text,
                        [{"7000", proplists:get_value(port, Config)}, {"\"5 s\"", "\"1 s\""},
                         {"\"10 s\"}, {soak, \"10 s\"", "\"1 s\"}, {soak, \"1 s\""},
                         {"held >= 100", "held >= 5"}, {"p99 ask < 50 ms", "started > 5"}]),
    File = filename:join(proplists:get_value(dir, Config), "short.load"),
    ok = file:write_file(File, Short),
    {0, Output} = running:whittle(["load", File]),
    ?assertMatch({match, _}, re:run(Output, "^errors < 0.1 % +0.00 % +met$", [multiline])).

wrong_arguments(Config) ->
    File = scenario([], Config),
    ?assertEqual({2, <<"whittle: `whittle load' needs SCENARIO; see `whittle help load'\n">>},
                 running:whittle(["load"])),
    ?assertEqual({2, <<"whittle: --agents cannot be `0'; give a whole number from 1 to 1000\n">>},
                 load(File, ["--agents", "0"])),
    ?assertMatch({2, <<"whittle: --seed cannot be `x'; give a whole number", _/binary>>},
                 load(File, ["--seed", "x"])).

%% The error names line and column, and a near word.
wrong_scenario(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "wrong.load"),
    ok = file:write_file(File, "{target, \"tcp://127.0.0.1:1\"}.\n{phasen, []}.\n"),
    {1, Output} = load(File, []),
    ?assertMatch({match, _}, re:run(Output, "^whittle: .*wrong.load:2:.*phases")),
    {1, Unread} = load(File ++ ".no", []),
    ?assertMatch({match, _}, re:run(Unread, "^whittle: .*wrong.load.no cannot be read ")).

%% The users fail; the run itself does not.
no_server(Config) ->
    {1, Output} = load(scenario([{port, integer_to_list(running:free_port())}], Config), []),
    ?assertMatch({match, _}, re:run(Output, "^econnrefused +connect +20$", [multiline])).

%% The agent gets IPv6 only if the server's address needs it. The check counts the ports of ::1.
ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            Port = echo({0, 0, 0, 0, 0, 0, 0, 1}, gen_tcp, []),
            File = scenario([{host, "[::1]"}, {port, integer_to_list(Port)}], Config),
            {0, Output} = load(File, []),
            ?assertMatch({match, _}, re:run(Output, "^held at the end +20$", [multiline])),
            {0, Check} = running:whittle(["load", "check", File]),
            ?assertMatch({match, _}, re:run(Check, "^local ports of an address +20 ",
                                            [multiline])),
            ok = file:write_file(File, "{sources, [\"127.0.0.1\"]}.\n", [append]),
            ?assertEqual({1, <<"whittle: no user can connect from 127.0.0.1 to ::1: `sources' must "
                               "be IPv6 addresses like the server's\n">>}, load(File, []));
        false -> {skip, "this machine has no ::1"}
    end.

tls(Config) ->
    Certificate = loading:certificate(proplists:get_value(dir, Config)),
    {ok, _} = application:ensure_all_started(ssl),
    [begin
         Port = echo(Address, ssl, [{certfile, Certificate}, {keyfile, Certificate}]),
         {0, Output} = load(scenario([{scheme, "tls"}, {host, Host},
                                      {port, integer_to_list(Port)}], Config), []),
         ?assertMatch({match, _}, re:run(Output, "^held at the end +20$", [multiline]))
     end || {Address, Host} <- [{{127, 0, 0, 1}, "127.0.0.1"}
                                | [{{0, 0, 0, 0, 0, 0, 0, 1}, "[::1]"} || loading:has_ipv6()]]].

%% Starts a server that sends back what it gets, and ends with the test.
echo(Address, Module, Options) ->
    Test = self(),
    Family = case tuple_size(Address) of 8 -> [inet6]; 4 -> [inet] end,
    spawn_link(fun() ->
                       {ok, Socket} = Module:listen(0, Family ++ Options
                                                    ++ [binary, {ip, Address}, {active, false},
                                                        {backlog, 100}]),
                       {ok, {_, Port}} = case Module of
                                             gen_tcp -> inet:sockname(Socket);
                                             ssl -> ssl:sockname(Socket)
                                         end,
                       Test ! {port, Port},
                       accept(Module, Socket)
               end),
    receive {port, Port} -> Port end.

%% A process for each connection takes the next one before it serves its own.
accept(gen_tcp, Socket) ->
    {ok, Client} = gen_tcp:accept(Socket),
    Pid = spawn_link(fun() -> receive go -> serve(gen_tcp, Client) end end),
    ok = gen_tcp:controlling_process(Client, Pid),
    Pid ! go,
    accept(gen_tcp, Socket);
accept(ssl, Socket) ->
    {ok, New} = ssl:transport_accept(Socket),
    Pid = spawn_link(fun() ->
                             receive go -> ok end,
                             {ok, Client} = ssl:handshake(New),
                             serve(ssl, Client)
                     end),
    ok = ssl:controlling_process(New, Pid),
    Pid ! go,
    accept(ssl, Socket).

serve(Module, Socket) ->
    case Module:recv(Socket, 0) of
        {ok, Bytes} ->
            _ = Module:send(Socket, Bytes),
            serve(Module, Socket);
        {error, _} -> ok
    end.

%% No byte goes to another machine without the option.
remote(Config) ->
    {1, Output} = load(scenario([{host, "192.0.2.1"}], Config), []),
    ?assertMatch({match, _}, re:run(Output, "^whittle: .*192.0.2.1.*--allow-remote")).

load(File, Options) -> running:whittle(["load", File | Options]).

%% Twenty users within half a second, each with one question
scenario(Changes, Config) ->
    File = filename:join(proplists:get_value(dir, Config), "users.load"),
    Host = proplists:get_value(host, Changes, "127.0.0.1"),
    Port = proplists:get_value(port, Changes, proplists:get_value(port, Config)),
    Limit = proplists:get_value(limit, Changes, "errors < 1"),
    Scheme = proplists:get_value(scheme, Changes, "tcp"),
    ok = file:write_file(File, ["{target, \"", Scheme, "://", Host, $:, Port, "\"}.\n"
                                "{arrivals, constant}.\n"
                                "{phases, [{hold, 40, \"500 ms\"}, {soak, \"3 s\"}]}.\n"
                                "{users, [{all, 1, [connect, {ask, \"hi ${id}\", \"hi ${id}\"},"
                                " stay]}]}.\n"
                                "{thresholds, [\"", Limit, "\"]}.\n"]),
    File.
