%% @doc Stops the command on a signal. It removes all unfinished files and ends all programs that
%% the command started.
%%
%% The signals are SIGTERM, SIGHUP, SIGUSR2 and SIGALRM. The script `whittle' turns Ctrl-C into
%% SIGTERM, because the VM keeps SIGINT for itself. A closed terminal sends SIGHUP to the VM itself.
%% The script also reports the stop and sets the exit code. This module reports outputs that were
%% complete before the signal, and changes that nothing can undo.
%%
%% Work that has results to keep ends in order after the first signal ({@link in_order/1}). The
%% script repeats SIGTERM until the VM has ended, so a later one of them means nothing. After a
%% second signal the script sends SIGUSR1, which always stops the command at once.
-module(whittle_stop).
-behaviour(gen_event).

-export([install/0, install/1, in_order/1, asked/0]).
-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

%% The time for the worker to leave a file system call, and for a killed program to end. Both are
%% immediate unless a disk does not respond.
-define(GONE_MS, 5000).

%% The time after which the VM halts, whatever is unfinished. It takes seconds to remove the 13,000
%% files below a build's directory, and many times that on a busy machine.
-define(LAST_MS, 60_000).

-record(state, {worker :: pid(),                       % the process that does the work
                last_ms :: pos_integer(),              % the time of install/1
                in_order = none :: none | fun(() -> term()),
                asked = none :: none | exit_code()}).  % of the first signal, with `in_order'

-type state() :: #state{}.

-type exit_code() :: 129 | 143.

%% @doc Replaces the signal handler that would shut down the VM in order, because an orderly
%% shutdown waits for the work to end. Call this function in the process that does the work.
-spec install() -> ok.
install() -> install(?LAST_MS).

%% @doc Does the same. The VM halts after LastMs milliseconds, whatever is unfinished.
-spec install(pos_integer()) -> ok.
install(LastMs) ->
    ok = gen_event:swap_handler(erl_signal_server, {erl_signal_handler, []},
                                {?MODULE, #state{worker = self(), last_ms = LastMs}}),
    %% OTP lets these end the VM. A SIGHUP that the caller ignores (nohup) stays ignored.
    lists:foreach(fun(Signal) -> os:set_signal(Signal, handle) end,
                  [sigusr2, sigalrm] ++ [sighup || not ignores_hangup()]).

%% @doc Lets the work end in order. The first signal calls the function, which must return at once,
%% and the VM goes on.
-spec in_order(fun(() -> term())) -> ok.
in_order(Fun) -> gen_event:call(erl_signal_server, ?MODULE, {in_order, Fun}).

%% @doc Returns the exit code of the signal after which the work ends in order.
-spec asked() -> none | exit_code().
asked() -> gen_event:call(erl_signal_server, ?MODULE, asked).

%% @private
-spec init({state(), term()}) -> {ok, state()}.
init({State, _}) -> {ok, State}.

%% @private
-spec handle_event(atom(), state()) -> {ok, state()} | no_return().
handle_event(sigterm, State) -> signal(143, State);
handle_event(sighup, State) -> signal(129, State);
handle_event(Signal, State) when Signal =:= sigusr2; Signal =:= sigalrm -> signal(143, State);
handle_event(sigusr1, State) -> stop(143, State);
handle_event(_, State) -> {ok, State}.

%% @private
-spec handle_call(term(), state()) -> {ok, ok | none | exit_code(), state()}.
handle_call({in_order, Fun}, State) -> {ok, ok, State#state{in_order = Fun}};
handle_call(asked, State) -> {ok, State#state.asked, State};
handle_call(_, State) -> {ok, ok, State}.

%% @private
-spec handle_info(term(), state()) -> {ok, state()}.
handle_info(_, State) -> {ok, State}.

%% Internal

%% Tells whether this process ignores SIGHUP. Bit 0 of the kernel's mask SigIgn stands for signal 1,
%% SIGHUP.
ignores_hangup() ->
    case file:read_file("/proc/self/status") of
        {ok, Status} ->
            case re:run(Status, "^SigIgn:\\s*([0-9a-f]+)$", [multiline,
                                                            {capture, all_but_first, binary}]) of
                {match, [Mask]} -> binary_to_integer(Mask, 16) band 1 =:= 1;
                nomatch -> false
            end;
        {error, _} -> false
    end.

signal(Code, #state{in_order = none} = State) -> stop(Code, State);
signal(Code, #state{in_order = Fun, asked = none} = State) ->
    _ = Fun(),
    {ok, State#state{asked = Code}};
%% The script repeats its signal, and a terminal sends SIGHUP to both.
signal(_, State) -> {ok, State}.

-dialyzer({no_return, stop/2}).                 % the fun that halts the VM
-spec stop(exit_code(), state()) -> no_return().
stop(Code, #state{worker = Worker, last_ms = LastMs}) ->
    _ = spawn(fun() -> last_resort(LastMs) end),
    %% First the worker stops writing, then the files are removed. A step that fails must not
    %% prevent the next step or the halt. gen_event would remove a handler that fails, and the VM
    %% would then ignore every signal.
    Left = lists:append([attempt(fun() -> suspend(Worker), [] end),
                         attempt(fun() -> ok = whittle_program:kill_all(?GONE_MS), [] end),
                         attempt(fun whittle_unfinished:undo_all/0)]),
    Changes = whittle_unfinished:changes(),
    _ = attempt(fun() ->
                        say([io_lib:format("whittle: ~ts is complete~n", [Out])
                             || Out <- whittle_unfinished:in_place()]
                            ++ [not_removed(Place, Reason) || {Place, Reason} <- Left]
                            ++ [not_undone(Text) || Text <- Changes])
                end),
    %% The halt does not wait for output, because the process that reads it may have stopped
    %% reading.
    halt(case Left ++ Changes of [] -> Code; _ -> 1 end, [{flush, false}]).

-spec last_resort(pos_integer()) -> no_return().
last_resort(LastMs) ->
    receive after LastMs -> ok end,
    %% A disk that does not respond would also block the look at what is left.
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           say([not_removed(Place, timeout)
                                                || Place <- whittle_unfinished:left()]
                                               ++ [not_undone(Text)
                                                   || Text <- whittle_unfinished:changes()])
                                   end),
    receive {'DOWN', Monitor, process, Pid, _} -> ok
    after ?GONE_MS -> ok
    end,
    halt(1, [{flush, false}]).

not_removed(Place, Reason) ->
    io_lib:format("whittle: stopped, but could not remove ~ts (~0tp): remove it yourself~n",
                  [Place, Reason]).

not_undone(Text) -> io_lib:format("whittle: stopped; ~ts~n", [Text]).

attempt(Step) ->
    try Step()
    catch
        Class:Reason -> [{"all unfinished files and programs", {Class, Reason}}]
    end.

%% Writes past the process of standard_error, because the halt would lose the output that this
%% process has passed on. The write may block, so a process of its own makes it.
say([]) -> [];
say(Lines) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           whittle_progress:clear(),
                                           {ok, Output} = prim_file:file_desc_to_ref(2, [raw]),
                                           file:write(Output, unicode:characters_to_binary(Lines))
                                   end),
    receive {'DOWN', Monitor, process, Pid, _} -> []
    after ?GONE_MS -> []
    end.

%% Suspends the worker instead of killing it. A process that is killed inside a file system call
%% disappears for all other processes before that call ends. A suspended process counts as
%% suspended only after the call. If such a process is asked during a call, the answer at the end
%% of the call is often that it is not suspended (`suspend_process/1' raises `internal_error').
%% Then the function asks again.
suspend(Worker) ->
    suspend(Worker, erlang:monotonic_time(millisecond) + ?GONE_MS).

suspend(Worker, Until) ->
    Asked = make_ref(),
    try erlang:suspend_process(Worker, [{asynchronous, Asked}]) of
        true ->
            receive
                {Asked, not_suspended} -> suspend(Worker, Until);
                {Asked, _} -> ok            % suspended, or it has ended
            after max(0, Until - erlang:monotonic_time(millisecond)) ->
                ok                          % a disk that does not respond
            end
    catch
        error:badarg -> ok                  % it had ended
    end.
