%% @doc Gathers messages for a batcher into one signal, and sends no more than the receiver can
%% take.
%%
%% A sender is a value that its process keeps:
%% ```
%% {ok, S0} = whittle_flow_sender:new(Batcher, #{batch => 100}),
%% S1 = whittle_flow_sender:push(reading, S0),
%% {ok, S2} = whittle_flow_sender:sync(S1, 5000)
%% '''
%% The process gets messages for the sender: credit, the timer of `wait', the receiver's death.
%% Pass them to info/2. A process that only pushes and syncs need not call info/2. Another process
%% does not get these messages, so it cannot use the value: sync/2 there raises `not_owner'. The
%% result of each call replaces the value. An older value never gets back the messages that it
%% counts as on their way.
%%
%% == Guarantees ==
%% Messages arrive in the order of pushing. Other messages of the process to a receiver on another
%% node, such as those of whittle_flow_batcher:cast/2, may overtake them. After sync/2 returned
%% `ok', the receiver has handled each message once. If the receiver dies, it has handled the
%% messages on their way once or not at all. The sender does not send them again, but counts them,
%% and sync/2 reports them. Unsent messages go to the next process with the receiver's name. For a
%% pid there is no next process, so the sender sheds them.
%%
%% The sums agree. The receiver has handled a pushed message, or a sync has reported it once as
%% failed, uncertain or shed, or it still counts as unanswered. The receiver may also have handled
%% messages that a sync reports as uncertain.
%%
%% == Overload ==
%% At most `window' messages are on their way. Above this number, `block' blocks push until there
%% is credit. The other policies keep `buffer' messages in the sender and shed the rest, counted
%% in `whittle_flow_shed_total'. The memory is bounded by batch + buffer at the sender, and by
%% window for each sender at the receiver.
-module(whittle_flow_sender).

-export([new/2, push/2, push_many/2, flush/1, sync/2, info/2]).
-export_type([sender/0, options/0]).

-type options() :: #{
        %% Messages in a signal. Default: 100.
        batch => pos_integer(),
        %% Milliseconds that a message may wait for its signal. Default: 10. With 0 it waits until
        %% the batch is full or flushed.
        wait => non_neg_integer(),
        %% Messages on their way, at least one batch. Default: 10000.
        window => pos_integer(),
        %% The action without credit. Default: `block'.
        policy => block | whittle_flow_buffer:policy(),
        %% Messages kept without credit, for the policies that shed. Default: 10000.
        buffer => pos_integer()}.

%% The small outer record has the fields that change with each push.
-record(sender, {count = 0 :: non_neg_integer(), gathered = [] :: [term()], batch :: pos_integer(),
                 link :: term()}).
-record(link, {to :: whittle_flow_batcher:target(), where :: atom(),
               options :: #{atom() => term()},
               id :: reference(),                       % of the timer's messages
               %% The alias is the monitor too. none: the name has no process. dead: the pid died.
               alias = none :: none | dead | reference(),
               credit :: integer(), window :: pos_integer(),
               timer = none :: none | reference(),
               buffer :: none | whittle_flow_buffer:buffer(),
               owner = none :: none | pid(),            % receiver of the credit
               %% The losses that no sync has reported yet. They are one field, because each
               %% signal copies the record.
               untold = #{} :: #{failed | uncertain | shed => pos_integer()}}).
-opaque sender() :: #sender{}.

%% Milliseconds between checks for a receiver without a process.
-define(LOOK_AGAIN, 10).

%% @doc Makes a sender to a batcher. The receiver is a pid, or a registered name, which the
%% batcher has again after a restart.
-spec new(whittle_flow_batcher:target(), options()) ->
          {ok, sender()} | {error, whittle_flow:reason()}.
new(To, Options) ->
    case {whittle_flow_option:check([to], #{to => To}),
          whittle_flow_option:check([batch, wait, window, policy, buffer], Options)} of
        {ok, ok} ->
            Batch = maps:get(batch, Options, 100),
            Window = max(Batch, maps:get(window, Options, 10000)),
            Buffer = case maps:get(policy, Options, block) of
                         block -> none;
                         Policy -> whittle_flow_buffer:new(Policy, maps:get(buffer, Options, 10000))
                     end,
            Where = if is_atom(To) -> To; true -> sender end,
            {ok, #sender{batch = Batch,
                         link = connect(#link{to = To, where = Where, options = Options,
                                              id = make_ref(), credit = Window,
                                              window = Window, buffer = Buffer})}};
        {ok, Error} -> Error;
        {Error, _} -> Error
    end.

%% The sender looks for a name without a process again with each signal.
connect(#link{alias = none, to = To} = Link) when is_atom(To) ->
    case whereis(To) of
        undefined -> Link;
        Pid -> connected(Pid, Link)
    end;
connect(#link{alias = none, to = To} = Link) -> connected(To, Link).

connected(Pid, Link) ->
    Link#link{alias = monitor(process, Pid, [{alias, explicit_unalias}]), owner = self()}.

%% @doc Adds a message, and sends when the batch is full.
-spec push(term(), sender()) -> sender().
push(Message, #sender{count = Count, gathered = Gathered, batch = Batch} = Sender)
  when Count + 1 < Batch, Count > 0 ->
    Sender#sender{count = Count + 1, gathered = [Message | Gathered]};
push(Message, #sender{count = 0, batch = Batch, link = Link} = Sender) when Batch > 1 ->
    Sender#sender{count = 1, gathered = [Message], link = start_timer(Link)};
push(Message, #sender{count = Count, gathered = Gathered} = Sender) ->
    flush(Sender#sender{count = Count + 1, gathered = [Message | Gathered]}).

%% @doc Adds a list of messages in its order. A list with a batch or more goes out unchanged as
%% one signal, after the messages that were gathered before.
-spec push_many([term()], sender()) -> sender().
push_many(Messages, #sender{count = 0, batch = Batch, link = Link} = Sender) ->
    case length(Messages) of
        Count when Count >= Batch -> Sender#sender{link = deliver(Count, Messages, Link)};
        _ -> lists:foldl(fun push/2, Sender, Messages)
    end;
push_many(Messages, #sender{batch = Batch} = Sender) ->
    case length(Messages) of
        Count when Count >= Batch -> push_many(Messages, flush(Sender));
        _ -> lists:foldl(fun push/2, Sender, Messages)
    end.

start_timer(#link{timer = none, id = Id, options = Options} = Link) ->
    case maps:get(wait, Options, 10) of
        0 -> Link;
        Wait -> Link#link{timer = erlang:send_after(Wait, self(), {whittle_flow_flush, Id})}
    end;
start_timer(Link) -> Link.

%% @doc Sends the gathered messages, as far as the policy and the credit allow.
-spec flush(sender()) -> sender().
flush(#sender{count = 0, link = #link{buffer = none}} = Sender) ->
    %% To look for credit would search the credit of all senders of the process.
    Sender;
flush(#sender{count = 0, link = Link} = Sender) ->
    Sender#sender{link = drain(polled(Link))};
flush(#sender{count = Count, gathered = Gathered, link = Link} = Sender) ->
    Link1 = stop_timer(Link),
    Sender#sender{count = 0, gathered = [], link = deliver(Count, lists:reverse(Gathered), Link1)}.

stop_timer(#link{timer = none} = Link) -> Link;
stop_timer(#link{timer = Timer, id = Id} = Link) ->
    %% A timer that has fired has left a message, which is now without a use.
    case erlang:cancel_timer(Timer) of
        false -> receive {whittle_flow_flush, Id} -> ok after 0 -> ok end;
        _ -> ok
    end,
    Link#link{timer = none}.

deliver(Count, Messages, #link{alias = none} = Link) ->
    case connect(Link) of
        #link{alias = none, buffer = none} = Down ->
            %% Nothing reports the registration of a name.
            receive after ?LOOK_AGAIN -> ok end,
            deliver(Count, Messages, Down);
        #link{alias = none} = Down -> keep(Messages, Down);
        Up -> deliver(Count, Messages, Up)
    end;
deliver(Count, _, #link{alias = dead} = Link) ->
    %% A pid that died does not come back.
    shed(Count, dead, Link);
deliver(Count, Messages, #link{window = Window, buffer = none} = Link) when Count > Window ->
    {First, Rest} = lists:split(Window, Messages),
    deliver(Count - Window, Rest, deliver(Window, First, Link));
deliver(Count, Messages, #link{credit = Credit, buffer = none} = Link) ->
    if
        Count =< Credit -> transmit(Count, Messages, Link);
        true -> deliver(Count, Messages, await(infinity, owned(Link)))
    end;
deliver(Count, Messages, #link{credit = Credit, buffer = Buffer} = Link) ->
    case whittle_flow_buffer:count(Buffer) =:= 0 andalso Count =< Credit of
        true -> transmit(Count, Messages, Link);
        false ->
            case drain(polled(Link)) of
                #link{alias = dead} = Dead -> shed(Count, dead, Dead);
                Link1 -> drain(keep(Messages, Link1))
            end
    end.

keep(Messages, #link{buffer = Buffer, options = #{policy := Policy}} = Link) ->
    {Shed, Buffer1} = lists:foldl(fun(Message, {Sum, B}) ->
                                          {N, B1} = whittle_flow_buffer:in(Message, B),
                                          {Sum + N, B1}
                                  end, {0, Buffer}, Messages),
    Name = case Policy of {priority, _} -> priority; _ -> Policy end,
    shed(Shed, Name, Link#link{buffer = Buffer1}).

shed(0, _, Link) -> Link;
shed(N, Why, #link{where = Where} = Link) ->
    ok = whittle_flow_count:add(whittle_flow_shed_total, [Where, Why], N),
    owe(shed, N, Link).

%% The next sync reports these messages.
owe(What, N, #link{untold = Untold} = Link) ->
    Link#link{untold = Untold#{What => maps:get(What, Untold, 0) + N}}.

%% Sends messages from the buffer as far as the credit allows.
drain(#link{buffer = none} = Link) -> Link;
drain(#link{alias = none} = Link) ->
    case connect(Link) of
        #link{alias = none} -> Link;
        Up -> drain(Up)
    end;
drain(#link{alias = dead} = Link) -> Link;
drain(#link{credit = 0} = Link) -> Link;
drain(#link{buffer = Buffer, credit = Credit} = Link) ->
    case whittle_flow_buffer:out(Credit, Buffer) of
        {[], _} -> Link;
        {Messages, Buffer1} -> transmit(length(Messages), Messages, Link#link{buffer = Buffer1})
    end.

transmit(Count, Messages, #link{to = To, alias = Alias, credit = Credit} = Link) ->
    %% The process with the name may be gone. The monitor reports it, and the messages count as
    %% uncertain.
    Signal = {whittle_flow_batch, Alias, Count, Messages},
    ok = if
             is_pid(To) -> whittle_flow_channel:forward(To, Signal);
             true -> whittle_flow_batcher:post(To, Signal)
         end,
    Link#link{credit = Credit - Count}.

%% Takes the available credit without waiting.
polled(Link) ->
    case await(0, Link) of
        timeout -> Link;
        Link1 -> polled(Link1)
    end.

await(Timeout, #link{alias = Alias} = Link) ->
    receive
        {whittle_flow_credit, Alias, N, Result} -> credited(N, Result, Link);
        {'DOWN', Alias, process, _, _} -> lost(Link)
    after Timeout -> timeout
    end.

credited(N, ok, #link{credit = Credit} = Link) -> Link#link{credit = Credit + N};
credited(N, failed, #link{credit = Credit} = Link) ->
    owe(failed, N, Link#link{credit = Credit + N}).

%% The receiver died. The messages on their way are uncertain, and all credit is free again.
lost(#link{to = To, alias = Alias, window = Window, credit = Credit} = Link) ->
    _ = unalias(Alias),
    Free = uncertain(Window - Credit, Link#link{credit = Window}),
    case is_atom(To) of
        true -> Free#link{alias = none};
        false -> bury(Free#link{alias = dead})
    end.

uncertain(0, Link) -> Link;
uncertain(N, #link{where = Where} = Link) ->
    ok = whittle_flow_count:add(whittle_flow_uncertain_total, [Where], N),
    owe(uncertain, N, Link).

%% A dead pid does not come back, so no process will take the kept messages.
bury(#link{buffer = none} = Link) -> Link;
bury(#link{buffer = Buffer} = Link) ->
    {Kept, Empty} = whittle_flow_buffer:out(whittle_flow_buffer:count(Buffer), Buffer),
    shed(length(Kept), dead, Link#link{buffer = Empty}).

%% @doc Sends everything and waits until it is handled, at most Timeout milliseconds, also with
%% the policy `block'. `{error, Reason, Sender}' reports messages that no sync has reported
%% before. `{failed, N}' means that the callback crashed on them. `{uncertain, N}' means that they
%% were on their way to a receiver that died. `{shed, N}' means that the policy shed them, or that
%% the receiver's pid is dead. A sync reports one kind, and the next sync the next kind.
%% `{unanswered, N}' means that N messages are still waiting or on their way.
-spec sync(sender(), timeout()) -> {ok, sender()} | {error, whittle_flow:reason(), sender()}.
sync(#sender{link = Link0} = Sender, Timeout)
  when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout < 1 bsl 32 ->
    _ = owned(Link0),
    Deadline = whittle_flow_deadline:until(Timeout),
    {Open, #sender{link = #link{untold = Untold} = Link} = Settled} =
        settle(advance(Sender), Deadline),
    case [What || What <- [failed, uncertain, shed], is_map_key(What, Untold)] of
        [What | _] ->
            {N, Rest} = maps:take(What, Untold),
            {error, {What, N}, Settled#sender{link = Link#link{untold = Rest}}};
        [] when Open > 0 -> {error, {unanswered, Open}, Settled};
        [] -> {ok, Settled}
    end.

%% Credit goes to the process that found the receiver. Another process would wait forever.
owned(#link{owner = Owner} = Link) when Owner =:= none; Owner =:= self() -> Link;
owned(#link{owner = Owner}) -> error({not_owner, Owner}).

%% Sends all that needs no waiting. Messages for which `block' would wait stay gathered.
advance(#sender{count = 0, link = Link} = Sender) ->
    Sender#sender{link = drain(polled(Link))};
advance(#sender{count = Count, gathered = Gathered, link = #link{buffer = none} = Link} = Sender) ->
    case reached(polled(Link)) of
        #link{alias = none} = Down -> Sender#sender{link = Down};
        #link{alias = Alias, credit = Credit} = Up when Alias =:= dead; Credit >= Count ->
            flush(Sender#sender{link = Up});
        #link{credit = 0} = Full -> Sender#sender{link = Full};
        #link{credit = Credit} = Up ->
            {First, Rest} = lists:split(Credit, lists:reverse(Gathered)),
            Sender#sender{count = Count - Credit, gathered = lists:reverse(Rest),
                          link = transmit(Credit, First, Up)}
    end;
advance(Sender) ->
    flush(Sender).

reached(#link{alias = none} = Link) -> connect(Link);
reached(Link) -> Link.

settle(#sender{count = Count, link = #link{window = Window, credit = Credit, buffer = Buffer,
                                           alias = Alias} = Link} = Sender, Deadline) ->
    Kept = case Buffer of none -> 0; _ -> whittle_flow_buffer:count(Buffer) end,
    case Window - Credit + Kept + Count of
        0 -> {0, Sender};
        Open ->
            Left = whittle_flow_deadline:left(Deadline),
            %% Nothing reports the registration of a name.
            Wait = case Alias of none -> min(?LOOK_AGAIN, Left); _ -> Left end,
            case await(Wait, Link) of
                timeout when Left =:= 0 -> {Open, Sender};
                timeout -> settle(advance(Sender), Deadline);
                Link1 -> settle(advance(Sender#sender{link = Link1}), Deadline)
            end
    end.

%% @doc Handles a message that the process got, and gives `{ok, Sender}'. The result is `ignored'
%% if the message does not belong to the sender.
-spec info(term(), sender()) -> {ok, sender()} | ignored.
info({whittle_flow_credit, Alias, N, Result}, #sender{link = #link{alias = Alias} = Link} = S) ->
    {ok, S#sender{link = drain(credited(N, Result, Link))}};
info({'DOWN', Alias, process, _, _}, #sender{link = #link{alias = Alias} = Link} = Sender) ->
    {ok, Sender#sender{link = drain(lost(Link))}};
info({whittle_flow_flush, Id}, #sender{link = #link{id = Id} = Link} = Sender) ->
    {ok, flush(Sender#sender{link = Link#link{timer = none}})};
info(_, _) ->
    ignored.
