%% @hidden Makes OTP's `error_handler' call `whittle_start_cold' first.
%%
%% `whittle_start_cold' loads a companion and reports the load. The code server loads a module
%% that is cold as a whole, because the VM calls `error_handler' for a missing function. So
%% `error_handler' calls `whittle_start_cold:called/3' first, which answers `module_info' without
%% loading the module.
%%
%% If nothing is loaded later, `error_handler' raises `undef' in `whittle_start_removed', which
%% explains it.
%%
%% The module keeps its MD5 and the results of `module_info'.
-module(whittle_shake_watch).

-export([watching/1, explaining/1]).

%% @doc Puts the question before the code of the functions that ask. The result is `none' for a
%% module without such functions.
-spec watching(whittle_beam_module:t()) -> {ok, whittle_beam_module:t()} | none.
watching(#{module := Module} = Value) ->
    case questions(Module) of
        Questions when map_size(Questions) =:= 0 -> none;
        Questions ->
            Head = fun(_, Question) -> fun(Function) -> asking(Question, Function) end end,
            {ok, with_heads(maps:map(Head, Questions), Value)}
    end.

%% @doc Makes `error_handler:crash/1' continue in `whittle_start_removed:undefined/1'. The call is
%% a tail call, so the stack has the usual entries.
%%
%% `error_handler:undefined_function/3' calls a function again that `function_exported' finds. It
%% finds each BIF, also one that its module lacks, and would call that forever. So it asks
%% `whittle_start_removed:is_lost/3' first.
-spec explaining(whittle_beam_module:t()) -> whittle_beam_module:t().
explaining(#{module := error_handler} = Value) ->
    with_heads(#{{crash, 1} => fun(#{arity := A} = Function) ->
                                       To = {whittle_start_removed, undefined, 1},
                                       if_there(To, [tail_call(To, A)], Function)
                               end,
                  {undefined_function, 3} => fun lost/1}, Value).

%% Internal

%% Maps a function to the function of `whittle_start_cold' that gets its arguments.
questions(error_handler) ->
    Called = {called, 3},
    #{{undefined_function, 3} => Called, {undefined_lambda, 3} => Called};
questions(_) ->
    #{}.

%% Puts instructions before the code of functions. `Heads' makes them from the function.
with_heads(Heads, #{module := Module, functions := Functions,
                    form := #{chunks := Chunks}} = Value) ->
    Changed = [case Heads of
                   #{{F, A} := Head} -> Function#{code := Head(Function) ++ Code};
                   #{} -> Function
               end || #{name := F, arity := A, code := Code} = Function <- Functions],
    whittle_beam_module:set_identity(whittle_beam:identity(Chunks), Module,
                                     Value#{functions := Changed}).

%% A list of one element is the answer.
asking({Name, Arity}, #{arity := A} = Function) ->
    To = {whittle_start_cold, Name, Arity},
    Absent = absent(Function),
    if_there(To,
             [{call_ext, [Arity, extfunc(To)]},
              {is_nonempty_list, [{f, Absent}, {x, 0}]},
              {get_hd, [{x, 0}, {x, 0}]},
              {deallocate, [A]},
              {return, []}],
             Function).

lost(#{arity := A} = Function) ->
    Question = {whittle_start_removed, is_lost, A},
    if_there(Question,
             [{call_ext, [A, extfunc(Question)]},
              {is_eq_exact, [{f, absent(Function)}, {x, 0}, {atom, true}]}]
             ++ [{move, [{y, N}, {x, N}]} || N <- lists:seq(0, A - 1)]
             ++ [tail_call({whittle_start_removed, undefined, A}, A)],
             Function).

%% The code keeps the function's arguments over the calls. The called module may be missing, in a
%% VM with another boot script.
if_there({M, F, Arity}, Then, #{arity := A} = Function) ->
    Absent = absent(Function),
    Kept = [{{x, N}, {y, N}} || N <- lists:seq(0, A - 1)],
    Back = [{move, [Y, X]} || {X, Y} <- Kept],
    [{allocate, [A, A]}]
        ++ [{move, [X, Y]} || {X, Y} <- Kept]
        ++ [{move, [{atom, M}, {x, 0}]}, {move, [{atom, F}, {x, 1}]},
            {move, [{integer, Arity}, {x, 2}]},
            {call_ext, [3, extfunc({erlang, function_exported, 3})]},
            {is_eq_exact, [{f, Absent}, {x, 0}, {atom, true}]}]
        ++ Back ++ Then
        ++ [{label, [Absent]}]
        ++ Back
        ++ [{deallocate, [A]}].

absent(#{entry := Entry, info := Info, code := Code}) ->
    1 + lists:max([Entry, Info | [Label || {label, [Label]} <- Code]]).

tail_call({_, _, Arity} = To, Allocated) -> {call_ext_last, [Arity, extfunc(To), Allocated]}.

extfunc({M, F, A}) -> {extfunc, M, F, A}.
