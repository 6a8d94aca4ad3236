-module(whittle_counters_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([counts/1, spellings/1, gauges/1, histograms/1, handles/1, resets/1, deletes/1,
         bad_input/1, definitions/1, cap/1, expiry/1, late_update/1, promotion/1,
         registry_crash/1, half_done/1, not_started/1]).
-export([publishing/1, light/1, readings/1, named_divert/1, stopping/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [counts, spellings, gauges, histograms, handles, resets, deletes, bad_input, definitions,
     cap, expiry, late_update, promotion, publishing, registry_crash, half_done, not_started,
     light, readings, named_divert, stopping].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Nobody looks for stale series but the cases themselves.
    ok = application:set_env(whittle_counters, sweep_every, 3600000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    Config.

end_per_testcase(_, _) ->
    application:stop(whittle_counters).

-define(W, whittle_counters).

counts(_) ->
    ok = ?W:new(jobs_total, counter),
    ok = ?W:new(requests_total, counter, #{labels => [method, code]}),
    ok = ?W:inc(jobs_total),
    ok = ?W:inc(requests_total, [get, 200]),
    ok = ?W:inc(requests_total, [get, 200], 41),
    published(),
    ok = ?W:inc(requests_total, [get, 200], 8),
    ?assertEqual({ok, 1}, ?W:value(jobs_total)),
    ?assertEqual({ok, 50}, ?W:value(requests_total, [get, 200])).

spellings(_) ->
    ok = ?W:new(requests_total, counter, #{labels => [method, code]}),
    Spellings = [[get, 200], ["get", 200], [<<"get">>, "200"], #{code => 200, method => get}],
    [ok = ?W:inc(requests_total, L) || L <- Spellings],
    published(),
    [ok = ?W:inc(requests_total, L) || L <- Spellings],
    ?assertEqual(#{[<<"get">>, <<"200">>] => 8}, series(<<"requests">>)).

gauges(_) ->
    ok = ?W:new(queue, gauge),
    ok = ?W:new(celsius, gauge, #{value => float, labels => [room]}),
    ok = ?W:new(read, gauge, #{read => fun() -> 7 end}),
    ok = ?W:new(broken, gauge, #{read => fun() -> error(oops) end}),
    ok = ?W:set(queue, 5),
    ok = ?W:add(queue, -7),
    ok = ?W:set(celsius, [hall], 20),
    ok = ?W:add(celsius, [hall], 1.5),
    ?assertEqual({ok, -2}, ?W:value(queue)),
    ?assertEqual({ok, 21.5}, ?W:value(celsius, [hall])),
    ?assertEqual(#{[] => 7}, series(<<"read">>)),
    ?assertEqual(#{}, series(<<"broken">>)),
    ?assertMatch(#{[<<"broken">>, <<"reading_failed">>] := _},
                 series(<<"whittle_counters_rejected">>)).

histograms(_) ->
    ok = ?W:new(size_bytes, histogram, #{unit => "bytes"}),
    [ok = ?W:observe(size_bytes, V) || V <- [0, 1, 2, 1000, 1 bsl 40]],
    published(),
    ok = ?W:observe(size_bytes, 3),
    {ok, #{count := 6, sum := Sum, zeros := 1, buckets := Buckets}} = ?W:value(size_bytes),
    ?assertEqual(1 + 2 + 1000 + (1 bsl 40) + 3, Sum),
    ?assertEqual([0, 8, 13, 80, 320], [I || {I, 1} <- Buckets]),
    ?assertMatch({ok, V} when abs(V / 1000 - 1) < 0.05, ?W:quantile(size_bytes, [], 0.8)),
    ?assertEqual({ok, 0}, ?W:quantile(size_bytes, [], 0)),
    ?assertMatch({error, {bad_quantile, 2}}, ?W:quantile(size_bytes, [], 2)),
    ?assertMatch({error, {unknown_metric, _}}, ?W:quantile(sizes, [], 0.5)),
    ok = ?W:new(took_seconds, timer),
    ok = ?W:observe_since(took_seconds, erlang:monotonic_time()),
    {ok, #{count := 1}} = ?W:value(took_seconds).

handles(_) ->
    ok = ?W:new(requests_total, counter, #{labels => [method]}),
    ok = ?W:inc(requests_total, [get]),
    {ok, H} = ?W:handle(requests_total, [get]),
    ok = ?W:inc(H),
    ok = ?W:inc(H, 3),
    ?assertEqual({ok, 5}, ?W:value(requests_total, [get])),
    ok = ?W:new(size, histogram, #{range => {1, 1000}}),
    {ok, S} = ?W:handle(size),
    ok = ?W:observe(S, 10),
    ok = ?W:observe(S, 1 bsl 50),
    ?assertMatch({ok, #{count := 2}}, ?W:value(size)),
    #{metrics := #{size := #{bytes := Bytes}}} = ?W:info(),
    %% Four segments, for each of a few schedulers, and two words.
    Schedulers = erlang:system_info(schedulers),
    Copies = if Schedulers > 1, Schedulers =< 8 -> Schedulers + 1; true -> 1 end,
    ?assert(Bytes < 1200 * Copies + 24 * (Schedulers + 1)).

resets(_) ->
    ok = ?W:new(n, counter),
    ok = ?W:new(h, histogram),
    {ok, N} = ?W:handle(n),
    ok = ?W:inc(N, 5),
    ?assertEqual({ok, 5}, ?W:reset(n)),
    ok = ?W:inc(N, 2),
    ?assertEqual({ok, 2}, ?W:value(n)),
    [ok = ?W:observe(h, V) || V <- [0, 5, 5]],
    {ok, #{count := 3, sum := 10}} = ?W:reset(h),
    ok = ?W:observe(h, 7),
    ?assertMatch({ok, #{count := 1, sum := 7, zeros := 0, buckets := [{_, 1}]}}, ?W:value(h)).

deletes(_) ->
    ok = ?W:new(requests_total, counter, #{labels => [method]}),
    ok = ?W:inc(requests_total, [get]),
    published(),
    {ok, Old} = ?W:handle(requests_total, [get]),
    ok = ?W:delete(requests_total, [get]),
    ok = ?W:inc(Old),
    ?assertMatch({error, {unknown_series, _}}, ?W:value(requests_total, [get])),
    ok = ?W:inc(requests_total, [get]),
    ?assertEqual({ok, 1}, ?W:value(requests_total, [get])),
    ok = ?W:delete(requests_total),
    ?assertMatch({error, {unknown_metric, _}}, ?W:inc(requests_total, [get])),
    ok = ?W:new(requests_total, counter, #{labels => [other]}),
    ok = ?W:inc(requests_total, [get], 3).

bad_input(_) ->
    ok = ?W:new(c, counter, #{labels => [a]}),
    ok = ?W:new(g, gauge),
    ok = ?W:new(f, gauge, #{value => float}),
    ok = ?W:new(h, histogram),
    {ok, C} = ?W:handle(c, [x]),
    Tag = fun({error, {T, _} = Reason}) ->
                  ?assert(is_list(unicode:characters_to_list(?W:format_error(Reason)))),
                  T;
             (Other) -> Other
          end,
    ?assertEqual(unknown_metric, Tag(?W:inc(nothing))),
    ?assertEqual(bad_labels, Tag(?W:inc(c, []))),
    ?assertEqual(bad_labels, Tag(?W:inc(c, [x, y]))),
    ?assertEqual(bad_labels, Tag(?W:inc(c, [x | y]))),
    ?assertEqual(bad_labels, Tag(?W:inc(c, #{b => x}))),
    ?assertEqual(bad_label_value, Tag(?W:inc(c, [{x}]))),
    ?assertEqual(bad_label_value, Tag(?W:inc(c, [1.5]))),
    ?assertEqual(bad_label_value, Tag(?W:inc(c, [<<255>>]))),
    ?assertEqual(bad_label_value, Tag(?W:inc(c, [self()]))),
    ?assertEqual(bad_step, Tag(?W:inc(c, [x], -1))),
    ?assertEqual(bad_step, Tag(?W:inc(c, [x], 1.0))),
    ?assertEqual(bad_step, Tag(?W:inc(C, -1))),
    ?assertEqual(bad_step, Tag(?W:inc(C, 1 bsl 64))),
    ?assertEqual(bad_step, Tag(?W:inc(c, [x], 1 bsl 64))),
    ?assertEqual(wrong_type, Tag(?W:set(c, [x], 1))),
    ?assertEqual(wrong_type, Tag(?W:observe(c, [x], 1))),
    ?assertEqual(wrong_type, Tag(?W:inc(g))),
    ?assertEqual(bad_value, Tag(?W:set(g, 1.5))),
    ?assertEqual(bad_value, Tag(?W:set(g, nan))),
    ?assertEqual(bad_value, Tag(?W:set(g, 1 bsl 80))),
    ?assertEqual(bad_value, Tag(?W:add(g, 1 bsl 80))),
    ?assertEqual(bad_value, Tag(?W:set(f, 1 bsl 2000))),
    ok = ?W:set(f, 1.7e308),
    ?assertEqual(bad_value, Tag(?W:add(f, 1.7e308))),
    {ok, H} = ?W:handle(h),
    [?assertEqual({error, {bad_handle, Unfit}}, Answer)
     || {Unfit, Answer} <- [{{histogram, counter}, ?W:inc(H)}, {{histogram, counter}, ?W:inc(H, 1)},
                            {{histogram, gauge}, ?W:add(H, 1)}, {{histogram, gauge}, ?W:set(H, 1)},
                            {{element(1, C), histogram}, ?W:observe(C, 1)},
                            {{"x", counter}, ?W:inc("x")}]],
    ?assertEqual(bad_handle, Tag(?W:set(C, 1))),
    ?assertEqual(out_of_range, Tag(?W:observe(h, -1))),
    ?assertEqual(out_of_range, Tag(?W:observe(h, 1 bsl 59))),
    ?assertEqual(out_of_range, Tag(?W:observe(h, 1.5))),
    ?assertEqual(out_of_range, Tag(?W:observe(h, nan))),
    [?assertEqual(out_of_range, Tag(?W:observe_since(h, Start))) || Start <- [nan, 1.0]],
    ?assertEqual(out_of_range, Tag(?W:observe_since(h, [], undefined))),
    ?assertMatch(#{[<<"c">>, <<"bad_labels">>] := 4, [<<"undefined">>, <<"unknown_metric">>] := 1},
                 series(<<"whittle_counters_rejected">>)),
    ?assertEqual({ok, 0}, ?W:value(c, [x])).

definitions(_) ->
    Options = #{labels => [a], help => "x"},
    ok = ?W:new(c_total, counter, Options),
    ok = ?W:new(c_total, counter, Options),
    ok = ?W:new(g, gauge),
    Bad = [{already_defined, c_total, counter, Options#{labels => [b]}},
           {already_defined, g, counter, #{}},
           {name_taken, c, counter, #{}},
           {bad_name, 'with-dash', counter, #{}},
           {bad_name, "text", counter, #{}},
           {bad_name, x_count, gauge, #{}},
           {bad_unit, x, gauge, #{unit => "seconds"}},
           {bad_type, x, summary, #{}},
           {bad_label_name, x, histogram, #{labels => [le]}},
           {bad_label_name, x, gauge, #{labels => ['__x']}},
           {bad_label_name, x, gauge, #{labels => [a, a]}},
           {bad_option, x, gauge, #{lables => [a]}},
           {bad_option, x, histogram, #{error => 0.001}},
           {bad_option, x, gauge, #{labels => [a | b]}},
           {bad_option, x, histogram, #{resolution => 1 bsl 2000}},
           {bad_option, x, gauge, #{windows => [60 | 300]}},
           {bad_option, x, gauge, [{labels, [a]}]}],
    [?assertMatch({Tag, {error, {Tag, _}}}, {Tag, ?W:new(Name, Type, O)})
     || {Tag, Name, Type, O} <- Bad],
    ok = ?W:new(h, histogram),
    ?assertMatch({error, {already_defined, _}}, ?W:new(h, histogram, #{error => 0.2})),
    ok = ?W:new(x_seconds_total, counter, #{unit => "seconds"}).

cap(_) ->
    ok = ?W:new(c, counter, #{labels => [id], max_series => 3}),
    [ok = ?W:inc(c, [I]) || I <- lists:seq(1, 10), _ <- [1, 2]],
    ?assertEqual(#{[<<"1">>] => 2, [<<"2">>] => 2, [<<"3">>] => 2, [<<"_overflow">>] => 14},
                 series(<<"c">>)),
    ?assertEqual(#{[<<"c">>] => 14}, series(<<"whittle_counters_overflow_updates">>)),
    ?assertMatch({error, {series_full, c}}, ?W:handle(c, [99])),
    ok = ?W:delete(c, [1]),
    ok = ?W:inc(c, [77]),
    ?assertEqual({ok, 1}, ?W:value(c, [77])).

expiry(_) ->
    ok = ?W:new(c, counter, #{labels => [id], expire_after => 5}),
    ok = ?W:inc(c, [a]),
    {ok, _} = ?W:handle(c, [b]),
    sweep_after(0),
    ?assertEqual(#{[<<"a">>] => 1, [<<"b">>] => 0}, series(<<"c">>)),
    sweep_after(10),
    ?assertEqual(#{[<<"b">>] => 0}, series(<<"c">>)),
    ?assertMatch({error, {unknown_series, _}}, ?W:value(c, [a])),
    ok = ?W:inc(c, [a]),
    ?assertEqual({ok, 2}, ?W:value(c, [a])),
    %% A second time, and past the time that it is watched.
    [sweep_after(S) || S <- [0, 20, 90]],
    ok = ?W:inc(c, [a]),
    ?assertEqual({ok, 1}, ?W:value(c, [a])).

%% Somebody looked the cell up before the expiry and adds after it.
late_update(_) ->
    ok = ?W:new(c, counter, #{labels => [id], expire_after => 5}),
    ok = ?W:inc(c, [a]),
    published(),
    #{c := #{a := Cell}} = persistent_term:get(whittle_counters),
    sweep_after(0),
    sweep_after(10),
    ?assertEqual(#{}, series(<<"c">>)),
    ?assertEqual(#{}, persistent_term:get(whittle_counters)),
    ok = ?W:inc(Cell),
    sweep_after(10),
    ?assertEqual({ok, 2}, ?W:value(c, [a])).

promotion(_) ->
    ok = ?W:new(c, counter, #{labels => [id]}),
    ok = ?W:inc(c, [a], 1 bsl 50),
    published(),
    #{c := #{a := Cold}} = persistent_term:get(whittle_counters),
    sweep_after(10),
    #{c := #{a := Hot}} = persistent_term:get(whittle_counters),
    ?assertEqual(erlang:system_info(schedulers) > 1, Cold =/= Hot),
    ok = ?W:inc(Cold),
    ok = ?W:inc(Hot),
    ok = ?W:inc(c, [a]),
    ?assertEqual({ok, (1 bsl 50) + 3}, ?W:value(c, [a])).

%% By itself, a while after the first use; eight spellings of a label set at most.
publishing(_) ->
    ok = ?W:new(c, counter, #{labels => [a, b]}),
    Spellings = [[A, B] || A <- [x, "x", <<"x">>, ["x"], [<<"x">>]], B <- [y, "y"]],
    [ok = ?W:inc(c, L) || L <- Spellings, _ <- [1, 2]],
    in_tree(8),
    ?assertEqual(8, length(paths())),
    ?assertEqual({ok, 20}, ?W:value(c, [x, y])),
    ok = ?W:delete(c, [x, y]),
    ?assertEqual(#{}, persistent_term:get(whittle_counters)).

paths() ->
    [[A, B] || {A, Branch} <- maps:to_list(maps:get(c, persistent_term:get(whittle_counters), #{})),
               {B, _} <- maps:to_list(Branch)].

in_tree(N) ->
    case length(paths()) of
        Less when Less < N -> erlang:yield(), in_tree(N);
        _ -> ok
    end.

registry_crash(_) ->
    ok = ?W:new(c, counter, #{labels => [id]}),
    {ok, H} = ?W:handle(c, [a]),
    ok = ?W:inc(c, [b]),
    published(),
    kill_registry(),
    ok = ?W:inc(H),
    ok = ?W:inc(c, [b]),
    started_again(),
    published(),
    ?assertMatch(#{c := #{b := _}}, persistent_term:get(whittle_counters)),
    ok = ?W:inc(c, [new]),
    ?assertEqual(#{[<<"a">>] => 1, [<<"b">>] => 2, [<<"new">>] => 1}, series(<<"c">>)).

%% The registry was killed between two steps of what it did.
half_done(_) ->
    ok = ?W:new(gone, counter, #{labels => [id]}),
    ok = ?W:new(there, counter, #{labels => [id], max_series => 2}),
    [ok = ?W:inc(C, [a]) || C <- [gone, there]],
    published(),
    true = ets:delete(whittle_counters_metrics, gone),
    2 = ets:update_counter(whittle_counters_metrics, there, {3, 1}),
    kill_registry(),
    started_again(),
    sweep_after(1),
    ok = ?W:new(gone, counter, #{labels => [id]}),
    ?assertEqual(#{}, series(<<"gone">>)),
    ok = ?W:inc(gone, [a]),
    ?assertEqual({ok, 1}, ?W:value(gone, [a])),
    ok = ?W:inc(there, [b]),
    ?assertEqual(#{[<<"a">>] => 1, [<<"b">>] => 1}, series(<<"there">>)).

kill_registry() ->
    Registry = whereis(whittle_counters_registry),
    Monitor = monitor(process, Registry),
    exit(Registry, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end.

started_again() ->
    case whereis(whittle_counters_registry) of
        undefined -> erlang:yield(), started_again();
        _ -> ok
    end.

not_started(_) ->
    ok = application:stop(whittle_counters),
    ?assertMatch({error, {not_started, _}}, ?W:inc(c)),
    ?assertMatch({error, {not_started, _}}, ?W:new(c, counter)),
    ?assertMatch({error, {not_started, _}}, ?W:value(c)),
    ?assertMatch({error, {not_started, _}}, whittle_counters_vm:install()),
    Snapshot = ?W:snapshot(),
    ?assertEqual([], [Series || Series <- maps:values(Snapshot), Series =/= #{}]).

%% Whatever a fun gives or does, the scrape has the rest, and each family is one
%% that a parser takes.
readings(_) ->
    ok = application:set_env(whittle_counters, read_timeout, 50),
    Bad = [{bad_reading, [], fun() -> nan end},
           {bad_reading, [], fun() -> 1 bsl 5000 end},
           {bad_reading, [k], fun() -> [{[a], 1} | b] end},
           {bad_reading, [k], fun() -> [a] end},
           {bad_label_value, [k], fun() -> [{[1.5], 1}] end},
           {reading_failed, [], fun() -> error(oops) end},
           {reading_failed, [], fun() -> exit(self(), kill), 1 end},
           {reading_failed, [], fun() -> receive never -> 1 end end}],
    [begin
         ok = ?W:new(read, gauge, #{labels => Labels, read => Fun}),
         ?assertEqual({Tag, #{}}, {Tag, series(<<"read">>)}),
         ?assertMatch(#{[<<"read">>, Tag] := _}, series(<<"whittle_counters_rejected">>)),
         ok = ?W:delete(read)
     end || {Name, Labels, Fun} <- Bad, Tag <- [atom_to_binary(Name)]],
    ok = ?W:new(down, counter, #{read => fun() -> -1 end}),
    ?assertEqual(#{}, series(<<"down">>)),
    ok = ?W:new(twice, gauge, #{labels => [k], read => fun() -> [{[a], 1}, {["a"], 2}] end}),
    ?assertEqual(#{[<<"a">>] => 1}, series(<<"twice">>)),
    ?assertMatch(#{[<<"twice">>, <<"read_twice">>] := _},
                 series(<<"whittle_counters_rejected">>)),
    ok = application:set_env(whittle_counters, read_timeout, 2000).

%% When it stops the tables go before the tree does: what is called in between
%% does not raise.
stopping(_) ->
    ok = ?W:new(c, counter, #{labels => [k]}),
    ok = ?W:new(h, histogram),
    ok = ?W:inc(c, [a]),
    ok = ?W:observe(h, 1),
    published(),
    Tree = persistent_term:get(?W),
    ok = application:stop(whittle_counters),
    ok = persistent_term:put(?W, Tree),
    ok = ?W:inc(c, [a]),
    ok = ?W:observe(h, 1 bsl 50),
    ok = whittle_counters_table:divert(c),
    ok = whittle_counters_exemplar:put(h, [], 1, #{id => 1}),
    ?assertEqual([], whittle_counters_exemplar:text(h, [], 0, 1)),
    ?assertEqual(none, whittle_counters_table:series({c, [<<"a">>]})),
    ?assertEqual(none, whittle_counters_table:fold_series(fun(_, _, _, _) -> some end, none, c)),
    ?assertMatch(#{tables := 0}, ?W:info()),
    true = persistent_term:erase(?W).

%% A metric may have any name, also one that is a word of ours.
named_divert(_) ->
    ok = ?W:new(divert, counter, #{labels => [k], max_series => 1}),
    [ok = ?W:inc(divert, [K]) || K <- [a, b]],
    {error, _} = ?W:inc(divert, [a], -1),
    ?assertEqual(#{[<<"divert">>] => 1}, series(<<"whittle_counters_overflow_updates">>)),
    ?assertMatch(#{[<<"divert">>, <<"bad_step">>] := 1},
                 series(<<"whittle_counters_rejected">>)).

%% Nothing that counts or scrapes calls what would load unicode_util's tables.
light(_) ->
    {ok, Modules} = application:get_key(whittle_counters, modules),
    ?assert(length(Modules) > 15),
    ?assertEqual([], [{M, Called} || M <- Modules,
                                     {ok, {_, [{imports, Calls}]}} <-
                                         [beam_lib:chunks(code:which(M), [imports])],
                                     {Called, _, _} <- Calls,
                                     lists:member(Called, [string, unicode_util])]).

%%% what the tests wait for

sweep_after(Seconds) ->
    ok = whittle_counters_registry:sweep(erlang:monotonic_time(second) + Seconds).

series(Family) -> maps:get(Family, whittle_counters_scrape:snapshot()).

%% Everything that this process has asked for is in the tree.
published() -> ok = whittle_counters_registry:publish().
