%% @hidden Finds the shard of a key, in a table that senders read without a process.
%%
%% The process of the pool writes the table, a persistent term. A sender keeps its last table in
%% its process dictionary. When it finds a table of a new generation, it first waits until the old
%% generation has handled all its messages (whittle_flow_fence gives the reasons).
-module(whittle_flow_routes).

%% A table, a value of the pool's process
-export([new/3, generation/2, exchange/3, publish/2, erase/1]).
%% Its contents
-export([shards/1, pids/1, key/1]).
%% The sender's side
-export([find/1, route/3, settle/3, admit/4]).
%% The shard's side
-export([newest/2, never_wait/0]).
-export_type([table/0, route/0, routes/0]).

-type route() :: {pid(), Queued :: atomics:atomics_ref()}.
%% A shard, and the number of messages that wait for it.
-type routes() :: tuple().
%% One route() for each place.

%% The version changes with every table, the epoch with every generation.
-record(table, {version :: reference(), epoch :: reference(), routes :: routes(),
                limit :: pos_integer(), key :: fun((term()) -> term())}).
-opaque table() :: #table{}.

%%% a table

%% @doc Makes the table of a pool's first generation.
-spec new(routes(), pos_integer(), fun((term()) -> term())) -> table().
new(Routes, Limit, Key) ->
    #table{version = make_ref(), epoch = make_ref(), routes = Routes, limit = Limit, key = Key}.

%% @doc Makes the table of a new generation with these shards.
-spec generation(routes(), table()) -> table().
generation(Routes, Table) -> Table#table{epoch = make_ref(), routes = Routes}.

%% @doc Replaces a dead shard by another in the same generation.
-spec exchange(pid(), route(), table()) -> table().
exchange(Dead, Route, #table{routes = Routes} = Table) ->
    Table#table{routes = list_to_tuple(lists:keyreplace(Dead, 1, tuple_to_list(Routes), Route))}.

%% @doc Publishes the table for all senders.
-spec publish(atom(), table()) -> ok.
publish(Pool, Table) -> persistent_term:put({?MODULE, Pool}, Table#table{version = make_ref()}).

%% @doc Erases the table. From then on senders get the error no_pool.
-spec erase(atom()) -> ok.
erase(Pool) ->
    _ = persistent_term:erase({?MODULE, Pool}),
    ok.

%% @doc Gives the routes, in the order of their places.
-spec shards(table()) -> routes().
shards(#table{routes = Routes}) -> Routes.

%% @doc Gives the shards' processes, in the order of their places.
-spec pids(table()) -> [pid()].
pids(#table{routes = Routes}) -> [Pid || {Pid, _} <- tuple_to_list(Routes)].

%% @doc Gives the pool's key function.
-spec key(table()) -> fun((term()) -> term()).
key(#table{key = Key}) -> Key.

%%% the sender's side

%% @doc Gives a pool's table.
-spec find(atom()) -> {ok, table()} | {error, whittle_flow:reason()}.
find(Pool) ->
    case persistent_term:get({?MODULE, Pool}, none) of
        none -> {error, {no_pool, Pool}};
        Table -> {ok, Table}
    end.

%% @doc Gives the shard for one more message with a key, and counts that message.
-spec route(atom(), term(), whittle_flow_deadline:until()) ->
          {ok, pid()} | {error, whittle_flow:reason()}.
route(Pool, Key, Until) ->
    case persistent_term:get({?MODULE, Pool}, none) of
        #table{routes = Routes} = Table ->
            case settle(Pool, Table, Until) of
                ok ->
                    {Pid, _} = Route = element(erlang:phash2(Key, tuple_size(Routes)) + 1, Routes),
                    case admit(Pool, Route, 1, Table) of
                        true -> {ok, Pid};
                        false -> {error, {overloaded, Pool}}
                    end;
                timeout -> {error, {unanswered, {Pool, timeout}}}
            end;
        none -> {error, {no_pool, Pool}}
    end.

%% @doc Counts N messages for a shard. The result is false if they are too many.
-spec admit(atom(), route(), pos_integer(), table()) -> boolean().
admit(Pool, {_, Queued}, N, #table{limit = Limit}) ->
    case atomics:add_get(Queued, 1, N) of
        Waiting when Waiting =< Limit -> true;
        _ ->
            ok = atomics:sub(Queued, 1, N),
            ok = whittle_flow_count:add(whittle_flow_shed_total, [Pool, overloaded], N),
            false
    end.

%% @doc Makes the calling process a sender to this table's generation. It first waits until its
%% previous generation has handled all its messages. If the fence takes longer than Until, it
%% stays in the process dictionary for the next try.
-spec settle(atom(), table(), whittle_flow_deadline:until()) -> ok | timeout.
settle(Pool, #table{version = Version} = Table, Until) ->
    case get({?MODULE, Pool}) of
        #table{version = Version} -> ok;
        Last ->
            case fence(Last, Table, Until) of
                ok ->
                    _ = put({?MODULE, Pool}, Table),
                    ok;
                Open ->
                    _ = put({?MODULE, Pool}, Open),
                    timeout
            end
    end.

fence(undefined, _, _) -> ok;
fence(#table{epoch = Epoch}, #table{epoch = Epoch}, _) -> ok;
fence(#table{routes = Old}, _, Until) ->
    case {get(?MODULE), Until} of
        {never_wait, _} -> ok;
        {undefined, infinity} -> whittle_flow_fence:through(Old);
        {undefined, _} -> passed(whittle_flow_fence:open(Old), Until)
    end;
fence({open, Fence}, _, Until) -> passed(Fence, Until).

passed(Fence, Until) ->
    case whittle_flow_fence:passed(Fence, Until) of
        ok -> ok;
        timeout -> {open, Fence}
    end.

%%% the shard's side

%% @doc Exempts the calling process, a shard, from waiting when it sends to a pool. It would wait
%% for itself, or for a shard of another pool that waits for it.
-spec never_wait() -> ok.
never_wait() ->
    _ = put(?MODULE, never_wait),
    ok.

%% @doc Gives the routes of the newest generation, or Last if the pool is gone.
-spec newest(atom(), routes()) -> routes().
newest(Pool, Last) ->
    case find(Pool) of
        {ok, #table{routes = Routes}} -> Routes;
        {error, _} -> Last
    end.
