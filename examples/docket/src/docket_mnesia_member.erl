%% @doc Starts the database of this node, and restarts it after a partition.
%%
%% Two parts of a service that could not reach each other do not merge: Mnesia reports that it is
%% inconsistent. The nodes of the smaller part (docket_cluster:decide/3) then restart the database
%% with the rows of the larger part. They lose nothing that a synchronous mode has acknowledged,
%% because they were not the majority and refused changes.
%% @hidden
-module(docket_mnesia_member).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(CALL_MS, 5000).

%% `waits' is the last line about what this node waits for.
-record(state, {waits = none :: none | ready | binary()}).

%% @doc Starts the database. A node that is alone is ready when this returns.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], [{timeout, infinity}]).

%% @private
-spec init([]) -> {ok, #state{}} | {stop, {shutdown, {store, term()}}}.
init([]) ->
    process_flag(trap_exit, true),
    first(docket_cluster:nodes()).

first([_]) ->
    case docket_mnesia_schema:attempt() of
        ok -> {ok, ready(#state{})};
        {wait, _} -> first([node()]);
        {error, Reason} -> {stop, {shutdown, {store, Reason}}}
    end;
first(_) ->
    self() ! attempt,
    {ok, #state{}}.

ready(State) ->
    {ok, _} = mnesia:subscribe(system),
    %% The next start must again load from the node that was the last to end. Without a directory,
    %% Mnesia keeps no such setting.
    _ = mnesia:set_master_nodes([]),
    State#state{waits = ready}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_, _, State) -> {noreply, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(attempt, #state{waits = ready} = State) -> {noreply, State};
handle_info(attempt, #state{waits = Waits} = State) ->
    case docket_mnesia_schema:attempt() of
        ok ->
            docket:say("the tables are loaded"),
            {noreply, ready(State)};
        {wait, Why} ->
            Line = iolist_to_binary(Why),
            _ = [docket:say(["this node ", Line]) || Line =/= Waits],
            _ = erlang:send_after(docket_config:get(retry), self(), attempt),
            {noreply, State#state{waits = Line}};
        {error, Reason} ->
            docket:say(docket_mnesia_schema:format_error(Reason)),
            {stop, {store, Reason}, State}
    end;
handle_info({mnesia_system_event, {inconsistent_database, _, Node}},
            #state{waits = ready} = State) ->
    {noreply, healed(Node, State)};
handle_info({heal, Node}, #state{waits = ready} = State) -> {noreply, healed(Node, State)};
%% Mnesia ends when it cannot write, for example.
handle_info({mnesia_system_event, {mnesia_fatal, Format, Values, _}}, State) ->
    docket:say(["Mnesia ends: ", io_lib:format(Format, Values)]),
    {stop, mnesia_fatal, State};
handle_info(_, State) -> {noreply, State}.

healed(Node, State) ->
    Mine = mnesia:system_info(running_db_nodes),
    try erpc:call(Node, mnesia, system_info, [running_db_nodes], ?CALL_MS) of
        Theirs ->
            case lists:member(node(), Theirs)
                orelse docket_cluster:decide(Mine, Theirs, docket_cluster:nodes()) of
                true -> State;
                %% The others decide the same, and restart.
                mine -> State;
                theirs -> restarted(Theirs, State);
                wait -> heal_later(Node, State)
            end
    catch _:_ ->
            %% The node is gone again, or its database restarts.
            heal_later(Node, State)
    end.

heal_later(Node, State) ->
    _ = erlang:send_after(docket_config:get(retry), self(), {heal, Node}),
    State.

restarted(Theirs, State) ->
    docket:say(["a partition is over: this node takes the cases of ",
                lists:join(", ", [atom_to_list(Node) || Node <- Theirs])]),
    ok = docket_mnesia_schema:leave_behind(Theirs),
    self() ! attempt,
    State#state{waits = none}.

%% @private
-spec terminate(term(), #state{}) -> ok.
terminate(_, _) ->
    %% While the whole node stops, OTP stops Mnesia too, and answers no request for it.
    case init:get_status() of
        {stopping, _} -> ok;
        _ ->
            _ = mnesia:stop(),
            ok
    end.
