%% @hidden Makes, changes and removes the rows of the series table.
%%
%% Only the process of the registry calls the functions that take a store().
%%
%% == Why no update is lost ==
%% A word of shared memory belongs to one series forever. A reset moves the series' base instead
%% of writing the word. An expired series stays hidden in the table (whittle_counters_expiry). A
%% series with a handle does not expire.
-module(whittle_counters_series).

-include("whittle_counters_cell.hrl").
-include("whittle_counters_series.hrl").

%% Functions for the registry's process
-export([restore/0, create/4, widen/3, alias/3, remove/2, reset/1, publish/1]).
%% Functions for the expiry
-export([promote/3, hide/3, is_pending/1]).
%% Pure functions
-export([newest/2, overflow/1]).
-export_type([store/0, kind/0]).

%% The value of each label in the series that takes the updates above the cap.
-define(OVERFLOW, <<"_overflow">>).
%% The number of spellings of one label set in the tree. The others take the slow path.
-define(ALIASES, 8).
%% The number of schedulers up to which all counters and a handle's buckets are striped. A word
%% for each scheduler is small beside the 600 bytes of a series.
-define(FEW, 8).

-type kind() :: cold | kept | hot.
%% A cell is cold (an update by name made it), kept (for a handle) or hot (after a check of its
%% use).

-record(store, {
    pages = whittle_counters_cell:pages() :: whittle_counters_cell:pages(),
    publication :: whittle_counters_publication:publication()
}).
-opaque store() :: #store{}.

%% @doc Repairs the tables after a crash and publishes their series. The tables may hold half of a
%% change, and the tree may lack some of their series.
-spec restore() -> store().
restore() ->
    ok = mend(),
    Paths = ets:foldl(
              fun(#series{expired = false, key = {Name, _}, aliases = Aliases,
                          parts = [{Cell, _} | _]}, Acc) ->
                      lists:foldl(fun(Labels, A) -> A#{[Name | Labels] => Cell} end,
                                  Acc, Aliases);
                 (_, Acc) -> Acc
              end, #{}, ?SERIES),
    #store{publication = whittle_counters_publication:begin_with(Paths)}.

%% Removes the series of deleted metrics, and counts each metric's series anew.
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

%% @doc Gives the series' cell, and makes the series if it is new. The result is full when the
%% metric or the application has reached its number of series.
-spec create(atom(), [binary()], kind(), store()) ->
          {{ok, whittle_counters_cell:cell()} | full | {error, whittle_counters:reason()}, store()}.
create(Name, Values, Kind, Store) ->
    case ets:lookup(?METRICS, Name) of
        [] ->
            {{error, {unknown_metric, Name}}, Store};
        [{_, #{read := Read}, _}] when Read =/= none ->
            {{error, {read_only, Name}}, Store};
        [{_, Metric, Count}] ->
            case ets:lookup(?SERIES, {Name, Values}) of
                [Row] -> found(Row, Kind, Metric, Store);
                [] ->
                    Room = uncapped(Values)
                        orelse (Count < maps:get(max_series, Metric)
                                andalso ets:info(?SERIES, size)
                                    < whittle_counters_option:env(max_series)),
                    case Room of
                        true -> insert(Name, Values, Kind, Metric, Store);
                        false -> {full, Store}
                    end
            end
    end.

%% A text that is part of a larger binary, such as a request, would keep that binary in memory.
alone(Labels) -> [if is_binary(L) -> binary:copy(L); true -> L end || L <- Labels].

%% The single series of a metric without labels, and the overflow series, have no cap.
uncapped(Values) -> lists:all(fun(V) -> V =:= ?OVERFLOW end, Values).

insert(Name, Texts, Kind, #{labels := Names} = Metric, Store) ->
    Values = alone(Texts),
    {Cell, Pages} = cell(Kind, Metric, {Name, Values}, Store#store.pages),
    true = ets:insert(?SERIES, #series{key = {Name, Values},
                                       text = whittle_counters_name:text(Names, Values),
                                       parts = [{Cell, 0}], stripe = stripe(Kind, Metric),
                                       handled = Kind =:= kept,
                                       seen = now_s()}),
    _ = uncapped(Values) orelse ets:update_counter(?METRICS, Name, {3, 1}),
    {{ok, Cell}, Store#store{pages = Pages}}.

found(#series{parts = [{Cell, _} | _], handled = Handled} = Row, Kind, Metric, Store) ->
    Live = Row#series{expired = false, handled = Handled orelse Kind =:= kept, seen = now_s()},
    case Kind =:= kept andalso not Handled of
        true ->
            kept(Live, Metric, Store);
        false ->
            true = ets:insert(?SERIES, Live),
            {{ok, Cell}, Store}
    end.

kept(#series{stripe = plain} = Row, #{type := counter} = Metric, Store) ->
    promote(Row, stripe(kept, Metric), Metric, Store);
kept(#series{parts = [{#histogram{} = Cell, Base} | Parts]} = Row, Metric, Store) ->
    Full = filled(bucket_stripe(kept, Metric), segments(kept, Metric), Cell),
    replace(Row, [{Full, Base} | Parts], Store);
kept(#series{parts = Parts} = Row, _, Store) ->
    replace(Row, Parts, Store).

%% @doc Gives a hot series a striped cell, where that can help.
-spec promote(#series{}, whittle_counters:metric(), store()) -> store().
promote(Row, Metric, Store) -> element(2, promote(Row, stripe(hot, Metric), Metric, Store)).

%% Adds a second, striped cell. The old one still counts for processes that hold it.
promote(#series{key = Key, parts = Parts} = Row, striped, Metric, Store) ->
    {Cell, Pages} = cell(hot, Metric, Key, Store#store.pages),
    replace(Row#series{stripe = striped}, [{Cell, 0} | Parts], Store#store{pages = Pages});
promote(#series{parts = Parts} = Row, plain, _, Store) ->
    replace(Row, Parts, Store).

%% Replaces the parts of a series. The tree's paths to the series then lead to the first part.
replace(#series{key = {Name, _}, aliases = Aliases} = Row, [{Cell, _} | _] = Parts, Store) ->
    true = ets:insert(?SERIES, Row#series{parts = Parts}),
    {{ok, Cell}, lists:foldl(fun(Labels, S) -> later([Name | Labels], Cell, S) end,
                             Store, Aliases)}.

%% @doc Gives the newest cell of the given cell's series, with one more segment of buckets.
-spec widen(#histogram{}, non_neg_integer(), store()) ->
          {{ok, whittle_counters_cell:cell()} | {error, whittle_counters:reason()}, store()}.
widen(#histogram{key = {Name, _} = Key} = Cell, Segment, Store) ->
    case [{Newest, Row} || Row <- ets:lookup(?SERIES, Key), {ok, Newest} <- [newest(Cell, Row)]] of
        [{Newest, #series{parts = [{_, Base} | Parts]} = Row}] ->
            {ok, Metric, _} = whittle_counters_table:metric(Name),
            Kind = case Row of
                       #series{handled = true} -> kept;
                       #series{stripe = striped} -> hot;
                       _ -> cold
                   end,
            Wide = filled(bucket_stripe(Kind, Metric), [Segment], Newest),
            replace(Row, [{Wide, Base} | Parts], Store);
        [] ->
            {{error, {unknown_series, Key}}, Store}
    end.

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

%% A handle cannot change to striped buckets when it becomes hot. With plain buckets, updates from
%% 48 processes cost three times as much (bench/counters). Striped buckets for the whole range
%% take 4 KB for each scheduler, which is too much for many schedulers.
bucket_stripe(kept, #{stripe := auto} = Metric) ->
    case erlang:system_info(schedulers) > ?FEW of
        true -> plain;
        false -> stripe(kept, Metric)
    end;
bucket_stripe(Kind, Metric) -> stripe(Kind, Metric).

%% Gives the first segments of a cell. A handle cannot grow, so it gets those of the metric's
%% range. A series that is used by name gets each segment on demand.
segments(kept, #{schema := Schema, range := {Low, High}}) ->
    Of = fun(V) -> whittle_counters_scale:index(Schema, V) bsr 5 end,
    lists:seq(Of(max(1, Low)), Of(High));
segments(_, _) -> [].

%% @doc Adds a path of a series to the tree, with the next publication.
-spec alias(whittle_counters_tree:path(), {atom(), [binary()]}, store()) -> store().
alias([Name | Given] = Path, Key, Store) ->
    Labels = alone(Given),
    case ets:lookup(?SERIES, Key) of
        [#series{aliases = Aliases, expired = false, parts = [{Cell, _} | _]} = Row]
          when length(Aliases) < ?ALIASES ->
            Known = lists:member(Labels, Aliases),
            _ = Known orelse ets:insert(?SERIES, Row#series{aliases = [Labels | Aliases]}),
            later([Name | Labels], Cell, Store);
        [#series{expired = false}] ->
            %% The path stays among the requested ones, so that the next update does not request
            %% it.
            Store;
        _ ->
            ok = whittle_counters_publication:unask(Path),
            Store
    end.

%% @doc Removes a series. publish/1 then removes its paths from the tree.
-spec remove(#series{}, store()) -> store().
remove(#series{key = {Name, Values} = Key, aliases = Aliases, expired = Expired}, Store) ->
    true = ets:delete(?SERIES, Key),
    ok = whittle_counters_exemplar:delete(Name, Values),
    _ = ets:member(?METRICS, Name) andalso not uncapped(Values)
        andalso ets:update_counter(?METRICS, Name, {3, -1}),
    case Expired of
        false -> drop_paths(Name, Aliases, Store);
        _ -> Store
    end.

%% @doc Hides a series that expires at second Now. It stays in the table.
-spec hide(#series{}, integer(), store()) -> store().
hide(#series{key = {Name, _}, aliases = Aliases} = Row, Now, Store) ->
    true = ets:insert(?SERIES, Row#series{expired = Now, aliases = []}),
    drop_paths(Name, Aliases, Store).

drop_paths(Name, Aliases, #store{publication = Publication} = Store) ->
    Drop = fun(Labels, P) -> whittle_counters_publication:drop([Name | Labels], P) end,
    Store#store{publication = lists:foldl(Drop, Publication, Aliases)}.

later(Path, Cell, #store{publication = Publication} = Store) ->
    Store#store{publication = whittle_counters_publication:later(Path, Cell, Publication)}.

%% @doc Publishes the waiting changes.
-spec publish(store()) -> store().
publish(#store{publication = Publication} = Store) ->
    Store#store{publication = whittle_counters_publication:publish(Publication)}.

%% @doc Tells whether a change waits for publication.
-spec is_pending(store()) -> boolean().
is_pending(#store{publication = Publication}) ->
    whittle_counters_publication:is_pending(Publication).

%% @doc Sets a series to zero and gives its value until then.
-spec reset({atom(), [binary()]}) ->
          {ok, whittle_counters_table:value()} | {error, whittle_counters:reason()}.
reset(Key) ->
    case ets:lookup(?SERIES, Key) of
        [#series{parts = Parts} = Row] ->
            {Value, Parts1} = zeroed(Parts),
            true = ets:insert(?SERIES, Row#series{parts = Parts1}),
            {ok, Value};
        [] ->
            {error, {unknown_series, Key}}
    end.

%% The function reads each cell once. So a concurrent update counts in this result or in a later
%% one, never in both. It writes a gauge's word, as set/2 does, because a base would be subtracted
%% from a later value.
zeroed([{Cell, _}] = Parts) when is_record(Cell, gauge); is_record(Cell, level) ->
    {whittle_counters_cell:take(Cell), Parts};
zeroed(Parts) ->
    Now = whittle_counters_table:now(Parts),
    {whittle_counters_table:grown(Parts, Now), Now}.

%% @doc Gives the newest cell of a row, if the given cell belongs to the same series.
%%
%% Keys do not identify a series, because a user may delete it and define it again, even with
%% another type. Cells identify it, because a word never serves a second series.
-spec newest(whittle_counters_cell:cell(), #series{}) ->
          {ok, whittle_counters_cell:cell()} | unknown.
newest(Cell, #series{parts = [{Newest, _} | _] = Parts}) ->
    Id = whittle_counters_cell:id(Cell),
    case lists:any(fun({Part, _}) -> whittle_counters_cell:id(Part) =:= Id end, Parts) of
        true -> {ok, Newest};
        false -> unknown
    end.

%% @doc Gives the label values of the overflow series.
-spec overflow([atom()]) -> [binary()].
overflow(Names) -> [?OVERFLOW || _ <- Names].

now_s() -> erlang:monotonic_time(second).
