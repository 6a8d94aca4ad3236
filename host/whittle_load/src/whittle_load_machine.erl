%% @doc Reads the limits of this machine.
%% @hidden
-module(whittle_load_machine).

-export([limits/0]).

-export_type([limits/0]).

%% Bytes, or numbers of things. `unknown' where the system does not tell.
-type limits() :: #{files := limit(),          % of one process; the hard limit, which it may take
                    all_files := limit(),      % of all processes, without those that are open now
                    ports := limit(),          % local ports for one address and one server
                    backlog := limit(),        % connections that wait for a server's accept
                    memory := limit()}.        % free, or used for files that can be read again

-type limit() :: non_neg_integer() | unknown.

%% @doc Reads all limits (proc(5), getrlimit(2)).
-spec limits() -> limits().
limits() ->
    #{files => files(), all_files => all_files(), ports => ports(),
      backlog => case numbers("/proc/sys/net/core/somaxconn") of
                     [Most | _] -> Most;
                     [] -> unknown
                 end,
      memory => memory()}.

files() ->
    case string:to_integer(os:cmd("ulimit -Hn")) of
        {Files, _} when is_integer(Files) -> Files;
        {error, _} -> unknown
    end.

all_files() ->
    case numbers("/proc/sys/fs/file-nr") of
        [Open, _, Most] -> max(0, Most - Open);
        _ -> unknown
    end.

ports() ->
    case numbers("/proc/sys/net/ipv4/ip_local_port_range") of
        [First, Last] -> Last - First + 1;
        _ -> unknown
    end.

memory() ->
    case file:read_file("/proc/meminfo") of
        {ok, Text} ->
            case re:run(Text, "MemAvailable: +([0-9]+) kB", [{capture, all_but_first, list}]) of
                {match, [Kilobytes]} -> 1024 * list_to_integer(Kilobytes);
                nomatch -> unknown
            end;
        {error, _} -> unknown
    end.

numbers(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            [list_to_integer(Word) || Word <- string:lexemes(binary_to_list(Text), " \t\n")];
        {error, _} -> []
    end.
