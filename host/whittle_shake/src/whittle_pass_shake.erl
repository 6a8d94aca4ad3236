%% @doc Puts the functions that the program cannot reach aside, or takes them out: carries out
%% the plan that {@link whittle_shake:plan/2} made of the same system.
-module(whittle_pass_shake).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> shake.

%% @private
-spec doc() -> string().
doc() -> "what the program can reach; the rest is cold, or gone".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, #{shake := Plan}) ->
    Done = whittle_shake:carry_out(Plan, System),
    {ok, lists:foldl(fun whittle_system:note/2, Done,
                     whittle_shake:notes(Plan) ++ whittle_shake:load_notes(Plan, System, Done))}.
