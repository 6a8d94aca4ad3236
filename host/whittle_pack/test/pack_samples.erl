%% A small system and a stand-in for a runtime, for the suites of this application.
-module(pack_samples).

-export([probe/2, system/0, app/5, runtime/2]).
-export([blocks/0, files/0, pack/6, lie/1, flip/3, number/3, right_index/0, wrong_indexes/0]).

%% Compiles probe.c into Dir with the command line of a compiler.
probe(Compiler, Dir) ->
    Source = filename:join([filename:dirname(code:which(?MODULE)), "probe", "probe.c"]),
    Out = filename:join(Dir, "probe"),
    Command = [Compiler, " -Os -o '", Out, "' '", Source, "' && echo compiled"],
    case os:cmd(unicode:characters_to_list([Command, " 2>&1"])) of
        "compiled\n" -> Out;
        Words -> error({Compiler, Words})
    end.

runtime(Executable, Dir) ->
    ok = file:write_file(filename:join(Dir, "APACHE"), "Apache License, Version 2.0\n"),
    #{target => "x86_64-linux-musl", otp => "29", otp_vsn => "29.1.1",
      erts_vsn => "17.1", flavor => size, natives => [],
      executable => Executable, symbols => Executable ++ ".debug",
      components => [#{name => "erlang", version => "29.1.1",
                       license => "Apache-2.0", copyright => "Ericsson AB",
                       homepage => "https://www.erlang.org",
                       notices => ["APACHE"]},
                     #{name => "zlib", version => "1.3.1", license => "Zlib",
                       copyright => "", homepage => "", notices => ["APACHE"]}],
      id => "0123", dir => Dir}.

system() ->
    Boot = {script, {"sample", "1.0"},
            [{preLoaded, [init]},
             {path, ["/.whittle/lib/kernel-11.0/ebin"]},
             {primLoad, [gen, file]},
             {kernel_load_completed},
             {primLoad, [later]},
             {progress, started}]},
    Steps =
        [fun(S) -> whittle_system:put_app(app(kernel, "11.0", otp, [gen, file, later], []), S) end,
         fun(S) -> whittle_system:put_app(
                     app(sample, "1.0", input, [sample],
                         [{<<"priv/tool.sh">>, 8#755, <<"#!/bin/sh\n">>},
                          {<<"priv/LICENSE">>, 8#644, <<"Sample's own license\n">>},
                          {<<"include/sample.hrl">>, 8#644, <<"-record(sample, {}).\n">>}]),
                     S) end,
         fun(S) -> whittle_system:set_boot(Boot, S) end,
         fun(S) -> whittle_system:put_file(<<"sys.config">>, file(<<"[].\n">>), S) end,
         fun(S) -> whittle_system:put_file(<<"vm.args">>, file(<<"-sname sample\n">>), S) end,
         fun(S) -> whittle_system:put_file(<<"runtime.exs">>, file(<<"import Config\n">>), S) end,
         fun(S) -> whittle_system:put_env(<<"RELEASE_NAME">>, {default, <<"sample">>}, S) end,
         fun(S) -> whittle_system:put_env(<<"RELEASE_ROOT">>, {always, <<"/.whittle">>}, S) end],
    lists:foldl(fun(Step, S) -> Step(S) end,
                whittle_system:new(#{name => "sample", vsn => "1.0", otp => "29"}), Steps).

app(Name, Vsn, Kind, Modules, Files) ->
    #{name => Name, vsn => Vsn,
      spec => {application, Name, [{vsn, Vsn}, {modules, Modules}]},
      modules => maps:from_list([{M, <<"FOR1 ", (atom_to_binary(M))/binary>>}
                                 || M <- Modules]),
      files => maps:from_list([{Path, #{mode => Mode, bytes => Bytes}}
                               || {Path, Mode, Bytes} <- Files]),
      origin => #{kind => Kind, path => "/nowhere", asked_by => []}}.

file(Bytes) -> #{mode => 8#644, bytes => Bytes}.

%% Generates blocks of files with distinct paths. Debian's package of PropEr has no headers, so
%% there are no macros.
blocks() ->
    proper_types:bind(
      proper_types:list({proper_types:boolean(),
                         proper_types:list({proper_types:range(0, 8#777), content()})}),
      fun(Contents) -> [[] | [together(Together, B, block(B, Files))
                              || {B, {Together, Files}} <- number(Contents)]] end,
      false).

%% Adds a first file that is the concatenation of all the others, as in the start block.
together(true, B, Files) ->
    [#{path => <<(path(B, 0))/binary, ".all">>, mode => 8#644,
       bytes => iolist_to_binary([Bytes || #{bytes := Bytes} <- Files])} | Files];
together(false, _, Files) ->
    Files.

block(B, Files) ->
    [#{path => path(B, F), mode => Mode, bytes => Bytes}
     || {F, {Mode, Bytes}} <- number(Files)].

path(B, F) -> unicode:characters_to_binary(io_lib:format("dir~b/\x{fc}~b.beam", [B, F])).

number(List) -> lists:zip(lists:seq(1, length(List)), List).

%% Generates contents that compress well, that do not compress, and that are empty.
content() ->
    proper_types:oneof(
      [proper_types:binary(), <<>>,
       proper_types:bind({proper_types:byte(), proper_types:range(0, 3000)},
                         fun({Byte, Size}) -> binary:copy(<<Byte>>, Size) end, false)]).

%% Returns blocks of few files: a compressed one, an empty one, and one that is stored plain.
files() ->
    [[#{path => <<"a">>, mode => 8#644, bytes => binary:copy(<<"hello">>, 1000)}], [],
     [#{path => <<"b">>, mode => 8#755, bytes => <<"abc">>}]].

%% Makes a pack from its parts, with its checksum.
pack(B, E, IndexSize, Table, Index, Data) ->
    Length = 32 + iolist_size([Table, Index, Data]),
    summed(iolist_to_binary([<<Length:32/little, B:32/little, E:32/little,
                               IndexSize:32/little, IndexSize:32/little>>,
                             Table, Index, Data])).

summed(Bytes) ->
    <<16#57, 16#68, 16#69, 16#74, 16#74, 16#6c, 16#65, 1,
      (erlang:crc32(Bytes)):32/little, Bytes/binary>>.

%% Generates the pack of these files with one changed byte after the checksum, and with the right
%% checksum for the change.
lie(Blocks) ->
    {ok, <<_:12/binary, Summed/binary>>} = whittle_pack_format:encode(Blocks),
    Change = {proper_types:range(0, byte_size(Summed) - 1), proper_types:byte()},
    proper_types:bind(proper_types:list(Change),
                      fun(Changes) -> summed(lists:foldl(fun put_byte/2, Summed, Changes)) end,
                      false).

put_byte({At, Byte}, Bytes) ->
    <<Before:At/binary, _, After/binary>> = Bytes,
    <<Before/binary, Byte, After/binary>>.

flip(At, Bit, Bytes) ->
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    <<Before/binary, (Byte bxor (1 bsl Bit)), After/binary>>.

%% Puts another number into a place of the pack, with the right checksum.
number(At, Number, Pack) when At >= 12 ->
    Behind = At - 12,
    <<_:12/binary, Before:Behind/binary, _:32, After/binary>> = Pack,
    summed(<<Before/binary, Number:32/little, After/binary>>).

%% Makes a pack with one block of four bytes. Each wrong index differs from its index in one
%% respect.
right_index() -> one_block([row(<<"a">>, 0, 0, 2), row(<<"b">>, 0, 2, 2)]).

wrong_indexes() ->
    Row = row(<<"a">>, 0, 0, 2),
    [{Why, one_block(Rows)}
     || {Why, Rows} <-
            [{"not in order", [row(<<"b">>, 0, 2, 2), Row]},
             {"twice", [Row, row(<<"a">>, 0, 2, 2)]},
             {"file and directory", [Row, row(<<"a/b">>, 0, 2, 2)]},
             {"above the root", [row(<<"../a">>, 0, 0, 2), row(<<"b">>, 0, 2, 2)]},
             {"overlap", [Row, row(<<"b">>, 0, 1, 3)]},
             {"all of it, and a gap", [Row, row(<<"all">>, 0, 0, 4)]},
             {"a byte left over", [Row, row(<<"b">>, 0, 2, 1)]},
             {"beyond the block", [Row, row(<<"b">>, 0, 2, 3)]},
             {"far beyond it", [Row, row(<<"b">>, 0, 16#ffffffff, 3)]},
             {"no such block", [Row, row(<<"b">>, 1, 2, 2)]},
             {"one file, not two", [row(<<"a">>, 0, 0, 4)]}]].

row(Path, Block, Offset, Size) ->
    <<(byte_size(Path)):16/little, 0:16, Block:32/little, Offset:32/little, Size:32/little,
      Path/binary>>.

one_block(Rows) ->
    Index = iolist_to_binary(Rows),
    First = 32 + 16 + byte_size(Index),
    pack(1, length(Rows), byte_size(Index),
         <<First:32/little, 4:32/little, 4:32/little, 2:32/little>>, Index, <<"data">>).
