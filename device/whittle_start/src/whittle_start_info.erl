%% @doc Answers `module_info' out of a module's file.
%%
%% A program that asks every module for its attributes when it starts would otherwise have all
%% its cold modules loaded for that. It calls only what is preloaded, and the code server.
-module(whittle_start_info).

-import(whittle_start_cold, [chunk/2]).

-export([answer/2]).

%% @doc A list of the answer to `Module:module_info(Items...)', for a module that is not loaded; an
%% empty one where it has to be loaded for that.
-spec answer(module(), [term()]) -> [term()].
answer(Module, Items) ->
    Asked = case Items of
                [] -> [module, exports, attributes, compile, md5];
                _ -> Items
            end,
    case lists:all(fun(Item) -> lists:member(Item, known()) end, Asked) of
        true -> of_file(Module, Items, object_code(Module));
        false -> []
    end.

%% Internal

known() -> [module, exports, attributes, compile, md5, native].

%% The code server calls nothing that is not loaded, and may not be there yet.
object_code(Module) ->
    case whereis(code_server) of
        Server when is_pid(Server), Server =/= self() -> code:get_object_code(Module);
        _ -> error
    end.

of_file(Module, [], {Module, Bytes, _}) ->
    [[{Item, item(Item, Module, Bytes)}
      || Item <- [module, exports, attributes, compile, md5]]];
of_file(Module, [Item], {Module, Bytes, _}) -> [item(Item, Module, Bytes)];
of_file(_, _, _) -> [].

item(module, Module, _) -> Module;
item(native, _, _) -> false;
item(md5, _, Bytes) -> code:module_md5(Bytes);
item(attributes, _, Bytes) -> term(<<"Attr">>, Bytes);
item(compile, _, Bytes) -> term(<<"CInf">>, Bytes);
item(exports, _, Bytes) ->
    {ok, <<Count:32/signed, Names/binary>>} = chunk(<<"AtU8">>, Bytes),
    {ok, <<_:32, Exports/binary>>} = chunk(<<"ExpT">>, Bytes),
    Atoms = list_to_tuple(names(abs(Count), Count < 0, Names)),
    %% The last first, as the VM does.
    lists:reverse([{binary_to_atom(element(Name, Atoms), utf8), Arity}
                   || <<Name:32, Arity:32, _:32>> <= Exports]).

term(Id, Bytes) ->
    case chunk(Id, Bytes) of
        {ok, Term} -> binary_to_term(Term);
        none -> []
    end.

%% From OTP 28 on their number is negative, and a length is as an integer in code.
names(0, _, _) -> [];
names(Count, true, <<Size:4, 0:4, Name:Size/binary, Rest/binary>>) ->
    [Name | names(Count - 1, true, Rest)];
names(Count, true, <<High:3, 8:5, Low, Rest/binary>>) ->
    Size = High bsl 8 bor Low,
    <<Name:Size/binary, Next/binary>> = Rest,
    [Name | names(Count - 1, true, Next)];
names(Count, false, <<Size, Name:Size/binary, Rest/binary>>) ->
    [Name | names(Count - 1, false, Rest)].
