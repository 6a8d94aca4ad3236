%% Tests that a system and a runtime become a file that runs, and that the file holds both again.
-module(whittle_pack_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([several_at_once/1, locked_directory/1, odd_paths/1, odd_names/1, executable/1, mapped/1,
         tree/1, start_block/1, loaded_at_once/1, loaded_by_init/1, loaded_size/1, same_bytes/1,
         read_file/1, ca_certs/1, no_zstd/1, zstd_that_talks/1, block_size/1,
         notices/1, parts_that_are_not_there/1, info_beyond_latin1/1, licenses/1,
         bill/1, directory/1, directory_stays/1, directory_of_others/1,
         file_in_place_of_a_directory/1, directory_with_edits/1,
         directory_edited_meanwhile/1, directory_edited_at_last/1,
         files_of_a_kind/1, foreign_executable/1, checksum/1,
         output_is_directory/1, output_is_device/1, stopped/1, full_disk/1, read_only_disk/1,
         no_rights/1, no_runtime/1, foreign_runtime/1, env_lines/1, damaged/1, errors/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

all() ->
    [several_at_once, locked_directory, odd_paths, odd_names, executable, mapped, tree, start_block,
     loaded_at_once, loaded_by_init, loaded_size, same_bytes, read_file, ca_certs, no_zstd,
     zstd_that_talks, block_size, notices, parts_that_are_not_there, info_beyond_latin1,
     licenses, bill, directory,
     directory_stays, directory_of_others, file_in_place_of_a_directory,
     directory_with_edits, directory_edited_meanwhile,
     directory_edited_at_last,
     files_of_a_kind, foreign_executable, checksum, output_is_directory, output_is_device,
     stopped, full_disk, read_only_disk, no_rights, no_runtime, foreign_runtime, env_lines,
     damaged, errors].

init_per_suite(Config) ->
    Dir = ?config(priv_dir, Config),
    Probe = pack_samples:probe("musl-gcc -static", Dir),
    [{runtime, pack_samples:runtime(Probe, Dir)} | Config].

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    [{dir, Dir} | _] = Own = made:dir(Case, Config),
    [{out, filename:join(Dir, "sample")} | Own].

end_per_testcase(_, _) -> ok.

%% The output

executable(Config) ->
    {ok, #{size := Size, vm := Vm}} = try_write(Config, #{}),
    Out = ?config(out, Config),
    {ok, #{size := Size, vm := Vm, pack := #{size := Pack}}} = whittle_pack:read(Out),
    {ok, #file_info{size = Size, mode = Mode}} = file:read_file_info(Out),
    ?assertEqual(8#755, Mode band 8#777),
    ?assertEqual(Size, Vm + Pack),
    Line = io_lib:format("pack of ~b bytes at 0 mod 4096\n", [Pack]),
    ?assertEqual(lists:flatten(Line), os:cmd("'" ++ Out ++ "'")),
    ?assertEqual(["sample"], files(Config)).

mapped(Config) ->
    Out = write(Config),
    {ok, Bytes} = file:read_file(Out),
    {ok, Pack} = whittle_elf:pack(Bytes),
    Dump = filename:join(?config(dir, Config), "dump"),
    "" = os:cmd("'" ++ Out ++ "' dump > '" ++ Dump ++ "'"),
    ?assertEqual({ok, Pack}, file:read_file(Dump)).

tree(Config) ->
    ?assertEqual(
       [<<"boot/code">>, <<"boot/start.boot">>, <<"etc/bom.json">>, <<"etc/env">>,
        <<"etc/flags">>,
        <<"etc/info.json">>, <<"etc/info.txt">>, <<"etc/licenses.txt">>,
        <<"etc/no_dns.inetrc">>, <<"etc/sys.config">>, <<"etc/vm.args">>, <<"fallback/etc/hosts">>,
        <<"lib/kernel-11.0/ebin/file.beam">>, <<"lib/kernel-11.0/ebin/gen.beam">>,
        <<"lib/kernel-11.0/ebin/kernel.app">>, <<"lib/kernel-11.0/ebin/later.beam">>,
        <<"lib/sample-1.0/ebin/sample.app">>, <<"lib/sample-1.0/ebin/sample.beam">>,
        <<"lib/sample-1.0/include/sample.hrl">>,
        <<"lib/sample-1.0/priv/LICENSE">>, <<"lib/sample-1.0/priv/tool.sh">>,
        <<"releases/1.0/runtime.exs">>],
       lists:sort(maps:keys(unpacked(write(Config))))).

start_block(Config) ->
    {ok, Bytes} = file:read_file(write(Config)),
    {ok, Pack} = whittle_elf:pack(Bytes),
    {ok, [Start, Settings | _]} = whittle_pack_format:decode(Pack),
    ?assertMatch([#{path := <<"boot/code">>, bytes := <<"FOR1 genFOR1 file">>},
                  #{path := <<"lib/kernel-11.0/ebin/gen.beam">>, bytes := <<"FOR1 gen">>},
                  #{path := <<"lib/kernel-11.0/ebin/file.beam">>, bytes := <<"FOR1 file">>}],
                 Start),
    ?assertEqual([<<"boot/start.boot">>, <<"etc/flags">>, <<"etc/env">>, <<"etc/sys.config">>,
                  <<"etc/vm.args">>],
                 [Path || #{path := Path} <- Settings]),
    #{<<"boot/start.boot">> := {_, Boot}, <<"etc/env">> := {_, Env},
      <<"lib/sample-1.0/ebin/sample.app">> := {_, App},
      <<"lib/sample-1.0/priv/tool.sh">> := {Mode, _}} = unpacked(?config(out, Config)),
    ?assertEqual(whittle_system:boot(pack_samples:system()), binary_to_term(Boot)),
    ?assertEqual(<<"RELEASE_NAME=sample\n!RELEASE_ROOT=/.whittle\n">>, Env),
    ?assertEqual(8#755, Mode),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(App)),
    ?assertEqual({ok, {application, sample, [{vsn, "1.0"}, {modules, [sample]}]}},
                 erl_parse:parse_term(Tokens)).

%% If the system contains whittle_start, its module learns the place of each module in the start
%% block's file. The VM reads whittle_start before that file.
loaded_at_once(Config) ->
    Out = write_with_loader(pack_samples:system(), Config),
    {ok, Bytes} = file:read_file(Out),
    {ok, Pack} = whittle_elf:pack(Bytes),
    {ok, [_, [_, #{path := Second} | _] | _]} = whittle_pack_format:decode(Pack),
    ?assertEqual(<<"lib/whittle_start-0.1.0/ebin/whittle_start_load.beam">>, Second),
    {ok, Boot} = whittle_pack:read_file(Out, <<"boot/start.boot">>),
    ?assertMatch({script, {"sample", "1.0"},
                  [{preLoaded, [init]},
                   {path, ["/.whittle/lib/whittle_start-0.1.0/ebin"]},
                   {primLoad, [whittle_start_load]},
                   {apply, {whittle_start_load, modules,
                            ["/.whittle/boot/code",
                             [{gen, "/.whittle/lib/kernel-11.0/ebin/gen.beam", {0, 8}},
                              {file, "/.whittle/lib/kernel-11.0/ebin/file.beam", {8, 9}}]]}},
                   {kernel_load_completed},
                   {primLoad, [later]},
                   {progress, started}]},
                 binary_to_term(Boot)).

%% init must load a module with an on_load function.
loaded_by_init(Config) ->
    {ok, gen, OnLoad} = compile:forms([{attribute, 1, module, gen},
                                       {attribute, 1, on_load, {start, 0}},
                                       {function, 1, start, 0,
                                        [{clause, 1, [], [], [{atom, 1, ok}]}]}]),
    System = pack_samples:system(),
    {ok, #{modules := Modules} = Kernel} = whittle_system:app(kernel, System),
    Out = write_with_loader(whittle_system:put_app(Kernel#{modules := Modules#{gen := OnLoad}},
                                                   System), Config),
    {ok, Boot} = whittle_pack:read_file(Out, <<"boot/start.boot">>),
    {script, _, Instructions} = binary_to_term(Boot),
    ?assertMatch([{apply, {whittle_start_load, modules, [_, [{file, _, {0, 9}}]]}},
                  {path, ["/.whittle/lib/kernel-11.0/ebin"]}, {primLoad, [gen]},
                  {kernel_load_completed} | _],
                 lists:dropwhile(fun(I) -> element(1, I) =/= apply end, Instructions)).

write_with_loader(System, Config) ->
    Loader = pack_samples:app(whittle_start, "0.1.0", device, [whittle_start_load], []),
    Out = filename:join(?config(dir, Config), "with_loader"),
    {ok, _} = whittle_pack:write(whittle_system:put_app(Loader, System),
                                 ?config(runtime, Config), Out, #{}),
    Out.

loaded_size(Config) ->
    Out = write(Config),
    ?assertEqual({ok, filelib:file_size(Out)}, whittle_pack:loaded_size(Out)),
    {ok, Bytes} = file:read_file(Out),
    ok = file:write_file(Out, [Bytes, "symbols"]),
    ?assertEqual({ok, byte_size(Bytes)}, whittle_pack:loaded_size(Out)),
    ok = file:write_file(Out, "#!/bin/sh\n"),
    ?assertEqual({ok, 10}, whittle_pack:loaded_size(Out)),
    ok = file:write_file(Out, binary:part(Bytes, 0, 20)),
    ?assertEqual({error, {in, {Out, {elf_damaged, header}}}}, whittle_pack:loaded_size(Out)),
    ?assertEqual({error, {unreadable, {"/none", enoent}}}, whittle_pack:loaded_size("/none")).

same_bytes(Config) ->
    {ok, First} = file:read_file(write(Config)),
    {ok, Second} = file:read_file(write(Config)),
    ?assertEqual(First, Second).

read_file(Config) ->
    Out = write(Config),
    ?assertEqual({ok, <<"#!/bin/sh\n">>},
                 whittle_pack:read_file(Out, <<"lib/sample-1.0/priv/tool.sh">>)),
    ?assertEqual({ok, none}, whittle_pack:read_file(Out, <<"lib">>)),
    ?assertMatch({error, {in, {_, {elf_no_pack, []}}}},
                 whittle_pack:read_file(maps:get(executable, ?config(runtime, Config)), <<"a">>)).

ca_certs(Config) ->
    Pem = filename:join(?config(dir, Config), "certs.pem"),
    ok = file:write_file(Pem, "-----BEGIN CERTIFICATE-----\n"),
    Out = write(Config, #{ca_certs => Pem}),
    ?assertMatch(#{<<"fallback/etc/ssl/certs/ca-certificates.crt">> :=
                       {8#644, <<"-----BEGIN CERTIFICATE-----\n">>}}, unpacked(Out)),
    ?assertEqual({error, {unreadable, {"/no.pem", enoent}}},
                 try_write(Config, #{ca_certs => "/no.pem"})),
    ?assertEqual({error, {unreadable, {"/no.pem", enoent}}},
                 whittle_pack:check_output(Out, #{ca_certs => "/no.pem"})),
    ?assertEqual({error, {no_certificates, "/etc/passwd"}},
                 whittle_pack:check_output(Out, #{ca_certs => "/etc/passwd"})).

%% The check before the long work finds a missing zstd too.
no_zstd(Config) ->
    Path = os:getenv("PATH"),
    os:putenv("PATH", "/nowhere"),
    try
        ?assertEqual({error, {no_zstd, "zstd"}},
                     whittle_pack:check_output(?config(out, Config), #{})),
        ?assertEqual({error, {no_zstd, "zstd"}}, try_write(Config, #{}))
    after
        os:putenv("PATH", Path)
    end,
    ?assertEqual([], files(Config)).

%% Messages from zstd never enter a frame. The error of a failure contains them.
zstd_that_talks(Config) ->
    Path = os:getenv("PATH"),
    Stub = filename:join(?config(dir, Config), "zstd"),
    Put = fun(Lines) ->
                  ok = file:write_file(Stub, ["#!/bin/sh\n", Lines]),
                  ok = file:change_mode(Stub, 8#755)
          end,
    Blob = binary:copy(<<"words ">>, 1000),
    {ok, Frames} = whittle_pack_zstd:compress([Blob]),
    os:putenv("PATH", ?config(dir, Config) ++ ":" ++ Path),
    try
        Put(["echo a warning >&2; PATH='", Path, "'; exec zstd \"$@\"\n"]),
        ?assertEqual({ok, Frames}, whittle_pack_zstd:compress([Blob])),
        ?assertEqual({ok, [Blob]}, whittle_pack_zstd:decompress([{hd(Frames), byte_size(Blob)}])),
        Put(["cat; printf 'no g\\303\\274te' >&2; exit 3\n"]),
        ?assertEqual({error, {zstd_failed, {3, <<"no g\xc3\xbcte">>}}},
                     whittle_pack_zstd:compress([Blob])),
        Put("exec >&-; cat > /dev/null; exit 4\n"),
        ?assertEqual({error, {zstd_failed, {4, <<>>}}}, whittle_pack_zstd:compress([Blob])),
        %% The signal kills the shell itself.
        Put("kill -KILL 0\n"),
        ?assertEqual({error, {zstd_failed, {137, <<>>}}}, whittle_pack_zstd:compress([Blob]))
    after
        os:putenv("PATH", Path)
    end.

block_size(Config) ->
    Blocks = fun(Options) ->
                     {ok, #{pack := #{blocks := B}}} =
                         whittle_pack:read(write(Config, Options)),
                     length(B)
             end,
    %% The five blocks are start, settings, files about the output, code, and data. With a block
    %% size of 1 each file of the last two has its own block.
    ?assertEqual(5, Blocks(#{})),
    ?assertEqual(3 + 10, Blocks(#{block_size => 1})).

%% The files about the output

notices(Config) ->
    #{<<"etc/info.txt">> := {_, Info}, <<"etc/licenses.txt">> := {_, Licenses}} =
        unpacked(write(Config)),
    [First, Second, Vm | Rest] = binary:split(Info, <<"\n">>, [global]),
    ?assertEqual(<<"sample 1.0">>, First),
    ?assertEqual(<<"target x86_64-linux-musl, flavor size, OTP 29.1.1, ERTS 17.1">>, Second),
    #{runtime := #{executable := Probe}} = maps:from_list(Config),
    [Sum | _] = string:split(os:cmd("sha256sum '" ++ Probe ++ "'"), " "),
    ?assertEqual(iolist_to_binary(io_lib:format("vm ~b bytes, sha256 ~s",
                                                [filelib:file_size(Probe), Sum])), Vm),
    ?assertMatch([<<"linked erlang 29.1.1 (Apache-2.0)">>, <<"linked zlib 1.3.1 (Zlib)">>,
                  <<"application kernel 11.0 (Apache-2.0), 3 modules, ", _/binary>>,
                  <<"application sample 1.0 (NOASSERTION), 1 modules, ", _/binary>>, <<>>],
                 Rest),
    %% The file contains each notice, and a shared notice only once.
    ?assertMatch([_], binary:matches(Licenses, <<"Apache License, Version 2.0">>)),
    ?assertMatch([_], binary:matches(Licenses, <<"Sample's own license">>)),
    ?assertMatch([_], binary:matches(Licenses, <<"zlib 1.3.1 (Zlib)">>)).

%% The VM of one program tells which parts of ERTS it lacks.
parts_that_are_not_there(Config) ->
    Out = filename:join(?config(dir, Config), "cut"),
    Runtime = ?config(runtime, Config),
    {ok, _} = whittle_pack:write(pack_samples:system(),
                                 Runtime#{without => #{bifs => [{math, sin, 1}, {erlang, '!', 2}],
                                                       libraries => ["zlib"],
                                                       programs => ["heart"],
                                                       preloaded => [counters]}}, Out, #{}),
    {ok, Info} = whittle_pack:read_file(Out, <<"etc/info.txt">>),
    ?assertEqual([<<"without the library zlib">>, <<"without the program heart">>,
                  <<"without the built-in module counters">>,
                  <<"without the BIF math:sin/1">>, <<"without the BIF erlang:!/2">>],
                 [Line || <<"without ", _/binary>> = Line
                              <- binary:split(Info, <<"\n">>, [global])]),
    {ok, Json} = whittle_pack:read_file(Out, <<"etc/info.json">>),
    {ok, Data} = whittle_json:decode(Json),
    ?assertEqual(#{<<"bifs">> => [<<"math:sin/1">>, <<"erlang:!/2">>],
                   <<"libraries">> => [<<"zlib">>], <<"programs">> => [<<"heart">>],
                   <<"modules">> => [<<"counters">>]},
                 maps:get(<<"without">>, Data)).

%% Names and versions are text in UTF-8 with any letters, in both formats.
info_beyond_latin1(Config) ->
    {ok, App} = whittle_system:app(sample, pack_samples:system()),
    [begin
         New = whittle_system:new(#{name => Name, vsn => Vsn, otp => "29"}),
         Named = lists:foldl(fun whittle_system:put_app/2,
                             whittle_system:set_boot(whittle_system:boot(pack_samples:system()),
                                                     New),
                             whittle_system:apps(pack_samples:system()) ++ [App#{vsn := Vsn}]),
         Out = filename:join(?config(dir, Config), Format),
         {ok, _} = whittle_pack:write(Named, ?config(runtime, Config), Out, #{format => Format}),
         {ok, Info} = case Format of
                          exe -> whittle_pack:read_file(Out, <<"etc/info.txt">>);
                          dir -> file:read_file(filename:join(Out, "tree/etc/info.txt"))
                      end,
         [First | Rest] = binary:split(Info, <<"\n">>, [global]),
         ?assertEqual(unicode:characters_to_binary([Name, " ", Vsn]), First),
         Row = unicode:characters_to_binary(["application sample ", Vsn, " (NOASSERTION)"]),
         ?assertMatch([_], [R || R <- Rest, string:prefix(R, Row) =/= nomatch])
     end || Format <- [exe, dir],
            {Name, Vsn} <- [{[380, 243, 322, 119], "1"}, {"w", [322]}, {[233], [246]}]].

%% A malformed list of licenses counts as no license.
licenses(Config) ->
    System = pack_samples:system(),
    {ok, #{spec := {application, sample, Properties}} = App} = whittle_system:app(sample, System),
    [begin
         With = App#{spec := {application, sample, [{licenses, Licenses} | Properties]}},
         {ok, _} = whittle_pack:write(whittle_system:put_app(With, System),
                                      ?config(runtime, Config), ?config(out, Config), #{}),
         {ok, Info} = whittle_pack:read_file(?config(out, Config), <<"etc/info.txt">>),
         ?assertMatch({_, _}, binary:match(Info, <<"sample 1.0 (", Said/binary, ")">>))
     end || {Licenses, Said} <-
                [{["MIT", "Apache-2.0"], <<"MIT AND Apache-2.0">>}, {["MIT\n"], <<"NOASSERTION">>}]
                ++ [{Other, <<"NOASSERTION">>}
                    || Other <- ["MIT", [apache], x, ["MIT" | x], [[$M | x]], [[246]], []]]].

%% Another program's JSON parser reads the bill of materials.
bill(Config) ->
    #{<<"etc/bom.json">> := {_, Bom}, <<"etc/info.json">> := {_, Info}} =
        unpacked(write(Config)),
    ?assertEqual("SPDX-2.3 4 packages, 1 DESCRIBES, 2 STATIC_LINK, 2 CONTAINS\n"
                 , python(Config, Bom,
                          "ids = {p['SPDXID'] for p in d['packages']} | {'SPDXRef-DOCUMENT'}\n"
                          "ts = [r['relationshipType'] for r in d['relationships']]\n"
                          "assert all({r['spdxElementId'], r['relatedSpdxElement']} <= ids "
                          "for r in d['relationships'])\n"
                          "assert d['creationInfo']['created'] == '1970-01-01T00:00:00Z'\n"
                          "print(d['spdxVersion'], len(ids) - 2, 'packages,', "
                          "', '.join('%d %s' % (ts.count(t), t) "
                          "for t in ('DESCRIBES', 'STATIC_LINK', 'CONTAINS')))\n")),
    ?assertEqual("sample 29.1.1 ['kernel', 'sample']\n",
                 python(Config, Info, "print(d['name'], d['otp'], "
                        "[a['name'] for a in d['applications']])\n")).

python(Config, Json, Program) ->
    File = filename:join(?config(dir, Config), "d.json"),
    Script = filename:join(?config(dir, Config), "p.py"),
    ok = file:write_file(File, Json),
    ok = file:write_file(Script, ["import json\nd = json.load(open('", File, "'))\n", Program]),
    os:cmd("python3 '" ++ Script ++ "'").

%% A directory

directory(Config) ->
    Out = ?config(out, Config),
    {ok, #{size := Size}} = try_write(Config, #{format => dir}),
    Files = [F || F <- filelib:wildcard("**", Out), filelib:is_regular(filename:join(Out, F))],
    ?assertEqual(Size, lists:sum([filelib:file_size(filename:join(Out, F)) || F <- Files])),
    ?assertEqual("no pack\n", os:cmd("'" ++ Out ++ "/sample'")),
    ?assert(lists:member("tree/lib/kernel-11.0/ebin/gen.beam", Files)),
    %% The list names each other file of the tree with its size, except for files that a user may
    %% edit.
    {ok, List} = file:read_file(filename:join(Out, "tree/etc/files")),
    [Count | Lines] = binary:split(List, <<"\n">>, [global, trim]),
    Tree = lists:sort([F || "tree/" ++ F <- Files, F =/= "etc/files", F =/= "etc/sums"]),
    ?assertEqual(length(Tree), binary_to_integer(Count)),
    ?assertEqual([case lists:member(F, ["etc/sys.config", "etc/vm.args"])
                       orelse lists:prefix("releases/", F) of
                      true -> "- " ++ F;
                      false -> integer_to_list(filelib:file_size(filename:join([Out, "tree", F])))
                                   ++ " " ++ F
                  end || F <- Tree], [binary_to_list(Line) || Line <- Lines]),
    %% The other list names every other file, and sha256sum reads it too.
    ?assertEqual(integer_to_list(length(Files) - 1) ++ "\n",
                 os:cmd("cd '" ++ Out ++ "' && sha256sum -c tree/etc/sums | grep -c ': OK$'")),
    %% An older output is replaced.
    Other = #{mode => 8#644, bytes => <<>>},
    {ok, _} = try_write(Config, #{format => dir, files => #{<<"old">> => Other}}),
    ?assert(filelib:is_file(filename:join(Out, "tree/old"))),
    {ok, _} = try_write(Config, #{format => dir}),
    ?assertNot(filelib:is_file(filename:join(Out, "tree/old"))),
    ?assertEqual(["sample"], files(Config)).

%% A build never removes what others wrote below the directory, or changed there.
directory_with_edits(Config) ->
    Out = ?config(out, Config),
    Write = fun() -> try_write(Config, #{format => dir}) end,
    {ok, _} = Write(),
    In = fun(Name) -> filename:join(Out, Name) end,
    Check = fun() -> whittle_pack:check_output(Out, #{format => dir}) end,
    Refused = fun(Edit, More) ->
                      Error = {error, {holds_edits, {Out, Edit, More}}},
                      ?assertEqual({Error, Error}, {Check(), Write()})
              end,
    ok = file:write_file(In("tree/etc/notes"), "mine"),
    Refused({new, <<"tree/etc/notes">>}, 0),
    ok = file:make_symlink("notes", In("tree/etc/link")),
    Refused({new, <<"tree/etc/link">>}, 1),
    {ok, Env} = file:read_file(In("tree/etc/vm.args")),
    ok = file:write_file(In("tree/etc/vm.args"), [Env, "+S 1\n"]),
    [ok = file:delete(In(Name)) || Name <- ["tree/etc/notes", "tree/etc/link"]],
    Refused({changed, <<"tree/etc/vm.args">>}, 0),
    ?assertEqual({ok, <<Env/binary, "+S 1\n">>}, file:read_file(In("tree/etc/vm.args"))),
    %% A link to a file with the same bytes has come since.
    ok = file:rename(In("tree/etc/vm.args"), In("args")),
    ok = file:write_file(In("args"), Env),
    ok = file:make_symlink("../../args", In("tree/etc/vm.args")),
    ?assertEqual({error, {holds_others, {Out, "args"}}}, Check()),
    ok = file:rename(In("args"), filename:join(?config(dir, Config), "args")),
    Refused({changed, <<"tree/etc/vm.args">>}, 0),
    ok = file:delete(In("tree/etc/vm.args")),
    %% Nothing is lost with a file that is missing, or with an empty directory.
    ok = file:make_dir(In("tree/etc/empty")),
    ?assertEqual(ok, Check()),
    %% Names are bytes.
    Latin1 = filename:join(unicode:characters_to_binary(In("tree")), <<"a", 16#e9>>),
    ok = file:write_file(Latin1, "mine"),
    Refused({new, <<"tree/a\x{e9}"/utf8>>}, 0),
    ok = file:delete(Latin1),
    %% An older Whittle wrote no list.
    ok = file:delete(In("tree/etc/sums")),
    ?assertEqual({{error, {no_sums, Out}}, {error, {no_sums, Out}}}, {Check(), Write()}).

%% The file comes while the new output is written.
directory_edited_meanwhile(Config) ->
    Out = ?config(out, Config),
    {ok, _} = try_write(Config, #{format => dir}),
    Notes = filename:join(Out, "tree/notes"),
    %% The second look at the script is the one before the replacement.
    IsOurs = fun(Path) ->
                     case {filename:basename(Path), get(?FUNCTION_NAME)} of
                         {"sample", undefined} -> undefined = put(?FUNCTION_NAME, looked);
                         {"sample", looked} -> ok = file:write_file(Notes, "mine");
                         _ -> ok
                     end,
                     true
             end,
    ?assertEqual({error, {holds_edits, {Out, {new, <<"tree/notes">>}, 0}}},
                 whittle_pack_file:write_dir(Out, [{<<"vm">>, <<>>, 8#755}],
                                             {<<"tree/etc/info.json">>, IsOurs,
                                              <<"tree/etc/sums">>})),
    ?assertEqual({ok, <<"mine">>}, file:read_file(Notes)),
    ?assertEqual(["sample"], files(Config)).

%% The file comes after the last look before the replacement: when the older output has been moved
%% aside.
directory_edited_at_last(Config) ->
    Out = ?config(out, Config),
    {ok, _} = try_write(Config, #{format => dir}),
    Notes = filename:join(Out, "notes"),
    IsOurs = fun(Path) ->
                     case {filename:basename(Path), get(?FUNCTION_NAME)} of
                         {"sample", undefined} -> undefined = put(?FUNCTION_NAME, looked);
                         {"sample", looked} -> looked = put(?FUNCTION_NAME, again);
                         {"sample", again} ->
                             Moved = filename:dirname(Path),
                             ?assertNotEqual(Out, Moved),
                             ok = file:write_file(filename:join(Moved, "notes"), "mine");
                         _ -> ok
                     end,
                     true
             end,
    ?assertEqual({error, {holds_edits, {Out, {new, <<"notes">>}, 0}}},
                 whittle_pack_file:write_dir(Out, [{<<"vm">>, <<>>, 8#755}],
                                             {<<"tree/etc/info.json">>, IsOurs,
                                              <<"tree/etc/sums">>})),
    ?assertEqual({ok, <<"mine">>}, file:read_file(Notes)),
    ?assertEqual(["sample"], files(Config)).

%% An error during the write keeps the older output and leaves nothing beside it. This holds for a
%% crash in Whittle too.
directory_stays(Config) ->
    Out = ?config(out, Config),
    {ok, _} = try_write(Config, #{format => dir}),
    ?assertError(_, whittle_pack_file:write_dir(Out, [{17, <<>>, 8#644}],
                                                {<<"tree/etc/info.json">>,
                                                 fun(_) -> true end, <<"tree/etc/sums">>})),
    ?assert(filelib:is_file(filename:join(Out, "tree/etc/info.json"))),
    ?assertEqual(["sample"], files(Config)).

%% An output and its plan are never written without the lock, or they could come from two builds.
locked_directory(Config) ->
    Dir = ?config(dir, Config),
    Out = filename:join(Dir, "out"),
    {ok, Lock} = whittle_lock:take(Dir, #{}),
    Write = fun() -> {ok, file:write_file(Out, "x")} end,
    ?assertEqual({error, {locked, Dir}}, whittle_pack_file:alone(Out, 0, Write)),
    ?assertNot(filelib:is_file(Out)),
    ok = whittle_lock:release(Lock),
    ?assertEqual({ok, ok}, whittle_pack_file:alone(Out, 0, Write)).

%% If several builds write to one name, the output and the file beside it come from the same
%% build.
several_at_once(Config) ->
    Runtime = ?config(runtime, Config),
    [begin
         Out = filename:join(?config(dir, Config), Format),
         File = atom_to_list(Format) ++ ".plan",
         Beside = filename:join(?config(dir, Config), File),
         Known = case Format of
                     exe -> Out;
                     dir -> filename:join(Out, "tree/etc/bom.json")
                 end,
         Write = fun(N) ->
                         System = whittle_system:put_app(
                                    pack_samples:app(other, integer_to_list(N), input, [], []),
                                    pack_samples:system()),
                         whittle_pack:write(System, Runtime, Out,
                                            #{format => Format,
                                              beside => {Beside, fun(_) -> true end,
                                                         fun(Bytes) -> {ok, Bytes} end}})
                 end,
         Writers = [spawn_monitor(fun() -> {ok, _} = Write(N) end) || N <- lists:seq(1, 12)],
         [receive {'DOWN', Monitor, process, Pid, Why} -> ?assertEqual(normal, Why) end
          || {Pid, Monitor} <- Writers],
         {ok, Bytes} = file:read_file(Known),
         ?assertEqual({ok, Bytes}, file:read_file(Beside)),
         {ok, _} = whittle_pack:write(pack_samples:system(), Runtime, Out,
                                      #{format => Format,
                                        beside => {Beside, fun(_) -> true end,
                                                   fun(_) -> none end}}),
         ?assertNot(filelib:is_file(Beside)),
         ok = file:write_file(Beside, "mine"),
         {ok, _} = whittle_pack:write(pack_samples:system(), Runtime, Out,
                                      #{format => Format,
                                        beside => {Beside, fun(_) -> false end,
                                                   fun(_) -> none end}}),
         ok = file:delete(Beside)
     end || Format <- [exe, dir]],
    ?assertEqual(["dir", "exe"], lists:sort(files(Config))).

%% The error names an impossible path before anything is written, in either format.
odd_paths(Config) ->
    Parent = filename:dirname(?config(dir, Config)),
    {ok, Before} = file:list_dir(Parent),
    [?assertMatch({Path, {error, {pack_path, {Named, Why}}}},
                  {Path, try_write(Config, #{format => Format,
                                             files => #{Path => #{mode => 8#755,
                                                                  bytes => <<>>}}})})
     || {Format, Below} <- [{exe, <<>>}, {dir, <<"tree/">>}],
        {Path, At, Why} <- [{<<"etc">>, <<"etc">>, "is a file and a directory"},
                            {<<"etc/env/x">>, <<"etc/env">>, "is a file and a directory"},
                            {<<"../../x">>, <<"../../x">>, "contains the name .."},
                            {<<"/tmp/x">>, <<"/tmp/x">>, "contains an empty name"},
                            {<<"a\nb">>, <<"a\nb">>, "contains a control character"}],
        Named <- [<<Below/binary, At/binary>>]],
    ?assertEqual([], files(Config)),
    ?assertEqual({ok, Before}, file:list_dir(Parent)).

%% A system cannot have a name that is not a file name. The names of the directory's other parts
%% are refused only in that format.
odd_names(Config) ->
    System = pack_samples:system(),
    {ok, App} = whittle_system:app(sample, System),
    New = #{name => "sample", vsn => "1.0", otp => "29"},
    [?assertError(badarg, Make(Bad))
     || Bad <- ["../x", "/x", "-x", ".x", "a/b", "a\nb", ""],
        Make <- [fun(Text) -> whittle_system:new(New#{name := Text}) end,
                 fun(Text) -> whittle_system:new(New#{vsn := Text}) end,
                 fun(Text) -> whittle_system:put_app(App#{vsn := Text}, System) end,
                 fun(Text) -> whittle_system:put_app(App#{name := list_to_atom(Text)}, System) end,
                 fun(Text) ->
                         whittle_system:put_app(App#{modules := #{list_to_atom(Text) => <<>>}},
                                                System)
                 end]],
    ?assertEqual({error, {name_taken, "vm"}}, whittle_pack:check_name("vm", #{format => dir})),
    ?assertEqual(ok, whittle_pack:check_name("vm", #{})),
    ?assertEqual(ok, whittle_pack:check_name("sample", #{format => dir})),
    ?assertEqual("the start script cannot have the name `vm', because every output directory needs "
                 "that name for another part: rename the application or release, or build with "
                 "--format exe", lists:flatten(whittle_pack:format_error({name_taken, "vm"}))),
    ?assertEqual([], files(Config)).

directory_of_others(Config) ->
    Out = ?config(out, Config),
    ok = file:make_dir(Out),
    {ok, _} = try_write(Config, #{format => dir}),      % the directory was empty
    ?assertEqual(ok, whittle_pack:check_output(Out, #{format => dir})),
    ok = file:write_file(filename:join(Out, "notes"), "mine"),
    ?assertEqual({error, {holds_others, {Out, "notes"}}}, try_write(Config, #{format => dir})),
    ok = file:delete(filename:join(Out, "notes")),
    {ok, _} = try_write(Config, #{format => dir}),
    ok = file:delete(filename:join(Out, "tree/etc/info.json")),
    ?assertEqual({error, {not_ours, Out}}, try_write(Config, #{format => dir})),
    ?assertEqual({error, {not_ours, Out}}, whittle_pack:check_output(Out, #{format => dir})).

file_in_place_of_a_directory(Config) ->
    Out = ?config(out, Config),
    {ok, _} = try_write(Config, #{}),
    ?assertEqual({error, {is_file, Out}}, try_write(Config, #{format => dir})),
    ?assertEqual(ok, whittle_pack:check_output(Out, #{})).

%% A command replaces only files of its own kind.
files_of_a_kind(Config) ->
    File = ?config(out, Config),
    Check = fun() -> whittle_pack:check_beside(File, <<"kind 1">>) end,
    ?assertEqual(ok, Check()),
    [begin
         ok = file:write_file(File, Bytes),
         ?assertEqual({Bytes, Expected}, {Bytes, Check()})
     end || {Bytes, Expected} <- [{<<>>, ok}, {<<"kind 1">>, ok}, {<<"kind 1, more">>, ok},
                                  {<<"kind">>, {error, {not_ours, File}}},
                                  {<<"kind 2">>, {error, {not_ours, File}}}]].

%% An executable replaces only an older output, also if the other file appears while it is written.
foreign_executable(Config) ->
    Out = ?config(out, Config),
    {ok, _} = try_write(Config, #{}),
    {ok, _} = try_write(Config, #{}),
    {ok, Written} = file:read_file(Out),
    ok = file:write_file(Out, [Written, "signature"]),
    {ok, _} = try_write(Config, #{}),
    Foreign = <<16#7f, "ELF, but not ours">>,
    ok = file:write_file(Out, Foreign),
    ?assertEqual({error, {not_ours, Out}}, try_write(Config, #{})),
    ?assertEqual({error, {not_ours, Out}}, whittle_pack:check_output(Out, #{})),
    ?assertEqual({ok, Foreign}, file:read_file(Out)),
    %% The first question comes before the write, and the second one after it.
    Asked = counters:new(1, []),
    IsOlder = fun(_) -> ok = counters:add(Asked, 1, 1), counters:get(Asked, 1) < 2 end,
    ?assertEqual({error, {not_ours, Out}}, whittle_pack_file:write(Out, "x", 8#755, IsOlder)),
    ?assertEqual({ok, Foreign}, file:read_file(Out)).

%% Zero bytes, one, and all lengths around the places where the size takes another byte.
checksum(Config) ->
    File = filename:join(?config(dir, Config), "bytes"),
    [begin
         Bytes = rand:bytes(Size),
         ok = file:write_file(File, Bytes),
         ?assertEqual(os:cmd("cksum <'" ++ File ++ "'"),
                      lists:flatten(whittle_cksum:sum(Bytes)) ++ "\n")
     end || Size <- [0, 1, 2, 255, 256, 257, 65535, 65536, 300000]].

%% Errors

output_is_device(_Config) ->
    [?assertEqual({error, {not_a_file, Out}}, whittle_pack_file:check(Out))
     || Out <- ["/dev/null", "/proc/kmsg"]],
    ?assertEqual({ok, device}, file_type("/dev/null")).

file_type(File) ->
    {ok, #file_info{type = Type}} = file:read_file_info(File),
    {ok, Type}.

output_is_directory(Config) ->
    Dir = ?config(dir, Config),
    ?assertEqual({error, {is_directory, Dir}},
                 whittle_pack:write(pack_samples:system(), ?config(runtime, Config), Dir, #{})),
    ?assertEqual([], files(Config)).

%% The file system has 256 KB. The older output stays unchanged.
full_disk(Config) ->
    small_disk:with("256k", fun(Disk) ->
        Out = filename:join(Disk, "sample"),
        {ok, _} = whittle_pack:write(pack_samples:system(), ?config(runtime, Config), Out, #{}),
        {ok, Older} = file:read_file(Out),
        Big = #{mode => 8#644, bytes => rand:bytes(400000)},
        Write = fun(To, Options) ->
                        whittle_pack:write(pack_samples:system(), ?config(runtime, Config), To,
                                           Options#{files => #{<<"big">> => Big}})
                end,
        ?assertEqual({error, {cannot_write, {Out, enospc}}}, Write(Out, #{})),
        ?assertEqual({error, {cannot_write, {Out ++ ".d", enospc}}},
                     Write(Out ++ ".d", #{format => dir})),
        ?assertEqual({ok, Older}, file:read_file(Out)),
        ?assertEqual({ok, ["sample"]}, file:list_dir_all(Disk))
    end).

%% The rights of a directory do not tell this reason.
read_only_disk(_) ->
    small_disk:read_only(fun(Disk) ->
        Out = filename:join(Disk, "sample"),
        [begin
             {error, {cannot_write, {Out, erofs}} = Error} =
                 whittle_pack:check_output(Out, #{format => Format}),
             ?assertEqual(Out ++ " cannot be written (read-only file system): name another output "
                          "with -o", lists:flatten(whittle_pack:format_error(Error)))
         end || Format <- [exe, dir]]
    end).

%% A write stops before each of its calls to the file system. The directory then holds the old
%% contents or all new contents, and nothing else.
stopped(Config) ->
    Mark = {<<"mark">>, fun(_) -> true end, <<"mark">>},
    File = fun(N) ->
                   [{<<"mark">>, whittle_pack_sums:text([{<<"a/", N/binary>>, N}]), 8#644},
                    {<<"a/", N/binary>>, N, 8#644}]
           end,
    Dir = fun(N, Out) -> whittle_pack_file:write_dir(Out, File(N), Mark) end,
    Exe = fun(N, Out) -> whittle_pack_file:write(Out, N, 8#755, fun(_) -> true end) end,
    [?assertEqual({old, new}, {hd(Ends), lists:last(Ends)})
     || {Write, Name} <- [{Dir, "dir"}, {Exe, "exe"}],
        Ends <- [stopped_at(0, Write, filename:join(?config(dir, Config), Name))]].

stopped_at(Calls, Write, Parent) ->
    Out = filename:join(Parent, "out"),
    _ = file:del_dir_r(Parent),
    ok = file:make_dir(Parent),
    [Old, New] = [begin
                      ok = Write(Bytes, Out),
                      tree_of(Parent)
                  end || Bytes <- [<<"old">>, <<"new">>]],
    ok = Write(<<"old">>, Out),
    %% The older output comes from another command.
    "" = os:cmd("cd '" ++ Parent ++ "' && mv out older && cp -R older out && rm -r older"),
    Ended = held(Calls, fun() -> Write(<<"new">>, Out) end),
    End = case tree_of(Parent) of
              Old -> old;
              New -> new;
              Other -> error({left, Calls, Other})
          end,
    %% The command names the output exactly if it is the new one.
    ?assertEqual({Calls, [Out || End =:= new]},
                 {Calls, [Place || Place <- whittle_unfinished:in_place(), Place =:= Out]}),
    case Ended of
        held -> [End | stopped_at(Calls + 1, Write, Parent)];
        ended -> [End]
    end.

tree_of(Path) ->
    case file:list_dir_all(Path) of
        {ok, Names} -> [{Name, tree_of(filename:join(Path, Name))} || Name <- lists:sort(Names)];
        {error, enotdir} -> file:read_file(Path)
    end.

%% Runs a function in a process whose file server stops responding after the given number of
%% calls, and undoes its unfinished work.
held(Calls, Fun) ->
    Real = whereis(file_server_2),
    Test = self(),
    {Writer, Monitor} = spawn_monitor(fun() -> receive go -> Fun() end end),
    Proxy = spawn(fun() -> pass_on(Real, Writer, Test, Calls) end),
    true = unregister(file_server_2),
    true = register(file_server_2, Proxy),
    try
        Writer ! go,
        receive
            held ->
                true = erlang:suspend_process(Writer),
                [] = whittle_unfinished:undo_all(),
                exit(Writer, kill),
                receive {'DOWN', Monitor, _, _, killed} -> held end;
            {'DOWN', Monitor, _, _, normal} ->
                ended
        end
    after
        true = unregister(file_server_2),
        true = register(file_server_2, Real)
    end.

pass_on(Real, Writer, Test, Left) ->
    receive
        {'$gen_call', {Writer, _}, _} when Left =:= 0 ->
            Test ! held,
            pass_on(Real, Writer, Test, 0);
        {'$gen_call', {Writer, _}, _} = Call ->
            Real ! Call,
            pass_on(Real, Writer, Test, Left - 1);
        Other ->
            Real ! Other,
            pass_on(Real, Writer, Test, Left)
    end.

no_rights(Config) ->
    Out = filename:join(?config(dir, Config), "none/sample"),
    ?assertEqual(ok, whittle_pack:check_output(?config(out, Config), #{})),
    ?assertEqual({error, {cannot_write, {Out, no_directory}}}, whittle_pack:check_output(Out, #{})),
    ?assertEqual({error, {cannot_write, {"/dev/null/x", enotdir}}},
                 whittle_pack:check_output("/dev/null/x", #{})),
    ?assertEqual({error, {cannot_write, {Out, no_directory}}},
                 whittle_pack:write(pack_samples:system(), ?config(runtime, Config), Out, #{})),
    Secret = ?config(out, Config),
    ok = file:write_file(Secret, "mine"),
    ok = file:change_mode(Secret, 0),
    case file:open(Secret, [read]) of
        {error, eacces} ->
            ?assertEqual({error, {unreadable, {Secret, eacces}}},
                         whittle_pack:check_output(Secret, #{}));
        {ok, _} -> {comment, "the part about a file that the user cannot read: root reads all"}
    end.

no_runtime(Config) ->
    Runtime = (?config(runtime, Config))#{executable := "/no/vm"},
    ?assertEqual({error, {unreadable, {"/no/vm", enoent}}},
                 whittle_pack:write(pack_samples:system(), Runtime, ?config(out, Config), #{})).

foreign_runtime(Config) ->
    Dir = ?config(dir, Config),
    Out = ?config(out, Config),
    Try = fun(File) ->
                  Runtime = (?config(runtime, Config))#{executable := File},
                  whittle_pack:write(pack_samples:system(), Runtime, Out, #{})
          end,
    Text = filename:join(Dir, "text"),
    ok = file:write_file(Text, "no program"),
    ?assertEqual({error, {in, {Text, {elf_foreign, <<"no p">>}}}}, Try(Text)),
    ?assertEqual({error, {in, {"/bin/sh", {elf_no_note, []}}}}, Try("/bin/sh")),
    %% A file with a pack has no room for a second one.
    Packed = write(Config),
    ?assertEqual({error, {in, {Packed, {elf_no_note, []}}}}, Try(Packed)).

env_lines(Config) ->
    System = whittle_system:put_env(<<"A">>, {default, <<"1\n2">>}, pack_samples:system()),
    ?assertEqual({error, {env_line, <<"A">>}},
                 whittle_pack:write(System, ?config(runtime, Config), ?config(out, Config), #{})),
    ?assertEqual([], files(Config)).

damaged(Config) ->
    Out = write(Config),
    {ok, Bytes} = file:read_file(Out),
    Cut = binary:part(Bytes, 0, byte_size(Bytes) - 1),
    ok = file:write_file(Out, Cut),
    ?assertEqual({error, {in, {Out, {elf_damaged, truncated}}}}, whittle_pack:read(Out)),
    ok = file:write_file(Out, [Cut, <<(binary:last(Bytes) bxor 1)>>]),
    ?assertEqual({error, {in, {Out, {pack_damaged, checksum}}}}, whittle_pack:read(Out)),
    #{executable := Probe} = ?config(runtime, Config),
    ?assertEqual({error, {in, {Probe, {elf_no_pack, []}}}}, whittle_pack:read(Probe)).

%% Every error is one line that ends with the next step.
errors(_) ->
    All = [{in, {"out", {elf_no_pack, []}}}, {is_directory, "out"}, {is_file, "out"},
           {not_a_file, "out"}, {not_ours, "out"}, {holds_others, {"out", "mine"}},
           {no_sums, "out"},
           {holds_edits, {"out", {new, <<"mine">>}, 0}},
           {holds_edits, {"out", {changed, <<"mine">>}, 1}},
           {holds_edits, {"out", {changed, <<"mine">>}, 2}},
           {cannot_write, {"out", enospc}}, {cannot_write, {"out", eacces}},
           {cannot_write, {"out", no_directory}},
           {locked, "dir"}, {unreadable, {"in", enoent}}, {env_line, <<"A">>}, {no_zstd, "zstd"},
           {zstd_failed, {1, <<"no">>}}, {pack_damaged, checksum}, {pack_foreign, <<>>},
           {pack_path, {<<"a">>, "occurs twice"}},
           {name_taken, "vm"}, {pack_too_large, 1}, {elf_foreign, <<>>},
           {elf_damaged, header}, {elf_no_note, []}, {elf_no_pack, []}, {elf_no_room, 0}],
    lists:foreach(fun(Error) ->
                          Line = unicode:characters_to_list(whittle_pack:format_error(Error)),
                          ?assertNotEqual([], Line),
                          ?assertNot(lists:member($\n, Line)),
                          ?assertMatch([_, _ | _], string:split(Line, ": ", all))
                  end, All).

%% Internal

write(Config) -> write(Config, #{}).

write(Config, Options) ->
    {ok, _} = try_write(Config, Options),
    ?config(out, Config).

try_write(Config, Options) ->
    whittle_pack:write(pack_samples:system(), ?config(runtime, Config),
                       ?config(out, Config), Options).

files(Config) ->
    {ok, Names} = file:list_dir_all(?config(dir, Config)),
    lists:sort(Names).

unpacked(Out) ->
    {ok, Bytes} = file:read_file(Out),
    {ok, Pack} = whittle_elf:pack(Bytes),
    {ok, Blocks} = whittle_pack_format:decode(Pack),
    maps:from_list([{Path, {Mode, File}}
                    || Block <- Blocks,
                       #{path := Path, mode := Mode, bytes := File} <- Block]).
