%% Tests the text formats with prometheus-client (the reference parser) and promtool.
-module(whittle_counters_text_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([parsers_read_it/1, any_label_value/1, exemplars/1, promtool/1, vm/1, streams_flat/1,
         cut_off/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [parsers_read_it, any_label_value, exemplars, promtool, vm, streams_flat, cut_off].

init_per_testcase(_, Config) ->
    _ = application:load(whittle_counters),
    %% Only the test cases search for stale series.
    ok = application:set_env(whittle_counters, sweep_every, 3600000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    Config.

end_per_testcase(_, _) -> application:stop(whittle_counters).

-define(W, whittle_counters).

fill() ->
    ok = ?W:new(requests_total, counter,
                #{labels => [method, code], help => "All\n\"requests\" \\"}),
    ok = ?W:inc(requests_total, [get, 200], 3),
    ok = ?W:inc(requests_total, [post, 500]),
    ok = ?W:new(room_celsius, gauge, #{value => float, unit => "celsius"}),
    ok = ?W:set(room_celsius, -1.5e-9),
    ok = ?W:new(took_seconds, timer, #{labels => [what]}),
    [ok = ?W:observe(took_seconds, [x], V) || V <- [0, 1, 1500, 1 bsl 30]],
    ok = ?W:new(size_bytes, histogram, #{unit => "bytes"}),
    ok = ?W:observe(size_bytes, 5),
    ok = ?W:new(empty, histogram),
    {ok, _} = ?W:handle(empty),
    ok.

parsers_read_it(Config) ->
    fill(),
    Both = [{F, parse(F, Config)} || F <- [prometheus, openmetrics]],
    [begin
         Has = fun(Line) -> ?assert(lists:member(Line, Lines), {Format, Line, Lines}) end,
         Has("sample requests_total code=323030,method=676574 3.0 "),
         Has("sample requests_total code=353030,method=706f7374 1.0 "),
         Has("sample room_celsius  -1.5e-09 "),
         Has("sample took_seconds_count what=78 4.0 "),
         Has("sample took_seconds_sum what=78 1.073743325 "),
         Has("sample took_seconds_bucket le=2b496e66,what=78 4.0 "),
         Has("sample size_bytes_bucket le=" ++ le(Format, "8") ++ " 1.0 "),
         Has("sample empty_count  0.0 ")
     end || {Format, Lines} <- Both],
    {_, Open} = lists:last(Both),
    Help = hex("All\n\"requests\" \\"),
    ?assert(lists:member("family requests counter  " ++ Help, Open)),
    ?assert(lists:member("family took_seconds histogram seconds ", Open)).

le(prometheus, N) -> hex(N);
le(openmetrics, N) -> hex(N ++ ".0").

%% The parsers read the same text that a label had, for any text.
any_label_value(Config) ->
    ok = ?W:new(c, counter, #{labels => [text], max_series => 2000}),
    Texts = lists:usort([<<>>, <<"\\">>, <<"\\n">>, <<"\n">>, <<"\"">>, <<"a\"},b=\"">>,
                         <<"# EOF">>]
                        ++ [random_text() || _ <- lists:seq(1, 500)]),
    [ok = ?W:inc(c, [T]) || T <- Texts],
    [begin
         Lines = parse(Format, Config),
         Seen = [Line || "sample c_total" ++ _ = Line <- Lines],
         Expected = ["sample c_total text=" ++ hex(T) ++ " 1.0 " || T <- Texts],
         ?assertEqual(lists:sort(Expected), lists:sort(Seen))
     end || Format <- [prometheus, openmetrics]].

random_text() ->
    Chars = "abc\"\\\n{}=,# é€\x{1F600}\t",
    unicode:characters_to_binary([lists:nth(rand:uniform(length(Chars)), Chars)
                                  || _ <- lists:seq(1, rand:uniform(12))]).

exemplars(Config) ->
    ok = ?W:new(took_seconds, timer, #{labels => [what]}),
    ok = ?W:exemplar(took_seconds, [x], 1000, #{trace_id => <<"a1">>}),
    ok = ?W:exemplar(took_seconds, [x], 1020, #{trace_id => <<"b2">>}),
    ?assertMatch({error, {exemplar_too_long, _}},
                 ?W:exemplar(took_seconds, [x], 1, #{id => binary:copy(<<"x">>, 127)})),
    ?assertMatch({error, {bad_label_value, _}}, ?W:exemplar(took_seconds, [x], 1, #{id => 1.5})),
    ?assertMatch({error, {bad_labels, _}}, ?W:exemplar(took_seconds, [x], 1, no_map)),
    With = fun(Format) ->
                   [L || L <- parse(Format, Config), string:find(L, hex("b2")) =/= nomatch]
           end,
    ?assertMatch(["sample took_seconds_bucket le=" ++ _], With(openmetrics)),
    ?assertEqual([], With(prometheus)),
    ok = ?W:delete(took_seconds, [x]),
    ?assertEqual(0, ets:info(whittle_counters_exemplars, size)).

promtool(Config) ->
    fill(),
    File = write(prometheus, Config),
    Out = os:cmd("promtool check metrics <" ++ File ++ "; echo exit $?"),
    %% For bad names and missing help promtool returns 3, for errors 1.
    Exit = lists:last(string:lexemes(Out, " \n")),
    ?assert(lists:member(Exit, ["0", "3"]), Out),
    ?assertEqual(nomatch, string:find(Out, "error while linting"), Out).

vm(Config) ->
    ok = whittle_counters_vm:install(),
    Lines = parse(openmetrics, Config),
    Families = [atom_to_list(N) || {N, _, _} <- whittle_counters_vm:definitions()],
    Sampled = [lists:nth(2, string:split(L, " ", all)) || "sample " ++ _ = L <- Lines],
    %% The node of this test has no connection to another node.
    Missing = [F || F <- Families, not lists:member(F, Sampled)],
    ?assertEqual([], Missing -- ["erlang_vm_distribution_queue_bytes"]),
    ?assertEqual([], [L || "sample whittle_counters_rejected" ++ _ = L <- Lines]).

%% The whole answer has 1.4 MB. The process that streams it stays under 1 MB.
streams_flat(_) ->
    N = 50000,
    ok = ?W:new(a_counter_with_a_long_name, counter, #{labels => [id], max_series => N}),
    [ok = ?W:inc(a_counter_with_a_long_name, [I]) || I <- lists:seq(1, N)],
    {ok, Words} = peak(fun() -> whittle_counters_text:stream(prometheus, fun(_) -> ok end) end),
    ?assert(Words * erlang:system_info(wordsize) < 1000000, Words).

%% Returns the largest heap of the process that runs the fun, measured at each garbage collection.
peak(Fun) ->
    Test = self(),
    Pid = spawn_link(fun() -> receive go -> Test ! {done, Fun()} end, receive stop -> ok end end),
    1 = erlang:trace(Pid, true, [garbage_collection]),
    Pid ! go,
    Result = receive {done, Answer} -> Answer end,
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Ref} -> ok end,
    {total_heap_size, Now} = process_info(Pid, total_heap_size),
    Pid ! stop,
    {Result, collections(Pid, Now)}.

collections(Pid, Max) ->
    receive
        {trace, Pid, _, Info} when is_list(Info) ->
            collections(Pid, max(Max, proplists:get_value(heap_block_size, Info, 0)
                                 + proplists:get_value(old_heap_block_size, Info, 0)))
    after 0 -> Max
    end.

cut_off(_) ->
    fill(),
    ?assertEqual({error, closed},
                 whittle_counters_text:stream(prometheus, fun(_) -> {error, closed} end)).

%%% the parsers

parse(Format, Config) ->
    File = write(Format, Config),
    Script = filename:join(filename:dirname(source()), "parse_metrics.py"),
    Out = os:cmd(lists:join($\s, [python(), Script, atom_to_list(Format), File, "2>&1"])),
    ?assertEqual(nomatch, string:find(Out, "Traceback"), Out),
    string:split(string:trim(Out, trailing, "\n"), "\n", all).

write(Format, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "scrape.txt"),
    ok = file:write_file(File, whittle_counters_text:render(Format)),
    File.

source() -> proplists:get_value(source, ?MODULE:module_info(compile)).

%% Returns the Python interpreter with the reference parser, which lib/Makefile installs.
python() ->
    Device = filename:dirname(filename:dirname(filename:dirname(source()))),
    Python = filename:join(Device, "../_build/lib/python/bin/python3"),
    ?assert(filelib:is_regular(Python), "run: make -C lib python"),
    Python.

hex(Text) ->
    Bytes = unicode:characters_to_binary(Text),
    string:lowercase(binary_to_list(binary:encode_hex(Bytes))).
