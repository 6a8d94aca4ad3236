%% @doc What each function of a module does with others, and what flows through it:
%% what it calls with which arguments, what it makes, what it writes where, what it
%% returns.
%%
%% A function is run once on abstract values ({@link whittle_shake_value}), block by
%% block, until nothing is added at any label. Nothing here knows of other modules, so
%% a module's facts are its own.
-module(whittle_shake_facts).

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

%% The registers at one place; what is known of tuples; and the labels that an
%% exception leads to, by the y register that says so, the innermost first.
-record(at, {regs = #{} :: #{whittle_beam_module:operand() => whittle_shake_value:t()},
             known = #{} :: #{whittle_shake_value:id() => whittle_shake_value:class()},
             handlers = [] :: [{non_neg_integer(), pos_integer()}]}).

-record(run, {module = none :: module(),
              labels = #{} :: #{pos_integer() => #at{}},
              natives = #{} :: #{mfa() => []},
              sites = [] :: [site()],
              tuples = [] :: [made()],
              writes = #{} :: #{result | whittle_shake_value:place() =>
                                    [whittle_shake_value:token()]},
              on_load = false :: boolean(),
              number = 0 :: non_neg_integer(),
              count = 0 :: non_neg_integer()}).

%% Longer lists are nobody's arguments.
-define(LONGEST, 16).

%% @doc The facts of each function.
-spec module(whittle_beam_module:t()) -> #{{atom(), arity()} => facts()}.
module(#{module := Module, functions := Functions}) ->
    maps:from_list([{{F, A}, facts(function(Function, #run{module = Module}))}
                    || #{name := F, arity := A} = Function <- Functions]).

%% @doc The facts of a call from outside, with terms as arguments.
-spec call(mfa(), [term()]) -> facts().
call(Mfa, Terms) ->
    {Values, Run} = lists:mapfoldl(fun literal/2, #run{}, Terms),
    {_, Done} = called(Mfa, Values, #at{}, numbered(Run)),
    facts(Done).

%% @doc The facts of a function in C, as its table says; `unknown' when it does not.
-spec native(mfa()) -> facts() | unknown.
native({_, _, Arity} = Mfa) ->
    At = #at{regs = params(Arity)},
    case call(Mfa, arguments(Arity, At), At, numbered(#run{})) of
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
    facts(write_tokens(result, Tokens, Run)).

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
    Here = join(Label, At, maps:get(Label, Labels, dead)),
    pass(Code, Here, case Here of
                         dead -> Run;
                         _ -> Run#run{labels = Labels#{Label => Here}}
                     end);
pass([_ | Code], dead, Run) ->
    pass(Code, dead, numbered(Run));
pass([{Name, Operands} = Instruction | Code], At, Run) ->
    Jumped = jumps(Name, Operands, At, Run),
    {Next, Done} = step(Name, Operands, At, numbered(Jumped)),
    pass(Code, Next, raised(Instruction, At, Next, Done));
pass([], _, Run) ->
    Run.

%% Sites are numbered by their instruction's place, the same in each pass.
numbered(#run{number = Number} = Run) -> Run#run{number = Number + 1, count = 0}.

%% One more of them at the same instruction.
counted(#run{number = Number, count = Count} = Run) ->
    {{Number, Count}, Run#run{count = Count + 1}}.

%% Labels. What two ways bring is known by the label and the first register that holds
%% it. That an identity tells the value of one round of a loop only does no harm: the
%% compiler's code has each variable set before it is used in the same round.

join(_, dead, At) -> At;
join(_, At, dead) -> At;
join(_, At, At) -> At;
join(Label, #at{regs = One, known = K, handlers = H}, #at{regs = Other, known = L,
                                                         handlers = G}) ->
    Regs = lists:sort(maps:keys(maps:intersect(One, Other))),
    {Pairs, Joined} =
        lists:foldl(fun(Reg, {Met, Map}) ->
                            #{Reg := A} = One,
                            #{Reg := B} = Other,
                            Both = {whittle_shake_value:id(A), whittle_shake_value:id(B)},
                            Id = case Met of
                                     #{Both := Known} -> Known;
                                     _ -> {Label, Reg}
                                 end,
                            {Met#{Both => Id},
                             Map#{Reg => whittle_shake_value:join(A, B, Id)}}
                    end, {#{}, #{}}, Regs),
    %% A register that only one way sets is not read, or read where that way was gone.
    Rest = maps:merge(maps:without(Regs, One), maps:without(Regs, Other)),
    #at{regs = maps:merge(Rest, Joined), known = known(Pairs, K, L),
        handlers = case H of G -> G; _ -> lists:usort(H ++ G) end}.

known(Pairs, K, L) ->
    Same = maps:filtermap(fun(Id, Class) ->
                                  case L of
                                      #{Id := Other} -> common(Class, Other);
                                      _ -> false
                                  end
                          end, K),
    maps:fold(fun({A, B}, Id, Known) when A =/= B ->
                      case {K, L} of
                          {#{A := One}, #{B := Other}} ->
                              case common(One, Other) of
                                  {true, Class} -> Known#{Id => Class};
                                  false -> Known
                              end;
                          _ -> Known
                      end;
                 (_, _, Known) -> Known
              end, Same, Pairs).

common(Class, Class) -> {true, Class};
common({Tag, Size}, {Other, OtherSize}) ->
    case {same(Tag, Other), common_size(Size, OtherSize)} of
        {any, any} -> false;
        Class -> {true, Class}
    end.

same(Same, Same) -> Same;
same(_, _) -> any.

common_size({N, Second}, {N, Other}) when Second =/= Other -> N;
common_size({N, _}, N) -> N;
common_size(N, {N, _}) -> N;
common_size(Size, Other) -> same(Size, Other).

jumps(select_val, [Register, Fail, {list, List}], At, Run) ->
    selected(List, Register, At, to_label(Fail, At, Run));
jumps(select_tuple_arity, [Register, Fail, {list, List}], At, Run) ->
    arities(List, Register, At, to_label(Fail, At, Run));
jumps(_, Operands, At, Run) ->
    lists:foldl(fun({f, _} = Label, R) -> to_label(Label, At, R);
                   ({list, List}, R) -> jumps(list, [Each || {f, _} = Each <- List], At, R);
                   (_, R) -> R
                end, Run, Operands).

selected([Value, Label | List], Register, At, Run) ->
    {Then, Run1} = equal(Register, Value, At, Run),
    selected(List, Register, At, to_label(Label, Then, Run1));
selected([], _, _, Run) ->
    Run.

arities([Size, Label | List], Register, At, Run) ->
    arities(List, Register, At, to_label(Label, sized(Register, number(Size), At), Run));
arities([], _, _, Run) ->
    Run.

to_label({f, 0}, _, Run) -> Run;
to_label({f, Label}, At, #run{labels = Labels} = Run) ->
    Run#run{labels = Labels#{Label => join(Label, At, maps:get(Label, Labels, dead))}}.

%% Where an exception is caught, the y registers hold what they held at any place
%% before: each instruction between adds what it leaves.
raised(_, _, dead, Run) -> Run;
raised(_, #at{handlers = []}, #at{handlers = []}, Run) -> Run;
raised(_, _, #at{regs = Regs, handlers = Handlers} = At, Run) ->
    Kept = At#at{regs = maps:filter(fun({y, _}, _) -> true; (_, _) -> false end, Regs)},
    caught_at(Handlers, Kept, Run).

%% At a handler those within it are gone.
caught_at([{_, Label} | Outer] = Handlers, At, Run) ->
    caught_at(Outer, At, to_label({f, Label}, At#at{handlers = Handlers}, Run));
caught_at([], _, Run) ->
    Run.

%% What a test tells

%% It is this, and so is what it was read from.
equal(Register, {atom, Atom}, At, Run) ->
    {Known, Run1} = case part_of(Register, At) of
                        {Tuple, 0} -> tagged({tag, Atom}, Tuple, At, Run);
                        {Tuple, 1} -> second(Atom, Tuple, At, Run);
                        _ -> {At, Run}
                    end,
    {set(Register, whittle_shake_value:atom(Atom), Known), Run1};
equal(Register, {tr, Other, _}, At, Run) -> equal(Register, Other, At, Run);
equal(Register, {Kind, _} = Other, At, Run) when Kind =:= x; Kind =:= y ->
    {Known, Run1} = same_tag(Other, Register, At, Run),
    same_tag(Register, Other, Known, Run1);
equal(_, _, At, Run) ->
    {At, Run}.

same_tag(Register, Other, At, Run) ->
    Value = held(Other, At),
    Tokens = whittle_shake_value:tokens(Value),
    case {part_of(Register, At), whittle_shake_value:id(Value), Tokens} of
        {{Tuple, 0}, _, [reference]} -> tagged(reference, Tuple, At, Run);
        {{Tuple, 0}, {param, _} = Param, _} -> tagged(Param, Tuple, At, Run);
        _ -> {At, Run}
    end.

%% What has such a first element has no tag.
no_atom(Register, At, Run) ->
    case part_of(Register, At) of
        {Tuple, 0} -> tagged(other, Tuple, At, Run);
        _ -> {At, Run}
    end.

tagged(Tag, Tuple, #at{known = Known} = At, Run) ->
    {_, Size} = maps:get(Tuple, Known, {any, any}),
    read_again(Tuple, {Tag, Size}, At, Run).

%% Many a message has its name behind the sender.
second(Atom, Tuple, #at{known = Known} = At, Run) ->
    case Known of
        #{Tuple := {Tag, Size}} when is_integer(Size) ->
            read_again(Tuple, {Tag, {Size, Atom}}, At, Run);
        _ -> {At, Run}
    end.

%% The elements that were read before this was known.
read_again(Tuple, Class, #at{known = Known, regs = Regs} = At, Run) ->
    maps:fold(fun(Register, Value, {Now, R}) ->
                      case whittle_shake_value:part_of(Value) of
                          {Tuple, Index} ->
                              Of = whittle_shake_value:tuple_of(Value),
                              {Tokens, R1} = get(Of, Class, Index, R),
                              Again = whittle_shake_value:with_tokens(Tokens, Value),
                              {set(Register, Again, Now), R1};
                          _ -> {Now, R}
                      end
              end, {At#at{known = Known#{Tuple => Class}}, Run}, Regs).

sized(Register, Size, #at{known = Known} = At) ->
    case whittle_shake_value:id(held(Register, At)) of
        none -> At;
        Id ->
            case maps:get(Id, Known, {any, any}) of
                {_, {Size, _}} -> At;
                {Tag, _} -> At#at{known = Known#{Id => {Tag, Size}}}
            end
    end.

narrowed(Register, Tokens, At) ->
    set(Register, whittle_shake_value:with_tokens(Tokens, held(Register, At)), At).

part_of(Register, At) -> whittle_shake_value:part_of(held(Register, At)).

held({tr, Register, _}, At) -> held(Register, At);
held(Register, #at{regs = Regs}) -> maps:get(Register, Regs, whittle_shake_value:none()).

class(Register, At) -> class_of(whittle_shake_value:id(held(Register, At)), At).

class_of(none, _) -> {any, any};
class_of(Id, #at{known = Known}) -> maps:get(Id, Known, {any, any}).

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
    call({M, F, A}, arguments(Arity, At), At, Run);
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

%% Structures

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

cons(Head, Tail, Run) ->
    case whittle_shake_value:elements(Tail) of
        Elements when is_list(Elements), length(Elements) < ?LONGEST ->
            whittle_shake_value:list([Head | Elements], id(0, Run));
        _ ->
            fresh(ordsets:union(whittle_shake_value:tokens(Head),
                                whittle_shake_value:tokens(Tail)), 0, Run)
    end.

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

%% What such an element of one of these tuples may be.
get([], _, _, Run) -> {[], Run};
get(Tuple, Class, Index, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    {[{site, Id}], Run1#run{sites = [{get, Id, Tuple, Class, Index} | Sites]}}.

%% All that is in there, at any depth: what is read is read from again.
deep([], Run) -> {[], Run};
deep(Tokens, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    All = ordsets:add_element({site, Id}, Tokens),
    {All, Run1#run{sites = [{get, Id, All, {any, any}, any} | Sites]}}.

%% A tuple, and what is known of it.
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

built(Values, At, Run) -> built([arg(Value, At) || Value <- Values], [], Run, exact).

built(Args, Rest, Run, exact) ->
    case lists:all(fun({[_ | _], _, _}) -> false; (_) -> true end, Args) of
        true -> {[], Run};
        false -> add_tuple(Args, Rest, Run)
    end.

add_tuple(Elements, Rest, Run) ->
    {Id, #run{tuples = Tuples} = Run1} = counted(Run),
    {[{tuple, Id}], Run1#run{tuples = [{Id, Elements, Rest} | Tuples]}}.

%% A tuple of which any element may be one of these.
any_tuple([], Run) -> {[], Run};
any_tuple(Tokens, Run) -> add_tuple({any, {Tokens, none, none}}, [], Run).

%% The same tuple with other elements here and there.
partly(Tuple, Class, Elements, #at{known = Known} = At, Run) ->
    Rest = whittle_shake_value:tokens(Tuple),
    Args = [arg(Value, At) || Value <- Elements],
    {Tokens, Run1} = built(with_tag(Class, Args), Rest, Run, exact),
    {fresh(ordsets:union(Rest, Tokens), 0, Run), At#at{known = Known#{id(0, Run) => Class}}, Run1}.

with_tag({{tag, Tag}, _}, [none | Args]) -> [{[{atom, Tag}], none, none} | Args];
with_tag(_, Args) -> Args.

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

updates([Index, Operand | Updates], At, Run) ->
    {Value, Run1} = value(Operand, At, Run),
    {New, Run2} = updates(Updates, At, Run1),
    {New#{number(Index) => Value}, Run2};
updates([], _, Run) ->
    {#{}, Run}.

%% A map's entries are tuples of key and value.
entries([Key, Operand | Pairs], At, Run) ->
    {Value, Run1} = value(Operand, At, Run),
    {KeyValue, Run2} = value(Key, At, Run1),
    {Entry, Run3} = built([KeyValue, Value], At, Run2),
    {Entries, Run4} = entries(Pairs, At, Run3),
    {ordsets:union(Entry, Entries), Run4};
entries([], _, Run) ->
    {[], Run}.

got([Key, To | Pairs], N, Map, Before, At, Run) ->
    {KeyValue, Run1} = value(Key, Before, Run),
    {Tokens, Run2} = entry(Map, KeyValue, Run1),
    got(Pairs, N + 1, Map, Before, set(To, fresh(Tokens, N, Run), At), Run2);
got([], _, _, _, At, Run) ->
    {At, Run}.

entry(Map, Key, Run) -> get(whittle_shake_value:tokens(Map), {tag(Key), 2}, 1, Run).

tag(Key) ->
    case whittle_shake_value:id(Key) of
        {atom, Atom} -> {tag, Atom};
        {param, _} = Param -> Param;
        _ -> any
    end.

%% Calls

bif({extfunc, erlang, Name, Arity}, From, To, At, Run) ->
    {Values, Run1} = values(From, At, Run),
    case native({erlang, Name, Arity}, Values, From, At, Run1) of
        {Value, Next, Run2} -> {set(To, Value, Next), Run2};
        none -> {set(To, whittle_shake_value:none(), At), Run1}
    end.

lambda({lambda, F, A, _}, Free, To, At, Run) ->
    {Values, Run1} = values(Free, At, Run),
    {Id, #run{sites = Sites} = Run2} = counted(Run1),
    Args = [arg(Value, At) || Value <- Values],
    {set(To, fresh([{lambda, Id}], 0, Run), At),
     Run2#run{sites = [{lambda, Id, {F, A}, Args} | Sites]}}.

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
    case constant(Index, none) of
        N when is_integer(N), N > 0 ->
            {Value, Run1} = field(Operand, N - 1, At, Run),
            {Value, At, Run1};
        _ ->
            {Tokens, Run1} = get(whittle_shake_value:tokens(Tuple), class(Operand, At), any, Run),
            {fresh(Tokens, 0, Run), At, Run1}
    end;
native({erlang, setelement, 3}, [_, Tuple, Value], [Index, Operand, _], At, Run) ->
    Place = case constant(Index, none) of
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
    Next = case constant(Place, none) of
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
    Index = case constant(Operand, none) of
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
    {Made, Run1} = lists:mapfoldl(fun(Each, R) ->
                                          {Value, R1} = element_of(Each, Values, At, R),
                                          {Value, R1}
                                  end, Run, Elements),
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

constant({integer, N}, _) -> N;
constant(_, _) -> none.

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

call_fun(Fun, Arity, At, Run) ->
    {Value, Run1} = value(Fun, At, Run),
    Args = [arg(Each, At) || Each <- arguments(Arity, At)],
    site(call_fun, [arg(Value, At), {each, Args}], At, Run1).

site(Kind, Operands, At, Run) ->
    {Id, #run{sites = Sites} = Run1} = counted(Run),
    {after_call(fresh([{site, Id}], 0, Run), At),
     Run1#run{sites = [list_to_tuple([Kind, Id | Operands]) | Sites]}}.

arguments(Arity, At) -> [held({x, I}, At) || I <- lists:seq(0, Arity - 1)].

activated(Mfa, #run{natives = Natives} = Run) -> Run#run{natives = Natives#{Mfa => []}}.

%% A call leaves x0 and the y registers.
after_call(Value, #at{regs = Regs} = At) ->
    Ys = maps:filter(fun({y, _}, _) -> true; (_, _) -> false end, Regs),
    At#at{regs = Ys#{{x, 0} => Value}}.

%% Values

write(Place, Value, Run) -> write_tokens(Place, whittle_shake_value:tokens(Value), Run).

write_tokens(_, [], Run) -> Run;
write_tokens(Place, Tokens, #run{writes = Writes} = Run) ->
    Run#run{writes = Writes#{Place => ordsets:union(Tokens, maps:get(Place, Writes, []))}}.

id(K, #run{number = Number}) -> {Number, K}.

fresh(Tokens, K, Run) -> whittle_shake_value:new(Tokens, id(K, Run)).

arg(Value, At) -> whittle_shake_value:arg(Value, fun(Id) -> class_of(Id, At) end).

tokens(Register, At) -> whittle_shake_value:tokens(held(Register, At)).

number(N) when is_integer(N) -> N;
number({integer, N}) -> N.

set({tr, Register, _}, Value, At) -> set(Register, Value, At);
set({Kind, _} = Register, Value, #at{regs = Regs} = At) when Kind =:= x; Kind =:= y ->
    At#at{regs = Regs#{Register => Value}};
set(_, _, At) -> At.

values(Operands, At, Run) ->
    lists:mapfoldl(fun(Operand, R) -> value(Operand, At, R) end, Run, Operands).

value({tr, Register, _}, At, Run) -> value(Register, At, Run);
value({Kind, _} = Register, At, Run) when Kind =:= x; Kind =:= y -> {held(Register, At), Run};
value({atom, Atom}, _, Run) -> {whittle_shake_value:atom(Atom), Run};
value({literal, Binary}, _, Run) -> literal(binary_to_term(Binary), Run);
value(nil, _, Run) -> {whittle_shake_value:list([], none), Run};
value(_, _, Run) -> {whittle_shake_value:none(), Run}.

%% A literal is what code that builds it would give.
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
