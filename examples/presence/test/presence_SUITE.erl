%% Tests the running server with real sockets: its messages, its limits, bad clients, and its end.
-module(presence_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([messages/1, one_session/1, limit/1, logins/1, silent/1, silent_handshake/1, memory/1,
         slow_client/1, slow_end/1, waits_for_nobody/1, group_killed/1,
         login_timeout/1, garbage/1, encrypted/1, port_in_use/1, metrics/1,
         drained/1, ring/1]).

-define(HEADER, "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
                "xmlns:stream='http://etherx.jabber.org/streams'>").

all() ->
    [messages, one_session, limit, logins, silent, silent_handshake, memory, slow_client, slow_end,
     waits_for_nobody, group_killed, login_timeout, garbage, encrypted,
     port_in_use, metrics, drained, ring].

init_per_testcase(Case, Config) ->
    _ = application:load(presence),
    [application:set_env(presence, Key, Value)
     || {Key, Value} <- [{secret, "secret"}, {xmpp_port, 0}, {lines_port, 0}, {metrics_port, none}]
            ++ settings(Case, Config)],
    {ok, Started} = application:ensure_all_started(presence),
    [{started, Started} | Config].

settings(limit, _) -> [{limit, 2}];
settings(logins, _) -> [{logins, 1}];
%% Any VM has more than one byte in use.
settings(memory, _) -> [{memory, 1}];
settings(silent, _) -> [{logins, 1}, {login_timeout, 3_600_000}, {silent_timeout, 1}];
settings(silent_handshake, Config) ->
    [{logins, 1}, {handshake_timeout, 3_600_000}, {silent_timeout, 1} | settings(encrypted, Config)]
        ++ [{plain, always}];
settings(Case, _) when Case =:= slow_end; Case =:= waits_for_nobody ->
    [{send_timeout, 3_600_000}];
settings(login_timeout, _) -> [{login_timeout, 1}];
settings(metrics, _) -> [{metrics_port, 0}];
settings(drained, _) -> [{drain_timeout, 3_600_000}];
settings(encrypted, Config) ->
    case code:lib_dir(public_key) of
        {error, _} -> [];
        _ -> [{certificate, certificate(proplists:get_value(priv_dir, Config))}, {xmpps_port, 0},
              {plain, tls}]
    end;
settings(_, _) -> [].

end_per_testcase(_, Config) ->
    [application:stop(A) || A <- lists:reverse(proplists:get_value(started, Config))],
    application:unload(presence).

%% Users of both protocols talk with each other.
messages(_) ->
    Ann = lines("ann"),
    Bob = xmpp("bob"),
    ok = gen_tcp:send(Bob, "<message to='ann@localhost'><body>1 &lt; 2</body></message>"),
    ?assertEqual(<<"from bob 1 < 2\n">>, line(Ann)),
    ok = gen_tcp:send(Ann, "to bob a&b\n"),
    ?assertMatch({match, _}, re:run(until(Bob, <<"</message>">>),
                                    "from='ann@localhost/.*<body>a&amp;b</body>")),
    ok = gen_tcp:send(Ann, "to cat x\nto ann me\n"),
    ?assertEqual(<<"error cat is not here\n">>, line(Ann)),
    ?assertEqual(<<"from ann me\n">>, line(Ann)).

%% A second login ends the first session. Its end does not log the user out.
one_session(_) ->
    First = lines("ann"),
    Second = xmpp("ann"),
    ?assertEqual(<<"error you logged in elsewhere\n">>, line(First)),
    ?assertEqual({error, closed}, gen_tcp:recv(First, 0)),
    ok = gen_tcp:close(First),
    Bob = lines("bob"),
    ok = gen_tcp:send(Bob, "to ann x\n"),
    _ = until(Second, <<"</message>">>),
    ?assertEqual(2, presence_directory:users()).

%% Beyond the limit, each protocol answers. When somebody leaves, there is room again.
limit(_) ->
    [Ann, _] = [lines("ann"), lines("bob")],
    Cat = connect(lines),
    ok = gen_tcp:send(Cat, "login cat secret\n"),
    ?assertEqual(<<"error busy: try again later\n">>, line(Cat)),
    ?assertEqual({error, closed}, gen_tcp:recv(Cat, 0)),
    Dan = connect(xmpp),
    ok = gen_tcp:send(Dan, ?HEADER),
    _ = until(Dan, <<"<resource-constraint ">>),
    %% The server counts a connection until its client closes it.
    [ok = gen_tcp:close(Socket) || Socket <- [Cat, Dan, Ann]],
    _ = admitted("cat"),
    ok.

admitted(Name) ->
    answered(["login ", Name, " secret\n"], iolist_to_binary(["welcome ", Name, $\n])).

%% Connects until the server gives the answer. It may refuse a client, and end one that is too slow.
answered(Line, Answer) ->
    Socket = connect(lines),
    _ = gen_tcp:send(Socket, Line),
    case gen_tcp:recv(Socket, byte_size(Answer)) of
        {ok, Answer} -> Socket;
        _ ->
            ok = gen_tcp:close(Socket),
            answered(Line, Answer)
    end.

%% While one client logs in, another one is refused.
logins(_) ->
    Ann = connect(lines),
    ok = gen_tcp:send(Ann, "ping\n"),
    ?assertEqual(<<"pong\n">>, line(Ann)),
    Bob = connect(lines),
    ok = gen_tcp:send(Bob, "login bob secret\n"),
    ?assertEqual(<<"error busy: try again later\n">>, line(Bob)),
    ok = gen_tcp:close(Bob),
    ok = gen_tcp:send(Ann, "login ann secret\n"),
    ?assertEqual(<<"welcome ann\n">>, line(Ann)),
    _ = admitted("bob"),
    ok.

%% A client that sends nothing keeps another one out only for a moment.
silent(_) ->
    Ann = connect(lines),
    _ = admitted("bob"),
    ?assertMatch({ok, _}, gen_tcp:recv(Ann, 0)),
    ?assertEqual({error, closed}, gen_tcp:recv(Ann, 0)),
    %% So does one that has sent something, and then nothing more.
    Cat = answered("ping\n", <<"pong\n">>),
    _ = admitted("dan"),
    ?assertEqual(<<"error you took too long to log in\n">>, line(Cat)).

%% A client that does not begin the handshake keeps another one out only for a moment.
silent_handshake(_) ->
    case lists:keyfind(xmpps, 1, presence:ports()) of
        false -> ok;                                  % This OTP has no ssl.
        _ ->
            Ann = connect(xmpps),
            _ = admitted("bob"),
            ?assertEqual({error, closed}, gen_tcp:recv(Ann, 0))
    end.

memory(_) ->
    Ann = connect(lines),
    ok = gen_tcp:send(Ann, "login ann secret\n"),
    ?assertEqual(<<"error busy: try again later\n">>, line(Ann)).

%% A client that does not read loses its connection, and the sender learns it.
slow_client(_) ->
    _Slow = lines("slow"),
    Bob = lines("bob"),
    Text = binary:copy(<<"x">>, 9000),
    flood(Bob, ["to slow ", Text, $\n]).

flood(Socket, Line) ->
    case gen_tcp:recv(Socket, 0, 0) of
        {ok, <<"error slow is not here\n", _/binary>>} -> ok;
        {ok, <<"error slow cannot take more", _/binary>>} -> flood(Socket, Line);
        {ok, _} -> flood(Socket, Line);
        {error, timeout} ->
            ok = gen_tcp:send(Socket, Line),
            flood(Socket, Line)
    end.

%% The server ends the session of a client that reads a little now and then. The other clients of
%% the group do not wait for it.
slow_end(_) ->
    Slow = connect(lines),
    ok = inet:setopts(Slow, [{recbuf, 4096}]),
    ok = gen_tcp:send(Slow, "login slow secret\n"),
    <<"welcome slow\n">> = line(Slow),
    [{_, _, Server}] = ets:lookup(presence_here, <<"slow">>),
    ok = inet:setopts(Server, [{sndbuf, 4096}, {high_watermark, 1 bsl 20}]),
    Bob = lines("bob"),
    fill(Bob, Server),
    _ = lines("slow"),
    ok = served(Bob, Slow, Server),
    %% The client has not got the last word, for which the server would have waited.
    ?assertEqual(nomatch, binary:match(rest(Slow, <<>>), <<"elsewhere">>)).

%% The group does not wait for a client that does not read.
waits_for_nobody(_) ->
    _Slow = lines("slow"),
    Bob = lines("bob"),
    flood(Bob, ["to slow ", binary:copy(<<"x">>, 9000), $\n]).

fill(Bob, Server) ->
    case inet:getstat(Server, [send_pend]) of
        {ok, [{send_pend, Pending}]} when Pending > 65_536 -> ok;
        {ok, _} ->
            ok = gen_tcp:send(Bob, ["to slow ", binary:copy(<<"x">>, 9000), "\nping\n"]),
            <<"pong\n">> = line(Bob),
            fill(Bob, Server)
    end.

%% Talks with the server until it has closed the other connection.
served(Bob, Slow, Server) ->
    ok = gen_tcp:send(Bob, "ping\n"),
    ok = ponged(Bob, Slow),
    case inet:getstat(Server, [send_pend]) of
        {ok, _} -> served(Bob, Slow, Server);
        {error, einval} -> ok
    end.

ponged(Bob, Slow) ->
    case gen_tcp:recv(Bob, 5, 1000) of
        {ok, <<"pong\n">>} -> ok;
        {error, timeout} ->
            _ = gen_tcp:recv(Slow, 4096),
            ponged(Bob, Slow)
    end.

rest(Socket, Before) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> rest(Socket, <<Before/binary, Bytes/binary>>);
        {error, _} -> Before
    end.

%% The VM may end a group that takes too much memory. Its users are gone, and can come again.
group_killed(_) ->
    Ann = lines("ann"),
    [{Index, Pid, _, 1}] = ets:tab2list(presence_groups),
    Monitor = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> ok end,
    ?assertEqual({error, closed}, gen_tcp:recv(Ann, 0)),
    %% The first call comes behind the news of the end.
    Again = lines("ann"),
    ok = gen_tcp:send(Again, "to ann x\n"),
    ?assertEqual(<<"from ann x\n">>, line(Again)),
    ?assertEqual(1, presence_limits:connections()),
    %% A connection that the old group has taken along does not count for the new one.
    ?assertNot(presence_groups:released(Index, Pid)),
    ?assertMatch([{Index, _, _, 1}], ets:tab2list(presence_groups)).

login_timeout(_) ->
    Ann = connect(lines),
    ?assertEqual(<<"error you took too long to log in\n">>, line(Ann)),
    Bob = connect(xmpp),
    _ = until(Bob, <<"<connection-timeout ">>).

%% Garbage ends its own connection only.
garbage(_) ->
    Ann = lines("ann"),
    _ = rand:seed(exsss, {1, 2, 3}),
    [begin
         Socket = connect(Protocol),
         _ = gen_tcp:send(Socket, rand:bytes(20000)),
         _ = gen_tcp:shutdown(Socket, write),
         read_all(Socket)
     end || Protocol <- [lines, xmpp], _ <- lists:seq(1, 20)],
    ok = gen_tcp:send(Ann, "ping\n"),
    ?assertEqual(<<"pong\n">>, line(Ann)).

read_all(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> read_all(Socket);
        {error, _} -> gen_tcp:close(Socket)
    end.

%% By STARTTLS, and on a port of its own. Without encryption there is no PLAIN.
encrypted(_) ->
    case lists:keyfind(xmpps, 1, presence:ports()) of
        false -> ok;                                  % This OTP has no ssl.
        {_, Port} ->
            Socket = connect(xmpp),
            ok = gen_tcp:send(Socket, ?HEADER),
            Features = until(Socket, <<"</stream:features>">>),
            ?assertMatch({match, _}, re:run(Features, "<starttls ")),
            ?assertEqual(nomatch, re:run(Features, "PLAIN")),
            ok = gen_tcp:send(Socket, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
            _ = until(Socket, <<"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>">>),
            {ok, Ann} = ssl:connect(Socket, [{verify, verify_none}]),
            _ = login("ann", Ann, ssl),
            {ok, Bob} = ssl:connect({127, 0, 0, 1}, Port, [{verify, verify_none}, binary,
                                                          {active, false}]),
            _ = login("bob", Bob, ssl),
            ok = ssl:send(Bob, "<message to='ann@localhost'><body>x</body></message>"),
            _ = until(Ann, <<"</message>">>, ssl, <<>>),
            ok = ssl:close(Ann),
            ok = ssl:close(Bob)
    end.

port_in_use(_) ->
    {_, Port} = lists:keyfind(lines, 1, presence:ports()),
    ?assertMatch({stop, {cannot_listen, {lines, Port, eaddrinuse}}},
                 presence_listener:init(#{name => lines, port => Port, tls => false,
                                          protocol => presence_lines})).

metrics(_) ->
    _ = lines("ann"),
    {_, Port} = lists:keyfind(metrics, 1, presence:ports()),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    Text = all(Socket, <<>>),
    [?assertMatch({match, _}, re:run(Text, "^" ++ Line ++ "$", [multiline]))
     || Line <- ["presence_users 1", "presence_connections 1", "presence_nodes 1",
                 "presence_logins_total\\{result=\"ok\"\\} 1",
                 "presence_connections_limit [1-9][0-9]+"]].

all(Socket, Before) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> all(Socket, <<Before/binary, Bytes/binary>>);
        {error, closed} -> Before
    end.

%% The server tells its clients, and waits for them: its end comes when the last one has closed.
drained(_) ->
    [Ann, Bob] = [lines("ann"), xmpp("bob")],
    Silent = connect(lines),
    %% An answer shows that the server has accepted it.
    ok = gen_tcp:send(Silent, "ping\n"),
    <<"pong\n">> = line(Silent),
    {_, Port} = lists:keyfind(lines, 1, presence:ports()),
    {Stopper, Monitor} = spawn_monitor(fun() -> ok = application:stop(presence) end),
    ?assertEqual(<<"error the server stops\n">>, line(Ann)),
    ?assertEqual(<<"error the server stops\n">>, line(Silent)),
    _ = until(Bob, <<"<system-shutdown ">>),
    ?assertMatch({error, _}, gen_tcp:connect({127, 0, 0, 1}, Port, [])),
    [ok = gen_tcp:close(Socket) || Socket <- [Ann, Bob, Silent]],
    receive {'DOWN', Monitor, process, Stopper, Reason} -> ?assertEqual(normal, Reason) end,
    %% A group may end a connection when the table of all groups is already gone.
    ?assertNot(presence_groups:released(0, self())).

%% A node that joins takes its own part of the users, and no other part moves.
ring(_) ->
    Nodes = [list_to_atom("presence" ++ integer_to_list(N) ++ "@localhost")
             || N <- lists:seq(1, 53)],
    Before = presence_ring:new(Nodes),
    After = presence_ring:new([new@localhost | lists:reverse(Nodes)]),
    Users = [integer_to_binary(N) || N <- lists:seq(1, 20000)],
    Moved = [User || User <- Users,
                     presence_ring:owner(User, Before) =/= presence_ring:owner(User, After)],
    ?assertEqual([new@localhost], lists:usort([presence_ring:owner(U, After) || U <- Moved])),
    ?assert(length(Moved) < 20000 * 2 div 54),
    Shares = maps:values(lists:foldl(fun(U, Sums) ->
                                             maps:update_with(presence_ring:owner(U, Before),
                                                              fun(N) -> N + 1 end, 1, Sums)
                                     end, #{}, Users)),
    ?assertEqual(53, length(Shares)),
    ?assert(lists:max(Shares) < 2.5 * 20000 / 53).

%% Clients

connect(Protocol) ->
    {_, Port} = lists:keyfind(Protocol, 1, presence:ports()),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    Socket.

lines(Name) ->
    Socket = connect(lines),
    ok = gen_tcp:send(Socket, ["login ", Name, " secret\n"]),
    ?assertEqual(iolist_to_binary(["welcome ", Name, $\n]), line(Socket)),
    Socket.

xmpp(Name) -> login(Name, connect(xmpp), gen_tcp).

login(Name, Socket, Module) ->
    ok = Module:send(Socket, ?HEADER),
    _ = until(Socket, <<"</stream:features>">>, Module, <<>>),
    ok = Module:send(Socket, ["<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>",
                              base64:encode(iolist_to_binary([0, Name, 0, "secret"])), "</auth>"]),
    _ = until(Socket, <<"<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'></success>">>, Module,
              <<>>),
    ok = Module:send(Socket, [?HEADER, "<iq type='set' id='b'><bind "
                              "xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>"]),
    _ = until(Socket, <<"</iq>">>, Module, <<>>),
    Socket.

%% A line, and not a byte more
line(Socket) -> line(Socket, <<>>).

line(Socket, Before) ->
    {ok, Byte} = gen_tcp:recv(Socket, 1),
    case <<Before/binary, Byte/binary>> of
        Line when Byte =:= <<"\n">> -> Line;
        More -> line(Socket, More)
    end.

until(Socket, Text) -> until(Socket, Text, gen_tcp, <<>>).

until(Socket, Text, Module, Before) ->
    case binary:match(Before, Text) of
        {_, _} -> Before;
        nomatch ->
            {ok, Bytes} = Module:recv(Socket, 0),
            until(Socket, Text, Module, <<Before/binary, Bytes/binary>>)
    end.

certificate(Dir) ->
    Chain = #{root => [{digest, sha256}], intermediates => [],
              peer => [{digest, sha256}, {key, {rsa, 2048, 65537}}]},
    #{server_config := Server} = public_key:pkix_test_data(#{server_chain => Chain,
                                                             client_chain => Chain}),
    {Type, Key} = proplists:get_value(key, Server),
    File = filename:join(Dir, "certificate.pem"),
    ok = file:write_file(File, public_key:pem_encode(
                                 [{'Certificate', proplists:get_value(cert, Server), not_encrypted},
                                  {Type, Key, not_encrypted}])),
    File.
