%% @hidden Checks that a compiler can read the sources of an input to their end.
%%
%% `erlc' and `rebar3' wait forever for a pipe, and a device makes them fill the memory. They are
%% other programs, so the check runs before they start.
-module(whittle_compile_check).

-include_lib("kernel/include/file.hrl").

-export([check_application/2, check_project/3, check_includes/3]).

%% The directories where a compiler may read every file.
-define(SOURCES, ["src", "include", "c_src", "asn1", "mibs"]).

%% The directories where nothing is compiled.
-define(SKIPPED, [".git", ".hg", "node_modules", "priv", "rel", "releases", "log", "logs"]).

%% The files that rebar3 reads in any directory.
-define(EXTENSIONS, [".erl", ".hrl", ".xrl", ".yrl", ".asn1", ".mib", ".src", ".script", ".app",
                     ".beam"]).

%% The directories where rebar3 makes links to applications or follows them.
-define(LINKED, ["_checkouts", "checkouts", "apps", "lib"]).

-type checked() :: ok | {error, whittle_system:error()}.

%% @doc Checks the sources of an application that `erlc' compiles, and the files that they include.
%% `Libs' are the directories of the libraries.
-spec check_application(file:filename(), [file:filename()]) -> checked().
check_application(Dir, Libs) ->
    Sources = [filename:join(Dir, Name) || Name <- ["src", "include"]],
    whittle_work:steps(
      [fun(_) -> checked([{Source, true} || Source <- Sources], #{kind => input}) end,
       fun(_) ->
               check_includes(whittle_file:found("src/**/*.{erl,xrl,yrl}", Dir),
                              lists:reverse([filename:dirname(Dir) | Sources]), Libs)
       end]).

%% @doc Checks the files that sources include. The compiler searches the given directories.
-spec check_includes([file:filename()], [file:filename()], [file:filename()]) -> checked().
check_includes(Files, Dirs, Libs) ->
    Apps = offered(Libs),
    first([whittle_includes:check(File, Dirs, Apps) || File <- Files]).

%% @doc Checks the sources of a rebar3 project, with its configuration and its dependencies, and the
%% files that the sources include. It follows no link that the context refuses. `Includes' are the
%% directories that the project's options name, and `Libs' those of the libraries.
-spec check_project(file:filename(), {Includes :: [file:filename()], Libs :: [file:filename()]},
                    whittle_read_app:context()) -> checked().
check_project(Dir, {Includes, Libs}, Context) ->
    case visited([{Dir, false}], Context) of
        {ok, Seen} ->
            Files = [File || {file, File} <- lists:sort(maps:keys(Seen))],
            %% An application includes the same files in `_build' and where its source is.
            Own = maps:from_list([{Name, filename:dirname(filename:dirname(File))}
                                  || File <- Files, [Name, "app" | _]
                                         <- [string:split(filename:basename(File), ".", all)]]),
            Apps = maps:merge(offered(Libs), Own),
            first([whittle_includes:check(File, searched(File, Dir, Includes), Apps)
                   || File <- Files,
                      lists:member(filename:extension(File), [".erl", ".xrl", ".yrl"])]);
        {error, _} = Error -> Error
    end.

%% Internal

offered(Libs) ->
    maps:from_list([{atom_to_list(App), Dir}
                    || {App, Dir} <- maps:to_list(whittle_device:offered(Libs))]).

%% Lists the directories that rebar3 may give to the compiler for a source: those of its application
%% and of the project. Each directory above the source counts, because rebar3 finds applications at
%% any depth.
searched(File, Dir, Includes) ->
    lists:append([[filename:join(Above, Name) || Name <- ["include", "src" | Includes]] ++ [Above]
                  || Above <- above(filename:dirname(File), Dir)]).

above(Below, Dir) ->
    Names = whittle_file:below(Below, Dir),
    [filename:join([Dir | lists:sublist(Names, Count)])
     || Count <- lists:seq(length(Names), 0, -1)].

first(Checked) ->
    case [Error || {error, Error} <- Checked] of
        [] -> ok;
        [First | _] -> {error, {unreadable, First}}
    end.

%% Checks directories. `All' tells whether every file of the directory counts.
checked(Dirs, Context) ->
    case visited(Dirs, Context) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% Checks directories, and returns the directories and files there.
visited(Dirs, Context) ->
    try
        {ok, lists:foldl(fun({Dir, All}, Seen) -> file(Dir, All, Seen, Context) end, #{}, Dirs)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Visits each directory only once, because a link may lead back to a directory above it.
file(File, All, Seen, Context) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = directory, major_device = Device, inode = Inode}} ->
            case Seen of
                #{{Device, Inode, All} := _} -> Seen;
                #{} -> directory(File, All, Seen#{{Device, Inode, All} => []}, Context)
            end;
        {ok, _} when All ->
            _ = [throw({?MODULE, {unreadable, {File, eftype}}})
                 || {error, eftype} <- [whittle_file:check(File)]],
            Seen#{{file, File} => []};
        %% The compiler reports missing files.
        _ ->
            Seen
    end.

directory(Dir, All, Seen, Context) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            lists:foldl(fun(Name, Before) ->
                                entry(filename:join(Dir, Name), Name, All, Before, Context)
                        end, Seen, lists:sort(Names));
        {error, _} -> Seen
    end.

entry(File, _, true, Seen, Context) ->
    entered(File, true, Seen, Context);
entry(File, Name, false, Seen, Context) ->
    case lists:member(Name, ?SKIPPED) of
        true -> Seen;
        false ->
            All = lists:member(Name, ?SOURCES)
                orelse lists:member(filename:extension(Name), ?EXTENSIONS)
                orelse lists:prefix("rebar.", Name),
            case All orelse is_followed(File) of
                true -> entered(File, All, Seen, Context);
                false -> Seen
            end
    end.

entered(File, All, Seen, Context) ->
    case whittle_links:is_refused(File, Context) of
        true -> Seen;
        false -> file(File, All, Seen, Context)
    end.

%% Tells whether to follow a link. A link to a directory may lead anywhere.
is_followed(File) ->
    case file:read_link(File) of
        {ok, _} -> lists:member(filename:basename(filename:dirname(File)), ?LINKED);
        {error, _} -> true
    end.
