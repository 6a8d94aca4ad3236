%% Tests the first code of every VM, native/launcher/entry.c, in a small program with a pack. This
%% machine and the emulators of the others run it. A truncated file reports that, and a file with
%% changed bytes does not run. `whittle size' and the other commands that read an executable find
%% the same damage (whittle_elf:pack/1), and also damage that the program itself cannot report.
-module(entry_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2]).
-export([x86_64/1, armv7/1, armv6/1, mips/1, aarch64/1, riscv64/1,
         without_a_sum/1, started_by_other_paths/1]).

-define(OPTIONS, ["-Os", "-std=gnu11", "-fno-pie", "-ffunction-sections"]).
-define(LINK, ["-static", "-no-pie", "-Wl,--gc-sections", "-Wl,-z,noseparate-code",
               "-Wl,-z,norelro", "-Wl,-z,max-page-size=4096", "-Wl,-e,whittle_entry"]).
%% The first page holds the headers, which the kernel reads, and the check itself.
-define(CHECKED_FROM, 4096).
%% The ELF header and two program headers of a file of 32 bits.
-define(HEADERS, 52 + 2 * 32).
-define(PACK, <<"Whittle", 1, 0:800000>>).

all() ->
    [x86_64, armv7, armv6, mips, aarch64, riscv64, without_a_sum, started_by_other_paths].

%% Each case has the same places, in any order of the cases.
init_per_testcase(_, Config) ->
    _ = rand:seed(exsss, {19, 5, 200}),
    Config.

x86_64(Config) -> checked("musl-gcc", [], none, 200, Config).

armv7(Config) -> checked("arm-linux-gnueabihf-gcc", [], "qemu-arm", 12, Config).

armv6(Config) ->
    checked("arm-linux-gnueabi-gcc", ["-march=armv6kz+fp", "-mfloat-abi=softfp"], "qemu-arm", 12,
            Config).

%% Without the parts for position-independent code, as the target's own flags require.
mips(Config) ->
    checked("mips-linux-gnu-gcc", ["-march=mips32r2", "-mno-abicalls", "-fno-pic", "-G0"],
            "qemu-mips", 12, Config).

aarch64(Config) -> checked("aarch64-linux-gnu-gcc", [], "qemu-aarch64", 12, Config).

riscv64(Config) -> checked("riscv64-linux-gnu-gcc", [], "qemu-riscv64", 12, Config).

checked(Compiler, Flags, Emulator, Places, Config) ->
    case [Name || Name <- [Compiler, Emulator], Name =/= none,
                  os:find_executable(Name) =:= false] of
        [] -> checked(linked(Compiler, Flags, Config), Emulator, Places);
        Missing -> {skip, "not installed: " ++ lists:append(lists:join(", ", Missing))}
    end.

checked(Vm, Emulator, Places) ->
    {ok, Bytes} = file:read_file(Vm),
    {ok, Io} = whittle_elf:attach(Bytes, ?PACK),
    Whole = iolist_to_binary(Io),
    File = Vm ++ "-packed",
    Run = fun(Changed) ->
                  ok = file:write_file(File, Changed),
                  ok = file:change_mode(File, 8#755),
                  run(Emulator, File, ["word"])
          end,
    ?assertEqual({0, <<"2 word 1500160\n">>}, Run(Whole)),
    ?assertEqual({ok, ?PACK}, whittle_elf:pack(Whole)),
    ?assertEqual({error, {elf_damaged, appended}}, whittle_elf:pack(<<Whole/binary, 0>>)),
    %% The kernel reads the headers before any code of the file runs.
    [?assertMatch({At, {error, {_, _}}}, {At, whittle_elf:pack(flipped(At, Whole))})
     || At <- lists:seq(0, ?HEADERS - 1)],
    [?assertEqual({Size, {1, said(File, "its end is missing")}},
                  {Size, Run(binary:part(Whole, 0, Size))})
     || Size <- [?CHECKED_FROM, byte_size(Whole) - 1
                 | places(Places, ?CHECKED_FROM, byte_size(Whole))]],
    {ok, Loaded} = whittle_elf:loaded_size(Bytes),
    Loads = [At || At <- places(Places, ?CHECKED_FROM, Loaded), is_loaded(At, Bytes)],
    Expected = {1, said(File, "the VM's checksum is wrong")},
    [?assertEqual({At, Expected}, {At, Run(flipped(At, Whole))})
     || At <- Loads],
    [?assertEqual({At, {error, {elf_damaged, vm_checksum}}},
                  {At, whittle_elf:pack(flipped(At, Whole))})
     || At <- lists:sublist(Loads, 12)].

%% A VM without a pack runs unchecked; `--format dir' writes such VMs.
without_a_sum(Config) ->
    Vm = linked("musl-gcc", [], Config),
    {ok, Bytes} = file:read_file(Vm),
    ?assertEqual({0, <<"1  1500160\n">>}, run(none, Vm, [])),
    {ok, Loaded} = whittle_elf:loaded_size(Bytes),
    ok = file:write_file(Vm, flipped(last_constant(Bytes), Bytes)),
    ?assertMatch({0, _}, run(none, Vm, [])),
    ok = file:write_file(Vm, binary:part(Bytes, 0, Loaded - 1)),
    %% The kernel itself may stop it, but it does not run.
    {Code, _} = run(none, Vm, []),
    ?assertNotEqual(0, Code).

%% The program starts through a link, through a descriptor, and without read permission.
started_by_other_paths(Config) ->
    Vm = linked("musl-gcc", [], Config),
    {ok, Bytes} = file:read_file(Vm),
    {ok, Io} = whittle_elf:attach(Bytes, ?PACK),
    Dir = running:directory("paths", Config),
    File = filename:join(Dir, "program"),
    ok = file:write_file(File, Io),
    ok = file:change_mode(File, 8#711),
    Link = filename:join(Dir, "link"),
    _ = file:delete(Link),
    ok = file:make_symlink("program", Link),
    [?assertEqual({Command, {0, <<"2 word 1500160\n">>}},
                  {Command, running:run("/bin/sh", ["-c", Command], #{cd => Dir})})
     || Command <- ["./link word", "exec 9<program; /dev/fd/9 word", "PATH=.:$PATH program word",
                    "cd /; exec " ++ File ++ " word"]],
    ok = file:write_file(File, binary:part(iolist_to_binary(Io), 0, 5000)),
    ?assertEqual({1, <<"link: this file is damaged, so copy it again: its end is missing\n">>},
                 running:run(Link, ["word"])).

%% Shared functions

linked(Compiler, Flags, Config) ->
    Dir = running:directory("entry-" ++ Compiler, Config),
    Launcher = filename:join(running:root(), "native/launcher"),
    Object = fun(Source, More) ->
                     Out = filename:join(Dir, filename:basename(Source, ".c") ++ ".o"),
                     ran(Compiler, Flags ++ More ++ ?OPTIONS ++ ["-I", Launcher, "-c", Source,
                                                                "-o", Out]),
                     Out
             end,
    Objects = [Object(filename:join(Launcher, "entry.c"), ["-Wall", "-Wextra", "-Werror"]),
               Object(filename:join(Launcher, "note.c"), [])],
    Main = filename:join(running:root(), "acceptance/suites/entry_main.c"),
    Vm = filename:join(Dir, "program"),
    %% On mips, the compiler's own C library is for position-independent code.
    Own = [Flag || Flag <- Flags, not lists:member(Flag, ["-mno-abicalls", "-fno-pic", "-G0"])],
    ran(Compiler, Own ++ ?OPTIONS ++ ?LINK ++ ["-s", "-o", Vm | Objects] ++ [Main]),
    Vm.

ran(Compiler, Words) ->
    {0, _} = running:run(os:find_executable(Compiler), Words).

run(none, File, Words) -> running:run(File, Words);
run(Emulator, File, Words) -> running:run(os:find_executable(Emulator), [File | Words]).

said(File, Why) ->
    iolist_to_binary([filename:basename(File), ": this file is damaged, so copy it again: ", Why,
                      "\n"]).

places(Count, From, To) ->
    [From + rand:uniform(To - From) - 1 || _ <- lists:seq(1, Count)].

flipped(At, Bytes) ->
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    <<Before/binary, (Byte bxor (1 bsl (rand:uniform(8) - 1))), After/binary>>.

%% Tells whether the program uses a byte: between a file's segments may be unused bytes.
is_loaded(At, Bytes) ->
    lists:any(fun({From, Size}) -> From =< At andalso At < From + Size end, loads(Bytes)).

loads(Bytes) ->
    <<16#7f, "ELF", Class, Data, _/binary>> = Bytes,
    Width = 4 * Class,
    Int = fun(At, Size) ->
                  binary:decode_unsigned(binary:part(Bytes, At, Size),
                                         element(Data, {little, big}))
          end,
    Start = Int(24 + Width, Width),
    Sizes = 24 + 3 * Width + 6,
    [{Int(At + offset_at(Class), Width), Int(At + filesz_at(Class), Width)}
     || N <- lists:seq(0, Int(Sizes + 2, 2) - 1),
        At <- [Start + N * Int(Sizes, 2)], Int(At, 4) =:= 1].

offset_at(1) -> 4;
offset_at(2) -> 8.

filesz_at(1) -> 16;
filesz_at(2) -> 32.

%% Finds a byte that a start does not need.
last_constant(Bytes) ->
    {At, _} = lists:last(binary:matches(Bytes, <<"!!!!!!!!">>)),
    At.
