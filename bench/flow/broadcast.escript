#!/usr/bin/env escript
%% Compares a broadcast to 10,000 processes with a plain loop of sends.
%%
%% Model: 10,000 processes count their messages in a `counters' array. `one' is a single message.
%% The script measures the time until all have it, and separately the caller's time in the call.
%% `stream' is 20 messages as fast as the caller can send. The small message is {tick, 1}, the large
%% one a term of 128 words (1 KB). A broadcast's message is a list with its envelope, and the loop's
%% message is bare. Both take turns in each of ROUNDS rounds.
%%
%% Then the script measures other ways to give the large term to all, from one process. `encoded
%% once' sends a binary that each member decodes. `shared' puts a persistent term, sends the term
%% that it reads back, and erases it (the time includes this).
%%
%% run: bench/run [OTP-ROOT] flow/broadcast.escript [ROUNDS [RELAYS]]
-mode(compile).

-define(MEMBERS, 10000).

main(Args) ->
    {Rounds, Options} = case [list_to_integer(A) || A <- Args] of
                            [] -> {21, #{}};
                            [R] -> {R, #{}};
                            [R, Fanouts] -> {R, #{fanouts => Fanouts}}
                        end,
    {ok, _} = application:ensure_all_started(whittle_flow),
    io:format("OTP ~s, ~p, ~p schedulers, ~p members, ~p rounds~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), ?MEMBERS, Rounds]),
    Counter = counters:new(1, [write_concurrency]),
    Pids = [spawn_link(fun() -> member(Counter) end) || _ <- lists:seq(1, ?MEMBERS)],
    {ok, _} = whittle_flow_group:start_link(bench_group, Options),
    [ok = whittle_flow_group:join(bench_group, P) || P <- Pids],
    Term = [{X, X * 1000, [X]} || X <- lists:seq(1, 16)],
    128 = erts_debug:flat_size(Term),
    [compare(What, Message, Times, Counter, Pids, Rounds)
     || Times <- [1, 20], {What, Message} <- [{"small", {tick, 1}}, {"1 KB", Term}]],
    ways(Term, Counter, Pids, Rounds).

member(Counter) ->
    receive
        {whittle_flow_group, _, Messages} -> counters:add(Counter, 1, length(Messages));
        {encoded, Binary} -> _ = binary_to_term(Binary), counters:add(Counter, 1, 1);
        _ -> counters:add(Counter, 1, 1)
    end,
    member(Counter).

compare(What, Message, Times, Counter, Pids, Rounds) ->
    Loop = fun() -> send(Pids, Message) end,
    Group = fun() -> ok = whittle_flow_group:broadcast(bench_group, Message) end,
    Results = [{time(Loop, Times, Counter), time(Group, Times, Counter)}
               || _ <- lists:seq(1, Rounds)],
    {LoopCalls, LoopAll} = lists:unzip([L || {L, _} <- Results]),
    {GroupCalls, GroupAll} = lists:unzip([G || {_, G} <- Results]),
    io:format("~s, ~p message(s) | us, loop | us, broadcast | broadcast / loop~n"
              "  the caller   ~-28s ~-28s ~s~n  until all    ~-28s ~-28s ~s~n",
              [What, Times, spread(LoopCalls), spread(GroupCalls), ratio(GroupCalls, LoopCalls),
               spread(LoopAll), spread(GroupAll), ratio(GroupAll, LoopAll)]).

ways(Term, Counter, Pids, Rounds) ->
    Ways = [{"copied", fun() -> send(Pids, Term) end},
            {"encoded once", fun() -> send(Pids, {encoded, term_to_binary(Term)}) end},
            {"shared", fun() ->
                               persistent_term:put(?MODULE, Term),
                               send(Pids, persistent_term:get(?MODULE)),
                               persistent_term:erase(?MODULE)
                       end}],
    Times = [[element(2, time(Way, 1, Counter)) || {_, Way} <- Ways] || _ <- lists:seq(1, Rounds)],
    io:format("1 KB, one message, ways of one process: us until all | to copied~n"),
    [begin
         All = [lists:nth(I, Round) || Round <- Times],
         io:format("  ~-13s ~-28s ~s~n", [Name, spread(All), ratio(All, [hd(R) || R <- Times])])
     end || {I, {Name, _}} <- lists:zip(lists:seq(1, length(Ways)), Ways)].

send([], _) -> ok;
send([Pid | Pids], Message) -> Pid ! Message, send(Pids, Message).

time(Send, Times, Counter) ->
    true = erlang:garbage_collect(),
    ok = counters:put(Counter, 1, 0),
    Start = erlang:monotonic_time(nanosecond),
    repeat(Times, Send),
    Sent = erlang:monotonic_time(nanosecond),
    until(Counter, Times * ?MEMBERS),
    End = erlang:monotonic_time(nanosecond),
    {(Sent - Start) / 1000, (End - Start) / 1000}.

repeat(0, _) -> ok;
repeat(N, Fun) -> Fun(), repeat(N - 1, Fun).

until(Counter, N) ->
    case counters:get(Counter, 1) of
        N -> ok;
        _ -> erlang:yield(), until(Counter, N)
    end.

ratio(A, B) ->
    R = [X / Y || {X, Y} <- lists:zip(A, B)],
    io_lib:format("~.3f (~.3f to ~.3f)", [median(R), lists:min(R), lists:max(R)]).
median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).
spread(L) -> io_lib:format("~.1f (~.1f to ~.1f)", [median(L), lists:min(L), lists:max(L)]).
