%% @doc Adds up the samples of all agents, and judges the thresholds.
%%
%% Histograms of all agents are added bucket by bucket, so a percentile of the sum has the same
%% error as one of an agent: at most 1.1 % (schema 5 of whittle_counters). This module is pure.
%% @hidden
-module(whittle_load_result).

-export([new/0, second/2, without_delivery/1, event/2, held/1, errors/1, latency/2]).
-export([overall/1, quantile/2, unanswered/1, has_answers/1,
         longest_answer/1, late/1, arrivals/1, steps/1, accuracy/1, agents/1, slow/1]).
-export([judge/2]).

-export_type([result/0, verdict/0, agent/0, slow/0]).

-record(result, {events = #{} :: #{whittle_load_agent_tally:event() => non_neg_integer()},
                 errors = #{} :: #{{binary(), binary()} => pos_integer()},
                 latencies = #{} :: #{binary() => whittle_counters_table:distribution()},
                 unanswered = none :: none | whittle_counters_table:distribution(),
                 late = none :: none | whittle_counters_table:distribution(),
                 arrivals = #{} :: #{non_neg_integer() =>
                                         {non_neg_integer(), non_neg_integer()}},
                 agents = #{} :: #{pos_integer() => agent()},
                 held = #{} :: #{pos_integer() => integer()}}).   % of the agents that still run

-opaque result() :: #result{}.

%% The VM of an agent: its last sample, and the worst of all samples.
-type agent() :: #{cpu := non_neg_integer(),          % milliseconds in all
                   memory := non_neg_integer(),       % bytes that the VM has allocated
                   rss := non_neg_integer(),          % bytes
                   busiest := float(),                % processors, in the busiest second
                   queue := non_neg_integer()}.       % the most processes that waited

%% Why the agents were too slow
-type slow() :: {seconds, float()}                    % the part with the planned arrivals
              | {late, number()}.                     % nanoseconds, 99th percentile

%% A threshold of all steps leaves out `connect'. If it is met, and `connect' alone would miss it,
%% `connect' has that value, in nanoseconds.
-type verdict() :: #{text := string(), measure := whittle_load_scenario:measure(),
                     value := number() | none, limit := number(), met := boolean(),
                     connect := number() | none}.

-define(SCHEMA, 5).

%% The agents were too slow if fewer seconds have the planned arrivals, or if more than 1 % of all
%% starts and ends of waits come later.
-define(SECONDS_IN_TIME, 0.95).
-define(LATE_NS, 10_000_000).

%% @doc Makes the result of a run without samples.
-spec new() -> result().
new() -> #result{}.

%% @doc Adds the samples of a second.
-spec second(whittle_load_second:second(), result()) -> result().
second(#{events := Events, errors := Errors, latencies := Latencies, unanswered := Unanswered,
         late := Late, arrivals := Arrivals, agents := Vms, lost := Lost}, Result) ->
    #result{agents = Agents, held = Held} = Result,
    Result#result{
      events = whittle_load_second:sums(Events, Result#result.events),
      errors = whittle_load_second:sums(Errors, Result#result.errors),
      latencies = whittle_load_second:distributions(Latencies, Result#result.latencies),
      unanswered = whittle_load_second:distribution(Unanswered, Result#result.unanswered),
      late = whittle_load_second:distribution(Late, Result#result.late),
      arrivals = maps:merge_with(fun(_, {A, B}, {C, D}) -> {A + C, B + D} end, Arrivals,
                                 Result#result.arrivals),
      agents = maps:merge(Agents, maps:map(fun(N, Vm) -> agent(Vm, maps:get(N, Agents, none)) end,
                                           Vms)),
      held = maps:without(Lost, whittle_load_second:sums(
                                  maps:map(fun(_, #{held := Gained}) -> Gained end, Vms), Held))}.

%% The first sample also has the CPU time of the start of the VM.
agent(Vm, none) -> (maps:remove(held, Vm))#{busiest => 0.0};
agent(#{cpu := Cpu, queue := Queue} = Vm, #{cpu := Before, queue := Longest, busiest := Busiest}) ->
    (maps:remove(held, Vm))#{busiest => max(Busiest, (Cpu - Before) / 1000),
                             queue => max(Queue, Longest)}.

%% @doc Returns how often an event has happened.
-spec event(whittle_load_agent_tally:event(), result()) -> non_neg_integer().
event(Event, #result{events = Events}) -> maps:get(Event, Events, 0).

%% @doc Removes the times of deliveries, which compare the clocks of two agents.
-spec without_delivery(result()) -> result().
without_delivery(#result{latencies = Latencies} = Result) ->
    Result#result{latencies = maps:remove(<<"delivery">>, Latencies)}.

%% @doc Returns the users that are held now.
-spec held(result()) -> integer().
held(#result{held = Held}) -> lists:sum(maps:values(Held)).

%% @doc Returns the errors by step and kind, the most frequent first.
-spec errors(result()) -> [{{binary(), binary()}, pos_integer()}].
errors(#result{errors = Errors}) -> lists:reverse(lists:keysort(2, maps:to_list(Errors))).

%% @doc Returns the names of the steps with latencies.
-spec steps(result()) -> [binary()].
steps(#result{latencies = Latencies}) -> lists:sort(maps:keys(Latencies)).

%% @doc Returns the latencies of a step in nanoseconds, or those of all steps but the connections.
%% Users without other steps have those of the connections. If other steps were tried, and each
%% failed, there are none: the server would look fast otherwise.
-spec latency(binary() | all, result()) -> whittle_counters_table:distribution() | none.
latency(all, #result{latencies = Latencies, errors = Errors}) ->
    case [Step || {Step, _} <- maps:keys(Errors), Step =/= <<"connect">>, Step =/= <<"wait">>] of
        [] -> overall(Latencies);
        [_ | _] -> overall(maps:remove(<<"connect">>, Latencies))
    end;
latency(Step, #result{latencies = Latencies}) -> maps:get(Step, Latencies, none).

%% @doc Adds the latencies of all steps but the connections. Users without other steps have those.
-spec overall(#{binary() => whittle_counters_table:distribution()}) ->
          whittle_counters_table:distribution() | none.
overall(Latencies) ->
    lists:foldl(fun whittle_load_second:distribution/2, none,
                maps:values(case maps:remove(<<"connect">>, Latencies) of
                                Others when map_size(Others) > 0 -> Others;
                                _ -> Latencies
                            end)).

%% @doc Returns the value below which a part of a distribution lies.
-spec quantile(float(), whittle_counters_table:distribution()) -> number().
quantile(Part, Distribution) -> whittle_counters_scale:quantile(?SCHEMA, Distribution, Part).

%% @doc Returns the nanoseconds that steps without an answer had waited when the run ended. They are
%% among the latencies. There are `none' if each step had its answer.
-spec unanswered(result()) -> whittle_counters_table:distribution() | none.
unanswered(#result{unanswered = #{count := Count} = Unanswered}) when Count > 0 -> Unanswered;
unanswered(_) -> none.

%% @doc Tells whether any step got its answer. A connection counts as one only if the users have no
%% other steps that wait for answers.
-spec has_answers(result()) -> boolean().
has_answers(#result{latencies = Latencies} = Result) ->
    Connected = event(connected, Result),
    case maps:without([<<"connect">>, <<"delivery">>], Latencies) of
        None when map_size(None) =:= 0 -> Connected > 0;
        Others ->
            %% Steps that had no answer when the run ended are among the latencies.
            Connecting = max(0, count(maps:get(<<"connect">>, Latencies, none)) - Connected),
            Waiting = count(unanswered(Result)) - Connecting,
            lists:sum([count(Each) || Each <- maps:values(Others)]) > Waiting
    end.

count(none) -> 0;
count(#{count := Count}) -> Count.

%% @doc Returns the nanoseconds of the longest answer, or 0.
-spec longest_answer(result()) -> number().
longest_answer(#result{latencies = Latencies, unanswered = Unanswered}) ->
    All = lists:foldl(fun whittle_load_second:distribution/2, none, maps:values(Latencies)),
    Waited = case Unanswered of
                 none -> #{};
                 #{buckets := Buckets} -> maps:from_list(Buckets)
             end,
    case All of
        none -> 0;
        #{buckets := Each} ->
            Left = [{I, N} || {I, N} <- Each, N > maps:get(I, Waited, 0)],
            quantile(1.0, All#{buckets := Left, zeros := 0,
                               count := lists:sum([N || {_, N} <- Left])})
    end.

%% @doc Returns by how many nanoseconds users started too late, or went on after a wait.
-spec late(result()) -> whittle_counters_table:distribution() | none.
late(#result{late = Late}) -> Late.

%% @doc Returns the planned and the actual starts of each second.
-spec arrivals(result()) -> [{non_neg_integer(), {non_neg_integer(), non_neg_integer()}}].
arrivals(#result{arrivals = Arrivals}) -> lists:sort(maps:to_list(Arrivals)).

%% @doc Returns the share of all seconds with arrivals in which the actual starts differ from the
%% planned ones by at most 1 %, or by one user where 1 % is less.
-spec accuracy(result()) -> float() | none.
accuracy(Result) ->
    case arrivals(Result) of
        [] -> none;
        All ->
            Right = [1 || {_, {Planned, Actual}} <- All,
                          abs(Planned - Actual) =< max(1, Planned / 100)],
            length(Right) / length(All)
    end.

%% @doc Returns the VM of each agent, by its number.
-spec agents(result()) -> [{pos_integer(), agent()}].
agents(#result{agents = Agents}) -> lists:sort(maps:to_list(Agents)).

%% @doc Tells why the agents were too slow for the scenario. The list is empty if they were not.
-spec slow(result()) -> [slow()].
slow(#result{late = Late} = Result) ->
    [{seconds, Share} || Share <- [accuracy(Result)], Share =/= none, Share < ?SECONDS_IN_TIME]
        ++ [{late, Time} || Late =/= none, Time <- [quantile(0.99, Late)],
                            is_number(Time), Time > ?LATE_NS].

%% @doc Judges the thresholds. A measure without values does not meet its threshold.
-spec judge([whittle_load_scenario:threshold()], result()) -> [verdict()].
judge(Thresholds, Result) ->
    %% A scenario with a threshold for `connect' needs no note.
    Known = lists:any(fun(#{step := Step}) -> Step =:= "connect" end, Thresholds),
    [begin
         Value = measured(Measure, step(Step), Result),
         Met = is_met(Value, Threshold),
         Connect = case {Measure, Step, lists:member(Relation, ['<', '=<'])} of
                       {{quantile, _}, all, true} -> measured(Measure, <<"connect">>, Result);
                       {mean, all, true} -> measured(Measure, <<"connect">>, Result);
                       _ -> none
                   end,
         #{text => Text, measure => Measure, value => Value, limit => Limit, met => Met,
           connect => case Met andalso not Known andalso not is_met(Connect, Threshold) of
                          true -> Connect;
                          false -> none
                      end}
     end || #{text := Text, measure := Measure, step := Step, relation := Relation,
              limit := Limit} = Threshold <- Thresholds].

is_met(none, _) -> false;
is_met(Value, #{relation := Relation, limit := Limit}) -> erlang:Relation(Value, Limit).

step(all) -> all;
step(Text) -> unicode:characters_to_binary(Text).

measured({quantile, Part}, Step, Result) ->
    case latency(Step, Result) of
        none -> none;
        Distribution -> quantile(Part, Distribution)
    end;
measured(mean, Step, Result) ->
    case latency(Step, Result) of
        #{count := Count, sum := Sum} when Count > 0 -> Sum / Count;
        _ -> none
    end;
measured(errors, _, Result) -> sum_of_errors(Result);
measured(error_share, _, Result) ->
    case event(started, Result) of
        0 -> none;
        Started -> sum_of_errors(Result) / Started
    end;
measured(held, _, Result) -> held(Result);
measured(started, _, Result) -> event(started, Result).

sum_of_errors(#result{errors = Errors}) -> lists:sum(maps:values(Errors)).
