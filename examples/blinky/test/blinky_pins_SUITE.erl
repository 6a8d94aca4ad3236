%% The button and the LED, over whittle_gpio's loopback (line 0 is wired to 1, 2 to 3), and a
%% pseudo-terminal for the other board.
-module(blinky_pins_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([pressed_and_shown/1, pressed_by_many/1, wrong_configuration/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [pressed_and_shown, pressed_by_many, wrong_configuration].

init_per_testcase(Case, Config0) ->
    Config = whittle_gpio_SUITE:init_per_testcase(Case, Config0),
    Peer = whittle_serial_peer:start(),
    Chip = proplists:get_value(chip, Config),
    ok = application:load(blinky),
    [ok = application:set_env(blinky, Key, Value)
     || {Key, Value} <- [{device, whittle_serial_peer:path(Peer)},
                         {button, {Chip, 1, #{debounce => 0}}}, {led, {Chip, 2}},
                         {keep, 200}]],
    {ok, _} = application:ensure_all_started(blinky),
    [{peer, Peer} | Config].

end_per_testcase(_, Config) ->
    ok = application:stop(blinky),
    ok = application:unload(blinky),
    whittle_serial_peer:stop(proplists:get_value(peer, Config)).

pressed_and_shown(Config) ->
    Chip = proplists:get_value(chip, Config),
    Peer = proplists:get_value(peer, Config),
    {ok, Finger} = whittle_gpio:request(Chip, [{0, #{direction => output}}]),
    {ok, Eye} = whittle_gpio:request(Chip, [{3, #{edges => both}}]),
    push(Finger),
    taken(1),
    push(Finger),
    taken(2),
    %% What is not heard while there is none is told by the next: its number is 3.
    exit(whereis(blinky_button), kill),
    taken(3),
    push(Finger),
    taken(4),
    %% The other board has pressed: the LED goes on, once, and off at the next.
    #{boot := Boot} = blinky:info(),
    Item = fun(N) -> blinky_frame:encode(#{kind => item, from => 9, to => Boot, seq => N,
                                           item => press}) end,
    ok = whittle_serial_peer:write(Peer, [Item(1), Item(1)]),
    receive {gpio, Eye, #{edge := rising}} -> ok end,
    exit(whereis(blinky_lamp), kill),
    ok = whittle_serial_peer:write(Peer, Item(2)),
    receive {gpio, Eye, #{edge := falling}} -> ok end,
    ?assertMatch(#{last := 2, led := 0}, blinky:info()),
    [ok = whittle_gpio:release(R) || R <- [Finger, Eye]].

%% Each press has a number of its own and is taken once, though the owner is killed again and
%% again while they ask.
pressed_by_many(_) ->
    {Callers, Presses} = {8, 20},
    Test = self(),
    Press = fun(Caller, N) ->
                    Owner = whereis(blinky_owner),
                    [exit(Owner, kill) || N =:= 2 * Caller, is_pid(Owner)],
                    blinky:press()
            end,
    _ = [spawn_link(fun() -> Test ! [Press(Caller, N) || N <- lists:seq(1, Presses)] end)
         || Caller <- lists:seq(1, Callers)],
    Results = lists:append([receive R when is_list(R) -> R end || _ <- lists:seq(1, Callers)]),
    Numbers = [N || {ok, {_, N}} <- Results],
    ?assertEqual(Callers * Presses, length(Numbers)),
    ?assertEqual(lists:seq(1, Callers * Presses), lists:sort(Numbers)),
    taken(Callers * Presses).

%% Said once, when it starts.
wrong_configuration(_) ->
    ok = application:stop(blinky),
    [begin
         {ok, Right} = application:get_env(blinky, Key),
         ok = application:set_env(blinky, Key, Wrong),
         ?assertMatch({error, {{bad_config, {Key, Wrong}}, _}}, application:start(blinky)),
         ok = application:set_env(blinky, Key, Right)
     end || {Key, Wrong} <- [{device, ttyS0}, {rate, foo}, {rate, 0}, {retry, x}, {beat, -1},
                             {keep, x}, {led, foo}, {button, {0, 1, []}}, {console, 1}]],
    ok = application:start(blinky).

push(Finger) ->
    ok = whittle_gpio:set(Finger, 0, 1),
    ok = whittle_gpio:set(Finger, 0, 0).

%% Asked until it is so: who takes tells nobody.
taken(N) ->
    case blinky:info() of
        #{taken := N} -> ok;
        #{taken := Fewer} when Fewer < N -> erlang:yield(), taken(N)
    end.
