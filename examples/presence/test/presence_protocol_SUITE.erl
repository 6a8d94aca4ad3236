%% Tests the protocols as pure functions: XMPP with PLAIN and SCRAM, lines of text, hostile bytes.
-module(presence_protocol_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([xmpp_login/1, xmpp_scram/1, xmpp_wrong_password/1, xmpp_errors/1, xmpp_stanzas/1,
         xmpp_pipelined/1, early_messages/1, starttls_forgets/1, lines/1, lines_errors/1,
         refused/1, hostile/1]).

-define(HEADER, "<?xml version='1.0'?><stream:stream to='localhost' version='1.0' "
                "xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>").

all() ->
    [xmpp_login, xmpp_scram, xmpp_wrong_password, xmpp_errors, xmpp_stanzas, xmpp_pipelined,
     early_messages, starttls_forgets, lines, lines_errors, refused, hostile].

init_per_testcase(Case, Config) ->
    _ = application:load(presence),
    application:set_env(presence, secret, "secret"),
    _ = [application:set_env(presence, certificate, "absent.pem") || Case =:= starttls_forgets],
    ok = presence_config:load(),
    Config.

end_per_testcase(_, _) ->
    [application:unset_env(presence, Key) || Key <- [secret, certificate, plain]].

xmpp_login(_) ->
    State = new(presence_xmpp),
    {Features, S1} = sent(?HEADER, State),
    ?assertMatch({match, _}, re:run(Features, "from='localhost'.*<mechanism>PLAIN</mechanism>")),
    {Success, S2} = sent(plain("ann", "secret"), S1),
    ?assertMatch({match, _}, re:run(Success, "^<success ")),
    {Bind, S3} = sent(?HEADER, S2),
    ?assertMatch({match, _}, re:run(Bind, "<bind .*<optional/>")),
    ?assertEqual(none, presence_xmpp:user(S3)),
    {[{login, <<"ann">>}], S4} = data("<iq type='set' id='b&lt;'><bind/></iq>", S3),
    {Result, S5} = news(online, S4),
    ?assertMatch({match, _}, re:run(Result, "type='result' id='b&lt;'.*<jid>ann@localhost/")),
    ?assertEqual(<<"ann">>, presence_xmpp:user(S5)),
    %% An idle user takes few words.
    ?assert(erts_debug:flat_size(S5) =< 8),
    {Bye, S6} = closed("</stream:stream>", S5),
    ?assertEqual(<<"</stream:stream>">>, Bye),
    ?assertEqual({[], S6}, presence_xmpp:data(<<"more">>, S6)).

%% The client's side of RFC 5802, computed here anew
xmpp_scram(_) ->
    case presence_users:mechanisms() of
        [] -> ok;                                     % This OTP has no crypto.
        Mechanisms -> [scram(Name, Hash) || {Name, Hash} <- Mechanisms]
    end.

scram(Mechanism, Hash) ->
    {_, S1} = sent(?HEADER, new(presence_xmpp)),
    Bare = <<"n=a=2Cn,r=abc">>,
    {Challenge64, S2} = sent(auth(Mechanism, <<"n,,", Bare/binary>>), S1),
    {match, [Text]} = re:run(Challenge64, ">([^<]+)<", [{capture, [1], binary}]),
    Challenge = base64:decode(Text),
    {match, [Nonce, Salt, Rounds]} = re:run(Challenge, "^r=([^,]+),s=([^,]+),i=([0-9]+)$",
                                            [{capture, all_but_first, binary}]),
    ?assertMatch(<<"abc", _, _/binary>>, Nonce),
    Length = maps:get(size, crypto:hash_info(Hash)),
    Salted = crypto:pbkdf2_hmac(Hash, <<"secret">>, base64:decode(Salt),
                                binary_to_integer(Rounds), Length),
    Key = crypto:mac(hmac, Hash, Salted, <<"Client Key">>),
    Final = <<"c=biws,r=", Nonce/binary>>,
    Signed = <<Bare/binary, $,, Challenge/binary, $,, Final/binary>>,
    Proof = crypto:exor(Key, crypto:mac(hmac, Hash, crypto:hash(Hash, Key), Signed)),
    Answer = fun(Bytes) ->
                     ["<response>", base64:encode(<<Final/binary, ",p=",
                                                    (base64:encode(Bytes))/binary>>),
                      "</response>"]
             end,
    {Success, _} = sent(Answer(Proof), S2),
    {match, [Verifier]} = re:run(Success, "<success [^>]*>([^<]+)<", [{capture, [1], binary}]),
    Server = crypto:mac(hmac, Hash, Salted, <<"Server Key">>),
    ?assertEqual(<<"v=", (base64:encode(crypto:mac(hmac, Hash, Server, Signed)))/binary>>,
                 base64:decode(Verifier)),
    {Failure, _} = sent(Answer(crypto:exor(Proof, <<1, 0:((Length - 1) * 8)>>)), S2),
    ?assertMatch({match, _}, re:run(Failure, "<not-authorized/>")).

%% The third wrong password ends the stream.
xmpp_wrong_password(_) ->
    {_, S1} = sent(?HEADER, new(presence_xmpp)),
    {Failure, S2} = sent(plain("ann", "wrong"), S1),
    ?assertMatch({match, _}, re:run(Failure, "<not-authorized/>")),
    {_, S3} = sent(auth("X-UNKNOWN", "x"), S2),
    {Last, _} = closed(plain("a/nn", "secret"), S3),
    ?assertMatch({match, _}, re:run(Last, "<failure .*</stream:stream>$")).

xmpp_errors(_) ->
    [begin
         {Bytes, _} = closed(Input, new(presence_xmpp)),
         ?assertMatch({match, _}, re:run(Bytes, "<stream:stream .*<" ++ Condition
                                         ++ " .*</stream:stream>$"))
     end || {Input, Condition} <-
                [{"<stream:stream to='example.org'>", "host-unknown"},
                 {"nonsense<", "not-well-formed"}, {"<!DOCTYPE a>", "restricted-xml"},
                 {"<stream to='localhost'>", "invalid-namespace"},
                 {["<", binary:copy(<<"x">>, 20000)], "policy-violation"}]],
    {_, S1} = sent(?HEADER, new(presence_xmpp)),
    [?assertMatch({{Bytes, _}, {match, _}}, {{Bytes, ended}, re:run(Bytes, Condition)})
     || {Input, Condition} <- [{"<message to='ann@localhost'><body>x</body></message>",
                                "<not-authorized "},
                               {"<iq type='set'><bind/></iq>", "<not-authorized "}],
        {Bytes, _} <- [closed(Input, S1)]],
    %% A second header needs a login before it.
    {Header, _} = closed("<?xml version='1.0'?>", S1),
    ?assertMatch({match, _}, re:run(Header, "^<stream:error><restricted-xml")).

xmpp_stanzas(_) ->
    S = online(),
    {[{route, Message}], _} = data("<message to='bob@localhost/x' id='1'><body>a&amp;b</body>"
                                   "<other/></message>", S),
    ?assertEqual(#{from => <<"ann">>, to => <<"bob">>, id => <<"1">>, body => <<"a&b">>}, Message),
    [begin
         {Bytes, _} = sent(Input, S),
         ?assertMatch({Bytes, {match, _}}, {Bytes, re:run(Bytes, Pattern)})
     end || {Input, Pattern} <-
                [{"<message to='bob@example.org' id='2'><body>x</body></message>",
                  "type='error' from='bob@example.org'.* id='2'.*<service-unavailable"},
                 {"<presence/>", "<presence from='ann@localhost/.*' to='ann@localhost/"},
                 {"<iq type='get' id='3'><query xmlns='jabber:iq:roster'/></iq>",
                  "type='result' id='3'><query xmlns='jabber:iq:roster'/>"},
                 {"<iq type='get' id='4'><ping xmlns='urn:xmpp:ping'/></iq>", "^<iq type='result'"},
                 {"<iq type='get' id='5'><time xmlns='urn:xmpp:time'/></iq>",
                  "type='error' id='5'"},
                 {"<iq type='set' id='6'><session xmlns='x'/></iq>", "type='result' id='6'"}]],
    [?assertEqual({[], S}, data(Silent, S))
     || Silent <- [" \n", "<iq type='result' id='1'/>", "<message to='bob@localhost'/>",
                   "<presence type='unavailable'/>",
                   "<message type='error' to='bob@localhost'><body>x</body></message>"]],
    {Delivered, _} = news({message, #{from => <<"bob">>, to => <<"ann">>, id => <<"7">>,
                                      body => <<"1<2">>}}, S),
    ?assertEqual(<<"<message type='chat' from='bob@localhost/presence' to='ann@localhost/presence' "
                   "id='7'><body>1&lt;2</body></message>">>, Delivered),
    {Absent, _} = news({undeliverable, Message, absent}, S),
    ?assertMatch({match, _}, re:run(Absent, "<error type='cancel'><service-unavailable")),
    [begin
         {[{send, Bytes}, close], _} = presence_xmpp:news(News, S),
         ?assertMatch({match, _}, re:run(Bytes, Pattern))
     end || {News, Pattern} <- [{shutdown, "^<stream:error><system-shutdown"},
                                {replaced, "<conflict "}]].

%% A client need not wait for the answer to its request to bind.
xmpp_pipelined(_) ->
    {_, S1} = sent([?HEADER], new(presence_xmpp)),
    {_, S2} = sent(plain("ann", "secret"), S1),
    {[{send, _}, {login, <<"ann">>}], S3} =
        data([?HEADER, "<iq type='set' id='b'><bind/></iq><presence/><message to='b@localhost'>"],
             S2),
    {[], S4} = data("<body>x</body></message>", S3),
    {Actions, _} = presence_xmpp:news(online, S4),
    ?assertMatch([{send, _}, {send, _}, {route, #{to := <<"b">>}}], Actions).

%% A message that comes while the owner of the user does not know the login yet waits for its end.
early_messages(_) ->
    Early = [{message, #{from => <<"bob">>, to => <<"ann">>, id => <<>>,
                         body => integer_to_binary(N)}} || N <- [1, 2, 3]],
    {_, X1} = sent(?HEADER, new(presence_xmpp)),
    {_, X2} = sent(plain("ann", "secret"), X1),
    {_, X3} = data([?HEADER, "<iq type='set' id='b'><bind/></iq>"], X2),
    {_, L1} = data("login ann secret\nping\n", new(presence_lines)),
    [begin
         Waiting = lists:foldl(fun(News, Before) ->
                                       {[], After} = Module:news(News, Before),
                                       After
                               end, State, Early),
         {Actions, Online} = Module:news(online, Waiting),
         ?assertEqual(<<"ann">>, Module:user(Online)),
         Texts = [iolist_to_binary(Bytes) || {send, Bytes} <- Actions],
         ?assertEqual(length(Patterns), length(Texts)),
         [?assertMatch({Text, {match, _}}, {Text, re:run(Text, Pattern)})
          || {Text, Pattern} <- lists:zip(Texts, Patterns)]
     end || {Module, State, Patterns} <-
                [{presence_xmpp, X3, ["<jid>ann", "<body>1<", "<body>2<", "<body>3<"]},
                 {presence_lines, L1, ["^welcome ann\n", "^from bob 1\n", "^from bob 2\n",
                                       "^from bob 3\n", "^pong\n"]}]].

%% Bytes behind <starttls/> are not encrypted, so they must have no effect.
starttls_forgets(_) ->
    {Features, S1} = sent(?HEADER, new(presence_xmpp)),
    ?assertMatch({match, _}, re:run(Features, "<starttls ")),
    ?assertMatch({[{starttls, _}], _},
                 data(["<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
                       plain("ann", "secret")], S1)).

lines(_) ->
    {Pong, S1} = sent("ping\r\n", new(presence_lines)),
    ?assertEqual(<<"pong\n">>, Pong),
    {[{login, <<"ann">>}], S2} = data("login ann secret\nping\nto bob hi there\n", S1),
    {[{send, Welcome}, {send, "pong\n"}, {route, Message}], S3} = presence_lines:news(online, S2),
    ?assertEqual(<<"welcome ann\n">>, iolist_to_binary(Welcome)),
    ?assertEqual(#{from => <<"ann">>, to => <<"bob">>, id => <<>>, body => <<"hi there">>},
                 Message),
    {[], S4} = data("pi", S3),
    {<<"pong\n">>, S5} = sent("ng\n", S4),
    ?assertEqual(<<"ann">>, presence_lines:user(S5)),
    {[{send, Got}], _} = presence_lines:news({message, #{from => <<"bob">>, to => <<"ann">>,
                                                        id => <<>>, body => <<"a\nb">>}}, S5),
    ?assertEqual(<<"from bob a b\n">>, iolist_to_binary(Got)),
    ?assertMatch({<<"bye\n">>, _}, closed("quit\n", S5)).

lines_errors(_) ->
    S = new(presence_lines),
    [?assertMatch({<<"error ", _/binary>>, S}, sent(Line, S))
     || Line <- ["\n", "hello\n", "to bob x\n", "login ann\n"]],
    ?assertMatch({<<"error wrong", _/binary>>, _}, closed("login ann wrong\n", S)),
    ?assertMatch({<<"error this line", _/binary>>, _}, closed(binary:copy(<<"x">>, 20000), S)),
    {_, Waiting} = data("login ann secret\n", S),
    {_, Online} = presence_lines:news(online, Waiting),
    [?assertMatch({<<"error ", _/binary>>, Online}, sent(Line, Online))
     || Line <- ["to bob\n", "to b/b x\n", <<"to bob ", 255, "\n">>, <<"to bob ", 0, "\n">>,
                 "login ann secret\n"]],
    %% Lines have no TLS, so a server that takes no password in clear takes none here.
    ok = application:set_env(presence, plain, tls),
    ok = presence_config:load(),
    ?assertMatch({<<"error no passwords", _/binary>>, _}, closed("login ann secret\n", S)).

refused(_) ->
    X = presence_xmpp:init(#{admission => refused, tls => false}),
    {Bytes, _} = closed(?HEADER, X),
    ?assertMatch({match, _}, re:run(Bytes, "<stream:stream .*<resource-constraint ")),
    L = presence_lines:init(#{admission => refused, tls => false}),
    ?assertEqual({<<"error busy: try again later\n">>, ended}, closed("login ann secret\n", L)).

%% Whatever a client sends, the protocols return actions.
hostile(_) ->
    Word = oneof([?HEADER, plain("ann", "secret"), plain("", ""), auth("SCRAM-SHA-1", "n,,n=a,r=b"),
                  "<response>eA==</response>", "<abort/>", "</stream:stream>", "<iq type='set' ",
                  "id='1'>", "<bind/>", "</iq>", "<starttls/>", "<message to='b@localhost'>",
                  "<body>x</body></message>", "login ann secret\n", "to ", "bob ", "x\n", "quit\n",
                  {message, #{from => <<"b">>, to => <<"ann">>, id => <<>>, body => <<"x">>}},
                  binary(5), "<", ">", " ", online, busy, replaced, shutdown, timeout]),
    ?assert(proper:quickcheck(
              ?FORALL({Module, Words, Admission},
                      {oneof([presence_xmpp, presence_lines]), list(Word),
                       oneof([admitted, refused])},
                      begin
                          _ = lists:foldl(
                                fun(W, S) ->
                                        {Actions, Next} =
                                            if is_atom(W); is_tuple(W) -> Module:news(W, S);
                                               true -> Module:data(iolist_to_binary(W), S)
                                            end,
                                        true = lists:all(fun is_action/1, Actions),
                                        Next
                                end, Module:init(#{admission => Admission, tls => false}), Words),
                          true
                      end), [{numtests, 500}, {to_file, user}, noshrink])).

is_action({send, Bytes}) -> is_integer(iolist_size(Bytes));
is_action({login, User}) -> presence_users:is_name(User);
is_action({route, #{from := _, to := _, id := _, body := _}}) -> true;
is_action({starttls, Bytes}) -> is_integer(iolist_size(Bytes));
is_action(Action) -> Action =:= close.

%% Helpers

new(Module) -> Module:init(#{admission => admitted, tls => false}).

online() ->
    {_, S1} = sent(?HEADER, new(presence_xmpp)),
    {_, S2} = sent(plain("ann", "secret"), S1),
    {_, S3} = data([?HEADER, "<iq type='set' id='b'><bind/></iq>"], S2),
    {_, S4} = news(online, S3),
    S4.

plain(User, Password) -> auth("PLAIN", [0, User, 0, Password]).

auth(Mechanism, Bytes) ->
    ["<auth mechanism='", Mechanism, "'>", base64:encode(iolist_to_binary(Bytes)), "</auth>"].

module(State) when is_tuple(State), element(1, State) =:= new, tuple_size(State) =:= 2 ->
    presence_lines;
module(State) when element(1, State) =:= waiting; element(1, State) =:= refused -> presence_lines;
module(State) when element(1, State) =:= online, tuple_size(State) =:= 3 ->
    %% Both protocols call this state so. Only that of XMPP has a parser.
    case element(3, State) of
        Rest when is_binary(Rest) -> presence_lines;
        _ -> presence_xmpp
    end;
module(_) -> presence_xmpp.

data(Bytes, State) -> (module(State)):data(iolist_to_binary(Bytes), State).

%% The bytes of a step that only sends
sent(Bytes, State) ->
    {Actions, Next} = data(Bytes, State),
    {iolist_to_binary([Out || {send, Out} <- Actions]), Next}.

closed(Bytes, State) ->
    {Actions, Next} = data(Bytes, State),
    ?assertEqual(close, lists:last(Actions)),
    {iolist_to_binary([Out || {send, Out} <- Actions]), Next}.

news(News, State) ->
    {Actions, Next} = presence_xmpp:news(News, State),
    {iolist_to_binary([Out || {send, Out} <- Actions]), Next}.
