%% @doc Does work of seven kinds, one phase after the other, and prints how fast each phase was and
%% how much it held. Studies use this program: each phase stresses another part of the VM.
-module(mixed).
-behaviour(application).

-export([start/2, stop/1]).

-define(USAGE, "usage: mixed [SECONDS [SCALE]]\n"
        "Repeats all phases for SECONDS (default 0: one round). SCALE (default 1, at most 1000)\n"
        "multiplies the data of each phase.\n").

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_Type, _Args) ->
    {ok, spawn_link(fun() -> run(init:get_plain_arguments()) end)}.

%% @private
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

run(Arguments) ->
    case options(Arguments) of
        {ok, Seconds, Scale} ->
            rounds(now_us() + Seconds * 1000000, Scale, []),
            init:stop();
        error ->
            io:put_chars(standard_error, ?USAGE),
            init:stop(2)
    end,
    receive after infinity -> ok end.

options(Arguments) ->
    try {lists:map(fun list_to_integer/1, Arguments), length(Arguments)} of
        {[], 0} -> {ok, 0, 1};
        {[Seconds], 1} when Seconds >= 0, Seconds =< 86400 -> {ok, Seconds, 1};
        {[Seconds, Scale], 2} when Seconds >= 0, Seconds =< 86400, Scale >= 1, Scale =< 1000 ->
            {ok, Seconds, Scale};
        _ -> error
    catch
        error:badarg -> error
    end.

%% Does rounds until the time End, and at least one. The score of a round is the geometric mean of
%% the rates of its phases, in phases per second; the last line has the median of all rounds.
rounds(End, Scale, Scores) ->
    Rates = [phase(Name, Scale) || Name <- mixed_phases:names()],
    Score = math:exp(lists:sum([math:log(Rate) || Rate <- Rates]) / length(Rates)),
    io:format("round ~b: ~.3f phases per second~n", [length(Scores) + 1, Score]),
    case now_us() >= End of
        false -> rounds(End, Scale, [Score | Scores]);
        true ->
            Sorted = lists:sort([Score | Scores]),
            io:format("score ~.3f~n", [lists:nth((length(Sorted) + 1) div 2, Sorted)])
    end.

%% Runs a phase in a process of its own, so that nothing of it stays, and returns its rate.
phase(Name, Scale) ->
    Start = now_us(),
    {Pid, Monitor} = spawn_monitor(fun() -> exit({held, mixed_phases:run(Name, Scale)}) end),
    receive
        {'DOWN', Monitor, process, Pid, {held, Bytes}} ->
            Time = max(1, now_us() - Start),
            io:format("~-9s ~10.3f ms, held ~b bytes~n", [Name, Time / 1000, Bytes]),
            1000000 / Time;
        {'DOWN', Monitor, process, Pid, Reason} ->
            io:format(standard_error, "mixed: the phase ~s failed: ~0tp~n", [Name, Reason]),
            halt(1)
    end.

now_us() ->
    erlang:monotonic_time(microsecond).
