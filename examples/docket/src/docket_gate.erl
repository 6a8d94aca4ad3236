%% @doc Bounds how many requests run at once, how many wait, and how long.
%%
%% A request enters, works in its own process, and leaves. If the process ends first, its place is
%% free. So the number of requests at work, and with it the time that each takes, stays bounded
%% however many clients ask. A request that cannot enter in time is refused at once: its client
%% knows more than a client that waits.
%% @hidden
-module(docket_gate).
-behaviour(gen_server).

-export([start_link/2, enter/1, leave/2, counts/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([options/0, place/0]).

-type options() :: #{running := pos_integer(),      % requests at work
                     waiting := non_neg_integer(),  % requests that wait
                     patience := pos_integer()}.    % milliseconds that a request waits at most

-opaque place() :: reference().

%% `queue' holds the requests that wait, oldest first. `timer' ends the wait of the oldest.
-record(state, {options :: options(),
                running = #{} :: #{place() => []},
                queue = queue:new() :: queue:queue({gen_server:from(), Until :: integer()}),
                timer = none :: none | reference()}).

%% @doc Starts a gate with a name.
-spec start_link(atom(), options()) -> gen_server:start_ret().
start_link(Name, Options) -> gen_server:start_link({local, Name}, ?MODULE, Options, []).

%% @doc Waits for a place.
-spec enter(atom()) -> {ok, place()} | {error, busy}.
enter(Name) ->
    try gen_server:call(Name, enter, infinity)
    catch exit:_ -> {error, busy}
    end.

%% @doc Gives a place back.
-spec leave(atom(), place()) -> ok.
leave(Name, Place) -> gen_server:cast(Name, {leave, Place}).

%% @doc Counts the requests at work, and those that wait.
-spec counts(atom()) -> {non_neg_integer(), non_neg_integer()}.
counts(Name) ->
    try gen_server:call(Name, counts)
    catch exit:_ -> {0, 0}
    end.

%% @private
-spec init(options()) -> {ok, #state{}}.
init(Options) -> {ok, #state{options = Options}}.

%% @private
-spec handle_call(enter | counts, gen_server:from(), #state{}) ->
          {reply, term(), #state{}} | {noreply, #state{}}.
handle_call(enter, From, #state{options = #{running := Most, waiting := Waiting,
                                            patience := Patience},
                                running = Running, queue = Queue} = State) ->
    case {map_size(Running) < Most, queue:len(Queue) < Waiting} of
        {true, _} -> {noreply, admit(From, State)};
        {false, true} ->
            Until = erlang:monotonic_time(millisecond) + Patience,
            {noreply, watch(State#state{queue = queue:in({From, Until}, Queue)})};
        {false, false} -> {reply, {error, busy}, State}
    end;
handle_call(counts, _, #state{running = Running, queue = Queue} = State) ->
    {reply, {map_size(Running), queue:len(Queue)}, State}.

admit({Pid, _} = From, #state{running = Running} = State) ->
    Place = monitor(process, Pid),
    gen_server:reply(From, {ok, Place}),
    State#state{running = Running#{Place => []}}.

%% @private
-spec handle_cast({leave, place()}, #state{}) -> {noreply, #state{}}.
handle_cast({leave, Place}, State) ->
    true = demonitor(Place, [flush]),
    {noreply, left(Place, State)}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Place, process, _, _}, State) -> {noreply, left(Place, State)};
handle_info({timeout, Timer, oldest}, #state{timer = Timer} = State) ->
    {noreply, watch(refuse_late(State#state{timer = none}))};
handle_info(_, State) -> {noreply, State}.

%% The queue refuses who has waited too long before the next one enters, so that the place goes to a
%% request whose client still waits.
left(Place, #state{running = Running} = State) when is_map_key(Place, Running) ->
    #state{queue = Queue} = State1 =
        refuse_late(State#state{running = maps:remove(Place, Running)}),
    case queue:out(Queue) of
        {{value, {From, _}}, Rest} -> admit(From, State1#state{queue = Rest});
        {empty, _} -> State1
    end;
left(_, State) -> State.

refuse_late(#state{queue = Queue} = State) ->
    Now = erlang:monotonic_time(millisecond),
    case queue:peek(Queue) of
        {value, {From, Until}} when Until =< Now ->
            gen_server:reply(From, {error, busy}),
            refuse_late(State#state{queue = queue:drop(Queue)});
        _ -> State
    end.

watch(#state{timer = none, queue = Queue} = State) ->
    case queue:peek(Queue) of
        {value, {_, Until}} ->
            State#state{timer = erlang:start_timer(Until, self(), oldest, [{abs, true}])};
        empty -> State
    end;
watch(State) -> State.
