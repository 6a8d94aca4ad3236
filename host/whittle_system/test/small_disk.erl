%% @doc A file system that is soon full, for tests of what happens then.
-module(small_disk).

-export([with/2]).

%% @doc Calls the function with a directory that has room for so much ("64k"), and gives
%% what it gives; or says why this machine cannot make one, as a test case does.
%%
%% It is mounted in a user and mount namespace, so that nobody has to be root; a process
%% holds that, and we look in through `/proc'. It goes with the process.
with(Size, Fun) ->
    Script = "mount -t tmpfs -o size=" ++ Size ++ " none /tmp && echo ready && read end",
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
