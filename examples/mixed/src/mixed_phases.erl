%% @doc The phases of mixed. Each phase builds data of one kind, checks it, and returns the bytes
%% that it held at its peak, as the VM counts them. The sizes are for a machine with 64 MB.
-module(mixed_phases).

-export([names/0, run/2]).

-export_type([name/0]).

-type name() :: processes | messages | ets | binaries | maps | timers | lists.

%% @doc The names of the phases, in the order of a round.
-spec names() -> [name(), ...].
names() -> [processes, messages, ets, binaries, maps, timers, lists].

%% @doc Runs the phase with Scale times its data, and returns the bytes that it held at its peak.
%% It must run in a process of its own that ends after it. It fails if a result is wrong.
-spec run(name(), pos_integer()) -> non_neg_integer().
run(processes, Scale) -> processes(1000 * Scale);
run(messages, Scale) -> messages(5000 * Scale);
run(ets, Scale) -> tables(10000 * Scale);
run(binaries, Scale) -> binaries(64 * Scale);
run(maps, Scale) -> dictionaries(20000 * Scale);
run(timers, Scale) -> timers(2000 * Scale);
run(lists, Scale) -> sorting(20000 * Scale).

%% Starts Count processes that live at the same time and pass a token along.
processes(Count) ->
    Self = self(),
    Start = fun(N, Next) -> spawn_link(fun() -> pass(Next, lists:seq(1, N rem 100)) end) end,
    First = lists:foldl(Start, Self, lists:seq(1, Count)),
    Held = lists:sum([Bytes || {links, Pids} <- [process_info(Self, links)], Pid <- Pids,
                               {memory, Bytes} <- [process_info(Pid, memory)]]),
    First ! {token, 0},
    receive {token, Passed} -> Passed = Count end,
    Held.

pass(Next, Kept) ->
    receive {token, N} -> Next ! {token, N + 1} end,
    length(Kept).

%% Sends Count messages of a kilobyte to a process that does not read them, and lets it read them.
messages(Count) ->
    Self = self(),
    Text = lists:seq(1, 64),
    Reader = spawn_link(fun() -> receive go -> Self ! {sum, read(Count, 0)} end end),
    lists:foreach(fun(N) -> Reader ! {N, Text} end, lists:seq(1, Count)),
    {message_queue_len, Count} = process_info(Reader, message_queue_len),
    {memory, Held} = process_info(Reader, memory),
    Reader ! go,
    Expected = Count * (Count + 1) div 2,
    receive {sum, Sum} -> Sum = Expected end,
    Held.

read(0, Sum) -> Sum;
read(Left, Sum) -> receive {N, [1 | _]} -> read(Left - 1, Sum + N) end.

%% Writes, counts, selects, and deletes rows of two tables.
tables(Count) ->
    Set = ets:new(set, [set]),
    Ordered = ets:new(ordered, [ordered_set]),
    lists:foreach(fun(N) ->
                          true = ets:insert(Set, {N, 0, <<N:256>>}),
                          true = ets:insert(Ordered, {{N rem 100, N}, [N, N]})
                  end, lists:seq(1, Count)),
    lists:foreach(fun(N) -> 2 = ets:update_counter(Set, N, 2) end, lists:seq(1, Count)),
    Some = length(lists:seq(7, Count, 100)),
    Some = length(ets:select(Ordered, [{{{7, '_'}, '_'}, [], ['$_']}])),
    Held = (ets:info(Set, memory) + ets:info(Ordered, memory)) * erlang:system_info(wordsize),
    Half = Count div 2,
    Half = ets:select_delete(Set, [{{'$1', '_', '_'}, [{'=<', '$1', Half}], [true]}]),
    true = ets:delete(Set),
    true = ets:delete(Ordered),
    Held.

%% Builds Count binaries of 64 kB, and cuts lines out of them.
binaries(Count) ->
    Line = <<"the quick brown fox jumps over the lazy dog; 0123456789 ABCDEF\n">>,
    Lines = 65536 div byte_size(Line),
    Whole = [<<N:32, (binary:copy(Line, Lines))/binary>> || N <- lists:seq(1, Count)],
    Pieces = [binary:split(Rest, <<"\n">>, [global]) || <<_:32, Rest/binary>> <- Whole],
    Words = lists:sum([words(Rest, 0) || <<_:32, Rest/binary>> <- lists:sublist(Whole, 16)]),
    Words = min(Count, 16) * Lines * 11,
    true = lists:all(fun(Cut) -> length(Cut) =:= Lines + 1 end, Pieces),
    Large = iolist_to_binary(Whole),
    byte_size(Large) + lists:sum([byte_size(Part) || Part <- Whole]).

words(<<C, Rest/binary>>, Count) when C =:= $\s; C =:= $\n -> words(Rest, Count + 1);
words(<<_, Rest/binary>>, Count) -> words(Rest, Count);
words(<<>>, Count) -> Count.

%% Fills a map, a balanced tree and the process dictionary, and looks everything up.
dictionaries(Count) ->
    Keys = lists:seq(1, Count),
    Map = lists:foldl(fun(N, M) -> M#{N => {N, [N]}} end, #{}, Keys),
    Tree = lists:foldl(fun(N, T) -> gb_trees:insert(N, N, T) end, gb_trees:empty(), Keys),
    lists:foreach(fun(N) -> undefined = put({key, N}, N) end, Keys),
    true = lists:all(fun(N) ->
                             #{N := {N, [N]}} = Map,
                             N =:= gb_trees:get(N, Tree) andalso N =:= get({key, N})
                     end, Keys),
    Few = maps:filter(fun(N, _) -> N rem 10 =:= 0 end, Map),
    Tenth = Count div 10,
    Tenth = map_size(Few),
    {memory, Held} = process_info(self(), memory),
    Held.

%% Starts Count timers, cancels half of them, and waits for the others.
timers(Count) ->
    Timers = [{N, erlang:start_timer(N rem 4, self(), N)} || N <- lists:seq(1, Count)],
    Far = [erlang:start_timer(60000, self(), N) || N <- lists:seq(1, Count)],
    {memory, Held} = process_info(self(), memory),
    lists:foreach(fun(Timer) -> true = is_integer(erlang:cancel_timer(Timer)) end, Far),
    lists:foreach(fun({N, Timer}) -> receive {timeout, Timer, N} -> ok end end, Timers),
    Held.

%% Sorts, splits, and folds lists of integers and floats.
sorting(Count) ->
    Mixed = [N * 7919 rem 100003 || N <- lists:seq(1, Count)],
    Sorted = lists:sort(Mixed),
    Sorted = lists:sort(fun(A, B) -> A =< B end, Sorted),
    Sum = lists:sum(Mixed),
    Sum = lists:foldl(fun(A, B) -> A + B end, 0, Sorted),
    Roots = [math:sqrt(N) || N <- Sorted],
    true = lists:sum(Roots) > 0,
    Groups = maps:groups_from_list(fun(N) -> N rem 10 end, Sorted),
    10 = map_size(Groups),
    {memory, Held} = process_info(self(), memory),
    Held.
