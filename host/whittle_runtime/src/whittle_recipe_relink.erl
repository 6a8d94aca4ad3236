%% @hidden Writes the recipes of a VM that has only the parts which one program needs.
%%
%% A link with link-time optimization takes a minute. So there are two recipes:
%% <ul>
%% <li>{@link parts/4} makes, once, one relocatable object of all of ERTS without the tables that
%%     name its parts, and the objects of the launcher. Each function and each datum keeps a
%%     section of its own.</li>
%% <li>{@link relink/4} compiles the tables for one program and links them with these objects. The
%%     linker leaves out what no table names. This takes a second.</li>
%% </ul>
%% {@link whittle_runtime_tables} writes the tables.
-module(whittle_recipe_relink).

-import(whittle_toolchain, [tools/2, cflags/2, kernel_headers/2, page_size/1]).

-export([parts/4, relink/4, weigh/0]).

%% @doc Returns the recipe of the objects.
%%
%% It has the variables of {@link whittle_recipe_vm:link/4}.
-spec parts(whittle_target:target(), {string(), whittle_recipe_vm:how()},
            [whittle_runtime:native()], Flags :: [string()]) -> whittle_recipe:recipe().
parts(#{objcopy := Objcopy} = Target, {Release, How}, Natives, LinkFlags) ->
    [Step || #{name := Name} = Step <- whittle_recipe_vm:link(Target, {Release, How}, Natives,
                                                              static),
             lists:member(Name, ["launcher", "programs", "natives"])]
        ++
    [#{name => "prelink", seconds => 60, lines => 5,
       script => tools(Target, LinkFlags)
           ++ ["cp \"$ERTS/libbeam.a\" beam.a",
               "$AR x beam.a erl_bif_re.o",
               "$AR d beam.a erl_bif_table.o preload.o erl_bif_re.o",
               %% The launcher calls functions of these archives that ERTS may not call.
               "wanted=$(nm -u launcher/*.o programs/*.o | sed -n 's/^ *U /-Wl,-u,/p' | sort -u)",
               "inside=$(find \"$ERTS/erts/emulator\" -path '*/obj/*/opt/*.a')",
               %% Without --unique the linker would merge the sections of equal names.
               "$CC $CFLAGS -w -r -nostdlib -flinker-output=nolto-rel -Wl,--unique $wanted"
               " -o \"$OUT/erts.o\" -Wl,--whole-archive beam.a"
               ++ whittle_recipe_vm:native_archives(Natives)
               ++ " -Wl,--no-whole-archive"
               ++ whittle_recipe_vm:libraries(Target, Release, Natives),
               %% ERTS initializes regular expressions in any case, which needs half of PCRE. The
               %% linker takes a member of an archive only if no other object defines its functions.
               "pcre=$(find \"$ERTS/erts/emulator/pcre\" -name libepcre.a)",
               "$CC $CFLAGS -w -r -nostdlib -flinker-output=nolto-rel -Wl,--unique"
               " -o re.o erl_bif_re.o $pcre",
               %% Both objects have functions that the compiler made for their callers.
               Objcopy ++ " -w -G 're_*' -G erts_init_bif_re -G erts_re_set_loop_limit re.o",
               "$AR rc \"$OUT/optional.a\" re.o"]
           ++ [Line || whittle_recipe_vm:needs_cxx(Natives),
                       Line <- [whittle_recipe_vm:cxx_object(),
                                "cp libstdcxx_on_musl.o \"$OUT\""]]},
     #{name => "keep", seconds => 1, lines => 5,
       script => ["rm -f launcher/without_zstd_compressor.o natives/driver_tab.o",
                  "mkdir \"$OUT/programs\" \"$OUT/natives\"",
                  "mv launcher/without_terminfo.o \"$OUT\"",
                  "cp \"$TERMINFO_LIB/lib/libtinfo.a\" \"$OUT\"",
                  "cp -R launcher \"$OUT\"",
                  "cp natives/driver_tab.c \"$OUT/natives\"",
                  "cp \"$LAUNCHER/wraps.txt\" \"$OUT\""]
           ++ ["cp programs/" ++ Name ++ ".o \"$OUT/programs\""
               || Name <- whittle_recipe_vm:programs()]}].

%% @doc Returns the recipe of the executable for one program.
%%
%% Variables: ERTS; PARTS, the artifact of {@link parts/4}. The work directory has the tables and
%% the bytes of the built-in modules. Without is a list of parts of ERTS; here only "terminfo"
%% and the names of programs matter.
-spec relink(whittle_target:target(), size | speed, [whittle_runtime:native()],
             Without :: [string()]) -> whittle_recipe:recipe().
relink(#{strip := Strip, objcopy := Objcopy, triple := Triple} = Target, Flavor, Natives,
       Without) ->
    Kernel = "\"$WORK/kernel\"",
    Flags = ["-ffile-prefix-map=$WORK=.", "-ffile-prefix-map=$ERTS=.",
             "-idirafter $WORK/kernel" | cflags(Target, Flavor)],
    [#{name => "tables", seconds => 1, lines => 5,
       script => kernel_headers(Target, Kernel) ++ tools(Target, Flags)
           ++ whittle_recipe_vm:includes(Triple, Flavor)
           ++ ["for table in bif_table preload driver_tab; do",
               "  $CC $CFLAGS -w " ++ whittle_recipe_vm:defines() ++ " $INCLUDES -c $table.c"
               " -o $table.o",
               "done"]},
     #{name => "link", seconds => 1, lines => 5,
       script => tools(Target, Flags)
           ++ ["wraps=$(sed 's/^/-Wl,--wrap=/' \"$PARTS/wraps.txt\")",
               "$CC $CFLAGS -w -static -no-pie -Wl,--gc-sections " ++ page_size(Target)
               ++ " -Wl,-z,noseparate-code -Wl,-z,norelro -Wl,--build-id=sha1 $wraps -o vm"
               " -Wl,-e,whittle_entry \"$PARTS/launcher/entry.o\""
               " $(ls \"$PARTS\"/launcher/*.o | grep -v /entry.o)"
               ++ lists:append([" \"$PARTS/programs/" ++ Name ++ ".o\""
                                || Name <- whittle_recipe_vm:programs() -- Without]) ++
               " \"$PARTS/erts.o\" bif_table.o preload.o driver_tab.o \"$PARTS/optional.a\""
               " \"$PARTS/" ++ terminfo(lists:member("terminfo", Without)) ++ "\""
               ++ cxx(Target, whittle_recipe_vm:needs_cxx(Natives)) ++ " -lpthread -lm $LDFLAGS",
               Objcopy ++ " --only-keep-debug vm \"$OUT/vm.debug\"",
               Strip ++ " -R .comment -o \"$OUT/vm\" vm"]
           ++ ["cp \"$PARTS/" ++ Name ++ "\" \"$OUT\"" || Name <- whittle_recipe_vm:separate()]}].

%% @doc Returns the step after {@link relink/4} that keeps only the size of the VM, in bytes.
-spec weigh() -> whittle_recipe:recipe().
weigh() ->
    [#{name => "weigh", seconds => 1, lines => 5,
       script => ["stat -c %s \"$OUT/vm\" > bytes", "rm -r \"$OUT\"/*", "mv bytes \"$OUT\""]}].

%% The libraries of C++ refer to each other.
cxx(_, false) -> "";
cxx(#{cxx_libs := Libs}, true) ->
    " -Wl,--start-group \"$PARTS/libstdcxx_on_musl.o\" " ++ Libs ++ " -Wl,--end-group".

terminfo(true) -> "without_terminfo.o";
terminfo(false) -> "libtinfo.a".
