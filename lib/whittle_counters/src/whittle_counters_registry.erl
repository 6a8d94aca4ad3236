%% @doc The one process that creates, deletes and expires series, and the slow
%% path to a cell.
%%
%% == How a name becomes a cell ==
%% Readers use one persistent term, a `whittle_counters_tree:tree()', and add to
%% the cell they find: no copy, no table, no process. A label set that the tree
%% does not hold takes the slow path: the definition and the series are looked
%% up in tables; what is not there either is created by this process. New paths
%% are collected and put into the tree together, at most every `publish_after'
%% milliseconds and in no more than a twentieth of the time, because replacing
%% a persistent term makes the VM look at every process.
%%
%% == Why nothing is lost ==
%% A word of shared memory belongs to one series for ever. A reset moves the
%% series' base instead of writing the word. An expired series stays in the
%% table, out of sight, for ?GRACE seconds: if its cell still grew, because
%% somebody had looked it up just before, it comes back with its whole value.
%% A series for which a handle was given does not expire.
-module(whittle_counters_registry).
-behaviour(gen_server).

-include("whittle_counters_cell.hrl").
-include("whittle_counters_series.hrl").

-export([start_link/0, forget/0]).
-export([define/1, undefine/1, resolve/3, handle/2, segment/2, delete/2, reset/2]).
-export([publish/0, sweep/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TREE, whittle_counters).
-define(METRICS, whittle_counters_metrics).
-define(SERIES, whittle_counters_series).
-define(ASKED, whittle_counters_asked).

%% Each label's value in the series that takes what is above the cap.
-define(OVERFLOW, <<"_overflow">>).
%% Seconds that an expired series is watched. An update that was begun before
%% the expiry is done within it unless its process is held up for longer.
-define(GRACE, 60).
%% Spellings of one label set that the tree takes; the others go the slow path.
-define(ALIASES, 8).
%% Updates a second from which a cold counter is striped: a tenth of a core's
%% time would go into the shared line (bench/counters).
-define(HOT, 500000).
%% Schedulers up to which all counters and a handle's buckets are striped. A counter's
%% word for each is little beside the 600 bytes that its series takes.
-define(FEW, 8).

-record(state, {
    pages = whittle_counters_cell:pages() :: whittle_counters_cell:pages(),
    pending = #{} :: #{whittle_counters_tree:path() => whittle_counters_cell:cell() | delete},
    timer = none :: none | reference(),
    pause = 0 :: non_neg_integer()      % milliseconds the last publication costs us
}).

%% @doc Starts the registry.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Takes the tree away, when the application stops.
-spec forget() -> ok.
forget() ->
    _ = persistent_term:erase(?TREE),
    ok.

%% @doc Defines a metric. The same definition twice is fine, another one under
%% the same name is not.
-spec define(whittle_counters:metric()) -> ok | {error, whittle_counters:reason()}.
define(Metric) -> call({define, Metric}).

%% @doc Forgets a metric and all its series.
-spec undefine(atom()) -> ok | {error, whittle_counters:reason()}.
undefine(Name) -> call({undefine, Name}).

%% @doc A cell for an update by name that the tree did not know. Takes says of
%% the metric whether it takes the update; otherwise no series is made for it.
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

%% The overflow series does not go into the tree under the labels that led to
%% it: that would be the growth which the cap forbids.
overflow(#{name := Name, labels := Names}) ->
    whittle_counters_table:divert(Name),
    Values = [?OVERFLOW || _ <- Names],
    case whittle_counters_table:series({Name, Values}) of
        {ok, #series{parts = [{Cell, _} | _], expired = false}} -> {ok, Cell};
        _ -> call({create, Name, Values})
    end.

%% Asks, once until the next publication, for a path in the tree.
ask(Name, Labels, Values) when is_list(Labels) ->
    Path = [Name | Labels],
    case whittle_counters_table:access(fun() -> ets:insert_new(?ASKED, {Path}) end, false) of
        true -> gen_server:cast(?MODULE, {alias, Path, {Name, Values}});
        false -> ok
    end;
ask(_, _, _) ->
    ok.

%% @doc A cell to keep. Made striped where that can help, and never expired.
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

%% @doc The newest cell of the series that a cell is of, with a segment of buckets
%% that this one lacks. A series that was deleted is unknown, also where another has
%% its name by now.
-spec segment(#histogram{}, non_neg_integer()) ->
          {ok, #histogram{}} | {error, whittle_counters:reason()}.
segment(#histogram{key = Key} = Cell, Segment) ->
    case whittle_counters_table:series(Key) of
        {ok, Row} ->
            case newest(Cell, Row) of
                {ok, #histogram{segments = Segments} = Newest}
                  when element(Segment + 1, Segments) =/= 0 -> {ok, Newest};
                {ok, _} -> call({segment, Cell, Segment});
                unknown -> {error, {unknown_series, Key}}
            end;
        none -> {error, {unknown_series, Key}}
    end.

%% Keys are not enough to tell series apart: one may be deleted and defined again, as
%% another type even. Cells are, since a word is never given to a second series.
newest(Cell, #series{parts = [{Newest, _} | _] = Parts}) ->
    Id = whittle_counters_cell:id(Cell),
    case lists:any(fun({Part, _}) -> whittle_counters_cell:id(Part) =:= Id end, Parts) of
        true -> {ok, Newest};
        false -> unknown
    end.

%% @doc Deletes one series. Updates through its handles are accepted and
%% forgotten; an update by name begins a new series.
-spec delete(atom(), [binary()]) -> ok | {error, whittle_counters:reason()}.
delete(Name, Values) -> call({delete, {Name, Values}}).

%% @doc Sets a series to zero and tells what it had come to: every update is in
%% that value or in a later one.
-spec reset(atom(), [binary()]) ->
          {ok, whittle_counters_table:value()} | {error, whittle_counters:reason()}.
reset(Name, Values) -> call({reset, {Name, Values}}).

%% @doc Publishes at once what this process has asked for, as it is done
%% `publish_after' milliseconds later.
-spec publish() -> ok | {error, whittle_counters:reason()}.
publish() -> call(publish).

%% @doc Looks for stale and for hot series, as it is done every `sweep_every'
%% milliseconds, as though it were second Now of `erlang:monotonic_time/1'.
-spec sweep(integer()) -> ok | {error, whittle_counters:reason()}.
sweep(Now) -> call({sweep, Now}).

call(Request) ->
    try gen_server:call(?MODULE, Request, infinity)
    catch
        exit:{Reason, {gen_server, call, _}} ->
            %% Between its crash and its restart it has no process either.
            case whittle_counters_sup:is_up() of
                false -> {error, {not_started, whittle_counters}};
                true -> {error, {registry_failed, Reason}}
            end
    end.

%%% the process

-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% After a crash the tables may hold half of what was being done, and the tree
    %% may lack what they hold.
    ok = mend(),
    Pending = ets:foldl(
                fun(#series{expired = false, key = {Name, _}, aliases = Aliases,
                            parts = [{Cell, _} | _]}, Acc) ->
                        lists:foldl(fun(Labels, A) -> A#{[Name | Labels] => Cell} end,
                                    Acc, Aliases);
                   (_, Acc) -> Acc
                end, #{}, ?SERIES),
    true = ets:delete_all_objects(?ASKED),
    %% Paths that are no series' any more are left behind with the old tree.
    _ = persistent_term:put(?TREE, #{}),
    _ = erlang:send_after(env(sweep_every), self(), sweep),
    {ok, publish(#state{pending = Pending})}.

%% Takes away series of metrics that are gone, and counts each metric's anew.
mend() ->
    Counts = ets:foldl(
               fun(#series{key = {Name, Values} = Key}, Acc) ->
                       case {ets:member(?METRICS, Name), uncapped(Values)} of
                           {true, true} -> Acc;
                           {true, false} -> maps:update_with(Name, fun(N) -> N + 1 end, 1, Acc);
                           {false, _} ->
                               true = ets:delete(?SERIES, Key),
                               ok = whittle_counters_exemplar:delete(Name, Values),
                               Acc
                       end
               end, #{}, ?SERIES),
    lists:foreach(fun(#{name := Name}) ->
                          true = ets:update_element(?METRICS, Name, {3, maps:get(Name, Counts, 0)})
                  end, whittle_counters_table:metrics()).

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({define, Metric}, _, State) ->
    {reply, define_metric(Metric), State};
handle_call({undefine, Name}, _, State) ->
    case ets:member(?METRICS, Name) of
        true ->
            true = ets:delete(?METRICS, Name),
            Rows = ets:match_object(?SERIES, #series{key = {Name, '_'}, _ = '_'}),
            {reply, ok, publish(lists:foldl(fun remove/2, State, Rows))};
        false ->
            {reply, {error, {unknown_metric, Name}}, State}
    end;
handle_call({create, Name, Values}, _, State) ->
    {Reply, State1} = create(Name, Values, cold, State),
    {reply, Reply, State1};
handle_call({handle, Name, Values}, _, State) ->
    {Reply, State1} = create(Name, Values, kept, State),
    {reply, Reply, State1};
handle_call({segment, Cell, Segment}, _, State) ->
    {Reply, State1} = widen(Cell, Segment, State),
    {reply, Reply, State1};
handle_call({delete, Key}, _, State) ->
    case ets:lookup(?SERIES, Key) of
        [Row] -> {reply, ok, publish(remove(Row, State))};
        [] -> {reply, {error, {unknown_series, Key}}, State}
    end;
handle_call({reset, Key}, _, State) ->
    case ets:lookup(?SERIES, Key) of
        [#series{parts = Parts} = Row] ->
            {Value, Parts1} = zeroed(Parts),
            true = ets:insert(?SERIES, Row#series{parts = Parts1}),
            {reply, {ok, Value}, State};
        [] ->
            {reply, {error, {unknown_series, Key}}, State}
    end;
handle_call(publish, _, State) ->
    {reply, ok, publish(State)};
handle_call({sweep, Now}, _, State) ->
    {reply, ok, look_around(Now, State)}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({alias, [Name | Given] = Path, Key}, State) ->
    Labels = alone(Given),
    case ets:lookup(?SERIES, Key) of
        [#series{aliases = Aliases, expired = false, parts = [{Cell, _} | _]} = Row]
          when length(Aliases) < ?ALIASES ->
            Known = lists:member(Labels, Aliases),
            _ = Known orelse ets:insert(?SERIES, Row#series{aliases = [Labels | Aliases]}),
            {noreply, later([Name | Labels], Cell, State)};
        [#series{expired = false}] ->
            %% It stays among those asked for, so that the next update does not ask.
            {noreply, State};
        _ ->
            true = ets:delete(?ASKED, Path),
            {noreply, State}
    end.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(publish, State) ->
    {noreply, publish(State)};
handle_info(sweep, State) ->
    _ = erlang:send_after(env(sweep_every), self(), sweep),
    {noreply, look_around(now_s(), State)};
handle_info(_, State) ->
    {noreply, State}.

%%% definitions

define_metric(#{name := Name} = Metric) ->
    case ets:lookup(?METRICS, Name) of
        [{_, Other, _}] ->
            case difference(Other, Metric) of
                [] -> ok;
                [{read, Old, New}] when is_function(Old), is_function(New) ->
                    %% Its owner was restarted, and the fun holds the new process.
                    true = ets:update_element(?METRICS, Name, {2, Metric}),
                    ok;
                Difference -> {error, {already_defined, {Name, Difference}}}
            end;
        [] ->
            case clash(Metric, whittle_counters_table:metrics()) of
                none ->
                    true = ets:insert(?METRICS, {Name, Metric, 0}),
                    ok;
                Clash -> {error, {name_taken, {Name, Clash}}}
            end
    end.

%% In what was given: the schema follows from the error.
difference(Old, New) ->
    [{Key, maps:get(Key, Old, none), Value}
     || {Key, Value} <- lists:sort(maps:to_list(New)), Key =/= schema,
        maps:get(Key, Old, none) =/= Value].

clash(#{family := Family, type := Type}, Metrics) ->
    Mine = whittle_counters_name:samples(Family, Type),
    Theirs = [{Key, F, T} || #{key := Key, name := F, type := T}
                                 <- whittle_counters_metric:own_families()]
        ++ [{N, F, T} || #{name := N, family := F, type := T} <- Metrics],
    case [N || {N, F, T} <- Theirs, Mine -- whittle_counters_name:samples(F, T) =/= Mine] of
        [] -> none;
        [First | _] -> First
    end.

%%% series

create(Name, Values, Kind, State) ->
    case ets:lookup(?METRICS, Name) of
        [] ->
            {{error, {unknown_metric, Name}}, State};
        [{_, #{read := Read}, _}] when Read =/= none ->
            {{error, {read_only, Name}}, State};
        [{_, Metric, Count}] ->
            case ets:lookup(?SERIES, {Name, Values}) of
                [Row] -> found(Row, Kind, Metric, State);
                [] ->
                    Room = uncapped(Values)
                        orelse (Count < maps:get(max_series, Metric)
                                andalso ets:info(?SERIES, size) < env(max_series)),
                    case Room of
                        true -> insert(Name, Values, Kind, Metric, State);
                        false -> {full, State}
                    end
            end
    end.

%% Text that is part of a larger binary, a request say, would keep that in memory.
alone(Labels) -> [if is_binary(L) -> binary:copy(L); true -> L end || L <- Labels].

%% The one series of a metric without labels, and the overflow.
uncapped(Values) -> lists:all(fun(V) -> V =:= ?OVERFLOW end, Values).

insert(Name, Texts, Kind, #{labels := Names} = Metric, State) ->
    Values = alone(Texts),
    {Cell, Pages} = cell(Kind, Metric, {Name, Values}, State#state.pages),
    true = ets:insert(?SERIES, #series{key = {Name, Values},
                                       text = whittle_counters_name:text(Names, Values),
                                       parts = [{Cell, 0}], stripe = stripe(Kind, Metric),
                                       handled = Kind =:= kept,
                                       seen = now_s()}),
    _ = uncapped(Values) orelse ets:update_counter(?METRICS, Name, {3, 1}),
    {{ok, Cell}, State#state{pages = Pages}}.

found(#series{parts = [{Cell, _} | _], handled = Handled} = Row, Kind, Metric, State) ->
    Live = Row#series{expired = false, handled = Handled orelse Kind =:= kept, seen = now_s()},
    case Kind =:= kept andalso not Handled of
        true ->
            kept(Live, Metric, State);
        false ->
            true = ets:insert(?SERIES, Live),
            {{ok, Cell}, State}
    end.

kept(#series{stripe = plain} = Row, #{type := counter} = Metric, State) ->
    promote(Row, stripe(kept, Metric), Metric, State);
kept(#series{parts = [{#histogram{} = Cell, Base} | Parts]} = Row, Metric, State) ->
    Full = filled(bucket_stripe(kept, Metric), segments(kept, Metric), Cell),
    replace(Row, [{Full, Base} | Parts], State);
kept(#series{parts = Parts} = Row, _, State) ->
    replace(Row, Parts, State).

%% A second, striped cell: the old one still counts for those who know it.
promote(#series{key = Key, parts = Parts} = Row, striped, Metric, State) ->
    {Cell, Pages} = cell(hot, Metric, Key, State#state.pages),
    replace(Row#series{stripe = striped}, [{Cell, 0} | Parts], State#state{pages = Pages});
promote(#series{parts = Parts} = Row, plain, _, State) ->
    replace(Row, Parts, State).

%% New parts, and the tree's paths to the series lead to the first of them.
replace(#series{key = {Name, _}, aliases = Aliases} = Row, [{Cell, _} | _] = Parts, State) ->
    true = ets:insert(?SERIES, Row#series{parts = Parts}),
    {{ok, Cell}, lists:foldl(fun(Labels, S) -> later([Name | Labels], Cell, S) end,
                             State, Aliases)}.

widen(#histogram{key = {Name, _} = Key} = Cell, Segment, State) ->
    case [{Newest, Row} || Row <- ets:lookup(?SERIES, Key), {ok, Newest} <- [newest(Cell, Row)]] of
        [{Newest, #series{parts = [{_, Base} | Parts]} = Row}] ->
            {ok, Metric, _} = whittle_counters_table:metric(Name),
            Kind = case Row of
                       #series{handled = true} -> kept;
                       #series{stripe = striped} -> hot;
                       _ -> cold
                   end,
            Wide = filled(bucket_stripe(Kind, Metric), [Segment], Newest),
            replace(Row, [{Wide, Base} | Parts], State);
        [] ->
            {{error, {unknown_series, Key}}, State}
    end.

%% A cell is made cold (by a name), kept (for a handle) or hot (after a look at
%% how much it is used).
cell(Kind, #{type := counter} = Metric, {Name, _}, Pages) ->
    whittle_counters_cell:counter(stripe(Kind, Metric), Name, Pages);
cell(_, #{type := gauge, value := Value}, {Name, _}, Pages) ->
    whittle_counters_cell:gauge(Value, Name, Pages);
cell(Kind, #{type := histogram, schema := Schema} = Metric, Key, Pages) ->
    {Cell, Pages1} = whittle_counters_cell:histogram(stripe(Kind, Metric), Key, Schema, Pages),
    {filled(bucket_stripe(Kind, Metric), segments(Kind, Metric), Cell), Pages1}.

filled(Stripe, Segments, Cell) ->
    lists:foldl(fun(S, C) -> whittle_counters_cell:with_segment(Stripe, S, C) end, Cell, Segments).

stripe(_, #{stripe := always}) -> striped;
stripe(_, #{stripe := never}) -> plain;
stripe(Kind, #{type := Type}) ->
    case erlang:system_info(schedulers) of
        1 -> plain;
        Schedulers when Kind =/= cold; Type =:= counter, Schedulers =< ?FEW -> striped;
        _ -> plain
    end.

%% A handle cannot change to striped buckets when it turns out hot. Plain ones cost
%% 48 processes three times as much (bench/counters); striped ones for the whole
%% range take 4 KB for each scheduler, which is too much from some number on.
bucket_stripe(kept, #{stripe := auto} = Metric) ->
    case erlang:system_info(schedulers) > ?FEW of
        true -> plain;
        false -> stripe(kept, Metric)
    end;
bucket_stripe(Kind, Metric) -> stripe(Kind, Metric).

%% The segments to have from the start: a handle cannot grow, so it gets those
%% of the metric's range; a series that is used by name gets each on demand.
segments(kept, #{schema := Schema, range := {Low, High}}) ->
    Of = fun(V) -> whittle_counters_scale:index(Schema, V) bsr 5 end,
    lists:seq(Of(max(1, Low)), Of(High));
segments(_, _) -> [].

remove(#series{key = {Name, Values} = Key, aliases = Aliases, expired = Expired}, State) ->
    true = ets:delete(?SERIES, Key),
    ok = whittle_counters_exemplar:delete(Name, Values),
    _ = ets:member(?METRICS, Name) andalso not uncapped(Values)
        andalso ets:update_counter(?METRICS, Name, {3, -1}),
    case Expired of
        false -> drop_paths(Name, Aliases, State);
        _ -> State
    end.

drop_paths(Name, Aliases, #state{pending = Pending} = State) ->
    State#state{pending = lists:foldl(fun(Labels, P) -> P#{[Name | Labels] => delete} end,
                                      Pending, Aliases)}.

%% Each cell is read once: what is added meanwhile is either in what this tells
%% or in what is read later, never in both. A gauge's word is written, as set/2
%% writes it: a base would be taken off what is set later.
zeroed([{Cell, _}] = Parts) when is_record(Cell, gauge); is_record(Cell, level) ->
    {whittle_counters_cell:take(Cell), Parts};
zeroed(Parts) ->
    Now = whittle_counters_table:now(Parts),
    {whittle_counters_table:grown(Parts, Now), Now}.

%%% stale and hot series

look_around(Now, State) ->
    State1 = ets:foldl(fun(Row, S) -> look_at(Row, Now, S) end, State, ?SERIES),
    case State1#state.pending of
        Pending when map_size(Pending) =:= 0 -> State1;
        _ -> publish(State1)
    end.

look_at(#series{key = {Name, _}, parts = Parts, last = Last, seen = Seen} = Row, Now, State) ->
    {ok, Metric, _} = whittle_counters_table:metric(Name),
    case updates(whittle_counters_table:value(Parts, raw)) of
        Last -> unchanged(Row, Now, Metric, State);
        Value -> changed(Row#series{last = Value, seen = Now}, Value, Last, max(1, Now - Seen),
                         Metric, State)
    end.

unchanged(#series{handled = false, expired = false, key = {Name, _}, aliases = Aliases,
                  seen = Seen} = Row,
          Now, #{expire_after := Limit}, State) when Now - Seen >= Limit ->
    true = ets:insert(?SERIES, Row#series{expired = Now, aliases = []}),
    drop_paths(Name, Aliases, State);
unchanged(#series{expired = Since} = Row, Now, _, State) when is_integer(Since) ->
    case Now - Since >= ?GRACE of
        true -> remove(Row, State);
        false -> State
    end;
unchanged(_, _, _, State) ->
    State.

changed(#series{stripe = plain, expired = false} = Row, Value, Last, Seconds,
        #{type := Type} = Metric, State) when Type =/= gauge ->
    case (Value - Last) div Seconds > ?HOT of
        true -> element(2, promote(Row, stripe(hot, Metric), Metric, State));
        false -> keep(Row, State)
    end;
changed(Row, _, _, _, _, State) ->
    keep(Row#series{expired = false}, State).

%% What tells that a series was updated. A histogram's count, because all of its
%% buckets would be much to remember.
updates(#{count := Count}) -> Count;
updates(Value) -> Value.

keep(Row, State) ->
    true = ets:insert(?SERIES, Row),
    State.

%%% publication

later(Path, Cell, #state{pending = Pending, timer = Timer, pause = Pause} = State) ->
    State1 = State#state{pending = Pending#{Path => Cell}},
    case Timer of
        none -> State1#state{timer = erlang:send_after(max(Pause, env(publish_after)),
                                                       self(), publish)};
        _ -> State1
    end.

publish(#state{pending = Pending, timer = Timer} = State) ->
    Start = erlang:monotonic_time(millisecond),
    Tree = maps:fold(fun(Path, delete, T) -> whittle_counters_tree:delete(Path, T);
                        (Path, Cell, T) -> whittle_counters_tree:put(Path, Cell, T)
                     end, persistent_term:get(?TREE, #{}), Pending),
    persistent_term:put(?TREE, Tree),
    true = ets:delete_all_objects(?ASKED),
    _ = Timer =/= none andalso erlang:cancel_timer(Timer),
    State#state{pending = #{}, timer = none,
                pause = 20 * (erlang:monotonic_time(millisecond) - Start)}.

now_s() -> erlang:monotonic_time(second).

env(Key) -> whittle_counters_option:env(Key).
