%% @doc Reads and writes amounts with units: times, shares and sizes. This module is pure.
%% @hidden
-module(whittle_load_unit).

-export([time/1, format_time/1, format_count/1]).

-define(UNITS, [{"ns", 1}, {"us", 1_000}, {"ms", 1_000_000}, {"s", 1_000_000_000},
                {"min", 60_000_000_000}, {"h", 3_600_000_000_000}]).
%% A longer time is a mistake: 30 days.
-define(LONGEST, 30 * 24 * 3_600_000_000_000).

%% @doc Reads a time such as `50 ms', `2min' or `0.5 s', and returns nanoseconds.
-spec time(string()) -> {ok, non_neg_integer()} | error.
time(Text) ->
    case re:run(Text, "^ *([0-9]+(?:\\.[0-9]+)?) *(ns|us|ms|s|min|h) *$",
                [unicode, {capture, all_but_first, list}]) of
        {match, [Number, Unit]} when length(Number) < 20 ->
            {_, Ns} = lists:keyfind(Unit, 1, ?UNITS),
            case round(number(Number) * Ns) of
                Time when Time =< ?LONGEST -> {ok, Time};
                _ -> error
            end;
        _ -> error
    end.

number(Text) ->
    case lists:member($., Text) of
        true -> list_to_float(Text);
        false -> list_to_integer(Text)
    end.

%% @doc Writes nanoseconds with three digits and a unit.
-spec format_time(number()) -> string().
format_time(Ns) when Ns < 1_000 -> io_lib:format("~b ns", [round(Ns)]);
format_time(Ns) when Ns < 999_500 -> digits(Ns / 1_000, "us");
format_time(Ns) when Ns < 999_500_000 -> digits(Ns / 1_000_000, "ms");
format_time(Ns) when Ns < 99_500_000_000 -> digits(Ns / 1_000_000_000, "s");
format_time(Ns) ->
    Seconds = round(Ns / 1_000_000_000),
    lists:flatten(io_lib:format("~b:~2..0b min", [Seconds div 60, Seconds rem 60])).

digits(Number, Unit) ->
    Decimals = if Number < 9.995 -> 2; Number < 99.95 -> 1; true -> 0 end,
    lists:flatten([float_to_list(float(Number), [{decimals, Decimals}]), $\s, Unit]).

%% @doc Writes a whole number with a comma before each three digits.
-spec format_count(integer()) -> string().
format_count(N) when N < 0 -> [$- | format_count(-N)];
format_count(N) when N < 1000 -> integer_to_list(N);
format_count(N) ->
    lists:flatten(io_lib:format("~s,~3..0b", [format_count(N div 1000), N rem 1000])).
