%% A VM that was built for another processor agrees with this machine's: two nodes, of
%% which one may have other words and another byte order, exchange every kind of term, and
%% compute a table of results of OTP's own functions (fixtures/agree).
-module(agree_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2]).
-export([terms/1, names/1, results/1, signatures/1, idle/1, older_kernel/1]).

%% Each nap of the idle program is one timer. The VM makes 20 to 30 system calls in one, for
%% timers of its own as well; a thread that is woken for nothing makes thousands.
-define(NAPS, 5).
-define(CALLS_A_NAP, 200).

all() -> [{group, Group} || {Group, _, _} <- groups()].

%% A group for each target.
groups() ->
    [{list_to_atom(Name), [], [terms, names, results, signatures, idle, older_kernel]}
     || #{name := Name} <- emulated:targets()].

init_per_suite(Config) ->
    Proper = running:directory("agree/proper", Config),
    {0, _} = erl(["-eval", "agreement:compile_again(init:get_plain_arguments()), halt().",
                  "-extra", filename:dirname(code:which(proper)), Proper]),
    %% As rebar3 compiles it for the other node: each knows the other's funs.
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

%% Random terms of every type: they come back as they were, and both VMs say the same of
%% their external format, hashes, order and print.
terms(Config) -> agreed("terms", Config).

%% The same with processes, ports, references and funs of both nodes.
names(Config) -> agreed("names", Config).

results(Config) -> agreed("results", Config).

%% What one side signs or seals, the other verifies or opens.
signatures(Config) -> agreed("signatures", Config).

%% A VM that has nothing to do waits until its timer is due, and asks the kernel for that
%% with 64-bit times: on 32 bits the old calls read another layout, and not every kernel
%% has them. (qemu gives the new ones no name.)
idle(Config) ->
    Target = proplists:get_value(target, Config),
    Log = filename:join(running:directory("agree", Config),
                        maps:get(name, Target) ++ ".calls"),
    Program = emulated:start_traced(Log, Target, proplists:get_value(program, Config), [],
                                    [{"ERL_FLAGS", "-agree idle " ++ integer_to_list(?NAPS)}]),
    ?assertMatch({0, _}, running:ended(Program)),
    {ok, Calls} = file:read_file(Log),
    Lines = binary:split(between(<<"/agree/naps/begin">>, <<"/agree/naps/end">>, Calls),
                         <<"\n">>, [global]),
    ct:pal("~b calls in ~b naps", [length(Lines), ?NAPS]),
    ?assert(length(Lines) =< ?NAPS * ?CALLS_A_NAP),
    maps:get(word_size, Target) =:= 32 andalso
        ?assertEqual(nomatch, re:run(Calls, "(\\bfutex\\([^\\n,]*,[^\\n,]*FUTEX_WAIT,[^\\n,]*,"
                                     "(?!NULL)|\\b(ppoll|pselect6|_newselect|select|nanosleep|"
                                     "clock_nanosleep|timerfd_settime|rt_sigtimedwait|utimensat)"
                                     "\\().*", [{capture, first, binary}])).

%% Kernels before Linux 5.1 have no call with 64-bit times for it: ERTS's own library, linked
%% with a C library that says so, still waits as long as it should.
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

%% With what the VM of the other cases was linked from.
compiled(Source, #{name := Name, triple := Triple, cc := Cc, ldflags := Ldflags,
                   kernel_headers := Headers}, Program) ->
    {ok, #{dir := Dir}} =
        whittle_runtime:ensure(#{target => Name, otp => whittle_runtime:default_otp(),
                                 flavour => size, natives => [asn1, crypto]}, #{}),
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

%% This machine's, of the OTP that the other node is of.
erl(Words) ->
    running:run(filename:join([running:otp_root(), "bin", "erl"]),
                ["-noinput", "-pa", filename:dirname(code:which(agreement)) | Words]).
