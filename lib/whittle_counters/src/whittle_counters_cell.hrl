%% The five shapes of a cell. Two modules know them: whittle_counters updates them without a call
%% in between, and whittle_counters_cell makes and reads them.
%%
%% The index stands before the reference. In the other order, the JIT loads both fields in one
%% move and then separates them, and an update takes 5 to 10 ns more (bench/counters). A refused
%% update through a handle counts for the metric, so a cell has the metric's name.

%%
%% The index stands before the reference: with the fields the other way round the
%% JIT loads both in one move that it takes apart again at once, and an update
%% takes 5 to 10 ns more (bench/counters). The metric's name is there for a refused
%% update through a handle to be counted as that metric's.

%% A whole number that only grows. It is a word of an atomics array, or one word for each
%% scheduler in a counters array.
-record(counter, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).
-record(striped, {ix :: pos_integer(), ref :: counters:counters_ref(), name :: atom()}).

%% A whole number that processes set and add to.
-record(gauge, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).

%% A float that processes set and add to. The word holds its IEEE 754 bits.
-record(level, {ix :: pos_integer(), ref :: atomics:atomics_ref(), name :: atom()}).

%% Bucket counts by the rule of whittle_counters_scale. The word at ix is the sum, and the next
%% word counts zeros. Segments hold the buckets. An unused segment is 0, and the key finds the
%% series that has it.
-record(histogram, {key :: {atom(), [binary()]},
                    schema :: whittle_counters_scale:schema(),
                    ref :: counters:counters_ref(), ix :: pos_integer(),
                    segments :: tuple()}).
