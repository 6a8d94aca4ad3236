%% @doc Knows where users are logged in, and finds the way of a message to a user.
%%
%% Each VM has a table of its own users. A user also has an owner, one of the VMs (presence_ring),
%% which knows the VM where the user is. So a login costs one message to the owner, and a message to
%% a user of another VM takes at most two steps between VMs: to the owner, and from there to the
%% user. No VM knows all users.
%% @hidden
-module(presence_directory).

-export([new/0, login/3, logout/3, forget/1, users/0]).
-export([route/2, pass_on/2, deliver/1, end_session/1]).
-export([register/3, unregister/2, forget_node/1, moved/2, purge/0]).

-export_type([from/0]).

%% The connection that sent a message
-type from() :: {pid(), presence_group:socket()}.

%% Users of this VM: {User, Group, Socket}
-define(HERE, presence_here).
%% Users of other VMs whose owner this VM is: {User, Node}
-define(ELSEWHERE, presence_elsewhere).

%% @doc Makes the tables. They belong to the calling process.
-spec new() -> ok.
new() ->
    _ = [ets:new(Table, [named_table, public, {read_concurrency, true}, {write_concurrency, true}])
         || Table <- [?HERE, ?ELSEWHERE]],
    ok.

%% @doc Returns the number of users that are logged in on this VM.
-spec users() -> non_neg_integer().
users() -> ets:info(?HERE, size).

%% Logins

%% @doc Logs a user in on a connection of the calling group. With `waiting' the group gets
%% `{online, Socket}' when the owner knows the user. An earlier connection of the user ends.
-spec login(User :: binary(), presence_groups:index(), presence_group:socket()) ->
          online | waiting | busy.
login(User, Group, Socket) ->
    ok = claim({User, Group, Socket}),
    case presence_cluster:owner(User) of
        Owner when Owner =:= node() ->
            case ets:take(?ELSEWHERE, User) of
                [{_, Node}] -> send(User, Node, {replaced, User});
                [] -> ok
            end,
            online;
        Owner ->
            case send(User, Owner, {register, User, node(), {self(), Socket}}) of
                ok -> waiting;
                busy -> busy
            end
    end.

%% Whoever removes the row of an earlier session ends it, also if two log in at the same time.
claim({User, _, _} = Row) ->
    _ = [presence_groups:post(Group, Socket, replaced)
         || {_, Group, Socket} <- ets:take(?HERE, User)],
    case ets:insert_new(?HERE, Row) of
        true -> ok;
        false -> claim(Row)
    end.

%% @doc Ends the session of a user on this VM, because the user is logged in elsewhere.
-spec end_session(User :: binary()) -> ok.
end_session(User) ->
    case ets:lookup(?HERE, User) of
        [{_, Group, Socket}] ->
            _ = presence_groups:post(Group, Socket, replaced),
            ok;
        [] -> ok
    end.

%% @doc Logs a user out, if this connection is still the one of the user.
-spec logout(User :: binary(), presence_groups:index(), presence_group:socket()) -> ok.
logout(User, Group, Socket) ->
    case ets:lookup(?HERE, User) of
        [{_, Group, Socket} = Row] ->
            true = ets:delete_object(?HERE, Row),
            case presence_cluster:owner(User) of
                Owner when Owner =:= node() -> ok;
                Owner ->
                    _ = send(User, Owner, {unregister, User, node()}),
                    ok
            end;
        _ -> ok
    end.

%% @doc Logs out all users of a group that has ended.
-spec forget(presence_groups:index()) -> ok.
forget(Group) ->
    lists:foreach(fun({User, Socket}) -> logout(User, Group, Socket) end,
                  ets:select(?HERE, [{{'$1', Group, '$2'}, [], [{{'$1', '$2'}}]}])).

%% Messages

%% @doc Sends a message on its way to its user. If another VM cannot deliver it, the sender gets the
%% news `undeliverable' later.
-spec route(presence_protocol:message(), from()) -> ok | absent | busy.
route(#{to := To} = Message, From) ->
    case deliver(Message) of
        here -> counted(ok, here);
        busy -> counted(busy, busy);
        absent ->
            case elsewhere(To, Message, From) of
                ok -> counted(ok, elsewhere);
                Why -> counted(Why, Why)
            end
    end.

counted(Result, Label) ->
    ok = presence_counts:message(Label),
    Result.

elsewhere(To, Message, From) ->
    case presence_cluster:owner(To) of
        Owner when Owner =:= node() -> known(To, Message, From);
        Owner -> send(To, Owner, {route, Message, From})
    end.

%% The owner's answer
known(To, Message, From) ->
    case ets:lookup(?ELSEWHERE, To) of
        [{_, Node}] -> send(To, Node, {deliver, Message, From});
        [] -> absent
    end.

%% @doc Delivers a message from another VM, or passes it on. If the other VM took this one for the
%% owner by mistake, the message goes no further, so that it cannot go round.
-spec pass_on(presence_protocol:message(), from()) -> ok | absent | busy.
pass_on(#{to := To} = Message, From) ->
    case deliver(Message) of
        here -> ok;
        busy -> busy;
        absent -> known(To, Message, From)
    end.

%% @doc Gives a message to its user, if the user is logged in on this VM.
-spec deliver(presence_protocol:message()) -> here | absent | busy.
deliver(#{to := To} = Message) ->
    case ets:lookup(?HERE, To) of
        [{_, Group, Socket}] -> presence_groups:post(Group, Socket, {message, Message});
        [] -> absent
    end.

%% The messages to a user take the same way, so their order stays.
send(User, Node, Message) ->
    case whittle_flow_pool:send(presence_router, User, {Node, Message}) of
        ok -> ok;
        {error, _} -> busy
    end.

%% The owner's part

%% @doc Notes the VM of a user. If the user was on another one, its session there ends.
-spec register(User :: binary(), node(), none | from()) -> ok.
register(User, Node, From) ->
    case ets:lookup(?ELSEWHERE, User) of
        [{_, Other}] when Other =/= Node -> _ = send(User, Other, {replaced, User}), ok;
        _ -> ok
    end,
    ok = end_session(User),
    true = ets:insert(?ELSEWHERE, {User, Node}),
    case From of
        none -> ok;
        {Group, Socket} -> presence_inbox:tell(Group, {online, Socket})
    end.

%% @doc Forgets the VM of a user, if it is still this one.
-spec unregister(User :: binary(), node()) -> ok.
unregister(User, Node) ->
    true = ets:delete_object(?ELSEWHERE, {User, Node}),
    ok.

%% @doc Forgets all users of a VM that is gone.
-spec forget_node(node()) -> ok.
forget_node(Node) ->
    true = ets:match_delete(?ELSEWHERE, {'_', Node}),
    ok.

%% @doc Tells new owners about the users of this VM. This takes as long as the router needs.
-spec moved(presence_ring:ring(), presence_ring:ring()) -> ok.
moved(Before, Now) ->
    fold(fun({User, _, _}) ->
                 case presence_ring:owner(User, Now) of
                     Owner when Owner =:= node() -> ok;
                     Owner ->
                         case presence_ring:owner(User, Before) of
                             Owner -> ok;
                             _ -> patiently(User, Owner, {register, User, node(), none})
                         end
                 end
         end, ?HERE).

patiently(User, Node, Message) ->
    case send(User, Node, Message) of
        ok -> ok;
        busy -> receive after 10 -> patiently(User, Node, Message) end
    end.

%% @doc Forgets the users that another VM owns now.
-spec purge() -> ok.
purge() ->
    fold(fun({User, _} = Row) ->
                 case presence_cluster:owner(User) of
                     Owner when Owner =:= node() -> ok;
                     _ -> true = ets:delete_object(?ELSEWHERE, Row)
                 end
         end, ?ELSEWHERE).

%% Each row is copied alone, so the memory does not grow.
fold(Fun, Table) ->
    true = ets:safe_fixtable(Table, true),
    try fold(Fun, Table, ets:first(Table))
    after ets:safe_fixtable(Table, false)
    end.

fold(_, _, '$end_of_table') -> ok;
fold(Fun, Table, Key) ->
    _ = [Fun(Row) || Row <- ets:lookup(Table, Key)],
    fold(Fun, Table, ets:next(Table, Key)).
