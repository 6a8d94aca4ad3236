%% @hidden Builds the kernel of a board and its init, and keeps both in the cache.
%%
%% The kernel comes from Debian's source package of Linux, without Debian's patches. Its artifact
%% is a relocatable object (`kernel.o') and not an image: the root file system lies within the
%% kernel, so each image needs a link (whittle_board_image). This link takes seconds.
-module(whittle_board_kernel).

-export([features/2, kernel/3, init/3]).

-define(RELEASE, "6.1").

%% @doc Returns the features of a kernel that a program needs. The arguments list the C libraries
%% that are linked into its VM, and the variables of its environment.
%%
%% Every VM can call gen_tcp, and most programs contain a call of it that they never make. So the
%% code does not tell whether a program needs a network: the variable WHITTLE_NETWORK does.
%% WHITTLE_WATCHDOG tells whether the board's watchdog guards it.
-spec features([atom()], [string()]) -> [whittle_board_data:feature()].
features(Natives, Env) ->
    [serial || lists:member(whittle_serial_nif, Natives)]
        ++ [gpio || lists:member(whittle_gpio_nif, Natives)]
        ++ [Feature || {Feature, Variable} <- [{network, "WHITTLE_NETWORK="},
                                               {watchdog, "WHITTLE_WATCHDOG="}],
                       lists:any(fun(Line) -> lists:prefix(Variable, Line) end, Env)].

%% @doc Returns the kernel with these features, from the cache or from a new build. A build takes
%% about three minutes on two cores.
%%
%% `dir' holds `kernel.o' and its linker script `kernel.lds', and the further files that the form of
%% the board's images needs (whittle_board_form).
-spec kernel(whittle_board_data:board(), [whittle_board_data:feature()],
             whittle_runtime:options()) ->
          {ok, #{dir := file:filename(), vsn := string(), _ => _}}
        | {error, whittle_runtime:reason()}.
kernel(#{name := Name, target := Target} = Board, Features, Options) ->
    Wanted = iolist_to_binary(fragment(Board, whittle_board_data:options(Board, Features))),
    Suffix = [[$-, atom_to_list(Feature)] || Feature <- Features],
    whittle_runtime:artifact(
      #{name => lists:flatten(["kernel-", Name, Suffix]),
        task => "Linux " ?RELEASE " for " ++ Name,
        target => Target,
        tools => [{"flex", "flex"}, {"bison", "bison"}, {"bc", "bc"}],
        source => {linux, ?RELEASE},
        recipe => recipe(Board),
        files => #{"wanted" => Wanted}}, Options).

%% @doc Returns the first process for a board's processor, from the cache or from a new build. `dir'
%% holds the executable `init'. Of the features only `network' and `watchdog' matter.
-spec init(whittle_board_data:board(), [whittle_board_data:feature()],
           whittle_runtime:options()) ->
          {ok, #{dir := file:filename(), _ => _}} | {error, whittle_runtime:reason()}.
init(#{target := Target, cross := Cross}, Features, Options) ->
    Parts = [atom_to_list(Feature) || Feature <- [network, watchdog],
                                      lists:member(Feature, Features)],
    Dir = filename:join(code:priv_dir(whittle_board), "../../../native/init"),
    Files = [{Name, element(2, {ok, _} = file:read_file(filename:join(Dir, Name)))}
             || Name <- ["init.c", "call.h"] ++ [Part ++ ".h" || Part <- Parts]],
    whittle_runtime:artifact(
      #{name => lists:append(["init-", Target | ["-" ++ Part || Part <- Parts]]),
        task => "init for " ++ Target,
        target => Target,
        tools => [],
        recipe => [#{name => "compile", seconds => 1, lines => 1,
                     script => [Cross ++ "gcc -Os -nostdlib -static -ffreestanding"
                                " -fno-stack-protector -fno-asynchronous-unwind-tables"
                                " -fomit-frame-pointer -fno-pie"
                                " -Wl,-z,noseparate-code,-z,max-page-size=4096,--build-id=none"
                                " -s init.c -o \"$OUT/init\""
                                ++ lists:append([" -D" ++ string:uppercase(Part)
                                                 || Part <- Parts])]}],
        files => maps:from_list(Files)}, Options).

%% Internal

%% Writes the options for Linux's KCONFIG_ALLCONFIG.
fragment(#{cmdline := Words}, Options) ->
    [case Value of
         y -> ["CONFIG_", Name, "=y\n"];
         n -> ["# CONFIG_", Name, " is not set\n"]
     end || {Name, Value, _} <- Options]
        ++ ["CONFIG_CMDLINE=\"", Words, "\"\n"].

recipe(#{arch := Arch, cross := Cross, image := Form}) ->
    Settings = ["cd src", "export ARCH=" ++ Arch ++ " CROSS_COMPILE=" ++ Cross,
                "export KBUILD_BUILD_TIMESTAMP=2000-01-01 KBUILD_BUILD_USER=whittle"
                " KBUILD_BUILD_HOST=whittle KBUILD_BUILD_VERSION=1"],
    [#{name => "unpack", seconds => 20, lines => 5,
       %% Large directories that no build of a board reads.
       script => ["mkdir src",
                  "tar -xJf \"${SOURCE%_*}\"_*.orig.tar.xz -C src --strip-components=1"
                  " --exclude='*/drivers/gpu/drm/amd/include' --exclude='*/tools/testing'"
                  " --exclude='*/tools/perf' --exclude='*/Documentation/translations'"
                  " --exclude='*/Documentation/devicetree'"]},
     #{name => "configure", seconds => 10, lines => 50,
       script => Settings
           ++ whittle_board_form:edits(Form)
           ++ [%% The console has up to 1,024 buffers for input, of a page each: 4 MB.
               "sed -i 's/alloc_buf(vq->vdev, PAGE_SIZE, 0)/alloc_buf(vq->vdev, 64, 0)/'"
               " drivers/char/virtio_console.c",
               "grep -q 'vq->vdev, 64, 0' drivers/char/virtio_console.c",
               "make KCONFIG_ALLCONFIG=../wanted allnoconfig",
               "while read -r line; do",
               "  case $line in",
               "    '#'*) name=${line#'# '}; name=${name%' is not set'}",
               "      if grep -q \"^$name=\" .config; then",
               "        echo \"error: Linux turns on $name, which the lists turn off\"; exit 1;"
               " fi;;",
               "    *) grep -qxF \"$line\" .config ||",
               "      { echo \"error: Linux drops $line: it depends on an option that is off\";",
               "        exit 1; };;",
               "  esac",
               "done < ../wanted"]},
     #{name => "compile", seconds => 160, lines => 700,
       script => Settings ++ ["make -j\"$JOBS\" " ++ whittle_board_form:goal(Form)]},
     #{name => "collect", seconds => 2, lines => 5,
       script => Settings
           ++ [Cross ++ "ld -r -o \"$OUT/kernel.o\""
               " $(ar t vmlinux.a | grep -v '^usr/initramfs_data.o$') init/version-timestamp.o"
               " --start-group $(find lib/lib.a arch/" ++ Arch ++ "/lib/lib.a) --end-group",
               "cp arch/" ++ Arch ++ "/kernel/vmlinux.lds \"$OUT/kernel.lds\""]
           ++ whittle_board_form:collect(Form, {Arch, Cross})}].
