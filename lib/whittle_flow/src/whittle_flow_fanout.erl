%% @hidden Runs one of a group's senders, which holds a part of the members and sends each signal
%% to them.
%%
%% A member that does not take its messages must not fill the memory. Nobody
%% tells how many wait for it but itself, so every half of `backlog' messages it
%% is asked how long its queue is. A queue that may hold all that was sent since the
%% question before is remembered: it may be full of the member's own messages. If it grows
%% by as much again the member is left out, counted, until the queue is as short as it was,
%% which is looked for ?LOOK_AGAIN milliseconds apart.
-module(whittle_flow_fanout).

-export([start_link/2]).

%% Messages from the group: {join, Pid}, {leave, Pid}, and
%% {deliver, Count, Signal}, which is answered by {done, self()}.

-record(fanout, {group :: pid(), name :: atom(), half :: pos_integer(),
                 deliveries :: whittle_flow_count:handle(), watch :: reference(),
                 %% Lists, because they are walked fastest and are searched only
                 %% when somebody leaves.
                 members = [] :: [pid()], behind = [] :: [pid()],
                 %% The shortest queue of each that has had a long one since.
                 queues = #{} :: #{pid() => non_neg_integer()},
                 %% Signals and messages since members were asked.
                 signals = 0 :: non_neg_integer(), messages = 0 :: non_neg_integer()}).

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
    %% It is looked for already if somebody was behind before.
    _ = Behind =:= [] andalso look_again(Late),
    Long = [{Pid, min(Length, maps:get(Pid, Queues, Length))}
            || Pid <- Up, Length <- [queue(Pid)], Length >= Most],
    Fanout#fanout{members = Up, behind = Late ++ Behind, signals = 0, messages = 0,
                  queues = maps:merge(maps:with(Late ++ Behind, Queues), maps:from_list(Long))}.

%% Whether a queue that was long is longer than it was by at least so many.
grown(Pid, By, Queues) ->
    case Queues of
        #{Pid := Length} -> queue(Pid) >= Length + By;
        _ -> false
    end.

%% One that is dead leaves soon.
queue(Pid) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length;
        undefined -> 0
    end.
