%% Tests that the plan keeps the functions that a program can call, and no others. Each case is a
%% program of a few functions. The search must find those whose name begins with `live', and must
%% not find those whose name begins with `dead'.
-module(whittle_shake_reach_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([undefined_functions/1, texts_of_errors/1]).
-export([calls/1, funs/1, applied/1, named_by_pool/1, known_name/1, function_as_tag/1,
         labels/1, labels_of_otp/1, atoms_of_the_vm/1, names_of_results/1, names_computed_by_otp/1,
         module_that_runs/1,
         module_in_literal/1, module_as_tag/1, logger_location/1, native_calls/1, whole/1,
         natives/1]).
-export([words_of_otp/1, names_of_otp/1, settings/1, feature_used_by_another/1]).
-export([named_in_a_command_line/1, names_from_text/1]).
-export([feature_off/1, feature_on/1, feature_of_start/1, feature_recommended/1,
         feature_named/1, function_named/1,
         feature_used/1, feature_form/1, feature_called_through/1, feature_answers/1,
         feature_brings/1, feature_refused/1, feature_price/1]).
-export([plausible_way/1, plausible_pair/1, way/1, same_in_each_vm/1, what_is_kept_runs/1,
         what_is_called_is_live/1]).
-export([reached_from/1]).

-define(ROOT, {root, "test"}).

all() ->
    [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info, F =/= reached_from].

calls(_) ->
    check(["-module(a). -export([main/0, dead/0]).",
           "main() -> live(), b:live(1).",
           "live() -> ok. dead() -> live_not(). live_not() -> dead()."],
          ["-module(b). -export([live/1, dead/1]).", "live(X) -> X. dead(X) -> X."]).

funs(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> F = fun live/1, G = fun(X) -> live2(X) end, H = fun b:live/1,",
           "          {[fun b:live2/1], lists:map(F, [G, H])}.",
           "live(X) -> X(1). live2(X) -> X. dead() -> ok."],
          ["-module(b). -export([live/1, live2/1, dead/1]).",
           "live(X) -> X. live2(X) -> X. dead(X) -> X."]).

%% A module may take the calls of all functions that it lacks.
undefined_functions(_) ->
    [check(["-module(a). -export([main/0]).", "main() -> ", Call, "."],
           ["-module(b). -export(['$handle_undefined_function'/2, dead/1]).",
            "'$handle_undefined_function'(F, As) -> live(F, As). live(F, As) -> {F, As}.",
            "dead(X) -> X."])
     || Call <- ["b:hello(1)", "fun b:hello/1"]],
    check(["-module(a). -export([main/0]).", "main() -> b:live(1)."],
          ["-module(b). -export(['$handle_undefined_function'/2, live/1]).",
           "'$handle_undefined_function'(F, As) -> dead(F, As). dead(F, As) -> {F, As}.",
           "live(X) -> X."]).

%% A function that raises an error with `error_info' names its module's texts.
texts_of_errors(_) ->
    check(["-module(a). -export([main/0]).", "main() -> b:live(1)."],
          ["-module(b). -export([live/1, format_error/2, dead/0]).",
           "live(X) -> erlang:error(badarg, [X], [{error_info, #{}}]).",
           "format_error(_, _) -> live2(). live2() -> #{}. dead() -> ok."]),
    %% A module may have this name, too.
    check(["-module(a). -export([main/0]).",
           "main() -> call({error_info, self()}). call({M, X}) -> M:live(X)."],
          ["-module(error_info). -export([live/1, dead/0]).", "live(X) -> X. dead() -> ok."]).

%% Both the module and the name must be mentioned. `c' is not.
applied(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> apply(pick(), live2, [1]), spawn(b, live3, []).",
           "pick() -> b."],
          ["-module(b). -export([live2/1, live3/0, dead/0, live_not/1]).",
           "live2(X) -> X. live3() -> ok. dead() -> ok. live_not(X) -> X."],
          ["-module(c). -export([live2/1, dead/0]).", "live2(X) -> dead(), X. dead() -> ok."]).

%% A name in a message, a table or an argument counts.
named_by_pool(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> self() ! {call, b}, ets:insert(t, {x, live}),",
           "  receive {call, M} -> apply(M, ets:lookup_element(t, x, 2), []) end."],
          ["-module(b). -export([live/0, dead/0]).", "live() -> ok. dead() -> ok."]).

%% A name in the code of a call is not mentioned: `b' has it with another arity, and nowhere else
%% does it name a function.
known_name(_) ->
    check(["-module(a). -export([main/0]).", "main() -> M = pick(), M:live(1).", "pick() -> b."],
          ["-module(b). -export([live/1, live_not/0, dead/0]).",
           "live(X) -> X. live_not() -> dead(). dead() -> ok."]).

%% In OTP, group keeps the name of a function of io_lib and calls it in two steps.
function_as_tag(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> call(1, {live, self()}). call(Y, {F, X}) -> self(), b:F({X, Y})."],
          ["-module(b). -export([live/1, dead/1, live_not/2]).",
           "live(X) -> live_too(X). live_too(X) -> X. dead(X) -> X. live_not(_, _) -> ok."]).

%% The first element of a tuple and the key of a map may be the name in a call of which the code
%% shows nothing else.
labels(_) ->
    [check(["-module(a). -export([main/0])."] ++ Source,
           ["-module(b). -export([live/1, dead/2]).", "live(X) -> X. dead(X, _) -> X."])
     || Source <- [["main() -> [apply(b, F, A) || {F, A} <- t()]. t() -> [{live, [1]}]."],
                   ["main() -> put(m, b), run(get(m), {live, 1}). run(M, {F, A}) -> M:F(A)."],
                   ["main() -> put(m, b), run(get(m), {live, [1]}).",
                    "run(M, {F, A}) -> spawn(M, F, A)."],
                   ["main() -> put({b, 1}, {live, 1}), [run(Each) || Each <- get()].",
                    "run({{M, _}, {F, A}}) -> apply(M, F, [A])."],
                   ["main() -> [b:F(A) || {F, A} <- maps:to_list(#{live => 1})]."],
                   ["main() -> maps:fold(fun(F, A, _) -> b:F(A) end, 0, #{live => self()})."],
                   ["main() -> put(m, b), ets:insert(t, {live, 1}), run(get(m), ets:first(t)).",
                    "run(M, F) -> apply(M, F, [1])."]]],
    %% Another module of the program names the program's own module.
    check(["-module(a). -export([main/0, live/1, dead/0]).",
           "main() -> b:go({live, [1]}). live(X) -> X. dead() -> ok."],
          ["-module(b). -export([go/1]). go({F, A}) -> apply(a, F, A)."]).

%% Labels name no functions of modules that only OTP mentions. The labels of OTP's code name no
%% functions at all.
labels_of_otp(_) ->
    check(["-module(a). -export([main/0, live/1, dead/1]).",
           "main() -> m:run(a, {live, 1}). live(X) -> X. dead(X) -> X."],
          ["-module(m). -export([run/2]).",
           "run(M, {F, A}) -> self() ! {dead, 1}, M:F(A)."]),
    Live = live([compiled(["-module(a). -export([main/0]).", "main() -> m:go(), {label, 1}."]),
                 compiled(["-module(m). -export([go/0]).",
                           "go() -> put(m, f), [run(get(m), C) || C <- [{label, 1}, {other, 1}]].",
                           "run(M, {F, A}) -> M:F(A)."]),
                 compiled(["-module(f). -export([label/1, other/1]).",
                           "label(X) -> X. other(X) -> X."])]),
    ?assertEqual([], [Mfa || {f, _, _} = Mfa <- Live]).

%% OTP's applications compute names of functions of their own modules.
names_computed_by_otp(_) ->
    Modules = [compiled(Source)
               || Source <- [["-module(a). -export([main/0, other/1]).",
                              "main() -> b:go(self()). other(X) -> X."],
                             ["-module(b). -export([go/1]).", "go(F) -> a:F(1), c:F(1)."],
                             ["-module(c). -export([one/1, two/1, three/2]).",
                              "one(X) -> X. two(X) -> X. three(X, _) -> X."]]],
    #{live := Live} = reached(Modules, #{program => #{a => [], b => [], c => []},
                                         own => #{a => []}}),
    ?assertEqual([{a, main, 0}, {b, go, 1}, {c, one, 1}, {c, two, 1}],
                 lists:sort(maps:keys(Live))).

%% Tags of messages, reasons of errors and parts of results that no module contains.
atoms_of_the_vm(_) ->
    Modules = [compiled(["-module(a).",
                         "-export([main/0, 'GET'/1, 'Host'/1, 'DOWN'/4, tcp_closed/1, badarith/0,",
                         "         enoent/0, other_word/0]).",
                         "main() -> [H | T] = tuple_to_list(m:next()), apply(a, H, T).",
                         "'GET'(X) -> X. 'Host'(X) -> X. 'DOWN'(X, _, _, _) -> X.",
                         "tcp_closed(X) -> X. badarith() -> ok. enoent() -> ok.",
                         "other_word() -> ok."])],
    #{live := Live} = reached(Modules, #{made => whittle_shake_roots:made()}),
    ?assertEqual(['DOWN', 'GET', 'Host', badarith, enoent, main, tcp_closed],
                 [F || {a, F, _} <- lists:sort(maps:keys(Live))]).

%% A program may call a function for each name in what the VM tells about itself.
names_of_results(_) ->
    Port = hd(erlang:ports()),
    Infos = [process_info(self()), ets:info(ets:new(table, [])), erlang:port_info(Port),
             erlang:memory(), erlang:fun_info(fun() -> ok end), ?MODULE:module_info(),
             erlang:system_info(garbage_collection)],
    Names = [Name || {Name, _} <- lists:append(Infos)]
        ++ erlang:system_info(alloc_util_allocators),
    ?assert(length(Names) > 70),
    ?assertEqual([], lists:usort(Names) -- [Name || {Name, _} <- whittle_shake_roots:made()]).

%% The name of a module that runs comes from the VM, for example in a stack trace.
module_that_runs(_) ->
    Sources = [["-module(a). -export([main/0]).",
                "main() -> try b:go() catch _:_:S -> (element(1, hd(S))):live() end."],
               ["-module(b). -export([go/0, live/0, dead/0]).",
                "go() -> live_not(). live() -> ok. dead() -> ok. live_not() -> error(no)."],
               ["-module(c). -export([live/0]).", "live() -> dead(). dead() -> ok."]],
    Modules = [compiled(Source) || Source <- Sources],
    Live = fun(Own) ->
                   #{live := Live} = reached(Modules, #{program => maps:from_keys(Own, [])}),
                   lists:sort(maps:keys(Live))
           end,
    Called = [{a, main, 0}, {b, go, 0}, {b, live_not, 0}],
    ?assertEqual(lists:sort([{b, live, 0} | Called]), Live([a, b, c])),
    %% Modules of OTP have such names too often.
    ?assertEqual(Called, Live([a])).

module_in_literal(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> #{start => [{x, {b, live, []}}]}."],
          ["-module(b). -export([live/0, dead/0]).", "live() -> ok. dead() -> ok."]).

%% `{Module, Args}' is the specification of a child.
module_as_tag(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> call({b, self()}). call({M, X}) -> M:live(X)."],
          ["-module(b). -export([live/1, dead/0]).", "live(X) -> X. dead() -> ok."]).

%% The data that the macros of logger.hrl store is no call.
logger_location(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> #{mfa => {b, dead, 0}, file => \"a.erl\", line => 1}."],
          ["-module(b). -export([dead/0]).", "dead() -> ok."]).

%% re:run/3 with a compiled expression and `global' continues in Erlang.
native_calls(_) ->
    Live = live([compiled(["-module(a). -export([main/0]).",
                           "main() -> re:run(x, y, [global])."]), otp(re)]),
    ?assert(lists:member({re, grun, 3}, Live)).

whole(_) ->
    check(["-module(a). -export([main/0]).", "main() -> b:live(1)."],
          ["-module(b). -export([live/1]). -on_load(live_too/0).",
           "live_too() -> ok. live(X) -> X. live_as_well() -> ok."]),
    check(["-module(a). -export([main/0]).", "main() -> b:live(1)."],
          ["-module(b). -export([live/1]).",
           "live(X) -> X. live_as_well() -> erlang:load_nif([], [])."]).

%% With crash, a module keeps its NIFs if it loads them, and what runs when it is loaded.
natives(_) ->
    Main = ["-module(a). -export([main/0]).", "main() -> b:live(1)."],
    Loaded = ["-module(b). -export([live/1, dead/0]). -nifs([live_too/0]). "
              "-on_load(live_at_load/0).",
              "live(X) -> X. dead() -> live_too(). live_too() -> live_below().",
              "live_below() -> erlang:nif_error(x).",
              "live_at_load() -> erlang:load_nif([], [])."],
    Unloaded = ["-module(b). -export([live/1, dead/0, dead_too/0]). -nifs([dead_too/0]).",
                "live(X) -> X. dead() -> erlang:load_nif([], []). dead_too() -> ok."],
    %% Then each function may be one.
    Undeclared = ["-module(b). -export([live/1]). live(X) -> live_load(), X.",
                  "live_load() -> erlang:load_nif([], []). live_as_well() -> ok."],
    Without = ["-module(b). -export([live/1]). -on_load(live_at_load/0). live(X) -> X.",
               "live_at_load() -> ok. dead() -> ok."],
    [begin
         Modules = [compiled(Main), compiled(Text)],
         Apart = maps:map(fun whittle_shake_summary:apart/2, summaries(Modules)),
         #{live := Live} = reached(Modules, #{modules => Apart}),
         check_names(Modules, maps:keys(Live), [])
     end || Text <- [Loaded, Unloaded, Undeclared, Without]].

%% Features: `m' belongs to kernel or stdlib, and `f' to a feature

-define(M, ["-module(m). -export([go/0]).", "go() -> f:feature(), f:kept()."]).
-define(F, ["-module(f). -export([feature/0, kept/0]).",
            "feature() -> inner(). inner() -> ok. kept() -> ok."]).

%% A mention in an OTP application counts where it needs the application of that module, and where
%% the program mentions the name too. A call in it counts in any case.
words_of_otp(_) ->
    [?assertEqual(Found, words_of_otp(Does, Says, Needs))
     || {Does, Says, Needs, Found} <- [{"ok", "[b, live]", [], false},
                                       {"ok", "[b, live]", [b], true},
                                       {"b", "[b, live]", [], true},
                                       {"ok", "b:live()", [], true},
                                       {"ok", "apply(b, live, [])", [], true},
                                       {"ok", "apply(b, a:main(), [])", [], false},
                                       {"live", "apply(b, a:main(), [])", [], true}]].

words_of_otp(Does, Says, Needs) ->
    Modules = [compiled(["-module(a). -export([main/0]).",
                         "main() -> o:go(), " ++ Does ++ "."]),
               compiled(["-module(o). -export([go/0]).", "go() -> " ++ Says ++ "."]),
               compiled(["-module(b). -export([live/0]).", "live() -> ok."])],
    #{live := Live} = reached(Modules, #{known => known([{o, otp, Needs}, {b, otp, []},
                                                         {a, input, []}])}),
    is_map_key({b, live, 0}, Live).

%% A call by a name in the code counts.
names_of_otp(_) ->
    Modules = [compiled(["-module(a). -export([main/0]).",
                         "main() -> " ++ Name ++ ":go()."])
               || Name <- ["erl_compile"]]
        ++ [compiled(["-module(erl_compile). -export([go/0]).", "go() -> [leex, word, live]."])
            | [compiled(["-module(" ++ Name ++ "). -export([live/0]).", "live() -> ok."])
               || Name <- ["leex", "word"]]],
    #{live := Live} = reached(Modules, #{known => known([{erl_compile, otp, []}, {leex, otp, []},
                                                         {word, otp, []}, {a, input, []}])}),
    ?assertEqual([{leex, live, 0}], [Mfa || {_, live, _} = Mfa <- maps:keys(Live)]).

%% Modules that configuration names, directly and after relx has filled it in at the start.
settings(_) ->
    [begin
         System = whittle_system:put_file(
                    Path, #{mode => 8#644, bytes => Bytes},
                    whittle_system:set_boot({script, {"s", "1"}, []},
                                            whittle_system:new(#{name => "s", vsn => "1",
                                                                 otp => "25"}))),
         ?assertEqual(Atoms, [Atom || {Atom, {root, From}} <- whittle_shake_roots:atoms(System, []),
                                      From =:= Path])
     end || {Path, Bytes, Atoms} <-
                [{<<"sys.config">>, <<"[{a, [{handler, b}]}].">>, [a, b, handler]},
                 {<<"sys.config.src">>,
                  <<"[{a, [{handler, b}, {port, ${PORT}}, {name, \"${NAME}\"}]}].">>,
                  [a, b, handler, name, port]},
                 %% No brace closes these, and each would read the rest of the text.
                 {<<"sys.config.src">>,
                  iolist_to_binary(["[{a, b}]. %", lists:duplicate(1_000_000, "${")]), [a, b]},
                 {<<"notes.src">>, <<"[a].">>, []}]].

feature_off(_) ->
    #{live := Live, on := On, blocked := Blocked} =
        reached(["m:go()"], #{modules => [f], except => [{f, kept, 0}]}, #{}),
    ?assertEqual({[{f, kept, 0}], #{}}, {functions(f, Live), On}),
    ?assertEqual(#{it => [{{f, feature, 0}, {called, {m, go, 0}}}]}, Blocked),
    %% This holds too where the module stays whole, whichever function the search reaches first.
    Whole = compiled(["-module(f). -export([feature/0, kept/0, whole/0])." | tl(?F)]
                     ++ ["whole() -> erlang:load_nif([], [])."]),
    [begin
         #{live := Some, blocked := Shut} =
             reached([compiled(["-module(a). -export([main/0]).",
                                "main() -> [" ++ Does ++ "]."]), Whole],
                     #{features => whittle_shake_feature:new(
                                     [{it, #{means => "it", functions => [{f, inner, 0}]}}])}),
         ?assertEqual({[{f, feature, 0}, {f, kept, 0}, {f, whole, 0}], [it]},
                      {[Mfa || {_, F, _} = Mfa <- functions(f, Some), F =/= module_info],
                       maps:keys(Shut)})
     end || Does <- ["f:kept(), f:feature()", "f:feature(), f:kept()"]],
    #{live := Fewer} = reached(["m:go()"], #{functions => [{f, inner, 0}]}, #{}),
    ?assertEqual([{f, feature, 0}, {f, kept, 0}], functions(f, Fewer)).

%% The search follows the remembered edge when the program itself makes the call.
feature_on(_) ->
    #{live := Live, on := On, blocked := Blocked} =
        reached(["m:go()", "f:feature()"], #{modules => [f]}, #{}),
    ?assertEqual([{f, feature, 0}, {f, inner, 0}, {f, kept, 0}], functions(f, Live)),
    ?assertEqual(#{it => {{a, main, 0}, {f, feature, 0}}}, On),
    ?assertEqual(#{}, Blocked),
    #{live := Asked} = reached(["m:go()"], #{modules => [f]}, #{on => [{it, ?ROOT}]}),
    ?assertEqual([{f, feature, 0}, {f, inner, 0}, {f, kept, 0}], functions(f, Asked)).

%% A feature that is on at the start of any system has the program as its reason if the program
%% uses it. The features that it needs have the same reason. Whether other nodes may call the
%% program depends on this reason.
feature_of_start(_) ->
    Start = whittle_shake_roots:start(),
    On = fun(Does, Definition, Order) ->
                 #{on := On} =
                     reached(Does, Definition,
                             #{on => [{it, Start}], answered => false,
                               calls => [{Mfa, ?ROOT} || Mfa <- Order]}),
                 On
         end,
    [begin
         ?assertEqual(#{it => {Start, none}}, On(["ok"], #{modules => [f]}, Order)),
         ?assertEqual(#{it => {Start, none}}, On(["m:go()"], #{modules => [f]}, Order)),
         ?assertEqual(#{it => {{a, main, 0}, {f, feature, 0}}},
                      On(["f:feature()"], #{functions => [{f, feature, 0}]}, Order)),
         ?assertEqual(#{it => {{a, main, 0}, m}}, On(["m:go()"], #{modules => [f], used => [m]},
                                                     Order))
     end || Order <- [[{a, main, 0}, {m, go, 0}], [{m, go, 0}, {a, main, 0}]]],
    Features = whittle_shake_feature:new([{distribution, #{modules => [f]}},
                                          {global, #{used => [word], needs => [distribution]}}]),
    Open = fun(Does) ->
                   Modules = [compiled(["-module(a). -export([main/0]).",
                                        "main() -> " ++ Does ++ "."]),
                              compiled(?F)],
                   Reached = reached(Modules, #{features => Features, answered => false,
                                                on => [{global, Start}, {distribution, Start}]}),
                   whittle_shake_dynamic:open(Reached, #{})
           end,
    ?assertEqual([], Open("ok")),
    [?assertMatch([{remote, _}], Open(Does)) || Does <- ["word", "f:feature()", "{f, 1}"]].

%% An option can turn off a feature that another one only recommends.
feature_recommended(_) ->
    Features = whittle_shake_feature:new([{it, #{modules => [f], recommends => [other]}},
                                          {other, #{modules => [g], needs => [it]}}]),
    On = fun(Off) ->
                 Modules = [compiled(["-module(a). -export([main/0]).", "main() -> f:feature()."]),
                            compiled(?F)],
                 #{on := On, refused := []} = reached(Modules, #{features => Features, off => Off}),
                 lists:sort(maps:keys(On))
         end,
    ?assertEqual([it, other], On([])),
    ?assertEqual([it], On([other])).

%% A new node calls a function that only its command line names.
named_in_a_command_line(_) ->
    A = compiled(["-module(a). -export([main/0]).", "main() -> slave:start(host)."]),
    ?assert(lists:member({slave, slave_start, 1}, live([A, otp(slave)]))).

%% Names come from text in many ways.
names_from_text(_) ->
    [begin
         Module = compiled(["-module(a). -export([main/0]).", "main() -> " ++ Does ++ "."]),
         {ok, Summary} = whittle_shake_summary:module(Module),
         ?assertMatch({[{Kind, [_]}], Does},
                      {whittle_shake_dynamic:open(reached([Module], #{}), #{a => Summary}), Does})
     end
     || {Kind, Does} <- [{data, "erl_scan:string(os:getenv([$A]))"},
                         {data, "io:parse_erl_exprs('')"}, {data, "io:scan_erl_form(user, '')"},
                         {data, "qlc:string_to_handle(os:getenv([$A]))"},
                         {data, "beam_lib:chunks(os:getenv([$A]), [exports])"},
                         {data, "file_sorter:sort([os:getenv([$A])], self(), [{format, term}])"},
                         {data, "io:request(user, {get_until, unicode, [], erl_scan, tokens, "
                          "[1]})"},
                         {data, "c:erlangrc([node()])"}, {data, "shell:start_interactive()"},
                         {code, "c:l(a)"},
                         {data, "timer:tc(file, consult, [os:getenv([$A])])"},
                         {data, "rpc:call(node(), file, consult, [os:getenv([$A])])"},
                         {atoms, "io_lib:fread([$~, $a], os:getenv([$A]))"},
                         {atoms, "argparse:parse(init:get_plain_arguments(), #{})"},
                         {atoms, "init:get_arguments()"},
                         {code, "code:add_patha(os:getenv([$A]))"}]].

feature_named(_) ->
    #{on := On} = reached(["m:go()", "{f, x}"], #{modules => [f]}, #{}),
    ?assertEqual(#{it => {{a, main, 0}, f}}, On),
    #{on := NotOn} = reached(["{f, x}"], #{modules => [f], words => [f]}, #{}),
    ?assertEqual(#{}, NotOn).

%% The names of a module and of its function may be used for a call. Whichever function mentions
%% them first, a mention does not turn on a feature inside a module.
function_named(_) ->
    [begin
         #{on := On, live := Live} = reached([Does], #{functions => [{f, feature, 0}]}, #{}),
         ?assertEqual({#{}, false}, {On, is_map_key({f, feature, 0}, Live)})
     end || Does <- ["{x, f, feature}", "f:kept(), {x, f, feature}", "m:go(), {x, f, feature}"]].

feature_used(_) ->
    Definition = #{functions => [{f, feature, 0}], used => [m]},
    #{on := On, live := Live} = reached(["m:go()"], Definition, #{}),
    ?assertEqual(#{it => {{a, main, 0}, m}}, On),
    ?assert(is_map_key({f, feature, 0}, Live)),
    [?assertEqual(Turned, maps:is_key(it, maps:get(on, reached([Does], #{used => [Used]}, #{}))))
     || {Does, Used, Turned} <- [{"word", word, true}, {"{word, 1}", word, false},
                                 {"{word, 1}", {word}, true}, {"[word]", {word}, false},
                                 {"m:go()", {m, go, 0}, true}, {"f:kept()", {m, go, 0}, false},
                           {"m:go(), word", [{m, go, 0}, word], true},
                           {"word, m:go()", [m, word], true},
                           {"#{word => 1}", word, true}, {"#{w => word}", word, true},
                           {"m:go()", [{m, go, 0}, word], false}, {"word", [m, word], false}]].

%% The program turns features on by the form of its data, inside other data and in parts too.
feature_form(_) ->
    [?assertEqual({Does, Turned},
                  {Does, maps:is_key(it, maps:get(on, reached([Does], #{used => [{form, Form}]},
                                                              #{})))})
     || {Does, Form, Turned} <-
            [{"[{ip, {0, 0, 0, 0, 0, 0, 0, 1}}]", ipv6, true},
             {"#{ip => {0, 0, 0, 0, 0, 0, 0, 1}}", ipv6, true},
             {"[{127, 0, 0, 1}, {0, 0, 0, 0, 0, 0, 0, x}]", ipv6, false},
             {"case node() =:= {1, 2, 3, 4, 5, 6, 7, 8} of true -> 1; false -> 2 end", ipv6,
              false},
             {"#{family => inet}", sockaddr, true},
             {"#{family => node(), port => 1}", sockaddr, true},
             {"#{kind => family}", sockaddr, false},
             {"[{ifaddr, {local, \"path\"}}]", local, true},
             {"{local, atom_to_list(node())}", local, true},
             {"{local, name}", local, false}]].

%% A call from the program into OTP turns a feature on. A call inside OTP does not.
feature_called_through(_) ->
    Otp = [otp(M) || M <- [file, io, ets, dets, qlc, epp, erl_eval, erl_scan, disk_log, file_sorter,
                           gen_tcp, gen_udp, inet, inet_res, uri_string, escript, net_adm, group,
                           ssh]],
    On = fun(Does, Input) ->
                 A = compiled(["-module(a). -export([main/0]).", "main() -> " ++ Does ++ "."]),
                 #{on := On, refused := Refused} =
                     reached([A | Otp],
                             maps:merge(#{features => whittle_shake_feature:standard(whole)},
                                        Input)),
                 {lists:sort(maps:keys(On)), Refused}
         end,
    whittle_work:map(
      fun({Does, Features}) ->
              ?assertEqual({Does, {Features, []}}, {Does, On(Does, #{})}),
              ?assertEqual({Does, {[], []}}, {Does, On(Does, #{program => #{}})})
      end,
      [{Does, [terms]} || Does <- ["file:consult(x)", "file:path_consult([], x)",
                                   "lists:map(fun file:consult/1, [])",
                                   "apply(file, consult, [x])", "io:read(x)",
                                   "io:read(x, y)", "io:read(x, y, 1)",
                                   "io:read(x, y, 1, [])", "io:scan_erl_exprs(x)",
                                   "io:scan_erl_form(x)", "io:parse_erl_exprs(x)",
                                   "io:parse_erl_form(x)",
                                   "timer:tc(file, consult, [x])",
                                   "spawn(file, consult, [x])"]]
      ++ [{Does, [eval, terms]} || Does <- ["file:eval(x)", "file:eval(x, [])",
                                            "file:path_eval([], x)", "file:script(x)",
                                            "file:script(x, [])",
                                            "file:path_script([], x)",
                                            "file:path_script([], x, [])",
                                            "ets:table(x)", "ets:table(x, [])"]]
      ++ [{"file_sorter:sort(x)", [compressed_files, terms]},
          {"file:open(x, [compressed])", [compressed_files]},
          {"file:open(x, [{zstd, #{}}])", [compressed_files]},
          {"file:open(x, [ram])", [memory_files]},
          {"file:open(x, maps:to_list(#{zstd => #{}}))", [compressed_files]},
          {"file:open(x, maps:keys(#{ram => 1, compressed => 1}))",
           [compressed_files, memory_files]},
          {"file:open(x, [K || {K, true} <- [{ram, true}, {compressed, true}]])",
           [compressed_files, memory_files]},
          {"group:start(x, y, []), ssh:daemon(x, [])", [ansi, line_editing, terms]},
          {"group:start(x, y, []), ssh:connect(x, [])", []},
          {"inet:ipv4_mapped_ipv6_address(x)", [inet, inet6]},
          {"proplists:get_value(error_info, [])", [errors]},
          {"erlang:error(x, none, [{error_info, #{}}])", []},
          {"ets:tab2file(x, y)", [disk_log]}, {"ets:tab2file(x, y, [])", [disk_log]},
          {"ets:file2tab(x)", [disk_log]}, {"ets:file2tab(x, [])", [disk_log]},
          {"ets:tabfile_info(x)", [disk_log]},
          {"{h, logger_disk_log_h, []}", [disk_log]},
          {"ets:to_dets(x, y)", [dets, memory_files]},
          {"ets:from_dets(x, y)", [dets, memory_files]},
          {"dets:table(x)", [dets, eval, memory_files, terms]},
          {"escript:create(x, [])", [archives, compressed_files, eval, memory_files, terms]},
          {"net_adm:host_file()", [distribution, global, inet, terms]},
          {"inet_res:lookup(x, in, a)", [inet, inet6, resolver]},
          {"uri_string:parse(x)", []},
          {"gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}])", [inet]},
          {"gen_tcp:listen(0, [inet6])", [inet, inet6]},
          {"gen_udp:open(0, [{ifaddr, {local, \"x\"}}])", [inet, local_sockets]},
          {"{gen_tcp:listen(0, []), {local, name}}", [inet]},
          {"gen_tcp:listen(0, [{inet_backend, socket}])", [inet, sockets]},
          {"gen_tcp:connect(#{family => inet}, [])", [inet, sockets]},
          {"inet:i()", [inet, sockets]}]),
    [?assertMatch({Does, {_, [{Feature, {a, main, 0}, What} | _]}},
                  {Does, On(Does, #{off => [Feature]})})
     || {Does, Feature, What} <- [{"file:consult(x)", terms, {file, consult, 1}},
                                  {"io:read(x)", terms, {io, read, 1}},
                                  {"file:script(x)", eval, {file, script, 1}},
                                  {"gen_tcp:listen(0, [inet6])", inet6, inet6}]].

%% This holds too where another module made the call before.
feature_used_by_another(_) ->
    Definition = #{functions => [{f, feature, 0}], used => [{f, kept, 0}]},
    [?assertEqual(#{it => {{a, main, 0}, {f, kept, 0}}},
                  maps:get(on, reached(["f:kept()"], Definition, #{calls => Calls})))
     || Calls <- [[{{a, main, 0}, ?ROOT}, {{m, go, 0}, ?ROOT}],
                  [{{m, go, 0}, ?ROOT}, {{a, main, 0}, ?ROOT}]]].

%% If the feature is off, another function in its place is live.
feature_answers(_) ->
    Definition = #{answers => [{{f, feature, 0}, {call, {f, inner}}}]},
    #{live := Live} = reached(["m:go()"], Definition, #{}),
    ?assertEqual([{f, inner, 0}, {f, kept, 0}], functions(f, Live)),
    #{modules := About} = reached(["m:go()"], #{answers => [{{f, feature, 0}, {value, {f, "x"}}}]},
                                  #{}),
    ?assert(is_map_key(f, About)).

feature_brings(_) ->
    Definition = #{functions => [{f, nothing, 0}], brings => [f, kept]},
    #{live := Live} = reached(["ok"], Definition, #{on => [{it, ?ROOT}]}),
    ?assertEqual([{f, kept, 0}], functions(f, Live)).

feature_refused(_) ->
    #{refused := Refused} = reached(["f:feature()"], #{modules => [f]}, #{off => [it]}),
    ?assertEqual([{it, {a, main, 0}, {f, feature, 0}}], Refused).

%% A call comes before a mentioned name, and a short path before a long one, in any order of
%% finding.
plausible_way(_) ->
    Modules = [compiled(["-module(a). -export([main/0, first/0, last/0]).",
                         "main() -> self() ! {a, last}, first(). first() -> second().",
                         "second() -> b:long(). last() -> b:short()."]),
               compiled(["-module(b). -export([long/0, short/0, target/0]).",
                         "long() -> b1(). b1() -> b2(). b2() -> target(). short() -> target().",
                         "target() -> ok."]),
               compiled(["-module(c). -export([go/0]). go() -> ok."])],
    Reached = reached(Modules, #{}),
    ?assertEqual([{{b, target, 0}, {called, {b, b2, 0}}}, {{b, b2, 0}, {called, {b, b1, 0}}}],
                 lists:sublist(whittle_shake_reach:why({b, target, 0}, Reached), 2)),
    Called = compiled(["-module(a). -export([main/0]).",
                       "main() -> self() ! {x, b, target}, one(). one() -> two().",
                       "two() -> b:target()."]),
    ?assertMatch([{_, {called, {a, two, 0}}} | _],
                 whittle_shake_reach:why({b, target, 0},
                                         reached([Called | tl(Modules)], #{}))).

%% A function that mentions both names comes before two functions that each mention one of them,
%% although the search meets these first. The name of the module or of the function may be the
%% first element of a tuple or the key of a map.
plausible_pair(_) ->
    [begin
         Modules = [compiled(["-module(a). -export([one/0, two/0, both/0]).",
                              "one() -> b. two() -> target.",
                              "both() -> self() ! " ++ Mentions ++ "."]),
                    compiled(["-module(b). -export([target/1]). target(X) -> X."])],
         Reached = reached(Modules, #{calls => [{{a, F, 0}, ?ROOT} || F <- [one, two, both]]}),
         ?assertMatch({Mentions, [{_, {named, {a, both, 0}, {a, both, 0}}} | _]},
                      {Mentions, whittle_shake_reach:why({b, target, 1}, Reached)})
     end || Mentions <- ["{b, target, [1]}", "#{id => x, start => {b, target, [1]}}",
                         "{b, [target]}", "#{b => target}", "[b, target]", "[b, {target, 1}]",
                         "{b, {target, 1}}", "[b, #{target => 1}]"]].


feature_price(_) ->
    #{prices := Prices} = reached(["m:go()"], #{modules => [f]}, #{}),
    ?assertEqual(#{it => [{f, feature, 0}, {f, inner, 0}, {f, kept, 0}]},
                 maps:map(fun(_, Mfas) -> lists:sort(Mfas) end, Prices)).

way(_) ->
    Reached = reached(["m:go()"], #{functions => [{f, inner, 0}]}, #{}),
    ?assertEqual([{{f, kept, 0}, {called, {m, go, 0}}}, {{m, go, 0}, {called, {a, main, 0}}},
                  {{a, main, 0}, {called, ?ROOT}}],
                 whittle_shake_reach:why({f, kept, 0}, Reached)),
    ?assertEqual([], whittle_shake_reach:why({f, inner, 0}, Reached)).

%% The order in which a VM meets atoms gives them their numbers, and the numbers order large maps.
%% Of forty functions that call another one, the reason always names the same.
same_in_each_vm(_) ->
    Names = ["same" ++ integer_to_list(N) || N <- lists:seq(1, 40)],
    Sources = [["-module(a). -export([main/0]).",
                "main() -> M = pick([" ++ lists:append(lists:join(", ", Names)) ++ "]),",
                "  F = pick([test, the_function]), M:F(), whole:first().",
                "pick(List) -> lists:nth(length(nodes()), List)."],
               ["-module(whole). -compile(export_all). -on_load(first/0). first() -> ok."
                | [Name ++ "() -> shared:of_whole()." || Name <- Names]],
               ["-module(shared). -export([of_whole/0, of_many/0]).",
                "of_whole() -> ok. of_many() -> ok."]
               | [["-module(" ++ Name ++ "). -export([the_function/0]).",
                   "the_function() -> shared:of_many()."] || Name <- Names]],
    Beams = lists:map(fun beam/1, Sources),
    [One, Other] =
        [begin
             {ok, Peer, _} = peer:start_link(#{name => peer:random_name(),
                                               connection => standard_io,
                                               args => ["-pa" | code:get_path()]}),
             Reached = peer:call(Peer, ?MODULE, reached_from, [Order], 60000),
             peer:stop(Peer),
             Reached
         end || Order <- [Beams, lists:reverse(Beams)]],
    ?assertMatch(#{live := #{{shared, of_whole, 0} := _, {shared, of_many, 0} := _}}, One),
    ?assertEqual(One, Other).

%% Runs in another VM.
reached_from(Beams) -> reached([module(Beam) || Beam <- Beams], #{}).

%% Whole programs

what_is_kept_runs(_) ->
    A = compiled(["-module(a). -export([main/0]).",
                  "main() -> D = dict:from_list([{N, integer_to_list(N)} || N <- [3, 1, 2]]),",
                  "  {lists:sort(dict:to_list(dict:map(fun(_, V) -> string:reverse(V) end, D))),",
                  "   orddict:fetch(b, orddict:store(b, 2, orddict:new())),",
                  "   queue:to_list(queue:reverse(queue:from_list([1, 2]))),",
                  "   proplists:get_value(x, [{x, y}])}."]),
    Names = [dict, orddict, queue, proplists],
    Modules = [A | [otp(M) || M <- Names ++ [lists, string, unicode_util, maps]]],
    Live = live(Modules),
    Expected = {[{1, "1"}, {2, "2"}, {3, "3"}], 2, [2, 1], y},
    {ok, Peer, Node} = peer:start_link(#{name => peer:random_name(), connection => standard_io}),
    _ = Node,
    [begin
         #{module := M, functions := All} = Module,
         Keep = maps:from_list([{{F, Arity}, []} || {N, F, Arity} <- Live, N =:= M]),
         ?assert(map_size(Keep) < length(All)),
         {ok, Bytes} = whittle_beam:assemble(#{}, whittle_beam_module:keep(Keep, Module)),
         _ = peer:call(Peer, code, unstick_mod, [M]),
         {module, M} = peer:call(Peer, code, load_binary, [M, "kept", Bytes])
     end || #{module := M} = Module <- Modules, lists:member(M, Names)],
    {ok, Main} = whittle_beam:assemble(#{}, A),
    {module, a} = peer:call(Peer, code, load_binary, [a, "a", Main]),
    ?assertEqual(Expected, peer:call(Peer, a, main, [])),
    peer:stop(Peer).

%% Runs a program of supervisors, servers and state machines. Its own processes trace each call.
%% Every function that a live one calls is live.
what_is_called_is_live(_) ->
    Otp = [gen, gen_server, gen_statem, gen_event, supervisor, proc_lib, sys, lists, maps, ets,
           proplists, queue, dict, gb_trees, sets, string, unicode_util, io_lib, io_lib_format,
           orddict],
    A = ["-module(a). -export([main/0, init/1]).",
         "main() -> {ok, S} = supervisor:start_link(a, []),",
         "  [{_, P, _, _} | _] = supervisor:which_children(S),",
         "  b = gen_server:call(P, {ask, b}), gen_server:cast(P, add), 1 = gen_server:call(P, n),",
         "  R = monitor(process, P), exit(P, kill), receive {'DOWN', R, _, _, _} -> ok end,",
         "  [{_, _, _, _} | _] = supervisor:which_children(S),",
         "  {ok, F} = gen_statem:start_link(e, x, []), on = gen_statem:call(F, push),",
         "  off = gen_statem:call(F, push), gen_statem:stop(F),",
         "  {ok, E} = gen_event:start_link(), ok = gen_event:add_handler(E, d, []),",
         "  Run = fun() -> io_lib:format(\"~p\", [[a, #{x => 1}]]) end,",
         "  ok = gen_event:sync_notify(E, {run, Run}),",
         "  gen_event:stop(E), data(), unlink(S), exit(S, shutdown), ok.",
         "data() -> T = ets:new(t, []), ets:insert(T, [{x, lists}, {y, queue}]),",
         "  [begin M = ets:lookup_element(T, K, 2), M:module_info(exports) end || K <- [x, y]],",
         "  D = dict:store(f, fun orddict:size/1, dict:new()),",
         "  (dict:fetch(f, D))(orddict:from_list(maps:to_list(#{a => 1}))),",
         "  {M, F} = proplists:get_value(mf, [{mf, {gb_trees, empty}}]), M:F(),",
         "  apply(string, uppercase, [\"x\"]), sets:from_list([1, 2]).",
         "init([]) -> {ok, {#{strategy => one_for_one}, [#{id => b, start => {b, start, [1]}}]}}."],
    B = ["-module(b). -export([start/1, init/1, handle_call/3, handle_cast/2]).",
         "start(X) -> gen_server:start_link(?MODULE, X, []).",
         "init(_) -> {ok, 0}. handle_call({ask, X}, _, S) -> {reply, X, S};",
         "handle_call(n, From, S) -> gen_server:reply(From, S), {noreply, S}.",
         "handle_cast(add, S) -> {noreply, S + 1}."],
    C = ["-module(e). -export([init/1, callback_mode/0, on/3, off/3]).",
         "init(x) -> {ok, off, 0}. callback_mode() -> [state_functions].",
         "off({call, From}, push, D) -> {next_state, on, D + 1, [{reply, From, on}]}.",
         "on({call, From}, push, D) -> {next_state, off, D, [{reply, From, off}]}."],
    D = ["-module(d). -export([init/1, handle_event/2, handle_call/2]).",
         "init(X) -> {ok, X}. handle_event({run, F}, S) -> F(), {ok, S}.",
         "handle_call(_, S) -> {ok, ok, S}."],
    Tracing = ["-module(tracing). -export([run/1]).",
               "run(Ms) -> [{module, M} = code:ensure_loaded(M) || M <- Ms],",
               "  Caller = [{'_', [], [{message, {caller}}]}],",
               "  [erlang:trace_pattern({M, '_', '_'}, Caller, [local]) || M <- Ms],",
               "  {P, R} = spawn_monitor(fun() -> receive go -> exit(a:main()) end end),",
               "  erlang:trace(P, true, [call, set_on_spawn]), P ! go,",
               "  receive {'DOWN', R, _, _, Why} ->",
               "    {Why, calls(erlang:trace_delivered(all), #{})} end.",
               "calls(Ref, All) -> receive",
               "  {trace, _, call, {M, F, As}, By} ->",
               "    calls(Ref, All#{{By, {M, F, length(As)}} => []});",
               "  {trace_delivered, all, Ref} -> maps:keys(All) end."],
    Own = [beam([macros(Line) || Line <- Source]) || Source <- [A, B, C, D]],
    Modules = [module(Beam) || Beam <- Own] ++ [otp(M) || M <- Otp],
    {ok, Peer, _} = peer:start_link(#{name => peer:random_name(), connection => standard_io}),
    [{module, M} = peer:call(Peer, code, load_binary, [M, "a", Beam])
     || {M, Beam} <- lists:zip([a, b, e, d, tracing], Own ++ [beam(Tracing)])],
    {ok, Called} = peer:call(Peer, tracing, run, [[a, b, d, e | Otp]], 60000),
    peer:stop(Peer),
    ?assert(length(Called) > 200),
    Live = live(Modules),
    ?assertEqual([], [Call || {By, Mfa} = Call <- Called, lists:member(By, Live),
                              not lists:member(Mfa, Live)]).

%% Internal

%% Makes a program that does these things, with `m' and `f', and one feature.
reached(Does, Definition, Input) ->
    A = ["-module(a). -export([main/0]).",
         "main() -> [" ++ lists:append(lists:join(", ", Does)) ++ "]."],
    Features = whittle_shake_feature:new([{it, Definition#{means => "it"}}]),
    reached([compiled(Source) || Source <- [A, ?M, ?F]], Input#{features => Features}).

functions(M, Live) -> [Mfa || {Module, _, _} = Mfa <- lists:sort(maps:keys(Live)), Module =:= M].

macros(Line) -> lists:flatten(string:replace(Line, "?MODULE", "b")).

check(A, B) -> check(A, B, ["-module(c)."]).

check(A, B, C) ->
    Modules = [compiled(Source) || Source <- [A, B, C]],
    check_names(Modules, live(Modules), C).

check_names(Modules, Live, C) ->
    All = [{M, F, Arity} || #{module := M, functions := Functions} <- Modules,
                            #{name := F, arity := Arity} <- Functions],
    Found = [Mfa || {_, F, _} = Mfa <- All, lists:member(Mfa, Live), begins("dead", F)],
    Lost = [Mfa || {M, F, _} = Mfa <- All, not lists:member(Mfa, Live), begins("live", F),
                   not begins("live_not", F), M =/= c orelse wanted_of_c(C)],
    ?assertEqual({[], []}, {Found, Lost}).

%% A module `c' that only attracts calls has a function `dead'.
wanted_of_c(Source) -> string:find(lists:append(Source), "dead") =:= nomatch.

begins(Prefix, Name) -> lists:prefix(Prefix, atom_to_list(Name)).

live(Modules) ->
    #{live := Live} = reached(Modules, #{}),
    maps:keys(Live).

%% Replaces the usual input by the given parts.
reached(Modules, Input) ->
    whittle_shake_reach:reach(
      maps:merge(#{modules => summaries(Modules), program => #{a => []},
                   calls => [{{a, main, 0}, ?ROOT}],
                   kept => [], traps => whittle_shake_roots:traps(whole), atoms => [],
                   made => [],
                   data => none, lists => none,
                   known => known([]), features => whittle_shake_feature:new([]),
                   answered => true, on => [], off => []}, Input)).

summaries(Modules) ->
    maps:from_list([{M, Summary}
                    || #{module := M} = Module <- Modules,
                       {ok, Summary} <- [whittle_shake_summary:module(Module)]]).

%% Applications of one module each, from OTP or not, that need others.
known(Apps) ->
    System = whittle_system:new(#{name => "s", vsn => "1", otp => "25"}),
    whittle_shake_known:new(
      lists:foldl(fun({Name, Kind, Needs}, Now) ->
                          whittle_system:put_app(
                            #{name => Name, vsn => "1", modules => #{Name => <<>>}, files => #{},
                              spec => {application, Name, [{applications, Needs}]},
                              origin => #{kind => Kind}}, Now)
                  end, System, Apps), []).

compiled(Source) -> module(beam(Source)).

beam(Source) -> made:beam(lists:append(lists:join(" ", Source))).

otp(Name) ->
    {ok, Beam} = file:read_file(code:which(Name)),
    module(Beam).

module(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Module} = whittle_beam:disassemble(Beam),
    Module.
