%% Tests programs of OTP in an output: those of os_mon, erl for nodes that it starts, and the names
%% of the processes.
-module(otp_programs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2]).
-export([os_mon/1, os_mon_alone/1]).
-export([erl_executed/1, emulator_executed/1, emulator_writes_no_dump/1, erl_spawned/1,
         erl_found/1, erl_starts_epmd/1, epmd_by_name/1,
         other_boot/1,
         detached/1, peer_by_standard_io/1, peer_by_tcp/1, named_peer/1]).
-export([names_of_processes/1, copied_while_epmd_runs/1]).

all() ->
    [os_mon, os_mon_alone, erl_executed, emulator_executed, emulator_writes_no_dump, erl_spawned,
     erl_found, erl_starts_epmd, epmd_by_name,
     other_boot, detached, peer_by_standard_io, peer_by_tcp, named_peer, names_of_processes,
     copied_while_epmd_runs].

init_per_suite(Config) ->
    Out = filename:join(running:directory("otp_programs", Config), "watcher"),
    [{watcher, running:build(running:fixture("watcher"), Out)},
     {epmd, running:free_port()} | Config].

end_per_suite(Config) -> running:end_epmd(proplists:get_value(epmd, Config)).

init_per_testcase(Case, Config) -> [{node, atom_to_list(Case)} | Config].

%% os_mon

os_mon(Config) ->
    {0, Output} = watcher(["machine"], Config),
    #{memory := Memory, load := Load, processes := Processes, disks := Disks} = term(Output),
    ?assert(proplists:get_value(total_memory, Memory) > 1 bsl 20),
    ?assert(proplists:get_value(free_memory, Memory) > 0),
    ?assert(is_integer(Load) andalso Load >= 0),
    ?assert(Processes > 0),
    ?assertMatch([{[_ | _], Size, _} | _] when is_integer(Size), Disks).

%% Without a shell, df and /proc, os_mon reports the kernel's own facts and continues.
os_mon_alone(Config) ->
    {0, Output} = running:alone(proplists:get_value(watcher, Config), ["machine"], #{}),
    #{load := Load, processes := Processes, disks := Disks} = term(said(Output)),
    ?assert(is_integer(Load) andalso Load >= 0),
    ?assert(Processes > 0),
    ?assertEqual([{"none", 0, 0}], Disks).

%% The output as erl

erl_executed(Config) ->
    Say = "io:format(\"~0p\", [{code:root_dir(), watcher:double(4), whereis(watcher_sup), "
        "init:get_plain_arguments(), os:getenv(\"GIVEN\"), erlang:system_info(schedulers)}]), "
        "halt(7).",
    Words = ["+S", "3", "-env", "GIVEN", "a value", "-noshell", "-eval", Say,
             "-extra", "-x", "two words"],
    [?assertEqual({7, <<"{\"/.whittle\",8,undefined,[\"-x\",\"two words\"],\"a value\",3}">>},
                  executed([Program | Words], Config))
     || Program <- ["/.whittle/bin/erl", "/.whittle/bin/erlexec", "/.whittle/erts-17.1/bin/erl"]].

%% The emulator takes flags of the emulator, and no variables (docs/launcher.md).
emulator_executed(Config) ->
    Say = "io:format(\"~0p\", [{watcher:double(4), init:get_plain_arguments(), "
        "erlang:system_info(process_limit)}]), halt(7).",
    Words = ["/.whittle/bin/beam.smp", "-P", "4096", "--", "-root", "/.whittle", "-bindir",
             "/.whittle/bin", "--", "-home", "/", "--", "-boot", "/.whittle/boot/control",
             "-noshell", "-eval", Say, "-extra", "two words"],
    {0, Output} = watcher(["execute" | Words], [{"ERL_FLAGS", "-sname unused"}], Config),
    ?assertEqual({7, <<"{8,[\"two words\"],4096}">>}, term(Output)).

emulator_writes_no_dump(Config) ->
    Dir = running:directory("otp_programs/dump", Config),
    {0, Output} = running:run(proplists:get_value(watcher, Config),
                              ["execute", "/.whittle/bin/beam.smp", "-emu_flavor"], #{cd => Dir}),
    ?assertMatch({match, _}, re:run(Output, "Runtime terminating during boot")),
    ?assertEqual({ok, []}, file:list_dir(Dir)).

%% os_mon and callers of `slave' write the command in this way.
erl_spawned(Config) ->
    [?assertEqual({3, <<"said">>}, spawned(Command, Config))
     || Command <- ["/.whittle/bin/erl -noshell -eval 'io:format(\"said\"), halt(3).'",
                    "\"/.whittle/bin/erl\" -noshell -eval \"io:put_chars([\\\"said\\\"]),"
                    " halt(3).\"",
                    "erl -noshell -eval 'io:put_chars(\"said\")' -eval 'halt'\\(3\\)"]].

erl_found(Config) ->
    ?assertEqual({0, <<"\"/.whittle/bin/erl\"">>}, watcher(["find", "erl"], Config)),
    ?assertEqual({0, <<"\"/.whittle/bin/epmd\"">>}, watcher(["find", "epmd"], Config)).

%% RabbitMQ starts epmd in this way.
erl_starts_epmd(Config) ->
    Port = running:free_port(),
    Env = [{"ERL_EPMD_PORT", integer_to_list(Port)}],
    Words = ["execute", "/.whittle/bin/erl", "-boot", "no_dot_erlang", "-sname",
             "starter", "-noinput", "-s", "erlang", "halt"],
    try
        ?assertEqual({0, <<"{0,<<>>}">>}, watcher(Words, Env, Config)),
        {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
        ok = gen_tcp:close(Socket)
    after
        running:end_epmd(Port)
    end.

%% The command asks this node's epmd, and reports if there is none.
epmd_by_name(Config) ->
    {0, Printed} = watcher(["spawn", "epmd -names"], named(Config), Config),
    {0, Names} = term(Printed),
    ?assertMatch({match, _}, re:run(Names, ["^epmd: up and running on port [0-9]+ with data:\n"
                                            "name ", proplists:get_value(node, Config),
                                            " at port [0-9]+\n$"])),
    Nobodys = [{"ERL_EPMD_PORT", integer_to_list(running:free_port())}],
    {0, Refused} = running:run(proplists:get_value(watcher, Config), ["spawn", "epmd -names"],
                               #{env => Nobodys}),
    ?assertMatch({match, _}, re:run(Refused, "epmd: Cannot connect to local epmd\n")).

%% A missing boot file is an error; the file's own boot file starts the program again.
other_boot(Config) ->
    {Code, _} = executed(["/.whittle/bin/erl", "-boot", "/nowhere/else", "-noshell"], Config),
    ?assertNotEqual(0, Code),
    ?assertEqual({0, <<"\"/.whittle/bin/erl\"">>},
                 begin
                     {0, Printed} = executed(["/.whittle/bin/erl", "-boot",
                                              "/.whittle/boot/start", "-noshell",
                                              "-extra", "find", "erl"], Config),
                     {0, said(Printed)}
                 end).

%% The caller continues at once. The node ends when its waiting client permits that.
detached(Config) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    Say = "{ok, S} = gen_tcp:connect({127,0,0,1}, " ++ integer_to_list(Port) ++ ", []), "
        "gen_tcp:send(S, os:getpid()), halt().",
    ?assertEqual({0, <<>>}, executed(["/.whittle/bin/erl", "-detached", "-eval", Say], Config)),
    {ok, Socket} = gen_tcp:accept(Listen),
    {ok, Pid} = gen_tcp:recv(Socket, 0),
    ?assert(binary_to_integer(Pid) > 1).

peer_by_standard_io(Config) ->
    ?assertEqual({0, <<"{nonode@nohost,42,[stdlib,kernel]}">>},
                 watcher(["peer", "standard_io"], Config)).

peer_by_tcp(Config) ->
    ?assertEqual({0, <<"{nonode@nohost,42,[stdlib,kernel]}">>},
                 watcher(["peer", "tcp"], Config)).

%% The cookie is given or generated. A node with a generated cookie reports that, and passes the
%% cookie to its peer.
named_peer(Config) ->
    Expected = <<"{true,42,[stdlib,kernel]}">>,
    ?assertEqual({0, Expected}, watcher(["peer", "named"], named(Config), Config)),
    {0, Output} = running:run(proplists:get_value(watcher, Config), ["peer", "named"],
                              #{env => named(Config)
                                ++ [{"RELEASE_COOKIE", false},
                                    {"HOME", running:directory("home", Config)}]}),
    ?assertMatch([_, _], string:split(Output, "no cookie is set")),
    ?assertMatch([_, _], string:split(Output, Expected)).

%% Processes

%% One process has the program's name, and each other process its own.
names_of_processes(Config) ->
    Port = running:start(proplists:get_value(watcher, Config), ["wait"],
                         #{env => named(Config)}),
    Pid = ready(Port),
    ?assertEqual(<<"watcher">>, name(Pid)),
    Names = [name(Of) || Of <- below(Pid)],
    [?assert(lists:member(Name, Names))
     || Name <- [<<"erl_child_setup">>, <<"memsup">>, <<"cpu_sup">>]],
    ?assertNot(lists:member(<<"watcher">>, Names)),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port).

%% epmd stays. It has its own name, and does not keep the file busy.
copied_while_epmd_runs(Config) ->
    Program = filename:join(running:directory("copied", Config), "copied"),
    {ok, _} = file:copy(proplists:get_value(watcher, Config), Program),
    ok = file:change_mode(Program, 8#755),
    Epmd = running:free_port(),
    Env = named(Config) ++ [{"ERL_EPMD_PORT", integer_to_list(Epmd)}],
    Port = running:start(Program, ["wait"], #{env => Env}),
    _ = ready(Port),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port),
    try
        {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Epmd, []),
        ok = gen_tcp:close(Socket),
        ?assertMatch({ok, _}, file:copy(proplists:get_value(watcher, Config), Program)),
        ?assertEqual([], [Pid || Pid <- running_now(), name(Pid) =:= <<"copied">>])
    after
        running:end_epmd(Epmd)
    end.

%% Shared functions

watcher(Words, Config) -> watcher(Words, [], Config).

%% Starts os_mon, which reports alarms. At the end its programs report that Erlang has closed.
watcher(Words, Env, Config) ->
    {Code, Output} = running:run(proplists:get_value(watcher, Config), Words, #{env => Env}),
    {Code, said(Output)}.

said(Output) ->
    case re:run(Output, "^watcher: (.*)$", [multiline, {capture, [1], binary}]) of
        {match, [Said]} -> Said;
        nomatch -> Output
    end.

%% Waits until the program runs, and returns its process.
ready(Port) ->
    _ = running:until(Port, <<"watcher: ready ">>),
    binary_to_list(running:line(Port)).

named(Config) ->
    [{"RELEASE_NODE", proplists:get_value(node, Config)}, {"RELEASE_COOKIE", "crumb"},
     {"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))}].

%% Returns the exit code and the output of a program that the watcher runs.
executed(Words, Config) -> ran(watcher(["execute" | Words], Config)).

spawned(Command, Config) -> ran(watcher(["spawn", Command], Config)).

ran({0, Output}) -> term(Output).

term(Output) ->
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Output) ++ "."),
    {ok, Term} = erl_parse:parse_term(Tokens),
    Term.

running_now() ->
    {ok, Names} = file:list_dir("/proc"),
    [Name || Name <- Names, {_, ""} <- [string:to_integer(Name)]].

%% Lists the child processes of a process, and theirs.
below(Pid) -> below([Pid], [{Of, parent(Of)} || Of <- running_now()]).

below([], _) -> [];
below([Pid | Pids], Parents) ->
    Children = [Of || {Of, Parent} <- Parents, Parent =:= Pid],
    Children ++ below(Children ++ Pids, Parents).

parent(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/status") of
        {ok, Status} ->
            {match, [Parent]} = re:run(Status, "PPid:\\s+(\\d+)", [{capture, [1], list}]),
            Parent;
        {error, _} -> gone
    end.

name(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/comm") of
        {ok, Name} -> string:trim(Name);
        {error, _} -> gone
    end.
