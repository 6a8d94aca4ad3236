%% @doc What is written in compact terms: the instructions that a module uses, and
%% its table of lines.
%%
%% The `Code' chunk is a list of instructions, each an opcode and its operands
%% as compact terms (`lib/compiler/src/beam_asm.erl' writes them). Their operand
%% counts never change: a changed instruction gets a new number.
-module(whittle_beam_code).

-export([opcodes/1, newest_otp/1, dropped/1, without_directories/1]).

-type opcode() :: pos_integer().

%% Operands of each instruction from 1 on: lib/compiler/src/genop.tab of OTP 29.
-define(ARITIES,
        "13023223245232321100002112444444444443333333222222"
        "22222223331212333332110113222555421122555210122444"
        "43121112635122357775322562222134086265454543333301"
        "17155233400222343224312111630153246243635").

%% @doc The opcodes that a `Code' chunk uses, ascending; `error' if it holds what
%% is no instruction.
-spec opcodes(binary()) -> {ok, [opcode()]} | error.
opcodes(<<Size:32, _:Size/binary, Code/binary>>) ->
    try
        {ok, lists:sort(maps:keys(walk(Code, list_to_tuple(?ARITIES), #{})))}
    catch
        throw:{?MODULE, damaged} -> error
    end;
opcodes(_) ->
    error.

%% @doc The OTP release that brought an instruction.
-spec newest_otp(opcode()) -> pos_integer().
newest_otp(Opcode) ->
    %% The highest instruction of each release, from genop.tab.
    Table = [{176, 24}, {180, 25}, {182, 26}, {183, 27}, {184, 28}, {191, 29}],
    case [Release || {Last, Release} <- Table, Opcode =< Last] of
        [Release | _] -> Release;
        [] -> 30
    end.

%% @doc The instructions that the loader of an OTP release no longer takes: those
%% that are marked as obsolete in its genop.tab. 26 and 28 are taken for 27 and
%% 29, which at worst refuses what would have gone.
-spec dropped(Otp :: pos_integer()) -> [opcode()].
dropped(Otp) ->
    Before25 = lists:seq(27, 38) ++ [54, 68, 70, 71, 76] ++ lists:seq(79, 88)
        ++ [93, 110, 116, 122, 123, 126, 127, 128, 130],
    Until27 = [14, 15, 17, 94, 95, 103, 150, 151],
    Until29 = [89, 90, 91, 92, 109, 111, 131, 134, 135, 137, 144, 145, 146, 147, 148],
    Before25 ++ [Op || Otp >= 26, Op <- Until27] ++ [Op || Otp >= 28, Op <- Until29].

%% @doc A `Line' chunk in which each source file that is named by an absolute path
%% has its last part only, as the option `deterministic' of the compiler names it.
%% What is no such chunk is left as it is: it carries no instruction.
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

%% Internal

%% Each is a line; where it is in another file than the one before, the file's
%% number (tag 2) stands before it.
skip_lines(0, Rest) -> Rest;
skip_lines(Lines, <<_:5, 2:3, _/binary>> = File) ->
    {_, Line} = number(File),
    skip_lines(Lines, Line);
skip_lines(Lines, Line) ->
    {_, Rest} = number(Line),
    skip_lines(Lines - 1, Rest).

walk(<<3, _/binary>>, _, Seen) ->               % int_code_end
    Seen;
walk(<<Opcode, Rest/binary>>, Arities, Seen)
  when Opcode >= 1, Opcode =< tuple_size(Arities) ->
    Operands = skip(element(Opcode, Arities) - $0, Rest),
    case Seen of
        #{Opcode := _} -> walk(Operands, Arities, Seen);
        #{} -> walk(Operands, Arities, Seen#{Opcode => []})
    end;
walk(_, _, _) ->
    throw({?MODULE, damaged}).

%% The first two clauses take nearly all operands, without building anything.
skip(0, Rest) -> Rest;
skip(N, <<_:4, 0:1, Tag:3, Rest/binary>>) when Tag =/= 7 -> skip(N - 1, Rest);
skip(N, <<_:3, 1:2, Tag:3, _, Rest/binary>>) when Tag =/= 7 -> skip(N - 1, Rest);
skip(N, Rest) -> skip(N - 1, skip_operand(Rest)).

%% Tag 7 is extended; the higher bits say how.
skip_operand(<<1:4, 7:4, Rest/binary>>) ->              % list
    {Size, Terms} = number(Rest),
    skip(Size, Terms);
skip_operand(<<3:4, 7:4, Rest/binary>>) ->              % allocation list
    {Size, Pairs} = number(Rest),
    skip(2 * Size, Pairs);
skip_operand(<<5:4, 7:4, Rest/binary>>) ->              % register with type
    skip(2, Rest);
skip_operand(<<Kind:4, 7:4, Rest/binary>>) when Kind =:= 2; Kind =:= 4 ->
    skip(1, Rest);                                      % float register, literal
skip_operand(Operand) ->
    {_, Rest} = number(Operand),
    Rest.

%% A tagged number: 4 bits, 11 bits, or a count of bytes and those.
number(<<Value:4, 0:1, Tag:3, Rest/binary>>) when Tag =/= 7 ->
    {Value, Rest};
number(<<High:3, 1:2, _:3, Low, Rest/binary>>) ->
    {High bsl 8 bor Low, Rest};
number(<<7:3, 3:2, _:3, Rest/binary>>) ->
    {More, Bytes} = number(Rest),
    bytes(More + 9, Bytes);
number(<<Count:3, 3:2, _:3, Rest/binary>>) ->
    bytes(Count + 2, Rest);
number(_) ->
    throw({?MODULE, damaged}).

bytes(Size, Bytes) ->
    case Bytes of
        <<Value:Size/unit:8, Rest/binary>> -> {Value, Rest};
        _ -> throw({?MODULE, damaged})
    end.
