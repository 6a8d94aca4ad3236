%% Tests the façade: unknown names, machines without the needed programs, and a real runtime for
%% x86_64 of OTP 29 in flavor size. That runtime stays in the user's cache: the first run builds
%% it, later runs find it.
-module(whittle_runtime_SUITE).

-include_lib("kernel/include/file.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_testcase/2, end_per_testcase/2,
         init_per_group/2, end_per_group/2]).
-export([targets_are_described/1, emulator_in_a_relative_directory/1,
         unknown_words/1, no_compiler/1, versions_of_the_compiler/1, no_source/1,
         patch_that_does_not_apply/1, bad_series/1, recipes_name_no_place/1,
         libraries_of_natives/1, recipes_follow_the_target/1, levels_of_optimization/1, no_notice/1,
         profiles/1, damaged_profile/1, profiles_are_complete/1,
         libraries_of_flavors/1,
         no_version_of_the_compiler/1, notice_of_the_compiler/1, every_error_is_one_line/1,
         step_output/1]).
-export([found_again/1, is_static/1, runs_alone/1, components_have_notices/1,
         symbols_beside/1, changed_in_the_cache/1, has_otp/1]).

suite() ->
    %% A build takes minutes on a slow machine.
    [{timetrap, {hours, 2}}].

all() ->
    [targets_are_described, emulator_in_a_relative_directory, unknown_words, no_compiler,
     versions_of_the_compiler, no_source, patch_that_does_not_apply, bad_series,
     recipes_name_no_place,
     libraries_of_natives, recipes_follow_the_target, levels_of_optimization,
     profiles, damaged_profile, profiles_are_complete, no_notice, libraries_of_flavors,
     no_version_of_the_compiler,
     notice_of_the_compiler, every_error_is_one_line, step_output, {group, built}].

groups() ->
    [{built, [], [found_again, is_static, runs_alone, components_have_notices,
                  symbols_beside, changed_in_the_cache, has_otp]}].

init_per_group(built, Config) ->
    [{runtime, bare_vm:ensure(spec())} | Config].

end_per_group(built, _) ->
    ok.

init_per_testcase(Case, Config) ->
    [{path, os:getenv("PATH")} | made:dir(Case, Config)].

end_per_testcase(_, Config) ->
    os:putenv("PATH", proplists:get_value(path, Config)).

how(Flavor) -> {Flavor, mix, none}.

targets_are_described(_) ->
    Targets = whittle_runtime:targets(),
    ?assert(lists:member("x86_64", [N || #{name := N} <- Targets])),
    ?assertEqual("29", whittle_runtime:default_otp()),
    ?assertEqual("x86_64", whittle_runtime:default_target()),
    [?assertNotEqual([], whittle_recipe_vm:link(T, {Otp, how(Flavor)}, [], static))
     || T = #{flavors := Flavors} <- Targets, Flavor <- Flavors,
        Otp <- whittle_runtime:otps()].

%% The launcher takes an absolute path only.
emulator_in_a_relative_directory(Config) ->
    Dir = proplists:get_value(dir, Config),
    Program = filename:join(Dir, "qemu-arm"),
    ok = file:write_file(Program, ""),
    ok = file:change_mode(Program, 8#755),
    {ok, Here} = file:get_cwd(),
    os:putenv("PATH", filename:join([".." || _ <- tl(filename:split(Here))]
                                    ++ tl(filename:split(Dir)))),
    {ok, ["env", "WHITTLE_EMULATOR=" ++ Path | _]} = whittle_runtime:emulator("armv7"),
    ?assertEqual(absolute, filename:pathtype(Path)).

unknown_words(_) ->
    Tag = fun(Changes) ->
                  {error, {T, _}} = whittle_runtime:ensure(maps:merge(spec(), Changes), #{}),
                  T
          end,
    ?assertEqual(unknown_target, Tag(#{target => "pdp11"})),
    ?assertEqual(unsupported_otp, Tag(#{otp => "17"})),
    ?assertEqual(unsupported_flavor, Tag(#{flavor => tiny})),
    ?assertEqual(unsupported_level, Tag(#{optimize => o9})),
    ?assertEqual(unsupported_native, Tag(#{natives => [jiffy]})),
    Native = #{kind => nif, name => "n", module => n, sources => [<<"n.cc">>], include => [],
               cflags => [], libs => [], archives => #{}, files => #{<<"n.cc">> => <<>>}},
    [?assertEqual({Changes, no_cut}, {Changes, Tag(Changes#{cut => whittle_runtime:empty_cut()})})
     || Changes <- [#{otp => "27"}, #{flavor => speed}, #{optimize => o2}, #{linkage => dynamic}]],
    [?assertEqual(no_cxx, Tag(#{target => Name, natives => [Native]}))
     || #{name := Name, cxx := ""} <- whittle_runtime:targets()],
    Compiled = Native#{sources := [], archives := #{"pdp11" => <<>>}},
    ?assertEqual(no_archive, Tag(#{natives => [Compiled]})),
    Plain = Native#{sources := [<<"n.c">>], files := #{<<"n.c">> => <<>>}},
    ?assertEqual(native_twice, Tag(#{natives => [Plain, Plain#{module := m}]})),
    ?assertEqual(native_twice, Tag(#{natives => [Plain#{name := "crypto"}]})),
    ?assertEqual(native_by_module, Tag(#{otp => "25", natives => [Plain#{module := m}]})).

no_compiler(Config) ->
    %% A PATH with everything except a compiler.
    [link_tool(T, Config) || T <- ["make", "perl", "patch", "tar", "xz", "sh"]],
    os:putenv("PATH", dir(Config)),
    {error, {no_compiler, #{missing := Missing, packages := Packages}}} =
        whittle_runtime:ensure(spec(), #{cache => dir(Config)}),
    ?assert(lists:member("musl-gcc", Missing)),
    ?assert(lists:member("musl-tools", Packages)).

%% The machine has no apt, and the release has no other way.
no_source(Config) ->
    Dir = dir(Config),
    Options = #{cache => Dir, keyring => "/nowhere", source => none},
    Error = whittle_source:find(erlang, "25", Options),
    ?assertMatch({error, {no_source, #{tried := [_ | _]}}}, Error),
    ?assertEqual([], filelib:wildcard(filename:join([Dir, "sources", "*"]))).

patch_that_does_not_apply(Config) ->
    Native = native(Config, "# reasons\nwrong.patch 27,29\nother.patch 25\n"),
    Patch = "A reason.\n--- a/OTP_VERSION\n+++ b/OTP_VERSION\n@@ -1 +1 @@\n"
        "-no such line\n+another\n",
    ok = file:write_file(filename:join([Native, "patches", "wrong.patch"]), Patch),
    {error, Reason} = whittle_runtime:ensure(spec(), options(Native, Config)),
    ?assertMatch({bad_patch, #{patch := "wrong.patch", otp := "29.0.1"}}, Reason),
    ?assertMatch([_ | _], [Line || Line <- whittle_runtime:step_output(Reason),
                                   string:find(Line, "FAILED") =/= nomatch]),
    Text = lists:flatten(whittle_runtime:format_error(Reason)),
    ?assertNotEqual(nomatch, string:find(Text, "wrong.patch")).

bad_series(Config) ->
    Native = native(Config, "# reasons\na.patch 29\nb.patch for all\n"),
    Error = whittle_runtime:ensure(spec(), options(Native, Config)),
    ?assertMatch({error, {bad_series, #{line := 3}}}, Error),
    ?assertEqual({error, 2}, whittle_patches:parse("a.patch 29\nb.patch 27,29a\n")),
    Lines = proper_types:list(proper_types:oneof(
              ["", "# words", proper_types:string(), "a.patch 25,27,29"])),
    made:holds(300, Lines,
               fun(Ls) ->
                       case whittle_patches:parse(lists:flatten(lists:join("\n", Ls))) of
                           {ok, Series} -> is_list(Series);
                           {error, Line} -> is_integer(Line)
                       end
               end).

%% A path in a recipe would make the cache key different on each machine.
recipes_name_no_place(_) ->
    Source = #{component => erlang, release => "29", vsn => "29.0", kind => debian,
               main => "/home/someone/x.dsc", sums => #{}, origin => ""},
    [Target | _] = whittle_runtime:targets(),
    Recipes = [whittle_recipe_vm:link(Target, {"27", how(size)}, [asn1, crypto], Linkage)
             || Linkage <- [static, dynamic]]
        ++
        [whittle_recipe_suites:recipe(Source), whittle_recipe_otp:recipe(Source)]
        ++ lists:append(
             [[whittle_recipe_vm:link(Target, {"29", how(Flavor)}, [asn1, crypto], static),
               whittle_recipe_vm:erts(Target, how(Flavor), Source, ["a.patch"])
               | [whittle_recipe_lib:openssl(Target, Flavor, Source, Part)
                  || Part <- [crypto, ssl]]
                   ++ [whittle_recipe_lib:Library(Target, Flavor, Source)
                       || Library <- [terminfo, zstd]]] || Flavor <- [size, speed]])
        ++ [whittle_recipe_lib:libc(T#{libc := "x-musl"}, Source)
            || T <- whittle_runtime:targets()],
    [?assertEqual(nomatch, string:find(Line, "/home/"))
     || Recipe <- Recipes, #{script := Script} <- Recipe, Line <- Script].

%% A VM contains the libraries that a native asks for, and no other part of OpenSSL.
libraries_of_natives(_) ->
    [Target | _] = whittle_runtime:targets(),
    Native = #{kind => nif, name => "n", module => n, sources => [<<"n.c">>], include => [],
               cflags => ["-DN=\"it's\""], libs => [], archives => #{}, files => #{}},
    Linked = fun(OfOtp, Libs) ->
                     Recipe = whittle_recipe_vm:link(Target, {"29", how(size)},
                                                   OfOtp ++ [Native#{libs := Libs}], static),
                     Script = lists:flatten(whittle_recipe:essence(Recipe)),
                     [Library || Library <- ["libssl.a", "libcrypto.a"],
                                 string:find(Script, Library) =/= nomatch]
             end,
    ?assertEqual([], Linked([], [])),
    ?assertEqual([], Linked([], [zlib])),
    ?assertEqual(["libcrypto.a"], Linked([], [crypto])),
    ?assertEqual(["libcrypto.a"], Linked([crypto], [])),
    ?assertEqual(["libssl.a", "libcrypto.a"], Linked([], [ssl])),
    [#{script := Script}] = whittle_recipe_native:recipe(Target, size, Native),
    ?assertNotEqual(nomatch, string:find(lists:flatten(Script), "'-DN=\"it'\\''s\"'")).

%% Every script uses the target's tools and page size.
recipes_follow_the_target(_) ->
    {ok, Known} = whittle_target:load("x86_64"),
    Target = Known#{ar := "other-ar", page_size := 65536},
    Source = #{component => erlang, release => "29", vsn => "29.0", kind => debian,
               main => "x.dsc", sums => #{}, origin => ""},
    Erts = lists:append(lists:append(whittle_recipe:essence(
                                       whittle_recipe_vm:erts(Target, how(size), Source, [])))),
    Link = lists:append(lists:append(whittle_recipe:essence(
                                       whittle_recipe_vm:link(Target, {"29", how(size)}, [],
                                                              static)))),
    [begin
         ?assertEqual(nomatch, string:find(Script, Theirs)),
         ?assertNotEqual(nomatch, string:find(Script, Ours))
     end || {Script, Theirs, Ours} <- [{Erts, "gcc-ar", "other-ar d "},
                                       {Erts, "page-size=4096", "max-page-size=65536"},
                                       {Link, "page-size=4096", "max-page-size=65536"}]].

%% A level reaches ERTS and the launcher, and the flavor's hot files do not keep theirs.
levels_of_optimization(_) ->
    {ok, Target} = whittle_target:load("x86_64"),
    Source = #{component => erlang, release => "29", vsn => "29.0", kind => debian,
               main => "x.dsc", sums => #{}, origin => ""},
    Recipes = fun(Level) ->
                      How = {size, Level, none},
                      [whittle_recipe:essence(Recipe)
                       || Recipe <- [whittle_recipe_vm:erts(Target, How, Source, []),
                                     whittle_recipe_vm:link(Target, {"29", How}, [], static)]]
              end,
    Levels = fun(Essence) ->
                     %% The programs of the host and epmd have levels of their own.
                     {match, Found} = re:run(Essence, "(kernel|CFLAGS [+]=) (-O.)",
                                             [global, {capture, [2], list}]),
                     lists:usort(lists:append(Found))
             end,
    [?assertEqual({Level, [[Flag], [Flag]]},
                  {Level, [Levels(lists:append(lists:append(Each))) || Each <- Recipes(Level)]})
     || {Level, Flag} <- [{o2, "-O2"}, {o3, "-O3"}, {os, "-Os"}, {oz, "-Oz"}]],
    ?assertEqual([["-O2", "-Os"], ["-Os"]],
                 [Levels(lists:append(lists:append(Each))) || Each <- Recipes(mix)]),
    %% Without a profile, VMs in the cache stay valid.
    ?assertEqual(Recipes(unprofiled), Recipes(mix)).

%% A VM of flavor `size' uses the profile of its release, target and compiler. Any other VM has the
%% recipe that it has without profiles, and the log of its build says that no profile fits.
profiles(Config) ->
    Dir = dir(Config),
    {ok, Loaded} = whittle_target:load("x86_64"),
    Target = Loaded#{cc := "echo 12.2.0;:"},
    "29-x86_64-gcc-12.2" ++ _ = Name = whittle_profile:name("29", Target),
    ?assertEqual({ok, none}, whittle_profile:for(Dir, "29", Target)),
    ok = file:write_file(filename:join(Dir, Name), "counts"),
    {ok, {Name, Digest}} = whittle_profile:for(Dir, "29", Target),
    [?assertEqual({ok, none}, whittle_profile:for(Dir, Release, Other))
     || {Release, Other} <- [{"25", Target}, {"27", Target},
                             {"29", Target#{cc := "echo another compiler;:"}},
                             {"29", Target#{cc := "echo 99.2.0;:"}},
                             {"29", Target#{cc := "/no/such/compiler"}}
                             | [{"29", T} || T = #{name := N} <- whittle_runtime:targets(),
                                             N =/= "x86_64"]]],
    ok = file:write_file(filename:join(Dir, Name), "other counts"),
    {ok, {Name, Another}} = whittle_profile:for(Dir, "29", Target),
    ?assertNotEqual(Digest, Another),
    Source = #{component => erlang, release => "29", vsn => "29.0", kind => debian,
               main => "x.dsc", sums => #{}, origin => ""},
    Erts = fun(How) -> whittle_recipe_vm:erts(Target, How, Source, []) end,
    Steps = fun(How) -> [Step || #{name := "compile" ++ _ = Step} <- Erts(How)] end,
    ?assertEqual([["compile with profile " ++ Name], ["compile (no profile fits)"], ["compile"],
                  ["compile"]],
                 [Steps(How) || How <- [{size, mix, Name}, {size, mix, none},
                                        {size, unprofiled, none}, {speed, mix, none}]]),
    Script = lists:append(lists:append(whittle_recipe:essence(Erts({size, mix, Name})))),
    ?assertNotEqual(nomatch, string:find(Script, "$PROFILES/" ++ Name)),
    %% ERTS's makefile turns a -O2 between two spaces into -O3.
    ?assertEqual(nomatch, string:find(Script, "CFLAGS += -O2 ")),
    ?assertNotEqual(nomatch, string:find(Script, "-O2\\n'")).

%% A damaged profile stops the build before it unpacks a source. So does a profile that lacks an
%% object, and one that nobody can read.
damaged_profile(Config) ->
    Native = native(Config, "# no patches\n"),
    {ok, Target} = whittle_target:load("x86_64"),
    Name = whittle_profile:name("29", Target),
    File = filename:join([Native, "profiles", Name]),
    Whole = filename:join(dir(Config), "whole"),
    Objects = [Object ++ ".gcda" || Object <- whittle_recipe_vm:profiled()],
    [made:file(filename:join(Whole, Object), "counts") || Object <- Objects],
    Pack = fun(Packed) ->
                   {ok, _} = whittle_program:capture(
                               "tar", ["-C", Whole, "-cJf", File | Packed])
           end,
    Error = fun() ->
                    {error, Reason} = whittle_runtime:ensure(spec(), options(Native, Config)),
                    Reason
            end,
    Tail = fun(Reason) -> lists:append([binary_to_list(L) || L <- maps:get(tail, Reason)]) end,
    ok = filelib:ensure_dir(File),
    Pack(Objects),
    %% The next step is `unpack', which fails: the tarball has no source.
    ?assertNotMatch({bad_profile, _}, Error()),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, binary:part(Bytes, 0, byte_size(Bytes) - 40)),
    {bad_profile, #{profile := Name, log := Log}} = Error(),
    Pack(tl(Objects)),
    {bad_profile, Lacking} = Reason = Error(),
    %% The name of a log has the key of the artifact: another profile gives another VM.
    ?assertNotEqual(Log, maps:get(log, Lacking)),
    ?assertNotEqual(nomatch, string:find(Tail(Lacking), hd(whittle_recipe_vm:profiled()))),
    Text = lists:flatten(whittle_runtime:format_error(Reason)),
    [?assertNotEqual(nomatch, string:find(Text, Part)) || Part <- [Name, "make profile"]],
    ok = file:delete(File),
    ok = file:make_dir(File),
    ?assertMatch({no_native, #{file := File, reason := eisdir}}, Error()).

%% Each profile in the tree describes every object that the recipe gives a profile.
profiles_are_complete(_) ->
    Dir = filename:join(code:priv_dir(whittle_runtime), "../../../native/profiles"),
    {ok, [_ | _] = Names} = file:list_dir(Dir),
    [begin
         File = filename:join(Dir, Name),
         ?assert(filelib:file_size(File) < 100_000),
         {ok, Listed} = whittle_program:capture("tar", ["-tf", File]),
         Objects = lists:sort([filename:basename(Entry, ".gcda")
                               || Entry <- string:lexemes(Listed, "\n"),
                                  filename:extension(Entry) =:= ".gcda"]),
         ?assertEqual(lists:sort(whittle_recipe_vm:profiled()), Objects)
     end || Name <- Names].

%% A component without its license notice stops the build.
no_notice(Config) ->
    Erts = filename:join(dir(Config), "erts"),
    ok = filelib:ensure_path(filename:join(Erts, "erts/emulator/beam")),
    Collect = fun() ->
                      whittle_components:collect(
                        #{erts => Erts},
                        #{flavor => size, target => #{libraries => []},
                          versions => #{erts => "29.1"}, lacks => []},
                        filename:join(dir(Config), "out"))
              end,
    ?assertEqual({error, {no_notice, #{component => "erts"}}}, Collect()),
    ok = file:write_file(filename:join(Erts, "LICENSE.txt"), "a license"),
    ?assertMatch({ok, [#{name := "erts", version := "29.1",
                         notices := ["licenses/erts-LICENSE.txt"]}]}, Collect()),
    Kept = filename:join(dir(Config), "out/licenses/erts-LICENSE.txt"),
    ok = file:delete(Kept),
    ok = file:make_symlink("/dev/full", Kept),
    ?assertMatch({error, {disk_full, _}}, Collect()).

%% Only the JIT flavor contains the C++ library, and the machine must have its notice.
libraries_of_flavors(_) ->
    {ok, Target} = whittle_target:load("x86_64"),
    Names = fun(Flavor) ->
                    #{libraries := Libraries} = Seen = whittle_target:for_flavor(Target, Flavor),
                    ?assertEqual(ok, whittle_components:check(Seen)),
                    ?assertEqual([], [L || #{flavors := _} = L <- Libraries]),
                    [Name || #{name := Name} <- Libraries]
            end,
    ?assertEqual(["musl", "libgcc"], Names(size)),
    ?assertEqual(["musl", "libgcc", "libstdc++"], Names(speed)).

%% Another release of Debian has another gcc.
no_version_of_the_compiler(_) ->
    ?assertEqual([], [Notice || #{libraries := Libraries} <- whittle_runtime:targets(),
                                #{notices := Notices} <- Libraries, Notice <- Notices,
                                re:run(Notice, "gcc-[0-9]") =/= nomatch]).

%% The check comes before any compilation.
notice_of_the_compiler(Config) ->
    Library = fun(Notice) -> #{libraries => [#{name => "libc", notices => [Notice]}]} end,
    File = filename:join(dir(Config), "notice"),
    ok = file:write_file(File, "words"),
    ?assertEqual({error, {no_notice, #{component => "libc"}}},
                 whittle_components:check(Library(File ++ "s"))),
    ?assertEqual(ok, whittle_components:check(
                       Library(filename:join(dir(Config), "$(echo notice)")))).

%% The key has the first line that a command prints, and never the end of a command that a limit of
%% the caller has stopped.
versions_of_the_compiler(_) ->
    Key = fun(Commands) ->
                  whittle_runtime_job:key(#{recipe => [], inputs => #{}, identify => Commands})
          end,
    {ok, #{compiler := Versions}} = Key(["echo one; echo two", "echo warning >&2; echo one",
                                         "exit 2"]),
    ?assertEqual([{ok, "one\n"}, {ok, "warning\none\n"}, {error, {status, 2, ""}}], Versions),
    Format = fun({error, Reason}) ->
                     lists:flatten(whittle_runtime_error:format(Reason))
             end,
    ?assertEqual("the command `kill -SEGV $$' was ended by signal 11; run it in the same shell to "
                 "find the cause, for example a limit that is too low (ulimit -a)",
                 Format(Key(["echo one", "kill -SEGV $$"]))),
    ?assertMatch("the command `echo no memory >&2; exit 127' failed with exit code 127: no memory; "
                 "run it" ++ _, Format(Key(["echo no memory >&2; exit 127"]))).

%% Formats every reason that whittle_runtime_error knows.
every_error_is_one_line(_) ->
    Errors = [{step_failed, #{step => "s", status => 2, log => "l", tail => []}},
              {disk_full, #{dir => "d"}},
              {cache_unwritable, #{dir => "d", reason => eacces}},
              {build_running, #{lock => "d"}},
              {cache_link, #{link => "l"}},
              {changed_artifact, #{file => "f", dir => "d", why => "is gone"}},
              {open_artifact, #{file => "f", dir => "d", why => {owner, 1000}}},
              {open_artifact, #{file => "f", dir => "d", why => writable}},
              {open_artifact, #{file => "d", dir => "d", why => not_sticky}},
              {no_cache, #{}},
              {cache_space, #{dir => "d"}},
              {no_notice, #{component => "c"}},
              {bad_tool, #{command => "c", status => 139, output => "a\nb"}},
              {bad_tool, #{command => "c", status => 127, output => "a\nb"}},
              {no_tool, #{tool => "flock", package => "util-linux"}},
              {no_compiler, #{missing => ["a", "b"], packages => ["c"]}},
              {bad_patch, #{patch => "p", otp => "29.1", log => "l", tail => []}},
              {bad_profile, #{profile => "p", log => "l", tail => []}},
              {unfit_patches, #{otp => "29.1", patches => 2, tail => []}},
              {bad_series, #{file => "f", line => 3}},
              {no_native, #{file => "f", reason => enoent}},
              {unknown_target, #{target => "t", known => ["u"]}},
              {unsupported_flavor, #{flavor => f, target => "t", known => [size]}},
              {unsupported_level, #{level => o9, known => [mix, o2]}},
              {unsupported_native, #{native => n, known => [crypto]}},
              {native_twice, #{native => "n"}},
              {native_by_module, #{native => "n", module => m, otp => "27"}},
              {no_cut, #{}},
              {no_cxx, #{native => "n", target => "t"}},
              {no_archive, #{native => "n", target => "t", known => ["u"]}},
              {unsupported_otp, #{otp => "1", known => ["29"]}},
              {unreadable, #{file => "f", reason => enoent}},
              {not_a_source, #{file => "f"}},
              {not_in_source, #{file => "f", path => "p"}},
              {bad_archive, #{file => "f", why => "is a directory"}},
              {old_otp, #{file => "f", vsn => "24.3", oldest => "25"}},
              {unchecked_source, #{file => "f", actual => "a"}},
              {wrong_source, #{file => "f", vsn => "27.1", otp => "29"}},
              {bad_checksum, #{file => "f", expected => "e", actual => "a"}},
              {damaged_source, #{file => "f"}},
              {no_apt, #{reason => "r"}},
              {unreachable, #{address => "a", reason => "r"}},
              {no_source, #{component => erlang, release => "29",
                            tried => [{no_apt, #{reason => "r"}},
                                      {unreachable, #{address => "a", reason => "r"}}]}}],
    ?assertEqual(made:worded(whittle_runtime_error, format),
                 lists:usort([Tag || {Tag, _} <- Errors])),
    %% Each component that can be fetched has a name in the error.
    {ok, Rows} = file:consult(filename:join(code:priv_dir(whittle_runtime), "sources.config")),
    [?assert(length(lists:flatten(
                      whittle_runtime:format_error(
                        {no_source, #{component => Component, release => "1",
                                      tried => [{not_a_source, #{file => "f"}}]}}))) > 20)
     || {Component, _, _} <- Rows],
    [begin
         Text = lists:flatten(whittle_runtime:format_error(E)),
         ?assertEqual(nomatch, string:find(Text, "\n")),
         ?assertNotEqual(nomatch, re:run(Text, "^[^;]+; [^;]+|\\(.+\\); "))
     end || E <- Errors].

%% Programs may print any bytes; the result is text for the terminal.
step_output(_) ->
    ?assertEqual(["plain", "gr\x{fc}n", "\x{ff}"],
                 whittle_runtime:step_output(
                   {step_failed, #{step => "s", status => 2, log => "l",
                                   tail => [<<"plain">>, <<"gr\xc3\xbcn">>, <<255>>]}})),
    ?assertEqual([], whittle_runtime:step_output({no_cache, #{}})).

%%% The real runtime

found_again(Config) ->
    Runtime = runtime(Config),
    Progress = fun(Event) -> error({built_again, Event}) end,
    ?assertEqual({ok, Runtime}, whittle_runtime:ensure(spec(), #{progress => Progress})),
    ?assertMatch(#{otp := "29", otp_vsn := "29." ++ _, erts_vsn := _, flavor := size,
                   target := "x86_64", natives := []}, Runtime).

%% Only the artifact with the right key counts, not another one of the same release.
has_otp(Config) ->
    Release = whittle_runtime:default_otp(),
    {ok, #{dir := Otp}} = whittle_runtime:otp(Release, #{}),
    {ok, Root} = whittle_cache_dir:root(#{}),
    Cache = filename:join(proplists:get_value(dir, Config), "cache"),
    Has = fun(Options) -> whittle_runtime:has_otp(Release, Options) end,
    ok = filelib:ensure_path(filename:join(Cache, "artefacts")),
    Link = fun(To, Name) -> ok = file:make_symlink(To, filename:join(Cache, Name)) end,
    ?assert(Has(#{})),
    ?assertNot(whittle_runtime:has_otp("17", #{})),
    Link(Otp, "artefacts/otp-" ++ Release ++ "-0123456789abcdef"),
    ?assertNot(Has(#{cache => Cache})),
    Link(filename:join(Root, "sources"), "sources"),
    ?assertNot(Has(#{cache => Cache})),
    Link(Otp, "artefacts/" ++ filename:basename(Otp)),
    ?assert(Has(#{cache => Cache})).

%% A build does not pack a changed VM or OTP, and does not link changed parts. The test uses a copy
%% of the cache: its files have new metadata, so every check computes every checksum.
changed_in_the_cache(Config) ->
    #{dir := Dir, otp := Release} = runtime(Config),
    {ok, #{dir := Otp}} = whittle_runtime:otp(Release, #{}),
    {ok, [#{parts := Parts}]} = file:consult(filename:join(Dir, "inputs.config")),
    Artifacts = filename:dirname(Dir),
    Copy = filename:join(dir(Config), "cache"),
    ok = filelib:ensure_path(filename:join(Copy, "artefacts")),
    {ok, Cache} = whittle_cache_dir:root(#{}),
    ok = file:make_symlink(filename:join(Cache, "sources"), filename:join(Copy, "sources")),
    Used = [Otp, Dir | [Part || Id <- maps:values(Parts),
                                Part <- filelib:wildcard("*-" ++ string:slice(Id, 0, 16),
                                                         Artifacts)]],
    [{ok, _} = whittle_program:capture("cp", ["-a", filename:join(Artifacts, Name),
                                           filename:join(Copy, "artefacts")]) || Name <- Used],
    Options = #{cache => Copy, progress => fun(Event) -> error({built_again, Event}) end},
    ?assertMatch({ok, _}, whittle_runtime:ensure(spec(), Options)),
    ?assertMatch({ok, _}, whittle_runtime:otp(Release, Options)),
    In = fun(Original, Path) ->
                 filename:join([Copy, "artefacts", filename:basename(Original), Path])
         end,
    Vm = In(Dir, "vm"),
    flipped(Vm, 4711),
    ?assertMatch({error, {changed_artifact, #{file := Vm}}},
                 whittle_runtime:ensure(spec(), Options)),
    [Beam] = filelib:wildcard(In(Otp, "lib/stdlib-*/ebin/lists.beam")),
    flipped(Beam, 99),
    ?assertMatch({error, {changed_artifact, #{file := Beam}}},
                 whittle_runtime:otp(Release, Options)),
    %% A build checks a part when it uses it.
    ok = file:del_dir_r(In(Dir, "")),
    #{terminfo := TerminfoId} = Parts,
    [Terminfo] = filelib:wildcard(In("*-" ++ string:slice(TerminfoId, 0, 16), "lib/libtinfo.a")),
    flipped(Terminfo, 99),
    ?assertMatch({error, {changed_artifact, #{file := Terminfo}}},
                 whittle_runtime:ensure(spec(), #{cache => Copy})).

%% Changes one bit and restores the times.
flipped(File, At) ->
    {ok, #file_info{mtime = Time}} = file:read_file_info(File),
    {ok, <<Before:At/binary, Byte, After/binary>>} = file:read_file(File),
    ok = file:write_file(File, <<Before/binary, (Byte bxor 1), After/binary>>),
    ok = file:change_time(File, Time).

is_static(Config) ->
    #{executable := Vm} = runtime(Config),
    {ok, Headers} = whittle_program:capture("readelf", ["-lW", Vm]),
    ?assertEqual(nomatch, string:find(Headers, "INTERP")),
    ?assertEqual(nomatch, string:find(Headers, "DYNAMIC")),
    %% The limit for the VM's share of a file.
    ?assert(filelib:file_size(Vm) =< 2900000).

runs_alone(Config) ->
    #{erts_vsn := Erts} = Vm = runtime(Config),
    Code = "io:format(\"~s ~s ~p\", [erlang:system_info(version),"
        " erlang:system_info(emu_flavor), lists:sum(lists:seq(1, 100))]), halt(3).",
    ?assertEqual({3, Erts ++ " emu 5050"}, bare_vm:eval(Vm, Code)).

components_have_notices(Config) ->
    #{components := Components, dir := Dir} = runtime(Config),
    Names = [N || #{name := N} <- Components],
    ?assertEqual([], ["erts", "zlib", "pcre2", "ryu", "zstd", "musl"] -- Names),
    ?assertNot(lists:member("openssl", Names)),
    ?assertNot(lists:member("asmjit", Names)),
    [begin
         ?assertNotEqual("", Version),
         ?assertNotEqual([], Notices),
         [?assert(filelib:file_size(filename:join(Dir, N)) > 100) || N <- Notices]
     end || #{version := Version, notices := Notices} <- Components].

symbols_beside(Config) ->
    #{executable := Vm, symbols := Symbols} = runtime(Config),
    ?assert(filelib:file_size(Symbols) > filelib:file_size(Vm)),
    Id = fun(File) ->
                 {ok, Notes} = whittle_program:capture("readelf", ["-nW", File]),
                 {match, [Hex]} = re:run(Notes, "Build ID: ([0-9a-f]+)",
                                         [{capture, all_but_first, list}]),
                 Hex
         end,
    ?assertEqual(Id(Vm), Id(Symbols)).

%%% Test data

spec() ->
    #{target => "x86_64", otp => "29", flavor => size, natives => []}.

options(Native, Config) ->
    Tarball = filename:join(dir(Config), "otp.tar"),
    ok = erl_tar:create(Tarball, [{"otp/OTP_VERSION", <<"29.0.1\n">>}]),
    #{cache => filename:join(dir(Config), "cache"), native => Native, source => Tarball}.

native(Config, Series) ->
    Native = filename:join(dir(Config), "native"),
    made:file(filename:join([Native, "patches", "series"]), Series),
    Native.

link_tool(Tool, Config) ->
    ok = file:make_symlink(os:find_executable(Tool), filename:join(dir(Config), Tool)).

runtime(Config) ->
    proplists:get_value(runtime, Config).

dir(Config) ->
    proplists:get_value(dir, Config).
