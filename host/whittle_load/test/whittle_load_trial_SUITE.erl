%% Tests the estimate of CPU time from a trial.
-module(whittle_load_trial_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([scenarios/1, estimates/1, users_that_end/1, failures/1]).

all() -> [scenarios, estimates, users_that_end, failures].

%% A trial has few users, whatever the scenario has.
scenarios(_) ->
    [?assertEqual({Phases, Trial}, {Phases, maps:get(phases, whittle_load_trial:scenario(
                                                               scenario(Phases)))})
     || {Phases, Trial} <-
            [{"{ramp, 0, 9000, \"60 s\"}", open(200)}, {"{hold, 50, \"60 s\"}", open(50)},
             {"{hold, 1, \"60 s\"}", open(20)}, {"{burst, 90000}", open(200)},
             {"{closed, 7, \"60 s\"}", [{closed, 7, 7_000_000_000}]},
             {"{doubling, 1, 256, \"60 s\"}", [{closed, 100, 7_000_000_000}]}]].

open(Rate) -> [{rate, constant, Rate, Rate, 3_000_000_000}, {pause, 4_000_000_000}].

%% A start costs 2 ms here, and a user that is there 0.5 ms in each second.
estimates(_) ->
    Seconds = seconds(2, 0.5, 100),
    {ok, #{needs := Needs, has := 4000} = Need} =
        whittle_load_trial:need(scenario("{hold, 1000, \"10 s\"}"), 10_000, Seconds, 300, 4),
    ?assert(abs(Needs - (2 * 1000 + 0.5 * 10_000)) < 70),
    ?assertNot(whittle_load_limits:enough(Need)),
    {ok, #{needs := Few} = Less} =
        whittle_load_trial:need(scenario("{hold, 100, \"10 s\"}"), 1000, Seconds, 300, 4),
    ?assert(abs(Few - 700) < 10),
    ?assert(whittle_load_limits:enough(Less)).

%% Of users that end at once, only the starts cost something.
users_that_end(_) ->
    Seconds = [{100 + 300 * min(N, 3), 100 * min(N, 3), 100 * min(N, 3)} || N <- lists:seq(1, 7)],
    {ok, #{needs := 3000}} =
        whittle_load_trial:need(scenario("{hold, 1000, \"10 s\"}"), 10_000, Seconds, 300, 4).

failures(_) ->
    Scenario = scenario("{burst, 1}"),
    [?assertEqual(Text, begin
                            {error, Reason} = whittle_load_trial:need(Scenario, 1, Seconds,
                                                                      Connected, 1),
                            lists:flatten(whittle_load:format_error(Reason))
                        end)
     || {Seconds, Connected, Text} <-
            [{seconds(1, 1, 1), 0,
              "no user of the trial could connect: start the server, or leave out --trial"},
             {lists:sublist(seconds(1, 1, 1), 3), 1,
              "the trial has only 3 of its 7 seconds: run it again when the machine has less to "
              "do"}]].

%% Some milliseconds before the first user; the users of a second start in its middle.
seconds(Start, Each, Rate) ->
    {Seconds, _} = lists:mapfoldl(
                     fun(N, Cpu0) ->
                             Before = Rate * min(N - 1, 3),
                             Now = Rate * min(N, 3),
                             Cpu = Cpu0 + Start * (Now - Before) + Each * (Before + Now) / 2,
                             {{round(Cpu), Now, 0}, Cpu}
                     end, 150, lists:seq(1, 7)),
    Seconds.

scenario(Phases) ->
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"tcp://127.0.0.1:1\"}. {phases, [", Phases,
                                         "]}. {users, [{a, 1, [connect, stay]}]}."])),
    Scenario.
