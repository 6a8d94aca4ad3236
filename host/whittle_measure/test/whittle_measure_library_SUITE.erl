%% Tests the forms of a library on files of known contents.
-module(whittle_measure_library_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("stdlib/include/zip.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0]).
-export([forms/1, same_archive/1, passes/1]).

all() -> [forms, same_archive, passes].

%% Two modules that repeat each other compress only in one stream.
forms(Config) ->
    Random = crypto:strong_rand_bytes(10_000),
    Files = [{a, [{"a/ebin/a.app", <<"text">>}, {"a/ebin/a.beam", Random}]},
             {b, [{"b/ebin/b.beam", Random}]}],
    File = filename:join(proplists:get_value(priv_dir, Config), "library"),
    Size = fun(Form) ->
                   {ok, #{size := Size}} = whittle_measure_library:size(Form, Files, File),
                   Size
           end,
    Plain = Size(#{}),
    ?assertEqual(20_004, Plain),
    ?assertEqual(4 + 2 * byte_size(zlib:gzip(Random)), Size(#{modules => gzip})),
    ?assert(Size(#{applications => zip}) > Plain),
    ?assert(Size(#{stream => zstd}) < Plain div 2 + 200),
    ?assertEqual([], filelib:wildcard(File ++ "*")),
    {ok, #{sha256 := One}} = whittle_measure_library:size(#{}, Files, File),
    {ok, #{sha256 := Other}} = whittle_measure_library:size(#{}, tl(Files), File),
    ?assertNotEqual(One, Other),
    ?assertMatch({error, _}, whittle_measure_library:size(#{stream => zstd}, Files,
                                                          "/nowhere/library")).

%% A size is exact only if an archive does not contain the time of its making.
same_archive(_) ->
    Archive = whittle_measure_library:archive(a, [{"a/ebin/a.beam", <<"bytes">>}]),
    {ok, [#zip_comment{}, #zip_file{name = "a/ebin/a.beam", info = #file_info{mtime = Time}}]} =
        zip:list_dir(Archive),
    ?assertEqual({{1980, 1, 1}, {0, 0, 0}}, Time).

%% Whittle's own passes strip a library, and shaking is one of them.
passes(_) ->
    Passes = fun(Request, Form) ->
                     #{passes := Passes} =
                         whittle_measure_library:request(#{request => Request, form => Form}),
                     Passes
             end,
    Shake = #{shake => #{unit => functions, missing => crash}},
    ?assertEqual(whittle_make:passes(none), Passes(#{}, #{})),
    ?assertEqual([whittle_pass_strip, whittle_pass_literals],
                 Passes(#{}, #{}) -- Passes(#{}, #{strip => false})),
    ?assertEqual([whittle_make_shake], Passes(Shake, #{}) -- Passes(#{}, #{})).
