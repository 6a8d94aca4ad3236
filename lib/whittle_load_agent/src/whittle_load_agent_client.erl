%% @doc Declares the callbacks of a protocol.
%%
%% A client is pure: it turns steps into bytes, and bytes into events. The user's process owns the
%% socket. The state of a client should be small, because each connected user keeps one.
-module(whittle_load_agent_client).

-export_type([state/0, event/0, await/0, user/0]).

-type state() :: term().
%% `delivered' is a message that another user sent. Its moment is that of the intended sending.
-type event() :: term() | {delivered, Clock :: integer(), term()}.
%% The answer for which a step waits.
-type await() :: term().
%% The values that a step may contain.
-type user() :: #{id := non_neg_integer(), row := tuple(), random := non_neg_integer(),
                  clock := integer(),            % the intended moment of the step, in nanoseconds
                                                 % of os:perf_counter/1, which all VMs of a
                                                 % machine share
                  taken := #{Name :: binary() => binary()}}.   % from earlier answers

%% @doc Makes the state of a new connection.
-callback init(Options :: map(), user()) -> state().

%% @doc Carries out a step of a session. With `await', the step ends with the answer.
-callback step(Step :: term(), user(), state()) ->
    {sent, iodata(), state()} | {await, iodata(), await(), state()} | {error, atom()}.

%% @doc Reads bytes from the server. The third element has the bytes to send at once. An error ends
%% the connection, perhaps after some last bytes.
-callback data(binary(), state()) ->
    {ok, [event()], iodata(), state()}
  | {error, atom() | binary()}
  | {error, atom() | binary(), iodata()}.

%% @doc Ends a connection that the server has closed. The events may still be the answer. Without
%% events, a user that waits for no answer goes on.
-callback closed(state()) -> {ok, [event()]} | {error, atom()}.

%% @doc Tells whether an event is the answer. After `last' the server takes no other request on this
%% connection.
-callback match(await(), event()) -> boolean() | last | {error, atom() | binary()}.

%% @doc Returns the bytes to send before the user closes the connection. Default: none.
-callback bye(state()) -> iodata().

%% @doc Returns the bytes that keep a connection alive. The user sends them each time that the
%% target's `keep_alive' has passed.
-callback keep_alive(state()) -> {iodata(), state()}.

%% @doc Returns the text of an answer, from which the steps `take' behind it take their parts.
-callback text(event()) -> iodata().

-optional_callbacks([bye/1, keep_alive/1, text/1]).
