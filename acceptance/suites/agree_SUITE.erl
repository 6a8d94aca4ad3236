%% Compares a VM for another processor with this machine's. Two nodes exchange every kind of term
%% and compute a table of results of OTP's own functions (fixtures/agree). One of them may have
%% another word size and another byte order.
-module(agree_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2]).
-export([terms/1, names/1, results/1, signatures/1, idle/1, older_kernel/1, port_mapper/1]).

%% The number of timers of the idle program. The VM makes 20 to 30 system calls for one, also for
%% its own timers; a thread that wakes up for nothing makes thousands.
-define(NAPS, 5).
-define(CALLS_A_NAP, 200).
%% On a busy machine a thread of the VM may poll for some milliseconds, until another one has run.
%% A thread that wakes up for nothing does so in each run.
-define(RUNS, 3).

all() -> [{group, Group} || {Group, _, _} <- groups()].

%% Each target has a group.
groups() ->
    [{list_to_atom(Name), [], [terms, names, results, signatures, idle, older_kernel,
                               port_mapper]}
     || #{name := Name} <- emulated:targets()].

init_per_suite(Config) ->
    Proper = running:directory("agree/proper", Config),
    {0, _} = erl(["-eval", "agreement:compile_again(init:get_plain_arguments()), halt().",
                  "-extra", filename:dirname(code:which(proper)), Proper]),
    %% rebar3 compiles the same file for the other node, so each node knows the other's funs.
    Ours = running:directory("agree/ours", Config),
    [{ok, _} = compile:file(File, [debug_info, {outdir, Ours}])
     || File <- filelib:wildcard(filename:join(running:fixture("agree"), "src/*.erl"))],
    [{paths, [Proper, Ours]} | Config].

end_per_suite(_) -> ok.

init_per_group(Group, Config) ->
    [Target] = [T || T = #{name := Name} <- emulated:targets(),
                     Name =:= atom_to_list(Group)],
    case emulated:lacks(Target) of
        none ->
            Out = filename:join(running:directory("agree", Config), atom_to_list(Group)),
            _ = running:build(running:fixture("agree"), Out,
                              ["--target", atom_to_list(Group)]),
            [{target, Target}, {program, Out} | Config];
        What ->
            {skip, What}
    end.

end_per_group(_, _) -> ok.

%% Random terms of every type come back unchanged. Both VMs agree on their external format,
%% hashes, order and print.
terms(Config) -> agreed("terms", Config).

%% The same with processes, ports, references and funs of both nodes.
names(Config) -> agreed("names", Config).

results(Config) -> agreed("results", Config).

%% Each side verifies the other's signatures and decrypts the other's data.
signatures(Config) -> agreed("signatures", Config).

%% An idle VM waits until its timer is due, and uses the system calls with 64-bit times. On 32 bits
%% the old calls have another layout, and not every kernel has them. (qemu prints no names of
%% the new calls.)
idle(Config) ->
    Target = proplists:get_value(target, Config),
    {Count, Calls} = quiet_run(?RUNS, Target, Config),
    ct:pal("~b calls in ~b naps", [Count, ?NAPS]),
    ?assert(Count =< ?NAPS * ?CALLS_A_NAP),
    maps:get(word_size, Target) =:= 32 andalso
        ?assertEqual(nomatch, re:run(Calls, "(\\bfutex\\([^\\n,]*,[^\\n,]*FUTEX_WAIT,[^\\n,]*,"
                                     "(?!NULL)|\\b(ppoll|pselect6|_newselect|select|nanosleep|"
                                     "clock_nanosleep|timerfd_settime|rt_sigtimedwait|utimensat)"
                                     "\\().*", [{capture, first, binary}])).

%% Returns the first run whose calls stay within the limit, or else the last run.
quiet_run(Runs, Target, Config) ->
    case idle_calls(Target, Config) of
        {Count, _} when Count > ?NAPS * ?CALLS_A_NAP, Runs > 1 ->
            quiet_run(Runs - 1, Target, Config);
        Run ->
            Run
    end.

%% Returns the number of system calls during the naps, and all of the program's calls.
idle_calls(Target, Config) ->
    Log = filename:join(running:directory("agree", Config),
                        maps:get(name, Target) ++ ".calls"),
    Program = emulated:start_traced(Log, Target, proplists:get_value(program, Config), [],
                                    [{"ERL_FLAGS", "-agree idle " ++ integer_to_list(?NAPS)}]),
    ?assertMatch({0, _}, running:ended(Program)),
    {ok, Calls} = file:read_file(Log),
    Lines = binary:split(between(<<"/agree/naps/begin">>, <<"/agree/naps/end">>, Calls),
                         <<"\n">>, [global]),
    {length(Lines), Calls}.

%% Kernels before Linux 5.1 lack the call with 64-bit times. ERTS's own library then still waits as
%% long as it should; the C library of this test simulates such a kernel.
older_kernel(Config) ->
    case proplists:get_value(target, Config) of
        #{word_size := 32} = Target ->
            Program = filename:join(running:directory("agree", Config),
                                    maps:get(name, Target) ++ "-older-kernel"),
            compiled("older_kernel.c", Target, Program),
            ?assertEqual({0, <<"timeout after 1 calls, in time\n">>},
                         running:ended(emulated:start(Target, Program, [], [])));
        #{} ->
            {skip, "64-bit times are the only ones there are"}
    end.

%% The epmd in the pack has a small C library of its own. It answers like this machine's epmd: about
%% a node that registers and leaves, to wrong requests, and when it is told to end.
port_mapper(Config) ->
    Target = proplists:get_value(target, Config),
    {ok, Packed} = whittle_pack:read_file(proplists:get_value(program, Config), <<"bin/epmd">>),
    Ours = filename:join(running:directory("agree", Config), maps:get(name, Target) ++ ".epmd"),
    ok = file:write_file(Ours, Packed),
    ok = file:change_mode(Ours, 8#755),
    Stock = filename:join([running:otp_root(), "bin", "epmd"]),
    Expected = mapped(fun(Words) -> running:start(Stock, Words) end),
    ?assertMatch(#{names := <<"name agreed at port 4711\n">>}, Expected),
    ?assertEqual(Expected, mapped(fun(Words) -> emulated:start(Target, Ours, Words, []) end)).

mapped(Start) ->
    Port = running:free_port(),
    Words = ["-port", integer_to_list(Port)],
    Epmd = Start(Words ++ ["-address", "127.0.0.1"]),
    ok = listens(Port, Epmd),
    Node = connected(Port),
    ok = gen_tcp:send(Node, <<20:16, $x, 4711:16, 77, 0, 6:16, 5:16, 6:16, "agreed", 1:16, "x">>),
    {ok, <<$v, 0, _Creation:32>>} = gen_tcp:recv(Node, 6),
    Asked = #{names => asked(Port, <<"n">>), port => asked(Port, <<"zagreed">>),
              nobody => asked(Port, <<"znobody">>), all => asked(Port, <<"d">>),
              garbage => asked(Port, <<"?">>), short => asked(Port, <<"x">>),
              taken => registered(Port),
              alive => asked(Port, <<"k">>), printed => printed(Start(Words ++ ["-names"]))},
    ok = gen_tcp:close(Node),
    %% epmd may read the next request before the end of the node's connection.
    ok = forgotten(Port, asked(Port, <<"n">>)),
    Gone = Asked#{gone => asked(Port, <<"n">>), unused => asked(Port, <<"d">>),
                  killed => printed(Start(Words ++ ["-kill"]))},
    %% epmd answers this request before it ends.
    {0, _} = running:ended(Epmd),
    Gone#{unanswered => printed(Start(Words ++ ["-names"]))}.

%% Returns when epmd listens.
listens(Port, Epmd) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
        {ok, Socket} ->
            gen_tcp:close(Socket);
        {error, econnrefused} ->
            receive {Epmd, {exit_status, _}} = Ended -> error(Ended)
            after 0 -> listens(Port, Epmd)
            end
    end.

forgotten(_, <<>>) -> ok;
forgotten(Port, _) -> forgotten(Port, asked(Port, <<"n">>)).

connected(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    Socket.

%% Returns the whole answer without the values that differ between two starts: epmd's own port
%% before a list, and descriptors.
asked(Port, Request) ->
    Socket = connected(Port),
    ok = gen_tcp:send(Socket, <<(byte_size(Request)):16, Request/binary>>),
    Answer = all_of(Socket, <<>>),
    ok = gen_tcp:close(Socket),
    case Answer of
        <<Port:32, List/binary>> -> re:replace(List, "fd = [0-9]+", "fd", [{return, binary}]);
        _ -> Answer
    end.

%% Registers the same name again, and returns the result. epmd keeps this connection open.
registered(Port) ->
    Socket = connected(Port),
    ok = gen_tcp:send(Socket, <<19:16, $x, 1:16, 77, 0, 6:16, 5:16, 6:16, "agreed", 0:16>>),
    {ok, <<$v, Result, _Creation:32>>} = gen_tcp:recv(Socket, 6),
    ok = gen_tcp:close(Socket),
    Result.

all_of(Socket, Answer) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, More} -> all_of(Socket, <<Answer/binary, More/binary>>);
        {error, _} -> Answer
    end.

printed(Program) ->
    {Code, Said} = running:ended(Program),
    {Code, re:replace(Said, "port [0-9]+", "port", [{return, binary}])}.

%% Links with the parts from which the VM of the other cases was linked.
compiled(Source, #{name := Name, triple := Triple, cc := Cc, ldflags := Ldflags,
                   kernel_headers := Headers}, Program) ->
    {ok, #{dir := Dir}} =
        whittle_runtime:ensure(#{target => Name, otp => whittle_runtime:default_otp(),
                                 flavor => size, natives => [asn1, crypto]}, #{}),
    {ok, [#{parts := Parts}]} = file:consult(filename:join(Dir, "inputs.config")),
    [Erts, Libc] = [begin
                        Wildcard = "*-" ++ string:slice(maps:get(Part, Parts), 0, 16),
                        [Found] = filelib:wildcard(Wildcard, filename:dirname(Dir)),
                        filename:join(filename:dirname(Dir), Found)
                    end || Part <- [erts, libc]],
    Includes = [[" -I\"$ERTS\"/erts/include", Below] || Below <- ["", "/internal", "/" ++ Triple,
                                                                "/internal/" ++ Triple]],
    Script = [Cc, " -specs=\"$LIBC/lib/musl-gcc.specs\" -static -Os -D_GNU_SOURCE"
              " -DHAVE_CONFIG_H -DUSE_THREADS -D_THREAD_SAFE -D_REENTRANT -DPOSIX_THREADS",
              Includes, " -idirafter ", filename:dirname(hd(Headers)), " \"$0\" -o \"$1\""
              " -Wl,--wrap=syscall -L\"$ERTS\"/erts/lib/internal/", Triple,
              " -lethread -lerts_internal_r -lpthread ", lists:join(" ", Ldflags)],
    Suites = filename:join(running:root(), "acceptance/suites"),
    ?assertEqual({0, <<>>},
                 running:run("/bin/sh", ["-c", lists:flatten(Script),
                                         filename:join(Suites, Source), Program],
                             #{env => [{"ERTS", Erts}, {"LIBC", Libc}]})).

between(From, To, Text) ->
    [_, After] = binary:split(Text, From),
    [Middle, _] = binary:split(After, To),
    Middle.

agreed(What, Config) ->
    #{word_size := WordSize, endian := Endian} = Target = proplists:get_value(target, Config),
    Port = integer_to_list(running:free_port()),
    Node = "agree" ++ Port ++ "@127.0.0.1",
    Other = emulated:start(Target, proplists:get_value(program, Config), [],
                           [{"RELEASE_NODE", Node}, {"RELEASE_DISTRIBUTION", "name"},
                            {"RELEASE_COOKIE", "crumb"}, {"ERL_DIST_PORT", Port}]),
    try
        ?assertEqual(list_to_binary(Node ++ " agrees"), running:line(Other)),
        {Code, Said} =
            erl(["-name", "asks" ++ Port ++ "@127.0.0.1", "-setcookie", "crumb",
                 "-start_epmd", "false", "-dist_listen", "false", "-erl_epmd_port", Port,
                 "-pa" | proplists:get_value(paths, Config)]
                ++ ["-eval", "agreement:main(init:get_plain_arguments()).", "-extra",
                    What, Node, integer_to_list(WordSize), atom_to_list(Endian)]),
        ct:pal("~ts", [Said]),
        Code =:= 0 orelse ct:fail("they do not agree:~n~ts", [Said]),
        ?assertMatch({0, _}, running:ended(Other))
    after
        catch running:signal(Other, "KILL")
    end.

%% Runs this machine's erl, of the other node's OTP.
erl(Words) ->
    running:run(filename:join([running:otp_root(), "bin", "erl"]),
                ["-noinput", "-pa", filename:dirname(code:which(agreement)) | Words]).
