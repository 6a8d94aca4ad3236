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
                    syn_backlog := limit(),    % connections whose first packet has come
                    tcp_memory := limit(),     % bytes that all sockets may buffer, without those
                                               % that they have now
                    memory := limit()}.        % free, or used for files that can be read again

%% Bytes
-define(PAGE, 4096).

-type limit() :: non_neg_integer() | unknown.

%% @doc Reads all limits (proc(5), getrlimit(2)).
-spec limits() -> limits().
limits() ->
    #{files => files(), all_files => all_files(), ports => ports(),
      backlog => first("/proc/sys/net/core/somaxconn"),
      syn_backlog => first("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
      tcp_memory => tcp_memory(),
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

first(File) ->
    case numbers(File) of
        [Number | _] -> Number;
        [] -> unknown
    end.

%% The last number is the limit, in pages.
tcp_memory() ->
    case numbers("/proc/sys/net/ipv4/tcp_mem") of
        [_, _, Most] -> max(0, Most - tcp_pages()) * ?PAGE;
        _ -> unknown
    end.

tcp_pages() ->
    case file:read_file("/proc/net/sockstat") of
        {ok, Text} ->
            case re:run(Text, "TCP: .* mem ([0-9]{1,15})", [{capture, all_but_first, list}]) of
                {match, [Pages]} -> list_to_integer(Pages);
                nomatch -> 0
            end;
        {error, _} -> 0
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
