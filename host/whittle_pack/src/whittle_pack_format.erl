%% @hidden Encodes and decodes a pack: a compressed, checksummed, read-only file tree.
%%
%% docs/pack-format.md is the specification. The launcher reads the same bytes in C. {@link
%% decode/1} trusts nothing. It checks every length and path even if the checksum is right.
-module(whittle_pack_format).

-export([encode/1, decode/1, file/2, contents/1, check_paths/1]).

-export_type([file/0, entry/0, block/0, contents/0, error/0]).

-type file() :: #{path := binary(),       % below the virtual root, without a leading `/'
                  mode := 0..8#777,       % the lower nine bits of st_mode
                  bytes := binary()}.

-type entry() :: #{path := binary(),
                   mode := 0..8#777,
                   size := non_neg_integer(),    % bytes, inflated
                   block := non_neg_integer(),   % 0 is the start block
                   offset := non_neg_integer(),  % in the inflated block
                   is_all := boolean()}.         % it holds all other files of its block

-type block() :: #{stored := non_neg_integer(),  % bytes in the pack
                   raw := non_neg_integer(),     % bytes, inflated
                   data := binary()}.            % as stored

-type contents() :: #{size := pos_integer(),     % of the whole pack
                      index := non_neg_integer(),% stored bytes of the index
                      blocks := [block()],
                      entries := [entry()]}.     % in ascending order of path

-type error() :: {pack_damaged, atom()}    % the kind of damage
               | {pack_foreign, binary()}  % the first bytes: not a pack
               | {pack_path, {binary(), Why :: string()}}
               | {pack_too_large, non_neg_integer()} % bytes
               | whittle_pack_zstd:error().

-define(MAGIC, "Whittle", 1).
-define(HEADER, 32).
-define(BLOCK, 16).
-define(MAX, 16#ffffffff).

%% @doc Encodes blocks of files as a pack. The first block is the start block.
-spec encode([[file()]]) -> {ok, binary()} | {error, error()}.
encode([_ | _] = Blocks) ->
    {Entries, Raws} = place(Blocks),
    case check_paths([Path || #{path := Path} <- Entries]) of
        ok -> compress(Entries, Raws, [length(Files) || Files <- Blocks]);
        Error -> Error
    end.

%% @doc Decodes the files of a pack. It returns them by block, in their order in the block.
-spec decode(binary()) -> {ok, [[file()]]} | {error, error()}.
decode(Pack) ->
    maybe_ok(contents(Pack), fun(#{blocks := Blocks, entries := Entries}) ->
        maybe_ok(inflate(Blocks), fun(Raws) ->
            {ok, [files(Number, Raw, Entries)
                  || {Number, Raw} <- number(Raws)]}
        end)
    end).

%% @doc Reads one file of a pack, by path. It returns `none' if there is no such file. It inflates
%% only the block of that file.
-spec file(binary(), binary()) -> {ok, binary() | none} | {error, error()}.
file(Pack, Path) ->
    maybe_ok(contents(Pack), fun(#{blocks := Blocks, entries := Entries}) ->
        case [Entry || #{path := P} = Entry <- Entries, P =:= Path] of
            [#{block := Number, offset := Offset, size := Size}] ->
                maybe_ok(inflate([lists:nth(Number + 1, Blocks)]), fun([Raw]) ->
                    {ok, binary:part(Raw, Offset, Size)}
                end);
            [] ->
                {ok, none}
        end
    end).

%% @doc Reads the contents of a pack without inflating its blocks.
-spec contents(binary()) -> {ok, contents()} | {error, error()}.
contents(<<?MAGIC, Crc:32/little, Length:32/little, B:32/little, E:32/little,
           Stored:32/little, Raw:32/little, Rest/binary>> = Pack) ->
    <<_:12/binary, Summed/binary>> = Pack,
    case byte_size(Pack) =:= Length andalso erlang:crc32(Summed) =:= Crc of
        true -> tables(B, E, Stored, Raw, Rest, Length);
        false -> {error, {pack_damaged, checksum}}
    end;
contents(<<?MAGIC, _/binary>>) ->
    {error, {pack_damaged, truncated}};
contents(<<Start:8/binary, _/binary>>) ->
    {error, {pack_foreign, Start}};
contents(Short) when is_binary(Short) ->
    {error, {pack_foreign, Short}}.

%% Encoding

%% Places the files. The result is the index entries in ascending order of path, and the raw bytes
%% of each block. A first file that is the concatenation of all other files of its block takes no
%% bytes of its own if there are at least two others. A reader cannot
%% distinguish the first file from a single other one.
place(Blocks) ->
    Placed = [place_block(Number, Files) || {Number, Files} <- number(Blocks)],
    Order = fun(#{path := A}, #{path := B}) -> A =< B end,
    {lists:sort(Order, lists:append([Entries || {Entries, _} <- Placed])),
     [Raw || {_, Raw} <- Placed]}.

place_block(Number, [#{bytes := All} = First | Others] = Files) ->
    case [Bytes || #{bytes := Bytes} <- Others, Bytes =/= <<>>] of
        [_, _ | _] = Each ->
            case iolist_to_binary(Each) of
                All -> {[entry(Number, First, 0) | placed(Number, Others, 0)], All};
                Raw -> {placed(Number, Files, 0), <<All/binary, Raw/binary>>}
            end;
        Each ->
            {placed(Number, Files, 0), iolist_to_binary([All | Each])}
    end;
place_block(_, []) ->
    {[], <<>>}.

placed(Number, [#{bytes := Bytes} = File | Files], Offset) ->
    [entry(Number, File, Offset) | placed(Number, Files, Offset + byte_size(Bytes))];
placed(_, [], _) ->
    [].

entry(Number, #{path := Path, mode := Mode, bytes := Bytes}, Offset) ->
    #{path => Path, mode => Mode, size => byte_size(Bytes), block => Number, offset => Offset}.

compress(Entries, Raws, Counts) ->
    Index = iolist_to_binary([index_entry(Entry) || Entry <- Entries]),
    All = [Index | Raws],
    case lists:max([byte_size(Raw) || Raw <- All]) of
        Large when Large > ?MAX ->
            {error, {pack_too_large, Large}};
        _ ->
            maybe_ok(whittle_pack_zstd:compress(All), fun(Frames) ->
                [StoredIndex | Stored] = lists:zipwith(fun smaller/2, All, Frames),
                assemble(length(Entries), byte_size(Index), StoredIndex,
                         lists:zip3(Stored, Raws, Counts))
            end)
    end.

index_entry(#{path := Path, mode := Mode, block := Block, offset := Offset,
              size := Size}) ->
    <<(byte_size(Path)):16/little, Mode:16/little, Block:32/little,
      Offset:32/little, Size:32/little, Path/binary>>.

smaller(Raw, Frame) when byte_size(Frame) < byte_size(Raw) -> Frame;
smaller(Raw, _) -> Raw.

assemble(E, RawIndex, Index, Blocks) ->
    First = ?HEADER + ?BLOCK * length(Blocks) + byte_size(Index),
    Row = fun({Stored, Raw, Count}, Offset) ->
                  {<<Offset:32/little, (byte_size(Stored)):32/little,
                     (byte_size(Raw)):32/little, Count:32/little>>,
                   Offset + byte_size(Stored)}
          end,
    case lists:mapfoldl(Row, First, Blocks) of
        {_, Length} when Length > ?MAX ->
            {error, {pack_too_large, Length}};
        {Table, Length} ->
            Summed = iolist_to_binary(
                       [<<Length:32/little, (length(Blocks)):32/little,
                          E:32/little, (byte_size(Index)):32/little,
                          RawIndex:32/little>>,
                        Table, Index, [Stored || {Stored, _, _} <- Blocks]]),
            {ok, <<?MAGIC, (erlang:crc32(Summed)):32/little, Summed/binary>>}
    end.

%% Decoding

tables(B, E, Stored, Raw, Rest, Length) ->
    TableSize = B * ?BLOCK,
    case Rest of
        <<Table:TableSize/binary, Index:Stored/binary, Data/binary>> when B > 0 ->
            First = Length - byte_size(Data),
            maybe_ok(blocks(Table, First, Data), fun(Blocks) ->
                maybe_ok(index(E, Raw, Index, Blocks), fun(Entries) ->
                    {ok, #{size => Length, index => Stored,
                           blocks => [maps:remove(files, Block) || Block <- Blocks],
                           entries => Entries}}
                end)
            end);
        _ ->
            {error, {pack_damaged, block_table}}
    end.

blocks(<<>>, _, <<>>) ->
    {ok, []};
blocks(<<Offset:32/little, Stored:32/little, Raw:32/little, Files:32/little,
         Table/binary>>, Offset, Data) when Stored =< Raw ->
    case Data of
        <<Block:Stored/binary, Rest/binary>> ->
            maybe_ok(blocks(Table, Offset + Stored, Rest), fun(Blocks) ->
                {ok, [#{stored => Stored, raw => Raw, data => Block,
                        files => Files} | Blocks]}
            end);
        _ ->
            {error, {pack_damaged, block_table}}
    end;
blocks(_, _, _) ->
    {error, {pack_damaged, block_table}}.

index(E, Raw, Stored, Blocks) when byte_size(Stored) =< Raw ->
    maybe_ok(inflate([#{data => Stored, raw => Raw}]), fun([Index]) ->
        maybe_ok(entries(E, Index, []), fun(Read) ->
            Paths = [Path || #{path := Path} <- Read],
            Sound = check_paths(Paths) =:= ok andalso Paths =:= lists:usort(Paths),
            case marked(Read, Blocks) of
                {ok, Entries} when Sound -> {ok, Entries};
                _ -> {error, {pack_damaged, index}}
            end
        end)
    end);
index(_, _, _, _) ->
    {error, {pack_damaged, index}}.

entries(0, <<>>, Entries) ->
    {ok, lists:reverse(Entries)};
entries(E, <<P:16/little, Mode:16/little, Block:32/little, Offset:32/little,
             Size:32/little, Path:P/binary, Rest/binary>>, Entries)
  when E > 0, Mode =< 8#777 ->
    entries(E - 1, Rest, [#{path => Path, mode => Mode, size => Size,
                            block => Block, offset => Offset} | Entries]);
entries(_, _, _) ->
    {error, {pack_damaged, index}}.

%% Marks the entry that holds all others of its block. The files of a block lie one after the
%% other and fill the block exactly. One more file may span the whole block. It is the first file
%% of the block's size, if all files together are larger than the block. The function returns
%% `error' for any other layout.
marked(Entries, Blocks) ->
    ByBlock = maps:groups_from_list(fun(#{block := Number}) -> Number end, Entries),
    Wholes = [whole(maps:get(Number, ByBlock, []), Block) || {Number, Block} <- number(Blocks)],
    Known = lists:all(fun(Number) -> Number < length(Blocks) end, maps:keys(ByBlock)),
    case Known andalso not lists:member(error, Wholes) of
        true -> {ok, [Entry#{is_all => lists:member(Path, Wholes)}
                      || #{path := Path} = Entry <- Entries]};
        false -> error
    end.

%% Finds the path of the file that spans its whole block. The result is `none' if there is no such
%% file, and `error' for a damaged layout.
whole(Entries, #{raw := Raw, files := Count}) ->
    Places = lists:sort([{Offset, Size} || #{offset := Offset, size := Size} <- Entries]),
    Whole = case lists:sum([Size || {_, Size} <- Places]) > Raw of
                true -> [Path || #{path := Path, offset := 0, size := Size} <- Entries,
                                 Size =:= Raw];
                false -> []
            end,
    Each = case Whole of
               [_ | _] -> Places -- [{0, Raw}];
               [] -> Places
           end,
    case length(Places) =:= Count andalso fills(Each, 0, Raw) of
        true -> hd(Whole ++ [none]);
        false -> error
    end.

fills([{Offset, Size} | Places], Offset, Raw) -> fills(Places, Offset + Size, Raw);
fills(Places, Offset, Raw) -> Places =:= [] andalso Offset =:= Raw.

inflate(Blocks) ->
    Frames = [{Data, Raw} || #{data := Data, raw := Raw} <- Blocks,
                             byte_size(Data) < Raw],
    case whittle_pack_zstd:decompress(Frames) of
        {ok, Inflated} -> {ok, merge(Blocks, Inflated)};
        {error, {bad_frame, _}} -> {error, {pack_damaged, frame}};
        {error, _} = Error -> Error
    end.

merge([#{data := Data, raw := Raw} | Blocks], Inflated)
  when byte_size(Data) =:= Raw ->
    [Data | merge(Blocks, Inflated)];
merge([_ | Blocks], [Raw | Inflated]) ->
    [Raw | merge(Blocks, Inflated)];
merge([], []) ->
    [].

files(Number, Raw, Entries) ->
    InBlock = lists:sort([{not IsAll, Offset, Size, Path, Mode}
                          || #{block := Block, offset := Offset, size := Size, path := Path,
                               mode := Mode, is_all := IsAll} <- Entries,
                             Block =:= Number]),
    [#{path => Path, mode => Mode, bytes => binary:part(Raw, Offset, Size)}
     || {_, Offset, Size, Path, Mode} <- InBlock].

%% Both

%% @doc Checks that a pack or a directory can have these paths ({@link
%% whittle_file_name:check_paths/1}).
-spec check_paths([binary()]) -> ok | {error, {pack_path, {binary(), Why :: string()}}}.
check_paths(Paths) ->
    case whittle_file_name:check_paths(Paths) of
        ok -> ok;
        {error, Bad} -> {error, {pack_path, Bad}}
    end.

number(List) ->
    lists:zip(lists:seq(0, length(List) - 1), List).

maybe_ok({ok, Value}, Fun) -> Fun(Value);
maybe_ok({error, _} = Error, _) -> Error.
