#!/usr/bin/env escript
%% Measures a scrape of 10,000 and of 100,000 series: its time, and its memory above idle.
%%
%% Model: one counter with two labels. The script discards the text, in the pieces that a socket
%% would get. At each piece it reads erlang:memory(total), outside the measured time. The peak is
%% the largest value minus the value before. Each of ROUNDS scrapes has a fresh process.
%%
%% run: bench/run [OTP-ROOT] counters/scrape.escript [ROUNDS]
-mode(compile).

main(Args) ->
    Rounds = case Args of [N] -> list_to_integer(N); [] -> 15 end,
    ok = application:load(whittle_counters),
    ok = application:set_env(whittle_counters, max_series, 200000),
    {ok, _} = application:ensure_all_started(whittle_counters),
    io:format("OTP ~s, ~p, ~p schedulers, ~p rounds~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), Rounds]),
    [scrape(N, Format, Rounds) || N <- [10000, 100000], Format <- [prometheus, openmetrics]].

scrape(N, Format, Rounds) ->
    ok = whittle_counters:new(bench_requests_total, counter,
                              #{labels => [method, id], max_series => N}),
    [ok = whittle_counters:inc(bench_requests_total, [get, I], I) || I <- lists:seq(1, N)],
    ok = settled(),
    Results = [alone(fun() -> scrape_once(Format) end) || _ <- lists:seq(1, Rounds)],
    {Times, Peaks, [Size | _]} = lists:unzip3(Results),
    io:format("~p series, ~p, ~p bytes: ~s ms; peak above idle ~s KB~n",
              [N, Format, Size, spread(Times), spread(Peaks)]),
    ok = whittle_counters:delete(bench_requests_total),
    ok = settled().

%% Waits until the tree of names is published and the VM has freed the old one.
settled() ->
    ok = whittle_counters_registry:publish(),
    receive after 2000 -> ok end.

alone(Fun) ->
    Self = self(),
    _ = [erlang:garbage_collect(P) || P <- processes()],
    spawn_link(fun() -> Self ! {result, Fun()} end),
    receive {result, Result} -> Result end.

scrape_once(Format) ->
    Idle = erlang:memory(total),
    _ = put(peak, Idle), _ = put(aside, 0), _ = put(size, 0),
    Start = erlang:monotonic_time(),
    ok = whittle_counters_text:stream(
           Format, fun(Piece) ->
                           Here = erlang:monotonic_time(),
                           _ = put(size, get(size) + iolist_size(Piece)),
                           _ = put(peak, max(get(peak), erlang:memory(total))),
                           _ = put(aside, get(aside) + erlang:monotonic_time() - Here),
                           ok
                   end),
    Time = erlang:monotonic_time() - Start - get(aside),
    {erlang:convert_time_unit(Time, native, microsecond) / 1000, (get(peak) - Idle) / 1024,
     get(size)}.

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).
spread(L) -> io_lib:format("~.1f (~.1f to ~.1f)", [median(L), lists:min(L), lists:max(L)]).
