%% @hidden Runs one of a group's senders, which holds a part of the members and sends each signal
%% to them.
%%
%% A member that does not take its messages must not fill the memory. Only the member itself knows
%% the length of its queue. So the fanout asks for this length after every half of `backlog'
%% messages. A queue may be so long that it holds everything since the last question. The fanout
%% remembers such a length, because the queue may be full of the member's own messages. If the
%% queue grows by as much again, the fanout leaves the member out, and counts this, until the
%% queue is as short as before. It checks this every ?LOOK_AGAIN milliseconds.
-module(whittle_flow_fanout).

-export([start_link/2]).

%% Messages from the group: {join, Pid}, {leave, Pid}, and {deliver, Count, Signal}. The fanout
%% answers the last one with {done, self()}.

-record(fanout, {group :: pid(), name :: atom(), half :: pos_integer(),
                 deliveries :: whittle_flow_count:handle(), watch :: reference(),
                 %% Lists, because a walk over them is fastest, and only a leaving member needs a
                 %% search.
                 members = [] :: [pid()], behind = [] :: [pid()],
                 %% The shortest queue of each member since its queue was long.
                 queues = #{} :: #{pid() => non_neg_integer()},
                 %% Signals and messages since the last question.
                 signals = 0 :: non_neg_integer(), messages = 0 :: non_neg_integer()}).

%% Signals that may always wait. A member that did not run in between is not behind, even if each
%% signal carries many messages.
-define(ALLOWED, 8).
-define(LOOK_AGAIN, 100).

%% @doc Starts a fanout for the calling group.
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
                                           behind = lists:delete(Pid, Behind),
                                           queues = maps:remove(Pid, Fanout#fanout.queues)});
        {deliver, Count, Signal} -> loop(deliver(Count, Signal, Fanout));
        look_again ->
            {Still, Back} = lists:partition(fun(Pid) -> grown(Pid, 1, Fanout#fanout.queues) end,
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

ask(#fanout{members = Members, behind = Behind, queues = Queues, signals = Signals} = Fanout) ->
    Most = max(?ALLOWED, Signals),
    {Late, Up} = lists:partition(fun(Pid) -> grown(Pid, Most, Queues) end, Members),
    %% The timer already runs if a member was behind before.
    _ = Behind =:= [] andalso look_again(Late),
    Long = [{Pid, min(Length, maps:get(Pid, Queues, Length))}
            || Pid <- Up, Length <- [queue(Pid)], Length >= Most],
    Fanout#fanout{members = Up, behind = Late ++ Behind, signals = 0, messages = 0,
                  queues = maps:merge(maps:with(Late ++ Behind, Queues), maps:from_list(Long))}.

%% Tells whether a long queue has grown by at least this number.
grown(Pid, By, Queues) ->
    case Queues of
        #{Pid := Length} -> queue(Pid) >= Length + By;
        _ -> false
    end.

%% A dead member leaves soon.
queue(Pid) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length;
        undefined -> 0
    end.
