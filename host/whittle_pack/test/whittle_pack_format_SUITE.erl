%% Tests docs/pack-format.md, byte by byte.
-module(whittle_pack_format_SUITE).

-export([all/0]).
-export([layout/1, empty/1, round_trip/1, one_file/1, contents_without_blocks/1,
         file_of_files/1, any_byte/1,
         any_length/1, foreign/1, bad_paths/1, lies/1, not_compressible/1]).

-include_lib("stdlib/include/assert.hrl").

all() ->
    [layout, empty, round_trip, one_file, contents_without_blocks, file_of_files, any_byte,
     any_length,
     foreign, bad_paths, lies, not_compressible].

%% The specification gives this pack of files that do not compress.
layout(_) ->
    Index = <<1:16/little, 8#755:16/little, 0:32/little, 1:32/little, 2:32/little, "a",
              3:16/little, 8#644:16/little, 0:32/little, 0:32/little, 1:32/little, "b/c",
              3:16/little, 8#600:16/little, 1:32/little, 0:32/little, 1:32/little, "b/d">>,
    First = 32 + 2 * 16 + byte_size(Index),
    Table = <<First:32/little, 3:32/little, 3:32/little, 2:32/little,
              (First + 3):32/little, 1:32/little, 1:32/little, 1:32/little>>,
    Pack = pack_samples:pack(2, 3, byte_size(Index), Table, Index, <<"Zyxw">>),
    Files = [[file(<<"b/c">>, 8#644, <<"Z">>), file(<<"a">>, 8#755, <<"yx">>)],
             [file(<<"b/d">>, 8#600, <<"w">>)]],
    ?assertEqual({ok, Files}, whittle_pack_format:decode(Pack)),
    ?assertEqual({ok, <<"yx">>}, whittle_pack_format:file(Pack, <<"a">>)),
    %% The encoder may compress the index. The decoded files are the same.
    {ok, Encoded} = whittle_pack_format:encode(Files),
    ?assertEqual({ok, Files}, whittle_pack_format:decode(Encoded)).

empty(_) ->
    {ok, Pack} = whittle_pack_format:encode([[]]),
    ?assertEqual(32 + 16, byte_size(Pack)),
    ?assertEqual({ok, [[]]}, whittle_pack_format:decode(Pack)).

round_trip(_) ->
    made:holds(100, pack_samples:blocks(), fun(Blocks) ->
        {ok, Pack} = whittle_pack_format:encode(Blocks),
        {ok, Decoded} = whittle_pack_format:decode(Pack),
        %% Only empty files may have changed places.
        Filled = fun(Files) -> [F || #{bytes := <<_, _/binary>>} = F <- Files] end,
        lists:map(fun lists:sort/1, Decoded) =:= lists:map(fun lists:sort/1, Blocks)
            andalso lists:map(Filled, Decoded) =:= lists:map(Filled, Blocks)
            andalso {ok, Pack} =:= whittle_pack_format:encode(Blocks)
    end).

one_file(_) ->
    {ok, Pack} = whittle_pack_format:encode(sample()),
    [?assertEqual({ok, Bytes}, whittle_pack_format:file(Pack, Path))
     || Block <- sample(), #{path := Path, bytes := Bytes} <- Block],
    ?assertEqual({ok, none}, whittle_pack_format:file(Pack, <<"none">>)).

contents_without_blocks(_) ->
    {ok, Pack} = whittle_pack_format:encode(sample()),
    {ok, #{size := Size, index := Index, blocks := Blocks, entries := Entries}} =
        whittle_pack_format:contents(Pack),
    ?assertEqual(byte_size(Pack), Size),
    ?assertEqual(Size, 32 + 16 * 3 + Index + lists:sum([S || #{stored := S} <- Blocks])),
    ?assertEqual([5000, 0, 3], [Raw || #{raw := Raw} <- Blocks]),
    ?assertEqual([#{path => <<"a">>, mode => 8#644, size => 5000, block => 0, offset => 0,
                    is_all => false},
                  #{path => <<"b">>, mode => 8#755, size => 3, block => 2, offset => 0,
                    is_all => false}],
                 Entries).

%% A first file that is the concatenation of all other files of its block takes no space of its
%% own.
file_of_files(_) ->
    Files = [#{path => <<"all">>, mode => 8#644, bytes => <<"abcd">>},
             #{path => <<"a">>, mode => 8#644, bytes => <<"ab">>},
             #{path => <<"b">>, mode => 8#755, bytes => <<"cd">>}],
    {ok, Pack} = whittle_pack_format:encode([Files]),
    ?assertEqual({ok, [Files]}, whittle_pack_format:decode(Pack)),
    {ok, #{blocks := [#{raw := Raw}], entries := Entries}} = whittle_pack_format:contents(Pack),
    ?assertEqual(4, Raw),
    ?assertEqual([{<<"a">>, 0, false}, {<<"all">>, 0, true}, {<<"b">>, 2, false}],
                 [{Path, Offset, IsAll}
                  || #{path := Path, offset := Offset, is_all := IsAll} <- Entries]).

%% Damage covers every bit of every byte of a small pack, and every length.
any_byte(_) ->
    {ok, Pack} = whittle_pack_format:encode(sample()),
    [?assertMatch({error, {Tag, _}} when Tag =:= pack_damaged; Tag =:= pack_foreign,
                  whittle_pack_format:decode(pack_samples:flip(At, Bit, Pack)))
     || At <- lists:seq(0, byte_size(Pack) - 1), Bit <- lists:seq(0, 7)],
    ok.

any_length(_) ->
    {ok, Pack} = whittle_pack_format:encode(sample()),
    [?assertMatch({error, {Tag, _}} when Tag =:= pack_damaged; Tag =:= pack_foreign,
                  whittle_pack_format:decode(binary:part(Pack, 0, Size)))
     || Size <- lists:seq(0, byte_size(Pack) - 1)],
    ?assertEqual({error, {pack_damaged, checksum}},
                 whittle_pack_format:decode(<<Pack/binary, 0>>)).

foreign(_) ->
    ?assertEqual({error, {pack_foreign, <<>>}}, whittle_pack_format:decode(<<>>)),
    ?assertEqual({error, {pack_foreign, <<"Whittle", 2>>}},
                 whittle_pack_format:decode(<<"Whittle", 2, 0:504>>)),
    made:holds(300, proper_types:binary(), fun(Bytes) ->
        element(1, whittle_pack_format:decode(Bytes)) =:= error
    end).

bad_paths(_) ->
    Long = binary:copy(<<"x/">>, 32768),
    [?assertEqual({Bad, {error, {pack_path, {Named, Why}}}},
                  {Bad, whittle_pack_format:encode([[file(<<"a">>, 0, <<>>),
                                                     file(Bad, 0, <<>>)]])})
     || {Bad, Named, Why} <-
            [{Bad, Bad, Why}
             || {Bad, Why} <- [{<<>>, "contains an empty name"},
                               {<<"/b">>, "contains an empty name"},
                               {<<"b/">>, "contains an empty name"},
                               {<<"b//c">>, "contains an empty name"},
                               {<<".">>, "contains the name ."},
                               {<<"../b">>, "contains the name .."},
                               {<<"b/./c">>, "contains the name ."},
                               {<<"b", 0>>, "contains a control character"},
                               {<<"b\nc">>, "contains a control character"},
                               {<<"b", 255>>, "is not UTF-8"},
                               {<<"a">>, "occurs twice"},
                               {binary:copy(<<"x">>, 256), "is longer than 255 bytes"},
                               {<<Long/binary, "x">>, "is longer than 65535 bytes"}]]
                ++ [{<<"a/b">>, <<"a">>, "is a file and a directory"}]],
    %% Web servers have files with such names.
    ?assertMatch({ok, _}, whittle_pack_format:encode([[file(<<"-x/.y/..z">>, 0, <<>>)]])).

%% The decoder refuses a pack with a right checksum and wrong contents, without a crash. The
%% generator replaces any bytes after the header.
lies(_) ->
    made:holds(300, pack_samples:lie(sample()), fun(Pack) ->
        case whittle_pack_format:decode(Pack) of
            {error, {pack_damaged, _}} -> true;
            {ok, Blocks} -> length(Blocks) =:= 3
        end
    end),
    ?assertMatch({ok, _}, whittle_pack_format:decode(pack_samples:right_index())),
    [?assertEqual({Why, {error, {pack_damaged, index}}}, {Why, whittle_pack_format:decode(Wrong)})
     || {Why, Wrong} <- pack_samples:wrong_indexes()],
    ok.

not_compressible(_) ->
    Bytes = rand:bytes(1000),
    {ok, Pack} = whittle_pack_format:encode([[file(<<"a">>, 8#644, Bytes)]]),
    ?assertEqual(32 + 16 + 17 + 1000, byte_size(Pack)),
    ?assertEqual({ok, [[file(<<"a">>, 8#644, Bytes)]]}, whittle_pack_format:decode(Pack)).

%% Internal

sample() -> pack_samples:files().

file(Path, Mode, Bytes) -> #{path => Path, mode => Mode, bytes => Bytes}.
