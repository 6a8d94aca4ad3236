%% Tests the reading of scenarios.
-module(whittle_load_scenario_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0]).
-export([whole/1, defaults/1, programs/1, http/1, take/1, websocket/1, mqtt/1, thresholds/1,
         wrong/1, noise/1, files/1]).

all() -> [whole, defaults, programs, http, take, websocket, mqtt, thresholds, wrong, noise, files].

-define(SECOND, 1_000_000_000).

whole(_) ->
    {ok, Scenario} = whittle_load_scenario:parse(
                       <<"{seed, -7}. {target, \"tls://[::1]:7000\"}.\n"
                         "{agents, 3}. {arrivals, constant}. {timeout, \"2 s\"}. {buffer, 128}.\n"
                         "{hibernate, \"0 s\"}. {sources, [\"127.0.0.2\", \"::1\"]}.\n"
                         "{phases, [{ramp, 0, 10, \"1 s\"}, {hold, 2.5, \"1 min\"}, {burst, 9},\n"
                         "          {soak, \"1 h\"}, {closed, 4, \"5 ms\"},\n"
                         "          {doubling, 1, 5, \"10 s\"}]}.\n"
                         "{users, [{a, 60, [connect]}, {b, 40, [connect, disconnect]}]}.\n">>),
    ?assertMatch(
       #{seed := -7, agents := 3, hibernate := 0,
         sources := [{127, 0, 0, 2}, {0, 0, 0, 0, 0, 0, 0, 1}],
         target := #{client := whittle_load_agent_lines, transport := tls, port := 7000,
                     host := {0, 0, 0, 0, 0, 0, 0, 1}, buffer := 128},
         phases := [{rate, constant, 0, 10, ?SECOND}, {rate, constant, 2.5, 2.5, 60_000_000_000},
                    {burst, 9}, {pause, 3_600_000_000_000}, {closed, 4, 5_000_000},
                    {closed, 1, _}, {closed, 2, _}, {closed, 4, _}, {closed, 5, _}],
         classes := [#{name := <<"a">>, weight := 60,
                       program := {{connect, 2_000_000_000}, held, 'end'}},
                     #{name := <<"b">>, weight := 40,
                       program := {{connect, 2_000_000_000}, held, disconnect, 'end'}}]},
       Scenario).

defaults(_) ->
    ?assertMatch({ok, #{rows := [], seed := 1, agents := auto, thresholds := [], sources := [],
                        hibernate := ?SECOND,
                        target := #{client := whittle_load_agent_lines, transport := tcp,
                                    host := <<"localhost">>, port := 1, buffer := 64}}},
                 whittle_load_scenario:parse(with("[connect]"))),
    [?assertMatch({ok, #{target := #{buffer := Buffer}}},
                  whittle_load_scenario:parse(
                    iolist_to_binary(["{target, \"", Target, "\"}. {phases, [{burst, 1}]}. "
                                      "{users, [{a, 1, [connect]}]}."])))
     || {Target, Buffer} <- [{"http://localhost", 4096}, {"xmpp://localhost", 512},
                             {"ws://localhost", 512}, {"mqtt://localhost", 512}]].

%% A loop jumps to its first instruction, and a choice behind its last.
programs(_) ->
    T = 10 * ?SECOND,
    [?assertEqual({Steps, list_to_tuple([{connect, T}, held | tuple_to_list(Program)])},
                  {Steps, program("[connect, " ++ tl(Steps))})
     || {Steps, Program} <-
            [{"[connect, stay]", {{connect, T}, held, stay, 'end'}},
             {"[{connect, \"1 ms\"}]", {{connect, 1_000_000}, held, 'end'}},
             {"[{repeat, 3, [{send, \"a\"}, {wait, \"1 s\"}]}]",
              {{repeat, 3}, {step, <<"send">>, {send, [<<"a">>]}, T}, {wait, {constant, ?SECOND}},
               {again, 4}, 'end'}},
             {"[{send, \"a\"}, {forever, [{expect, \"b\"}]}]",
              {{step, <<"send">>, {send, [<<"a">>]}, T},
               {step, <<"expect">>, {expect, [<<"b">>]}, T}, {jump, 4}, 'end'}},
             {"[{choose, [{1, [{wait, \"1 s\"}]}, {3, [connect, stay]}]}, disconnect]",
              {{branch, [{0.25, 4}, {1.0, 6}]}, {wait, {constant, ?SECOND}}, {jump, 10},
               {connect, T}, held, stay, {jump, 10}, disconnect, 'end'}},
             {"[{as, \"hi\", {ask, \"x ${id} ${random:9}\", \"\"}}]",
              {{step, <<"hi">>, {ask, [<<"x ">>, id, <<" ">>, {random, 9}], []}, T}, 'end'}},
             {"[{every, \"1 s\", [{send, \"x\"}]}]",
              {{every, infinity, ?SECOND}, {step, <<"send">>, {send, [<<"x">>]}, T},
               {next, ?SECOND, 4}, 'end'}},
             {"[{every, \"1 s\", 5, [connect]}, connect]",
              {{every, 5, ?SECOND}, {connect, T}, held, {next, ?SECOND, 4}, {connect, T}, held,
               'end'}},
             {"[{wait, exponential, \"2 s\"}, {wait, uniform, \"1 s\", \"2 s\"}, "
              "{wait, lognormal, \"1 s\", 1.5}, {wait, pareto, \"1 s\", 2}]",
              {{wait, {exponential, 2 * ?SECOND}}, {wait, {uniform, ?SECOND, 2 * ?SECOND}},
               {wait, {lognormal, ?SECOND, 1.5}}, {wait, {pareto, ?SECOND, 2}}, 'end'}}]].

%% HTTP users connect where they have no connection.
http(_) ->
    {ok, #{target := #{options := #{host := Host}}, classes := [#{program := Program}]}} =
        whittle_load_scenario:parse(iolist_to_binary(
                                      all("{target, \"http://[::1]:8080\"}.", "{burst, 1}",
                                          "[{get, \"/${id}\"}, {put, \"/\", \"text/plain\","
                                          " \"x\", 204}]"))),
    ?assertEqual(<<"[::1]:8080">>, Host),
    T = 10 * ?SECOND,
    ?assertEqual({{reconnect, T},
                  {step, <<"get">>, {request, <<"GET">>, [<<"/">>, id], none, [], any}, T},
                  {reconnect, T},
                  {step, <<"put">>, {request, <<"PUT">>, [<<"/">>], [<<"text/plain">>], [<<"x">>],
                                     204}, T}, 'end'}, Program).

%% A request before `take' keeps its answer. A text may use a name that each way before it has
%% given.
take(_) ->
    T = 10 * ?SECOND,
    Steps = fun(Text) ->
                    {ok, #{classes := [#{program := Program}]}} =
                        whittle_load_scenario:parse(
                          iolist_to_binary(all("{target, \"http://a\"}.", "{burst, 1}", Text))),
                    [Step || Step <- tuple_to_list(Program), Step =/= {reconnect, T}]
            end,
    Get = {request, <<"GET">>, [<<"/">>], none, [], any},
    ?assertEqual([{step, <<"get">>, {keep, Get}, T}, {take, <<"a">>, <<"x(.*)">>},
                  {take, <<"b">>, <<"(y)">>},
                  {step, <<"get">>, {request, <<"GET">>, [<<"/">>, {taken, <<"a">>}], none, [],
                                     any}, T}, 'end'],
                 Steps("[{get, \"/\"}, {take, \"a\", \"x(.*)\"}, {take, \"b\", \"(y)\"}, "
                       "{get, \"/${a}\"}]")),
    Take = "{get, \"/\"}, {take, \"a\", \"(.)\"}",
    [?assertMatch([_ | _], Steps(Text))
     || Text <- ["[{choose, [{1, [" ++ Take ++ "]}, {2, [" ++ Take ++ "]}]}, {get, \"/${a}\"}]",
                 "[{repeat, 2, [" ++ Take ++ "]}, {get, \"/${a}\"}]",
                 "[" ++ Take ++ ", {forever, [{get, \"/${a}\"}]}]"]].

%% The upgrade belongs to `connect'.
websocket(_) ->
    Text = fun(Target) ->
                   iolist_to_binary([all("{target, \"" ++ Target ++ "\"}.", "{burst, 1}",
                                         "[connect, {ask, \"a ${sent}\", \"a\"}, disconnect]"),
                                     "{keep_alive, \"5 s\"}. {subprotocol, \"chat\"}."])
           end,
    {ok, #{target := Target, classes := [#{program := Program}]}} =
        whittle_load_scenario:parse(Text("wss://[::1]/a/b?c=d")),
    ?assertMatch(#{client := whittle_load_agent_websocket, transport := tls, port := 443,
                   keep_alive := 5_000_000_000, says_bye := true,
                   options := #{host := <<"[::1]:443">>, path := [<<"/a/b?c=d">>],
                                subprotocol := <<"chat">>}}, Target),
    T = 10 * ?SECOND,
    ?assertEqual({{connect, T}, {step, <<"upgrade">>, upgrade, T}, held,
                  {step, <<"ask">>, {ask, [<<"a ">>, sent], [<<"a">>]}, T}, disconnect, 'end'},
                 Program),
    ?assertMatch({ok, #{target := #{port := 7000, options := #{path := [<<"/">>]}}}},
                 whittle_load_scenario:parse(Text("ws://a:7000"))).

mqtt(_) ->
    {ok, #{target := Target, classes := [#{program := Program}]}} =
        whittle_load_scenario:parse(
          iolist_to_binary(all("{target, \"mqtt://127.0.0.1\"}.", "{burst, 1}",
                               "[connect, {login, \"c\"}, {subscribe, \"t\"}, {publish, \"t\","
                               " \"x\"}, {publish, \"t\", \"x\", 2}]"))),
    ?assertMatch(#{client := whittle_load_agent_mqtt, transport := tcp, port := 1883,
                   keep_alive := 60_000_000_000, options := #{keep_alive := 60}}, Target),
    T = 10 * ?SECOND,
    ?assertEqual({{connect, T}, {step, <<"login">>, {login, [<<"c">>]}, T}, held,
                  {step, <<"subscribe">>, {subscribe, [<<"t">>], 0}, T},
                  {step, <<"publish">>, {publish, [<<"t">>], [<<"x">>], 0}, T},
                  {step, <<"publish">>, {publish, [<<"t">>], [<<"x">>], 2}, T}, 'end'}, Program).

thresholds(_) ->
    [?assertEqual({Text, {ok, Expected}}, {Text, threshold(Text)})
     || {Text, Expected} <-
            [{"p99 < 50 ms", {{quantile, 0.99}, all, '<', 50_000_000}},
             {"p99.9 ask<=1s", {{quantile, 0.9990000000000001}, "ask", '=<', ?SECOND}},
             {"mean login < 2 ms", {mean, "login", '<', 2_000_000}},
             {"errors < 0.1 %", {error_share, all, '<', 0.001}},
             {"errors =< 3", {errors, all, '=<', 3}},
             {"held >= 20000", {held, all, '>=', 20000}},
             {"started > 5", {started, all, '>', 5}},
             {"p99 delivery < 1 s", {{quantile, 0.99}, "delivery", '<', ?SECOND}}]].

%% The place is that of the wrong word, and the message says what to write.
wrong(_) ->
    [?assertEqual({Text, Line}, {Text, message(Text)})
     || {Text, Line} <-
            [{"{target, \"tcp://a:1\"}. {phases, [{burst, 1}]}.",
              "1:24: `users' is missing: write {users, ...}."},
             {"{tarjet, 1}.", "1:2: there is no `tarjet' here (did you mean target?): take one of "
              "seed, data, target, agents, arrivals, phases, users, thresholds, sources, "
              "hibernate, timeout, buffer, keep_alive, domain, mechanism, subprotocol, headers, "
              "client, options, modules"},
             {"{seed, 1}.\n{seed, 2}.", "2:1: `seed' stands here a second time"},
             {"{seed, 1}", "1:9: the term has no end: write a dot behind it"},
             {"{seed, 1}.\n {seed 1}.", "2:8: syntax error before: 1; a scenario consists of "
              "Erlang terms (docs/load.md of Whittle's source describes them)"},
             {"# A title\n\nSome words.\n", "1:3: syntax error before: A; a scenario consists of "
              "Erlang terms (docs/load.md of Whittle's source describes them)"},
             {"{seed, self()}.", "1:8: write an atom, a number, a text, a tuple or a list here"},
             {"{seed, 1}, {seed, 2}.", "1:12: a term ends with a dot, not with a comma"},
             {"{seed, \"x\"}. {target, \"tcp://a:1\"}. {phases, [{burst, 1}]}. {users, []}.",
              "1:8: write a whole number from -4611686018427387904 to 4611686018427387904 here"},
             {all("{target, \"tcp://a\"}.", "{burst, 1}", "[connect]"),
              "1:10: `tcp://a' is not the address of a server: write one such as "
              "\"tcp://127.0.0.1:7000\""},
             {all("{target, \"gopher://a:70\"}.", "{burst, 1}", "[connect]"),
              "1:10: there is no protocol `gopher': take one of tcp, tls, xmpp, xmpps, "
              "http, https, ws, wss, mqtt, mqtts"},
             {all("{target, \"mqqt://a\"}.", "{burst, 1}", "[connect]"),
              "1:10: there is no protocol `mqqt' (did you mean mqtt?): take one of tcp, tls, xmpp, "
              "xmpps, http, https, ws, wss, mqtt, mqtts"},
             {all("{target, \"mqtt://a/topic\"}.", "{burst, 1}", "[connect]"),
              "1:10: `mqtt://a/topic' is not the address of a server: write one such as "
              "\"tcp://127.0.0.1:7000\""},
             {all("{target, \"mqtt://a\"}.\n{keep_alive, \"100 ms\"}.", "{burst, 1}", "[connect]"),
              "2:14: write whole seconds from \"1 s\" to \"65535 s\" here"},
             {all("{target, \"tcp://a:1\"}. {keep_alive, \"1 s\"}.", "{burst, 1}", "[connect]"),
              "1:24: `keep_alive' has a meaning for xmpp, ws, mqtt and a `client' only"},
             {all("{target, \"ws://a\"}. {subprotocol, \"a,b\"}.", "{burst, 1}", "[connect]"),
              "1:35: the name of a protocol has letters, digits and none of ( ) , / : ; < = > ? @ "
              "[ \\ ] { }"},
             {all("{target, \"mqtt://a\"}. {subprotocol, \"a\"}.", "{burst, 1}", "[connect]"),
              "1:23: `subprotocol' has a meaning for ws only"},
             {all("{target, \"mqtt://a\"}.", "{burst, 1}",
                  "[connect, {login, \"a\"}, {subcribe, \"a\"}]"),
              "3:42: there is no `subcribe' here (did you mean subscribe?): take one of connect, "
              "wait, stay, repeat, forever, every, choose, as, disconnect, expect, login, publish, "
              "subscribe, unsubscribe"},
             {all("{target, \"mqtt://a\"}.", "{burst, 1}",
                  "[connect, {publish, \"a\", \"b\", 3}]"),
              "3:47: write a whole number from 0 to 2 here"},
             {all("{target, \"mqtt://a\"}.", "{burst, 1}",
                  "[connect, {forever, [{publish, \"a\", \"b\"}]}]"),
              "3:27: nothing in this loop waits for a time or an answer, so it would take all of "
              "the processor"},
             {all("{target, \"ws://a/\"}.", "{burst, 1}", "[connect, {ask_binry, \"a\", \"b\"}]"),
              "3:28: there is no `ask_binry' here (did you mean ask_binary?): take one of connect, "
              "wait, stay, repeat, forever, every, choose, as, disconnect, ask, ask_binary, "
              "expect, send, send_binary"},
             {with_take("{get, \"/\"}, {wait, \"1 s\"}, {take, \"a\", \"(.)\"}"),
              "3:45: put `take' directly behind the request from whose answer it takes a part"},
             {with_take("{get, \"/\"}, {take, \"a\", \".\"}"),
              "3:42: put parentheses around the part to take"},
             {with_take("{get, \"/\"}, {take, \"a\", \"(\"}"),
              "3:42: this is no regular expression: missing ) at character 2"},
             {with_take("{get, \"/\"}, {take, \"id\", \"(.)\"}"),
              "3:37: a name has letters, digits, _ and -, begins with a letter or _, and is "
              "neither id nor sent"},
             {with_take("{choose, [{1, [{get, \"/\"}, {take, \"a\", \"(.)\"}]}, "
                        "{1, [{get, \"/\"}, {take, \"b\", \"(.)\"}, {get, \"/${a}\"}]}]}"),
              "3:110: there is no `${a}': take ${id}, ${random:N}, ${sent} or a column of the data "
              "file (there is none), or a name that `take' has given before on each way to here "
              "(b)"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[connect, {take, \"a\", \"(.)\"}]"),
              "3:27: `take' is a step for http, and the target is for lines: take one of connect, "
              "wait, stay, repeat, forever, every, choose, as, disconnect, ask, expect, send"},
             {all("{target, \"tcp://a:1\"}. {headers, [1]}.", "{burst, 1}", "[connect]"),
              "1:24: `headers' has a meaning for http only"},
             {with_headers("{\"A b\", \"c\"}"),
              "1:35: the name of a header has letters, digits and hyphens"},
             {with_headers("{\"Host\", \"c\"}"), "1:35: the client writes this header itself"},
             {with_headers("{\"A\", \"c\\r\\nD: e\"}"),
              "1:40: the value of a header has printable ASCII characters only"},
             {with_headers("1"), "1:34: write {\"Name\", \"Value\"} here"},
             {all("{target, \"tcp://a:1\"}. {domain, \"x\"}.", "{burst, 1}", "[connect]"),
              "1:24: `domain' has a meaning for xmpp only"},
             {all("{target, \"tcp://a:1\"}.", "{hold, 1}", "[connect]"),
              "2:11: `hold' has the form {hold, UsersPerSecond, Time}"},
             {all("{target, \"tcp://a:1\"}.", "{hold, -1, \"1 s\"}", "[connect]"),
              "2:18: write a number from 0 to 10000000 here"},
             {all("{target, \"tcp://a:1\"}.", "{soak, \"1 day\"}", "[connect]"),
              "2:18: `1 day' is not a time: write a number and one of ns, us, ms, s, min, h, such "
              "as \"50 ms\"; 30 days are the most"},
             {all("{target, \"tcp://a:1\"}.", "{soak, \"0 s\"}", "[connect]"),
              "2:18: a phase lasts at least 1 ms"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[conect]"),
              "3:18: there is no `conect' here (did you mean connect?): take one of connect, wait, "
              "stay, repeat, forever, every, choose, as, disconnect, ask, expect, send"},
             {all("{target, \"http://a:1\"}.", "{burst, 1}", "[{ask, \"a\", \"b\"}]"),
              "3:18: `ask' is a step for lines, websocket, and the target is for http: take one of "
              "connect, wait, stay, repeat, forever, every, choose, as, disconnect, delete, get, "
              "head, patch, post, put, take"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{forever, [{send, \"a\"}]}]"),
              "3:18: nothing in this loop waits for a time or an answer, so it would take all of "
              "the processor"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{send, \"a\\nb\"}]"),
              "3:25: a line has no newline inside: write one step for each line"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[connect, stay, disconnect]"),
              "3:33: no user comes to this step, because the one before has no end"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}",
                  "[{every, \"1 s\", [connect]}, stay]"),
              "3:45: no user comes to this step, because the one before has no end"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{wait, \"1 s\"}, {send, \"a\"}]"),
              "3:17: `send' stands before `connect': a user connects first"},
             {all("{target, \"tcp://a:1\"}.", "{doubling, 8, 2, \"1 s\"}", "[connect]"),
              "2:25: write a whole number from 8 to 100000000 here"},
             {all("{target, \"tcp://a:1\"}. {thresholds, [\"p99 aks < 5 ms\"]}.", "{burst, 1}",
                  "[connect, {ask, \"a\", \"a\"}]"),
              "1:24: no step has the name `aks' (did you mean ask?): take one of connect, "
              "delivery, ask"},
             {thresholds("tcp://a:1", "mean lgin < 5 ms", "[connect, {as, \"login\", {ask, \"a\","
                         " \"b\"}}]"),
              "1:24: no step has the name `lgin' (did you mean login?): take one of connect, "
              "delivery, login"},
             {thresholds("tcp://a:1", "errors ask < 1", "[connect, {ask, \"a\", \"b\"}]"),
              "1:24: `errors' counts for all steps together: leave out `ask'"},
             {thresholds("tcp://a:1", "errors ask < 1 %", "[connect, {ask, \"a\", \"b\"}]"),
              "1:24: `errors' counts for all steps together: leave out `ask'"},
             {thresholds("tcp://a:1", "held ask >= 1", "[connect, {ask, \"a\", \"b\"}]"),
              "1:24: `held' counts for all steps together: leave out `ask'"},
             {thresholds("http://a:1", "held >= 1", "[{get, \"/\"}]"),
              "1:25: users of HTTP never count as held: set a threshold for `started' or `errors'"},
             {thresholds("mqtt://a:1", "held >= 1", "[connect]"),
              "1:25: no step of these users makes them count as held: correct the steps, or set a "
              "threshold for `started' or `errors'"},
             {thresholds("http://a:1", "p99 delivery < 1 s", "[{get, \"/${sent}\"}]"),
              "1:25: users of HTTP measure no `delivery'"},
             {thresholds("tcp://a:1", "p99 delivery < 1 s", "[connect, {ask, \"a\", \"b\"}]"),
              "1:24: no text of these users has `${sent}', so they measure no `delivery'"},
             {all("{target, \"tcp://0.0.0.0:1\"}.", "{burst, 1}", "[connect]"),
              "1:10: `0.0.0.0' stands for all addresses of a server: name one of them, such as "
              "127.0.0.1"},
             {all("{target, \"tcp://[::]:1\"}.", "{burst, 1}", "[connect]"),
              "1:10: `::' stands for all addresses of a server: name one of them, such as [::1]"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}",
                  "[connect, {as, \"my step\", {ask, \"a\", \"a\"}}]"),
              "3:32: the name of a step has no blanks and none of < > ="},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}",
                  "[connect, {as, \"connect\", {ask, \"a\", \"a\"}}]"),
              "3:32: choose another name for this step"},
             {all("{target, \"http://a:1\"}.", "{burst, 1}", "[{get, \"x\"}]"),
              "3:24: a path begins with / and has no blanks"},
             {all("{target, \"http://a:1\"}.", "{burst, 1}", "[{get, \"/x\", 99}]"),
              "3:30: write a whole number from 100 to 599 here"},
             {all("{target, \"http://a:1\"}.", "{burst, 1}", "[{post, \"/x\"}]"),
              "3:18: the number of values of `post' must be 3 or 4"},
             {[<<"% ", 233, "\n">>], "1:1: the file is not UTF-8: save it in this encoding"},
             {binary_to_list(binary:copy(<<"%">>, 262_145)),
              "1:1: the file has 262145 bytes; a scenario has at most 262144"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{send, \"${x}\"}]"),
              "3:25: there is no `${x}': take ${id}, ${random:N}, ${sent} or a column of the data "
              "file (there is none)"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{send, \"${x\"}]"),
              "3:25: the text has `${' without a `}'"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{as, \"x\", stay}]"),
              "3:28: only steps of the protocol can have a name"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[{wait, \"2 s\", \"1 s\"}]"),
              "3:18: write {wait, Time}, {wait, exponential, Mean}, {wait, uniform, Least, Most}, "
              "{wait, lognormal, Median, Sigma} or {wait, pareto, Least, Exponent}"},
             {all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[]"),
              "3:17: this list is empty: write at least one element"},
             {all("{target, \"tcp://a:1\"}. {thresholds, [\"p99 < 5\"]}.", "{burst, 1}",
                  "[connect]"), "1:38: `5' is not a time such as 50 ms"},
             {all("{target, \"tcp://a:1\"}. {thresholds, [\"speed > 5\"]}.", "{burst, 1}",
                  "[connect]"), "1:38: there is no measure `speed': take p50 (or another "
              "percentile), mean, errors, held or started"}]].

%% Any text is a scenario or has an error with a place.
noise(_) ->
    Words = [<<"{">>, <<"}">>, <<"[">>, <<"]">>, <<",">>, <<".\n">>, <<"target">>, <<"users">>,
             <<"phases">>, <<"\"tcp://a:1\"">>, <<"\"1 s\"">>, <<"1">>, <<"-1.5">>, <<"connect">>,
             <<"burst">>, <<"'">>, <<"\"">>, <<"%">>, <<255>>, <<"${id}">>, <<"a">>, <<" ">>],
    ?assert(proper:quickcheck(
              ?FORALL(Pieces, list(oneof([oneof(Words), binary(2)])),
                      case whittle_load_scenario:parse(iolist_to_binary(Pieces)) of
                          {ok, #{}} -> true;
                          {error, {scenario, {none, {Line, Column}, Message}} = Error} ->
                              is_integer(Line) andalso is_integer(Column) andalso Message =/= ""
                                  andalso is_line(whittle_load_scenario:format_error(Error))
                      end), [{to_file, user}, 2000])).

files(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    File = filename:join(Dir, "a.load"),
    ?assertMatch({error, {unreadable, {File, enoent}}}, whittle_load_scenario:read(File)),
    ok = file:write_file(File, [all("{target, \"tcp://a:1\"}.", "{burst, 1}", "[connect]"),
                                "{seed,\n x}."]),
    {error, Error} = whittle_load_scenario:read(File),
    ?assertEqual(File ++ ":5:2: write a whole number from -4611686018427387904 to "
                 "4611686018427387904 here",
                 lists:flatten(whittle_load_scenario:format_error(Error))).

%% Internal

with(Steps) -> list_to_binary(all("{target, \"tcp://localhost:1\"}.", "{burst, 1}", Steps)).

thresholds(Target, Threshold, Steps) ->
    all(["{target, \"", Target, "\"}. {thresholds, [\"", Threshold, "\"]}."], "{burst, 1}", Steps).

all(First, Phase, Steps) ->
    [First, "\n{phases, [", Phase, "]}.\n{users, [{a, 1, ", Steps, "}]}.\n"].

with_headers(Header) ->
    all(["{target, \"http://a\"}. {headers, [", Header, "]}."], "{burst, 1}", "[{get, \"/\"}]").

with_take(Steps) -> all("{target, \"http://a\"}.", "{burst, 1}", "[" ++ Steps ++ "]").

program(Steps) ->
    {ok, #{classes := [#{program := Program}]}} = whittle_load_scenario:parse(with(Steps)),
    Program.

threshold(Text) ->
    {ok, #{thresholds := [#{measure := Measure, step := Step, relation := Relation,
                            limit := Limit}]}} =
        whittle_load_scenario:parse(iolist_to_binary(
                                        [with("[connect, {ask, \"x ${sent}\", \"x\"},"
                                              " {as, \"login\", {ask, \"y\", \"y\"}}]"),
                                         "{thresholds, [\"", Text, "\"]}."])),
    {ok, {Measure, Step, Relation, Limit}}.

message(Text) ->
    {error, Error} = whittle_load_scenario:parse(iolist_to_binary(Text)),
    lists:flatten(whittle_load_scenario:format_error(Error)).

is_line(Text) -> not lists:member($\n, unicode:characters_to_list(Text)).
