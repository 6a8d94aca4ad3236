%% @doc Supervises the link to the coordinator.
%% @hidden
-module(whittle_load_agent_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1]).
-export([init/1]).

%% @doc Starts the application. If the environment variable WHITTLE_LOAD_AGENT is `stdio', it obeys
%% a coordinator on standard input, and owns the VM.
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, os:getenv("WHITTLE_LOAD_AGENT")).

%% @doc Stops the application. An agent ends its VM here: a link that crashes and a SIGTERM stop the
%% application, and they would then leave the end to the VM, which waits until all sockets have sent
%% their bytes. A server that does not read would keep it alive forever.
-spec stop(term()) -> ok.
stop(_) ->
    case os:getenv("WHITTLE_LOAD_AGENT") of
        "stdio" ->
            %% The report of a crash may still be on its way.
            _ = logger_std_h:filesync(default),
            whittle_load_agent_link:end_vm(1);
        _ -> ok
    end.

%% @private
-spec init(string() | false) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
%% Without its link, an agent has nothing to do: the second failure ends the VM.
init("stdio") ->
    {ok, {#{intensity => 0, period => 1},
          [#{id => link, start => {whittle_load_agent_link, start_link, []}}]}};
init(_) -> {ok, {#{}, []}}.
