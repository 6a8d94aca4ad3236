%% @doc Tests each kind of input. The usual tool makes it, the suite reads it, and a real node
%% runs it.
-module(whittle_read_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([hello_project/1, embedded_mode/1, plain_source/1, compiled_application/1,
         source_without_module/1,
         edited_header/1, named_in_unicode/1, umbrella/1, checkouts/1,
         part_of_a_repository/1, places_by_script/1, one_build_of_a_project/1,
         files_of_relx/1, relx_release/1, release_without_system_libs/1, odd_settings/1,
         cookies_of_release/1, settings_that_always_run/1, lines_of_shell/1, mix_release/1,
         older_copies/1, rebar3_escript/1, mix_escript/1, flat_archive/1, source_escript/1,
         escript_with_module_line/1, escript_that_calls/1, escript_exit_codes/1,
         escript_flags/1, relay_on_two_nodes/1, many_modules/1, optional_applications/1,
         included_applications/1, called_applications/1, calls_by_name/1, called_by_otp/1,
         library_directories/1, names_of_files/1,
         application_start_order/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [hello_project, embedded_mode, plain_source, compiled_application,
     source_without_module, edited_header,
     named_in_unicode, umbrella, checkouts, part_of_a_repository, places_by_script,
     one_build_of_a_project, files_of_relx, relx_release, release_without_system_libs,
     odd_settings, cookies_of_release, settings_that_always_run, lines_of_shell, mix_release,
     older_copies, rebar3_escript, mix_escript, flat_archive, source_escript,
     escript_with_module_line, escript_that_calls, escript_exit_codes, escript_flags,
     relay_on_two_nodes, many_modules, optional_applications, included_applications,
     called_applications, calls_by_name, called_by_otp, library_directories,
     names_of_files,
     application_start_order].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% Inputs

hello_project(Config) ->
    System = read(example("hello", Config)),
    ?assertEqual("hello", whittle_system:name(System)),
    ?assertEqual([hello, kernel, stdlib], names(System)),
    ?assertEqual({0, <<"Hello from one file.\n">>}, run(System, [], Config)).

%% This mode uses the lists after kernel_load_completed.
embedded_mode(Config) ->
    System = read(example("hello", Config)),
    Dir = staged:write(System, in("staged", Config)),
    Port = staged:start(System, Dir, ["-mode", "embedded"]),
    ?assertEqual([], made:expect(Port, "Hello from one file")).

%% Without a rebar.config and compiled code, erlc compiles, and the directory stays unchanged. The
%% brackets in its name are no pattern.
plain_source(Config) ->
    Dir = in("plain[1]", Config),
    made:file(in("plain[1]/src/plain.app.src", Config),
              "{application, plain, [{vsn, \"3\"}, {mod, {plain, []}},"
              " {applications, [kernel, stdlib]}]}.\n"),
    made:file(in("plain[1]/include/plain.hrl", Config), "-define(WORD, \"from a header\").\n"),
    made:file(in("plain[1]/src/plain_behavior.erl", Config),
              "-module(plain_behavior).\n-callback word() -> string().\n"),
    made:file(in("plain[1]/src/plain_scan.xrl", Config),
              "Definitions.\nRules.\n[a-z]+ : {token, TokenChars}.\n\\s : skip_token.\n"
              "Erlang code.\n"),
    %% A compiler that ran in this directory left this file.
    made:file(in("plain[1]/src/plain_scan.erl", Config), "-module(plain_scan).\n"),
    made:file(in("plain[1]/src/a_word.erl", Config),
              "-module(a_word).\n-behaviour(plain_behavior).\n-export([word/0]).\n"
              "-include(\"plain.hrl\").\nword() -> ?WORD.\n"),
    made:file(in("plain[1]/src/plain.erl", Config),
              "-module(plain).\n-export([start/2, stop/1]).\n"
              "start(_, _) -> {ok, Words, _} = plain_scan:string(a_word:word()),\n"
              "  io:format(\"~p~n\", [Words]), init:stop(),"
              " {ok, spawn(timer, sleep, [infinity])}.\nstop(_) -> ok.\n"),
    Before = filelib:wildcard("**", Dir),
    System = read(Dir),
    ?assertEqual(Before, filelib:wildcard("**", Dir)),
    ?assert(System =:= read(Dir)),
    {ok, #{modules := Modules, vsn := "3"}} = whittle_system:app(plain, System),
    [?assertMatch({ok, #{modules := Modules}}, whittle_system:app(plain, read(Dir ++ End)))
     || End <- ["/", "/.", "/././", "/src/.."]],
    ?assertEqual([a_word, plain, plain_behavior, plain_scan], lists:sort(maps:keys(Modules))),
    ?assertEqual({0, <<"[\"from\",\"a\",\"header\"]\n">>}, run(System, [], Config)).

compiled_application(Config) ->
    Dir = made:app(in("one", Config), one, [{env, [{a, 1}]}],
                   [{one, "-module(one). -export([f/0]). f() -> 1."}]),
    made:file(filename:join(Dir, "priv/a/b.txt"), "text"),
    made:file(filename:join(Dir, "src/ignored.txt"), ""),
    made:file(filename:join(Dir, "LICENSE.md"), "mine"),
    made:file(filename:join(Dir, "README.md"), ""),
    {ok, App} = whittle_system:app(one, read(Dir)),
    ?assertMatch(#{files := #{<<"priv/a/b.txt">> := #{bytes := <<"text">>},
                              <<"LICENSE.md">> := #{bytes := <<"mine">>}},
                   origin := #{kind := input, asked_by := []}}, App),
    #{files := Files} = App,
    ?assertNot(is_map_key(<<"README.md">>, Files)).

%% An application may have left out a source, or lost its module.
source_without_module(Config) ->
    Dir = made:app(in("one", Config), one, [], [{one, "-module(one). -export([f/0]). f() -> 1."}]),
    Notes = fun() ->
                    [#{notes := Notes} | _] = whittle_system:ledger(read(Dir)),
                    [Note || Note <- Notes, binary:match(Note, <<"no module">>) =/= nomatch]
            end,
    [ok = file:change_time(made:file(filename:join(Dir, Path), ""), {{2001, 1, 1}, {0, 0, 0}})
     || Path <- ["src/one.erl", "src/one.txt"]],
    ?assertEqual([], Notes()),
    [ok = file:change_time(made:file(filename:join(Dir, Path), ""), {{2001, 1, 1}, {0, 0, 0}})
     || Path <- ["src/two.erl", "src/below/three.xrl"]],
    ?assertEqual([unicode:characters_to_binary(
                    [Dir, ": these sources have no module in ebin: src/below/three.xrl, "
                     "src/two.erl; if the program needs them, compile the application, or remove "
                     "ebin: then Whittle compiles the application"])], Notes()).

%% The code is compiled again if a source file or a header is newer.
edited_header(Config) ->
    Later = {{2040, 1, 1}, {0, 0, 0}},
    [begin
         Dir = made:app(in(Header, Config), word, [],
                        [{word, "-module(word). -export([f/0]). f() -> old."}]),
         made:file(filename:join(Dir, "src/word.app.src"),
                   "{application, word, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}.\n"),
         made:file(filename:join(Dir, "src/word.erl"),
                   "-module(word). -include(\"word.hrl\"). -export([f/0]). f() -> ?WORD.\n"),
         File = made:file(filename:join(Dir, Header), "-define(WORD, from_the_header).\n"),
         Compiled = filename:join(Dir, "ebin/word.beam"),
         Touch = fun(Path, Time) -> ok = file:change_time(Path, Time) end,
         Has = fun() ->
                       {ok, #{modules := #{word := Beam}}} =
                           whittle_system:app(word, read(Dir)),
                       {ok, Read} = whittle_beam:read(Beam),
                       whittle_beam:mentions(from_the_header, Read)
               end,
         [Touch(Path, {{2039, 1, 1}, {0, 0, 0}})
          || Path <- [Compiled, filename:join(Dir, "ebin/word.app")]],
         ?assertNot(Has()),
         Touch(File, Later),
         ?assert(Has())
     end || Header <- ["src/word.hrl", "include/word.hrl"]].

%% File names hold module names in UTF-8, in any locale of this machine.
named_in_unicode(_Config) ->
    Name = unicode:characters_to_list(<<"gr\xc3\xb6\xc3\x9fe">>),
    Module = list_to_atom(Name),
    Beam = made:beam("-module('" ++ Name ++ "'). -export([f/0]). f() -> ok."),
    Spec = io_lib:format("{application, wide, [{vsn, \"1\"}, {modules, [~tp]}]}.", [Module]),
    Path = unicode:characters_to_binary(["ebin/", Name, ".beam"]),
    Files = [{P, 8#644, fun() -> {ok, Bytes} end}
             || {P, Bytes} <- [{Path, Beam},
                               {<<"ebin/wide.app">>, unicode:characters_to_binary(Spec)}]],
    ?assertMatch({ok, #{modules := #{Module := Beam}}, []},
                 whittle_read_app:from_files("wide", Files, #{kind => input})).

umbrella(Config) ->
    Dir = in("umbrella", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    [begin
         made:file(filename:join([Dir, "apps", Name, "src", Name ++ ".app.src"]),
                   ["{application, ", Name, ", [{vsn, \"1\"}, {applications, [", Needs, "]}]}.\n"]),
         made:file(filename:join([Dir, "apps", Name, "src", Name ++ ".erl"]),
                   ["-module(", Name, ").\n"])
     end || {Name, Needs} <- [{"left", "kernel, stdlib, right"}, {"right", "kernel, stdlib"}]],
    %% The check of the sources also reads this file, which belongs to no application.
    made:file(filename:join(Dir, "sketch.erl"), "-module(sketch).\n"),
    System = read(Dir),
    ?assertEqual("umbrella", whittle_system:name(System)),
    ?assertEqual([kernel, left, right, stdlib], whittle_system:roots(System)),
    ?assertEqual([kernel, stdlib, right, left], started(System)),
    [?assertEqual("umbrella", whittle_system:name(read(filename:join(Dir, Dots))))
     || Dots <- [".", "apps/..", "apps/left/../.."]],
    made:file(filename:join(Dir, "rebar.config"),
              "{deps, []}. {relx, [{release, {both, \"1.2\"}, [left]}, {dev_mode, true}]}.\n"),
    Named = read(filename:join(Dir, ".")),
    ?assertEqual({"both", "1.2"}, {whittle_system:name(Named), whittle_system:vsn(Named)}).

%% rebar3 builds these in a separate directory. A removed checkout no longer counts, and neither
%% does a dependency of the same name.
checkouts(Config) ->
    Dir = in("top", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, [helper]}.\n"),
    to_compile(Dir, top, "1", [helper]),
    to_compile(filename:join(Dir, "_checkouts/helper"), helper, "2", []),
    made:app(filename:join(Dir, "_build/default/lib/helper"), helper, [], []),
    made:app(filename:join(Dir, "_build/default/checkouts/gone"), gone, [], []),
    System = read(Dir),
    ?assertEqual([helper, kernel, stdlib, top], names(System)),
    ?assertMatch({ok, #{vsn := "2"}}, whittle_system:app(helper, System)).

%% This dependency is part of a repository (git_subdir). rebar3 fetches the whole repository and
%% compiles the part in its place.
part_of_a_repository(Config) ->
    Dir = in("whole", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    to_compile(Dir, whole, "1", [part]),
    Repository = filename:join(Dir, "_build/default/lib/part"),
    made:app(filename:join(Repository, "device/part"), part, [], []),
    made:app(filename:join(Repository, "device/other"), other, [], []),
    ?assertEqual([kernel, part, stdlib, whole], names(read(Dir))).

%% Makes an application without modules for rebar3 to compile.
to_compile(Dir, Name, Vsn, Needs) ->
    made:file(filename:join([Dir, "src", atom_to_list(Name) ++ ".app.src"]),
              io_lib:format("~p.~n", [{application, Name,
                                       [{description, ""}, {vsn, Vsn},
                                        {applications, [kernel, stdlib | Needs]}]}])).

%% Only the script names the directories of the applications. The dependency has its own
%% directory.
places_by_script(Config) ->
    Dir = in("scripted", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    made:file(filename:join(Dir, "rebar.config.script"),
              "[{project_app_dirs, [\"things/*\"]} | CONFIG].\n"),
    to_compile(filename:join(Dir, "things/thing"), thing, "1", []),
    Dependency = made:app(filename:join(Dir, "_build/default/lib/dependency"), dependency, [], []),
    made:file(filename:join(Dependency, "c_src/a.c"), ""),
    ok = file:make_symlink("c_src", filename:join(Dependency, "src")),
    System = read(Dir),
    ?assertEqual("thing", whittle_system:name(System)),
    ?assertEqual([kernel, stdlib, thing], whittle_system:roots(System)).

%% No other build may compile the project while this one reads the result.
one_build_of_a_project(Config) ->
    Dir = in("one", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    to_compile(Dir, one, "1", []),
    Read = fun(Lib) -> {ok, {filelib:is_dir(filename:join(Lib, "one")),
                             whittle_lock:take(Dir, #{})}}
           end,
    ?assertEqual({ok, {true, busy}},
                 whittle_compile:with_rebar3(Dir, {[], #{kind => input}, fun(_) -> ok end}, Read)),
    {ok, Lock} = whittle_lock:take(Dir, #{}),
    ok = whittle_lock:release(Lock),
    Line = whittle_system:format_error({not_locked, {Dir, enolck}}),
    ?assertMatch({match, _}, re:run(Line, "no locks available.*copy it", [unicode])).

%% The settings of relx name files that only a release has, at any place and for any profile.
files_of_relx(Config) ->
    Dir = in("project", Config),
    made:file(filename:join(Dir, "src/project.app.src"), "{application, project, [{vsn, \"1\"}]}."),
    Line = fun(Settings) ->
                   made:file(filename:join(Dir, "rebar.config"), ["{deps, []}. ", Settings]),
                   Notes = binary:split(notes(read(Dir)), <<"\n">>, [global]),
                   [Note || Note <- Notes,
                            binary:match(Note, <<"belong to a release">>) =/= nomatch]
           end,
    Said = fun(Files, As, Profile) ->
                   [<<Files/binary, " belong to a release, and Whittle does not pack them here: to "
                      "pack them, run `rebar3 ", As/binary, "release' and build _build/",
                      Profile/binary, "/rel/NAME">>]
           end,
    ?assertEqual([], Line("{relx, [{release, {x, \"1\"}, [project]}, {sys_config, false}, "
                          "{vm_args, \".\"}]}.")),
    ?assertEqual(Said(<<"prod.config, rel/vm.args">>, <<>>, <<"default">>),
                 Line("{relx, [{sys_config, \"./prod.config\"}, {release, {x, \"1\"}, [project], "
                      "[{vm_args, \"rel/vm.args\"}]}]}.")),
    ?assertEqual(Said(<<"p.config">>, <<"as prod ">>, <<"prod">>),
                 Line("{profiles, [{prod, [{relx, [{sys_config_src, \"p.config\"}]}]}]}.")),
    made:file(filename:join(Dir, "config/sys.config"), "[]."),
    ?assertEqual(Said(<<"config/sys.config">>, <<>>, <<"default">>),
                 Line("{relx, [{sys_config, \"./config/sys.config\"}]}.")).

relx_release(Config) ->
    Dir = example("relay", Config),
    made:file(filename:join(Dir, "config/vm.args"),
              "-sname relay\n-setcookie secret\n+K true # -setcookie in a comment\n"),
    made:tool("rebar3", ["release"], Dir),
    Release = filename:join(Dir, "_build/default/rel/relay"),
    System = read(Release),
    ?assertEqual("relay", whittle_system:name(System)),
    ?assertEqual([kernel, stdlib, relay], started(System)),
    #{<<"vm.args">> := #{bytes := VmArgs}, <<"sys.config">> := #{bytes := SysConfig}} =
        whittle_system:files(System),
    ?assertEqual(<<"-sname relay\n\n+K true # -setcookie in a comment\n">>, VmArgs),
    ?assertMatch({match, _}, re:run(SysConfig, "7000")),
    given_at_start("vm.args", System),
    %% A template is packed under the name that the launcher reads. env.sh provides no cookie.
    Place = filename:join(Release, "releases/0.1.0"),
    made:file(filename:join(Place, "vm.args.src"), "-sname ${NODE:-relay}\n'-setcookie' x\n"),
    made:file(filename:join(Place, "env.sh"),
              "export ERLANG_COOKIE=secret\nexport ERL_FLAGS=\"-setcookie secret +K true\"\n"),
    Other = read(Release),
    #{<<"vm.args">> := #{bytes := Template}} = Files = whittle_system:files(Other),
    ?assertEqual(<<"-sname ${NODE:-relay}\n\n">>, Template),
    ?assertNot(is_map_key(<<"vm.args.src">>, Files)),
    [given_at_start(File, Other) || File <- ["vm.args.src", "env.sh"]],
    Env = whittle_system:env(Other),
    ?assertNot(is_map_key(<<"ERLANG_COOKIE">>, Env)),
    ?assertEqual({always, <<"+K true">>}, maps:get(<<"ERL_FLAGS">>, Env)).

%% No file of a release brings a cookie into the system.
cookies_of_release(Config) ->
    Dir = in("rel", Config),
    made:file(filename:join(Dir, "releases/start_erl.data"), "1 1\n"),
    made:file(filename:join(Dir, "releases/1/x.rel"),
              "{release, {\"x\", \"1\"}, {erts, \"1\"}, []}.\n"),
    Removed = ["releases/1/COOKIE", "releases/1/.erlang.cookie", "releases/1/more/COOKIE"],
    [made:file(filename:join(Dir, File), "secret") || File <- Removed],
    Changed = [{"vm.args", "-setcookie -secret -x\n-env RELEASE_COOKIE secret\n", "-x\n\n"},
               {"prod.vm.args", "-sname x\n-setcookie secret\n", "-sname x\n\n"},
               {"more/a.args.src", "-env ERLANG_COOKIE secret -x\n", " -x\n"}],
    [made:file(filename:join([Dir, "releases/1", File]), Text) || {File, Text, _} <- Changed],
    System = read(Dir),
    Files = whittle_system:files(System),
    ?assertEqual(lists:sort([{list_to_binary(File), list_to_binary(Left)}
                             || {File, _, Left} <- Changed]),
                 lists:sort([{Path, Bytes} || {Path, #{bytes := Bytes}} <- maps:to_list(Files)])),
    [given_at_start(File, System) || File <- Removed ++ [File || {File, _, _} <- Changed]].

%% relx leaves out OTP's applications, and they come from the chosen OTP.
release_without_system_libs(Config) ->
    Dir = example("relay", Config),
    made:file(filename:join(Dir, "rebar.config"),
              "{relx, [{release, {relay, \"0.1.0\"}, [relay]}, {mode, prod},"
              " {include_erts, false}, {system_libs, false}]}.\n"),
    made:tool("rebar3", ["release"], Dir),
    Release = filename:join(Dir, "_build/default/rel/relay"),
    [] = filelib:wildcard("lib/kernel-*", Release),
    System = read(Release),
    {ok, #{origin := #{kind := otp}}} = whittle_system:app(kernel, System),
    ?assertEqual([kernel, relay, stdlib], names(System)).

%% The values of these variables are not text.
odd_settings(Config) ->
    Dir = in("rel", Config),
    made:file(filename:join(Dir, "releases/start_erl.data"), "1 1\n"),
    made:file(filename:join(Dir, "releases/1/x.rel"),
              "{release, {\"x\", \"1\"}, {erts, \"1\"}, []}.\n"),
    made:file(filename:join(Dir, "releases/1/env.sh"),
              <<"export NAME=J", 16#F6, "rg\t\nA=", 16#C3, 16#A0, "\nexport A\n",
                "B=$", 16#FF, "\r\n">>),
    System = read(Dir),
    ?assertMatch(#{<<"NAME">> := {always, <<"J", 16#F6, "rg">>},
                   <<"A">> := {always, <<16#C3, 16#A0>>}}, whittle_system:env(System)),
    ?assertMatch({_, _}, binary:match(notes(System), <<"leaves out: B=$", 16#C3, 16#BF>>)).

%% sh is the reference: a kept variable has the value that sh gives it, and a note names all others.
settings_that_always_run(Config) ->
    Dir = in("rel", Config),
    Env = in("rel/releases/1/env.sh", Config),
    made:file(in("rel/releases/start_erl.data", Config), "1 1\n"),
    made:file(in("rel/releases/1/x.rel", Config),
              "{release, {\"x\", \"1\"}, {erts, \"1\"}, []}.\n"),
    made:file(Env, ["#!/bin/sh\n", [[Text, $\n] || {Text, _, _} <- settings()]]),
    System = read(Dir),
    Found = [{binary_to_list(Name), binary_to_list(Value)}
             || {Name, {always, Value}} <- lists:sort(maps:to_list(whittle_system:env(System))),
                Name =/= <<"RELEASE_ROOT">>, Name =/= <<"RELEASE_ROOT_DIR">>],
    ?assertEqual(lists:sort(lists:append([Kept || {_, Kept, _} <- settings()])), Found),
    Said = os:cmd("unset RELEASE_COMMAND; . '" ++ Env ++ "'; export RELEASE_NODE; env"),
    [?assertMatch({Name, Value, true},
                  {Name, Value, lists:member(Name ++ "=" ++ Value, string:split(Said, "\n", all))})
     || {Name, Value} <- Found],
    Notes = notes(System),
    [?assertMatch({Words, {_, _}}, {Words, binary:match(Notes, list_to_binary(Words))})
     || {_, _, All} <- settings(), Words <- All],
    ?assertEqual(nomatch, binary:match(Notes, <<"secret">>)),
    given_at_start("env.sh", System).

%% Lines, the variables that they set for sure, and the lines in the note.
settings() ->
    [{"export MODE=normal", [{"MODE", "normal"}], []},
     {"case $RELEASE_COMMAND in\n  daemon*|x)\n    export MODE=daemon\n    ;;\n"
      "  (*) export C=1;;\nesac", [],
      ["case $RELEASE_COMMAND in; daemon*", "export MODE=daemon", "esac"]},
     {"if [ -n \"$NEVER_SET\" ]; then\n  export H=1\nelse if :; then I=1; fi fi", [],
      ["export H=1"]},
     {"for X in a b; do\nexport L=1\ndone\nwhile false\ndo\nexport W=1\ndone", [],
      ["export L=1", "export W=1"]},
     {"cat >/dev/null <<EOT && cat >/dev/null <<-\\END\nexport DOC=it's\nEOT\n"
      "export D=1\n\tEND",
      [], ["export DOC=it's", "export D=1"]},
     {"f() {\n  export F=1\n  return 0\n}\ng ()\n(\nexport G=1\n)", [],
      ["export F=1", "export G=1"]},
     {"false &&\nexport AND=1\nfalse |\nexport PIPE=1", [], ["export AND=1", "export PIPE=1"]},
     {"echo a \\\n  CONT=continuation >/dev/null", [], ["CONT=continuation >/dev/null"]},
     {"TEXT='\nexport QUOTED=1\n'", [], ["export QUOTED=1"]},
     {"export DIRX=~/data\nexport DIRS=/bin:~/bin", [],
      ["export DIRX=~/data", "export DIRS=/bin:~/bin"]},
     {"export TILDE=\"~/data\"\nexport BACKUP=file~", [{"TILDE", "~/data"}, {"BACKUP", "file~"}],
      []},
     {"export OUT=1>/dev/null", [], ["export OUT=1>/dev/null"]},
     {"NOEXP=no\nif :; then export NOEXP2=1; fi", [], ["NOEXP=no"]},
     {"LATER=1\nexport LATER OTHER\nOTHER=a:b", [{"LATER", "1"}, {"OTHER", "a:b"}], []},
     %% Mix's script exports it.
     {"RELEASE_NODE=me", [{"RELEASE_NODE", "me"}], []},
     {"if :; then\nRELEASE_COOKIE=secret\nfi\nERL_FLAGS='-setcookie secret'", [], []},
     {"echo $# \"${X:-a b}\" $(echo ')' \"}\") `echo if` >/dev/null", [], []},
     {"export LAST=1", [{"LAST", "1"}], []}].

%% From a place that the reader does not understand on, no line counts.
lines_of_shell(_) ->
    [?assertEqual({Text, [{always, <<"A=1">>}]},
                  {Text, [Line || {always, _} = Line <- whittle_shell_lines:split(
                                                          <<"A=1\n", Text/binary, "\nB=1\n">>)]})
     || Text <- [<<"if true">>, <<"(">>, <<"{">>, <<"fi">>, <<"}">>, <<")">>, <<"esac">>,
                 <<"done">>, <<";;">>, <<"case x">>, <<"case x in a)">>, <<"'">>,
                 <<"\"">>, <<"$(">>, <<"${">>,
                 <<"`">>, <<"cat <<X">>, <<"cat <<">>, <<"cat <<'E\\'\nE">>,
                 <<"cat <<E\n\\\nE">>, <<"cat <<E\n$(\nE\n)">>, <<"X=$(case x in\ny) : ;; esac)">>,
                 <<"X=$(:;case x in\ny)\n: ;; esac)">>, <<"X=$(cat <<Y\nit's\nY\n)">>,
                 <<"X=$(\n# it's\n)">>, <<"\"${X:-it's}\"">>, <<"X=$'it\\'s'">>,
                 <<"function f {\n:\n}">>, <<"X=(a b)">>, <<"[ -n x ] && return 0">>,
                 <<"[ -n x ] || { :; return 0; }">>, <<"{ return 0; }">>,
                 <<"if :; then :; done">>, <<"while :; do :; fi">>, <<"true &&">>, <<"f()">>]],
    made:holds(300, proper_types:list(proper_types:oneof(
                                        [<<"if ">>, <<"fi">>, <<"case x in ">>, <<")">>, <<"(">>,
                                         <<"esac">>, <<"{ ">>, <<"}">>, <<"\n">>, <<";">>,
                                         <<"A=1">>, <<"'">>, <<"\"">>, <<"$(">>,
                                         <<"<<E">>, <<"#">>, <<"\\">>])),
               fun(Words) ->
                       Text = iolist_to_binary(Words),
                       lists:all(fun({_, Line}) -> binary:match(Text, Line) =/= nomatch end,
                                 whittle_shell_lines:split(Text))
               end).

mix_release(Config) ->
    Dir = in("greeter", Config),
    made:file(filename:join(Dir, "mix.exs"), mix_exs()),
    made:file(filename:join(Dir, "config/runtime.exs"),
              "import Config\n"
              "config :greeter, greeting: System.get_env(\"GREETING\", \"Hello\")\n"),
    made:file(filename:join(Dir, "rel/env.sh.eex"),
              "export GREETING=\"Good morning\"\nexport WHO=$(id -un)\n"),
    made:file(filename:join(Dir, "lib/greeter.ex"),
              "defmodule Greeter do\n  use Application\n  def start(_, _) do\n"
              "    IO.puts([Application.fetch_env!(:greeter, :greeting), \" \",\n"
              "             Enum.join([1, 2, 3], \",\"), \" \",\n"
              "             inspect(Protocol.consolidated?(Enumerable))])\n"
              "    System.stop(3)\n    Supervisor.start_link([], strategy: :one_for_one)\n"
              "  end\nend\n"),
    made:tool("mix", ["release"], Dir),
    %% Debian's Elixir needs the OTP that it comes with.
    {ok, System} = whittle_read:read(filename:join(Dir, "_build/prod/rel/greeter"), host()),
    Files = whittle_system:files(System),
    ?assertEqual([<<"runtime.exs">>, <<"sys.config">>, <<"vm.args">>],
                 lists:sort(maps:keys(Files))),
    ?assertMatch(#{<<"GREETING">> := {always, <<"Good morning">>},
                   <<"RELEASE_ROOT">> := {always, <<"/.whittle">>}}, whittle_system:env(System)),
    Notes = notes(System),
    [?assertMatch({_, _}, binary:match(Notes, Words))
     || Words <- [<<"removed the cookie in releases/COOKIE, ">>, <<"RELEASE_COOKIE">>,
                  <<"consolidated protocols">>,
                  <<"export WHO=$(id -un)">>, <<"RELEASE_DISTRIBUTION=sname">>]],
    {ok, Small, #{}} = whittle_pass:run(made:passes(), #{}, System),
    ?assertEqual({3, <<"Good morning 1,2,3 true\n">>}, run(Small, [], Config)).

%% A VM does not search directories below ebin, so a copy there is no module.
older_copies(Config) ->
    Dir = made:app(in("one", Config), one, [], [{one, "-module(one). -export([f/0]). f() -> 1."}]),
    Module = filename:join(Dir, "ebin/one.beam"),
    {ok, Bytes} = file:read_file(Module),
    Files = ["ebin/old/one.beam", "ebin/old/one.app"],
    [made:file(filename:join(Dir, File), "an older copy") || File <- Files],
    ?assertMatch({ok, #{modules := #{one := Bytes}}}, whittle_system:app(one, read(Dir))),
    Escript = in("run", Config),
    _ = made:file(Escript, ""),
    Main = compiled("-module(run). -export([main/1]). main(_) -> ok."),
    ok = escript:create(Escript, [shebang, {archive, [{"run.beam", Main},
                                                      {"old/run.beam", <<"an older copy">>}], []}]),
    ?assertMatch({ok, #{modules := #{run := Main}}}, whittle_system:app(run, read(Escript))).

compiled(Text) ->
    Forms = [Form || Part <- string:split(Text, ". ", all),
                     {ok, Tokens, _} <- [erl_scan:string(string:trim(Part, trailing, ".") ++ ".")],
                     {ok, Form} <- [erl_parse:parse_form(Tokens)]],
    {ok, _, Bytes} = compile:forms(Forms),
    Bytes.

rebar3_escript(Config) ->
    %% Debian's rebar3 holds modules that OTP 29 no longer loads.
    {ok, System} = whittle_read:read(os:find_executable("rebar3"), host()),
    ?assertEqual(rebar3, whittle_system:main(System)),
    {ok, Small, #{}} = whittle_pass:run(made:passes(), #{}, System),
    Dir = staged:write(Small, in("staged", Config)),
    {0, Version} = staged:run(Small, Dir, ["version"]),
    ?assertMatch({match, _}, re:run(Version, "^rebar 3")),
    %% The packed rebar3 builds a project that includes a header of OTP.
    Project = in("project", Config),
    made:file(filename:join(Project, "rebar.config"), "{erl_opts, [debug_info]}.\n"),
    made:file(filename:join(Project, "src/p.app.src"),
              "{application, p, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}.\n"),
    made:file(filename:join(Project, "src/p.erl"),
              "-module(p).\n-include_lib(\"eunit/include/eunit.hrl\").\n"
              "one_test() -> ?assertEqual(1, 1).\n"),
    {0, _} = staged:run(Small, Dir, ["as", "test", "compile"], Project),
    ?assert(filelib:is_regular(filename:join(Project, "_build/test/lib/p/ebin/p.beam"))).

%% Mix puts all .app files and modules at the top of the archive.
mix_escript(Config) ->
    Dir = in("greeter", Config),
    Project = string:replace(mix_exs(), "deps: []", "deps: [], escript: [main_module: Greeter]"),
    made:file(filename:join(Dir, "mix.exs"),
              string:replace(Project, "mod: {Greeter, []}, ", "")),
    made:file(filename:join(Dir, "lib/greeter.ex"),
              "defmodule Greeter do\n  def main(args), do: IO.puts(\"hello #{inspect(args)}\")\n"
              "end\n"),
    made:tool("mix", ["escript.build"], Dir),
    File = filename:join(Dir, "greeter"),
    {ok, System} = whittle_read:read(File, host()),
    ?assertEqual({greeter_escript, "0.2.0"},
                 {whittle_system:main(System), whittle_system:vsn(System)}),
    [?assert(lists:member(App, names(System))) || App <- [greeter, elixir, logger]],
    {ok, Small, #{}} = whittle_pass:run(made:passes(), #{}, System),
    ?assertEqual({0, <<"hello [\"a\", \"b c\"]\n">>}, run(Small, ["a", "b c"], Config)),
    %% Also under another name.
    Other = filename:join(Dir, "other"),
    ok = file:rename(File, Other),
    {ok, Renamed} = whittle_read:read(Other, host()),
    {ok, SmallRenamed, #{}} = whittle_pass:run(made:passes(), #{}, Renamed),
    ?assertEqual({0, <<"hello []\n">>}, run(SmallRenamed, [], Config)).

%% The modules at the top of an archive belong to the applications that list them.
flat_archive(Config) ->
    App = fun(Name, Modules) ->
                  {atom_to_list(Name) ++ ".app",
                   iolist_to_binary(
                     io_lib:format("~p.~n", [{application, Name,
                                              [{vsn, "3"}, {modules, Modules},
                                               {applications, [kernel, stdlib]}]}]))}
          end,
    Beam = fun(Module, Text) ->
                   {Module ++ ".beam", made:beam("-module(" ++ Module ++ ").\n" ++ Text)}
           end,
    File = in("flat", Config),
    ok = escript:create(File, [shebang, {emu_args, "-escript main flat_main"},
                               {archive, [App(flat, [flat_a]), App(other, [flat_b]),
                                          Beam("flat_a", ""), Beam("flat_b", ""),
                                          Beam("flat_main", "-export([main/1]).\nmain(_) -> ok."),
                                          {"other/priv/x", <<"x">>}], []}]),
    System = read(File),
    ?assertEqual([{flat, [flat_a, flat_main], []}, {other, [flat_b], [<<"priv/x">>]}],
                 [{Name, lists:sort(maps:keys(Modules)), maps:keys(Files)}
                  || #{name := Name, modules := Modules, files := Files}
                         <- whittle_system:apps(System), lists:member(Name, [flat, other])]).

source_escript(Config) ->
    File = made:file(in("adder", Config),
                     "#!/usr/bin/env escript\n%%! -sasl errlog_type error\n"
                     "main(Args) ->\n  io:format(\"~w~n\","
                     " [lists:sum([list_to_integer(A) || A <- Args])]).\n"),
    System = read(File),
    ?assertEqual({adder, "adder"}, {whittle_system:main(System), whittle_system:name(System)}),
    ?assertEqual({0, <<"6\n">>}, run(System, ["1", "2", "3"], Config)),
    %% The same input gives the same bytes.
    ?assert(System =:= read(File)).

%% A script may set its own module name and exports. Each line keeps its number.
escript_with_module_line(Config) ->
    Main = "main(_) -> io:format(\"~w ~w\", [?MODULE, ?LINE]).\n",
    Scripts = [{"a", <<"named 5">>, "%%! -sasl errlog_type error\n-module(named).\n%\n"},
               {"b", <<"'two words' 5">>,
                "%% -export([main/1]).\n\n - module ( 'two words' ) .\n"},
               {"c", <<"named 4">>, "-module(named). -compile(warnings_as_errors).\n"
                                    "-export([main/1]).\n"},
               %% An expression would read the blanks again from each line.
               {"e", <<"named 1000004">>,
                [lists:duplicate(1_000_000, "\n"), "-module(named).\n-export([main/1]).\n"]},
               {"f", <<"named 200004">>,
                ["-module(named).\n-export([main/1]).\n",
                 lists:duplicate(200_000, "% -export([\n")]},
               {"d", <<"script 5">>, "-compile(warnings_as_errors).\n-export([f/0, main/1]).\n"
                                     "f() -> \"\n-module(no).\". "}],
    [begin
         System = read(made:file(in(filename:join(Dir, "script"), Config),
                                 ["#!/usr/bin/env escript\n", Text, Main])),
         Staged = staged:write(System, in(filename:join(Dir, "staged"), Config)),
         ?assertEqual({0, Said}, staged:run(System, Staged, []))
     end || {Dir, Said, Text} <- Scripts].

%% The system contains the applications that the script calls, although no .app file names them.
escript_that_calls(Config) ->
    File = made:file(in("digest", Config),
                     "#!/usr/bin/env escript\n"
                     "main(_) -> io:format(\"~w~n\", [byte_size(crypto:hash(sha256, []))]).\n"),
    {ok, Small, #{}} = whittle_pass:run(made:passes(), #{}, read(File)),
    ?assert(lists:member(crypto, names(Small))).

%% The exit codes are those of the escript program.
escript_exit_codes(Config) ->
    File = made:file(in("ends", Config),
                     "#!/usr/bin/env escript\n"
                     "main([\"return\"]) -> whatever;\n"
                     "main([\"halt\"]) -> halt(7);\n"
                     "main([\"error\"]) -> error(on_purpose);\n"
                     "main([\"killed\"]) ->\n"
                     "    exit(self(), kill), receive after infinity -> ok end.\n"),
    System = read(File),
    Dir = staged:write(System, in("staged", Config)),
    ?assertEqual({0, <<>>}, staged:run(System, Dir, ["return"])),
    ?assertEqual({7, <<>>}, staged:run(System, Dir, ["halt"])),
    {127, Error} = staged:run(System, Dir, ["error"]),
    ?assertMatch({match, _}, re:run(Error, "on_purpose")),
    {127, Killed} = staged:run(System, Dir, ["killed"]),
    ?assertMatch({match, _}, re:run(Killed, "killed")).

escript_flags(Config) ->
    File = made:file(in("flags", Config),
                     "#!/usr/bin/env escript\n%%! -setcookie secret +sbtu\n"
                     "-mode(compile).\nmain(_) -> ok.\n"),
    System = read(File),
    ?assertMatch(#{<<"vm.args">> := #{bytes := <<"+sbtu\n">>}}, whittle_system:files(System)),
    ?assertMatch({_, _}, binary:match(notes(System), <<"cookie">>)).

relay_on_two_nodes(Config) ->
    System = read(example("relay", Config)),
    Dir = staged:write(System, in("staged", Config)),
    Id = os:getpid(),
    [A, B] = [lists:concat(["relay_", Id, "_", Which, "@127.0.0.1"]) || Which <- [a, b]],
    Start = fun(Node, Other) ->
                    staged:start(System, Dir, ["-name", Node, "-setcookie", "relay_test",
                                               "-relay", "port", "0", "retry", "100",
                                               "-relay", "nodes", "['" ++ Other ++ "']"])
            end,
    Ports = [Start(A, B), Start(B, A)],
    Tcp = [list_to_integer(Number)
           || Port <- Ports, [Number] <- [made:expect(Port, "listens on port (\\d+)")]],
    Options = [binary, {packet, line}],
    [First, Second] = [begin
                           {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Number, Options),
                           Socket
                       end || Number <- Tcp],
    ok = until_relayed(First, Second),
    ok = gen_tcp:send(Second, <<"back\n">>),
    ok = until_line(First, <<"back\n">>),
    [{0, _} = staged:stop(Port) || Port <- Ports].

%% Sends lines until one arrives on the other side, because the nodes need time to find each
%% other. A line that was sent before that returns only to its sender. The function then sends the
%% next one.
until_relayed(From, To) ->
    ok = gen_tcp:send(From, <<"over\n">>),
    receive
        {tcp, To, <<"over\n">>} -> ok;
        {tcp, From, <<"over\n">>} -> until_relayed(From, To)
    end.

until_line(Socket, Line) ->
    receive {tcp, Socket, Line} -> ok end.

%% The reader reads all of a thousand modules.
many_modules(Config) ->
    Sources = [{Module, ["-module(", atom_to_list(Module), "). -export([f/0]). f() -> ok."]}
               || N <- lists:seq(1, 1000), Module <- [list_to_atom("m" ++ integer_to_list(N))]],
    Dir = made:app(in("many", Config), many, [],
                   [{Module, lists:flatten(Source)} || {Module, Source} <- Sources]),
    {ok, #{modules := Modules}} = whittle_system:app(many, read(Dir)),
    ?assertEqual(1000, map_size(Modules)).

%% Dependencies

optional_applications(Config) ->
    Dir = made:app(in("opt", Config), opt,
                   [{applications, [kernel, stdlib, sasl]}, {optional_applications, [sasl]}],
                   [{opt, "-module(opt). -export([f/0]). f() -> systools:module_info(), "
                          "release_handler:which_releases()."}]),
    System = read(Dir),
    ?assertEqual([kernel, opt, stdlib], names(System)),
    %% This is the only note about sasl, although opt calls it.
    ?assertMatch({_, _}, binary:match(notes(System), <<"opt can use sasl, which is missing; `--app "
                                                       "sasl' adds it">>)),
    ?assertEqual(nomatch, binary:match(notes(System), <<"no .app file names">>)),
    %% The application has no `mod'.
    ?assertMatch({_, _}, binary:match(notes(System), <<"the input starts no process">>)).

included_applications(Config) ->
    Dir = in("lib", Config),
    made:file(filename:join(Dir, "rebar.config"), ""),
    made:app(filename:join(Dir, "apps/outer"), outer, [{included_applications, [inner]}], []),
    made:app(filename:join(Dir, "apps/inner"), inner, [], []),
    made:file(filename:join(Dir, "apps/outer/src/outer.app.src"),
              "{application, outer, [{vsn, \"1\"}, {applications, [kernel, stdlib]},"
              " {included_applications, [inner]}]}.\n"),
    made:file(filename:join(Dir, "apps/inner/src/inner.app.src"),
              "{application, inner, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}.\n"),
    System = read(Dir),
    ?assertEqual([kernel, stdlib, outer], started(System)),
    ?assert(lists:member(inner, loaded(System))).

%% A note reports each called application that no .app file lists, with the option that adds it.
called_applications(Config) ->
    Dir = in("top", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    to_compile(Dir, top, "1", []),
    [made:file(filename:join(Dir, ["src/", Name, ".erl"]),
               ["-module(", Name, "). -export([f/0]).\n",
                "f() -> mnesia:info(), in_libs:f(), in_deps:f(), nowhere:f(), wx:new().\n"])
     || Name <- ["top_a", "top_b", "top_c"]],
    Callee = fun(Name) -> [{Name, lists:flatten(io_lib:format("-module(~p). -export([f/0]). "
                                                              "f() -> ok.", [Name]))}]
             end,
    made:app(filename:join(Dir, "_build/default/lib/deps"), deps,
             [{applications, [kernel, stdlib, ssl]}], Callee(in_deps)),
    made:app(in("libs/far-1", Config), far, [{mod, {in_libs, []}}], Callee(in_libs)),
    made:app(in("libs/wx-1", Config), wx, [],
             [{wx, "-module(wx). -export([new/0]). new() -> ok."}]),
    Options = (staged:options())#{libs => [in("libs", Config)]},
    {ok, System} = whittle_read:read(Dir, Options),
    %% The note does not suggest an application that a build refuses.
    ?assertMatch({_, _}, binary:match(notes(System),
                                      <<"(top_a calls wx:new/0, and 2 other modules): it cannot be "
                                        "added, because it loads the machine's wxWidgets">>)),
    ?assertEqual(nomatch, binary:match(notes(System), <<"--app wx">>)),
    Said = fun(App, Call) ->
                   iolist_to_binary(["top calls ", App, ", which no .app file names, so Whittle "
                                     "does not pack it (top_a calls ", Call, ", and 2 other "
                                     "modules): `--app ", App, "' adds it\n"])
           end,
    [?assertMatch({App, {_, _}}, {App, binary:match(notes(System), Said(App, Call))})
     || {App, Call} <- [{"deps", "in_deps:f/0"}, {"far", "in_libs:f/0"},
                        {"mnesia", "mnesia:info/0"}]],
    ?assertEqual(nomatch, binary:match(notes(System), <<"nowhere">>)),
    %% The added applications bring their dependencies. Nothing starts them, as in a stock system.
    {ok, Whole} = whittle_read:read(Dir, Options#{add => [deps, far, mnesia]}),
    {ok, Small, #{}} = whittle_pass:run([whittle_pass_applications], #{}, Whole),
    ?assertEqual([asn1, crypto, deps, far, kernel, mnesia, public_key, ssl, stdlib, top],
                 names(Small)),
    ?assertEqual([kernel, stdlib, top], started(Small)),
    ?assertEqual(nomatch, binary:match(notes(Small), <<"adds it">>)).

%% The code has the names of such a call, but no import.
calls_by_name(Config) ->
    Dir = in("spawner", Config),
    SaidOf = fun(App, Call) ->
                   _ = file:del_dir_r(Dir),
                   made:app(Dir, spawner, [{applications, [kernel, stdlib]}],
                            [{spawner, "-module(spawner). -export([f/2]).\n"
                              "f(Node, X) -> _ = Node, _ = X, " ++ Call ++ "."}]),
                   case re:run(notes(read(Dir)),
                               ["^spawner calls ", App, ", which .* \\(spawner calls (.*)\\): "
                                "`--app ", App, "' adds it$"],
                               [multiline, {capture, [1], list}]) of
                       {match, [Callee]} -> Callee;
                       nomatch -> none
                   end
             end,
    Said = fun(Call) -> SaidOf("ssh", Call) end,
    [?assertEqual({Call, Callee}, {Call, Said(Call)})
     || {Call, Callee} <-
            [{"spawn(ssh, start, [])", "ssh:start/0"},
             {"spawn(Node, ssh, start, [X])", "ssh:start/1"},
             {"spawn_link(ssh, start, [temporary])", "ssh:start/1"},
             {"spawn_link(Node, ssh, start, X)", "ssh:start"},
             {"spawn_monitor(ssh, start, [])", "ssh:start/0"},
             {"spawn_opt(ssh, start, [X, 1], [link])", "ssh:start/2"},
             {"apply(ssh, start, [])", "ssh:start/0"},
             {"apply(ssh, start, X)", "ssh:start"},
             {"apply(ssh, X, [1])", "ssh"},
             {"ssh:X()", "ssh"},
             {"M = ssh, X = M:connect(1, 2)", "ssh:connect/2"},
             {"proc_lib:spawn_link(ssh, start, [])", "ssh:start/0"},
             {"proc_lib:start_link(ssh, start, [], 5000)", "ssh:start/0"},
             {"timer:apply_after(1, ssh, start, [])", "ssh:start/0"},
             {"timer:tc(ssh, start, [])", "ssh:start/0"},
             {"rpc:call(Node, ssh, start, [])", "ssh:start/0"},
             {"rpc:cast(Node, ssh, start, [X])", "ssh:start/1"},
             {"erpc:call(Node, ssh, start, [], 100)", "ssh:start/0"},
             {"erpc:multicall([Node], ssh, start, [])", "ssh:start/0"},
             {"lists:map(fun ssh:start/1, X)", "ssh:start/1"},
             {"[{X, #{f => fun ssh:start/1}}]", "ssh:start/1"},
             {"F = ssh, fun F:start/1", "ssh:start/1"},
             {"#{id => a, start => {ssh, start, []}}", "ssh:start/0"},
             {"{ok, {#{}, [#{id => X, start => {ssh, start, [X]}, type => worker}]}}",
              "ssh:start/1"},
             {"#{id => a, start => {ssh, start, X}}", "ssh:start"},
             {"#{start => {ssh, start, [X]}, id => make_ref()}", "ssh:start/1"},
             {"{a, {ssh, start, [[]]}, permanent, 5000, worker, [ssh]}", "ssh:start/1"},
             {"{X, {ssh, start, [[X], 1]}, transient, 5000, worker, [X]}", "ssh:start/2"},
             {"application:start(ssh)", "application:start(ssh)"},
             {"application:load(ssh)", "application:load(ssh)"},
             {"application:ensure_all_started(ssh, permanent)",
              "application:ensure_all_started(ssh)"},
             {"application:ensure_all_started([sasl, ssh])",
              "application:ensure_all_started(ssh)"},
             {"application:ensure_all_started([X, ssh], temporary, concurrent)",
              "application:ensure_all_started(ssh)"},
             {"'Elixir.Application':ensure_all_started(ssh)",
              "Elixir.Application:ensure_all_started(ssh)"},
             %% The name of a module is also a word.
             {"lists:member(ssh, X)", none},
             {"spawn(X, ssh, [])", none},
             {"spawn(lists, sort, [[ssh]])", none},
             {"register(ssh, X)", none},
             {"X =:= fun ssh:start/1", none},
             {"{error, {ssh, start, []}}", none},
             {"{ssh, start, X}", none},
             {"#{start => ssh}", none},
             {"#{start => {ssh, start, 0}, reason => {ssh, start, []}}", none},
             {"{a, {ssh, start, []}, forever, 1, 2, 3}", none},
             {"application:get_env(ssh, X)", none},
             {"application:start(nowhere), application:start(stdlib)", none},
             {"application:start(X), application:start(spawner), lists:member(ssh, X)", none}]],
    %% An application needs no module of its name.
    ?assertEqual("application:start(tools)", SaidOf("tools", "application:start(tools)")),
    ?assertEqual("application:ensure_all_started(parsetools)",
                 SaidOf("parsetools", "application:ensure_all_started([stdlib, parsetools])")),
    %% Only the command `elixir' starts Elixir's logger.
    made:app(in("libs/logger-1", Config), logger, [], []),
    [begin
         made:app(in(Name, Config), list_to_atom(Name), [],
                  [{starts, "-module(starts). -export([f/0]). f() -> application:start(logger)."}]),
         {ok, System} = whittle_read:read(in(Name, Config),
                                          (staged:options())#{libs => [in("libs", Config)]}),
         ?assertEqual({Name, Result}, {Name, re:run(notes(System), "calls logger, which",
                                                    [{capture, none}])})
     end || {Name, Result} <- [{"elixir", nomatch}, {"other", match}]].

%% inets names ssl only in `runtime_dependencies'. The build notes this. The program works after
%% the user follows the note.
called_by_otp(Config) ->
    Asks = fun(Name, App, Call) ->
                   made:app(in(Name, Config), list_to_atom(Name),
                            [{applications, [kernel, stdlib, App]},
                             {mod, {list_to_atom(Name), []}}],
                            [{list_to_atom(Name),
                              "-module(" ++ Name ++ "). -export([start/2, stop/1]).\n"
                              "start(_, _) -> " ++ Call ++ ", init:stop(), {ok, self()}.\n"
                              "stop(_) -> ok.\n"}])
           end,
    Dir = Asks("client", inets,
               "{ok, L} = gen_tcp:listen(0, [{ip, {127,0,0,1}}, {active, false}]),"
               " spawn_link(fun() -> {ok, S} = gen_tcp:accept(L), gen_tcp:recv(S, 0),"
               "  gen_tcp:send(S, \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"),"
               "  gen_tcp:recv(S, 0) end),"
               " {ok, P} = inet:port(L), Url = \"http://127.0.0.1:\" ++ integer_to_list(P),"
               " {ok, {_, _, Body}} = httpc:request(Url), io:format(\"~s~n\", [Body])"),
    Note = <<"OTP's inets calls public_key, ssl, which no .app file names, so Whittle does "
             "not pack them (httpc calls public_key:">>,
    Lacking = read(Dir),
    ?assertMatch({_, _}, binary:match(notes(Lacking), Note)),
    ?assertMatch({_, _}, binary:match(notes(Lacking),
                                      <<"such a call fails; `--app ssl' adds them">>)),
    {ok, Whole} = whittle_read:read(Dir, (staged:options())#{add => [ssl]}),
    ?assertEqual(nomatch, binary:match(notes(Whole), <<"OTP's inets calls">>)),
    {0, Output} = run(Whole, [], Config),
    ?assertMatch({_, _}, binary:match(Output, <<"hello">>)),
    %% The chosen OTP may lack the application that its own application calls.
    #{otp_lib := Lib} = staged:options(),
    Reduced = in("otp/lib", Config),
    ok = filelib:ensure_path(Reduced),
    [ok = file:make_symlink(filename:join([Lib, "..", Part]), filename:join([Reduced, "..", Part]))
     || {ok, Parts} <- [file:list_dir(filename:dirname(Lib))], Part <- Parts, Part =/= "lib"],
    [ok = file:make_symlink(filename:join(Lib, App), filename:join(Reduced, App))
     || {ok, Apps} <- [file:list_dir(Lib)], App <- Apps, not lists:prefix("debugger", App)],
    {ok, Reading} = whittle_read:read(Asks("of_common_test", common_test, "ct:run(\"x\")"),
                                      #{otp_lib => Reduced}),
    ?assertMatch({_, _}, binary:match(notes(Reading),
                                      <<"such a call fails; Whittle does not build OTP's "
                                        "debugger:">>)),
    %% There is one note for each application that OTP's own application needs. There is none for
    %% tracing or for a call that the input does not reach.
    [?assertEqual({App, Adds}, {App, [Add || [Add] <- added(read(Asks(Name, App, Call)))]})
     || {Name, App, Call, Adds} <-
            [{"of_eldap", eldap, "eldap:open([])", [<<"ssl">>]},
             {"of_ftp", ftp, "ftp:open(\"x\")", [<<"ssl">>]},
             {"of_merl", syntax_tools, "merl:quote(\"x\")", [<<"compiler">>]},
             {"of_syntax", syntax_tools, "erl_syntax:type(x)", []},
             {"of_ssh", ssh, "ssh:connect(a, 1, [])", []},
             {"of_ssl", ssl, "ssl:connect(a, 1, [])", []},
             {"of_sasl", sasl, "release_handler:which_releases()", []},
             {"of_mnesia", mnesia, "mnesia:start()", []},
             {"of_os_mon", os_mon, "disksup:get_disk_data()", []},
             {"of_xmerl", xmerl, "xmerl_scan:string(\"\")", []},
             {"of_tftp", tftp, "tftp:start([])", []},
             {"of_inets", inets, "ok", []}],
        %% A distribution may package only parts of OTP.
        has_application(App)].

has_application(App) ->
    #{otp_lib := Lib} = staged:options(),
    filelib:wildcard(atom_to_list(App) ++ "-*/ebin/*.app", Lib) =/= [].

added(System) ->
    case re:run(notes(System), "OTP's [a-z_, ]+ calls .* `--app (\\w+)'",
                [global, {capture, [1], binary}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

%% The order is the input, then OTP, then the first directory with its newest version.
library_directories(Config) ->
    Dir = made:app(in("user", Config), user_app,
                   [{applications, [kernel, stdlib, held, far, tab, other]}], []),
    [made:app(in(Path, Config), App, [{vsn, Vsn}], [])
     || {Path, App, Vsn} <- [{"one/held-1.9", held, "1.9"}, {"one/held-1.10", held, "1.10"},
                             {"two/held-2", held, "2"}, {"two/far", far, "3"},
                             {"two/stdlib-99", stdlib, "99"},
                             %% Debian's packages of ejabberd's libraries have such names.
                             {"two/p1_tab-1.0.9", tab, "1.0.9"},
                             {"two/p1_tab-1.0.30", tab, "1.0.30"},
                             {"two/a_far-9", far, "4"}, {"two/b-1-rc", other, "5"},
                             {"two/c", other, "6"}]],
    {ok, System} = whittle_read:read(Dir, (staged:options())#{libs => [in("one", Config),
                                                                       in("none", Config),
                                                                       in("two", Config)]}),
    Found = maps:from_list([{Name, {Vsn, Kind}}
                            || #{name := Name, vsn := Vsn, origin := #{kind := Kind}}
                                   <- whittle_system:apps(System)]),
    ?assertMatch(#{held := {"1.10", input}, far := {"3", input}, stdlib := {_, otp},
                   tab := {"1.0.30", input}, other := {"5", input}}, Found),
    ?assertEqual([kernel, stdlib, held, far, tab, other, user_app], started(System)).

%% The VM never frees an atom, and a directory may have any number of files. So the name of a file
%% stays text until Whittle reads the file.
names_of_files(Config) ->
    Dir = in("project", Config),
    made:file(filename:join(Dir, "rebar.config"), "{deps, []}.\n"),
    to_compile(Dir, project, "1", []),
    Names = ["no_atom_" ++ Place ++ os:getpid() || Place <- ["checked", "linked", "held"]],
    [Checked, Linked, Held] = Names,
    made:file(filename:join([Dir, "extra", Checked ++ ".app"]), ""),
    Link = filename:join([Dir, "_build/default/lib", Linked, "src"]),
    ok = filelib:ensure_dir(Link),
    ok = file:make_symlink("../../../../src", Link),
    made:app(in("libs/held", Config), held, [], []),
    made:file(filename:join(in("libs/held/ebin", Config), Held ++ ".beam"), ""),
    {ok, _} = whittle_read:read(Dir, (staged:options())#{libs => [in("libs", Config)]}),
    [?assertError(badarg, list_to_existing_atom(Name)) || Name <- Names].

application_start_order(Config) ->
    Dir = made:app(in("ordered", Config), ordered,
                   [{applications, [kernel, stdlib, runtime_tools, ssl]}], []),
    Order = started(read(Dir)),
    Place = fun(Name) -> length(lists:takewhile(fun(N) -> N =/= Name end, Order)) end,
    ?assertEqual([kernel, stdlib], lists:sublist(Order, 2)),
    ?assert(Place(crypto) < Place(ssl)),
    ?assert(Place(asn1) < Place(public_key)),
    ?assertEqual(ordered, lists:last(Order)).

%% Internal

read(Path) ->
    {ok, System} = whittle_read:read(Path, staged:options()),
    System.

%% Returns the OTP that runs the tests, whichever OTP is chosen.
host() ->
    #{otp_lib => code:lib_dir()}.

run(System, Arguments, Config) ->
    staged:run(System, staged:write(System, in("staged", Config)), Arguments).

example(Name, Config) ->
    {ok, Cwd} = file:get_cwd(),
    staged:copy(find_up(Cwd, filename:join("examples", Name)), in(Name, Config)).

%% Common Test runs below the root of the tree.
find_up(Dir, Name) ->
    Here = filename:join(Dir, Name),
    case filelib:is_dir(Here) of
        true -> Here;
        false when Dir =/= "/" -> find_up(filename:dirname(Dir), Name)
    end.

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).

names(System) -> [Name || #{name := Name} <- whittle_system:apps(System)].

started(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    [Name || {apply, {application, start_boot, [Name, _]}} <- Instructions].

loaded(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    [Name || {apply, {application, load, [{application, Name, _}]}} <- Instructions].

notes(System) ->
    iolist_to_binary([[Note, $\n] || #{notes := Notes} <- whittle_system:ledger(System),
                                     Note <- Notes]).

%% The note says that Whittle removed a cookie, and how to give one.
given_at_start(File, System) ->
    [Note] = [Line || Line <- binary:split(notes(System), <<"\n">>, [global]),
                      re:run(Line, "^Whittle removed the cookie in " ++ File ++ ", ") =/= nomatch],
    [?assertMatch({_, _}, binary:match(Note, Name))
     || Name <- [<<"RELEASE_COOKIE">>, <<"WHITTLE_COOKIE_FILE">>, <<"--whittle-ping">>]].

mix_exs() ->
    "defmodule Greeter.MixProject do\n  use Mix.Project\n  def project do\n"
    "    [app: :greeter, version: \"0.2.0\", elixir: \"~> 1.14\", deps: []]\n  end\n"
    "  def application, do: [mod: {Greeter, []}, extra_applications: [:logger]]\nend\n".
