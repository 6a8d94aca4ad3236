%% @doc What each function of a module does with others, and what flows through it:
%% what it calls with which arguments, what it makes, what it writes where, what it
%% returns.
%%
%% A function is run once on abstract values ({@link whittle_shake_value}), block by
%% block, until nothing is added at any label. Nothing here knows of other modules, so
%% a module's facts are its own.
-module(whittle_shake_facts).

-import(whittle_shake_frame, [arg/2, changed/6, class/2, cons/3, entries/3, entry/3, field/4,
                              fresh/3, got/6, held/2, number/1, numbered/1, partly/5, set/3,
                              split/3, tokens/2, tuple/3, updates/3, value/3, values/3, write/3]).
-import(whittle_shake_branch, [equal/4, no_atom/3, sized/3, narrowed/3]).
-import(whittle_shake_call, [arguments/2, bif/5, called/4, call_fun/4, effects/4, lambda/5,
                             site/4]).

-export([module/1, call/2, native/1, anything/1, vm/0]).

-export_type([facts/0, site/0, args/0, made/0, write/0]).

-type arg() :: whittle_shake_value:arg().

%% A call, what makes a fun, or what reads an element; `{site, Id}' is what it gives.
-type site() ::
        {call, id(), mfa(), [arg()]}
      | {apply, id(), M :: arg(), F :: arg(), args()}
      | {call_fun, id(), Fun :: arg(), args()}
      | {make_fun, id(), M :: arg(), F :: arg()}
      | {lambda, id(), {atom(), arity()}, Free :: [arg()]}
      | {get, id(), Tuple :: [whittle_shake_value:token()], whittle_shake_value:class(),
         Index :: non_neg_integer() | any}.
-type id() :: whittle_shake_value:site().

%% Arguments one by one, or all in a list of unknown length.
-type args() :: {each, [arg()]} | {list, arg()}.

%% A tuple that is built: its elements, or what all of them may be where nothing is known
%% of sizes and places; and the tuple that the elements come from which are not given.
-type made() :: {id(), [arg()] | {any, arg()}, Rest :: [whittle_shake_value:token()]}.

-type write() :: {result | whittle_shake_value:place(), [whittle_shake_value:token()]}.

-type facts() ::
        #{natives := [mfa()],                   % called, and all that they do is written
          sites := [site()],
          tuples := [made()],                   % what is within another before it
          writes := [write()],
          on_load => true}.

-include("whittle_shake_frame.hrl").

%% @doc The facts of each function.
-spec module(whittle_beam_module:t()) -> #{{atom(), arity()} => facts()}.
module(#{module := Module, functions := Functions}) ->
    maps:from_list([{{F, A}, facts(function(Function, #run{module = Module}))}
                    || #{name := F, arity := A} = Function <- Functions]).

%% @doc The facts of a call from outside, with terms as arguments.
-spec call(mfa(), [term()]) -> facts().
call(Mfa, Terms) ->
    {Values, Run} = lists:mapfoldl(fun whittle_shake_frame:literal/2, #run{}, Terms),
    {_, Done} = called(Mfa, Values, #at{}, numbered(Run)),
    facts(Done).

%% @doc The facts of a function in C, as its table says; `unknown' when it does not.
-spec native(mfa()) -> facts() | unknown.
native({_, _, Arity} = Mfa) ->
    At = #at{regs = params(Arity)},
    case whittle_shake_call:call(Mfa, arguments(Arity, At), At, numbered(#run{})) of
        {_, #run{sites = [{call, _, _, _} | _]}} -> unknown;
        Done ->
            {dead, Run} = last(Done),
            facts(Run)
    end.

%% @doc The facts of one of which nothing is known.
-spec anything(arity()) -> facts().
anything(Arity) -> of_effects(whittle_shake_native:anything(Arity), Arity).

%% @doc The facts of the VM.
-spec vm() -> facts().
vm() -> of_effects(whittle_shake_native:vm(), 0).

of_effects(Effects, Arity) ->
    At = #at{regs = params(Arity)},
    {Tokens, Run} = effects(Effects, list_to_tuple(arguments(Arity, At)), At, #run{}),
    facts(whittle_shake_frame:write_tokens(result, Tokens, Run)).

facts(#run{natives = Natives, sites = All, tuples = Tuples, writes = Writes} = Run) ->
    Sites = asked_for(All, Tuples, Writes),
    Facts = #{natives => maps:keys(Natives), sites => Sites,
              tuples => lists:reverse(Tuples),
              writes => maps:to_list(Writes)},
    case Run#run.on_load of
        true -> Facts#{on_load => true};
        false -> Facts
    end.

%% Without the elements that were read and not used, or read again when more was known.
asked_for(Sites, Tuples, Writes) ->
    Gets = maps:from_list([{Id, Tuple} || {get, Id, Tuple, _, _} <- Sites]),
    Others = [Site || Site <- Sites, element(1, Site) =/= get],
    Asked = used([Others, Tuples, maps:values(Writes)], Gets, #{}),
    Others ++ [Get || {get, Id, _, _, _} = Get <- Sites, is_map_key(Id, Asked)].

used({site, Id}, Gets, Asked) ->
    case Gets of
        #{Id := Tuple} when not is_map_key(Id, Asked) -> used(Tuple, Gets, Asked#{Id => []});
        _ -> Asked
    end;
used([Head | Tail], Gets, Asked) -> used(Tail, Gets, used(Head, Gets, Asked));
used(Tuple, Gets, Asked) when is_tuple(Tuple) -> used(tuple_to_list(Tuple), Gets, Asked);
used(_, _, Asked) -> Asked.

function(#{arity := Arity, code := Code}, Run) ->
    passes(Code, #at{regs = params(Arity)}, Run).

params(Arity) ->
    maps:from_list([{{x, I}, whittle_shake_value:new([{param, I}], {param, I})}
                    || I <- lists:seq(0, Arity - 1)]).

%% A jump back can add to a label that was passed. What the last pass finds is all.
passes(Code, Start, #run{module = Module, labels = Labels}) ->
    case pass(Code, Start, #run{module = Module, labels = Labels}) of
        #run{labels = Labels} = Done -> Done;
        More -> passes(Code, Start, More)
    end.

%% `dead': no way leads here but by a label.
pass([{label, [Label]} | Code], At, #run{labels = Labels} = Run) ->
    Here = whittle_shake_branch:join(Label, At, maps:get(Label, Labels, dead)),
    pass(Code, Here, case Here of
                         dead -> Run;
                         _ -> Run#run{labels = Labels#{Label => Here}}
                     end);
pass([_ | Code], dead, Run) ->
    pass(Code, dead, numbered(Run));
pass([{Name, Operands} = Instruction | Code], At, Run) ->
    Jumped = whittle_shake_branch:jumps(Name, Operands, At, Run),
    {Next, Done} = step(Name, Operands, At, numbered(Jumped)),
    pass(Code, Next, whittle_shake_branch:raised(Instruction, At, Next, Done));
pass([], _, Run) ->
    Run.

%% Instructions: each gives what is behind it, `dead' if nothing is.

step(move, [From, To], At, Run) ->
    {Value, Run1} = value(From, At, Run),
    {set(To, Value, At), Run1};
step(swap, [A, B], At, Run) ->
    {set(A, held(B, At), set(B, held(A, At), At)), Run};
step(get_list, [From, Head, Tail], At, Run) ->
    {Hd, Tl} = split(From, At, Run),
    {set(Tail, Tl, set(Head, Hd, At)), Run};
step(get_hd, [From, To], At, Run) -> {set(To, element(1, split(From, At, Run)), At), Run};
step(get_tl, [From, To], At, Run) -> {set(To, element(2, split(From, At, Run)), At), Run};
step(get_tuple_element, [From, Index, To], At, Run) ->
    {Value, Run1} = field(From, number(Index), At, Run),
    {set(To, Value, At), Run1};
step(put_list, [Head, Tail, To], At, Run) ->
    {Hd, Run1} = value(Head, At, Run),
    {Tl, Run2} = value(Tail, At, Run1),
    {set(To, cons(Hd, Tl, Run), At), Run2};
step(put_tuple2, [To, {list, Elements}], At, Run) ->
    {Values, Run1} = values(Elements, At, Run),
    {Tuple, Known, Run2} = tuple(Values, At, Run1),
    {set(To, Tuple, Known), Run2};
step(set_tuple_element, [From, To, Index], At, Run) ->
    {Value, Run1} = value(From, At, Run),
    {Changed, Next, Run2} = changed(held(To, At), class(To, At), number(Index), Value, At, Run1),
    {set(To, Changed, Next), Run2};
step(update_record, [_, Size, From, To, {list, Updates}], At, Run) ->
    {Record, Run1} = value(From, At, Run),
    {Tag, _} = class(From, At),
    {New, Run2} = updates(Updates, At, Run1),
    Elements = [maps:get(I, New, whittle_shake_value:none()) || I <- lists:seq(1, number(Size))],
    {Changed, Next, Run3} = partly(Record, {Tag, number(Size)}, Elements, At, Run2),
    {set(To, Changed, Next), Run3};
step(Put, [_, From, To, _, {list, Pairs}], At, Run)
  when Put =:= put_map_assoc; Put =:= put_map_exact ->
    {Map, Run1} = value(From, At, Run),
    {Tokens, Run2} = entries(Pairs, At, Run1),
    {set(To, fresh(ordsets:union(Tokens, whittle_shake_value:tokens(Map)), 0, Run), At), Run2};
step(put_record, [_, _, From, To, _, {list, Pairs}], At, Run) ->
    {Record, Run1} = value(From, At, Run),
    {Tokens, Run2} = entries(Pairs, At, Run1),
    {set(To, fresh(ordsets:union(Tokens, whittle_shake_value:tokens(Record)), 0, Run), At), Run2};
step(Get, [_, From, {list, Pairs}], At, Run)
  when Get =:= get_map_elements; Get =:= get_record_elements ->
    {Map, Run1} = value(From, At, Run),
    got(Pairs, 0, Map, At, At, Run1);
step(get_record_field, [_, From, _, Key, To], At, Run) ->
    {Record, Run1} = value(From, At, Run),
    {KeyValue, Run2} = value(Key, At, Run1),
    {Tokens, Run3} = entry(Record, KeyValue, Run2),
    {set(To, fresh(Tokens, 0, Run), At), Run3};
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
    called({M, F, A}, arguments(Arity, At), At, Run);
step(call_ext, [Arity, {extfunc, M, F, A}], At, Run) ->
    whittle_shake_call:call({M, F, A}, arguments(Arity, At), At, Run);
step(call_fun, [Arity], At, Run) -> call_fun({x, Arity}, Arity, At, Run);
step(call_fun2, [_, Arity, Fun], At, Run) -> call_fun(Fun, Arity, At, Run);
step(apply, [Arity], At, Run) ->
    Args = [arg(Value, At) || Value <- arguments(Arity, At)],
    M = arg(held({x, Arity}, At), At),
    F = arg(held({x, Arity + 1}, At), At),
    site(apply, [M, F, {each, Args}], At, Run);
step(apply_last, [Arity, _], At, Run) -> last(step(apply, [Arity], At, Run));
step(call_only, [Arity, To], At, Run) -> last(step(call, [Arity, To], At, Run));
step(call_last, [Arity, To, _], At, Run) -> last(step(call, [Arity, To], At, Run));
step(call_ext_only, [Arity, To], At, Run) -> last(step(call_ext, [Arity, To], At, Run));
step(call_ext_last, [Arity, To, _], At, Run) -> last(step(call_ext, [Arity, To], At, Run));
step(return, [], At, Run) -> last({At, Run});
step(send, [], At, Run) ->
    Message = held({x, 1}, At),
    {set({x, 0}, Message, At), write(messages, Message, Run)};
step(loop_rec, [_, To], At, Run) -> {set(To, fresh([{place, messages}], 0, Run), At), Run};
step(Catch, [{y, I} = Y, {f, Label}], #at{handlers = Handlers} = At, Run)
  when Catch =:= 'catch'; Catch =:= 'try' ->
    {set(Y, whittle_shake_value:none(), At#at{handlers = [{I, Label} | Handlers]}), Run};
step(catch_end, [Y], At, Run) ->
    Tokens = ordsets:union([{place, exceptions}], tokens({x, 0}, At)),
    {set({x, 0}, fresh(Tokens, 0, Run), left(Y, At)), Run};
step(try_end, [Y], At, Run) -> {left(Y, At), Run};
step(try_case, [Y], At, Run) ->
    {set({x, 2}, whittle_shake_value:none(),
         set({x, 1}, fresh([{place, exceptions}], 0, Run), left(Y, At))), Run};
step(Raise, [Operand], At, Run)
  when Raise =:= badmatch; Raise =:= case_end; Raise =:= try_case_end; Raise =:= badrecord ->
    {Value, Run1} = value(Operand, At, Run),
    {Tuple, _, Run2} = tuple([whittle_shake_value:atom(error_tag(Raise)), Value], At, Run1),
    {dead, write(exceptions, Tuple, Run2)};
step(raise, [_, Operand], At, Run) ->
    {Value, Run1} = value(Operand, At, Run),
    {dead, write(exceptions, Value, Run1)};
step(raw_raise, [], At, Run) ->
    {At, write(exceptions, held({x, 1}, At), Run)};
step(trim, [N, _], #at{regs = Regs, handlers = Handlers} = At, Run) ->
    Moved = maps:fold(fun({y, I}, Value, Map) when I >= N -> Map#{{y, I - N} => Value};
                         ({y, _}, _, Map) -> Map;
                         (X, Value, Map) -> Map#{X => Value}
                      end, #{}, Regs),
    {At#at{regs = Moved, handlers = [{Y - N, Label} || {Y, Label} <- Handlers, Y >= N]}, Run};
step(init_yregs, [{list, Ys}], At, Run) ->
    {lists:foldl(fun(Y, A) -> set(Y, whittle_shake_value:none(), A) end, At, Ys), Run};
step(is_tagged_tuple, [_, Register, Size, {atom, Tag}], At, Run) ->
    #at{known = Known} = Sized = sized(Register, number(Size), At),
    case whittle_shake_value:id(held(Register, At)) of
        none -> {Sized, Run};
        Id -> {Sized#at{known = Known#{Id => {{tag, Tag}, number(Size)}}}, Run}
    end;
step(test_arity, [_, Register, Size], At, Run) -> {sized(Register, number(Size), At), Run};
step(is_eq_exact, [_, A, B], At, Run) -> equal(A, B, At, Run);
step(Test, [_, Register], At, Run)
  when Test =:= is_binary; Test =:= is_bitstr;
       Test =:= is_integer; Test =:= is_float; Test =:= is_number; Test =:= is_pid;
       Test =:= is_reference; Test =:= is_port; Test =:= is_nil ->
    {Known, Run1} = no_atom(Register, At, Run),
    {narrowed(Register, [], Known), Run1};
step(Test, [_, Register], At, Run)
  when Test =:= is_nonempty_list; Test =:= is_tuple; Test =:= is_map ->
    no_atom(Register, At, Run);
step(on_load, [], At, Run) -> {At, Run#run{on_load = true}};
step(Stop, _, _, Run)
  when Stop =:= jump; Stop =:= select_val; Stop =:= select_tuple_arity; Stop =:= wait;
       Stop =:= loop_rec_end; Stop =:= if_end; Stop =:= func_info ->
    {dead, Run};
step(_, _, At, Run) ->
    %% Tests, arithmetic and binaries: what they leave holds no function's name, and
    %% what was there before stays, which is only ever too much.
    {At, Run}.

error_tag(badmatch) -> badmatch;
error_tag(case_end) -> case_clause;
error_tag(try_case_end) -> try_clause;
error_tag(badrecord) -> badrecord.

left({y, I}, #at{handlers = Handlers} = At) ->
    At#at{handlers = [Handler || {Y, _} = Handler <- Handlers, Y =/= I]}.

%% The result is what x0 holds behind a call that does not come back.
last({dead, Run}) -> {dead, Run};
last({At, Run}) -> {dead, write(result, held({x, 0}, At), Run)}.
