%% @doc Watches the machine while a program runs: other work, stolen time, pressure, frequency.
%%
%% The numbers come from /proc/stat, /proc/pressure, /proc/vmstat and cpufreq (proc(5) and the
%% kernel's `accounting/psi'). A kernel without one of them gives no number for it. A fixed piece of
%% work that this VM runs before each sample shows how fast the machine is at that moment.
-module(whittle_measure_machine).

-export([look/0, between/3, pace/0, facts/0, is_same/2]).

-export_type([look/0, load/0]).

-opaque look() :: #{atom() => number()}.

%% Milliseconds in a tick of /proc/stat: USER_HZ is 100 on all of Linux's processors.
-define(TICK, 10).

-define(PACES, 11).

%% The kernel reports a few pages more or less of the same memory after a restart.
-define(SAME_MEMORY, 0.05).

%% The load between two looks.
-type load() ::
        #{busy := float(),                      % share of all CPUs that worked, of 1
          %% Share of all CPUs that other programs used: neither this VM nor those that it started
          others := float(),
          steal := float(),                     % share that the hypervisor took, of 1
          cpu_wait => float(),                  % share of the time in which a task waited for a
          io_wait => float(),                   % CPU, for a disk, for memory (PSI, some)
          memory_wait => float(),
          major_faults => number(),             % pages that were read from a disk
          frequency => number()}.               % MHz, mean over the CPUs, at the second look

%% @doc Reads the counters.
-spec look() -> look().
look() ->
    maps:from_list(
      [{at, erlang:monotonic_time(microsecond)},
       {own, element(1, erlang:statistics(runtime)) + whittle_measure_process:cpu_of_ended()}]
      ++ times() ++ pressure() ++ faults() ++ frequency()).

%% @doc Returns the load between two looks. The programs that this VM starts after the first look
%% must have ended before the second one. `OwnApart' is the CPU time in milliseconds of those that
%% still run.
-spec between(look(), look(), OwnApart :: non_neg_integer()) -> load().
between(#{at := Start} = One, #{at := End} = Other, OwnApart) ->
    Grown = fun(Key) -> maps:get(Key, Other, 0) - maps:get(Key, One, 0) end,
    All = max(1, Grown(all)),
    Busy = All - Grown(idle) - Grown(steal),
    Elapsed = max(1, End - Start),
    maps:merge(
      #{busy => rounded(Busy / All),
        others => rounded(max(0, Busy - (Grown(own) + OwnApart) / ?TICK) / All),
        steal => rounded(Grown(steal) / All)},
      maps:from_list(
        [{Key, rounded(Grown(Key) / Elapsed)}
         || Key <- [cpu_wait, io_wait, memory_wait], is_map_key(Key, Other)]
        ++ [{major_faults, Grown(major_faults)} || is_map_key(major_faults, Other)]
        ++ [{frequency, maps:get(frequency, Other)} || is_map_key(frequency, Other)])).

rounded(Share) -> round(Share * 10_000) / 10_000.

%% @doc Runs a fixed piece of work of about 2 ms several times, and returns the least of the times
%% in microseconds. The others depend on the processor's caches and on its sleep before: behind a
%% program that waits, the median of the times varied by 53 % on a machine that did nothing else.
-spec pace() -> pos_integer().
pace() ->
    max(1, lists:min([timed() || _ <- lists:seq(1, ?PACES)])).

timed() ->
    Start = erlang:monotonic_time(microsecond),
    _ = hashed(50_000, 0),
    erlang:monotonic_time(microsecond) - Start.

hashed(0, Hash) -> Hash;
hashed(N, Hash) -> hashed(N - 1, erlang:phash2({N, Hash})).

%% @doc Describes the machine, for the foot of a page.
-spec facts() -> #{cpu := binary(), cpus := pos_integer(), memory := non_neg_integer(),
                   kernel := binary()}.
facts() ->
    #{cpu => match("/proc/cpuinfo", "(?m)^model name\\s*: *(.*)$", <<"unknown">>),
      cpus => erlang:system_info(logical_processors_available),
      memory => 1024 * binary_to_integer(match("/proc/meminfo", "(?m)^MemTotal: *(\\d+)", <<"0">>)),
      kernel => match("/proc/sys/kernel/osrelease", "^(.*)$", <<"unknown">>)}.

%% @doc Tells whether the facts of two runs, as `study.json' has them, are of machines of one kind.
-spec is_same(#{binary() => term()}, #{binary() => term()}) -> boolean().
is_same(#{<<"cpu">> := Cpu, <<"cpus">> := Count, <<"memory">> := One},
        #{<<"cpu">> := Cpu, <<"cpus">> := Count, <<"memory">> := Other}) ->
    abs(One - Other) =< ?SAME_MEMORY * max(One, Other);
is_same(_, _) -> false.

%% Internal functions: the counters

%% The order of the columns is user, nice, system, idle, iowait, irq, softirq, steal. The columns
%% after these repeat time that `user' and `nice' contain.
times() ->
    case lines("/proc/stat") of
        [<<"cpu ", Columns/binary>> | _] ->
            [User, Nice, System, Idle, Wait, Irq, Soft, Steal | _] = numbers(Columns),
            [{all, User + Nice + System + Idle + Wait + Irq + Soft + Steal},
             {idle, Idle + Wait}, {steal, Steal}];
        _ -> []
    end.

pressure() ->
    [{Key, binary_to_integer(Total)}
     || {Key, File} <- [{cpu_wait, "cpu"}, {io_wait, "io"}, {memory_wait, "memory"}],
        Total <- [match(["/proc/pressure/", File], "^some .*total=(\\d+)", none)], Total =/= none].

faults() ->
    [{major_faults, binary_to_integer(Number)}
     || Number <- [match("/proc/vmstat", "(?m)^pgmajfault (\\d+)", none)], Number =/= none].

frequency() ->
    case [Kilohertz || File <- filelib:wildcard("/sys/devices/system/cpu/cpu*/cpufreq/"
                                                "scaling_cur_freq"),
                       [Kilohertz] <- [[N || Line <- lines(File), N <- numbers(Line)]]] of
        [] -> [];
        Each -> [{frequency, lists:sum(Each) div length(Each) div 1000}]
    end.

match(File, Pattern, Default) ->
    case re:run(iolist_to_binary(lists:join($\n, lines(File))), Pattern,
                [{capture, all_but_first, binary}]) of
        {match, [Text]} -> Text;
        nomatch -> Default
    end.

lines(File) ->
    case file:read_file(File) of
        {ok, Bytes} -> binary:split(Bytes, <<"\n">>, [global, trim]);
        {error, _} -> []
    end.

numbers(Text) ->
    [binary_to_integer(Word) || Word <- binary:split(Text, <<" ">>, [global, trim_all])].
