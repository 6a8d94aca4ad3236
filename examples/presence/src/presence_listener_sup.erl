%% @doc Supervises the listeners that the settings ask for.
%% @hidden
-module(presence_listener_sup).
-behaviour(supervisor).

-export([start_link/0, stop/0, ports/0]).
-export([init/1]).

%% @doc Starts the listeners.
-spec start_link() -> supervisor:startlink_ret().
start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @doc Stops accepting connections. The open ones stay.
-spec stop() -> ok | {error, not_found}.
stop() -> supervisor:terminate_child(presence_sup, listeners).

%% @doc Lists the listeners with their ports.
-spec ports() -> [{atom(), inet:port_number()}].
ports() ->
    lists:sort([{Name, presence_listener:port(Pid)}
                || {Name, Pid, _, _} <- supervisor:which_children(?MODULE), is_pid(Pid)]).

%% @private
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10},
          [#{id => Name, start => {presence_listener, start_link, [Listener#{port => Port}]}}
           || {#{name := Name} = Listener, Port} <- listeners(), Port =/= none]}}.

listeners() ->
    [{#{name => xmpp, protocol => presence_xmpp, tls => false}, presence_config:get(xmpp_port)},
     {#{name => xmpps, protocol => presence_xmpp, tls => true}, presence_config:get(xmpps_port)},
     {#{name => lines, protocol => presence_lines, tls => false},
      presence_config:get(lines_port)}].
