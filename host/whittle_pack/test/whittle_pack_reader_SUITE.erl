%% Tests the launcher's C reader with the packs from the tests of the Erlang decoder. The reader
%% reads the same files, or reports that the pack is damaged, and accesses nothing outside of the
%% pack.
-module(whittle_pack_reader_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([in_its_own_file/1, as_packed/1, any_byte/1, any_length/1, any_bytes/1, lies/1,
         wrong_indexes/1, sizes_that_lie/1, idle_block/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

all() ->
    [in_its_own_file, as_packed, any_byte, any_length, any_bytes, lies, wrong_indexes,
     sizes_that_lie, idle_block].

init_per_suite(Config) ->
    Reader = filename:join(?config(priv_dir, Config), "reader"),
    Here = filename:dirname(code:which(?MODULE)),
    Launcher = filename:join(root(Here), "native/launcher"),
    Build = fun(Options) ->
                    os:cmd(lists:flatten(
                             ["gcc -g -O1 -Wall -Wextra -Werror ", Options, " -I'", Launcher,
                              "' -Wl,--wrap=getauxval,--wrap=mmap,--wrap=munmap,"
                              "--wrap=pthread_create,--wrap=nanosleep -o '", Reader,
                              "' '", Here, "/probe/reader.c' '", Launcher, "/pack.c' '", Launcher,
                              "/input.c'",
                              " -lz -lzstd -pthread 2>&1"]))
            end,
    Comment = case Build("-fsanitize=address,undefined -fno-sanitize-recover=undefined") of
                  "" ->
                      [];
                  Said ->
                      "" = Build(""),
                      [{comment, "without sanitizers, since gcc said: " ++ Said}]
              end,
    [{reader, Reader} | Comment ++ Config].

%% Finds native/launcher. The tests run from a copy below _build.
root(Dir) ->
    case filelib:is_regular(filename:join(Dir, "native/launcher/pack.c")) of
        true -> Dir;
        false when Dir =/= "/" -> root(filename:dirname(Dir))
    end.

end_per_suite(_) -> ok.

%% A damaged pack may claim a huge size. The reader may then answer that the memory is not enough,
%% as the launcher does.
init_per_testcase(_, Config) ->
    Port = open_port({spawn_executable, ?config(reader, Config)},
                     [{args, ["packs"]}, {packet, 4}, binary, exit_status,
                      {env, [{"ASAN_OPTIONS",
                              "allocator_may_return_null=1:max_allocation_size_mb=256"}]}]),
    [ct:comment(Comment) || {comment, Comment} <- Config],
    [{port, Port} | Config].

end_per_testcase(_, Config) -> port_close(?config(port, Config)).

%% The reader finds the pack through its own program headers, as whittle_elf attaches it.
in_its_own_file(Config) ->
    Reader = ?config(reader, Config),
    ?assertEqual("A", os:cmd("'" ++ Reader ++ "'")),
    {ok, Program} = file:read_file(Reader),
    Packed = Reader ++ ".packed",
    {ok, Pack} = whittle_pack_format:encode(pack_samples:files()),
    {ok, Bytes} = whittle_elf:attach(Program, Pack),
    ok = file:write_file(Packed, Bytes),
    ok = file:change_mode(Packed, 8#755),
    ?assertEqual(files(pack_samples:files()), answer(made:tool(Packed, [], "/"))),
    {ok, Short} = file:open(Packed, [read, write, raw]),
    {ok, _} = file:position(Short, iolist_size(Bytes) - 1),
    ok = file:truncate(Short),
    ok = file:close(Short),
    ?assertEqual({damaged, <<"its end is missing">>}, answer(made:tool(Packed, [], "/"))).

as_packed(Config) ->
    made:holds(30, pack_samples:blocks(), fun(Blocks) ->
        {ok, Pack} = whittle_pack_format:encode(Blocks),
        files(Blocks) =:= read(Pack, Config)
    end).

%% Damage covers every bit of every byte of a small pack, and every length.
any_byte(Config) ->
    {ok, Pack} = whittle_pack_format:encode(pack_samples:files()),
    [?assertMatch({At, Bit, {damaged, _}},
                  {At, Bit, read(pack_samples:flip(At, Bit, Pack), Config)})
     || At <- lists:seq(0, byte_size(Pack) - 1), Bit <- lists:seq(0, 7)],
    ok.

any_length(Config) ->
    {ok, Pack} = whittle_pack_format:encode(pack_samples:files()),
    [case read(binary:part(Pack, 0, Size), Config) of
         absent -> ?assert(Size < 32);
         {damaged, _} -> ok
     end || Size <- lists:seq(0, byte_size(Pack) - 1)],
    ok.

any_bytes(Config) ->
    made:holds(300, proper_types:binary(), fun(Bytes) ->
        case read(Bytes, Config) of
            absent -> byte_size(Bytes) < 32;
            {damaged, _} -> true
        end andalso element(1, read(<<"Whittle", 1, Bytes/binary, 0:192>>, Config)) =:= damaged
    end).

%% The checksums are right. The reader returns the same files for each pack that the Erlang
%% decoder accepts. It may accept a pack that the decoder refuses if it reads nothing outside,
%% because only the checksum protects a start.
lies(Config) ->
    made:holds(1000, pack_samples:lie(pack_samples:files()), fun(Pack) ->
        as_decoded(Pack, Config)
    end).

wrong_indexes(Config) ->
    ?assertMatch([_, _], read(pack_samples:right_index(), Config)),
    [?assert(as_decoded(Pack, Config), Why) || {Why, Pack} <- pack_samples:wrong_indexes()],
    [?assertMatch({Why, {damaged, _}}, {Why, read(Pack, Config)})
     || {Why, Pack} <- pack_samples:wrong_indexes(),
        lists:member(Why, ["not in order", "twice", "beyond the block", "far beyond it",
                             "no such block"])],
    ok.

%% Each number of the header and of the block table changes, one at a time.
sizes_that_lie(Config) ->
    {ok, Pack} = whittle_pack_format:encode(pack_samples:files()),
    [?assert(as_decoded(pack_samples:number(At, Number, Pack), Config), {At, Number})
     || At <- lists:seq(12, 32 + 3 * 16 - 4, 4), Number <- numbers(At, Pack)],
    ok.

%% The reader keeps a block during a burst of reads, and frees it when no read comes for one pause.
%% If no thread can start, it frees the block at once.
idle_block(Config) ->
    Files = [#{path => Path, mode => 8#644, bytes => Bytes}
             || {Path, Bytes} <- [{<<"a">>, <<"one">>}, {<<"b">>, <<"two">>}]],
    {ok, Pack} = whittle_pack_format:encode([Files]),
    Port = open_port({spawn_executable, ?config(reader, Config)},
                     [{args, ["idle"]}, binary, exit_status]),
    true = port_command(Port, [<<(byte_size(Pack)):32>>, Pack]),
    ?assertEqual({0, <<"before: freed 0, pauses 0\n"
                       "idle: freed 1, pauses 3\n"
                       "again: freed 2, pauses 4\n"
                       "without a thread: freed 3, pauses 4\n">>}, all_of(Port, <<>>)).

all_of(Port, Output) ->
    receive
        {Port, {data, Data}} -> all_of(Port, <<Output/binary, Data/binary>>);
        {Port, {exit_status, Code}} -> {Code, Output}
    end.

numbers(At, Pack) ->
    <<_:At/binary, Is:32/little, _/binary>> = Pack,
    [N || N <- [0, 1, Is - 1, Is + 1, Is + 16, byte_size(Pack) - 1, byte_size(Pack),
                byte_size(Pack) + 1, 16#7fffffff, 16#80000000, 16#ffffffff],
          N >= 0, N =/= Is].

as_decoded(Pack, Config) ->
    Read = read(Pack, Config),
    case whittle_pack_format:decode(Pack) of
        {ok, Blocks} -> Read =:= files(Blocks);
        {error, _} -> not is_tuple(Read) orelse element(1, Read) =:= damaged
    end.

%% Internal: the reader's answers

%% Returns the files as {Path, Mode, Bytes}, or `absent', `no_memory', {damaged, Problem},
%% {ended, Status}.
read(Pack, Config) ->
    Port = ?config(port, Config),
    true = port_command(Port, Pack),
    receive
        {Port, {data, Answer}} -> answer(Answer);
        {Port, {exit_status, Status}} -> {ended, Status}
    end.

answer(<<"A">>) -> absent;
answer(<<"M">>) -> no_memory;
answer(<<"D", Problem/binary>>) -> {damaged, Problem};
answer(<<"S", Status/binary>>) -> {ended, Status};
answer(<<"R", Files/binary>>) -> answered(Files, []).

answered(<<PathSize:32/native, Mode:32/native, Size:32/native, Result:32/native-signed,
           Found:32/native, Path:PathSize/binary, Bytes:Size/binary, Files/binary>>, Read) ->
    case {Result, Found} of
        {0, 1} -> answered(Files, [{Path, Mode, Bytes} | Read]);
        {0, 0} -> answered(Files, [{not_found, Path} | Read]);
        {_, _} -> {damaged, Result}
    end;
answered(<<>>, Read) ->
    lists:reverse(Read).

files(Blocks) ->
    lists:sort([{Path, Mode, Bytes}
                || Files <- Blocks, #{path := Path, mode := Mode, bytes := Bytes} <- Files]).

