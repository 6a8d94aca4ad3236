%% @doc Implements `whittle write'. It writes a card to a disk of this machine, and reads it back.
-module(whittle_cmd_write).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "write", arguments => ["CARD", "DEVICE"],
      help => "write a card to a disk, as /dev/sdX, and read it back. Everything on the disk is "
              "lost. A disk that is mounted or otherwise in use is an error",
      options => [whittle_command_line:json()]}.

%% @doc Writes the card.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Card, Device]}) ->
    case whittle_board:write(Card, Device, fun(Event) -> show(Device, Event) end) of
        {ok, #{size := Size}} ->
            {ok, #{text => [Device, " has the ", whittle_number:text(Size), " bytes of ", Card,
                            $\n],
                   json => #{out => unicode:characters_to_binary(Device), size => Size}}};
        {error, Reason} -> whittle_failure:board(Reason)
    end.

show(Device, {What, Percent}) ->
    whittle_progress:step([doing(What), Device, io_lib:format(": ~b %", [Percent])]).

doing(writing) -> "writing to ";
doing(reading) -> "reading from ".
