%% Tests the responses that need more than the output of a program: the account of a VM, the pauses
%% by garbage collections, and the curve of the memory.
-module(whittle_measure_account_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([account/1, ended_by_itself/1, no_vm/1, slow_dump/1, gone/1, own_dump/1,
         second_source/1, not_counted/1, pauses/1, no_pauses/1, damaged_counts/1, one_program/1,
         counter_alone/1, full_disk/1, refused_before_builds/1, wrong_lines/1,
         flags_before_extra/1, buckets/1, percentiles/1]).

all() ->
    [account, ended_by_itself, no_vm, slow_dump, gone, own_dump, second_source, not_counted, pauses,
     no_pauses, damaged_counts, one_program, counter_alone, full_disk, refused_before_builds,
     wrong_lines, flags_before_extra, buckets, percentiles].

init_per_testcase(Case, Config) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "a study", atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% The groups of the account add up to what the kernel says, and the sample has all lines. A binary
%% of 9 MB is in the carriers of its allocator.
account(Config) ->
    Lines = [#{name => Group, kind => account, line => Group}
             || {Group, _} <- whittle_measure_account:groups()],
    Binaries = [#{name => Part, kind => allocator, allocator => binary_alloc, part => Part}
                || Part <- [blocks, carriers, free]],
    [Sample] = samples(waiting("B = binary:copy(<<7>>, 9000000), "), Lines ++ Binaries, #{},
                       Config),
    #{<<"values">> := Values, <<"account">> := #{<<"rss">> := Rss, <<"lines">> := Kept}} = Sample,
    Of = fun(Name) -> maps:get(atom_to_binary(Name), Values) end,
    ?assertEqual(Rss, lists:sum([Of(Group) || {Group, _} <- whittle_measure_account:groups()])),
    ?assertEqual(Rss, lists:sum([Bytes || #{<<"bytes">> := Bytes} <- Kept])),
    ?assert(Of(terms) > 9_000_000),
    ?assert(Of(blocks) > 9_000_000),
    ?assertEqual(Of(carriers), Of(blocks) + Of(free)),
    ?assert(abs(Of(unexplained)) < Rss / 10),
    %% The dump of a VM may be large.
    ?assertNot(filelib:is_file(filename:join(out(Config), "dump"))).

ended_by_itself(Config) ->
    ?assertMatch(<<"the program ended by itself, so there was no account at the end: ", _/binary>>,
                 failure(code, samples("erlang:halt()",
                                       [#{name => code, kind => account, line => code}], #{},
                                       Config))).

no_vm(Config) ->
    Program = #{name => p, command => ["sh", "-c", "echo ready; exec tail -f /dev/null"]},
    Line = failure(code, run([Program], [#{name => code, kind => account, line => code}], #{},
                             Config)),
    ?assertMatch({match, _}, re:run(Line, "dump does not exist: the program is no Erlang VM")).

%% A process that goes on after SIGUSR1 may have written a part of its dump.
slow_dump(Config) ->
    Dump = filename:join(proplists:get_value(dir, Config), "dump"),
    {ok, Started} = whittle_program:start(
                      "/bin/sh", ["-c", "trap '' USR1; echo ready; exec tail -f /dev/null"], #{}),
    {output, _} = whittle_program:next(Started, infinity),
    {error, Reason} = whittle_measure_snapshot:take(Started, Dump, fun(_) -> #{} end, 100),
    ok = whittle_program:stop(Started),
    Pid = whittle_program:pid(Started),
    ?assertEqual({slow_dump, Pid, 100}, Reason),
    ?assertMatch({match, _}, re:run(whittle_measure_snapshot:format_error(Reason),
                                    "^process [0-9]+ had not ended .*: measure again")).

%% A workload may have ended the VM.
gone(Config) ->
    Dump = filename:join(proplists:get_value(dir, Config), "dump"),
    {ok, Started} = whittle_program:start("/bin/true", [], #{}),
    {ended, 0} = whittle_program:next(Started, infinity),
    {error, Reason} = whittle_measure_snapshot:take(Started, Dump, fun(_) -> #{} end),
    ?assertMatch({match, _}, re:run(whittle_measure_snapshot:format_error(Reason),
                                    "^the VM \\(process [0-9]+\\) ended before .*: keep it")).

%% The start script names its own dump. One of an earlier run lies there.
own_dump(Config) ->
    Dir = proplists:get_value(dir, Config),
    Old = filename:join(Dir, "own"),
    ok = file:write_file(Old, "=erl_crash_dump:0.5\n"),
    {ok, Started} = whittle_program:start("/bin/sh", ["-c", "exec tail -f own"],
                                          #{cd => Dir, env => [{"ERL_CRASH_DUMP", "own"}]}),
    {output, _} = whittle_program:next(Started, infinity),
    ?assertEqual({error, {no_dump, unicode:characters_to_binary(Old)}},
                 whittle_measure_snapshot:take(Started, filename:join(Dir, "dump"))),
    ok = whittle_program:stop(Started).

%% Only a VM with shared libraries has a mark for the memory of C code, and it must count its
%% carriers.
second_source(_) ->
    Made = fun(Carriers, Groups) ->
                   Heaps = #{carriers => Carriers, blocks => 0},
                   Vm = #{allocators => #{<<"eheap_alloc">> => Heaps}, areas => #{},
                          processes => [], tables => []},
                   #{second_source := Second} =
                       whittle_measure_account:make(Vm, #{rss => 1000, groups => Groups}),
                   Second
           end,
    Libraries = #{libraries => #{rss => 10, size => 10}},
    ?assert(Made(100, Libraries)),
    ?assertNot(Made(0, Libraries)),
    ?assertNot(Made(100, #{})).

%% Under +Mea min the VM has no carriers of binaries.
not_counted(Config) ->
    [#{<<"values">> := Values, <<"failed">> := Failed}] =
        samples(waiting(""), [#{name => binaries, kind => allocator, allocator => binary_alloc},
                              #{name => terms, kind => account, line => terms}],
                #{factors => [#{name => allocators,
                                levels => [#{name => min, flags => ["+Mea", "min"]}]}]}, Config),
    ?assertMatch([<<"terms">>], maps:keys(Values)),
    ?assertEqual(#{}, Failed).

%% The program makes its garbage after it has started.
pauses(Config) ->
    [#{<<"values">> := #{<<"gc_pause_p50">> := Half, <<"gc_pause_p99">> := Most,
                         <<"gc_pause_p999">> := Nearly, <<"gc_pause_max">> := Longest}}] =
        samples(waiting("spawn(fun Loop() -> true = is_list(lists:seq(1, 20000)), Loop() end), "),
                whittle_measure_response:pauses(), #{}, Config),
    ?assert(0 < Half andalso Half =< Most andalso Most =< Nearly andalso Nearly =< 1.01 * Longest).

no_pauses(Config) ->
    Program = #{name => p, command => ["sh", "-c", "echo ready"]},
    Line = failure(gc_pause_max, run([Program], [gc_pause_max], #{}, Config)),
    ?assertMatch({match, _}, re:run(Line, "the VM loaded no counter of garbage collections")).

damaged_counts(Config) ->
    Dir = proplists:get_value(dir, Config),
    [begin
         ok = file:write_file(filename:join(Dir, "pauses"), Bytes),
         ?assertEqual({Bytes, #{pauses => none}},
                      {Bytes, whittle_measure_instruments:read([#{kind => gc_pause_max}], Dir,
                                                               #{})})
     end || Bytes <- [<<>>, <<131, 104>>, term_to_binary(other),
                      term_to_binary({pauses, 1, [{1, 1} | 2]}),
                      term_to_binary({pauses, 1, [other]})]].

%% A response of one program changes nothing about another one.
one_program(Config) ->
    Count = "io:format(\"set ~b~n\", [length([Name || Name <- [\"WHITTLE_PAUSES\", "
        "\"ERL_AFLAGS\", \"ERL_CRASH_DUMP\"], os:getenv(Name) =/= false])])",
    Command = fun(Expression) -> ["erl", "-noshell", "-eval", Expression ++ "."] end,
    Samples = run([#{name => p, command => Command(waiting(""))},
                   #{name => q, command => Command(Count ++ ", halt()")}],
                  [#{name => max, kind => gc_pause_max, programs => [p]},
                   #{name => code, kind => account, line => code, programs => [p]},
                   #{name => plain, kind => printed, pattern => "^set (\\d+)", unit => "variables",
                     programs => [q]}], #{}, Config),
    ?assertMatch([[<<"plain">>]],
                 [maps:keys(Values) || #{<<"cell">> := #{<<"program">> := <<"q">>},
                                         <<"values">> := Values} <- Samples]),
    Inherited = length([Name || Name <- ["WHITTLE_PAUSES", "ERL_AFLAGS", "ERL_CRASH_DUMP"],
                                os:getenv(Name) =/= false]),
    [?assertEqual(Inherited, round(Value)) || #{<<"values">> := #{<<"plain">> := Value}}
                                                  <- Samples].

%% The VM loads the counter, and a VM that it starts does not.
counter_alone(Config) ->
    {Output, _} = counted("io:format(\"~p\", [os:getenv(\"WHITTLE_PAUSES\")]), halt().", "counts",
                          Config),
    ?assertEqual(<<"false">>, Output).

%% The counter writes to a full disk, again and again; no file is there. It waits for a message when
%% it has written.
full_disk(Config) ->
    New = filename:join(proplists:get_value(dir, Config), "counts.new"),
    ok = file:make_symlink("/dev/full", New),
    Wait = "Wait = fun(Self) -> case [Pid || Pid <- processes(), "
        "[{_, {whittle_trace_pauses, loop, 4}}, {_, waiting}] "
        "<- [process_info(Pid, [current_function, status])]] of "
        "[_] -> ok; [] -> receive after 1 -> Self(Self) end end end, Wait(Wait), halt().",
    {<<>>, File} = counted(Wait, "counts", Config),
    ?assertEqual({error, enoent}, file:read_link_info(File)).

%% A shaken system may lack the code that loads the counter. Nothing is built for such a study.
refused_before_builds(Config) ->
    Hello = #{name => hello,
              input => filename:join(whittle_measure_study:root(), "examples/hello")},
    Crash = #{name => build, levels => [#{name => crash,
                                          request => #{shake => #{unit => functions,
                                                                  missing => crash}}}]},
    Error = whittle_measure:run(study([Hello], [gc_pause_p99], #{factors => [Crash]}, Config),
                                #{dir => out(Config)}),
    ?assertEqual({error, {no_pauses, hello, gc_pause_p99}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "^the response gc_pause_p99 cannot be measured in "
                                    "a build of hello with `missing => crash'")),
    ?assertNot(filelib:is_dir(out(Config))).

wrong_lines(_) ->
    ?assertMatch({error, _}, whittle_measure_response:check(#{kind => account})),
    ?assertMatch({error, _}, whittle_measure_response:check(#{kind => account, line => nothing})),
    ?assertMatch({error, _}, whittle_measure_response:check(#{kind => allocator,
                                                              allocator => no_alloc})),
    ?assertMatch({ok, _}, whittle_measure_response:check(#{name => x, kind => account,
                                                           line => terms})).

%% The flags of a level reach a VM whose command line ends with the program's own words.
flags_before_extra(_) ->
    Program = #{name => p, input => "hello"},
    Cell = #{program => Program, levels => #{f => #{name => one, flags => ["+S", "1:1"]}}},
    Erl = os:find_executable("erl"),
    Print = "io:format(\"~b~n\", [erlang:system_info(schedulers)]), halt().",
    Made = fun(Words) ->
                   whittle_measure_subject:subject(
                     Cell, #{program => Erl, arguments => ["-noshell", "-eval", Print | Words]})
           end,
    [begin
         {ok, #{output := Output}} = whittle_measure_observe:run(Made(Words),
                                                                 #{duration => 60_000,
                                                                   interval => 1000}),
         ?assertEqual({Words, <<"1\n">>}, {Words, Output})
     end || Words <- [[], ["-extra", "word"]]].

%% A bucket's middle differs by 0.8 % or less from each value in it.
buckets(_) ->
    [begin
         Middle = whittle_trace_pauses:bucket(Time),
         ?assert(abs(Middle - Time) =< 0.008 * Time, {Time, Middle})
     end || Time <- lists:seq(0, 3000) ++ [1 bsl 40 + N * 7919 || N <- lists:seq(1, 1000)]].

percentiles(_) ->
    Counts = [{1000, 500}, {2000, 480}, {3000, 19}, {9000, 1}],
    Value = fun(Kind) ->
                    {ok, Value} = whittle_measure_response:value(#{name => Kind, kind => Kind},
                                                                 #{pauses => {9100, Counts}}),
                    Value
            end,
    ?assertEqual([1.0, 3.0, 3.0, 9.1],
                 [Value(Kind) || Kind <- whittle_measure_response:pauses()]),
    ?assertMatch({error, _}, whittle_measure_response:value(#{name => p, kind => gc_pause_p50},
                                                            #{pauses => {0, []}})).

%% Internal functions

%% Runs a VM with the counter, and returns its output and the file of the counts.
counted(Expression, Name, Config) ->
    Dir = proplists:get_value(dir, Config),
    {#{environment := Environment}, _} =
        whittle_measure_instruments:attach([#{kind => gc_pause_max}], #{environment => []}, #{},
                                           Dir),
    File = filename:join(Dir, Name),
    {0, Output} = whittle_program:run(
                    os:find_executable("erl"), ["-noshell", "-eval", Expression],
                    #{env => lists:keystore("WHITTLE_PAUSES", 1, Environment,
                                            {"WHITTLE_PAUSES", File})}),
    {Output, File}.

%% A VM that prints a line and waits.
waiting(Before) -> Before ++ "io:put_chars(\"ready\\n\"), receive after infinity -> ok end".

samples(Expression, Responses, Changes, Config) ->
    run([#{name => p, command => ["erl", "-noshell", "-eval", Expression ++ "."]}], Responses,
        Changes, Config).

%% The samples are there even if every run failed.
run(Programs, Responses, Changes, Config) ->
    Dir = case whittle_measure:run(study(Programs, Responses, Changes, Config),
                                   #{dir => out(Config)}) of
              {ok, Written} -> Written;
              {error, {no_values, Written}} -> Written
          end,
    {ok, #{samples := Samples}} = whittle_measure:results(Dir),
    Samples.

study(Programs, Responses, Changes, Config) ->
    File = filename:join(proplists:get_value(dir, Config), "made.study"),
    Study = maps:merge(#{title => "a study", programs => Programs, responses => Responses,
                         blocks => 1, duration => 4}, Changes),
    ok = file:write_file(File, unicode:characters_to_binary(io_lib:format("~tp.~n", [Study]))),
    {ok, Read} = whittle_measure:study(File, []),
    Read.

failure(Name, [#{<<"failed">> := Failed}]) -> maps:get(atom_to_binary(Name), Failed).

out(Config) -> filename:join(proplists:get_value(dir, Config), "out").

text({error, Error}) -> unicode:characters_to_list(whittle_measure:format_error(Error)).
