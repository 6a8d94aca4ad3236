%% @hidden Finds calls whose module and function are atoms in the code, although the call does not
%% stand in the table of imports: `spawn_link(ssh, start, [])', `rpc:call(Node, ssh, start, [])',
%% `ssh:Function()'.
-module(whittle_named_calls).

-export([calls/1]).

-export_type([call/0]).

%% The function or the arity is `any' if the code does not show it.
-type call() :: {module(), atom() | any, arity() | any}.

%% The functions that call the function that their arguments name, and the place of the module among
%% these arguments. The function and the list of arguments follow it.
-define(CALLERS,
        [{erlang, 0, [{apply, 3}, {spawn, 3}, {spawn_link, 3}, {spawn_monitor, 3}, {spawn_opt, 4},
                      {spawn_request, 3}]},
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

%% @doc Lists the calls of a module, sorted.
-spec calls(whittle_beam_module:t()) -> [call()].
calls(Module) ->
    Places = maps:from_list([{{M, F, A}, Place} || {M, Place, Functions} <- ?CALLERS,
                                                   {F, A} <- Functions]),
    lists:usort(lists:append([calls(Code, #{}, Places)
                              || #{code := Code} <- maps:values(
                                                      whittle_beam_module:functions(Module))])).

%% Internal

%% Held has the atoms, and the lengths of lists, that this stretch of code put into registers.
calls([{move, [From, {x, N}]} | Code], Held, Places) ->
    calls(Code, put_at(N, value(From, Held), Held), Places);
calls([{put_list, [_, Tail, {x, N}]} | Code], Held, Places) ->
    List = case value(Tail, Held) of
               {list, Length} -> {list, Length + 1};
               _ -> none
           end,
    calls(Code, put_at(N, List, Held), Places);
calls([{swap, [One, Other]} | Code], Held, Places) ->
    Swapped = lists:foldl(fun({{x, N}, Value}, To) -> put_at(N, Value, To);
                             (_, To) -> To
                          end, Held, [{One, value(Other, Held)}, {Other, value(One, Held)}]),
    calls(Code, Swapped, Places);
calls([{Apply, [Arity | _]} | Code], Held, Places) when Apply =:= apply; Apply =:= apply_last ->
    called(Arity, Arity, Held) ++ calls(Code, #{}, Places);
calls([{Call, [_, {extfunc, M, F, A} | _]} | Code], Held, Places)
  when Call =:= call_ext; Call =:= call_ext_last; Call =:= call_ext_only ->
    case Places of
        #{{M, F, A} := Place} ->
            Arity = case Held of
                        #{Place + 2 := {list, Length}} -> Length;
                        _ -> any
                    end,
            called(Place, Arity, Held) ++ calls(Code, #{}, Places);
        _ -> calls(Code, #{}, Places)
    end;
%% These instructions write no register that holds an argument.
calls([{Instruction, _} | Code], Held, Places)
  when Instruction =:= line; Instruction =:= init_yregs; Instruction =:= trim;
       Instruction =:= allocate; Instruction =:= allocate_heap; Instruction =:= deallocate;
       Instruction =:= test_heap; Instruction =:= executable_line; Instruction =:= debug_line ->
    calls(Code, Held, Places);
calls([_ | Code], _, Places) ->
    calls(Code, #{}, Places);
calls([], _, _) ->
    [].

called(Place, Arity, Held) ->
    case Held of
        #{Place := {atom, Module}, Place + 1 := {atom, Function}} -> [{Module, Function, Arity}];
        #{Place := {atom, Module}} -> [{Module, any, Arity}];
        _ -> []
    end.

value({atom, _} = Atom, _) -> Atom;
value(nil, _) -> {list, 0};
value({literal, Literal}, _) ->
    case whittle_beam:literal(Literal) of
        {ok, [_ | _] = Term} ->
            try {list, length(Term)}
            catch error:badarg -> none
            end;
        _ -> none
    end;
value({x, N}, Held) -> maps:get(N, Held, none);
value({tr, Register, _}, Held) -> value(Register, Held);
value(_, _) -> none.

put_at(N, none, Held) -> maps:remove(N, Held);
put_at(N, Value, Held) -> Held#{N => Value}.
