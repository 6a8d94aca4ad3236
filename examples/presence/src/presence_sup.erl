%% @doc Supervises the server: first the parts that connections need, then the listeners.
%% @hidden
-module(presence_sup).
-behaviour(supervisor).

-export([start_link/0, metrics_port/0]).
-export([init/1]).

%% @doc Starts the tree.
-spec start_link() -> supervisor:startlink_ret().
start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @doc Returns the port of the endpoint for Prometheus, if there is one.
-spec metrics_port() -> [{metrics, inet:port_number()}].
metrics_port() ->
    case lists:keyfind(whittle_counters_http, 1, supervisor:which_children(?MODULE)) of
        {_, Endpoint, _, _} when is_pid(Endpoint) ->
            [{metrics, whittle_counters_http:port(Endpoint)}];
        _ -> []
    end.

%% @private The tables of users belong to this process, because users stay logged in while another
%% process restarts. The parts of the cluster restart together: other VMs then see a new member.
-spec init([] | cluster) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    ok = presence_directory:new(),
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10},
          [#{id => limits, start => {presence_limits, start_link, []}},
           #{id => groups, start => {presence_groups, start_link, []}},
           #{id => group_sup, type => supervisor, start => {presence_group_sup, start_link, []}},
           #{id => cluster, type => supervisor,
             start => {supervisor, start_link, [?MODULE, cluster]}}]
          ++ [whittle_counters_http:child_spec(#{port => Port})
              || Port <- [presence_config:get(metrics_port)], Port =/= none]
          ++ [#{id => listeners, type => supervisor,
                start => {presence_listener_sup, start_link, []}}]}};
init(cluster) ->
    {ok, {#{strategy => rest_for_one, intensity => 10, period => 10},
          [whittle_flow_batcher:child_spec(inbox, presence_inbox, [], #{name => presence_inbox}),
           whittle_flow_pool:child_spec(presence_router, presence_route, [],
                                        #{limit => presence_config:get(router_limit)}),
           #{id => members, start => {presence_cluster, start_link, []}}]}}.
