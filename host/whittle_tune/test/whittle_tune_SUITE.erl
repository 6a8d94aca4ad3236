%% Tests whole searches, with a VM of this OTP and small work.
-module(whittle_tune_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([searched/1, stopped/1, used_directory/1, budget_below_code/1, short_work/1,
         endless_workload/1, short_time/1, fails_without/1, foreign_file/1, one_run/1, recorded/1,
         no_recording/1, other_processor/1, every_error_is_one_line/1]).

all() -> [searched, stopped, used_directory, budget_below_code, short_work, endless_workload,
          short_time, fails_without, foreign_file, one_run, recorded, no_recording, other_processor,
          every_error_is_one_line].

init_per_testcase(Case, Config) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "a search", atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% The program dies under +Mea min: this is a result, and the search goes on. The file of settings
%% has the flags of the recommendation, each run is a sample, and the page exists. With one
%% block, the combinations race in the second one.
searched(Config) ->
    Program = program("case \"$ERL_ZFLAGS\" in *Mea*) echo no memory >&2; exit 9;; esac\n", Config),
    Out = in("found.settings", Config),
    Self = self(),
    {ok, #{found := #{best := Best, candidates := Candidates, results := Results} = Found,
           dir := Dir, page := Page} = Tuned} =
        whittle_tune:tune(Program, #{out => Out, time => 1000, blocks => 1, slowdown => 1.0,
                                     tell => fun(Event) -> Self ! Event end}),
    [Moves, Next] = [[Name || #{name := Name, block := Of} <- Results, Of =:= Block]
                     || Block <- [1, 2]],
    ?assertMatch([_ | _], Next -- Moves),
    Failed = lists:usort([Name || #{name := Name, failed := _} <- Results]),
    ?assertMatch([min | _], [Name || min = Name <- Failed]),
    [?assertMatch(#{allocators := min}, Values)
     || #{name := Name, values := Values} <- Candidates, lists:member(Name, Failed)],
    ?assertNot(lists:member(Best, Failed)),
    receive {failed, min, Line} -> ?assertMatch({_, _}, binary:match(Line, <<"no memory">>)) end,
    {ok, [#{flags := Flags, settings := Values}]} = file:consult(Out),
    ?assertMatch([Values], [Of || #{name := Name, values := Of} <- Candidates, Name =:= Best]),
    ?assertEqual(maps:is_key(processes, Values), lists:member("+P", Flags)),
    {ok, Samples} = file:read_file(filename:join(Dir, "samples.jsonl")),
    Runs = length(Results) + length(maps:get(validation, Found)),
    ?assertEqual(Runs, length(binary:matches(Samples, <<"\n">>))),
    ?assertMatch({_, _}, binary:match(Samples, <<"no memory">>)),
    ?assert(filelib:is_regular(Page)),
    ?assertMatch([_ | _], filelib:wildcard("logs/*.log", Dir)),
    [[_, [_ | _] | _] | _] = whittle_tune:tables(Tuned),
    #{recommended := Best, front := [_ | _]} = whittle_tune:found_json(Tuned),
    _ = iolist_to_binary(whittle_json:encode(whittle_tune:found_json(Tuned))),
    %% The samples are those of a study.
    {ok, #{results := [#{rows := Rows} | _]}} = whittle_measure:results(Dir),
    ?assert(length(Rows) > 5),
    %% So `whittle measure report' writes the same page again, with the chart of the trade-off.
    {ok, Html} = file:read_file(Page),
    ?assertMatch([_], binary:matches(Html, <<"<h2>Memory against time</h2>">>)),
    ok = file:delete(Page),
    ?assertMatch({ok, #{page := Page}}, whittle_measure:report(Dir)),
    ?assertEqual({ok, Html}, file:read_file(Page)).

%% Ctrl-C, an error of the disk or a crash may stop a search at any run. `whittle measure report'
%% reads what it had measured. The budget and the seed stay in the facts.
stopped(Config) ->
    [begin
         Out = in(Name, Config),
         {Pid, Monitor} =
             spawn_monitor(
               fun() ->
                       whittle_tune:tune(program("", Config),
                                         #{out => Out, time => 1000, blocks => 1, slowdown => 1.0,
                                           ram => 900_000_000,
                                           tell => fun(Event) -> stop_behind(Prefix, Event) end})
               end),
         receive {'DOWN', Monitor, process, Pid, Why} -> ?assertEqual(stopped, Why) end,
         Dir = Out ++ ".tuning",
         {ok, #{samples := Samples, facts := Facts,
                results := [#{rows := Rows} | _]}} = whittle_measure:report(Dir),
         ?assertEqual(lists:usort([Of || #{<<"cell">> := #{<<"settings">> := Of}} <- Samples]),
                      lists:usort([atom_to_binary(Of) || #{levels := #{settings := Of},
                                                          median := _} <- Rows])),
         ?assertMatch(#{<<"inputs">> := #{<<"ram">> := 900_000_000, <<"seconds">> := 1000}}, Facts)
     end || {Name, Prefix} <- [{"moves", "min"}, {"combinations", "mix_"}]].

%% Stops at the first run behind one of a candidate with this name or prefix.
stop_behind(Prefix, {run, _, Name, _}) ->
    case put(stop, lists:prefix(Prefix, atom_to_list(Name))) of
        true -> exit(stopped);
        _ -> ok
    end;
stop_behind(_, _) -> ok.

used_directory(Config) ->
    Out = in("used", Config),
    ok = file:make_dir(Out ++ ".tuning"),
    ?assertEqual({error, {used, Out ++ ".tuning"}}, whittle_tune:tune("/bin/true", #{out => Out})).

%% The error comes with the account, and leaves no samples.
budget_below_code(Config) ->
    Error = tune(program("", Config), #{ram => 3_000_000}, Config),
    ?assertMatch({error, {budget_below_code, 3_000_000, _, _}}, Error),
    {error, Reason} = Error,
    ?assertMatch([_, _ | _], whittle_tune:details(Reason)),
    ?assertNot(filelib:is_file(in("out.tuning", Config))).

%% The work is that of the workload, or of a program that ends by itself; in microseconds.
short_work(_) ->
    Fits = fun(Outcome) -> whittle_tune_search:fits({#{lines => []}, Outcome}, #{ram => none}) end,
    ?assertEqual({error, {short_work, 299}}, Fits(#{workload => 299_000, ended => 900_000})),
    ?assertEqual({error, {short_work, 1}}, Fits(#{ended => 7})),
    [?assertMatch({ok, {_, Outcome}}, Fits(Outcome))
     || Outcome <- [#{workload => 300_000, ended => 7}, #{ended => 300_000}, #{}]].

%% The limit of a workload comes from --time, unless --seconds gives it.
endless_workload(Config) ->
    Program = program("echo ready; exec tail -f /dev/null\n", Config),
    Endless = #{time => 20, workload => "exec tail -f /dev/null"},
    {error, Reason} = tune(Program, Endless, Config),
    ?assertMatch({share, {workload_endless, 1000, _}}, Reason),
    ?assertEqual(workload_endless, whittle_tune:code(Reason)),
    ?assertMatch({match, _}, re:run(whittle_tune:format_error(Reason),
                                    "^the workload had not ended after 1 s; .*: its limit is a "
                                    "twentieth of --time: give a larger --time, or --seconds$")),
    ?assertMatch({error, {run, {workload_endless, 1000, _}}},
                 tune(Program, Endless#{seconds => 1}, Config)).

short_time(Config) ->
    ?assertMatch({error, {short_time, 3, _}},
                 tune(program("", Config), #{time => 3}, Config)).

fails_without(Config) ->
    ?assertMatch({error, {fails_without, _}},
                 tune(program("echo ready; echo broken; exit 5\n", Config), #{}, Config)).

%% A file appeared during the search that no search has written. It stays.
foreign_file(Config) ->
    File = in("settings", Config),
    Found = #{best => own, candidates => [], settings => []},
    ok = file:write_file(File, "foreign"),
    {error, {pack, Reason}} = whittle_tune_report:write(File, "program", Found),
    ?assertEqual({not_ours, File}, Reason),
    ?assertEqual({ok, <<"foreign">>}, file:read_file(File)),
    ok = file:delete(File),
    [ok = whittle_tune_report:write(File, "program", Found) || _ <- [new, older]].

%% An interval needs two runs.
one_run(_) ->
    Results = [#{block => Block, name => own, peak => 1000 + Block, time => 10, cpu => 1}
               || Block <- [1, 2]],
    Interval = fun(Runs) ->
                       [[_, [_, _, _, Shown | _]] | _] =
                           whittle_tune_report:tables(
                             #{validation => lists:sublist(Results, Runs), validated => [own],
                               best => own, results => [], candidates => [], settings => []}),
                       lists:flatten(Shown)
               end,
    ?assertEqual("-", Interval(1)),
    ?assertEqual("1.000 to 1.000", Interval(2)).

%% The recording has the module of the program, and the file of settings names it.
recorded(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = file:write_file(in("called.erl", Config),
                         "-module(called).\n-export([main/0]).\n"
                         "main() -> io:put_chars(\"ready\\n\"), receive stop -> ok end.\n"),
    {ok, _} = compile:file(in("called.erl", Config), [{outdir, Dir}]),
    Subject = subject(["-pa '", Dir, "' -eval 'called:main()'"], Config),
    {ok, Bytes} = whittle_tune_program:record(Subject, #{seconds => 1}),
    {ok, Evidence} = whittle_shake_evidence:from_binary(Bytes),
    ?assertEqual([called], whittle_recording:own(Evidence)),
    Text = whittle_tune_report:text("program", #{best => own, candidates => [], settings => [],
                                                 build => #{evidence => "x.trace", seen => only}}),
    File = in("settings", Config),
    ok = file:write_file(File, Text),
    ?assertMatch({ok, [#{build := #{evidence := "x.trace", seen := only}}]}, file:consult(File)).

no_recording(Config) ->
    Subject = subject("-eval 'io:put_chars(\"ready\\n\")'", Config),
    ?assertEqual({error, no_recording},
                 whittle_tune_program:record(Subject, #{seconds => 1})).

%% An ELF file for another processor that Whittle did not make. Its begin names class, byte order
%% and processor (MIPS 64).
other_processor(Config) ->
    Program = in("foreign", Config),
    ok = file:write_file(Program, <<16#7f, "ELF", 2, 2, 1, 0:72, 2:16, 8:16, 0:800>>),
    ok = file:change_mode(Program, 8#755),
    ?assertEqual({error, {other_processor, Program}}, tune(Program, #{}, Config)),
    %% An x86-64 runs programs for i386; this one is none, so it ends at once.
    case file:open("/proc/self/exe", [read, binary, raw]) of
        {ok, Own} ->
            {ok, <<_:18/binary, Machine:2/binary>>} = file:read(Own, 20),
            ok = file:close(Own),
            ok = file:write_file(Program, <<16#7f, "ELF", 1, 1, 1, 0:72, 2:16/little, 3:16/little,
                                            0:800>>),
            case {Machine, tune(Program, #{}, Config)} of
                {<<62, 0>>, Result} -> ?assertMatch({error, {fails_without, _}}, Result);
                {_, Result} -> ?assertEqual({error, {other_processor, Program}}, Result)
            end
    end.

every_error_is_one_line(_) ->
    [?assertEqual({Error, nomatch}, {Error, re:run(whittle_tune:format_error(Error), "\n")})
     || Error <- [no_recording, {slow_end, 60000}, {other_processor, "x"},
                  {no_emulator, "x", "mips", "qemu-mips"},
                  {used, "x"}, {no_settings, "24"}, {budget_below_code, 1, 2, #{}},
                  {short_work, 5}, {short_time, 3, 30}, {fails_without, "x"}, {file, "x", enospc},
                  {file, "x", eacces}, {exists, "x"}, {pack, {not_ours, "x"}}]].

%% Internal functions

tune(Program, Options, Config) ->
    whittle_tune:tune(Program, Options#{out => in("out", Config)}).

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).

subject(Words, Config) ->
    Program = in("recorded", Config),
    ok = file:write_file(Program, ["#!/bin/sh\nexec '", code:root_dir(), "/bin/erl' -noshell ",
                                   Words, "\n"]),
    ok = file:change_mode(Program, 8#755),
    #{program => Program, arguments => [], environment => []}.

%% A script that does `First' and then runs a VM, which works for a third of a second. `init:stop/0'
%% would take another second. The run for the account has ERL_CRASH_DUMP and waits longer, so that
%% the VM is still there when its account is taken.
program(First, Config) ->
    program(First, "[lists:foldl(fun(N, S) -> [N | S] end, [], lists:seq(1, 40000)) "
                   "|| _ <- lists:seq(1, 8)], receive after "
                   "case os:getenv(\"ERL_CRASH_DUMP\") of false -> 300; _ -> 1500 end "
                   "-> halt() end", Config).

program(First, Work, Config) ->
    File = in("program", Config),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    ok = file:write_file(File, ["#!/bin/sh\n", First, "exec '", Erl, "' -noshell -eval '",
                                "io:put_chars(\"ready\\n\"), ", Work, "'\n"]),
    ok = file:change_mode(File, 8#755),
    File.
