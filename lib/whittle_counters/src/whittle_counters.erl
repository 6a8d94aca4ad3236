%% @doc Defines, updates and reads counters, gauges and histograms, at the cost of a bare counter.
%%
%% Define a metric once, update it from any process, read it or let a scraper read it:
%% ```
%% ok = whittle_counters:new(requests_total, counter,
%%                           #{help => "Requests", labels => [method, code]}),
%% ok = whittle_counters:inc(requests_total, [get, 200]),
%% {ok, H} = whittle_counters:handle(requests_total, [get, 200]),
%% ok = whittle_counters:inc(H)
%% '''
%% The library resolves a handle once, and an update through it costs as much as `counters:add/3'.
%% Each call by name with labels looks the series up.
%%
%% An update never raises an exception. An invalid update answers `{error, Reason}'. It has an
%% unknown metric, labels that do not fit, a negative step or a value out of range.
%% `whittle_counters_rejected_total' counts it, and the log gets the first of its kind.
-module(whittle_counters).

-include("whittle_counters_cell.hrl").

%% Definitions
-export([new/2, new/3, delete/1, delete/2, reset/1, reset/2, handle/1, handle/2]).
%% Updates
-export([inc/1, inc/2, inc/3, add/2, add/3, set/2, set/3]).
-export([observe/2, observe/3, observe_since/2, observe_since/3, exemplar/4]).
%% Reading
-export([value/1, value/2, quantile/3, rate/3, snapshot/0, info/0, format_error/1]).

-export_type([type/0, options/0, metric/0, handle/0, labels/0, label/0, reason/0]).

-type type() :: counter | gauge | histogram.

-type label() :: atom() | integer() | binary() | string().
-type labels() :: [label()] | #{atom() => label()}.
%% Values in the order in which the metric names its labels. The lookup of a map is slower.

-type options() :: #{
        help => unicode:chardata(),
        %% The unit, `seconds' or `bytes'. The name must end with it.
        unit => unicode:chardata(),
        %% Label names. Default: none.
        labels => [atom()],
        %% For gauges: whole numbers (default) or floats.
        value => integer | float,
        %% For gauges and counters: the scrape calls this fun to read the value. The fun returns a
        %% number, or a list of `{LabelValues, Number}'.
        read => fun(() -> number() | [{[label()], number()}]),
        %% For histograms: the largest relative error of a value that is read from its bucket,
        %% 0.011 to 0.42. Default: 0.05 (0.044 in fact).
        error => float(),
        %% For histograms: the number of observed units in one exported unit. With the unit
        %% seconds and the resolution 1000000000, you observe nanoseconds. Default: 1.
        resolution => pos_integer(),
        %% For histograms: the expected range of observed values. A handle gets its buckets for
        %% this range at once. The library adds other buckets when values occur.
        range => {non_neg_integer(), pos_integer()},
        %% One machine word for each scheduler: `auto', `always' or `never'. The default `auto'
        %% stripes all counters on 2 to 8 schedulers, handles, and series that prove hot.
        stripe => auto | always | never,
        %% The largest number of series. Default: 1000. Further label sets count together under
        %% the labels `_overflow'.
        max_series => pos_integer(),
        %% Seconds without a change after which the library drops a series. Default: never. Series
        %% with a handle stay.
        expire_after => pos_integer() | infinity,
        %% Windows in seconds for rate/3. Default: none.
        windows => [pos_integer()]}.

-type metric() :: #{name := atom(), type := type(), family := binary(), help := binary(),
                    unit := binary(), labels := [atom()], max_series := pos_integer(),
                    expire_after := pos_integer() | infinity, stripe := auto | always | never,
                    atom() => term()}.
%% A checked definition with its defaults.

-opaque handle() :: whittle_counters_cell:cell().

-type reason() :: {atom(), term()}.
%% See format_error/1.

-define(REGISTRY, whittle_counters).

%% whittle_counters_scale:max_value(), and the VM's largest small integer. A comparison with 2^59
%% would compare with a bignum.
-define(MAX_OBSERVED, 16#7FFFFFFFFFFFFFF).

%% The steps by which a counter may grow. They exclude bignums too.
-define(IS_STEP(N), is_integer(N), N >= 0, N =< 16#7FFFFFFFFFFFFFF).

%%% definitions

%% @doc Defines a metric without options.
-spec new(atom(), type() | timer) -> ok | {error, reason()}.
new(Name, Type) -> new(Name, Type, #{}).

%% @doc Defines a metric. A second definition with the same options succeeds. A different one
%% gives `{error, {already_defined, ...}}' and changes nothing. A `timer' is a histogram of
%% nanoseconds that the exports give in seconds.
-spec new(atom(), type() | timer, options()) -> ok | {error, reason()}.
new(Name, Type, Options) ->
    case whittle_counters_metric:check(Name, Type, Options) of
        {ok, #{windows := Windows} = Metric} ->
            case whittle_counters_registry:define(Metric) of
                ok when Windows =/= [] -> whittle_counters_sup:start_helpers();
                Answer -> Answer
            end;
        {error, _} = Error -> Error
    end.

%% @doc Deletes a metric with all its series.
-spec delete(atom()) -> ok | {error, reason()}.
delete(Name) -> whittle_counters_registry:undefine(Name).

%% @doc Deletes one series. The library accepts and ignores an update through a handle of it. An
%% update by name starts a new series at zero.
-spec delete(atom(), labels()) -> ok | {error, reason()}.
delete(Name, Labels) ->
    with_values(Name, Labels, fun whittle_counters_registry:delete/2).

%% @equiv reset(Name, [])
-spec reset(atom()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
reset(Name) -> reset(Name, []).

%% @doc Sets a series to zero and gives its value until then. Each update counts in this value or
%% in a later one. No update is lost or counts twice.
-spec reset(atom(), labels()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
reset(Name, Labels) ->
    with_values(Name, Labels, fun whittle_counters_registry:reset/2).

with_values(Name, Labels, Fun) ->
    case whittle_counters_table:metric(Name) of
        {ok, #{labels := Names}, _} ->
            case whittle_counters_name:values(Names, Labels) of
                {ok, Values} -> Fun(Name, Values);
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

%% @equiv handle(Name, [])
-spec handle(atom()) -> {ok, handle()} | {error, reason()}.
handle(Name) -> handle(Name, []).

%% @doc Resolves a series once. The handle is a small term that you may send and store. Its series
%% never expires. With more than one scheduler the counter becomes striped. A histogram gets the
%% buckets of its range.
-spec handle(atom(), labels()) -> {ok, handle()} | {error, reason()}.
handle(Name, Labels) -> whittle_counters_registry:handle(Name, Labels).

%%% updates
%%% The clauses for cells come first. Their last call is their only one.

%% @doc Adds one to a counter: a handle, or the name of one without labels.
-spec inc(handle() | atom()) -> ok | {error, reason()}.
inc(#striped{ref = Ref, ix = Ix}) -> counters:add(Ref, Ix, 1);
inc(#counter{ref = Ref, ix = Ix}) -> atomics:add(Ref, Ix, 1);
inc(#gauge{ref = Ref, ix = Ix}) -> atomics:add(Ref, Ix, 1);
inc(Name) when is_atom(Name) -> inc(Name, [], 1);
inc(Other) -> inc(Other, 1).

%% @doc Adds to a counter: `inc(Handle, Step)'. `inc(Name, Labels)' adds one.
-spec inc(handle(), non_neg_integer()) -> ok | {error, reason()};
         (atom(), labels()) -> ok | {error, reason()}.
inc(#striped{ref = Ref, ix = Ix}, N) when ?IS_STEP(N) -> counters:add(Ref, Ix, N);
inc(#counter{ref = Ref, ix = Ix}, N) when ?IS_STEP(N) -> atomics:add(Ref, Ix, N);
inc(Name, [A, B]) when is_atom(Name) -> inc_two(Name, A, B, 1);
inc(Name, Labels) when is_atom(Name) -> inc(Name, Labels, 1);
inc(#gauge{} = Cell, N) -> add(Cell, N);
inc(Cell, N) when is_record(Cell, counter); is_record(Cell, striped) ->
    refuse(whittle_counters_cell:metric(Cell), {bad_step, N});
inc(Other, _) -> unfit(Other, counter).

%% @doc Adds a whole number to a counter by name. The number is from 0 to 2^59 - 1.
-spec inc(atom(), labels(), non_neg_integer()) -> ok | {error, reason()}.
inc(Name, [A, B], N) when ?IS_STEP(N) -> inc_two(Name, A, B, N);
inc(Name, Labels, N) when ?IS_STEP(N) ->
    case find(Name, Labels) of
        #counter{ref = Ref, ix = Ix} -> atomics:add(Ref, Ix, N);
        #striped{ref = Ref, ix = Ix} -> counters:add(Ref, Ix, N);
        _ -> slow(Name, Labels, counter, N, fun inc/2)
    end;
inc(Name, _, N) -> refuse(Name, {bad_step, N}).

%% Most metrics have at most two labels. For two labels, one pattern reaches the fields of the
%% cell. A call of find/2 takes 7 ns more with the JIT of OTP 29 (57 and 64 ns), and 4 ns more
%% with that of OTP 25.
-compile({inline, [inc_two/4]}).
inc_two(Name, A, B, N) ->
    case persistent_term:get(?REGISTRY, #{}) of
        #{Name := #{A := #{B := #striped{ref = Ref, ix = Ix}}}} -> counters:add(Ref, Ix, N);
        #{Name := #{A := #{B := #counter{ref = Ref, ix = Ix}}}} -> atomics:add(Ref, Ix, N);
        _ -> slow(Name, [A, B], counter, N, fun inc/2)
    end.

%% @doc Adds to a gauge, up or down: `add(Handle, N)', or `add(Name, N)' without labels. A gauge
%% of whole numbers has 64 bits: above 2^63-1 it continues from -2^63.
-spec add(handle() | atom(), number()) -> ok | {error, reason()}.
add(#gauge{ref = Ref, ix = Ix} = Cell, N) when is_integer(N) ->
    try atomics:add(Ref, Ix, N)
    catch error:badarg -> bad_value(Cell, N)
    end;
add(#level{} = Cell, N) when is_number(N) ->
    try whittle_counters_cell:add_level(Cell, N)
    catch error:_ -> bad_value(Cell, N)
    end;
add(Name, N) when is_atom(Name) -> add(Name, [], N);
add(Cell, N) when is_record(Cell, gauge); is_record(Cell, level) -> bad_value(Cell, N);
add(Other, _) -> unfit(Other, gauge).

%% @doc Adds to a gauge by name.
-spec add(atom(), labels(), number()) -> ok | {error, reason()}.
add(Name, Labels, N) ->
    case find(Name, Labels) of
        #gauge{} = Cell -> add(Cell, N);
        #level{} = Cell -> add(Cell, N);
        _ -> slow(Name, Labels, gauge, N, fun add/2)
    end.

%% @doc Sets a gauge: `set(Handle, N)', or `set(Name, N)' without labels. A gauge of whole numbers
%% refuses floats.
-spec set(handle() | atom(), number()) -> ok | {error, reason()}.
set(#gauge{ref = Ref, ix = Ix} = Cell, N) when is_integer(N) ->
    try atomics:put(Ref, Ix, N)
    catch error:badarg -> bad_value(Cell, N)
    end;
set(#level{} = Cell, N) when is_number(N) ->
    try whittle_counters_cell:set_level(Cell, N)
    catch error:_ -> bad_value(Cell, N)
    end;
set(Name, N) when is_atom(Name) -> set(Name, [], N);
set(Cell, N) when is_record(Cell, gauge); is_record(Cell, level) -> bad_value(Cell, N);
set(Other, _) -> unfit(Other, gauge).

%% @doc Sets a gauge by name.
-spec set(atom(), labels(), number()) -> ok | {error, reason()}.
set(Name, Labels, N) ->
    case find(Name, Labels) of
        #gauge{} = Cell -> set(Cell, N);
        #level{} = Cell -> set(Cell, N);
        _ -> slow(Name, Labels, gauge, N, fun set/2)
    end.

%% @doc Counts a value into a histogram. The value is a whole number from 0 to 2^59 - 1, in
%% observed units (see the option `resolution').
-spec observe(handle() | atom(), non_neg_integer()) -> ok | {error, reason()}.
observe(#histogram{schema = Schema, ref = Ref, ix = Ix, segments = Segments} = Cell, V)
  when is_integer(V), V > 0, V =< ?MAX_OBSERVED ->
    Index = whittle_counters_scale:index(Schema, V),
    %% 32 buckets in a segment: whittle_counters_scale:segments/1.
    case element((Index bsr 5) + 1, Segments) of
        0 -> widen(Cell, Index bsr 5, V);
        Segment ->
            counters:add(Ref, Ix, V),
            counters:add(Segment, (Index band 31) + 1, 1)
    end;
observe(#histogram{ref = Ref, ix = Ix}, 0) -> counters:add(Ref, Ix + 1, 1);
observe(Name, V) when is_atom(Name) -> observe(Name, [], V);
observe(#histogram{} = Cell, V) ->
    refuse(whittle_counters_cell:metric(Cell), {out_of_range, V});
observe(Other, _) -> unfit(Other, histogram).

%% @doc Counts a value into a histogram by name.
-spec observe(atom(), labels(), non_neg_integer()) -> ok | {error, reason()}.
observe(Name, Labels, V) ->
    case find(Name, Labels) of
        #histogram{} = Cell -> observe(Cell, V);
        _ -> slow(Name, Labels, histogram, V, fun observe/2)
    end.

%% @doc Counts the nanoseconds since Start, a result of `erlang:monotonic_time/0'.
-spec observe_since(handle() | atom(), integer()) -> ok | {error, reason()}.
observe_since(Histogram, Start) -> observe(Histogram, since(Start)).

%% @doc Counts the nanoseconds since Start by name.
-spec observe_since(atom(), labels(), integer()) -> ok | {error, reason()}.
observe_since(Name, Labels, Start) -> observe(Name, Labels, since(Start)).

%% @doc Observes a value and keeps Exemplar as the example of its bucket in OpenMetrics. Exemplar
%% has labels of your choice, such as `#{trace_id => <<"5b8a">>}', with at most 128 characters. If
%% the labels are invalid, the function does not observe the value. The function costs an insert
%% into a table.
-spec exemplar(atom(), labels(), non_neg_integer(), #{atom() => label()}) ->
          ok | {error, reason()}.
exemplar(Name, Labels, V, Exemplar) ->
    case whittle_counters_exemplar:text(Exemplar) of
        {ok, Text} ->
            case observe(Name, Labels, V) of
                ok ->
                    with_values(Name, Labels, fun(_, Values) ->
                        whittle_counters_exemplar:put(Name, Values, V, Text)
                    end);
                {error, _} = Error -> Error
            end;
        {error, Reason} -> refuse(Name, Reason)
    end.

since(Start) when is_integer(Start) ->
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond);
since(Start) ->
    %% The histogram refuses this term as any other invalid value.
    Start.

%%% reading

%% @equiv value(Name, [])
-spec value(atom()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
value(Name) -> value(Name, []).

%% @doc Gives the value of a series. It is a number, or for a histogram the exact count and sum
%% with the buckets that are not empty.
-spec value(atom(), labels()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
value(Name, Labels) ->
    with_values(Name, Labels, fun whittle_counters_table:read/2).

%% @doc Gives the value below which the part Q (0 to 1) of a histogram's observations lies. The
%% value is in observed units, with the precision of the option `error'. It is 0 if the histogram
%% is empty since a reset. A series without any observation is unknown.
-spec quantile(atom(), labels(), number()) -> {ok, number()} | {error, reason()}.
quantile(Name, Labels, Q) when is_number(Q), Q >= 0, Q =< 1 ->
    case {whittle_counters_table:metric(Name), value(Name, Labels)} of
        {{ok, #{schema := Schema}, _}, {ok, #{} = Distribution}} ->
            {ok, whittle_counters_scale:quantile(Schema, Distribution, Q)};
        {{ok, #{type := Type}, _}, {ok, _}} -> {error, {wrong_type, {Name, Type, histogram}}};
        {_, {error, _} = Error} -> Error
    end;
quantile(_, _, Q) -> {error, {bad_quantile, Q}}.

%% @doc Gives the growth of a series per second over the last Window seconds. Window is at most
%% the longest of the metric's `windows'. The real window is up to a fifth longer, because samples
%% come at intervals. Growth before a reset counts. A gauge may have fallen. For histograms the
%% result counts observations.
-spec rate(atom(), labels(), pos_integer()) -> {ok, float()} | {error, reason()}.
rate(Name, Labels, Window) ->
    with_values(Name, Labels,
                fun(_, Values) -> whittle_counters_rate:rate(Name, Values, Window) end).

%% @doc Gives all metrics as terms, by family and label values.
-spec snapshot() -> #{binary() => #{[binary()] => whittle_counters_table:value()}}.
snapshot() -> whittle_counters_scrape:snapshot().

%% @doc Describes the content and the cost of the registry.
-spec info() -> whittle_counters_table:info().
info() -> whittle_counters_table:info().

%% @doc Formats a reason of this application as one line.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) -> whittle_counters_error:format(Reason).

%%% the registry's tree

-compile({inline, [find/2]}).
find(Name, Labels) ->
    case persistent_term:get(?REGISTRY, #{}) of
        #{Name := Node} -> walk(Labels, Node);
        _ -> none
    end.

walk([], Cell) -> Cell;
walk([A, B], Node) ->
    case Node of #{A := #{B := Cell}} -> Cell; _ -> none end;
walk([A | Labels], Node) ->
    case Node of #{A := Next} -> walk(Labels, Next); _ -> none end;
walk(_, _) -> none.

%% The tree does not hold this series, either not yet or not at all. An update that the metric
%% would refuse makes no series.
slow(Name, Labels, Type, Value, Update) ->
    case whittle_counters_registry:resolve(Name, Labels, fun(M) -> takes(Type, M, Value) end) of
        {ok, Cell} -> Update(Cell, Value);
        {error, Reason} -> refuse(Name, Reason)
    end.

takes(Type, #{type := Other, name := Name}, _) when Type =/= Other ->
    {error, {wrong_type, {Name, Other, Type}}};
takes(counter, _, _) ->
    %% inc/3 has refused a term that is not a step.
    ok;
takes(gauge, #{value := Kind}, N) ->
    case whittle_counters_cell:fits(Kind, N) of
        true -> ok;
        false -> {error, {bad_value, N}}
    end;
takes(histogram, _, V) when is_integer(V), V >= 0, V =< ?MAX_OBSERVED -> ok;
takes(histogram, _, V) -> {error, {out_of_range, V}}.

%% Handles a bucket outside the segments of this cell. The series may have it by now. The library
%% accepts and ignores the observation of a deleted series.
widen(#histogram{key = {Name, _}} = Cell, Segment, V) ->
    case whittle_counters_registry:segment(Cell, Segment) of
        {ok, Wide} -> observe(Wide, V);
        {error, {unknown_series, _}} -> ok;
        {error, Reason} -> refuse(Name, Reason)
    end.

bad_value(Cell, N) -> refuse(whittle_counters_cell:metric(Cell), {bad_value, N}).

%% A term that is not a name is not a handle of the wanted type either.
unfit(Other, Wanted) when is_tuple(Other), tuple_size(Other) > 0 ->
    refuse(undefined, {bad_handle, {element(1, Other), Wanted}});
unfit(Other, Wanted) ->
    refuse(undefined, {bad_handle, {Other, Wanted}}).

refuse(Name, Reason) -> whittle_counters_table:reject(Name, Reason).
