%% @doc Runs a program once and watches it: its lines, its memory, its work.
%% @hidden
-module(whittle_measure_observe).

-export([run/2, format_error/1]).

-export_type([subject/0, settings/0, error/0]).

%% The command that starts a program.
-type subject() :: #{program := file:filename(),
                     arguments := [string()],
                     environment := [{string(), string()}],
                     out => file:filename()}.     % the output, if Whittle built it

-type settings() :: #{ready => string(),          % a regular expression; default: the first line
                      duration := pos_integer(),  % milliseconds after ready, and at most before it
                      interval := pos_integer()}. % milliseconds between two readings of memory

-type error() :: {not_started, file:filename(), non_neg_integer(), binary()}
               | {failed, non_neg_integer(), binary()}
               | {not_ready, pos_integer(), binary()}.

%% The last bytes of the output that a study keeps.
-define(OUTPUT, 1_000_000).

%% @doc Runs a program until it ends or until its time is over, and then ends it. The error is
%% `not_ready' if the program neither ended nor printed its line in time, and `failed' if it ended
%% with another exit code than 0.
-spec run(subject(), settings()) ->
          {ok, whittle_measure_response:outcome()} | {error, error()}.
run(#{program := Program, arguments := Arguments, environment := Environment} = Subject,
    #{duration := Duration, interval := Interval} = Settings) ->
    case whittle_program:start(Program, Arguments, #{env => Environment}) of
        {ok, Started} ->
            Start = now_us(),
            State = #{started => Started, start => Start, interval => 1000 * Interval,
                      pattern => pattern(Settings), deadline => Start + 1000 * Duration,
                      duration => 1000 * Duration, next => Start, output => [], line => <<>>,
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
    case whittle_program:next(Started, (Wait + 999) div 1000) of
        {output, Bytes} -> watch(lines(now_us(), Bytes, State));
        {ended, Status} -> ended(Status, now_us(), State);
        timeout ->
            Now = now_us(),
            if
                Now >= Deadline -> over(State);
                Now >= Next -> watch(read_memory(Now, State));
                true -> watch(State)
            end
    end.

lines(At, Bytes, #{line := Before, output := Output} = State) ->
    [Rest | Reversed] = lists:reverse(binary:split(<<Before/binary, Bytes/binary>>, <<"\n">>,
                                                   [global])),
    lists:foldl(fun(Line, S) -> line(At, Line, S) end,
                State#{line := Rest, output := [Output, Bytes]}, lists:reverse(Reversed)).

line(At, Line, #{start := Start, outcome := Outcome, pattern := Pattern} = State) ->
    First = maps:merge(#{first_line => At - Start}, Outcome),
    case is_map_key(ready, First) orelse not is_ready(Pattern, Line) of
        true -> State#{outcome := First};
        false -> ready(At, State#{outcome := First#{ready => At - Start}})
    end.

is_ready(any, _) -> true;
is_ready(Pattern, Line) -> re:run(Line, Pattern, [{capture, none}]) =:= match.

%% The time of the study begins when the program is ready.
ready(At, #{started := Started, duration := Duration} = State) ->
    read_memory(At, State#{deadline := At + Duration, ready_at => At,
                           before => whittle_measure_process:work(whittle_program:pid(Started))}).

read_memory(Now, #{started := Started, start := Start, interval := Interval,
                   outcome := #{memory := Memory} = Outcome} = State) ->
    Read = whittle_measure_process:memory(whittle_program:pid(Started)),
    Work = whittle_measure_process:work(whittle_program:pid(Started)),
    %% A process that has just ended reads as 0.
    case Read of
        #{rss := 0} -> State#{next := Now + Interval};
        _ -> State#{next := Now + Interval, last => {Now, Work},
                    outcome := Outcome#{memory := [{Now - Start, Read} | Memory]}}
    end.

over(#{started := Started} = State) ->
    #{outcome := Outcome} = Last = read_memory(now_us(), State),
    ok = whittle_program:stop(Started),
    case Outcome of
        #{ready := _} -> {ok, finished(Last)};
        _ -> {error, {not_ready, maps:get(duration, State) div 1000, tail(Last)}}
    end.

ended(0, At, #{start := Start, outcome := Outcome} = State) ->
    {ok, finished(State#{outcome := Outcome#{ended => At - Start}})};
ended(Status, _, State) ->
    {error, {failed, Status, tail(State)}}.

finished(#{outcome := #{memory := Memory} = Outcome} = State) ->
    maps:merge(Outcome#{memory := lists:reverse(Memory), output => tail(State)}, work(State)).

work(#{before := Before, last := {At, #{cpu := Cpu} = After}, ready_at := Ready}) when At > Ready ->
    #{cpu => Cpu,
      work => maps:map(fun(Key, Value) -> Value - maps:get(Key, Before) end, After),
      watched => max(1, (At - Ready) div 1000)};
work(_) -> #{}.

tail(#{output := Output}) ->
    Bytes = iolist_to_binary(Output),
    binary:part(Bytes, byte_size(Bytes), -min(byte_size(Bytes), ?OUTPUT)).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({not_started, Program, Status, Output}) ->
    io_lib:format("~ts could not be started (status ~b): ~ts", [Program, Status, last(Output)]);
format_error({failed, Status, Output}) ->
    io_lib:format("the program ended with exit code ~b: ~ts", [Status, last(Output)]);
format_error({not_ready, Milliseconds, Output}) ->
    io_lib:format("the program was not ready after ~b s (~ts): correct `ready' or raise "
                  "`duration' in the study", [Milliseconds div 1000, last(Output)]).

last(Output) ->
    case binary:split(Output, <<"\n">>, [global, trim_all]) of
        [] -> "it printed nothing";
        Lines -> ["its last line is `", whittle_file_name:printable(lists:last(Lines)), "'"]
    end.
