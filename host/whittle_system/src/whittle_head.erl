%% @doc Reads files of which it is not known whether they are the kind that they should be.
-module(whittle_head).

-include_lib("kernel/include/file.hrl").

-export([read/2, whole/2, text/1, part/1]).

%% Bytes of a text that is read as terms or lines, of a module, and of any other file: what
%% a block of the pack can hold.
-define(MOST_TEXT, 4 * 1024 * 1024).
-define(MOST_CODE, 64 * 1024 * 1024).
-define(MOST, 16#ffffffff).

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

%% @doc All bytes of a text that is read as terms or lines: as {@link whole/2}, with 4 MB.
-spec text(file:filename_all()) -> {ok, binary()} | {error, file:posix() | badarg}.
text(File) -> whole(File, ?MOST_TEXT).

%% @doc All bytes of a file of an application or a release: as {@link whole/2}, with as many as
%% a file of that name can need.
-spec part(file:filename_all()) -> {ok, binary()} | {error, file:posix() | badarg}.
part(File) ->
    Name = filename:basename(File),
    InEbin = filename:basename(filename:dirname(File)) =:= "ebin",
    case filename:extension(Name) of
        _ when Name =:= "sys.config"; Name =:= "sys.config.src";
               Name =:= "vm.args"; Name =:= "vm.args.src"; Name =:= "native.config" -> text(File);
        ".app" when InEbin -> text(File);
        Text when Text =:= ".rel"; Text =:= ".erl"; Text =:= ".hrl" -> text(File);
        ".beam" -> whole(File, ?MOST_CODE);
        _ -> whole(File, ?MOST)
    end.
