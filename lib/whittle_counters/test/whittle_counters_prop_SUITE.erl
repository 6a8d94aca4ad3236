%% Properties: many processes against a model, and the bucket scale against
%% floating point.
-module(whittle_counters_prop_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([nothing_is_lost/1, pushed_once/1, killed_registry/1, resets_share_out/1, no_stranger/1,
         index_is_right/1, histograms_are_exact/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [nothing_is_lost, pushed_once, killed_registry, resets_share_out, no_stranger, index_is_right,
     histograms_are_exact].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Nobody looks for stale series but the cases themselves.
    ok = application:set_env(whittle_counters, sweep_every, 3600000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

-define(W, whittle_counters).
%% A failure shows the counterexample as the value.
-define(CHECK(Property, N),
        ?assertEqual(true, proper:quickcheck(Property, [{numtests, N}, quiet, noshrink,
                                                        long_result]))).

%% Whatever is reset, expired, promoted and looked at meanwhile, what the resets
%% gave and what is there in the end is what was added.
nothing_is_lost(_) ->
    ?CHECK(?FORALL({Workers, Disturbances},
                   {resize(8, non_empty(list(work()))), resize(30, list(disturbance()))},
                   undisturbed(Workers, Disturbances)), 60).

work() -> {oneof([name, map, handle, wide]), series(), range(1, 300), range(0, 100000)}.
series() -> range(1, 5).
disturbance() -> oneof([{reset, series()}, {sweep, range(0, 50)}, {resolve, series()}, scrape]).

undisturbed(Workers, Disturbances) ->
    ok = ?W:new(c, counter, #{labels => [id], expire_after => 5}),
    Pids = [spawn_monitor(fun() -> work(W) end) || W <- Workers],
    %% One second for all of it: however long this takes, what has expired is not
    %% forgotten before the end.
    Now = erlang:monotonic_time(second),
    Reset = lists:sum([disturb(D, Now) || D <- Disturbances]),
    [receive {'DOWN', Ref, process, Pid, Reason} -> normal = Reason end || {Pid, Ref} <- Pids],
    %% What expired while it was added to comes back with the next look.
    ok = whittle_counters_registry:sweep(Now),
    Left = lists:sum([V || I <- lists:seq(1, 5), {ok, V} <- [?W:value(c, [I])]]),
    Parked = lists:sum([V || {ok, V} <- [parked(I) || I <- lists:seq(1, 5)]]),
    Added = lists:sum([Times * Step || {_, _, Times, Step} <- Workers]),
    ok = ?W:delete(c),
    Added =:= Reset + Left + Parked.

work({name, I, Times, Step}) -> repeat(Times, fun() -> ok = ?W:inc(c, [I], Step) end);
work({map, I, Times, Step}) -> repeat(Times, fun() -> ok = ?W:inc(c, #{id => I}, Step) end);
work({wide, I, Times, Step}) ->
    repeat(Times, fun() -> ok = ?W:inc(c, [integer_to_binary(I)], Step) end);
work({handle, I, Times, Step}) ->
    {ok, H} = ?W:handle(c, [I]),
    repeat(Times, fun() -> ok = ?W:inc(H, Step) end).

repeat(0, _) -> ok;
repeat(N, Fun) -> Fun(), repeat(N - 1, Fun).

disturb({reset, I}, _) ->
    case ?W:reset(c, [I]) of {ok, V} -> V; {error, {unknown_series, _}} -> 0 end;
disturb({sweep, Seconds}, Now) ->
    ok = whittle_counters_registry:sweep(Now + Seconds),
    0;
disturb({resolve, I}, _) -> {ok, _} = ?W:handle(c, [I]), 0;
disturb(scrape, _) -> _ = whittle_counters_text:render(prometheus), 0.

%% A series that is out of sight keeps its value for when it comes back.
parked(I) ->
    case ?W:value(c, [I]) of
        {ok, _} -> none;
        {error, _} -> _ = ?W:inc(c, [I], 0), ?W:value(c, [I])
    end.

%% Whatever is done to the series between StatsD's pushes, these come to what was
%% added.
pushed_once(_) ->
    ?CHECK(?FORALL({Workers, Disturbances},
                   {resize(8, non_empty(list(work()))), resize(30, list(disturbance()))},
                   begin
                       ok = ?W:new(c, counter, #{labels => [id], expire_after => 5}),
                       Pids = [spawn_monitor(fun() -> work(W) end) || W <- Workers],
                       Now = erlang:monotonic_time(second),
                       {Told, Seen} = lists:foldl(fun(D, Acc) -> disturb(D, Now), pushed(Acc) end,
                                                  {0, #{}}, Disturbances),
                       [receive {'DOWN', Ref, process, Pid, Reason} -> normal = Reason end
                        || {Pid, Ref} <- Pids],
                       {All, _} = pushed({Told, Seen}),
                       ok = ?W:delete(c),
                       All =:= lists:sum([Times * Step || {_, _, Times, Step} <- Workers])
                   end), 60).

pushed({Told, Seen}) ->
    {Packets, Seen1} = whittle_counters_statsd:packets(dogstatsd, Seen),
    {Told + lists:sum([binary_to_integer(N)
                       || Packet <- Packets, Line <- binary:split(Packet, <<"\n">>, [global]),
                          <<"c:", Rest/binary>> <- [Line],
                          [N, _] <- [binary:split(Rest, <<"|">>)]]),
     Seen1}.

%% What was answered with ok is there, whenever the registry was killed.
killed_registry(_) ->
    [begin
         ok = application:stop(whittle_counters),
         ok = application:start(whittle_counters),
         ok = ?W:new(c, counter, #{labels => [id]}),
         Self = self(),
         Workers = [spawn_link(fun() -> Self ! {added, added(W, 1, 0)} end)
                    || W <- lists:seq(1, 4)],
         %% As many as the supervisor lets pass.
         [kill_registry(Kill) || Kill <- lists:seq(1, 5)],
         [Worker ! stop || Worker <- Workers],
         Added = lists:sum([receive {added, N} -> N end || _ <- Workers]),
         started(),
         Values = [V || {_, V} <- maps:to_list(maps:get(<<"c">>, ?W:snapshot()))],
         ?assertEqual(Added, lists:sum(Values)),
         {ok, _, Count} = whittle_counters_table:metric(c),
         ?assertEqual(length(Values), Count)
     end || _ <- lists:seq(1, 5)].

%% Adds to many series, until it is told to stop; tells how often that was done.
added(W, I, Sum) ->
    receive stop -> Sum
    after 0 ->
            case ?W:inc(c, [W * 1000 + I rem 200]) of
                ok -> added(W, I + 1, Sum + 1);
                {error, _} -> added(W, I + 1, Sum)
            end
    end.

%% Somewhere among the first series that are made after its start.
kill_registry(Series) ->
    Pid = started(),
    until_size(Series * 20),
    exit(Pid, kill),
    gone(Pid).

until_size(N) ->
    case ets:info(whittle_counters_series, size) < N of
        true -> erlang:yield(), until_size(N);
        false -> ok
    end.

gone(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

started() ->
    case whereis(whittle_counters_registry) of
        undefined -> erlang:yield(), started();
        Pid -> Pid
    end.

%% A reset between any two additions: each addition is in one reset's answer or in
%% the last one, and in none twice.
resets_share_out(_) ->
    ok = ?W:new(c, counter),
    ok = ?W:new(h, histogram),
    {ok, C} = ?W:handle(c),
    {ok, H} = ?W:handle(h),
    Times = 300000,
    {Pid, Ref} = spawn_monitor(fun() ->
                                       repeat(Times, fun() ->
                                                             ok = ?W:inc(C, 1),
                                                             ok = ?W:observe(H, 7)
                                                     end)
                               end),
    {Cs, Hs} = reset_until({'DOWN', Ref, process, Pid, normal}, 0, 0),
    ?assertEqual({Times, Times}, {Cs, Hs}).

reset_until(End, Cs, Hs) ->
    Ended = receive End -> true after 0 -> false end,
    {ok, C} = ?W:reset(c),
    {ok, #{count := H}} = ?W:reset(h),
    case Ended of
        true -> {Cs + C, Hs + H};
        false -> reset_until(End, Cs + C, Hs + H)
    end.

%% Series come and go; each is only ever added to in steps of its own number, so
%% its value stays a multiple of that.
no_stranger(_) ->
    ?CHECK(?FORALL(Deletions, resize(60, non_empty(list(range(0, 9)))),
                   begin
                       Primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
                       ok = ?W:new(c, counter, #{labels => [id]}),
                       Pids = [spawn_monitor(
                                 fun() ->
                                         {ok, H} = ?W:handle(c, [P]),
                                         repeat(200, fun() ->
                                                             ok = ?W:inc(c, [P], P),
                                                             ok = ?W:inc(H, P)
                                                     end)
                                 end) || P <- Primes],
                       _ = [?W:delete(c, [lists:nth(D + 1, Primes)]) || D <- Deletions],
                       [receive {'DOWN', Ref, process, Pid, Reason} -> normal = Reason end
                        || {Pid, Ref} <- Pids],
                       Values = [{P, V} || P <- Primes, {ok, V} <- [?W:value(c, [P])]],
                       ok = ?W:delete(c),
                       lists:all(fun({P, V}) -> V rem P =:= 0 andalso V =< 400 * P end, Values)
                   end), 50).

index_is_right(_) ->
    ?CHECK(?FORALL({Schema, V}, {range(0, 5), value()},
                   begin
                       I = whittle_counters_scale:index(Schema, V),
                       Slack = 1 + 1.0e-12,
                       V =< whittle_counters_scale:upper(Schema, I) * Slack
                           andalso (I =:= 0 orelse
                                    V * Slack > whittle_counters_scale:upper(Schema, I - 1))
                   end), 20000).

%% Sizes of all magnitudes, and the powers of two with their neighbours.
value() ->
    oneof([?LET({E, R}, {range(0, 58), range(0, 1 bsl 58)}, (1 bsl E) + R rem (1 bsl E)),
           ?LET({E, D}, {range(1, 58), range(-1, 1)}, max(1, (1 bsl E) + D)),
           range(1, 1000)]).

histograms_are_exact(_) ->
    ?CHECK(?FORALL(Values, resize(200, list(oneof([0, value()]))),
                   begin
                       ok = ?W:new(h, histogram),
                       {Mine, Others} = lists:split(length(Values) div 2, Values),
                       {Pid, Ref} = spawn_monitor(
                                      fun() -> [ok = ?W:observe(h, V) || V <- Others] end),
                       {ok, H} = ?W:handle(h),
                       [ok = ?W:observe(H, V) || V <- Mine],
                       receive {'DOWN', Ref, process, Pid, normal} -> ok end,
                       {ok, #{count := Count, sum := Sum, zeros := Zeros,
                              buckets := Buckets}} = ?W:value(h),
                       ok = ?W:delete(h),
                       Expected = lists:foldl(
                                    fun(V, Acc) ->
                                            I = whittle_counters_scale:index(3, V),
                                            maps:update_with(I, fun(N) -> N + 1 end, 1, Acc)
                                    end, #{}, [V || V <- Values, V > 0]),
                       %% The sum is kept in 64 bits.
                       <<Wrapped:64/signed>> = <<(lists:sum(Values)):64>>,
                       {Count, Sum, Zeros, maps:from_list(Buckets)}
                           =:= {length(Values), Wrapped, length([0 || 0 <- Values]), Expected}
                   end), 200).
