%% @doc Reads the settings of the VM that the tuner may change, and turns values into flags.
%%
%% `priv/settings' has one file for each OTP release whose settings differ. A release without a file
%% of its own has the settings of the newest release before it.
%% @hidden
-module(whittle_tune_settings).

-export([read/1, releases/0, tried/1, find/2, command/2, config/2, default/1, fitted/2,
         format_value/1]).

-export_type([setting/0, value/0, values/0, tried/0, error/0]).

-type value() :: integer() | atom().

%% The chosen values by name. A setting without a value keeps the VM's own.
-type values() :: #{atom() => value()}.

%% The head of each file describes the keys.
-type setting() ::
        #{name := atom(),
          flags => [string()] | #{atom() => [string()]},
          environment => string(),
          application => {string(), string()},  % a key of an application: from tried/1
          values := {integer(), integer()} | [atom()],
          unit => string(),
          default := value(),
          effect := string(),
          risk := string(),
          probe := string(),
          shows := value | {times, pos_integer()} | other | more,
          beside => [string()]}.

%% A key of an application's environment with values to try, as the text of terms without blanks.
-type tried() :: {Application :: string(), Key :: string(), Values :: [string(), ...]}.

-type error() :: {no_settings, string()}.

%% @doc Lists the OTP releases that have a file.
-spec releases() -> [pos_integer()].
releases() ->
    lists:sort([list_to_integer(filename:basename(File, ".config"))
                || File <- filelib:wildcard(filename:join(dir(), "*.config"))]).

dir() -> filename:join(code:priv_dir(whittle_tune), "settings").

%% @doc Reads the settings of an OTP release, such as `29'. The error is `no_settings' for a release
%% before the first file.
-spec read(pos_integer()) -> {ok, [setting()]} | {error, error()}.
read(Otp) ->
    case [Release || Release <- releases(), Release =< Otp] of
        [] -> {error, {no_settings, integer_to_list(Otp)}};
        Older ->
            File = filename:join(dir(), integer_to_list(lists:max(Older)) ++ ".config"),
            {ok, Settings} = file:consult(File),
            {ok, Settings}
    end.

%% @doc Returns the settings for keys that the user wants to try. Values are atoms with their text.
-spec tried([tried()]) -> [setting()].
tried(Tried) ->
    [#{name => list_to_atom(Application ++ " " ++ Key), application => {Application, Key},
       values => [list_to_atom(Value) || Value <- Values], default => none,
       effect => "a key of the application " ++ Application, risk => "as the program documents it",
       probe => "none", shows => other}
     || {Application, Key, Values} <- Tried].

%% @doc Finds a setting by name.
-spec find(atom(), [setting()]) -> {ok, setting()} | error.
find(Name, Settings) ->
    case [Setting || #{name := Of} = Setting <- Settings, Of =:= Name] of
        [Setting] -> {ok, Setting};
        [] -> error
    end.

%% @doc Returns the flags and the variables for values, in the order of the settings.
-spec command(values(), [setting()]) -> {[string()], [{string(), string()}]}.
command(Values, Settings) ->
    Chosen = [{Setting, Value} || #{name := Name} = Setting <- Settings,
                                  #{Name := Value} <- [Values]],
    {lists:append([flags(Flags, Value) || {#{flags := Flags}, Value} <- Chosen]),
     [{Variable, format_value(Value)} || {#{environment := Variable}, Value} <- Chosen]}.

%% @doc Returns the chosen values of applications: application, key and the text of the value.
-spec config(values(), [setting()]) -> [{string(), string(), string()}].
config(Values, Settings) ->
    [{Application, Key, format_value(Value)}
     || #{name := Name, application := {Application, Key}} <- Settings,
        #{Name := Value} <- [Values]].

flags(Flags, Value) when is_map(Flags) -> maps:get(Value, Flags);
flags(Words, Value) ->
    Text = format_value(Value),
    [case Word of
         "N" -> Text;
         "N:N" -> Text ++ ":" ++ Text;
         _ -> Word
     end || Word <- Words].

%% @doc Writes a value as a flag has it.
-spec format_value(value()) -> string().
format_value(Value) when is_integer(Value) -> integer_to_list(Value);
format_value(Value) -> atom_to_list(Value).

%% @doc Returns the VM's own value of a setting on this machine.
-spec default(setting()) -> value().
default(#{default := cpus}) -> erlang:system_info(logical_processors_available);
default(#{default := Value}) -> Value.

%% @doc Moves a number into the range of a setting.
-spec fitted(integer(), setting()) -> integer().
fitted(Number, #{values := {Least, Most}}) -> max(Least, min(Most, Number)).
