%% @hidden Writes files and directories that are complete or do not exist.
%%
%% It writes to a temporary path beside the output and renames it at the end. A failure leaves the
%% output unchanged, and so does a signal that stops the command ({@link whittle_unfinished}).
-module(whittle_pack_file).

-include_lib("kernel/include/file.hrl").

-import(whittle_work, [steps/1]).

-export([check/1, check/2, begins/1, write/4, check_dir/2, write_dir/3]).
-export([alone/3]).

-export_type([error/0, is_older/0]).

%% The longest name in bytes that the file systems of Linux accept.
-define(LONGEST_NAME, 255).

-type error() :: {is_directory, file:filename_all()}
               | {is_file, file:filename_all()}
               | {not_a_file, file:filename_all()}        % a device, a pipe, a file in /proc
               | {not_ours, file:filename_all()}  % a file or directory that Whittle did not write
               | {holds_others, {file:filename_all(), file:filename_all()}} % output, foreign file
               | {no_sums, file:filename_all()}   % an older output without a list of its files
               %% Output, first file, and the number of more such files
               | {holds_edits, {file:filename_all(), whittle_pack_sums:edit(), non_neg_integer()}}
               | {unreadable, {file:filename_all(), file:posix() | badarg}}
               | {cannot_write, {file:filename_all(), file:posix() | badarg | no_directory}}
               | {locked, file:filename_all()}.           % a directory

%% Tells whether a file is an older output of the same kind, which a new one may replace.
-type is_older() :: fun((file:filename_all()) -> boolean()).

%% How to recognize an older directory: it contains the mark, and each name at its top level passes
%% the test. The last path is that of its list of files ({@link whittle_pack_sums}).
-type older() :: {Mark :: binary(), IsOurs :: fun((file:filename_all()) -> boolean()),
                  Sums :: binary()}.

%% @doc Checks that {@link write/4} may write to a path, whatever file is there.
-spec check(file:filename_all()) -> ok | {error, error()}.
check(Out) ->
    case whittle_file:check(Out) of
        {error, eisdir} -> {error, {is_directory, Out}};
        {error, eftype} -> {error, {not_a_file, Out}};
        _ -> check_parent(Out)
    end.

%% @doc Checks that an output may be written to a path. An existing file must be an older output or
%% empty, so that no command replaces a file of the user.
-spec check(file:filename_all(), is_older()) -> ok | {error, error()}.
check(Out, IsOlder) ->
    steps([fun(_) -> check(Out) end, fun(_) -> check_older(Out, IsOlder) end]).

check_older(Out, IsOlder) ->
    case whittle_file:first(Out, 1) of
        {ok, <<_>>} ->
            case IsOlder(Out) of
                true -> ok;
                false -> {error, {not_ours, Out}}
            end;
        {ok, <<>>} -> ok;
        {error, enoent} -> ok;
        %% A write would replace it: it needs only the permissions of the directory.
        {error, Reason} -> {error, {unreadable, {Out, Reason}}}
    end.

%% @doc Recognizes older outputs by their first bytes.
-spec begins(binary()) -> is_older().
begins(Signature) ->
    fun(File) -> {ok, Signature} =:= whittle_file:first(File, byte_size(Signature)) end.

%% @doc Writes a file with its mode. It replaces an existing output.
-spec write(file:filename_all(), iodata(), 0..8#777, is_older()) -> ok | {error, error()}.
write(Out, Bytes, Mode, IsOlder) ->
    steps([fun(_) -> check(Out, IsOlder) end,
           fun(_) ->
                   in_place(Out, fun(Place) ->
                       %% Somebody may make a file of that name while this writes.
                       steps([fun(_) -> whole_file(Place, Bytes, Mode) end,
                              fun(_) -> check_older(Out, IsOlder) end])
                   end, fun(_) -> ok end)
           end]).

%% @doc Calls a function while it holds the lock of the output's directory. Use it for files that
%% belong together. The error is `locked' if another process still holds the lock after the given
%% seconds. The function runs without a lock if the directory cannot be locked.
-spec alone(file:filename_all(), non_neg_integer(), fun(() -> Result)) ->
          Result | {error, error()}.
alone(Out, Seconds, Fun) ->
    Dir = filename:dirname(Out),
    case whittle_lock:take(Dir, #{wait => Seconds}) of
        {ok, Lock} ->
            try Fun()
            after
                whittle_lock:release(Lock)
            end;
        busy ->
            {error, {locked, Dir}};
        {error, _} ->
            Fun()
    end.

%% @doc Checks that {@link write_dir/3} may write to a path.
-spec check_dir(file:filename_all(), older()) -> ok | {error, error()}.
check_dir(Out, Older) ->
    case file:read_link_info(Out) of
        {ok, #file_info{type = regular}} ->
            {error, {is_file, Out}};
        {ok, _} ->
            steps([fun(_) -> check_ours(Out, Older) end, fun(_) -> check_parent(Out) end]);
        {error, _} ->
            check_parent(Out)
    end.

check_ours(Out, {Mark, IsOurs, Sums}) ->
    IsOlder = filelib:is_regular(filename:join(Out, Mark)),
    case file:list_dir(Out) of
        {ok, []} -> ok;
        {ok, Names} when IsOlder ->
            case [Name || Name <- lists:sort(Names), not IsOurs(filename:join(Out, Name))] of
                [] -> check_edits(Out, Sums);
                [Other | _] -> {error, {holds_others, {Out, Other}}}
            end;
        _ -> {error, {not_ours, Out}}
    end.

check_edits(Out, Sums) ->
    case whittle_pack_sums:edits(Out, Sums) of
        {ok, []} -> ok;
        {ok, [First | More]} -> {error, {holds_edits, {Out, First, length(More)}}};
        error -> {error, {no_sums, Out}}
    end.

%% @doc Writes a directory of files. It replaces an existing directory if that is empty, or if it
%% is an older output, without other files and without changes.
-spec write_dir(file:filename_all(), [{binary(), iodata(), 0..8#777}], older()) ->
          ok | {error, error()}.
write_dir(Out, Files, Older) ->
    steps([fun(_) -> check_dir(Out, Older) end,
           fun(_) ->
                   in_place(Out, fun(Place) ->
                       %% Somebody may change the older output while this writes the new one.
                       steps([fun(_) -> all_files(Place, Files) end,
                              fun(_) -> check_dir(Out, Older) end])
                   end,
                   %% Somebody may change the older output during the check above. This check comes
                   %% after the move, when nobody finds it any more.
                   fun(Moved) -> named(Out, check_ours(Moved, Older)) end)
           end]).

%% Internal

check_parent(Out) ->
    case name_bytes(filename:basename(Out)) of
        Bytes when Bytes > ?LONGEST_NAME -> {error, {cannot_write, {Out, enametoolong}}};
        _ -> check_directory(Out)
    end.

name_bytes(Name) -> byte_size(unicode:characters_to_binary(Name)).

check_directory(Out) ->
    Parent = filename:dirname(Out),
    case file:read_file_info(Parent) of
        {ok, #file_info{type = directory, access = Access}}
          when Access =:= write; Access =:= read_write -> ok;
        {ok, #file_info{type = directory}} -> refused(Out);
        {ok, _} -> {error, {cannot_write, {Out, enotdir}}};
        {error, enoent} -> {error, {cannot_write, {Out, no_directory}}};
        {error, Reason} -> {error, {cannot_write, {Out, Reason}}}
    end.

%% Asks the kernel why the directory takes no files: the user has no permission, or its file system
%% is read-only.
refused(Out) ->
    Place = beside(Out, ".unfinished"),
    case file:make_dir(Place) of
        ok -> file:del_dir(Place);
        {error, Reason} -> {error, {cannot_write, {Out, Reason}}}
    end.

%% An error names the output, although it was moved aside.
named(_, ok) -> ok;
named(Out, {error, {Tag, Details}}) when is_tuple(Details) ->
    {error, {Tag, setelement(1, Details, Out)}};
named(Out, {error, {Tag, _}}) -> {error, {Tag, Out}}.

in_place(Out, Write, Check) ->
    Place = beside(Out, ".unfinished"),
    Remove = fun() -> remove(Place) end,
    whittle_unfinished:begun(Place, Remove),
    ok = Remove(),      % left by a killed process with the same process number
    try steps([fun(_) -> Write(Place) end,
               fun(_) -> whittle_unfinished:moves(Place, Out) end,
               fun(_) -> replace(Out, Place, Check) end]) of
        ok -> ok;
        {error, Reason} when is_atom(Reason) -> {error, {cannot_write, {Out, Reason}}};
        {error, _} = Error -> Error
    after
        ok = Remove(),
        whittle_unfinished:done(Place)
    end.

%% A long name of the output leaves no room for the additions, so its hash stands for it.
beside(Out, Suffix) ->
    Base = filename:basename(Out),
    Own = [".", os:getpid(), Suffix],
    Shown = case name_bytes([".", Base, Own]) > ?LONGEST_NAME of
                true -> integer_to_list(erlang:phash2(Base));
                false -> Base
            end,
    filename:join(filename:dirname(Out), [".", Shown, Own]).

%% Replaces the older output. A rename cannot replace a directory that is not empty. So the older
%% directory is moved aside first and checked once more, and it comes back if the check fails or the
%% new one cannot take its place.
replace(Out, Place, Check) ->
    case file:rename(Place, Out) of
        {error, eexist} ->
            Old = beside(Out, ".old"),
            remove(Old),
            whittle_unfinished:begun(Old, fun() -> put_back(Old, Out, Place) end),
            Result = steps([fun(_) -> file:rename(Out, Old) end,
                            fun(_) ->
                                    Moved = steps([fun(_) -> Check(Old) end,
                                                   fun(_) -> file:rename(Place, Out) end]),
                                    exchange(Moved, Out, Old)
                            end]),
            whittle_unfinished:done(Old),
            Result;
        Result ->
            Result
    end.

exchange(ok, _, Old) ->
    %% The new output stays from here on.
    whittle_unfinished:begun(Old, fun() -> remove(Old) end),
    remove(Old);
exchange(Error, Out, Old) ->
    steps([fun(_) -> file:rename(Old, Out) end, fun(_) -> Error end]).

%% Moves the older output back, and removes a new output that has already taken its place.
put_back(Old, Out, Place) ->
    case file:read_link_info(Old) of
        {ok, _} ->
            _ = file:rename(Out, Place),
            _ = file:rename(Old, Out),
            remove(Place);
        {error, _} -> ok         % it was not moved yet
    end.

remove(Place) ->
    case file:del_dir_r(Place) of
        ok -> ok;
        {error, _} -> ok     % there is no new output
    end.

all_files(Dir, Files) ->
    steps([fun(_) ->
                   Path = filename:join(Dir, Name),
                   steps([fun(_) -> filelib:ensure_dir(Path) end,
                          fun(_) -> whole_file(Path, Bytes, Mode) end])
           end || {Name, Bytes, Mode} <- Files]).

whole_file(Path, Bytes, Mode) ->
    case file:open(Path, [write, exclusive, raw, binary]) of
        {ok, Fd} ->
            Written = steps([fun(_) -> file:write(Fd, Bytes) end,
                             fun(_) -> file:sync(Fd) end]),
            Closed = file:close(Fd),
            steps([fun(_) -> Written end,
                   fun(_) -> Closed end,
                   fun(_) -> change_mode(Path, Mode) end]);
        Error ->
            Error
    end.

%% The kernel has made the file without the bits of the umask. Who must not read it must not run it.
change_mode(Path, Mode) ->
    case file:read_link_info(Path) of
        {ok, #file_info{mode = Made}} ->
            Masked = 8#666 band bnot Made,
            file:change_mode(Path, Mode band bnot (Masked bor ((Masked band 8#444) bsr 2)));
        Error -> Error
    end.
