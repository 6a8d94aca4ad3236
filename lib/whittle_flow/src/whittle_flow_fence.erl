%% @hidden Sends fences, which keep the messages of a key in order over any number of resizes.
%%
%% A resize makes a new generation of shards. Each of them waits for a piece of the state of
%% every shard before; each of those gives its state away when it has handled what was in
%% its queue, and is from then on a relay that passes on what still comes.
%%
%% == The rule ==
%% A sender to a pool, a process of the user's or a relay, sends to the shards of one
%% generation, its target. Before it takes another target it sends a fence to each shard of
%% the one that it leaves, and waits until all have answered. A fence is answered when all
%% that came before it from the same process was handled:
%% <ul>
%% <li>a shard answers when it takes the fence from its queue;</li>
%% <li>a relay that has passed nothing on since it last knew all of that to be handled
%%   answers at once: what it got as a shard it handled itself;</li>
%% <li>any other relay first sends fences to its own target and waits for those;</li>
%% <li>the end of a process is an answer, too: a relay ends when it has done the same, and
%%   what a killed one held is lost.</li>
%% </ul>
%%
%% == Why that keeps the order ==
%% Take two messages of one sender for one key. With the same target they go the same way,
%% through queues that keep the order, as long as no relay on it changes its target between
%% them; and it does so only after a fence, when the first was handled. With another target
%% the second was sent after the fence's answer, when the first was handled. So in each case
%% the first is handled first, whatever the generations in between are doing, and the target
%% may be any later generation, not only the next: the shards there take up nothing before
%% the state has come through all generations in between. A fence goes from older to newer
%% generations only, and shards themselves wait for no pool (what they send is not ordered
%% over a resize), so nobody waits in a circle.
%%
%% == What it costs ==
%% A relay waits with one fence at a time. All fences that came meanwhile are answered by the
%% next one, and it takes the newest generation for its target as soon as nothing that it
%% passed on is open. So with shards of N in each of G generations a relay asks those that it
%% leaves once, N of each generation, and after that the newest: in the order of G * N * N
%% fences in all where senders slept through G resizes; and no more wait anywhere than there are
%% processes that ask. (That each relay asked for each fence that it got made N^G of them:
%% with six shards and seven resizes 280,000, which did not end.)
-module(whittle_flow_fence).

-export([through/1, open/1, passed/2]).
-export_type([fence/0]).

-opaque fence() :: pid().

%% @doc Sends a fence to each of these shards and waits until all have answered.
-spec through(whittle_flow_routes:routes()) -> ok.
through(Routes) ->
    %% One reference for all answers, made here, so that the VM need not look at what
    %% was in the queue before it.
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

%% @doc Sends a fence to each of these shards without waiting. The answers go to a process that ends
%% when all are there. A caller with a timeout waits for that process, and so does not put one more
%% fence into each queue with each try.
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

%% @doc Waits until all have answered, but not longer than Until.
-spec passed(fence(), whittle_flow_deadline:until()) -> ok | timeout.
passed(Waiter, Until) ->
    Monitor = monitor(process, Waiter),
    receive {'DOWN', Monitor, process, _, _} -> ok
    after whittle_flow_deadline:left(Until) ->
            true = demonitor(Monitor, [flush]),
            timeout
    end.
