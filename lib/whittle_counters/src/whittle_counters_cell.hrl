%% The five shapes of a cell. They are known to two modules: whittle_counters,
%% which updates them without a call in between, and whittle_counters_cell,
%% which makes and reads them.

%%
%% The index stands before the reference: with the fields the other way round the
%% JIT loads both in one move that it takes apart again at once, and an update
%% takes 5 to 10 ns more (bench/counters). The metric's name is there for a refused
%% update through a handle to be counted as that metric's.

%% A whole number that only grows: a word of an atomics array, or one of a
%% counters array, which has it once for each scheduler.
-record(counter, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).
-record(striped, {ix :: pos_integer(), ref :: counters:counters_ref(), name :: atom()}).

%% A whole number that is set and added to.
-record(gauge, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).

%% A float that is set and added to; the word holds its IEEE 754 bits.
-record(level, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).

%% Bucket counts by the rule of whittle_counters_scale. The word at ix is the
%% sum, the one behind it counts zeros; segments hold the buckets, and a
%% segment that was never needed is 0: the key finds the series that has it.
-record(histogram, {key :: {atom(), [binary()]},
                    schema :: whittle_counters_scale:schema(),
                    ref :: counters:counters_ref(), ix :: pos_integer(),
                    segments :: tuple()}).
