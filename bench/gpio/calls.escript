#!/usr/bin/env escript
%% Measures the cost of calls of whittle_gpio above the kernel's work, and the effect of a flood of
%% edges on the VM.
%%
%% Model: the loopback chip of the tests replaces the kernel, in the same process. So the figures
%% contain neither the system call itself nor the hardware. They are the median of nine rounds of
%% 100,000 calls, with the range in brackets. `nothing' is a NIF that takes a request and gives its
%% pid. An edge is a set by one process and the arrival of the event in the same process. The flood
%% is a million edges on one line by one process while the owner sleeps. system_monitor counts the
%% turns on a scheduler that were longer than 1 ms.
%%
%% run: bench/run [OTP-ROOT] gpio/calls.escript
-mode(compile).

-define(CALLS, 100000).
-define(ROUNDS, 9).

main([]) ->
    Dir = string:trim(os:cmd("mktemp -d")),
    try run(Dir) after file:del_dir_r(Dir) end.

run(Dir) ->
    load(Dir),
    {ok, Out} = whittle_gpio:request("/dev/loopback/a", [2 * I || I <- lists:seq(0, 31)],
                                     #{direction => output}),
    {ok, In} = whittle_gpio:request("/dev/loopback/a", [1], #{edges => both}),
    io:format("OTP ~s, ~p~n", [erlang:system_info(otp_release), erlang:system_info(emu_flavor)]),
    [calls(Name, Fun)
     || {Name, Fun} <- [{"nothing", fun(_) -> whittle_gpio_nif:server(Out) end},
                        {"get one", fun(_) -> whittle_gpio:get(Out, 0) end},
                        {"get 32 as bits", fun(_) -> whittle_gpio:get_bits(Out) end},
                        {"get 32 as a map", fun(_) -> whittle_gpio:get(Out) end},
                        {"set one", fun(N) -> whittle_gpio:set(Out, 2, N band 1) end},
                        {"set 31 by bits",
                         fun(N) -> whittle_gpio:set_bits(Out, N bsl 1, 16#FFFFFFFE) end},
                        {"an edge, to its event", fun(N) -> edge(Out, In, N) end}]],
    flood().

calls(Name, Fun) ->
    Times = lists:sort([round_of(Fun) || _ <- lists:seq(1, ?ROUNDS)]),
    io:format("~-24s ~6.2f us (~.2f to ~.2f)~n",
              [Name, lists:nth(?ROUNDS div 2 + 1, Times), hd(Times), lists:last(Times)]).

round_of(Fun) ->
    {Us, ok} = timer:tc(fun() -> loop(Fun, ?CALLS) end),
    Us / ?CALLS.

loop(_, 0) -> ok;
loop(Fun, N) -> _ = Fun(N), loop(Fun, N - 1).

edge(Out, In, N) ->
    ok = whittle_gpio:set(Out, 0, (N + 1) band 1),
    receive {gpio, In, _} -> ok after 0 -> edge_wait(Out, In, N) end.

%% The first edge may find the level there already.
edge_wait(_, _, ?CALLS) -> receive {gpio, _, _} -> ok after 10 -> ok end;
edge_wait(_, In, _) -> receive {gpio, In, _} -> ok end.

flood() ->
    Self = self(),
    Owner = spawn_link(fun() ->
                               {ok, Slept} = whittle_gpio:request("/dev/loopback/b", [1],
                                                                  #{edges => both}),
                               Self ! {request, Slept},
                               receive wake -> ok end,
                               last(Slept),
                               Self ! {woken, whittle_gpio:stats(Slept)}
                       end),
    Slept = receive {request, R} -> R end,
    {ok, Out} = whittle_gpio:request("/dev/loopback/b", [0], #{direction => output}),
    erlang:system_monitor(self(), [{long_schedule, 1}]),
    {Us, ok} = timer:tc(fun() -> loop(fun(N) -> whittle_gpio:set(Out, 0, (N + 1) band 1) end,
                                      1000000)
                        end),
    {ok, _} = whittle_gpio:stats(Slept),
    erlang:system_monitor(undefined),
    {message_queue_len, Waiting} = process_info(Owner, message_queue_len),
    [{memory, Of}, {memory, Server}] =
        [process_info(P, memory) || P <- [Owner, whittle_gpio_nif:server(Slept)]],
    Owner ! wake,
    {ok, Stats} = receive {woken, Woken} -> Woken end,
    io:format("flood: ~.2f s; ~b messages wait, ~b KB; the request's process ~b KB~n"
              "awake: ~p~nturns longer than 1 ms, ms: ~w~n",
              [Us / 1.0e6, Waiting, Of div 1024, Server div 1024, Stats, long()]).

%% Waits until the last edge arrives.
last(Slept) ->
    receive {gpio, Slept, #{seqno := Seqno}} -> Seqno =:= 1000000 orelse last(Slept) end.

long() ->
    receive
        {monitor, _, long_schedule, Info} -> [proplists:get_value(timeout, Info) | long()]
    after 0 -> []
    end.

load(Dir) ->
    Room = filename:join([filename:dirname(filename:absname(escript:script_name())),
                          "../../lib/whittle_io"]),
    Include = filename:join([code:root_dir(), "usr", "include"]),
    Files = [filename:join(Room, F) || F <- ["c_src/whittle_gpio.c",
                                             "test/whittle_gpio_loopback.c"]],
    "" = os:cmd(lists:flatten(["cc -O2 -std=gnu11 -fPIC -shared -DWHITTLE_GPIO_LOOPBACK -I", Room,
                               "/c_src -I", Include, " -o ", Dir, "/whittle_gpio_nif.so",
                               [[" ", F] || F <- Files]])),
    ok = application:set_env(whittle_io, nif_dir, Dir),
    {module, _} = code:ensure_loaded(whittle_gpio_nif).
