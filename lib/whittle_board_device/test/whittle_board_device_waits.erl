%% Holds up the boot of a VM until a line comes.
-module(whittle_board_device_waits).

-export([start/0]).

start() ->
    "go\n" = io:get_line(""),
    ok.
