%% Tests that reports and comparisons of damaged directories of samples end with one line.
-module(whittle_measure_stored_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([sound/1, damaged_studies/1, damaged_samples/1, unknown_cells/1, any_study/1, any_facts/1,
         any_sample/1]).

all() ->
    [sound, damaged_studies, damaged_samples, unknown_cells, any_study, any_facts, any_sample].

%% Without Node.js a report has no charts, and takes milliseconds.
init_per_suite(Config) ->
    Path = os:getenv("PATH"),
    true = os:putenv("PATH", "/nowhere"),
    [{path, Path} | Config].

end_per_suite(Config) -> os:putenv("PATH", proplists:get_value(path, Config)).

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

sound(Config) ->
    ok = write(facts(study()), samples(), Config),
    ?assertEqual(ok, used(Config)),
    {ok, #{page := Page}} = whittle_measure:report(dir(Config)),
    {ok, Html} = file:read_file(Page),
    ?assertMatch({match, _}, re:run(Html, "<h2>rss_mean of hello</h2>")),
    %% A study of `tune' has names that a study in a file cannot have.
    Tune = (study())#{programs => [#{name => hello, command => ["x"]},
                                   #{name => 'My Program', command => ["x"]}],
                      front => [#{title => "t", text => "x",
                                  chart => whittle_measure_chart:points([])}]},
    ok = write(facts(Tune), samples(), Config),
    ?assertEqual(ok, used(Config)).

damaged_studies(Config) ->
    #{<<"machine">> := Machine} = Facts = facts(study()),
    Wrong = [{#{}, "machine"}, {#{<<"title">> => 1}, "machine"},
             %% Too large for a float.
             {Facts#{<<"machine">> := Machine#{<<"memory">> := 1 bsl 1100}}, "machine"},
             {maps:remove(<<"term">>, facts(study())), "term"}]
        ++ [{(facts(study()))#{<<"term">> := Text}, "term"}
            || Text <- [<<>>, <<"foo">>, <<"foo.">>, <<"fun() -> ok end.">>, <<"#{} #{}.">>, 1]]
        ++ [{facts(maps:remove(Key, study())), "term, key " ++ atom_to_list(Key)}
            || Key <- [name, title, question, programs, factors, baseline, responses, blocks, seed,
                   references]]
        ++ [{facts(maps:merge(study(), Change)), "term, key " ++ atom_to_list(Key)}
            || Change <- [#{baseline => #{build => none}}, #{baseline => #{other => whole}},
                          #{responses => []}, #{responses => [#{name => x, kind => no_kind}]},
                          #{programs => lists:duplicate(2, #{name => hello})},
                          #{factors => [#{name => build, levels => []}]}, #{title => [$a | $b]},
                          #{front => [#{title => "a", text => "b", chart => {}}]}],
               Key <- maps:keys(Change)]
        ++ [{facts(maps:merge(study(), many_factors())), "term, key factors"}],
    [begin
         ok = write(Damaged, samples(), Config),
         Error = whittle_measure:report(dir(Config)),
         ?assertMatch({Damaged, {error, {damaged_study, _, _}}}, {Damaged, Error}),
         {error, Reason} = Error,
         Line = unicode:characters_to_list(whittle_measure:format_error(Reason)),
         ?assertEqual(filename:join(dir(Config), "study.json") ++ " does not describe a study that "
                      "has run (" ++ Key ++ " is missing or wrong): start the study again in "
                      "another directory (-o)", Line)
     end || {Damaged, Key} <- Wrong].

damaged_samples(Config) ->
    [Build, Run | _] = samples(),
    Wrong = [#{}, [], maps:remove(<<"cell">>, Run), maps:remove(<<"cells">>, Build)]
        ++ [Run#{Key => Value}
            || {Key, Value} <- [{<<"block">>, <<"x">>}, {<<"block">>, 1.5}, {<<"failed">>, 1},
                                {<<"failed">>, #{<<"run">> => 1}}, {<<"cell">>, #{}},
                                {<<"cell">>, #{<<"program">> => 1}},
                                {<<"values">>, #{<<"a">> => <<"b">>}},
                                {<<"values">>, #{<<"a">> => 1 bsl 2000}},
                                {<<"machine">>, #{<<"steal">> => <<"a">>}},
                                {<<"machine">>, #{<<"pace">> => 0}},
                                {<<"curve">>, [[0]]}, {<<"curve">>, [[0, 1, 2, 3], [1, 2, 3]]},
                                {<<"account">>, #{<<"lines">> => [#{<<"bytes">> => null}]}}]],
    [begin
         ok = write(facts(study()), [Run, Each, Run], Config),
         ?assertMatch({Each, {error, {damaged, _, 2}}}, {Each, whittle_measure:report(dir(Config))})
     end || Each <- Wrong].

%% A sample of a program, a factor or a level that the study does not have would not be in any
%% table. The line names it.
unknown_cells(Config) ->
    [Build, Run | _] = samples(),
    #{<<"cells">> := Cells} = Build,
    #{<<"cell">> := Cell} = Run,
    [begin
         ok = write(facts(study()), [Build, Run, Sample], Config),
         {error, Reason} = whittle_measure:report(dir(Config)),
         ?assertEqual(filename:join(dir(Config), "samples.jsonl") ++ ", line 3, is a sample of "
                      ++ Named ++ ", but the study has no such program or no such levels: remove "
                      "that line",
                      unicode:characters_to_list(whittle_measure:format_error(Reason))),
         ?assertEqual({error, Reason}, whittle_measure:compare(dir(Config), dir(Config), []))
     end || {Sample, Named} <-
                [{Run#{<<"cell">> => Cell#{<<"build">> => <<"hole">>}},
                  "build=hole, flavor=size, program=hello"},
                 {Run#{<<"cell">> => Cell#{<<"program">> => <<"he\nlo">>}},
                  "build=whole, flavor=size, program=he\\x{A}lo"},
                 {Run#{<<"cell">> => Cell#{<<"more">> => <<"x">>}},
                  "build=whole, flavor=size, more=x, program=hello"},
                 {Run#{<<"cell">> => maps:remove(<<"build">>, Cell)}, "flavor=size, program=hello"},
                 {Build#{<<"cells">> => Cells ++ [Cell#{<<"flavor">> => <<"none">>}]},
                  "build=whole, flavor=none, program=hello"}]],
    %% A factor that varies alone has its other levels only with the baseline of the others.
    Alone = (study())#{crossed => []},
    ok = write(facts(Alone), samples(), Config),
    ?assertMatch({error, {unknown_cell, _, {1, _}}}, whittle_measure:report(dir(Config))).

any_study(Config) ->
    made:holds(150, ?LET(Change, change(any_term()), changed(study(), Change)),
               fun(Study) -> ends(facts(Study), samples(), Config) end).

any_facts(Config) ->
    made:holds(100, ?LET(Change, change(json()), changed(facts(study()), Change)),
               fun(Facts) -> ends(Facts, samples(), Config) end).

any_sample(Config) ->
    Samples = samples(),
    made:holds(200, ?LET({Change, N}, {change(json()), range(1, length(Samples))},
                         {changed(lists:nth(N, Samples), Change), N}),
               fun({Sample, N}) ->
                       {Before, [_ | After]} = lists:split(N - 1, Samples),
                       ends(facts(study()), Before ++ [Sample | After], Config)
               end).

%% Internal

%% More cells than a memory holds.
many_factors() ->
    Names = [list_to_atom([$f | integer_to_list(N)]) || N <- lists:seq(1, 40)],
    #{factors => [#{name => Name, levels => [#{name => off}, #{name => on}]} || Name <- Names],
      baseline => maps:from_keys(Names, off), crossed => Names}.

ends(Facts, Samples, Config) ->
    ok = write(Facts, Samples, Config),
    case used(Config) of
        ok -> true;
        {error, Reason} ->
            Line = unicode:characters_to_list(whittle_measure:format_error(Reason)),
            is_list(Line) andalso not lists:member($\n, Line)
    end.

%% Does what `whittle measure report' and `whittle measure compare' do.
used(Config) ->
    Dir = dir(Config),
    case {whittle_measure:report(Dir), whittle_measure:compare(Dir, Dir, [])} of
        {{ok, Report}, {ok, Compared}} ->
            Texts = [Table || {Table, _} <- whittle_measure:tables(Report)]
                ++ [whittle_measure:titles(Report) | whittle_measure:comparison_tables(Compared)],
            _ = whittle_json:encode(whittle_measure:comparison_json(Compared)),
            _ = [unicode:characters_to_binary(Cell) || Table <- Texts, Row <- Table, Cell <- Row,
                                                       not is_integer(Cell)],
            _ = whittle_json:encode(whittle_measure:json(Report)),
            _ = whittle_json:encode(whittle_measure_page:charts(Report)),
            ok;
        {{ok, _}, {error, {different_studies, _, _}}} -> ok;
        {{error, _} = Error, Error} -> Error
    end.

write(Facts, Samples, Config) ->
    Dir = dir(Config),
    ok = filelib:ensure_path(Dir),
    ok = file:write_file(filename:join(Dir, "study.json"), encoded(Facts)),
    file:write_file(filename:join(Dir, "samples.jsonl"),
                    [[encoded(Sample), $\n] || Sample <- Samples]).

encoded(Json) -> jiffy:encode(Json, [force_utf8]).

dir(Config) -> filename:join(proplists:get_value(dir, Config), "measured").

study() ->
    #{name => "s", title => "A study", question => "Which?", file => "s.study", base => ".",
      programs => [#{name => hello, input => "hello"}],
      factors => [#{name => build, title => "the build",
                    levels => [#{name => whole}, #{name => shaken, title => "--shake"}]},
                  #{name => flavor, levels => [#{name => size}, #{name => speed}]}],
      crossed => [build, flavor], baseline => #{build => whole, flavor => size},
      responses => [#{name => size, kind => size}, #{name => first_line, kind => first_line},
                    #{name => rss_mean, kind => rss_mean},
                    #{name => terms, kind => account, line => terms}],
      blocks => 3, warmup => 0, seed => 1, duration => 1,
      references => [#{source => "a paper", program => hello, response => size,
                       levels => #{build => whole}, values => [1, 2.5], unit => "MB",
                       note => "of 2011"}]}.

facts(Study) ->
    #{<<"study">> => <<"s">>, <<"title">> => <<"A study">>, <<"seed">> => 1,
      <<"term">> => unicode:characters_to_binary(io_lib:format("~tp.~n", [Study])),
      <<"machine">> => #{<<"cpu">> => <<"a CPU">>, <<"cpus">> => 2, <<"memory">> => 4 bsl 30,
                         <<"kernel">> => <<"6.1">>},
      <<"inputs">> => #{<<"the study">> => <<"x">>}}.

samples() ->
    Cells = [#{<<"program">> => <<"hello">>, <<"build">> => Build, <<"flavor">> => Flavor}
             || Build <- [<<"whole">>, <<"shaken">>], Flavor <- [<<"size">>, <<"speed">>]],
    [#{<<"block">> => <<"build">>, <<"cells">> => Cells, <<"values">> => #{<<"size">> => 4396912},
       <<"failed">> => #{}, <<"at">> => 1}
     | [#{<<"block">> => Block, <<"cell">> => Cell, <<"position">> => 1, <<"at">> => 2,
          <<"values">> => #{<<"first_line">> => 50 + Block, <<"rss_mean">> => 9.5e6 + Block,
                            <<"terms">> => 1000 * Block},
          <<"failed">> => #{<<"cpu">> => <<"no time">>},
          <<"curve">> => [[0, 8, 7, 6], [500 + Block, 9, 8, 7]],
          <<"machine">> => #{<<"steal">> => 0.0, <<"others">> => 0.01, <<"pace">> => 1700 + Block},
          <<"account">> => #{<<"rss">> => 9, <<"lines">> => [#{<<"group">> => <<"terms">>,
                                                               <<"bytes">> => 1000}]}}
        || Block <- [1, 2, 3], Cell <- Cells]].

%% Removes a part of a term, or puts another there. The numbers choose the part.
change(Values) -> {list(range(0, 40)), oneof([remove, {put, Values}])}.

changed(_, {[], {put, Value}}) -> Value;
changed(_, {[], remove}) -> #{};
changed(Map, {[N | Path], Change}) when is_map(Map), map_size(Map) > 0 ->
    {Key, Value} = lists:nth(1 + N rem map_size(Map), lists:sort(maps:to_list(Map))),
    case {Path, Change} of
        {[], remove} -> maps:remove(Key, Map);
        _ -> Map#{Key => changed(Value, {Path, Change})}
    end;
changed([_ | _] = List, {[N | Path], Change}) ->
    {Before, [Value | After]} = lists:split(N rem length(List), List),
    case {Path, Change} of
        {[], remove} -> Before ++ After;
        _ -> Before ++ [changed(Value, {Path, Change}) | After]
    end;
changed(Leaf, {_, Change}) -> changed(Leaf, {[], Change}).

json() ->
    oneof([integer(), float(), -1, 0, 0.0, 1 bsl 1100, 1.0e-300, 1.0e300, true, null, <<>>,
           <<"build">>, <<"size">>, <<"x\e[31m">>, [], [0], [[0]], [[0, 1, 2, 3]], #{},
           #{<<"size">> => -1}, [#{<<"bytes">> => <<"x">>}]]).

any_term() ->
    oneof([json(), atom(), "text", [hello], [#{name => hello}], [#{name => a, levels => []}],
           {1, 2}, [a | b], #{build => whole}, [#{name => size, kind => size}], fun lists:map/2]).
