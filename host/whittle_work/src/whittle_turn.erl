%% @hidden Lets one process of this VM after another call a function.
%%
%% A server hands out the turn in the order of the requests. It starts with the first request and
%% stays. If a process ends during its turn, the next one gets it.
-module(whittle_turn).
-behaviour(gen_server).

-export([take/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The process that has the turn, and those that wait for it.
-type state() :: #{has := none | {pid(), reference()}, waiting := queue:queue(gen_server:from())}.

%% @doc Waits for the turn, and calls a function in the calling process. The function must not ask
%% for a turn itself.
-spec take(fun(() -> Result)) -> Result.
take(Fun) ->
    Server = server(),
    ok = gen_server:call(Server, take, infinity),
    try Fun()
    after gen_server:cast(Server, {done, self()})
    end.

server() ->
    case gen_server:start({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> Pid;
        {error, {already_started, Pid}} -> Pid
    end.

%% @private
-spec init([]) -> {ok, state()}.
init([]) -> {ok, #{has => none, waiting => queue:new()}}.

%% @private
-spec handle_call(take, gen_server:from(), state()) -> {noreply, state()}.
handle_call(take, From, #{waiting := Waiting} = State) ->
    {noreply, next(State#{waiting := queue:in(From, Waiting)})}.

%% @private
-spec handle_cast({done, pid()}, state()) -> {noreply, state()}.
handle_cast({done, Pid}, #{has := {Pid, Monitor}} = State) ->
    true = demonitor(Monitor, [flush]),
    {noreply, next(State#{has := none})}.

%% @private
-spec handle_info({'DOWN', reference(), process, pid(), term()}, state()) -> {noreply, state()}.
handle_info({'DOWN', Monitor, process, _, _}, #{has := {_, Monitor}} = State) ->
    {noreply, next(State#{has := none})}.

%% A process that ended while it waited is gone at once: its monitor says so.
next(#{has := none, waiting := Waiting} = State) ->
    case queue:out(Waiting) of
        {{value, {Pid, _} = From}, Left} ->
            Monitor = monitor(process, Pid),
            gen_server:reply(From, ok),
            State#{has := {Pid, Monitor}, waiting := Left};
        {empty, _} ->
            State
    end;
next(State) -> State.
