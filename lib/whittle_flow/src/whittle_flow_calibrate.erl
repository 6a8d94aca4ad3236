%% @hidden Measures on this machine where broadcasting by reference begins to pay.
-module(whittle_flow_calibrate).

-export([run/0]).

%% The numbers of members and words to try, and the repetitions.
-define(MEMBERS, [10, 30, 100, 300, 1000]).
-define(WORDS, [16, 32, 64, 128, 256, 512, 1024]).
-define(ROUNDS, 15).

%% @doc Measures the options `shared' and `sharers' of whittle_flow_group for this machine.
%% `shared' is the number of words from which sharing beats copying for a thousand members.
%% `sharers' is the number of members from which sharing pays for a term of 1024 words. The cost
%% of a shared term includes its removal. If sharing never pays, the result is the largest tried
%% number. The measurement takes a part of a second (35 to 520 ms on two busy cores of x86-64).
%% Run it while the machine does nothing else.
-spec run() -> #{shared := pos_integer(), sharers := pos_integer()}.
run() ->
    Counter = counters:new(1, [write_concurrency]),
    Pids = [spawn_link(fun() -> member(Counter) end) || _ <- lists:seq(1, lists:max(?MEMBERS))],
    Pays = fun(Members, Words) ->
                   Some = lists:sublist(Pids, Members),
                   Term = lists:seq(1, Words div 2),
                   shared(Some, Term, Counter) < copied(Some, Term, Counter)
           end,
    Result = #{shared => first(?WORDS, fun(W) -> Pays(lists:max(?MEMBERS), W) end),
               sharers => first(?MEMBERS, fun(M) -> Pays(M, lists:max(?WORDS)) end)},
    [begin true = unlink(P), exit(P, kill) end || P <- Pids],
    Result.

first([Last], _) -> Last;
first([X | Rest], Pays) -> case Pays(X) of true -> X; false -> first(Rest, Pays) end.

member(Counter) ->
    receive _ -> counters:add(Counter, 1, 1), member(Counter) end.

copied(Pids, Term, Counter) -> median(fun() -> send(Pids, Term) end, length(Pids), Counter).

shared(Pids, Term, Counter) ->
    Key = {?MODULE, make_ref()},
    median(fun() ->
                   persistent_term:put(Key, Term),
                   send(Pids, persistent_term:get(Key)),
                   persistent_term:erase(Key)
           end, length(Pids), Counter).

median(Send, N, Counter) ->
    Times = [time(Send, N, Counter) || _ <- lists:seq(1, ?ROUNDS)],
    lists:nth(?ROUNDS div 2 + 1, lists:sort(Times)).

time(Send, N, Counter) ->
    ok = counters:put(Counter, 1, 0),
    Start = erlang:monotonic_time(),
    Send(),
    until(Counter, N),
    erlang:monotonic_time() - Start.

send(Pids, Term) -> lists:foreach(fun(Pid) -> Pid ! Term end, Pids).

until(Counter, N) ->
    case counters:get(Counter, 1) of
        N -> ok;
        _ -> erlang:yield(), until(Counter, N)
    end.
