%% @hidden Writes the recipes of the VM for a target.
%%
%% There are two recipes, so that a change in the launcher does not compile ERTS again:
%% <ul>
%% <li>{@link erts/4} configures ERTS once for a target, a release and a flavor. It builds
%%     ERTS's static library (`libbeam.a') and those of the libraries in it.</li>
%% <li>{@link link/4} compiles the launcher and ERTS's small programs, and links
%%     everything into one executable.</li>
%% </ul>
%% It cross-compiles for every target, also for the machine's own.
%%
%% docs/runtime-size.md has the effect of each measure on the size.
-module(whittle_recipe_vm).

-import(whittle_toolchain, [tools/2, cflags/2, lto/1, cxx_masks/1, kernel_headers/2, page_size/1,
                            words/1]).

-export([erts/4, link/4, separate/0, profiled/0, has_zstd/1, needs_openssl/2, needs_ssl/1]).
%% For whittle_recipe_relink
-export([link_flags/2, libraries/3, native_archives/1, needs_cxx/1, cxx_object/0, programs/0,
         includes/2, defines/0]).

-export_type([how/0]).

%% How the compiler optimizes: the flavor; one level for every file, or the flavor's own levels; and
%% the profile (a file name below native/profiles) by which it chooses hot code.
-type how() :: {size | speed, mix | whittle_runtime:level(), none | string()}.

%% OTP's programs inside the executable. The main() of each becomes NAME_main(), and the linker
%% sees no other symbol of it. Those of os_mon have 3.4 KB.
-define(PROGRAMS,
        [{"erl_child_setup", ["erts/emulator/sys/unix/erl_child_setup.c",
                              "erts/emulator/sys/unix/sys_uds.c"]},
         {"inet_gethost", ["erts/etc/common/inet_gethost.c"]},
         {"heart", ["erts/etc/common/heart.c"]},
         {"memsup", ["lib/os_mon/c_src/memsup.c"]},
         {"cpu_sup", ["lib/os_mon/c_src/cpu_sup.c"]}]).

%% NODEBUG removes the text of ERL_INET_GETHOST_DEBUG from inet_gethost: 2.8 KB.
-define(PROGRAM_FLAGS, " -DHAVE_CLOSEFROM -DNODEBUG").

%% Programs that outlive the program which starts them: separate executables for the pack. A
%% daemon has no terminal, so the recipe compiles epmd without its help text and without the
%% text of -debug (docs/runtime-size.md).
-define(SEPARATE,
        [{"epmd", [{"erts/epmd/src/epmd.c", " '-Dfprintf(...)='"},
                   {"erts/epmd/src/epmd_cli.c", ""},
                   {"erts/epmd/src/epmd_srv.c", " '-Dfprintf(...)=' '-Ddbg_tty_printf(...)='"}]}]).

%% The launcher's own parts (docs/launcher.md). The linker takes `entry' first, so that it lies
%% in the first pages of the file.
-define(PARTS, ["entry", "main", "buffer", "config", "erl", "machine", "distribution", "pack",
                "flags", "input", "process", "refuse", "signals", "template", "vfs", "musl",
                "note"]).

%% Empty parts that a VM may have in place of libraries.
-define(WITHOUT, ["without_zstd_compressor", "without_terminfo"]).

%% Objects of ERTS in which a running program spends its time: the interpreter's loop, the
%% garbage collector, and the code for messages, bit strings and tables; then the objects that
%% load code at the start. The recipe compiles them for speed also in flavor `size'
%% (bench/interpreter, docs/runtime-size.md).
-define(HOT, ["beam_emu", "erl_gc", "erl_bits", "erl_db_hash", "erl_message",
              "emu_load", "beam_load", "beam_file", "beam_transform_helpers", "utils", "copy"]).

%% The objects that a profile describes: those that execute most of the code, and the loader's. The
%% compiler makes only those parts of them fast which the profile has seen.
-define(PROFILED, ["beam_emu", "copy", "erl_alloc_util", "erl_bits", "erl_db_hash", "erl_gc",
                   "erl_map", "erl_message", "erl_proc_sig_queue", "erl_process", "utils",
                   "emu_load", "beam_load", "beam_file", "beam_transform_helpers"]).

%% A function that has changed since the training does without its profile, and the log says so.
-define(USE, "-fprofile-use -fprofile-correction -Wno-error=coverage-mismatch").
%% Code is hot if it belongs to the most executed blocks that together had 90 % of all executions.
%% gcc's own 99 % gives 22 kB more and no speed (docs/runtime-size.md).
-define(LINK_USE, "-fprofile-use --param=hot-bb-count-ws-permille=900").
-define(RECORD, "-fprofile-generate -fprofile-update=prefer-atomic").

%% Search the kernel's headers after the compiler's own, so that they hide none of the C
%% library's.
-define(KERNEL_HEADERS, "-idirafter $WORK/kernel").
-define(KERNEL, "\"$WORK/kernel\"").

%% The definitions in ERTS's own makefile for an emulator.
-define(DEFINES, "-D_GNU_SOURCE -DHAVE_CONFIG_H -DUSE_THREADS -D_THREAD_SAFE"
        " -D_REENTRANT -DPOSIX_THREADS -D_POSIX_THREAD_SAFE_FUNCTIONS").

%% @doc Tells whether a release's ERTS contains zstd. The launcher needs its decompressor.
-spec has_zstd(string()) -> boolean().
has_zstd(Release) ->
    list_to_integer(Release) >= 28.

%% @doc Lists the names of the programs that {@link link/4} builds beside the VM.
-spec separate() -> [string()].
separate() -> [Name || {Name, _} <- ?SEPARATE].

%% @doc Lists the objects of ERTS that a profile describes.
-spec profiled() -> [string()].
profiled() -> ?PROFILED.

%% @doc Returns the recipe of ERTS as libraries.
%%
%% Variables: SOURCE; PATCHES, the directory of Patches, which are file names; PROFILES, the
%% directory of the profile; TERMINFO_LIB, the artifact of {@link whittle_recipe_lib:terminfo/3}.
-spec erts(whittle_target:target(), how(), whittle_source:source(), [string()]) ->
          whittle_recipe:recipe().
erts(Target, {Flavor, Level, Profile}, Source, Patches) ->
    #{triple := Triple, configure := Extra, ar := Ar} = Target,
    Top = "export ERL_TOP=\"$WORK/src\"",
    [#{name => "profile " ++ Profile, seconds => 1, lines => 5,
       script => ["mkdir profile",
                  "tar -C profile -xf \"$PROFILES/" ++ Profile ++ "\"",
                  "for object in" ++ words(?PROFILED) ++ "; do test -s \"profile/$object.gcda\" ||"
                  " { echo \"there are no counts of $object\"; exit 1; }; done"]}
     || Profile =/= none]
        ++
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)}
     | [#{name => "patch " ++ Patch, seconds => 1, lines => 5,
          script => ["patch -d src -p1 -N < \"$PATCHES/" ++ Patch ++ "\""]}
        || Patch <- Patches]]
        ++
    [#{name => "yielding_c_fun", seconds => 4, lines => 20,
       %% The build of ERTS runs this program on the host. Otherwise it would look for the
       %% program in an installed OTP of the same version.
       script => ["gcc -O1 -w -o yielding_c_fun"
                  " -I src/erts/lib_src/yielding_c_fun"
                  " $(find src/erts/lib_src/yielding_c_fun -name '*.c'"
                  " ! -name test.c ! -path '*/test/*')"]},
     #{name => "configure", seconds => 40, lines => 500,
       script =>
           %% Do not configure lib/: the recipe builds nothing there.
           ["rm -f src/lib/*/configure"] ++ kernel_headers(Target, ?KERNEL) ++ ["cd src", Top]
           ++ tools(Target, ["-ffile-prefix-map=$WORK=.", "-I$WORK/terminfo/include",
                             ?KERNEL_HEADERS | cflags(Target, level(Level, Flavor))]
                    ++ lto(Flavor))
           ++ ["export CXXFLAGS=\"$CXXFLAGS" ++ cxx_masks(Target) ++ "\"" || Flavor =:= speed]
           ++ ["cp -R \"$TERMINFO_LIB\" \"$WORK/terminfo\"",
               "export LDFLAGS=\"$LDFLAGS -L$WORK/terminfo/lib\""]
           %% Guess the host with its own gcc, not with the target's compiler.
           ++ ["build=$(CC_FOR_BUILD=gcc erts/autoconf/config.guess)",
               "./configure --build=\"$build\""
               " --host=" ++ Triple ++ " " ++ jit(Flavor) ++
               " --disable-security-hardening-flags --disable-pie"
               " --with-termcap --without-ssl --without-javac --without-wx"
               " --without-odbc --enable-builtin-zlib --enable-builtin-zstd"
               " --disable-dynamic-ssl-lib --disable-sctp"
               " --enable-deterministic-build"
               ++ words(Extra)]
           ++ hot(Level, Profile, Triple)},
     #{name => compiling(Flavor, Level, Profile), seconds => 90, lines => 330,
       script =>
           ["cd src", Top,
            "make -j\"$JOBS\" -C erts/emulator -f " ++ Triple ++ "/Makefile TYPE=opt FLAVOR="
            ++ flavor(Flavor) ++ " TARGET=" ++ Triple
            ++ " YCF_EXECUTABLE_PATH=\"$WORK/yielding_c_fun\""
            " \"$ERL_TOP/bin/" ++ Triple ++ "/libbeam.a\""]},
     #{name => "keep", seconds => 3, lines => 5,
       script =>
           %% Remove the table of static drivers and NIFs: link/4 writes it when it
           %% knows them.
           [Ar ++ " d src/bin/" ++ Triple ++ "/libbeam.a driver_tab.o",
            "cp src/bin/" ++ Triple ++ "/libbeam.a \"$OUT\"",
            "cp src/OTP_VERSION \"$OUT\"",
            "basename \"$WORK\" > \"$OUT/workplace\"",
            "cp -R src/LICENSE.txt src/erts \"$OUT\"",
            "for application in crypto asn1 os_mon; do",
            "  mkdir -p \"$OUT/lib/$application\"",
            "  cp -R \"src/lib/$application/c_src\" \"$OUT/lib/$application\"",
            "done",
            "find \"$OUT/erts\" -name '*.o' -delete"]
           ++ ["find \"$OUT/erts\" -name '*.gcda' -delete" || Profile =/= none]
           %% A program for the training.
           ++ ["cp src/erts/emulator/test/estone_SUITE.erl \"$OUT\"" || Level =:= record]
           ++ ["rm -rf \"$OUT\"/erts/test \"$OUT\"/erts/doc"
            " \"$OUT\"/erts/emulator/test \"$OUT\"/erts/preloaded"]}].

%% @doc Returns the recipe of the executable that contains ERTS and the launcher.
%%
%% Variables: ERTS, the artifact of {@link erts/4}; LAUNCHER, the directory of the launcher's
%% sources; CXX_PARTS, the directory of the additional sources for C++; TERMINFO_LIB, OPENSSL,
%% ZSTD and NATIVE_name, artifacts that Natives or the release need. A dynamically linked
%% executable can load NIFs and drivers at run time; only OTP's own suites need that.
-spec link(whittle_target:target(), {string(), how()}, [whittle_runtime:native()],
           static | dynamic) -> whittle_recipe:recipe().
link(Target, {Release, {Flavor, Level, Profile}}, AllNatives, Linkage) ->
    {Natives, Brought} = lists:partition(fun is_atom/1, AllNatives),
    Cxx = Flavor =:= speed orelse needs_cxx(AllNatives),
    #{strip := Strip, objcopy := Objcopy, triple := Triple} = Target,
    Flags = compile_flags(Target, level(Level, Flavor)),
    [#{name => "launcher", seconds => 4, lines => 5,
       script => ["mkdir launcher"] ++ kernel_headers(Target, ?KERNEL) ++ tools(Target, Flags)
           ++ ["for part in " ++ string:join(?PARTS ++ ?WITHOUT, " ") ++ "; do",
               %% Compile without LTO, which would bypass the linker's --wrap.
               "  $CC $CFLAGS -std=gnu11 -Wno-builtin-declaration-mismatch"
               " -DOTP_RELEASE=" ++ Release ++
               " -c \"$LAUNCHER/$part.c\" -o launcher/$part.o",
               "done"]},
     #{name => "programs", seconds => 6, lines => 5,
       script => ["mkdir programs"] ++ tools(Target, Flags)
           ++ includes(Triple, Flavor)
           ++ lists:append([program(P, Objcopy) || P <- ?PROGRAMS])
           ++ lists:append([separate(P, Target) || P <- ?SEPARATE])},
     #{name => "natives", seconds => 2 + 12 * length(Natives), lines => 5,
       script => ["mkdir natives"] ++ tools(Target, Flags ++ lto(Flavor))
           ++ includes(Triple, Flavor)
           ++ lists:append([native(N) || N <- Natives])
           ++ driver_table(Natives, Brought)},
     #{name => "link", seconds => 60, lines => 5,
       script => tools(Target, link_flags(Target, {Flavor, Level, Profile}))
           ++ cxx(Target, Cxx)
           ++ ["LDFLAGS=${LDFLAGS#-static}" || Linkage =:= dynamic]
           ++ ["wraps=$(sed 's/^/-Wl,--wrap=/' \"$LAUNCHER/wraps.txt\")",
               "inside=$(find \"$ERTS/erts/emulator\" -path '*/obj/*/opt/*.a')",
               lists:flatten(
                 ["$CC $CFLAGS -w ", linkage(Linkage), " -no-pie -Wl,--gc-sections ",
                  page_size(Target), " -Wl,-z,noseparate-code"
                  " -Wl,-z,norelro -Wl,--build-id=sha1 $wraps -o vm",
                  [" -Wl,-e,whittle_entry" || Linkage =:= static],
                  [" launcher/" ++ Part ++ ".o" || Part <- ?PARTS],
                  [" programs/" ++ P ++ ".o" || {P, _} <- ?PROGRAMS],
                  " -Wl,--whole-archive \"$ERTS/libbeam.a\""
                  " natives/driver_tab.o -Wl,--no-whole-archive",
                  without_compressor(Release), native_archives(AllNatives),
                  grouped(Triple, Release, AllNatives,
                          " \"$TERMINFO_LIB/lib/libtinfo.a\""),
                  " $cxx -lpthread -lm -Wl,--end-group $LDFLAGS"])]},
     #{name => "strip", seconds => 1, lines => 5,
       script => [Objcopy ++ " --only-keep-debug vm \"$OUT/vm.debug\"",
                  Strip ++ " -R .comment -o \"$OUT/vm\" vm"]
           ++ ["cp \"$ERTS/estone_SUITE.erl\" \"$OUT\"" || Level =:= record]}].

%% @doc Returns the compiler's flags for a link that generates the code.
-spec link_flags(whittle_target:target(), how()) -> [string()].
link_flags(Target, {Flavor, Level, Profile}) ->
    compile_flags(Target, level(Level, Flavor)) ++ profiled(Level, Profile)
        ++ [F ++ "=$JOBS" || F <- lto(Flavor)].

%% Removes this machine's paths from the debug symbols. Objects of LTO name their sources
%% relative to this directory, through the ERTS work directory beside it.
compile_flags(Target, Level) ->
    Places = [{"$WORK", "."}, {"$ERTS", "."}, {"../$(cat \"$ERTS/workplace\")", "."},
              {"../$(cat \"$TERMINFO_LIB/workplace\")", "."},
              {"$LAUNCHER", "launcher"}, {"$CXX_PARTS", "cxx"}],
    ["-g"] ++ ["-ffile-prefix-map=" ++ Place ++ "=" ++ Name || {Place, Name} <- Places]
        ++ [?KERNEL_HEADERS | cflags(Target, Level)].

%% @doc Returns the words of a link that name the libraries in a VM, without terminfo and those of
%% the compiler. The variable `inside' has ERTS's own.
-spec libraries(whittle_target:target(), string(), [whittle_runtime:native()]) -> string().
libraries(#{triple := Triple}, Release, Natives) ->
    lists:flatten([without_compressor(Release), grouped(Triple, Release, Natives, []),
                   " -Wl,--end-group"]).

without_compressor(Release) ->
    [" launcher/without_zstd_compressor.o" || has_zstd(Release)].

grouped(Triple, Release, AllNatives, Terminfo) ->
    {Natives, Brought} = lists:partition(fun is_atom/1, AllNatives),
    [" -Wl,--start-group $inside", Terminfo,
     [" \"$ZSTD/libzstd.a\"" || not has_zstd(Release)],
     [" \"$OPENSSL/lib/libssl.a\"" || needs_ssl(Brought)],
     [" \"$OPENSSL/lib/libcrypto.a\"" || needs_openssl(Natives, Brought)],
     " -L\"$ERTS/erts/lib/internal/" ++ Triple ++ "\" -lethread -lerts_internal_r"].

%% @doc Returns the words of a link that name the code of NIFs and drivers.
-spec native_archives([whittle_runtime:native()]) -> string().
native_archives(AllNatives) ->
    {Natives, Brought} = lists:partition(fun is_atom/1, AllNatives),
    lists:append([" natives/" ++ atom_to_list(N) ++ ".a" || N <- Natives]
                 ++ [" \"$NATIVE_" ++ N ++ "/" ++ N ++ ".o\"" || #{name := N} <- Brought]).

%% @doc Tells whether these natives need the library of C++.
-spec needs_cxx([whittle_runtime:native()]) -> boolean().
needs_cxx(Natives) -> lists:any(fun whittle_recipe_native:is_cxx/1, [N || #{} = N <- Natives]).

%% @doc Returns the line that compiles the object which the library of C++ needs besides.
-spec cxx_object() -> string().
cxx_object() -> "$CC $CFLAGS -c \"$CXX_PARTS/libstdcxx_on_musl.c\" -o libstdcxx_on_musl.o".

%% @doc Lists the names of OTP's programs inside the executable.
-spec programs() -> [string()].
programs() -> [Name || {Name, _} <- ?PROGRAMS].

%% @doc Returns the definitions in ERTS's own makefile.
-spec defines() -> string().
defines() -> ?DEFINES.

%% @doc Tells whether a VM with these natives contains OpenSSL's libcrypto.
-spec needs_openssl([atom()], [whittle_runtime:native()]) -> boolean().
needs_openssl(Natives, Brought) ->
    lists:member(crypto, Natives)
        orelse lists:any(fun whittle_recipe_native:needs_openssl/1, Brought).

%% @doc Tells whether one of these natives needs OpenSSL's libssl too.
-spec needs_ssl([whittle_runtime:native()]) -> boolean().
needs_ssl(Brought) ->
    lists:any(fun(#{libs := Libs}) -> lists:member(ssl, Libs) end, Brought).

%% One level for all files of ERTS, or the flavor's own mix.
level(Level, Flavor) ->
    case is_mix(Level) of
        true -> Flavor;
        false -> Level
    end.

is_mix(Level) -> lists:member(Level, [mix, unprofiled, record]).

%% Returns the lines that give the hot objects flags of their own. The level comes last in its line:
%% ERTS's makefile replaces -O2 between two spaces by -O3.
hot(record, _, Triple) ->
    [flags(?PROFILED, ?RECORD " ", Triple)];
hot(Level, none, Triple) ->
    [flags(?HOT, "", Triple) || is_mix(Level)];
hot(_, _Profile, Triple) ->
    Objects = "\"erts/emulator/obj/" ++ Triple ++ "/opt/emu\"",
    %% The compiler looks for a profile beside the object.
    [flags(?PROFILED, ?USE " ", Triple),
     "mkdir -p " ++ Objects,
     "cp \"$WORK\"/profile/*.gcda " ++ Objects].

flags(Objects, Flags, Triple) ->
    "for object in" ++ words(Objects) ++ "; do"
        " printf '$(OBJDIR)/%s.o: CFLAGS += " ++ Flags ++ "-O2\\n' \"$object\";"
        " done >> \"erts/emulator/" ++ Triple ++ "/Makefile\"".

%% The name of the step tells the log which profile the compiler used. It is not part of a key.
compiling(_, _, Profile) when Profile =/= none -> "compile with profile " ++ Profile;
compiling(size, mix, none) -> "compile (no profile fits)";
compiling(_, _, none) -> "compile".

%% The link generates the code, so it needs the profile's flags too.
profiled(record, _) -> ["-fprofile-generate"];
profiled(_, none) -> [];
profiled(_, _) -> [?LINK_USE].

linkage(static) -> "-static";
linkage(dynamic) -> "-rdynamic".

program({Name, Sources}, Objcopy) ->
    Flags = " -Dmain=" ++ Name ++ "_main" ?PROGRAM_FLAGS,
    [compiled(Name, Source, Flags) || Source <- Sources]
        ++ ["$CC -nostdlib -r -o programs/" ++ Name ++ ".o" ++ words(objects(Name, Sources)),
            Objcopy ++ " -G " ++ Name ++ "_main programs/" ++ Name ++ ".o"].

%% Returns the lines that build a separate program in $OUT, for size in every flavor.
separate({Name, Sources}, #{strip := Strip} = Target) ->
    Flags = " -Os -fno-builtin-printf -fno-builtin-fprintf -DEPMD_PORT_NO=4369",
    [compiled(Name, Source, Flags ++ Without) || {Source, Without} <- Sources]
        ++ ["for part in program program_libc; do",
            "  $CC $CFLAGS -Os -std=gnu11 -fno-builtin -DNAME='\"" ++ Name ++ "\"'"
            " -c \"$LAUNCHER/$part.c\" -o programs/$part.o",
            "done",
            "$CC $CFLAGS -w -static -no-pie -Wl,--gc-sections " ++ page_size(Target)
            ++ " -Wl,-z,noseparate-code -Wl,-z,norelro -Wl,--build-id=none -Wl,--wrap=open"
            " -o programs/" ++ Name ++ " programs/program.o programs/program_libc.o"
            ++ words(objects(Name, [Source || {Source, _} <- Sources])) ++ " $LDFLAGS",
            Strip ++ " -R .comment -o \"$OUT/" ++ Name ++ "\" programs/" ++ Name].

compiled(Name, Source, Flags) ->
    "$CC $CFLAGS -w " ?DEFINES ++ Flags ++ " $INCLUDES -c \"$ERTS/" ++ Source ++ "\" -o "
        ++ object(Name, Source).

objects(Name, Sources) -> [object(Name, Source) || Source <- Sources].

object(Name, Source) -> "programs/" ++ Name ++ "-" ++ filename:basename(Source, ".c") ++ ".o".

native(crypto) ->
    %% Without this result of crypto's configure, TLS cannot compare digests.
    nif("crypto", "crypto", "$ERTS/lib/crypto/c_src",
        "-DHAVE_OPENSSL_CRYPTO_MEMCMP -I\"$OPENSSL/include\"");
native(asn1) ->
    nif("asn1", "asn1rt_nif", "$ERTS/lib/asn1/c_src", "").

%% OTP 28 calls a static NIF by its library's name, older releases by its module's name. For
%% these two NIFs the names are equal.
nif(Name, Library, Directory, Flags) ->
    %% Compile there, like OTP's makefile: crypto's errors contain the source's __FILE__.
    ["cd \"" ++ Directory ++ "\"",
     "for source in *.c; do",
     "  case $source in otp_test_engine.c) ;; *)",
     "    $CC $CFLAGS -w -D_GNU_SOURCE -DHAVE_CONFIG_H -DUSE_THREADS"
     " -DSTATIC_ERLANG_NIF_LIBNAME=" ++ Library ++ " $INCLUDES " ++ Flags ++
     " -c \"$source\" -o \"$WORK/natives/" ++ Name ++ "-${source%.c}.o\"",
     "  esac",
     "done",
     "cd \"$WORK\"",
     "$AR rc natives/" ++ Name ++ ".a natives/" ++ Name ++ "-*.o"].

%% Runs ERTS's own generator, with the entries of the ERTS build and with ours.
driver_table(Natives, Brought) ->
    Libraries = [case N of crypto -> "crypto.a"; asn1 -> "asn1rt_nif.a" end
                 || N <- Natives]
        ++ [Name ++ ".a" || #{kind := nif, name := Name} <- Brought],
    Drivers = [Name ++ ".a" || #{kind := driver, name := Name} <- Brought],
    ["old=$(find \"$ERTS/erts/emulator\" -name driver_tab.c)",
     "nifs=$(sed -n 's/^void \\*\\(.*\\)_nif_init(void);$/\\1_nif.o/p' \"$old\")",
     "drivers=$(sed -n 's/^extern ErlDrvEntry \\(.*\\)driver_entry;$/\\1drv.o/p'"
     " \"$old\")",
     "perl \"$ERTS/erts/emulator/utils/make_driver_tab\" -o natives/driver_tab.c"
     " -nifs $nifs" ++ words(Libraries) ++ " -drivers $drivers" ++ words(Drivers),
     "$CC $CFLAGS -w " ?DEFINES " $INCLUDES -c natives/driver_tab.c"
     " -o natives/driver_tab.o"].

%% @doc Returns the line that sets INCLUDES to ERTS's directories of headers.
-spec includes(string(), size | speed) -> [string()].
includes(Triple, Flavor) ->
    Dirs = [Triple, "emulator/" ++ Triple, "emulator/beam", "emulator/sys/unix",
            "emulator/sys/common", "include", "include/" ++ Triple,
            "include/internal", "include/internal/" ++ Triple, "epmd/src",
            "emulator/" ++ Triple ++ "/opt/" ++ flavor(Flavor),
            "emulator/openssl/include",   % OTP 26 and 27: erl_md5.h
            "emulator/beam/" ++ flavor(Flavor)],
    ["INCLUDES=\"" ++ string:join(["-I$ERTS/erts/" ++ D || D <- Dirs], " ") ++ "\""].

flavor(size) -> "emu";
flavor(speed) -> "jit".

%% Sets $cxx to the objects and libraries that C++ needs at link time.
cxx(_, false) ->
    ["cxx="];
cxx(#{cxx_libs := Libs}, true) ->
    [cxx_object(),
     "cxx=\"libstdcxx_on_musl.o " ++ Libs ++ "\""].

jit(size) -> "--disable-jit";
jit(speed) -> "--enable-jit".
