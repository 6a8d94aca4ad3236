%% @hidden Changes `beam_lib' so that it returns the same MD5 of a module as the output's VM.
%%
%% A shrunk module keeps its identity: its file records the original MD5 in the chunk `Whtl'
%% ({@link whittle_beam:strip/2}), and the VM reads it there. OTP's `beam_lib:md5/1' computes the
%% MD5 of the remaining chunks. `code:modified_modules/0' compares the two, and `c:lm/0' loads
%% each module that differs. So this pass makes `beam_lib' look for that chunk first. `beam_lib'
%% keeps its own identity: its MD5 and the result of `module_info' do not change.
-module(whittle_pass_md5).
-behaviour(whittle_pass).

-export([name/0, run/2]).

%% @private
-spec name() -> atom().
name() -> md5.

%% @doc Changes the `beam_lib' of a system, if the system has one.
%%
%% It runs before the pass that removes functions, because the new code calls one more function.
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, _) ->
    {ok, lists:foldl(fun(#{modules := #{beam_lib := Bytes} = Modules} = App, Now) ->
                             whittle_system:put_app(
                               App#{modules := Modules#{beam_lib := telling(Bytes)}}, Now);
                        (_, Now) -> Now
                     end, System, whittle_system:apps(System))}.

%% Internal functions

%% Leaves a `beam_lib' unchanged if its form differs from OTP's.
telling(Bytes) ->
    case taken_apart(Bytes) of
        {ok, #{functions := Functions, form := #{chunks := Chunks}} = Module} ->
            Asking = [case Function of
                          #{name := md5, arity := 1, code := Code} ->
                              Function#{code := asking(Function) ++ Code};
                          #{} -> Function
                      end || Function <- Functions],
            Same = whittle_beam_module:set_identity(whittle_beam:identity(Chunks), beam_lib,
                                                    Module#{functions := Asking}),
            case has_chunks(Functions) andalso whittle_beam:assemble(#{}, Same) of
                {ok, New} -> New;
                _ -> Bytes
            end;
        {error, _} ->
            Bytes
    end.

taken_apart(Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} -> whittle_beam:disassemble(Beam);
        {error, _} = Error -> Error
    end.

has_chunks(Functions) -> [F || #{name := chunks, arity := 3} = F <- Functions] =/= [].

%% Returns the code that comes before the code of md5/1. Any answer of chunks/3 other than
%% `{ok, {Module, [{"Whtl", <<Md5:16/binary, _/binary>>}]}}' continues there.
asking(#{entry := Entry, info := Info, code := Code}) ->
    Absent = 1 + lists:max([Entry, Info | [Label || {label, [Label]} <- Code]]),
    [{allocate, [2, 1]},
     {move, [{x, 0}, {y, 0}]},
     {move, [nil, {y, 1}]},
     {move, [{literal, term_to_binary(["Whtl"])}, {x, 1}]},
     {move, [{literal, term_to_binary([allow_missing_chunks])}, {x, 2}]},
     {call, [3, {local, chunks, 3}]},
     {is_tagged_tuple, [{f, Absent}, {x, 0}, 2, {atom, ok}]},
     {get_tuple_element, [{x, 0}, 1, {x, 0}]},
     {get_tuple_element, [{x, 0}, 0, {y, 1}]},
     {get_tuple_element, [{x, 0}, 1, {x, 0}]},
     {get_hd, [{x, 0}, {x, 0}]},
     {get_tuple_element, [{x, 0}, 1, {x, 0}]},
     {gc_bif3, [{f, Absent}, 1, {extfunc, erlang, binary_part, 3},
                {x, 0}, {integer, 0}, {integer, 16}, {x, 0}]},
     {test_heap, [6, 1]},
     {put_tuple2, [{x, 0}, {list, [{y, 1}, {x, 0}]}]},
     {put_tuple2, [{x, 0}, {list, [{atom, ok}, {x, 0}]}]},
     {deallocate, [2]},
     {return, []},
     {label, [Absent]},
     {move, [{y, 0}, {x, 0}]},
     {deallocate, [2]}].
