%% Runs the other end of a serial line: the master of a pseudo-terminal in the program
%% whittle_serial_peer.c. The first use compiles that file beside this module.
-module(whittle_serial_peer).

-export([start/0, program/0, path/1, stop/1]).
-export([write/2, trickle/2, read/2, termios/1, is_taken/1, hang_up/1]).
-export([flood/3, flooded/1, numbered/2]).

-record(peer, {port, path}).

start() ->
    Port = open_port({spawn_executable, program()}, [{packet, 4}, binary]),
    #peer{port = Port, path = answer(Port)}.

program() ->
    Program = filename:rootname(code:which(?MODULE)),
    Source = filename:rootname(proplists:get_value(source, module_info(compile))) ++ ".c",
    case filelib:last_modified(Program) < filelib:last_modified(Source) of
        true ->
            Words = [os:getenv("CC", "cc"), "-O2", "-pthread", "-o", Program, Source],
            "" = os:cmd(lists:join(" ", Words));
        false -> ok
    end,
    Program.

path(#peer{path = Path}) -> Path.

%% The program may have ended by itself.
stop(#peer{port = Port}) ->
    try port_close(Port)
    catch error:badarg -> true
    end.

%% Writes bytes, and returns when the kernel has them.
write(Peer, Bytes) -> <<"ok">> = ask(Peer, [$w, Bytes]), ok.

%% Writes each byte separately.
trickle(Peer, Bytes) -> <<"ok">> = ask(Peer, [$s, Bytes]), ok.

read(Peer, Count) -> ask(Peer, <<$r, Count:32>>).

%% Returns the flags and rates of the kernel.
termios(Peer) ->
    <<I:32/native, O:32/native, C:32/native, L:32/native, _:20/binary, In:32/native,
      Out:32/native>> = ask(Peer, "t"),
    #{iflag => I, oflag => O, cflag => C, lflag => L, rates => {In, Out}}.

%% Returns whether another program has locked the line, and whether it is exclusive.
is_taken(Peer) ->
    <<Locked, Exclusive>> = ask(Peer, "l"),
    {Locked =:= 1, Exclusive =:= 1}.

hang_up(Peer) -> <<"ok">> = ask(Peer, "c"), ok.

%% Starts to write and read so many numbered bytes. flooded/1 returns the result.
flood(#peer{port = Port}, Write, Read) -> true = port_command(Port, <<$f, Write:32, Read:32>>).

flooded(#peer{port = Port}) -> answer(Port).

ask(#peer{port = Port}, Request) ->
    true = port_command(Port, Request),
    answer(Port).

answer(Port) -> receive {Port, {data, Answer}} -> Answer end.

%% Returns the bytes from At to At + Size of the words 0, 1, 2 ...
numbered(At, Size) ->
    First = At div 4,
    Words = << <<N:32>> || N <- lists:seq(First, (At + Size) div 4) >>,
    binary:part(Words, At rem 4, Size).
