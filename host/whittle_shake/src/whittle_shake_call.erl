%% @doc Calls: of functions, of funs, of what is named by values, and of functions in C, of
%% which some depend on the constants that they are given ({@link whittle_shake_native} has
%% the others).
-module(whittle_shake_call).

-import(whittle_shake_frame, [any_tuple/2, arg/2, built/3, changed/6, class/2, counted/1, deep/2,
                              entry/3, field/4, fresh/3, get/4, held/2, id/2, set/3, tag/1,
                              tuple/3, value/3, values/3, write/3, write_tokens/3]).

-export([bif/5, lambda/5, call/4, called/4, call_fun/4, site/4, arguments/2, effects/4]).

-include("whittle_shake_frame.hrl").

-type at() :: #at{}.
-type run() :: #run{}.
-type operand() :: whittle_shake_frame:operand().
-type value() :: whittle_shake_value:t().

%% @doc A call of a function in C as a guard makes it.
-spec bif({extfunc, erlang, atom(), arity()}, [operand()], To :: operand(), at(), run()) ->
          {at(), run()}.
bif({extfunc, erlang, Name, Arity}, From, To, At, Run) ->
    {Values, Run1} = values(From, At, Run),
    case native({erlang, Name, Arity}, Values, From, At, Run1) of
        {Value, Next, Run2} -> {set(To, Value, Next), Run2};
        none -> {set(To, whittle_shake_value:none(), At), Run1}
    end.

%% @doc A fun of this module's is made.
-spec lambda({lambda, atom(), arity(), term()}, [operand()], To :: operand(), at(), run()) ->
          {at(), run()}.
lambda({lambda, F, A, _}, Free, To, At, Run) ->
    {Values, Run1} = values(Free, At, Run),
    {Id, #run{sites = Sites} = Run2} = counted(Run1),
    Args = [arg(Value, At) || Value <- Values],
    {set(To, fresh([{lambda, Id}], 0, Run), At),
     Run2#run{sites = [{lambda, Id, {F, A}, Args} | Sites]}}.

%% @doc A call of another module's function; some call what they are told.
-spec call(mfa(), [value()], at(), run()) -> {at(), run()}.
call({M, Name, _} = Mfa, Values, At, Run) when M =:= erlang; M =:= erts_internal ->
    case indirect(Name, Values) of
        {Kind, Mod, F, List} ->
            Operands = [arg(Mod, At), arg(F, At)] ++ [given(List, At) || List =/= none],
            site(Kind, Operands, At, activated(Mfa, Run));
        {Kind, Fun, List} ->
            site(Kind, [arg(Fun, At), given(List, At)], At, activated(Mfa, Run));
        none ->
            called(Mfa, Values, At, Run)
    end;
call(Mfa, Values, At, Run) ->
    called(Mfa, Values, At, Run).

%% @doc A call of a function.
-spec called(mfa(), [value()], at(), run()) -> {at(), run()}.
called({_, _, Arity} = Mfa, Values, At, Run) ->
    case native(Mfa, Values, [{x, I} || I <- lists:seq(0, Arity - 1)], At, Run) of
        {Value, Next, Run1} ->
            {after_call(Value, Next), activated(Mfa, Run1)};
        none ->
            Args = [arg(Value, At) || Value <- Values],
            site(call, [Mfa, Args], At, Run)
    end.

%% Natives of which it counts which constants they are given; all others as their table
%% says.
native({erlang, element, 2}, [_, Tuple], [Index, Operand], At, Run) ->
    case constant(Index) of
        N when is_integer(N), N > 0 ->
            {Value, Run1} = field(Operand, N - 1, At, Run),
            {Value, At, Run1};
        _ ->
            {Tokens, Run1} = get(whittle_shake_value:tokens(Tuple), class(Operand, At), any, Run),
            {fresh(Tokens, 0, Run), At, Run1}
    end;
native({erlang, setelement, 3}, [_, Tuple, Value], [Index, Operand, _], At, Run) ->
    Place = case constant(Index) of
                N when is_integer(N), N > 0 -> N - 1;
                _ -> any
            end,
    changed(Tuple, class(Operand, At), Place, Value, At, Run);
native({erlang, list_to_tuple, 1}, [List], _, At, Run) ->
    case whittle_shake_value:elements(List) of
        none ->
            {Tokens, Run1} = any_tuple(whittle_shake_value:tokens(List), Run),
            {fresh(Tokens, 0, Run), At, Run1};
        Elements ->
            tuple(Elements, At, Run)
    end;
native({M, F, 2}, [Key, Map], _, At, Run)
  when M =:= erlang, F =:= map_get; M =:= maps, F =:= get ->
    {Tokens, Run1} = entry(Map, Key, Run),
    {fresh(Tokens, 0, Run), At, Run1};
native({maps, get, 3}, [Key, Map, Default], _, At, Run) ->
    {Tokens, Run1} = entry(Map, Key, Run),
    {fresh(ordsets:union(Tokens, whittle_shake_value:tokens(Default)), 0, Run), At, Run1};
native({maps, F, 2}, [Key, Map], _, At, Run) when F =:= find; F =:= take ->
    {Tokens, Run1} = entry(Map, Key, Run),
    Value = whittle_shake_value:new(Tokens, none),
    {Found, Run2} = built(case F of
                              find -> [whittle_shake_value:atom(ok), Value];
                              take -> [Value, Map]
                          end, At, Run1),
    {fresh(ordsets:add_element({atom, error}, Found), 0, Run), At, Run2};
native({lists, keyfind, 3}, [Key, _, List], [_, Place, _], #at{known = Known} = At, Run) ->
    Next = case constant(Place) of
               1 -> At#at{known = Known#{id(0, Run) => {tag(Key), any}}};
               _ -> At
           end,
    Tokens = whittle_shake_value:tokens(List),
    {fresh(ordsets:add_element({atom, false}, Tokens), 0, Run), Next, Run};
native({erlang, binary_to_term, _}, _, _, At, #run{module = init} = Run) ->
    %% The boot script. What it starts is among the roots.
    {whittle_shake_value:none(), At, Run};
native({erlang, put, 2}, [Key, Value], _, At, Run) ->
    Place = {dictionary, constant_key(Key)},
    {fresh([{place, Place}], 0, Run), At, write({dictionary, keys}, Key, write(Place, Value, Run))};
native({erlang, F, 1}, [Key], _, At, Run) when F =:= get; F =:= erase ->
    {fresh([{place, {dictionary, constant_key(Key)}}], 0, Run), At, Run};
native({erlang, process_info, 2}, [_, Item], _, At, Run) ->
    {Tokens, Run1} = info(whittle_shake_value:tokens(Item), At, Run),
    {fresh(Tokens, 0, Run), At, Run1};
native({ets, lookup_element, _}, [Table, _, _ | Default], [_, _, Operand | _], At, Run) ->
    Index = case constant(Operand) of
                N when is_integer(N) -> N - 1;
                none -> any
            end,
    {Tokens, Run1} = get(objects(Table), {any, any}, Index, Run),
    Others = [whittle_shake_value:tokens(Value) || Value <- Default],
    {fresh(ordsets:union([Tokens | Others]), 0, Run), At, Run1};
native({ets, match, A}, [Table, Pattern | _], _, At, Run) when A > 1 ->
    {Tokens, Run1} = pattern(Pattern, objects(Table), Run),
    {Found, Run2} = continued(Tokens, A, At, Run1),
    {fresh(Found, 0, Run), At, Run2};
native({ets, F, A}, [Table, Spec | _], _, At, Run)
  when F =:= select, A =< 3, A > 1; F =:= select_reverse, A =< 3, A > 1;
       F =:= select_replace, A =:= 2 ->
    [{place, Place}] = Objects = objects(Table),
    {Tokens, Run1} = selected_by(Spec, Objects, At, Run),
    Written = case F of
                  select_replace -> write_tokens(Place, Tokens, Run1);
                  _ -> Run1
              end,
    {Found, Run2} = continued(Tokens, A, At, Written),
    {fresh(Found, 0, Run), At, Run2};
native(Mfa, Values, _, At, Run) ->
    case whittle_shake_native:effects(Mfa) of
        unknown -> none;
        Effects ->
            Here = of_table(Effects, Mfa, Values),
            {Tokens, Run1} = effects(Here, list_to_tuple(Values), At, Run),
            {fresh(Tokens, 0, Run), At, Run1}
    end.

%% What is in a table, by its name where that is written out.
objects(Table) -> [{place, {tables, constant_key(Table)}}].

of_table(Effects, {ets, _, _}, [Table | _]) -> named(Effects, {tables, constant_key(Table)});
of_table(Effects, _, _) -> Effects.

named({tables, any}, Table) -> Table;
named([Head | Tail], Table) -> [named(Head, Table) | named(Tail, Table)];
named(Tuple, Table) when is_tuple(Tuple) ->
    list_to_tuple([named(Element, Table) || Element <- tuple_to_list(Tuple)]);
named(Other, _) -> Other.

constant_key(Key) ->
    case whittle_shake_value:constant(Key) of
        {atom, Atom} -> Atom;
        none -> any
    end.

%% With a limit there comes a tuple of what was found and where to go on.
continued(Tokens, 3, At, Run) ->
    {Tuple, Run1} = built([whittle_shake_value:new(Tokens, none), whittle_shake_value:none()], At,
                          Run),
    {ordsets:union(Tuple, Tokens), Run1};
continued(Tokens, _, _, Run) ->
    {Tokens, Run}.

%% What a pattern finds in tables, read as code would read it.
pattern(Pattern, Objects, Run) ->
    case whittle_shake_value:fields(Pattern) of
        none -> deep(Objects, Run);
        Fields -> found(Fields, Objects, of_pattern(Fields), 0, Run)
    end.

of_pattern([First | _] = Fields) ->
    case whittle_shake_value:constant(First) of
        {atom, Atom} ->
            case is_variable(Atom) of
                true -> {any, length(Fields)};
                false -> {{tag, Atom}, length(Fields)}
            end;
        none -> {any, length(Fields)}
    end;
of_pattern([]) -> {any, 0}.

found([Value | Values], Tuple, Class, I, Run) ->
    {Tokens, Run1} =
        case {whittle_shake_value:fields(Value), whittle_shake_value:tokens(Value)} of
            {none, []} -> {[], Run};
            {none, [{atom, Atom}]} ->
                case is_variable(Atom) of
                    true -> get(Tuple, Class, I, Run);
                    false -> {[], Run}
                end;
            {none, _} ->
                {Element, Next} = get(Tuple, Class, I, Run),
                deep(Element, Next);
            {Fields, _} ->
                {Element, Next} = get(Tuple, Class, I, Run),
                found(Fields, Element, of_pattern(Fields), 0, Next)
        end,
    {More, Run2} = found(Values, Tuple, Class, I + 1, Run1),
    {ordsets:union(Tokens, More), Run2};
found([], _, _, _, Run) ->
    {[], Run}.

is_variable(Atom) -> hd(atom_to_list(Atom) ++ " ") =:= $$.

%% What a match specification gives: what its head finds, whole objects, and tuples.
selected_by(Spec, Objects, At, Run) ->
    Clauses = case whittle_shake_value:elements(Spec) of
                  none -> [none];
                  Elements -> [clause(whittle_shake_value:fields(Each)) || Each <- Elements]
              end,
    case lists:member(none, Clauses) of
        true ->
            {All, Run1} = deep(Objects, Run),
            {Tuple, Run2} = any_tuple(All, Run1),
            {ordsets:union(All, Tuple), Run2};
        false ->
            lists:foldl(fun({Head, Bodies}, {Tokens, R}) ->
                                {Found, R1} = pattern(Head, Objects, R),
                                Here = ordsets:union(Objects, Found),
                                {Made, R2} = lists:mapfoldl(
                                               fun(Body, Now) -> body(Body, Here, At, Now) end,
                                               R1, Bodies),
                                {ordsets:union([Tokens, Here | Made]), R2}
                        end, {[], Run}, Clauses)
    end.

clause([Head, _, Body]) ->
    case whittle_shake_value:elements(Body) of
        none -> none;
        Bodies -> {Head, Bodies}
    end;
clause(_) -> none.

%% `{{A, B}}' is a tuple of A and B.
body(Body, Found, At, Run) ->
    case whittle_shake_value:fields(Body) of
        [Tuple] ->
            case whittle_shake_value:fields(Tuple) of
                none -> any_tuple(Found, Run);
                Fields ->
                    {Elements, Run1} = lists:mapfoldl(
                                         fun(Each, R) -> body_value(Each, Found, At, R) end, Run,
                                         Fields),
                    built(Elements, At, Run1)
            end;
        _ -> {whittle_shake_value:tokens(Body), Run}
    end.

body_value(Value, Found, At, Run) ->
    case {whittle_shake_value:constant(Value), whittle_shake_value:fields(Value)} of
        {{atom, Atom}, _} ->
            {case is_variable(Atom) of
                 true -> whittle_shake_value:new(Found, none);
                 false -> Value
             end, Run};
        {none, none} ->
            {whittle_shake_value:new(ordsets:union(Found, whittle_shake_value:tokens(Value)), none),
             Run};
        _ ->
            {Tokens, Run1} = body(Value, Found, At, Run),
            {whittle_shake_value:new(Tokens, none), Run1}
    end.

%% What a process can be asked for, by atoms where they are known.
info(Items, At, Run) ->
    Known = case lists:all(fun({atom, _}) -> true; (_) -> false end, Items) of
                true -> [Item || {atom, Item} <- Items];
                false -> [initial_call, dictionary, messages]
            end,
    Sources = lists:append([about(Item) || Item <- Known]),
    effects([{result, vm_atom} | [{result, Source} || Source <- Sources]], {}, At, Run).

about(Item) when Item =:= current_function; Item =:= initial_call ->
    Mfa = {tuple, [modules, nothing, nothing]},
    [Mfa, {tuple, [{atom, Item}, Mfa]}];
about(dictionary) ->
    Entry = {tuple, [{dictionary, keys}, {dictionary, any}]},
    [Entry, {dictionary, any}, {tuple, [{atom, dictionary}, Entry]}];
about(messages) -> [messages, {tuple, [{atom, messages}, messages]}];
about(Item) -> [{tuple, [{atom, Item}, vm_atom]}].

%% @doc What a table says that a function in C does; the tokens of what it returns.
-spec effects([whittle_shake_native:effect()], tuple(), at(), run()) ->
          {[whittle_shake_value:token()], run()}.
effects(Effects, Values, At, Run) ->
    lists:foldl(fun({result, From}, {Tokens, R}) ->
                        {More, R1} = source(From, Values, At, R),
                        {ordsets:union(More, Tokens), R1};
                   ({Place, From}, {Tokens, R}) ->
                        {Written, R1} = source(From, Values, At, R),
                        {Tokens, write_tokens(Place, Written, R1)}
                end, {[], Run}, Effects).

source({arg, I}, Values, _, Run) -> {whittle_shake_value:tokens(element(I + 1, Values)), Run};
source(nothing, _, _, Run) -> {[], Run};
source({atom, _} = Token, _, _, Run) -> {[Token], Run};
source(Token, _, _, Run) when Token =:= any_atom; Token =:= vm_atom; Token =:= reference ->
    {[Token], Run};
source({tuple, Elements}, Values, At, Run) ->
    {Made, Run1} = lists:mapfoldl(fun(Each, R) -> element_of(Each, Values, At, R) end, Run,
                                  Elements),
    built(Made, At, Run1);
source({any_tuple, From}, Values, At, Run) ->
    {Tokens, Run1} = source(From, Values, At, Run),
    any_tuple(Tokens, Run1);
source({get, From, Class, Index}, Values, At, Run) ->
    {Tokens, Run1} = source(From, Values, At, Run),
    get(Tokens, Class, Index, Run1);
source({deep, From}, Values, At, Run) ->
    {Tokens, Run1} = source(From, Values, At, Run),
    deep(Tokens, Run1);
source(Place, _, _, Run) -> {[{place, Place}], Run}.

element_of({atom, Atom}, _, _, Run) -> {whittle_shake_value:atom(Atom), Run};
element_of(Source, Values, At, Run) ->
    {Tokens, Run1} = source(Source, Values, At, Run),
    {whittle_shake_value:new(Tokens, none), Run1}.

constant({integer, N}) -> N;
constant(_) -> none.

%% Natives that call what they are told.
indirect(apply, [Fun, Args]) -> {call_fun, Fun, {list, Args}};
indirect(make_fun, [M, F, _]) -> {make_fun, M, F, none};
indirect(Name, Args) ->
    case {Name, Args} of
        {_, [M, F, List]} when Name =:= apply; Name =:= spawn; Name =:= spawn_link;
                               Name =:= spawn_monitor; Name =:= hibernate;
                               Name =:= spawn_request; Name =:= spawn_system_process ->
            {apply, M, F, {list, List}};
        {_, [_, M, F, List]} when Name =:= spawn; Name =:= spawn_link;
                                  Name =:= spawn_monitor ->
            {apply, M, F, {list, List}};
        {_, [M, F, List, _]} when Name =:= spawn_opt; Name =:= spawn_request ->
            {apply, M, F, {list, List}};
        {_, [_, M, F, List, _]} when Name =:= spawn_opt; Name =:= spawn_request ->
            {apply, M, F, {list, List}};
        {_, [Fun]} when Name =:= spawn; Name =:= spawn_link; Name =:= spawn_monitor;
                        Name =:= spawn_request ->
            {call_fun, Fun, {each, []}};
        {_, [Fun, _]} when Name =:= spawn_opt; Name =:= spawn_request ->
            {call_fun, Fun, {each, []}};
        {_, [_, Fun]} when Name =:= spawn; Name =:= spawn_link; Name =:= spawn_monitor ->
            {call_fun, Fun, {each, []}};
        {_, [_, Fun, _]} when Name =:= spawn_opt ->
            {call_fun, Fun, {each, []}};
        _ ->
            none
    end.

given({each, []}, _) -> {each, []};
given({list, List}, At) ->
    case arg(List, At) of
        {_, none, Elements} when is_list(Elements) -> {each, Elements};
        Arg -> {list, Arg}
    end.

%% @doc A call of a fun.
-spec call_fun(operand(), arity(), at(), run()) -> {at(), run()}.
call_fun(Fun, Arity, At, Run) ->
    {Value, Run1} = value(Fun, At, Run),
    Args = [arg(Each, At) || Each <- arguments(Arity, At)],
    site(call_fun, [arg(Value, At), {each, Args}], At, Run1).

%% @doc A call whose result is not known.
-spec site(atom(), [term()], at(), run()) -> {at(), run()}.
site(Kind, Operands, At, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    {after_call(fresh([{site, Id}], 0, Run), At),
     Run1#run{sites = [list_to_tuple([Kind, Id | Operands]) | Sites]}}.

%% @doc The first x registers.
-spec arguments(arity(), at()) -> [value()].
arguments(Arity, At) -> [held({x, I}, At) || I <- lists:seq(0, Arity - 1)].

activated(Mfa, #run{natives = Natives} = Run) -> Run#run{natives = Natives#{Mfa => []}}.

%% A call leaves x0 and the y registers.
after_call(Value, #at{regs = Regs} = At) ->
    Ys = maps:filter(fun({y, _}, _) -> true; (_, _) -> false end, Regs),
    At#at{regs = Ys#{{x, 0} => Value}}.
