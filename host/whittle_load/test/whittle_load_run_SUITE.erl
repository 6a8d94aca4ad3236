%% Tests runs with agents on the stock VM, against servers in this VM.
-module(whittle_load_run_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([answers/1, two_answers/1, many_reads/1, taken/1, closed/1, repeats/1, data_and_trace/1,
         refuses/1, connects_again/1, resets/1, hangs_up/1, stalls/1, garbage/1, drops/1,
         logins_fail/1, killed_agent/1, slow_agent/1, stalled/1, stalled_rounds/1,
         stalled_connection/1, stopped/1,
         not_kept/1, seconds/1, clock_jumps/1, only_monotonic/1, no_agent/1, other_version/1,
         hostile_agent/1, slow_coordinator/1, last_samples/1, no_tls/1, unread/1,
         unread_signal/1, unread_crash/1, slow_server_counts/1, slow_server_in_paced_loop/1,
         reads_nothing/1]).
%% A handler of signals in an agent
-export([init/1, handle_event/2]).

-define(MS, 1_000_000).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [answers, two_answers, many_reads, taken, closed, repeats, data_and_trace, refuses,
     connects_again, resets, hangs_up, stalls, garbage, drops, logins_fail, killed_agent,
     slow_agent, stalled, stalled_rounds, stalled_connection, stopped, not_kept, seconds,
     clock_jumps,
     only_monotonic, no_agent, other_version, hostile_agent, slow_coordinator, last_samples,
     no_tls, unread, unread_signal, unread_crash, slow_server_counts,
     slow_server_in_paced_loop, reads_nothing].

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(whittle_load),
    Config.

end_per_suite(_) -> ok.

%% Both lines come in one message, and each has a step.
two_answers(_) ->
    Server = server(fun(Socket) -> ok = gen_tcp:send(Socket, <<"one\ntwo\n">>), drop(Socket) end),
    Result = until(ended(5), Server, "[{burst, 5}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {expect, \"one\"}, {expect, \"two\"}]}]"),
    ?assertEqual([], whittle_load_result:errors(Result)),
    ?assertMatch(#{count := 10}, whittle_load_result:latency(<<"expect">>, Result)).

%% A line that takes more reads than a socket gives at once arrives, both during a step and during a
%% wait.
many_reads(_) ->
    Long = binary:copy(<<"x">>, 2000),
    Serve = fun(Socket) ->
                    {ok, <<"a\n">>} = gen_tcp:recv(Socket, 0),
                    ok = gen_tcp:send(Socket, [Long, <<"\na\n">>, Long, $\n]),
                    echo(Socket)
            end,
    Result = until(ended(3), server(Serve), "[{burst, 3}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {ask, \"a\", \"a\"}, {wait, \"20 ms\"},"
                   "         {ask, \"b\", \"b\"}]}]", 1, "{buffer, 16}."),
    ?assertEqual([], whittle_load_result:errors(Result)),
    ?assertMatch(#{count := 6}, whittle_load_result:latency(<<"ask">>, Result)),
    ?assertEqual(12, whittle_load_result:event(received, Result)).

%% All users of all classes get their answers. The counts of two agents are added.
answers(_) ->
    Result = until(ended(40), server(fun echo/1),
                   "[{burst, 30}, {hold, 20, \"500 ms\"}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {ask, \"hi ${id}\", \"hi ${id}\"}, disconnect]},"
                   " {b, 1, [connect, {repeat, 3, [{wait, \"10 ms\"}, {ask, \"x\", \"x\"}]},"
                   "         disconnect]}]", 2, ""),
    ?assertEqual(40, whittle_load_result:event(started, Result)),
    ?assertEqual(40, whittle_load_result:event(connected, Result)),
    ?assertEqual([], whittle_load_result:errors(Result)),
    ?assertEqual([<<"ask">>, <<"connect">>], whittle_load_result:steps(Result)),
    #{count := Asked} = whittle_load_result:latency(<<"ask">>, Result),
    ?assertEqual(whittle_load_result:event(sent, Result), Asked),
    ?assertEqual(40, lists:sum([Planned || {_, {Planned, _}}
                                               <- whittle_load_result:arrivals(Result)])),
    ?assertEqual(40, lists:sum([Actual || {_, {_, Actual}}
                                              <- whittle_load_result:arrivals(Result)])),
    ?assertMatch([{1, #{rss := _}}, {2, #{rss := _}}], whittle_load_result:agents(Result)).

%% Closed users repeat their session until the phase ends.
closed(_) ->
    Result = run(server(fun echo/1), "[{doubling, 1, 4, \"300 ms\"}]", "constant",
                 "[{a, 1, [connect, {ask, \"x\", \"x\"}, {wait, \"20 ms\"}, disconnect]}]", 1),
    ?assertEqual(4, whittle_load_result:event(started, Result)),
    ?assert(whittle_load_result:event(cycles, Result) > 4),
    %% At the end, each user may have counted its connection but not yet the latency.
    #{count := Timed} = whittle_load_result:latency(<<"connect">>, Result),
    ?assert(abs(whittle_load_result:event(connected, Result) - Timed) =< 4).

%% The same seed gives the same starts. The soak gives a slow machine time for the last of them.
repeats(_) ->
    Server = server(fun echo/1),
    Started = fun() ->
                      Result = run(Server, "[{hold, 200, \"300 ms\"}, {soak, \"1 s\"}]",
                                   "poisson", "[{a, 1, [stay]}, {b, 3, [stay]}]", 2),
                      lists:sum([Planned || {_, {Planned, _}}
                                                <- whittle_load_result:arrivals(Result)])
              end,
    ?assertEqual(Started(), Started()).

%% Each user says its own row, and comes at the time of the trace.
data_and_trace(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    ok = file:write_file(filename:join(Dir, "users.csv"), "name,word\nann,red\nbob,blue\n"),
    ok = file:write_file(filename:join(Dir, "starts.txt"), "0\n0.1\n1.2\n"),
    Self = self(),
    Hear = fun(Socket) ->
                   {ok, Line} = gen_tcp:recv(Socket, 0),
                   Self ! {line, Line}
           end,
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"tcp://127.0.0.1:",
                                         integer_to_list(server(Hear)), "\"}. {data, "
                                         "\"users.csv\"}. {phases, [{trace, \"starts.txt\"},"
                                         "{soak, \"90 s\"}]}. {users, [{a, 1, [connect,"
                                         "{send, \"${name} ${word}\"}, stay]}]}."]), Dir),
    Result = until(fun(Now) -> whittle_load_result:event(sent, Now) =:= 3 end, Scenario, 2),
    ?assertEqual([{0, {2, 2}}, {1, {1, 1}}], whittle_load_result:arrivals(Result)),
    ?assertEqual([<<"ann red\n">>, <<"ann red\n">>, <<"bob blue\n">>],
                 lists:sort([receive {line, Line} -> Line end || _ <- lists:seq(1, 3)])).

refuses(_) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Result = until(ended(5), Port, "[{burst, 5}, {soak, \"90 s\"}]", "[{a, 1, [connect]}]"),
    ?assertEqual([{{<<"connect">>, <<"econnrefused">>}, 5}], whittle_load_result:errors(Result)),
    ?assertEqual(5, whittle_load_result:event(ended, Result)).

%% A second connection replaces the first.
connects_again(_) ->
    Counts = fun(Now) ->
                     {whittle_load_result:event(connected, Now), whittle_load_result:held(Now)}
             end,
    Result = until(fun(Now) -> Counts(Now) =:= {10, 5} end, server(fun echo/1),
                   "[{burst, 5}, {soak, \"90 s\"}]", "[{a, 1, [connect, connect, stay]}]"),
    ?assertEqual({10, 5}, Counts(Result)).

resets(_) ->
    Reset = fun(Socket) ->
                    {ok, _} = gen_tcp:recv(Socket, 0),
                    ok = inet:setopts(Socket, [{linger, {true, 0}}]),
                    gen_tcp:close(Socket)
            end,
    Result = until(ended(5), server(Reset), "[{burst, 5}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {ask, \"x\", \"x\"}]}]"),
    ?assertEqual([{{<<"ask">>, <<"econnreset">>}, 5}], whittle_load_result:errors(Result)).

hangs_up(_) ->
    Result = until(ended(5), server(fun gen_tcp:close/1), "[{burst, 5}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {expect, \"x\"}]}]"),
    ?assertEqual([{{<<"expect">>, <<"closed">>}, 5}], whittle_load_result:errors(Result)),
    ?assertEqual(0, whittle_load_result:held(Result)).

stalls(_) ->
    Result = until(ended(5), server(fun drop/1), "[{burst, 5}, {soak, \"90 s\"}]",
                   "[{a, 1, [{connect, \"60 s\"}, {ask, \"x\", \"x\"}]}]", 1,
                   "{timeout, \"200 ms\"}."),
    ?assertEqual([{{<<"ask">>, <<"timeout">>}, 5}], whittle_load_result:errors(Result)),
    %% A fast connection does not meet a threshold of answers.
    ?assertEqual(none, whittle_load_result:latency(all, Result)).

%% The send of a step ends with the step, although the connect step has more time.
reads_nothing(_) ->
    Never = fun(_) -> receive after infinity -> ok end end,
    Long = binary:copy(<<"x">>, 200_000),
    Result = until(ended(1), server(Never), "[{burst, 1}, {soak, \"90 s\"}]",
                   ["[{a, 1, [{connect, \"1 h\"}, {repeat, 100, [{send, \"", Long, "\"}]}]}]"],
                   1, "{timeout, \"200 ms\"}."),
    ?assertEqual([{{<<"send">>, <<"timeout">>}, 1}], whittle_load_result:errors(Result)).

garbage(_) ->
    Endless = fun(Socket) ->
                      (fun Send() ->
                               case gen_tcp:send(Socket, binary:copy(<<0>>, 100_000)) of
                                   ok -> Send();
                                   {error, _} -> ok
                               end
                       end)()
              end,
    Result = until(ended(2), server(Endless), "[{burst, 2}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {expect, \"x\"}]}]", 1, "{buffer, 100000}."),
    ?assertEqual([{{<<"expect">>, <<"too_long">>}, 2}], whittle_load_result:errors(Result)).

%% The server's queue is full, so the kernel drops each further SYN.
drops(_) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {backlog, 1}]),
    {ok, Port} = inet:port(Socket),
    Over = fun(Now) ->
                   whittle_load_result:held(Now) + whittle_load_result:event(ended, Now) =:= 20
           end,
    Result = until(Over, Port, "[{burst, 20}, {soak, \"90 s\"}]",
                   "[{a, 1, [{connect, \"500 ms\"}, stay]}]"),
    Connected = whittle_load_result:event(connected, Result),
    ?assert(Connected < 20),
    ?assertEqual([{{<<"connect">>, <<"timeout">>}, 20 - Connected}],
                 whittle_load_result:errors(Result)),
    ok = gen_tcp:close(Socket).

%% Each login fails, so no user is held.
logins_fail(_) ->
    Refuse = fun(Socket) ->
                     {ok, _} = gen_tcp:recv(Socket, 0),
                     ok = gen_tcp:send(Socket,
                                       "<stream:stream from='x' id='1' version='1.0' "
                                       "xmlns='jabber:client' "
                                       "xmlns:stream='http://etherx.jabber.org/streams'>"
                                       "<stream:features><mechanisms "
                                       "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
                                       "<mechanism>PLAIN</mechanism></mechanisms>"
                                       "</stream:features>"),
                     {ok, _} = gen_tcp:recv(Socket, 0),
                     ok = gen_tcp:send(Socket, "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
                                               "<not-authorized/></failure>"),
                     drop(Socket)
             end,
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"xmpp://127.0.0.1:",
                                         integer_to_list(server(Refuse)), "\"}. {phases, "
                                         "[{burst, 5}, {soak, \"90 s\"}]}. {users, [{a, 1, "
                                         "[connect, {login, \"u${id}\", \"p\"}, stay]}]}."])),
    Result = until(ended(5), Scenario, 1),
    ?assertMatch([{{<<"login">>, _}, 5}], whittle_load_result:errors(Result)),
    ?assertEqual({5, 0}, {whittle_load_result:event(connected, Result),
                          whittle_load_result:event(held, Result)}).

%% A server that accepts and never answers: at the end of the run each step counts with the time
%% that it has waited.
stalled(_) ->
    Wait = fun(Socket) -> {error, closed} = gen_tcp:recv(Socket, 20) end,
    {ok, #{result := Result}} =
        whittle_load_run:run(scenario(server(Wait), "[{burst, 5}, {soak, \"2 s\"}]", "constant",
                                      "[{a, 1, [connect, {ask, \"x\", \"x\"}, stay]}]", ""),
                             #{agents => 2, commands => [command()], tell => fun(_) -> ok end}),
    #{count := 5, sum := Sum} = whittle_load_result:unanswered(Result),
    ?assert(Sum > 5 * 1000 * ?MS),
    ?assertMatch(#{count := 5, sum := Sum}, whittle_load_result:latency(<<"ask">>, Result)),
    ?assertMatch([], whittle_load_result:errors(Result)),
    ?assertNot(whittle_load_result:has_answers(Result)),
    ?assert(whittle_load_result:longest_answer(Result)
            < whittle_load_result:quantile(1.0, whittle_load_result:unanswered(Result))).

%% In paced loops, the rounds that did not begin count too: in outer loops as well, but not outside
%% an endless one.
stalled_rounds(_) ->
    Wait = fun(Socket) -> {error, closed} = gen_tcp:recv(Socket, 50) end,
    Unanswered = fun(Steps) ->
                         Result = until_end(server(Wait), "tcp", 5, ["connect, ", Steps]),
                         #{count := Count} = whittle_load_result:unanswered(Result),
                         Count
                 end,
    Ask = "[{ask, \"x\", \"x\"}]",
    ?assert(Unanswered(["{every, \"100 ms\", ", Ask, "}"]) >= 5 * 10),
    ?assertEqual(5 * 3, Unanswered(["{every, \"100 ms\", 3, ", Ask, "}"])),
    ?assertEqual(5 * (3 + 1), Unanswered(["{every, \"50 ms\", 2, [{every, \"100 ms\", 3, ", Ask,
                                          "}]}"])),
    ?assert(Unanswered(["{every, \"1 ms\", 900, [{every, \"100 ms\", ", Ask, "}]}"]) < 5 * 100).

%% A round that cannot begin because its connection does not counts for the loop's first step. After
%% the first answer, the server's queue is full, so the kernel drops each further SYN.
stalled_connection(_) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {backlog, 1}]),
    {ok, Port} = inet:port(Listen),
    Server = spawn_link(
               fun() ->
                       {ok, Socket} = gen_tcp:accept(Listen),
                       {ok, _} = gen_tcp:recv(Socket, 0),
                       Self = self(),
                       _ = [spawn_link(fun() ->
                                               {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
                                               Self ! full,
                                               receive after infinity -> ok end
                                       end) || _ <- [1, 2]],
                       _ = [receive full -> ok end || _ <- [1, 2]],
                       ok = gen_tcp:send(Socket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
                                         "Connection: close\r\n\r\n"),
                       ok = gen_tcp:close(Socket),
                       receive after infinity -> ok end
               end),
    Result = until_end(Port, "http", 1, "{every, \"100 ms\", [{get, \"/\"}]}"),
    true = unlink(Server),
    true = exit(Server, kill),
    ?assertMatch(#{count := 2}, whittle_load_result:latency(<<"connect">>, Result)),
    #{count := Gets} = whittle_load_result:latency(<<"get">>, Result),
    ?assert(Gets > 10).

%% Runs users for two seconds. Some of their steps never get an answer.
until_end(Port, Transport, Users, Steps) ->
    Scenario = scenario(Transport, Port, io_lib:format("[{burst, ~b}, {soak, \"2 s\"}]", [Users]),
                        "constant", ["[{a, 1, [", Steps, "]}]"], ""),
    {ok, #{result := Result}} =
        whittle_load_run:run(Scenario, #{agents => 1, commands => [command()],
                                         tell => fun(_) -> ok end}),
    Result.

%% Later texts contain the parts that `take' found. A part that is missing, empty or has control
%% characters is an error, and no text contains it.
taken(_) ->
    Self = self(),
    Run = fun(Body, Takes) ->
                  Port = server(fun(Socket) -> answer(Socket, Body, Self) end),
                  Steps = ["{get, \"/one\"}", Takes, ", {get, \"/${a}\"}"],
                  Result = until_end(Port, "http", 1, Steps),
                  {whittle_load_result:errors(Result), paths()}
          end,
    Take = ", {take, \"a\", \"a=([^;]*)(;b)?\"}",
    Fails = fun(Kind) -> {[{{<<"take">>, Kind}, 1}], [<<"/one">>]} end,
    ?assertEqual({[], [<<"/one">>, <<"/1">>]}, Run(<<"a=1;">>, Take)),
    ?assertEqual({[], [<<"/one">>, <<"/2-1">>]},
                 Run(<<"a=1;b=2;">>, [Take, ", {take, \"b\", \"b=([0-9])\"}, {as, \"next\", {get, "
                                      "\"/${b}-${a}\"}}, {wait, \"1 min\"}"])),
    ?assertEqual(Fails(<<"no_a">>), Run(<<"b=1">>, Take)),
    ?assertEqual(Fails(<<"no_a">>), Run(<<"a=;">>, Take)),
    ?assertEqual(Fails(<<"no_a">>), Run(<<"x">>, ", {take, \"a\", \"x(y)?\"}")),
    ?assertEqual(Fails(<<"control_in_a">>), Run(<<"a=1\r\nX: y;">>, Take)).

paths() -> receive {path, Path} -> [Path | paths()] after 0 -> [] end.

%% Answers each request with the same body, and tells its path.
answer(Socket, Body, Tell) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Request} ->
            [<<"GET">>, Path | _] = binary:split(Request, <<" ">>, [global]),
            Tell ! {path, Path},
            ok = gen_tcp:send(Socket, [<<"HTTP/1.1 200 OK\r\nContent-Length: ">>,
                                       integer_to_binary(byte_size(Body)), <<"\r\n\r\n">>, Body]),
            answer(Socket, Body, Tell);
        {error, _} -> ok
    end.

%% Somebody stops the run: no more users start, and all counts arrive.
stopped(_) ->
    Stop = fun({second, 0, _}) -> whittle_load_run:stop(self());
              (_) -> ok
           end,
    {ok, #{lost := [], stopped := {asked, After}, duration := 60_000_000_000, result := Result}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{hold, 20, \"60 s\"}]", "constant",
                                      "[{a, 1, [connect, {ask, \"x\", \"x\"}, stay]}]", ""),
                             #{agents => 2, commands => [command()], tell => Stop}),
    ?assert(After < 30_000 * ?MS),
    Started = whittle_load_result:event(started, Result),
    ?assert(Started > 0 andalso Started < 1200),
    ?assertEqual(Started, lists:sum([Actual || {_, {_, Actual}}
                                                   <- whittle_load_result:arrivals(Result)])).

%% A second that nobody can keep stops the run.
not_kept(_) ->
    {ok, #{stopped := {{kept, "full"}, _}}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{hold, 20, \"60 s\"}]", "constant",
                                      "[{a, 1, [connect, stay]}]", ""),
                             #{agents => 1, commands => [command()], tell => fun(_) -> ok end,
                               keep => fun(_) -> {stop, "full"} end}).

%% The sum of the kept seconds is the result, and no second comes twice but the last one.
seconds(_) ->
    Self = self(),
    {ok, #{result := Result}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{hold, 50, \"3 s\"}]", "constant",
                                      "[{a, 1, [connect, {ask, \"x\", \"x\"}, stay]}]", ""),
                             #{agents => 2, commands => [command()], tell => fun(_) -> ok end,
                               server => fun() -> #{processes => 1, cpu => 5, rss => 7} end,
                               keep => fun(Second) -> Self ! {kept, Second}, ok end}),
    Kept = (fun Next() -> receive {kept, Second} -> [Second | Next()] after 0 -> [] end end)(),
    ?assertEqual(Result, lists:foldl(fun whittle_load_result:second/2, whittle_load_result:new(),
                                     Kept)),
    ?assertMatch([_, _, _ | _], Kept),
    ?assertMatch([#{server := #{rss := 7}} | _], Kept),
    Numbers = [At || #{second := At} <- Kept],
    ?assertEqual(lists:sort(Numbers), Numbers).

%% The wall clock of an agent jumps by an hour. A library that the agent loads first answers for the
%% wall clock, and moves it when a file appears.
clock_jumps(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    [Source, Library, Mark] = [filename:join(Dir, Name)
                               || Name <- ["jump.c", "jump.so", "jumped"]],
    ok = file:write_file(
           Source,
           "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <sys/time.h>\n#include <time.h>\n"
           "#include <unistd.h>\n"
           "static long ahead(void) { return access(MARK, F_OK) == 0 ? 3600 : 0; }\n"
           "int clock_gettime(clockid_t id, struct timespec *t) {\n"
           "    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, \"clock_gettime\");\n"
           "    int code = next(id, t);\n"
           "    if (id == CLOCK_REALTIME) t->tv_sec += ahead();\n    return code;\n}\n"
           "int gettimeofday(struct timeval *t, void *z) {\n"
           "    int (*next)(struct timeval *, void *) = dlsym(RTLD_NEXT, \"gettimeofday\");\n"
           "    int code = next(t, z);\n    t->tv_sec += ahead();\n    return code;\n}\n"),
    made:tool("cc", ["-shared", "-fPIC", "-DMARK=\"" ++ Mark ++ "\"", "-o", Library, Source,
                     "-ldl"], Dir),
    {Stock, Arguments, Environment} = command(),
    Jump = fun({second, 0, _}) -> ok = file:write_file(Mark, "");
              ({second, _, Now}) ->
                   [whittle_load_run:stop(self())
                    || #{count := 600} <- [whittle_load_result:latency(<<"ask">>, Now)]];
              (_) -> ok
           end,
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{hold, 40, \"3 s\"}, {soak, \"90 s\"}]",
                                      "constant", "[{a, 1, [connect, {every, \"100 ms\", 5, "
                                      "[{ask, \"x\", \"x\"}]}, stay]}]", ""),
                             #{agents => 1, tell => Jump,
                               commands => [{Stock, Arguments, [{"LD_PRELOAD", Library}
                                                                | Environment]}]}),
    ?assert(filelib:is_file(Mark)),
    ?assertEqual({120, []}, {whittle_load_result:event(started, Result),
                             whittle_load_result:errors(Result)}),
    #{count := 600} = Latency = whittle_load_result:latency(<<"ask">>, Result),
    [?assert(whittle_load_result:quantile(1.0, Each) < 60_000 * ?MS)
     || Each <- [Latency, whittle_load_result:late(Result)]],
    ?assertEqual([0, 1, 2], [At || {At, {Planned, _}} <- whittle_load_result:arrivals(Result),
                                   Planned > 0]).

%% No module of an agent reads the wall clock.
only_monotonic(_) ->
    {ok, Modules} = application:get_key(whittle_load_agent, modules),
    Imports = lists:append([begin
                                {ok, {_, [{imports, Each}]}} =
                                    beam_lib:chunks(code:which(Module), [imports]),
                                Each
                            end || Module <- Modules]),
    ?assertNotEqual([], [1 || {erlang, monotonic_time, 1} <- Imports]),
    ?assertEqual([], [Call || {Module, Name, _} = Call <- Imports,
                              Module =:= calendar orelse Name =:= now orelse Name =:= timestamp
                                  orelse Name =:= system_time orelse Name =:= localtime
                                  orelse Name =:= universaltime orelse Name =:= time_offset]).

%% The rest goes on, and the outcome names the lost agent.
killed_agent(_) ->
    Self = self(),
    Tell = fun({second, _, Now}) ->
                   %% All users are there only before the kill.
                   ["" = os:cmd("pkill -KILL -n -f 'whittle_load_run_SUITE[_]agent'")
                    || whittle_load_result:held(Now) =:= 4];
              ({agent_ended, _, _} = Event) ->
                   Self ! Event,
                   whittle_load_run:stop(self());
              (_) -> ok
           end,
    {Stock, Arguments, Environment} = command(),
    {ok, #{lost := Lost, result := Result}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{burst, 4}, {soak, \"90 s\"}]",
                                      "constant", "[{a, 1, [connect, stay]}]", ""),
                             #{agents => 2, tell => Tell,
                               commands => [{Stock, Arguments ++ ["-whittle_load_run_SUITE_agent"],
                                             Environment}]}),
    [Agent] = Lost,
    receive {agent_ended, Agent, Status} -> ?assertEqual(137, Status) end,
    ?assertEqual({4, 2}, {whittle_load_result:event(connected, Result),
                          whittle_load_result:held(Result)}).

%% An agent that stands still for a second starts users too late, and the result says so.
slow_agent(_) ->
    Tell = fun({second, 0, _}) ->
                   "" = os:cmd("for p in $(pgrep -f 'whittle_load_run_SUITE[_]agent'); do "
                               "kill -STOP $p; sleep 1; kill -CONT $p; done");
              ({second, _, Result}) ->
                   [whittle_load_run:stop(self()) || is_noticed(whittle_load_result:slow(Result))];
              (_) -> ok
           end,
    {Stock, Arguments, Environment} = command(),
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(scenario(server(fun echo/1), "[{hold, 50, \"90 s\"}]", "constant",
                                      "[{a, 1, [connect, stay]}]", ""),
                             #{agents => 1, tell => Tell,
                               commands => [{Stock, Arguments ++ ["-whittle_load_run_SUITE_agent"],
                                             Environment}]}),
    ?assertEqual({whittle_load_result:slow(Result), true},
                 {whittle_load_result:slow(Result),
                  is_noticed(whittle_load_result:slow(Result))}).

is_noticed([{seconds, Share}, {late, Time}]) -> Share =< 0.75 andalso Time > 500 * ?MS;
is_noticed(_) -> false.

no_agent(_) ->
    {error, Reason} = whittle_load_run:run(scenario(1, "[{burst, 1}]", "constant",
                                                    "[{a, 1, [stay]}]", ""),
                                           #{agents => 1, tell => fun(_) -> ok end,
                                             commands => [{"/bin/false", [], []}]}),
    ?assertEqual("an agent ended at its start (exit code 1): its messages stand above",
                 lists:flatten(whittle_load_run:format_error(Reason))).

other_version(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "agent"),
    Hello = term_to_binary({hello, #{protocol => 999}}),
    ok = file:write_file(File, <<(byte_size(Hello)):32, Hello/binary>>),
    {error, Reason} = whittle_load_run:run(scenario(1, "[{burst, 1}]", "constant",
                                                    "[{a, 1, [stay]}]", ""),
                                           #{agents => 1, tell => fun(_) -> ok end,
                                             commands => [{"/bin/cat", [File, "-"], []}]}),
    ?assertEqual({agent_version, {999, whittle_load_agent:protocol()}}, Reason).

%% An agent of another machine sends a sample that is none, and would never stop.
hostile_agent(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "hostile"),
    Self = self(),
    [begin
         ok = file:write_file(File, [frame({hello, #{protocol => whittle_load_agent:protocol()}}),
                                     frame(ready)]),
         ok = file:write_file(File ++ ".more", frame(Bad)),
         {ok, #{lost := Lost}} =
             whittle_load_run:run(scenario(1, "[{burst, 1}, {soak, \"90 s\"}]", "constant",
                                           "[{a, 1, [stay]}]", ""),
                                  #{agents => 1, tell => fun(Event) -> Self ! Event end,
                                    commands => [{"/bin/sh",
                                                  ["-c", "cat \"$0\"; while cat \"$0.more\"; do :; "
                                                   "done", File], []}]}),
         ?assertEqual({Bad, [1]}, {Bad, Lost}),
         receive {agent_garbage, 1} -> ok end
     end || Bad <- [{sample, foo}, {stopped, #{}}, {}, other, {sample, #{second => 1 bsl 60}}]].

%% A coordinator that is behind keeps each second. It reads the CPU time of the server, and shows
%% the result, only when it has caught up.
slow_coordinator(Config) ->
    Seconds = 150,
    Command = sends([{sample, sample(N)} || N <- lists:seq(0, Seconds - 2)]
                    ++ [{stopped, sample(Seconds - 1)}], Config),
    Tell = fun({running, _, _}) -> behind(Seconds);
              (Event) -> told(element(1, Event))
           end,
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(scenario(1, "[{soak, \"90 s\"}]", "constant", "[{a, 1, [stay]}]", ""),
                             #{agents => 1, commands => [Command], tell => Tell,
                               server => fun() -> told(server), none end}),
    ?assertEqual(Seconds, whittle_load_result:event(started, Result)),
    ?assertEqual([Seconds, 101, 101], [get({told, Event}) || Event <- [sample, second, server]]).

%% Each event comes in the process of the test.
told(Event) ->
    put({told, Event}, 1 + case get({told, Event}) of undefined -> 0; Before -> Before end).

%% A last sample that has arrived counts, also if its time is over. An agent without one is named.
last_samples(Config) ->
    [{ok, #{lost := Lost, result := Result}}, Silent] =
        [begin
             Self = self(),
             Tell = fun({running, Pid, _}) ->
                            whittle_load_run:stop(Pid),
                            behind(1);
                       ({agent_silent, _} = Event) -> Self ! Event;
                       (_) -> ok
                    end,
             whittle_load_run:run(scenario(1, "[{soak, \"90 s\"}]", "constant",
                                           "[{a, 1, [stay]}]", ""),
                                  #{agents => 1, commands => [sends([Message], Config)],
                                    tell => Tell, patience => 0})
         end || Message <- [{stopped, sample(0)}, {sample, sample(0)}]],
    ?assertEqual({[], 1}, {Lost, whittle_load_result:event(started, Result)}),
    ?assertMatch({ok, #{lost := [1]}}, Silent),
    ?assertEqual({agent_silent, 1},
                 receive {agent_silent, _} = Event -> Event after 0 -> none end).

%% Waits until so many messages of agents wait, behind all others.
behind(Count) ->
    Messages = [receive {Port, {data, _}} = Message when is_port(Port) -> Message end
                || _ <- lists:seq(1, Count)],
    [self() ! Message || Message <- Messages].

%% A command that sends messages as an agent does.
sends(Messages, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "sends"),
    ok = file:write_file(File, [frame(Message)
                                || Message <- [{hello, #{protocol =>
                                                             whittle_load_agent:protocol()}},
                                               ready | Messages]]),
    {"/bin/sh", ["-c", "cat \"$0\"; exec cat >/dev/null", File], []}.

frame(Term) ->
    Bytes = term_to_binary(Term),
    <<(byte_size(Bytes)):32, Bytes/binary>>.

%% One user starts in each second.
sample(Second) ->
    #{second => Second, arrivals => #{}, vm => #{cpu => 1, memory => 1, rss => 1, queue => 0},
      counts => #{events => #{started => 1}, errors => #{}, latencies => #{}, late => none,
                  unanswered => #{count => 0, sum => 0, zeros => 0, buckets => []}}}.

%% A server without TLS costs each user its connection, and does not fill the log.
no_tls(Config) ->
    Log = filename:join(proplists:get_value(priv_dir, Config), "log"),
    Port = server(fun(Socket) -> ok = gen_tcp:send(Socket, <<"hello\r\n">>), drop(Socket) end),
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"tls://127.0.0.1:", integer_to_list(Port),
                                         "\"}. {phases, [{burst, 5}, {soak, \"90 s\"}]}. "
                                         "{arrivals, constant}. {users, [{a, 1, [connect]}]}."])),
    {Erl, Arguments, Environment} = command(),
    Failed = ended(5),
    Tell = fun({second, _, Result}) -> [whittle_load_run:stop(self()) || Failed(Result)];
              (_) -> ok
           end,
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(Scenario,
                             #{agents => 1, tell => Tell,
                               commands => [{"/bin/sh", ["-c", "f=$1; shift; exec \"$@\" 2>\"$f\"",
                                                         "sh", Log, Erl | Arguments]
                                             ++ ["-s", "ssl"], Environment}]}),
    ?assertMatch([{{<<"connect">>, _}, _} | _], whittle_load_result:errors(Result)),
    ?assertEqual({ok, <<>>}, file:read_file(Log)).

%% The server never reads, so bytes of the users wait in the agent. It ends all the same.
unread(Config) ->
    {ok, #{lost := []}} = unread(fun() -> whittle_load_run:stop(self()) end, "0", Config).

%% So does an agent that a signal ends, or a crash.
unread_signal(Config) -> {ok, #{lost := [1]}} = unread(signal("TERM"), "1", Config).

unread_crash(Config) -> {ok, #{lost := [1]}} = unread(signal("USR2"), "1", Config).

%% The newest process is the VM, and not the shell that started it.
signal(Name) -> fun() -> "" = os:cmd(["pkill -n -", Name, " -f ", marker()]) end.

%% No other run of this suite has it.
marker() -> "whittle_load_run_SUITE_" ++ os:getpid() ++ "_unread".

%% The first signal for a user ends the process that paces the users.
init(_) -> {ok, none}.

handle_event(sigusr2, State) ->
    {links, Links} = process_info(whereis(whittle_load_agent_link), links),
    _ = [exit(Pid, kill) || Pid <- Links, is_pid(Pid), Pid =/= whereis(whittle_load_agent_sup)],
    {ok, State}.

unread(Stop, Code, Config) ->
    Fifo = filename:join(proplists:get_value(priv_dir, Config), "ended"),
    _ = file:delete(Fifo),
    made:tool("mkfifo", [Fifo], filename:dirname(Fifo)),
    Watch = open_port({spawn_executable, os:find_executable("cat")},
                      [{args, [Fifo]}, {line, 100}, exit_status]),
    {Erl, Arguments, Environment} = command(),
    Tell = fun({second, _, Now}) ->
                   Sent = whittle_load_result:event(sent, Now),
                   case put(sent, Sent) of
                       Sent when Sent > 0 -> Stop();
                       _ -> ok
                   end;
              (_) -> ok
           end,
    Crash = "ok = gen_event:add_handler(erl_signal_server, whittle_load_run_SUITE, none), "
        "ok = os:set_signal(sigusr2, handle)",
    Command = {"/bin/sh",
               ["-c", "f=$1; shift; \"$@\"; echo $? >\"$f\"", "sh", Fifo, Erl | Arguments]
               ++ ["-" ++ marker(), "-pa", filename:dirname(code:which(?MODULE)), "-eval", Crash],
               Environment},
    Outcome =
        whittle_load_run:run(scenario(server(fun(_) -> receive never -> ok end end),
                                      "[{burst, 5}, {soak, \"90 s\"}]", "constant",
                                      ["[{a, 1, [{connect, \"600 s\"}, {repeat, 100000, [{send, \"",
                                       lists:duplicate(10_000, $x), "\"}]}]}]"], ""),
                             #{agents => 1, tell => Tell, commands => [Command]}),
    receive {Watch, {data, {eol, Status}}} -> ?assertEqual(Code, Status) end,
    Outcome.

%% The server serves nobody for half a second, in which half of the users come. A generator that
%% waits for an answer before it asks again would see one slow answer.
slow_server_counts(_) ->
    Result = until(ended(100), server(fun echo/1, {20, 500}),
                   "[{hold, 100, \"1 s\"}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {ask, \"x\", \"x\"}]}]"),
    #{count := 100} = Latency = whittle_load_result:latency(<<"ask">>, Result),
    ?assert(whittle_load_result:quantile(0.7, Latency) > 100 * ?MS).

%% One user asks in each 20 ms, and the server stands still for half a second once. The questions of
%% this time have their planned starts.
slow_server_in_paced_loop(_) ->
    Server = server(fun(Socket) -> pausing(Socket, 5, 500) end),
    Result = until(ended(1), Server, "[{burst, 1}, {soak, \"90 s\"}]",
                   "[{a, 1, [connect, {every, \"20 ms\", 50, [{ask, \"x\", \"x\"}]}]}]"),
    #{count := 50} = Latency = whittle_load_result:latency(<<"ask">>, Result),
    ?assert(whittle_load_result:quantile(0.7, Latency) > 100 * ?MS),
    ?assertEqual(1, whittle_load_result:event(ended, Result)).

%% Internal

%% Runs all phases.
run(Port, Phases, Arrivals, Users, Agents) ->
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(scenario(Port, Phases, Arrivals, Users, ""),
                             #{agents => Agents, commands => [command()],
                               tell => fun(_) -> ok end}),
    Result.

%% Runs until the users have done their steps. The soak of the scenario is longer than a busy
%% machine needs.
until(Done, Port, Phases, Users) -> until(Done, Port, Phases, Users, 1, "").

until(Done, Port, Phases, Users, Agents, More) ->
    until(Done, scenario(Port, Phases, "constant", Users, More), Agents).

until(Done, Scenario, Agents) ->
    Tell = fun({second, _, Result}) -> [whittle_load_run:stop(self()) || Done(Result)];
              (_) -> ok
           end,
    {ok, #{lost := [], result := Result}} =
        whittle_load_run:run(Scenario, #{agents => Agents, commands => [command()],
                                         tell => Tell}),
    Result.

ended(Users) -> fun(Result) -> whittle_load_result:event(ended, Result) =:= Users end.

scenario(Port, Phases, Arrivals, Users, More) ->
    scenario("tcp", Port, Phases, Arrivals, Users, More).

scenario(Transport, Port, Phases, Arrivals, Users, More) ->
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"", Transport, "://127.0.0.1:",
                                         integer_to_list(Port),
                                         "\"}. {phases, ", Phases, "}. {arrivals, ", Arrivals,
                                         "}. {users, ", Users, "}. ", More])),
    Scenario.

command() ->
    Paths = lists:append([["-pa", filename:dirname(code:which(Module))]
                          || Module <- [whittle_counters, whittle_load_agent]]),
    {os:find_executable("erl"),
     ["-noinput" | Paths] ++ ["-eval", "{ok, _} = application:ensure_all_started("
                              "whittle_load_agent)"],
     [{"WHITTLE_LOAD_AGENT", "stdio"}]}.

%% Starts a server that ends with the test. Each connection has a process.
server(Serve) -> server(Serve, {never, 0}).

%% After some connections, the server takes no other for some milliseconds.
server(Serve, Pause) ->
    {ok, Socket} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}},
                                      {backlog, 100}]),
    {ok, Port} = inet:port(Socket),
    Acceptor = spawn_link(fun() -> receive go -> accept(Socket, Serve, Pause) end end),
    ok = gen_tcp:controlling_process(Socket, Acceptor),
    Acceptor ! go,
    Port.

accept(Socket, Serve, {0, Milliseconds}) ->
    receive after Milliseconds -> accept(Socket, Serve, {never, 0}) end;
accept(Socket, Serve, {Left, Milliseconds}) ->
    {ok, Client} = gen_tcp:accept(Socket),
    Pid = spawn_link(fun() -> receive go -> Serve(Client) end end),
    ok = gen_tcp:controlling_process(Client, Pid),
    Pid ! go,
    accept(Socket, Serve, {case Left of never -> never; _ -> Left - 1 end, Milliseconds}).

echo(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} ->
            _ = gen_tcp:send(Socket, Bytes),
            echo(Socket);
        {error, _} -> ok
    end.

drop(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> drop(Socket);
        {error, _} -> ok
    end.

%% Stops once after some lines.
pausing(Socket, 0, Milliseconds) ->
    receive after Milliseconds -> echo(Socket) end;
pausing(Socket, N, Milliseconds) ->
    {ok, Bytes} = gen_tcp:recv(Socket, 0),
    _ = gen_tcp:send(Socket, Bytes),
    pausing(Socket, N - 1, Milliseconds).
