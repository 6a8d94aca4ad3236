%% @doc Takes the account of a VM that another program runs, and thereby ends the VM.
%%
%% The account of the VM is a crash dump. Every VM can write one, also a VM without distribution,
%% without a shell, or with unreachable code removed: SIGUSR1 ends the VM, and the VM then describes
%% itself. So the account adds no code to the program and changes nothing before its end.
-module(whittle_measure_snapshot).

-import(whittle_work, [steps/1]).

-export([dumping/2, take/2, take/3, take/4, format_error/1]).
-export([signal/2, wait/3]).

-export_type([error/0]).

-type error() :: {no_dump, file:filename_all()}
               | {slow_dump, non_neg_integer(), pos_integer()}    % milliseconds
               | {old_dump, file:filename(), file:posix() | badarg}
               | {account, non_neg_integer(), file:posix() | badarg | terminated}.

%% A dump also contains the heaps of all processes, behind everything that the account needs.
-define(DUMP_BYTES, "64000000").
%% The longest time that the VM takes to write it, and the longest wait for one of its events.
-define(DUMP_MS, 60_000).
-define(WAIT_MS, 100).
%% The longest time that all threads take to stop on a busy machine.
-define(STOP_MS, 10_000).

%% @doc Makes the VM of a command write its dump to a file.
-spec dumping(whittle_measure_observe:subject(), file:filename()) ->
          whittle_measure_observe:subject().
dumping(#{environment := Environment} = Subject, Dump) ->
    %% `-1' lets the VM write for as long as it takes.
    Subject#{environment := [{"ERL_CRASH_DUMP", Dump}, {"ERL_CRASH_DUMP_BYTES", ?DUMP_BYTES},
                             {"ERL_CRASH_DUMP_SECONDS", "-1"} | Environment]}.

%% @doc Takes the account of the largest process of a program. The VM stands still while the
%% kernel's account is read, so both accounts are of one moment. Then the VM ends.
-spec take(whittle_program:started(), file:filename()) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
take(Started, Dump) -> take(Started, Dump, fun(_) -> #{} end).

%% @doc Takes the account, and adds the map that a function makes from the text of the dump.
-spec take(whittle_program:started(), file:filename(), fun((binary()) -> map())) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
take(Started, Dump, Also) -> take(Started, Dump, Also, ?DUMP_MS).

%% @doc Takes the account like {@link take/3}. The VM has the given number of milliseconds to write
%% its dump.
-spec take(whittle_program:started(), file:filename(), fun((binary()) -> map()), pos_integer()) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
take(Started, Dump, Also, Milliseconds) ->
    Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
    Own = own_dump(Pid, Dump),
    Removed = remove(Own),
    ok = signal("STOP", Pid),
    Kernel = try
                 ok = stopped(Pid, erlang:monotonic_time(millisecond) + ?STOP_MS),
                 whittle_measure_kernel:read(Pid)
             after signal("CONT", Pid)
             end,
    steps([fun(_) -> Removed end,
           fun(_) ->
                   ok = signal("USR1", Pid),
                   case wait(Started, Pid, Milliseconds) of
                       ok -> ok;
                       timeout -> {error, {slow_dump, Pid, Milliseconds}}
                   end
           end,
           fun(_) -> account(Pid, Kernel, Own, Also) end]).

account(Pid, Kernel, Own, Also) ->
    case {Kernel, file:read_file(Own)} of
        {{ok, Memory}, {ok, Text}} ->
            Account = whittle_measure_account:make(whittle_measure_dump:parse(Text), Memory),
            {ok, maps:merge(Account, Also(Text))};
        {{ok, _}, {error, _}} -> {error, {no_dump, Own}};
        {{error, Reason}, _} -> {error, {account, Pid, Reason}}
    end.

%% Each thread stops when it runs next, so on a busy machine some still run after the signal. The
%% kernel does not tell the stack pointer of a thread that runs.
stopped(Pid, Until) ->
    case lists:any(fun runs/1, filelib:wildcard(lists:concat(["/proc/", Pid, "/task/*/stat"])))
        andalso erlang:monotonic_time(millisecond) < Until of
        false -> ok;
        true ->
            receive after 1 -> ok end,
            stopped(Pid, Until)
    end.

%% The state follows the name of the thread, which is in parentheses (proc(5)).
runs(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            <<" ", State, _/binary>> = lists:last(binary:split(Text, <<")">>, [global])),
            not lists:member(State, "TtZX");
        {error, _} -> false
    end.

%% The file may be a dump of an earlier run. A device such as /dev/null stays.
remove(Own) ->
    case filelib:is_regular(Own) andalso file:delete(Own) of
        {error, Reason} -> {error, {old_dump, Own, Reason}};
        _ -> ok
    end.

%% The program's own start script may name another file, also below the VM's directory.
own_dump(Pid, Dump) ->
    case file:read_file(filename:join(["/proc", integer_to_list(Pid), "environ"])) of
        {ok, Text} ->
            case [Path || <<"ERL_CRASH_DUMP=", Path/binary>>
                              <- binary:split(Text, <<0>>, [global, trim_all])] of
                %% The bytes of the path need not be UTF-8.
                [Path | _] -> filename:absname(Path, native(directory(Pid)));
                [] -> Dump
            end;
        {error, _} -> Dump
    end.

native(Dir) when is_binary(Dir) -> Dir;
native(Dir) -> unicode:characters_to_binary(Dir, unicode, file:native_name_encoding()).

directory(Pid) ->
    case file:read_link(filename:join(["/proc", integer_to_list(Pid), "cwd"])) of
        {ok, Dir} -> Dir;
        {error, _} -> filename:absname("")
    end.

%% @doc Sends a signal to a process. The name has no `SIG'.
-spec signal(string(), pos_integer()) -> ok.
signal(Name, Pid) ->
    _ = os:cmd(io_lib:format("kill -s ~s ~b", [Name, Pid])),
    ok.

%% @doc Waits until a process of a program has ended, or until the milliseconds are over. A program
%% around the VM may go on.
-spec wait(whittle_program:started(), pos_integer(), pos_integer()) -> ok | timeout.
wait(Started, Pid, Milliseconds) ->
    ended(Started, Pid, erlang:monotonic_time(millisecond) + Milliseconds).

ended(Started, Pid, Until) ->
    Left = Until - erlang:monotonic_time(millisecond),
    case filelib:is_dir(filename:join("/proc", integer_to_list(Pid))) of
        false -> ok;
        true when Left =< 0 -> timeout;
        true ->
            case whittle_program:next(Started, min(Left, ?WAIT_MS)) of
                {ended, _} -> ok;
                _ -> ended(Started, Pid, Until)
            end
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({no_dump, File}) ->
    [File, " does not exist: the program is no Erlang VM, or it handles SIGUSR1 itself; name the "
     "VM or its start script"];
format_error({slow_dump, Pid, Milliseconds}) ->
    io_lib:format("process ~b had not ended ~b s after SIGUSR1, so its crash dump is not complete: "
                  "measure again when the machine has less to do; if the program handles SIGUSR1 "
                  "itself, it cannot have an account", [Pid, Milliseconds div 1000]);
format_error({old_dump, File, Reason}) ->
    ["the older crash dump ", File, " cannot be removed (", file:format_error(Reason),
     "): remove it"];
format_error({account, Pid, Reason}) when Reason =:= enoent; Reason =:= esrch ->
    io_lib:format("the VM (process ~b) ended before Whittle could read its memory: keep it running "
                  "until the workload has ended", [Pid]);
format_error({account, Pid, Reason}) ->
    io_lib:format("/proc/~b/smaps cannot be read (~ts): run `whittle' as the program's user",
                  [Pid, file:format_error(Reason)]).
