%% @doc Runs a program under its workload, and takes its account at the end.
%%
%% The account of the VM is a crash dump. Every VM can write one, also a VM without distribution,
%% without a shell, or with unreachable code removed: SIGUSR1 ends the VM, and the VM then describes
%% itself. So the account adds no code to the program and changes nothing before its end.
%% @hidden
-module(whittle_tune_program).

-export([run/2, explain/2, record/2]).

-export_type([options/0, error/0]).

-type options() ::
        #{workload => string(),                 % a command of sh
          ready => string(),                    % a regular expression
          seconds := pos_integer()}.            % how long the program runs without a workload, and
                                                % the longest time of a workload

-type error() :: {run, whittle_measure_observe:error()}
               | {too_soon, non_neg_integer()}
               | {no_dump, file:filename()}
               | {account, non_neg_integer(), file:posix() | badarg | terminated}
               | {directory, file:filename(), file:posix() | badarg}
               | no_recording.

%% The milliseconds between two readings of memory.
-define(INTERVAL, 100).
%% The least seconds that a program has to be ready.
-define(READY, 60).
%% A dump also contains the heaps of all processes, behind everything that the account needs.
-define(DUMP_BYTES, "64000000").
%% The longest time that the VM takes to write it.
-define(DUMP_MS, 60_000).
%% The longest time that a program with a recorder takes to end after SIGTERM.
-define(END_MS, 10_000).

%% @doc Runs the program once.
-spec run(whittle_measure_observe:subject(), options()) ->
          {ok, whittle_measure_response:outcome()} | {error, error()}.
run(Subject, Options) -> run(Subject, Options, fun(_) -> #{} end).

run(Subject, #{seconds := Seconds} = Options, Look) ->
    Settings = maps:merge(maps:with([workload, ready], Options),
                          #{duration => 1000 * Seconds, patience => patience(Seconds),
                            interval => ?INTERVAL, last => Look}),
    case whittle_measure_observe:run(Subject, Settings) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {run, Reason}}
    end.

patience(Seconds) -> 1000 * max(Seconds, ?READY).

%% @doc Runs the program once and returns a recording of the functions that it calls.
-spec record(whittle_measure_observe:subject(), options()) -> {ok, binary()} | {error, error()}.
record(#{environment := Environment} = Subject, Options) ->
    case whittle_recording:start() of
        {ok, Dir} ->
            try
                Variables = [{Name, unicode:characters_to_list(Value)}
                             || {Name, Value} <- whittle_recording:environment(Dir)],
                case run(Subject#{environment := Variables ++ Environment}, Options, fun ends/1) of
                    {ok, _} ->
                        case whittle_recording:bytes(Dir) of
                            {ok, _} = Ok -> Ok;
                            empty -> {error, no_recording}
                        end;
                    {error, _} = Error -> Error
                end
            after whittle_recording:remove(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, Dir, Reason}}
    end.

%% The VM writes the last part of its recording when it ends in order.
ends(Started) ->
    Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
    signal("TERM", Pid),
    ok = wait(Started, Pid, erlang:monotonic_time(millisecond) + ?END_MS),
    #{}.

%% @doc Runs the program and returns its account at the end of the workload or of the time. If the
%% program ends by itself, it runs a second time, up to the moment at which it had the most memory.
%% `extra' in the outcome tells whether the VM's command line has the flag `-extra'.
-spec explain(whittle_measure_observe:subject(), options()) ->
          {ok, whittle_tune_account:account(), whittle_measure_response:outcome()}
        | {error, error()}.
explain(Subject, Options) ->
    case whittle_unfinished:make_directory("whittle-tune") of
        {ok, Dir} ->
            try explain(Subject, Options, filename:join(Dir, "dump"))
            after whittle_unfinished:remove_directory(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, Dir, Reason}}
    end.

explain(Subject, Options, Dump) ->
    Dumping = dumping(Subject, Dump),
    Look = fun(Started) ->
                   Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
                   #{extra => has_extra(Pid), snapshot => snapshot(Started, Pid, Dump)}
           end,
    case run(Dumping, Options, Look) of
        {ok, #{snapshot := {ok, Account}} = Outcome} ->
            {ok, Account, maps:remove(snapshot, Outcome)};
        {ok, #{snapshot := {error, _} = Error}} -> Error;
        {ok, Outcome} -> at_peak(Dumping, Options, Look, Outcome);
        {error, _} = Error -> Error
    end.

%% `-1' lets the VM write for as long as it takes.
dumping(#{environment := Environment} = Subject, Dump) ->
    Subject#{environment := [{"ERL_CRASH_DUMP", Dump}, {"ERL_CRASH_DUMP_BYTES", ?DUMP_BYTES},
                             {"ERL_CRASH_DUMP_SECONDS", "-1"} | Environment]}.

at_peak(Subject, #{seconds := Seconds} = Options, Look, #{memory := Memory} = Outcome) ->
    Ready = maps:get(ready, Outcome, infinity),
    case [{Rss, At} || {At, #{rss := Rss}} <- Memory, At > Ready] of
        [] -> {error, {too_soon, maps:get(ended, Outcome, 0) div 1000}};
        Readings ->
            {_, At} = lists:max(Readings),
            Settings = maps:merge(maps:with([workload, ready], Options),
                                  #{duration => max(1, (At - Ready) div 1000),
                                    patience => patience(Seconds), interval => ?INTERVAL,
                                    last => Look}),
            case whittle_measure_observe:run(Subject, maps:remove(workload, Settings)) of
                {ok, #{snapshot := {ok, Account}, extra := Extra}} ->
                    {ok, Account, Outcome#{extra => Extra}};
                {ok, #{snapshot := {error, _} = Error}} -> Error;
                {ok, #{ended := Ended}} -> {error, {too_soon, Ended div 1000}};
                {error, Reason} -> {error, {run, Reason}}
            end
    end.

%% Internal functions: the two accounts

%% The VM stands still while the kernel's account is read, so both accounts are of one moment.
snapshot(Started, Pid, Dump) ->
    signal("STOP", Pid),
    Kernel = whittle_tune_kernel:read(Pid),
    Own = own_dump(Pid, Dump),
    signal("CONT", Pid),
    signal("USR1", Pid),
    ok = wait(Started, Pid, erlang:monotonic_time(millisecond) + ?DUMP_MS),
    case {Kernel, file:read_file(Own)} of
        {{ok, Memory}, {ok, Text}} ->
            Account = whittle_tune_account:make(whittle_tune_dump:parse(Text), Memory),
            {ok, Account#{changes => whittle_tune_changes:from_dump(Text)}};
        {{ok, _}, {error, _}} -> {error, {no_dump, Own}};
        {{error, Reason}, _} -> {error, {account, Pid, Reason}}
    end.

%% The words after `-extra' belong to the program, also those of ERL_ZFLAGS.
has_extra(Pid) ->
    case file:read_file(filename:join(["/proc", integer_to_list(Pid), "cmdline"])) of
        {ok, Text} -> lists:member(<<"-extra">>, binary:split(Text, <<0>>, [global]));
        {error, _} -> false
    end.

%% The program's own start script may name another file.
own_dump(Pid, Dump) ->
    case file:read_file(filename:join(["/proc", integer_to_list(Pid), "environ"])) of
        {ok, Text} ->
            case [Path || <<"ERL_CRASH_DUMP=", Path/binary>>
                              <- binary:split(Text, <<0>>, [global, trim_all])] of
                [Path | _] -> unicode:characters_to_list(Path);
                [] -> Dump
            end;
        {error, _} -> Dump
    end.

signal(Name, Pid) ->
    _ = os:cmd(io_lib:format("kill -s ~s ~b", [Name, Pid])),
    ok.

%% The VM ends when its dump is complete. A program around the VM may go on.
wait(Started, Pid, Until) ->
    Left = Until - erlang:monotonic_time(millisecond),
    case Left > 0 andalso filelib:is_dir(filename:join("/proc", integer_to_list(Pid))) of
        false -> ok;
        true ->
            case whittle_program:next(Started, min(Left, ?INTERVAL)) of
                {ended, _} -> ok;
                _ -> wait(Started, Pid, Until)
            end
    end.
