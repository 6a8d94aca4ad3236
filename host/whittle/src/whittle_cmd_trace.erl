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

-import(whittle_shell, [quoted/1]).

-export([command/0, run/1]).

%% The modules to copy for the VMs. The second module starts the recorder in a VM that Whittle did
%% not build.
-define(RECORDER, ["whittle_trace", "whittle_trace_begin"]).

%% The number of later OTP releases to record besides the host's own. They take nine years.
-define(NEWER, 9).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "trace", arguments => ["-- CMD", "[ARGUMENT...]"],
      help => "run a command and record the functions that its Erlang VMs call, for "
              "`build --evidence'",
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
                                   [fun(_) -> check(Out) end,
                                    fun(_) -> make_directory() end,
                                    fun(Dir) -> hand_over(Dir, [Found | Arguments]) end])
                         end]).

find(Program) ->
    %% The shell does not look on the PATH for a name with a slash in it.
    Path = case lists:member($/, Program) of
               true -> filename:absname(Program);
               false -> Program
           end,
    case os:find_executable(Path) of
        false -> {error, {work, [Program, " is not an executable program: correct the command"]}};
        Found -> {ok, Found}
    end.

%% Checks the output file before the command runs, because the command may take an hour.
check(Out) ->
    case whittle_pack:check_beside(Out) of
        ok -> ok;
        {error, Error} -> {error, {work, cannot_write(Error)}}
    end.

cannot_write({is_directory, Out}) -> [Out, " is a directory: name a file with -o"];
cannot_write(Error) -> whittle_pack:format_error(Error).

make_directory() ->
    case whittle_unfinished:make_directory("whittle-trace") of
        {ok, Dir} ->
            Ebin = filename:join([code:lib_dir(whittle_system), "..", "whittle_trace", "ebin"]),
            Copy = fun(Name) ->
                           file:copy(filename:join(Ebin, Name), filename:join(Dir, Name))
                   end,
            case whittle_work:steps([fun(_) -> Copy(Name ++ ".beam") end || Name <- ?RECORDER]) of
                {ok, _} -> {ok, Dir};
                {error, Reason} ->
                    whittle_unfinished:remove_directory(Dir),
                    {error, no_directory(Dir, Reason)}
            end;
        {error, {Base, Reason}} ->
            {error, no_directory(Base, Reason)}
    end.

no_directory(Dir, Reason) ->
    {work, [Dir, " cannot be written (", file:format_error(Reason),
            "): set TMPDIR to a directory with free space"]}.

%% Hands over to the script. Its function `traced' runs the command, and its variable `traced'
%% holds the directory.
hand_over(Dir, Words) ->
    Set = [["export ", Name, $=, quoted(Value), "; "]
           || {Name, Value} <- [{"WHITTLE_TRACE", Dir} | flags(Dir)]],
    case whittle_shell:hand_over(["traced=", quoted(Dir), "; traced() { ", Set, "exec \"$@\" ",
                                  lists:join($\s, [quoted(Word) || Word <- Words]), "; }"]) of
        ok ->
            {ok, #{text => "", json => null}};
        {error, _} = Error ->
            whittle_unfinished:remove_directory(Dir),
            Error
    end.

%% Sets the flags that load the recorder. `erl' puts ERL_OTP29_FLAGS before all other flags of OTP
%% 29, because the arguments after an `-extra' belong to the program. Other releases ignore this
%% variable. The recorder skips releases older than the host's, because they cannot load code of
%% the host's compiler. Whittle's executables ignore these variables.
flags(Dir) ->
    %% code:ensure_modules_loaded/1 ignores a module that it cannot load.
    Ours = ["-pa ", quoted(Dir), " -s code ensure_modules_loaded",
            [[$\s, Name] || Name <- ?RECORDER]],
    Host = list_to_integer(erlang:system_info(otp_release)),
    [{Name, [Ours, $\s, os:getenv(Name, "")]}
     || Otp <- lists:seq(Host, Host + ?NEWER),
        Name <- ["ERL_OTP" ++ integer_to_list(Otp) ++ "_FLAGS"]].

collect(Dir, Out) ->
    Records = records(Dir),
    Evidence = whittle_shake_evidence:merge([Calls || {Calls, _} <- Records]),
    case whittle_shake_evidence:size(Evidence) of
        {0, _} ->
            whittle_unfinished:remove_directory(Dir),
            {error, {work, ["nothing was recorded, so whittle did not write ", Out, ": the command "
                            "started no Erlang VM of OTP ", erlang:system_info(otp_release),
                            " or newer that reads flags from the environment; name a command "
                            "that does"]}};
        {Functions, Modules} ->
            case write(Out, Dir, whittle_shake_evidence:to_binary(Evidence)) of
                ok ->
                    Own = length(whittle_shake_evidence:modules(Evidence) -- known()),
                    {ok, #{text => [io_lib:format("~ts: ~b functions of ~b modules (~ts of the "
                                                  "program itself), called in ~ts~n",
                                                  [Out, Functions, Modules, modules(Own),
                                                   vms(length(Records))])
                                    | lists:map(fun note/1, doubts(Own, Records))],
                           json => null}};
                {error, _} = Error ->
                    Error
            end
    end.

note(Text) -> ["whittle: note: ", Text, $\n].

%% Lists the reasons why the recording may be incomplete.
doubts(Own, Records) ->
    CutShort = length([cut_short || {_, cut_short} <- Records]),
    ["the recording has no function of the program itself: a VM that halts soon after its start "
      "may end before whittle reads its calls; see docs/shaking.md" || Own =:= 0]
        ++ [[vms(CutShort), " called halt/1, ", Was, " killed or still ", Run, ", so ", Its,
             " last calls may be missing"]
            || CutShort > 0, {Was, Run, Its} <- [case CutShort of
                                                     1 -> {"was", "runs", "its"};
                                                     _ -> {"were", "run", "their"}
                                                 end]].

%% Lists the modules of OTP and of Whittle, for the host's OTP and for each OTP that Whittle
%% builds for. A recording of a stock VM with any other OTP counts some OTP modules as the program's
%% own.
known() ->
    modules(fun whittle_device:is_device/1, filename:dirname(code:lib_dir(whittle_system)))
        ++ [M || Lib <- [code:lib_dir() | whittle_runtime:otp_libs(#{})],
                 M <- modules(fun whittle_otp:is_otp/1, Lib)].

modules(Is, Lib) ->
    [list_to_atom(filename:basename(File, ".beam"))
     || Dir <- filelib:wildcard("*/ebin", Lib),
        Is(list_to_atom(hd(string:split(filename:dirname(Dir), "-")))),
        File <- filelib:wildcard("*.beam", filename:join(Lib, Dir))].

%% Reads the file of each VM. The recorder lies beside these files. The command may have removed
%% the whole directory.
records(Dir) ->
    Names = case file:list_dir(Dir) of
                {ok, Found} -> Found;
                {error, _} -> []
            end,
    [whittle_shake_evidence:packets(Bytes)
     || Name <- Names, lists:member($-, Name),
        {ok, Bytes} <- [file:read_file(filename:join(Dir, Name))]].

%% Writes the recording, and then removes the directory. The run may have taken an hour.
write(Out, Dir, Bytes) ->
    case whittle_pack:write_beside(Out, Bytes) of
        ok ->
            whittle_unfinished:remove_directory(Dir);
        {error, Error} ->
            Instead = filename:join(Dir, "record.trace"),
            case whittle_pack:write_beside(Instead, Bytes) of
                ok ->
                    {error, {work, [cannot_write(Error), "; the recording is in ", Instead,
                                    ": move it"]}};
                {error, _} ->
                    {error, {work, [cannot_write(Error), "; the data of the VMs is in ", Dir,
                                    ": free space, and record again"]}}
            end
    end.

modules(1) -> "1 module";
modules(Count) -> io_lib:format("~b modules", [Count]).

vms(1) -> "one VM";
vms(Count) -> io_lib:format("~b VMs", [Count]).
