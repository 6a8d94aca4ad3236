%% @doc Reads the memory, CPU time and wake-ups of a program and of the programs that it started,
%% from /proc.
-module(whittle_measure_process).

-export([largest/1, memory/1, peak/1, work/1, cpu_apart/1, is_running/1, cpu_of_ended/0]).

-export_type([memory/0, work/0]).

%% Bytes, summed over the processes (proc(5), `smaps_rollup'). Of a process that emulates another
%% processor, only the memory of the emulated program counts (whittle_measure_mappings).
-type memory() ::
        #{rss := non_neg_integer(),
          pss := non_neg_integer(),             % a page that n processes share counts one n-th
          anonymous := non_neg_integer(),
          file := non_neg_integer()}.           % RSS less anonymous

%% Summed over the threads of the processes.
-type work() ::
        #{cpu := float(),                       % milliseconds in user and kernel mode
          wakeups := non_neg_integer()}.        % voluntary context switches

%% Milliseconds in a tick: USER_HZ is 100 on all of Linux's processors.
-define(TICK, 10).

%% The places of the process group, `cutime' and `cstime' behind the name in `stat'
-define(GROUP, 3).
-define(CHILDREN_USER, 14).
-define(CHILDREN_SYSTEM, 15).

%% Lists a process and all its descendants.
tree(Pid) ->
    [Pid | [Below || Task <- tasks(Pid), Child <- numbers(read(Task, "children")),
                     Below <- tree(Child)]].

%% @doc Returns the memory of a process and its descendants. The sums are 0 if it has ended.
-spec memory(pos_integer()) -> memory().
memory(Pid) -> of_processes(tree(Pid)).

%% @doc Returns the process with the largest resident set among a process and its descendants. If a
%% shell or another program starts a VM, this is the VM.
-spec largest(pos_integer()) -> pos_integer().
largest(Pid) ->
    {_, Largest} = lists:max([{maps:get(rss, of_processes([Each])), Each} || Each <- tree(Pid)]),
    Largest.

%% @doc Returns the sum of the largest resident sets that a process and its descendants ever had, in
%% bytes (`VmHWM' of proc(5)). The processes may have had them at different times. For an emulated
%% program the kernel's number contains the emulator, so the sum has its present resident set.
-spec peak(pos_integer()) -> non_neg_integer().
peak(Pid) -> lists:sum([peak_of(Each) || Each <- tree(Pid)]).

peak_of(Pid) ->
    case whittle_measure_mappings:emulator(Pid) of
        none -> 1024 * field("VmHWM", read(["/proc/", integer_to_list(Pid)], "status"));
        Emulator -> maps:get(rss, of_emulated(Pid, Emulator))
    end.

of_processes(Pids) ->
    Each = [of_process(Pid) || Pid <- Pids],
    Sum = fun(Field) -> lists:sum([maps:get(Field, Memory) || Memory <- Each]) end,
    Rss = Sum(rss),
    Anonymous = Sum(anonymous),
    #{rss => Rss, pss => Sum(pss), anonymous => Anonymous, file => max(0, Rss - Anonymous)}.

%% The kernel adds up the mappings of a process, but not those of a part of it.
of_process(Pid) ->
    case whittle_measure_mappings:emulator(Pid) of
        none ->
            Text = read(["/proc/", integer_to_list(Pid)], "smaps_rollup"),
            #{rss => 1024 * field("Rss", Text), pss => 1024 * field("Pss", Text),
              anonymous => 1024 * field("Anonymous", Text)};
        Emulator -> of_emulated(Pid, Emulator)
    end.

of_emulated(Pid, Emulator) ->
    Mappings = case whittle_measure_mappings:read(Pid, Emulator) of
                   {ok, #{mappings := Read}} -> Read;
                   {error, _} -> []
               end,
    maps:from_list([{Field, lists:sum([maps:get(Field, Mapping) || Mapping <- Mappings])}
                    || Field <- [rss, pss, anonymous]]).

%% @doc Returns the work of a process and its descendants since their start.
-spec work(pos_integer()) -> work().
work(Pid) ->
    Tasks = [Task || Each <- tree(Pid), Task <- tasks(Each)],
    %% An idle thread works for less than a millisecond in many seconds, so the sum is in
    %% nanoseconds.
    #{cpu => cpu(Tasks),
      wakeups => lists:sum([field("voluntary_ctxt_switches", read(Task, "status"))
                            || Task <- Tasks])}.

%% @doc Returns the CPU times in milliseconds of those descendants that are not in the process group
%% of the given process. They go on when that group is killed, and then their times never get to
%% this VM ({@link cpu_of_ended/0}).
-spec cpu_apart(pos_integer()) -> [{Pid :: pos_integer(), non_neg_integer()}].
cpu_apart(Leader) ->
    [{Pid, round(cpu(tasks(Pid))) + of_children(Pid)} || Pid <- tree(Leader),
                                                         group(Pid) =/= Leader].

%% @doc Tells whether a process has not ended.
-spec is_running(pos_integer()) -> boolean().
is_running(Pid) -> fields(Pid) =/= [].

group(Pid) ->
    case fields(Pid) of
        Fields when length(Fields) > ?GROUP -> binary_to_integer(lists:nth(?GROUP, Fields));
        _ -> Pid
    end.

%% @doc Returns the CPU time in milliseconds of all programs that this VM has started and that have
%% ended, with their descendants. The VM's own child starts them, and the kernel adds their times to
%% those of this child (`cutime' and `cstime' of proc(5), in ticks).
-spec cpu_of_ended() -> non_neg_integer().
cpu_of_ended() ->
    Pid = list_to_integer(os:getpid()),
    lists:sum([of_children(Child) || Task <- tasks(Pid), Child <- numbers(read(Task, "children"))]).

of_children(Pid) ->
    case fields(Pid) of
        Fields when length(Fields) > ?CHILDREN_SYSTEM ->
            ?TICK * (binary_to_integer(lists:nth(?CHILDREN_USER, Fields))
                     + binary_to_integer(lists:nth(?CHILDREN_SYSTEM, Fields)));
        _ -> 0
    end.

%% The name of the program, in parentheses, may contain spaces and parentheses.
fields(Pid) ->
    Text = read(["/proc/", integer_to_list(Pid)], "stat"),
    binary:split(lists:last(binary:split(Text, <<")">>, [global])), <<" ">>, [global, trim_all]).

%% The milliseconds of tasks
cpu(Tasks) -> lists:sum([nanoseconds(read(Task, "schedstat")) || Task <- Tasks]) / 1.0e6.

%% The first number of `schedstat' is the time on a CPU.
nanoseconds(Text) ->
    case numbers(Text) of
        [Nanoseconds | _] -> Nanoseconds;
        [] -> 0
    end.

%% The directories of the threads of a process.
tasks(Pid) ->
    Dir = ["/proc/", integer_to_list(Pid), "/task"],
    case file:list_dir(Dir) of
        {ok, Names} -> [[Dir, $/, Name] || Name <- Names];
        {error, _} -> []
    end.

%% A process may end at any time. Its files are empty then.
read(Dir, Name) ->
    case file:read_file([Dir, $/, Name]) of
        {ok, Bytes} -> Bytes;
        {error, _} -> <<>>
    end.

numbers(Text) ->
    [binary_to_integer(Word)
     || Word <- binary:split(Text, [<<" ">>, <<"\n">>], [global, trim_all])].

field(Name, Text) ->
    case re:run(Text, ["(?m)^", Name, ":\\s+(\\d+)"], [{capture, all_but_first, binary}]) of
        {match, [Number]} -> binary_to_integer(Number);
        nomatch -> 0
    end.
