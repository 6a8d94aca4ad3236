%% @doc Runs a pool of shards: processes that do not talk to each other.
%%
%% A key always goes to the same shard, by `erlang:phash2/2'. So the shard handles the key's
%% messages in order, and the key's state needs no lock.
%%
%% == Guarantees ==
%% `send' delivers at most once. The message is lost if something kills the shard before it has
%% handled the message. The pool handles one sender's messages for one key in the order of sending,
%% also over a resize. The exception is a sender that is itself a shard of this pool or of another.
%% After `call' returned `ok', a shard has handled the message once. During a resize a sender waits
%% until the pool has handled its earlier messages. So a callback must not wait for a process that
%% sends to its pool.
%%
%% == How a resize keeps the order ==
%% The pool starts a new generation of shards. The old shards give them their state and pass later
%% messages on. A sender that notices the new generation first waits until the old one has handled
%% all its messages (whittle_flow_fence). The processes share only the table of routes, a
%% persistent term.
%%
%% == Overload ==
%% Each shard counts its waiting messages. Above `limit' the pool refuses a send with `{error,
%% {overloaded, Pool}}' and counts it. The memory stays bounded while a shard is blocked, and
%% sends succeed again as soon as it continues.
-module(whittle_flow_pool).
-behaviour(gen_server).

-export([start_link/4, child_spec/4]).
-export([send/3, send/2, send_many/2, call/4, resize/2, shards/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0]).

-type options() :: #{
        %% The number of shards, at most 65536. Default: the number of schedulers online.
        shards => pos_integer(),
        %% Messages that may wait for a shard. Default: 100000.
        limit => pos_integer(),
        %% Gives the key of a message for send/2.
        key => fun((Message :: term()) -> Key :: term()),
        %% Milliseconds for which old shards pass messages on after a resize. Default: 60000. A
        %% sender loses a message if the time between finding its route and sending is longer.
        retire_after => non_neg_integer(),
        %% The number of shards that may die in so many seconds before the pool ends and leaves
        %% the restart to its supervisor. Default: {10, 10}.
        intensity => {non_neg_integer(), pos_integer()}}.

-record(state, {name :: atom(), worker :: {module(), term()}, options :: options(),
                table :: whittle_flow_routes:table(), relays = [] :: [pid()],
                restarts = [] :: [integer()],
                cuttable = true :: boolean(),
                %% Shards that are still in init/1, and resizes that wait for them.
                beginning = [] :: [pid()],
                resizes = [] :: [{gen_server:from(), pos_integer()}]}).

%% @doc Gives the child specification for your supervisor.
-spec child_spec(atom(), module(), term(), options()) -> supervisor:child_spec().
child_spec(Name, Module, Args, Options) ->
    #{id => {?MODULE, Name}, start => {?MODULE, start_link, [Name, Module, Args, Options]},
      shutdown => infinity}.

%% @doc Starts a pool of processes that run Module (see whittle_flow_shard).
-spec start_link(atom(), module(), term(), options()) -> gen_server:start_ret().
start_link(Name, Module, Args, Options) ->
    Allowed = [shards, limit, key, retire_after, intensity],
    case whittle_flow_option:start(Name, {Module, [{init, 1}, {handle, 3}]}, Allowed, Options) of
        ok -> gen_server:start_link({local, Name}, ?MODULE, {Name, Module, Args, Options}, []);
        {error, _} = Error -> Error
    end.

%% @doc Sends a message for a key.
-spec send(atom(), term(), term()) -> ok | {error, whittle_flow:reason()}.
send(Pool, Key, Message) ->
    case whittle_flow_routes:route(Pool, Key, infinity) of
        {ok, Pid} ->
            Pid ! {whittle_flow, Key, Message},
            ok;
        {error, _} = Error -> Error
    end.

%% @doc Sends a message whose key comes from the pool's key function. If that function crashes, it
%% sends nothing and returns `{error, {key_failed, ...}}'. The library counts such errors and logs
%% the first.
-spec send(atom(), term()) -> ok | {error, whittle_flow:reason()}.
send(Pool, Message) ->
    case whittle_flow_routes:find(Pool) of
        {ok, Table} ->
            try (whittle_flow_routes:key(Table))(Message) of
                Key -> send(Pool, Key, Message)
            catch
                Class:Reason ->
                    whittle_flow_count:refused(Pool, {key_failed, {Pool, {Class, Reason}}})
            end;
        {error, _} = Error -> Error
    end.

%% @doc Sends many messages `[{Key, Message}]' with one signal for each concerned shard. It
%% returns the messages of overloaded shards. A shard counts as overloaded, for all its messages
%% in the list, if it would have more than `limit' with them. If an element of the list is not a
%% pair, the function sends nothing and returns `{error, {key_failed, {Pool, {error, {no_pair,
%% What}}}}}'. The library counts such errors and logs the first.
-spec send_many(atom(), [{Key :: term(), Message :: term()}]) ->
          ok | {error, whittle_flow:reason()}.
send_many(Pool, Pairs) ->
    case whittle_flow_routes:find(Pool) of
        {ok, Table} ->
            ok = whittle_flow_routes:settle(Pool, Table, infinity),
            N = tuple_size(whittle_flow_routes:shards(Table)),
            case parts(Pairs, N, erlang:make_tuple(N, [])) of
                {no_pair, _} = Reason ->
                    whittle_flow_count:refused(Pool, {key_failed, {Pool, {error, Reason}}});
                Parts -> many(Pool, 1, Parts, Table, [])
            end;
        {error, _} = Error -> Error
    end.

%% The pairs of each place, in reverse order.
parts([{Key, _} = Pair | Pairs], N, Parts) ->
    P = erlang:phash2(Key, N) + 1,
    parts(Pairs, N, setelement(P, Parts, [Pair | element(P, Parts)]));
parts([], _, Parts) -> Parts;
parts([Bad | _], _, _) -> {no_pair, Bad};
parts(Bad, _, _) -> {no_pair, Bad}.

many(_, P, Parts, _, []) when P > tuple_size(Parts) -> ok;
many(Pool, P, Parts, _, Refused) when P > tuple_size(Parts) ->
    {error, {overloaded, {Pool, lists:append(Refused)}}};
many(Pool, P, Parts, Table, Refused) ->
    case element(P, Parts) of
        [] -> many(Pool, P + 1, Parts, Table, Refused);
        Backwards ->
            Part = lists:reverse(Backwards),
            Count = length(Part),
            {Pid, _} = Route = element(P, whittle_flow_routes:shards(Table)),
            case whittle_flow_routes:admit(Pool, Route, Count, Table) of
                true ->
                    Pid ! {whittle_flow_many, Count, Part},
                    many(Pool, P + 1, Parts, Table, Refused);
                false ->
                    many(Pool, P + 1, Parts, Table, [Part | Refused])
            end
    end.

%% @doc Sends a message and waits until a shard has handled it. `ok' means that the shard handled it
%% once. `{error, {handler_failed, ...}}' means that the callback crashed on it. `{error,
%% {unanswered, ...}}' means that the shard died, or that Timeout milliseconds passed: the shard
%% handled the message once or not at all. During a resize this time includes the wait for earlier
%% messages.
-spec call(atom(), term(), term(), timeout()) -> ok | {error, whittle_flow:reason()}.
call(Pool, Key, Message, Timeout)
  when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout < 1 bsl 32 ->
    Until = whittle_flow_deadline:until(Timeout),
    case whittle_flow_routes:route(Pool, Key, Until) of
        {ok, Pid} ->
            Ref = monitor(process, Pid, [{alias, reply_demonitor}]),
            Pid ! {whittle_flow, Key, Message, Ref},
            await(Ref, Pool, whittle_flow_deadline:left(Until));
        {error, _} = Error -> Error
    end.

%% The shard may pass the call on and end. Then another shard answers.
await(Ref, Pool, Timeout) ->
    receive
        {Ref, Result} -> Result;
        {'DOWN', Ref, process, _, Reason} -> {error, {unanswered, {Pool, Reason}}}
    after Timeout ->
            true = demonitor(Ref, [flush]),
            receive {Ref, Result} -> Result
            after 0 -> {error, {unanswered, {Pool, timeout}}}
            end
    end.

%% @doc Changes the number of shards. The state must be divisible, see whittle_flow_shard.
%% Otherwise the error is `{error, {no_split, Module}}', and nothing changes. The resize begins
%% when each shard has finished init/1. The function returns when the routes have changed, while
%% the state may still be on its way.
-spec resize(atom(), pos_integer()) -> ok | {error, whittle_flow:reason()}.
resize(Pool, N) ->
    case whittle_flow_option:check([shards], #{shards => N}) of
        ok ->
            %% A process of another kind may have the name.
            case whittle_flow_routes:find(Pool) of
                {ok, _} ->
                    try gen_server:call(Pool, {resize, N}, infinity)
                    catch exit:_ -> {error, {no_pool, Pool}}
                    end;
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

%% @doc Gives the shards, in the order of their places, with their numbers of waiting messages.
-spec shards(atom()) -> {ok, [{pid(), non_neg_integer()}]} | {error, whittle_flow:reason()}.
shards(Pool) ->
    case whittle_flow_routes:find(Pool) of
        {ok, Table} ->
            {ok, [{Pid, atomics:get(Queued, 1)}
                  || {Pid, Queued} <- tuple_to_list(whittle_flow_routes:shards(Table))]};
        {error, _} = Error -> Error
    end.

%%% the pool's process

-spec init({atom(), module(), term(), options()}) -> {ok, #state{}}.
init({Name, Module, Args, Options}) ->
    _ = process_flag(trap_exit, true),
    Worker = {Module, Args},
    N = maps:get(shards, Options, erlang:system_info(schedulers_online)),
    Table = whittle_flow_routes:new(generation(Name, Worker, N, []),
                                    maps:get(limit, Options, 100000),
                                    maps:get(key, Options, fun(Message) -> Message end)),
    {ok, publish(#state{name = Name, worker = Worker, options = Options, table = Table,
                        beginning = whittle_flow_routes:pids(Table)})}.

generation(Name, Worker, N, From) ->
    list_to_tuple([whittle_flow_shard:start_link(Name, Worker, From) || _ <- lists:seq(1, N)]).

publish(#state{name = Name, table = Table} = State) ->
    ok = whittle_flow_routes:publish(Name, Table),
    State.

-spec handle_call(term(), gen_server:from(), #state{}) ->
          {noreply, #state{}} | {reply, {error, unknown}, #state{}}.
handle_call({resize, N}, From, #state{resizes = Resizes} = State) ->
    {noreply, resized(State#state{resizes = Resizes ++ [{From, N}]})};
handle_call(_, _, State) -> {reply, {error, unknown}, State}.

%% Handles the requests in order, each when all shards have begun.
resized(#state{beginning = [], resizes = [{From, N} | Resizes]} = State) ->
    {Result, State1} = change(N, State#state{resizes = Resizes}),
    ok = gen_server:reply(From, Result),
    resized(State1);
resized(State) -> State.

change(_, #state{cuttable = false, worker = {Module, _}} = State) ->
    {{error, {no_split, Module}}, State};
change(N, #state{name = Name, worker = Worker, table = Table, relays = Relays,
                 options = Options} = State) ->
    Old = whittle_flow_routes:pids(Table),
    Routes = generation(Name, Worker, N, Old),
    Next = whittle_flow_routes:generation(Routes, Table),
    State1 = publish(State#state{table = Next, relays = Old ++ Relays,
                                 beginning = whittle_flow_routes:pids(Next)}),
    _ = [Pid ! {whittle_flow_split, Routes} || Pid <- Old],
    _ = erlang:send_after(maps:get(retire_after, Options, 60000), self(), {retire, Old}),
    {ok, State1}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({whittle_flow_begun, Pid, Cuttable},
            #state{beginning = Beginning, cuttable = Before} = State) ->
    {noreply, resized(State#state{beginning = lists:delete(Pid, Beginning),
                                  cuttable = Before andalso Cuttable})};
handle_info({retire, Pids}, State) ->
    [Pid ! whittle_flow_retire || Pid <- Pids],
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, #state{relays = Relays, table = Table} = State) ->
    case {lists:member(Pid, Relays), lists:member(Pid, whittle_flow_routes:pids(Table))} of
        {true, _} -> {noreply, State#state{relays = lists:delete(Pid, Relays)}};
        {false, true} -> replace(Pid, Reason, State);
        %% The supervisor, or another process that started the pool.
        {false, false} -> {stop, Reason, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

replace(Pid, Reason, #state{name = Name, worker = Worker, table = Table, relays = Relays,
                            restarts = Restarts} = State) ->
    {Intensity, Period} = maps:get(intensity, State#state.options, {10, 10}),
    Now = erlang:monotonic_time(second),
    Recent = [Now | [T || T <- Restarts, Now - T < Period]],
    ok = whittle_flow_count:add(whittle_flow_states_lost_total, [Name], 1),
    case length(Recent) > Intensity of
        true -> {stop, {shards_keep_dying, Reason}, State};
        false ->
            {NewPid, _} = New = whittle_flow_shard:start_link(Name, Worker, []),
            Next = whittle_flow_routes:exchange(Pid, New, Table),
            Beginning = [NewPid | lists:delete(Pid, State#state.beginning)],
            State1 = publish(State#state{table = Next, beginning = Beginning,
                                         restarts = Recent}),
            %% The message follows the table, so that a relay with the old table gets it, too.
            _ = [Relay ! {whittle_flow_replace, Pid, New} || Relay <- Relays],
            {noreply, State1}
    end.

-spec terminate(term(), #state{}) -> ok.
terminate(_, #state{name = Name, table = Table, relays = Relays}) ->
    ok = whittle_flow_routes:erase(Name),
    %% A link alone does not end these processes when the pool ends normally.
    [exit(Pid, shutdown) || Pid <- Relays ++ whittle_flow_routes:pids(Table)],
    ok.
