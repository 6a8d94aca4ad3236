%% @hidden Creates, deletes and expires series in one process, and finds the cell of a name that
%% the tree does not hold.
%%
%% == How a name becomes a cell ==
%% Readers use one persistent term (whittle_counters_publication) and add to the cell that they
%% find. An update needs no copy, no table and no process. A label set that the tree does not hold
%% takes the slow path. The caller looks the definition and the series up in tables. If the series
%% is missing there too, this process creates it (whittle_counters_series).
-module(whittle_counters_registry).
-behaviour(gen_server).

-include("whittle_counters_cell.hrl").
-include("whittle_counters_series.hrl").

-export([start_link/0]).
-export([define/1, undefine/1, resolve/3, handle/2, segment/2, delete/2, reset/2]).
-export([publish/0, sweep/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% @doc Starts the registry.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Defines a metric. A second definition must be the same.
-spec define(whittle_counters:metric()) -> ok | {error, whittle_counters:reason()}.
define(Metric) -> call({define, Metric}).

%% @doc Deletes a metric and all its series.
-spec undefine(atom()) -> ok | {error, whittle_counters:reason()}.
undefine(Name) -> call({undefine, Name}).

%% @doc Finds or makes the cell for an update by name that the tree does not hold. Takes tells
%% whether the metric takes the update. If not, the function makes no series.
-spec resolve(term(), term(), Takes) ->
          {ok, whittle_counters_cell:cell()} | {error, whittle_counters:reason()}
              when Takes :: fun((whittle_counters:metric()) ->
                                       ok | {error, whittle_counters:reason()}).
resolve(Name, Labels, Takes) ->
    case whittle_counters_table:metric(Name) of
        {ok, #{labels := Names} = Metric, Count} ->
            case {Takes(Metric), whittle_counters_name:values(Names, Labels)} of
                {ok, {ok, Values}} -> resolve(Name, Labels, Values, Metric, Count);
                {ok, Error} -> Error;
                {Error, _} -> Error
            end;
        {error, _} = Error -> Error
    end.

resolve(Name, Labels, Values, #{max_series := Max, labels := Names} = Metric, Count) ->
    case whittle_counters_table:series({Name, Values}) of
        {ok, #series{parts = [{Cell, _} | _], expired = false}} ->
            ask(Name, Labels, Values),
            {ok, Cell};
        none when Count >= Max, Names =/= [] ->
            overflow(Metric);
        _ ->
            case call({create, Name, Values}) of
                {ok, Cell} ->
                    ask(Name, Labels, Values),
                    {ok, Cell};
                full -> overflow(Metric);
                {error, _} = Error -> Error
            end
    end.

%% The tree does not hold the overflow series under the labels that led to it. Otherwise the tree
%% would grow beyond the cap.
overflow(#{name := Name, labels := Names}) ->
    whittle_counters_table:divert(Name),
    Values = whittle_counters_series:overflow(Names),
    case whittle_counters_table:series({Name, Values}) of
        {ok, #series{parts = [{Cell, _} | _], expired = false}} -> {ok, Cell};
        _ -> call({create, Name, Values})
    end.

%% Requests a path in the tree, once until the next publication.
ask(Name, Labels, Values) when is_list(Labels) ->
    Path = [Name | Labels],
    case whittle_counters_publication:ask(Path) of
        true -> gen_server:cast(?MODULE, {alias, Path, {Name, Values}});
        false -> ok
    end;
ask(_, _, _) ->
    ok.

%% @doc Gives a cell to keep. It is striped where that can help, and its series never expires.
-spec handle(term(), term()) ->
          {ok, whittle_counters_cell:cell()} | {error, whittle_counters:reason()}.
handle(Name, Labels) ->
    case whittle_counters_table:metric(Name) of
        {ok, #{labels := Names}, _} ->
            case whittle_counters_name:values(Names, Labels) of
                {ok, Values} ->
                    case call({handle, Name, Values}) of
                        full -> {error, {series_full, Name}};
                        Answer -> Answer
                    end;
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

%% @doc Gives the newest cell of a series, with a segment of buckets that the given cell lacks. A
%% deleted series is unknown, even if another series has its name by now.
-spec segment(#histogram{}, non_neg_integer()) ->
          {ok, #histogram{}} | {error, whittle_counters:reason()}.
segment(#histogram{key = Key} = Cell, Segment) ->
    case whittle_counters_table:series(Key) of
        {ok, Row} ->
            case whittle_counters_series:newest(Cell, Row) of
                {ok, #histogram{segments = Segments} = Newest}
                  when element(Segment + 1, Segments) =/= 0 -> {ok, Newest};
                {ok, _} -> call({segment, Cell, Segment});
                unknown -> {error, {unknown_series, Key}}
            end;
        none -> {error, {unknown_series, Key}}
    end.

%% @doc Deletes one series. The library accepts and ignores updates through its handles. An update
%% by name begins a new series.
-spec delete(atom(), [binary()]) -> ok | {error, whittle_counters:reason()}.
delete(Name, Values) -> call({delete, {Name, Values}}).

%% @doc Sets a series to zero and gives its value until then. Each update counts in this value or
%% in a later one.
-spec reset(atom(), [binary()]) ->
          {ok, whittle_counters_table:value()} | {error, whittle_counters:reason()}.
reset(Name, Values) -> call({reset, {Name, Values}}).

%% @doc Publishes the requests of this process at once, instead of after `publish_after'
%% milliseconds.
-spec publish() -> ok | {error, whittle_counters:reason()}.
publish() -> call(publish).

%% @doc Checks for stale and hot series, as the timer does every `sweep_every' milliseconds. Now
%% stands for the second of `erlang:monotonic_time/1'.
-spec sweep(integer()) -> ok | {error, whittle_counters:reason()}.
sweep(Now) -> call({sweep, Now}).

call(Request) ->
    try gen_server:call(?MODULE, Request, infinity)
    catch
        exit:{Reason, {gen_server, call, _}} ->
            %% Between its crash and its restart the registry has no process either.
            case whittle_counters_sup:is_up() of
                false -> {error, {not_started, whittle_counters}};
                true -> {error, {registry_failed, Reason}}
            end
    end.

%%% the process

-spec init([]) -> {ok, whittle_counters_series:store()}.
init([]) ->
    Store = whittle_counters_series:restore(),
    _ = erlang:send_after(whittle_counters_option:env(sweep_every), self(), sweep),
    {ok, Store}.

-spec handle_call(term(), gen_server:from(), whittle_counters_series:store()) ->
          {reply, term(), whittle_counters_series:store()}.
handle_call({define, Metric}, _, Store) ->
    {reply, define_metric(Metric), Store};
handle_call({undefine, Name}, _, Store) ->
    case ets:member(?METRICS, Name) of
        true ->
            true = ets:delete(?METRICS, Name),
            Rows = ets:match_object(?SERIES, #series{key = {Name, '_'}, _ = '_'}),
            {reply, ok, removed(Rows, Store)};
        false ->
            {reply, {error, {unknown_metric, Name}}, Store}
    end;
handle_call({create, Name, Values}, _, Store) ->
    {Reply, Store1} = whittle_counters_series:create(Name, Values, cold, Store),
    {reply, Reply, Store1};
handle_call({handle, Name, Values}, _, Store) ->
    {Reply, Store1} = whittle_counters_series:create(Name, Values, kept, Store),
    {reply, Reply, Store1};
handle_call({segment, Cell, Segment}, _, Store) ->
    {Reply, Store1} = whittle_counters_series:widen(Cell, Segment, Store),
    {reply, Reply, Store1};
handle_call({delete, Key}, _, Store) ->
    case ets:lookup(?SERIES, Key) of
        [_] = Rows -> {reply, ok, removed(Rows, Store)};
        [] -> {reply, {error, {unknown_series, Key}}, Store}
    end;
handle_call({reset, Key}, _, Store) ->
    {reply, whittle_counters_series:reset(Key), Store};
handle_call(publish, _, Store) ->
    {reply, ok, whittle_counters_series:publish(Store)};
handle_call({sweep, Now}, _, Store) ->
    {reply, ok, whittle_counters_expiry:sweep(Now, Store)}.

removed(Rows, Store) ->
    whittle_counters_series:publish(
      lists:foldl(fun whittle_counters_series:remove/2, Store, Rows)).

-spec handle_cast(term(), whittle_counters_series:store()) ->
          {noreply, whittle_counters_series:store()}.
handle_cast({alias, Path, Key}, Store) ->
    {noreply, whittle_counters_series:alias(Path, Key, Store)}.

-spec handle_info(term(), whittle_counters_series:store()) ->
          {noreply, whittle_counters_series:store()}.
handle_info(publish, Store) ->
    {noreply, whittle_counters_series:publish(Store)};
handle_info(sweep, Store) ->
    _ = erlang:send_after(whittle_counters_option:env(sweep_every), self(), sweep),
    {noreply, whittle_counters_expiry:sweep(erlang:monotonic_time(second), Store)};
handle_info(_, Store) ->
    {noreply, Store}.

%%% definitions

define_metric(#{name := Name} = Metric) ->
    case ets:lookup(?METRICS, Name) of
        [{_, Other, _}] ->
            case whittle_counters_metric:difference(Other, Metric) of
                [] -> ok;
                [{read, Old, New}] when is_function(Old), is_function(New) ->
                    %% The owner of the fun was restarted, and the new fun holds the new process.
                    true = ets:update_element(?METRICS, Name, {2, Metric}),
                    ok;
                Difference -> {error, {already_defined, {Name, Difference}}}
            end;
        [] ->
            case whittle_counters_metric:clash(Metric, whittle_counters_table:metrics()) of
                none ->
                    true = ets:insert(?METRICS, {Name, Metric, 0}),
                    ok;
                Clash -> {error, {name_taken, {Name, Clash}}}
            end
    end.
