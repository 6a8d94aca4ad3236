%% Tests the study `otp' without a build: counting objects, comparing two runs, the store of runs.
%% acceptance/suites/measure_otp_SUITE runs the command.
-module(whittle_measure_otp_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2]).
-export([objects/1, nothing_before/1, same/1, bytes/1, parts/1, times/1, faster/1, noisy/1,
         other_machine/1, other_compiler/1, other_target/1, failed_check/1, failed_runs/1,
         which_subject/1, store/1, resume/1, damaged/1, no_store/1, one_line/1]).

all() ->
    [objects, nothing_before, same, bytes, parts, times, faster, noisy, other_machine,
     other_compiler, other_target, failed_check, failed_runs, which_subject, store, resume,
     damaged, no_store, one_line].

init_per_testcase(Case, Config) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "otp runs", atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

%% Two names of one address count once; memory without bytes in the file does not count.
objects(_) ->
    Text = "\nSymbols from vm.debug:\n\n"
        "Name                  Value           Class        Type         Size    Line  Section\n\n"
        "process_main        |000000000041c1d0|   T  |   FUNC|000000000000ee38|     |.text"
        "\t././src/erts/emulator/beam/emu/beam_emu.c:271\n"
        "same_main           |000000000041c1d0|   t  |   FUNC|000000000000ee38|     |.text"
        "\t././src/erts/emulator/beam/emu/beam_emu.c:271\n"
        "_pcre2_ucd_stage2_8 |00000000007be4a0|   B  | OBJECT|0000000000000100|     |.rodata"
        "\t././src/erts/emulator/./src/erts/emulator/pcre/pcre2_ucd.c:2646\n"
        "table               |00000000007be5a0|   B  | OBJECT|0000000000000010|     |.rodata"
        "\t././src/erts/emulator/pcre/pcre2_ucd.c:9\n"
        "erts_pix_locks      |00000000008a1500|   B  | OBJECT|0000000000010000|     |.bss"
        "\t././src/erts/emulator/beam/erl_process_lock.c:113\n"
        "main                |0000000000500000|   T  |   FUNC|0000000000000020|     |.text"
        "\tlauncher/main.c:7\n"
        "beam_cold           |0000000000700000|   t  |   FUNC|0000000000000008|     |.text"
        "\t././src/erts/emulator/x86_64-pc-linux-musl/opt/emu/preload.c:1\n"
        "older                |0000000000700008|   t  |   FUNC|0000000000000008|     |.text"
        "\t././src/erts/emulator/x86_64-pc-linux-musl/preload.c:1\n"
        "memcpy              |0000000000600000|   T  |   FUNC|0000000000000040|     |.text\n"
        "no_size             |0000000000600100|   T  | NOTYPE|                |     |.text\n",
    ?assertEqual(#{<<"erts/emulator/beam/emu/beam_emu.c">> => 16#ee38,
                   <<"erts/emulator/pcre/pcre2_ucd.c">> => 16#110,
                   <<"erts/emulator/generated/preload.c">> => 16#10,
                   <<"launcher/main.c">> => 16#20,
                   <<"(C library and assembler)">> => 16#40},
                 whittle_measure_otp_bytes:objects(Text)).

nothing_before(_) ->
    #{regressions := [], notes := [], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(stored([]), none, 0.02),
    ?assertMatch(#{before := none, vsn := <<"29.1.1">>}, Subject),
    ?assertEqual([{<<"hello">>, none, 5000, new}, {<<"kernel">>, none, 1000, new},
                  {<<"stdlib">>, none, 2000, new}, {<<"vm">>, none, 3000, new}], bytes_of(Subject)),
    ?assertMatch(#{before := none, 'after' := 100.0, ratio := none, verdict := new},
                 time(<<"hello: first_line">>, Subject)).

same(_) ->
    #{regressions := [], notes := [], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(stored([]), stored([]), 0.0),
    ?assertEqual([same], lists:usort([Verdict || {_, _, _, Verdict} <- bytes_of(Subject)])),
    ?assertMatch(#{objects := [], modules := []}, Subject),
    ?assertMatch(#{ratio := {1.0, _, _}, verdict := none}, time(<<"hello: first_line">>, Subject)).

%% Bytes are exact: the bound decides, and nothing else does.
bytes(_) ->
    Grown = stored([{totals, #{vm => 3060, kernel => 1021, stdlib => 1900}}, {size, 5000}]),
    #{regressions := [Line], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(Grown, stored([]), 0.02),
    ?assertEqual(<<"OTP 29.1.1: kernel grew from 1,000 to 1,021 bytes">>, Line),
    ?assertEqual([{<<"hello">>, 5000, 5000, same}, {<<"kernel">>, 1000, 1021, regression},
                  {<<"stdlib">>, 2000, 1900, smaller}, {<<"vm">>, 3000, 3060, larger}],
                 bytes_of(Subject)),
    #{regressions := Two} = whittle_measure_otp_moved:moved(Grown, stored([]), 0.0199),
    ?assertEqual(2, length(Two)),
    #{regressions := None} = whittle_measure_otp_moved:moved(Grown, stored([]), 0.03),
    ?assertEqual([], None).

%% Objects and modules are listed by how much they moved, and are no regressions.
parts(_) ->
    New = stored([{objects, #{'a.c' => 100, 'b.c' => 900, 'new.c' => 30}},
                  {modules, #{'kernel/x' => 5}}]),
    Old = stored([{objects, #{'a.c' => 100, 'b.c' => 100, 'gone.c' => 40}},
                  {modules, #{'kernel/x' => 9}}]),
    #{regressions := [], subjects := [#{objects := Objects, modules := Modules}]} =
        whittle_measure_otp_moved:moved(New, Old, 0.0),
    ?assertEqual([{<<"b.c">>, 100, 900, larger}, {<<"gone.c">>, 40, none, smaller},
                  {<<"new.c">>, none, 30, new}], rows(Objects)),
    ?assertEqual([{<<"kernel/x">>, 9, 5, smaller}], rows(Modules)).

%% A time is a regression only if its whole interval lies beyond the bound.
times(_) ->
    Slower = fun(Factor) -> stored([{first_line, [Factor * T || T <- spread()]}]) end,
    Verdict = fun(Factor, Bound) ->
                      #{subjects := [Subject], regressions := Lines} =
                          whittle_measure_otp_moved:moved(Slower(Factor), stored([]), Bound),
                      #{verdict := Verdict} = time(<<"hello: first_line">>, Subject),
                      {Verdict, length(Lines)}
              end,
    ?assertEqual({regression, 1}, Verdict(1.5, 0.02)),
    ?assertEqual({larger, 0}, Verdict(1.5, 0.6)),
    %% The middle is beyond the bound, but the interval reaches below it.
    ?assertEqual({larger, 0}, Verdict(1.5, 0.499)),
    ?assertEqual({none, 0}, Verdict(1.001, 0.0)).

faster(_) ->
    Fast = stored([{first_line, [T / 2 || T <- spread()]}]),
    #{regressions := [], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(Fast, stored([]), 0.0),
    ?assertMatch(#{verdict := smaller}, time(<<"hello: first_line">>, Subject)).

noisy(_) ->
    Slow = stored([{first_line, [2 * T || T <- spread()]}, {others, 0.5}]),
    #{regressions := [], notes := [Note], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(Slow, stored([]), 0.02),
    ?assertMatch({match, _}, re:run(Note, "noisy in this run, so no time or memory is judged")),
    ?assertMatch(#{ratio := {_, _, _}, verdict := noisy},
                 time(<<"hello: first_line">>, Subject)).

other_machine(_) ->
    New = stored([{first_line, [2 * T || T <- spread()]}, {cpu, <<"another">>},
                  {totals, #{vm => 4000, kernel => 1000, stdlib => 2000}}]),
    #{regressions := [Line], notes := [Note], subjects := [Subject]} =
        whittle_measure_otp_moved:moved(New, stored([]), 0.02),
    ?assertMatch({match, _}, re:run(Line, "vm grew from 3,000 to 4,000 bytes")),
    ?assertMatch({match, _}, re:run(Note, "of another machine, so times and memory are not")),
    ?assertMatch(#{ratio := none, verdict := not_compared},
                 time(<<"hello: first_line">>, Subject)),
    %% The kernel keeps a little more or less memory for itself after a restart.
    #{notes := []} = whittle_measure_otp_moved:moved(stored([{memory, 1010}]), stored([]), 0.02).

other_compiler(_) ->
    New = stored([{first_line, [2 * T || T <- spread()]}, {compiler, [<<"cc 13">>]}]),
    #{regressions := [], notes := [Note]} =
        whittle_measure_otp_moved:moved(New, stored([]), 0.02),
    ?assertMatch({match, _}, re:run(Note, "another compiler, .* may be the compiler's")).

other_target(_) ->
    New = stored([{target, <<"armv7">>}, {totals, #{vm => 9000, kernel => 9000, stdlib => 9000}}]),
    #{regressions := [], notes := [Note], subjects := [#{before := none}]} =
        whittle_measure_otp_moved:moved(New, stored([]), 0.02),
    ?assertMatch({match, _}, re:run(Note, "another target, so nothing is compared")).

failed_check(_) ->
    New = stored([{checks, [#{<<"name">> => <<"mixed">>, <<"passed">> => false,
                              <<"line">> => <<"the program ended with exit code 1">>}]}]),
    [?assertMatch(#{regressions := [<<"OTP 29.1.1: the check mixed failed: the program ended with "
                                      "exit code 1">>]},
                  whittle_measure_otp_moved:moved(New, Old, 0.02))
     || Old <- [none, stored([])]].

%% A program that no longer runs is a regression. One that failed as often before is none.
failed_runs(_) ->
    Failing = fun(Count) -> stored([{failing, Count}]) end,
    Lines = fun(New, Old) ->
                    #{regressions := Lines} = whittle_measure_otp_moved:moved(New, Old, 0.02),
                    Lines
            end,
    ?assertEqual([<<"OTP 29.1.1: 9 of 9 runs of hello failed (before: 0 of 9): no memory">>],
                 Lines(Failing(9), Failing(0))),
    ?assertEqual([<<"OTP 29.1.1: 2 of 9 runs of hello failed (before: 1 of 9): no memory">>],
                 Lines(Failing(2), Failing(1))),
    ?assertEqual([<<"OTP 29.1.1: 1 of 9 runs of hello failed (before: 0 of 0): no memory">>],
                 Lines(Failing(1), none)),
    ?assertEqual([], Lines(Failing(2), Failing(2))),
    ?assertEqual([], Lines(Failing(0), Failing(9))).

%% A given source is compared with its own release, and a new release with the newest.
which_subject(_) ->
    %% The newest release counts, also if an older one has the same level.
    Given = stored([{subjects, [{<<"given">>, <<"26">>, <<"26.2">>},
                                {<<"29">>, <<"29">>, <<"29.1.1">>}]}]),
    ?assertMatch(#{subjects := [#{before := #{vsn := <<"29.1.1">>}}]},
                 whittle_measure_otp_moved:moved(
                   stored([{subjects, [{<<"given">>, <<"31">>, <<"31.0">>}]}]), Given, 0.02)),
    Old = stored([{subjects, [{<<"25">>, <<"25">>, <<"25.2.3">>},
                              {<<"29">>, <<"29">>, <<"29.1.1">>},
                              {<<"27">>, <<"27">>, <<"27.3">>}]}]),
    [begin
         New = stored([{subjects, [{Level, Release, <<Release/binary, ".9">>}]}]),
         #{subjects := [#{before := #{vsn := Vsn}}]} =
             whittle_measure_otp_moved:moved(New, Old, 0.02),
         ?assertEqual({Level, Release, Before}, {Level, Release, Vsn})
     end || {Level, Release, Before} <- [{<<"given">>, <<"27">>, <<"27.3">>},
                                         {<<"given">>, <<"25">>, <<"25.2.3">>},
                                         {<<"given">>, <<"30">>, <<"29.1.1">>},
                                         {<<"29">>, <<"29">>, <<"29.1.1">>}]].

%% The last complete run counts, by number and not by name.
store(Config) ->
    Store = in("store", Config),
    ?assertEqual({ok, none}, whittle_measure_otp_store:before(#{dir => Store})),
    Numbered = filename:join(Store, "0009"),
    ok = complete(Numbered, <<"29.1">>),
    {ok, {Next, false}} = whittle_measure_otp_store:place(Store, false),
    ?assertEqual(filename:join(Store, "0010"), Next),
    ok = complete(filename:join(Store, "10000"), <<"29.2">>),
    ok = filelib:ensure_path(filename:join(Store, "notes")),
    ?assertMatch({ok, #{facts := #{<<"subjects">> := [#{<<"vsn">> := <<"29.2">>}]}}},
                 whittle_measure_otp_store:before(#{dir => Store})),
    %% A store or a run can be named.
    Other = in("other", Config),
    ?assertMatch({ok, #{dir := Numbered}},
                 whittle_measure_otp_store:before(#{dir => Other, against => Numbered})),
    ?assertMatch({ok, #{facts := #{<<"subjects">> := [#{<<"vsn">> := <<"29.2">>}]}}},
                 whittle_measure_otp_store:before(#{dir => Other, against => Store})),
    ?assertEqual({error, {no_run, Other}},
                 whittle_measure_otp_store:before(#{dir => Store, against => Other})).

%% A run that stopped is not compared with, and is continued with its samples.
resume(Config) ->
    Store = in("store", Config),
    ?assertEqual({error, {nothing_to_resume, Store}},
                 whittle_measure_otp_store:place(Store, true)),
    {ok, {First, false}} = whittle_measure_otp_store:place(Store, false),
    ?assertEqual({ok, {First, false}}, whittle_measure_otp_store:place(Store, true)),
    %% A run claims its directory with this file before it builds the programs.
    ok = file:write_file(filename:join(First, "samples.jsonl"), ""),
    ?assertEqual({ok, {First, false}}, whittle_measure_otp_store:place(Store, true)),
    Facts = made:file(filename:join(First, "study.json"), "{}"),
    ?assertEqual({ok, {First, true}}, whittle_measure_otp_store:place(Store, true)),
    ok = file:delete(Facts),
    ?assertEqual({ok, none}, whittle_measure_otp_store:before(#{dir => Store})),
    ok = complete(First, <<"29.1">>),
    ?assertEqual({error, {nothing_to_resume, Store}},
                 whittle_measure_otp_store:place(Store, true)),
    ?assertMatch({ok, #{dir := First}}, whittle_measure_otp_store:before(#{dir => Store})).

damaged(Config) ->
    Store = in("store", Config),
    Run = filename:join(Store, "0001"),
    ok = complete(Run, <<"29.1">>),
    File = filename:join(Run, "otp.json"),
    [begin
         ok = file:write_file(File, Bytes),
         ?assertEqual({error, {Tag, File}}, whittle_measure_otp_store:before(#{dir => Store}))
     end || {Tag, Bytes} <- [{damaged_run, "{\"format\":"}, {damaged_run, "[]"},
                             {damaged_run, "{\"format\":1,\"subjects\":[]}"},
                             {other_format, "{\"format\":2}"}]
                  ++ [{damaged_run, jiffy:encode(Facts)} || Facts <- incomplete()]].

%% The facts of a run without one of the keys that the comparison reads.
incomplete() ->
    #{facts := #{<<"subjects">> := [Subject]} = Facts} = stored([]),
    [maps:remove(Key, Facts) || Key <- maps:keys(Facts), Key =/= <<"format">>]
        ++ [Facts#{<<"subjects">> := [maps:remove(Key, Subject)]} || Key <- maps:keys(Subject)]
        ++ [Facts#{<<"subjects">> := [Subject#{<<"release">> := <<"new">>}]}].

no_store(Config) ->
    File = in("file", Config),
    ok = file:write_file(File, ""),
    ?assertMatch({error, {no_store, File, _}}, whittle_measure_otp_store:place(File, false)).

one_line(_) ->
    [begin
         Line = unicode:characters_to_list(whittle_measure:format_error(Reason)),
         ?assertEqual(nomatch, string:find(Line, "\n")),
         ?assertMatch({Line, {match, _}}, {Line, re:run(Line, ": |; ")})
     end || Reason <- [{no_otp, "27", {no_source, #{component => erlang, release => "27",
                                                    tried => []}}},
                       {nothing_left, ["OTP 27: nothing"]}, {no_given, []},
                       {no_objects, "vm.debug", "no symbols"}, {no_run, "dir"},
                       {nothing_to_resume, "dir"}, {no_store, "dir", eacces},
                       {unreadable_run, "file", eacces}, {other_format, "otp.json"},
                       {damaged_run, "otp.json"}]],
    %% The error of a release without a source says how to give it.
    ?assertMatch({match, _},
                 re:run(unicode:characters_to_list(
                          whittle_measure:format_error(
                            {no_otp, "27", {no_source, #{component => erlang, release => "27",
                                                         tried => []}}})),
                        "; get a tarball of OTP 27 and name it with --source FILE$")).

%% Internal functions: a run that somebody stored

%% Times of a quiet machine, in milliseconds.
spread() -> [98.0, 99.0, 100.0, 100.0, 101.0, 102.0, 99.5, 100.5, 100.0].

stored(Changes) ->
    Get = fun(Key, Default) -> proplists:get_value(Key, Changes, Default) end,
    {ok, Study} = whittle_measure_study:read("otp"),
    Subjects = [#{<<"level">> => Level, <<"release">> => Release, <<"vsn">> => Vsn,
                  <<"totals">> => texts(Get(totals, #{vm => 3000, kernel => 1000,
                                                      stdlib => 2000})),
                  <<"objects">> => texts(Get(objects, #{'a.c' => 100})),
                  <<"modules">> => texts(Get(modules, #{'kernel/x' => 10})),
                  <<"checks">> => Get(checks, [#{<<"name">> => <<"hello">>, <<"passed">> => true,
                                                 <<"line">> => <<"Hello">>}])}
                || {Level, Release, Vsn} <- Get(subjects, [{<<"29">>, <<"29">>, <<"29.1.1">>}])],
    Levels = [Level || #{<<"level">> := Level} <- Subjects],
    Failing = Get(failing, 0),
    Cell = fun(Level) -> #{<<"program">> => <<"hello">>, <<"otp">> => Level} end,
    #{dir => "0001", study => Study,
      facts => #{<<"format">> => 1, <<"target">> => Get(target, <<"x86_64">>),
                 <<"compiler">> => Get(compiler, [<<"cc 12">>]), <<"subjects">> => Subjects,
                 <<"machine">> => #{<<"cpu">> => Get(cpu, <<"one">>), <<"cpus">> => 2,
                                    <<"memory">> => Get(memory, 1000)}},
      samples => [#{<<"block">> => <<"build">>, <<"cells">> => [Cell(Level)],
                    <<"values">> => #{<<"size">> => Get(size, 5000)}} || Level <- Levels]
          ++ [#{<<"block">> => Block, <<"cell">> => Cell(Level),
                <<"values">> => case Block > Failing of
                                    true -> #{<<"first_line">> => Time};
                                    false -> #{}
                                end,
                <<"failed">> => maps:from_list([{<<"run">>, <<"no memory">>} || Block =< Failing]),
                <<"machine">> => #{<<"pace">> => 5000, <<"steal">> => 0.0,
                                   <<"others">> => Get(others, 0.0)}}
              || Level <- Levels, {Block, Time} <- lists:enumerate(Get(first_line, spread()))]}.

texts(Map) -> maps:from_list([{atom_to_binary(Key), Value} || {Key, Value} <- maps:to_list(Map)]).

bytes_of(#{bytes := Bytes}) -> rows(Bytes).

rows(Rows) ->
    [{Name, Before, After, Verdict}
     || #{name := Name, before := Before, 'after' := After, verdict := Verdict} <- Rows].

time(Name, #{timed := Timed}) ->
    [Row] = [Row || #{name := Of} = Row <- Timed, Of =:= Name],
    Row.

%% Writes a complete run.
complete(Run, Vsn) ->
    {ok, Study} = whittle_measure_study:read("otp"),
    _ = file:delete(filename:join(Run, "samples.jsonl")),
    {ok, Log} = whittle_measure_samples:create(
                  Run, #{term => unicode:characters_to_binary(io_lib:format("~tp.~n", [Study])),
                         machine => whittle_measure_machine:facts(), inputs => #{}}),
    ok = whittle_measure_samples:close(Log),
    #{facts := Facts} = stored([{subjects, [{<<"29">>, <<"29">>, Vsn}]}]),
    whittle_measure_otp_store:write(Run, Facts).

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).
