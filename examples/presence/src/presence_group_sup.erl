%% @doc Supervises the groups of connections. A group that crashed does not come back: its sockets
%% are closed, and its clients connect again.
%% @hidden
-module(presence_group_sup).
-behaviour(supervisor).

-export([start_link/0, start_group/1]).
-export([init/1]).

%% @doc Starts the supervisor.
-spec start_link() -> supervisor:startlink_ret().
start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @doc Starts a group.
-spec start_group(presence_groups:index()) -> {ok, pid()} | {error, term()}.
start_group(Index) ->
    case supervisor:start_child(?MODULE, [Index]) of
        {ok, Pid} when is_pid(Pid) -> {ok, Pid};
        {error, _} = Error -> Error
    end.

%% @private
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, {#{strategy => simple_one_for_one},
          [#{id => group, restart => temporary, shutdown => brutal_kill,
             start => {presence_group, start_link, []}}]}}.
