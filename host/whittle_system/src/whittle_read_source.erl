%% @hidden Reads source: an application's directory, or a rebar3 project. It compiles the
%% application if necessary, and rebar3 compiles the project.
%%
%% Nothing in the user's tree changes except rebar3's own `_build'.
-module(whittle_read_source).

-import(whittle_links, [identity/1]).

-export([check/2, application/3, project/2]).

%% @doc Checks an application's directory as {@link application/3} does, as far as this is possible
%% without an OTP.
-spec check(file:filename(), whittle_read:how()) -> ok | {error, whittle_system:error()}.
check(Dir, #{libs := Libs} = How) ->
    Checked = caught(fun() ->
                             read_application(Dir, fun(_) -> whittle_compile:check(Dir, Libs) end,
                                              How)
                     end),
    case Checked of
        {error, _} = Error -> Error;
        _ -> ok
    end.

%% @doc Reads an application's directory. It compiles the application into a temporary directory
%% if `ebin' has no `.app' file or is older than a source file. With `refuse' it enters no directory
%% behind a link out of the input.
-spec application(file:filename(), whittle_otp_lib:otp_lib(), whittle_read:how()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
application(Dir, Otp, #{libs := Libs} = How) ->
    Compile = fun(Context) ->
                      Read = fun(Ebin) -> read_compiled(Dir, Ebin, Context) end,
                      whittle_compile:with_erlc(Dir, Otp, Libs, Read)
              end,
    caught(fun() ->
                   case read_application(Dir, Compile, How) of
                       {ok, App, Notes} -> {ok, one(App, Notes)};
                       {error, _} = Error -> Error
                   end
           end).

%% @doc Reads a rebar3 project: its applications and its dependencies, compiled by rebar3.
-spec project(file:filename(), whittle_read:how()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
project(Dir, How) ->
    caught(fun() -> read_project(Dir, How) end).

%% Internal

caught(Read) ->
    try Read()
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

read_application(Dir, Compile, #{outside_links := Links}) ->
    Context = #{kind => input, root => whittle_links:root(Dir, Dir), outside_links => Links},
    case is_compiled(Dir, Context) of
        true ->
            case whittle_read_app:read(Dir, Context) of
                {ok, App, Notes} -> {ok, App, Notes ++ without_module(Dir, Context)};
                {error, _} = Error -> Error
            end;
        false -> whittle_work:steps([fun(_) -> refuse_links(Dir, Context) end,
                                     fun(_) -> Compile(Context) end])
    end.

read_project(Dir, #{outside_links := Links, libs := Libs, tell := Tell}) ->
    Context = #{kind => input, root => Dir, outside_links => Links},
    Read = fun(Lib) ->
                   Own = own_apps(Dir),
                   case read_all(built(Dir, Lib), Context, [], []) of
                       {ok, Apps, Notes} -> project(Dir, Own ++ linked(Dir, Lib), Apps, Notes);
                       {error, _} = Error -> Error
                   end
           end,
    whittle_work:steps(
      [fun(_) -> no_part_of_otp(Dir) end,
       fun(_) -> whittle_work:steps([fun(_) -> refuse_links(Own, Context) end
                                     || Own <- own_directories(Dir)]) end,
       fun(_) -> whittle_compile:with_rebar3(Dir, {Libs, Context, Tell}, Read) end]).

%% rebar3 takes minutes for an application with the name of one of these parts, and then fails.
no_part_of_otp(Dir) ->
    case [{Name, filename:dirname(filename:dirname(File))}
          || File <- app_files(Dir, own_places(Dir)), Name <- whittle_otp:parts(),
             hd(string:split(filename:basename(File), ".")) =:= atom_to_list(Name)] of
        [] -> ok;
        [First | _] -> {error, {name_of_otp, First}}
    end.

%% Refuses links, and more sources than Whittle reads, before a compiler or the check of the sources
%% follows them.
refuse_links(Dir, Context) ->
    whittle_read_app:refuse_links(Dir, Context#{made_of => sources(Dir, Context)}).

%% Lists the directories that rebar3 has built. rebar3 builds the contents of `_checkouts'
%% separately and prefers them to a dependency of the same name.
built(Dir, Lib) ->
    Apart = filename:join(filename:dirname(Lib), "checkouts"),
    Checkouts = [filename:join(Apart, Name)
                 || Name <- apps_in(Dir, ["_checkouts/*", "_checkouts/*/{apps,lib}/*"]),
                    filelib:is_dir(filename:join(Apart, Name))],
    Hidden = [filename:basename(Checkout) || Checkout <- Checkouts],
    lists:sort(Checkouts ++ [below(Found) || Found <- whittle_file:found("*", Lib),
                                             not lists:member(filename:basename(Found), Hidden)]).

%% Finds the `ebin' of an application. For a dependency that is part of a repository (git_subdir),
%% rebar3 may fetch the whole repository and compile the application in its place.
below(Dir) ->
    App = filename:join("ebin", filename:basename(Dir) ++ ".app"),
    Deeper = [filename:dirname(filename:dirname(File))
              || not filelib:is_dir(filename:join(Dir, "ebin")),
                 Place <- ["*", "*/*", "*/*/*"],
                 File <- whittle_file:found(filename:join(Place, App), Dir)],
    case Deeper of
        [First | _] -> First;
        [] -> Dir
    end.

%% Finds the project's own applications. A script can set other directories for them. The build
%% directory of such an application always links back to its source, and that of a dependency does
%% not.
linked(Dir, Lib) ->
    [filename:basename(filename:dirname(Link))
     || Link <- whittle_file:found("*/src", Lib),
        {ok, _} <- [file:read_link(Link)],
        leads_below(Link, identity(Dir), identity(Lib))].

%% Tells whether a directory is below one directory and not below another.
leads_below(Place, Dir, Other) ->
    Above = filename:join(Place, ".."),
    case {identity(Place), identity(Above)} of
        {Same, Same} -> false;
        {Dir, _} -> true;
        {Other, _} -> false;
        _ -> leads_below(Above, Dir, Other)
    end.

project(Dir, Own, Apps, Notes) ->
    case [Name || #{name := Name} <- Apps, lists:member(atom_to_list(Name), Own)] of
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

%% Names a system of several applications after their release, or else after the directory.
release(Dir) ->
    Relx = proper(proplists:get_value(relx, whittle_compile:rebar_config(Dir), [])),
    case [{atom_to_list(Name), Vsn}
          || {release, {Name, Vsn}, _} <- Relx, is_atom(Name), io_lib:char_list(Vsn)] of
        [Only] -> Only;
        _ -> {real_name(filename:split(filename:absname(Dir)), []), "0"}
    end.

%% Finds the last real part of a path that may end in `.' or `..'.
real_name(["." | Rest], Above) -> real_name(Rest, Above);
real_name([".." | Rest], [_, _ | _] = Above) -> real_name(Rest, tl(Above));
real_name([Part | Rest], Above) -> real_name(Rest, [Part | Above]);
real_name([], [Last | _]) -> Last.

%% Notes unused configuration files: those that the settings of relx name, and those with the usual
%% names. relx puts them into a release, but a project's applications have no such files.
unused_configuration(Dir) ->
    Config = whittle_compile:rebar_config(Dir),
    Usual = [File || Name <- ["sys.config", "sys.config.src", "vm.args", "vm.args.src"],
                     File <- ["config/" ++ Name], filelib:is_regular(filename:join(Dir, File))],
    Others = proper(proplists:get_value(profiles, Config, [])),
    Profiles = [{default, Config} | [Other || {Name, _} = Other <- Others, is_atom(Name)]],
    Named = [{Profile, Files} || {Profile, Settings} <- Profiles,
                                 [_ | _] = Files <- [relx_files(proper(Settings))]],
    case Named ++ [{default, Usual} || Usual =/= []] of
        [] -> [];
        [{Profile, Files} | _] ->
            As = [["as ", atom_to_list(Profile), $\s] || Profile =/= default],
            [[lists:join(", ", lists:uniq(Files ++ Usual)), " belong to a release, and Whittle "
              "does not pack them here: to pack them, run `rebar3 ", As, "release' and build "
              "_build/", atom_to_list(Profile), "/rel/NAME"]]
    end.

relx_files(Settings) ->
    Relx = proper(proplists:get_value(relx, Settings, [])),
    OfReleases = lists:append([proper(Own) || {release, _, _, Own} <- Relx]),
    [filename:join(Parts) || {Key, File} <- Relx ++ OfReleases,
                             lists:member(Key, [sys_config, sys_config_src, vm_args, vm_args_src]),
                             io_lib:char_list(File),
                             [_ | _] = Parts <- [whittle_file:parts(File)]].

vsn(Root, Apps) ->
    [Vsn] = [Vsn || #{name := Name, vsn := Vsn} <- Apps, Name =:= Root],
    Vsn.

one(#{name := Name, vsn := Vsn} = App, Notes) ->
    #{name => atom_to_list(Name), vsn => Vsn, apps => [App], roots => [Name],
      starts => all, notes => Notes}.

read_all([Dir | Rest], Context, Apps, Notes) ->
    case whittle_read_app:read(Dir, Context#{made_of => sources(Dir, Context)}) of
        {ok, App, New} -> read_all(Rest, Context, [App | Apps], Notes ++ New);
        %% rebar3 leaves directories of dependencies that are not applications.
        {error, {no_app_file, _}} -> read_all(Rest, Context, Apps, Notes);
        {error, _} = Error -> Error
    end;
read_all([], _, Apps, Notes) ->
    {ok, lists:reverse(Apps), Notes}.

%% Lists the sources of an application's directory, and the links that the context refuses.
sources(Dir, Context) ->
    [Path || Path <- paths(["src", "asn1", "mibs"], Dir, Context),
             lists:member(filename:extension(Path), [<<".erl">>, <<".hrl">>, <<".xrl">>, <<".yrl">>,
                                                     <<".asn1">>, <<".mib">>, <<".src">>,
                                                     <<".script">>])
                 orelse whittle_links:is_refused(place(Dir, Path), Context)].

%% Lists the files below some directories of a directory. It does not enter links that the context
%% refuses.
paths(Tops, Dir, Context) ->
    [case Path of
         <<>> ->
             _ = [throw({?MODULE, {unreadable, {filename:join(Dir, Top), Reason}}})
                  || {error, {too_many_paths, _} = Reason} <- [Read()]],
             list_to_binary(Top);
         _ -> <<(list_to_binary(Top))/binary, $/, Path/binary>>
     end || Top <- Tops,
            {Path, _, Read} <- whittle_read_app:tree(filename:join(Dir, Top), Context)].

place(Dir, Path) -> filename:join(Dir, unicode:characters_to_list(Path)).

%% Lists the names of the project's own applications in the directories where rebar3 looks for them.
%% They stay text: a project may have many more files than this VM has room for atoms.
own_apps(Dir) -> apps_in(Dir, own_places(Dir)).

own_places(Dir) ->
    [Place || Place <- proper(proplists:get_value(project_app_dirs,
                                                  whittle_compile:rebar_config(Dir),
                                                  ["apps/*", "lib/*", "."])),
              io_lib:char_list(Place)].

%% rebar3 reports a value of another kind.
proper(List) when length(List) >= 0 -> List;
proper(_) -> [].

%% Lists the directories of these applications.
own_directories(Dir) ->
    lists:usort([filename:dirname(filename:dirname(File))
                 || File <- app_files(Dir, own_places(Dir))]).

apps_in(Dir, Places) ->
    lists:usort([hd(string:split(filename:basename(File), "."))
                 || File <- app_files(Dir, Places)]).

app_files(Dir, Places) ->
    [File || Place <- Places,
             Pattern <- ["src/*.app.src", "src/*.app.src.script", "ebin/*.app"],
             File <- whittle_file:found(filename:join(Place, Pattern), Dir)].

%% Notes the sources that have no module in `ebin' although it is newer. The application may have
%% left them out.
without_module(Dir, Context) ->
    Sources = [unicode:characters_to_list(Path)
               || Path <- paths(["src"], Dir, Context),
                  lists:member(filename:extension(Path), [<<".erl">>, <<".xrl">>, <<".yrl">>]),
                  not filelib:is_regular(filename:join([Dir, "ebin", module_file(Path)]))],
    [[Dir, ": these sources have no module in ebin: ", lists:join(", ", Sources), "; if the "
      "program needs them, compile the application, or remove ebin: then Whittle compiles the "
      "application"]
     || Sources =/= []].

module_file(Path) -> <<(filename:basename(Path, filename:extension(Path)))/binary, ".beam">>.

is_compiled(Dir, Context) ->
    case whittle_file:found("ebin/*.app", Dir) of
        [] -> false;
        [App | _] ->
            Beams = whittle_file:found("ebin/*.beam", Dir),
            Sources = [place(Dir, Path)
                       || Path <- paths(["src", "include"], Dir, Context),
                          lists:member(filename:extension(Path), [<<".erl">>, <<".hrl">>,
                                                                  <<".xrl">>, <<".yrl">>,
                                                                  <<".src">>])],
            Oldest = lists:min([filelib:last_modified(File) || File <- [App | Beams]]),
            lists:all(fun(File) -> filelib:last_modified(File) =< Oldest end, Sources)
    end.

read_compiled(Dir, Ebin, Context) ->
    Data = [File || {Path, _, _} = File <- whittle_read_app:files(Dir, Context),
                    not lists:prefix("ebin/", binary_to_list(Path))],
    Code = [File || {<<"ebin/", _/binary>>, _, _} = File
                        <- whittle_read_app:files(filename:dirname(Ebin), #{kind => input})],
    whittle_read_app:read(Dir, Code ++ Data, Context#{made_of => sources(Dir, Context)}).
