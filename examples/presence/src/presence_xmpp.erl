%% @doc Speaks XMPP with a client: streams, STARTTLS, SASL, resource binding, roster, presence,
%% pings and messages (RFC 6120, RFC 6121, XEP-0199).
%%
%% It is a subset. A user has one session, whose resource the server chooses. Rosters are empty, so
%% a presence goes only to the user itself. The server passes on the text of a message, and nothing
%% else of it. It does not keep messages for absent users. Prefixes must be the usual ones
%% (`stream:'). This module is pure, except that SCRAM draws a random nonce.
%% @hidden
-module(presence_xmpp).
-behaviour(presence_protocol).

-export([init/1, data/2, news/2, user/1]).

-import(presence_xml, [attribute/2, child/2, escape/1]).

%% A connection before its login
-record(new, {xml :: presence_xml:state(),
              phase = opening :: opening | refused | auth | {scram, presence_scram:state()}
                               | {authenticated, User :: binary()} | {bind, User :: binary()}
                               | {waiting, User :: binary(), BindId :: binary()},
              tls :: boolean(),
              failures = 0 :: non_neg_integer(),
              %% These wait for the end of the login: what the client sent behind its request to
              %% bind, and messages for the user.
              later = [] :: [presence_xml:event() | {message, presence_protocol:message()}]}).

%% Most connections are idle users, so their state is small.
-record(online, {user :: binary(), xml :: presence_xml:state()}).

-type state() :: #new{} | #online{} | ended.

-define(RESOURCE, "presence").
%% The number of wrong passwords after which a stream ends
-define(FAILURES, 3).
%% So many messages and stanzas wait for the end of a login; further messages are dropped.
-define(LATER, 1000).

%% @private
-spec init(presence_protocol:options()) -> state().
init(#{admission := refused, tls := Tls}) ->
    #new{xml = presence_xml:new(), phase = refused, tls = Tls};
init(#{tls := Tls}) -> #new{xml = presence_xml:new(), tls = Tls}.

%% @private
-spec user(state()) -> binary() | none.
user(#online{user = User}) -> User;
user(#new{phase = {waiting, User, _}}) -> User;
user(_) -> none.

%% @private
-spec data(binary(), state()) -> presence_protocol:result(state()).
data(_, ended) -> {[], ended};
data(Bytes, State) ->
    case presence_xml:feed(Bytes, presence_config:get(largest), xml(State)) of
        {ok, Events, Xml} -> events(Events, with_xml(Xml, State), []);
        {error, Condition} -> stream_error(Condition, [], State)
    end.

xml(#online{xml = Xml}) -> Xml;
xml(#new{xml = Xml}) -> Xml.

with_xml(Xml, #online{} = State) -> State#online{xml = Xml};
with_xml(Xml, #new{} = State) -> State#new{xml = Xml}.

%% Actions are in reverse order. An event of a session waits for the answer to the login.
events([], State, Actions) -> {lists:reverse(Actions), State};
events(Events, #new{phase = {waiting, _, _}, later = Later} = State, Actions) ->
    {lists:reverse(Actions), State#new{later = Later ++ Events}};
events([Event | Events], State, Actions) ->
    case event(Event, State) of
        {end_of_stream, Last} -> ended(Last, Actions);
        {stream_error, Condition} -> stream_error(Condition, Actions, State);
        %% Nothing that came before the encryption counts after it.
        {starttls, _} = Action -> {lists:reverse(Actions, [Action]), State};
        {More, Next} -> events(Events, Next, lists:reverse(More, Actions))
    end.

ended(Bytes, Actions) -> {lists:reverse(Actions, [{send, Bytes}, close]), ended}.

%% RFC 6120, section 4.9.1.2: an error before the server's header comes behind that header.
stream_error(Condition, Actions, State) ->
    Header = case State of
                 #new{phase = Phase} when Phase =:= opening; Phase =:= refused -> header();
                 #new{phase = {authenticated, _}} -> header();
                 _ -> []
             end,
    Name = [case Char of $_ -> $-; _ -> Char end || Char <- atom_to_list(Condition)],
    ended([Header, "<stream:error><", Name, " xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
           "</stream:error></stream:stream>"], Actions).

header() ->
    Id = integer_to_binary(erlang:unique_integer([positive])),
    ["<?xml version='1.0'?><stream:stream from='", escape(presence_config:get(domain)), "' id='",
     Id, "' version='1.0' xmlns='jabber:client' "
     "xmlns:stream='http://etherx.jabber.org/streams'>"].

%% Internal functions: the stream and the login

event(closed, _) -> {end_of_stream, "</stream:stream>"};
event({opened, Root}, State) -> opened(Root, attribute(<<"to">>, Root), State);
event({stanza, Stanza}, #online{} = State) -> stanza(Stanza, State);
event({message, _} = Message, #online{} = State) -> news(Message, State);
event({stanza, Stanza}, #new{} = State) -> login(Stanza, State).

opened(_, _, #online{}) -> {stream_error, not_well_formed};
opened({<<"stream:stream">>, _, _}, To, #new{phase = Phase} = State) ->
    Domain = presence_config:get(domain),
    case {To, Phase} of
        {_, refused} -> {stream_error, resource_constraint};
        {{ok, Other}, _} when Other =/= Domain -> {stream_error, host_unknown};
        {_, opening} -> {[{send, [header(), features(State)]}], State#new{phase = auth}};
        {_, {authenticated, User}} ->
            {[{send, [header(), "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"
                      "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session>"
                      "</stream:features>"]}], State#new{phase = {bind, User}}};
        _ -> {stream_error, not_well_formed}
    end;
opened(_, _, _) -> {stream_error, invalid_namespace}.

features(#new{tls = Tls}) ->
    ["<stream:features>",
     ["<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>" || is_tls_possible(Tls)],
     "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>",
     [["<mechanism>", Name, "</mechanism>"]
      || Name <- [Name || {Name, _} <- presence_users:mechanisms()]
             ++ [<<"PLAIN">> || is_plain_allowed(Tls)]],
     "</mechanisms></stream:features>"].

is_tls_possible(Tls) -> not Tls andalso presence_config:get(certificate) =/= none.

is_plain_allowed(Tls) -> Tls orelse presence_config:get(plain_here).

login({<<"starttls">>, _, _}, #new{phase = auth, tls = Tls}) ->
    case is_tls_possible(Tls) of
        true ->
            {starttls, "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"};
        false -> {end_of_stream, "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
                                 "</stream:stream>"}
    end;
login({<<"auth">>, _, _} = Auth, #new{phase = auth, tls = Tls} = State) ->
    Mechanism = case attribute(<<"mechanism">>, Auth) of
                    {ok, Given} -> Given;
                    none -> <<>>
                end,
    case {lists:keyfind(Mechanism, 1, presence_users:mechanisms()), Mechanism} of
        {{_, Hash}, _} -> scram(decoded(Auth), Hash, State);
        {false, <<"PLAIN">>} ->
            case is_plain_allowed(Tls) of
                true -> plain(decoded(Auth), State);
                false -> failure("encryption-required", State)
            end;
        _ -> failure("invalid-mechanism", State)
    end;
login({<<"response">>, _, _} = Response, #new{phase = {scram, Scram}} = State) ->
    case presence_scram:final(decoded(Response), Scram) of
        {ok, User, Answer} ->
            case presence_users:is_name(User) of
                true -> authenticated(User, base64:encode(Answer), State);
                false -> failure("not-authorized", State)
            end;
        error -> failure("not-authorized", State)
    end;
login({<<"abort">>, _, _}, #new{phase = {scram, _}} = State) -> failure("aborted", State);
login({<<"iq">>, _, _} = Iq, #new{phase = {bind, User}} = State) ->
    case {attribute(<<"type">>, Iq), attribute(<<"id">>, Iq), child(<<"bind">>, Iq)} of
        {{ok, <<"set">>}, {ok, Id}, {ok, _}} ->
            {[{login, User}], State#new{phase = {waiting, User, Id}}};
        _ -> {stream_error, not_authorized}
    end;
login(_, #new{phase = {scram, _}} = State) -> failure("aborted", State);
login(_, _) -> {stream_error, not_authorized}.

%% RFC 4616: an authorization identity, a zero byte, the name, a zero byte, the password.
plain(Message, State) ->
    case binary:split(Message, <<0>>, [global]) of
        [As, User, Password] when As =:= <<>>; As =:= User ->
            case presence_users:check(User, Password) of
                true -> authenticated(binary:copy(User), [], State);
                false -> failure("not-authorized", State)
            end;
        _ -> failure("malformed-request", State)
    end.

scram(Message, Hash, State) ->
    Nonce = base64:encode(crypto:strong_rand_bytes(18)),
    case presence_scram:first(Message, Hash, Nonce,
                              fun(User) -> presence_users:scram(User, Hash) end) of
        {ok, Challenge, Scram} ->
            {[{send, ["<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>",
                      base64:encode(Challenge), "</challenge>"]}],
             State#new{phase = {scram, Scram}}};
        error -> failure("malformed-request", State)
    end.

decoded(Element) ->
    try base64:decode(presence_xml:text(Element))
    catch error:_ -> <<>>
    end.

%% The client begins a new stream.
authenticated(User, Data, State) ->
    {[{send, ["<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>", Data, "</success>"]}],
     State#new{xml = presence_xml:new(), phase = {authenticated, User}}}.

failure(Condition, #new{failures = Failures} = State) ->
    ok = presence_counts:login(refused),
    Bytes = ["<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><", Condition, "/></failure>"],
    case Failures + 1 of
        ?FAILURES -> {end_of_stream, [Bytes, "</stream:stream>"]};
        More -> {[{send, Bytes}], State#new{phase = auth, failures = More}}
    end.

%% Internal functions: stanzas of a session

stanza({<<"message">>, _, _} = Stanza, #online{user = From} = State) ->
    case {attribute(<<"type">>, Stanza), attribute(<<"to">>, Stanza), child(<<"body">>, Stanza)} of
        {{ok, <<"error">>}, _, _} -> {[], State};
        {_, {ok, Address}, {ok, Body}} ->
            Id = id(Stanza),
            Text = presence_xml:text(Body),
            case name(Address) of
                {ok, To} ->
                    {[{route, #{from => From, to => To, id => Id, body => Text}}], State};
                error -> {[{send, message_error(Address, Id, absent, State)}], State}
            end;
        _ -> {[], State}
    end;
stanza({<<"presence">>, _, _} = Stanza, #online{user = User} = State) ->
    %% Nobody else is subscribed to the user.
    case attribute(<<"type">>, Stanza) of
        none ->
            Own = address(User),
            {[{send, ["<presence from='", Own, "' to='", Own, "'/>"]}], State};
        _ -> {[], State}
    end;
stanza({<<"iq">>, _, Children} = Stanza, State) ->
    case {attribute(<<"type">>, Stanza), [Child || {_, _, _} = Child <- Children]} of
        {{ok, Type}, [Child | _]} when Type =:= <<"get">>; Type =:= <<"set">> ->
            {[{send, iq(Type, Child, attribute(<<"xmlns">>, Child), id(Stanza), State)}], State};
        _ -> {[], State}
    end;
stanza(_, _) -> {stream_error, unsupported_stanza_type}.

id(Stanza) ->
    case attribute(<<"id">>, Stanza) of
        {ok, Id} -> Id;
        none -> <<>>
    end.

%% The name in an address of this domain
name(Address) ->
    Domain = presence_config:get(domain),
    case binary:split(Address, <<"@">>) of
        [Name, Rest] ->
            case hd(binary:split(Rest, <<"/">>)) =:= Domain andalso presence_users:is_name(Name) of
                true -> {ok, binary:copy(Name)};
                false -> error
            end;
        _ -> error
    end.

address(User) -> [escape(User), $@, escape(presence_config:get(domain)), "/" ?RESOURCE].

iq(<<"get">>, {<<"query">>, _, _}, {ok, <<"jabber:iq:roster">>}, Id, _) ->
    ["<iq type='result' id='", escape(Id), "'><query xmlns='jabber:iq:roster'/></iq>"];
iq(<<"get">>, {<<"ping">>, _, _}, _, Id, _) -> ["<iq type='result' id='", escape(Id), "'/>"];
iq(<<"set">>, {<<"session">>, _, _}, _, Id, _) -> ["<iq type='result' id='", escape(Id), "'/>"];
iq(_, _, _, Id, _) ->
    ["<iq type='error' id='", escape(Id), "'><error type='cancel'><service-unavailable "
     "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"].

message_error(To, Id, Why, #online{user = User}) ->
    {Type, Condition} = case Why of
                            absent -> {"cancel", "service-unavailable"};
                            busy -> {"wait", "resource-constraint"}
                        end,
    ["<message type='error' from='", escape(To), "' to='", address(User), $', id_attribute(Id),
     "><error type='", Type, "'><", Condition, " xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
     "</error></message>"].

id_attribute(<<>>) -> [];
id_attribute(Id) -> [" id='", escape(Id), $'].

%% @private
-spec news(presence_protocol:news(), state()) -> presence_protocol:result(state()).
news(_, ended) -> {[], ended};
news(online, #new{phase = {waiting, User, Id}, xml = Xml, later = Later}) ->
    events(Later, #online{user = User, xml = Xml},
           [{send, ["<iq type='result' id='", escape(Id),
                    "'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>", address(User),
                    "</jid></bind></iq>"]}]);
news(busy, State) -> stream_error(resource_constraint, [], State);
news(replaced, State) -> stream_error(conflict, [], State);
news(shutdown, State) -> stream_error(system_shutdown, [], State);
news(timeout, State) -> stream_error(connection_timeout, [], State);
news({message, _} = Message, #new{phase = {waiting, _, _}, later = Later} = State)
  when length(Later) < ?LATER ->
    {[], State#new{later = Later ++ [Message]}};
news({message, #{from := From, id := Id, body := Body}}, #online{user = User} = State) ->
    {[{send, ["<message type='chat' from='", address(From), "' to='", address(User), $',
              id_attribute(Id), "><body>", escape(Body), "</body></message>"]}], State};
news({undeliverable, #{to := To, id := Id}, Why}, #online{} = State) ->
    Address = <<To/binary, $@, (presence_config:get(domain))/binary>>,
    {[{send, message_error(Address, Id, Why, State)}], State};
news(_, State) -> {[], State}.
