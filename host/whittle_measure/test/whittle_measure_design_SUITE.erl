%% Tests which cells a study has, and how it finds the files that its builds need.
-module(whittle_measure_design_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([all_crossed/1, one_at_a_time/1, some_crossed/1, other_baseline/1, own_factors/1, only/1,
         effects_of_crossed_factors/1, unknown_factor/1, files_of_requests/1, recording/1,
         distribution/1, series/1, curves_of_factors/1, source_of_otp/1, wrong_source/1,
         responses_of_programs/1, short_names_of_rows/1]).

all() ->
    [all_crossed, one_at_a_time, some_crossed, other_baseline, own_factors, only,
     effects_of_crossed_factors, unknown_factor, files_of_requests, recording, distribution,
     series, curves_of_factors, source_of_otp, wrong_source, responses_of_programs,
     short_names_of_rows].

init_per_testcase(Case, Config) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "a study", atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

all_crossed(Config) -> ?assertEqual(12, length(cells(#{}, Config))).

%% The baseline once, and each other level once.
one_at_a_time(Config) ->
    ?assertEqual([#{a => a1, b => b1, c => c1}, #{a => a1, b => b1, c => c2},
                  #{a => a1, b => b2, c => c1}, #{a => a1, b => b3, c => c1},
                  #{a => a2, b => b1, c => c1}], cells(#{crossed => []}, Config)).

some_crossed(Config) ->
    Cells = cells(#{crossed => [a, b]}, Config),
    ?assertEqual([#{a => A, b => B, c => c1} || A <- [a1, a2], B <- [b1, b2, b3]],
                 [Cell || #{c := c1} = Cell <- Cells]),
    ?assertEqual([#{a => a1, b => b1, c => c2}], [Cell || #{c := c2} = Cell <- Cells]).

other_baseline(Config) ->
    ?assertEqual([#{a => a1, b => b2, c => c2}, #{a => a2, b => b1, c => c2},
                  #{a => a2, b => b2, c => c1}, #{a => a2, b => b2, c => c2},
                  #{a => a2, b => b3, c => c2}],
                 cells(#{crossed => [], baseline => #{a => a2, b => b2, c => c2}}, Config)).

%% A program of which no factor is crossed has its own baseline.
own_factors(Config) ->
    ?assertEqual([#{a => a1}, #{a => a2}],
                 cells(#{crossed => [b], programs => [(program())#{factors => [a]}]}, Config)).

only(Config) ->
    Study = study(#{crossed => []}, Config, [{"a", "a2"}, {"c", "c2"}, {"c", "c1"}]),
    ?assertEqual([#{a => a2, b => b1, c => c1}, #{a => a2, b => b1, c => c2},
                  #{a => a2, b => b2, c => c1}, #{a => a2, b => b3, c => c1}], names(Study)).

%% The ratio of its row is the effect of a factor that varies alone.
effects_of_crossed_factors(Config) ->
    Effects = fun(Changes) ->
                      {ok, Dir} = whittle_measure:run(study(Changes, Config, []),
                                                      #{dir => in(maps:get(title, Changes),
                                                                  Config)}),
                      {ok, #{results := [#{rows := Rows, effects := Effects}]}} =
                          whittle_measure:results(Dir),
                      {length(Rows), lists:sort([Of || #{changed := Of} <- Effects])}
              end,
    ?assertEqual({5, []}, Effects(#{title => "alone", crossed => []})),
    ?assertEqual({5, []}, Effects(#{title => "one", crossed => [a]})),
    ?assertEqual({5, [[{a, a2}], [{a, a2}, {c, c2}], [{c, c2}]]},
                 Effects(#{title => "two", crossed => [a, c],
                           factors => [factor(a, [a1, a2]), factor(b, [b1, b2]),
                                       factor(c, [c1, c2])]})).

unknown_factor(Config) ->
    {error, _} = Error = whittle_measure:study(file(#{crossed => [d]}, Config), []),
    ?assertMatch({match, _}, re:run(text(Error), "key crossed: there is no factor d; the factors "
                                    "are a, b, c$")).

%% Each file that a request names lies beside the study, and the command may run anywhere.
files_of_requests(Config) ->
    Hello = filename:join(whittle_measure_study:root(), "examples/hello"),
    Run = fun(Request) ->
                  Study = study(#{programs => [#{name => p, input => Hello, request => Request}],
                                  responses => [size], factors => []}, Config, []),
                  text(whittle_measure:run(Study, #{dir => in("out", Config)}))
          end,
    [begin
         Line = Run(Request),
         ?assertNotEqual({Line, nomatch}, {Line, string:find(Line, in(Name, Config))})
     end || {Name, Request} <- [{"no.settings", #{settings => "no.settings"}},
                                {"no.keep", #{shake => #{unit => functions,
                                                         keep_file => "no.keep"}}},
                                {"no.trace", #{shake => #{unit => functions,
                                                          evidence_file => "no.trace"}}}]],
    ?assertNot(filelib:is_dir(in("out", Config))).

%% The engine makes a recording only for a build that needs one and that the study gives none.
recording(_) ->
    Build = fun(Shake) ->
                    whittle_measure_subject:records(#{program => program(), runner => whittle,
                                                      request => #{shake => Shake}})
            end,
    ?assert(Build(#{unit => functions, seen => only})),
    ?assertNot(Build(#{unit => functions})),
    ?assertNot(Build(#{unit => functions, seen => only, evidence_file => "x"})),
    Line = text({error, {recording, p, "no line"}}),
    ?assertMatch({match, _}, re:run(Line, "^the recording of p for `seen' failed: no line: ")).

%% The chart has a stroke for each run.
distribution(Config) ->
    {ok, Dir} = whittle_measure:run(study(#{factors => [factor(a, [a1, a2])], blocks => 3}, Config,
                                          []), #{dir => in("out", Config)}),
    {ok, Report} = whittle_measure:results(Dir),
    [#{layer := [#{mark := #{type := tick}, data := #{values := Strokes}} | _]}] =
        whittle_measure_page:charts(Report),
    ?assertEqual(6, length(Strokes)).

%% Responses whose names differ only in their last number share one chart and one table.
series(Config) ->
    Program = #{name => p, command => ["sh", "-c", "echo ready; exec tail -f /dev/null"],
                workload => "echo one 10; echo two 20; echo four 40; echo other 5"},
    Reported = fun(Name, Word) ->
                       #{name => Name, kind => reported, unit => "work/s", better => more,
                         title => "work done", pattern => Word ++ " ([0-9]+)"}
               end,
    {ok, Dir} = whittle_measure:run(
                  study(#{programs => [Program], blocks => 1, factors => [factor(a, [a1, a2])],
                          responses => [Reported(work_4, "four"), Reported(work_1, "one"),
                                        Reported(work_2, "two"), Reported(other_1, "other")]},
                        Config, []),
                  #{dir => in("out", Config)}),
    {ok, Report} = whittle_measure:results(Dir),
    [#{layer := [_, #{encoding := #{y := #{title := Title}}}], data := #{values := Values}},
     #{data := #{values := [_, _]}}] = whittle_measure_page:charts(Report),
    ?assertEqual(<<"work done, work/s">>, Title),
    ?assertEqual([{1, <<"a=a1">>, 10.0}, {1, <<"a=a2">>, 10.0}, {2, <<"a=a1">>, 20.0},
                  {2, <<"a=a2">>, 20.0}, {4, <<"a=a1">>, 40.0}, {4, <<"a=a2">>, 40.0}],
                 [{Number, Cell, Median}
                  || #{number := Number, cell := Cell, median := Median} <- Values]),
    ?assertEqual(["work_N-p-1.png", "other_1-p-1.png"], whittle_measure_page:chart_names(Report)),
    [{Table, []} | _] = whittle_measure:tables(Report),
    ?assertEqual([["work_N, work/s", "a=a1", "a=a2"], ["1", "10.00", "10.00"],
                  ["2", "20.00", "20.00"], ["4", "40.00", "40.00"]],
                 [[lists:flatten(Cell) || Cell <- Row] || Row <- Table]).

%% Each factor has a chart of the memory over time, with a line for each of its levels.
curves_of_factors(Config) ->
    Program = #{name => p, command => ["sh", "-c", "echo ready; exec tail -f /dev/null"]},
    {ok, Dir} = whittle_measure:run(study(#{programs => [Program], responses => [rss_mean],
                                            duration => 3, blocks => 2, crossed => [],
                                            factors => [factor(a, [a1, a2]),
                                                        factor(c, [c1, c2])]}, Config, []),
                                    #{dir => in("out", Config)}),
    {ok, Report} = whittle_measure:results(Dir),
    [_, A, C] = whittle_measure_page:charts(Report),
    Levels = fun(#{data := #{values := Values}}) ->
                     lists:usort([Level || #{level := Level} <- Values])
             end,
    ?assertEqual([[<<"a1">>, <<"a2">>], [<<"c1">>, <<"c2">>]], [Levels(A), Levels(C)]).

%% Modules of OTP's source become an application that calls one function and ends. A later study
%% takes the application that is there.
source_of_otp(Config) ->
    Program = #{name => taken, otp_source => #{files => ["lib/stdlib/src/lists.erl"],
                                               defines => ["ANY"], start => {lists, nothing}}},
    #{programs := [Checked]} = study(#{programs => [Program], responses => [run_time]}, Config,
                                     []),
    Build = #{program => Checked, runner => whittle, request => #{}},
    ?assertEqual(ok, whittle_measure_source:check(Build)),
    Src = in("programs/taken/src", Config),
    ok = filelib:ensure_path(Src),
    ok = file:write_file(filename:join(Src, "taken.app.src"), "kept"),
    {ok, #{program := #{input := Input}}} =
        whittle_measure_source:complete(Build, proplists:get_value(dir, Config),
                                        fun(Event) -> error(Event) end),
    ?assertEqual(in("programs/taken", Config), Input),
    ?assertEqual({ok, <<"kept">>}, file:read_file(filename:join(Src, "taken.app.src"))).

wrong_source(Config) ->
    Source = #{files => ["a.erl"], start => {a, b}},
    Read = fun(Program) ->
                   whittle_measure:study(file(#{programs => [Program]}, Config), [])
           end,
    [begin
         Line = text(Read(Program)),
         ?assertMatch({Line, {match, _}}, {Line, re:run(Line, Pattern)})
     end || {Program, Pattern} <-
                [{#{name => p, otp_source => #{files => ["a.erl"]}}, "key start is missing"},
                 {#{name => p, otp_source => Source#{start => a}}, "a is not {Module, Function}"},
                 {#{name => p, otp_source => Source, input => "x"},
                  "needs either an input, a command or an otp_source"}]],
    Unknown = #{name => p, otp_source => Source#{otp => "7"}},
    Error = whittle_measure:run(study(#{programs => [Unknown]}, Config, []),
                                #{dir => in("out", Config)}),
    ?assertEqual({error, {bad_source, "7"}}, Error),
    ?assertMatch({match, _}, re:run(text(Error), "^Whittle knows no source of OTP 7; it knows ")),
    ?assertNot(filelib:is_dir(in("out", Config))).

%% A response may belong to one program of several.
responses_of_programs(Config) ->
    Other = #{name => q, command => ["sh", "-c", "echo eight"]},
    Number = #{name => number, kind => printed, pattern => "(\\d+)", unit => "items",
               programs => [p]},
    Study = #{programs => [program(), Other], factors => [], responses => [Number, run_time]},
    {ok, Dir} = whittle_measure:run(study(Study, Config, []), #{dir => in("out", Config)}),
    {ok, #{results := Results, samples := Samples}} = whittle_measure:results(Dir),
    ?assertEqual([{number, p}, {run_time, p}, {run_time, q}],
                 [{Name, Program}
                  || #{response := #{name := Name}, program := Program} <- Results]),
    ?assertEqual([#{}, #{}], [Failed || #{<<"failed">> := Failed} <- Samples]),
    ?assertMatch({match, _},
                 re:run(text(whittle_measure:study(
                               file(Study#{responses => [Number#{programs => [r]}]}, Config), [])),
                        "names the program r; the programs are p, q$")).

%% A table and a chart name only what differs from the baseline, for factors that vary alone.
short_names_of_rows(Config) ->
    Names = fun(Crossed) ->
                    {ok, Dir} = whittle_measure:run(study(#{crossed => Crossed}, Config, []),
                                                    #{dir => in(lists:concat(["out" | Crossed]),
                                                                Config)}),
                    {ok, Report} = whittle_measure:results(Dir),
                    [{[_ | Rows], _}] = whittle_measure:tables(Report),
                    lists:sort([unicode:characters_to_list(Name)
                                || [Name | _] <- Rows, string:prefix(Name, "effect") =:= nomatch])
            end,
    ?assertEqual(["a=a1, b=b1, c=c1", "a=a2", "b=b2", "b=b3", "c=c2"], Names([])),
    ?assertEqual(["a=a1, b=b1", "a=a1, b=b1, c=c2", "a=a1, b=b2", "a=a1, b=b3", "a=a2, b=b1",
                  "a=a2, b=b2", "a=a2, b=b3"], Names([a, b])).

%% Internal functions

cells(Changes, Config) -> names(study(Changes, Config, [])).

names(Study) ->
    lists:sort([maps:remove(program, whittle_measure_study:key(Cell))
                || Cell <- whittle_measure_study:cells(Study)]).

study(Changes, Config, Only) ->
    {ok, Study} = whittle_measure:study(file(Changes, Config), Only),
    Study.

file(Changes, Config) ->
    File = in("made.study", Config),
    Study = maps:merge(#{title => "a study", programs => [program()],
                         factors => [factor(a, [a1, a2]), factor(b, [b1, b2, b3]),
                                     factor(c, [c1, c2])],
                         responses => [#{name => number, kind => printed, pattern => "^(\\d+)",
                                         unit => "items"}],
                         blocks => 1, duration => 60}, Changes),
    ok = file:write_file(File, unicode:characters_to_binary(io_lib:format("~tp.~n", [Study]))),
    File.

program() -> #{name => p, command => ["sh", "-c", "echo 7"]}.

factor(Name, Levels) -> #{name => Name, levels => [#{name => Level} || Level <- Levels]}.

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).

text({error, Error}) -> unicode:characters_to_list(whittle_measure:format_error(Error)).
