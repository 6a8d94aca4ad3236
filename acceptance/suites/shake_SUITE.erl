%% Tests outputs of --shake with --missing crash: their size, their unchanged behavior, and
%% messages that tell the user what to do. The groups `shaken' of launcher_SUITE and service_SUITE
%% test that the programs still work; cold_SUITE tests --missing load.
-module(shake_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([hello_size/1, name_without_distribution/1, relay_size/1, whole_modules/1]).
-export([same_faults/1, same_bytes/1]).
-export([without_terms/1, without_control/1, end_of_input/1]).
-export([direct_calls/1, direct_calls_are_not_off/1]).
-export([why_in/1, why_cut/1, by_reason/1, features_are_listed/1, features_exist/1]).
-export([removed_functions/1, asked_for_a_removed_function/1]).
-export([names_in_data/1, names_of_otp/1, costs/1, costs_of_dynamic_calls/1, control_is_removed/1]).
-export([dynamic_calls/1, all_dynamic_calls/1, who_asks/1, feature_that_is_called/1, keep/1,
         bad_keep/1, plans_of_others/1, file_with_a_plans_name/1, plan_goes_with_it/1]).

%% The limits of docs/shaking.md: bytes of the pack, with the license notices.
-define(HELLO, 350_000).
-define(RELAY, 600_000).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= init_per_suite,
               F =/= end_per_suite, F =/= module_info].

init_per_suite(Config) ->
    [{hello, running:build(running:example("hello"), out("hello", Config), functions())} | Config].

end_per_suite(_) -> ok.

%% Sizes

hello_size(Config) ->
    Hello = proplists:get_value(hello, Config),
    ?assertEqual({0, <<"Hello from one file.\n">>}, running:alone(Hello, [], #{})),
    ?assert(pack(Hello) =< ?HELLO),
    %% Only networked nodes need the port mapper.
    {ok, #{pack := #{entries := Entries}}} = whittle_pack:read(Hello),
    ?assertEqual([], [Path || #{path := <<"bin/", _/binary>> = Path} <- Entries]).

%% Without distribution, a name has no effect, and one line says so.
name_without_distribution(Config) ->
    [?assertEqual({0, <<"hello: the node name a@localhost has no effect, because this file was "
                        "built without distribution: build it with --feature +distribution\n"
                        "Hello from one file.\n">>},
                  running:run(proplists:get_value(hello, Config), [],
                              #{env => [{"RELEASE_NODE", "a@localhost"} | Env]}))
     || Env <- [[], [{"ERL_DIST_PORT", "9777"}]]].

relay_size(Config) ->
    Relay = running:build(running:example("relay"), out("relay", Config),
                          functions() ++ ["--remote", "none"]),
    ?assert(pack(Relay) =< ?RELAY),
    %% The specification of a child has both names.
    [begin
         {0, Why} = running:whittle(["why", Relay, Child]),
         ?assertMatch({match, _}, re:run(Why, "may be called: relay_sup:init/1 mentions its module "
                                              "and its name\n"))
     end || Child <- ["relay_listener:start_link/0", "relay_nodes:start_link/0",
                      "relay_client:start_link/1"]].

%% Each remaining module has all its functions; the other modules are gone.
whole_modules(Config) ->
    Hello = running:build(running:example("hello"), out("modules", Config),
                          ["--shake", "modules", "--missing", "crash"]),
    ?assertEqual({0, <<"Hello from one file.\n">>}, running:alone(Hello, [], #{})),
    ?assert(pack(Hello) > pack(proplists:get_value(hello, Config))),
    {0, Why} = running:whittle(["why", Hello, "lists:enumerate/1"]),
    ?assertMatch({match, _}, re:run(Why, "Whittle keeps its whole module for ")).

%% Reports of crashes, restarts, formatted text and the exit code are the same. Only the order of
%% the output of two processes differs between starts.
same_faults(Config) ->
    [{Code, Whole}, {CodeOfShaken, Shaken}] =
        [begin
             {Ended, Output} = running:run(running:build(running:fixture("faults"),
                                                         out(Name, Config), Options), []),
             {Ended, binary:split(running:same(Output), <<"\n">>, [global])}
         end || {Name, Options} <- [{"whole", []},
                                    {"shaken", functions() ++ ["--atoms", "none"]}]],
    ?assertEqual({7, 7}, {Code, CodeOfShaken}),
    ?assert(length(Whole) > 400),
    ?assertEqual({[], []}, {Whole -- Shaken, Shaken -- Whole}).

same_bytes(Config) ->
    Again = running:build(running:example("hello"), out("again/hello", Config), functions()),
    ?assertEqual(file:read_file(proplists:get_value(hello, Config)), file:read_file(Again)).

%% If a feature is off, one line names the option that turns it on, and the program stops there.
without_terms(Config) ->
    Hello = proplists:get_value(hello, Config),
    [begin
         {1, Said} = running:run(Hello, [], #{env => [{"ERL_FLAGS", Flags}]}),
         ?assertEqual(<<"this file cannot read Erlang terms (\"foo\"): build it with --feature "
                        "+terms">>, string:trim(Said))
     end || Flags <- ["-kernel foo 1", "-hello foo 1"]],
    File = out("given.config", Config),
    ok = file:write_file(File, "[]."),
    {1, OfFile} = running:run(Hello, [], #{env => [{"RELEASE_SYS_CONFIG", File}]}),
    ?assertMatch({match, _}, re:run(OfFile, "^this file cannot read Erlang terms \\(")).

without_control(Config) ->
    Hello = proplists:get_value(hello, Config),
    %% A missing name or cookie is not the cause, so this line comes first.
    [?assertEqual({1, <<"hello: --whittle-ping: this file cannot send requests to a node: build "
                        "it with --feature +control\n">>},
                  running:run(Hello, ["--whittle-ping"],
                              #{env => [{"RELEASE_NODE", "nobody"} | Cookie]}))
     || Cookie <- [[{"HOME", "/nonexistent"}], [{"RELEASE_COOKIE", "crumb"}]]],
    {0, Help} = running:run(Hello, ["--whittle-help"]),
    ?assertMatch({match, _}, re:run(Help, "--whittle-info")),
    ?assertEqual(nomatch, re:run(Help, "--whittle-ping")).

%% The program reads nothing there, and the process of standard input itself asks.
end_of_input(_) ->
    [?assertEqual(erl_scan:tokens([], eof, At), whittle_start_without:terms([], eof, At))
     || At <- [1, {3, 1}]],
    ?assertEqual(erl_scan:tokens([], eof, 1, [text]),
                 whittle_start_without:terms([], eof, 1, [text])).

%% The program's calls in kernel and stdlib turn on the features that they use, and no others. So
%% the program behaves as before.
direct_calls(Config) ->
    {ok, Calls} = file:consult(filename:join(running:fixture("direct"), "calls.config")),
    Whole = running:build(escript("whole", [["main([\"", atom_to_list(Name), "\"]) -> print(catch ",
                                            Call, ")"] || {Name, Call, _} <- Calls], Config),
                          out("direct/whole", Config)),
    %% Two builds at a time on two cores, because a build mostly uses one core.
    Each = whittle_work:map(fun({Name, Call, On}) ->
                                    {Shaken, Features} = direct(Name, Call, Config),
                                    {Name, {said(Whole, Name, Config), On},
                                     {said(Shaken, Name, Config), Features}}
                            end, Calls),
    ?assertEqual([], [Different || {_, Expected, Got} = Different <- Each, Got =/= Expected]).

%% Builds the program, and returns the features that are on.
direct(Name, Call, Config) ->
    Shaken = out("direct/" ++ atom_to_list(Name), Config),
    Source = escript("direct_" ++ atom_to_list(Name), [["main(_) -> print(catch ", Call, ")"]],
                     Config),
    {0, Said} = running:whittle(["build", Source, "-o", Shaken] ++ functions()
                                ++ ["--data", "none", "--remote", "none"]),
    On = case re:run(Said, "note: feature (\\w+) is on", [global, {capture, [1], list}]) of
             {match, Matches} -> [list_to_atom(Feature) || [Feature] <- Matches];
             nomatch -> []
         end,
    {Shaken, On}.

escript(Name, Clauses, Config) ->
    File = out("direct/" ++ Name ++ ".escript", Config),
    ok = file:write_file(File, ["#!/usr/bin/env escript\n%%\n-mode(compile).\n",
                                lists:join(";\n", Clauses), ".\n",
                                "print(X) -> io:format(\"~p~n\", [X]).\n"]),
    File.

said(Program, Name, Config) ->
    Dir = out("direct/in/" ++ filename:basename(Program) ++ "." ++ atom_to_list(Name), Config),
    ok = filelib:ensure_path(Dir),
    ok = file:write_file(filename:join(Dir, "terms.txt"), "{b, <<\"x\">>}.\n{a, \"y\"}.\n"),
    ok = file:write_file(filename:join(Dir, "script.txt"), "X = 1 + 1.\n{X, <<X>>}.\n"),
    running:run(Program, [atom_to_list(Name)], #{cd => Dir, input => "{read,1}.\n"}).

direct_calls_are_not_off(Config) ->
    [?assertEqual({1, iolist_to_binary(["whittle: the feature ", Feature, " cannot be off: ", Name,
                                        ":main/1 uses it (", What, "); remove -", Feature,
                                        " from --feature\n"])},
                  refused(escript(Name, [["main(_) -> ", Call]], Config),
                          ["--data", "none", "--feature", "-" ++ Feature], Config))
     || {Name, Call, Feature, What} <-
            [{"consults", "file:consult(x)", "terms", "file:consult/1"},
             {"scripts", "file:script(x)", "terms", "file:script/1"},
             {"evals", "file:eval(x)", "eval", "file:eval/1"},
             {"reads", "io:read('')", "terms", "io:read/1"},
             {"listens", "gen_tcp:listen(0, [inet6])", "inet6", "inet6"},
             {"logs", "logger:add_handler(h, logger_disk_log_h, #{})", "disk_log",
              "logger_disk_log_h"}]].

%% Explanations

why_in(Config) ->
    Hello = proplists:get_value(hello, Config),
    {0, Text} = running:whittle(["why", Hello, "hello:start/2"]),
    %% This is the path of the calls, and not two names that appear anywhere.
    ?assertMatch(<<"hello:start/2 is kept\n"
                   "  may be called by application_master:start_it_old/4, which calls a "
                   "function of this name in a module that it chooses while it runs; the "
                   "application hello mentions the module\n"
                   "  called by application_master:start_it/4\n", _/binary>>, Text),
    ?assertMatch({match, _}, re:run(Text, "\n  called by the boot script\n\n$")),
    ?assert(length(binary:split(Text, <<"\n">>, [global])) < 16),
    {0, Json} = running:whittle(["why", Hello, "hello:start/2", "--json"]),
    ?assertMatch(<<"[{\"cold\":false,\"function\":\"hello:start/2\",\"kept\":true,\"way\":"
                   "[{\"by\":\"application_master:start_it_old/4\",\"kind\":\"applied\","
                   "\"module\":\"the application hello\"}", _/binary>>, Json).

why_cut(Config) ->
    Hello = proplists:get_value(hello, Config),
    ?assertMatch({0, <<"sofs:image/2 was removed: no kept function calls it\n\n">>},
                 running:whittle(["why", Hello, "sofs:image/2"])),
    {0, Peer} = running:whittle(["why", Hello, "peer:supervision_child_spec/0"]),
    ?assertEqual(<<"peer:supervision_child_spec/0 was removed\n"
                   "  the feature peer is off: called by kernel:init/1\n\n">>, Peer),
    ?assertEqual({1, <<"whittle: the input of the build had no function nobody:f/1: correct the "
                       "name\n">>},
                 running:whittle(["why", Hello, "nobody:f/1"])),
    ?assertEqual({1, <<"whittle: the input of the build had no function list:flaten/1 (did you "
                       "mean lists:flatten/1?): correct the name\n">>},
                 running:whittle(["why", Hello, "list:flaten/1"])),
    ?assertEqual({1, <<"whittle: the input of the build had no module nobody: correct the "
                       "name\n">>},
                 running:whittle(["why", Hello, "nobody"])),
    [?assertMatch({1, {_, _}}, {Exit, binary:match(Json, Code)})
     || {Name, Code} <- [{"nobody:f/1", <<"\"code\":\"no_such_function\"">>},
                         {"nobody", <<"\"code\":\"no_such_module\"">>}],
        {Exit, Json} <- [running:whittle(["why", "--json", Hello, Name])]],
    %% For a module there is a line for each of its functions.
    {0, Lists} = running:whittle(["why", Hello, "lists"]),
    ?assertMatch({match, _}, re:run(Lists, "^lists:reverse/1:  called by ", [multiline])),
    ?assertMatch({match, [_]}, re:run(Lists, "^lists: \\d+ functions were removed, because no kept "
                                             "function calls them: .* and \\d+ more$",
                                      [multiline, global, {capture, first}])),
    ?assertEqual(nomatch, re:run(Lists, "fun-|^ | was removed", [multiline])),
    {0, Sofs} = running:whittle(["why", Hello, "sofs"]),
    ?assertMatch({match, _}, re:run(Sofs, "^sofs: all \\d+ functions were removed, .*\n$")).

by_reason(Config) ->
    Size = ["size", proplists:get_value(hello, Config), "--by", "reason"],
    {0, Text} = running:whittle(Size),
    ?assertMatch({match, _}, re:run(Text, "(?m)^the boot script +[0-9,]+ +[0-9,]+ +\\d+")),
    ?assertMatch({match, _}, re:run(Text, "^code, by the application or entry point that needs it "
                                    "+functions")),
    %% All hot functions of the program's own module.
    {0, Own} = running:whittle(["why", proplists:get_value(hello, Config), "hello"]),
    [Line] = [Line || <<"the application hello", _/binary>> = Line
                          <- binary:split(Text, <<"\n">>, [global])],
    {match, [Functions]} = re:run(Line, "hello +(\\d+) ", [{capture, [1], list}]),
    {match, Kept} = re:run(Own, "^hello:[a-z_]+/\\d+:", [multiline, global]),
    ?assert(list_to_integer(Functions) >= length(Kept)),
    ?assertMatch({match, _}, re:run(Text, "(?m)^shell +\\d,\\d\\d\\d ")),
    %% No feature is on, so there is no table of features.
    ?assertEqual(nomatch, re:run(Text, "features that are on")),
    {0, Json} = running:whittle(Size ++ ["--json"]),
    ?assertMatch({match, _}, re:run(Json, "\"on\":\\[\\]")).

features_are_listed(_) ->
    {0, Text} = running:whittle(["features"]),
    ?assertMatch({match, _}, re:run(Text, "(?m)^distribution +connections to other nodes")).

%% Data names these functions: the start in the .app file, its environment, attributes, the list of
%% modules, keys of maps, files of terms, and schemas. The program calls them as in a whole system.
names_in_data(Config) ->
    [Whole, Shaken] = [running:run(running:build(running:fixture("named"), out(Name, Config),
                                                 Options), [])
                       || {Name, Options} <- [{"named/whole", []},
                                              {"named/shaken", functions() ++ ["--data", "none"]}]],
    ?assertMatch({0, <<"arguments: called\n", _/binary>>}, Whole),
    ?assertEqual(nomatch, re:run(element(2, Whole), "error")),
    [?assertMatch({Line, {match, _}}, {Line, re:run(element(2, Whole), ["\n", Line, "\n"])})
     || Line <- ["request: {called,\"/\"}", "information: \\[{called,whole}\\]",
                 "running: called", "option: {ok,\"in\"}"]],
    ?assertEqual(Whole, Shaken),
    ?assertMatch({0, <<"named_calls:from_nowhere/0 was removed", _/binary>>},
                 running:whittle(["why", out("named/shaken", Config),
                                  "named_calls:from_nowhere/0"])).

%% OTP's applications compute names of functions, and an ssh daemon edits lines.
names_of_otp(Config) ->
    Source = filename:join(running:fixture("shells"), "shells.escript"),
    Closed = ["--remote", "none", "--data", "none", "--atoms", "none", "--code", "none"],
    [Whole, Shaken] =
        [begin
             Dir = out("shells/" ++ Name ++ ".keys", Config),
             ok = filelib:ensure_path(Dir),
             running:run(running:build(Source, out("shells/" ++ Name, Config), Options), [Dir])
         end || {Name, Options} <- [{"whole", []}, {"shaken", functions() ++ Closed}]],
    ?assertMatch({0, <<"[{xmlObj,number,2}", _/binary>>}, Whole),
    ?assertMatch({match, _}, re:run(element(2, Whole), "hello ann.*got abc")),
    ?assertEqual(Whole, Shaken).

%% The `undef' of a removed function says so to the process that catches it, and in the log. The
%% `undef' of a function that never existed is unchanged. OTP treats a removed handle_info/2 as one
%% that a module does not have.
removed_functions(Config) ->
    File = running:build(running:fixture("removed"), out("removed", Config),
                         functions() ++ ["--atoms", "none"]),
    {0, Printed} = running:run(File, []),
    {match, Lines} = re:run(Printed, "^{\\w+,.*}\\.$", [multiline, global, {capture, first, list}]),
    Said = [begin
                {ok, Tokens, _} = erl_scan:string(re:replace(Line, "<\\d+\\.\\d+\\.\\d+>", "pid",
                                                             [global, {return, list}])),
                {ok, Term} = erl_parse:parse_term(Tokens),
                Term
            end || [Line] <- Lines],
    [Gone, Two, Third] =
        [lists:append(["undefined function removed_parts:", Name, ": removed by Whittle; run "
                       "`whittle why removed removed_parts:", Name, "`"])
         || Name <- ["gone/1", "two/2", "third/0"]],
    [Whole, OfWhole, Cast] =
        [lists:append(["undefined function removed_whole:", Name, ": the module was removed by "
                       "Whittle; run `whittle why removed removed_whole`"])
         || Name <- ["f/1", "g/0", "handle_cast/2"]],
    Bif = "undefined function ets:match_object/3: removed by Whittle; run `whittle why removed "
        "ets:match_object/3`",
    Info = fun(Text) -> [{error_info, #{module => whittle_start_removed, cause => Text}}] end,
    Stack = fun(Mfa, Arity, Text) ->
                    {erlang:append_element(Mfa, Info(Text)), {removed, Arity, Info(Text)}}
            end,
    ?assertEqual([{direct, Stack({removed_parts, gone, [1]}, 2, Gone)},
                  {logged, {warning, list_to_binary(Gone)}},
                  {again, Stack({removed_parts, gone, [2]}, 2, Gone)},
                  {applied, Stack({removed_parts, two, [a, b]}, 2, Two)},
                  {logged, {warning, list_to_binary(Two)}},
                  {whole, Stack({removed_whole, f, [1]}, 1, Whole)},
                  {logged, {warning, list_to_binary(Whole)}},
                  {whole_again, Stack({removed_whole, g, []}, 1, OfWhole)},
                  {bif, Stack({ets, match_object, [a, b, c]}, 0, Bif)},
                  {logged, {warning, list_to_binary(Bif)}},
                  {never, {{removed_parts, never, [1], []}, {removed, 1, []}}},
                  {nobody, {{nobody, nothing, [], []}, {removed, 0, []}}},
                  {depth, 8},
                  {three, Stack({removed_parts, third, []}, 2, Third)},
                  {logged, {warning, list_to_binary(Third)}},
                  {spawned, {removed_parts, gone, [3], Info(Gone)}},
                  {proc_lib, {removed_parts, gone, [3], Info(Gone)}},
                  {callback, {removed_whole, handle_cast, [x, state], Info(Cast)}},
                  {handle_info, normal}],
                 [Each || {_, Term} = Each <- Said, not is_binary(Term)]),
    Texts = maps:from_list([Each || {_, Text} = Each <- Said, is_binary(Text)]),
    [?assertNotEqual(nomatch, binary:match(maps:get(What, Texts), list_to_binary(Text)))
     || {What, Text} <- [{explained, "exception error: " ++ Gone ++ "\n"}, {spawned_log, Gone},
                         {proc_lib_log, Gone}, {callback_log, Cast},
                         {never_explained, "exception error: undefined function "
                                           "removed_parts:never/1\n"},
                         {badarg, "exception error: bad argument\n"},
                         {handle_info_log, "Undefined handle_info in removed_whole"}]],
    ?assertMatch({0, <<"removed_parts:gone/1 was removed", _/binary>>},
                 running:whittle(["why", File, "removed_parts:gone/1"])).

%% A request to a running node gets the explanation too.
asked_for_a_removed_function(Config) ->
    File = running:build(running:example("relay"), out("asked_relay", Config),
                         functions() ++ ["--remote", "none", "--feature", "+control,-eval"]),
    Env = [{"RELEASE_NODE", "shake_asked@localhost"}, {"RELEASE_COOKIE", "crumb"},
           {"ERL_FLAGS", "-relay port 0"}, {"ERL_DIST_PORT", integer_to_list(running:free_port())}],
    Relay = running:start(File, [], #{env => Env}),
    _ = running:until(Relay, <<"listens on port">>),
    [?assertEqual({1, iolist_to_binary(["asked_relay: exception error: undefined function ", Said,
                                        "`\n"])},
                  running:run(File, Words, #{env => Env}))
     || {Words, Said} <-
            [{["--whittle-rpc", "lists", "zf", "a", "b"],
              "lists:zf/2: removed by Whittle; run `whittle why asked_relay lists:zf/2"}]],
    [?assertEqual({1, iolist_to_binary(["asked_relay: the file ", Said, "\n"])},
                  running:run(File, Words, #{env => Env}))
     || {Words, Said} <-
            [{["--whittle-eval", "1+1"],
              "cannot evaluate Erlang: build with --feature +eval"},
             {["--whittle-remote"], "has no shell: build with --feature +eval,+shell"}]],
    running:signal(Relay, "TERM"),
    {0, _} = running:ended(Relay).

%% Functions, bytes and memory before and after, in total and for each application.
costs(Config) ->
    [begin
         {0, Said} = running:whittle(["build", running:example("hello"), "-o", out("costs", Config),
                                      "--shake", "functions", "--missing", Missing]),
         [?assertMatch({match, _}, re:run(Said, Line, [multiline]))
          || Line <- ["^all( +[0-9,]+){3}$", "^hot( +[0-9,]+){3}$",
                      ["^", Rest, "( +[0-9,]+){3}$"],
                      ["^application +hot +", Rest, " +retained$"],
                      "^hello +\\d+ +\\d+ +\\d+$"]]
     end || {Missing, Rest} <- [{"load", "cold"}, {"crash", "removed"}]].

%% A misspelled name in features.config would have no effect.
features_exist(_) ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "features.config")),
    Get = fun(Key, Feature) -> maps:get(Key, Feature, []) end,
    Named = [Named || {_, Feature} <- Terms,
                      Named <- Get(functions, Feature) ++ Get(except, Feature)
                          ++ [Mfa || {Mfa, _} <- Get(answers, Feature)]
                          ++ lists:flatten(Get(used, Feature))],
    Functions = maps:groups_from_list(fun({M, _, _}) -> M end, fun({_, F, A}) -> {F, A} end,
                                      [Mfa || {_, _, _} = Mfa <- Named]),
    Modules = lists:usort(maps:keys(Functions)
                          ++ lists:append([Get(modules, Feature) || {_, Feature} <- Terms])),
    Files = maps:from_list([{M, File} || M <- Modules, File <- module_file(M)]),
    %% Each other module is in the newest OTP, but these belong to the debugger and to OTP 27.
    Absent = Modules -- (maps:keys(Files) ++ [whittle_control, whittle_control_end]),
    Newest = filelib:is_dir(filename:join(running:otp_root(), "releases/29")),
    ?assert(not Newest orelse Absent =:= [i, shell_docs_test], Absent),
    %% An older OTP lacks more, but not most.
    ?assert(2 * length(Absent) < length(Modules), Absent),
    ?assertEqual([], [{M, FA} || {M, FAs} <- maps:to_list(Functions),
                                 #{M := File} <- [Files],
                                 FA <- lists:usort(FAs) -- functions(File)]).

module_file(M) ->
    filelib:wildcard(filename:join([running:otp_root(), "lib/*/ebin", atom_to_list(M) ++ ".beam"])).

functions(File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Module} = whittle_beam:disassemble(Beam),
    maps:keys(whittle_beam_module:functions(Module)).

%% The retained size of a dynamic call, the code that makes it, and the option that prevents it.
costs_of_dynamic_calls(Config) ->
    Source = escript("costly", [["main([X]) -> print({file:consult(X), 1})"]], Config),
    Build = fun(Options) ->
                    {0, Json} = running:whittle(["build", Source, "-o", out("costly", Config),
                                                 "--shake", "functions", "--json" | Options]),
                    Lines = binary:split(Json, <<"\n">>, [global, trim]),
                    lists:last(Lines)
            end,
    Text = Build([]),
    {match, [Bytes]} = re:run(Text, "\"by\":\\[\"costly\"\\],"
                                    "\"closed_by\":\"--data none, or change the calls of costly\","
                                    ".*\"kind\":\"data\",\"retained\":\\{\"bytes\":(\\d+),",
                              [{capture, [1], list}]),
    %% erl_scan and erl_parse.
    ?assert(list_to_integer(Bytes) > 50_000),
    ?assertMatch({match, _}, re:run(Text, "\"opens\":\\[\"data\"\\]")),
    ?assertMatch({match, _}, re:run(Build(["--data", "none"]),
                                    "\"closed_by\":\"--data none rules them out; change the calls "
                                    "of costly\"")),
    ?assertMatch({match, _}, re:run(Build(["--data", "lists:sum/1"]),
                                    "\"closed_by\":\"--data declares them; change the calls of "
                                    "costly\"")),
    %% An application that the user did not ask for can go.
    Ebin = out("libs/reader/ebin", Config),
    Reader = made:file(filename:join(Ebin, "reader.erl"),
                       "-module(reader). -export([read/1]). read(X) -> file:consult(X)."),
    _ = made:file(filename:join(Ebin, "reader.app"),
                  "{application, reader, [{vsn, \"1\"}, {modules, [reader]}, "
                  "{applications, [kernel, stdlib]}]}."),
    _ = made:file(out("libs/asked/ebin/asked.app", Config),
                  "{application, asked, [{vsn, \"1\"}, {modules, []}, "
                  "{applications, [kernel, stdlib, reader]}]}."),
    {0, _} = running:run(os:find_executable("erlc"), ["-o", Ebin, Reader]),
    _ = escript("costly", [["main([X]) -> print({reader:read(X), file:consult(X)})"]], Config),
    Libs = os:getenv("ERL_LIBS"),
    true = os:putenv("ERL_LIBS", out("libs", Config)),
    try
        ?assertMatch({match, _},
                     re:run(Build(["--app", "asked"]),
                            "\"closed_by\":\"--data none, or remove reader and change the calls "
                            "of costly\""))
    after
        Libs =:= false andalso os:unsetenv("ERL_LIBS"),
        Libs =:= false orelse os:putenv("ERL_LIBS", Libs)
    end.

%% The build tells a user who wants to ask the running program that it will not answer.
control_is_removed(Config) ->
    Said = fun(Options, Words) ->
                   {0, Printed} = running:whittle(["build", running:example("hello"), "-o",
                                                   out("asked", Config) | functions() ++ Options]),
                   re:run(Printed, Words, [{capture, none}])
           end,
    Notes = fun(Options) ->
                    Said(Options, "removes --whittle-ping, --whittle-pid, --whittle-stop, "
                                  "--whittle-eval, --whittle-rpc and --whittle-remote: "
                                  "build with --feature \\+control")
            end,
    ?assertEqual([match, nomatch, nomatch],
                 [Notes(Options) || Options <- [[], ["--feature", "+control", "--remote", "none"],
                                                ["--feature", "-control"]]]),
    %% Without the feature eval, the program answers some requests.
    Eval = "removes --whittle-eval and --whittle-remote: build with --feature \\+eval",
    ?assertEqual([nomatch, match, nomatch, nomatch],
                 [Said(Options, Eval)
                  || Options <- [[], ["--feature", "+control", "--remote", "none"],
                                 ["--feature", "+control,+eval", "--remote", "none"],
                                 ["--feature", "+control,-eval", "--remote", "none"]]]).

%% Refusals

dynamic_calls(Config) ->
    ?assertEqual(
       {1, <<"whittle: the build cannot tell which functions to keep, because other nodes may call "
             "any exported function (distribution is on): name them with --remote "
             "M[:F[/A]],..., or give --remote none if there are none\n">>},
       refused(running:example("relay"), [], Config)),
    ?assertEqual(
       {1, <<"whittle: the build cannot tell which functions to keep, because atoms that the "
             "program "
             "makes from text may name any module or function (faults:names/0, faults:texts/0): "
             "name them with --atoms M[:F[/A]],..., or give --atoms none if there are none\n">>},
       refused(running:fixture("faults"), [], Config)),
    Declared = ["--data", "none", "--atoms", "cut_checks"],
    ?assertEqual(
       {1, <<"whittle: the build cannot tell which functions to keep, because code that the "
             "program "
             "loads while it runs may call any function (cut_checks:funs/1, cut_checks:loops/1, "
             "cut_checks:purging/1 and 1 more): name them with --code M[:F[/A]],..., or give "
             "--code none if there are none\n">>},
       refused(running:fixture("cut"), Declared, Config)).

%% One error lists all dynamic calls, with the words that declare them all.
all_dynamic_calls(Config) ->
    Source = escript("all_calls", [["main([X]) -> print({file:consult(X), list_to_atom(X), "
                                    "code:load_abs(X)})"]], Config),
    ?assertEqual(
       {1, <<"terms or code that the program reads as text may name any function "
             "(all_calls:main/1)\n"
             "atoms that the program makes from text may name any module or function "
             "(all_calls:main/1)\n"
             "code that the program loads while it runs may call any function "
             "(all_calls:main/1)\n"
             "whittle: the build cannot tell which functions these calls need: give --data none "
             "--atoms none --code none if they need none, or name the functions as "
             "M[:F[/A]],... instead of `none'\n">>},
       refused(Source, [], Config)),
    running:build(Source, out("all_calls", Config),
                  functions() ++ ["--data", "none", "--atoms", "none", "--code", "none"]).

%% A note names the functions that ask for all functions or modules: they see the remaining ones.
who_asks(Config) ->
    Build = ["build", running:fixture("cut"), "-o", out("asks", Config), "--data", "none",
             "--atoms", "cut_checks", "--code", "none" | functions()],
    {0, Said} = running:whittle(Build),
    ?assertMatch({match, _}, re:run(Said, "\nnote: the program asks which functions or modules "
                                          "exist \\(cut_checks:infos/1, .*\\): the answers do "
                                          "not contain removed functions; if they must contain "
                                          "some, name these with --keep FILE")).

feature_that_is_called(Config) ->
    {1, Line} = refused(running:example("relay"), ["--remote", "none", "--feature", "-pg"], Config),
    ?assertEqual(<<"whittle: the feature pg cannot be off: relay_sup:init/1 uses it "
                   "(pg); remove -pg from --feature\n">>, Line),
    ?assertEqual({1, <<"whittle: the feature terms cannot be off: --feature +eval uses it; remove "
                       "-terms from --feature\n">>},
                 refused(running:example("hello"), ["--feature", "-terms,+eval"], Config)).

keep(Config) ->
    File = out("keep", Config),
    %% The second function belongs to the feature `eval', which stays off.
    ok = file:write_file(File, "% for later\nsofs:image/2\nerl_lint:format_error/1\n"),
    Kept = running:build(running:example("hello"), out("kept", Config), functions() ++ ["--keep",
                                                                                        File]),
    [?assertEqual({0, <<Name/binary, " is kept\n  called by --keep\n\n">>},
                  running:whittle(["why", Kept, binary_to_list(Name)]))
     || Name <- [<<"sofs:image/2">>, <<"erl_lint:format_error/1">>]],
    ?assertMatch({0, <<"erl_lint:module/1 was removed", _/binary>>},
                 running:whittle(["why", Kept, "erl_lint:module/1"])).

bad_keep(Config) ->
    File = out("bad_keep", Config),
    [begin
         ok = file:write_file(File, Text),
         ?assertEqual({1, iolist_to_binary(["whittle: ", Line, $\n])},
                      refused(running:example("hello"), ["--keep", File], Config))
     end || {Text, Line} <-
                [{"sofs:image/14\n",
                  "there is no function sofs:image/14 (did you mean sofs:image/2?), which --keep "
                  "names: correct the name"},
                 {"ok:\n", [File, ": `ok:' is not of the form M, M:F or M:F/A: correct the line"]},
                 %% Not UTF-8.
                 {<<"% caf", 16#e9, "\ncaf", 16#e9, "\n">>,
                  ["there is no module caf", <<"é"/utf8>>, ", which --keep names: correct the "
                   "name"]}]],
    ?assertEqual({1, iolist_to_binary(["whittle: ", File, ".no cannot be read (no such file or "
                                       "directory): check the path given to --keep\n"])},
                 refused(running:example("hello"), ["--keep", File ++ ".no"], Config)).

plans_of_others(Config) ->
    Hello = proplists:get_value(hello, Config),
    Other = out("other", Config),
    {ok, _} = file:copy(Hello, Other),
    Why = fun() -> running:whittle(["why", Other, "lists"]) end,
    Says = fun(Words) -> {1, iolist_to_binary(["whittle: ", Other, ".plan ", Words, $\n])} end,
    ?assertEqual(Says("is missing: build with --shake functions, and keep the plan beside the "
                      "output"),
                 Why()),
    ok = file:write_file(Other ++ ".plan", "no plan"),
    ?assertEqual(Says("is not a plan: build again"), Why()),
    {ok, _} = file:copy(Hello ++ ".plan", Other ++ ".plan"),
    ?assertMatch({0, _}, Why()),
    Modules = running:build(running:example("hello"), out("modules", Config),
                            ["--shake", "modules"]),
    {ok, _} = file:copy(Modules ++ ".plan", Other ++ ".plan"),
    ?assertEqual(Says("is the plan of another build: build again"), Why()).

%% A build without tree shaking removes an older plan beside its output.
plan_goes_with_it(Config) ->
    Out = running:build(running:example("hello"), out("twice", Config), functions()),
    ?assert(filelib:is_regular(Out ++ ".plan")),
    Out = running:build(running:example("hello"), Out),
    ?assertNot(filelib:is_regular(Out ++ ".plan")).

%% A file with a plan's name and other contents belongs to the user.
file_with_a_plans_name(Config) ->
    Out = out("mine", Config),
    ok = file:write_file(Out ++ ".plan", "mine"),
    ?assertEqual({1, iolist_to_binary(["whittle: ", Out, ".plan is not a plan of Whittle, and the "
                                                         "plan "
                                       "of this build has the same path: move it, or name "
                                       "another output with -o\n"])},
                 running:whittle(["build", running:example("hello"), "-o", Out] ++ functions())),
    Out = running:build(running:example("hello"), Out),
    ?assertEqual({ok, <<"mine">>}, file:read_file(Out ++ ".plan")),
    Dir = out("mine_too", Config),
    ok = file:make_dir(Dir ++ ".plan"),
    ?assertEqual({1, iolist_to_binary(["whittle: ", Dir, ".plan is a directory, and the plan of "
                                                         "this "
                                       "build has the same path: move it, or name another output "
                                       "with -o\n"])},
                 running:whittle(["build", running:example("hello"), "-o", Dir] ++ functions())),
    ?assertNot(filelib:is_file(Dir)).

%% Internal functions

functions() -> ["--shake", "functions", "--missing", "crash"].

refused(Path, Options, Config) ->
    Out = out("refused", Config),
    Result = running:whittle(["build", Path, "-o", Out] ++ functions() ++ Options),
    ?assertEqual([], filelib:wildcard(Out ++ "*")),
    Result.

out(Name, Config) ->
    Out = filename:join([proplists:get_value(priv_dir, Config), "shake", Name]),
    ok = filelib:ensure_dir(Out),
    Out.

pack(File) ->
    {ok, #{size := Size, vm := Vm}} = whittle_pack:read(File),
    Size - Vm.
