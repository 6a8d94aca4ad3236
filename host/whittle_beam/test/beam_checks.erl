%% Checks properties of every BEAM file that is disassembled and assembled again. The suites of
%% whittle_beam and `make beam-files' use this module.
-module(beam_checks).

-export([identity/1, without/2, moved/1]).
-export([closure/2, some/2, normal/1, alike/3, loads/2]).

%% Assembles an unchanged module, and tells whether the bytes or the functions are the same.
-spec identity(binary()) -> same_bytes | same_functions | {wrong, term()}.
identity(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    case whittle_beam:disassemble(Beam) of
        {ok, Module} ->
            case whittle_beam:assemble(#{}, Module) of
                {ok, Bytes} -> same_bytes;
                {ok, Other} -> compare(Module, Other, Bytes);
                {error, Error} -> {wrong, Error}
            end;
        {error, Error} -> {wrong, Error}
    end.

%% Keeps only what a random half of the exports needs, and orders the functions by name, so that
%% every index changes.
-spec without(binary(), rand:state()) ->
          {Functions :: non_neg_integer(), Kept :: non_neg_integer(), binary()}
              | {wrong, term()}.
without(Bytes, Random) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, #{functions := All} = Module} = whittle_beam:disassemble(Beam),
    Exports = [{F, A} || #{name := F, arity := A, exported := true} <- All],
    Roots = [Each || {module_info, _} = Each <- Exports] ++ some(Exports, Random),
    #{functions := Kept} = Moved =
        moved(whittle_beam_module:keep(closure(Roots, Module), Module)),
    [] = whittle_beam_module:missing(Moved),
    {ok, File} = whittle_beam:assemble(#{}, Moved),
    case compare(Moved, File, Bytes) of
        same_functions -> {length(All), length(Kept), File};
        Wrong -> Wrong
    end.

%% Orders the functions by name.
-spec moved(whittle_beam_module:t()) -> whittle_beam_module:t().
moved(#{functions := Functions} = Module) ->
    Named = lists:sort([{{F, A}, Function} || #{name := F, arity := A} = Function <- Functions]),
    Module#{functions := [Function || {_, Function} <- Named]}.

%% Compares the file with the value, by our disassembler and by OTP's. Assembling it once more
%% must not change the file.
compare(Module, Bytes, Original) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Again} = whittle_beam:disassemble(Beam),
    [First, Second] = [[normal(Function) || Function <- maps:get(functions, Each)]
                       || Each <- [Module, Again]],
    case {First, whittle_beam:assemble(#{}, Again), loads(maps:get(module, Module), Bytes)} of
        {Second, {ok, Bytes}, ok} ->
            case alike(Original, Bytes, [{F, A} || #{name := F, arity := A} <- First]) of
                true -> same_functions;
                false -> {wrong, disassembly}
            end;
        {Second, {ok, Bytes}, Error} -> {wrong, Error};
        {Second, _, _} -> {wrong, assembles_differently};
        _ -> {wrong, [Key || {#{name := F, arity := A} = One, Two} <- lists:zip(First, Second),
                             Key <- [{F, A}], One =/= Two]}
    end.

%% Returns the functions of the module that these functions need.
-spec closure([{atom(), arity()}], whittle_beam_module:t()) -> #{{atom(), arity()} => []}.
closure(Roots, Module) ->
    closure(Roots, whittle_beam_module:functions(Module), #{}).

closure([Key | More], Functions, Seen) when is_map_key(Key, Seen) ->
    closure(More, Functions, Seen);
closure([Key | More], Functions, Seen) ->
    #{Key := Function} = Functions,
    Needs = lists:append([case Reference of
                              {local, To} -> [To];
                              {lambda, To, _} -> [To];
                              _ -> []
                          end || Reference <- whittle_beam_module:references(Function)]),
    closure(Needs ++ More, Functions, Seen#{Key => []});
closure([], _, Seen) ->
    Seen.

%% Chooses about half of a list.
-spec some([T], rand:state()) -> [T].
some(List, Random) ->
    {Some, _} = lists:foldl(fun(Each, {Chosen, State}) ->
                                    {N, Next} = rand:uniform_s(2, State),
                                    {[Each || N =:= 1] ++ Chosen, Next}
                            end, {[], Random}, List),
    Some.

%% Renumbers the labels of a function from 1, in their order.
-spec normal(whittle_beam_module:func()) -> whittle_beam_module:func().
normal(#{info := Info, entry := Entry, code := Code} = Function) ->
    Labels = numbered([Info, Entry | [Label || {label, [Label]} <- Code]]),
    Function#{info := 1, entry := 2, code := relabeled(Code, Labels)}.

numbered(Labels) -> maps:from_list(lists:zip(Labels, lists:seq(1, length(Labels)))).

relabeled([{label, [Label]} | Code], Labels) ->
    [{label, [map_get(Label, Labels)]} | relabeled(Code, Labels)];
relabeled([{Name, Operands} | Code], Labels) ->
    [{Name, [operand(Operand, Labels) || Operand <- Operands]} | relabeled(Code, Labels)];
relabeled([], _) ->
    [].

operand({f, 0}, _) -> {f, 0};
operand({f, Label}, Labels) -> {f, map_get(Label, Labels)};
operand({list, List}, Labels) -> {list, [operand(Operand, Labels) || Operand <- List]};
operand({debug, _, Item}, _) -> {debug, Item};
operand(Operand, _) -> Operand.

%% Tells whether OTP's disassembler shows equal functions for two files.
-spec alike(binary(), binary(), [{atom(), arity()}]) -> boolean().
alike(Original, Rewritten, Names) ->
    case {disassembly(Original), disassembly(Rewritten)} of
        {{ok, Old}, {ok, New}} ->
            lists:sort(maps:keys(New)) =:= lists:sort(Names) andalso
                lists:all(fun(Name) -> maps:get(Name, New) =:= maps:get(Name, Old) end, Names);
        _ -> false
    end.

disassembly(Bytes) ->
    case beam_disasm:file(Bytes) of
        {beam_file, _, _, _, _, Functions} ->
            {ok, maps:from_list([{{Name, Arity}, without_indexes(Code)}
                                 || {function, Name, Arity, _, Code} <- Functions])};
        {error, beam_disasm, _} = Error -> Error
    end.

without_indexes(Code) ->
    Labels = numbered([Label || {label, Label} <- Code]),
    %% For the first function, label and line before func_info come in another order.
    {Head, Body} = lists:splitwith(fun(I) -> element(1, I) =/= func_info end, Code),
    [plain(Instruction, Labels) || Instruction <- lists:sort(Head) ++ Body].

plain({label, Label}, Labels) -> {label, map_get(Label, Labels)};
plain({f, 0}, _) -> {f, 0};
plain({f, Label}, Labels) -> {f, maps:get(Label, Labels, foreign)};
plain({literal, _} = Literal, _) -> Literal;
plain({line, Index}, _) when is_integer(Index) -> line;
plain({make_fun2, Function, _, Uniq, Free}, _) -> {make_fun2, Function, Uniq, Free};
plain({make_fun3, Function, _, Uniq, To, Env}, Labels) ->
    {make_fun3, Function, Uniq, To, plain(Env, Labels)};
plain({call_fun2, {u, _}, Arity, Fun}, _) -> {call_fun2, Arity, Fun};
plain({call_fun2, Index, Arity, Fun}, _) when is_integer(Index) -> {call_fun2, Arity, Fun};
plain(Tuple, Labels) when is_tuple(Tuple) ->
    list_to_tuple([plain(Each, Labels) || Each <- tuple_to_list(Tuple)]);
%% The disassembler of OTP 25 leaves the offset of a string in bs_create_bin.
plain([{atom, string}, Segment, Unit, nil, {u, _} | More], Labels) ->
    [{atom, string}, Segment, Unit | plain(More, Labels)];
plain([First | More], Labels) -> [plain(First, Labels) | plain(More, Labels)];
plain(Other, _) -> Other.

%% Checks that the loader takes the file.
-spec loads(module(), binary()) -> ok | {not_loaded, term()}.
loads(Module, Bytes) ->
    case erlang:prepare_loading(Module, Bytes) of
        {error, Reason} -> {not_loaded, Reason};
        _Prepared -> ok
    end.
