%% @hidden Files and directories that are either whole or not there.
%%
%% What is written goes into a place of its own beside the output and is
%% renamed to it at the end; a failure, and a command that is told to stop ({@link
%% whittle_unfinished}), leave the output as it was.
-module(whittle_pack_file).

-include_lib("kernel/include/file.hrl").

-import(whittle_work, [steps/1]).

-export([check/1, check_program/1, write/3, check_dir/2, write_dir/3]).
-export([alone/2]).

-export_type([error/0]).

-type error() :: {is_directory, file:filename_all()}
               | {not_a_file, file:filename_all()}        % a device, a pipe
               | {not_ours, file:filename_all()}  % a file or directory of others
               | {holds_others, {file:filename_all(), file:filename_all()}} % a directory of ours
               | {cannot_write, {file:filename_all(), file:posix() | badarg}}.

%% How long another one is waited for, who writes an output beside ours: that takes seconds.
-define(LOCK_SECONDS, 60).

%% How an older output is known: it has this file, and what is in it are such files.
-type older() :: {Mark :: binary(), IsOurs :: fun((file:filename_all()) -> boolean())}.

%% @doc Whether {@link write/3} may go there.
-spec check(file:filename_all()) -> ok | {error, error()}.
check(Out) ->
    case file:read_file_info(Out) of
        {ok, #file_info{type = directory}} -> {error, {is_directory, Out}};
        {ok, #file_info{type = Type}} when Type =/= regular -> {error, {not_a_file, Out}};
        _ -> check_parent(Out)
    end.

%% @doc Whether a program may go there: what is there already has to be a program, not
%% what somebody has written. Of what cannot be read, who may write decides then.
-spec check_program(file:filename_all()) -> ok | {error, error()}.
check_program(Out) ->
    steps([fun(_) -> check(Out) end,
           fun(_) ->
                   case whittle_file:first(Out, 4) of
                       {ok, Other} when Other =/= <<127, "ELF">>, Other =/= <<>> ->
                           {error, {not_ours, Out}};
                       _ -> ok
                   end
           end]).

%% @doc Writes a file and its mode; an output that exists is replaced.
-spec write(file:filename_all(), iodata(), 0..8#777) -> ok | {error, error()}.
write(Out, Bytes, Mode) ->
    steps([fun(_) -> check(Out) end,
           fun(_) -> in_place(Out, fun(Place) -> whole_file(Place, Bytes, Mode) end) end]).

%% @doc Calls the function while nobody else who asks so writes beside this output: for files
%% that belong together. Another one is waited for, at most a minute; where nothing can be
%% locked the function is called nevertheless.
-spec alone(file:filename_all(), fun(() -> Result)) -> Result.
alone(Out, Fun) ->
    case whittle_lock:take(filename:dirname(Out), #{wait => ?LOCK_SECONDS}) of
        {ok, Lock} ->
            try Fun()
            after
                whittle_lock:release(Lock)
            end;
        _ ->
            Fun()
    end.

%% @doc Whether {@link write_dir/3} may go there.
-spec check_dir(file:filename_all(), older()) -> ok | {error, error()}.
check_dir(Out, Older) ->
    case file:read_link_info(Out) of
        {ok, _} ->
            steps([fun(_) -> check_ours(Out, Older) end, fun(_) -> check_parent(Out) end]);
        {error, _} ->
            check_parent(Out)
    end.

check_ours(Out, {Mark, IsOurs}) ->
    IsOlder = filelib:is_regular(filename:join(Out, Mark)),
    case file:list_dir(Out) of
        {ok, []} -> ok;
        {ok, Names} when IsOlder ->
            case [Name || Name <- lists:sort(Names), not IsOurs(filename:join(Out, Name))] of
                [] -> ok;
                [Other | _] -> {error, {holds_others, {Out, Other}}}
            end;
        _ -> {error, {not_ours, Out}}
    end.

%% @doc Writes a directory of files. A directory that exists is replaced when it is an older
%% output and holds nothing else at its top, or is empty.
-spec write_dir(file:filename_all(), [{binary(), iodata(), 0..8#777}], older()) ->
          ok | {error, error()}.
write_dir(Out, Files, Older) ->
    steps([fun(_) -> check_dir(Out, Older) end,
           fun(_) -> in_place(Out, fun(Place) -> all_files(Place, Files) end) end]).

%% Internal

check_parent(Out) ->
    Parent = filename:dirname(Out),
    case file:read_file_info(Parent) of
        {ok, #file_info{type = directory, access = Access}}
          when Access =:= write; Access =:= read_write -> ok;
        {ok, #file_info{type = directory}} -> {error, {cannot_write, {Out, eacces}}};
        {ok, _} -> {error, {cannot_write, {Out, enotdir}}};
        {error, Reason} -> {error, {cannot_write, {Out, Reason}}}
    end.

in_place(Out, Write) ->
    Place = beside(Out, ".unfinished"),
    Remove = fun() -> remove(Place) end,
    whittle_unfinished:begun(Place, Remove),
    ok = Remove(),      % of a process of the same number that was killed
    try steps([fun(_) -> Write(Place) end, fun(_) -> replace(Out, Place) end]) of
        ok -> ok;
        {error, Reason} -> {error, {cannot_write, {Out, Reason}}}
    after
        ok = Remove(),
        whittle_unfinished:done(Place)
    end.

beside(Out, Suffix) ->
    filename:join(filename:dirname(Out), [".", filename:basename(Out), ".", os:getpid(), Suffix]).

%% A directory that holds something cannot be replaced in one step: the older one
%% is moved aside first, and comes back when the new one cannot take its place.
replace(Out, Place) ->
    case file:rename(Place, Out) of
        {error, eexist} ->
            Old = beside(Out, ".old"),
            remove(Old),
            whittle_unfinished:begun(Old, fun() -> put_back(Old, Out, Place) end),
            Result = steps([fun(_) -> file:rename(Out, Old) end,
                            fun(_) -> exchange(file:rename(Place, Out), Out, Old) end]),
            whittle_unfinished:done(Old),
            Result;
        Result ->
            Result
    end.

exchange(ok, _, Old) ->
    %% From here on the new one stays.
    whittle_unfinished:begun(Old, fun() -> remove(Old) end),
    remove(Old);
exchange(Error, Out, Old) ->
    steps([fun(_) -> file:rename(Old, Out) end, fun(_) -> Error end]).

%% A new output that has already taken the older one's place leaves it again.
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
        {error, _} -> ok     % it was not there
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
                   fun(_) -> file:change_mode(Path, Mode) end]);
        Error ->
            Error
    end.
