%% @hidden Runs a process that sends to one other node for its owner.
%%
%% A process that sends to a node that takes nothing (it is stopped, or the line is slow) is
%% suspended once the connection's buffer is full, for up to `net_ticktime'. So what must
%% not stand sends through a channel, which may: it sends, monitors and answers, in the
%% order in which it was asked to. Its owner bounds what waits in it.
-module(whittle_flow_channel).

-export([start_link/0, send/2, watch/2, unwatch/2, reply/3, stop/1]).
-export([forward/2]).

-type parts() :: [{[pid()], Signal :: term()}].

%% @doc Starts one for the calling process.
-spec start_link() -> pid().
start_link() ->
    Owner = self(),
    proc_lib:spawn_opt(fun() -> loop(Owner, #{}) end, [link, {message_queue_data, off_heap}]).

%% @doc Sends each signal to its processes. When that is done the owner gets
%% `{whittle_flow_sent, Channel}'.
-spec send(pid(), parts()) -> ok.
send(Channel, Parts) ->
    Channel ! {send, Parts},
    ok.

%% @doc Watches a process: the owner gets `{whittle_flow_down, Pid}' when it or its node ends.
-spec watch(pid(), pid()) -> ok.
watch(Channel, Pid) ->
    Channel ! {watch, Pid},
    ok.

%% @doc Ends the watch. The message may be on its way already.
-spec unwatch(pid(), pid()) -> ok.
unwatch(Channel, Pid) ->
    Channel ! {unwatch, Pid},
    ok.

%% @doc Answers a call of gen_server.
-spec reply(pid(), gen_server:from(), term()) -> ok.
reply(Channel, From, Answer) ->
    Channel ! {reply, From, Answer},
    ok.

%% @doc Ends the channel when it has done all that it was asked for.
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

%% Of a node that is gone its processes' monitors tell: to send would be to connect again.
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
%% has one process for each such node, which sends for it and ends with it.
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

%% Messages that were sent before the owner's end go first.
forward_loop(Monitor) ->
    receive
        {forward, Pid, Signal} ->
            _ = erlang:send(Pid, Signal, [noconnect]),
            forward_loop(Monitor);
        {'DOWN', Monitor, process, _, _} -> ok
    end.
