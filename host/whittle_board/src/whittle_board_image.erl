%% @hidden Links a kernel with an initramfs into one bootable file.
%%
%% The initramfs lies within the kernel, and the kernel within the code that decompresses it. So one
%% compression covers all, and the boot loader has to load one file only. The initramfs is not
%% compressed by itself.
-module(whittle_board_image).

-export([assemble/4]).

-export_type([error/0]).

-type error() :: {link, #{tail := [binary()]}}
               | {no_place, {file:filename(), file:posix() | badarg}}.

%% @doc Returns the bytes of the bootable file, and its parts. The stored bytes of the parts add up
%% to its size.
%%
%% The kernel and the initramfs share one compressed stream. The stored bytes of the initramfs are
%% those that it has if compressed alone; the kernel has the rest.
-spec assemble(whittle_board_data:board(), file:filename(), file:filename(),
               #{program := binary(), environment := binary()}) ->
          {ok, {binary(), [whittle_board_label:part()]}} | {error, error()}.
assemble(Board, Kernel, Init, #{program := Program, environment := Environment}) ->
    case whittle_unfinished:make_directory("whittle-board") of
        {ok, Dir} ->
            try
                {ok, First} = file:read_file(filename:join(Init, "init")),
                Root = root(First, Program, Environment),
                ok = file:write_file(filename:join(Dir, "root"), Root),
                linked(Board, Kernel, Dir,
                       [{<<"init">>, byte_size(First)}, {<<"executable">>, byte_size(Program)},
                        {<<"environment">>, byte_size(Environment)}], byte_size(Root))
            after
                whittle_unfinished:remove_directory(Dir)
            end;
        {error, Reason} -> {error, {no_place, Reason}}
    end.

%% Internal

%% The kernel opens /dev/console for init before init can mount /dev.
root(Init, Program, Environment) ->
    whittle_board_cpio:archive(
      [{directory, Name} || Name <- [<<"dev">>, <<"etc">>, <<"proc">>, <<"sys">>, <<"tmp">>]]
      ++ [{device, <<"dev/console">>, {5, 1}}]
      ++ [{file, <<"etc/environment">>, 8#644, Environment} || Environment =/= <<>>]
      ++ [{file, <<"init">>, 8#755, Init}, {file, <<"program">>, 8#755, Program}]).

linked(#{cross := Cross}, Kernel, Dir, Files, Archive) ->
    Environment = [{"PATH", os:getenv("PATH", "/usr/bin:/bin")}, {"LC_ALL", "C"}, {"K", Kernel}],
    Fold = fun(Bytes, Said) -> <<Said/binary, Bytes/binary>> end,
    case whittle_program:script(lines(Cross), Dir, Environment, {Fold, <<>>}) of
        {0, _} ->
            {ok, Bytes} = file:read_file(filename:join(Dir, "zImage")),
            [Raw, Stream, Alone] = [filelib:file_size(filename:join(Dir, Name))
                                    || Name <- ["Image", "stream", "alone"]],
            {ok, {Bytes, parts(byte_size(Bytes), {Raw, Stream, Alone}, Files, Archive)}};
        {_, Said} ->
            Lines = string:split(string:trim(Said), "\n", all),
            {error, {link, #{tail => lists:nthtail(max(0, length(Lines) - 5), Lines)}}}
    end.

%% Divides the stored bytes of the initramfs among its files by their raw bytes.
parts(Size, {Raw, Stream, Alone}, Files, Archive) ->
    Total = lists:sum([Bytes || {_, Bytes} <- Files]),
    Shares = [{Name, Alone * Bytes div Archive, Bytes} || {Name, Bytes} <- Files],
    Rest = Alone - lists:sum([Share || {_, Share, _} <- Shares]),
    [#{name => Name, stored => Stored, raw => Bytes}
     || {Name, Stored, Bytes} <- [{<<"code that decompresses">>, Size - Stream, Size - Stream},
                                  {<<"kernel">>, Stream - Alone, Raw - Archive} | Shares]
            ++ [{<<"names and padding of the archive">>, Rest, Archive - Total}]].

%% The flags are those of Linux's own link. The stream ends with the number of bytes before
%% compression, as the code that decompresses expects it.
lines(Cross) ->
    Ld = Cross ++ "ld -z noexecstack --no-warn-rwx-segments --no-undefined -X",
    Xz = "xz --check=crc32 --armthumb --lzma2=preset=9e,dict=32MiB -c ",
    ["cat > root.s <<'END'",
     ".section .init.ramfs,\"a\"",
     "from: .incbin \"root\"",
     "to:",
     ".section .init.ramfs.info,\"a\"",
     ".globl __initramfs_size",
     "__initramfs_size: .long to - from",
     "END",
     "cat > stream.s <<'END'",
     ".section .piggydata,\"a\"",
     ".globl input_data, input_data_end",
     "input_data: .incbin \"stream\"",
     "input_data_end:",
     "END",
     Cross ++ "as root.s -o root.o",
     Ld ++ " --pic-veneer -z norelro --build-id=none -T \"$K/kernel.lds\" -o vmlinux"
     " \"$K/kernel.o\" root.o",
     Cross ++ "objcopy -O binary -R .comment -S vmlinux Image",
     Xz ++ "root > alone & alone=$!",
     Xz ++ "Image > stream",
     "wait $alone",
     "size=$(stat -c %s Image)",
     "printf \"$(printf '\\\\%03o\\\\%03o\\\\%03o\\\\%03o' $((size & 255)) $((size >> 8 & 255))"
     " $((size >> 16 & 255)) $((size >> 24)))\" >> stream",
     Cross ++ "as stream.s -o stream.o",
     "bss=$(" ++ Cross ++ "nm vmlinux | sed -n -e 's/^\\([^ ]*\\) [ABD] __bss_start$/-0x\\1/p'"
     " -e 's/^\\([^ ]*\\) [ABD] __bss_stop$/+0x\\1/p')",
     Ld ++ " --defsym _kernel_bss_size=$(($bss)) -T \"$K/boot.lds\" \"$K/boot.o\" stream.o -o boot",
     Cross ++ "objcopy -O binary -R .comment -S boot zImage"].
