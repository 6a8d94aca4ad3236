%% @doc Locks and checks the directory of the database. Reads and writes small files there, and
%% opens large ones.
%% @hidden
-module(docket_directory).

-export([check/2, name/1, lock/1, unlock/1, read/1, write/2, in_file/3, format_error/1]).

-export_type([error/0, lock/0, name/0]).

%% `in_use': another process uses the directory. `write': it cannot be written.
-type error() :: {in_use, file:filename()} | {write, {file:filename(), Reason :: term()}}.

%% `none': nothing is locked, because there is no directory, or the system has no such locks.
-type lock() :: gen_tcp:socket() | none.

%% `none': there is no directory.
-type name() :: binary() | none.

-include_lib("kernel/include/file.hrl").

%% @doc Checks that so many bytes can be written to the directory, and makes it if it is missing.
-spec check(file:filename(), Bytes :: pos_integer()) -> ok | {error, file:posix()}.
check(Dir, Bytes) ->
    Probe = filename:join(Dir, "docket.probe"),
    first_error([filelib:ensure_dir(Probe), file:write_file(Probe, <<0:(8 * Bytes)>>),
                 file:delete(Probe)]).

%% @doc Names a directory. Another directory at the same path has another name. But after a
%% directory was removed, a new one may get its number, and so its name.
-spec name(file:filename()) -> name().
name(Dir) ->
    case file:read_file_info(Dir) of
        {ok, #file_info{major_device = Device, inode = Inode}} ->
            iolist_to_binary(io_lib:format("~cdocket-~b-~b", [0, Device, Inode]));
        {error, _} -> none
    end.

%% @doc Makes the directory if it is missing, and keeps other processes of this network namespace
%% from it, until unlock/1 or the end of the calling process. Containers with networks of their own
%% are not kept out. `none' is also the lock of a directory that cannot be made.
%% Linux ends the lock with the VM: it is a socket with a name that is in no directory (unix(7)).
%% Other systems have no such names, and there this does nothing.
-spec lock(file:filename()) -> {ok, lock()} | {error, error()}.
lock(Dir) ->
    _ = filelib:ensure_path(Dir),
    case name(Dir) of
        none -> {ok, none};
        Name ->
            case gen_tcp:listen(0, [local, {ifaddr, {local, Name}}]) of
                {error, eaddrinuse} -> {error, {in_use, Dir}};
                {error, _} -> {ok, none};
                {ok, _} = Locked -> Locked
            end
    end.

%% @doc Gives the directory back. Without this, the name of the socket may be in use for a moment
%% after the end of the process, and a new start would be refused.
-spec unlock(lock()) -> ok.
unlock(none) -> ok;
unlock(Socket) -> gen_tcp:close(Socket).

%% @doc Reads a file of Erlang terms. `damaged' is one that holds something else.
-spec read(file:filename()) -> {ok, [term()]} | damaged | {error, file:posix() | badarg | terminated
                                                           | system_limit}.
read(File) ->
    %% file:consult/1 raises an error if it can open a file, but not read it.
    case file:read_file(File) of
        {ok, _} ->
            case file:consult(File) of
                {ok, _} = Terms -> Terms;
                %% The first line is no UTF-8.
                {error, tokens} -> damaged;
                {error, Reason} = Error when is_atom(Reason) -> Error;
                {error, _} -> damaged
            end;
        {error, _} = Error -> Error
    end.

%% @doc Writes a file, whole or not at all. The file and its name are on the disk when this returns.
-spec write(file:filename(), iodata()) -> ok | {error, file:posix() | badarg | terminated}.
write(File, Bytes) ->
    New = File ++ ".new",
    case file:open(New, [write, raw]) of
        {ok, Device} ->
            Written = first_error([file:write(Device, Bytes), file:sync(Device),
                                   file:close(Device)]),
            case Written of
                ok -> named(file:rename(New, File), filename:dirname(File));
                {error, _} -> Written
            end;
        {error, _} = Error -> Error
    end.

%% Without this, the older file may be back after a loss of power.
named(ok, Dir) ->
    case file:open(Dir, [read, raw, directory]) of
        {ok, Device} -> first_error([file:sync(Device), file:close(Device)]);
        {error, _} = Error -> Error
    end;
named(Error, _) -> Error.

first_error(Results) ->
    case lists:keyfind(error, 1, Results) of
        false -> ok;
        Error -> Error
    end.

%% @doc Opens a file as bytes, and calls a function with the device and the size. The device is then
%% at the end of the file. The errors are those of the opening and of the function.
-spec in_file(file:filename(), [file:mode()],
              fun((file:io_device(), Size :: non_neg_integer()) -> Result)) ->
          Result | {error, file:posix() | badarg | system_limit}.
in_file(File, Modes, Fun) ->
    case file:open(File, [raw, binary | Modes]) of
        {ok, Device} ->
            Result = case file:position(Device, eof) of
                         {ok, Size} -> Fun(Device, Size);
                         {error, _} = Error -> Error
                     end,
            _ = file:close(Device),
            Result;
        {error, _} = Error -> Error
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({in_use, Dir}) ->
    ["another process uses the directory ", Dir, ": end it, or choose another directory with "
     "DOCKET_DIR"];
format_error({write, {Dir, Reason}}) when Reason =:= enospc; Reason =:= edquot ->
    ["the directory ", Dir, " has no space left: free space there"];
format_error({write, {Dir, Reason}}) when Reason =:= eexist; Reason =:= enotdir ->
    [Dir, " (DOCKET_DIR) is not a directory, or is below a file: choose another path"];
format_error({write, {Dir, Reason}}) ->
    io_lib:format("the directory ~ts (DOCKET_DIR) cannot be written (~ts): let this user write "
                  "there, or choose another directory", [Dir, file:format_error(Reason)]).
