%% @doc The recipes of libraries that a VM needs and its ERTS does not hold:
%% OpenSSL's libcrypto for the NIF of crypto, ncurses' terminfo for the shell, and
%% zstd's decompressor for releases of OTP that come without zstd.
-module(whittle_recipe_lib).

-export([openssl/3, terminfo/3, zstd/3]).

%% Terminals that need no file on the machine, about 5 kB each: what people sit at,
%% and consoles.
-define(TERMINALS, "xterm-256color,xterm,linux,vt100,screen-256color,tmux-256color").

%% What OTP's crypto never calls: TLS (OTP's own ssl does that), files of keys
%% and certificates, message formats, engines, anything loaded at run time,
%% locked memory (which would want the kernel's headers). All ciphers and hashes
%% that crypto names stay, so `legacy' does.
-define(OPENSSL_WITHOUT,
        ["shared", "pic", "tests", "engine", "dso", "module", "async",
         "autoload-config", "comp", "ui-console", "sock", "srtp", "ts", "cms",
         "ct", "ocsp", "gost", "cmp", "ktls", "dgram", "ssl", "tls", "dtls",
         "filenames", "rfc3779", "secure-memory"]).

%% @doc OpenSSL's libcrypto.a and headers. Variables: SOURCE.
-spec openssl(whittle_target:target(), size | speed, whittle_source:source()) ->
          whittle_plan:plan().
openssl(Target = #{openssl := Name}, Flavour, Source) ->
    Without = lists:append([" no-" ++ W || W <- ?OPENSSL_WITHOUT]),
    %% OpenSSL keeps the flags as a text: they name no place.
    Flags = whittle_recipe_vm:cflags(Target, Flavour),
    [#{name => "unpack", seconds => 4, lines => 60,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 8, lines => 20,
       script => ["cd src"] ++ whittle_recipe_vm:tools(Target, Flags)
           ++ ["./Configure " ++ Name ++ " --prefix=/openssl --libdir=lib"
               " --openssldir=/etc/ssl" ++ Without]},
     #{name => "compile", seconds => 90, lines => 900,
       script => ["cd src", "make build_generated", "make -j\"$JOBS\" libcrypto.a",
                  "mkdir \"$OUT/lib\"", "cp libcrypto.a \"$OUT/lib\"",
                  "cp -R include \"$OUT\"", "cp LICENSE.txt \"$OUT\""]}].

%% @doc libtinfo.a and headers, which know some terminals by themselves and the others
%% where the machine has ncurses' files. Variables: SOURCE.
-spec terminfo(whittle_target:target(), size | speed, whittle_source:source()) ->
          whittle_plan:plan().
terminfo(Target = #{triple := Triple}, Flavour, Source) ->
    Flags = ["-ffile-prefix-map=$WORK=." | whittle_recipe_vm:cflags(Target, Flavour)]
        ++ whittle_recipe_vm:lto(Flavour),
    [#{name => "unpack", seconds => 1, lines => 20,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 12, lines => 300,
       script => ["cd src"] ++ whittle_recipe_vm:tools(Target, Flags)
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

%% @doc zstd's decompressor out of the source of an OTP that has it. Variables:
%% SOURCE.
-spec zstd(whittle_target:target(), size | speed, whittle_source:source()) ->
          whittle_plan:plan().
zstd(Target, Flavour, Source) ->
    Flags = ["-ffile-prefix-map=$WORK=.", "-flto" | whittle_recipe_vm:cflags(Target, Flavour)],
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)},
     #{name => "compile", seconds => 5, lines => 5,
       script => ["cd src/erts/emulator/zstd"]
           ++ whittle_recipe_vm:tools(Target, Flags)
           %% Its assembler file is for one processor only.
           ++ ["for source in common/*.c decompress/*.c; do",
               "  $CC $CFLAGS -DZSTD_DISABLE_ASM -c \"$source\"",
               "done",
               "$AR rc \"$OUT/libzstd.a\" *.o",
               "cp vendor.info \"$OUT\"",
               "cp LICENSE \"$OUT\" 2>/dev/null || cp COPYING \"$OUT/LICENSE\""]}].
