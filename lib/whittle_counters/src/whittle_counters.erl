%% @doc Defines, updates and reads counters, gauges and histograms, at the cost of a bare counter.
%%
%% Define a metric once, update it from anywhere, read it or let it be scraped:
%% ```
%% ok = whittle_counters:new(requests_total, counter,
%%                           #{help => "Requests", labels => [method, code]}),
%% ok = whittle_counters:inc(requests_total, [get, 200]),
%% {ok, H} = whittle_counters:handle(requests_total, [get, 200]),
%% ok = whittle_counters:inc(H)
%% '''
%% A handle is resolved once and costs what `counters:add/3' costs; a name with
%% labels is looked up at the call.
%%
%% An update never raises an exception. One that cannot be counted (an unknown metric,
%% labels that do not fit, a negative step, a value out of range) answers
%% `{error, Reason}'. `whittle_counters_rejected_total' counts it, and the first of its
%% kind is logged.
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
%% Values in the order in which the metric names its labels. A map is looked up
%% slower.

-type options() :: #{
        help => unicode:chardata(),
        %% The unit, which must end the name: `seconds', `bytes'.
        unit => unicode:chardata(),
        %% Label names; none by default.
        labels => [atom()],
        %% Gauges: whole numbers (default) or floats.
        value => integer | float,
        %% Gauges and counters: read at the scrape by this fun instead of being set. It gives
        %% a number, or a list of `{LabelValues, Number}'.
        read => fun(() -> number() | [{[label()], number()}]),
        %% Histograms: the largest relative error of a value told from its
        %% bucket, 0.011 to 0.42; 0.05 (0.044 in fact) by default.
        error => float(),
        %% Histograms: how many observed units make one exported unit. With unit
        %% seconds and resolution 1000000000, nanoseconds are observed. 1 by default.
        resolution => pos_integer(),
        %% Histograms: the observed values that are expected. A handle gets its
        %% buckets for them at once; others are added when they occur.
        range => {non_neg_integer(), pos_integer()},
        %% One word for each scheduler: `auto' (default: for all counters on 2 to 8
        %% schedulers, for handles, and for series that turn out hot), `always' or `never'.
        stripe => auto | always | never,
        %% Series at most; 1000 by default. Further label sets are counted together
        %% under the labels `_overflow'.
        max_series => pos_integer(),
        %% Seconds without a change after which a series is dropped; never by
        %% default. Series with a handle stay.
        expire_after => pos_integer() | infinity,
        %% Seconds over which rate/3 can tell; none by default.
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

%% whittle_counters_scale:max_value(), and the VM's largest small integer: a
%% comparison with 2^59 would be one with a bignum.
-define(MAX_OBSERVED, 16#7FFFFFFFFFFFFFF).

%% The steps by which a counter may grow: no bignum either.
-define(IS_STEP(N), is_integer(N), N >= 0, N =< 16#7FFFFFFFFFFFFFF).

%%% definitions

%% @doc Defines a metric without options.
-spec new(atom(), type() | timer) -> ok | {error, reason()}.
new(Name, Type) -> new(Name, Type, #{}).

%% @doc Defines a metric. Defining it again in the same way is fine; in another
%% way it is `{error, {already_defined, ...}}' and nothing changes. A `timer' is
%% a histogram of nanoseconds that is exported in seconds.
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

%% @doc Forgets a metric with all its series.
-spec delete(atom()) -> ok | {error, reason()}.
delete(Name) -> whittle_counters_registry:undefine(Name).

%% @doc Deletes one series. An update through a handle of it is accepted and
%% forgotten; an update by name starts a new series at zero.
-spec delete(atom(), labels()) -> ok | {error, reason()}.
delete(Name, Labels) ->
    with_values(Name, Labels, fun whittle_counters_registry:delete/2).

%% @equiv reset(Name, [])
-spec reset(atom()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
reset(Name) -> reset(Name, []).

%% @doc Sets a series to zero and gives its value until then. Every update is in this
%% value or in one that is read later; none is lost and none counted twice.
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

%% @doc Resolves a series once. The handle is a small term that may be sent and
%% stored; its series never expires. Counters become striped where there is
%% more than one scheduler, histograms get the buckets of their range.
-spec handle(atom(), labels()) -> {ok, handle()} | {error, reason()}.
handle(Name, Labels) -> whittle_counters_registry:handle(Name, Labels).

%%% updates
%%% The clauses for cells come first and make no call but the last one.

%% @doc Adds one to a counter: a handle, or the name of one without labels.
-spec inc(handle() | atom()) -> ok | {error, reason()}.
inc(#striped{ref = Ref, ix = Ix}) -> counters:add(Ref, Ix, 1);
inc(#counter{ref = Ref, ix = Ix}) -> atomics:add(Ref, Ix, 1);
inc(#gauge{ref = Ref, ix = Ix}) -> atomics:add(Ref, Ix, 1);
inc(Name) when is_atom(Name) -> inc(Name, [], 1);
inc(Other) -> inc(Other, 1).

%% @doc Adds to a counter: `inc(Handle, Step)', or `inc(Name, Labels)' by one.
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

%% @doc Adds a whole number, zero or more (less than 2^59), to a counter by name.
-spec inc(atom(), labels(), non_neg_integer()) -> ok | {error, reason()}.
inc(Name, [A, B], N) when ?IS_STEP(N) -> inc_two(Name, A, B, N);
inc(Name, Labels, N) when ?IS_STEP(N) ->
    case find(Name, Labels) of
        #counter{ref = Ref, ix = Ix} -> atomics:add(Ref, Ix, N);
        #striped{ref = Ref, ix = Ix} -> counters:add(Ref, Ix, N);
        _ -> slow(Name, Labels, counter, N, fun inc/2)
    end;
inc(Name, _, N) -> refuse(Name, {bad_step, N}).

%% Two labels, which most have: one pattern all the way to the fields of the cell. By way of
%% find/2 it takes 7 ns more by the JIT of OTP 29 (57 and 64), 4 by that of OTP 25.
-compile({inline, [inc_two/4]}).
inc_two(Name, A, B, N) ->
    case persistent_term:get(?REGISTRY, #{}) of
        #{Name := #{A := #{B := #striped{ref = Ref, ix = Ix}}}} -> counters:add(Ref, Ix, N);
        #{Name := #{A := #{B := #counter{ref = Ref, ix = Ix}}}} -> atomics:add(Ref, Ix, N);
        _ -> slow(Name, [A, B], counter, N, fun inc/2)
    end.

%% @doc Adds to a gauge, up or down: `add(Handle, N)', or `add(Name, N)'
%% without labels. A gauge of whole numbers has 64 bits: beyond 2^63-1 it goes on
%% from -2^63.
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

%% @doc Sets a gauge: `set(Handle, N)', or `set(Name, N)' without labels. A
%% gauge of whole numbers takes no float.
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

%% @doc Counts a value into a histogram: a whole number from 0 to 2^59 - 1, in
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

%% @doc Counts the nanoseconds since Start, which `erlang:monotonic_time/0'
%% gave.
-spec observe_since(handle() | atom(), integer()) -> ok | {error, reason()}.
observe_since(Histogram, Start) -> observe(Histogram, since(Start)).

%% @doc Counts the nanoseconds since Start by name.
-spec observe_since(atom(), labels(), integer()) -> ok | {error, reason()}.
observe_since(Name, Labels, Start) -> observe(Name, Labels, since(Start)).

%% @doc Observes a value and keeps Exemplar, labels of your choice such as
%% `#{trace_id => <<"5b8a">>}', as the example of its bucket in OpenMetrics.
%% At most 128 characters of them; with others nothing is observed either. Costs
%% an insert into a table.
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
    %% Refused like any other value that is none.
    Start.

%%% reading

%% @equiv value(Name, [])
-spec value(atom()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
value(Name) -> value(Name, []).

%% @doc Gives the value of a series: a number, or for a histogram the exact count
%% and sum with the buckets that are not empty.
-spec value(atom(), labels()) -> {ok, whittle_counters_table:value()} | {error, reason()}.
value(Name, Labels) ->
    with_values(Name, Labels, fun whittle_counters_table:read/2).

%% @doc Gives the value below which the part Q (0 to 1) of a histogram's observations
%% lies, in observed units, as exactly as its `error' says; 0 if it is empty since a reset.
%% A series that nothing was observed into yet is unknown.
-spec quantile(atom(), labels(), number()) -> {ok, number()} | {error, reason()}.
quantile(Name, Labels, Q) when is_number(Q), Q >= 0, Q =< 1 ->
    case {whittle_counters_table:metric(Name), value(Name, Labels)} of
        {{ok, #{schema := Schema}, _}, {ok, #{} = Distribution}} ->
            {ok, whittle_counters_scale:quantile(Schema, Distribution, Q)};
        {{ok, #{type := Type}, _}, {ok, _}} -> {error, {wrong_type, {Name, Type, histogram}}};
        {_, {error, _} = Error} -> Error
    end;
quantile(_, _, Q) -> {error, {bad_quantile, Q}}.

%% @doc Gives the growth of a series in a second over the last Window seconds, which
%% is one of the metric's `windows' or less, or over up to a fifth more than that, as it was
%% looked. What a reset took away counts. A gauge may have fallen. Histograms: observations.
-spec rate(atom(), labels(), pos_integer()) -> {ok, float()} | {error, reason()}.
rate(Name, Labels, Window) ->
    with_values(Name, Labels,
                fun(_, Values) -> whittle_counters_rate:rate(Name, Values, Window) end).

%% @doc Gives everything as terms, by family and label values.
-spec snapshot() -> #{binary() => #{[binary()] => whittle_counters_table:value()}}.
snapshot() -> whittle_counters_scrape:snapshot().

%% @doc Describes what the registry holds and costs.
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

%% The tree does not hold it: perhaps not yet, perhaps it cannot be. What would be
%% refused makes no series.
slow(Name, Labels, Type, Value, Update) ->
    case whittle_counters_registry:resolve(Name, Labels, fun(M) -> takes(Type, M, Value) end) of
        {ok, Cell} -> Update(Cell, Value);
        {error, Reason} -> refuse(Name, Reason)
    end.

takes(Type, #{type := Other, name := Name}, _) when Type =/= Other ->
    {error, {wrong_type, {Name, Other, Type}}};
takes(counter, _, _) ->
    %% inc/3 has refused a term that is no step.
    ok;
takes(gauge, #{value := Kind}, N) ->
    case whittle_counters_cell:fits(Kind, N) of
        true -> ok;
        false -> {error, {bad_value, N}}
    end;
takes(histogram, _, V) when is_integer(V), V >= 0, V =< ?MAX_OBSERVED -> ok;
takes(histogram, _, V) -> {error, {out_of_range, V}}.

%% A bucket outside of the segments that the cell knows. The series may have it
%% by now; a deleted series' observation is accepted and forgotten.
widen(#histogram{key = {Name, _}} = Cell, Segment, V) ->
    case whittle_counters_registry:segment(Cell, Segment) of
        {ok, Wide} -> observe(Wide, V);
        {error, {unknown_series, _}} -> ok;
        {error, Reason} -> refuse(Name, Reason)
    end.

bad_value(Cell, N) -> refuse(whittle_counters_cell:metric(Cell), {bad_value, N}).

%% A term that is no name is no handle of the wanted type either.
unfit(Other, Wanted) when is_tuple(Other), tuple_size(Other) > 0 ->
    refuse(undefined, {bad_handle, {element(1, Other), Wanted}});
unfit(Other, Wanted) ->
    refuse(undefined, {bad_handle, {Other, Wanted}}).

refuse(Name, Reason) -> whittle_counters_table:reject(Name, Reason).
