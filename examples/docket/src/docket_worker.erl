%% @doc Runs a function that could wait forever: for a lock of a node that is cut off, or for a
%% database that restarts after a partition.
%% @hidden
-module(docket_worker).

-export([run/2, run/3]).

-type result(Result) :: {done, Result} | {failed, Reason :: term()} | {stopped, timeout | term()}.

%% @doc Runs a function in a process of its own. The process is killed after the given time in
%% milliseconds. `failed' has the reason of the function's own exit.
-spec run(fun(() -> Result), pos_integer()) -> result(Result).
run(Fun, Milliseconds) ->
    %% No message has this reference.
    ended_in_time(Fun, Milliseconds, make_ref()).

%% @doc As run/2. The process is also killed when the watched process ends. `stopped' has the reason
%% of that end, `noproc' if there was no such process.
-spec run(fun(() -> Result), non_neg_integer(), Watched :: atom()) -> result(Result).
run(Fun, Milliseconds, Watched) ->
    Monitor = monitor(process, Watched),
    Result = ended_in_time(Fun, Milliseconds, Monitor),
    true = demonitor(Monitor, [flush]),
    Result.

ended_in_time(Fun, Milliseconds, Monitor) ->
    {Worker, Ended} = spawn_monitor(fun() -> exit({?MODULE, Fun()}) end),
    receive
        {'DOWN', Ended, process, Worker, Reason} -> ended(Reason);
        {'DOWN', Monitor, process, _, Reason} -> stopped(Worker, Ended, Reason)
    after Milliseconds -> stopped(Worker, Ended, timeout)
    end.

%% It may have ended in the last moment.
stopped(Worker, Ended, Why) ->
    true = exit(Worker, kill),
    receive
        {'DOWN', Ended, process, Worker, killed} -> {stopped, Why};
        {'DOWN', Ended, process, Worker, Reason} -> ended(Reason)
    end.

ended({?MODULE, Result}) -> {done, Result};
%% Mnesia ends the processes that wait for it when it ends: with the first reason those of a call or
%% a transaction, with the second those that wait for tables. This may come before the end of the
%% watched process is known here.
ended(Reason) when Reason =:= shutdown; Reason =:= mnesia_stopped -> {stopped, shutdown};
ended(Reason) -> {failed, Reason}.
