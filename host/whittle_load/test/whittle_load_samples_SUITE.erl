%% Tests the directory of a run: its samples, its report, its page.
-module(whittle_load_samples_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([as_written/1, hostile/1, samples/1, noise/1, cut/1, damaged/1, exists/1,
         free/1, full_disk/1]).
-export([report/1, phases/1, killed/1, warnings/1, all_failed/1, no_answers/1,
         slow_connections/1, wrong_sources/1, texts_of_others/1, comparison/1, long/1, messages/1]).

all() ->
    [as_written, hostile, samples, noise, cut, damaged, exists, free, full_disk, report, phases,
     killed, warnings, all_failed, no_answers, slow_connections, wrong_sources, texts_of_others,
     comparison, long, messages].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% A second is the same after it was JSON.
as_written(_) ->
    ?assert(proper:quickcheck(
              ?FORALL(Second, second(), {ok, Second} =:= read(whittle_load_second:to_json(Second))),
              [{numtests, 200}, {to_file, user}])).

%% A sample of an agent is one, and no longer with another kind of value at any place.
samples(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Sample, Path, Bad}, {agent_sample(), list(nat()), bad()},
                      whittle_load_second:is_sample(Sample)
                      andalso is_map(whittle_load_second:add(1, Sample, whittle_load_second:new()))
                      andalso case whittle_load_second:is_sample(spoilt(Path, Bad, Sample)) of
                                  true -> is_kept(spoilt(Path, Bad, Sample));
                                  false -> true
                              end),
              [{numtests, 500}, {to_file, user}])),
    [?assertNot(whittle_load_second:is_sample(Bad)) || Bad <- [foo, #{}, [], {sample, 1}]],
    #{counts := Counts} = Good = one_sample(),
    ?assert(whittle_load_second:is_sample(Good)),
    ?assertNot(whittle_load_second:is_sample(
                 Good#{counts := Counts#{errors := #{{<<255>>, <<"a">>} => 1}}})).

%% What counts as a sample can be written, and read again.
is_kept(Sample) ->
    Second = whittle_load_second:add(1, Sample, whittle_load_second:new()),
    Json = whittle_json:encode(whittle_load_second:to_json(Second)),
    {ok, Second} =:= whittle_load_second:from_json(jiffy:decode(Json, [return_maps])).

one_sample() ->
    #{second => 1, arrivals => #{}, vm => #{cpu => 1, memory => 1, rss => 1, queue => 0},
      counts => #{events => #{}, errors => #{}, latencies => #{}, late => none,
                  unanswered => distribution([])}}.

agent_sample() ->
    ?LET({#{second := N, events := Events, errors := Errors, latencies := Latencies,
            unanswered := Unanswered, late := Late, arrivals := Arrivals}, Vm},
          {second(), any_vm()},
         #{second => N, arrivals => Arrivals, vm => maps:remove(held, Vm),
           counts => #{events => Events, errors => Errors, latencies => Latencies, late => Late,
                       unanswered => case Unanswered of
                                         none -> distribution([]);
                                         _ -> Unanswered
                                     end}}).

bad() -> oneof([foo, -1, 1.5, [], [a | b], #{}, {1, 2}, 1 bsl 70, <<255>>, none]).

%% Replaces a value below a path of numbers of keys.
spoilt([At | Path], Bad, Map) when map_size(Map) > 0 ->
    Key = lists:nth(At rem map_size(Map) + 1, lists:sort(maps:keys(Map))),
    Map#{Key => spoilt(Path, Bad, maps:get(Key, Map))};
spoilt(_, Bad, _) -> Bad.

%% Each change of a value to another kind is noticed.
hostile(_) ->
    Good = jiffy:decode(whittle_json:encode(whittle_load_second:to_json(sample(0))), [return_maps]),
    ?assertMatch({ok, _}, whittle_load_second:from_json(Good)),
    [?assertEqual({Key, Bad, error}, {Key, Bad, whittle_load_second:from_json(Good#{Key => Bad})})
     || Key <- maps:keys(Good), Bad <- [-1, 1.5, <<"x">>, [1.5], [[]], #{<<"x">> => 1}, true],
        not (Key =:= <<"events">> andalso is_map(Bad))],
    [?assertEqual({Key, error}, {Key, whittle_load_second:from_json(maps:remove(Key, Good))})
     || Key <- maps:keys(Good), Key =/= <<"unanswered">>],
    %% An older run has no such key.
    ?assertMatch({ok, #{unanswered := none}},
                 whittle_load_second:from_json(maps:remove(<<"unanswered">>, Good))),
    Late = maps:get(<<"late">>, Good),
    [?assertEqual({Bad, error}, {Bad, whittle_load_second:from_json(
                                        Good#{<<"late">> => Late#{<<"buckets">> => Bad}})})
     || Bad <- [[[2, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 0]], [[99999, 1]], [[1]], [1]]].

%% No bytes make the reader fail in another way than with an error.
noise(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(0), sample(1)], ended),
    {ok, Bytes} = file:read_file(filename:join(Dir, "samples.jsonl")),
    ?assert(proper:quickcheck(
              ?FORALL({At, Byte}, {range(0, byte_size(Bytes) - 1), byte()},
                      begin
                          <<Before:At/binary, _, After/binary>> = Bytes,
                          ok = file:write_file(filename:join(Dir, "samples.jsonl"),
                                               [Before, Byte, After]),
                          case whittle_load_samples:read(Dir) of
                              {ok, _, Seconds, _} -> is_list(Seconds);
                              {error, {damaged, {_, Line}}} -> is_integer(Line)
                          end
                      end), [{numtests, 300}, {to_file, user}])).

%% The samples before a cut line are there.
cut(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(0), sample(1)], killed),
    {ok, Bytes} = file:read_file(filename:join(Dir, "samples.jsonl")),
    ok = file:write_file(filename:join(Dir, "samples.jsonl"), binary:part(Bytes, 0,
                                                                          byte_size(Bytes) - 10)),
    ?assertMatch({ok, _, [#{second := 0}], none}, whittle_load_samples:read(Dir)).

damaged(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(0)], ended),
    File = filename:join(Dir, "samples.jsonl"),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, [Bytes, "{}\n", Bytes]),
    ?assertEqual({error, {damaged, {File, 2}}}, whittle_load_samples:read(Dir)),
    Facts = filename:join(Dir, "run.json"),
    ok = file:write_file(Facts, "{}"),
    ?assertEqual({error, {damaged, {Facts, 1}}}, whittle_load_report:read(Dir)),
    ok = file:write_file(File, Bytes),
    ok = file:write_file(Facts, whittle_json:encode((facts())#{thresholds => [<<"p99 <">>]})),
    ?assertEqual({error, {damaged, {Facts, 1}}}, whittle_load_report:read(Dir)),
    ?assertEqual({error, {no_samples, "/nowhere"}}, whittle_load_samples:read("/nowhere")).

exists(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(0)], ended),
    ?assertEqual({error, {exists, Dir}}, whittle_load_samples:create(Dir, facts())),
    ?assertEqual({error, {exists, Dir}}, whittle_load_samples:check(Dir)),
    %% A file of the user's own stays.
    Own = filename:join(Dir, "own"),
    ok = filelib:ensure_path(Own),
    ?assertEqual(ok, whittle_load_samples:check(Own)),
    ok = file:write_file(filename:join(Own, "page.html"), "mine"),
    ?assertEqual({error, {exists, Own}}, whittle_load_samples:check(Own)),
    %% So do the results' directory and other files apart.
    ok = file:rename(filename:join(Own, "page.html"), filename:join(Own, "notes")),
    ok = file:write_file(filename:join(Own, "src"), ""),
    ?assertEqual({error, {not_empty, {Own, "notes"}}}, whittle_load_samples:check(Own)),
    Below = filename:join([Dir, "run.json", "x"]),
    ?assertMatch({error, {cannot_write, {Below, _}}}, whittle_load_samples:create(Below, facts())).

free(Config) ->
    Name = filename:join(dir(Config), "a.results"),
    ?assertEqual(Name, whittle_load_samples:free(Name)),
    ok = file:make_dir(Name),
    ok = file:make_symlink("nowhere", Name ++ "-2"),
    ?assertEqual(Name ++ "-3", whittle_load_samples:free(Name)).

%% All lines that were written stay, and the line that the disk cut does not.
full_disk(_) ->
    small_disk:with(
      "64k",
      fun(Disk) ->
              Dir = filename:join(Disk, "results"),
              {ok, Log} = whittle_load_samples:create(Dir, facts()),
              Fill = fun Fill(N) ->
                             case whittle_load_samples:append(Log, sample(N)) of
                                 ok -> Fill(N + 1);
                                 {error, Reason} -> {N, Reason}
                             end
                     end,
              {Written, Reason} = Fill(0),
              ok = whittle_load_samples:close(Log),
              ?assert(Written > 0),
              ?assertEqual({cannot_write, {filename:join(Dir, "samples.jsonl"), enospc}}, Reason),
              {ok, Bytes} = file:read_file(filename:join(Dir, "samples.jsonl")),
              ?assertEqual($\n, binary:last(Bytes)),
              {ok, _, Seconds, none} = whittle_load_samples:read(Dir),
              ?assertEqual(lists:seq(0, Written - 1), [At || #{second := At} <- Seconds]),
              ?assertMatch({error, {cannot_write, {_, enospc}}},
                           whittle_load_samples:write(Dir, "page.html",
                                                      binary:copy(<<0>>, 100_000))),
              ?assertNot(filelib:is_file(filename:join(Dir, "page.html")))
      end).

%% The report is the sum of all seconds. Its files have the same numbers.
report(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(N) || N <- lists:seq(0, 9)], ended),
    {ok, #{page := Page} = Report} = whittle_load:report(Dir),
    ?assertMatch(#{held := 20, events := #{started := 20}, stopped := null,
                   arrivals := [#{second := 0, planned := 2, actual := 2} | _],
                   thresholds := [#{met := true}, #{met := false}],
                   latencies := #{<<"ask">> := #{count := 30}}}, whittle_load:json(Report)),
    Names = [unicode:characters_to_binary(Name) || Name <- [Dir, Page]],
    ?assertMatch(#{directory := Directory, page := File} when [Directory, File] =:= Names,
                 whittle_load:json(Report)),
    ?assertNot(whittle_load:met(Report)),
    {ok, Result} = file:read_file(filename:join(Dir, "result.json")),
    ?assertMatch(#{<<"held">> := 20}, jiffy:decode(Result, [return_maps])),
    {ok, Csv} = file:read_file(filename:join(Dir, "seconds.csv")),
    {ok, {Columns, Rows}} = whittle_load_data:rows(Csv),
    ?assertEqual({10, ["second", "planned", "actual"]}, {length(Rows), lists:sublist(Columns, 3)}),
    ?assertEqual(<<"2">>, element(2, hd(Rows))),
    {ok, Steps} = file:read_file(filename:join(Dir, "steps.csv")),
    ?assertMatch({ok, {["step", "count" | _], [_]}}, whittle_load_data:rows(Steps)),
    {ok, Html} = file:read_file(Page),
    [?assertMatch({Text, {_, _}}, {Text, binary:match(Html, Text)})
     || Text <- [<<"1 of 2 thresholds missed.">>, <<"held &gt;= 1000">>, <<"samples.jsonl">>,
                 <<"whittle load x.load">>]],
    ?assertEqual(nomatch, binary:match(Html, <<"<script">>)).

%% A phase has the whole seconds within it. A directory of an earlier Whittle names no phases.
phases(Config) ->
    Dir = dir(Config),
    Spans = whittle_load_phases:spans([{closed, 1, 2_500_000_000}, {closed, 4, 700_000_000},
                                       {pause, 800_000_000}, {closed, 8, 3_000_000_000},
                                       {closed, 0, 1_000_000_000}]),
    ?assertEqual([#{users => 1, from => 0, to => 2}, #{users => 8, from => 4, to => 7}], Spans),
    Cycles = fun(N) -> (sample(N))#{events := #{cycles => N}, errors := #{{<<"a">>, <<"b">>} => 1}}
             end,
    ok = write(Dir, [Cycles(N) || N <- [0, 1, 2, 3, 4, 5, 5]], ended,
               (facts())#{phases => Spans}),
    {ok, Report} = whittle_load:report(Dir),
    ?assertMatch(#{phases := [#{users := 1, seconds := 2, cycles := 1, errors := #{<<"b">> := 2},
                                latency := #{count := 6}},
                              #{users := 8, seconds := 2, cycles := 14}]},
                 whittle_load:json(Report)),
    ?assertMatch([[<<"8">>, 2, 14, "7.0", "1.8", 3, _, _]],
                 [[unicode_text(Cell) || Cell <- Row]
                  || [[Head | _] | Rows] <- whittle_load:tables(Report), Head =:= "closed users",
                     [<<"8">> | _] = Row <- Rows]),
    {ok, Csv} = file:read_file(filename:join(Dir, "phases.csv")),
    ?assertMatch({ok, {["users", "seconds", "cycles" | _], [_, {<<"8">>, <<"2">>, <<"14">>, _, _, _,
                                                                _, _, _}]}},
                 whittle_load_data:rows(Csv)),
    Bad = (facts())#{phases => [#{users => 1, from => 2, to => 2}]},
    Other = Dir ++ "-other",
    ok = write(Other, [], ended, Bad),
    ?assertMatch({error, {damaged, _}}, whittle_load_samples:read(Other)).

unicode_text(Cell) when is_list(Cell) -> lists:flatten(Cell);
unicode_text(Cell) -> Cell.

%% Somebody killed the coordinator: the report says so.
killed(Config) ->
    Dir = dir(Config),
    ok = write(Dir, [sample(0), sample(1)], killed),
    {ok, Report} = whittle_load:report(Dir),
    ?assertMatch(["the samples end at second 2 of 10, because the run was killed, or its "
                  "disk was full"],
                 lines(whittle_load:warnings(Report))).

%% The bottleneck comes first.
warnings(Config) ->
    Dir = dir(Config),
    Late = (sample(0))#{arrivals := #{0 => {10, 2}}, lost := [2],
                         events := #{started => 2, connected => 1}},
    ok = write(Dir, [Late], {asked, 1_000_000_000}),
    {ok, #{page := Page} = Report} = whittle_load:report(Dir),
    ?assertMatch(["the load generator was the bottleneck: " ++ _,
                  "the run was stopped at second 1 of 10: the results are those of 1 s",
                  "agent 2 of 2 ended too soon: " ++ _],
                 lines(whittle_load:warnings(Report))),
    ?assertNot(whittle_load:met(Report)),
    {ok, Html} = file:read_file(Page),
    {First, _} = binary:match(Html, <<"the load generator was the bottleneck">>),
    {Users, _} = binary:match(Html, <<"users started">>),
    ?assert(First < Users),
    %% Without a server, nothing shows the speed of the agents.
    NoServer = filename:join(Dir, "no_server"),
    ok = write(NoServer, [Late#{lost := [], events := #{started => 2}}], ended),
    {ok, Nobody} = whittle_load:report(NoServer),
    ?assertEqual(["no user could connect: start the server, or correct `target'"],
                 lines(whittle_load:warnings(Nobody))),
    %% All logins failed.
    Failed = (sample(0))#{events := #{started => 5, connected => 5},
                          errors := #{{<<"login">>, <<"not-authorized">>} => 5}},
    Other = filename:join(Dir, "other"),
    ok = write(Other, [Failed], ended),
    {ok, None} = whittle_load:report(Other),
    ?assertEqual(["no user got as far as being held (login, 5 times: not-authorized): "
                  "correct the steps, or the users' names and passwords"],
                 lines(whittle_load:warnings(None))),
    ?assertNot(whittle_load:met(None)).

%% A run in which all users failed has measured nothing, so it fails without thresholds too. One
%% user who did not fail, or one cycle, is enough.
all_failed(Config) ->
    Errors = fun(N) -> #{{<<"get">>, <<"status_404">>} => N} end,
    [begin
         Dir = filename:join(dir(Config), integer_to_list(N)),
         ok = write(Dir, [(sample(0))#{events := Events, errors := Errors(Count),
                                       agents := #{1 => (vm(0))#{held => Held}}}],
                    ended, (facts())#{holds => Holds, thresholds => []}),
         {ok, Report} = whittle_load:report(Dir),
         ?assertEqual({N, Expected =:= none}, {N, whittle_load:met(Report)}),
         ?assertEqual({N, [Expected || Expected =/= none]},
                      {N, lines(whittle_load:warnings(Report))})
     end || {N, Holds, Held, Count, Events, Expected} <-
                [{1, false, 0, 5, #{started => 5, connected => 5, ended => 5},
                  "all users failed (get, 5 times: status_404): correct the steps, or look for the "
                  "reason in the server's log"},
                 {2, false, 0, 4, #{started => 5, connected => 5, ended => 5}, none},
                 {3, false, 0, 50, #{started => 5, connected => 55, cycles => 1}, none},
                 {4, true, 4, 9, #{started => 5, connected => 14, held => 5}, none},
                 {5, true, 0, 5, #{started => 5, connected => 5, held => 5, released => 5,
                                   ended => 5},
                  "all users failed (get, 5 times: status_404): correct the steps, or look for the "
                  "reason in the server's log"}]].

%% A run in which no step got an answer has measured nothing. The connections are no answers if
%% other steps wait for some. Without such steps, the connections are enough.
no_answers(Config) ->
    Times = fun(Pairs) -> maps:map(fun(_, Buckets) -> distribution(Buckets) end, Pairs) end,
    Had = "had no answer when the run ended, after up to 8.50 s. ",
    Among = ". These times are among the latencies",
    None = "2 steps " ++ Had ++ "No step got an answer: see whether the server stalls, or correct "
        "the steps" ++ Among,
    Long = "1 step " ++ Had ++ "That is longer than any answer took: see whether the server stalls"
        ++ Among,
    [begin
         Dir = filename:join(dir(Config), integer_to_list(N)),
         ok = write(Dir, [(sample(0))#{latencies := Times(Latencies), unanswered := Unanswered,
                                       events := #{started => 2, connected => Connected,
                                                   held => Connected}}],
                    ended, (facts())#{thresholds => []}),
         {ok, Report} = whittle_load:report(Dir),
         ?assertEqual({N, Expected}, {N, lines(whittle_load:warnings(Report))}),
         ?assertEqual({N, Met}, {N, whittle_load:met(Report)})
     end || {N, Connected, Latencies, Unanswered, Expected, Met} <-
                [{1, 2, #{<<"connect">> => [{700, 2}], <<"ask">> => [{1056, 2}]},
                  distribution([{1056, 2}]), [None], false},
                 %% One connection lasts until the end. Connections may last longer than steps wait.
                 {2, 1, #{<<"connect">> => [{700, 1}, {1056, 1}], <<"ask">> => [{900, 1}]},
                  distribution([{900, 1}, {1056, 1}]), [None], false},
                 {3, 2, #{<<"connect">> => [{1100, 2}], <<"ask">> => [{1056, 2}]},
                  distribution([{1056, 2}]), [None], false},
                 {4, 2, #{<<"connect">> => [{700, 2}], <<"ask">> => [{700, 1}, {1056, 1}]},
                  distribution([{1056, 1}]), [Long], true},
                 %% No step of these users waits for an answer.
                 {5, 1, #{<<"connect">> => [{700, 1}, {1056, 1}]}, distribution([{1056, 1}]),
                  [Long], true},
                 {6, 2, #{<<"connect">> => [{700, 2}]}, none, [], true},
                 {7, 0, #{<<"connect">> => [{1056, 2}]}, distribution([{1056, 2}]),
                  [None, "no user could connect: start the server, or correct `target'"], false}]].

%% A threshold without a step leaves out the connections. A note says so if they would miss it, and
%% names a threshold that does not leave them out.
slow_connections(Config) ->
    Latencies = #{<<"connect">> => distribution([{1024, 2}]),
                  <<"ask">> => distribution([{700, 3}])},
    Notes = fun(N, Thresholds) ->
                    Dir = filename:join(dir(Config), integer_to_list(N)),
                    ok = write(Dir, [(sample(0))#{latencies := Latencies}], ended,
                               (facts())#{thresholds => Thresholds}),
                    {ok, Report} = whittle_load:report(Dir),
                    {lines(whittle_load:warnings(Report)), whittle_load:met(Report)}
            end,
    Note = fun(Old, Measure, New) ->
                   "the threshold `" ++ Old ++ "' leaves out `connect', whose " ++ Measure
                       ++ " is 4.25 s: see whether the server stalls while users connect, "
                       "and add the threshold \"" ++ New ++ "\" to judge that too"
           end,
    Given = [<<"p99 < 300 ms">>, <<" p99.9<=1 s">>, <<"p50 < 5 s">>, <<"p99 ask < 300 ms">>,
             <<"p50 > 5 ns">>, <<"held >= 1">>],
    ?assertEqual({[Note("p99 < 300 ms", "p99", "p99 connect < 300 ms"),
                   Note("p99.9<=1 s", "p99.9", "p99.9 connect<=1 s")], true}, Notes(1, Given)),
    ?assertEqual({[], false}, Notes(2, [<<"p99 < 300 ms">>, <<"p99 connect < 300 ms">>])),
    ?assertEqual({[], true}, Notes(3, [<<"p99 < 300 ms">>, <<"p50 connect < 9 s">>])),
    ?assertEqual({[], false}, Notes(4, [<<"p99 < 1 ns">>])),
    ?assertMatch({ok, #{step := "connect"}},
                 whittle_load_scenario:threshold(<<"p99.9 connect<=1 s">>)).

%% The kernel refuses an address that the machine does not have.
wrong_sources(Config) ->
    Failed = (sample(0))#{events := #{started => 5},
                          errors := #{{<<"connect">>, <<"eaddrnotavail">>} => 5}},
    ok = write(dir(Config), [Failed], ended),
    {ok, Report} = whittle_load:report(dir(Config)),
    ?assertEqual(["no user could connect (connect, 5 times: eaddrnotavail): correct `sources', if "
                  "the scenario has it, or `target'"], lines(whittle_load:warnings(Report))).

%% The names of steps and the kinds of errors may have any characters.
texts_of_others(Config) ->
    Dir = dir(Config),
    Sample = #{second => 0, arrivals => #{}, vm => #{cpu => 1, memory => 1, rss => 1, queue => 0},
               counts => #{events => #{started => 1}, late => none, latencies => #{},
                           unanswered => distribution([]),
                           errors => #{{<<"<b>&\"">>, <<255, "<script>">>} => 1}}},
    ok = write(Dir, [whittle_load_second:add(1, Sample, whittle_load_second:new())], ended),
    {ok, #{page := Page}} = whittle_load:report(Dir),
    {ok, Html} = file:read_file(Page),
    ?assertMatch({_, _}, binary:match(Html, <<"&lt;b&gt;&amp;&quot;">>)),
    ?assertEqual(nomatch, binary:match(Html, <<"<script">>)).

comparison(Config) ->
    [One, Other] = [filename:join(dir(Config), Name) || Name <- ["one", "other"]],
    ok = write(One, [sample(0)], ended),
    ok = write(Other, [sample(0), sample(1)], ended),
    {ok, Comparison} = whittle_load:compare(One, Other),
    [[["users", One, Other, "ratio"], ["started", 2, 4, Ratio] | _], [["latency" | _] | Latencies]]
        = whittle_load:comparison_tables(Comparison),
    ?assertEqual({"2.00", 4}, {lists:flatten(Ratio), length(Latencies)}),
    %% The data are numbers.
    #{<<"first">> := First, <<"second">> := Second, <<"users">> := Users,
      <<"latencies">> := [Latency | _] = All} =
        jiffy:decode(whittle_json:encode(whittle_load:comparison_json(Comparison)), [return_maps]),
    ?assertEqual({list_to_binary(One), list_to_binary(Other)}, {First, Second}),
    ?assertEqual(#{<<"name">> => <<"started">>, <<"first">> => 2, <<"second">> => 4,
                   <<"ratio">> => 2.0}, hd(Users)),
    ?assertEqual([<<"started">>, <<"connected">>, <<"ended">>, <<"held">>, <<"errors">>],
                 [Name || #{<<"name">> := Name} <- Users]),
    ?assertMatch(#{<<"ratio">> := null}, lists:last(Users)),
    #{<<"step">> := <<"ask">>, <<"quantile">> := <<"p50">>, <<"first_ns">> := Before,
      <<"second_ns">> := After} = Latency,
    ?assert(is_number(Before) andalso Before > 1_000_000 andalso Before =:= After),
    ?assertEqual(4, length(All)),
    ?assertEqual({error, {no_samples, "/nowhere"}}, whittle_load:compare(One, "/nowhere")).

%% A chart of an hour has no more points than it has pixels, and its counts are still all there.
long(_) ->
    Rows = whittle_load_series:rows([sample(N) || N <- lists:seq(0, 3599)]),
    Thin = whittle_load_series:thin(240, Rows),
    ?assertEqual({240, 7200, 3600},
                 {length(Thin), lists:sum([N || #{actual := N} <- Thin]),
                  lists:sum([N || #{seconds := N} <- Thin])}),
    ?assertEqual(7200, maps:get(held, lists:last(Thin))).

messages(_) ->
    [?assertMatch({_, [_ | _]}, {Reason, lists:flatten(io_lib:format(
                                                         "~ts",
                                                         [whittle_load:format_error(Reason)]))})
     || Reason <- [{exists, "d"}, {not_empty, {"d", "f"}}, {not_empty, {"d", <<255>>}},
                   {no_samples, "d"}, {damaged, {"d/run.json", 1}},
                   {damaged, {"d/samples.jsonl", 7}}, {cannot_write, {"f", enospc}},
                   {cannot_write, {"f", eacces}}]].

%% Internal

dir(Config) -> proplists:get_value(dir, Config).

facts() ->
    #{agents => 2, duration => 10_000_000_000, holds => true, scenario => <<"x.load">>,
      command => <<"whittle load x.load">>, target => <<"tcp 127.0.0.1:1">>,
      thresholds => [<<"errors < 1">>, <<"held >= 1000">>], machine => #{cpus => 2}}.

write(Dir, Seconds, Ending) -> write(Dir, Seconds, Ending, facts()).

write(Dir, Seconds, Ending, Facts) ->
    {ok, Log} = whittle_load_samples:create(Dir, Facts),
    [ok = whittle_load_samples:append(Log, Second) || Second <- Seconds],
    ok = case Ending of
             killed -> ok;
             ended -> whittle_load_samples:finish(Log, #{lost => [], stopped => none});
             {asked, _} -> whittle_load_samples:finish(Log, #{lost => [2], stopped => Ending})
         end,
    whittle_load_samples:close(Log).

lines(Chars) -> [lists:flatten(io_lib:format("~ts", [Line])) || Line <- Chars].

read(Json) ->
    whittle_load_second:from_json(jiffy:decode(whittle_json:encode(Json), [return_maps])).

%% Two users start, connect and ask.
sample(N) ->
    #{second => N, events => #{started => 2, connected => 2, held => 2, sent => 3, received => 3},
      errors => #{}, latencies => #{<<"ask">> => distribution([{700, 2}, {820, 1}])},
      unanswered => none, late => distribution([{500, 2}]), arrivals => #{N => {2, 2}},
      agents => #{1 => vm(N)}, lost => [], server => none}.

vm(N) -> #{cpu => 10 * N, memory => 1, rss => 20_000_000, queue => 0, held => 2}.

distribution(Buckets) ->
    Count = lists:sum([N || {_, N} <- Buckets]),
    #{count => Count, sum => 1000 * Count, zeros => 0, buckets => Buckets}.

second() ->
    ?LET({N, Events, Errors, Latencies, Unanswered, Late, Arrivals, Agents, Lost, Server},
         {nat(), map(oneof([started, connected, held, released, ended, cycles, sent, received]),
                     nat()),
          map({name(), name()}, pos_integer()), map(name(), distribution()),
          oneof([none, distribution()]), oneof([none, distribution()]),
          map(nat(), {nat(), nat()}),
          map(pos_integer(), any_vm()), list(nat()),
          oneof([none, ?LET({A, B, C}, {nat(), nat(), nat()},
                            #{processes => A, cpu => B, rss => C})])},
         #{second => N, events => Events, errors => Errors, latencies => Latencies,
           unanswered => Unanswered, late => Late, arrivals => Arrivals, agents => Agents,
           lost => Lost, server => Server}).

map(Key, Value) -> ?LET(Pairs, list({Key, Value}), maps:from_list(Pairs)).

name() ->
    ?LET(Chars, list(oneof([$a, $", $\\, $ä, 16#20ac, $\n])), unicode:characters_to_binary(Chars)).

any_vm() ->
    ?LET({A, B, C, D, E}, {nat(), nat(), nat(), nat(), integer()},
         #{cpu => A, memory => B, rss => C, queue => D, held => E}).

distribution() ->
    ?LET({Sum, Zeros, Indices}, {nat(), nat(), list(range(0, 1888))},
         begin
             Buckets = [{I, I rem 7 + 1} || I <- lists:usort(Indices)],
             #{count => Zeros + lists:sum([N || {_, N} <- Buckets]), sum => Sum, zeros => Zeros,
               buckets => Buckets}
         end).
