%% What a program can call is kept, by whatever way it comes to be called; and what
%% nobody can call is not. Each case is a program of a few functions, of which those
%% whose name begins with `live' must be found and those with `dead' must not.
-module(whittle_shake_graph_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([calls/1, funs/1, applied/1, module_by_argument/1, module_by_message/1,
         module_by_table/1, module_by_exception/1, module_in_literal/1, caught_registers/1,
         callbacks_of_a_server/1, what_is_kept_runs/1]).

all() ->
    [calls, funs, applied, module_by_argument, module_by_message, module_by_table,
     module_by_exception, module_in_literal, caught_registers, callbacks_of_a_server,
     what_is_kept_runs].

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

%% Internal

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
    maps:keys(whittle_shake_graph:solve(#{facts => Facts, exports => Exports,
                                          roots => [{{a, main, 0}, [], test}], pools => #{}})).

compiled(Source) ->
    {ok, Tokens, _} = erl_scan:string(lists:append(lists:join(" ", Source))),
    {ok, _, Beam} = compile:forms(forms(Tokens, []), [debug_info, nowarn_unused_function]),
    module(Beam).

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
