%% Tests modules that are split in two. Hot functions stay, cold ones are called in the companion,
%% and both together answer as the module did. The suite loads them without the VM's part, which
%% acceptance/suites/cold_SUITE tests. It loads the companion before any call.
-module(whittle_shake_companion_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([calls/1, funs/1, table_of_funs/1, stack_traces/1, infos/1, hidden_names/1, identities/1,
         what_is_not_split/1, otp_modules/1]).

%% All functions are cold except `hot' and those that it calls.
-define(SOURCE,
        "-module(parted). -file(\"parted.erl\", 1).\n"
        "-export([hot/1, cold/1, both/1, adder/1, plain/0, hot_fun/1, again/1, bad/1, many/0]).\n"
        "hot(X) -> inner(X) + 1.\n"
        "inner(X) -> X * 3.\n"
        "cold(X) -> {hot(X), inner(X), below(X), both(X)}.\n"
        "below(0) -> 0;\n"
        "below(X) -> below(X - 1) + inner(1).\n"
        "both(X) -> lists:map(fun inner/1, [X, below(X)]).\n"
        "adder(N) -> M = below(N), {fun(X) -> X + M + N end, M}.\n"
        "plain() -> fun(X) -> [X] end.\n"
        "hot_fun(N) -> fun(X) -> X - N end.\n"
        "again(X) -> F = fun inner/1, G = fun parted:hot/1, F(G(X)).\n"
        "bad(X) ->\n"
        "    Y = 1 / inner(X),\n"
        "    {Y}.\n"
        "many() -> {lists:seq(1, 20), <<\"a long binary that is worth being left out\">>,\n"
        "           [a, b, c, d, e], #{x => 1, y => 2, z => 3}, \"some text, some more text\"}.\n").
-define(HOT, [{hot, 1}, {inner, 1}, {hot_fun, 1}, {'-hot_fun/1-fun-0-', 2}]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) ->
    [begin code:delete(M), code:purge(M) end || M <- [parted, 'parted~cold']].

calls(_) ->
    Whole = results(load(whole)),
    ?assertEqual(Whole, results(load(split))).

results(M) ->
    [M:hot(2), M:cold(3), M:both(2), M:again(4), M:many(), (M:hot_fun(1))(5),
     begin {F, N} = M:adder(2), {F(1), N} end, (M:plain())(x)].

%% A fun of M from before any cold call, as another node would send it.
funs(_) ->
    M = load(whole),
    {Adder, _} = M:adder(2),
    Funs = [Adder, M:plain(), M:hot_fun(1)],
    Out = term_to_binary(Funs),
    Whole = [F(7) || F <- Funs],
    M = load(split),
    ?assertEqual(Whole, [F(7) || F <- binary_to_term(Out)]).

%% The hot module has all funs in the old order.
table_of_funs(_) ->
    {Hot, _} = parts(?HOT),
    Funs = fun(Bytes) ->
                   {ok, {_, [{"FunT", <<_:32, Table/binary>>}]}} = beam_lib:chunks(Bytes, ["FunT"]),
                   [{Index, Free, Uniq} || <<_:96, Index:32, Free:32, Uniq:32>> <= Table]
           end,
    ?assertEqual(Funs(bytes()), Funs(Hot)),
    ?assertEqual(4, length(Funs(Hot))).

stack_traces(_) ->
    Traces = fun(M) ->
                     [try M:F(A)
                      catch Class:Reason:Stack ->
                              {Class, Reason, [Frame || {parted, _, _, _} = Frame <- Stack]}
                      end || {F, A} <- [{bad, 0}, {bad, x}, {adder, a}, {nothing, 1}]]
             end,
    Whole = Traces(load(whole)),
    Location = [{file, "parted.erl"}, {line, 14}],
    ?assertMatch([{error, badarith, [{parted, bad, 1, Location} | _]} | _], Whole),
    ?assertEqual(Whole, Traces(load(split))).

%% `module_info' is the function of the module. The VM leaves out hidden exports
%% (acceptance/suites/cold_SUITE), and finds the list of functions in the companion's file.
infos(_) ->
    M = load(whole),
    Functions = M:module_info(functions),
    Exports = M:module_info(exports),
    M = load(split),
    ?assertEqual(Exports, [FA || {F, _} = FA <- M:module_info(exports),
                                 hd(atom_to_list(F)) =/= $~]),
    ?assertEqual(parted, M:module_info(module)),
    ?assertMatch([{'~', _} | _], M:module_info(functions)),
    {_, Companion} = parts(?HOT),
    {ok, List} = whittle_beam:chunk(<<"WhtF">>, read(Companion)),
    ?assertEqual(Functions, binary_to_term(List)).

%% The exports of hot functions for cold ones have neutral names.
hidden_names(_) ->
    {Hot, Companion} = parts(?HOT),
    {ok, {parted, [{exports, Exports}]}} = beam_lib:chunks(Hot, [exports]),
    ?assertEqual([{'~1', 1}, {'~2', 1}],
                 [FA || {F, _} = FA <- Exports, hd(atom_to_list(F)) =:= $~]),
    ?assertNot(lists:member({inner, 1}, Exports)),
    {ok, {'parted~cold', [{imports, Imports}]}} = beam_lib:chunks(Companion, [imports]),
    ?assertEqual(['~1', '~2'], lists:usort([F || {parted, F, _} <- Imports] -- [hot])).

identities(_) ->
    {Hot, Companion} = parts(?HOT),
    {ok, {_, Md5}} = beam_lib:md5(bytes()),
    [?assertEqual(Md5, whittle_beam:identity(whittle_beam:chunks(read(Bytes))))
     || Bytes <- [bytes(), Hot, Companion]],
    ?assertEqual({ok, <<Md5/binary, "parted">>}, whittle_beam:chunk(<<"Whtl">>, read(Companion))),
    ?assertEqual({ok, Md5}, whittle_beam:chunk(<<"Whtl">>, read(Hot))).

what_is_not_split(_) ->
    ?assertEqual(cold, parts([])),
    All = maps:keys(whittle_beam_module:functions(value(bytes()))),
    ?assertEqual(whole, parts(All)),
    ?assertEqual(whole, parts(All -- [{plain, 0}])).

%% Splits any half of the functions, in the loader's view.
otp_modules(_) ->
    Modules = [M || {ok, Ms} <- [application:get_key(stdlib, modules)], M <- Ms],
    Split = [M || M <- Modules, {Hot, Companion} <- [half(M)],
                  not is_tuple(erlang:prepare_loading(M, Hot)),
                  not is_tuple(erlang:prepare_loading(whittle_system:companion(M), Companion))],
    ?assert(length(Split) > 60),
    ?assertEqual([], [M || M <- Modules, is_tuple(half(M)), not lists:member(M, Split)]).

half(M) ->
    {M, Bytes, _} = code:get_object_code(M),
    Value = value(Bytes),
    whittle_shake_companion:split(
      Value, maps:from_keys([FA || FA <- maps:keys(whittle_beam_module:functions(Value)),
                                   erlang:phash2(FA, 2) =:= 0], [])).

%% Internal

bytes() -> made:beam(?SOURCE).

parts(Hot) -> whittle_shake_companion:split(value(bytes()), maps:from_keys(Hot, [])).

load(whole) -> loaded(parted, bytes());
load(split) ->
    {Hot, Companion} = parts(?HOT),
    _ = loaded('parted~cold', Companion),
    loaded(parted, Hot).

loaded(M, Bytes) ->
    code:purge(M),
    {module, M} = code:load_binary(M, "", Bytes),
    M.

read(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    Beam.

value(Bytes) ->
    {ok, Value} = whittle_beam:disassemble(read(Bytes)),
    Value.
