%% Tests faults of serial lines and of their users.
-module(whittle_serial_fault_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([no_device/1, bad_options/1, busy/1, shared/1, no_modem_lines/1, break_in_turn/1,
         closed_handle/1,
         hang_up_active/1, hang_up_passive/1, hang_up_of_waiting/1, close_of_waiting/1,
         closed_by_many/1, owner_dies/1, server_killed/1,
         server_killed_in_call/1, sent_and_hung_up/1, senders_killed/1, descriptors/1,
         nothing_stuck/1, upgraded/1, any_arguments/1, any_arguments_of_the_server/1,
         any_words/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [no_device, bad_options, busy, shared, no_modem_lines, break_in_turn, closed_handle,
     hang_up_active, hang_up_passive, hang_up_of_waiting, close_of_waiting, closed_by_many,
     owner_dies, server_killed, server_killed_in_call,
     sent_and_hung_up, senders_killed, descriptors, nothing_stuck, upgraded,
     any_arguments, any_arguments_of_the_server, any_words].

init_per_testcase(_, Config) -> [{peer, whittle_serial_peer:start()} | Config].

end_per_testcase(_, Config) -> whittle_serial_peer:stop(peer(Config)).

peer(Config) -> proplists:get_value(peer, Config).
path(Config) -> whittle_serial_peer:path(peer(Config)).

open(Config, Options) ->
    {ok, Port} = whittle_serial:open(path(Config), Options),
    Port.

server({whittle_serial, Pid, _}) -> Pid.
line({whittle_serial, _, Line}) -> Line.

info(Port, Key) ->
    {ok, Info} = whittle_serial:info(Port),
    maps:get(Key, Info).

until(Condition) ->
    case Condition() of
        true -> ok;
        false -> erlang:yield(), until(Condition)
    end.

descriptors() -> {ok, Names} = file:list_dir("/proc/self/fd"), length(Names).

%% Waits until the process has ended.
ended(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%%% opening

no_device(Config) ->
    Before = descriptors(),
    Dir = proplists:get_value(priv_dir, Config),
    [?assertEqual({Device, {error, Reason}}, {Device, whittle_serial:open(Device)})
     || {Device, Reason} <- [{"/dev/no_such_device", enoent}, {<<"no_such_device">>, enoent},
                             {"", enoent}, {"/dev/null/x", enotdir}, {Dir, eisdir},
                             {"/dev/null", enotty}, {"null", enotty},
                             {lists:duplicate(5000, $x), enametoolong},
                             %% This is a file of the kernel that no user can write, not even root.
                             {"/sys/kernel/uevent_seqnum", eacces},
                             {"/dev/a\0b", {bad_option, "/dev/a\0b"}},
                             {device, {bad_option, device}}, {[a], {bad_option, [a]}}]],
    ?assertEqual(Before, descriptors()).

bad_options(Config) ->
    Bad = [{rate, 0}, {rate, -1}, {rate, 16#100000000}, {rate, 9600.0}, {rate, fast}, {bits, 4},
           {bits, 9}, {parity, yes}, {stop_bits, 3}, {flow, both}, {active, 40000},
           {active, sometimes}, {packet, 3}, {packet_size, 0}, {mode, text},
           {inter_byte_timeout, 0}, {exclusive, 1}, {buffer, 0}, {send_timeout, -1},
           {linger, infinity}, {colour, red}, colour, {}],
    [?assertEqual({error, {bad_option, Option}}, whittle_serial:open(path(Config), [Option]))
     || Option <- Bad],
    ?assertEqual({error, {bad_option, x}}, whittle_serial:open(path(Config), x)),
    ?assertEqual("this is not a valid device, option or value: {bits,9}",
                 whittle_serial:format_error({bad_option, {bits, 9}})),
    ?assertEqual("no such file or directory", whittle_serial:format_error({error, enoent})),
    Port = open(Config, []),
    ?assertError(_, whittle_serial:send(Port, [not_a_byte])),
    ?assertError(badarg, whittle_serial:send({whittle_serial, self(), make_ref()}, "x")),
    ?assertError(badarg, whittle_serial:close(port)).

busy(Config) ->
    Port = open(Config, []),
    ?assertEqual({true, true}, whittle_serial_peer:is_taken(peer(Config))),
    %% The other end does not read, so some of these bytes stay in the queue. They are not lost.
    Bytes = whittle_serial_peer:numbered(0, 20000),
    {error, {timeout, Rest}} = whittle_serial:send(Port, Bytes, 0),
    ?assertEqual({error, ebusy}, whittle_serial:open(path(Config))),
    Taken = byte_size(Bytes) - byte_size(Rest),
    ?assertEqual(binary:part(Bytes, 0, Taken), whittle_serial_peer:read(peer(Config), Taken)),
    {ok, [{rate, 9600}]} = whittle_serial:getopts(Port, [rate]),
    ok = whittle_serial:close(Port),
    ?assertEqual({false, false}, whittle_serial_peer:is_taken(peer(Config))),
    {ok, _} = whittle_serial:open(path(Config)).

shared(Config) ->
    First = open(Config, [{exclusive, false}, {active, false}]),
    Second = open(Config, [{exclusive, false}, {active, false}]),
    ok = whittle_serial:close(First),
    ok = whittle_serial:send(Second, "x"),
    ?assertEqual(<<"x">>, whittle_serial_peer:read(peer(Config), 1)).

no_modem_lines(Config) ->
    Port = open(Config, []),
    ?assertEqual({error, enotty}, whittle_serial:modem_lines(Port)),
    ?assertEqual({error, enotty}, whittle_serial:set_modem_lines(Port, #{dtr => true})),
    ?assertEqual({error, {bad_option, {cts, true}}},
                 whittle_serial:set_modem_lines(Port, #{cts => true})),
    {ok, Info} = whittle_serial:info(Port),
    ?assertNot(is_map_key(counters, Info)),
    %% The line works after all these errors.
    ok = whittle_serial:send(Port, "x"),
    ?assertEqual(<<"x">>, whittle_serial_peer:read(peer(Config), 1)).

%% For a break on a pseudo-terminal, some kernels do nothing, and others return enotty. A send
%% during a break waits for its end. A trace of the server shows the order of its replies: results
%% from two processes could arrive here in the other order.
break_in_turn(Config) ->
    Port = open(Config, []),
    1 = erlang:trace(server(Port), true, [send, 'receive']),
    send_in_break(Port),
    1 = erlang:trace(server(Port), false, [all]),
    ?assertEqual(<<"x">>, whittle_serial_peer:read(peer(Config), 1)).

send_in_break(Port) ->
    Breaks = spawn_link(fun() -> whittle_serial:send_break(Port, 200) end),
    Break = receive {trace, _, 'receive', {'$gen_call', {Breaks, Tag}, _}} -> Tag end,
    Sends = spawn_link(fun() -> whittle_serial:send(Port, "x") end),
    receive
        {trace, _, 'receive', {'$gen_call', {Sends, Send}, _}} ->
            ?assertEqual({Break, ok}, reply([Break, Send])),
            ?assertEqual({Send, ok}, reply([Break, Send]));
        {trace, _, send, {Break, Result}, _} ->
            %% There was no break, or it ended before the send, which then went out at once.
            ?assert(lists:member(Result, [ok, {error, enotty}])),
            ended(Sends)
    end.

%% Waits for the next reply of a traced server to one of the calls.
reply(Tags) ->
    receive
        {trace, _, send, {Tag, Reply}, _} ->
            case lists:member(Tag, Tags) of
                true -> {Tag, Reply};
                false -> reply(Tags)
            end
    end.

%%% the end

closed_handle(Config) ->
    Port = open(Config, []),
    ok = whittle_serial:close(Port),
    closed(Port),
    ok = whittle_serial:close(Port).

closed(Port) ->
    [?assertEqual({error, closed}, Result)
     || Result <- [whittle_serial:send(Port, "x"), whittle_serial:send(Port, "x", 0),
                   whittle_serial:recv(Port, 0), whittle_serial:recv(Port, 1, 0),
                   whittle_serial:drain(Port), whittle_serial:flush(Port, both),
                   whittle_serial:setopts(Port, [{rate, 50}]),
                   whittle_serial:getopts(Port, [rate]), whittle_serial:send_break(Port, 1),
                   whittle_serial:modem_lines(Port), whittle_serial:set_modem_lines(Port, #{}),
                   whittle_serial:info(Port),
                   whittle_serial:controlling_process(Port, self())]].

%% The owner first gets the bytes that came before the end.
hang_up_active(Config) ->
    Before = descriptors(),
    Port = open(Config, [{active, 1}, {packet, 1}]),
    whittle_serial_peer:write(peer(Config), <<1, "a", 1, "b", 5, "part">>),
    receive {serial, Port, <<"a">>} -> ok end,
    receive {serial_passive, Port} -> ok end,
    until(fun() -> info(Port, buffered) =:= 7 end),
    whittle_serial_peer:hang_up(peer(Config)),
    %% The descriptor is closed, even if no process asks for the remaining bytes.
    until(fun() -> descriptors() =:= Before end),
    ok = whittle_serial:setopts(Port, [{active, true}]),
    ?assertEqual([{serial, Port, <<"b">>}, {serial_error, Port, etimedout}, {serial_closed, Port}],
                 [receive M -> M end || _ <- [1, 2, 3]]),
    ended(server(Port)),
    closed(Port).

hang_up_passive(Config) ->
    Port = open(Config, [{active, false}]),
    whittle_serial_peer:write(peer(Config), <<"rest">>),
    until(fun() -> info(Port, buffered) =:= 4 end),
    whittle_serial_peer:hang_up(peer(Config)),
    ?assertEqual({ok, <<"re">>}, whittle_serial:recv(Port, 2)),
    until(fun() -> whittle_serial:send(Port, "x") =:= {error, closed} end),
    ?assertEqual({ok, <<"st">>}, whittle_serial:recv(Port, 2)),
    ?assertEqual({error, closed}, whittle_serial:recv(Port, 2)),
    ?assertEqual({error, closed}, whittle_serial:setopts(Port, [{rate, 50}])),
    ok = whittle_serial:close(Port),
    ended(server(Port)).

%% A recv, two sends and a drain wait. The drain comes last, because it waits only for sends that
%% came before it.
waiting(Port) ->
    Test = self(),
    Big = binary:copy(<<"x">>, 1000000),
    Start = fun(Name, Job) -> spawn_link(fun() -> Test ! {Name, Job()} end) end,
    _ = Start(recv, fun() -> whittle_serial:recv(Port, 1) end),
    [Start(send, fun() -> whittle_serial:send(Port, Big) end) || _ <- [1, 2]],
    until(fun() -> info(Port, senders) =:= 2 andalso info(Port, receivers) =:= 1 end),
    _ = Start(drain, fun() -> whittle_serial:drain(Port) end),
    until(fun() -> info(Port, senders) =:= 3 end).

all_closed() ->
    ?assertEqual([{drain, {error, closed}}, {recv, {error, closed}}, {send, {error, closed}},
                  {send, {error, closed}}],
                 lists:sort([receive M -> M end || _ <- [1, 2, 3, 4]])).

hang_up_of_waiting(Config) ->
    Port = open(Config, [{active, false}]),
    waiting(Port),
    whittle_serial_peer:hang_up(peer(Config)),
    all_closed().

close_of_waiting(Config) ->
    Port = open(Config, [{active, false}]),
    waiting(Port),
    ok = whittle_serial:close(Port),
    all_closed(),
    closed(Port).

%% Several processes close at once, and all calls return. (A pseudo-terminal queues nothing for
%% which a close could wait; board_SUITE has a UART that does.)
closed_by_many(Config) ->
    Port = open(Config, [{linger, 0}]),
    Test = self(),
    [spawn_link(fun() -> Test ! whittle_serial:close(Port) end) || _ <- [1, 2, 3]],
    ?assertEqual([ok, ok, ok], [receive M -> M end || _ <- [1, 2, 3]]),
    ended(server(Port)).

owner_dies(Config) ->
    Before = descriptors(),
    Test = self(),
    {Owner, Ref} = spawn_monitor(fun() ->
                                         Test ! open(Config, []),
                                         receive die -> exit(asked_to) end
                                 end),
    Port = receive Opened -> Opened end,
    Owner ! die,
    receive {'DOWN', Ref, process, _, _} -> ok end,
    ended(server(Port)),
    closed(Port),
    ?assertEqual(Before, descriptors()).

%% Users should not kill this process. If they do, the VM closes the descriptor, and senders do not
%% wait forever.
server_killed(Config) ->
    Before = descriptors(),
    Port = open(Config, [{active, false}]),
    waiting(Port),
    exit(server(Port), kill),
    all_closed(),
    until(fun() -> descriptors() =:= Before end),
    closed(Port),
    {ok, _} = whittle_serial:open(path(Config)).

%% Something kills the server during a call in which its driver sleeps. The descriptor closes when
%% that call ends, and only once. The test compiles the library with an ioctl that waits at a gate.
server_killed_in_call(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Gate = filename:join(Dir, "gate"),
    Test = filename:dirname(proplists:get_value(source, ?MODULE:module_info(compile))),
    Include = filename:join([code:root_dir(), "usr", "include"]),
    "" = os:cmd(lists:join(" ", ["rm -f", Gate, "&& mkfifo", Gate, "&&", os:getenv("CC", "cc"),
                                 os:getenv("CFLAGS", ""), "-std=gnu11 -fPIC -shared -I" ++ Include,
                                 "-include", filename:join(Test, "whittle_serial_gate.h"),
                                 "'-DGATE=\"" ++ Gate ++ "\"'",
                                 "-o", filename:join(Dir, "whittle_serial_nif.so"),
                                 filename:join(Test, "../c_src/whittle_serial.c")])),
    try
        ok = loaded_from(Dir),
        killed_at(Gate, open(Config, []), path(Config))
    after
        ok = application:unset_env(whittle_io, nif_dir),
        ok = reloaded()
    end.

loaded_from(Dir) ->
    ok = application:set_env(whittle_io, nif_dir, Dir),
    reloaded().

reloaded() ->
    {module, _} = code:load_file(whittle_serial_nif),
    _ = code:purge(whittle_serial_nif),
    ok.

killed_at(Gate, Port, Path) ->
    Server = server(Port),
    ?assertEqual(1, open_at(Path)),
    spawn(fun() -> whittle_serial:modem_lines(Port) end),
    %% The gate opens only after the call has come to it.
    Keeper = open_port({spawn, "sh -c 'exec 3>" ++ Gate ++ "; echo in; read x; echo go >&3'"},
                       [{line, 10}]),
    receive {Keeper, {data, {eol, "in"}}} -> ok end,
    exit(Server, kill),
    ended(Server),
    ?assertEqual({error, closed}, whittle_serial:send(Port, "x")),
    ?assertEqual(1, open_at(Path)),
    true = port_command(Keeper, "\n"),
    until(fun() -> open_at(Path) =:= 0 end).

%% Counts how often this VM has a device open.
open_at(Path) ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    length([Name || Name <- Names,
                    {ok, To} <- [file:read_link("/proc/self/fd/" ++ Name)],
                    unicode:characters_to_binary(To) =:= Path]).

%% Bytes that the kernel has taken count as sent, even if the line hung up before the sender asked.
sent_and_hung_up(Config) ->
    Port = open(Config, [{active, false}]),
    Peer = peer(Config),
    Bytes = binary:copy(<<"y">>, 30000),
    Tag = {self(), make_ref()},
    wait = whittle_serial_nif:send(line(Port), Bytes, Tag),
    Bytes = whittle_serial_peer:read(Peer, byte_size(Bytes)),
    whittle_serial_peer:hang_up(Peer),
    ?assertEqual({error, closed}, whittle_serial:recv(Port, 1)),
    ?assertEqual(ok, gen_server:call(server(Port), {sent, Tag, infinity})).

%% The test kills a sender at any point of a send. Each message is complete, or nothing of it was
%% sent.
senders_killed(Config) ->
    Port = open(Config, [{packet, 4}]),
    Peer = peer(Config),
    Test = self(),
    Message = fun(N) -> <<N:32, (binary:copy(<<N>>, 50000))/binary>> end,
    [begin
         Pid = spawn(fun() ->
                             Test ! {go, self()},
                             whittle_serial:send(Port, Message(N)),
                             whittle_serial:send(Port, Message(N))
                     end),
         receive {go, Pid} -> ok end,
         [erlang:yield() || _ <- lists:seq(1, N rem 7)],
         exit(Pid, kill),
         ended(Pid)
     end || N <- lists:seq(1, 40)],
    %% The server knows all of them, so the end comes after them.
    _ = info(Port, senders),
    spawn_link(fun() -> ok = whittle_serial:send(Port, <<"the end">>) end),
    read_whole(Peer, Message),
    until(fun() -> info(Port, senders) =:= 0 end).

read_whole(Peer, Message) ->
    <<Size:32>> = whittle_serial_peer:read(Peer, 4),
    case whittle_serial_peer:read(Peer, Size) of
        <<"the end">> -> ok;
        <<N:32, _/binary>> = Got ->
            true = Got =:= Message(N),
            read_whole(Peer, Message)
    end.

%% Tests every way in which a line can end.
descriptors(Config) ->
    Before = descriptors(),
    Ways = [fun(Port) -> ok = whittle_serial:close(Port) end,
            fun(Port) -> exit(server(Port), kill) end,
            fun(Port) ->
                    Refused = whittle_serial:setopts(Port, [{bits, 7}]),
                    ?assertEqual({error, einval}, Refused),
                    exit(server(Port), shutdown)
            end,
            fun(Port) ->
                    ok = whittle_serial:controlling_process(Port, spawn(fun() -> ok end))
            end,
            fun(_) -> {error, ebusy} = whittle_serial:open(path(Config)), exit(normal) end,
            fun(Port) ->
                    whittle_serial:send(Port, binary:copy(<<0>>, 200000), 0),
                    exit(normal)
            end],
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> Way(eventually(Config)) end),
         receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual(normal, Reason) end
     end || _ <- lists:seq(1, 500), Way <- Ways],
    until(fun() -> descriptors() =:= Before end).

%% The line before may not be closed yet.
eventually(Config) ->
    case whittle_serial:open(path(Config)) of
        {ok, Port} -> Port;
        {error, ebusy} -> eventually(Config)
    end.

%% If a scheduler waited for a device, the VM would report it, and no other process would run
%% there. The bound allows for a busy machine; bench/serial has a closer one.
nothing_stuck(Config) ->
    Port = open(Config, [{packet, 4}]),
    _ = erlang:system_monitor(self(), [{long_schedule, 1000}]),
    waiting(Port, 20),
    whittle_serial_peer:flood(peer(Config), 4000000, 0),
    Frames = fun Frames(0) -> ok; Frames(N) -> receive {serial_error, Port, _} -> Frames(N - 1);
                                                       {serial, Port, _} -> Frames(N - 1) end end,
    Frames(10),
    ok = whittle_serial:flush(Port, both),
    ok = whittle_serial:close(Port),
    _ = erlang:system_monitor(undefined),
    receive {monitor, Who, long_schedule, What} -> error({Who, What}) after 0 -> ok end.

waiting(Port, Count) ->
    Big = binary:copy(<<"x">>, 1000000),
    [spawn(fun() -> whittle_serial:send(Port, Big) end) || _ <- lists:seq(1, Count)],
    until(fun() -> info(Port, senders) =:= Count end).

%%% the library

%% The VM loads new code during a send on an open line, and purges the old code.
upgraded(Config) ->
    Port = open(Config, [{active, false}]),
    Peer = peer(Config),
    Test = self(),
    Big = binary:copy(<<"upgrade ">>, 100000),
    [begin
         spawn_link(fun() -> Test ! {sent, whittle_serial:send(Port, Big)} end),
         until(fun() -> info(Port, senders) =:= 1 end),
         [{module, M} = code:load_file(M) || M <- [whittle_serial, whittle_serial_nif,
                                                   whittle_serial_port, whittle_serial_packet]],
         whittle_serial_peer:write(Peer, <<"in">>),
         ?assertEqual({ok, <<"in">>}, whittle_serial:recv(Port, 2)),
         ?assertEqual(Big, whittle_serial_peer:read(Peer, byte_size(Big))),
         receive {sent, Result} -> ?assertEqual(ok, Result) end,
         [?assertEqual(true, code:soft_purge(M))
         || M <- [whittle_serial, whittle_serial_nif, whittle_serial_port,
                  whittle_serial_packet]]
     end || _ <- [1, 2, 3]],
    ok = whittle_serial:close(Port).

%%% any arguments

nifs() ->
    whittle_serial_nif:module_info(nifs).

argument(Lines) ->
    oneof([oneof(Lines), oneof(Lines), binary(), boolean(), all, range(-1, 5), integer(),
           oneof([1 bsl 31, 1 bsl 32, 1 bsl 64, -1 bsl 63]), make_ref(), [], {}, tuple(),
           {range(0, 20000), range(4, 9), range(-1, 5), range(0, 3), range(-1, 3)},
           <<1:3>>, binary:copy(<<0>>, 100000), list(binary()), {self(), make_ref()}]).

any_arguments(Config) ->
    Port = open(Config, [{active, false}]),
    Other = whittle_serial_peer:start(),
    {ok, Gone} = whittle_serial:open(whittle_serial_peer:path(Other)),
    ok = whittle_serial:close(Gone),
    any_call([line(Port), line(Gone)]),
    %% This process is not the owner, so it could only send, and nobody reads that.
    ok = whittle_serial:flush(Port, output),
    whittle_serial_peer:write(peer(Config), <<"alive">>),
    ?assertEqual({ok, <<"alive">>}, whittle_serial:recv(Port, 5)),
    whittle_serial_peer:stop(Other).

any_arguments_of_the_server(Config) ->
    Before = descriptors(),
    {ok, Line} = whittle_serial_nif:open(path(Config), true),
    any_call([Line]),
    _ = whittle_serial_nif:stop(Line),
    ok = whittle_serial_nif:close(Line),
    flush_mailbox(),
    until(fun() -> erlang:garbage_collect(), descriptors() =:= Before end).

flush_mailbox() -> receive _ -> flush_mailbox() after 0 -> ok end.

any_call(Lines) ->
    ?assertEqual(true, proper:quickcheck(
        ?FORALL({Name, Arity}, oneof(nifs()),
                ?FORALL(Arguments, vector(Arity, argument(Lines)),
                        begin
                            try apply(whittle_serial_nif, Name, Arguments)
                            catch error:badarg -> ok
                            end,
                            true
                        end)), [quiet, long_result, {numtests, 5000}])).

%% Calls the functions of the interface with any arguments: each answers or raises, and the line
%% lives.
any_words(Config) ->
    Port = open(Config, [{active, false}]),
    Server = server(Port),
    Words = [{open, 2}, {setopts, 2}, {getopts, 2}, {flush, 2}, {set_modem_lines, 2},
             {controlling_process, 2}, {send_break, 2}, {recv, 3}, {drain, 2}, {send, 3},
             {info, 1}, {modem_lines, 1}],
    Any = oneof([0, 1, 5, -1, 1 bsl 70, [], #{}, all, both, {x, y}, <<"x">>, "x", 1.5, make_ref(),
                 [{rate, 300}], #{rate => 0}, [{active, 3}, {active, false}], [rate, x]]),
    ?assertEqual(true, proper:quickcheck(
        ?FORALL({{Name, Arity}, Rest}, {oneof(Words), vector(2, Any)},
                begin
                    try apply(whittle_serial, Name, lists:sublist([Port | Rest], Arity))
                    catch error:_ -> ok
                    end,
                    is_process_alive(Server)
                end), [quiet, long_result, {numtests, 2000}])),
    ok = whittle_serial:close(Port).
