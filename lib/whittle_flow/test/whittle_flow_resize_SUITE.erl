%% Tests the order of messages over many resizes, and the cost of resizes. The cost is the number
%% of fences that arrive, which the suite counts by tracing. It measures no time.
-module(whittle_flow_resize_SUITE).
-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").
-behaviour(whittle_flow_shard).

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([idle_relays/1, relays_in_use/1, senders_share/1, long_asleep/1, any_resizes/1,
         any_resizes_and_ends/1, sends_to_itself/1, pools_in_a_circle/1]).
-export([init/1, handle/3]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [idle_relays, relays_in_use, senders_share, long_asleep, any_resizes, any_resizes_and_ends,
     sends_to_itself, pools_in_a_circle].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_flow),
    _ = process_flag(trap_exit, true),
    Config.

end_per_testcase(_, _) ->
    stop(),
    application:stop(whittle_flow),
    application:stop(whittle_counters).

%%% the shard: a list of the messages for each key

init(_) -> #{}.

handle(_, {wait, From}, State) -> From ! {waiting, self()}, receive go -> State end;
handle(Key, {tell, To}, State) -> To ! {Key, lists:reverse(maps:get(Key, State, []))}, State;
handle(Key, {send_on, Pool, Other, Message}, State) ->
    ok = whittle_flow_pool:send(Pool, Other, Message),
    State#{Key => [sent_on | maps:get(Key, State, [])]};
handle(Key, N, State) -> maps:update_with(Key, fun(L) -> [N | L] end, [N], State).

%% The tests have no time limits of their own.
start(Options) -> start(pool, Options).

start(Pool, Options) ->
    Defaults = #{retire_after => 3600000, limit => 10000000},
    whittle_flow_pool:start_link(Pool, ?MODULE, [], maps:merge(Defaults, Options)).

stop() ->
    [begin true = unlink(Pid), gen_server:stop(Pid) end
     || Pid <- [whereis(pool), whereis(other)], is_pid(Pid)].

told(Key) -> told(pool, Key).

told(Pool, Key) ->
    ok = whittle_flow_pool:send(Pool, Key, {tell, self()}),
    receive {Key, List} -> List end.

pids() ->
    {ok, Shards} = whittle_flow_pool:shards(pool),
    [Pid || {Pid, _} <- Shards].

%% Counts the fences that came to the pool's shards and relays while Fun ran. Fun ends when all
%% have answered.
fences(Fun) ->
    _ = erlang:trace_pattern('receive', [{['_', '_', '$1'],
                                          [{is_tuple, '$1'},
                                           {'=:=', {element, 1, '$1'}, whittle_flow_fence}], []}],
                             []),
    {links, Links} = process_info(whereis(pool), links),
    Traced = [Pid || Pid <- Links, is_pid(Pid), Pid =/= self()],
    [1 = erlang:trace(Pid, true, ['receive']) || Pid <- Traced],
    Fun(),
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    [erlang:trace(Pid, false, ['receive']) || Pid <- Traced],
    _ = erlang:trace_pattern('receive', true, []),
    counted(0).

counted(N) ->
    receive {trace, _, 'receive', _} -> counted(N + 1) after 0 -> N end.

%% Resizes, and makes each old shard pass on a message, as if a sender had paused between finding
%% its route and sending.
used_resize(N) ->
    Old = pids(),
    ok = whittle_flow_pool:resize(pool, N),
    [begin
         Pid ! {whittle_flow, {late, Pid}, {tell, self()}},
         receive {{late, Pid}, []} -> ok end
     end || Pid <- Old].

%%% cases

%% A relay that passed nothing on sends no fence.
idle_relays(_) ->
    {ok, _} = start(#{shards => 6}),
    ok = whittle_flow_pool:send(pool, a, 1),
    [ok = whittle_flow_pool:resize(pool, 6 + I rem 2) || I <- lists:seq(1, 5)],
    ?assertEqual(6, fences(fun() -> ok = whittle_flow_pool:send(pool, a, 2) end)),
    ?assertEqual([1, 2], told(a)).

%% Each relay sends one fence to each shard of the next generation.
relays_in_use(_) ->
    {ok, _} = start(#{shards => 3}),
    ok = whittle_flow_pool:send(pool, a, 1),
    Sizes = [4, 3, 4, 3, 4, 3],
    [used_resize(N) || N <- Sizes],
    Bound = 3 + lists:sum([A * B || {A, B} <- lists:zip([3 | lists:droplast(Sizes)], Sizes)]),
    Fences = fences(fun() -> ok = whittle_flow_pool:send(pool, a, 2) end),
    ?assert(Fences =< Bound, {Fences, Bound}),
    ?assertEqual([1, 2], told(a)),
    %% From then on the relays pass on to the newest generation, so the path of an older sender
    %% gets no longer.
    [used_resize(N) || N <- Sizes],
    ok = whittle_flow_pool:send(pool, a, 3),
    ?assertEqual([1, 2, 3], told(a)).

%% Senders that send fences while a shard is stopped wait for the same answer of the next
%% generation.
senders_share(_) ->
    {ok, _} = start(#{shards => 1}),
    Self = self(),
    Senders = [spawn_link(fun() ->
                                  ok = whittle_flow_pool:send(pool, {s, S}, 1),
                                  Self ! {sent, S},
                                  receive again -> ok end,
                                  ok = whittle_flow_pool:send(pool, {s, S}, 2),
                                  Self ! {sent, S}
                          end) || S <- lists:seq(1, 50)],
    [receive {sent, S} -> ok end || S <- lists:seq(1, 50)],
    used_resize(1),
    [New] = pids(),
    New ! {whittle_flow, held, {wait, self()}},
    receive {waiting, New} -> ok end,
    Fences = fences(fun() ->
                            [Sender ! again || Sender <- Senders],
                            [waits(Sender) || Sender <- Senders],
                            New ! go,
                            [receive {sent, S} -> ok end || S <- lists:seq(1, 50)]
                    end),
    %% There is one fence of each sender, one for the first sender, and one for the later senders.
    ?assert(Fences =< 52, Fences),
    [?assertEqual([1, 2], told({s, S})) || S <- lists:seq(1, 50)].

waits(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{status, waiting}, {current_function, {whittle_flow_fence, _, _}}] -> ok;
        _ -> erlang:yield(), waits(Pid)
    end.

%% The senders have sent to different generations, and all continue at once.
long_asleep(_) ->
    {ok, _} = start(#{shards => 5}),
    Self = self(),
    Asleep = [begin
                  Sender = spawn_link(fun() ->
                                              [ok = whittle_flow_pool:send(pool, {I, K}, 1)
                                               || K <- lists:seq(1, 20)],
                                              Self ! {asleep, I},
                                              receive awake -> ok end,
                                              [ok = whittle_flow_pool:send(pool, {I, K}, N)
                                               || N <- [2, 3], K <- lists:seq(1, 20)],
                                              Self ! {done, I}
                                      end),
                  receive {asleep, I} -> ok end,
                  used_resize(1 + I rem 7),
                  Sender
              end || I <- lists:seq(1, 30)],
    [Sender ! awake || Sender <- Asleep],
    [receive {done, I} -> ok end || I <- lists:seq(1, 30)],
    [?assertEqual([1, 2, 3], told({I, K})) || I <- lists:seq(1, 30), K <- lists:seq(1, 20)].

%% Senders send at their own pace while the test resizes the pool and stops shards. The test also
%% stops senders anywhere, or between finding a route and sending. All messages of each key arrive
%% in order.
any_resizes(_) ->
    ordered(3600000, fun(List, Sent) -> List =:= lists:seq(1, Sent) end).

%% A message that comes after the last relay has ended is lost, but no message is out of order.
any_resizes_and_ends(_) ->
    ordered(0, fun(List, Sent) ->
                       List =:= lists:usort(List) andalso lists:max([0 | List]) =< Sent
               end).

ordered(RetireAfter, Right) ->
    ?assertEqual(true, proper:quickcheck(
                         ?FORALL({Shards, Steps}, {range(1, 9), steps()},
                                 run(Shards, RetireAfter, Steps, Right)),
                         [{numtests, 100}, quiet, noshrink, long_result])).

-define(SENDERS, 4).
-define(KEYS, 5).

steps() ->
    list(frequency([{3, {send, range(1, ?SENDERS), range(1, 40)}},
                    {3, {resize, range(1, 9)}},
                    {2, {stopped, range(1, ?SENDERS), list(range(1, 9))}},
                    {3, {late, range(1, ?SENDERS), range(1, 9), list(range(1, 9))}},
                    {1, {hold, range(1, 100)}},
                    {1, release}])).

run(Shards, RetireAfter, Steps, Right) ->
    {ok, _} = start(#{shards => Shards, retire_after => RetireAfter}),
    Senders = maps:from_list([{S, spawn_link(fun() -> sender(S, 1) end)}
                              || S <- lists:seq(1, ?SENDERS)]),
    Held = lists:foldl(fun(Step, Held) -> step(Step, Senders, Held) end, 0, Steps),
    released(Held),
    Sent = maps:map(fun(_, Sender) ->
                            Sender ! {done, self()},
                            receive {done, Sender, N} -> N end
                    end, Senders),
    Wrong = [Key || S <- maps:keys(Sent), K <- lists:seq(1, ?KEYS), Key <- [{S, K}],
                    not Right(told(Key), maps:get(S, Sent))],
    stop(),
    Wrong =:= [].

step({send, S, Count}, Senders, Held) -> maps:get(S, Senders) ! {send, Count}, Held;
step({resize, N}, _, Held) -> ok = whittle_flow_pool:resize(pool, N), Held;
step({stopped, S, Sizes}, Senders, Held) ->
    true = erlang:suspend_process(maps:get(S, Senders)),
    [ok = whittle_flow_pool:resize(pool, N) || N <- Sizes],
    true = erlang:resume_process(maps:get(S, Senders)),
    Held;
step({late, S, First, More}, Senders, Held) ->
    Sender = maps:get(S, Senders),
    Sender ! {late, self()},
    %% This call may wait for the stopped shard.
    Held > 0 orelse receive {ready, Sender} -> ok end,
    [ok = whittle_flow_pool:resize(pool, N) || N <- [First | More]],
    Sender ! send,
    Held;
step({hold, Key}, _, Held) ->
    Self = self(),
    %% The process has not sent before, so it waits for no process.
    {Pid, Ref} = spawn_monitor(fun() ->
                                       ok = whittle_flow_pool:send(pool, Key, {wait, Self})
                               end),
    receive {'DOWN', Ref, process, Pid, normal} -> Held + 1 end;
step(release, _, 0) -> 0;
step(release, _, Held) -> released(1), Held - 1.

released(Held) ->
    [receive {waiting, Shard} -> Shard ! go end || _ <- lists:seq(1, Held)].

sender(S, N) ->
    receive
        {send, Count} ->
            [ok = whittle_flow_pool:send(pool, {S, K}, I)
             || I <- lists:seq(N, N + Count - 1), K <- lists:seq(1, ?KEYS)],
            sender(S, N + Count);
        {late, To} ->
            {Routes, N1} = found(S, N),
            To ! {ready, self()},
            receive send -> ok end,
            [element(erlang:phash2({S, K}, tuple_size(Routes)) + 1, Routes)
             ! {whittle_flow, {S, K}, N1} || K <- lists:seq(1, ?KEYS)],
            [ok = whittle_flow_pool:send(pool, {S, K}, I)
             || K <- lists:seq(1, ?KEYS), I <- [N1 + 1, N1 + 2]],
            sender(S, N1 + 3);
        {done, To} ->
            To ! {done, self(), N - 1}
    end.

%% Returns the possible shards of a message that is now between the search for its route and the
%% send: the shards to which this process has just sent.
found(S, N) ->
    Pids = pids(),
    [ok = whittle_flow_pool:send(pool, {S, K}, N) || K <- lists:seq(1, ?KEYS)],
    case pids() of
        Pids -> {list_to_tuple(Pids), N + 1};
        _ -> found(S, N + 1)
    end.

%% A callback that sends to its own pool cannot wait for itself.
sends_to_itself(_) ->
    {ok, _} = start(#{shards => 1}),
    ok = whittle_flow_pool:call(pool, a, {send_on, pool, b, 1}, infinity),
    ok = whittle_flow_pool:send(pool, held, {wait, self()}),
    Shard = receive {waiting, Pid} -> Pid end,
    ok = whittle_flow_pool:send(pool, a, {send_on, pool, b, 2}),
    ok = whittle_flow_pool:resize(pool, 2),
    Shard ! go,
    ?assertEqual([sent_on, sent_on], told(a)),
    ?assertEqual([1, 2], told(b)).

%% Two pools that send to each other cannot wait for each other either.
pools_in_a_circle(_) ->
    Pools = [{pool, other}, {other, pool}],
    [{ok, _} = start(Pool, #{shards => 1}) || {Pool, _} <- Pools],
    [ok = whittle_flow_pool:call(Pool, a, {send_on, Other, b, 1}, infinity)
     || {Pool, Other} <- Pools],
    Held = [begin
                ok = whittle_flow_pool:send(Pool, held, {wait, self()}),
                Shard = receive {waiting, Pid} -> Pid end,
                ok = whittle_flow_pool:send(Pool, a, {send_on, Other, b, 2}),
                Shard
            end || {Pool, Other} <- Pools],
    [ok = whittle_flow_pool:resize(Pool, 2) || {Pool, _} <- Pools],
    [Shard ! go || Shard <- Held],
    [?assertEqual([sent_on, sent_on], told(Pool, a)) || {Pool, _} <- Pools],
    [?assertEqual([1, 2], told(Pool, b)) || {Pool, _} <- Pools].
