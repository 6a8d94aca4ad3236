%% @doc Finds calls whose module and function are atoms in the code, although the call does not
%% stand in the table of imports: `spawn_link(ssh, start, [])', `rpc:call(Node, ssh, start, [])',
%% `ssh:Function()', the fun `ssh:start/0' as a value, and the child specification
%% `#{start => {ssh, start, []}}'. It also finds applications that the code starts or loads by name:
%% `application:ensure_all_started(ssh)'.
-module(whittle_beam_calls).

-export([uses/1, passed/1]).

-export_type([call/0, use/0]).

%% The function or the arity is `any' if the code does not show it.
-type call() :: {module(), atom() | any, arity() | any}.

%% The function of `start' starts or loads the application.
-type use() :: {call, call()} | {start, Application :: atom(), {module(), atom()}}.

%% The functions that call the function that their arguments name, and the place of the module among
%% these arguments. The function and the list of arguments, or the arity, follow it.
-define(CALLERS,
        [{erlang, 0, [{apply, 3}, {make_fun, 3}, {spawn, 3}, {spawn_link, 3}, {spawn_monitor, 3},
                      {spawn_opt, 4}, {spawn_request, 3}]},
         {erlang, 1, [{spawn, 4}, {spawn_link, 4}, {spawn_monitor, 4}, {spawn_opt, 5},
                      {spawn_request, 5}]},
         {proc_lib, 0, [{spawn, 3}, {spawn_link, 3}, {spawn_monitor, 3}, {spawn_opt, 4},
                        {start, 3}, {start, 4}, {start, 5}, {start_link, 3}, {start_link, 4},
                        {start_link, 5}, {start_monitor, 3}, {start_monitor, 4},
                        {start_monitor, 5}]},
         {proc_lib, 1, [{spawn, 4}, {spawn_link, 4}, {spawn_opt, 5}]},
         {timer, 0, [{tc, 3}, {tc, 4}]},
         {timer, 1, [{apply_after, 4}, {apply_interval, 4}, {apply_repeatedly, 4}]},
         {rpc, 0, [{multicall, 3}, {eval_everywhere, 3}]},
         {rpc, 1, [{call, 4}, {call, 5}, {block_call, 4}, {block_call, 5}, {async_call, 4},
                   {cast, 4}, {multicall, 5}, {eval_everywhere, 4}]},
         {erpc, 1, [{call, 4}, {call, 5}, {cast, 4}, {multicall, 4}, {multicall, 5},
                    {multicast, 4}, {send_request, 4}, {send_request, 6}]}]).

%% The functions that start or load the applications that their first argument names.
-define(STARTERS,
        [{application, [{ensure_all_started, 1}, {ensure_all_started, 2}, {ensure_all_started, 3},
                        {ensure_started, 1}, {ensure_started, 2}, {load, 1}, {load, 2}, {start, 1},
                        {start, 2}, {start_boot, 1}, {start_boot, 2}]},
         {'Elixir.Application', [{ensure_all_started, 1}, {ensure_all_started, 2},
                                 {ensure_loaded, 1}, {ensure_started, 1}, {ensure_started, 2},
                                 {load, 1}, {start, 1}, {start, 2}]}]).

-define(IS_RESTART(Restart),
        (Restart =:= permanent orelse Restart =:= transient orelse Restart =:= temporary)).

%% @doc Lists the uses in a module, sorted.
-spec uses(whittle_beam_module:t()) -> [use()].
uses(Module) ->
    Known = known(),
    lists:usort([Use || Function <- maps:values(whittle_beam_module:functions(Module)),
                        Use <- in_function(Function, Known)]).

%% @doc Lists for each function of a module which functions it passes on to another one that calls
%% them, such as `spawn/3': those whose name and arity the code shows.
-spec passed(whittle_beam_module:t()) -> #{{atom(), arity()} => [mfa()]}.
passed(Module) ->
    Known = known(),
    maps:map(fun(_, #{code := Code}) ->
                     lists:usort([{M, F, A} || {passed, {M, F, A}} <- uses(Code, #{}, Known),
                                              F =/= any, is_integer(A)])
             end, whittle_beam_module:functions(Module)).

%% Internal

known() ->
    Called = maps:from_list([{{M, F, A}, {call, Place}} || {M, Place, Functions} <- ?CALLERS,
                                                           {F, A} <- Functions]),
    Started = maps:from_list([{{M, F, A}, start} || {M, Functions} <- ?STARTERS,
                                                    {F, A} <- Functions]),
    maps:merge(Called, Started).

in_function(#{code := Code} = Function, Known) ->
    [case Use of {passed, Call} -> {call, Call}; _ -> Use end || Use <- uses(Code, #{}, Known)]
        ++ [{call, Call} || {literal, Literal, Place} <- whittle_beam_module:references(Function),
                            Place =:= value orelse Place =:= tag,
                            {ok, Term} <- [whittle_beam:literal(Literal)],
                            Call <- in_term(Term)].

%% Finds funs of modules and child specifications. A literal has no other funs.
in_term(Fun) when is_function(Fun) ->
    [list_to_tuple([element(2, erlang:fun_info(Fun, Item)) || Item <- [module, name, arity]])];
in_term([Head | Tail]) ->
    in_term(Head) ++ in_term(Tail);
in_term(Map) when is_map(Map) ->
    called(value(maps:get(start, Map, none))) ++ in_term(maps:to_list(Map));
in_term(Tuple) when is_tuple(Tuple) ->
    Child = case Tuple of
                {_, Start, Restart, _, _, _} when ?IS_RESTART(Restart) -> called(value(Start));
                _ -> []
            end,
    Child ++ in_term(tuple_to_list(Tuple));
in_term(_) ->
    [].

%% Held has the values that this stretch of code put into registers, as far as they are known:
%% atoms, whole numbers, lists, and functions with a list of arguments.
uses([{move, [From, To]} | Code], Held, Known) ->
    uses(Code, put_at(To, held(From, Held), Held), Known);
uses([{put_list, [Head, Tail, To]} | Code], Held, Known) ->
    List = case held(Tail, Held) of
               {list, Elements} -> {list, [held(Head, Held) | Elements]};
               _ -> none
           end,
    uses(Code, put_at(To, List, Held), Known);
uses([{put_tuple2, [To, {list, Elements}]} | Code], Held, Known) ->
    {Value, Found} = case [held(Element, Held) || Element <- Elements] of
                         [{atom, M}, {atom, F}, Arguments] -> {function(M, F, Arguments), []};
                         [_, Start, {atom, Restart}, _, _, _] when ?IS_RESTART(Restart) ->
                             {none, called(Start)};
                         _ -> {none, []}
                     end,
    calls(Found) ++ uses(Code, put_at(To, Value, Held), Known);
uses([{Put, [_, _, To, _, {list, Pairs}]} | Code], Held, Known)
  when Put =:= put_map_assoc; Put =:= put_map_exact ->
    calls(started(Pairs, Held)) ++ uses(Code, put_at(To, none, Held), Known);
uses([{swap, [One, Other]} | Code], Held, Known) ->
    Swapped = put_at(Other, held(One, Held), put_at(One, held(Other, Held), Held)),
    uses(Code, Swapped, Known);
uses([{Apply, [Arity | _]} | Code], Held, Known) when Apply =:= apply; Apply =:= apply_last ->
    calls(called(Arity, {list, lists:duplicate(Arity, none)}, Held))
        ++ uses(Code, after_call(Held), Known);
uses([{Call, [_, {extfunc, M, F, A} | _]} | Code], Held, Known)
  when Call =:= call_ext; Call =:= call_ext_last; Call =:= call_ext_only ->
    Found = case Known of
                #{{M, F, A} := {call, Place}} ->
                    [{passed, Passed} || Passed <- called(Place, held({x, Place + 2}, Held), Held)];
                #{{M, F, A} := start} ->
                    [{start, App, {M, F}} || App <- atoms(held({x, 0}, Held))];
                _ -> []
            end,
    Found ++ uses(Code, after_call(Held), Known);
uses([{Call, _} | Code], Held, Known)
  when Call =:= call; Call =:= call_fun; Call =:= call_fun2 ->
    uses(Code, after_call(Held), Known);
%% These instructions write no register that holds a value.
uses([{Instruction, _} | Code], Held, Known)
  when Instruction =:= line; Instruction =:= init_yregs; Instruction =:= allocate;
       Instruction =:= allocate_heap; Instruction =:= deallocate; Instruction =:= test_heap;
       Instruction =:= executable_line; Instruction =:= debug_line ->
    uses(Code, Held, Known);
%% This instruction gives other numbers to the registers of the stack.
uses([{trim, _} | Code], Held, Known) ->
    uses(Code, maps:filter(fun({Kind, _}, _) -> Kind =:= x end, Held), Known);
uses([_ | Code], _, Known) ->
    uses(Code, #{}, Known);
uses([], _, _) ->
    [].

calls(Calls) -> [{call, Call} || Call <- Calls].

%% Returns the call of the function whose module is in the register of this place.
called(Place, Arguments, Held) ->
    case {held({x, Place}, Held), held({x, Place + 1}, Held)} of
        {{atom, Module}, {atom, Function}} -> [{Module, Function, arity(Arguments)}];
        {{atom, Module}, _} -> [{Module, any, arity(Arguments)}];
        _ -> []
    end.

called({function, Call}) -> [Call];
called(_) -> [].

%% Returns the function of a child specification that the code builds as a map.
started([{atom, start}, Value | _], Held) -> called(held(Value, Held));
started([_, _ | Pairs], Held) -> started(Pairs, Held);
started([], _) -> [].

%% An atom or a number as the third element makes another tuple of it.
function(_, _, {Kind, _}) when Kind =:= atom; Kind =:= integer -> none;
function(Module, Function, Arguments) -> {function, {Module, Function, arity(Arguments)}}.

arity({list, Elements}) -> length(Elements);
arity({integer, Arity}) -> Arity;
arity(_) -> any.

atoms({atom, Atom}) -> [Atom];
atoms({list, Elements}) -> [Atom || {atom, Atom} <- Elements];
atoms(_) -> [].

after_call(Held) -> maps:filter(fun({Kind, _}, _) -> Kind =:= y end, Held).

held({tr, Register, _}, Held) -> held(Register, Held);
held({Kind, _} = Register, Held) when Kind =:= x; Kind =:= y -> maps:get(Register, Held, none);
held({Kind, _} = Value, _) when Kind =:= atom; Kind =:= integer -> Value;
held(nil, _) -> {list, []};
held({literal, Literal}, _) ->
    case whittle_beam:literal(Literal) of
        {ok, Term} -> value(Term);
        {error, _} -> none
    end;
held(_, _) -> none.

value(none) -> none;
value(Atom) when is_atom(Atom) -> {atom, Atom};
value(List) when length(List) >= 0 -> {list, [value(Element) || Element <- List]};
value({M, F, Arguments}) when is_atom(M), is_atom(F), is_list(Arguments) ->
    function(M, F, value(Arguments));
value(_) -> none.

put_at(Register, none, Held) -> maps:remove(Register, Held);
put_at(Register, Value, Held) -> Held#{Register => Value}.
