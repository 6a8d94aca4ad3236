%% Tests the numbers of the studies `connections' and `sockets', and the scripts that they run.
-module(whittle_measure_connections_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0]).
-export([plans/1, wrong_plans/1, scenarios/1, through_a_link/1, samples/1, damaged_samples/1,
         other_bytes/1, groups/1, processes/1, held/1, held_in_any_order/1, whole_run/1,
         missing_numbers/1,
         patterns_of_studies/1, stage/1, stage_refuses/1, drive_refuses/1, link/1,
         link_refuses/1]).

-import(whittle_measure_connections,
        [scenario/2, through/2, seconds/1, group/1, cpu/1, rss/1, numbers/4, held/2]).

all() ->
    [plans, wrong_plans, scenarios, through_a_link, samples, damaged_samples, other_bytes, groups,
     processes, held, held_in_any_order, whole_run, missing_numbers, patterns_of_studies, stage,
     stage_refuses,
     drive_refuses, link, link_refuses].

plans(_) ->
    ?assertEqual({ok, #{users => 2000, rate => 500, arrivals => 4, from => 7, window => 12,
                        within => 1000, delivery => <<"delivery">>}}, plan([])),
    ?assertMatch({ok, #{users := 11, rate := 5, arrivals := 3, from := 2, delivery := <<"get">>}},
                 plan([{"USERS", "11"}, {"RATE", "5"}, {"FROM", "2"}, {"DELIVERY", "get"}])),
    ?assertMatch({ok, #{from := 0}}, plan([{"FROM", "0"}])).

wrong_plans(_) ->
    [?assertEqual({Name, Value, Line}, {Name, Value, refused(plan([{Name, Value}]))})
     || {Name, Value, Line} <-
            [{"USERS", "0", "USERS is `0': give a whole number from 1 to 1000000"},
             {"USERS", "many", "USERS is `many': give a whole number from 1 to 1000000"},
             {"RATE", "5 ", "RATE is `5 ': give a whole number from 1 to 100000"},
             {"WINDOW", "", "WINDOW is `': give a whole number from 1 to 3600"},
             {"FROM", "-1", "FROM is `-1': give a whole number from 0 to 1100000"},
             {"FROM", "x", "FROM is `x': give a whole number from 0 to 1100000"}]].

refused({error, Line}) -> lists:flatten(Line);
refused(Other) -> Other.

plan(Variables) ->
    whittle_measure_connections:plan(fun(Name) -> proplists:get_value(Name, Variables, false) end).

scenarios(_) ->
    ?assertEqual(<<"10 users, 10 s, @OTHER@">>,
                 scenario(<<"@USERS@ users, @USERS@ s, @OTHER@">>,
                                             [{"USERS", "10"}])).

%% The users connect to the link, and the link to the server.
through_a_link(_) ->
    ?assertEqual({ok, 5222, <<"% x\n{target, \"xmpp://127.0.0.1:9\"}.\n{a, \"b:5222\"}.\n">>},
                 through(9, <<"% x\n{target, \"xmpp://127.0.0.1:5222\"}.\n{a, \"b:5222\"}.\n">>)),
    ?assertEqual(error, through(9, <<"{target, \"xmpp://localhost\"}.\n">>)).

samples(_) ->
    Bytes = iolist_to_binary([line(0, 5, 0, []), line(1, 2, 3, [[960, 2], [1000, 1]]),
                              "{\"end\":{\"lost\":[],\"stopped\":null}}\n"]),
    ?assertEqual({ok, [#{second => 0, connected => 5, held => 5, latencies => #{}},
                       #{second => 1, connected => 2, held => -1,
                         latencies => #{<<"delivery">> => [{0, 1}, {960, 2}, {1000, 1}]}}]},
                 seconds(Bytes)),
    ?assertEqual({ok, []}, seconds(<<>>)),
    %% A line that a crash cut is no sample.
    {ok, [_]} = seconds(binary:part(Bytes, 0, byte_size(Bytes) div 2)).

%% A line as `whittle load' writes it, with one latency of 0.
line(At, Connected, Released, Buckets) ->
    Latencies = case Buckets of
                    [] -> "{}";
                    _ -> ["{\"delivery\":{\"count\":1,\"sum\":1,\"zeros\":1,\"buckets\":",
                          io_lib:format("~w", [Buckets]), "}}"]
                end,
    io_lib:format("{\"second\":~b,\"events\":{\"connected\":~b,\"held\":~b,\"released\":~b},"
                  "\"latencies\":~s,\"errors\":[]}~n",
                  [At, Connected, Connected, Released, Latencies]).

damaged_samples(_) ->
    Good = iolist_to_binary(line(0, 1, 0, [])),
    [?assertEqual({Line, {error, 2}},
                  {Line, seconds(<<Good/binary, Line/binary, "\n">>)})
     || Line <- [<<>>, <<"{">>, <<"[]">>, <<"7">>, <<"{\"second\":1}">>,
                 <<"{\"second\":-1,\"events\":{},\"latencies\":{}}">>,
                 <<"{\"second\":1,\"events\":{\"held\":-2},\"latencies\":{}}">>,
                 <<"{\"second\":1,\"events\":{},\"latencies\":{\"a\":{\"zeros\":0}}}">>,
                 <<"{\"second\":1,\"events\":{},\"latencies\":{\"a\":{\"zeros\":0,"
                   "\"buckets\":[[1,2],[3]]}}}">>,
                 <<"{\"second\":1,\"events\":{},\"latencies\":{\"a\":{\"zeros\":0,"
                   "\"buckets\":[[100000,2]]}}}">>]].

%% Bytes from outside never end in a crash.
other_bytes(_) ->
    Good = iolist_to_binary([line(N, 3, 1, [[900, 2]]) || N <- lists:seq(0, 3)]),
    Damaged = ?LET({At, Bytes}, {choose(0, byte_size(Good) - 1), binary()},
                   begin
                       <<Head:At/binary, _, Tail/binary>> = Good,
                       <<Head/binary, Bytes/binary, Tail/binary>>
                   end),
    property(?FORALL(Bytes, oneof([binary(), Damaged]),
                     begin
                         _ = group(Bytes),
                         _ = rss(Bytes),
                         true = cpu([Bytes]) >= 0,
                         case seconds(Bytes) of
                             {ok, Seconds} -> is_list(Seconds);
                             {error, Line} -> Line > 0
                         end
                     end)).

groups(_) ->
    ?assertEqual({ok, <<"whittle-study-7">>},
                 group(<<"12:cpu,cpuacct:/a\n9:memory:/whittle-study-7\n0::/b\n">>)),
    ?assertEqual({ok, <<"a/b">>}, group(<<"3:memory,hugetlb:/a/b\n">>)),
    ?assertEqual(none, group(<<"0::/user.slice\n">>)),
    %% The group of all processes is none of the server's own.
    ?assertEqual(none, group(<<"9:memory:/\n">>)).

processes(_) ->
    ?assertEqual(17, cpu([<<"12 3 4\n">>, <<"5 0 1\n">>, <<>>, <<"-1 2\n">>])),
    ?assertEqual(2048, rss(<<"7f-7f ---p [rollup]\nRss:    2 kB\nPss: 1 kB\n">>)),
    ?assertEqual(0, rss(<<>>)).

%% Five seconds with more than 1 % of late messages end the count.
held(_) ->
    Second = fun(At, Held, InTime, Late) ->
                     #{second => At, connected => Held, held => Held,
                       latencies => #{<<"delivery">> => [{900, InTime} || InTime > 0]
                                          ++ [{960, Late} || Late > 0]}}
             end,
    {ok, Plan} = plan([]),
    Good = [Second(At, 10, 100, 0) || At <- lists:seq(0, 9)],
    ?assertEqual(100, held(Plan, Good)),
    %% Users who leave are not held.
    ?assertEqual(100, held(Plan, Good ++ [Second(10, -40, 100, 0)])),
    ?assertEqual(100, held(Plan, Good ++ [Second(10, 10, 0, 100)])),
    %% Five late ones of 500 are 1 %, and six are more.
    ?assertEqual(110, held(Plan, Good ++ [Second(10, 10, 95, 5)])),
    ?assertEqual(100, held(Plan, Good ++ [Second(10, 10, 94, 6)])),
    %% They never count again.
    ?assertEqual(100, held(Plan, Good ++ [Second(10, 10, 0, 100)]
                                              ++ [Second(At, 10, 100, 0)
                                                  || At <- lists:seq(11, 30)])),
    ?assertEqual(0, held(Plan, [])).

%% The users that are held are never more than those that came.
held_in_any_order(_) ->
    {ok, Plan} = plan([]),
    Second = ?LET({Held, InTime, Late}, {integer(), non_neg_integer(), non_neg_integer()},
                  #{second => 0, connected => abs(Held), held => Held,
                    latencies => #{<<"delivery">> => [{900, InTime + 1}, {960, Late + 1}]}}),
    property(?FORALL(Seconds, list(Second),
                     begin
                         Held = held(Plan, Seconds),
                         Held >= 0 andalso
                             Held =< lists:sum([Each || #{connected := Each} <- Seconds])
                     end)).

property(Property) ->
    ?assert(proper:quickcheck(Property, [quiet, {numtests, 200}, {to_file, user}])).

%% Ten users come in the first second. In the seconds 4 and 5, the server takes 3 ms of CPU time.
whole_run(_) ->
    {ok, Plan} = plan([{"USERS", "10"}, {"RATE", "10"}, {"WINDOW", "2"}]),
    ?assertMatch(#{from := 4}, Plan),
    Seconds = [#{second => At, connected => case At of 0 -> 10; _ -> 0 end,
                 held => case At of 0 -> 10; _ -> 0 end,
                 latencies => #{<<"delivery">> => [{Bucket, 98}, {900, 2}]}}
               || {At, Bucket} <- [{0, 1000}, {1, 640}, {2, 640}, {3, 640}, {4, 640}, {5, 640}]],
    Readings = [#{second => At, cpu => 1_500_000 * At, rss => 1000 + 100 * At,
                  kernel => 50 + 10 * At} || At <- lists:seq(0, 6)],
    Numbers = numbers(Plan, hd(Readings), Readings, Seconds),
    ?assertEqual([{cpu_time, 150.0}, {kernel, 6.0}, {memory, 66.0}, {memory_all, 1710}],
                 lists:sort([Number || {Name, _} = Number <- Numbers,
                                       lists:member(Name, [cpu_time, kernel, memory,
                                                           memory_all])])),
    ?assertEqual(10, proplists:get_value(held, Numbers)),
    ?assertEqual(1.048576, proplists:get_value(latency_p50, Numbers)),
    ?assert(proplists:get_value(latency_p99, Numbers) > 250),
    %% Connections that come during the window.
    Short = [#{second => At, connected => 5, held => 0, latencies => #{}} || At <- [4, 5]],
    ?assertEqual(300.0, proplists:get_value(cpu_of_connection,
                                            numbers(Plan, hd(Readings), Readings,
                                                                       Short))).

%% A run without control groups, without its last seconds, or without messages lacks numbers.
missing_numbers(_) ->
    {ok, Plan} = plan([{"USERS", "1"}, {"RATE", "1"}, {"FROM", "1"}, {"WINDOW", "1"}]),
    Second = #{second => 0, connected => 1, held => 1, latencies => #{}},
    Reading = fun(At, Kernel) -> #{second => At, cpu => At, rss => 9, kernel => Kernel} end,
    Names = fun(Readings) ->
                    [Name || {Name, _} <- numbers(Plan, Reading(0, none),
                                                                     Readings, [Second])]
            end,
    ?assertEqual([held, cpu_time], Names([Reading(1, none), Reading(2, none)])),
    ?assertEqual([held], Names([Reading(1, 5)])),
    ?assertEqual([held], Names([])),
    %% Readings of one moment have no time between them.
    ?assertEqual([held], Names([Reading(2, none)])).

%% Each number that a study reads is one that the workload prints.
patterns_of_studies(_) ->
    Numbers = [{Name, 1.5} || Name <- [cpu_time, cpu_of_connection, memory, memory_all, kernel,
                                       latency_p50, latency_p99]] ++ [{held, 15}],
    Text = iolist_to_binary(whittle_measure_connections:text(Numbers)),
    [begin
         {ok, #{responses := Responses}} = whittle_measure:study(Study, []),
         [?assertMatch({Study, Name, {ok, Value}} when Value =:= 1.5; Value =:= 15,
                       {Study, Name, whittle_measure_response:value(Response,
                                                                    #{reported => Text})})
          || #{name := Name} = Response <- Responses]
     end || Study <- ["connections", "held", "sockets"]].

%% The server is in a network namespace and in control groups of its own, which end with it.
stage(_) ->
    case can_stage() of
        true ->
            {0, Said} = staged([{"STAGE_WINDOW", "8192"}, {"STAGE_CPUS", "1"},
                                {"STAGE_MEMORY", "50000000"}],
                               ["/bin/sh", "-c",
                                "cat /proc/sys/net/ipv4/tcp_rmem; ls /sys/class/net >/dev/null; "
                                "cat /proc/self/cgroup; "
                                "cat /sys/fs/cgroup/memory/whittle-study-$$/memory.limit_in_bytes "
                                "/sys/fs/cgroup/cpu/whittle-study-$$/cpu.cfs_quota_us; "
                                "ulimit -n; ulimit -Hn"]),
            Lines = binary:split(Said, <<"\n">>, [global, trim]),
            ?assertEqual(<<"8192\t8192\t8192">>, hd(Lines)),
            {ok, Group} = group(Said),
            ?assertMatch([Hard, Hard, <<"100000">>, Limit | _]
                           when Limit =:= <<"49999872">>, lists:reverse(Lines)),
            gone(["/sys/fs/cgroup/memory/", Group], 200);
        false -> {skip, "this needs root, unshare and control groups of version 1"}
    end.

can_stage() ->
    filelib:is_dir("/sys/fs/cgroup/memory") andalso
        element(1, whittle_program:run("/bin/sh",
                                       ["-c", "test \"$(id -u)\" = 0 && unshare -n true && "
                                        "command -v ip && mkdir /sys/fs/cgroup/memory/whittle-$$ "
                                        "&& rmdir /sys/fs/cgroup/memory/whittle-$$"], #{})) =:= 0.

%% The script that removes the groups looks five times in a second.
gone(Dir, Left) when Left > 0 ->
    case filelib:is_dir(Dir) of
        true -> receive after 50 -> gone(Dir, Left - 1) end;
        false -> ok
    end.

%% Without root, a limit cannot be kept. Without a limit, the server runs.
stage_refuses(_) ->
    case os:find_executable("setpriv") of
        false -> {skip, "setpriv is not on the PATH"};
        Setpriv ->
            Run = fun(Variables) ->
                          whittle_program:run(Setpriv,
                                              ["--reuid", "65534", "--clear-groups",
                                               script("stage"), "/bin/echo", "here"],
                                              #{env => Variables})
                  end,
            case whittle_program:run(Setpriv, ["--reuid", "65534", "--clear-groups", "test", "-x",
                                               script("stage")], #{}) of
                {0, _} ->
                    ?assertEqual({0, <<"stage: without root, the kernel's memory is not counted\n"
                                       "here\n">>}, Run([])),
                    ?assertEqual({1, <<"stage: limits of processor and memory and the TCP window "
                                       "need root: run the study as root, or leave these levels "
                                       "out with --only\n">>}, Run([{"STAGE_WINDOW", "8192"}]));
                _ -> {skip, "another user cannot be used here, or cannot read the source tree"}
            end
    end.

%% One line says what is wrong.
drive_refuses(_) ->
    Base = [{"WHITTLE_BASE", whittle_measure_study:root()}],
    ?assertEqual({1, <<"drive: WHITTLE_BASE is not set: `whittle measure' sets it and starts this "
                       "script\n">>}, driven([], ["xmpp.load"])),
    ?assertEqual({1, <<"drive: WHITTLE_PID is not set: `whittle measure' sets it and starts this "
                       "script\n">>}, driven(Base, ["xmpp.load"])),
    ?assertEqual({1, <<"drive: USERS is `few': give a whole number from 1 to 1000000\n">>},
                 driven([{"WHITTLE_PID", os:getpid()}, {"USERS", "few"} | Base], ["xmpp.load"])),
    ?assertMatch({2, <<"usage: ", _/binary>>}, driven(Base, [])).

%% A link passes all bytes in their order, late. The end of a connection follows them.
link(_) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(Listen),
    {ok, Link} = whittle_program:start(script("link"), ["0", integer_to_list(Port)],
                                       #{env => [{"LINK_DELAY", "50"}, {"LINK_LOSS", "20"},
                                                 {"LINK_RATE", "1000000"}]}),
    {output, <<"listening ", Number/binary>>} = whittle_program:next(Link, infinity),
    At = binary_to_integer(string:trim(Number)),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, At, [binary, {active, false}]),
    {ok, Server} = gen_tcp:accept(Listen),
    Bytes = << <<N:32>> || N <- lists:seq(1, 50_000) >>,
    Start = erlang:monotonic_time(millisecond),
    ok = gen_tcp:send(Client, Bytes),
    ok = gen_tcp:send(Server, <<"answer">>),
    ?assertEqual({ok, <<"answer">>}, gen_tcp:recv(Client, 6)),
    ?assertEqual({ok, Bytes}, gen_tcp:recv(Server, byte_size(Bytes))),
    %% 200,000 bytes at a million in a second.
    ?assert(erlang:monotonic_time(millisecond) - Start >= 200),
    ok = gen_tcp:close(Client),
    ?assertEqual({error, closed}, gen_tcp:recv(Server, 0)),
    ok = whittle_program:stop(Link),
    ok = gen_tcp:close(Listen).

link_refuses(_) ->
    ?assertEqual({1, <<"link: LINK_LOSS is `101': give a whole number from 0 to 100\n">>},
                 whittle_program:run(script("link"), ["0", "9"], #{env => [{"LINK_LOSS", "101"}]})),
    ?assertMatch({2, <<"usage: ", _/binary>>}, whittle_program:run(script("link"), [], #{})).

driven(Variables, Words) -> whittle_program:run(script("drive"), Words, #{env => Variables}).

staged(Variables, Command) -> whittle_program:run(script("stage"), Command, #{env => Variables}).

script(Name) -> filename:join([code:priv_dir(whittle_measure), "connections", Name]).
