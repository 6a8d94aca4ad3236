%% @doc Knows the steps that wait for an answer now.
%%
%% When the run ends, such a step counts as a latency with the time that it has waited. Its answer
%% would have taken at least as long. In a paced loop, the step also counts for each round that
%% should have begun since then. Without this, a server that stalls until the end would look fast.
%% @hidden
-module(whittle_load_agent_waiting).

-export([new/0, begins/3, ends/0, count/1]).

-export_type([round/0]).

%% A round of a paced loop: the rounds that are left, this one among them; its intended start; and
%% the time between two starts. Times are monotonic nanoseconds.
-type round() :: {Left :: pos_integer() | infinity, Start :: integer(), Time :: pos_integer()}.

%% So many missed rounds of one user count at most.
-define(ROUNDS, 1000).

%% @doc Creates the table. It belongs to the caller.
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public, {write_concurrency, true}]),
    ok.

%% @doc Notes that a step of this process waits. Due is its intended start in monotonic nanoseconds.
-spec begins(binary(), Due :: integer(), round() | none) -> ok.
begins(Step, Due, Round) ->
    true = ets:insert(?MODULE, {self(), Step, Due, Round}),
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
    _ = [whittle_load_agent_tally:unanswered(Step, max(0, Now - At))
         || {Process, _, _, _} <- ets:tab2list(?MODULE),
            {_, Step, Due, Round} <- ets:take(?MODULE, Process), At <- [Due | missed(Round, Now)]],
    ok.

%% The intended starts of the rounds after this one
missed(none, _) -> [];
missed({_, Start, _}, Now) when Start > Now -> [];
missed({Left, Start, Time}, Now) ->
    Most = case Left of
               infinity -> ?ROUNDS;
               _ -> min(?ROUNDS, Left - 1)
           end,
    [Start + N * Time || N <- lists:seq(1, min(Most, (Now - Start) div Time))].
