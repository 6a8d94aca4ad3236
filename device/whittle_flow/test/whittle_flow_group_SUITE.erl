-module(whittle_flow_group_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([all_get_all/1, large_terms/1, leaving/1, member_dies/1, overload/1, relay_dies/1,
         one_copy_per_node/1, bad_input/1, gatherer/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [all_get_all, large_terms, leaving, member_dies, overload, relay_dies, one_copy_per_node,
     bad_input].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_flow),
    _ = process_flag(trap_exit, true),
    Config.

end_per_testcase(_, _) ->
    [begin true = unlink(Pid), gen_server:stop(Pid) end || Pid <- [whereis(group)], is_pid(Pid)],
    application:stop(whittle_flow),
    application:stop(whittle_counters).

start(Options) ->
    {ok, Group} = whittle_flow_group:start_link(group, Options),
    Group.

members(N) ->
    Test = self(),
    [begin
         Pid = spawn_link(?MODULE, gatherer, [Test, []]),
         ok = whittle_flow_group:join(group, Pid),
         Pid
     end || _ <- lists:seq(1, N)].

%% Gathers what it gets until it is told to tell.
gatherer(Test, Got) ->
    receive
        {whittle_flow_group, group, Messages} -> gatherer(Test, lists:reverse(Messages, Got));
        {tell, To} -> To ! {self(), lists:reverse(Got)}, gatherer(Test, Got)
    end.

told(Pid) ->
    Pid ! {tell, self()},
    receive {Pid, Got} -> Got end.

all_get_all(_) ->
    start(#{}),
    Members = members(200),
    [ok = whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 500)],
    ok = whittle_flow_group:sync(group),
    [?assert(lists:seq(1, 500) =:= told(M)) || M <- Members],
    ?assertEqual({ok, 500}, whittle_counters:value(whittle_flow_broadcasts_total, [group])),
    ?assertEqual({ok, 100000}, whittle_counters:value(whittle_flow_deliveries_total, [group])).

%% Shared terms are the same terms, also after they were taken away.
large_terms(_) ->
    start(#{sharers => 1, shared => 10, kept => 2}),
    Members = members(3),
    Term = fun(N) -> [{N, X, <<"text">>} || X <- lists:seq(1, 50)] end,
    [begin
         ok = whittle_flow_group:broadcast(group, Term(N)),
         ok = whittle_flow_group:sync(group)
     end || N <- lists:seq(1, 20)],
    [?assert([Term(N) || N <- lists:seq(1, 20)] =:= told(M)) || M <- Members],
    Literals = [K || {{whittle_flow_group, group, _} = K, _} <- persistent_term:get()],
    ?assert(length(Literals) < 4),
    ok = gen_server:stop(group),
    ?assertEqual([], [K || {{whittle_flow_group, group, _} = K, _} <- persistent_term:get()]).

leaving(_) ->
    start(#{}),
    [A, B] = members(2),
    ok = whittle_flow_group:join(group, A),
    ok = whittle_flow_group:broadcast(group, 1),
    ok = whittle_flow_group:sync(group),
    ok = whittle_flow_group:leave(group, A),
    ok = whittle_flow_group:leave(group, A),
    ok = whittle_flow_group:broadcast(group, 2),
    ok = whittle_flow_group:sync(group),
    ?assertEqual([1], told(A)),
    ?assertEqual([1, 2], told(B)).

member_dies(_) ->
    start(#{}),
    [A, B] = members(2),
    Ref = monitor(process, A),
    exit(A, kill),
    receive {'DOWN', Ref, process, A, _} -> ok end,
    receive {'EXIT', A, killed} -> ok end,
    ok = whittle_flow_group:broadcast(group, 1),
    ok = whittle_flow_group:sync(group),
    ?assertEqual([1], told(B)),
    ?assertEqual([B], whittle_flow_group:members(group)).

%% While the group stands still it takes no more than its limit.
overload(_) ->
    Group = start(#{limit => 10}),
    [A] = members(1),
    ok = sys:suspend(Group),
    Results = [whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 100)],
    ?assertEqual(10, length([ok || ok <- Results])),
    ?assertEqual({error, {overloaded, group}}, lists:last(Results)),
    ok = sys:resume(Group),
    ok = whittle_flow_group:sync(group),
    ok = whittle_flow_group:broadcast(group, more),
    ok = whittle_flow_group:sync(group),
    ?assertEqual(lists:seq(1, 10) ++ [more], told(A)),
    ?assertEqual({ok, 90}, whittle_counters:value(whittle_flow_shed_total, [group, overloaded])).

%% The group goes down with a relay, so that its supervisor starts a whole one.
relay_dies(_) ->
    Group = start(#{}),
    {links, Links} = process_info(Group, links),
    Relay = hd(Links -- [self()]),
    exit(Relay, kill),
    receive {'EXIT', Group, Reason} -> ?assertEqual({relay_died, killed}, Reason) end,
    ?assertMatch({error, {no_group, group}}, whittle_flow_group:broadcast(group, 1)).

one_copy_per_node(_) ->
    Named = node() =/= nonode@nohost,
    Named orelse ({ok, _} = net_kernel:start([flow_test, shortnames])),
    {ok, Peer, Node} = peer:start_link(#{name => peer:random_name(), args => ["-pa" | code:get_path()]}),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [whittle_flow]),
    start(#{}),
    {ok, _} = erpc:call(Node, gen_server, start,
                        [{local, group}, whittle_flow_group, {group, #{}}, []]),
    ok = whittle_flow_group:connect(group, Node),
    Here = members(1),
    There = [begin
                 Pid = spawn(Node, ?MODULE, gatherer, [self(), []]),
                 ok = erpc:call(Node, whittle_flow_group, join, [group, Pid]),
                 Pid
             end || _ <- [1, 2, 3]],
    [ok = whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 20)],
    ok = whittle_flow_group:sync(group),
    ok = gen_server:call({group, Node}, sync),
    [?assertEqual(lists:seq(1, 20), told(Pid)) || Pid <- Here ++ There],
    ?assertEqual({ok, 60}, erpc:call(Node, whittle_counters, value,
                                     [whittle_flow_deliveries_total, [group]])),
    peer:stop(Peer),
    Named orelse net_kernel:stop().

bad_input(_) ->
    ?assertMatch({error, {no_group, nix}}, whittle_flow_group:broadcast(nix, 1)),
    ?assertMatch({error, {bad_option, {relays, none}}}, whittle_flow_group:start_link(g, #{relays => none})).
