%% @doc Reads and checks the settings.
%%
%% A setting is a key of the application's environment (`sys.config'), or an environment variable:
%% the key in capital letters behind `DOCKET_', for example DOCKET_PORT. The variable wins. The
%% README describes each setting.
%% @hidden
-module(docket_config).

-export([load/0, get/1, check/2, format_error/1]).

-export_type([key/0, error/0]).

-type key() :: port | ip | secret | dir | mode | clients | running | waiting | patience
             | body_timeout | document | pictures.

-type error() :: {bad_setting, {key(), Value :: term(), Wanted :: string()}} | {no_secret, []}.

%% Each setting with its type and its default.
-define(SETTINGS,
        [{port, port, 8080}, {ip, ip, {127, 0, 0, 1}}, {secret, secret, none}, {dir, dir, none},
         {mode, mode, sync_transaction}, {clients, positive, 1000}, {running, positive, 16},
         {waiting, positive, 512}, {patience, positive, 1000}, {body_timeout, positive, 10000},
         {document, positive, 262144}, {pictures, positive, 2}]).

%% @doc Returns a setting that load/0 has read.
-spec get(key()) -> term().
get(Key) -> maps:get(Key, persistent_term:get(?MODULE)).

%% @doc Reads all settings.
-spec load() -> ok | {error, error()}.
load() -> load(?SETTINGS, #{}).

load([], #{secret := none}) -> {error, {no_secret, []}};
load([], Settings) -> persistent_term:put(?MODULE, Settings);
load([{Key, Type, Default} | More], Settings) ->
    Value = case os:getenv(variable(Key)) of
                Unset when Unset =:= false; Unset =:= "" ->
                    application:get_env(docket, Key, Default);
                Text -> Text
            end,
    case check(Type, Value) of
        {ok, Checked} -> load(More, Settings#{Key => Checked});
        {error, Wanted} -> {error, {bad_setting, {Key, shown(Key, Value), Wanted}}}
    end.

%% A log must not show a secret.
shown(secret, _) -> hidden;
shown(_, Value) -> Value.

variable(Key) -> "DOCKET_" ++ string:uppercase(atom_to_list(Key)).

%% @doc Checks a value of the environment (a string) or of the application's environment.
-spec check(atom(), term()) -> {ok, term()} | {error, Wanted :: string()}.
check(port, Value) -> number(Value, 0, 65535, "a port from 0 to 65535");
check(positive, Value) -> number(Value, 1, 1 bsl 30, "a whole number above 0");
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
check(secret, none) -> {ok, none};
check(secret, Value) ->
    try unicode:characters_to_binary(Value) of
        <<_, _/binary>> = Text -> {ok, Text};
        _ -> {error, "a text that is not empty"}
    catch error:badarg -> {error, "a text that is not empty"}
    end;
check(dir, none) -> {ok, none};
check(dir, "none") -> {ok, none};
check(dir, [_ | _] = Path) ->
    case io_lib:printable_unicode_list(Path) of
        true -> {ok, Path};
        false -> {error, "the path of a directory, or none"}
    end;
check(dir, _) -> {error, "the path of a directory, or none"};
check(mode, Value) ->
    Modes = [transaction, sync_transaction, async_dirty, sync_dirty],
    case [Mode || Mode <- Modes, Value =:= Mode orelse Value =:= atom_to_list(Mode)] of
        [Mode] -> {ok, Mode};
        [] -> {error, lists:join(", ", [atom_to_list(Mode) || Mode <- Modes])}
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
    "nobody could log in: set DOCKET_SECRET to a password for all users".
