%% Tests that native/launcher/flags.c and whittle_vm_args read vm.args and ERL_FLAGS as a real erl
%% does, and that native/launcher/config.c refuses a sys.config.src only if a term is missing in it.
-module(flags_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([one_tokenizer/1, as_erl_does/1, lists/1, variables/1, other_files/1, removed/1,
         refused/1, one_template/1, configurations/1, configurations_without_a_gap/1,
         configurations_without_a_term/1, by_a_program/1]).

all() -> [one_tokenizer, as_erl_does, lists, variables, other_files, removed, refused,
         one_template, configurations, configurations_without_a_gap, configurations_without_a_term,
         by_a_program].

init_per_suite(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Program = filename:join(Dir, "flags"),
    Launcher = filename:join(running:root(), "native/launcher"),
    {0, _} = running:run(os:find_executable("gcc"),
                         ["-std=gnu11", "-Wall", "-Werror", "-fsanitize=address,undefined",
                          "-I", Launcher, "-o", Program,
                          filename:join(Launcher, "buffer.c"),
                          filename:join(Launcher, "config.c"),
                          filename:join(Launcher, "flags.c"),
                          filename:join(Launcher, "input.c"),
                          filename:join(Launcher, "refuse.c"),
                          filename:join(Launcher, "template.c"),
                          filename:join(running:root(), "acceptance/suites/flags_main.c")]),
    [{program, Program} | Config].

end_per_suite(_) -> ok.

%% Two implementations of one tokenizer agree.
one_tokenizer(Config) ->
    holds(300, fun(Text) ->
                       #{"init" := Words} = read(Config, Text),
                       Words =:= whittle_vm_args:words(Text)
               end).

%% erl is the reference: after -extra all words of the file are the program's.
as_erl_does(Config) ->
    Erl = os:find_executable("erl"),
    Say = "io:format(\"~w.\", [init:get_plain_arguments()]), halt().",
    holds(25, fun(Letters) ->
                      Text = <<Letters/binary, " ">>, % erlexec reads past a last backslash
                      File = file(Config, [<<"-extra ">>, Text]),
                      {0, Said} = running:run(Erl, ["-args_file", File, "-noinput", "-boot",
                                                    "no_dot_erlang", "-eval", Say]),
                      {ok, Tokens, _} = erl_scan:string(binary_to_list(Said)),
                      {ok, Words} = erl_parse:parse_term(Tokens),
                      #{"extra" := Ours} = read(Config, [<<"-extra ">>, Text]),
                      %% erlexec adds a `--' at the end.
                      [list_to_binary(Word) || Word <- Words] =:= Ours ++ [<<"--">>]
              end).

lists(Config) ->
    ?assertEqual(#{"emulator" => [<<"-P">>, <<"1024">>, <<"-sbwt">>, <<"none">>],
                   "init" => [<<"-sname">>, <<"relay">>, <<"-kernel">>, <<"a">>, <<"1">>],
                   "extra" => [<<"-x">>, <<"+y">>]},
                 read(Config, "+P 1024 -sname relay # a comment\n+sbwt none\n"
                      "-kernel a 1\n-extra -x +y\n")).

variables(Config) ->
    os:putenv("WHITTLE_TEST_SET", "value"),
    os:putenv("WHITTLE_TEST_EMPTY", ""),
    Text = "-a ${WHITTLE_TEST_SET} ${WHITTLE_TEST_SET:-no} x${WHITTLE_TEST_UNSET}y"
        " ${WHITTLE_TEST_UNSET:-8080} ${WHITTLE_TEST_EMPTY:-some} $HOME ${open\n",
    #{"init" := Words} = read(Config, Text),
    ?assertEqual([<<"-a">>, <<"value">>, <<"value">>, <<"xy">>, <<"8080">>, <<"some">>,
                  <<"$HOME">>, <<"${open">>], Words),
    %% A text of many references that have no end takes no more time than another one.
    Open = binary:copy(<<"${A:-">>, 200_000),
    ?assertMatch(#{"init" := [Open]}, read(Config, Open)),
    %% -env sets a variable also for the flags after it.
    #{"init" := Set} = read(Config, "-env WHITTLE_TEST_NEW 'a b' -b"),
    ?assertEqual([<<"-b">>], Set),
    %% In a variable # has no special meaning.
    os:putenv("WHITTLE_TEST_FLAGS", "-a b#c #d"),
    ?assertMatch(#{"init" := [<<"-a">>, <<"b#c">>, <<"#d">>]},
                 said(Config, ["variable", "WHITTLE_TEST_FLAGS"])).

other_files(Config) ->
    Other = filename:join(proplists:get_value(priv_dir, Config), "other.args"),
    ok = file:write_file(Other, "-b 2\n"),
    ?assertMatch(#{"init" := [<<"-a">>, <<"1">>, <<"-b">>, <<"2">>, <<"-c">>]},
                 read(Config, ["-a 1 -args_file ", Other, " -c"])).

%% A word that begins with - or + is no value of the flag before it.
removed(Config) ->
    [?assertMatch(#{"init" := Left}, said(Config, [file(Config, Text), "name", Most]))
     || {Text, Most, Left} <- [{"-name -heart", "one", [<<"-heart">>]},
                               {"-name -setcookie c", "all", [<<"-setcookie">>, <<"c">>]},
                               {"-a -name +P 1024 -b", "all", [<<"-a">>, <<"-b">>]},
                               {"-a 1 -name x y -b -name", "all",
                                [<<"-a">>, <<"1">>, <<"-b">>]},
                               {"-name x y -b", "one", [<<"y">>, <<"-b">>]}]].

refused(Config) ->
    os:putenv("WHITTLE_TEST_LONG", lists:duplicate(10_000, $a)),
    Self = filename:join(proplists:get_value(priv_dir, Config), "self.args"),
    ok = file:write_file(Self, ["-args_file ", Self]),
    Program = proplists:get_value(program, Config),
    [begin
         {Code, Said} = running:run(Program, [file(Config, Text)], #{env => keep}),
         ?assertMatch({match, _}, re:run(Said, Why))
     end || {Text, Code, Why} <- [{"-env", 2, "has no value after it; add one"},
                                  {"-env NAME", 2, "has no value after it; add one"},
                                  {"-args_file", 2, "has no value after it; add one"},
                                  {"-args_file /no/such", 1, "No such file"},
                                  {"-args_file /dev/zero", 1, "is not a regular file"},
                                  {"-args_file /proc", 1, "Is a directory"},
                                  {["-args_file ", Self], 2, "includes itself"},
                                  {lists:duplicate(2000, "${WHITTLE_TEST_LONG} "), 2,
                                   "have at most 16 MB with them\n$"},
                                  {"-a\n\0-b\n", 1, "contains a zero byte; remove it\n$"}]].

%% The build and the launcher read the same references. No variable of these names is set.
one_template(Config) ->
    Parts = proper_types:list(proper_types:oneof([<<"${">>, <<"}">>, <<":-">>, <<":">>, <<"$">>,
                                                  <<"-">>, <<"wHiTtLe">>, <<"\n">>, <<255>>,
                                                  binary:copy(<<"N">>, 254)])),
    made:holds(500, Parts,
               fun(All) ->
                       Text = iolist_to_binary(All),
                       {0, Completed} = completed(Config, "template", Text),
                       Completed =:= whittle_template:with_defaults(Text, <<>>)
               end).

%% A reference to a variable without a value is removed, wherever a valid configuration has it.
configurations(Config) ->
    Letters = proper_types:list(proper_types:oneof([$a, $1, $", $', $%, $\\, $$, $,, $\s, $\n])),
    made:holds(300, proper_types:tuple([Letters, proper_types:non_neg_integer()]),
               fun({L, Near}) ->
                       Term = [{list_to_atom(L), L, []}, #{L => {[list_to_binary(L) | L], {}}},
                               -1, -1.5, <<1, 2:3>>, <<>>, fun lists:map/2],
                       Text = iolist_to_binary(io_lib:format("% it's~n~p.~n", [Term])),
                       At = Near * 7919 rem (byte_size(Text) + 1),
                       <<Before:At/binary, After/binary>> = Text,
                       {0, Text} =:= completed(Config, [Before, "${WHITTLE_TEST_UNSET}", After])
               end).

%% The references are in strings or characters. The launcher cannot tell where a triple-quoted
%% string or a sigil ends. It refuses nothing behind one, and leaves the error to the VM.
configurations_without_a_gap(Config) ->
    [?assertEqual({Text, {0, iolist_to_binary(string:replace(Text, "${WHITTLE_TEST_UNSET}", ""))}},
                  {Text, completed(Config, Text)})
     || Text <- ["[{a, \"\"\"\n  He said \"b, ${WHITTLE_TEST_UNSET}, c\".\n  \"\"\"}].",
                 "[{a, \"\"\"\n  5\" disk\n  \"\"\"}, {b, \"c, ${WHITTLE_TEST_UNSET}, d\"}].",
                 "[{a, ~S\"\\\"}, {b, \"c, ${WHITTLE_TEST_UNSET}, d\"}].",
                 "[{a, [$,${WHITTLE_TEST_UNSET}]}].",
                 "[{a, $\\\\% 5\" disk\n}, {b, \"x, ${WHITTLE_TEST_UNSET}, y\"}].",
                 "[{a, \"\\^\\\"}, {b, \"x, ${WHITTLE_TEST_UNSET}, y\"}].",
                 "[{a, '\\^\\'}, {b, 'x, ${WHITTLE_TEST_UNSET}, y'}].",
                 "[{a, $\\^[${WHITTLE_TEST_UNSET}}].",
                 "[{a, $\\^\\}, {b, \"x, ${WHITTLE_TEST_UNSET}, y\"}]."]],
    %% The text between these braces becomes nothing, as with relx, but it is no name to report.
    ?assertEqual({0, <<"[{a, }].">>}, completed(Config, "[{a, ${, $}}].")).

configurations_without_a_term(Config) ->
    [begin
         {Code, Said} = completed(Config, Text),
         ?assertEqual({Text, 2}, {Text, Code}),
         ?assertMatch({match, _},
                      re:run(Said, "sys.config needs a value for \\${WHITTLE_TEST_UNSET}: this "
                             "environment variable is empty or not set; set it, or write "
                             "\\${WHITTLE_TEST_UNSET:-DEFAULT} in sys.config.src\n$"))
     end || Text <- ["[{a, [{b, ${WHITTLE_TEST_UNSET}}]}].",
                     "[{a, [{b, ${WHITTLE_TEST_UNSET:-} }]}].",
                     "[{a, ${WHITTLE_TEST_UNSET}, c}].",
                     "[${WHITTLE_TEST_UNSET}, {a, 1}].",
                     "[{a, 1}, % \"a comment\n ${WHITTLE_TEST_UNSET}].",
                     "[{a, #{b =>\n${WHITTLE_TEST_UNSET}}}].",
                     "[{a, [1 | ${WHITTLE_TEST_UNSET}]}].",
                     "[{a, -${WHITTLE_TEST_UNSET}}].",
                     "[{a, [$\\\\, ${WHITTLE_TEST_UNSET}]}].",
                     "[{a, (${WHITTLE_TEST_UNSET})}].",
                     "[{a, <<1, ${WHITTLE_TEST_UNSET}>>}].",
                     "[{a, <<${WHITTLE_TEST_UNSET}:8>>}].",
                     "[{a, #{${WHITTLE_TEST_UNSET} => 1}}].",
                     "[{a, $\", ${WHITTLE_TEST_UNSET}}].",
                     "[{a, $\\\", ${WHITTLE_TEST_UNSET}}].",
                     "[{a, \"\\\"\", '\\'', ${WHITTLE_TEST_UNSET}}].",
                     "[{a, ${WHITTLE_TEST_UNSET} % a comment\n}].",
                     "${WHITTLE_TEST_UNSET}."]].

by_a_program(Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "probe"),
    Probe = running:build(running:fixture("probe"), Out),
    Flags = [{"ERL_FLAGS", "-env WHITTLE_TEST_SET 'a b'"}],
    ?assertEqual({0, <<"\"a b\"\n">>},
                 running:run(Probe, ["env", "WHITTLE_TEST_SET"], #{env => Flags})),
    ?assertEqual({0, <<"[\"args\",\"-x\",\"y\"]\n">>},
                 running:run(Probe, ["y"], #{env => [{"ERL_ZFLAGS", "-extra args -x"}]})),
    %% The VM writes a dump if vm.args asks for one.
    Dump = filename:join(proplists:get_value(priv_dir, Config), "erl_crash.dump"),
    {1, _} = running:run(Probe, ["abort"],
                         #{env => [{"ERL_FLAGS", "-env ERL_CRASH_DUMP " ++ Dump}]}),
    ?assert(filelib:is_regular(Dump)).

%% Internal functions

%% Generates texts of separators and quotes, without flags, so that all words come into one list.
holds(Samples, Property) ->
    Letters = proper_types:list(proper_types:oneof([$a, $b, $\s, $\t, $\n, $", $', $\\, $#])),
    made:holds(Samples, Letters, fun(L) -> Property(list_to_binary(L)) end).

completed(Config, Text) -> completed(Config, "configuration", Text).

completed(Config, Way, Text) ->
    running:run(proplists:get_value(program, Config), [Way, file(Config, Text)],
                #{env => keep}).

read(Config, Text) -> said(Config, [file(Config, Text)]).

file(Config, Text) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "vm.args"),
    ok = file:write_file(File, Text),
    File.

said(Config, Arguments) ->
    {0, Said} = running:run(proplists:get_value(program, Config), Arguments, #{env => keep}),
    parted(lists:droplast(binary:split(Said, <<0>>, [global])), "", #{}).

parted([Title | Words], _, Lists)
  when Title =:= <<"emulator">>; Title =:= <<"init">>; Title =:= <<"extra">> ->
    Next = binary_to_list(Title),
    parted(Words, Next, Lists#{Next => []});
parted([Word | Words], Now, Lists) ->
    parted(Words, Now, maps:update_with(Now, fun(Before) -> Before ++ [Word] end, Lists));
parted([], _, Lists) ->
    Lists.
