%% @doc Which functions can be reached, and by what.
%%
%% A points-to analysis without contexts over the facts of functions
%% ({@link whittle_shake_facts}): a node for each parameter, result, site and pool
%% holds the modules' and functions' names and the funs that can come there, as bits
%% of an integer. A function's flows count from when it is live; what comes to the
%% module of a call by name makes that function live.
-module(whittle_shake_graph).

-export([solve/1]).

-export_type([input/0, result/0, reason/0]).

-type input() ::
        #{facts := #{module() => #{{atom(), arity()} => whittle_shake_facts:facts()}},
          exports := #{module() => [{atom(), arity()}]},
          roots := [{mfa(), Args :: [[atom()]], Why :: term()}],
          pools := #{atom() => [atom()]}}.      % what is in a pool from the start

-type reason() ::
        {root, term()} | {call, mfa()} | {makes, mfa()} | {site, mfa(), non_neg_integer()}.

-type result() :: #{mfa() => reason()}.

-type key() ::
        {arg, mfa(), non_neg_integer()} | {result, mfa()} | {site, mfa(), non_neg_integer()}
      | {pool, atom()} | {m, mfa(), non_neg_integer()} | {f, mfa(), non_neg_integer()}
      | {in, mfa(), non_neg_integer(), non_neg_integer() | list}.

-record(s, {facts, exports,
            live = #{} :: result(),
            todo = [] :: [mfa()],
            ids = #{} :: #{key() => pos_integer()},
            sets = #{} :: #{pos_integer() => non_neg_integer()},
            next = #{} :: #{pos_integer() => #{pos_integer() => []}},
            watch = #{} :: #{pos_integer() => {tuple(), m | f}},
            queue = queue:new() :: queue:queue(pos_integer()),
            pending = #{} :: #{pos_integer() => pos_integer()}, % new at a queued node
            bits = #{} :: #{term() => non_neg_integer()},
            values = #{} :: #{non_neg_integer() => term()},
            names = #{} :: #{atom() => [{module(), arity()}]}, % who exports it
            linked = #{} :: #{{pos_integer(), mfa()} => []}}).

%% @doc The live functions, each with the first reason found.
-spec solve(input()) -> result().
solve(#{facts := Facts, exports := Exports, roots := Roots, pools := Pools}) ->
    Names = maps:groups_from_list(fun({F, _}) -> F end, fun({_, Who}) -> Who end,
                                  [{F, {M, A}} || {M, Functions} <- maps:to_list(Exports),
                                                  {F, A} <- Functions]),
    S0 = edge({pool, exceptions}, {pool, messages},
              #s{facts = Facts, exports = Exports, names = Names}),
    S1 = maps:fold(fun(Pool, Atoms, S) ->
                           flow({pool, Pool}, [{atom, Atom} || Atom <- Atoms], none, S)
                   end, S0, Pools),
    S2 = lists:foldl(fun({Mfa, Args, Why}, S) ->
                             {_, Filled} =
                                 lists:foldl(fun(Atoms, {I, Now}) ->
                                                     Tokens = [{atom, A} || A <- Atoms],
                                                     {I + 1, flow({arg, Mfa, I}, Tokens, none,
                                                                  Now)}
                                             end, {0, S}, Args),
                             activate(Mfa, {root, Why}, Filled)
                     end, S1, Roots),
    #s{live = Live} = run(S2),
    Live.

run(#s{todo = [Mfa | Todo]} = S) -> run(begin_function(Mfa, S#s{todo = Todo}));
run(#s{queue = Queue, pending = Pending} = S) ->
    case queue:out(Queue) of
        {{value, Node}, Rest} ->
            {Delta, Left} = maps:take(Node, Pending),
            run(spread(Node, Delta, S#s{queue = Rest, pending = Left}));
        {empty, _} ->
            S
    end.

activate(Mfa, Reason, #s{live = Live, todo = Todo} = S) ->
    case is_map_key(Mfa, Live) of
        true -> S;
        false -> S#s{live = Live#{Mfa => Reason}, todo = [Mfa | Todo]}
    end.

begin_function({M, F, A} = Mfa, #s{facts = Facts} = S) ->
    case Facts of
        #{M := #{{F, A} := #{calls := Calls, lambdas := Lambdas, sites := Sites,
                             flows := Flows}}} ->
            S1 = case lists:keymember(nif_error, 2, Calls) of
                     true -> native(Mfa, S);
                     false -> S
                 end,
            S2 = lists:foldl(fun(Called, Now) -> activate(Called, {call, Mfa}, Now) end, S1,
                             Calls),
            S3 = lists:foldl(fun({N, B}, Now) -> activate({M, N, B}, {makes, Mfa}, Now) end, S2,
                             Lambdas),
            S4 = lists:foldl(fun({Dest, Tokens}, Now) -> flow(dest(Dest, Mfa), Tokens, Mfa, Now)
                             end, S3, Flows),
            lists:foldl(fun(Site, Now) -> site(Site, Mfa, Now) end, S4, Sites);
        _ ->
            native(Mfa, S)
    end.

dest(result, Mfa) -> {result, Mfa};
dest(Dest, _) -> Dest.

%% What a function written in C does with what it is given.
native({M, F, A} = Mfa, S) ->
    {To, From} = pools(M, F, A),
    Args = [{arg, Mfa, I} || I <- lists:seq(0, A - 1)],
    S1 = lists:foldl(fun(Arg, Now) -> edge(Arg, {result, Mfa}, Now) end, S, Args),
    S2 = lists:foldl(fun({Pool, Arg}, Now) -> edge(Arg, {pool, Pool}, Now) end, S1,
                     [{Pool, Arg} || Pool <- To, Arg <- Args]),
    lists:foldl(fun(Pool, Now) -> edge({pool, Pool}, {result, Mfa}, Now) end, S2, From).

pools(erlang, put, 2) -> {[dictionary], [dictionary]};
pools(erlang, F, _) when F =:= get; F =:= erase -> {[], [dictionary]};
pools(erlang, F, _)
  when F =:= send; F =:= send_nosuspend; F =:= send_after; F =:= start_timer ->
    {[messages], []};
pools(erlang, F, _) when F =:= error; F =:= throw; F =:= raise; F =:= exit ->
    {[exceptions], []};
pools(ets, _, _) -> {[tables], [tables]};
pools(persistent_term, _, _) -> {[tables], [tables]};
pools(_, _, _) -> {[], []}.

%% Sites

site({apply, N, M, F, Args}, Mfa, S) ->
    S1 = flow({m, Mfa, N}, M, Mfa, flow({f, Mfa, N}, F, Mfa, given(Args, Mfa, N, S))),
    watch({m, Mfa, N}, {apply, Mfa, N, Args}, watch({f, Mfa, N}, {apply, Mfa, N, Args}, S1));
site({make_fun, N, M, F, _}, Mfa, S) ->
    S1 = flow({m, Mfa, N}, M, Mfa, flow({f, Mfa, N}, F, Mfa, S)),
    watch({m, Mfa, N}, {make_fun, Mfa, N}, watch({f, Mfa, N}, {make_fun, Mfa, N}, S1));
site({call_fun, N, Fun, Args}, Mfa, S) ->
    S1 = flow({f, Mfa, N}, Fun, Mfa, given(Args, Mfa, N, S)),
    watch({f, Mfa, N}, {call_fun, Mfa, N, Args}, S1).

given({each, Args}, Mfa, N, S) ->
    {_, Filled} = lists:foldl(fun(Tokens, {I, Now}) ->
                                      {I + 1, flow({in, Mfa, N, I}, Tokens, Mfa, Now)}
                              end, {0, S}, Args),
    Filled;
given({list, Tokens}, Mfa, N, S) ->
    flow({in, Mfa, N, list}, Tokens, Mfa, S).

watch(Key, What, S) ->
    {Id, #s{watch = Watch, sets = Sets} = S1} = id(Key, S),
    Kind = element(1, Key),
    seen(What, Kind, maps:get(Id, Sets, 0), S1#s{watch = Watch#{Id => {What, Kind}}}).

%% Something new has come to what a site calls: to its module or to its function.
seen(_, _, 0, S) -> S;
seen({call_fun, Mfa, N, Args}, f, Delta, S) ->
    lists:foldl(fun(Called, Now) -> link(Called, Args, Mfa, N, Now) end, S,
                lists:append([called(Value, Args) || Value <- values(Delta, S)]));
seen(What, Kind, Delta, S) ->
    Others = set({other(Kind), element(2, What), element(3, What)}, S),
    lists:foldl(fun({Other, Called}, Now) ->
                        case holds({atom, Other}, Others, Now) of
                            true -> named(What, Called, Now);
                            false -> Now
                        end
                end, S, lists:append([pairs(Kind, Name, S)
                                      || Others =/= 0, {atom, Name} <- values(Delta, S)])).

other(m) -> f;
other(f) -> m.

%% What a name can be part of, as a module's or a function's, with the other name.
pairs(m, M, #s{exports = Exports}) -> [{F, {M, F, A}} || {F, A} <- maps:get(M, Exports, [])];
pairs(f, F, #s{names = Names}) -> [{M, {M, F, A}} || {M, A} <- maps:get(F, Names, [])].

%% A lambda's last parameters are what it brought along.
called({lambda, _, _, A}, {each, Args}) when length(Args) > A -> [];
called({lambda, M, F, A}, _) -> [{M, F, A}];
called({'fun', {_, _, A} = Called}, Args) -> [Called || fits(A, Args)];
called(_, _) -> [].

named({apply, Mfa, N, Args}, {_, _, A} = Called, S) ->
    case fits(A, Args) of
        true -> link(Called, Args, Mfa, N, S);
        false -> S
    end;
named({make_fun, Mfa, N}, Called, S) ->
    flow({site, Mfa, N}, [{'fun', Called}], Mfa, activate(Called, {site, Mfa, N}, S)).

holds(Value, Set, #s{bits = Bits}) ->
    case Bits of
        #{Value := N} -> (Set bsr N) band 1 =:= 1;
        _ -> false
    end.

set(Key, #s{ids = Ids, sets = Sets}) ->
    case Ids of
        #{Key := Id} -> maps:get(Id, Sets, 0);
        _ -> 0
    end.

fits(A, {each, Args}) -> length(Args) =:= A;
fits(_, {list, _}) -> true.

link(Called, Args, Mfa, N, S) ->
    {Id, S1} = id({site, Mfa, N}, S),
    case S1#s.linked of
        #{{Id, Called} := []} -> S1;
        Linked ->
            S2 = activate(Called, {site, Mfa, N}, S1#s{linked = Linked#{{Id, Called} => []}}),
            pass(Called, Args, Mfa, N, S2)
    end.

pass({_, _, A} = Called, Args, Mfa, N, S) ->
    From = case Args of
               {each, Each} -> [{I, {in, Mfa, N, I}} || I <- lists:seq(0, length(Each) - 1)];
               {list, _} -> [{I, {in, Mfa, N, list}} || I <- lists:seq(0, A - 1)]
           end,
    S1 = lists:foldl(fun({I, In}, Now) -> edge(In, {arg, Called, I}, Now) end, S, From),
    edge({result, Called}, {site, Mfa, N}, S1).

%% Nodes

flow(_, [], _, S) -> S;
flow(Key, Tokens, Mfa, S) ->
    {Id, S1} = id(Key, S),
    {Bits, S2} = lists:foldl(fun(Token, {B, Now}) -> token(Token, Mfa, Id, B, Now) end, {0, S1},
                             Tokens),
    add(Id, Bits, S2).

token({atom, Atom}, _, _, Bits, #s{exports = Exports, names = Names} = S) ->
    case is_map_key(Atom, Exports) orelse is_map_key(Atom, Names) of
        true -> bit({atom, Atom}, Bits, S);
        false -> {Bits, S}
    end;
token({lambda, {F, A}}, {M, _, _}, _, Bits, S) -> bit({lambda, M, F, A}, Bits, S);
token({'fun', Mfa}, _, _, Bits, S) ->
    bit({'fun', Mfa}, Bits, activate(Mfa, {root, fun_value}, S));
token({param, I}, Mfa, Id, Bits, S) -> {Bits, edge_to({arg, Mfa, I}, Id, S)};
token({result, Called}, _, Id, Bits, S) -> {Bits, edge_to({result, Called}, Id, S)};
token({site, N}, Mfa, Id, Bits, S) -> {Bits, edge_to({site, Mfa, N}, Id, S)};
token({pool, _} = Pool, _, Id, Bits, S) -> {Bits, edge_to(Pool, Id, S)}.

bit(Value, Bits, #s{bits = Known, values = Values} = S) ->
    case Known of
        #{Value := N} -> {Bits bor (1 bsl N), S};
        _ ->
            N = map_size(Known),
            {Bits bor (1 bsl N), S#s{bits = Known#{Value => N}, values = Values#{N => Value}}}
    end.

values(Bits, S) -> values(Bits, 0, S, []).

values(0, _, _, Found) -> Found;
values(Bits, N, S, Found) when Bits band 16#ffffffff =:= 0 -> values(Bits bsr 32, N + 32, S, Found);
values(Bits, N, #s{values = Values} = S, Found) when Bits band 1 =:= 1 ->
    values(Bits bsr 1, N + 1, S, [maps:get(N, Values) | Found]);
values(Bits, N, S, Found) -> values(Bits bsr 1, N + 1, S, Found).

id(Key, #s{ids = Ids} = S) ->
    case Ids of
        #{Key := Id} -> {Id, S};
        _ ->
            Id = map_size(Ids) + 1,
            {Id, S#s{ids = Ids#{Key => Id}}}
    end.

edge(From, To, S) ->
    {Id, S1} = id(To, S),
    edge_to(From, Id, S1).

edge_to(From, To, S) ->
    {Id, #s{next = Next} = S1} = id(From, S),
    case Next of
        #{Id := #{To := []}} -> S1;
        _ ->
            Tos = maps:get(Id, Next, #{}),
            add(To, maps:get(Id, S1#s.sets, 0), S1#s{next = Next#{Id => Tos#{To => []}}})
    end.

add(_, 0, S) -> S;
add(Id, Bits, #s{sets = Sets, queue = Queue, pending = Pending} = S) ->
    Before = maps:get(Id, Sets, 0),
    case Bits band (bnot Before) of
        0 -> S;
        New ->
            S1 = S#s{sets = Sets#{Id => Before bor New}},
            case Pending of
                #{Id := Waiting} -> S1#s{pending = Pending#{Id := Waiting bor New}};
                _ -> S1#s{pending = Pending#{Id => New}, queue = queue:in(Id, Queue)}
            end
    end.

spread(Id, Delta, #s{next = Next, watch = Watch} = S) ->
    S1 = maps:fold(fun(To, [], Now) -> add(To, Delta, Now) end, S, maps:get(Id, Next, #{})),
    case Watch of
        #{Id := {What, Kind}} -> seen(What, Kind, Delta, S1);
        _ -> S1
    end.
