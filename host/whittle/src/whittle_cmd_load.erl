%% @doc Implements `whittle load'. It runs a load test ({@link whittle_load}).
-module(whittle_cmd_load).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "load", arguments => ["SCENARIO", "[SCENARIO]"],
      help => "put the load of many simulated users on a server; exit code 1 if a threshold of "
              "the scenario is missed; `check SCENARIO' only tells which limits a run would hit; "
              "`account' measures what a connection costs",
      options => [#{name => agents, long => "agents", value => "N",
                    help => "spread the users over N VMs (default: as many as they need)"},
                  #{name => seed, long => "seed", value => "N",
                    help => "draw other random numbers than the scenario's seed does"},
                  #{name => allow_remote, long => "allow-remote",
                    help => "the server may be another machine, whose owner agrees"},
                  #{name => hosts, long => "hosts", value => "USER@HOST,...", list => true,
                    help => "run the agents on these machines, over ssh"},
                  #{name => trial, long => "trial",
                    help => "check: run some users for seven seconds to estimate the CPU time"},
                  whittle_command_line:json()
                  | whittle_cmd_load_account:options()]}.

%% @doc Runs a scenario.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := ["account"]} = Values) -> whittle_cmd_load_account:run(Values);
run(#{arguments := ["check"]}) -> needs_scenario("load check");
run(#{arguments := ["check", File]} = Values) ->
    whittle_work:steps([fun(_) -> options(Values) end,
                        fun(Options) -> checked(whittle_load:check(File, Options)) end]);
run(#{arguments := [First, Word]}) ->
    whittle_failure:usage(["`whittle load' takes one SCENARIO; `", Word, "' is a second one",
                           whittle_suggestion:hint(First, ["check"])]);
run(#{arguments := [File]} = Values) ->
    whittle_work:steps([fun(_) -> options(Values) end,
                        fun(Options) -> ran(whittle_load:run(File, Options)) end]);
run(_) -> needs_scenario("load").

needs_scenario(Name) ->
    whittle_failure:usage(["`whittle ", Name, "' needs SCENARIO; see `whittle help load'"]).

options(Values) ->
    whittle_work:steps(
      [fun(_) ->
               number(agents, {1, 1000}, Values, maps:with([allow_remote, hosts, trial], Values))
       end,
       fun(Options) -> number(seed, {-(1 bsl 62), 1 bsl 62}, Values, Options) end,
       fun(Options) -> {ok, Options#{tell => fun tell/1}} end]).

number(Name, {Least, Most}, Values, Options) ->
    case Values of
        #{Name := Text} ->
            case string:to_integer(Text) of
                {Number, ""} when Number >= Least, Number =< Most ->
                    {ok, Options#{Name => Number}};
                _ ->
                    whittle_failure:usage(io_lib:format("--~s cannot be `~ts'; give a whole number "
                                                        "from ~b to ~b", [Name, Text, Least, Most]))
            end;
        _ -> {ok, Options}
    end.

tell({runtime, Progress}) -> whittle_progress:event(Progress);
tell({second, Second, Result}) -> whittle_progress:step(whittle_load:progress(Second, Result));
tell({agent_ended, N, Status}) ->
    whittle_progress:note(io_lib:format("agent ~b ended too soon (exit code ~b): its users and "
                                        "last counts are lost", [N, Status]));
tell({agent_silent, N}) ->
    whittle_progress:note(io_lib:format("agent ~b did not answer at the end of the run and was "
                                        "killed: its users and last counts are lost", [N]));
tell({needs, Needs}) ->
    [whittle_progress:note(["this run will hit a limit of this machine: ", Limit, ": it needs ",
                            Needed, ", and there are ", Has, ": ", Lift])
     || Need <- Needs, {Limit, Needed, Has, Lift} <- [whittle_load:need(Need)]];
tell(_) -> ok.

checked({ok, #{users := Users, agents := Agents, needs := Needs, enough := Enough}}) ->
    Rows = [tuple_to_list(whittle_load:need(Need)) || Need <- Needs],
    {ok, #{text => [whittle_table:text([["users at once, at most", Users], ["agents", Agents]]),
                    $\n, whittle_table:text([["limit", "needs", "has", ""] | Rows])],
           json => #{users => Users, agents => Agents, enough => Enough,
                     needs => [#{limit => list_to_binary(Limit), needs => Needed,
                                 has => case Has of unknown -> null; _ -> Has end}
                               || #{limit := Limit, needs := Needed, has := Has} <- Needs]},
           exit => case Enough of true -> 0; false -> 1 end}};
checked({error, Reason}) -> whittle_failure:load(Reason).

ran({ok, Report}) ->
    Slow = whittle_load:slow(Report),
    _ = [whittle_progress:note(Slow) || Slow =/= none],
    {ok, #{text => [[whittle_table:text(Table), $\n] || Table <- whittle_load:tables(Report)],
           json => whittle_load:json(Report),
           exit => case whittle_load:met(Report) of
                       true -> 0;
                       false -> 1
                   end}};
ran({error, Reason}) -> whittle_failure:load(Reason).
