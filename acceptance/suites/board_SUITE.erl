%% Tests whittle_gpio and whittle_serial with the drivers of a real kernel. An emulated board has
%% only Debian's kernel and one executable, which is fixtures/board for ARMv7.
-module(board_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([lines_and_uart/1, taken_by_the_kernel/1]).

all() -> [lines_and_uart, taken_by_the_kernel].

init_per_suite(Config) ->
    case machine:missing() of
        [] -> built(Config);
        Missing -> {skip, "no " ++ string:join(Missing, ", ") ++ ": tools/setup board"}
    end.

built(Config) ->
    Dir = running:directory("board", Config),
    {ok, Kernel} = machine:kernel(filename:join([running:root(), "_build", "board"])),
    %% make has compiled the drivers there.
    Before = os:getenv("ERL_LIBS", ""),
    true = os:putenv("ERL_LIBS", filename:join(running:root(), "_build/default/lib")),
    Program = try running:build(running:fixture("board"), filename:join(Dir, "board"),
                                ["--target", "armv7"])
              after
                  os:putenv("ERL_LIBS", Before)
              end,
    Initramfs = filename:join(Dir, "initramfs"),
    ok = machine:initramfs(Program, Initramfs),
    [{kernel, Kernel}, {initramfs, Initramfs} | Config].

end_per_suite(_Config) -> ok.

%% The test omits the kernel's own user of the button, so that the line is free.
lines_and_uart(Config) ->
    Machine = start(Config, "initcall_blacklist=gpio_keys_init"),
    try
        <<"up arm", _/binary>> = said(Machine),
        ?assertEqual(<<"chip gpiochip0 9030000.pl061 8 [<<\"/dev/gpiochip0\">>]">>, said(Machine)),
        ?assertEqual(<<"errors [{error,enoent},{error,enotty},{error,einval},{error,enxio}]">>,
                     said(Machine)),
        ?assertEqual(<<"taken {error,ebusy}">>, said(Machine)),
        [begin
             ?assertEqual(iolist_to_binary(io_lib:format("lines ~b", [Bits])), said(Machine)),
             %% The register shows these levels, and no other line changes.
             ?assertEqual(Bits, machine:lines(Machine)),
             press(Machine, 2 * N - 1)
         end || {N, Bits} <- [{1, 4}, {2, 0}, {3, 5}, {4, 2}, {5, 7}]],
        ?assertEqual(<<"watched [requested,configured,released]">>, said(Machine)),
        ?assertEqual(<<"often">>, said(Machine)),
        ?assertEqual(<<"debounced">>, said(Machine)),
        press(Machine, 11),
        ?assertEqual(<<"stats [{delivered,12},{held_up,0},{lost,0}]">>, said(Machine)),
        uart(Machine),
        press(Machine, 13),
        lingers(Machine),
        ?assertEqual(<<"done">>, said(Machine)),
        machine:ended(Machine)
    after
        machine:stop(Machine)
    end.

press(Machine, First) ->
    machine:press(Machine),
    {match, [F, S, Ms]} = re:run(said(Machine), "^pressed ([0-9]+) ([0-9]+) ([0-9]+) ms$",
                                 [{capture, all_but_first, list}]),
    ?assertEqual({First, First + 1}, {list_to_integer(F), list_to_integer(S)}),
    %% qemu holds the button down for 100 ms of the board's time.
    ?assert(list_to_integer(Ms) >= 50).

%% The inputs of the UART are up while a client is at the other end.
uart(Machine) ->
    ?assertEqual(<<"wires [cd,cts,dsr,dtr,rts]">>, said(Machine)),
    ?assertEqual(<<"serial">>, said(Machine)),
    Bytes = rand:bytes(50_000),
    Socket = machine:uart(Machine),
    ok = gen_tcp:send(Socket, [<<(byte_size(Bytes)):32>>, Bytes]),
    {ok, <<Crc:32, Back/binary>>} = gen_tcp:recv(Socket, 4 + byte_size(Bytes), 60_000),
    ?assertEqual(erlang:crc32(Bytes), Crc),
    ?assert(Bytes =:= Back),
    ?assertEqual(<<"exchanged 50000">>, said(Machine)).

%% XOFF stops the board's output. After its close has waited, the kernel discards all of it,
%% except the bytes in the hardware, which are fewer than the 16 bytes of its FIFO.
lingers(Machine) ->
    ?assertEqual(<<"holding">>, said(Machine)),
    Socket = machine:uart(Machine),
    ok = gen_tcp:send(Socket, [19, <<"held">>]),
    ?assertEqual(<<"lingered {true,true}">>, said(Machine)),
    ?assertEqual(<<"free">>, last_word(Socket, 0)).

last_word(Socket, Zeros) when Zeros < 16 ->
    case gen_tcp:recv(Socket, 1, 60_000) of
        {ok, <<0>>} -> last_word(Socket, Zeros + 1);
        {ok, First} ->
            {ok, Rest} = gen_tcp:recv(Socket, 3, 60_000),
            <<First/binary, Rest/binary>>
    end.

%% The kernel holds the line if it has a user of its own.
taken_by_the_kernel(Config) ->
    Machine = start(Config, ""),
    try
        <<"up arm", _/binary>> = said(Machine),
        <<"chip ", _/binary>> = said(Machine),
        <<"errors ", _/binary>> = said(Machine),
        ?assertEqual(<<"button {error,ebusy} GPIO Key Poweroff">>, said(Machine))
    after
        machine:stop(Machine)
    end.

start(Config, Words) ->
    machine:start(proplists:get_value(kernel, Config), proplists:get_value(initramfs, Config),
                  Words).

%% Returns the program's next line and skips the kernel's messages.
said(Machine) ->
    case machine:line(Machine) of
        <<"board: ", Text/binary>> -> Text;
        ended -> error(ended);
        _ -> said(Machine)
    end.
