%% @doc Supervises the server: first the store, then its gates, then HTTP.
%% @hidden
-module(docket_sup).
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

%% @doc Starts the tree.
-spec start_link() -> supervisor:startlink_ret().
start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @private
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Waiting = docket_config:get(waiting),
    Patience = docket_config:get(patience),
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10},
          [#{id => cluster, start => {docket_cluster, start_link, []}}]
          ++ docket_store:children() ++
          [gate(docket_store_gate, #{running => docket_config:get(running), waiting => Waiting,
                                     patience => Patience}),
           gate(docket_picture_gate, #{running => docket_config:get(pictures), waiting => Waiting,
                                       patience => Patience}),
           #{id => http, start => {docket_http, start_link, []}}]}}.

gate(Name, Options) -> #{id => Name, start => {docket_gate, start_link, [Name, Options]}}.
