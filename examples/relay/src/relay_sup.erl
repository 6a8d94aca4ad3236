%% @doc Supervises the group, the clients, then the listener that lets them in.
-module(relay_sup).
-behaviour(supervisor).

-export([start_link/1, start_client/1]).
-export([init/1]).

%% @doc Starts the tree; the group's scope is named like the application.
-spec start_link(atom()) -> {ok, pid()} | {error, term()}.
start_link(Scope) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, {top, Scope}).

%% @doc Starts a process for a socket that was accepted.
-spec start_client(gen_tcp:socket()) -> {ok, pid()} | {error, term()}.
start_client(Socket) ->
    case supervisor:start_child(relay_clients, [Socket]) of
        {ok, Pid} when is_pid(Pid) -> {ok, Pid};
        {error, _} = Error -> Error
    end.

%% @private
-spec init({top, atom()} | clients) ->
          {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({top, Scope}) ->
    %% A process that joined a group that is gone has to join again.
    {ok, {#{strategy => rest_for_one},
          [#{id => group, start => {pg, start_link, [Scope]}},
           #{id => clients, type => supervisor,
             start => {supervisor, start_link, [{local, relay_clients}, ?MODULE, clients]}},
           #{id => nodes, start => {relay_nodes, start_link, []}},
           #{id => listener, start => {relay_listener, start_link, []}}]}};
init(clients) ->
    {ok, {#{strategy => simple_one_for_one},
          [#{id => client, restart => temporary,
             start => {relay_client, start_link, []}}]}}.
