%% Runs the study `connections' with few users: examples/presence, built as an executable, in a
%% network namespace and in control groups of its own, with a good link and with a slow one.
-module(measure_connections_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([every_number/1, kernel_memory/1, slow_link/1, too_few_blocks/1]).

-define(USERS, 500).
%% The delay of the level `late' in each direction, in milliseconds.
-define(DELAY, 100).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [every_number, kernel_memory, slow_link, too_few_blocks].

init_per_suite(Config) ->
    case os:cmd("id -u") of
        "0\n" ->
            ok = running:install_charts(),
            Dir = running:directory("connections", Config),
            Study = filename:join(Dir, "few.study"),
            %% The paths of a study begin in its directory.
            [ok = file:make_symlink(filename:join(running:root(), Name), filename:join(Dir, Name))
             || Name <- ["_build", "examples", "host", "whittle"]],
            ok = file:write_file(Study, io_lib:format("~p.~n", [few()])),
            Out = filename:join(Dir, "results"),
            {0, Output} = running:whittle(["measure", Study, "-o", Out]),
            [{output, Output}, {values, values(Out)} | Config];
        _ -> {skip, "network namespaces and control groups need root"}
    end.

end_per_suite(_) -> ok.

%% The shipped study with one of its programs and few users.
few() ->
    {ok, [Study]} = file:consult(filename:join(running:root(), "host/whittle_measure/priv/studies/"
                                               "connections.study")),
    #{programs := Programs, factors := Factors} = Study,
    [Presence] = [Program || #{name := presence} = Program <- Programs],
    [Link] = [Factor || #{name := link} = Factor <- Factors],
    #{levels := Links} = Link,
    Few = integer_to_list(?USERS),
    Users = #{name => users,
              levels => [#{name => few, environment => [{"USERS", Few}, {"RATE", Few},
                                                        {"WINDOW", "4"}]}]},
    Study#{programs := [Presence],
           factors := [Users, Link#{levels := [Level || #{name := Name} = Level <- Links,
                                                        Name =/= bad]}],
           blocks := 1}.

%% The values of the measured block, by the level of the link.
values(Out) ->
    {ok, Text} = file:read_file(filename:join(Out, "samples.jsonl")),
    maps:from_list([{Link, Values}
                    || Line <- binary:split(Text, <<"\n">>, [global, trim_all]),
                       #{<<"block">> := 1, <<"cell">> := #{<<"link">> := Link},
                         <<"values">> := Values} <- [jiffy:decode(Line, [return_maps])]]).

every_number(Config) ->
    Values = proplists:get_value(values, Config),
    ?assertEqual([<<"good">>, <<"late">>], lists:sort(maps:keys(Values))),
    [?assertMatch({Link, Name, #{Name := Value}} when Value > 0, {Link, Name, Of})
     || {Link, Of} <- maps:to_list(Values),
        Name <- [<<"cpu_time">>, <<"kernel">>, <<"memory_all">>, <<"latency_p50">>,
                 <<"latency_p99">>]],
    %% A VM with so few users may shrink, because it gives memory of its start back.
    [?assertMatch({Link, #{<<"memory">> := _}}, {Link, Of}) || {Link, Of} <- maps:to_list(Values)].

%% A TCP socket, its file and its entry in epoll take about 4,000 bytes (docs/load-account.md).
kernel_memory(Config) ->
    #{<<"good">> := #{<<"kernel">> := Kernel}} = proplists:get_value(values, Config),
    ?assert(Kernel > 1_000 andalso Kernel < 10_000).

%% A message crosses the link twice: to the server and to the other user.
slow_link(Config) ->
    #{<<"late">> := #{<<"latency_p50">> := Late}} = proplists:get_value(values, Config),
    ?assert(Late >= 2 * ?DELAY).

too_few_blocks(Config) ->
    Output = proplists:get_value(output, Config),
    ?assertMatch({match, _}, re:run(Output, "link=late .*too few blocks for a test")).
