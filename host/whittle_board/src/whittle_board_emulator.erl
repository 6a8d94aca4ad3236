%% @hidden Writes the command that boots an image in its board's emulator. This module is pure.
-module(whittle_board_emulator).

-export([command/3, card_command/3, sockets/1, memory/1, serial/1, forward/1]).

-export_type([options/0, serial/0, forward/0]).

-type serial() :: none | pty | {tcp, inet:port_number()} | {unix, string()}.

-type forward() :: {Here :: inet:port_number(), Board :: inet:port_number()}.

-type options() ::
        #{memory => pos_integer(),      % megabytes; default: the board's
          serial => serial(),           % the other end of the serial line; default: none
          forward => [forward()],       % ports of 127.0.0.1 that lead to the board's ports
          monitor => file:filename(),   % the path of a socket for qemu's monitor; default: none
          reboot => boolean(),          % default: true; false: a reboot ends the emulator
          keep => boolean(),            % default: false; true: what the board writes stays in the
                                        % card's file
          environment => file:filename()}. % the file for the boot loader of a card

%% @doc Returns the words of the command. The console is the command's standard input and output:
%% Ctrl-A X ends the emulator, and Ctrl-A C changes to its monitor and back.
-spec command(whittle_board_data:board(), file:filename(), options()) -> [string()].
command(#{emulator := Words, memory := Megabytes}, Image, Options) ->
    with_ends(Words ++ ["-kernel", Image], Megabytes, Options).

%% @doc Returns the words of the command that starts the boot loader with a card. The emulator
%% writes to the card's file only with the option `keep'. `environment' must be the path of a file
%% with the boot loader's environment.
-spec card_command(whittle_board_data:board(), file:filename(), options()) -> [string()].
card_command(#{emulator := Words,
               card := #{emulator := More, firmware := Firmware, memory := Megabytes}},
             Card, #{environment := File} = Options) ->
    Snapshot = case maps:get(keep, Options, false) of
                   true -> "off";
                   false -> "on"
               end,
    with_ends(Words ++ [lists:append(string:replace(Word, "file=environment,",
                                                    "file=" ++ escaped(File) ++ ","))
                        || Word <- More]
              ++ ["-bios", Firmware, "-drive",
                  "if=none,id=card,format=raw,snapshot=" ++ Snapshot ++ ",file=" ++ escaped(Card)],
              Megabytes, Options).

with_ends(Words, Megabytes, Options) ->
    Words
        ++ ["-m", integer_to_list(maps:get(memory, Options, Megabytes)) ++ "M",
            "-chardev", "stdio,id=console,signal=off,mux=on", "-mon", "chardev=console",
            "-chardev", channel(maps:get(serial, Options, none)) ++ ",id=serial"]
        ++ lists:append([["-netdev", "user,id=network" ++ lists:append(forwards(Options))]
                         || lists:any(fun has_network/1, Words)])
        ++ lists:append([["-monitor", "unix:" ++ escaped(Path) ++ ",server=on,wait=off"]
                         || #{monitor := Path} <- [Options]])
        ++ ["-no-reboot" || not maps:get(reboot, Options, true)].

%% @doc Lists the paths of the sockets that the emulator makes.
-spec sockets(options()) -> [file:filename()].
sockets(Options) ->
    [Path || #{monitor := Path} <- [Options]] ++ [Path || #{serial := {unix, Path}} <- [Options]].

%% A board without a card has no end for it.
has_network(Word) -> string:find(Word, "netdev=network") =/= nomatch.

forwards(Options) ->
    [lists:concat([",hostfwd=tcp:127.0.0.1:", Here, "-:", Board])
     || {Here, Board} <- maps:get(forward, Options, [])].

channel(none) -> "null";
channel(pty) -> "pty";
channel({tcp, Port}) ->
    "socket,host=127.0.0.1,port=" ++ integer_to_list(Port) ++ ",server=on,wait=off";
channel({unix, Path}) -> "socket,path=" ++ escaped(Path) ++ ",server=on,wait=off".

%% A comma in a value is written twice.
escaped(Path) -> lists:append(string:replace(Path, ",", ",,", all)).

%% @doc Reads a size of memory: `24M', or `1G'.
-spec memory(string()) -> {ok, pos_integer()} | error.
memory(Text) ->
    case re:run(Text, "^([1-9][0-9]{0,4})([MG])$", [unicode, dollar_endonly,
                                                   {capture, all_but_first, list}]) of
        {match, [Digits, "M"]} -> {ok, list_to_integer(Digits)};
        {match, [Digits, "G"]} -> {ok, 1024 * list_to_integer(Digits)};
        nomatch -> error
    end.

%% @doc Reads the other end of a serial line: `pty', `tcp:PORT' or `unix:PATH'.
-spec serial(string()) -> {ok, serial()} | error.
serial("pty") -> {ok, pty};
serial("unix:" ++ [_ | _] = "unix:" ++ Path) -> {ok, {unix, Path}};
serial("tcp:" ++ Digits) ->
    case port(Digits) of
        {ok, Port} -> {ok, {tcp, Port}};
        error -> error
    end;
serial(_) -> error.

%% @doc Reads forwarded ports: `7000' or `8080:80,7000'.
-spec forward(string()) -> {ok, [forward(), ...]} | error.
forward(Text) ->
    Read = [[port(Digits) || Digits <- string:split(Pair, ":")]
            || Pair <- string:split(Text, ",", all)],
    case [{Here, Board} || [{ok, Here} | Rest] <- Read,
                           {ok, Board} <- case Rest of [] -> [{ok, Here}]; _ -> Rest end] of
        Pairs when length(Pairs) =:= length(Read) -> {ok, Pairs};
        _ -> error
    end.

port(Digits) ->
    case re:run(Digits, "^[1-9][0-9]{0,4}$", [unicode, dollar_endonly, {capture, none}]) of
        match ->
            case list_to_integer(Digits) of
                Port when Port < 65536 -> {ok, Port};
                _ -> error
            end;
        nomatch -> error
    end.
