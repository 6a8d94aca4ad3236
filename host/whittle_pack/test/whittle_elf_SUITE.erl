%% Tests ELF files of real compilers, and generated files for the other widths and byte orders.
-module(whittle_elf_SUITE).

-export([all/0]).
-export([real/1, stripped/1, large_pages/1, made_up/1, cut_anywhere/1, any_bytes/1,
         no_note/1, other_note_first/1, no_room/1, constants_like_a_pack/1, loaded_size/1,
         symbols_size/1, sum/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-define(PACK, <<"Whittle", 1, "the rest of a pack">>).

all() ->
    [real, stripped, large_pages, made_up, cut_anywhere, any_bytes, no_note,
     other_note_first, no_room, constants_like_a_pack, loaded_size, symbols_size, sum].

%% Real files: the kernel loads them, and the program sees its pack.

real(Config) -> runs("gcc", Config).

stripped(Config) -> runs("musl-gcc -static -s", Config).

large_pages(Config) -> runs("musl-gcc -static -Wl,-z,max-page-size=65536", Config).

runs(Compiler, Config) ->
    Probe = pack_samples:probe(Compiler, ?config(priv_dir, Config)),
    {ok, Before} = file:read_file(Probe),
    {ok, Io} = whittle_elf:attach(Before, ?PACK),
    After = iolist_to_binary(Io),
    ok = file:write_file(Probe, After),
    ?assertEqual("pack of 26 bytes at 0 mod 4096\n", os:cmd("'" ++ Probe ++ "'")),
    ?assertEqual(binary_to_list(?PACK), os:cmd("'" ++ Probe ++ "' dump")),
    ?assertEqual({ok, ?PACK}, whittle_elf:pack(After)),
    ?assertEqual({error, {elf_no_note, []}}, whittle_elf:attach(After, ?PACK)),
    %% binutils reports no error.
    ?assertEqual("", os:cmd("readelf -lhW '" ++ Probe ++ "' 2>&1 >/dev/null")).

%% Generated files have both widths and both byte orders, with any segments in order.
made_up(_) ->
    made:holds(400, elf(), fun(Elf) ->
        File = file(Elf),
        {ok, Io} = whittle_elf:attach(File, ?PACK),
        After = iolist_to_binary(Io),
        {ok, ?PACK} =:= whittle_elf:pack(After) andalso placed(Elf, File, After)
    end).

%% The other headers stay. The new one is the last of the loadable headers and lies above all of
%% them, at the end of the file. Its address agrees with its offset.
placed(#{class := Class, endian := Endian, segments := Segments}, File, After) ->
    Size = phdr_size(Class),
    Count = length(Segments),
    At = ehdr_size(Class),
    <<Head:At/binary, OldTable:(Size * Count)/binary, Tail/binary>> = File,
    <<Head:At/binary, Table:(Size * Count)/binary, Rest/binary>> = After,
    <<Tail:(byte_size(Tail))/binary, _/binary>> = Rest,
    Old = [read(Class, Endian, H) || <<H:Size/binary>> <= OldTable],
    New = [read(Class, Endian, H) || <<H:Size/binary>> <= Table],
    [#{offset := Offset, vaddr := Address, flags := 4, align := Align} = Load] = New -- Old,
    [#{type := 4}] = Old -- New,
    Loads = [H || #{type := 1} = H <- New],
    lists:last(Loads) =:= Load
        andalso New -- [Load] =:= Old -- [hd([H || #{type := 4} = H <- Old])]
        andalso Offset rem 4096 =:= 0 andalso Offset >= byte_size(File)
        andalso binary:part(After, Offset, byte_size(?PACK)) =:= ?PACK
        andalso Address rem Align =:= Offset rem Align
        andalso lists:all(fun(#{vaddr := V, memsz := M, align := A}) ->
                                  V + M =< Address andalso A =< Align
                          end, lists:droplast(Loads)).

%% Damage

cut_anywhere(_) ->
    made:holds(200, elf(), fun(Elf) ->
        {ok, Io} = whittle_elf:attach(file(Elf), ?PACK),
        After = iolist_to_binary(Io),
        lists:all(fun(Size) ->
                          case whittle_elf:pack(binary:part(After, 0, Size)) of
                              {error, {elf_damaged, _}} -> true;
                              {error, {elf_foreign, _}} -> Size < 4
                          end
                  end, lists:seq(0, 400) ++ [byte_size(After) - 1])
    end).

any_bytes(_) ->
    Change = {proper_types:range(0, 500), proper_types:byte()},
    made:holds(1000, {elf(), proper_types:boolean(), proper_types:list(Change)},
               fun({#{endian := Endian} = Elf0, HasSum, Changes}) ->
        Elf = case HasSum of
                  true -> Elf0#{notes := note_with_sum(Endian)};
                  false -> Elf0
              end,
        File = lists:foldl(fun put_byte/2, file(Elf), Changes),
        ok_or_error(whittle_elf:pack(File)) andalso ok_or_error(whittle_elf:attach(File, ?PACK))
    end),
    made:holds(300, proper_types:binary(), fun(Bytes) ->
        {error, _} = whittle_elf:pack(<<16#7f, "ELF", Bytes/binary>>),
        {error, _} = whittle_elf:pack(Bytes),
        true
    end).

ok_or_error({ok, _}) -> true;
ok_or_error({error, {Tag, _}}) -> is_atom(Tag).

%% The checksum shows every change within one word. The words have the byte order of the program.
%% entry_SUITE compares this checksum with the program's own.
sum(_) ->
    Words = proper_types:non_empty(proper_types:list(proper_types:range(0, 16#ffffffff))),
    made:holds(500, {Words, proper_types:binary(3), proper_types:range(1, 16#ffffffff),
                     proper_types:non_neg_integer()},
               fun({List, Rest, Change, N}) ->
        At = N rem length(List),
        {Before, [Word | After]} = lists:split(At, List),
        Of = fun(Endian, Numbers) ->
                     whittle_elf_sum:sum(Endian, [<<(words(Endian, 32, Numbers))/binary,
                                                    Rest/binary>>])
             end,
        Whole = length(List) rem 4 =:= 0,
        Of(little, List) =/= Of(little, Before ++ [Word bxor Change | After])
            andalso (not Whole orelse Of(little, List) =:= Of(big, List))
            andalso whittle_elf_sum:sum(big, [Rest, <<>>]) =:= whittle_elf_sum:sum(big, [Rest])
    end).

no_note(_) ->
    Other = file(#{class => 64, endian => little, notes => note(little, <<"GNU", 0>>, 3),
                   segments => [load(0, 16#1000, 4096), note]}),
    ?assertEqual({error, {elf_no_note, []}}, whittle_elf:attach(Other, ?PACK)),
    ?assertEqual({error, {elf_no_pack, []}}, whittle_elf:pack(Other)),
    {ok, Shell} = file:read_file("/bin/sh"),
    ?assertEqual({error, {elf_no_note, []}}, whittle_elf:attach(Shell, ?PACK)).

%% ld merges notes of one alignment like this.
other_note_first(_) ->
    Notes = [note(little, <<"GNU", 0>>, 5), note(little, <<"Whittle", 0>>, 1)],
    File = file(#{class => 64, endian => little, notes => iolist_to_binary(Notes),
                  segments => [load(0, 16#1000, 4096), note]}),
    ?assertMatch({ok, _}, whittle_elf:attach(File, ?PACK)),
    Type2 = note(little, <<"Whittle", 0>>, 2),
    ?assertEqual({error, {elf_no_note, []}},
                 whittle_elf:attach(file(#{class => 64, endian => little, notes => Type2,
                                           segments => [load(0, 16#1000, 4096), note]}), ?PACK)).

no_room(_) ->
    Top = #{class => 32, endian => big, notes => ours(big),
            segments => [load(16#fffff000, 16#1000, 4096), note]},
    ?assertEqual({error, {elf_no_room, 16#100000000}}, whittle_elf:attach(file(Top), ?PACK)).

%% A read-only segment that begins with the magic is not a pack if another segment follows it.
constants_like_a_pack(Config) ->
    Probe = pack_samples:probe("musl-gcc -static", ?config(priv_dir, Config)),
    {ok, Bytes} = file:read_file(Probe),
    ?assertNotEqual(nomatch, binary:match(Bytes, <<"Whittle", 1>>)),
    ?assertEqual({error, {elf_no_pack, []}}, whittle_elf:pack(Bytes)).

%% Debug information does not count. The size after strip differs by the section table and its
%% names.
loaded_size(Config) ->
    Dir = ?config(priv_dir, Config),
    Size = fun(Compiler) ->
                   {ok, Bytes} = file:read_file(pack_samples:probe(Compiler, Dir)),
                   {ok, Loaded} = whittle_elf:loaded_size(Bytes),
                   {byte_size(Bytes), Loaded}
           end,
    {Stripped, Loaded} = Size("musl-gcc -static -s"),
    {Debug, Loaded} = Size("musl-gcc -static -g"),
    ?assert(Loaded < Stripped andalso Stripped < Loaded + 2048 andalso Stripped < Debug),
    ?assertEqual({error, {elf_foreign, <<"text">>}}, whittle_elf:loaded_size(<<"text">>)).

%% A strip that keeps nothing but the symbols removes the rest of a file with debug information.
symbols_size(Config) ->
    Dir = ?config(priv_dir, Config),
    Read = fun(Compiler) ->
                   {ok, Bytes} = file:read_file(pack_samples:probe(Compiler, Dir)),
                   Bytes
           end,
    Stripped = Read("musl-gcc -static -s"),
    Plain = Read("musl-gcc -static -Wl,--strip-debug"),
    ?assertEqual({ok, 0}, whittle_elf:symbols_size(Stripped)),
    {ok, Symbols} = whittle_elf:symbols_size(Plain),
    Difference = byte_size(Plain) - byte_size(Stripped),
    ?assert(Symbols > 1000 andalso Symbols =< Difference andalso Difference < Symbols + 512),
    ?assertEqual({error, {elf_foreign, <<"text">>}}, whittle_elf:symbols_size(<<"text">>)).

%% Generated ELF files

elf() ->
    proper_types:bind(
      {proper_types:oneof([32, 64]), proper_types:oneof([little, big]),
       proper_types:non_empty(proper_types:list({proper_types:range(0, 100000),
                                                 proper_types:range(0, 12)})),
       proper_types:range(0, 10), proper_types:boolean()},
      fun({Class, Endian, Gaps, NoteAt, Other}) ->
              {Loads, _} = lists:mapfoldl(fun segment/2, 16#10000, Gaps),
              {Before, After} = lists:split(min(NoteAt, length(Loads)), Loads),
              Stack = [(load(0, 0, 16))#{type => 16#6474e551} || Other],
              #{class => Class, endian => Endian, notes => ours(Endian),
                segments => Stack ++ Before ++ [note] ++ After ++ Stack}
      end, false).

segment({Size, Bits}, Address) ->
    Align = 1 bsl (4 + Bits),
    Start = (Address + Align - 1) div Align * Align,
    {load(Start, Size, Align), Start + Size}.

load(Address, Size, Align) ->
    #{type => 1, flags => 6, offset => 0, vaddr => Address, paddr => Address,
      filesz => 0, memsz => Size, align => Align}.

ours(Endian) -> note(Endian, <<"Whittle", 0>>, 1).

note_with_sum(Endian) ->
    <<(words(Endian, 32, [8, 8, 1]))/binary, "Whittle", 0, (words(Endian, 32, [1, 0]))/binary>>.

note(Endian, Owner, Type) ->
    <<(words(Endian, 32, [byte_size(Owner), 4, Type]))/binary, Owner/binary, 0:32>>.

%% The notes follow the headers, and a few bytes follow the notes.
file(#{class := Class, endian := Endian, notes := Notes, segments := Segments}) ->
    Phoff = ehdr_size(Class),
    Offset = Phoff + length(Segments) * phdr_size(Class),
    Headers = [phdr(Class, Endian,
                    case Segment of
                        note -> (load(0, byte_size(Notes), 4))
                                    #{type => 4, flags => 4, offset => Offset,
                                      filesz => byte_size(Notes)};
                        _ -> Segment
                    end) || Segment <- Segments],
    Data = case Endian of little -> 1; big -> 2 end,
    iolist_to_binary(
      [<<16#7f, "ELF", (Class div 32), Data, 1, 0:72>>,
       words(Endian, 16, [2, 8]), words(Endian, 32, [1]),
       words(Endian, Class, [0, Phoff, 0]), words(Endian, 32, [0]),
       words(Endian, 16, [Phoff, phdr_size(Class), length(Segments), 0, 0, 0]),
       Headers, Notes, "the program itself"]).

ehdr_size(64) -> 64;
ehdr_size(32) -> 52.

phdr_size(64) -> 56;
phdr_size(32) -> 32.

fields(64) -> [type, flags, offset, vaddr, paddr, filesz, memsz, align];
fields(32) -> [type, offset, vaddr, paddr, filesz, memsz, flags, align].

width(Class, Field) ->
    case Field of
        type -> 32;
        flags -> 32;
        _ -> Class
    end.

phdr(Class, Endian, Header) ->
    << <<(words(Endian, width(Class, Field), [maps:get(Field, Header)]))/binary>>
       || Field <- fields(Class) >>.

read(Class, Endian, Bytes) ->
    {Values, <<>>} =
        lists:mapfoldl(fun(Field, Rest) ->
                               Size = width(Class, Field) div 8,
                               <<Word:Size/binary, More/binary>> = Rest,
                               {{Field, binary:decode_unsigned(Word, Endian)}, More}
                       end, Bytes, fields(Class)),
    maps:from_list(Values).

words(little, Bits, Words) -> << <<Word:Bits/little>> || Word <- Words >>;
words(big, Bits, Words) -> << <<Word:Bits/big>> || Word <- Words >>.

put_byte({At, Byte}, Bytes) when At < byte_size(Bytes) ->
    <<Before:At/binary, _, After/binary>> = Bytes,
    <<Before/binary, Byte, After/binary>>;
put_byte(_, Bytes) ->
    Bytes.
