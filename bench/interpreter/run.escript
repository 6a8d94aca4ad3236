#!/usr/bin/env escript
%% Compares the speed of Whittle's VM with that of the stock VM of the same OTP.
%%
%% usage: escript bench/interpreter/run.escript OTP_ROOT RUNS VM [emu|jit|VM]
%%        escript bench/interpreter/run.escript outputs RUNS OUTPUT BASELINE
%%
%% The second form compares two outputs of Whittle, whose program is cases.erl (bench/program_vm).
%%
%% Model. VM is a runtime's executable without a pack (docs/runtime.md), or the name of another. It
%% takes the libraries of OTP_ROOT. The baseline is that OTP's own VM of the same flavor, or a
%% second VM of Whittle. Name a VM for another processor with its emulator ("qemu-arm PATH", and its
%% path in WHITTLE_EMULATOR as well). Both run cases.erl with one scheduler on one core, in turn,
%% RUNS times. The output has each case's median time of both in microseconds, and the median of the
%% pairs' ratios with their range.
-mode(compile).

main(["outputs", Runs, Output, Baseline]) ->
    Once = fun(File) -> once("ERL_FLAGS='+S 1'", filename:absname(File)) end,
    compare(list_to_integer(Runs), fun() -> Once(Baseline) end, fun() -> Once(Output) end);
main([Root, Runs, Vm]) -> main([Root, Runs, Vm, "emu"]);
main([Root, Runs, Vm, Flavor]) ->
    Work = string:trim(os:cmd("mktemp -d")),
    Here = filename:dirname(filename:absname(escript:script_name())),
    [] = os:cmd(Root ++ "/bin/erlc -o " ++ Work ++ " " ++ Here ++ "/cases.erl"),
    Tail = " -S 1 -- -root " ++ Root ++ " -bindir " ++ bin(Root) ++ " -progname erl --"
        " -home / -- -noshell -pa " ++ Work ++ " -s cases main",
    Stock = case Flavor of
                "jit" -> filename:join(bin(Root), "beam.smp");
                "emu" -> filename:join(bin(Root), "beam.emu");
                Second -> Second
            end,
    Env = "ROOTDIR=" ++ Root ++ " BINDIR=" ++ bin(Root) ++ " EMU=beam",
    compare(list_to_integer(Runs), fun() -> once(Env, Stock ++ Tail) end,
            fun() -> once(Env, Vm ++ Tail) end),
    os:cmd("rm -rf " ++ Work).

compare(Runs, Baseline, Run) ->
    Pairs = [{Baseline(), Run()} || _ <- lists:seq(1, Runs)],
    io:format("~-14s ~10s ~10s  ~s~n", ["", "stock us", "ours us", "ours / stock"]),
    [{First, _} | _] = Pairs,
    [begin
         Both = [{maps:get(Case, S), maps:get(Case, O)} || {S, O} <- Pairs],
         Ratios = lists:sort([O / S || {S, O} <- Both]),
         {Stocks, Ours} = lists:unzip(Both),
         io:format("~-14s ~10b ~10b  ~.2f (~.2f to ~.2f)~n",
                   [Case, median(Stocks), median(Ours), median(Ratios), hd(Ratios),
                    lists:last(Ratios)])
     end || Case <- maps:keys(First)].

bin(Root) ->
    [Bin] = filelib:wildcard(filename:join(Root, "erts-*/bin")),
    Bin.

once(Env, Command) ->
    Output = os:cmd(Env ++ " taskset -c 0 " ++ Command),
    maps:from_list([{Name, list_to_integer(Time)}
                    || Line <- string:lexemes(Output, "\n"),
                       [Name, Time] <- [string:lexemes(Line, " ")]]).

median(Values) -> lists:nth((length(Values) + 1) div 2, lists:sort(Values)).
