%% Tests the account of control groups with a process of this machine.
-module(whittle_load_cgroup_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, used/1]).

%% Takes 8 MB of memory when it gets a line, prints a line, and keeps the memory until the next one.
-define(PROGRAM, "$| = 1; <STDIN>; $memory = 'x' x 8_000_000; print qq(full\\n); <STDIN>;").

suite() -> [{timetrap, {minutes, 1}}].

all() -> [used].

%% A process that joins, takes memory and leaves
used(_) ->
    case whittle_load_cgroup:make("test") of
        {ok, Group} ->
            {ok, Empty} = whittle_load_cgroup:used(Group),
            Port = open_port({spawn_executable, os:find_executable("perl")},
                             [{args, ["-e", ?PROGRAM]}, {line, 80}]),
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            ok = whittle_load_cgroup:add(Pid, Group),
            true = port_command(Port, "fill\n"),
            receive {Port, {data, {eol, "full"}}} -> ok end,
            {ok, Used} = whittle_load_cgroup:used(Group),
            ?assert(Used > Empty + 4_000_000),
            {ok, Kernel} = whittle_load_cgroup:kernel(Group),
            ?assert(Used >= Kernel),
            ok = whittle_load_cgroup:leave(Pid, Group),
            ok = whittle_load_cgroup:remove(Group),
            ?assertEqual({error, unknown}, whittle_load_cgroup:used(Group)),
            port_close(Port);
        none -> {skip, "needs a control group for memory, which only root can make"}
    end.
