%% @doc Finds the address of the server, and refuses addresses of other machines.
%% @hidden
-module(whittle_load_target).

-export([resolve/2, format_error/1]).

-export_type([error/0]).

-type error() :: {unknown_host, {string(), inet:posix()}}
               | {remote, {string(), inet:ip_address()}}
               | {source, {inet:ip_address(), inet:ip_address()}}
               | {no_source, {inet:ip_address(), inet:posix()}}.

%% @doc Replaces the name of the server by its address. Users of an agent then need no resolver.
%% Without `allow_remote' the address must belong to this machine: a load test of somebody else's
%% server is an attack. The addresses of `sources' must belong to this machine too, unless `hosts'
%% are other machines.
-spec resolve(whittle_load_scenario:scenario(),
              #{allow_remote => boolean(), hosts => [string()], _ => _}) ->
          {ok, whittle_load_scenario:scenario()} | {error, error()}.
resolve(#{target := #{host := Host} = Target} = Scenario, Options) ->
    case address(Host) of
        {ok, Address} ->
            case maps:get(allow_remote, Options, false) orelse is_own(Address) of
                true ->
                    sources(Address, maps:get(hosts, Options, []),
                            Scenario#{target := Target#{host := Address}});
                false -> {error, {remote, {name(Host), Address}}}
            end;
        {error, Reason} -> {error, {unknown_host, {name(Host), Reason}}}
    end.

%% A connection has one family of addresses.
sources(Address, Hosts, #{sources := Sources} = Scenario) ->
    case {[Source || Source <- Sources, tuple_size(Source) =/= tuple_size(Address)],
          [{Source, Reason} || Hosts =:= [], Source <- Sources,
                               {error, Reason} <- [bound(Source)]]} of
        {[], []} -> {ok, Scenario};
        {[], [Missing | _]} -> {error, {no_source, Missing}};
        {[Source | _], _} -> {error, {source, {Source, Address}}}
    end.

%% The kernel knows more addresses than those of the interfaces: all of 127.0.0.0/8, for example.
bound(Source) ->
    Family = case tuple_size(Source) of 8 -> inet6; 4 -> inet end,
    case gen_udp:open(0, [Family, {ip, Source}]) of
        {ok, Socket} -> gen_udp:close(Socket);
        {error, _} = Error -> Error
    end.

address(Host) when is_tuple(Host) -> {ok, Host};
address(Host) ->
    Name = binary_to_list(Host),
    case inet:getaddr(Name, inet) of
        {ok, _} = Ok -> Ok;
        {error, _} -> inet:getaddr(Name, inet6)
    end.

name(Host) when is_tuple(Host) -> inet:ntoa(Host);
name(Host) -> binary_to_list(Host).

%% All addresses 127.0.0.0/8 belong to this machine.
is_own({127, _, _, _}) -> true;
is_own(Address) ->
    case inet:getifaddrs() of
        {ok, Interfaces} ->
            lists:any(fun({_, Options}) -> lists:member({addr, Address}, Options) end, Interfaces);
        {error, _} -> false
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({unknown_host, {Name, Reason}}) ->
    ["the server `", Name, "' has no address (", inet:format_error(Reason), "): correct `target'"];
format_error({source, {Source, Address}}) ->
    ["no user can connect from ", inet:ntoa(Source), " to ", inet:ntoa(Address),
     ": `sources' must be IPv", case tuple_size(Address) of 8 -> "6"; 4 -> "4" end,
     " addresses like the server's"];
format_error({no_source, {Source, Reason}}) ->
    ["this machine does not have the address ", inet:ntoa(Source), " of `sources' (",
     inet:format_error(Reason), "): name addresses that `ip address' shows, or add this one to an "
     "interface"];
format_error({remote, {Name, Address}}) ->
    ["the server ", Name, case inet:ntoa(Address) of
                              Name -> "";
                              Text -> [" (", Text, ")"]
                          end,
     " is not this machine: give --allow-remote if its owner agrees to the load"].
