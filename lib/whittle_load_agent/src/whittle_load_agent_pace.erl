%% @doc Starts the users of an agent at their intended times.
%% @hidden
-module(whittle_load_agent_pace).

-export([start_link/3, take/1, last/1]).

-record(pace, {parent :: pid(),
               start :: integer(),                    % of the run, in monotonic nanoseconds
               stream :: whittle_load_agent_arrivals:stream(),
               shard :: whittle_load_agent_arrivals:shard(),
               random :: whittle_load_agent_random:state(),
               weights :: [{pos_integer(), pos_integer()}],   % cumulative weight, class
               total :: pos_integer(),
               users = 0 :: non_neg_integer(),        % started by this agent
               closed = 0 :: non_neg_integer(),       % closed users that shall run
               agents :: atomics:atomics_ref(),
               arrivals = #{} :: arrivals()}).

%% The users that should have started in a second of the run, and those that did.
-type arrivals() :: #{non_neg_integer() => {non_neg_integer(), non_neg_integer()}}.

-define(SECOND, 1_000_000_000).
-define(MILLISECOND, 1_000_000).

%% @doc Starts the process. Start is the beginning of the run in monotonic nanoseconds, at a whole
%% millisecond. When all users have started, the caller gets `{paced, Pid}'.
-spec start_link(whittle_load_agent:plan(), integer(), atomics:atomics_ref()) -> {ok, pid()}.
start_link(#{phases := Phases, shard := {Index, _} = Shard, seed := Seed, classes := Classes},
           Start, Agents) ->
    {Weights, Total} =
        lists:mapfoldl(fun({Class, #{weight := Weight}}, Before) ->
                               {{Before + Weight, Class}, Before + Weight}
                       end, 0, lists:zip(lists:seq(1, length(Classes)), Classes)),
    Pace = #pace{parent = self(), start = Start, shard = Shard, agents = Agents,
                 stream = whittle_load_agent_arrivals:new(Phases, Shard, Seed),
                 random = whittle_load_agent_random:seed({Seed, users, Index}),
                 weights = Weights, total = Total},
    %% Users that run must not delay the starts of others.
    {ok, spawn_opt(fun() -> next(Pace) end, [link, {priority, high}])}.

%% @doc Takes the arrivals since the last call. A second may come in several answers.
-spec take(pid()) -> arrivals().
take(Pid) -> asked(take, Pid).

%% @doc Takes the arrivals at the end of a run. Users that should have started and did not are among
%% the planned ones.
-spec last(pid()) -> arrivals().
last(Pid) -> asked(last, Pid).

%% The caller traps exits, so only the monitor ends its wait for a process that has crashed.
asked(What, Pid) ->
    Ref = monitor(process, Pid),
    Pid ! {What, self(), Ref},
    receive
        {Ref, Arrivals} ->
            true = demonitor(Ref, [flush]),
            Arrivals;
        {'DOWN', Ref, process, _, Reason} -> exit(Reason)
    end.

next(#pace{stream = Stream} = Pace) ->
    case whittle_load_agent_arrivals:next(Stream) of
        {start, Exact, Next} ->
            At = whole(Exact),
            Waited = until(At, Pace#pace{stream = Next}),
            {Class, Random, User} = user(Waited),
            next(started(At, Class, Random, User));
        {closed, Exact, Users, Next} ->
            At = whole(Exact),
            next(closed(Users, At, until(At, Pace#pace{stream = Next})));
        none ->
            Pace#pace.parent ! {paced, self()},
            idle(Pace)
    end.

%% A start before its moment would count a negative latency.
whole(Ns) -> (Ns + ?MILLISECOND - 1) div ?MILLISECOND * ?MILLISECOND.

%% Waits until a moment of the run, a whole millisecond like the VM's timers.
until(At, #pace{start = Start} = Pace) ->
    case Start + At > now_ns() of
        true ->
            Timer = erlang:start_timer((Start + At) div ?MILLISECOND, self(), go, [{abs, true}]),
            waited(Timer, Pace);
        false ->
            %% Also an agent that is late must send its samples.
            receive
                {take, From, Ref} -> until(At, taken(From, Ref, Pace));
                {last, From, Ref} -> until(At, taken(From, Ref, overdue(At, Pace)))
            after 0 -> Pace
            end
    end.

overdue(At, #pace{stream = Stream, start = Start, arrivals = Arrivals} = Pace) ->
    Next = Pace#pace{arrivals = counted(1, At div ?SECOND, Arrivals)},
    case whittle_load_agent_arrivals:next(Stream) of
        {start, Exact, More} ->
            case Start + whole(Exact) =< now_ns() of
                true -> overdue(whole(Exact), Next#pace{stream = More});
                false -> Next
            end;
        _ -> Next
    end.

waited(Timer, Pace) ->
    receive
        {What, From, Ref} when What =:= take; What =:= last ->
            waited(Timer, taken(From, Ref, Pace));
        {timeout, Timer, go} -> Pace
    end.

idle(Pace) ->
    receive
        {What, From, Ref} when What =:= take; What =:= last -> idle(taken(From, Ref, Pace))
    end.

taken(From, Ref, #pace{arrivals = Arrivals} = Pace) ->
    From ! {Ref, Arrivals},
    Pace#pace{arrivals = #{}}.

user(#pace{random = Random, weights = Weights, total = Total} = Pace) ->
    {Number, Next} = whittle_load_agent_random:below(Total, Random),
    {_, Class} = hd(lists:dropwhile(fun({Most, _}) -> Most =< Number end, Weights)),
    {Own, Last} = whittle_load_agent_random:split(Next),
    {Class, Own, Pace#pace{random = Last}}.

started(At, Class, Random, #pace{start = Start, arrivals = Arrivals} = Pace) ->
    _ = whittle_load_agent_user:start(id(Pace), Class, Start + At, Random),
    Now = now_ns(),
    ok = whittle_load_agent_tally:count(started),
    ok = whittle_load_agent_tally:late(max(0, Now - Start - At)),
    Pace#pace{users = Pace#pace.users + 1,
              arrivals = counted(2, (Now - Start) div ?SECOND,
                                 counted(1, At div ?SECOND, Arrivals))}.

%% No number occurs twice among all agents.
id(#pace{users = Users, shard = {Index, Count}}) -> Users * Count + Index.

counted(Element, Second, Arrivals) ->
    Pair = maps:get(Second, Arrivals, {0, 0}),
    Arrivals#{Second => setelement(Element, Pair, element(Element, Pair) + 1)}.

%% Changes the number of closed users. Those with a higher number end after their cycle.
closed(Users, At, #pace{closed = Before, agents = Agents} = Pace) ->
    ok = atomics:put(Agents, 1, Users),
    lists:foldl(fun(N, Before1) ->
                        {Class, Random, Next} = user(Before1),
                        started(At, {closed, N, Class}, Random, Next)
                end, Pace#pace{closed = Users}, lists:seq(Before + 1, max(Before, Users))).

now_ns() -> erlang:monotonic_time(nanosecond).
