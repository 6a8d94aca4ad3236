%% @doc Spreads connections over groups. A group is a process that owns the sockets of several
%% clients (presence_group).
%%
%% A table has a row for each group: its process, the messages that wait for it, and its
%% connections. There are as many groups as the connections need, so few connections share few
%% groups.
%% @hidden
-module(presence_groups).
-behaviour(gen_server).

-export([start_link/0, give/3, post/3, taken/1, released/2, drain/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([index/0]).

-type index() :: non_neg_integer().

-define(TABLE, ?MODULE).
%% The fields of a row: {Index, Pid, Waiting, Connections}
-define(PID, 2).
-define(WAITING, 3).
-define(CONNECTIONS, 4).

-record(state, {monitors = #{} :: #{reference() => index()},
                draining = false :: boolean()}).

%% @doc Starts the process that starts groups and notices their ends.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Gives a socket of the calling process to a group. If that fails, the socket is closed, and
%% the connection does not count any more.
-spec give(presence_group:socket(), module(), presence_protocol:options()) -> ok.
give(Socket, Module, Options) ->
    {Serial, Size} = persistent_term:get(?MODULE),
    Groups = max(1, (presence_limits:connections() + Size - 1) div Size),
    Index = atomics:add_get(Serial, 1, 1) rem Groups,
    try
        Pid = group(Index),
        case add(1, Index, Pid) andalso presence_socket:give(Socket, Pid) of
            ok -> Pid ! {take, Socket, Module, Options}, ok;
            {error, _} ->
                case released(Index, Pid) of
                    true -> ended(Socket);
                    %% The group has ended, and its connections with it.
                    false -> presence_socket:close(Socket)
                end;
            %% The group has just ended.
            false -> ended(Socket)
        end
    catch
        %% The server stops.
        error:badarg -> ended(Socket);
        exit:_ -> ended(Socket)
    end.

ended(Socket) ->
    ok = presence_socket:close(Socket),
    presence_limits:leave(1).

group(Index) ->
    case ets:lookup(?TABLE, Index) of
        [Row] -> element(?PID, Row);
        [] -> gen_server:call(?MODULE, {start, Index}, infinity)
    end.

%% @doc Sends news to a connection of a group, unless too much waits for that group.
-spec post(index(), presence_group:socket(), presence_protocol:news()) -> here | absent | busy.
post(Index, Socket, News) ->
    Most = presence_config:get(waiting),
    try ets:update_counter(?TABLE, Index, {?WAITING, 1}) of
        %% The end of a session must not be lost. Each login ends at most one.
        Waiting when Waiting > Most, News =/= replaced ->
            ok = taken(Index),
            busy;
        _ ->
            ets:lookup_element(?TABLE, Index, ?PID) ! {news, Socket, News},
            here
    catch error:badarg -> absent
    end.

%% @doc A group takes one of the messages that wait for it.
-spec taken(index()) -> ok.
taken(Index) ->
    try ets:update_counter(?TABLE, Index, {?WAITING, -1}) of
        _ -> ok
    catch error:badarg -> ok
    end.

%% @doc A connection of a group has ended, or has another owner. The answer is `false' if the group
%% does not count it any more, because the group itself has ended. Another group may have its index.
-spec released(index(), pid()) -> boolean().
released(Index, Pid) -> add(-1, Index, Pid).

add(Connections, Index, Pid) ->
    Row = {Index, Pid, '$1', '$2'},
    Sum = setelement(?CONNECTIONS, Row, {'+', '$2', Connections}),
    try 1 =:= ets:select_replace(?TABLE, [{Row, [], [{Sum}]}])
    %% The server stops.
    catch error:badarg -> false
    end.

%% @doc Tells all clients that the server stops, and waits until their connections have ended, at
%% most for so many milliseconds.
-spec drain(non_neg_integer()) -> ok.
drain(Timeout) ->
    Pids = gen_server:call(?MODULE, drain, infinity),
    wait([monitor(process, Pid) || Pid <- Pids], erlang:monotonic_time(millisecond) + Timeout).

wait([], _) -> ok;
wait([Monitor | Others], Until) ->
    receive {'DOWN', Monitor, process, _, _} -> wait(Others, Until)
    after max(0, Until - erlang:monotonic_time(millisecond)) -> ok
    end.

%% @private
-spec init([]) -> {ok, #state{}}.
init([]) ->
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true},
                              {write_concurrency, true}]),
    ok = persistent_term:put(?MODULE, {atomics:new(1, []), presence_config:get(group)}),
    {ok, #state{}}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({start, Index}, _, #state{monitors = Monitors, draining = Draining} = State) ->
    case ets:lookup(?TABLE, Index) of
        [Row] -> {reply, element(?PID, Row), State};
        [] ->
            {ok, Pid} = presence_group_sup:start_group(Index),
            true = ets:insert(?TABLE, {Index, Pid, 0, 0}),
            _ = [Pid ! drain || Draining],
            {reply, Pid, State#state{monitors = Monitors#{monitor(process, Pid) => Index}}}
    end;
handle_call(drain, _, State) ->
    Pids = [element(?PID, Row) || Row <- ets:tab2list(?TABLE)],
    [Pid ! drain || Pid <- Pids],
    {reply, Pids, State#state{draining = true}};
handle_call(_, _, State) -> {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private The sockets of a group end with it.
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Monitor, process, _, _}, #state{monitors = Monitors} = State) ->
    {Index, Others} = maps:take(Monitor, Monitors),
    [{_, _, _, Connections}] = ets:take(?TABLE, Index),
    ok = presence_limits:leave(Connections),
    ok = presence_directory:forget(Index),
    {noreply, State#state{monitors = Others}};
handle_info(_, State) -> {noreply, State}.
