%% Tests how the command for OTP's own suites reads a node's output and the known reasons.
%% `tools/test otp' tests that it runs suites.
-module(otp_suites_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([cases_by_group/1, parallel_groups/1, a_node_that_died/1, a_suite_that_hung/1,
         a_suite_that_could_not_start/1, each_failure_wants_its_reason/1,
         only_the_static_vm_is_excused/1, a_reason_that_explains_nothing/1,
         other_machines_read_it/1, known_reasons_are_well_formed/1, wrong_words/1,
         locked/1]).

all() ->
    [cases_by_group, parallel_groups, a_node_that_died, a_suite_that_hung,
     a_suite_that_could_not_start, each_failure_wants_its_reason,
     only_the_static_vm_is_excused, a_reason_that_explains_nothing,
     other_machines_read_it, known_reasons_are_well_formed, wrong_words, locked].

cases_by_group(_) ->
    Said = [{started, init_per_suite}, {done, init_per_suite, passed, ""},
            {started, one}, {done, one, passed, ""},
            {started, {init_per_group, outer}}, {done, {init_per_group, outer}, passed, ""},
            {started, {init_per_group, inner}}, {done, {init_per_group, inner}, passed, ""},
            {started, one}, {done, one, failed, "why"},
            {started, {end_per_group, inner}}, {done, {end_per_group, inner}, passed, ""},
            {started, two}, {done, two, skipped, "no"},
            {started, {end_per_group, outer}}, {done, {end_per_group, outer}, passed, ""},
            {started, one}, {done, one, passed, ""}, finished],
    ?assertEqual({finished, [{"one", passed, ""}, {"outer/inner/one", failed, "why"},
                             {"outer/two", skipped, "no"}, {"one", passed, ""}]},
                 otp_suites_run:result(Said, died)).

parallel_groups(_) ->
    Said = [{started, {init_per_group, p}}, {done, {init_per_group, p}, passed, ""},
            {started, one}, {started, two}, {done, two, passed, ""},
            {done, one, failed, "why"},
            {started, {end_per_group, p}}, {done, {end_per_group, p}, passed, ""}, finished],
    ?assertEqual({finished, [{"p/two", passed, ""}, {"p/one", failed, "why"}]},
                 otp_suites_run:result(Said, died)).

a_node_that_died(_) ->
    ?assertEqual({died, [{"one", passed, ""}, {"two", failed, "the node ended here"}]},
                 otp_suites_run:result([{started, one}, {done, one, passed, ""},
                                        {started, two}], died)),
    ?assertEqual({died, [{"(node)", failed, "the node ended here"}]},
                 otp_suites_run:result([], died)).

a_suite_that_hung(_) ->
    ?assertEqual({{late, 60}, [{"one", failed, "not done after 60 s"}]},
                 otp_suites_run:result([{started, one}], {late, 60})).

a_suite_that_could_not_start(_) ->
    Said = [{started, init_per_suite}, {done, init_per_suite, failed, "why"},
            {done, one, lost, "failed"}, {done, {two, group}, lost, "failed"}, finished],
    ?assertEqual({finished, [{"init_per_suite", failed, "why"}, {"one", lost, "failed"},
                             {"group/two", lost, "failed"}]},
                 otp_suites_run:result(Said, died)).

each_failure_wants_its_reason(_) ->
    Results = [{static, result([{"one", passed, ""}, {"g/two", failed, "said"}])},
               {stock, result([{"g/two", failed, "said"}])}],
    Account = #{failures := [Failure]} = otp_suites_table:account(Results, []),
    ?assertMatch(#{kind := none, stock := failed, said := "said"}, Failure),
    ?assertNot(otp_suites_table:explained(Account)),
    [?assertEqual(Explains,
                  otp_suites_table:explained(otp_suites_table:account(Results, [Known])))
     || {Known, Explains} <-
            [{{"a", "s_SUITE", "g/two", environment, "w"}, true},
             {{"a", "s_SUITE", "g/*", environment, "w"}, true},
             {{"a", "s_SUITE", "two", environment, "w"}, false},
             {{"b", "s_SUITE", "g/two", environment, "w"}, false}]].

only_the_static_vm_is_excused(_) ->
    Known = [{"a", "s_SUITE", "*", static, "loads a NIF"}],
    Failed = result([{"one", failed, "said"}]),
    Passed = result([{"one", passed, ""}]),
    [?assertEqual(Explained,
                  otp_suites_table:explained(otp_suites_table:account(Results, Known)))
     || {Results, Explained} <- [{[{static, Failed}, {dynamic, Passed}], true},
                                 {[{static, Failed}], false},
                                 {[{static, Failed}, {dynamic, Failed}], false},
                                 {[{dynamic, Failed}], false}]].

a_reason_that_explains_nothing(_) ->
    Stale = {"a", "s_SUITE", "one", ours, "w"},
    Elsewhere = {"a", "t_SUITE", "one", ours, "w"},
    #{stale := Found} = otp_suites_table:account([{static, result([{"one", passed, ""}])}],
                                                 [Stale, Elsewhere]),
    ?assertEqual([Stale], Found).

other_machines_read_it(Config) ->
    Results = [{static, result([{"one", failed, "a \"quote\",\ta tab and \x{e4}"}])}],
    Json = otp_suites_table:json(otp_suites_table:account(Results, [])),
    File = filename:join(proplists:get_value(priv_dir, Config), "table.json"),
    ok = file:write_file(File, unicode:characters_to_binary(Json)),
    Python = "import json,sys; d=json.load(open(sys.argv[1], encoding='utf-8'));"
        "print(d['rows'][0]['failed'], d['failures'][0]['said'])",
    {0, Said} = running:run(os:find_executable("python3"), ["-c", Python, File],
                            #{env => [{"PYTHONIOENCODING", "utf-8"}]}),
    ?assertEqual("1 a \"quote\",\ta tab and \x{e4}\n", unicode:characters_to_list(Said)).

known_reasons_are_well_formed(_) ->
    {ok, Known} = file:consult(filename:join([running:root(), "acceptance", "otp-suites.config"])),
    [?assertMatch({A, S, C, K, W} when is_list(A) andalso is_list(S) andalso is_list(C)
                  andalso W =/= "" andalso (K =:= ours orelse K =:= environment
                                            orelse K =:= static), Entry)
     || Entry <- Known].

wrong_words(_) ->
    Command = filename:join([running:root(), "acceptance", "otp-suites"]),
    ?assertEqual({2, <<"otp-suites: unknown argument --fast; try --help\n">>},
                 running:run(Command, ["--fast"])),
    ?assertEqual({2, <<"otp-suites: --target has static alone, not dynamic; try --help\n">>},
                 running:run(Command, ["--variant", "dynamic", "--target", "armv7"])).

result(Cases) ->
    #{app => "a", suite => "s_SUITE", ended => finished, seconds => 1, cases => Cases}.

%% The message tells a second run from a missing flock(1).
locked(Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "locked"),
    Lock = otp_suites:lock(Out),
    ?assertThrow({failed, "it is running here already" ++ _, _}, otp_suites:lock(Out)),
    ok = whittle_lock:release(Lock),
    Path = os:getenv("PATH"),
    os:putenv("PATH", "/nowhere"),
    try
        ?assertThrow({failed, "flock is not on the PATH" ++ _, _}, otp_suites:lock(Out))
    after
        os:putenv("PATH", Path)
    end.
