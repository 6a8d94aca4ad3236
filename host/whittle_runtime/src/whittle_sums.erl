%% @hidden Records and checks the contents of an artifact.
%%
%% Whittle packs artifacts into programs. So it must not use a file that changed since the build,
%% or that another user can change.
%%
%% `whittle.sums' in the artifact has a line for each file: its SHA-256, its size, the time of
%% the last change of its content, the time of the last change of its inode, the inode, and the
%% path. For a symbolic link the line has `link', the link's target and the path.
%%
%% Each change of a file also changes the time of its inode, and no program can set that time.
%% So the check trusts a file whose recorded values are all equal. It reads every other file and
%% computes its SHA-256 again. It does the same for a file that changed in the second in which
%% the checksums were written, or later. A copied cache is as good as the first one.
-module(whittle_sums).

-include_lib("kernel/include/file.hrl").

-export([record/1, narrow/1, narrow_all/1, check/2, owned/1, owned_links/1]).

-define(SUMS, "whittle.sums").
-define(DAMAGED, "is damaged, so Whittle cannot check the directory").
%% The limit in bytes of that file. OTP has 12,000 files, and a line about 150 bytes.
-define(MOST_SUMS, 1 bsl 26).
%% The write permissions of the group and of all other users.
-define(OTHERS_WRITE, 8#022).
%% The write permission of all users, and the bit that lets only owners rename (inode(7)).
-define(ALL_WRITE, 8#002).
-define(STICKY, 8#1000).

%% Linux follows this many symbolic links in one path.
-define(MOST_LINKS, 40).

-define(CHANGED, "has changed since Whittle built it, so Whittle does not use it").

-type entry() :: {file, whittle_source:digest(), Stat :: [integer()]} | {link, file:filename()}.

%% @doc Records a directory, and removes the write permission of other users.
-spec record(file:filename()) -> ok | {error, file:posix()}.
record(Dir) ->
    try
        ok = narrowed(Dir, info(Dir)),
        Lines = [line(Path, Entry) || {Path, Info} <- below(Dir),
                                      Entry <- recorded(filename:join(Dir, Path), Info)],
        file:write_file(filename:join(Dir, ?SUMS), Lines)
    catch
        throw:{?MODULE, {Reason, _}} -> {error, Reason}
    end.

%% @doc Removes the write permission of other users for a file or a directory.
-spec narrow(file:filename()) -> ok | {error, file:posix()}.
narrow(File) ->
    try narrowed(File, info(File)) catch throw:{?MODULE, {Reason, _}} -> {error, Reason} end.

%% @doc Removes the write permission of other users for a directory and everything in it.
-spec narrow_all(file:filename()) -> ok | {error, file:posix()}.
narrow_all(Dir) ->
    try
        ok = narrowed(Dir, info(Dir)),
        [ok = narrowed(filename:join(Dir, Path), Info)
         || {Path, #file_info{type = Type} = Info} <- below(Dir), Type =/= symlink],
        ok
    catch
        throw:{?MODULE, {Reason, _}} -> {error, Reason}
    end.

%% @doc Checks that a directory holds the recorded files and that no other user can write there.
%%
%% It always reads the files in Always. It reads another file only if its recorded values
%% differ. Errors: `changed_artifact', `open_artifact'.
-spec check(file:filename(), [file:filename()]) -> ok | {error, whittle_runtime:reason()}.
check(Dir, Always) ->
    User = user(),
    try
        Own = info(Dir),
        ok = safe(Dir, Own, Dir, User),
        no_link(Dir, "", Own),
        All = below(Dir),
        [no_link(Dir, ?SUMS, Info) || {?SUMS, Info} <- All],
        [ok = safe(filename:join(Dir, Path), Info, Dir, User) || {Path, Info} <- All],
        Seen = maps:from_list([{Path, Info} || {Path, #file_info{type = Type} = Info} <- All,
                                               Type =/= directory, Path =/= ?SUMS]),
        {Recorded, At} = read(Dir),
        [changed(Dir, Path, "has been deleted since it was built")
         || Path <- maps:keys(Recorded), not is_map_key(Path, Seen)],
        [same(Dir, Path, Info, maps:get(Path, Recorded, none),
              lists:member(Path, Always) orelse Info#file_info.ctime >= At)
         || {Path, Info} <- lists:sort(maps:to_list(Seen))],
        ok
    catch
        throw:{?MODULE, {Tag, #{} = Context}} -> {error, {Tag, Context}};
        throw:{?MODULE, {Reason, Path}} ->
            {error, {changed_artifact, #{file => Path, dir => Dir,
                                         why => why(Reason, filename:basename(Path))}}}
    end.

%% @doc Checks that only this user or root owns the existing directories and can write there.
%%
%% The error `open_artifact' names the first directory that fails the check.
-spec owned([file:filename()]) -> ok | {error, whittle_runtime:reason()}.
owned(Dirs) ->
    User = user(),
    try
        [ok = safe(Dir, Info, Dir, User)
         || Dir <- Dirs, {ok, Info} <- [file:read_file_info(Dir)]],
        ok
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Checks that only this user or root owns the symbolic links in an absolute path, and that
%% others may not move the directories in it. It follows the links, and checks their targets too. A
%% directory such as /tmp, where everybody may write, has to be sticky.
%%
%% The error `open_artifact' names the first link or directory that fails the check.
-spec owned_links(file:filename()) -> ok | {error, whittle_runtime:reason()}.
owned_links(Path) ->
    try links("/", tl(filename:split(Path)), ?MOST_LINKS, user())
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% No directory in Above is a link. If the path has too many links, nobody can open it.
links(_, [], _, _) -> ok;
links(_, _, 0, _) -> ok;
links(Above, ["." | Below], Left, User) -> links(Above, Below, Left, User);
links(Above, [".." | Below], Left, User) -> links(filename:dirname(Above), Below, Left, User);
links(Above, [Name | Below], Left, User) ->
    Path = filename:join(Above, Name),
    case file:read_link_info(Path, [raw]) of
        {ok, #file_info{type = symlink} = Info} ->
            ok = safe(Path, Info, Path, User),
            case filename:split(target(Path)) of
                ["/" | To] -> links("/", To ++ Below, Left - 1, User);
                To -> links(Above, To ++ Below, Left - 1, User)
            end;
        {ok, #file_info{type = directory, mode = Mode}}
          when Below =/= [], Mode band (?ALL_WRITE bor ?STICKY) =:= ?ALL_WRITE ->
            throw({?MODULE, {open_artifact, #{file => Path, dir => Path, why => not_sticky}}});
        {ok, _} -> links(Path, Below, Left, User);
        {error, _} -> ok                    % it is not there, or nobody can open it
    end.

%%% Recording

recorded(File, #file_info{type = regular} = Info) ->
    ok = narrowed(File, Info),
    [{file, sum(File), stat(info(File))}];
recorded(File, #file_info{type = symlink}) ->
    [{link, target(File)}];
recorded(File, #file_info{type = directory} = Info) ->
    ok = narrowed(File, Info),
    [].

narrowed(File, #file_info{mode = Mode}) ->
    case Mode band ?OTHERS_WRITE of
        0 -> ok;
        _ ->
            case file:change_mode(File, Mode band 8#7777 band bnot ?OTHERS_WRITE) of
                ok -> ok;
                {error, Reason} -> fail(Reason, File)
            end
    end.

line(Path, {file, Sum, Stat}) ->
    [Sum, [[$\s, integer_to_list(N)] || N <- Stat], $\s, encoded(Path), $\n];
line(Path, {link, To}) ->
    ["link ", encoded(To), $\s, encoded(Path), $\n].

%% Blanks and line ends separate fields, so a path must not contain them.
encoded(Path) -> uri_string:quote(unicode:characters_to_list(Path), "/").

stat(#file_info{size = Size, mtime = Content, ctime = Change, inode = Inode}) ->
    [Size, Content, Change, Inode].

%%% Checking

%% Reads the records and the time at which they were written.
-spec read(file:filename()) -> {#{file:filename() => entry()}, At :: integer()}.
read(Dir) ->
    File = filename:join(Dir, ?SUMS),
    #file_info{mtime = At} = info(File),
    case whittle_file:whole(File, ?MOST_SUMS) of
        {ok, Text} ->
            try {maps:from_list([entry(binary:split(Line, <<" ">>, [global]))
                                 || Line <- binary:split(Text, <<"\n">>, [global, trim])]), At}
            catch
                error:_ -> changed(Dir, ?SUMS, ?DAMAGED)
            end;
        {error, Reason} when Reason =:= eftype; Reason =:= efbig -> changed(Dir, ?SUMS, ?DAMAGED);
        {error, Reason} -> fail(Reason, File)
    end.

entry([<<"link">>, To, Path]) -> {decoded(Path), {link, decoded(To)}};
entry([Sum, Size, Content, Change, Inode, Path]) ->
    {decoded(Path), {file, binary_to_list(Sum),
                     [binary_to_integer(N) || N <- [Size, Content, Change, Inode]]}}.

decoded(Path) -> unicode:characters_to_list(uri_string:unquote(Path)).

same(Dir, Path, #file_info{type = regular} = Info, {file, Sum, Stat}, InAnyCase) ->
    (not InAnyCase andalso stat(Info) =:= Stat)
        orelse sum(filename:join(Dir, Path)) =:= Sum
        orelse changed(Dir, Path, ?CHANGED);
same(Dir, Path, #file_info{type = symlink}, {link, To}, _) ->
    target(filename:join(Dir, Path)) =:= To orelse changed(Dir, Path, ?CHANGED);
same(Dir, Path, #file_info{}, none, _) ->
    changed(Dir, Path, "was added after Whittle built the directory, so Whittle does not use it");
same(Dir, Path, #file_info{}, _, _) ->
    changed(Dir, Path, ?CHANGED).

%% A link may lead to a place where others can write.
no_link(Dir, Path, #file_info{type = symlink}) ->
    changed(Dir, Path, "is a symbolic link, so Whittle does not use it");
no_link(_, _, #file_info{}) -> ok.

why(enoent, ?SUMS) -> "is missing, so Whittle cannot check the directory";
why(Reason, _) -> ["cannot be read (", file:format_error(Reason), $)].

%%% Files

%% Lists everything below a directory, with relative paths.
below(Dir) -> below(Dir, "").

below(Dir, Above) ->
    case file:list_dir(filename:join(Dir, Above)) of
        {ok, Names} ->
            lists:append([case info(filename:join(Dir, Path)) of
                              #file_info{type = directory} = Info ->
                                  [{Path, Info} | below(Dir, Path)];
                              #file_info{} = Info ->
                                  [{Path, Info}]
                          end || Name <- Names, Path <- [joined(Above, Name)]]);
        {error, Reason} ->
            fail(Reason, filename:join(Dir, Above))
    end.

joined("", Name) -> Name;
joined(Above, Name) -> Above ++ "/" ++ Name.

info(File) ->
    case file:read_link_info(File, [raw, {time, posix}]) of
        {ok, Info} -> Info;
        {error, Reason} -> fail(Reason, File)
    end.

target(File) ->
    case file:read_link_all(File) of
        {ok, To} -> To;
        {error, Reason} -> fail(Reason, File)
    end.

sum(File) ->
    case whittle_digest:file(File) of
        {ok, Sum} -> Sum;
        {error, Reason} -> fail(Reason, File)
    end.

%%% Ownership

safe(File, #file_info{uid = Uid}, Dir, User) when Uid =/= User, Uid =/= 0 ->
    throw({?MODULE, {open_artifact, #{file => File, dir => Dir, why => {owner, Uid}}}});
safe(File, #file_info{type = Type, mode = Mode}, Dir, _)
  when Type =/= symlink, Mode band ?OTHERS_WRITE =/= 0 ->
    throw({?MODULE, {open_artifact, #{file => File, dir => Dir, why => writable}}});
safe(_, #file_info{}, _, _) ->
    ok.

%% OTP has no function that returns the user's number.
user() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            {ok, #file_info{uid = User}} = file:read_file_info("/proc/self"),
            ok = persistent_term:put(?MODULE, User),
            User;
        User ->
            User
    end.

-spec changed(file:filename(), file:filename(), string()) -> no_return().
changed(Dir, Path, Why) ->
    throw({?MODULE, {changed_artifact, #{file => filename:join(Dir, Path), dir => Dir,
                                         why => Why}}}).

-spec fail(atom(), file:filename()) -> no_return().
fail(Reason, File) -> throw({?MODULE, {Reason, File}}).
