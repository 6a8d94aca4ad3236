%% @doc Counts the work of the server, for Prometheus.
%% @hidden
-module(presence_counts).

-export([define/0, accepted/2, paused/1, login/1, message/1, ended/1]).

%% @doc Defines the metrics, and those of the VM.
-spec define() -> ok.
define() ->
    [ok = whittle_counters:new(Name, Type, Options) || {Name, Type, Options} <- metrics()],
    ok = whittle_counters_vm:install().

metrics() ->
    [{presence_connections, gauge,
      #{help => "Open connections", read => fun() -> presence_limits:connections() end}},
     {presence_connections_limit, gauge,
      #{help => "Connections from which new ones are refused",
        read => fun() -> presence_limits:limit() end}},
     {presence_users, gauge,
      #{help => "Users that are logged in on this VM",
        read => fun() -> presence_directory:users() end}},
     {presence_nodes, gauge,
      #{help => "VMs of the service that this one knows, itself among them",
        read => fun() -> length(presence_cluster:members()) end}},
     {presence_accepted_total, counter,
      #{help => "Accepted connections", labels => [listener, admission]}},
     {presence_accept_pauses_total, counter,
      #{help => "Pauses of an acceptor", labels => [reason]}},
     {presence_logins_total, counter, #{help => "Attempts to log in", labels => [result]}},
     {presence_messages_total, counter,
      #{help => "Messages from users of this VM", labels => [result]}},
     {presence_ended_total, counter, #{help => "Ended connections", labels => [reason]}}].

%% @doc Counts a connection.
-spec accepted(Listener :: atom(), presence_protocol:admission() | closed) -> ok.
accepted(Listener, Admission) -> inc(presence_accepted_total, [Listener, Admission]).

%% @doc Counts a pause of an acceptor.
-spec paused(atom()) -> ok.
paused(Reason) -> inc(presence_accept_pauses_total, [Reason]).

%% @doc Counts an attempt to log in: `ok', `refused' (wrong password), or `busy' (too much waits for
%% the owner of the user).
-spec login(ok | refused | busy) -> ok.
login(Result) -> inc(presence_logins_total, [Result]).

%% @doc Counts a message: for a user of this VM, for one that another VM may know, or for nobody.
-spec message(here | elsewhere | absent | busy) -> ok.
message(Result) -> inc(presence_messages_total, [Result]).

%% @doc Counts the end of a connection: by the client, by the server, by an error, because the
%% client did not read, or by a crash.
-spec ended(client | server | error | slow | crash) -> ok.
ended(Reason) -> inc(presence_ended_total, [Reason]).

%% If the counters restart, they refuse updates for a moment. The service goes on.
inc(Name, Labels) ->
    _ = whittle_counters:inc(Name, Labels),
    ok.
