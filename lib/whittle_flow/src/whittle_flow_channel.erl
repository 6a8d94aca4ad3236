%% @hidden Runs a process that sends to one other node for its owner.
%%
%% A node may take nothing, because it is stopped or the line is slow. The VM suspends a process
%% that sends to such a node, once the connection's buffer is full, for up to `net_ticktime'. A
%% process that must not block sends through a channel, which may block. The channel sends,
%% monitors and answers in the order of the requests. Its owner bounds the number of waiting
%% requests.
-module(whittle_flow_channel).

-export([start_link/0, send/2, watch/2, unwatch/2, reply/3, stop/1]).
-export([forward/2]).

-type parts() :: [{[pid()], Signal :: term()}].

%% @doc Starts a channel for the calling process.
-spec start_link() -> pid().
start_link() ->
    Owner = self(),
    proc_lib:spawn_opt(fun() -> loop(Owner, #{}) end, [link, {message_queue_data, off_heap}]).

%% @doc Sends each signal to its processes. Then the owner gets `{whittle_flow_sent, Channel}'.
-spec send(pid(), parts()) -> ok.
send(Channel, Parts) ->
    Channel ! {send, Parts},
    ok.

%% @doc Monitors a process. The owner gets `{whittle_flow_down, Pid}' when the process or its node
%% ends.
-spec watch(pid(), pid()) -> ok.
watch(Channel, Pid) ->
    Channel ! {watch, Pid},
    ok.

%% @doc Ends the monitoring. The message may be on its way already.
-spec unwatch(pid(), pid()) -> ok.
unwatch(Channel, Pid) ->
    Channel ! {unwatch, Pid},
    ok.

%% @doc Answers a call of gen_server.
-spec reply(pid(), gen_server:from(), term()) -> ok.
reply(Channel, From, Answer) ->
    Channel ! {reply, From, Answer},
    ok.

%% @doc Ends the channel when it has handled all requests.
-spec stop(pid()) -> ok.
stop(Channel) ->
    true = unlink(Channel),
    receive {'EXIT', Channel, _} -> ok after 0 -> ok end,
    Channel ! stop,
    ok.

loop(Owner, Watched) ->
    receive
        {send, Parts} ->
            [to_all(Pids, Signal) || {Pids, Signal} <- Parts],
            Owner ! {whittle_flow_sent, self()},
            loop(Owner, Watched);
        {watch, Pid} when is_map_key(Pid, Watched) -> loop(Owner, Watched);
        {watch, Pid} -> loop(Owner, Watched#{Pid => monitor(process, Pid)});
        {unwatch, Pid} -> loop(Owner, unwatched(Pid, Watched));
        {reply, From, Answer} ->
            ok = gen_server:reply(From, Answer),
            loop(Owner, Watched);
        {'DOWN', _, process, Pid, _} ->
            Owner ! {whittle_flow_down, Pid},
            loop(Owner, maps:remove(Pid, Watched));
        stop -> ok
    end.

%% The monitors report that the node is gone. To send to it would connect again.
to_all(Pids, Signal) ->
    lists:foreach(fun(Pid) -> erlang:send(Pid, Signal, [noconnect]) end, Pids).

unwatched(Pid, Watched) ->
    case maps:take(Pid, Watched) of
        {Monitor, Rest} ->
            true = demonitor(Monitor, [flush]),
            Rest;
        error -> Watched
    end.

%% @doc Sends to a process, which may be on another node, without blocking. The calling process
%% has one helper process for each such node. The helper sends for it and ends with it.
-spec forward(pid(), term()) -> ok.
forward(Pid, Signal) when node(Pid) =:= node() ->
    Pid ! Signal,
    ok;
forward(Pid, Signal) ->
    forwarder(node(Pid)) ! {forward, Pid, Signal},
    ok.

forwarder(Node) ->
    Known = get({?MODULE, Node}),
    case is_pid(Known) andalso is_process_alive(Known) of
        true -> Known;
        false ->
            Owner = self(),
            New = spawn(fun() -> forward_loop(monitor(process, Owner)) end),
            _ = put({?MODULE, Node}, New),
            New
    end.

%% The helper sends the messages from before the owner's end first.
forward_loop(Monitor) ->
    receive
        {forward, Pid, Signal} ->
            _ = erlang:send(Pid, Signal, [noconnect]),
            forward_loop(Monitor);
        {'DOWN', Monitor, process, _, _} -> ok
    end.
