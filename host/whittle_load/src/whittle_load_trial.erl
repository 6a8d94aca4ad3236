%% @doc Estimates the CPU time of all agents from a short run with few users. This module is pure.
%%
%% Users start for three seconds and then stay for four. The CPU time of the later seconds is that
%% of users that are there; the rest of the CPU time is that of their starts.
%% @hidden
-module(whittle_load_trial).

-export([scenario/1, need/5, format_error/1]).

-export_type([second/0, error/0]).

%% Milliseconds of CPU time since the start of the agent, users that have started, and users that
%% have ended, at the end of a second
-type second() :: {Cpu :: non_neg_integer(), Started :: non_neg_integer(),
                   Ended :: non_neg_integer()}.

-type error() :: {trial, {short, non_neg_integer()} | no_connection}.

-define(SECOND, 1_000_000_000).
-define(RAMP, 3).
-define(STAY, 4).
-define(MOST_RATE, 200).
-define(MOST_CLOSED, 100).

%% @doc Makes the scenario of the trial: the same users and the same server.
-spec scenario(whittle_load_scenario:scenario()) -> whittle_load_scenario:scenario().
scenario(#{phases := Phases} = Scenario) ->
    Closed = [N || {closed, N, _} <- Phases],
    Scenario#{agents := 1, thresholds := [],
              phases := case Closed of
                            [] ->
                                Rate = max(20, min(?MOST_RATE, rate(Phases))),
                                [{rate, constant, Rate, Rate, ?RAMP * ?SECOND},
                                 {pause, ?STAY * ?SECOND}];
                            _ ->
                                [{closed, min(?MOST_CLOSED, lists:max(Closed)),
                                  (?RAMP + ?STAY) * ?SECOND}]
                        end}.

%% The largest number of users that start in a second
rate(Phases) ->
    lists:max([0 | [case Phase of
                        {rate, _, From, To, _} -> max(From, To);
                        {burst, N} -> N;
                        {closed, _, _} -> 0;
                        {trace, Starts, _} -> busiest(Starts);
                        {pause, _} -> 0
                    end || Phase <- Phases]]).

busiest(Starts) ->
    lists:max(maps:values(lists:foldl(fun(At, Counts) ->
                                              maps:update_with(At div ?SECOND,
                                                               fun(N) -> N + 1 end, 1, Counts)
                                      end, #{0 => 0}, Starts))).

%% @doc Computes the CPU time of the scenario from the seconds of the trial, in milliseconds per
%% second: for the users that start in the busiest second while all others are there.
-spec need(whittle_load_scenario:scenario(), Users :: non_neg_integer(), [second()],
           Connected :: non_neg_integer(), Processors :: pos_integer()) ->
          {ok, whittle_load_limits:need()} | {error, error()}.
need(_, _, _, 0, _) -> {error, {trial, no_connection}};
need(_, _, Seconds, _, _) when length(Seconds) < ?RAMP + ?STAY - 1 ->
    {error, {trial, {short, length(Seconds)}}};
need(#{phases := Phases}, Users, [First | _] = Seconds, _, Processors) ->
    Ramped = lists:nth(?RAMP, Seconds),
    Last = lists:last(Seconds),
    {StayCpu, StayUsers} = between(Ramped, Last),
    Each = StayCpu / max(1, StayUsers * (length(Seconds) - ?RAMP)),
    {RampCpu, RampUsers} = between(First, Ramped),
    Starts = element(2, Ramped) - element(2, First),
    Start = case Starts of
                0 -> 0.0;
                _ -> max(0.0, RampCpu - Each * RampUsers * (?RAMP - 1)) / Starts
            end,
    {ok, #{limit => "CPU of all agents in the busiest second, ms",
           needs => ceil(Start * rate(Phases) + Each * Users), has => 1000 * Processors,
           lift => "use fewer users, longer waits or a slower ramp, or agents on other machines"}}.

%% The CPU time between two seconds, and the mean of the users that are there
between({Cpu1, Started1, Ended1}, {Cpu2, Started2, Ended2}) ->
    {Cpu2 - Cpu1, (Started1 - Ended1 + Started2 - Ended2) / 2}.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({trial, no_connection}) ->
    "no user of the trial could connect: start the server, or leave out --trial";
format_error({trial, {short, Seconds}}) ->
    io_lib:format("the trial has only ~b of its ~b seconds: run it again when the machine has "
                  "less to do", [Seconds, ?RAMP + ?STAY]).
