%% @doc Connects the nodes of the service, and tells whether this one is among the majority.
%%
%% All nodes have the same list (the setting `nodes'). The list is fixed while the service runs: a
%% node that is down still counts. A node that sees half of the list or less may be cut off from the
%% others, which may go on without it, so it must not change anything.
%% @hidden
-module(docket_cluster).
-behaviour(gen_server).

-export([start_link/0, nodes/0, number/0, connect/0, is_majority/0, is_majority/1, stays/3]).
-export([connected/0, call/5, multicall/5, cast/4]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-import(docket_operator, [say/1]).

-define(CALL_MS, 5000).

%% `missing' are the nodes that the last line about them named.
-record(state, {missing = unknown :: unknown | [node()]}).

%% @doc Starts the process that connects the nodes.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Lists the nodes of the service. A node without the setting is alone.
-spec nodes() -> [node(), ...].
nodes() ->
    case docket_config:get(nodes) of
        [] -> [node()];
        Nodes -> Nodes
    end.

%% @doc Returns the place of this node in the list, for its ids.
-spec number() -> 0..63.
number() -> length(lists:takewhile(fun(Node) -> Node =/= node() end, ?MODULE:nodes())).

%% @doc Tries to connect this node to all others, and waits for the end of that: up to 7 s
%% (`net_setuptime') for a node that hangs.
-spec connect() -> ok.
connect() ->
    Attempts = [spawn_monitor(net_kernel, connect_node, [Node])
                || Node <- missing(?MODULE:nodes())],
    lists:foreach(fun({Attempt, Monitor}) ->
                          receive {'DOWN', Monitor, process, Attempt, _} -> ok end
                  end, Attempts).

%% @doc Tells whether this node sees more than half of the nodes, itself among them.
-spec is_majority() -> boolean().
is_majority() -> is_majority(connected()).

%% @doc Tells whether these are more than half of the nodes of the service. Each occurs once.
-spec is_majority([term()]) -> boolean().
is_majority(Nodes) -> 2 * length(Nodes) > length(?MODULE:nodes()).

missing(All) -> All -- [node() | erlang:nodes()].

%% @doc Decides which of two nodes restarts its database, when both have all acknowledged changes
%% and their databases run apart. The nodes of the larger part stay. Of two equal parts, that with
%% the earliest node of the list stays. A third node may be in both parts, so then the earlier of
%% the two nodes stays.
-spec stays({node(), Part :: [node()]}, {node(), Part :: [node()]}, All :: [node()]) ->
          boolean().
stays(Mine, Theirs, All) -> rank(Mine, All) =< rank(Theirs, All).

rank({Node, Part}, All) ->
    Place = fun(Nodes) ->
                    length(lists:takewhile(fun(Each) -> not lists:member(Each, Nodes) end, All))
            end,
    {-length(Part), Place(Part), Place([Node])}.

%% @doc Lists the nodes of the service that this one sees, itself among them.
-spec connected() -> [node(), ...].
connected() ->
    All = ?MODULE:nodes(),
    All -- missing(All).

%% @doc Calls a function on another node, as `erpc:call/5' does, if it is connected. erpc itself
%% would wait for a connection: up to 7 s (`net_setuptime') for a node that hangs.
-spec call(node(), module(), atom(), [term()], timeout()) -> term().
call(Node, Module, Function, Arguments, Timeout) ->
    case missing([Node]) of
        [] -> erpc:call(Node, Module, Function, Arguments, Timeout);
        [_] -> error({erpc, noconnection})
    end.

%% @doc Calls a function on several nodes, as `erpc:multicall/5' does. A node that is not connected
%% has the result `{error, {erpc, noconnection}}'.
-spec multicall([node()], module(), atom(), [term()], timeout()) ->
          [{ok, term()} | {throw | exit | error, term()}].
multicall(Nodes, Module, Function, Arguments, Timeout) ->
    Missing = missing(Nodes),
    Connected = Nodes -- Missing,
    Results = maps:from_list(
                lists:zip(Connected,
                          erpc:multicall(Connected, Module, Function, Arguments, Timeout))),
    [maps:get(Node, Results, {error, {erpc, noconnection}}) || Node <- Nodes].

%% @doc Calls a function on those of several nodes that are connected, and waits for nothing.
-spec cast([node()], module(), atom(), [term()]) -> ok.
cast(Nodes, Module, Function, Arguments) ->
    lists:foreach(fun(Node) -> erpc:cast(Node, Module, Function, Arguments) end,
                  Nodes -- missing(Nodes)).

%% @private
-spec init([]) -> {ok, #state{}}.
init([]) ->
    ok = net_kernel:monitor_nodes(true),
    %% They have connected to this node before docket started here, and got no answer.
    _ = [spawn(fun() -> compare(Node) end) || Node <- ?MODULE:nodes() -- missing(?MODULE:nodes()),
                                              Node =/= node()],
    self() ! connect,
    {ok, #state{}}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_, _, State) -> {noreply, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(connect, State) ->
    %% A node that does not answer holds up an attempt for seconds.
    _ = [spawn(net_kernel, connect_node, [Node]) || Node <- missing(?MODULE:nodes())],
    _ = erlang:send_after(docket_config:get(retry), self(), connect),
    {noreply, told(State)};
handle_info({nodeup, Node}, State) ->
    _ = spawn(fun() -> compare(Node) end),
    {noreply, told(State)};
handle_info({nodedown, _}, State) -> {noreply, told(State)};
handle_info(_, State) -> {noreply, State}.

%% With different lists, two parts could both count as the majority. Nodes with different stores
%% wait for each other without end.
compare(Node) ->
    Own = {?MODULE:nodes(), docket_config:get(store)},
    try {call(Node, ?MODULE, nodes, [], ?CALL_MS),
         call(Node, docket_config, get, [store], ?CALL_MS)} of
        Theirs -> _ = [say([atom_to_list(Node), " has " | Line])
                       || Line <- differences(Own, Theirs)]
    catch
        %% A node that is not ready to answer compares itself.
        _:_ -> ok
    end.

differences({Own, Store}, {Theirs, Other}) ->
    [["another list of nodes (", docket_config:names(Theirs), "). If you are not just changing the "
      "list, give all nodes the same DOCKET_NODES, and start them again"] || Own =/= Theirs]
        ++ [io_lib:format("the store ~s, and this node ~s: give all nodes the same DOCKET_STORE, "
                          "and start them again", [Other, Store]) || Store =/= Other].

told(#state{missing = Missing} = State) ->
    All = ?MODULE:nodes(),
    case missing(All) of
        Missing -> State;
        [] when length(All) =:= 1 -> State#state{missing = []};
        [] ->
            say(["all ", integer_to_list(length(All)), " nodes are connected"]),
            State#state{missing = []};
        Now ->
            say(["missing nodes: ", docket_config:names(Now),
                 case is_majority() of
                     true -> "";
                     false ->
                         ". This node refuses changes, because it is not in the majority"
                 end]),
            State#state{missing = Now}
    end.
