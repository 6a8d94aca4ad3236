%% Tests inputs from other tools: a release of relx with its configuration, and an escript. The
%% outputs run in an empty root directory. Releases of Debian's Elixir need another OTP:
%% matrix_SUITE.
-module(inputs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([sys_config/1, included_config/1, current_directory/1, sys_config_of_the_machine/1,
         sys_config_src/1, sys_config_src_without_its_variables/1, vm_args/1,
         vm_args_of_the_machine/1, name_at_start/1, name_in_vm_args/1, no_cookie/1,
         variables_of_the_script/1]).
-export([escript_words/1, escript_exit_code/1, escript_error/1, escript_in_directory/1]).
-export([application_with_libraries/1]).

all() ->
    [sys_config, included_config, current_directory, sys_config_of_the_machine, sys_config_src,
     sys_config_src_without_its_variables, vm_args, vm_args_of_the_machine,
     name_at_start, name_in_vm_args, no_cookie, variables_of_the_script,
     escript_words, escript_exit_code, escript_error, escript_in_directory,
     application_with_libraries].

init_per_suite(Config) ->
    Dir = running:directory("inputs", Config),
    Probe = running:copy("probe", Dir),
    Teller = running:copy("teller", Dir),
    [rebar3(["release", "-n", Name], Probe) || Name <- ["settled", "filled"]],
    rebar3(["escriptize"], Teller),
    [{epmd, running:free_port()},
     {release, filename:join(Probe, "_build/default/rel/settled")},
     {settled, running:build(filename:join(Probe, "_build/default/rel/settled"),
                             filename:join(Dir, "settled"))},
     {filled, running:build(filename:join(Probe, "_build/default/rel/filled"),
                            filename:join(Dir, "filled"))},
     {escript, running:build(filename:join(Teller, "_build/default/bin/teller"),
                             filename:join(Dir, "escript"))} | Config].

rebar3(Words, Dir) ->
    {0, _} = running:run(os:find_executable("rebar3"), Words, #{cd => Dir}).

end_per_suite(Config) -> running:end_epmd(proplists:get_value(epmd, Config)).

%% A release: the settings of its application

sys_config(Config) ->
    ?assertEqual({0, <<"\"from sys.config\"\n">>}, alone(settled, ["color"], [], Config)).

%% A file that sys.config names lies beside it, and not in the current directory.
included_config(Config) ->
    Dir = in("included", Config),
    {0, _} = running:run("/bin/cp", ["-RL", proplists:get_value(release, Config), Dir]),
    [Sys] = filelib:wildcard(filename:join(Dir, "releases/*/sys.config")),
    Place = filename:dirname(Sys),
    Written = fun(File, Text) ->
                      ok = filelib:ensure_dir(File),
                      ok = file:write_file(File, Text)
              end,
    Written(Sys, "[\"more\", \"deep/more.config\"].\n"),
    Written(filename:join(Place, "more.config"), "[{probe, [{color, \"included\"}]}].\n"),
    Written(filename:join(Place, "deep/more.config"), "[].\n"),
    Written(in("decoy/more.config", Config), "[{probe, [{color, \"decoy\"}]}].\n"),
    Program = running:build(Dir, in("with_included", Config)),
    [?assertEqual({0, <<"\"included\"\n">>},
                  running:run(Program, ["color"], #{cd => Current, env => env(Config)}))
     || Current <- ["/", in("decoy", Config)]].

%% Modules come from the program only.
current_directory(Config) ->
    Source = in("planted/planted.erl", Config),
    ok = filelib:ensure_dir(Source),
    ok = file:write_file(Source, "-module(planted).\n"),
    {ok, planted} = compile:file(Source, [{outdir, filename:dirname(Source)}]),
    ?assertEqual({0, <<"{error,nofile}\n">>},
                 running:run(proplists:get_value(settled, Config), ["load", "planted"],
                             #{cd => filename:dirname(Source), env => env(Config)})).

in(Name, Config) -> filename:join(proplists:get_value(priv_dir, Config), Name).

sys_config_of_the_machine(Config) ->
    File = in("machine.config", Config),
    ok = file:write_file(File, "[{probe, [{color, \"the machine's\"}]}].\n"),
    [?assertEqual({0, <<"\"the machine's\"\n">>},
                  here(Release, ["color"], [{"RELX_CONFIG_PATH", File}], Config))
     || Release <- [settled, filled]].

%% The program fills it in from a descriptor, on a machine where it can write no file.
sys_config_src(Config) ->
    Env = [{"COLOR", "bl\x{e5}"}, {"SHADE", "dark"}],
    {0, Said} = alone(filled, ["color"], Env, Config),
    ?assertEqual("[\"bl\x{e5}\",\"bl\x{e5}-dark\"]\n", unicode:characters_to_list(Said)),
    {0, Flag} = alone(filled, ["flag", "configfd"], Env, Config),
    ?assertMatch({match, _}, re:run(Flag, "^{ok,\\[\\[\"[0-9]+\"\\]\\]}\n$")).

sys_config_src_without_its_variables(Config) ->
    ?assertEqual({0, <<"[[],\"-\"]\n">>},
                 alone(filled, ["color"], [{"COLOR", false}, {"SHADE", false}], Config)).

%% The VM rounds the limit up to a power of two. The limit is not Whittle's default.
vm_args(Config) ->
    ?assertEqual({0, <<"131072\n">>}, alone(settled, ["limit"], [], Config)),
    ?assertEqual({0, <<"{ok,[[\"two words\"]]}\n">>},
                 alone(settled, ["flag", "words"], [], Config)),
    ?assertEqual({0, <<"\"round\"\n">>}, alone(settled, ["env", "SHAPE"], [], Config)).

vm_args_of_the_machine(Config) ->
    File = in("machine.args", Config),
    ok = file:write_file(File, "+P 200000\n-words another\n"),
    Env = [{"VMARGS_PATH", File}],
    ?assertEqual({0, <<"262144\n">>}, here(settled, ["limit"], Env, Config)),
    ?assertEqual({0, <<"{ok,[[\"another\"]]}\n">>},
                 here(settled, ["flag", "words"], Env, Config)).

%% The last given name counts, of either kind.
name_at_start(Config) ->
    Env = [{"ERL_FLAGS", "-name other@127.0.0.1"}],
    ?assertEqual({0, <<"{ok,[[\"other@127.0.0.1\"]]}\n">>},
                 here(settled, ["flag", "name"], Env, Config)),
    ?assertEqual({0, <<"error\n">>}, here(settled, ["flag", "sname"], Env, Config)).

%% A second start of the same file finds the node by the name in both files.
name_in_vm_args(Config) ->
    Port = running:start(proplists:get_value(settled, Config), ["wait"],
                         #{env => env(Config)}),
    <<"ready ", Pid/binary>> = running:line(Port),
    ?assertEqual({0, <<Pid/binary, "\n">>}, here(settled, ["--whittle-pid"], [], Config)),
    {0, Node} = here(settled, ["--whittle-eval", "node()"], [], Config),
    ?assertMatch({match, _}, re:run(Node, "^'?settled@")),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port).

no_cookie(Config) ->
    {ok, Args} = whittle_pack:read_file(proplists:get_value(settled, Config),
                                        <<"etc/vm.args">>),
    ?assertMatch({_, _}, binary:match(Args, <<"-sname settled">>)),
    ?assertEqual(nomatch, binary:match(Args, <<"baked_in">>)),
    {0, Cookie} = here(settled, ["cookie"], [{"RELEASE_COOKIE", false}], Config),
    ?assertEqual(nomatch, binary:match(Cookie, <<"baked_in">>)).

%% relx's start script sets these variables for its application.
variables_of_the_script(Config) ->
    [?assertEqual({Name, {0, <<"\"", Value/binary, "\"\n">>}},
                  {Name, alone(settled, ["env", Name], [], Config)})
     || {Name, Value} <- [{"RELEASE_ROOT_DIR", <<"/.whittle">>}, {"REL_NAME", <<"settled">>},
                          {"REL_VSN", <<"2.0">>}]].

%% An escript

escript_words(Config) ->
    ?assertEqual({0, <<"{[\"ONE\",\"-NAME\",[]],\"/program\",{ok,[[\"mood\",\"calm\"]]}}\n">>},
                 alone(escript, ["one", "-name", ""], [], Config)).

escript_exit_code(Config) ->
    ?assertMatch({4, <<>>}, alone(escript, ["end", "4"], [], Config)).

escript_error(Config) ->
    {127, Said} = alone(escript, ["fall"], [], Config),
    ?assertMatch({match, _}, re:run(Said, "exception error: on_purpose\n.*teller:main/1")).

%% The start script names the program, although it starts another file. The name is that of the
%% call, also of a link.
escript_in_directory(Config) ->
    Private = proplists:get_value(priv_dir, Config),
    Teller = filename:join(Private, "inputs/teller/_build/default/bin/teller"),
    Out = filename:join(Private, "inputs/directory"),
    Script = filename:join(running:build(Teller, Out, ["--format", "dir"]), "teller"),
    Link = filename:join(Private, "inputs/linked"),
    ok = file:make_symlink(Script, Link),
    [?assertEqual({0, iolist_to_binary(io_lib:format("{[],~p,{ok,[[\"mood\",\"calm\"]]}}\n",
                                                     [Path]))},
                  running:run(Path, [], #{env => env(Config)})) || Path <- [Script, Link]],
    {2, Said} = running:run(Link, ["--whittle-nonsense"], #{env => env(Config)}),
    ?assertMatch({match, _}, re:run(Said, "^linked: ")).

%% An application with libraries in another directory

application_with_libraries(Config) ->
    Sensors = filename:join(proplists:get_value(priv_dir, Config), "inputs/sensors"),
    os:putenv("ERL_LIBS", filename:join(running:root(), "_build/default/lib")),
    try
        running:build(running:example("sensors"), Sensors)
    after
        os:unsetenv("ERL_LIBS")
    end,
    Http = running:free_port(),
    Flags = "-kernel logger_level info -sensors port " ++ integer_to_list(Http),
    Port = running:start(Sensors, [], #{env => [{"ERL_FLAGS", Flags}]}),
    _ = running:until(Port, <<"application: sensors\n">>),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Http, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, "GET /metrics HTTP/1.0\r\n\r\n"),
    {ok, Answer} = gen_tcp:recv(Socket, 0),
    ?assertMatch(<<"HTTP/1.", _, " 200 ", _/binary>>, Answer),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port).

%% Shared functions

alone(Name, Words, Env, Config) ->
    running:alone(proplists:get_value(Name, Config), Words, #{env => env(Config) ++ Env}).

here(Name, Words, Env, Config) ->
    running:run(proplists:get_value(Name, Config), Words, #{env => env(Config) ++ Env}).

env(Config) ->
    [{"RELEASE_COOKIE", "crumb"},
     {"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))}].
