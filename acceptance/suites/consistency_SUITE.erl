%% Tests the checker of bench/cluster on good and on bad histories, its faults and its report.
-module(consistency_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([good/1, bad/1, sets/1, files/1, given_up/1, drawn/1, reported/1, nothing_judged/1,
         wrong_arguments/1, help/1, recovery/1, clock/1, not_started/1, taken/1, signalled/1,
         refused_fault/1, unjudged/1, last_look/1, promised/1, accepts_simulated/1, finds_planted/1,
         agrees_with_all_orders/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [good, bad, sets, files, given_up, drawn, reported, nothing_judged, wrong_arguments, help,
     recovery, clock, not_started, taken, signalled, refused_fault, unjudged, last_look, promised,
     accepts_simulated, finds_planted, agrees_with_all_orders].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "ebin"),
    ok = filelib:ensure_path(Dir),
    Sources = filelib:wildcard(filename:join(running:root(), "bench/cluster/*.erl")),
    %% The compiler checks a model against the behavior that it has.
    {First, Others} = lists:partition(fun(File) ->
                                              filename:basename(File) =:= "linearizable.erl"
                                      end, Sources),
    true = code:add_patha(Dir),
    [{ok, _} = compile:file(File, [{outdir, Dir}, debug_info, warnings_as_errors, report])
     || File <- First ++ Others],
    [{ebin, Dir} | Config].

end_per_suite(Config) -> code:del_path(proplists:get_value(ebin, Config)).

%% Some cases give the next ones another stage, or another client of its nodes.
end_per_testcase(Case, _) ->
    _ = [os:unsetenv(Name) || Name <- ["STAGE_ROOT", "STAGE_NAME"]],
    _ = [begin
             _ = code:purge(case_client),
             true = code:delete(case_client),
             code:purge(case_client)
         end || Case =:= last_look],
    ok.

%% Operations as {Call, Return, Node, Input, Result}
history(Operations) ->
    [#{number => Number, client => Number, node => Node, key => <<"A">>, input => Input,
       call => Call, result => Result,
       return => case Result of {unknown, _} -> infinity; _ -> Return end}
     || {Number, {Call, Return, Node, Input, Result}}
            <- lists:zip(lists:seq(1, length(Operations)), Operations)].

kinds(Operations) -> [Kind || {Kind, _} <- verdicts:judge(history(Operations))].

created() -> {0, 1, 1, {create, <<"a">>}, {ok, {1, <<"a">>}}}.
changed(Call, Return, From, Title) ->
    {Call, Return, 1, {change, From, Title}, {ok, {From + 1, Title}}}.
unknown(Call, From, Title) -> {Call, none, 1, {change, From, Title}, {unknown, timeout}}.
failed(Call, Return, From, Title) -> {Call, Return, 1, {change, From, Title}, {failed, 503}}.
read(Call, Return, State) -> {Call, Return, 1, read, {ok, State}}.
final(Node, State) -> {900, 901, Node, final, {ok, State}}.

good(_) ->
    [?assertEqual({Name, []}, {Name, kinds(Operations)})
     || {Name, Operations} <-
            [{empty, []},
             {sequence, [created(), changed(2, 3, 1, <<"b">>), read(4, 5, {2, <<"b">>}),
                         final(1, {2, <<"b">>}), final(2, {2, <<"b">>})]},
             {concurrent_read, [created(), changed(2, 9, 1, <<"b">>), read(3, 4, {2, <<"b">>}),
                                read(3, 5, {1, <<"a">>})]},
             {conflict, [created(), changed(2, 3, 1, <<"b">>),
                         {4, 5, 2, {change, 1, <<"c">>}, {refused, {2, <<"b">>}}},
                         final(1, {2, <<"b">>})]},
             {unknown_done, [created(), unknown(2, 1, <<"b">>), read(4, 5, {1, <<"a">>}),
                             read(6, 7, {2, <<"b">>}), final(1, {2, <<"b">>})]},
             {unknown_not_done, [created(), unknown(2, 1, <<"b">>), changed(4, 5, 1, <<"c">>),
                                 final(1, {2, <<"c">>})]},
             {unknown_between, [created(), unknown(2, 1, <<"b">>), changed(4, 5, 2, <<"c">>),
                                final(1, {3, <<"c">>})]},
             {failed, [created(), failed(2, 3, 1, <<"b">>), final(1, {1, <<"a">>})]},
             {removed, [created(), {2, 3, 1, {remove, 1}, {ok, absent}}, read(4, 5, absent),
                        {6, 7, 2, {change, 1, <<"b">>}, {refused, absent}}, final(1, absent)]},
             {perhaps_removed, [created(), {2, none, 1, {remove, 1}, {unknown, 504}},
                                final(1, absent)]}]].

bad(_) ->
    [?assertEqual({Name, Kinds}, {Name, kinds(Operations)})
     || {Name, Kinds, Operations} <-
            [{lost, [lost_write],
              [created(), changed(2, 3, 1, <<"b">>), final(1, {1, <<"a">>})]},
             {lost_create, [lost_case], [created(), final(1, absent)]},
             {lost_with_change, [lost_case, lost_write],
              [created(), changed(2, 3, 1, <<"b">>), final(1, absent)]},
             {two_lost, [lost_write, lost_write],
              [created(), changed(2, 3, 1, <<"b">>), changed(4, 5, 2, <<"c">>),
               final(1, {1, <<"a">>}), final(2, {1, <<"a">>})]},
             {removal_lost, [lost_write],
              [created(), {2, 3, 1, {remove, 1}, {ok, absent}}, final(1, {1, <<"a">>})]},
             {overwritten, [lost_write, lost_update, forked],
              [created(), changed(2, 3, 1, <<"b">>), changed(2, 4, 1, <<"c">>),
               final(1, {2, <<"c">>})]},
             {updated_twice, [lost_update, forked],
              [created(), changed(2, 3, 1, <<"b">>), changed(2, 4, 1, <<"c">>),
               changed(5, 6, 2, <<"d">>), final(1, {3, <<"d">>})]},
             {dirty, [dirty_read],
              [created(), failed(2, 3, 1, <<"b">>), read(4, 5, {2, <<"b">>})]},
             {dirty_refusal, [dirty_read],
              [created(), failed(2, 3, 1, <<"b">>),
               {4, 5, 1, {change, 1, <<"c">>}, {refused, {2, <<"b">>}}}]},
             {invented, [dirty_read], [created(), read(4, 5, {2, <<"z">>})]},
             {diverged, [diverged],
              [created(), unknown(2, 1, <<"b">>), final(1, {1, <<"a">>}),
               final(2, {2, <<"b">>})]},
             {half_lost, [diverged],
              [created(), changed(2, 3, 1, <<"b">>), final(1, {1, <<"a">>}),
               final(2, {2, <<"b">>})]},
             {stale, [stale_read],
              [created(), changed(2, 3, 1, <<"b">>), read(4, 5, {1, <<"a">>}),
               final(1, {2, <<"b">>})]},
             {back_and_forth, [stale_read],
              [created(), changed(2, 20, 1, <<"b">>), read(4, 5, {2, <<"b">>}),
               read(6, 7, {1, <<"a">>})]},
             {stale_refusal, [stale_read],
              [created(), changed(2, 3, 1, <<"b">>), changed(4, 5, 2, <<"c">>),
               {6, 7, 2, {change, 1, <<"d">>}, {refused, {2, <<"b">>}}}]},
             %% Nobody can see a change before its call, however old reads may be.
             {too_early, [unordered],
              [created(), read(2, 3, {2, <<"b">>}), changed(4, 5, 1, <<"b">>)]},
             {two_ways, [forked],
              [created(), unknown(2, 1, <<"b">>), unknown(2, 1, <<"c">>),
               read(4, 5, {2, <<"b">>}), read(6, 7, {2, <<"c">>})]},
             %% Nobody has made version 2.
             {gap, [unordered], [created(), changed(4, 5, 2, <<"c">>)]}]].

sets(_) ->
    ?assertEqual([], cluster_set:check([{add, 1, ok}, {add, 2, unknown}, {add, 3, failed},
                                        {add, 4, ok}, {remove, 4, unknown}], [1, 2])),
    ?assertEqual([{lost, 1}, {revived, 4}, {invented, 3}, {invented, 5}],
                 cluster_set:check([{add, 1, ok}, {add, 3, failed}, {add, 4, ok}, {remove, 4, ok}],
                                   [5, 4, 3])),
    Create = fun(Key, Title, Result) ->
                     #{input => {create, Title}, key => Key, result => Result}
             end,
    Creates = [Create(<<"A">>, <<"a">>, {ok, {1, <<"a">>}}),
               Create(none, <<"b">>, {unknown, timeout}), Create(none, <<"c">>, {failed, 503})],
    ?assertEqual([], verdicts:set(Creates, [{<<"A">>, <<"changed">>}, {<<"B">>, <<"b">>}])),
    ?assertEqual([{lost_case, {lost, {id, <<"A">>}}}, {dirty_read, {invented, {title, <<"c">>}}}],
                 verdicts:set(Creates, [{<<"C">>, <<"c">>}])).

%% A run that ended at once leaves calls without returns.
files(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "history"),
    ok = file:write_file(File, [history:call(1, 10, 7, 2, none, {create, <<"a">>}),
                                history:note(11, "kill 1"),
                                history:call(2, 12, 8, 1, none, {create, <<"b">>}),
                                history:return(1, 15, <<"A">>, {ok, {1, <<"a">>}})]),
    {ok, Operations} = history:read(File),
    ?assertMatch([#{number := 1, client := 7, node := 2, key := <<"A">>, call := 10, return := 15,
                    result := {ok, {1, <<"a">>}}},
                  #{number := 2, key := none, return := infinity, result := {unknown, _}}],
                 Operations),
    ?assertMatch(#{<<"A">> := [_], none := [_]}, history:by_key(Operations)).

%% The search ends when it has tried as many pairs as it may.
given_up(_) ->
    Hard = [created() | [unknown(2, From, integer_to_binary(10 * From + Each))
                         || From <- lists:seq(1, 9), Each <- lists:seq(1, 9)]]
        ++ [read(3, 4, {11, <<"99">>})],
    ?assertEqual([{unclear, order}], verdicts:judge(history(Hard), 1000)).

%% One seed gives the same faults. Each fault names nodes of the stage, and ends.
drawn(_) ->
    Kinds = faults:kinds() ++ faults:special(),
    [begin
         Draw = fun() ->
                        {Faults, _} = lists:mapfoldl(fun(_, Random) ->
                                                             faults:draw(Kinds, Nodes, Random)
                                                     end, rand:seed_s(exsss, 7),
                                                     lists:seq(1, 200)),
                        Faults
                end,
         Faults = Draw(),
         ?assertEqual(Faults, Draw()),
         ?assertEqual(lists:sort(Kinds), lists:usort([Kind || #{kind := Kind} <- Faults])),
         [begin
              Named = [list_to_integer(Each) || Command <- Inject ++ Heal,
                                                Group <- groups(Command),
                                                Each <- string:lexemes(Group, ",")],
              ?assertMatch({_, [_ | _]}, {Kind, Named}),
              ?assertEqual({Kind, []},
                           {Kind, [Node || Node <- Named, Node < 1 orelse Node > Nodes]})
          end || #{kind := Kind, inject := Inject, heal := [_ | _] = Heal} <- Faults]
     end || Nodes <- [2, 3, 4, 5]].

groups([Command, Node, _]) when Command =:= "clock"; Command =:= "damage" -> [Node];
groups([_ | Groups]) -> Groups.

%% A verdict breaks a promise or not, as the mode says.
reported(_) ->
    Options = fun(Mode) ->
                      #{store => "mnesia", mode => Mode, nodes => 4, clients => 8, seed => 1,
                        out => "out"}
              end,
    Report = #{faults => #{pause => 2}, unjudged => 3, rounds => 1, seconds => 9, cases => 3,
               operations => #{ok => 5, unknown => 1}, verdicts => #{lost_write => {1, 2}},
               slowest_ms => 1500, stopped => none},
    Text = fun(Mode) -> iolist_to_binary(consistency_report:text(Options(Mode), Report)) end,
    ?assertMatch({match, _}, re:run(Text("sync_transaction"), "lost_write +1 +2  BROKEN")),
    ?assertMatch({match, _}, re:run(Text("async_dirty"), "lost_write +1 +2  none")),
    ?assertEqual([broken, kept, open, broken],
                 [consistency_report:outcome(Options(Mode), Report#{stopped := Stopped})
                  || {Mode, Stopped} <- [{"sync_transaction", none}, {"async_dirty", none},
                                         {"async_dirty", <<"a node">>},
                                         {"sync_transaction", <<"a node">>}]]),
    Json = jiffy:decode(consistency_report:json(Options("sync_transaction"),
                                                Report#{stopped := <<"a \"node\"\n">>}),
                        [return_maps]),
    ?assertMatch(#{<<"stopped">> := <<"a \"node\"\n">>, <<"kept">> := false,
                   <<"store">> := <<"mnesia">>, <<"mode">> := <<"sync_transaction">>,
                   <<"faults">> := #{<<"pause">> := 2}, <<"unjudged_faults">> := 3,
                   <<"verdicts">> := #{<<"lost_write">> := #{<<"cases">> := 1, <<"times">> := 2,
                                                             <<"promised">> := true}}}, Json),
    Ra = (Options("sync_transaction"))#{store := "ra"},
    ?assertMatch(<<"store ra, 4 nodes", _/binary>>,
                 iolist_to_binary(consistency_report:text(Ra, Report))),
    ?assertMatch(#{<<"store">> := <<"ra">>, <<"mode">> := null},
                 jiffy:decode(consistency_report:json(Ra, Report), [return_maps])).

%% The promises of docket's README. Only Ra promises that nobody reads an old case.
promised(_) ->
    Broken = fun(Store, Mode, Kind) ->
                     lists:member(Kind, promises:broken_by(#{store => Store, mode => Mode}))
             end,
    ?assertEqual(verdicts:kinds(), promises:broken_by(#{store => "ra", mode => "async_dirty"})),
    [?assertEqual({Mode, [Case, Write, Stale]},
                  {Mode, [Broken("mnesia", Mode, Kind)
                          || Kind <- [lost_case, lost_write, stale_read]]})
     || {Mode, Case, Write, Stale} <- [{"sync_transaction", true, true, false},
                                       {"transaction", false, false, false},
                                       {"sync_dirty", true, false, false},
                                       {"async_dirty", false, false, false}]].

%% A run that judged nothing neither kept nor broke a promise, and shows no table of zeros.
nothing_judged(_) ->
    Options = #{store => "mnesia", mode => "sync_transaction", nodes => 4, clients => 8, seed => 1,
                out => "out"},
    Report = #{faults => #{}, unjudged => 2, rounds => 1, seconds => 9, cases => 0,
               operations => #{failed => 5}, verdicts => #{}, slowest_ms => 1500,
               stopped => <<"nodes [2] were not ready">>},
    ?assertEqual(open, consistency_report:outcome(Options, Report)),
    ?assertEqual(open, consistency_report:outcome(Options, Report#{stopped := none})),
    ?assertEqual(<<"mode sync_transaction: nothing was judged\n\n"
                   "stopped early, so the last round, with 2 faults, is not judged: nodes [2] "
                   "were not ready\n">>,
                 unicode:characters_to_binary(consistency_report:text(Options, Report))),
    Json = jiffy:decode(consistency_report:json(Options, Report), [return_maps]),
    ?assertMatch(#{<<"kept">> := null, <<"cases">> := 0,
                   <<"stopped">> := <<"nodes [2] were not ready">>}, Json),
    ?assertEqual(#{}, maps:get(<<"verdicts">>, Json)).

%% Each option is checked before the stage starts.
wrong_arguments(Config) ->
    {0, Usage} = consistency(["--help"], Config),
    [?assertEqual({Words, {2, iolist_to_binary(["consistency: ", Line, $\n, Usage])}},
                  {Words, consistency(Words, Config)})
     || {Words, Line} <-
            [{["--kinds", "kill_none"], "--kinds cannot be kill_none"},
             {["--kinds", "clock"], "--kinds clock needs --program bench/cluster/with_clock"},
             {["--kinds", "disk_full", "--room", "none"],
              "--kinds disk_full needs --room with a size such as 64MB"},
             {["--nodes", "1"], "--nodes takes a number from 2 to 64"},
             {["--nodes", "65"], "--nodes takes a number from 2 to 64"},
             {["--faults", "0"], "--faults takes a number, 1 or more"},
             {["--time", "1m"], "--time takes a number, 1 or more"},
             {["--mode", "bad"], "--mode cannot be bad"},
             {["--store", "bad"], "--store cannot be bad"},
             {["--store", "ra", "--mode", "transaction"],
              "--store ra has no modes: leave --mode out"},
             {["--store", "ra", "--kinds", "damage"],
              "--kinds damage changes files of Mnesia: leave --store ra out"},
             {["--mode", "ets"],
              "--mode cannot be ets: it is for one node, so no run checks it"},
             {["--cpu", "x"], "--cpu takes a number from 0.01 to 64"},
             {["--tick", "0"], "--tick takes seconds, 1 to 999"},
             {["--room", "x"], "--room takes megabytes, such as 16MB"},
             {["--program", "/nowhere"],
              "--program takes an executable, and /nowhere is none"},
             {["--out", "/dev/null/x"], "--out cannot be /dev/null/x: not a directory"},
             {["--out", "/proc"], "--out cannot be /proc: no such file or directory"},
             {["--out", ""], "--out cannot be "},
             {["--out"], "--out needs a value"},
             {["--speed"], "there is no option --speed"},
             {["--speed", "1"], "there is no option --speed"},
             {["fast"], "cannot read fast"}]].

help(Config) ->
    {0, Usage} = consistency(["--mode", "bad", "--help"], Config),
    ?assertEqual({0, Usage}, consistency(["-h"], Config)),
    ?assertMatch(<<"usage: bench/cluster/consistency [OPTION...]\n", _/binary>>, Usage),
    [?assertNotEqual({Name, nomatch}, {Name, string:find(Usage, "  --" ++ Name)})
     || Name <- ["store", "mode", "faults", "kinds", "seed", "nodes", "clients", "time", "round",
                 "cpu", "out", "keep", "json", "help"]].

consistency(Words, Config) -> command("consistency", Words, Config).

command(Name, Words, Config) ->
    %% Not the directory of a stage that may be up.
    Dir = filename:join(proplists:get_value(priv_dir, Config), "stage"),
    running:run(filename:join([running:root(), "bench/cluster", Name]), Words,
                #{env => [{"STAGE_DIR", Dir}]}).

%% Without a stage, nothing is measured.
recovery(Config) ->
    {0, Usage} = command("recovery", ["--help"], Config),
    ?assertMatch(<<"usage: bench/cluster/recovery [OPTION...]\n", _/binary>>, Usage),
    ?assertEqual({0, Usage}, command("recovery", ["--kills", "0", "-h"], Config)),
    [?assertEqual({Words, {2, iolist_to_binary(["recovery: ", Line, $\n, Usage])}},
                  {Words, command("recovery", Words, Config)})
     || {Words, Line} <- [{["--bogus"], "there is no option --bogus"},
                          {["--kills"], "--kills needs a value"},
                          {["--kills", "0"], "--kills takes a number, 1 or more"},
                          {["bogus"], "cannot read bogus"}]],
    ?assertMatch({3, <<"recovery: no stage is up in ", _/binary>>},
                 command("recovery", [], Config)).

%% A node with a clock says in one line what it lacks.
clock(_) ->
    Program = filename:join(running:root(), "bench/cluster/with_clock"),
    Stage = [{"STAGE_ROOT", "/nowhere"}, {"RELEASE_NODE", "one"}, {"RELEASE_COOKIE", "one"}],
    [?assertEqual({Code, iolist_to_binary(["with_clock: ", Line, $\n])},
                  running:run(Program, [], #{env => Settings}))
     || {Settings, Code, Line} <-
            [{[], 2, "set STAGE_OTP to an installation of OTP 27 or newer"},
             {[{"STAGE_OTP", "/nowhere"}], 2,
              "only a stage can start this; use: stage up --program bench/cluster/with_clock"},
             {[{"STAGE_OTP", "/nowhere"} | Stage], 2,
              "a node with a clock needs a directory: leave --copies ram out"},
             {[{"STAGE_OTP", "/none"}, {"DOCKET_DIR", "/nowhere"} | Stage], 1,
              "there is no /none/bin/erl; set STAGE_OTP to an installation of OTP 27 or newer"}]].

%% A stage that does not start, and one whose clocks cannot move, leave no result.
not_started(Config) ->
    [begin
         ok = with_stage(Script, root(Config)),
         ?assertEqual({error, <<"stage: no\n">>}, consistency_run:run(options(Kinds, Config)))
     end || {Kinds, Script} <- [{[pause], "[ $1 != up ] || { echo stage: no; exit 1; }"},
                                {[clock], "[ $1 != clock ] || { echo stage: no; exit 1; }"}]].

%% A fault that the stage refuses does not count as one that happened: the run stops.
refused_fault(Config) ->
    Injected = filename:join(proplists:get_value(priv_dir, Config), "injected"),
    ok = with_stage(["[ $1 != pause ] || { echo x >>'", Injected, "'; echo stage: no; exit 1; }"],
                    root(Config)),
    true = os:putenv("STAGE_NAME", "t" ++ os:getpid()),
    {ok, Report} = consistency_run:run(options([pause], Config)),
    ?assertEqual({ok, <<"x\n">>}, file:read_file(Injected)),
    ?assertMatch(#{stopped := <<"pause: stage: no">>, faults := Faults, cases := 0}
                   when map_size(Faults) =:= 0, Report).

options(Kinds, Config) ->
    #{store => "mnesia", mode => "sync_transaction", nodes => 2, clients => 1, faults => 3,
      round => 3, kinds => Kinds, seed => 1, time => infinity, stage => [], keep => false,
      out => proplists:get_value(priv_dir, Config)}.

%% The faults of a round that nobody judges do not count as judged.
unjudged(Config) ->
    Once = filename:join(proplists:get_value(priv_dir, Config), "once"),
    ok = with_stage(["[ $1 != pause ] || [ ! -e '", Once, "' ] || { echo stage: no; exit 1; }\n"
                     "[ $1 != pause ] || : >'", Once, "'"], root(Config)),
    true = os:putenv("STAGE_NAME", "t" ++ os:getpid()),
    Result = consistency_run:run(options([pause], Config)),
    ?assertMatch({ok, #{stopped := <<"pause: stage: no">>, unjudged := 1, faults := Faults,
                        operations := Operations}}
                   when map_size(Faults) + map_size(Operations) =:= 0, Result).

%% A node that does not answer the last look at once is asked again.
last_look(Config) ->
    ok = with_stage("true", root(Config)),
    Lists = counters:new(1, []),
    ok = persistent_term:put(?MODULE, Lists),
    ok = with_client("list(_, _, C) ->\n"
                     "    Lists = persistent_term:get(consistency_SUITE),\n"
                     "    ok = counters:add(Lists, 1, 1),\n"
                     "    case counters:get(Lists, 1) of\n"
                     "        4 -> {error, refused};\n"
                     "        _ -> {ok, #{}, C}\n"
                     "    end.\n"),
    Result = consistency_run:run((options([pause], Config))#{faults := 1}),
    ?assertMatch({ok, #{stopped := none, faults := #{pause := 1}}}, Result),
    ?assertEqual(6, counters:get(Lists, 1)).

%% Another module takes the place of the client of the nodes: each node is ready, and refuses
%% everything.
with_client(List) ->
    Text = "-module(case_client).\n-export([new/0, ask/4, ready/2, list/3, closed/1]).\n"
        "new() -> #{}.\nclosed(_) -> ok.\nready(_, C) -> {true, C}.\n"
        "ask(_, Key, _, C) -> {Key, {failed, 503}, C}.\n" ++ List,
    {module, case_client} = code:load_binary(case_client, "client of the test", made:beam(Text)),
    ok.

root(Config) -> filename:join(proplists:get_value(priv_dir, Config), "root").

%% Another script takes the place of the stage.
with_stage(Script, Root) ->
    File = filename:join([Root, "examples", "docket", "stage"]),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, ["#!/bin/sh\n", Script, $\n]),
    ok = file:change_mode(File, 8#755),
    true = os:putenv("STAGE_ROOT", Root),
    ok.

%% SIGTERM ends a run at once, and the stage with it: while the stage starts, which then removes
%% what it has made, and while nodes run.
signalled(Config) ->
    Root = filename:join(proplists:get_value(priv_dir, Config), "signalled"),
    Dir = filename:join(Root, "stage"),
    Bench = filename:join([Root, "bench", "cluster"]),
    ok = filelib:ensure_path(Bench),
    [begin
         Copy = filename:join(Bench, filename:basename(File)),
         {ok, _} = file:copy(File, Copy),
         ok = file:change_mode(Copy, 8#755)
     end || File <- filelib:wildcard(filename:join([running:root(), "bench/cluster", "*"]))],
    Starting = "trap 'rm -r \"$STAGE_DIR\"; exit 130' TERM; sleep 1000 & wait",
    [begin
         ok = with_stage(["case $1 in\n"
                          "up) mkdir -p \"$STAGE_DIR\"; echo 2 >\"$STAGE_DIR/nodes\"\n", Up, ";;\n"
                          "down) rm -r \"$STAGE_DIR\" ;;\n"
                          "esac"], Root),
         Run = running:start(filename:join(Bench, "consistency"), ["--out", Root],
                             #{env => [{"STAGE_DIR", Dir}]}),
         ok = until_file(filename:join(Dir, "nodes")),
         ok = running:signal(Run, "TERM"),
         ?assertMatch({143, _}, running:ended(Run)),
         ?assertEqual({Up, false}, {Up, filelib:is_file(Dir)})
     end || Up <- [Starting, ""]].

until_file(File) ->
    case filelib:is_file(File) of
        true -> ok;
        false -> until_file(File)
    end.

%% A stage that was up before stays, and is no result.
taken(Config) ->
    Nodes = filename:join([proplists:get_value(priv_dir, Config), "stage", "nodes"]),
    ok = filelib:ensure_dir(Nodes),
    ok = file:write_file(Nodes, "2\n"),
    Out = filename:join(proplists:get_value(priv_dir, Config), "taken"),
    ?assertEqual({3, iolist_to_binary(["consistency: a stage is up in ", filename:dirname(Nodes),
                                       "; end it first\n"])},
                 consistency(["--out", Out], Config)),
    ?assert(filelib:is_file(Nodes)),
    ok = file:delete(Nodes).

%%% Properties

check(Property, Times) ->
    Quiet = fun(_, _) -> ok end,
    case proper:quickcheck(Property, [{numtests, Times}, {on_output, Quiet}, {max_size, 60}]) of
        true -> ok;
        Other -> error({property, Other, proper:counterexample()})
    end.

accepts_simulated(_) ->
    check(?FORALL(Moves, moves(), [] =:= verdicts:judge(simulated(Moves, 5))), 2000).

%% A fault in a history that is otherwise good gets the verdict with its name.
finds_planted(_) ->
    check(?FORALL({Moves, Fault}, {moves(), oneof([lost_write, lost_update, dirty_read, stale_read,
                                                   diverged])},
                  begin
                      {Operations, [{Version, Title} = Last]} =
                          {simulated([{change, 0, false}, {go_on, 0, false}, {go_on, 0, false}
                                     | [Move || {What, _, _} = Move <- Moves, What =/= remove]],
                                     5), [{1000, <<"planted">>}]},
                      Kinds = [Kind || {Kind, _} <- verdicts:judge(planted(Fault, Operations,
                                                                           Version, Title, Last))],
                      ?WHENFAIL(io:format("~p", [Kinds]), lists:member(Fault, Kinds))
                  end), 1000).

planted(lost_write, Operations, Version, Title, _) ->
    [extra(Operations, 0, {change, Version - 1, Title}, {ok, {Version, Title}}) | Operations];
planted(lost_update, Operations, _, Title, _) ->
    {From, _} = first(Operations),
    [extra(Operations, 0, {change, From, Title}, {ok, {From + 1, Title}}) | Operations];
planted(dirty_read, Operations, Version, Title, Last) ->
    [extra(Operations, 0, {change, Version - 1, Title}, {failed, 503}),
     extra(Operations, 1, read, {ok, Last}) | Operations];
planted(stale_read, Operations, _, _, _) ->
    [extra(Operations, 0, read, {ok, first(Operations)}) | Operations];
planted(diverged, Operations, _, _, _) ->
    [(extra(Operations, 0, final, {ok, first(Operations)}))#{node => 9} | Operations].

%% A simulated history begins with a create and a change.
first([#{input := {create, Title}} | _]) -> {1, Title}.

extra(Operations, More, Input, Result) ->
    Time = lists:max([Call || #{call := Call} <- Operations]) + 10 * (More + 1),
    #{number => 1_000_000 + More, client => planted, node => 1, key => <<"A">>, input => Input,
      call => Time, return => Time + 1, result => Result}.

%% The search and a check of all orders agree about short histories, good and bad.
agrees_with_all_orders(_) ->
    check(?FORALL(Operations, resize(5, list(any_operation())),
                  begin
                      Timed = case_register:timed(history(Operations)),
                      all_orders(Timed) =:=
                          (linearizable =:= linearizable:check(case_register, Timed, 100_000))
                  end), 5000).

any_operation() ->
    ?LET({Call, Long, Input, Kind, State}, {range(0, 12), range(1, 8), any_input(),
                                            oneof([ok, ok, refused, unknown]), any_state()},
         {Call, Call + Long, 1, Input, any_result(Kind, Input, State)}).

any_input() ->
    frequency([{2, {create, <<"a">>}}, {3, {change, range(1, 2), oneof([<<"b">>, <<"c">>])}},
               {1, {remove, range(1, 2)}}, {3, read}]).

any_state() -> oneof([absent, {1, <<"a">>}, {2, <<"b">>}, {2, <<"c">>}, {3, <<"c">>}]).

any_result(unknown, Input, _) when Input =/= read -> {unknown, timeout};
any_result(refused, Input, State) when Input =/= read -> {refused, State};
any_result(_, {create, Title}, _) -> {ok, {1, Title}};
any_result(_, {change, From, Title}, _) -> {ok, {From + 1, Title}};
any_result(_, {remove, _}, _) -> {ok, absent};
any_result(_, read, State) -> {ok, State}.

%% Tells whether an order explains all results, by trying each one.
all_orders(Timed) -> any_order(Timed, absent).

any_order(Timed, State) ->
    lists:all(fun({_, Return, _}) -> Return =:= infinity end, Timed)
        orelse lists:any(fun({Call, _, Operation} = First) ->
                                 Others = lists:delete(First, Timed),
                                 lists:all(fun({_, Return, _}) -> Return >= Call end, Others)
                                     andalso case case_register:step(Operation, State) of
                                                 {ok, Next} -> any_order(Others, Next);
                                                 impossible -> false
                                             end
                         end, Timed).

%%% A simulated service that keeps all promises

%% A move starts an operation of a client that rests. Its version may be behind. Otherwise the move
%% lets the client's operation take effect, or return. Nobody waits for a hasty operation: it takes
%% effect later, or never.
moves() -> list({frequency([{4, change}, {3, read}, {1, remove}, {6, go_on}]), range(0, 40),
                 frequency([{5, false}, {1, true}])}).

%% @doc Makes the history of a single register with some clients.
-spec simulated([{change | read | remove | go_on, non_neg_integer(), boolean()}], pos_integer()) ->
          [history:operation()].
simulated(Moves, Clients) ->
    Create = {0, 1, 1, {create, <<"a">>}, {ok, {1, <<"a">>}}},
    {Done, Now, State, Busy} =
        lists:foldl(fun({What, Choice, Hasty}, Sim) ->
                            moved(What, Choice rem Clients, Choice div Clients, Hasty, Sim)
                    end, {[Create], 2, {1, <<"a">>}, #{}}, Moves),
    %% Those that have no result yet never get one.
    Rest = [{Call, none, 1, Input, {unknown, ended}}
            || {_, {Call, Input, _}} <- maps:to_list(Busy)],
    history(lists:reverse(Done) ++ Rest
            ++ [{Now + Node, Now + Node + 5, Node, final, {ok, State}} || Node <- [1, 2, 3]]).

moved(What, Client, Lag, Hasty, {Done, Now, State, Busy}) ->
    case Busy of
        #{Client := {Call, Input, waits}} ->
            {Result, Next} = effect(Input, State),
            {Done, Now + 1, Next, Busy#{Client := {Call, Input, Result}}};
        #{Client := {Call, Input, Result}} ->
            {[{Call, Now, 1, Input, Result} | Done], Now + 1, State, maps:remove(Client, Busy)};
        #{} when What =:= go_on ->
            %% One that nobody waits for takes effect.
            case [Key || {hasty, _} = Key <- maps:keys(Busy)] of
                [Key | _] ->
                    {Call, Input, waits} = maps:get(Key, Busy),
                    {_, Next} = effect(Input, State),
                    {[{Call, none, 1, Input, {unknown, timeout}} | Done], Now + 1, Next,
                     maps:remove(Key, Busy)};
                [] -> {Done, Now, State, Busy}
            end;
        #{} ->
            Key = case Hasty of true -> {hasty, Now}; false -> Client end,
            {Done, Now + 1, State, Busy#{Key => {Now, input(What, Lag, Now, State), waits}}}
    end.

input(read, _, _, _) -> read;
input(change, Lag, Now, State) -> {change, version(State, Lag), integer_to_binary(Now)};
input(remove, Lag, _, State) -> {remove, version(State, Lag)}.

version({Version, _}, Lag) -> max(1, Version - Lag rem 2);
version(absent, _) -> 1.

effect(read, State) -> {{ok, State}, State};
effect({change, From, Title}, {From, _}) -> {{ok, {From + 1, Title}}, {From + 1, Title}};
effect({remove, From}, {From, _}) -> {{ok, absent}, absent};
effect(_, State) -> {{refused, State}, State}.
