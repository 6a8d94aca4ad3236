-module(whittle_flow_pool_SUITE).
-include_lib("stdlib/include/assert.hrl").
-behaviour(whittle_flow_shard).

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([keeps_keys_apart/1, many_at_once/1, resizes_in_order/1, resizes_twice/1, fences/1,
         retires/1, killed_in_resize/1, calls_are_once/1, kill/1, pool_killed/1, stops_all/1,
         overload/1, bad_input/1, crashes_are_logged_once/1, dying_pool/1,
         without_counters/1, not_started/1, no_split/1, trapping_shards_end/1,
         begins_slowly/1, call_over_resize/1, none_waits/1, supervised/1,
         other_kind/1]).
-export([init/1, handle/3, info/2, log/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [keeps_keys_apart, many_at_once, resizes_in_order, resizes_twice, fences, retires,
     killed_in_resize, calls_are_once, kill, pool_killed, stops_all, overload, bad_input,
     crashes_are_logged_once, dying_pool, without_counters, not_started, no_split,
     trapping_shards_end, begins_slowly, call_over_resize, none_waits, supervised,
     other_kind].

%% A call with the name of a process of another kind is an error, and does not end that process.
other_kind(_) ->
    {ok, Pool} = whittle_flow_pool:start_link(pool, ?MODULE, self(), #{}),
    {ok, Group} = whittle_flow_group:start_link(counted, #{}),
    [?assertEqual({error, {no_group, pool}}, Result)
     || Result <- [whittle_flow_group:join(pool, self()), whittle_flow_group:leave(pool, self()),
                   whittle_flow_group:members(pool), whittle_flow_group:sync(pool),
                   whittle_flow_group:connect(pool, node()),
                   whittle_flow_group:disconnect(pool, node())]],
    ?assertEqual({error, {no_pool, counted}}, whittle_flow_pool:resize(counted, 2)),
    [?assertEqual({error, unknown}, gen_server:call(Pid, other)) || Pid <- [Pool, Group]],
    ?assertEqual([Pool, Group], [whereis(pool), whereis(counted)]).

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(whittle_flow),
    _ = process_flag(trap_exit, true),
    Config.

end_per_testcase(_, _) ->
    [begin true = unlink(Pid), gen_server:stop(Pid) end
     || Name <- [pool, counted], Pid <- [whereis(Name)], is_pid(Pid)],
    application:stop(whittle_flow),
    application:stop(whittle_counters).

%%% the shard: a list of the messages for each key

init(trap) -> _ = process_flag(trap_exit, true), #{};
init(list) -> [];
init({wait, Test, State}) -> Test ! {beginning, self()}, receive go -> State end;
%% For the supervisor.
init({child, Child}) -> {ok, {#{}, [Child]}};
init(_) -> #{}.

handle(Key, N, State) when is_list(State) -> [{Key, N} | State];
handle(_, crash, _) -> error(asked_to);
handle(_, {wait, From}, State) -> From ! {waiting, self()}, receive go -> State end;
handle(Key, {tell, To}, State) -> To ! {Key, lists:reverse(maps:get(Key, State, []))}, State;
handle(Key, N, State) -> maps:update_with(Key, fun(L) -> [N | L] end, [N], State).

info({ping, From}, State) -> From ! pong, State.

%% The tests have no time limits of their own.
start(Options) ->
    {ok, _} = whittle_flow_pool:start_link(
                pool, ?MODULE, [], maps:merge(#{retire_after => 3600000, limit => 10000000,
                                                intensity => {100, 3600}}, Options)).

told(Key) ->
    sent(Key, {tell, self()}),
    receive {Key, List} -> List end.

%% Sends as soon as the shard has room.
sent(Key, Message) ->
    case whittle_flow_pool:send(pool, Key, Message) of
        ok -> ok;
        {error, {overloaded, pool}} -> erlang:yield(), sent(Key, Message)
    end.

%%% cases

keeps_keys_apart(_) ->
    start(#{shards => 4}),
    [ok = whittle_flow_pool:send(pool, Key, N) || N <- lists:seq(1, 100), Key <- [a, b, {c}, "d"]],
    [?assertEqual(lists:seq(1, 100), told(Key)) || Key <- [a, b, {c}, "d"]],
    {ok, [{Pid, _} | _] = Shards} = whittle_flow_pool:shards(pool),
    ?assertEqual(4, length(Shards)),
    Pid ! {ping, self()},
    receive pong -> ok end.

many_at_once(_) ->
    start(#{shards => 3}),
    ok = whittle_flow_pool:send_many(pool, [{K, N} || N <- lists:seq(1, 50),
                                                      K <- lists:seq(1, 20)]),
    [?assertEqual(lists:seq(1, 50), told(K)) || K <- lists:seq(1, 20)].

%% The senders continue while the test resizes the pool again and again.
resizes_in_order(_) ->
    start(#{shards => 2}),
    Keys = lists:seq(1, 20),
    Senders = [spawn_monitor(fun() -> [ok = whittle_flow_pool:send(pool, {S, K}, N)
                                       || N <- lists:seq(1, 2000), K <- Keys]
                             end) || S <- lists:seq(1, 8)],
    [ok = whittle_flow_pool:resize(pool, N) || N <- [3, 7, 1, 4, 2, 5, 8, 1, 3]],
    [receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual(normal, Reason) end
     || {Pid, Ref} <- Senders],
    %% This does not use assertEqual, which would print the lists.
    [?assert(lists:seq(1, 2000) =:= told({S, K})) || S <- lists:seq(1, 8), K <- Keys],
    ok = whittle_flow_pool:resize(pool, 2).

%% A sender that slept through two resizes sends fences along the path of its messages.
resizes_twice(_) ->
    start(#{shards => 1}),
    ok = whittle_flow_pool:send(pool, a, {wait, self()}),
    Shard = receive {waiting, Pid} -> Pid end,
    ok = whittle_flow_pool:send(pool, a, 1),
    ok = whittle_flow_pool:resize(pool, 3),
    ok = whittle_flow_pool:resize(pool, 2),
    Self = self(),
    Sender = spawn_link(fun() -> receive start -> Self ! {other, told(a)} end end),
    Sender ! start,
    Shard ! go,
    ok = whittle_flow_pool:send(pool, a, 2),
    ?assertEqual([1, 2], told(a)),
    receive {other, List} -> ?assert(lists:member(List, [[1], [1, 2]])) end.

%% A message that was sent after the resize waits for the messages from before it.
fences(_) ->
    start(#{shards => 1}),
    ok = whittle_flow_pool:send(pool, a, {wait, self()}),
    Shard = receive {waiting, Pid} -> Pid end,
    Test = self(),
    {Sender, Ref} = spawn_monitor(fun() ->
                                          ok = whittle_flow_pool:send(pool, a, 1),
                                          Test ! sent,
                                          receive resized -> ok end,
                                          ok = whittle_flow_pool:send(pool, a, 2)
                                  end),
    receive sent -> ok end,
    ok = whittle_flow_pool:resize(pool, 2),
    Sender ! resized,
    waits_or_is_done(Sender),
    Shard ! go,
    receive {'DOWN', Ref, process, Sender, normal} -> ok end,
    ?assertEqual([1, 2], told(a)).

waits_or_is_done(Pid) ->
    case process_info(Pid, [status, current_function]) of
        undefined -> ok;
        [{status, waiting}, {current_function, {whittle_flow_fence, _, _}}] -> ok;
        _ -> erlang:yield(), waits_or_is_done(Pid)
    end.

%% Old shards end after the messages that they passed on have arrived.
retires(_) ->
    start(#{shards => 1, retire_after => 0}),
    {ok, [{Old, _}]} = whittle_flow_pool:shards(pool),
    ok = whittle_flow_pool:send(pool, a, {wait, self()}),
    receive {waiting, Old} -> ok end,
    [ok = whittle_flow_pool:send(pool, a, N) || N <- lists:seq(1, 100)],
    ok = whittle_flow_pool:resize(pool, 2),
    to_retire(Old),
    [Old ! {whittle_flow, a, N} || N <- lists:seq(101, 200)],
    Old ! go,
    gone(Old),
    ?assertEqual(lists:seq(1, 200), told(a)).

to_retire(Pid) ->
    {messages, Messages} = process_info(Pid, messages),
    case lists:member(whittle_flow_retire, Messages) of
        true -> ok;
        false -> erlang:yield(), to_retire(Pid)
    end.

killed_in_resize(_) ->
    start(#{shards => 2}),
    {ok, [{A, _}, {B, _}]} = whittle_flow_pool:shards(pool),
    [KeyA, KeyB] = [hd([K || K <- lists:seq(1, 100), erlang:phash2(K, 2) =:= P]) || P <- [0, 1]],
    ok = whittle_flow_pool:send(pool, KeyA, {wait, self()}),
    receive {waiting, A} -> ok end,
    ok = whittle_flow_pool:send(pool, KeyB, 1),
    ok = whittle_flow_pool:resize(pool, 3),
    exit(A, kill),
    ?assertEqual([1], told(KeyB)),
    ?assertEqual([], told(KeyA)),
    ?assert(is_process_alive(B)),
    %% Each of the three has counted its missing state before it answers.
    [told(hd([K || K <- lists:seq(1, 100), erlang:phash2(K, 3) =:= P])) || P <- [0, 1, 2]],
    ?assertMatch({ok, 3}, whittle_counters:value(whittle_flow_states_lost_total, [pool])).

%% Each message whose call returned ok was handled once, whatever the test kills meanwhile.
calls_are_once(_) ->
    start(#{shards => 2}),
    Table = ets:new(handled, [public]),
    {ok, Pool} = whittle_flow_pool:start_link(counted, whittle_flow_counting_shard, Table,
                                              #{shards => 2, intensity => {100, 3600}}),
    Self = self(),
    Callers = [spawn_link(fun() ->
                       Self ! {answered, answered(C, 1, [])}
               end) || C <- lists:seq(1, 6)],
    [begin
         {ok, Shards} = whittle_flow_pool:shards(counted),
         {Victim, _} = lists:nth(1 + I rem 2, Shards),
         exit(Victim, kill),
         _ = sys:get_state(Pool),
         handled_more(Table, ets:info(Table, size) + 20)
     end || I <- lists:seq(1, 8)],
    [Caller ! stop || Caller <- Callers],
    Answered = lists:append([receive {answered, L} -> L end || _ <- Callers]),
    [?assertEqual([{Key, 1}], ets:lookup(Table, Key)) || Key <- Answered],
    ?assertMatch({error, {handler_failed, {error, asked_to}}},
                 whittle_flow_pool:call(pool, a, crash, infinity)).

%% Calls until it gets a message to stop. Reports the calls that returned ok.
answered(C, N, Answered) ->
    receive stop -> Answered
    after 0 ->
            case whittle_flow_pool:call(counted, {C, N}, x, infinity) of
                ok -> answered(C, N + 1, [{C, N} | Answered]);
                {error, _} -> answered(C, N + 1, Answered)
            end
    end.

handled_more(Table, Size) ->
    case ets:info(Table, size) >= Size of
        true -> ok;
        false -> erlang:yield(), handled_more(Table, Size)
    end.

kill(_) ->
    start(#{shards => 2}),
    ok = whittle_flow_pool:send(pool, a, 1),
    ?assertEqual([1], told(a)),
    {ok, Shards} = whittle_flow_pool:shards(pool),
    [begin exit(Pid, kill), replaced(Pid) end || {Pid, _} <- Shards],
    ok = whittle_flow_pool:send(pool, a, 2),
    ?assertEqual([2], told(a)),
    ?assertEqual({ok, 2}, whittle_counters:value(whittle_flow_states_lost_total, [pool])).

%% Waits until the pool has noticed the death and published the new routes.
replaced(Pid) ->
    {ok, Shards} = whittle_flow_pool:shards(pool),
    case lists:keymember(Pid, 1, Shards) of
        true -> erlang:yield(), replaced(Pid);
        false -> ok
    end.

%% A killed shard cannot pass its state on. The next shard starts with an empty state.
pool_killed(_) ->
    {ok, Pool} = start(#{shards => 2}),
    ok = whittle_flow_pool:send(pool, a, 1),
    ?assertEqual([1], told(a)),
    {ok, Shards} = whittle_flow_pool:shards(pool),
    exit(Pool, kill),
    receive {'EXIT', Pool, killed} -> ok end,
    [gone(Pid) || {Pid, _} <- Shards],
    ok = whittle_flow_pool:send(pool, a, lost),
    ?assertMatch({error, {unanswered, _}}, whittle_flow_pool:call(pool, a, 1, infinity)),
    ?assertMatch({error, {no_pool, pool}}, whittle_flow_pool:resize(pool, 3)),
    start(#{shards => 2}),
    ok = whittle_flow_pool:send(pool, a, 2),
    ?assertEqual([2], told(a)).

%% A stopped pool leaves no process behind, also no old shards.
stops_all(_) ->
    {ok, Pool} = start(#{shards => 2}),
    {ok, Old} = whittle_flow_pool:shards(pool),
    ok = whittle_flow_pool:resize(pool, 3),
    {ok, New} = whittle_flow_pool:shards(pool),
    ok = gen_server:stop(Pool),
    [gone(Pid) || {Pid, _} <- Old ++ New],
    ?assertMatch({error, {no_pool, pool}}, whittle_flow_pool:send(pool, a, 1)).

gone(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% The memory stays bounded while the shard is stopped. The shard then continues by itself.
overload(_) ->
    start(#{shards => 1, limit => 100}),
    ok = whittle_flow_pool:send(pool, a, {wait, self()}),
    Shard = receive {waiting, Pid} -> Pid end,
    Results = [whittle_flow_pool:send(pool, a, N) || N <- lists:seq(1, 1000)],
    ?assertEqual(99, length([ok || ok <- Results])),
    ?assertEqual({error, {overloaded, pool}}, lists:last(Results)),
    ?assertMatch({error, {overloaded, {pool, [{a, 1}]}}},
                 whittle_flow_pool:send_many(pool, [{a, 1}])),
    ?assertEqual({message_queue_len, 99}, process_info(Shard, message_queue_len)),
    Shard ! go,
    ?assertEqual({ok, 902}, whittle_counters:value(whittle_flow_shed_total, [pool, overloaded])),
    sent(a, more),
    ?assertEqual(lists:seq(1, 99) ++ [more], told(a)).

bad_input(_) ->
    start(#{shards => 2, key => fun({K, _}) -> K end}),
    ok = whittle_flow_pool:send(pool, {k, 1}),
    ?assertEqual([{k, 1}], told(k)),
    {error, {key_failed, {pool, {error, function_clause}}} = Reason} =
        whittle_flow_pool:send(pool, x),
    ?assert(is_list(unicode:characters_to_list(whittle_flow:format_error(Reason)))),
    %% The same holds for a list that does not contain pairs: the pool sends nothing of it.
    [?assertEqual({error, {key_failed, {pool, {error, {no_pair, Bad}}}}},
                  whittle_flow_pool:send_many(pool, Many))
     || {Bad, Many} <- [{foo, foo}, {bad, [{k, 2}, bad, {k, 3}]}, {{k, 3}, [{k, 2} | {k, 3}]},
                        {{k}, [{k}]}]],
    ?assertEqual([{k, 1}], told(k)),
    ?assertEqual({ok, 5}, whittle_counters:value(whittle_flow_refused_total, [pool, key_failed])),
    ok = whittle_flow_pool:send_many(pool, []),
    ok = whittle_flow_pool:send(pool, k, crash),
    ?assertEqual([{k, 1}], told(k)),
    ?assertEqual({ok, 1}, whittle_counters:value(whittle_flow_failed_total, [pool])),
    ?assertMatch({error, {no_pool, nix}}, whittle_flow_pool:send(nix, a, b)),
    ?assertMatch({error, {bad_option, {shards, 0}}},
                 whittle_flow_pool:start_link(p, ?MODULE, [], #{shards => 0})),
    ?assertMatch({error, {bad_option, {shard, 1}}},
                 whittle_flow_pool:start_link(p, ?MODULE, [], #{shard => 1})),
    ?assertMatch({error, {bad_option, {intensity, 1}}},
                 whittle_flow_pool:start_link(p, ?MODULE, [], #{intensity => 1})),
    %% A call that raises sends nothing.
    [?assertError(function_clause, whittle_flow_pool:call(pool, k, 2, Timeout))
     || Timeout <- [-1, nan, 1 bsl 32]],
    ?assertEqual([{k, 1}], told(k)),
    %% Times and numbers that are too large for the VM, and unknown names.
    [?assertEqual({error, {bad_option, Bad}},
                  whittle_flow_pool:start_link(p, ?MODULE, [], maps:from_list([Bad])))
     || Bad <- [{retire_after, 1 bsl 32}, {shards, 1 bsl 40}, {intensity, {1, 0}}]],
    [?assertEqual({error, {bad_option, {name, Name}}},
                  whittle_flow_pool:start_link(Name, ?MODULE, [], #{}))
     || Name <- ["p", undefined]],
    ?assertEqual({error, {bad_option, {shards, 1 bsl 40}}},
                 whittle_flow_pool:resize(pool, 1 bsl 40)),
    ?assertMatch({error, {bad_option, _}}, whittle_flow_pool:resize(pool, 0)),
    ?assertMatch({error, {no_pool, nix}}, whittle_flow_pool:resize(nix, 2)).

%% The test crashes many shards many times.
crashes_are_logged_once(_) ->
    start(#{shards => 4}),
    #{level := Level} = logger:get_primary_config(),
    {ok, #{level := Shown}} = logger:get_handler_config(default),
    ok = logger:set_handler_config(default, level, none),
    ok = logger:set_primary_config(level, error),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    [{error, _} = whittle_flow_pool:call(pool, K, crash, infinity) || K <- lists:seq(1, 50)],
    ok = logger:remove_handler(?MODULE),
    ok = logger:set_primary_config(level, Level),
    ok = logger:set_handler_config(default, level, Shown),
    ?assertEqual(1, logged(0)),
    ?assertEqual({ok, 50}, whittle_counters:value(whittle_flow_failed_total, [pool])).

log(#{msg := {Format, _}}, #{config := Test}) ->
    string:prefix(Format, "whittle_flow") =/= nomatch andalso (Test ! logged);
log(_, _) -> ok.

logged(N) ->
    receive logged -> logged(N + 1) after 0 -> N end.

%% A pool does not end with whittle_counters. When that runs again, the pool counts again: by name
%% at once, and in older shards as soon as they notice it.
without_counters(_) ->
    start(#{shards => 1}),
    ok = application:stop(whittle_counters),
    ok = whittle_flow_pool:call(pool, a, 1, infinity),
    kill_only_shard(),
    ok = whittle_flow_pool:call(pool, a, 2, infinity),
    ?assertEqual([2], told(a)),
    ok = application:start(whittle_counters),
    {error, _} = whittle_flow_pool:call(pool, a, crash, infinity),
    ?assertEqual({ok, 1}, whittle_counters:value(whittle_flow_failed_total, [pool])),
    {ok, Shards} = whittle_flow_pool:shards(pool),
    counted_again(),
    ?assertEqual({ok, Shards}, whittle_flow_pool:shards(pool)).

counted_again() ->
    ok = whittle_flow_pool:call(pool, a, 3, infinity),
    case whittle_counters:value(whittle_flow_shard_messages_total, [pool]) of
        {ok, N} when N > 0 -> ok;
        _ -> erlang:yield(), counted_again()
    end.

kill_only_shard() ->
    {ok, [{Pid, _}]} = whittle_flow_pool:shards(pool),
    exit(Pid, kill),
    replaced(Pid).

not_started(_) ->
    ok = application:stop(whittle_flow),
    [?assertEqual({error, {not_started, whittle_flow}}, Answer)
     || Answer <- [whittle_flow_pool:start_link(pool, ?MODULE, [], #{}),
                   whittle_flow_group:start_link(group, #{}),
                   whittle_flow_batcher:start_link(?MODULE, [], #{})]].

%% A pool whose shards keep dying ends, so that its supervisor decides.
dying_pool(_) ->
    {ok, Pool} = start(#{shards => 1, intensity => {3, 3600}}),
    kill_on(Pool),
    receive {'EXIT', Pool, Reason} -> ?assertMatch({shards_keep_dying, killed}, Reason) end,
    ?assertMatch({error, {no_pool, pool}}, whittle_flow_pool:send(pool, a, 1)).

kill_on(Pool) ->
    case whittle_flow_pool:shards(pool) of
        {ok, [{Pid, _}]} ->
            exit(Pid, kill),
            gone(Pid),
            _ = try sys:get_state(Pool) catch exit:_ -> gone end,
            kill_on(Pool);
        {error, _} -> ok
    end.

%% A resize does not change a state that it cannot divide.
no_split(_) ->
    {ok, _} = whittle_flow_pool:start_link(pool, ?MODULE, list, #{shards => 2}),
    [ok = whittle_flow_pool:call(pool, K, 1, infinity) || K <- lists:seq(1, 10)],
    {ok, Shards} = whittle_flow_pool:shards(pool),
    ?assertEqual({error, {no_split, ?MODULE}}, whittle_flow_pool:resize(pool, 3)),
    ?assertEqual({ok, Shards}, whittle_flow_pool:shards(pool)),
    ?assertMatch({error, {unknown_series, _}},
                 whittle_counters:value(whittle_flow_states_lost_total, [pool])),
    [?assertEqual({error, {bad_option, {module, Module}}},
                  whittle_flow_pool:start_link(p, Module, #{}, #{}))
     || Module <- [nomod, lists, "m"]].

%% Shards that trap exits end with the pool, and so do their relays.
trapping_shards_end(_) ->
    {ok, Pool} = whittle_flow_pool:start_link(pool, ?MODULE, trap, #{shards => 2}),
    {ok, Old} = whittle_flow_pool:shards(pool),
    ok = whittle_flow_pool:resize(pool, 3),
    {ok, New} = whittle_flow_pool:shards(pool),
    [ok = whittle_flow_pool:call(pool, K, 1, infinity) || K <- lists:seq(1, 10)],
    ok = gen_server:stop(Pool),
    [gone(Pid) || {Pid, _} <- Old ++ New].

%% A resize waits until all shards have begun. Only then the pool knows whether their states are
%% divisible, and how many states it loses.
begins_slowly(_) ->
    {ok, _} = whittle_flow_pool:start_link(pool, ?MODULE, {wait, self(), []}, #{shards => 2}),
    Begun = [receive {beginning, Pid} -> Pid end || _ <- [1, 2]],
    {ok, Shards} = whittle_flow_pool:shards(pool),
    Asked = [gen_server:send_request(pool, {resize, N}) || N <- [3, 1]],
    [Pid ! go || Pid <- Begun],
    [?assertEqual({reply, {error, {no_split, ?MODULE}}},
                  gen_server:receive_response(Request, infinity)) || Request <- Asked],
    ?assertEqual({ok, Shards}, whittle_flow_pool:shards(pool)),
    ok = gen_server:stop(pool),
    %% A shard that dies before it has begun does not block the resize. Two such shards do not
    %% either.
    {ok, _} = whittle_flow_pool:start_link(pool, ?MODULE, {wait, self(), #{}}, #{shards => 1}),
    First = receive {beginning, P1} -> P1 end,
    Again = [gen_server:send_request(pool, {resize, N}) || N <- [3, 1]],
    exit(First, kill),
    [receive {beginning, P} -> P ! go end || _ <- lists:seq(1, 5)],
    [?assertEqual({reply, ok}, gen_server:receive_response(Request, infinity)) || Request <- Again],
    {ok, Left} = whittle_flow_pool:shards(pool),
    ?assertEqual(1, length(Left)).

%% The timeout of a call includes the wait for messages from before the resize.
call_over_resize(_) ->
    start(#{shards => 1}),
    ok = whittle_flow_pool:send(pool, key, {wait, self()}),
    Held = receive {waiting, Pid} -> Pid end,
    ok = whittle_flow_pool:resize(pool, 2),
    %% The process behaves as if it had found the route before.
    Held ! {whittle_flow, key, 0},
    ?assertEqual({error, {unanswered, {pool, timeout}}},
                 whittle_flow_pool:call(pool, key, 1, 10)),
    %% After any number of tries, one message and one fence wait there.
    [{error, {unanswered, {pool, timeout}}} = whittle_flow_pool:call(pool, key, 1, 0)
     || _ <- lists:seq(1, 100)],
    ?assertEqual({message_queue_len, 3}, process_info(Held, message_queue_len)),
    Test = self(),
    _ = spawn(fun() -> calling(Test), Held ! go end),
    %% The process waits again, and the late answer does not disturb it.
    ok = whittle_flow_pool:call(pool, key, 2, infinity),
    ?assertEqual([0, 2], told(key)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

calling(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{status, waiting}, {current_function, {M, _, _}}]
          when M =:= whittle_flow_fence; M =:= whittle_flow_routes; M =:= whittle_flow_pool -> ok;
        _ -> erlang:yield(), calling(Pid)
    end.

%% The count of waiting messages is zero after the pool has handled all of them, on every path.
none_waits(_) ->
    start(#{shards => 3, limit => 100}),
    Pairs = [{K, K} || K <- lists:seq(1, 200)],
    ok = whittle_flow_pool:send_many(pool, Pairs),
    %% There are more messages than room: the pool refuses all of them, and restores the count.
    {error, {overloaded, {pool, Refused}}} =
        whittle_flow_pool:send_many(pool, [{one, N} || N <- lists:seq(1, 101)]),
    ?assertEqual(101, length(Refused)),
    ok = whittle_flow_pool:resize(pool, 5),
    ok = whittle_flow_pool:send_many(pool, Pairs),
    [ok = whittle_flow_pool:send(pool, K, K) || K <- lists:seq(1, 50)],
    ok = whittle_flow_pool:resize(pool, 2),
    [ok = whittle_flow_pool:call(pool, K, last, infinity) || K <- lists:seq(1, 20)],
    [?assertEqual([K, K, K, last], told(K)) || K <- lists:seq(1, 20)],
    [ok = whittle_flow_pool:send(pool, K, K) || K <- lists:seq(1, 20)],
    %% A shard subtracts a handled message from the count before it takes the next one.
    {ok, Shards} = whittle_flow_pool:shards(pool),
    [begin Pid ! {ping, self()}, receive pong -> ok end end || {Pid, _} <- Shards],
    ?assertMatch({ok, [{_, 0}, {_, 0}]}, whittle_flow_pool:shards(pool)).

%% The pool runs under a user's supervisor, with child_spec/4.
supervised(_) ->
    Child = whittle_flow_pool:child_spec(pool, ?MODULE, [], #{shards => 2}),
    {ok, Supervisor} = supervisor:start_link(?MODULE, {child, Child}),
    Killed = whereis(pool),
    Ref = monitor(process, Killed),
    exit(Killed, kill),
    receive {'DOWN', Ref, process, _, _} -> ok end,
    handled_again(1),
    true = unlink(Supervisor),
    Gone = monitor(process, Supervisor),
    exit(Supervisor, shutdown),
    receive {'DOWN', Gone, process, _, _} -> ok end,
    ?assertEqual({error, {no_pool, pool}}, whittle_flow_pool:send(pool, key, 1)).

handled_again(N) ->
    case whittle_flow_pool:call(pool, key, N, infinity) of
        ok -> ok;
        {error, _} -> erlang:yield(), handled_again(N)
    end.
