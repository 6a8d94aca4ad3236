%% @hidden Writes the recipe of a NIF or driver of an application.
%%
%% The artifact is one object file. It exports only the function that the VM calls, so two
%% libraries may use one name for different things.
%%
%% The compiler lists the files that it reads. A file outside of the library's directories can
%% change without a change of the cache key, so such a file ends the build.
%%
%% The compiler runs without LTO, because with LTO the linker cannot join the objects. C++ has
%% neither exceptions nor run-time type information, like the JIT's.
-module(whittle_recipe_native).

-export([recipe/3, is_cxx/1, needs_openssl/1, archive/2]).

%% The longest time in seconds, and the most memory in kilobytes, that the compiler may need for a
%% file. A source can include a pipe or a device.
-define(SECONDS, "900").
-define(KILOBYTES, "8000000").

%% @doc Returns the recipe.
%%
%% Variables: ERTS, for its headers; OPENSSL, if the library needs it. The files lie below
%% `src'.
-spec recipe(whittle_target:target(), size | speed, whittle_runtime:native()) ->
          whittle_recipe:recipe().
recipe(#{name := For, triple := Triple, objcopy := Objcopy} = Target, Flavor, Native) ->
    #{name := Name, sources := Sources, include := Include, cflags := Cflags,
      libs := Libs} = Native,
    Flags = ["-ffile-prefix-map=$WORK/src=" ++ Name, "-ffile-prefix-map=$ERTS=."
             | whittle_toolchain:cflags(Target, Flavor)],
    Dirs = ["erts/emulator/beam", "erts/emulator/sys/unix", "erts/include",
            "erts/include/" ++ Triple, "erts/emulator/" ++ Triple],
    Own = [" -I" ++ quoted(Dir) || Dir <- Include],
    %% Compile in src, so that the compiler uses the author's name of the file.
    Compile = ["(cd src && ulimit -v " ?KILOBYTES " && timeout --foreground " ?SECONDS " "
               ++ case is_cxx_file(Source) of
                      true -> "$CXX $CXXFLAGS" ++ whittle_toolchain:cxx_masks(Target);
                      false -> "$CC $CFLAGS"
                  end ++ " -w -D_GNU_SOURCE " ++ define(Native) ++ Own ++ " $INCLUDES"
               ++ lists:append([" " ++ quoted(Flag) || Flag <- Cflags])
               ++ " -pipe -MD -MT x -MF ../objects/" ++ Object ++ ".read"
               " -Wa,--MD,../objects/" ++ Object ++ ".assembled -c "
               ++ quoted("./" ++ unicode:characters_to_list(Source))
               ++ " -o ../objects/" ++ Object ++ ".o) || {"
               " [ $? != 124 ] || echo " ++ quoted(unicode:characters_to_list(Source)) ++
               ": error: the compiler did not end within " ?SECONDS " s; exit 1; }"
               || {N, Source} <- lists:enumerate(Sources), Object <- [integer_to_list(N)]],
    Compiled = case archive(For, Native) of
                   {ok, _} -> " -Wl,--whole-archive archive.a";
                   none -> ""
               end,
    [#{name => "compile " ++ Name, seconds => 2 + length(Sources), lines => 5,
       script => ["mkdir -p objects src"]
           ++ whittle_toolchain:kernel_headers(Target, "\"$WORK/kernel\"")
           ++ whittle_toolchain:tools(Target, ["-idirafter $WORK/kernel" | Flags])
           ++ ["INCLUDES=\"" ++ lists:append([" -I$ERTS/" ++ Dir || Dir <- Dirs]
                                            ++ [" -I$OPENSSL/include" || needs_openssl(Native)]
                                            ++ [" -I$ERTS/erts/emulator/zlib"
                                                || lists:member(zlib, Libs)]) ++ "\""]
           ++ Compile
           ++ lists:append([own_files(Native) || Sources =/= []])
           ++ ["$CC -nostdlib -r -o native.o"
               ++ case Sources of [] -> ""; _ -> " objects/*.o" end ++ Compiled,
               Objcopy ++ " -G " ++ symbol(Native) ++ " native.o \"$OUT/" ++ Name ++ ".o\"",
               %% Check the name here: the linker would only report an unknown symbol.
               "readelf -sW \"$OUT/" ++ Name ++ ".o\" |"
               " grep -q ' GLOBAL .* [0-9][0-9]* " ++ symbol(Native) ++ "$' ||"
               " { echo \"" ++ Name ++ ": there is no function " ++ symbol(Native) ++
               "; is its name another?\"; exit 1; }"]}].

%% Checks the files that the compiler and the assembler have read. Both write rules of make, with
%% their own name of the target in the first line, and escape some characters of names; no name may
%% have these. The compiler's own headers lie in the directories that it searches without a flag,
%% below its root.
own_files(#{name := Name} = Native) ->
    Compilers = ["$CC $CFLAGS -x c"] ++ ["$CXX $CXXFLAGS -x c++" || is_cxx(Native)],
    ["for rule in objects/*.read objects/*.assembled; do sed '1s/^[^ ]*: //; s/\\\\$//' \"$rule\";"
     " done >objects/rules",
     "! grep -q '[\\\\]\\|[$][$]' objects/rules || { echo \"" ++ Name ++ ": error: the compiler has"
     " read a file whose path has a space, a # or a \\$; rename it\"; exit 1; }",
     "tr -s ' ' '\\n' <objects/rules | sed '/^$/d' | sort -u >objects/files",
     "(cd src && xargs -d '\\n' realpath -m -- <../objects/files) | sort -u >objects/read",
     %% The directory `kernel' has links.
     "{ printf '%s\\n' \"$WORK\" \"$ERTS\" \"${OPENSSL:-$WORK}\" \"$WORK\"/kernel/*"]
        ++ ["  " ++ Compiler ++ " -E -v /dev/null 2>&1 |"
            " sed -n '/search starts here/,/^End of search/s/^ //p'" || Compiler <- Compilers]
        ++ ["} | xargs -d '\\n' realpath -m -- >objects/directories",
            "awk 'NR == FNR { own[$0]; next }"
            " { for (dir in own) if (index($0, dir \"/\") == 1) next;"
            " print \"" ++ Name ++ ": error: the compiler has read a file that is not below the"
            " directories of the library; copy it there:\\n\" $0; exit 1 }'"
            " objects/directories objects/read"].

%% @doc Tells whether the library contains C++ and so needs the C++ library.
-spec is_cxx(whittle_runtime:native()) -> boolean().
is_cxx(#{sources := Sources}) ->
    lists:any(fun is_cxx_file/1, Sources).

%% @doc Tells whether the library calls a library of OpenSSL.
-spec needs_openssl(whittle_runtime:native()) -> boolean().
needs_openssl(#{libs := Libs}) ->
    lists:member(crypto, Libs) orelse lists:member(ssl, Libs).

%% @doc Finds the precompiled archive for a target, or for any target.
-spec archive(string(), whittle_runtime:native()) -> {ok, binary()} | none.
archive(For, #{archives := Archives}) ->
    case Archives of
        #{For := Archive} -> {ok, Archive};
        #{"" := Archive} -> {ok, Archive};
        #{} -> none
    end.

%% Returns the function that the VM calls. erl_nif.h and erl_driver.h define its name.
symbol(#{kind := nif, name := Name}) -> Name ++ "_nif_init";
symbol(#{kind := driver, name := Name}) -> Name ++ "_driver_init".

is_cxx_file(Source) ->
    filename:extension(Source) =/= <<".c">>.

define(#{kind := nif, name := Name}) -> "-DSTATIC_ERLANG_NIF_LIBNAME=" ++ Name;
define(#{kind := driver}) -> "-DSTATIC_ERLANG_DRIVER".

quoted(Text) -> unicode:characters_to_list(whittle_program:quoted(Text)).
