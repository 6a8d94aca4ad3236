%% @hidden The process of an open serial line: reads, delivers, queues what cannot be sent at
%% once, closes.
%%
%% It reads while somebody wants bytes or there is room to read ahead; nif_read asks the poll
%% for the next time by itself, so `armed' says only whether {select, ...}, or `read_more'
%% which it sends itself instead, is to be expected.
%% Sends come here only when their turn has not come (`turns') or the kernel did not take all
%% (`waiting', by tag: their bytes are in the NIF). Drains and breaks are turns too. While
%% `turns' is not empty and while a break is on, the NIF is reserved: nobody overtakes.
%%
%% The module is long because each part of it changes the state of one line; what could be
%% parted from that is in whittle_serial_packet, _option and _device.
%%
%% Waiting for output is asking the kernel at intervals (TIOCOUTQ): the kernel tells nobody,
%% and calls that wait would take a dirty scheduler for as long as the other side holds us up.
-module(whittle_serial_port).
-behaviour(gen_server).

-export([start/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% inet's bound of a recv.
-define(MAX_RECV, 16#4000000).
%% Results of sends whose senders have not asked yet: past so many the dead are looked for.
-define(RESULTS, 16).

-record(recv, {from :: gen_server:from(), length :: non_neg_integer(),
               timer :: reference() | none, watch :: reference()}).
%% What a turn is: bytes, by their tag; or what begins once all output has left.
-record(turn, {from :: gen_server:from(), timer :: reference() | none,
               what :: {whittle_serial:tag(), binary()} | drain | {break, pos_integer()}}).

-record(port, {line :: whittle_serial:line(), path :: binary(), owner :: pid(),
               watch :: reference(), options :: whittle_serial_option:options(),
               input :: whittle_serial_packet:input(), dropped = 0 :: non_neg_integer(),
               armed = false :: boolean(),
               %% A new owner is being told what the old one has not received.
               held = false :: boolean(),
               %% The descriptor is closed already.
               hung_up = false :: boolean(),
               recvs = queue:new() :: queue:queue(#recv{}),
               turns = queue:new() :: queue:queue(#turn{}),
               waiting = #{} :: #{whittle_serial:tag() =>
                                      {gen_server:from(), reference() | none}},
               results = #{} :: #{whittle_serial:tag() => ok | {error, term()}},
               asking = none :: reference() | none,
               break = none :: none | {gen_server:from(), reference()},
               gap = none :: none | reference(),
               %% When it is closed at the latest, and who waits for that.
               closing = no :: no | {integer(), [gen_server:from()]}}).

%% @doc Opens the device for Owner.
-spec start(pid(), binary(), whittle_serial_option:options()) ->
          {ok, whittle_serial:serial()} | {error, atom()}.
start(Owner, Path, Options) ->
    case gen_server:start(?MODULE, {Owner, Path, Options}, []) of
        {ok, Pid} -> {ok, gen_server:call(Pid, port, infinity)};
        {error, {shutdown, Reason}} -> {error, Reason}
    end.

%% @private
-spec init({pid(), binary(), whittle_serial_option:options()}) ->
          {ok, #port{}} | {stop, {shutdown, atom()}}.
init({Owner, Path, Options}) ->
    Watch = monitor(process, Owner),
    maybe_open(whittle_serial_nif:open(Path, maps:get(exclusive, Options)),
               #port{line = make_ref(), path = Path, owner = Owner, watch = Watch,
                     options = Options, input = input(Options)}).

maybe_open({ok, Line}, #port{options = Options} = Port0) ->
    Port = Port0#port{line = Line},
    case whittle_serial_nif:configure(Line, whittle_serial_option:settings(Options)) of
        ok ->
            %% What came in before is of another rate, and of nobody's.
            _ = whittle_serial_nif:flush(Line, 1),
            ok = whittle_serial_nif:packet(Line, head(Options)),
            {ok, Active} = active(#{}, Options),
            {ok, Port#port{options = Active}};
        {error, Reason} ->
            ok = close(Line),
            {stop, {shutdown, Reason}}
    end;
maybe_open({error, Reason}, _) -> {stop, {shutdown, Reason}}.

input(Options) -> whittle_serial_packet:new(packet(Options), maps:get(packet_size, Options)).

packet(#{packet := raw, inter_byte_timeout := Time}) when is_integer(Time) -> gap;
packet(#{packet := Packet}) -> Packet.

head(#{packet := Packet}) when is_integer(Packet) -> Packet;
head(_) -> 0.

%%% requests

%% @private
-spec handle_call(term(), gen_server:from(), #port{}) ->
          {reply, term(), #port{}} | {noreply, #port{}} | {stop, normal, #port{}}.
handle_call(close, From, Port) -> begin_close([From], Port);
%% What the kernel has taken is not taken back by what became of the line.
handle_call({sent, Tag, _}, _, #port{results = Results} = Port)
  when is_map_key(Tag, Results) ->
    {Result, Results1} = maps:take(Tag, Results),
    {reply, Result, Port#port{results = Results1}};
handle_call(_, _, #port{closing = {_, _}} = Port) -> {reply, {error, closed}, Port};
handle_call(port, _, #port{line = Line} = Port) ->
    deliver_reply({whittle_serial, self(), Line}, read(Port));
handle_call({recv, Length, Timeout}, From, Port) -> recv(Length, Timeout, From, Port);
handle_call({setopts, Changes}, _, Port) -> setopts(Changes, Port);
handle_call({getopts, Names}, _, Port) -> {reply, getopts(Names, Port), Port};
handle_call(hold, {Pid, _}, #port{owner = Pid} = Port) ->
    {reply, ok, Port#port{held = true}};
handle_call(hold, _, Port) -> {reply, {error, not_owner}, Port};
handle_call({give, New}, {Pid, _}, #port{owner = Pid, held = true, watch = Watch} = Port) ->
    true = demonitor(Watch, [flush]),
    deliver_reply(ok, Port#port{owner = New, watch = monitor(process, New), held = false});
handle_call(info, _, Port) -> {reply, {ok, info(Port)}, Port};
handle_call(_, _, #port{hung_up = true} = Port) -> {reply, {error, closed}, Port};
handle_call({sent, Tag, Timeout}, From,
            #port{line = Line, waiting = Waiting} = Port) ->
    case whittle_serial_nif:sending(Line) of
        Tag ->
            Entry = {From, send_timer(Timeout, Tag, Port)},
            {noreply, Port#port{waiting = Waiting#{Tag => Entry}}};
        %% Its result was thrown away, as its sender died after it had asked.
        _ -> {noreply, Port}
    end;
handle_call({send, Tag, Bytes, Timeout}, From, Port) ->
    {noreply, add_turn({Tag, Bytes}, From, send_timer(Timeout, Tag, Port), Port)};
handle_call({drain, Timeout}, From, Port) ->
    {noreply, add_turn(drain, From, timer(Timeout, drain), Port)};
handle_call({break, Time}, From, Port) ->
    {noreply, add_turn({break, Time}, From, none, Port)};
handle_call({flush, What}, _, Port) -> flush(What, Port);
handle_call(modem_lines, _, #port{line = Line} = Port) ->
    {reply, case whittle_serial_nif:lines(Line) of
                {ok, On} -> {ok, maps:from_list([{Name, lists:member(Name, On)}
                                                 || Name <- [dtr, rts, cts, dsr, ri, cd]])};
                Error -> Error
            end, Port};
handle_call({set_modem_lines, Lines}, _, #port{line = Line} = Port) ->
    {reply, whittle_serial_nif:set_lines(Line, mask(true, Lines), mask(false, Lines)), Port};
handle_call(_, _, Port) -> {reply, {error, einval}, Port}.

mask(Value, Lines) ->
    lists:sum([Bit || {Name, Bit} <- [{dtr, 1}, {rts, 2}],
                      maps:get(Name, Lines, none) =:= Value]).

%% @private
-spec handle_cast(term(), #port{}) -> {noreply, #port{}}.
handle_cast(_, Port) -> {noreply, Port}.

%% @private
-spec handle_info(term(), #port{}) -> {noreply, #port{}} | {stop, normal, #port{}}.
handle_info({select, _, _, ready_input}, Port) -> arrived(Port#port{armed = false});
handle_info(read_more, Port) -> arrived(Port#port{armed = false});
handle_info({select, _, _, ready_output}, Port) -> {noreply, resume(Port)};
handle_info({timeout, Gap, gap}, #port{gap = Gap} = Port) -> silent(Port#port{gap = none});
handle_info({timeout, Timer, recv}, Port) -> {noreply, recv_timeout(Timer, Port)};
handle_info({timeout, Timer, {send, Tag}}, Port) ->
    {noreply, send_timeout(Timer, Tag, Port)};
handle_info({timeout, Timer, drain}, Port) -> {noreply, late_turn(Timer, timeout, Port)};
handle_info({timeout, Timer, ask}, #port{asking = Timer} = Port) ->
    asked(Port#port{asking = none});
handle_info({timeout, Timer, break}, #port{break = {_, Timer}} = Port) ->
    {noreply, end_break(Port)};
handle_info({'DOWN', Watch, process, _, _}, #port{watch = Watch} = Port) ->
    begin_close([], Port);
handle_info({'DOWN', Watch, process, _, _}, #port{recvs = Recvs} = Port) ->
    %% Who waited for bytes is gone; they are for the next.
    {Dead, Others} = lists:partition(fun(#recv{watch = W}) -> W =:= Watch end,
                                     queue:to_list(Recvs)),
    [cancel(Timer) || #recv{timer = Timer} <- Dead],
    {noreply, Port#port{recvs = queue:from_list(Others)}};
handle_info(_, Port) -> {noreply, Port}.

%%% input

%% Deliver, and go on reading if there is use for more.
arrived(#port{hung_up = true} = Port) -> {noreply, Port};
arrived(#port{closing = {_, _}} = Port) -> {noreply, Port};
arrived(Port) -> deliver(read(Port)).

read(#port{armed = true} = Port) -> Port;
read(#port{hung_up = true} = Port) -> Port;
read(#port{line = Line} = Port) ->
    case wants_more(Port) of
        false -> Port;
        true ->
            case whittle_serial_nif:read(Line) of
                {armed, Bytes} -> take_in(Bytes, Port#port{armed = true});
                {more, Bytes} ->
                    %% Others have their turn between.
                    self() ! read_more,
                    take_in(Bytes, Port#port{armed = true});
                eof -> hang_up(Port);
                {error, Reason} -> hang_up(unreadable(Reason, Port))
            end
    end.

wants_more(#port{input = Input, options = #{buffer := Buffer} = Options, recvs = Recvs}) ->
    Held = whittle_serial_packet:size(Input),
    Held < max(Buffer, frame(Options)) orelse
        case queue:peek(Recvs) of
            {value, #recv{length = Length}} -> Held < Length;
            empty -> false
        end.

%% A frame must fit, or it would never be whole.
frame(#{packet := raw, inter_byte_timeout := infinity}) -> 0;
frame(#{packet := raw, packet_size := Size}) -> Size;
frame(#{packet := line, packet_size := Size}) -> Size;
frame(#{packet := Head, packet_size := Size}) -> Size + Head.

take_in(<<>>, Port) -> Port;
take_in(Bytes, #port{input = Input} = Port) ->
    gap(Port#port{input = whittle_serial_packet:push(Bytes, Input)}).

%% Each arrival begins the silence anew.
gap(#port{options = #{inter_byte_timeout := infinity}} = Port) -> Port;
gap(#port{options = #{inter_byte_timeout := Time}, gap = Old} = Port) ->
    cancel(Old),
    Port#port{gap = erlang:start_timer(Time, self(), gap)}.

%% The poll's news may be late: what has come by now, came without a pause as far as we know.
silent(#port{line = Line, input = Input, armed = true, hung_up = false} = Port) ->
    case whittle_serial_nif:queues(Line) of
        {In, _, _, _, _} when In > 0 -> {noreply, gap(Port)};
        _ -> deliver(Port#port{input = whittle_serial_packet:silent(Input)})
    end;
silent(#port{input = Input} = Port) ->
    deliver(Port#port{input = whittle_serial_packet:silent(Input)}).

%% Gives what there is to whom it is for.
deliver(#port{held = true} = Port) -> {noreply, Port};
deliver(#port{closing = {_, _}} = Port) -> {noreply, Port};
deliver(#port{options = #{active := false}, recvs = Recvs} = Port) ->
    case queue:out(Recvs) of
        {empty, _} -> {noreply, read(Port)};
        {{value, #recv{length = Length} = Recv}, Others} ->
            case pop(Length, Port) of
                {more, #port{hung_up = true} = Port1} ->
                    answer(Recv, {error, closed}),
                    deliver(Port1#port{recvs = Others});
                {more, Port1} -> deliver_more(Port1);
                {{ok, Bytes}, Port1} ->
                    answer(Recv, {ok, mode(Bytes, Port1)}),
                    deliver(Port1#port{recvs = Others});
                {Error, Port1} ->
                    answer(Recv, Error),
                    deliver(Port1#port{recvs = Others})
            end
    end;
deliver(#port{owner = Owner, line = Line} = Port) ->
    Name = {whittle_serial, self(), Line},
    case pop(0, Port) of
        {more, #port{hung_up = true} = Port1} ->
            Owner ! {serial_closed, Name},
            {stop, normal, Port1};
        {more, Port1} -> deliver_more(Port1);
        {{ok, Bytes}, Port1} ->
            Owner ! {serial, Name, mode(Bytes, Port1)},
            deliver(count(Name, Port1));
        {{error, Reason}, Port1} ->
            Owner ! {serial_error, Name, Reason},
            deliver(count(Name, Port1))
    end.

%% What is there is not enough.
deliver_more(#port{armed = true} = Port) -> {noreply, Port};
deliver_more(Port) ->
    case read(Port) of
        #port{armed = false, hung_up = false} = Port1 -> {noreply, Port1};
        Port1 -> deliver(Port1)
    end.

deliver_reply(Reply, Port) ->
    case deliver(Port) of
        {noreply, Port1} -> {reply, Reply, Port1};
        {stop, normal, Port1} -> {stop, normal, Reply, Port1}
    end.

pop(Length, #port{input = Input, dropped = Dropped} = Port) ->
    Popped = case Length of
                 0 -> whittle_serial_packet:pop(Input);
                 _ -> whittle_serial_packet:take(Length, Input)
             end,
    case Popped of
        {ok, Bytes, Input1} -> {{ok, Bytes}, Port#port{input = Input1}};
        {more, Input1} -> {more, Port#port{input = Input1}};
        {error, Reason, Input1} ->
            {{error, Reason}, Port#port{input = Input1, dropped = Dropped + 1}}
    end.

mode(Bytes, #port{options = #{mode := binary}}) -> Bytes;
mode(Bytes, #port{options = #{mode := list}}) -> binary_to_list(Bytes).

%% One message is used up.
count(_, #port{options = #{active := true}} = Port) -> Port;
count(_, #port{options = #{active := once} = Options} = Port) ->
    Port#port{options = Options#{active := false}};
count(Name, #port{options = #{active := 1} = Options, owner = Owner} = Port) ->
    Owner ! {serial_passive, Name},
    Port#port{options = Options#{active := false}};
count(_, #port{options = #{active := N} = Options} = Port) ->
    Port#port{options = Options#{active := N - 1}}.

recv(_, _, _, #port{options = #{active := Active}} = Port) when Active =/= false ->
    {reply, {error, einval}, Port};
recv(Length, _, _, Port) when Length > ?MAX_RECV -> {reply, {error, enomem}, Port};
recv(Length, Timeout, {Pid, _} = From, #port{recvs = Recvs, options = Options} = Port) ->
    Count = case packet(Options) of
                raw -> Length;
                _ -> 0
            end,
    Recv = #recv{from = From, length = Count, timer = timer(Timeout, recv),
                 watch = monitor(process, Pid)},
    deliver(Port#port{recvs = queue:in(Recv, Recvs)}).

answer(#recv{from = From, timer = Timer, watch = Watch}, Result) ->
    cancel(Timer),
    true = demonitor(Watch, [flush]),
    gen_server:reply(From, Result).

recv_timeout(Timer, #port{recvs = Recvs} = Port) ->
    {Late, Others} = lists:partition(fun(#recv{timer = T}) -> T =:= Timer end,
                                     queue:to_list(Recvs)),
    [answer(Recv, {error, timeout}) || Recv <- Late],
    Port#port{recvs = queue:from_list(Others)}.

%% The device is gone, and a new one may need its name: the descriptor goes first, what has
%% been read is still delivered.
hang_up(#port{input = Input} = Port) ->
    Port1 = fail_output({error, closed}, Port),
    ok = close(Port1#port.line),
    cancel(Port1#port.gap),
    Port1#port{hung_up = true, armed = false, gap = none,
               input = whittle_serial_packet:silent(Input)}.

unreadable(_, #port{options = #{active := false}} = Port) -> Port;
unreadable(Reason, #port{owner = Owner, line = Line} = Port) ->
    Owner ! {serial_error, {whittle_serial, self(), Line}, Reason},
    Port.

%%% output

send_timer(default, Tag, #port{options = #{send_timeout := Timeout}}) ->
    timer(Timeout, {send, Tag});
send_timer(Timeout, Tag, _) -> timer(Timeout, {send, Tag}).

%% The kernel has room again.
resume(#port{hung_up = true} = Port) -> Port;
resume(#port{line = Line} = Port) ->
    case whittle_serial_nif:resume(Line) of
        {done, Tag, Result} -> next_turn(sent(Tag, Result, Port));
        none -> next_turn(Port);
        _ -> Port
    end.

%% Tells the sender; one that has not asked yet will, unless it died.
sent(Tag, Result, #port{waiting = Waiting, results = Results} = Port) ->
    case maps:take(Tag, Waiting) of
        {{From, Timer}, Waiting1} ->
            cancel(Timer),
            gen_server:reply(From, Result),
            Port#port{waiting = Waiting1};
        error when map_size(Results) < ?RESULTS ->
            Port#port{results = Results#{Tag => Result}};
        error ->
            Alive = maps:filter(fun({Pid, _}, _) -> is_process_alive(Pid) end, Results),
            Port#port{results = Alive#{Tag => Result}}
    end.

add_turn(What, From, Timer, #port{line = Line, turns = Turns} = Port) ->
    ok = whittle_serial_nif:reserve(Line, true),
    Turn = #turn{from = From, timer = Timer, what = What},
    next_turn(Port#port{turns = queue:in(Turn, Turns)}).

next_turn(#port{break = {_, _}} = Port) -> Port;
next_turn(#port{closing = {_, _}} = Port) -> Port;
next_turn(#port{line = Line, turns = Turns} = Port) ->
    case queue:out(Turns) of
        {empty, _} ->
            _ = whittle_serial_nif:reserve(Line, false),
            Port;
        {{value, Turn}, Others} -> turn(Turn, Port#port{turns = Others}, Port)
    end.

%% After is the port without this turn, Before with it.
turn(#turn{from = From, what = {{_, _} = Tag, Bytes}, timer = Timer} = Turn,
     #port{line = Line, waiting = Waiting} = After, Before) ->
    case whittle_serial_nif:send(Line, Bytes, Tag) of
        busy -> Before;
        wait -> After#port{waiting = Waiting#{Tag => {From, Timer}}};
        Result -> next_turn(answer_turn(Turn, Result, After))
    end;
turn(#turn{what = What, timer = Timer} = Turn, #port{line = Line} = After, Before) ->
    case whittle_serial_nif:queues(Line) of
        {_, 0, _, _, false} when What =:= drain ->
            next_turn(answer_turn(Turn, whittle_serial_nif:drain(Line), After));
        {_, 0, _, _, false} ->
            cancel(Timer),
            begin_break(Turn, After);
        {_, Out, _, _, _} -> ask_in(pause(Out, Before), Before)
    end.

answer_turn(#turn{from = From, timer = Timer}, Result, Port) ->
    cancel(Timer),
    gen_server:reply(From, Result),
    Port.

%% Its time is over before its turn came.
late_turn(Timer, Reason, #port{turns = Turns} = Port) ->
    {Late, Others} = lists:partition(fun(#turn{timer = T}) -> T =:= Timer end,
                                     queue:to_list(Turns)),
    [gen_server:reply(From, {error, late(Reason, What)})
     || #turn{from = From, what = What} <- Late],
    next_turn(Port#port{turns = queue:from_list(Others)}).

late(timeout, {{_, _}, Bytes}) -> {timeout, Bytes};
late(Reason, _) -> Reason.

send_timeout(Timer, Tag, #port{line = Line, waiting = Waiting} = Port) ->
    case is_map_key(Tag, Waiting) andalso whittle_serial_nif:cancel(Line, Tag) of
        {rest, Tag, Rest} -> next_turn(sent(Tag, {error, {timeout, Rest}}, Port));
        false -> late_turn(Timer, timeout, Port);
        _ -> Port
    end.

%% All who wait for output get this instead.
fail_output(Result, #port{line = Line, turns = Turns} = Port) ->
    Port1 = case whittle_serial_nif:cancel(Line, all) of
                {rest, Tag, _} -> sent(Tag, Result, Port);
                _ -> Port
            end,
    _ = [answer_turn(Turn, Result, Port1) || Turn <- queue:to_list(Turns)],
    end_break(Port1#port{turns = queue:new()}).

begin_break(#turn{from = From, what = {break, Time}}, #port{line = Line} = Port) ->
    case whittle_serial_nif:break(Line, true) of
        ok -> Port#port{break = {From, erlang:start_timer(Time, self(), break)}};
        Error ->
            gen_server:reply(From, Error),
            next_turn(Port)
    end.

end_break(#port{break = none} = Port) -> Port;
end_break(#port{break = {From, Timer}, line = Line} = Port) ->
    cancel(Timer),
    gen_server:reply(From, whittle_serial_nif:break(Line, false)),
    next_turn(Port#port{break = none}).

%% Whether output has left is asked again when it might have: milliseconds in which so many
%% bytes leave, of ten bits each; at least one, and not so many that a wrong guess is felt.
pause(Out, #port{options = #{rate := Rate}}) -> min(50, 1 + Out * 10000 div Rate).

ask_in(Time, #port{asking = none} = Port) ->
    Port#port{asking = erlang:start_timer(Time, self(), ask)};
ask_in(_, Port) -> Port.

asked(#port{hung_up = true} = Port) -> {noreply, Port};
asked(#port{closing = no} = Port) -> {noreply, next_turn(Port)};
asked(#port{closing = {Deadline, _}, line = Line} = Port) ->
    {_, Out, _, _, _} = whittle_serial_nif:queues(Line),
    Left = Deadline - erlang:monotonic_time(millisecond),
    if
        Out =:= 0 -> finish_close(Port);
        Left > 0 -> {noreply, ask_in(min(Left, pause(Out, Port)), Port)};
        true ->
            _ = whittle_serial_nif:flush(Line, 2),
            finish_close(Port)
    end.

flush(What, #port{line = Line, options = Options} = Port) ->
    Port1 = case What of
                output -> Port;
                _ ->
                    cancel(Port#port.gap),
                    Port#port{input = input(Options), gap = none}
            end,
    Number = case What of input -> 1; output -> 2; both -> 3 end,
    Port2 = case What of
                input -> Port1;
                _ -> fail_output({error, ecanceled}, Port1)
            end,
    Result = whittle_serial_nif:flush(Line, Number),
    deliver_reply(Result, next_turn(Port2)).

%%% options

setopts(Changes, #port{hung_up = HungUp, line = Line, options = Old} = Port) ->
    case active(Changes, Old) of
        {ok, New} ->
            Set = case whittle_serial_option:is_device(Changes) of
                      false -> ok;
                      true when HungUp -> {error, closed};
                      true ->
                          whittle_serial_nif:configure(Line, whittle_serial_option:settings(New))
                  end,
            case Set of
                ok -> changed(Changes, Port#port{options = New});
                Error -> {reply, Error, Port}
            end;
        Error -> {reply, Error, Port}
    end.

%% A count is added to what is left of one; one that is used up is 0 for a moment.
active(Changes, #{active := N} = Options) when not is_map_key(active, Changes),
                                               is_integer(N), N =< 0 ->
    {ok, maps:merge(Options#{active := false}, Changes)};
active(#{active := N} = Changes, #{active := Old} = Options) when is_integer(N) ->
    Before = case is_integer(Old) of true -> Old; false -> 0 end,
    if
        Before + N > 32767; Before + N < -32768 -> {error, einval};
        Before + N =< 0 -> {ok, (maps:merge(Options, Changes))#{active := 0}};
        true -> {ok, (maps:merge(Options, Changes))#{active := Before + N}}
    end;
active(Changes, Options) -> {ok, maps:merge(Options, Changes)}.

changed(Changes, #port{options = Options, line = Line, input = Input, owner = Owner} = Port) ->
    Port1 = case maps:get(active, Options) of
                0 ->
                    Owner ! {serial_passive, {whittle_serial, self(), Line}},
                    Port#port{options = Options#{active := false}};
                _ -> Port
            end,
    Framing = [packet, packet_size, inter_byte_timeout],
    Port2 = case lists:any(fun(Name) -> is_map_key(Name, Changes) end, Framing) of
                false -> Port1;
                true ->
                    _ = whittle_serial_nif:packet(Line, head(Options)),
                    Input1 = whittle_serial_packet:change(
                               packet(Options), maps:get(packet_size, Options), Input),
                    regap(Port1#port{input = Input1})
            end,
    deliver_reply(ok, Port2).

%% Silence counts from now for what is there.
regap(#port{gap = Old, input = Input} = Port) ->
    cancel(Old),
    case whittle_serial_packet:is_partial(Input) of
        true -> gap(Port#port{gap = none});
        false -> Port#port{gap = none}
    end.

getopts(Names, #port{options = Options, line = Line, hung_up = HungUp}) ->
    Asked = whittle_serial_option:is_device(maps:with(Names, Options)) andalso not HungUp,
    Settings = case Asked andalso whittle_serial_nif:settings(Line) of
                   {ok, Kernel} -> {ok, whittle_serial_option:from_settings(Kernel)};
                   false -> {ok, #{}};
                   Error -> Error
               end,
    case Settings of
        {ok, Now} ->
            All = maps:merge(Options, Now),
            {ok, [{Name, maps:get(Name, All)} || Name <- Names]};
        {error, _} -> Settings
    end.

info(#port{path = Path, owner = Owner, line = Line, input = Input, turns = Turns,
           recvs = Recvs, waiting = Waiting, break = Break, dropped = Dropped, hung_up = HungUp}) ->
    {In, Out, Read, Written} =
        case not HungUp andalso whittle_serial_nif:queues(Line) of
            {A, B, C, D, _} -> {A, B, C, D};
            _ -> {0, 0, 0, 0}
        end,
    Info = #{device => Path, owner => Owner, read => Read, written => Written,
             queued_in => In, queued_out => Out, dropped => Dropped,
             buffered => whittle_serial_packet:size(Input),
             senders => queue:len(Turns) + map_size(Waiting) + length([on || Break =/= none]),
             receivers => queue:len(Recvs)},
    case not HungUp andalso whittle_serial_nif:counters(Line) of
        {ok, Counters} ->
            Names = [cts, dsr, ri, cd, rx, tx, frame, overrun, parity, break, buffer_overrun],
            Info#{counters => maps:from_list(lists:zip(Names, Counters))};
        _ -> Info
    end.

%%% the end

begin_close(From, #port{closing = {Deadline, Others}} = Port) ->
    {noreply, Port#port{closing = {Deadline, From ++ Others}}};
begin_close(From, #port{hung_up = true, recvs = Recvs} = Port) ->
    [answer(Recv, {error, closed}) || Recv <- queue:to_list(Recvs)],
    [gen_server:reply(F, ok) || F <- From],
    {stop, normal, Port#port{recvs = queue:new()}};
begin_close(From, #port{recvs = Recvs, options = #{linger := Linger}, line = Line,
                        asking = Asking} = Port) ->
    [answer(Recv, {error, closed}) || Recv <- queue:to_list(Recvs)],
    cancel(Asking),
    Port1 = fail_output({error, closed}, Port#port{recvs = queue:new(), asking = none}),
    _ = whittle_serial_nif:reserve(Line, true),
    Deadline = erlang:monotonic_time(millisecond) + Linger,
    asked(Port1#port{closing = {Deadline, From}}).

finish_close(#port{closing = {_, From}, line = Line} = Port) ->
    ok = close(Line),
    [gen_server:reply(F, ok) || F <- From],
    {stop, normal, Port}.

close(Line) ->
    case whittle_serial_nif:stop(Line) of
        wait -> receive {whittle_serial_stopped, Line} -> ok end;
        stopped -> ok
    end,
    whittle_serial_nif:close(Line).

%%% timers

timer(infinity, _) -> none;
timer(Time, Message) -> erlang:start_timer(Time, self(), Message).

%% A message that is on its way already is known by its reference, and ignored.
cancel(none) -> ok;
cancel(Timer) ->
    _ = erlang:cancel_timer(Timer),
    ok.
