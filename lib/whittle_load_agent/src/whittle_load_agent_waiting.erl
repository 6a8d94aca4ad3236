%% @doc Knows the steps that wait for an answer now.
%%
%% When the run ends, such a step counts as a latency with the time that it has waited. Its answer
%% would have taken at least as long. In paced loops, each round that should have begun since then
%% counts too, for the first step of the loop that waits for an answer. Without this, a server that
%% stalls until the end would look fast.
%% @hidden
-module(whittle_load_agent_waiting).

-export([new/0, begins/3, ends/0, count/1]).

-export_type([round/0]).

%% A round of a paced loop: the rounds that are left, this one among them; its intended start; the
%% time between two starts; and the first step of the loop that has waited for an answer. Times are
%% monotonic nanoseconds.
-type round() :: {Left :: pos_integer() | infinity, Start :: integer(), Time :: pos_integer(),
                  Step :: binary() | none}.

%% So many missed rounds of one loop count at most.
-define(ROUNDS, 1000).

%% @doc Creates the table. It belongs to the caller.
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public, {write_concurrency, true}]),
    ok.

%% @doc Notes that a step of this process waits. Due is its intended start in monotonic nanoseconds.
%% The rounds are those of the paced loops around the step, innermost first.
-spec begins(binary(), Due :: integer(), [round()]) -> ok.
begins(Step, Due, Rounds) ->
    true = ets:insert(?MODULE, {self(), Step, Due, Rounds}),
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
    _ = [whittle_load_agent_tally:unanswered(Name, max(0, Now - At))
         || {Process, _, _, _} <- ets:tab2list(?MODULE),
            {_, Step, Due, Rounds} <- ets:take(?MODULE, Process),
            {Name, At} <- [{Step, Due} | missed(Step, Rounds, Now)]],
    ok.

%% The rounds that should have begun, each with its step and its intended start. Outside an endless
%% loop, no further round begins.
missed(_, [], _) -> [];
missed(Waits, [{Left, Start, Time, First} | Outer], Now) ->
    Most = case Left of
               infinity -> ?ROUNDS;
               _ -> min(?ROUNDS, Left - 1)
           end,
    Step = case First of none -> Waits; _ -> First end,
    [{Step, Start + N * Time} || N <- lists:seq(1, min(Most, max(0, Now - Start) div Time))]
        ++ case Left of
               infinity -> [];
               _ -> missed(Waits, Outer, Now)
           end.
