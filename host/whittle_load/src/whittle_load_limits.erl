%% @doc Spreads the users of a scenario over agents and source addresses, and computes which limits
%% of the machine a run would hit. This module is pure.
%% @hidden
-module(whittle_load_limits).

-export([spread/3, check/3, enough/1, format_error/1]).

-export_type([spread/0, need/0, error/0]).

-type spread() :: #{users := non_neg_integer(),           % the most at once, if none of them ends
                    agents := pos_integer(),
                    files := pos_integer(),               % descriptors of an agent
                    sources := [inet:ip_address()]}.

-type error() :: {too_many_agents, {Users :: pos_integer(), Agents :: pos_integer()}}.

%% A limit, with a setting that lifts it
-type need() :: #{limit := string(), needs := non_neg_integer(),
                  has := non_neg_integer() | unknown, lift := string()}.

%% The pace of a VM falls behind with more users.
-define(USERS, 15_000).
-define(AGENTS, 1000).
%% The descriptors that a VM itself has, and some for the start.
-define(OWN_FILES, 64).
%% connect(2) slows down when more than half of an address's ports are in use (a trial: from 15,000
%% to 2,500 a second).
-define(PORTS_IN_USE, 0.5).
%% The largest delay of a server, in seconds, for which its queue of new connections must last.
-define(STALL, 0.2).
%% The part of all connections that have unread bytes at once, and the pages that these take at
%% least.
-define(UNREAD, 0.1).
-define(PAGE, 4096).

%% @doc Spreads the users. Users on this machine's own loopback addresses get as many source
%% addresses as they need.
-spec spread(whittle_load_scenario:scenario(),
             #{agents => pos_integer(), least => pos_integer(), _ => _},
             whittle_load_machine:limits()) -> {ok, spread()} | {error, error()}.
spread(#{phases := Phases, agents := Wanted, sources := Sources, target := #{host := Host}},
       Options, #{files := Files, ports := Ports}) ->
    Users = users(Phases),
    Most = case Files of
               unknown -> ?USERS;
               _ -> max(1, min(?USERS, Files - ?OWN_FILES))
           end,
    Agents = max(maps:get(least, Options, 1),
                 case {Options, Wanted} of
                     {#{agents := Given}, _} -> Given;
                     {_, auto} -> ceil(Users / Most);
                     _ -> Wanted
                 end),
    case Agents =< ?AGENTS of
        true -> {ok, spread(Users, Agents, Sources, Host, Ports)};
        false -> {error, {too_many_agents, {Users, Agents}}}
    end.

spread(Users, Agents, Sources, Host, Ports) ->
    #{users => Users, agents => Agents, files => ceil(Users / Agents) + ?OWN_FILES,
      sources => case {Sources, Host} of
                     {[], {127, _, _, _}} when is_integer(Ports) ->
                         loopback(ceil(Users / max(1, Ports * ?PORTS_IN_USE)));
                     _ -> Sources
                 end}.

%% The first addresses of 127.0.1.0/16 that end neither with 0 nor with 255
loopback(N) when N =< 1 -> [];
loopback(N) -> [{127, 0, 1 + I div 254, 1 + I rem 254} || I <- lists:seq(0, min(N, 60_000) - 1)].

%% A Poisson number of arrivals is nearly never larger than its mean and four deviations.
users(Phases) ->
    lists:sum([case Phase of
                   {rate, poisson, From, To, Duration} ->
                       Mean = arrivals(From, To, Duration),
                       ceil(Mean + 4 * math:sqrt(Mean));
                   {rate, constant, From, To, Duration} -> ceil(arrivals(From, To, Duration));
                   {burst, N} -> N;
                   {closed, N, _} -> N;
                   {trace, Starts, _} -> length(Starts);
                   _ -> 0
               end || Phase <- Phases]).

arrivals(From, To, Duration) -> (From + To) / 2 * Duration / 1.0e9.

%% @doc Lists the limits that matter for a scenario.
-spec check(whittle_load_scenario:scenario(), spread(), whittle_load_machine:limits()) -> [need()].
check(#{target := #{host := Host, transport := Transport}, phases := Phases},
      #{users := Users, agents := Agents, files := Files, sources := Sources},
      #{files := OwnFiles, all_files := AllFiles, ports := Ports, backlog := Backlog,
        syn_backlog := SynBacklog, tcp_memory := TcpMemory, memory := Memory}) ->
    Here = is_loopback(Host),
    {Ends, Kernel} = case Here of true -> {2, both}; false -> {1, one} end,
    [#{limit => "descriptors of an agent", needs => Files, has => OwnFiles,
       lift => "use more agents (--agents), or raise the hard limit (ulimit -Hn)"},
     #{limit => "descriptors of the machine",
       needs => Agents * ?OWN_FILES + Users * Ends, has => AllFiles, lift => "sysctl fs.file-max"},
     #{limit => "processes of an agent (+P)", needs => ceil(Users / Agents) + 100,
       has => whittle_load_build:processes(Files), lift => "use more agents (--agents)"},
     #{limit => "ports of an agent (+Q)", needs => ceil(Users / Agents) + 10,
       has => table(OwnFiles), lift => "use more agents (--agents), or raise the hard limit of "
       "descriptors, which the table follows"},
     #{limit => "local ports of an address", needs => ceil(Users / max(1, length(Sources))),
       has => Ports, lift => ports(Host)},
     #{limit => "memory of TCP, if a tenth has unread data",
       needs => ceil(Users * Ends * ?UNREAD) * ?PAGE, has => TcpMemory,
       lift => "sysctl net.ipv4.tcp_mem (three numbers of pages)"},
     #{limit => "memory of the agents and the kernel (without the server)",
       needs => Agents * whittle_load_cost:agent()
           + Users * (whittle_load_cost:user(Transport) + whittle_load_cost:kernel(Kernel)),
       has => Memory, lift => "use fewer users, or run the server elsewhere"}]
        ++ [Need || Here, Need <- [#{limit => "connections that wait for accept",
                                     needs => waiting(Phases), has => Backlog,
                                     lift => "sysctl net.core.somaxconn and the server's backlog; "
                                     "or a ramp"},
                                   #{limit => "connections that have only begun",
                                     needs => waiting(Phases), has => max_of(Backlog, SynBacklog),
                                     lift => "sysctl net.ipv4.tcp_max_syn_backlog; or a ramp"}]].

%% The largest burst, or the arrivals while the server stalls
waiting(Phases) ->
    lists:max([0 | [case Phase of
                        {burst, N} -> N;
                        {closed, N, _} -> N;
                        {rate, _, From, To, _} -> ceil(max(From, To) * ?STALL);
                        _ -> 0
                    end || Phase <- Phases]]).

%% With syncookies, the longer of the two queues counts.
max_of(unknown, _) -> unknown;
max_of(_, unknown) -> unknown;
max_of(A, B) -> max(A, B).

%% The VM rounds its limit of descriptors up to a power of two.
table(unknown) -> unknown;
table(Files) -> 1 bsl max(10, ceil(math:log2(max(1, Files)))).

ports({0, 0, 0, 0, 0, 0, 0, 1}) ->
    "give more addresses (`sources'; `ip -6 addr add fd00::1/128 dev lo' adds one, and the server "
        "must listen on `::'), or widen net.ipv4.ip_local_port_range";
ports(Host) when tuple_size(Host) =:= 8 ->
    "give more addresses (`sources'), or widen net.ipv4.ip_local_port_range, which IPv6 uses too";
ports(_) -> "give more addresses (`sources'), or widen net.ipv4.ip_local_port_range".

is_loopback({127, _, _, _}) -> true;
is_loopback({0, 0, 0, 0, 0, 0, 0, 1}) -> true;
is_loopback(_) -> false.

%% @doc Tells whether a limit is high enough. An unknown one may be.
-spec enough(need()) -> boolean().
enough(#{has := unknown}) -> true;
enough(#{needs := Needs, has := Has}) -> Needs =< Has.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({too_many_agents, {Users, Agents}}) ->
    io_lib:format("~b users need ~b agents, and a run has at most ~b: use fewer users",
                  [Users, Agents, ?AGENTS]).
