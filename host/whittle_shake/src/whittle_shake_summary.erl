%% @hidden Summarizes what each function of a module mentions.
%%
%% These mentions may bring other functions to life. A summary depends on its module alone. It
%% keeps calls by name apart from atoms that a function moves, stores or passes on. Such an atom
%% may become the module or the name of a call elsewhere.
-module(whittle_shake_summary).

-export([module/1, apart/2, atoms/1, funs/1, uses/1, bytes/1]).

-export_type([summary/0, func/0, fa/0, site/0, form/0]).

-type fa() :: {atom(), arity()}.

-type summary() ::
        #{functions := #{fa() => func()},
          exports := [fa()],                % sorted
          attributes := [atom() | mfa()],   % names and funs in its attributes
          on_load := [fa()],
          %% functions that NIFs may replace, by the compiler's instruction `nif_start'
          natives := [fa()],
          %% has on_load or loads NIFs: all functions stay, or none (but see apart/2)
          whole := boolean()}.

-type func() ::
        #{calls := [mfa()],                 % by name; also funs, BIFs, and functions that
                                            % it passes on: `timer:tc(file, consult, [F])'
          atoms := [atom()],                % may become a call's module or function
          tags := [atom()],                 % first elements of tuples
          keys := [atom()],                 % of maps
          forms := [form()],
          sites := [site()],
          bytes := non_neg_integer()}.      % of its code, estimated

%% Data with a known form: eight integers are an IPv6 address; a map with the key `family' is an
%% address of the socket module; `{local, Path}' is an address with a path (with an atom in its
%% place it is the name of a process).
%%
%% The other forms are code that handles names. `attributes': the function holds the atom
%% `attributes' or the chunk name "Attr", or asks for all information of a module
%% (`Module:module_info()'). `own_attributes': it returns the attributes of its own module (as
%% `module_info/1' does). `modules': it matches on the atom `modules'. `module_list': it asks
%% `application:get_key/2' for the list of modules. `application_key': it asks for a key that is
%% not in its code.
-type form() :: ipv6 | sockaddr | local
              | attributes | own_attributes | modules | module_list | application_key.

%% `Module:Function(...)' where one name or both come from elsewhere.
-type site() :: {module() | any, atom() | any, arity()}.

%% @doc Makes the summary of a module. The error is a literal that is damaged, or literals or
%% attributes that are too large or have more atoms than this VM has room for.
-spec module(whittle_beam_module:t()) -> {ok, summary()} | {error, whittle_beam:error()}.
module(Value) ->
    try
        {ok, summary(Value)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

summary(#{module := Module} = Value) ->
    Functions = whittle_beam_module:functions(Value),
    Passed = whittle_beam_calls:passed(Value),
    Summaries = maps:map(fun(FA, Function) -> func(Module, Function, maps:get(FA, Passed)) end,
                         Functions),
    OnLoad = with_instruction(on_load, Functions),
    IsLoader = is_loader(Summaries),
    Natives = [FA || IsLoader, FA <- with_instruction(nif_start, Functions)],
    #{functions => always(whittle_beam_module:record_references(Value), Summaries),
      exports => lists:sort([FA || {FA, #{exported := true}} <- maps:to_list(Functions)]),
      attributes => attributes(Value),
      on_load => OnLoad,
      natives => Natives,
      whole => OnLoad =/= [] orelse IsLoader}.

%% @doc Lets the functions of a module with NIFs or `on_load' stay one by one. Each of them needs
%% the function that runs when the module is loaded, and the function that loads the NIFs needs all
%% functions that these may replace: erlang:load_nif/2 fails without one of them. Both are like
%% calls here. A module without any function for its NIFs stays whole.
-spec apart(module(), summary()) -> summary().
apart(M, #{functions := Functions, on_load := OnLoad, natives := Natives} = Summary) ->
    case is_loader(Functions) andalso Natives =:= [] of
        true -> Summary;
        false ->
            Needed = fun(_, #{calls := Calls} = Function) ->
                             Needs = OnLoad ++ [Native || loads(Function), Native <- Natives],
                             All = [{M, F, A} || {F, A} <- Needs] ++ Calls,
                             Function#{calls := lists:usort(All)}
                     end,
            Summary#{whole := false, functions := maps:map(Needed, Functions)}
    end.

%% @doc Collects the atoms anywhere in a term, sorted.
-spec atoms(term()) -> [atom()].
atoms(Term) -> lists:usort(atoms(Term, [])).

%% @doc Collects the external funs (`fun M:F/A') anywhere in a term, sorted.
-spec funs(term()) -> [mfa()].
funs(Term) -> lists:usort(funs(Term, [])).

%% @doc Lists the data with a known form in a term, and the first elements of its tuples.
-spec uses(term()) -> [{form, form()} | {Tag :: atom()}].
uses(Term) ->
    {_, Tags, _} = term(Term, {[], [], []}),
    [{form, Form} || Form <- lists:usort(form(Term, []))] ++ [{Tag} || Tag <- lists:usort(Tags)].

%% Internal

funs(Fun, Found) when is_function(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} -> [mfa(Fun) | Found];
        {type, local} -> Found
    end;
funs([Head | Tail], Found) -> funs(Tail, funs(Head, Found));
funs(Tuple, Found) when is_tuple(Tuple) -> funs(tuple_to_list(Tuple), Found);
funs(Map, Found) when is_map(Map) -> funs(maps:to_list(Map), Found);
funs(_, Found) -> Found.

mfa(Fun) ->
    list_to_tuple([element(2, erlang:fun_info(Fun, Item)) || Item <- [module, name, arity]]).

atoms(Atom, Found) when is_atom(Atom) -> [Atom | Found];
atoms([Head | Tail], Found) -> atoms(Tail, atoms(Head, Found));
atoms(Tuple, Found) when is_tuple(Tuple) -> atoms(tuple_to_list(Tuple), Found);
atoms(Map, Found) when is_map(Map) -> atoms(maps:to_list(Map), Found);
atoms(_, Found) -> Found.

%% Tools read these attributes. No program looks for a function by them.
attributes(Value) ->
    Tools = [vsn, author, copyright, dialyzer, ignore_xref, elvis, hank, deprecated,
             deprecated_type, removed, removed_type, optional_callbacks, asn1_info],
    Attributes = case whittle_beam_module:chunk(<<"Attr">>, Value) of
                     {ok, Bytes} -> read(whittle_beam:terms(<<"Attr">>, Bytes));
                     error -> []
                 end,
    Read = [Written || {Name, Written} <- Attributes, not lists:member(Name, Tools)],
    atoms(Read) ++ funs(Read).

%% Without these names the plan could cut functions that the program calls.
read({ok, Terms}) -> Terms;
read({error, Error}) -> throw({?MODULE, Error}).

%% The mentions of the module's native records count for each of its functions, because any of
%% them may make a record.
always([], Summaries) ->
    Summaries;
always(Mentions, Summaries) ->
    {Atoms, Tags, Funs} = mentioned(Mentions, terms(Mentions)),
    maps:map(fun(_, #{atoms := A, tags := T, calls := C} = Func) ->
                     Func#{atoms := lists:usort(Atoms ++ A), tags := lists:usort(Tags ++ T),
                           calls := lists:usort(Funs ++ C)}
             end, Summaries).

func(Module, #{code := Code} = Function, Passed) ->
    {Sites, Taken, Asked} = sites(Code, #{}, [], [], []),
    Mentions = whittle_beam_module:references(Function),
    Terms = terms(Mentions),
    {Atoms, Tags, Funs} = mentioned(Mentions, Terms),
    Calls = [Call || Mention <- Mentions, {ok, Call} <- [call(Module, Mention)]],
    #{calls => lists:usort(Funs ++ Passed ++ requested(Atoms) ++ Calls),
      atoms => lists:usort(Atoms -- Taken),
      tags => lists:usort(Tags),
      keys => lists:usort([Key || {atom, Key, key} <- Mentions]
                          ++ lists:foldl(fun keys/2, [], Terms)),
      forms => lists:usort(names_read(Mentions, Calls ++ Sites) ++ Asked ++ forms(Mentions, Terms)),
      sites => lists:usort(Sites),
      bytes => bytes(Code)}.

%% A request to an I/O server may name the function that reads the text: `{get_until, _, _,
%% erl_scan, tokens, _}'.
requested(Atoms) ->
    [{erl_scan, tokens, 3} || lists:member(erl_scan, Atoms), lists:member(tokens, Atoms)].

call(_, {call, Call}) -> {ok, Call};
call(Module, {local, {F, A}}) -> {ok, {Module, F, A}};
call(Module, {lambda, {F, A}, _}) -> {ok, {Module, F, A}};
call(_, _) -> none.

terms(Mentions) ->
    [read(whittle_beam:literal(Literal)) || {literal, Literal, Use} <- Mentions,
                                            Use =/= compared].

mentioned(Mentions, Terms) ->
    lists:foldl(fun term/2,
                {[Atom || {atom, Atom, value} <- Mentions],
                 [Atom || {atom, Atom, tag} <- Mentions], []}, Terms).

term(Atom, {As, Ts, Fs}) when is_atom(Atom) -> {[Atom | As], Ts, Fs};
term([Head | Tail], Found) -> term(Tail, term(Head, Found));
term(Tuple, {As, Ts, Fs}) when tuple_size(Tuple) > 0, is_atom(element(1, Tuple)) ->
    term(tl(tuple_to_list(Tuple)), {As, [element(1, Tuple) | Ts], Fs});
term(Tuple, Found) when is_tuple(Tuple) -> term(tuple_to_list(Tuple), Found);
%% The macros of logger.hrl put this map into the code. Nobody calls the function in it.
term(#{mfa := {_, _, _}, file := _, line := _}, Found) -> Found;
term(Map, Found) when is_map(Map) -> term(maps:values(Map), Found);
term(Fun, {As, Ts, Fs}) when is_function(Fun) ->
    {As, Ts, [mfa(Fun) | Fs]};
term(_, Found) -> Found.

%% Collects the atoms that are keys of maps, anywhere in a term.
keys([Head | Tail], Found) -> keys(Tail, keys(Head, Found));
keys(Tuple, Found) when is_tuple(Tuple) -> keys(tuple_to_list(Tuple), Found);
keys(Map, Found) when is_map(Map) ->
    keys(maps:values(Map), [Key || Key <- maps:keys(Map), is_atom(Key)] ++ Found);
keys(_, Found) -> Found.

%% A function that uses attributes has the atom or the chunk's name, in any position, such as a
%% pattern. Or it takes all information of the module.
names_read(Mentions, Calls) ->
    [attributes || lists:any(fun({_, F, A}) -> {F, A} =:= {module_info, 0} end, Calls)
                       orelse lists:any(fun({atom, attributes, _}) -> true;
                                           ({literal, Literal, _}) -> holds_attributes(Literal);
                                           (_) -> false
                                        end, Mentions)]
        ++ [own_attributes || {erlang, get_module_info, _} <- Calls]
        ++ [modules || {atom, modules, compared} <- Mentions].

%% The bytes are compared first, because converting all literals to terms takes time.
holds_attributes(Literal) ->
    case binary:match(Literal, [<<"attributes">>, <<"Attr">>]) of
        nomatch -> false;
        _ -> names_attributes(read(whittle_beam:literal(Literal)))
    end.

names_attributes(attributes) -> true;
names_attributes("Attr") -> true;
names_attributes(<<"Attr">>) -> true;
names_attributes([Head | Tail]) -> names_attributes(Head) orelse names_attributes(Tail);
names_attributes(Tuple) when is_tuple(Tuple) -> names_attributes(tuple_to_list(Tuple));
names_attributes(Map) when is_map(Map) -> names_attributes(maps:to_list(Map));
names_attributes(_) -> false.

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

%% Finds the calls of `apply', and the atoms that code put into a register for one of them and
%% that can be nowhere else. Such atoms stand in the same stretch of code. It also finds the keys
%% that the code asks `application:get_key/2' for.
sites([{move, [{atom, Atom}, {x, N}]} | Code], Held, Sites, Taken, Asked) ->
    sites(Code, Held#{N => Atom}, Sites, Taken, Asked);
sites([{move, [_, {x, N}]} | Code], Held, Sites, Taken, Asked) ->
    sites(Code, maps:remove(N, Held), Sites, Taken, Asked);
sites([{Apply, [Arity | _]} | Code], Held, Sites, Taken, Asked)
  when Apply =:= apply; Apply =:= apply_last ->
    Atoms = [maps:get(N, Held, any) || N <- [Arity, Arity + 1]],
    [Module, Function] = Atoms,
    sites(Code, #{}, [{Module, Function, Arity} | Sites],
          [Atom || Atom <- Atoms, Atom =/= any] ++ Taken, Asked);
sites([{_, [_, {extfunc, application, get_key, 2} | _]} | Code], Held, Sites, Taken, Asked) ->
    sites(Code, #{}, Sites, Taken, asked(maps:get(1, Held, any)) ++ Asked);
sites([{_, [_, {extfunc, application, get_all_key, 1} | _]} | Code], _, Sites, Taken, Asked) ->
    sites(Code, #{}, Sites, Taken, [application_key | Asked]);
sites([{swap, [One, Other]} | Code], Held, Sites, Taken, Asked) ->
    sites(Code, put_at(One, at(Other, Held), put_at(Other, at(One, Held), Held)), Sites, Taken,
          Asked);
sites([{get_tuple_element, [_, _, To]} | Code], Held, Sites, Taken, Asked) ->
    sites(Code, put_at(To, none, Held), Sites, Taken, Asked);
%% These instructions write no register that holds an argument.
sites([{Instruction, _} | Code], Held, Sites, Taken, Asked)
  when Instruction =:= line; Instruction =:= init_yregs; Instruction =:= trim ->
    sites(Code, Held, Sites, Taken, Asked);
sites([_ | Code], _, Sites, Taken, Asked) ->
    sites(Code, #{}, Sites, Taken, Asked);
sites([], _, Sites, Taken, Asked) ->
    {Sites, Taken, Asked}.

asked(modules) -> [module_list];
asked(any) -> [application_key];
asked(_) -> [].

at({x, N}, Held) -> maps:get(N, Held, none);
at(_, _) -> none.

put_at({x, N}, none, Held) -> maps:remove(N, Held);
put_at({x, N}, Atom, Held) -> Held#{N => Atom};
put_at(_, _, Held) -> Held.

with_instruction(Name, Functions) ->
    lists:sort([FA || {FA, #{code := Code}} <- maps:to_list(Functions),
                      lists:keymember(Name, 1, Code)]).

is_loader(Summaries) -> lists:any(fun loads/1, maps:values(Summaries)).

loads(#{calls := Calls}) -> lists:member({erlang, load_nif, 2}, Calls).

%% @doc Estimates the bytes of code: one for an instruction and two for an operand. The ledger of
%% reasons weighs functions by this estimate.
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
