-module(whittle_flow_batcher_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").
-behaviour(whittle_flow_batcher).

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([readme/1, order/1, lists_at_once/1, grows_and_shrinks/1, waits_for_company/1,
         waits_no_longer/1, timer_flushes/1, timers_leave_nothing/1, blocks_without_credit/1,
         sheds/1, priority_crashes/1, recovers/1, sync_in_time/1, callback_crash/1, receiver_dies/1,
         name_comes_back/1, pid_dies/1, too_many_names/1, bad_input/1]).
-export([kept_for_the_dead/1, sync_blocks_no_longer/1, books_balance/1, owner_only/1,
         parent_ends/1, system_messages/1, errors_say/1, counted_again/1,
         far_receiver/1, collect/1]).
-export([init/1, handle_batch/2, info/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [readme, order, lists_at_once, grows_and_shrinks, waits_for_company, waits_no_longer,
     timer_flushes, timers_leave_nothing, blocks_without_credit, sheds, priority_crashes, recovers,
     sync_in_time, callback_crash, receiver_dies, name_comes_back, pid_dies, too_many_names,
     bad_input, kept_for_the_dead, sync_blocks_no_longer, books_balance, owner_only, parent_ends,
     system_messages, errors_say, counted_again, far_receiver].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_flow),
    _ = process_flag(trap_exit, true),
    Config.

%% A test's process ends normally, and batchers do not die of that.
end_per_testcase(_, _) ->
    {links, Links} = process_info(self(), links),
    [begin
         exit(Pid, kill),
         receive {'EXIT', Pid, _} -> ok end
     end || Pid <- Links, is_pid(Pid)],
    application:stop(whittle_flow),
    application:stop(whittle_counters).

%%% the batcher: it reports each batch to its test, and the test may stop it in one

init({trap, Test}) -> _ = process_flag(trap_exit, true), Test;
init(Test) -> Test.

handle_batch([crash | _], _) -> error(asked_to);
handle_batch([wait | _] = Batch, Test) ->
    Test ! {waiting, self()},
    receive go -> Test ! {batch, Batch}, Test end;
handle_batch(Batch, Test) ->
    Test ! {batch, Batch},
    Test.

info({ping, From}, State) -> From ! pong, State;
info(Message, Test) -> Test ! {told, Message}, Test.

start(Options) ->
    {ok, Pid} = whittle_flow_batcher:start_link(?MODULE, self(), Options),
    Pid.

batch() -> receive {batch, Batch} -> Batch end.

%% Collects batches until they have so many messages.
messages(0) -> [];
messages(N) ->
    Batch = batch(),
    Batch ++ messages(N - length(Batch)).

pushed(Messages, Sender) -> lists:foldl(fun whittle_flow_sender:push/2, Sender, Messages).

%%% cases

%% Runs the README's example, whose batches print their sums.
readme(_) ->
    [Module, Use] = whittle_readme:first_use(?MODULE, whittle_flow),
    ?assert(length(string:lexemes(Module ++ Use, "\n")) =< 10),
    adder = whittle_readme:define(Module),
    Shell = group_leader(),
    true = group_leader(printer(self()), self()),
    _ = try whittle_readme:run(Use, [])
        after group_leader(Shell, self())
        end,
    ?assertEqual("500500\n", lists:last(printed())).

%% Takes printed output, and sends it to the test.
printer(Test) ->
    spawn_link(fun() -> printer_loop(Test) end).

printer_loop(Test) ->
    receive
        {io_request, From, Ref, {put_chars, _, M, F, A}} ->
            Test ! {printed, unicode:characters_to_list(apply(M, F, A))},
            From ! {io_reply, Ref, ok},
            printer_loop(Test)
    end.

printed() -> receive {printed, Text} -> [Text | printed()] after 0 -> [] end.

order(_) ->
    Batcher = start(#{}),
    Test = self(),
    Senders = [spawn_link(fun() ->
                                  {ok, S} = whittle_flow_sender:new(
                                              Batcher, #{batch => 7, window => 50}),
                                  S1 = pushed([{Id, N} || N <- lists:seq(1, 1000)], S),
                                  {ok, _} = whittle_flow_sender:sync(S1, infinity),
                                  Test ! {synced, Id}
                          end) || Id <- lists:seq(1, 5)],
    All = messages(5000),
    [?assert(lists:seq(1, 1000) =:= [N || {I, N} <- All, I =:= Id]) || Id <- lists:seq(1, 5)],
    [receive {synced, Id} -> ok end || Id <- lists:seq(1, 5)],
    ?assertEqual(5, length(Senders)),
    ?assertEqual({ok, 5000}, whittle_counters:value(whittle_flow_messages_total, [batcher])),
    Batcher ! {ping, self()},
    receive pong -> ok end.

%% Pushes lists of all lengths and single messages. One list is longer than the window.
lists_at_once(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{batch => 10, window => 25}),
    Push = fun(From, To, Acc) -> whittle_flow_sender:push_many(lists:seq(From, To), Acc) end,
    S1 = Push(1, 3, S),
    S2 = whittle_flow_sender:push(4, S1),
    S3 = Push(5, 14, S2),
    S4 = Push(15, 100, S3),
    S5 = whittle_flow_sender:push_many([], S4),
    {ok, _} = whittle_flow_sender:sync(Push(101, 102, S5), infinity),
    ?assertEqual(lists:seq(1, 102), messages(102)).

%% While 1000 messages wait, the batches double from the floor to the ceiling. When messages come
%% one by one, each is a batch.
grows_and_shrinks(_) ->
    Batcher = start(#{floor => 4, ceiling => 64}),
    ok = whittle_flow_batcher:cast(Batcher, wait),
    receive {waiting, Batcher} -> ok end,
    [ok = whittle_flow_batcher:cast(Batcher, N) || N <- lists:seq(1, 300)],
    Batcher ! go,
    [wait] = batch(),
    Sizes = sizes(300),
    ?assertEqual([4, 8, 16, 32, 64, 64, 64, 48], Sizes),
    [begin
         ok = whittle_flow_batcher:cast(Batcher, N),
         ?assertEqual([N], batch())
     end || N <- lists:seq(1, 5)].

sizes(0) -> [];
sizes(N) ->
    Size = length(batch()),
    [Size | sizes(N - Size)].

%% With a wait of an hour, only the floor starts a batch.
waits_for_company(_) ->
    Batcher = start(#{floor => 3, wait => 3600000}),
    [ok = whittle_flow_batcher:cast(Batcher, N) || N <- [1, 2, 3]],
    ?assertEqual([1, 2, 3], batch()).

%% With a floor that the messages never reach, the wait of the first message starts the batch.
waits_no_longer(_) ->
    Batcher = start(#{floor => 1000, wait => 1}),
    ok = whittle_flow_batcher:cast(Batcher, 1),
    ?assertEqual([1], batch()).

%% A sender's first message waits no longer than its timer.
timer_flushes(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{wait => 1}),
    S1 = whittle_flow_sender:push(a, S),
    receive
        {whittle_flow_flush, _} = Timer ->
            {ok, S2} = whittle_flow_sender:info(Timer, S1),
            ?assertEqual([a], batch()),
            ?assertEqual(ignored, whittle_flow_sender:info({some, message}, S2))
    end.

%% A process that only pushes gets no message that nobody takes, even if its timer fired before the
%% batch was full.
timers_leave_nothing(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{wait => 1, batch => 2}),
    S1 = whittle_flow_sender:push(a, S),
    arrived(),
    {ok, _} = whittle_flow_sender:sync(whittle_flow_sender:push(b, S1), infinity),
    ?assertEqual([a, b], messages(2)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

arrived() ->
    case process_info(self(), messages) of
        {messages, [_]} -> ok;
        {messages, []} -> erlang:yield(), arrived()
    end.

blocks_without_credit(_) ->
    Batcher = start(#{}),
    Test = self(),
    ok = whittle_flow_batcher:cast(Batcher, wait),
    receive {waiting, Batcher} -> ok end,
    {Pusher, Ref} = spawn_monitor(fun() ->
                                          {ok, S} = whittle_flow_sender:new(
                                                      Batcher, #{batch => 1, window => 10}),
                                          _ = pushed(lists:seq(1, 100), S),
                                          Test ! pushed
                                  end),
    blocked(Pusher),
    ?assertEqual({message_queue_len, 10}, process_info(Batcher, message_queue_len)),
    Batcher ! go,
    [wait | _] = batch(),
    ?assertEqual(lists:seq(1, 100), messages(100)),
    receive {'DOWN', Ref, process, Pusher, normal} -> ok end.

blocked(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{status, waiting}, {current_function, {whittle_flow_sender, _, _}}] -> ok;
        _ -> erlang:yield(), blocked(Pid)
    end.

%% Returns the messages that a sender kept, with room for three, while the receiver was stopped.
kept(Policy, Messages) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{batch => 1, window => 1, buffer => 3,
                                                 policy => Policy}),
    S1 = whittle_flow_sender:push(wait, S),
    receive {waiting, Batcher} -> ok end,
    S2 = pushed(Messages, S1),
    Batcher ! go,
    [wait] = batch(),
    {error, {shed, Shed}, S3} = whittle_flow_sender:sync(S2, infinity),
    ?assertEqual(length(Messages) - 3, Shed),
    {ok, _} = whittle_flow_sender:sync(S3, infinity),
    messages(3).

sheds(_) ->
    Rank = fun({urgent, _}) -> 2; (_) -> 1 end,
    ?assertEqual([1, 2, 3], kept(newest, lists:seq(1, 10))),
    ?assertEqual([8, 9, 10], kept(oldest, lists:seq(1, 10))),
    ?assertEqual([{urgent, 2}, {urgent, 4}, 10],
                 kept({priority, Rank}, [1, {urgent, 2}, 3, {urgent, 4}, 5, 6, 7, 8, 9, 10])),
    [?assertEqual({ok, 7}, whittle_counters:value(whittle_flow_shed_total, [sender, P]))
     || P <- [newest, oldest, priority]].

%% A crash of the priority fun does not reach the caller of push; such a message goes first. A fun
%% that returns different results for the same message does no harm either.
priority_crashes(_) ->
    ?assertEqual([2, 3, 4], kept({priority, fun(N) when is_integer(N) -> 1 end}, [a, 2, 3, 4, b])),
    Random = {priority, fun(_) -> rand:uniform() end},
    Kept = kept(Random, lists:seq(1, 100)),
    ?assertEqual(Kept, lists:usort(Kept)).

%% The receiver is stopped while a process pushes a million messages. The memory stays bounded, and
%% the receiver continues without a restart.
recovers(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{policy => oldest, window => 1000, buffer => 1000}),
    S1 = whittle_flow_sender:flush(whittle_flow_sender:push(wait, S)),
    receive {waiting, Batcher} -> ok end,
    true = garbage_collect(),
    {memory, Before} = process_info(self(), memory),
    S2 = pushed(lists:seq(1, 1000000), S1),
    {message_queue_len, Queue} = process_info(Batcher, message_queue_len),
    ?assert(Queue =< 10),
    true = garbage_collect(),
    {memory, After} = process_info(self(), memory),
    ?assert(After - Before < 1000000),
    Batcher ! go,
    {error, {shed, Shed}, _} = whittle_flow_sender:sync(S2, infinity),
    Got = [N || N <- messages(2000), is_integer(N)],
    ?assertEqual(lists:sort(Got), Got),
    ?assertEqual(1000000, lists:last(Got)),
    ?assertEqual(1000000, Shed + length(Got)),
    ?assertEqual({ok, Shed},
                 whittle_counters:value(whittle_flow_shed_total, [sender, oldest])).

%% A process that does not wait gets the number of open messages, and may sync again.
sync_in_time(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{}),
    S1 = whittle_flow_sender:flush(whittle_flow_sender:push(wait, S)),
    receive {waiting, Batcher} -> ok end,
    {error, {unanswered, 3}, S2} = whittle_flow_sender:sync(pushed([a, b], S1), 0),
    Batcher ! go,
    {ok, _} = whittle_flow_sender:sync(S2, infinity),
    ?assertEqual([wait, a, b], messages(3)).

callback_crash(_) ->
    Batcher = start(#{name => fragile}),
    {ok, S} = whittle_flow_sender:new(fragile, #{}),
    {error, {failed, 2} = Reason, S1} = whittle_flow_sender:sync(pushed([crash, b], S), infinity),
    ?assert(is_list(unicode:characters_to_list(whittle_flow:format_error(Reason)))),
    {ok, _} = whittle_flow_sender:sync(pushed([c], S1), infinity),
    ?assertEqual([c], batch()),
    ?assertEqual({ok, 2}, whittle_counters:value(whittle_flow_failed_total, [fragile])),
    ?assert(is_process_alive(Batcher)).

%% The sender reports messages on their way once, and does not send them again. Unsent messages go
%% to the next process with that name.
receiver_dies(_) ->
    First = start(#{name => phoenix}),
    {ok, S} = whittle_flow_sender:new(phoenix, #{batch => 1, window => 2, policy => newest}),
    S1 = pushed([wait, sent, kept], S),
    receive {waiting, First} -> ok end,
    exit(First, kill),
    receive {'EXIT', First, killed} -> ok end,
    _ = start(#{name => phoenix}),
    {error, {uncertain, 2}, S2} = whittle_flow_sender:sync(S1, infinity),
    ?assertEqual([kept], batch()),
    {ok, _} = whittle_flow_sender:sync(pushed([next], S2), infinity),
    ?assertEqual([next], batch()),
    ?assertEqual({ok, 2}, whittle_counters:value(whittle_flow_uncertain_total, [phoenix])).

%% With the policy `block' a sender waits until a process has the name.
name_comes_back(_) ->
    {ok, S} = whittle_flow_sender:new(lazarus, #{batch => 1}),
    Self = self(),
    {Pusher, Ref} = spawn_monitor(fun() ->
                                          {ok, _} = whittle_flow_sender:sync(
                                                      whittle_flow_sender:push(a, S), infinity),
                                          Self ! synced
                                  end),
    blocked(Pusher),
    _ = start(#{name => lazarus}),
    ?assertEqual([a], batch()),
    receive synced -> ok end,
    receive {'DOWN', Ref, process, Pusher, normal} -> ok end.

%% Batches go on when whittle_counters has no room for more series.
too_many_names(_) ->
    ok = application:set_env(whittle_counters, max_series, 1),
    Batcher = start(#{name => uncounted}),
    ok = application:set_env(whittle_counters, max_series, 100000),
    ok = whittle_flow_batcher:cast(Batcher, a),
    ?assertEqual([a], batch()).

pid_dies(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{batch => 1}),
    exit(Batcher, kill),
    receive {'EXIT', Batcher, killed} -> ok end,
    {error, {uncertain, 1}, S1} = whittle_flow_sender:sync(pushed([a], S), infinity),
    {error, {shed, 2}, S2} = whittle_flow_sender:sync(pushed([b, c], S1), infinity),
    ?assertEqual({ok, 2}, whittle_counters:value(whittle_flow_shed_total, [sender, dead])),
    {ok, _} = whittle_flow_sender:sync(S2, infinity).

%% The sender sheds, reports and counts messages that it keeps for a pid that dies.
kept_for_the_dead(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{window => 1, batch => 1, buffer => 20,
                                                 policy => newest}),
    S1 = pushed([wait | lists:seq(1, 9)], S),
    receive {waiting, Batcher} -> ok end,
    exit(Batcher, kill),
    receive {'EXIT', Batcher, killed} -> ok end,
    {error, {uncertain, 1}, S2} = whittle_flow_sender:sync(S1, infinity),
    {error, {shed, 9}, S3} = whittle_flow_sender:sync(S2, infinity),
    {ok, _} = whittle_flow_sender:sync(S3, infinity),
    ?assertEqual({ok, 9}, whittle_counters:value(whittle_flow_shed_total, [sender, dead])),
    ?assertEqual({ok, 1}, whittle_counters:value(whittle_flow_uncertain_total, [sender])).

%% A sync keeps its timeout even if a push would wait. Its unsent messages go out with a later
%% sync, in order.
sync_blocks_no_longer(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{batch => 4, window => 5}),
    S1 = whittle_flow_sender:push_many([wait, 1, 2, 3], S),
    receive {waiting, Batcher} -> ok end,
    %% There is credit for one more message.
    {error, {unanswered, 7}, S2} = whittle_flow_sender:sync(pushed([4, 5, 6], S1), 0),
    ?assertEqual({message_queue_len, 1}, process_info(Batcher, message_queue_len)),
    {error, {unanswered, 7}, S3} = whittle_flow_sender:sync(S2, 0),
    Batcher ! go,
    {ok, S4} = whittle_flow_sender:sync(pushed([7], S3), infinity),
    ?assertEqual([wait | lists:seq(1, 7)], messages(8)),
    %% First no process has the name, and then one has it.
    {ok, N} = whittle_flow_sender:new(nobody_yet, #{batch => 200}),
    {error, {unanswered, 1}, N1} = whittle_flow_sender:sync(whittle_flow_sender:push(a, N), 0),
    _ = start(#{name => nobody_yet}),
    {ok, _} = whittle_flow_sender:sync(N1, infinity),
    ?assertEqual([a], batch()),
    [?assertError(function_clause, whittle_flow_sender:sync(S4, Timeout))
     || Timeout <- [foo, -1, 1 bsl 32]].

%% After any sequence of pushes, crashes, kills and syncs, each message was handled or reported, in
%% order and only once.
books_balance(_) ->
    ?assertEqual(true, proper:quickcheck(
                         ?FORALL({To, Policy, Batch, Window, Steps},
                                 {oneof([name, pid]), policy(), range(1, 4), range(1, 8),
                                  resize(40, list(step()))},
                                 balanced(To, Policy, #{batch => Batch, window => Window,
                                                        buffer => 3, wait => 0}, Steps)),
                         [{numtests, 300}, quiet, noshrink, long_result])).

policy() -> oneof([block, newest, oldest, {priority, fun(N) -> -N rem 3 end}]).
step() -> frequency([{12, push}, {4, {push_many, range(0, 9)}}, {2, hold}, {2, crash}, {1, kill},
                     {2, flush}, {3, {sync, oneof([0, 1])}}, {2, settle}]).

%% A killed batcher with a name restarts at once. Its sender blocks while the test holds it, so the
%% test releases it before a push that could wait forever.
balanced(To, Policy, Options, Steps) ->
    Table = ets:new(handled, [public, ordered_set]),
    Batcher = ledger(To, Table),
    {ok, S} = whittle_flow_sender:new(case To of name -> ledger; pid -> Batcher end,
                                      Options#{policy => Policy}),
    Start = #{to => To, table => Table, batcher => Batcher, sender => S, next => 1,
              can_hold => Policy =/= block, held => 0, failed => 0, uncertain => 0, shed => 0},
    #{batcher := Last, next := Next, failed := Failed, uncertain := Uncertain,
      shed := Shed} = settled(lists:foldl(fun step/2, Start, Steps)),
    Handled = [N || {N} <- ets:tab2list(Table)],
    Twice = ets:lookup(Table, twice),
    exit(Last, kill),
    receive {'EXIT', Last, _} -> ok end,
    true = ets:delete(Table),
    Missing = Next - 1 - length(Handled) - Failed - Shed,
    {Missing >= 0, Missing =< Uncertain, Twice} =:= {true, true, []}.

ledger(To, Table) ->
    Name = case To of name -> #{name => ledger}; pid -> #{} end,
    {ok, Pid} = whittle_flow_batcher:start_link(whittle_flow_ledger, Table, Name),
    Pid.

step(push, State) -> push_one(State, fun(N) -> N end);
step(crash, State) -> push_one(State, fun(N) -> {crash, N} end);
step({push_many, Count}, #{next := Next, sender := S} = State) ->
    State#{next := Next + Count,
           sender := whittle_flow_sender:push_many(lists:seq(Next, Next + Count - 1), S)};
step(hold, #{batcher := Batcher, can_hold := true, held := Held} = State) ->
    Batcher ! hold,
    State#{held := Held + 1};
step(hold, State) -> State;
step(kill, #{to := To, batcher := Batcher, table := Table} = State) ->
    exit(Batcher, kill),
    receive {'EXIT', Batcher, _} -> ok end,
    case To of
        name -> State#{held := 0, batcher := ledger(name, Table)};
        pid -> State#{held := 0, batcher := spawn_link(fun() -> receive never -> ok end end)}
    end;
step(flush, #{sender := S} = State) -> State#{sender := whittle_flow_sender:flush(S)};
step({sync, Timeout}, State) -> element(2, synced(Timeout, State));
step(settle, State) -> settled(State).

push_one(#{next := Next, sender := S} = State, Message) ->
    State#{next := Next + 1, sender := whittle_flow_sender:push(Message(Next), S)}.

settled(#{batcher := Batcher, held := Held} = State) ->
    _ = [Batcher ! release || _ <- lists:seq(1, Held)],
    case synced(infinity, State#{held := 0}) of
        {true, State1} -> State1;
        {false, State1} -> settled(State1)
    end.

synced(Timeout, #{sender := S} = State) ->
    case whittle_flow_sender:sync(S, Timeout) of
        {ok, S1} -> {true, State#{sender := S1}};
        {error, {unanswered, N}, S1} when N > 0 -> {false, State#{sender := S1}};
        {error, {What, N}, S1} -> {false, maps:update_with(What, fun(M) -> M + N end,
                                                            State#{sender := S1})}
    end.

%% Another process does not get the sender's credit. The call raises instead of waiting forever.
owner_only(_) ->
    Batcher = start(#{}),
    {ok, S} = whittle_flow_sender:new(Batcher, #{batch => 1, window => 1}),
    Owner = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       ?assertError({not_owner, Owner},
                                                    whittle_flow_sender:sync(S, infinity)),
                                       whittle_flow_sender:push_many([a, b], S)
                               end),
    receive
        {'DOWN', Ref, process, Pid, Reason} -> ?assertMatch({{not_owner, Owner}, _}, Reason)
    end.

%% A batcher that traps exits still ends with its parent.
parent_ends(_) ->
    Test = self(),
    Parent = spawn(fun() ->
                           {ok, Pid} = whittle_flow_batcher:start_link(?MODULE, {trap, Test}, #{}),
                           Test ! {batcher, Pid},
                           receive stop -> exit(shutdown) end
                   end),
    Batcher = receive {batcher, Pid} -> Pid end,
    Ref = monitor(process, Batcher),
    %% An exit signal from another process is a message like any other.
    exit(Batcher, other),
    receive {told, {'EXIT', Test, other}} -> ok end,
    Parent ! stop,
    receive {'DOWN', Ref, process, Batcher, Reason} -> ?assertEqual(shutdown, Reason) end.

system_messages(_) ->
    Batcher = start(#{}),
    ?assertMatch({status, Batcher, {module, whittle_flow_batcher}, _}, sys:get_status(Batcher)),
    ?assertEqual(self(), sys:get_state(Batcher)),
    ok = sys:suspend(Batcher),
    ok = whittle_flow_batcher:cast(Batcher, a),
    ?assertEqual(self(), sys:replace_state(Batcher, fun(Test) -> Test end)),
    ok = sys:resume(Batcher),
    ?assertEqual([a], batch()),
    ok = sys:terminate(Batcher, done),
    receive {'EXIT', Batcher, Reason} -> ?assertEqual(done, Reason) end.

%% Every error has a line of text, for any term in the reason.
errors_say(_) ->
    [?assert(is_list(unicode:characters_to_list(whittle_flow:format_error(Reason))))
     || Reason <- [{shed, 3}, {{badmatch, {error, nofile}}, []}, none, {no_such_tag, 1}]],
    [?assertEqual({error, {bad_option, {module, Module}}},
                  whittle_flow_batcher:start_link(Module, [], #{}))
     || Module <- [no_such_module, lists, "m"]].

bad_input(_) ->
    [?assertMatch({error, {bad_option, _}}, whittle_flow_sender:new(self(), O))
     || O <- [#{batch => 0}, #{policy => random}, #{wait => -1}, #{wait => 1 bsl 32},
               #{windw => 1}, []]],
    [?assertEqual({error, {bad_option, {to, To}}}, whittle_flow_sender:new(To, #{}))
     || To <- [undefined, "name", {name, node()}]],
    [?assertEqual({error, {bad_option, Bad}},
                  whittle_flow_batcher:start_link(?MODULE, self(), maps:from_list([Bad])))
     || Bad <- [{wait, 1 bsl 32}, {name, "name"}, {name, undefined}]],
    ?assertMatch({error, {bad_option, {floor, 10}}},
                 whittle_flow_batcher:start_link(?MODULE, self(), #{floor => 10, ceiling => 5})),
    Batcher = start(#{name => once}),
    ?assertEqual({error, {already_started, Batcher}},
                 whittle_flow_batcher:start_link(?MODULE, self(), #{name => once})),
    ok = whittle_flow_batcher:cast(nobody_of_this_name, x).

%% The batcher runs already when whittle_counters stops and starts again.
counted_again(_) ->
    Batcher = start(#{}),
    ok = application:stop(whittle_counters),
    ok = whittle_flow_batcher:cast(Batcher, a),
    ?assertEqual([a], batch()),
    ok = application:start(whittle_counters),
    counted(Batcher).

counted(Batcher) ->
    ok = whittle_flow_batcher:cast(Batcher, a),
    ?assertEqual([a], batch()),
    case whittle_counters:value(whittle_flow_batches_total, [batcher]) of
        {ok, N} when N > 0 -> ok;
        _ -> erlang:yield(), counted(Batcher)
    end.

%% The receiver is on a node that is stopped. Neither a push with a policy that sheds nor a sync
%% waits for it. When the node continues, all messages that were not shed arrive in order.
far_receiver(_) -> whittle_flow_peer:on_other_node(fun receiver_stands/1).

receiver_stands(Node) ->
    Far = spawn(Node, ?MODULE, collect, [self()]),
    Receiver = receive {collects, Far, Pid} -> Pid end,
    {ok, S0} = whittle_flow_sender:new(Receiver, #{policy => newest, batch => 10, window => 200,
                                                   wait => 0, buffer => 100}),
    {ok, S1} = whittle_flow_sender:sync(pushed([{0, first}], S0), infinity),
    Text = binary:copy(<<"large">>, 20000),
    {Open, S2} = whittle_flow_peer:standing(
                   Node,
                   fun() ->
                           Full = pushed([{N, Text} || N <- lists:seq(1, 400)], S1),
                           {error, {shed, 100}, S} = whittle_flow_sender:sync(Full, 10),
                           {error, {unanswered, U}, Waits} = whittle_flow_sender:sync(S, 10),
                           {U, Waits}
                   end),
    ?assertEqual(300, Open),
    {ok, _} = whittle_flow_sender:sync(S2, infinity),
    Far ! {tell, self()},
    ?assertEqual(lists:seq(0, 300), receive {Far, Got} -> Got end).

%% A batcher on another node. This process collects its batches.
collect(Test) ->
    {ok, Pid} = whittle_flow_batcher:start_link(?MODULE, self(), #{}),
    Test ! {collects, self(), Pid},
    collected([]).

collected(Got) ->
    receive
        {batch, Batch} -> collected([Got, [N || {N, _} <- Batch]]);
        {tell, To} -> To ! {self(), lists:flatten(Got)}
    end.
