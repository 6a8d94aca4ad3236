%% @doc Reads files from outside, with a bound on their size and without waiting for pipes.
-module(whittle_file).

-include_lib("kernel/include/file.hrl").

-export([first/2, whole/2, text/1, is_same/2]).

%% Bytes of a text that is read as terms or lines.
-define(MOST_TEXT, 4 * 1024 * 1024).

%% @doc Reads at most `Size' bytes from the beginning of a file, fewer from a shorter file.
-spec first(file:filename_all(), pos_integer()) -> {ok, binary()} | {error, file:posix() | badarg}.
first(File, Size) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Read = file:read(Fd, Size),
            ok = file:close(Fd),
            case Read of
                eof -> {ok, <<>>};
                _ -> Read
            end;
        {error, _} = Error -> Error
    end.

%% @doc Reads a regular file of at most `Limit' bytes. Errors beside those of the system: `efbig'
%% for a larger file, `eisdir' for a directory, and `eftype' for a pipe or a device, because
%% reading it may never end.
-spec whole(file:filename_all(), non_neg_integer()) ->
          {ok, binary()} | {error, file:posix() | badarg}.
whole(File, Limit) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, size = Size}} when Size > Limit -> {error, efbig};
        {ok, #file_info{type = regular}} -> file:read_file(File);
        {ok, #file_info{type = directory}} -> {error, eisdir};
        {ok, _} -> {error, eftype};
        {error, _} = Error -> Error
    end.

%% @doc Reads a text of terms or lines: as {@link whole/2}, with a limit of 4 MB.
-spec text(file:filename_all()) -> {ok, binary()} | {error, file:posix() | badarg}.
text(File) -> whole(File, ?MOST_TEXT).

%% @doc Whether two paths lead to one regular file.
-spec is_same(file:filename_all(), file:filename_all()) -> boolean().
is_same(One, Other) ->
    case {file:read_file_info(One), file:read_file_info(Other)} of
        {{ok, #file_info{type = regular, major_device = Device, inode = Inode}},
         {ok, #file_info{major_device = Device, inode = Inode}}} -> true;
        _ -> false
    end.
