%% @hidden The application and its supervisor, which owns the tables.
-module(whittle_counters_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, init/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec stop(term()) -> ok.
stop(_) -> whittle_counters_registry:forget().

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    ok = whittle_counters_table:create(),
    ok = whittle_counters_exemplar:create(),
    {ok, {#{strategy => one_for_one, intensity => 5, period => 10},
          [#{id => whittle_counters_registry,
             start => {whittle_counters_registry, start_link, []}},
           #{id => whittle_counters_rate, start => {whittle_counters_rate, start_link, []}}]}}.
