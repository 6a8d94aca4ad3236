%% @doc Decides whether a new connection may come in.
%%
%% A connection is admitted up to a limit of connections, as long as memory is left, and as long as
%% not too many others are still logging in: if the processor is too slow for all, some logins
%% succeed in time, and the others fail at once. A connection that is not admitted is refused: it
%% gets an answer, and ends. Some descriptors are kept for such answers. When they are in use too,
%% the acceptors close new connections at once.
%%
%% The limit follows from descriptors, ports and processes, unless the setting `limit' is lower. The
%% memory is that of the control group, of the machine, or of this VM (presence_memory).
%% @hidden
-module(presence_limits).
-behaviour(gen_server).

-export([start_link/0, enter/0, leave/1, connections/0, limit/0, is_crowded/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {source :: presence_memory:source(), high :: float(), low :: float()}).

%% The slots of the atomics: open connections, whether memory is left, and connections so far.
-define(OPEN, 1).
-define(FULL, 2).
-define(COUNT, 3).

%% Descriptors that are not for clients: the VM's own and some for files. Each other VM of the
%% service needs one more.
-define(OWN_FILES, 64).
%% One of so many connections is kept for refusals.
-define(REFUSALS, 50).
%% The memory may grow between two looks at it: they come each second, and after so many
%% connections. 128 of them take less than 1 MB.
-define(EVERY_MS, 1000).
-define(EVERY, 128).
%% Connections are admitted again when so many percent of the memory are free again.
-define(HYSTERESIS, 2).

%% @doc Starts the process that watches the memory.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Counts a connection. With `none' it does not count, and has to end at once.
-spec enter() -> presence_protocol:admission() | none.
enter() ->
    {Ref, Soft, Hard, Logins} = persistent_term:get(?MODULE),
    _ = case atomics:add_get(Ref, ?COUNT, 1) rem ?EVERY of
            0 -> look();
            _ -> ok
        end,
    case atomics:add_get(Ref, ?OPEN, 1) of
        Open when Open > Hard ->
            ok = atomics:sub(Ref, ?OPEN, 1),
            none;
        Open when Open > Soft -> refused;
        Open ->
            case atomics:get(Ref, ?FULL) =:= 0
                andalso Open - presence_directory:users() =< Logins of
                true -> admitted;
                false -> refused
            end
    end.

%% The acceptor waits for the answer, so it is never ahead of the measurement.
look() ->
    try gen_server:call(?MODULE, look)
    catch exit:_ -> ok
    end.

%% @doc Counts the end of connections.
-spec leave(non_neg_integer()) -> ok.
leave(N) ->
    {Ref, _, _, _} = persistent_term:get(?MODULE),
    atomics:sub(Ref, ?OPEN, N).

%% @doc Returns the number of open connections.
-spec connections() -> non_neg_integer().
connections() ->
    {Ref, _, _, _} = persistent_term:get(?MODULE),
    max(0, atomics:get(Ref, ?OPEN)).

%% @doc Tells whether so many clients are logging in that new ones are refused.
-spec is_crowded() -> boolean().
is_crowded() ->
    {Ref, _, _, Logins} = persistent_term:get(?MODULE),
    atomics:get(Ref, ?OPEN) - presence_directory:users() >= Logins.

%% @doc Returns the number of connections from which new ones are refused.
-spec limit() -> non_neg_integer().
limit() ->
    {_, Soft, _, _} = persistent_term:get(?MODULE),
    Soft.

%% @private A restart of this process must not forget the open connections.
-spec init([]) -> {ok, #state{}}.
init([]) ->
    Ref = case persistent_term:get(?MODULE, none) of
              {Before, _, _, _} -> Before;
              none -> atomics:new(?COUNT, [])
          end,
    {Soft, Hard} = bounds(),
    ok = persistent_term:put(?MODULE, {Ref, Soft, Hard, presence_config:get(logins)}),
    Source = presence_memory:source(presence_config:get(memory)),
    High = presence_config:get(memory_high),
    _ = erlang:send_after(?EVERY_MS, self(), look),
    {ok, looked(#state{source = Source, high = High / 100, low = (High - ?HYSTERESIS) / 100})}.

bounds() ->
    Own = ?OWN_FILES + length(presence_config:get(nodes)),
    Room = max(2, min(files(), erlang:system_info(port_limit)) - Own),
    %% A connection over TLS has two processes of its own.
    Tls = case presence_config:get(certificate) of
              none -> Room;
              _ -> erlang:system_info(process_limit) div 3
          end,
    Hard = min(Room, Tls),
    Soft = max(1, Hard - Hard div ?REFUSALS - 1),
    case presence_config:get(limit) of
        Wanted when is_integer(Wanted), Wanted < Soft ->
            {Wanted, min(Hard, Wanted + Wanted div ?REFUSALS + ?OWN_FILES)};
        _ -> {Soft, Hard}
    end.

%% The VM knows its limit of descriptors.
files() ->
    case lists:keyfind(max_fds, 1, lists:flatten(erlang:system_info(check_io))) of
        {_, Files} -> Files;
        false -> erlang:system_info(port_limit)
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, ok, #state{}}.
handle_call(_, _, State) -> {reply, ok, looked(State)}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(look, State) ->
    _ = erlang:send_after(?EVERY_MS, self(), look),
    {noreply, looked(State)};
handle_info(_, State) -> {noreply, State}.

looked(#state{source = Source, high = High, low = Low} = State) ->
    {Ref, _, _, _} = persistent_term:get(?MODULE),
    case {presence_memory:used(Source), atomics:get(Ref, ?FULL)} of
        {unknown, _} -> ok;
        {{ok, Used}, 0} ->
            _ = [atomics:put(Ref, ?FULL, 1) || Used > High * element(tuple_size(Source), Source)],
            ok;
        {{ok, Used}, 1} ->
            _ = [atomics:put(Ref, ?FULL, 0) || Used < Low * element(tuple_size(Source), Source)],
            ok
    end,
    State.
