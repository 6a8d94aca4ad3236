%% @doc Tests links that lead out of an input. The build reports each one, or refuses it on
%% request.
-module(whittle_links_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([applications/1, unreadable_targets/1, releases/1, sources/1, source_directories/1,
         libraries/1]).

all() -> [applications, unreadable_targets, releases, sources, source_directories, libraries].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% A link brings in its target from any place, so the build reports or refuses it.
applications(Config) ->
    Dir = made:app(in("input/app", Config), app, [], [{app, "-module(app)."}]),
    made:file(in("elsewhere/secret", Config), "secret"),
    made:file(in("elsewhere/further", Config), "further"),
    made:file(filename:join(Dir, "priv/own"), "own"),
    Link = fun(To, Path) ->
                   File = filename:join(Dir, Path),
                   ok = filelib:ensure_dir(File),
                   ok = file:make_symlink(To, File)
           end,
    Notes = fun() ->
                    {ok, System} = whittle_read:read(Dir, staged:options()),
                    [#{notes := Said}] = whittle_system:ledger(System),
                    [Note || Note <- Said, binary:match(Note, <<"link">>) =/= nomatch]
            end,
    Refuse = (staged:options())#{outside_links => refuse},
    Link("own", "priv/inside"),
    Link("../priv/inside", "priv/inside2"),
    ?assertEqual([], Notes()),
    {ok, _} = whittle_read:read(Dir, Refuse),
    %% The links lead through another link, to a file, and to a directory with a link of its own.
    Link("../../../elsewhere/secret", "priv/s"),
    Link("s", "priv/t"),
    Link(in("elsewhere", Config), "include"),
    ok = file:make_symlink("further", in("elsewhere/back", Config)),
    ok = file:make_symlink("/etc/hostname", in("elsewhere/out", Config)),
    Leads = fun(Path, To) ->
                    iolist_to_binary(["application app: the link ", Path, " points outside "
                                                                          "the input,"
                                      " to ", To, ": the output contains a copy of the target"])
            end,
    ?assertEqual([Leads("include", in("elsewhere", Config)),
                  Leads("include/out", "/etc/hostname"),
                  Leads("priv/s", "../../../elsewhere/secret"), Leads("priv/t", "s")],
                 Notes()),
    {error, {outside_links, _} = Error} = whittle_read:read(Dir, Refuse),
    Line = unicode:characters_to_binary(whittle_system:format_error(Error)),
    ?assertMatch({_, _}, binary:match(Line, <<"application app: priv/t to s): replace them with "
                                              "files">>)),
    ?assertEqual(nomatch, binary:match(Line, <<"\n">>)),
    %% In a release this includes its own files and an application whose whole directory is
    %% elsewhere.
    Release = in("rel", Config),
    release(Release),
    made:app(in("build/app", Config), app, [], []),
    made:file(in("build/app/priv/own", Config), ""),
    ok = file:make_symlink("/etc/hostname", in("build/app/priv/out", Config)),
    ok = file:make_dir(filename:join(Release, "lib")),
    ok = file:make_symlink("../../build/app", filename:join(Release, "lib/app-1")),
    made:file(in("config/sys.config", Config), "[]."),
    ok = file:make_symlink("../../../config/sys.config",
                           filename:join(Release, "releases/1/sys.config")),
    {error, {outside_links, Links}} = whittle_read:read(Release, Refuse),
    ?assertEqual(["the release: releases/1/sys.config", "application app: ",
                  "application app: priv/out"],
                 [lists:flatten([Whose, ": ", unicode:characters_to_list(Path)])
                  || {Whose, Path, _} <- Links]),
    Refused = iolist_to_binary(whittle_system:format_error({outside_links, Links})),
    ?assertMatch({_, _}, binary:match(Refused, <<", application app itself is a link to "
                                                "../../build/app, ">>)),
    {ok, Noted} = whittle_read:read(Release, staged:options()),
    [#{notes := Words}] = whittle_system:ledger(Noted),
    ?assert(lists:member(<<"application app: its directory is a link and points outside the input, "
                           "to ../../build/app: the output contains a copy of the "
                           "target">>, Words)).

%% The error names the link of the input, and not only a file that is not the user's. A build that
%% refuses such links does not enter the target.
unreadable_targets(Config) ->
    Dir = made:app(in("app", Config), app, [], [{app, "-module(app)."}]),
    ok = filelib:ensure_path(in("elsewhere/deep", Config)),
    ok = file:make_symlink("gone", in("elsewhere/deep/dangling", Config)),
    ok = file:make_symlink("../elsewhere", filename:join(Dir, "priv")),
    Says = fun() ->
                   {error, Error} = whittle_read:read(Dir, staged:options()),
                   unicode:characters_to_binary(whittle_system:format_error(Error))
           end,
    Named = fun(Link, To, File) ->
                    unicode:characters_to_binary(
                      [filename:join(Dir, Link), " is a symbolic link out of the input, to ", To,
                       ", and ", filename:join(Dir, File), " behind it is a link without a target: "
                       "replace the link with the files that the program needs, or remove the "
                       "link"])
            end,
    ?assertEqual(Named("priv", "../elsewhere", "priv/deep/dangling"), Says()),
    %% Other ways to write the directory make no difference.
    [begin
         {error, Same} = whittle_read:read(Dir ++ End, staged:options()),
         ?assertEqual(Named("priv", "../elsewhere", "priv/deep/dangling"),
                      unicode:characters_to_binary(whittle_system:format_error(Same)))
     end || End <- ["/", "/.", "/./"]],
    ?assertEqual([{"application app", <<"priv">>, "../elsewhere"}], links(Dir)),
    %% A link below a directory of the input.
    ok = file:delete(filename:join(Dir, "priv")),
    ok = file:make_dir(filename:join(Dir, "priv")),
    ok = file:make_symlink("../../elsewhere/deep", filename:join(Dir, "priv/own")),
    ?assertEqual(Named("priv/own", "../../elsewhere/deep", "priv/own/dangling"), Says()),
    ?assertEqual([{"application app", <<"priv/own">>, "../../elsewhere/deep"}], links(Dir)),
    %% The files of a release.
    ok = file:del_dir_r(filename:join(Dir, "priv")),
    Release = in("rel", Config),
    release(Release),
    made:app(in("rel/lib/app-1", Config), app, [], []),
    ok = file:rename(filename:join(Release, "releases/1"), in("elsewhere/1", Config)),
    ok = file:make_symlink("../../elsewhere/1", filename:join(Release, "releases/1")),
    ok = file:make_symlink("gone", in("elsewhere/1/sys.config", Config)),
    {error, {behind_link, {Link, "../../elsewhere/1", _, enoent}}} =
        whittle_read:read(Release, staged:options()),
    ?assertEqual(filename:join(Release, "releases/1"), Link),
    ?assertEqual([{"the release", <<"releases/1">>, "../../elsewhere/1"}], links(Release)).

%% This covers all files that are read of a release, and each directory on the path to them.
releases(Config) ->
    Release = in("rel", Config),
    release(Release),
    made:app(in("rel/lib/app-1", Config), app, [], []),
    made:file(in("rel/releases/1/env.sh", Config), "SECRET=1\n"),
    made:file(in("rel/releases/1/consolidated/odd.beam", Config),
              made:beam("-module(odd).")),
    ?assertEqual([], links(Release)),
    [begin
         Away = in("away" ++ integer_to_list(erlang:unique_integer([positive])), Config),
         ok = file:rename(in(Path, Config), Away),
         ok = file:make_symlink(Away, in(Path, Config)),
         ?assertEqual([{"the release", Named, Away}], links(Release)),
         ok = file:delete(in(Path, Config)),
         ok = file:rename(Away, in(Path, Config))
     end || {Path, Named} <-
                [{"rel/lib", <<"lib">>}, {"rel/releases", <<"releases">>},
                 {"rel/releases/1", <<"releases/1">>},
                 {"rel/releases/1/x.rel", <<"releases/1/x.rel">>},
                 {"rel/releases/start_erl.data", <<"releases/start_erl.data">>},
                 {"rel/releases/1/env.sh", <<"releases/1/env.sh">>},
                 {"rel/releases/1/consolidated", <<"releases/1/consolidated">>},
                 {"rel/releases/1/consolidated/odd.beam",
                  <<"releases/1/consolidated/odd.beam">>}]].

%% The output also contains compiled sources: Erlang, its headers and C.
sources(Config) ->
    Dir = in("app", Config),
    made:file(in("app/src/app.app.src", Config), "{application, app, [{vsn, \"1\"}]}.\n"),
    made:file(in("away/app.erl", Config), "-module(app).\n-include(\"app.hrl\").\n"),
    made:file(in("away/app.hrl", Config), "%% none\n"),
    made:file(in("away/c/app.c", Config), "int app;\n"),
    made:file(in("app/native.config", Config), "{nif, \"app\", [{sources, [\"c_src/*.c\"]}]}.\n"),
    [ok = file:make_symlink(To, in(Path, Config))
     || {To, Path} <- [{"../../away/app.erl", "app/src/app.erl"},
                       {"../../away/app.hrl", "app/src/app.hrl"},
                       {"../away/c", "app/c_src"}]],
    Links = [{"application app", <<"src/app.erl">>, "../../away/app.erl"},
             {"application app", <<"src/app.hrl">>, "../../away/app.hrl"},
             {"application app", <<"c_src">>, "../away/c"}],
    ?assertEqual(Links, links(Dir)),
    %% rebar3 compiles this one, if the build does not refuse it before. Its own directory has links
    %% into the project.
    made:file(in("app/rebar.config", Config), "{deps, []}.\n"),
    ?assertEqual(Links, links(Dir)),
    ?assertNot(filelib:is_dir(in("app/_build", Config))),
    {ok, _} = whittle_read:read(Dir, staged:options()),
    %% The directory that rebar3 built counts as inside the project. Users do not write there.
    Built = filename:join(Dir, "_build/default/lib/app"),
    ?assertEqual([{A, P, T} || {A, <<"c_src">> = P, T} <- Links], links(Built)),
    %% A library whose priv is a link into the project counts as inside too.
    made:file(in("user/src/user_app.app.src", Config),
              "{application, user_app, [{vsn, \"1\"}, {applications, [app]}]}.\n"),
    ok = file:delete(in("app/c_src", Config)),
    ok = file:delete(in("app/native.config", Config)),
    made:file(in("app/priv/data", Config), "data"),
    {ok, _} = whittle_read:read(Dir, staged:options()),
    {ok, _} = file:read_link(filename:join(Built, "priv")),
    ?assertEqual([], links(in("user", Config), #{libs => [filename:dirname(Built)]})).

%% The build refuses a link to a directory before the compiler or a check of the sources enters the
%% directory. A compiler would wait forever for the pipe there.
source_directories(Config) ->
    Away = in("away", Config),
    ok = filelib:ensure_path(Away),
    "" = os:cmd("mkfifo '" ++ filename:join(Away, "x.erl") ++ "' '" ++ filename:join(Away, "x.hrl")
                ++ "'"),
    Fresh = fun(Name) ->
                    made:file(in(Name ++ "/src/app.app.src", Config),
                              "{application, app, [{vsn, \"1\"}]}.\n"),
                    made:file(in(Name ++ "/src/app.erl", Config), "-module(app).\n"),
                    in(Name, Config)
            end,
    [begin
         Dir = Fresh(Kind ++ "/" ++ Path),
         ok = Prepare(Dir),
         ok = file:make_symlink(Away, filename:join(Dir, Path)),
         ?assertEqual({Kind, [{"application app", list_to_binary(Path), Away}]}, {Kind, links(Dir)})
     end || {Kind, Prepare} <-
                [{"source", fun(_) -> ok end},
                 {"project", fun(Dir) ->
                                     file:write_file(filename:join(Dir, "rebar.config"), "")
                             end},
                 {"compiled", fun(Dir) ->
                                      Ebin = filename:join(Dir, "ebin"),
                                      ok = filelib:ensure_path(Ebin),
                                      file:write_file(filename:join(Ebin, "app.app"),
                                                      "{application, app, [{vsn, \"0\"}]}.\n")
                              end}],
            Path <- ["include", "priv", "src/deep"],
            %% The output does not contain the sources of compiled code.
            {Kind, Path} =/= {"compiled", "src/deep"}],
    %% An application of a project; a link that nothing reads.
    Project = in("apps", Config),
    made:file(filename:join(Project, "rebar.config"), ""),
    Fresh("apps/apps/app"),
    [begin
         ok = file:make_symlink(Away, filename:join(Project, Path)),
         ?assertEqual({Path, [{"application app", <<"include">>, Away} || Path =/= "c_src"]},
                      {Path, links(Project)})
     end || Path <- ["c_src", "apps/app/include"]].

%% The output contains a compiled library of a native.config.
libraries(Config) ->
    Dir = made:app(in("app", Config), app, [], [{app, "-module(app)."}]),
    Config1 = in("app/native.config", Config),
    made:file(in("away/libapp.a", Config), "!<arch>\nx"),
    ok = filelib:ensure_path(in("app/lib/mips", Config)),
    [ok = file:make_symlink("../../../away/libapp.a", in(Path, Config))
     || Path <- ["app/lib/mips/libapp.a"]],
    Links = [{"application app", <<"lib/mips/libapp.a">>, "../../../away/libapp.a"}],
    [begin
         made:file(Config1, ["{nif, \"app\", [{archive, \"", Path, "\"}]}.\n"]),
         ?assertEqual(Links, links(Dir))
     end || Path <- ["lib/mips/libapp.a", "lib/$TARGET/libapp.a"]],
    %% --native names the description.
    Elsewhere = in("app/lib/native.config", Config),
    ok = file:delete(Config1),
    made:file(Elsewhere, "{nif, \"app\", [{archive, \"mips/libapp.a\"}]}.\n"),
    {ok, Natives} = whittle_native:read_all([Elsewhere]),
    ?assertEqual([{"the description " ++ Elsewhere, <<"mips/libapp.a">>,
                   "../../../away/libapp.a"}], links(Dir, #{natives => Natives})).

%% Internal

%% Returns the links for which the input is refused.
links(Path) -> links(Path, #{}).

links(Path, Options) ->
    case whittle_read:read(Path, maps:merge((staged:options())#{outside_links => refuse},
                                            Options)) of
        {ok, _} -> [];
        {error, {outside_links, Links}} -> [{lists:flatten(Whose), At, To}
                                            || {Whose, At, To} <- Links]
    end.

%% The release contains the application app.
release(Dir) ->
    made:file(filename:join(Dir, "releases/start_erl.data"), "1.2.3 1\n"),
    made:file(filename:join(Dir, "releases/1/x.rel"),
              "{release, {\"x\", \"1\"}, {erts, \"1.2.3\"}, [{app, \"1\"}]}.\n").

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
