%% @doc Has a module that is cold as a whole said of when it is called for the first time.
%%
%% A companion is loaded by `whittle_start_cold', which says so. A module of which nothing is hot
%% is loaded by the code server, because the VM has `error_handler' see to what is called and not
%% there: so that one asks `whittle_start_cold:called/3' first. It stays the module that it was:
%% its MD5 and what `module_info' tells are the same.
-module(whittle_shake_watch).

-export([error_handler/1]).

%% @doc The module with the question at the head of the functions that load.
-spec error_handler(whittle_beam_module:t()) -> whittle_beam_module:t().
error_handler(#{module := Module, functions := Functions, form := #{chunks := Chunks}} = Value) ->
    whittle_beam_module:set_identity(
      whittle_beam:identity(Chunks), Module,
      Value#{functions := [case Function of
                               #{name := F, arity := 3, code := Code}
                                 when F =:= undefined_function; F =:= undefined_lambda ->
                                   Function#{code := asking(Function) ++ Code};
                               _ -> Function
                           end || Function <- Functions]}).

%% Internal

%% The three arguments are kept over the call. Who is to answer may not be there: in a VM that
%% was given another boot script.
asking(#{entry := Entry, info := Info, code := Code}) ->
    Absent = 1 + lists:max([Entry, Info | [Label || {label, [Label]} <- Code]]),
    Arguments = [{{x, N}, {y, N}} || N <- [0, 1, 2]],
    [{allocate, [3, 3]}]
        ++ [{move, [X, Y]} || {X, Y} <- Arguments]
        ++ [{move, [{atom, Atom}, {x, N}]} || {N, Atom} <- [{0, whittle_start_cold}, {1, called}]]
        ++ [{move, [{integer, 3}, {x, 2}]},
            {call_ext, [3, {extfunc, erlang, function_exported, 3}]},
            {is_eq_exact, [{f, Absent}, {x, 0}, {atom, true}]}]
        ++ [{move, [Y, X]} || {X, Y} <- Arguments]
        ++ [{call_ext, [3, {extfunc, whittle_start_cold, called, 3}]},
            {label, [Absent]}]
        ++ [{move, [Y, X]} || {X, Y} <- Arguments]
        ++ [{deallocate, [3]}].
