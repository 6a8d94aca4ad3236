%% Tests `whittle measure otp' with the VM in the cache: a run that Ctrl-C ends and --resume
%% continues, a comparison with a stored run, and bad input. `make otp-study' builds a changed OTP.
-module(measure_otp_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([interrupted/1, stored/1, regression/1, bad_arguments/1, bad_sources/1,
         unfit_patches/1]).

all() -> [interrupted, stored, regression, bad_arguments, bad_sources, unfit_patches].

init_per_suite(Config) ->
    Dir = running:directory("otp", Config),
    [{dir, Dir}, {store, filename:join(Dir, "the store")} | Config].

end_per_suite(_) -> ok.

%% Ctrl-C leaves no temporary file and no complete run, at the checks and at the runs; --resume
%% makes the run complete.
interrupted(Config) ->
    Run = filename:join(store(Config), "0001"),
    Temporary = running:directory("temporary", Config),
    [begin
         Port = running:start("/usr/bin/env",
                              ["--default-signal=INT", "TMPDIR=" ++ Temporary,
                               filename:join(running:root(), "whittle")
                               | words(["--blocks", "2" | More], Config)], #{env => keep}),
         _ = running:until(Port, Line),
         ok = running:signal(Port, "INT"),
         {130, _} = running:ended(Port),
         ?assertNot(filelib:is_file(filename:join(Run, "otp.json"))),
         ?assertEqual({ok, []}, file:list_dir(Temporary))
     end || {Line, More} <- [{<<"the quick checks\n">>, []},
                             {<<"start, memory and speed\n">>, ["--resume"]}]],
    {0, Output} = measure(["--blocks", "2", "--resume"], Config),
    matches(Output, ["^OTP 29[0-9.]*, compared with nothing$", "^vm +- +[0-9,]+$",
                     "^erts/emulator/.*\\.c +- +[0-9,]+$", "^stdlib/unicode_util +- +[0-9,]+$",
                     "^hello: first_line +- +[0-9.]+ ms +-$", "^mixed, shaken +passed$",
                     "^the run: .*/the store/0001$", "^no earlier run; this one is stored$"]),
    {1, Complete} = measure(["--resume"], Config),
    matches(Complete, ["is complete, or there is none: leave out --resume$"]).

%% The file of a run has the bytes of all modules of kernel and stdlib, and of the VM's objects.
stored(Config) ->
    #{<<"subjects">> := [#{<<"objects">> := Objects, <<"modules">> := Modules,
                           <<"totals">> := #{<<"vm">> := Vm, <<"kernel">> := Kernel,
                                             <<"stdlib">> := Stdlib}}],
      <<"compiler">> := [_ | _]} = facts(Config),
    ?assertEqual(Vm, lists:sum(maps:values(Objects))),
    Of = fun(App) -> lists:sum([Bytes || {Name, Bytes} <- maps:to_list(Modules),
                                         string:prefix(Name, App) =/= nomatch]) end,
    %% The rest is the .app file.
    [?assert(Sum < Total andalso Sum > 0.98 * Total)
     || {Sum, Total} <- [{Of("kernel/"), Kernel}, {Of("stdlib/"), Stdlib}]],
    #{<<"erts/emulator/beam/emu/beam_emu.c">> := Loop} = Objects,
    ?assert(Loop > 20_000).

%% The stored run had a smaller VM, on another machine.
regression(Config) ->
    File = filename:join([store(Config), "0001", "otp.json"]),
    #{<<"subjects">> := [#{<<"objects">> := Objects, <<"totals">> := Totals} = Subject],
      <<"machine">> := Machine} = Facts = facts(Config),
    Emu = <<"erts/emulator/beam/emu/beam_emu.c">>,
    #{Emu := Loop} = Objects,
    #{<<"vm">> := Vm} = Totals,
    Changed = Facts#{<<"machine">> := Machine#{<<"cpu">> := <<"another">>},
                     <<"subjects">> := [Subject#{<<"objects">> := Objects#{Emu := Loop - 9000},
                                                 <<"totals">> := Totals#{<<"vm">> := Vm - 90000}}]},
    ok = file:write_file(File, jiffy:encode(Changed)),
    {1, Json} = measure(["--blocks", "1", "--json", "--against", filename:dirname(File)], Config),
    [_, Line] = binary:split(Json, <<"{">>),
    #{<<"regressions">> := [Regression], <<"notes">> := [Note], <<"against">> := Against,
      <<"subjects">> := [#{<<"objects">> := [#{<<"name">> := Emu, <<"verdict">> := <<"larger">>,
                                               <<"before">> := Before, <<"after">> := Loop}],
                           <<"modules">> := [], <<"timed">> := Timed}]} =
        jiffy:decode(<<"{", Line/binary>>, [return_maps]),
    ?assertEqual(Loop - 9000, Before),
    ?assertEqual(unicode:characters_to_binary(filename:dirname(File)), Against),
    matches(Regression, ["^OTP 29[0-9.]*: vm grew from [0-9,]+ to [0-9,]+ bytes$"]),
    matches(Note, ["^the stored run is of another machine, so times and memory are not compared$"]),
    ?assertEqual([<<"not_compared">>], lists:usort([V || #{<<"verdict">> := V} <- Timed])),
    %% The same within the bound; the new run compares with 0001 too.
    {0, Output} = measure(["--blocks", "1", "--bound", "5%",
                           "--against", filename:dirname(File)], Config),
    matches(Output, ["^OTP 29[0-9.]* against OTP 29[0-9.]* of .*/the store/0001$",
                     "^vm +[0-9,]+ +[0-9,]+ +\\+90,000 \\(3\\.[0-9]+ %\\) +larger$",
                     "^no module moved$", "not compared$", "^no regression beyond 5\\.0 %$"]).

bad_arguments(Config) ->
    [fails(Code, Pattern, measured(Arguments))
     || {Arguments, Code, Pattern} <-
            [{["otp", "--bound", "much"], 2, "--bound cannot be `much'; give a percentage"},
             {["otp", "more", "--source", "x"], 2, "more"},
             {["otp", "--sha256", "00"], 2, "name the tarball with --source"},
             {["otp", "--source", "x", "--sha256", "00"], 2, "give the 64 hexadecimal digits"},
             {["otp", "--only", "otp=30"], 1, "the factor otp has no level 30"},
             {["otp", "--only", "otp=given"], 1, "name it with --source FILE"},
             {["otp", "--against", proplists:get_value(dir, Config)], 1, "holds no complete run"},
             {["otp", "--against", "/dev/null"], 1, "holds no complete run"},
             {["otp", "--only", "otp=29", "-o", "/dev/null"], 1,
              "/dev/null cannot be used .*name another directory with -o"},
             {["start", "--source", "x"], 2,
              "--source has no effect in `whittle measure STUDY': it is for `whittle measure otp'"},
             {["start", "--bound", "1"], 2, "--bound has no effect in `whittle measure STUDY'"}]].

%% Each bad source is found before anything is built, and leaves no store.
bad_sources(Config) ->
    Dir = proplists:get_value(dir, Config),
    Make = fun(Name, Members, Options) ->
                   File = filename:join(Dir, Name),
                   ok = erl_tar:create(File, Members, Options),
                   File
           end,
    Version = fun(Vsn) -> [{"otp/OTP_VERSION", list_to_binary(Vsn)}] end,
    Text = filename:join(Dir, "text"),
    ok = file:write_file(Text, "words"),
    Whole = Make("whole.tar.gz", [{"otp/x", crypto:strong_rand_bytes(300_000)} | Version("29.1")],
                 [compressed]),
    Cut = filename:join(Dir, "cut.tar.gz"),
    {ok, Bytes} = file:read_file(Whole),
    ok = file:write_file(Cut, binary:part(Bytes, 0, 100_000)),
    Store = filename:join(Dir, "no store"),
    [begin
         fails(1, Pattern, measured(["otp", "--source", File, "-o", Store | sum(File)])),
         ?assertNot(filelib:is_file(Store))
     end || {File, Pattern} <-
                [{filename:join(Dir, "missing"), "cannot read the source .*no such file"},
                 {Dir, "is a directory; name a complete tarball"},
                 {Text, "is no tarball"},
                 {Cut, "is damaged or cut off after [0-9]+ members"},
                 {Make("none.tar", [{"otp/x", <<"x">>}], []), "lacks the file otp/OTP_VERSION"},
                 {Make("old.tar", Version("24.3"), []), "contains OTP 24.3; name a tarball of OTP"},
                 {Make("out.tar", [{"otp/../../x", <<"x">>} | Version("29.1")], []),
                  "contains otp/../../x, which may lie outside"}]],
    fails(1, "which nothing confirms; .* repeat the command with --sha256 [0-9a-f]{64}$",
          measured(["otp", "--source", Whole, "-o", Store])),
    fails(1, "instead of 0{64}; ",
          measured(["otp", "--source", Whole, "-o", Store,
                    "--sha256", lists:duplicate(64, $0)])).

%% A source without any file that the patches change: one line for each, and one to conclude.
unfit_patches(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "empty.tar"),
    ok = erl_tar:create(File, [{"otp/OTP_VERSION", <<"31.0">>}]),
    {1, Output} = measured(["otp", "--source", File | sum(File)]),
    Lines = binary:split(Output, <<"\n">>, [global, trim]),
    {ok, Series} = file:read_file(filename:join(running:root(), "native/patches/series")),
    Patches = [hd(binary:split(Line, <<" ">>))
               || Line <- binary:split(Series, <<"\n">>, [global, trim]),
                  binary:match(Line, <<"29">>) =/= nomatch, binary:first(Line) =/= $#],
    ?assertEqual(lists:sort(Patches),
                 lists:usort([hd(binary:split(Line, <<": ">>)) || Line <- lists:droplast(Lines)])),
    [matches(Line, ["^[a-z0-9-]+\\.patch: erts/[^ ]+: the source lacks this file$"])
     || Line <- lists:droplast(Lines)],
    matches(lists:last(Lines), [["^whittle: ", integer_to_list(length(Patches)),
                                 " patches do not apply to OTP 31.0 at the places above"]]).

%% Internal functions

measure(More, Config) -> running:run(filename:join(running:root(), "whittle"),
                                     words(More, Config), #{env => keep}).

words(More, Config) ->
    ["measure", "otp", "--only", "otp=29", "-o", store(Config) | More].

measured(Arguments) -> running:whittle(["measure" | Arguments]).

sum(File) ->
    case whittle_digest:file(File) of
        {ok, Sum} -> ["--sha256", Sum];
        {error, _} -> []
    end.

facts(Config) ->
    {ok, Bytes} = file:read_file(filename:join([store(Config), "0001", "otp.json"])),
    jiffy:decode(Bytes, [return_maps]).

fails(Code, Pattern, {Got, Output}) ->
    ?assertEqual({Pattern, Code, Output}, {Pattern, Got, Output}),
    matches(Output, [Pattern]),
    ?assertMatch([_], binary:split(Output, <<"\n">>, [global, trim])).

matches(Output, Patterns) ->
    [?assertMatch({Pattern, Output, {match, _}},
                  {Pattern, Output, re:run(Output, Pattern, [multiline, unicode])})
     || Pattern <- Patterns].

store(Config) -> proplists:get_value(store, Config).
