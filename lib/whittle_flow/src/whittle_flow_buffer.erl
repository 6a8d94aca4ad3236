%% @hidden Keeps the messages of a sender without credit, in a bounded queue that sheds by a
%% policy. The remaining messages leave in the order of their arrival.
-module(whittle_flow_buffer).

-export([new/2, in/2, out/2, count/1]).
-export_type([buffer/0, policy/0]).

-type policy() :: newest | oldest | {priority, fun((Message :: term()) -> term())}.
%% The messages to shed when the buffer is full: the newest, the oldest, or the one with the
%% lowest priority in term order (the oldest of several). A message on which the fun crashes is
%% lower than all others.

%% Messages with their ranks, in the order of their arrival.
-record(buffer, {policy :: policy(), max :: pos_integer(), next = 0 :: non_neg_integer(),
                 messages = gb_trees:empty() :: gb_trees:tree(non_neg_integer(), {rank(), term()}),
                 ranks = gb_sets:empty() :: gb_sets:set({rank(), non_neg_integer()})}).
-opaque buffer() :: #buffer{}.

-type rank() :: none | {known, term()} | crashed.
%% `crashed' sorts before `{known, _}': atoms come before tuples.

%% @doc Makes an empty buffer for at most Max messages.
-spec new(policy(), pos_integer()) -> buffer().
new(Policy, Max) -> #buffer{policy = Policy, max = Max}.

%% @doc Counts the messages that the buffer holds.
-spec count(buffer()) -> non_neg_integer().
count(#buffer{messages = Messages}) -> gb_trees:size(Messages).

%% @doc Adds a message, and gives the number of messages that the buffer shed for it: 0 or 1.
-spec in(term(), buffer()) -> {0 | 1, buffer()}.
in(Message, #buffer{max = Max, policy = Policy} = Buffer) ->
    case count(Buffer) < Max of
        true -> {0, insert(Message, Buffer)};
        false when Policy =:= newest -> {1, Buffer};
        false when Policy =:= oldest -> {1, insert(Message, element(2, take(Buffer)))};
        false -> {1, shed_lowest(insert(Message, Buffer))}
    end.

shed_lowest(#buffer{messages = Messages, ranks = Ranks} = Buffer) ->
    {{_, Place}, Ranks1} = gb_sets:take_smallest(Ranks),
    Buffer#buffer{messages = gb_trees:delete(Place, Messages), ranks = Ranks1}.

insert(Message, #buffer{policy = Policy, next = Next, messages = Messages, ranks = Ranks} = B) ->
    Rank = rank(Policy, Message),
    B#buffer{next = Next + 1, messages = gb_trees:insert(Next, {Rank, Message}, Messages),
             ranks = case Rank of none -> Ranks; _ -> gb_sets:add({Rank, Next}, Ranks) end}.

rank({priority, Fun}, Message) ->
    try {known, Fun(Message)}
    catch _:_ -> crashed
    end;
rank(_, _) -> none.

take(#buffer{messages = Messages, ranks = Ranks} = Buffer) ->
    {Place, {Rank, Message}, Messages1} = gb_trees:take_smallest(Messages),
    {Message, Buffer#buffer{messages = Messages1,
                            ranks = gb_sets:del_element({Rank, Place}, Ranks)}}.

%% @doc Removes up to N messages, oldest first.
-spec out(non_neg_integer(), buffer()) -> {[term()], buffer()}.
out(N, #buffer{messages = Messages} = Buffer) ->
    case N =:= 0 orelse gb_trees:is_empty(Messages) of
        true -> {[], Buffer};
        false ->
            {Message, Buffer1} = take(Buffer),
            {More, Buffer2} = out(N - 1, Buffer1),
            {[Message | More], Buffer2}
    end.
