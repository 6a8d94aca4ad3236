%% @doc Tests each refused input with the line that the user sees.
-module(whittle_refusals_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([nothing_there/1, no_application/1, mix_project/1, no_escript/1, escript_without_main/1,
         prebuilt_nif/1, unused_prebuilt_nif/1, absent_program/1, unknown_program/1,
         missing_application/1, archived_applications/1, names_of_otp/1, absent_module/1,
         unlisted_module/1, damaged_beam/1, foreign_beam/1, misnamed_beam/1, newer_beam/1,
         module_twice/1, too_old_beam/1, compiled_again/1, compiler_fails/1,
         no_version_in_source/1, consolidated/1, several_releases/1, other_otp/1, bad_app_file/1,
         bad_release/1, unreadable/1, does_not_compile/1, no_temporary/1, circular/1,
         absent_start_module/1, damaged_code/1, damaged_literal/1,
         not_fetched/1, packed_release/1, no_release_file/1, link_loop/1, link_net/1,
         unsupported/1, left_out/1, no_otp/1, otp_natives/1, damaged_escript/1, other_files/1,
         other_script/1, source_twice/1, before_otp/1, bad_config/1, newer_strings/1, bad_flags/1,
         bad_flags_of_an_escript/1, odd_names/1,
         odd_names_in_releases/1, odd_names_in_escripts/1, odd_files/1, archives/1,
         boot_that_inflates/1, large_texts/1, large_files/1,
         large_escripts/1, heads_of_escripts/1,
         deep_files/1, unlisted_directory/1, reserved_names/1, host_tools/1, large_settings/1,
         endless_sources/1, endless_files/1, notices/1, files_left_out/1, empty_directories/1]).

all() ->
    [nothing_there, no_application, mix_project, no_escript, escript_without_main,
     prebuilt_nif, unused_prebuilt_nif, absent_program, unknown_program,
     missing_application, archived_applications, names_of_otp, absent_module, unlisted_module,
     damaged_beam, foreign_beam, misnamed_beam, newer_beam, too_old_beam, compiled_again,
     compiler_fails, no_version_in_source, consolidated, several_releases, module_twice,
     other_otp, bad_app_file, bad_release, unreadable,
     does_not_compile, no_temporary, circular, absent_start_module, damaged_code, damaged_literal,
     not_fetched,
     packed_release, no_release_file,
     link_loop, link_net, unsupported, left_out, no_otp, otp_natives,
     damaged_escript,
     other_files, other_script, source_twice, before_otp, bad_config, newer_strings,
     bad_flags,
     bad_flags_of_an_escript, odd_names,
     odd_names_in_releases, odd_names_in_escripts, odd_files, archives, boot_that_inflates,
     large_texts, large_files,
     large_escripts, heads_of_escripts,
     deep_files, unlisted_directory, reserved_names, host_tools, large_settings,
     endless_sources, endless_files, notices, files_left_out, empty_directories].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% The input

nothing_there(Config) ->
    refused(in("nothing", Config), no_such_path, "/nothing does not exist: name an application"),
    refused("", no_such_path, "^the path is empty: name").

%% The user's usual command packs the release, with and without compression.
packed_release(Config) ->
    made:file(in("rel/releases/1/x.rel", Config), ""),
    [begin
         Tar = in("x.tar", Config),
         ok = erl_tar:create(Tar, [{"releases", in("rel/releases", Config)}], Options),
         refused(Tar, packed_release, "x.tar is a packed archive: unpack it first")
     end || Options <- [[compressed], []]].

%% relx copies the sources of applications too, but these are no rebar3 project.
no_release_file(Config) ->
    made:file(in("rel/lib/a-1/src/a.app.src", Config), ""),
    made:file(in("rel/lib/a-1/ebin/a.app", Config), ""),
    made:file(in("erts/lib/a/src/a.app.src", Config), ""),
    made:file(in("erts/erts-15.0/bin/epmd", Config), ""),
    [refused(in(Name, Config), no_release_file, "but no releases/VSN/NAME.rel, which lists")
     || Name <- ["rel", "erts"]].

no_application(Config) ->
    made:file(in("some/file.txt", Config), "text"),
    refused(in("some", Config), no_application, "holds no application and no release: name").

mix_project(Config) ->
    made:file(in("mix/mix.exs", Config), ""),
    refused(in("mix", Config), mix_project, "run `MIX_ENV=prod mix release'").

no_escript(Config) ->
    File = made:file(in("text", Config), "just text"),
    refused(File, no_escript, "a file that begins with #!").

escript_without_main(Config) ->
    Beam = made:beam("-module(nomain). -export([f/0]). f() -> ok."),
    File = in("nomain", Config),
    ok = escript:create(File, [shebang, {beam, Beam}]),
    refused(File, no_main, "has no nomain:main/1").

damaged_escript(Config) ->
    Beam = made:beam("-module(arc). -export([main/1]). main(_) -> ok."),
    File = in("arc", Config),
    AppFile = <<"{application, arc, [{vsn, \"1\"}]}.">>,
    ok = escript:create(File, [shebang, {archive, [{"arc/ebin/arc.beam", Beam},
                                                   {"arc/ebin/arc.app", AppFile}],
                                         []}]),
    {ok, _} = read(File),
    {ok, Bytes} = file:read_file(File),
    Damaged = fun({At, Byte}) ->
                      <<Before:At/binary, _, After/binary>> = Bytes,
                      made:file(File, <<Before/binary, Byte, After/binary>>),
                      case read(File) of
                          {ok, _} -> true;
                          {error, Error} -> one_line(Error)
                      end
              end,
    %% The file is not UTF-8 before the word that identifies its kind.
    true = Damaged({15, 172}),
    made:holds(100, {proper_types:range(0, byte_size(Bytes) - 1), proper_types:byte()}, Damaged).

%% Shared objects

prebuilt_nif(Config) ->
    Dir = made:app(in("nif", Config), nif, [],
                   [{nif, "-module(nif). -export([on/0]). on() -> erlang:load_nif(\"x\", 0)."},
                    {other, "-module(other). -export([f/0]). f() -> ok."}]),
    made:file(filename:join(Dir, "priv/lib/nif.so.1"), made:so()),
    refused(Dir, prebuilt_nif,
            "application nif contains the shared object priv/lib/nif.so.1 \\(loaded by nif\\), and "
            "Whittle's static VM cannot load shared objects: describe its sources with --native").

%% No VM has these programs of OTP. The origin of the application does not matter.
absent_program(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    source(Dir, "asks", "kernel, stdlib, odbc"),
    refused(Dir, missing_applications,
            "^application odbc, which asks needs, cannot work in one file \\(its program "
            "odbcserver loads.*: remove it from the .app file that names it$"),
    Release = in("rel", Config),
    release(Release, erlang:system_info(version),
            "[{kernel, \"1\"}, {stdlib, \"1\"}, {odbc, \"1\"}]"),
    [brought(Release, Name) || Name <- [kernel, stdlib, odbc]],
    refused(Release, unsupported_application,
            "application odbc, which the release lists, cannot work .*: remove it from the "
            "release$").

%% Whittle does not know this program of OTP, so the application may need it.
unknown_program(Config) ->
    Dir = in("rel", Config),
    release(Dir, erlang:system_info(version),
            "[{kernel, \"1\"}, {stdlib, \"1\"}, {os_mon, \"1\"}]"),
    [brought(Dir, Name) || Name <- [kernel, stdlib, os_mon]],
    [made:file(filename:join([Dir, "lib/os_mon-1/priv/bin", Name]), made:so())
     || Name <- ["memsup", "ferrule", "newsup"]],
    refused(Dir, absent_programs,
            "application os_mon of OTP, .*runs programs that no output can contain "
            "\\(priv/bin/newsup\\)").

brought(Release, Name) ->
    made:app(filename:join([Release, "lib", atom_to_list(Name) ++ "-1"]), Name,
             [{applications, []}], []).

%% An application that never starts does no harm.
unused_prebuilt_nif(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    source(Dir, "user", "kernel, stdlib"),
    Stale = filename:join(Dir, "_build/default/lib/stale"),
    made:app(Stale, stale, [], []),
    made:file(filename:join(Stale, "priv/stale.so"), made:so()),
    {ok, System} = read(Dir),
    {ok, Small, #{}} = whittle_pass:run([whittle_pass_applications], #{}, System),
    ?assertMatch({ok, _}, whittle_system:app(stale, System)),
    ?assertEqual(error, whittle_system:app(stale, Small)).

%% The runtime links OTP's own natives.
otp_natives(Config) ->
    Dir = made:app(in("user", Config), user_app,
                   [{applications, [kernel, stdlib, crypto, public_key]}], []),
    {ok, System} = read(Dir),
    ?assertEqual([asn1, crypto], whittle_system:natives(System)),
    {ok, #{files := Files}} = whittle_system:app(crypto, System),
    ?assertEqual([], [Path || Path <- maps:keys(Files), filename:extension(Path) =:= <<".so">>]).

%% Applications

missing_application(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    source(Dir, "asks", "kernel, stdlib, nobody_has_it"),
    source(Dir, "other", "kernel, stdlib, asks"),
    Words = "application nobody_has_it, which asks needs, is neither in the input nor in OTP",
    refused(Dir, missing_applications, Words),
    lacks(Dir, Words),
    %% One error lists all of them. It includes the dependencies of an application in a library
    %% directory and the applications that the user adds.
    source(Dir, "other", "kernel, stdlib, asks, nobody_has_it, far, sasl"),
    made:app(in("libs/far-1", Config), far, [{applications, [kernel, farther]}], []),
    All = #{libs => [in("libs", Config)], add => [asked]},
    {error, {missing_applications, {Missing, _}} = Error} =
        whittle_read:read(Dir, maps:merge(staged:options(), All)),
    ?assertEqual([{asked, []}, {farther, [far]}, {nobody_has_it, [asks, other]}], Missing),
    Line = unicode:characters_to_binary(whittle_system:format_error(Error)),
    ?assertMatch({match, _}, re:run(Line, "^3 applications cannot be packed: asked, which you "
                                    "asked for \\(is neither in the input nor in OTP [0-9]+\\), "
                                    "farther, "
                                    "which far needs .*, nobody_has_it, which asks, other need .*; "
                                    "add asked, farther, nobody_has_it to the release, .* to "
                                    "ERL_LIBS; or remove them from the .app files that name them; "
                                    "or leave out --app asked$")),
    ?assert(one_line(Error)),
    ?assertEqual({error, {missing_applications, {Missing, "29"}}},
                 whittle_read:check_input(Dir, All#{otp => "29"})),
    %% The same holds for a directory that erlc compiles and for an escript.
    Plain = filename:join(Dir, "apps/other"),
    lacks(Plain, "asks, which other needs \\(.*, far, which other needs \\(.*, nobody_has_it"),
    Script = made:file(in("script", Config), "#!/usr/bin/env escript\nmain(_) -> ok.\n"),
    ?assertEqual(ok, whittle_read:check_input(Script, #{otp => "29"})),
    {error, {missing_applications, {[{x, []}], "29"}} = Added} =
        whittle_read:check_input(Script, #{otp => "29", add => [x]}),
    ?assertMatch({match, _}, re:run(whittle_system:format_error(Added), "^application x, which you "
                                    "asked for, .* ERL_LIBS, or leave out --app x$")),
    ?assertEqual(<<"erts, which you asked for, is the VM itself, and every output has it: leave "
                   "out --app erts">>,
                 unicode:characters_to_binary(
                   whittle_system:format_error({missing_applications, {[{erts, []}], "29"}}))),
    %% The error names the application of OTP that a misspelled name means, if Whittle can add it.
    [begin
         {error, Misspelled} = whittle_read:check_input(Script, #{otp => "29", add => Names}),
         Said = iolist_to_binary(whittle_system:format_error(Misspelled)),
         ?assertMatch({Names, {_, _}}, {Names, binary:match(Said, Text)})
     end || {Names, Text} <- [{[cryto], <<"application cryto (did you mean crypto?), which you">>},
                              {[cryto, nobody], <<"cryto (did you mean crypto?), which you">>},
                              {[obsever], <<"application obsever, which you asked for">>}]].

%% `erl' reads applications in archives (.ez). Whittle says that it does not.
archived_applications(Config) ->
    Libs = in("libs", Config),
    Says = fun(Name, File, {error, {archived_application, _} = Error}) ->
                   ?assertEqual(unicode:characters_to_binary(
                                  ["application ", Name, " is in ", File, ", and Whittle does not "
                                   "read archives (.ez): unpack it into the same directory (unzip ",
                                   File, " -d ", filename:dirname(File), ")"]),
                                unicode:characters_to_binary(whittle_system:format_error(Error)))
           end,
    [begin
         Dir = made:app(in(Asks, Config), list_to_atom(Asks),
                        [{applications, [kernel, stdlib, packed]}], []),
         made:file(File, "PK"),
         Says("packed", File, whittle_read:read(Dir, (staged:options())#{libs => [Libs]})),
         Says("packed", File, whittle_read:check_input(Dir, #{otp => "29", libs => [Libs]})),
         ok = file:delete(File)
     end || {Asks, File} <- [{"asks", filename:join(Libs, "packed-1.0.ez")},
                             {"asks_again", filename:join(Libs, "packed.ez")}]],
    made:file(filename:join(Libs, "packed_2-1.0.ez"), "PK"),
    ?assertMatch({error, {missing_applications, _}},
                 whittle_read:read(in("asks", Config), (staged:options())#{libs => [Libs]})),
    Release = in("rel", Config),
    release(Release, erlang:system_info(version), "[{kernel, \"1\"}, {stdlib, \"1\"}, "
            "{aa, \"1.0\"}]"),
    File = made:file(filename:join(Release, "lib/aa-1.0.ez"), "PK"),
    Says("aa", File, read(Release)),
    refused(made:file(in("b.ez", Config), <<"PK", 3, 4, 20>>), packed_release,
            "b.ez is a packed archive: unpack it first").

%% OTP's parts of these names are in every output, so an application of the user could not start.
names_of_otp(Config) ->
    [begin
         Dir = made:app(in(atom_to_list(Name), Config), Name,
                        [{applications, []}, {mod, {my_app, []}}],
                        [{my_app, "-module(my_app). -export([start/2, stop/1]). "
                          "start(_, _) -> {ok, self()}. stop(_) -> ok."}]),
         refused(Dir, name_of_otp, "has the application " ++ atom_to_list(Name) ++
                     ", and every output has OTP's part of that name: rename yours$"),
         ?assertMatch({error, {name_of_otp, {Name, Dir}}},
                      whittle_read:check_input(Dir, #{otp => "29"}))
     end || Name <- [kernel, stdlib, erts]],
    %% Before rebar3 runs.
    made:file(in("project/rebar.config", Config), ""),
    [begin
         File = made:file(in("project/" ++ Path ++ "kernel.app.src", Config), ""),
         refused(in("project", Config), name_of_otp, "has the application kernel, and every"),
         ok = file:delete(File)
     end || Path <- ["src/", "apps/a/src/", "lib/a/src/"]],
    %% rebar3 does not look there.
    made:file(in("project/rebar.config", Config), "{project_app_dirs, [\"apps/*\"]}."),
    [made:file(in("project/" ++ Path ++ "/src/kernel.app.src", Config), "")
     || Path <- ["lib/kernel", "_build/default/rel/x/lib/kernel-8"]],
    {error, Error} = read(in("project", Config)),
    ?assertNotEqual(name_of_otp, element(1, Error)).

%% Returns the error that is known before there is an OTP.
lacks(Path, Words) ->
    {error, {missing_applications, _} = Error} = whittle_read:check_input(Path, #{otp => "29"}),
    Line = unicode:characters_to_binary(whittle_system:format_error(Error)),
    ?assertMatch({_, {match, _}}, {Line, re:run(Line, Words)}).

absent_module(Config) ->
    Dir = made:app(in("gone", Config), gone, [{modules, [here, not_here]}],
                   [{here, "-module(here)."}]),
    refused(Dir, absent_modules,
            "application gone lists modules that do not exist \\(not_here\\)").

unlisted_module(Config) ->
    Dir = made:app(in("more", Config), more, [{modules, [listed]}],
                   [{listed, "-module(listed). -export([f/0]). f() -> called:f()."},
                    {called, "-module(called). -export([f/0]). f() -> ok."},
                    {extra, "-module(extra)."}]),
    {ok, System} = read(Dir),
    [#{notes := [Note, _]}] = whittle_system:ledger(System),
    ?assertEqual(<<"more: its .app file does not list these modules: called, extra">>, Note),
    {ok, Small, #{}} = whittle_pass:run([whittle_pass_modules], #{}, System),
    {ok, #{modules := Modules}} = whittle_system:app(more, Small),
    ?assertEqual([called, listed], lists:sort(maps:keys(Modules))),
    %% A module that starts the application is needed, whatever the list contains.
    made:app(Dir, more, [{modules, []}, {mod, {listed, []}}], []),
    {ok, Starts} = read(Dir),
    {ok, Kept, #{}} = whittle_pass:run([whittle_pass_modules], #{}, Starts),
    {ok, #{modules := Left}} = whittle_system:app(more, Kept),
    ?assertEqual([called, listed], lists:sort(maps:keys(Left))).

bad_app_file(Config) ->
    Source = in("source", Config),
    made:file(filename:join(Source, "src/bad.erl"), "-module(bad).\n"),
    made:file(filename:join(Source, "src/bad.app.src"), "{application, other, [{vsn, \"1\"}]}."),
    refused(Source, bad_app_file, "bad.app.src: it describes the application other; correct"),
    Dir = in("bad", Config),
    App = filename:join(Dir, "ebin/bad.app"),
    [begin
         made:file(App, Text),
         refused(Dir, Tag, Words)
     end || {Text, Tag, Words} <-
                [{"{application, bad, [", bad_app_file, "bad.app: line 1: "},
                 {"{application, bad}.", bad_app_file, "it holds no application term"},
                 {"{application, bad, [{vsn, \"1\"}, {modules, 1}]}.", bad_app_file,
                  "`modules' is not a list of atoms"},
                 {"{application, bad, [x]}.", bad_app_file, "not pairs"},
                 {"{application, bad, [{vsn, \"1\"}, {env, [a]}]}.", bad_app_file,
                  "`env' is not a list of pairs"},
                 {"{application, bad, [{vsn, \"1\"}, {env, [{a, 1}, {b, 1}, {a, 1}]}]}.",
                  bad_app_file, "`env' has the key `a' twice"},
                 {"{application, bad, [{vsn, \"1\"}, {applications, [kernel, stdlib]},"
                  " {included_applications, [stdlib]}]}.", bad_app_file,
                  "`stdlib' stands in `applications' and in `included_applications'"},
                 {"{application, bad, [{vsn, \"1\"} | x]}.", bad_app_file,
                  "it holds no application term"},
                 {"{application, bad, [{vsn, \"1\"}, {modules, [a | b]}]}.", bad_app_file,
                  "`modules' is not a list of atoms"},
                 {"{application, bad, [{vsn, \"1\" ++ x}]}.", bad_app_file, "line 1"},
                 {"{application, bad, [{vsn, [$1 | x]}]}.", bad_app_file, "`vsn' is not a string"},
                 {"{application, bad, []}.", no_vsn, "application bad has no version"},
                 {"{application, bad, [{vsn, \"../x\"}]}.", bad_app_file,
                  "bad.app: `vsn' contains a /; correct the file"}]],
    made:file(filename:join(Dir, "ebin/second.app"), ""),
    refused(Dir, several_app_files, "bad.app, ebin/second.app"),
    [begin
         made:file(filename:join(in("mod", Config), "ebin/x.app"),
                   ["{application, x, [{vsn, \"1\"}, {mod, ", Mod, "}]}."]),
         refused(in("mod", Config), bad_app_file,
                 "x.app: `mod' is not a pair {Module, Argument}; correct the file")
     end || Mod <- ["x", "{\"x\", []}", "{x, 1, 2}"]],
    Two = in("sources", Config),
    [made:file(filename:join(Two, ["src/", Name, ".app.src"]),
               ["{application, ", Name, ", [{vsn, \"1\"}]}."]) || Name <- ["one", "two"]],
    refused(Two, several_app_files, "\\(src/one.app.src, src/two.app.src\\)"),
    ok = file:delete(filename:join(Two, "src/one.app.src")),
    ok = file:delete(filename:join(Two, "src/two.app.src")),
    ok = filelib:ensure_path(filename:join(Two, "src/one.app.src")),
    refused(Two, unreadable, "one.app.src is a directory, but only a file may have this name").

%% The error names the user's own file.
no_version_in_source(Config) ->
    Dir = in("l", Config),
    [begin
         made:file(filename:join(Dir, "src/l.app.src"), ["{application, ", Text, "}."]),
         refused(Dir, Tag, "/src/l.app.src")
     end || {Text, Tag} <- [{"l, [{vsn, git}]", bad_app_file},
                            {"\"l\", foo", bad_app_file}, {"l, foo", bad_app_file},
                            {"l, [{vsn, \"1\"}, {applications, kernel}]", bad_app_file}]].

absent_start_module(Config) ->
    Dir = made:app(in("st", Config), st, [{mod, {nomod, []}}], [{st, "-module(st)."}]),
    refused(Dir, absent_start_module, "application st starts with module nomod .*does not exist"),
    %% The module may belong to another application.
    made:app(Dir, st, [{mod, {supervisor, []}}], [{st, "-module(st)."}]),
    %% common_test would take minutes to print a whole system as the value of a case.
    {ok, _} = read(Dir),
    ok.

circular(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    %% rebar3 itself refuses a cycle, so these applications are compiled already.
    made:app(filename:join(Dir, "_build/default/lib/one"), one, [{applications, [two]}], []),
    made:app(filename:join(Dir, "_build/default/lib/two"), two, [{applications, [one]}], []),
    source(Dir, "top", "kernel, stdlib, one"),
    refused(Dir, circular_applications, "need each other in a cycle"),
    Own = made:app(in("own", Config), own, [{applications, [kernel, stdlib, own]}], []),
    refused(Own, circular_applications,
            "^application own lists itself as an application that it needs: remove it from the "
            "list `applications' in its own .app file$"),
    %% A name with a blank has quotes.
    Blank = made:app(in("a b", Config), 'a b', [{applications, [kernel, 'a b']}], []),
    refused(Blank, circular_applications, "^application 'a b' lists itself"),
    Crypto = made:app(in("crypto", Config), crypto, [{applications, [kernel, stdlib, ssl]}], []),
    refused(Crypto, circular_applications,
            "if one of yours has the name of an OTP application, rename it$").

unsupported(Config) ->
    Dir = made:app(in("gui", Config), gui, [{applications, [kernel, stdlib, wx]}], []),
    refused(Dir, missing_applications,
            "^application wx, which gui needs, cannot work .* wxWidgets\\): remove it from "
            "the .app file that names it$"),
    %% The error names the other applications too, even before there is an OTP.
    made:app(Dir, gui, [{applications, [kernel, stdlib, wx, nosuch1, nosuch2]}], []),
    All = "^3 applications cannot be packed: nosuch1, which gui needs \\(is neither .*\\), "
        "nosuch2, which gui needs .*, wx, which gui needs \\(cannot work in one file: it loads the "
        "machine's "
        "wxWidgets\\); add nosuch1, nosuch2 to the release",
    refused(Dir, missing_applications, All),
    lacks(Dir, All),
    %% The remedy is to drop the --app option.
    Plain = made:app(in("plain", Config), plain, [], []),
    [begin
         {error, Error} = whittle_read:read(Plain, (staged:options())#{add => [Name]}),
         ?assertMatch({match, _}, re:run(whittle_system:format_error(Error),
                                         "which you asked for, cannot work .*: leave out --app "
                                         ++ atom_to_list(Name) ++ "$"))
     end || Name <- [odbc, wx]].

%% Whittle does not build these applications of OTP. The check also works before there is an OTP.
left_out(Config) ->
    Dir = made:app(in("manager", Config), manager, [{applications, [kernel, stdlib, snmp]}], []),
    Words = "^Whittle does not build OTP's snmp, which manager needs: add it to the release, "
        "add its parent directory to ERL_LIBS, or remove it from the .app file that names it$",
    lacks(Dir, Words),
    Empty = no_applications(Config),
    {error, Error} = whittle_read:read(Dir, #{otp_lib => Empty}),
    ?assertMatch({match, _}, re:run(whittle_system:format_error(Error), Words)),
    made:app(Dir, manager, [{applications, [kernel, stdlib, snmp, megaco, nosuch]}], []),
    lacks(Dir, "^3 applications .*: megaco, which manager needs \\(Whittle does not build OTP's "
          "megaco\\), nosuch, which manager needs \\(is neither .*, snmp, which manager needs "
          "\\(Whittle"
          " does not build OTP's snmp\\); add megaco, nosuch, snmp to the release"),
    %% An application in a library directory counts as present. A note reports one that is only
    %% called.
    made:app(in("libs/snmp-5", Config), snmp, [], []),
    made:app(Dir, manager, [{applications, [kernel, stdlib, snmp]}], []),
    Libs = [in("libs", Config)],
    ?assertEqual(ok, whittle_read:check_input(Dir, #{otp => "29", libs => Libs})),
    {ok, _} = whittle_read:read(Dir, #{otp_lib => Empty, libs => Libs}),
    made:app(Dir, manager, [],
             [{manager, "-module(manager). -export([f/0]). f() -> snmpm:start()."}]),
    {ok, System} = whittle_read:read(Dir, #{otp_lib => Empty}),
    [#{notes := Notes}] = whittle_system:ledger(System),
    ?assertEqual([<<"manager calls snmp, which no .app file names, so Whittle does not pack it "
                    "(manager calls snmpm:start/0): Whittle does not build OTP's snmp: add it to "
                    "the release, or add its parent directory to ERL_LIBS and give `--app "
                    "snmp'">>],
                 [Note || Note <- Notes, binary:match(Note, <<"snmp">>) =/= nomatch]).

%% This OTP has only kernel and stdlib.
no_applications(Config) ->
    #{otp_lib := Lib} = staged:options(),
    Root = in("small_otp", Config),
    [{ok, _} = linked(filename:join(filename:dirname(filename:absname(Lib)), From),
                                  filename:join(Root, To))
     || {From, To} <- [{"releases", "releases"}
                       | [{Dir, Dir} || Name <- [kernel, stdlib],
                                        Dir <- [filename:join("lib", filename:basename(
                                                                       code:lib_dir(Name)))]]]],
    filename:join(Root, "lib").

linked(To, Link) ->
    ok = filelib:ensure_dir(Link),
    ok = file:make_symlink(To, Link),
    {ok, Link}.

%% Modules

damaged_beam(Config) ->
    Dir = made:app(in("dam", Config), dam, [], [{dam, "-module(dam)."}]),
    File = filename:join(Dir, "ebin/dam.beam"),
    {ok, Bytes} = file:read_file(File),
    made:file(File, binary:part(Bytes, 0, byte_size(Bytes) div 2)),
    refused(Dir, bad_beam, "dam.beam is damaged .*; compile the module again").

%% The code has an instruction that does not exist.
damaged_code(Config) ->
    Dir = made:app(in("code", Config), code1, [],
                   [{code1, "-module(code1). -export([f/0]). f() -> ok."}]),
    File = filename:join(Dir, "ebin/code1.beam"),
    {ok, Bytes} = file:read_file(File),
    [Before, <<Size:32, Header:20/binary, _, After/binary>>] = binary:split(Bytes, <<"Code">>),
    made:file(File, <<Before/binary, "Code", Size:32, Header/binary, 255, After/binary>>),
    refused(Dir, bad_beam, "module code1 of code1 is damaged").

%% The build decodes the literals of the input when it looks for calls into OTP.
damaged_literal(Config) ->
    Dir = made:app(in("literal", Config), literal, [{applications, [kernel, stdlib, inets]}],
                   [{literal, "-module(literal). -export([f/0]). f() -> {a, \"literal\"}."}]),
    File = filename:join(Dir, "ebin/literal.beam"),
    {ok, Bytes} = file:read_file(File),
    made:file(File, made:damaged_literal(Bytes)),
    refused(Dir, bad_beam, "module literal of literal is damaged .chunk LitT contains an invalid").

foreign_beam(Config) ->
    Dir = made:app(in("for", Config), for, [], [{for, "-module(for)."}]),
    made:file(filename:join(Dir, "ebin/for.beam"), <<"#!/bin/sh">>),
    refused(Dir, bad_beam, "for.beam is not a BEAM file: it begins with").

misnamed_beam(Config) ->
    Dir = made:app(in("mis", Config), mis, [{modules, [mis]}], [{mis, "-module(other)."}]),
    refused(Dir, misnamed_module, "mis.beam holds module other").

newer_beam(Config) ->
    Dir = made:app(in("new", Config), new, [], [{new, "-module(new)."}]),
    File = filename:join(Dir, "ebin/new.beam"),
    {ok, Bytes} = file:read_file(File),
    %% The header of the code chunk holds the highest instruction number.
    [Before, <<Size:32, Header:8/binary, _Max:32, After/binary>>] =
        binary:split(Bytes, <<"Code">>),
    made:file(File, <<Before/binary, "Code", Size:32, Header/binary, 999:32, After/binary>>),
    refused(Dir, needs_newer_otp, "module new of new was compiled by OTP 30 \\(instruction 999\\)").

%% Without debug information the module with a dropped instruction cannot be recompiled.
too_old_beam(Config) ->
    Dir = made:app(in("old", Config), old, [], [{old, "-module(old)."}]),
    made:file(filename:join(Dir, "ebin/old.beam"), old_beam("old", [])),
    refused(Dir, too_old, "module old of old was compiled by an OTP too old for OTP .*, "
            "and it has no debug information .*: keep that information \\(relx: "
            "`{debug_info, keep}'; Mix: `strip_beams: false'\\), or compile the module with OTP "
            ".*, or build with `--otp 25'").

%% With debug information the chosen OTP compiles the module again.
compiled_again(Config) ->
    Dir = made:app(in("again", Config), again, [{mod, {again, []}}], [{again, "-module(again)."}]),
    Good = made:beam("-module(again). -export([start/2, stop/1]). start(_, _) ->"
                     " io:put_chars(\"again\\n\"), init:stop(), {ok, self()}. stop(_) -> ok."),
    {ok, {again, [{"Dbgi", Debug}]}} = beam_lib:chunks(Good, ["Dbgi"]),
    made:file(filename:join(Dir, "ebin/again.beam"),
              old_beam("again", [{"Dbgi", Debug}, {"CInf", term_to_binary([])}])),
    {ok, System} = read(Dir),
    [#{notes := [Note]}] = whittle_system:ledger(System),
    ?assertMatch({match, _},
                 re:run(Note, "^Whittle compiled module again of again again with OTP ([0-9]+), "
                              "because "
                        "OTP \\1 cannot load the code of the older compiler$")),
    {0, Output} = staged:run(System, staged:write(System, in("staged", Config)), []),
    ?assertMatch({_, _}, binary:match(Output, <<"again\n">>)).

%% The user sees the output of the compiler.
compiler_fails(Config) ->
    Erl = made:file(in("erl", Config), "#!/bin/sh\necho this erl has no compiler\nexit 1\n"),
    ok = file:change_mode(Erl, 8#755),
    {error, Error} = whittle_compile:again(Erl, [{old, old_beam("old", [])}]),
    ?assertMatch({not_compiled, {_, Erl, <<"this erl has no compiler\n">>}}, Error),
    ?assert(one_line(Error)).

%% Makes a module that uses instruction 27, which every supported OTP has dropped.
old_beam(Name, More) ->
    Zero = <<16#01, 16#01, 16#01, 16#01>>,
    Chunks = [{"AtU8", <<1:32, (length(Name)), (list_to_binary(Name))/binary>>},
              {"Code", <<16:32, 0:32, 27:32, 1:32, 0:32, 27, Zero/binary, 3>>},
              {"StrT", <<>>}, {"ImpT", <<0:32>>}, {"ExpT", <<0:32>>} | More],
    {ok, Beam} = beam_lib:build_module(Chunks),
    Beam.

module_twice(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    source(Dir, "top", "kernel, stdlib, one, two"),
    [made:app(filename:join([Dir, "_build/default/lib", atom_to_list(Name)]), Name, [],
              [{same, "-module(same)."}]) || Name <- [one, two]],
    refused(Dir, module_twice, "module same is in both one and two").

%% Releases

%% A release for another ERTS gets the applications of the chosen OTP.
other_otp(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[{kernel, \"0.1\"}, {stdlib, \"0.2\"}, {own, \"1\"}]"),
    [made:app(filename:join([Dir, "lib", atom_to_list(Name) ++ "-" ++ Vsn]), Name,
              [{vsn, Vsn}, {applications, Needs}], [])
     || {Name, Vsn, Needs} <- [{kernel, "0.1", []}, {stdlib, "0.2", [kernel]},
                               {own, "1", [kernel, stdlib]}]],
    {ok, System} = read(Dir),
    {ok, #{vsn := Vsn, origin := #{kind := otp}}} = whittle_system:app(kernel, System),
    ?assertNotEqual("0.1", Vsn),
    [#{notes := Notes}] = whittle_system:ledger(System),
    ?assertMatch([<<"the release was made for ERTS 1.2.3; the output has ERTS ", _/binary>>,
                  <<"kernel ", _/binary>>,
                  <<"stdlib ", _/binary>>], Notes).

bad_release(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[{kernel, \"1\"}, {nowhere, \"2\"}]"),
    refused(Dir, absent_applications, "the release lists nowhere 2, which is neither in"),
    ?assertMatch({error, {absent_applications, {[{nowhere, "2"}], Dir}}},
                 whittle_read:check_input(Dir, #{otp => "29"})),
    release(Dir, "1.2.3", "[{kernel, \"1\"}, {nowhere, \"2\"}, {gone, \"3\"}]"),
    refused(Dir, absent_applications, "chosen OTP \\(nowhere 2, gone 3\\): build"),
    [begin
         release(Dir, "1.2.3", Apps),
         refused(Dir, bad_rel_file, Words)
     end || {Apps, Words} <- [{"[kernel]", "lists a term that is not an application"},
                              {"[{kernel, v1}]", "lists a term that is not an application"},
                              {"[{kernel, \"1\"} | x]", "is not a release term"}]],
    made:file(filename:join(Dir, "releases/1/x.rel"),
              "{release, {x, \"1\"}, {erts, \"1\"}, []}."),
    refused(Dir, bad_rel_file, "a name or a version that is not a string"),
    made:file(filename:join(Dir, "releases/1/x.rel"), "{release, x}."),
    refused(Dir, bad_rel_file, "x.rel: it is not a release term"),
    release(Dir, "1.2.3", "[]"),
    made:file(filename:join(Dir, "releases/1/start.boot"), <<"garbage">>),
    refused(Dir, bad_own_boot, "start.boot is not a boot file"),
    made:file(filename:join(Dir, "releases/1/start.boot"),
              term_to_binary({script, {"x", "1"}, nothing})),
    refused(Dir, bad_own_boot, "start.boot is not a boot file"),
    [begin
         made:file(filename:join(Dir, "releases/start_erl.data"), Data),
         refused(Dir, bad_start_data, "does not say which version")
     end || Data <- [<<"x">>, <<"1.2.3 ", 255>>]].

%% The intended release is unknown.
several_releases(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[]"),
    made:file(filename:join(Dir, "releases/1/y.rel"), "{release, y}."),
    refused(Dir, bad_rel_file, "/releases/1: it holds several .rel files: x.rel, y.rel").

%% Protocols are modules of the input like any other.
consolidated(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[]"),
    made:file(filename:join(Dir, "releases/1/consolidated/p.beam"), <<"#!/bin/sh">>),
    refused(Dir, bad_beam, "consolidated/p.beam is not a BEAM file").

%% The kernel lets no process read the first bytes of the process's own memory.
unreadable(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[]"),
    ok = file:make_symlink("/proc/self/mem", filename:join(Dir, "releases/1/sys.config")),
    refused(Dir, unreadable, "releases/1/sys.config is a pipe, a socket, a device or a file of the "
            "kernel: remove it, or put a regular file there").

%% The compiler has no place to write: the directory is missing, or it has no room.
no_temporary(Config) ->
    Dir = in("src_only", Config),
    made:file(filename:join(Dir, "src/s.app.src"), "{application, s, [{vsn, \"1\"}]}."),
    made:file(filename:join(Dir, "src/s.erl"), "-module(s)."),
    Script = made:file(in("script", Config),
                       ["#!/usr/bin/env escript\n%% ", lists:duplicate(100000, $x),
                        "\nmain(_) -> ok.\n"]),
    in_temporary(in("none", Config), fun() ->
        refused(Dir, no_temporary, "/none cannot be written \\(no such file or directory\\): name")
    end),
    small_disk:with("8k", fun(Disk) ->
        in_temporary(Disk, fun() ->
            refused(Script, no_temporary,
                    "cannot be written \\(no space left on device\\): free space there")
        end),
        ?assertEqual({ok, []}, file:list_dir(Disk))
    end).

in_temporary(Dir, Fun) ->
    Before = os:getenv("TMPDIR"),
    true = os:putenv("TMPDIR", Dir),
    try Fun()
    after
        case Before of
            false -> os:unsetenv("TMPDIR");
            _ -> os:putenv("TMPDIR", Before)
        end
    end.

does_not_compile(Config) ->
    Dir = in("broken", Config),
    made:file(filename:join(Dir, "src/broken.app.src"), "{application, broken, [{vsn, \"1\"}]}."),
    made:file(filename:join(Dir, "src/broken.erl"), "-module(broken).\nf( -> ok.\n"),
    refused(Dir, not_compiled, "does not compile.*broken.erl:2"),
    %% A warning before the error.
    made:file(filename:join(Dir, "src/a.erl"), "-module(a). f() -> ok.\n"),
    refused(Dir, not_compiled, "erlc printed: .*broken.erl:2"),
    made:file(filename:join(Dir, "src/broken.erl"),
              "-module(broken).\n-compile({parse_transform, nope}).\n"),
    refused(Dir, not_compiled, "erlc printed: .*undefined parse transform 'nope'"),
    made:file(filename:join(Dir, "src/broken.erl"), "-module(broken).\nf( -> ok.\n"),
    ok = file:delete(filename:join(Dir, "src/a.erl")),
    made:file(filename:join(Dir, "rebar.config"), ""),
    refused(Dir, not_compiled, "rebar3 compile printed.*broken.erl").

not_fetched(Config) ->
    Dir = in("lacks", Config),
    made:file(filename:join(Dir, "src/lacks.app.src"),
              "{application, lacks, [{vsn, \"1\"}, {applications, [nodep]}]}."),
    made:file(filename:join(Dir, "rebar.config"),
              "{deps, [{nodep, {git, \"https://localhost:1/nodep.git\", {tag, \"1\"}}}]}."),
    refused(Dir, not_fetched, "run `rebar3 get-deps' in it .*printed: Fetching nodep").

%% priv may be a link, as in rebar3's layout, but not a link to a directory above it.
link_loop(Config) ->
    Dir = made:app(in("loop", Config), loop, [], [{loop, "-module(loop)."}]),
    made:file(in("elsewhere/file", Config), "text"),
    ok = file:make_symlink("../elsewhere", filename:join(Dir, "priv")),
    {ok, System} = read(Dir),
    {ok, #{files := Files}} = whittle_system:app(loop, System),
    ?assertEqual([<<"priv/file">>], maps:keys(Files)),
    ok = file:make_symlink("../loop", in("elsewhere/back", Config)),
    refused(Dir, behind_link, "loop/priv is a symbolic link out of the input, to ../elsewhere, and "
            ".*back/priv.* behind it is a link in a loop: replace the link with").

%% The links of a net have no circle, but the number of paths doubles at each level.
link_net(Config) ->
    [begin
         Dir = made:app(in(Top, Config), net, [], [{net, "-module(net)."}]),
         net(filename:join(Dir, Top), 40),
         refused(Dir, unreadable, "more than 100,000 paths lead to files below .*" ++ Top ++
                 ", and Whittle reads no more: remove")
     end || Top <- ["priv", "src"]],
    %% No compiler runs for so many sources.
    Source = in("source", Config),
    made:file(filename:join(Source, "src/net.app.src"), "{application, net, [{vsn, \"1\"}]}."),
    made:file(filename:join(Source, "src/net.erl"), "no source"),
    net(filename:join(Source, "src"), 40),
    refused(Source, unreadable, "more than 100,000 paths lead to files below .*/src,").

net(Dir, Levels) ->
    [begin
         Level = filename:join(Dir, "d" ++ integer_to_list(N)),
         ok = filelib:ensure_path(Level),
         [ok = file:make_symlink("../d" ++ integer_to_list(N + 1), filename:join(Level, Name))
          || N < Levels, Name <- ["a", "b"]]
     end || N <- lists:seq(0, Levels)].

%% A file that cannot be packed gives an error instead of being left out silently.
other_files(Config) ->
    [begin
         Dir = made:app(in(Name, Config), app, [], [{app, "-module(app)."}]),
         ok = file:make_dir(filename:join(Dir, "priv")),
         ok = Make(filename:join(Dir, "priv")),
         refused(Dir, unreadable, Words)
     end || {Name, Make, Words} <-
                [{"dangling",
                  fun(Priv) -> file:make_symlink("nowhere", filename:join(Priv, "x")) end,
                  "priv/x is a link without a target: remove it"},
                 {"pipe", fun(Priv) ->
                                  "" = os:cmd("mkfifo '" ++ filename:join(Priv, "x") ++ "'"), ok
                          end,
                  "priv/x is a pipe, a socket, a device or a file of the kernel: remove it"},
                 {"name", fun(Priv) ->
                                  prim_file:write_file(<<(list_to_binary(Priv))/binary, "/x", 255>>,
                                                       "")
                          end, "has a name that is not UTF-8: rename it"}]],
    refused("/dev/null", not_a_file, "^/dev/null is neither a file nor a directory: name").

%% A user with a release may name its start script by mistake.
other_script(Config) ->
    File = made:file(in("bin/start", Config), "#!/bin/sh\nexec true\n"),
    refused(File, other_script,
            "start is a script for /bin/sh, not an escript: .* the directory of a release").

%% Whittle adds applications and modules with these names to an output, or `whittle trace' loads
%% them.
reserved_names(Config) ->
    [begin
         Dir = made:app(in(atom_to_list(Name) ++ "-1", Config), Name, [],
                        [{Module, "-module(" ++ atom_to_list(Module) ++ ")."}]),
         {ok, System} = read(Dir),
         Error = case whittle_device:add(System) of
                     {error, Found} -> Found;
                     {ok, _} -> not_refused     % printing a whole system takes minutes
                 end,
         ?assertEqual(unicode:characters_to_binary(
                        [Dir, " has the ", Said, ", and Whittle adds its own of that name to every "
                         "output: rename yours"]),
                      unicode:characters_to_binary(whittle_system:format_error(Error)))
     end || {Name, Module, Said} <-
                [{whittle_start, m, "application whittle_start"},
                 {whittle_control, m, "application whittle_control"},
                 {whittle_trace, m, "application whittle_trace"},
                 {one, whittle_start, "module whittle_start"},
                 {two, whittle_control, "module whittle_control"},
                 {three, whittle_trace_begin, "module whittle_trace_begin"}]],
    {ok, #{modules := Instruments}} = whittle_device:read(whittle_trace),
    ?assertEqual(lists:sort(maps:keys(Instruments)), lists:sort(whittle_device:instruments())),
    %% An application may depend on Whittle's own.
    Asking = made:app(in("asking", Config), asking,
                      [{applications, [kernel, stdlib, whittle_start]}],
                      [{asking, "-module(asking)."}]),
    {ok, Whole} = whittle_read:read(Asking, (staged:options())#{libs =>
                                                                    [whittle_device:lib_dir()]}),
    ?assertEqual(ok, element(1, whittle_device:add(Whole))).

%% A program may list Whittle's libraries, but not its host tools.
host_tools(Config) ->
    [begin
         Dir = made:app(in(atom_to_list(App), Config), asks,
                        [{applications, [kernel, stdlib, App]}], []),
         Options = (staged:options())#{libs => [whittle_device:lib_dir()]},
         case whittle_read:read(Dir, Options) of
             {ok, System} ->
                 ?assertEqual({App, library}, {App, Kind}),
                 ?assertMatch({ok, _}, whittle_system:app(App, System));
             {error, Error} ->
                 ?assertEqual({App, tool}, {App, Kind}),
                 ?assertMatch({missing_applications, {[{App, [asks]}], _}}, Error)
         end
     end || {App, Kind} <- [{whittle_counters, library}, {whittle_start, library},
                            {whittle_shake, tool}, {whittle_system, tool}, {whittle, tool}]].

%% The env.sh of this release is too large for the reader of settings.
large_settings(Config) ->
    Dir = in("rel", Config),
    made:file(filename:join(Dir, "releases/start_erl.data"), "1 1\n"),
    made:file(filename:join(Dir, "releases/1/x.rel"),
              "{release, {\"x\", \"1\"}, {erts, \"1\"}, []}.\n"),
    Env = filename:join(Dir, "releases/1/env.sh"),
    made:file(Env, ["A=1\n", lists:duplicate(1024 * 1024, $#)]),
    refused(Dir, unreadable, "env.sh is larger than Whittle allows \\(docs/inputs.md of Whittle's "
            "source has the limits\\): correct or remove it"),
    made:file(Env, "export A=1\n"),
    {ok, System} = read(Dir),
    ?assertMatch(#{<<"A">> := {always, <<"1">>}}, whittle_system:env(System)).

source_twice(Config) ->
    Dir = in("two", Config),
    made:file(filename:join(Dir, "src/two.app.src"), "{application, two, [{vsn, \"1\"}]}."),
    [made:file(filename:join(Dir, File), "-module(same).\n")
     || File <- ["src/same.erl", "src/below/same.erl"]],
    refused(Dir, source_twice, "module same has two sources in .*below/same.erl").

%% A build of OTP takes a quarter of an hour. These errors come before it.
before_otp(Config) ->
    Dir = in("one", Config),
    Source = filename:join(Dir, "src/one.app.src"),
    Check = fun() -> whittle_read:check_input(Dir, #{otp => "29"}) end,
    Missing = {error, {missing_applications, {[{nobody_has_it, [one]}], "29"}}},
    Spec = "{application, one, [{vsn, \"1\"}, {applications, [kernel, nobody_has_it]}]}.",
    [begin
         made:file(Source, Spec),
         Remove = Break(),
         ?assertMatch({Tag, {error, {Tag, _}}}, {Tag, Check()}),
         Remove(),
         made:file(Source, Spec),
         ?assertEqual(Missing, Check())
     end || {Tag, Break} <-
                [{unreadable, fun() -> fifo(filename:join(Dir, "src/x.erl")) end},
                 {bad_app_file, fun() -> made:file(Source, "{application, one, []"), fun() -> ok end
                                end},
                 {source_twice, fun() -> twice(Dir) end}]],
    %% The same holds for an application that is compiled already.
    made:file(filename:join(Dir, "ebin/one.app"), Spec),
    ?assertEqual(Missing, Check()),
    Remove = fifo(filename:join(Dir, "priv/x")),
    ?assertMatch({error, {unreadable, _}}, Check()),
    Remove(),
    made:file(filename:join(Dir, "ebin/one.beam"), "no module"),
    ?assertMatch({error, {bad_beam, _}}, Check()).

%% Each makes something, and returns a function that removes it.
fifo(File) ->
    ok = filelib:ensure_dir(File),
    "" = os:cmd("mkfifo '" ++ File ++ "'"),
    fun() -> ok = file:delete(File) end.

twice(Dir) ->
    Files = [made:file(filename:join(Dir, Name), "-module(same).\n")
             || Name <- ["src/same.erl", "src/below/same.erl"]],
    fun() -> [ok = file:delete(File) || File <- Files] end.

bad_config(Config) ->
    Dir = in("rel", Config),
    refused_settings(bad_config, "sys.config", [{"[{a,", "line 1"}, {"", "not one list"},
                     {"{a, b}.", "not one list"}, {"[{a, b}].", "a,b"},
                     {"[{a, [b | c]}].", "b"}, {"[a | b].", "not one list"},
                     {"[a].", "a is neither a pair of an application and its settings, nor"},
                     {"[{a, [b]}].", "in the settings of a, b is not a pair whose key is an atom"},
                     {"[{a, [{b, 1, 2}]}].", "a, {b,1,2} is not a pair whose key is an atom"},
                     {"[{a, [{b, 1}, {c, 2}, {b, 3}]}].", "settings of a have the key b twice"},
                     {<<"[{a, [{b, \"\\303\"}]}]. % ", 233>>, "is not UTF-8, and does"},
                     {"[]. [].", "not one list"}], Config),
    refused_settings(bad_config, "sys.config.src",
                     [{"[{a,", "line 1"}, {"[{a, [{b, ${B}}]}, \0].", "up to a zero byte"},
                      {"[{a, \"${\"", "line 1"}], Config),
    [begin
         File = filename:join([Dir, "releases/1", Name]),
         _ = file:delete(File),
         ok = file:make_dir(File),
         ?assertEqual({error, {unreadable, {File, eisdir}}}, release_files(Dir)),
         ok = file:del_dir(File)
     end || Name <- ["sys.config", "sys.config.src", "vm.args", "vm.args.src"]],
    made:file(in("rel/releases/1/sys.config", Config),
              "[{a, [{b, 1}]}, {c, []}, {a, [{b, 2}]}, \"more\"]."),
    {ok, {_, _, Notes}} = release_files(Dir),
    ?assertEqual(["sys.config names further files, which must exist when the program starts: more"],
                 [lists:flatten(Note) || Note <- Notes]),
    made:file(in("rel/releases/1/more.config", Config), "[]."),
    made:file(in("rel/releases/1/sys.config.src", Config), "[{a, [{b, ${B}}]}, \"more\"]."),
    {ok, {_, _, [Further]}} = release_files(Dir),
    ?assertMatch("sys.config.src names further files" ++ _, lists:flatten(Further)),
    made:file(in("rel/releases/1/sys.config.src", Config), "[{a, [{b, ${B}}]"),
    {ok, {_, _, [Doubtful]}} = release_files(Dir),
    ?assertMatch("sys.config.src is no valid configuration with its defaults, and with 0 for "
                 "variables without one: line 1" ++ _, lists:flatten(Doubtful)),
    made:file(in("rel/releases/1/sys.config.src", Config), "[{a, [{b, ${B}}]}, \"more\"]."),
    [begin
         made:file(in("rel/releases/1/vm.args.src", Config), [Text, "\n-sname ${N:-n}\n"]),
         {ok, {_, _, Cookie}} = release_files(Dir),
         ?assertEqual({Text, Unused},
                      {Text, [Line || Note <- Cookie,
                                      "the variable" ++ _ = Line
                                          <- [lists:flatten(io_lib:format("~ts", [Note]))]]})
     end || {Text, Unused} <- [{"-setcookie ${RELEASE_COOKIE}", []},
                               {"-setcookie ${CK}",
                                ["the variable CK in vm.args.src has no effect"]}]],
    made:file(in("rel/releases/1/vm.args.src", Config), "${CK:--setcookie secret}"),
    ?assertMatch({error, {bad_flags, {_, "the default of a variable has a cookie" ++ _}}},
                 release_files(Dir)),
    ok = file:delete(in("rel/releases/1/vm.args.src", Config)),
    %% No start reads this one.
    made:file(in("rel/releases/1/sys.config", Config), "[{a,"),
    {ok, {_, _, [Note]}} = release_files(Dir),
    ?assertMatch({match, _}, re:run(Note, "sys.config.src names .* directory .*: more$")).

refused_settings(Tag, Name, Cases, Config) ->
    Dir = in("rel", Config),
    [begin
         made:file(filename:join([Dir, "releases/1", Name]), Text),
         {error, {Tag, {File, Why}}} = release_files(Dir),
         ?assertEqual(unicode:characters_to_binary(Name), filename:basename(File)),
         ?assertMatch({match, _}, re:run(unicode:characters_to_binary(Why), Words)),
         ?assert(one_line({Tag, {File, Why}}))
     end || {Text, Words} <- Cases],
    ok = file:delete(filename:join([Dir, "releases/1", Name])).

release_files(Dir) ->
    whittle_release_files:read(Dir, filename:join(Dir, "releases/1"), "rel", "1",
                               #{kind => input}).

%% The host's OTP is the one of the program.
newer_strings(Config) ->
    Release = erlang:system_info(otp_release),
    case list_to_integer(Release) < 27 of
        true ->
            Dir = in("newer", Config),
            release(Dir, "1", "[]"),
            [begin
                 File = made:file(in("newer/releases/1/" ++ Name, Config),
                                  ["[{a, [{b, ", Text, "}]}]."]),
                 refused(Dir, bad_config, "triple-quoted string, which OTP " ++ Release ++ " can"),
                 ok = file:delete(File)
             end || Text <- ["~\"x\"", "\"\"\"\n x\n \"\"\""],
                    Name <- ["sys.config", "sys.config.src"]];
        false -> {skip, "the OTP of this machine reads these strings"}
    end.

%% The launcher would refuse them at each start, or not see them.
bad_flags(Config) ->
    Dir = in("rel", Config),
    Zero = {"-heart\n+P 2000\0\n", "^line 2 has a zero byte$"},
    Missing = [{"-env A", "^the values of its last flag, -env, are missing$"},
               {"-heart -sname # x", "^the values of its last flag, -sname, are missing$"},
               {<<"# ", 233, "\n-sname ", 233, "\n">>, "^the word \xC3\xA9 is not UTF-8$"},
               {<<16#EF, 16#BB, 16#BF, "-sname a">>, "^it begins with a byte order mark$"},
               {"-heart -args_file # x", "^the values of its last flag, -args_file, are missing$"}],
    [refused_settings(bad_flags, Name, [Zero | Missing], Config)
     || Name <- ["vm.args", "vm.args.src"]],
    %% A template replaces vm.args, and may become complete. No start reads the third file.
    made:file(filename:join(Dir, "releases/1/vm.args.src"), "-env ${PAIR}"),
    [made:file(filename:join([Dir, "releases/1", Name]), "-env A")
     || Name <- ["vm.args", "vm.args.bak"]],
    ?assertMatch({ok, {_, _, []}}, release_files(Dir)),
    ok = file:delete(filename:join(Dir, "releases/1/vm.args.src")),
    Notes = fun(Text) ->
                    made:file(filename:join(Dir, "releases/1/vm.args"), Text),
                    {ok, {_, _, Notes}} = release_files(Dir),
                    [unicode:characters_to_list(Note) || Note <- Notes]
            end,
    ?assertEqual(["vm.args: the first word, name, is no flag, so it has no effect: write -name"],
                 Notes("# ${NAME}\nname tally\n")),
    [Long] = Notes(lists:duplicate(100_000, $x)),
    ?assert(length(Long) < 250),
    ?assertEqual(["vm.args: the quote in line 2 has no end, so the rest of the file belongs to it"],
                 Notes("-name a@b\n-kernel x '\"y\n\n# end\n")),
    %% A quote in a comment, a quoted quote, an empty word, and what follows -extra.
    [?assertEqual({Text, []}, {Text, Notes(Text)})
     || Text <- ["", "# isn't a quote\n-heart", "-a \\\" b", "-env A -env -b c", "-extra -env",
                 "+P 1000 -kernel a '\"x\"'\n", "-a \"\"", "-a b\\", "-a ''# it's"]].

bad_flags_of_an_escript(Config) ->
    Script = in("s.escript", Config),
    [begin
         made:file(Script, ["#!/usr/bin/env escript\n%%! ", Flags, "\nmain(_) -> ok.\n"]),
         refused(Script, bad_flags, "the flags in .*/s.escript are wrong \\(the values of its last "
                 "flag, -env, are missing\\): correct them")
     end || Flags <- ["-env A", "-heart -env"]].

%% Such names in an .app file would lead out of an output, or look like options.
odd_names(Config) ->
    Dir = in("bad", Config),
    [begin
         made:file(filename:join(Dir, "ebin/bad.app"), ["{application, ", Text, "}."]),
         refused(Dir, bad_app_file, Words)
     end || {Text, Words} <-
                [{"'../../x', [{vsn, \"1\"}]",
                  "the application's name `../../x' contains a /; correct"},
                 {"'-x', [{vsn, \"1\"}]", "`-x' begins with -"},
                 {"'.x', [{vsn, \"1\"}]", "`.x' begins with a dot"},
                 {"'', [{vsn, \"1\"}]", "`' is empty"},
                 {"'a\\nb', [{vsn, \"1\"}]", "`a\\\\x{A}b' contains a control character"},
                 {"'a\\x{202E}b', [{vsn, \"1\"}]",
                  "`a\\\\x{202E}b' contains an invisible format character"},
                 {"other, [{vsn, \"1\"}]", "it describes the application other"},
                 {"bad, [{vsn, \"..\"}]", "`vsn' begins with a dot"},
                 {"bad, [{vsn, \"-1\"}]", "`vsn' begins with -"},
                 {"bad, [{vsn, \"1\\r2\"}]", "`vsn' contains a control character"},
                 {"bad, [{vsn, \"1\"}, {modules, ['../m']}]",
                  "the name `../m' in `modules' contains a /"},
                 {"bad, [{vsn, \"1\"}, {applications, ['../a']}]",
                  "the name `../a' in `applications' contains a /"},
                 {"bad, [{vsn, \"1\"}, {included_applications, ['-']}]",
                  "in `included_applications' begins with -"}]],
    %% The same holds in source.
    made:file(in("l/src/l.app.src", Config), "{application, '../l', [{vsn, \"1\"}]}."),
    refused(in("l", Config), bad_app_file, "the application's name `../l' contains a /"),
    Module = made:app(in("mod", Config), mod, [{modules, []}], []),
    made:file(filename:join(Module, "ebin/-m.beam"), made:beam("-module('-m').")),
    refused(Module, odd_name, "the module's name `-m' begins with -: rename it"),
    ok = file:delete(filename:join(Module, "ebin/-m.beam")),
    made:file(filename:join(Module, "ebin/m~cold.beam"), made:beam("-module('m~cold').")),
    refused(Module, odd_name, "`m~cold' ends with ~cold, and Whittle makes modules of such names").

odd_names_in_releases(Config) ->
    Dir = in("rel", Config),
    [begin
         release(Dir, "1.2.3", Apps, Name, Vsn),
         refused(Dir, bad_rel_file, Words)
     end || {Apps, Name, Vsn, Words} <-
                [{"[]", "../evil", "1", "x.rel: the release's name `../evil' contains a /; build"},
                 {"[]", "/etc/x", "1", "the release's name `/etc/x' contains a /"},
                 {"[]", "-o", "1", "the release's name `-o' begins with -"},
                 {"[]", "x", "../../x", "the release's version `../../x' contains a /"},
                 {"[]", "x", "..", "the release's version `..' begins with a dot"},
                 {"[]", "x", "", "the release's version `' is empty"},
                 {"[{'../../x', \"1\"}]", "x", "1",
                  "the application's name `../../x' contains a /"},
                 {"[{x, \"../x\"}]", "x", "1", "the application's version `../x' contains a /"},
                 {"[{x, \"1\"}, {x, \"1\"}]", "x", "1",
                  "x.rel: it lists the application x twice; "},
                 {"[{x, \"1\", bogus}]", "x", "1",
                  "x.rel: it gives the application x the start type bogus; the types are perm"}]
                ++ [{"[]", [$x, Format, $y], "1", "y' contains an invisible format character"}
                    || Format <- [16#AD, 16#200B, 16#200F, 16#202A, 16#202E, 16#2060, 16#2064,
                                  16#2066, 16#206F, 16#FEFF, 16#E0020]]],
    release(Dir, "1.2.3", "[]"),
    made:file(filename:join(Dir, "releases/start_erl.data"), "1.2.3 ../x\n"),
    refused(Dir, bad_rel_file, "start_erl.data: the version `../x' contains a /").

odd_names_in_escripts(Config) ->
    Main = "-export([main/1]). main(_) -> ok.",
    Odd = in("-odd", Config),
    made:file(Odd, ["#!/usr/bin/env escript\n", Main]),
    refused(Odd, odd_name, "-odd: the script's name `-odd' begins with -"),
    %% The name would place its source outside of the directory.
    Outside = filename:join(os:getenv("TMPDIR", "/tmp"), "whittle_outside"),
    Leads = made:file(in("leads", Config), ["#!/usr/bin/env escript\n"
                                            "-module('../whittle_outside').\n", Main]),
    refused(Leads, odd_name, "the module's name `../whittle_outside' contains a /"),
    ?assertEqual([], filelib:wildcard(Outside ++ "*")),
    %% The module's file name needs five bytes more.
    Long = lists:duplicate(251, $a),
    refused(made:file(in(Long, Config), ["#!/usr/bin/env escript\n", Main]), odd_name,
            "the module's name `" ++ Long ++ "' is longer than 250 bytes: rename it"),
    Beam = in("beam", Config),
    ok = escript:create(Beam, [shebang, {beam, made:beam("-module('../x'). " ++ Main)}]),
    refused(Beam, odd_name, "the module's name `../x' contains a /"),
    Flags = in("flags", Config),
    ok = escript:create(Flags, [shebang, {emu_args, "-escript main ../x"},
                                {archive, [{"a/ebin/a.beam", made:beam("-module(a). " ++ Main)}],
                                 []}]),
    refused(Flags, odd_name, "the main module's name `../x' contains a /").

%% Files may have any names, but a list with one file per line must stay intact.
odd_files(Config) ->
    Dir = made:app(in("files", Config), files, [], []),
    made:file(filename:join(Dir, "priv/.well-known/-x"), ""),
    {ok, System} = read(Dir),
    {ok, #{files := Files}} = whittle_system:app(files, System),
    ?assertEqual([<<"priv/.well-known/-x">>], maps:keys(Files)),
    made:file(filename:join(Dir, "priv/a\nb"), ""),
    refused(Dir, unreadable, "priv/a.x{A}b contains a control character: rename the file"),
    Release = in("rel", Config),
    release(Release, "1.2.3", "[]"),
    made:file(filename:join(Release, "releases/1/a\nb"), ""),
    refused(Release, unreadable, "releases/1/a.x{A}b contains a control character").

%% The reader checks the claims of an archive before the data can fill the memory.
archives(Config) ->
    Main = made:beam("-module(arc). -export([main/1]). main(_) -> ok."),
    Script = fun(Files) ->
                     File = in("arc", Config),
                     {ok, {_, Made}} = zip:create("x", [{"arc.beam", Main} | Files], [memory]),
                     %% `zip' makes no absolute paths.
                     Archive = binary:replace(Made, <<"ABSOLUTE">>, <<"/BSOLUTE">>, [global]),
                     made:file(File, <<"#!/usr/bin/env escript\n%%! -escript main arc\n",
                                       Archive/binary>>)
             end,
    {ok, _} = read(Script([{"a/b/", <<>>}, {"c", <<>>}])),
    [refused(Script(Files), bad_archive, Words)
     || {Files, Words} <-
            [{[{"x", <<>>}, {"x/y", <<>>}],
              "arc holds the path `x', which is a file and a directory: build"},
             {[{"../x", <<>>}], "arc holds the path `../x', which contains the name .."},
             {[{"ABSOLUTE", <<>>}], "arc holds the path `/BSOLUTE', which contains an empty name"},
             {[{"a\nb", <<>>}], "holds the path `a.x{A}b', which contains a control character"},
             {[{"x", <<"1">>}, {"x", <<"2">>}], "arc holds the path `x', which occurs twice"},
             {[{integer_to_list(N), <<0:(100 bsl 23)>>} || N <- [1, 2, 3]],
              "inflates to more than 256 MB"}]],
    %% The archive claims to be small.
    {ok, Bytes} = file:read_file(Script([{"zeros", <<0:(16 bsl 23)>>}])),
    Claims = binary:replace(Bytes, <<(16 bsl 20):32/little>>, <<1:32/little>>, [global]),
    ?assertNotEqual(Bytes, Claims),
    refused(made:file(in("arc", Config), Claims), bad_archive, "arc is damaged").

%% The parser needs hundreds of bytes of memory for each byte of a text. A module has another limit.
large_texts(Config) ->
    Long = fun(Bytes) -> [binary:copy(<<$\s>>, Bytes), "[]."] end,
    Dir = made:app(in("app", Config), app, [], []),
    {ok, Text} = file:read_file(filename:join(Dir, "ebin/app.app")),
    made:file(filename:join(Dir, "ebin/app.app"), [Text, Long(4 * 1024 * 1024)]),
    refused(Dir, unreadable, "ebin/app.app is larger than Whittle allows"),
    made:file(filename:join(Dir, "ebin/app.app"), Text),
    made:file(filename:join(Dir, "ebin/m.beam"), Long(64 * 1024 * 1024)),
    refused(Dir, unreadable, "ebin/m.beam is larger than Whittle allows"),
    Rel = in("rel", Config),
    release(Rel, "1.2.3", "[]"),
    made:file(filename:join(Rel, "releases/1/sys.config"), Long(4 * 1024 * 1024)),
    refused(Rel, unreadable, "releases/1/sys.config is larger than Whittle allows").

%% Ten kilobytes would inflate to three gigabytes.
boot_that_inflates(Config) ->
    Dir = in("rel", Config),
    release(Dir, "1.2.3", "[]"),
    Boot = filename:join(Dir, "releases/1/start.boot"),
    Term = term_to_binary({script, {"x", "1"}, [{progress, init_kernel_started}]}, [compressed]),
    Z = zlib:open(),
    ok = zlib:deflateInit(Z, best_compression),
    %% After a full flush, the same part deflates to the same bytes. The checksum at the end is
    %% wrong, but nothing may read so far.
    [First, Next] = [zlib:deflate(Z, <<0:(16 bsl 23)>>, full) || _ <- [1, 2]],
    Zeros = [First | lists:duplicate(3 * 64 - 1, Next)],
    Bomb = [<<131, 80, (3 bsl 30):32>>, Zeros, zlib:deflate(Z, [], finish)],
    made:file(Boot, iolist_to_binary(Bomb)),
    refused(Dir, large_boot, "start.boot has more than 16 MB \\(uncompressed\\), and Whittle"),
    %% The data claims to be small.
    [<<Head:2/binary, _:32, Rest/binary>>] = [iolist_to_binary(Bomb)],
    made:file(Boot, <<Head/binary, 100:32, Rest/binary>>),
    refused(Dir, bad_own_boot, "start.boot is not a boot file"),
    made:file(Boot, Term),
    {ok, _} = read(Dir),
    %% This script is valid, but longer than the limit, compressed or not.
    Long = {script, {"x", "1"}, [{progress, init_kernel_started}, <<0:(17 bsl 23)>>]},
    [begin
         made:file(Boot, term_to_binary(Long, Options)),
         refused(Dir, large_boot, "start.boot has more than 16 MB")
     end || Options <- [[], [compressed]]],
    %% The script has more names than the VM has room for.
    Names = [<<119, 4, N:32>> || N <- lists:seq(16#30303030, 16#30303030 + 65_535)],
    made:file(Boot, iolist_to_binary([<<131, 108, 65_536:32>>, Names, 106])),
    made:in_small_vm(fun() ->
                             refused(Dir, boot_names, "start.boot has more different names than")
                     end),
    ok = file:delete(Boot),
    "" = os:cmd("mkfifo '" ++ Boot ++ "'"),
    refused(Dir, unreadable, "start.boot is a pipe, a socket, a device or a file of the kernel").

%% Sparse files of five gigabytes are never read.
large_files(Config) ->
    Large = fun(File, Named, Path) ->
                    {ok, Before} = file:read_file(File),
                    {ok, Fd} = file:open(File, [read, write, raw]),
                    {ok, _} = file:position(Fd, 5 * 1024 * 1024 * 1024),
                    ok = file:truncate(Fd),
                    ok = file:close(Fd),
                    refused(Path, unreadable,
                            Named ++ " is larger than Whittle allows \\(docs/inputs.md of "
                            "Whittle's source has the limits\\): correct or remove it"),
                    ok = file:write_file(File, Before)
            end,
    App = made:app(in("app", Config), app, [], [{app, "-module(app)."}]),
    made:file(filename:join(App, "priv/data"), ""),
    [Large(filename:join(App, Path), Path, App)
     || Path <- ["ebin/app.app", "ebin/app.beam", "priv/data"]],
    made:file(in("l/src/l.app.src", Config), "{application, l, [{vsn, \"1\"}]}."),
    Large(in("l/src/l.app.src", Config), "src/l.app.src", in("l", Config)),
    Rel = in("rel", Config),
    release(Rel, "1.2.3", "[]"),
    made:file(in("rel/releases/1/sys.config", Config), "[]."),
    made:file(in("rel/releases/1/vm.args", Config), ""),
    made:file(in("rel/releases/1/consolidated/odd.beam", Config), made:beam("-module(odd).")),
    [Large(filename:join(Rel, Path), Path, Rel)
     || Path <- ["releases/start_erl.data", "releases/1/x.rel", "releases/1/sys.config",
                 "releases/1/vm.args", "releases/1/consolidated/odd.beam"]].

%% Nothing reads such an escript whole.
large_escripts(Config) ->
    [begin
         File = made:file(in("script", Config), ["#!/usr/bin/env escript\n", Begin]),
         {ok, Fd} = file:open(File, [read, write, raw]),
         {ok, _} = file:position(Fd, Size),
         ok = file:truncate(Fd),
         ok = file:close(Fd),
         refused(File, unreadable, "script is larger than Whittle allows")
     end || {Begin, Size} <- [{"main(_) -> ok.\n", 5 bsl 20}, {"PK", 5 bsl 30},
                              {"FOR1", 5 bsl 30}]].

%% The flags lie in the second line, or in the third one behind a comment. The file ends behind its
%% first lines.
heads_of_escripts(Config) ->
    Beam = made:beam("-module(heads). -export([main/1]). main(_) -> ok."),
    File = fun(Lines, Body) ->
                   made:file(in("heads", Config),
                             iolist_to_binary(["#!/usr/bin/env escript\n", Lines, Body]))
           end,
    [begin
         {ok, System} = read(File(Lines, Beam)),
         ?assertMatch(#{<<"vm.args">> := #{bytes := Flags}}, whittle_system:files(System))
     end || {Lines, Flags} <- [{"", <<"\n">>}, {"% comment\n", <<"\n">>},
                               {"%%!  +A 1 \n", <<"+A 1\n">>},
                               {"%% -*- erlang -*-\n%%! +A 1\n", <<"+A 1\n">>},
                               {<<"%%! -env A \303\251\n">>, <<"-env A \303\251\n">>}]],
    {ok, _} = read(File("%% a comment\n", "main(_) -> ok.\n")),
    [refused(File(Lines, ""), empty_escript, "heads has no code behind its first lines")
     || Lines <- ["", "% comment\n", "% comment", "%%! +A 1\n", "%%! +A 1"]].

%% The output contains all files, or the build fails. A path has at most 4,096 bytes.
deep_files(Config) ->
    Dir = made:app(in("deep", Config), deep, [], []),
    Deep = filename:join(lists:duplicate(200, "d")),
    made:file(filename:join([Dir, "priv", Deep, "file"]), "text"),
    {ok, System} = read(Dir),
    {ok, #{files := Files}} = whittle_system:app(deep, System),
    Path = unicode:characters_to_binary(filename:join(["priv", Deep, "file"])),
    ?assertMatch(#{Path := #{bytes := <<"text">>}}, Files),
    %% No program can open this file by its full path.
    Long = lists:duplicate(200, $d),
    "" = os:cmd("cd '" ++ filename:join(Dir, "priv") ++ "' && for i in $(seq 25); do mkdir "
                ++ Long ++ " && cd -P " ++ Long ++ " || exit; done"),
    refused(Dir, unreadable, "cannot be read \\(file name too long\\)"),
    "" = os:cmd("rm -r '" ++ filename:join(Dir, "priv") ++ "'").

%% An unreadable directory does not count as empty.
unlisted_directory(Config) ->
    Dir = made:app(in("closed", Config), closed, [], []),
    made:file(filename:join(Dir, "priv"), "text"),
    refused(Dir, unreadable, "priv is a file, but only a directory may have this name"),
    ok = file:delete(filename:join(Dir, "priv")),
    made:file(filename:join(Dir, "priv/below/file"), "text"),
    Below = filename:join(Dir, "priv/below"),
    ok = file:change_mode(Below, 0),
    case file:list_dir(Below) of
        {error, eacces} -> refused(Dir, unreadable, "priv/below cannot be read");
        {ok, _} -> ok                   % root can read everything
    end,
    ok = file:change_mode(Below, 8#755).

%% A compiler would wait forever for a pipe, and read a device forever.
endless_sources(Config) ->
    ct:timetrap({minutes, 5}),
    Link = fun(To) -> fun(File) ->
                              ok = filelib:ensure_dir(File),
                              ok = file:make_symlink(To, File)
                      end
           end,
    Makes = [{"pipe", fun fifo/1}, {"zero", Link("/dev/zero")}, {"kmsg", Link("/proc/kmsg")}],
    Refused = fun(Kind, Path, {Name, Make}, Prepare) ->
                      Dir = in(filename:join([Kind, Name, Path]), Config),
                      source_files(Dir, ""),
                      ok = Prepare(Dir),
                      _ = file:delete(filename:join(Dir, Path)),
                      Make(filename:join(Dir, Path)),
                      refused(Dir, unreadable, Path ++ " is a pipe, a socket, a device or a file "
                                                       "of "
                              "the kernel: remove it")
              end,
    Nothing = fun(_) -> ok end,
    [Refused("app", Path, Make, Nothing)
     || Path <- ["src/l.erl", "src/deep/h.hrl", "src/x.xrl", "src/l.app.src", "include/h.hrl"],
        Make <- Makes],
    Project = fun(Dir) ->
                      made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
                      source_files(filename:join(Dir, "apps/m"), "m"),
                      ok
              end,
    [Refused("project", Path, Make, Project)
     || Path <- ["rebar.config", "rebar.lock", "rebar.config.script", "src/l.erl",
                 "src/l.app.src.script", "apps/m/src/m.erl", "apps/m/include/h.hrl",
                 "_checkouts/c/src/c.app.src", "_build/default/lib/d/src/d.erl"],
        Make <- [hd(Makes)]],
    %% An include may lead anywhere.
    Away = in("away/pipe", Config),
    fifo(Away),
    Include = ["-include(\"", Away, "\").\n"],
    made:file(in("including/src/l.app.src", Config), "{application, l, [{vsn, \"1\"}]}."),
    made:file(in("including/src/l.erl", Config), ["-module(l).\n", Include]),
    made:file(in("script", Config), ["#!/usr/bin/env escript\n", Include, "main(_) -> ok.\n"]),
    [refused(in(Input, Config), unreadable, "away/pipe is a pipe, a socket, a device or a file of "
                                            "the kernel: remove it")
     || Input <- ["including", "script"]],
    Included = fun(Name, Where, Line) ->
                       made:file(in(Name ++ "/rebar.config", Config),
                                 "{erl_opts, [{i, \"more\"}]}.\n"),
                       source_files(in(Name, Config), ""),
                       source_files(in(Name ++ "/apps/m", Config), "m"),
                       fifo(in(filename:join(Name, Where), Config)),
                       made:file(in(Name ++ "/apps/m/src/m.erl", Config), ["-module(m).\n", Line]),
                       refused(in(Name, Config), unreadable,
                               filename:basename(Where) ++ " is a pipe, a socket, a device or a "
                               "file of the kernel: remove it")
               end,
    _ = file:delete(Away),
    Included("out", "../away/pipe", Include),
    Included("lib", "other/pipe", "-include_lib(\"l/other/pipe\").\n"),
    Included("option", "more/pipe", "-include(\"pipe\").\n"),
    Included("below", "apps/m/include/deep/pipe", "-include(\"deep/pipe\").\n"),
    %% Shells complete the name of a directory with a slash.
    [refused(in("below", Config) ++ Slash, unreadable, "deep/pipe is a pipe")
     || Slash <- ["/", "//", "/."]],
    %% Pipes in other places do no harm. A release that runs has some. A loop of links does no
    %% harm either.
    Dir = in("good", Config),
    source_files(Dir, ""),
    ok = Project(Dir),
    [fifo(filename:join(Dir, Path)) || Path <- ["log/pipe", "_build/default/rel/l/erlang.pipe.1.w",
                                                "x.pipe"]],
    made:file(filename:join(Dir, "c_src/x.c"), ""),
    ok = file:make_symlink(".", filename:join(Dir, "c_src/again")),
    {ok, _} = read(Dir),
    ok.

source_files(Dir, Name) ->
    App = case Name of "" -> "l"; _ -> Name end,
    made:file(filename:join([Dir, "src", App ++ ".app.src"]),
              ["{application, ", App, ", [{vsn, \"1\"}]}."]),
    made:file(filename:join([Dir, "src", App ++ ".erl"]), ["-module(", App, ")."]),
    ok.

%% These files claim to be empty.
endless_files(Config) ->
    ct:timetrap({minutes, 5}),
    Dir = made:app(in("app", Config), app, [], []),
    File = filename:join(Dir, "priv/x"),
    ok = filelib:ensure_dir(File),
    [begin
         ok = file:make_symlink(To, File),
         refused(Dir, unreadable, "priv/x is a pipe, a socket, a device or a file of the kernel"),
         refused(File, unreadable, "priv/x is a pipe, a socket, a device or a file of the kernel"),
         ok = file:delete(File)
     end || To <- ["/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem", "/proc/version"]],
    made:file(File, ""),
    {ok, _} = read(Dir),
    ok.

%% The build never drops a license or a cookie silently.
notices(Config) ->
    ct:timetrap({minutes, 5}),
    Dir = made:app(in("app", Config), app, [], []),
    fifo(filename:join(Dir, "LICENSE")),
    refused(Dir, unreadable, "LICENSE is a pipe"),
    Rel = in("rel", Config),
    release(Rel, "1.2.3", "[]"),
    fifo(filename:join(Rel, "releases/COOKIE")),
    {ok, System} = read(Rel),
    [#{notes := Notes}] = whittle_system:ledger(System),
    ?assertMatch([_], [Note || Note <- Notes,
                               binary:match(Note, <<"releases/COOKIE">>) =/= nomatch]),
    fifo(filename:join(Rel, "releases/1/env.sh")),
    refused(Rel, unreadable, "releases/1/env.sh is a pipe").

%% A stock release has these files in the application's directory.
files_left_out(Config) ->
    Dir = made:app(in("app", Config), app, [], [{app, "-module(app)."}]),
    Notes = fun() ->
                    {ok, System} = read(Dir),
                    [#{notes := Notes}] = whittle_system:ledger(System),
                    [Note || Note <- Notes, binary:match(Note, <<"leaves out">>) =/= nomatch]
            end,
    [made:file(filename:join(Dir, Path), "")
     || Path <- ["priv/x", "include/x.hrl", "src/x.txt", "test/x", "doc/x", "c_src/x.c", "_build/x",
                 ".git/x", "rebar.config.x", "rebar.lock", "README.md", "LICENSE", "Makefile",
                 "ebin/.gitignore"]],
    ok = file:delete(filename:join(Dir, "src/x.txt")),
    ok = file:del_dir_r(filename:join(Dir, "priv")),
    ok = file:make_symlink("nowhere", filename:join(Dir, "priv")),
    ?assertEqual([], Notes()),
    [made:file(filename:join(Dir, Path), "") || Path <- ["etc/p.terms", "ebin/p.terms", "top.cfg"]],
    ?assertEqual([<<"app: Whittle packs only modules, priv and include, and leaves out: etc/, "
                    "top.cfg, ebin/p.terms">>], Notes()),
    [made:file(filename:join(Dir, "x" ++ integer_to_list(N)), "") || N <- lists:seq(1, 4)],
    ?assertEqual([<<"app: Whittle packs only modules, priv and include, and leaves out: etc/, "
                    "top.cfg, x1, x2, x3 and 2 more">>], Notes()).

%% A pack has only files.
empty_directories(Config) ->
    Dir = made:app(in("app", Config), app, [], [{app, "-module(app)."}]),
    made:file(filename:join(Dir, "priv/full/file"), ""),
    ok = filelib:ensure_path(filename:join(Dir, "priv/full/empty")),
    ok = filelib:ensure_path(filename:join(Dir, "priv/inbox")),
    {ok, System} = read(Dir),
    [#{notes := Notes}] = whittle_system:ledger(System),
    ?assertEqual([<<"app: Whittle packs only modules, priv and include, and leaves out: "
                    "priv/full/empty/ (empty), priv/inbox/ (empty)">>],
                 [Note || Note <- Notes, binary:match(Note, <<"leaves out">>) =/= nomatch]).

no_otp(Config) ->
    ?assertMatch({error, {no_otp, _}},
                 whittle_read:read(in("x", Config), #{otp_lib => in("lib", Config)})).

%% Internal

read(Path) -> whittle_read:read(Path, staged:options()).

refused(Path, Tag, Words) ->
    %% common_test would take minutes to print a whole system in a failure.
    {Is, _} = Error = case read(Path) of
                          {error, Found} -> Found;
                          {ok, _} -> {not_refused, Words}
                      end,
    ?assertEqual({Tag, Words}, {Is, Words}),
    Line = iolist_to_binary(unicode:characters_to_binary(whittle_system:format_error(Error))),
    ?assertMatch({_, {match, _}}, {Line, re:run(Line, Words)}),
    ?assert(one_line(Error)).

one_line(Error) ->
    Line = unicode:characters_to_binary(whittle_system:format_error(Error)),
    is_binary(Line) andalso binary:match(Line, <<"\n">>) =:= nomatch.

source(Dir, Name, Needs) ->
    made:file(filename:join([Dir, "apps", Name, "src", Name ++ ".app.src"]),
              ["{application, ", Name, ", [{vsn, \"1\"}, {applications, [", Needs, "]}]}.\n"]).

release(Dir, Erts, Apps) ->
    release(Dir, Erts, Apps, "x", "1").

release(Dir, Erts, Apps, Name, Vsn) ->
    made:file(filename:join(Dir, "releases/start_erl.data"), [Erts, " 1\n"]),
    made:file(filename:join(Dir, "releases/1/x.rel"),
              ["{release, {\"", Name, "\", \"", Vsn, "\"}, {erts, \"", Erts, "\"}, ", Apps,
               "}.\n"]).

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
