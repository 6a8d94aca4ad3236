%% @doc Counts `telemetry' events. The build needs nothing of telemetry.
%%
%% ```
%% ok = whittle_counters_telemetry:attach(web, [cowboy, request, stop],
%%          [{requests_total, inc, [method]}, {request_seconds, {observe, duration}, []}])
%% '''
%% The labels are keys of the event's metadata. The value of `add', `set' and `observe' is a key
%% of its measurements.
-module(whittle_counters_telemetry).

-ignore_xref([{telemetry, attach, 4}]).
-export([attach/3, handle_event/4]).
-export_type([rule/0]).

-type rule() :: {Metric :: atom(), inc | {inc | add | set | observe, Measurement :: atom()},
                 Labels :: [atom()]}.

%% @doc Attaches rules to an event. You define the metrics. The function refuses an invalid rule,
%% because telemetry detaches a handler that crashes.
-spec attach(term(), [atom()], [rule()]) ->
          ok | {error, already_exists | whittle_counters:reason()}.
attach(Id, Event, Rules) ->
    case whittle_counters_option:is_list_of(fun is_rule/1, Rules) of
        true -> telemetry:attach({?MODULE, Id}, Event, fun ?MODULE:handle_event/4, Rules);
        false -> {error, {bad_rule, first_bad(Rules)}}
    end.

%% A term that is not a list is not a rule either, even if it looks like one.
first_bad(Rules) when length(Rules) >= 0 -> hd([Rule || Rule <- Rules, not is_rule(Rule)]);
first_bad(Rules) -> Rules.

is_rule({Metric, Update, Labels}) ->
    Known = case Update of
                inc -> true;
                {How, _} -> lists:member(How, [inc, add, set, observe]);
                _ -> false
            end,
    Known andalso is_atom(Metric)
        andalso whittle_counters_option:is_list_of(fun(_) -> true end, Labels);
is_rule(_) -> false.

%% @doc Handles an event of telemetry. A label that the metadata lacks is empty.
-spec handle_event([atom()], map(), map(), [rule()]) -> ok.
handle_event(_, Measurements, Metadata, Rules) ->
    lists:foreach(fun({Metric, Update, Labels}) ->
                          update(Metric, Update, [maps:get(L, Metadata, <<>>) || L <- Labels],
                                 Measurements)
                  end, Rules).

%% An update counts and logs its own refusal.
update(Metric, inc, Labels, _) -> whittle_counters:inc(Metric, Labels, 1);
update(Metric, {Update, Key}, Labels, Measurements) ->
    %% The metric refuses a missing measurement as any other invalid value.
    whittle_counters:Update(Metric, Labels, maps:get(Key, Measurements, undefined)).
