%% A row of the series table. The exporters read it beside the registry, which
%% alone writes it.

-define(METRICS, whittle_counters_metrics).
-define(SERIES, whittle_counters_series).

%% The placeholders for a field in a pattern of ets.
-type any_() :: '_' | '$1' | '$2' | '$3'.

-record(series, {
    key :: {atom(), [binary()] | any_()},   % metric and label values' texts
    text :: binary() | any_(),              % a="x",b="y"
    %% The value is the sum over the parts of what the cell holds less the base.
    %% A reset moves the bases, a promotion adds a part: neither writes a word
    %% that somebody may be adding to.
    parts :: [{whittle_counters_cell:cell(), whittle_counters_table:base()}] | any_(),
    stripe :: whittle_counters_cell:stripe() | any_(), % of the newest part
    aliases = [] :: [list()] | any_(),      % label lists that lead here
    handled = false :: boolean() | any_(),  % somebody may hold a handle
    seen :: integer() | any_(),             % second of the last change noticed
    last = 0 :: number() | any_(),          % raw value, or count, then
    expired = false :: false | integer() | any_() % second of its expiry
}).
