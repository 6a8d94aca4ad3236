%% Tests which servers and source addresses a run may use.
-module(whittle_load_target_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([own/1, remote/1, unknown/1, sources/1, sources_of_hosts/1]).

%% Nobody has these: RFC 5737 and RFC 3849 keep them for documents.
-define(NOBODY, {192, 0, 2, 77}).
-define(NOBODY6, {8193, 3512, 0, 0, 0, 0, 0, 77}).

all() -> [own, remote, unknown, sources, sources_of_hosts].

%% The users need no resolver.
own(_) ->
    [?assertMatch({Host, {ok, #{target := #{host := {127, _, _, _}}}}},
                  {Host, resolve(Host, [], #{})})
     || Host <- [{127, 0, 0, 1}, {127, 9, 8, 7}, <<"localhost">>]].

remote(_) ->
    {error, Reason} = resolve(?NOBODY, [], #{}),
    ?assertEqual("the server 192.0.2.77 is not this machine: give --allow-remote if its owner "
                 "agrees to the load", said(Reason)),
    ?assertMatch({ok, _}, resolve(?NOBODY, [], #{allow_remote => true})).

%% No resolver asks another machine for so long a name.
unknown(_) ->
    {error, Reason} = resolve(binary:copy(<<"a">>, 300), [], #{}),
    ?assertMatch({match, _}, re:run(said(Reason), "^the server `a+' has no address \\(.*\\): "
                                    "correct `target'$")).

%% All addresses 127.0.0.0/8 belong to a machine, although no interface lists them.
sources(_) ->
    Server = {127, 0, 0, 1},
    [?assertMatch({Sources, {ok, #{sources := Sources}}}, {Sources, resolve(Server, Sources, #{})})
     || Sources <- [[], [Server], [{127, 1, 2, 3}, {127, 9, 9, 9}]]],
    [begin
         {error, Reason} = resolve(Host, Sources, #{}),
         ?assertMatch({Line, {match, _}}, {Line, re:run(said(Reason), Line)})
     end || {Host, Sources, Line} <-
                [{Server, [Server, ?NOBODY],
                  "^this machine does not have the address 192.0.2.77 of `sources' \\(.*\\): name "
                  "addresses that `ip address' shows, or add this one to an interface$"},
                 {{0, 0, 0, 0, 0, 0, 0, 1}, [?NOBODY6],
                  "^this machine does not have the address 2001:db8::4d of `sources' "},
                 {Server, [{0, 0, 0, 0, 0, 0, 0, 1}],
                  "^no user can connect from ::1 to 127.0.0.1: `sources' must be IPv4 addresses"}]].

%% With hosts, the users connect from other machines.
sources_of_hosts(_) ->
    ?assertMatch({ok, _}, resolve({127, 0, 0, 1}, [?NOBODY], #{hosts => ["a"]})).

%% Internal

%% A machine may have no ::1.
resolve(Host, Sources, Options) ->
    Remote = is_tuple(Host) andalso tuple_size(Host) =:= 8,
    whittle_load_target:resolve(#{target => #{host => Host}, sources => Sources},
                                maps:merge(#{allow_remote => Remote}, Options)).

said(Reason) -> lists:flatten(io_lib:format("~ts", [whittle_load:format_error(Reason)])).
