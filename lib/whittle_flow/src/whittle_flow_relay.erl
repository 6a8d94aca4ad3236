%% @hidden Runs a former shard whose state went to the next generation. It passes on later
%% messages, so that they arrive after the state, and answers fences (whittle_flow_fence describes
%% the rule and its reasons).
-module(whittle_flow_relay).

-export([run/4]).

-record(relay, {parent :: pid(), pool :: atom(), queued :: atomics:atomics_ref(),
                %% The targets, and whether any passed message may still be open.
                routes :: whittle_flow_routes:routes(), open = false :: boolean(),
                %% The asking processes, and whether to end when all messages are handled.
                asked = [] :: [{pid(), term()}], retiring = false :: boolean()}).

%% @doc Passes messages on until the pool tells it to retire.
-spec run(pid(), atom(), whittle_flow_routes:routes(), atomics:atomics_ref()) -> ok.
run(Parent, Pool, Routes, Queued) ->
    %% The state is gone, so its memory can go too.
    true = garbage_collect(),
    relay(#relay{parent = Parent, pool = Pool, routes = Routes, queued = Queued}).

relay(#relay{asked = [], retiring = false} = Relay) ->
    receive Message -> relay(take(Message, Relay)) end;
relay(Relay) ->
    %% Messages in the queue go first, together with fences that can share the answer. The stream
    %% is finite: a sender sends one more message, and then knows the new generation.
    receive Message -> relay(take(Message, Relay))
    after 0 -> answer(Relay)
    end.

take({whittle_flow, Key, _} = Message, Relay) -> pass(Key, Message, Relay);
take({whittle_flow, Key, _, _} = Message, Relay) -> pass(Key, Message, Relay);
take({whittle_flow_many, _, Pairs}, Relay) ->
    lists:foldl(fun({Key, Message}, R) -> pass(Key, {whittle_flow, Key, Message}, R) end,
                Relay, Pairs);
take({whittle_flow_fence, From, Ref}, #relay{asked = Asked} = Relay) ->
    Relay#relay{asked = [{From, Ref} | Asked]};
take({whittle_flow_replace, Old, New}, #relay{routes = Routes} = Relay) ->
    Relay#relay{routes = list_to_tuple([case R of {Old, _} -> New; _ -> R end
                                        || R <- tuple_to_list(Routes)])};
take(whittle_flow_retire, Relay) -> Relay#relay{retiring = true};
take({'EXIT', Parent, Reason}, #relay{parent = Parent}) -> exit(Reason);
take(_, Relay) -> Relay.

pass(Key, Message, #relay{pool = Pool, open = false, routes = Last} = Relay) ->
    send(Key, Message, Relay#relay{open = true, routes = whittle_flow_routes:newest(Pool, Last)});
pass(Key, Message, Relay) ->
    send(Key, Message, Relay).

send(Key, Message, #relay{routes = Routes, queued = Queued} = Relay) ->
    {Pid, Next} = element(erlang:phash2(Key, tuple_size(Routes)) + 1, Routes),
    ok = atomics:sub(Queued, 1, 1),
    ok = atomics:add(Next, 1, 1),
    Pid ! Message,
    Relay.

answer(#relay{open = true, routes = Routes} = Relay) ->
    ok = whittle_flow_fence:through(Routes),
    answered(Relay#relay{open = false});
%% A sender takes the end of this process as an answer: all is handled, and nothing more has come.
answer(#relay{asked = [], retiring = true}) -> ok;
answer(Relay) -> answered(Relay).

answered(#relay{asked = Asked} = Relay) ->
    lists:foreach(fun({From, Ref}) -> From ! {whittle_flow_fenced, Ref} end, Asked),
    relay(Relay#relay{asked = []}).
