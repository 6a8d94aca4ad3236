%% @doc Reads the tables behind the registry: the definitions, the series, the refused updates.
%% The registry writes them, and all processes read them. They belong to the supervisor, so they
%% outlive a crash of the registry.
-module(whittle_counters_table).

-include("whittle_counters_cell.hrl").
-include("whittle_counters_series.hrl").

-export([create/0, access/2]).
-export([metric/1, metrics/0, series/1, fold_series/3, fold_all/3, read/2, info/0]).
-export([value/2, now/1, grown/2, gained/2]).
-export([reject/2, divert/1, rejected/0, diverted/0]).
-export_type([base/0, value/0, distribution/0, info/0]).

-define(REFUSED, whittle_counters_refused).

%% The number of rows that a fold holds at a time.
-define(CHUNK, 100).

-type distribution() :: #{count := non_neg_integer(), sum := integer(),
                          zeros := non_neg_integer(),
                          buckets := [{whittle_counters_scale:index(), pos_integer()}]}.
%% Exact whole numbers. The list has only buckets that are not empty, lowest first.
-type value() :: number() | distribution().
-type base() :: 0 | number() | distribution().

-type info() :: #{
        %% Bytes of the tables. The registry's persistent term takes about 150 bytes more for each
        %% series.
        tables := non_neg_integer(),
        %% Bytes of the cells of a metric and of each of its series.
        metrics := #{atom() => #{bytes := non_neg_integer(),
                                 series := #{[binary()] => non_neg_integer()}}}}.

%% @doc Makes the tables. The calling process owns them.
-spec create() -> ok.
create() ->
    _ = ets:new(?METRICS, [named_table, public, ordered_set, {read_concurrency, true}]),
    _ = ets:new(?SERIES, [named_table, public, ordered_set, {keypos, #series.key},
                          {read_concurrency, true}]),
    %% The table is ordered: an empty set takes 2.4 KB, an empty tree half of that.
    _ = ets:new(?REFUSED, [named_table, public, ordered_set]),
    _ = ets:new(whittle_counters_asked, [named_table, public, ordered_set]),
    ok.

%% @doc Returns the result of Fun, or Otherwise where the tables do not exist. The application may
%% stop during any call, and the processes that update, scrape or push must continue.
-spec access(fun(() -> Result), Otherwise) -> Result | Otherwise.
access(Fun, Otherwise) ->
    try Fun()
    catch error:badarg -> Otherwise
    end.

%% @doc Gives a metric's definition and the number of its series.
-spec metric(term()) -> {ok, whittle_counters:metric(), non_neg_integer()} |
          {error, whittle_counters:reason()}.
metric(Name) ->
    case access(fun() -> ets:lookup(?METRICS, Name) end, none) of
        [{_, Metric, Count}] -> {ok, Metric, Count};
        [] -> {error, {unknown_metric, Name}};
        none -> {error, {not_started, whittle_counters}}
    end.

%% @doc Gives all definitions, by name.
-spec metrics() -> [whittle_counters:metric()].
metrics() -> [Metric || {_, Metric, _} <- rows(?METRICS)].

rows(Table) -> access(fun() -> ets:tab2list(Table) end, []).

%% @doc Gives one series.
-spec series({atom(), [binary()]}) -> {ok, #series{}} | none.
series(Key) ->
    case access(fun() -> ets:lookup(?SERIES, Key) end, []) of
        [Series] -> {ok, Series};
        [] -> none
    end.

%% @doc Folds over the living series of a metric in the order of their labels. It holds ?CHUNK
%% rows at a time, so its memory does not grow with the number of series.
-spec fold_series(fun(([binary()], binary(), list(), Acc) -> Acc), Acc, atom()) -> Acc.
fold_series(Fun, Acc, Name) -> fold_rows(Fun, Acc, false, Name).

%% @doc Folds over all series of a metric, including expired series that the sweep still watches.
-spec fold_all(fun(([binary()], binary(), list(), Acc) -> Acc), Acc, atom()) -> Acc.
fold_all(Fun, Acc, Name) -> fold_rows(Fun, Acc, '_', Name).

fold_rows(Fun, Acc, Expired, Name) ->
    Match = [{#series{key = {Name, '$1'}, text = '$2', parts = '$3', expired = Expired,
                      _ = '_'},
              [], [{{'$1', '$2', '$3'}}]}],
    fold_chunks(Fun, Acc, fun() -> ets:select(?SERIES, Match, ?CHUNK) end).

fold_chunks(Fun, Acc, Select) ->
    case access(Select, '$end_of_table') of
        '$end_of_table' -> Acc;
        {Rows, More} ->
            Acc1 = lists:foldl(fun({Values, Text, Parts}, A) -> Fun(Values, Text, Parts, A) end,
                               Acc, Rows),
            fold_chunks(Fun, Acc1, fun() -> ets:select(More) end)
    end.

%% @doc Adds up the parts of a series, to a number or to a histogram's distribution.
-spec value([{whittle_counters_cell:cell(), base()}], raw | since_reset) -> value().
value(Parts, raw) -> total([Value || {_, Value} <- now(Parts)]);
value(Parts, since_reset) -> grown(Parts, now(Parts)).

%% @doc Reads each cell of the parts once. A reset uses the results as bases.
-spec now([{whittle_counters_cell:cell(), base()}]) ->
          [{whittle_counters_cell:cell(), value()}].
now(Parts) -> [{Cell, content(Cell)} || {Cell, _} <- Parts].

content(#histogram{} = Cell) ->
    Zeros = whittle_counters_cell:zeros(Cell),
    Buckets = whittle_counters_cell:buckets(Cell),
    #{count => lists:foldl(fun({_, N}, Sum) -> N + Sum end, Zeros, Buckets),
      sum => whittle_counters_cell:read(Cell), zeros => Zeros, buckets => Buckets};
content(Cell) ->
    whittle_counters_cell:read(Cell).

%% @doc Gives the growth of a series from its parts' bases to later values of the same cells, in
%% the same order.
-spec grown([{whittle_counters_cell:cell(), base()}], [{whittle_counters_cell:cell(), value()}]) ->
          value().
grown(Parts, Now) ->
    total([minus(To, From) || {{_, From}, {_, To}} <- lists:zip(Parts, Now)]).

%% @doc Gives the growth since Before, across resets, deletions and new series. It compares each
%% cell with itself, and a new cell with nothing.
-spec gained([{whittle_counters_cell:cell(), value()}],
             [{whittle_counters_cell:cell(), value()}]) -> value().
gained(Now, Before) ->
    Known = maps:from_list([{whittle_counters_cell:id(C), V} || {C, V} <- Before]),
    total([minus(V, maps:get(whittle_counters_cell:id(C), Known, 0)) || {C, V} <- Now]).

total([Value]) -> Value;
total([Value | Values]) -> sum(Value, total(Values)).

minus(Value, 0) -> Value;
minus(#{} = Distribution, #{} = Base) -> plus(Distribution, negative(Base));
minus(Value, Base) -> Value - Base.

sum(#{} = A, #{} = B) -> plus(A, B);
sum(A, B) -> A + B.

plus(#{count := C1, sum := S1, zeros := Z1, buckets := B1},
     #{count := C2, sum := S2, zeros := Z2, buckets := B2}) ->
    #{count => C1 + C2, sum => S1 + S2, zeros => Z1 + Z2, buckets => merge(B1, B2)}.

negative(#{count := C, sum := S, zeros := Z, buckets := B}) ->
    #{count => -C, sum => -S, zeros => -Z, buckets => [{I, -N} || {I, N} <- B]}.

merge([{I, N} | A], [{I, M} | B]) when N + M =:= 0 -> merge(A, B);
merge([{I, N} | A], [{I, M} | B]) -> [{I, N + M} | merge(A, B)];
merge([{I, _} = X | A], [{J, _} | _] = B) when I < J -> [X | merge(A, B)];
merge([_ | _] = A, [Y | B]) -> [Y | merge(A, B)];
merge([], B) -> B;
merge(A, []) -> A.

%% @doc Gives the value of one series, until it expires.
-spec read(atom(), [binary()]) -> {ok, value()} | {error, whittle_counters:reason()}.
read(Name, Values) ->
    case series({Name, Values}) of
        {ok, #series{parts = Parts, expired = false}} -> {ok, value(Parts, since_reset)};
        _ ->
            case metric(Name) of
                {ok, #{read := Read}, _} when Read =/= none -> {error, {read_at_scrape, Name}};
                _ -> {error, {unknown_series, {Name, Values}}}
            end
    end.

%% @doc Describes the content of the tables and its cost, by metric and series.
-spec info() -> info().
info() ->
    Word = erlang:system_info(wordsize),
    #{tables => Word * lists:sum([M || T <- [?METRICS, ?SERIES, ?REFUSED],
                                    M <- [ets:info(T, memory)], is_integer(M)]),
      metrics => maps:from_list([{Name, cost(Name)} || #{name := Name} <- metrics()])}.

cost(Name) ->
    fold_series(fun(Values, _, Parts, #{bytes := Bytes, series := Series} = Acc) ->
                        Mine = lists:sum([whittle_counters_cell:bytes(C) || {C, _} <- Parts]),
                        Acc#{bytes := Bytes + Mine, series := Series#{Values => Mine}}
                end, #{bytes => 0, series => #{}}, Name).

%% @doc Counts a refused update, and logs the first of its kind for the metric. It returns the
%% error.
-spec reject(term(), whittle_counters:reason()) -> {error, whittle_counters:reason()}.
reject(Name, {Tag, _} = Reason) ->
    Known = case metric(Name) of {ok, _, _} -> Name; {error, _} -> undefined end,
    case access(fun() -> ets:update_counter(?REFUSED, {Known, Tag}, 1, {{Known, Tag}, 0}) end,
                none) of
        1 ->
            logger:warning("whittle_counters~ts: ~ts (further ones are only counted, in "
                           "whittle_counters_rejected_total)",
                           [[[", metric ", atom_to_list(Known)] || Known =/= undefined],
                            whittle_counters_error:format(Reason)]);
        _ ->
            ok
    end,
    {error, Reason}.

%% @doc Counts an update of the overflow series.
-spec divert(atom()) -> ok.
divert(Name) ->
    %% No metric's name is a tuple.
    Key = {{divert}, Name},
    _ = access(fun() -> ets:update_counter(?REFUSED, Key, 1, {Key, 0}) end, none),
    ok.

%% @doc Gives the number of refused updates, by metric and reason.
-spec rejected() -> [{{atom(), atom()}, pos_integer()}].
rejected() -> [Row || {{Name, _}, _} = Row <- rows(?REFUSED), is_atom(Name)].

%% @doc Gives the number of updates of overflow series, by metric.
-spec diverted() -> [{atom(), pos_integer()}].
diverted() -> [{Name, N} || {{{divert}, Name}, N} <- rows(?REFUSED)].
