%% @doc A function of each of many things, on all schedulers.
-module(whittle_each).

-export([map/2]).

%% What its processes find is their reason to exit.
-dialyzer({nowarn_function, map/2}).

%% Words of a worker's first heap: a module of usual size is taken apart in it without
%% garbage collection (bench/beam_files).
-define(HEAP, 100_000).

%% @doc As `lists:map/2'. Each call is in a process of its own, which gets a copy of the
%% function and the thing and gives a copy of what it finds: so the function should hold
%% little, and the result be small against the work. What a call raises is raised here.
-spec map(fun((Item) -> Result), [Item]) -> [Result].
map(Fun, List) ->
    Numbered = lists:enumerate(List),
    {First, Rest} = lists:split(min(erlang:system_info(schedulers_online), length(List)),
                                Numbered),
    Found = collect([work(Fun, Item) || Item <- First], Rest, Fun, #{}),
    [maps:get(N, Found) || {N, _} <- Numbered].

%% Internal

collect([], [], _, Found) ->
    Found;
collect(Busy, Rest, Fun, Found) ->
    receive
        {'DOWN', Monitor, process, _, {?MODULE, N, Result}} ->
            Left = lists:delete(Monitor, Busy),
            {Next, Waiting} = case Rest of
                                  [Item | Items] -> {[work(Fun, Item) | Left], Items};
                                  [] -> {Left, []}
                              end,
            collect(Next, Waiting, Fun, Found#{N => Result});
        {'DOWN', _, process, _, Reason} ->
            error(Reason)
    end.

work(Fun, {N, Item}) ->
    {_, Monitor} = spawn_opt(fun() -> exit({?MODULE, N, Fun(Item)}) end,
                             [monitor, {min_heap_size, ?HEAP}]),
    Monitor.
