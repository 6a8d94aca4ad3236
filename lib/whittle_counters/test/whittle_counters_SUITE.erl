-module(whittle_counters_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([counts/1, spellings/1, gauges/1, histograms/1, handles/1, resets/1, deletes/1,
         defined_again/1, bad_input/1, definitions/1, cap/1, expiry/1, late_update/1, promotion/1,
         registry_crash/1, half_done/1, not_started/1]).
-export([publishing/1, light/1, readings/1, named_divert/1, stopping/1]).
-export([labels_alone/1, options_by_type/1, refused_makes_nothing/1, refusals_by_metric/1,
         logged_by_metric/1, read_again/1, read_only/1, readings_at_once/1, gauge_resets/1,
         helpers_crash/1, registry_between/1, environment/1, errors_say/1]).
-export([log/2, promoted/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [counts, spellings, gauges, histograms, handles, resets, deletes, defined_again,
     bad_input, definitions,
     cap, expiry, late_update, promotion, publishing, registry_crash, half_done, not_started,
     light, readings, named_divert, stopping, options_by_type, refused_makes_nothing,
     refusals_by_metric, logged_by_metric, read_again, read_only, readings_at_once, gauge_resets,
     helpers_crash, registry_between, environment, errors_say, labels_alone].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Only the test cases search for stale series.
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
    %% There are four segments for each of a few schedulers, and two words.
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

%% An observation through a handle of a deleted histogram has no effect, even if another series has
%% its name now.
defined_again(_) ->
    Define = fun(Type, Options) -> ?W:new(m, Type, Options#{labels => [x]}) end,
    [begin
         ok = Define(histogram, #{range => {1, 10}}),
         {ok, Old} = ?W:handle(m, [1]),
         ok = ?W:delete(m),
         ok = Define(Type, Options),
         ok = Update(m, [1], 5),
         Registry = whereis(whittle_counters_registry),
         [?assertEqual(ok, ?W:observe(Old, V)) || V <- [3, 1000000, 1000001, 1 bsl 40]],
         ?assertMatch({{ok, Value}, _} when Value =:= 5; map_get(sum, Value) =:= 5,
                      {?W:value(m, [1]), {Type, Options}}),
         ?assertEqual(Registry, whereis(whittle_counters_registry)),
         ok = ?W:delete(m)
     end || {Type, Options, Update} <- [{histogram, #{range => {1, 10}}, fun ?W:observe/3},
                                        {histogram, #{error => 0.3}, fun ?W:observe/3},
                                        {counter, #{}, fun ?W:inc/3},
                                        {gauge, #{}, fun ?W:set/3}]].

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
           {bad_option, x_celsius, gauge, #{unit => celsius}},
           {bad_option, x, histogram, #{error => 0.001}},
           {bad_option, x, gauge, #{labels => [a | b]}},
           {bad_option, x, histogram, #{resolution => 1 bsl 2000}},
           {bad_option, x, gauge, #{windows => [60 | 300]}},
           {bad_option, x, gauge, [{labels, [a]}]}],
    [?assertMatch({Tag, {error, {Tag, _}}}, {Tag, ?W:new(Name, Type, O)})
     || {Tag, Name, Type, O} <- Bad],
    ok = ?W:new(h, histogram),
    ?assertEqual({error, {already_defined, {h, [{error, 0.05, 0.2}]}}},
                 ?W:new(h, histogram, #{error => 0.2})),
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
    %% The series expires a second time, and the library stops watching it.
    [sweep_after(S) || S <- [0, 20, 90]],
    ok = ?W:inc(c, [a]),
    ?assertEqual({ok, 1}, ?W:value(c, [a])).

%% A process looks the cell up before the expiry and adds to it afterwards.
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

%% With few schedulers all counters are striped. With more schedulers only hot counters are.
promotion(_) ->
    Shapes = fun(Schedulers) ->
                     {ok, Peer, _} = peer:start(#{connection => standard_io,
                                                  args => ["+S", Schedulers, "-pa"
                                                           | code:get_path()]}),
                     Answer = peer:call(Peer, ?MODULE, promoted, []),
                     ok = peer:stop(Peer),
                     Answer
             end,
    ?assertEqual([{"1:1", counter, counter}, {"2:1", striped, striped},
                  {"8:1", striped, striped}, {"9:1", counter, striped}],
                 [{S, Cold, Hot} || S <- ["1:1", "2:1", "8:1", "9:1"],
                                    {Cold, Hot} <- [Shapes(S)]]).

%% Returns the shapes of a counter's cell before and after the sweep finds it hot.
promoted() ->
    _ = init_per_testcase(promoted, []),
    ok = ?W:new(c, counter, #{labels => [id]}),
    ok = ?W:inc(c, [a], 1 bsl 50),
    published(),
    #{c := #{a := Cold}} = persistent_term:get(whittle_counters),
    sweep_after(10),
    #{c := #{a := Hot}} = persistent_term:get(whittle_counters),
    ok = ?W:inc(Cold),
    ok = ?W:inc(Hot),
    ok = ?W:inc(c, [a]),
    ?assertEqual({ok, (1 bsl 50) + 3}, ?W:value(c, [a])),
    {element(1, Cold), element(1, Hot)}.

%% The registry publishes paths by itself, some time after the first use. It publishes at most
%% eight spellings of a label set.
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

%% Something kills the registry between two steps of a change.
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

%% A fun may return or do anything: the scrape contains all other series, and parsers accept each
%% family.
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

%% When the application stops, the tables end before the tree. Calls in between raise nothing.
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
    ok = whittle_counters_exemplar:put(h, [], 1, <<"id=\"1\"">>),
    ?assertEqual([], whittle_counters_exemplar:text(h, [], 0, 1)),
    ?assertEqual(none, whittle_counters_table:series({c, [<<"a">>]})),
    ?assertEqual(none, whittle_counters_table:fold_series(fun(_, _, _, _) -> some end, none, c)),
    ?assertMatch(#{tables := 0}, ?W:info()),
    true = persistent_term:erase(?W).

%% A metric may have any name, also a word that the library uses.
named_divert(_) ->
    ok = ?W:new(divert, counter, #{labels => [k], max_series => 1}),
    [ok = ?W:inc(divert, [K]) || K <- [a, b]],
    {error, _} = ?W:inc(divert, [a], -1),
    ?assertEqual(#{[<<"divert">>] => 1}, series(<<"whittle_counters_overflow_updates">>)),
    ?assertMatch(#{[<<"divert">>, <<"bad_step">>] := 1},
                 series(<<"whittle_counters_rejected">>)).

%% No function that counts or scrapes calls code that loads unicode_util's tables.
light(_) ->
    {ok, Modules} = application:get_key(whittle_counters, modules),
    ?assert(length(Modules) > 15),
    ?assertEqual([], [{M, Called} || M <- Modules,
                                     {ok, {_, [{imports, Calls}]}} <-
                                         [beam_lib:chunks(code:which(M), [imports])],
                                     {Called, _, _} <- Calls,
                                     lists:member(Called, [string, unicode_util])]).

%% The library refuses an option that would change nothing, or would not do what its name promises.
options_by_type(_) ->
    Read = #{read => fun() -> 1 end},
    Bad = [{histogram, Read, read}, {timer, Read, read}, {counter, #{value => float}, value},
           {counter, #{error => 0.1}, error}, {gauge, #{error => 0.1}, error},
           {gauge, #{resolution => 10}, resolution}, {counter, #{range => {1, 2}}, range},
           {gauge, #{stripe => always}, stripe}, {gauge, Read#{value => float}, value},
           {gauge, Read#{windows => [60]}, windows}, {counter, Read#{max_series => 5}, max_series},
           {histogram, #{error => 5.0}, error}, {histogram, #{value => float}, value},
           {timer, #{resolution => 1000}, resolution}, {timer, #{unit => "bytes"}, unit}],
    [?assertMatch({Key, {error, {bad_option, {Key, _}}}}, {Key, ?W:new(x_bytes, Type, Options)})
     || {Type, Options, Key} <- Bad],
    ?assertEqual({error, {bad_option, [{a, b}]}}, ?W:new(q, timer, [{a, b}])),
    ?assertEqual({error, {bad_type, meter}}, ?W:new(q, meter, [])),
    %% The export of a timer uses its unit.
    [begin
         ok = ?W:new(Name, timer, Options),
         ok = ?W:observe(Name, 90000000000)
     end || {Name, Options} <- [{b_minutes, #{unit => "minutes"}}, {b_seconds, #{}},
                                {b_milliseconds, #{unit => <<"milliseconds">>}}]],
    Text = whittle_counters_text:render(prometheus),
    [?assertMatch({_, _}, binary:match(Text, Line), Line)
     || Line <- [<<"b_minutes_sum 1.5\n">>, <<"b_seconds_sum 90.0\n">>,
                 <<"b_milliseconds_sum 9.0e4\n">>]],
    [?assertEqual({error, {name_taken, {Name, Theirs}}}, ?W:new(Name, Type))
     || {Name, Type, Theirs} <-
            [{whittle_counters_rejected_total, counter, whittle_counters_rejected_total},
             {whittle_counters_rejected, gauge, whittle_counters_rejected_total},
             {whittle_counters_overflow_updates, counter,
              whittle_counters_overflow_updates_total}]].

%% A refused update leaves no series behind, and does not count for the cap.
refused_makes_nothing(_) ->
    ok = ?W:new(temp, gauge, #{labels => [a], max_series => 1}),
    ok = ?W:new(level, gauge, #{value => float}),
    ok = ?W:new(c, counter, #{labels => [u]}),
    ok = ?W:new(h, histogram),
    [?assertMatch({error, {Tag, _}}, Answer)
     || {Tag, Answer} <- [{bad_value, ?W:set(temp, [x], 1.5)}, {bad_value, ?W:add(temp, [x], no)},
                          {bad_value, ?W:set(temp, [x], 1 bsl 63)},
                          {bad_value, ?W:set(level, 1 bsl 1024)}, {bad_value, ?W:add(level, nan)},
                          {wrong_type, ?W:set(c, [evil], 1)}, {wrong_type, ?W:inc(temp, [x])},
                          {bad_step, ?W:inc(c, [evil], -1)}, {out_of_range, ?W:observe(h, -1)},
                          {out_of_range, ?W:observe(h, 1.5)},
                          {exemplar_too_long,
                           ?W:exemplar(h, [], 1, #{id => binary:copy(<<"x">>, 127)})},
                          {bad_labels, ?W:exemplar(h, [], 1, none)}]],
    [?assertEqual(#{}, series(F)) || F <- [<<"temp">>, <<"level">>, <<"c">>, <<"h">>]],
    ok = ?W:set(temp, [y], 1),
    ?assertEqual(#{[<<"y">>] => 1}, series(<<"temp">>)).

%% The library counts each refusal for its metric, by name and through handles.
refusals_by_metric(_) ->
    ok = ?W:new(c, counter),
    ok = ?W:new(g, gauge),
    ok = ?W:new(f, gauge, #{value => float}),
    ok = ?W:new(h, histogram),
    [begin
         {ok, Handle} = ?W:handle(Name),
         published(),
         [begin
              {error, {Tag, _}} = ?W:Update(Handle, Bad),
              {error, {Tag, _}} = ?W:Update(Name, [], Bad)
          end || Update <- Updates],
         ?assertMatch(#{[Text, Reason] := N} when N =:= 2 * length(Updates),
                      series(<<"whittle_counters_rejected">>))
     end || {Name, Updates, Bad, Tag} <-
                [{c, [inc], -1, bad_step}, {g, [set, add], 1.5, bad_value},
                 {f, [set, add], nan, bad_value}, {h, [observe], -1, out_of_range}],
            Text <- [atom_to_binary(Name)], Reason <- [atom_to_binary(Tag)]],
    ?assertEqual([], [Labels || [<<"undefined">> | _] = Labels <-
                                    maps:keys(series(<<"whittle_counters_rejected">>))]).

%% The library logs the first refusal of each metric, with the metric's name.
logged_by_metric(_) ->
    [ok = ?W:new(Name, gauge) || Name <- [one, two]],
    #{level := Level} = logger:get_primary_config(),
    {ok, #{level := Shown}} = logger:get_handler_config(default),
    ok = logger:set_handler_config(default, level, none),
    ok = logger:set_primary_config(level, warning),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    [{error, _} = ?W:set(Name, 1.5) || Name <- [one, one, two]],
    {error, _} = ?W:set(nobody_made_this, 1),
    ok = logger:remove_handler(?MODULE),
    ok = logger:set_primary_config(level, Level),
    ok = logger:set_handler_config(default, level, Shown),
    ?assertMatch([<<"whittle_counters, metric one: a gauge", _/binary>>,
                  <<"whittle_counters, metric two: a gauge", _/binary>>,
                  <<"whittle_counters: no such metric; ", _/binary>>], logged()).

log(#{msg := {"whittle_counters" ++ _ = Format, Values}}, #{config := Test}) ->
    Test ! {logged, unicode:characters_to_binary(io_lib:format(Format, Values))};
log(_, _) -> ok.

logged() -> receive {logged, Line} -> [Line | logged()] after 0 -> [] end.

%% An owner that restarts defines its gauge again, with a fun that has the new process.
read_again(_) ->
    Define = fun(Value) -> ?W:new(depth, gauge, #{read => fun() -> Value end}) end,
    ok = Define(1),
    ok = Define(2),
    ?assertEqual(#{[] => 2}, series(<<"depth">>)),
    ?assertMatch({error, {already_defined, _}}, ?W:new(depth, gauge)),
    ?assertMatch({error, {already_defined, _}},
                 ?W:new(depth, gauge, #{read => fun() -> 3 end, help => "x"})),
    ?assertEqual(#{[] => 2}, series(<<"depth">>)).

read_only(_) ->
    ok = ?W:new(depth, gauge, #{read => fun() -> 1 end}),
    ?assertEqual({error, {read_at_scrape, depth}}, ?W:value(depth)),
    ?assertEqual({error, {read_only, depth}}, ?W:set(depth, 1)),
    ?assertEqual({error, {no_samples, {depth, 60}}}, ?W:rate(depth, [], 60)).

%% A scrape waits for all funs at the same time: each of these two waits until the other has begun.
readings_at_once(_) ->
    Test = self(),
    Meet = fun(Me) ->
                   fun() ->
                           Test ! {began, Me, self()},
                           receive met -> 1 end
                   end
           end,
    [ok = ?W:new(Name, gauge, #{read => Meet(Name)}) || Name <- [a, b]],
    Scrape = spawn_link(fun() -> Test ! {scraped, self(), ?W:snapshot()} end),
    Readers = [receive {began, Name, Pid} -> Pid end || Name <- [a, b]],
    [Reader ! met || Reader <- Readers],
    receive
        {scraped, Scrape, Snapshot} ->
            ?assertMatch(#{<<"a">> := #{[] := 1}, <<"b">> := #{[] := 1}}, Snapshot)
    end,
    %% A scrape that ends in the middle leaves no process and no message behind.
    {error, closed} = whittle_counters_text:stream(prometheus, fun(_) -> {error, closed} end),
    [receive {began, Name, Pid} -> gone(Pid) end || Name <- [a, b]],
    ?assertEqual({messages, []}, process_info(self(), messages)).

gone(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% A value that is set after a reset is the value of the gauge.
gauge_resets(_) ->
    ok = ?W:new(g, gauge),
    ok = ?W:new(f, gauge, #{value => float}),
    [begin
         ok = ?W:set(Name, Value),
         ?assertEqual({ok, Value}, ?W:reset(Name)),
         ok = ?W:add(Name, Value),
         ?assertEqual({ok, Value}, ?W:value(Name)),
         ok = ?W:set(Name, 2 * Value),
         ?assertEqual({ok, 2 * Value}, ?W:value(Name))
     end || {Name, Value} <- [{g, 10}, {f, 2.5}]].

%% A label that is part of a larger binary does not keep that binary in memory.
labels_alone(_) ->
    ok = ?W:new(c, counter, #{labels => [id]}),
    Request = binary:copy(<<"request ">>, 1000),
    ok = ?W:inc(c, [binary:part(Request, 0, 80)]),
    {ok, _} = ?W:handle(c, [binary:part(Request, 1, 80)]),
    published(),
    #{c := Tree} = persistent_term:get(whittle_counters),
    Kept = maps:keys(Tree) ++ [V || {series, {c, [V]}, _, _, _, _, _, _, _, _}
                                        <- ets:tab2list(whittle_counters_series)],
    ?assertEqual([80, 80, 80], [binary:referenced_byte_size(V) || V <- Kept]).

%% The process that computes rates starts only when a metric needs it. It may crash any number of
%% times: the metrics stay, and it starts again.
helpers_crash(_) ->
    ok = ?W:new(n, counter),
    ?assertEqual(undefined, whereis(whittle_counters_helpers)),
    ok = ?W:new(c, counter, #{windows => [1, 60]}),
    ok = ?W:inc(c),
    [?assertEqual({error, {bad_option, {window, Window}}}, ?W:rate(c, [], Window))
     || Window <- ["60", 0, -1, 1.5, 61, infinity]],
    Rate = whereis(whittle_counters_rate),
    Sup = whereis(whittle_counters_sup),
    Helpers = whereis(whittle_counters_helpers),
    Ref = monitor(process, Helpers),
    kill_rate(Ref, none),
    ?assertEqual(Sup, whereis(whittle_counters_sup)),
    ?assertEqual({ok, 1}, ?W:value(c)),
    ?assertMatch({error, {no_samples, _}}, ?W:rate(c, [], 60)),
    ?assertNotEqual(Rate, whereis(whittle_counters_rate)),
    whittle_counters_rate ! sample,
    ?assertMatch({ok, _}, ?W:rate(c, [], 60)).

%% The test crashes it until its supervisor gives up.
kill_rate(Helpers, Last) ->
    receive {'DOWN', Helpers, process, _, _} -> ok
    after 0 ->
            case whereis(whittle_counters_rate) of
                Pid when is_pid(Pid), Pid =/= Last -> exit(Pid, kill), kill_rate(Helpers, Pid);
                _ -> erlang:yield(), kill_rate(Helpers, Last)
            end
    end.

%% Between its death and its restart, the registry does not seem to be an application that never
%% started.
registry_between(_) ->
    ok = sys:suspend(whittle_counters_sup),
    kill_registry(),
    ?assertMatch({error, {registry_failed, _}}, ?W:new(c, counter)),
    ok = sys:resume(whittle_counters_sup),
    started_again(),
    ok = ?W:new(c, counter).

%% The application does not start with an invalid setting. A setting that becomes invalid later
%% does not end it.
environment(_) ->
    Bad = [{publish_after, foo}, {publish_after, -1}, {sweep_every, -1}, {sweep_every, 1 bsl 32},
           {max_series, "30"}, {read_timeout, 0}],
    ok = application:stop(?W),
    [begin
         ok = application:set_env(?W, Key, Value),
         ?assertMatch({error, {{bad_option, {Key, Value}}, _}}, application:start(?W)),
         ok = application:unset_env(?W, Key)
     end || {Key, Value} <- Bad],
    ok = application:start(?W),
    Registry = whereis(whittle_counters_registry),
    [ok = application:set_env(?W, Key, Value) || {Key, Value} <- Bad],
    ok = ?W:new(c, counter, #{labels => [id]}),
    ok = ?W:inc(c, [a]),
    published(),
    sweep_after(0),
    whittle_counters_registry ! sweep,
    ok = ?W:inc(c, [b]),
    ?assertEqual(Registry, whereis(whittle_counters_registry)),
    [ok = application:unset_env(?W, Key) || {Key, _} <- Bad].

%% The line of every error tells what to do, for any term in the reason.
errors_say(_) ->
    ok = ?W:new(n, counter),
    Line = fun(Reason) -> unicode:characters_to_list(?W:format_error(Reason)) end,
    {error, Number} = ?W:inc(n, 5),
    [?assertNotEqual(nomatch, string:find(Line(Reason), Part), {Reason, Line(Reason)})
     || {Reason, Part} <- [{Number, "inc(Name, [], 5)"},
                           {{cannot_listen, eaddrnotavail}, "choose another ip"},
                           {{cannot_listen, eaddrinuse}, "choose another port"},
                           {{bad_name, r_total}, "_total"},
                           {{bad_option, {window, 600}}, "windows"},
                           {{bad_option, {unit, celsius}}, "between quotes"},
                           {{bad_option, {help, 5}}, "between quotes"},
                           {{{badmatch, x}, []}, "unexpected"}]].

%%% waiting for events

sweep_after(Seconds) ->
    ok = whittle_counters_registry:sweep(erlang:monotonic_time(second) + Seconds).

series(Family) -> maps:get(Family, whittle_counters_scrape:snapshot()).

%% Waits until the tree contains all paths that this process has requested.
published() -> ok = whittle_counters_registry:publish().
