%% @doc Knows the steps that wait for an answer now.
%%
%% When the run ends, such a step counts as a latency with the time that it has waited. Its answer
%% would have taken at least as long. Without it, a server that stalls until the end would look
%% fast.
%% @hidden
-module(whittle_load_agent_waiting).

-export([new/0, begins/2, ends/0, count/1]).

%% @doc Creates the table. It belongs to the caller.
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public, {write_concurrency, true}]),
    ok.

%% @doc Notes that a step of this process waits. Due is its intended start in monotonic nanoseconds.
-spec begins(binary(), integer()) -> ok.
begins(Step, Due) ->
    true = ets:insert(?MODULE, {self(), Step, Due}),
    ok.

%% @doc Notes that no step of this process waits any more. `counted' means that count/1 has counted
%% its step, so its latency must not count again.
-spec ends() -> ok | counted.
ends() ->
    case ets:take(?MODULE, self()) of
        [_] -> ok;
        [] -> counted
    end.

%% @doc Counts all steps that wait, at the end of a run. Now is in monotonic nanoseconds.
-spec count(integer()) -> ok.
count(Now) ->
    _ = [whittle_load_agent_tally:unanswered(Step, max(0, Now - Due))
         || {Process, _, _} <- ets:tab2list(?MODULE), {_, Step, Due} <- ets:take(?MODULE, Process)],
    ok.
