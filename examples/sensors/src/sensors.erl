%% @doc Shows a small gateway. Sensors take readings, a store gets the readings in
%% batches, and Prometheus scrapes the counts.
-module(sensors).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, port/0]).
-export([init/1]).
-export([start_sensor/1]).

-spec start(application:start_type(), term()) -> supervisor:startlink_ret().
start(_, _) ->
    ok = whittle_counters:new(sensor_readings_total, counter,
                              #{labels => [sensor], help => "Readings taken"}),
    ok = whittle_counters:new(sensor_celsius, gauge,
                              #{labels => [sensor], value => float, unit => "celsius",
                                help => "The last reading"}),
    ok = whittle_counters:new(sensor_stored_seconds, timer,
                              #{help => "From a reading to its place in the store"}),
    ok = whittle_counters_vm:install(),
    supervisor:start_link({local, sensors_sup}, ?MODULE, []).

-spec stop(term()) -> ok.
stop(_) -> ok.

%% @doc Gives the port for scrapes; `{port, 0}' takes any.
-spec port() -> inet:port_number().
port() ->
    {_, Endpoint, _, _} = lists:keyfind(whittle_counters_http, 1,
                                        supervisor:which_children(sensors_sup)),
    whittle_counters_http:port(Endpoint).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, Port} = application:get_env(port),
    {ok, Sensors} = application:get_env(sensors),
    {ok, {#{strategy => rest_for_one},
          [whittle_counters_http:child_spec(#{port => Port}),
           whittle_flow_batcher:child_spec(store, sensors_store, [], #{name => sensors_store})
           | [#{id => {sensor, N}, start => {?MODULE, start_sensor, [N]}}
              || N <- lists:seq(1, Sensors)]]}}.

%% @doc Starts a sensor, which reads every so many milliseconds and keeps the latest
%% 1000 readings while the store is held up.
-spec start_sensor(pos_integer()) -> {ok, pid()}.
start_sensor(N) ->
    {ok, Every} = application:get_env(sensors, every),
    {ok, proc_lib:spawn_link(
           fun() ->
                   {ok, Sender} = whittle_flow_sender:new(
                                    sensors_store, #{batch => 20, wait => 500, policy => oldest,
                                                     buffer => 1000}),
                   self() ! read,
                   sense(N, Every, Sender)
           end)}.

sense(N, Every, Sender) ->
    receive
        read ->
            _ = erlang:send_after(Every, self(), read),
            Celsius = 20.0 + N + rand:uniform(),
            ok = whittle_counters:inc(sensor_readings_total, [N]),
            ok = whittle_counters:set(sensor_celsius, [N], Celsius),
            Reading = {N, Celsius, erlang:monotonic_time()},
            sense(N, Every, whittle_flow_sender:push(Reading, Sender));
        Message ->
            case whittle_flow_sender:info(Message, Sender) of
                {ok, Sender1} -> sense(N, Every, Sender1);
                ignored -> sense(N, Every, Sender)
            end
    end.
