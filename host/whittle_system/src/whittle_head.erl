%% @doc Reads files of which it is not known whether they are the kind that they should be.
-module(whittle_head).

-include_lib("kernel/include/file.hrl").

-export([read/2, whole/2]).

%% @doc The first bytes of a file, by which its kind is known: at most so many, fewer of a
%% shorter file.
-spec read(file:filename_all(), pos_integer()) -> {ok, binary()} | {error, file:posix() | badarg}.
read(File, Size) ->
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

%% @doc All bytes of a regular file that has no more than so many. Errors beside those of
%% the system: `eftype' for a pipe or a device, which could be waited for without an end,
%% and `efbig' for a larger file.
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
