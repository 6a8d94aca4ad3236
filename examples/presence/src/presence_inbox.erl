%% @doc Takes what other VMs send, in batches.
%% @hidden
-module(presence_inbox).
-behaviour(whittle_flow_batcher).

-export([init/1, handle_batch/2]).
-export([tell/2, returned/1]).

-export_type([message/0]).

-type message() ::
        %% To the owner of a user. The connection, if it waits, gets `{online, Socket}'.
        {register, User :: binary(), node(), none | presence_directory:from()}
      | {unregister, User :: binary(), node()}
      | {route, presence_protocol:message(), presence_directory:from()}
        %% To the VM of a user
      | {deliver, presence_protocol:message(), presence_directory:from()}
      | {replaced, User :: binary()}.

%% @private
-spec init([]) -> [].
init([]) -> [].

%% @private
-spec handle_batch([message()], []) -> [].
handle_batch(Messages, State) ->
    lists:foreach(fun take/1, Messages),
    State.

take({register, User, Node, From}) -> presence_directory:register(User, Node, From);
take({unregister, User, Node}) -> presence_directory:unregister(User, Node);
take({replaced, User}) -> presence_directory:end_session(User);
take({route, Message, From}) ->
    case presence_directory:pass_on(Message, From) of
        ok -> ok;
        Why -> undeliverable(Message, From, Why)
    end;
take({deliver, Message, From}) ->
    case presence_directory:deliver(Message) of
        here -> ok;
        Why -> undeliverable(Message, From, Why)
    end.

undeliverable(Message, {Group, Socket}, Why) ->
    tell(Group, {undeliverable, Socket, Message, Why}).

%% @doc Deals with a message for a VM that is gone.
-spec returned(message()) -> ok.
returned({Kind, Message, From}) when Kind =:= route; Kind =:= deliver ->
    undeliverable(Message, From, absent);
returned(_) -> ok.

%% @doc Sends news to a group, perhaps on another VM. It does not wait for a VM that takes nothing.
-spec tell(pid(), term()) -> ok.
tell(Group, News) ->
    _ = erlang:send(Group, News, [nosuspend, noconnect]),
    ok.
