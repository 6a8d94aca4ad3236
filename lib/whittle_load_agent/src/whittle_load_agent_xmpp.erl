%% @doc Speaks XMPP as a client does: streams, SASL, resource binding, roster, presence, messages
%% (RFC 6120, RFC 6121).
%%
%% Steps: `{login, User, Password}'; `roster' asks for the roster; `presence' announces the user;
%% `{message, To, Text}' sends a chat message to another user of the same server; `{expect, Prefix}'
%% waits for a message whose text begins so. The options have the `domain' of the server and the
%% `mechanism' of the login: `plain' or `scram'.
%%
%% A message carries the moment of its intended start in its id, so the receiving agent can tell how
%% long the message was on its way.
%% @hidden
-module(whittle_load_agent_xmpp).
-behaviour(whittle_load_agent_client).

-export([init/2, step/3, data/2, closed/1, match/2, bye/1, keep_alive/1]).

-import(whittle_load_agent_text, [fill/2]).
-import(whittle_load_agent_xml, [attribute/2, child/2, escape/1, feed/2]).

%% Between two messages the state has few words, because each user that waits keeps one.
-record(xmpp, {xml :: whittle_load_agent_xml:state(),
               phase = new :: new | features | plain | binding | online
                            | {scram, whittle_load_agent_scram:state()} | bound,
               login = none :: none | {User :: binary(), Password :: binary()},
               domain :: binary(),
               mechanisms :: [binary()],            % the first that the server has too
               next = 1 :: pos_integer()}).         % the number of the next request

-opaque state() :: #xmpp{}.

-export_type([state/0]).

%% @private
-spec init(map(), whittle_load_agent_client:user()) -> state().
init(Options, _) ->
    #xmpp{xml = whittle_load_agent_xml:new(), domain = maps:get(domain, Options),
          mechanisms = case maps:get(mechanism, Options, plain) of
                           plain -> [<<"PLAIN">>];
                           scram -> whittle_load_agent_scram:mechanisms()
                       end}.

%% @private
-spec step(term(), whittle_load_agent_client:user(), state()) ->
          {sent, iodata(), state()} | {await, iodata(), term(), state()} | {error, atom()}.
step({login, Name, Password}, User, #xmpp{phase = new} = State) ->
    Login = {iolist_to_binary(fill(Name, User)), iolist_to_binary(fill(Password, User))},
    {await, opening(State), online, State#xmpp{phase = features, login = Login}};
step({login, _, _}, _, _) -> {error, logged_in_twice};
step(_, _, #xmpp{phase = Phase}) when Phase =/= online -> {error, not_logged_in};
step(roster, _, #xmpp{next = Next} = State) ->
    Id = integer_to_binary(Next),
    {await, ["<iq type='get' id='", Id, "'><query xmlns='jabber:iq:roster'/></iq>"], {result, Id},
     State#xmpp{next = Next + 1}};
step(presence, _, State) -> {sent, "<presence/>", State};
step({message, To, Text}, #{clock := Clock} = User, #xmpp{domain = Domain} = State) ->
    {sent, ["<message type='chat' id='w", integer_to_binary(Clock), "' to='",
            escape(iolist_to_binary(fill(To, User))), $@, escape(Domain), "'><body>",
            escape(iolist_to_binary(fill(Text, User))), "</body></message>"], State};
step({expect, Prefix}, User, State) ->
    {await, [], {message, iolist_to_binary(fill(Prefix, User))}, State}.

opening(#xmpp{domain = Domain}) ->
    ["<?xml version='1.0'?><stream:stream to='", escape(Domain), "' version='1.0' xmlns="
     "'jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"].

% @private
-spec closed(#xmpp{}) -> {error, closed}.
closed(_) -> {error, closed}.

%% @private
-spec bye(state()) -> iodata().
bye(#xmpp{phase = online}) -> "</stream:stream>";
bye(_) -> [].

%% @private A blank between two stanzas (RFC 6120, section 4.6.1).
-spec keep_alive(state()) -> {iodata(), state()}.
keep_alive(#xmpp{phase = online} = State) -> {" ", State};
keep_alive(State) -> {[], State}.

%% @private
-spec match(term(), term()) -> boolean() | {error, atom()}.
match({message, Prefix}, {message, Text}) -> whittle_load_agent_text:begins(Prefix, Text);
match({result, Id}, {result, Id, <<"result">>}) -> true;
match({result, Id}, {result, Id, _}) -> {error, iq_error};
match(Await, Event) -> Await =:= Event.

%% @private
-spec data(binary(), state()) -> {ok, [term()], iodata(), state()} | {error, atom()}.
data(Bytes, #xmpp{xml = Xml} = State) ->
    case feed(Bytes, Xml) of
        {ok, Pieces, Next} -> pieces(Pieces, State#xmpp{xml = Next}, [], []);
        {error, _} = Error -> Error
    end.

pieces([], State, Events, Out) -> {ok, lists:reverse(Events), lists:reverse(Out), State};
pieces([Piece | Pieces], State, Events, Out) ->
    case piece(Piece, State) of
        {ok, Event, More, Next} -> pieces(Pieces, Next, [Event | Events], [More | Out]);
        {silent, More, Next} -> pieces(Pieces, Next, Events, [More | Out]);
        {error, _} = Error -> Error
    end.

%% Internal functions: the login

piece({opened, _}, State) -> {silent, [], State};
piece(closed, _) -> {error, stream_closed};
piece({child, {<<"stream:error">>, _, Children}}, _) -> {error, condition(Children, stream_error)};
piece({child, {<<"stream:features">>, _, _} = Features}, State) -> features(Features, State);
piece({child, {<<"challenge">>, _, _} = Challenge}, #xmpp{phase = {scram, Scram}} = State) ->
    case whittle_load_agent_scram:answer(decoded(Challenge), Scram) of
        {ok, Answer, Next} ->
            {silent, sasl("response", Answer), State#xmpp{phase = {scram, Next}}};
        {error, _} = Error -> Error
    end;
piece({child, {<<"success">>, _, _} = Success}, #xmpp{phase = {scram, Scram}} = State) ->
    case whittle_load_agent_scram:verify(decoded(Success), Scram) of
        ok -> authenticated(State);
        {error, _} = Error -> Error
    end;
piece({child, {<<"success">>, _, _}}, #xmpp{phase = plain} = State) -> authenticated(State);
piece({child, {<<"failure">>, _, Children}}, _) -> {error, condition(Children, not_authorized)};
piece({child, {<<"iq">>, _, _} = Iq}, State) -> iq(Iq, State);
piece({child, {<<"message">>, _, _} = Message}, State) ->
    case child(<<"body">>, Message) of
        {ok, Body} -> {ok, delivered(Message, whittle_load_agent_xml:text(Body)), [], State};
        none -> {silent, [], State}
    end;
piece({child, {<<"presence">>, _, _}}, State) -> {ok, presence, [], State};
piece({child, _}, State) -> {silent, [], State}.

features(Features, #xmpp{phase = features, login = {User, Password},
                         mechanisms = Mechanisms} = State) ->
    Offered = case child(<<"mechanisms">>, Features) of
                  {ok, {_, _, Children}} ->
                      [whittle_load_agent_xml:text(M) || {<<"mechanism">>, _, _} = M <- Children];
                  none -> []
              end,
    case [M || M <- Mechanisms, lists:member(M, Offered)] of
        [<<"PLAIN">> | _] ->
            {silent, auth(<<"PLAIN">>, [0, User, 0, Password]), State#xmpp{phase = plain}};
        [Scram | _] ->
            {First, Next} = whittle_load_agent_scram:first(Scram, User, Password),
            {silent, auth(Scram, First), State#xmpp{phase = {scram, Next}}};
        [] -> {error, no_mechanism}
    end;
features(Features, #xmpp{phase = binding} = State) ->
    Session = case child(<<"session">>, Features) of
                  {ok, Offer} -> child(<<"optional">>, Offer) =:= none;
                  none -> false
              end,
    {silent, ["<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
              ["<iq type='set' id='session'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>"
               "</iq>" || Session]], State#xmpp{phase = bound}};
features(_, State) -> {silent, [], State}.

auth(Mechanism, Bytes) ->
    ["<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='", Mechanism, "'>",
     base64:encode(iolist_to_binary(Bytes)), "</auth>"].

sasl(Name, Bytes) ->
    [$<, Name, " xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>",
     base64:encode(iolist_to_binary(Bytes)), "</", Name, $>].

decoded(Element) ->
    try base64:decode(whittle_load_agent_xml:text(Element))
    catch error:_ -> <<>>
    end.

%% The server begins a new stream. The password is not needed any more.
authenticated(State) ->
    {silent, opening(State), State#xmpp{xml = whittle_load_agent_xml:new(), phase = binding,
                                        login = none, mechanisms = []}}.

%% Internal functions: stanzas

iq(Iq, #xmpp{phase = Phase} = State) ->
    case {attribute(<<"type">>, Iq), attribute(<<"id">>, Iq), Phase} of
        {{ok, <<"result">>}, {ok, <<"bind">>}, bound} ->
            {ok, online, [], State#xmpp{phase = online}};
        {{ok, <<"error">>}, {ok, <<"bind">>}, bound} -> {error, bind_refused};
        {{ok, Type}, {ok, Id}, _} when Type =:= <<"get">>; Type =:= <<"set">> ->
            {silent, reply(Iq, Type, Id), State};
        {{ok, Type}, {ok, Id}, _} -> {ok, {result, Id, Type}, [], State};
        _ -> {silent, [], State}
    end.

%% A server may ping its clients (XEP-0199), and pushes changes of the roster. The client supports
%% nothing else (RFC 6120, section 8.4).
reply(Iq, Type, Id) ->
    To = case attribute(<<"from">>, Iq) of
             {ok, From} -> [" to='", escape(From), $'];
             none -> []
         end,
    case Type =:= <<"set">> orelse child(<<"ping">>, Iq) =/= none of
        true -> ["<iq type='result' id='", escape(Id), $', To, "/>"];
        false ->
            ["<iq type='error' id='", escape(Id), $', To, "><error type='cancel'>"
             "<service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"]
    end.

delivered(Message, Text) ->
    case attribute(<<"id">>, Message) of
        {ok, <<"w", Digits/binary>>} when byte_size(Digits) < 20 ->
            try {delivered, binary_to_integer(Digits), {message, Text}}
            catch error:badarg -> {message, Text}
            end;
        _ -> {message, Text}
    end.

%% The name of the first child is the condition. Only known names become atoms.
condition([{Name, _, _} | _], Default) ->
    Known = #{<<"not-authorized">> => not_authorized, <<"conflict">> => conflict,
              <<"policy-violation">> => policy_violation, <<"temporary-auth-failure">> => busy,
              <<"resource-constraint">> => busy, <<"system-shutdown">> => system_shutdown,
              <<"host-unknown">> => host_unknown, <<"connection-timeout">> => connection_timeout},
    maps:get(Name, Known, Default);
condition(_, Default) -> Default.
