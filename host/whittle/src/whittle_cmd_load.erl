%% @doc Implements `whittle load'. It runs a load test ({@link whittle_load}).
-module(whittle_cmd_load).
-behaviour(whittle).

-export([command/0, run/1]).

%% A run without a terminal prints about so many lines.
-define(MOST_LINES, 60).
%% The view, and the seconds between two lines, in the process dictionary
-define(VIEW, {?MODULE, view}).
-define(LINES, {?MODULE, lines}).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "load", arguments => ["SCENARIO", "[SCENARIO]", "[DIR]"],
      words => ["check", "report", "compare", "account"],
      help => "put the load of many simulated users on a server",
      forms => forms(),
      options => [#{name => out, long => "out", short => $o, value => "DIR",
                    help => "the directory of the samples and the page (default: "
                            "chat.results for chat.load; then chat.results-2 and so on)"},
                  #{name => agents, long => "agents", value => "N",
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

forms() ->
    [#{arguments => ["SCENARIO"],
       help => "run a scenario; exit code 1 if a threshold is missed or all users fail",
       options => [out, agents, seed, allow_remote, hosts, json]},
     #{arguments => ["check", "SCENARIO"],
       help => "only tell which limits of this machine a run would hit",
       options => [agents, allow_remote, trial, json]},
     #{arguments => ["report", "DIR"],
       help => "write the tables and the page of a run again", options => [json]},
     #{arguments => ["compare", "DIR", "DIR"], help => "compare two runs", options => [json]},
     #{arguments => ["account"], help => "measure what a connection costs at each end",
       options => [json | [Name || #{name := Name} <- whittle_cmd_load_account:options()]]}].

%% @doc Runs the form of the command that its arguments have.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := ["account"]} = Values) -> whittle_cmd_load_account:run(Values);
run(#{arguments := ["check"]}) -> needs("load check", "SCENARIO");
run(#{arguments := ["check", File]} = Values) ->
    whittle_work:steps([fun(_) -> options(File, Values) end,
                        fun(Options) -> checked(whittle_load:check(File, Options)) end]);
run(#{arguments := ["report", Dir]}) -> reported(whittle_load:report(Dir), #{});
run(#{arguments := ["account", Word | _]}) ->
    whittle_failure:usage(["`whittle load account' takes no argument; `", Word, "' is one"]);
run(#{arguments := ["report"]}) -> needs("load report", "DIR");
run(#{arguments := ["compare", One, Other]}) -> compared(whittle_load:compare(One, Other));
run(#{arguments := ["compare" | _]}) -> needs("load compare", "two directories");
run(#{arguments := [_, _, Word]}) ->
    whittle_failure:usage(["unexpected argument `", Word, "'; see `whittle help load'"]);
run(#{arguments := [First, Word]}) ->
    whittle_failure:usage(["`whittle load' takes one SCENARIO; `", Word, "' is a second one",
                           whittle_suggestion:hint(First, ["check", "report", "compare"])]);
run(#{arguments := [File]} = Values) ->
    whittle_work:steps([fun(_) -> options(File, Values) end,
                        fun(Options) ->
                                Kept = Options#{dir => directory(File, Values),
                                                command => command(File, Values)},
                                ran(whittle_load:run(File, Kept))
                        end]);
run(_) -> needs("load", "SCENARIO").

needs(Name, What) ->
    whittle_failure:usage(["`whittle ", Name, "' needs ", What, "; see `whittle help load'"]).

directory(_, #{out := Dir}) -> Dir;
directory(File, _) -> {new, filename:basename(File, ".load") ++ ".results"}.

%% The options that change the load
command(File, Values) ->
    ["whittle", "load", File]
        ++ lists:append([["--" ++ atom_to_list(Name), map_get(Name, Values)]
                         || Name <- [agents, seed], is_map_key(Name, Values)]).

options(File, Values) ->
    whittle_work:steps(
      [fun(_) ->
               case Values of
                   #{hosts := []} ->
                       whittle_failure:usage("--hosts names no host; give USER@HOST,...");
                   _ -> ok
               end
       end,
       fun(_) ->
               number(agents, {1, 1000}, Values, maps:with([allow_remote, hosts, trial], Values))
       end,
       fun(Options) -> number(seed, {-(1 bsl 62), 1 bsl 62}, Values, Options) end,
       fun(Options) -> {ok, Options#{tell => fun(Event) -> tell(File, Event) end}} end]).

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

%% From `running' on, a signal stops the run in order. Each event comes in the process of the
%% command.
tell(File, {running, Pid, Duration}) ->
    _ = put(?VIEW, whittle_load:view(filename:basename(File), Duration)),
    _ = put(?LINES, max(1, ceil(Duration / 1.0e9 / ?MOST_LINES))),
    ok = shown(),
    whittle_stop:in_order(fun() -> whittle_load:stop(Pid) end);
tell(_, {sample, Second}) ->
    _ = put(?VIEW, whittle_load:viewed(Second, get(?VIEW))),
    ok;
tell(_, {second, Second, Result}) ->
    ok = shown(),
    case whittle_progress:has_view() orelse (Second + 1) rem get(?LINES) > 0 of
        true -> ok;
        false -> whittle_progress:line(whittle_load:progress(Second, Result))
    end;
tell(_, {writing, Dir}) -> whittle_progress:step(["writing the page in ", Dir]);
tell(_, Event) -> tell(Event).

shown() ->
    case whittle_progress:has_view() of
        true -> whittle_progress:view(fun(Size) -> whittle_load:view_lines(get(?VIEW), Size) end);
        false -> ok
    end.

tell(building_agent) -> whittle_progress:stage("building the agent");
tell({starting_agents, 1}) -> whittle_progress:stage("starting the agent");
tell({starting_agents, N}) -> whittle_progress:stage(io_lib:format("starting ~b agents", [N]));
tell({runtime, Progress}) -> whittle_progress:event(Progress);
tell({agent_ended, N, Status}) ->
    whittle_progress:note(io_lib:format("agent ~b ended too soon (exit code ~b): its users and "
                                        "last counts are lost", [N, Status]));
tell({agent_silent, N}) ->
    whittle_progress:note(io_lib:format("agent ~b did not answer at the end of the run and was "
                                        "killed: its users and last counts are lost", [N]));
tell({agent_garbage, N}) ->
    whittle_progress:note(io_lib:format("agent ~b sent no valid sample and was given up: its users "
                                        "and last counts are lost", [N]));
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

ran(Result) ->
    reported(Result, case whittle_stop:asked() of
                         none -> #{};
                         Code -> #{stopped => Code}
                     end).

%% A file that could not be written must not hide the results of a run.
reported({ok, Report}, Done) ->
    _ = [whittle_progress:note(Line) || Line <- whittle_load:warnings(Report)
                                            ++ maps:get(notes, Report, [])],
    Failures = [Text || #{failure := Reason} <- [Report],
                        {error, #{text := Text}} <- [whittle_failure:load(Reason)]],
    _ = [whittle_progress:note(Text) || Text <- Failures],
    {ok, Done#{text => [[[whittle_table:text(Table), $\n] || Table <- whittle_load:tables(Report)],
                        [["the page: ", Page, $\n] || #{page := Page} <- [Report]]],
               json => whittle_load:json(Report),
               exit => case whittle_load:met(Report) andalso Failures =:= [] of
                           true -> 0;
                           false -> 1
                       end}};
reported({error, Reason}, _) -> whittle_failure:load(Reason).

compared({ok, Comparison}) ->
    {ok, #{text => [[whittle_table:text(Table), $\n]
                    || Table <- whittle_load:comparison_tables(Comparison)],
           json => whittle_load:comparison_json(Comparison)}};
compared({error, Reason}) -> whittle_failure:load(Reason).
