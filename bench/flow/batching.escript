#!/usr/bin/env escript
%% Compares batches with one message for each send, from 10 senders to 1 receiver and to 100.
%%
%% Model: 10 processes send MESSAGES messages {reading, N} in all, to each receiver in turn. Each
%% receiver adds up the N. The time runs from the start signal until the receivers have all
%% messages. `plain' is Pid ! Message and a receive loop. `gen_batch_server's way' restates that
%% library's design in a few lines (floor 32, ceiling 8192, doubling and halving, one signal for
%% each message). `whittle_flow' is whittle_flow_sender:push (batch 100, window 10000) to a
%% whittle_flow_batcher. `lists of 100' is push_many with lists of 100, made while the clock runs.
%% All take turns in each of ROUNDS rounds.
%%
%% run: bench/run [OTP-ROOT] flow/batching.escript [ROUNDS]
-mode(compile).
-export([init/1, handle_batch/2]).

-define(MESSAGES, 1000000).
-define(SENDERS, 10).

main(Args) ->
    Rounds = case Args of [N] -> list_to_integer(N); [] -> 11 end,
    {ok, _} = application:ensure_all_started(whittle_flow),
    io:format("OTP ~s, ~p, ~p schedulers, ~p messages, ~p rounds~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), ?MESSAGES, Rounds]),
    [compare(Receivers, Rounds) || Receivers <- [1, 100]].

compare(Receivers, Rounds) ->
    Kinds = [{"plain", fun plain/1}, {"gen_batch_server's way", fun gathered/1},
             {"whittle_flow, push", fun(R) -> batched(R, fun push/2) end},
             {"whittle_flow, lists of 100", fun(R) -> batched(R, fun push_lists/2) end}],
    Times = [[Run(Receivers) || {_, Run} <- Kinds] || _ <- lists:seq(1, Rounds)],
    io:format("10 to ~p: ns a message | times as fast as plain~n", [Receivers]),
    [begin
         Ns = [lists:nth(I, R) / ?MESSAGES || R <- Times],
         Speedups = [hd(R) / lists:nth(I, R) || R <- Times],
         io:format("  ~-24s ~-28s ~s~n", [Name, spread(Ns), spread(Speedups)])
     end || {I, {Name, _}} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)].

time(Receivers, Receiver, Sender) ->
    Self = self(),
    Share = ?MESSAGES div Receivers,
    Pids = [Receiver(Self, Share) || _ <- lists:seq(1, Receivers)],
    Senders = [spawn_link(fun() -> receive go -> Sender(Pids) end end)
               || _ <- lists:seq(1, ?SENDERS)],
    Start = erlang:monotonic_time(nanosecond),
    [S ! go || S <- Senders],
    [receive {all, Sum} -> true = Sum > 0 end || _ <- Pids],
    Time = erlang:monotonic_time(nanosecond) - Start,
    [begin unlink(P), exit(P, kill) end || P <- Pids],
    Time.

%%% one message for each send

plain(Receivers) ->
    time(Receivers, fun(Test, Share) -> spawn_link(fun() -> sum(Test, Share, 0) end) end,
         fun(Pids) -> send(Pids, ?MESSAGES div ?SENDERS div length(Pids)) end).

send(_, 0) -> ok;
send(Pids, N) ->
    [Pid ! {reading, N} || Pid <- Pids],
    send(Pids, N - 1).

sum(Test, 0, Sum) -> Test ! {all, Sum};
sum(Test, Left, Sum) -> receive {reading, N} -> sum(Test, Left - 1, Sum + N) end.

%%% gathered by the receiver

gathered(Receivers) ->
    time(Receivers,
         fun(Test, Share) -> spawn_opt(fun() -> gather(Test, Share, 0, 32) end,
                                       [link, {message_queue_data, off_heap}]) end,
         fun(Pids) -> send(Pids, ?MESSAGES div ?SENDERS div length(Pids)) end).

gather(Test, 0, Sum, _) -> Test ! {all, Sum};
gather(Test, Left, Sum, Size) ->
    receive {reading, _} = First -> gather(Test, Left, Sum, Size, [First], 1) end.

gather(Test, Left, Sum, Size, Batch, Size) ->
    gather(Test, Left - Size, work(lists:reverse(Batch), Sum), min(8192, 2 * Size));
gather(Test, Left, Sum, Size, Batch, Count) ->
    receive {reading, _} = Message -> gather(Test, Left, Sum, Size, [Message | Batch], Count + 1)
    after 0 -> gather(Test, Left - Count, work(lists:reverse(Batch), Sum), max(32, Size div 2))
    end.

work(Batch, Sum) -> lists:foldl(fun({reading, N}, S) -> S + N end, Sum, Batch).

%%% whittle_flow

batched(Receivers, Push) ->
    time(Receivers,
         fun(Test, Share) ->
                 {ok, Pid} = whittle_flow_batcher:start_link(?MODULE, {Test, Share, 0}, #{}),
                 Pid
         end,
         fun(Pids) ->
                 Senders = [begin {ok, S} = whittle_flow_sender:new(P, #{wait => 0}), S end
                            || P <- Pids],
                 Pushed = Push(Senders, ?MESSAGES div ?SENDERS div length(Pids)),
                 [whittle_flow_sender:flush(S) || S <- Pushed]
         end).

push(Senders, 0) -> Senders;
push(Senders, N) -> push([whittle_flow_sender:push({reading, N}, S) || S <- Senders], N - 1).

push_lists(Senders, 0) -> Senders;
push_lists(Senders, N) ->
    push_lists([whittle_flow_sender:push_many([{reading, I} || I <- lists:seq(N, N - 99, -1)], S)
                || S <- Senders], N - 100).

init(State) -> State.

handle_batch(Batch, {Test, Left, Sum}) ->
    Sum1 = work(Batch, Sum),
    case Left - length(Batch) of
        0 -> Test ! {all, Sum1}, {Test, 0, Sum1};
        Left1 -> {Test, Left1, Sum1}
    end.

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).
spread(L) -> io_lib:format("~.1f (~.1f to ~.1f)", [median(L), lists:min(L), lists:max(L)]).
