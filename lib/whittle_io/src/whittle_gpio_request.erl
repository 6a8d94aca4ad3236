%% @hidden Runs the process of a request (or a watch). It holds the lines for the owner, reads the
%% events from the kernel and sends them to the owner.
%%
%% The process waits until the VM's poll reports data, reads as much as the owner may have, and
%% asks the poll again. It reads nothing while the owner is passive or has more than `backlog'
%% waiting messages. Then the kernel's queue fills, and the kernel drops events. This process
%% queues nothing.
%%
%% The sequence numbers show the dropped events. Numbers of several lines may come out of order,
%% because the kernel numbers an edge in its interrupt and queues it in a thread of the line. If a
%% number that counted as lost comes late, the next count is smaller by one.
-module(whittle_gpio_request).
-behaviour(gen_server).

-export([start/3, watch/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% Pure functions, for tests
-export([gap/2]).

%% The number of events in one read. The process checks the owner's mailbox once in as many
%% messages.
-define(BATCH, 64).
%% Nothing reports that a mailbox has become shorter, so the process checks it again after this
%% time, in milliseconds. The first check is early enough that the kernel's smallest queue, 16
%% events, holds edges at 1.6 kHz without a loss. Later checks come at growing intervals, because
%% an owner that sleeps should not wake the machine.
-define(LOOK_AGAIN, 10).
-define(LOOK_LATEST, 160).
-define(FIRST_SEQNO, 1).

-record(state, {kind :: request | watch,
                handle :: whittle_gpio:request() | undefined,
                owner :: pid(),
                monitor :: reference() | undefined,
                config :: whittle_gpio_config:request(),
                offsets :: [non_neg_integer()],
                active = false :: whittle_gpio:active() | 0,
                %% none; the poll's reference of the coming select message; later: a timer or a
                %% message will check again; hand_over: the owner is changing
                waits = none :: none | {poll, reference()} | later | hand_over,
                %% messages since the last check of the owner's mailbox
                sent = 0 :: non_neg_integer(),
                look_after = ?LOOK_AGAIN :: pos_integer(),
                next = ?FIRST_SEQNO :: non_neg_integer(),
                owed = 0 :: integer(),
                delivered = 0 :: non_neg_integer(),
                lost = 0 :: integer(),
                held_up = 0 :: non_neg_integer()}).

-spec start(pid(), whittle_gpio:chip(), whittle_gpio_config:request()) ->
          {ok, whittle_gpio:request()} | {error, atom()}.
start(Owner, Chip, Config) -> start(Owner, request, Chip, Config).

-spec watch(pid(), whittle_gpio:chip(), [whittle_gpio:line()]) ->
          {ok, whittle_gpio:request(), [map()]} | {error, atom()}.
watch(Owner, Chip, Lines) ->
    start(Owner, watch, Chip, whittle_gpio_config:request(Lines, #{})).

start(Owner, Kind, Chip, Config) ->
    case whittle_gpio_chip:path(Chip) of
        {ok, Path} -> made(gen_server:start(?MODULE, {Owner, Kind, Path, Config}, []));
        Error -> Error
    end.

made({ok, Pid}) -> gen_server:call(Pid, made, infinity);
made({error, {shutdown, Posix}}) -> {error, Posix};
made({error, Reason}) -> error(Reason).

%% @private
-spec init({pid(), request | watch, binary(), whittle_gpio_config:request()}) ->
          {ok, #state{}} | {stop, {shutdown, atom()}}.
init({Owner, Kind, Path, Config = #{lines := Lines}}) ->
    case whittle_gpio_chip:offsets(Path, Lines) of
        {ok, Offsets} ->
            opened(open(Kind, Path, Offsets, Config),
                   #state{kind = Kind, owner = Owner, config = Config, offsets = Offsets});
        {error, Posix} ->
            {stop, {shutdown, Posix}}
    end.

open(_, _, Offsets, _) when length(Offsets) > 64 ->
    {error, einval};
open(watch, Path, Offsets, #{lines := Lines}) ->
    whittle_gpio_nif:watch(Path, Lines, Offsets);
open(request, Path, Offsets, #{lines := Lines, each := Each, consumer := Consumer,
                               event_buffer := Buffer}) ->
    case whittle_gpio_config:pack(Each) of
        {ok, {Flags, Attributes}} ->
            whittle_gpio_nif:request(Path, Lines, Offsets, Consumer, Flags, Attributes, Buffer);
        Error ->
            Error
    end.

opened({error, Posix}, _) ->
    {stop, {shutdown, Posix}};
opened(Opened, State = #state{owner = Owner, config = #{active := Active}}) ->
    %% The caller of start/3 or watch/3 asks for it later.
    put(made, case Opened of
                  {ok, _} -> Opened;
                  {ok, _, Lines} ->
                      setelement(3, Opened, [whittle_gpio_config:line_info(L) || L <- Lines])
              end),
    {ok, State#state{handle = element(2, Opened), active = Active,
                     monitor = erlang:monitor(process, Owner)}}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) ->
          {reply, term(), #state{}} | {stop, normal, term(), #state{}}.
handle_call(made, _, State) ->
    %% Events come only from now on, because the caller must know the request first.
    {reply, erase(made), look(State)};
handle_call(release, _, State) ->
    {stop, normal, closed(State), State};
handle_call(stats, _, State = #state{delivered = Delivered, lost = Lost, held_up = HeldUp}) ->
    {reply, {ok, #{delivered => Delivered, lost => Lost, held_up => HeldUp}}, State};
handle_call({active, Active}, _, State) ->
    {reply, ok, look(State#state{active = more(Active, State#state.active)})};
handle_call({hand_over, Owner}, _, State = #state{owner = Owner}) ->
    {reply, ok, State#state{waits = hand_over}};
handle_call({hand_over, _}, _, State) ->
    {reply, {error, not_owner}, State};
handle_call({owner, Owner}, {Caller, _}, State = #state{owner = Caller, monitor = Monitor}) ->
    erlang:demonitor(Monitor, [flush]),
    {reply, ok, look(State#state{owner = Owner, monitor = erlang:monitor(process, Owner),
                                 waits = none, sent = 0})};
handle_call({configure, _, _}, _, State = #state{kind = watch}) ->
    {reply, {error, einval}, State};
handle_call({configure, Lines, Options}, _, State = #state{config = Config}) ->
    #{lines := Names, each := Each} = Config,
    Chosen = [Lines =:= all orelse lists:member(Name, Lines) orelse lists:member(Offset, Lines)
              || {Name, Offset} <- lists:zip(Names, State#state.offsets)],
    Known = Lines =:= all orelse Lines -- (Names ++ State#state.offsets) =:= [],
    New = [case C of true -> maps:merge(Old, Options); false -> Old end
           || {C, Old} <- lists:zip(Chosen, Each)],
    Given = [C andalso is_map_key(value, Options) || C <- Chosen],
    case Known andalso configured(State, Given, New) of
        false -> {reply, {error, einval}, State};
        ok -> {reply, ok, State#state{config = Config#{each := New}}};
        Error -> {reply, Error, State}
    end.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({select, Handle, Ref, ready_input},
            State = #state{handle = Handle, waits = {poll, Ref}}) ->
    step(State#state{waits = none});
handle_info(look_again, State = #state{waits = later}) ->
    step(State#state{waits = none});
handle_info({'DOWN', Monitor, process, _, _}, State = #state{monitor = Monitor}) ->
    _ = closed(State),
    {stop, normal, State};
handle_info(_, State) ->
    {noreply, State}.

%% The kernel has the lines back when this function returns.
closed(#state{handle = Handle}) ->
    case whittle_gpio_nif:stop(Handle) of
        ok -> receive {whittle_gpio_stopped, Handle} -> whittle_gpio_nif:close(Handle) end;
        Error -> Error
    end.

%% Without a given value an output would become 0. So it keeps its last set value, whatever an
%% open-drain line reads because another device pulls it. A line that was not an output keeps the
%% value that it reads.
configured(#state{handle = Handle}, Given, New) ->
    case whittle_gpio_nif:get(Handle, bits) of
        {ok, Read} ->
            {Written, Mask} = whittle_gpio_nif:written(Handle),
            Bits = (Written band Mask) bor (Read band bnot Mask),
            Valued = [keep(G, O, (Bits bsr I) band 1)
                      || {I, G, O} <- lists:zip3(lists:seq(0, length(New) - 1), Given, New)],
            case whittle_gpio_config:pack(Valued) of
                {ok, {Flags, Attributes}} ->
                    whittle_gpio_nif:configure(Handle, Flags, Attributes);
                Error ->
                    Error
            end;
        Error ->
            Error
    end.

keep(false, Options = #{direction := output}, Value) -> Options#{value => Value};
keep(_, Options, _) -> Options.

%% ---- delivery ----------------------------------------------------------------

more(N, M) when is_integer(N), is_integer(M) -> N + M;
more(Active, _) -> Active.

%% Waits for the next event, if the owner may have it and nothing else is awaited.
look(State = #state{waits = none, active = Active, handle = Handle}) when Active =/= false ->
    Ref = make_ref(),
    case whittle_gpio_nif:arm(Handle, Ref) of
        ok -> State#state{waits = {poll, Ref}};
        {error, closed} -> State;
        %% The poll has no room for this descriptor.
        {error, _} ->
            _ = erlang:send_after(?LOOK_LATEST, self(), look_again),
            State#state{waits = later}
    end;
look(State) ->
    State.

step(State = #state{active = false}) ->
    {noreply, State};
step(State = #state{sent = Sent, look_after = After, config = #{backlog := Backlog}})
  when Sent >= ?BATCH; Sent >= Backlog ->
    %% Asks the owner, which answers when it next runs. Until then the process reads nothing.
    case erlang:process_info(State#state.owner, message_queue_len) of
        {message_queue_len, Length} when Length >= Backlog ->
            _ = erlang:send_after(After, self(), look_again),
            Held = case After of ?LOOK_AGAIN -> 1; _ -> 0 end,
            {noreply, State#state{waits = later, look_after = min(2 * After, ?LOOK_LATEST),
                                  held_up = State#state.held_up + Held}};
        _ ->
            step(State#state{sent = 0, look_after = ?LOOK_AGAIN})
    end;
step(State = #state{handle = Handle}) ->
    Max = allowed(State),
    case whittle_gpio_nif:read(Handle, Max) of
        {ok, Events} when length(Events) =:= Max ->
            %% There may be more events, but other requests in the queue go first.
            Next = passive(lists:foldl(fun deliver/2, State, Events)),
            case Next of
                #state{active = false} -> {noreply, Next};
                #state{} -> self() ! look_again, {noreply, Next#state{waits = later}}
            end;
        {ok, Events} ->
            {noreply, look(passive(lists:foldl(fun deliver/2, State, Events)))};
        {error, Reason} ->
            _ = closed(State),
            State#state.owner ! {gpio_error, Handle, Reason},
            State#state.owner ! {gpio_closed, Handle},
            {stop, normal, State}
    end.

allowed(#state{active = once}) -> 1;
allowed(#state{active = N, config = #{backlog := Backlog}}) when is_integer(N) ->
    lists:min([N, ?BATCH, Backlog]);
allowed(#state{config = #{backlog := Backlog}}) -> min(?BATCH, Backlog).

deliver({Line, Edge, Timestamp, Seqno, LineSeqno}, State0) ->
    State = #state{handle = Handle, owner = Owner} = lost(Seqno, State0),
    Owner ! {gpio, Handle, #{line => Line, edge => Edge, timestamp => Timestamp,
                             seqno => Seqno, line_seqno => LineSeqno}},
    sent(State);
deliver(Change, State = #state{handle = Handle, owner = Owner}) ->
    Owner ! {gpio_changed, Handle, whittle_gpio_config:change(Change)},
    sent(State).

lost(Seqno, State = #state{handle = Handle, owner = Owner, next = Next0, owed = Owed}) ->
    {Lost, Next} = gap(Seqno, Next0),
    case Owed + Lost of
        Count when Count > 0 ->
            Owner ! {gpio_lost, Handle, Count},
            State#state{next = Next, owed = 0, lost = State#state.lost + Lost};
        Count ->
            State#state{next = Next, owed = Count, lost = State#state.lost + Lost}
    end.

sent(State = #state{sent = Sent, delivered = Delivered, active = Active}) ->
    State#state{sent = Sent + 1, delivered = Delivered + 1,
                active = case Active of
                             once -> false;
                             N when is_integer(N) -> N - 1;
                             Boolean -> Boolean
                         end}.

passive(State = #state{active = 0, handle = Handle, owner = Owner}) ->
    Owner ! {gpio_passive, Handle},
    State#state{active = false};
passive(State) ->
    State.

%% @doc Counts the missing numbers before this one, and gives the next expected number. The count
%% -1 means that the number counted as missing already. Numbers have 32 bits and wrap around.
-spec gap(non_neg_integer(), non_neg_integer()) -> {integer(), non_neg_integer()}.
gap(Seqno, Next) ->
    case (Seqno - Next) band 16#FFFFFFFF of
        Missing when Missing < 16#80000000 -> {Missing, (Seqno + 1) band 16#FFFFFFFF};
        _ -> {-1, Next}
    end.
