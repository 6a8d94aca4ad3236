%% @doc Computes medians, bootstrap intervals, t tests and corrected p-values.
%%
%% All functions are pure. A function that draws random numbers takes a seed, so that the same
%% samples always give the same interval. `whittle_measure_statistics_SUITE' compares the results
%% with SciPy's on generated data.
-module(whittle_measure_statistics).

-export([median/1, quantile/2, mean/1, deviation/1, geometric_mean/1]).
-export([interval/3, median_interval/1, confidence/1, ratio_of_logs/2]).
-export([t_test/1, welch_test/2, t_quantile/2, detectable/2, detectable_difference/3, holm/1]).
-export([slope/1]).

-export_type([interval/0, test/0, slope/0]).

%% The ends of an interval with a confidence of 95 %, or with less for a few values: confidence/1.
-type interval() :: {float(), float()}.

%% A t test of the hypothesis that the mean is 0.
-type test() :: #{mean := float(),
                  error := float(),             % the standard error of the mean
                  p := float()}.                % two-sided

%% The line Y = at_zero + slope * X that fits points best.
-type slope() :: #{slope := float(), at_zero := float(),
                   error := float(),            % the standard error of the slope
                   interval := interval()}.     % of the slope

-define(CONFIDENCE, 0.95).
%% With 2,000 resamples, the ends of an interval move by less than 2 % of its width from one seed
%% to the next.
-define(RESAMPLES, 2000).

%% @doc Returns the median.
-spec median([number(), ...]) -> float().
median(Values) -> quantile(0.5, Values).

%% @doc Returns a quantile, interpolated between the two nearest values (type 7 of Hyndman and Fan,
%% "Sample Quantiles in Statistical Packages", 1996; the default of R and NumPy).
-spec quantile(float(), [number(), ...]) -> float().
quantile(Part, Values) when Part >= 0, Part =< 1 ->
    of_sorted(Part, list_to_tuple(lists:sort(Values))).

of_sorted(Part, Sorted) ->
    Position = Part * (tuple_size(Sorted) - 1),
    Below = trunc(Position),
    Low = element(Below + 1, Sorted),
    High = element(min(Below + 2, tuple_size(Sorted)), Sorted),
    Low + (Position - Below) * (High - Low).

%% @doc Returns the arithmetic mean.
-spec mean([number(), ...]) -> float().
mean(Values) -> lists:sum(Values) / length(Values).

%% @doc Returns the standard deviation of a sample: the divisor is the number of values less one.
%% One value has the deviation 0.
-spec deviation([number(), ...]) -> float().
deviation([_]) -> 0.0;
deviation(Values) ->
    Mean = mean(Values),
    math:sqrt(lists:sum([(Value - Mean) * (Value - Mean) || Value <- Values])
              / (length(Values) - 1)).

%% @doc Returns the geometric mean of positive values.
-spec geometric_mean([number(), ...]) -> float().
geometric_mean(Values) -> math:exp(mean([math:log(Value) || Value <- Values])).

%% @doc Returns the bootstrap interval of a statistic: the 2.5 % and the 97.5 % quantile of the
%% statistic over resamples of the values (the percentile interval in Efron and Tibshirani, "An
%% Introduction to the Bootstrap", 1993, chapter 13). One value gives an interval without width.
-spec interval(fun(([number(), ...]) -> float()), [number(), ...], integer()) -> interval().
interval(Statistic, [Value], _) ->
    {Statistic([Value]), Statistic([Value])};
interval(Statistic, Values, Seed) ->
    Tuple = list_to_tuple(Values),
    {Resampled, _} = lists:mapfoldl(fun(_, State) -> resample(Statistic, Tuple, State) end,
                                    rand:seed_s(exsss, Seed), lists:seq(1, ?RESAMPLES)),
    ends(Resampled).

%% @doc Returns the interval of the median. It is the bootstrap interval, and at least as wide as
%% that of the sign test (Conover, "Practical Nonparametric Statistics", 1999, chapter 3.2): the
%% interval between two of the sorted values that contains the median of any continuous distribution
%% with 95 %. The bootstrap interval alone contains it with 88 % for seven values. No two of fewer
%% than six values have 95 %: their interval is their range, with {@link confidence/1}.
-spec median_interval([number(), ...]) -> interval().
median_interval(Values) ->
    {Low, High} = interval(fun median/1, Values, 1),
    Count = length(Values),
    Rank = max(1, rank(Count)),
    Sorted = lists:sort(Values),
    {min(Low, float(lists:nth(Rank, Sorted))),
     max(High, float(lists:nth(Count + 1 - Rank, Sorted)))}.

%% @doc Returns the confidence of the interval of a median of some values: 0.95, or less below six
%% values. The range misses the median if all values are on one side of it.
-spec confidence(pos_integer()) -> float().
confidence(Count) -> min(?CONFIDENCE, 1 - math:pow(2, 1 - Count)).

%% The largest rank R for which the values with the ranks R and Count + 1 - R are far enough apart.
%% It is 0 if there is none. The number of values below the median has a binomial distribution. No
%% float is as small as the first part of it for more than 1,074 values, and for so many values the
%% normal distribution is the same.
rank(Count) when Count > 1000 -> trunc((Count - 1.96 * math:sqrt(Count)) / 2);
rank(Count) -> rank(0, Count, math:pow(2, -Count), (1 - ?CONFIDENCE) / 2).

rank(Below, _, Part, Tail) when Part > Tail -> Below;
rank(Below, Count, Part, Tail) ->
    rank(Below + 1, Count, Part * (Count - Below) / (Below + 1), Tail - Part).

ends(Resampled) ->
    Sorted = list_to_tuple(lists:sort(Resampled)),
    {of_sorted((1 - ?CONFIDENCE) / 2, Sorted), of_sorted((1 + ?CONFIDENCE) / 2, Sorted)}.

resample(Statistic, Values, State0) ->
    Size = tuple_size(Values),
    {Drawn, State} = lists:mapfoldl(fun(_, S0) ->
                                            {Index, S} = rand:uniform_s(Size, S0),
                                            {element(Index, Values), S}
                                    end, State0, lists:seq(1, Size)),
    {Statistic(Drawn), State}.

%% @doc Tests whether the mean of the values differs from 0 (Student's t test for one sample, two
%% values at least). Values that are all the same have no spread, so p is 1 or 0.
-spec t_test([number(), ...]) -> test().
t_test([_, _ | _] = Values) ->
    Mean = mean(Values),
    Error = deviation(Values) / math:sqrt(length(Values)),
    #{mean => Mean, error => Error, p => p(Mean, Error, length(Values) - 1)}.

p(Mean, Error, _) when Error == 0 -> case Mean == 0 of true -> 1.0; false -> 0.0 end;
p(Mean, Error, Freedom) -> two_sided(abs(Mean / Error), Freedom).

%% @doc Tests whether the means of two independent samples differ (Welch, "The Generalization of
%% Student's Problem", 1947). Each sample has two values at least. `mean' is the second mean less
%% the first.
-spec welch_test([number(), ...], [number(), ...]) -> test().
welch_test([_, _ | _] = One, [_, _ | _] = Other) ->
    Mean = mean(Other) - mean(One),
    {Error, Freedom} = welch(One, Other),
    #{mean => Mean, error => Error, p => p(Mean, Error, Freedom)}.

%% The standard error of the difference, and the degrees of freedom. Values without spread have no
%% error.
welch(One, Other) ->
    [A, B] = [math:pow(deviation(Values), 2) / length(Values) || Values <- [One, Other]],
    case A + B == 0 of
        true -> {0.0, 1};
        false ->
            {math:sqrt(A + B), math:pow(A + B, 2)
                 / (A * A / (length(One) - 1) + B * B / (length(Other) - 1))}
    end.

%% @doc Returns the ratio between the medians of two independent samples, the second divided by the
%% first, with its bootstrap interval. The samples are given as logarithms.
-spec ratio_of_logs([number(), ...], [number(), ...]) ->
          {Ratio :: float(), {Low :: float(), High :: float()}}.
ratio_of_logs(One, Other) ->
    {Low, High} = interval_of_difference(One, Other, 1),
    {math:exp(median(Other) - median(One)), {math:exp(Low), math:exp(High)}}.

%% Returns the bootstrap interval of the difference between the medians of two independent samples:
%% the second less the first.
interval_of_difference(One, Other, Seed) ->
    Tuples = [list_to_tuple(One), list_to_tuple(Other)],
    {Resampled, _} = lists:mapfoldl(
                       fun(_, State0) ->
                               {[A, B], State} = lists:mapfoldl(
                                                   fun(Values, S) ->
                                                           resample(fun median/1, Values, S)
                                                   end, State0, Tuples),
                               {B - A, State}
                       end, rand:seed_s(exsss, Seed), lists:seq(1, ?RESAMPLES)),
    ends(Resampled).

%% @doc Fits a line to points by least squares. The interval of the slope supposes that the points
%% differ from the line independently of each other. Three points at least, with two different X.
-spec slope([{X :: number(), Y :: number()}, ...]) -> slope().
slope([_, _, _ | _] = Points) ->
    {Xs, Ys} = lists:unzip(Points),
    MeanX = mean(Xs),
    MeanY = mean(Ys),
    Square = lists:sum([(X - MeanX) * (X - MeanX) || X <- Xs]),
    Slope = lists:sum([(X - MeanX) * (Y - MeanY) || {X, Y} <- Points]) / Square,
    Freedom = length(Points) - 2,
    AtZero = MeanY - Slope * MeanX,
    Rest = lists:sum([math:pow(Y - AtZero - Slope * X, 2) || {X, Y} <- Points]),
    Error = math:sqrt(Rest / Freedom / Square),
    Half = t_quantile((1 - ?CONFIDENCE) / 2, Freedom) * Error,
    #{slope => Slope, at_zero => AtZero, error => Error, interval => {Slope - Half, Slope + Half}}.

%% @doc Returns the value that Student's t with some degrees of freedom exceeds with the given
%% probability.
-spec t_quantile(float(), number()) -> float().
t_quantile(Above, Freedom) when Above > 0, Above =< 0.5 ->
    Beyond = fun Beyond(High) ->
                     case two_sided(High, Freedom) / 2 > Above of
                         true -> Beyond(2 * High);
                         false -> High
                     end
             end,
    bisect(fun(T) -> two_sided(T, Freedom) / 2 - Above end, 0.0, Beyond(1.0), 100).

bisect(_, Low, High, 0) -> (Low + High) / 2;
bisect(Fun, Low, High, Steps) ->
    Middle = (Low + High) / 2,
    case Fun(Middle) > 0 of
        true -> bisect(Fun, Middle, High, Steps - 1);
        false -> bisect(Fun, Low, Middle, Steps - 1)
    end.

%% @doc Returns the smallest difference that a t test of these values detects in four of five runs,
%% at the given level of significance. The formula is the usual approximation (Cohen, "Statistical
%% Power Analysis", 1988): the standard error, multiplied with the sum of the quantiles of t for the
%% level and for the power.
-spec detectable([number(), ...], float()) -> float().
detectable([_, _ | _] = Values, Level) ->
    Freedom = length(Values) - 1,
    (t_quantile(Level / 2, Freedom) + t_quantile(0.2, Freedom))
        * deviation(Values) / math:sqrt(length(Values)).

%% @doc Returns the difference between the means of two independent samples that Welch's test
%% detects in four of five runs like these, as {@link detectable/2} does for one sample.
-spec detectable_difference([number(), ...], [number(), ...], float()) -> float().
detectable_difference([_, _ | _] = One, [_, _ | _] = Other, Level) ->
    {Error, Freedom} = welch(One, Other),
    (t_quantile(Level / 2, Freedom) + t_quantile(0.2, Freedom)) * Error.

%% @doc Corrects the p-values of several tests with the method of Holm ("A Simple Sequentially
%% Rejective Multiple Test Procedure", 1979). The result has the order of the argument.
-spec holm([float()]) -> [float()].
holm(Ps) ->
    Count = length(Ps),
    Numbered = lists:sort(lists:zip(Ps, lists:seq(1, Count))),
    {Corrected, _} = lists:mapfoldl(fun({Rank, {P, Index}}, Least) ->
                                            Next = max(Least, min(1.0, P * (Count - Rank + 1))),
                                            {{Index, Next}, Next}
                                    end, 0.0, lists:zip(lists:seq(1, Count), Numbered)),
    [P || {_, P} <- lists:sort(Corrected)].

%% Internal functions: Student's t

%% The probability that |t| is at least T: the regularized incomplete beta function at
%% Freedom / (Freedom + T^2), with the parameters Freedom / 2 and 1/2 (Abramowitz and Stegun,
%% "Handbook of Mathematical Functions", 26.7.1 and 26.5).
two_sided(T, Freedom) ->
    beta(Freedom / (Freedom + T * T), Freedom / 2, 0.5).

beta(X, _, _) when X =< 0 -> 0.0;
beta(X, _, _) when X >= 1 -> 1.0;
beta(X, A, B) when X > (A + 1) / (A + B + 2) -> 1 - beta(1 - X, B, A);
beta(X, A, B) ->
    Front = math:exp(A * math:log(X) + B * math:log(1 - X)
                     + gamma_log(A + B) - gamma_log(A) - gamma_log(B)) / A,
    Front / fraction(X, A, B).

%% The continued fraction 26.5.8 of Abramowitz and Stegun, from its inner end outward. It converges
%% fast below (A + 1) / (A + B + 2): 200 terms give full precision for up to some thousand degrees
%% of freedom.
fraction(X, A, B) ->
    lists:foldl(fun(N, Inner) -> 1 + term(N, X, A, B) / Inner end, 1.0, lists:seq(200, 1, -1)).

term(N, X, A, B) when N rem 2 =:= 0 ->
    M = N div 2,
    M * (B - M) * X / ((A + N - 1) * (A + N));
term(N, X, A, B) ->
    M = N div 2,
    -(A + M) * (A + B + M) * X / ((A + N - 1) * (A + N)).

%% The logarithm of the gamma function: Stirling's series (6.1.41) for arguments above 10, and the
%% recurrence (6.1.15) below.
gamma_log(X) when X < 10 -> gamma_log(X + 1) - math:log(X);
gamma_log(X) ->
    (X - 0.5) * math:log(X) - X + 0.5 * math:log(2 * math:pi())
        + 1 / (12 * X) - 1 / (360 * math:pow(X, 3)) + 1 / (1260 * math:pow(X, 5))
        - 1 / (1680 * math:pow(X, 7)) + 1 / (1188 * math:pow(X, 9)).
