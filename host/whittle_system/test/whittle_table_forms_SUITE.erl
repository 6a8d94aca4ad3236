%% Tests that a function keeps its meaning when its clauses become a table.
-module(whittle_table_forms_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, same/1, many_values/1, shapes/1, left/1]).

all() -> [same, many_values, shapes, left].

%% Random functions: integers and ranges that overlap, few or many values, calls, and each kind of
%% last clause
same(_) ->
    check(?FORALL({Clauses, Last}, {clauses(value()), last()}, is_same(Clauses, Last))).

%% More values than a byte can name
many_values(_) ->
    Clauses = [[one(Key), " -> ", term({Key, [Key rem 7]})]
               || Key <- lists:seq(600, 20000)] ++ [[between(21000, 22000), " -> same"]],
    {changed, _, _} = rewritten(Clauses, "f(_) -> none"),
    true = is_same(Clauses, "f(_) -> none").

%% Large values that differ in their integers only
shapes(_) ->
    Value = fun(Key) ->
                    {Key rem 5, [{Key, Key + 1}, {Key * 2, 'an atom'}], "text", [], <<"b">>}
            end,
    Clauses = [[one(Key), " -> ", term(Value(Key))] || Key <- lists:seq(1000, 9000, 11)]
        ++ [[one(Key), " -> ", term({Key, -1, 1 bsl 40, [Key | tail], {Key, Key}})]
            || Key <- lists:seq(20000, 20100)],
    true = is_same(Clauses, "f(X) -> {X}").

%% Functions that this cannot show to keep their meaning stay as they are.
left(_) ->
    Plain = [[one(Key), " -> a"] || Key <- lists:seq(1000, 1100)],
    {changed, _, [{f, 1}]} = rewritten(Plain, "f(_) -> b"),
    [?assertEqual({Clauses, unchanged}, {Clauses, rewritten(Clauses, Last)})
     || {Clauses, Last} <-
            [{lists:sublist(Plain, 10), "f(_) -> b"},           % few
             {Plain, "f(1101) -> b"},                            % no clause for everything
             {Plain, "f(X) when X > 1100 -> b"},
             {["f(a) -> b" | Plain], "f(_) -> b"},
             {["f(-1) -> b" | Plain], "f(_) -> b"},
             {["f(1 bsl 40) -> b" | Plain], "f(_) -> b"},
             {["f(X) when X > 1100 -> X" | Plain], "f(_) -> b"},
             %% 5.5 is in this range, and no integer.
             {["f(X) when 5 =< X, X =< 6 -> b" | Plain], "f(_) -> c"},
             {["f(7) -> self()" | Plain], "f(_) -> b"},
             {["f(7) -> 0.0" | Plain], "f(_) -> b"},
             {["f(7) -> g(8)" | Plain], "f(_) -> b"}]].

%% Internal functions

clauses(Value) ->
    ?LET(Step, integer(100, 600),
         ?LET(Clauses, vector(90, {integer(0, 40), integer(0, 9), Value}),
              [case Kind of
                   N when N < 7 -> [one(Key * Step), " -> ", term(Constant)];
                   8 -> [between(Key * Step, Key * Step + 70), " -> g(X)"];
                   _ -> [between(Key * Step, Key * Step + 100), " -> ", term(Constant)]
               end || {Key, Kind, Constant} <- Clauses])).

value() ->
    oneof([integer(0, 3), {integer(), [atom]}, oneof([a, b, {c, "d"}]), binary(3),
           {integer(0, 1 bsl 25), [{integer(0, 3), integer(0, 99)}], [], {letter, other}}]).

last() -> oneof(["f(_) -> none", "f(X) -> {X, X}", "f(Y) -> g(Y)", "f(_) -> 0"]).

one(Key) -> io_lib:format("f(~b)", [Key]).

between(Low, High) ->
    %% OTP 25 and 27 know no is_integer/3.
    io_lib:format("f(X) when is_integer(X), ~b =< X, X =< ~b", [Low, High]).

term(Term) -> io_lib:format("~0p", [Term]).

is_same(Clauses, Last) ->
    Forms = forms(Clauses, Last),
    {changed, New, [{f, 1}]} = whittle_table_forms:rewrite(Forms),
    Arguments = lists:seq(-2, 25_000, 1) ++ [1 bsl 21, 1 bsl 70, 0.0, 5.5, 64.0, a, [], "x", {1}],
    [Before, After] = [results(Each, Arguments) || Each <- [Forms, New]],
    Before =:= After orelse
        [Different || {_, Same, Same2} = Different <- lists:zip3(Arguments, Before, After),
                      Same =/= Same2].

rewritten(Clauses, Last) -> whittle_table_forms:rewrite(forms(Clauses, Last)).

forms(Clauses, Last) ->
    Texts = ["-module(whittle_table_forms_try).", "-export([f/1]).", "g(X) -> {g, X}.",
             [lists:join(";\n", Clauses ++ [Last]), "."]],
    [begin
         {ok, Tokens, _} = erl_scan:string(lists:flatten(Text)),
         {ok, Form} = erl_parse:parse_form(Tokens),
         Form
     end || Text <- Texts].

results(Forms, Arguments) ->
    {ok, Module, Code} = compile:forms(Forms, [nowarn_unused_function]),
    {module, Module} = code:load_binary(Module, "", Code),
    Results = [Module:f(Argument) || Argument <- Arguments],
    true = code:delete(Module),
    _ = code:purge(Module),
    Results.

check(Property) ->
    Quiet = fun(_, _) -> ok end,
    case proper:quickcheck(Property, [{numtests, 60}, {on_output, Quiet}]) of
        true -> ok;
        Other -> error({property, Other, proper:counterexample()})
    end.
