%% @doc Broadcasts one message to many processes of this node and of others.
%%
%% Members get `{whittle_flow_group, Group, Messages}' with the messages in order. Several
%% messages that were broadcast close to each other come in one signal.
%%
%% == How ==
%% The caller sends the message once, to the group's process. This process gathers the messages in
%% its queue, and passes them to fanouts (whittle_flow_fanout), one for each scheduler, which send
%% them to their members. The group first puts a message of more than `shared' words where all
%% processes can read it (a literal, see below). So each member gets a reference instead of a
%% copy. While the fanouts work, new messages gather. So under load each signal carries more of
%% them.
%%
%% A literal is a persistent term with a new name. Sending it copies nothing. Its removal makes
%% the VM scan every process, so the group removes many at a time, `kept' words late. A member
%% that still holds one then gets its own copy.
%%
%% == Guarantees ==
%% Delivery is at most once to each process that is a member when the group takes the message. The
%% order is the order of sending for each sender and member. If more than `limit' messages wait in
%% the group, it refuses a broadcast with `{error, {overloaded, Group}}' and counts it. A member
%% for which more than about `backlog' messages wait gets no messages, counted, until its queue is
%% shorter. The group drops a dead member. If the group's process is killed, the messages that
%% wait in it are lost, and members join the process that its supervisor starts.
%%
%% == Nodes ==
%% connect/2 connects groups of the same name on two nodes. Each group gets one copy and delivers
%% it on its node. A node that takes nothing blocks the group for a second at most
%% (whittle_flow_nodes). From then on, until the node takes the earlier messages, the group counts
%% its messages for that node as shed, policy `behind'. When the other group dies or its node goes
%% away, the group looks for it each second and connects again when it is back. A group does this
%% after a crash of its own too. In the meantime it counts its broadcasts for that node as shed,
%% policy `unreachable'. Members on another node than the group's get a copy each.
-module(whittle_flow_group).
-behaviour(gen_server).

-export([start_link/2, child_spec/2, join/2, leave/2, broadcast/2, members/1, sync/1]).
-export([connect/2, disconnect/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0]).

-type options() :: #{
        %% The number of delivering processes. Default: the number of schedulers online.
        fanouts => pos_integer(),
        %% Messages that may wait here. Default: 10000.
        limit => pos_integer(),
        %% The estimated number of messages that may wait for a member. Default: 10000.
        backlog => pos_integer(),
        %% The number of words from which the group shares a message instead of copying it, and
        %% the number of members from which sharing pays (whittle_flow_calibrate).
        shared => pos_integer(), sharers => pos_integer(),
        %% Words of literals that stay when the group removes the oldest ones. It removes them
        %% when there are twice as many. Default: 131072 (1 MB).
        kept => pos_integer()}.

-record(state, {name :: atom(), options :: options(),
                waiting :: atomics:atomics_ref(),
                fanouts = #{} :: #{pid() => non_neg_integer()}, % members of each
                busy = 0 :: non_neg_integer(),                 % fanouts at work
                %% The fanout and the monitor of each member.
                where = #{} :: #{pid() => {pid(), reference()} | far},
                nodes :: whittle_flow_nodes:nodes(),
                held = none :: none | reference(),             % timer of the wait for a node
                gathered = [] :: [term()],                     % in reverse order
                outbound = [] :: [term()],                     % those from this node
                literals = queue:new() :: queue:queue({term(), Words :: pos_integer()}),
                words = 0 :: non_neg_integer(),                % of the literals
                next = 0 :: non_neg_integer(),
                %% The sync calls that wait for the working fanouts, and those that wait until the
                %% gathered messages are passed on.
                flushed = [] :: [gen_server:from()], asked = [] :: [gen_server:from()]}).

%% Milliseconds between checks for the group of a lost node.
-define(LOOK_AGAIN, 1000).

%% Milliseconds that another node may take for an answer.
-define(ANSWER, 5000).

%% @doc Gives the child specification for your supervisor.
-spec child_spec(atom(), options()) -> supervisor:child_spec().
child_spec(Name, Options) ->
    #{id => {?MODULE, Name}, start => {?MODULE, start_link, [Name, Options]}}.

%% @doc Starts a group.
-spec start_link(atom(), options()) -> gen_server:start_ret().
start_link(Name, Options) ->
    Allowed = [fanouts, limit, backlog, shared, sharers, kept],
    case whittle_flow_option:start(Name, Allowed, Options) of
        ok -> gen_server:start_link({local, Name}, ?MODULE, {Name, Options},
                                    [{spawn_opt, [{message_queue_data, off_heap}]}]);
        {error, _} = Error -> Error
    end.

%% @doc Makes a process a member. A second join changes nothing. A process that joins the groups
%% of two connected nodes gets each message twice. So join it on its own node.
-spec join(atom(), pid()) -> ok | {error, whittle_flow:reason()}.
join(Group, Pid) when is_pid(Pid) -> call(Group, {join, Pid});
join(_, Other) -> {error, {bad_option, {member, Other}}}.

%% @doc Ends a membership. Earlier messages may still come.
-spec leave(atom(), pid()) -> ok | {error, whittle_flow:reason()}.
leave(Group, Pid) when is_pid(Pid) -> call(Group, {leave, Pid});
leave(_, Other) -> {error, {bad_option, {member, Other}}}.

%% @doc Sends Message to all members.
-spec broadcast(atom(), term()) -> ok | {error, whittle_flow:reason()}.
broadcast(Group, Message) ->
    case persistent_term:get({?MODULE, Group}, none) of
        {Waiting, Limit} ->
            case atomics:add_get(Waiting, 1, 1) of
                N when N =< Limit ->
                    whittle_flow_batcher:post(Group, {whittle_flow_broadcast, Message});
                _ ->
                    ok = atomics:sub(Waiting, 1, 1),
                    ok = whittle_flow_count:add(whittle_flow_shed_total, [Group, overloaded], 1),
                    {error, {overloaded, Group}}
            end;
        none -> {error, {no_group, Group}}
    end.

%% @doc Gives the members that joined on this node.
-spec members(atom()) -> [pid()] | {error, whittle_flow:reason()}.
members(Group) -> call(Group, members).

%% @doc Connects this node's group with the group of the same name on Node, in both directions. A
%% node that does not answer within ?ANSWER milliseconds counts as a node without the group. It
%% may still connect when it answers.
-spec connect(atom(), node()) -> ok | {error, whittle_flow:reason()}.
connect(Group, Node) ->
    bounded(fun() -> connect_now(Group, Node) end, {error, {no_group, {Group, Node}}}).

connect_now(Group, Node) ->
    try erpc:call(Node, erlang, whereis, [Group]) of
        undefined -> {error, {no_group, {Group, Node}}};
        Peer ->
            case call(Group, {peer, Peer}) of
                {ok, Mine} -> introduce(Peer, Mine);
                {error, _} = Error -> Error
            end
    catch
        error:{erpc, _} -> {error, {no_group, {Group, Node}}}
    end.

introduce(Peer, Mine) ->
    case call(Peer, {peer, Mine}) of
        {ok, Peer} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Ends the connection, in both directions. Earlier broadcasts still go there. This node
%% forgets an unreachable group, and connects again if that group asks for it. A node that does
%% not answer within ?ANSWER milliseconds gets the message later.
-spec disconnect(atom(), node()) -> ok | {error, whittle_flow:reason()}.
disconnect(Group, Node) ->
    case call(Group, {part, Node}) of
        ok ->
            bounded(fun() ->
                            _ = call({Group, Node}, {part, node()}),
                            ok
                    end, ok);
        {error, _} = Error -> Error
    end.

%% Runs the call in a process of its own, because a send to a node that takes nothing may block.
bounded(Fun, Otherwise) ->
    try erpc:call(node(), Fun, ?ANSWER)
    catch error:{erpc, timeout} -> Otherwise
    end.

%% @doc Waits until the group has sent all broadcasts of this process to the members of this node.
-spec sync(atom()) -> ok | {error, whittle_flow:reason()}.
sync(Group) -> call(Group, sync).

%% A process of another kind may have the name. It must not get a request that it does not know.
call(Group, Request) when is_atom(Group) ->
    case persistent_term:get({?MODULE, Group}, none) of
        none -> {error, {no_group, Group}};
        _ -> called(Group, Request)
    end;
call(Group, Request) -> called(Group, Request).

called(Group, Request) ->
    try gen_server:call(Group, Request, infinity) of
        {error, unknown} -> {error, {no_group, Group}};
        Answer -> Answer
    catch exit:_ -> {error, {no_group, Group}}
    end.

%%% the group's process

-spec init({atom(), options()}) -> {ok, #state{}}.
init({Name, Options}) ->
    _ = process_flag(trap_exit, true),
    %% Removes the literals of a killed group.
    [persistent_term:erase(Key) || {{?MODULE, Group, _} = Key, _} <- persistent_term:get(),
                                   Group =:= Name],
    Waiting = atomics:new(1, []),
    Limit = maps:get(limit, Options, 10000),
    persistent_term:put({?MODULE, Name}, {Waiting, Limit}),
    N = maps:get(fanouts, Options, erlang:system_info(schedulers_online)),
    Backlog = maps:get(backlog, Options, 10000),
    Fanouts = maps:from_list([{whittle_flow_fanout:start_link(Name, Backlog), 0}
                             || _ <- lists:seq(1, N)]),
    {ok, #state{name = Name, waiting = Waiting, fanouts = Fanouts,
                nodes = remembered(Name),
                options = maps:merge(#{limit => Limit, shared => 64, sharers => 100,
                                     kept => 131072}, Options)}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
          {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({join, Pid}, _, #state{where = Where} = State) ->
    case Where of
        #{Pid := _} -> {reply, ok, State};
        _ ->
            {reply, ok, member(Pid, State)}
    end;
handle_call({leave, Pid}, _, State) -> {reply, ok, forget(Pid, State)};
handle_call(members, _, #state{where = Where} = State) -> {reply, maps:keys(Where), State};
%% The peer is this group. A copy for itself would deliver each message twice.
handle_call({peer, Peer}, _, State) when Peer =:= self() -> {reply, {ok, Peer}, State};
handle_call({peer, Peer}, From, State) ->
    Met = meet(Peer, State),
    ok = whittle_flow_nodes:reply(From, {ok, self()}, Met#state.nodes),
    {noreply, Met};
handle_call({part, Node}, From, #state{nodes = Nodes} = State) ->
    ok = whittle_flow_nodes:reply(From, ok, Nodes),
    {noreply, part(Node, State)};
handle_call(sync, From, #state{gathered = [], flushed = Flushed} = State) ->
    {noreply, answer(State#state{flushed = [From | Flushed]})};
handle_call(sync, From, #state{asked = Asked} = State) ->
    {noreply, State#state{asked = [From | Asked]}};
handle_call(_, _, State) -> {reply, {error, unknown}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({whittle_flow_broadcast, Message}, State) ->
    {noreply, deliver(more(gather(Message, State)))};
handle_info({whittle_flow_peer, Messages}, #state{gathered = Gathered} = State) ->
    {noreply, deliver(State#state{gathered = lists:reverse(admit(Messages, State), Gathered)})};
handle_info({done, _}, #state{busy = Busy} = State) ->
    {noreply, deliver(answer(State#state{busy = Busy - 1}))};
handle_info({whittle_flow_sent, Channel}, #state{nodes = Nodes} = State) ->
    {noreply, deliver(State#state{nodes = whittle_flow_nodes:sent(Channel, Nodes)})};
handle_info({timeout, Held, whittle_flow_held}, #state{held = Held} = State) ->
    {noreply, deliver(State#state{held = none})};
handle_info({'DOWN', _, process, Pid, _}, State) -> {noreply, forget(Pid, State)};
handle_info({whittle_flow_down, Pid}, #state{nodes = Nodes} = State) ->
    case whittle_flow_nodes:down(Pid, Nodes) of
        {peer, Nodes1} ->
            look_again(node(Pid)),
            {noreply, State#state{nodes = Nodes1}};
        {member, _} -> {noreply, forget(Pid, State)}
    end;
handle_info({look_for, Node}, #state{name = Name, nodes = Nodes} = State) ->
    _ = whittle_flow_nodes:peer(Node, Nodes) =:= lost andalso look_for(Name, Node),
    {noreply, State};
handle_info({looked_for, Node}, State) ->
    look_again(Node),
    {noreply, State};
handle_info({whittle_flow_hello, Peer}, State) ->
    tell(Peer, {whittle_flow_welcome, self()}),
    {noreply, meet(Peer, State)};
handle_info({whittle_flow_welcome, Peer}, #state{nodes = Nodes} = State) ->
    case whittle_flow_nodes:peer(node(Peer), Nodes) of
        none ->
            %% The group was disconnected while the hello was on its way.
            tell(Peer, {whittle_flow_part, node()}),
            {noreply, State};
        _ -> {noreply, meet(Peer, State)}
    end;
handle_info({whittle_flow_part, Node}, State) -> {noreply, part(Node, State)};
handle_info({'EXIT', Pid, Reason}, #state{fanouts = Fanouts, nodes = Nodes} = State) ->
    %% A killed fanout loses its part of the members. A restart of the group is the simplest
    %% correct answer. The same holds for the end of the parent.
    case {Fanouts, whittle_flow_nodes:ended(Pid, Nodes)} of
        {#{Pid := _}, _} -> {stop, {fanout_died, Reason}, State};
        {_, {channel, Nodes1}} -> {noreply, State#state{nodes = Nodes1}};
        {_, {other, _}} -> {stop, Reason, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{name = Name, literals = Literals, fanouts = Fanouts, nodes = Nodes}) ->
    _ = persistent_term:erase({?MODULE, Name}),
    _ = is_end(Reason) andalso whittle_flow_kept:forget(Name),
    %% A link alone does not end these processes when the group ends normally.
    [exit(Pid, shutdown) || Pid <- maps:keys(Fanouts) ++ whittle_flow_nodes:channels(Nodes)],
    lists:foreach(fun({Key, _}) -> persistent_term:erase(Key) end, queue:to_list(Literals)).

%% The supervisor or the group itself wants this end. After any other reason it may restart.
is_end(normal) -> true;
is_end(shutdown) -> true;
is_end({shutdown, _}) -> true;
is_end(_) -> false.

%% Looks for the groups that a crashed predecessor was connected with.
remembered(Name) ->
    lists:foldl(fun(Node, Nodes) ->
                        self() ! {look_for, Node},
                        whittle_flow_nodes:lost(Node, Nodes)
                end, whittle_flow_nodes:new(Name), whittle_flow_kept:connections(Name)).

meet(Peer, #state{name = Name, nodes = Nodes} = State) ->
    ok = whittle_flow_kept:connected(Name, node(Peer)),
    State#state{nodes = whittle_flow_nodes:meet(Peer, Nodes)}.

part(Node, #state{name = Name, nodes = Nodes} = State) ->
    ok = whittle_flow_kept:forget(Name, Node),
    State#state{nodes = whittle_flow_nodes:part(Node, Nodes)}.

member(Pid, #state{where = Where, nodes = Nodes} = State) when node(Pid) =/= node() ->
    State#state{where = Where#{Pid => far}, nodes = whittle_flow_nodes:join(Pid, Nodes)};
member(Pid, #state{where = Where, fanouts = Fanouts} = State) ->
    {_, Fanout} = lists:min([{N, R} || {R, N} <- maps:to_list(Fanouts)]),
    Fanout ! {join, Pid},
    State#state{where = Where#{Pid => {Fanout, monitor(process, Pid)}},
                fanouts = maps:update_with(Fanout, fun(N) -> N + 1 end, Fanouts)}.

forget(Pid, #state{where = Where, fanouts = Fanouts, nodes = Nodes} = State) ->
    case maps:take(Pid, Where) of
        {far, Where1} ->
            State#state{where = Where1, nodes = whittle_flow_nodes:leave(Pid, Nodes)};
        {{Fanout, Monitor}, Where1} ->
            true = demonitor(Monitor, [flush]),
            Fanout ! {leave, Pid},
            State#state{where = Where1,
                        fanouts = maps:update_with(Fanout, fun(N) -> N - 1 end, Fanouts)};
        error -> State
    end.

%% Messages from another group count for the limit, too.
admit(Messages, #state{name = Name, waiting = Waiting, options = #{limit := Limit}}) ->
    Count = length(Messages),
    case atomics:add_get(Waiting, 1, Count) of
        N when N =< Limit -> Messages;
        N ->
            Over = min(Count, N - Limit),
            ok = atomics:sub(Waiting, 1, Over),
            ok = whittle_flow_count:add(whittle_flow_shed_total, [Name, overloaded], Over),
            lists:sublist(Messages, Count - Over)
    end.

look_again(Node) ->
    _ = erlang:send_after(?LOOK_AGAIN, self(), {look_for, Node}),
    ok.

%% Sends from a process of its own, because the send may block.
tell(Peer, Message) -> spawn(fun() -> Peer ! Message end).

%% Connects in a process of its own, because a connection to a missing node takes seconds.
look_for(Name, Node) ->
    Group = self(),
    spawn(fun() ->
                  _ = {Name, Node} ! {whittle_flow_hello, Group},
                  Group ! {looked_for, Node}
          end).

%% Takes the other messages in the queue, so that they go out in the same signal.
more(State) ->
    receive
        {whittle_flow_broadcast, Message} -> more(gather(Message, State))
    after 0 -> State
    end.

gather(Message, #state{gathered = Gathered, outbound = Outbound, nodes = Nodes} = State) ->
    State#state{gathered = [Message | Gathered],
                outbound = case whittle_flow_nodes:is_empty(Nodes) of
                               true -> [];
                               false -> [Message | Outbound]
                           end}.

deliver(#state{busy = Busy} = State) when Busy > 0 -> State;
deliver(#state{gathered = []} = State) -> State;
deliver(#state{nodes = Nodes, held = Held} = State) ->
    case whittle_flow_nodes:wait(Nodes) of
        0 -> hand_out(State);
        Wait when Held =:= none ->
            State#state{held = erlang:start_timer(Wait, self(), whittle_flow_held)};
        _ -> State
    end.

hand_out(#state{name = Name, gathered = Gathered, fanouts = Fanouts, waiting = Waiting,
               nodes = Nodes, outbound = Outbound, flushed = [], asked = Asked} = State) ->
    Messages = lists:reverse(Gathered),
    ok = atomics:sub(Waiting, 1, length(Messages)),
    {Signal, State1} = share({whittle_flow_group, Name, Messages}, State),
    Count = length(Messages),
    Busy = [Fanout ! {deliver, Count, Signal} || {Fanout, N} <- maps:to_list(Fanouts), N > 0],
    ok = whittle_flow_count:add(whittle_flow_broadcasts_total, [Name], Count),
    Nodes1 = whittle_flow_nodes:deliver(Count, Signal, lists:reverse(Outbound), Nodes),
    answer(State1#state{gathered = [], outbound = [], busy = length(Busy), nodes = Nodes1,
                        flushed = Asked, asked = []}).

answer(#state{busy = 0, flushed = Flushed} = State) ->
    [gen_server:reply(From, ok) || From <- Flushed],
    State#state{flushed = []};
answer(State) -> State.

share(Signal, #state{where = Where, options = #{sharers := Sharers}} = State)
  when map_size(Where) < Sharers -> {Signal, State};
share(Signal, #state{name = Name, next = Next, literals = Literals, words = Sum,
                     options = #{shared := Least, kept := Kept}} = State) ->
    case erts_debug:flat_size(Signal) of
        Words when Words < Least -> {Signal, State};
        Words ->
            Key = {?MODULE, Name, Next},
            persistent_term:put(Key, Signal),
            More = State#state{next = Next + 1, literals = queue:in({Key, Words}, Literals),
                               words = Sum + Words},
            {persistent_term:get(Key),
             case Sum + Words >= 2 * Kept of
                 true -> trim(Kept, More);
                 false -> More
             end}
    end.

%% Removes the oldest literals until no more than Kept words are left, or one literal.
trim(Kept, #state{literals = Literals, words = Sum} = State) ->
    {{value, {Key, Words}}, Younger} = queue:out(Literals),
    case Sum > Kept andalso not queue:is_empty(Younger) of
        true ->
            true = persistent_term:erase(Key),
            trim(Kept, State#state{literals = Younger, words = Sum - Words});
        false -> State
    end.
