%% Tests the names that people write, the plan's file, and the modules that remain after a cut.
-module(whittle_shake_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([names/1, no_names/1, names_come_back/1, lists_of_names/1, files_of_names/1,
         names_find/1, near_names/1]).
-export([account_comes_back/1, damaged_account/1, foreign_account/1, weights/1,
         weights_of_the_program/1, why_unseen/1]).
-export([cut_is_undef/1, cut_local_is_undef/1, answers/1, lost_funs/1, nothing_left/1]).
-export([features_refer_to_each_other/1]).
-export([removed_set/1, error_handler_goes_on/1]).
-export([own_functions_first/1]).
-export([settings_turn_features_on/1, too_much_in_attributes/1, damaged_modules/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% Facts

%% Each setting makes a stock node start or call the feature.
settings_turn_features_on(_) ->
    Origin = {root, "a file"},
    On = fun(Data) ->
                 [Name || {Name, _} <- whittle_shake_feature:asked_for(
                                         maps:merge(#{config => []}, Data),
                                         whittle_shake_feature:standard(whole))]
         end,
    [?assertEqual([distribution], On(#{flags => [Flag]})) || Flag <- ["-name", "-sname"]],
    [?assertEqual({Setting, [Feature]}, {Setting, On(#{config => [{Setting, Origin}]})})
     || {Setting, Feature} <- [{start_boot_server, peer}, {start_dist_ac, global},
                               {sync_nodes_mandatory, distribution},
                               {sync_nodes_optional, distribution}, {shell_history, disk_log}]],
    ?assertEqual([{global, {root, "{via, ...} with global in a file"}}],
                 [{Name, {root, unicode:characters_to_list(Why)}}
                  || {Name, {root, Why}} <- whittle_shake_feature:asked_for(
                                              #{config => [{{via}, Origin}, {global, Origin}]},
                                              whittle_shake_feature:standard(whole))]),
    %% A value that the VM gets as a flag is a term in text.
    System = fun(Flags) ->
                     Kernel = #{name => kernel, vsn => "1", files => #{}, modules => #{},
                                spec => {application, kernel, []}, origin => #{kind => otp}},
                     whittle_system:put_file(
                       <<"vm.args">>, #{mode => 8#644, bytes => Flags},
                       whittle_system:put_app(Kernel, whittle_system:new(#{name => "s", vsn => "1",
                                                                           otp => "29"})))
             end,
    [?assertEqual({Flags, Features}, {Flags, On(#{flags => whittle_shake_roots:flags(
                                                             System(Flags))})})
     || {Flags, Features} <- [{<<"-kernel start_pg true">>, [terms]}, {<<"-kernel x">>, []},
                              {<<"-other start_pg true -kernel">>, []},
                              {<<"+P 1024 -heart -kernel a 1 b 2">>, [terms]}]].

%% The plan needs the names in attributes. So Whittle refuses a module whose attributes are too
%% large or have too many names. It does not decode them.
too_much_in_attributes(_) ->
    Bytes = made:beam("-module(attributed). -export([f/0]). -plugin([f]). f() -> ok."),
    {ok, _, Chunks} = beam_lib:all_chunks(Bytes),
    Of = fun(Attributes) ->
                 {ok, Attributed} = beam_lib:build_module(lists:keystore("Attr", 1, Chunks,
                                                                         {"Attr", Attributes})),
                 App = #{name => a, vsn => "1", files => #{}, spec => {application, a, []},
                         modules => #{attributed => Attributed},
                         origin => #{kind => input}},
                 System = whittle_system:new(#{name => "s", vsn => "1", otp => "25"}),
                 whittle_shake:facts(whittle_system:put_app(App, System), #{})
         end,
    {ok, #{attributed := Summary}} = Of(term_to_binary([{plugin, [f]}])),
    ?assertMatch(#{attributes := [f]}, Summary),
    {ok, #{attributed := None}} = Of(<<131, 1>>),
    ?assertMatch(#{attributes := []}, None),
    Large = binary:copy(<<0>>, 17 * 1024 * 1024),
    ?assertMatch({error, {bad_beam, {_, {damaged, {<<"Attr">>, too_large}}}}},
                 Of(term_to_binary([{vsn, [Large]}], [compressed]))),
    Names = lists:seq(16#31303030, 16#31303030 + 65_536),
    Many = iolist_to_binary([131, $l, <<(length(Names)):32>>, [<<$w, 4, N:32>> || N <- Names], $j]),
    made:in_small_vm(fun() ->
                             ?assertMatch({error, {bad_beam, {_, {too_many_atoms, _}}}}, Of(Many))
                     end).

%% A module of the program or of the VM that cannot be read is an error with its name.
damaged_modules(_) ->
    Bytes = made:beam("-module(damaged). -export([f/0]). f() -> {a, \"literal\"}."),
    Damaged = made:damaged_literal(Bytes),
    System = fun(Modules) ->
                     App = #{name => a, vsn => "1", files => #{}, spec => {application, a, []},
                             modules => Modules, origin => #{kind => input}},
                     whittle_system:put_app(App, whittle_system:new(#{name => "s", vsn => "1",
                                                                      otp => "29"}))
             end,
    ?assertMatch({ok, #{damaged := _}}, whittle_shake:facts(System(#{}), #{damaged => Bytes})),
    Line = fun({error, {bad_beam, {Where, {damaged, {<<"LitT">>, not_a_term}}}}}) ->
                   unicode:characters_to_list(Where);
              ({error, {bad_beam, {Where, {not_beam, _}}}}) ->
                   unicode:characters_to_list(Where)
           end,
    ?assertEqual("module damaged of a",
                 Line(whittle_shake:facts(System(#{damaged => Damaged}), #{}))),
    [?assertEqual("module damaged of the VM",
                  Line(whittle_shake:facts(System(#{}), #{damaged => Module})))
     || Module <- [Damaged, <<"text">>]].

%% Messages name three functions of many. So those of the program come before those of OTP.
own_functions_first(_) ->
    Asks = #{calls => [{z_own, module_info, 1}, {erlang, binary_to_term, 1}], sites => []},
    Modules = [a_stdlib, z_own, other],
    Summaries = maps:from_keys(Modules, #{functions => #{{f, 0} => Asks, {g, 0} => Asks}}),
    Live = maps:from_keys([{M, F, 0} || M <- Modules, F <- [f, g]], {called, {root, "start"}}),
    Reached = #{live => Live, on => #{}, own => #{z_own => []},
                program => #{a_stdlib => [], z_own => []}},
    Order = [{z_own, f, 0}, {z_own, g, 0}, {a_stdlib, f, 0}, {a_stdlib, g, 0}],
    ?assertEqual(Order, whittle_shake_dynamic:asks_about_modules(Reached, Summaries)),
    ?assertEqual([{data, Order}], whittle_shake_dynamic:open(Reached, Summaries)),
    [?assertMatch({Who, {match, _}},
                  {Who, re:run(unicode:characters_to_binary(
                                 whittle_shake:format_error({open_calls, [{data, Who}]})), Words)})
     || {Who, Words} <- [{Order, "\\(z_own:f/0, z_own:g/0, a_stdlib:f/0 and 1 more\\)"},
                         {Order ++ [{other, f, 0}], "and 2 more, also in other\\)"},
                         {Order ++ [{list_to_atom("m" ++ integer_to_list(N)), f, 0}
                                    || N <- lists:seq(1, 22)],
                          "and 23 more, also in m1, .*, m20 and 2 more\\)"}]].

%% Removed names

%% The program finds all names in the set, and about one in 2^24 / 2,500 of the other names.
removed_set(_) ->
    Modules = [list_to_atom("m" ++ integer_to_list(N)) || N <- lists:seq(1, 500)],
    Functions = [{M, F, A} || M <- Modules, F <- [f, g], A <- [0, 7]] ++ Modules,
    Others = [{M, F, A} || M <- [n | Modules], F <- [f, h], A <- [1, 255]] ++ [n, f],
    Set = whittle_shake_removed:set(Functions),
    ?assertEqual(3 * length(Functions), byte_size(Set)),
    ?assertEqual([], [Name || Name <- Functions, not whittle_start_removed:is_removed(Name, Set)]),
    ?assert(length([Name || Name <- Others, whittle_start_removed:is_removed(Name, Set)]) =< 2),
    ?assertNot(whittle_start_removed:is_removed(n, whittle_shake_removed:set([]))),
    ?assert(whittle_start_removed:is_removed(n, whittle_shake_removed:set([n]))).

%% Another module raises `undef' here. All else is unchanged.
error_handler_goes_on(_) ->
    {ok, Bytes} = file:read_file(code:which(error_handler)),
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Value} = whittle_beam:disassemble(Beam),
    {ok, Assembled} = whittle_beam:assemble(#{}, whittle_shake_watch:explaining(Value)),
    {ok, Changed} = whittle_beam:read(Assembled),
    ?assertEqual([{whittle_start_removed, Name, Arity}
                  || {Name, Arity} <- [{is_lost, 3}, {undefined, 1}, {undefined, 3}]],
                 lists:sort(whittle_beam:imports(Changed) -- whittle_beam:imports(Beam))),
    ?assertEqual(whittle_beam:exports(Beam), whittle_beam:exports(Changed)).

%% Names

names(_) ->
    [?assertEqual({Text, {ok, Name}}, {Text, whittle_shake_name:parse(Text)})
     || {Text, Name} <- [{"lists", {lists}}, {"lists:map", {lists, map}},
                         {"lists:map/2", {lists, map, 2}},
                         {"'Elixir.A.B':'x?'/0", {'Elixir.A.B', 'x?', 0}},
                         {"a:'-f/1-fun-0-'/2", {a, '-f/1-fun-0-', 2}},
                         {"Foo", {'Elixir.Foo'}}, {"Foo.Bar.baz", {'Elixir.Foo.Bar', baz}},
                         {"Foo.Bar.baz?/1", {'Elixir.Foo.Bar', 'baz?', 1}},
                         {"Elixir.Foo.Bar:baz/1", {'Elixir.Foo.Bar', baz, 1}}]].

no_names(_) ->
    [?assertEqual({Text, error}, {Text, whittle_shake_name:parse(Text)})
     || Text <- ["", "1", "a:", "a:b/", "a:b/c", "a:b/256", "a b", "a:b:c", "'", "Foo.", "Foo.bar.",
                 "\"a\"", "Foo..bar", "{}"]].

names_come_back(_) ->
    Mfas = {proper_types:atom(), proper_types:atom(), proper_types:range(0, 255)},
    made:holds(300, Mfas, fun(Mfa) ->
        Text = unicode:characters_to_list(whittle_shake_name:text(Mfa)),
        {ok, Mfa} =:= whittle_shake_name:parse(Text)
    end).

lists_of_names(_) ->
    ?assertEqual({ok, []}, whittle_shake_name:parse_list("none")),
    ?assertEqual({ok, [{a}, {b, c, 1}]}, whittle_shake_name:parse_list("a,b:c/1")),
    ?assertEqual({error, "1"}, whittle_shake_name:parse_list("a,1,2")),
    ?assertEqual({error, "none"}, whittle_shake_name:parse_list("a,none")),
    %% Reading a number of so many digits takes minutes.
    ?assertEqual({error, "a:f/" ++ lists:duplicate(96, $9) ++ "..."},
                 whittle_shake_name:parse_list("a:f/" ++ lists:duplicate(3_000_000, $9))).

files_of_names(_) -> made:in_small_vm(fun files_of_names/0).

files_of_names() ->
    ?assertEqual({ok, [{a}, {b, c}]}, whittle_shake_name:parse_file(<<"a % all\n\n%x\n b:c \n">>)),
    ?assertEqual({error, "b c"}, whittle_shake_name:parse_file(<<"a\nb c\n">>)),
    Before = erlang:system_info(atom_count),
    Words = [["file_name_", integer_to_list(N)]
             || N <- lists:seq(1, erlang:system_info(atom_limit))],
    [?assertMatch({error, {too_many_atoms, _}},
                  whittle_shake_name:parse_file(iolist_to_binary(Text)))
     || Text <- [lists:join($\n, Words), lists:join($\s, Words),
                 %% Few words join to many atoms.
                 [["A", integer_to_list(N), ".B", integer_to_list(M), $\n]
                  || N <- lists:seq(1, 300), M <- lists:seq(1, 300)]]],
    %% The same line counts once.
    {ok, Same} = whittle_shake_name:parse_file(iolist_to_binary([["A.B\n"] || _ <- Words])),
    ?assertEqual([{'Elixir.A.B'}], lists:usort(Same)),
    ?assert(erlang:system_info(atom_count) < Before + length(Words) div 8).

names_find(_) ->
    Modules = #{lists => summary(lists)},
    ?assertEqual([{lists, map, 2}], whittle_shake_name:find({lists, map}, Modules)),
    ?assertEqual([], whittle_shake_name:find({lists, map, 3}, Modules)),
    ?assertEqual([], whittle_shake_name:find({none}, Modules)),
    All = whittle_shake_name:find({lists}, Modules),
    ?assert(lists:member({lists, foldl, 3}, All)),
    ?assertNot(lists:member({lists, foldl_1, 3}, All)).

near_names(_) ->
    Known = #{lists => [{map, 2}, {mapfoldl, 3}, {flatten, 1}, {flatten, 2},
                        {'-flaten/1-fun-0-', 1}],
              maps => [{map, 2}], 'Elixir.A' => [{b, 0}], plain => []},
    [?assertEqual({Name, Hint}, {Name, lists:flatten(whittle_shake_name:hint(Name, Known))})
     || {Name, Hint} <-
            [{{list}, " (did you mean lists?)"}, {{nobody}, ""},
             {{list, map}, " (did you mean lists:map?)"},
             {{lists, flaten}, " (did you mean lists:flatten?)"},
             {{lists, flaten, 2}, " (did you mean lists:flatten/2?)"},
             {{lists, flaten, 3}, " (did you mean lists:flatten/1?)"},
             {{lists, map, 1}, " (did you mean lists:map/2?)"},
             {{lists, nobody, 1}, ""}, {{nobody, map, 2}, ""}, {{plain, map, 2}, ""}]].

%% The weights

account_comes_back(_) ->
    Account = account(),
    File = whittle_shake_saved:to_binary(<<"output">>, Account),
    ?assertEqual({ok, Account}, whittle_shake_saved:from_binary(<<"output">>, File)),
    ?assertEqual({error, plan_of_another}, whittle_shake_saved:from_binary(<<"other">>, File)),
    [{{m, f, 0}, {kept, [{_, {called, {root, "test"}}}]}}, {{m, g, 0}, {cut, []}}] =
        whittle_shake_saved:why({m}, Account),
    ?assertEqual([], whittle_shake_saved:why({n}, Account)),
    ?assertMatch([_, {{m, g, 0}, {cold, []}}],
                 whittle_shake_saved:why({m}, Account#{missing := load})).

%% A damaged file gives an error or the saved plan, and nothing else.
damaged_account(_) ->
    Account = account(),
    File = whittle_shake_saved:to_binary(<<"output">>, Account),
    Damage = {proper_types:range(0, byte_size(File) - 1), proper_types:byte(),
              proper_types:boolean()},
    made:holds(1000, Damage, fun({At, Byte, Cut}) ->
        <<Head:At/binary, _, Tail/binary>> = File,
        Changed = case Cut of
                      true -> Head;
                      false -> <<Head/binary, Byte, Tail/binary>>
                  end,
        case whittle_shake_saved:from_binary(<<"output">>, Changed) of
            {ok, Account} -> true;
            {error, no_plan} -> true;
            {error, plan_of_another} -> true;
            {error, {plan_version, _}} -> true;
            _ -> false
        end
    end).

%% A plan whose reasons lead in a circle or nowhere would keep `why' and `size' busy forever.
foreign_account(_) ->
    #{reached := #{live := Live} = Reached, sizes := Sizes} = Account = account(),
    Read = fun(Saved) ->
                   whittle_shake_saved:from_binary(
                     <<"output">>, whittle_shake_saved:to_binary(<<"output">>, Saved))
           end,
    By = fun(Reason) -> Account#{reached := Reached#{live := Live#{{m, g, 0} => Reason}}} end,
    ?assertMatch({ok, _}, Read(By({called, {m, f, 0}}))),
    [?assertEqual({Saved, {error, no_plan}}, {Saved, Read(Saved)})
     || Saved <- [By({called, {m, g, 0}}), By({whole, {m, h, 0}}),
                  Account#{reached := Reached#{live := #{{m, f, 0} => {called, {m, g, 0}},
                                                         {m, g, 0} => {whole, {m, f, 0}}}}},
                  Account#{sizes := maps:remove({m, f, 0}, Sizes)},
                  Account#{reached := Reached#{prices := #{it => [{m, h, 0}]}}},
                  Account#{reached := Reached#{prices := #{it => [{m, g, 0} | it]}}}]
             ++ [Account#{reached := Reached#{Key := #{{it} => []}}}
                 || Key <- [on, blocked, prices]]].

weights(_) ->
    #{roots := [#{name := <<"test">>, functions := 1, bytes := 10, share := 1.0}],
      on := [], off := [#{name := <<"it">>, bytes := 5, share := 0.5}]} =
        whittle_shake_saved:weights(account()).

%% A function of the program counts for its application, whatever root its path has.
weights_of_the_program(_) ->
    Live = #{{m, f, 0} => {called, {root, "test"}}, {k, g, 0} => {called, {root, "test"}},
             {k, h, 0} => {called, {m, f, 0}}},
    #{reached := Reached} = Account = account(),
    #{roots := Roots} = whittle_shake_saved:weights(
                          Account#{reached := Reached#{live := Live}, homes := #{m => app},
                                   unseen => #{}, whole => #{},
                                   sizes := maps:map(fun(_, _) -> 10 end,
                                                     Live#{{m, g, 0} => 1})}),
    ?assertEqual([{<<"the application app">>, 2}, {<<"test">>, 1}],
                 [{Name, Functions} || #{name := Name, functions := Functions} <- Roots]).

%% The recorded run did not call m:f/0. It is cold, unless the VM loads all of its module.
why_unseen(_) ->
    Unseen = (account())#{unseen := #{{m, f, 0} => []}},
    Why = fun(Saved) ->
                  [{{m, f, 0}, {Verdict, [{{m, f, 0}, _}]}}] =
                      whittle_shake_saved:why({m, f, 0}, Saved),
                  {Verdict, maps:get(roots, whittle_shake_saved:weights(Saved))}
          end,
    ?assertEqual({unseen, []}, Why(Unseen)),
    ?assertMatch({unsplit, [#{name := <<"test">>}]}, Why(Unseen#{whole := #{m => []}})).

account() ->
    #{reached => #{live => #{{m, f, 0} => {called, {root, "test"}}}, modules => #{}, on => #{},
                   blocked => #{}, refused => [], prices => #{it => [{m, g, 0}]},
                   program => #{m => []}},
      missing => crash, unseen => #{}, whole => #{}, homes => #{},
      sizes => #{{m, f, 0} => 10, {m, g, 0} => 5}}.

%% Cutting

cut_is_undef(_) ->
    M = cut("-export([f/0, g/1]). f() -> ok. g(X) -> X.", [{f, 0}], []),
    ?assertEqual(ok, M:f()),
    ?assertError(undef, M:g(1)),
    ?assertNot(erlang:function_exported(M, g, 1)),
    unload(M).

%% The result equals that of a function that another module lacks: class, reason, head of the
%% stack.
cut_local_is_undef(_) ->
    M = cut("-export([f/2]). f(X, Y) -> {g(X, Y, 3)}. g(X, Y, Z) -> {X, Y, Z}.", [{f, 2}], []),
    try M:f(1, [2]) of
        _ -> error(not_cut)
    catch
        error:undef:Stack ->
            ?assertMatch([{M, g, [1, [2], 3], []} | _], Stack)
    end,
    unload(M).

answers(_) ->
    M = cut("-export([f/1, g/1]). f(X) -> g(X). g(X) -> [X]. h(X) -> X.", [{f, 1}],
            [{g, 1, {value, {a, [1]}}}]),
    ?assertEqual({{a, [1]}, {a, [1]}}, {M:f(1), M:g(2)}),
    unload(M),
    N = cut("-export([f/1]). f(X) -> g(X). g(X) -> [X].", [{f, 1}],
            [{g, 1, {call, {erlang, is_atom}}}]),
    ?assertEqual({true, false}, {N:f(a), N:f(1)}),
    unload(N).

%% A call reaches the body of a fun, and the code that made the fun is gone.
lost_funs(_) ->
    Source = "-export([f/1, g/0]). f(X) -> h(X). g() -> fun h/1. h(X) -> {X}.",
    M = cut(Source, [{f, 1}, {h, 1}], []),
    ?assertEqual({1}, M:f(1)),
    unload(M).

nothing_left(_) ->
    ?assertEqual(none, whittle_shake_cut:module(value("-export([f/0]). f() -> ok."), #{}, [])).

cut(Source, Keep, Answers) ->
    {ok, Bytes} = whittle_shake_cut:module(value(Source), maps:from_list([{F, []} || F <- Keep]),
                                           Answers),
    {module, M} = code:load_binary(cut_module, "cut_module", Bytes),
    M.

unload(M) ->
    code:delete(M),
    code:purge(M).

%% Each key is known, and a feature names others that exist. shake_SUITE compares the functions with
%% OTP.
features_refer_to_each_other(_) ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "features.config")),
    Names = [Name || {Name, _} <- Terms],
    ?assertEqual(lists:usort(Names), lists:sort(Names)),
    [?assertMatch({Name, [_ | _]}, {Name, Means}) || {Name, #{means := Means}} <- Terms],
    ?assertEqual([], [Other || {_, Feature} <- Terms, Key <- [needs, recommends],
                               Other <- maps:get(Key, Feature, []),
                               not lists:member(Other, Names)]),
    Keys = [means, modules, except, functions, words, used, needs, recommends, vm, starts, brings,
            flags, files, config, answers],
    ?assertEqual([], [Key || {_, Feature} <- Terms,
                             Key <- maps:keys(maps:without(Keys, Feature))]),
    Modules = lists:append([maps:get(modules, Feature, []) || {_, Feature} <- Terms]),
    ?assertEqual(Modules -- lists:usort(Modules), []).

%% Internal

value(Source) -> taken(made:beam("-module(cut_module). " ++ Source)).

summary(M) ->
    {ok, Bytes} = file:read_file(code:which(M)),
    {ok, Summary} = whittle_shake_summary:module(taken(Bytes)),
    Summary.

taken(Bytes) ->
    {ok, Read} = whittle_beam:read(Bytes),
    {ok, Value} = whittle_beam:disassemble(Read),
    Value.
