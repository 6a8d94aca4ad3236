%% @doc Checks the health of a program once, within a time.
%% @hidden
-module(whittle_board_device_health).

-export([run/3, is_check/1, is_applications/1, format_error/1]).

-export_type([check/0, applications/0, step/0, error/0]).

-type check() :: fun(() -> term()) | {module(), Function :: atom(), Arguments :: [term()]}.

-type applications() :: all | [atom()].

-type step() :: boot | schedulers | applications | check.

-type error() :: booting                        % the boot is not complete, or the VM stops
               | {late, step()}                 % this step did not end in time
               | {not_running, [atom(), ...]}   % applications
               | {unhealthy, term()}            % the result of the program's own check
               | {check_failed, {error | exit | throw, term()}}
               | {killed, term()}.              % something ended the process that checks

%% @doc Takes all steps in a new process, so that a fault or an endless loop does no harm to the
%% caller. The time is in milliseconds. The result has the applications that run; they replace `all'
%% in the next call.
-spec run(applications(), check() | none, pos_integer()) -> {ok, [atom()]} | {error, error()}.
run(Applications, Check, Time) ->
    Caller = self(),
    Mark = make_ref(),
    {Pid, Monitor} =
        spawn_monitor(fun() ->
                              Step = fun(Name) -> Caller ! {Mark, Name} end,
                              Caller ! {Mark, {done, steps(Applications, Check, Step)}}
                      end),
    Until = erlang:monotonic_time(millisecond) + Time,
    await({Pid, Monitor, Mark}, boot, Until).

%% A late message of a killed process stays for the caller, which drops unknown messages.
await({Pid, Monitor, Mark} = Round, Step, Until) ->
    receive
        {Mark, {done, Result}} ->
            true = demonitor(Monitor, [flush]),
            Result;
        {Mark, Next} -> await(Round, Next, Until);
        {'DOWN', Monitor, process, _, Reason} -> {error, {killed, Reason}}
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
            true = demonitor(Monitor, [flush]),
            true = exit(Pid, kill),
            {error, {late, Step}}
    end.

steps(Applications, Check, Step) ->
    case init:get_status() of
        %% The boot script has ended, and `-s' and `-eval', which stand after it, may go on.
        {Now, started} when Now =/= stopping ->
            _ = Step(schedulers),
            ok = schedulers(),
            _ = Step(applications),
            case missing(Applications) of
                {[], Wanted} ->
                    _ = Step(check),
                    case own(Check) of
                        ok -> {ok, Wanted};
                        {error, _} = Error -> Error
                    end;
                {Missing, _} -> {error, {not_running, Missing}}
            end;
        _ -> {error, booting}
    end.

%% Each scheduler runs one process. The links end those that wait in vain.
schedulers() ->
    Probes = [spawn_opt(fun() -> ok end, on(Scheduler))
              || Scheduler <- lists:seq(1, erlang:system_info(schedulers_online))],
    lists:foreach(fun({_, Monitor}) -> receive {'DOWN', Monitor, _, _, _} -> ok end end, Probes).

%% The option `scheduler' is not documented, but OTP 25 to 29 have it, and their own tests need it.
%% The type hides it from Dialyzer, which does not know it.
-spec on(pos_integer()) -> [link | monitor].
-dialyzer({nowarn_function, on/1}).
on(Scheduler) -> [link, monitor, {scheduler, Scheduler}].

missing(Applications) ->
    Running = [Name || {Name, _, _} <- application:which_applications(infinity)],
    case Applications of
        all -> {[], Running};
        _ -> {Applications -- Running, Applications}
    end.

own(none) -> ok;
own(Check) ->
    try call(Check) of
        ok -> ok;
        Other -> {error, {unhealthy, Other}}
    catch
        Class:Reason -> {error, {check_failed, {Class, Reason}}}
    end.

call({Module, Function, Arguments}) -> apply(Module, Function, Arguments);
call(Fun) -> Fun().

%% @doc Tells whether a term is a check or `none'.
-spec is_check(term()) -> boolean().
is_check(none) -> true;
is_check({Module, Function, Arguments}) ->
    is_atom(Module) andalso is_atom(Function) andalso is_list(Arguments);
is_check(Other) -> is_function(Other, 0).

%% @doc Tells whether a term names applications.
-spec is_applications(term()) -> boolean().
is_applications(all) -> true;
is_applications(Other) -> is_list(Other) andalso lists:all(fun is_atom/1, Other).

%% @doc Formats an error as one line.
-spec format_error(error()) -> unicode:chardata().
format_error(booting) -> "the applications have not all started, or the VM stops";
format_error({late, boot}) -> "the VM's process init did not answer in time";
format_error({late, schedulers}) ->
    "a scheduler gave no turn to a process in time: look for processes of a high priority, and for "
        "NIFs that run long";
format_error({late, applications}) -> "the application controller did not answer in time";
format_error({late, check}) -> "the program's own check did not end in time";
format_error({not_running, Names}) ->
    ["these applications do not run: ", lists:join(", ", [atom_to_list(N) || N <- Names])];
format_error({unhealthy, Result}) ->
    io_lib:format("the program's own check returned ~0tP instead of ok", [Result, 20]);
format_error({check_failed, {Class, Reason}}) ->
    io_lib:format("the program's own check failed with ~s: ~0tP", [Class, Reason, 20]);
format_error({killed, Reason}) ->
    io_lib:format("something ended the process that checks: ~0tP", [Reason, 20]).
