-module(whittle_serial_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([sends_and_receives/1, options_read_back/1, refused_frame/1, setopts_getopts/1,
         floods_both_ways/1, floods_passively/1, floods_on_busy_schedulers/1,
         many_senders/1, active_once/1, active_count/1, active_added/1,
         recv_lengths/1, recv_timeout/1, recv_in_turn/1, frames/1, lines/1, modes/1,
         silence_ends_messages/1, silence_ends_frames/1, reads_ahead_bounded/1,
         send_waits/1, send_timeout/1, drains/1, flushes_input/1, flushes_output/1,
         gives_away/1, gives_away_in_flood/1, no_owner_no_gift/1, lists_devices/1]).

-import(whittle_serial_peer, [numbered/2]).

-define(MB, 1048576).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [sends_and_receives, options_read_back, refused_frame, setopts_getopts,
     floods_both_ways, floods_passively, floods_on_busy_schedulers, many_senders, active_once,
     active_count, active_added, recv_lengths, recv_timeout, recv_in_turn, frames, lines, modes,
     silence_ends_messages, silence_ends_frames, reads_ahead_bounded, send_waits,
     send_timeout, drains, flushes_input, flushes_output, gives_away, gives_away_in_flood,
     no_owner_no_gift, lists_devices].

init_per_testcase(_, Config) -> [{peer, whittle_serial_peer:start()} | Config].

end_per_testcase(_, Config) -> whittle_serial_peer:stop(peer(Config)).

peer(Config) -> proplists:get_value(peer, Config).

open(Config, Options) ->
    Peer = peer(Config),
    {ok, Port} = whittle_serial:open(whittle_serial_peer:path(Peer), Options),
    {Peer, Port}.

received(Port) -> receive {serial, Port, Data} -> Data end.

info(Port, Key) ->
    {ok, Info} = whittle_serial:info(Port),
    maps:get(Key, Info).

%% Asks until it is so: what is waited for tells nobody.
until(Condition) ->
    case Condition() of
        true -> ok;
        false -> erlang:yield(), until(Condition)
    end.

%%% bytes

sends_and_receives(Config) ->
    {Peer, Port} = open(Config, []),
    ok = whittle_serial:send(Port, ["he", <<"llo">>]),
    ?assertEqual(<<"hello">>, whittle_serial_peer:read(Peer, 5)),
    %% Nothing of a terminal is left: no echo, no line ends, no signals.
    All = list_to_binary(lists:seq(0, 255)),
    ok = whittle_serial:send(Port, All),
    ?assertEqual(All, whittle_serial_peer:read(Peer, 256)),
    whittle_serial_peer:write(Peer, All),
    ?assertEqual(All, gather(Port, 256)),
    ok = whittle_serial:send(Port, <<>>),
    ok = whittle_serial:close(Port),
    %% The name may be a list too.
    {ok, Port1} = whittle_serial:open(binary_to_list(whittle_serial_peer:path(Peer))),
    ok = whittle_serial:close(Port1).

gather(_, 0) -> <<>>;
gather(Port, Size) ->
    Data = received(Port),
    <<Data/binary, (gather(Port, Size - byte_size(Data)))/binary>>.

options_read_back(Config) ->
    [begin
         {Peer, Port} = open(Config, Options),
         #{iflag := I, oflag := O, cflag := C, lflag := L, rates := Rates} =
             whittle_serial_peer:termios(Peer),
         {ok, [{rate, Rate}]} = whittle_serial:getopts(Port, [rate]),
         ?assertEqual({Rate, Rate}, Rates),
         ?assertEqual(Wanted, Rate),
         ?assertEqual({0, 0}, {O, L}),
         %% CREAD and CLOCAL are always on, IXANY and what changes bytes never.
         ?assertEqual(8#4200, C band 8#4200),
         ?assertEqual(Input, I),
         ?assertEqual(Control, C band 8#20000000100),
         ok = whittle_serial:close(Port)
     end || {Options, Wanted, Input, Control} <-
                [{[], 9600, 1, 0}, {#{rate => 115200}, 115200, 1, 0}]
                ++ [{[{rate, Rate}], Rate, 1, 0}
                    || Rate <- [50, 12345, 250000, 4000000, 16#ffffffff]]
                ++ [{[{stop_bits, 2}], 9600, 1, 8#100},
                    {[{flow, hardware}], 9600, 1, 8#20000000000},
                    {[{flow, software}], 9600, 8#12001, 0},
                    {[{flow, software}, {stop_bits, 2}, {rate, 300}], 300, 8#12001, 8#100}]].

%% A pseudo-terminal is always 8N, whatever it is told: so a frame that the hardware does not
%% take is refused, and nothing is left of the attempt.
refused_frame(Config) ->
    Peer = peer(Config),
    Path = whittle_serial_peer:path(Peer),
    Before = whittle_serial_peer:termios(Peer),
    [?assertEqual({error, einval}, whittle_serial:open(Path, [Option]))
     || Option <- [{bits, 7}, {bits, 5}, {parity, even}, {parity, mark}]],
    ?assertEqual(Before, whittle_serial_peer:termios(Peer)),
    {ok, Port} = whittle_serial:open(Path, [{rate, 1200}]),
    ?assertEqual({error, einval}, whittle_serial:setopts(Port, [{rate, 2400}, {parity, odd}])),
    ?assertEqual({ok, [{rate, 1200}, {parity, none}]},
                 whittle_serial:getopts(Port, [rate, parity])).

setopts_getopts(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    Changes = [{rate, 57600}, {stop_bits, 2}, {flow, software}, {packet, 2}, {mode, list},
               {packet_size, 10}, {inter_byte_timeout, 100}, {buffer, 100},
               {send_timeout, 1000}, {linger, 1}, {active, once}],
    ok = whittle_serial:setopts(Port, Changes),
    ?assertEqual({ok, Changes}, whittle_serial:getopts(Port, [N || {N, _} <- Changes])),
    ?assertEqual({ok, [{bits, 8}, {exclusive, true}]},
                 whittle_serial:getopts(Port, [bits, exclusive])),
    #{rates := Rates} = whittle_serial_peer:termios(Peer),
    ?assertEqual({57600, 57600}, Rates),
    ?assertEqual({error, {bad_option, {exclusive, false}}},
                 whittle_serial:setopts(Port, [{exclusive, false}])),
    ?assertEqual({error, {bad_option, colour}}, whittle_serial:getopts(Port, [rate, colour])).

%%% floods: numbered words both ways at once

floods_both_ways(Config) ->
    {Peer, Port} = open(Config, []),
    flood(Peer, Port, 16 * ?MB, fun() -> received(Port) end).

floods_passively(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    flood(Peer, Port, 4 * ?MB, fun() -> {ok, Data} = whittle_serial:recv(Port, 0), Data end).

%% More who want to run than can.
floods_on_busy_schedulers(Config) ->
    {Peer, Port} = open(Config, [{active, once}]),
    Spinning = [spawn_link(fun spin/0) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))],
    flood(Peer, Port, 4 * ?MB, fun() ->
                                       Data = received(Port),
                                       ok = whittle_serial:setopts(Port, [{active, once}]),
                                       Data
                               end),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Spinning].

spin() -> spin().

flood(Peer, Port, Size, Receive) ->
    whittle_serial_peer:flood(Peer, Size, Size),
    Sender = spawn_link(fun() -> send_numbered(Port, 0, Size) end),
    Ref = monitor(process, Sender),
    ok = receive_numbered(Receive, 0, Size),
    receive {'DOWN', Ref, process, _, Reason} -> ?assertEqual(normal, Reason) end,
    ?assertEqual(<<"ok">>, whittle_serial_peer:flooded(Peer)),
    ?assertEqual({Size, Size}, {info(Port, read), info(Port, written)}).

%% In pieces of many sizes.
send_numbered(_, Size, Size) -> ok;
send_numbered(Port, At, Size) ->
    Piece = min(1 + At * 7 rem 100003, Size - At),
    ok = whittle_serial:send(Port, numbered(At, Piece)),
    send_numbered(Port, At + Piece, Size).

receive_numbered(_, Size, Size) -> ok;
receive_numbered(Receive, At, Size) when At < Size ->
    Data = Receive(),
    true = Data =:= numbered(At, byte_size(Data)),
    receive_numbered(Receive, At + byte_size(Data), Size).

%% None within another, each sender's in order, nothing lost.
many_senders(Config) ->
    {Peer, Port} = open(Config, []),
    Line = fun(Who, N) -> iolist_to_binary(io_lib:format("~b ~4..0b ~s~n",
                                                         [Who, N, binary:copy(<<"x">>, 3000)]))
           end,
    Size = byte_size(Line(1, 1)),
    Send = fun(Who) -> [ok = whittle_serial:send(Port, Line(Who, N)) || N <- lists:seq(1, 50)] end,
    [spawn_link(fun() -> Send(Who) end) || Who <- lists:seq(1, 8)],
    Lines = [whittle_serial_peer:read(Peer, Size) || _ <- lists:seq(1, 400)],
    [?assertEqual([Line(Who, N) || N <- lists:seq(1, 50)],
                  [L || <<W, _/binary>> = L <- Lines, W =:= $0 + Who]) || Who <- lists:seq(1, 8)].

%%% delivery

active_once(Config) ->
    {Peer, Port} = open(Config, [{active, once}, {packet, 1}]),
    whittle_serial_peer:write(Peer, <<1, "a", 1, "b">>),
    ?assertEqual(<<"a">>, received(Port)),
    until(fun() -> info(Port, buffered) =:= 2 end),
    ?assertEqual({ok, [{active, false}]}, whittle_serial:getopts(Port, [active])),
    receive Other -> error(Other) after 0 -> ok end,
    ok = whittle_serial:setopts(Port, [{active, once}]),
    ?assertEqual(<<"b">>, received(Port)).

active_count(Config) ->
    {Peer, Port} = open(Config, [{active, 2}, {packet, 1}]),
    whittle_serial_peer:write(Peer, <<1, "a", 1, "b", 1, "c">>),
    [First, Second, Third] = [receive M -> M end || _ <- [1, 2, 3]],
    ?assertEqual([{serial, Port, <<"a">>}, {serial, Port, <<"b">>}, {serial_passive, Port}],
                 [First, Second, Third]),
    ?assertEqual({ok, <<"c">>}, whittle_serial:recv(Port, 0)).

active_added(Config) ->
    {_, Port} = open(Config, [{active, 3}]),
    ok = whittle_serial:setopts(Port, [{active, 4}]),
    ?assertEqual({ok, [{active, 7}]}, whittle_serial:getopts(Port, [active])),
    ?assertEqual({error, einval}, whittle_serial:setopts(Port, [{active, 32767}])),
    ok = whittle_serial:setopts(Port, [{active, -6}]),
    ?assertEqual({ok, [{active, 1}]}, whittle_serial:getopts(Port, [active])),
    ok = whittle_serial:setopts(Port, [{active, -1}]),
    receive Message -> ?assertEqual({serial_passive, Port}, Message) end,
    ?assertEqual({ok, [{active, false}]}, whittle_serial:getopts(Port, [active])).

recv_lengths(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    whittle_serial_peer:write(Peer, <<"abcdef">>),
    ?assertEqual({ok, <<"a">>}, whittle_serial:recv(Port, 1)),
    until(fun() -> info(Port, buffered) =:= 5 end),
    ?assertEqual({ok, <<"bcd">>}, whittle_serial:recv(Port, 3)),
    ?assertEqual({ok, <<"ef">>}, whittle_serial:recv(Port, 0)),
    %% More than is read ahead, all the same.
    whittle_serial_peer:flood(Peer, 200000, 0),
    ?assertEqual({ok, numbered(0, 200000)}, whittle_serial:recv(Port, 200000)),
    ?assertEqual({error, enomem}, whittle_serial:recv(Port, 16#4000001)),
    ok = whittle_serial:setopts(Port, [{active, true}]),
    ?assertEqual({error, einval}, whittle_serial:recv(Port, 0)).

recv_timeout(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    ?assertEqual({error, timeout}, whittle_serial:recv(Port, 0, 0)),
    whittle_serial_peer:write(Peer, <<"ab">>),
    ?assertEqual({error, timeout}, whittle_serial:recv(Port, 3, 10)),
    whittle_serial_peer:write(Peer, <<"c">>),
    ?assertEqual({ok, <<"abc">>}, whittle_serial:recv(Port, 3)).

%% Who waited first is served first; the dead take nothing with them.
recv_in_turn(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    Test = self(),
    Wait = fun(N) ->
                   Pid = spawn(fun() -> Test ! {N, whittle_serial:recv(Port, 1)} end),
                   until(fun() -> info(Port, receivers) =:= N end),
                   Pid
           end,
    [_, Second, _] = [Wait(N) || N <- [1, 2, 3]],
    exit(Second, kill),
    until(fun() -> info(Port, receivers) =:= 2 end),
    whittle_serial_peer:write(Peer, <<"xy">>),
    ?assertEqual([{1, {ok, <<"x">>}}, {3, {ok, <<"y">>}}],
                 lists:sort([receive M -> M end || _ <- [1, 2]])).

frames(Config) ->
    {Peer, Port} = open(Config, [{packet, 4}, {packet_size, 100000}]),
    [begin
         ok = whittle_serial:setopts(Port, [{packet, Head}]),
         Frame = numbered(0, Size),
         Wire = <<Size:Head/unit:8, Frame/binary>>,
         Test = self(),
         spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, Frame)} end),
         ?assertEqual(Wire, whittle_serial_peer:read(Peer, byte_size(Wire))),
         receive {sent, Result} -> ?assertEqual(ok, Result) end,
         whittle_serial_peer:trickle(Peer, Wire),
         ?assertEqual(Frame, received(Port))
     end || {Head, Size} <- [{1, 0}, {1, 255}, {2, 256}, {2, 3000}, {4, 20000}, {4, 1}]],
    ok = whittle_serial:setopts(Port, [{packet, 1}]),
    ?assertEqual({error, emsgsize}, whittle_serial:send(Port, binary:copy(<<0>>, 256))),
    %% A length that cannot be: told, what we have is dropped, and the next is read.
    ok = whittle_serial:setopts(Port, [{packet, 2}, {packet_size, 10}]),
    whittle_serial_peer:write(Peer, <<11:16, "hello world">>),
    receive {serial_error, Port, Reason} -> ?assertEqual(emsgsize, Reason) end,
    whittle_serial_peer:write(Peer, <<2:16, "ok">>),
    ?assertEqual(<<"ok">>, received(Port)),
    ?assertEqual(1, info(Port, dropped)).

lines(Config) ->
    {Peer, Port} = open(Config, [{packet, line}, {packet_size, 8}]),
    whittle_serial_peer:trickle(Peer, <<"one\ntwo\r\n\nlonger than eight\nend">>),
    ?assertEqual([<<"one\n">>, <<"two\r\n">>, <<"\n">>, <<"longer t">>, <<"han eigh">>, <<"t\n">>],
                 [received(Port) || _ <- lists:seq(1, 6)]),
    %% What the mode ends does not end yet is kept over a change of the mode.
    ok = whittle_serial:setopts(Port, [{packet, raw}]),
    ?assertEqual(<<"end">>, received(Port)),
    ok = whittle_serial:send(Port, <<"as it is">>),
    ?assertEqual(<<"as it is">>, whittle_serial_peer:read(Peer, 8)).

modes(Config) ->
    {Peer, Port} = open(Config, [list, {active, once}, {packet, line}]),
    whittle_serial_peer:write(Peer, <<"text\n">>),
    ?assertEqual("text\n", received(Port)),
    whittle_serial_peer:write(Peer, <<"more\n">>),
    ?assertEqual({ok, "more\n"}, whittle_serial:recv(Port, 0)),
    ok = whittle_serial:setopts(Port, [binary, {active, true}]),
    whittle_serial_peer:write(Peer, <<"bytes\n">>),
    ?assertEqual(<<"bytes\n">>, received(Port)).

%% Half a second: no machine is so busy that it splits three bytes.
silence_ends_messages(Config) ->
    {Peer, Port} = open(Config, [{inter_byte_timeout, 500}]),
    whittle_serial_peer:trickle(Peer, <<"abc">>),
    ?assertEqual(<<"abc">>, received(Port)),
    ok = whittle_serial:setopts(Port, [{active, false}]),
    whittle_serial_peer:trickle(Peer, <<"def">>),
    ?assertEqual({ok, <<"def">>}, whittle_serial:recv(Port, 1)),
    %% One that is longer than a message may be does not wait for silence.
    ok = whittle_serial:setopts(Port, [{packet_size, 2}]),
    whittle_serial_peer:trickle(Peer, <<"ghi">>),
    ?assertEqual([{ok, <<"gh">>}, {ok, <<"i">>}], [whittle_serial:recv(Port, 0) || _ <- [1, 2]]),
    ok = whittle_serial:setopts(Port, [{packet, line}, {packet_size, 100}]),
    whittle_serial_peer:write(Peer, <<"whole\npart">>),
    ?assertEqual([{ok, <<"whole\n">>}, {ok, <<"part">>}],
                 [whittle_serial:recv(Port, 0) || _ <- [1, 2]]).

silence_ends_frames(Config) ->
    {Peer, Port} = open(Config, [{packet, 2}, {inter_byte_timeout, 500}]),
    whittle_serial_peer:trickle(Peer, <<3:16, "ab">>),
    receive {serial_error, Port, Reason} -> ?assertEqual(etimedout, Reason) end,
    whittle_serial_peer:trickle(Peer, <<2:16, "cd">>),
    ?assertEqual(<<"cd">>, received(Port)),
    ok = whittle_serial:setopts(Port, [{active, false}]),
    whittle_serial_peer:trickle(Peer, <<9:16, "lost">>),
    ?assertEqual({error, etimedout}, whittle_serial:recv(Port, 0)),
    ?assertEqual(2, info(Port, dropped)).

%%% back pressure

reads_ahead_bounded(Config) ->
    {Peer, Port} = open(Config, [{active, false}, {buffer, 1000}]),
    whittle_serial_peer:flood(Peer, ?MB, 0),
    until(fun() -> info(Port, buffered) >= 1000 andalso info(Port, queued_in) > 0 end),
    ?assert(info(Port, buffered) =< 1000 + 16384),
    ?assertEqual({ok, numbered(0, ?MB)}, whittle_serial:recv(Port, ?MB)),
    ?assertEqual(<<"ok">>, whittle_serial_peer:flooded(Peer)).

%% More than the kernel takes at once: the sender waits, the line does all else meanwhile.
send_waits(Config) ->
    {Peer, Port} = open(Config, []),
    Test = self(),
    spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, numbered(0, ?MB))} end),
    until(fun() -> info(Port, senders) =:= 1 end),
    whittle_serial_peer:write(Peer, <<"meanwhile">>),
    ?assertEqual(<<"meanwhile">>, gather(Port, 9)),
    receive {sent, Early} -> error(Early) after 0 -> ok end,
    ?assertEqual(numbered(0, ?MB), whittle_serial_peer:read(Peer, ?MB)),
    receive {sent, Result} -> ?assertEqual(ok, Result) end.

%% What was not sent is told exactly: together with what was, it is the message.
send_timeout(Config) ->
    {Peer, Port} = open(Config, [{send_timeout, 50}, {packet, 4}]),
    Message = numbered(0, ?MB),
    {error, {timeout, Rest}} = whittle_serial:send(Port, Message),
    Sent = info(Port, written),
    ?assertEqual(4 + ?MB, Sent + byte_size(Rest)),
    %% Who comes after waits as long as it says, once the last gap is filled.
    ok = fill(Port),
    Filled = info(Port, written) - Sent,
    Wire = <<?MB:32, Message/binary>>,
    ?assertEqual(binary:part(Wire, 0, Sent), whittle_serial_peer:read(Peer, Sent)),
    ?assertEqual(binary:part(Wire, Sent, byte_size(Rest)), Rest),
    ?assertEqual(binary:part(binary:copy(<<1:32, "y">>, Filled), 0, Filled),
                 whittle_serial_peer:read(Peer, Filled)),
    ok = whittle_serial:send(Port, <<"z">>, infinity),
    ?assertEqual(<<1:32, "z">>, whittle_serial_peer:read(Peer, 5)),
    %% One whose turn does not come.
    ok = whittle_serial:setopts(Port, [{packet, raw}]),
    Test = self(),
    spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, Message, infinity)} end),
    until(fun() -> info(Port, senders) =:= 1 end),
    ?assertEqual({error, {timeout, <<"late">>}}, whittle_serial:send(Port, "late", 10)),
    ok = whittle_serial:setopts(Port, [{send_timeout, 10}]),
    ?assertEqual({error, {timeout, <<"late">>}}, whittle_serial:send(Port, "late")),
    ?assertEqual(Message, whittle_serial_peer:read(Peer, ?MB)),
    receive {sent, Result} -> ?assertEqual(ok, Result) end.

fill(Port) ->
    case whittle_serial:send(Port, <<"y">>, 0) of
        ok -> fill(Port);
        {error, {timeout, Rest}} -> true = lists:member(Rest, rests(<<1:32, "y">>)), ok
    end.

%% All of the data, or what may be left on the wire.
rests(Wire) -> [<<"y">> | [binary:part(Wire, N, 5 - N) || N <- [1, 2, 3, 4]]].

drains(Config) ->
    {Peer, Port} = open(Config, []),
    ok = whittle_serial:drain(Port),
    Test = self(),
    spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, numbered(0, ?MB))} end),
    until(fun() -> info(Port, senders) =:= 1 end),
    ?assertEqual({error, timeout}, whittle_serial:drain(Port, 10)),
    spawn_link(fun() -> Test ! {drained, whittle_serial:drain(Port)} end),
    until(fun() -> info(Port, senders) =:= 2 end),
    ?assertEqual(numbered(0, ?MB), whittle_serial_peer:read(Peer, ?MB)),
    ?assertEqual([{drained, ok}, {sent, ok}], lists:sort([receive M -> M end || _ <- [1, 2]])).

flushes_input(Config) ->
    {Peer, Port} = open(Config, [{active, false}]),
    whittle_serial_peer:write(Peer, <<"old">>),
    until(fun() -> info(Port, buffered) =:= 3 end),
    ok = whittle_serial:flush(Port, input),
    ?assertEqual(0, info(Port, buffered)),
    whittle_serial_peer:write(Peer, <<"new">>),
    ?assertEqual({ok, <<"new">>}, whittle_serial:recv(Port, 3)).

flushes_output(Config) ->
    {Peer, Port} = open(Config, []),
    Test = self(),
    [begin
         spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, numbered(0, ?MB))} end),
         until(fun() -> info(Port, senders) =:= N end)
     end || N <- [1, 2]],
    ok = whittle_serial:flush(Port, both),
    ?assertEqual([{sent, {error, ecanceled}}, {sent, {error, ecanceled}}],
                 [receive M -> M end || _ <- [1, 2]]),
    ok = whittle_serial:send(Port, <<"after">>),
    %% The master's side of the kernel keeps what it has taken; the rest is gone.
    Kept = until_after(Peer, <<>>),
    ?assertEqual(numbered(0, byte_size(Kept)), Kept).

until_after(Peer, Read) ->
    Size = byte_size(Read) - 5,
    case Read of
        <<Kept:Size/binary, "after">> when Size >= 0 -> Kept;
        _ -> until_after(Peer, <<Read/binary, (whittle_serial_peer:read(Peer, 1))/binary>>)
    end.

%%% owners

gives_away(Config) ->
    {Peer, Port} = open(Config, [{packet, line}]),
    whittle_serial_peer:write(Peer, <<"first\nsecond\n">>),
    ?assertEqual(<<"first\n">>, received(Port)),
    Test = self(),
    New = spawn_link(fun() -> forward(Test) end),
    %% The second is in the mailbox, or comes while it is given away.
    ok = whittle_serial:controlling_process(Port, New),
    whittle_serial_peer:write(Peer, <<"third\n">>),
    ?assertEqual([{New, {serial, Port, <<"second\n">>}}, {New, {serial, Port, <<"third\n">>}}],
                 [receive M -> M end || _ <- [1, 2]]),
    ?assertEqual(New, info(Port, owner)),
    ?assertEqual({error, not_owner}, whittle_serial:controlling_process(Port, self())).

forward(To) -> receive Message -> To ! {self(), Message}, forward(To) end.

%% From hand to hand while bytes come: none lost, doubled or out of order.
gives_away_in_flood(Config) ->
    {Peer, Port} = open(Config, []),
    whittle_serial_peer:flood(Peer, 2 * ?MB, 0),
    Test = self(),
    Players = [spawn_link(fun() -> player(Port, Test) end) || _ <- [1, 2, 3]],
    [Pid ! {players, Players} || Pid <- Players],
    ok = whittle_serial:controlling_process(Port, hd(Players)),
    hd(Players) ! {ball, 0},
    receive {ended, At} -> ?assertEqual(2 * ?MB, At) end,
    ?assertEqual(<<"ok">>, whittle_serial_peer:flooded(Peer)).

player(Port, Test) -> receive {players, Players} -> player(Port, Test, Players) end.

player(Port, Test, Players) ->
    receive
        {ball, At} ->
            case play(Port, At, 5) of
                2097152 -> Test ! {ended, 2 * ?MB};
                At1 ->
                    [_, Next | _] = lists:dropwhile(fun(P) -> P =/= self() end,
                                                    Players ++ Players),
                    ok = whittle_serial:controlling_process(Port, Next),
                    Next ! {ball, At1},
                    player(Port, Test, Players)
            end
    end.

play(_, At, 0) -> At;
play(_, 2 * ?MB, _) -> 2 * ?MB;
play(Port, At, Left) ->
    Data = received(Port),
    true = Data =:= numbered(At, byte_size(Data)),
    play(Port, At + byte_size(Data), Left - 1).

no_owner_no_gift(Config) ->
    {_, Port} = open(Config, []),
    Test = self(),
    spawn_link(fun() -> Test ! whittle_serial:controlling_process(Port, Test) end),
    receive Answer -> ?assertEqual({error, not_owner}, Answer) end,
    ?assertEqual({error, badarg}, whittle_serial:controlling_process(Port, nobody)),
    ok = whittle_serial:controlling_process(Port, self()),
    {ok, _} = whittle_serial:getopts(Port, [rate]).

%%% devices

%% A directory of the form of /sys/class/tty: an adapter of each kind, a port without
%% hardware, a console.
lists_devices(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "sys"),
    _ = file:del_dir_r(Dir),
    Usb = filename:join(Dir, "usb/1-1"),
    File = fun(Path, Text) ->
                   ok = filelib:ensure_dir(filename:join(Dir, Path)),
                   ok = file:write_file(filename:join(Dir, Path), Text)
           end,
    Link = fun(To, Path) ->
                   ok = filelib:ensure_dir(filename:join(Dir, Path)),
                   ok = file:make_symlink(To, filename:join(Dir, Path))
           end,
    [File(filename:join(Usb, Name), Text)
     || {Name, Text} <- [{"idVendor", "0403\n"}, {"idProduct", "6001\n"}, {"serial", "A1\n"},
                         {"product", "FT232R\n"}]],
    File("usb/1-1/1-1:1.0/ttyUSB0/x", ""),
    Link("/drivers/ftdi_sio", "usb/1-1/1-1:1.0/ttyUSB0/driver"),
    Link(filename:join(Usb, "1-1:1.0/ttyUSB0"), "class/ttyUSB0/device"),
    File("usb/1-1/1-1:1.1/x", ""),
    Link("/drivers/cdc_acm", "usb/1-1/1-1:1.1/driver"),
    Link(filename:join(Usb, "1-1:1.1"), "class/ttyACM0/device"),
    [begin
         File("platform/" ++ Name ++ "/x", ""),
         Link("/drivers/serial8250", "platform/" ++ Name ++ "/driver"),
         Link(filename:join(Dir, "platform/" ++ Name), "class/" ++ Name ++ "/device"),
         File("class/" ++ Name ++ "/type", Type)
     end || {Name, Type} <- [{"ttyS0", "4\n"}, {"ttyS1", "0\n"}]],
    File("class/console/active", "ttyS0\n"),
    Adapter = #{vendor_id => "0403", product_id => "6001", serial_number => "A1",
                product => "FT232R"},
    ?assertEqual([Adapter#{name => "ttyACM0", path => "/dev/ttyACM0", driver => "cdc_acm"},
                  #{name => "ttyS0", path => "/dev/ttyS0", driver => "serial8250"},
                  Adapter#{name => "ttyUSB0", path => "/dev/ttyUSB0", driver => "ftdi_sio"}],
                 whittle_serial_device:list(filename:join(Dir, "class"))),
    ?assertEqual([], whittle_serial_device:list(filename:join(Dir, "nothing"))),
    true = is_list(whittle_serial:list()).
