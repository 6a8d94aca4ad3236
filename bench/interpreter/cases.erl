%% Runs small programs, each busy in another part of the VM. It prints the time of each in
%% microseconds, the best of three in this process.
-module(cases).

-export([main/0]).

-spec main() -> no_return().
main() ->
    lists:foreach(
      fun({Name, Case}) ->
              Best = lists:min([element(1, timer:tc(Case)) || _ <- lists:seq(1, 3)]),
              io:format("~s ~b~n", [Name, Best])
      end, cases()),
    halt().

cases() ->
    [{calls, fun() -> fib(27) end},
     {sort, fun() -> lists:sort(numbers(150000, 7, [])) end},
     {maps, fun() -> count(250000, #{}) end},
     {match_binary, fun() -> equals(binary:copy(<<"key=value;">>, 60000), 0) end},
     {build_binary, fun() -> build(500000, <<>>) end},
     {trees, fun() -> tree(25000, gb_trees:empty()) end},
     {messages, fun() -> ring(100, 1500) end},
     {tables, fun() -> table(80000) end},
     {external, fun() -> external(20000) end},
     {floats, fun() -> floats(400000, 0.0) end},
     {garbage, fun() -> garbage(60, []) end},
     {evaluator, fun evaluate/0}].

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

numbers(0, _, Acc) -> Acc;
numbers(N, Seed, Acc) ->
    Next = (Seed * 1103515245 + 12345) band 16#7fffffff,
    numbers(N - 1, Next, [Next | Acc]).

count(0, Map) -> Map;
count(N, Map) -> count(N - 1, Map#{N rem 5000 => N}).

equals(<<$=, Rest/binary>>, N) -> equals(Rest, N + 1);
equals(<<_, Rest/binary>>, N) -> equals(Rest, N);
equals(<<>>, N) -> N.

build(0, Acc) -> Acc;
build(N, Acc) -> build(N - 1, <<Acc/binary, (N band 255):8, N:16>>).

tree(0, Tree) -> Tree;
tree(N, Tree) -> tree(N - 1, gb_trees:enter(erlang:phash2(N), N, Tree)).

%% Sends one message around a ring of processes, Rounds times.
ring(Processes, Rounds) ->
    First = lists:foldl(fun(_, Next) -> spawn(fun() -> hand_on(Next) end) end, self(),
                        lists:seq(1, Processes)),
    [begin First ! {N, token}, receive {N, token} -> ok end end || N <- lists:seq(1, Rounds)],
    First ! stop,
    receive stop -> ok end.

hand_on(Next) ->
    receive
        stop -> Next ! stop;
        Message -> Next ! Message, hand_on(Next)
    end.

table(N) ->
    Table = ets:new(table, []),
    [ets:insert(Table, {I, I, {a, b}}) || I <- lists:seq(1, N)],
    [_ = ets:lookup(Table, I) || I <- lists:seq(1, N)],
    ets:delete(Table).

external(N) ->
    Terms = [{I, atom, <<"bin">>, "str", #{a => I}} || I <- lists:seq(1, N)],
    binary_to_term(term_to_binary(Terms)).

floats(0, Acc) -> Acc;
floats(N, Acc) -> floats(N - 1, Acc * 0.999 + N / 3.0).

garbage(0, Kept) -> length(Kept);
garbage(N, Kept) ->
    garbage(N - 1, lists:sublist([[{I, [I]} || I <- lists:seq(1, 8000)] | Kept], 20)).

evaluate() ->
    {ok, Tokens, _} = erl_scan:string("lists:foldl(fun(X, A) -> X * 2 + A end, 0,"
                                      " lists:seq(1, 20000))."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    {value, _, _} = erl_eval:exprs(Exprs, []).
