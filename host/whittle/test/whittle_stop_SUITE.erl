%% @doc Tests that a command stops at any point and leaves nothing behind.
-module(whittle_stop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([in_a_call_that_ends/1, in_a_call_without_end/1, in_the_list/1,
         hangup/1, other_signals/1, hangup_ignored/1, undo_that_fails/1, change_that_stays/1,
         undo_without_end/1, complete_output/1, removal_from_cache/1, in_order/1, at_once/1]).
%% This runs in the VM that the test stops.
-export([work/0]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [in_a_call_that_ends, in_a_call_without_end, in_the_list, hangup, other_signals,
          hangup_ignored,
         undo_that_fails, change_that_stays, undo_without_end, complete_output, removal_from_cache,
         in_order, at_once].

init_per_testcase(Case, Config) ->
    [{dir, Dir} | _] = Own = made:dir(Case, Config),
    "" = os:cmd("mkfifo '" ++ filename:join(Dir, "pipe") ++ "'"),
    [{marks, [made:file(filename:join(Dir, Name), "") || Name <- ["one", "two"]]} | Own].

%% A VM that did not end would stay forever.
end_per_testcase(_, Config) ->
    case proplists:get_value(tc_status, Config) of
        ok -> ok;
        _ ->
            {ok, Pid} = file:read_file(filename:join(proplists:get_value(dir, Config), "pid")),
            os:cmd("kill -KILL " ++ binary_to_list(Pid))
    end.

%% The worker is in a file system call when it is suspended, and then leaves the call. A write to
%% a disk behaves like this.
in_a_call_that_ends(Config) ->
    {Port, Pipe} = working("sound", Config),
    terminate(Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    ?assertMatch({143, _}, made:ended(Port)),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% The worker does not leave the call, as with a disk that does not respond.
in_a_call_without_end(Config) ->
    {Port, Pipe} = working("sound", Config),
    terminate(Port),
    ?assertMatch({143, _}, made:ended(Port)),
    ok = file:close(Pipe),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% The worker is usually suspended while it changes the list of unfinished files, because it does
%% nothing else.
in_the_list(Config) ->
    {Port, Pipe} = working("lists", Config),
    ok = file:close(Pipe),
    [] = made:expect(Port, "lists"),
    terminate(Port),
    ?assertMatch({143, _}, made:ended(Port)),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% A closed terminal sends SIGHUP to the VM itself.
hangup(Config) ->
    {Port, Pipe} = working("sound", Config),
    signal("HUP", Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    ?assertMatch({129, _}, made:ended(Port)),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% They come to the VM if somebody sends them to the whole process group.
other_signals(Config) ->
    [begin
         {Port, Pipe} = working("sound", Config),
         signal(Signal, Port),
         [] = made:expect(Port, "suspending"),
         ok = file:close(Pipe),
         ?assertMatch({143, _}, made:ended(Port))
     end || Signal <- ["USR2", "ALRM"]].

%% Under nohup, SIGHUP does nothing. SIGTERM comes after it and ends the VM.
hangup_ignored(Config) ->
    {Port, Pipe} = working("trap '' HUP; exec", "sound", Config),
    signal("HUP", Port),
    terminate(Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    ?assertMatch({143, _}, made:ended(Port)).

%% The signal comes between the move of an entry of the cache and the removal of its files.
removal_from_cache(Config) ->
    Cache = filename:join(proplists:get_value(dir, Config), "cache"),
    Name = "otp-25-0123456789abcdef",
    made:file(filename:join([Cache, "locks", Name]), ""),
    made:file(filename:join([Cache, "work", Name ++ "@A", "file"]), "left by another build"),
    ?assertMatch({143, _}, terminated("sweeps", Config)),
    ?assertEqual({ok, []}, file:list_dir_all(filename:join(Cache, "work"))).

%% The other files are removed, and the message names the rest.
undo_that_fails(Config) ->
    {1, Said} = terminated("raises", Config),
    ?assertMatch({match, _}, re:run(Said, "stopped, but could not remove nowhere "
                                          ".*on_purpose")),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% A disk that was written in part: the message says so in place of the script's message.
change_that_stays(Config) ->
    {1, Said} = terminated("changes", Config),
    ?assertMatch({_, _}, binary:match(Said, <<"whittle: stopped; /dev/x has a part of a card\n">>)),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% The limit of the test is short. The other limits of a stop are longer, so the message cannot come
%% from them.
undo_without_end(Config) ->
    {Port, Pipe} = working("waits", Config),
    ok = file:close(Pipe),
    terminate(Port),
    {1, Said} = made:ended(Port),
    [_, Two] = lists:sort(proplists:get_value(marks, Config)),
    ?assertMatch({_, _}, binary:match(Said, iolist_to_binary(
                                              ["whittle: stopped, but could not remove ", Two,
                                               " (timeout): remove it yourself\n"]))).

%% The output was already complete, so it stays and the message names it.
complete_output(Config) ->
    {Port, Pipe} = working("writes", Config),
    terminate(Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    Out = filename:join(proplists:get_value(dir, Config), "out"),
    {143, Said} = made:ended(Port),
    ?assertMatch({_, _}, binary:match(Said, list_to_binary(["whittle: ", Out,
                                                            " is complete\n"]))),
    ?assertEqual({ok, <<"bytes">>}, file:read_file(Out)).

%% The first signal only calls the function of the work, and its repetitions do nothing. The work
%% then knows the exit code of the signal.
in_order(Config) ->
    {Port, Pipe} = working("orders", Config),
    terminate(Port),
    [] = made:expect(Port, "asked\\n"),
    signal("HUP", Port),
    terminate(Port),
    ok = file:close(Pipe),
    ?assertMatch({7, <<"143\n">>}, made:ended(Port)).

%% SIGUSR1 ends the VM although the work wanted to end in order.
at_once(Config) ->
    {Port, Pipe} = working("orders", Config),
    terminate(Port),
    [] = made:expect(Port, "asked\\n"),
    signal("USR1", Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    ?assertMatch({143, _}, made:ended(Port)),
    ?assertEqual([], [Mark || Mark <- proplists:get_value(marks, Config),
                              filelib:is_file(Mark)]).

%% Terminates the work when its files are there, and returns the exit code and the output.
terminated(Work, Config) ->
    {Port, Pipe} = working(Work, Config),
    terminate(Port),
    [] = made:expect(Port, "suspending"),
    ok = file:close(Pipe),
    made:ended(Port).

%% Starts a VM whose worker is in a call that reads from a pipe. It returns the VM and the other
%% end of the pipe.
working(How, Config) -> working("exec env --default-signal=HUP", How, Config).

%% Line is the beginning of a line for sh that replaces the shell by the VM. A process inherits an
%% ignored SIGHUP, and these tests may run under nohup.
working(Line, How, Config) ->
    Dir = proplists:get_value(dir, Config),
    Paths = [filename:dirname(code:which(Module))
             || Module <- [whittle_stop, whittle_unfinished, whittle_pack, whittle_cache_clean,
                           ?MODULE]],
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Line ++ " \"$0\" \"$@\"", os:find_executable("erl"),
                              "-noinput", "-boot", "no_dot_erlang", "-pa"] ++ Paths
                           ++ ["-s", atom_to_list(?MODULE), "work", "-extra", How, Dir]},
                      exit_status, stderr_to_stdout, binary]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    made:file(filename:join(Dir, "pid"), integer_to_list(Pid)),
    %% This call waits until the other end is open too.
    {ok, Pipe} = file:open(filename:join(Dir, "pipe"), [write, raw]),
    {Port, Pipe}.

terminate(Port) -> signal("TERM", Port).

signal(Name, Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Pid)).

%% Runs in the VM. It traces the signal handler, so that the test knows when the handler asks.
work() ->
    [How, Dir] = init:get_plain_arguments(),
    case How of
        "waits" -> ok = whittle_stop:install(500);
        _ -> ok = whittle_stop:install()
    end,
    [ok = whittle_unfinished:begun(Mark, fun() -> file:delete(Mark) end)
     || Name <- ["one", "two"], Mark <- [filename:join(Dir, Name)]],
    _ = [ok = whittle_unfinished:begun("nowhere", fun() -> error(on_purpose) end)
         || How =:= "raises"],
    _ = [ok = whittle_unfinished:begun(filename:join(Dir, "two"),
                                       fun() -> receive after infinity -> ok end end)
         || How =:= "waits"],
    _ = [ok = whittle_unfinished:changing("/dev/x", "/dev/x has a part of a card")
         || How =:= "changes"],
    _ = [ok = whittle_pack:write_beside(filename:join(Dir, "out"), "bytes") || How =:= "writes"],
    _ = [ok = whittle_stop:in_order(fun() -> io:put_chars("asked\n") end) || How =:= "orders"],
    Watch = spawn(fun watch/0),
    _ = erlang:trace_pattern({erlang, suspend_process, '_'}, true, []),
    1 = erlang:trace(whereis(erl_signal_server), true, [call, {tracer, Watch}]),
    Read = fun() ->
                   {ok, Pipe} = file:open(filename:join(Dir, "pipe"), [read, raw]),
                   file:read(Pipe, 1)
           end,
    _ = case How of
            "sweeps" -> whittle_cache_clean:sweep(filename:join(Dir, "cache"), "own", Read);
            _ -> Read()
        end,
    _ = [begin
             io:format("~p~n", [whittle_stop:asked()]),
             halt(7)
         end || How =:= "orders"],
    _ = [change_the_list() || How =:= "lists", ok <- [io:put_chars("lists\n")]],
    receive after infinity -> ok end.

-spec change_the_list() -> no_return().
change_the_list() ->
    ok = whittle_unfinished:begun("place", fun() -> ok end),
    ok = whittle_unfinished:done("place"),
    change_the_list().

watch() ->
    receive {trace, _, call, _} -> io:put_chars("suspending\n") end,
    watch().
