%% @doc Finds the processes of this machine that listen on the port of a target, and reads their CPU
%% time and memory.
%%
%% proc(5): /proc/net/tcp has the inode of each listening socket, and /proc/PID/fd names the sockets
%% of a process. A process of another user, or of another network namespace, stays unknown.
%% @hidden
-module(whittle_load_server).

-export([find/1, read/1, listeners/2]).

%% USER_HZ is 100 on all of Linux's processors.
-define(TICK_MS, 10).
-define(PAGE, 4096).

%% @doc Finds the processes. The list is empty if there are none, or none that this user may see.
-spec find(whittle_load_agent:target()) -> [pos_integer()].
find(#{port := Port}) ->
    case lists:append([inodes(File, Port) || File <- ["/proc/net/tcp", "/proc/net/tcp6"]]) of
        [] -> [];
        Inodes ->
            Sockets = [lists:concat(["socket:[", Inode, "]"]) || Inode <- Inodes],
            [Pid || Entry <- filelib:wildcard("[0-9]*", "/proc"),
                    {Pid, ""} <- [string:to_integer(Entry)], owns(Pid, Sockets)]
    end.

inodes(File, Port) ->
    case file:read_file(File) of
        {ok, Text} -> listeners(Text, Port);
        {error, _} -> []
    end.

%% @doc Returns the inodes of the sockets that listen on a port, from the text of /proc/net/tcp.
-spec listeners(binary(), inet:port_number()) -> [pos_integer()].
listeners(Text, Port) ->
    Ending = iolist_to_binary(io_lib:format(":~4.16.0B", [Port])),
    [binary_to_integer(Inode)
     || Line <- binary:split(Text, <<"\n">>, [global]),
        %% State 0A is LISTEN.
        [_, Local, _, <<"0A">>, _, _, _, _, _, Inode | _]
            <- [binary:split(Line, <<" ">>, [global, trim_all])],
        binary:longest_common_suffix([Local, Ending]) =:= byte_size(Ending)].

owns(Pid, Sockets) ->
    Dir = lists:concat(["/proc/", Pid, "/fd"]),
    case file:list_dir(Dir) of
        {ok, Names} -> lists:any(fun(Name) -> is_one(filename:join(Dir, Name), Sockets) end, Names);
        {error, _} -> false
    end.

is_one(File, Sockets) ->
    case file:read_link(File) of
        {ok, Target} -> lists:member(Target, Sockets);
        {error, _} -> false
    end.

%% @doc Adds up the CPU time and the memory of processes. A process that has ended does not count.
-spec read([pos_integer()]) -> none | whittle_load_second:server().
read([]) -> none;
read(Pids) ->
    Each = [Numbers || Pid <- Pids, {ok, Numbers} <- [numbers(Pid)]],
    #{processes => length(Each), cpu => lists:sum([Cpu || {Cpu, _} <- Each]),
      rss => lists:sum([Rss || {_, Rss} <- Each])}.

%% The name of a process may have blanks and parentheses. Behind it, user and system time are the
%% 12th and 13th numbers, and the pages in memory the 22nd.
numbers(Pid) ->
    case file:read_file(lists:concat(["/proc/", Pid, "/stat"])) of
        {ok, Stat} ->
            [_ | _] = Parts = binary:split(Stat, <<")">>, [global]),
            Fields = binary:split(lists:last(Parts), <<" ">>, [global, trim_all]),
            [User, System, Pages] = [binary_to_integer(lists:nth(N, Fields)) || N <- [12, 13, 22]],
            {ok, {(User + System) * ?TICK_MS, Pages * ?PAGE}};
        {error, _} = Error -> Error
    end.
