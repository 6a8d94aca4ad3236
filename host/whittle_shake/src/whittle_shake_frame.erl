%% @doc Values in registers and in structures, where a function is read: what an operand
%% is, what is built of values, what is read out of them.
-module(whittle_shake_frame).

%% Where it is
-export([numbered/1, counted/1, id/2]).
%% Registers and operands
-export([held/2, set/3, class/2, part_of/2, tokens/2, value/3, values/3, number/1, literal/2]).
%% What is built
-export([fresh/3, arg/2, cons/3, tuple/3, built/3, any_tuple/2, partly/5, changed/6, updates/3,
         entries/3]).
%% What is read
-export([split/3, field/4, get/4, deep/2, got/6, entry/3, tag/1]).
%% What leaves
-export([write/3, write_tokens/3]).

-export_type([at/0, run/0, operand/0]).

-include("whittle_shake_frame.hrl").

-type at() :: #at{}.
-type run() :: #run{}.
-type operand() :: whittle_beam_module:operand().
-type value() :: whittle_shake_value:t().
-type tokens() :: [whittle_shake_value:token()].

%% Longer lists are nobody's arguments.
-define(LONGEST, 16).

%% @doc At the next instruction. Sites are numbered by its place, the same in each pass.
-spec numbered(run()) -> run().
numbered(#run{number = Number} = Run) -> Run#run{number = Number + 1, count = 0}.

%% @doc The number of one more site at this instruction.
-spec counted(run()) -> {whittle_shake_value:site(), run()}.
counted(#run{number = Number, count = Count} = Run) ->
    {{Number, Count}, Run#run{count = Count + 1}}.

%% Registers

%% @doc Which element of which tuple a register holds.
-spec part_of(operand(), at()) -> none | {whittle_shake_value:id(), non_neg_integer()}.
part_of(Register, At) -> whittle_shake_value:part_of(held(Register, At)).

%% @doc What a register holds.
-spec held(operand(), at()) -> value().
held({tr, Register, _}, At) -> held(Register, At);
held(Register, #at{regs = Regs}) -> maps:get(Register, Regs, whittle_shake_value:none()).

%% @doc What is known of the tuple in a register.
-spec class(operand(), at()) -> whittle_shake_value:class().
class(Register, At) -> class_of(whittle_shake_value:id(held(Register, At)), At).

class_of(none, _) -> {any, any};
class_of(Id, #at{known = Known}) -> maps:get(Id, Known, {any, any}).

%% Structures

%% @doc The first element of a list, and its others.
-spec split(operand(), at(), run()) -> {Head :: value(), Tail :: value()}.
split({literal, _} = Literal, At, Run) ->
    {Value, _} = value(Literal, At, Run),
    split_value(Value, Run);
split(Register, At, Run) -> split_value(held(Register, At), Run).

split_value(Value, Run) ->
    case whittle_shake_value:elements(Value) of
        [Head | Tail] -> {Head, whittle_shake_value:list(Tail, id(1, Run))};
        _ ->
            Tokens = whittle_shake_value:tokens(Value),
            {fresh(Tokens, 0, Run), fresh(Tokens, 1, Run)}
    end.

%% @doc A list with one more element.
-spec cons(Head :: value(), Tail :: value(), run()) -> value().
cons(Head, Tail, Run) ->
    case whittle_shake_value:elements(Tail) of
        Elements when is_list(Elements), length(Elements) < ?LONGEST ->
            whittle_shake_value:list([Head | Elements], id(0, Run));
        _ ->
            fresh(ordsets:union(whittle_shake_value:tokens(Head),
                                whittle_shake_value:tokens(Tail)), 0, Run)
    end.

%% @doc The element of a tuple, counted from 0.
-spec field(operand(), Index :: non_neg_integer(), at(), run()) -> {value(), run()}.
field({literal, Term}, Index, _, Run) -> literal(element(Index + 1, binary_to_term(Term)), Run);
field(From, Index, At, Run) ->
    Tuple = held(From, At),
    case {whittle_shake_value:fields(Tuple), class(From, At)} of
        {Fields, _} when is_list(Fields), Index < length(Fields) ->
            {lists:nth(Index + 1, Fields), Run};
        {_, {{tag, Tag}, _}} when Index =:= 0 ->
            {whittle_shake_value:part([{atom, Tag}], id(Index, Run), Tuple, Index), Run};
        {_, Class} ->
            {Tokens, Run1} = get(whittle_shake_value:tokens(Tuple), Class, Index, Run),
            {whittle_shake_value:part(Tokens, id(Index, Run), Tuple, Index), Run1}
    end.

%% @doc What such an element of one of these tuples may be.
-spec get(tokens(), whittle_shake_value:class(), Index :: non_neg_integer() | any, run()) ->
          {tokens(), run()}.
get([], _, _, Run) -> {[], Run};
get(Tuple, Class, Index, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    {[{site, Id}], Run1#run{sites = [{get, Id, Tuple, Class, Index} | Sites]}}.

%% @doc All that is in there, at any depth: what is read is read from again.
-spec deep(tokens(), run()) -> {tokens(), run()}.
deep([], Run) -> {[], Run};
deep(Tokens, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    All = ordsets:add_element({site, Id}, Tokens),
    {All, Run1#run{sites = [{get, Id, All, {any, any}, any} | Sites]}}.

%% @doc A tuple, and what is known of it.
-spec tuple([value()], at(), run()) -> {value(), at(), run()}.
tuple(Values, #at{known = Known} = At, Run) ->
    Id = id(0, Run),
    {Tokens, Run1} = built(Values, At, Run),
    {whittle_shake_value:tuple(Tokens, Values, Id), At#at{known = Known#{Id => made(Values)}},
     Run1}.

made([]) -> {any, 0};
made([First | _] = Values) ->
    case whittle_shake_value:constant(First) of
        {atom, Atom} -> {{tag, Atom}, length(Values)};
        none -> {any, length(Values)}
    end.

%% @doc A tuple of these elements, as tokens.
-spec built([value()], at(), run()) -> {tokens(), run()}.
built(Values, At, Run) -> built_on([], [arg(Value, At) || Value <- Values], Run).

built_on(Rest, Args, Run) ->
    case lists:all(fun({[_ | _], _, _}) -> false; (_) -> true end, Args) of
        true -> {[], Run};
        false -> add_tuple(Args, Rest, Run)
    end.

add_tuple(Elements, Rest, Run) ->
    {Id, #run{tuples = Tuples} = Run1} = counted(Run),
    {[{tuple, Id}], Run1#run{tuples = [{Id, Elements, Rest} | Tuples]}}.

%% @doc A tuple of which any element may be one of these.
-spec any_tuple(tokens(), run()) -> {tokens(), run()}.
any_tuple([], Run) -> {[], Run};
any_tuple(Tokens, Run) -> add_tuple({any, {Tokens, none, none}}, [], Run).

%% @doc The same tuple with other elements here and there.
-spec partly(value(), whittle_shake_value:class(), [value()], at(), run()) ->
          {value(), at(), run()}.
partly(Tuple, Class, Elements, #at{known = Known} = At, Run) ->
    Rest = whittle_shake_value:tokens(Tuple),
    Args = [arg(Value, At) || Value <- Elements],
    {Tokens, Run1} = built_on(Rest, with_tag(Class, Args), Run),
    {fresh(ordsets:union(Rest, Tokens), 0, Run), At#at{known = Known#{id(0, Run) => Class}}, Run1}.

with_tag({{tag, Tag}, _}, [none | Args]) -> [{[{atom, Tag}], none, none} | Args];
with_tag(_, Args) -> Args.

%% @doc The same tuple with another element there.
-spec changed(value(), whittle_shake_value:class(), Index :: non_neg_integer() | any, value(),
              at(), run()) -> {value(), at(), run()}.
changed(Tuple, {Tag, {Size, _}}, Index, Value, At, Run) ->
    changed(Tuple, {Tag, Size}, Index, Value, At, Run);
changed(Tuple, {_, Size} = Class, Index, Value, At, Run) when is_integer(Size), Index < Size ->
    Elements = [case I of Index -> Value; _ -> whittle_shake_value:none() end
                || I <- lists:seq(0, Size - 1)],
    partly(Tuple, Class, Elements, At, Run);
changed(Tuple, _, _, Value, At, Run) ->
    Rest = whittle_shake_value:tokens(Tuple),
    {Tokens, Run1} = case whittle_shake_value:tokens(Value) of
                         [] -> {[], Run};
                         New -> add_tuple({any, {New, none, none}}, Rest, Run)
                     end,
    {fresh(ordsets:union(Rest, Tokens), 0, Run), At, Run1}.

%% @doc The values of updates of a record, by place from 1.
-spec updates([operand()], at(), run()) -> {#{non_neg_integer() => value()}, run()}.
updates([Index, Operand | Updates], At, Run) ->
    {Value, Run1} = value(Operand, At, Run),
    {New, Run2} = updates(Updates, At, Run1),
    {New#{number(Index) => Value}, Run2};
updates([], _, Run) ->
    {#{}, Run}.

%% @doc A map's entries, which are tuples of key and value.
-spec entries([operand()], at(), run()) -> {tokens(), run()}.
entries([Key, Operand | Pairs], At, Run) ->
    {Value, Run1} = value(Operand, At, Run),
    {KeyValue, Run2} = value(Key, At, Run1),
    {Entry, Run3} = built([KeyValue, Value], At, Run2),
    {Entries, Run4} = entries(Pairs, At, Run3),
    {ordsets:union(Entry, Entries), Run4};
entries([], _, Run) ->
    {[], Run}.

%% @doc Registers set to what a map has under keys.
-spec got([operand()], non_neg_integer(), value(), Before :: at(), at(), run()) -> {at(), run()}.
got([Key, To | Pairs], N, Map, Before, At, Run) ->
    {KeyValue, Run1} = value(Key, Before, Run),
    {Tokens, Run2} = entry(Map, KeyValue, Run1),
    got(Pairs, N + 1, Map, Before, set(To, fresh(Tokens, N, Run), At), Run2);
got([], _, _, _, At, Run) ->
    {At, Run}.

%% @doc What a map has under a key.
-spec entry(Map :: value(), Key :: value(), run()) -> {tokens(), run()}.
entry(Map, Key, Run) -> get(whittle_shake_value:tokens(Map), {tag(Key), 2}, 1, Run).

%% @doc What a key is as the first element of an entry.
-spec tag(value()) -> {tag, atom()} | whittle_shake_value:id() | any.
tag(Key) ->
    case whittle_shake_value:id(Key) of
        {atom, Atom} -> {tag, Atom};
        {param, _} = Param -> Param;
        _ -> any
    end.

%% Values

%% @doc A value comes to a place.
-spec write(result | whittle_shake_value:place(), value(), run()) -> run().
write(Place, Value, Run) -> write_tokens(Place, whittle_shake_value:tokens(Value), Run).

%% @doc The same, of tokens.
-spec write_tokens(result | whittle_shake_value:place(), tokens(), run()) -> run().
write_tokens(_, [], Run) -> Run;
write_tokens(Place, Tokens, #run{writes = Writes} = Run) ->
    Run#run{writes = Writes#{Place => ordsets:union(Tokens, maps:get(Place, Writes, []))}}.

%% @doc The identity of what this instruction makes, one of several.
-spec id(non_neg_integer(), run()) -> whittle_shake_value:id().
id(K, #run{number = Number}) -> {Number, K}.

%% @doc A value that this instruction makes.
-spec fresh(tokens(), non_neg_integer(), run()) -> value().
fresh(Tokens, K, Run) -> whittle_shake_value:new(Tokens, id(K, Run)).

%% @doc A value as an argument.
-spec arg(value(), at()) -> whittle_shake_value:arg().
arg(Value, At) -> whittle_shake_value:arg(Value, fun(Id) -> class_of(Id, At) end).

%% @doc What a register may be.
-spec tokens(operand(), at()) -> tokens().
tokens(Register, At) -> whittle_shake_value:tokens(held(Register, At)).

%% @doc A number among operands.
-spec number(integer() | {integer, integer()}) -> integer().
number(N) when is_integer(N) -> N;
number({integer, N}) -> N.

%% @doc A register set; what is none is passed over.
-spec set(operand(), value(), at()) -> at().
set({tr, Register, _}, Value, At) -> set(Register, Value, At);
set({Kind, _} = Register, Value, #at{regs = Regs} = At) when Kind =:= x; Kind =:= y ->
    At#at{regs = Regs#{Register => Value}};
set(_, _, At) -> At.

%% @doc The values of operands.
-spec values([operand()], at(), run()) -> {[value()], run()}.
values(Operands, At, Run) ->
    lists:mapfoldl(fun(Operand, R) -> value(Operand, At, R) end, Run, Operands).

%% @doc The value of an operand.
-spec value(operand(), at(), run()) -> {value(), run()}.
value({tr, Register, _}, At, Run) -> value(Register, At, Run);
value({Kind, _} = Register, At, Run) when Kind =:= x; Kind =:= y -> {held(Register, At), Run};
value({atom, Atom}, _, Run) -> {whittle_shake_value:atom(Atom), Run};
value({literal, Binary}, _, Run) -> literal(binary_to_term(Binary), Run);
value(nil, _, Run) -> {whittle_shake_value:list([], none), Run};
value(_, _, Run) -> {whittle_shake_value:none(), Run}.

%% @doc A literal is what code that builds it would give.
-spec literal(term(), run()) -> {value(), run()}.
literal(Atom, Run) when is_atom(Atom) -> {whittle_shake_value:atom(Atom), Run};
literal(List, Run) when is_list(List) -> literal_list(List, [], Run);
literal(Tuple, Run) when is_tuple(Tuple) ->
    {Values, Run1} = lists:mapfoldl(fun literal/2, Run, tuple_to_list(Tuple)),
    {Tokens, Run2} = built(Values, #at{}, Run1),
    {whittle_shake_value:tuple(Tokens, Values, none), Run2};
literal(Map, Run) when is_map(Map) ->
    {Tokens, Run1} =
        maps:fold(fun(Key, Value, {Entries, R}) ->
                          {Pair, R1} = lists:mapfoldl(fun literal/2, R, [Key, Value]),
                          {Entry, R2} = built(Pair, #at{}, R1),
                          {ordsets:union(Entry, Entries), R2}
                  end, {[], Run}, Map),
    {whittle_shake_value:new(Tokens, none), Run1};
literal(Fun, Run) when is_function(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} ->
            [{_, M}, {_, F}, {_, A}] = [erlang:fun_info(Fun, I) || I <- [module, name, arity]],
            {whittle_shake_value:new([{'fun', {M, F, A}}], none), Run};
        _ -> {whittle_shake_value:none(), Run}
    end;
literal(_, Run) -> {whittle_shake_value:none(), Run}.

literal_list([Head | Tail], Values, Run) ->
    {Value, Run1} = literal(Head, Run),
    literal_list(Tail, [Value | Values], Run1);
literal_list([], Values, Run) when length(Values) =< ?LONGEST ->
    {whittle_shake_value:list(lists:reverse(Values), none), Run};
literal_list(Last, Values, Run) ->
    {Value, Run1} = literal_tail(Last, Run),
    Tokens = ordsets:union([whittle_shake_value:tokens(Each) || Each <- [Value | Values]]),
    {whittle_shake_value:new(Tokens, none), Run1}.

literal_tail([], Run) -> {whittle_shake_value:none(), Run};
literal_tail(Last, Run) -> literal(Last, Run).
