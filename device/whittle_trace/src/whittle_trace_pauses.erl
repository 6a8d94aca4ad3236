%% @doc Counts the pauses of processes by garbage collections, for the studies of `whittle measure'.
%%
%% A study gives a VM the flags `-pa' and `-s code ensure_modules_loaded' with this module's name,
%% and the variable `WHITTLE_PAUSES' with the name of a file. The VM then traces the garbage
%% collections of all processes (`garbage_collection' of erlang:trace/3). A process of this module
%% counts the pauses by their lengths, and writes the counts to the file five times a second.
%%
%% A pause begins when the collection of a process begins, and ends when it ends. If the collection
%% runs on a dirty scheduler, the pause contains the wait for that scheduler. Collections before the
%% end of the boot script are not counted.
%%
%% This module calls only preloaded functions and functions in C, so that it runs also in a system
%% with few modules.
-module(whittle_trace_pauses).

-on_load(start/0).

-export([bucket/1]).

%% The milliseconds between two writes.
-define(INTERVAL_MS, 200).
%% Each power of two has so many buckets, as a power of two. The middle of a bucket differs by 0.8 %
%% or less from each of its values.
-define(SUB_BITS, 6).

-spec start() -> ok.
start() ->
    case os:getenv("WHITTLE_PAUSES") of
        false -> ok;
        File ->
            %% A VM that this one starts inherits the variables, and must not replace the file.
            _ = os:unsetenv("WHITTLE_PAUSES"),
            %% The messages of many processes wait here, so they are not on the counter's heap.
            _ = spawn_opt(fun() -> count(File) end, [{priority, high},
                                                     {message_queue_data, off_heap}]),
            ok
    end.

count(File) ->
    _ = erlang:trace(all, true, [garbage_collection, monotonic_timestamp]),
    write(File, #{}, 0),
    loop(File, #{}, #{}, 0).

loop(File, Begun, Counts, Longest) ->
    receive
        {trace_ts, Pid, Begin, _, At} when Begin =:= gc_minor_start; Begin =:= gc_major_start ->
            loop(File, Begun#{Pid => At}, Counts, Longest);
        {trace_ts, Pid, End, _, At} when End =:= gc_minor_end; End =:= gc_major_end ->
            case Begun of
                #{Pid := Since} ->
                    Time = erlang:convert_time_unit(At - Since, native, nanosecond),
                    Bucket = bucket(Time),
                    New = case Counts of
                              #{Bucket := Count} -> Counts#{Bucket := Count + 1};
                              _ -> Counts#{Bucket => 1}
                          end,
                    loop(File, maps:remove(Pid, Begun), New, max(Time, Longest));
                _ -> loop(File, Begun, Counts, Longest)
            end;
        {timeout, _, write} ->
            write(File, Counts, Longest),
            loop(File, Begun, Counts, Longest);
        _ ->
            loop(File, Begun, Counts, Longest)
    end.

%% Another program may read the file at any moment, so it is always whole. If the disk is full, the
%% counts of the last write stay.
write(File, Counts, Longest) ->
    New = File ++ ".new",
    _ = case prim_file:write_file(New, term_to_binary({pauses, Longest, maps:to_list(Counts)})) of
            ok -> prim_file:rename(New, File);
            {error, _} -> prim_file:delete(New)
        end,
    _ = erlang:start_timer(?INTERVAL_MS, self(), write),
    ok.

%% @doc Returns the middle of the bucket of a time in nanoseconds.
-spec bucket(non_neg_integer()) -> non_neg_integer().
bucket(Time) -> bucket(Time, 0).

bucket(Time, Shift) when Time bsr Shift >= 1 bsl (?SUB_BITS + 1) -> bucket(Time, Shift + 1);
bucket(Time, 0) -> Time;
bucket(Time, Shift) -> ((Time bsr Shift) bsl Shift) + (1 bsl (Shift - 1)).
