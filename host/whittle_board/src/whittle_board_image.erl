%% @hidden Links a kernel with an initramfs into one bootable file.
%%
%% The initramfs lies within the kernel, and one compression covers both. So the boot loader has to
%% load one file only. The initramfs is not compressed by itself.
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

linked(#{cross := Cross, image := Form}, Kernel, Dir, Files, Archive) ->
    Environment = [{"PATH", os:getenv("PATH", "/usr/bin:/bin")}, {"LC_ALL", "C"}, {"K", Kernel}],
    Fold = fun(Bytes, Said) -> <<Said/binary, Bytes/binary>> end,
    Lines = whittle_board_form:link(Form, Cross),
    case whittle_program:script(Lines, Dir, Environment, {Fold, <<>>}) of
        {0, _} ->
            {ok, Bytes} = file:read_file(filename:join(Dir, "bootable")),
            [Raw, Stream, Alone] = [filelib:file_size(filename:join(Dir, Name))
                                    || Name <- ["Image", "stream", "alone"]],
            {ok, {Bytes, parts(byte_size(Bytes), {Raw, Stream, Alone}, Files, Archive)}};
        {_, Said} ->
            Last = string:split(string:trim(Said), "\n", all),
            {error, {link, #{tail => lists:nthtail(max(0, length(Last) - 5), Last)}}}
    end.

%% Divides the stored bytes of the initramfs among its files by their raw bytes.
parts(Size, {Raw, Stream, Alone}, Files, Archive) ->
    Total = lists:sum([Bytes || {_, Bytes} <- Files]),
    Shares = [{Name, Alone * Bytes div Archive, Bytes} || {Name, Bytes} <- Files],
    Rest = Alone - lists:sum([Share || {_, Share, _} <- Shares]),
    [#{name => Name, stored => Stored, raw => Bytes}
     || {Name, Stored, Bytes} <- [{<<"code that decompresses">>, Size - Stream, Size - Stream}
                                  || Size > Stream]
            ++ [{<<"kernel">>, Stream - Alone, Raw - Archive} | Shares]
            ++ [{<<"names and padding of the archive">>, Rest, Archive - Total}]].
