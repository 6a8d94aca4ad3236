%% @doc Keeps the answer to the question whether this node reaches a leader.
%%
%% Only a question to the leader can tell that, and the leader then asks most nodes. But anybody may
%% ask for `/ready' and `/metrics', without a password. So one question serves all who ask while it
%% goes on and a moment later: the leader gets at most five questions in a second from each node.
%% @hidden
-module(docket_ra_ready).
-behaviour(gen_server).

-export([start_link/1, ask/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(FRESH_MS, 200).
%% A question ends after a second (docket_store_ra).
-define(CALL_MS, 2000).

%% `asker' puts the question. The callers wait for its answer.
-record(state, {question :: fun(() -> boolean()),
                asker = none :: none | pid(),
                callers = [] :: [gen_server:from()],
                answer = none :: none | {boolean(), Since :: integer()}}).

%% @doc Starts the process with its question.
-spec start_link(fun(() -> boolean())) -> gen_server:start_ret().
start_link(Question) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Question, []).

%% @doc Returns an answer that is at most 0.2 s old, or waits for one. False without an answer.
-spec ask() -> boolean().
ask() ->
    try gen_server:call(?MODULE, ask, ?CALL_MS)
    catch exit:_ -> false
    end.

%% @private
-spec init(fun(() -> boolean())) -> {ok, #state{}}.
init(Question) -> {ok, #state{question = Question}}.

%% @private
-spec handle_call(ask, gen_server:from(), #state{}) ->
          {reply, boolean(), #state{}} | {noreply, #state{}}.
handle_call(ask, From, #state{question = Question, asker = Asker, callers = Callers,
                              answer = Answer} = State) ->
    Now = now_ms(),
    case {Answer, Asker} of
        {{Ready, Since}, _} when Now - Since < ?FRESH_MS -> {reply, Ready, State};
        {_, none} ->
            {New, _} = spawn_monitor(fun() -> exit({answer, Question()}) end),
            {noreply, State#state{asker = New, callers = [From]}};
        {_, _} -> {noreply, State#state{callers = [From | Callers]}}
    end.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', _, process, Asker, Reason}, #state{asker = Asker} = State) ->
    Ready = Reason =:= {answer, true},
    _ = [gen_server:reply(Caller, Ready) || Caller <- State#state.callers],
    {noreply, State#state{asker = none, callers = [], answer = {Ready, now_ms()}}};
handle_info(_, State) -> {noreply, State}.

now_ms() -> erlang:monotonic_time(millisecond).
