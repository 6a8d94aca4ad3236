%% Tests the checks of a tarball that a user names: members, version, checksum, patches.
-module(whittle_source_archive_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2]).
-export([good/1, no_file/1, no_tarball/1, cut_off/1, no_version/1, old/1, outside/1, links/1,
         other_members/1, too_large/1, lines_of_tar/1, sums/1, changed_later/1, patches/1,
         nearest/1, unknown_release/1]).

all() ->
    [good, no_file, no_tarball, cut_off, no_version, old, outside, links, other_members, too_large,
     lines_of_tar, sums, changed_later, patches, nearest, unknown_release].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

good(Config) ->
    [begin
         File = tarball(Config, "good", members(Vsn), Options),
         ?assertEqual({ok, #{top => "otp_src_x", vsn => Vsn, release => Release}},
                      whittle_source_archive:read(File))
     end || {Vsn, Release} <- [{"29.1.1", "29"}, {"25.2.3", "25"}, {"30.0-rc1", "30"}],
            Options <- [[], [compressed]]].

no_file(Config) ->
    ?assertMatch({error, {unreadable, #{reason := enoent}}},
                 one_line(whittle_source_archive:read(in("nothing", Config)))),
    refused("is a directory", in("", Config)),
    refused("is no regular file", "/dev/null"),
    %% This file claims to be empty, and its reader waits for messages of the kernel.
    refused("is no regular file", "/proc/kmsg"),
    %% The open of a FIFO would wait for a writer.
    Fifo = in("fifo", Config),
    "" = os:cmd("mkfifo '" ++ Fifo ++ "'"),
    refused("is no regular file", Fifo).

no_tarball(Config) ->
    File = in("text.tar", Config),
    ok = file:write_file(File, "words\n"),
    refused("is no tarball \\(.*tar: ", File),
    ok = file:write_file(File, ""),
    refused("is no tarball", File),
    ok = file:write_file(File, binary:copy(<<0>>, 10240)),
    refused("is an empty tarball", File).

%% The end of the download is missing: the version comes first, so only the whole list shows it.
cut_off(Config) ->
    Random = [{"otp_src_x/" ++ [N], crypto:strong_rand_bytes(50_000)} || N <- "abcdef"],
    File = tarball(Config, "cut", members("29.1") ++ Random, [compressed]),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, binary:part(Bytes, 0, byte_size(Bytes) - 100_000)),
    refused("is damaged or cut off after [0-9]+ members", File).

no_version(Config) ->
    refused("lacks the file otp_src_x/OTP_VERSION",
            tarball(Config, "none", [{"otp_src_x/README.md", <<"words">>},
                                     {"otp_src_x/lib/OTP_VERSION", <<"29.1">>}], [])),
    refused("holds no version of OTP", tarball(Config, "words", members("twenty-nine"), [])),
    refused("holds no version of OTP", tarball(Config, "empty", members(""), [])),
    refused("holds no version of OTP",
            tarball(Config, "long", members(lists:duplicate(1025, $2)), [])),
    %% tar unpacks the last one, and a reader that stops early sees the first one.
    refused("has two files OTP_VERSION",
            tarball(Config, "two_versions", members("29.1") ++ members("29.2"), [])).

old(Config) ->
    File = tarball(Config, "old", members("24.3.4"), []),
    ?assertMatch({error, {old_otp, #{vsn := "24.3.4", oldest := "25"}}},
                 one_line(whittle_source_archive:read(File))).

outside(Config) ->
    [refused("outside of its directory", tarball(Config, "out", members("29.1") ++ [Member], []))
     || Member <- [{"../outside", <<"x">>}, {"/tmp/outside", <<"x">>},
                   {"otp_src_x/../../outside", <<"x">>}, {"otp_src_x/lib/..", <<"x">>}]],
    refused("two directories at its top",
            tarball(Config, "two", members("29.1") ++ [{"other/x", <<"x">>}], [])),
    refused("at its top", tarball(Config, "top", [{"OTP_VERSION", <<"29.1">>}], [])).

links(Config) ->
    Tree = tree("29.1", Config),
    Lib = filename:join(Tree, "lib"),
    ok = filelib:ensure_path(Lib),
    ok = file:make_symlink("../OTP_VERSION", filename:join(Lib, "inside")),
    ok = file:make_link(filename:join(Tree, "OTP_VERSION"), filename:join(Lib, "same")),
    ?assertMatch({ok, #{vsn := "29.1"}}, whittle_source_archive:read(packed(Tree, []))),
    [begin
         ok = file:make_symlink(To, filename:join(Lib, "leads")),
         refused("the link otp_src_x/lib/leads, which leads out", packed(Tree, [])),
         ok = file:delete(filename:join(Lib, "leads"))
     end || To <- ["../../x", "/etc/passwd", "a/../../../x", "a/../x"]],
    %% Behind a link, a path is not what its parts say.
    ok = file:make_symlink("..", filename:join(Lib, "up")),
    ok = file:write_file(filename:join(Lib, "z"), "x"),
    refused("otp_src_x/lib/up/x, which lies below a link",
            packed(Tree, ["--transform=s,/lib/z$,/lib/up/x,", "--sort=name"])),
    refused("otp_src_x/lib/./up//x, which lies below a link",
            packed(Tree, ["--transform=s,/lib/z$,/lib/./up//x,", "--sort=name"])),
    refused("the link otp_src_x/././lib/up, which leads out",
            packed(Tree, ["--transform=s,x/lib/up$,x/././lib/up,", "--transform=s,^[.][.]$,../..,",
                          "--sort=name"])),
    ok = file:delete(filename:join(Lib, "up")),
    refused("the link otp_src_x/lib/same, which leads out .* to other/OTP_VERSION",
            packed(Tree, ["--transform=s,otp_src_x/OTP,other/OTP,RSh", "--sort=name"])).

other_members(Config) ->
    Tree = tree("29.1", Config),
    "" = os:cmd("mkfifo '" ++ filename:join(Tree, "pipe") ++ "'"),
    refused("neither a file, a directory nor a link", packed(Tree, [])).

%% The list shows the size before anybody writes the bytes.
too_large(Config) ->
    Tree = tree("29.1", Config),
    "" = os:cmd("truncate -s 5G '" ++ filename:join(Tree, "zeros") ++ "'"),
    refused("more than 4 GiB when it is unpacked", packed(Tree, ["--sparse"])),
    %% tar prints such a time as one number.
    refused("more than 4 GiB when it is unpacked",
            packed(Tree, ["--sparse", "--format=posix", "--mtime=@9223372036854775000"])),
    Packed = in("packed.tar.gz", Config),
    "" = os:cmd("truncate -s 2G '" ++ Packed ++ "'"),
    refused("has more than 1 GiB", Packed).

lines_of_tar(_) ->
    ?assertEqual({ok, #{type => $-, size => 12, name => "a/b \\\"c\\\" -> d"}},
                 whittle_source_archive:member(
                   <<"-rw-r--r-- 0/0 12 2026-01-01 00:00 \"a/b \\\"c\\\" -> d\"">>)),
    ?assertEqual({ok, #{type => $l, size => 0, name => "a", link => "../b"}},
                 whittle_source_archive:member(
                   <<"lrwxrwxrwx 0/0 0 2026-01-01 00:00 \"a\" -> \"../b\"">>)),
    ?assertEqual({ok, #{type => $h, size => 0, name => "a", link => "b"}},
                 whittle_source_archive:member(
                   <<"hrw-r--r-- 0/0 0 2026-01-01 00:00 \"a\" link to \"b\"">>)),
    ?assertEqual({ok, #{type => $-, size => 5, name => "a ", link => "b"}},
                 whittle_source_archive:member(
                   <<"-rw-r--r-- 0/0 5 9223372036854775000 \"a \" -> \"b\"">>)),
    ?assertEqual(unknown, whittle_source_archive:member(<<"-rw-r--r-- 0/0 five \"a\"">>)),
    ?assertEqual(none, whittle_source_archive:member(<<"tar: Unexpected EOF in archive">>)).

sums(Config) ->
    File = tarball(Config, "summed", members("29.1"), []),
    {ok, Sum} = whittle_digest:file(File),
    Beside = File ++ ".sha256",
    ok = file:make_symlink("/dev/zero", Beside),
    ?assertMatch({error, {unchecked_source, _}}, whittle_runtime:given(File, none)),
    ok = file:delete(Beside),
    ?assertMatch({error, {unchecked_source, #{actual := Sum}}},
                 one_line(whittle_runtime:given(File, none))),
    ?assertMatch({ok, #{file := File, sha256 := Sum, vsn := "29.1", release := "29"}},
                 whittle_runtime:given(File, Sum)),
    ?assertMatch({ok, _}, whittle_runtime:given(File, string:uppercase(Sum))),
    Other = lists:duplicate(64, $0),
    ?assertMatch({error, {bad_checksum, #{expected := Other, actual := Sum}}},
                 one_line(whittle_runtime:given(File, Other))),
    Name = filename:basename(File),
    [begin
         ok = file:write_file(Beside, Text),
         ?assertMatch({ok, #{sha256 := Sum}}, whittle_runtime:given(File, none))
     end || Text <- [[Sum, "  ", Name, "\n"], [Sum, " *./", Name, "\r\n"], [Sum, "\n"],
                     [Other, "  otp.tar\n", Sum, "  ", Name, "\n"]]],
    %% It confirms another file.
    ok = file:write_file(Beside, [Sum, "  otp.tar\n"]),
    ?assertMatch({error, {unchecked_source, #{actual := Sum}}}, whittle_runtime:given(File, none)).

%% A build compares the checksum again, because the file may have changed since.
changed_later(Config) ->
    File = tarball(Config, "changed", members("29.1"), []),
    {ok, Sum} = whittle_digest:file(File),
    {ok, #{sha256 := Sum}} = whittle_runtime:given(File, Sum),
    Options = #{source => File, sha256 => Sum},
    ?assertEqual({ok, "29.1"}, whittle_runtime:source("29", Options)),
    ok = file:write_file(File, "more", [append]),
    ?assertMatch({error, {bad_checksum, #{expected := Sum}}},
                 whittle_runtime:source("29", Options)).

%% All patches are tried, and each place is named.
patches(Config) ->
    Before = whittle_unfinished:left(),
    Patches = in("native/patches", Config),
    Patch = fun(Name, File, From, To) ->
                    made:file(filename:join(Patches, Name),
                              ["A reason.\n--- a/", File, "\n+++ b/", File, "\n@@ -1,3 +1,3 @@\n",
                               " one\n-", From, "\n+", To, "\n three\n"])
            end,
    _ = Patch("fits.patch", "erts/a.c", "two", "2"),
    _ = Patch("lost.patch", "erts/b.c", "zwei", "2"),
    _ = Patch("gone.patch", "erts/c.c", "two", "2"),
    _ = Patch("there.patch", "erts/d.c", "zwei", "two"),
    _ = Patch("other.patch", "erts/a.c", "drei", "3"),
    _ = made:file(filename:join(Patches, "series"),
                  "fits.patch 25,29\nlost.patch 29\ngone.patch 29\nthere.patch 29\n"
                  "other.patch 25\n"),
    Text = <<"one\ntwo\nthree\n">>,
    File = tarball(Config, "patched", [{"otp_src_x/erts/" ++ Name, Text}
                                       || Name <- ["a.c", "b.c", "d.c"]] ++ members("31.0"), []),
    {ok, Sum} = whittle_digest:file(File),
    {ok, Given} = whittle_runtime:given(File, Sum),
    Options = #{native => in("native", Config)},
    {error, Reason} = Error = whittle_runtime:patches_apply(Given, Options),
    ?assertMatch({error, {unfit_patches, #{otp := "31.0", patches := 3}}}, one_line(Error)),
    ?assertEqual(["lost.patch: erts/b.c: hunk 1, line 1",
                  "gone.patch: erts/c.c: the source lacks this file",
                  "there.patch: erts/d.c: the source contains the change already"],
                 whittle_runtime:step_output(Reason)),
    %% Release 26 gets the patches of 25: two changes of one place.
    ?assertMatch({error, {unfit_patches, #{tail := [<<"other.patch: erts/a.c: hunk 1, ", _/binary>>
                                                   ]}}},
                 whittle_runtime:patches_apply(Given#{release := "26"}, Options)),
    ?assertEqual(Before, whittle_unfinished:left()).

nearest(_) ->
    Known = ["25", "27", "29", "29"],
    ?assertEqual(["25", "25", "27", "27", "29", "29", "24"],
                 [whittle_patches:nearest(Release, Known)
                  || Release <- ["25", "26", "27", "28", "29", "30", "24"]]).

%% A release that no table names can be built from a tarball only.
unknown_release(Config) ->
    Spec = #{target => whittle_runtime:default_target(), otp => "31", flavor => size,
             natives => []},
    File = tarball(Config, "new", members("31.0"), []),
    ?assertMatch({error, {unsupported_otp, _}}, whittle_runtime:check(Spec)),
    ?assertMatch({error, {unsupported_otp, _}}, whittle_runtime:check(Spec, #{source => none})),
    ?assertEqual(ok, whittle_runtime:check(Spec, #{source => File})).

%% Internal functions

members(Vsn) ->
    [{"otp_src_x/OTP_VERSION", list_to_binary(Vsn ++ "\n")},
     {"otp_src_x/README.md", <<"words">>}].

tarball(Config, Name, Members, Options) ->
    File = in(Name ++ ".tar", Config),
    ok = erl_tar:create(File, Members, Options),
    File.

tree(Vsn, Config) ->
    Tree = in("otp_src_x", Config),
    made:file(filename:join(Tree, "OTP_VERSION"), Vsn),
    Tree.

packed(Tree, Options) ->
    File = Tree ++ ".tar",
    {0, _} = whittle_program:run(os:find_executable("tar"),
                                 Options ++ ["-cf", File, "-C", filename:dirname(Tree),
                                             filename:basename(Tree)], #{}),
    File.

refused(Pattern, File) ->
    {error, {bad_archive, #{why := Why}}} = one_line(whittle_source_archive:read(File)),
    ?assertMatch({Why, _, {match, _}}, {Why, Pattern, re:run(Why, Pattern)}).

one_line({error, Reason} = Error) ->
    Line = unicode:characters_to_list(whittle_runtime:format_error(Reason)),
    ?assertEqual(nomatch, string:find(Line, "\n")),
    ?assertMatch({match, _}, re:run(Line, "; ")),
    Error.

in(Name, Config) -> filename:join(proplists:get_value(dir, Config), Name).
