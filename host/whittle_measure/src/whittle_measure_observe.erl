%% @doc Runs a program once and watches it: its lines, its memory, its work.
-module(whittle_measure_observe).

-export([run/2, record/2, patience/1, cpu_apart/1, output/1, format_error/1, last/1]).

-export_type([subject/0, settings/0, error/0]).

%% The command that starts a program.
-type subject() :: #{program := file:filename(),
                     arguments := [string()],
                     environment := [{string(), string()}],
                     out => file:filename()}.     % the output, if Whittle built it

-type settings() :: #{ready => string(),          % a regular expression; default: the first line
                      duration := pos_integer(),  % milliseconds after ready
                      patience => pos_integer(),  % milliseconds until ready; default: duration
                      interval := pos_integer(),  % milliseconds between two readings of memory
                      workload => string(),       % a command of sh that runs when the program is
                                                  % ready; the run ends with it. $WHITTLE_PID is
                                                  % the program's process number
                      variables => [{string(), string()}], % of the workload, beside that one
                      last => fun((whittle_program:started()) -> map())}. % looks at the program
                                                  % before it is ended; adds to the outcome

-type error() :: {not_started, file:filename(), non_neg_integer(), binary()}
               | {failed, non_neg_integer(), binary()}
               | {not_ready, pos_integer(), binary()}
               | {too_fast, binary()}              % it prints faster than the engine reads
               | {workload_failed, non_neg_integer(), binary()}
               | {workload_endless, pos_integer(), binary()}
               | {ended_early, binary()}.          % before its workload ended

%% The time that a workload has to end after its program has ended.
-define(LAST_ACT_MS, 2000).

%% The last bytes of the output that a study keeps.
-define(OUTPUT, 1_000_000).

%% The longest part of an unfinished line in which the engine looks for the `ready' line.
-define(LINE_BYTES, 65_536).

%% The output that may wait for the engine. The engine may stop for seconds to read /proc on a
%% loaded machine. Meanwhile a valid program may print thousands of short lines, so bytes are the
%% limit. They are counted only from so many pieces on, because this takes time. The count lacks
%% pieces of up to 64 bytes. Each of these takes about 150 bytes, so their number has a limit too.
-define(MANY_PIECES, 2000).
-define(MOST_PIECES, 1_000_000).
-define(MOST_BYTES, 128_000_000).

%% The time that a program always has until it is ready, also in a run with a short duration.
-define(PATIENCE_MS, 60_000).

%% @doc Returns the milliseconds until a program must be ready, for a run of so many milliseconds.
-spec patience(pos_integer()) -> pos_integer().
patience(Duration) -> max(?PATIENCE_MS, Duration).

%% @doc Runs a program like {@link run/2}, and records the functions that its VMs call. The
%% recording is `empty' if it has no function of the program itself. The error is `directory' if the
%% directory of the recorder cannot be written.
-spec record(subject(), settings()) ->
          {ok, whittle_measure_response:outcome(), {ok, binary()} | empty}
        | {error, {run, error()} | {directory, file:filename(), file:posix() | badarg}}.
record(#{environment := Environment} = Subject, Settings) ->
    case whittle_recording:start(os:getpid()) of
        {ok, Dir} ->
            Recorded = Subject#{environment := whittle_recording:environment(Dir) ++ Environment},
            try run(Recorded, Settings) of
                {ok, Outcome} -> {ok, Outcome, whittle_recording:bytes(Dir)};
                {error, Reason} -> {error, {run, Reason}}
            after whittle_recording:remove(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, Dir, Reason}}
    end.

%% @doc Runs a program until it ends or until its time is over, and then ends it. The error is
%% `not_ready' if the program neither ended nor printed its line in time, `too_fast' if it prints
%% faster than this process can read, and `failed' if it ended with another exit code than 0.
-spec run(subject(), settings()) ->
          {ok, whittle_measure_response:outcome()} | {error, error()}.
run(#{program := Program, arguments := Arguments, environment := Environment} = Subject,
    #{duration := Duration, interval := Interval} = Settings) ->
    Patience = maps:get(patience, Settings, Duration),
    case whittle_program:start(Program, Arguments, #{env => Environment, of_user => true}) of
        {ok, Started} ->
            Start = now_us(),
            State = #{started => Started, start => Start, interval => 1000 * Interval,
                      pattern => pattern(Settings), deadline => Start + 1000 * Patience,
                      patience => Patience,
                      binaries => erlang:memory(binary),
                      duration => 1000 * Duration, next => Start, output => {0, []}, line => <<>>,
                      given => maps:with([workload, variables, last], Settings),
                      outcome => maps:merge(#{memory => []}, maps:with([out], Subject))},
            watch(State);
        {error, {status, Status, Output}} ->
            {error, {not_started, Program, Status, Output}}
    end.

pattern(#{ready := Text}) ->
    {ok, Pattern} = re:compile(Text, [unicode]),
    Pattern;
pattern(_) -> any.

now_us() -> erlang:monotonic_time(microsecond).

%% Waits for the next event: output, the end, the next reading, the end of the time.
watch(#{started := Started, next := Next, deadline := Deadline} = State) ->
    Wait = max(0, min(Next, Deadline) - now_us()),
    case next(Started, (Wait + 999) div 1000, State) of
        {workload, Result} -> worked(Result, State);
        {output, Bytes} -> printed(output(now_us(), Bytes, State));
        {ended, Status} -> ended(Status, now_us(), State);
        timeout -> due(State)
    end.

due(#{next := Next, deadline := Deadline} = State) ->
    Now = now_us(),
    if
        Now >= Deadline -> over(State);
        Now >= Next -> watch(read_memory(Now, State));
        true -> watch(State)
    end.

%% A port does not wait until its owner has read, so the output that waits has a limit.
printed(#{started := Started} = State) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    case is_too_much(Waiting, State) of
        true ->
            ok = stop_workload(State),
            ok = whittle_program:stop(Started),
            {error, {too_fast, tail(State)}};
        false -> due(State)
    end.

is_too_much(Waiting, _) when Waiting =< ?MANY_PIECES -> false;
is_too_much(Waiting, _) when Waiting > ?MOST_PIECES -> true;
is_too_much(_, #{binaries := Before}) -> erlang:memory(binary) - Before > ?MOST_BYTES.

%% The workload's end is seen at the next reading. Its time is exact, because its own process takes
%% it.
next(Started, Wait, #{workload := {Pid, _}}) ->
    receive
        {Pid, Result} -> {workload, Result}
    after 0 -> whittle_program:next(Started, Wait)
    end;
next(Started, Wait, _) -> whittle_program:next(Started, Wait).

worked({0, Microseconds, Output}, #{outcome := Outcome} = State) ->
    over(State#{outcome := Outcome#{workload => Microseconds, reported => Output}});
worked({Status, _, Output}, #{started := Started}) ->
    ok = whittle_program:stop(Started),
    {error, {workload_failed, Status, Output}}.

%% The lines count only until the program is ready.
output(At, Bytes, #{output := Output, outcome := Outcome} = State) ->
    Kept = State#{output := add(Bytes, Output)},
    case Outcome of
        #{ready := _} -> Kept;
        _ -> lines(At, Bytes, Kept)
    end.

lines(At, Bytes, #{line := Before} = State) ->
    [Rest | Reversed] = lists:reverse(binary:split(<<Before/binary, Bytes/binary>>, <<"\n">>,
                                                   [global])),
    Start = binary:part(Rest, 0, min(byte_size(Rest), ?LINE_BYTES)),
    lists:foldl(fun(Line, S) -> line(At, Line, S) end, State#{line := Start},
                lists:reverse(Reversed)).

line(At, Line, #{start := Start, outcome := Outcome, pattern := Pattern} = State) ->
    First = maps:merge(#{first_line => At - Start}, Outcome),
    case is_map_key(ready, First) orelse not is_ready(Pattern, Line) of
        true -> State#{outcome := First};
        false -> ready(At, State#{outcome := First#{ready => At - Start}})
    end.

is_ready(any, _) -> true;
is_ready(Pattern, Line) ->
    try re:run(Line, Pattern, [{capture, none}]) =:= match
    catch error:badarg ->                       % the line is not UTF-8
            is_ready(Pattern, unicode:characters_to_binary(Line, latin1))
    end.

%% The time of the study begins when the program is ready.
ready(At, #{started := Started, duration := Duration, given := Given} = State) ->
    Pid = whittle_program:pid(Started),
    Ready = read_memory(At, State#{deadline := At + Duration, ready_at => At,
                                   before => whittle_measure_process:work(Pid)}),
    case Given of
        #{workload := Command} ->
            Ready#{workload => workload(Command, Pid, maps:get(variables, Given, []))};
        _ -> Ready
    end.

%% The workload runs in a process of its own. If that process is killed, the workload ends too.
workload(Command, Pid, Variables) ->
    Self = self(),
    spawn_monitor(
      fun() ->
              Start = now_us(),
              {ok, Started} = whittle_program:start(
                                "/bin/sh", ["-c", Command],
                                #{env => [{"WHITTLE_PID", integer_to_list(Pid)} | Variables],
                                  of_user => true}),
              {Status, Output} = to_the_end(Started, {0, []}),
              Self ! {self(), {Status, now_us() - Start, Output}}
      end).

to_the_end(Started, Output) ->
    case whittle_program:next(Started, infinity) of
        {output, Bytes} -> to_the_end(Started, add(Bytes, Output));
        {ended, Status} -> {Status, last_bytes(Output)}
    end.

stop_workload(#{workload := {Pid, Monitor}}) ->
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end;
stop_workload(_) -> ok.

read_memory(Now, #{started := Started, start := Start, interval := Interval,
                   outcome := #{memory := Memory} = Outcome} = State) ->
    Read = whittle_measure_process:memory(whittle_program:pid(Started)),
    Work = whittle_measure_process:work(whittle_program:pid(Started)),
    %% A process that has just ended reads as 0.
    Peak = whittle_measure_process:peak(whittle_program:pid(Started)),
    Apart = whittle_measure_process:cpu_apart(whittle_program:pid(Started)),
    case Read of
        #{rss := 0} -> State#{next := Now + Interval};
        #{rss := Rss} ->
            Most = lists:max([Peak, Rss, maps:get(peak, Outcome, 0)]),
            State#{next := Now + Interval, last => {Now, Work},
                   outcome := Outcome#{memory := [{Now - Start, Read} | Memory], peak => Most,
                                       cpu_apart => Apart}}
    end.

over(#{started := Started} = State) ->
    #{outcome := Outcome} = Last = read_memory(now_us(), State),
    Seen = case {Outcome, State} of
               {#{ready := _}, #{given := #{last := Look}}} -> Look(Started);
               _ -> #{}
           end,
    Whole = maps:merge(Outcome, Seen),
    ok = stop_workload(State),
    ok = whittle_program:stop(Started),
    Milliseconds = maps:get(duration, State) div 1000,
    case {Outcome, State} of
        {#{workload := _}, _} -> {ok, finished(Last#{outcome := Whole})};
        {_, #{workload := _}} -> {error, {workload_endless, Milliseconds, tail(Last)}};
        {#{ready := _}, _} -> {ok, finished(Last#{outcome := Whole})};
        _ -> {error, {not_ready, maps:get(patience, State), tail(Last)}}
    end.

ended(0, At, #{start := Start, outcome := Outcome} = State) ->
    case State of
        #{workload := {Pid, _}} ->
            %% The last act of a workload may be to end the program.
            receive {Pid, {0, Microseconds, Output}} ->
                    Ended = Outcome#{ended => At - Start, workload => Microseconds,
                                     reported => Output},
                    {ok, finished(State#{outcome := Ended})}
            after ?LAST_ACT_MS ->
                    ok = stop_workload(State),
                    {error, {ended_early, tail(State)}}
            end;
        _ -> {ok, finished(State#{outcome := Outcome#{ended => At - Start}})}
    end;
ended(Status, _, State) ->
    ok = stop_workload(State),
    {error, {failed, Status, tail(State)}}.

finished(#{outcome := #{memory := Memory} = Outcome} = State) ->
    maps:merge(Outcome#{memory := lists:reverse(Memory), output => tail(State)}, work(State)).

work(#{before := Before, last := {At, #{cpu := Cpu} = After}, ready_at := Ready}) when At > Ready ->
    #{cpu => Cpu,
      work => maps:map(fun(Key, Value) -> Value - maps:get(Key, Before) end, After),
      watched => max(1, (At - Ready) div 1000)};
work(_) -> #{}.

tail(#{output := Output}) -> last_bytes(Output).

%% Adds a piece to the last bytes of an output. The list has at most twice as many bytes as this
%% module keeps.
add(Bytes, {Size, Pieces}) when Size + byte_size(Bytes) > 2 * ?OUTPUT ->
    Last = last_bytes({Size, [Pieces, Bytes]}),
    {byte_size(Last), [Last]};
add(Bytes, {Size, Pieces}) -> {Size + byte_size(Bytes), [Pieces, Bytes]}.

last_bytes({_, Pieces}) ->
    Bytes = iolist_to_binary(Pieces),
    Kept = min(byte_size(Bytes), ?OUTPUT),
    binary:copy(binary:part(Bytes, byte_size(Bytes), -Kept)).

%% @doc Returns the CPU time in milliseconds of the program's processes that go on after its end.
%% The times of all others are in those of this VM.
-spec cpu_apart({ok, whittle_measure_response:outcome()} | {error, term()}) -> non_neg_integer().
cpu_apart({ok, #{cpu_apart := Processes}}) ->
    lists:sum([Milliseconds || {Pid, Milliseconds} <- Processes,
                               whittle_measure_process:is_running(Pid)]);
cpu_apart(_) -> 0.

%% @doc Returns what the program of an error had printed, or its workload if that failed.
-spec output(error()) -> binary().
output(Error) -> element(tuple_size(Error), Error).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({not_started, Program, Status, Output}) ->
    io_lib:format("~ts could not be started (status ~b): ~ts", [Program, Status, last(Output)]);
format_error({failed, Status, Output}) ->
    io_lib:format("the program ended with exit code ~b: ~ts", [Status, last(Output)]);
format_error({not_ready, Milliseconds, Output}) ->
    io_lib:format("the program was not ready after ~b s (~ts): correct the pattern of its `ready' "
                  "line, or allow more time", [Milliseconds div 1000, last(Output)]);
format_error({too_fast, Output}) ->
    io_lib:format("the program prints faster than Whittle can read: let it print less, or send its "
                  "output to a file (~ts)", [last(Output)]);
format_error({workload_failed, Status, Output}) ->
    io_lib:format("the workload ended with ~b: ~ts", [Status, last(Output)]);
format_error({workload_endless, Milliseconds, Output}) ->
    io_lib:format("the workload had not ended after ~b s; give it more time, or correct it "
                  "(the program: ~ts)",
                  [Milliseconds div 1000, last(Output)]);
format_error({ended_early, Output}) ->
    io_lib:format("the program ended before its workload did: ~ts", [last(Output)]).

%% @doc Describes the last line of a program's output.
-spec last(binary()) -> unicode:chardata().
last(Output) ->
    Bytes = binary:part(Output, byte_size(Output), -min(byte_size(Output), ?LINE_BYTES)),
    %% A VM that ends with a crash dump prints the reason before this line.
    case [Line || Line <- binary:split(Bytes, [<<"\r">>, <<"\n">>], [global, trim_all]),
                  binary:match(Line, <<"Crash dump is being written to:">>) =:= nomatch] of
        [] -> "it printed nothing";
        Lines -> ["its last line is `", whittle_file_name:printable(lists:last(Lines)), "'"]
    end.
