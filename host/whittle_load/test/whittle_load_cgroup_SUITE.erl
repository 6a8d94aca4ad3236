%% Tests the account of control groups with a process of this machine.
-module(whittle_load_cgroup_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, used/1]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [used].

%% A process that joins, takes memory and leaves
used(_) ->
    case whittle_load_cgroup:make("test") of
        {ok, Group} ->
            {ok, Empty} = whittle_load_cgroup:used(Group),
            %% It keeps its input until the end.
            Port = open_port({spawn_executable, os:find_executable("sort")}, [binary]),
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            ok = whittle_load_cgroup:add(Pid, Group),
            true = port_command(Port, binary:copy(<<"line\n">>, 1_000_000)),
            ok = until_more(Empty + 4_000_000, Group),
            {ok, Used} = whittle_load_cgroup:used(Group),
            {ok, Kernel} = whittle_load_cgroup:kernel(Group),
            ?assert(Used >= Kernel),
            ok = whittle_load_cgroup:leave(Pid, Group),
            ok = whittle_load_cgroup:remove(Group),
            ?assertEqual({error, unknown}, whittle_load_cgroup:used(Group)),
            port_close(Port);
        none -> {skip, "needs a control group for memory, which only root can make"}
    end.

%% The group's account follows after a moment. The suite's time trap ends a wait in vain.
until_more(Least, Group) ->
    case whittle_load_cgroup:used(Group) of
        {ok, Used} when Used > Least -> ok;
        {ok, _} -> until_more(Least, Group)
    end.
