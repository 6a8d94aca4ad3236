%% Tests the build as a function, on the OTP that the tests run on. The group `output' tests whole
%% builds; the stand-in for whittle_runtime that the command's tests use replaces the VM.
-module(whittle_make_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2,
         end_per_testcase/2]).
-export([whole/1, shaken/1, removed/1, passes/1, own_passes/1, files_are_read_when_it_runs/1,
         bad_files/1, bad_requests/1, bad_vm/1, bad_values/1, checked/1, bad_shake/1,
         too_many_names/1, no_input/1, writes_nothing/1,
         waits_for_a_build/1, plan_files/1, every_error_is_one_line/1]).
-export([output/1, foreign_programs/1, absent_stock_program/1, shaken_output/1, named_output/1,
         input_is_output/1, input_holds_output/1, output_is_packed/1, plan_of_another_kind/1]).

all() ->
    [whole, shaken, removed, passes, own_passes, files_are_read_when_it_runs, bad_files,
     bad_requests, bad_vm, bad_values, checked, bad_shake, too_many_names, no_input,
     writes_nothing, waits_for_a_build, plan_files,
     every_error_is_one_line, {group, output}].

groups() ->
    [{output, [], [output, foreign_programs, absent_stock_program, shaken_output, named_output,
                   input_is_output, input_holds_output, output_is_packed, plan_of_another_kind]}].

init_per_group(output, Config) ->
    Dir = ?config(priv_dir, Config),
    Source = filename:join([filename:dirname(code:which(whittle_SUITE)), "stand_in",
                            "whittle_runtime.erl"]),
    {ok, whittle_runtime, Beam} = compile:file(Source, [binary, report]),
    true = os:putenv("STAND_IN_VM", pack_samples:probe("musl-gcc -static", Dir)),
    {module, whittle_runtime} = code:load_binary(whittle_runtime, "stand_in", Beam),
    Config.

end_per_group(output, _) ->
    _ = code:purge(whittle_runtime),
    {module, whittle_runtime} = code:load_file(whittle_runtime),
    true = os:unsetenv("STAND_IN_VM").

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% Without shaking there is no plan. The recorder of `whittle trace' is in the boot script.
whole(Config) ->
    {Events, {ok, #{system := System, plan := none, costs := none, timings := Timings}}} =
        made(#{}, Config),
    ?assertEqual([check, needs, otp, read,
                  {passes, [applications, modules, files, md5, tables, strip, literals, start]}],
                 steps(Events)),
    ?assertEqual([check, needs, otp, read, passes], [Step || {Step, _} <- Timings]),
    ?assertEqual([read, applications, modules, files, tables, strip, literals], in_ledger(System)),
    ?assertMatch([_ | _], [traced || {kernelProcess, whittle_trace, _} <- boot(System)]).

shaken(Config) ->
    {Events, {ok, #{system := System, plan := Plan,
                    costs := #{applications := Applications, rest := Rest}}}} =
        made(#{shake => #{unit => functions}}, Config),
    ?assertEqual([check, needs, otp, read,
                  {passes, [applications, modules, files, md5, tables,
                            {shake, [facts, plan, rewrite, costs]}, strip, literals, start]}],
                 steps(Events)),
    ?assertEqual([read, applications, modules, files, tables, shake, strip, literals],
                 in_ledger(System)),
    ?assertMatch([{{app_one, wanted_here, 0}, {kept, _}}],
                 whittle_shake_saved:why({app_one, wanted_here, 0}, Plan)),
    ?assertMatch([{{app_one, never_wanted, 0}, {whole, []}}],
                 whittle_shake_saved:why({app_one, never_wanted, 0}, Plan)),
    %% The module app_one is too small to be split, so its unreached function is hot too.
    ?assertMatch([#{rest := #{functions := 0, bytes := 0}}],
                 [One || #{name := one} = One <- Applications]),
    ?assertMatch(#{functions := Cold} when Cold > 0, Rest),
    ?assertEqual([], [traced || {kernelProcess, whittle_trace, _} <- boot(System)]),
    ?assert(lists:member(whittle_start_cold, loaded_first(System))).

removed(Config) ->
    Closed = maps:from_keys([remote, data, atoms, code], []),
    {Events, {ok, #{system := System}}} =
        made(#{shake => #{unit => functions, missing => crash, declared => Closed}}, Config),
    ?assert(lists:member(whittle_start_removed, loaded_first(System))),
    {ok, #{modules := #{app_one := Bytes}}} = whittle_system:app(one, System),
    {ok, Beam} = whittle_beam:read(Bytes),
    ?assertEqual([{start, 2}, {stop, 1}, {wanted_here, 0}],
                 [E || E <- lists:sort(whittle_beam:exports(Beam)),
                       element(1, E) =/= module_info]),
    %% A person hears that the commands to a running node are gone.
    ?assertMatch([_], [N || {note, N} <- Events, string:find(N, "--whittle-ping") =/= nomatch]).

%% Each pass comes after those whose result it reads, and before those that read its own.
passes(_) ->
    ?assertEqual([whittle_pass_applications, whittle_pass_modules, whittle_pass_files,
                  whittle_pass_md5, whittle_make_tables, whittle_make_shake, whittle_pass_strip,
                  whittle_pass_literals, whittle_pass_start],
                 whittle_make:passes(#{unit => functions})),
    ?assertEqual([whittle_pass_applications, whittle_pass_modules, whittle_pass_files,
                  whittle_pass_md5, whittle_make_tables, whittle_pass_strip, whittle_pass_literals,
                  whittle_pass_start],
                 whittle_make:passes(none)).

own_passes(Config) ->
    {Events, {ok, _}} = made(#{passes => [whittle_pass_strip]}, Config),
    ?assertEqual([check, needs, otp, read, {passes, [strip]}], steps(Events)).

files_are_read_when_it_runs(Config) ->
    Keep = made:file(filename:join(?config(dir, Config), "keep"), "app_one:never_wanted/0\n"),
    Request = #{shake => #{unit => functions, keep_file => Keep}},
    {_, {ok, #{plan := Plan}}} = made(Request, Config),
    ?assertMatch([{_, {kept, _}}], whittle_shake_saved:why({app_one, never_wanted, 0}, Plan)),
    ok = file:delete(Keep),
    ?assertMatch({_, {error, {unreadable, {keep, Keep, enoent}}}}, made(Request, Config)).

bad_files(Config) ->
    Dir = ?config(dir, Config),
    File = made:file(filename:join(Dir, "file"), "not a name\n"),
    Keep = #{unit => functions, keep_file => File},
    Evidence = #{unit => functions, evidence_file => File},
    ?assertMatch({_, {error, {not_names, {File, _}}}}, made(#{shake => Keep}, Config)),
    ?assertMatch({_, {error, {bad_evidence, {File, _}}}}, made(#{shake => Evidence}, Config)),
    ?assertMatch({[{started, check}], {error, {unreadable, {evidence, Dir, eisdir}}}},
                 made(#{shake => Evidence#{evidence_file := Dir}}, Config)).

%% A key that the build does not know would have no effect. An output needs all of an OTP, so only
%% system/1 takes the directory of an installed one.
bad_requests(_) ->
    Input = #{input => "/nowhere"},
    [?assertError(badarg, whittle_make:F(Request))
     || {F, Request} <- [{make, Input#{flavour => speed}}, {make, Input#{otp_lib => "lib"}},
                         {make, #{}}, {system, Input#{out => "x"}}, {system, #{}},
                         {system, Input#{shake => #{missing => load}}},
                         {system, Input#{shake => #{unit => functions, keep => []}}}]].

%% These errors come before the input is read.
bad_vm(_) ->
    [?assertMatch({error, {runtime, {Tag, _}}},
                  whittle_make:make(maps:merge(#{input => "/nowhere"}, More)))
     || {Tag, More} <- [{unknown_target, #{target => "pdp11"}},
                        {unsupported_otp, #{otp => "17"}}]].

%% So do these. A value of another form never reaches the code that uses it.
bad_values(_) ->
    [?assertMatch({F, {error, {bad_value, {Key, Value, _}}}},
                  {F, whittle_make:F(#{input => "/nowhere", Key => Value})})
     || {Key, Value} <- [{flavor, tiny}, {optimize, o9}, {otp, 28}, {shake, functions},
                         {add, foo}, {outside_links, 7}],
        F <- [check, make, system], Key =/= optimize orelse F =/= system],
    ?assertMatch({error, {bad_value, {missing, lod, _}}},
                 whittle_make:system(#{input => "/nowhere",
                                       shake => #{unit => functions, missing => lod}})),
    ?assertEqual("there is no feature graphems (did you mean graphemes?): take one that `whittle "
                 "features' lists",
                 lists:flatten(whittle_make:format_error({unknown_feature, graphems}))),
    ?assertEqual(ok, whittle_make:check_options(
                       #{otp => "29", target => "armv7", libs => [], add => [ssl],
                         natives => ["a"], includes => keep, ca_certs => "c",
                         shake => #{on => [inet6], off => [],
                                    declared => #{remote => [], data => [{a}, {a, b}, {a, b, 1}]},
                                    keep_file => "k", evidence_file => "e"}},
                       [otp, target, libs, add, natives, includes, ca_certs, shake])).

%% check/1 finds what stops a build before anything is built, and builds nothing.
checked(Config) ->
    Tool = made:file(filename:join(?config(dir, Config), "tool"),
                     "#!/usr/bin/env escript\nmain(_) -> ok.\n"),
    Tell = fun(Event) -> error(Event) end,
    ?assertEqual(ok, whittle_make:check(#{input => Tool, tell => Tell})),
    ?assertMatch({error, {system, _}}, whittle_make:check(#{input => "/nowhere"})),
    ?assertMatch({error, {runtime, {unknown_target, _}}},
                 whittle_make:check(#{input => Tool, target => "pdp11"})),
    ?assertMatch({error, {input_is_output, Tool}},
                 whittle_make:check(#{input => Tool, out => Tool})),
    ?assertError(badarg, whittle_make:check(#{input => Tool, outt => "x"})).

bad_shake(_) ->
    [begin
         Shake = More#{unit => functions},
         ?assertEqual({error, Conflict}, whittle_make:check_shake(Shake, whole)),
         ?assertEqual({error, Conflict},
                      whittle_make:system(#{input => "/nowhere", shake => Shake}))
     end || {Conflict, More} <-
                [{{unknown_feature, nope}, #{on => [nope]}},
                 {{unknown_feature, nope}, #{off => [pg, nope]}},
                 {{on_and_off, pg}, #{on => [eval, pg], off => [pg]}},
                 {{needs_evidence, seen}, #{seen => keep}},
                 {{needs_load, seen}, #{seen => only, missing => crash, evidence_file => "f"}}]],
    %% A VM for one program needs to know what the program never calls.
    [?assertEqual({error, {needs_crash, vm}},
                  whittle_make:check(#{input => "/nowhere", vm => program, shake => Shake}))
     || Shake <- [none, #{unit => functions}, #{unit => functions, missing => load}]],
    ?assertMatch({error, {system, {no_such_path, _}}},
                 whittle_make:check(#{input => "/nowhere", vm => program,
                                      shake => #{unit => functions, missing => crash}})),
    ?assertMatch({error, {runtime, {no_cut, _}}},
                 whittle_make:check(#{input => "/nowhere", vm => program, otp => "27",
                                      shake => #{unit => functions, missing => crash}})),
    ?assertEqual(ok, whittle_make:check_shake(none, whole)),
    ?assertEqual(ok, whittle_make:check_shake(#{unit => functions, on => [pg], off => [eval],
                                                seen => only, evidence_file => "f"}, whole)).

%% The VM ends when its atom table is full. So the plan refuses files of too many names before it
%% reads the first. This program reads no file, so the test survives a plan without this check.
too_many_names(Config) ->
    %% rebar3 has two directories with the name of an application. Whittle's other applications lie
    %% beside the one that this VM takes.
    Ebin = filename:join(code:lib_dir(whittle_system), "ebin"),
    made:in_small_vm(fun() ->
                             true = code:replace_path(whittle_system, Ebin),
                             refuses_names(Config)
                     end).

refuses_names(Config) ->
    Room = erlang:system_info(atom_limit) * 3 div 4,
    Priv = filename:join([?config(dir, Config), "one", "priv"]),
    Refused = fun(Files) ->
                      _ = file:del_dir_r(Priv),
                      [made:file(filename:join(Priv, Name), names(From, To))
                       || {Name, From, To} <- Files],
                      {_, {error, {shake, {too_many_names, {Path, _}}}}} =
                          made(#{shake => #{unit => functions}}, Config),
                      filename:basename(Path)
              end,
    ?assertEqual(<<"many.config">>, Refused([{"many.config", 1, Room}])),
    %% Each of these fits alone.
    ?assertEqual(<<"more.config">>, Refused([{"many.config", 1, Room div 2},
                                             {"more.config", Room div 2, Room}])).

names(From, To) ->
    ["[", lists:join($,, [[$z | integer_to_list(N)] || N <- lists:seq(From, To)]), "]."].

no_input(Config) ->
    {[{started, check}], {error, Reason}} = made(#{input => "/nowhere"}, Config),
    ?assertMatch({system, {no_such_path, "/nowhere"}}, Reason),
    ?assertEqual(no_such_path, whittle_make:code(Reason)).

%% The path of an output is no matter of system/1, which writes none. Here it is a directory.
writes_nothing(Config) ->
    {ok, Before} = file:get_cwd(),
    Here = filename:join(?config(dir, Config), "here"),
    ok = filelib:ensure_path(filename:join(Here, "one")),
    ok = file:set_cwd(Here),
    try ?assertMatch({_, {ok, #{}}}, made(#{passes => []}, Config))
    after ok = file:set_cwd(Before)
    end.

%% A build that waits for another build of the same project says so.
waits_for_a_build(Config) ->
    Dir = filename:join(?config(dir, Config), "project"),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    made:file(filename:join(Dir, "src/project.app.src"),
              "{application, project, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}.\n"),
    {ok, Lock} = whittle_lock:take(Dir, #{}),
    Self = self(),
    Tell = fun({waiting, Text}) ->
                   Self ! {waiting, unicode:characters_to_list(Text)},
                   whittle_lock:release(Lock);
              (_) -> ok
           end,
    {ok, _} = whittle_make:system(maps:merge(staged:options(),
                                             #{input => Dir, passes => [], tell => Tell})),
    Waiting = Dir ++ ": waiting for another build of this project",
    receive {waiting, Told} -> ?assertEqual(Waiting, Told) end.

%% A plan belongs to one output, and no other file is replaced by one.
plan_files(Config) ->
    Out = made:file(filename:join(?config(dir, Config), "out"), "bytes"),
    Path = whittle_plan_file:path(Out),
    [?assertEqual({Same, Path}, {Same, whittle_plan_file:path(Same)})
     || Same <- [Out ++ "/.", Out ++ "/./", Out ++ "/"]],
    {ok, Here} = file:get_cwd(),
    ?assertEqual({Here ++ ".plan", "a.plan"},
                 {whittle_plan_file:path("."), whittle_plan_file:path("./a/.")}),
    ?assertEqual(ok, whittle_plan_file:check(Out)),
    {_, {ok, #{plan := Plan}}} = made(#{shake => #{unit => modules}}, Config),
    #{beside := {Path, _, Make}} = whittle_plan_file:beside(Out, Plan),
    {ok, Text} = Make(<<"bytes">>),
    made:file(Path, iolist_to_binary(Text)),
    ?assertEqual({ok, Plan}, whittle_plan_file:read(Out)),
    ?assertEqual(ok, whittle_plan_file:check(Out)),
    made:file(Out, "others"),
    ?assertEqual({error, {wrong_plan, {Path, plan_of_another}}}, whittle_plan_file:read(Out)),
    made:file(Out, [16#7f, "ELF, and then damage"]),
    ?assertEqual({error, {in, {Out, {elf_damaged, header}}}}, whittle_plan_file:read(Out)),
    made:file(Path, "a letter"),
    ?assertEqual({error, {not_a_plan, Path}}, whittle_plan_file:check(Out)),
    #{beside := {Path, IsPlan, None}} = whittle_plan_file:beside(Out, none),
    ?assertEqual({none, false}, {None(<<"bytes">>), IsPlan(Path)}),
    made:file(Path, iolist_to_binary(Text)),
    ?assert(IsPlan(Path)).

every_error_is_one_line(_) ->
    Plans = [{not_a_plan, "f"}, {no_plan, "f"}, {not_an_output, "f"}, {no_room, {"f", eisdir}},
             {no_room, {"f", efbig}}, {wrong_plan, {"f", no_plan}},
             {wrong_plan, {"f", plan_of_another}}, {wrong_plan, {"f", {plan_version, 1}}}],
    Files = [{unreadable, {Option, "f", Reason}} || Option <- [keep, evidence],
                                                Reason <- [enoent, efbig, eftype]],
    Reasons = Files ++ [{plan_file, Plan} || Plan <- Plans]
        ++ [{unknown_feature, x}, {on_and_off, x}, {needs_evidence, seen}, {needs_load, seen},
            {needs_crash, vm}, {not_names, {"f", "?"}},
            {too_many_names, {"f", 2}}, {bad_settings, {"f", "x"}},
            {bad_evidence, {"f", no_evidence}},
            {input_is_output, "x"}, {output_is_packed, {"x", "y"}}, {unknown_option, {x, [a, b]}},
            {bad_value, {x, 1, {one_of, [a, b]}}}, {bad_value, {x, 1, {text, "a"}}},
            {system, {no_such_path, "f"}}, {shake, {not_there, {"f", {m, f, 1}, ""}}},
            {pack, {is_directory, "f"}}, {runtime, {no_cache, #{}}}],
    ?assertEqual(lists:usort(made:worded(whittle_make, format_error)
                             ++ made:worded(whittle_make_shake, format_error)
                             ++ made:worded(whittle_make_request, format_error)
                             ++ made:worded(whittle_make_settings, format_error)),
                 lists:usort([element(1, Reason) || Reason <- Reasons])),
    ?assertEqual(made:worded(whittle_plan_file, format_error),
                 lists:usort([element(1, Plan) || Plan <- Plans])),
    [begin
         Text = unicode:characters_to_list(whittle_make:format_error(Reason)),
         ?assertEqual(nomatch, string:find(Text, "\n")),
         ?assertMatch({Reason, {match, _}}, {Reason, re:run(Text, "[:;] [a-z]+")})
     end || Reason <- Reasons].

%% The group `output'

output(Config) ->
    Out = filename:join(?config(dir, Config), "out"),
    {Events, {ok, #{out := Out, size := Size, sha256 := Sum, plan := none, ledger := Ledger,
                    timings := Timings}}} = built(#{out => Out}, Config),
    {ok, Bytes} = file:read_file(Out),
    Hash = binary:encode_hex(crypto:hash(sha256, Bytes)),
    ?assertEqual({byte_size(Bytes), string:lowercase(Hash)}, {Size, Sum}),
    ?assertMatch(#{size := Size, name := <<"one">>, target := <<"x86_64">>, flavor := size},
                 Ledger),
    ?assertEqual([read, applications, modules, files, tables, strip, literals],
                 [binary_to_atom(Pass) || #{pass := Pass} <- maps:get(passes, Ledger)]),
    Steps = [check, needs, otp, read, output, passes, stock, runtime, pack, ledger],
    ?assertEqual(Steps, [Step || {Step, _} <- Timings]),
    ?assertEqual(Steps, [case Step of {passes, [_ | _]} -> passes; _ -> Step end
                         || Step <- steps(Events)]),
    ?assertMatch([_], [Progress || {runtime, Progress} <- Events]),
    ?assertNot(filelib:is_file(whittle_plan_file:path(Out))).

%% Notes say which programs in `priv' the target may be unable to run: one with shared libraries,
%% and those of other processors. A program without the right to run is data.
foreign_programs(Config) ->
    {ok, Dynamic} = file:read_file("/bin/sh"),
    {ok, <<Begin:18/binary, _:2/binary, Rest/binary>> = Static} =
        file:read_file(os:getenv("STAND_IN_VM")),
    Priv = filename:join([?config(dir, Config), "one", "priv"]),
    ok = filelib:ensure_path(Priv),
    [begin
         File = filename:join(Priv, Name),
         ok = file:write_file(File, Bytes),
         ok = file:change_mode(File, Mode)
     end || {Name, Bytes, Mode} <- [{"arm", <<Begin/binary, 40:16/little, Rest/binary>>, 8#755},
                                    {"data", <<Begin/binary, 40:16/little, Rest/binary>>, 8#644},
                                    {"dynamic", Dynamic, 8#755}, {"static", Static, 8#755},
                                    {"script", "#!/bin/sh\n", 8#755},
                                    {"short", <<127, "ELF">>, 8#755}]],
    {_, {ok, #{ledger := #{notes := Notes}}}} =
        built(#{out => filename:join(?config(dir, Config), "out")}, Config),
    ?assertEqual([<<"one: priv/arm is a program for ARM, and the target is x86_64: replace it if "
                    "your program runs it there">>,
                  <<"one: priv/dynamic is linked to shared libraries: the target needs them and "
                    "/lib64/ld-linux-x86-64.so.2, or link the program statically">>],
                 [Note || <<"one: priv/", _/binary>> = Note <- Notes]).

%% A size of the stock VM without this program would be wrong.
absent_stock_program(Config) ->
    [Absent, Out] = [filename:join(?config(dir, Config), Name) || Name <- ["absent", "one.out"]],
    true = os:putenv("STAND_IN_STOCK_PROGRAM", Absent),
    try built(#{out => Out}, Config) of
        {_, Result} ->
            ?assertEqual({error, {pack, {unreadable, {Absent, enoent}}}}, Result),
            ?assertNot(filelib:is_file(Out))
    after os:unsetenv("STAND_IN_STOCK_PROGRAM")
    end.

%% The plan belongs to the output. A later build without shaking removes it.
shaken_output(Config) ->
    Out = filename:join(?config(dir, Config), "out"),
    {_, {ok, #{plan := Plan, ledger := #{costs := _}}}} =
        built(#{out => Out, shake => #{unit => functions}}, Config),
    ?assertEqual({ok, Plan}, whittle_plan_file:read(Out)),
    {_, {ok, #{plan := none}}} = built(#{out => Out}, Config),
    ?assertNot(filelib:is_file(whittle_plan_file:path(Out))).

%% The name of the system is the path if the request names none. A directory is there first.
named_output(Config) ->
    Here = filename:join(?config(dir, Config), "here"),
    ok = filelib:ensure_path(filename:join(Here, "one")),
    ?assertMatch({_, {error, {pack, {is_directory, "one"}}}}, in(Here, Config)),
    ok = file:del_dir(filename:join(Here, "one")),
    ?assertMatch({_, {ok, #{out := "one"}}}, in(Here, Config)),
    ?assertEqual({ok, ["one"]}, file:list_dir(Here)).

in(Dir, Config) ->
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Dir),
    try built(#{}, Config)
    after ok = file:set_cwd(Before)
    end.

%% The name of an escript is the name of its file, so its output would replace it.
input_is_output(Config) ->
    Here = filename:join(?config(dir, Config), "here"),
    Tool = made:file(filename:join(Here, "tool"), "#!/usr/bin/env escript\nmain(_) -> ok.\n"),
    {ok, Text} = file:read_file(Tool),
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Here),
    try
        [?assertEqual({error, {input_is_output, "tool"}}, whittle_make:make(Request))
         || Request <- [#{input => "tool"}, #{input => "tool", out => "tool"},
                        #{input => Tool, out => "tool"}]]
    after
        ok = file:set_cwd(Before)
    end,
    ?assertEqual({ok, Text}, file:read_file(Tool)).

%% A build never advises to remove its own input.
input_holds_output(Config) ->
    Dir = filename:join(?config(dir, Config), "one"),
    File = filename:join(Dir, "ebin/one.app"),
    [begin
         {_, {error, Error}} = built(#{out => Out, format => Format}, Config),
         ?assertEqual({Out, input_is_output}, {Out, whittle_make:code(Error)}),
         ?assert(filelib:is_file(File))
     end || {Out, Format} <- [{Dir, dir}, {filename:join([Dir, "ebin", "..", "..", "one"]), dir},
                              {filename:join(Dir, "ebin"), dir}, {filename:dirname(Dir), dir},
                              {File, exe}, {File, dir}]],
    Other = made:file(filename:join(?config(dir, Config), "other"), "text"),
    ?assertMatch({_, {error, {pack, {not_ours, Other}}}}, built(#{out => Other}, Config)).

%% The next build would pack the output.
output_is_packed(Config) ->
    Priv = filename:join([?config(dir, Config), "one", "priv"]),
    ok = filelib:ensure_path(Priv),
    Out = filename:join(Priv, "out"),
    {_, {error, Error}} = built(#{out => Out}, Config),
    ?assertEqual({output_is_packed, {Out, Priv}}, Error),
    ?assertEqual(output_is_packed, whittle_make:code(Error)),
    ?assertEqual({ok, []}, file:list_dir(Priv)).

plan_of_another_kind(Config) ->
    Out = filename:join(?config(dir, Config), "out"),
    Path = made:file(whittle_plan_file:path(Out), "a letter"),
    Request = #{out => Out, shake => #{unit => functions}},
    %% It is refused before the input is read.
    ?assertMatch({[{started, check}], {error, {plan_file, {not_a_plan, Path}}}},
                 built(Request, Config)),
    ?assertNot(filelib:is_file(Out)),
    {_, {ok, #{}}} = built(maps:remove(shake, Request), Config),
    ?assertEqual({ok, <<"a letter">>}, file:read_file(Path)).

%% The request on a small application, with the events that it told.

made(More, Config) -> made(system, maps:merge(staged:options(), More), Config).

built(More, Config) ->
    Cache = filename:join(?config(priv_dir, Config), "cache"),
    made(make, maps:merge(#{runtime => #{cache => Cache}}, More), Config).

made(Function, More, Config) ->
    App = made:app(filename:join(?config(dir, Config), "one"), one, [{mod, {app_one, []}}],
                   [{app_one, "-module(app_one).\n-export([start/2, stop/1, wanted_here/0, "
                     "never_wanted/0]).\n"
                     "start(_, _) -> {ok, spawn_link(fun() -> wanted_here() end)}.\n"
                     "stop(_) -> ok.\nwanted_here() -> lists:seq(1, 3).\n"
                     "never_wanted() -> dets:all().\n"}]),
    Self = self(),
    Tag = make_ref(),
    Request = maps:merge(#{input => App, tell => fun(E) -> Self ! {Tag, E} end}, More),
    Result = whittle_make:Function(Request),
    {told(Tag), Result}.

told(Tag) ->
    receive {Tag, Event} -> [Event | told(Tag)] after 0 -> [] end.

%% The steps that ended, each with those that started and ended in it.
steps(Events) ->
    {Steps, []} = steps([Event || {What, _} = Event <- Events, What =:= started orelse
                                                               What =:= ended], []),
    Steps.

steps([{started, Step} | Events], Before) ->
    {In, [{ended, Step} | After]} = steps(Events, []),
    steps(After, [case In of [] -> Step; _ -> {Step, In} end | Before]);
steps(Events, Before) ->
    {lists:reverse(Before), Events}.

in_ledger(System) -> [Pass || #{pass := Pass} <- whittle_system:ledger(System)].

boot(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    Instructions.

loaded_first(System) ->
    Before = lists:takewhile(fun(I) -> I =/= {kernel_load_completed} end, boot(System)),
    lists:append([Modules || {primLoad, Modules} <- Before]).
