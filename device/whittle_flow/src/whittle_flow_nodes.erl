%% @doc What a group has on other nodes: members, the groups that it is connected with, and
%% a link to each node.
%%
%% Whoever sends to a node that takes nothing (it is stopped, or the line is slow) is
%% suspended once the connection's buffer is full, for up to `net_ticktime'. So each node
%% has a process of its own that may be suspended, its link, and the group goes on. What
%% waits for a link is counted here, and what would be more than the group's limit is shed.
-module(whittle_flow_nodes).

-export([new/2, is_empty/1, links/1]).
-export([join/2, leave/2, meet/2, part/2, peer/2]).
-export([deliver/4, sent/3, down/3, ended/2]).
-export_type([nodes/0]).

-record(node, {link :: pid(), waiting = 0 :: non_neg_integer(), members = [] :: [pid()],
               peer = none :: peer(), watch = none :: none | reference()}). % the peer's monitor
-record(nodes, {group :: atom(), limit :: pos_integer(), nodes = #{} :: #{node() => #node{}}}).

-type peer() :: pid() | none | lost.
%% The group of the same name there; lost, if its process or the node ended.
-opaque nodes() :: #nodes{}.

%% @doc No other nodes, for the calling group, which has this name. So many messages may
%% wait for each node.
-spec new(atom(), pos_integer()) -> nodes().
new(Group, Limit) -> #nodes{group = Group, limit = Limit}.

%% @doc Whether there are none.
-spec is_empty(nodes()) -> boolean().
is_empty(#nodes{nodes = Nodes}) -> map_size(Nodes) =:= 0.

%% @doc The links, which are linked to the group.
-spec links(nodes()) -> [pid()].
links(#nodes{nodes = Nodes}) -> [Link || #node{link = Link} <- maps:values(Nodes)].

%% @doc A member on another node.
-spec join(pid(), nodes()) -> nodes().
join(Pid, Nodes) ->
    change(node(Pid), fun(#node{members = M} = N) -> N#node{members = [Pid | M]} end, Nodes).

%% @doc Such a member leaves.
-spec leave(pid(), nodes()) -> nodes().
leave(Pid, Nodes) ->
    change(node(Pid), fun(#node{members = M} = N) -> N#node{members = lists:delete(Pid, M)} end,
           Nodes).

%% @doc The group of another node is met: it gets what is broadcast here.
-spec meet(pid(), nodes()) -> nodes().
meet(Peer, Nodes) ->
    change(node(Peer),
           fun(#node{peer = Known} = N) when Known =:= Peer -> N;
              (N) -> (unwatched(N))#node{peer = Peer, watch = monitor(process, Peer)}
           end, Nodes).

%% @doc Ends that.
-spec part(node(), nodes()) -> nodes().
part(Node, Nodes) -> change(Node, fun(N) -> (unwatched(N))#node{peer = none} end, Nodes).

unwatched(#node{watch = none} = N) -> N;
unwatched(#node{watch = Watch} = N) ->
    true = demonitor(Watch, [flush]),
    N#node{watch = none}.

%% @doc The group that is known of a node.
-spec peer(node(), nodes()) -> peer().
peer(Node, #nodes{nodes = Nodes}) ->
    case Nodes of
        #{Node := #node{peer = Peer}} -> Peer;
        _ -> none
    end.

%% A node without a member and a group needs no link.
change(Node, Change, #nodes{nodes = Nodes} = All) ->
    Old = case Nodes of
              #{Node := Known} -> Known;
              _ -> #node{link = start_link()}
          end,
    case Change(Old) of
        #node{members = [], peer = none, link = Link} ->
            true = unlink(Link),
            Link ! stop,
            All#nodes{nodes = maps:remove(Node, Nodes)};
        New -> All#nodes{nodes = Nodes#{Node => New}}
    end.

%% @doc Sends Signal, of Count messages, to the members, and the messages in Outbound to
%% the other groups.
-spec deliver(pos_integer(), term(), [term()], nodes()) -> nodes().
deliver(Count, Signal, Outbound, #nodes{nodes = Nodes} = All) ->
    Send = fun(_, #node{members = Members, peer = Peer} = N) ->
                   to_peer(Peer, Outbound, to_members(Members, Count, Signal, N, All), All)
           end,
    All#nodes{nodes = maps:map(Send, Nodes)}.

to_members(Members, Count, Signal, #node{waiting = Before} = N, All) ->
    case send(Members, Count, Signal, N, All) of
        #node{waiting = Before} = Same -> Same;
        Sent ->
            ok = whittle_flow_count:add(whittle_flow_deliveries_total, [All#nodes.group],
                                        Count * length(Members)),
            Sent
    end.

to_peer(none, _, N, _) -> N;
to_peer(_, [], N, _) -> N;
to_peer(lost, Outbound, N, All) ->
    ok = shed(unreachable, length(Outbound), All),
    N;
to_peer(Peer, Outbound, N, All) ->
    send([Peer], length(Outbound), {whittle_flow_peer, Outbound}, N, All).

send([], _, _, N, _) -> N;
send(Pids, Count, _, #node{waiting = Waiting} = N, #nodes{limit = Limit} = All)
  when Waiting > 0, Waiting + Count > Limit ->
    ok = shed(behind, Count * length(Pids), All),
    N;
send(Pids, Count, Signal, #node{link = Link, waiting = Waiting} = N, _) ->
    Link ! {send, Pids, Count, Signal},
    N#node{waiting = Waiting + Count}.

shed(Policy, Count, #nodes{group = Group}) ->
    whittle_flow_count:add(whittle_flow_shed_total, [Group, Policy], Count).

%% @doc The group got `{sent, Link, Count}'.
-spec sent(pid(), pos_integer(), nodes()) -> nodes().
sent(Link, Count, All) ->
    of_link(Link, fun(#node{waiting = Waiting} = N) -> N#node{waiting = Waiting - Count} end, All).

%% @doc A member or a group on another node is down. If its node is, what waits for it
%% goes to nobody, and to try would be to connect again and again.
-spec down(pid(), Reason :: term(), nodes()) -> {member | peer, nodes()}.
down(Pid, Reason, #nodes{nodes = Nodes} = All) ->
    Node = node(Pid),
    case Nodes of
        #{Node := Known} ->
            N = case Reason of
                    noconnection ->
                        true = unlink(Known#node.link),
                        true = exit(Known#node.link, kill),
                        relink(Known, All);
                    _ -> Known
                end,
            case N of
                #node{peer = Pid} -> {peer, All#nodes{nodes = Nodes#{Node := N#node{peer = lost}}}};
                _ -> {member, All#nodes{nodes = Nodes#{Node := N}}}
            end;
        _ -> {member, All}
    end.

%% @doc A process that was linked ended: another link, if it was one.
-spec ended(pid(), nodes()) -> {link | other, nodes()}.
ended(Pid, All) ->
    case lists:member(Pid, links(All)) of
        true -> {link, of_link(Pid, fun(N) -> relink(N, All) end, All)};
        false -> {other, All}
    end.

relink(#node{waiting = Waiting} = N, All) ->
    ok = shed(unreachable, Waiting, All),
    N#node{link = start_link(), waiting = 0}.

of_link(Link, Change, #nodes{nodes = Nodes} = All) ->
    All#nodes{nodes = maps:map(fun(_, #node{link = L} = N) when L =:= Link -> Change(N);
                                  (_, N) -> N
                               end, Nodes)}.

%%% the link

start_link() ->
    Group = self(),
    proc_lib:spawn_link(fun() -> link_loop(Group) end).

link_loop(Group) ->
    receive
        {send, Pids, Count, Signal} ->
            lists:foreach(fun(Pid) -> Pid ! Signal end, Pids),
            Group ! {sent, self(), Count},
            link_loop(Group);
        stop -> ok
    end.
