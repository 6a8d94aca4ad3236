%% @hidden Reads what is still source: an application's directory, which is
%% compiled here if it has to be, and a rebar3 project, which rebar3 compiles.
%%
%% Nothing is written into the user's tree but rebar3's own `_build'.
-module(whittle_read_source).

-import(whittle_links, [identity/1]).

-export([application/2, project/1]).

%% @doc An application's directory. It is compiled into a directory of our own
%% where `ebin' has no `.app' file or is older than a source file.
-spec application(file:filename(), whittle_otp_lib:otp_lib()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
application(Dir, Otp) ->
    case is_compiled(Dir) of
        true -> one(whittle_read_app:read(Dir, context(Dir)));
        false ->
            one(whittle_compile:with_erlc(
                  Dir, Otp, fun(Ebin) -> read_compiled(Dir, Ebin) end))
    end.

%% @doc A rebar3 project: its applications and what it depends on, as rebar3
%% compiled them.
-spec project(file:filename()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
project(Dir) ->
    case whittle_compile:with_rebar3(Dir) of
        {ok, Lib} ->
            Own = own_apps(Dir),
            case read_all(built(Dir, Lib), #{kind => input, root => Dir}, [], []) of
                {ok, Apps, Notes} -> project(Dir, Own ++ linked(Dir, Lib), Apps, Notes);
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

%% Internal

%% The directories of what rebar3 has built. What lies in `_checkouts' it builds apart,
%% and takes before a dependency of the same name.
built(Dir, Lib) ->
    Apart = filename:join(filename:dirname(Lib), "checkouts"),
    Checkouts = [filename:join(Apart, Name)
                 || App <- apps_in(Dir, ["_checkouts/*", "_checkouts/*/{apps,lib}/*"]),
                    Name <- [atom_to_list(App)], filelib:is_dir(filename:join(Apart, Name))],
    Hidden = [filename:basename(Checkout) || Checkout <- Checkouts],
    lists:sort(Checkouts ++ [below(Found) || Found <- filelib:wildcard(filename:join(Lib, "*")),
                                             not lists:member(filename:basename(Found), Hidden)]).

%% Where an application's `ebin' is: of a dependency that is a part of a repository
%% (git_subdir), rebar3 may have the whole, and compile it where it lies there.
below(Dir) ->
    App = filename:join("ebin", filename:basename(Dir) ++ ".app"),
    Deeper = [filename:dirname(filename:dirname(File))
              || not filelib:is_dir(filename:join(Dir, "ebin")),
                 Place <- ["*", "*/*", "*/*/*"],
                 File <- filelib:wildcard(filename:join([Dir, Place, App]))],
    case Deeper of
        [First | _] -> First;
        [] -> Dir
    end.

%% A script can name other places for the project's own applications; wherever one lies,
%% what rebar3 builds of it links back to there, and a dependency's does not.
linked(Dir, Lib) ->
    [list_to_atom(filename:basename(filename:dirname(Link)))
     || Link <- filelib:wildcard(filename:join(Lib, "*/src")),
        {ok, _} <- [file:read_link(Link)],
        leads_below(Link, identity(Dir), identity(Lib))].

%% Whether a directory is below the one and not below the other.
leads_below(Place, Dir, Other) ->
    Above = filename:join(Place, ".."),
    case {identity(Place), identity(Above)} of
        {Same, Same} -> false;
        {Dir, _} -> true;
        {Other, _} -> false;
        _ -> leads_below(Above, Dir, Other)
    end.

project(Dir, Own, Apps, Notes) ->
    case [Name || #{name := Name} <- Apps, lists:member(Name, Own)] of
        [] -> {error, {no_application, Dir}};
        Roots ->
            {Name, Vsn} =
                case Roots of
                    [Root] -> {atom_to_list(Root), vsn(Root, Apps)};
                    _ -> release(Dir)
                end,
            {ok, #{name => Name, vsn => Vsn, apps => Apps, roots => Roots,
                   starts => all, notes => Notes ++ unused_configuration(Dir)}}
    end.

%% Several applications are called as their release is, or else as the directory.
release(Dir) ->
    Relx = proplists:get_value(relx, whittle_compile:rebar_config(Dir), []),
    case [{atom_to_list(Name), Vsn}
          || {release, {Name, Vsn}, _} <- Relx, is_atom(Name), io_lib:char_list(Vsn)] of
        [Only] -> Only;
        _ -> {real_name(filename:split(filename:absname(Dir)), []), "0"}
    end.

%% The last part of a path, which may end in `.' or `..'.
real_name(["." | Rest], Above) -> real_name(Rest, Above);
real_name([".." | Rest], [_, _ | _] = Above) -> real_name(Rest, tl(Above));
real_name([Part | Rest], Above) -> real_name(Rest, [Part | Above]);
real_name([], [Last | _]) -> Last.

%% relx puts these into a release; a project's applications have none.
unused_configuration(Dir) ->
    case [File || File <- ["sys.config", "sys.config.src", "vm.args", "vm.args.src"],
                  filelib:is_regular(filename:join([Dir, "config", File]))] of
        [] -> [];
        Files -> [["config/", lists:join(", config/", Files), " belong to a release: to have"
                   " them packed, run `rebar3 release' and build _build/default/rel/NAME"]]
    end.

vsn(Root, Apps) ->
    [Vsn] = [Vsn || #{name := Name, vsn := Vsn} <- Apps, Name =:= Root],
    Vsn.

one({ok, #{name := Name, vsn := Vsn} = App, Notes}) ->
    {ok, #{name => atom_to_list(Name), vsn => Vsn, apps => [App], roots => [Name],
           starts => all, notes => Notes}};
one({error, _} = Error) ->
    Error.

read_all([Dir | Rest], Context, Apps, Notes) ->
    case whittle_read_app:read(Dir, Context#{made_of => sources(Dir)}) of
        {ok, App, New} -> read_all(Rest, Context, [App | Apps], Notes ++ New);
        %% rebar3 leaves directories of dependencies that are not applications.
        {error, {no_app_file, _}} -> read_all(Rest, Context, Apps, Notes);
        {error, _} = Error -> Error
    end;
read_all([], _, Apps, Notes) ->
    {ok, lists:reverse(Apps), Notes}.

context(Dir) -> #{kind => input, root => whittle_links:root(Dir, Dir)}.

%% What an application's directory is compiled from.
sources(Dir) ->
    [<<"src/", Path/binary>>
     || {Path, _, _} <- whittle_read_app:tree(filename:join(Dir, "src")),
        lists:member(filename:extension(Path), [<<".erl">>, <<".hrl">>, <<".xrl">>, <<".yrl">>,
                                                <<".asn1">>, <<".mib">>, <<".src">>,
                                                <<".script">>])].

%% The applications of the project itself, where rebar3 looks for them.
own_apps(Dir) ->
    apps_in(Dir, proplists:get_value(project_app_dirs, whittle_compile:rebar_config(Dir),
                                     ["apps/*", "lib/*", "."])).

apps_in(Dir, Places) ->
    lists:usort([list_to_atom(hd(string:split(filename:basename(File), ".")))
                 || Place <- Places,
                    Pattern <- ["src/*.app.src", "src/*.app.src.script", "ebin/*.app"],
                    File <- filelib:wildcard(filename:join([Dir, Place, Pattern]))]).

is_compiled(Dir) ->
    case filelib:wildcard(filename:join(Dir, "ebin/*.app")) of
        [] -> false;
        [App | _] ->
            Beams = filelib:wildcard(filename:join(Dir, "ebin/*.beam")),
            Sources = filelib:wildcard(filename:join(Dir, "src/**/*.{erl,hrl,xrl,yrl,app.src}"))
                ++ filelib:wildcard(filename:join(Dir, "include/**/*.hrl")),
            Oldest = lists:min([filelib:last_modified(File) || File <- [App | Beams]]),
            lists:all(fun(File) -> filelib:last_modified(File) =< Oldest end, Sources)
    end.

read_compiled(Dir, Ebin) ->
    Data = [File || {Path, _, _} = File <- whittle_read_app:files(Dir),
                    not lists:prefix("ebin/", binary_to_list(Path))],
    Code = [File || {<<"ebin/", _/binary>>, _, _} = File
                        <- whittle_read_app:files(filename:dirname(Ebin))],
    whittle_read_app:read(Dir, Code ++ Data, (context(Dir))#{made_of => sources(Dir)}).
