%% What a program can call is kept, by whatever way it comes to be called; and what
%% nobody can call is not. Each case is a program of a few functions, of which those
%% whose name begins with `live' must be found and those with `dead' must not.
-module(whittle_shake_graph_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([calls/1, funs/1, applied/1, module_by_argument/1, module_by_message/1,
         module_by_table/1, module_by_exception/1, module_in_literal/1, caught_registers/1,
         callbacks_of_a_server/1, what_is_kept_runs/1]).
-export([elements/1, tagged/1, second_element/1, loose_tag/1, references/1, maps_by_key/1,
         pairs/1, pairs_of_arguments/1, pairs_in_records/1, argument_lists/1, changed_tuples/1,
         tuples_of_lists/1, by_each_fun/1, options/1, tables/1, match_specifications/1,
         natives_as_funs/1, on_load/1, what_is_called_is_live/1]).

all() ->
    [calls, funs, applied, module_by_argument, module_by_message, module_by_table,
     module_by_exception, module_in_literal, caught_registers, callbacks_of_a_server,
     what_is_kept_runs, elements, tagged, second_element, loose_tag,
     references, maps_by_key, pairs, pairs_of_arguments, pairs_in_records, argument_lists,
     changed_tuples, tuples_of_lists, by_each_fun, options, tables, match_specifications,
     natives_as_funs, on_load, what_is_called_is_live].

calls(_) ->
    check(["-module(a). -export([main/0, dead/0]).",
           "main() -> live(), b:live(1).",
           "live() -> ok. dead() -> live_not(). live_not() -> dead()."],
          ["-module(b). -export([live/1, dead/1]).", "live(X) -> X. dead(X) -> X."]).

funs(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> F = fun live/1, G = fun(X) -> live2(X) end, H = fun b:live/1,",
           "          lists:map(F, [G, H]).",
           "live(X) -> X(1). live2(X) -> X. dead() -> ok."],
          ["-module(b). -export([live/1, dead/1]).", "live(X) -> X. dead(X) -> X."]).

%% Both the module and the name have to be able to come there.
applied(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> M = pick(), M:live(), apply(M, live2, [1]), spawn(b, live3, []),",
           "          dead.",
           "pick() -> b."],
          ["-module(b). -export([live/0, live2/1, live3/0, dead/0, live_not/1]).",
           "live() -> ok. live2(X) -> X. live3() -> ok. dead() -> ok. live_not(X) -> X."],
          ["-module(c). -export([live/0, dead/0]).", "live() -> dead(). dead() -> ok."]).

%% `c' is alive as an atom, but goes elsewhere.
module_by_argument(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> through({x, [b]}), is_atom(c).",
           "through({_, [M]}) -> M:live()."],
          ["-module(b). -export([live/0]).", "live() -> ok."],
          ["-module(c). -export([live/0]).", "live() -> dead(). dead() -> ok."]).

module_by_message(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> self() ! {call, b}, receive {call, M} -> M:live() end."],
          ["-module(b). -export([live/0]).", "live() -> ok."]).

module_by_table(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> put(key, b), M = get(key), M:live(),",
           "          persistent_term:put(x, c), N = persistent_term:get(x), N:live()."],
          ["-module(b). -export([live/0]).", "live() -> ok."],
          ["-module(c). -export([live/0]).", "live() -> ok."]).

module_by_exception(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> try throw({no, b}) catch {no, M} -> M:live() end,",
           "          N = (catch exit(c)), N:live()."],
          ["-module(b). -export([live/0]).", "live() -> ok."],
          ["-module(c). -export([live/0]).", "live() -> ok."]).

module_in_literal(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> [M:F() || #{start := {M, F, []}} <- specs()].",
           "specs() -> [#{id => x, start => {b, live, []}}]."],
          ["-module(b). -export([live/0, dead/0]).", "live() -> ok. dead() -> ok."]).

%% What is held across a failing call is still held where it is caught.
caught_registers(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> M = id(b), N = id(c),",
           "          try id(fail), id(N) catch _:_ -> M:live() after N:live() end.",
           "id(X) -> X."],
          ["-module(b). -export([live/0]).", "live() -> ok."],
          ["-module(c). -export([live/0]).", "live() -> ok."]).

-define(B, ["-module(b). -export([live/0, dead/0, dead/1]).",
            "live() -> ok. dead() -> ok. dead(X) -> X."]).
-define(B2, ["-module(b). -export([live/0, live/1]). live() -> ok. live(X) -> X."]).
-define(C, ["-module(c). -export([live/0, dead/0]).", "live() -> dead(). dead() -> ok."]).

%% Only what stands in that place of the tuple.
elements(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> go({c, b, 1}).",
           "go(T) when tuple_size(T) =:= 3 -> M = element(2, T), M:live()."], ?B, ?C).

tagged(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> go([{x, b}, {y, c}]).",
           "go([{x, M} | T]) -> M:live(), go(T); go([{y, _} | T]) -> go(T); go([]) -> ok."],
          ?B, ?C).

second_element(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> self() ! {self(), use, b}, self() ! {self(), other, c}, go().",
           "go() -> receive {_, use, M} -> M:live(); {_, other, _} -> go() end."], ?B, ?C).

%% The tag is a variable where the tuple is built.
loose_tag(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> go(made(x, b)), go(made(y, b)), go(other(c)).",
           "made(Tag, M) -> {Tag, M}. other(M) -> {id(z), M}.",
           "id(X) -> X.",
           "go({x, M}) -> M:live(); go({y, M}) -> M:live(1); go(_) -> ok."], ?B2, ?C).

references(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> R = make_ref(), self() ! {x, c}, answer(self(), R),",
           "  receive {R, M} -> M:live() end.",
           "answer(To, R) -> To ! {R, b}."], ?B, ?C).

maps_by_key(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> M = (maps:from_list([{x, b}, {y, c}]))#{z => c}, go(M), all(#{q => b}).",
           "go(#{x := M}) -> M:live().",
           "all(Map) -> [M:live(1) || M <- maps:values(Map)]."], ?B2, ?C).

%% Not the module of one with the function of the other.
pairs(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> go([{b, live, []}, {c, x, []}]), [M:F() || {M, F} <- [{b, live2}]].",
           "go([{M, F, A} | T]) -> apply(M, F, A), go(T); go([]) -> ok."],
          ["-module(b). -export([live/0, live2/0, x/0]).",
           "live() -> ok. live2() -> ok. x() -> dead(). dead() -> ok."],
          ["-module(c). -export([live_not/0, x/0]).",
           "live_not() -> dead(). x() -> ok. dead() -> ok."]).

pairs_of_arguments(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> first(b, live, [1]), first(c, x, []), spawn(fun() -> second(b, live2) end).",
           "first(M, F, A) -> proc(F, M, A). proc(F, M, A) -> spawn(M, F, A).",
           "second(M, F) -> M:F()."],
          ["-module(b). -export([live/1, live2/0, x/0, dead/0]).",
           "live(X) -> X. live2() -> ok. x() -> dead(). dead() -> ok."],
          ["-module(c). -export([live/1, live2/0, x/0]).",
           "live(_) -> dead(). live2() -> dead(). x() -> ok. dead() -> ok."]).

pairs_in_records(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> S = {child, 1, c, x, []}, go(setelement(3, S, b)),",
           "  go({child, 2, b, live2, []}).",
           "go({child, _, M, F, A}) -> apply(M, F, A)."],
          ["-module(b). -export([x/0, live2/0, dead/0]). x() -> live(). live() -> ok.",
           "live2() -> ok. dead() -> ok."],
          ["-module(c). -export([x/0, live2/0]). x() -> ok. live2() -> dead(). dead() -> ok."]).

%% The arguments come with the pair.
argument_lists(_) ->
    check(["-module(a). -export([main/0, run/2, other/1]).",
           "main() -> start(a, run, [b, 1]), start(a, other, [c]).",
           "start(M, F, A) -> apply(M, F, A).",
           "run(M, _) -> M:live(). other(_) -> ok."], ?B, ?C).

changed_tuples(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> T = id({x, c, 1}), go(setelement(3, T, b)), go2(changed(id({y, 1}), id(2))),",
           "  go3(setelement(id(2), {z, 1}, b)).",
           "id(X) -> X. changed(T, I) -> setelement(I, T, b).",
           "go({x, _, M}) -> M:live(). go2({y, M}) -> M:live(1).",
           "go3(T) -> M = element(2, T), M:live()."],
          ?B2, ?C).

tuples_of_lists(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> go(list_to_tuple([id(x) | id([b])])), go2(tuple_to_list(id({1, b}))).",
           "id(X) -> X.",
           "go({x, M}) -> M:live(). go2([_, M]) -> M:live(1)."],
          ?B2, ?C).

%% What one fun is given by lists:map is not given to another.
by_each_fun(_) ->
    Live = live([compiled(["-module(a). -export([main/0]).",
                           "main() -> lists:map(fun(M) -> M:live() end, [b]),",
                           "          lists:map(fun(M) -> M end, [c])."]),
                 compiled(?B), compiled(?C), otp(lists)]),
    ?assert(lists:member({b, live, 0}, Live)),
    ?assertNot(lists:member({c, live, 0}, Live)).

options(_) ->
    Live = live([compiled(["-module(a). -export([main/0]).",
                           "main() -> O = [{callback, b}, {other, c}],",
                           "  (proplists:get_value(callback, O)):live(),",
                           "  {_, M} = lists:keyfind(callback, 1, O), M:live(1)."]),
                 compiled(?B2), compiled(?C), otp(proplists), otp(lists)]),
    ?assert(lists:member({b, live, 0}, Live)),
    ?assert(lists:member({b, live, 1}, Live)),
    ?assertNot(lists:member({c, live, 0}, Live)).

tables(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> ets:insert(t, {key, c, b}), ets:insert(t, [{other, b, c}]),",
           "  N = ets:lookup_element(t, key, 3), N:live(), [{key, _, M}] = ets:lookup(t, key),",
           "  M:live(1),",
           "  {x, d}."],
          ?B2,
          ["-module(c)."]).

match_specifications(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> ets:insert(t, {{env, x}, b, c}),",
           "  [[M]] = ets:match(t, {{env, '_'}, '$1', '_'}), M:live(),",
           "  [{_, N}] = ets:select(t, [{{'$1', '$2', '_'}, [], [{{'$1', '$2'}}]}]), N:live(1)."],
          ?B2, ?C).

%% A function in C that is only called as a fun does the same.
natives_as_funs(_) ->
    check(["-module(a). -export([main/0]).",
           "main() -> F = fun erlang:element/2, go(F(id(1), {b})), G = fun erlang:spawn/3,",
           "  G(b, live, [1]).",
           "id(X) -> X. go(M) -> M:live()."],
          ?B2,
          ["-module(erlang). -export([element/2, spawn/3]).",
           "element(_, _) -> erlang:nif_error(undef). spawn(_, _, _) -> erlang:nif_error(undef)."]).

on_load(_) ->
    check(["-module(a). -export([main/0]). main() -> b:live()."],
          ["-module(b). -export([live/0, dead/0]). -on_load(live_first/0).",
           "live() -> ok. live_first() -> ok. dead() -> ok."],
          ["-module(c). -on_load(live_not/0). live_not() -> dead(). dead() -> ok."]).

%% With OTP's own gen_server in between.
callbacks_of_a_server(_) ->
    Otp = [otp(M) || M <- [gen_server, gen, proc_lib, sys, lists]],
    Live = live([compiled(["-module(a). -export([main/0]). ",
                           "main() -> gen_server:start_link(b, [], [])."]),
                 compiled(["-module(b). -export([init/1, handle_call/3, handle_cast/2,",
                           " handle_info/2, terminate/2, other/1]).",
                           "init(X) -> {ok, X}. handle_call(_, _, S) -> {reply, helped(), S}.",
                           "handle_cast(_, S) -> {noreply, S}. handle_info(_, S) -> {noreply, S}.",
                           "terminate(_, _) -> ok. other(X) -> X. helped() -> ok."]) | Otp]),
    ?assertEqual([{handle_call, 3}, {handle_cast, 2}, {handle_info, 2}, {helped, 0}, {init, 1},
                  {terminate, 2}],
                 lists:sort([{F, A} || {b, F, A} <- Live])).

%% A program of stdlib's modules, with all else taken out of them, does what it did.
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

%% A program of supervisors, servers and state machines is run with each call traced, by
%% its own processes: every function that a live one calls is live.
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

macros(Line) -> lists:flatten(string:replace(Line, "?MODULE", "b")).

check(A, B) -> check(A, B, ["-module(c)."]).

check(A, B, C) ->
    Modules = [compiled(Source) || Source <- [A, B, C]],
    Live = live(Modules),
    All = [{M, F, Arity} || #{module := M, functions := Functions} <- Modules,
                            #{name := F, arity := Arity} <- Functions],
    Found = [Mfa || {_, F, _} = Mfa <- All, lists:member(Mfa, Live), begins("dead", F)],
    Lost = [Mfa || {M, F, _} = Mfa <- All, not lists:member(Mfa, Live), begins("live", F),
                   not begins("live_not", F), M =/= c orelse wanted_of_c(C)],
    ?assertEqual({[], []}, {Found, Lost}).

%% A module `c' that only lures has a `dead' in it.
wanted_of_c(Source) -> string:find(lists:append(Source), "dead") =:= nomatch.

begins(Prefix, Name) -> lists:prefix(Prefix, atom_to_list(Name)).

live(Modules) ->
    Facts = maps:from_list([{M, whittle_shake_facts:module(Module)}
                            || #{module := M} = Module <- Modules]),
    Exports = maps:from_list([{M, [{F, A} || #{name := F, arity := A, exported := true} <- Fs]}
                              || #{module := M, functions := Fs} <- Modules]),
    Found = whittle_shake_graph:solve(#{facts => Facts, exports => Exports,
                                        roots => [{{a, main, 0}, [], test}]}),
    maps:keys(whittle_shake_graph:live(Found)).

compiled(Source) -> module(beam(Source)).

beam(Source) ->
    {ok, Tokens, _} = erl_scan:string(lists:append(lists:join(" ", Source))),
    {ok, _, Beam} = compile:forms(forms(Tokens, []), [debug_info, nowarn_unused_function]),
    Beam.

forms(Tokens, Form) ->
    case Tokens of
        [{dot, _} = Dot | Rest] ->
            {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
            [Parsed | forms(Rest, [])];
        [Token | Rest] -> forms(Rest, [Token | Form]);
        [] -> []
    end.

otp(Name) ->
    {ok, Beam} = file:read_file(code:which(Name)),
    module(Beam).

module(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Module} = whittle_beam:disassemble(Beam),
    Module.
