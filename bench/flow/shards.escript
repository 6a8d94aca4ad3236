#!/usr/bin/env escript
%% Compares state in shards with one ETS table that all processes update, over schedulers.
%%
%% Model: the programs count EVENTS events {Key, 1} of 1000 keys by key. `ETS': 48 processes, each
%% with its part of the events, update one table (update_counter with write_concurrency). `shards,
%% own events': the same 48 processes each hold a map of their keys. The events are divided by key
%% beforehand, as with connections that stay with their shard. `dictionary' is the same with the
%% counts in the process dictionary. `shards, routed': 48 processes route their events to a
%% whittle_flow_pool in lists of 100 with send_many. All take turns in each of ROUNDS rounds, for
%% each number of schedulers online.
%%
%% run: bench/run [OTP-ROOT] flow/shards.escript [ROUNDS]
-mode(compile).
-export([init/1, handle/3]).

-define(EVENTS, 960000).
-define(WORKERS, 48).
-define(KEYS, 1000).

main(Args) ->
    Rounds = case Args of [N] -> list_to_integer(N); [] -> 11 end,
    {ok, _} = application:ensure_all_started(whittle_flow),
    io:format("OTP ~s, ~p, ~p events, ~p rounds~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor), ?EVENTS, Rounds]),
    Each = ?EVENTS div ?WORKERS,
    Mixed = [[(W * 7919 + I * 104729) rem ?KEYS || I <- lists:seq(1, Each)]
             || W <- lists:seq(1, ?WORKERS)],
    Own = [[W + ?WORKERS * (I rem (?KEYS div ?WORKERS)) || I <- lists:seq(1, Each)]
           || W <- lists:seq(0, ?WORKERS - 1)],
    [compare(S, Mixed, Own, Rounds) || S <- lists:seq(1, erlang:system_info(schedulers))].

compare(Schedulers, Mixed, Own, Rounds) ->
    _ = erlang:system_flag(schedulers_online, Schedulers),
    Kinds = [{"ETS", fun() -> ets(Mixed) end},
             {"shards, own events", fun() -> own(Own) end},
             {"the same, dictionary", fun() -> dictionary(Own) end},
             {"shards, routed", fun() -> routed(Mixed, Schedulers) end}],
    Times = [[Run() || {_, Run} <- Kinds] || _ <- lists:seq(1, Rounds)],
    io:format("~p scheduler(s) online: M events/s | times as fast as ETS~n", [Schedulers]),
    [begin
         Rates = [1000 * ?EVENTS / lists:nth(I, R) || R <- Times],
         Speedups = [hd(R) / lists:nth(I, R) || R <- Times],
         io:format("  ~-20s ~-24s ~s~n", [Name, spread(Rates), spread(Speedups)])
     end || {I, {Name, _}} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)].

%% Each worker has its events on its heap before the clock starts.
time(Parts, Work) ->
    Self = self(),
    Pids = [spawn_link(fun() -> receive {go, Events} -> Self ! ready, receive go -> ok end,
                                                        Work(Events), Self ! done end end)
            || _ <- Parts],
    [P ! {go, Events} || {P, Events} <- lists:zip(Pids, Parts)],
    [receive ready -> ok end || _ <- Pids],
    Start = erlang:monotonic_time(nanosecond),
    [P ! go || P <- Pids],
    [receive done -> ok end || _ <- Pids],
    erlang:monotonic_time(nanosecond) - Start.

ets(Parts) ->
    Table = ets:new(bench, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{K, 0} || K <- lists:seq(0, ?KEYS - 1)]),
    Time = time(Parts, fun(Events) -> update(Table, Events) end),
    ?EVENTS = lists:sum([N || {_, N} <- ets:tab2list(Table)]),
    true = ets:delete(Table),
    Time.

update(_, []) -> ok;
update(Table, [Key | Events]) -> ets:update_counter(Table, Key, 1), update(Table, Events).

own(Parts) -> time(Parts, fun(Events) -> true = map_size(count(Events, #{})) > 0 end).

count([], Map) -> Map;
count([Key | Events], Map) ->
    case Map of
        #{Key := N} -> count(Events, Map#{Key := N + 1});
        _ -> count(Events, Map#{Key => 1})
    end.

dictionary(Parts) -> time(Parts, fun tally/1).

tally([]) -> ok;
tally([Key | Events]) ->
    _ = case get(Key) of
            undefined -> put(Key, 1);
            N -> put(Key, N + 1)
        end,
    tally(Events).

routed(Parts, Schedulers) ->
    {ok, Pool} = whittle_flow_pool:start_link(bench_pool, ?MODULE, [],
                                              #{shards => Schedulers, limit => 10000000}),
    Time = time(Parts, fun(Events) -> route(Events, [], 0) end),
    Start = erlang:monotonic_time(nanosecond),
    handled(),
    Rest = erlang:monotonic_time(nanosecond) - Start,
    true = unlink(Pool),
    ok = gen_server:stop(Pool),
    Time + Rest.

route([], Gathered, _) -> whittle_flow_pool:send_many(bench_pool, Gathered);
route(Events, Gathered, 100) ->
    ok = whittle_flow_pool:send_many(bench_pool, Gathered),
    route(Events, [], 0);
route([Key | Events], Gathered, N) -> route(Events, [{Key, 1} | Gathered], N + 1).

%% Waits until nothing waits for a shard.
handled() ->
    {ok, Shards} = whittle_flow_pool:shards(bench_pool),
    case lists:sum([N || {_, N} <- Shards]) of
        0 -> ok;
        _ -> erlang:yield(), handled()
    end.

init(_) -> #{}.

handle(Key, 1, Map) ->
    case Map of
        #{Key := N} -> Map#{Key := N + 1};
        _ -> Map#{Key => 1}
    end.

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).
spread(L) -> io_lib:format("~.1f (~.1f to ~.1f)", [median(L), lists:min(L), lists:max(L)]).
