%% Tests the view of a run for terminals of all sizes, and how the server is found.
-module(whittle_load_view_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([begins/1, values/1, fits/1, listeners/1, server/1]).

all() -> [begins, values, fits, listeners, server].

%% Before the first sample the view has all labels but those of machines.
begins(_) ->
    Text = text(whittle_load_view:new("a.load", 60_000_000_000), {80, 24}),
    ?assertMatch("a.load" ++ _, Text),
    ?assertMatch({match, _}, re:run(Text, "0 s of 60 s, 60 s left\n\\[ +\\]\n")),
    ?assertEqual(nomatch, re:run(Text, "^agents", [multiline])),
    %% A run may have only bursts.
    ?assertMatch({match, _}, re:run(text(whittle_load_view:new("a.load", 0), {80, 24}),
                                    "0 s of 0 s")).

values(_) ->
    View = lists:foldl(fun whittle_load_view:sample/2,
                       whittle_load_view:new("a.load", 10_000_000_000),
                       [sample(N) || N <- lists:seq(0, 4)]),
    Text = text(View, {80, 24}),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Text, Pattern, [multiline])})
     || Pattern <- ["5 s of 10 s, 5 s left$", "^\\[=+ +\\]$",
                    "^users +running 10  held 10  started 10 ",
                    "^arrivals +planned 2/s  actual 2/s$",
                    "^messages +sent 3/s  received 3/s$", "^ +p50 +p90 +p99 +max$|^latency +p50",
                    "^last 5 s +[0-9.]+ ms", "^all +[0-9.]+ ms", "^errors +refused 5$",
                    "^agents +1  0.01 CPUs  busiest 0.01 CPUs  queue 0  20.0 MB$",
                    "^server +1 process  0.05 CPUs  30.0 MB$"]].

%% No line is wider than the terminal, and the lines never fill it.
fits(_) ->
    View = lists:foldl(fun whittle_load_view:sample/2,
                       whittle_load_view:new("a-scenario-with-a-long-name.load", 3_600_000_000_000),
                       [sample(N) || N <- lists:seq(0, 20)]),
    ?assert(proper:quickcheck(
              ?FORALL({Columns, Rows}, {range(11, 200), range(2, 60)},
                      begin
                          Lines = whittle_load_view:lines(View, {Columns, Rows}),
                          length(Lines) < Rows
                              andalso lists:all(fun(Line) ->
                                                        string:length([Text || {_, Text} <- Line])
                                                            < Columns
                                                end, Lines)
                      end), [{numtests, 300}, {to_file, user}])),
    ?assertMatch([_], whittle_load_view:lines(View, {1, 1})).

listeners(_) ->
    Text = <<"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
             "timeout inode\n"
             "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0"
             "        0 4711 1 00 100 0 0 10 0\n"
             "   1: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0"
             "        0 4712 1 00 100 0 0 10 0\n"
             "   2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0"
             "        0 4713 1 00 100 0 0 10 0\n">>,
    ?assertEqual([4711], whittle_load_server:listeners(Text, 8000)),
    ?assertEqual([], whittle_load_server:listeners(<<>>, 8000)).

%% The server is this VM.
server(_) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    Own = list_to_integer(os:getpid()),
    ?assertEqual([Own], whittle_load_server:find(#{port => Port})),
    ?assertMatch(#{processes := 1, rss := Rss, cpu := Cpu} when Rss > 1_000_000 andalso Cpu >= 0,
                 whittle_load_server:read([Own])),
    ok = gen_tcp:close(Socket),
    ?assertEqual([], whittle_load_server:find(#{port => Port})),
    ?assertEqual(none, whittle_load_server:read([])),
    %% A process that has ended
    ?assertMatch(#{processes := 0}, whittle_load_server:read([1 bsl 30])).

%% Internal

text(View, Size) ->
    lists:flatten([[[io_lib:format("~ts", [Text]) || {_, Text} <- Line], $\n]
                   || Line <- whittle_load_view:lines(View, Size)]).

sample(N) ->
    #{second => N, events => #{started => 2, connected => 2, held => 2, sent => 3, received => 3},
      errors => #{{<<"connect">>, <<"refused">>} => 1},
      latencies => #{<<"ask">> => #{count => 3, sum => 3, zeros => 0,
                                    buckets => [{700, 2}, {820, 1}]}},
      unanswered => none, late => none, arrivals => #{N => {2, 2}},
      agents => #{1 => #{cpu => 10 * N, memory => 1, rss => 20_000_000, queue => 0, held => 2}},
      lost => [], server => #{processes => 1, cpu => 50 * N, rss => 30_000_000}}.
