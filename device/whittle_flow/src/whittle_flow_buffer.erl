%% @doc A bounded queue that sheds by a policy: what a sender keeps while it has
%% no credit. What stays leaves in the order in which it came.
-module(whittle_flow_buffer).

-export([new/2, in/2, out/2, count/1]).
-export_type([buffer/0, policy/0]).

-type policy() :: newest | oldest | {priority, fun((Message :: term()) -> term())}.
%% What is shed when the buffer is full: what comes, what came first, or the
%% one whose priority is the lowest in term order (of several the oldest).

-record(buffer, {policy :: policy(), max :: pos_integer(),
                 %% Next place, and messages by place: a map of small integers
                 %% stays ordered in gb_trees, which also finds the oldest.
                 next = 0 :: non_neg_integer(),
                 messages = gb_trees:empty() :: gb_trees:tree(non_neg_integer(), term()),
                 ranks = gb_sets:empty() :: gb_sets:set({term(), non_neg_integer()})}).
-opaque buffer() :: #buffer{}.

%% @doc An empty buffer for at most Max messages.
-spec new(policy(), pos_integer()) -> buffer().
new(Policy, Max) -> #buffer{policy = Policy, max = Max}.

%% @doc How many messages it holds.
-spec count(buffer()) -> non_neg_integer().
count(#buffer{messages = Messages}) -> gb_trees:size(Messages).

%% @doc Puts a message in, and tells how many were shed for it: 0 or 1.
-spec in(term(), buffer()) -> {0 | 1, buffer()}.
in(Message, #buffer{max = Max} = Buffer) ->
    case count(Buffer) < Max of
        true -> {0, insert(Message, Buffer)};
        false -> {1, shed(Message, Buffer)}
    end.

shed(_, #buffer{policy = newest} = Buffer) -> Buffer;
shed(Message, #buffer{policy = oldest, messages = Messages} = Buffer) ->
    {_, _, Messages1} = gb_trees:take_smallest(Messages),
    insert(Message, Buffer#buffer{messages = Messages1});
shed(Message, #buffer{policy = {priority, _}} = Buffer) ->
    #buffer{messages = Messages, ranks = Ranks} = Full = insert(Message, Buffer),
    {{_, Place}, Ranks1} = gb_sets:take_smallest(Ranks),
    Full#buffer{messages = gb_trees:delete(Place, Messages), ranks = Ranks1}.

insert(Message, #buffer{policy = Policy, next = Next, messages = Messages, ranks = Ranks} = B) ->
    Ranks1 = case Policy of
                 {priority, Rank} -> gb_sets:add({Rank(Message), Next}, Ranks);
                 _ -> Ranks
             end,
    B#buffer{next = Next + 1, messages = gb_trees:insert(Next, Message, Messages), ranks = Ranks1}.

%% @doc Takes out up to N messages, oldest first.
-spec out(non_neg_integer(), buffer()) -> {[term()], buffer()}.
out(0, Buffer) -> {[], Buffer};
out(N, #buffer{policy = Policy, messages = Messages, ranks = Ranks} = Buffer) ->
    case gb_trees:is_empty(Messages) of
        true -> {[], Buffer};
        false ->
            {Place, Message, Messages1} = gb_trees:take_smallest(Messages),
            Ranks1 = case Policy of
                         {priority, Rank} -> gb_sets:del_element({Rank(Message), Place}, Ranks);
                         _ -> Ranks
                     end,
            {More, Buffer1} = out(N - 1, Buffer#buffer{messages = Messages1, ranks = Ranks1}),
            {[Message | More], Buffer1}
    end.
