#!/usr/bin/env escript
%% Measures the memory of the application at rest with 100 counter series.
%%
%% Model: erlang:memory/0 after collecting the garbage of all processes, (1) before any module of it
%% is loaded, (2) with those modules loaded that (3) uses, (3) with the application started and 100
%% series of two labels updated by name. Code is the difference of (2) and (1). Data is the
%% difference of (3) and (2), without the growth of processes outside the application (the code
%% server and this script).
%%
%% run: bench/run [OTP-ROOT] counters/idle.escript
-mode(compile).

main([]) ->
    %% The program logs a stop in another way, which loads the formatter.
    ok = logger:set_primary_config(level, none),
    %% Loads the modules that this script itself uses.
    _ = [code:ensure_loaded(M) || M <- [io_lib_pretty, maps, counters, atomics, persistent_term]],
    Bare = memory(),
    %% Runs once before, so that the VM loads nothing between (2) and (3).
    run(),
    ok = application:stop(whittle_counters),
    Loaded = memory(),
    Others = processes(),
    run(),
    Running = memory(),
    Own = own(Others),
    Grown = fun(Key, From, To) -> proplists:get_value(Key, To) - proplists:get_value(Key, From) end,
    Data = Grown(total, Loaded, Running) - Grown(processes, Loaded, Running) + Own,
    Code = Grown(code, Bare, Loaded) + Grown(atom, Bare, Loaded),
    Ets = Grown(ets, Loaded, Running),
    io:format("OTP ~s, ~p, ~p schedulers: ~.1f KB of data (own processes ~.1f, ets ~.1f, "
              "terms and cells ~.1f); ~.1f KB of code and atoms~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers)
               | [Bytes / 1024 || Bytes <- [Data, Own, Ets, Data - Own - Ets, Code]]]).

run() ->
    {ok, _} = application:ensure_all_started(whittle_counters),
    ok = whittle_counters:new(requests_total, counter, #{labels => [method, code]}),
    [ok = whittle_counters:inc(requests_total, [M, C])
     || M <- [get, put], C <- lists:seq(200, 249)],
    ok = whittle_counters_registry:publish().

own(Others) ->
    lists:sum([Bytes || P <- processes() -- Others, {memory, Bytes} <- [process_info(P, memory)]]).

memory() ->
    _ = [erlang:garbage_collect(P) || P <- processes()],
    receive after 500 -> ok end,
    erlang:memory().
