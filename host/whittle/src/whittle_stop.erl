%% @doc What happens when the command is told to stop in the middle: nothing that it
%% began stays, and no program that it started goes on.
%%
%% The script `whittle' turns Ctrl-C into SIGTERM, since the VM keeps SIGINT for
%% itself, says that it was stopped, and gives the exit code.
-module(whittle_stop).
-behaviour(gen_event).

-export([install/0]).
-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

%% How long the worker may take to leave a call to the file system, and a program that was
%% killed to be gone. Both are so at once, unless a disk does not answer.
-define(GONE_MS, 5000).

%% After this time the VM ends whatever is not done yet.
-define(LAST_MS, 30_000).

%% @doc Takes the place of the handler that would stop the VM in order, which
%% waits for work to end. The calling process is the one that works.
-spec install() -> ok.
install() ->
    ok = gen_event:swap_handler(erl_signal_server, {erl_signal_handler, []},
                                {?MODULE, self()}).

%% @private
-spec init({pid(), term()}) -> {ok, pid()}.
init({Worker, _}) -> {ok, Worker}.

%% @private
-spec handle_event(atom(), pid()) -> {ok, pid()} | no_return().
handle_event(sigterm, Worker) ->
    _ = spawn(fun last_resort/0),
    %% First nobody writes any more, then what was written goes. A step that fails does not
    %% keep the next one from being done, nor the VM from ending: gen_event would take a
    %% handler that fails away, and no signal would be heard any more.
    Left = lists:append([attempt(fun() -> suspend(Worker), [] end),
                         attempt(fun() -> ok = whittle_program:kill_all(?GONE_MS), [] end),
                         attempt(fun whittle_unfinished:undo_all/0),
                         attempt(fun whittle_runtime:undo/0)]),
    %% Not waiting for output: whoever stops us may not be reading.
    halt(case Left of [] -> 143; _ -> say(Left), 1 end, [{flush, false}]);
handle_event(_, Worker) -> {ok, Worker}.

%% @private
-spec handle_call(term(), pid()) -> {ok, ok, pid()}.
handle_call(_, Worker) -> {ok, ok, Worker}.

%% @private
-spec handle_info(term(), pid()) -> {ok, pid()}.
handle_info(_, Worker) -> {ok, Worker}.

%% Internal

-spec last_resort() -> no_return().
last_resort() ->
    receive after ?LAST_MS -> halt(1, [{flush, false}]) end.

attempt(Step) ->
    try Step()
    catch
        Class:Reason -> [{"stopping", {Class, Reason}}]
    end.

say(Left) ->
    Lines = [io_lib:format("whittle: stopped, but ~ts could not be undone (~0tp): remove it~n",
                           [Place, Reason]) || {Place, Reason} <- Left],
    {Pid, Monitor} = spawn_monitor(fun() -> io:put_chars(standard_error, Lines) end),
    receive {'DOWN', Monitor, process, Pid, _} -> ok
    after ?GONE_MS -> ok
    end.

%% Not killed: a process that is killed within a call to the file system is gone for
%% all others before that call has ended. One that is suspended is so only then. Asked at
%% once to be suspended within such a call, a process often answers at its end that it is
%% not (`suspend_process/1' raises `internal_error' for that); then it is asked again.
suspend(Worker) ->
    suspend(Worker, erlang:monotonic_time(millisecond) + ?GONE_MS).

suspend(Worker, Until) ->
    Asked = make_ref(),
    try erlang:suspend_process(Worker, [{asynchronous, Asked}]) of
        true ->
            receive
                {Asked, not_suspended} -> suspend(Worker, Until);
                {Asked, _} -> ok            % suspended, or it has come to its end
            after max(0, Until - erlang:monotonic_time(millisecond)) ->
                ok                          % a disk that does not answer
            end
    catch
        error:badarg -> ok                  % it had come to its end
    end.
