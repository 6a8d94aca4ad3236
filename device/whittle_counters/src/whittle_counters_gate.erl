%% @doc Lets a few processes in at a time, in the order in which they ask. While others wait,
%% the gate ends one that keeps them waiting because its client does not read.
%%
%% All that pass the gate are linked to it: they end when it ends. It ends with the process
%% that started it.
-module(whittle_counters_gate).

-export([start_link/2, join/1, pass/2]).
-export_type([waiting/0]).

-type waiting() :: fun((fun(() -> Result)) -> Result).
%% Runs a function that waits for the client. The gate adds up that time.

-record(gate, {owner :: pid(), places :: pos_integer(), patience :: pos_integer(),
               %% Those who are in: since when their client has kept them, and for how many
               %% milliseconds it had kept them before.
               inside = #{} :: #{pid() => {integer() | none, non_neg_integer()}},
               waiting = [] :: [pid()]}).

%% @doc Starts a gate with so many places. Patience is in milliseconds: the time that a client
%% may keep its place without reading while others wait.
-spec start_link(pos_integer(), pos_integer()) -> pid().
start_link(Places, Patience) ->
    Owner = self(),
    spawn_link(fun() ->
                       _ = process_flag(trap_exit, true),
                       loop(#gate{owner = Owner, places = Places, patience = Patience})
               end).

%% @doc Ends the calling process when the gate ends. Comes before {@link pass/2}.
-spec join(pid()) -> ok.
join(Gate) ->
    true = link(Gate),
    ok.

%% @doc Runs a function in one of the gate's places.
-spec pass(pid(), fun((waiting()) -> Result)) -> Result.
pass(Gate, Fun) ->
    Gate ! {enter, self()},
    receive {enter, Gate} -> ok end,
    Result = Fun(fun(Wait) ->
                         Gate ! {waits, self(), now_ms()},
                         Waited = Wait(),
                         Gate ! {goes_on, self(), now_ms()},
                         Waited
                 end),
    Gate ! {leave, self()},
    Result.

loop(#gate{places = Places, inside = Inside, waiting = [Pid | Waiting]} = Gate)
  when map_size(Inside) < Places ->
    Pid ! {enter, self()},
    loop(Gate#gate{inside = Inside#{Pid => {none, 0}}, waiting = Waiting});
loop(#gate{owner = Owner, inside = Inside, waiting = Waiting} = Gate) ->
    receive
        {enter, Pid} -> loop(Gate#gate{waiting = Waiting ++ [Pid]});
        {waits, Pid, Now} -> loop(Gate#gate{inside = waits(Pid, Now, Inside)});
        {goes_on, Pid, Now} -> loop(Gate#gate{inside = goes_on(Pid, Now, Inside)});
        {leave, Pid} -> loop(left(Pid, Gate));
        {'EXIT', Owner, Reason} -> exit(Reason);
        {'EXIT', Pid, _} -> loop(left(Pid, Gate))
    after patience(Gate) -> loop(impatient(Gate))
    end.

%% One that the gate has ended may have said something before.
waits(Pid, Now, Inside) ->
    case Inside of
        #{Pid := {none, Kept}} -> Inside#{Pid := {Now, Kept}};
        _ -> Inside
    end.

goes_on(Pid, Now, Inside) ->
    case Inside of
        #{Pid := {Since, Kept}} -> Inside#{Pid := {none, Kept + Now - Since}};
        _ -> Inside
    end.

left(Pid, #gate{inside = Inside, waiting = Waiting} = Gate) ->
    Gate#gate{inside = maps:remove(Pid, Inside), waiting = lists:delete(Pid, Waiting)}.

%% How long those who wait have to wait at most for the slowest client.
patience(#gate{waiting = []}) -> infinity;
patience(#gate{patience = Patience} = Gate) ->
    case slowest(Gate) of
        none -> infinity;
        {Kept, _} -> max(0, Patience - Kept)
    end.

slowest(#gate{inside = Inside}) ->
    Now = now_ms(),
    case [{Kept + Now - Since, Pid} || {Pid, {Since, Kept}} <- maps:to_list(Inside),
                                       Since =/= none] of
        [] -> none;
        Slow -> lists:max(Slow)
    end.

impatient(#gate{patience = Patience} = Gate) ->
    case slowest(Gate) of
        {Kept, Pid} when Kept >= Patience ->
            true = exit(Pid, kill),
            receive {'EXIT', Pid, _} -> ok end,
            {error, _} = whittle_counters_table:reject(undefined, {scrape_cut_off, slow}),
            left(Pid, Gate);
        _ -> Gate
    end.

now_ms() -> erlang:monotonic_time(millisecond).
