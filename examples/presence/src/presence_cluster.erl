%% @doc Keeps the VMs of the service connected, and computes which of them owns which user.
%%
%% The VMs form a full mesh by Erlang distribution: each knows the setting `nodes', or is known by
%% one that does. A VM is a member from its hello until its process here ends. After each change, a
%% VM tells the new owners about its users.
%%
%% Run the nodes with `-connect_all false' and `-kernel prevent_overlapping_partitions false': this
%% process makes the connections, and global's own bookkeeping costs too much with many nodes.
%% @hidden
-module(presence_cluster).
-behaviour(gen_server).

-export([start_link/0, owner/1, inbox/1, members/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The version of what VMs say to each other. Another version stays outside.
-define(VERSION, 1).
%% Milliseconds after a change until all VMs agree on the owners
-define(SETTLED, 60_000).

%% A node lets so many attempts pass before it connects with a node that should do it, and makes so
%% many attempts at once: 53 nodes on one machine make 1,378 connections.
-define(PATIENT, 5).
-define(AT_ONCE, 8).

-record(state, {members = #{} :: #{node() => {Inbox :: pid(), monitor()}},
                %% The ring that all owners know, and the process that tells a newer one
                known :: presence_ring:ring(),
                mover = none :: none | {monitor(), pid(), presence_ring:ring()},
                connecting = #{} :: #{monitor() => node()},
                attempt = 0 :: non_neg_integer(),
                purge = none :: none | reference(),
                complete = false :: boolean()}).

-type monitor() :: reference().

%% @doc Starts the process.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Returns the VM that owns a user.
-spec owner(User :: binary()) -> node().
owner(User) ->
    {Ring, _} = persistent_term:get(?MODULE),
    presence_ring:owner(User, Ring).

%% @doc Returns the process of another VM that takes messages.
-spec inbox(node()) -> pid() | none.
inbox(Node) ->
    {_, Inboxes} = persistent_term:get(?MODULE),
    maps:get(Node, Inboxes, none).

%% @doc Lists the VMs that this one knows, itself among them.
-spec members() -> [node(), ...].
members() ->
    {_, Inboxes} = persistent_term:get(?MODULE),
    [node() | maps:keys(Inboxes)].

%% @private
-spec init([]) -> {ok, #state{}}.
init([]) ->
    Alone = presence_ring:new([node()]),
    ok = persistent_term:put(?MODULE, {Alone, #{}}),
    _ = net_kernel:monitor_nodes(true),
    [hello(Node) || Node <- nodes()],
    self() ! connect,
    {ok, #state{known = Alone}}.

hello(Node) ->
    {?MODULE, Node} ! {hello, ?VERSION, node(), self(), whereis(presence_inbox)},
    ok.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown}, #state{}}.
handle_call(_, _, State) -> {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(connect, #state{connecting = Connecting, attempt = Attempt} = State) ->
    _ = erlang:send_after(presence_config:get(retry), self(), connect),
    Missing = (presence_config:get(nodes) -- [node() | nodes(connected)])
        -- maps:values(Connecting),
    %% Two nodes that connect with each other at the same time disturb each other. So the one with
    %% the smaller name lets the other one try first. An attempt may take seconds.
    Mine = [Node || Node <- Missing, Node < node() orelse Attempt rem ?PATIENT =:= ?PATIENT - 1],
    Attempts = [{element(2, spawn_monitor(fun() -> net_kernel:connect_node(Node) end)), Node}
                || Node <- lists:sublist(Mine, max(0, ?AT_ONCE - map_size(Connecting)))],
    {noreply, State#state{connecting = maps:merge(Connecting, maps:from_list(Attempts)),
                          attempt = Attempt + 1}};
handle_info({nodeup, Node}, State) ->
    ok = hello(Node),
    {noreply, State};
handle_info({hello, ?VERSION, Node, Cluster, Inbox}, #state{members = Members} = State)
  when Node =/= node() ->
    case Members of
        #{Node := {Inbox, _}} -> {noreply, State};
        _ ->
            ok = hello(Node),
            Joined = (left(Node, State))#state.members,
            {noreply, changed(State#state{members = Joined#{Node => {Inbox,
                                                                     monitor(process, Cluster)}}})}
    end;
handle_info({'DOWN', Monitor, process, _, _}, #state{mover = {Monitor, _, Ring}} = State) ->
    {noreply, State#state{known = Ring, mover = none}};
handle_info({'DOWN', Monitor, process, _, _}, #state{connecting = Connecting} = State)
  when is_map_key(Monitor, Connecting) ->
    {noreply, State#state{connecting = maps:remove(Monitor, Connecting)}};
handle_info({'DOWN', Monitor, process, _, _}, #state{members = Members} = State) ->
    case [Node || {Node, {_, Its}} <- maps:to_list(Members), Its =:= Monitor] of
        [Node] ->
            Left = changed(left(Node, State)),
            ok = presence_directory:forget_node(Node),
            {noreply, Left};
        [] -> {noreply, State}
    end;
handle_info(purge, State) ->
    ok = presence_directory:purge(),
    {noreply, State#state{purge = none}};
handle_info(_, State) -> {noreply, State}.

left(Node, #state{members = Members} = State) ->
    case Members of
        #{Node := {_, Monitor}} ->
            true = demonitor(Monitor, [flush]),
            State#state{members = maps:remove(Node, Members)};
        _ -> State
    end.

changed(#state{members = Members, known = Known, mover = Mover, purge = Purge} = State) ->
    Ring = presence_ring:new([node() | maps:keys(Members)]),
    ok = persistent_term:put(?MODULE, {Ring, maps:map(fun(_, {Inbox, _}) -> Inbox end, Members)}),
    %% A change during another one begins again from what all owners know.
    _ = case Mover of
            none -> ok;
            {Old, Pid, _} ->
                true = demonitor(Old, [flush]),
                exit(Pid, kill)
        end,
    {New, Monitor} = spawn_monitor(fun() -> presence_directory:moved(Known, Ring) end),
    _ = [erlang:cancel_timer(Purge) || Purge =/= none],
    told(State#state{mover = {Monitor, New, Ring},
                     purge = erlang:send_after(?SETTLED, self(), purge)}).

%% Prints when all VMs of the setting are there, and when one of them is missing again.
told(#state{members = Members, complete = Before} = State) ->
    All = lists:usort([node() | presence_config:get(nodes)]),
    Complete = All -- [node() | maps:keys(Members)] =:= [],
    _ = [io:format("presence: ~s~n",
                   [case Complete of
                        true -> io_lib:format("all ~b nodes are connected", [length(All)]);
                        false -> "a node is missing"
                    end]) || Complete =/= Before, length(All) > 1],
    State#state{complete = Complete}.
