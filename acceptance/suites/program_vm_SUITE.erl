%% Tests outputs of --vm program: they behave as with a whole VM, are smaller, and explain a call to
%% a part of ERTS that they lack.
-module(program_vm_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([smaller/1, contents/1, lines_over_tcp/1, same_faults/1, removed_functions/1,
         every_removed_bif/1, long_work/1, why_cut/1, same_bytes/1, same_output/1, one_line/1,
         names_of_nodes/1, features/1, prices/1, natives/1,
         natives_in_cxx/1, inet_loader/1, refused/1]).

%% Bytes of hello's VM, 1 % above the figure of docs/runtime-size.md.
-define(HELLO_VM, 1_890_000).

all() -> [smaller, contents, lines_over_tcp, same_faults, removed_functions, every_removed_bif,
          long_work, why_cut, same_bytes, same_output, one_line, names_of_nodes, features,
          prices, natives, natives_in_cxx, inet_loader, refused].

%% The first build of all makes the objects, which takes minutes on a slow machine.
suite() -> [{timetrap, {hours, 1}}].

init_per_suite(Config) ->
    [{hello, running:build(running:example("hello"), out("hello", Config), program())} | Config].

end_per_suite(_) -> ok.

smaller(Config) ->
    Hello = proplists:get_value(hello, Config),
    ?assertEqual({0, <<"Hello from one file.\n">>}, running:alone(Hello, [], #{})),
    Whole = running:build(running:example("hello"), out("whole/hello", Config), functions()),
    [#{<<"size">> := Small}, #{<<"size">> := Large}] =
        [maps:get(<<"vm">>, info(File)) || File <- [Hello, Whole]],
    ?assert(Small =< ?HELLO_VM),
    ?assert(Large > Small),
    ?assertNot(is_map_key(<<"without">>, info(Whole))).

contents(Config) ->
    Hello = proplists:get_value(hello, Config),
    #{<<"without">> := #{<<"bifs">> := Bifs, <<"libraries">> := Libraries,
                         <<"programs">> := Programs, <<"modules">> := Modules}} = info(Hello),
    ?assertEqual([<<"cpu_sup">>, <<"inet_gethost">>, <<"memsup">>], Programs),
    ?assert(lists:member(<<"math:sin/1">>, Bifs)),
    ?assertNot(lists:member(<<"erlang:spawn/3">>, Bifs)),
    ?assertEqual([], [<<"prim_socket">>, <<"terminfo">>, <<"zstd">>] -- Libraries),
    ?assert(lists:member(<<"prim_socket">>, Modules)),
    {0, Text} = running:run(Hello, ["--whittle-info"]),
    ?assertMatch({match, _}, re:run(Text, "(?m)^without the BIF math:sin/1$")),
    ?assertMatch({match, _}, re:run(Text, "(?m)^without the library prim_socket$")).

%% service_SUITE connects two such nodes.
lines_over_tcp(Config) ->
    Relay = running:start(running:build(running:example("relay"), out("relay", Config),
                                        program() ++ ["--remote", "none", "--feature", "+terms"]),
                          [], #{env => [{"ERL_FLAGS", "-relay port 0"}]}),
    {match, [Port]} = re:run(running:line(Relay), "[0-9]+$", [{capture, first, list}]),
    {ok, Socket} = gen_tcp:connect("127.0.0.1", list_to_integer(Port),
                                   [binary, {packet, line}, {active, false}]),
    [begin
         Line = iolist_to_binary([integer_to_binary(N), $\n]),
         ok = gen_tcp:send(Socket, Line),
         ?assertEqual({ok, Line}, gen_tcp:recv(Socket, 0))
     end || N <- lists:seq(1, 100)],
    ok = gen_tcp:close(Socket),
    ok = running:signal(Relay, "TERM"),
    {0, _} = running:ended(Relay).

same_faults(Config) ->
    [{Code, Whole}, {CodeOfCut, Cut}] =
        [begin
             {Ended, Output} = all_reports(running:build(running:fixture("faults"),
                                                         out(Name, Config), Options)),
             {Ended, binary:split(running:same(Output), <<"\n">>, [global])}
         end || {Name, Options} <- [{"faults/whole", functions() ++ ["--atoms", "none"]},
                                    {"faults/cut", program() ++ ["--atoms", "none"]}]],
    ?assertEqual({7, 7}, {Code, CodeOfCut}),
    ?assert(length(Whole) > 400),
    ?assertEqual({[], []}, {Whole -- Cut, Cut -- Whole}).

%% Some starts end without the report that ERTS itself writes, in any VM. Then it starts again, ten
%% times at most.
all_reports(Program) -> all_reports(Program, 10).

all_reports(Program, Left) ->
    {Ended, Output} = running:run(Program, []),
    case binary:match(Output, <<"Error in process">>) of
        nomatch when Left > 0 -> all_reports(Program, Left - 1);
        _ -> {Ended, Output}
    end.

%% A removed function of the program is explained as with a whole VM.
removed_functions(Config) ->
    [Whole, Cut] = [begin
                        {0, Printed} =
                            running:run(running:build(running:fixture("removed"),
                                                      out(filename:join(Name, "removed"), Config),
                                                      Options ++ ["--atoms", "none"]), []),
                        {match, Lines} = re:run(running:same(Printed), "^{\\w+,.*}\\.$",
                                                [multiline, global, {capture, first, binary}]),
                        Lines
                    end || {Name, Options} <- [{"with", functions()}, {"without", program()}]],
    ?assert(length(Whole) > 20),
    ?assertEqual(Whole, Cut).

%% Each raises `undef' with an explanation, and the VM goes on.
every_removed_bif(Config) ->
    Source = escript("lost",
                     ["main(Names) -> io:format(\"~p~n\", [[Name || Name <- Names, ",
                      "not explained(string:lexemes(Name, \":/\"))]]).\n",
                      "explained([M, F, A]) ->\n",
                      "    Arguments = lists:duplicate(list_to_integer(A), x),\n",
                      "    try apply(list_to_atom(M), list_to_atom(F), Arguments) of _ -> false\n",
                      "    catch error:undef:Stack ->\n",
                      "        [{_, _, Arguments, [{error_info, Info}]} | _] = Stack,\n",
                      "        #{module := Module, cause := Text} = Info,\n",
                      "        Module =:= whittle_start_removed\n",
                      "            andalso string:find(Text, \"removed by Whittle\") =/= nomatch\n",
                      "    end.\n"], Config),
    Lost = running:build(Source, out("lost", Config), program() ++ ["--atoms", "none"]),
    #{<<"without">> := #{<<"bifs">> := Bifs}} = info(Lost),
    ?assert(length(Bifs) > 150),
    %% whittle_start_without takes the place of these two, for OTP's own calls.
    Names = [binary_to_list(Bif) || Bif <- Bifs -- [<<"re:compile/2">>, <<"re:run/2">>]],
    {0, Said} = running:run(Lost, Names),
    ?assertMatch({match, _}, re:run(Said, "(?m)^\\[\\]$")),
    ?assertMatch({match, _}, re:run(Said, "(?m)^undefined function erlang:adler32/1: removed by "
                                    "Whittle; run `whittle why lost erlang:adler32/1`$")).

%% A BIF that takes long continues in another BIF, which no code of the program names.
long_work(Config) ->
    Calls = ["erlang:phash2(lists:seq(1, 300000))",
             "length(unicode:characters_to_list(binary:copy(<<195, 164>>, 200000)))",
             "length(ets:select(t(), [{{'$1', '_'}, [{'>', '$1', 10}], ['$1']}]))",
             "length(binary:matches(binary:copy(<<\"abcdef\">>, 100000), <<\"f\">>))",
             "byte_size(term_to_binary(lists:seq(1, 300000), [compressed]))",
             "length(lists:seq(1, 200000) -- lists:seq(1, 200000, 2))",
             "iolist_size(lists:duplicate(500000, [$a, <<\"b\">>]))"],
    Source = escript("long",
                     ["main(_) -> [io:format(\"~p~n\", [Call()]) || Call <- [",
                      lists:join(", ", [["fun() -> ", Call, " end"] || Call <- Calls]), "]].\n",
                      "t() -> T = ets:new(t, []), ",
                      "ets:insert(T, [{N, N} || N <- lists:seq(1, 100000)]), T.\n"], Config),
    [Whole, Cut] = [running:run(running:build(Source, out(Name, Config), Options), [])
                    || {Name, Options} <- [{"long/whole", []}, {"long/cut", program()}]],
    ?assertMatch({0, _}, Whole),
    ?assertEqual(Whole, Cut).

why_cut(Config) ->
    Hello = proplists:get_value(hello, Config),
    ?assertEqual({0, <<"math:sin/1 was removed: no kept function calls it\n\n">>},
                 running:whittle(["why", Hello, "math:sin/1"])),
    ?assertEqual({0, <<"erlang:adler32/1 was removed: no kept function calls it\n\n">>},
                 running:whittle(["why", Hello, "erlang:adler32/1"])),
    {0, Off} = running:whittle(["why", Hello, "re:compile/2"]),
    ?assertMatch({match, _}, re:run(Off, "^re:compile/2 was removed\n")),
    ?assertMatch({match, _}, re:run(Off, "(?m)^  the feature regexps is off: called by "
                                    "prim_tty:init/1$")).

same_bytes(Config) ->
    Again = running:build(running:example("hello"), out("again/hello", Config), program()),
    {ok, Bytes} = file:read_file(proplists:get_value(hello, Config)),
    ?assert({ok, Bytes} =:= file:read_file(Again)).

%% Without the terminal, standard output gets the same bytes, whatever the locale and the encoding.
same_output(Config) ->
    Source = escript("writes",
                     ["main(_) ->\n",
                      "    [begin ok = io:setopts([{encoding, E}]), write() end ",
                      "     || E <- [latin1, unicode]],\n",
                      "    io:format(\"~p~n\", [[io:columns(), io:rows(), ",
                      "                          lists:sort(io:getopts())]]).\n",
                      "write() ->\n",
                      "    io:put_chars([\"a\\a\\e[1mb\", 228, 255, 256, 300, 511, 512, 8364]),\n",
                      "    io:put_chars(<<\"binary\\n\">>),\n",
                      "    io:request(standard_io, {put_chars, latin1, [228, 10]}).\n"], Config),
    Files = [running:build(Source, out(Name, Config), Options ++ ["--atoms", "none"])
             || {Name, Options} <- [{"writes/whole", functions()}, {"writes/cut", program()}]],
    [begin
         [{0, Whole}, Cut] = [running:run(File, [], #{env => [{"LC_ALL", Locale}]})
                              || File <- Files],
         ?assertMatch({_, true}, {Locale, byte_size(Whole) > 80}),
         ?assertEqual({Locale, {0, Whole}}, {Locale, Cut})
     end || Locale <- ["C", "C.UTF-8"]].

%% Without regular expressions, reports in one line are the same.
one_line(_) ->
    [?assertEqual({Text, re:replace(Text, ",?\r?\n *", ", ", [{return, list}, global, unicode])},
                  {Text, whittle_start_without:one_line(Text, ",?\r?\n *", ", ", [])})
     || Text <- ["", "a", "a\nb", "a,\r\n  b\n", "\n\n a", ",,\n,", "a\r\r\nb", "\r",
                 ["a,", <<"\n \n"/utf8>>, [8364, "\n"]]]].

%% Without them, the same names of nodes are valid. The patterns are those of OTP.
names_of_nodes(_) ->
    [?assertEqual({Text, Pattern, re:run(Text, Pattern, [unicode, {capture, none}]) =:= match},
                  {Text, Pattern, whittle_start_without:matched(Text, Pattern) =/= nomatch})
     || Pattern <- ["^[!-\x{ff}]*$", "^[0-9A-Za-z_\\-]+$"],
        Text <- ["", "a", "a-b_9", "a b", "a.b", "\n", "a\n", "a\n\n", [16#ff], [16#100], "[", "@",
                 "127.0.0.1", "z", "{", "/", "^", "`"]].

%% A program that uses a part of ERTS has it, also through a function of OTP.
features(Config) ->
    [begin
         Source = escript("uses_" ++ Feature, ["main(_) -> io:format(\"~p~n\", [", Call, "]).\n"],
                          Config),
         Out = out("uses/" ++ Feature, Config),
         {0, Said} = running:whittle(["build", Source, "-o", Out] ++ program()),
         ?assertMatch({Feature, {match, _}},
                      {Feature, re:run(Said, ["note: feature ", Feature, " is on because of"])}),
         ?assertEqual({Feature, {0, <<Result/binary, "\n">>}}, {Feature, running:run(Out, [])})
     end || {Feature, Call, Result} <-
            [{"regexps", "re:run(\"abc\", \"b+\")", <<"{match,[{1,1}]}">>},
             {"terminal", "binary:match(iolist_to_binary(io_ansi:format([bold, \"a\"], [], "
                          "[{enabled, true}])), <<\"\\e[1m\">>)", <<"{0,4}">>},
             {"sendfile", "begin {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]), "
                          "{ok, P} = inet:port(L), "
                          "{ok, S} = gen_tcp:connect({127, 0, 0, 1}, P, [{active, false}]), "
                          "{ok, A} = gen_tcp:accept(L), "
                          "{ok, F} = file:open(\"/proc/self/exe\", [read, raw, binary]), "
                          "{ok, 4} = file:sendfile(F, A, 0, 4, []), gen_tcp:recv(S, 4) end",
              <<"{ok,[127,69,76,70]}">>},
             {"tracing", "begin erlang:trace(self(), true, [call]), erlang:trace_pattern({lists, "
                         "reverse, 1}, true, []) end", <<"1">>}]],
    %% A flag of the build asks for it, and a whole VM needs none.
    {0, _} = running:whittle(["build", running:example("hello"), "-o", out("traced", Config),
                              "--feature", "+tracing" | program()]),
    #{<<"without">> := #{<<"bifs">> := Bifs}} = info(out("traced", Config)),
    ?assertNot(lists:member(<<"erlang:trace_info/2">>, Bifs)),
    ?assertMatch({1, <<"whittle: the feature regexps cannot be off: uses_regexps:main/1 uses it",
                       _/binary>>},
                 running:whittle(["build", out("uses_regexps.escript", Config), "-o",
                                  out("off", Config), "--feature", "-regexps" | program()])).

%% A price is what the same feature adds to a build. A packed application that nothing calls adds
%% no NIF.
prices(Config) ->
    Source = escript("prices", ["main(_) -> io:format(\"~p~n\", [re:run(\"abc\", \"b+\")]).\n"],
                     Config),
    Added = ["--app", "crypto"],
    #{<<"vm">> := Vm, <<"code">> := Code, <<"features">> := Features} =
        printed(["features", "--vm", Source, "--json", "--feature", "+tracing,-eval" | Added]),
    ?assertEqual([Name || #{<<"name">> := Name} <- printed(["features", "--json"])],
                 [Name || #{<<"name">> := Name} <- Features]),
    Of = fun(Name) -> hd([Feature || #{<<"name">> := N} = Feature <- Features, N =:= Name]) end,
    #{<<"is_on">> := true, <<"because">> := <<"prices:main/1">>} = Needed = Of(<<"regexps">>),
    ?assertNot(is_map_key(<<"vm">>, Needed)),
    #{<<"is_on">> := true, <<"because">> := <<"--feature">>} = Tracing = Of(<<"tracing">>),
    #{<<"is_on">> := false} = Inet = Of(<<"inet">>),
    %% It needs `eval', which is off here.
    #{<<"is_on">> := false} = Of(<<"shell">>),
    [{BaseCode, BaseVm}, {LessCode, LessVm}, {MoreCode, MoreVm}] =
        [begin
             File = out("prices_" ++ integer_to_list(N), Config),
             #{<<"costs">> := #{<<"hot">> := #{<<"bytes">> := Hot}}} =
                 printed(["build", Source, "-o", File, "--json", "--feature", Options | program()]
                         ++ Added),
             #{<<"vm">> := #{<<"size">> := Size}} = info(File),
             {Hot, Size}
         end || {N, Options} <- lists:enumerate(["+tracing,-eval", "-tracing,-eval",
                                                 "+tracing,+inet,-eval"])],
    ?assertEqual({Code, Vm}, {BaseCode, BaseVm}),
    ?assertMatch(#{<<"code">> := A, <<"vm">> := B}
                   when {A, B} =:= {BaseCode - LessCode, BaseVm - LessVm}, Tracing),
    ?assertMatch(#{<<"code">> := A, <<"vm">> := B}
                   when {A, B} =:= {MoreCode - BaseCode, MoreVm - BaseVm}, Inet).

%% The NIFs of OTP's applications, with the whole VM of natives_SUITE's fixtures/keeper.
natives(Config) ->
    Source = escript("hash", ["main(_) -> io:format(\"~p~n\", [{crypto:hash(sha256, \"abc\"), "
                              "public_key:pem_decode(<<>>)}]).\n"], Config),
    Files = [running:build(Source, out(Name, Config), Options)
             || {Name, Options} <- [{"hash/whole", functions()}, {"hash/cut", program()}]],
    [Whole, Cut] = [running:run(File, []) || File <- Files],
    ?assertMatch({0, <<"{<<186,120,22,191", _/binary>>}, Whole),
    ?assertEqual(Whole, Cut),
    [#{<<"size">> := Large}, #{<<"size">> := Small}] =
        [maps:get(<<"vm">>, info(File)) || File <- Files],
    ?assert(Small < Large - 700_000).

%% NIFs and a driver of an application in C and C++. natives_SUITE expects the same lines.
natives_in_cxx(Config) ->
    Grains = running:build(running:fixture("grains"), out("grains", Config),
                           program() ++ ["--code", "none"]),
    ?assertEqual({0, <<"{{3,1,0},{3,1,1},8.0,300,<<\"denrut\">>,{error,linked_in_driver}}\n"
                       "{\"it's $HOME, `id`\",\"TLSv1.2\",true}\n">>},
                 running:run(Grains, [])).

%% The flag asks for a part that the VM lacks: the start ends. Either of two processes tells it, or
%% both at once.
inet_loader(Config) ->
    {1, Said} = running:run(proplists:get_value(hello, Config), [],
                            #{env => [{"ERL_FLAGS", "-loader inet -hosts 127.0.0.1 -id x"}]}),
    ?assertMatch({match, _}, re:run(Said, "undef.*erl_prim_loader,start_inet", [dotall])).

refused(Config) ->
    Only = <<"whittle: Whittle can make a VM for one program only with OTP 29 and flavor size; "
             "take --otp 29, or build a whole VM (--vm size)\n">>,
    Crash = <<"whittle: --vm program needs a plan that removes code: add --shake functions "
              "--missing crash\n">>,
    [?assertEqual({Options, {2, Line}},
                  {Options, running:whittle(["build", running:example("hello"), "-o",
                                             out("refused", Config), "--vm", "program" | Options])})
     || {Options, Line} <- [{[], Crash}, {["--shake", "functions"], Crash},
                            {["--shake", "functions", "--missing", "load"], Crash},
                            {functions() ++ ["--otp", "27"], Only}]],
    ?assertNot(filelib:is_file(out("refused", Config))).

%% Internal

functions() -> ["--shake", "functions", "--missing", "crash"].

program() -> functions() ++ ["--vm", "program"].

info(File) ->
    {0, Json} = running:run(File, ["--whittle-info=json"]),
    {ok, Info} = whittle_json:decode(Json),
    Info.

printed(Words) ->
    {0, Printed} = running:whittle(Words),
    %% Notes and progress come before the line of JSON.
    {ok, Json} = whittle_json:decode(lists:last(binary:split(string:trim(Printed), <<"\n">>,
                                                             [global]))),
    Json.

escript(Name, Text, Config) ->
    File = out(Name ++ ".escript", Config),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, ["#!/usr/bin/env escript\n%%\n-mode(compile).\n", Text]),
    File.

out(Name, Config) ->
    File = filename:join(running:directory("program_vm", Config), Name),
    ok = filelib:ensure_dir(File),
    File.
