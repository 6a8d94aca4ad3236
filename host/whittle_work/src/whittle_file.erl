%% @doc Reads files of unknown origin, and writes files. It limits the size of what it reads, and
%% never waits for a pipe.
-module(whittle_file).

-include_lib("kernel/include/file.hrl").

-export([check/1, first/2, whole/2, text/1, replace/2, is_same/2, is_in/2, found/2,
         matches/2, below/2, absolute/1, parts/1]).
-export([format_error/1]).

%% The limit in bytes for a text of terms or lines.
-define(MOST_TEXT, 4 * 1024 * 1024).

%% The file systems whose files the kernel generates. Some of these files claim to be empty and
%% have no end. Others make their reader wait for events.
-define(OF_THE_KERNEL,
        [<<"binfmt_misc">>, <<"bpf">>, <<"cgroup">>, <<"cgroup2">>, <<"configfs">>, <<"debugfs">>,
         <<"efivarfs">>, <<"fusectl">>, <<"mqueue">>, <<"nsfs">>, <<"proc">>, <<"pstore">>,
         <<"securityfs">>, <<"selinuxfs">>, <<"sysfs">>, <<"tracefs">>]).

%% The number of bytes to read at a time from a file that is longer than it claims.
-define(PIECE, 64 * 1024).

%% @doc Finds the files below a directory that match a pattern of `filelib:wildcard/2', sorted. In
%% the name of the directory, `[' and `{' have no meaning of their own. A wrong pattern finds none.
%% The pattern `**' enters each directory only once, even if several links lead to it.
-spec found(string(), file:filename()) -> [file:filename()].
found(Pattern, Dir) -> [filename:join(Dir, Path) || Path <- matches(Pattern, Dir)].

%% @doc Finds files as {@link found/2} does, and returns their paths below the directory.
-spec matches(string(), file:filename()) -> [file:filename()].
matches(Pattern, Dir) ->
    try matched(filename:split(Pattern), [], Dir)
    catch error:{badpattern, _} -> []
    end.

%% @doc Lists the names of a path below a directory. The path begins with the parts of the
%% directory. Parts `.' do not count, because `filename:join/2' removes some of them.
-spec below(file:filename(), file:filename()) -> [file:filename()].
below(Path, Dir) -> lists:nthtail(length(parts(Dir)), parts(Path)).

%% @doc Makes a path absolute, and removes its parts `.'. So the text of a path below it begins with
%% the text of the result.
-spec absolute(file:filename()) -> file:filename().
absolute(Path) -> filename:join(parts(filename:absname(Path))).

%% @doc Checks that a read of the file comes to an end. The file must be regular. An empty file
%% must not lie on a file system that the kernel generates, such as proc. Besides the errors of
%% the operating system, the errors are `eisdir' for a directory and `eftype' for any other
%% unsuitable file.
-spec check(file:filename_all()) -> ok | {error, file:posix() | badarg}.
check(File) ->
    case sound(File) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Reads up to `Size' bytes from the beginning of a file. The errors are those of {@link
%% check/1}.
-spec first(file:filename_all(), pos_integer()) -> {ok, binary()} | {error, file:posix() | badarg}.
first(File, Size) ->
    case sound(File) of
        {ok, _} -> opened(File, fun(Fd) -> some(Fd, Size) end);
        {error, _} = Error -> Error
    end.

%% @doc Reads a regular file of at most `Limit' bytes. The limit applies to the bytes that the
%% function reads, not to the size that the file claims. The errors are those of {@link check/1},
%% and `efbig' for a larger file.
-spec whole(file:filename_all(), non_neg_integer()) ->
          {ok, binary()} | {error, file:posix() | badarg}.
whole(File, Limit) ->
    case sound(File) of
        {ok, Size} when Size > Limit -> {error, efbig};
        {ok, Size} -> opened(File, fun(Fd) -> up_to(Limit, Fd, Size + 1, []) end);
        {error, _} = Error -> Error
    end.

%% @doc Reads a text of terms or lines. It works like {@link whole/2} with a limit of 4 MB.
-spec text(file:filename_all()) -> {ok, binary()} | {error, file:posix() | badarg}.
text(File) -> whole(File, ?MOST_TEXT).

%% @doc Writes a file, whole or not at all. An older file of this name stays until the new one is
%% complete, also if the disk is full or a signal stops the command. Until then the bytes are in
%% `FILE.PID.part', PID being the process number of the VM.
-spec replace(file:filename(), iodata()) -> ok | {error, file:posix() | badarg | terminated}.
replace(File, Bytes) ->
    Part = lists:concat([File, ".", os:getpid(), ".part"]),
    ok = whittle_unfinished:begun(Part, fun() -> file:delete(Part) end),
    Done = whittle_work:steps([fun(_) -> file:write_file(Part, Bytes) end,
                               fun(_) -> file:rename(Part, File) end]),
    ok = whittle_unfinished:done(Part),
    _ = [file:delete(Part) || Done =/= ok],
    Done.

%% @doc Tells whether two paths lead to the same regular file.
-spec is_same(file:filename_all(), file:filename_all()) -> boolean().
is_same(One, Other) ->
    case {file:read_file_info(One), file:read_file_info(Other)} of
        {{ok, #file_info{type = regular, major_device = Device, inode = Inode}},
         {ok, #file_info{major_device = Device, inode = Inode}}} -> true;
        _ -> false
    end.

%% @doc Tells whether a file is in a directory, or would be if somebody made it and the directories
%% above it. It follows symbolic links.
-spec is_in(file:filename_all(), file:filename_all()) -> boolean().
is_in(File, Dir) ->
    {Base, Missing} = existing(filename:absname(Dir)),
    {Here, Names} = existing(filename:dirname(filename:absname(File))),
    case Missing of
        [] -> is_above(inode(Base), Here);
        _ -> inode(Base) =:= inode(Here) andalso lists:prefix(Missing, Names)
    end.

%% Splits a path into the part that exists, and the names of the rest.
existing(Path) -> existing(Path, []).

existing(Path, Names) ->
    case {inode(Path), filename:dirname(Path)} of
        {none, Above} when Above =/= Path ->
            existing(Above, [unicode:characters_to_binary(filename:basename(Path)) | Names]);
        _ -> {Path, Names}
    end.

is_above(Inode, Dir) ->
    Above = filename:join(Dir, ".."),
    case {inode(Dir), inode(Above)} of
        {Inode, _} -> true;
        {Same, Same} -> false;
        _ -> is_above(Inode, Above)
    end.

inode(Path) ->
    case file:read_file_info(Path) of
        {ok, #file_info{major_device = Device, inode = Inode}} -> {Device, Inode};
        {error, _} -> none
    end.

%% @doc Formats an error of this module as the rest of a sentence that begins with the file's name.
%% The caller adds what to do next.
-spec format_error(file:posix() | badarg) -> unicode:chardata().
format_error(eftype) -> "is a pipe, a socket, a device or a file of the kernel";
format_error(eisdir) -> "is a directory";
format_error(efbig) -> "is too large";
format_error(enomem) -> "does not fit into the memory of this machine";
format_error(Reason) -> ["cannot be read (", file:format_error(Reason), $)].

%% Internal

%% Finds the files of a pattern by its parts. filelib would walk along every path for `**'.
matched(["**"], Before, Dir) ->
    matched(["**", "*"], Before, Dir);
matched(["**" | After], Before, Dir) ->
    Tops = case [Part || Part <- lists:reverse(Before), Part =/= "."] of
               [] -> [""];
               Parts -> wildcard(Parts, Dir)
           end,
    lists:usort([case below(Below, Dir) of
                     [] -> Path;
                     Names -> filename:join(Names ++ [Path])
                 end || Top <- Tops, Below <- whittle_walk:directories(joined(Dir, Top)),
                        Path <- matched(After, [], Below)]);
matched([Part | After], Before, Dir) ->
    matched(After, [Part | Before], Dir);
matched([], Before, Dir) ->
    wildcard(lists:reverse(Before), Dir).

wildcard([], _) -> [];
wildcard(Parts, Dir) -> filelib:wildcard(filename:join(Parts), Dir).

joined(Dir, "") -> Dir;
joined(Dir, Path) -> filename:join(Dir, Path).

%% @doc Splits a path into its parts, without those that are `.'.
-spec parts(file:filename()) -> [file:filename()].
parts(Path) -> [Part || Part <- filename:split(Path), Part =/= "."].

%% Returns the size that a file claims.
sound(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, size = 0, major_device = Device}} ->
            case lists:member(Device, devices_of_the_kernel()) of
                true -> {error, eftype};
                false -> {ok, 0}
            end;
        {ok, #file_info{type = regular, size = Size}} -> {ok, Size};
        {ok, #file_info{type = directory}} -> {error, eisdir};
        {ok, _} -> {error, eftype};
        {error, _} = Error -> Error
    end.

%% Finds the devices of those file systems. The third field of a line of mountinfo is MAJOR:MINOR.
%% The type follows a lone dash.
devices_of_the_kernel() ->
    case file:read_file("/proc/self/mountinfo") of
        {ok, Mounts} ->
            [device(Number) || Line <- binary:split(Mounts, <<"\n">>, [global]),
                               [Before, After] <- [binary:split(Line, <<" - ">>)],
                               [Type | _] <- [binary:split(After, <<" ">>)],
                               lists:member(Type, ?OF_THE_KERNEL),
                               [_, _, Number | _] <- [binary:split(Before, <<" ">>, [global])]];
        {error, _} ->
            []
    end.

%% Computes the lower 32 bits of st_dev. Erlang gives no more of it.
device(Number) ->
    [Major, Minor] = [binary_to_integer(Part) || Part <- binary:split(Number, <<":">>)],
    (((Major band 16#fff) bsl 8) bor (Minor band 16#ff) bor ((Minor band 16#fff00) bsl 12)).

opened(File, Read) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            try Read(Fd)
            after file:close(Fd)
            end;
        {error, _} = Error -> Error
    end.

some(Fd, Size) ->
    case file:read(Fd, Size) of
        eof -> {ok, <<>>};
        Read -> Read
    end.

up_to(Left, Fd, Size, Before) ->
    case some(Fd, Size) of
        {ok, Bytes} when byte_size(Bytes) > Left -> {error, efbig};
        {ok, Bytes} when byte_size(Bytes) < Size, Before =:= [] -> {ok, Bytes};
        {ok, Bytes} when byte_size(Bytes) < Size ->
            {ok, iolist_to_binary(lists:reverse(Before, [Bytes]))};
        {ok, Bytes} -> up_to(Left - byte_size(Bytes), Fd, ?PIECE, [Bytes | Before]);
        {error, _} = Error -> Error
    end.
