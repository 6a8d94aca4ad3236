%% A row of the series table. Only the registry writes it. The exporters read it at the same time.

-define(METRICS, whittle_counters_metrics).
-define(SERIES, whittle_counters_series).

%% The placeholders for a field in a pattern of ets.
-type any_() :: '_' | '$1' | '$2' | '$3'.

-record(series, {
    key :: {atom(), [binary()] | any_()},   % metric and label values' texts
    text :: binary() | any_(),              % a="x",b="y"
    %% The value is the sum over the parts of the cell's content minus the base. A reset moves the
    %% bases, and a promotion adds a part. Neither writes a word that another process may be
    %% adding to.
    parts :: [{whittle_counters_cell:cell(), whittle_counters_table:base()}] | any_(),
    stripe :: whittle_counters_cell:stripe() | any_(), % of the newest part
    aliases = [] :: [list()] | any_(),      % label lists of this series
    handled = false :: boolean() | any_(),  % a process may hold a handle
    seen :: integer() | any_(),             % second of the last known change
    last = 0 :: number() | any_(),          % raw value or count at that time
    expired = false :: false | integer() | any_() % second of its expiry
}).
