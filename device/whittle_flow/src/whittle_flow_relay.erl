%% @doc What is left of a shard whose state went to the next generation: it
%% passes on what still comes, so that it arrives behind the state.
-module(whittle_flow_relay).

-export([run/3]).

-record(relay, {parent :: pid(), routes :: whittle_flow_shard:routes(),
                queued :: atomics:atomics_ref(),
                %% Fences under way: who asked, and how many have not answered.
                fences = #{} :: #{reference() => {pid(), reference(), pos_integer()}},
                waiting = #{} :: #{reference() => reference()},
                %% Our own fence, which is the last thing we wait for.
                retiring = none :: none | reference()}).

%% @doc Passes on until it is told to retire.
-spec run(pid(), whittle_flow_shard:routes(), atomics:atomics_ref()) -> ok.
run(Parent, Routes, Queued) ->
    %% The state is gone, its memory may go too.
    true = garbage_collect(),
    relay(#relay{parent = Parent, routes = Routes, queued = Queued}).

relay(#relay{routes = Routes, queued = Queued, retiring = Retiring} = Relay) ->
    receive
        {whittle_flow, Key, _} = Message ->
            pass(Key, Message, Routes, Queued),
            relay(Relay);
        {whittle_flow, Key, _, _} = Message ->
            pass(Key, Message, Routes, Queued),
            relay(Relay);
        {whittle_flow_many, _, Pairs} ->
            lists:foreach(fun({Key, Message}) ->
                                  pass(Key, {whittle_flow, Key, Message}, Routes, Queued)
                          end, Pairs),
            relay(Relay);
        {whittle_flow_fence, From, Ref} ->
            relay(fence(From, Ref, Relay));
        {whittle_flow_fenced, Retiring} ->
            ok;
        {whittle_flow_fenced, Ref} ->
            true = demonitor(Ref, [flush]),
            relay(fenced(Ref, Relay));
        {'DOWN', Ref, process, _, _} ->
            relay(fenced(Ref, Relay));
        {whittle_flow_replace, Old, New} ->
            relay(Relay#relay{routes = list_to_tuple([case R of {Old, _} -> New; _ -> R end
                                                      || R <- tuple_to_list(Routes)])});
        whittle_flow_retire ->
            %% A sender takes our end for a fence: what we passed on has to be there.
            Own = make_ref(),
            relay(fence(self(), Own, Relay#relay{retiring = Own}));
        {'EXIT', Parent, Reason} when Parent =:= Relay#relay.parent ->
            exit(Reason);
        _ ->
            relay(Relay)
    end.

pass(Key, Message, Routes, Queued) ->
    {Pid, Next} = element(erlang:phash2(Key, tuple_size(Routes)) + 1, Routes),
    ok = atomics:sub(Queued, 1, 1),
    ok = atomics:add(Next, 1, 1),
    Pid ! Message,
    ok.

%% A fence goes the way that this shard's messages went, to each of the next
%% generation, and is answered when all of those answered.
fence(From, Ref, #relay{routes = Routes, fences = Fences, waiting = Waiting} = Relay) ->
    Id = make_ref(),
    Asked = [begin
                 Monitor = monitor(process, Pid),
                 Pid ! {whittle_flow_fence, self(), Monitor},
                 {Monitor, Id}
             end || {Pid, _} <- tuple_to_list(Routes)],
    Relay#relay{fences = Fences#{Id => {From, Ref, length(Asked)}},
                waiting = maps:merge(Waiting, maps:from_list(Asked))}.

fenced(Monitor, #relay{fences = Fences, waiting = Waiting} = Relay) ->
    case maps:take(Monitor, Waiting) of
        {Id, Waiting1} ->
            case maps:get(Id, Fences) of
                {From, Ref, 1} ->
                    From ! {whittle_flow_fenced, Ref},
                    Relay#relay{fences = maps:remove(Id, Fences), waiting = Waiting1};
                {From, Ref, N} ->
                    Relay#relay{fences = Fences#{Id := {From, Ref, N - 1}}, waiting = Waiting1}
            end;
        error ->
            Relay
    end.
