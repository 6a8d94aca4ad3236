%% @doc Proves a password with SCRAM (RFC 5802; SHA-256: RFC 7677), without channel binding.
%%
%% The mechanism needs OTP's application crypto.
%% @hidden
-module(whittle_load_agent_scram).

-export([mechanisms/0, first/3, first/4, answer/2, verify/2]).

-export_type([state/0]).

-record(scram, {hash :: sha | sha256,
                password :: binary(),
                bare :: binary(),                     % the first message without its header
                nonce :: binary(),
                signature = none :: none | binary()}).

-opaque state() :: #scram{}.

%% The most rounds that a server may ask for. Each login costs the agent this work.
-define(ROUNDS, 100_000).

%% @doc Lists the mechanisms, the strongest first.
-spec mechanisms() -> [binary()].
mechanisms() -> [<<"SCRAM-SHA-256">>, <<"SCRAM-SHA-1">>].

%% @doc Makes the first message.
-spec first(binary(), binary(), binary()) -> {iodata(), state()}.
first(Mechanism, User, Password) ->
    first(Mechanism, User, Password, base64:encode(crypto:strong_rand_bytes(18))).

%% @doc Makes the first message with the given nonce.
-spec first(binary(), binary(), binary(), binary()) -> {iodata(), state()}.
first(Mechanism, User, Password, Nonce) ->
    Name = binary:replace(binary:replace(User, <<"=">>, <<"=3D">>, [global]), <<",">>, <<"=2C">>,
                          [global]),
    Bare = <<"n=", Name/binary, ",r=", Nonce/binary>>,
    {["n,,", Bare], #scram{hash = hash(Mechanism), password = Password, bare = Bare,
                           nonce = Nonce}}.

hash(<<"SCRAM-SHA-256">>) -> sha256;
hash(<<"SCRAM-SHA-1">>) -> sha.

%% @doc Answers the server's challenge.
-spec answer(binary(), state()) -> {ok, iodata(), state()} | {error, bad_challenge}.
answer(Challenge, #scram{hash = Hash, password = Password, bare = Bare, nonce = Nonce} = State) ->
    case parts(Challenge) of
        #{<<"r">> := Full, <<"s">> := Salt64, <<"i">> := Rounds64} ->
            Own = byte_size(Nonce),
            try {Full, base64:decode(Salt64), binary_to_integer(Rounds64)} of
                {<<Nonce:Own/binary, _, _/binary>>, Salt, Rounds}
                  when Rounds > 0, Rounds =< ?ROUNDS ->
                    Salted = crypto:pbkdf2_hmac(Hash, Password, Salt, Rounds, length_of(Hash)),
                    Key = hmac(Hash, Salted, <<"Client Key">>),
                    Final = <<"c=biws,r=", Full/binary>>,
                    Message = <<Bare/binary, $,, Challenge/binary, $,, Final/binary>>,
                    Proof = crypto:exor(Key, hmac(Hash, crypto:hash(Hash, Key), Message)),
                    Server = hmac(Hash, Salted, <<"Server Key">>),
                    {ok, [Final, ",p=", base64:encode(Proof)],
                     State#scram{signature = hmac(Hash, Server, Message)}};
                _ -> {error, bad_challenge}
            catch error:_ -> {error, bad_challenge}
            end;
        _ -> {error, bad_challenge}
    end.

%% @doc Checks that the server knows the password too.
-spec verify(binary(), state()) -> ok | {error, bad_server}.
verify(Last, #scram{signature = Signature}) when is_binary(Signature) ->
    Expected = base64:encode(Signature),
    case parts(Last) of
        #{<<"v">> := Expected} -> ok;
        _ -> {error, bad_server}
    end;
verify(_, _) -> {error, bad_server}.

parts(Message) ->
    maps:from_list([{Name, Value} || Part <- binary:split(Message, <<",">>, [global]),
                                     [Name, Value] <- [binary:split(Part, <<"=">>)]]).

length_of(sha) -> 20;
length_of(sha256) -> 32.

hmac(Hash, Key, Bytes) -> crypto:mac(hmac, Hash, Key, Bytes).
