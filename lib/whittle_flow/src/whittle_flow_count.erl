%% @hidden Counts events of whittle_flow, and logs each of its errors once.
-module(whittle_flow_count).

-export([create/0, handle/2, add/2, add/3, watch/0, watched/2, refused/2, failed/3]).
-export_type([handle/0]).

-type handle() :: whittle_counters:handle() | none.

%% The logged errors, as {Where, Tag}.
-define(LOGGED, whittle_flow_logged).

%% Milliseconds between checks for whittle_counters.
-define(LOOK_AGAIN, 1000).

%% @doc Defines the metrics, which survive a restart of this application, and makes the table of
%% logged errors. The calling process owns the table.
-spec create() -> ok.
create() ->
    _ = ets:new(?LOGGED, [named_table, public]),
    [] = [Error || {error, _} = Error <- define()],
    ok.

%% Returns the answer of each definition, because whittle_counters may stop in between.
define() ->
    [whittle_counters:new(Name, counter, #{labels => Labels, help => Help})
     || {Name, Labels, Help} <-
            [{whittle_flow_shard_messages_total, [pool], "Messages that shards handled"},
             {whittle_flow_states_lost_total, [pool],
              "States, or pieces of one on its way in a resize, that died with a shard"},
             {whittle_flow_batches_total, [batcher], "Batches handled"},
             {whittle_flow_messages_total, [batcher], "Messages handled in batches"},
             {whittle_flow_failed_total, [where], "Messages on which a callback crashed"},
             {whittle_flow_shed_total, [where, policy], "Messages shed because of overload"},
             {whittle_flow_uncertain_total, [where],
              "Messages on their way to a receiver that died"},
             {whittle_flow_broadcasts_total, [group], "Messages that were broadcast"},
             {whittle_flow_deliveries_total, [group], "Deliveries of broadcast messages"},
             {whittle_flow_refused_total, [where, reason], "Calls that could not be done"}]].

%% @doc Gives a handle of a metric with one label. If there are too many series, it is the handle
%% of the overflow series. While whittle_counters does not run there is no handle, and
%% whittle_flow continues without counting.
-spec handle(atom(), atom()) -> handle().
handle(Metric, Where) ->
    case whittle_counters:handle(Metric, [Where]) of
        {ok, Handle} -> Handle;
        {error, {series_full, _}} -> handle_or_none(Metric, '_overflow');
        {error, {unknown_metric, _}} ->
            %% whittle_counters was restarted.
            _ = define(),
            handle_or_none(Metric, Where);
        {error, _} -> none
    end.

handle_or_none(Metric, Where) ->
    case whittle_counters:handle(Metric, [Where]) of
        {ok, Handle} -> Handle;
        {error, _} -> none
    end.

%% @doc Counts through a handle.
-spec add(handle(), non_neg_integer()) -> ok.
add(none, _) -> ok;
add(Handle, N) -> ok = whittle_counters:inc(Handle, N).

%% @doc Counts by name.
-spec add(atom(), [atom()], non_neg_integer()) -> ok.
add(Metric, Labels, N) ->
    case whittle_counters:inc(Metric, Labels, N) of
        ok -> ok;
        {error, {unknown_metric, _}} ->
            _ = define(),
            _ = whittle_counters:inc(Metric, Labels, N),
            ok;
        {error, _} -> ok
    end.

%% @doc Monitors whittle_counters. After its restart all handles are invalid. A process with
%% handles keeps the result.
-spec watch() -> reference().
watch() -> monitor(process, whittle_counters_sup).

%% @doc Tells whether a message reports that restart. `renew' asks for new handles. The result has
%% the next monitor. Nothing reports that the application is back, so the process checks for it.
-spec watched(term(), reference()) -> {renew | wait, reference()} | ignored.
watched({'DOWN', Watch, process, _, _}, Watch) -> {wait, look_again()};
watched({timeout, Watch, ?MODULE}, Watch) ->
    case whereis(whittle_counters_registry) of
        undefined -> {wait, look_again()};
        _ -> {renew, watch()}
    end;
watched(_, _) -> ignored.

look_again() -> erlang:start_timer(?LOOK_AGAIN, self(), ?MODULE).

%% @doc Counts a refused call, logs the first of its kind, and returns the error.
-spec refused(atom(), whittle_flow:reason()) -> {error, whittle_flow:reason()}.
refused(Where, {Tag, _} = Reason) ->
    ok = add(whittle_flow_refused_total, [Where, Tag], 1),
    _ = first(Where, Tag) andalso
        logger:warning("whittle_flow: ~ts (further ones are only counted, in "
                       "whittle_flow_refused_total)", [whittle_flow:format_error(Reason)]),
    {error, Reason}.

%% @doc Counts messages on which a callback crashed, and logs the first crash.
-spec failed(atom(), pos_integer(), {atom(), term(), list()}) -> ok.
failed(Where, N, {Class, Reason, Stack}) ->
    ok = add(whittle_flow_failed_total, [Where], N),
    _ = first(Where, failed) andalso
        logger:error("whittle_flow: the callback of ~p crashed (further crashes are only "
                     "counted, in whittle_flow_failed_total): ~p:~p ~p",
                     [Where, Class, Reason, Stack]),
    ok.

%% Returns false while the application does not run, because the table does not exist then.
first(Where, Tag) ->
    try ets:insert_new(?LOGGED, {{Where, Tag}})
    catch error:badarg -> false
    end.
