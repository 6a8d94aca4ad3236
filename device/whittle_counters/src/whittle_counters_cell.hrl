%% The four shapes of a cell. They are known to two modules: whittle_counters,
%% which updates them without a call in between, and whittle_counters_cell,
%% which makes and reads them.

%% A whole number that only grows. Ref is a counters array.
-record(counter, {ref :: counters:counters_ref(), ix :: pos_integer()}).

%% A whole number that is set and added to. Ref is an atomics array.
-record(gauge, {ref :: atomics:atomics_ref(), ix :: pos_integer()}).

%% A float that is set and added to; the word holds its IEEE 754 bits.
-record(level, {ref :: atomics:atomics_ref(), ix :: pos_integer()}).

%% Bucket counts by the rule of whittle_counters_scale. The word at ix is the
%% sum, the one behind it counts zeros; segments hold the buckets, and a
%% segment that was never needed is 0: the key finds the series that has it.
-record(histogram, {key :: {atom(), [binary()]},
                    schema :: whittle_counters_scale:schema(),
                    ref :: counters:counters_ref(), ix :: pos_integer(),
                    segments :: tuple()}).
