#!/usr/bin/env escript
%% Measures the time of an update, from 1, 2 and 48 processes at a time.
%%
%% Model: each process makes the same number of updates of one series. The time runs from the start
%% signal until the last process is done, divided by the updates of one process. All kinds take
%% turns in each of ROUNDS rounds, so that other work on the machine affects all of them. The ratio
%% to counters:add is that of each round. On 2 to 8 schedulers, counters and series with a handle
%% are striped. `plain' has `stripe => never'. Printed: median (smallest to largest). `bare maps' is
%% the shortest lookup by name, written out: a persistent term, a map of as many names, one of
%% methods, one of codes, and counters:add.
%%
%% The script times the peers that it finds, and tells for each other peer what to do. Debian's
%% package erlang-folsom has folsom. bench/counters/peers fetches seshat and prometheus.erl.
%% mzmetrics is a NIF that Debian does not have. Build it, and name its directory in ERL_LIBS.
%%
%% run: bench/run [OTP-ROOT] counters/updates.escript [ROUNDS]
-mode(compile).

main(Args) ->
    Rounds = case Args of [N] -> list_to_integer(N); [] -> 15 end,
    {ok, _} = application:ensure_all_started(whittle_counters),
    io:format("OTP ~s, ~p, ~p schedulers, ~p rounds~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), Rounds]),
    Kinds = kinds(),
    [table(Processes, Updates div Processes, Kinds, Rounds)
     || {Processes, Updates} <- [{1, 200000}, {2, 400000}, {48, 1000000}]].

%% Lists the kinds of a peer, if the bench can use it. A package is compiled for one OTP.
peer(Name, HowToGet, Prepare) ->
    try
        {ok, _} = application:ensure_all_started(Name),
        Prepare()
    catch _:Reason ->
            io:format("~s is left out (~0P): ~s~n", [Name, Reason, 6, HowToGet]),
            []
    end.

peers() ->
    peer(folsom, "install the Debian package erlang-folsom",
         fun() ->
                 ok = folsom_metrics:new_counter(bench),
                 [{"folsom, counter", fun(N) -> folsom(N) end}]
         end)
        ++ peer(seshat, "run bench/counters/peers on Debian's OTP",
                fun() ->
                        _ = seshat:new_group(bench),
                        Ref = seshat:new(bench, object, [{count, 1, counter, "Count"}]),
                        [{"seshat, counter", fun(N) -> add(Ref, N) end},
                         {"seshat, fetched by name", fun(N) -> seshat(N) end}]
                end)
        ++ peer(prometheus, "run bench/counters/peers on Debian's OTP",
                fun() ->
                        prometheus_counter:declare([{name, peer_plain}, {help, ""}]),
                        prometheus_counter:declare([{name, peer_labelled}, {help, ""},
                                                    {labels, [method, code]}]),
                        prometheus_histogram:declare([{name, peer_histogram}, {help, ""},
                                                      {buckets, [100, 1000, 10000, 100000]}]),
                        [{"prometheus.erl, counter", fun(N) -> prometheus(N) end},
                         {"prometheus.erl, two labels", fun(N) -> prometheus(get, 200, N) end},
                         {"prometheus.erl, histogram", fun(N) -> prometheus(1000, N) end}]
                end)
        ++ peer(mzmetrics, "build it from its source and name its directory in ERL_LIBS",
                fun() ->
                        {module, _} = code:ensure_loaded(mzmetrics),
                        Ref = mzmetrics:alloc_resource(0, "bench", 8),
                        [{"mzmetrics, counter", fun(N) -> mzmetrics(Ref, N) end}]
                end).

kinds() ->
    Name = bench_requests_total,
    Plain = bench_plain_total,
    ok = whittle_counters:new(Name, counter, #{labels => [method, code]}),
    ok = whittle_counters:new(Plain, counter, #{labels => [method, code], stripe => never}),
    [ok = whittle_counters:inc(N, [M, C])
     || N <- [Name, Plain], M <- [get, put, post, delete], C <- lists:seq(200, 239)],
    %% Defines as many metrics as a small system has.
    [begin
         Metric = list_to_atom("bench_metric_" ++ integer_to_list(I)),
         ok = whittle_counters:new(Metric, counter),
         ok = whittle_counters:inc(Metric)
     end || I <- lists:seq(1, 40)],
    ok = whittle_counters:new(bench_seconds, timer, #{labels => [what]}),
    ok = whittle_counters:observe(bench_seconds, [read], 123456),
    ok = whittle_counters:new(bench_plain_seconds, timer, #{labels => [what], stripe => never}),
    {ok, PlainTimer} = whittle_counters:handle(bench_plain_seconds, [read]),
    {ok, Handle} = whittle_counters:handle(Name, [post, 200]),
    {ok, Timer} = whittle_counters:handle(bench_seconds, [read]),
    ok = whittle_counters_registry:publish(),
    Counters = counters:new(8, [write_concurrency]),
    Atomics = counters:new(8, [atomics]),
    ok = persistent_term:put(bench_tree, bare_tree(Name, Counters)),
    Table = ets:new(bench, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{plain, 0} | [{{Name, [M, C]}, 0} || M <- [get, put, post, delete],
                                                                  C <- lists:seq(200, 239)]]),
    [{"counters:add, striped", fun(N) -> add(Counters, N) end},
     {"counters:add, atomics", fun(N) -> add(Atomics, N) end},
     {"inc, handle", fun(N) -> handle(Handle, N) end},
     {"inc, name and two labels", fun(N) -> name(Name, get, 200, N) end},
     {"bare maps", fun(N) -> bare(Name, get, 200, N) end},
     {"inc, name, plain", fun(N) -> name(Plain, get, 200, N) end},
     {"observe, handle", fun(N) -> observe(Timer, 1000, N) end},
     {"observe, handle, plain", fun(N) -> observe(PlainTimer, 1000, N) end},
     {"observe, name and label", fun(N) -> observe_name(read, 1000, N) end},
     {"ets:update_counter, plain key", fun(N) -> ets_plain(Table, N) end},
     {"ets:update_counter, labelled key", fun(N) -> ets_labelled(Table, Name, get, 200, N) end}
     | peers()].

bare_tree(Name, Counters) ->
    Codes = maps:from_list([{C, {Counters, 1}} || C <- lists:seq(200, 239)]),
    Metrics = maps:from_list([{M, #{}} || #{name := M} <- whittle_counters_table:metrics()]),
    Metrics#{Name => maps:from_list([{M, Codes} || M <- [get, put, post, delete]])}.

add(_, 0) -> ok;
add(C, N) -> counters:add(C, 1, 1), add(C, N - 1).
handle(_, 0) -> ok;
handle(H, N) -> whittle_counters:inc(H), handle(H, N - 1).
name(_, _, _, 0) -> ok;
name(Name, A, B, N) -> whittle_counters:inc(Name, [A, B]), name(Name, A, B, N - 1).
bare(_, _, _, 0) -> ok;
bare(Name, A, B, N) ->
    #{Name := #{A := #{B := {Ref, Ix}}}} = persistent_term:get(bench_tree),
    ok = counters:add(Ref, Ix, 1),
    bare(Name, A, B, N - 1).
observe(_, _, 0) -> ok;
observe(H, V, N) -> whittle_counters:observe(H, V), observe(H, V + 977, N - 1).
observe_name(_, _, 0) -> ok;
observe_name(L, V, N) ->
    whittle_counters:observe(bench_seconds, [L], V),
    observe_name(L, V + 977, N - 1).
ets_plain(_, 0) -> ok;
ets_plain(T, N) -> ets:update_counter(T, plain, 1), ets_plain(T, N - 1).
ets_labelled(_, _, _, _, 0) -> ok;
ets_labelled(T, Name, A, B, N) ->
    ets:update_counter(T, {Name, [A, B]}, 1),
    ets_labelled(T, Name, A, B, N - 1).
folsom(0) -> ok;
folsom(N) -> folsom_metrics:notify({bench, {inc, 1}}), folsom(N - 1).
seshat(0) -> ok;
seshat(N) -> counters:add(seshat:fetch(bench, object), 1, 1), seshat(N - 1).
prometheus(0) -> ok;
prometheus(N) -> prometheus_counter:inc(peer_plain), prometheus(N - 1).
prometheus(_, _, 0) -> ok;
prometheus(M, C, N) -> prometheus_counter:inc(peer_labelled, [M, C]), prometheus(M, C, N - 1).
prometheus(_, 0) -> ok;
prometheus(V, N) -> prometheus_histogram:observe(peer_histogram, V), prometheus(V + 977, N - 1).
mzmetrics(_, 0) -> ok;
mzmetrics(Ref, N) -> mzmetrics:update_resource_counter(Ref, 0, 1), mzmetrics(Ref, N - 1).

table(Processes, Each, Kinds, Rounds) ->
    _ = [time(Processes, Each div 10, Fun) || {_, Fun} <- Kinds],
    Times = [[time(Processes, Each, Fun) || {_, Fun} <- Kinds] || _ <- lists:seq(1, Rounds)],
    io:format("~n~p process(es), ~p updates each: "
              "ns an update | ratio to counters:add | M updates/s~n",
              [Processes, Each]),
    [begin
         Ns = [lists:nth(I, Round) || Round <- Times],
         Ratios = [lists:nth(I, Round) / hd(Round) || Round <- Times],
         io:format("  ~-34s ~-26s ~-20s ~.1f~n",
                   [Kind, spread(Ns), spread2(Ratios), Processes * 1000 / median(Ns)])
     end || {I, {Kind, _}} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)].

time(Processes, Each, Fun) ->
    Self = self(),
    Pids = [spawn_link(fun() -> receive go -> Fun(Each), Self ! done end end)
            || _ <- lists:seq(1, Processes)],
    Start = erlang:monotonic_time(nanosecond),
    [Pid ! go || Pid <- Pids],
    [receive done -> ok end || _ <- Pids],
    (erlang:monotonic_time(nanosecond) - Start) / Each.

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).
spread(L) -> io_lib:format("~.1f (~.1f to ~.1f)", [median(L), lists:min(L), lists:max(L)]).
spread2(L) -> io_lib:format("~.2f (~.2f to ~.2f)", [median(L), lists:min(L), lists:max(L)]).
