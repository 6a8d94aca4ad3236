%% @doc Tells the board's watchdog that the program is healthy, and why the board started.
%%
%% If the program lists `whittle_board_device' among its applications, nothing else is to do. The
%% application gives signs of health to the board's init, which feeds the watchdog with them. It
%% gives a sign only after a check of the program's health, three times in each period of the
%% watchdog:
%%
%% <ol>
%% <li>The boot is complete: all applications of the release have started.</li>
%% <li>Each scheduler of the VM gives a turn to a process with the usual priority.</li>
%% <li>The applications of the release still run. The application's environment `applications' may
%%   name others ({@link applications()}).</li>
%% <li>The program's own check returns `ok' ({@link set_check/1}).</li>
%% </ol>
%%
%% All of this must end within a third of the period. Without a watchdog, as on a desk, the
%% application gives no signs and logs a line that says so.
-module(whittle_board_device).

-export([watchdog/0, reset_reason/0]).
-export([set_check/1, health/0]).
-export([format_error/1]).

-export_type([check/0, applications/0, error/0]).

%% The program's own check. It returns `ok' if the program is healthy. Any other value, an
%% exception, and a check that takes too long mean that it is not. A new process calls it each time.
-type check() :: whittle_board_device_health:check().

%% The applications that must run. `all', the default, are those that run when the boot is complete.
-type applications() :: whittle_board_device_health:applications().

-type error() :: whittle_board_device_health:error()
               | {not_started, whittle_board_device}.

%% The server may be in the middle of a check, which takes a third of the longest period at most.
-define(CALL_MS, 400_000).

%% @doc Returns the period of the watchdog in seconds: the watchdog resets the board so long after
%% the last sign of health. Without a watchdog the result is `none'.
-spec watchdog() -> {ok, pos_integer()} | none.
watchdog() ->
    case whittle_board_device_init:watchdog() of
        {ok, #{period := Period}} -> {ok, Period};
        none -> none
    end.

%% @doc Returns the reason of the board's last start. `watchdog' means that the watchdog reset the
%% board. `unknown' means that the hardware reports no reset by the watchdog: the power came, the
%% program or the kernel wanted a reboot, or the hardware keeps no record. On a desk the result is
%% `unknown'.
-spec reset_reason() -> watchdog | unknown.
reset_reason() -> whittle_board_device_init:reset_reason().

%% @doc Sets the program's own check, in place of the one in the application's environment `check'.
%% `none' means that there is no such check; this is the default. Raises `badarg' for any other
%% term that is not a check.
-spec set_check(check() | none) -> ok | {error, error()}.
set_check(Check) ->
    whittle_board_device_health:is_check(Check) orelse error(badarg, [Check]),
    call({set_check, Check}).

%% @doc Checks the program's health now, and returns `ok' or the first fault. It gives no sign of
%% health. It takes at most a third of the watchdog's period, or 5 seconds without a watchdog. So it
%% also tests a check on a desk.
-spec health() -> ok | {error, error()}.
health() -> call(health).

%% @doc Formats an error as one line.
-spec format_error(error()) -> unicode:chardata().
format_error({not_started, App}) ->
    ["the application ", atom_to_list(App), " does not run: start it"];
format_error(Error) ->
    whittle_board_device_health:format_error(Error).

call(Request) ->
    try gen_server:call(whittle_board_device_watch, Request, ?CALL_MS)
    catch
        exit:{Reason, _} when Reason =:= noproc; Reason =:= normal; Reason =:= shutdown ->
            {error, {not_started, whittle_board_device}}
    end.
