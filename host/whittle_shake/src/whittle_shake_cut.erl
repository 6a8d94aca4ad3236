%% @hidden Removes functions from a module.
-module(whittle_shake_cut).

-export([taken_apart/1, module/3, without_lost_funs/1]).

%% @doc Reads the functions of a module from its file, which an earlier step has read already.
-spec taken_apart(binary()) -> whittle_beam_module:t().
taken_apart(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Value} = whittle_beam:disassemble(Beam),
    Value.

%% @doc Makes the file of a module with only these functions. The functions in `Answers' return a
%% term or call another function. The result is `none' where no function is left. A call to a
%% removed function of the same module raises `undef', as a call to another module would.
-spec module(whittle_beam_module:t(), #{whittle_shake_summary:fa() => _},
             [{atom(), arity(), whittle_shake_feature:answer()}]) -> {ok, binary()} | none.
module(_, Keep, []) when map_size(Keep) =:= 0 ->
    none;
module(#{module := Name, form := #{chunks := Chunks}} = Module, Keep, Answers) ->
    Info = maps:with([{module_info, 0}, {module_info, 1}],
                     whittle_beam_module:functions(Module)),
    Kept = whittle_beam_module:keep(maps:merge(Keep, Info), Module),
    Answering = lists:foldl(fun({F, A, Answer}, M) ->
                                    whittle_beam_module:put(answering(F, A, Answer, Module), M)
                            end, Kept, Answers),
    Whole = lists:foldl(fun({F, A}, M) -> whittle_beam_module:put(undef(Name, F, A), M) end,
                        Answering,
                        lists:usort([To || {_, To} <- whittle_beam_module:missing(Answering)])),
    %% The funs keep their identity, here and on other nodes.
    Same = case Whole of
               Module -> Module;
               _ -> whittle_beam_module:set_identity(whittle_beam:identity(Chunks), Name, Whole)
           end,
    {ok, _} = whittle_beam:assemble(#{}, without_lost_funs(Same)).

%% @doc Turns the body of a fun into a plain function where no instruction makes the fun. The
%% interpreter's loader ends the VM at a fun entry without an instruction that makes it (OTP 29,
%% emu_load.c, lambda_literals).
-spec without_lost_funs(whittle_beam_module:t()) -> whittle_beam_module:t().
without_lost_funs(#{functions := Functions} = Module) ->
    Made = whittle_beam_module:made(Module),
    Module#{functions := [case Function of
                              #{name := F, arity := A} when is_map_key({F, A}, Made) -> Function;
                              _ -> Function#{lambdas := []}
                          end || Function <- Functions]}.

answering(F, A, Answer, Module) ->
    #{{F, A} := #{exported := Exported}} = whittle_beam_module:functions(Module),
    whittle_beam_module:function(F, A, Exported, code(Answer, A)).

code({value, Term}, _) -> [{move, [operand(Term), {x, 0}]}, {return, []}];
code({call, {M, F}}, A) -> [{call_ext_only, [A, {extfunc, M, F, A}]}].

operand([]) -> nil;
operand(Atom) when is_atom(Atom) -> {atom, Atom};
operand(Term) -> {literal, term_to_binary(Term)}.

%% The error handler raises `undef' as for any missing function.
undef(Module, F, A) ->
    Arguments = [{put_list, [{x, I}, {x, A}, {x, A}]} || I <- lists:seq(A - 1, 0, -1)],
    whittle_beam_module:function(
      F, A, false,
      [{test_heap, [2 * A, A]}, {move, [nil, {x, A}]}] ++ Arguments
      ++ [{move, [{x, A}, {x, 2}]}, {move, [{atom, Module}, {x, 0}]},
          {move, [{atom, F}, {x, 1}]},
          {call_ext_only, [3, {extfunc, error_handler, raise_undef_exception, 3}]}]).
