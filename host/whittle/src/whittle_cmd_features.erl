%% @doc Implements `whittle features'. It lists the features that a program can do without.
-module(whittle_cmd_features).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "features", arguments => [],
      help => "list the features (parts of OTP) that `build --feature' turns on or off",
      options => [whittle_command_line:json()]}.

%% @doc Lists the features with their descriptions.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()}.
run(_) ->
    Features = whittle_shake:features(),
    Rows = [[atom_to_list(Name), Means] || {Name, Means} <- Features],
    {ok, #{text => whittle_table:text([["feature", ""] | Rows]),
           json => [#{name => Name, means => unicode:characters_to_binary(Means)}
                    || {Name, Means} <- Features]}}.
