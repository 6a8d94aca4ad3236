%% @hidden Describes the forms of a bootable file: how to build, collect and link each of them.
%%
%% A form consists of lines for shells. This module is pure; docs/boards.md compares the forms.
-module(whittle_board_form).

-export([names/0, goal/1, edits/1, collect/2, link/2]).

-export_type([form/0]).

-type form() :: zimage          % a zImage of 32-bit ARM, which decompresses itself
              | image_gz.       % an Image of 64-bit ARM, in gzip's format

%% @doc Lists the forms.
-spec names() -> [form(), ...].
names() -> [zimage, image_gz].

%% @doc Returns the goal of Linux's makefile that compiles everything that an image needs.
-spec goal(form()) -> string().
goal(zimage) -> "zImage";
goal(image_gz) -> "Image".

%% @doc Returns the lines that change Linux's source for this form.
-spec edits(form()) -> [string()].
%% The code and the program are Thumb-2 code, for which the filter of xz saves 4 % of the image.
%% Linux only has the filter for ARM code at this place.
edits(zimage) ->
    ["sed -i 's/define XZ_DEC_ARM$/define XZ_DEC_ARMTHUMB/' lib/decompress_unxz.c",
     "grep -q XZ_DEC_ARMTHUMB lib/decompress_unxz.c"];
edits(image_gz) -> [].

%% @doc Returns the lines that put the files for link/2 into $OUT, apart from the kernel itself.
-spec collect(form(), {Arch :: string(), Cross :: string()}) -> [string()].
collect(zimage, {Arch, Cross}) ->
    ["cd arch/" ++ Arch ++ "/boot/compressed",
     "rm vmlinux piggy.o",
     Cross ++ "ld -r -o \"$OUT/boot.o\" head.o"
     " $(ls *.o | grep -v '^head.o$')",
     "cp vmlinux.lds \"$OUT/boot.lds\"",
     "cp ../../../../.config \"$OUT/config\"",
     "cp ../../../../COPYING \"$OUT/COPYING\""];
collect(image_gz, _) ->
    ["cp .config \"$OUT/config\"",
     "cp COPYING \"$OUT/COPYING\""].

%% @doc Returns the lines that link the archive `root' and the kernel in the directory $K.
%%
%% They write four files: `bootable', the kernel before compression (`Image'), the compressed stream
%% within `bootable' (`stream'), and the archive compressed by itself (`alone'). The flags are those
%% of Linux's own link.
-spec link(form(), Cross :: string()) -> [string()].
%% The stream ends with the number of bytes before compression, as the code that decompresses
%% expects it.
link(zimage, Cross) ->
    Xz = "xz --check=crc32 --armthumb --lzma2=preset=9e,dict=32MiB -c ",
    with_root(Cross, ".long")
        ++ ["cat > stream.s <<'END'",
            ".section .piggydata,\"a\"",
            ".globl input_data, input_data_end",
            "input_data: .incbin \"stream\"",
            "input_data_end:",
            "END",
            Xz ++ "root > alone & alone=$!",
            Xz ++ "Image > stream",
            "wait $alone",
            "size=$(stat -c %s Image)",
            "printf \"$(printf '\\\\%03o\\\\%03o\\\\%03o\\\\%03o' $((size & 255))"
            " $((size >> 8 & 255)) $((size >> 16 & 255)) $((size >> 24)))\" >> stream",
            Cross ++ "as stream.s -o stream.o",
            "bss=$(" ++ Cross ++ "nm vmlinux"
            " | sed -n -e 's/^\\([^ ]*\\) [ABD] __bss_start$/-0x\\1/p'"
            " -e 's/^\\([^ ]*\\) [ABD] __bss_stop$/+0x\\1/p')",
            ld(Cross) ++ " --defsym _kernel_bss_size=$(($bss)) -T \"$K/boot.lds\" \"$K/boot.o\""
            " stream.o -o boot",
            objcopy(Cross) ++ "boot bootable"];
%% The name in the head of the stream marks an image of Whittle (whittle_board_label).
link(image_gz, Cross) ->
    with_root(Cross, ".quad")
        ++ ["gzip -9 -c root > alone",
            "touch -d @1 Image",
            "gzip -9 -c Image > stream",
            "cp stream bootable"].

%% Internal

with_root(Cross, Number) ->
    ["cat > root.s <<'END'",
     ".section .init.ramfs,\"a\"",
     "from: .incbin \"root\"",
     "to:",
     ".section .init.ramfs.info,\"a\"",
     ".globl __initramfs_size",
     "__initramfs_size: " ++ Number ++ " to - from",
     "END",
     Cross ++ "as root.s -o root.o",
     ld(Cross) ++ " --pic-veneer -z norelro --build-id=none -T \"$K/kernel.lds\" -o vmlinux"
     " \"$K/kernel.o\" root.o",
     objcopy(Cross) ++ "vmlinux Image"].

ld(Cross) -> Cross ++ "ld -z noexecstack --no-warn-rwx-segments --no-undefined -X".

objcopy(Cross) -> Cross ++ "objcopy -O binary -R .comment -S ".
