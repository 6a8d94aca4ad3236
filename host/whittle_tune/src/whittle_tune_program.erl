%% @doc Runs a program under its workload, and takes its account at the end.
%%
%% {@link whittle_measure_snapshot} takes the account, which ends the program.
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
               | whittle_measure_snapshot:error()
               | {directory, file:filename(), file:posix() | badarg}
               | no_recording
               | {slow_end, Milliseconds :: pos_integer()}.

%% The milliseconds between two readings of memory.
-define(INTERVAL, 100).
%% The longest time that a program with a recorder takes to end after SIGTERM.
-define(END_MS, 60_000).

%% @doc Runs the program once.
-spec run(whittle_measure_observe:subject(), options()) ->
          {ok, whittle_measure_response:outcome()} | {error, error()}.
run(Subject, Options) -> run(Subject, Options, fun(_) -> #{} end).

run(Subject, Options, Look) ->
    case whittle_measure_observe:run(Subject, settings(Options, Look)) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {run, Reason}}
    end.

settings(#{seconds := Seconds} = Options, Look) ->
    maps:merge(maps:with([workload, ready], Options),
               #{duration => 1000 * Seconds, patience => patience(Seconds),
                 interval => ?INTERVAL, last => Look}).

patience(Seconds) -> whittle_measure_observe:patience(1000 * Seconds).

%% @doc Runs the program once and returns a recording of the functions that it calls.
-spec record(whittle_measure_observe:subject(), options()) -> {ok, binary()} | {error, error()}.
record(Subject, Options) ->
    case whittle_measure_observe:record(Subject, settings(Options, fun ends/1)) of
        {ok, #{end_of_vm := timeout}, _} -> {error, {slow_end, ?END_MS}};
        {ok, _, {ok, _} = Ok} -> Ok;
        {ok, _, empty} -> {error, no_recording};
        {error, _} = Error -> Error
    end.

%% The VM writes the last part of its recording when it ends in order.
ends(Started) ->
    Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
    ok = whittle_measure_snapshot:signal("TERM", Pid),
    #{end_of_vm => whittle_measure_snapshot:wait(Started, Pid, ?END_MS)}.

%% @doc Runs the program and returns its account at the end of the workload or of the time. If the
%% program ends by itself, it runs a second time, up to the moment at which it had the most memory.
%% `extra' in the outcome tells whether the VM's command line has the flag `-extra'.
-spec explain(whittle_measure_observe:subject(), options()) ->
          {ok, whittle_measure_account:account(), whittle_measure_response:outcome()}
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
    Dumping = whittle_measure_snapshot:dumping(Subject, Dump),
    Look = fun(Started) ->
                   Pid = whittle_measure_process:largest(whittle_program:pid(Started)),
                   #{extra => has_extra(Pid),
                     snapshot => whittle_measure_snapshot:take(Started, Dump, fun changes/1)}
           end,
    case run(Dumping, Options, Look) of
        {ok, #{snapshot := {ok, Account}} = Outcome} ->
            {ok, Account, maps:remove(snapshot, Outcome)};
        {ok, #{snapshot := {error, _} = Error}} -> Error;
        {ok, Outcome} -> at_peak(Dumping, Options, Look, Outcome);
        {error, _} = Error -> Error
    end.

at_peak(Subject, #{seconds := Seconds} = Options, Look, #{memory := Memory} = Outcome) ->
    Ready = maps:get(ready, Outcome, infinity),
    case [{At, Rss} || {At, #{rss := Rss}} <- Memory, At > Ready] of
        [] -> {error, {too_soon, maps:get(ended, Outcome, 0) div 1000}};
        Readings ->
            At = peak(Readings),
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

changes(Text) -> #{changes => whittle_tune_changes:from_dump(Text)}.

%% The first moment with almost the most memory. The second run may be shorter, so a later moment
%% could be behind its end.
peak(Readings) ->
    Most = lists:max([Rss || {_, Rss} <- Readings]),
    lists:min([At || {At, Rss} <- Readings, Rss >= 0.99 * Most]).

%% The words after `-extra' belong to the program, also those of ERL_ZFLAGS.
has_extra(Pid) ->
    case file:read_file(filename:join(["/proc", integer_to_list(Pid), "cmdline"])) of
        {ok, Text} -> lists:member(<<"-extra">>, binary:split(Text, <<0>>, [global]));
        {error, _} -> false
    end.
