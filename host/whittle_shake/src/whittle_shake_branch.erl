%% @doc Where the ways through a function part and meet: what jumps bring to labels, and
%% what a test tells of registers.
-module(whittle_shake_branch).

-import(whittle_shake_frame, [get/4, held/2, number/1, part_of/2, set/3]).

-export([join/3, jumps/4, raised/4, equal/4, no_atom/3, sized/3, narrowed/3]).

-include("whittle_shake_frame.hrl").

-type at() :: #at{}.
-type run() :: #run{}.

%% Labels. What two ways bring is known by the label and the first register that holds
%% it. That an identity tells the value of one round of a loop only does no harm: the
%% compiler's code has each variable set before it is used in the same round.

%% @doc What is known where two ways meet.
-spec join(pos_integer(), at() | dead, at() | dead) -> at() | dead.
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

%% @doc What an instruction's jumps bring to their labels.
-spec jumps(atom(), [whittle_shake_frame:operand()], at(), run()) -> run().
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

%% @doc Where an exception is caught, the y registers hold what they held at any place
%% before: each instruction between adds what it leaves.
-spec raised(tuple(), at(), at() | dead, run()) -> run().
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

%% @doc A register is this, and so is what it was read from.
-spec equal(whittle_shake_frame:operand(), whittle_shake_frame:operand(), at(), run()) ->
          {at(), run()}.
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

%% @doc A register holds no atom: a tuple with such a first element has no tag.
-spec no_atom(whittle_shake_frame:operand(), at(), run()) -> {at(), run()}.
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

%% @doc A register holds a tuple of that size.
-spec sized(whittle_shake_frame:operand(), non_neg_integer(), at()) -> at().
sized(Register, Size, #at{known = Known} = At) ->
    case whittle_shake_value:id(held(Register, At)) of
        none -> At;
        Id ->
            case maps:get(Id, Known, {any, any}) of
                {_, {Size, _}} -> At;
                {Tag, _} -> At#at{known = Known#{Id => {Tag, Size}}}
            end
    end.

%% @doc A register can be no more than these.
-spec narrowed(whittle_shake_frame:operand(), [whittle_shake_value:token()], at()) -> at().
narrowed(Register, Tokens, At) ->
    set(Register, whittle_shake_value:with_tokens(Tokens, held(Register, At)), At).
