%% @hidden Has `beam_lib' tell the MD5 of a module as the VM of an output does.
%%
%% A module that was made smaller stays the module that it was: its file names the MD5 of
%% before in the chunk `Whtl' ({@link whittle_beam:strip/2}), and the VM takes it from there.
%% OTP's `beam_lib:md5/1' sums up what is left. `code:modified_modules/0' compares the two, and
%% `c:lm/0' loads each module that differs. So `beam_lib' looks for that chunk first. It stays
%% what it was itself: its MD5 and what `module_info' tells are the same.
-module(whittle_make_md5).
-behaviour(whittle_pass).

-export([name/0, run/2]).

%% @private
-spec name() -> atom().
name() -> md5.

%% @doc The system with a `beam_lib' that looks for the chunk, where it has one. This comes before
%% the pass that removes functions, because the new code calls one more.
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, _) ->
    {ok, lists:foldl(fun(#{modules := #{beam_lib := Bytes} = Modules} = App, Now) ->
                             whittle_system:put_app(
                               App#{modules := Modules#{beam_lib := telling(Bytes)}}, Now);
                        (_, Now) -> Now
                     end, System, whittle_system:apps(System))}.

%% Internal

%% One of another form than OTP's answers as it did.
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

%% What is before the code of md5/1. Any answer of chunks/3 but
%% `{ok, {Module, [{"Whtl", <<Md5:16/binary, _/binary>>}]}}' goes on to it.
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
