%% Tests the HTTP users of `whittle load' with the nginx of Debian's packages.
-module(load_nginx_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([pages/1, tls/1, ipv6/1, connections_end/1, statuses/1]).

-define(USERS, 10).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [pages, tls, ipv6, connections_end, statuses].

init_per_suite(Config) ->
    Below = filename:join([running:root(), "out", "programs", "packages"]),
    case packages:unpacked("nginx", Below) of
        {ok, Package} ->
            Program = filename:join(Package, "usr/sbin/nginx"),
            Dir = running:directory("nginx", Config),
            case running:run(Program, ["-v"]) of
                {0, _} -> [{dir, Dir}, {nginx, Program} | Config];
                {_, Said} -> {skip, "nginx does not run here: " ++ binary_to_list(Said)}
            end;
        {error, Text} -> {skip, lists:flatten(io_lib:format("~ts", [Text]))}
    end.

end_per_suite(_) -> ok.

%% The second port closes each connection after two requests.
init_per_testcase(_, Config) ->
    Dir = proplists:get_value(dir, Config),
    {[Plain, Few, Tls], Server} = running:on_free_ports(3, fun(Ports) -> started(Ports, Dir, Config)
                                                           end),
    [{server, Server}, {plain, Plain}, {few, Few}, {tls, Tls} | Config].

started([Plain, Few, Tls], Dir, Config) ->
    Certificate = loading:certificate(Dir),
    File = filename:join(Dir, "nginx.conf"),
    ok = file:write_file(filename:join(Dir, "page"), lists:duplicate(20_000, $x)),
    ok = file:write_file(
           File, ["daemon off; master_process off; pid ", Dir, "/pid; error_log stderr notice;\n"
                  "events { worker_connections 200; }\n"
                  "http { access_log off;\n",
                  [[Name, " ", Dir, "/temporary;\n"]
                   || Name <- ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path",
                               "uwsgi_temp_path", "scgi_temp_path"]],
                  [["server { ", [["listen ", Address, $:, integer_to_list(Port), Listen, "; "]
                                  || Address <- ["127.0.0.1" | ["[::1]" || loading:has_ipv6()]]],
                    More, "root ", Dir, "; location = /missing { return 404; }"
                    " location = /echo { return 201 \"$request_method\"; } }\n"]
                   || {Port, Listen, More} <- [{Plain, "", ""}, {Few, "", "keepalive_requests 2; "},
                                               {Tls, " ssl", ["ssl_certificate ", Certificate,
                                                              "; ssl_certificate_key ",
                                                              Certificate, "; "]}]],
                  "}\n"]),
    Server = running:start(proplists:get_value(nginx, Config), ["-c", File, "-e", "stderr"],
                           #{env => [{"HOME", Dir}]}),
    %% nginx says this when it listens.
    _ = running:until(Server, <<"getrlimit">>),
    Server.

end_per_testcase(_, Config) ->
    Server = proplists:get_value(server, Config),
    ok = running:signal(Server, "QUIT"),
    {0, _} = running:ended(Server),
    ok.

pages(Config) ->
    #{<<"events">> := #{<<"connected">> := Connected}, <<"errors">> := [],
      <<"latencies">> := #{<<"get">> := #{<<"count">> := Pages},
                           <<"sent">> := #{<<"count">> := Sent}}} =
        load("http", plain, "[{repeat, 20, [{get, \"/page\"}]}, {as, \"sent\", {post, \"/echo\","
             " \"text/plain\", \"user ${id}\", 201}}, {head, \"/page\"}]", 0,
             #{ended => ?USERS}, Config),
    ?assertEqual({?USERS, 20 * ?USERS, ?USERS}, {Connected, Pages, Sent}).

tls(Config) ->
    #{<<"events">> := #{<<"connected">> := ?USERS}, <<"errors">> := [],
      <<"latencies">> := #{<<"get">> := #{<<"count">> := Pages}}} =
        load("https", tls, "[{repeat, 5, [{get, \"/page\", 200}]}]", 0, #{ended => ?USERS}, Config),
    ?assertEqual(5 * ?USERS, Pages).

ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            [?assertMatch(#{<<"events">> := #{<<"connected">> := ?USERS}, <<"errors">> := []},
                          load(Scheme, "[::1]", Port, "[{get, \"/page\", 200}]", 0,
                               #{ended => ?USERS}, Config))
             || {Scheme, Port} <- [{"http", plain}, {"https", tls}]];
        false -> {skip, "this machine has no ::1"}
    end.

%% A user connects again where the server has closed its connection.
connections_end(Config) ->
    #{<<"events">> := #{<<"connected">> := Connected}, <<"errors">> := [],
      <<"latencies">> := #{<<"get">> := #{<<"count">> := Pages}}} =
        load("http", few, "[{repeat, 6, [{get, \"/page\"}, {wait, \"20 ms\"}]}]", 0,
             #{ended => ?USERS}, Config),
    ?assertEqual({3 * ?USERS, 6 * ?USERS}, {Connected, Pages}).

statuses(Config) ->
    ?assertMatch(#{<<"errors">> := [#{<<"step">> := <<"get">>, <<"kind">> := <<"status_404">>,
                                      <<"count">> := ?USERS}]},
                 load("http", plain, "[{get, \"/missing\", 404}, {get, \"/missing\"}]", 1,
                      #{errors => ?USERS}, Config)).

load(Scheme, Port, Steps, Code, Counts, Config) ->
    load(Scheme, "127.0.0.1", Port, Steps, Code, Counts, Config).

load(Scheme, Host, Port, Steps, Code, Counts, Config) ->
    loading:load(proplists:get_value(dir, Config),
                 [io_lib:format("{target, \"~s://~s:~b\"}.~n"
                                "{phases, [{burst, ~b}, {soak, \"4 s\"}]}.~n",
                                [Scheme, Host, proplists:get_value(Port, Config), ?USERS]),
                  "{users, [{all, 1, ", Steps, "}]}.\n{thresholds, [\"errors < 1\"]}.\n"], Code,
                 Counts).
