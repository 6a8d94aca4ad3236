%% Tests the other releases of OTP and the other flavor, from the command to the output, and the
%% tools that need one of them: Debian's Elixir and rebar3. `make matrix` runs the group. It
%% builds VMs for an hour if the cache is empty, so all/0 omits it from `make test`.
-module(matrix_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, groups/0]).
-export([otp_25/1, otp_27/1, speed/1, release_25/1, release_27/1, mix_release/1, rebar3/1]).

suite() -> [{timetrap, {hours, 3}}].

all() -> [].

groups() -> [{matrix, [], [otp_25, otp_27, speed, release_25, release_27,
                        mix_release, rebar3]}].

otp_25(Config) -> hello(["--otp", "25"], "flavor size, OTP 25", Config).
otp_27(Config) -> hello(["--otp", "27"], "flavor size, OTP 27", Config).
speed(Config) -> hello(["--vm", "speed"], "flavor speed, OTP 29", Config).

%% The shell of this release needs a terminal.
release_25(Config) ->
    File = release("25", Config),
    ?assertEqual({2, <<"settled: --whittle-remote: needs a terminal; --whittle-eval works "
                       "without one\n">>},
                 running:run(File, ["--whittle-remote"],
                             #{input => "halt().\n", env => [{"RELEASE_COOKIE", "crumb"}]})).

release_27(Config) -> release("27", Config).

%% With its sys.config, with one on an otherwise empty machine, and with an invalid one. The VM
%% reads it before the code server starts.
release(Otp, Config) ->
    Dir = running:copy("probe", running:directory(Otp, Config)),
    {0, _} = tool("rebar3", ["release", "-n", "settled"], [], Dir),
    File = running:build(filename:join(Dir, "_build/default/rel/settled"),
                         filename:join(Dir, "settled"), ["--otp", Otp]),
    Env = [{"RELEASE_DISTRIBUTION", "none"}],
    ?assertEqual({0, <<"\"from sys.config\"\n">>},
                 running:alone(File, ["color"], #{env => Env})),
    Other = filename:join(Dir, "other.config"),
    Said = fun(Text) ->
                   ok = file:write_file(Other, Text),
                   running:run(File, ["env", "RELX_CONFIG_PATH"],
                               #{env => [{"RELX_CONFIG_PATH", Other} | Env]})
           end,
    ?assertEqual({0, iolist_to_binary(["\"", Other, "\"\n"])}, Said("[].\n")),
    {1, Error} = Said("[{"),
    ?assertMatch({match, _}, re:run(Error, "error in config file .*other.config")),
    File.

%% Debian's Elixir needs Debian's OTP. runtime.exs reads the variable on the machine where the file
%% runs.
mix_release(Config) ->
    Dir = running:copy("greeter", proplists:get_value(priv_dir, Config)),
    {0, _} = tool("mix", ["release"], [{"MIX_ENV", "prod"}, {"HEX_OFFLINE", "1"}], Dir),
    File = running:build(filename:join(Dir, "_build/prod/rel/greeter"),
                         filename:join(Dir, "greeter"), ["--otp", "25"]),
    ?assertEqual({3, <<"Hello  true\n">>}, running:alone(File, [], #{})),
    ?assertEqual({3, <<"Good morning ONE,TWO true\n">>},
                 running:alone(File, ["one", "two"],
                               #{env => [{"GREETING", "Good morning"}]})),
    asked_in_elixir(File).

%% The operator writes Elixir, or Erlang on request. The shell is IEx; in it, Ctrl-C shows no menu.
asked_in_elixir(File) ->
    Epmd = running:free_port(),
    Env = [{"RELEASE_NODE", "greeter"}, {"RELEASE_COOKIE", "crumb"},
           {"ERL_EPMD_PORT", integer_to_list(Epmd)}],
    Port = running:start(File, [], #{env => [{"GREETER_STAYS", "yes"} | Env]}),
    _ = running:line(Port),
    Ask = fun(Words) -> running:run(File, Words, #{env => Env}) end,
    try
        ?assertEqual({0, <<"3\n">>}, Ask(["--whittle-eval", "1 + 2"])),
        ?assertMatch({0, <<"\"1.", _/binary>>}, Ask(["--whittle-eval", "System.version()"])),
        ?assertEqual({0, <<"%{a: [1]}\n">>}, Ask(["--whittle-eval=elixir", "%{a: [1]}"])),
        ?assertEqual({0, <<"#{a => 1}\n">>}, Ask(["--whittle-eval=erlang", "#{a => 1}"])),
        {1, Raised} = Ask(["--whittle-eval", "raise \"on purpose\""]),
        ?assertMatch({match, _}, re:run(Raised, "RuntimeError.* on purpose")),
        {2, Misread} = Ask(["--whittle-eval", "1 +"]),
        ?assertMatch({match, _}, re:run(Misread, "cannot parse 1 \\+: ")),
        ?assertEqual({0, <<"é€\n\"é\"\n"/utf8>>},
                     Ask(["--whittle-eval", <<"IO.puts(\"é€\"); \"é\""/utf8>>])),
        %% OTP 25 would start a shell of another node.
        [begin
             {1, Refused} = running:run(os:find_executable("script"),
                                        ["-qec", "'" ++ File ++ "' --whittle-remote", "/dev/null"],
                                        #{env => [{"TERM", Terminal} | Env]}),
             ?assertMatch({match, _}, re:run(Refused, ["TERM=", Terminal, " names no terminal"]))
         end || Terminal <- ["dumb", "nosuch", ""]],
        Shell = running:start(os:find_executable("script"),
                              ["-qec", "exec '" ++ File ++ "' --whittle-remote", "/dev/null"],
                              #{env => [{"TERM", "xterm"} | Env]}),
        Prompt = running:until(Shell, <<")1> ">>),
        ?assertMatch({match, _}, re:run(Prompt, "iex\\(greeter@")),
        true = port_command(Shell, "\^C"),
        true = port_command(Shell, "String.upcase(\"asked\")\r"),
        Answer = running:until(Shell, <<"\"ASKED\"">>),
        ?assertEqual(nomatch, binary:match(Answer, <<"BREAK">>)),
        true = port_command(Shell, "\^G"),
        _ = running:until(Shell, <<" --> ">>),
        true = port_command(Shell, "q\r"),
        {0, _} = running:ended(Shell)
    after
        running:signal(Port, "TERM"),
        _ = running:ended(Port),
        running:end_epmd(Epmd)
    end.

%% rebar3 compiles a project that includes its own header and one of OTP's, with a PATH without
%% another Erlang.
rebar3(Config) ->
    Dir = running:copy("counted", proplists:get_value(priv_dir, Config)),
    File = running:build(os:find_executable("rebar3"), filename:join(Dir, "rebar3"),
                         ["--otp", "25"]),
    {0, Version} = running:run(File, ["version"]),
    ?assertMatch({match, _}, re:run(Version, "^rebar .* on Erlang/OTP 25")),
    {Code, Output} = running:run(File, ["compile"], #{cd => Dir, env => [{"PATH", "/nowhere"}]}),
    ?assertEqual({0, Output}, {Code, Output}),
    Ebin = filename:join(Dir, "_build/default/lib/counted/ebin"),
    {module, counted} = code:load_abs(filename:join(Ebin, "counted")),
    ?assertEqual({3, file_info}, counted:count()).

hello(Options, Said, Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "hello"),
    File = running:build(running:example("hello"), Out, Options),
    ?assertEqual({0, <<"Hello from one file.\n">>}, running:alone(File, [], #{})),
    {0, Info} = running:run(File, ["--whittle-info"]),
    ?assertMatch({_, _}, binary:match(Info, list_to_binary(Said))).

tool(Name, Words, Env, Dir) ->
    running:run(os:find_executable(Name), Words, #{env => Env, cd => Dir}).
