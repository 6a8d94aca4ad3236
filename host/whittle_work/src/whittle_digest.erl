%% @doc Computes SHA-256 digests.
-module(whittle_digest).

-export([file/1, bytes/1, hex/1]).

%% @doc Computes the SHA-256 digest of a file, as lower-case hexadecimal digits. The errors are
%% those of {@link whittle_file:check/1}.
-spec file(file:filename_all()) -> {ok, string()} | {error, file:posix() | badarg}.
file(File) ->
    case whittle_work:steps([fun(_) -> whittle_file:check(File) end,
                             fun(_) -> file:open(File, [read, raw, binary]) end]) of
        {ok, Handle} ->
            Result = rest(Handle, crypto:hash_init(sha256)),
            _ = file:close(Handle),
            Result;
        {error, Reason} ->
            {error, Reason}
    end.

%% @doc Computes the SHA-256 digest of bytes, as lower-case hexadecimal digits.
-spec bytes(iodata()) -> string().
bytes(Bytes) -> hex(crypto:hash(sha256, Bytes)).

%% @doc Writes bytes as lower-case hexadecimal digits.
-spec hex(binary()) -> string().
hex(Bytes) -> binary_to_list(string:lowercase(binary:encode_hex(Bytes))).

%% Internal

rest(Handle, State) ->
    case file:read(Handle, 1 bsl 20) of
        {ok, Bytes} -> rest(Handle, crypto:hash_update(State, Bytes));
        eof -> {ok, hex(crypto:hash_final(State))};
        {error, Reason} -> {error, Reason}
    end.
