%% @doc Checks a password by SCRAM on the side of the server (RFC 5802; SHA-256: RFC 7677), without
%% channel binding. This module is pure.
%% @hidden
-module(presence_scram).

-export([first/4, final/2]).

-export_type([state/0]).

-record(scram, {hash :: sha256 | sha,
                user :: binary(),
                header :: binary(),                   % of the client's first message
                nonce :: binary(),                    % of both sides
                messages :: binary(),                 % the part of the proof that is known by now
                credentials :: presence_users:scram()}).

-opaque state() :: #scram{}.

%% @doc Reads the client's first message, and makes the challenge. Credentials returns the data of
%% a user.
-spec first(binary(), sha256 | sha, Nonce :: binary(),
            fun((User :: binary()) -> presence_users:scram())) ->
          {ok, Challenge :: binary(), state()} | error.
first(Message, Hash, OwnNonce, Credentials) ->
    case header(Message) of
        {Header, Bare} ->
            case parts(Bare) of
                #{<<"n">> := Escaped, <<"r">> := <<_, _/binary>> = Nonce} = Parts
                  when not is_map_key(<<"m">>, Parts) ->
                    case unescaped(Escaped) of
                        {ok, User} -> challenge(Header, Bare, User, Nonce, OwnNonce, Hash,
                                                Credentials(User));
                        error -> error
                    end;
                _ -> error
            end;
        error -> error
    end.

challenge(Header, Bare, User, Theirs, Ours, Hash,
          #{salt := Salt, rounds := Rounds} = Credentials) ->
    Nonce = <<Theirs/binary, Ours/binary>>,
    Challenge = <<"r=", Nonce/binary, ",s=", (base64:encode(Salt))/binary, ",i=",
                  (integer_to_binary(Rounds))/binary>>,
    {ok, Challenge, #scram{hash = Hash, user = User, header = Header, nonce = Nonce,
                           messages = <<Bare/binary, $,, Challenge/binary, $,>>,
                           credentials = Credentials}}.

%% @doc Checks the client's proof. The result has the proof that the server knows the password too.
-spec final(binary(), state()) -> {ok, User :: binary(), Answer :: binary()} | error.
final(Message, #scram{hash = Hash, user = User, header = Header, nonce = Nonce,
                      messages = Messages,
                      credentials = #{stored := Stored, server := Server}}) ->
    Binding = base64:encode(Header),
    case parts(Message) of
        #{<<"c">> := Binding, <<"r">> := Nonce, <<"p">> := Proof64} ->
            WithoutProof = binary:part(Message, 0, byte_size(Message) - byte_size(Proof64) - 3),
            Signed = <<Messages/binary, WithoutProof/binary>>,
            Signature = crypto:mac(hmac, Hash, Stored, Signed),
            case decoded(Proof64) of
                Proof when byte_size(Proof) =:= byte_size(Signature) ->
                    case crypto:hash(Hash, crypto:exor(Proof, Signature)) of
                        Stored ->
                            Answer = crypto:mac(hmac, Hash, Server, Signed),
                            {ok, User, <<"v=", (base64:encode(Answer))/binary>>};
                        _ -> error
                    end;
                _ -> error
            end;
        _ -> error
    end.

decoded(Text) ->
    try base64:decode(Text)
    catch error:_ -> <<>>
    end.

%% `n' and `y' mean: no channel binding. An authorization identity must not differ from the user,
%% so this server takes none.
header(<<"n,,", Bare/binary>>) -> {<<"n,,">>, Bare};
header(<<"y,,", Bare/binary>>) -> {<<"y,,">>, Bare};
header(_) -> error.

parts(Message) ->
    maps:from_list([{Name, Value} || Part <- binary:split(Message, <<",">>, [global]),
                                     [Name, Value] <- [binary:split(Part, <<"=">>)]]).

unescaped(Name) -> unescaped(Name, <<>>).

unescaped(<<"=2C", Rest/binary>>, Name) -> unescaped(Rest, <<Name/binary, $,>>);
unescaped(<<"=3D", Rest/binary>>, Name) -> unescaped(Rest, <<Name/binary, $=>>);
unescaped(<<"=", _/binary>>, _) -> error;
unescaped(<<Byte, Rest/binary>>, Name) -> unescaped(Rest, <<Name/binary, Byte>>);
unescaped(<<>>, Name) -> {ok, Name}.
