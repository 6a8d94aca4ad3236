%% @doc Answers `module_info' from a module's file.
%%
%% Some programs read the attributes of every module at their start. Without this module, that
%% would load all cold modules. This module calls only preloaded functions and the code server.
-module(whittle_start_info).

-export([answer/3]).

%% A function that finds a chunk of a file. `whittle_start_cold' passes its own function, because
%% it also needs the function when this module may not be loaded.
-type chunk() :: fun((<<_:32>>, binary()) -> {ok, binary()} | none).

%% @doc Returns a list with the answer to `Module:module_info(Item)' for a module that is not
%% loaded. Returns an empty list if only the loaded module can answer. `module_info(module)' and
%% `module_info()' always load the module, because programs use them for that. OTP's `code' does
%% so for the modules that the code server needs.
-spec answer(module(), [term()], chunk()) -> [term()].
answer(Module, [Item], Chunk)
  when Item =:= exports; Item =:= attributes; Item =:= compile; Item =:= md5 ->
    case code:get_object_code(Module) of
        {Module, Bytes, _} -> [item(Item, Bytes, Chunk)];
        error -> []
    end;
answer(_, _, _) ->
    [].

%% Internal

item(md5, Bytes, _) -> code:module_md5(Bytes);
item(attributes, Bytes, Chunk) -> term(Chunk(<<"Attr">>, Bytes));
item(compile, Bytes, Chunk) -> term(Chunk(<<"CInf">>, Bytes));
item(exports, Bytes, Chunk) ->
    {ok, Names} = Chunk(<<"AtU8">>, Bytes),
    {ok, Exports} = Chunk(<<"ExpT">>, Bytes),
    Atoms = list_to_tuple(case word(Names, 0) of
                              Count when Count < 1 bsl 31 -> names(Count, short, Names, 4);
                              Count -> names(1 bsl 32 - Count, long, Names, 4)
                          end),
    %% The VM lists the exports in reverse order too.
    [{binary_to_atom(element(word(Exports, At), Atoms), utf8), word(Exports, At + 4)}
     || Entry <- lists:seq(word(Exports, 0) - 1, 0, -1), At <- [4 + 12 * Entry]].

word(Bytes, At) -> binary:decode_unsigned(binary_part(Bytes, At, 4)).

term({ok, Term}) -> binary_to_term(Term);
term(none) -> [].

%% From OTP 28 on the count of atoms is negative, and each length has the form of an integer in
%% code.
names(0, _, _, _) ->
    [];
names(Count, Lengths, Bytes, At) ->
    {Start, Size} = case {Lengths, binary:at(Bytes, At)} of
                        {short, Byte} -> {At + 1, Byte};
                        {long, Byte} when Byte band 8 =:= 0 -> {At + 1, Byte bsr 4};
                        {long, Byte} ->
                            {At + 2, (Byte bsr 5) bsl 8 bor binary:at(Bytes, At + 1)}
                    end,
    [binary_part(Bytes, Start, Size) | names(Count - 1, Lengths, Bytes, Start + Size)].
