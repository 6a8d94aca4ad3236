%% Tests whole studies of programs that exist: the run, the samples, the page, resuming, and errors.
%% acceptance/suites/measure_SUITE builds programs.
-module(whittle_measure_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([whole/1, same_order/1, only/1, own_factors/1, resumed/1, changed/1, changed_files/1,
         cut_line/1, exists/1, lacking/1, in_use/1, checked_before_builds/1, failing/1,
         bounded_log/1, all_fail/1, recording_whole/1, wrapped/1, reported/1, bad_studies/1,
         improper_lists/1, too_many_runs/1, shipped/1, no_program/1, compared/1, compared_levels/1,
         page/1, titles/1, references/1, full_disk/1, every_error_is_one_line/1]).

all() ->
    [whole, same_order, only, own_factors, resumed, changed, changed_files, cut_line, exists,
     lacking, in_use, checked_before_builds, failing, bounded_log, all_fail, recording_whole,
     no_program, wrapped, reported, bad_studies, improper_lists, too_many_runs, shipped, compared,
     compared_levels, page, titles, references, full_disk, every_error_is_one_line].

init_per_testcase(Case, Config) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "a study", atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% The environment of a level reaches the program, and its number comes back.
whole(Config) ->
    {ok, Dir} = measure(#{}, Config),
    {ok, #{results := [#{rows := Rows}], samples := Samples}} = whittle_measure:results(Dir),
    ?assertEqual(9, length(Samples)),
    ?assertMatch([#{levels := #{size := small}, median := 10.0, ratio := baseline},
                  #{levels := #{size := medium}, median := 20.0,
                    ratio := #{median := 2.0, verdict := worse}},
                  #{levels := #{size := large}, median := 30.0}],
                 [Row#{ratio := rounded(Ratio)} || #{ratio := Ratio} = Row <- Rows]),
    [?assertMatch(#{<<"block">> := _, <<"position">> := _, <<"at">> := _,
                    <<"machine">> := #{<<"pace">> := _, <<"busy">> := _, <<"others">> := _}},
                  Sample)
     || Sample <- Samples].

rounded(#{median := Median} = Ratio) -> Ratio#{median := round(1000 * Median) / 1000};
rounded(Other) -> Other.

%% The seed decides the order; each block has each cell once.
same_order(Config) ->
    Orders = [begin
                  {ok, Dir} = measure(#{seed => Seed, blocks => 4}, Name, Config),
                  {ok, #{samples := Samples}} = whittle_measure:results(Dir),
                  [maps:get(<<"cell">>, Sample) || Sample <- Samples]
              end || {Seed, Name} <- [{1, "a"}, {1, "b"}, {2, "c"}]],
    [One, Same, Other] = Orders,
    ?assertEqual(One, Same),
    ?assertNotEqual(One, Other),
    ?assertEqual(3, length(lists:usort(lists:sublist(One, 3)))).

only(Config) ->
    {ok, Study} = whittle_measure:study(file(#{}, Config), [{"size", "large"}, {"size", "medium"}]),
    {ok, Dir} = whittle_measure:run(Study, #{dir => in("out", Config)}),
    {ok, #{results := [#{rows := Rows}]}} = whittle_measure:results(Dir),
    %% The baseline of the study was not kept.
    ?assertMatch([#{levels := #{size := medium}, ratio := baseline}, #{levels := #{size := large}}],
                 Rows),
    ?assertMatch({error, {no_factor, "colour", [size]}},
                 whittle_measure:study(file(#{}, Config), [{"colour", "red"}])),
    ?assertEqual("--only: the study has no factors, so it has no x: leave out --only",
                 lists:flatten(whittle_measure:format_error({no_factor, "x", []}))),
    ?assertMatch({error, {no_level, size, "red", [small, medium, large]}},
                 whittle_measure:study(file(#{}, Config), [{"size", "red"}])).

%% A program has the factors that it names, and no effect of another one.
own_factors(Config) ->
    Levels = [#{name => Name, environment => [{"SIZE", Value}]}
              || {Name, Value} <- [{small, "1"}, {large, "3"}]],
    Other = #{name => color, levels => [#{name => red}, #{name => blue}]},
    Programs = [(program("echo $((SIZE * 10))"))#{factors => [size]},
                (program("echo 7"))#{name => q}],
    {ok, Dir} = measure(#{programs => Programs,
                          factors => [#{name => size, levels => Levels}, Other]}, Config),
    {ok, #{results := [#{program := p, rows := Own, effects := []},
                       #{program := q, rows := All, effects := [_, _, _]}]}} =
        whittle_measure:results(Dir),
    ?assertMatch([#{levels := #{size := small} = Small, median := 10.0},
                  #{levels := #{size := large}, median := 30.0}] when map_size(Small) =:= 1, Own),
    ?assertEqual(4, length(All)),
    %% A table does not repeat what all of its rows have in common.
    {ok, Red} = whittle_measure:study(in("made.study", Config), [{"color", "red"}]),
    {ok, Less} = whittle_measure:run(Red, #{dir => in("red", Config)}),
    {ok, Report} = whittle_measure:results(Less),
    [_, {[_ | Rows], _}] = whittle_measure:tables(Report),
    ?assertEqual(["size=small", "size=large"], [chars(hd(Row)) || Row <- lists:sublist(Rows, 2)]).

%% A study that was stopped after some runs measures the others, and none twice.
resumed(Config) ->
    Study = study(#{}, Config),
    Stopped = make_ref(),
    Self = self(),
    Tell = fun({run, 5, _, _, _}) -> Self ! Stopped, exit(stopped);
              (_) -> ok
           end,
    {Pid, Monitor} = spawn_monitor(fun() -> whittle_measure:run(Study, #{dir => in("out", Config),
                                                                         tell => Tell}) end),
    receive Stopped -> ok end,
    receive {'DOWN', Monitor, process, Pid, stopped} -> ok end,
    {ok, #{samples := First}} = whittle_measure:results(in("out", Config)),
    ?assertEqual(4, length(First)),
    {ok, Dir} = whittle_measure:run(Study, #{dir => in("out", Config), resume => true}),
    {ok, #{samples := All}} = whittle_measure:results(Dir),
    ?assertEqual(First, lists:sublist(All, 4)),
    ?assertEqual(9, length(lists:usort([{maps:get(<<"block">>, S), maps:get(<<"cell">>, S)}
                                        || S <- All]))),
    ?assertEqual(9, length(All)).

changed(Config) ->
    {ok, Dir} = measure(#{}, Config),
    Changed = study(#{title => "another title"}, Config),
    Error = whittle_measure:run(Changed, #{dir => Dir, resume => true}),
    ?assertEqual({error, {changed, [<<"the study's key title">>]}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "inputs have changed: the study's key title; ")),
    %% Facts without the study do not tell the key.
    Facts = filename:join(Dir, "study.json"),
    {ok, Bytes} = file:read_file(Facts),
    ok = file:write_file(Facts, jiffy:encode((jiffy:decode(Bytes, [return_maps]))
                                             #{<<"term">> := <<"none">>})),
    ?assertEqual({error, {changed, [<<"the study">>]}},
                 whittle_measure:run(Changed, #{dir => Dir, resume => true})).

%% The contents of programs and scripts count, also of two programs with one name. A file that the
%% workload writes does not.
changed_files(Config) ->
    [begin
         ok = filelib:ensure_dir(in(Name, Config)),
         ok = file:write_file(in(Name, Config), "#!/bin/sh\nread Line\necho ready\nsleep 60\n"),
         ok = file:change_mode(in(Name, Config), Mode)
     end || {Name, Mode} <- [{"one/run", 8#755}, {"two/run", 8#755}, {"around", 8#755},
                             {"load", 8#644}]],
    ok = file:write_file(in("around", Config), "#!/bin/sh\necho ready; exec cat \"$1\"\n"),
    ok = file:write_file(in("load", Config), "#!/bin/sh\necho 'size 1'\n"),
    ok = file:write_file(in("log", Config), "old\n"),
    Program = #{wrapper => ["./around"],
                workload => "sh \"$WHITTLE_BASE/load\" | tee \"${WHITTLE_BASE}/log\""},
    Study = study(#{programs => [Program#{name => one, command => ["one/run"]},
                                 Program#{name => two, command => ["two/run"]}], factors => [],
                    responses => [#{name => size, kind => reported, pattern => "size (\\d+)",
                                    unit => "items"}]}, Config),
    {ok, Dir} = whittle_measure:run(Study, #{dir => in("out", Config)}),
    Again = fun() -> whittle_measure:run(Study, #{dir => Dir, resume => true}) end,
    ?assertEqual({ok, Dir}, Again()),
    [begin
         {ok, Before} = file:read_file(in(Name, Config)),
         ok = file:write_file(in(Name, Config), [Before, "# changed\n"]),
         {error, {changed, [Key]}} = Again(),
         ?assertMatch({Key, {match, _}}, {Key, re:run(Key, Pattern)}),
         ok = file:write_file(in(Name, Config), Before)
     end || {Name, Pattern} <- [{"one/run", "^one-[0-9A-F]{12}$"},
                                {"two/run", "^two-[0-9A-F]{12}$"},
                                {"around", "^the file \\./around$"},
                                {"load", "^the file \\$WHITTLE_BASE/load$"}]],
    ?assertEqual({ok, Dir}, Again()).

%% A crash in the middle of a write leaves a line without an end.
cut_line(Config) ->
    Study = study(#{}, Config),
    {ok, Dir} = whittle_measure:run(Study, #{dir => in("out", Config)}),
    File = filename:join(Dir, "samples.jsonl"),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, binary:part(Bytes, 0, byte_size(Bytes) - 10)),
    {ok, #{samples := Cut}} = whittle_measure:results(Dir),
    ?assertEqual(8, length(Cut)),
    {ok, Dir} = whittle_measure:run(Study, #{dir => Dir, resume => true}),
    {ok, #{samples := Samples}} = whittle_measure:results(Dir),
    ?assertEqual(9, length(Samples)),
    [First | _] = binary:split(Bytes, <<"\n">>),
    [begin
         ok = file:write_file(File, [First, $\n, Damaged, $\n]),
         ?assertMatch({Damaged, {error, {damaged, File, 2}}},
                      {Damaged, whittle_measure:results(Dir)})
     end || Damaged <- ["not JSON", "{}",
                        string:replace(First, "\"values\":{", "\"values\":{\"x\":\"y\",")]],
    %% The read of a pipe would wait for a writer.
    ok = file:delete(File),
    "" = os:cmd("mkfifo '" ++ File ++ "'"),
    ?assertMatch({error, {no_samples, Dir}}, whittle_measure:results(Dir)),
    ?assertMatch({error, {no_samples, Dir}},
                 whittle_measure:run(Study, #{dir => Dir, resume => true})).

exists(Config) ->
    {ok, Dir} = measure(#{}, Config),
    {ok, Before} = file:read_file(filename:join(Dir, "samples.jsonl")),
    ?assertMatch({error, {exists, Dir}}, whittle_measure:run(study(#{}, Config), #{dir => Dir})),
    ?assertEqual({ok, Before}, file:read_file(filename:join(Dir, "samples.jsonl"))),
    ?assertMatch({error, {no_samples, _}}, whittle_measure:results(in("nothing", Config))),
    %% The files of others, and what an earlier try of the study has left
    Other = in("others", Config),
    New = fun() -> whittle_measure_samples:unused(Other) end,
    File = fun(Name) -> filename:join(Other, Name) end,
    ok = filelib:ensure_path(Other),
    ?assertEqual(ok, New()),
    ok = file:write_file(File("study.json"), "mine"),
    ?assertEqual({error, {not_empty, {Other, "study.json"}}}, New()),
    ?assertEqual({error, {not_empty, {Other, "study.json"}}},
                 whittle_measure:run(study(#{}, Config), #{dir => Other})),
    ?assertEqual({ok, ["study.json"]}, file:list_dir(Other)),
    ok = whittle_measure_samples:claim(Other),
    ?assertEqual(ok, New()),
    ok = file:write_file(File("samples.jsonl"), "{}\n"),
    ?assertEqual({error, {exists, Other}}, New()),
    ok = whittle_measure_samples:claim(Other),
    ?assertEqual({ok, <<"{}\n">>}, file:read_file(File("samples.jsonl"))),
    %% A link in a directory of somebody else leads to another file.
    ok = file:rename(File("samples.jsonl"), in("victim", Config)),
    ok = file:make_symlink(in("victim", Config), File("samples.jsonl")),
    ?assertEqual({error, {link, File("samples.jsonl")}}, whittle_measure_samples:claim(Other)),
    ok = file:write_file(File("run.json"), "{}"),
    ?assertEqual({error, {of_a_load_test, in("others", Config)}}, New()).

%% A report says which runs are missing. Without any, it leaves the page alone.
lacking(Config) ->
    {ok, Dir} = measure(#{}, Config),
    File = filename:join(Dir, "samples.jsonl"),
    Page = filename:join(Dir, "page.html"),
    {ok, Bytes} = file:read_file(File),
    Lines = length(binary:matches(Bytes, <<"\n">>)),
    Notes = fun() ->
                    {ok, #{notes := All}} = whittle_measure:report(Dir),
                    [unicode:characters_to_list(Note) || Note <- All,
                                                         string:find(Note, "samples") =/= nomatch]
            end,
    ?assertEqual([], Notes()),
    {ok, Before} = file:read_file(Page),
    ok = file:write_file(File, binary:part(Bytes, 0, byte_size(Bytes) - 2)),
    ?assertEqual([File ++ " ends in the middle of a line, which does not count",
                  lists:flatten(io_lib:format("~ts has ~b of the ~b runs of the study: continue it "
                                              "with --resume", [File, Lines - 1, Lines]))],
                 Notes()),
    ok = file:write_file(Page, Before),
    [begin
         ok = file:write_file(File, Empty),
         ?assertEqual({error, {empty, Dir}}, whittle_measure:report(Dir))
     end || Empty <- ["", "{\"block\":1"]],
    ?assertEqual({ok, Before}, file:read_file(Page)).

%% A second run would replace the programs of the first, or mix its samples with those of the first.
in_use(Config) ->
    Dir = in("study", Config),
    Second = fun(Options) -> whittle_measure:run(study(#{}, Config), Options#{dir => Dir}) end,
    Tell = fun({build, _, _, _}) ->
                   ?assertEqual({error, {in_use, Dir}}, Second(#{}));
              ({run, 2, _, _, _}) ->
                   ?assertEqual({error, {in_use, Dir}}, Second(#{resume => true}));
              (_) -> ok
           end,
    ?assertEqual({ok, Dir}, Second(#{tell => Tell})),
    ?assertEqual({ok, Dir}, Second(#{resume => true})).

%% Builds take minutes, so nothing is built for a study that cannot run.
checked_before_builds(Config) ->
    {ok, Dir} = measure(#{}, Config),
    Run = fun(Changes, Options) ->
                  Tell = fun({build, _, _, _} = Event) -> error(Event);
                            (_) -> ok
                         end,
                  whittle_measure:run(study(Changes, Config),
                                      maps:merge(#{dir => in("new", Config), tell => Tell},
                                                 Options))
          end,
    ?assertMatch({error, {exists, Dir}}, Run(#{}, #{dir => Dir})),
    ?assertMatch({error, {no_samples, _}}, Run(#{}, #{resume => true})),
    ?assertMatch({error, {changed, [<<"the study's key title">>]}},
                 Run(#{title => "other"}, #{dir => Dir, resume => true})),
    Second = (program("true"))#{name => q, command => ["no-such-program"]},
    ?assertMatch({error, {no_program, "no-such-program"}},
                 Run(#{programs => [program("true"), Second]}, #{})),
    Missing = #{name => q, input => "nowhere"},
    ?assertMatch({error, {build, _, _}},
                 Run(#{programs => [program("true"), Missing]}, #{})),
    Hello = #{name => hello, input => filename:join(whittle_measure_study:root(),
                                                    "examples/hello")},
    ?assertEqual({error, {no_unit, hello}},
                 Run(#{programs => [Hello#{request => #{shake => #{missing => load}}}],
                       responses => [size]}, #{})),
    ?assertMatch({error, {build, _, {runtime, {unknown_target, _}}}},
                 Run(#{programs => [Hello#{request => #{target => "pdp11"}}],
                       responses => [size]}, #{})),
    %% The line names the level.
    Level = Run(#{programs => [Hello], responses => [size],
                  factors => [#{name => vm, levels => [#{name => own},
                                                       #{name => old,
                                                         request => #{target => "pdp11"}}]},
                              #{name => size, levels => [#{name => small}]}]}, #{}),
    ?assertMatch({match, _}, re:run(text(Level), "^the program hello with vm=old: .*pdp11")),
    checked_requests(fun(Request) ->
                             Run(#{programs => [Hello#{request => Request}], responses => [size]},
                                 #{})
                     end, Config),
    Sourced = #{name => hello, otp_source => #{files => ["lib/stdlib/src/lists.erl"],
                                               start => {lists, nothing}}},
    Lacking = #{name => lacking, otp_source => #{files => ["erts/none.erl"], start => {none, a}}},
    NoFile = Run(#{programs => [Hello, Lacking], responses => [size]}, #{}),
    ?assertMatch({error, {source, {lacking, _}}}, NoFile),
    ?assertMatch({match, _}, re:run(text(NoFile), "^the program lacking: .*erts/none.erl")),
    ok = file:del_dir_r(in("new", Config)),
    checked_requests(fun(Request) ->
                             Run(#{programs => [Sourced#{request => Request}],
                                   responses => [first_line]}, #{})
                     end, Config),
    ?assertMatch({error, {no_tool, count, "no-such-command", _}},
                 Run(#{responses => [#{name => count, kind => command, unit => "x",
                                       command => ["no-such-command"]}]}, #{})),
    Path = os:getenv("PATH"),
    os:putenv("PATH", Dir),
    Error = try Run(#{programs => [Hello], responses => [size, squashfs_xz]}, #{})
            after os:putenv("PATH", Path)
            end,
    ?assertMatch({error, {no_tool, squashfs_xz, "mksquashfs", _}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "not on the PATH: run `tools/setup measure'")),
    ?assertNot(filelib:is_dir(in("new", Config))).

%% The applications, directories and files that a request names must be there.
checked_requests(Run, Config) ->
    [?assertMatch({Request, {error, {build, _, {system, {missing_applications,
                                                         {[{no_such_app, []}], _}}}}}},
                  {Request, Run(Request)})
     || Request <- [#{add => [no_such_app]}, #{add => [ssl, no_such_app], otp => "29"}]],
    ?assertMatch({error, {build, _, {pack, {unreadable, {_, enoent}}}}},
                 Run(#{ca_certs => "no.pem"})),
    made:file(in("false.pem", Config), "no certificate"),
    ?assertMatch({error, {build, _, {pack, {no_certificates, _}}}},
                 Run(#{ca_certs => in("false.pem", Config)})),
    [begin
         Error = Run(#{libs => [in("", Config), Lib]}),
         ?assertEqual({error, {no_directory, hello, Lib}}, Error),
         ?assertEqual("`libs' in a build of the program hello names " ++ Lib
                      ++ ", which is not a directory: correct the study", text(Error))
     end || Lib <- ["/nonexistent/dir", "/etc/passwd"]].

%% A program that fails under a setting is a result.
failing(Config) ->
    Script = "test $SIZE = 2 && { echo no memory; exit 7; }; echo $SIZE",
    {ok, Dir} = measure(#{programs => [program(Script)]}, Config),
    {ok, #{results := [#{rows := [_, Failed, _]}], samples := Samples}} =
        whittle_measure:results(Dir),
    ?assertMatch(#{levels := #{size := medium}, n := 0, failed := 3}, Failed),
    ?assertNot(is_map_key(median, Failed)),
    ?assertEqual([<<"the program ended with exit code 7: its last line is `no memory'">>],
                 lists:usort([Line || #{<<"failed">> := #{<<"run">> := Line}} <- Samples])),
    %% The end of its output stays in a file.
    Logs = [Log || #{<<"failed">> := #{<<"run">> := _}, <<"log">> := Log} <- Samples],
    ?assertEqual(3, length(lists:usort(Logs))),
    [?assertEqual({ok, <<"no memory\n">>}, file:read_file(filename:join(Dir, Log)))
     || Log <- Logs],
    ?assertEqual([], [Log || #{<<"failed">> := None, <<"log">> := Log} <- Samples,
                             map_size(None) =:= 0]).

%% The end of a long output counts.
bounded_log(Config) ->
    Dir = in("out", Config),
    ?assertEqual({ok, #{}}, whittle_measure_samples:keep_log(Dir, {1, 2}, <<>>)),
    Output = <<(binary:copy(<<"x">>, 200_000))/binary, "last">>,
    {ok, #{log := <<"logs/1-2.log">>}} = whittle_measure_samples:keep_log(Dir, {1, 2}, Output),
    {ok, Kept} = file:read_file(filename:join(Dir, "logs/1-2.log")),
    ?assertEqual(65_536, byte_size(Kept)),
    ?assertEqual(<<"last">>, binary:part(Kept, byte_size(Kept), -4)),
    ok = file:make_symlink("/dev/full", filename:join(Dir, "logs/1-3.log")),
    ?assertMatch({error, {file, _, enospc}},
                 whittle_measure_samples:keep_log(Dir, {1, 3}, Output)).

%% Without a single value there is nothing to report. The samples stay.
all_fail(Config) ->
    Error = measure(#{programs => [program("echo no memory; exit 7")]}, Config),
    ?assertMatch({error, {no_values, _}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "^every run of the study failed: ")),
    {ok, #{samples := Samples}} = whittle_measure:results(in("out", Config)),
    ?assert(length(Samples) > 0),
    %% The study of OTP releases calls the engine itself.
    ?assertMatch({error, {no_values, _}},
                 whittle_measure_run:run(study(#{programs => [program("exit 7")]}, Config),
                                         #{dir => in("engine", Config)})).

%% A study that goes on uses the recording, so no part of one may have its name.
recording_whole(Config) ->
    File = in("recordings/p.trace", Config),
    ok = whittle_measure_record:written(File, <<"one">>),
    ?assertEqual({ok, ["p.trace"]}, file:list_dir(filename:dirname(File))),
    ok = file:delete(File),
    ok = file:make_symlink("/dev/full", lists:concat([File, ".", os:getpid(), ".part"])),
    ?assertEqual({error, {file, File, enospc}}, whittle_measure_record:written(File, <<"two">>)),
    ?assertEqual({ok, []}, file:list_dir(filename:dirname(File))).

no_program(Config) ->
    Program = #{name => p, command => ["no-such-program"]},
    ?assertMatch({error, {no_program, "no-such-program"}},
                 measure(#{programs => [Program]}, Config)),
    ?assertNot(filelib:is_file(filename:join(in("out", Config), "samples.jsonl"))).

%% The wrapper gets the program and its arguments as its last words. Its path begins at the study. A
%% variable of a level replaces one of the program.
wrapped(Config) ->
    Wrapper = in("around", Config),
    ok = file:write_file(Wrapper, "#!/bin/sh\nWHICH=$1; export WHICH; shift; exec \"$@\"\n"),
    ok = file:change_mode(Wrapper, 8#755),
    Program = (program("echo $((WHICH * SIZE + MORE))"))
        #{wrapper => ["./around", "100"], environment => [{"MORE", "5"}, {"SIZE", "9"}]},
    {ok, Dir} = measure(#{programs => [Program]}, Config),
    {ok, #{results := [#{rows := Rows}]}} = whittle_measure:results(Dir),
    ?assertEqual([105.0, 205.0, 305.0], [Median || #{median := Median} <- Rows]),
    ?assertMatch({error, {no_program, "./nothing"}},
                 measure(#{programs => [Program#{wrapper => ["./nothing"]}]}, "none", Config)).

%% A number that the workload prints. The workload has the variables of the levels too, and the
%% directory at which the paths of the study begin. Other bytes may stand beside the number.
reported(Config) ->
    Program = (program("echo ready; exec tail -f /dev/null"))
        #{workload => "cd \"$WHITTLE_BASE\" && test -f made.study && printf 'size \\377\n' && "
          "echo \"size $((SIZE * 2))\""},
    Response = #{name => size, kind => reported, pattern => "(?m)^size (\\d+)$", unit => "items"},
    {ok, Dir} = measure(#{programs => [Program], responses => [Response]}, Config),
    {ok, #{results := [#{rows := Rows}]}} = whittle_measure:results(Dir),
    ?assertEqual([2.0, 4.0, 6.0], [Median || #{median := Median} <- Rows]),
    {ok, Other} = measure(#{programs => [Program, (program("echo one; echo two"))#{name => q}],
                            responses => [Response]}, "other", Config),
    {ok, #{samples := Samples}} = whittle_measure:results(Other),
    ?assertEqual([<<"the run had no workload">>],
                 lists:usort([Line || #{<<"failed">> := #{<<"size">> := Line}} <- Samples])).

%% One line names the file, the place and the mistake.
bad_studies(Config) ->
    [begin
         File = in("bad.study", Config),
         ok = file:write_file(File, unicode:characters_to_binary(Text)),
         Error = whittle_measure:study(File, []),
         ?assertMatch({Text, {error, _}}, {Text, Error}),
         Line = text(Error),
         ?assertMatch({Text, Line, {match, _}}, {Text, Line, re:run(Line, Pattern)})
     end || {Text, Pattern} <-
                [{"", "must hold one map"},
                 {"#{title => .", "line 1"},
                 {"#{}.", "the key title is missing"},
                 {"#{title => \"t\", programs => [], responses => [size]}.",
                  "list of programs is empty"},
                 {"#{title => 7, programs => [], responses => [size]}.", "7 is not a text"},
                 {bad("name => \"x\", command => [\"true\"]", "size"), "is not an atom"},
                 {bad("name => p", "size"), "needs either an input, a command or an otp_source"},
                 {bad("name => p, command => []", "size"), "the command is empty"},
                 {bad("name => p, command => [\"true\"], wrapper => []", "run_time"),
                  "the command is empty"},
                 {bad("name => p, command => [\"true\"], environment => [x]", "run_time"),
                  "x is not {Name, Value}"},
                 {bad("name => p, command => [\"true\"], environment => [{\"A=B\", \"\"}]",
                      "run_time"), "`A=B' is not the name of a variable"},
                 {bad("name => p, command => [\"true\"], environment => [{\"\", \"x\"}]",
                      "run_time"), "`' is not the name of a variable"},
                 {bad("name => p, command => [\"true\"]", "#{kind => reported}"),
                  "the key pattern is missing"},
                 {bad("name => p, command => [\"true\"], ready => \"(\"", "size"),
                  "regular expression"},
                 {bad("name => p, command => [\"true\"]", "sise"), "there is no response sise"},
                 {bad("name => p, command => [\"true\"]", "#{name => '../x', kind => size}"),
                  "the value of name is wrong"},
                 {bad("name => p, command => [\"true\"]", "#{kind => printed}"),
                  "the key pattern is missing"},
                 {"#{title => \"t\", titel => 1, programs => [], responses => [size]}.",
                  "there is no key titel"},
                 {"#{title => \"t\", programs => [#{name => p, command => [\"true\"]}], "
                  "responses => [size], blocks => 0}.", "0 is not a whole number from 1"},
                 {"#{title => \"t\", programs => [#{name => p, command => [\"true\"]}], "
                  "responses => [size], baseline => #{x => y}}.", "x, which is not a factor"},
                 {bad("name => p, command => [\"true\"]", "size"),
                  "p has nothing that the responses measure"},
                 {bad("name => p, command => [\"true\"], factors => [x]", "run_time"),
                  "names the factor x"},
                 {bad("name => p, command => [\"true\"], library => [kernel]", "run_time"),
                  "has a library, which needs an input"},
                 {bad("name => p, input => \"x\", library => [kernel], wrapper => [\"nice\"]",
                      "library"),
                  "p has a library, which never runs, so its wrapper has no effect: remove one"},
                 {"#{title => \"t\", programs => [#{name => p, command => [\"true\"]}], "
                  "responses => [run_time], references => [#{source => \"s\", program => p, "
                  "response => size, values => [1], unit => \"kB\"}]}.",
                  "a reference names size, which is not in the study"},
                 {"#{title => \"t\", programs => [#{name => p, input => \"x\"}], "
                  "responses => [size], factors => [#{name => f, levels => [#{name => l, "
                  "library => #{stream => lzma}}]}]}.", "lzma is not one of none, zstd"},
                 {bad("name => p, input => \"x\", request => 7", "size"), "7 is not a map"},
                 {"#{title => \"t\", programs => [#{name => p, input => \"x\"}], "
                  "responses => [size], factors => [#{name => f, levels => [#{name => functions, "
                  "request => #{shake => #{unit => functions, missing => lod}}}]}]}.",
                  "bad.study: the level functions: `missing' cannot be lod \\(did you mean load\\?"
                  "\\): use load or crash$"}
                 | [{bad("name => p, input => \"x\", request => #{" ++ Request ++ "}", "size"),
                     "bad.study: the program p: " ++ Line ++ "$"}
                    || {Request, Line} <- bad_requests()]]].

%% The functions of `lists' would crash at such a list. The line names the innermost key.
improper_lists(Config) ->
    [begin
         File = in("bad.study", Config),
         ok = file:write_file(File, ["#{", Text, "}."]),
         ?assertEqual(File ++ ": " ++ Line ++ " is an improper list: write a list after `|', or a "
                      "comma instead of `|'", text(whittle_measure:study(File, [])))
     end || {Text, Line} <-
                [{"programs => [#{command => [\"/bin/echo\"|hi]}]",
                  "the key command: [\"/bin/echo\"|hi]"},
                 {"factors => [#{levels => [#{flags => [\"+Mea\"|min]}]}]",
                  "the key flags: [\"+Mea\"|min]"},
                 {"programs => [#{environment => [{\"A\", \"b\"}|c]}]",
                  "the key environment: [{\"A\",\"b\"}|c]"},
                 {"programs => [#{environment => [{[$A|b], \"b\"}]}]",
                  "the key environment: [65|b]"},
                 {"programs => [#{name => p}|x]", "the key programs: [#{name => p}|x]"},
                 {"factors => [#{levels => [#{name => a}|b]}]", "the key levels: [#{name => a}|b]"},
                 {"references => [#{values => [1|2]}]", "the key values: [1|2]"},
                 {"[a|b] => 1", "the study: [a|b]"}
                 | [{Key ++ " => [a|b]", "the key " ++ Key ++ ": [a|b]"}
                    || Key <- ["title", "factors", "crossed", "responses", "references"]]]].

%% Twenty-three factors of two levels would fill the memory. `--only' and `crossed' make such a
%% study possible.
too_many_runs(Config) ->
    Factors = fun(Count) ->
                      [#{name => list_to_atom([$f | integer_to_list(N)]),
                         levels => [#{name => off}, #{name => on}]} || N <- lists:seq(1, Count)]
              end,
    Line = fun(Changes) -> text(measure(Changes, Config)) end,
    ?assertEqual("the study would have 58720256 runs, and the limit is 100000: let factors vary "
                 "alone (`crossed' names those that do not), keep fewer levels (--only), or lower "
                 "`blocks'", Line(#{factors => Factors(23), blocks => 6, warmup => 1})),
    ?assertMatch("the study would have more than 1000000000000 runs, " ++ _,
                 Line(#{factors => Factors(900)})),
    ?assertMatch("the study would have 300000 runs, " ++ _, Line(#{blocks => 100_000})),
    ?assertNot(filelib:is_dir(in("out", Config))),
    Few = #{factors => Factors(23), crossed => [], blocks => 1},
    ?assertMatch({ok, _}, measure(Few#{programs => [program("echo 7")]}, Config)).

%% Options of a build, with the line for each.
bad_requests() ->
    [{"out => \"x\"", "there is no option `out': use otp, target, .* or settings"},
     {"flavour => size", "there is no option `flavour' \\(did you mean flavor\\?\\): use otp, .*"},
     {"shake => #{unit => functions, mising => load}",
      "there is no option `mising' \\(did you mean missing\\?\\): use unit, .* or evidence_file"},
     {"shake => #{unit => function}",
      "`unit' cannot be function \\(did you mean functions\\?\\): use functions or modules"},
     {"shake => functions",
      "`shake' cannot be functions: use none, or a map such as #{unit => functions}"},
     {"shake => #{seen => onlyy}",
      "`seen' cannot be onlyy \\(did you mean only\\?\\): use refuse, keep or only"},
     {"shake => #{on => inet6}", "`on' cannot be inet6: use a list of names, such as \\[inet6\\]"},
     {"shake => #{only => [{a, b, 1}]}", "there is no option `only': use .*"},
     {"shake => #{declared => #{remot => []}}", "`declared' cannot be .*: use a map with lists .*"},
     {"format => tar", "`format' cannot be tar: use exe or dir"},
     {"flavor => 7", "`flavor' cannot be 7: use size or speed"},
     {"optimize => \"o2\"", "`optimize' cannot be \"o2\" \\(did you mean o2\\?\\): use mix, .*"},
     {"libs => foo", "`libs' cannot be foo: use a list of texts in quotes, such as \\[\"lib\"\\]"},
     {"libs => \"foo\"", "`libs' cannot be \"foo\": use a list of texts .*"},
     {"libs => [\"a\" | \"b\"]", "`libs' cannot be .*: use a list of texts .*"},
     {"libs => [\"a\", \"\"]", "`libs' cannot be \\[\"a\",\"\"\\]: use a list of texts .*"},
     {"libs => [\"a\\0b\"]", "`libs' cannot be \\[\"a\\\\000b\"\\]: use a list of texts .*"},
     {"libs => [a, 1]", "`libs' cannot be \\[a,1\\]: use a list of texts .*"},
     {"add => foo",
      "`add' cannot be foo: use a list of names of applications, such as \\[ssl\\]"},
     {"add => [ssl, '']", "`add' cannot be \\[ssl,''\\]: use a list of names of applications, .*"},
     {"add => ['../ssl']", "`add' cannot be \\['\\.\\./ssl'\\]: use a list of names of .*"},
     {"settings => \"\"", "`settings' cannot be \"\": use a text in quotes, .*"},
     {"natives => x", "`natives' cannot be x: use a list of texts in quotes, .*"},
     {"ca_certs => 5", "`ca_certs' cannot be 5: use a text in quotes, such as \"ca.pem\""},
     {"settings => <<\"s\">>", "`settings' cannot be <<\"s\">>: use a text in quotes, .*"},
     {"target => arm", "`target' cannot be arm: use a text in quotes, such as \"x86_64\""},
     {"otp => 28", "`otp' cannot be 28: use a text in quotes, such as \"\\d+\""},
     {"includes => maybe", "`includes' cannot be maybe: use auto or keep"},
     {"attributes => 7", "`attributes' cannot be 7: use auto or keep"}].

bad(Program, Response) ->
    "#{title => \"t\", programs => [#{" ++ Program ++ "}], responses => [" ++ Response ++ "]}.".

%% Each study that comes with Whittle is sound.
shipped(_) ->
    ?assertNotEqual([], whittle_measure:names()),
    [?assertMatch({Name, {ok, #{}}}, {Name, whittle_measure:study(Name, [])})
     || Name <- whittle_measure:names()],
    ?assertMatch({error, {no_study, "nothing", _}}, whittle_measure:study("nothing", [])).

compared(Config) ->
    {ok, One} = measure(#{blocks => 6}, "one", Config),
    {ok, Other} = measure(#{blocks => 6, programs => [program("echo $((SIZE * 30))")]}, "other",
                          Config),
    {ok, Compared} = whittle_measure:compare(One, Other, []),
    [[Head | Rows]] = whittle_measure:comparison_tables(Compared),
    ?assertMatch(["number", One, Other, "ratio", "verdict"], Head),
    %% Six runs on each side have the full confidence.
    ?assertEqual([], confidences(Compared)),
    ?assertEqual([{"program=p, size=large", "3.000", "worse"},
                  {"program=p, size=medium", "3.000", "worse"},
                  {"program=p, size=small", "3.000", "worse"}],
                 [{chars(Cell), chars(Ratio), hd(string:split(chars(Verdict), " (noisy machine)"))}
                  || [Cell, _, _, Ratio, Verdict] <- Rows]),
    %% The data are numbers.
    [#{<<"response">> := <<"number">>, <<"first">> := First, <<"second">> := Second,
       <<"rows">> := [#{<<"levels">> := #{<<"program">> := <<"p">>, <<"size">> := <<"large">>},
                        <<"first">> := Old, <<"second">> := New, <<"verdict">> := <<"worse">>,
                        <<"ratio">> := #{<<"median">> := Ratio, <<"n">> := 6,
                                         <<"interval">> := [_, _]}} | _]}] =
        jiffy:decode(whittle_json:encode(whittle_measure:comparison_json(Compared)),
                     [return_maps]),
    ?assertEqual([One, Other], [binary_to_list(Name) || Name <- [First, Second]]),
    ?assert(abs(Ratio - 3) < 0.001 andalso abs(New - 3 * Old) < 0.001),
    {ok, Itself} = whittle_measure:compare(One, One, []),
    [[_ | Same]] = whittle_measure:comparison_tables(Itself),
    [?assertMatch({match, _},
                  re:run(chars(Verdict), "^no difference; this run could have detected"))
     || [_, _, _, _, Verdict] <- Same],
    %% Each run has another number, so that the ratio has an interval.
    {ok, Few} = measure(#{blocks => 3, programs => [program("echo $$")]}, "few", Config),
    {ok, Uncertain} = whittle_measure:compare(Few, Other, []),
    ?assertEqual(["an interval of 3 runs has a confidence of 75 % at least; 95 % needs six runs on "
                  "each side"], confidences(Uncertain)).

%% The machine may be noisy too.
confidences(Compared) ->
    [chars(Note) || Note <- whittle_measure:comparison_notes(Compared),
                    re:run(Note, "confidence") =/= nomatch].

%% Two runs with other levels of a factor, as two releases are. The lines below the tables say that
%% a run was noisy, or of another machine.
compared_levels(Config) ->
    [One, Other] = [begin
                        {ok, Study} = whittle_measure:study(file(#{}, Config), [{"size", Level}]),
                        {ok, Dir} = whittle_measure:run(Study, #{dir => in(Level, Config)}),
                        Dir
                    end || Level <- ["small", "large"]],
    ?assertMatch({error, {different_studies, One, Other}},
                 whittle_measure:compare(One, Other, [])),
    {ok, [#{rows := [#{cell := Cell, ratio := #{median := Ratio}, verdict := worse}]}]} =
        whittle_measure:compare(One, Other, ["size"]),
    ?assertEqual(#{<<"program">> => <<"p">>}, Cell),
    ?assert(abs(Ratio - 3) < 0.001),
    ?assertMatch({error, {not_a_factor, "color", One, [size]}},
                 whittle_measure:compare(One, Other, ["color"])),
    {ok, All} = measure(#{}, Config),
    ?assertMatch({error, {several_levels, "size", All}},
                 whittle_measure:compare(One, All, ["size"])),
    {ok, Report} = whittle_measure:results(One),
    #{facts := #{<<"machine">> := Machine} = Facts, noise := Noise} = Report,
    Loud = Report#{noise := Noise#{verdict := noisy},
                   facts := Facts#{<<"machine">> := Machine#{<<"cpu">> := <<"another">>}}},
    Quiet = Report#{noise := Noise#{verdict := quiet}},
    {ok, Marked} = whittle_measure_compare:compare({"a", Quiet}, {"b", Loud}, []),
    ?assertMatch(["the runs are of different machines" ++ _,
                  "the machine was noisy in b: " ++ _],
                 [chars(Note) || Note <- whittle_measure_compare:notes(Marked)]),
    ?assertMatch([#{rows := [#{noisy := true}]}], Marked),
    {ok, Plain} = whittle_measure_compare:compare({"a", Quiet}, {"b", Quiet}, []),
    ?assertEqual([], whittle_measure_compare:notes(Plain)).

%% The texts of a study may hold characters that HTML reserves.
page(Config) ->
    {ok, Dir} = measure(#{title => "a < b & \"c\" \x{e9}"}, Config),
    {ok, #{page := Page} = Report} = whittle_measure:report(Dir),
    {ok, Html} = file:read_file(Page),
    ?assertMatch({_, _},
                 binary:match(Html, <<"<title>a &lt; b &amp; &quot;c&quot; é</title>"/utf8>>)),
    ?assertMatch({_, _}, binary:match(Html, <<"<td>size=large</td>">>)),
    ?assertEqual(nomatch, binary:match(Html, <<"<script">>)),
    ?assertMatch({_, _}, binary:match(Html, <<"<code>whittle measure made</code>">>)),
    %% The footer has the command of the user with its options.
    {ok, With} = whittle_measure:run(study(#{}, Config),
                                     #{dir => in("with", Config),
                                       command => "whittle measure 'a<b.study' --blocks 3"}),
    {ok, #{page := Own}} = whittle_measure:report(With),
    {ok, Shown} = file:read_file(Own),
    ?assertMatch({_, _}, binary:match(Shown, <<"<code>whittle measure 'a&lt;b.study' --blocks 3"
                                               "</code> with Whittle 0.">>)),
    %% A new page replaces a link, and leaves alone the file to which it points.
    Other = filename:join(Dir, "other"),
    ok = file:rename(Page, Other),
    ok = file:make_symlink("other", Page),
    {ok, _} = whittle_measure:report(Dir),
    ?assertMatch({error, einval}, file:read_link(Page)),
    ?assertEqual({ok, Html}, file:read_file(Other)),
    ?assertMatch([{[_ | _], [_]}], whittle_measure:tables(Report)),
    ?assertMatch([_], binary:matches(Html, <<"<h2>number of p</h2>">>)),
    %% A study of three blocks does not claim more than its intervals have.
    ?assertMatch({_, _}, binary:match(Html, <<"<th>75 % interval</th>">>)),
    ?assertMatch({_, _}, binary:match(Html, <<"<p>the interval of 3 runs is their range">>)),
    ?assertEqual(nomatch, binary:match(Html, <<"95&nbsp;%">>)),
    Json = iolist_to_binary(whittle_json:encode(whittle_measure:json(Report))),
    ?assertMatch(#{<<"results">> := [#{}]}, jiffy:decode(Json, [return_maps])).

%% The page and the terminal show the titles of factors and levels.
titles(Config) ->
    Level = fun(Name) -> #{name => Name, environment => [{"SIZE", "1"}]} end,
    {ok, Dir} = measure(#{factors => [#{name => size, title => "the size",
                                        levels => [(Level(small))#{title => "one < two"},
                                                   Level(large)]}]}, Config),
    {ok, #{page := Page} = Report} = whittle_measure:report(Dir),
    ?assertEqual([["factor or level", "title"], ["size", "the size"],
                  ["size=small", "one < two"]],
                 [[chars(Cell) || Cell <- Row] || Row <- whittle_measure:titles(Report)]),
    {ok, Html} = file:read_file(Page),
    ?assertMatch({_, _}, binary:match(Html, <<"<td>size=small</td><td>one &lt; two</td>">>)),
    {ok, Plain} = measure(#{}, "plain", Config),
    {ok, Untitled} = whittle_measure:report(Plain),
    ?assertEqual([], whittle_measure:titles(Untitled)).

%% Numbers of another work stand beside the rows that they belong to, and others below the table.
references(Config) ->
    Source = "a work <of 2011>",
    Of = #{source => Source, program => p, response => number, unit => "kB"},
    {ok, Dir} = measure(#{references => [Of#{levels => #{size => medium}, values => [1792]},
                                         Of#{values => [2296, 12.5], note => "in any order"}]},
                        Config),
    {ok, #{page := Page} = Report} = whittle_measure:report(Dir),
    [{[Head | Rows], Notes}] = whittle_measure:tables(Report),
    ?assertEqual("reference", lists:last(Head)),
    ?assertEqual(["", "1,792 kB", ""], [chars(lists:last(Row)) || Row <- Rows]),
    ?assertEqual(["the interval of 3 runs is their range, with a confidence of 75 %; 95 % needs "
                  "six runs",
                  "reference: a work <of 2011>", "reference: 2,296; 12.5000 kB: a work <of 2011>",
                  "in any order"], [chars(Note) || Note <- Notes]),
    {ok, Html} = file:read_file(Page),
    ?assertMatch({_, _}, binary:match(Html, <<"<td>1,792 kB</td>">>)),
    ?assertMatch({_, _}, binary:match(Html, <<"<p>reference: a work &lt;of 2011&gt;</p>">>)),
    Json = jiffy:decode(whittle_json:encode(whittle_measure:json(Report)), [return_maps]),
    ?assertMatch(#{<<"results">> := [#{<<"exact">> := false,
                                       <<"references">> := [#{<<"values">> := [1792]}, #{}],
                                       <<"rows">> := [#{<<"interval">> := [_, _]} | _]}]}, Json).

%% The sample that does not fit ends the study with an error.
full_disk(_) ->
    {ok, Full} = file:open("/dev/full", [append, raw, binary]),
    Error = whittle_measure_samples:append(Full, #{block => 1}),
    ?assertMatch({error, {file, _, enospc}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "disk is full: make room and continue")).

every_error_is_one_line(_) ->
    Errors = [{no_study, "x", ["start"]}, {unreadable, "f", enoent}, {unreadable, "f", "line 1"},
              {wrong, "f", "a program"}, {no_factor, "x", [a]}, {no_level, a, "x", [b]},
              {exists, "d"}, {of_a_load_test, "d"}, {not_empty, {"d", "f"}},
              {not_empty, {"d", <<255>>}}, {empty, "d"}, {link, "d"}, {in_use, "d"},
              {no_samples, "d"}, {changed, [<<"the study">>]},
              {damaged, "f", 2}, {file, "f", enospc}, {file, "f", eacces}, {no_program, "x"},
              {stock, "x", <<"no">>}, {no_tool, size, "x", "y"}, {no_charts, "x"},
              {library, "x", "y"}, {no_unit, x}, {no_directory, x, "d"},
              {different_studies, "a", "b"},
              {not_a_factor, "x", "d", [a]}, {several_levels, "x", "d"},
              {no_values, "d"}, {too_many_runs, 100_001, 100_000},
              {make, {input_is_output, "x"}},
              {build, #{program => #{name => p}, levels => #{}}, {input_is_output, "x"}}],
    [begin
         Line = chars(whittle_measure:format_error(Error)),
         ?assertEqual(nomatch, string:find(Line, "\n")),
         ?assert(is_atom(whittle_measure:code(Error))),
         ?assert(is_list(whittle_measure:details(Error)))
     end || Error <- Errors].

%% Internal functions

%% A study of a program of sh that prints a number ten times the level's.
measure(Changes, Config) -> measure(Changes, "out", Config).

measure(Changes, Name, Config) ->
    whittle_measure:run(study(Changes, Config), #{dir => in(Name, Config)}).

study(Changes, Config) ->
    {ok, Study} = whittle_measure:study(file(Changes, Config), []),
    Study.

file(Changes, Config) ->
    File = in("made.study", Config),
    Study = maps:merge(#{title => "a study", programs => [program("echo $((SIZE * 10))")],
                         factors => [#{name => size,
                                       levels => [#{name => Name,
                                                    environment => [{"SIZE", Value}]}
                                                  || {Name, Value} <- [{small, "1"}, {medium, "2"},
                                                                       {large, "3"}]]}],
                         responses => [#{name => number, kind => printed, pattern => "^(\\d+)",
                                         unit => "items"}],
                         blocks => 3, duration => 5}, Changes),
    ok = file:write_file(File, unicode:characters_to_binary(io_lib:format("~tp.~n", [Study]))),
    File.

program(Script) -> #{name => p, command => ["sh", "-c", Script]}.

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).

text({error, Error}) -> chars(whittle_measure:format_error(Error)).

chars(Text) -> unicode:characters_to_list(Text).
