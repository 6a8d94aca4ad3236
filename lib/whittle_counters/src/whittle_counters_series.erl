%% @hidden Makes, changes and removes series: the life of each row of the series table.
%%
%% The registry's process alone calls the functions that take a store().
%%
%% == Why no update is lost ==
%% A word of shared memory belongs to one series for ever. A reset moves the series' base
%% instead of writing the word. An expired series stays in the table, out of sight
%% (whittle_counters_expiry). A series for which a handle was given does not expire.
-module(whittle_counters_series).

-include("whittle_counters_cell.hrl").
-include("whittle_counters_series.hrl").

%% The registry's process
-export([restore/0, create/4, widen/3, alias/3, remove/2, reset/1, publish/1]).
%% The expiry's look at a row
-export([promote/3, hide/3, is_pending/1]).
%% Pure
-export([newest/2, overflow/1]).
-export_type([store/0, kind/0]).

%% Each label's value in the series that takes what is above the cap.
-define(OVERFLOW, <<"_overflow">>).
%% Spellings of one label set that the tree takes; the others go the slow path.
-define(ALIASES, 8).
%% Schedulers up to which all counters and a handle's buckets are striped. A counter's
%% word for each is little beside the 600 bytes that its series takes.
-define(FEW, 8).

-type kind() :: cold | kept | hot.
%% A cell is made cold (by a name), kept (for a handle) or hot (after a look at how much it is
%% used).

-record(store, {
    pages = whittle_counters_cell:pages() :: whittle_counters_cell:pages(),
    publication :: whittle_counters_publication:publication()
}).
-opaque store() :: #store{}.

%% @doc Mends the tables after a crash and publishes the series that they hold. They may hold
%% half of a change, and the tree may lack a series that they hold.
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

%% @doc Gives the series' cell, and makes the series if it is new; full when the metric or the
%% application has as many series as it may.
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

%% Text that is part of a larger binary, a request say, would keep that in memory.
alone(Labels) -> [if is_binary(L) -> binary:copy(L); true -> L end || L <- Labels].

%% The one series of a metric without labels, and the overflow.
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

%% @doc Gives a series that turned out hot a striped cell, where that can help.
-spec promote(#series{}, whittle_counters:metric(), store()) -> store().
promote(Row, Metric, Store) -> element(2, promote(Row, stripe(hot, Metric), Metric, Store)).

%% A second, striped cell: the old one still counts for those who know it.
promote(#series{key = Key, parts = Parts} = Row, striped, Metric, Store) ->
    {Cell, Pages} = cell(hot, Metric, Key, Store#store.pages),
    replace(Row#series{stripe = striped}, [{Cell, 0} | Parts], Store#store{pages = Pages});
promote(#series{parts = Parts} = Row, plain, _, Store) ->
    replace(Row, Parts, Store).

%% New parts, and the tree's paths to the series lead to the first of them.
replace(#series{key = {Name, _}, aliases = Aliases} = Row, [{Cell, _} | _] = Parts, Store) ->
    true = ets:insert(?SERIES, Row#series{parts = Parts}),
    {{ok, Cell}, lists:foldl(fun(Labels, S) -> later([Name | Labels], Cell, S) end,
                             Store, Aliases)}.

%% @doc Gives the newest cell of the series that a cell is of, with one more segment of buckets.
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

%% @doc Adds a path to a series to the tree, with the next publication.
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
            %% It stays among those asked for, so that the next update does not ask.
            Store;
        _ ->
            ok = whittle_counters_publication:unask(Path),
            Store
    end.

%% @doc Removes a series; publish/1 then takes its paths out of the tree.
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

%% @doc Publishes the changes that wait for it.
-spec publish(store()) -> store().
publish(#store{publication = Publication} = Store) ->
    Store#store{publication = whittle_counters_publication:publish(Publication)}.

%% @doc Tells whether a change waits to be published.
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

%% Each cell is read once: what is added meanwhile is either in what this tells
%% or in what is read later, never in both. A gauge's word is written, as set/2
%% writes it: a base would be taken off what is set later.
zeroed([{Cell, _}] = Parts) when is_record(Cell, gauge); is_record(Cell, level) ->
    {whittle_counters_cell:take(Cell), Parts};
zeroed(Parts) ->
    Now = whittle_counters_table:now(Parts),
    {whittle_counters_table:grown(Parts, Now), Now}.

%% @doc Gives the newest cell of a row, if the given cell is of the same series.
%%
%% Keys are not enough to tell series apart: one may be deleted and defined again, as
%% another type even. Cells are, since a word is never given to a second series.
-spec newest(whittle_counters_cell:cell(), #series{}) ->
          {ok, whittle_counters_cell:cell()} | unknown.
newest(Cell, #series{parts = [{Newest, _} | _] = Parts}) ->
    Id = whittle_counters_cell:id(Cell),
    case lists:any(fun({Part, _}) -> whittle_counters_cell:id(Part) =:= Id end, Parts) of
        true -> {ok, Newest};
        false -> unknown
    end.

%% @doc Gives the label values of the series that takes the updates above the cap.
-spec overflow([atom()]) -> [binary()].
overflow(Names) -> [?OVERFLOW || _ <- Names].

now_s() -> erlang:monotonic_time(second).
