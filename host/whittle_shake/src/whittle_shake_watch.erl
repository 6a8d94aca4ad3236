%% @doc Has OTP's `error_handler' ask `whittle_start_cold' before it does what it does.
%%
%% A companion is loaded by `whittle_start_cold', which says so. A module of which
%% nothing is hot is loaded by the code server, because the VM has `error_handler' see to what is
%% called and not there: so that one asks `whittle_start_cold:called/3' first, which answers
%% `module_info' without having the module loaded.
%%
%% Where nothing is loaded later, `error_handler' raises `undef' in `whittle_start_removed', which
%% explains it.
%%
%% It stays what it was: its MD5 and what `module_info' tells are the same.
-module(whittle_shake_watch).

-export([watching/1, explaining/1]).

%% @doc The module with the question at the head of the functions that ask; `none' where a
%% module has none.
-spec watching(whittle_beam_module:t()) -> {ok, whittle_beam_module:t()} | none.
watching(#{module := Module} = Value) ->
    case questions(Module) of
        Questions when map_size(Questions) =:= 0 -> none;
        Questions ->
            Head = fun(_, Question) -> fun(Function) -> asking(Question, Function) end end,
            {ok, with_heads(maps:map(Head, Questions), Value)}
    end.

%% @doc `error_handler', whose `crash/1' goes on in `whittle_start_removed:undefined/1'. It is a
%% tail call, so the stack has as many entries as ever.
-spec explaining(whittle_beam_module:t()) -> whittle_beam_module:t().
explaining(#{module := error_handler} = Value) ->
    with_heads(#{{crash, 1} => fun(#{arity := A} = Function) ->
                                       To = {whittle_start_removed, undefined, 1},
                                       if_there(To, [tail_call(To, A)], Function)
                               end}, Value).

%% Internal

%% Of a function, who in `whittle_start_cold' is asked, with the function's arguments.
questions(error_handler) ->
    Called = {called, 3},
    #{{undefined_function, 3} => Called, {undefined_lambda, 3} => Called};
questions(_) ->
    #{}.

%% Puts instructions before those of functions, which make them of the function.
with_heads(Heads, #{module := Module, functions := Functions,
                    form := #{chunks := Chunks}} = Value) ->
    Changed = [case Heads of
                   #{{F, A} := Head} -> Function#{code := Head(Function) ++ Code};
                   #{} -> Function
               end || #{name := F, arity := A, code := Code} = Function <- Functions],
    whittle_beam_module:set_identity(whittle_beam:identity(Chunks), Module,
                                     Value#{functions := Changed}).

%% A list of one is the answer.
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

%% The function's arguments are kept over the calls. The module that is to be called may not be
%% there: in a VM that was given another boot script.
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
