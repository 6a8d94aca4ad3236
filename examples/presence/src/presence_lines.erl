%% @doc Speaks lines of text with a client, each with a newline at its end.
%%
%% | the client sends     | the server answers                                      |
%% |----------------------|---------------------------------------------------------|
%% | `login NAME SECRET'  | `welcome NAME', or an error                             |
%% | `to NAME TEXT'       | the other user gets `from NAME TEXT'; or an error       |
%% | `ping'               | `pong'                                                  |
%% | `quit'               | `bye', and closes                                       |
%%
%% An error is a line `error TEXT'. This module is pure.
%% @hidden
-module(presence_lines).
-behaviour(presence_protocol).

-export([init/1, data/2, news/2, user/1]).

%% During a login, messages for the user wait (the newest first), and so do the lines behind it.
-type state() :: {new, Rest :: binary()} | {refused, binary()}
               | {waiting, User :: binary(), [presence_protocol:message()], Later :: binary()}
               | {online, User :: binary(), Rest :: binary()}
               | ended.

%% So many messages wait for the end of a login; further ones are dropped.
-define(WAITING, 1000).

%% @private
-spec init(presence_protocol:options()) -> state().
init(#{admission := admitted}) -> {new, <<>>};
init(#{admission := refused}) -> {refused, <<>>}.

%% @private
-spec user(state()) -> binary() | none.
user({online, User, _}) -> User;
user({waiting, User, _, _}) -> User;
user(_) -> none.

%% @private
-spec data(binary(), state()) -> presence_protocol:result(state()).
data(_, ended) -> {[], ended};
data(Bytes, {waiting, User, Messages, Later}) ->
    {[], {waiting, User, Messages, <<Later/binary, Bytes/binary>>}};
data(Bytes, State) ->
    Before = element(tuple_size(State), State),
    lines(<<Before/binary, Bytes/binary>>, State, []).

lines(Bytes, State, Actions) ->
    case binary:split(Bytes, <<"\n">>) of
        [Rest] ->
            case byte_size(Rest) > presence_config:get(largest) of
                true -> ended(Actions, "error this line is too long\n");
                false ->
                    {lists:reverse(Actions),
                     setelement(tuple_size(State), State, binary:copy(Rest))}
            end;
        [Line, Rest] ->
            case line(chomp(Line), State) of
                {close, Text} -> ended(Actions, Text);
                {login, User} ->
                    {lists:reverse(Actions, [{login, User}]),
                     {waiting, User, [], binary:copy(Rest)}};
                {Action, Next} -> lines(Rest, Next, [Action | Actions])
            end
    end.

ended(Actions, Text) -> {lists:reverse(Actions, [{send, Text}, close]), ended}.

%% A client that counts a line's end as two bytes may use telnet.
chomp(Line) ->
    case byte_size(Line) of
        Size when Size > 0, binary_part(Line, Size - 1, 1) =:= <<"\r">> ->
            binary:part(Line, 0, Size - 1);
        _ -> Line
    end.

line(_, {refused, _}) -> {close, "error busy: try again later\n"};
line(<<"quit">>, _) -> {close, "bye\n"};
line(<<"ping">>, State) -> {{send, "pong\n"}, State};
%% Lines have no TLS.
line(<<"login ", Words/binary>>, {new, _} = State) ->
    case presence_config:get(plain_here) andalso binary:split(Words, <<" ">>) of
        false -> {close, "error no passwords without TLS here: see the setting plain\n"};
        [User, Secret] ->
            case presence_users:check(User, Secret) of
                true -> {login, binary:copy(User)};
                false ->
                    ok = presence_counts:login(refused),
                    {close, "error wrong name or password\n"}
            end;
        _ -> {{send, "error say login NAME PASSWORD\n"}, State}
    end;
line(<<"to ", Words/binary>>, {online, User, _} = State) ->
    case binary:split(Words, <<" ">>) of
        [To, Text] ->
            case presence_users:is_name(To) andalso is_text(Text) of
                true ->
                    {{route, #{from => User, to => binary:copy(To), id => <<>>,
                               body => binary:copy(Text)}}, State};
                false -> {{send, "error this is no name, or no UTF-8 text\n"}, State}
            end;
        _ -> {{send, "error say to NAME TEXT\n"}, State}
    end;
line(_, {new, _} = State) -> {{send, "error say login NAME PASSWORD\n"}, State};
line(_, State) -> {{send, "error say to NAME TEXT, ping or quit\n"}, State}.

%% Users of XMPP get this text too, and XML knows no control characters.
is_text(<<Char/utf8, Rest/binary>>)
  when Char >= $\s, Char < 16#FFFE; Char > 16#FFFF; Char =:= $\t ->
    is_text(Rest);
is_text(Rest) -> Rest =:= <<>>.

%% @private
-spec news(presence_protocol:news(), state()) -> presence_protocol:result(state()).
news(_, ended) -> {[], ended};
news(online, {waiting, User, Messages, Later}) ->
    lines(Later, {online, User, <<>>},
          [message(Message) || Message <- Messages] ++ [{send, ["welcome ", User, $\n]}]);
news(busy, _) -> ended([], "error busy: try again later\n");
news(replaced, _) -> ended([], "error you logged in elsewhere\n");
news(shutdown, _) -> ended([], "error the server stops\n");
news(timeout, _) -> ended([], "error you took too long to log in\n");
news({message, Message}, {waiting, User, Messages, Later}) when length(Messages) < ?WAITING ->
    {[], {waiting, User, [Message | Messages], Later}};
news({message, Message}, {online, _, _} = State) -> {[message(Message)], State};
news({undeliverable, #{to := To}, absent}, State) ->
    {[{send, ["error ", To, " is not here\n"]}], State};
news({undeliverable, #{to := To}, busy}, State) ->
    {[{send, ["error ", To, " cannot take more messages now\n"]}], State};
news(_, State) -> {[], State}.

message(#{from := From, body := Body}) -> {send, ["from ", From, $\s, one_line(Body), $\n]}.

%% A message from a user of XMPP may have several lines.
one_line(Body) -> binary:replace(Body, [<<"\n">>, <<"\r">>], <<" ">>, [global]).
