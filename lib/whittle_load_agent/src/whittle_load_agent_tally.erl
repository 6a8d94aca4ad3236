%% @doc Counts the events of an agent, and its latencies.
%%
%% The processes of users count here; the link takes the counts once a second and sends them to the
%% coordinator. Each event counts in exactly one of these messages.
%% @hidden
-module(whittle_load_agent_tally).

-export([new/0, count/1, count/2, error/2, latency/2, unanswered/2, late/1, take/0]).

-export_type([event/0, counts/0]).

%% A user is `held' from the end of its login until it disconnects or fails; `released' counts these
%% ends.
-type event() :: started | connected | held | released | ended | cycles | sent | received.

-type counts() ::
        #{events := #{event() => non_neg_integer()},
          errors := #{{Step :: binary(), Kind :: binary()} => pos_integer()},
          latencies := #{Step :: binary() => whittle_counters_table:distribution()},
          %% The part of the latencies that are times of steps without an answer.
          unanswered := whittle_counters_table:distribution(),
          late := whittle_counters_table:distribution()}.   % the agent's own delays

-define(EVENTS, [started, connected, held, released, ended, cycles, sent, received]).
-define(HANDLES, {?MODULE, handles}).

%% The largest relative error of a latency that is read from a histogram (schema 5).
-define(ERROR, 0.011).

%% @doc Defines the counters.
-spec new() -> ok.
new() ->
    Events = maps:from_list([{Event, counter(name(Event))} || Event <- ?EVENTS]),
    ok = whittle_counters:new(whittle_load_errors_total, counter,
                              #{labels => [step, kind], max_series => 10_000}),
    ok = whittle_counters:new(whittle_load_latency, histogram,
                              #{labels => [step], error => ?ERROR, max_series => 1000}),
    ok = whittle_counters:new(whittle_load_unanswered, histogram, #{error => ?ERROR}),
    ok = whittle_counters:new(whittle_load_late, histogram, #{error => ?ERROR}),
    {ok, Unanswered} = whittle_counters:handle(whittle_load_unanswered),
    {ok, Late} = whittle_counters:handle(whittle_load_late),
    persistent_term:put(?HANDLES, Events#{unanswered => Unanswered, late => Late}).

counter(Name) ->
    ok = whittle_counters:new(Name, counter),
    {ok, Handle} = whittle_counters:handle(Name),
    Handle.

name(started) -> whittle_load_started_total;
name(connected) -> whittle_load_connected_total;
name(held) -> whittle_load_held_total;
name(released) -> whittle_load_released_total;
name(ended) -> whittle_load_ended_total;
name(cycles) -> whittle_load_cycles_total;
name(sent) -> whittle_load_sent_total;
name(received) -> whittle_load_received_total.

%% @doc Counts one event.
-spec count(event()) -> ok.
count(Event) -> count(Event, 1).

%% @doc Counts several events.
-spec count(event(), non_neg_integer()) -> ok.
count(Event, N) ->
    #{Event := Handle} = persistent_term:get(?HANDLES),
    whittle_counters:inc(Handle, N).

%% @doc Counts an error of a step.
-spec error(binary(), atom() | binary()) -> ok.
error(Step, Kind) -> whittle_counters:inc(whittle_load_errors_total, [Step, Kind], 1).

%% @doc Counts the nanoseconds from the intended start of a step to its answer.
-spec latency(binary(), non_neg_integer()) -> ok.
latency(Step, Time) -> whittle_counters:observe(whittle_load_latency, [Step], Time).

%% @doc Counts the nanoseconds that a step has waited. It gets no answer, because the run ends.
-spec unanswered(binary(), non_neg_integer()) -> ok.
unanswered(Step, Time) ->
    #{unanswered := Handle} = persistent_term:get(?HANDLES),
    ok = latency(Step, Time),
    whittle_counters:observe(Handle, Time).

%% @doc Counts the nanoseconds by which a user started too late, or went on after a wait.
-spec late(non_neg_integer()) -> ok.
late(Time) ->
    #{late := Handle} = persistent_term:get(?HANDLES),
    whittle_counters:observe(Handle, Time).

%% @doc Takes all counts since the last call.
-spec take() -> counts().
take() ->
    #{events => maps:from_list([{Event, taken(name(Event), [])} || Event <- ?EVENTS]),
      errors => maps:from_list(
                  [{{Step, Kind}, N}
                   || [Step, Kind] <- labels(<<"whittle_load_errors">>),
                      N <- [taken(whittle_load_errors_total, [Step, Kind])], N > 0]),
      latencies => maps:from_list(
                     [{Step, D} || [Step] <- labels(<<"whittle_load_latency">>),
                                   #{count := N} = D <- [taken(whittle_load_latency, [Step])],
                                   N > 0]),
      unanswered => taken(whittle_load_unanswered, []),
      late => taken(whittle_load_late, [])}.

taken(Name, Labels) ->
    {ok, Value} = whittle_counters:reset(Name, Labels),
    Value.

labels(Name) -> maps:keys(maps:get(Name, whittle_counters:snapshot(), #{})).
