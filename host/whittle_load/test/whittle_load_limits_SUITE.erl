%% Tests the spread of users and the check of limits.
-module(whittle_load_limits_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([users/1, few_descriptors/1, too_many/1, sources/1, own_choice/1,
         needs/1, rates/1, ipv6/1, unknown/1, this_machine/1]).

all() -> [users, few_descriptors, too_many, sources, own_choice, needs, rates, ipv6, unknown,
         this_machine].

%% Poisson arrivals may be more than their mean.
users(_) ->
    [?assertEqual({Phases, Arrivals, Users},
                  {Phases, Arrivals, maps:get(users, spread(Phases, Arrivals, "", machine()))})
     || {Phases, Arrivals, Users} <-
            [{"{burst, 7}", "constant", 7}, {"{soak, \"1 h\"}", "constant", 0},
             {"{hold, 100, \"10 s\"}", "constant", 1000},
             {"{hold, 100, \"10 s\"}", "poisson", 1127},
             {"{ramp, 0, 100, \"10 s\"}", "constant", 500},
             {"{closed, 5, \"1 s\"}", "constant", 5},
             {"{burst, 7}, {hold, 1, \"3 s\"}", "constant", 10}]].

%% An agent has at most 15,000 users, or as many as the hard limit allows.
few_descriptors(_) ->
    ?assertMatch(#{agents := 1, files := 15_064}, spread("{burst, 15000}", machine())),
    ?assertMatch(#{agents := 2}, spread("{burst, 15001}", machine())),
    ?assertMatch(#{agents := 10, files := 164},
                 spread("{burst, 1000}", (machine())#{files => 164})),
    ?assertMatch(#{agents := 5}, spread("{burst, 5}", (machine())#{files => 10})).

%% A machine would not survive more.
too_many(_) ->
    {error, Reason} = whittle_load_limits:spread(scenario("{burst, 15000001}", "constant", ""), #{},
                                                 machine()),
    ?assertEqual("15000001 users need 1001 agents, and a run has at most 1000: use fewer users",
                 lists:flatten(whittle_load:format_error(Reason))).

%% An address has 1,000 ports here, and half of them are in use at most.
sources(_) ->
    Machine = (machine())#{ports => 1000},
    ?assertMatch(#{sources := []}, spread("{burst, 500}", Machine)),
    ?assertMatch(#{sources := [{127, 0, 1, 1}, {127, 0, 1, 2}]}, spread("{burst, 501}", Machine)),
    #{sources := Many} = spread("{burst, 200000}", Machine),
    ?assertEqual(400, length(lists:usort(Many))),
    ?assertEqual([], [Address || {_, _, _, Last} = Address <- Many, Last =:= 0 orelse Last > 254]),
    ?assertMatch(#{sources := []}, spread("{burst, 501}", Machine#{ports => unknown})).

own_choice(_) ->
    ?assertMatch(#{sources := [{127, 0, 0, 9}], agents := 3},
                 spread("{burst, 501}", "constant",
                        "{sources, [\"127.0.0.9\"]}. {agents, 3}.", (machine())#{ports => 10})).

needs(_) ->
    [?assertEqual({Limit, false}, {Limit, enough(Limit, Change)})
     || {Limit, Change} <- [{"descriptors of an agent", #{files => 50}},
                            {"descriptors of the machine", #{all_files => 200}},
                            {"local ports of an address", #{ports => 0}},
                            {"memory of the agents and the kernel (without the server)",
                             #{memory => 1_000_000}},
                            {"memory of TCP, if a tenth has unread data",
                             #{tcp_memory => 80_000}},
                            {"connections that wait for accept", #{backlog => 99}},
                            {"connections that have only begun",
                             #{backlog => 99, syn_backlog => 99}}]],
    [?assert(enough(maps:get(limit, Need), #{})) || Need <- check(machine())].

%% A fast ramp needs a queue too. Another server has its own queues.
rates(_) ->
    Waiting = fun(Phases) ->
                      [N || #{limit := "connections that wait for accept", needs := N}
                                <- check(Phases, machine())]
              end,
    ?assertEqual([2600], Waiting("{ramp, 0, 13000, \"8 s\"}")),
    ?assertEqual([700], Waiting("{hold, 100, \"8 s\"}, {burst, 700}")),
    ?assertEqual([0], Waiting("{soak, \"8 s\"}")).

%% IPv6 has one loopback address, so users there share its ports.
ipv6(_) ->
    Scenario = scenario("tcp://[::1]:1", "{burst, 30000}", "constant", ""),
    {ok, Spread} = whittle_load_limits:spread(Scenario, #{}, machine()),
    [#{needs := 30_000, lift := Lift} = Need] =
        [Need || #{limit := "local ports of an address"} = Need
                     <- whittle_load_limits:check(Scenario, Spread, machine())],
    ?assertNot(whittle_load_limits:enough(Need)),
    ?assertMatch({match, _}, re:run(Lift, "ip -6 addr add")).

unknown(_) ->
    ?assert(enough("memory of the agents and the kernel (without the server)",
                   #{memory => unknown})).

%% Linux tells all of them.
this_machine(_) ->
    ?assertEqual([], [Limit || {Limit, unknown} <- maps:to_list(whittle_load_machine:limits())]).

%% Internal

machine() ->
    #{files => 20_000, all_files => 1_000_000, ports => 28_232, backlog => 4096,
      syn_backlog => 2048, tcp_memory => 1_000_000_000, memory => 1_000_000_000}.

enough(Limit, Change) ->
    [Need] = [Need || #{limit := Name} = Need <- check(maps:merge(machine(), Change)),
                      Name =:= Limit],
    whittle_load_limits:enough(Need).

check(Machine) -> check("{burst, 100}", Machine).

check(Phases, Machine) ->
    Scenario = scenario(Phases, "constant", ""),
    {ok, Spread} = whittle_load_limits:spread(Scenario, #{}, Machine),
    whittle_load_limits:check(Scenario, Spread, Machine).

spread(Phases, Machine) -> spread(Phases, "constant", "", Machine).

spread(Phases, Arrivals, More, Machine) ->
    {ok, Spread} = whittle_load_limits:spread(scenario(Phases, Arrivals, More), #{}, Machine),
    Spread.

scenario(Phases, Arrivals, More) -> scenario("tcp://127.0.0.1:1", Phases, Arrivals, More).

scenario(Target, Phases, Arrivals, More) ->
    {ok, Scenario} = whittle_load_scenario:parse(
                       iolist_to_binary(["{target, \"", Target, "\"}. {phases, [", Phases,
                                         "]}. {arrivals, ", Arrivals, "}. {users, [{a, 1, "
                                         "[connect]}]}. ", More])),
    Scenario.
