%% @doc Bounds how many requests run at once, how many wait, and how long.
%%
%% A request enters, works in its own process, and leaves. If the process ends first, its place is
%% free. So the number of requests at work, and with it the time that each takes, stays bounded
%% however many clients ask. A request that cannot enter in time is refused at once: its client
%% knows more than a client that waits. While the service behind the gates is overloaded, they let
%% fewer run (narrow/3).
%% @hidden
-module(docket_gate).
-behaviour(gen_server).

-export([start_link/2, enter/1, leave/2, narrow/3, counts/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([options/0, place/0]).

-type options() :: #{running := pos_integer(),      % requests at work
                     waiting := non_neg_integer(),  % requests that wait
                     patience := pos_integer()}.    % milliseconds that a request waits at most

-opaque place() :: reference().

%% `queue' holds the requests that wait, oldest first. `timer' ends the wait of the oldest, and
%% `narrow' the time with fewer places.
-record(state, {options :: options(),
                places :: pos_integer(),
                running = #{} :: #{place() => []},
                queue = queue:new() :: queue:queue({gen_server:from(), Until :: integer()}),
                timer = none :: none | reference(),
                narrow = none :: none | reference()}).

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

%% @doc Halves the places of the gates with this name on some nodes, down to one. They have all
%% their places again when nobody has narrowed them further for this time.
-spec narrow([node()], atom(), Milliseconds :: pos_integer()) -> ok.
narrow(Nodes, Name, Milliseconds) ->
    abcast = gen_server:abcast(Nodes, Name, {narrow, Milliseconds}),
    ok.

%% @doc Counts the requests at work, and those that wait.
-spec counts(atom()) -> {non_neg_integer(), non_neg_integer()}.
counts(Name) ->
    try gen_server:call(Name, counts)
    catch exit:_ -> {0, 0}
    end.

%% @private
-spec init(options()) -> {ok, #state{}}.
init(#{running := Places} = Options) -> {ok, #state{options = Options, places = Places}}.

%% @private
-spec handle_call(enter | counts, gen_server:from(), #state{}) ->
          {reply, term(), #state{}} | {noreply, #state{}}.
handle_call(enter, From, #state{options = #{waiting := Waiting, patience := Patience},
                                places = Places, running = Running, queue = Queue} = State) ->
    case {map_size(Running) < Places, queue:len(Queue) < Waiting} of
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
-spec handle_cast({leave, place()} | {narrow, pos_integer()}, #state{}) -> {noreply, #state{}}.
handle_cast({leave, Place}, State) ->
    true = demonitor(Place, [flush]),
    {noreply, left(Place, State)};
handle_cast({narrow, Milliseconds}, #state{places = Places} = State) ->
    {noreply, State#state{places = max(1, Places div 2),
                          narrow = erlang:start_timer(Milliseconds, self(), wide)}}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Place, process, _, _}, State) -> {noreply, left(Place, State)};
handle_info({timeout, Timer, oldest}, #state{timer = Timer} = State) ->
    {noreply, watch(refuse_late(State#state{timer = none}))};
handle_info({timeout, Timer, wide}, #state{narrow = Timer, options = Options} = State) ->
    #{running := Places} = Options,
    {noreply, filled(refuse_late(State#state{narrow = none, places = Places}))};
handle_info(_, State) -> {noreply, State}.

%% The queue refuses who has waited too long before the next one enters, so that the place goes to a
%% request whose client still waits.
left(Place, #state{running = Running} = State) when is_map_key(Place, Running) ->
    filled(refuse_late(State#state{running = maps:remove(Place, Running)}));
left(_, State) -> State.

filled(#state{places = Places, running = Running, queue = Queue} = State)
  when map_size(Running) < Places ->
    case queue:out(Queue) of
        {{value, {From, _}}, Rest} -> filled(admit(From, State#state{queue = Rest}));
        {empty, _} -> State
    end;
filled(State) -> State.

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
