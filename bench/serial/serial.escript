#!/usr/bin/env escript
%% Measures a serial line over a pseudo-terminal: round trips, throughput, CPU time, threads.
%%
%% Model: the other end is lib/whittle_io/test/whittle_serial_peer.c. Round trips: a bare loop in C
%% echoes all bytes on the master. On the slave, three programs send one byte and wait for it, 2000
%% times, in turn in each of ROUNDS rounds: a bare loop in C (blocking read and write),
%% whittle_serial (active, and passive) and erlang-serial. A round's figure is the median of the
%% 2000, and its ratio is to the bare loop of the same round and pair.
%% Throughput: MB million bytes of numbered words go in, out, and both ways at once, ROUNDS times.
%% The peer checks each byte, and this script compares the CRC-32 of all. erlang-serial sends in
%% pieces of 1023 bytes, because it misreads lengths whose low byte is above 127. CPU time is that
%% of the VM and of the helper program, without the peer's. Long schedules are those above 10 ms
%% while bytes flow.
%%
%% run: bench/run [OTP-ROOT] serial/serial.escript [ROUNDS [MB [CHECKOUT]]]
%%      CHECKOUT: a directory with erlang-serial, compiled (ebin/serial.beam, priv/bin/serial)
-mode(compile).

-define(TRIPS, 2000).

main(Args) ->
    {Rounds, MB, Checkout} =
        case Args of
            [] -> {9, 100, none};
            [R] -> {list_to_integer(R), 100, none};
            [R, M] -> {list_to_integer(R), list_to_integer(M), none};
            [R, M, C] -> {list_to_integer(R), list_to_integer(M), filename:absname(C)}
        end,
    true = code:add_patha(tests()),
    Other = other(Checkout),
    io:format("OTP ~s, ~p, ~p schedulers, load ~s~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), load()]),
    threads(Other),
    round_trips(Rounds, Other),
    Numbers = iolist_to_binary([whittle_serial_peer:numbered(At * 1000000, 1000000)
                                || At <- lists:seq(0, MB - 1)]),
    Crc = erlang:crc32(Numbers),
    [throughput(Kind, Way, Rounds, Numbers, Crc)
     || Kind <- [whittle_serial | Other], Way <- [in, out, both],
        {Kind, Way} =/= {erlang_serial, both}],
    io:format("load ~s~n", [load()]).

%% lib/Makefile puts the peer here.
tests() -> filename:join(os:getenv("ERL_LIBS"), "tests").

other(none) ->
    io:format("erlang-serial: left out, as no checkout was given~n"),
    [];
other(Dir) ->
    case filelib:is_regular(filename:join(Dir, "priv/bin/serial"))
        andalso code:add_patha(filename:join(Dir, "ebin")) of
        true ->
            %% If its directory is not called serial, it looks for its program in this directory.
            ok = file:set_cwd(Dir),
            [erlang_serial];
        _ ->
            io:format("erlang-serial: left out, as nothing is compiled in ~s~n", [Dir]),
            []
    end.

load() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    [One | _] = binary:split(Text, <<" ">>),
    One.

%%% lines

open(whittle_serial, Path, Options) ->
    {ok, Port} = whittle_serial:open(Path, Options),
    Port;
open(erlang_serial, Path, _) ->
    process_flag(trap_exit, true),
    Pid = serial:start([{speed, 115200}, {open, binary_to_list(Path)}]),
    %% It does not report when it is open.
    timer:sleep(300),
    Pid.

close(whittle_serial, Port) -> whittle_serial:close(Port);
close(erlang_serial, Pid) ->
    Pid ! {close},
    exit(Pid, kill),
    receive {'EXIT', Pid, _} -> ok end.

send(whittle_serial, Port, Bytes) -> ok = whittle_serial:send(Port, Bytes);
send(erlang_serial, Pid, Bytes) -> Pid ! {send, Bytes}.

received(whittle_serial, Port) -> receive {serial, Port, Bytes} -> Bytes end;
received(erlang_serial, _) -> receive {data, Bytes} -> Bytes end.

%%% threads and programs

threads(Kinds) ->
    [begin
         Peer = whittle_serial_peer:start(),
         Before = {threads(), programs()},
         Line = open(Kind, whittle_serial_peer:path(Peer), []),
         {Threads, Programs} = {threads(), programs()},
         io:format("~-20s ~p threads and ~p programs more with a line open~n",
                   [Kind, Threads - element(1, Before), Programs - element(2, Before)]),
         close(Kind, Line),
         whittle_serial_peer:stop(Peer)
     end || Kind <- [whittle_serial | Kinds]].

threads() -> {ok, Names} = file:list_dir("/proc/self/task"), length(Names).

%% Lists the descendants of this VM.
programs() -> length(descendants(os:getpid())).

descendants(Pid) ->
    Children = [Name || Name <- element(2, file:list_dir("/proc")), hd(Name) >= $0, hd(Name) =< $9,
                        parent(Name) =:= Pid],
    Children ++ lists:append([descendants(Child) || Child <- Children]).

parent(Pid) ->
    case stat(Pid) of
        [_, Parent | _] -> Parent;
        none -> none
    end.

%% Takes the fields after the name. The name is in brackets and may hold anything.
stat(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/stat") of
        {ok, Text} ->
            string:lexemes(lists:last(string:split(binary_to_list(Text), ")", trailing)), " ");
        {error, _} -> none
    end.

%%% round trips

round_trips(Rounds, Other) ->
    Kinds = [bare, whittle_serial, passive | Other],
    Times = [one_round(Kinds) || _ <- lists:seq(1, Rounds)],
    io:format("round trip of one byte, microseconds | times the bare loop (~p rounds)~n", [Rounds]),
    [begin
         Own = [lists:nth(N, Round) / 1000 || Round <- Times],
         Ratios = [lists:nth(N, Round) / hd(Round) || Round <- Times],
         io:format("  ~-18s ~-26s ~s~n", [Kind, spread(Own), spread(Ratios)])
     end || {N, Kind} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)].

one_round(Kinds) ->
    Program = whittle_serial_peer:program(),
    Echo = open_port({spawn_executable, Program}, [{args, ["echo"]}, {line, 200}, binary]),
    Path = receive {Echo, {data, {eol, P}}} -> P end,
    Times = [median(trips(Kind, Program, Path)) || Kind <- Kinds],
    port_close(Echo),
    Times.

trips(bare, Program, Path) ->
    Ping = open_port({spawn_executable, Program},
                     [{args, ["ping", binary_to_list(Path), integer_to_list(?TRIPS)]},
                      {line, 200}, exit_status]),
    gathered(Ping);
trips(passive, _, Path) ->
    {ok, Port} = whittle_serial:open(Path, [{active, false}]),
    Times = [trip(fun() ->
                          ok = whittle_serial:send(Port, <<"x">>),
                          {ok, <<"x">>} = whittle_serial:recv(Port, 1)
                  end) || _ <- lists:seq(1, ?TRIPS)],
    whittle_serial:close(Port),
    Times;
trips(Kind, _, Path) ->
    Line = open(Kind, Path, []),
    Times = [trip(fun() ->
                          send(Kind, Line, <<"x">>),
                          <<"x">> = received(Kind, Line)
                  end) || _ <- lists:seq(1, ?TRIPS)],
    close(Kind, Line),
    Times.

trip(Do) ->
    From = erlang:monotonic_time(nanosecond),
    Do(),
    erlang:monotonic_time(nanosecond) - From.

gathered(Ping) ->
    receive
        {Ping, {data, {eol, Line}}} -> [list_to_integer(Line) | gathered(Ping)];
        {Ping, {exit_status, 0}} -> []
    end.

median(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)).

spread(List) ->
    io_lib:format("~.2f (~.2f to ~.2f)", [float(X) || X <- [median(List), lists:min(List),
                                                            lists:max(List)]]).

%%% throughput

throughput(Kind, Way, Rounds, Numbers, Crc) ->
    _ = erlang:system_monitor(self(), [{long_schedule, 10}]),
    Runs = [limited(fun() -> run(Kind, Way, Numbers, Crc) end) || _ <- lists:seq(1, Rounds)],
    _ = erlang:system_monitor(undefined),
    told(Kind, Way, [Run || {_, _} = Run <- Runs], length(Runs)),
    long([]).

told(Kind, Way, Runs, Count) when length(Runs) < Count ->
    io:format("~-16s ~-5s ~p of ~p did not end within a minute~n",
              [Kind, Way, Count - length(Runs), Count]);
told(Kind, Way, Runs, _) ->
    io:format("~-16s ~-5s MB/s ~-26s CPU ms/MB ~-24s none lost or doubled~n",
              [Kind, Way, spread([R || {R, _} <- Runs]), spread([C || {_, C} <- Runs])]).

%% The loop would wait for lost bytes.
limited(Run) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit(Run()) end),
    receive {'DOWN', Ref, process, Pid, Result} -> Result
    after 60000 -> exit(Pid, kill), late
    end.

%% Counts the line's process and others, such as this script's.
long(Times) ->
    receive
        {monitor, _, long_schedule, What} -> long([{place(What), What} | Times])
    after 0 ->
            [io:format("    ~b long schedules ~s, ~b ms at most~n",
                       [length(T), Where, lists:max(T)])
             || Where <- ["in the line's process", "in others"],
                T <- [[proplists:get_value(timeout, W) || {Of, W} <- Times, Of =:= Where]],
                T =/= []]
    end.

place(What) ->
    case [in || {_, {whittle_serial_port, _, _}} <- What] of
        [] -> "in others";
        _ -> "in the line's process"
    end.

run(Kind, Way, Numbers, Crc) ->
    Size = byte_size(Numbers),
    {In, Out} = case Way of in -> {Size, 0}; out -> {0, Size}; both -> {Size, Size} end,
    Peer = whittle_serial_peer:start(),
    Line = open(Kind, whittle_serial_peer:path(Peer), []),
    Cpu = cpu(Kind),
    From = erlang:monotonic_time(microsecond),
    whittle_serial_peer:flood(Peer, In, Out),
    _ = Out > 0 andalso spawn_link(fun() -> pieces(Kind, Line, Numbers) end),
    %% The sum covers only the input. The peer has checked the output.
    Crc = case In of 0 -> Crc; _ -> take(Kind, Line, erlang:crc32(<<>>), Size) end,
    <<"ok">> = whittle_serial_peer:flooded(Peer),
    Took = erlang:monotonic_time(microsecond) - From,
    Used = cpu(Kind) - Cpu,
    close(Kind, Line),
    whittle_serial_peer:stop(Peer),
    _ = [receive {'EXIT', _, normal} -> ok after 0 -> ok end || _ <- [1, 2]],
    {(In + Out) / Took, Used * 1000000 / (In + Out)}.

pieces(_, _, <<>>) -> ok;
pieces(Kind, Line, Numbers) ->
    Size = min(byte_size(Numbers), case Kind of whittle_serial -> 65536; _ -> 1023 end),
    <<Piece:Size/binary, Rest/binary>> = Numbers,
    send(Kind, Line, Piece),
    pieces(Kind, Line, Rest).

take(_, _, Crc, 0) -> Crc;
take(Kind, Line, Crc, Left) when Left > 0 ->
    Bytes = received(Kind, Line),
    take(Kind, Line, erlang:crc32(Crc, Bytes), Left - byte_size(Bytes)).

%% Reads the milliseconds of CPU time of this VM, and of erlang-serial's program. A tick is 10 ms.
cpu(Kind) ->
    Helpers = case Kind of
                  whittle_serial -> [];
                  _ -> [Pid || Pid <- descendants(os:getpid()), is_helper(Pid)]
              end,
    10 * lists:sum([ticks(Pid) || Pid <- [os:getpid() | Helpers]]).

is_helper(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/comm") of
        {ok, <<"serial\n">>} -> true;
        _ -> false
    end.

ticks(Pid) ->
    Fields = stat(Pid),
    list_to_integer(lists:nth(12, Fields)) + list_to_integer(lists:nth(13, Fields)).
