%% Drives examples/presence, built as an executable, with the scenarios that it ships, on one VM and
%% on two VMs that share their ports.
-module(load_presence_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([xmpp/1, lines/1, two_nodes/1, joined/1, scram/1, refused/1, drained/1, wrong_setting/1]).

-define(USERS, 40).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [xmpp, lines, two_nodes, joined, scram, refused, drained, wrong_setting].

init_per_suite(Config) ->
    Dir = running:directory("presence", Config),
    Presence = running:build(running:example("presence"), filename:join(Dir, "presence"), []),
    [{dir, Dir}, {presence, Presence} | Config].

end_per_suite(_) -> ok.

%% Every message arrives. The users of the classes `idle' and `active' send some each.
xmpp(Config) ->
    {Server, #{xmpp := Port}} = started([], Config),
    talking("xmpp.load", Port, Config),
    ok = stopped(Server).

%% A class of each scenario expects each message itself.
lines(Config) ->
    {Server, #{lines := Port}} = started([], Config),
    [?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := [],
                    <<"latencies">> := #{Step := #{<<"count">> := Count}}} when Count > 0,
                  load(File, Port, [], #{held => ?USERS, Step => 1}, Config))
     || {File, Step} <- [{"lines.load", <<"idle">>}, {"small.load", <<"message">>}]],
    ok = stopped(Server).

%% The kernel gives each VM a part of the connections, so most messages go to another VM.
two_nodes(Config) ->
    with_nodes(
      fun(OneEnv, TwoEnv) ->
              Shared = [{"PRESENCE_REUSEPORT", "true"}],
              {One, #{xmpp := Port}} = started(Shared ++ OneEnv, Config),
              {Two, _} = started([{"PRESENCE_XMPP_PORT", integer_to_list(Port)},
                                  {"PRESENCE_LINES_PORT", "none"} | Shared ++ TwoEnv], Config),
              ok = connected([One, Two]),
              talking("xmpp.load", Port, Config),
              [?assert(counted("presence_messages_total{result=\"elsewhere\"}", Server) > 0)
               || Server <- [One, Two]],
              ok = stopped(One),
              %% The other one goes on alone.
              _ = running:until(Two, <<"presence: a node is missing\n">>),
              talking("xmpp.load", Port, Config),
              ok = stopped(Two)
      end).

%% A node that joins becomes the owner of users who are logged in already, and learns about them.
joined(Config) ->
    with_nodes(
      fun(OneEnv, TwoEnv) ->
              {One, #{lines := OnePort}} = started(OneEnv, Config),
              Users = maps:from_list([{user("u" ++ integer_to_list(N), OnePort), N}
                                      || N <- lists:seq(1, ?USERS)]),
              {Two, #{lines := TwoPort}} = started(TwoEnv, Config),
              ok = connected([One, Two]),
              Sender = user("sender", TwoPort),
              [ok = send_to(N, Sender) || N <- maps:values(Users)],
              ok = arrived(Users, Sender),
              [ok = gen_tcp:close(Socket) || Socket <- [Sender | maps:keys(Users)]],
              ok = stopped(One),
              ok = stopped(Two)
      end).

user(Name, Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, line}]),
    ok = gen_tcp:send(Socket, ["login ", Name, " secret\n"]),
    receive {tcp, Socket, <<"welcome ", _/binary>>} -> Socket end.

send_to(N, Sender) -> gen_tcp:send(Sender, ["to u", integer_to_list(N), " hello\n"]).

%% Each message has an answer: it arrives, or the sender hears that the user is not found yet.
arrived(Users, _) when map_size(Users) =:= 0 -> ok;
arrived(Users, Sender) ->
    receive
        {tcp, Sender, <<"error u", Rest/binary>>} ->
            {N, <<" is not here\n">>} = string:to_integer(Rest),
            ok = send_to(N, Sender),
            arrived(Users, Sender);
        {tcp, Socket, <<"from sender hello\n">>} -> arrived(maps:remove(Socket, Users), Sender)
    end.

%% Calls a function with the environments of two nodes. They have an epmd of their own.
with_nodes(Fun) ->
    Epmd = running:free_port(),
    Shared = [{"PRESENCE_NODES", "one@localhost,two@localhost"},
              {"RELEASE_DISTRIBUTION", "sname"}, {"RELEASE_COOKIE", "load_presence"},
              {"ERL_EPMD_PORT", integer_to_list(Epmd)},
              {"ERL_FLAGS", "-connect_all false -kernel prevent_overlapping_partitions false "
               "-kernel inet_dist_use_interface {127,0,0,1}"}],
    try Fun([{"RELEASE_NODE", "one@localhost"} | Shared],
            [{"RELEASE_NODE", "two@localhost"} | Shared])
    after running:end_epmd(Epmd)
    end.

connected(Servers) ->
    [_ = running:until(Server, <<"presence: all 2 nodes are connected\n">>) || Server <- Servers],
    ok.

%% The executable without crypto offers PLAIN only. No user is held, so the exit code is 1.
scram(Config) ->
    {Server, #{xmpp := Port}} = started([], Config),
    #{<<"errors">> := [#{<<"kind">> := <<"no_mechanism">>}]} =
        load("xmpp.load", Port, [{mechanism, scram}], 1, #{errors => ?USERS}, Config),
    ok = stopped(Server).

%% Beyond the limit, users are refused, and those before stay.
refused(Config) ->
    {Server, #{xmpp := Port}} = started([{"PRESENCE_LIMIT", "25"}], Config),
    Counts = #{held => 25, errors => ?USERS - 25},
    #{<<"held">> := 25, <<"errors">> := Errors} = load("xmpp.load", Port, [], Counts, Config),
    ?assertEqual([{<<"login">>, <<"busy">>, ?USERS - 25}],
                 [{Step, Kind, Count} || #{<<"step">> := Step, <<"kind">> := Kind,
                                           <<"count">> := Count} <- Errors]),
    %% When these have left, there is room again.
    #{<<"held">> := 25} = load("xmpp.load", Port, [], Counts, Config),
    ok = stopped(Server).

%% Clients hear of the end before it, and the exit code is 0.
drained(Config) ->
    {Server, #{lines := Port}} = started([], Config),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [{active, false}, {packet, line}]),
    ok = gen_tcp:send(Socket, "login ann secret\n"),
    {ok, "welcome ann\n"} = gen_tcp:recv(Socket, 0),
    ok = running:signal(Server, "TERM"),
    {ok, "error the server stops\n"} = gen_tcp:recv(Socket, 0),
    {error, closed} = gen_tcp:recv(Socket, 0),
    ok = gen_tcp:close(Socket),
    {0, _} = running:ended(Server),
    ok.

wrong_setting(Config) ->
    Presence = proplists:get_value(presence, Config),
    {1, Output} = running:run(Presence, []),
    ?assertMatch({match, _}, re:run(Output, "^presence: nobody could log in: set PRESENCE_SECRET",
                                    [multiline])),
    {1, Port} = running:run(Presence, [], #{env => [{"PRESENCE_SECRET", "secret"},
                                                    {"PRESENCE_XMPP_PORT", "x"}]}),
    ?assertMatch({match, _}, re:run(Port, "^presence: the setting xmpp_port .*give a port",
                                    [multiline])),
    {Server, #{xmpp := Taken}} = started([], Config),
    {1, InUse} = running:run(Presence, [], #{env => [{"PRESENCE_SECRET", "secret"},
                                                     {"PRESENCE_METRICS_PORT", "none"},
                                                     {"PRESENCE_LINES_PORT", "none"},
                                                     {"PRESENCE_XMPP_PORT",
                                                      integer_to_list(Taken)}]}),
    ?assertMatch({match, _}, re:run(InUse, "^presence: the server cannot start: port [0-9]+ of "
                                    "`xmpp' cannot be opened .address already in use.; choose",
                                    [multiline])),
    ok = stopped(Server).

%% The server

started(Env, Config) ->
    Given = [{"PRESENCE_SECRET", "secret"}, {"PRESENCE_XMPP_PORT", "0"},
             {"PRESENCE_LINES_PORT", "0"}, {"PRESENCE_METRICS_PORT", "0"}],
    Server = running:start(proplists:get_value(presence, Config), [],
                           #{env => lists:ukeysort(1, Env ++ Given)}),
    {match, Ports} = re:run(running:line(Server), "([a-z]+) on port ([0-9]+)",
                            [global, {capture, all_but_first, list}]),
    Named = maps:from_list([{list_to_atom(Name), list_to_integer(Port)} || [Name, Port] <- Ports]),
    put({?MODULE, Server}, maps:get(metrics, Named)),
    {Server, Named}.

stopped(Server) ->
    ok = running:signal(Server, "TERM"),
    {0, _} = running:ended(Server),
    ok.

counted(Line, Server) ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, {{_, 200, _}, _, Body}} =
        httpc:request("http://127.0.0.1:" ++ integer_to_list(get({?MODULE, Server})) ++ "/metrics"),
    lists:sum([list_to_integer(string:trim(N))
               || L <- string:lexemes(Body, "\n"), N <- [string:prefix(L, Line)], N =/= nomatch]).

%% The load

%% Everybody is there before the first message, and some time is left after the last one.
talking(File, Port, Config) ->
    Counts = #{held => ?USERS, <<"roster">> => 1, <<"delivery">> => {3, <<"roster">>}},
    Result = load(File, Port, [], Counts, Config),
    #{<<"held">> := ?USERS, <<"errors">> := [], <<"latencies">> := Latencies} = Result,
    #{<<"delivery">> := #{<<"count">> := Delivered}, <<"roster">> := #{<<"count">> := Talkers}} =
        Latencies,
    ?assert(Talkers > 0),
    ?assertEqual(3 * Talkers, Delivered).

load(Name, Port, More, Counts, Config) -> load(Name, Port, More, 0, Counts, Config).

load(Name, Port, More, Code, Counts, Config) ->
    Dir = proplists:get_value(dir, Config),
    File = filename:join(Dir, Name),
    ok = short_load:write(filename:join(running:example("presence"), Name), File,
                          #{port => Port, users => ?USERS, soak => "10 s"}, More),
    {ok, Scenario} = file:read_file(File),
    loading:load(Dir, Scenario, Code, Counts).
