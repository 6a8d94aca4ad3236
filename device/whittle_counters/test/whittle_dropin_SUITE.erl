%% The calls that prometheus.erl's and exometer's users have in their code.
-module(whittle_dropin_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([prometheus/1, exometer/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [prometheus, exometer].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Nobody looks for stale series but the cases themselves.
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
    ?assertError({bad_labels, _}, prometheus_counter:inc(http_requests_total)),
    ?assertError({unknown_metric, _}, prometheus_counter:inc(nothing)),
    ?assertError({bad_step, _}, prometheus_counter:inc(http_requests_total, [get], -1)),
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
    ?assert(prometheus_gauge:value(pool_size) < 60),
    ok = prometheus_summary:new([{name, sizes}, {help, ""}]),
    ok = prometheus_summary:observe(sizes, 1.5),
    ok = prometheus_summary:observe(sizes, 2),
    ?assertEqual({2, 3.5}, prometheus_summary:value(sizes)),
    ?assert(prometheus_summary:reset(sizes)),
    ?assertEqual({0, 0.0}, prometheus_summary:value(sizes)),
    ok = prometheus_histogram:new([{name, took_seconds}, {labels, [what]}, {buckets, [1, 2]},
                                   {help, ""}]),
    ok = prometheus_histogram:observe(took_seconds, [x], 0.25),
    done = prometheus_histogram:observe_duration(took_seconds, [x], fun() -> done end),
    {[1, 1], Sum} = prometheus_histogram:value(took_seconds, [x]),
    ?assert(Sum >= 0.25),
    ?assertError({out_of_range, _}, prometheus_histogram:observe(took_seconds, [x], nan)),
    ?assertMatch({_, _}, binary:match(prometheus_text_format:format(),
                                      <<"took_seconds_count{what=\"x\"} 2">>)),
    ?assertMatch(<<"text/plain", _/binary>>, prometheus_text_format:content_type()).

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
