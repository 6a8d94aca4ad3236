%% @doc Defines metrics of the VM itself, which the scrape reads.
%%
%% `install()' defines all of them. The table in the README describes each value and the cost of
%% reading it. The library reads nothing between scrapes. With the flag `+Mea min' the VM knows
%% less of its memory, and those values are absent.
-module(whittle_counters_vm).

-export([install/0, definitions/0]).

%% @doc Defines the VM's metrics. It turns microstate accounting on, which costs the schedulers
%% about a percent.
-spec install() -> ok | {error, whittle_counters:reason()}.
install() ->
    _ = erlang:system_flag(microstate_accounting, true),
    _ = erlang:system_flag(scheduler_wall_time, true),
    define(definitions()).

define([]) -> ok;
define([{Name, Type, Options} | More]) ->
    case whittle_counters:new(Name, Type, Options) of
        ok -> define(More);
        {error, _} = Error -> Error
    end.

%% @doc Gives the metrics with their help, labels and the funs that read them.
-spec definitions() -> [{atom(), whittle_counters:type(), whittle_counters:options()}].
definitions() ->
    [metric(erlang_vm_memory_bytes, gauge, "Memory by kind of use", [kind], "bytes",
            fun() -> memory() end),
     metric(erlang_vm_allocator_carriers_bytes, gauge, "Carriers of an allocator",
            [allocator, kind], "bytes", fun() -> carriers(size) end),
     metric(erlang_vm_allocator_blocks_bytes, gauge, "Used bytes in the carriers",
            [allocator, kind], "bytes", fun() -> carriers(blocks) end),
     metric(erlang_vm_thread_seconds_total, counter, "Time of threads by state",
            [thread, state], "seconds", fun() -> accounting() end),
     metric(erlang_vm_scheduler_utilisation_ratio, gauge,
            "Part of the time since the start in which schedulers were busy", [scheduler], "ratio",
            fun() -> utilisation() end),
     metric(erlang_vm_run_queue_length, gauge, "Processes and ports that are ready to run",
            [scheduler], "", fun() -> run_queues() end),
     metric(erlang_vm_garbage_collections_total, counter, "Garbage collections", [], "",
            fun() -> element(1, erlang:statistics(garbage_collection)) end),
     metric(erlang_vm_reclaimed_bytes_total, counter, "Memory that garbage collections reclaimed",
            [], "bytes",
            fun() -> element(2, erlang:statistics(garbage_collection)) * wordsize() end),
     metric(erlang_vm_reductions_total, counter, "Reductions", [], "",
            fun() -> element(1, erlang:statistics(reductions)) end),
     metric(erlang_vm_context_switches_total, counter, "Context switches", [], "",
            fun() -> element(1, erlang:statistics(context_switches)) end),
     metric(erlang_vm_io_bytes_total, counter, "Input and output of ports", [direction], "bytes",
            fun() -> io() end),
     metric(erlang_vm_objects, gauge, "Number of objects by kind", [kind], "",
            fun() -> [{[K], erlang:system_info(I)} || {K, I} <- objects()] end),
     metric(erlang_vm_objects_limit, gauge, "Largest number of objects by kind", [kind], "",
            fun() -> [{[K], erlang:system_info(I)} || {K, I} <- limits()] end),
     metric(erlang_vm_distribution_queue_bytes, gauge, "Bytes that wait in the driver for a node",
            [node], "bytes", fun() -> distribution() end),
     metric(erlang_vm_persistent_terms, gauge, "Persistent terms", [], "",
            fun() -> maps:get(count, persistent_term:info()) end),
     metric(erlang_vm_uptime_seconds, gauge, "Time since the start", [], "seconds",
            fun() -> element(1, erlang:statistics(wall_clock)) / 1000 end)].

metric(Name, Type, Help, Labels, Unit, Read) ->
    {Name, Type, #{help => Help, labels => Labels, unit => Unit, read => Read}}.

memory() ->
    try [{[Kind], Bytes} || {Kind, Bytes} <- erlang:memory()]
    catch error:notsup -> []
    end.

%% Adds up the instances of an allocator, with separate sums for singleblock and multiblock
%% carriers.
carriers(What) ->
    Sizes = [{A, Info} || A <- erlang:system_info(alloc_util_allocators),
                          Info <- [erlang:system_info({allocator_sizes, A})], is_list(Info)],
    [{[A, Kind], lists:sum([sum(What, proplists:get_value(Key, Props, []))
                            || {instance, _, Props} <- Info])}
     || {A, Info} <- Sizes, {Kind, Key} <- [{multiblock, mbcs}, {singleblock, sbcs}]].

sum(size, Props) -> current(lists:keyfind(carriers_size, 1, Props));
sum(blocks, Props) ->
    %% Since OTP 23 there is one list for each type of block.
    lists:sum([current(lists:keyfind(size, 1, Type))
               || {_, Type} <- proplists:get_value(blocks, Props, []), is_list(Type)]).

current(false) -> 0;
current(Tuple) -> element(2, Tuple).

accounting() ->
    case erlang:statistics(microstate_accounting) of
        undefined -> [];
        Threads ->
            Sums = lists:foldl(
                     fun(#{type := Type, counters := Counters}, Acc) ->
                             maps:fold(fun(State, N, A) ->
                                               maps:update_with([Type, State], fun(M) -> M + N end,
                                                                N, A)
                                       end, Acc, Counters)
                     end, #{}, Threads),
            %% The unit of these counters belongs to the VM.
            Unit = erlang:convert_time_unit(1, second, perf_counter),
            [{Labels, N / Unit} || {Labels, N} <- lists:sort(maps:to_list(Sums))]
    end.

utilisation() ->
    case erlang:statistics(scheduler_wall_time) of
        undefined -> [];
        Times -> [{[Id], Active / max(1, Total)} || {Id, Active, Total} <- lists:sort(Times)]
    end.

run_queues() ->
    Lengths = erlang:statistics(run_queue_lengths),
    [{[Id], N} || {Id, N} <- lists:zip(lists:seq(1, length(Lengths)), Lengths)].

io() ->
    {{input, In}, {output, Out}} = erlang:statistics(io),
    [{[in], In}, {[out], Out}].

objects() ->
    [{process, process_count}, {port, port_count}, {ets, ets_count}, {atom, atom_count}].

limits() ->
    [{process, process_limit}, {port, port_limit}, {ets, ets_limit}, {atom, atom_limit}].

distribution() ->
    [{[Node], Bytes} || {Node, Port} <- erlang:system_info(dist_ctrl), is_port(Port),
                        {queue_size, Bytes} <- [erlang:port_info(Port, queue_size)]].

wordsize() -> erlang:system_info(wordsize).
