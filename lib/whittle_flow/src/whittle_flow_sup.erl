%% @hidden Starts the application. It runs one process, a supervisor without children, which owns
%% two tables. Pools, batchers and groups belong to the supervisors of their users.
-module(whittle_flow_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, init/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec stop(term()) -> ok.
stop(_) -> ok.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    ok = whittle_flow_count:create(),
    ok = whittle_flow_kept:create(),
    {ok, {#{strategy => one_for_one}, []}}.
