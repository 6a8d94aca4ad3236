%% @doc Computes the numbers of one run of the studies `connections' and `sockets': what a load test
%% has seen, and what the server's process and control group needed meanwhile.
%%
%% `priv/connections/drive' starts the load test, takes the readings, and prints these numbers. This
%% module is pure.
%%
%% Terms. Users arrive in the first seconds of the load test. The window is the part of the load
%% test that counts, usually when all users have arrived and stay. A reading is what the server has
%% used up to one moment.
%% @hidden
-module(whittle_measure_connections).

-export([plan/1, scenario/2, through/2, seconds/1, group/1, cpu/1, rss/1]).
-export([numbers/4, held/2, text/1]).

-export_type([plan/0, second/0, reading/0, name/0]).

-type plan() :: #{users := pos_integer(),
                  rate := pos_integer(),         % users that arrive in a second
                  arrivals := pos_integer(),     % seconds in which users arrive
                  from := non_neg_integer(),     % the second in which the window begins
                  window := pos_integer(),       % seconds
                  delivery := binary(),          % the step whose time is that of a message
                  within := pos_integer()}.      % milliseconds: a message that takes longer is late

%% A line of a load test's samples.jsonl (docs/load.md), as far as the numbers need it.
-type second() :: #{second := non_neg_integer(),
                    connected := non_neg_integer(),
                    held := integer(),           % users that were gained or lost in this second
                    latencies := #{binary() => [{non_neg_integer(), pos_integer()}]}}.

-type reading() :: #{second := non_neg_integer(), % seconds of the load test that were over
                     cpu := non_neg_integer(),   % nanoseconds since the start of the server
                     rss := non_neg_integer(),   % bytes
                     kernel := none | non_neg_integer()}. % bytes of its control group

-type name() :: held | cpu_time | cpu_of_connection | memory | memory_all | kernel
              | latency_p50 | latency_p99.

%% 99 % of the messages of this many seconds must be in time.
-define(IN_TIME, 0.99).
-define(SLIDING, 5).

%% The numbers that the environment may set, with their defaults and limits.
-define(NUMBERS, [{users, "USERS", 2000, 1_000_000}, {rate, "RATE", 500, 100_000},
                  {window, "WINDOW", 12, 3600}, {within, "WITHIN", 1000, 60_000}]).

%% The seconds between the last arrival and the window.
-define(SETTLE, 3).

%% The seconds of the longest load test.
-define(MOST_S, 1_100_000).

%% @doc Makes the plan of a run from the variables of the environment: USERS, RATE (users in a
%% second), WINDOW (seconds), FROM (the second in which the window begins; default: three seconds
%% after the last arrival), WITHIN (milliseconds) and DELIVERY (a step). The error is one line about
%% a variable.
-spec plan(fun((string()) -> string() | false)) -> {ok, plan()} | {error, unicode:chardata()}.
plan(Value) ->
    Given = [{Key, Name, whole(Value(Name), Default), Most}
             || {Key, Name, Default, Most} <- ?NUMBERS],
    case [{Name, Most} || {_, Name, Number, Most} <- Given, not is_within(1, Number, Most)] of
        [] ->
            Plan = maps:from_list([{Key, Number} || {Key, _, Number, _} <- Given]),
            #{users := Users, rate := Rate} = Plan,
            Arrivals = (Users + Rate - 1) div Rate,
            case whole(Value("FROM"), Arrivals + ?SETTLE) of
                From when is_integer(From), From >= 0, From =< ?MOST_S ->
                    {ok, Plan#{arrivals => Arrivals, from => From,
                               delivery => delivery(Value("DELIVERY"))}};
                _ -> wrong("FROM", 0, ?MOST_S, Value)
            end;
        [{Name, Most} | _] -> wrong(Name, 1, Most, Value)
    end.

whole(false, Default) -> Default;
whole(Text, _) ->
    case string:to_integer(Text) of
        {Number, ""} -> Number;
        _ -> error
    end.

is_within(Least, Number, Most) -> is_integer(Number) andalso Number >= Least andalso Number =< Most.

delivery(false) -> <<"delivery">>;
delivery(Step) -> unicode:characters_to_binary(Step).

wrong(Name, Least, Most, Value) ->
    {error, io_lib:format("~s is `~ts': give a whole number from ~b to ~b",
                          [Name, Value(Name), Least, Most])}.

%% @doc Fills a scenario: `@NAME@' stands for a value.
-spec scenario(binary(), [{string(), iodata()}]) -> binary().
scenario(Template, Values) ->
    lists:foldl(fun({Name, Value}, Text) ->
                        iolist_to_binary(binary:replace(Text, list_to_binary(["@", Name, "@"]),
                                                        iolist_to_binary(Value), [global]))
                end, Template, Values).

%% @doc Returns the port of a scenario's target, and the scenario with another port.
-spec through(inet:port_number(), binary()) -> {ok, inet:port_number(), binary()} | error.
through(Port, Text) ->
    case re:run(Text, "(?m)^\\{target, \"[a-z]+://[^:\"]+:(\\d{1,5})[/\"]", [{capture, [1]}]) of
        {match, [{At, Length}]} ->
            <<Head:At/binary, Server:Length/binary, Tail/binary>> = Text,
            {ok, binary_to_integer(Server), <<Head/binary, (integer_to_binary(Port))/binary,
                                              Tail/binary>>};
        nomatch -> error
    end.

%% @doc Reads the samples of a load test. A last line without its end is no sample, and the line
%% with the key `end' has none. The error is the number of a line that is no sample.
-spec seconds(binary()) -> {ok, [second()]} | {error, pos_integer()}.
seconds(Bytes) ->
    [_ | Reversed] = lists:reverse(binary:split(Bytes, <<"\n">>, [global])),
    seconds(lists:reverse(Reversed), 1, []).

seconds([], _, Seconds) -> {ok, lists:reverse(Seconds)};
seconds([Line | Lines], Number, Seconds) ->
    case second(whittle_json:decode(Line)) of
        {ok, Second} -> seconds(Lines, Number + 1, [Second | Seconds]);
        none -> seconds(Lines, Number + 1, Seconds);
        error -> {error, Number}
    end.

second({ok, #{<<"end">> := _}}) -> none;
second({ok, #{<<"second">> := At, <<"events">> := Events, <<"latencies">> := Latencies}})
  when is_integer(At), At >= 0, is_map(Events), is_map(Latencies) ->
    Counts = [maps:get(Event, Events, 0) || Event <- [<<"connected">>, <<"held">>, <<"released">>]],
    Buckets = maps:map(fun(_, Each) -> buckets(Each) end, Latencies),
    case lists:all(fun is_count/1, Counts) andalso not lists:member(error, maps:values(Buckets)) of
        true ->
            [Connected, Held, Released] = Counts,
            {ok, #{second => At, connected => Connected, held => Held - Released,
                   latencies => Buckets}};
        false -> error
    end;
second(_) -> error.

%% A latency of 0 has a count of its own.
buckets(#{<<"zeros">> := Zeros, <<"buckets">> := Buckets})
  when is_integer(Zeros), Zeros >= 0, is_list(Buckets) ->
    Read = [{Index, Count} || [Index, Count] <- Buckets, is_count(Index), Index =< 59 * 32,
                              is_count(Count), Count > 0],
    case length(Read) =:= length(Buckets) of
        true -> [{0, Zeros} || Zeros > 0] ++ Read;
        false -> error
    end;
buckets(_) -> error.

is_count(Number) -> is_integer(Number) andalso Number >= 0.

%% @doc Finds the control group for memory in the text of /proc/PID/cgroup (version 1).
-spec group(binary()) -> {ok, binary()} | none.
group(Text) ->
    case re:run(Text, "(?m)^\\d+:(?:[a-z_,]+,)?memory(?:,[a-z_,]+)?:/(.+)$",
                [{capture, all_but_first, binary}]) of
        {match, [Name]} -> {ok, Name};
        nomatch -> none
    end.

%% @doc Adds up the CPU time of threads, in nanoseconds, from the texts of their `schedstat'.
-spec cpu([binary()]) -> non_neg_integer().
cpu(Texts) ->
    lists:sum([case string:to_integer(Text) of
                   {Time, _} when is_integer(Time), Time >= 0 -> Time;
                   _ -> 0
               end || Text <- Texts]).

%% @doc Returns the resident set in bytes, from the text of `smaps_rollup'.
-spec rss(binary()) -> non_neg_integer().
rss(Text) ->
    case re:run(Text, "(?m)^Rss:\\s+(\\d+) kB$", [{capture, all_but_first, binary}]) of
        {match, [Number]} -> 1024 * binary_to_integer(Number);
        nomatch -> 0
    end.

%% @doc Computes the numbers of a run. `Before' is the reading before the load test, and the other
%% readings come in order. A number that the run does not have is missing.
%%
%% - `held': users that were held while 99 % of the messages arrived in time (see {@link held/2})
%% - `cpu_time': microseconds of the server's CPU time for each user and second of the window
%% - `cpu_of_connection': microseconds for each connection of the window
%% - `memory': bytes that the server's resident set and its control group's kernel memory have grown
%%   by until the end of the window, for each user; `kernel': the kernel's part of these
%% - `memory_all': all of these bytes of the server at that moment
%% - `latency_p50', `latency_p99': milliseconds of a message in the window
-spec numbers(plan(), reading(), [reading()], [second()]) -> [{name(), number()}].
numbers(#{from := From, window := Window} = Plan, Before, Readings, Seconds) ->
    To = From + Window,
    Within = [Second || #{second := At} = Second <- Seconds, At >= From, At < To],
    Here = lists:sum([Held || #{second := At, held := Held} <- Seconds, At < To]),
    [{held, held(Plan, Seconds)}]
        ++ used(first(From, Readings), first(To, Readings), Before, Here, Within)
        ++ latencies(Plan, Within).

first(At, Readings) ->
    case [Reading || #{second := Over} = Reading <- Readings, Over >= At] of
        [Reading | _] -> Reading;
        [] -> none
    end.

used(#{second := From, cpu := Start}, #{second := To, cpu := End, rss := Rss, kernel := Kernel},
     #{rss := Empty, kernel := EmptyKernel}, Held, Within) when To > From ->
    Connected = lists:sum([Each || #{connected := Each} <- Within]),
    Whole = is_integer(Kernel) andalso is_integer(EmptyKernel),
    [{cpu_time, (End - Start) / 1000 / (To - From) / Held} || Held > 0]
        ++ [{cpu_of_connection, (End - Start) / 1000 / Connected} || Connected > 0]
        ++ [Number || Held > 0, Whole,
                      Number <- [{memory, (Rss - Empty + Kernel - EmptyKernel) / Held},
                                 {kernel, (Kernel - EmptyKernel) / Held}]]
        ++ [{memory_all, Rss + Kernel} || Whole];
used(_, _, _, _, _) -> [].

latencies(#{delivery := Step}, Within) ->
    case joined([maps:get(Step, Latencies, []) || #{latencies := Latencies} <- Within]) of
        [] -> [];
        Buckets -> [{latency_p50, quantile(0.5, Buckets)}, {latency_p99, quantile(0.99, Buckets)}]
    end.

joined(Lists) ->
    lists:sort(maps:to_list(lists:foldl(fun({Index, Count}, Sum) ->
                                                maps:update_with(Index, fun(N) -> N + Count end,
                                                                 Count, Sum)
                                        end, #{}, lists:append(Lists)))).

%% In milliseconds. Bucket I has the values up to 2^(I/32) nanoseconds.
quantile(Part, Buckets) ->
    ranked(max(1, ceil(Part * lists:sum([Count || {_, Count} <- Buckets]))), Buckets).

ranked(Rank, [{Index, Count} | _]) when Rank =< Count -> math:pow(2, Index / 32) / 1.0e6;
ranked(Rank, [{_, Count} | Rest]) -> ranked(Rank - Count, Rest).

%% @doc Returns the most users that were held in a second, up to the first five seconds in which
%% less than 99 % of the messages were in time.
-spec held(plan(), [second()]) -> non_neg_integer().
held(Plan, Seconds) -> held(Plan, Seconds, [], 0, 0).

held(_, [], _, _, Most) -> Most;
held(Plan, [#{held := Gained} = Second | Seconds], Last, Held, Most) ->
    Window = lists:sublist([Second | Last], ?SLIDING),
    case length(Window) < ?SLIDING orelse is_in_time(Plan, Window) of
        true -> held(Plan, Seconds, Window, Held + Gained, max(Most, Held + Gained));
        false -> Most
    end.

%% A second without messages has no late one.
is_in_time(#{delivery := Step, within := Milliseconds}, Window) ->
    Buckets = joined([maps:get(Step, Latencies, []) || #{latencies := Latencies} <- Window]),
    Limit = math:log2(Milliseconds * 1.0e6) * 32,
    InTime = lists:sum([Count || {Index, Count} <- Buckets, Index =< Limit]),
    InTime >= ?IN_TIME * lists:sum([Count || {_, Count} <- Buckets]).

%% @doc Writes numbers as lines: `NAME NUMBER'.
-spec text([{name(), number()}]) -> iodata().
text(Numbers) ->
    [case Number of
         _ when is_integer(Number) -> io_lib:format("~s ~b~n", [Name, Number]);
         _ -> io_lib:format("~s ~.3f~n", [Name, Number])
     end || {Name, Number} <- Numbers].
