%% Runs programs for tests: the command itself and its outputs.
-module(running).

-export([whittle/1, build/2, build/3, shaken/1, cut/1]).
-export([run/2, run/3, same/1, start/2, start/3, line/1, until/2, signal/2, ended/1]).
-export([root/0, otp_root/0, fixture/1, example/1, directory/2, copy/2]).
-export([free_port/0, on_free_ports/2, end_epmd/1, install_charts/0]).
-export([in_empty_root/2, alone/3, with_memory_files/4, forbidden_call/1]).

%% The time without output after which a test gives up and prints the earlier output. It is less
%% than the half hour after which common_test ends a case without a message.
-define(PATIENCE_MS, 1_500_000).

%% The settings for a program. From the caller's environment it receives only the variables of
%% cleared/0, unless the setting is `keep'.
-type options() :: #{env => [{string(), string()}] | keep, cd => file:filename(),
                     input => iodata()}.

%% Runs the command, and returns its exit code and its output with its errors.
-spec whittle([string()]) -> {non_neg_integer(), binary()}.
whittle(Arguments) ->
    run(filename:join(root(), "whittle"), Arguments, #{env => keep}).

%% Builds an executable from a fixture or any other path.
-spec build(file:filename(), file:filename()) -> file:filename().
build(Path, Out) -> build(Path, Out, []).

-spec build(file:filename(), file:filename(), [string()]) -> file:filename().
build(Path, Out, Options) ->
    case whittle(["build", Path, "-o", Out | Options]) of
        {0, _} -> Out;
        {Code, Output} -> error({build_failed, Code, Output})
    end.

%% Returns the options that build a fixture from its reachable functions and from functions that
%% other nodes call. The fixture creates atoms that are no function names. Its own file and a
%% shell ask it.
-spec shaken(string()) -> [string()].
shaken(Remote) ->
    ["--shake", "functions", "--missing", "crash", "--atoms", "none", "--data", "none",
     "--remote", Remote, "--feature", "+terms,+control,+shell"].

%% Does the same, and also removes from the VM what the program does not reach.
-spec cut(string()) -> [string()].
cut(Remote) -> shaken(Remote) ++ ["--vm", "program"].

%% Runs a program to its end.
-spec run(file:filename(), [string()]) -> {non_neg_integer(), binary()}.
run(Program, Arguments) -> run(Program, Arguments, #{}).

-spec run(file:filename(), [string()], options()) -> {non_neg_integer(), binary()}.
run(Program, Arguments, #{input := Input} = Options) ->
    %% A port cannot close the program's input, so a shell redirects it from a file.
    File = filename:join(["/tmp", "whittle-input-" ++ os:getpid() ++ "-"
                          ++ integer_to_list(erlang:unique_integer([positive]))]),
    ok = file:write_file(File, Input),
    try
        run("/bin/sh", ["-c", "exec \"$0\" \"$@\" <" ++ File, Program | Arguments],
            maps:remove(input, Options))
    after
        file:delete(File)
    end;
run(Program, Arguments, Options) ->
    ended(start(Program, Arguments, Options)).

%% Removes the parts of an output that differ in each start: pids, times and sizes of processes.
-spec same(binary()) -> binary().
same(Output) ->
    lists:foldl(fun({Pattern, Instead}, Text) ->
                        re:replace(Text, Pattern, Instead, [global, {return, binary}])
                end, Output,
                [{"<\\d+\\.\\d+\\.\\d+>", "PID"}, {"\\d+-\\w+-\\d+::[0-9:.]+", "TIME"},
                 {"(reductions|stack_size|heap_size): \\d+", "\\1"}]).

%% Runs a program with this value of vm.memfd_noexec. The value counts in a namespace of processes,
%% and every process of the namespace ends with the program. Returns `none' if this kernel or user
%% cannot set it.
-spec with_memory_files(string(), file:filename(), [string()], options()) ->
          {non_neg_integer(), binary()} | none.
with_memory_files(Setting, Program, Arguments, Options) ->
    Enter = ["--pid", "--fork", "--mount-proc", "sh", "-c",
             "echo \"$0\" >/proc/sys/vm/memfd_noexec && exec \"$@\"", Setting],
    case run(os:find_executable("unshare"), Enter ++ ["true"]) of
        {0, <<>>} -> run(os:find_executable("unshare"), Enter ++ [Program | Arguments], Options);
        _ -> none
    end.

%% Compiles the program that runs another one under a kernel that refuses a system call.
-spec forbidden_call(file:filename()) -> file:filename().
forbidden_call(Dir) ->
    Starter = filename:join(Dir, "starter"),
    {0, _} = run(os:find_executable("gcc"),
                 ["-o", Starter, filename:join([root(), "acceptance", "suites",
                                                "forbidden_call.c"])]),
    Starter.

%% Starts a program that continues; see line/1, until/2, signal/2, ended/1.
-spec start(file:filename(), [string()]) -> port().
start(Program, Arguments) -> start(Program, Arguments, #{}).

-spec start(file:filename(), [string()], options()) -> port().
start(Program, Arguments, Options) ->
    Env = case maps:get(env, Options, []) of
              keep -> [];
              Given -> cleared() ++ Given
          end,
    open_port({spawn_executable, Program},
              [{args, Arguments}, {env, Env}, exit_status, binary, stderr_to_stdout,
               hide] ++ [{cd, Dir} || #{cd := Dir} <- [Options]]).

%% Removes the settings of the tests' own node and of its user.
cleared() ->
    [{Name, false} || Setting <- os:getenv(), [Name | _] <- [string:split(Setting, "=")],
                      not lists:member(Name, ["PATH", "HOME", "LANG", "LC_ALL", "TERM",
                                              "TMPDIR"])].

%% Returns the output before the next newline.
-spec line(port()) -> binary().
line(Port) -> until(Port, <<"\n">>).

%% Waits for a text, returns the output before it and keeps the output after it.
-spec until(port(), binary()) -> binary().
until(Port, Text) -> until(Port, Text, kept(Port)).

until(Port, Text, Output) ->
    case binary:split(Output, Text) of
        [Before, Rest] ->
            put({?MODULE, Port}, Rest),
            Before;
        [_] ->
            receive
                {Port, {data, Data}} -> until(Port, Text, <<Output/binary, Data/binary>>);
                {Port, {exit_status, Code}} -> error({ended, Code, Output})
            after ?PATIENCE_MS -> error({still_running, Output})
            end
    end.

kept(Port) ->
    case erase({?MODULE, Port}) of
        undefined -> <<>>;
        Rest -> Rest
    end.

%% Sends a signal ("TERM", "INT", …) to the process itself.
-spec signal(port(), string()) -> ok.
signal(Port, Signal) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    [] = os:cmd("kill -" ++ Signal ++ " " ++ integer_to_list(Pid)),
    ok.

%% Waits for the end, and returns the exit code and the rest of the output.
-spec ended(port()) -> {non_neg_integer(), binary()}.
ended(Port) -> ended(Port, [kept(Port)]).

ended(Port, Output) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Output, Data]);
        {Port, {exit_status, Code}} -> {Code, iolist_to_binary(Output)}
    after ?PATIENCE_MS -> error({still_running, iolist_to_binary(Output)})
    end.

%% Returns the project's directory.
-spec root() -> file:filename().
root() -> above(proplists:get_value(source, module_info(compile))).

%% rebar3 compiles the tests in a copy below _build.
above(Path) ->
    Dir = filename:dirname(Path),
    case filelib:is_regular(filename:join(Dir, "rebar.config")) of
        true -> Dir;
        false -> above(Dir)
    end.

%% Returns the root of the stock OTP whose applications the programs contain.
-spec otp_root() -> file:filename().
otp_root() ->
    case os:getenv("WHITTLE_OTP_ROOT", "") of
        "" -> string:trim(os:cmd(filename:join([root(), "tools", "otp-root"])));
        Root -> Root
    end.

%% Installs the packages of web/chart, which draw the charts of a page. Two parts of the tests may
%% do so at the same time, so one waits for the other.
-spec install_charts() -> ok.
install_charts() ->
    Web = filename:join(root(), "web"),
    {0, _} = run(os:find_executable("flock"),
                 [Web, "make", "-C", Web, "node_modules/.package-lock.json"], #{env => keep}),
    ok.

%% Fixtures are not below test/, because rebar3 compiles everything there, and twice after a build
%% in place.
-spec fixture(string()) -> file:filename().
fixture(Name) -> filename:join([root(), "fixtures", Name]).

-spec example(string()) -> file:filename().
example(Name) -> filename:join([root(), "examples", Name]).

%% Returns a directory below the suite's priv_dir, which the suites of one run share.
-spec directory(file:filename(), [{atom(), term()}]) -> file:filename().
directory(Name, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = filelib:ensure_path(Dir),
    Dir.

%% Copies a fixture's files into a separate directory, where its tools may write.
-spec copy(string(), file:filename()) -> file:filename().
copy(Fixture, Below) ->
    Dir = filename:join(Below, Fixture),
    {0, <<>>} = run("/bin/cp", ["-R", fixture(Fixture), Dir]),
    Dir.

%% Returns a TCP port without a listener.
-spec free_port() -> inet:port_number().
free_port() ->
    [Port] = free_ports(1),
    Port.

free_ports(Count) ->
    Sockets = [element(2, {ok, _} = gen_tcp:listen(0, [])) || _ <- lists:seq(1, Count)],
    Ports = [element(2, {ok, _} = inet:port(Socket)) || Socket <- Sockets],
    [ok = gen_tcp:close(Socket) || Socket <- Sockets],
    Ports.

%% Starts a server that cannot choose its ports itself, with ports that nobody uses. Another program
%% may take one of them before the server does. Then the server ends, and the function tries others.
-spec on_free_ports(pos_integer(), fun(([inet:port_number()]) -> Server)) ->
          {[inet:port_number()], Server}.
on_free_ports(Count, Start) -> on_free_ports(Count, Start, 5).

on_free_ports(Count, Start, Tries) ->
    Ports = free_ports(Count),
    try {Ports, Start(Ports)}
    catch
        error:{ended, Code, Output} when Tries > 1 ->
            case re:run(Output, "address already in use|eaddrinuse",
                        [caseless, {capture, none}]) of
                match -> on_free_ports(Count, Start, Tries - 1);
                nomatch -> error({ended, Code, Output})
            end
    end.

%% Ends the epmd that named programs have started on a port.
-spec end_epmd(inet:port_number()) -> ok.
end_epmd(Port) ->
    Epmd = filename:join([otp_root(), "bin", "epmd"]),
    _ = run(Epmd, ["-port", integer_to_list(Port), "-kill"]),
    ok.

%% Copies an executable into a directory, and returns the words that run it there as nobody, with
%% that directory as its root: as root, or in a user namespace.
-spec in_empty_root(file:filename(), file:filename()) -> {file:filename(), [string()]}.
in_empty_root(File, Dir) ->
    Program = filename:join(Dir, "program"),
    ok = filelib:ensure_dir(Program),
    %% The epmd of an earlier start may still run from this file, which is then not writable.
    _ = file:delete(Program),
    {ok, _} = file:copy(File, Program),
    ok = file:change_mode(Program, 8#755),
    case os:cmd("id -u") of
        "0\n" ->
            {os:find_executable("chroot"), ["--userspec=65534:65534", Dir, "/program"]};
        _ ->
            {os:find_executable("unshare"), ["--map-root-user", "--root", Dir, "/program"]}
    end.

%% Runs an executable in a separate root directory, and checks that the directory still holds
%% nothing else afterwards.
-spec alone(file:filename(), [string()], options()) -> {non_neg_integer(), binary()}.
alone(File, Words, Options) ->
    Dir = File ++ ".root",
    {Program, Before} = in_empty_root(File, Dir),
    Ended = run(Program, Before ++ Words, Options),
    {ok, ["program"]} = file:list_dir(Dir),
    Ended.
