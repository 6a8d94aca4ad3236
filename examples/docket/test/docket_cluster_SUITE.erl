%% Tests a service of several nodes: how they find each other, crash, part, and come together again.
-module(docket_cluster_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([stays/1, latest/1, order/1, unlisted/1, together/1, killed/1, two_nodes/1, all_killed/1,
         stopped_in_change/1, forgotten_change/1, slow_vote/1, dumps/1, replaced/1,
         connected_only/1, forgotten_copy/1, missed_change/1, saved_change/1, untaken_offer/1,
         skipped_offer/1, ended_offer/1, slow_accept/1, overloaded/1, unsettled/1, full_disk/1,
         replaced_of_two/1, in_memory/1, diverged/1, fragments/1, alone_of_three/1, halves/1,
         upgraded/1, future/1, fingerprint/1]).
%% Functions that other nodes run
-export([overwritten/1, last_change/0, dictionary_of/1, doubt_at_end/1, error_of/3, has_offer/0,
         places/0]).

-import(docket_nodes, [started/2, start/3, dir/2, stopped/1, kill/1, kill_all/1, parted/2, joined/2,
                       on/4, is_ready/1, create/1, new_case/1, new_case_again/1, show/2, until/1,
                       until/3, lines/1]).

-define(SECRET, "secret").

all() ->
    [stays, latest, order, unlisted, together, killed, two_nodes, all_killed, stopped_in_change,
     forgotten_change, slow_vote, dumps, replaced, connected_only, forgotten_copy, missed_change,
     saved_change, untaken_offer, skipped_offer, ended_offer, slow_accept, overloaded, unsettled,
     full_disk, replaced_of_two, in_memory, diverged, fragments, alone_of_three, halves, upgraded,
     future, fingerprint].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "abcd", Config).

end_per_testcase(_, _) -> ok.

names(Count) -> lists:sublist(docket_nodes:names(), Count).

%% Of two nodes, exactly one stays.
stays(_) ->
    All = [a, b, c, d],
    [begin
         ?assertEqual({Mine, Theirs, Stays},
                      {Mine, Theirs, docket_cluster:stays(Mine, Theirs, All)}),
         ?assertEqual({Theirs, Mine, not Stays},
                      {Theirs, Mine, docket_cluster:stays(Theirs, Mine, All)})
     end || {Mine, Theirs, Stays} <-
                [{{a, [a]}, {b, [b]}, true}, {{a, [a]}, {c, [c, d]}, false},
                 {{b, [b, c, d]}, {a, [a]}, true}, {{c, [c, d]}, {b, [a, b]}, false},
                 {{d, [a, d]}, {b, [b, c]}, true}, {{c, [a, c]}, {b, [a, b]}, false}]].

%% What an offer of a generation that did not reach all of its members means
latest(_) ->
    _ = application:load(docket),
    [application:set_env(docket, Key, Value)
     || {Key, Value} <- [{secret, ?SECRET}, {nodes, [node(), 'b@x', 'c@x']}]],
    ok = docket_config:load(),
    A = node(),
    [?assertEqual({Known, Latest}, {Known, docket_generation:latest(Known)})
     || {Known, Latest} <-
            [{[{A, {3, [A, 'b@x']}}], unknown},
             %% A node that has lost its directory has no vote.
             {[{A, {3, [A, 'b@x']}}, {'b@x', {0, []}}], unknown},
             {[{A, {3, [A, 'b@x']}}, {'c@x', {2, [A, 'b@x', 'c@x']}}], {ok, {3, [A, 'b@x']}}},
             %% b has refused the offer that a has.
             {[{A, {3, [A, 'b@x']}}, {'b@x', {3, ['b@x', 'c@x']}}], {ok, {3, ['b@x', 'c@x']}}},
             {[{A, {3, [A, 'b@x']}}, {'c@x', {3, ['b@x', 'c@x']}}], unknown},
             %% A node that has lost rows has a vote, and no rows.
             {[{A, {3, []}}, {'b@x', {3, [A, 'b@x']}}], {ok, {3, [A, 'b@x']}}},
             {[{A, {3, []}}, {'b@x', {3, []}}, {'c@x', {3, [A, 'b@x', 'c@x']}}],
              {ok, {3, [A, 'b@x', 'c@x']}}},
             {[{A, {3, []}}, {'b@x', {2, [A, 'b@x', 'c@x']}}], unknown}]],
    [?assertEqual({Node, All, Has}, {Node, All, docket_generation:up_to_date(Node, All)})
     || {Node, All, Has} <-
            [{{A, {3, [A, 'b@x']}}, [], true},
             {{'c@x', {3, [A, 'b@x']}}, [], false},
             {{'c@x', {2, [A, 'c@x']}}, [{'b@x', {3, [A, 'b@x']}}], false},
             {{'c@x', {2, [A, 'c@x']}}, [{A, {3, []}}], false},
             {{'c@x', {3, [A, 'c@x']}}, [{A, {3, []}}], true},
             {{'b@x', {2, ['b@x', 'c@x']}}, [{A, {3, [A, 'b@x']}}], true}]],
    ok = application:unload(docket).

%% A new member takes no offer before one of the others has taken it: until then they may change
%% rows without it.
order(_) ->
    [?assertEqual({Offer, Others, Order}, {Offer, Others, docket_generation:order(Offer, Others)})
     || {Offer, Others, Order} <-
            [{{{3, [a, b, c]}, {2, [b, c]}}, [b, c], [b, a, c]},
             {{{3, [a, b, c]}, {2, [b, c]}}, [c], [c, a, b]},
             {{{3, [a, b, c]}, {2, [c]}}, [a, c], [c, a, b]},
             {{{3, [a, b]}, {2, [a, b, c]}}, [b], [b, a]},
             {{{1, [a]}, {0, []}}, [], [a]}]].

%% A node with a wrong name says so, instead of waiting for a majority forever.
unlisted(_) ->
    ?assertMatch({error, _}, docket_config:check(nodes, "a@b,a@b")),
    ?assertMatch({error, _}, docket_config:check(nodes, "a")),
    ?assertMatch({error, _}, docket_config:check(nodes, lists:duplicate(300, $a) ++ "@b")),
    [?assertMatch({Value, {error, _}}, {Value, docket_config:check(nodes, Value)})
     || Value <- [[1, a], [$a | b], ['a@b' | 'c@d'], [955 | "@b"], ['a@b\n'], "a@", "@b", "a@b@c",
                  [["a", x, "@b"]]]],
    ?assertEqual({ok, ['a@b', 'c@d']}, docket_config:check(nodes, "a@b, c@d")),
    _ = application:load(docket),
    [application:set_env(docket, Key, Value)
     || {Key, Value} <- [{secret, ?SECRET}, {nodes, ['a@b']}]],
    {error, {not_listed, _} = Error} = docket_config:load(),
    ok = application:unload(docket),
    {match, _} = re:run(docket_config:format_error(Error), "DOCKET_NODES").

%% All nodes have the cases that one of them has written.
together(Config) ->
    Peers = started(names(3), Config),
    Ids = [new_case(Peer) || Peer <- Peers],
    [{ok, _} = show(Id, Peer) || Id <- Ids, Peer <- Peers],
    %% The nodes make different ids, even at the same time.
    ?assertEqual(3, length(lists:usort([on(Peer, docket_store, new_id, [0]) || Peer <- Peers]))),
    stopped(Peers).

%% Two of three go on. The third has their changes when it is back.
killed(Config) ->
    [A, B, C] = started(names(3), Config),
    First = new_case(C),
    ok = kill(C),
    ok = until(A, ready, true),
    Second = new_case_again(A),
    C1 = start(lists:last(names(3)), names(3), Config),
    ok = until(C1, ready, true),
    [{ok, _} = show(Id, Peer) || Id <- [First, Second, new_case_again(C1)], Peer <- [A, B, C1]],
    stopped([A, B, C1]).

%% Of two nodes, none is a majority: what is left serves reads, and refuses changes.
two_nodes(Config) ->
    [A, B] = started(names(2), Config),
    Id = new_case(A),
    ok = kill(B),
    ok = until(A, ready, false),
    ?assertEqual({error, minority}, create(A)),
    {ok, _} = show(Id, A),
    B1 = start(lists:last(names(2)), names(2), Config),
    [ok = until(Peer, ready, true) || Peer <- [A, B1]],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(B1)], Peer <- [A, B1]],
    stopped([A, B1]).

%% All cases that were acknowledged are there after all nodes were killed at once.
all_killed(Config) ->
    Peers = started(names(3), Config),
    Test = self(),
    Writers = [spawn_link(fun() -> write(Test, Peer) end) || Peer <- Peers],
    Ids = [receive {acknowledged, Id} -> Id end || _ <- lists:seq(1, 300)],
    [true = unlink(Writer) || Writer <- Writers],
    ok = kill_all(Peers),
    Again = started(names(3), Config),
    [?assertMatch({_, {ok, _}}, {Id, show(Id, Peer)})
     || Id <- Ids ++ acknowledged(), Peer <- Again],
    stopped(Again).

%% While Mnesia stops on a node, or the whole node stops, it calls a change aborted that the others
%% have made. They keep the change, also when all nodes are killed later.
stopped_in_change(Config) ->
    [A, B, C] = started(names(3), Config),
    First = doubted(A, B),
    ok = disk_fails(B),
    Again = killed_and_started([First], [A, B, C], Config),
    [A1, B1, C1] = Again,
    Second = doubted(A1, B1),
    ok = stop_node(B1),
    Late = new_case_again(A1),
    stopped(killed_and_started([First, Second, Late], [A1, C1], Config)).

%% Makes a change that Other will call aborted.
doubted(Peer, Other) ->
    Id = new_case_again(Peer),
    ok = on(Other, ?MODULE, doubt_at_end, [doubt(Peer)]),
    Id.

stop_node(Peer) ->
    true = unlink(Peer),
    Monitor = monitor(process, Peer),
    ok = on(Peer, init, stop, []),
    receive {'DOWN', Monitor, process, Peer, _} -> ok end.

%% A node that starts does not know the end of a change, nobody tells it, and it calls the change
%% aborted. The files of each other node keep it.
forgotten_change(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case_again(B),
    Doubt = doubt(B),
    ok = kill(A),
    [First | Others] = names(3),
    A1 = start(First, names(3), Config),
    ok = until(A1, ready, true),
    abcast = on(A1, gen_server, abcast, [Others, mnesia_recover, {im_certain, First, Doubt}]),
    ok = all_killed_with_messages([A1, B, C]),
    [begin
         Alone = start(Name, names(3), [{force, true} | Config]),
         ok = until_loaded(Alone),
         ?assertMatch({Name, [_]}, {Name, on(Alone, ets, lookup, [docket_case, Id])}),
         ok = kill(Alone)
     end || Name <- Others].

%% A node dumps its log while a change waits for the vote of a third node. Mnesia would leave the
%% change out after 0.1 s, although it is made later.
slow_vote(Config) ->
    [A, B, C] = started(names(3), Config),
    _ = new_case_again(A),
    ok = on(C, sys, suspend, [mnesia_tm]),
    Writes = on(B, mnesia, system_info, [transaction_log_writes]),
    Test = self(),
    _ = spawn_link(fun() -> Test ! {made, new_case_again(A)} end),
    ok = until(fun() -> on(B, mnesia, system_info, [transaction_log_writes]) =/= Writes end),
    Restarts = on(B, mnesia, system_info, [transaction_restarts]),
    {Dumper, Ended} =
        spawn_monitor(fun() -> exit({dumped, on(B, docket_mnesia_decisions, dump, [])}) end),
    ok = until(fun() -> waits(B, Restarts) orelse not is_process_alive(Dumper) end),
    ok = on(C, sys, resume, [mnesia_tm]),
    Id = receive {made, Made} -> Made end,
    receive {'DOWN', Ended, process, Dumper, Result} -> ?assertEqual({dumped, true}, Result) end,
    ok = all_killed_with_messages([A, B, C]),
    [_, Second, _] = names(3),
    Alone = start(Second, names(3), [{force, true} | Config]),
    ok = until_loaded(Alone),
    ?assertMatch([_], on(Alone, ets, lookup, [docket_case, Id])),
    ok = kill(Alone).

%% A transaction that waits for locks is in the queue, or starts again and again.
waits(Peer, Restarts) ->
    on(Peer, mnesia, system_info, [lock_queue]) =/= []
        orelse on(Peer, mnesia, system_info, [transaction_restarts]) > Restarts.

%% Mnesia does not dump its log by itself, but docket does: the log becomes another file.
dumps(Config) ->
    [Name] = names(1),
    [Peer] = started([Name], Config),
    ?assert(on(Peer, mnesia, system_info, [dump_log_write_threshold]) > 1 bsl 32),
    Log = filename:join(dir(Name, Config), "LATEST.LOG"),
    {ok, #file_info{inode = Before}} = file:read_link_info(Log),
    ok = until(fun() ->
                       _ = new_case(Peer),
                       case file:read_link_info(Log) of
                           {ok, #file_info{inode = Now}} -> Now =/= Before;
                           %% The former log has just moved away.
                           {error, enoent} -> true
                       end
               end),
    %% A dump writes the new log to the disk, and nothing else does so here.
    Sync = {mnesia, sync_log, 0},
    Syncs = fun() -> element(2, on(Peer, erlang, trace_info, [Sync, call_count])) end,
    ok = on(Peer, sys, suspend, [docket_mnesia_member]),
    1 = on(Peer, erlang, trace_pattern, [Sync, true, [call_count]]),
    true = on(Peer, docket_mnesia_decisions, dump, []),
    ?assert(Syncs() > 0),
    %% A dump of Mnesia itself does not. docket does it soon.
    ok = on(Peer, sys, resume, [docket_mnesia_member]),
    _ = new_case(Peer),
    ok = until(fun() -> not is_new_log(Peer) end),
    1 = on(Peer, erlang, trace_pattern, [Sync, restart, [call_count]]),
    dumped = on(Peer, mnesia, dump_log, []),
    ok = until(fun() -> Syncs() > 0 end),
    stopped([Peer]).

%% Tells whether the member has not seen the log yet.
is_new_log(Peer) ->
    {dictionary, Seen} = on(Peer, ?MODULE, dictionary_of, [docket_mnesia_member]),
    Log = filename:join(on(Peer, mnesia, system_info, [directory]), "LATEST.LOG"),
    {ok, #file_info{inode = Inode}} = file:read_file_info(Log),
    lists:keyfind({docket_mnesia_decisions, log}, 1, Seen)
        =/= {{docket_mnesia_decisions, log}, Inode}.

dictionary_of(Name) -> process_info(whereis(Name), dictionary).

until_loaded(Peer) -> until(fun() -> on(Peer, docket_mnesia_replica, is_complete, []) end).

%% All of them have the cases afterwards.
killed_and_started(Ids, Peers, Config) ->
    ok = all_killed_with_messages(Peers),
    Again = started(names(3), Config),
    [?assertMatch({_, {ok, _}}, {Id, show(Id, Peer)}) || Id <- Ids, Peer <- Again],
    Again.

%% Kills all nodes when they have got what others told them.
all_killed_with_messages(Peers) ->
    [ok = on(Peer, mnesia_recover, sync, []) || Peer <- Peers],
    [ok = on(Peer, mnesia, sync_log, []) || Peer <- Peers],
    kill_all(Peers).

doubt(Peer) -> setelement(3, on(Peer, ?MODULE, last_change, []), aborted).

%% The last change that this node has made, as Mnesia keeps it: with its end, and the nodes that
%% have it
last_change() ->
    Tables = [Table || Table <- ets:all(),
                       lists:member(ets:info(Table, name),
                                    [mnesia_decision, mnesia_transient_decision])],
    Ends = [{element(2, Row), element(3, Row)}
            || Table <- Tables, Row <- ets:tab2list(Table), element(1, element(2, Row)) =:= tid],
    {Tid, committed} = lists:max(Ends),
    {decision, Tid, committed, docket_cluster:nodes(), []}.

%% Calls a change aborted when mnesia_tm ends, as a process of Mnesia does that waits for its end.
doubt_at_end(Doubt) ->
    Test = self(),
    _ = spawn(fun() ->
                      process_flag(priority, max),
                      Monitor = monitor(process, mnesia_tm),
                      Test ! watches,
                      receive {'DOWN', Monitor, process, _, _} -> ok end,
                      mnesia_recover:log_decision(Doubt)
              end),
    receive watches -> ok end.

%% Those that were acknowledged just before the end
acknowledged() ->
    receive {acknowledged, Id} -> [Id | acknowledged()]
    after 0 -> []
    end.

write(Test, Peer) ->
    Test ! {acknowledged, new_case(Peer)},
    write(Test, Peer).

%% A node that lost its disk gets everything from the others.
replaced(Without) ->
    Config = [{fragments, 4} | Without],
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ok = kill(A),
    [First | _] = names(3),
    ok = file:del_dir_r(dir(First, Config)),
    A1 = start(First, names(3), Config),
    ok = until(A1, ready, true),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(A1)], Peer <- [A1, B, C]],
    stopped([A1, B, C]).

%% A call to a node that is not connected fails at once: it makes no connection.
connected_only(Config) ->
    [A, B] = started(names(2), Config),
    Other = on(B, erlang, node, []),
    Self = on(A, erlang, node, []),
    Call = [erlang, node, [], 5000],
    ?assertEqual(Other, on(A, docket_cluster, call, [Other | Call])),
    ok = on(A, sys, suspend, [docket_cluster]),
    ok = on(B, sys, suspend, [docket_cluster]),
    true = on(A, erlang, disconnect_node, [Other]),
    ok = until(fun() -> on(A, erlang, nodes, []) =:= [] end),
    ?assertEqual([{ok, Self}, {error, {erpc, noconnection}}],
                 on(A, docket_cluster, multicall, [[Self, Other] | Call])),
    ?assertEqual({'EXIT', {erpc, noconnection}},
                 on(A, ?MODULE, error_of, [docket_cluster, call, [Other | Call]])),
    ?assertEqual([Self], on(A, docket_cluster, connected, [])),
    %% erpc:cast/4 would connect a moment later.
    Cast = {erpc, cast, 4},
    1 = on(A, erlang, trace_pattern, [Cast, true, [call_count]]),
    ok = on(A, docket_cluster, cast, [[Self, Other], erlang, node, []]),
    ?assertEqual({call_count, 1}, on(A, erlang, trace_info, [Cast, call_count])),
    ?assertEqual([], on(A, erlang, nodes, [])),
    stopped([A, B]).

error_of(Module, Function, Arguments) ->
    try apply(Module, Function, Arguments)
    catch error:Reason -> {'EXIT', Reason}
    end.

%% Mnesia on the first node has forgotten the copies of the second one, as it may when nodes end and
%% come back at once. The first node acknowledges nothing that the second one does not get.
forgotten_copy(Config) ->
    [A, B, C] = started(names(3), Config),
    [_, Second, _] = names(3),
    [_ = on(A, mnesia_controller, del_active_replica, [Table, Second])
     || Table <- [docket_case, docket_event, docket_file]],
    Id = new_case_again(A),
    ok = until(B, ready, true),
    [{ok, _} = show(Id, Peer) || Peer <- [A, B, C]],
    stopped([A, B, C]).

%% A node that misses a row, because others changed it while this one loaded, does not join.
missed_change(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ?assertEqual(ok, joined(B)),
    true = on(B, ets, delete, [docket_case, Id]),
    ?assertMatch({differs, _}, joined(B)),
    stopped([A, B, C]).

%% A node gets changes while it loads, which Mnesia keeps only in memory. They are on its disk
%% before it joins, so they are there when all nodes were killed and this one loads its own rows.
saved_change(Config) ->
    [A, B, C] = Peers = started(names(3), Config),
    [_, Second, Third] = names(3),
    [ok = has_members(Peer, names(3)) || Peer <- Peers],
    {Owner, _} = Id = new_case(A),
    [Row] = on(B, ets, lookup, [docket_case, Id]),
    Key = {Owner, on(B, docket_store, new_id, [erlang:system_time(millisecond)])},
    %% As such a change arrives: in memory, and in no log
    true = on(B, ets, insert, [docket_case, setelement(2, Row, Key)]),
    {loaded, from_others} = on(B, docket_mnesia_schema, attempt, [60000]),
    [ok = kill(Peer) || Peer <- [C, B, A]],
    Again = [start(Name, names(3), Config) || Name <- [Second, Third]],
    [ok = until(Peer, ready, true) || Peer <- Again],
    [?assertMatch({ok, _}, show(Key, Peer)) || Peer <- Again],
    stopped(Again).

%% The second node has taken an offer with the first one as a new member, and then all were killed.
%% The first one, which has not taken it, must not load its old rows.
untaken_offer(Config) ->
    [A, B, C] = started(names(3), Config),
    [First, Second, Third] = names(3),
    ok = kill(A),
    ok = until(B, ready, true),
    Id = new_case_again(B),
    {Number, _} = Base = on(B, docket_generation, current, []),
    ?assertMatch({_, [Second, Third]}, Base),
    [ok = kill(Peer) || Peer <- [C, B]],
    Offer = {{Number + 1, names(3)}, Base},
    ok = file:write_file(filename:join(dir(Second, Config), "docket.generation"),
                         io_lib:format("~0p.~n", [Offer])),
    Again = started([First, Second, Third], Config),
    [?assertMatch({ok, _}, show(Id, Peer)) || Peer <- Again],
    stopped(Again).

%% The third node was killed before it took two offers in a row: the first one left out the second
%% node, which then came back. All nodes come together again.
skipped_offer(Config) ->
    [A, B, C] = Peers = started(names(3), Config),
    [First, Second, Third] = names(3),
    Id = new_case(A),
    [ok = has_members(Peer, names(3)) || Peer <- Peers],
    {{Number, _} = Base, _} = on(C, docket_generation, stored, []),
    [ok = kill(Peer) || Peer <- [C, B, A]],
    Offer = {{Number + 2, names(3)}, {Number + 1, [First, Third]}},
    [ok = file:write_file(filename:join(dir(Name, Config), "docket.generation"),
                          io_lib:format("~0p.~n", [Stored]))
     || {Name, Stored} <- [{First, Offer}, {Second, Offer},
                           {Third, {Base, {Number - 1, [First]}}}]],
    Again = started(names(3), Config),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(hd(Again))], Peer <- Again],
    stopped(Again).

%% The process that keeps the generation ends while a change waits for its offer. The change gets an
%% answer, and later ones succeed.
ended_offer(Config) ->
    [A, B, C] = started(names(3), Config),
    [ok = has_members(Peer, names(3)) || Peer <- [A, B]],
    ok = on(A, sys, suspend, [docket_generation]),
    ok = kill(C),
    Test = self(),
    Third = lists:last(names(3)),
    ok = until(fun() ->
                       not lists:member(Third, on(A, mnesia, system_info, [running_db_nodes]))
               end),
    _ = spawn_link(fun() -> Test ! {answer, create(A)} end),
    ok = until(fun() -> on(A, ?MODULE, has_offer, []) end),
    true = on(A, erlang, exit, [on(A, erlang, whereis, [docket_generation]), kill]),
    receive {answer, Answer} -> ?assertMatch({error, _}, Answer) end,
    {ok, _} = show(new_case_again(A), B),
    stopped([A, B]).

%% Tells whether the suspended process has the request for an offer.
has_offer() ->
    {messages, Messages} = process_info(whereis(docket_generation), messages),
    [] =/= [offer || {'$gen_call', _, {offer, shrink}} <- Messages].

%% A node whose disk takes a generation slowly keeps its database.
slow_accept(Config) ->
    [A, B, C] = Peers = started(names(3), Config),
    [ok = has_members(Peer, names(3)) || Peer <- Peers],
    [First, Second, _] = names(3),
    {{Number, _} = Base, _} = on(B, docket_generation, stored, []),
    ok = on(A, sys, suspend, [docket_mnesia_member]),
    ok = on(A, sys, suspend, [docket_generation]),
    ok = on(B, persistent_term, put, [docket_generation, {{Number + 1, [First, Second]}, Base}]),
    ?assertEqual(unknown, on(A, docket_generation, compare, [Second])),
    ok = on(B, persistent_term, put, [docket_generation, {Base, {Number - 1, [First]}}]),
    stopped([A, B, C]).

%% Mnesia reports on one node that it is overloaded. All nodes run half as many operations.
overloaded(Config) ->
    [A, B] = Peers = started(names(2), Config),
    ok = on(A, mnesia_lib, report_system_event,
            [{mnesia_overload, {mnesia_tm, message_queue_len, [101, 102]}}]),
    ok = until(fun() ->
                       [] =/= [Line || {_, "docket: Mnesia is overl" ++ _ = Line} <- lines(A)]
               end),
    ok = until(fun() -> on(B, ?MODULE, places, []) =:= 8 end),
    ?assertEqual([8, 8], [on(Peer, ?MODULE, places, []) || Peer <- Peers]),
    ?assertEqual({ok, 1}, on(A, whittle_counters, value, [docket_mnesia_overloads_total])),
    stopped(Peers).

%% How many operations enter the gate of the store at the same time
places() ->
    Test = self(),
    Guests = [spawn(fun() ->
                            Test ! {self(), docket_gate:enter(docket_store_gate)},
                            receive leave -> ok end
                    end) || _ <- lists:seq(1, 20)],
    Entered = entered(Guests, 0),
    _ = [exit(Guest, kill) || Guest <- Guests],
    Entered.

entered(Guests, Count) ->
    receive {Guest, Result} ->
            case Result of
                {ok, _} -> entered(lists:delete(Guest, Guests), Count + 1);
                {error, busy} -> Count
            end
    end.

%% A change that may not be on all disks is shown only when it is there.
unsettled(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(A),
    Note = {{docket_case, Id}, make_ref()},
    ok = on(A, docket_mnesia_unsettled, add, [[Note]]),
    {ok, _} = show(Id, A),
    %% The read has waited for the disks.
    ?assertEqual([], on(A, docket_mnesia_unsettled, notes, [docket_case, Id])),
    [ok = kill(Peer) || Peer <- [B, C]],
    ok = until(A, ready, false),
    {ok, _} = show(Id, A),
    ok = on(A, docket_mnesia_unsettled, add, [[Note]]),
    ?assertEqual({error, not_ready}, show(Id, A)),
    stopped([A]).

joined(Peer) ->
    case on(Peer, docket_mnesia_replica, join, [from_others]) of
        {error, _} -> joined(Peer);
        Result -> Result
    end.

has_members(Peer, Nodes) ->
    case on(Peer, docket_generation, current, []) of
        {_, Nodes} -> ok;
        _ -> has_members(Peer, Nodes)
    end.

%% Mnesia cannot write its log, of which disk_log tells mnesia_monitor. The node is no member any
%% more, so it does not count after a crash, until it has loaded the cases of the others.
full_disk(Config) ->
    [A, B, C] = started(names(3), Config),
    Before = on(B, erlang, whereis, [mnesia_sup]),
    ok = log_fails(B),
    Id = new_case_again(A),
    ok = until_restarted(B, Before),
    ok = until(B, ready, true),
    [{ok, _} = show(Id, Peer) || Peer <- [A, B, C]],
    [ok = has_members(Peer, names(3)) || Peer <- [A, B, C]],
    stopped([A, B, C]).

log_fails(Peer) ->
    Failure = {error_status, {error, {file_error, "x", enospc}}},
    Name = on(Peer, erlang, node, []),
    _ = on(Peer, erlang, send, [mnesia_monitor, {disk_log, Name, latest_log, Failure}]),
    ok.

disk_fails(Peer) ->
    Before = on(Peer, erlang, whereis, [mnesia_sup]),
    ok = log_fails(Peer),
    %% A change would flush too, and may be tried again.
    Generation = on(Peer, docket_generation, current, []),
    {error, disk} = on(Peer, docket_mnesia_replica, flushed, [Generation]),
    ok = until_restarted(Peer, Before),
    until(Peer, ready, true).

until_restarted(Peer, Before) ->
    until(fun() -> on(Peer, erlang, whereis, [mnesia_sup]) =/= Before end).

%% Also one of two, where the other one is no majority for Mnesia.
replaced_of_two(Config) ->
    [A, B] = started(names(2), Config),
    Id = new_case(A),
    ok = kill(B),
    Second = lists:last(names(2)),
    ok = file:del_dir_r(dir(Second, Config)),
    B1 = start(Second, names(2), Config),
    [ok = until(Peer, ready, true) || Peer <- [A, B1]],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(B1)], Peer <- [A, B1]],
    ?assertEqual(true, on(A, mnesia, table_info, [docket_case, majority])),
    stopped([A, B1]).

in_memory(Config) ->
    Memory = [{dir, none}, {fragments, 4} | Config],
    [A, B] = started(names(2), Memory),
    Id = new_case(B),
    ok = kill(A),
    A1 = start(hd(names(2)), names(2), Memory),
    [ok = until(Peer, ready, true) || Peer <- [A1, B]],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(A1)], Peer <- [A1, B]],
    stopped([A1, B]).

%% A node that is cut off refuses changes; the others go on. Afterwards it has their cases.
alone_of_three(Config) ->
    [A, B, C] = Peers = started(names(3), Config),
    Before = new_case(A),
    ok = parted([A], [B, C]),
    ok = until(A, ready, false),
    [ok = until(Peer, ready, true) || Peer <- [B, C]],
    ?assertEqual({error, minority}, create(A)),
    Meanwhile = [new_case_again(Peer) || Peer <- [B, C, B, C]],
    ok = joined([A], [B, C]),
    [ok = until(Peer, ready, true) || Peer <- Peers],
    [ok = until(A, has, Id) || Id <- Meanwhile],
    [{ok, _} = show(Id, Peer) || Id <- [Before, new_case_again(A) | Meanwhile], Peer <- Peers],
    stopped(Peers).

%% Two halves both refuse changes, and lose nothing.
halves(Config) ->
    [A, B, C, D] = Peers = started(names(4), Config),
    Before = new_case(D),
    ok = parted([A, B], [C, D]),
    [ok = until(Peer, ready, false) || Peer <- Peers],
    [?assertEqual({error, minority}, create(Peer)) || Peer <- Peers],
    ok = joined([A, B], [C, D]),
    [ok = until(Peer, ready, true) || Peer <- Peers],
    [ok = until(Peer, has, Before) || Peer <- Peers],
    After = new_case_again(C),
    [{ok, _} = show(After, Peer) || Peer <- Peers],
    stopped(Peers).

%% Without locks the copies of two nodes may stay different. A third node joins nevertheless.
diverged(Without) ->
    Config = [{mode, async_dirty} | Without],
    [A, B, C] = started(names(3), Config),
    {Owner, Id} = new_case(A),
    true = on(B, ets, delete, [docket_event, {Owner, Id, 1}]),
    ok = kill(A),
    A1 = start(hd(names(3)), names(3), Config),
    ok = until(A1, ready, true),
    {ok, _} = show(new_case_again(A1), A1),
    stopped([A1, B, C]).

%% Each node has all fragments of the documents, also one that has joined later, with another number
%% in its settings. A crash of all nodes loses none.
fragments(Config) ->
    Names = names(3),
    Peers = [start(Name, Names, [{fragments, Fragments} | Config])
             || {Name, Fragments} <- lists:zip(Names, [4, 1, 1])],
    [ok = until(Peer, ready, true) || Peer <- Peers],
    A = hd(Peers),
    Keys = [begin
                Key = new_case(A),
                {ok, _} = on(A, docket, run,
                             [{attach, Key, {<<"a">>, <<"text/plain">>}, <<N>>, 1}]),
                {Key, <<N>>}
            end || N <- lists:seq(1, 40)],
    [?assertEqual([docket_file, docket_file_frag2, docket_file_frag3, docket_file_frag4],
                  [Name || Name <- lists:sort(on(Peer, docket_mnesia_tables, names, [])),
                           lists:prefix("docket_file", atom_to_list(Name)),
                           on(Peer, mnesia, table_info, [Name, storage_type]) =:= disc_copies,
                           on(Peer, ets, info, [Name, size]) > 0]) || Peer <- Peers],
    [ok = kill(Peer) || Peer <- Peers],
    Again = started(Names, Config),
    [?assertMatch({ok, {_, Bytes}}, on(Peer, docket, run, [{document, Key, 2}]))
     || {Key, Bytes} <- Keys, Peer <- Again],
    [{ok, _} = on(hd(Again), docket, run, [{remove, Key, 2, 1}]) || {Key, _} <- Keys],
    [?assertEqual({0, Name}, {on(Peer, ets, info, [Name, size]), Name})
     || Peer <- Again, Name <- on(Peer, docket_mnesia_tables, names, []), Name =/= docket_event],
    stopped(Again).

%% Nodes get a later program one after the other, while the service goes on. When all have it, the
%% rows change. An older program then refuses them.
upgraded(Config) ->
    Older = [{row_version, 1}, {fragments, 4} | Config],
    Names = [First, _, Third] = names(3),
    Peers = [A, _, _] = started(Names, Older),
    ?assertNot(lists:member(closed, on(A, mnesia, table_info, [docket_case, attributes]))),
    Before = new_case(A),
    {Later, Ids} = lists:mapfoldl(fun({Name, Peer}, Made) ->
                                          ok = kill(Peer),
                                          New = start(Name, Names, Config),
                                          ok = until(New, ready, true),
                                          {New, [new_case_again(New) | Made]}
                                  end, [Before], lists:zip(Names, Peers)),
    [ok = until_upgraded(Peer) || Peer <- Later],
    [?assertMatch({ok, _}, show(Id, Peer)) || Id <- Ids, Peer <- Later],
    [One, Two, Last] = Later,
    {ok, Case} = on(One, docket, run, [{change, Before, 1, #{state => closed}, 1000}]),
    ?assertMatch(#{closed := <<"1970-01-01T00:00:01", _/binary>>}, docket_case:view(Case)),
    ?assertEqual({ok, Case}, show(Before, Two)),
    ok = kill(Last),
    Again = start(Third, Names, Older),
    ?assertEqual({version, {2, 1}}, error_of(Again)),
    stopped([Again]),
    ok = kill(One),
    One1 = start(First, Names, Config),
    [ok = until(Peer, ready, true) || Peer <- [One1, Two]],
    ?assertEqual({ok, Case}, show(Before, One1)),
    stopped([One1, Two]).

until_upgraded(Peer) ->
    case on(Peer, docket_mnesia_tables, needs_upgrade, []) of
        true -> until_upgraded(Peer);
        false -> ok
    end.

%% A program does not read rows that a later one wrote.
future(Config) ->
    [A, B] = started(names(2), Config),
    [{atomic, ok} = on(A, mnesia, write_table_property, [Table, {docket_version, 3}])
     || Table <- [docket_case, docket_event, docket_file]],
    [dumped = on(Peer, mnesia, dump_log, []) || Peer <- [A, B]],
    ok = kill(B),
    B1 = start(lists:last(names(2)), names(2), Config),
    Error = error_of(B1),
    ?assertEqual({version, {3, 2}}, Error),
    {match, _} = re:run(docket_mnesia_schema:format_error(Error), "start a later program"),
    %% A forced start that cannot load the rows begins no generation.
    [ok = kill(Peer) || Peer <- [A, B1]],
    B2 = start(lists:last(names(2)), names(2), [{force, true} | Config]),
    ?assertEqual({version, {3, 2}}, error_of(B2)),
    {Number, _} = on(B2, docket_generation, current, []),
    ?assert(Number < 1_000_000),
    stopped([B2]).

%% The fingerprint of a row is that of the row before a transaction, in any fragment.
fingerprint(Config) ->
    [A] = started(names(1), [{fragments, 4} | Config]),
    Key = new_case(A),
    [{ok, _} = on(A, docket, run, [{attach, Key, {<<"a">>, <<"text/plain">>}, <<N>>, 1}])
     || N <- lists:seq(1, 20)],
    {Owner, Id} = Key,
    Documents = [{docket_file, {Owner, Id, Number}} || Number <- lists:seq(2, 21)],
    Before = prints(A, Documents),
    ?assertEqual(20, length(lists:usort(Before))),
    Within = on(A, mnesia, activity, [transaction, fun ?MODULE:overwritten/1, [Documents],
                                      mnesia_frag]),
    ?assertEqual(Before, Within),
    ?assertNotEqual(Before, prints(A, Documents)),
    stopped([A]).

prints(Peer, Rows) ->
    [on(Peer, docket_mnesia_replica, fingerprint, [Table, Key]) || {Table, Key} <- Rows].

overwritten(Rows) ->
    [ok = mnesia:write(Table, {Table, Key, <<"other">>}, write) || {Table, Key} <- Rows],
    [docket_mnesia_replica:fingerprint(Table, Key) || {Table, Key} <- Rows].

%% Asks for the reason, without the process that tries again and again. That process may have left
%% Mnesia starting.
error_of(Peer) ->
    _ = on(Peer, supervisor, terminate_child, [docket_sup, store]),
    refusal(Peer).

refusal(Peer) ->
    case on(Peer, docket_mnesia_schema, attempt, [60000]) of
        {error, Reason} -> Reason;
        {Waits, _} when Waits =:= wait; Waits =:= give_up -> refusal(Peer)
    end.
