%% @doc Knows the passwords of users.
%%
%% This is an example: either all names share one secret, or a file has a password in plain text for
%% each name. A real service asks its own database here.
%% @hidden
-module(presence_users).

-include_lib("kernel/include/file.hrl").

-export([load/2, is_name/1, check/2, mechanisms/0, scram/2]).

-export_type([scram/0]).

-type scram() :: #{salt := binary(), rounds := pos_integer(), stored := binary(),
                   server := binary()}.

%% RFC 7677 asks for at least 4096 rounds.
-define(ROUNDS, 4096).
%% The largest file of users, in bytes
-define(LARGEST, 100_000_000).

%% @doc Reads the passwords. With the application crypto, users may log in by SCRAM.
-spec load(#{secret := none | binary(), users := none | file:filename_all(), _ => _}, boolean()) ->
          ok | {error, presence_config:error()}.
load(#{users := none, secret := Secret}, Crypto) ->
    %% All names share the secret, so they share the salt, and the work is done only once.
    Scram = case Crypto of
                true -> maps:from_list([{Hash, derived(Hash, Secret)} || {_, Hash} <- hashes()]);
                false -> none
            end,
    persistent_term:put(?MODULE, {shared, Secret, Scram});
load(#{users := File}, Crypto) ->
    case file:read_file_info(File) of
        %% A read of a pipe would block, and a device may have no end.
        {ok, #file_info{type = Type}} when Type =/= regular -> {error, {users, {File, eftype}}};
        {ok, #file_info{size = Size}} when Size > ?LARGEST -> {error, {users, {File, efbig}}};
        {ok, _} ->
            case file:read_file(File) of
                {ok, Bytes} ->
                    Lines = binary:split(Bytes, <<"\n">>, [global]),
                    case users(Lines, 1, #{}) of
                        {ok, Users} -> persistent_term:put(?MODULE, {file, Users, Crypto});
                        {error, Line} -> {error, {users, {File, {line, Line}}}}
                    end;
                {error, Reason} -> {error, {users, {File, Reason}}}
            end;
        {error, Reason} -> {error, {users, {File, Reason}}}
    end.

users([], _, Users) -> {ok, Users};
users([<<>> | Lines], N, Users) -> users(Lines, N + 1, Users);
users([Line | Lines], N, Users) ->
    case binary:split(Line, <<":">>) of
        [Name, <<_, _/binary>> = Password] ->
            case is_name(Name) of
                true -> users(Lines, N + 1, Users#{Name => Password});
                false -> {error, N}
            end;
        _ -> {error, N}
    end.

%% @doc Tells whether a text may be the name of a user: 1 to 64 bytes of UTF-8 without blanks,
%% control characters, and characters with a meaning in an address or in XML (RFC 7622).
-spec is_name(binary()) -> boolean().
is_name(Name) when byte_size(Name) >= 1, byte_size(Name) =< 64 -> name(Name);
is_name(_) -> false.

name(<<Char/utf8, Rest/binary>>) ->
    Char > $\s andalso not lists:member(Char, "\"&'/:<>@\d") andalso name(Rest);
name(Rest) -> Rest =:= <<>>.

%% @doc Checks a password. The time does not depend on the place of the first wrong byte.
-spec check(Name :: binary(), Password :: binary()) -> boolean().
check(Name, Password) ->
    is_name(Name) andalso
        case persistent_term:get(?MODULE) of
            {shared, Secret, _} -> same(Password, Secret);
            {file, #{Name := Secret}, _} -> same(Password, Secret);
            {file, _, _} -> false
        end.

same(A, B) when byte_size(A) =:= byte_size(B) -> same(A, B, 0);
same(_, _) -> false.

same(<<A, As/binary>>, <<B, Bs/binary>>, Difference) -> same(As, Bs, Difference bor (A bxor B));
same(<<>>, <<>>, Difference) -> Difference =:= 0.

%% @doc Lists the mechanisms of SCRAM that this VM can offer, the strongest first.
-spec mechanisms() -> [{binary(), sha256 | sha}].
mechanisms() ->
    case persistent_term:get(?MODULE) of
        {_, _, No} when No =:= none; No =:= false -> [];
        _ -> hashes()
    end.

hashes() -> [{<<"SCRAM-SHA-256">>, sha256}, {<<"SCRAM-SHA-1">>, sha}].

%% @doc Returns the data by which SCRAM proves a user's password. An unknown name gets data that
%% nobody can prove, so that the answer does not tell which names exist.
-spec scram(Name :: binary(), sha256 | sha) -> scram().
scram(Name, Hash) ->
    case persistent_term:get(?MODULE) of
        {shared, _, #{Hash := Derived}} -> Derived;
        {file, #{Name := Secret}, _} -> derived(Hash, Secret);
        {file, _, _} -> derived(Hash, crypto:strong_rand_bytes(16))
    end.

derived(Hash, Secret) ->
    Salt = crypto:strong_rand_bytes(16),
    Length = maps:get(size, crypto:hash_info(Hash)),
    Salted = crypto:pbkdf2_hmac(Hash, Secret, Salt, ?ROUNDS, Length),
    Client = crypto:mac(hmac, Hash, Salted, <<"Client Key">>),
    #{salt => Salt, rounds => ?ROUNDS, stored => crypto:hash(Hash, Client),
      server => crypto:mac(hmac, Hash, Salted, <<"Server Key">>)}.
