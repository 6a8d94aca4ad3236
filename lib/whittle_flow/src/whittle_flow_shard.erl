%% @doc Runs one process of a pool, which receives, works and sends, and holds the state of its
%% keys.
%%
%% A module that works in a pool exports init/1 and handle/3. A resize divides the state by key
%% and joins the pieces. The library divides a map from key to anything itself. Any other state
%% needs split/3 and merge/1.
-module(whittle_flow_shard).

-export([start_link/3]).

%% The state of a shard without keys.
-callback init(Args :: term()) -> State :: term().
%% Handles one message for one key. A crash loses this message. The pool counts it and logs the
%% first, and the state stays unchanged. Messages that the callback sends to a pool are in order,
%% except over a resize. The callback cannot wait for their handling, because this shard itself
%% might handle them, or a shard that waits for this one. It must not wait for a process that
%% sends to its pool either.
-callback handle(Key :: term(), Message :: term(), State :: term()) -> State :: term().
%% Handles a message that did not come through the pool, such as a socket's data or a timer.
-callback info(Message :: term(), State :: term()) -> State :: term().
%% Divides the state into N pieces. Place gives the piece of a key, from 1.
-callback split(Place :: fun((Key :: term()) -> pos_integer()), N :: pos_integer(),
                State :: term()) -> [State :: term()].
%% Joins pieces without common keys into one state.
-callback merge([State :: term(), ...]) -> State :: term().
-optional_callbacks([info/2, split/3, merge/1]).

-record(shard, {parent :: pid(), pool :: atom(), module :: module(), state :: term(),
                queued :: atomics:atomics_ref(), handled :: whittle_flow_count:handle(),
                watch :: reference()}).

%% @doc Starts a shard. It takes over the pieces of the shards in From. Without such shards it
%% begins with the result of init/1. Then the calling process gets `{whittle_flow_begun, Pid,
%% Cuttable}'. Cuttable tells whether such a state is divisible.
-spec start_link(atom(), {module(), term()}, [pid()]) -> whittle_flow_routes:route().
start_link(Pool, {Module, Args}, From) ->
    Parent = self(),
    Queued = atomics:new(1, []),
    Pid = proc_lib:spawn_opt(
            fun() ->
                    ok = whittle_flow_routes:never_wait(),
                    Monitors = maps:from_list([{P, monitor(process, P)} || P <- From]),
                    Empty = Module:init(Args),
                    Parent ! {whittle_flow_begun, self(), cuttable(Module, Empty)},
                    State = merge(Module, [Empty | pieces(Pool, Monitors)]),
                    loop(#shard{parent = Parent, pool = Pool, module = Module, state = State,
                                queued = Queued, handled = handled(Pool),
                                watch = whittle_flow_count:watch()})
            end, [link, {message_queue_data, off_heap}]),
    {Pid, Queued}.

handled(Pool) -> whittle_flow_count:handle(whittle_flow_shard_messages_total, Pool).

cuttable(Module, State) -> is_map(State) orelse erlang:function_exported(Module, split, 3).

%% Other messages wait in the queue. Messages that a relay passes on come after its piece, and
%% direct messages must not overtake them.
pieces(_, Monitors) when map_size(Monitors) =:= 0 -> [];
pieces(Pool, Monitors) ->
    receive
        {whittle_flow_piece, From, Piece} ->
            true = demonitor(maps:get(From, Monitors), [flush]),
            [Piece | pieces(Pool, maps:remove(From, Monitors))];
        {'DOWN', _, process, From, _} when is_map_key(From, Monitors) ->
            %% The shard was killed before it gave its state away.
            ok = whittle_flow_count:add(whittle_flow_states_lost_total, [Pool], 1),
            pieces(Pool, maps:remove(From, Monitors))
    end.

merge(_, [State]) -> State;
merge(Module, [Empty | Pieces] = States) ->
    case erlang:function_exported(Module, merge, 1) of
        true -> Module:merge(States);
        false -> lists:foldl(fun maps:merge/2, Empty, Pieces)
    end.

loop(#shard{queued = Queued} = Shard) ->
    receive
        {whittle_flow, Key, Message} ->
            {_, Shard1} = work(Key, Message, Shard),
            ok = atomics:sub(Queued, 1, 1),
            loop(Shard1);
        {whittle_flow_many, N, Pairs} ->
            Shard1 = lists:foldl(fun({Key, Message}, S) -> element(2, work(Key, Message, S)) end,
                                 Shard, Pairs),
            ok = atomics:sub(Queued, 1, N),
            loop(Shard1);
        {whittle_flow, Key, Message, From} ->
            {Result, Shard1} = work(Key, Message, Shard),
            ok = atomics:sub(Queued, 1, 1),
            From ! {From, Result},
            loop(Shard1);
        {whittle_flow_fence, From, Ref} ->
            From ! {whittle_flow_fenced, Ref},
            loop(Shard);
        {whittle_flow_split, Routes} ->
            split(Routes, Shard),
            whittle_flow_relay:run(Shard#shard.parent, Shard#shard.pool, Routes, Queued);
        {'EXIT', Parent, Reason} when Parent =:= Shard#shard.parent ->
            exit(Reason);
        Message ->
            case whittle_flow_count:watched(Message, Shard#shard.watch) of
                {renew, Watch} -> loop(Shard#shard{handled = handled(Shard#shard.pool),
                                                   watch = Watch});
                {wait, Watch} -> loop(Shard#shard{watch = Watch});
                ignored -> loop(info(Message, Shard))
            end
    end.

work(Key, Message, #shard{module = Module, state = State, handled = Handled} = Shard) ->
    try Module:handle(Key, Message, State) of
        State1 ->
            ok = whittle_flow_count:add(Handled, 1),
            {ok, Shard#shard{state = State1}}
    catch
        Class:Reason:Stack ->
            ok = whittle_flow_count:failed(Shard#shard.pool, 1, {Class, Reason, Stack}),
            {{error, {handler_failed, {Class, Reason}}}, Shard}
    end.

info(Message, #shard{module = Module, state = State} = Shard) ->
    case erlang:function_exported(Module, info, 2) of
        true ->
            try Shard#shard{state = Module:info(Message, State)}
            catch Class:Reason:Stack ->
                    ok = whittle_flow_count:failed(Shard#shard.pool, 1, {Class, Reason, Stack}),
                    Shard
            end;
        false -> Shard
    end.

split(Routes, #shard{module = Module, state = State}) ->
    N = tuple_size(Routes),
    Place = fun(Key) -> erlang:phash2(Key, N) + 1 end,
    Pieces = case erlang:function_exported(Module, split, 3) of
                 true -> Module:split(Place, N, State);
                 false -> split_map(Place, N, State)
             end,
    lists:foreach(fun({{Pid, _}, Piece}) -> Pid ! {whittle_flow_piece, self(), Piece} end,
                  lists:zip(tuple_to_list(Routes), Pieces)).

split_map(Place, N, State) ->
    Split = maps:fold(fun(Key, Value, Pieces) ->
                              P = Place(Key),
                              setelement(P, Pieces, [{Key, Value} | element(P, Pieces)])
                      end, erlang:make_tuple(N, []), State),
    [maps:from_list(Piece) || Piece <- tuple_to_list(Split)].
