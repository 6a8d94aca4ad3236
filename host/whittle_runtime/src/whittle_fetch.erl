%% @doc Fetches one file over http or https and keeps it only if its SHA-256 is
%% the expected one.
-module(whittle_fetch).

-export([get/4]).

-define(CONNECT_MS, 15000).
%% A release is 60-110 MB; a slow line needs a while for that.
-define(TRANSFER_MS, 1800000).

%% @doc Fetches an address into a file, which must not exist. Certificates are
%% checked against the system's, or those of the option `cacerts' (DER). Errors:
%% `bad_checksum', `unreachable', `disk_full'. After an error there is no file.
-spec get(string(), file:filename(), whittle_source:digest(),
          #{cacerts => [public_key:der_encoded()], _ => _}) ->
          ok | whittle_runtime:error().
get(Address, File, Sum, Options) ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = application:ensure_all_started(ssl),
    Partial = File ++ ".part",
    try request(Address, Partial, Options) of
        {ok, saved_to_file} ->
            checked(whittle_source:digest(Partial), Sum, Partial, File, Address);
        {ok, {{_, Status, _}, _, _}} ->
            unreachable(Address, {status, Status});
        {error, enospc} ->
            disk_full(File);
        {error, Reason} ->
            unreachable(Address, Reason)
    after
        file:delete(Partial)
    end.

request(Address, Partial, Options) ->
    Cacerts = case Options of
                  #{cacerts := Given} -> Given;
                  #{} -> system_cacerts()
              end,
    Check = [{match_fun, public_key:pkix_verify_hostname_match_fun(https)}],
    Tls = [{verify, verify_peer}, {cacerts, Cacerts}, {depth, 5},
           {customize_hostname_check, Check}],
    %% A connection of its own: one that is kept was verified for its opener.
    Headers = [{"user-agent", "whittle"}, {"connection", "close"}],
    httpc:request(get, {Address, Headers},
                  [{ssl, Tls}, {connect_timeout, ?CONNECT_MS},
                   {timeout, ?TRANSFER_MS}],
                  [{stream, Partial}]).

%% Without a system store nothing verifies, which `unreachable' then says.
system_cacerts() ->
    try public_key:cacerts_get() of
        Certificates -> Certificates
    catch
        error:_ -> []
    end.

checked({ok, Sum}, Sum, Partial, File, _Address) ->
    ok = file:rename(Partial, File);
checked({ok, Actual}, Sum, _Partial, _File, Address) ->
    {error, {bad_checksum, #{file => Address, expected => Sum,
                             actual => Actual}}};
checked({error, enospc}, _Sum, _Partial, File, _Address) ->
    disk_full(File);
checked({error, Reason}, _Sum, _Partial, _File, Address) ->
    unreachable(Address, Reason).

disk_full(File) ->
    {error, {disk_full, #{dir => filename:dirname(File)}}}.

unreachable(Address, Reason) ->
    {error, {unreachable, #{address => Address, reason => reason(Reason)}}}.

reason({status, Status}) -> "answered " ++ integer_to_list(Status);
reason({failed_connect, Details}) ->
    case [R || {inet, _, R} <- Details] of
        [R | _] when is_atom(R) -> inet:format_error(R);
        [{tls_alert, {Alert, _}} | _] -> "TLS: " ++ atom_to_list(Alert);
        _ -> "cannot connect"
    end;
reason(Reason) -> lists:flatten(io_lib:format("~0p", [Reason])).
