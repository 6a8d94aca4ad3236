%% Tests `whittle load' with a built agent. The server is a built relay.
-module(load_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([visitors/1, check/1, missed/1, json/1, several_agents/1, variables/1, example/1, results/1,
         page/1, terminal/1, closed_terminal/1, signals/1, second_signal/1, killed_coordinator/1,
         killed_agent/1, full_disk/1, wrong_arguments/1, wrong_scenario/1, no_server/1, ipv6/1,
         tls/1, remote/1]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [visitors, check, missed, json, several_agents, variables, example, results, page, terminal,
     closed_terminal, signals, second_signal, killed_coordinator, killed_agent, full_disk,
     wrong_arguments, wrong_scenario, no_server, ipv6, tls, remote].

init_per_suite(Config) ->
    ok = running:install_charts(),
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
    {_, Output, _} = users([], [], 0, Config),
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
    {_, Output, _} = users([{limit, "held >= 1000"}], [], 1, Config),
    ?assertMatch({match, _}, re:run(Output, "^held >= 1000 +20 +missed$", [multiline])),
    ?assertEqual(nomatch, re:run(Output, "whittle: (?!note: )")).

json(Config) ->
    {_, Output, Dir} = users([], ["--json", "--seed", "7"], 0, Config),
    [Line | _] = lists:reverse(binary:split(Output, <<"\n">>, [global, trim_all])),
    #{<<"events">> := Events, <<"held">> := 20, <<"latencies">> := Latencies, <<"vms">> := [Vm],
      <<"thresholds">> := [#{<<"met">> := true}], <<"directory">> := Directory,
      <<"page">> := Page} = jiffy:decode(Line, [return_maps]),
    ?assertEqual([Dir, filename:join(Dir, "page.html")],
                 [binary_to_list(Name) || Name <- [Directory, Page]]),
    ?assertMatch(#{<<"started">> := 20, <<"connected">> := 20, <<"sent">> := 20}, Events),
    ?assertMatch(#{<<"ask">> := #{<<"count">> := 20, <<"p99">> := P99, <<"p50">> := P50}}
                   when P99 >= P50, Latencies),
    %% The agent is small.
    #{<<"rss">> := Rss} = Vm,
    ?assert(Rss < 40_000_000).

several_agents(Config) ->
    {Result, _, _} = users([], ["--agents", "3"], 0, Config),
    ?assertMatch(#{<<"agents">> := 3, <<"lost">> := 0, <<"held">> := 20}, Result).

%% The variables of the caller are for the caller's programs. An agent has no code to read them.
variables(Config) ->
    Names = ["ERL_FLAGS", "ERL_AFLAGS", "ERL_OTP" ++ erlang:system_info(otp_release) ++ "_FLAGS",
             "VMARGS_PATH", "RELX_CONFIG_PATH"],
    Before = [{Name, os:getenv(Name)} || Name <- Names],
    [true = os:putenv(Name, case lists:suffix("PATH", Name) of
                                true -> "/nowhere";
                                false -> "-kernel net_ticktime 5"
                            end) || Name <- Names],
    try users([], [], 0, Config)
    after
        [case Value of
             false -> os:unsetenv(Name);
             _ -> os:putenv(Name, Value)
         end || {Name, Value} <- Before]
    end.

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

%% A run keeps its samples, and a report of them is the same. Another run does not replace it.
results(Config) ->
    Dir = filename:join(directory(Config), "kept"),
    {_, Output, Out} = users([], [], 0, Config),
    ?assertMatch({match, _}, re:run(Output, "^the page: " ++ Out ++ "/page.html$", [multiline])),
    ok = file:rename(Out, Dir),
    ?assertMatch({match, _}, re:run(Output, "^[0-9]+ s: 20 started, 20 held, 0 errors",
                                    [multiline])),
    ?assertEqual(["page.html", "phases.csv", "result.json", "run.json", "samples.jsonl",
                  "seconds.csv", "steps.csv"], lists:sort(element(2, file:list_dir(Dir)))),
    {ok, Result} = file:read_file(filename:join(Dir, "result.json")),
    ok = file:delete(filename:join(Dir, "result.json")),
    {0, Report} = running:whittle(["load", "report", Dir]),
    ?assertMatch({match, _}, re:run(Report, "^errors < 1 +0 +met$", [multiline])),
    ?assertEqual({ok, Result}, file:read_file(filename:join(Dir, "result.json"))),
    ?assertMatch({1, <<"whittle: ", _/binary>>}, load(scenario([], Config), ["-o", Dir])),
    {0, Compared} = running:whittle(["load", "compare", Dir, Dir]),
    ?assertMatch({match, _}, re:run(Compared, "^ask p99 +[0-9.]+ [a-z]+ +[0-9.]+ [a-z]+ +1.00$",
                                    [multiline])),
    ?assertMatch({1, <<"whittle: /nowhere holds no results of a run", _/binary>>},
                 running:whittle(["load", "report", "/nowhere"])),
    ?assertMatch({2, <<"whittle: `whittle load report' needs DIR", _/binary>>},
                 running:whittle(["load", "report"])),
    ?assertMatch({2, <<"whittle: `whittle load compare' needs two directories", _/binary>>},
                 running:whittle(["load", "compare", Dir])).

%% A browser shows all charts.
page(Config) ->
    Page = filename:join([directory(Config), "kept", "page.html"]),
    #{text := Shown} = Opened = pages:opened(Page),
    ?assertMatch(#{figures := 8}, Opened),
    [?assertMatch({Text, {_, _}}, {Text, binary:match(Shown, Text)})
     || Text <- [<<"All thresholds are met.">>, <<"90 %">>, <<"planned">>, <<"server">>]],
    {ok, Html} = file:read_file(Page),
    ?assertEqual(nomatch, binary:match(Html, <<"<script">>)).

%% On a terminal the view stands in one place, whatever its size is. Ctrl-C removes it, and the
%% results follow.
terminal(Config) ->
    [begin
         Dir = filename:join(directory(Config), "terminal-" ++ Columns),
         Run = on_terminal("stty -echo cols " ++ Columns ++ " rows 20; " ++ Setting, Dir, Config),
         Begin = running:until(Run, <<"server ">>),
         true = port_command(Run, [3]),
         {130, Rest} = running:ended(Run),
         Shown = <<Begin/binary, "server ", Rest/binary>>,
         %% Each line of the view ends so. It replaces what stood in its row before.
         Lines = [lists:last(binary:split(Part, [<<"\r">>, <<"\n">>], [global]))
                  || Part <- lists:droplast(binary:split(Shown, <<"\e[K\r\n">>, [global]))],
         Plain = [re:replace(Line, "\e\\[[0-9]*[A-Za-z]", "", [global, {return, binary}])
                  || Line <- Lines],
         ?assertMatch([_, _ | _], [1 || <<"users", _/binary>> <- Plain]),
         ?assertEqual([], [Line || Line <- Plain,
                                   string:length(Line) >= list_to_integer(Columns)]),
         ?assertEqual(HasColors, binary:match(Shown, <<"\e[32m">>) =/= nomatch),
         %% Behind the last view the terminal is as before.
         [After | _] = lists:reverse(binary:split(Shown, <<"\e[J">>, [global])),
         ?assertMatch({match, _}, re:run(After, "\nheld at the end +[0-9]+\r\n")),
         ?assertEqual(nomatch, binary:match(After, <<"\e[3">>))
     end || {Columns, Setting, HasColors} <- [{"80", "TERM=xterm NO_COLOR=", true},
                                              {"40", "TERM=xterm NO_COLOR=1", false}]],
    Dumb = on_terminal("TERM=dumb", filename:join(directory(Config), "terminal-dumb"), Config),
    Begin = running:until(Dumb, <<" s: ">>),
    true = port_command(Dumb, [3]),
    {130, Rest} = running:ended(Dumb),
    ?assertEqual(nomatch, binary:match(<<Begin/binary, Rest/binary>>, <<"\e">>)).

%% When the terminal closes, the run ends in order, and its code is that of the hangup. If the
%% tables go into a file, no report of OTP about the terminal gets there.
closed_terminal(Config) ->
    [begin
         Dir = filename:join(directory(Config), Name),
         Code = Dir ++ ".code",
         {0, _} = running:run("/usr/bin/env", ["mkfifo", Code]),
         Ended = running:start("/bin/cat", [Code]),
         Run = in_terminal(["stty -echo; (trap : HUP; exec 3>'", Code, "'; TERM=xterm ",
                            load_long(Dir, Config), Output, "; echo $? >&3); echo ended"]),
         _ = running:until(Run, <<"server ">>),
         ok = running:signal(Run, "KILL"),
         ?assertEqual({Name, <<"129">>}, {Name, running:line(Ended)}),
         {0, _} = running:ended(Ended),
         {_, _} = running:ended(Run),
         {ok, Json} = file:read_file(filename:join(Dir, "result.json")),
         ?assertMatch(#{<<"stopped">> := #{<<"reason">> := <<"asked">>}},
                      jiffy:decode(Json, [return_maps])),
         {ok, Tables} = case Output of
                            "" -> {ok, <<"users\n">>};
                            _ -> file:read_file(Dir ++ ".tables")
                        end,
         ?assertMatch({Name, <<"users\n", _/binary>>}, {Name, Tables}),
         ?assertEqual(nomatch, re:run(Tables, "REPORT|=ERROR|standard_error"))
     end || {Name, Output} <-
                [{"closed", ""},
                 {"closed-file", [" >'", directory(Config), "/closed-file.tables'"]}]],
    ok.

%% The first signal ends the run in order, and the results are there.
signals(Config) ->
    [begin
         Dir = filename:join(directory(Config), "stopped-" ++ Signal),
         Run = started(long(Config), Dir, Config),
         _ = running:until(Run, <<" s: ">>),
         ok = running:signal(Run, Signal),
         {Ended, Output} = running:ended(Run),
         ?assertEqual({Signal, Code}, {Signal, Ended}),
         [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline])})
          || Pattern <- ["^whittle: note: the run was stopped at second [0-9]+ of 60: ",
                         "^held at the end +[0-9]+$", "^the page: "]],
         ?assertEqual(nomatch, binary:match(Output, <<"left no unfinished files">>)),
         {ok, Json} = file:read_file(filename:join(Dir, "result.json")),
         ?assertMatch(#{<<"stopped">> := #{<<"reason">> := <<"asked">>}},
                      jiffy:decode(Json, [return_maps])),
         ?assertEqual("", agents(Config))
     end || {Signal, Code} <- [{"INT", 130}, {"QUIT", 131}, {"TERM", 143}, {"HUP", 129}]].

%% The agent does not answer, so the run waits for it. The second signal ends the run at once.
second_signal(Config) ->
    Dir = filename:join(directory(Config), "at-once"),
    Run = started(long(Config), Dir, Config),
    _ = running:until(Run, <<" s: ">>),
    [Agent] = string:lexemes(agents(Config), "\n"),
    "" = os:cmd("kill -STOP " ++ Agent),
    ok = running:signal(Run, "INT"),
    ok = running:signal(Run, "TERM"),
    ?assertMatch({130, _}, running:ended(Run)),
    %% The kernel continues a stopped process whose parents have ended.
    _ = os:cmd("kill -CONT " ++ Agent),
    ok = gone(Agent),
    ?assertMatch({1, _}, running:whittle(["load", "report", Dir])),
    ?assert(filelib:is_file(filename:join(Dir, "page.html"))).

%% Somebody kills the VM of the coordinator. Its agents end, and its samples are there.
killed_coordinator(Config) ->
    Dir = filename:join(directory(Config), "killed"),
    Run = started(long(Config), Dir, Config),
    _ = running:until(Run, <<" s: ">>),
    [Agent] = string:lexemes(agents(Config), "\n"),
    {os_pid, Script} = erlang:port_info(Run, os_pid),
    "" = os:cmd("pkill -KILL -P " ++ integer_to_list(Script) ++ " beam"),
    ?assertMatch({137, _}, running:ended(Run)),
    ok = gone(Agent),
    {1, Output} = running:whittle(["load", "report", Dir]),
    ?assertMatch({match, _}, re:run(Output, "^whittle: note: the samples end at second [0-9]+ of "
                                    "60, because the run was killed", [multiline])).

%% Somebody kills one of two agents. The other one goes on, and the result says so.
killed_agent(Config) ->
    Dir = filename:join(directory(Config), "one-left"),
    File = scenario([{limit, "started > 0"}, {soak, "59 s"}], Config),
    Run = started(File, Dir, ["--agents", "2"], Config),
    _ = running:until(Run, <<" 20 held,">>),
    [Agent, _] = string:lexemes(agents(Config), "\n"),
    "" = os:cmd("kill -KILL " ++ Agent),
    _ = running:until(Run, <<" ended too soon (exit code 137)">>),
    ok = running:signal(Run, "INT"),
    {130, Output} = running:ended(Run),
    ?assertMatch({match, _}, re:run(Output, "^whittle: note: agent [12] of 2 ended too soon: ",
                                    [multiline])),
    ?assertMatch({match, _}, re:run(Output, "^held at the end +10$", [multiline])),
    ?assertMatch({1, _}, running:whittle(["load", "report", Dir])).

%% The disk becomes full during the run: one line says so, and the samples up to there are there.
full_disk(Config) ->
    Disk = filename:join(directory(Config), "disk"),
    ok = filelib:ensure_path(Disk),
    Line = "mount -t tmpfs -o size=12k none '" ++ Disk ++ "' || { echo no disk; exit 99; }; "
        "\"$@\"; "
        "code=$?; wc -l <'" ++ Disk ++ "/full/samples.jsonl'; exit $code",
    case running:run(os:find_executable("unshare"),
                     ["--mount", "--map-root-user", "/bin/sh", "-c", Line, "sh",
                      filename:join(running:root(), "whittle"), "load", long(Config), "-o",
                      filename:join(Disk, "full")], #{env => keep}) of
        {99, Said} -> {skip, binary_to_list(Said)};
        {Code, Output} ->
            ?assertEqual({1, Output}, {Code, Output}),
            ?assertMatch({match, [_]}, re:run(Output, "samples.jsonl cannot be written", [global])),
            ?assertMatch({match, _}, re:run(Output, "^whittle: note: the run was stopped at second "
                                            "[0-9]+ of 60, because .*no space left", [multiline])),
            ?assertMatch({match, _}, re:run(Output, "^held at the end +[0-9]+$", [multiline])),
            ?assertMatch({match, _}, re:run(Output, "\n[1-9][0-9]*\n$"))
    end.

wrong_arguments(Config) ->
    File = scenario([], Config),
    ?assertMatch({2, <<"whittle: unexpected argument `c'", _/binary>>},
                 running:whittle(["load", "a", "b", "c"])),
    ?assertEqual({2, <<"whittle: `whittle load' needs SCENARIO; see `whittle help load'\n">>},
                 running:whittle(["load"])),
    ?assertEqual({2, <<"whittle: --agents cannot be `0'; give a whole number from 1 to 1000\n">>},
                 load(File, ["--agents", "0"])),
    ?assertMatch({2, <<"whittle: --seed cannot be `x'; give a whole number", _/binary>>},
                 load(File, ["--seed", "x"])),
    %% RFC 5737 keeps this address for documents.
    ok = file:write_file(File, "{sources, [\"127.0.0.1\", \"192.0.2.77\"]}.\n", [append]),
    [?assertMatch({1, <<"whittle: this machine does not have the address 192.0.2.77 of `sources' (",
                        _/binary>>}, Run)
     || Run <- [load(File, []), running:whittle(["load", "check", File])]].

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
    ?assertMatch({match, _}, re:run(Output, "^econnrefused +connect +20$", [multiline])),
    ?assertMatch({match, _}, re:run(Output, "^whittle: note: no user could connect \\(connect, 20 "
                                    "times: econnrefused\\): start the server", [multiline])).

%% The agent gets IPv6 only if the server's address needs it. The check counts the ports of ::1.
ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            Port = echo({0, 0, 0, 0, 0, 0, 0, 1}, gen_tcp, []),
            Changes = [{host, "[::1]"}, {port, integer_to_list(Port)}],
            _ = users(Changes, [], 0, Config),
            File = scenario(Changes, Config),
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
         users([{scheme, "tls"}, {host, Host}, {port, integer_to_list(Port)}], [], 0, Config)
     end || {Address, Host} <- [{{127, 0, 0, 1}, "127.0.0.1"}
                                | [{{0, 0, 0, 0, 0, 0, 0, 1}, "[::1]"} || loading:has_ipv6()]]].

%% Starts a server that sends back what it gets.
echo(Address, Module, Options) ->
    loading:server(Module, Address, Options, fun(Socket) -> serve(Module, Socket) end).

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

%% Without -o, the results would lie beside the logs.
load(File, Options) ->
    Out = case lists:member("-o", Options) of
              true -> [];
              false -> ["-o", File ++ integer_to_list(erlang:unique_integer([positive]))]
          end,
    running:whittle(["load", File | Out ++ Options]).

directory(Config) -> proplists:get_value(dir, Config).

%% Starts a run whose agents lie in a directory of the test, so that the test finds them.
started(File, Dir, Config) -> started(File, Dir, [], Config).

started(File, Dir, Options, Config) ->
    Temporary = filename:join(directory(Config), "tmp"),
    ok = filelib:ensure_path(Temporary),
    running:start("/usr/bin/env",
                  ["--default-signal=INT,HUP,TERM", "TMPDIR=" ++ Temporary,
                   filename:join(running:root(), "whittle"), "load", File, "-o", Dir | Options],
                  #{env => keep}).

%% script(1) makes the terminal. The parent of this VM may ignore SIGINT, which a shell cannot
%% trap.
on_terminal(Setting, Dir, Config) -> in_terminal([Setting, " ", load_long(Dir, Config)]).

in_terminal(Line) ->
    running:start("/usr/bin/env", ["--default-signal=INT,HUP,QUIT", "script", "-qefc",
                                   lists:flatten(Line), "/dev/null"], #{env => keep}).

load_long(Dir, Config) ->
    ["'", filename:join(running:root(), "whittle"), "' load '", long(Config), "' -o '", Dir, "'"].

agents(Config) ->
    os:cmd("pgrep -f '^" ++ filename:join(directory(Config), "tmp") ++ "/whittle-load'").

gone(Pid) ->
    case os:cmd("kill -0 " ++ Pid ++ " 2>&1") of
        "" -> gone(Pid);
        _ -> ok
    end.

long(Config) ->
    File = filename:join(directory(Config), "long.load"),
    ok = file:write_file(File, ["{target, \"tcp://127.0.0.1:", proplists:get_value(port, Config),
                                "\"}.\n{phases, [{hold, 20, \"60 s\"}]}.\n"
                                "{users, [{all, 1, [connect, {ask, \"hi ${id}\", \"hi ${id}\"},"
                                " stay]}]}.\n{thresholds, [\"held >= 100000\"]}.\n"]),
    File.

%% Runs twenty users, who must all be there at the end with their answers.
users(Changes, Options, Code, Config) ->
    {#{<<"held">> := 20}, _, _} =
        loading:shown(directory(Config), twenty(Changes, Config), Options, Code,
                      #{held => 20, <<"ask">> => 20}).

scenario(Changes, Config) ->
    File = filename:join(directory(Config), "twenty.load"),
    ok = file:write_file(File, twenty(Changes, Config)),
    File.

%% Twenty users at once, each with one question
twenty(Changes, Config) ->
    Host = proplists:get_value(host, Changes, "127.0.0.1"),
    Port = proplists:get_value(port, Changes, proplists:get_value(port, Config)),
    Limit = proplists:get_value(limit, Changes, "errors < 1"),
    Scheme = proplists:get_value(scheme, Changes, "tcp"),
    ["{target, \"", Scheme, "://", Host, $:, Port, "\"}.\n"
     "{phases, [{burst, 20}, {soak, \"", proplists:get_value(soak, Changes, "3 s"), "\"}]}.\n"
     "{users, [{all, 1, [connect, {ask, \"hi ${id}\", \"hi ${id}\"}, stay]}]}.\n"
     "{thresholds, [\"", Limit, "\"]}.\n"].
