%% @doc Provides a small file system for tests of a full disk, or one that is read-only.
-module(small_disk).

-export([with/2, read_only/1]).

%% @doc Calls the function with a directory of limited size ("64k") and returns its result. If
%% this machine cannot make such a directory, the result skips the test case with the reason.
%%
%% The file system is mounted in a user and mount namespace, so the test needs no root access. A
%% process holds the namespace, and the test reaches it through `/proc'. The file system ends with
%% the process.
with(Size, Fun) -> mounted("size=" ++ Size, Fun).

%% @doc Calls the function with a directory that nobody can write to, as {@link with/2} does.
read_only(Fun) -> mounted("ro", Fun).

mounted(Options, Fun) ->
    Script = "mount -t tmpfs -o " ++ Options ++ " none /tmp && echo ready && read end",
    Port = open_port({spawn_executable, os:find_executable("unshare")},
                     [{args, ["--mount", "--map-root-user", "/bin/sh", "-c", Script]},
                      {line, 1000}, stderr_to_stdout, exit_status, binary]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    receive
        {Port, {data, {eol, <<"ready">>}}} ->
            try Fun("/proc/" ++ integer_to_list(Pid) ++ "/root/tmp")
            after port_close(Port)
            end;
        {Port, {data, {eol, Said}}} ->
            receive {Port, {exit_status, _}} -> ok end,
            {skip, "no file system can be mounted here, not even in a user namespace: "
             ++ binary_to_list(Said)}
    end.
