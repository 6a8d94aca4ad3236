%% @hidden Assembles a module into a BEAM file, with new tables for what its functions refer to.
%%
%% Like OTP's compiler, it adds an entry to a table at the first reference to it, and it numbers
%% labels from the first function on. So an unchanged module of OTP's compiler has the same bytes,
%% and entries without a reference disappear.
-module(whittle_beam_asm).

-export([module/2]).

-export_type([options/0]).

-type options() ::
        #{literals => keep | deflated | stored | plain, % `plain' needs OTP 28; `stored' is
                                                % for older releases; default: keep
          types => keep | drop}.                % hints to the JIT; default: keep

%% The tables so far, each entry with its index.
-record(d, {names :: #{whittle_beam_op:name() => tuple()},
            module :: module(),             % the module of the functions
            from = none :: none | {atom(), arity()}, % the present function
            labels = #{} :: #{pos_integer() => pos_integer()},
            entries :: #{{atom(), arity()} => pos_integer()},
            max :: non_neg_integer(),
            debug :: #{pos_integer() => pos_integer()},
            items = [] :: [{pos_integer(), list()}],
            lines :: none | #{tuple() => pos_integer()},
            types :: none | drop | #{binary() => non_neg_integer()},
            files = #{module => 0} :: #{module | binary() => non_neg_integer()},
            atoms :: #{atom() => pos_integer()},
            imports = #{} :: #{tuple() => non_neg_integer()},
            literals = #{} :: #{binary() => non_neg_integer()},
            lambdas = #{} :: #{tuple() => non_neg_integer()},
            places = #{<<>> => 0} :: #{binary() => non_neg_integer()},
            strings = <<>> :: binary()}).

%% No compiler writes this many bytes of strings, but a damaged file can ask for any amount.
-define(MAX_STRINGS, 16 * 1024 * 1024).

%% @doc Assembles the BEAM file.
-spec module(options(), whittle_beam_module:t()) ->
          {ok, binary()} | {error, whittle_beam:error()}.
module(Options, Module) ->
    try
        {ok, put_together(Options, Module)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Internal functions: the file

put_together(Options, #{module := Module, functions := Functions, records := Records,
                        form := #{chunks := Chunks} = Form} = Value) ->
    Shapes = [shape(Function) || Function <- Functions],
    {Placed, LabelCount} = place(lists:zip(Functions, Shapes), 1, []),
    D0 = #d{names = whittle_beam_op:names(), module = maps:get(part_of, Value, Module),
            entries = maps:from_list([{key(Function), Info + 1}
                                      || {Function, _, Info} <- Placed]),
            max = maps:get(max_opcode, Form),
            debug = ranks(lists:append([Debug || {_, _, Debug} <- Shapes])),
            lines = case Form of #{lines := none} -> none; _ -> #{} end,
            types = case {Options, Form} of
                        {#{types := drop}, _} -> drop;
                        {_, #{types := none}} -> none;
                        {_, #{types := {_, Any}}} -> #{Any => 0}
                    end,
            atoms = #{Module => 1}},
    Keys = lists:map(fun key/1, Functions),
    map_size(D0#d.entries) =:= length(Keys) orelse
        throw({?MODULE, {function_twice, hd(Keys -- lists:usort(Keys))}}),
    {Code, D1} = functions(Placed, D0, []),
    D2 = rest_of_lambdas(Functions, aliases(Functions, D1)),
    {Debug, D3} = debug(D2),
    {Recs, D} = records(Records, D3),
    Tables = #{<<"Code">> => <<16:32, 0:32, (D#d.max):32, LabelCount:32,
                               (length(Functions)):32, Code/binary>>,
               <<"StrT">> => D#d.strings,
               <<"ImpT">> => imports(D),
               <<"ExpT">> => entries(exports(Functions), D),
               <<"LocT">> => entries([{F, Function} || #{name := F, exported := false} = Function
                                                           <- Functions], D),
               <<"FunT">> => lambdas(Functions, D),
               <<"LitT">> => literals(Options, Form, D),
               <<"AtU8">> => atoms(Form, D),
               <<"Line">> => lines(Form, lists:sum([Lines || {_, Lines, _} <- Shapes]), D),
               <<"Type">> => types(Form, D),
               <<"DbgB">> => case Form of #{debug := true} -> Debug; _ -> keep end,
               <<"Recs">> => Recs},
    whittle_beam_form:write(with_added(Tables, rewritten(Tables, Chunks))).

%% Replaces the old tables and removes the empty ones.
rewritten(Tables, Chunks) ->
    [case Tables of
         #{Id := New} when is_binary(New) -> {Id, New};
         #{} -> {Id, Data}
     end || {Id, Data} <- Chunks, maps:get(Id, Tables, keep) =/= none].

%% Adds the lambdas or literals of a module that had none.
with_added(Tables, Chunks) ->
    Added = [{Id, New} || Id <- [<<"FunT">>, <<"LitT">>], not lists:keymember(Id, 1, Chunks),
                          New <- [maps:get(Id, Tables)], New =/= none],
    {Before, After} = lists:splitwith(fun({Id, _}) -> Id =/= <<"ExpT">> end, Chunks),
    Before ++ [hd(After) | Added] ++ tl(After).

key(#{name := Name, arity := Arity}) -> {Name, Arity}.

%% Returns a function's labels in order, its number of lines, and its debug items.
shape(#{line := Line, code := Code}) ->
    shape(Code, [], case Line of none -> 0; _ -> 1 end, []).

shape([{label, [Label]} | Code], Labels, Lines, Debug) ->
    shape(Code, [Label | Labels], Lines, Debug);
shape([{line, _} | Code], Labels, Lines, Debug) ->
    shape(Code, Labels, Lines + 1, Debug);
shape([{executable_line, _} | Code], Labels, Lines, Debug) ->
    shape(Code, Labels, Lines + 1, Debug);
shape([{debug_line, [_, _, {debug, Index, _}, _]} | Code], Labels, Lines, Debug) ->
    shape(Code, Labels, Lines + 1, [Index | Debug]);
shape([{debug_line, _} | Code], Labels, Lines, Debug) ->
    shape(Code, Labels, Lines + 1, Debug);
shape([_ | Code], Labels, Lines, Debug) ->
    shape(Code, Labels, Lines, Debug);
shape([], Labels, Lines, Debug) ->
    {lists:reverse(Labels), Lines, Debug}.

%% Assigns to each function its labels and the new number of the first label.
place([{Function, {Labels, _, _}} | More], Next, Placed) ->
    place(More, Next + 2 + length(Labels), [{Function, Labels, Next} | Placed]);
place([], Next, Placed) ->
    {lists:reverse(Placed), Next}.

ranks(Indexes) ->
    maps:from_list([{Index, Rank} || {Rank, Index} <- lists:enumerate(lists:usort(Indexes))]).

%% Internal functions: tables

atoms(#{atoms := Form}, #d{atoms = Atoms}) ->
    Names = [atom_to_binary(Atom) || Atom <- by_index(Atoms)],
    Count = length(Names),
    case Form =:= short andalso lists:all(fun(Name) -> byte_size(Name) < 256 end, Names) of
        true ->
            iolist_to_binary([<<Count:32>> | [[byte_size(Name), Name] || Name <- Names]]);
        false ->
            bytes(lists:foldl(fun(Name, Out) ->
                                      [Name | whittle_beam_compact:put(0, byte_size(Name), Out)]
                              end, [<<(-Count):32>>], Names))
    end.

imports(#d{imports = Imports, atoms = Atoms}) ->
    iolist_to_binary([<<(map_size(Imports)):32>> |
                      [<<(map_get(M, Atoms)):32, (map_get(F, Atoms)):32, A:32>>
                       || {extfunc, M, F, A} <- by_index(Imports)]]).

%% Exports functions by their own names and by their aliases.
exports(Functions) ->
    [{F, Function} || #{name := F, exported := true} = Function <- Functions]
        ++ [{Alias, Function} || #{alias := Alias} = Function <- Functions].

%% The compiler writes these entries in reverse order.
entries(Named, #d{atoms = Atoms, entries = Entries}) ->
    iolist_to_binary([<<(length(Named)):32>> |
                      [<<(map_get(As, Atoms)):32, A:32, (map_get({F, A}, Entries)):32>>
                       || {As, #{name := F, arity := A}} <- lists:reverse(Named)]]).

lambdas(_, #d{lambdas = None}) when None =:= #{} -> none;
lambdas(Functions, #d{lambdas = Lambdas, atoms = Atoms, entries = Entries}) ->
    Known = maps:from_list([{{lambda, F, A, Index}, Lambda}
                            || #{name := F, arity := A, lambdas := Made} <- Functions,
                               #{index := Index} = Lambda <- Made]),
    iolist_to_binary(
      [<<(map_size(Lambdas)):32>> |
       [case Known of
            #{Operand := #{free := Free, uniq := Uniq}} ->
                <<(map_get(F, Atoms)):32, A:32, (map_get({F, A}, Entries)):32, Index:32,
                  Free:32, Uniq:32>>;
            #{} -> throw({?MODULE, {no_lambda, {F, A, Index}}})
        end || {lambda, F, A, Index} = Operand <- by_index(Lambdas)]]).

aliases(Functions, D) ->
    lists:foldl(fun(Alias, Each) -> element(2, atom(Alias, Each)) end, D,
                [Alias || #{alias := Alias} <- Functions]).

%% A lambda stays as long as its function: its fun may come from outside.
rest_of_lambdas(Functions, D) ->
    lists:foldl(fun({F, A, #{index := Index}}, #d{lambdas = Lambdas} = Each) ->
                        Operand = {lambda, F, A, Index},
                        case Lambdas of
                            #{Operand := _} -> Each;
                            #{} -> Each#d{lambdas = Lambdas#{Operand => map_size(Lambdas)}}
                        end
                end, D, [{F, A, Lambda} || #{name := F, arity := A, lambdas := Made} <- Functions,
                                           Lambda <- Made]).

literals(_, _, #d{literals = None}) when None =:= #{} -> none;
literals(Options, Form, #d{literals = Literals}) ->
    Plain = iolist_to_binary([<<(map_size(Literals)):32>> |
                              [[<<(byte_size(Term)):32>>, Term] || Term <- by_index(Literals)]]),
    case {maps:get(literals, Options, keep), Form} of
        {plain, _} -> <<0:32, Plain/binary>>;
        {keep, #{literals := plain}} -> <<0:32, Plain/binary>>;
        {keep, #{literals := none, atoms := long}} -> <<0:32, Plain/binary>>;
        {stored, _} -> <<(byte_size(Plain)):32, (whittle_beam_form:stored(Plain))/binary>>;
        _ -> <<(byte_size(Plain)):32, (zlib:compress(Plain))/binary>>
    end.

lines(_, _, #d{lines = none}) -> keep;
lines(#{lines := Flags}, Count, #d{lines = Lines, files = Files}) ->
    [module | Names] = by_index(Files),
    Items = items([{map_get(File, Files), Line} || {location, File, Line} <- by_index(Lines)],
                  0, []),
    iolist_to_binary([<<0:32, Flags:32, Count:32, (map_size(Lines)):32, (length(Names)):32>>,
                      bytes(Items), [[<<(byte_size(Name)):16>>, Name] || Name <- Names]]).

items([{File, Line} | More], File, Out) ->
    items(More, File, whittle_beam_compact:put(1, Line, Out));
items([{File, _} | _] = Items, _, Out) ->
    items(Items, File, whittle_beam_compact:put(2, File, Out));
items([], _, Out) -> Out.

types(_, #d{types = none}) -> keep;
types(_, #d{types = drop}) -> none;
types(#{types := {Version, _}}, #d{types = Types}) ->
    iolist_to_binary([<<Version:32, (map_size(Types)):32>> | by_index(Types)]).

%% The atoms and literals of the debug chunk come last.
debug(#d{items = Items} = D) ->
    Instructions = lists:append([Item || {_, Item} <- lists:sort(Items)]),
    {Out, Done} = code(Instructions, D#d{from = none, labels = #{}}, []),
    Terms = lists:sum([length(List) || {call, [_, {list, List}]} <- Instructions]),
    {<<1:32, (length(Items)):32, Terms:32, (bytes(Out))/binary>>, Done}.

records([], D) -> {none, D};
records(Records, D) ->
    {Out, Done} = code(Records, D#d{from = none, labels = #{}}, []),
    Fields = lists:sum([length(List) div 2 || {_, [_, _, {list, List}]} <- Records]),
    {<<0:32, (length(Records)):32, Fields:32, (bytes(Out))/binary>>, Done}.

by_index(Table) ->
    [Key || {_, Key} <- lists:sort([{Index, Key} || {Key, Index} <- maps:to_list(Table)])].

bytes(Reversed) -> iolist_to_binary(lists:reverse(Reversed)).

%% Internal functions: instructions

functions([{Function, Labels, Info} | More], D0, Out0) ->
    #{name := F, arity := A, line := Line, info := OldInfo, entry := OldEntry,
      code := Code} = Function,
    Numbers = lists:zip([OldInfo, OldEntry | Labels], lists:seq(Info, Info + 1 + length(Labels))),
    {_, D1} = atom(F, D0#d{from = {F, A}, labels = maps:from_list(Numbers)}),
    map_size(D1#d.labels) =:= length(Numbers) orelse throw({?MODULE, {label_twice, {F, A}}}),
    Head = [{label, [OldInfo]}] ++ [{line, [Line]} || Line =/= none]
        ++ [{func_info, [{atom, D1#d.module}, {atom, F}, A]}, {label, [OldEntry]}],
    {Out1, D2} = code(Head, D1, Out0),
    {Out2, D} = code(Code, D2, Out1),
    functions(More, D, Out2);
functions([], D, Out) ->
    {bytes([3 | Out]), D}.                      % int_code_end

code([{label, [Label]} | Code], #d{labels = Labels} = D, Out) ->
    code(Code, D, whittle_beam_compact:put(0, map_get(Label, Labels), [1 | Out]));
code([{Name, Operands} | Code], #d{names = Names, max = Max} = D, Out) ->
    case Names of
        #{Name := {Opcode, Roles}} when length(Operands) =:= length(Roles), Opcode =< Max ->
            operands(Operands, Code, D, [Opcode | Out]);
        #{Name := {Opcode, Roles}} when length(Operands) =:= length(Roles) ->
            operands(Operands, Code, D#d{max = Opcode}, [Opcode | Out]);
        #{} ->
            error({no_instruction, {D#d.from, {Name, Operands}}})
    end;
code([], D, Out) ->
    {Out, D}.

operands([{x, N} | More], Code, D, Out) when N < 16 ->
    operands(More, Code, D, [N bsl 4 bor 3 | Out]);
operands([{y, N} | More], Code, D, Out) when N < 16 ->
    operands(More, Code, D, [N bsl 4 bor 4 | Out]);
operands([N | More], Code, D, Out) when is_integer(N) ->
    operands(More, Code, D, whittle_beam_compact:put(0, N, Out));
operands([{f, 0} | More], Code, D, Out) ->
    operands(More, Code, D, [5 | Out]);
operands([{f, Label} | More], Code, #d{labels = Labels} = D, Out) ->
    case Labels of
        #{Label := New} -> operands(More, Code, D, whittle_beam_compact:put(5, New, Out));
        #{} -> throw({?MODULE, {no_label, {D#d.from, Label}}})
    end;
operands([{local, F, A} | More], Code, D, Out) ->
    operands(More, Code, D, whittle_beam_compact:put(5, entry(F, A, D), Out));
operands([{atom, Atom} | More], Code, D0, Out) ->
    {Index, D} = atom(Atom, D0),
    operands(More, Code, D, whittle_beam_compact:put(2, Index, Out));
operands([{tr, Register, Type} | More], Code, D, Out) ->
    typed(Register, Type, More, Code, D, Out);
operands([{extfunc, M, F, _} = Import | More], Code, #d{imports = Imports} = D0, Out) ->
    case Imports of
        #{Import := Index} ->
            operands(More, Code, D0, whittle_beam_compact:put(0, Index, Out));
        #{} ->
            {_, D1} = atom(M, D0),
            {_, D} = atom(F, D1),
            Index = map_size(Imports),
            operands(More, Code, D#d{imports = Imports#{Import => Index}},
                     whittle_beam_compact:put(0, Index, Out))
    end;
operands([{literal, Term} | More], Code, #d{literals = Literals} = D, Out) ->
    case Literals of
        #{Term := Index} ->
            operands(More, Code, D, whittle_beam_compact:put(0, Index, [16#47 | Out]));
        #{} ->
            Index = map_size(Literals),
            operands(More, Code, D#d{literals = Literals#{Term => Index}},
                     whittle_beam_compact:put(0, Index, [16#47 | Out]))
    end;
operands([{list, List} | More], Code, D, Out) ->
    operands(List ++ More, Code, D, whittle_beam_compact:put(0, length(List), [16#17 | Out]));
operands([nil | More], Code, D, Out) ->
    operands(More, Code, D, [2 | Out]);
operands([{integer, N} | More], Code, D, Out) ->
    operands(More, Code, D, whittle_beam_compact:put(1, N, Out));
operands([{x, N} | More], Code, D, Out) ->
    operands(More, Code, D, whittle_beam_compact:put(3, N, Out));
operands([{y, N} | More], Code, D, Out) ->
    operands(More, Code, D, whittle_beam_compact:put(4, N, Out));
operands([{location, _, _} = Location | More], Code, D0, Out) ->
    {Index, D} = line(Location, D0),
    operands(More, Code, D, whittle_beam_compact:put(0, Index, Out));
operands([{string, String} | More], Code, D0, Out) ->
    {Offset, D} = string(String, D0),
    operands(More, Code, D, whittle_beam_compact:put(0, Offset, Out));
operands([{lambda, F, A, _} = Lambda | More], Code, #d{lambdas = Lambdas} = D, Out) ->
    _ = entry(F, A, D),
    case Lambdas of
        #{Lambda := Index} ->
            operands(More, Code, D, whittle_beam_compact:put(0, Index, Out));
        #{} ->
            Index = map_size(Lambdas),
            operands(More, Code, D#d{lambdas = Lambdas#{Lambda => Index}},
                     whittle_beam_compact:put(0, Index, Out))
    end;
operands([{fr, N} | More], Code, D, Out) ->
    operands(More, Code, D, whittle_beam_compact:put(0, N, [16#27 | Out]));
operands([{alloc, Needs} | More], Code, D, Out) ->
    Numbers = lists:append([[kind(Kind), N] || {Kind, N} <- Needs]),
    operands(Numbers ++ More, Code, D,
             whittle_beam_compact:put(0, length(Needs), [16#37 | Out]));
operands([{debug, Index, Item} | More], Code, #d{debug = Ranks, items = Items} = D, Out) ->
    #{Index := Rank} = Ranks,
    operands(More, Code, D#d{items = [{Rank, Item} | Items]},
             whittle_beam_compact:put(0, Rank, Out));
operands([], Code, D, Out) ->
    code(Code, D, Out).

typed(Register, _, More, Code, #d{types = drop} = D, Out) ->
    operands([Register | More], Code, D, Out);
typed(Register, Type, More, Code, #d{types = Types} = D, Out) ->
    case Types of
        none -> operands([Register, Type | More], Code, D, [16#57 | Out]);
        #{Type := Index} -> operands([Register, Index | More], Code, D, [16#57 | Out]);
        #{} ->
            Index = map_size(Types),
            operands([Register, Index | More], Code, D#d{types = Types#{Type => Index}},
                     [16#57 | Out])
    end.

entry(F, A, #d{entries = Entries, from = From}) ->
    case Entries of
        #{{F, A} := Label} -> Label;
        #{} -> throw({?MODULE, {missing, {From, {F, A}}}})
    end.

atom(Atom, #d{atoms = Atoms} = D) ->
    case Atoms of
        #{Atom := Index} -> {Index, D};
        #{} ->
            Index = map_size(Atoms) + 1,
            {Index, D#d{atoms = Atoms#{Atom => Index}}}
    end.

line(_, #d{lines = none} = D) -> {0, D};
line({location, File, _} = Location, #d{lines = Lines, files = Files} = D) ->
    case Lines of
        #{Location := Index} -> {Index, D};
        #{} ->
            Index = map_size(Lines) + 1,
            {Index, D#d{lines = Lines#{Location => Index},
                        files = case Files of
                                    #{File := _} -> Files;
                                    #{} -> Files#{File => map_size(Files)}
                                end}}
    end.

%% Finds a string among the strings, or appends it.
string(String, #d{places = Places, strings = Strings} = D) ->
    case Places of
        #{String := Offset} -> {Offset, D};
        #{} ->
            case binary:match(Strings, String) of
                {Offset, _} -> {Offset, D#d{places = Places#{String => Offset}}};
                nomatch ->
                    Offset = byte_size(Strings),
                    Offset + byte_size(String) =< ?MAX_STRINGS orelse
                        throw({?MODULE, {damaged, {<<"StrT">>, too_large}}}),
                    %% Do not record the offset: together with the bytes before it, a later
                    %% search may find the string at a smaller offset.
                    {Offset, D#d{strings = <<Strings/binary, String/binary>>}}
            end
    end.

kind(words) -> 0;
kind(floats) -> 1;
kind(funs) -> 2.
