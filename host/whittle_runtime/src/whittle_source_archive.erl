%% @hidden Checks a tarball of OTP's source before anything unpacks it.
%%
%% A user or a scheduled job names the tarball, and nobody has looked into it. So this module lists
%% it with tar(1), and stops at the first member that a source of OTP does not have. Listing a
%% tarball also finds out whether its end is missing.
-module(whittle_source_archive).

-export([file/1, read/1, extract/3]).
%% Pure function, exported for tests
-export([member/1]).

-include_lib("kernel/include/file.hrl").

-export_type([described/0]).

-type described() ::
        #{top := string(),              % the directory in the tarball that holds all members
          vsn := string(),              % "29.1.1", from its file OTP_VERSION
          release := string()}.         % "29"

-type member() :: #{type := char(), size := non_neg_integer(), name := string(),
                    link => string()}.  % both are escaped like strings in C

%% Whittle has no patches for an older release, and OTP 25 runs the host tools.
-define(OLDEST, 25).

%% The source of OTP 29.1.1 has 72 MB in gzip, 340 MB unpacked, and 12,000 members.
-define(MOST_PACKED, 1 bsl 30).
-define(MOST_BYTES, 1 bsl 32).
-define(MOST_MEMBERS, 200_000).
-define(LONGEST_LINE, 1 bsl 16).
-define(LONGEST_VERSION, 1024).

%% @doc Checks that a path is a file of a possible size. It does not read the file.
-spec file(file:filename()) -> ok | {error, whittle_runtime:reason()}.
file(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = directory}} -> bad(File, "is a directory");
        {ok, #file_info{type = regular, size = Size}} when Size > ?MOST_PACKED ->
            bad(File, "has more than 1 GiB");
        {ok, #file_info{type = regular}} ->
            case whittle_file:check(File) of
                ok -> readable(File);
                {error, _} -> bad(File, "is no regular file")
            end;
        {ok, _} -> bad(File, "is no regular file");
        {error, Reason} -> {error, {unreadable, #{file => File, reason => Reason}}}
    end.

%% The open of any other type could wait forever: a FIFO waits for a writer.
readable(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Handle} -> file:close(Handle);
        {error, Reason} -> {error, {unreadable, #{file => File, reason => Reason}}}
    end.

%% @doc Lists a tarball and reads its version. It unpacks nothing.
%%
%% Errors: `unreadable', `bad_archive' (with a reason for a person), `old_otp', `no_tool'.
-spec read(file:filename()) -> {ok, described()} | {error, whittle_runtime:reason()}.
read(File) ->
    whittle_work:steps([fun(_) -> file(File) end,
                        fun(_) -> tar() end,
                        fun(Tar) -> listed(Tar, File) end,
                        fun(Top) -> version(Top, File) end]).

%% @doc Unpacks some files of a tarball into a directory, without the directory at the top. It
%% leaves out those that the tarball lacks.
%%
%% Errors: `bad_archive' with the words of tar(1), for example if the disk is full.
-spec extract(file:filename(), [string()], file:filename()) ->
          ok | {error, whittle_runtime:reason()}.
extract(File, Members, Dir) ->
    case whittle_program:capture("tar", ["-xf", File, "-C", Dir, "--strip-components=1",
                                         "--no-same-owner", "--no-same-permissions", "--"
                                         | Members]) of
        {ok, _} -> ok;
        {error, {status, _, Output}} ->
            Expected = "(: Not found in archive|: Exiting with failure status .*)$",
            case [Line || Line <- string:lexemes(Output, "\n"),
                          re:run(Line, Expected, [{capture, none}]) =:= nomatch] of
                [] -> ok;
                [First | _] -> bad(File, ["cannot be unpacked (", printable(First), ")"])
            end
    end.

%% Internal functions: tar

tar() ->
    case os:find_executable("tar") of
        false -> {error, {no_tool, #{tool => "tar", package => "tar"}}};
        Path -> {ok, Path}
    end.

bad(File, Why) -> {error, {bad_archive, #{file => File, why => lists:flatten(Why)}}}.

%% Internal functions: the list

listed(Tar, File) ->
    Arguments = ["--list", "--verbose", "--numeric-owner", "--quoting-style=c", "--file", File],
    case whittle_program:start(Tar, Arguments, #{env => [{"LC_ALL", "C"}, {"TAR_OPTIONS", false}]})
    of
        {ok, Started} ->
            Result = lines(Started, <<>>, #{members => 0, bytes => 0, version => false,
                                            top => none, links => #{}, said => ""}),
            ok = whittle_program:stop(Started),
            case Result of
                {ok, #{top := Top}} when Top =/= none -> {ok, Top};
                {ok, _} -> bad(File, "is an empty tarball");
                {error, Why} -> bad(File, Why)
            end;
        {error, {status, _, Output}} ->
            bad(File, ["cannot be listed: ", string:trim(Output)])
    end.

lines(Started, Before, Seen) ->
    case whittle_program:next(Started, infinity) of
        {output, Bytes} ->
            Parts = binary:split(<<Before/binary, Bytes/binary>>, <<"\n">>, [global]),
            {Lines, [Rest]} = lists:split(length(Parts) - 1, Parts),
            case seen(Lines, Seen) of
                {ok, _} when byte_size(Rest) > ?LONGEST_LINE ->
                    {error, "has a member with a name of more than 64 KiB"};
                {ok, Now} -> lines(Started, Rest, Now);
                {error, _} = Error -> Error
            end;
        {ended, 0} -> {ok, Seen};
        {ended, _} ->
            #{members := Members, said := Said} = Seen,
            {error, [case Members of
                         0 -> "is no tarball";
                         _ -> io_lib:format("is damaged or cut off after ~b members", [Members])
                     end, case Said of "" -> ""; _ -> [" (", Said, ")"] end]}
    end.

seen([], Seen) -> {ok, Seen};
seen([Line | Lines], #{members := Members, bytes := Bytes} = Seen) ->
    case member(Line) of
        {ok, #{size := Size} = Member} ->
            case placed(Member, Seen) of
                {ok, _, _} when Members >= ?MOST_MEMBERS ->
                    {error, io_lib:format("has more than ~b members", [?MOST_MEMBERS])};
                {ok, _, _} when Bytes + Size > ?MOST_BYTES ->
                    {error, "has more than 4 GiB when it is unpacked"};
                {ok, [_, "OTP_VERSION"], _} when Size > ?LONGEST_VERSION ->
                    {error, "has a file OTP_VERSION that holds no version of OTP"};
                {ok, [_, "OTP_VERSION"], _} when map_get(version, Seen) ->
                    {error, "has two files OTP_VERSION: get the tarball from its publisher again"};
                {ok, [First | Below], Links} ->
                    #{version := Version} = Seen,
                    seen(Lines, Seen#{members := Members + 1, bytes := Bytes + Size, top := First,
                                      links := Links,
                                      version := Version orelse Below =:= ["OTP_VERSION"]});
                {error, _} = Error -> Error
            end;
        unknown ->
            {error, ["contains a member that cannot be checked: ",
                     string:slice(printable(Line), 0, 120)]};
        none ->
            %% tar's own words, or those of the program that decompresses.
            Said = case Seen of
                       #{said := ""} -> string:slice(printable(Line), 0, 120);
                       #{said := First} -> First
                   end,
            seen(Lines, Seen#{said := Said})
    end.

printable(Bytes) -> lists:flatten(whittle_file_name:printable(Bytes)).

%% @doc Reads a line of `tar --list --verbose --quoting-style=c'. The result is `unknown' for a
%% member that this function cannot read, and `none' for a message of tar. For a time that is no
%% date, tar prints one number.
-spec member(binary()) -> {ok, member()} | unknown | none.
member(Line) ->
    Quoted = "\"((?:[^\"\\\\]|\\\\.)*)\"",
    Mode = "^([-a-zA-Z])[-rwxsStT]{9}",
    Pattern = Mode ++ "\\S? +\\S+ +(\\d+)(?:,\\d+)? [^\\s\"]+(?: [^\\s\"]+)? " ++ Quoted
        ++ "(?: (?:->|link to) " ++ Quoted ++ ")?$",
    case re:run(Line, Pattern, [{capture, all_but_first, list}]) of
        {match, [[Type], Size, Name | Link]} ->
            {ok, maps:merge(#{type => Type, size => list_to_integer(Size), name => Name},
                            maps:from_list([{link, To} || To <- Link]))};
        nomatch ->
            case re:run(Line, Mode, [{capture, none}]) of
                match -> unknown;
                nomatch -> none
            end
    end.

%% All members lie in one directory, and no name or link leads out of it. No member lies below a
%% link, so each path is what it seems to be. Returns the parts of the name and all links so far.
placed(#{type := Type, name := Name} = Member, #{top := Top, links := Links}) ->
    %% `a//./b' is the same path as `a/b'.
    Parts = [Part || Part <- string:split(Name, "/", all), Part =/= "", Part =/= "."],
    {First, Below} = case Parts of
                         [Part | More] -> {Part, More};
                         [] -> {"..", []}
                     end,
    Leads = leads(Member, Parts),
    if
        hd(Name) =:= $/; First =:= ".." ->
            {error, ["contains ", Name, ", which lies outside of its directory"]};
        Top =/= none, First =/= Top ->
            {error, ["holds two directories at its top: ", Top, " and ", First]};
        true ->
            case {lists:member("..", Below), lists:member(Type, "-dlh"), Leads} of
                {true, _, _} ->
                    {error, ["contains ", Name, ", which may lie outside of its directory"]};
                {_, false, _} ->
                    {error, ["contains ", Name, ", which is neither a file, a directory nor a "
                             "link"]};
                {_, _, outside} ->
                    {error, ["contains the link ", Name, ", which leads out of its directory to ",
                             maps:get(link, Member)]};
                _ when Below =:= [], Type =/= $d ->
                    {error, ["contains the file ", Name, " at its top, where a source of OTP has "
                             "only one directory"]};
                _ -> unless_below_link(Name, Parts, Member, Links)
            end
    end.

unless_below_link(Name, Parts, Member, Links) ->
    Above = [lists:sublist(Parts, Length) || Length <- lists:seq(1, length(Parts) - 1)],
    case lists:any(fun(Path) -> is_map_key(Path, Links) end, Above) of
        true -> {error, ["contains ", Name, ", which lies below a link"]};
        false when is_map_key(link, Member) -> {ok, Parts, Links#{Parts => true}};
        false -> {ok, Parts, Links}
    end.

%% The target of a symbolic link begins at the link; that of a hard link at the top.
leads(#{type := $l, link := [$/ | _]}, _) -> outside;
leads(#{type := $l, link := To}, Parts) ->
    climbs(string:split(To, "/", all), length(Parts) - 2);
leads(#{type := $h, link := To}, [Top | _]) ->
    case string:split(To, "/", all) of
        [Top | Below] -> climbs(Below, 0);
        _ -> outside
    end;
leads(_, _) -> inside.

%% Only the first parts of a target may be `..': behind a name that is a link itself, `..' leads
%% anywhere.
climbs(_, Depth) when Depth < 0 -> outside;
climbs([".." | Parts], Depth) -> climbs(Parts, Depth - 1);
climbs([Same | Parts], Depth) when Same =:= "."; Same =:= "" -> climbs(Parts, Depth);
climbs(Parts, _) ->
    case lists:member("..", Parts) of
        true -> outside;
        false -> inside
    end.

%% Internal functions: the version

version(Top, File) ->
    case whittle_program:capture("tar", ["-xOf", File, "--occurrence=1", "--",
                                         Top ++ "/OTP_VERSION"]) of
        {ok, Text} ->
            Vsn = string:trim(Text),
            case re:run(Vsn, "^([0-9]{1,4})(?:[.-][0-9A-Za-z.-]{1,40})?$",
                        [{capture, all_but_first, list}]) of
                {match, [Release]} -> new_enough(Top, Vsn, Release, File);
                nomatch -> bad(File, "has a file OTP_VERSION that holds no version of OTP")
            end;
        {error, _} -> bad(File, ["lacks the file ", Top, "/OTP_VERSION"])
    end.

new_enough(Top, Vsn, Release, File) ->
    case list_to_integer(Release) >= ?OLDEST of
        true -> {ok, #{top => Top, vsn => Vsn, release => Release}};
        false -> {error, {old_otp, #{file => File, vsn => Vsn,
                                     oldest => integer_to_list(?OLDEST)}}}
    end.
