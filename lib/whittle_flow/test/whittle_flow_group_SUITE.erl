-module(whittle_flow_group_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([all_get_all/1, synced/1, large_terms/1, leaving/1, member_dies/1, overload/1,
         member_stands/1, fanout_dies/1, group_killed/1, stops_all/1, one_copy_per_node/1,
         calibrated/1, bad_input/1,
         connected_to_itself/1, connected_again/1, node_stands/1, unknown_stands/1,
         node_keeps_up/1, both_killed/1, far_members/1, channel_dies/1,
         peers_have_no_more/1, late_welcome/1, own_messages/1, supervised/1, counted_again/1,
         init/1, gatherer/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [all_get_all, synced, large_terms, leaving, member_dies, overload, member_stands, fanout_dies,
     group_killed, stops_all, one_copy_per_node, calibrated, bad_input,
     connected_to_itself, connected_again, node_stands, unknown_stands, node_keeps_up,
     both_killed, far_members, channel_dies,
     peers_have_no_more, late_welcome, own_messages, supervised, counted_again].

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

%% Collects messages, and reports when it has the requested number. A message that another process
%% sent before the request may arrive after it.
gatherer(Test, Got) ->
    receive
        {whittle_flow_group, group, Messages} -> gatherer(Test, lists:reverse(Messages, Got));
        {last, To} -> To ! {self(), hd([N || {mine, N} <- Got])},
                      gatherer(Test, Got);
        {tell, To, N} when length(Got) >= N -> To ! {self(), lists:reverse(Got)},
                                               gatherer(Test, Got)
    end.

told(Pid, N) ->
    Pid ! {tell, self(), N},
    receive {Pid, Got} -> Got end.

all_get_all(_) ->
    start(#{}),
    Members = members(200),
    [ok = whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 500)],
    ok = whittle_flow_group:sync(group),
    [?assert(lists:seq(1, 500) =:= told(M, 500)) || M <- Members],
    ?assertEqual({ok, 500}, whittle_counters:value(whittle_flow_broadcasts_total, [group])),
    ?assertEqual({ok, 100000}, whittle_counters:value(whittle_flow_deliveries_total, [group])).

%% A sync waits for the broadcasts of its own process, not for later broadcasts of others.
synced(_) ->
    start(#{}),
    [A | _] = members(10),
    Others = [spawn_link(fun floods/0) || _ <- [1, 2]],
    [begin
         broadcast_at_last({mine, N}),
         ok = whittle_flow_group:sync(group),
         A ! {last, self()},
         receive {A, Last} -> ?assertEqual(N, Last) end
     end || N <- lists:seq(1, 5)],
    [begin
         true = unlink(Pid),
         exit(Pid, kill)
     end || Pid <- Others].

floods() ->
    _ = whittle_flow_group:broadcast(group, other),
    floods().

%% A shared term stays the same term, also after the group removed its literal.
large_terms(_) ->
    start(#{sharers => 1, shared => 10, kept => 1000}),
    Members = members(3),
    Term = fun(N) -> [{N, X, <<"text">>} || X <- lists:seq(1, 50)] end,
    [begin
         ok = whittle_flow_group:broadcast(group, Term(N)),
         ok = whittle_flow_group:sync(group)
     end || N <- lists:seq(1, 20)],
    [?assert([Term(N) || N <- lists:seq(1, 20)] =:= told(M, 20)) || M <- Members],
    %% Each message has about 600 words. The group never keeps more than 2000.
    ?assert(length(literals()) =< 4),
    ok = gen_server:stop(group),
    ?assertEqual([], literals()).

literals() -> [K || {{whittle_flow_group, group, _} = K, _} <- persistent_term:get()].

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
    ?assertEqual([1, 2], told(B, 2)),
    ?assertEqual([1], told(A, 1)),
    %% A member that joins and leaves leaves nothing behind.
    ?assertEqual({monitors, [{process, B}]}, process_info(whereis(group), monitors)).

member_dies(_) ->
    start(#{}),
    [A, B] = members(2),
    Ref = monitor(process, A),
    exit(A, kill),
    receive {'DOWN', Ref, process, A, _} -> ok end,
    receive {'EXIT', A, killed} -> ok end,
    ok = whittle_flow_group:broadcast(group, 1),
    ok = whittle_flow_group:sync(group),
    ?assertEqual([1], told(B, 1)),
    only_member(B).

%% Waits until the group has noticed the death as well.
only_member(Pid) ->
    case whittle_flow_group:members(group) of
        [Pid] -> ok;
        _ -> erlang:yield(), only_member(Pid)
    end.

%% A stopped group takes no more messages than its limit.
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
    ?assertEqual(lists:seq(1, 10) ++ [more], told(A, 11)),
    ?assertEqual({ok, 90}, whittle_counters:value(whittle_flow_shed_total, [group, overloaded])).

%% A member that takes nothing gets no more messages than its backlog, and continues when it takes
%% messages again. The other members get everything.
member_stands(_) ->
    start(#{backlog => 20, fanouts => 1}),
    [A] = members(1),
    Test = self(),
    Stands = spawn_link(fun() -> receive go -> ok end, gatherer(Test, []) end),
    ok = whittle_flow_group:join(group, Stands),
    [begin
         ok = whittle_flow_group:broadcast(group, N),
         _ = told(A, N)
     end || N <- lists:seq(1, 1000)],
    ok = whittle_flow_group:sync(group),
    ?assert(lists:seq(1, 1000) =:= told(A, 1000)),
    {message_queue_len, Waiting} = process_info(Stands, message_queue_len),
    ?assert(Waiting =< 20),
    ?assertEqual({ok, 1000 - Waiting},
                 whittle_counters:value(whittle_flow_shed_total, [group, behind])),
    Stands ! go,
    ?assertEqual(lists:seq(1, Waiting), told(Stands, Waiting)),
    more_until(fun() -> length(told(Stands, Waiting)) > Waiting end).

more_until(Done) ->
    ok = whittle_flow_group:broadcast(group, more),
    ok = whittle_flow_group:sync(group),
    case Done() of
        true -> ok;
        false -> more_until(Done)
    end.

%% The group ends with a fanout, so that its supervisor starts a complete one.
fanout_dies(_) ->
    Group = start(#{}),
    {links, Links} = process_info(Group, links),
    Fanout = hd(Links -- [self()]),
    exit(Fanout, kill),
    receive {'EXIT', Group, Reason} -> ?assertEqual({fanout_died, killed}, Reason) end,
    ?assertMatch({error, {no_group, group}}, whittle_flow_group:broadcast(group, 1)).

%% The next group with the name removes the literals that the killed one left.
group_killed(_) ->
    Options = #{sharers => 1, shared => 1},
    Group = start(Options),
    [A] = members(1),
    [begin
         ok = whittle_flow_group:broadcast(group, N),
         ok = whittle_flow_group:sync(group)
     end || N <- [1, 2, 3]],
    ?assertEqual(3, length(literals())),
    exit(Group, kill),
    receive {'EXIT', Group, killed} -> ok end,
    ?assertEqual({error, {no_group, group}}, whittle_flow_group:join(group, A)),
    start(Options),
    ?assertEqual([], literals()),
    ok = whittle_flow_group:join(group, A),
    ok = whittle_flow_group:broadcast(group, 4),
    ?assertEqual([1, 2, 3, 4], told(A, 4)).

%% A group that is stopped leaves no process behind.
stops_all(_) ->
    Group = start(#{fanouts => 3}),
    {links, Links} = process_info(Group, links),
    Refs = [monitor(process, P) || P <- Links -- [self()]],
    ?assertEqual(3, length(Refs)),
    ok = gen_server:stop(Group),
    [receive {'DOWN', Ref, process, _, _} -> ok end || Ref <- Refs].

one_copy_per_node(_) -> whittle_flow_peer:on_other_node(fun one_copy/1).

one_copy(Node) ->
    start(#{}),
    start_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    Here = members(1),
    There = [member_on(Node) || _ <- [1, 2, 3]],
    [ok = whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 20)],
    [?assertEqual(lists:seq(1, 20), told(Pid, 20)) || Pid <- Here ++ There],
    ok = gen_server:call({group, Node}, sync),
    ?assertEqual({ok, 60}, erpc:call(Node, whittle_counters, value,
                                     [whittle_flow_deliveries_total, [group]])).

start_on(Node) ->
    {ok, _} = erpc:call(Node, gen_server, start,
                        [{local, group}, whittle_flow_group, {group, #{}}, []]).

member_on(Node) ->
    Pid = spawn(Node, ?MODULE, gatherer, [self(), []]),
    ok = erpc:call(Node, whittle_flow_group, join, [group, Pid]),
    Pid.

%% The results of the measurement are valid options of a group.
calibrated(_) ->
    Options = whittle_flow:calibrate(),
    ?assertMatch(#{shared := Words, sharers := Members}
                   when is_integer(Words) andalso is_integer(Members), Options),
    start(Options),
    ok = whittle_flow_group:sync(group).

bad_input(_) ->
    ?assertEqual({error, {no_group, nix}}, whittle_flow_group:broadcast(nix, 1)),
    ?assertEqual({error, {no_group, nix}}, whittle_flow_group:join(nix, self())),
    [?assertEqual({error, {bad_option, {member, Bad}}}, whittle_flow_group:F(nix, Bad))
     || F <- [join, leave], Bad <- [foo, {g, node()}]],
    ?assertEqual({error, {no_group, nix}}, whittle_flow_group:sync(nix)),
    start(#{}),
    Nowhere = 'nobody@nowhere.invalid',
    ?assertEqual({error, {no_group, {group, Nowhere}}}, whittle_flow_group:connect(group, Nowhere)),
    ?assertEqual({error, {no_group, {nix, node()}}}, whittle_flow_group:connect(nix, node())),
    [?assertEqual({error, {bad_option, {fanouts, Bad}}},
                  whittle_flow_group:start_link(g, #{fanouts => Bad})) || Bad <- [none, 1 bsl 40]],
    [?assertEqual({error, {bad_option, {name, Name}}}, whittle_flow_group:start_link(Name, #{}))
     || Name <- ["g", undefined]].

%% A list of all nodes contains this node too.
connected_to_itself(_) ->
    start(#{}),
    ok = whittle_flow_group:connect(group, node()),
    [Member] = members(1),
    ok = whittle_flow_group:broadcast(group, once),
    ok = whittle_flow_group:sync(group),
    %% The group has handled by now what it sent to itself.
    ok = whittle_flow_group:sync(group),
    ok = whittle_flow_group:broadcast(group, last),
    ok = whittle_flow_group:sync(group),
    ?assertEqual([once, last], told(Member, 2)),
    ?assertEqual({ok, 2}, whittle_counters:value(whittle_flow_deliveries_total, [group])).

%% The other node's group dies, and another one starts with its name. The groups connect again by
%% themselves, and this group counts the missed broadcasts.
connected_again(_) -> whittle_flow_peer:on_other_node(fun connects_again/1).

connects_again(Node) ->
    start(#{}),
    start_on(Node),
    _ = member_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    ok = gen_server:stop({group, Node}),
    missed(1),
    start_on(Node),
    Again = member_on(Node),
    more_until(fun() -> told(Again, 0) =/= [] end),
    %% Both groups broadcast to each other.
    [Here] = members(1),
    ok = erpc:call(Node, whittle_flow_group, broadcast, [group, from_there]),
    until_told(from_there, Here),
    ok = whittle_flow_group:broadcast(group, last_one),
    until_told(last_one, Again),
    %% A group that was disconnected gets nothing more, and this group does not look for it.
    ok = whittle_flow_group:disconnect(group, Node),
    %% The other side has ended the connection too: its group monitors only its member.
    ?assertEqual({monitors, [{process, Again}]},
                 erpc:call(Node, erlang, process_info,
                           [erpc:call(Node, erlang, whereis, [group]), monitors])),
    Got = length(told(Again, 0)),
    ok = whittle_flow_group:broadcast(group, unheard),
    ok = whittle_flow_group:sync(group),
    ok = gen_server:call({group, Node}, sync),
    ?assertEqual(Got, length(told(Again, 0))),
    ok = gen_server:stop({group, Node}),
    {ok, Missed} = whittle_counters:value(whittle_flow_shed_total, [group, unreachable]),
    ok = whittle_flow_group:broadcast(group, unmissed),
    ok = whittle_flow_group:sync(group),
    ?assertEqual({ok, Missed},
                 whittle_counters:value(whittle_flow_shed_total, [group, unreachable])).

%% The other node is stopped, and the group broadcasts more than the connection takes. The group
%% continues with its own members, and the waiting data has a bound. When the node continues, the
%% waiting messages arrive in order, and then the new ones.
node_stands(_) -> whittle_flow_peer:on_other_node(fun node_stops/1).

node_stops(Node) ->
    Group = start(#{limit => 50}),
    start_on(Node),
    There = member_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    [Here] = members(1),
    Others = [erpc:call(Node, erlang, whereis, [group]),
              spawn(Node, ?MODULE, gatherer, [self(), []])],
    Text = binary:copy(<<"large">>, 50000),
    Shed = whittle_flow_peer:standing(Node, fun() -> stands(Group, Others, Here, Text) end),
    Taken = [N || {N, _} <- told(There, 200 - Shed)],
    ?assertEqual(200 - Shed, length(Taken)),
    ?assertEqual(lists:usort(Taken), Taken),
    more_until(fun() -> length(told(There, 0)) > 200 - Shed end).

%% An answer to a stopped node without a connected group does not block the group.
unknown_stands(_) -> whittle_flow_peer:on_other_node(fun answers_unknown/1).

answers_unknown(Node) ->
    Group = start(#{}),
    There = spawn(Node, ?MODULE, gatherer, [self(), []]),
    Large = binary:copy(<<"large">>, 50000),
    whittle_flow_peer:standing(
      Node,
      fun() ->
              suspended(spawn(fun() -> [There ! Large || _ <- lists:seq(1, 200)] end)),
              Group ! {'$gen_call', {There, make_ref()}, {part, Node}},
              ?assertEqual([], whittle_flow_group:members(group))
      end).

%% The connection's buffer is full.
suspended(Pid) ->
    case process_info(Pid, status) of
        {status, suspended} -> ok;
        {status, _} -> erlang:yield(), suspended(Pid)
    end.

stands(Group, [Peer, Joins], Here, Text) ->
    [begin
         ok = whittle_flow_group:broadcast(group, {N, Text}),
         ok = whittle_flow_group:sync(group)
     end || N <- lists:seq(1, 200)],
    ?assertEqual(200, length(told(Here, 200))),
    {ok, Shed} = whittle_counters:value(whittle_flow_shed_total, [group, behind]),
    %% Each message has 250 kB. Some are in the connection's buffer, one is being sent, and the
    %% group sheds the others.
    ?assert(Shed > 50),
    %% Other actions for that node do not block the group either: an answer, or a member there. A
    %% send from this process would block this process.
    _ = spawn(fun() -> Group ! {whittle_flow_hello, Peer} end),
    ok = whittle_flow_group:join(group, Joins),
    ok = whittle_flow_group:leave(group, Joins),
    [_, _] = whittle_flow_group:members(group) ++ [Peer],
    Shed.

%% If a process broadcasts faster than a node takes the messages, the group refuses broadcasts, as
%% it does for local members. It sheds nothing for a node that still takes messages.
node_keeps_up(_) -> whittle_flow_peer:on_other_node(fun node_takes_all/1).

node_takes_all(Node) ->
    start(#{limit => 100}),
    start_on(Node),
    There = member_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    [broadcast_at_last(N) || N <- lists:seq(1, 20000)],
    ?assert(lists:seq(1, 20000) =:= told(There, 20000)),
    ?assertEqual({ok, 0}, shed_behind()).

broadcast_at_last(Message) ->
    case whittle_flow_group:broadcast(group, Message) of
        ok -> ok;
        {error, {overloaded, group}} -> erlang:yield(), broadcast_at_last(Message)
    end.

%% Both ends of a connection crash at once, and restart.
both_killed(_) -> whittle_flow_peer:on_other_node(fun both_are_killed/1).

both_are_killed(Node) ->
    Group = start(#{}),
    start_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    Peer = erpc:call(Node, erlang, whereis, [group]),
    [begin
         Ref = monitor(process, Pid),
         exit(Pid, kill),
         receive {'DOWN', Ref, process, _, _} -> ok end
     end || Pid <- [Group, Peer]],
    receive {'EXIT', Group, killed} -> ok end,
    start(#{}),
    start_on(Node),
    There = member_on(Node),
    more_until(fun() -> told(There, 0) =/= [] end),
    %% A group that was stopped normally starts without connections.
    ok = gen_server:stop(group),
    ok = gen_server:stop({group, Node}),
    {links, Links} = process_info(start(#{}), links),
    ?assertEqual(1 + erlang:system_info(schedulers_online), length(Links)).

%% Members on another node than the group's get the messages too.
far_members(_) -> whittle_flow_peer:on_other_node(fun far_member/1).

far_member(Node) ->
    Group = start(#{limit => 50}),
    {links, Before} = process_info(Group, links),
    [Here] = members(1),
    [There, Leaves] = [spawn(Node, ?MODULE, gatherer, [self(), []]) || _ <- [1, 2]],
    [ok = whittle_flow_group:join(group, Pid) || Pid <- [There, Leaves]],
    ?assertEqual(lists:sort([Here, There, Leaves]), lists:sort(whittle_flow_group:members(group))),
    ok = whittle_flow_group:broadcast(group, 1),
    [?assertEqual([1], told(Pid, 1)) || Pid <- [Here, There, Leaves]],
    counted_deliveries(3),
    ok = whittle_flow_group:leave(group, Leaves),
    ok = whittle_flow_group:broadcast(group, 2),
    ?assertEqual([1, 2], told(There, 2)),
    ?assertEqual([1], told(Leaves, 1)),
    %% The node goes away, with its member and the channel.
    Channel = new_link(Group, Before),
    true = erlang:suspend_process(Channel),
    ok = whittle_flow_group:broadcast(group, 3),
    ok = whittle_flow_group:sync(group),
    true = erlang:disconnect_node(Node),
    true = erlang:resume_process(Channel),
    only_member(Here),
    ok = whittle_flow_group:broadcast(group, 4),
    ?assertEqual([1, 2, 3, 4], told(Here, 4)),
    gone(Channel).

gone(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% The fanout counts after it sends, so wait for the count.
counted_deliveries(N) ->
    case whittle_counters:value(whittle_flow_deliveries_total, [group]) of
        {ok, N} -> ok;
        {ok, Less} when Less < N -> erlang:yield(), counted_deliveries(N)
    end.

%% The group replaces a killed channel to another node, and counts the messages in it. The channel
%% ends with the connection, and with the group.
channel_dies(_) -> whittle_flow_peer:on_other_node(fun channel_killed/1).

channel_killed(Node) ->
    Group = start(#{}),
    {links, Before} = process_info(Group, links),
    start_on(Node),
    There = member_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    Channel = new_link(Group, Before),
    true = erlang:suspend_process(Channel),
    [begin
         ok = whittle_flow_group:broadcast(group, N),
         ok = whittle_flow_group:sync(group)
     end || N <- [1, 2, 3]],
    exit(Channel, kill),
    Next = another_link(Group, [Channel | Before]),
    more_until(fun() -> told(There, 0) =/= [] end),
    ?assertEqual({ok, 1}, whittle_counters:value(whittle_flow_shed_total, [group, unreachable])),
    ?assertEqual({ok, 2}, shed_behind()),
    %% The new channel monitors the same processes.
    ok = gen_server:stop({group, Node}),
    missed(2),
    start_on(Node),
    Back = member_on(Node),
    more_until(fun() -> told(Back, 0) =/= [] end),
    ok = whittle_flow_group:disconnect(group, Node),
    gone(Next),
    ok = whittle_flow_group:connect(group, Node),
    Last = new_link(Group, Before),
    ok = gen_server:stop(group),
    gone(Last).

%% Continues as soon as the group has noticed the death.
another_link(Group, Before) ->
    {links, After} = process_info(Group, links),
    case After -- Before of
        [Link] -> Link;
        [] -> erlang:yield(), another_link(Group, Before)
    end.

new_link(Group, Before) ->
    {links, After} = process_info(Group, links),
    [Link] = After -- Before,
    Link.

%% The limit also counts messages from another group.
peers_have_no_more(_) ->
    Group = start(#{limit => 10}),
    [A] = members(1),
    ok = sys:suspend(Group),
    [ok = whittle_flow_group:broadcast(group, N) || N <- lists:seq(1, 4)],
    Group ! {whittle_flow_peer, lists:seq(5, 20)},
    ok = sys:resume(Group),
    ok = whittle_flow_group:sync(group),
    Got = told(A, 4),
    ?assertEqual(lists:seq(1, length(Got)), Got),
    ?assertEqual({ok, 20 - length(Got)},
                 whittle_counters:value(whittle_flow_shed_total, [group, overloaded])),
    ok = whittle_flow_group:broadcast(group, more),
    ?assertEqual(more, lists:last(told(A, length(Got) + 1))).

%% The answer of another group comes after the disconnect of this one.
late_welcome(_) -> whittle_flow_peer:on_other_node(fun welcome_comes_late/1).

welcome_comes_late(Node) ->
    Group = start(#{}),
    start_on(Node),
    There = member_on(Node),
    ok = whittle_flow_group:connect(group, Node),
    ok = whittle_flow_group:disconnect(group, Node),
    Peer = erpc:call(Node, erlang, whereis, [group]),
    Alone = links_there(Peer),
    Peer ! {whittle_flow_hello, Group},
    %% The hello has arrived there, then the welcome here, and then the answer to the welcome
    %% there.
    _ = sys:get_state(Peer),
    only_linked(Peer, Alone),
    [Here] = members(1),
    ok = whittle_flow_group:broadcast(group, here),
    ok = erpc:call(Node, whittle_flow_group, broadcast, [group, there]),
    ?assertEqual([there], told(There, 1)),
    ?assertEqual([here], told(Here, 1)),
    %% No link to another node is left, and no monitor.
    ?assertEqual({monitors, [{process, Here}]}, process_info(Group, monitors)),
    {links, Links} = process_info(Group, links),
    ?assertEqual(1 + erlang:system_info(schedulers_online), length(Links)).

links_there(Pid) ->
    {links, Links} = erpc:call(node(Pid), erlang, process_info, [Pid, links]),
    lists:sort(Links).

only_linked(Pid, Links) ->
    case links_there(Pid) of
        Links -> ok;
        _ -> erlang:yield(), only_linked(Pid, Links)
    end.

%% A member's queue may hold other messages of its own. These do not count for the backlog.
own_messages(_) ->
    start(#{backlog => 20, fanouts => 1}),
    [A, B] = members(2),
    [B ! {own, N} || N <- lists:seq(1, 500)],
    [begin
         ok = whittle_flow_group:broadcast(group, N),
         _ = told(A, N),
         _ = told(B, N)
     end || N <- lists:seq(1, 200)],
    ok = whittle_flow_group:sync(group),
    ?assertEqual({ok, 0}, shed_behind()).

shed_behind() ->
    case whittle_counters:value(whittle_flow_shed_total, [group, behind]) of
        {error, {unknown_series, _}} -> {ok, 0};
        Value -> Value
    end.

%% The group runs under a user's supervisor, with child_spec/2.
supervised(_) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, whittle_flow_group:child_spec(group, #{})),
    [A] = members(1),
    exit(whereis(group), kill),
    member_again(A),
    ok = whittle_flow_group:broadcast(group, again),
    ?assertEqual([again], told(A, 1)),
    true = unlink(Supervisor),
    Ref = monitor(process, Supervisor),
    exit(Supervisor, shutdown),
    receive {'DOWN', Ref, process, _, _} -> ok end,
    ?assertEqual(undefined, whereis(group)).

init(Child) -> {ok, {#{}, [Child]}}.

member_again(Pid) ->
    case whittle_flow_group:join(group, Pid) of
        ok -> ok;
        {error, {no_group, group}} -> erlang:yield(), member_again(Pid)
    end.

%% Waits until the group has noticed the death and counts the broadcasts that it cannot send.
missed(Least) ->
    ok = whittle_flow_group:broadcast(group, missed),
    ok = whittle_flow_group:sync(group),
    case whittle_counters:value(whittle_flow_shed_total, [group, unreachable]) of
        {ok, N} when N >= Least -> ok;
        _ -> missed(Least)
    end.

until_told(Message, Pid) ->
    case lists:member(Message, told(Pid, 0)) of
        true -> ok;
        false -> erlang:yield(), until_told(Message, Pid)
    end.

%% The group runs already when whittle_counters stops and starts again.
counted_again(_) ->
    start(#{}),
    _ = members(1),
    ok = application:stop(whittle_counters),
    ok = application:start(whittle_counters),
    more_until(fun() ->
                       case whittle_counters:value(whittle_flow_deliveries_total, [group]) of
                           {ok, N} -> N > 0;
                           {error, _} -> false
                       end
               end).
