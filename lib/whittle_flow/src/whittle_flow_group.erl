%% @doc Broadcasts one message to many processes of this node and of others.
%%
%% Members get `{whittle_flow_group, Group, Messages}' with the messages in
%% order; several that were broadcast close to each other come in one signal.
%%
%% == How ==
%% The caller sends the message once, to the group's process. That gathers what
%% has come meanwhile, and hands it to fanouts (whittle_flow_fanout), one for each
%% scheduler, which send it to their members. What is larger than `shared' words is first put
%% where all processes can read it (a literal, see below), so that each member
%% gets a reference instead of a copy. While the fanouts are at work new messages
%% gather: under load each signal carries more of them.
%%
%% A literal is a persistent term of a new name. Sending it copies nothing.
%% Taking it away makes the VM look at every process, so this is done for many
%% at a time, `kept' words late; a member that still holds one then gets
%% its own copy.
%%
%% == Guarantees ==
%% At most once to each process that is a member when the group takes the
%% message; in the order of sending for each sender and member. Above `limit'
%% messages that wait in the group a broadcast is refused with
%% `{error, {overloaded, Group}}' and counted. A member for which more than about
%% `backlog' messages wait gets none, counted, until it has caught up. A member
%% that died is dropped.
%% When the group's process is killed, messages that wait in it are lost, and
%% members join the one that its supervisor starts.
%%
%% == Nodes ==
%% Groups of the same name on connected nodes that joined each other with
%% connect/2 get one copy each and deliver it there. A node that takes nothing holds the
%% group up for a second at most (whittle_flow_nodes); from then on, until it takes what it
%% was given, the messages for it are counted as shed, policy `behind'. When the other group
%% dies or its node goes away, it is looked for each second and connected again when it is
%% back, also by a group that was started again after a crash of its own;
%% what is broadcast meanwhile is counted as shed, policy
%% `unreachable'. Members on another node than the group's get a copy each.
-module(whittle_flow_group).
-behaviour(gen_server).

-export([start_link/2, child_spec/2, join/2, leave/2, broadcast/2, members/1, sync/1]).
-export([connect/2, disconnect/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0]).

-type options() :: #{
        %% Processes that deliver; as many as schedulers online by default.
        fanouts => pos_integer(),
        %% Messages that may wait here; 10000 by default.
        limit => pos_integer(),
        %% Messages that may wait for a member, about; 10000 by default.
        backlog => pos_integer(),
        %% Words from which a message is shared instead of copied, and the number
        %% of members from which that pays (whittle_flow_calibrate).
        shared => pos_integer(), sharers => pos_integer(),
        %% Words of literals that are kept when the oldest are taken away, which is
        %% done when there are twice as many; 131072 (1 MB) by default.
        kept => pos_integer()}.

-record(state, {name :: atom(), options :: options(),
                waiting :: atomics:atomics_ref(),
                fanouts = #{} :: #{pid() => non_neg_integer()}, % members of each
                busy = 0 :: non_neg_integer(),                 % fanouts at work
                %% Of each member the fanout that has it, and its monitor.
                where = #{} :: #{pid() => {pid(), reference()} | far},
                nodes :: whittle_flow_nodes:nodes(),
                held = none :: none | reference(),             % waits for a node
                gathered = [] :: [term()],                     % backwards
                outbound = [] :: [term()],                     % those of this node
                literals = queue:new() :: queue:queue({term(), Words :: pos_integer()}),
                words = 0 :: non_neg_integer(),                % of the literals
                next = 0 :: non_neg_integer(),
                %% Syncs that wait for the fanouts that are at work, and those that wait for
                %% what is gathered to be handed out.
                flushed = [] :: [gen_server:from()], asked = [] :: [gen_server:from()]}).

%% Milliseconds between looks for the group of a node that was connected.
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

%% @doc Makes a process a member. A second join changes nothing. A process that joins the groups of
%% two connected nodes gets each message twice: join it on its own node.
-spec join(atom(), pid()) -> ok | {error, whittle_flow:reason()}.
join(Group, Pid) when is_pid(Pid) -> call(Group, {join, Pid});
join(_, Other) -> {error, {bad_option, {member, Other}}}.

%% @doc Ends a membership. Messages that were taken before may still come.
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

%% @doc Joins this node's group with the one of the same name on Node, both ways. A node that
%% does not answer within ?ANSWER milliseconds has no group; it may yet be joined when it does.
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

%% @doc Ends the connection, both ways. What was broadcast before still goes there. One that
%% could not be reached is forgotten here, and is connected again if it asks for it; one that
%% does not answer within ?ANSWER milliseconds is told when it does.
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

%% In a process of its own, because whatever is sent to a node that takes nothing may stand.
bounded(Fun, Otherwise) ->
    try erpc:call(node(), Fun, ?ANSWER)
    catch error:{erpc, timeout} -> Otherwise
    end.

%% @doc Waits until all that this process has broadcast was sent to the members
%% of this node.
-spec sync(atom()) -> ok | {error, whittle_flow:reason()}.
sync(Group) -> call(Group, sync).

call(Group, Request) ->
    try gen_server:call(Group, Request, infinity)
    catch exit:_ -> {error, {no_group, Group}}
    end.

%%% the group's process

-spec init({atom(), options()}) -> {ok, #state{}}.
init({Name, Options}) ->
    _ = process_flag(trap_exit, true),
    %% Literals of one that was killed.
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
%% Its own node's: to have a copy of its own would be to deliver twice.
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
    {noreply, State#state{asked = [From | Asked]}}.

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
            %% Disconnected while the hello was under way.
            tell(Peer, {whittle_flow_part, node()}),
            {noreply, State};
        _ -> {noreply, meet(Peer, State)}
    end;
handle_info({whittle_flow_part, Node}, State) -> {noreply, part(Node, State)};
handle_info({'EXIT', Pid, Reason}, #state{fanouts = Fanouts, nodes = Nodes} = State) ->
    %% A fanout that was killed takes its part of the members with it: a fresh
    %% start is the simplest way that is right. So is the end of our parent.
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
    %% A link alone does not end them when we end normally.
    [exit(Pid, shutdown) || Pid <- maps:keys(Fanouts) ++ whittle_flow_nodes:channels(Nodes)],
    lists:foreach(fun({Key, _}) -> persistent_term:erase(Key) end, queue:to_list(Literals)).

%% Our supervisor's word, or our own; from anything else it may start us again.
is_end(normal) -> true;
is_end(shutdown) -> true;
is_end({shutdown, _}) -> true;
is_end(_) -> false.

%% The groups that one before us was connected with, which has crashed, are looked for.
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

%% Messages from another group have their place within the limit, too.
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

%% In a process of its own: it may stand.
tell(Peer, Message) -> spawn(fun() -> Peer ! Message end).

%% In a process of its own: to connect to a node that is away takes seconds.
look_for(Name, Node) ->
    Group = self(),
    spawn(fun() ->
                  _ = {Name, Node} ! {whittle_flow_hello, Group},
                  Group ! {looked_for, Node}
          end).

%% Takes what else is in the queue, so that it goes out in the same signal.
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

%% Takes the oldest away until no more than Kept words are left, or one literal.
trim(Kept, #state{literals = Literals, words = Sum} = State) ->
    {{value, {Key, Words}}, Younger} = queue:out(Literals),
    case Sum > Kept andalso not queue:is_empty(Younger) of
        true ->
            true = persistent_term:erase(Key),
            trim(Kept, State#state{literals = Younger, words = Sum - Words});
        false -> State
    end.
