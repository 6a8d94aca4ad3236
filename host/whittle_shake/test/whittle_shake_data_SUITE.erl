%% Tests names in data: attributes of modules, lists of modules, keys of maps, packed files, flags
%% of the VM. A name that only data has stays where the program reads that data, and nowhere else.
-module(whittle_shake_data_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([attributes/1, attributes_of_tools/1, attributes_by_beam_lib/1, modules/1, funs/1,
         features_of_configuration/1, variables_of_configuration/1, features_of_files/1,
         further_configurations/1,
         modules_through/1, modules_in_files/1, keys/1, files/1, tables/1,
         deflated_files/1, other_files/1, archives/1, scripts/1, flags/1, variables/1,
         lists_without_what_is_gone/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

-define(TARGET, {target, ["-module(target). -export([live/0, dead/0]).",
                          "live() -> ok. dead() -> ok."]}).

%% The atom may be an argument, or stand in a pattern. Without it no function reads attributes.
attributes(_) ->
    [?assertEqual({Reads, Live},
                  {Reads, live([{a, ["-module(a). -export([main/0]).",
                                     "-step({target, live}).", "main() -> ", Reads, "."]},
                                ?TARGET], #{})})
     || {Reads, Live} <-
            [{"M = pick(), M:module_info(attributes). pick() -> a", true},
             {"[X || {attributes, X} <- a:module_info()]", true},
             {"apply(a, module_info, [attributes])", true},
             {"[L || {_, L} <- a:module_info(), is_list(L)]", true},
             {"M = pick(), M:module_info(). pick() -> a", true},
             {"a:module_info(exports)", false},
             {"[attributes]", false}]].

%% Compilers and checkers leave these attributes for themselves.
attributes_of_tools(_) ->
    ?assertNot(live([{a, ["-module(a). -export([main/0]).",
                          "-ignore_xref([{target, live, 0}]). -vsn(target).",
                          "main() -> {live, a:module_info(attributes)}."]}, ?TARGET], #{})).

%% The program reads them by the atom or by the chunk's name. Another function may give or look
%% for it.
attributes_by_beam_lib(_) ->
    [?assertEqual({Main, Live},
                  {Main, live([{a, ["-module(a). -export([main/0]).",
                                    "main() -> ", Main, ". pick() -> b."]},
                               {b, ["-module(b). -step({target, live})."]}, ?TARGET], #{})})
     || {Main, Live} <-
            [{"beam_lib:chunks(pick(), [attributes])", true},
             {"beam_lib:chunks(pick(), [\"Attr\"])", true},
             {"beam_lib:chunks(pick(), chunks()). chunks() -> [self(), \"Attr\"]", true},
             {"{ok, _, All} = beam_lib:all_chunks(pick()), chunk(All). "
              "chunk(All) -> lists:keyfind(\"Attr\", 1, All)", true},
             {"beam_lib:chunks(pick(), [\"Attribute\", exports])", false}]].

%% `fun M:F/A' in data is a function, like in code.
funs(_) ->
    Fun = fun target:live/0,
    Main = ["-module(a). -export([main/0]). main() -> ok."],
    [begin
         System = change(system([{a, Main}, ?TARGET], #{}), Key, Value),
         ?assert(lists:member({target, live, 0}, hot(System)))
     end || {Key, Value} <- [{env, [{hooks, [#{f => Fun}]}]}, {mod, {a, Fun}},
                             {start_phases, [{begins, {1, Fun}}]}]],
    Config = <<"[{kernel, [{logger, [{filters, log, [{f, {fun target:live/0, x}}]}]}]}].">>,
    Template = binary:replace(Config, <<"x}">>, <<"\"${LEVEL}\", ${LEVEL}}">>),
    [?assert(lists:member({target, live, 0},
                          hot(whittle_system:put_file(Path, #{mode => 8#644, bytes => Bytes},
                                                      system([{a, Main}, ?TARGET], #{})))))
     || {Path, Bytes} <- [{<<"releases/1/sys.config">>, Config},
                          {<<"releases/1/sys.config.src">>, Template}]],
    ?assert(live([{a, ["-module(a). -export([main/0]). -hook(fun target:live/0). ",
                       "main() -> a:module_info(attributes)."]}, ?TARGET], #{})),
    ?assert(live([{a, ["-module(a). -export([main/0]). main() -> binary_to_term(x)."]}, ?TARGET],
                 #{<<"priv/hooks">> => term_to_binary([Fun])})).

%% An address, the name of a process or a module in the configuration turns its feature on, as in
%% code.
features_of_configuration(_) ->
    System = system([{a, ["-module(a). -export([main/0]). main() -> ok."]},
                     {rpc, ["-module(rpc). -export([call/4]). call(_, _, _, _) -> ok."]}], #{}),
    On = fun(Value) -> on(change(System, env, [{key, Value}])) -- on(System) end,
    ?assertEqual([], On({ip, {127, 0, 0, 1}})),
    ?assertEqual([inet6], On({ip, {0, 0, 0, 0, 0, 0, 0, 1}})),
    ?assertEqual([distribution, global, inet], On({global, name})),
    ?assertEqual([distribution, global, inet], On({via, global, name})),
    ?assertEqual([], On({via, other, name})),
    ?assertEqual([pg], On(#{start => {pg, start_link, [name]}})),
    ?assertEqual([], On({zip, timer, name})),
    Flags = fun(Text) -> on(put_flags(Text, System)) -- on(System) end,
    ?assertEqual([distribution, global, inet], Flags("-a key {global,name}") -- [terms]),
    ?assertEqual([inet6], Flags("-a key '{0,0,0,0,0,0,0,1}'") -- [terms]),
    %% The start script of Mix names the node in env.sh.
    Named = whittle_system:put_env(<<"RELEASE_NODE">>, {always, <<"a@b">>}, System),
    ?assertEqual([distribution, global, inet], on(Named) -- on(System)),
    ?assertEqual([], on(whittle_system:put_env(<<"RELEASE_DISTRIBUTION">>, {always, <<"none">>},
                                               Named)) -- on(System)),
    %% Calls turn their features on, also those of modules whose names are common atoms.
    [?assertEqual([distribution, global, inet], Flags(["-eval '", Text, "'"]) -- [eval, terms])
     || Text <- ["rpc:call(n, m, f, []).", "${CALL:-rpc:call(n, m, f, [])}."]],
    ?assertEqual([distribution, global, inet], On(fun global:whereis_name/1)),
    ?assertEqual([disk_log], On(fun ets:tab2file/2)),
    %% A template may be a term only with its values.
    Template = fun(Text) ->
                       File = #{mode => 8#644, bytes => iolist_to_binary(Text)},
                       (on(whittle_system:put_file(<<"sys.config.src">>, File, System))
                        -- on(System)) -- [terms]
               end,
    ?assertEqual([inet6], Template("[${MORE} {a, [{ip, {0, 0, 0, 0, 0, 0, 0, 1}}]}].")),
    ?assertEqual([distribution, global, inet], Template("[${MORE} {a, [{f, fun rpc:call/4}]}].")),
    ?assertEqual([distribution, global, inet], Template("[${MORE} {a, [{b, {global, c}}]}].")),
    ?assertEqual([], Template("[${MORE} {a, [{b, {c, d}}]}].")),
    %% A start without the variable uses the default.
    ?assertEqual([inet6], Template("[{a, [{b, {listen, [${FAMILY:-inet6}]}}]}].")),
    ?assertEqual([distribution, global, inet], Template("[{a, [{f, ${F:-fun rpc:call/4}}]}].")).

%% The values of variables may name any function.
variables_of_configuration(_) ->
    Notes = fun(Missing, Path, Text) ->
                    File = #{mode => 8#644, bytes => iolist_to_binary(Text)},
                    [unicode:characters_to_list(Note)
                     || Note <- whittle_shake:unread_notes(
                                  #{missing => Missing},
                                  whittle_system:put_file(Path, File, system([?TARGET], #{})))]
            end,
    Template = "[{a, [{b, ${B}}, {c, \"${C}\"}, {d, ${D:-8080}}, {e, '${E:-e}@host'}]}]. % ${F}",
    ?assertEqual(["sys.config.src gets terms from these variables at each start: B, E; if their "
                  "values name functions that nothing else names, --missing crash removes the "
                  "functions: name them with --keep FILE"],
                 Notes(crash, <<"sys.config.src">>, Template)),
    ?assertEqual([], Notes(load, <<"sys.config.src">>, Template)),
    %% env.sh sets these, and the first one for each start.
    File = #{mode => 8#644, bytes => <<"[{a, ${MF}, ${OTHER}, ${FREE}}].">>},
    System = lists:foldl(fun({Name, Value}, Before) ->
                                 whittle_system:put_env(Name, Value, Before)
                         end,
                         whittle_system:put_file(<<"sys.config.src">>, File,
                                                 system([?TARGET], #{})),
                         [{<<"MF">>, {always, <<"fun target:live/0">>}},
                          {<<"OTHER">>, {default, <<"fun target:other/0">>}}]),
    ?assertEqual([<<"FREE">>, <<"OTHER">>], whittle_shake_roots:variables(System)),
    ?assertEqual([{target, live, 0}, {target, other, 0}],
                 [Mfa || {{target, _, _} = Mfa, _}
                             <- whittle_shake_roots:named_calls(System, [], #{})]),
    ?assertEqual([], Notes(crash, <<"notes.src">>, Template)).

%% The kernel reads such a file, and the program reads none.
further_configurations(_) ->
    Main = {a, ["-module(a). -export([main/0]). main() -> ok."]},
    Files = #{<<"priv/more.config">> => <<"[{a, [{f, fun target:live/0}]}].">>},
    Plain = system([Main, ?TARGET], Files),
    Config = fun(Text) -> whittle_system:put_file(<<"sys.config">>,
                                                  #{mode => 8#644, bytes => Text}, Plain) end,
    [?assertEqual({Live, lists:member({target, live, 0}, hot(System))}, {Live, Live})
     || {Live, System} <- [{false, Plain}, {true, Config(<<"[\"../lib/a/priv/more\"].">>)},
                           {false, Config(<<"[\"other\"].">>)},
                           {true, put_flags("-config ${ROOT}/priv/more.config", Plain)}]].

%% Files in priv turn features on likewise, if the program reads them.
features_of_files(_) ->
    On = fun(Reads, Bytes) ->
                 Source = {a, ["-module(a). -export([main/0]). main() -> ", Reads, "(x)."]},
                 Zip = {zip, ["-module(zip). -export([unzip/2]). unzip(_, _) -> ok."]},
                 on(system([Source, Zip], #{<<"priv/x.script">> => iolist_to_binary(Bytes)}))
                     -- on(system([Source, Zip], #{}))
         end,
    [?assertEqual({Reads, Features}, {Reads, On(Reads, Bytes)})
     || {Reads, Bytes, Features} <-
            [{"file:consult", "{open, [write, compressed]}.", [compressed_files]},
             {"file:consult", "#{zstd => #{}}.", [compressed_files]},
             {"file:consult", "{open, [write, other]}.", []},
             {"file:read_file", "{open, [write, compressed]}.", []},
             {"file:consult", "{ip, {0, 0, 0, 0, 0, 0, 0, 1}}.", [inet6]},
             {"file:script", "{listen, [inet6]}. X = 1.", [inet6]},
             {"file:script", "{ok, {global, x}}. X = 1.", [distribution, global, inet]},
             {"file:script", "{ip, {0, 0, 0, 0, 0, 0, 0, 1}}. X = 1.", [inet6]},
             {"file:script", "X = {0, 0, 0, 0, 0, 0, 0}, X.", []},
             {"file:script", "zip:unzip(F, [memory]).",
              [archives, compressed_files, memory_files]},
             {"file:consult", "#{start => {pg, start_link, [name]}}.", [pg]},
             {"binary_to_term", term_to_binary([ram]), [memory_files]},
             {"binary_to_term", term_to_binary({via, global, x}), [distribution, global, inet]}]].

%% Only the application's list of modules names this module.
modules(_) ->
    [?assertEqual({Key, Live},
                  {Key, live([{a, ["-module(a). -export([main/0]).",
                                   "main() -> {ok, Ms} = application:get_key(a, ", Key, "),",
                                   "          [M:live() || M <- Ms]."]}, ?TARGET], #{})})
     || {Key, Live} <- [{"modules", true}, {"applications", false}]].

%% A function gets the key as an argument.
modules_through(_) ->
    [?assertEqual({Key, Live},
                  {Key, live([{a, ["-module(a). -export([main/0]).",
                                   "main() -> [M:live() || M <- b:get(a, ", Key, ")]."]},
                              {b, ["-module(b). -export([get/2]).",
                                   "get(A, K) -> {ok, V} = application:get_key(A, K), V."]},
                              ?TARGET], #{})})
     || {Key, Live} <- [{"modules", true}, {"vsn", false}]].

%% An `.app' file lists all modules of its application.
modules_in_files(_) ->
    [?assertEqual({Reads, Live},
                  {Reads, live([{a, ["-module(a). -export([main/0]).",
                                     "main() -> [M:live() || M <- listed(b:terms())].",
                                     "listed([{_, _, Keys}]) -> ", Reads, "."]},
                                {b, ["-module(b). -export([terms/0]).",
                                     "terms() -> binary_to_term(x), {ok, T} = c:go(), T."]},
                                {c, ["-module(c). -export([go/0]).", "go() -> ", Call, "."]},
                                ?TARGET], #{})})
     || {Reads, Call, Live} <-
            [{"proplists:get_value(modules, Keys)", "file:consult(x)", true},
             {"hd([Ms || {modules, Ms} <- Keys])", "file:consult(x)", true},
             {"proplists:get_value(modules, Keys)", "erl_scan:string(x)", true},
             {"proplists:get_value(modules, Keys)", "file:read_file(x)", false},
             {"proplists:get_value(vsn, Keys)", "file:consult(x)", false}]].

keys(_) ->
    [?assertEqual({Map, true},
                  {Map, live([{a, ["-module(a). -export([main/0]).",
                                   "main() -> self() ! ", Map, ", receive Table ->",
                                   "          [M:live() || M <- maps:keys(Table)] end."]},
                              ?TARGET], #{})})
     || Map <- ["#{target => 1}", "#{x => #{target => 1}}", "#{target => self()}"]].

%% Files count by their content, with any name, where a function reads terms or text.
files(_) ->
    [?assertEqual({Path, Reads, Live},
                  {Path, Reads, live([{a, ["-module(a). -export([main/0]).",
                                           "main() -> ", Reads, "."]}, ?TARGET],
                                     #{Path => iolist_to_binary(Bytes)})})
     || {Path, Bytes, Reads, Live} <-
            [{<<"priv/steps.config">>, "{target, live}.", "file:consult(x)", true},
             {<<"priv/steps">>, "%% steps\n[{target, live}].\n", "file:consult(x)", true},
             {<<"priv/steps">>, "{target, live}.", "file:consult(x)", true},
             {<<"priv/a.schema">>, "{x, fun(_) -> target:live() end}.", "erl_scan:string(x)", true},
             {<<"priv/a.script">>, "X = 1,\ntarget:live().", "file:script(x)", true},
             {<<"priv/a.etf">>, term_to_binary({target, live}), "binary_to_term(x)", true},
             {<<"priv/log">>, "{target, live}.", "disk_log:open(x)", true},
             {<<"priv/log">>, "{target, live}.", "wrap_log_reader:open(x)", true},
             {<<"priv/log">>, "{target, live}.", "wrap_log_reader:open(x, 1)", true},
             {<<"priv/steps.config">>, "{target, live}.", "file:read_file(x)", false},
             {<<"priv/a.js">>, "{target, live}.", "file:consult(x)", false}]],
    %% A release packs the files beside its configuration.
    Main = fun(Reads) ->
                   [{a, ["-module(a). -export([main/0]). main() -> ", Reads, "."]}, ?TARGET]
           end,
    [?assertEqual({Reads, Live},
                  {Reads, lists:member({target, live, 0},
                                       hot(whittle_system:put_file(
                                             <<"routes.terms">>,
                                             #{mode => 8#644, bytes => <<"{target, live}.">>},
                                             system(Main(Reads), #{}))))})
     || {Reads, Live} <- [{"file:consult(x)", true}, {"file:read_file(x)", false}]].

%% Tables that OTP wrote, with any name.
tables(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "table"),
    Padding = binary:copy(<<131, 0>>, 50000),
    Rows = [{1, Padding}, {2, {target, live}}, {3, <<131, 131, 131>>}],
    [begin
         ok = Write(File, Rows),
         {ok, Bytes} = file:read_file(File),
         ok = file:delete(File),
         ?assertEqual({Kind, true},
                      {Kind, live([{a, ["-module(a). -export([main/0]).",
                                        "main() -> ets:file2tab(x)."]}, ?TARGET],
                                  #{<<"priv/table">> => Bytes})})
     end || {Kind, Write} <- [{ets, fun ets_table/2}, {dets, dets(set)}, {dets, dets(bag)},
                              {disk_log, fun log/2}]].

ets_table(File, Rows) ->
    Table = ets:new(table, []),
    ets:insert(Table, Rows),
    ok = ets:tab2file(Table, File, [{extended_info, [md5sum]}]),
    true = ets:delete(Table),
    ok.

dets(Type) ->
    fun(File, Rows) ->
            {ok, Table} = dets:open_file(make_ref(), [{file, File}, {type, Type}]),
            ok = dets:insert(Table, Rows),
            dets:close(Table)
    end.

log(File, Rows) ->
    {ok, Log} = disk_log:open([{name, make_ref()}, {file, File}]),
    ok = disk_log:log_terms(Log, Rows),
    disk_log:close(Log).

deflated_files(_) ->
    [?assertEqual({Path, true},
                  {Path, live([{a, ["-module(a). -export([main/0]).",
                                    "main() -> binary_to_term(x)."]}, ?TARGET], #{Path => Bytes})})
     || {Path, Bytes} <- [{<<"priv/a.gz">>, zlib:gzip(term_to_binary({target, live}))},
                          {<<"priv/a">>, zlib:gzip("{target, live}.")},
                          {<<"priv/a.config.gz">>, zlib:gzip("{target, live}.")},
                          {<<"priv/a.z">>, zlib:compress(term_to_binary({target, live}))}]].

%% The search skips files that are not Erlang, and tolerates damaged files.
other_files(_) ->
    [?assertNot(live([{a, ["-module(a). -export([main/0]). main() -> file:consult(x)."]}, ?TARGET],
                     #{<<"priv/x">> => Bytes}))
     || Bytes <- [<<>>, <<0, 1, 2>>, <<131, 104>>, <<255, 254>>, <<"target live">>,
                  <<"{\"target\": \"live\"}">>, binary:copy(<<"target, live ">>, 10000),
                  <<16#1F, 16#8B, 0>>, <<16#78, 16#9C, 1>>, <<1, 2, 3, 4>>,
                  <<1, 2, 3, 4, "cXM", 11, 9:32, "bWLA", 131>>, <<0:32, 16#ABCDEF:32, 131>>,
                  zlib:gzip(<<131, 104>>)]].

%% Nothing looks for names in archives. A note names them, and no other file.
archives(_) ->
    Inside = [{"priv/x.terms", <<"{target, live}.">>}],
    {ok, {_, Zip}} = zip:create("x.zip", Inside, [memory]),
    {ok, Escript} = escript:create(binary, [shebang, {archive, Inside, []}]),
    Tar = tar(Inside),
    Archives = #{<<"priv/a.zip">> => Zip, <<"priv/b-1.ez">> => Zip, <<"priv/c">> => Escript,
                 <<"priv/d.tar">> => Tar, <<"priv/e.tar.gz">> => zlib:gzip(Tar),
                 <<"priv/f.tgz">> => zlib:gzip(Tar), <<"priv/g.gz">> => zlib:gzip(Zip),
                 <<"priv/h.gz.gz">> => zlib:gzip(zlib:gzip("{target, live}.")),
                 <<"priv/i.zst">> => <<16#28, 16#B5, 16#2F, 16#FD, 0>>,
                 <<"priv/j.xz">> => <<16#FD, "7zXZ", 0, 0>>, <<"priv/k.bz2">> => <<"BZh91AY">>,
                 <<"priv/l.7z">> => <<"7z", 16#BC, 16#AF, 16#27, 16#1C, 0>>,
                 %% It says that it inflates to 300 MB.
                 <<"priv/m.term">> => <<131, 80, (300 bsl 20):32,
                                        (zlib:compress(<<106>>))/binary>>},
    Others = #{<<"priv/m">> => <<>>, <<"priv/n">> => <<"PK">>,
               <<"priv/o">> => <<"#!/bin/sh\nPK\n">>, <<"priv/q.js.gz">> => zlib:gzip(Tar),
               <<"priv/p.gz">> => zlib:gzip("{target, live}."),
               <<"priv/r">> => term_to_binary({target, live}), <<"priv/s">> => <<0:2056, "usta">>},
    Paths = [<<"lib/a-1/", Path/binary>> || Path <- lists:sort(maps:keys(Archives))],
    System = system([?TARGET], maps:merge(Archives, Others)),
    ?assertEqual(Paths, whittle_shake_data:unread(System)),
    [Note] = whittle_shake:unread_notes(#{missing => load}, System),
    ?assertEqual("Whittle did not search these archives, compressed files and large terms for "
                 "names of functions: "
                 "lib/a-1/priv/a.zip, lib/a-1/priv/b-1.ez, lib/a-1/priv/c, lib/a-1/priv/d.tar, "
                 "lib/a-1/priv/e.tar.gz and 8 more; if the program calls functions that only "
                 "these files name, name the functions with --keep FILE",
                 unicode:characters_to_list(Note)),
    ?assertEqual([], whittle_shake:unread_notes(#{missing => load},
                                                 system([?TARGET], Others))).

tar(Files) ->
    File = filename:join("/tmp", "whittle-tar-" ++ os:getpid()),
    ok = erl_tar:create(File, Files),
    {ok, Bytes} = file:read_file(File),
    ok = file:delete(File),
    Bytes.

%% Migrations of a database are Elixir scripts.
scripts(_) ->
    ?assert(live([{a, ["-module(a). -export([main/0]).",
                       "main() -> 'Elixir.Code':require_file(x)."]},
                  {target, ["-module('Elixir.Target'). -export([live/0]). live() -> ok."]}],
                 #{<<"priv/repo/1.exs">> => <<"Target.live()\n">>})).

flags(_) ->
    [?assertEqual({Flags, true},
                  {Flags, lists:member(Expected, found(put_flags(Flags, system([], #{}))))})
     || {Flags, Expected} <- [{"-s target live", live}, {"-run target live x", target},
                              {"-eval 'target:live(), ok.'", {target, live, 0}},
                              {"-eval \"target:live()\"", {target, live, 0}},
                              {"-a key '[{target, live, []}]'", live},
                              {"-proto_dist inet_tls", inet_tls_dist},
                              {"-proto_dist ${P:-inet_tls}", inet_tls_dist},
                              {"-env ERL_FLAGS \"-eval 'target:live()'\"", {target, live, 0}},
                              {"-epmd_module target # a comment", target}]],
    ?assertEqual(["-s", "-eval"], whittle_shake_roots:flags(put_flags("-s a b -eval x",
                                                                      system([], #{})))).

variables(_) ->
    System = whittle_system:put_env(<<"ERL_ZFLAGS">>, {always, <<"-s target live -eval x">>},
                                    system([], #{})),
    ?assert(lists:member(live, found(System))),
    ?assertEqual(["-s", "-eval"], whittle_shake_roots:flags(System)).

%% ejabberd looks for the file of each module that an application lists, and ends without one.
lists_without_what_is_gone(_) ->
    System = system([{a, ["-module(a). -export([main/0]).", "main() -> ok."]}, ?TARGET], #{}),
    {ok, Plan} = whittle_shake:plan(System, #{facts => facts(System), unit => functions,
                                              missing => crash, keep => [{a, main, 0}]}),
    {ok, #{spec := {application, a, Keys}, modules := Modules}} =
        whittle_system:app(a, whittle_shake:carry_out(Plan, System)),
    ?assertEqual({[a], [a]}, {maps:keys(Modules), proplists:get_value(modules, Keys)}).

%% Internal

%% Tells whether `live/0' is in, and `dead/0' is not.
live(Sources, Files) ->
    Hot = hot(system(Sources, Files)),
    ?assertEqual([], [Mfa || {_, dead, _} = Mfa <- Hot]),
    [Mfa || {_, live, _} = Mfa <- Hot] =/= [].

hot(System) ->
    Options = #{facts => facts(System), unit => functions, keep => [{a, main, 0}]},
    {ok, #{hot := Hot}} = whittle_shake:plan(System, Options),
    maps:keys(Hot).

%% Lists the features that are on.
on(System) ->
    Closed = maps:from_keys([remote, data, atoms, code], []),
    {ok, #{reached := #{on := On}}} =
        whittle_shake:plan(System, #{facts => facts(System), unit => functions,
                                     keep => [{a, main, 0}], missing => crash,
                                     declared => Closed}),
    lists:sort(maps:keys(On)).

%% Sets a key of the application's description.
change(System, Key, Value) ->
    {ok, #{spec := {application, a, Keys}} = App} = whittle_system:app(a, System),
    whittle_system:put_app(App#{spec := {application, a, [{Key, Value} | Keys]}}, System).

system(Sources, Files) ->
    Modules = maps:from_list([{list_to_atom(module(Source)),
                               made:beam(lists:append(lists:join(" ", Source)))}
                              || {_, Source} <- Sources]),
    whittle_system:put_app(
      #{name => a, vsn => "1", modules => Modules,
        files => maps:map(fun(_, Bytes) -> #{mode => 8#644, bytes => Bytes} end, Files),
        spec => {application, a, [{vsn, "1"}, {modules, maps:keys(Modules)}]},
        origin => #{kind => input}},
      whittle_system:set_boot({script, {"s", "1"}, []},
                              whittle_system:new(#{name => "s", vsn => "1", otp => "25"}))).

facts(System) ->
    {ok, Facts} = whittle_shake:facts(System, #{}),
    Facts.

module([First | _]) ->
    {match, [Name]} = re:run(First, "^-module\\('?([\\w.]+)'?\\)", [{capture, [1], list}]),
    Name.

put_flags(Flags, System) ->
    whittle_system:put_file(<<"vm.args">>, #{mode => 8#644, bytes => iolist_to_binary(Flags)},
                            System).

%% The names and calls of the roots that belong to the module `target'.
found(System) ->
    Modules = #{target => #{exports => [{live, 0}, {dead, 0}]}},
    Names = whittle_shake_source:names(System),
    [Atom || {Atom, _} <- whittle_shake_roots:atoms(System, Names)]
        ++ [Mfa || {Mfa, _} <- whittle_shake_roots:named_calls(System, Names, Modules)].
