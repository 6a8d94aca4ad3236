%% Tests the reading of clients, data functions and other modules that a scenario names.
-module(whittle_load_own_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([client/1, optional/1, data/1, compiled/1, wrong_client/1, wrong_data/1, wrong_file/1,
         swollen/1, endless_includes/1, large_sources/1, two_modules/1, options/1]).

all() ->
    [client, optional, data, compiled, wrong_client, wrong_data, wrong_file, swollen,
     endless_includes, large_sources, two_modules, options].

-define(CALLBACKS, "-export([init/2, step/3, data/2, closed/1, match/2]).\n"
                   "init(_, _) -> none.\nstep(_, _, State) -> {sent, [], State}.\n"
                   "data(_, State) -> {ok, [], [], State}.\nclosed(_) -> {error, closed}.\n"
                   "match(_, _) -> true.\n").
-define(T, 10_000_000_000).

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% The attribute gives the steps: their values, and whether they wait.
client(Config) ->
    ok = written("own.erl", ["-module(own).\n-steps([{tell, [line]}, {ask, [text, count], answer},"
                             " {ask, [text], answer}]).\n"
                             "-steps([{enter, [time], held}, {go, []}]).\n",
                             ?CALLBACKS], Config),
    {ok, #{target := Target, own := [#{module := own}], classes := [#{program := Program}]}} =
        scenario("[connect, {tell, \"${id}\"}, {ask, \"a\", -7}, {ask, \"a\"},"
                 " {enter, \"2 s\"}, go]", "{client, \"own.erl\"}.", Config),
    ?assertMatch(#{client := own, keep_alive := none, says_bye := false,
                   options := #{host := <<"127.0.0.1">>, port := 1}}, Target),
    ?assertEqual({{connect, ?T}, {step, <<"tell">>, {tell, [id]}, ?T},
                  {step, <<"ask">>, {ask, [<<"a">>], -7}, ?T},
                  {step, <<"ask">>, {ask, [<<"a">>]}, ?T},
                  {step, <<"enter">>, {enter, 2_000_000_000}, ?T}, held,
                  {step, <<"go">>, go, ?T}, 'end'}, Program),
    ?assertMatch({ok, _}, scenario("[connect, {forever, [{ask, \"a\"}]}]", "{client, \"own.erl\"}.",
                                   Config)),
    ?assertMatch("3:27: nothing in this loop waits" ++ _,
                 message("[connect, {forever, [{tell, \"a\"}]}]", "{client, \"own.erl\"}.",
                         Config)),
    ?assertMatch("3:28: there is no `tel' here (did you mean tell?): take one of" ++ _,
                 message("[connect, {tel, \"a\"}]", "{client, \"own.erl\"}.", Config)).

optional(Config) ->
    More = "{client, \"own.erl\"}. {keep_alive, \"3 s\"}.",
    ok = written("own.erl", ["-module(own).\n-steps([{go, []}]).\n", ?CALLBACKS], Config),
    ?assertEqual("1:53: the client has no function keep_alive/1",
                 message("[connect]", More, Config)),
    ok = written("own.erl", ["-module(own).\n-steps([{go, []}]).\n"
                             "-export([bye/1, keep_alive/1]).\n", ?CALLBACKS,
                             "bye(_) -> [].\nkeep_alive(State) -> {[], State}.\n"],
                 Config),
    ?assertMatch({ok, #{target := #{keep_alive := 3_000_000_000, says_bye := true}}},
                 scenario("[connect]", More, Config)).

data(Config) ->
    ok = written("rows.erl", "-module(rows).\n-export([row/1]).\n-columns([name, 'e-mail']).\n"
                             "row(Id) -> {integer_to_binary(Id), <<>>}.\n", Config),
    ?assertMatch({ok, #{rows := {function, rows}, own := [#{module := rows}],
                        classes := [#{program := {_, held, {step, _, {send, [{column, 2}]}, _},
                                                  'end'}}]}},
                 scenario("[connect, {send, \"${e-mail}\"}]", "{data, \"rows.erl\"}.", Config)),
    ?assertMatch("3:34: there is no `${mail}'" ++ _,
                 message("[connect, {send, \"${mail}\"}]", "{data, \"rows.erl\"}.", Config)),
    ok = written("rows.erl", "-module(rows).\n-export([row/1]).\n-columns([name, room, name]).\n"
                             "row(_) -> {<<>>, <<>>, <<>>}.\n", Config),
    ?assertMatch({match, _}, re:run(message("[connect]", "{data, \"rows.erl\"}.", Config),
                                    "rows.erl: the attribute `columns' has `name' twice: rename "
                                    "one$")).

compiled(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = written("own.erl", ["-module(own).\n-steps([{go, []}]).\n", ?CALLBACKS], Config),
    {ok, own} = compile:file(filename:join(Dir, "own.erl"), [{outdir, Dir}]),
    ?assertMatch({ok, #{target := #{client := own}}},
                 scenario("[connect, go]", "{client, \"own.beam\"}.", Config)).

wrong_client(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "own.erl"),
    [begin
         ok = written("own.erl", Source, Config),
         ?assertEqual({Source, "1:41: " ++ File ++ Message},
                      {Source, message("[connect]", "{client, \"own.erl\"}.", Config)})
     end || {Source, Message} <-
                [{"-module(own).\nx( -> 1.\n", ":2:4: syntax error before: '->'"},
                 {"-module(own).\n-export([x/1]).\n", ":2:2: function x/1 undefined"},
                 {"-module(own).\n-include(\"none.hrl\").\n",
                  ":2:10: can't find include file \"none.hrl\""},
                 {"-module(own).\n-export([init/2, data/2]).\ninit(_, _) -> a.\n"
                  "data(_, _) -> b.\n",
                  " does not export step/3, closed/1, match/2: see docs/load.md"},
                 {"-module(own).\n" ?CALLBACKS,
                  " has no attribute `steps': write one such as -steps([{ask, [text, text], "
                  "answer}])."},
                 {"-module(own).\n-steps([{ask, [word]}]).\n" ?CALLBACKS,
                  ": the attribute `steps' contains {ask,[word]}, which has not the form {Name, "
                  "Kinds}, {Name, Kinds, answer} or {Name, Kinds, held} with the kinds text, line, "
                  "count, time, or has a name that Whittle uses itself"},
                 {"-module(own).\n-steps([{wait, [text]}]).\n" ?CALLBACKS,
                  ": the attribute `steps' contains {wait,[text]}, which has not the form {Name, "
                  "Kinds}, {Name, Kinds, answer} or {Name, Kinds, held} with the kinds text, line, "
                  "count, time, or has a name that Whittle uses itself"},
                 {"-module(lists).\n-steps([{ask, [text]}]).\n" ?CALLBACKS,
                  ": Whittle or OTP already has a module `lists': choose another name"},
                 {"-module(whittle_x).\n-steps([{ask, [text]}]).\n" ?CALLBACKS,
                  ": Whittle or OTP already has a module `whittle_x': choose another name"}]],
    ?assertEqual("1:33: a `client' needs a target that begins with tcp:// or tls://",
                 lists:flatten(whittle_load_scenario:format_error(
                                 element(2, parsed("mqtt://127.0.0.1:1", "[connect]",
                                                   "{client, \"own.erl\"}.", Config))))).

wrong_data(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "rows.erl"),
    [begin
         ok = written("rows.erl", Source, Config),
         ?assertEqual({Source, "1:39: " ++ File ++ Message},
                      {Source, message("[connect]", "{data, \"rows.erl\"}.", Config)})
     end || {Source, Message} <-
                [{"-module(rows).\n", " does not export row/1: see docs/load.md"},
                 {"-module(rows).\n-export([row/1]).\nrow(_) -> {}.\n",
                  " has no attribute `columns': write one such as -columns([user, password])."},
                 {"-module(rows).\n-columns([\"a\"]).\n-export([row/1]).\nrow(_) -> {}.\n",
                  ": the attribute `columns' is a list of atoms"}]].

wrong_file(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = written("noise.beam", "no module", Config),
    [?assertEqual({Name, "1:41: " ++ filename:join(Dir, Name) ++ Message},
                  {Name, message("[connect]", "{client, \"" ++ Name ++ "\"}.", Config)})
     || {Name, Message} <-
            [{"own.txt", " is neither Erlang source (.erl) nor a compiled module (.beam)"},
             {"noise.beam",
              " is not a BEAM file: it begins with <<\"no m\">>; compile the module again"}]],
    ?assertMatch({match, _}, re:run(message("[connect]", "{client, \"none.erl\"}.", Config),
                                    "^1:41: .*none.erl cannot be read")).

%% The attributes of this module claim four gigabytes.
swollen(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = written("own.erl", ["-module(own).\n-steps([{go, []}]).\n", ?CALLBACKS], Config),
    {ok, own, Bytes} = compile:file(filename:join(Dir, "own.erl"), [binary]),
    {ok, own, Chunks} = beam_lib:all_chunks(Bytes),
    Swollen = fun(Id, Data) ->
                      {ok, Beam} = beam_lib:build_module(lists:keystore(Id, 1, Chunks, {Id, Data})),
                      ok = written("own.beam", Beam, Config),
                      message("[connect, go]", "{client, \"own.beam\"}.", Config)
              end,
    Deflated = zlib:compress(binary:copy(<<$a>>, 1_000_000)),
    ?assertMatch("1:41: " ++ _, Swollen("Attr", <<131, 80, 16#FFFFFFFF:32, Deflated/binary>>)),
    ?assertMatch({match, _}, re:run(Swollen("LitT", <<16#FFFFFFFF:32, Deflated/binary>>),
                                    "own.beam is damaged \\(chunk LitT .*compile the module "
                                    "again$")),
    ?assertMatch({match, _}, re:run(Swollen("AtU8", <<16#FFFFFF:32, 1, $a>>),
                                    "own.beam is damaged \\(chunk AtU8 ")).

%% The compiler would wait forever for a pipe.
endless_includes(Config) ->
    ct:timetrap({minutes, 2}),
    Dir = proplists:get_value(dir, Config),
    Pipe = filename:join(Dir, "pipe.hrl"),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    ok = written("between.hrl", "-include(\"pipe.hrl\").\n", Config),
    [begin
         ok = written("own.erl", ["-module(own).\n", Line, ?CALLBACKS], Config),
         ?assertEqual({Line, "1:41: " ++ Pipe ++ ", which " ++ filename:join(Dir, "own.erl")
                       ++ " includes, is a pipe, a socket, a device or a file of the kernel: put a "
                       "regular file there"},
                      {Line, message("[connect]", "{client, \"own.erl\"}.", Config)})
     end || Line <- ["-include(\"pipe.hrl\").\n", "-include(\"between.hrl\").\n"]].

%% Whittle cannot tell which file such a source names.
large_sources(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "own.erl"),
    Blanks = lists:duplicate(10_000, $\n),
    [begin
         ok = written("own.erl", Source, Config),
         ?assertEqual("1:41: " ++ File ++ Text,
                      message("[connect]", "{client, \"own.erl\"}.", Config))
     end || {Source, Text} <-
                [{["-module(own).\n-include(", Blanks, "\"a.hrl\").\n"],
                  " has an attribute of more than 8,192 bytes that may name a file, in line 2: "
                  "remove comments and white space from it"},
                 {["-module(own).\n", lists:duplicate(10_000_000, $\s)],
                  " has more than 10,000,000 bytes: divide it"}]].

two_modules(Config) ->
    Source = ["-module(own).\n-steps([{go, []}]).\n", ?CALLBACKS],
    ok = written("own.erl", Source, Config),
    ok = written("other.erl", [Source, "x() -> 1.\n"], Config),
    %% The same file twice is one module.
    ?assertMatch({ok, #{own := [_]}},
                 scenario("[connect]", "{client, \"own.erl\"}. {modules, [\"own.erl\"]}.", Config)),
    ?assertEqual("1:53: two files contain the module `own'",
                 message("[connect]", "{client, \"own.erl\"}. {modules, [\"other.erl\"]}.",
                         Config)).

options(Config) ->
    ok = written("own.erl", ["-module(own).\n-steps([{go, []}]).\n", ?CALLBACKS], Config),
    ?assertMatch({ok, #{target := #{options := #{host := _, port := 1, a := 1,
                                                 b := [<<"x">>, {-2.5, c}]}}}},
                 scenario("[connect]", "{client, \"own.erl\"}."
                          " {options, [{a, 1}, {b, [\"x\", {-2.5, c}]}]}.", Config)),
    ?assertEqual("1:64: write {Name, Value} here",
                 message("[connect]", "{client, \"own.erl\"}. {options, [a]}.", Config)).

%% Internal

written(Name, Text, Config) ->
    file:write_file(filename:join(proplists:get_value(dir, Config), Name), Text).

scenario(Steps, More, Config) -> parsed("tcp://127.0.0.1:1", Steps, More, Config).

parsed(Target, Steps, More, Config) ->
    whittle_load_scenario:parse(
      iolist_to_binary(["{target, \"", Target, "\"}. ", More,
                        "\n{phases, [{burst, 1}]}.\n{users, [{a, 1, ", Steps, "}]}.\n"]),
      proplists:get_value(dir, Config)).

message(Steps, More, Config) ->
    {error, Error} = scenario(Steps, More, Config),
    lists:flatten(whittle_load_scenario:format_error(Error)).
