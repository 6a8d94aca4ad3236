%% @doc `whittle trace': runs a command, and records which functions the Erlang VMs call
%% that it starts.
%%
%% The command is to have the terminal, the signals and standard input. So the script
%% `whittle' runs it, between two runs of this module: the first makes a directory with
%% the recorder (device/whittle_trace), and writes for the shell what to run to descriptor
%% 3. The second, which the script gives the directory in `WHITTLE_TRACED', makes one file
%% of what is in it. The environment brings the recorder into each VM.
-module(whittle_cmd_trace).
-behaviour(whittle).

-import(whittle_cmd_run, [quoted/1]).

-export([run/1]).

-define(RECORDER, "whittle_trace.beam").

%% @doc One of the two halves.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Program | _]} = Values) ->
    Out = maps:get(out, Values, filename:basename(Program) ++ ".trace"),
    case os:getenv("WHITTLE_TRACED") of
        false -> begin_recording(Values, Out);
        Dir -> collect(Dir, Out)
    end.

begin_recording(#{arguments := [Program | Arguments]}, Out) ->
    whittle_steps:steps([fun(_) -> find(Program) end,
                         fun(Found) -> directory(Found, Out) end,
                         fun({Found, Dir}) -> hand_over(Dir, [Found | Arguments]) end]).

find(Program) ->
    %% With a slash in it, it is not looked for on the PATH.
    Path = case lists:member($/, Program) of
               true -> filename:absname(Program);
               false -> Program
           end,
    case os:find_executable(Path) of
        false -> {error, {work, [Program, " is no program that can be run: correct the command"]}};
        Found -> {ok, Found}
    end.

%% Refused before the command has run for an hour.
directory(Found, Out) ->
    Parent = filename:dirname(filename:absname(Out)),
    case {filelib:is_dir(Out), filelib:is_dir(Parent)} of
        {false, true} -> directory(Found);
        {true, _} -> {error, {work, [Out, " is a directory: name a file with -o"]}};
        {_, false} -> {error, {work, [Parent, " is no directory: name another file with -o"]}}
    end.

directory(Found) ->
    Dir = filename:join(os:getenv("TMPDIR", "/tmp"), "whittle-trace-" ++ os:getpid() ++ "-"
                        ++ integer_to_list(erlang:system_time())),
    Recorder = filename:join([code:lib_dir(whittle_system), "..", "whittle_trace", "ebin",
                              ?RECORDER]),
    whittle_unfinished:begun(Dir, fun() -> file:del_dir_r(Dir) end),
    case whittle_steps:steps([fun(_) -> file:make_dir(Dir) end,
                              fun(_) -> file:copy(Recorder, filename:join(Dir, ?RECORDER)) end]) of
        {ok, _} -> {ok, {Found, Dir}};
        {error, Reason} ->
            {error, {work, [Dir, " cannot be made (", file:format_error(Reason),
                            "): set TMPDIR to a directory with room"]}}
    end.

hand_over(Dir, Words) ->
    %% First of all flags: what follows an `-extra' is the program's.
    Flags = ["-pa ", quoted(Dir), " -s whittle_trace ", os:getenv("ERL_AFLAGS", "")],
    Set = [[Name, $=, quoted(unicode:characters_to_list(Value))]
           || {Name, Value} <- [{"WHITTLE_TRACE", Dir}, {"ERL_AFLAGS", Flags}]],
    ok = file:write_file("/dev/fd/3",
                         ["traced=", quoted(Dir), "; (exec env ",
                          lists:join($\s, Set ++ [quoted(Word) || Word <- Words]), ")"]),
    {ok, #{text => "", json => null}}.

collect(Dir, Out) ->
    Files = filelib:wildcard(filename:join(Dir, "*-*")),
    Records = [whittle_shake_evidence:packets(Bytes)
               || File <- Files, {ok, Bytes} <- [file:read_file(File)]],
    Evidence = whittle_shake_evidence:merge(lists:append(Records)),
    _ = file:del_dir_r(Dir),
    case whittle_shake_evidence:size(Evidence) of
        {0, _} ->
            {error, {work, ["nothing was recorded, and ", Out, " not written: the command "
                            "started no Erlang VM, or none that takes ERL_AFLAGS"]}};
        {Functions, Modules} ->
            case whittle_pack:write_beside(Out, whittle_shake_evidence:to_binary(Evidence)) of
                ok ->
                    {ok, #{text => io_lib:format("~ts: ~b functions of ~b modules, called in ~ts~n",
                                                 [Out, Functions, Modules,
                                                  vms(length(Records))]),
                           json => null}};
                {error, Error} ->
                    {error, {work, whittle_pack:format_error(Error)}}
            end
    end.

vms(1) -> "one VM";
vms(Count) -> io_lib:format("~b VMs", [Count]).
