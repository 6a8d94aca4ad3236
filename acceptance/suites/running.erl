%% Running programs from tests: the command itself and what it has built.
-module(running).

-export([whittle/1, build/2, build/3, shaken/1]).
-export([run/2, run/3, start/2, start/3, line/1, until/2, signal/2, ended/1]).
-export([root/0, otp_root/0, fixture/1, example/1, directory/2, copy/2]).
-export([free_port/0, end_epmd/1]).
-export([in_empty_root/2, alone/3]).

%% How long anything here may be silent before a test gives up on it and says what came
%% before: less than the half hour after which common_test says nothing.
-define(PATIENCE_MS, 1_500_000).

%% What a program is started with; of the caller's environment it sees only what cleared/0
%% keeps, unless that is `keep'.
-type options() :: #{env => [{string(), string()}] | keep, cd => file:filename(),
                     input => iodata()}.

%% The command's exit code, and its output with its errors.
-spec whittle([string()]) -> {non_neg_integer(), binary()}.
whittle(Arguments) ->
    run(filename:join(root(), "whittle"), Arguments, #{env => keep}).

%% An executable built from a fixture or any other path.
-spec build(file:filename(), file:filename()) -> file:filename().
build(Path, Out) -> build(Path, Out, []).

-spec build(file:filename(), file:filename(), [string()]) -> file:filename().
build(Path, Out, Options) ->
    case whittle(["build", Path, "-o", Out | Options]) of
        {0, _} -> Out;
        {Code, Output} -> error({build_failed, Code, Output})
    end.

%% The options with which a fixture is built from what it can reach, and these functions,
%% which other nodes call. What it makes atoms of is no function's name, and it is asked by
%% its own file and a shell.
-spec shaken(string()) -> [string()].
shaken(Remote) ->
    ["--shake", "functions", "--missing", "crash", "--atoms", "none", "--data", "none",
     "--remote", Remote, "--feature", "+terms,+control,+shell"].

%% Runs a program to its end.
-spec run(file:filename(), [string()]) -> {non_neg_integer(), binary()}.
run(Program, Arguments) -> run(Program, Arguments, #{}).

-spec run(file:filename(), [string()], options()) -> {non_neg_integer(), binary()}.
run(Program, Arguments, #{input := Input} = Options) ->
    %% A port cannot close the program's input: the shell does, by a file.
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

%% A program that goes on; see line/1, until/2, signal/2, ended/1.
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

%% Neither the tests' own node nor what its user has set may show through.
cleared() ->
    [{Name, false} || Setting <- os:getenv(), [Name | _] <- [string:split(Setting, "=")],
                      not lists:member(Name, ["PATH", "HOME", "LANG", "LC_ALL", "TERM",
                                              "TMPDIR"])].

%% The output before its next newline.
-spec line(port()) -> binary().
line(Port) -> until(Port, <<"\n">>).

%% The output before that text, which has to come; what follows it is kept.
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

%% Waits for the end: the exit code and the rest of the output.
-spec ended(port()) -> {non_neg_integer(), binary()}.
ended(Port) -> ended(Port, [kept(Port)]).

ended(Port, Output) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Output, Data]);
        {Port, {exit_status, Code}} -> {Code, iolist_to_binary(Output)}
    after ?PATIENCE_MS -> error({still_running, iolist_to_binary(Output)})
    end.

%% The project's directory.
-spec root() -> file:filename().
root() -> above(proplists:get_value(source, module_info(compile))).

%% The tests are compiled in a copy below _build.
above(Path) ->
    Dir = filename:dirname(Path),
    case filelib:is_regular(filename:join(Dir, "rebar.config")) of
        true -> Dir;
        false -> above(Dir)
    end.

%% Where the stock OTP lies that the programs were built from.
-spec otp_root() -> file:filename().
otp_root() ->
    case os:getenv("WHITTLE_OTP_ROOT", "") of
        "" -> string:trim(os:cmd(filename:join([root(), "tools", "otp-root"])));
        Root -> Root
    end.

%% Not below test/: rebar3 compiles all that is there, twice where it was built in place.
-spec fixture(string()) -> file:filename().
fixture(Name) -> filename:join([root(), "fixtures", Name]).

-spec example(string()) -> file:filename().
example(Name) -> filename:join([root(), "examples", Name]).

%% A directory of a suite's own, by its configuration; the suites of one run share theirs.
-spec directory(file:filename(), [{atom(), term()}]) -> file:filename().
directory(Name, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = filelib:ensure_path(Dir),
    Dir.

%% A fixture's files in a directory of its own, where its tools may write.
-spec copy(string(), file:filename()) -> file:filename().
copy(Fixture, Below) ->
    Dir = filename:join(Below, Fixture),
    {0, <<>>} = run("/bin/cp", ["-R", fixture(Fixture), Dir]),
    Dir.

%% A port of TCP that nobody listens on.
-spec free_port() -> inet:port_number().
free_port() ->
    {ok, Socket} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

%% Ends the epmd that named programs have started on that port.
-spec end_epmd(inet:port_number()) -> ok.
end_epmd(Port) ->
    Epmd = filename:join([otp_root(), "bin", "epmd"]),
    _ = run(Epmd, ["-port", integer_to_list(Port), "-kill"]),
    ok.

%% Puts an executable into a directory and gives the words that run it there as
%% nobody, with the directory for its root: as root, or in a user namespace.
-spec in_empty_root(file:filename(), file:filename()) -> {file:filename(), [string()]}.
in_empty_root(File, Dir) ->
    Program = filename:join(Dir, "program"),
    ok = filelib:ensure_dir(Program),
    %% The epmd of an earlier start may still run from it: that file cannot be written.
    _ = file:delete(Program),
    {ok, _} = file:copy(File, Program),
    ok = file:change_mode(Program, 8#755),
    case os:cmd("id -u") of
        "0\n" ->
            {os:find_executable("chroot"), ["--userspec=65534:65534", Dir, "/program"]};
        _ ->
            {os:find_executable("unshare"), ["--map-root-user", "--root", Dir, "/program"]}
    end.

%% Runs an executable in a root directory of its own, which still holds nothing else
%% when it has ended.
-spec alone(file:filename(), [string()], options()) -> {non_neg_integer(), binary()}.
alone(File, Words, Options) ->
    Dir = File ++ ".root",
    {Program, Before} = in_empty_root(File, Dir),
    Ended = run(Program, Before ++ Words, Options),
    {ok, ["program"]} = file:list_dir(Dir),
    Ended.
