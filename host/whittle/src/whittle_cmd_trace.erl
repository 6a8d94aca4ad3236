%% @doc `whittle trace': runs a command, and records which functions the Erlang VMs call
%% that it starts.
%%
%% The command is to have the terminal, the signals and standard input. So the script
%% `whittle' runs it, between two runs of this module: the first makes a directory with
%% the recorder (device/whittle_trace), and gives the script the function to run ({@link
%% whittle_shell}). The second, which the script gives the directory in `WHITTLE_TRACED',
%% makes one file of what is in it. The environment brings the recorder into each VM.
-module(whittle_cmd_trace).
-behaviour(whittle).

-import(whittle_shell, [quoted/1]).

-export([command/0, run/1]).

%% What is copied for the VMs; the second one has a VM begin that was not built by us.
-define(RECORDER, ["whittle_trace", "whittle_trace_begin"]).

%% So many releases of OTP after the host's own are recorded too. Nine years of them.
-define(NEWER, 9).

%% @doc The command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "trace", arguments => ["-- CMD", "[ARGUMENT...]"],
      help => "run a command and record the functions that Erlang calls in it, for "
              "`build --evidence'",
      options => [#{name => out, long => "out", short => $o, value => "FILE",
                    help => "the path of the recording (default: CMD's name with .trace)"}]}.

%% @doc One of the two halves.
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
            "): set TMPDIR to a directory with room"]}.

%% The shell's function `traced' is what to run, its variable of that name the directory.
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

%% `erl' puts ERL_OTP29_FLAGS before all other flags of OTP 29: what follows an `-extra' is
%% the program's. Other releases do not heed it, so those that are older than the host's
%% compiler, whose code they cannot load, are left alone; and no executable of Whittle's does.
flags(Dir) ->
    %% What cannot be loaded is no error to code:ensure_modules_loaded/1.
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
            {error, {work, ["nothing was recorded, and ", Out, " not written: the command "
                            "started no Erlang VM of OTP ", erlang:system_info(otp_release),
                            " or newer, or none that takes the environment's flags"]}};
        {Functions, Modules} ->
            case write(Out, Dir, whittle_shake_evidence:to_binary(Evidence)) of
                ok ->
                    Own = length(whittle_shake_evidence:modules(Evidence) -- known()),
                    {ok, #{text => [io_lib:format("~ts: ~b functions of ~b modules, ~b of them the "
                                                  "program's own, called in ~ts~n",
                                                  [Out, Functions, Modules, Own,
                                                   vms(length(Records))])
                                    | lists:map(fun note/1, doubts(Own, Records))],
                           json => null}};
                {error, _} = Error ->
                    Error
            end
    end.

note(Text) -> ["whittle: note: ", Text, $\n].

%% Why it may hold less than was called.
doubts(Own, Records) ->
    CutShort = length([cut_short || {_, cut_short} <- Records]),
    ["no function of the program's own was seen: a VM that is halted soon after its start ends "
      "unread; see docs/shaking.md" || Own =:= 0]
        ++ [[vms(CutShort), " ended without a last reading, by halt/1 or killed, or still ", Run,
             ": what ", They, " called last may be missing"]
            || CutShort > 0, {Run, They} <- [case CutShort of
                                                 1 -> {"runs", "it"};
                                                 _ -> {"run", "they"}
                                             end]].

%% The modules of OTP's and Whittle's: of the OTP that the host has, and of those to build for.
%% Whoever records a stock VM of an OTP that is neither is told too many of his own.
known() ->
    modules(fun whittle_device:is_device/1, filename:dirname(code:lib_dir(whittle_system)))
        ++ [M || Lib <- [code:lib_dir() | whittle_runtime:otp_libs(#{})],
                 M <- modules(fun whittle_otp:is_otp/1, Lib)].

modules(Is, Lib) ->
    [list_to_atom(filename:basename(File, ".beam"))
     || Dir <- filelib:wildcard("*/ebin", Lib),
        Is(list_to_atom(hd(string:split(filename:dirname(Dir), "-")))),
        File <- filelib:wildcard("*.beam", filename:join(Lib, Dir))].

%% What each VM wrote; beside it lies the recorder. The command may have removed it all.
records(Dir) ->
    Names = case file:list_dir(Dir) of
                {ok, Found} -> Found;
                {error, _} -> []
            end,
    [whittle_shake_evidence:packets(Bytes)
     || Name <- Names, lists:member($-, Name),
        {ok, Bytes} <- [file:read_file(filename:join(Dir, Name))]].

%% The directory goes once the record is safe: it may have taken an hour.
write(Out, Dir, Bytes) ->
    case whittle_pack:write_beside(Out, Bytes) of
        ok ->
            whittle_unfinished:remove_directory(Dir);
        {error, Error} ->
            Instead = filename:join(Dir, "record.trace"),
            case whittle_pack:write_beside(Instead, Bytes) of
                ok ->
                    {error, {work, [cannot_write(Error), "; what was recorded is in ", Instead,
                                    ": move it"]}};
                {error, _} ->
                    {error, {work, [cannot_write(Error), "; what was recorded is in ", Dir,
                                    ", as it came: make room, and record it again"]}}
            end
    end.

vms(1) -> "one VM";
vms(Count) -> io_lib:format("~b VMs", [Count]).
