%% @doc Says how a single case of docket behaves: a register that compares and sets.
%%
%% A case has a version and a title. A change names the version that its author has seen, and makes
%% the next one. A removed case never comes back. Each operation is a pair of an input and a result
%% of module history.
-module(case_register).
-behaviour(linearizable).

-export([initial/0, step/2, is_read/1, timed/1]).

-type operation() :: {history:input(), history:result()}.

%% @doc Returns the state before the create.
-spec initial() -> history:state().
initial() -> absent.

%% @doc Does one operation, if its result fits.
-spec step(operation(), history:state()) -> {ok, history:state()} | impossible.
step({Input, {ok, Next}}, State) ->
    case {is_read(Input), effect(Input, State)} of
        {true, _} when Next =:= State -> {ok, State};
        {false, {ok, Next}} -> {ok, Next};
        _ -> impossible
    end;
step({Input, {refused, State}}, State) ->
    case effect(Input, State) of
        refused -> {ok, State};
        _ -> impossible
    end;
step({_, {refused, _}}, _) -> impossible;
step({Input, {unknown, _}}, State) ->
    case effect(Input, State) of
        {ok, _} = Done -> Done;
        _ -> impossible
    end.

effect({create, Title}, absent) -> {ok, {1, Title}};
effect({change, From, Title}, {From, _}) -> {ok, {From + 1, Title}};
effect({remove, From}, {From, _}) -> {ok, absent};
effect(_, _) -> refused.

%% @doc Tells whether an operation only shows the state.
-spec is_read(operation() | history:input()) -> boolean().
is_read({_, {refused, _}}) -> true;
is_read({Input, {_, _}}) -> is_read(Input);
is_read(Input) -> Input =:= read orelse Input =:= final.

%% @doc Gives the operations that matter for the order: those that have done something, may have
%% done something, or have seen something.
-spec timed([history:operation()]) -> [linearizable:timed(operation())].
timed(Operations) ->
    [{Call, Return, {Input, Result}}
     || #{input := Input, result := {Kind, _} = Result, call := Call, return := Return}
            <- Operations,
        Kind =/= failed, Kind =/= unknown orelse not is_read(Input)].
