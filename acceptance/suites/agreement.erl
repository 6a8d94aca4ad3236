%% Compares the stock VM of this machine with a node for another target: it asks that node for
%% properties of terms and for results of OTP's functions. It runs in a separate node
%% (agree_SUITE), because the suites use another OTP.
-module(agreement).

-include_lib("proper/include/proper.hrl").

-export([main/1, compile_again/1]).

%% Long enough for an emulated VM on a busy machine.
-define(PATIENCE_MS, 600_000).

%% The number of lists of terms for one property. Each has up to 12 terms.
-define(LISTS, 500).

%% Runs the comparison and ends the node, with 0 if both sides agree. The words are the task, the
%% other node, and facts from its target's description.
-spec main([string()]) -> no_return().
main([What, Node, WordSize, Endian]) ->
    ok = io:setopts([{encoding, unicode}]),
    put(node, list_to_atom(Node)),
    {connected, true} = {connected, net_kernel:connect_node(get(node))},
    Expected = {list_to_integer(WordSize), list_to_atom(Endian)},
    Faults = agree("facts", Expected, ask(facts)) ++ agree("code", agree:code(), ask(code))
        ++ compare(What),
    [io:format("~ts~n", [Fault]) || Fault <- Faults],
    _ = ask(stop),
    halt(case Faults of [] -> 0; _ -> 1 end).

%% Compiles the property library again from the abstract code in its BEAM files, because not all
%% files of another OTP load. The words are the source and the destination.
-spec compile_again([file:filename()]) -> ok.
compile_again([From, To]) ->
    lists:foreach(
      fun(File) ->
              {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
                  beam_lib:chunks(File, [abstract_code]),
              {ok, Module, Beam} = compile:forms(Forms, []),
              ok = file:write_file(filename:join(To, filename:basename(File)), Beam)
      end, filelib:wildcard(filename:join(From, "*.beam"))).

compare("terms") ->
    holds("plain terms", property(fun() -> term(plain()) end, fun plain_said/1));
compare("names") ->
    %% The names of both nodes, among all other terms.
    All = agree:own() ++ ask(own),
    Names = [Name || Name <- All, not is_local_fun(Name)],
    Among = fun(Some) -> fun() -> term(oneof([oneof(Some), plain()])) end end,
    holds("terms with names of both nodes", property(Among(Names), fun named_said/1))
        %% A fun's external format names its creator. For a fun of the other node, that is the
        %% node that read it.
        ++ holds("terms with funs of both nodes", property(Among(All), fun(_) -> [] end))
        ++ lists:append([funs(F, G) || {F, G} <- lists:zip(agree:own(), ask(own)),
                                       is_function(F)]);
compare("results") ->
    lists:append([table(Module) || Module <- agree:table()]);
compare("signatures") ->
    Keys = agree_crypto:keys(),
    Here = agree_crypto:made(Keys),
    There = ask({made, Keys}),
    Sound = [{Name, true, false} || {Name, _} <- Here],
    agree("what is made there, checked here", Sound, agree_crypto:check({Keys, There}))
        ++ agree("what is made here, checked there", Sound, ask({check, {Keys, Here}}))
        ++ lists:append([agree(atom_to_list(Name), element(2, lists:keyfind(Name, 1, Here)),
                               element(2, lists:keyfind(Name, 1, There)))
                         || Name <- [rsa, ed25519, shared, x25519]]).

is_local_fun(Term) -> is_function(Term) andalso erlang:fun_info(Term, type) =:= {type, local}.

ask(Question) ->
    Reference = make_ref(),
    {agree, get(node)} ! {self(), Reference, Question},
    receive
        {Reference, Answer} -> Answer
    after ?PATIENCE_MS -> error({no_answer, Question})
    end.

%%% Terms, there and back

property(Generator, Said) ->
    ?FORALL(Terms, ?LET(Length, range(1, 12), vector(Length, Generator())),
            begin
                put(terms, length(Terms) + case get(terms) of undefined -> 0; N -> N end),
                {Back, Theirs} = ask({echo, Terms}),
                [] =:= agree("echoed", Terms, Back)
                    ++ agree("said", Said(agree:said(Terms)), Said(Theirs))
            end).

holds(What, Property) ->
    put(terms, 0),
    Holds = proper:quickcheck(Property, [{numtests, ?LISTS}, {to_file, user}, {max_size, 16}]),
    io:format("~ts: ~b of them~n", [What, get(terms)]),
    case Holds of
        true -> [];
        _ -> [io_lib:format("~ts: ~0tP", [What, proper:counterexample(), 60])]
    end.

plain_said(Said) -> Said.

%% The external format of the other node's names differs from that of one's own, and phash/2
%% depends on it too.
named_said(Said) ->
    [maps:update_with(hash, fun([Hash, Wide, _]) -> [Hash, Wide] end,
                      maps:without([printed, external], Of)) || Of <- Said].

%% A fun of the other node gives the same result here as our own fun.
funs(Ours, Theirs) ->
    Arguments = case erlang:fun_info(Ours, arity) of
                    {arity, 0} -> none;
                    {arity, 1} -> [[1 bsl 40]];
                    {arity, 2} -> [fun(X) -> X end, [1, 2]]
                end,
    case Arguments of
        none -> [];
        [_] -> agree("a fun", {1 bsl 40, 1}, fun_of(Theirs));
        _ -> agree("a fun", apply(Ours, Arguments), apply(Theirs, Arguments))
    end.

fun_of(Fun) ->
    {X, Pid} = Fun(1 bsl 40),
    {X, length([P || P <- [Pid], node(P) =:= get(node)])}.

%%% Generators

term(Leaf) -> ?SIZED(Size, term(Size, Leaf)).

term(Size, Leaf) when Size < 2 ->
    Leaf;
term(Size, Leaf) ->
    Less = ?LAZY(term(Size div 3, Leaf)),
    frequency(
      [{6, Leaf},
       {2, some(Less)},
       {1, ?LET({First, More, Tail}, {Less, some(Less), Less}, [First | More ++ Tail])},
       {2, ?LET(Elements, some(Less), list_to_tuple(Elements))},
       {1, ?LET({N, T}, {range(256, 300), Leaf}, erlang:make_tuple(N, T))},
       {2, ?LET(Pairs, some({Less, Less}), maps:from_list(Pairs))},
       {1, ?LET({N, Pairs}, {range(30, 60), some({Leaf, Less})},
                maps:merge(maps:from_list([{K * 1_000_003, K} || K <- lists:seq(1, N)]),
                           maps:from_list(Pairs)))}]).

some(Of) -> ?LET(Length, range(0, 5), vector(Length, Of)).

plain() ->
    oneof(
      [integer(), range(-(1 bsl 28), 1 bsl 28), near_a_power(), long_integer(),
       a_float(), odd_float(), an_atom(), binary(), bitstring(), long_binary(), part(),
       bits_within(), text(), list(byte()), [],
       oneof([fun lists:map/2, fun erlang:node/0, fun no_such:function/9])]).

near_a_power() ->
    ?LET({N, D, Sign}, {oneof([oneof([26, 27, 28, 31, 32, 58, 59, 60, 63, 64, 65, 127, 128]),
                               range(0, 5000)]), range(-2, 2), oneof([1, -1])},
         Sign * ((1 bsl N) + D)).

long_integer() ->
    ?LET({Bytes, Sign}, {binary(), oneof([1, -1])},
         Sign * binary:decode_unsigned(<<0, Bytes/binary>>)).

a_float() ->
    ?LET(Bits, range(0, (1 bsl 64) - 1),
         case <<Bits:64>> of
             <<F/float>> -> F;
             _ -> -0.0
         end).

odd_float() ->
    oneof([0.0, -0.0, 5.0e-324, -5.0e-324, 2.225073858507201e-308, 2.2250738585072014e-308,
           1.7976931348623157e308, -1.7976931348623157e308, 1.0e22, 0.1, 9007199254740993.0,
           float()]).

%% Atoms of 255 characters with up to four bytes. They are few, because a node forgets no atom.
an_atom() ->
    oneof([oneof([a, '', 'A b', true, 'Ünïcode', 'снег', '漢字', '\x{1f600}']),
           ?LET({N, Char}, {range(0, 255), oneof([$a, 16#e9, 16#6f22, 16#1f600])},
                list_to_atom(lists:duplicate(N, Char)))]).

%% A binary of more than 64 bytes, which does not lie on a process's heap.
long_binary() -> ?LET(N, range(60, 1000), binary(N)).

part() ->
    ?LET(Whole, long_binary(),
         ?LET({From, Length}, {range(0, 30), range(0, 30)}, binary:part(Whole, From, Length))).

%% Bits at any offset of a longer bit string.
bits_within() ->
    ?LET({Whole, Offset, Length}, {long_binary(), range(0, 70), range(0, 400)},
         begin
             <<_:Offset, Bits:Length/bits, _/bits>> = Whole,
             Bits
         end).

text() -> list(oneof([range(32, 126), range(160, 16#d7ff), range(16#e000, 16#10ffff)])).

%%% Results

table(Module) ->
    There = ask({results, Module}),
    Here = Module:results(),
    io:format("~ts: ~b results~n", [Module, length(Here)]),
    agree("names of results", [Name || {Name, _} <- Here], [Name || {Name, _} <- There])
        ++ lists:append([agree([atom_to_list(Module), ": ", atom_to_list(Name)], Value,
                               proplists:get_value(Name, There)) || {Name, Value} <- Here]).

%% Returns the faults: the places where two terms first differ.
agree(_, Same, Same) -> [];
agree(What, Here, There) ->
    {Path, A, B} = difference(Here, There, []),
    [io_lib:format("~ts differs at ~0p: ~0tP here, ~0tP there",
                   [What, lists:reverse(Path), A, 30, B, 30])].

difference([Same | A], [Same | B], [N | Path]) when is_integer(N) ->
    difference(A, B, [N + 1 | Path]);
difference([A | _], [B | _], [N | Path]) when is_integer(N) ->
    deeper(A, B, [N | Path]);
difference(A, B, Path) ->
    deeper(A, B, Path).

deeper([_ | _] = A, [_ | _] = B, Path) -> difference(A, B, [1 | Path]);
deeper(A, B, Path) when is_tuple(A), is_tuple(B), tuple_size(A) =:= tuple_size(B) ->
    difference(tuple_to_list(A), tuple_to_list(B), [1 | Path]);
deeper(A, B, Path) when is_map(A), is_map(B) ->
    case [{K, V, map_get(K, B)} || {K, V} <- maps:to_list(A), is_map_key(K, B),
                                   V =/= map_get(K, B)] of
        [{Key, V, W} | _] -> deeper(V, W, [{key, Key} | Path]);
        [] -> {Path, A, B}
    end;
deeper(A, B, Path) -> {Path, A, B}.
