%% @doc Serves the connections of a group of clients.
%%
%% A process for each connection would be simpler, but takes about 960 bytes, a third of an idle
%% connection (bench/load/README.md). So one process owns up to `group' sockets, and hibernates
%% when it has no work. The protocol of a connection is a module of pure functions
%% (presence_protocol). If it crashes, only that connection ends.
%%
%% The process waits for no client. A few bytes wait in the VM for a client that does not read, for
%% `send_timeout' milliseconds; then its connection ends.
%% @hidden
-module(presence_group).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([socket/0]).

-type socket() :: gen_tcp:socket() | ssl:sslsocket().

-record(state, {index :: presence_groups:index(),
                clients = #{} :: #{socket() => {module(), Protocol :: term()} | closing},
                %% The time by which a client has to log in, or to close. Most clients have none.
                deadlines = #{} :: #{socket() => integer()},
                %% Clients that have to log in, and when they sent something last. If too many want
                %% to log in, those that stall end.
                heard = #{} :: #{socket() => {silent | stalls, integer()}},
                %% Clients that do not read, and the time by which they have to
                slow = #{} :: #{socket() => integer()},
                ticking = false :: boolean(),
                draining = false :: boolean()}).

%% Milliseconds for a client to close when the server has said the last word
-define(CLOSING, 2000).
%% Milliseconds between two looks at the deadlines
-define(TICK, 1000).
%% The words of memory at which the VM ends a group, and with it its connections. This is the last
%% guard: a group has at most `waiting' messages, and the parser bounds each stanza.
-define(LARGEST_HEAP, 4_000_000).

%% @doc Starts a group without connections.
-spec start_link(presence_groups:index()) -> {ok, pid()} | {error, term()} | ignore.
start_link(Index) ->
    gen_server:start_link(?MODULE, Index,
                          [{spawn_opt, [{max_heap_size, #{size => ?LARGEST_HEAP, kill => true,
                                                          error_logger => true}}]}]).

%% @private
-spec init(presence_groups:index()) -> {ok, #state{}, hibernate}.
init(Index) -> {ok, #state{index = Index}, hibernate}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown}, #state{}, 0}.
handle_call(_, _, State) -> {reply, {error, unknown}, State, 0}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}, 0}.
handle_cast(_, State) -> {noreply, State, 0}.

%% @private
-spec handle_info(term(), #state{}) ->
          {noreply, #state{}, 0 | hibernate} | {stop, normal, #state{}}.
handle_info(timeout, State) -> {noreply, State, hibernate};
handle_info(Message, State) ->
    case message(Message, State) of
        #state{draining = true, clients = Clients} = Last when map_size(Clients) =:= 0 ->
            {stop, normal, Last};
        Next -> {noreply, Next, 0}
    end.

message({Tag, Socket, Bytes}, State) when Tag =:= tcp; Tag =:= ssl ->
    step(Socket, data, Bytes, heard(Socket, State));
message({news, Socket, News}, #state{index = Index} = State) ->
    ok = presence_groups:taken(Index),
    step(Socket, news, News, State);
message({online, Socket}, State) -> step(Socket, news, online, State);
message({undeliverable, Socket, Message, Why}, State) ->
    step(Socket, news, {undeliverable, Message, Why}, State);
message({take, Socket, Module, Options}, State) -> take(Socket, Module, Options, State);
message({Tag, Socket}, State) when Tag =:= tcp_passive; Tag =:= ssl_passive ->
    go_on(Socket, State);
message({Tag, Socket}, State) when Tag =:= tcp_closed; Tag =:= ssl_closed ->
    gone(Socket, client, State);
message({Tag, Socket, _}, State) when Tag =:= tcp_error; Tag =:= ssl_error ->
    gone(Socket, error, State);
message(tick, State) -> tick(State#state{ticking = false});
message(drain, #state{clients = Clients} = State) ->
    lists:foldl(fun(Socket, S) -> step(Socket, news, shutdown, S) end,
                State#state{draining = true}, maps:keys(Clients));
message(_, State) -> State.

%% Internal functions: connections

take(Socket, Module, Options, #state{clients = Clients, heard = Heard} = State) ->
    Client = {Module, Module:init(Options)},
    Taken = deadline(Socket, presence_config:get(login_timeout),
                     State#state{clients = Clients#{Socket => Client},
                                 heard = Heard#{Socket => {silent, now_ms()}}}),
    case State of
        #state{draining = true} -> step(Socket, news, shutdown, Taken);
        _ -> activate(Socket, Taken)
    end.

heard(Socket, #state{heard = Heard} = State) when is_map_key(Socket, Heard) ->
    State#state{heard = Heard#{Socket := {stalls, now_ms()}}};
heard(_, State) -> State.

%% The client does not want to log in any more.
decided(Socket, #state{heard = Heard} = State) ->
    State#state{heard = maps:remove(Socket, Heard)}.

now_ms() -> erlang:monotonic_time(millisecond).

activate(Socket, State) ->
    case presence_socket:activate(Socket) of
        ok -> State;
        {error, _} -> gone(Socket, client, State)
    end.

%% The client may send more, unless it waits for its login.
go_on(Socket, #state{clients = Clients} = State) ->
    case Clients of
        #{Socket := closing} -> activate(Socket, State);
        #{Socket := {Module, Protocol}} ->
            case {Module:user(Protocol), State} of
                {User, #state{deadlines = #{Socket := _}}} when User =/= none -> State;
                _ -> activate(Socket, State)
            end;
        _ -> State
    end.

deadline(Socket, After, #state{deadlines = Deadlines} = State) ->
    At = erlang:monotonic_time(millisecond) + After,
    ticking(State#state{deadlines = Deadlines#{Socket => At}}).

ticking(#state{ticking = false, deadlines = Deadlines} = State) when map_size(Deadlines) > 0 ->
    _ = erlang:send_after(?TICK, self(), tick),
    State#state{ticking = true};
ticking(State) -> State.

tick(#state{deadlines = Deadlines, heard = Heard} = State) ->
    Now = now_ms(),
    Late = [Socket || {Socket, At} <- maps:to_list(Deadlines), At =< Now],
    Stalled = case map_size(Heard) > 0 andalso presence_limits:is_crowded() of
                  true -> stalled(maps:to_list(Heard), Now - presence_config:get(silent_timeout));
                  false -> []
              end,
    ticking(lists:foldl(fun late/2, State, lists:usort(Late ++ Stalled))).

%% These clients must not keep others out: all that have sent nothing, and the one that has sent
%% nothing for the longest time since. Under load, a client of a slow server stalls too, so each
%% look ends only one of these.
stalled(Heard, Before) ->
    Old = [{At, Kind, Socket} || {Socket, {Kind, At}} <- Heard, At =< Before],
    [Socket || {_, silent, Socket} <- Old]
        ++ case lists:sort([{At, Socket} || {At, stalls, Socket} <- Old]) of
               [{_, Longest} | _] -> [Longest];
               [] -> []
           end.

late(Socket, #state{clients = Clients} = State) ->
    case Clients of
        #{Socket := closing} -> gone(Socket, server, State);
        _ -> step(Socket, news, timeout, State)
    end.

%% Ends a connection. The user may have another one by now.
gone(Socket, Reason, #state{index = Index, clients = Clients} = State) ->
    case Clients of
        #{Socket := Client} ->
            ok = logout(Socket, Client, State),
            ok = presence_socket:close(Socket),
            _ = presence_groups:released(Index, self()),
            ok = presence_limits:leave(1),
            ok = presence_counts:ended(Reason),
            forgotten(Socket, State);
        _ -> State
    end.

forgotten(Socket, Before) ->
    #state{clients = Clients, deadlines = Deadlines, slow = Slow} = State
        = decided(Socket, Before),
    State#state{clients = maps:remove(Socket, Clients), deadlines = maps:remove(Socket, Deadlines),
                slow = maps:remove(Socket, Slow)}.

logout(_, closing, _) -> ok;
logout(Socket, {Module, Protocol}, #state{index = Index}) ->
    case Module:user(Protocol) of
        none -> ok;
        User -> presence_directory:logout(User, Index, Socket)
    end.

%% Internal functions: the protocol

%% Gives bytes or news to the protocol of a connection, and carries out its actions.
step(Socket, How, What, #state{clients = Clients} = State) ->
    case Clients of
        #{Socket := {Module, Protocol}} ->
            try
                {Actions, Next} = Module:How(What, Protocol),
                Before = {Module:user(Protocol), State},
                case actions(Actions, [], Socket, Module, Next, Before) of
                    {go_on, After} when How =:= news, What =:= online -> logged_in(Socket, After);
                    {_, After} -> After
                end
            catch Class:Reason:Stack ->
                    logger:error("a connection ended: ~0tP", [{Class, Reason, Stack}, 40]),
                    gone(Socket, crash, State)
            end;
        _ -> State
    end.

logged_in(Socket, Before) ->
    #state{deadlines = Deadlines} = State = decided(Socket, Before),
    ok = presence_counts:login(ok),
    activate(Socket, State#state{deadlines = maps:remove(Socket, Deadlines)}).

%% Carries out actions. Out has bytes for one common write. User was logged in before the actions.
%% The result is `stop' if the login is not decided yet, or if the connection ends.
actions([{send, Bytes} | Actions], Out, Socket, Module, Protocol, Before) ->
    actions(Actions, [Out, Bytes], Socket, Module, Protocol, Before);
actions(Actions, [_ | _] = Out, Socket, Module, Protocol, {User, State}) ->
    case send(Socket, Out, State) of
        {ok, Next} -> actions(Actions, [], Socket, Module, Protocol, {User, Next});
        {error, timeout} -> {stop, gone(Socket, slow, State)};
        {error, _} -> {stop, gone(Socket, client, State)}
    end;
actions([], [], Socket, Module, Protocol, {_, State}) ->
    {go_on, put_client(Socket, Module, Protocol, State)};
actions([{route, Message} | Actions], [], Socket, Module, Protocol, Before) ->
    case presence_directory:route(Message, {self(), Socket}) of
        ok -> actions(Actions, [], Socket, Module, Protocol, Before);
        Why ->
            {More, Next} = Module:news({undeliverable, Message, Why}, Protocol),
            actions(More ++ Actions, [], Socket, Module, Next, Before)
    end;
actions([{login, User}], [], Socket, Module, Protocol, {_, #state{index = Index} = State}) ->
    Next = put_client(Socket, Module, Protocol, State),
    {stop, case presence_directory:login(User, Index, Socket) of
               online -> step(Socket, news, online, Next);
               waiting -> Next;
               busy ->
                   ok = presence_counts:login(busy),
                   step(Socket, news, busy, Next)
           end};
actions([{starttls, Bytes}], [], Socket, Module, _, {_, State}) ->
    %% The first bytes of the handshake must not come to this process.
    case presence_socket:pause(Socket) =:= ok andalso send(Socket, Bytes, State) of
        {ok, Sent} ->
            _ = presence_groups:released(Sent#state.index, self()),
            ok = presence_tls:upgrade(Socket, Module),
            {stop, forgotten(Socket, Sent)};
        _ -> {stop, gone(Socket, client, State)}
    end;
actions([close], [], Socket, _, _, {User, #state{index = Index} = State}) ->
    _ = [ok = presence_directory:logout(User, Index, Socket) || User =/= none],
    #state{clients = Clients} = State,
    Closing = deadline(Socket, ?CLOSING,
                       decided(Socket, State#state{clients = Clients#{Socket := closing}})),
    {stop, case presence_socket:finish(Socket) of
               ok -> activate(Socket, Closing);
               {error, _} -> gone(Socket, server, Closing)
           end}.

%% Sends without waiting for the client.
send(Socket, Bytes, #state{slow = Slow} = State) ->
    case {presence_socket:waiting(Socket), Slow} of
        {most, _} -> {error, timeout};
        {much, #{Socket := Until}} ->
            case now_ms() < Until of
                true -> sent(Socket, Bytes, State);
                false -> {error, timeout}
            end;
        {much, _} ->
            Until = now_ms() + presence_config:get(send_timeout),
            sent(Socket, Bytes, State#state{slow = Slow#{Socket => Until}});
        {little, #{Socket := _}} ->
            sent(Socket, Bytes, State#state{slow = maps:remove(Socket, Slow)});
        {little, _} -> sent(Socket, Bytes, State)
    end.

sent(Socket, Bytes, State) ->
    case presence_socket:send(Socket, Bytes) of
        ok -> {ok, State};
        {error, _} = Error -> Error
    end.

put_client(Socket, Module, Protocol, #state{clients = Clients} = State) ->
    State#state{clients = Clients#{Socket := {Module, Protocol}}}.
