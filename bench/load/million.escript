#!/usr/bin/env escript
%% Holds many connections between two kinds of Erlang VMs on this machine, and writes what they
%% cost. The script `million' beside this file starts it.
%%
%% Model. The servers are VMs of bench/load/lines, all on one port (SO_REUSEPORT). The clients are
%% the agents of `whittle load', with classes of 20 % inactive, 60 % idle and 20 % active users.
%% `memory' is that of a control group with the VMs of both kinds, the coordinator and the kernel's
%% memory for them, without the pages of files. Without a group (it needs root) it is all memory of
%% the machine that is neither free nor a page of a file, less the same before the first VM started.
%% Then it also has what the kernel keeps for other programs: on the machine of the README one of
%% them lists /proc/PID/fd, and the kernel keeps 900 bytes for each descriptor that it has seen.
-mode(compile).

-define(PORT, 7777).
%% A VM with the limit of 20,000 descriptors holds some less. The kernel spreads connections over
%% the servers with a deviation of less than 2 %.
-define(SERVER_FILES, 20_000).
-define(SERVER_USERS, 19_000).
-define(AGENT_USERS, 19_000).
%% The run ends if the machine has less memory (bytes).
-define(LEAST_FREE, 2_000_000_000).

main([Users | More]) ->
    %% They are for this VM, and not for those that a build starts.
    true = os:unsetenv("ERL_FLAGS"),
    {Seconds, Agents, Rates} = options(More),
    run(list_to_integer(Users), Seconds, Agents, Rates).

options(More) ->
    {case More of [Seconds | _] -> list_to_integer(Seconds); _ -> 120 end,
     case More of [_, Agents | _] when Agents =/= "auto" -> list_to_integer(Agents); _ -> auto end,
     case More of
         [_, _, Rates] ->
             [_, _, _] = [list_to_integer(Rate) || Rate <- string:lexemes(Rates, ",")];
         _ -> [3_000, 2_200, 1_400]
     end}.

run(Users, Seconds, Agents0, Rates) ->
    ok = priority(),
    {ok, _} = application:ensure_all_started(whittle_load),
    Work = string:trim(os:cmd("mktemp -d")),
    Agents = case Agents0 of auto -> (Users + ?AGENT_USERS - 1) div ?AGENT_USERS; _ -> Agents0 end,
    Count = (Users + ?SERVER_USERS - 1) div ?SERVER_USERS + 1,
    {ok, #{out := Program}} =
        whittle_make:make(#{input => "bench/load/lines", out => filename:join(Work, "lines"),
                            shake => #{unit => functions, missing => crash, on => [], off => [],
                                       declared => #{}}}),
    ok = grouped(),
    Before = memory(),
    Servers = [server(Program) || _ <- lists:seq(1, Count)],
    [listening(Server) || Server <- Servers],
    Idle = memory(),
    io:format("~b servers and ~b agents; the servers alone: ~s~n",
              [Count, Agents, gigabytes(used(Idle, Before))]),
    File = filename:join(Work, "million.load"),
    ok = file:write_file(File, scenario(Users, Seconds, Agents, Rates)),
    Main = self(),
    Guard = spawn_link(fun() -> guard(Main) end),
    Result = whittle_load:run(File, #{tell => tell(Before, Servers)}),
    Guard ! stop,
    put(servers, lists:sum([resident(Server) || Server <- Servers])),
    report(Result, Users, Before),
    [ended(Server) || Server <- Servers],
    os:cmd("rm -rf " ++ Work),
    ungrouped(get(group)),
    case Result of
        {ok, Report} -> halt(case whittle_load:met(Report) of true -> 0; false -> 1 end);
        _ -> halt(1)
    end.

%% Each VM that it starts is a session, and gets the same share of the processors (autogroup in
%% sched(7)). With one of a hundred shares the coordinator counted minutes late. Without root the
%% share stays as it is.
priority() ->
    _ = file:write_file("/proc/" ++ os:getpid() ++ "/autogroup", "-10"),
    ok.

%% The VMs that this one starts belong to the group of erl_child_setup, which starts them.
grouped() ->
    case whittle_load_cgroup:make("million") of
        {ok, Group} ->
            [ok = whittle_load_cgroup:add(Pid, Group) || Pid <- own()],
            put(group, Group),
            ok;
        none -> io:format("no control group: memory is that of the whole machine~n")
    end.

ungrouped(undefined) -> ok;
ungrouped(Group) ->
    [ok = whittle_load_cgroup:leave(Pid, Group) || Pid <- own()],
    _ = whittle_load_cgroup:remove(Group),
    ok.

own() ->
    Own = list_to_integer(os:getpid()),
    Children = string:lexemes(os:cmd("pgrep -x -P " ++ os:getpid() ++ " erl_child_setup"), "\n"),
    [Own | [list_to_integer(Child) || Child <- Children]].

%% The idle users ask each ten minutes, the active ones each minute. Until all have come, the
%% first waits are spread over the whole time.
scenario(Users, Seconds, Agents, Rates) ->
    io_lib:format(
      "{target, \"tcp://127.0.0.1:~b\"}.~n{arrivals, constant}.~n{agents, ~b}.~n"
      "{timeout, \"60 s\"}.~n{phases, [~s{soak, \"~b s\"}]}.~n"
      "{users, [{inactive, 20, [connect, stay]},~n"
      "         {idle, 60, [connect, {forever, [{wait, exponential, \"600 s\"},"
      " {ask, \"ping ${id}\", \"ping ${id}\"}]}]},~n"
      "         {active, 20, [connect, {forever, [{wait, exponential, \"60 s\"},"
      " {ask, \"hello ${id}\", \"hello ${id}\"}]}]}]}.~n"
      "{thresholds, [\"errors <= 0\", \"held >= ~b\"]}.~n",
      [?PORT, Agents, phases(Users, Rates), Seconds, Users]).

phases(Users, [First, Second, Third]) ->
    {Phases, _} = lists:mapfoldl(fun phase/2, 0,
                                 [{First, min(100_000, Users)}, {Second, min(500_000, Users)},
                                  {Third, Users}]),
    Phases.

phase({_, To}, From) when To =< From -> {"", From};
phase({Rate, To}, From) ->
    {io_lib:format("{hold, ~b, \"~b ms\"}, ", [Rate, ceil(1000 * (To - From) / Rate)]), To}.

server(Program) ->
    Script = "ulimit -n \"$1\"; shift; exec \"$@\"",
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", Script, "sh", integer_to_list(?SERVER_FILES), Program,
                       integer_to_list(?PORT)]},
               {env, [{"ERL_ZFLAGS", "-noinput +P 32768 +S 1:1 +SDcpu 1:1 +SDio 1"}]},
               {line, 100}, binary, exit_status]).

listening(Server) ->
    receive
        {Server, {data, {eol, <<"listening">>}}} -> ok;
        {Server, {data, {_, Line}}} ->
            io:format("a server: ~ts~n", [Line]),
            listening(Server);
        {Server, {exit_status, Code}} ->
            io:format("a server did not start (exit code ~b)~n", [Code]),
            halt(1)
    after 60_000 -> io:format("a server did not start~n"), halt(1)
    end.

resident(Server) ->
    case erlang:port_info(Server, os_pid) of
        {os_pid, Pid} ->
            case whittle_load_memory:process(Pid) of
                {ok, #{anonymous := Anonymous, files := Files}} -> Anonymous + Files;
                {error, _} -> 0
            end;
        undefined -> 0
    end.

%% A server ends with its input.
ended(Server) -> catch port_close(Server).

guard(Main) ->
    receive stop -> ok
    after 1000 ->
            #{available := Available} = memory(),
            case Available < ?LEAST_FREE of
                true ->
                    io:format("only ~s are free: the run ends~n", [gigabytes(Available)]),
                    halt(1);
                false -> guard(Main)
            end
    end.

tell(Before, Servers) ->
    fun({runtime, _}) -> ok;
       ({second, Second, Result}) -> second(Second, Result, Before, Servers);
       ({needs, Needs}) ->
            [io:format("~s~n", [lists:join("  ", tuple_to_list(whittle_load:need(Need)))])
             || Need <- Needs];
       ({agent_ended, _, _} = Event) -> io:format("~p~n", [Event]);
       ({agent_silent, _} = Event) -> io:format("~p~n", [Event]);
       (_) -> ok
    end.

second(Second, Result, Before, Servers) ->
    Held = whittle_load_result:held(Result),
    Now = memory(),
    [begin
         put({held, Mark}, Second + 1),
         io:format("~b held after ~b s: ~b a second~n", [Mark, Second + 1, Mark div (Second + 1)])
     end || Mark <- [100_000, 500_000, 1_000_000], Held >= Mark, get({held, Mark}) =:= undefined],
    put(most, max(used(Now, Before), case get(most) of undefined -> 0; Most -> Most end)),
    case Second rem 5 of
        0 ->
            Dead = [1 || Server <- Servers, erlang:port_info(Server) =:= undefined],
            io:format("~4b s: ~s, ~s in use, ~s available, ~b servers ended~n",
                      [Second + 1, whittle_load:progress(Second, Result),
                       gigabytes(used(Now, Before)), gigabytes(maps:get(available, Now)),
                       length(Dead)]);
        _ -> ok
    end.

report({ok, Report}, Users, Before) ->
    #{result := Result} = Report,
    Now = memory(),
    io:format("~n"),
    [io:format("~ts~n", [whittle_table:text(Table)])
     || [[Head | _] | _] = Table <- whittle_load:tables(Report), Head =/= "agent"],
    Sent = whittle_load_result:event(sent, Result),
    Received = whittle_load_result:event(received, Result),
    Agents = whittle_load_result:agents(Result),
    io:format("lines sent ~b, answered ~b, errors ~b~n"
              "agents: ~.1f s of CPU, ~s resident in all, ~s of it blocks, longest run queue ~b~n"
              "servers: ~s resident in all~n"
              "memory at most ~s: ~b bytes per connection~nof the whole machine now: ~s~n",
              [Sent, Received, lists:sum([N || {_, N} <- whittle_load_result:errors(Result)]),
               lists:sum([Cpu || {_, #{cpu := Cpu}} <- Agents]) / 1000,
               gigabytes(lists:sum([Rss || {_, #{rss := Rss}} <- Agents])),
               gigabytes(lists:sum([Memory || {_, #{memory := Memory}} <- Agents])),
               lists:max([Queue || {_, #{queue := Queue}} <- Agents]),
               gigabytes(get(servers)), gigabytes(get(most)), get(most) div Users,
               details(Now, Before)]);
report({error, Reason}, _, _) -> io:format("~ts~n", [whittle_load:format_error(Reason)]).

details(#{fields := Now}, #{fields := Before}) ->
    [io_lib:format("~s ~s  ", [Name, gigabytes(maps:get(Key, Now) - maps:get(Key, Before))])
     || {Name, Key} <- [{"anonymous", <<"AnonPages">>}, {"slabs", <<"Slab">>},
                        {"page tables", <<"PageTables">>}, {"stacks", <<"KernelStack">>}]].

%% The memory of the machine, and as `used' that of the group.
memory() ->
    {ok, Text} = file:read_file("/proc/meminfo"),
    Fields = whittle_load_memory:parse_fields(Text),
    #{<<"MemTotal">> := Total, <<"MemFree">> := Free, <<"Buffers">> := Buffers,
      <<"Cached">> := Cached, <<"MemAvailable">> := Available} = Fields,
    Used = case get(group) of
               undefined -> Total - Free - Buffers - Cached;
               Group -> {ok, Bytes} = whittle_load_cgroup:used(Group), Bytes
           end,
    #{used => Used, available => Available, fields => Fields}.

used(#{used := Now}, #{used := Before}) -> Now - Before.

gigabytes(Bytes) -> io_lib:format("~.2f GB", [Bytes / 1.0e9]).
