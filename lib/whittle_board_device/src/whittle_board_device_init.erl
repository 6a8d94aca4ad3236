%% @doc Speaks with the board's init (native/init of Whittle), which feeds the watchdog.
%%
%% init tells the program all that it needs in variables: WHITTLE_WATCHDOG is `SECONDS' or
%% `SECONDS,START', WHITTLE_HEALTH is the number of a descriptor, and WHITTLE_RESET is `watchdog' or
%% `unknown'. Any bytes that the program writes to the descriptor are a sign of health.
%% @hidden
-module(whittle_board_device_init).

-export([watchdog/0, reset_reason/0, open/1, sign/1]).

-export_type([watchdog/0]).

-type watchdog() :: #{period := pos_integer(),          % seconds
                      descriptor := non_neg_integer()}.

%% @doc Returns the watchdog that init feeds. Without one, the result is `none'.
-spec watchdog() -> {ok, watchdog()} | none.
watchdog() ->
    case {number("WHITTLE_WATCHDOG"), number("WHITTLE_HEALTH")} of
        {{ok, Period}, {ok, Descriptor}} when Period > 0 ->
            {ok, #{period => Period, descriptor => Descriptor}};
        _ -> none
    end.

%% The number at the beginning of a variable, before a comma. The module string would keep large
%% tables in a shaken program.
number(Variable) ->
    Text = lists:takewhile(fun(Char) -> Char =/= $, end, os:getenv(Variable, "")),
    try {ok, list_to_integer(Text)}
    catch error:badarg -> none
    end.

%% @doc Returns the reason of the board's last start.
-spec reset_reason() -> watchdog | unknown.
reset_reason() ->
    case os:getenv("WHITTLE_RESET") of
        "watchdog" -> watchdog;
        _ -> unknown
    end.

%% @doc Opens the way to init. The port is linked to the calling process.
-spec open(watchdog()) -> port().
open(#{descriptor := Descriptor}) -> open_port({fd, Descriptor, Descriptor}, [out, binary]).

%% @doc Gives a sign of health. It does not wait: if init reads nothing, the sign is lost, and the
%% watchdog resets the board.
-spec sign(port()) -> ok.
sign(Port) ->
    _ = erlang:port_command(Port, <<1>>, [nosuspend]),
    ok.
