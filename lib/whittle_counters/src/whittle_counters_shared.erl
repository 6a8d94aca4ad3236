%% @hidden Makes expensive answers, and gives each answer to all processes that wait for it.
%%
%% A process names the time since which its answer may have begun. It also gets an existing
%% answer, or one in the making, that began since then. At most one answer of a kind is in the
%% making.
%%
%% All processes that join the server are linked to it and end with it. It ends with the process
%% that started it.
-module(whittle_counters_shared).

-export([start_link/2, join/1, get/4]).

-record(shared, {owner :: pid(),
                 make :: fun((kind()) -> term()),
                 keep :: non_neg_integer(),
                 %% The time of the start, in native monotonic time.
                 making = #{} :: #{pid() => {kind(), integer()}},
                 made = #{} :: #{kind() => {integer(), term()}},
                 waiting = [] :: [{kind(), Since :: integer(), pid(), reference()}]}).

-type kind() :: term().

%% @doc Starts a server that makes answers with a function of their kind. It keeps each answer for
%% Keep milliseconds.
-spec start_link(fun((kind()) -> term()), non_neg_integer()) -> pid().
start_link(Make, Keep) ->
    Owner = self(),
    spawn_link(fun() ->
                       _ = process_flag(trap_exit, true),
                       loop(#shared{owner = Owner, make = Make, keep = Keep})
               end).

%% @doc Ends the calling process when the server ends. Call it before {@link get/4}.
-spec join(pid()) -> ok.
join(Server) ->
    true = link(Server),
    ok.

%% @doc Gives an answer that was begun at Since (native, monotonic) or later. It waits for at most
%% Timeout milliseconds.
-spec get(pid(), kind(), Since :: integer(), timeout()) -> {ok, term()} | {error, failed | timeout}.
get(Server, Kind, Since, Timeout) ->
    Ref = make_ref(),
    Server ! {get, Kind, Since, self(), Ref},
    receive {Ref, Answer} -> Answer
    after Timeout -> {error, timeout}
    end.

loop(#shared{owner = Owner, making = Making, made = Made, waiting = Waiting} = State) ->
    receive
        {get, Kind, Since, Pid, Ref} ->
            case Made of
                #{Kind := {Begun, Answer}} when Begun >= Since ->
                    Pid ! {Ref, {ok, Answer}},
                    loop(State);
                _ -> loop(make(Kind, State#shared{waiting = [{Kind, Since, Pid, Ref} | Waiting]}))
            end;
        {made, Maker, Answer} ->
            {Kind, Begun} = map_get(Maker, Making),
            _ = erlang:send_after(State#shared.keep, self(), {forget, Kind, Begun}),
            Kept = State#shared{made = Made#{Kind => {Begun, Answer}}},
            loop(finished(Maker, {ok, Answer}, Kept));
        {forget, Kind, Begun} ->
            case Made of
                #{Kind := {Begun, _}} -> loop(State#shared{made = maps:remove(Kind, Made)});
                _ -> loop(State)
            end;
        {'EXIT', Owner, Reason} -> exit(Reason);
        {'EXIT', Maker, _} when is_map_key(Maker, Making) ->
            loop(finished(Maker, {error, failed}, State));
        {'EXIT', Pid, _} ->
            loop(State#shared{waiting = [W || {_, _, P, _} = W <- Waiting, P =/= Pid]})
    end.

%% Begins an answer of a kind, if a process waits for one and none is in the making.
make(Kind, #shared{make = Make, making = Making, waiting = Waiting} = State) ->
    case lists:keymember(Kind, 1, Waiting)
        andalso not lists:keymember(Kind, 1, maps:values(Making)) of
        true ->
            Self = self(),
            Begun = erlang:monotonic_time(),
            Maker = spawn_link(fun() -> Self ! {made, self(), Make(Kind)} end),
            State#shared{making = Making#{Maker => {Kind, Begun}}};
        false -> State
    end.

%% The processes for which the answer is young enough get it. The others wait for the next answer.
finished(Maker, Answer, #shared{making = Making, waiting = Waiting} = State) ->
    {Kind, Begun} = map_get(Maker, Making),
    {Get, Wait} = lists:partition(fun({K, Since, _, _}) -> K =:= Kind andalso Begun >= Since end,
                                  Waiting),
    _ = [Pid ! {Ref, Answer} || {_, _, Pid, Ref} <- Get],
    make(Kind, State#shared{making = maps:remove(Maker, Making), waiting = Wait}).
