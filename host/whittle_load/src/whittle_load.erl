%% @doc Runs load tests: simulated users in agent VMs against a server, from the file of a scenario.
%%
%% {@link run/2} builds the agent with Whittle, starts as many as the scenario needs, and adds up
%% their samples. Latencies count from the intended start of each step.
-module(whittle_load).

-export([account/2, account_tables/1, account_json/1, account_progress/1]).
-export([run/2, check/2, need/1, progress/2, slow/1, tables/1, json/1, met/1, code/1,
         format_error/1, details/1]).

-export_type([options/0, report/0, event/0, need/0, reason/0]).

-type options() ::
        #{agents => pos_integer(),              % default: as many as the scenario needs
          seed => integer(),                    % instead of the scenario's
          allow_remote => boolean(),            % default: false
          hosts => [string()],                  % other machines for the agents, by ssh
          trial => boolean(),                   % of check/2: runs some users; default: false
          tell => fun((event()) -> term())}.

%% `needs' comes before a run, and lists the limits that it will hit.
-type event() :: whittle_make:event() | whittle_load_run:event() | {needs, [need()]}.

-type need() :: whittle_load_limits:need().

-type report() ::
        #{scenario := whittle_load_scenario:scenario(),
          result := whittle_load_result:result(),
          verdicts := [whittle_load_result:verdict()],
          agents := pos_integer(),
          machines := pos_integer(),            % of the agents
          lost := [pos_integer()],
          duration := non_neg_integer()}.       % planned, nanoseconds

-type reason() :: whittle_load_scenario:error()
                | whittle_load_run:error()
                | whittle_load_target:error()
                | whittle_load_limits:error()
                | whittle_load_build:error()
                | whittle_load_account:error()
                | whittle_load_trial:error()
                | whittle_load_hosts:error()
                | whittle_load_account_text:error().

%% @doc Runs a scenario and returns its report. Errors are those of {@link format_error/1}.
-spec run(file:filename(), options()) -> {ok, report()} | {error, reason()}.
run(File, Options) ->
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    whittle_work:steps(
      [fun(_) ->
               case whittle_load_hosts:check(hosts(Options)) of
                   ok -> whittle_load_scenario:read(File);
                   {error, _} = Error -> Error
               end
       end,
       fun(Scenario) -> whittle_load_target:resolve(Scenario, Options) end,
       fun(Scenario) -> planned(Scenario, Options) end,
       fun({Scenario, Spread, Needs}) ->
               _ = [Tell({needs, Missing})
                    || [_ | _] = Missing <- [[Need || Need <- Needs,
                                                      not whittle_load_limits:enough(Need)]]],
               whittle_load_build:with_agent(
                 Scenario, Spread, hosts(Options), Tell,
                 fun(Commands) ->
                         run(changed(Scenario, Spread, Options), Commands, Spread, Tell)
                 end)
       end]).

hosts(Options) -> maps:get(hosts, Options, []).

%% Each host has an agent at least.
planned(Scenario, Options) ->
    Machine = whittle_load_machine:limits(),
    case whittle_load_limits:spread(Scenario, Options#{least => max(1, length(hosts(Options)))},
                                    Machine) of
        {ok, Spread} ->
            {ok, {Scenario, Spread, whittle_load_limits:check(Scenario, Spread, Machine)}};
        {error, _} = Error -> Error
    end.

changed(#{seed := Seed} = Scenario, #{sources := Sources}, Options) ->
    Scenario#{seed := maps:get(seed, Options, Seed), sources := Sources}.

run(Scenario, Commands, #{agents := Agents}, Tell) ->
    case whittle_load_run:run(Scenario, #{agents => Agents, commands => Commands, tell => Tell}) of
        {ok, #{result := Counted} = Outcome} ->
            #{thresholds := Thresholds} = Scenario,
            %% Machines have different clocks.
            Result = case Commands of
                         [_] -> Counted;
                         _ -> whittle_load_result:without_delivery(Counted)
                     end,
            {ok, Outcome#{result := Result, machines => length(Commands), scenario => Scenario,
                          agents => Agents,
                          verdicts => whittle_load_result:judge(Thresholds, Result)}};
        {error, _} = Error -> Error
    end.

%% @doc Lists the limits of this machine that matter for a scenario, without a run, or with a short
%% trial for the CPU time. Errors are those
%% of {@link format_error/1}.
-spec check(file:filename(), options()) ->
          {ok, #{users := non_neg_integer(), agents := pos_integer(), needs := [need()],
                 enough := boolean()}} | {error, reason()}.
check(File, Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_load_scenario:read(File) end,
       fun(Scenario) -> whittle_load_target:resolve(Scenario, Options) end,
       fun(Scenario) -> planned(Scenario, Options) end,
       fun({Scenario, Spread, Needs}) ->
               case trial(Scenario, Spread, Options) of
                   {ok, Tried} -> {ok, {Spread, Needs ++ Tried}};
                   {error, _} = Error -> Error
               end
       end,
       fun({#{users := Users, agents := Agents}, Needs}) ->
               {ok, #{users => Users, agents => Agents, needs => Needs,
                      enough => lists:all(fun whittle_load_limits:enough/1, Needs)}}
       end]).

%% The process collects the seconds of the trial in its dictionary: `tell' runs in it.
trial(Scenario, #{users := Users}, #{trial := true} = Options) ->
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    Watch = fun({second, _, Result}) -> put(?MODULE, [second(Result) | get(?MODULE)]);
               (Event) -> Tell(Event)
            end,
    Trial = whittle_load_trial:scenario(Scenario),
    undefined = put(?MODULE, []),
    Run = whittle_load_build:with_agent(
            Trial, #{files => 1024, agents => 1}, [], Tell,
            fun(Commands) ->
                    whittle_load_run:run(Trial, #{agents => 1, commands => Commands, tell => Watch})
            end),
    case {Run, lists:reverse(erase(?MODULE))} of
        {{ok, #{result := Result}}, Seconds} ->
            case whittle_load_trial:need(Scenario, Users, Seconds,
                                         whittle_load_result:event(connected, Result),
                                         erlang:system_info(logical_processors_available)) of
                {ok, Need} -> {ok, [Need]};
                {error, _} = Error -> Error
            end;
        {{error, _} = Error, _} -> Error
    end;
trial(_, _, _) -> {ok, []}.

second(Result) ->
    {lists:sum([Cpu || {_, #{cpu := Cpu}} <- whittle_load_result:agents(Result)]),
     whittle_load_result:event(started, Result), whittle_load_result:event(ended, Result)}.

%% @doc Measures what a connection costs at each end. The choices have the form `FACTOR=VALUE'.
%% Errors are those of {@link format_error/1}.
-spec account([string()], #{connections := pos_integer(),
                            tell := fun((whittle_load_account:event()) -> term())}) ->
          {ok, [whittle_load_account:account()]} | {error, reason()}.
account(Choices, Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_load_account_text:choices(Choices) end,
       fun(Kinds) -> whittle_load_account:measure(Options#{kinds => Kinds}) end]).

%% @doc Writes accounts as tables for a terminal. The first row of a table is its head.
-spec account_tables([whittle_load_account:account()]) -> [[[unicode:chardata() | integer()]]].
account_tables(Accounts) -> whittle_load_account_text:tables(Accounts).

%% @doc Writes accounts as data.
-spec account_json([whittle_load_account:account()]) -> whittle_json:json().
account_json(Accounts) -> whittle_load_account_text:json(Accounts).

%% @doc Writes the state of the measurement as a line.
-spec account_progress(whittle_load_account:event()) -> unicode:chardata().
account_progress({measuring, Kind, N, Of, Held}) ->
    [io_lib:format("~b of ~b: ", [N, Of]), whittle_load_account_text:name(Kind), ": ",
     whittle_load_unit:format_count(Held), " connections"].

%% @doc Writes what a run needs, what the machine has, and what to do if it is not enough.
-spec need(need()) -> {Limit :: string(), Needs :: string(), Has :: string(), Lift :: string()}.
need(#{limit := Limit, needs := Needs, has := Has, lift := Lift} = Need) ->
    {Limit, whittle_load_unit:format_count(Needs),
     case Has of unknown -> "unknown"; _ -> whittle_load_unit:format_count(Has) end,
     case whittle_load_limits:enough(Need) of true -> "enough"; false -> Lift end}.

%% @doc Writes the line of one second of a run.
-spec progress(non_neg_integer(), whittle_load_result:result()) -> unicode:chardata().
progress(Second, Result) ->
    Count = fun whittle_load_unit:format_count/1,
    io_lib:format("~b s: ~s started, ~s held, ~s errors~s",
                  [Second + 1, Count(whittle_load_result:event(started, Result)),
                   Count(whittle_load_result:held(Result)),
                   Count(lists:sum([N || {_, N} <- whittle_load_result:errors(Result)])),
                   [[", p99 ", whittle_load_unit:format_time(
                                 whittle_load_result:quantile(0.99, Latency))]
                    || Latency <- [whittle_load_result:latency(all, Result)], Latency =/= none]]).

%% @doc Writes a warning if the agents could not keep up with the scenario.
-spec slow(report()) -> none | unicode:chardata().
slow(#{result := Result}) ->
    case whittle_load_result:slow(Result) of
        [] -> none;
        Reasons ->
            ["the agents were too slow for this scenario, so the latencies include their delays: ",
             lists:join(", and ", [reason(Reason) || Reason <- Reasons]),
             ". Use fewer users or more agents, or run them where more processors are free"]
    end.

reason({seconds, Share}) ->
    io_lib:format("only ~.1f % of all seconds had the planned arrivals", [100 * Share]);
reason({late, Time}) ->
    ["1 % of all starts and ends of waits came more than ", whittle_load_unit:format_time(Time),
     " late"].

%% @doc Tells whether all thresholds are met, no agent was lost, and a user could connect.
-spec met(report()) -> boolean().
met(#{verdicts := Verdicts, lost := Lost, result := Result}) ->
    Lost =:= [] andalso lists:all(fun(#{met := Met}) -> Met end, Verdicts)
        andalso whittle_load_result:event(connected, Result) > 0.

%% @doc Writes the report as tables for a terminal. The first row of a table is its head.
-spec tables(report()) -> [[[unicode:chardata() | integer()]]].
tables(#{result := Result, verdicts := Verdicts, machines := Machines}) ->
    [[["users", ""] | users(Result)
      ++ [["delivery", "not measured: the agents' machines have different clocks"]
          || Machines > 1]],
     [["latency", "count", "mean", "p50", "p90", "p99", "p99.9", "max"]
      | [latency(Step, whittle_load_result:latency(Step, Result))
         || Step <- whittle_load_result:steps(Result)]]]
        ++ [[["error", "step", "count"] | [[Kind, Step, N] || {{Step, Kind}, N} <- Errors]]
            || [_ | _] = Errors <- [whittle_load_result:errors(Result)]]
        ++ [[["agent", "CPU", "busiest second", "run queue", "RSS"]
             | [agent(N, Agent) || {N, Agent} <- whittle_load_result:agents(Result)]]]
        ++ [[["threshold", "value", ""] | [verdict(Verdict) || Verdict <- Verdicts]]
            || Verdicts =/= []].

users(Result) ->
    [[Label, Count]
     || {Label, Event} <- [{"started", started}, {"connected", connected}, {"ended", ended},
                           {"cycles", cycles}],
        Count <- [whittle_load_result:event(Event, Result)], Event =/= cycles orelse Count > 0]
        ++ [["held at the end", whittle_load_result:held(Result)]]
        ++ [["seconds with the planned arrivals, within 1 %",
             io_lib:format("~.1f %", [100 * Share])]
            || Share <- [whittle_load_result:accuracy(Result)], Share =/= none]
        ++ [["delay of the agents themselves, p99",
             whittle_load_unit:format_time(whittle_load_result:quantile(0.99, Late))]
            || Late <- [whittle_load_result:late(Result)], is_map(Late), map_get(count, Late) > 0].

agent(N, #{cpu := Cpu, busiest := Busiest, queue := Queue, rss := Rss}) ->
    [integer_to_binary(N), io_lib:format("~.1f s", [Cpu / 1000]),
     io_lib:format("~.2f CPUs", [Busiest]), Queue, Rss].

latency(Step, #{count := Count, sum := Sum} = Distribution) ->
    [Step, Count, whittle_load_unit:format_time(Sum / max(1, Count))
     | [whittle_load_unit:format_time(whittle_load_result:quantile(Part, Distribution))
        || Part <- [0.5, 0.9, 0.99, 0.999, 1.0]]].

verdict(#{text := Text, measure := Measure, value := Value, met := Met}) ->
    [Text, value(Measure, Value), case Met of true -> "met"; false -> "missed" end].

value(_, none) -> "no value";
value(error_share, Share) -> io_lib:format("~.2f %", [100.0 * Share]);
value(Measure, Count) when Measure =:= errors; Measure =:= held; Measure =:= started ->
    whittle_load_unit:format_count(Count);
value(_, Time) -> whittle_load_unit:format_time(Time).

%% @doc Writes the report as data.
-spec json(report()) -> whittle_json:json().
json(#{result := Result, verdicts := Verdicts, agents := Agents, machines := Machines,
       lost := Lost, duration := Duration}) ->
    #{agents => Agents, machines => Machines, lost => length(Lost), seconds => Duration / 1.0e9,
      vms => [Agent || {_, Agent} <- whittle_load_result:agents(Result)],
      too_slow => whittle_load_result:slow(Result) =/= [],
      delay => case whittle_load_result:late(Result) of
                   none -> null;
                   Late -> distribution(Late)
               end,
      events => maps:from_list([{Event, whittle_load_result:event(Event, Result)}
                                || Event <- [started, connected, ended, cycles, sent, received]]),
      held => whittle_load_result:held(Result),
      accuracy => case whittle_load_result:accuracy(Result) of
                      none -> null;
                      Share -> Share
                  end,
      latencies => maps:from_list(
                     [{Step, distribution(whittle_load_result:latency(Step, Result))}
                      || Step <- whittle_load_result:steps(Result)]),
      errors => [#{step => Step, kind => Kind, count => N}
                 || {{Step, Kind}, N} <- whittle_load_result:errors(Result)],
      thresholds => [#{text => unicode:characters_to_binary(Text), met => Met, limit => Limit,
                       value => case Value of none -> null; _ -> Value end}
                     || #{text := Text, met := Met, limit := Limit, value := Value} <- Verdicts]}.

%% Times are nanoseconds.
distribution(#{count := Count, sum := Sum} = Distribution) ->
    maps:from_list([{count, Count}, {mean, Sum / max(1, Count)}
                    | [{Name, whittle_load_result:quantile(Part, Distribution)}
                       || {Name, Part} <- [{p50, 0.5}, {p90, 0.9}, {p99, 0.99}, {p999, 0.999},
                                           {max, 1.0}]]]).

%% @doc Returns the name of an error.
-spec code(reason()) -> atom().
code({make, Reason}) -> whittle_make:code(Reason);
code({Code, _}) -> Code;
code(Code) -> Code.

%% @doc Returns the lines to print above an error: the last output of another program.
-spec details(reason()) -> [unicode:chardata()].
details({make, Reason}) -> whittle_make:details(Reason);
details(_) -> [].

%% @doc Formats an error as one line for a person.
-spec format_error(reason()) -> unicode:chardata().
format_error({Tag, _} = Reason) when Tag =:= unreadable; Tag =:= scenario ->
    whittle_load_scenario:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= unknown_host; Tag =:= remote;
                                      Tag =:= source ->
    whittle_load_target:format_error(Reason);
format_error({too_many_agents, _} = Reason) -> whittle_load_limits:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= make; Tag =:= directory ->
    whittle_load_build:format_error(Reason);
format_error(no_ssh) -> whittle_load_hosts:format_error(no_ssh);
format_error({Tag, _} = Reason) when Tag =:= host; Tag =:= host_name ->
    whittle_load_hosts:format_error(Reason);
format_error({trial, _} = Reason) -> whittle_load_trial:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= account; Tag =:= memory; Tag =:= few_files ->
    whittle_load_account:format_error(Reason);
format_error(unknown) -> whittle_load_account:format_error(unknown);
format_error(Reason)
  when Reason =:= impossible; element(1, Reason) =:= choice; element(1, Reason) =:= factor;
       element(1, Reason) =:= value ->
    whittle_load_account_text:format_error(Reason);
format_error(Reason) -> whittle_load_run:format_error(Reason).
