%% @hidden Puts a pack into an ELF executable and finds it there again.
%%
%% The executable carries a note of owner `Whittle', type 1. This module turns the program header
%% of that note into a read-only PT_LOAD for the pack and appends the pack to the file. It adds no
%% header and moves nothing that is loaded, and the kernel maps the pack with the program. The
%% note has room for a checksum of the VM's own bytes. The VM checks it at its start. The module
%% handles 32-bit and 64-bit files of both byte orders, with and without section headers.
%%
%% The layout follows chapters 4 and 5 of the System V ABI and `elf(5)'.
-module(whittle_elf).

-export([attach/2, pack/1, loaded_size/1, program/1, symbols_size/1]).

-export_type([error/0, program/0]).

-type program() ::
        #{processor := {Machine :: non_neg_integer(), 32 | 64, little | big},
          loader := binary() | none}.          % the path that the kernel starts; none: static

-type error() :: {elf_foreign, binary()}   % the first bytes: not an ELF file
               | {elf_damaged, atom()}     % the kind of damage
               | {elf_no_note, []}         % not a Whittle runtime
               | {elf_no_pack, []}         % a runtime without a pack
               | {elf_no_room, non_neg_integer()}. % the address that the pack needs

%% The byte order, and the width of an address in bits.
-record(elf, {endian :: little | big,
              width :: 32 | 64,
              phoff :: non_neg_integer(),      % where the program headers are
              phdrs :: [phdr()]}).

-type phdr() :: #{type := non_neg_integer(), flags := non_neg_integer(),
                  offset := non_neg_integer(), vaddr := non_neg_integer(),
                  paddr := non_neg_integer(), filesz := non_neg_integer(),
                  memsz := non_neg_integer(), align := non_neg_integer()}.

%% A static program that runs at any address has the type of a library.
-define(ET_EXEC, 2).
-define(ET_DYN, 3).
-define(PT_LOAD, 1).
-define(PT_INTERP, 3).
-define(PT_NOTE, 4).
-define(PF_R, 4).
-define(SHT_SYMTAB, 2).
-define(SHT_NOBITS, 8).
-define(PAGE, 4096).

%% @doc Puts a pack into an executable. The pack begins at a multiple of 4096 in the file. In
%% memory it lies above everything else.
-spec attach(binary(), binary()) -> {ok, iolist()} | {error, error()}.
attach(File, Pack) ->
    case read(File) of
        {ok, Elf} ->
            case [{Phdr, At} || Phdr <- Elf#elf.phdrs, At <- note(Phdr, Elf, File)] of
                [{Note, At} | _] ->
                    {Filled, FilledElf} = fill_last_page(At, File, Elf),
                    Others = lists:delete(Note, FilledElf#elf.phdrs),
                    summed(At, place(Filled, Pack, FilledElf, Others), FilledElf);
                [] ->
                    {error, {elf_no_note, []}}
            end;
        Error -> Error
    end.

%% @doc Finds the bytes of the pack in an executable. It checks everything in front of the pack
%% with the checksum of the VM, and refuses a file with bytes after the pack. The pack has a
%% checksum of its own, which {@link whittle_pack_format:contents/1} checks.
-spec pack(binary()) -> {ok, binary()} | {error, error()}.
pack(File) ->
    case read(File) of
        {ok, #elf{phdrs = Phdrs} = Elf} ->
            %% Only the last segment counts. The constants of a program can begin with the magic
            %% too, as in the test program of this module.
            Last = lists:last([none | [Phdr || #{type := ?PT_LOAD} = Phdr <- Phdrs]]),
            case Last =/= none andalso segment(Last, File) of
                {ok, <<"Whittle", _/binary>> = Pack} -> alone(Last, Pack, File, Elf);
                {ok, _} -> {error, {elf_no_pack, []}};
                _ -> {error, {elf_damaged, truncated}}
            end;
        Error -> Error
    end.

alone(#{offset := Offset, filesz := Size}, Pack, File, Elf) ->
    case Offset + Size =:= byte_size(File) andalso vm(binary:part(File, 0, Offset), File, Elf) of
        false -> {error, {elf_damaged, appended}};
        ok -> {ok, Pack};
        Error -> Error
    end.

%% @doc Measures an executable up to the end of its loaded bytes. This is the size without symbols
%% and debug information, except for a few headers.
-spec loaded_size(binary()) -> {ok, non_neg_integer()} | {error, error()}.
loaded_size(File) ->
    case read(File) of
        {ok, #elf{phdrs = Phdrs}} ->
            {ok, lists:max([0 | [Offset + Size || #{type := ?PT_LOAD, offset := Offset,
                                                    filesz := Size} <- Phdrs]])};
        Error -> Error
    end.

%% @doc Reads which processor a program is for, and which loader of shared libraries it needs. The
%% result is `none' for any other file. A shared library has no loader.
-spec program(binary()) -> {ok, program()} | none.
program(File) ->
    case read(File) of
        {ok, #elf{endian = Endian, width = Width, phdrs = Phdrs}} ->
            <<_:16/binary, Type:2/binary, Machine:2/binary, _/binary>> = File,
            Loaders = [hd(binary:split(Path, <<0>>))
                       || #{type := ?PT_INTERP} = Phdr <- Phdrs,
                          {ok, Path} <- [segment(Phdr, File)]],
            Loader = hd(Loaders ++ [none]),
            case int(Endian, Type) of
                Kind when Kind =:= ?ET_EXEC; Kind =:= ?ET_DYN ->
                    {ok, #{processor => {int(Endian, Machine), Width, Endian}, loader => Loader}};
                _ -> none
            end;
        {error, _} -> none
    end.

%% @doc Measures the table of symbols and its names. It is 0 for a stripped file.
-spec symbols_size(binary()) -> {ok, non_neg_integer()} | {error, error()}.
symbols_size(File) ->
    case read(File) of
        {ok, Elf} ->
            Sections = sections(File, Elf),
            {ok, lists:sum([Size + lists:nth(Link + 1, Sizes)
                            || Sizes <- [[Each || #{size := Each} <- Sections]],
                               #{type := ?SHT_SYMTAB, size := Size, link := Link} <- Sections,
                               Link < length(Sizes)])};
        Error -> Error
    end.

sections(File, #elf{width = Width, endian = Endian}) ->
    Bytes = Width div 8,
    TableAt = 24 + 2 * Bytes,
    case File of
        <<_:TableAt/binary, Table:Bytes/binary, _:10/binary, SizeField:2/binary,
          CountField:2/binary, _/binary>> ->
            [Start, Size, Count] = [int(Endian, Field)
                                    || Field <- [Table, SizeField, CountField]],
            case File of
                <<_:Start/binary, Headers:(Size * Count)/binary, _/binary>>
                  when Start > 0, Size >= 16 + 6 * Bytes ->
                    [section(Header, Bytes, Endian) || <<Header:Size/binary>> <= Headers];
                _ -> []
            end;
        _ -> []
    end.

%% The fields are name, type, flags, address, offset, size, link.
section(Header, Bytes, Endian) ->
    Skipped = 3 * Bytes,
    <<_:4/binary, Type:4/binary, _:Skipped/binary, Size:Bytes/binary, Link:4/binary, _/binary>> =
        Header,
    #{type => int(Endian, Type), size => int(Endian, Size), link => int(Endian, Link)}.

%% Placing

place(File, Pack, #elf{width = Width} = Elf, Others) ->
    Loads = [Phdr || #{type := ?PT_LOAD} = Phdr <- Others],
    Align = lists:max([?PAGE | [A || #{align := A} <- Loads]]),
    End = lists:max([0 | [V + M || #{vaddr := V, memsz := M} <- Loads]]),
    Offset = round_up(byte_size(File), ?PAGE),
    %% mmap requires the address and the offset to be equal modulo the alignment.
    Address = round_up(End, Align) + Offset rem Align,
    Size = byte_size(Pack),
    case Address + Size =< 1 bsl Width andalso is_sorted(Loads) of
        true ->
            Load = #{type => ?PT_LOAD, flags => ?PF_R, offset => Offset,
                     vaddr => Address, paddr => Address, filesz => Size,
                     memsz => Size, align => Align},
            Table = iolist_to_binary([write_phdr(Phdr, Elf)
                                      || Phdr <- insert(Load, Others)]),
            At = Elf#elf.phoff,
            <<Head:At/binary, _:(byte_size(Table))/binary, Tail/binary>> = File,
            {ok, [Head, Table, Tail,
                  binary:copy(<<0>>, Offset - byte_size(File)), Pack]};
        false when Address + Size > 1 bsl Width ->
            {error, {elf_no_room, Address}};
        false ->
            {error, {elf_damaged, segment_order}}
    end.

%% Inserts the new segment after the last loadable one, because the kernel requires them in
%% ascending order of address.
insert(Load, Phdrs) ->
    {After, Before} = lists:splitwith(fun(#{type := Type}) -> Type =/= ?PT_LOAD end,
                                      lists:reverse(Phdrs)),
    lists:reverse(Before, [Load | lists:reverse(After)]).

is_sorted(Loads) ->
    Addresses = [V || #{vaddr := V} <- Loads],
    Addresses =:= lists:sort(Addresses).

round_up(N, Align) -> (N + Align - 1) div Align * Align.

%% Notes

%% Finds the note of Whittle. Linkers put several notes of one alignment under one header. The
%% other notes are for tools, and stay in the file without the header. The result says where the
%% file has room for the checksum of the VM, or `none' for a VM that checks nothing.
note(#{type := ?PT_NOTE, align := Align, offset := Offset} = Phdr, #elf{endian = Endian}, File) ->
    case segment(Phdr, File) of
        {ok, Notes} when Align =:= 8 -> note(Endian, 8, Notes, Offset);
        {ok, Notes} -> note(Endian, 4, Notes, Offset);
        error -> []
    end;
note(_, _, _) ->
    [].

note(Endian, Align, <<Head:12/binary, Rest/binary>> = Notes, Offset) ->
    [NameSize, DescSize, Type] = [int(Endian, Word) || <<Word:4/binary>> <= Head],
    Description = round_up(12 + NameSize, Align),
    Size = round_up(Description + DescSize, Align),
    case Rest of
        <<"Whittle", 0, _/binary>> when NameSize =:= 8, Type =:= 1 ->
            [case DescSize of
                 8 when byte_size(Notes) >= Description + 8 -> Offset + Description + 4;
                 _ -> none
             end];
        _ when Size < byte_size(Notes) ->
            <<_:Size/binary, More/binary>> = Notes,
            note(Endian, Align, More, Offset + Size);
        _ ->
            []
    end;
note(_, _, _, _) ->
    [].

%% The VM's own bytes

%% Fills the file up to the end of the page that the data ends in. Before the program runs, the
%% kernel clears the rest of the last page of the data. It ends the program with SIGSEGV if the
%% file ends before that page. A full page leaves nothing to clear, so the program can report that
%% its file is truncated. Section headers follow in the file.
fill_last_page(none, File, Elf) ->
    {File, Elf};
fill_last_page(_, File, #elf{phdrs = Phdrs} = Elf) ->
    case [Phdr || #{type := ?PT_LOAD} = Phdr <- Phdrs] of
        [] -> {File, Elf};
        Loads -> fill(lists:last(Loads), Loads, File, Elf)
    end.

fill(#{vaddr := Address, offset := Offset, filesz := Size, memsz := Memory} = Last, Loads, File,
     #elf{phdrs = Phdrs} = Elf) ->
    Fill = round_up(Address + Size, ?PAGE) - (Address + Size),
    End = Offset + Size,
    IsLast = End =< byte_size(File)
        andalso lists:all(fun(#{offset := O, filesz := S}) -> O + S =< End end, Loads),
    case IsLast andalso Memory > Size andalso Size > 0 andalso Fill > 0
        andalso moved_sections(End, Fill, File, Elf) of
        false ->
            {File, Elf};
        <<Before:End/binary, After/binary>> ->
            New = Last#{filesz := Size + Fill, memsz := max(Memory, Size + Fill)},
            {<<Before/binary, 0:Fill/unit:8, After/binary>>,
             Elf#elf{phdrs = [case Phdr of
                                  Last -> New;
                                  %% On riscv64 this header belongs to a section that is not
                                  %% loaded.
                                  #{offset := O} when O >= End -> Phdr#{offset := O + Fill};
                                  _ -> Phdr
                              end || Phdr <- Phdrs]}}
    end.

%% Updates the section headers for a file in which everything after End moves by Fill bytes. The
%% function returns `false' if the section headers do not lie after End.
moved_sections(End, Fill, File, #elf{width = Width, endian = Endian}) ->
    Bytes = Width div 8,
    TableAt = 24 + 2 * Bytes,
    <<_:TableAt/binary, Table:Bytes/binary, _:10/binary, SizeField:2/binary, CountField:2/binary,
      _/binary>> = File,
    [Start, Size, Count] = [int(Endian, Field) || Field <- [Table, SizeField, CountField]],
    case Start of
        0 -> File;
        _ when Start >= End, Size >= 8 + 3 * Bytes,
               Start + Size * Count =< byte_size(File) ->
            <<Before:Start/binary, Headers:(Size * Count)/binary, After/binary>> = File,
            New = [moved_section(Header, End, Fill, Width, Endian)
                   || <<Header:Size/binary>> <= Headers],
            Moved = iolist_to_binary([Before, New, After]),
            <<Head:TableAt/binary, _:Bytes/binary, Rest/binary>> = Moved,
            iolist_to_binary([Head, words(Endian, Bytes, [Start + Fill]), Rest]);
        _ -> false
    end.

%% .bss takes no space in the file, whatever its offset is.
moved_section(Header, End, Fill, Width, Endian) ->
    Bytes = Width div 8,
    OffsetAt = 8 + 2 * Bytes,
    <<_:4/binary, Type:4/binary, _/binary>> = Header,
    <<Head:OffsetAt/binary, Field:Bytes/binary, Rest/binary>> = Header,
    case {int(Endian, Type), int(Endian, Field)} of
        {?SHT_NOBITS, _} -> Header;
        {_, Offset} when Offset < End -> Header;
        {_, Offset} -> [Head, words(Endian, Bytes, [Offset + Fill]), Rest]
    end.

%% Checks the VM with the checksum in its note. The note has no program header any more, because
%% the pack took it, so this function searches the bytes before the pack for it.
vm(Before, File, #elf{endian = Endian} = Elf) ->
    [Full, Empty] = [[At + byte_size(Note) || {At, _} <- binary:matches(Before, Note)]
                     || Note <- notes(Endian)],
    case [At || At <- Full, At + 4 =< byte_size(Before), is_sound(At, File, Elf)] of
        [_ | _] -> ok;
        [] when Full =:= [], Empty =/= [] -> ok;
        [] -> {error, {elf_damaged, vm_checksum}}
    end.

%% The bytes of a note in front of its checksum, and a whole note without room for a checksum.
notes(Endian) ->
    Note = fun(Size) -> [words(Endian, 4, [8, Size, 1]), "Whittle", 0] end,
    [iolist_to_binary([Note(8), words(Endian, 4, [0, 1])]), iolist_to_binary(Note(4))].

%% 0 marks a VM without a checksum, as in the launcher.
is_sound(At, File, #elf{endian = Endian} = Elf) ->
    <<_:At/binary, Field:4/binary, _/binary>> = File,
    case int(Endian, Field) of
        0 -> true;
        Sum -> vm_sum(At, File, Elf) =:= {ok, Sum}
    end.

%% Writes the checksum of the VM into its note.
summed(At, {ok, Io}, _) when is_integer(At) ->
    File = iolist_to_binary(Io),
    {ok, #elf{endian = Endian} = Elf} = read(File),
    case vm_sum(At, File, Elf) of
        {ok, Sum} ->
            <<Before:At/binary, _:4/binary, After/binary>> = File,
            {ok, [Before, words(Endian, 4, [Sum]), After]};
        error ->
            {error, {elf_damaged, truncated}}
    end;
summed(_, Placed, _) ->
    Placed.

%% Computes the checksum of all bytes that the kernel maps, except the pack and the checksum itself.
vm_sum(At, File, #elf{endian = Endian, phdrs = Phdrs}) ->
    Loads = lists:droplast([Phdr || #{type := ?PT_LOAD} = Phdr <- Phdrs]),
    case lists:all(fun(Load) -> segment(Load, File) =/= error end, Loads) of
        true ->
            {ok, whittle_elf_sum:sum(Endian,
                                     [binary:part(File, From, Size)
                                      || #{offset := Offset, filesz := Filesz} <- Loads,
                                         {From, Size} <- without(At, Offset, Offset + Filesz)])};
        false ->
            error
    end.

without(At, From, End) when From =< At, At + 4 =< End ->
    [{From, At - From}, {At + 4, End - At - 4}];
without(_, From, End) ->
    [{From, End - From}].

%% Reading

read(<<16#7f, "ELF", Class, Data, 1, _/binary>> = File)
  when Class >= 1, Class =< 2, Data >= 1, Data =< 2 ->
    Width = 32 * Class,
    Endian = element(Data, {little, big}),
    %% The code skips from e_phoff over e_shoff, e_flags and e_ehsize to e_phentsize and e_phnum.
    PhoffAt = 24 + Width div 8,
    SizesAt = PhoffAt + 2 * Width div 8 + 6,
    Bytes = Width div 8,
    case File of
        <<_:PhoffAt/binary, Phoff:Bytes/binary, _/binary>>
          when byte_size(File) >= SizesAt + 4 ->
            <<_:SizesAt/binary, EntSize:2/binary, Num:2/binary, _/binary>> = File,
            Elf = #elf{endian = Endian, width = Width,
                       phoff = int(Endian, Phoff), phdrs = []},
            read_phdrs(File, Elf, int(Endian, EntSize), int(Endian, Num));
        _ ->
            {error, {elf_damaged, header}}
    end;
read(<<16#7f, "ELF", _/binary>>) ->
    {error, {elf_damaged, header}};
read(<<Start:4/binary, _/binary>>) ->
    {error, {elf_foreign, Start}};
read(Short) when is_binary(Short) ->
    {error, {elf_foreign, Short}}.

read_phdrs(File, #elf{phoff = At} = Elf, EntSize, Num) ->
    Size = EntSize * Num,
    case File of
        <<_:At/binary, Table:Size/binary, _/binary>> when Num > 0, Num < 16#ffff ->
            case EntSize =:= phdr_size(Elf) of
                true ->
                    Phdrs = [read_phdr(Phdr, Elf)
                             || <<Phdr:EntSize/binary>> <= Table],
                    check_loads(Elf#elf{phdrs = Phdrs});
                false ->
                    {error, {elf_damaged, program_header_size}}
            end;
        _ ->
            {error, {elf_damaged, program_headers}}
    end.

%% Checks that each alignment is a power of two and at most 16 MB. The values 0 and 1 mean no
%% alignment.
check_loads(#elf{phdrs = Phdrs} = Elf) ->
    Bad = [A || #{type := ?PT_LOAD, align := A} <- Phdrs,
                A band (A - 1) =/= 0 orelse A > 16#1000000],
    case Bad of
        [] -> {ok, Elf};
        _ -> {error, {elf_damaged, alignment}}
    end.

phdr_size(#elf{width = 64}) -> 56;
phdr_size(#elf{width = 32}) -> 32.

read_phdr(<<Type:4/binary, Flags:4/binary, Rest/binary>>,
          #elf{width = 64, endian = Endian}) ->
    [Offset, Vaddr, Paddr, Filesz, Memsz, Align] =
        [int(Endian, Word) || <<Word:8/binary>> <= Rest],
    #{type => int(Endian, Type), flags => int(Endian, Flags), offset => Offset,
      vaddr => Vaddr, paddr => Paddr, filesz => Filesz, memsz => Memsz,
      align => Align};
read_phdr(Phdr, #elf{width = 32, endian = Endian}) ->
    [Type, Offset, Vaddr, Paddr, Filesz, Memsz, Flags, Align] =
        [int(Endian, Word) || <<Word:4/binary>> <= Phdr],
    #{type => Type, flags => Flags, offset => Offset, vaddr => Vaddr,
      paddr => Paddr, filesz => Filesz, memsz => Memsz, align => Align}.

write_phdr(#{type := Type, flags := Flags, offset := Offset, vaddr := Vaddr,
             paddr := Paddr, filesz := Filesz, memsz := Memsz, align := Align},
           #elf{width = Width, endian = Endian}) ->
    Addresses = [Offset, Vaddr, Paddr, Filesz, Memsz],
    case Width of
        64 -> [words(Endian, 4, [Type, Flags]),
               words(Endian, 8, Addresses ++ [Align])];
        32 -> words(Endian, 4, [Type | Addresses] ++ [Flags, Align])
    end.

segment(#{offset := Offset, filesz := Size}, File) ->
    case File of
        <<_:Offset/binary, Data:Size/binary, _/binary>> -> {ok, Data};
        _ -> error
    end.

int(Endian, Bytes) -> binary:decode_unsigned(Bytes, Endian).

words(little, Size, Words) -> [<<Word:Size/little-unit:8>> || Word <- Words];
words(big, Size, Words) -> [<<Word:Size/big-unit:8>> || Word <- Words].
