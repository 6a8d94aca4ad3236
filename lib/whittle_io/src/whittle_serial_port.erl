%% @hidden Serves an open serial line: reads, delivers, passes output on, closes.
%%
%% The process reads while a process wants bytes, or while it has room to read ahead.
%% whittle_serial_nif:read/1 itself asks the poll for the next report. So `armed' tells only whether
%% a message will come: {select, ...} from the poll, or `read_more' from the process itself.
%%
%% whittle_serial_packet has the input bytes, and whittle_serial_output has the output.
-module(whittle_serial_port).
-behaviour(gen_server).

-export([start/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The limit of a recv in inet.
-define(MAX_RECV, 16#4000000).
-record(recv, {from :: gen_server:from(), length :: non_neg_integer(),
               timer :: whittle_serial_timer:timer(), watch :: reference()}).
-record(port, {line :: whittle_serial:line(), path :: binary(), owner :: pid(),
               watch :: reference(), options :: whittle_serial_option:options(),
               input :: whittle_serial_packet:input(), dropped = 0 :: non_neg_integer(),
               armed = false :: boolean(),
               %% A new owner is getting the messages that the old one has not received.
               held = false :: boolean(),
               %% The descriptor is closed already.
               hung_up = false :: boolean(),
               recvs = queue:new() :: queue:queue(#recv{}),
               output :: whittle_serial_output:output(),
               gap = none :: whittle_serial_timer:timer(),
               %% The latest time of the close, and the processes that wait for it.
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
               Owner, Watch, Path, Options).

maybe_open({ok, Line}, Owner, Watch, Path, Options) ->
    case whittle_serial_nif:configure(Line, whittle_serial_option:settings(Options)) of
        ok ->
            %% Earlier input has another rate, and nobody asked for it.
            _ = whittle_serial_nif:flush(Line, 1),
            ok = whittle_serial_nif:packet(Line, whittle_serial_option:head(Options)),
            {ok, Active} = whittle_serial_option:merge(#{}, Options),
            Output = whittle_serial_output:new(Line, maps:get(rate, Options)),
            {ok, #port{line = Line, path = Path, owner = Owner, watch = Watch, options = Active,
                       input = input(Options), output = Output}};
        {error, Reason} ->
            ok = close(Line),
            {stop, {shutdown, Reason}}
    end;
maybe_open({error, Reason}, _, _, _, _) -> {stop, {shutdown, Reason}}.

input(Options) ->
    whittle_serial_packet:new(whittle_serial_option:packet(Options),
                              maps:get(packet_size, Options)).

%%% requests

%% @private
-spec handle_call(term(), gen_server:from(), #port{}) ->
          {reply, term(), #port{}} | {noreply, #port{}} | {stop, normal, #port{}}.
handle_call(close, From, Port) -> begin_close([From], Port);
handle_call({sent, Tag, Timeout}, From, #port{output = Output} = Port) ->
    %% The kernel keeps the bytes that it has taken, whatever becomes of the line.
    case whittle_serial_output:take_result(Tag, Output) of
        {Result, Output1} -> {reply, Result, Port#port{output = Output1}};
        error -> wait(Tag, Timeout, From, Port)
    end;
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
handle_call({send, Tag, Bytes, Timeout}, From, Port) ->
    {noreply, add({Tag, Bytes}, From, send_timer(Timeout, Tag, Port), Port)};
handle_call({drain, Timeout}, From, Port) ->
    {noreply, add(drain, From, whittle_serial_timer:start(Timeout, drain), Port)};
handle_call({break, Time}, From, Port) -> {noreply, add({break, Time}, From, none, Port)};
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
handle_info({timeout, Timer, ask}, #port{output = Output} = Port) ->
    case whittle_serial_output:asked(Timer, Output) of
        {true, Output1} -> asked(Port#port{output = Output1});
        false -> {noreply, Port}
    end;
handle_info({timeout, Timer, {send, _} = What}, Port) -> late(Timer, What, Port);
handle_info({timeout, Timer, drain}, Port) -> late(Timer, drain, Port);
handle_info({timeout, Timer, break}, Port) -> late(Timer, break, Port);
handle_info({'DOWN', Watch, process, _, _}, #port{watch = Watch} = Port) ->
    begin_close([], Port);
handle_info({'DOWN', Watch, process, _, _}, #port{recvs = Recvs} = Port) ->
    %% A process that waited for bytes is gone. The next one gets them.
    {Dead, Others} = lists:partition(fun(#recv{watch = W}) -> W =:= Watch end,
                                     queue:to_list(Recvs)),
    [whittle_serial_timer:cancel(Timer) || #recv{timer = Timer} <- Dead],
    {noreply, Port#port{recvs = queue:from_list(Others)}};
handle_info(_, Port) -> {noreply, Port}.

%%% input

%% Delivers, and reads further if somebody can use more.
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
                    %% Other messages have their turn in between.
                    self() ! read_more,
                    take_in(Bytes, Port#port{armed = true});
                eof -> hang_up(Port);
                {error, Reason} -> hang_up(unreadable(Reason, Port))
            end
    end.

wants_more(#port{input = Input, options = #{buffer := Buffer} = Options, recvs = Recvs}) ->
    Held = whittle_serial_packet:size(Input),
    Held < max(Buffer, whittle_serial_option:frame(Options)) orelse
        case queue:peek(Recvs) of
            {value, #recv{length = Length}} -> Held < Length;
            empty -> false
        end.

take_in(<<>>, Port) -> Port;
take_in(Bytes, #port{input = Input} = Port) ->
    gap(Port#port{input = whittle_serial_packet:push(Bytes, Input)}).

%% The silence begins anew with each arrival.
gap(#port{options = #{inter_byte_timeout := infinity}} = Port) -> Port;
gap(#port{options = #{inter_byte_timeout := Time}, gap = Old} = Port) ->
    whittle_serial_timer:cancel(Old),
    Port#port{gap = erlang:start_timer(Time, self(), gap)}.

%% The poll's report may be late. The bytes that have arrived by now count as sent without a
%% pause.
silent(#port{line = Line, input = Input, armed = true, hung_up = false} = Port) ->
    case whittle_serial_nif:queues(Line) of
        {In, _, _, _, _} when In > 0 -> {noreply, gap(Port)};
        _ -> deliver(Port#port{input = whittle_serial_packet:silent(Input)})
    end;
silent(#port{input = Input} = Port) ->
    deliver(Port#port{input = whittle_serial_packet:silent(Input)}).

%% Delivers the available input to its receiver.
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

%% The available bytes are not enough.
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

%% One message of the count is used up.
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
    Count = case whittle_serial_option:packet(Options) of
                raw -> Length;
                _ -> 0
            end,
    Recv = #recv{from = From, length = Count, timer = whittle_serial_timer:start(Timeout, recv),
                 watch = monitor(process, Pid)},
    deliver(Port#port{recvs = queue:in(Recv, Recvs)}).

answer(#recv{from = From, timer = Timer, watch = Watch}, Result) ->
    whittle_serial_timer:cancel(Timer),
    true = demonitor(Watch, [flush]),
    gen_server:reply(From, Result).

recv_timeout(Timer, #port{recvs = Recvs} = Port) ->
    {Late, Others} = lists:partition(fun(#recv{timer = T}) -> T =:= Timer end,
                                     queue:to_list(Recvs)),
    [answer(Recv, {error, timeout}) || Recv <- Late],
    Port#port{recvs = queue:from_list(Others)}.

%% The device is gone, and a new one may need its name. So the descriptor closes first, and the
%% process then delivers the input that it has read.
hang_up(#port{line = Line, gap = Gap, input = Input, output = Output} = Port) ->
    Failed = whittle_serial_output:fail({error, closed}, Output),
    ok = close(Line),
    whittle_serial_timer:cancel(Gap),
    Port#port{hung_up = true, armed = false, gap = none, output = Failed,
              input = whittle_serial_packet:silent(Input)}.

unreadable(_, #port{options = #{active := false}} = Port) -> Port;
unreadable(Reason, #port{owner = Owner, line = Line} = Port) ->
    Owner ! {serial_error, {whittle_serial, self(), Line}, Reason},
    Port.

%%% output

send_timer(default, Tag, #port{options = #{send_timeout := Timeout}}) ->
    whittle_serial_timer:start(Timeout, {send, Tag});
send_timer(Timeout, Tag, _) -> whittle_serial_timer:start(Timeout, {send, Tag}).

wait(_, _, _, #port{closing = {_, _}} = Port) -> {reply, {error, closed}, Port};
wait(_, _, _, #port{hung_up = true} = Port) -> {reply, {error, closed}, Port};
wait(Tag, Timeout, From, #port{output = Output} = Port) ->
    Timer = send_timer(Timeout, Tag, Port),
    {noreply, Port#port{output = whittle_serial_output:wait(Tag, From, Timer, Output)}}.

add(What, From, Timer, #port{output = Output} = Port) ->
    Port#port{output = whittle_serial_output:add(What, From, Timer, Output)}.

late(Timer, What, #port{output = Output} = Port) ->
    {noreply, Port#port{output = whittle_serial_output:timeout(Timer, What, Output)}}.

%% The kernel has room again.
resume(#port{hung_up = true} = Port) -> Port;
resume(#port{output = Output} = Port) -> Port#port{output = whittle_serial_output:resume(Output)}.

asked(#port{hung_up = true} = Port) -> {noreply, Port};
asked(#port{closing = no, output = Output} = Port) ->
    {noreply, Port#port{output = whittle_serial_output:proceed(Output)}};
asked(#port{closing = {Deadline, _}, line = Line, output = Output} = Port) ->
    {_, Out, _, _, _} = whittle_serial_nif:queues(Line),
    Left = Deadline - erlang:monotonic_time(millisecond),
    if
        Out =:= 0 -> finish_close(Port);
        Left > 0 ->
            {noreply, Port#port{output = whittle_serial_output:ask_again(Out, Left, Output)}};
        true ->
            _ = whittle_serial_nif:flush(Line, 2),
            finish_close(Port)
    end.

flush(What, #port{line = Line, options = Options, output = Output} = Port) ->
    Port1 = case What of
                output -> Port;
                _ ->
                    whittle_serial_timer:cancel(Port#port.gap),
                    Port#port{input = input(Options), gap = none}
            end,
    Number = case What of input -> 1; output -> 2; both -> 3 end,
    Output1 = case What of
                  input -> Output;
                  _ -> whittle_serial_output:fail({error, ecanceled}, Output)
              end,
    Result = whittle_serial_nif:flush(Line, Number),
    deliver_reply(Result, Port1#port{output = whittle_serial_output:proceed(Output1)}).

%%% options

setopts(Changes, #port{hung_up = HungUp, line = Line, options = Old, output = Output} = Port) ->
    case whittle_serial_option:merge(Changes, Old) of
        {ok, New} ->
            Set = case whittle_serial_option:is_device(Changes) of
                      false -> ok;
                      true when HungUp -> {error, closed};
                      true ->
                          whittle_serial_nif:configure(Line, whittle_serial_option:settings(New))
                  end,
            case Set of
                ok ->
                    Output1 = whittle_serial_output:rate(maps:get(rate, New), Output),
                    changed(Changes, Port#port{options = New, output = Output1});
                Error -> {reply, Error, Port}
            end;
        Error -> {reply, Error, Port}
    end.

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
                    _ = whittle_serial_nif:packet(Line, whittle_serial_option:head(Options)),
                    Input1 = whittle_serial_packet:change(
                               whittle_serial_option:packet(Options),
                               maps:get(packet_size, Options), Input),
                    regap(Port1#port{input = Input1})
            end,
    deliver_reply(ok, Port2).

%% For the present input, the silence begins now.
regap(#port{gap = Old, input = Input} = Port) ->
    whittle_serial_timer:cancel(Old),
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

info(#port{path = Path, owner = Owner, line = Line, input = Input, output = Output,
           recvs = Recvs, dropped = Dropped, hung_up = HungUp}) ->
    {In, Out, Read, Written} =
        case not HungUp andalso whittle_serial_nif:queues(Line) of
            {A, B, C, D, _} -> {A, B, C, D};
            _ -> {0, 0, 0, 0}
        end,
    Info = #{device => Path, owner => Owner, read => Read, written => Written,
             queued_in => In, queued_out => Out, dropped => Dropped,
             buffered => whittle_serial_packet:size(Input),
             senders => whittle_serial_output:senders(Output),
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
begin_close(From, #port{recvs = Recvs, options = #{linger := Linger},
                        output = Output} = Port) ->
    [answer(Recv, {error, closed}) || Recv <- queue:to_list(Recvs)],
    Closing = whittle_serial_output:close(Output),
    Deadline = erlang:monotonic_time(millisecond) + Linger,
    asked(Port#port{recvs = queue:new(), output = Closing, closing = {Deadline, From}}).

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
