%% @doc Implements `whittle boards'. It lists the boards for which Whittle makes images.
-module(whittle_cmd_boards).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "boards", arguments => [],
      help => "list the boards that you can make an image for",
      options => [whittle_command_line:json()]}.

%% @doc Lists the boards with their targets and their devices.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()}.
run(_) ->
    Boards = whittle_board:boards(),
    {ok, #{text => [whittle_table:text([[Name, Target, Summary, Tested]
                                        || #{name := Name, target := Target, summary := Summary,
                                             tested := Tested} <- Boards]),
                    [[Name, ": console ", Console, [["; ", Device] || Device <- Devices], $\n]
                     || #{name := Name, console := Console, devices := Devices} <- Boards]],
           json => #{boards => [json(Board) || Board <- Boards]}}}.

json(#{name := Name, target := Target, summary := Summary, tested := Tested, memory := Memory,
       console := Console, devices := Devices}) ->
    #{name => text(Name), target => text(Target), summary => text(Summary),
      tested => text(Tested), memory_mb => Memory, console => text(Console),
      devices => [text(Device) || Device <- Devices]}.

text(Chars) -> unicode:characters_to_binary(Chars).
