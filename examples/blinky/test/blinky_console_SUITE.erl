%% The console, with a fake device for standard input.
-module(blinky_console_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([noise/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [noise].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

%% Bytes that are no text end the process, so that the supervisor starts it again. The VM goes on.
noise(_) ->
    _ = process_flag(trap_exit, true),
    Leader = group_leader(),
    Device = spawn_link(fun Fail() ->
                                receive {io_request, From, As, _} ->
                                        From ! {io_reply, As, {error, collect_line}},
                                        Fail()
                                end
                        end),
    true = group_leader(Device, self()),
    {ok, Console} = blinky_console:start_link(),
    true = group_leader(Leader, self()),
    ?assertEqual({input, collect_line}, receive {'EXIT', Console, Reason} -> Reason end).
