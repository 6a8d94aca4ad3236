%% @doc How one key's messages stay in order over any number of resizes: fences.
%%
%% A resize makes a new generation of shards. Each of them waits for a piece of the state of
%% every shard before; each of those gives its state away when it has handled what was in
%% its queue, and is from then on a relay that passes on what still comes.
%%
%% == The rule ==
%% Whatever sends to a pool, a process of the user's or a relay, sends to the shards of one
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

-export([through/2, until/1, left/1]).
-export_type([until/0]).

-type until() :: integer() | infinity.
%% A time of erlang:monotonic_time/1, in milliseconds.

%% @doc When so many milliseconds will have passed.
-spec until(timeout()) -> until().
until(infinity) -> infinity;
until(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% @doc The milliseconds that are left.
-spec left(until()) -> timeout().
left(infinity) -> infinity;
left(Until) -> max(0, Until - erlang:monotonic_time(millisecond)).

%% @doc Sends a fence to each of these shards and waits until all have answered, but not
%% longer than Until. Answers that come later go to nobody.
-spec through(whittle_flow_shard:routes(), until()) -> ok | timeout.
through(Routes, Until) ->
    %% One reference for all answers, made here, so that the VM need not look at what
    %% was in the queue before it.
    Ref = make_ref(),
    answers(ask(tuple_size(Routes), Routes, Ref, #{}), Ref, Until).

ask(0, _, _, Asked) -> Asked;
ask(Place, Routes, Ref, Asked) ->
    {Pid, _} = element(Place, Routes),
    Monitor = monitor(process, Pid, [{alias, demonitor}, {tag, {whittle_flow_down, Ref}}]),
    Pid ! {whittle_flow_fence, Monitor, {Ref, Monitor}},
    ask(Place - 1, Routes, Ref, Asked#{Monitor => asked}).

answers(Asked, _, _) when map_size(Asked) =:= 0 -> ok;
answers(Asked, Ref, Until) ->
    receive
        {whittle_flow_fenced, {Ref, Monitor}} ->
            true = demonitor(Monitor, [flush]),
            answers(maps:remove(Monitor, Asked), Ref, Until);
        {{whittle_flow_down, Ref}, Monitor, process, _, _} ->
            answers(maps:remove(Monitor, Asked), Ref, Until)
    after left(Until) ->
            [demonitor(Monitor, [flush]) || Monitor <- maps:keys(Asked)],
            given_up(Ref)
    end.

given_up(Ref) ->
    receive {whittle_flow_fenced, {Ref, _}} -> given_up(Ref)
    after 0 -> timeout
    end.
