%% Calls each of ejabberd's NIFs and prints the results. Two processes use TLS over a real
%% socket, with the certificate that the variable CHATS_CERT names.
-module(chats).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(term(), term()) -> no_return().
start(_, _) ->
    ok = jid:start(),
    ok = xmpp_uri:start(),
    ok = xmpp_lang:start(),
    Said = [{fast_tls, tls()},
            {p1_sha, p1_sha:sha(<<"abc">>)},
            {fxml, fxml:element_to_binary({xmlel, <<"a">>, [{<<"b">>, <<"<">>}],
                                           [{xmlcdata, <<"x & y">>}]})},
            {fxml_stream, fxml_stream:parse_element(<<"<a b='&lt;'>x<c/></a>">>)},
            {fast_yaml, fast_yaml:decode(<<"a: [1, two]\nb: {c: 2.5}\n">>)},
            {ezlib, zlib()},
            {stringprep, stringprep:nameprep(<<"BÜCHER.example"/utf8>>)
                             =:= <<"bücher.example"/utf8>>},
            {jid, jid:to_string(jid:from_string(<<"Juliet@EXAMPLE.org/Balcony">>))},
            {xmpp_uri, [xmpp_uri:is_valid(Uri) || Uri <- [<<"xmpp:a@b?join">>, <<"a b">>]]},
            {xmpp_lang, [xmpp_lang:is_valid(Lang) || Lang <- [<<"de-CH">>, <<"-">>]]},
            {ets_cache, cached()},
            {mqtree, matched()},
            {jiffy, iolist_to_binary(jiffy:encode({[{<<"a">>, [1, 2.5, null]}]}))}],
    [io:format("~0p~n", [What]) || What <- Said],
    halt().

-spec stop(term()) -> ok.
stop(_) -> ok.

%% Sends a text to the other end and back.
tls() ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    _ = spawn_link(fun() ->
                           {ok, Socket} = gen_tcp:accept(Listen),
                           {ok, Tls} = fast_tls:tcp_to_tls(Socket,
                                                           [{certfile, os:getenv("CHATS_CERT")}]),
                           {ok, Word} = fast_tls:recv(Tls, 0),
                           ok = fast_tls:send(Tls, [Word, " heard"])
                   end),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Tls} = fast_tls:tcp_to_tls(Socket, [connect, verify_none]),
    ok = fast_tls:send(Tls, <<"hello">>),
    {ok, Answer} = fast_tls:recv(Tls, 0),
    {Answer, fast_tls:get_negotiated_cipher(Tls) =/= error}.

%% ezlib compresses at one end of a socket, and decompresses at the other end.
zlib() ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    {ok, Here} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, There} = gen_tcp:accept(Listen),
    [{ok, Writes}, {ok, Reads}] = [ezlib:enable_zlib(gen_tcp, Socket) || Socket <- [Here, There]],
    Text = binary:copy(<<"the same again, ">>, 100),
    ok = ezlib:send(Writes, Text),
    ezlib:recv(Reads, 0) =:= {ok, Text}.

cached() ->
    ok = ets_cache:new(words),
    true = ets_cache:insert(words, key, value),
    [ets_cache:lookup(words, Key) || Key <- [key, other]].

matched() ->
    Tree = mqtree:new(),
    [ok = mqtree:insert(Tree, Path) || Path <- ["a/+/c", "a/b", "#"]],
    lists:sort(mqtree:match(Tree, "a/b/c")).
