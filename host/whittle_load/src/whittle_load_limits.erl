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
%% Bytes, from trials with idle connections: an agent at rest; a user that hibernates; one end of a
%% connection in the kernel, and both.
-define(AGENT_BYTES, 18_000_000).
-define(USER_BYTES, 2_900).
-define(KERNEL_BYTES, 4_200).
-define(KERNEL_PAIR_BYTES, 8_300).

%% @doc Spreads the users. Users on this machine's own loopback addresses get as many source
%% addresses as they need.
-spec spread(whittle_load_scenario:scenario(), #{agents => pos_integer(), _ => _},
             whittle_load_machine:limits()) -> {ok, spread()} | {error, error()}.
spread(#{phases := Phases, agents := Wanted, sources := Sources, target := #{host := Host}},
       Options, #{files := Files, ports := Ports}) ->
    Users = users(Phases),
    Most = case Files of
               unknown -> ?USERS;
               _ -> max(1, min(?USERS, Files - ?OWN_FILES))
           end,
    Agents = case {Options, Wanted} of
                 {#{agents := Given}, _} -> Given;
                 {_, auto} -> max(1, ceil(Users / Most));
                 _ -> Wanted
             end,
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
check(#{target := #{host := Host}, phases := Phases},
      #{users := Users, agents := Agents, files := Files, sources := Sources},
      #{files := OwnFiles, all_files := AllFiles, ports := Ports, backlog := Backlog,
        memory := Memory}) ->
    Here = is_loopback(Host),
    Bursts = [N || {burst, N} <- Phases],
    [#{limit => "descriptors of an agent", needs => Files, has => OwnFiles,
       lift => "use more agents (--agents), or raise the hard limit (ulimit -Hn)"},
     #{limit => "descriptors of the machine",
       needs => Agents * ?OWN_FILES + Users * case Here of true -> 2; false -> 1 end,
       has => AllFiles, lift => "sysctl fs.file-max"},
     #{limit => "processes of an agent", needs => ceil(Users / Agents) + 100, has => whittle_load_build:processes(Files),
       lift => "use more agents (--agents)"},
     #{limit => "local ports of an address", needs => ceil(Users / max(1, length(Sources))),
       has => Ports,
       lift => "give more addresses (`sources'), or widen net.ipv4.ip_local_port_range"},
     #{limit => "memory without the server's own",
       needs => Agents * ?AGENT_BYTES
           + Users * (?USER_BYTES + case Here of
                                        true -> ?KERNEL_PAIR_BYTES;
                                        false -> ?KERNEL_BYTES
                                    end),
       has => Memory, lift => "use fewer users, or run the server elsewhere"}]
        ++ [#{limit => "connections that wait for accept", needs => lists:max(Bursts),
              has => Backlog,
              lift => "sysctl net.core.somaxconn and the server's backlog; or a ramp"}
            || Here, Bursts =/= []].

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
