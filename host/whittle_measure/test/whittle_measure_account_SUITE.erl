%% Tests the responses that need more than the output of a program: the account of a VM, the pauses
%% by garbage collections, and the curve of the memory.
-module(whittle_measure_account_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([account/1, ended_by_itself/1, no_vm/1, not_counted/1, pauses/1, no_pauses/1,
         refused_before_builds/1, wrong_lines/1, flags_before_extra/1, buckets/1, percentiles/1]).

all() ->
    [account, ended_by_itself, no_vm, not_counted, pauses, no_pauses, refused_before_builds,
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
