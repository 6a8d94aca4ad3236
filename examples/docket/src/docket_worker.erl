%% @doc Runs a function that could wait forever: for a lock of a node that is cut off, or for a
%% database that restarts after a partition.
%% @hidden
-module(docket_worker).

-export([run/3]).

%% @doc Runs a function in a process of its own. The process is killed after the given time in
%% milliseconds, or when the watched process ends. `stopped' has the reason of that end (`noproc' if
%% there was no such process), and `failed' the reason of the function's own exit.
-spec run(fun(() -> Result), pos_integer(), Watched :: atom()) ->
          {done, Result} | {failed, Reason :: term()} | {stopped, timeout | term()}.
run(Fun, Milliseconds, Watched) ->
    Monitor = monitor(process, Watched),
    {Worker, Ended} = spawn_monitor(fun() -> exit({?MODULE, Fun()}) end),
    Result = receive
                 {'DOWN', Ended, process, Worker, Reason} -> ended(Reason);
                 {'DOWN', Monitor, process, _, Reason} -> stopped(Worker, Ended, Reason)
             after Milliseconds -> stopped(Worker, Ended, timeout)
             end,
    true = demonitor(Monitor, [flush]),
    Result.

%% It may have ended in the last moment.
stopped(Worker, Ended, Why) ->
    true = exit(Worker, kill),
    receive
        {'DOWN', Ended, process, Worker, killed} -> {stopped, Why};
        {'DOWN', Ended, process, Worker, Reason} -> ended(Reason)
    end.

ended({?MODULE, Result}) -> {done, Result};
%% The watched process may end its activities before this hears of its end.
ended(shutdown) -> {stopped, shutdown};
ended(Reason) -> {failed, Reason}.
