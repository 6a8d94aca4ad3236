%% @hidden Splits a module into a hot module and a companion with the cold functions.
%%
%% The hot module, `M', keeps its name, its exports and its identity. A cold function gets a stub
%% of one instruction in `M' where another module can call it by name, where it is a fun, or where
%% a hot function calls it. The stub continues in the companion, `M~cold'. `whittle_start_cold'
%% loads the companion at the first such call. Functions of the companion call hot functions by
%% extra exports of `M', `~1', `~2', .... Neither `module_info' nor tracing shows these exports.
%%
%% <b>`module_info'</b> is the function of `M'. The VM leaves out the extra exports, and asks
%% `whittle_start_cold' for the list of all functions. This list is in the chunk `WhtF' of the
%% companion's file. The VM treats a module as split when its first function has the name `~'.
%%
%% <b>Funs</b> belong to `M', wherever their code is. The chunk `Whtl' of both files says so to
%% the VM (native/patches), and `M' has an entry for each fun, in their old order. When the VM
%% loads the companion, the funs whose code is in it run there.
%%
%% <b>Stack traces</b> are unchanged. A cold function carries `M' as its module and the lines of
%% the file of `M'.
-module(whittle_shake_companion).

-export([split/2, unsplit/1]).

-export_type([parts/0]).

-type fa() :: whittle_shake_summary:fa().

-type parts() ::
        whole                               % splitting saves nothing, or is impossible
      | cold                                % unchanged, and none of it is hot
      | {Hot :: binary(), Companion :: binary()}.

%% A module and its hot and cold functions.
-record(split,
        {module :: module(),
         companion :: module(),
         functions :: #{fa() => whittle_beam_module:func()},
         hot :: #{fa() => []},
         aliases :: #{fa() => atom()},      % of hot functions that cold functions call
         stubs :: #{fa() => []}}).          % cold functions that others can call

%% The smallest cold code, in bytes. Below this size a companion costs more than it saves.
-define(WORTH_BYTES, 300).

%% @doc Splits a module into its two files. `Keep' names the hot functions.
-spec split(whittle_beam_module:t(), #{fa() => _}) -> parts().
split(Value, Keep) ->
    ByName = whittle_beam_module:functions(Value),
    Hot = maps:map(fun(_, _) -> [] end, maps:with(maps:keys(Keep), ByName)),
    Info = [{module_info, 0}, {module_info, 1}],
    Cold = maps:without(maps:keys(Hot) ++ Info, ByName),
    Saved = lists:sum([whittle_shake_summary:bytes(Code)
                       || #{code := Code} <- maps:values(Cold)]),
    case can_split(Value) of
        _ when map_size(Hot) =:= 0 -> cold;
        true when Saved >= ?WORTH_BYTES ->
            parts(Value, ByName, maps:merge(Hot, maps:from_keys(Info, [])));
        _ -> whole
    end.

%% @doc Lists the modules of a shaken system that are hot as a whole: neither cold nor split.
-spec unsplit(whittle_system:system()) -> #{module() => []}.
unsplit(System) ->
    Cold = whittle_system:cold(System),
    maps:from_keys([M || {_, M, _} <- whittle_system:modules(System), not is_map_key(M, Cold),
                         not is_map_key(whittle_system:companion(M), Cold)], []).

%% Internal

%% Native records and debug information belong to the module with the code. The name of the
%% companion is a little longer.
can_split(#{module := Module, records := Records, form := #{debug := Debug}}) ->
    Records =:= [] andalso not Debug andalso byte_size(atom_to_binary(Module)) =< 250.

parts(#{module := Module, functions := Functions, form := #{chunks := Chunks}} = Value, ByName,
      Hot) ->
    Called = [{key(Function), To} || Function <- Functions,
                                     Mention <- whittle_beam_module:references(Function),
                                     {ok, To} <- [local(Mention)]],
    Needed = lists:usort([To || {From, To} <- Called, is_map_key(To, Hot),
                                not is_map_key(From, Hot)]),
    Split = #split{module = Module, companion = whittle_system:companion(Module),
                   functions = ByName, hot = Hot,
                   aliases = aliases(Needed),
                   stubs = maps:from_keys(
                             [key(Function) || Function <- Functions,
                                               not is_map_key(key(Function), Hot),
                                               is_open(Function)]
                             ++ [To || {From, To} <- Called, is_map_key(From, Hot),
                                       not is_map_key(To, Hot)], [])},
    Md5 = whittle_beam:identity(Chunks),
    {assembled(Md5, Module, hot(Value, Split)), assembled(Md5, Module, cold(Value, Split))}.

key(#{name := F, arity := A}) -> {F, A}.

local({local, To}) -> {ok, To};
local({lambda, To, _}) -> {ok, To};
local(_) -> none.

is_open(#{exported := Exported, lambdas := Lambdas}) -> Exported orelse Lambdas =/= [].

%% Names that are the same in all modules. An exported function gets one too. A call within the
%% module must not use the name for other modules, because tracing would see it.
aliases(Needed) ->
    maps:from_list([{FA, list_to_atom([$~ | integer_to_list(N)])}
                    || {N, FA} <- lists:enumerate(Needed)]).

assembled(Md5, Module, Value) ->
    {ok, Bytes} = whittle_beam:assemble(#{}, whittle_beam_module:set_identity(Md5, Module, Value)),
    Bytes.

%% The hot module

hot(#{functions := Functions} = Value,
    #split{hot = Hot, stubs = Stubs, aliases = Aliases} = Split) ->
    Here = [case Function of
                _ when is_map_key({F, A}, Stubs) ->
                    (stub(Function, Split#split.companion, F))#{exported := Exported};
                _ when is_map_key({F, A}, Aliases) ->
                    Function#{alias => maps:get({F, A}, Aliases)};
                _ -> Function
            end || #{name := F, arity := A, exported := Exported} = Function <- Functions,
                   is_map_key({F, A}, Hot) orelse is_map_key({F, A}, Stubs)],
    Value#{functions := [maker(Here) | Here]}.

stub(#{name := F, arity := A, lambdas := Lambdas}, Module, Name) ->
    (whittle_beam_module:function(F, A, false, [{call_ext_only, [A, {extfunc, Module, Name, A}]}]))
        #{lambdas := Lambdas}.

%% Makes a function that nobody calls. The VM recognizes a split module by it. The function makes
%% all funs. The first instruction that makes a fun gives the fun its index in the table, and the
%% VM accepts only funs that some instruction makes.
maker(Functions) ->
    Lambdas = lists:sort([{Index, F, A, Free}
                          || #{name := F, arity := A, lambdas := Made} <- Functions,
                             #{index := Index, free := Free} <- Made]),
    Needs = lists:max([0 | [Free || {_, _, _, Free} <- Lambdas]]),
    Words = lists:sum([Free || {_, _, _, Free} <- Lambdas]),
    whittle_beam_module:function(
      '~', Needs, false,
      [{test_heap, [{alloc, [{words, Words}, {floats, 0}, {funs, length(Lambdas)}]}, Needs]}
       || Lambdas =/= []]
      ++ [{make_fun3, [{lambda, F, A, Index}, {x, Needs},
                       {list, [{x, N} || N <- lists:seq(0, Free - 1)]}]}
          || {Index, F, A, Free} <- Lambdas]
      ++ [{move, [nil, {x, 0}]}, {return, []}]).

%% The companion

cold(#{functions := Functions, form := #{chunks := Chunks} = Form} = Value,
     #split{module = Module, companion = Companion, hot = Hot, stubs = Stubs} = Split) ->
    Cold = [(moved(Function, Split))#{exported := is_map_key(key(Function), Stubs)}
            || Function <- Functions, not is_map_key(key(Function), Hot)],
    Lacking = lists:usort([To || Function <- Cold,
                                 {lambda, To, _} <- whittle_beam_module:references(Function),
                                 is_map_key(To, Hot)]),
    Back = [stub(maps:get(FA, Split#split.functions), Module, outside(FA, Split))
            || FA <- Lacking],
    whittle_shake_cut:without_lost_funs(
      Value#{module := Companion, part_of => Module, functions := Cold ++ Back,
             form := Form#{chunks := [Chunk || {Id, _} = Chunk <- Chunks,
                                               lists:member(Id, essential())]
                           ++ [{<<"WhtF">>, term_to_binary(lists:map(fun key/1, Functions))}]}}).

essential() ->
    [<<"AtU8">>, <<"Code">>, <<"StrT">>, <<"ImpT">>, <<"ExpT">>, <<"FunT">>, <<"LitT">>,
     <<"Line">>, <<"Type">>].

%% Returns the name by which other modules call a hot function.
outside(FA, #split{aliases = Aliases}) -> maps:get(FA, Aliases).

moved(#{line := Line, code := Code} = Function, #split{module = Module} = Split) ->
    File = <<(atom_to_binary(Module))/binary, ".erl">>,
    Function#{line := located(Line, File), code := [moved(I, File, Split) || I <- Code]}.

moved({line, [Line]}, File, _) -> {line, [located(Line, File)]};
moved({executable_line, [Line, N]}, File, _) -> {executable_line, [located(Line, File), N]};
moved({Call, [A, {local, F, A} | More]} = Instruction, _,
      #split{module = Module, hot = Hot} = Split) ->
    case Hot of
        #{{F, A} := _} -> {outward(Call), [A, {extfunc, Module, outside({F, A}, Split), A} | More]};
        _ -> Instruction
    end;
moved(Instruction, _, _) -> Instruction.

outward(call) -> call_ext;
outward(call_only) -> call_ext_only;
outward(call_last) -> call_ext_last.

located({location, module, Line}, File) -> {location, File, Line};
located(Line, _) -> Line.
