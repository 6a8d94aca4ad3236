%% @doc What happens when the command is told to stop in the middle: what it
%% began to write is removed, what it started ends with it.
%%
%% The script `whittle' turns Ctrl-C into SIGTERM, since the VM keeps SIGINT for
%% itself, says that it was stopped, and gives the exit code. Builds of a runtime
%% end when the VM does.
-module(whittle_stop).
-behaviour(gen_event).

-export([install/0]).
-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

%% @doc Takes the place of the handler that would stop the VM in order, which
%% waits for work to end.
-spec install() -> ok.
install() ->
    ok = gen_event:swap_handler(erl_signal_server, {erl_signal_handler, []}, {?MODULE, []}).

%% @private
-spec init(term()) -> {ok, []}.
init(_) -> {ok, []}.

%% @private
-spec handle_event(atom(), []) -> {ok, []} | no_return().
handle_event(sigterm, _) ->
    ok = whittle_pack:remove_unfinished(),
    %% Not waiting for output: whoever stops us may not be reading.
    halt(143, [{flush, false}]);
handle_event(_, State) -> {ok, State}.

%% @private
-spec handle_call(term(), []) -> {ok, ok, []}.
handle_call(_, State) -> {ok, ok, State}.

%% @private
-spec handle_info(term(), []) -> {ok, []}.
handle_info(_, State) -> {ok, State}.
