%% @doc One of a group's senders: it holds a part of the members and sends each
%% signal to them.
%%
%% A member that does not take its messages must not fill the memory. Nobody
%% tells how many wait for it but itself, so every half of `backlog' messages it
%% is asked how long its queue is. If all that was sent since the question before
%% is still there, it is left out, counted, until it has caught up, which is
%% looked for ?LOOK_AGAIN milliseconds apart.
-module(whittle_flow_fanout).

-export([start_link/2]).

%% What the group sends: {join, Pid}, {leave, Pid}, and
%% {deliver, Count, Signal}, which is answered by {done, self()}.

-record(fanout, {group :: pid(), name :: atom(), half :: pos_integer(),
                 deliveries :: whittle_flow_count:handle(), watch :: reference(),
                 %% Lists, because they are walked fastest and are searched only
                 %% when somebody leaves.
                 members = [] :: [pid()], behind = [] :: [pid()],
                 %% Signals and messages since members were asked, and the length
                 %% of queue that was too much then.
                 signals = 0 :: non_neg_integer(), messages = 0 :: non_neg_integer(),
                 most = 0 :: non_neg_integer()}).

%% Signals that may always wait: a member that was not scheduled in between is
%% not behind, even if each of them carries many messages.
-define(ALLOWED, 8).
-define(LOOK_AGAIN, 100).

%% @doc Starts one for the calling group.
-spec start_link(atom(), pos_integer()) -> pid().
start_link(Name, Backlog) ->
    Group = self(),
    proc_lib:spawn_link(fun() ->
                                loop(#fanout{group = Group, name = Name,
                                             deliveries = deliveries(Name),
                                             watch = whittle_flow_count:watch(),
                                             half = max(1, Backlog div 2)})
                        end).

deliveries(Name) -> whittle_flow_count:handle(whittle_flow_deliveries_total, Name).

loop(#fanout{members = Members, behind = Behind} = Fanout) ->
    receive
        {join, Pid} -> loop(Fanout#fanout{members = [Pid | Members]});
        {leave, Pid} -> loop(Fanout#fanout{members = lists:delete(Pid, Members),
                                           behind = lists:delete(Pid, Behind)});
        {deliver, Count, Signal} -> loop(deliver(Count, Signal, Fanout));
        look_again ->
            {Back, Still} = lists:partition(fun(Pid) -> keeps_up(Pid, Fanout#fanout.most) end,
                                            Behind),
            look_again(Still),
            loop(Fanout#fanout{members = Back ++ Members, behind = Still});
        Message ->
            case whittle_flow_count:watched(Message, Fanout#fanout.watch) of
                {renew, Watch} -> loop(Fanout#fanout{deliveries = deliveries(Fanout#fanout.name),
                                                     watch = Watch});
                {wait, Watch} -> loop(Fanout#fanout{watch = Watch});
                ignored -> loop(Fanout)
            end
    end.

look_again([]) -> ok;
look_again(_) ->
    _ = erlang:send_after(?LOOK_AGAIN, self(), look_again),
    ok.

deliver(Count, Signal, #fanout{half = Half, messages = Sent} = Fanout)
  when Sent > 0, Sent + Count > Half ->
    deliver(Count, Signal, ask(Fanout));
deliver(Count, Signal, #fanout{group = Group, name = Name, members = Members, behind = Behind,
                               signals = Signals, messages = Sent} = Fanout) ->
    send(Members, Signal),
    ok = whittle_flow_count:add(Fanout#fanout.deliveries, Count * length(Members)),
    _ = Behind =/= [] andalso
        whittle_flow_count:add(whittle_flow_shed_total, [Name, behind], Count * length(Behind)),
    Group ! {done, self()},
    Fanout#fanout{signals = Signals + 1, messages = Sent + Count}.

send([], _) -> ok;
send([Pid | Members], Signal) ->
    Pid ! Signal,
    send(Members, Signal).

ask(#fanout{members = Members, behind = Behind, signals = Signals} = Fanout) ->
    Most = max(?ALLOWED, Signals),
    {Up, Late} = lists:partition(fun(Pid) -> keeps_up(Pid, Most) end, Members),
    %% It is looked for already if somebody was behind before.
    _ = Behind =:= [] andalso look_again(Late),
    Fanout#fanout{members = Up, behind = Late ++ Behind, most = Most, signals = 0, messages = 0}.

%% One that is dead leaves soon; one of another node has its connection's bound.
keeps_up(Pid, Most) when node(Pid) =:= node() ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length < Most;
        undefined -> true
    end;
keeps_up(_, _) -> true.
