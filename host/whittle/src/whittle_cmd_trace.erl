%% @doc Implements `whittle trace'. It runs a command, and records the functions that the Erlang
%% VMs of the command call.
%%
%% The command needs the terminal, the signals and stdin. So the script `whittle' runs it, between
%% two runs of this module. The first run makes a directory with the recorder
%% (device/whittle_trace) and gives the script the function to run ({@link whittle_shell}). The
%% script passes the directory to the second run in `WHITTLE_TRACED'. The second run joins the
%% files of the directory into one. The environment loads the recorder into each VM.
-module(whittle_cmd_trace).
-behaviour(whittle).

-import(whittle_program, [quoted/1]).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "trace", arguments => ["-- CMD", "[ARGUMENT...]"],
      help => "run a command and record the functions that its Erlang VMs call, for "
              "`build --evidence'; it exits with the code of CMD, or with 1 if only the recording "
              "failed",
      options => [#{name => out, long => "out", short => $o, value => "FILE",
                    help => "the path of the recording (default: CMD's name with .trace)"}]}.

%% @doc Runs the first or the second half.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Program | _]} = Values) ->
    Out = maps:get(out, Values, filename:basename(Program) ++ ".trace"),
    case os:getenv("WHITTLE_TRACED") of
        false -> begin_recording(Values, Out);
        Dir -> collect(Dir, Out)
    end.

begin_recording(#{arguments := [Program | Arguments]}, Out) ->
    whittle_work:steps([fun(_) -> find(Program) end,
                         fun(Found) ->
                                 whittle_work:steps(
                                   [fun(_) -> no_image(Found) end,
                                    fun(_) -> whittle_failure:replaces(Out, Found) end,
                                    fun(_) -> check(Out) end,
                                    fun(_) -> make_directory() end,
                                    fun(Dir) -> hand_over(Dir, [Found | Arguments]) end])
                         end]).

%% A shell runs a file of an unknown kind as a script.
no_image(File) ->
    whittle_failure:no_image(File, "trace", "a program for this machine: build it without --board").

find(Program) ->
    %% The shell does not look on the PATH for a name with a slash in it.
    Path = case lists:member($/, Program) of
               true -> filename:absname(Program);
               false -> Program
           end,
    case os:find_executable(Path) of
        false ->
            %% Images are not executable.
            whittle_work:steps(
              [fun(_) -> no_image(Program) end,
               fun(_) ->
                       whittle_failure:work([Program, " is not an executable program: correct the "
                                             "command"])
               end]);
        Found -> {ok, Found}
    end.

%% Checks the output file before the command runs, because the command may take an hour.
check(Out) ->
    case whittle_pack:check_beside(Out, whittle_shake_evidence:signature()) of
        ok -> ok;
        {error, Error} -> whittle_failure:work(cannot_write(Error))
    end.

cannot_write({is_directory, Out}) -> [Out, " is a directory: name a file with -o"];
cannot_write(Error) -> whittle_pack:format_error(Error).

%% The script sets the variable: it uses the directory while the command runs, after this VM has
%% ended.
make_directory() ->
    case whittle_recording:start(os:getenv("WHITTLE_OWNER", os:getpid())) of
        {ok, _} = Started -> Started;
        {error, {Dir, Reason}} ->
            whittle_failure:work([Dir, " cannot be written (", file:format_error(Reason),
                                  "): set TMPDIR to a directory with free space"])
    end.

%% Hands over to the script. Its function `traced' runs the command, and its variable `traced'
%% holds the directory.
hand_over(Dir, Words) ->
    Set = [["export ", Name, $=, quoted(Value), "; "]
           || {Name, Value} <- whittle_recording:environment(Dir)],
    case whittle_shell:hand_over(["traced=", quoted(Dir), "; traced() { ", Set, "exec \"$@\" ",
                                  lists:join($\s, [quoted(Word) || Word <- Words]), "; }"]) of
        ok ->
            {ok, #{text => "", json => null}};
        {error, _} = Error ->
            whittle_recording:remove(Dir),
            Error
    end.

collect(Dir, Out) ->
    {Evidence, Ends} = whittle_recording:collect(Dir),
    case whittle_shake_evidence:size(Evidence) of
        {0, _} ->
            whittle_recording:remove(Dir),
            whittle_failure:work(["the trace recorded nothing, so Whittle did not write ", Out,
                                  ": the command started no Erlang VM that Whittle can record, "
                                  "or the VM ended at once; give a command that starts a VM of "
                                  "OTP ", erlang:system_info(otp_release), " or newer, or an "
                                  "executable that Whittle built without --shake "
                                  "(docs/recordings.md of Whittle's source describes both)"]);
        {Functions, Modules} ->
            case write(Out, Dir, whittle_shake_evidence:to_binary(Evidence)) of
                ok ->
                    Own = length(whittle_recording:own(Evidence)),
                    {ok, #{text => [io_lib:format("~ts: ~b functions of ~b modules (~ts of the "
                                                  "program itself), called in ~ts~n",
                                                  [Out, Functions, Modules, modules(Own),
                                                   vms(length(Ends))])
                                    | lists:map(fun note/1, doubts(Own, Ends))],
                           json => null}};
                {error, _} = Error ->
                    Error
            end
    end.

note(Text) -> ["whittle: note: ", Text, $\n].

%% Lists the reasons why the recording may be incomplete.
doubts(Own, Ends) ->
    CutShort = length([cut_short || cut_short <- Ends]),
    ["the recording has no function of the program itself: a VM that halts soon after its start "
      "may end before Whittle reads its calls; see docs/recordings.md of Whittle's source"
     || Own =:= 0]
        ++ [[vms(CutShort), " called halt/1, ", Was, " killed or still ", Run, ", so ", Its,
             " last calls may be missing"]
            || CutShort > 0, {Was, Run, Its} <- [case CutShort of
                                                     1 -> {"was", "runs", "its"};
                                                     _ -> {"were", "run", "their"}
                                                 end]].

%% Writes the recording, and then removes the directory. The run may have taken an hour.
write(Out, Dir, Bytes) ->
    %% Another file may have appeared there during the run.
    case whittle_pack:write_beside(Out, Bytes, whittle_shake_evidence:signature()) of
        ok ->
            whittle_recording:remove(Dir);
        {error, Error} ->
            Kept = whittle_recording:keep(Dir),
            Instead = filename:join(Kept, "record.trace"),
            case whittle_pack:write_beside(Instead, Bytes) of
                ok ->
                    whittle_failure:work([cannot_write(Error), "; the recording is in ", Instead,
                                          ": move it"]);
                {error, _} ->
                    whittle_failure:work([cannot_write(Error), "; the recorded data is in ", Kept,
                                          ": free space, and record again"])
            end
    end.

modules(1) -> "1 module";
modules(Count) -> io_lib:format("~b modules", [Count]).

vms(1) -> "one VM";
vms(Count) -> io_lib:format("~b VMs", [Count]).
