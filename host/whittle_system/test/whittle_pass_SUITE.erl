%% @doc Tests passes: their removals, the parts that they keep, and their ledger entries.
-module(whittle_pass_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([ledger/1, stripped_runs/1, no_paths/1, attributes_dropped/1, attributes_kept/1,
         attributes_option/1, includes/1, boot_follows/1, start_modules/1,
         loaded_by_init/1, vm_args_cookie/1]).

all() ->
    [ledger, stripped_runs, no_paths, attributes_dropped, attributes_kept, attributes_option,
     includes, boot_follows, start_modules, loaded_by_init, vm_args_cookie].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% Each pass has its entry, and the sizes before it equal the sizes after the previous pass.
ledger(Config) ->
    {ok, System, #{}} = whittle_pass:run(made:passes(), #{}, hello(Config)),
    Ledger = whittle_system:ledger(System),
    ?assertEqual([read, applications, modules, files, tables, strip, literals],
                 [Pass || #{pass := Pass} <- Ledger]),
    Pairs = lists:zip(lists:droplast(Ledger), tl(Ledger)),
    [?assertEqual(After, Before) || {#{'after' := After}, #{before := Before}} <- Pairs],
    ?assertEqual(whittle_system:sizes(System), maps:get('after', lists:last(Ledger))),
    [{Whole, Stripped}] = [{Before, After}
                           || #{pass := strip, before := #{stdlib := Before},
                                'after' := #{stdlib := After}} <- Ledger],
    ?assert(Stripped < Whole div 2).

stripped_runs(Config) ->
    {ok, System, #{}} = whittle_pass:run(made:passes(), #{strip => #{types => drop}},
                                    hello(Config)),
    Dir = staged:write(System, in("staged", Config)),
    ?assertEqual({0, <<"hi\n">>}, staged:run(System, Dir, [])),
    %% An error in stripped code still shows its line.
    {Status, Output} = staged:run(System, Dir, ["crash"]),
    ?assert(Status =/= 0),
    ?assertMatch({match, _}, re:run(Output, "on_purpose.*{line,6}", [dotall])).

%% The directory of the sources does not change the bytes and does not appear in them.
no_paths(Config) ->
    Beams = [begin
                 Dir = made:app(in(Place, Config), placed, [],
                                [{placed, "-file(\"" ++ in(Place, Config) ++ "/placed.erl\", 1). "
                                  "-module(placed). -export([f/0]). f() -> error(a)."}]),
                 {ok, System} = strip(read(Dir), #{}),
                 {ok, #{modules := #{placed := Beam}}} = whittle_system:app(placed, System),
                 ?assertEqual(nomatch, binary:match(Beam, unicode:characters_to_binary(Place))),
                 Beam
             end || Place <- ["here", "elsewhere"]],
    ?assertMatch([Same, Same], Beams).

attributes_dropped(Config) ->
    {ok, System} = strip(hello(Config), #{}),
    ?assertEqual([], with_chunk(<<"Attr">>, System)),
    ?assertEqual([], with_chunk(<<"Dbgi">>, System)),
    ?assertEqual([], with_chunk(<<"CInf">>, System)).

%% The programs ask for their attributes in each possible way.
attributes_kept(Config) ->
    [begin
         Dir = made:app(in(atom_to_list(Name), Config), Name, [], [{Name, Source}]),
         {ok, System} = strip(read(Dir), #{}),
         ?assert(lists:member(Name, with_chunk(<<"Attr">>, System))),
         ?assert(lists:member(lists, with_chunk(<<"Attr">>, System))),
         #{notes := [Note]} = lists:last(whittle_system:ledger(System)),
         ?assertMatch({_, _}, binary:match(Note, atom_to_binary(Name)))
     end || {Name, Source} <-
                [{in_code, "-module(in_code). -export([f/1]). f(M) -> M:module_info(attributes)."},
                 {in_literal, "-module(in_literal). -export([f/0]). f() -> [exports, attributes]."},
                 {in_match, "-module(in_match). -export([f/1])."
                  " f(M) -> lists:keyfind(attributes, 1, M:module_info())."},
                 {in_all, "-module(in_all). -export([f/0]). f() -> in_all:module_info()."},
                 {in_file, "-module(in_file). -export([f/1])."
                  " f(F) -> beam_lib:chunks(F, [\"Attr\"])."}]].

attributes_option(Config) ->
    {ok, System} = strip(hello(Config), #{attributes => keep}),
    ?assert(lists:member(lists, with_chunk(<<"Attr">>, System))).

includes(Config) ->
    {ok, Without, #{}} = whittle_pass:run([whittle_pass_files], #{}, hello(Config)),
    ?assertEqual([], headers(Without)),
    {ok, Asked, #{}} = whittle_pass:run([whittle_pass_files], #{includes => keep}, hello(Config)),
    ?assert(lists:member(<<"include/file.hrl">>, headers(Asked))),
    {ok, Compiles} = whittle_read:read(in("app", Config), (staged:options())#{add => [compiler]}),
    {ok, Kept, #{}} = whittle_pass:run([whittle_pass_files], #{}, Compiles),
    ?assert(lists:member(<<"include/file.hrl">>, headers(Kept))).

%% The boot script no longer loads or starts removed modules and applications.
boot_follows(Config) ->
    Dir = made:app(in("app", Config), app, [{applications, [kernel, stdlib, sasl]}],
                   [{app, "-module(app)."}]),
    System = read(Dir),
    ?assert(boots(sasl, System)),
    {ok, #{modules := Modules} = Stdlib} = whittle_system:app(stdlib, System),
    Cut = whittle_system:put_app(Stdlib#{modules := maps:remove(zip, Modules)},
                                 whittle_system:remove_app(sasl, System)),
    Fresh = whittle_boot:refresh(Cut),
    ?assertNot(boots(sasl, Fresh)),
    ?assert(boots(app, Fresh)),
    {script, _, Instructions} = whittle_system:boot(Fresh),
    ?assertNot(lists:any(fun({primLoad, Ms}) -> lists:member(zip, Ms) orelse lists:member(sasl, Ms);
                            (_) -> false
                         end, Instructions)),
    [?assertEqual(nomatch, string:find(Path, "sasl"))
     || {path, Paths} <- Instructions, Path <- Paths],
    %% A second refresh changes nothing.
    ?assert(Fresh =:= whittle_boot:refresh(Fresh)).

start_modules(Config) ->
    System = whittle_boot:set_start_modules([io, gb_trees, hi, not_there], hello(Config)),
    ?assertEqual([hi, io, gb_trees], early(System) -- early(hello(Config))),
    Other = whittle_boot:set_start_modules([queue], System),
    ?assertEqual([queue], early(Other) -- early(hello(Config))),
    Dir = staged:write(System, in("staged", Config)),
    ?assertEqual({0, <<"hi\n">>}, staged:run(System, Dir, [])).

%% To read its configuration, a system needs modules before it has a code server, whatever modules
%% it has loaded by then. OTP 25 waited forever.
loaded_by_init(Config) ->
    ct:timetrap({minutes, 5}),
    [begin
         System = whittle_system:put_file(
                    <<"sys.config">>, #{mode => 8#644, bytes => Text},
                    whittle_boot:set_start_modules(Early, hello(Config))),
         Dir = staged:write(System, in("staged", Config)),
         ?assertEqual({Early, Text, {0, <<"hi\n">>}}, {Early, Text, staged:run(System, Dir, [])})
     end || Early <- [[], [erl_features]], Text <- [<<"[].\n">>, <<"[{hi, [{a, b}]}].\n">>]].

%% Texts

vm_args_cookie(_) ->
    Cases = [{"-setcookie a", "", true},
             {"-name x -setcookie a -heart\n", "-name x -heart\n", true},
             {"-setcookie\n a\n+K true", "\n\n+K true", true},
             {"-setcookie node cookie\n-x", "\n-x", true},
             {"-setcookie 'a b' -x \"-setcookie y\"", "-x \"-setcookie y\"", true},
             {"# -setcookie a\n-sname b", "# -setcookie a\n-sname b", false},
             {"\"-setcookie\" a -x", "-x", true},
             {"-set'cook'ie a -x", "-x", true},
             {"\\-setcookie a -x", "-x", true},
             {"a#b -x\n-setcookie c", "a#b -x\n", true},
             {"\\\" -setcookie x", "\\\" ", true},
             {"\"a\\\" -setcookie c", "\"a\\\" ", true},
             {"-setcookie -dash -x", "-x", true},
             {"-setcookie +plus b\n-x", "\n-x", true},
             {"-setcookie # c\n-x", "# c\n-x", true},
             {"-x -env RELEASE_COOKIE a\n-y", "-x \n-y", true},
             {"-env ERLANG_COOKIE -a -y", " -y", true},
             {"-env 'RELEASE_'COOKIE a b", " b", true},
             {"-env A -setcookie -b", "-env A -setcookie -b", false},
             {"-env ERL_FLAGS '-setcookie a -x \"y'", "-env ERL_FLAGS \"-x \"'\"'\"y\"", true},
             {"-env ERL_FLAGS '+K true'", "-env ERL_FLAGS '+K true'", false},
             {"-env RELEASE_COOKIE", "", true},
             {"-env", "-env", false},
             {"", "", false}],
    [?assertEqual({list_to_binary(After), Found},
                  whittle_vm_args:without_cookie(list_to_binary(Before)))
     || {Before, After, Found} <- Cases],
    made:holds(300, proper_unicode:utf8(),
               fun(Text) ->
                       {Out, Found} = whittle_vm_args:without_cookie(Text),
                       is_binary(Out) andalso (Found orelse Out =:= Text)
               end).

%% Internal

hello(Config) ->
    Dir = made:app(in("app", Config), hi, [{mod, {hi, []}}],
                   [{hi, "-module(hi). -export([start/2, stop/1]).\n"
                     "start(_, _) ->\n  case init:get_plain_arguments() of"
                     " [] -> io:put_chars(\"hi\\n\"), init:stop(),\n"
                     "    {ok, spawn(fun() -> receive after infinity -> ok end end)};\n"
                     "   _ ->\n lists:map(fun(X) -> error(X) end, [on_purpose]) end.\n"
                     "stop(_) -> ok.\n"}]),
    read(Dir).

read(Dir) ->
    {ok, System} = whittle_read:read(Dir, staged:options()),
    System.

strip(System, Options) ->
    {ok, Stripped, #{}} = whittle_pass:run([whittle_pass_strip], #{strip => Options}, System),
    {ok, Stripped}.

with_chunk(Id, System) ->
    [Module || {_, Module, Bytes} <- whittle_system:modules(System),
               {ok, Beam} <- [whittle_beam:read(Bytes)],
               whittle_beam:chunk(Id, Beam) =/= error].

headers(System) ->
    [Path || #{files := Files} <- whittle_system:apps(System), Path <- maps:keys(Files),
             filename:extension(Path) =:= <<".hrl">>].

boots(Name, System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    lists:any(fun({apply, {application, start_boot, [App, _]}}) -> App =:= Name;
                 (_) -> false
              end, Instructions).

early(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    Before = lists:takewhile(fun(I) -> I =/= {kernel_load_completed} end, Instructions),
    lists:append([Modules || {primLoad, Modules} <- Before]).

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
