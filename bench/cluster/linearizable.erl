%% @doc Decides whether a history of concurrent operations is linearizable.
%%
%% A history is linearizable if each operation can take effect at one moment between its call and
%% its return, so that all results are those of a single object that does one operation after
%% another (Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects",
%% TOPLAS 1990). An operation without a return may take effect at any moment after its call, or
%% never.
%%
%% The search is that of Wing and Gong ("Testing and verifying concurrent objects", Journal of
%% Parallel and Distributed Computing 17, 1993): it takes each operation that no other one must
%% precede, tries it on the object, and goes on with the rest. It remembers, as Lowe proposes
%% ("Testing for linearizability", Concurrency and Computation 29(4), 2017), each pair of the set of
%% operations that took effect and the state of the object, and tries no pair twice. Reads need no
%% choice: a read that fits the state may take effect at once, because it changes nothing for the
%% others.
-module(linearizable).

-export([check/3]).

-export_type([timed/1, outcome/0]).

-type timed(Operation) :: {Call :: integer(), Return :: integer() | infinity, Operation}.

%% `stuck' has the operations that could come next in the longest order that was found, and of
%% which none fits. `unclear': the search has tried as many pairs as it may.
-type outcome() :: linearizable | {not_linearizable, Stuck :: [term()]} | unclear.

%% The object that the history is about.
-callback initial() -> State :: term().
%% Does one operation. `impossible': its result does not fit the state.
-callback step(Operation :: term(), State :: term()) -> {ok, State :: term()} | impossible.
%% Tells whether an operation never changes the state.
-callback is_read(Operation :: term()) -> boolean().

-record(search, {model :: module(),
                 most :: pos_integer(),
                 seen = #{} :: #{{non_neg_integer(), term()} => []},
                 %% The fewest operations that were left, and those that could come next then.
                 best = {infinity, []} :: {non_neg_integer() | infinity, [term()]}}).

%% @doc Searches for an order that explains all results. Most bounds how many pairs it tries.
-spec check(module(), [timed(term())], Most :: pos_integer()) -> outcome().
check(Model, Timed, Most) ->
    Sorted = lists:sort(fun({One, _, _}, {Other, _, _}) -> One =< Other end, Timed),
    Rest = [{1 bsl Place, Call, Return, Operation}
            || {Place, {Call, Return, Operation}}
                   <- lists:zip(lists:seq(0, length(Sorted) - 1), Sorted)],
    try search(Rest, 0, Model:initial(), #search{model = Model, most = Most}) of
        found -> linearizable;
        #search{best = {_, Stuck}} -> {not_linearizable, Stuck}
    catch throw:unclear -> unclear
    end.

%% Rest has the operations that have not taken effect, in the order of their calls. Done has a bit
%% for each one that has.
search(Rest0, Done0, State, #search{model = Model} = Search) ->
    {Rest, Done} = take_reads(Rest0, Done0, State, Model),
    case length([must || {_, _, Return, _} <- Rest, Return =/= infinity]) of
        0 -> found;
        Left -> visit(Left, Rest, Done, State, Search)
    end.

visit(_, _, Done, State, #search{seen = Seen} = Search) when is_map_key({Done, State}, Seen) ->
    Search;
visit(_, _, _, _, #search{seen = Seen, most = Most}) when map_size(Seen) >= Most -> throw(unclear);
visit(Left, Rest, Done, State, #search{seen = Seen, best = {Fewest, _} = Best} = Search) ->
    Next = candidates(Rest),
    attempt(Next, Rest, Done, State,
            Search#search{seen = Seen#{{Done, State} => []},
                          best = case Left < Fewest of
                                     true -> {Left, [Operation || {_, _, _, Operation} <- Next]};
                                     false -> Best
                                 end}).

attempt([], _, _, _, Search) -> Search;
attempt([{Bit, _, _, Operation} | Others], Rest, Done, State, #search{model = Model} = Search) ->
    case Model:step(Operation, State) of
        impossible -> attempt(Others, Rest, Done, State, Search);
        {ok, Next} ->
            case search(lists:keydelete(Bit, 1, Rest), Done bor Bit, Next, Search) of
                found -> found;
                Search1 -> attempt(Others, Rest, Done, State, Search1)
            end
    end.

%% The operations that may come next: none of the others has returned before they were called. Those
%% that return first come first, because they fit most often.
candidates(Rest) ->
    %% A number is less than an atom.
    lists:keysort(3, window(Rest, infinity)).

window([{_, Call, Return, _} = First | Others], Horizon) when Call =< Horizon ->
    [First | window(Others, min(Return, Horizon))];
window(_, _) -> [].

%% Lets all reads take effect that may come next and fit the state. Then others may come next.
take_reads(Rest, Done, State, Model) ->
    case [Bit || {Bit, _, Return, Operation} <- window(Rest, infinity), Return =/= infinity,
                 Model:is_read(Operation), Model:step(Operation, State) =/= impossible] of
        [] -> {Rest, Done};
        Bits ->
            Taken = lists:sum(Bits),
            take_reads([Each || {Bit, _, _, _} = Each <- Rest, Bit band Taken =:= 0],
                       Done bor Taken, State, Model)
    end.
