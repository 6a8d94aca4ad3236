%% @doc Writes the report of a run: as lines and tables for people, and as data. This module is
%% pure.
%% @hidden
-module(whittle_load_table).

-export([progress/2, warnings/1, met/1, tables/1, json/1, csv/1, phases_csv/1, value/2]).

-export_type([report/0]).

%% Of a run, or of the directory of one
-type report() ::
        #{result := whittle_load_result:result(),
          verdicts := [whittle_load_result:verdict()],
          agents := pos_integer(),
          phases := [whittle_load_phases:row()],
          machines := pos_integer(),            % of the agents
          holds := boolean(),                   % whether users of the scenario can be held
          lost := [pos_integer()],
          duration := non_neg_integer(),        % planned, nanoseconds
          stopped := none | whittle_load_run:stopped() | {killed, non_neg_integer()},
          _ => _}.

%% @doc Writes the line of one second of a run.
-spec progress(non_neg_integer(), whittle_load_result:result()) -> unicode:chardata().
progress(Second, Result) ->
    Count = fun whittle_load_unit:format_count/1,
    io_lib:format("~b s: ~s started, ~s held, ~s~s",
                  [Second + 1, Count(whittle_load_result:event(started, Result)),
                   Count(whittle_load_result:held(Result)),
                   case lists:sum([N || {_, N} <- whittle_load_result:errors(Result)]) of
                       1 -> "1 error";
                       Errors -> [Count(Errors), " errors"]
                   end,
                   [[", p99 ", whittle_load_unit:format_time(
                                 whittle_load_result:quantile(0.99, Latency))]
                    || Latency <- [whittle_load_result:latency(all, Result)], Latency =/= none]]).

%% @doc Writes a line for each thing that one must know before one reads the numbers. The first says
%% that the agents could not keep up with the scenario.
-spec warnings(report()) -> [unicode:chardata()].
warnings(#{result := Result, lost := Lost, agents := Agents, duration := Duration,
           stopped := Stopped, verdicts := Verdicts} = Report) ->
    [["the load generator was the bottleneck: the agents were too slow for this scenario, so the "
      "latencies include their delays: ",
      lists:join(", and ", [reason(Reason) || Reason <- Reasons]),
      ". Use fewer users or more agents, or run them where more processors are free"]
     || connected(Result), [_ | _] = Reasons <- [whittle_load_result:slow(Result)]]
        ++ [stopped(Stopped, Duration) || Stopped =/= none]
        ++ [lost(Lost, Agents) || Lost =/= []]
        ++ unanswered(Result)
        ++ [left_out(Verdict) || #{connect := Time} = Verdict <- Verdicts, Time =/= none]
        ++ [["no user could connect", most(Result), ": ", remedy(Result)]
            || not connected(Result)]
        ++ [["no user got as far as being held", most(Result),
             ": correct the steps, or the users' names and passwords"]
            || connected(Result), not held(Report)]
        ++ [["all users failed", most(Result), ": correct the steps, or look for the reason in the "
             "server's log"]
            || connected(Result), held(Report), all_failed(Result)].

lost([N], Agents) ->
    io_lib:format("agent ~b of ~b ended too soon: the results lack its last counts, and its users "
                  "do not count as held", [N, Agents]);
lost(Numbers, Agents) ->
    io_lib:format("~b of ~b agents ended too soon (the agents ~ts): the results lack their last "
                  "counts, and their users do not count as held",
                  [length(Numbers), Agents,
                   lists:join(", ", [integer_to_list(N) || N <- Numbers])]).

%% Steps that wait longer than any answer took show a server that stalls, or an answer that never
%% comes.
unanswered(Result) ->
    [io_lib:format("~s no answer when the run ended, after up to ~s. ~s. These times are among the "
                   "latencies",
                   [case Count of
                        1 -> "1 step had";
                        _ -> io_lib:format("~b steps had", [Count])
                    end, whittle_load_unit:format_time(Longest), Why])
     || #{count := Count} = Unanswered <- [whittle_load_result:unanswered(Result)],
        Longest <- [whittle_load_result:quantile(1.0, Unanswered)],
        Why <- case none_answered(Result) of
                   true -> ["No step got an answer: see whether the server stalls, or correct the "
                            "steps"];
                   false -> ["That is longer than any answer took: see whether the server stalls"
                             || Longest > whittle_load_result:longest_answer(Result)]
               end].

%% Without steps that wait for an answer, no answer is missing.
none_answered(Result) ->
    whittle_load_result:unanswered(Result) =/= none
        andalso not whittle_load_result:has_answers(Result).

%% The new threshold has the same measure and limit, for `connect'.
left_out(#{text := Text, connect := Time}) ->
    {match, [Measure]} = re:run(Text, "^ *([a-z]+[0-9.]*)",
                                [unicode, {capture, all_but_first, list}]),
    New = re:replace(Text, "^ *[a-z]+[0-9.]*", "& connect", [unicode, {return, list}]),
    io_lib:format("the threshold `~ts' leaves out `connect', whose ~s is ~s: see whether the "
                  "server stalls while users connect, and add the threshold \"~ts\" to judge that "
                  "too",
                  [string:trim(Text), Measure, whittle_load_unit:format_time(Time),
                   string:trim(New)]).

stopped({Why, After}, Duration) ->
    At = io_lib:format(" at second ~b of ~b", [seconds(After), seconds(Duration)]),
    case Why of
        asked ->
            ["the run was stopped", At,
             io_lib:format(": the results are those of ~b s", [seconds(After)])];
        killed -> ["the samples end", At, ", because the run was killed, or its disk was full"];
        {kept, Reason} -> ["the run was stopped", At, ", because ", Reason]
    end.

seconds(Ns) -> round(Ns / 1.0e9).

most(Result) ->
    [io_lib:format(" (~ts, ~b times: ~ts)", [Step, N, Kind])
     || {{Step, Kind}, N} <- lists:sublist(whittle_load_result:errors(Result), 1)].

%% An address of `sources' that the machine of an agent lacks has this error.
remedy(Result) ->
    case whittle_load_result:errors(Result) of
        [{{_, <<"eaddrnotavail">>}, _} | _] ->
            "correct `sources', if the scenario has it, or `target'";
        _ -> "start the server, or correct `target'"
    end.

connected(Result) -> whittle_load_result:event(connected, Result) > 0.

%% Each open user fails at most once. A closed user may fail many times, and completes cycles
%% otherwise.
all_failed(Result) ->
    Errors = lists:sum([N || {_, N} <- whittle_load_result:errors(Result)]),
    Started = whittle_load_result:event(started, Result),
    Started > 0 andalso Errors >= Started andalso whittle_load_result:held(Result) =:= 0
        andalso whittle_load_result:event(cycles, Result) =:= 0.

%% Whether a user was held, where users can be held and failed
held(#{result := Result} = Report) ->
    not map_get(holds, Report) orelse whittle_load_result:errors(Result) =:= []
        orelse whittle_load_result:event(held, Result) > 0.

reason({seconds, Share}) ->
    io_lib:format("only ~.1f % of all seconds had the planned arrivals", [100 * Share]);
reason({late, Time}) ->
    ["1 % of the starts of users and of the ends of waits came more than ",
     whittle_load_unit:format_time(Time), " late"].

%% @doc Tells whether all thresholds are met, no agent was lost, a user could connect, not all users
%% failed, a step got an answer if steps wait for answers, and a user was held if the users of the
%% scenario can be.
-spec met(report()) -> boolean().
met(#{verdicts := Verdicts, lost := Lost, result := Result} = Report) ->
    Lost =:= [] andalso lists:all(fun(#{met := Met}) -> Met end, Verdicts)
        andalso connected(Result) andalso held(Report) andalso not all_failed(Result)
        andalso not none_answered(Result).

%% @doc Writes the report as tables for a terminal. The first row of a table is its head.
-spec tables(report()) -> [[[unicode:chardata() | integer()]]].
tables(#{result := Result, verdicts := Verdicts, machines := Machines} = Report) ->
    [[["users", ""] | users(Result)
      ++ [["delivery", "not measured: the agents' machines have different clocks"]
          || Machines > 1]],
     [["latency", "count", "mean", "p50", "p90", "p99", "p99.9", "max"]
      | [latency(Step, whittle_load_result:latency(Step, Result))
         || Step <- whittle_load_result:steps(Result)]]]
        ++ [Table || [_, _ | _] = Table <- [phases(Report)]]
        ++ [[["error", "step", "count"] | [[Kind, Step, N] || {{Step, Kind}, N} <- Errors]]
            || [_ | _] = Errors <- [whittle_load_result:errors(Result)]]
        ++ [[["agent", "CPU", "busiest second", "run queue", "RSS"]
             | [agent(N, Agent) || {N, Agent} <- whittle_load_result:agents(Result)]]]
        ++ [[["threshold", "value", ""] | [verdict(Verdict) || Verdict <- Verdicts]]
            || Verdicts =/= []].

%% The table of the phases with a fixed number of users, with its head. Without such phases there
%% are no rows.
phases(#{phases := Rows}) ->
    [["closed users", "seconds", "cycles", "cycles/s", "cycles of a user", "errors", "p50", "p99"]
     | [[integer_to_binary(Users), Seconds, Cycles, io_lib:format("~.1f", [Cycles / Seconds]),
         io_lib:format("~.1f", [Cycles / Users]), lists:sum(maps:values(Errors))
         | [case Latency of
                none -> "";
                _ -> whittle_load_unit:format_time(whittle_load_result:quantile(Part, Latency))
            end || Part <- [0.5, 0.99]]]
        || #{users := Users, seconds := Seconds, cycles := Cycles, errors := Errors,
             latency := Latency} <- Rows]].

users(Result) ->
    [[Label, Count]
     || {Label, Event} <- [{"started", started}, {"connected", connected}, {"ended", ended},
                           {"cycles", cycles}],
        Count <- [whittle_load_result:event(Event, Result)], Event =/= cycles orelse Count > 0]
        ++ [["held at the end", whittle_load_result:held(Result)]]
        ++ [["without an answer at the end",
             io_lib:format("~b, after up to ~s",
                           [Count, whittle_load_unit:format_time(
                                     whittle_load_result:quantile(1.0, Unanswered))])]
            || #{count := Count} = Unanswered <- [whittle_load_result:unanswered(Result)]]
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

%% @doc Writes the value of a measure.
-spec value(whittle_load_scenario:measure(), number() | none) -> unicode:chardata().
value(_, none) -> "no value";
value(error_share, Share) -> io_lib:format("~.2f %", [100.0 * Share]);
value(Measure, Count) when Measure =:= errors; Measure =:= held; Measure =:= started ->
    whittle_load_unit:format_count(Count);
value(_, Time) -> whittle_load_unit:format_time(Time).

%% @doc Writes the report as data.
-spec json(report()) -> whittle_json:json().
json(#{result := Result, verdicts := Verdicts, agents := Agents, machines := Machines,
       phases := Phases, lost := Lost, duration := Duration, stopped := Stopped} = Report) ->
    #{agents => Agents, machines => Machines, lost => length(Lost), seconds => Duration / 1.0e9,
      stopped => case Stopped of
                     none -> null;
                     {Why, After} ->
                         #{seconds => After / 1.0e9,
                           reason => case Why of
                                         asked -> asked;
                                         killed -> killed;
                                         {kept, Reason} -> unicode:characters_to_binary(Reason)
                                     end}
                 end,
      warnings => [unicode:characters_to_binary(Line) || Line <- warnings(Report)],
      arrivals => [#{second => Second, planned => Planned, actual => Actual}
                   || {Second, {Planned, Actual}} <- whittle_load_result:arrivals(Result)],
      vms => [Agent || {_, Agent} <- whittle_load_result:agents(Result)],
      too_slow => whittle_load_result:slow(Result) =/= [],
      unanswered => case whittle_load_result:unanswered(Result) of
                        none -> null;
                        Unanswered -> distribution(Unanswered)
                    end,
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
      phases => [Row#{latency := case Latency of
                                     none -> null;
                                     _ -> distribution(Latency)
                                 end} || #{latency := Latency} = Row <- Phases],
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

%% @doc Writes the latencies of each step as CSV (RFC 4180), in nanoseconds.
-spec csv(report()) -> iodata().
csv(#{result := Result}) ->
    Parts = [{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}],
    [lists:join($,, ["step", "count", "mean" | [Name || {Name, _} <- Parts]]), "\r\n",
     [[lists:join($,, [quoted(Step), integer_to_list(Count),
                       integer_to_list(round(Sum / max(1, Count)))
                       | [integer_to_list(round(whittle_load_result:quantile(Part, Latency)))
                          || {_, Part} <- Parts]]), "\r\n"]
      || Step <- whittle_load_result:steps(Result),
         #{count := Count, sum := Sum} = Latency <- [whittle_load_result:latency(Step, Result)]]].

quoted(Text) -> [$", string:replace(Text, "\"", "\"\"", all), $"].

%% @doc Writes the phases with a fixed number of users as CSV (RFC 4180). Latencies are nanoseconds.
-spec phases_csv(report()) -> iodata().
phases_csv(#{phases := Rows}) ->
    ["users,seconds,cycles,errors,count,p50,p90,p99,max\r\n",
     [[lists:join($,, [integer_to_list(N) || N <- [Users, Seconds, Cycles,
                                                   lists:sum(maps:values(Errors))]]
                  ++ case Latency of
                         none -> ["0", "", "", "", ""];
                         #{count := Count} ->
                             [integer_to_list(Count)
                              | [integer_to_list(round(whittle_load_result:quantile(Part, Latency)))
                                 || Part <- [0.5, 0.9, 0.99, 1.0]]]
                     end), "\r\n"]
      || #{users := Users, seconds := Seconds, cycles := Cycles, errors := Errors,
           latency := Latency} <- Rows]].
