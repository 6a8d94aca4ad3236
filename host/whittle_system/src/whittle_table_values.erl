%% @hidden Writes expressions that read one of many constants.
%%
%% Large values that differ only in their integers share one expression that makes them. Such a
%% value is two numbers: which expression, and where its integers begin in a binary. Each integer
%% has three bytes. This takes a small part of the memory of the values.
-module(whittle_table_values).

-export([is_plain/1, read/3, element_of/3, call/4]).

%% A smaller value takes no more memory than its numbers.
-define(LARGE_WORDS, 8).
-define(FEWEST_ALIKE, 4).
-define(MOST_SHAPES, 255).
-define(LARGEST_HOLE, (1 bsl 24 - 1)).

-type expression() :: erl_parse:abstract_expr().

%% @doc Tells whether a value can be compared and copied as a form. A float may have the sign of a
%% zero, which releases of OTP compare in different ways.
-spec is_plain(term()) -> boolean().
is_plain([Head | Tail]) -> is_plain(Head) andalso is_plain(Tail);
is_plain(Tuple) when is_tuple(Tuple) -> lists:all(fun is_plain/1, tuple_to_list(Tuple));
is_plain(Term) -> is_atom(Term) orelse is_integer(Term) orelse is_binary(Term) orelse Term =:= [].

%% @doc Returns an expression that has the value of a place; the first is 1.
-spec read(erl_anno:anno(), Place :: expression(), [term()]) -> expression().
read(Anno, Place, Terms) ->
    Split = split(Anno, Terms),
    case shapes(Split) of
        [] -> element_of(Anno, Place, Terms);
        Shapes ->
            {Stored, Integers} = packed(Split, Shapes),
            unpacked(Anno, element_of(Anno, Place, Stored), Integers, Shapes)
    end.

%% @doc Returns an expression that reads an element of a constant tuple.
-spec element_of(erl_anno:anno(), Place :: expression(), [term()]) -> expression().
element_of(Anno, Place, List) ->
    call(Anno, erlang, element, [Place, {tuple, Anno, [literal(Anno, Term) || Term <- List]}]).

%% @doc Returns a call of a function of another module.
-spec call(erl_anno:anno(), module(), atom(), [expression()]) -> expression().
call(Anno, Module, Function, Arguments) ->
    {call, Anno, {remote, Anno, {atom, Anno, Module}, {atom, Anno, Function}}, Arguments}.

%% Internal functions

literal(Anno, Bytes) when is_binary(Bytes) ->
    {bin, Anno, [{bin_element, Anno, {string, Anno, binary_to_list(Bytes)}, default, default}]};
literal(Anno, Term) -> erl_parse:abstract(Term, Anno).

%% Returns each value with its shape and its integers. An integer among the values would look like
%% the place of such a value, so there is no shape then.
split(Anno, Terms) ->
    case lists:any(fun is_integer/1, Terms) of
        true -> [];
        false -> [{Term, shape(Anno, Term)} || Term <- Terms]
    end.

%% Lists the expressions that make several large values from their integers, the most frequent
%% first.
shapes(Split) ->
    Alike = maps:groups_from_list(fun(Shape) -> Shape end,
                                  [Shape || {_, {Shape, [_ | _]}} <- Split]),
    Ordered = lists:sort([{-Count, Shape} || {Shape, Group} <- maps:to_list(Alike),
                                             Count <- [length(Group)], Count >= ?FEWEST_ALIKE]),
    [Shape || {_, Shape} <- lists:sublist(Ordered, ?MOST_SHAPES)].

%% Returns the expression that makes a value, with a variable for each integer, and the integers. A
%% small value has none.
shape(Anno, Term) ->
    case words(Term) > ?LARGE_WORDS of
        true ->
            {Shape, Integers} = shape(Anno, Term, []),
            {Shape, lists:reverse(Integers)};
        false -> {Term, []}
    end.

%% The same on each machine, unlike `erts_debug:flat_size/1'
words([Head | Tail]) -> 2 + words(Head) + words(Tail);
words(Tuple) when is_tuple(Tuple) ->
    1 + tuple_size(Tuple) + lists:sum([words(Element) || Element <- tuple_to_list(Tuple)]);
words(Binary) when is_binary(Binary) -> 2 + byte_size(Binary) div 8;
words(_) -> 0.

shape(Anno, N, Before) when is_integer(N), 0 =< N, N =< ?LARGEST_HOLE ->
    {hole(Anno, length(Before) + 1), [N | Before]};
shape(Anno, Tuple, Before) when is_tuple(Tuple) ->
    {Elements, After} = lists:mapfoldl(fun(Term, Now) -> shape(Anno, Term, Now) end, Before,
                                       tuple_to_list(Tuple)),
    {{tuple, Anno, Elements}, After};
shape(Anno, [Head | Tail], Before) ->
    {First, Now} = shape(Anno, Head, Before),
    {Rest, After} = shape(Anno, Tail, Now),
    {{cons, Anno, First, Rest}, After};
shape(Anno, Term, Before) ->
    {erl_parse:abstract(Term, Anno), Before}.

hole(Anno, N) -> {var, Anno, list_to_atom("_ Integer" ++ integer_to_list(N))}.

%% Replaces a value by the place of its integers and the number of its shape.
packed(Split, Shapes) ->
    Numbers = maps:from_list([{Shape, N} || {N, Shape} <- lists:enumerate(0, Shapes)]),
    lists:mapfoldl(fun({Term, {Shape, Integers}}, Before) ->
                           case Numbers of
                               #{Shape := N} when Integers =/= [] ->
                                   Bytes = << <<I:24>> || I <- Integers >>,
                                   {byte_size(Before) bsl 8 bor N, <<Before/binary, Bytes/binary>>};
                               #{} -> {Term, Before}
                           end
                   end, <<>>, Split).

unpacked(Anno, Element, Integers, Shapes) ->
    Term = {var, Anno, '_ Term'},
    Binary = literal(Anno, Integers),
    Part = fun(Value, Size, Type) -> {bin_element, Anno, Value, Size, Type} end,
    Op = fun(Name, N) -> {op, Anno, Name, Term, {integer, Anno, N}} end,
    From = {var, Anno, '_ From'},
    Skipped = Part({var, Anno, '_'}, {var, Anno, '_ Skip'}, [binary]),
    Rest = Part({var, Anno, '_'}, default, [binary]),
    Clauses = [{clause, Anno, [{integer, Anno, N}], [],
                [{match, Anno,
                  {bin, Anno, [Part(hole(Anno, I), {integer, Anno, 24}, default)
                               || I <- lists:seq(1, holes(Shape))] ++ [Rest]},
                  From},
                 Shape]}
               || {N, Shape} <- lists:enumerate(0, Shapes)],
    {'case', Anno, Element,
     [{clause, Anno, [Term], [[{call, Anno, {atom, Anno, is_integer}, [Term]}]],
       [{match, Anno, {var, Anno, '_ Skip'}, Op('bsr', 8)},
        {match, Anno, {bin, Anno, [Skipped, Part(From, default, [binary])]}, Binary},
        {'case', Anno, Op('band', 255), Clauses}]},
      {clause, Anno, [Term], [], [Term]}]}.

holes({var, _, _}) -> 1;
holes({tuple, _, Elements}) -> lists:sum([holes(Element) || Element <- Elements]);
holes({cons, _, Head, Tail}) -> holes(Head) + holes(Tail);
holes(_) -> 0.
