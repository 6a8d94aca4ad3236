%% Tests the bounds of a gate: how many run, who waits, and who is refused.
-module(docket_gate_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([runs/1, waits_in_order/1, full/1, impatient/1, dead/1, late_ones_first/1, gone/1,
         narrow/1, wide_again/1]).

all() -> [runs, waits_in_order, full, impatient, dead, late_ones_first, gone, narrow, wide_again].

init_per_testcase(Case, Config) ->
    {ok, Gate} = docket_gate:start_link(gate, maps:merge(#{running => 1, waiting => 2,
                                                           patience => 3_600_000}, options(Case))),
    [{gate, Gate} | Config].

options(runs) -> #{running => 2};
options(Case) when Case =:= narrow; Case =:= wide_again -> #{running => 4};
options(Case) when Case =:= impatient; Case =:= late_ones_first -> #{patience => 1};
options(_) -> #{}.

end_per_testcase(_, _) ->
    case whereis(gate) of
        undefined -> ok;
        Gate ->
            true = unlink(Gate),
            gen_server:stop(Gate)
    end.

runs(_) ->
    {ok, One} = docket_gate:enter(gate),
    {ok, _} = docket_gate:enter(gate),
    Third = guest(),
    ?assertEqual({2, 1}, counts_with(1)),
    ok = docket_gate:leave(gate, One),
    ?assertEqual(in, state(Third)).

waits_in_order(_) ->
    {ok, Place} = docket_gate:enter(gate),
    First = guest(),
    {1, 1} = counts_with(1),
    Second = guest(),
    {1, 2} = counts_with(2),
    ok = docket_gate:leave(gate, Place),
    ?assertEqual(in, state(First)),
    First ! leave,
    ?assertEqual(in, state(Second)).

%% A request that finds the queue full is refused at once.
full(_) ->
    {ok, _} = docket_gate:enter(gate),
    _ = [guest() || _ <- [1, 2]],
    {1, 2} = counts_with(2),
    ?assertEqual({error, busy}, docket_gate:enter(gate)).

impatient(_) ->
    {ok, _} = docket_gate:enter(gate),
    ?assertEqual({error, busy}, docket_gate:enter(gate)),
    ?assertEqual({1, 0}, docket_gate:counts(gate)).

%% Each report halves the places, down to one. Who is at work stays.
narrow(_) ->
    [First | Others] = [Place || _ <- lists:seq(1, 4), {ok, Place} <- [docket_gate:enter(gate)]],
    [ok = docket_gate:narrow([node()], gate, 3_600_000) || _ <- lists:seq(1, 3)],
    Guest = guest(),
    {4, 1} = counts_with(1),
    [ok = docket_gate:leave(gate, Place) || Place <- Others],
    ?assertEqual({1, 1}, docket_gate:counts(gate)),
    ok = docket_gate:leave(gate, First),
    ?assertEqual(in, state(Guest)),
    ?assertEqual({1, 0}, docket_gate:counts(gate)).

%% After the time all places are there again, and those who wait get them.
wide_again(_) ->
    {ok, _} = docket_gate:enter(gate),
    [ok = docket_gate:narrow([node()], gate, Time) || Time <- [3_600_000, 1]],
    Guests = [guest() || _ <- [1, 2]],
    [?assertEqual(in, state(Guest)) || Guest <- Guests],
    ?assertEqual({3, 0}, docket_gate:counts(gate)).

%% A process that ends without leaving frees its place.
dead(_) ->
    First = guest(),
    in = state(First),
    Second = guest(),
    {1, 1} = counts_with(1),
    exit(First, kill),
    ?assertEqual(in, state(Second)).

%% A place goes to nobody who has waited too long, even before the timer of the gate has run.
late_ones_first(_) ->
    Before = #{running => 1, waiting => 2, patience => 1},
    {ok, Empty} = docket_gate:init(Before),
    From = {self(), make_ref()},
    {noreply, Running} = docket_gate:handle_call(enter, From, Empty),
    {_, {ok, Place}} = reply(From),
    Late = {self(), make_ref()},
    {noreply, Waiting} = docket_gate:handle_call(enter, Late, Running),
    ok = later(erlang:monotonic_time(millisecond)),
    {noreply, _} = docket_gate:handle_cast({leave, Place}, Waiting),
    ?assertMatch({_, {error, busy}}, reply(Late)).

later(Then) ->
    case erlang:monotonic_time(millisecond) > Then + 1 of
        true -> ok;
        false -> later(Then)
    end.

reply({_, Tag}) -> receive {Tag, _} = Reply -> Reply end.

%% While a gate restarts, requests are refused.
gone(_) ->
    true = unlink(whereis(gate)),
    ok = gen_server:stop(gate),
    ?assertEqual({error, busy}, docket_gate:enter(gate)),
    ?assertEqual({0, 0}, docket_gate:counts(gate)).

%% A process that enters, tells so, and leaves when told.
guest() ->
    Test = self(),
    spawn_link(fun() ->
                       process_flag(trap_exit, true),
                       true = unlink(Test),
                       {ok, Place} = docket_gate:enter(gate),
                       Test ! {self(), in},
                       receive leave -> docket_gate:leave(gate, Place) end,
                       receive never -> ok end
               end).

state(Guest) -> receive {Guest, State} -> State end.

%% Waits until so many requests wait.
counts_with(Waiting) ->
    case docket_gate:counts(gate) of
        {_, Waiting} = Counts -> Counts;
        _ ->
            erlang:yield(),
            counts_with(Waiting)
    end.
