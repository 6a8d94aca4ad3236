%% @doc Speaks WebSocket as a client does (RFC 6455).
%%
%% Steps: `upgrade' asks the server to change from HTTP to WebSocket; `{send, Text}' and
%% `{send_binary, Text}' send a message; `{expect, Prefix}' waits for a message that begins so;
%% `{ask, Text, Prefix}' and `{ask_binary, Text, Prefix}' do both. The options have the `host', the
%% `path' and the `subprotocol' of the request.
%%
%% The client refuses each frame that the RFC forbids a server to send. It asks for no extensions.
%% A mask hides from proxies that a page chose the bytes; here the engineer chose them, so the keys
%% come from the user's own random numbers.
%%
%% Debian's cowlib would read frames too. It is compiled for OTP 25 only, and it brings crypto,
%% which is larger than the agent's own code.
%% @hidden
-module(whittle_load_agent_websocket).
-behaviour(whittle_load_agent_client).

-export([init/2, step/3, data/2, closed/1, match/2, bye/1, keep_alive/1]).

-import(whittle_load_agent_text, [fill/2, begins/2, delivered/2, lower/1, trimmed/1]).

%% The state of a user that waits: open, no bytes of a frame, no fragments of a message.
-record(open, {buffer = <<>> :: binary(),
               message = none :: message(),
               needs = 0 :: non_neg_integer()}).       % bytes of the frame that begins the buffer,
                                                       % as far as it tells

-record(request, {options :: map(),
                  key :: binary(),
                  buffer = <<>> :: binary()}).

-record(response, {buffer :: binary(),                  % behind the lines that are read
                   accept :: binary(),                  % the value that proves WebSocket
                   subprotocol :: none | binary(),
                   status = none :: none | 101,
                   fields = [] :: [upgrade | connection | accept | subprotocol],
                   size = 0 :: non_neg_integer()}).

%% The fragments of a message so far, last first, and their bytes
-type message() :: none | {text | binary, binary(), non_neg_integer()}.

-type state() :: #open{} | #request{} | #response{}.

%% The largest message, and the largest head of the response, in bytes.
-define(LARGEST, 1_000_000).
-define(LARGEST_HEAD, 65_536).

%% RFC 6455, section 1.3
-define(GUID, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").

%% @private
-spec init(map(), whittle_load_agent_client:user()) -> state().
init(Options, #{id := Id, random := Random, clock := Clock}) ->
    #request{options = Options, key = base64:encode(<<Random:32, Id:32, Clock:64>>)}.

%% @private
-spec step(term(), whittle_load_agent_client:user(), state()) ->
          {sent, iodata(), state()} | {await, iodata(), term(), state()} | {error, atom()}.
step(upgrade, User, #request{options = Options, key = Key}) ->
    #{host := Host, path := Path, subprotocol := Subprotocol} = Options,
    Accept = base64:encode(whittle_load_agent_sha1:hash(<<Key/binary, ?GUID>>)),
    {await, ["GET ", fill(Path, User), " HTTP/1.1\r\nHost: ", Host, "\r\nUpgrade: websocket\r\n"
             "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ", Key, "\r\n",
             [["Sec-WebSocket-Protocol: ", Subprotocol, "\r\n"] || is_binary(Subprotocol)],
             "\r\n"], opened, #response{buffer = <<>>, accept = Accept, subprotocol = Subprotocol}};
step(upgrade, _, _) -> {error, upgraded_twice};
step(Step, User, #open{} = State) ->
    case Step of
        {send, Text} -> {sent, message(text, Text, User), State};
        {send_binary, Text} -> {sent, message(binary, Text, User), State};
        {expect, Prefix} -> {await, [], prefix(Prefix, User), State};
        {ask, Text, Prefix} -> {await, message(text, Text, User), prefix(Prefix, User), State};
        {ask_binary, Text, Prefix} ->
            {await, message(binary, Text, User), prefix(Prefix, User), State}
    end;
step(_, _, _) -> {error, not_upgraded}.

prefix(Prefix, User) -> {message, iolist_to_binary(fill(Prefix, User))}.

message(Type, Text, #{random := Key} = User) ->
    frame(case Type of text -> 1; binary -> 2 end, iolist_to_binary(fill(Text, User)), Key).

%% @private
-spec match(term(), whittle_load_agent_client:event()) -> boolean() | {error, binary()}.
match({message, Prefix}, {message, Text}) -> begins(Prefix, Text);
match(opened, {refused, Status}) -> {error, <<"status_", (integer_to_binary(Status))/binary>>};
match(Await, Event) -> Await =:= Event.

%% @private
-spec closed(state()) -> {error, closed}.
closed(_) -> {error, closed}.

%% @private A close with the code for a normal end.
-spec bye(state()) -> iodata().
bye(#open{}) -> frame(8, <<1000:16>>, any_key());
bye(_) -> [].

%% @private A ping.
-spec keep_alive(state()) -> {iodata(), state()}.
keep_alive(#open{} = State) -> {frame(9, <<>>, any_key()), State};
keep_alive(State) -> {[], State}.

%% @private
-spec data(binary(), state()) ->
          {ok, [term()], iodata(), state()} | {error, atom() | binary()}
        | {error, atom() | binary(), iodata()}.
%% Nothing matches the buffer until the frame is whole, so the VM appends without a copy.
data(Bytes, #open{buffer = Before, needs = Needs} = State)
  when byte_size(Before) + byte_size(Bytes) < Needs ->
    {ok, [], [], State#open{buffer = <<Before/binary, Bytes/binary>>}};
data(Bytes, #open{buffer = Before} = State) ->
    read(joined(Before, Bytes), State, [], []);
data(Bytes, #response{buffer = Before, size = Size} = State) ->
    head(joined(Before, Bytes), State#response{size = Size + byte_size(Bytes)});
data(_, #request{}) -> {error, no_websocket}.

joined(<<>>, Bytes) -> Bytes;
joined(Before, Bytes) -> <<Before/binary, Bytes/binary>>.

%% Internal functions: the handshake

head(_, #response{size = Size}) when Size > ?LARGEST_HEAD -> {error, too_long};
head(Bytes, #response{status = none} = State) ->
    case erlang:decode_packet(http_bin, Bytes, []) of
        {ok, {http_response, {1, 1}, 101, _}, Rest} -> head(Rest, State#response{status = 101});
        {ok, {http_response, _, Status, _}, _} when Status >= 100, Status =< 599 ->
            {ok, [{refused, Status}], [], State#response{buffer = <<>>}};
        {more, _} -> {ok, [], [], State#response{buffer = Bytes}};
        _ -> {error, no_websocket}
    end;
head(Bytes, #response{fields = Fields, subprotocol = Subprotocol} = State) ->
    case erlang:decode_packet(httph_bin, Bytes, []) of
        {ok, {http_header, _, Name, _, Value}, Rest} ->
            case field(lower(name(Name)), trimmed(Value), State) of
                ok -> head(Rest, State);
                {error, _} = Error -> Error;
                Field -> head(Rest, State#response{fields = [Field | Fields]})
            end;
        {ok, http_eoh, Rest} ->
            Needed = [accept, connection, upgrade] ++ [subprotocol || is_binary(Subprotocol)],
            case Needed -- Fields of
                [] -> read(Rest, #open{}, [opened], []);
                _ -> {error, no_websocket}
            end;
        {more, _} -> {ok, [], [], State#response{buffer = Bytes}};
        _ -> {error, no_websocket}
    end.

name(Name) when is_atom(Name) -> atom_to_binary(Name);
name(Name) -> Name.

%% RFC 6455, section 4.1
field(<<"upgrade">>, Value, _) -> has(<<"websocket">>, Value, upgrade);
field(<<"connection">>, Value, _) -> has(<<"upgrade">>, Value, connection);
field(<<"sec-websocket-accept">>, Value, #response{accept = Accept}) ->
    case Value of
        Accept -> accept;
        _ -> {error, wrong_accept}
    end;
field(<<"sec-websocket-protocol">>, Value, #response{subprotocol = Subprotocol}) ->
    case Value of
        Subprotocol -> subprotocol;
        _ -> {error, wrong_subprotocol}
    end;
field(<<"sec-websocket-extensions">>, _, _) -> {error, unknown_extension};
field(_, _, _) -> ok.

has(Token, Value, Field) ->
    Tokens = [trimmed(One) || One <- binary:split(lower(Value), <<",">>, [global])],
    case lists:member(Token, Tokens) of
        true -> Field;
        false -> ok
    end.

%% Internal functions: frames from the server (RFC 6455, section 5)

read(Bytes, State, Events, Out) ->
    case Bytes of
        <<_:1, Reserved:3, _:4, _/bits>> when Reserved =/= 0 -> {error, bad_frame};
        <<_:8, 1:1, _/bits>> -> {error, bad_frame};
        <<Final:1, _:3, Code:4, 0:1, 127:7, Length:64, Rest/binary>> when Length > 65_535 ->
            read(Final, Code, Length, Rest, Bytes, State, Events, Out);
        <<_:9, 127:7, _:64, _/bits>> -> {error, bad_frame};
        <<Final:1, _:3, Code:4, 0:1, 126:7, Length:16, Rest/binary>> when Length > 125 ->
            read(Final, Code, Length, Rest, Bytes, State, Events, Out);
        <<_:9, 126:7, _:16, _/bits>> -> {error, bad_frame};
        <<Final:1, _:3, Code:4, 0:1, Length:7, Rest/binary>> when Length < 126 ->
            read(Final, Code, Length, Rest, Bytes, State, Events, Out);
        _ -> wait(Bytes, State, Events, Out)
    end.

%% A control frame is small and whole.
read(Final, Code, Length, _, _, _, _, _) when Code >= 8, (Final =:= 0 orelse Length > 125) ->
    {error, bad_frame};
read(Final, Code, Length, Rest, Bytes, #open{message = Message} = State, Events, Out) ->
    case Message of
        {_, _, Size} when Code =:= 0, Size + Length > ?LARGEST -> {error, too_long};
        _ when Length > ?LARGEST -> {error, too_long};
        _ ->
            case Rest of
                <<Payload:Length/binary, More/binary>> ->
                    case frame_of(Final, Code, Payload, Message) of
                        {event, Event} -> read(More, State#open{message = none}, [Event | Events],
                                               Out);
                        {part, Next} -> read(More, State#open{message = Next}, Events, Out);
                        {out, Frame} -> read(More, State, Events, [Frame | Out]);
                        ignore -> read(More, State, Events, Out);
                        {error, _} = Error -> Error;
                        {error, _, _} = Error -> Error
                    end;
                _ ->
                    {ok, Given, Answer, Next} = wait(Bytes, State, Events, Out),
                    {ok, Given, Answer,
                     Next#open{needs = byte_size(Bytes) - byte_size(Rest) + Length}}
            end
    end.

%% A copy, because the rest would keep the whole message. Bytes that arrived behind others have
%% their own memory, which can grow.
wait(<<>>, State, Events, Out) -> waiting(<<>>, State, Events, Out);
wait(Bytes, State, Events, Out) ->
    waiting(case binary:referenced_byte_size(Bytes) > 2 * byte_size(Bytes) + 256 of
                true -> binary:copy(Bytes);
                false -> Bytes
            end, State, Events, Out).

waiting(Bytes, State, Events, Out) ->
    {ok, lists:reverse(Events), lists:reverse(Out), State#open{buffer = Bytes, needs = 0}}.

frame_of(1, Code, Payload, none) when Code =:= 1; Code =:= 2 -> whole(type(Code), Payload);
frame_of(0, Code, Payload, none) when Code =:= 1; Code =:= 2 ->
    {part, {type(Code), binary:copy(Payload), byte_size(Payload)}};
frame_of(1, 0, Payload, {Type, Before, _}) -> whole(Type, <<Before/binary, Payload/binary>>);
%% Empty fragments must not fill the memory.
frame_of(0, 0, <<>>, {_, _, _}) -> ignore;
frame_of(0, 0, Payload, {Type, Before, Size}) ->
    {part, {Type, <<Before/binary, Payload/binary>>, Size + byte_size(Payload)}};
frame_of(_, 8, Payload, _) -> {error, closing(Payload), frame(8, code(Payload), any_key())};
frame_of(_, 9, Payload, _) -> {out, frame(10, Payload, any_key())};
frame_of(_, 10, _, _) -> ignore;
frame_of(_, _, _, _) -> {error, bad_frame}.

type(1) -> text;
type(2) -> binary.

whole(binary, Payload) -> {event, delivered(Payload, {message, Payload})};
whole(text, Payload) ->
    case unicode:characters_to_binary(Payload) of
        Payload -> whole(binary, Payload);
        _ -> {error, bad_utf8}
    end.

%% The code of a close. Others than those that a server may send are an error of the server.
closing(<<>>) -> closed;
closing(<<Code:16, Reason/binary>>) when Code >= 1000, Code =< 4999, Code =/= 1004, Code =/= 1005,
                                         Code =/= 1006 ->
    case unicode:characters_to_binary(Reason) of
        Reason -> <<"closed_", (integer_to_binary(Code))/binary>>;
        _ -> bad_utf8
    end;
closing(_) -> bad_frame.

%% The answer to a close has the same code.
code(<<Code:2/binary, _/binary>>) -> Code;
code(_) -> <<>>.

%% Internal functions: frames of the client

frame(Code, Payload, Key) ->
    Length = byte_size(Payload),
    [if Length < 126 -> <<1:1, 0:3, Code:4, 1:1, Length:7, Key:32>>;
        Length < 65_536 -> <<1:1, 0:3, Code:4, 1:1, 126:7, Length:16, Key:32>>;
        true -> <<1:1, 0:3, Code:4, 1:1, 127:7, Length:64, Key:32>>
     end, masked(Payload, Key)].

masked(Payload, Key) ->
    Whole = byte_size(Payload) div 4 * 4,
    <<Words:Whole/binary, Rest/binary>> = Payload,
    Bits = bit_size(Rest),
    <<Last:Bits>> = Rest,
    <<Mask:Bits, _/bits>> = <<Key:32>>,
    [<< <<(Word bxor Key):32>> || <<Word:32>> <= Words >>, <<(Last bxor Mask):Bits>>].

any_key() -> erlang:phash2({self(), erlang:unique_integer()}, 1 bsl 32).
