%% @doc Tracks temporary directories, half-written outputs, older outputs that were moved aside, and
%% directories whose removal has begun.
%%
%% Code that creates such a file first registers a function that removes it. It drops the function
%% when the work is done. If a signal stops the command, {@link undo_all/0} undoes everything that
%% is left at once. All applications share one list.
-module(whittle_unfinished).

-include_lib("kernel/include/file.hrl").

-export([begun/2, done/1, undo_all/0, left/0]).
-export([changing/2, changes/0]).
-export([moves/2, in_place/0]).
-export([make_directory/1, make_directory/2, remove_directory/1, remove_tree/1]).

%% A directory has this in its name on a system without /proc, and no later command removes it.
-define(UNKNOWN, "0").

%% @doc Registers how to undo a file that you are about to create, or how to complete a removal.
%% Call this function before you begin. The new function replaces an older one for the same path.
-spec begun(file:filename_all(), fun(() -> term())) -> ok.
begun(Place, Undo) ->
    %% This needs no other process, because the process that stops the command must see the list
    %% at any time.
    persistent_term:put({?MODULE, Place}, Undo).

%% @doc Drops what is registered for a path.
-spec done(file:filename_all()) -> ok.
done(Place) ->
    _ = persistent_term:erase({?MODULE, Place}),
    _ = persistent_term:erase({?MODULE, changing, Place}),
    ok.

%% @doc Registers a change that nothing can undo, and the text that describes what a stopped command
%% leaves at the path. Call this function before you begin.
-spec changing(file:filename_all(), unicode:chardata()) -> ok.
changing(Place, Text) -> persistent_term:put({?MODULE, changing, Place}, Text).

%% @doc Lists the texts of the changes that have begun.
-spec changes() -> [unicode:chardata()].
changes() -> [Text || {{?MODULE, changing, _}, Text} <- persistent_term:get()].

%% @doc Undoes everything that is registered. The processes that registered it must have stopped,
%% and no work may follow, because the entries stay in the list. Removing an entry could wait
%% forever for a process that was suspended while it changed the list. A function that fails does
%% not stop the others. The result lists the path and the reason of each failure.
-spec undo_all() -> [{file:filename_all(), term()}].
undo_all() ->
    lists:append([undo(Place, Undo) || {{?MODULE, Place}, Undo} <- persistent_term:get()]).

undo(Place, Undo) ->
    try Undo() of
        {error, Reason} when Reason =/= enoent -> [{Place, Reason}];
        _ -> []
    catch
        _:Reason -> [{Place, Reason}]
    end.

%% @doc Lists the registered paths that exist.
-spec left() -> [file:filename_all()].
left() ->
    lists:sort([Place || {{?MODULE, Place}, _} <- persistent_term:get(),
                         {ok, _} <- [file:read_link_info(Place, [raw])]]).

%% @doc Registers that complete work is about to be renamed. Call this function before the rename.
-spec moves(file:filename_all(), file:filename_all()) -> ok.
moves(From, To) ->
    case file:read_link_info(From, [raw]) of
        {ok, #file_info{major_device = Device, inode = Inode}} ->
            persistent_term:put({?MODULE, to, To}, {Device, Inode});
        {error, _} ->
            ok                          % the rename will fail too
    end.

%% @doc Lists the paths that have received complete work. A signal may stop the command right
%% after a rename. So this function compares the files themselves.
-spec in_place() -> [file:filename_all()].
in_place() ->
    lists:sort([To || {{?MODULE, to, To}, {Device, Inode}} <- persistent_term:get(),
                      {ok, #file_info{major_device = D, inode = I}}
                          <- [file:read_link_info(To, [raw])],
                      D =:= Device, I =:= Inode]).

%% @doc Creates a temporary directory that only its user can read. The directory lies below the
%% one that the environment variable `TMPDIR' names, or below /tmp. Its path is absolute, and its
%% name begins with the given prefix. The error names the directory that the user cannot write to.
%%
%% It also removes such directories of the same user whose process is gone: something killed that
%% process, so it could not remove them itself.
-spec make_directory(string()) ->
          {ok, file:filename()} | {error, {file:filename(), file:posix() | badarg}}.
make_directory(Begin) -> make_directory(Begin, os:getpid()).

%% @doc Does the same as {@link make_directory/1} for another process, whose number is Owner. That
%% process uses the directory after the end of this VM, and removes it.
-spec make_directory(string(), Owner :: string()) ->
          {ok, file:filename()} | {error, {file:filename(), file:posix() | badarg}}.
make_directory(Begin, Owner) ->
    Base = filename:absname(case os:getenv("TMPDIR", "") of "" -> "/tmp"; Given -> Given end),
    Name = io_lib:format("~s-~s-~s-~w-~w", [Begin, Owner, pid_namespace(),
                                            erlang:system_time(),
                                            erlang:unique_integer([positive])]),
    Dir = filename:join(Base, lists:flatten(Name)),
    begun(Dir, fun() -> remove_tree(Dir) end),
    case whittle_work:steps([fun(_) -> file:make_dir(Dir) end,
                              fun(_) -> file:change_mode(Dir, 8#700) end]) of
        ok ->
            ok = remove_abandoned(Base, Dir),
            {ok, Dir};
        {error, Reason} ->
            done(Dir),
            {error, {Base, Reason}}
    end.

%% @doc Removes a registered directory with all its contents, and drops its function.
-spec remove_directory(file:filename()) -> ok.
remove_directory(Dir) ->
    _ = remove_tree(Dir),
    done(Dir).

%% @doc Removes a file, or a directory with all its contents. It follows no symbolic links.
%%
%% It makes the system calls in the calling process. `file:del_dir_r/1' asks OTP's file server twice
%% for each file: it took 2.3 times as long for the 2,288 files of the directory `erts' of a build.
-spec remove_tree(file:filename_all()) -> ok | {error, file:posix() | badarg}.
remove_tree(Path) ->
    case prim_file:delete(Path) of
        %% The answers of systems for a directory.
        {error, Reason} when Reason =:= eperm; Reason =:= eisdir ->
            case file:read_link_info(Path, [raw]) of
                {ok, #file_info{type = directory}} ->
                    remove_below(Path, prim_file:list_dir_all(Path));
                _ -> {error, Reason}    % the kernel also protects a link, or the file itself
            end;
        Result -> Result
    end.

remove_below(Dir, {ok, Names}) ->
    case [Error || Name <- Names, {error, _} = Error <- [remove_tree(filename:join(Dir, Name))]] of
        [] -> prim_file:del_dir(Dir);
        [Error | _] -> Error
    end;
remove_below(_, Error) ->
    Error.

%% Names the boot of the machine and its namespace of process numbers (a container). Other machines
%% and containers may use the same directory, and their processes cannot be seen here.
pid_namespace() ->
    case {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/pid")} of
        {{ok, Boot}, {ok, Container}} ->
            string:lowercase(integer_to_list(erlang:phash2({Boot, Container}, 1 bsl 32), 16));
        _ -> ?UNKNOWN
    end.

%% A process number may be in use again: the directory then stays until that process ends.
remove_abandoned(Base, Own) ->
    %% Names that are no UTF-8 are none of Whittle's; list_dir/1 leaves them out.
    case {file:read_link_info(Own, [raw]), pid_namespace(), file:list_dir(Base)} of
        {{ok, #file_info{uid = User}}, Here, {ok, Names}} when Here =/= ?UNKNOWN ->
            _ = [remove_tree(Dir)
                 || Name <- Names,
                    {match, [Process]} <- [re:run(Name, "^whittle(?:-[a-z]+)?-([0-9]+)-" ++ Here
                                                  ++ "-[0-9]+-[0-9]+$",
                                                  [unicode, {capture, all_but_first, list}])],
                    not filelib:is_dir("/proc/" ++ Process),
                    Dir <- [filename:join(Base, Name)],
                    {ok, #file_info{type = directory, uid = Of}}
                        <- [file:read_link_info(Dir, [raw])],
                    Of =:= User],
            ok;
        _ -> ok
    end.
