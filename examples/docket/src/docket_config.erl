%% @doc Reads and checks the settings.
%%
%% A setting is a key of the application's environment (`sys.config'), or an environment variable:
%% the key in capital letters behind `DOCKET_', for example DOCKET_PORT. The variable wins. The
%% README describes each setting.
%% @hidden
-module(docket_config).

-export([load/0, unknown/0, get/1, check/2, names/1, format_error/1]).

-export_type([key/0, error/0]).

-type key() :: store | nodes | retry | start_timeout | force | port | ip | secret | dir | mode
             | clients | running | waiting | patience | deadline | body_timeout | document
             | pictures | row_version | fragments.

-type error() :: {bad_setting, {key(), Value :: term(), Wanted :: iodata()}} | {no_secret, []}
               | {only_memory, []} | {not_listed, {node(), [node()]}}.

%% Each setting with its type and its default.
-define(SETTINGS,
        [{store, store, mnesia}, {nodes, nodes, []}, {retry, positive, 1000},
         {start_timeout, start_timeout, 60000}, {force, boolean, false}, {port, port, 8080},
         {ip, ip, {127, 0, 0, 1}}, {secret, secret, none}, {dir, dir, none},
         {mode, mode, sync_transaction}, {clients, positive, 1000}, {running, positive, 16},
         {waiting, positive, 512}, {patience, positive, 1000}, {deadline, positive, 5000},
         {body_timeout, positive, 10000}, {document, positive, 262144}, {pictures, positive, 2},
         {row_version, row_version, newest}, {fragments, fragments, 1}]).

%% @doc Returns a setting that load/0 has read.
-spec get(key()) -> term().
get(Key) -> maps:get(Key, persistent_term:get(?MODULE)).

%% @doc Reads all settings.
-spec load() -> ok | {error, error()}.
load() -> load(?SETTINGS, #{}).

%% @doc Lists the keys of the application's environment that are no settings, and the environment
%% variables that begin with `DOCKET_' and name none.
-spec unknown() -> [string()].
unknown() ->
    Known = [variable(Key) || {Key, _, _} <- ?SETTINGS],
    %% OTP has a key of its own there.
    Keys = [atom_to_list(Key) || {Key, _} <- lists:sort(application:get_all_env(docket)),
                                 not lists:keymember(Key, 1, ?SETTINGS),
                                 Key =/= included_applications],
    Keys ++ [Name || {Name, _} <- lists:sort(os:env()), lists:prefix("DOCKET_", Name),
                     not lists:member(Name, Known)].

load([], Settings) ->
    case together(Settings) of
        ok -> persistent_term:put(?MODULE, Settings);
        {error, _} = Error -> Error
    end;
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

%% Checks that the settings fit together.
together(#{secret := none}) -> {error, {no_secret, []}};
together(#{mode := ets, store := mnesia, dir := Dir, nodes := Nodes})
  when Dir =/= none; length(Nodes) > 1 ->
    {error, {only_memory, []}};
together(#{nodes := [_ | _] = Nodes}) ->
    case lists:member(node(), Nodes) of
        true -> ok;
        false -> {error, {not_listed, {node(), Nodes}}}
    end;
together(_) -> ok.

%% A log must not show a secret.
shown(secret, _) -> hidden;
shown(_, Value) -> Value.

variable(Key) -> "DOCKET_" ++ string:uppercase(atom_to_list(Key)).

%% @doc Writes nodes as text for a person.
-spec names([node()]) -> iolist().
names(Nodes) -> lists:join(", ", [atom_to_list(Node) || Node <- Nodes]).

%% @doc Checks a value of the environment (a string) or of the application's environment.
-spec check(atom(), term()) -> {ok, term()} | {error, Wanted :: iodata()}.
check(port, Value) -> number(Value, 0, 65535, "a port from 0 to 65535");
check(positive, Value) -> number(Value, 1, 1 bsl 30, "a whole number from 1 to 1073741824");
%% With less, only some attempts to start the database come to their end.
check(start_timeout, Value) -> number(Value, 1000, 1 bsl 30, "milliseconds, at least 1000");
check(fragments, Value) -> number(Value, 1, 64, "a number from 1 to 64");
check(boolean, Value) when is_boolean(Value) -> {ok, Value};
check(boolean, "true") -> {ok, true};
check(boolean, "false") -> {ok, false};
check(boolean, _) -> {error, "true or false"};
check(row_version, newest) -> {ok, docket_case:newest()};
check(row_version, Value) ->
    Newest = docket_case:newest(),
    number(Value, 1, Newest, ["a version from 1 to ", integer_to_list(Newest)]);
check(ip, Value) when is_list(Value) ->
    case inet:parse_strict_address(Value) of
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
check(nodes, "none") -> {ok, []};
check(nodes, Value) when is_list(Value) ->
    try listed(Value)
    catch error:_ -> {error, "names of nodes"}
    end;
check(nodes, _) -> {error, "names of nodes"};
check(mode, Value) -> one_of(Value, [transaction, sync_transaction, async_dirty, sync_dirty, ets]);
check(store, Value) -> one_of(Value, [mnesia, ra]).

%% A term of sys.config may be a list that is neither a text nor a list of names, or has no end.
listed(Value) ->
    Names = case Value of
                [Char | _] when is_integer(Char) ->
                    [string:trim(Name) || Name <- string:lexemes(Value, ",")];
                _ -> Value
            end,
    Checked = [Node || {ok, Node} <- [node_name(Name) || Name <- Names]],
    case length(Checked) =:= length(Names) andalso length(lists:usort(Checked)) =:= length(Names)
        andalso length(Names) =< 64 andalso (Names =/= [] orelse Value =:= []) of
        true -> {ok, Checked};
        false -> {error, "names of nodes, such as one@host,two@host: at most 64, each once"}
    end.

one_of(Value, Names) ->
    case [Name || Name <- Names, Value =:= Name orelse Value =:= atom_to_list(Name)] of
        [Name] -> {ok, Name};
        [] -> {error, lists:join(" or ", [atom_to_list(Name) || Name <- Names])}
    end.

node_name(Name) when is_atom(Name) -> node_name(atom_to_list(Name));
node_name(Name) when is_list(Name), length(Name) < 256 ->
    case lists:splitwith(fun(Char) -> Char =/= $@ end, Name) of
        {[_ | _] = Own, [$@ | [_ | _] = Host]} ->
            case lists:all(fun is_of_name/1, Own)
                andalso lists:all(fun(Char) -> is_of_name(Char) orelse lists:member(Char, ".:") end,
                                  Host) of
                true -> {ok, list_to_atom(Name)};
                false -> error
            end;
        _ -> error
    end;
node_name(_) -> error.

is_of_name(Char) when Char >= $0, Char =< $9; Char >= $A, Char =< $Z; Char >= $a, Char =< $z ->
    true;
is_of_name(Char) -> lists:member(Char, "_-").

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
format_error({not_listed, {Node, Nodes}}) ->
    io_lib:format("this node is ~s, which the setting nodes (DOCKET_NODES) does not list (~s): "
                  "give all nodes the same list, and each node a name from it",
                  [Node, names(Nodes)]);
format_error({only_memory, _}) ->
    "the mode ets (DOCKET_MODE) keeps cases only in the memory of one node: set DOCKET_DIR to none "
    "and DOCKET_NODES to at most one node, or choose another mode";
format_error({no_secret, _}) ->
    "nobody could log in: set DOCKET_SECRET to a password for all users".
