%% A row of the series table. The exporters read it beside the registry, which
%% alone writes it.
-record(series, {
    key :: {atom(), [binary()]},            % metric and label values' texts
    text :: binary(),                       % a="x",b="y"
    %% The value is the sum over the parts of what the cell holds less the base.
    %% A reset moves the bases, a promotion adds a part: neither writes a word
    %% that somebody may be adding to.
    parts :: [{whittle_counters_cell:cell(), whittle_counters_table:base()}],
    stripe :: whittle_counters_cell:stripe(), % of the newest part
    aliases = [] :: [list()],               % label lists that lead here
    handled = false :: boolean(),           % somebody may hold a handle
    seen :: integer(),                      % second of the last change noticed
    last = 0 :: number(),                   % raw value, or count, then
    expired = false :: false | integer()    % second of its expiry
}).
