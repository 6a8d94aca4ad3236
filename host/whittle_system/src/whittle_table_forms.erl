%% @hidden Turns functions that are tables into data.
%%
%% Some modules have functions with thousands of clauses, each of which maps an integer, or a range
%% of integers, to a constant. `unicode_util' is a fourteenth of kernel and stdlib for this reason.
%% The compiler makes instructions of each clause. This module makes a two-stage table instead, as
%% the Unicode Standard describes it for properties of characters (section 5.1). The upper bits of
%% the integer choose a page, and its other bits a byte of the page, which is the number of the
%% value. Equal pages are there once. A page with the same value everywhere needs no bytes.
%%
%% A function keeps its meaning for each argument, also for one that is no integer. It stays as it
%% is if this cannot be shown: each clause but the last must match one integer, or a range of
%% integers that its guard checks to be integers, and return a constant, or call another function of
%% the module with the integer; the last one must match everything. The new variables have a space
%% in their names, so no variable of a source has such a name.
-module(whittle_table_forms).

-export([rewrite/1]).

-import(whittle_table_values, [element_of/3, call/4]).

%% A function with fewer clauses, besides the fast ones, is small as it is.
-define(FEWEST, 40).
%% Larger integers would need a large index. Characters are smaller.
-define(LARGEST, (1 bsl 21 - 1)).
%% Latin letters and their marks stay clauses, which are faster.
-define(FAST, [{0, 16#24f}, {16#300, 16#36f}, {16#1e00, 16#1eff}]).
-define(FIRST, 16#250).
%% Possible sizes of a page, as bits of the integer
-define(BITS, [5, 6, 7, 9]).
-define(WORD_BYTES, 8).
%% Numbers of values that a byte can hold beside 0, which means none
-define(BYTE, 255).

-type form() :: erl_parse:abstract_form() | erl_parse:form_info().
-type value() :: {constant, term()} | {call, Function :: atom()}.
-type entry() :: {Low :: non_neg_integer(), High :: non_neg_integer(), value()}.

%% The index has the place of a page, or the place of a value as a negative number. A page has bytes
%% and a base. A byte and the base are the place of a value; the byte 0 means that there is none.
-type table() :: #{bits := pos_integer(), index := [integer()],
                   pages := [{binary(), Base :: non_neg_integer()}], values := [value()]}.

%% @doc Rewrites the functions that are tables, and returns their names. The result is `unchanged'
%% if there is none.
-spec rewrite([form()]) -> {changed, [form()], [{atom(), arity()}]} | unchanged.
rewrite(Forms) ->
    Rewritten = [{Form, rewritten(Form)} || Form <- Forms],
    case [{Name, 1} || {{function, _, Name, 1, _}, {ok, _}} <- Rewritten] of
        [] -> unchanged;
        Names ->
            {changed, [case Result of {ok, New} -> New; none -> Form end
                       || {Form, Result} <- Rewritten], Names}
    end.

%% Internal functions: recognition

rewritten({function, Anno, Name, 1, Clauses}) when length(Clauses) > ?FEWEST ->
    Last = lists:last(Clauses),
    case {entries(lists:droplast(Clauses), []), default(Last)} of
        {[_ | _] = Entries, {Var, Body}} ->
            case is_worth(Entries) of
                true ->
                    {ok, {function, Anno, Name, 1, clauses(Anno, Entries, Var, Body) ++ [Last]}};
                false -> none
            end;
        _ -> none
    end;
rewritten(_) -> none.

%% The time of the build depends on the sum of all ranges.
is_worth(Entries) ->
    length([High || {_, High, _} <- Entries, High >= ?FIRST]) >= ?FEWEST
        andalso lists:sum([High - Low || {Low, High, _} <- Entries]) =< 4 * ?LARGEST.

default({clause, _, [{var, _, '_'}], [], Body}) -> {'_ Key', Body};
default({clause, _, [{var, _, Var}], [], Body}) -> {Var, Body};
default(_) -> none.

%% The entries in the order of the clauses, or none if a clause is no entry
-spec entries([tuple()], [entry()]) -> [entry()] | none.
entries([{clause, _, [Pattern], Guards, [Body]} | Clauses], Entries) ->
    case {range(Pattern, Guards), value(Pattern, Body)} of
        {{Low, High}, {_, _} = Value} when 0 =< Low, Low =< High, High =< ?LARGEST ->
            entries(Clauses, [{Low, High, Value} | Entries]);
        _ -> none
    end;
entries([], Entries) -> lists:reverse(Entries);
entries(_, _) -> none.

range({Kind, _, Value}, []) when Kind =:= integer; Kind =:= char -> {Value, Value};
range({var, _, Var}, [[{call, _, {atom, _, is_integer}, [{var, _, Var}, Low, High]}]]) ->
    bounds(Low, High);
range({var, _, Var}, [[{call, _, {atom, _, is_integer}, [{var, _, Var}]},
                       {op, _, '=<', Low, {var, _, Var}}, {op, _, '=<', {var, _, Var}, High}]]) ->
    bounds(Low, High);
range(_, _) -> none.

bounds({_, _, Low}, {_, _, High}) when is_integer(Low), is_integer(High) -> {Low, High};
bounds(_, _) -> none.

value({var, _, Var}, {call, _, {atom, _, Function}, [{var, _, Var}]}) -> {call, Function};
value(_, Body) ->
    try erl_parse:normalise(Body) of
        Value ->
            case whittle_table_values:is_plain(Value) of
                true -> {constant, Value};
                false -> none
            end
    catch error:_ -> none
    end.

%% Internal functions: the table

%% Makes the smallest table. The numbers of the values of all integers have three bytes each.
-spec table(Numbers :: binary(), [value()]) -> table().
table(Numbers, Values) ->
    Tables = [paged(cut(Numbers, 3 bsl Bits), Bits, Values)
              || Bits <- ?BITS, length(Values) =< ?BYTE orelse 1 bsl Bits =< ?BYTE],
    {_, Smallest} = hd(lists:sort([{size_of(Table), Table} || Table <- Tables])),
    Smallest.

cut(Numbers, Size) ->
    case Numbers of
        <<Page:Size/binary, Rest/binary>> -> [Page | cut(Rest, Size)];
        <<>> -> [];
        Last -> [<<Last/binary, 0:(Size - byte_size(Last))/unit:8>>]
    end.

size_of(#{index := Index, pages := Pages, values := Values}) ->
    ?WORD_BYTES * (length(Index) + length(Values) + length(Pages))
        + lists:sum([byte_size(Bytes) || {Bytes, _} <- Pages]).

paged(Pages, Bits, Values) ->
    {Uniform, Mixed} = lists:partition(fun is_uniform/1, lists:uniq(Pages)),
    {Made, Places} = mixed(Mixed, length(Values)),
    Numbers = Places ++ ([N || <<N:24, _/binary>> <- Uniform] -- [0 | Places]),
    Place = maps:from_list([{Page, P} || {P, Page} <- lists:enumerate(Mixed)]),
    %% One of the places that have the value
    Same = maps:from_list([{N, -P} || {P, N} <- lists:enumerate(Numbers)]),
    Found = list_to_tuple(Values),
    #{bits => Bits, pages => Made,
      index => [case Place of
                    #{Page := P} -> P;
                    #{} -> maps:get(binary:decode_unsigned(binary:part(Page, 0, 3)), Same, 0)
                end || Page <- Pages],
      values => [element(N, Found) || N <- Numbers]}.

is_uniform(<<First:3/binary, _/binary>> = Page) ->
    Page =:= binary:copy(First, byte_size(Page) div 3).

%% Returns the pages, and the numbers of the values in their places. If there are more values than a
%% byte can name, each page has places of its own, and no more of them than that.
mixed(Pages, Count) when Count =< ?BYTE ->
    {[{<< <<N>> || <<N:24>> <= Page >>, 0} || Page <- Pages], lists:seq(1, Count)};
mixed(Pages, _) ->
    {Made, {_, Places}} = lists:mapfoldl(fun own/2, {0, []}, Pages),
    {Made, lists:append(lists:reverse(Places))}.

own(Page, {Base, Places}) ->
    Numbers = lists:uniq([N || <<N:24>> <= Page, N > 0]),
    Own = maps:from_list([{0, 0} | [{N, P} || {P, N} <- lists:enumerate(Numbers)]]),
    {{<< <<(map_get(N, Own))>> || <<N:24>> <= Page >>, Base},
     {Base + length(Numbers), [Numbers | Places]}}.

%% Internal functions: the clauses

%% The fast clauses, and one that reads the table
clauses(Anno, Entries, Var, Body) ->
    Most = lists:max([High || {_, High, _} <- Entries]),
    %% Neighbors have similar values. In this order they compress better.
    Values = lists:uniq([Value || {_, _, Value} <- lists:sort(Entries)]),
    Named = maps:from_list([{Value, N} || {N, Value} <- lists:enumerate(Values)]),
    Painted = painted(Entries, Named, Most),
    Found = list_to_tuple(Values),
    Fast = [{clause, Anno, [Integer], [], [returned(Anno, element(N, Found), Integer)]}
            || {Low, High} <- ?FAST, Low =< Most, I <- lists:seq(Low, min(High, Most)),
               N <- [atomics:exchange(Painted, I + 1, 0)], N > 0, Integer <- [{integer, Anno, I}]],
    Numbers = << <<(atomics:get(Painted, I)):24>> || I <- lists:seq(1, Most + 1) >>,
    Key = {var, Anno, Var},
    Fast ++ [{clause, Anno, [Key], guard(Anno, Key, 0, ?FIRST - 1), Body},
             {clause, Anno, [Key], guard(Anno, Key, ?FIRST, Most),
              [read(Anno, Key, table(Numbers, Values), Body)]}].

%% Gives each integer the number of its value, or 0. The first clause that matches counts.
painted(Entries, Numbers, Most) ->
    Painted = atomics:new(Most + 1, []),
    _ = [atomics:put(Painted, I + 1, map_get(Value, Numbers))
         || {Low, High, Value} <- lists:reverse(Entries), I <- lists:seq(Low, High)],
    Painted.

guard(Anno, Key, Low, High) ->
    [[{call, Anno, {atom, Anno, is_integer}, [Key]},
      {op, Anno, '=<', {integer, Anno, Low}, Key},
      {op, Anno, '=<', Key, {integer, Anno, High}}]].

returned(Anno, {call, Function}, Key) -> {call, Anno, {atom, Anno, Function}, [Key]};
returned(Anno, {_, Value}, _) -> erl_parse:abstract(Value, Anno).

%% An expression that finds the place of the value, and returns the value
read(Anno, Key, #{bits := Bits, index := Index, pages := Pages, values := Values}, Body) ->
    Integer = fun(N) -> {integer, Anno, N} end,
    Op = fun(Name, Left, Right) -> {op, Anno, Name, Left, Right} end,
    Case = fun(Value, Clauses) -> {'case', Anno, Value, Clauses} end,
    Clause = fun(Pattern, Guard, Result) -> {clause, Anno, [Pattern], Guard, Result} end,
    {Page, Byte, Place} = {{var, Anno, '_ Page'}, {var, Anno, '_ Byte'}, {var, Anno, '_ Place'}},
    {Bytes, Bases} = lists:unzip(Pages),
    In = call(Anno, binary, at, [element_of(Anno, Page, Bytes),
                                 Op('band', Key, Integer(1 bsl Bits - 1))]),
    InPage = case lists:usort(Bases) of
                 [0] -> In;
                 _ -> Case(In, [Clause(Integer(0), [], [Integer(0)]),
                                Clause(Byte, [], [Op('+', Byte, element_of(Anno, Page, Bases))])])
             end,
    Found = Case(element_of(Anno, Op('+', Op('bsr', Key, Integer(Bits)), Integer(1)), Index),
                 [Clause(Page, [[Op('>', Page, Integer(0))]], [InPage]),
                  Clause(Page, [], [{op, Anno, '-', Page}])]),
    Case(Found,
         [Clause(Integer(0), [], Body)]
         ++ [Clause(Integer(P), [], [returned(Anno, Value, Key)])
             || {P, {call, _} = Value} <- lists:enumerate(Values)]
         %% A call has a place too, which nobody reads.
         ++ [Clause(Place, [], [whittle_table_values:read(Anno, Place,
                                                          [Value || {_, Value} <- Values])])]).
