%% @doc Takes the account of a VM that another program runs, and thereby ends the VM.
%%
%% The account of the VM is a crash dump. Every VM can write one, also a VM without distribution,
%% without a shell, or with unreachable code removed: SIGUSR1 ends the VM, and the VM then describes
%% itself. So the account adds no code to the program and changes nothing before its end.
-module(whittle_measure_snapshot).

-import(whittle_work, [steps/1]).

-export([dumping/2, take/2, take/3, format_error/1]).

-export_type([error/0]).

-type error() :: {no_dump, file:filename()}
               | {slow_dump, non_neg_integer(), pos_integer()}    % milliseconds
               | {old_dump, file:filename(), file:posix() | badarg}
               | {account, non_neg_integer(), file:posix() | badarg | terminated}.

%% A dump also contains the heaps of all processes, behind everything that the account needs.
-define(DUMP_BYTES, "64000000").
%% The longest time that the VM takes to write it, and the longest wait for one of its events.
-define(DUMP_MS, 60_000).
-define(WAIT_MS, 100).

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
take(Started, Dump) -> take(Started, Dump, ?DUMP_MS).

%% @doc Takes the account like {@link take/2}. The VM has the given number of milliseconds to write
%% its dump.
-spec take(whittle_program:started(), file:filename(), pos_integer()) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
take(Started, Dump, Milliseconds) ->
    Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
    signal("STOP", Pid),
    Kernel = whittle_measure_kernel:read(Pid),
    Own = own_dump(Pid, Dump),
    Removed = remove(Own),
    signal("CONT", Pid),
    steps([fun(_) -> Removed end,
           fun(_) ->
                   signal("USR1", Pid),
                   wait(Started, Pid, Milliseconds,
                        erlang:monotonic_time(millisecond) + Milliseconds)
           end,
           fun(_) -> account(Pid, Kernel, Own) end]).

account(Pid, Kernel, Own) ->
    case {Kernel, file:read_file(Own)} of
        {{ok, Memory}, {ok, Text}} ->
            {ok, whittle_measure_account:make(whittle_measure_dump:parse(Text), Memory)};
        {{ok, _}, {error, _}} -> {error, {no_dump, Own}};
        {{error, Reason}, _} -> {error, {account, Pid, Reason}}
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
                [Path | _] -> filename:absname(unicode:characters_to_list(Path), directory(Pid));
                [] -> Dump
            end;
        {error, _} -> Dump
    end.

directory(Pid) ->
    case file:read_link(filename:join(["/proc", integer_to_list(Pid), "cwd"])) of
        {ok, Dir} -> Dir;
        {error, _} -> filename:absname("")
    end.

signal(Name, Pid) ->
    _ = os:cmd(io_lib:format("kill -s ~s ~b", [Name, Pid])),
    ok.

%% The VM ends when its dump is complete. A program around the VM may go on.
wait(Started, Pid, Limit, Until) ->
    Left = Until - erlang:monotonic_time(millisecond),
    case filelib:is_dir(filename:join("/proc", integer_to_list(Pid))) of
        false -> ok;
        true when Left =< 0 -> {error, {slow_dump, Pid, Limit}};
        true ->
            case whittle_program:next(Started, min(Left, ?WAIT_MS)) of
                {ended, _} -> ok;
                _ -> wait(Started, Pid, Limit, Until)
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
format_error({account, Pid, Reason}) ->
    io_lib:format("/proc/~b/smaps cannot be read (~ts): run `whittle' as the program's user",
                  [Pid, file:format_error(Reason)]).
