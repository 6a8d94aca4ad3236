%% @doc Has OTP's `error_handler' ask `whittle_start_cold' before it does what it does.
%%
%% A companion is loaded by `whittle_start_cold', which says so. A module of which
%% nothing is hot is loaded by the code server, because the VM has `error_handler' see to what is
%% called and not there: so that one asks `whittle_start_cold:called/3' first, which answers
%% `module_info' without having the module loaded.
%%
%% It stays what it was: its MD5 and what `module_info' tells are the same.
-module(whittle_shake_watch).

-export([watching/1]).

%% @doc The module with the question at the head of the functions that ask; `none' where a
%% module has none.
-spec watching(whittle_beam_module:t()) -> {ok, whittle_beam_module:t()} | none.
watching(#{module := Module, functions := Functions, form := #{chunks := Chunks}} = Value) ->
    case questions(Module) of
        Questions when map_size(Questions) =:= 0 -> none;
        Questions ->
            Asking = [case Questions of
                          #{{F, A} := Question} ->
                              Function#{code := asking(Question, Function) ++ Code};
                          #{} -> Function
                      end || #{name := F, arity := A, code := Code} = Function <- Functions],
            {ok, whittle_beam_module:set_identity(whittle_beam:identity(Chunks), Module,
                                                  Value#{functions := Asking})}
    end.

%% Internal

%% Of a function, who in `whittle_start_cold' is asked, with the function's arguments.
questions(error_handler) ->
    Called = {called, 3},
    #{{undefined_function, 3} => Called, {undefined_lambda, 3} => Called};
questions(_) ->
    #{}.

%% The function's arguments are kept over the calls. A list of one is the answer. Who is to give
%% it may not be there: in a VM that was given another boot script.
asking({Name, Arity}, #{arity := A, entry := Entry, info := Info, code := Code}) ->
    Absent = 1 + lists:max([Entry, Info | [Label || {label, [Label]} <- Code]]),
    Kept = [{{x, N}, {y, N}} || N <- lists:seq(0, A - 1)],
    Back = [{move, [Y, X]} || {X, Y} <- Kept],
    [{allocate, [A, A]}]
        ++ [{move, [X, Y]} || {X, Y} <- Kept]
        ++ [{move, [{atom, whittle_start_cold}, {x, 0}]}, {move, [{atom, Name}, {x, 1}]},
            {move, [{integer, Arity}, {x, 2}]},
            {call_ext, [3, {extfunc, erlang, function_exported, 3}]},
            {is_eq_exact, [{f, Absent}, {x, 0}, {atom, true}]}]
        ++ Back
        ++ [{call_ext, [Arity, {extfunc, whittle_start_cold, Name, Arity}]},
            {is_nonempty_list, [{f, Absent}, {x, 0}]},
            {get_hd, [{x, 0}, {x, 0}]},
            {deallocate, [A]},
            {return, []},
            {label, [Absent]}]
        ++ Back
        ++ [{deallocate, [A]}].
