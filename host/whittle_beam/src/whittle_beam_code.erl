%% @hidden Reads facts from compact terms without disassembling them.
%%
%% The facts are the instructions that a module uses, the places of its functions, and its table
%% of lines. The `Code' chunk is a list of instructions; each is an opcode with its operands as
%% compact terms. A function starts with a label, perhaps a line, `func_info' and its entry's
%% label. It ends where the next function starts.
-module(whittle_beam_code).

-export([opcodes/1, functions/1, without_directories/1]).

-export_type([slice/0]).

-type slice() ::
        #{info := pos_integer(),                % label before func_info
          entry := pos_integer(),               % label after func_info
          line := none | non_neg_integer(),     % operand of the line before func_info
          name := pos_integer(),                % index of an atom
          module := pos_integer(),
          arity := non_neg_integer(),
          low := pos_integer(),                 % smallest and largest label in it
          high := pos_integer(),
          body := binary()}.                    % the instructions after the entry

%% @doc Lists the opcodes that a `Code' chunk uses, in ascending order.
%%
%% It returns `error' if the chunk contains an invalid instruction.
-spec opcodes(binary()) -> {ok, [whittle_beam_op:opcode()]} | error.
opcodes(<<Size:32, _:Size/binary, Code/binary>>) ->
    try
        {ok, lists:sort(maps:keys(walk(Code, whittle_beam_op:table(), #{})))}
    catch
        throw:{?MODULE, damaged} -> error
    end;
opcodes(_) ->
    error.

%% @doc Lists the functions of a `Code' chunk, in its order.
%%
%% It returns `error' if the chunk is not a list of functions.
-spec functions(binary()) -> {ok, [slice()]} | error.
functions(<<Size:32, _:Size/binary, Code/binary>>) ->
    try
        {ok, slices(Code, Code, whittle_beam_op:table(), none, [])}
    catch
        throw:{?MODULE, damaged} -> error
    end;
functions(_) ->
    error.

%% @doc Shortens each absolute path of a source file in a `Line' chunk to its last part.
%%
%% The compiler's option `deterministic' has the same effect. A binary that is not such a chunk
%% stays unchanged, because it has no influence on the instructions.
-spec without_directories(binary()) -> binary().
without_directories(<<0:32, _Flags:32, _Instructions:32, Lines:32, Count:32,
                      Rest/binary>> = Chunk) ->
    try skip_lines(Lines, Rest) of
        Names ->
            Files = [Name || <<Size:16, Name:Size/binary>> <= Names],
            Head = binary:part(Chunk, 0, byte_size(Chunk) - byte_size(Names)),
            case length(Files) =:= Count
                andalso iolist_size(Files) + 2 * Count =:= byte_size(Names) of
                true -> iolist_to_binary([Head | [file_name(File) || File <- Files]]);
                false -> Chunk
            end
    catch
        throw:{?MODULE, damaged} -> Chunk
    end;
without_directories(Chunk) ->
    Chunk.

file_name(<<$/, _/binary>> = Path) -> counted(lists:last(binary:split(Path, <<"/">>, [global])));
file_name(Name) -> counted(Name).

counted(Name) -> [<<(byte_size(Name)):16>>, Name].

%% Internal functions

%% Skips lines. If a line is in another file than the line before, the number of the file (tag 2)
%% comes before it.
skip_lines(0, Rest) -> Rest;
skip_lines(Lines, <<_:5, 2:3, _/binary>> = File) ->
    {_, Line} = number(File),
    skip_lines(Lines, Line);
skip_lines(Lines, Line) ->
    {_, Rest} = number(Line),
    skip_lines(Lines - 1, Rest).

walk(<<3, _/binary>>, _, Seen) ->               % int_code_end
    Seen;
walk(<<Opcode, Rest/binary>>, Ops, Seen) ->
    Operands = skip_operands(Opcode, Rest, Ops),
    case Seen of
        #{Opcode := _} -> walk(Operands, Ops, Seen);
        #{} -> walk(Operands, Ops, Seen#{Opcode => []})
    end;
walk(_, _, _) ->
    damaged().

%% Walking backwards from the end of the code would not be easier: the length of an instruction
%% is known only from its start.
slices(<<1, Operand/binary>> = Here, Code, Ops, Open, Done) ->
    {Label, Rest} = number(Operand),
    case header(Rest) of
        {Function, Body} ->
            Start = Function#{info => Label, low => Label,
                              high => max(Label, maps:get(entry, Function)), body => Body},
            slices(Body, Code, Ops, Start, close(Open, byte_size(Here), Done));
        none when Open =/= none ->
            #{low := Low, high := High} = Open,
            Wider = if
                        Label > High -> Open#{high := Label};
                        Label < Low -> Open#{low := Label};
                        true -> Open
                    end,
            slices(Rest, Code, Ops, Wider, Done);
        none ->
            damaged()
    end;
slices(<<3, _/binary>> = Here, _, _, Open, Done) ->
    lists:reverse(close(Open, byte_size(Here), Done));
slices(<<Opcode, Rest/binary>>, Code, Ops, Open, Done) when Open =/= none ->
    slices(skip_operands(Opcode, Rest, Ops), Code, Ops, Open, Done);
slices(_, _, _, _, _) ->
    damaged().

close(none, _, Done) -> Done;
close(#{body := Body} = Open, Left, Done) ->
    [Open#{body := binary:part(Body, 0, byte_size(Body) - Left)} | Done].

%% Reads the instructions after the label before func_info.
header(<<153, Operand/binary>>) ->              % line
    case number(Operand) of
        {Line, <<2, _/binary>> = FuncInfo} -> func_info(FuncInfo, Line);
        _ -> none
    end;
header(<<2, _/binary>> = FuncInfo) -> func_info(FuncInfo, none);
header(_) -> none.

func_info(<<2, Module/binary>>, Line) ->
    {M, Name} = tagged(2, Module),
    {F, Arity} = tagged(2, Name),
    {A, Next} = tagged(0, Arity),
    case Next of
        <<1, Label/binary>> ->
            {Entry, Body} = tagged(0, Label),
            {#{line => Line, module => M, name => F, arity => A, entry => Entry}, Body};
        _ -> damaged()
    end.

tagged(Tag, <<_:5, Tag:3, _/binary>> = Term) -> number(Term);
tagged(_, _) -> damaged().

skip_operands(Opcode, Rest, Ops) when Opcode >= 1, Opcode =< tuple_size(Ops) ->
    {_, Roles} = element(Opcode, Ops),
    skip(Roles, Rest);
skip_operands(_, _, _) ->
    damaged().

%% The first two clauses take nearly all operands and allocate nothing.
skip([], Rest) -> Rest;
skip([_ | More], <<Byte, Rest/binary>>) when Byte band 8 =:= 0, Byte band 7 =/= 7 ->
    skip(More, Rest);
skip([_ | More], <<Byte, _, Rest/binary>>) when Byte band 16 =:= 0, Byte band 7 =/= 7 ->
    skip(More, Rest);
skip([_ | More], Rest) -> skip(More, skip_operand(Rest)).

%% Skips as many operands as the list has.
skip_list(0, Rest) -> Rest;
skip_list(N, <<Byte, Rest/binary>>) when Byte band 8 =:= 0, Byte band 7 =/= 7 ->
    skip_list(N - 1, Rest);
skip_list(N, <<Byte, _, Rest/binary>>) when Byte band 16 =:= 0, Byte band 7 =/= 7 ->
    skip_list(N - 1, Rest);
skip_list(N, Rest) -> skip_list(N - 1, skip_operand(Rest)).

%% Tag 7 is the extended tag; the higher bits select its kind.
skip_operand(<<1:4, 7:4, Rest/binary>>) ->              % list
    {Size, Terms} = number(Rest),
    skip_list(Size, Terms);
skip_operand(<<3:4, 7:4, Rest/binary>>) ->              % allocation list
    {Size, Pairs} = number(Rest),
    skip_list(2 * Size, Pairs);
skip_operand(<<5:4, 7:4, Rest/binary>>) ->              % register with type
    skip_list(2, Rest);
skip_operand(<<Kind:4, 7:4, Rest/binary>>) when Kind =:= 2; Kind =:= 4 ->
    skip_list(1, Rest);                                 % float register, literal
skip_operand(Operand) ->
    {_, Rest} = number(Operand),
    Rest.

number(Term) ->
    case whittle_beam_compact:number(Term) of
        error -> damaged();
        Read -> Read
    end.

-spec damaged() -> no_return().
damaged() -> throw({?MODULE, damaged}).
