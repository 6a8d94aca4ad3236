%% @hidden Starts the application and its supervisors. The upper supervisor owns the tables. The
%% lower one has the processes that counting does not need. It starts with the first metric that
%% has windows. If its processes crash too often it ends, and the tables stay.
-module(whittle_counters_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, is_up/0, start_helpers/0, init/1]).

-define(HELPERS, whittle_counters_helpers).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    case whittle_counters_option:check_env() of
        ok -> supervisor:start_link({local, ?MODULE}, ?MODULE, tables);
        {error, _} = Error -> Error
    end.

-spec stop(term()) -> ok.
stop(_) -> whittle_counters_publication:forget().

%% Tells whether the application runs, even if one of its processes has crashed.
-spec is_up() -> boolean().
is_up() -> whereis(?MODULE) =/= undefined.

%% Starts the helper processes if they do not run: at their first use, or after too many crashes.
-spec start_helpers() -> ok | {error, {not_started, whittle_counters}}.
start_helpers() ->
    Helpers = #{id => ?HELPERS, type => supervisor, restart => temporary,
                start => {supervisor, start_link, [{local, ?HELPERS}, ?MODULE, helpers]}},
    try supervisor:start_child(?MODULE, Helpers) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok
    catch
        exit:_ -> {error, {not_started, whittle_counters}}
    end.

-spec init(tables | helpers) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(tables) ->
    ok = whittle_counters_table:create(),
    ok = whittle_counters_exemplar:create(),
    {ok, {#{strategy => one_for_one, intensity => 5, period => 10},
          [#{id => whittle_counters_registry,
             start => {whittle_counters_registry, start_link, []}}]}};
init(helpers) ->
    {ok, {#{strategy => one_for_one, intensity => 5, period => 10},
          [#{id => whittle_counters_rate, start => {whittle_counters_rate, start_link, []}}]}}.
