%% @hidden Keeps the output of a serial line: sends, drains and breaks, in the order of the
%% requests.
%%
%% A send comes here only in two cases. In `turns', it waits for its turn. In `waiting', by its tag,
%% the kernel has not taken all of its bytes, which the NIF keeps. Drains and breaks are turns too.
%% While `turns' is not empty, and during a break, this module reserves the NIF, so that no send
%% overtakes another.
%%
%% To wait for output, the process asks the kernel at intervals (TIOCOUTQ). The kernel does not
%% report the end of output, and a blocking call would occupy a dirty scheduler for as long as the
%% other side stops the output.
%%
%% The functions run in the process of the line (whittle_serial_port), which gets the timers'
%% messages and passes them on.
-module(whittle_serial_output).

%% A line's output
-export([new/2, rate/2, close/1, senders/1]).
%% Requests
-export([wait/4, take_result/2, add/4, fail/2]).
%% Events
-export([resume/1, proceed/1, timeout/3, asked/2, ask_again/3]).
-export_type([output/0, what/0]).

%% Results for senders that have not asked yet. Above this number the process looks for dead
%% senders.
-define(RESULTS, 16).

-type what() :: {whittle_serial:tag(), binary()} | drain | {break, pos_integer()}.
%% Bytes, by their tag, or an action that begins once all output has left.
-record(turn, {from :: gen_server:from(), timer :: whittle_serial_timer:timer(),
               what :: what()}).

-record(output, {line :: whittle_serial:line(), rate :: pos_integer(),
                 turns = queue:new() :: queue:queue(#turn{}),
                 waiting = #{} :: #{whittle_serial:tag() =>
                                        {gen_server:from(), whittle_serial_timer:timer()}},
                 results = #{} :: #{whittle_serial:tag() => ok | {error, term()}},
                 asking = none :: whittle_serial_timer:timer(),
                 break = none :: none | {gen_server:from(), reference()},
                 %% No further turn begins.
                 closing = false :: boolean()}).
-opaque output() :: #output{}.

%%% a line's output

%% @doc Makes an empty output at Rate bits per second.
-spec new(whittle_serial:line(), pos_integer()) -> output().
new(Line, Rate) -> #output{line = Line, rate = Rate}.

%% @doc Notes a new rate. The rate tells when output might have left.
-spec rate(pos_integer(), output()) -> output().
rate(Rate, Output) -> Output#output{rate = Rate}.

%% @doc Ends all waiting requests with `{error, closed}', and begins no further turn.
-spec close(output()) -> output().
close(#output{asking = Asking, line = Line} = Output) ->
    whittle_serial_timer:cancel(Asking),
    Output1 = fail({error, closed}, Output#output{asking = none}),
    _ = whittle_serial_nif:reserve(Line, true),
    Output1#output{closing = true}.

%% @doc Counts the waiting sends, drains and breaks.
-spec senders(output()) -> non_neg_integer().
senders(#output{turns = Turns, waiting = Waiting, break = Break}) ->
    queue:len(Turns) + map_size(Waiting) + length([on || Break =/= none]).

%%% requests

%% @doc Lets a sender wait for its send, because the kernel has not taken all of it.
-spec wait(whittle_serial:tag(), gen_server:from(), whittle_serial_timer:timer(), output()) ->
          output().
wait(Tag, From, Timer, #output{line = Line, waiting = Waiting} = Output) ->
    case whittle_serial_nif:sending(Line) of
        Tag -> Output#output{waiting = Waiting#{Tag => {From, Timer}}};
        %% The result was discarded, because its sender died after it had asked.
        _ ->
            whittle_serial_timer:cancel(Timer),
            Output
    end.

%% @doc Takes the result of a send that ended before its sender asked.
-spec take_result(whittle_serial:tag(), output()) -> {ok | {error, term()}, output()} | error.
take_result(Tag, #output{results = Results} = Output) ->
    case maps:take(Tag, Results) of
        {Result, Others} -> {Result, Output#output{results = Others}};
        error -> error
    end.

%% @doc Adds a turn after the others.
-spec add(what(), gen_server:from(), whittle_serial_timer:timer(), output()) -> output().
add(What, From, Timer, #output{line = Line, turns = Turns} = Output) ->
    ok = whittle_serial_nif:reserve(Line, true),
    Turn = #turn{from = From, timer = Timer, what = What},
    proceed(Output#output{turns = queue:in(Turn, Turns)}).

%% @doc Ends all requests that wait for output with this result.
-spec fail({error, term()}, output()) -> output().
fail(Result, #output{line = Line, turns = Turns} = Output) ->
    Output1 = case whittle_serial_nif:cancel(Line, all) of
                  {rest, Tag, _} -> sent(Tag, Result, Output);
                  _ -> Output
              end,
    [answer(Turn, Result) || Turn <- queue:to_list(Turns)],
    end_break(Output1#output{turns = queue:new()}).

%%% events

%% @doc Continues the waiting send, because the kernel has room again.
-spec resume(output()) -> output().
resume(#output{line = Line} = Output) ->
    case whittle_serial_nif:resume(Line) of
        {done, Tag, Result} -> proceed(sent(Tag, Result, Output));
        none -> proceed(Output);
        _ -> Output
    end.

%% Answers the sender. A sender that has not asked yet will ask, unless it died.
sent(Tag, Result, #output{waiting = Waiting, results = Results} = Output) ->
    case maps:take(Tag, Waiting) of
        {{From, Timer}, Waiting1} ->
            whittle_serial_timer:cancel(Timer),
            gen_server:reply(From, Result),
            Output#output{waiting = Waiting1};
        error when map_size(Results) < ?RESULTS ->
            Output#output{results = Results#{Tag => Result}};
        error ->
            Alive = maps:filter(fun({Pid, _}, _) -> is_process_alive(Pid) end, Results),
            Output#output{results = Alive#{Tag => Result}}
    end.

%% @doc Begins the turns that are due.
-spec proceed(output()) -> output().
proceed(#output{break = {_, _}} = Output) -> Output;
proceed(#output{closing = true} = Output) -> Output;
proceed(#output{line = Line, turns = Turns} = Output) ->
    case queue:out(Turns) of
        {empty, _} ->
            _ = whittle_serial_nif:reserve(Line, false),
            Output;
        {{value, Turn}, Others} -> turn(Turn, Output#output{turns = Others}, Output)
    end.

%% After is the output without this turn, and Before is the output with it.
turn(#turn{from = From, what = {{_, _} = Tag, Bytes}, timer = Timer} = Turn,
     #output{line = Line, waiting = Waiting} = After, Before) ->
    case whittle_serial_nif:send(Line, Bytes, Tag) of
        busy -> Before;
        wait -> After#output{waiting = Waiting#{Tag => {From, Timer}}};
        Result ->
            answer(Turn, Result),
            proceed(After)
    end;
turn(#turn{what = What, timer = Timer} = Turn, #output{line = Line} = After, Before) ->
    case whittle_serial_nif:queues(Line) of
        {_, 0, _, _, false} when What =:= drain ->
            answer(Turn, whittle_serial_nif:drain(Line)),
            proceed(After);
        {_, 0, _, _, false} ->
            whittle_serial_timer:cancel(Timer),
            begin_break(Turn, After);
        {_, Out, _, _, _} -> ask_in(pause(Out, Before), Before)
    end.

answer(#turn{from = From, timer = Timer}, Result) ->
    whittle_serial_timer:cancel(Timer),
    gen_server:reply(From, Result).

%% @doc Ends a send, a drain or a break whose timer has expired.
-spec timeout(reference(), {send, whittle_serial:tag()} | drain | break, output()) -> output().
timeout(Timer, {send, Tag}, #output{line = Line, waiting = Waiting} = Output) ->
    case is_map_key(Tag, Waiting) andalso whittle_serial_nif:cancel(Line, Tag) of
        {rest, Tag, Rest} -> proceed(sent(Tag, {error, {timeout, Rest}}, Output));
        false -> late(Timer, Output);
        _ -> Output
    end;
timeout(Timer, drain, Output) -> late(Timer, Output);
timeout(Timer, break, #output{break = {_, Timer}} = Output) -> end_break(Output);
timeout(_, break, Output) -> Output.

%% The time of this request is over before its turn.
late(Timer, #output{turns = Turns} = Output) ->
    {Late, Others} = lists:partition(fun(#turn{timer = T}) -> T =:= Timer end,
                                     queue:to_list(Turns)),
    [gen_server:reply(From, {error, reason(What)}) || #turn{from = From, what = What} <- Late],
    proceed(Output#output{turns = queue:from_list(Others)}).

reason({{_, _}, Bytes}) -> {timeout, Bytes};
reason(_) -> timeout.

begin_break(#turn{from = From, what = {break, Time}}, #output{line = Line} = Output) ->
    case whittle_serial_nif:break(Line, true) of
        ok -> Output#output{break = {From, erlang:start_timer(Time, self(), break)}};
        Error ->
            gen_server:reply(From, Error),
            proceed(Output)
    end.

end_break(#output{break = none} = Output) -> Output;
end_break(#output{break = {From, Timer}, line = Line} = Output) ->
    whittle_serial_timer:cancel(Timer),
    gen_server:reply(From, whittle_serial_nif:break(Line, false)),
    proceed(Output#output{break = none}).

%% The process asks the kernel again when the output might have left. The result is the
%% milliseconds for so many bytes of ten bits each. It is at least one, and small enough that a
%% wrong estimate costs little.
pause(Out, #output{rate = Rate}) -> min(50, 1 + Out * 10000 div Rate).

ask_in(Time, #output{asking = none} = Output) ->
    Output#output{asking = erlang:start_timer(Time, self(), ask)};
ask_in(_, Output) -> Output.

%% @doc Tells whether this is the timer of the next question to the kernel.
-spec asked(reference(), output()) -> {true, output()} | false.
asked(Timer, #output{asking = Timer} = Output) -> {true, Output#output{asking = none}};
asked(_, _) -> false.

%% @doc Starts a timer until Out bytes might have left, but not longer than Left milliseconds. Its
%% message is `{timeout, Timer, ask}'.
-spec ask_again(pos_integer(), pos_integer(), output()) -> output().
ask_again(Out, Left, Output) -> ask_in(min(Left, pause(Out, Output)), Output).
