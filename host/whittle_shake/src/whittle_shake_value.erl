%% @doc A value as the facts see it: what it may be, where it came from, and which
%% elements a list has where that is known.
%%
%% A tuple is known by the place in the code where it is built. A list is what its
%% elements are, since they have no place that anyone could tell them by; a map is the
%% list of its entries, each a tuple of key and value.
-module(whittle_shake_value).

-export([none/0, atom/1, new/2, list/2, tuple/3, part/4]).
-export([tokens/1, constant/1, id/1, part_of/1, tuple_of/1, elements/1, fields/1, arg/2]).
-export([join/3, with_tokens/2]).

-export_type([t/0, token/0, site/0, place/0, class/0, arg/0, origin/0, id/0]).

%% What a value may be. A list is its elements, a map the tuples of its keys and values.
-type token() ::
        {atom, atom()}
      | any_atom                                % one that came from text or from outside
      | vm_atom                                 % one of the VM's own, as `einval'
      | reference
      | {lambda, site()}                        % the fun that is made at that site
      | {'fun', mfa()}                          % `fun M:F/A'
      | {tuple, site()}                         % the tuple that is built there
      | {param, non_neg_integer()}              % what came as this argument, from 0
      | {site, site()}                          % what the call or the reading there gives
      | {place, place()}.

%% A place in a function's code.
-type site() :: {non_neg_integer(), non_neg_integer()}.

%% Where values are kept outside of functions.
-type place() ::
        messages | exceptions
      | {dictionary, Key :: atom() | any | keys} % of processes; `any': one not known
      | {tables, Name :: atom()}                % ETS; `any': one not known
      | persistent | external                   % persistent terms; binaries of terms
      | unknown                                 % what functions in C may keep
      | modules.                                % names of what is loaded, from the VM

%% What is known of a tuple: its first element, its size, and perhaps its second element.
%% Of the first it may be known that it is an atom, what came as that argument, a
%% reference that was made there, or no atom.
-type class() :: {{tag, atom()} | {param, non_neg_integer()} | reference | other | any,
                  Size :: non_neg_integer() | {non_neg_integer(), Second :: atom()} | any}.

%% Which value it is: two registers with the same one hold the same value.
-type id() :: none | {param, non_neg_integer()} | {term(), term()}.

%% How it can be seen that two values belong together: both came as arguments, or were
%% read from one tuple, which is one of those.
-type origin() ::
        none | {param, non_neg_integer()}
      | {element, id(), class(), Index :: non_neg_integer(), Tuple :: [token()]}.

%% A value where it is passed on; `none' holds nothing that is followed.
-type arg() :: none | {[token()], origin(), none | [arg()]}.

-record(v, {tokens = [] :: [token()],
            id = none :: id(),
            part_of = none :: none | {id(), non_neg_integer(), [token()]},
            shape = none :: none | {list | tuple, [t()]}}).

-opaque t() :: #v{}.

%% @doc What holds nothing that is followed: numbers, binaries, tuples.
-spec none() -> t().
none() -> #v{}.

%% @doc That atom and nothing else.
-spec atom(atom()) -> t().
atom(Atom) -> #v{tokens = [{atom, Atom}], id = {atom, Atom}}.

%% @doc One of these.
-spec new(ordsets:ordset(token()), id()) -> t().
new(Tokens, Id) -> #v{tokens = Tokens, id = Id}.

%% @doc A proper list of these elements.
-spec list([t()], id()) -> t().
list(Elements, Id) ->
    #v{tokens = ordsets:union([Tokens || #v{tokens = Tokens} <- Elements]), id = Id,
       shape = {list, Elements}}.

%% @doc A tuple of these elements.
-spec tuple(ordsets:ordset(token()), [t()], id()) -> t().
tuple(Tokens, Elements, Id) -> #v{tokens = Tokens, id = Id, shape = {tuple, Elements}}.

%% @doc The element of a tuple, counted from 0.
-spec part(ordsets:ordset(token()), id(), Tuple :: t(), non_neg_integer()) -> t().
part(Tokens, Id, #v{id = none}, _) -> #v{tokens = Tokens, id = Id};
part(Tokens, Id, #v{id = Of, tokens = Tuple}, Index) ->
    #v{tokens = Tokens, id = Id, part_of = {Of, Index, Tuple}}.

-spec tokens(t()) -> ordsets:ordset(token()).
tokens(#v{tokens = Tokens}) -> Tokens.

%% @doc The atom that it is for sure.
-spec constant(t()) -> {atom, atom()} | none.
constant(#v{id = {atom, _} = Atom}) -> Atom;
constant(_) -> none.

-spec id(t()) -> id().
id(#v{id = Id}) -> Id.

%% @doc The tuple that it was read from, and its index there.
-spec part_of(t()) -> none | {id(), non_neg_integer()}.
part_of(#v{part_of = {Of, Index, _}}) -> {Of, Index};
part_of(_) -> none.

%% @doc What the tuple that it was read from may be.
-spec tuple_of(t()) -> ordsets:ordset(token()).
tuple_of(#v{part_of = {_, _, Tuple}}) -> Tuple.

%% @doc The elements of a proper list, where they are known.
-spec elements(t()) -> none | [t()].
elements(#v{shape = {list, Elements}}) -> Elements;
elements(_) -> none.

%% @doc The elements of a tuple, where they are known.
-spec fields(t()) -> none | [t()].
fields(#v{shape = {tuple, Elements}}) -> Elements;
fields(_) -> none.

%% @doc It, where it is passed on. The function says what class a tuple is of.
-spec arg(t(), fun((id()) -> class())) -> arg().
arg(#v{tokens = Tokens, id = Id, part_of = Of, shape = {list, Elements}}, Class) ->
    {Tokens, origin(Id, Of, Class), [arg(Element, Class) || Element <- Elements]};
arg(#v{tokens = []}, _) -> none;
arg(#v{tokens = Tokens, id = Id, part_of = Of}, Class) ->
    {Tokens, origin(Id, Of, Class), none}.

origin({param, _} = Id, _, _) -> Id;
origin(_, {Base, Index, Tuple}, Class) -> {element, Base, Class(Base), Index, Tuple};
origin(_, none, _) -> none.

%% @doc What is one or the other, known as `Id' from there on when they are not the same.
-spec join(t(), t(), id()) -> t().
join(Same, Same, _) -> Same;
join(#v{tokens = A, id = I, part_of = P, shape = E},
     #v{tokens = B, id = J, part_of = Q, shape = F}, Id) ->
    #v{tokens = ordsets:union(A, B),
       id = case J of I -> I; _ -> Id end,
       part_of = case Q of P -> P; _ -> none end,
       shape = joined(E, F)}.

joined(Same, Same) -> Same;
joined({Kind, A}, {Kind, B}) when length(A) =:= length(B) ->
    {Kind, lists:zipwith(fun(X, Y) -> join(X, Y, none) end, A, B)};
joined(_, _) -> none.

%% @doc The same value, of which more is known.
-spec with_tokens(ordsets:ordset(token()), t()) -> t().
with_tokens(Tokens, Value) -> Value#v{tokens = Tokens}.
