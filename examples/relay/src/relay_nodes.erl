%% @doc Keeps this node connected with the nodes that the application's `nodes'
%% names. It tries again every `retry' milliseconds while one is missing.
-module(relay_nodes).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% @doc Starts the process.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @private
-spec init([]) -> {ok, [node()]}.
init([]) ->
    {ok, Nodes} = application:get_env(relay, nodes),
    self() ! connect,
    {ok, Nodes -- [node()]}.

%% @private
-spec handle_call(term(), gen_server:from(), [node()]) -> {reply, {error, unknown}, [node()]}.
handle_call(_, _, Nodes) ->
    {reply, {error, unknown}, Nodes}.

%% @private
-spec handle_cast(term(), [node()]) -> {noreply, [node()]}.
handle_cast(_, Nodes) ->
    {noreply, Nodes}.

%% @private
-spec handle_info(term(), [node()]) -> {noreply, [node()]}.
handle_info(connect, []) ->
    {noreply, []};
handle_info(connect, Nodes) ->
    _ = [net_kernel:connect_node(Node) || Node <- Nodes -- nodes()],
    {ok, Retry} = application:get_env(relay, retry),
    _ = erlang:send_after(Retry, self(), connect),
    {noreply, Nodes};
handle_info(_, Nodes) ->
    {noreply, Nodes}.
