%% @hidden Keeps a group's relations with other nodes: its members there, the groups that it is
%% connected with, and a channel to each node (whittle_flow_channel). A blocked node blocks only
%% its channel, and not the group.
%%
%% A channel has one signal of the group at a time. While it sends, the group gathers messages, as
%% it does while its own members get theirs. So the group refuses messages of a sender that is too
%% fast for a node. But it waits no longer than ?PATIENCE milliseconds. Then it sheds the next
%% messages for the node, until the node has taken the earlier ones.
-module(whittle_flow_nodes).

-export([new/1, is_empty/1, channels/1]).
-export([join/2, leave/2, meet/2, lost/2, part/2, peer/2, reply/3]).
-export([wait/1, deliver/4, sent/2, down/2, ended/2]).
-export_type([nodes/0]).

-record(node, {channel :: pid(),
               %% The deadline of the current signal, and the number of its deliveries.
               busy = false :: false | whittle_flow_deadline:until(), open = 0 :: non_neg_integer(),
               members = [] :: [pid()], peer = none :: peer()}).
-record(nodes, {group :: atom(), nodes = #{} :: #{node() => #node{}}}).

-type peer() :: pid() | none | lost.
%% The group of the same name on the node. It is lost if its process or the node ended.
-opaque nodes() :: #nodes{}.

-define(PATIENCE, 1000).

%% @doc Makes an empty set of nodes for the calling group, which has this name.
-spec new(atom()) -> nodes().
new(Group) -> #nodes{group = Group}.

%% @doc Tells whether the set is empty.
-spec is_empty(nodes()) -> boolean().
is_empty(#nodes{nodes = Nodes}) -> map_size(Nodes) =:= 0.

%% @doc Gives the channels, which are linked to the group.
-spec channels(nodes()) -> [pid()].
channels(#nodes{nodes = Nodes}) -> [Channel || #node{channel = Channel} <- maps:values(Nodes)].

%% @doc Adds a member on another node.
-spec join(pid(), nodes()) -> nodes().
join(Pid, All) ->
    #node{channel = Channel, members = Members} = N = known(node(Pid), All),
    ok = whittle_flow_channel:watch(Channel, Pid),
    keep(node(Pid), N#node{members = [Pid | Members]}, All).

%% @doc Removes a member on another node.
-spec leave(pid(), nodes()) -> nodes().
leave(Pid, All) ->
    #node{channel = Channel, members = Members} = N = known(node(Pid), All),
    ok = whittle_flow_channel:unwatch(Channel, Pid),
    keep(node(Pid), N#node{members = lists:delete(Pid, Members)}, All).

%% @doc Adds the group of another node. From now on it gets the broadcasts of this node.
-spec meet(pid(), nodes()) -> nodes().
meet(Peer, All) ->
    case known(node(Peer), All) of
        #node{peer = Peer} -> All;
        N ->
            #node{channel = Channel} = N1 = parted(N),
            ok = whittle_flow_channel:watch(Channel, Peer),
            keep(node(Peer), N1#node{peer = Peer}, All)
    end.

%% @doc Notes a node whose group this group must look for.
-spec lost(node(), nodes()) -> nodes().
lost(Node, All) -> keep(Node, (known(Node, All))#node{peer = lost}, All).

%% @doc Ends the connection. Earlier broadcasts still go there.
-spec part(node(), nodes()) -> nodes().
part(Node, #nodes{nodes = Nodes} = All) ->
    case Nodes of
        #{Node := N} -> keep(Node, parted(N), All);
        _ -> All
    end.

parted(#node{channel = Channel, peer = Peer} = N) ->
    _ = is_pid(Peer) andalso whittle_flow_channel:unwatch(Channel, Peer),
    N#node{peer = none}.

%% @doc Gives the known group of a node.
-spec peer(node(), nodes()) -> peer().
peer(Node, #nodes{nodes = Nodes}) ->
    case Nodes of
        #{Node := #node{peer = Peer}} -> Peer;
        _ -> none
    end.

%% @doc Answers a call, perhaps from another node.
-spec reply(gen_server:from(), term(), nodes()) -> ok.
reply({Pid, _} = From, Answer, #nodes{nodes = Nodes}) ->
    Node = node(Pid),
    case Nodes of
        #{Node := #node{channel = Channel}} -> whittle_flow_channel:reply(Channel, From, Answer);
        _ when Node =:= node() -> gen_server:reply(From, Answer);
        %% Answers from a process of its own, because the send may block.
        _ ->
            _ = spawn(fun() -> gen_server:reply(From, Answer) end),
            ok
    end.

known(Node, #nodes{nodes = Nodes}) ->
    case Nodes of
        #{Node := N} -> N;
        _ -> #node{channel = whittle_flow_channel:start_link()}
    end.

%% A node without members and without a group needs no channel. The channel must finish its work
%% first, because another channel might overtake it.
keep(Node, #node{members = [], peer = none, busy = false} = N, #nodes{nodes = Nodes} = All) ->
    ok = whittle_flow_channel:stop(N#node.channel),
    All#nodes{nodes = maps:remove(Node, Nodes)};
keep(Node, N, #nodes{nodes = Nodes} = All) -> All#nodes{nodes = Nodes#{Node => N}}.

%% @doc Gives the longest time in milliseconds that the next signal waits for the sending
%% channels.
-spec wait(nodes()) -> non_neg_integer().
wait(#nodes{nodes = Nodes}) ->
    lists:max([0 | [whittle_flow_deadline:left(Until) || #node{busy = Until} <- maps:values(Nodes),
                                                         Until =/= false]]).

%% @doc Sends Signal, with Count messages, to the members, and the messages in Outbound to the
%% other groups.
-spec deliver(pos_integer(), term(), [term()], nodes()) -> nodes().
deliver(Count, Signal, Outbound, #nodes{nodes = Nodes} = All) ->
    All#nodes{nodes = maps:map(fun(_, N) -> give(Count, Signal, Outbound, N, All) end, Nodes)}.

give(Count, Signal, Outbound, #node{members = Members, peer = Peer} = N, All) ->
    _ = Peer =:= lost andalso shed(unreachable, length(Outbound), All),
    Far = Count * length(Members),
    Peers = [Peer || is_pid(Peer), Outbound =/= []],
    case Far + length(Outbound) * length(Peers) of
        0 -> N;
        Open when N#node.busy =/= false ->
            ok = shed(behind, Open, All),
            N;
        Open ->
            ok = whittle_flow_channel:send(N#node.channel,
                                           [{Members, Signal} || Members =/= []]
                                           ++ [{Peers, {whittle_flow_peer, Outbound}}
                                               || Peers =/= []]),
            ok = whittle_flow_count:add(whittle_flow_deliveries_total, [All#nodes.group], Far),
            N#node{busy = whittle_flow_deadline:until(?PATIENCE), open = Open}
    end.

shed(Policy, Count, #nodes{group = Group}) ->
    whittle_flow_count:add(whittle_flow_shed_total, [Group, Policy], Count).

%% @doc Notes that a channel has sent its signal.
-spec sent(pid(), nodes()) -> nodes().
sent(Channel, All) ->
    case of_channel(Channel, All) of
        {Node, N} -> keep(Node, N#node{busy = false, open = 0}, All);
        none -> All
    end.

%% @doc Removes a member or a group that ended on another node.
-spec down(pid(), nodes()) -> {member | peer, nodes()}.
down(Pid, #nodes{nodes = Nodes} = All) ->
    Node = node(Pid),
    case Nodes of
        #{Node := #node{peer = Pid} = N} ->
            {peer, All#nodes{nodes = Nodes#{Node := N#node{peer = lost}}}};
        _ -> {member, All}
    end.

%% @doc Starts a new channel if the ended linked process was one.
-spec ended(pid(), nodes()) -> {channel | other, nodes()}.
ended(Pid, All) ->
    case of_channel(Pid, All) of
        {Node, #node{members = Members, peer = Peer, open = Open} = N} ->
            ok = shed(unreachable, Open, All),
            New = whittle_flow_channel:start_link(),
            [whittle_flow_channel:watch(New, P) || P <- [Peer | Members], is_pid(P)],
            {channel, keep(Node, N#node{channel = New, busy = false, open = 0}, All)};
        none -> {other, All}
    end.

of_channel(Channel, #nodes{nodes = Nodes}) ->
    case [Found || {_, #node{channel = C}} = Found <- maps:to_list(Nodes), C =:= Channel] of
        [Found] -> Found;
        [] -> none
    end.
