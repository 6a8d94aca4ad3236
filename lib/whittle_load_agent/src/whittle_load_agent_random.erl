%% @doc Draws random numbers and times from a state of one word.
%%
%% Each simulated user keeps such a state, so it must be small. The generator is MWC59 of OTP's
%% `rand' (since OTP 25); it passes statistical tests, but is not for secrets. The same seed gives
%% the same numbers on every machine.
%% @hidden
-module(whittle_load_agent_random).

-export([seed/1, split/1, uniform/1, below/2, exponential/1, time/2, mean/1]).

-export_type([state/0, time/0]).

-opaque state() :: rand:mwc59_state().

%% Nanoseconds, or a distribution of nanoseconds. The log-normal one has its median and the standard
%% deviation of the logarithm; the Pareto one has its least value and its exponent.
-type time() :: {constant, non_neg_integer()}
              | {uniform, non_neg_integer(), non_neg_integer()}
              | {exponential, Mean :: pos_integer()}
              | {lognormal, Median :: pos_integer(), Sigma :: number()}
              | {pareto, Least :: pos_integer(), Exponent :: number()}.

%% The longest time that a user waits: 30 days. A Pareto distribution has no upper end, and timers
%% have one.
-define(LONGEST, 30 * 24 * 3600 * 1_000_000_000).

%% @doc Makes a state from any term. Equal terms give equal states.
-spec seed(term()) -> state().
seed(Term) ->
    rand:mwc59_seed(erlang:phash2(Term, 1 bsl 32) bxor (erlang:phash2({Term}, 1 bsl 26) bsl 32)).

%% @doc Makes a state for another user. Its numbers have nothing to do with those of the first.
-spec split(state()) -> {state(), state()}.
split(State) ->
    Next = rand:mwc59(State),
    {seed(rand:mwc59_value(Next)), Next}.

%% @doc Draws a number above 0 and not above 1.
-spec uniform(state()) -> {float(), state()}.
uniform(State) ->
    Next = rand:mwc59(State),
    {1.0 - rand:mwc59_float(Next), Next}.

%% @doc Draws a whole number from 0 to N - 1.
-spec below(pos_integer(), state()) -> {non_neg_integer(), state()}.
below(N, State) ->
    {U, Next} = uniform(State),
    {min(N - 1, floor((1.0 - U) * N)), Next}.

%% @doc Draws from the exponential distribution with mean 1.
-spec exponential(state()) -> {float(), state()}.
exponential(State) ->
    {U, Next} = uniform(State),
    {-math:log(U), Next}.

%% @doc Draws a time in nanoseconds.
-spec time(time(), state()) -> {non_neg_integer(), state()}.
time({constant, Time}, State) -> {Time, State};
time({uniform, Least, Most}, State) ->
    {U, Next} = uniform(State),
    {round(Least + (1.0 - U) * (Most - Least)), Next};
time({exponential, Mean}, State) ->
    {E, Next} = exponential(State),
    {bounded(Mean * E), Next};
time({lognormal, Median, Sigma}, State) ->
    {N, Next} = normal(State),
    {bounded(Median * math:exp(max(-50.0, min(50.0, Sigma * N)))), Next};
time({pareto, Least, Exponent}, State) ->
    {U, Next} = uniform(State),
    %% Logarithms, because the power of a small number by a small exponent overflows.
    {bounded(math:exp(min(50.0, math:log(Least) - math:log(U) / Exponent))), Next}.

%% By the method of Box and Muller (1958).
normal(State) ->
    {A, Next} = uniform(State),
    {B, Last} = uniform(Next),
    {math:sqrt(-2 * math:log(A)) * math:cos(2 * math:pi() * B), Last}.

bounded(Time) -> round(min(?LONGEST, Time)).

%% @doc Computes the mean in nanoseconds of a time, or `infinity' for a Pareto distribution with an
%% exponent of at most 1.
-spec mean(time()) -> number() | infinity.
mean({constant, Time}) -> Time;
mean({uniform, Least, Most}) -> (Least + Most) / 2;
mean({exponential, Mean}) -> Mean;
mean({lognormal, Median, Sigma}) -> Median * math:exp(min(600.0, Sigma * Sigma / 2));
mean({pareto, Least, Exponent}) when Exponent > 1 -> Least * Exponent / (Exponent - 1);
mean({pareto, _, _}) -> infinity.
