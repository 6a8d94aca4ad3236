%% @doc Runs a process that handles its messages in batches.
%%
%% A module exports init/1 and handle_batch/2 and starts with `start_link(Module, Args, Options)'.
%% Messages come from `whittle_flow_sender' (many in one signal, with credit) or one by one from
%% `cast/2' (without credit).
%%
%% The batch follows the load. It begins at `floor' messages. It doubles up to `ceiling' while
%% more messages wait than fit, and halves when the queue is empty. With `wait' above 0, a batch
%% below the floor waits that many milliseconds for further messages. No message waits longer for
%% its batch to begin.
%%
%% A callback that crashes loses its batch. The batcher counts the crash and logs the first one.
%% The state stays. The senders get their credit back and a report. A callback that blocks stops
%% its senders when their credit is used up.
-module(whittle_flow_batcher).

-export([start_link/3, child_spec/4, cast/2, post/2]).
%% Callbacks of sys
-export([system_continue/3, system_terminate/4, system_code_change/4,
         system_get_state/1, system_replace_state/2]).
-export_type([options/0, target/0]).

-callback init(Args :: term()) -> State :: term().
%% The messages in the order of their arrival. Those of one sender are in the order of sending.
-callback handle_batch(Messages :: [term(), ...], State :: term()) -> State :: term().
%% A message from another source, such as a socket or a monitor.
-callback info(Message :: term(), State :: term()) -> State :: term().
-optional_callbacks([info/2]).

-type options() :: #{
        %% The registered name. The counters use it too (`batcher' without a name).
        name => atom(),
        %% The first size of a batch and its largest size, in messages. Default: 32 and 8192.
        floor => pos_integer(), ceiling => pos_integer(),
        %% Milliseconds that a message may wait for its batch to begin. Default: 0.
        wait => non_neg_integer()}.

-type target() :: pid() | atom().

-record(batcher, {parent :: pid(), module :: module(), state :: term(), where :: atom(),
                  floor :: pos_integer(), ceiling :: pos_integer(), size :: pos_integer(),
                  wait :: non_neg_integer(),
                  batches = none :: whittle_flow_count:handle(),
                  messages = none :: whittle_flow_count:handle(), watch :: reference()}).

%% @doc Gives the child specification for your supervisor.
-spec child_spec(term(), module(), term(), options()) -> supervisor:child_spec().
child_spec(Id, Module, Args, Options) ->
    #{id => Id, start => {?MODULE, start_link, [Module, Args, Options]}}.

%% @doc Starts a batcher.
-spec start_link(module(), term(), options()) ->
          {ok, pid()} | {error, whittle_flow:reason() | term()}.
start_link(Module, Args, Options) ->
    case whittle_flow_option:start(?MODULE, {Module, [{init, 1}, {handle_batch, 2}]},
                                   [name, floor, ceiling, wait], Options) of
        ok ->
            proc_lib:start_link(erlang, apply, [fun init/4, [self(), Module, Args, Options]],
                                infinity, [{message_queue_data, off_heap}]);
        {error, _} = Error -> Error
    end.

%% @doc Sends one message without credit, at most once. Nothing blocks the sender.
-spec cast(target(), term()) -> ok.
cast(Batcher, Message) -> post(Batcher, {whittle_flow, Message}).

%% @doc Sends a signal to a process or to a name. The name may have no process.
-spec post(target(), term()) -> ok.
post(To, Signal) ->
    try To ! Signal of
        _ -> ok
    catch
        error:badarg -> ok
    end.

init(Parent, Module, Args, Options) ->
    Where = maps:get(name, Options, batcher),
    case maps:is_key(name, Options) andalso register_name(Where) of
        {taken, Pid} -> proc_lib:init_ack(Parent, {error, {already_started, Pid}});
        _ ->
            Floor = maps:get(floor, Options, 32),
            Batcher = #batcher{parent = Parent, module = Module, state = Module:init(Args),
                               where = Where, floor = Floor, size = Floor,
                               ceiling = max(Floor, maps:get(ceiling, Options, 8192)),
                               wait = maps:get(wait, Options, 0),
                               watch = whittle_flow_count:watch()},
            Counting = counting(Batcher),
            ok = proc_lib:init_ack(Parent, {ok, self()}),
            loop(Counting)
    end.

counting(#batcher{where = Where} = Batcher) ->
    Batcher#batcher{batches = whittle_flow_count:handle(whittle_flow_batches_total, Where),
                    messages = whittle_flow_count:handle(whittle_flow_messages_total, Where)}.

register_name(Name) ->
    try register(Name, self())
    catch error:badarg -> {taken, whereis(Name)}
    end.

loop(#batcher{wait = Wait} = Batcher) ->
    receive
        {whittle_flow, Message} -> gather([[Message]], 1, [], deadline(Wait), Batcher);
        {whittle_flow_batch, From, N, Messages} ->
            gather([Messages], N, [{From, N}], deadline(Wait), Batcher);
        {'EXIT', Parent, Reason} when Parent =:= Batcher#batcher.parent -> exit(Reason);
        {system, From, Request} ->
            sys:handle_system_msg(Request, From, Batcher#batcher.parent, ?MODULE, [], Batcher);
        Message ->
            case whittle_flow_count:watched(Message, Batcher#batcher.watch) of
                {renew, Watch} -> loop(counting(Batcher#batcher{watch = Watch}));
                {wait, Watch} -> loop(Batcher#batcher{watch = Watch});
                ignored -> loop(info(Message, Batcher))
            end
    end.

%% @private
-spec system_continue(pid(), [sys:dbg_opt()], #batcher{}) -> no_return().
system_continue(_, _, Batcher) -> loop(Batcher).

%% @private
-spec system_terminate(term(), pid(), [sys:dbg_opt()], #batcher{}) -> no_return().
system_terminate(Reason, _, _, _) -> exit(Reason).

%% @private
-spec system_code_change(#batcher{}, module(), term(), term()) -> {ok, #batcher{}}.
system_code_change(Batcher, _, _, _) -> {ok, Batcher}.

%% @private The state of the callbacks.
-spec system_get_state(#batcher{}) -> {ok, term()}.
system_get_state(#batcher{state = State}) -> {ok, State}.

%% @private
-spec system_replace_state(fun((term()) -> term()), #batcher{}) -> {ok, term(), #batcher{}}.
system_replace_state(Replace, #batcher{state = State} = Batcher) ->
    State1 = Replace(State),
    {ok, State1, Batcher#batcher{state = State1}}.

deadline(0) -> none;
deadline(Wait) -> erlang:monotonic_time(millisecond) + Wait.

%% Signals are whole lists, so a batch may exceed its size by a part of a list.
gather(Lists, Count, Senders, _, #batcher{size = Size} = Batcher) when Count >= Size ->
    handle(Lists, Count, Senders, full, Batcher);
gather(Lists, Count, Senders, Deadline, #batcher{floor = Floor} = Batcher) ->
    receive
        {whittle_flow, Message} ->
            gather([[Message] | Lists], Count + 1, Senders, Deadline, Batcher);
        {whittle_flow_batch, From, N, Messages} ->
            gather([Messages | Lists], Count + N, [{From, N} | Senders], Deadline, Batcher)
    after left(Deadline, Count, Floor) ->
            handle(Lists, Count, Senders, dry, Batcher)
    end.

left(none, _, _) -> 0;
left(_, Count, Floor) when Count >= Floor -> 0;
left(Deadline, _, _) -> max(0, Deadline - erlang:monotonic_time(millisecond)).

handle(Lists, Count, Senders, Fill, #batcher{module = Module, state = State} = Batcher) ->
    {Result, Batcher1} =
        try Module:handle_batch(lists:append(lists:reverse(Lists)), State) of
            State1 -> {ok, Batcher#batcher{state = State1}}
        catch
            Class:Reason:Stack ->
                ok = whittle_flow_count:failed(Batcher#batcher.where, Count,
                                               {Class, Reason, Stack}),
                {failed, Batcher}
        end,
    acknowledge(Senders, Result),
    ok = whittle_flow_count:add(Batcher#batcher.batches, 1),
    ok = whittle_flow_count:add(Batcher#batcher.messages, Count),
    loop(resize(Fill, Batcher1)).

%% There is one signal for each sender and batch, whatever the number of its lists.
acknowledge(Senders, Result) ->
    Sums = lists:foldl(fun({From, N}, Acc) ->
                               maps:update_with(From, fun(M) -> M + N end, N, Acc)
                       end, #{}, Senders),
    maps:foreach(fun(From, N) -> From ! {whittle_flow_credit, From, N, Result} end, Sums).

resize(full, #batcher{size = Size, ceiling = Ceiling} = Batcher) ->
    Batcher#batcher{size = min(2 * Size, Ceiling)};
resize(dry, #batcher{size = Size, floor = Floor} = Batcher) ->
    Batcher#batcher{size = max(Size div 2, Floor)}.

info(Message, #batcher{module = Module, state = State} = Batcher) ->
    case erlang:function_exported(Module, info, 2) of
        true ->
            try Batcher#batcher{state = Module:info(Message, State)}
            catch Class:Reason:Stack ->
                    ok = whittle_flow_count:failed(Batcher#batcher.where, 1,
                                                   {Class, Reason, Stack}),
                    Batcher
            end;
        false -> Batcher
    end.
