%% Tests agents over ssh: on this machine, through a server of ssh of its own with keys of its own.
-module(whittle_load_hosts_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, end_per_testcase/2]).
-export([names/1, no_ssh/1, endless_greeting/1, runs/1, strange_directory/1,
         unknown_key/1, no_login/1, no_server/1,
         other_machine/1, failed_build/1, killed_keeper/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [names, no_ssh, endless_greeting, {group, ssh}].

groups() ->
    [{ssh, [], [runs, strange_directory, unknown_key, no_login, no_server, other_machine,
                failed_build, killed_keeper]}].

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(whittle_load),
    Config.

end_per_suite(_) -> ok.

%% The server listens on a port that was free a moment ago.
init_per_group(ssh, Config) ->
    Sshd = os:find_executable("sshd", os:getenv("PATH") ++ ":/usr/sbin"),
    case {Sshd, os:find_executable("ssh-keygen")} of
        {_, Keygen} when Sshd =:= false; Keygen =:= false ->
            {skip, "the packages openssh-server and openssh-client are missing"};
        _ -> started(Sshd, Config)
    end.

started(Sshd, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "ssh"),
    ok = filelib:ensure_dir(filename:join([Dir, "tmp", "x"])),
    ok = file:change_mode(Dir, 8#700),
    [{0, _} = whittle_program:run(os:find_executable("ssh-keygen"),
                                  ["-q", "-t", "ed25519", "-N", "", "-f", File], #{})
     || File <- [filename:join(Dir, "host"), filename:join(Dir, "user")]],
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    {ok, Public} = file:read_file(filename:join(Dir, "host.pub")),
    {ok, _} = file:copy(filename:join(Dir, "user.pub"), filename:join(Dir, "authorized")),
    ok = file:write_file(filename:join(Dir, "known"),
                         io_lib:format("[127.0.0.1]:~b ~s", [Port, Public])),
    ok = file:write_file(filename:join(Dir, "sshd_config"),
                         io_lib:format("Port ~b\nListenAddress 127.0.0.1\nHostKey ~s/host\n"
                                       "AuthorizedKeysFile ~s/authorized\nStrictModes no\n"
                                       "UsePAM no\nPasswordAuthentication no\nPidFile none\n"
                                       "PermitRootLogin prohibit-password\n"
                                       "PermitUserEnvironment no\nSetEnv TMPDIR=\"~s/tmp\"\n",
                                       [Port, Dir, Dir, Dir])),
    [ok = client(Dir, Name, Port, Key, Known)
     || {Name, Key, Known} <- [{"ssh", "user", Dir ++ "/known"},
                               {"ssh-unknown-key", "user", "/dev/null"},
                               {"ssh-no-login", "host", Dir ++ "/known"}]],
    _ = file:make_dir("/run/sshd"),
    Server = open_port({spawn_executable, Sshd},
                       [{args, ["-D", "-e", "-f", filename:join(Dir, "sshd_config")]},
                        {line, 500}, stderr_to_stdout, exit_status]),
    case listening(Server) of
        ok ->
            Keeper = spawn(fun() -> receive go -> ended(Server) end end),
            true = port_connect(Server, Keeper),
            unlink(Server),
            Keeper ! go,
            [{dir, Dir}, {server, Keeper} | Config];
        {skip, _} = Skip -> Skip
    end.

listening(Server) ->
    receive
        {Server, {data, {_, "Server listening on" ++ _}}} -> ok;
        {Server, {data, _}} -> listening(Server);
        {Server, {exit_status, _}} -> {skip, "sshd does not start here"}
    end.

%% A server of ssh does not end with its input.
ended(Server) ->
    receive
        stop ->
            {os_pid, Pid} = erlang:port_info(Server, os_pid),
            os:cmd("kill " ++ integer_to_list(Pid)),
            ended(Server);
        {Server, {exit_status, _}} -> ok;
        {Server, _} -> ended(Server)
    end.

end_per_group(ssh, Config) ->
    Keeper = proplists:get_value(server, Config),
    Monitor = monitor(process, Keeper),
    Keeper ! stop,
    receive {'DOWN', Monitor, process, _, _} -> ok end.

end_per_testcase(_, _) ->
    os:unsetenv("WHITTLE_SSH"),
    ok.

%% A program in place of ssh that has its own settings
client(Dir, Name, Port, Key, Known) ->
    Settings = filename:join(Dir, Name ++ ".config"),
    ok = file:write_file(Settings,
                         io_lib:format("Port ~b\nIdentityFile ~s/~s\nIdentitiesOnly yes\n"
                                       "UserKnownHostsFile ~s\nGlobalKnownHostsFile none\n"
                                       "StrictHostKeyChecking yes\nIdentityAgent none\n",
                                       [Port, Dir, Key, Known])),
    File = filename:join(Dir, Name),
    ok = file:write_file(File, ["#!/bin/sh\nexec ssh -F '", Settings, "' \"$@\"\n"]),
    file:change_mode(File, 8#755).

%% ssh would take some names for options.
names(_) ->
    ?assertEqual(ok, whittle_load_hosts:check([])),
    ?assertEqual(ok, whittle_load_hosts:check(["a", "a.b-c", "me@10.0.0.1", "u_1@fe80::1%eth0"])),
    [?assertEqual({Name, {error, {host_name, Name}}},
                  {Name, whittle_load_hosts:check(["ok", Name])})
     || Name <- ["-oProxyCommand=x", "me@-x", "", "a b", "a;b", "a@b@c", "$(x)", "a\n", "-", "é"]],
    ?assertMatch({error, {host_name, "-x"}},
                 whittle_load:run("no-file.load", #{hosts => ["-x"]})).

no_ssh(Config) ->
    Missing = filename:join(proplists:get_value(priv_dir, Config), "missing"),
    true = os:putenv("WHITTLE_SSH", Missing),
    {error, Reason} = agents(fun(_) -> error(built) end, fun(_) -> error(started) end),
    ?assertEqual("the program " ++ Missing ++ " of the variable WHITTLE_SSH is not there, or not "
                 "executable: correct or unset the variable",
                 lists:flatten(whittle_load:format_error(Reason))),
    ?assertEqual("h: the copy of the agent did not end within 300 s: try `ssh h', or use a faster "
                 "line",
                 lists:flatten(whittle_load:format_error({host, {"h", slow_copy}}))),
    ?assertMatch("there is no program `ssh' on the PATH: " ++ _,
                 lists:flatten(whittle_load:format_error({no_ssh, "ssh"}))).

%% A host that never stops printing ends the preparation.
endless_greeting(Config) ->
    Flood = made:file(filename:join(proplists:get_value(priv_dir, Config), "flood"),
                      "#!/bin/sh\nexec yes\n"),
    ok = file:change_mode(Flood, 8#755),
    true = os:putenv("WHITTLE_SSH", Flood),
    {error, Reason} = agents(fun(_) -> error(built) end, fun(_) -> error(started) end),
    true = os:unsetenv("WHITTLE_SSH"),
    ?assertMatch({match, _}, re:run(whittle_load:format_error(Reason), "prints too many lines")).

%% The agent is copied whole, its words and variables arrive as they are, and nothing stays.
runs(Config) ->
    Dir = ssh("ssh", Config),
    Words = ["a b", "$HOME", "it's", "\"x\"", ";exit", "*", ""],
    Result = whittle_load_hosts:with_agents(
               ["127.0.0.1"], built(Dir),
               fun(Agent) -> {Agent, Words, [{"WHITTLE_TEST", "a 'b' $c"}, {"NO", false}]} end,
               fun([Command]) ->
                       ?assertMatch([_], left(Dir)),
                       Port = whittle_load_build:open(Command),
                       true = port_command(Port, <<"hello">>),
                       receive {Port, {data, Bytes}} -> Bytes end
               end),
    ?assertEqual(iolist_to_binary(["hello", "a 'b' $c", [["|", Word] || Word <- Words]]), Result),
    ?assertEqual([], left(Dir)).

%% An agent for the test: sends one message back, behind its length, with a variable and its words.
built(Dir) ->
    File = filename:join(Dir, "agent"),
    ok = file:write_file(File, ["#!/usr/bin/python3\nimport os, struct, sys\n"
                                "n = struct.unpack('>I', sys.stdin.buffer.read(4))[0]\n"
                                "m = sys.stdin.buffer.read(n).decode() + os.environ['WHITTLE_TEST']"
                                " + ''.join('|' + w for w in sys.argv[1:])\n"
                                "sys.stdout.buffer.write(struct.pack('>I', len(m)) + m.encode())\n"
                                "#", lists:duplicate(1_000_000, $x), $\n]),
    fun("x86_64") -> {ok, File};
       (Target) -> {error, {target, Target}}
    end.

left(Dir) -> filelib:wildcard(filename:join([Dir, "tmp", "whittle-load-*"])).

%% Quotes keep the name of the directory in one piece.
strange_directory(Config) ->
    Dir = ssh("ssh", Config),
    ?assertMatch([_ | _], Dir),
    ?assertEqual(ok, agents(built(Dir), fun([_]) -> ok end)),
    ?assertEqual([], left(Dir)).

unknown_key(Config) ->
    _ = ssh("ssh-unknown-key", Config),
    ?assertEqual("127.0.0.1: ssh: Host key verification failed.: compare and accept the key of the "
                 "host once, with ssh 127.0.0.1", failure()).

no_login(Config) ->
    _ = ssh("ssh-no-login", Config),
    ?assertMatch({match, _}, re:run(failure(), "Permission denied.*ssh may not ask for a password "
                                    "here; install a key, with ssh-copy-id 127.0.0.1$")).

no_server(Config) ->
    Dir = ssh("ssh", Config),
    ok = file:write_file(filename:join(Dir, "ssh-nobody"),
                         "#!/bin/sh\nexec ssh -F /dev/null -p 1 \"$@\"\n"),
    ok = file:change_mode(filename:join(Dir, "ssh-nobody"), 8#755),
    _ = ssh("ssh-nobody", Config),
    ?assertMatch({match, _}, re:run(failure(), "^127.0.0.1: ssh: .*Connection refused")).

other_machine(Config) ->
    Dir = ssh("ssh", Config),
    File = filename:join(Dir, "ssh-other"),
    ok = file:write_file(File, "#!/bin/sh\necho whittle Linux sparc64 /tmp/x\nread -r line\n"),
    ok = file:change_mode(File, 8#755),
    _ = ssh("ssh-other", Config),
    ?assertEqual("127.0.0.1: Whittle builds no agent for `Linux sparc64'; `whittle targets' lists "
                 "the targets", failure()).

failed_build(Config) ->
    Dir = ssh("ssh", Config),
    ?assertEqual({error, no_build}, agents(fun(_) -> {error, no_build} end, fun(_) -> ok end)),
    ?assertEqual([], left(Dir)).

%% Whatever ends the session, the host removes the directory. Here ssh itself is killed, so the
%% server closes the input of the keeper, and the keeper ends.
killed_keeper(Config) ->
    Dir = ssh("ssh", Config),
    {ok, Watch} = agents(built(Dir),
                         fun(_) ->
                                 [_] = left(Dir),
                                 Watch = watch(Dir),
                                 "" = os:cmd("pkill -KILL -f -- '"
                                             ++ filename:join(Dir, "ssh.config") ++ "'"),
                                 {ok, Watch}
                         end),
    receive {Watch, {exit_status, Status}} -> ?assertEqual(0, Status) end,
    ?assertEqual([], left(Dir)).

%% Waits for the end of the keepers on this host. Their shells have TMPDIR from the server of ssh.
watch(Dir) ->
    Port = open_port({spawn_executable, os:find_executable("python3")},
                     [{args, ["-c", watch(), "TMPDIR=" ++ filename:join(Dir, "tmp")]}, {line, 100},
                      exit_status]),
    receive {Port, {data, {eol, Count}}} -> ?assertNotEqual("0", Count) end,
    Port.

%% The kernel tells the end of a process by its descriptor.
watch() ->
    "import os, select, sys\n"
    "watched = []\n"
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    try:\n"
    "        with open('/proc/' + pid + '/environ', 'rb') as file:\n"
    "            if sys.argv[1].encode() in file.read().split(b'\\0'):\n"
    "                watched.append(os.pidfd_open(int(pid)))\n"
    "    except OSError: pass\n"
    "print(len(watched), flush=True)\n"
    "for end in watched: select.select([end], [], [])\n".

%% Internal

ssh(Name, Config) ->
    Dir = proplists:get_value(dir, Config),
    true = os:putenv("WHITTLE_SSH", filename:join(Dir, Name)),
    Dir.

agents(Build, Fun) ->
    whittle_load_hosts:with_agents(["127.0.0.1"], Build, fun(Agent) -> {Agent, [], []} end, Fun).

failure() ->
    {error, Reason} = agents(fun(_) -> error(built) end, fun(_) -> error(started) end),
    lists:flatten(whittle_load:format_error(Reason)).
