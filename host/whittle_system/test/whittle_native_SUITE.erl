%% Tests descriptions of C code in applications: their contents and their errors.
-module(whittle_native_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([sources/1, flags/1, archives/1, beside_a_link/1, beside_source/1, no_file/1, none/1,
         wrong/1, random/1, assigned/1, libraries/1, only_if_loaded/1]).

all() ->
    [sources, flags, archives, beside_a_link, beside_source, no_file, none, wrong, random, assigned,
     libraries, only_if_loaded].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% Sources are wildcards. They may include headers and other sources in their own directories and
%% in those of `include'.
sources(Config) ->
    [file(Name, Name, Config)
     || Name <- ["c_src/a.c", "c_src/b.cc", "c_src/deep/c.h", "c_src/deep/e.c", "c_src/notes.txt",
                 "inc/d.hpp"]],
    ok = file:make_dir(in("c_src/deep/directory.c", Config)),
    {ok, [Native]} = read("{nif, \"x\", [{sources, [\"c_src/*\"]}, {include, [\"inc\"]},"
                          " {cflags, [\"-DA=1\"]}, {module, y}]}.", Config),
    ?assertEqual(#{kind => nif, name => "x", module => y,
                   sources => [<<"c_src/a.c">>, <<"c_src/b.cc">>], include => ["inc"],
                   cflags => ["-DA=1"], libs => [], archives => #{},
                   paths => [<<"c_src/a.c">>, <<"c_src/b.cc">>, <<"c_src/deep/c.h">>,
                             <<"c_src/deep/e.c">>, <<"inc/d.hpp">>],
                   files => maps:from_list([{Path, Path}
                                            || Path <- [<<"c_src/a.c">>, <<"c_src/b.cc">>,
                                                        <<"c_src/deep/c.h">>, <<"c_src/deep/e.c">>,
                                                        <<"inc/d.hpp">>]])},
                 Native).

archives(Config) ->
    [file("lib/" ++ Target ++ "/libx.a", "!<arch>\n" ++ Target, Config)
     || Target <- ["armv7", "mips"]],
    {ok, [#{archives := Each}]} = read("{driver, \"x\", [{archive, \"lib/$TARGET/libx.a\"}]}.",
                                       Config),
    ?assertEqual(#{"armv7" => <<"!<arch>\narmv7">>, "mips" => <<"!<arch>\nmips">>}, Each),
    {ok, [#{archives := One}]} = read("{nif, \"x\", [{archive, \"lib/mips/libx.a\"}]}.", Config),
    ?assertEqual(#{"" => <<"!<arch>\nmips">>}, One),
    file("lib/none.a", "!<arch>\n", Config),
    [?assertMatch({error, {bad_native, {_, "is not a static library" ++ _}}},
                  read("{nif, \"x\", [{archive, \"" ++ File ++ "\"}]}.", Config))
     || File <- ["lib/none.a", "native.config"]].

%% A flag is one word with any contents. Nothing in it interprets quotes or blanks.
flags(Config) ->
    file("x.c", "", Config),
    ?assertMatch({ok, [#{cflags := ["-DA=\"b c\"", "-DB='$(id)'"], libs := [crypto, zlib]}]},
                 read("{nif, \"x\", [{sources, [\"x.c\"]}, {libs, [zlib, crypto, zlib]},"
                      " {cflags, [\"-DA=\\\"b c\\\"\", \"-DB='$(id)'\"]}]}.", Config)),
    %% A flag names no file outside of the library, and runs no program.
    [?assertMatch({Wanted, {Wanted, _}}, {Wanted, with_flag(Flag, Config)}, Flag)
     || {Wanted, Flags} <-
            [{ok, ["-DA", "-UA", "-O2", "-Os", "-g", "-std=gnu++17", "-w", "-Wall",
                   "-Wno-error=format", "-fno-builtin", "-fvisibility=hidden", "-mtune=generic",
                   "-pthread", "-pedantic"]},
             {error, ["-D", "-I", "-Iinclude", "-I/etc", "-I../x", "-include", "-imacros",
                      "-isystem", "-wrapper", "-MMD", "-MF/tmp/x", "-Wp,-MD,/tmp/x", "-Wa,x",
                      "-Wl,x", "-Xlinker", "-fplugin=x", "-fdump-tree-original=x", "-fpreprocessed",
                      "-fpch-preprocess", "-fprofile-use",
                      "-save-temps=cwd", "-dumpdir", "-specs=x", "-T", "-E", "-S", "-M",
                      "--version", "--output=x", "-o", "-ox", "-Lx", "-lx", "@x", "x.c",
                      "-fsyntax-only", "-fuse-ld=x", "-march=native",
                      "-fdebug-prefix-map=/a=/b", "-x", ""]}],
        Flag <- Flags].

with_flag(Flag, Config) ->
    read(io_lib:format("{nif, \"x\", [{sources, [\"x.c\"]}, {cflags, [~tp]}]}.", [Flag]), Config).

%% rebar3 lays out a project's own application like this.
beside_a_link(Config) ->
    file("app/src/x.erl", "", Config),
    file("app/c_src/x.c", "", Config),
    file("app/native.config", "{nif, \"x\", [{sources, [\"c_src/x.c\"]}]}.", Config),
    Built = in("built", Config),
    ok = file:make_dir(Built),
    ok = file:make_symlink("../app/src", filename:join(Built, "src")),
    ?assertMatch({ok, [#{name := "x"}]}, whittle_native:of_application(Built, [x, y])),
    ?assertMatch({ok, [#{name := "x"}]}, whittle_native:of_application(in("app", Config), [x])),
    ?assertMatch({error, {native_unused, {_, "x", x}}},
                 whittle_native:of_application(Built, [y])).

%% erlc compiles this directory. The result has the natives too.
beside_source(Config) ->
    file("app/src/x.erl", "-module(x).", Config),
    file("app/src/x.app.src", "{application, x, [{vsn, \"1\"}, {modules, [x]},"
         " {applications, [kernel, stdlib]}]}.", Config),
    file("app/c_src/x.c", "", Config),
    file("app/native.config", "{nif, \"x\", [{sources, [\"c_src/x.c\"]}]}.", Config),
    {ok, System} = whittle_read:read(in("app", Config), staged:options()),
    {ok, App} = whittle_system:app(x, System),
    ?assertMatch([#{name := "x"}], maps:get(natives, App, none)).

%% The reader reports an entry that is not a file.
no_file(Config) ->
    Dir = in("app", Config),
    Name = filename:join(Dir, "native.config"),
    ok = filelib:ensure_path(Name),
    ?assertMatch({error, {bad_native, _}}, whittle_native:of_application(Dir, [x])),
    ok = file:del_dir(Name),
    ok = file:make_symlink("nowhere", Name),
    ?assertMatch({error, {bad_native, _}}, whittle_native:of_application(Dir, [x])),
    ok = file:delete(Name),
    "" = os:cmd("mkfifo " ++ Name),
    ?assertMatch({error, {bad_native, _}}, whittle_native:of_application(Dir, [x])).

none(Config) ->
    ?assertEqual({ok, []}, whittle_native:of_application(in("", Config), [])).

wrong(Config) ->
    file("x.c", "", Config),
    file("x.txt", "", Config),
    "" = os:cmd("mkfifo " ++ in("pipe", Config)),
    ok = file:make_dir(in("dir", Config)),
    Sources = "{sources, [\"x.c\"]}",
    [?assertMatch({error, {bad_native, _}}, read(Text, Config), Text)
     || Text <- ["{nif, \"x\"", "nif.", "{nif, x, [" ++ Sources ++ "]}.", "{nif, \"x\", []}.",
                 "{nif, \"../x\", [" ++ Sources ++ "]}.", "{nif, \"\", [" ++ Sources ++ "]}.",
                 "{nif, \"x\\n\", [" ++ Sources ++ "]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {cflags, [\"-O2\\n\"]}]}.",
                 "{nif, \"" ++ lists:duplicate(300, $x) ++ "\", [" ++ Sources ++ "]}.",
                 "{nif, \"x\", " ++ Sources ++ "}.", "{nif, \"x\", [" ++ Sources ++ " | x]}.",
                 "{nif, \"x\", [{sources, [\"x.txt\"]}]}.",
                 "{nif, \"x\", [{sources, [\"/x.c\"]}]}.",
                 "{nif, \"x\", [{sources, \"x.c\"}]}.", "{nif, \"x\", [{sauces, []}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {cflags, [\"@words\"]}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {libs, [usb]}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {libs, ssl}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {cflags, [\"-lusb\"]}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {include, [\"..\"]}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {include, [\"nowhere\"]}]}.",
                 "{nif, \"x\", [{archive, \"*/$TARGET/x.a\"}]}.",
                 "{nif, \"x\", [{archive, \"x.c\"}, " ++ Sources ++ "]}.",
                 "{nif, \"x\", [{archive, \"pipe\"}]}.", "{nif, \"x\", [{archive, \"dir\"}]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", " ++ Sources ++ "]}.",
                 "{nif, \"x\", [" ++ Sources ++ ", {module, \"x\"}]}."]],
    [?assertMatch({error, {bad_native, {_, "there is no such file"}}},
                  read("{nif, \"x\", [{archive, \"" ++ File ++ "\"}]}.", Config))
     || File <- ["x.a", "lib/$TARGET/x.a"]],
    ?assertMatch({error, {bad_native, {_, "there is no such file"}}},
                 whittle_native:read_all([in("nowhere", Config)])).

%% For any contents of the file, the reader accepts it or refuses it with one line.
random(Config) ->
    file("x.c", "", Config),
    Term = proper_types:oneof([proper_types:any(),
                               {proper_types:oneof([nif, driver]), proper_types:any(),
                                proper_types:any()},
                               {nif, "x", proper_types:list(
                                            {proper_types:oneof([sources, include, cflags, module,
                                                                 archive]),
                                             proper_types:any()})}]),
    Property =
        proper:forall(Term,
                      fun(Value) ->
                              case read(io_lib:format("~0p.", [Value]), Config) of
                                  {ok, [_]} -> true;
                                  {error, Error} ->
                                      Line = whittle_system:format_error(Error),
                                      not lists:member($\n, unicode:characters_to_list(Line))
                              end
                      end),
    ?assert(proper:quickcheck(Property, [{numtests, 300}, quiet])).

assigned(Config) ->
    file("x.c", "", Config),
    {ok, [Native]} = read("{nif, \"x\", [{sources, [\"x.c\"]}, {module, m}]}.", Config),
    Apps = #{one => app(one, [a]), two => app(two, [m])},
    {ok, #{one := One, two := Two}} = whittle_native:assign([{"f", Native}], Apps),
    ?assertEqual({error, Native}, {maps:find(natives, One), hd(maps:get(natives, Two))}),
    %% The command line takes precedence over the application's own description.
    {ok, #{two := Again}} = whittle_native:assign([{"f", Native#{cflags := ["-O3"]}}],
                                                  #{two => Two}),
    ?assertMatch(#{natives := [#{cflags := ["-O3"]}]}, Again),
    ?assertEqual({error, {native_unused, {"f", "x", nobody}}},
                 whittle_native:assign([{"f", Native#{module := nobody}}], Apps)).

libraries(Config) ->
    file("x.c", "", Config),
    {ok, Natives} = read("{nif, \"x\", [{sources, [\"x.c\"]}]}.", Config),
    App = (app(one, [x]))#{files := #{<<"priv/x.so">> => here, <<"priv/lib/y.so">> => here,
                                      <<"priv/x.txt">> => here}},
    #{files := Left} = whittle_native:without_libraries(App#{natives => Natives}),
    ?assertEqual([<<"priv/lib/y.so">>, <<"priv/x.txt">>], lists:sort(maps:keys(Left))),
    ?assertEqual(App, whittle_native:without_libraries(App)).

%% A native without its loading module is not linked. A pass may have removed the module.
only_if_loaded(Config) ->
    file("x.c", "", Config),
    {ok, Natives} = read("{nif, \"x\", [{sources, [\"x.c\"]}]}.", Config),
    System = whittle_system:new(#{name => "s", vsn => "1", otp => "29"}),
    Put = fun(Modules) ->
                  whittle_system:put_app((app(one, Modules))#{natives => Natives}, System)
          end,
    ?assertEqual(Natives, whittle_system:natives(Put([x]))),
    ?assertEqual([], whittle_system:natives(Put([y]))).

app(Name, Modules) ->
    #{name => Name, vsn => "1", spec => {application, Name, []},
      modules => maps:from_list([{Module, <<>>} || Module <- Modules]), files => #{},
      origin => #{kind => input, path => "", asked_by => []}}.

read(Text, Config) ->
    file("native.config", Text, Config),
    File = in("native.config", Config),
    case whittle_native:read_all([File]) of
        {ok, Read} -> {ok, [Native || {In, Native} <- Read, In =:= File]};
        {error, _} = Error -> Error
    end.

file(Name, Text, Config) ->
    made:file(in(Name, Config), unicode:characters_to_binary(Text)).

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).
