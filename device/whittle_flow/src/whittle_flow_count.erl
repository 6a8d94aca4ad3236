%% @doc What whittle_flow counts, and the errors that it logs once.
-module(whittle_flow_count).

-export([define/0, refused/2, failed/4]).

%% @doc Defines the metrics. They survive a restart of this application.
-spec define() -> ok.
define() ->
    lists:foreach(
      fun({Name, Labels, Help}) ->
              ok = whittle_counters:new(Name, counter, #{labels => Labels, help => Help})
      end,
      [{whittle_flow_shard_messages_total, [pool], "Messages that shards handled"},
       {whittle_flow_states_lost_total, [pool], "States that died with a killed shard"},
       {whittle_flow_batches_total, [batcher], "Batches handled"},
       {whittle_flow_messages_total, [batcher], "Messages handled in batches"},
       {whittle_flow_failed_total, [where], "Messages on which a callback crashed"},
       {whittle_flow_shed_total, [where, policy], "Messages shed because of overload"},
       {whittle_flow_uncertain_total, [where], "Messages on their way to a receiver that died"},
       {whittle_flow_broadcasts_total, [group], "Messages that were broadcast"},
       {whittle_flow_deliveries_total, [group], "Deliveries of broadcast messages"},
       {whittle_flow_refused_total, [where, reason], "Calls that could not be done"}]).

%% @doc Counts a call that could not be done, logs the first of its kind, and
%% gives the error back.
-spec refused(atom(), whittle_flow:reason()) -> {error, whittle_flow:reason()}.
refused(Where, {Tag, _} = Reason) ->
    _ = whittle_counters:inc(whittle_flow_refused_total, [Where, Tag]),
    case whittle_counters:value(whittle_flow_refused_total, [Where, Tag]) of
        {ok, 1} ->
            logger:warning("whittle_flow: ~ts (further ones are only counted, in "
                           "whittle_flow_refused_total)", [whittle_flow:format_error(Reason)]);
        _ -> ok
    end,
    {error, Reason}.

%% @doc Counts messages on which a callback crashed. Logs it unless it was
%% logged before; gives back that it is now.
-spec failed(atom(), pos_integer(), {atom(), term(), list()}, boolean()) -> true.
failed(Where, N, {Class, Reason, Stack}, Logged) ->
    _ = whittle_counters:inc(whittle_flow_failed_total, [Where], N),
    Logged orelse
        logger:error("whittle_flow: the callback of ~p crashed (further crashes are only "
                     "counted, in whittle_flow_failed_total): ~p:~p ~p",
                     [Where, Class, Reason, Stack]),
    true.
