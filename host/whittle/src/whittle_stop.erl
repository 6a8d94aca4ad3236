%% @doc What happens when the command is told to stop in the middle: nothing that it
%% began stays, and no program that it started goes on.
%%
%% The script `whittle' turns Ctrl-C into SIGTERM, since the VM keeps SIGINT for
%% itself, says that it was stopped, and gives the exit code.
-module(whittle_stop).
-behaviour(gen_event).

-export([install/0]).
-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

%% A program that was killed is gone at once, unless a disk does not answer.
-define(GONE_MS, 5000).

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
    %% First nobody writes any more, then what was written goes.
    suspend(Worker),
    end_programs(),
    ok = whittle_unfinished:undo_all(),
    ok = whittle_runtime:undo(),
    %% Not waiting for output: whoever stops us may not be reading.
    halt(143, [{flush, false}]);
handle_event(_, Worker) -> {ok, Worker}.

%% @private
-spec handle_call(term(), pid()) -> {ok, ok, pid()}.
handle_call(_, Worker) -> {ok, ok, Worker}.

%% @private
-spec handle_info(term(), pid()) -> {ok, pid()}.
handle_info(_, Worker) -> {ok, Worker}.

%% Not killed: a process that is killed within a call to the file system is gone for
%% all others before that call has ended. One that is suspended is so only then.
suspend(Worker) ->
    try erlang:suspend_process(Worker) of
        true -> ok
    catch
        error:badarg -> ok      % it has come to its end
    end.

%% Every program that a port runs is the leader of a process group, so that what it
%% has started in turn goes with it.
end_programs() ->
    Programs = [{erlang:monitor(port, Port), Pid}
                || Port <- erlang:ports(),
                   {os_pid, Pid} <- [erlang:port_info(Port, os_pid)], is_integer(Pid)],
    _ = [os:cmd("kill -s KILL -- -" ++ integer_to_list(Pid)) || {_, Pid} <- Programs],
    %% A port closes when no process is left that holds the program's output.
    lists:foreach(fun({Monitor, _}) ->
                          receive {'DOWN', Monitor, port, _, _} -> ok
                          after ?GONE_MS -> ok
                          end
                  end, Programs).
