%% @doc Nodes with sets of tokens, edges along which sets flow, and watches that tell
%% what is new at a node.
%%
%% Sets are integers used as bit fields: a union is one `bor'. Only what is new at a
%% node goes on along its edges.
-module(whittle_shake_sets).

-export([new/0, node/2, group/3, add/3, edge/3, watch/4, step/1]).
-export([tokens/2, is_known/2, is_empty/2, holds/3, size/1, largest/2]).

-export_type([t/0, id/0]).

-type id() :: pos_integer().
-type bits() :: non_neg_integer().

-record(s, {ids = #{} :: #{term() => id()},
            sets = #{} :: #{id() => bits()},
            next = #{} :: #{id() => [id()]},
            edges = #{} :: #{{id(), id()} => []},
            watches = #{} :: #{id() => [{[term()], term()}]},
            watched = #{} :: #{{id(), term()} => []},
            groups = #{} :: #{term() => bits()},
            queue = queue:new() :: queue:queue(id()),
            pending = #{} :: #{id() => bits()},
            numbers = #{} :: #{term() => non_neg_integer()},
            values = #{} :: #{non_neg_integer() => term()}}).

-opaque t() :: #s{}.

-spec new() -> t().
new() -> #s{}.

%% @doc The node of that name; and whether it is new.
-spec node(term(), t()) -> {old | new, id(), t()}.
node(Key, #s{ids = Ids} = S) ->
    case Ids of
        #{Key := Id} -> {old, Id, S};
        _ ->
            Id = map_size(Ids) + 1,
            {new, Id, S#s{ids = Ids#{Key => Id}}}
    end.

%% @doc The token belongs to these groups.
-spec group(term(), [term()], t()) -> t().
group(Token, Names, S) ->
    {Bits, #s{groups = Groups} = S1} = bit(Token, {0, S}),
    S1#s{groups = lists:foldl(fun(Name, Map) ->
                                      Map#{Name => maps:get(Name, Map, 0) bor Bits}
                              end, Groups, Names)}.

%% @doc These tokens are at the node.
-spec add(id(), [term()], t()) -> t().
add(_, [], S) -> S;
add(Id, Tokens, S) ->
    {Bits, S1} = lists:foldl(fun bit/2, {0, S}, Tokens),
    put_bits(Id, Bits, S1).

%% @doc What is at the one is at the other.
-spec edge(id(), id(), t()) -> t().
edge(Same, Same, S) -> S;
edge(From, To, #s{edges = Edges, next = Next, sets = Sets} = S) ->
    case Edges of
        #{{From, To} := []} -> S;
        _ ->
            put_bits(To, maps:get(From, Sets, 0),
                     S#s{edges = Edges#{{From, To} => []},
                         next = Next#{From => [To | maps:get(From, Next, [])]}})
    end.

%% @doc What is at the node of one of the groups is told, and what comes there will be
%% by {@link step/1}.
-spec watch(id(), [term()], term(), t()) -> {[term()], t()}.
watch(Id, Groups, What, #s{watches = Watches, watched = Watched, sets = Sets} = S) ->
    Key = {Id, What},
    case Watched of
        #{Key := []} -> {[], S};
        _ ->
            {of_groups(maps:get(Id, Sets, 0), Groups, S),
             S#s{watched = Watched#{Key => []},
                 watches = Watches#{Id => [{Groups, What} | maps:get(Id, Watches, [])]}}}
    end.

%% @doc Goes on until something new is at a watched node; each watch with what is new of
%% its groups.
-spec step(t()) -> {[{term(), New :: [term()]}], t()} | {done, t()}.
step(#s{queue = Queue, pending = Pending, next = Next, watches = Watches} = S) ->
    case queue:out(Queue) of
        {{value, Id}, Rest} ->
            {Delta, Left} = maps:take(Id, Pending),
            S1 = lists:foldl(fun(To, Now) -> put_bits(To, Delta, Now) end,
                             S#s{queue = Rest, pending = Left}, maps:get(Id, Next, [])),
            case [{What, New} || {Groups, What} <- maps:get(Id, Watches, []),
                                 New <- [of_groups(Delta, Groups, S1)], New =/= []] of
                [] -> step(S1);
                Events -> {Events, S1}
            end;
        {empty, _} ->
            {done, S}
    end.

%% @doc What is at a node.
-spec tokens(id(), t()) -> [term()].
tokens(Id, #s{sets = Sets} = S) -> values(maps:get(Id, Sets, 0), S).

%% @doc Whether the token has been seen.
-spec is_known(term(), t()) -> boolean().
is_known(Token, #s{numbers = Numbers}) -> is_map_key(Token, Numbers).

%% @doc Whether nothing is at a node.
-spec is_empty(id(), t()) -> boolean().
is_empty(Id, #s{sets = Sets}) -> not is_map_key(Id, Sets).

%% @doc Whether that is at a node.
-spec holds(id(), term(), t()) -> boolean().
holds(Id, Token, #s{numbers = Numbers, sets = Sets}) ->
    case Numbers of
        #{Token := N} -> (maps:get(Id, Sets, 0) bsr N) band 1 =:= 1;
        _ -> false
    end.

%% @doc How many nodes, edges and tokens there are.
-spec size(t()) -> {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
size(#s{ids = Ids, edges = Edges, numbers = Numbers}) ->
    {map_size(Ids), map_size(Edges), map_size(Numbers)}.

%% @doc The nodes with the largest sets.
-spec largest(pos_integer(), t()) -> [{non_neg_integer(), term()}].
largest(N, #s{ids = Ids, sets = Sets}) ->
    Sizes = [{ones(maps:get(Id, Sets, 0), 0), Key} || {Key, Id} <- maps:to_list(Ids)],
    lists:sublist(lists:reverse(lists:sort(Sizes)), N).

%% Internal

of_groups(0, _, _) -> [];
of_groups(Bits, Names, #s{groups = Groups} = S) ->
    Mask = lists:foldl(fun(Name, All) -> All bor maps:get(Name, Groups, 0) end, 0, Names),
    values(Bits band Mask, S).

put_bits(_, 0, S) -> S;
put_bits(Id, Bits, #s{sets = Sets, queue = Queue, pending = Pending} = S) ->
    case Sets of
        #{Id := Before} ->
            case Before bor Bits of
                Before -> S;
                After -> queued(Id, Bits band (bnot Before), Queue, Pending,
                                S#s{sets = Sets#{Id := After}})
            end;
        _ -> queued(Id, Bits, Queue, Pending, S#s{sets = Sets#{Id => Bits}})
    end.

queued(Id, New, Queue, Pending, S) ->
    case Pending of
        #{Id := Waiting} -> S#s{pending = Pending#{Id := Waiting bor New}};
        _ -> S#s{pending = Pending#{Id => New}, queue = queue:in(Id, Queue)}
    end.

bit(Token, {Bits, #s{numbers = Numbers, values = Values} = S}) ->
    case Numbers of
        #{Token := N} -> {Bits bor (1 bsl N), S};
        _ ->
            N = map_size(Numbers),
            {Bits bor (1 bsl N), S#s{numbers = Numbers#{Token => N}, values = Values#{N => Token}}}
    end.

values(Bits, #s{values = Values}) -> values(Bits, 0, Values, []).

values(0, _, _, Found) -> Found;
values(Bits, N, Values, Found) when Bits band 16#ffffffffffffffff =:= 0 ->
    values(Bits bsr 64, N + 64, Values, Found);
values(Bits, N, Values, Found) ->
    values(Bits bsr 64, N + 64, Values, word(Bits band 16#ffffffffffffffff, N, Values, Found)).

word(0, _, _, Found) -> Found;
word(Bits, N, Values, Found) when Bits band 16#ff =:= 0 -> word(Bits bsr 8, N + 8, Values, Found);
word(Bits, N, Values, Found) when Bits band 1 =:= 1 ->
    word(Bits bsr 1, N + 1, Values, [maps:get(N, Values) | Found]);
word(Bits, N, Values, Found) -> word(Bits bsr 1, N + 1, Values, Found).

ones(0, N) -> N;
ones(Bits, N) -> ones(Bits bsr 1, N + (Bits band 1)).
