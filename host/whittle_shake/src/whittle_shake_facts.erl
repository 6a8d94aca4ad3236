%% @doc What each function of a module does with other functions, and what flows
%% through it: which of its parameters, of what it calls and of its constants come
%% into which argument, call, pool or into its own result.
%%
%% A function is run once on abstract values: a value is the set of things that it
%% may be or hold, and a data structure is one value with all that was put into it.
%% Registers are followed through the blocks until nothing is added at any label.
%% Nothing here knows of other modules, so a module's facts are its own.
-module(whittle_shake_facts).

-export([module/1]).

-export_type([facts/0, token/0, dest/0, site/0, pool/0]).

%% What a value may be or hold.
-type token() ::
        {atom, atom()}
      | {lambda, {atom(), arity()}}             % a fun of this module's
      | {'fun', mfa()}                          % `fun M:F/A'
      | {param, non_neg_integer()}              % what came as this argument, from 0
      | {result, mfa()}                         % what that function returns
      | {site, non_neg_integer()}               % what that site gives
      | {pool, pool()}.

%% What leaves the code and comes back elsewhere.
-type pool() :: messages | exceptions.

-type dest() ::
        {arg, mfa(), non_neg_integer()}
      | result
      | {pool, pool()}.

%% A call whose function is not written out. Arguments are one by one, or all in a
%% list of unknown length.
-type site() ::
        {apply, Number :: non_neg_integer(), M :: [token()], F :: [token()], args()}
      | {call_fun, Number :: non_neg_integer(), Fun :: [token()], args()}
      | {make_fun, Number :: non_neg_integer(), M :: [token()], F :: [token()],
         arity() | any}.
-type args() :: {each, [[token()]]} | {list, [token()]}.

-type facts() ::
        #{calls := [mfa()],
          lambdas := [{atom(), arity()}],
          atoms := [atom()],                    % that are values
          sites := [site()],
          flows := [{dest(), [token()]}]}.

%% The registers at one place, and the labels that an exception leads to, by the y
%% register that says so, the innermost first.
-record(at, {regs = #{} :: #{whittle_beam_module:operand() => [token()]},
             handlers = [] :: [{non_neg_integer(), pos_integer()}]}).

-record(run, {module :: module(),
              labels = #{} :: #{pos_integer() => #at{}},
              calls = #{} :: #{mfa() => []},
              lambdas = #{} :: #{{atom(), arity()} => []},
              atoms = #{} :: #{atom() => []},
              sites = #{} :: #{non_neg_integer() => site()},
              flows = #{} :: #{dest() => [token()]},
              literals = #{} :: #{binary() => [token()]},
              number = 0 :: non_neg_integer()}).

%% @doc The facts of each function.
-spec module(whittle_beam_module:t()) -> #{{atom(), arity()} => facts()}.
module(#{module := Module, functions := Functions}) ->
    {Facts, _} = lists:mapfoldl(
                   fun(#{name := F, arity := A} = Function, Literals) ->
                           Run = function(Function, #run{module = Module,
                                                         literals = Literals}),
                           {{{F, A}, facts(Run)}, Run#run.literals}
                   end, #{}, Functions),
    maps:from_list(Facts).

facts(#run{calls = Calls, lambdas = Lambdas, atoms = Atoms, sites = Sites, flows = Flows}) ->
    #{calls => maps:keys(Calls), lambdas => maps:keys(Lambdas), atoms => maps:keys(Atoms),
      sites => maps:values(Sites), flows => maps:to_list(Flows)}.

function(#{arity := Arity, code := Code}, Run) ->
    Params = maps:from_list([{{x, I}, [{param, I}]} || I <- lists:seq(0, Arity - 1)]),
    passes(Code, #at{regs = Params}, Run).

%% A jump back can add to a label that was passed.
passes(Code, Start, #run{labels = Labels} = Run) ->
    case pass(Code, Start, Run#run{number = 0}) of
        #run{labels = Labels} = Same -> Same;
        More -> passes(Code, Start, More)
    end.

%% `dead': no way leads here but by a label.
pass([{label, [Label]} | Code], At, #run{labels = Labels} = Run) ->
    Here = join(At, maps:get(Label, Labels, dead)),
    pass(Code, Here, case Here of
                         dead -> Run;
                         _ -> Run#run{labels = Labels#{Label => Here}}
                     end);
pass([_ | Code], dead, Run) ->
    pass(Code, dead, numbered(Run));
pass([{Name, Operands} = Instruction | Code], At, Run) ->
    Jumped = jumps(Operands, At, Run),
    {Next, Done} = step(Name, Operands, At, numbered(Jumped)),
    pass(Code, Next, raised(Instruction, At, Next, Done));
pass([], _, Run) ->
    Run.

%% Sites are numbered by their instruction's place, the same in each pass.
numbered(#run{number = Number} = Run) -> Run#run{number = Number + 1}.

join(dead, At) -> At;
join(At, dead) -> At;
join(At, At) -> At;
join(#at{regs = One, handlers = H}, #at{regs = Other, handlers = G}) ->
    #at{regs = maps:merge_with(fun(_, A, B) -> union(A, B) end, One, Other),
        handlers = case H of G -> G; _ -> lists:usort(H ++ G) end}.

union(Same, Same) -> Same;
union([], Set) -> Set;
union(Set, []) -> Set;
union(A, B) -> ordsets:union(A, B).

jumps(Operands, At, Run) ->
    lists:foldl(fun({f, Label}, R) when Label =/= 0 -> to_label(Label, At, R);
                   ({list, List}, R) -> jumps([Each || {f, _} = Each <- List], At, R);
                   (_, R) -> R
                end, Run, Operands).

to_label(Label, At, #run{labels = Labels} = Run) ->
    case Labels of
        #{Label := Before} -> Run#run{labels = Labels#{Label := join(At, Before)}};
        _ -> Run#run{labels = Labels#{Label => At}}
    end.

%% Where an exception is caught, the y registers hold what they held at any place
%% before: each instruction between adds what it leaves.
raised(_, _, dead, Run) -> Run;
raised(_, #at{handlers = []}, #at{handlers = []}, Run) -> Run;
raised(_, _, #at{regs = Regs, handlers = Handlers} = At, Run) ->
    Kept = At#at{regs = maps:filter(fun({y, _}, _) -> true; (_, _) -> false end, Regs)},
    caught_at(Handlers, Kept, Run).

%% At a handler those within it are gone.
caught_at([{_, Label} | Outer] = Handlers, At, Run) ->
    caught_at(Outer, At, to_label(Label, At#at{handlers = Handlers}, Run));
caught_at([], _, Run) ->
    Run.

%% Instructions: each gives what is behind it, `dead' if nothing is.

step(move, [From, To], At, Run) -> copy([From], To, At, Run);
step(swap, [A, B], At, Run) ->
    {Va, Run1} = value(A, At, Run),
    {Vb, Run2} = value(B, At, Run1),
    {set(A, Vb, set(B, Va, At)), Run2};
step(get_list, [From, Head, Tail], At, Run) ->
    {Value, Run1} = value(From, At, Run),
    {set(Tail, Value, set(Head, Value, At)), Run1};
step(get_hd, [From, To], At, Run) -> copy([From], To, At, Run);
step(get_tl, [From, To], At, Run) -> copy([From], To, At, Run);
step(get_tuple_element, [From, _, To], At, Run) -> copy([From], To, At, Run);
step(put_list, [Head, Tail, To], At, Run) -> copy([Head, Tail], To, At, Run);
step(put_tuple2, [To, {list, Elements}], At, Run) -> copy(Elements, To, At, Run);
step(set_tuple_element, [From, To, _], At, Run) -> copy([From, To], To, At, Run);
step(update_record, [_, _, From, To, {list, Updates}], At, Run) ->
    copy([From | Updates], To, At, Run);
step(Put, [_, From, To, _, {list, Pairs}], At, Run)
  when Put =:= put_map_assoc; Put =:= put_map_exact ->
    copy([From | Pairs], To, At, Run);
step(put_record, [_, _, From, To, _, {list, Pairs}], At, Run) ->
    copy([From | Pairs], To, At, Run);
step(Get, [_, From, {list, Pairs}], At, Run)
  when Get =:= get_map_elements; Get =:= get_record_elements ->
    {Value, Run1} = value(From, At, Run),
    {got(Pairs, Value, At), Run1};
step(get_record_field, [_, From, _, _, To], At, Run) -> copy([From], To, At, Run);
step(bif0, [Bif, To], At, Run) -> bif(Bif, [], To, At, Run);
step(bif1, [_, Bif, A, To], At, Run) -> bif(Bif, [A], To, At, Run);
step(bif2, [_, Bif, A, B, To], At, Run) -> bif(Bif, [A, B], To, At, Run);
step(bif3, [_, Bif, A, B, C, To], At, Run) -> bif(Bif, [A, B, C], To, At, Run);
step(gc_bif1, [_, _, Bif, A, To], At, Run) -> bif(Bif, [A], To, At, Run);
step(gc_bif2, [_, _, Bif, A, B, To], At, Run) -> bif(Bif, [A, B], To, At, Run);
step(gc_bif3, [_, _, Bif, A, B, C, To], At, Run) -> bif(Bif, [A, B, C], To, At, Run);
step(make_fun2, [Lambda], #at{regs = Regs} = At, Run) ->
    {lambda, _, Arity, _} = Lambda,
    Brought = [{x, I} || {{x, I}, _} <- maps:to_list(Regs), I < Arity],
    lambda(Lambda, lists:sort(Brought), {x, 0}, At, Run);
step(make_fun3, [Lambda, To, {list, Free}], At, Run) ->
    lambda(Lambda, Free, To, At, Run);
step(call, [Arity, {local, F, A}], At, #run{module = M} = Run) ->
    call({M, F, A}, Arity, At, Run);
step(call_ext, [Arity, {extfunc, M, F, A}], At, Run) -> call({M, F, A}, Arity, At, Run);
step(call_fun, [Arity], At, Run) -> call_fun({x, Arity}, Arity, At, Run);
step(call_fun2, [_, Arity, Fun], At, Run) -> call_fun(Fun, Arity, At, Run);
step(apply, [Arity], At, Run) ->
    {M, Run1} = value({x, Arity}, At, Run),
    {F, Run2} = value({x, Arity + 1}, At, Run1),
    {Args, Run3} = arguments(Arity, At, Run2),
    site({apply, Run#run.number, M, F, {each, Args}}, At, Run3);
step(apply_last, [Arity, _], At, Run) -> last(step(apply, [Arity], At, Run));
step(call_only, [Arity, To], At, Run) -> last(step(call, [Arity, To], At, Run));
step(call_last, [Arity, To, _], At, Run) -> last(step(call, [Arity, To], At, Run));
step(call_ext_only, [Arity, To], At, Run) -> last(step(call_ext, [Arity, To], At, Run));
step(call_ext_last, [Arity, To, _], At, Run) -> last(step(call_ext, [Arity, To], At, Run));
step(return, [], At, Run) -> last({At, Run});
step(send, [], At, Run) ->
    {Message, Run1} = value({x, 1}, At, Run),
    {set({x, 0}, Message, At), flow({pool, messages}, Message, Run1)};
step(loop_rec, [_, To], At, Run) -> {set(To, [{pool, messages}], At), Run};
step(Catch, [{y, I} = Y, {f, Label}], #at{handlers = Handlers} = At, Run)
  when Catch =:= 'catch'; Catch =:= 'try' ->
    {set(Y, [], At#at{handlers = [{I, Label} | Handlers]}), Run};
step(catch_end, [Y], #at{regs = Regs} = At, Run) ->
    Value = union([{pool, exceptions}], maps:get({x, 0}, Regs, [])),
    {set({x, 0}, Value, left(Y, At)), Run};
step(try_end, [Y], At, Run) -> {left(Y, At), Run};
step(try_case, [Y], At, Run) -> {caught({x, 2}, caught({x, 1}, left(Y, At))), Run};
step(Raise, Operands, At, Run)
  when Raise =:= badmatch; Raise =:= case_end; Raise =:= try_case_end; Raise =:= badrecord;
       Raise =:= raise ->
    {Values, Run1} = values(Operands, At, Run),
    {dead, flow({pool, exceptions}, Values, Run1)};
step(raw_raise, [], At, Run) ->
    {Value, Run1} = value({x, 1}, At, Run),
    {At, flow({pool, exceptions}, Value, Run1)};
step(trim, [N, _], #at{regs = Regs, handlers = Handlers} = At, Run) ->
    Moved = maps:fold(fun({y, I}, Value, Map) when I >= N -> Map#{{y, I - N} => Value};
                         ({y, _}, _, Map) -> Map;
                         (X, Value, Map) -> Map#{X => Value}
                      end, #{}, Regs),
    {At#at{regs = Moved, handlers = [{Y - N, Label} || {Y, Label} <- Handlers, Y >= N]}, Run};
step(init_yregs, [{list, Ys}], At, Run) ->
    {lists:foldl(fun(Y, A) -> set(Y, [], A) end, At, Ys), Run};
step(Stop, _, _, Run)
  when Stop =:= jump; Stop =:= select_val; Stop =:= select_tuple_arity; Stop =:= wait;
       Stop =:= loop_rec_end; Stop =:= if_end; Stop =:= func_info ->
    {dead, Run};
step(_, _, At, Run) ->
    %% Tests, arithmetic and binaries: what they leave holds no function's name, and
    %% what was there before stays, which is only ever too much.
    {At, Run}.

left({y, I}, #at{handlers = Handlers} = At) ->
    At#at{handlers = [Handler || {Y, _} = Handler <- Handlers, Y =/= I]}.

caught(To, At) -> set(To, [{pool, exceptions}], At).

%% The result is what x0 holds behind a call that does not come back.
last({dead, Run}) -> {dead, Run};
last({At, Run}) ->
    {Value, Run1} = value({x, 0}, At, Run),
    {dead, flow(result, Value, Run1)}.

copy(From, To, At, Run) ->
    {Value, Run1} = values(From, At, Run),
    {set(To, Value, At), Run1}.

got([_Key, To | Pairs], Value, At) -> got(Pairs, Value, set(To, Value, At));
got([], _, At) -> At.

%% BIFs that give back what they were given, or a part; the process dictionary; the
%% others give numbers, booleans and binaries.
bif({extfunc, erlang, Name, Arity}, From, To, At, Run) ->
    case Name of
        element -> copy(tl(From), To, At, Run);
        map_get -> copy(tl(From), To, At, Run);
        _ when Name =:= hd; Name =:= tl; Name =:= min; Name =:= max ->
            copy(From, To, At, Run);
        get ->
            {set(To, [{result, {erlang, get, Arity}}], At), called({erlang, get, Arity}, Run)};
        _ ->
            {_, Run1} = values(From, At, Run),
            {set(To, [], At), Run1}
    end.

lambda({lambda, F, A, _}, Free, To, At, #run{module = M, lambdas = Lambdas} = Run) ->
    First = A - length(Free),
    {_, Run1} = lists:foldl(fun(From, {I, R}) ->
                                    {Value, R1} = value(From, At, R),
                                    {I + 1, flow({arg, {M, F, A}, I}, Value, R1)}
                            end, {First, Run}, Free),
    {set(To, [{lambda, {F, A}}], At), Run1#run{lambdas = Lambdas#{{F, A} => []}}}.

call({erlang, Name, Arity} = Mfa, Arity, At, Run) ->
    {Args, Run1} = arguments(Arity, At, Run),
    case indirect(Name, Args) of
        {Kind, M, F, List} -> site({Kind, Run#run.number, M, F, List}, At, called(Mfa, Run1));
        {Kind, Fun, List} -> site({Kind, Run#run.number, Fun, List}, At, called(Mfa, Run1));
        none -> direct(Mfa, Args, At, Run1)
    end;
call(Mfa, Arity, At, Run) ->
    {Args, Run1} = arguments(Arity, At, Run),
    direct(Mfa, Args, At, Run1).

direct(Mfa, Args, At, Run) ->
    {_, Run1} = lists:foldl(fun(Value, {I, R}) ->
                                    {I + 1, flow({arg, Mfa, I}, Value, R)}
                            end, {0, called(Mfa, Run)}, Args),
    {after_call([{result, Mfa}], At), Run1}.

%% Natives that call what they are told.
indirect(apply, [Fun, Args]) -> {call_fun, Fun, {list, Args}};
indirect(make_fun, [M, F, _]) -> {make_fun, M, F, any};
indirect(Name, Args) ->
    case {Name, Args} of
        {_, [M, F, List]} when Name =:= apply; Name =:= spawn; Name =:= spawn_link;
                               Name =:= spawn_monitor; Name =:= hibernate;
                               Name =:= spawn_request ->
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

call_fun(Fun, Arity, At, Run) ->
    {Value, Run1} = value(Fun, At, Run),
    {Args, Run2} = arguments(Arity, At, Run1),
    site({call_fun, Run#run.number, Value, {each, Args}}, At, Run2).

site(Site, At, #run{sites = Sites} = Run) ->
    Number = element(2, Site),
    {after_call([{site, Number}], At), Run#run{sites = Sites#{Number => Site}}}.

arguments(Arity, At, Run) ->
    lists:mapfoldl(fun(I, R) -> value({x, I}, At, R) end, Run, lists:seq(0, Arity - 1)).

called(Mfa, #run{calls = Calls} = Run) -> Run#run{calls = Calls#{Mfa => []}}.

%% A call leaves x0 and the y registers.
after_call(Value, #at{regs = Regs} = At) ->
    Ys = maps:filter(fun({y, _}, _) -> true; (_, _) -> false end, Regs),
    At#at{regs = Ys#{{x, 0} => Value}}.

flow(_, [], Run) -> Run;
flow(Dest, Value, #run{flows = Flows} = Run) ->
    Run#run{flows = Flows#{Dest => union(Value, maps:get(Dest, Flows, []))}}.

set({tr, Register, _}, Value, At) -> set(Register, Value, At);
set({fr, _}, _, At) -> At;
set(Register, Value, #at{regs = Regs} = At) -> At#at{regs = Regs#{Register => Value}}.

values(Operands, At, Run) ->
    lists:foldl(fun(Operand, {Value, R}) ->
                        {More, R1} = value(Operand, At, R),
                        {union(More, Value), R1}
                end, {[], Run}, Operands).

value({tr, Register, _}, At, Run) -> value(Register, At, Run);
value({Kind, _} = Register, #at{regs = Regs}, Run) when Kind =:= x; Kind =:= y ->
    {maps:get(Register, Regs, []), Run};
value({atom, Atom} = Token, _, #run{atoms = Atoms} = Run) ->
    {[Token], Run#run{atoms = Atoms#{Atom => []}}};
value({literal, Binary}, _, #run{literals = Literals} = Run) ->
    case Literals of
        #{Binary := Tokens} ->
            {Tokens, of_literal(Tokens, Run)};
        _ ->
            Tokens = lists:usort(tokens(binary_to_term(Binary), [])),
            {Tokens, of_literal(Tokens, Run#run{literals = Literals#{Binary => Tokens}})}
    end;
value(_, _, Run) ->
    {[], Run}.

of_literal(Tokens, Run) ->
    lists:foldl(fun({atom, Atom}, #run{atoms = Atoms} = R) -> R#run{atoms = Atoms#{Atom => []}};
                   (_, R) -> R
                end, Run, Tokens).

tokens(Atom, Found) when is_atom(Atom) -> [{atom, Atom} | Found];
tokens([Head | Tail], Found) -> tokens(Tail, tokens(Head, Found));
tokens(Tuple, Found) when is_tuple(Tuple) -> tokens(tuple_to_list(Tuple), Found);
tokens(Map, Found) when is_map(Map) ->
    maps:fold(fun(Key, Value, F) -> tokens(Value, tokens(Key, F)) end, Found, Map);
tokens(Fun, Found) when is_function(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} ->
            [{_, M}, {_, F}, {_, A}] = [erlang:fun_info(Fun, I) || I <- [module, name, arity]],
            [{'fun', {M, F, A}} | Found];
        _ -> Found
    end;
tokens(_, Found) -> Found.
