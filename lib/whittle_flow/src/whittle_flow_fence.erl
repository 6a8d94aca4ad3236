%% @hidden Sends fences, which keep the messages of a key in order over any number of resizes.
%%
%% A resize makes a new generation of shards. Each new shard waits for a piece of the state of
%% every old shard. An old shard gives its state away when it has handled its queue. From then on
%% it is a relay, which passes further messages on.
%%
%% == The rule ==
%% A sender to a pool is a user's process or a relay. It sends to the shards of one generation,
%% its target. Before it takes another target, it sends a fence to each shard of the old target,
%% and waits until all have answered. The answer to a fence means that all earlier messages from
%% the same process are handled:
%% <ul>
%% <li>A shard answers when it takes the fence from its queue.</li>
%% <li>A relay answers at once if it has passed on nothing since it last knew that all of that was
%%   handled. It handled the messages that it got as a shard itself.</li>
%% <li>Any other relay first sends fences to its own target and waits for the answers.</li>
%% <li>The end of a process is an answer, too. A relay ends after the same steps, and the
%%   messages of a killed relay are lost.</li>
%% </ul>
%%
%% == Why this keeps the order ==
%% Take two messages of one sender for one key. With the same target they take the same path,
%% through queues that keep the order, as long as no relay on the path changes its target between
%% them. A relay does so only after a fence, when the first message is handled. With different
%% targets, the sender sends the second message after the answer to the fence, when the first is
%% handled. So in each case the first message is handled first, whatever the generations in
%% between do. The target may be any later generation, not only the next, because its shards start
%% work only after the state has come through all generations in between. A fence goes only from
%% older to newer generations. Shards themselves wait for no pool (a resize does not keep their
%% messages in order), so no processes wait in a circle.
%%
%% == The cost ==
%% A relay waits with one fence at a time. The next fence answers all questions that came in
%% between. The relay takes the newest generation as its target when none of its messages is open.
%% So with N shards in each of G generations, a relay asks each old target once, N shards of each
%% generation, and after that the newest. If senders slept through G resizes, the number of fences
%% is in the order of G * N * N. No more fences wait at a shard than there are asking processes.
%% (In an earlier version each relay sent new fences for each fence that it got. That made N^G of
%% them: 280,000 with six shards and seven resizes, and it did not end.)
-module(whittle_flow_fence).

-export([through/1, open/1, passed/2]).
-export_type([fence/0]).

-opaque fence() :: pid().

%% @doc Sends a fence to each of these shards and waits until all have answered.
-spec through(whittle_flow_routes:routes()) -> ok.
through(Routes) ->
    %% One reference serves all answers. It is new, so that the VM skips the messages that are
    %% already in the queue.
    Ref = make_ref(),
    ok = ask(tuple_size(Routes), Routes, Ref),
    answers(tuple_size(Routes), Ref).

ask(0, _, _) -> ok;
ask(Place, Routes, Ref) ->
    {Pid, _} = element(Place, Routes),
    Monitor = monitor(process, Pid, [{tag, {whittle_flow_down, Ref}}]),
    Pid ! {whittle_flow_fence, self(), {Ref, Monitor}},
    ask(Place - 1, Routes, Ref).

answers(0, _) -> ok;
answers(N, Ref) ->
    receive
        {whittle_flow_fenced, {Ref, Monitor}} ->
            true = demonitor(Monitor, [flush]),
            answers(N - 1, Ref);
        {{whittle_flow_down, Ref}, _, process, _, _} ->
            answers(N - 1, Ref)
    end.

%% @doc Sends a fence to each of these shards without waiting. The answers go to a process that
%% ends when all have come. A caller with a timeout waits for that process, and so does not add a
%% further fence to each queue with each try.
-spec open(whittle_flow_routes:routes()) -> fence().
open(Routes) ->
    Pids = [Pid || {Pid, _} <- tuple_to_list(Routes)],
    Waiter = spawn(fun() ->
                           [monitor(process, Pid) || Pid <- Pids],
                           gather(Pids)
                   end),
    lists:foreach(fun(Pid) -> Pid ! {whittle_flow_fence, Waiter, Pid} end, Pids),
    Waiter.

gather([]) -> ok;
gather(Pids) ->
    receive
        {whittle_flow_fenced, Pid} -> gather(lists:delete(Pid, Pids));
        {'DOWN', _, process, Pid, _} -> gather(lists:delete(Pid, Pids))
    end.

%% @doc Waits until all have answered, or until Until.
-spec passed(fence(), whittle_flow_deadline:until()) -> ok | timeout.
passed(Waiter, Until) ->
    Monitor = monitor(process, Waiter),
    receive {'DOWN', Monitor, process, _, _} -> ok
    after whittle_flow_deadline:left(Until) ->
            true = demonitor(Monitor, [flush]),
            timeout
    end.
