%% @doc Reads and checks the settings.
%%
%% A setting is a key of the application's environment (`sys.config'), or an environment variable:
%% the key in capital letters behind `PRESENCE_', for example PRESENCE_XMPP_PORT. The variable
%% wins. The README describes each setting.
%% @hidden
-module(presence_config).

-export([load/0, get/1, check/2, format_error/1]).

-export_type([key/0, error/0]).

-type key() :: xmpp_port | xmpps_port | lines_port | metrics_port | ip | reuseport | acceptors
             | backlog | domain | secret | users | plain | plain_here | certificate | key | nodes
             | retry | limit | logins | memory | memory_high | group | waiting | router_limit
             | largest | handshake_timeout | login_timeout | silent_timeout | send_timeout
             | drain_timeout.

-type error() :: {bad_setting, {key(), Value :: term(), Wanted :: string()}}
               | {no_secret, []}
               | {users, {file:filename(), Why :: term()}}
               | {no_application, {key(), atom()}}.

%% Each setting with its type and its default. The README explains the numbers.
-define(SETTINGS,
        [{xmpp_port, port, 5222}, {xmpps_port, port, none}, {lines_port, port, 7000},
         {metrics_port, port, 9568}, {ip, ip, {127, 0, 0, 1}}, {reuseport, boolean, false},
         {acceptors, positive, 8}, {backlog, positive, 1024}, {domain, text, <<"localhost">>},
         {secret, text, none}, {users, file, none}, {plain, plain, loopback},
         {certificate, file, none}, {key, file, none}, {nodes, nodes, []},
         {retry, positive, 1000}, {limit, limit, auto}, {memory, limit, auto},
         {memory_high, percent, 96}, {group, positive, 32}, {waiting, positive, 1000},
         {router_limit, positive, 10000}, {largest, positive, 10000},
         {handshake_timeout, positive, 10000}, {login_timeout, positive, 30000},
         {silent_timeout, positive, 3000},
         {logins, positive, 2000}, {send_timeout, positive, 200},
         {drain_timeout, positive, 10000}]).

%% @doc Returns a setting that load/0 has read.
-spec get(key()) -> term().
get(Key) -> maps:get(Key, persistent_term:get(?MODULE)).

%% @doc Reads all settings, and the file of users.
-spec load() -> ok | {error, error()}.
load() ->
    case read(?SETTINGS, #{}) of
        {ok, Settings} -> complete(Settings);
        {error, _} = Error -> Error
    end.

read([], Settings) -> {ok, Settings};
read([{Key, Type, Default} | More], Settings) ->
    Value = case os:getenv(variable(Key)) of
                Unset when Unset =:= false; Unset =:= "" ->
                    application:get_env(presence, Key, Default);
                Text -> Text
            end,
    case check(Type, Value) of
        {ok, Checked} -> read(More, Settings#{Key => Checked});
        {error, Wanted} -> {error, {bad_setting, {Key, shown(Key, Value), Wanted}}}
    end.

%% A log must not show a secret.
shown(secret, _) -> hidden;
shown(_, Value) -> Value.

variable(Key) -> "PRESENCE_" ++ string:uppercase(atom_to_list(Key)).

complete(#{secret := none, users := none}) -> {error, {no_secret, []}};
complete(#{certificate := none, xmpps_port := Port}) when Port =/= none ->
    {error, {bad_setting, {certificate, none, "the path of a PEM file for xmpps_port"}}};
complete(#{certificate := Certificate} = Settings) ->
    case Certificate =:= none orelse is_here(ssl) of
        true ->
            case presence_users:load(Settings, is_here(crypto)) of
                ok -> persistent_term:put(?MODULE, Settings#{plain_here => plain(Settings)});
                {error, _} = Error -> Error
            end;
        false -> {error, {no_application, {certificate, ssl}}}
    end.

%% An optional application is absent from an executable that was built without it.
is_here(Application) ->
    case application:ensure_all_started(Application) of
        {ok, _} -> true;
        {error, _} -> false
    end.

plain(#{plain := always}) -> true;
plain(#{plain := tls}) -> false;
plain(#{plain := loopback, ip := {127, _, _, _}}) -> true;
plain(#{plain := loopback, ip := Ip}) -> Ip =:= {0, 0, 0, 0, 0, 0, 0, 1}.

%% @doc Checks a value of the environment (a string) or of the application's environment.
-spec check(atom(), term()) -> {ok, term()} | {error, Wanted :: string()}.
check(port, none) -> {ok, none};
check(port, "none") -> {ok, none};
check(port, Value) -> number(Value, 0, 65535, "a port from 0 to 65535, or none");
check(positive, Value) -> number(Value, 1, 1 bsl 31, "a whole number above 0");
check(percent, Value) -> number(Value, 1, 100, "a whole number from 1 to 100");
check(limit, auto) -> {ok, auto};
check(limit, "auto") -> {ok, auto};
check(limit, Value) -> number(Value, 1, 1 bsl 50, "a whole number above 0, or auto");
check(boolean, Value) when is_boolean(Value) -> {ok, Value};
check(boolean, "true") -> {ok, true};
check(boolean, "false") -> {ok, false};
check(boolean, _) -> {error, "true or false"};
check(ip, Value) when is_list(Value) ->
    case inet:parse_address(Value) of
        {ok, Ip} -> {ok, Ip};
        {error, _} -> {error, "an IP address"}
    end;
check(ip, Value) ->
    case inet:is_ip_address(Value) of
        true -> {ok, Value};
        false -> {error, "an IP address"}
    end;
check(plain, Value) when Value =:= always; Value =:= tls; Value =:= loopback -> {ok, Value};
check(plain, "always") -> {ok, always};
check(plain, "tls") -> {ok, tls};
check(plain, "loopback") -> {ok, loopback};
check(plain, _) -> {error, "always, tls or loopback"};
check(text, none) -> {ok, none};
check(text, Value) ->
    try unicode:characters_to_binary(Value) of
        <<_, _/binary>> = Text -> {ok, Text};
        _ -> {error, "a text"}
    catch error:badarg -> {error, "a text"}
    end;
check(file, none) -> {ok, none};
check(file, Value) when is_binary(Value) -> {ok, Value};
check(file, [_ | _] = Value) -> {ok, Value};
check(file, _) -> {error, "the path of a file"};
check(nodes, [Char | _] = Value) when is_integer(Char) ->
    try {ok, [list_to_atom(string:trim(Name)) || Name <- string:lexemes(Value, ",")]}
    catch error:_ -> {error, "names of nodes, each of at most 255 characters"}
    end;
check(nodes, Value) ->
    case is_list(Value) andalso lists:all(fun is_atom/1, Value) of
        true -> {ok, Value};
        false -> {error, "names of nodes"}
    end.

number(Value, Least, Most, Wanted) when is_list(Value) ->
    try number(list_to_integer(Value), Least, Most, Wanted)
    catch error:badarg -> {error, Wanted}
    end;
number(Value, Least, Most, _) when is_integer(Value), Value >= Least, Value =< Most -> {ok, Value};
number(_, _, _, Wanted) -> {error, Wanted}.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({bad_setting, {Key, Value, Wanted}}) ->
    io_lib:format("the setting ~s (~s) is ~0tp: give ~s", [Key, variable(Key), Value, Wanted]);
format_error({no_secret, _}) ->
    "nobody could log in: set PRESENCE_SECRET to a password for all users, or PRESENCE_USERS to a "
        "file with lines NAME:PASSWORD";
format_error({users, {File, {line, Line}}}) ->
    io_lib:format("~ts:~b: give NAME:PASSWORD; a name has 1 to 64 bytes, none of them a blank or "
                  "one of \" & ' / : < > @", [File, Line]);
format_error({users, {File, Reason}}) ->
    io_lib:format("~ts cannot be read (~ts): set PRESENCE_USERS to a readable file",
                  [File, file:format_error(Reason)]);
format_error({no_application, {Key, Application}}) ->
    io_lib:format("the setting ~s needs the application ~s: build with --app ~s, or leave the "
                  "setting out", [Key, Application, Application]).
