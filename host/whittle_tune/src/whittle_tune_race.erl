%% @doc Decides a race of candidates: which may go on, which are on the front, which is best.
%%
%% All functions are pure. A result is what one run of one candidate showed. Candidates are compared
%% within blocks, as ratios to the baseline in the same block, so that the state of the machine
%% cancels.
%% @hidden
-module(whittle_tune_race).

-export([alive/3, out/3, useful/3, front/2, best/3, summary/2, slowdown/2, detectable/2,
         holds/3]).

-export_type([result/0, limits/0, summary/0, why/0]).

-type result() ::
        #{block := integer(), name := atom(),
          peak => pos_integer(),                % bytes
          time => number(),                     % milliseconds of the workload, or of the program
          kind => workload_time | run_time,     % of the time
          cpu => number(),                      % milliseconds
          failed => unicode:chardata()}.        % the run failed: one line

-type limits() :: #{ram := pos_integer() | none, slowdown := float()}. % 0.05: 5 %

%% Why a candidate is out of the race.
-type why() :: {failed, unicode:chardata()} | {over_budget, pos_integer()} | {slower, float()}
             | {larger, float()}.

%% Medians of one candidate. `ratio' and `slowdown' compare with the baseline.
-type summary() ::
        #{name := atom(), runs := pos_integer(), failed := non_neg_integer(),
          peak => float(), most => pos_integer(), ratio => float(),
          interval => whittle_measure_statistics:interval(), slowdown => float()}.

%% A candidate is out when a test is as sure of it as this.
-define(LEVEL, 0.05).
%% Less CPU time than this is noise.
-define(LEAST_CPU_MS, 200).
%% A move is useful if it saves at least this part of the memory.
-define(GAIN, 0.003).

%% @doc Returns the candidates that may go on: all but those that are {@link out/3}.
-spec alive([atom()], [result()], limits()) -> [atom()].
alive(Names, Results, Limits) ->
    Out = [Name || {Name, _} <- out(Names, Results, Limits)],
    [Name || Name <- Names, not lists:member(Name, Out)].

%% @doc Returns the candidates that are out of the race, with the reason: a failed run, one peak
%% above the budget, surely slower than allowed, or surely larger than the best. The last two need
%% two blocks at least.
-spec out([atom()], [result()], limits()) -> [{atom(), why()}].
out(Names, Results, Limits) ->
    Hard = [{Name, Why} || Name <- Names, Why <- hard(Name, Results, Limits)],
    Left = Names -- [Name || {Name, _} <- Hard],
    Hard ++ larger(Left, Results).

hard(Name, Results, #{ram := Ram, slowdown := Allowed}) ->
    Own = of_name(Name, Results),
    Failures = [{failed, Line} || #{failed := Line} <- Own],
    Over = [{over_budget, Peak} || #{peak := Peak} <- Own, Ram =/= none, Peak > Ram],
    Slower = [{slower, math:exp(whittle_measure_statistics:mean(Logs))}
              || Logs <- slow_logs(Name, Results),
                 surely_above(Logs, math:log(1 + Allowed))],
    lists:sublist(Failures ++ Over ++ Slower, 1).

surely_above(Logs, Limit) when length(Logs) >= 2 ->
    #{mean := Mean, p := P} = whittle_measure_statistics:t_test([Log - Limit || Log <- Logs]),
    Mean > 0 andalso P < 2 * ?LEVEL;
surely_above(_, _) -> false.

%% The best is the one with the least median peak.
larger([], _) -> [];
larger(Names, Results) ->
    case lists:sort([{Peak, Name} || Name <- Names, #{peak := Peak} <- [summary(Name, Results)]]) of
        [] -> [];
        [{_, Best} | Others] ->
            [{Name, {larger, math:exp(whittle_measure_statistics:mean(Logs))}}
             || {_, Name} <- Others,
                Logs <- [logs(peak, Name, Best, Results)],
                surely_above(Logs, 0.0)]
    end.

of_name(Name, Results) -> [Result || #{name := Of} = Result <- Results, Of =:= Name].

%% The logarithms of the ratios in the blocks that both have.
logs(Key, Name, Base, Results) ->
    Values = maps:from_list([{Block, Value}
                             || #{name := Of, block := Block, Key := Value} <- Results,
                                Of =:= Base, Value > 0]),
    [math:log(Value / maps:get(Block, Values))
     || #{name := Of, block := Block, Key := Value} <- Results, Of =:= Name, Value > 0,
        is_map_key(Block, Values)].

%% Time, and CPU time if there is enough of it to compare.
slow_logs(Name, Results) ->
    Cpu = [Value || #{name := own, cpu := Value} <- Results],
    [Logs || Logs <- [logs(time, Name, own, Results)
                      | [logs(cpu, Name, own, Results)
                         || Cpu =/= [],
                            whittle_measure_statistics:median(Cpu) >= ?LEAST_CPU_MS]],
             Logs =/= []].

%% @doc Returns the larger one of the ratios of time and of CPU time to the baseline, as a median.
%% It is 1 if there is nothing to compare.
-spec slowdown(atom(), [result()]) -> float().
slowdown(Name, Results) ->
    lists:max([1.0e-9 | [math:exp(whittle_measure_statistics:median(Logs))
                         || Logs <- slow_logs(Name, Results)]]
              ++ [1.0 || slow_logs(Name, Results) =:= []]).

%% @doc Returns the least slowdown that these runs detect in four of five cases, as a part (0.05: 5
%% %), for the candidate with the largest noise. It is 0 if there is nothing to compare.
-spec detectable([atom()], [result()]) -> float().
detectable(Names, Results) ->
    lists:max([0.0 | [math:exp(whittle_measure_statistics:detectable(Logs, ?LEVEL)) - 1
                      || Name <- Names, Name =/= own,
                         [_, _ | _] = Logs <- slow_logs(Name, Results)]]).

%% @doc Returns the medians of a candidate.
-spec summary(atom(), [result()]) -> summary().
summary(Name, Results) ->
    Own = of_name(Name, Results),
    Failed = length([failed || #{failed := _} <- Own]),
    Summary = #{name => Name, runs => length(Own), failed => Failed},
    case [Peak || #{peak := Peak} <- Own] of
        [] -> Summary;
        Peaks ->
            Compared = case logs(peak, Name, own, Results) of
                           [] -> #{};
                           Logs ->
                               Median = fun whittle_measure_statistics:median/1,
                               {Low, High} = whittle_measure_statistics:median_interval(Logs),
                               #{ratio => math:exp(Median(Logs)),
                                 interval => {math:exp(Low), math:exp(High)},
                                 slowdown => slowdown(Name, Results)}
                       end,
            maps:merge(Summary#{peak => whittle_measure_statistics:median(Peaks),
                                most => lists:max(Peaks)}, Compared)
    end.

%% @doc Lists the moves that save memory and are not surely slower than allowed, in the order of
%% their gain. A move alone may be above the budget.
-spec useful([atom()], [result()], limits()) -> [atom()].
useful(Names, Results, Limits) ->
    Relaxed = Limits#{ram := none},
    [Name || {_, Name} <- lists:sort(
                            [{Ratio, Name}
                             || Name <- Names, hard(Name, Results, Relaxed) =:= [],
                                #{ratio := Ratio} <- [summary(Name, Results)],
                                Ratio < 1 - ?GAIN])].

%% @doc Lists the Pareto front: the candidates for which no other one has both less memory and less
%% slowdown, in the order of memory. A candidate that failed is not on it.
-spec front([atom()], [result()]) -> [summary()].
front(Names, Results) ->
    All = [Summary || Name <- Names,
                      #{ratio := _, failed := 0} = Summary <- [summary(Name, Results)]],
    lists:sort(fun(#{peak := One}, #{peak := Other}) -> One =< Other end,
               [Summary || Summary <- All,
                           not lists:any(fun(Other) -> dominates(Other, Summary) end, All)]).

dominates(#{peak := Peak, slowdown := Slow}, #{peak := OtherPeak, slowdown := OtherSlow}) ->
    Peak =< OtherPeak andalso Slow =< OtherSlow andalso {Peak, Slow} =/= {OtherPeak, OtherSlow}.

%% @doc Lists the candidates that hold all limits and save memory, the one with the least median
%% peak first.
-spec best([atom()], [result()], limits()) -> [atom()].
best(Names, Results, Limits) ->
    [Name || {_, Name} <- lists:sort([{Peak, Name}
                                      || Name <- Names, holds(Name, Results, Limits),
                                         #{peak := Peak, ratio := Ratio}
                                             <- [summary(Name, Results)],
                                         Ratio < 1 - ?GAIN])].

%% @doc Tells whether a candidate holds all limits: no failure, no peak above the budget, and a
%% median that is not slower than allowed.
-spec holds(atom(), [result()], limits()) -> boolean().
holds(Name, Results, #{slowdown := Allowed} = Limits) ->
    of_name(Name, Results) =/= [] andalso hard(Name, Results, Limits) =:= []
        andalso slowdown(Name, Results) =< 1 + Allowed.
