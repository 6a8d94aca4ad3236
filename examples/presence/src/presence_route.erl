%% @doc Sends what is for other VMs, in batches and with credit (whittle_flow).
%%
%% A VM that takes nothing does not block its senders: beyond the window, the newest messages for it
%% are dropped, and whittle_flow counts them.
%% @hidden
-module(presence_route).
-behaviour(whittle_flow_shard).

-export([init/1, handle/3, info/2]).

%% The sender for each node, with the inbox that it sends to
-type state() :: #{node() => {pid(), whittle_flow_sender:sender()}}.

%% @private
-spec init([]) -> state().
init([]) -> #{}.

%% @private
-spec handle(User :: binary(), {node(), presence_inbox:message()}, state()) -> state().
handle(_, {Node, Message}, Senders) ->
    case {presence_cluster:inbox(Node), Senders} of
        {none, _} ->
            ok = presence_inbox:returned(Message),
            maps:remove(Node, Senders);
        {Inbox, #{Node := {Inbox, Sender}}} ->
            Senders#{Node := {Inbox, whittle_flow_sender:push(Message, Sender)}};
        {Inbox, _} ->
            {ok, Sender} = whittle_flow_sender:new(
                             Inbox, #{batch => 100, wait => 2, window => 10000, policy => newest,
                                      buffer => 10000}),
            Senders#{Node => {Inbox, whittle_flow_sender:push(Message, Sender)}}
    end.

%% @private Credit, timers and ends of inboxes belong to one of the senders.
-spec info(term(), state()) -> state().
info(News, Senders) -> info(News, maps:to_list(Senders), Senders).

info(_, [], Senders) -> Senders;
info(News, [{Node, {Inbox, Sender}} | Others], Senders) ->
    case whittle_flow_sender:info(News, Sender) of
        {ok, Next} -> Senders#{Node := {Inbox, Next}};
        ignored -> info(News, Others, Senders)
    end.
