%% Tests that one file behaves like a Unix program (the launcher in native/). A directory output
%% behaves in the same way, except for tests that need one file.
-module(launcher_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2]).
-export([arguments_belong_to_the_program/1, name_of_the_process/1, exit_code/1,
         exit_code_of_stop/1, slogan_of_halt/1, no_crash_dump/1, crash_dump_where_asked/1,
         pipe_in_and_out/1, closed_pipe/1, full_device/1, file_size_limit/1, terminate/1,
         interrupt/1,
         terminate_early/1, interrupt_early/1, hangup_early/1, quit_early/1, user_signal_early/1,
         interrupt_twice/1, empty_root/1, closed_descriptors/1, read_only_file_system/1,
         file_deleted/1, writes_nothing/1, start_block_given_back/1, start_code/1,
         restart/1, no_home/1, priv_files/1, no_include_files/1, include_files/1, moved/1,
         found_from_anywhere/1, deep_directories/1, damaged_vm/1, killed_checksum/1,
         damaged_tree/1,
         changed_tree/1,
         pack_is_read_only/1, null_device/1, ports/1, commands/1, names/1,
         address_without_a_name/1, tcp/1, udp/1, sockets/1, own_flags/1, unknown_own_flag/1,
         bare_words/1,
         info/1, damaged/1, cut_off/1, not_a_pack/1, stripped/1, settings_that_say_nothing/1,
         config_file/1, vm_args_file/1, flags_variables/1, stray_word_in_the_flags/1]).

all() -> [{group, file}, {group, directory}, {group, shaken}, {group, cut}, {group, cold}].

groups() ->
    [{file, [], one_file()}, {directory, [], in_directory()},
     %% Without the cases that need all modules.
     {shaken, [], one_file() -- early_signals()},
     {cut, [], one_file() -- early_signals()},
     %% Only the code that OTP itself uses during its start is in memory.
     {cold, [], one_file() -- early_signals()}].

early_signals() ->
    [terminate_early, interrupt_early, hangup_early, quit_early, user_signal_early].

one_file() ->
    [F || {F, 1} <- ?MODULE:module_info(exports), F =/= end_per_suite,
          F =/= init_per_suite, F =/= module_info, F =/= include_files, F =/= moved,
          F =/= found_from_anywhere, F =/= bare_words, F =/= damaged_vm,
          F =/= killed_checksum, F =/= damaged_tree,
          F =/= changed_tree,
          F =/= deep_directories].

in_directory() ->
    [arguments_belong_to_the_program, name_of_the_process, exit_code, exit_code_of_stop,
     no_crash_dump,
     pipe_in_and_out, closed_pipe, full_device, file_size_limit, terminate,
     interrupt, writes_nothing,
     start_code, restart, no_home, priv_files, include_files, pack_is_read_only, ports,
     commands, names, sockets, own_flags, info, config_file, vm_args_file, moved,
     found_from_anywhere, bare_words, deep_directories, damaged_vm, killed_checksum, damaged_tree,
     changed_tree].

init_per_suite(Config) -> Config.

end_per_suite(_Config) -> ok.

init_per_group(file, Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "probe"),
    [{probe, running:build(running:fixture("probe"), Out)} | Config];
init_per_group(cut, Config) ->
    Out = filename:join(directory(Config, "program_vm"), "probe"),
    [{probe, running:build(running:fixture("probe"), Out, running:cut("none"))} | Config];
init_per_group(shaken, Config) ->
    Out = filename:join(directory(Config, "shaken"), "probe"),
    [{probe, running:build(running:fixture("probe"), Out, running:shaken("none"))} | Config];
init_per_group(cold, Config) ->
    Out = filename:join(directory(Config, "cold"), "probe"),
    [{probe, planned:build(running:fixture("probe"), Out, planned:called_at_boot())} | Config];
init_per_group(directory, Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "in_directory"),
    Dir = running:build(running:fixture("probe"), Out, ["--format", "dir", "--keep-include"]),
    [{probe, filename:join(Dir, "probe")} | Config].

end_per_group(_Group, _Config) -> ok.

%% The command line, the exit code

arguments_belong_to_the_program(Config) ->
    Words = ["args", "-name", "+P", "--", "-extra", "two words", "--help", ""],
    {0, Output} = probe(Config, Words),
    ?assertEqual(Words, term(Output)).

exit_code(Config) ->
    ?assertEqual({42, <<>>}, probe(Config, ["halt", "42"])).

exit_code_of_stop(Config) ->
    ?assertEqual({3, <<"stopped\n">>}, probe(Config, ["stop"])).

slogan_of_halt(Config) ->
    {1, Output} = probe(Config, ["abort"]),
    ?assertMatch({match, _}, re:run(Output, "on purpose")).

no_crash_dump(Config) ->
    Dir = directory(Config, "no_dump"),
    {1, _} = probe(Config, ["abort"], #{cd => Dir}),
    ?assertEqual({ok, []}, file:list_dir(Dir)).

crash_dump_where_asked(Config) ->
    File = filename:join(directory(Config, "dump"), "here"),
    {1, _} = probe(Config, ["abort"], #{env => [{"ERL_CRASH_DUMP", File}]}),
    {ok, Dump} = file:read_file(File),
    ?assertMatch(<<"=erl_crash_dump:", _/binary>>, Dump).

pipe_in_and_out(Config) ->
    Lines = [["line ", integer_to_list(N), $\n] || N <- lists:seq(1, 5000)] ++ ["no newline"],
    {0, Output} = probe(Config, ["cat"], #{input => Lines}),
    ?assertEqual(iolist_to_binary(Lines), Output).

%% Signals

%% The program ends as if by SIGPIPE, but in order: the application's stop/1 runs completely,
%% although it prints.
closed_pipe(Config) ->
    File = filename:join(directory(Config, "closed_pipe"), "stopped"),
    {0, Output} = in_shell(Config, "{ \"$0\" cat; echo $? >&2; } | head -n 1",
                           [{"PROBE_STOPPED", File}]),
    ?assertMatch({match, _}, re:run(Output, "line 1\n.*141\n$", [dotall])),
    ?assertMatch(nomatch, re:run(Output, "Writer crashed")),
    ?assertEqual({ok, <<"stopped">>}, file:read_file(File)).

%% The program runs to its end and reports the error once.
full_device(Config) ->
    {1, Output} = in_shell(Config, "\"$0\" cat >/dev/full", []),
    ?assertMatch({match, [_]},
                 re:run(Output, "cannot write to standard output: No space left", [global])),
    ?assertMatch({42, _}, in_shell(Config, "\"$0\" halt 42 >/dev/full", [])),
    ?assertEqual({0, <<>>}, in_shell(Config, "\"$0\" args >/dev/null 2>/dev/full", [])).

%% Without the launcher's handler SIGXFSZ would end the program without a message.
file_size_limit(Config) ->
    {1, Refused} = in_shell(Config, "ulimit -f 8; exec \"$0\" args", []),
    ?assertMatch({match, _}, re:run(Refused, "^[a-z]+: the limit of a file's size is too low: the "
                                    "start needs \\d+ bytes .*ulimit -f.*\n$")),
    %% The file is sparse and larger than the limit, so the first write fails.
    File = filename:join(directory(Config, "file_size_limit"), "large"),
    {ok, Large} = file:open(File, [write]),
    {ok, _} = file:position(Large, 1 bsl 30),
    ok = file:truncate(Large),
    ok = file:close(Large),
    {1, Output} = in_shell(Config, ["ulimit -f 32768; exec \"$0\" args >>'", File, "'"], []),
    ok = file:delete(File),
    ?assertMatch({match, _}, re:run(Output, "^[a-z]+: cannot write to standard output: "
                                    "File too large\n$")).

in_shell(Config, Command, Env) ->
    Lines = [["line ", integer_to_list(N), $\n] || N <- lists:seq(1, 50000)],
    running:run("/bin/sh", ["-c", lists:flatten(Command), proplists:get_value(probe, Config)],
                #{input => Lines, env => Env}).

terminate(Config) ->
    Port = waiting(Config),
    running:signal(Port, "TERM"),
    {0, Output} = running:ended(Port),
    ?assertMatch({match, _}, re:run(Output, "^stopped$", [multiline])).

interrupt(Config) ->
    Port = waiting(Config),
    running:signal(Port, "INT"),
    {130, Output} = running:ended(Port),
    ?assertMatch({match, _}, re:run(Output, "^stopped$", [multiline])).

%% Sends the signal at every millisecond of the first hundred. Before the VM exists, the signal
%% ends the process as usual. Afterwards the VM keeps it until the kernel process receives it.
terminate_early(Config) ->
    Codes = [Code || Time <- lists:seq(0, 99), {Code, _} <- [signalled("TERM", Time, Config)]],
    ?assertEqual([], [Code || Code <- Codes, Code =/= 0, Code =/= 128 + 15]),
    ?assert(lists:member(0, Codes)).

interrupt_early(Config) ->
    ?assertEqual([130], lists:usort([Code || Time <- lists:seq(0, 99),
                                             {Code, _} <- [signalled("INT", Time, Config)]])).

%% The kernel ends the process at any time.
hangup_early(Config) ->
    ?assertEqual([129], lists:usort([Code || Time <- lists:seq(0, 99),
                                             {Code, _} <- [signalled("HUP", Time, Config)]])).

%% Until the VM has a handler they end the process, as they end any. A signal that is lost leaves
%% the program to SIGTERM, which ends it in order.
quit_early(Config) ->
    Ends = [{Caught band (1 bsl 2) =/= 0, Ended}
            || {Caught, Ended} <- ended_early("QUIT", Config)],
    ?assertEqual([], [End || {HasHandler, {Code, Output}} = End <- Ends,
                             HasHandler orelse Code =/= 128 + 3,
                             Code =/= 0 orelse says_stopped(Output)]),
    ?assert(lists:keymember(true, 1, Ends)).

user_signal_early(Config) ->
    Codes = [Code || {_, {Code, _}} <- ended_early("USR1", Config)],
    ?assertEqual([], Codes -- [Code || Code <- Codes, Code =:= 1 orelse Code =:= 128 + 10]),
    ?assert(lists:member(1, Codes)).

%% Returns the signals for which each process had a handler, and how it ended.
ended_early(Signal, Config) ->
    [begin
         Port = signal_at(Signal, Time, Config),
         {erase({caught, Port}), ended_or_terminated(Port, erase({pid, Port}), <<>>)}
     end || Time <- lists:seq(0, 99, 3)].

%% A program that says `ready' has a handler: it hears of the kept signal first.
ended_or_terminated(Port, Pid, Output) ->
    receive
        {Port, {data, Data}} ->
            All = <<Output/binary, Data/binary>>,
            _ = [os:cmd("kill -TERM " ++ integer_to_list(Pid) ++ " 2>&1")
                 || binary:match(All, <<"ready">>) =/= nomatch],
            ended_or_terminated(Port, Pid, All);
        {Port, {exit_status, Code}} -> {Code, Output}
    end.

says_stopped(Output) -> binary:match(Output, <<"stopped">>) =/= nomatch.

signalled(Signal, Time, Config) -> running:ended(signal_at(Signal, Time, Config)).

%% One shell sends them: to start it takes longer than a millisecond.
signal_at(Signal, Time, Config) ->
    Shell = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", "read pid; kill -" ++ Signal
                                                              ++ " $pid"]}]),
    %% In the background the tests may run with SIGINT ignored, and the program would inherit
    %% that.
    Port = running:start(os:find_executable("env"),
                         ["--default-signal=" ++ Signal, proplists:get_value(probe, Config),
                          "wait"]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    %% Before exec, the process belongs to erl_child_setup, which ignores SIGTERM.
    executed(Pid, list_to_binary([filename:basename(proplists:get_value(probe, Config)), $\n])),
    wait_until(erlang:monotonic_time(microsecond) + Time * 1000),
    put({caught, Port}, caught(Pid)),
    true = port_command(Shell, [integer_to_list(Pid), $\n]),
    put({pid, Port}, Pid),
    Port.

%% Bit N - 1 stands for signal N (proc(5)).
caught(Pid) ->
    {ok, Status} = file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/status"),
    {match, [Mask]} = re:run(Status, "^SigCgt:\\s*([0-9a-f]+)$",
                             [multiline, {capture, all_but_first, binary}]),
    binary_to_integer(Mask, 16).

executed(Pid, Name) ->
    case file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/comm") of
        {ok, Name} -> ok;
        {ok, _} -> executed(Pid, Name)
    end.

%% Waits busily, because the test depends on the time of the signal.
wait_until(Time) ->
    case erlang:monotonic_time(microsecond) >= Time of
        true -> ok;
        false -> wait_until(Time)
    end.

%% A program that hangs during its stop must end at a second interrupt. This one would never end
%% by itself.
interrupt_twice(Config) ->
    Port = waiting(Config, "hang"),
    running:signal(Port, "INT"),
    stopped = stopping(Port),
    running:signal(Port, "INT"),
    ?assertMatch({130, _}, running:ended(Port)).

%% Waits until the application stops. Reports of other applications may come before.
stopping(Port) ->
    case running:line(Port) of
        <<"stopped">> -> stopped;
        _ -> stopping(Port)
    end.

%% The place of the file

empty_root(Config) ->
    Alone = fun(Words) -> running:alone(proplists:get_value(probe, Config), Words, #{}) end,
    ?assertEqual({0, <<"[\"args\"]\n">>}, Alone(["args"])),
    {0, Resolved} = Alone(["resolve", "localhost"]),
    ?assertMatch({ok, {hostent, _, _, inet, 4, [{127, 0, 0, 1} | _]}}, term(Resolved)),
    {0, Discarded} = Alone(["discard"]),
    ?assertEqual({ok, eof}, term(Discarded)),
    ?assertEqual({0, <<"read\n">>}, Alone(["access", "/etc/hosts"])).

closed_descriptors(Config) ->
    {Program, Words} = running:in_empty_root(proplists:get_value(probe, Config),
                                             directory(Config, "closed")),
    Command = lists:append([[Program | Words], ["halt", "9"]]),
    ?assertMatch({9, _}, running:run("/bin/sh", ["-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"
                                                 | Command])).

read_only_file_system(Config) ->
    Dir = directory(Config, "read_only"),
    {ok, _} = file:copy(proplists:get_value(probe, Config), filename:join(Dir, "program")),
    ok = file:change_mode(filename:join(Dir, "program"), 8#755),
    Script = "mount --bind " ++ Dir ++ " " ++ Dir ++ " && "
        "mount -o remount,bind,ro " ++ Dir ++ " && "
        "cd " ++ Dir ++ " && ! touch new 2>/dev/null && exec ./program args",
    Apart = fun(Words) -> running:run(os:find_executable("unshare"),
                                      ["--mount", "--map-root-user" | Words])
            end,
    case Apart(["/bin/true"]) of
        {0, _} -> ?assertEqual({0, <<"[\"args\"]\n">>}, Apart(["/bin/sh", "-c", Script]));
        %% The kernel gives this error within a chroot.
        {_, Said} -> {skip, "no file system can be mounted here: " ++ binary_to_list(Said)}
    end.

%% The program runs its children from a descriptor and reads modules from the mapping.
file_deleted(Config) ->
    Program = filename:join(directory(Config, "deleted"), "program"),
    {ok, _} = file:copy(proplists:get_value(probe, Config), Program),
    ok = file:change_mode(Program, 8#755),
    {0, Output} = running:run(Program, ["deleted", Program]),
    ?assertEqual({"still here\n", true, {ok, <<"a file of the application\n">>}}, term(Output)),
    ?assertNot(filelib:is_file(Program)).

writes_nothing(Config) ->
    Trace = filename:join(directory(Config, "trace"), "log"),
    {0, _} = running:run(os:find_executable("strace"),
                         ["-f", "-o", Trace, "-e", "trace=open,openat,creat,mkdir,unlink,rename",
                          proplists:get_value(probe, Config), "args"]),
    {ok, Log} = file:read_file(Trace),
    Writing = [Line || Line <- binary:split(Log, <<"\n">>, [global]),
                       re:run(Line, "O_WRONLY|O_RDWR|O_CREAT|creat\\(|mkdir|unlink|rename")
                           =/= nomatch,
                       re:run(Line, "/dev/(null|tty)|ENOENT|EACCES|ENXIO") =:= nomatch],
    ?assertEqual([], Writing).

start_block_given_back(Config) ->
    Probe = proplists:get_value(probe, Config),
    {ok, Bytes} = file:read_file(Probe),
    {ok, Pack} = whittle_elf:pack(Bytes),
    {ok, [Start | _]} = whittle_pack_format:decode(Pack),
    [#{path := <<"boot/code">>, bytes := Code} | _] = Start,
    Size = integer_to_list(byte_size(Code)),
    Trace = filename:join(directory(Config, "start_block"), "log"),
    {0, _} = running:run(os:find_executable("strace"),
                         ["-f", "-o", Trace, "-e", "trace=mmap,munmap", Probe, "args"]),
    {ok, Log} = file:read_file(Trace),
    {match, [Address]} = re:run(Log, "mmap\\(NULL, " ++ Size ++ ", .* = (0x[0-9a-f]+)",
                                [{capture, [1], list}]),
    ?assertMatch({match, _}, re:run(Log, "munmap\\(" ++ Address ++ ", " ++ Size)).

%% With any division of work between schedulers, the paths are right and the loaded code is the
%% code in the file.
start_code(Config) ->
    [begin
         {0, Output} = probe(Config, ["code"], #{env => [{"ERL_FLAGS", Schedulers}]}),
         {Loaded, Others} = term(Output),
         ?assert(Loaded > 70),
         ?assertEqual([], Others)
     end || Schedulers <- ["", "+S 1", "+S 5:5"]].

restart(Config) ->
    ?assertEqual({0, <<"stopped\nrestarted\n">>}, probe(Config, ["restart"])).

no_home(Config) ->
    ?assertEqual({0, <<"[\"args\"]\n">>}, probe(Config, ["args"], #{env => [{"HOME", false}]})).

%% Files

priv_files(Config) ->
    {0, Output} = probe(Config, ["priv"]),
    Note = <<"a file of the application\n">>,
    ?assertEqual({{ok, ["note.txt"]}, {ok, Note}, <<"file">>, true, byte_size(Note),
                  {error, enoent}},
                 term(Output)).

no_include_files(Config) ->
    ?assertEqual({0, <<"[{error,enoent},{error,enoent}]\n">>}, probe(Config, ["include"])).

%% Include files of the application and of OTP.
include_files(Config) ->
    {0, Output} = probe(Config, ["include"]),
    [{ok, Own}, {ok, Otp}] = term(Output),
    {ok, Written} = file:read_file(filename:join(running:fixture("probe"),
                                                 "include/probe.hrl")),
    ?assertEqual(Written, Own),
    ?assertMatch({_, _}, binary:match(Otp, <<"-record(file_info,">>)).

%% `pgrep -x' finds the program, also where a script started it.
name_of_the_process(Config) ->
    Port = waiting(Config),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    ?assertEqual({ok, <<"probe\n">>}, file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/comm")),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port),
    ok.

%% The directory output finds its parts by its own place, in any working directory.
moved(Config) ->
    Dir = filename:dirname(proplists:get_value(probe, Config)),
    There = filename:join(directory(Config, "moved to"), "another name"),
    {0, _} = running:run("/bin/cp", ["-R", Dir, There]),
    ?assertEqual({0, <<"[\"args\"]\n">>},
                 running:run(filename:join(There, "probe"), ["args"], #{cd => "/"})).

%% Files below 100 directories, and one with about the longest path that Linux takes: the build
%% writes to a directory with a name that is longer than the output's, by at most 40 bytes. An
%% output that is moved so that this path becomes too long does not start.
deep_directories(Config) ->
    Short = directory(Config, "s"),
    App = running:copy("probe", Short),
    Deep = lists:append(lists:duplicate(100, "d/")) ++ "file",
    Out = filename:join(directory(Config, lists:duplicate(60, $l)), "out"),
    Above = filename:join(Out, "tree/lib/probe-1.2.3/priv"),
    Longest = of_length(4095 - length(Above) - 1 - 40),
    [ok = filelib:ensure_dir(filename:join([App, "priv", Path])) || Path <- [Deep, Longest]],
    [ok = file:write_file(filename:join([App, "priv", Path]), "") || Path <- [Deep, Longest]],
    Dir = running:build(App, Out, ["--format", "dir"]),
    Exe = running:build(App, filename:join(directory(Config, "deep"), "exe")),
    ?assert(filelib:is_regular(filename:join(Above, Longest))),
    %% Descriptors are scarce, and no level needs one.
    [?assertEqual({Path, {0, <<"read\n">>}},
                  {Path, running:run("/bin/sh",
                                     ["-c", "ulimit -n 40; exec \"$0\" \"$@\"", Program, "access",
                                      "/.whittle/lib/probe-1.2.3/priv/" ++ Path])})
     || Program <- [filename:join(Dir, "probe"), Exe], Path <- [Deep, Longest]],
    Longer = Out ++ lists:duplicate(41, $r),
    ok = file:rename(Out, Longer),
    Said = iolist_to_binary(["probe: this directory is damaged, so copy it again: "
                             "tree/lib/probe-1.2.3/priv/", Longest, ": "]),
    {1, <<Said:(byte_size(Said))/binary, _/binary>>} =
        running:run(filename:join(Longer, "probe"), ["args"]),
    [{0, <<>>} = running:run("/bin/rm", ["-r", Place]) || Place <- [Longer, Short]].

of_length(Length) when Length =< 200 -> lists:duplicate(Length, $f);
of_length(Length) -> lists:duplicate(100, $d) ++ "/" ++ of_length(Length - 101).

%% A limit may end cksum by a signal, or keep its libraries out of memory. Then nothing is known
%% about the VM, but an empty one is still found.
killed_checksum(Config) ->
    Dir = copied("killed_checksum", Config),
    Tools = directory(Config, "killed_cksum"),
    Cksum = filename:join(Tools, "cksum"),
    ok = file:write_file(Cksum, "#!/bin/sh\n"),
    ok = file:change_mode(Cksum, 8#755),
    Run = fun() -> running:run(filename:join(Dir, "probe"), ["args"],
                               #{env => [{"PATH", Tools ++ ":" ++ os:getenv("PATH")}]})
          end,
    [begin
         ok = file:write_file(Cksum, ["#!/bin/sh\n", Line, "\n"]),
         ?assertEqual({0, <<"[\"args\"]\n">>}, Run())
     end || Line <- ["kill -SEGV $$", "exit 127"]],
    ok = file:write_file(filename:join(Dir, "vm"), ""),
    {1, Said} = Run(),
    ?assertMatch({match, _}, re:run(Said, "its file vm is missing or changed$", [multiline])).

%% The script of the directory says so before a shell runs an empty file as a script.
damaged_vm(Config) ->
    Dir = copied("damaged_vm", Config),
    Vm = filename:join(Dir, "vm"),
    {ok, Bytes} = file:read_file(Vm),
    Half = byte_size(Bytes) div 2,
    <<Before:Half/binary, Byte, After/binary>> = Bytes,
    Said = <<"probe: this directory is damaged, so copy it again: its file vm is missing or "
             "changed\n">>,
    [begin
         ok = file:write_file(Vm, Damaged),
         ?assertEqual({1, Said}, running:run(filename:join(Dir, "probe"), ["args"]))
     end || Damaged <- [<<>>, <<"exit 0\n">>, binary:part(Bytes, 0, 1), Before,
                        binary:part(Bytes, 0, byte_size(Bytes) - 1), [Bytes, 0],
                        [Before, Byte bxor 1, After]]],
    %% Without the program cksum the script still finds an empty file.
    ok = file:write_file(Vm, ""),
    Tools = directory(Config, "no_cksum"),
    ok = file:make_symlink(os:find_executable("readlink"), filename:join(Tools, "readlink")),
    ?assertEqual({1, Said}, running:run(filename:join(Dir, "probe"), ["args"],
                                        #{env => [{"PATH", Tools}]})),
    ok = file:delete(Vm),
    ?assertEqual({1, Said}, running:run(filename:join(Dir, "probe"), ["args"])),
    ok = file:make_dir(Vm),
    ?assertEqual({1, Said}, running:run(filename:join(Dir, "probe"), ["args"])),
    ok = file:del_dir(Vm),
    "" = os:cmd("mkfifo '" ++ Vm ++ "'"),
    ?assertEqual({1, Said}, running:run(filename:join(Dir, "probe"), ["args"])),
    ok = file:delete(Vm),
    ok = file:write_file(Vm, Bytes),
    ok = file:change_mode(Vm, 8#755),
    [?assertEqual({0, <<"[\"args\"]\n">>}, running:run(filename:join(Dir, "probe"), ["args"],
                                                     #{env => Env}))
     || Env <- [[], [{"PATH", Tools}]]].

%% Somebody replaces a file of the tree while the program runs: by a longer one, an empty one, a
%% shorter one, a FIFO, and none.
changed_tree(Config) ->
    Dir = copied("changed_tree", Config),
    Real = filename:join(Dir, "tree/lib/probe-1.2.3/priv/note.txt"),
    Read = "Read = fun() -> {file:read_file(F), case file:read_file_info(F) of"
        " {ok, Info} -> element(2, Info); {error, Why} -> Why end} end, ",
    Write = fun(Bytes) -> ["ok = file:write_file(R, ", Bytes, "), "] end,
    Do = ["F = filename:join(code:priv_dir(probe), \"note.txt\"), R = \"", Real, "\", ", Read,
          Write("binary:copy(<<\"longer\">>, 10000)"), "{{ok, L}, S} = Read(), ",
          Write("\"\""), "Empty = Read(), ", Write("\"short\""), "Short = Read(), ",
          "ok = file:delete(R), None = Read(), [] = os:cmd([\"mkfifo \", R]), Fifo = Read(), ",
          "io:format(\"~0tp~n\", [{byte_size(L), S, Empty, Short, None, Fifo}]), halt()."],
    {0, Output} = running:run(filename:join(Dir, "probe"), [],
                              #{env => [{"ERL_FLAGS", lists:flatten(["-eval '", Do, "'"])}]}),
    ?assertEqual({60000, 60000, {{ok, <<>>}, 0}, {{ok, <<"short">>}, 5},
                  {{error, enoent}, enoent}, {{error, einval}, enoent}}, term(Output)).

%% A file of the tree is missing, or has another size.
damaged_tree(Config) ->
    Dir = copied("damaged_tree", Config),
    Tree = filename:join(Dir, "tree"),
    Start = fun() -> running:run(filename:join(Dir, "probe"), ["args"]) end,
    Said = fun(Path, Why) ->
                   {1, iolist_to_binary(["probe: this directory is damaged, so copy it again: "
                                         "tree/", Path, ": ", Why, $\n])}
           end,
    [begin
         File = filename:join(Tree, Path),
         {ok, Bytes} = file:read_file(File),
         Size = integer_to_list(byte_size(Bytes)),
         [begin
              ok = file:write_file(File, Damaged),
              ?assertEqual(Said(Path, ["it has ", integer_to_list(iolist_size(Damaged)),
                                       " bytes, and the build wrote ", Size]), Start())
          end || Damaged <- [<<>>, binary:part(Bytes, 0, byte_size(Bytes) - 1), [Bytes, 0]]],
         ok = file:delete(File),
         ?assertEqual(Said(Path, "No such file or directory"), Start()),
         ok = file:make_dir(File),
         ?assertEqual(Said(Path, "it is not a regular file of less than 4 GB"), Start()),
         ok = file:del_dir(File),
         ok = file:write_file(File, Bytes)
     end || Path <- ["etc/flags", "boot/start.boot", "lib/probe-1.2.3/priv/note.txt",
                     "lib/probe-1.2.3/ebin/probe.beam"]],
    List = filename:join(Tree, "etc/files"),
    {ok, Lines} = file:read_file(List),
    [First | Others] = binary:split(Lines, <<"\n">>),
    [begin
         ok = file:write_file(List, Damaged),
         {Code, Line} = Start(),
         {_, Begin} = Said("etc/files", ""),
         ?assertEqual({iolist_size(Damaged), 1, byte_size(Begin) - 1},
                      {iolist_size(Damaged), Code, binary:longest_common_prefix([Line, Begin])})
     end || Damaged <- [<<>>, <<0>>, <<"0\n">>, <<"7">>, <<"-1\n">>, <<"99999999999999999999\n">>,
                        binary:part(Lines, 0, byte_size(Lines) - 1),
                        binary:part(Lines, 0, byte_size(Lines) div 2),
                        [Lines, "1 x\n"], [First, "\n\n", Others], [First, "\n x\n", Others]]],
    ok = file:delete(List),
    ?assertEqual(Said("etc/files", "No such file or directory"), Start()),
    "" = os:cmd("mkfifo '" ++ List ++ "'"),
    ?assertEqual(Said("etc/files", "it is not a regular file"), Start()),
    ok = file:delete(List),
    ok = file:write_file(List, Lines),
    ?assertEqual({0, <<"[\"args\"]\n">>}, Start()).

copied(Name, Config) ->
    Dir = filename:join(directory(Config, Name), "copy"),
    {0, <<>>} = running:run("/bin/cp", ["-R", filename:dirname(proplists:get_value(probe, Config)),
                                        Dir]),
    Dir.

%% By whatever path it is called, and from wherever.
found_from_anywhere(Config) ->
    From = filename:dirname(proplists:get_value(probe, Config)),
    Here = directory(Config, "found"),
    Dirs = ["-d", "ends with a newline\n", "$(false) `false` 'a' \"b\" *"],
    [{0, _} = running:run("/bin/cp", ["-R", From, filename:join(Here, Dir)]) || Dir <- Dirs],
    ok = filelib:ensure_path(filename:join([Here, "other", "-d"])),
    Link = filename:join(Here, "-link"),
    ok = file:make_symlink(filename:join("-d", "probe"), Link),
    ok = file:make_symlink(Link, filename:join(Here, "link to the link")),
    [?assertEqual({Word, Env, {0, <<"[\"args\"]\n">>}},
                  {Word, Env, running:run(os:find_executable("env"), ["--", Word, "args"],
                                          #{cd => Here, env => Env})})
     || Env <- [[], [{"CDPATH", filename:join(Here, "other") ++ ":."}]],
        Word <- ["./-link", "./link to the link", Link]
            ++ [filename:join(Place, "probe")
                || Dir <- Dirs, Place <- [Dir, filename:join(Here, Dir)]]].

pack_is_read_only(Config) ->
    {0, Output} = probe(Config, ["read_only"]),
    ?assertEqual(lists:duplicate(8, {error, erofs}), term(Output)).

null_device(Config) ->
    {0, Output} = probe(Config, ["discard"]),
    ?assertEqual({ok, eof}, term(Output)).

%% A system's requirements of the machine

ports(Config) ->
    {0, Output} = probe(Config, ["port", "/bin/sh", "-c", "echo out; exit 5"]),
    ?assertEqual({5, <<"out\n">>}, term(Output)).

commands(Config) ->
    ?assertEqual({0, <<"one\ntwo\n">>}, probe(Config, ["command", "echo one; echo two"])).

%% A command without a directory comes from the machine, except for OTP's own programs. Nothing
%% looks for it in the pack.
bare_words(Config) ->
    Bin = filename:join([filename:dirname(proplists:get_value(probe, Config)), "tree", "bin"]),
    Script = filename:join(Bin, "packed_word"),
    ok = filelib:ensure_dir(Script),
    ok = file:write_file(Script, "#!/bin/sh\necho from the pack\n"),
    ok = file:change_mode(Script, 8#755),
    {0, Output} = probe(Config, ["spawn", "packed_word"]),
    ?assertMatch({match, _}, re:run(Output, "\\{127,<<[^\n]*>>\\}\n$")),
    ok = file:delete(Script).

names(Config) ->
    {0, Output} = probe(Config, ["resolve", "localhost"]),
    {ok, {hostent, Name, Others, inet, 4, [{127, 0, 0, 1} | _]}} = term(Output),
    ?assertNot(lists:member(Name, Others)).

address_without_a_name(Config) ->
    ?assertMatch({0, <<"{error,nxdomain}", _/binary>>}, probe(Config, ["who", "127.1.2.3"])),
    {0, Output} = probe(Config, ["who", "127.0.0.1"]),
    {ok, {hostent, Name, Others, inet, 4, [{127, 0, 0, 1}]}} = term(Output),
    ?assertNot(lists:member(Name, Others)).

tcp(Config) ->
    [?assertEqual({0, <<"{ok,<<\"OVER TCP\\n\">>}\n">>}, probe(Config, ["tcp", Backend]))
     || Backend <- ["inet", "socket"]].

udp(Config) ->
    ?assertEqual({0, <<"<<\"over udp\">>\n">>}, probe(Config, ["udp"])).

sockets(Config) ->
    ?assertEqual({0, <<"{ok,<<\"over socket\">>}\n">>}, probe(Config, ["socket"])).

%% Whittle's own flags

own_flags(Config) ->
    {0, Help} = probe(Config, ["--whittle-help"]),
    ?assertMatch({match, _}, re:run(Help, "--whittle-info")),
    {2, _} = probe(Config, ["--whittle-info", "more"]).

unknown_own_flag(Config) ->
    ?assertEqual({2, <<"probe: --whittle-nonsense: there is no such flag; --whittle-help lists the "
                       "flags\n">>}, probe(Config, ["--whittle-nonsense"])).

info(Config) ->
    {0, Text} = probe(Config, ["--whittle-info"]),
    [?assertMatch({match, _}, re:run(Text, Word)) || Word <- ["probe", "1\\.2\\.3", "x86_64"]],
    {0, Json} = probe(Config, ["--whittle-info=json"]),
    ?assertMatch(<<"{", _/binary>>, Json),
    {0, Licenses} = probe(Config, ["--whittle-licenses"]),
    ?assertMatch({match, _}, re:run(Licenses, "Apache")),
    {0, Bom} = probe(Config, ["--whittle-bom"]),
    ?assertMatch({match, _}, re:run(Bom, "SPDX-2\\.3")).

%% A changed byte of the pack: three of them here, every one in whittle_pack_reader_SUITE.
damaged(Config) ->
    {ok, Bytes} = file:read_file(proplists:get_value(probe, Config)),
    {Start, _} = lists:last(binary:matches(Bytes, <<"Whittle", 1>>)),
    [begin
         <<Before:Offset/binary, Byte, After/binary>> = Bytes,
         ?assertEqual({1, <<"probe: this file is damaged, so copy it again: "
                            "its checksum is wrong\n">>},
                      changed("damaged", [Before, Byte bxor 1, After], Config))
     end || Offset <- [Start + 40, (Start + byte_size(Bytes)) div 2, byte_size(Bytes) - 1]].

%% A download that stopped anywhere in the pack.
cut_off(Config) ->
    {ok, Bytes} = file:read_file(proplists:get_value(probe, Config)),
    {Start, _} = lists:last(binary:matches(Bytes, <<"Whittle", 1>>)),
    [?assertEqual({1, <<"probe: this file is damaged, so copy it again: its end is missing\n">>},
                  changed("cut_off", [binary:part(Bytes, 0, Size)], Config))
     || Size <- [Start, Start + 1, Start + 5000, (Start + byte_size(Bytes)) div 2,
                 byte_size(Bytes) - 5000, byte_size(Bytes) - 1]].

not_a_pack(Config) ->
    {ok, Bytes} = file:read_file(proplists:get_value(probe, Config)),
    {Start, _} = lists:last(binary:matches(Bytes, <<"Whittle", 1>>)),
    <<Before:Start/binary, Byte, After/binary>> = Bytes,
    ?assertEqual({1, <<"probe: this file is damaged, so copy it again: "
                       "the first bytes of the pack are wrong\n">>},
                 changed("not_a_pack", [Before, Byte bxor 1, After], Config)).

%% strip removes the pack, because it is in no section.
stripped(Config) ->
    File = filename:join(directory(Config, "stripped"), "probe"),
    {0, _} = running:run(os:find_executable("strip"),
                         ["-o", File, proplists:get_value(probe, Config)]),
    ?assertEqual({1, <<"probe: this file holds no application: it is the VM alone, because "
                       "strip and objcopy remove a packed application; copy the build's output "
                       "again\n">>},
                 running:run(File, ["args"])).

changed(Name, Bytes, Config) ->
    File = filename:join(directory(Config, Name), "probe"),
    ok = file:write_file(File, Bytes),
    ok = file:change_mode(File, 8#755),
    running:run(File, ["args"]).

%% Settings that override the packed ones

settings_that_say_nothing(Config) ->
    [?assertEqual({Code, <<"probe: ", Said/binary, "\n">>},
                  probe(Config, ["args"], #{env => [{Name, Value}]}))
     || {Name, Value, Code, Said} <-
            [{"RELEASE_DISTRIBUTION", "foo", 2,
              <<"RELEASE_DISTRIBUTION is foo, which is not name, sname or none">>},
             {"ERL_DIST_PORT", "abc", 2,
              <<"ERL_DIST_PORT is abc, which is not a port (1 to 65535)">>},
             {"ERL_DIST_PORT", "65536", 2,
              <<"ERL_DIST_PORT is 65536, which is not a port (1 to 65535)">>},
             {"RELEASE_NODE", "a@b.example", 2,
              <<"a@b.example: the host of a short name (-sname) must not have a dot; "
                "use -name, or RELEASE_DISTRIBUTION=name">>},
             {"RELEASE_NODE", "a b", 2,
              <<"a b: is not a node name: use letters, digits, _ and -; @HOST may follow">>},
             {"RELX_CONFIG_PATH", "/tmp/none", 1,
              <<"RELX_CONFIG_PATH names /tmp/none.config: No such file or directory">>},
             {"VMARGS_PATH", "/tmp", 1, <<"VMARGS_PATH names /tmp: Is a directory">>}]].

config_file(Config) ->
    ?assertEqual({0, <<"\"from the application\"\n">>}, probe(Config, ["color"])),
    File = filename:join(directory(Config, "config"), "mine.config"),
    ok = file:write_file(File, "[{probe, [{color, \"from a file\"}]}].\n"),
    [?assertEqual({0, <<"\"from a file\"\n">>},
                  probe(Config, ["color"], #{env => [{Name, File}]}))
     || Name <- ["RELX_CONFIG_PATH", "RELEASE_SYS_CONFIG"]].

vm_args_file(Config) ->
    File = filename:join(directory(Config, "vm_args"), "vm.args"),
    ok = file:write_file(File, "# a comment\n-env MINE 'two words' # and one\n"
                         "-probe color '\"from ${WHERE}\"'\n"),
    [?assertEqual({0, <<"\"from vm.args\"\n">>},
                  probe(Config, ["color"], #{env => [{Name, File}, {"WHERE", "vm.args"}]}))
     || Name <- ["VMARGS_PATH", "RELEASE_VM_ARGS"]],
    ?assertEqual({0, <<"\"two words\"\n">>},
                 probe(Config, ["env", "MINE"], #{env => [{"VMARGS_PATH", File}]})).

flags_variables(Config) ->
    [?assertEqual({0, <<"\"from a flag\"\n">>},
                  probe(Config, ["color"], #{env => [{Name, "-probe color '\"from a flag\"'"}]}))
     || Name <- ["ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"]].

%% As an argument of -noshell, the word would make the VM evaluate standard input.
stray_word_in_the_flags(Config) ->
    ?assertEqual({0, <<"{ok,[[]]}\n">>},
                 probe(Config, ["flag", "noshell"], #{env => [{"ERL_FLAGS", "sname gateway"}]})).

%% Shared functions

probe(Config, Words) -> probe(Config, Words, #{}).

probe(Config, Words, Options) ->
    running:run(proplists:get_value(probe, Config), Words, Options).

waiting(Config) -> waiting(Config, "wait").

waiting(Config, Word) ->
    Port = running:start(proplists:get_value(probe, Config), [Word]),
    <<"ready ", _/binary>> = running:line(Port),
    Port.

directory(Config, Name) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Dir.

term(Output) ->
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Output) ++ "."),
    {ok, Term} = erl_parse:parse_term(Tokens),
    Term.
