%% @hidden Writes the recipes of the libraries that a VM needs and ERTS does not contain.
%%
%% <ul>
%% <li>OpenSSL's libcrypto, for crypto's NIF; and libssl, if a NIF needs it</li>
%% <li>ncurses' terminfo, for the shell</li>
%% <li>zstd's decompressor, for OTP releases without zstd</li>
%% <li>the C library, for most targets</li>
%% </ul>
-module(whittle_recipe_lib).

-export([soft_float/2, libc/2, openssl/4, terminfo/3, zstd/3]).

%% Terminals that need no file on the machine: the usual terminal programs, and consoles. Each
%% one needs about 5 kB.
-define(TERMINALS, "xterm-256color,xterm,linux,vt100,screen-256color,tmux-256color").

%% Parts of OpenSSL that OTP's crypto never calls: TLS (OTP's ssl implements it), key and
%% certificate files, message formats, engines, modules that load at run time, and locked memory
%% (which would need the kernel's headers). All ciphers and hashes that crypto names stay, so
%% `legacy' stays too.
-define(OPENSSL_WITHOUT,
        ["shared", "pic", "tests", "engine", "dso", "module", "async",
         "autoload-config", "comp", "ui-console", "sock", "srtp", "ts", "cms",
         "ct", "ocsp", "gost", "cmp", "ktls", "dgram", "ssl", "tls", "dtls",
         "filenames", "rfc3779", "secure-memory"]).

%% @doc Returns the recipe of floating-point arithmetic in software.
%%
%% It is for a processor without an FPU whose gcc was built for processors with one. It compiles
%% the part of libgcc's soft-fp that libgcc's own makefile (config/t-softfp-sfdf) selects.
%% Variables: SOURCE.
-spec soft_float(whittle_target:target(), whittle_source:source()) -> whittle_recipe:recipe().
soft_float(#{cc := Cc, ar := Ar, soft_float := Processor}, Source) ->
    Wanted = "'libgcc/soft-fp/*' libgcc/config/" ++ Processor ++ "/sfp-machine.h"
        " include/longlong.h COPYING3 COPYING.RUNTIME",
    [#{name => "unpack", seconds => 6, lines => 5,
       %% Debian's archive contains the publisher's archive.
       script => ["mkdir src"] ++
           case Source of
               #{kind := debian} ->
                   ["tar -xOf \"${SOURCE%_*}\"_*.orig.tar.* --wildcards '*/gcc-*.tar.xz'"
                    " > gcc.tar.xz"];
               #{kind := tarball} ->
                   ["ln -s \"$SOURCE\" gcc.tar.xz"]
           end
           ++ ["tar -xJf gcc.tar.xz -C src --strip-components=1 --wildcards"
               " $(for name in " ++ Wanted ++ "; do printf '*/%s ' \"$name\"; done)"]},
     #{name => "compile", seconds => 5, lines => 5,
       script => ["cd src/libgcc/soft-fp",
                  "for source in add?f3 sub?f3 mul?f3 div?f3 neg?f2 eq?f2 ge?f2 le?f2 unord?f2"
                  " fix?f?i fixuns?f?i float?i?f floatun?i?f extendsfdf2 truncdfsf2; do",
                  "  for file in $source.c; do",
                  "    case $file in *tf*|*hf*|*xf*|*ti*) continue;; esac",
                  "    " ++ Cc ++ " -Os -w -ffunction-sections -fno-pie -fno-unwind-tables"
                  " -fno-asynchronous-unwind-tables -I. -I../config/" ++ Processor ++
                  " -I../../include -c \"$file\"",
                  "  done",
                  "done",
                  Ar ++ " rc \"$OUT/libsoft_float.a\" *.o",
                  "cp ../../COPYING3 ../../COPYING.RUNTIME \"$OUT\""]}].

%% @doc Returns the recipe of musl, for a target whose compiler has another C library.
%%
%% The artifact has the headers, the start files, libc.a, and the specs file with which gcc
%% uses them. Variables: SOURCE; SOFT_FLOAT, the artifact of {@link soft_float/2}, if the target
%% needs it.
-spec libc(whittle_target:target(), whittle_source:source()) -> whittle_recipe:recipe().
libc(#{cc := Cc, ar := Ar, ranlib := Ranlib, libc := Name, soft_float := SoftFloat} = Target,
     Source) ->
    [#{name => "unpack", seconds => 1, lines => 20,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 5, lines => 100,
       %% musl's default: -Os, and -O3 for the functions that copy and compare memory.
       script => ["cd src"] ++ time64_first(Target) ++ [
                  "export CC=\"" ++ Cc ++ "\" AR=\"" ++ Ar ++ "\" RANLIB=\"" ++ Ranlib ++ "\"",
                  "export CFLAGS=\"-fno-asynchronous-unwind-tables -fno-unwind-tables"
                  " -ffunction-sections -fdata-sections -ffile-prefix-map=$WORK=.\"",
                  "./configure --target=" ++ Name ++ " --prefix=/libc --disable-shared"
                  " --enable-wrapper=gcc"]},
     #{name => "compile", seconds => 25, lines => 1400,
       %% Omit the start file of position-independent executables: Whittle builds none.
       script => ["cd src", "crt='CRT_LIBS=lib/crt1.o lib/crti.o lib/crtn.o'",
                  "make -j\"$JOBS\" \"$crt\"",
                  "make install DESTDIR=\"$WORK/installed\" \"$crt\"",
                  "cp -R ../installed/libc/include ../installed/libc/lib COPYRIGHT \"$OUT\"",
                  %% The specs name the install directory, so replace it. Remove gcc's own
                  %% start files: they serve shared objects and unwind tables, and on MIPS
                  %% they need symbols that musl's lack. musl itself runs constructors.
                  "sed -E -i 's,Scrt1,crt1,;s,crt(begin|end)S.o%s,,;"
                  "s,/libc(/[^ }]*),%:getenv(LIBC \\1),g'"
                  " \"$OUT/lib/musl-gcc.specs\""]
           ++ case SoftFloat of
                  "" -> [];
                  %% Before libgcc: its MIPS16 functions of the same names need an FPU.
                  _ -> ["cp \"$SOFT_FLOAT/libsoft_float.a\" \"$OUT/lib\"",
                        "sed -i 's,^libgcc.a%s,-lsoft_float &,' \"$OUT/lib/musl-gcc.specs\""]
              end}].

%% On 32 bits, musl first makes the system calls with a 32-bit time, for any time that fits. A
%% kernel without COMPAT_32BIT_TIME lacks those calls, so a wait returns at once. This edit puts
%% the calls with a 64-bit time first. The others stay for kernels older than 5.1. musl's locks
%% (futex) do not change: both sides of a lock have to make the same call.
-define(TIMED, ["linux/ppoll", "linux/timerfd", "select/pselect", "select/select",
                "signal/sigtimedwait", "stat/utimensat", "time/clock_nanosleep"]).

time64_first(#{word_size := 32}) ->
    ["for file in " ++ string:join(?TIMED, " ") ++ "; do",
     "  sed -E -i 's/(time64 |^[[:space:]]+)\\|\\| !IS32BIT\\([a-z0-9]+\\)/\\1|| 1/'"
     " src/$file.c",
     "  grep -q '|| 1' src/$file.c || { echo \"musl's $file.c is another one\"; exit 1; }",
     "done"];
time64_first(#{}) ->
    [].

%% @doc Returns the recipe of OpenSSL's libcrypto.a and headers.
%%
%% With `ssl' the artifact also has libssl.a, with TLS 1.0 to 1.3. Variables: SOURCE.
-spec openssl(whittle_target:target(), size | speed, whittle_source:source(), crypto | ssl) ->
          whittle_recipe:recipe().
openssl(Target = #{openssl := Name}, Flavor, Source, Part) ->
    {Added, Libraries} = case Part of
                             crypto -> {[], "libcrypto.a"};
                             ssl -> {["tls"], "libcrypto.a libssl.a"}
                         end,
    Without = lists:append([" no-" ++ W || W <- ?OPENSSL_WITHOUT -- Added]),
    %% OpenSSL stores the flags as text, so they must not contain a path.
    Flags = whittle_toolchain:cflags(Target, Flavor) ++ locked_atomics(Target),
    [#{name => "unpack", seconds => 4, lines => 60,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 8, lines => 20,
       %% With -static in LDFLAGS, OpenSSL's Configure turns off threads, and with them all locks.
       %% Then two schedulers that use crypto destroy its memory. Nothing is linked here.
       script => ["cd src"] ++ whittle_toolchain:tools(Target, Flags)
           ++ ["unset LDFLAGS",
               "./Configure " ++ Name ++ " --prefix=/openssl --libdir=lib"
               " --openssldir=/etc/ssl threads" ++ Without]},
     #{name => "compile", seconds => 90, lines => 900,
       script => ["cd src", "make build_generated",
                  "grep -q 'define OPENSSL_THREADS' include/openssl/configuration.h",
                  "make -j\"$JOBS\" " ++ Libraries,
                  "mkdir \"$OUT/lib\"", "cp " ++ Libraries ++ " \"$OUT/lib\"",
                  "cp -R include \"$OUT\"", "cp LICENSE.txt \"$OUT\""]}].

%% On a 32-bit processor gcc calls libatomic for 64-bit atomic operations, and the toolchains lack
%% libatomic. With this macro OpenSSL takes a lock for these operations
%% (crypto/threads_pthread.c).
locked_atomics(#{word_size := 32}) -> ["-DBROKEN_CLANG_ATOMICS"];
locked_atomics(_) -> [].

%% @doc Returns the recipe of libtinfo.a and its headers.
%%
%% The library contains some terminals. It finds the others in ncurses' files on the machine.
%% Variables: SOURCE.
-spec terminfo(whittle_target:target(), size | speed, whittle_source:source()) ->
          whittle_recipe:recipe().
terminfo(Target = #{triple := Triple}, Flavor, Source) ->
    Flags = ["-ffile-prefix-map=$WORK=." | whittle_toolchain:cflags(Target, Flavor)]
        ++ whittle_toolchain:lto(Flavor),
    [#{name => "unpack", seconds => 1, lines => 20,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 12, lines => 300,
       script => ["cd src"] ++ whittle_toolchain:tools(Target, Flags)
           ++ ["./configure --build=\"$(./config.guess)\" --host=" ++ Triple
               ++ " --with-build-cc=gcc --with-termlib --disable-widec --without-shared"
               " --without-debug --without-ada --without-cxx --without-cxx-binding"
               " --without-manpages --without-progs --without-tests --disable-db-install"
               " --disable-home-terminfo --with-default-terminfo-dir=/usr/share/terminfo"
               " --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo"
               " --with-fallbacks=" ?TERMINALS]},
     #{name => "compile", seconds => 8, lines => 100,
       script => ["cd src", "make -C include", "make -j\"$JOBS\" -C ncurses ../lib/libtinfo.a",
                  "mkdir -p \"$OUT/lib\" \"$OUT/include\"", "cp lib/libtinfo.a \"$OUT/lib\"",
                  "basename \"$WORK\" > \"$OUT/workplace\"",
                  "cp include/curses.h include/term.h include/unctrl.h include/ncurses_dll.h"
                  " \"$OUT/include\"", "cp COPYING \"$OUT\""]}].

%% @doc Returns the recipe of zstd's decompressor, from the source of an OTP that contains it.
%%
%% Variables: SOURCE.
-spec zstd(whittle_target:target(), size | speed, whittle_source:source()) ->
          whittle_recipe:recipe().
zstd(Target, Flavor, Source) ->
    Flags = ["-ffile-prefix-map=$WORK=.", "-flto" | whittle_toolchain:cflags(Target, Flavor)],
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)},
     #{name => "compile", seconds => 5, lines => 5,
       script => ["cd src/erts/emulator/zstd"]
           ++ whittle_toolchain:tools(Target, Flags)
           %% Omit zstd's assembler file: it is for one processor only.
           ++ ["for source in common/*.c decompress/*.c; do",
               "  $CC $CFLAGS -DZSTD_DISABLE_ASM -c \"$source\"",
               "done",
               "$AR rc \"$OUT/libzstd.a\" *.o",
               "cp vendor.info \"$OUT\"",
               "cp LICENSE \"$OUT\" 2>/dev/null || cp COPYING \"$OUT/LICENSE\""]}].
