%% @doc What each function of a module mentions that may bring other functions to life.
%%
%% A summary depends on its module alone. What a function calls by name is told apart
%% from the atoms that it moves, stores or passes on, which may come to be the module
%% or the name of a call that is made elsewhere.
-module(whittle_shake_summary).

-export([module/1, atoms/1, bytes/1]).

-export_type([summary/0, func/0, fa/0, site/0, form/0]).

-type fa() :: {atom(), arity()}.

-type summary() ::
        #{functions := #{fa() => func()},
          exports := [fa()],                % sorted
          whole := boolean()}.              % has on_load or loads a NIF: its functions
                                            % are all kept, or none

-type func() ::
        #{calls := [mfa()],                 % by name; funs that are made; BIFs too
          atoms := [atom()],                % may become a call's module or function
          tags := [atom()],                 % first elements of tuples
          forms := [form()],
          sites := [site()],
          bytes := non_neg_integer()}.      % of its code, about

%% Data that is known by its look: eight integers are an address of IPv6, a map with the key
%% `family' is one of the socket module, `{local, Path}' is one with a path (and with an atom
%% in its place a name that a process has).
-type form() :: ipv6 | sockaddr | local.

%% `Module:Function(...)' where one or both come from elsewhere.
-type site() :: {module() | any, atom() | any, arity()}.

%% @doc The summary of a module.
-spec module(whittle_beam_module:t()) -> summary().
module(#{module := Module} = Value) ->
    Functions = whittle_beam_module:functions(Value),
    Summaries = maps:map(fun(_, Function) -> func(Module, Function) end, Functions),
    Calls = [Call || #{calls := Calls} <- maps:values(Summaries), Call <- Calls],
    #{functions => always(whittle_beam_module:record_references(Value), Summaries),
      exports => lists:sort([FA || {FA, #{exported := true}} <- maps:to_list(Functions)]),
      whole => lists:member({erlang, load_nif, 2}, Calls) orelse has_on_load(Functions)}.

%% @doc The atoms in a term, wherever they stand; sorted.
-spec atoms(term()) -> [atom()].
atoms(Term) -> lists:usort(atoms(Term, [])).

%% Internal

atoms(Atom, Found) when is_atom(Atom) -> [Atom | Found];
atoms([Head | Tail], Found) -> atoms(Tail, atoms(Head, Found));
atoms(Tuple, Found) when is_tuple(Tuple) -> atoms(tuple_to_list(Tuple), Found);
atoms(Map, Found) when is_map(Map) -> atoms(maps:to_list(Map), Found);
atoms(_, Found) -> Found.

%% What the module's native records mention counts for each of its functions: a record
%% is made by any of them.
always([], Summaries) ->
    Summaries;
always(Mentions, Summaries) ->
    {Atoms, Tags, Funs} = mentioned(Mentions, terms(Mentions)),
    maps:map(fun(_, #{atoms := A, tags := T, calls := C} = Func) ->
                     Func#{atoms := lists:usort(Atoms ++ A), tags := lists:usort(Tags ++ T),
                           calls := lists:usort(Funs ++ C)}
             end, Summaries).

func(Module, #{code := Code} = Function) ->
    {Sites, Taken} = sites(Code, #{}, [], []),
    Mentions = whittle_beam_module:references(Function),
    Terms = terms(Mentions),
    {Atoms, Tags, Funs} = mentioned(Mentions, Terms),
    Calls = [Call || Mention <- Mentions, {ok, Call} <- [call(Module, Mention)]],
    #{calls => lists:usort(Funs ++ Calls),
      atoms => lists:usort(Atoms -- Taken),
      tags => lists:usort(Tags),
      forms => forms(Mentions, Terms),
      sites => lists:usort(Sites),
      bytes => bytes(Code)}.

call(_, {call, Call}) -> {ok, Call};
call(Module, {local, {F, A}}) -> {ok, {Module, F, A}};
call(Module, {lambda, {F, A}, _}) -> {ok, {Module, F, A}};
call(_, _) -> none.

terms(Mentions) ->
    [Term || {literal, Literal, Use} <- Mentions, Use =/= compared,
             {ok, Term} <- [whittle_beam:literal(Literal)]].

mentioned(Mentions, Terms) ->
    lists:foldl(fun term/2,
                {[Atom || {atom, Atom, value} <- Mentions],
                 [Atom || {atom, Atom, tag} <- Mentions], []}, Terms).

term(Atom, {As, Ts, Fs}) when is_atom(Atom) -> {[Atom | As], Ts, Fs};
term([Head | Tail], Found) -> term(Tail, term(Head, Found));
term(Tuple, {As, Ts, Fs}) when tuple_size(Tuple) > 0, is_atom(element(1, Tuple)) ->
    term(tl(tuple_to_list(Tuple)), {As, [element(1, Tuple) | Ts], Fs});
term(Tuple, Found) when is_tuple(Tuple) -> term(tuple_to_list(Tuple), Found);
%% Where the macros of logger.hrl stand: nobody calls that function by it.
term(#{mfa := {_, _, _}, file := _, line := _}, Found) -> Found;
term(Map, Found) when is_map(Map) -> term(maps:values(Map), Found);
term(Fun, {As, Ts, Fs}) when is_function(Fun) ->
    [M, F, A] = [element(2, erlang:fun_info(Fun, Item)) || Item <- [module, name, arity]],
    {As, Ts, [{M, F, A} | Fs]};
term(_, Found) -> Found.

forms(Mentions, Terms) ->
    lists:usort([local || {atom, local, tag} <- Mentions]
                ++ [sockaddr || {atom, family, key} <- Mentions]
                ++ lists:foldl(fun form/2, [], Terms)).

form([Head | Tail], Found) -> form(Tail, form(Head, Found));
form({local, Name}, Found) when is_atom(Name) -> Found;
form({local, _}, Found) -> [local | Found];
form({A, B, C, D, E, F, G, H}, Found)
  when is_integer(A), is_integer(B), is_integer(C), is_integer(D), is_integer(E), is_integer(F),
       is_integer(G), is_integer(H) ->
    [ipv6 | Found];
form(Tuple, Found) when is_tuple(Tuple) -> form(tuple_to_list(Tuple), Found);
form(Map, Found) when is_map_key(family, Map) -> [sockaddr | form(maps:values(Map), Found)];
form(Map, Found) when is_map(Map) -> form(maps:values(Map), Found);
form(_, Found) -> Found.

%% The calls of `apply', and the atoms that were put into a register for one of them and
%% can be nowhere else: those that it finds in the same stretch of code.
sites([{move, [{atom, Atom}, {x, N}]} | Code], Held, Sites, Taken) ->
    sites(Code, Held#{N => Atom}, Sites, Taken);
sites([{move, [_, {x, N}]} | Code], Held, Sites, Taken) ->
    sites(Code, maps:remove(N, Held), Sites, Taken);
sites([{Apply, [Arity | _]} | Code], Held, Sites, Taken)
  when Apply =:= apply; Apply =:= apply_last ->
    Atoms = [maps:get(N, Held, any) || N <- [Arity, Arity + 1]],
    [Module, Function] = Atoms,
    sites(Code, #{}, [{Module, Function, Arity} | Sites],
          [Atom || Atom <- Atoms, Atom =/= any] ++ Taken);
sites([{swap, [One, Other]} | Code], Held, Sites, Taken) ->
    sites(Code, put_at(One, at(Other, Held), put_at(Other, at(One, Held), Held)), Sites, Taken);
sites([{get_tuple_element, [_, _, To]} | Code], Held, Sites, Taken) ->
    sites(Code, put_at(To, none, Held), Sites, Taken);
%% These write no register that holds an argument.
sites([{Instruction, _} | Code], Held, Sites, Taken)
  when Instruction =:= line; Instruction =:= init_yregs; Instruction =:= trim ->
    sites(Code, Held, Sites, Taken);
sites([_ | Code], _, Sites, Taken) ->
    sites(Code, #{}, Sites, Taken);
sites([], _, Sites, Taken) ->
    {Sites, Taken}.

at({x, N}, Held) -> maps:get(N, Held, none);
at(_, _) -> none.

put_at({x, N}, none, Held) -> maps:remove(N, Held);
put_at({x, N}, Atom, Held) -> Held#{N => Atom};
put_at(_, _, Held) -> Held.

has_on_load(Functions) ->
    lists:any(fun(#{code := Code}) -> lists:keymember(on_load, 1, Code) end,
              maps:values(Functions)).

%% @doc The bytes of code, about: one for an instruction and two for an operand. What the
%% ledger of reasons weighs functions by.
-spec bytes([whittle_beam_module:instruction()]) -> non_neg_integer().
bytes(Code) ->
    lists:foldl(fun({_, Operands}, Sum) -> Sum + 1 + 2 * length(Operands) + literals(Operands) end,
                0, Code).

literals(Operands) ->
    lists:sum([case Operand of
                   {literal, Term} -> byte_size(Term);
                   {list, List} -> 2 * length(List);
                   _ -> 0
               end || Operand <- Operands]).
