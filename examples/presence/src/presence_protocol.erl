%% @doc Defines a protocol of clients as pure functions: bytes and news become actions.
%%
%% The process that owns the socket (presence_group) carries the actions out, in their order.
%% @hidden
-module(presence_protocol).

-export_type([admission/0, options/0, action/0, news/0, message/0, result/1]).

%% A connection that is refused gets an answer when it asks, and then ends.
-type admission() :: admitted | refused.

-type options() :: #{admission := admission(), tls := boolean()}.

-type message() :: #{from := binary(), to := binary(), id := binary(), body := binary()}.

-type action() ::
        {send, iodata()}
        %% The user proved its name. The news `online' or `busy' follows; until then the connection
        %% gets no further data.
      | {login, User :: binary()}
      | {route, message()}
        %% Sends bytes that tell the client to encrypt the connection, and does so too. The protocol
        %% begins again, with the option `tls'.
      | {starttls, iodata()}
      | close.

-type news() :: online | busy | replaced | shutdown | timeout
              | {message, message()}
              | {undeliverable, message(), absent | busy}.

-type result(State) :: {[action()], State}.

-callback init(options()) -> State :: term().
-callback data(binary(), State :: term()) -> result(State :: term()).
-callback news(news(), State :: term()) -> result(State :: term()).
%% The user that is logged in
-callback user(State :: term()) -> binary() | none.
