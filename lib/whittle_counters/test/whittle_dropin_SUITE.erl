%% Tests the functions that users of prometheus.erl and exometer call.
-module(whittle_dropin_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([prometheus/1, durations/1, large_numbers/1, raises/1, exometer/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [prometheus, durations, large_numbers, raises, exometer].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Only the test cases search for stale series.
    ok = application:set_env(whittle_counters, sweep_every, 3600000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

prometheus(_) ->
    Requests = [{name, http_requests_total}, {labels, [method]}, {help, "x"}],
    ?assert(prometheus_counter:declare(Requests)),
    ?assertNot(prometheus_counter:declare(Requests)),
    ok = prometheus_counter:inc(http_requests_total, [get]),
    ok = prometheus_counter:inc("http_requests_total", [get], 2),
    ?assertEqual(3, prometheus_counter:value(http_requests_total, [get])),
    ?assertEqual(undefined, prometheus_counter:value(http_requests_total, [put])),
    ?assertError({invalid_metric_arity, 0, 1}, prometheus_counter:inc(http_requests_total)),
    ?assertError({unknown_metric, default, nothing}, prometheus_counter:inc(nothing)),
    ?assertError({invalid_value, -1, _}, prometheus_counter:inc(http_requests_total, [get], -1)),
    ?assert(prometheus_counter:reset(http_requests_total, [get])),
    ?assertEqual(0, prometheus_counter:value(http_requests_total, [get])),
    ?assert(prometheus_counter:remove(http_requests_total, [get])),
    ok = prometheus_gauge:new([{name, pool_size}, {help, ""}]),
    ok = prometheus_gauge:set(pool_size, 2.5),
    ok = prometheus_gauge:inc(pool_size),
    ok = prometheus_gauge:dec(pool_size, 3),
    ?assertEqual(0.5, prometheus_gauge:value(pool_size)),
    ok = prometheus_gauge:set_to_current_time(pool_size),
    ?assert(prometheus_gauge:reset(pool_size)),
    Value = fun() -> prometheus_gauge:value(pool_size) end,
    ?assertEqual(1.0, prometheus_gauge:track_inprogress(pool_size, Value)),
    ?assertEqual(0.0, prometheus_gauge:value(pool_size)),
    done = prometheus_gauge:set_duration(pool_size, fun() -> done end),
    ?assert(prometheus_gauge:value(pool_size) >= 0),
    ok = prometheus_summary:new([{name, sizes}, {help, ""}]),
    ok = prometheus_summary:observe(sizes, 1.5),
    ok = prometheus_summary:observe(sizes, 2),
    ?assertEqual({2, 3.5}, prometheus_summary:value(sizes)),
    ?assert(prometheus_summary:reset(sizes)),
    ?assertEqual({0, 0.0}, prometheus_summary:value(sizes)),
    ok = prometheus_histogram:new([{name, took_seconds}, {labels, [what]}, {buckets, [1, 2]},
                                   {help, ""}]),
    ok = prometheus_histogram:observe(took_seconds, [x], native(250)),
    done = prometheus_histogram:observe_duration(took_seconds, [x], fun() -> done end),
    {[1, 1], Sum} = prometheus_histogram:value(took_seconds, [x]),
    ?assert(Sum >= 0.25),
    ?assertError({invalid_value, nan, _}, prometheus_histogram:observe(took_seconds, [x], nan)),
    ?assertMatch({_, _}, binary:match(prometheus_text_format:format(),
                                      <<"took_seconds_count{what=\"x\"} 2">>)),
    ?assertMatch(<<"text/plain", _/binary>>, prometheus_text_format:content_type()).

native(Milliseconds) -> erlang:convert_time_unit(Milliseconds, millisecond, native).

%% A metric with a unit of time in its name takes native time, and the export uses that unit.
durations(_) ->
    Slow = fun(Observe) -> Observe(native(50)) end,
    [begin
         ok = prometheus_histogram:new([{name, Name}, {help, "x"} | More]),
         Slow(fun(V) -> ok = prometheus_histogram:observe(Name, V) end),
         ?assertEqual({[1], Sum}, prometheus_histogram:value(Name))
     end || {Name, More, Sum} <- [{a_seconds, [], 0.05}, {b_milliseconds, [], 50.0},
                                  {c_microseconds, [], 50000.0},
                                  {d_minutes_of_work, [], 50 / 60000},
                                  {e, [{duration_unit, milliseconds}], 50.0}]],
    ok = prometheus_histogram:new([{name, f_seconds}, {help, "x"}, {duration_unit, false}]),
    ok = prometheus_histogram:observe(f_seconds, 0.25),
    ?assertEqual({[1], 0.25}, prometheus_histogram:value(f_seconds)),
    ?assertMatch({_, _}, binary:match(prometheus_text_format:format(), <<"a_seconds_sum 0.05\n">>)),
    ?assertError({invalid_value, hours, _},
                 prometheus_histogram:new([{name, g_seconds}, {help, ""}, {duration_unit, hours}])),
    ?assertError({invalid_value, aeons, _},
                 prometheus_gauge:new([{name, h}, {help, ""}, {duration_unit, aeons}])),
    ok = prometheus_gauge:new([{name, i_milliseconds}, {help, ""}]),
    ok = prometheus_gauge:set(i_milliseconds, native(20)),
    ok = prometheus_gauge:inc(i_milliseconds, native(5)),
    ok = prometheus_gauge:dec(i_milliseconds, [], native(1)),
    ?assertEqual(24.0, prometheus_gauge:value(i_milliseconds)),
    1.0 = prometheus_gauge:track_inprogress(
            i_milliseconds, fun() -> prometheus_gauge:value(i_milliseconds) - 24.0 end),
    ok = prometheus_gauge:set_to_current_time(i_milliseconds),
    ?assert(prometheus_gauge:value(i_milliseconds) > 1.0e9),
    ok = prometheus_gauge:new([{name, j_days}, {help, ""}]),
    Start = erlang:monotonic_time(),
    done = prometheus_gauge:set_duration(j_days, fun() -> done end),
    Most = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond),
    ?assert(prometheus_gauge:value(j_days) =< Most / 86400.0e9).

%% A number that the original accepts raises nothing here.
large_numbers(_) ->
    Names = [size_bytes, ratio],
    [ok = prometheus_histogram:new([{name, Name}, {help, ""}]) || Name <- Names],
    [ok = prometheus_histogram:observe(size_bytes, 1000000000000) || _ <- lists:seq(1, 1000)],
    ?assertEqual({[1000], 1.0e15}, prometheus_histogram:value(size_bytes)),
    ok = prometheus_histogram:observe(ratio, 0.25),
    ok = prometheus_histogram:observe(ratio, 1000000000),
    ?assertEqual({[1, 1], 1000000000.25}, prometheus_histogram:value(ratio)),
    [ok = prometheus_histogram:observe(Name, V) || Name <- Names, V <- [-1, 1 bsl 200, 1.0e308]],
    ?assertMatch(#{[<<"ratio">>, <<"out_of_range">>] := 3,
                   [<<"size_bytes">>, <<"out_of_range">>] := 3},
                 maps:get(<<"whittle_counters_rejected">>, whittle_counters:snapshot())),
    ok = exometer:new([h], histogram),
    ok = exometer:update([h], 1.6),
    ?assertMatch({ok, [{mean, 2.0}]}, exometer:get_value([h], [mean])).

%% The modules raise in the same cases as the originals.
raises(_) ->
    Spec = [{name, a}, {help, "x"}],
    [begin
         ok = Module:new(Spec),
         ?assertError({mf_already_exists, {default, a}, _}, Module:new(Spec)),
         ?assertEqual(false, Module:declare([{labels, [b]} | Spec])),
         ?assertError({missing_metric_spec_key, name, _}, Module:new([{help, "x"}])),
         ?assertError({missing_metric_spec_key, help, _}, Module:declare([{name, b}])),
         [?assertError({unsupported_metric_spec_key, Key, _}, Module:new([{Key, Value} | Spec]))
          || {Key, Value} <- [{registry, other}, {constant_labels, [{b, c}]}]],
         ?assertEqual(true, Module:declare([{name, b}, {registry, default} | Spec -- [{name, a}]])),
         [?assertError({unknown_metric, default, none}, Module:F(none))
          || F <- [reset, remove, value]],
         [?assertEqual(false, Module:F(a)) || F <- [reset, remove]],
         ?assertError({invalid_metric_arity, 1, 0}, Module:reset(a, [x])),
         [ok = whittle_counters:delete(N) || N <- [a, b]]
     end || Module <- [prometheus_counter, prometheus_gauge, prometheus_histogram,
                       prometheus_summary]].

exometer(_) ->
    ok = exometer:new([my, jobs], counter),
    ?assertError(exists, exometer:new([my, jobs], counter)),
    ok = exometer:update([my, jobs], 5),
    ok = exometer:update([my, jobs], -2),
    ?assertEqual({ok, [{value, 3}]}, exometer:get_value([my, jobs], value)),
    ok = exometer:reset([my, jobs]),
    ?assertEqual({ok, [{value, 0}]}, exometer:get_value([my, jobs], [value])),
    ok = exometer:new([my, load], gauge),
    ok = exometer:update([my, load], 0.5),
    ?assertEqual({ok, [{value, 0.5}]}, exometer:get_value([my, load], value)),
    ok = exometer:new([my, sizes], histogram),
    [ok = exometer:update([my, sizes], V) || V <- [10, 20]],
    ?assertEqual({ok, [{n, 2}, {mean, 15.0}]}, exometer:get_value([my, sizes], [n, mean])),
    {ok, [{min, Least}, {max, Most}, {median, Median}, {99, Nearly}]} =
        exometer:get_value([my, sizes], [min, max, median, 99]),
    ?assert(abs(Least - 10) < 0.5 andalso abs(Most - 20) < 1.0),
    ?assertEqual({Least, Most}, {Median, Nearly}),
    ok = exometer:update_or_create([my, own], 3, counter, []),
    ok = exometer:update_or_create([my, own], 3, counter, []),
    ?assertEqual({ok, [{value, 6}]}, exometer:get_value([my, own], value)),
    ok = exometer:new([my, hits], meter),
    ok = exometer:update([my, hits], 1),
    whittle_counters_rate ! sample,
    {ok, [{one, Rate}]} = exometer:get_value([my, hits], one),
    ?assert(is_float(Rate)),
    ok = exometer:delete([my, hits]),
    ?assertEqual({error, not_found}, exometer:update([my, hits], 1)),
    ?assertEqual({error, not_found}, exometer:get_value([no, such])).
