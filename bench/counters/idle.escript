#!/usr/bin/env escript
%% What the application costs at rest with 100 counter series.
%%
%% Model: erlang:memory/0 before the application is started and after 100 series
%% were updated, all processes collected both times. `code' is what the loaded
%% modules and their atoms take. Of the growth of processes, `own' are those that
%% the application started; the others are the code server and its like, which
%% grow with each module that is loaded.
%%
%% run: bench/run [OTP-ROOT] counters/idle.escript
-mode(compile).

main([]) ->
    _ = application:load(whittle_counters),
    %% What is used by this script itself.
    _ = [code:ensure_loaded(M) || M <- [io_lib_pretty, maps, counters, atomics, persistent_term]],
    Before = memory(),
    Others = processes(),
    {ok, _} = application:ensure_all_started(whittle_counters),
    ok = whittle_counters:new(requests_total, counter, #{labels => [method, code]}),
    [ok = whittle_counters:inc(requests_total, [M, C]) || M <- [get, put], C <- lists:seq(200, 249)],
    receive after 200 -> ok end,
    After = memory(),
    Grown = fun(Key) -> proplists:get_value(Key, After) - proplists:get_value(Key, Before) end,
    Code = Grown(code) + Grown(atom),
    Own = lists:sum([Bytes || P <- processes() -- Others,
                              {memory, Bytes} <- [process_info(P, memory)]]),
    Data = Grown(total) - Code - Grown(processes) + Own,
    io:format("OTP ~s, ~p: ~b KB of data (own processes ~b, ets ~b, the rest ~b); "
              "other processes grew by ~b KB; ~b KB of code and atoms~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               Data div 1024, Own div 1024, Grown(ets) div 1024, (Data - Own - Grown(ets)) div 1024,
               (Grown(processes) - Own) div 1024, Code div 1024]).

memory() ->
    _ = [erlang:garbage_collect(P) || P <- processes()],
    receive after 500 -> ok end,
    erlang:memory().
