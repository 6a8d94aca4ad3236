%% The example, scraped by a real Prometheus (Debian's): once in the text format,
%% once in protobuf with native histograms.
-module(sensors_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([scraped_as_text/1, scraped_as_protobuf/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [scraped_as_text, scraped_as_protobuf].

init_per_testcase(Case, Config) ->
    {ok, _} = application:ensure_all_started(inets),
    ok = application:load(sensors),
    ok = application:set_env(sensors, port, 0),
    ok = application:set_env(sensors, every, 10),
    {ok, _} = application:ensure_all_started(sensors),
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) ->
    [application:stop(A) || A <- [sensors, whittle_flow, whittle_counters]],
    application:unload(sensors).

scraped_as_text(Config) ->
    Port = prometheus([], Config),
    [above(0, Port, "sensor_readings_total{sensor=\"" ++ S ++ "\"}") || S <- ["1", "2", "3", "4"]],
    Celsius = value(Port, "sensor_celsius{sensor=\"3\"}"),
    ?assert(Celsius >= 23.0 andalso Celsius =< 24.0),
    above(0, Port, "sensor_stored_seconds_count"),
    above(0, Port, "sensor_stored_seconds_bucket{le=\"+Inf\"}"),
    above(1000000, Port, "erlang_vm_memory_bytes{kind=\"total\"}"),
    above(0, Port, "whittle_flow_batches_total{batcher=\"sensors_store\"}").

scraped_as_protobuf(Config) ->
    Port = prometheus(["--enable-feature=native-histograms"], Config),
    %% Only a native histogram has these functions on its own name.
    above(0, Port, "histogram_count(sensor_stored_seconds)"),
    Median = value(Port, "histogram_quantile(0.5, sensor_stored_seconds)"),
    ?assert(Median > 0.0 andalso Median < 60.0, Median),
    above(0, Port, "sensor_readings_total{sensor=\"1\"}").

%% Starts one that scrapes us each second. It ends with the port: its shell
%% waits for the end of its input.
prometheus(Flags, Config) ->
    Dir = proplists:get_value(dir, Config),
    Free = free_port(),
    ok = file:write_file(filename:join(Dir, "prometheus.yml"),
                         ["global: {scrape_interval: 1s}\n"
                          "scrape_configs:\n"
                          "  - job_name: sensors\n"
                          "    static_configs: [{targets: ['127.0.0.1:",
                          integer_to_list(sensors:port()), "']}]\n"]),
    Command = ["prometheus --config.file=prometheus.yml --storage.tsdb.path=data "
               "--web.listen-address=127.0.0.1:", integer_to_list(Free), $\s,
               lists:join($\s, Flags), " >prometheus.log 2>&1 & "
               "pid=$!; read end; kill $pid; wait $pid"],
    _ = open_port({spawn_executable, "/bin/sh"},
                  [{args, ["-c", lists:flatten(Command)]}, {cd, Dir}]),
    Free.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

%% Until a scrape has seen more than that: the first may come before anything was
%% stored.
above(Least, Port, Query) ->
    ?assert(value(Port, Query ++ " > " ++ integer_to_list(Least)) > Least).

%% The value of a query, asked for until there is one.
value(Port, Query) ->
    Url = "http://127.0.0.1:" ++ integer_to_list(Port) ++ "/api/v1/query?"
        ++ uri_string:compose_query([{"query", Query}]),
    case httpc:request(get, {Url, []}, [{timeout, 5000}], []) of
        {ok, {{_, 200, _}, _, Body}} ->
            case re:run(Body, "\"value\":\\[[0-9.]+,\"([^\"]+)\"\\]", [{capture, [1], list}]) of
                {match, [Text]} when Text =/= "NaN" -> number(Text);
                _ -> again(Port, Query)
            end;
        _ -> again(Port, Query)
    end.

%% Prometheus gives no event to wait for.
again(Port, Query) ->
    receive never -> ok after 100 -> ok end,
    value(Port, Query).

number(Text) ->
    case string:to_float(Text) of
        {Float, _} when is_float(Float) -> Float;
        _ -> list_to_integer(Text)
    end.
