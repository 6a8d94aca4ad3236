%% Tests the checks of a program's health, and the signs that go to the board's init. In place of
%% init, the test reads the descriptor of a second VM. acceptance/suites/image_SUITE tests a board.
-module(whittle_board_device_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([on_a_desk/1, own_check/1, bad_check/1, not_started/1, settings/1, applications/1,
         late_check/1, busy_scheduler/1, killed/1, errors/1]).
-export([signs/1, booting/1, no_sign/1, blocked/1, restarted/1, reasons/1]).
-export([healthy/1]).

all() ->
    [on_a_desk, own_check, bad_check, not_started, settings, applications, late_check,
     busy_scheduler, killed, errors, signs, booting, no_sign, blocked, restarted, reasons].

%% Nothing here takes longer on a busy machine.
-define(PATIENCE_MS, 60_000).

init_per_testcase(_, Config) ->
    _ = application:load(whittle_board_device),
    Config.

end_per_testcase(_, _) ->
    _ = application:stop(whittle_board_device),
    ok = application:unload(whittle_board_device).

%% Without init there is no watchdog, and the check works all the same.
on_a_desk(_) ->
    ok = application:start(whittle_board_device),
    ?assertEqual(none, whittle_board_device:watchdog()),
    ?assertEqual(unknown, whittle_board_device:reset_reason()),
    ?assertEqual(ok, whittle_board_device:health()).

own_check(_) ->
    ok = application:start(whittle_board_device),
    [begin
         ok = whittle_board_device:set_check(Check),
         ?assertEqual({Check, Result}, {Check, whittle_board_device:health()})
     end || {Check, Result} <-
                [{fun() -> ok end, ok},
                 {{?MODULE, healthy, [ok]}, ok},
                 {{?MODULE, healthy, [true]}, {error, {unhealthy, true}}},
                 {fun() -> exit(bad) end, {error, {check_failed, {exit, bad}}}},
                 {fun() -> throw(bad) end, {error, {check_failed, {throw, bad}}}},
                 {{?MODULE, no_function, []}, {error, {check_failed, {error, undef}}}},
                 {none, ok}]].

healthy(Result) -> Result.

bad_check(_) ->
    ok = application:start(whittle_board_device),
    [?assertError(badarg, whittle_board_device:set_check(Check))
     || Check <- [fun(_) -> ok end, {a, b}, {"a", b, []}, {a, b, c}, undefined]].

not_started(_) ->
    [?assertEqual({error, {not_started, whittle_board_device}}, Result)
     || Result <- [whittle_board_device:health(), whittle_board_device:set_check(none)]].

%% The application refuses a setting that it does not understand.
settings(_) ->
    [begin
         ok = application:set_env(whittle_board_device, Key, Value),
         ?assertMatch({error, {{bad_setting, {Key, Value}}, _}},
                      application:start(whittle_board_device)),
         ok = application:unload(whittle_board_device),
         ok = application:load(whittle_board_device)
     end || {Key, Value} <- [{check, 5}, {applications, some}, {applications, ["stdlib"]}]],
    ok = application:set_env(whittle_board_device, check, {?MODULE, healthy, [bad]}),
    ok = application:start(whittle_board_device),
    ?assertEqual({error, {unhealthy, bad}}, whittle_board_device:health()).

%% `all' becomes the applications that run.
applications(_) ->
    ok = application:start(whittle_board_device),
    {ok, Running} = whittle_board_device_health:run(all, none, ?PATIENCE_MS),
    [?assert(lists:member(Name, Running)) || Name <- [kernel, stdlib, whittle_board_device]],
    ok = application:stop(whittle_board_device),
    ?assertEqual({error, {not_running, [whittle_board_device]}},
                 whittle_board_device_health:run(Running, none, ?PATIENCE_MS)),
    ?assertEqual({ok, [kernel]}, whittle_board_device_health:run([kernel], none, ?PATIENCE_MS)).

%% A check that does not end ends with its time.
late_check(_) ->
    Test = self(),
    Check = fun() -> Test ! {checks, self()}, receive after infinity -> ok end end,
    ?assertEqual({error, {late, check}}, whittle_board_device_health:run([], Check, 100)),
    receive
        {checks, Pid} ->
            Monitor = monitor(process, Pid),
            receive {'DOWN', Monitor, _, _, _} -> ok end
    end.

%% One scheduler is busy, and the others are not. The caller runs on another scheduler.
busy_scheduler(_) ->
    case erlang:system_info(schedulers_online) of
        1 -> ok;                                % `blocked' tests this
        Count ->
            Blocker = spawn_opt(fun spin/0, [{priority, max}, {scheduler, Count}]),
            Caller = fun() -> exit(whittle_board_device_health:run([], none, 500)) end,
            {_, Monitor} = spawn_opt(Caller, [monitor, {priority, max}, {scheduler, 1}]),
            receive
                {'DOWN', Monitor, _, _, Result} ->
                    exit(Blocker, kill),
                    ?assertEqual({error, {late, schedulers}}, Result)
            end,
            ?assertEqual({ok, []}, whittle_board_device_health:run([], none, ?PATIENCE_MS))
    end.

spin() -> spin().

killed(_) ->
    ?assertEqual({error, {killed, killed}},
                 whittle_board_device_health:run([], fun() -> exit(self(), kill) end,
                                                 ?PATIENCE_MS)).

%% Each error is one line.
errors(_) ->
    [begin
         Text = lists:flatten(unicode:characters_to_list(whittle_board_device:format_error(Error))),
         ?assertEqual({Error, nomatch}, {Error, string:find(Text, "\n")}),
         ?assertNotEqual("", Text)
     end || Error <- [booting, {late, boot}, {late, schedulers}, {late, applications},
                      {late, check}, {not_running, [a, b]}, {unhealthy, "x\ny"},
                      {check_failed, {error, undef}}, {killed, normal},
                      {not_started, whittle_board_device}]].

%%% A second VM, whose signs come to the test

%% The signs go on while the program is healthy: three in each period, of 2 seconds here.
signs(Config) ->
    watched(Config, [], "", "receive after infinity -> ok end",
            fun(Port) -> [sign(Port) || _ <- lists:seq(1, 6)] end).

%% There is no sign before all applications have started. The boot of this VM waits for a line.
booting(Config) ->
    watched(Config, [{whittle_board_device_waits, start, []}], "",
            "receive after infinity -> ok end",
            fun(Port) ->
                    silent(Port, 1500),
                    true = port_command(Port, "go\n"),
                    sign(Port)
            end).

%% The program's own check fails.
no_sign(Config) ->
    watched(Config, [], "-whittle_board_device check {erlang,node,[]}",
            "receive after infinity -> ok end",
            fun(Port) -> silent(Port, 2500) end).

%% All schedulers have endless work of the highest priority, from the first sign on.
blocked(Config) ->
    watched(Config, [], "", "io:get_line(\"\"), F = fun F() -> F() end,"
            " [spawn_opt(F, [{priority, max}])"
            "  || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))]",
            fun(Port) ->
                    sign(Port),
                    true = port_command(Port, "go\n"),
                    until_silent(Port, 2500)
            end).

%% The way to init survives the process that uses it.
restarted(Config) ->
    watched(Config, [], "", "io:get_line(\"\"), exit(whereis(whittle_board_device_watch), kill),"
            " receive after infinity -> ok end",
            fun(Port) ->
                    sign(Port),
                    true = port_command(Port, "go\n"),
                    [sign(Port) || _ <- lists:seq(1, 6)]
            end).

%% The variables of init tell the program all.
reasons(Config) ->
    watched(Config, [], "", "{ok, 2} = whittle_board_device:watchdog(),"
            " watchdog = whittle_board_device:reset_reason(), receive after infinity -> ok end",
            fun(Port) -> [sign(Port) || _ <- lists:seq(1, 3)] end).

%% Starts a VM whose boot starts the application and then makes some calls. Its descriptor 3 is the
%% port of the test.
watched(Config, Calls, Flags, Code, Test) ->
    Ebin = filename:dirname(code:which(whittle_board_device)),
    Here = filename:dirname(code:which(?MODULE)),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Boot = filename:join(proplists:get_value(priv_dir, Config), "board_device"),
    ok = file:write_file(Boot ++ ".boot", boot([{application, start_boot, [whittle_board_device]}
                                                | Calls])),
    Command = lists:join($\s, ["exec", Erl, "-noshell -kernel logger_level none -boot", Boot,
                               "-pa", Ebin, Here, Flags, "-eval", "\"$CODE\"",
                               "3>&1 >/dev/null 2>&1"]),
    Eval = "spawn(fun() -> try " ++ Code ++ " catch _:_ -> halt(1) end end)",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", lists:flatten(Command)]}, binary, exit_status,
                      {env, [{"WHITTLE_WATCHDOG", "2,60"}, {"WHITTLE_HEALTH", "3"},
                             {"WHITTLE_RESET", "watchdog"}, {"CODE", Eval}]}]),
    {os_pid, Os} = erlang:port_info(Port, os_pid),
    try Test(Port)
    after
        os:cmd("kill -9 " ++ integer_to_list(Os))
    end.

%% OTP's boot script with calls before its end.
boot(Calls) ->
    {ok, Bytes} = file:read_file(filename:join([code:root_dir(), "bin", "start_clean.boot"])),
    {script, Id, Commands} = binary_to_term(Bytes),
    {Before, After} = lists:split(length(Commands) - 1, Commands),
    term_to_binary({script, Id, Before ++ [{apply, Call} || Call <- Calls] ++ After}).

sign(Port) ->
    receive
        {Port, {data, <<1, _/binary>>}} -> ok;
        {Port, {exit_status, Code}} -> error({ended, Code})
    after ?PATIENCE_MS -> error(no_sign)
    end.

%% No sign comes for a time, which is longer than a period.
silent(Port, Time) ->
    receive {Port, Message} -> error({not_silent, Message})
    after Time -> ok
    end.

until_silent(Port, Time) ->
    receive
        {Port, {data, _}} -> until_silent(Port, Time);
        {Port, {exit_status, Code}} -> error({ended, Code})
    after Time -> ok
    end.
