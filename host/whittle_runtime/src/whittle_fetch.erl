%% @hidden Fetches one file over http or https, and keeps it only if its SHA-256 is right.
-module(whittle_fetch).

-export([get/4]).

-define(CONNECT_MS, 15000).
%% A release has 60-110 MB, and a slow line needs this long for it.
-define(TRANSFER_MS, 1800000).

%% @doc Fetches an address into a new file.
%%
%% The file must not exist. It uses the proxy that the environment names (`https_proxy',
%% `http_proxy', `no_proxy', with curl's rules). It checks certificates against the
%% system's, or against those of the option `cacerts' (DER). The function `tell' receives the
%% progress in percent, if the server sends the size.
%%
%% Errors: `bad_checksum', `unreachable', `disk_full', `cache_unwritable'. After an error the
%% file does not exist.
-spec get(string(), file:filename(), whittle_source:digest(),
          #{cacerts => [public_key:der_encoded()],
            tell => fun((string(), 0..100) -> term()), _ => _}) ->
          ok | {error, whittle_runtime:reason()}.
get(Address, File, Sum, Options) ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = application:ensure_all_started(ssl),
    %% Use a client profile of our own, because httpc cannot unset a proxy.
    {ok, _} = inets:start(httpc, [{profile, ?MODULE}]),
    Partial = File ++ ".part",
    try request(Address, Partial, Options) of
        ok ->
            checked(whittle_digest:file(Partial), Sum, Partial, File, Address);
        {error, {unwritten, Reason}} ->
            unwritten(File, Reason);
        {error, Reason} ->
            {error, {unreachable, #{address => Address, reason => reason(Reason)}}}
    after
        _ = file:delete(Partial),
        _ = inets:stop(httpc, ?MODULE)
    end.

request(Address, Partial, Options) ->
    Cacerts = case Options of
                  #{cacerts := Given} -> Given;
                  #{} -> system_cacerts()
              end,
    Check = [{match_fun, public_key:pkix_verify_hostname_match_fun(https)}],
    Tls = [{verify, verify_peer}, {cacerts, Cacerts}, {depth, 5},
           {customize_hostname_check, Check}],
    %% Use a new connection: httpc verified a kept connection for another caller.
    Headers = [{"user-agent", "whittle"}, {"connection", "close"}],
    Proxy = proxy(Address),
    case file:open(Partial, [write, raw, binary]) of
        {ok, Fd} ->
            {ok, Request} = httpc:request(get, {Address, Headers},
                                          [{ssl, Tls}, {connect_timeout, ?CONNECT_MS},
                                           {timeout, ?TRANSFER_MS} | Proxy],
                                          [{sync, false}, {stream, {self, once}}], ?MODULE),
            Tell = maps:get(tell, Options, fun(_, _) -> ok end),
            try receive_all(Request, Fd, Tell) after file:close(Fd) end;
        {error, Reason} ->
            {error, {unwritten, Reason}}
    end.

receive_all(Request, Fd, Tell) ->
    receive
        {http, {Request, stream_start, Headers, Sender}} ->
            Size = list_to_integer(proplists:get_value("content-length", Headers, "0")),
            receive_all(Request, Sender, Fd, #{tell => Tell, size => Size, done => 0, told => 0});
        {http, {Request, {{_, Status, _}, _, _}}} ->
            {error, {status, Status}};
        {http, {Request, {error, Reason}}} ->
            {error, Reason}
    end.

receive_all(Request, Sender, Fd, State) ->
    ok = httpc:stream_next(Sender),
    receive
        {http, {Request, stream, Bytes}} ->
            case file:write(Fd, Bytes) of
                ok ->
                    receive_all(Request, Sender, Fd, told(byte_size(Bytes), State));
                {error, Reason} ->
                    ok = httpc:cancel_request(Request, ?MODULE),
                    {error, {unwritten, Reason}}
            end;
        {http, {Request, stream_end, _}} ->
            ok;
        {http, {Request, {error, Reason}}} ->
            {error, Reason}
    end.

%% Reports each percentage once.
told(More, State = #{size := Size, done := Done, told := Told, tell := Tell}) ->
    Now = Done + More,
    case Size > 0 andalso min(100, 100 * Now div Size) of
        Percent when is_integer(Percent), Percent > Told ->
            _ = Tell("fetching the source", Percent),
            State#{done := Now, told := Percent};
        _ ->
            State#{done := Now}
    end.

%% Sets the proxies of the client profile, and returns the request's options for them.
proxy(Address) ->
    Not = lists:append([not_through(Name)
                        || Name <- string:lexemes(variable(["no_proxy", "NO_PROXY"]), ", ")]),
    %% A request to a CGI server can set HTTP_PROXY in capitals, so it does not count.
    Set = [{Option, Parsed}
           || {Option, Names} <- [{proxy, ["http_proxy"]},
                                  {https_proxy, ["https_proxy", "HTTPS_PROXY"]}],
              #{host := [_ | _]} = Parsed <- [parsed(variable(Names))]],
    ok = httpc:set_options([{Option, {{Host, maps:get(port, Parsed, 1080)}, Not}}
                            || {Option, #{host := Host} = Parsed} <- Set], ?MODULE),
    %% Each proxy gets only its own password.
    Used = case uri_string:normalize(Address, [return_map]) of
               #{scheme := "https"} -> https_proxy;
               #{} -> proxy
           end,
    [{proxy_auth, user(Info)} || {Option, #{userinfo := Info}} <- Set, Option =:= Used].

variable(Names) ->
    hd([Value || Name <- Names, Value <- [os:getenv(Name, "")], Value =/= ""] ++ [""]).

parsed(Text) ->
    Uri = case string:find(Text, "://") of
              nomatch -> uri_string:parse("http://" ++ Text);
              _ -> uri_string:parse(Text)
          end,
    case Uri of
        #{port := undefined} -> maps:remove(port, Uri);
        _ -> Uri
    end.

%% A user without valid codes is taken as it stands. No report may contain it.
user(Info) ->
    Plain = case uri_string:percent_decode(Info) of
                Text when is_list(Text) -> Text;
                _ -> Info
            end,
    [User | Password] = string:split(Plain, ":"),
    {User, lists:append(Password)}.

not_through("*") -> ["*"];
not_through("." ++ Domain) -> ["*." ++ Domain];
not_through(Host) -> [Host, "*." ++ Host].

%% Without the system's certificates no server verifies; the error is then `unreachable'.
system_cacerts() ->
    try public_key:cacerts_get() of
        Certificates -> Certificates
    catch
        error:_ -> []
    end.

checked({ok, Sum}, Sum, Partial, File, _Address) ->
    case file:rename(Partial, File) of
        ok -> ok;
        {error, Reason} -> unwritten(File, Reason)
    end;
checked({ok, Actual}, Sum, _Partial, _File, Address) ->
    {error, {bad_checksum, #{file => Address, expected => Sum,
                             actual => Actual}}};
checked({error, Reason}, _Sum, _Partial, File, _Address) ->
    unwritten(File, Reason).

unwritten(File, Reason) ->
    {error, whittle_cache_dir:unwritten(Reason, filename:dirname(File))}.

reason({status, Status}) -> "the server answered " ++ integer_to_list(Status);
reason({failed_connect, Details}) ->
    case [R || {inet, _, R} <- Details] of
        [R | _] when is_atom(R) -> inet:format_error(R);
        [{tls_alert, {Alert, _}} | _] -> "TLS: " ++ atom_to_list(Alert);
        _ -> "cannot connect"
    end;
reason(Reason) -> lists:flatten(io_lib:format("~0p", [Reason])).
