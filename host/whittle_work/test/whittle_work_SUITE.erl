%% Checks that a parallel map gives the result of a sequential one.
-module(whittle_work_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([as_map/1, raises/1, own_messages/1]).

all() -> [as_map, raises, own_messages].

as_map(_) ->
    Double = fun(N) -> 2 * N end,
    [?assertEqual(lists:map(Double, List), whittle_work:map(Double, List))
     || N <- [0, 1, 2, 3, 100], List <- [lists:seq(1, N)]].

%% An exception in one call is raised, and the other calls end. The second call knows that the
%% first has begun.
raises(_) ->
    Self = self(),
    Between = spawn(fun() ->
                            receive {first, Pid} -> receive {second, To} -> To ! Pid end end
                    end),
    Call = fun(1) -> Between ! {first, self()}, receive never -> ok end;
              (2) -> Between ! {second, self()}, receive One -> error({wrong, One}) end;
              (_) -> Self ! went_on
           end,
    Count = erlang:system_flag(schedulers_online, 2),
    First = try whittle_work:map(Call, [1, 2, 3]) of
                Results -> error({no_error, Results})
            catch
                error:{{wrong, One}, [_ | _]} -> One
            after
                erlang:system_flag(schedulers_online, Count)
            end,
    Monitor = monitor(process, First),
    receive {'DOWN', Monitor, process, First, _} -> ok end,
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% The caller's own messages stay in its mailbox.
own_messages(_) ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    Down = receive {'DOWN', Monitor, process, Pid, normal} = Message -> Message end,
    self() ! Down,
    ?assertEqual([1, 2, 3], whittle_work:map(fun(N) -> N end, [1, 2, 3])),
    ?assertEqual({messages, [Down]}, process_info(self(), messages)).
