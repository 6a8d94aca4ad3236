%% Tests the tables by which ERTS finds its parts, on short tables of the same form.
-module(whittle_runtime_tables_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([bifs/1, uses_in_c/1, kept/1, rows_stay/1, drivers/1, preloaded/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

bifs(_) ->
    ?assertEqual([{{math, sin, 1}, false}, {{erlang, hd, 1}, true}, {{erlang, '!', 2}, false},
                  {{ets, take, 2}, false}],
                 [{Name, Guard} || #{name := Name, guard := Guard}
                                       <- whittle_runtime_tables:bifs(texts())]).

%% A BIF needs the BIFs in which it continues. Other C code needs its BIFs always. Comments and
%% files without C functions count too little and too much.
uses_in_c(_) ->
    Named = fun(File, Text) -> whittle_runtime_tables:named([{File, Text}], texts()) end,
    In = <<"BIF_RETTYPE math_sin_1(BIF_ALIST_1)\n{\n"
           "  BIF_TRAP1(BIF_TRAP_EXPORT(BIF_ets_take_2));\n}\n">>,
    ?assertMatch(#{always := [], with := #{{math, sin, 1} := [{ets, take, 2}]}},
                 Named("erl_math.c", In)),
    ?assertMatch(#{always := [{ets, take, 2}], with := With} when map_size(With) =:= 0,
                 Named("bif.c", <<"static void\nstart(void)\n{\n  x(BIF_ets_take_2);\n}\n">>)),
    ?assertMatch(#{always := [{ets, take, 2}]}, Named("a.tab", In)),
    ?assertMatch(#{always := []}, Named("bif.c", <<"/* BIF_ets_take_2 */\n">>)),
    ?assertMatch(#{called := [{math, sin, 1}]},
                 Named("bif.c", <<"  trap = erts_export_put(am_math,\n      am_sin, 1);\n">>)).

%% Guards stay, because instructions call them without a name.
kept(_) ->
    Bifs = whittle_runtime_tables:bifs(texts()),
    All = maps:from_keys([Name || #{name := Name} <- Bifs], []),
    Kept = fun(Named, Removed) ->
                   lists:sort(maps:keys(whittle_runtime_tables:kept(Bifs, Named, Removed)))
           end,
    None = #{always => [], with => #{}, called => []},
    ?assertEqual([{erlang, hd, 1}], Kept(None, All)),
    ?assertEqual(lists:sort(maps:keys(All)), Kept(None, #{})),
    ?assertEqual([{erlang, hd, 1}, {ets, take, 2}],
                 Kept(None#{with := #{{erlang, hd, 1} => [{ets, take, 2}],
                                      {ets, take, 2} => [{ets, take, 2}]}}, All)),
    ?assertEqual([{erlang, '!', 2}, {erlang, hd, 1}, {math, sin, 1}],
                 Kept(None#{always := [{math, sin, 1}], called := [{erlang, '!', 2}, {a, b, 3}]},
                      All)).

%% The C code knows a BIF by the number of its row.
rows_stay(_) ->
    #{table := Table} = texts(),
    Bifs = whittle_runtime_tables:bifs(texts()),
    Less = iolist_to_binary(whittle_runtime_tables:bif_table(
                              Table, Bifs, #{{erlang, hd, 1} => [], {ets, take, 2} => []})),
    ?assertEqual([{'_', sin, 1}, {erlang, hd, 1}, {'_', '!', 2}, {ets, take, 2}],
                 [Name || #{name := Name}
                              <- whittle_runtime_tables:bifs((texts())#{table := Less})]),
    ?assertEqual(nomatch, binary:match(Less, <<"math_sin_1">>)),
    ?assertMatch({_, _}, binary:match(Less, <<"ets_take_2">>)),
    %% No BIF of `re' is there, so its initialization does nothing.
    ?assertMatch({_, _}, binary:match(Less, <<"void erts_init_bif_re(void) {}">>)),
    ?assertEqual(nomatch, binary:match(iolist_to_binary(whittle_runtime_tables:bif_table(
                                                          Table, Bifs, #{{re, run, 2} => []})),
                                       <<"erts_init_bif_re">>)).

drivers(_) ->
    Table = <<"extern ErlDrvEntry inet_driver_entry;\nextern ErlDrvEntry ram_file_driver_entry;\n"
              "    {&inet_driver_entry, 0},\n    {&ram_file_driver_entry, 0},\n"
              "void *zlib_nif_init(void);\n    {&zlib_nif_init, 0, THE_NON_VALUE, NULL},\n">>,
    ?assertEqual(Table, lines(whittle_runtime_tables:driver_table(Table, []))),
    ?assertEqual(<<"extern ErlDrvEntry ram_file_driver_entry;\n"
                   "    {&ram_file_driver_entry, 0},\n">>,
                 lines(whittle_runtime_tables:driver_table(Table, ["inet", "zlib"]))),
    [?assertEqual({Name, Has}, {Name, whittle_runtime_tables:has_library(Name, Table)})
     || {Name, Has} <- [{"zlib", true}, {"inet", true}, {"net", false}, {"zstd", false}]].

%% The VM loads the modules in the order of the old table, for example `erl_init' early.
preloaded(_) ->
    Old = <<"const unsigned preloaded_size_b = 2;\n} pre_loaded[] = {\n"
            "  {\"b\", 2, preloaded_b},\n  {\"a\", 1, preloaded_a},\n  {0, 0, 0}\n};\n">>,
    ?assertEqual([b, a], whittle_runtime_tables:preloaded(Old)),
    {Table, Bytes} = whittle_runtime_tables:preload(Old, #{a => <<"AA">>, b => <<"BBB">>}),
    ?assertEqual(<<"BBBAA">>, Bytes),
    ?assertMatch({match, _}, re:run(Table, "\\{\"b\", 3, whittle_preloaded \\+ 0\\},\n"
                                    " *\\{\"a\", 2, whittle_preloaded \\+ 3\\},")),
    ?assertMatch({_, <<"AA">>}, whittle_runtime_tables:preload(Old, #{a => <<"AA">>})).

%% Internal

lines(Written) -> iolist_to_binary([string:trim(iolist_to_binary(Written), trailing, "\n"), $\n]).

texts() ->
    #{table => <<"BifEntry bif_table[] = {\n"
                 "    {am_math, am_sin, 1, math_sin_1, math_sin_1, BIF_KIND_REGULAR},\n"
                 "    {am_erlang, am_hd, 1, hd_1, hd_1, BIF_KIND_GUARD},\n"
                 "    {am_erlang, am_Bang, 2, ebif_bang_2, ebif_bang_2, BIF_KIND_REGULAR},\n"
                 "    {am_ets, am_take, 2, ets_take_2, ets_take_2, BIF_KIND_HEAVY},\n"
                 "};\n">>,
      header => <<"#define am_Underscore make_atom(0)\n#define am_math make_atom(1)\n"
                  "#define am_sin make_atom(2)\n#define am_erlang make_atom(3)\n"
                  "#define am_hd make_atom(4)\n#define am_Bang make_atom(5)\n"
                  "#define am_ets make_atom(6)\n#define am_take make_atom(7)\n">>,
      atoms => <<"  \"_\",\n  \"math\",\n  \"sin\",\n  \"erlang\",\n  \"hd\",\n  \"!\",\n"
                 "  \"ets\",\n  \"take\",\n">>}.
