%% @doc Toggles the LED of one board with the button of another, over a serial line.
%%
%% whittle_gpio (blinky_button) -> blinky_owner -> whittle_serial -> the other board's
%% blinky_owner -> whittle_gpio (blinky_lamp), and the same the other way. The owner has
%% what was taken and not handed over yet, in a table of the supervisor's: each of the
%% processes may be killed. blinky_link tells the protocol, and what is promised.
%%
%% The application's environment: see README.md.
-module(blinky).
-behaviour(application).
-behaviour(supervisor).

-export([press/0, info/0]).
-export([start/2, stop/1]).
-export([init/1]).

%% @doc Makes a press without a button: its boot and number once it is taken; it is then kept until
%% the other side has shown it. `full': it was not taken, as too many wait; the other side
%% will be told how many.
-spec press() -> {ok, {blinky_frame:boot(), blinky_frame:seq()}} | {error, full}.
press() -> blinky_owner:take(press).

%% @doc Describes the state of this end of the line.
-spec info() -> map().
info() -> blinky_owner:info().

-spec start(application:start_type(), term()) -> supervisor:startlink_ret().
start(_, _) ->
    case [{Key, env(Key)} || Key <- [device, rate, button, led, console, keep, beat, retry],
                             not is_config(Key, env(Key))] of
        [] -> supervisor:start_link({local, blinky_sup}, ?MODULE, []);
        [Wrong | _] -> {error, {bad_config, Wrong}}
    end.

is_config(device, Device) -> Device =:= none orelse is_list(Device) orelse is_binary(Device);
is_config(Pin, {Chip, Line, Options}) when Pin =:= button; Pin =:= led ->
    is_config(Pin, {Chip, Line}) andalso is_map(Options);
is_config(Pin, Value) when Pin =:= button; Pin =:= led ->
    Value =:= none orelse is_tuple(Value) andalso tuple_size(Value) =:= 2;
is_config(console, Console) -> is_boolean(Console);
is_config(_, Number) -> is_integer(Number) andalso Number > 0.

-spec stop(term()) -> ok.
stop(_) -> ok.

%% The table lives as long as the supervisor, which runs no code of ours after this.
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    blinky_owner = ets:new(blinky_owner, [named_table, public]),
    {ok, {#{strategy => one_for_one, intensity => 20, period => 10},
          [#{id => owner, start => {blinky_owner, start_link, []}},
           #{id => lamp, start => {blinky_lamp, start_link, [env(led)]}}]
          ++ [#{id => button, start => {blinky_button, start_link, [Button]}}
              || Button <- [env(button)], Button =/= none]
          ++ [#{id => console, start => {blinky_console, start_link, []}} || env(console)]}}.

env(Key) ->
    {ok, Value} = application:get_env(blinky, Key),
    Value.
