%% @hidden Maps a function over a list, with as many processes as there are schedulers.
-module(whittle_work_map).

-export([map/2]).

%% Each worker returns its result as its exit reason.
-dialyzer({nowarn_function, work/2}).

%% The initial heap of a worker in words. The figures come from bench/shake_speed, which reads the
%% facts of 1,000 modules and rewrites them. With 20,000 words it took a tenth more CPU time. With
%% 1,000,000 words it took 40 MB more memory, and it saved no CPU time beyond the spread.
-define(HEAP, 100_000).

%% @doc Maps a function over a list. See {@link whittle_work:map/2}.
-spec map(fun((Item) -> Result), [Item]) -> [Result].
map(Fun, List) ->
    Numbered = lists:enumerate(List),
    {First, Rest} = lists:split(min(erlang:system_info(schedulers_online), length(List)),
                                Numbered),
    Busy = maps:from_list([work(Fun, Item) || Item <- First]),
    [Result || {_, Result} <- lists:keysort(1, collect(Busy, Rest, Fun, []))].

%% Internal

collect(Busy, _, _, Found) when map_size(Busy) =:= 0 ->
    Found;
collect(Busy, Rest, Fun, Found) ->
    receive
        {'DOWN', Monitor, process, _, Reason} when is_map_key(Monitor, Busy) ->
            Left = maps:remove(Monitor, Busy),
            case {Reason, Rest} of
                {{?MODULE, N, Result}, [Item | Items]} ->
                    {Next, Pid} = work(Fun, Item),
                    collect(Left#{Next => Pid}, Items, Fun, [{N, Result} | Found]);
                {{?MODULE, N, Result}, []} ->
                    collect(Left, [], Fun, [{N, Result} | Found]);
                {_, _} ->
                    ok = maps:foreach(fun stop/2, Left),
                    error(Reason)
            end
    end.

work(Fun, {N, Item}) ->
    {Pid, Monitor} = spawn_opt(fun() -> exit({?MODULE, N, Fun(Item)}) end,
                               [monitor, {min_heap_size, ?HEAP}]),
    {Monitor, Pid}.

stop(Monitor, Pid) ->
    true = demonitor(Monitor, [flush]),
    true = exit(Pid, kill).
