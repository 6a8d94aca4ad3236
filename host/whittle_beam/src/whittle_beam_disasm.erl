%% @hidden Disassembles a BEAM file into separate functions and resolves every table.
%%
%% It replaces each index into a table with the entry, so that an instruction is complete:
%% `{call_ext, [2, {extfunc, lists, map, 2}]}'. If a table is missing (stripped, or of a version
%% that no loader of OTP 25 to 29 reads), its indexes stay as numbers. The loader ignores such
%% indexes too.
-module(whittle_beam_disasm).

-export([module/1]).

-type input() ::
        #{atoms := tuple(),                     % the atom table
          literals := {deflated | plain, binary()} | none, % its table, inflated
          chunks := [{whittle_beam:chunk_id(), binary()}]}.

%% The tables as operands. All references to an entry share one term.
-record(t, {ops :: tuple(),
            atoms :: tuple(),
            imports :: tuple(),
            literals :: tuple(),
            lambdas :: tuple(),
            types :: tuple() | none,
            lines :: tuple() | none,
            debug :: tuple() | none,
            strings :: binary(),
            entries = #{} :: #{pos_integer() => tuple()},
            low = 1 :: integer(),               % labels of the present function
            high = 0 :: integer()}).

%% All uses of these common registers share one term.
-define(X, {{x, 0}, {x, 1}, {x, 2}, {x, 3}, {x, 4}, {x, 5}, {x, 6}, {x, 7}, {x, 8}, {x, 9},
            {x, 10}, {x, 11}, {x, 12}, {x, 13}, {x, 14}, {x, 15}}).
-define(Y, {{y, 0}, {y, 1}, {y, 2}, {y, 3}, {y, 4}, {y, 5}, {y, 6}, {y, 7}, {y, 8}, {y, 9},
            {y, 10}, {y, 11}, {y, 12}, {y, 13}, {y, 14}, {y, 15}}).

%% The loader's MAX_REG.
-define(REGISTERS, 1024).

%% @doc Disassembles the module.
-spec module(input()) -> {ok, whittle_beam_module:t()} | {error, whittle_beam:error()}.
module(Input) ->
    try
        {ok, take_apart(Input)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Internal functions: the module

take_apart(#{atoms := Atoms, literals := Literals, chunks := Chunks}) ->
    Module = element(1, Atoms),
    <<_:64, Max:32, _/binary>> = Code = need(<<"Code">>, Chunks),
    Slices = slices(Code),
    Names = [name(Slice, Module, Atoms) || Slice <- Slices],
    length(Names) =:= length(lists:usort(Names)) orelse damaged(<<"Code">>, function_twice),
    Entries = maps:from_list([{Entry, {local, F, A}}
                              || {#{entry := Entry}, {F, A}} <- lists:zip(Slices, Names)]),
    Lambdas = lambdas(Atoms, Entries, Chunks),
    {LineFlags, Lines} = lines(Chunks),
    {TypeVersion, Types} = types(Chunks),
    T0 = #t{ops = whittle_beam_op:table(),
            atoms = each(fun(Atom) -> {atom, Atom} end, tuple_to_list(Atoms)),
            imports = imports(Atoms, Chunks),
            literals = literals(Literals),
            lambdas = list_to_tuple([Operand || {Operand, _} <- Lambdas]),
            types = Types, lines = Lines, debug = none,
            strings = need(<<"StrT">>, Chunks),
            entries = Entries},
    T = T0#t{debug = debug(T0, Chunks)},
    Exported = exported(Atoms, Entries, Chunks),
    Made = lists:foldr(fun({{lambda, F, A, _}, Lambda}, Map) ->
                               maps:update_with({F, A}, fun(More) -> [Lambda | More] end,
                                                [Lambda], Map)
                       end, #{}, Lambdas),
    #{module => Module,
      functions => [function(Slice, Name, T, Exported, Made)
                    || {Slice, Name} <- lists:zip(Slices, Names)],
      records => records(T0, Chunks),
      form => #{max_opcode => Max,
                atoms => case need(<<"AtU8">>, Chunks) of
                             <<1:1, _/bits>> -> long;
                             _ -> short
                         end,
                literals => case Literals of none -> none; {Form, _} -> Form end,
                lines => LineFlags, types => TypeVersion, debug => T#t.debug =/= none,
                chunks => Chunks}}.

slices(Code) ->
    case whittle_beam_code:functions(Code) of
        {ok, Slices} -> Slices;
        error -> damaged(<<"Code">>, no_instruction)
    end.

name(#{module := M, name := F, arity := A}, Module, Atoms)
  when M >= 1, M =< tuple_size(Atoms), element(M, Atoms) =:= Module,
       F >= 1, F =< tuple_size(Atoms), A =< 255 ->
    {element(F, Atoms), A};
name(_, _, _) ->
    damaged(<<"Code">>, wrong_index).

function(#{info := Info, entry := Entry, line := Line, low := Low, high := High, body := Body},
         {Name, Arity} = Key, T, Exported, Made) ->
    Own = T#t{low = Low, high = High},
    #{name => Name, arity => Arity,
      exported => maps:get(Key, Exported, none) =:= Entry,
      lambdas => maps:get(Key, Made, []),
      info => Info, entry => Entry,
      line => case Line of none -> none; _ -> named($i, 0, Line, [], T) end,
      code => instructions(Body, Own, [])}.

%% Internal functions: tables

imports(Atoms, Chunks) ->
    list_to_tuple([{extfunc, element(M, Atoms), element(F, Atoms), A}
                   || <<M:32, F:32, A:32>> <= entries(<<"ImpT">>, Chunks)]).

%% Maps the entry label of each exported function to its name.
exported(Atoms, Entries, Chunks) ->
    maps:from_list(
      [case Entries of
           #{Label := {local, Name, A}} when Name =:= element(F, Atoms) -> {{Name, A}, Label};
           _ -> damaged(<<"ExpT">>, wrong_index)
       end || <<F:32, A:32, Label:32>> <= entries(<<"ExpT">>, Chunks)]).

literals(none) -> {};
literals({_, <<Count:32, Terms/binary>>}) ->
    list_to_tuple(literal_items(Count, Terms)).

literal_items(0, _) -> [];
literal_items(N, <<Size:32, Term:Size/binary, Rest/binary>>) ->
    [{literal, Term} | literal_items(N - 1, Rest)].

%% Returns each lambda as an operand, with the data that its function must keep.
lambdas(Atoms, Entries, Chunks) ->
    [case Entries of
         #{Label := {local, Name, A}} when Name =:= element(F, Atoms), Free =< A ->
             {{lambda, Name, A, Index}, #{index => Index, free => Free, uniq => Uniq}};
         _ -> damaged(<<"FunT">>, wrong_index)
     end || lists:keymember(<<"FunT">>, 1, Chunks),
            <<F:32, A:32, Label:32, Index:32, Free:32, Uniq:32>> <= entries(<<"FunT">>, Chunks)].

entries(Id, Chunks) ->
    <<_:32, Entries/binary>> = need(Id, Chunks),
    Entries.

%% The loader ignores a table of a version other than 0.
lines(Chunks) ->
    case lists:keyfind(<<"Line">>, 1, Chunks) of
        {_, <<0:32, Flags:32, _:32, Items:32, Names:32, Rest/binary>>} ->
            {Lines, Files} = line_items(Items, 0, Rest, []),
            File = list_to_tuple([module | file_names(Names, Files)]),
            {Flags, each(fun({F, Line}) when F < tuple_size(File) ->
                                 {location, element(F + 1, File), Line};
                            (_) -> damaged(<<"Line">>, wrong_index)
                         end, Lines)};
        {_, <<0:32, _/binary>>} -> damaged(<<"Line">>, cut_off);
        _ -> {none, none}
    end.

line_items(0, _, Rest, Items) -> {lists:reverse(Items), Rest};
line_items(Left, File, <<_:5, Tag:3, _/binary>> = Term, Items) ->
    case {Tag, whittle_beam_compact:number(Term)} of
        {2, {Other, Rest}} -> line_items(Left, Other, Rest, Items);
        {1, {Line, Rest}} -> line_items(Left - 1, File, Rest, [{File, Line} | Items]);
        _ -> damaged(<<"Line">>, cut_off)
    end;
line_items(_, _, _, _) -> damaged(<<"Line">>, cut_off).

file_names(0, _) -> [];
file_names(N, <<Size:16, Name:Size/binary, Rest/binary>>) -> [Name | file_names(N - 1, Rest)];
file_names(_, _) -> damaged(<<"Line">>, cut_off).

%% Version 1 is of OTP 25, 2 of 26, 3 of 27 and 28, 4 of 29 (beam_types.erl).
types(Chunks) ->
    case lists:keyfind(<<"Type">>, 1, Chunks) of
        {_, <<Version:32, Count:32, Types/binary>>} when Version >= 1, Version =< 4 ->
            case type_items(Version, Count, Types) of
                [] -> damaged(<<"Type">>, empty);
                [Any | _] = All -> {{Version, Any}, list_to_tuple(All)}
            end;
        _ -> {none, none}
    end.

type_items(_, 0, _) -> [];
type_items(1, N, <<Type:18/binary, Rest/binary>>) -> [Type | type_items(1, N - 1, Rest)];
type_items(3, N, <<_:1, Unit:1, Upper:1, Lower:1, _:12, _/binary>> = Types) ->
    type_item(3, N, 8 * (Lower + Upper) + Unit, Types);
type_items(Version, N, <<Unit:1, Upper:1, Lower:1, _:13, _/binary>> = Types) when Version > 1 ->
    type_item(Version, N, 8 * (Lower + Upper) + Unit, Types);
type_items(_, _, _) -> damaged(<<"Type">>, cut_off).

type_item(Version, N, Extra, Types) ->
    case Types of
        <<Type:(2 + Extra)/binary, Rest/binary>> -> [Type | type_items(Version, N - 1, Rest)];
        _ -> damaged(<<"Type">>, cut_off)
    end.

%% Returns the debug information of each `debug_line' as instructions. The first instruction of
%% each has the operand 0.
debug(T, Chunks) ->
    case lists:keyfind(<<"DbgB">>, 1, Chunks) of
        {_, <<1:32, Count:32, _Terms:32, Code/binary>>} ->
            Items = debug_items(instructions(Code, T, []), []),
            length(Items) =:= Count orelse damaged(<<"DbgB">>, wrong_size),
            list_to_tuple(Items);
        {_, <<1:32, _/binary>>} -> damaged(<<"DbgB">>, cut_off);
        _ -> none
    end.

debug_items([{call, [0, _]} = First | More], Items) ->
    {Rest, Next} = lists:splitwith(fun({call, [Kind, _]}) -> Kind =/= 0;
                                      (_) -> damaged(<<"DbgB">>, no_instruction)
                                   end, More),
    debug_items(Next, [[First | Rest] | Items]);
debug_items([], Items) -> lists:reverse(Items);
debug_items(_, _) -> damaged(<<"DbgB">>, no_instruction).

%% Returns the native records that the module defines.
records(T, Chunks) ->
    case lists:keyfind(<<"Recs">>, 1, Chunks) of
        {_, <<0:32, Count:32, _Fields:32, Code/binary>>} ->
            Records = instructions(Code, T, []),
            length(Records) =:= Count orelse damaged(<<"Recs">>, wrong_size),
            [case Record of
                 {call_last, [{atom, _}, {atom, _}, {list, Fields}]}
                   when length(Fields) rem 2 =:= 0 -> Record;
                 _ -> damaged(<<"Recs">>, no_instruction)
             end || Record <- Records];
        {_, _} -> damaged(<<"Recs">>, unknown_version);
        false -> []
    end.

need(Id, Chunks) ->
    {Id, Data} = lists:keyfind(Id, 1, Chunks),
    Data.

each(Fun, List) -> list_to_tuple(lists:map(Fun, List)).

%% Internal functions: instructions

instructions(<<Opcode, Rest/binary>>, #t{ops = Ops} = T, Done)
  when Opcode >= 1, Opcode =< tuple_size(Ops) ->
    case element(Opcode, Ops) of
        {_, [$x | _]} -> throw({?MODULE, {too_old, [Opcode]}});
        {Name, Roles} -> operands(Rest, Roles, Name, [], T, Done)
    end;
instructions(<<>>, _, Done) ->
    lists:reverse(Done);
instructions(_, _, _) ->
    damaged(<<"Code">>, no_instruction).

operands(Rest, [], Name, [], T, Done) ->
    instructions(Rest, T, [{Name, []} | Done]);
operands(Rest, [], Name, [A], T, Done) ->
    instructions(Rest, T, [{Name, [A]} | Done]);
operands(Rest, [], Name, [B, A], T, Done) ->
    instructions(Rest, T, [{Name, [A, B]} | Done]);
operands(Rest, [], Name, Operands, T, Done) ->
    instructions(Rest, T, [{Name, lists:reverse(Operands)} | Done]);
operands(<<Byte, Rest/binary>>, [Role | Roles], Name, Before, T, Done)
  when Byte band 8 =:= 0, Byte band 7 =/= 7 ->
    Operand = named(Role, Byte band 7, Byte bsr 4, Before, T),
    operands(Rest, Roles, Name, [Operand | Before], T, Done);
operands(<<Byte, Low, Rest/binary>>, [Role | Roles], Name, Before, T, Done)
  when Byte band 16 =:= 0, Byte band 7 =/= 7 ->
    Operand = named(Role, Byte band 7, (Byte bsr 5) bsl 8 bor Low, Before, T),
    operands(Rest, Roles, Name, [Operand | Before], T, Done);
operands(<<1:4, 7:4, Terms/binary>>, [Role], Name, Before, T, Done) ->
    {Size, First} = number(Terms),
    {List, Rest} = list(Size, First, T),
    Named = case Role of $b -> segments(List, T); _ -> List end,
    operands(Rest, [], Name, [{list, Named} | Before], T, Done);
operands(Term, [Role | Roles], Name, Before, T, Done) ->
    {Operand, Rest} = extended(Role, Term, Before, T),
    operands(Rest, Roles, Name, [Operand | Before], T, Done).

list(0, Rest, _) -> {[], Rest};
list(N, <<Byte, Rest/binary>>, T) when Byte band 8 =:= 0, Byte band 7 =/= 7 ->
    Operand = named($-, Byte band 7, Byte bsr 4, [], T),
    {More, End} = list(N - 1, Rest, T),
    {[Operand | More], End};
list(N, Term, T) ->
    {Operand, Rest} = extended($-, Term, [], T),
    {More, End} = list(N - 1, Rest, T),
    {[Operand | More], End}.

%% Reads the further kinds of tag 7, and numbers of more than eleven bits.
extended(_, <<2:4, 7:4, Index/binary>>, _, _) ->
    case number(Index) of
        {N, Rest} when N < ?REGISTERS -> {{fr, N}, Rest};
        _ -> damaged(<<"Code">>, wrong_index)
    end;
extended(_, <<3:4, 7:4, Count/binary>>, _, _) ->
    {N, Rest} = number(Count),
    allocation(N, Rest, []);
extended(_, <<4:4, 7:4, Index/binary>>, _, #t{literals = Literals}) ->
    case number(Index) of
        {N, Rest} when N < tuple_size(Literals) -> {element(N + 1, Literals), Rest};
        _ -> damaged(<<"Code">>, wrong_index)
    end;
extended(_, <<5:4, 7:4, Register/binary>>, _, #t{types = Types} = T) ->
    Tag = case Register of
              <<_:5, X:3, _/binary>> when X =:= 3; X =:= 4 -> X;
              _ -> damaged(<<"Code">>, no_instruction)
          end,
    {N, Index} = number(Register),
    {Type, Rest} = number(Index),
    Named = case Types of
                none -> Type;
                _ when Type < tuple_size(Types) -> element(Type + 1, Types);
                _ -> damaged(<<"Code">>, wrong_index)
            end,
    {{tr, named($-, Tag, N, [], T), Named}, Rest};
extended(_, <<_:5, 1:3, _/binary>> = Term, _, _) ->
    case whittle_beam_compact:integer(Term) of
        {N, Rest} -> {{integer, N}, Rest};
        error -> damaged(<<"Code">>, cut_off)
    end;
extended(Role, <<_:5, Tag:3, _/binary>> = Term, Before, T) when Tag =/= 7 ->
    {N, Rest} = number(Term),
    {named(Role, Tag, N, Before, T), Rest};
extended(_, _, _, _) ->
    damaged(<<"Code">>, no_instruction).

allocation(0, Rest, Done) -> {{alloc, lists:reverse(Done)}, Rest};
allocation(N, Term, Done) when length(Done) < 3 ->
    {Kind, Amount} = number(Term),
    {Size, Rest} = number(Amount),
    Kind < 3 orelse damaged(<<"Code">>, no_instruction),
    allocation(N - 1, Rest, [{element(Kind + 1, {words, floats, funs}), Size} | Done]);
allocation(_, _, _) -> damaged(<<"Code">>, no_instruction).

%% Resolves the segments of bs_create_bin: type, number, unit, flags, value, size.
segments([{atom, string} = Type, Seg, Unit, Flags, Offset, Size | More], T) ->
    Length = case Size of
                 {integer, Bytes} -> Bytes;
                 Bytes -> Bytes
             end,
    [Type, Seg, Unit, Flags, string(Offset, Length, T), Size | segments(More, T)];
segments([Type, Seg, Unit, Flags, Value, Size | More], T) ->
    [Type, Seg, Unit, Flags, Value, Size | segments(More, T)];
segments([], _) -> [];
segments(_, _) -> damaged(<<"Code">>, no_instruction).

string(Offset, Size, #t{strings = Strings})
  when is_integer(Offset), is_integer(Size), Size >= 0, Offset + Size =< byte_size(Strings) ->
    {string, binary:part(Strings, Offset, Size)};
string(_, _, _) ->
    damaged(<<"StrT">>, wrong_index).

%% Returns the operand for a tag and a number with a given role.
named(Role, 0, N, Before, T) -> untagged(Role, N, Before, T);
named(_, 3, N, _, _) when N < 16 -> element(N + 1, ?X);
named(_, 4, N, _, _) when N < 16 -> element(N + 1, ?Y);
named(_, 2, 0, _, _) -> nil;
named(_, 2, N, _, #t{atoms = Atoms}) when N =< tuple_size(Atoms) -> element(N, Atoms);
named(_, 1, N, _, _) -> {integer, N};
named($c, 5, N, _, #t{entries = Entries}) when is_map_key(N, Entries) -> map_get(N, Entries);
named(_, 5, 0, _, _) -> {f, 0};
named(_, 5, N, _, #t{low = Low, high = High}) when N >= Low, N =< High -> {f, N};
named(_, 5, N, _, #t{entries = Entries}) when is_map_key(N, Entries) -> map_get(N, Entries);
named(_, 3, N, _, _) when N < ?REGISTERS -> {x, N};
named(_, 4, N, _, _) when N < ?REGISTERS -> {y, N};
named(_, _, _, _, _) -> damaged(<<"Code">>, wrong_index).

untagged($-, N, _, _) -> N;
untagged($e, N, _, #t{imports = Imports}) when N < tuple_size(Imports) ->
    element(N + 1, Imports);
untagged($i, N, _, #t{lines = none}) -> N;
untagged($i, 0, _, _) -> 0;
untagged($i, N, _, #t{lines = Lines}) when N =< tuple_size(Lines) -> element(N, Lines);
untagged($m, N, _, #t{lambdas = Lambdas}) when N < tuple_size(Lambdas) ->
    element(N + 1, Lambdas);
untagged($s, N, [Bits, _, _], T) when is_integer(Bits) -> string(N, (Bits + 7) div 8, T);
untagged($s, N, [Size], T) -> string(N, Size, T);
untagged($d, N, _, #t{debug = none}) -> N;
untagged($d, N, _, #t{debug = Items}) when N >= 1, N =< tuple_size(Items) ->
    {debug, N, element(N, Items)};
untagged(Role, N, _, _) when Role =/= $e, Role =/= $i, Role =/= $m, Role =/= $s, Role =/= $d ->
    N;
untagged(_, _, _, _) ->
    damaged(<<"Code">>, wrong_index).

number(Term) ->
    case whittle_beam_compact:number(Term) of
        error -> damaged(<<"Code">>, cut_off);
        Read -> Read
    end.

-spec damaged(whittle_beam:chunk_id(), atom()) -> no_return().
damaged(Where, Why) -> throw({?MODULE, {damaged, {Where, Why}}}).
