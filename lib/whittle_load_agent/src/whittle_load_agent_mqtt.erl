%% @doc Speaks MQTT 3.1.1 as a client does (OASIS standard of 2014).
%%
%% Steps: `{login, ClientId}' and `{login, ClientId, User, Password}' begin a clean session;
%% `{subscribe, Filter, Level}' and `{unsubscribe, Filter}' wait for the server; `{publish, Topic,
%% Payload, Level}' waits for the server's acknowledgement unless the level (quality of service) is
%% 0; `{expect, Prefix}' and `{expect, Topic, Prefix}' wait for a message whose payload begins so.
%% The option `keep_alive' has the seconds after which the server may close a silent connection.
%% @hidden
-module(whittle_load_agent_mqtt).
-behaviour(whittle_load_agent_client).

-export([init/2, step/3, data/2, closed/1, match/2, bye/1, keep_alive/1]).

-import(whittle_load_agent_text, [fill/2, begins/2, delivered/2]).

-record(mqtt, {phase = new :: new | {keep_alive, 0..65_535} | login | online,
               buffer = <<>> :: binary(),
               needs = 0 :: non_neg_integer(),             % bytes of the packet that begins the
                                                           % buffer, as far as it tells
               next = 1 :: 1..65_535,                      % the number of the next packet
               %% Messages of level 2 that have arrived and that the server may send again
               received = [] :: [1..65_535]}).

-opaque state() :: #mqtt{}.

-export_type([state/0]).

%% The largest packet in bytes. The protocol allows 256 MB.
-define(LARGEST, 1_000_000).
%% The messages of level 2 that a server may have open
-define(MOST_OPEN, 1000).

%% @private
-spec init(map(), whittle_load_agent_client:user()) -> state().
init(#{keep_alive := Seconds}, _) -> #mqtt{phase = {keep_alive, Seconds}}.

%% @private
-spec step(term(), whittle_load_agent_client:user(), state()) ->
          {sent, iodata(), state()} | {await, iodata(), term(), state()} | {error, atom()}.
step({login, ClientId}, User, State) -> login(ClientId, none, User, State);
step({login, ClientId, Name, Password}, User, State) ->
    login(ClientId, {Name, Password}, User, State);
step(_, _, #mqtt{phase = Phase}) when Phase =/= online -> {error, not_logged_in};
step({subscribe, Filter, Level}, User, State) ->
    numbered(16#82, [string(Filter, User), Level], subscribed, State);
step({unsubscribe, Filter}, User, State) ->
    numbered(16#A2, string(Filter, User), unsubscribed, State);
step({publish, Topic, Payload, 0}, User, State) ->
    {sent, packet(16#30, [string(Topic, User), fill(Payload, User)]), State};
step({publish, Topic, Payload, Level}, User, #mqtt{next = Id} = State) ->
    Packet = packet(16#30 bor (Level bsl 1), [string(Topic, User), <<Id:16>>, fill(Payload, User)]),
    {await, Packet, {published, Level, Id}, following(State)};
step({expect, Prefix}, User, State) ->
    {await, [], {message, iolist_to_binary(fill(Prefix, User))}, State};
step({expect, Topic, Prefix}, User, State) ->
    {await, [], {message, iolist_to_binary(fill(Topic, User)),
                 iolist_to_binary(fill(Prefix, User))}, State}.

login(ClientId, Credentials, User, #mqtt{phase = {keep_alive, Seconds}} = State) ->
    {Flags, Strings} = case Credentials of
                           none -> {2#10, []};
                           {Name, Password} ->
                               {2#1100_0010, [string(Name, User), string(Password, User)]}
                       end,
    Contents = [<<4:16, "MQTT", 4, Flags, Seconds:16>>, string(ClientId, User), Strings],
    {await, packet(16#10, Contents), online, State#mqtt{phase = login}};
login(_, _, _, _) -> {error, logged_in_twice}.

numbered(Type, Payload, Event, #mqtt{next = Id} = State) ->
    {await, packet(Type, [<<Id:16>>, Payload]), {Event, Id}, following(State)}.

%% 0 is no number.
following(#mqtt{next = Id} = State) -> State#mqtt{next = Id rem 65_535 + 1}.

%% A string has at most 65,535 bytes.
string(Text, User) ->
    case iolist_to_binary(fill(Text, User)) of
        <<Whole:65_535/binary, _, _/binary>> -> [<<65_535:16>>, Whole];
        Bytes -> [<<(byte_size(Bytes)):16>>, Bytes]
    end.

packet(Type, Contents) -> [Type, length_of(iolist_size(Contents)), Contents].

length_of(Length) when Length < 128 -> [Length];
length_of(Length) -> [128 bor (Length band 127) | length_of(Length bsr 7)].

%% @private
-spec match(term(), whittle_load_agent_client:event()) -> boolean() | {error, atom()}.
match({message, Prefix}, {message, _, Payload}) -> begins(Prefix, Payload);
match({message, Topic, Prefix}, {message, Topic, Payload}) -> begins(Prefix, Payload);
match(online, {refused, Kind}) -> {error, Kind};
match({subscribed, Id}, {subscribed, Id, Code}) ->
    case Code of
        128 -> {error, subscription_refused};
        _ -> true
    end;
match(Await, Event) -> Await =:= Event.

%% @private
-spec closed(state()) -> {error, closed}.
closed(_) -> {error, closed}.

%% @private
-spec bye(state()) -> iodata().
bye(#mqtt{phase = online}) -> <<16#E0, 0>>;
bye(_) -> [].

%% @private
-spec keep_alive(state()) -> {iodata(), state()}.
keep_alive(#mqtt{phase = online} = State) -> {<<16#C0, 0>>, State};
keep_alive(State) -> {[], State}.

%% @private
-spec data(binary(), state()) -> {ok, [term()], iodata(), state()} | {error, atom()}.
data(Bytes, #mqtt{buffer = Before, needs = Needs} = State) ->
    case byte_size(Before) of
        0 -> read(Bytes, State, [], []);
        Size when Size + byte_size(Bytes) < Needs ->
            {ok, [], [], State#mqtt{buffer = <<Before/binary, Bytes/binary>>}};
        _ -> read(<<Before/binary, Bytes/binary>>, State, [], [])
    end.

%% Internal functions: packets from the server

read(<<>>, State, Events, Out) -> read_all(<<>>, 0, State, Events, Out);
read(<<Head, Bytes/binary>> = All, State, Events, Out) ->
    case size_of(Bytes, 0, 0) of
        {Length, Rest} when Length =< ?LARGEST ->
            case Rest of
                <<Contents:Length/binary, More/binary>> ->
                    case received(Head bsr 4, Head band 15, Contents, State) of
                        {error, _} = Error -> Error;
                        {Event, Answer, Next} ->
                            read(More, Next, [Event | Events], [Answer | Out]);
                        {Answer, Next} -> read(More, Next, Events, [Answer | Out])
                    end;
                _ ->
                    Needs = byte_size(All) - byte_size(Rest) + Length,
                    read_all(All, Needs, State, Events, Out)
            end;
        more -> read_all(All, 0, State, Events, Out);
        _ -> {error, too_long}
    end.

%% A copy, because the rest would keep the whole message.
read_all(Bytes, Needs, State, Events, Out) ->
    {ok, lists:reverse(Events), lists:reverse(Out),
     State#mqtt{buffer = binary:copy(Bytes), needs = Needs}}.

%% Seven bits in each byte, at most four bytes.
size_of(_, _, 28) -> too_long;
size_of(<<0:1, Bits:7, Rest/binary>>, Length, Shift) -> {Length bor (Bits bsl Shift), Rest};
size_of(<<1:1, Bits:7, Rest/binary>>, Length, Shift) ->
    size_of(Rest, Length bor (Bits bsl Shift), Shift + 7);
size_of(<<>>, _, _) -> more.

received(2, 0, <<0, 0>>, #mqtt{phase = login} = State) ->
    {online, [], State#mqtt{phase = online}};
received(2, 0, <<_, Code>>, #mqtt{phase = login} = State) when Code > 0 ->
    {{refused, refusal(Code)}, [], State};
received(_, _, _, #mqtt{phase = Phase}) when Phase =/= online -> {error, bad_packet};
received(3, Flags, Bytes, State) -> message((Flags bsr 1) band 3, Bytes, State);
received(4, 0, <<Id:16>>, State) -> {{published, 1, Id}, [], State};
received(5, 0, <<Id:16>>, State) -> {packet(16#62, <<Id:16>>), State};
received(6, 2, <<Id:16>>, #mqtt{received = Ids} = State) ->
    {packet(16#70, <<Id:16>>), State#mqtt{received = lists:delete(Id, Ids)}};
received(7, 0, <<Id:16>>, State) -> {{published, 2, Id}, [], State};
received(9, 0, <<Id:16, Code>>, State) when Code =< 2; Code =:= 128 ->
    {{subscribed, Id, Code}, [], State};
received(11, 0, <<Id:16>>, State) -> {{unsubscribed, Id}, [], State};
received(13, 0, <<>>, State) -> {[], State};
received(_, _, _, _) -> {error, bad_packet}.

message(0, <<Length:16, Topic:Length/binary, Payload/binary>>, State) ->
    {event(Topic, Payload), [], State};
message(1, <<Length:16, Topic:Length/binary, Id:16, Payload/binary>>, State) when Id > 0 ->
    {event(Topic, Payload), packet(16#40, <<Id:16>>), State};
message(2, <<Length:16, Topic:Length/binary, Id:16, Payload/binary>>,
        #mqtt{received = Ids} = State) when Id > 0 ->
    Answer = packet(16#50, <<Id:16>>),
    case lists:member(Id, Ids) of
        true -> {Answer, State};
        false when length(Ids) >= ?MOST_OPEN -> {error, too_many_open};
        false -> {event(Topic, Payload), Answer, State#mqtt{received = [Id | Ids]}}
    end;
message(_, _, _) -> {error, bad_packet}.

%% The events of a message live as long as the message's bytes.
event(Topic, Payload) -> delivered(Payload, {message, Topic, Payload}).

%% Section 3.2.2.3
refusal(1) -> wrong_version;
refusal(2) -> identifier_rejected;
refusal(3) -> unavailable;
refusal(4) -> bad_credentials;
refusal(5) -> not_authorized;
refusal(_) -> refused.
