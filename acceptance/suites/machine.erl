%% Emulates an ARM board for tests: qemu's `virt'. It has Debian's kernel and one program as its
%% only file (start/3), or an image that Whittle built (boot/2). `virt' has the same devices with a
%% 64-bit processor, for which there are only images.
%%
%% Its PL061 is gpiochip0. Line 3 of it is a button (press/1); lines/1 reads the levels of the
%% other lines from outside. A 16550 is ttyS0, a socket on the test's side (uart/1). The console is
%% the PL011, ttyAMA0: line/1 returns its output. With an image, the PL011 is the socket uart/1, and
%% the console is hvc0.
-module(machine).

-export([missing/0, kernel/1, initramfs/2]).
-export([start/3, boot/2, boot_unwired/1, line/1, expect/2, say/2, ended/1, stop/1]).
-export([press/1, lines/1, uart/1, hang/1]).

-export_type([machine/0]).

-opaque machine() :: #{port := port(), monitor := gen_tcp:socket(), uart := gen_tcp:socket()}.

%% highmem=off puts the PCI bridge where 32-bit kernels expect it; otherwise Debian's kernel finds
%% no UART.
-define(QEMU, "qemu-system-arm").
-define(BOARD, "virt,highmem=off").
%% 30 times the duration of a boot here (2 s).
-define(PATIENCE_MS, 60_000).

%% The data register of the PL061, with the address bits that select all lines.
-define(PL061_DATA, "0x090303fc").

%% Device nodes. The board has no program that mounts anything, so they must be in the initramfs.
%% The major numbers of ttys are fixed. gpiochip's is the first that the kernel assigns (254,
%% according to /proc/devices of Debian 12).
-define(NODES, [{"console", 5, 1}, {"null", 1, 3}, {"ttyAMA0", 204, 64}, {"ttyS0", 4, 64},
                {"gpiochip0", 254, 0}]).

%% @doc Lists the programs that this machine lacks for the board.
-spec missing() -> [string()].
missing() -> [Name || Name <- [?QEMU], os:find_executable(Name) =:= false].

%% @doc Returns the kernel. apt fetches it into a directory if it is not there yet.
-spec kernel(file:filename()) -> {ok, file:filename()} | {error, binary()}.
kernel(Directory) ->
    Fetch = filename:join([running:root(), "acceptance", "suites", "board", "fetch-kernel"]),
    case running:run(Fetch, [Directory], #{env => keep}) of
        {0, Path} -> {ok, string:trim(binary_to_list(Path))};
        {_, Output} -> {error, Output}
    end.

%% @doc Writes an initramfs (cpio, newc) with a program as /init and device nodes.
-spec initramfs(file:filename(), file:filename()) -> ok.
initramfs(Program, To) ->
    {ok, Bytes} = file:read_file(Program),
    Entries = [{"dev", 8#040755, <<>>, {0, 0}}]
        ++ [{"dev/" ++ Name, 8#020600, <<>>, {Major, Minor}} || {Name, Major, Minor} <- ?NODES]
        ++ [{"init", 8#100755, Bytes, {0, 0}}, {"TRAILER!!!", 0, <<>>, {0, 0}}],
    Numbered = lists:zip(lists:seq(1, length(Entries)), Entries),
    file:write_file(To, [entry(Inode, Entry) || {Inode, Entry} <- Numbered]).

%% Pads the header, the name and the data to multiples of four bytes.
entry(Inode, {Name, Mode, Data, {Major, Minor}}) ->
    Size = length(Name) + 1,
    Fields = [Inode, Mode, 0, 0, 1, 0, byte_size(Data), 0, 0, Major, Minor, Size, 0],
    Head = ["070701", [io_lib:format("~8.16.0b", [F]) || F <- Fields], Name, 0],
    [Head, padding(6 + 8 * length(Fields) + Size), Data, padding(byte_size(Data))].

padding(Size) -> lists:duplicate(-Size band 3, 0).

%% @doc Boots a kernel with an initramfs and additional words on the kernel's command line.
-spec start(file:filename(), file:filename(), string()) -> machine().
start(Kernel, Initramfs, Words) ->
    %% A socket's path must be short.
    Dir = string:trim(os:cmd("mktemp -d /tmp/board.XXXXXX")),
    [Monitor, Uart] = [filename:join(Dir, Name) || Name <- ["monitor", "uart"]],
    Port = open_port({spawn_executable, os:find_executable(?QEMU)},
                     [{args, ["-M", ?BOARD, "-cpu", "cortex-a15", "-m", "128",
                              "-display", "none", "-nic", "none", "-no-reboot",
                              "-kernel", Kernel, "-initrd", Initramfs,
                              "-append", "console=ttyAMA0 quiet panic=-1 " ++ Words,
                              "-serial", "stdio",
                              "-monitor", "unix:" ++ Monitor ++ ",server=on,wait=off",
                              "-chardev", "socket,id=uart,server=on,wait=on,path=" ++ Uart,
                              "-device", "pci-serial,chardev=uart"]},
                      {line, 1000}, exit_status, binary, stderr_to_stdout, hide]),
    {os_pid, Os} = erlang:port_info(Port, os_pid),
    outlived(self(), Port, Os),
    %% qemu first waits for the client of the UART.
    UartSocket = connect(Uart, Port),
    MonitorSocket = connect(Monitor, Port),
    _ = reply(MonitorSocket, <<>>),
    ok = file:del_dir_r(Dir),
    #{port => Port, monitor => MonitorSocket, uart => UartSocket}.

%% @doc Boots an image with `whittle run', with additional options.
-spec boot(file:filename(), [string()]) -> machine().
boot(Image, Options) ->
    booted(fun(Monitor, Uart) ->
                   [filename:join(running:root(), "whittle"), "run", Image, "--monitor", Monitor,
                    "--serial", "unix:" ++ Uart | Options]
           end).

%% @doc Boots an image whose network card has nobody at its other end.
-spec boot_unwired(file:filename()) -> machine().
boot_unwired(Image) ->
    booted(fun(Monitor, Uart) ->
                   {ok, #{words := [Program | Words]}} =
                       whittle_board:emulator(Image, #{monitor => Monitor,
                                                       serial => {unix, Uart}}),
                   true = lists:member("user,id=network", Words),
                   [os:find_executable(Program)
                    | [case Word of
                           "user,id=network" -> "hubport,hubid=0,id=network";
                           _ -> Word
                       end || Word <- Words]]
           end).

booted(Command) ->
    Dir = string:trim(os:cmd("mktemp -d /tmp/board.XXXXXX")),
    [Monitor, Uart] = [filename:join(Dir, Name) || Name <- ["monitor", "uart"]],
    [Program | Words] = Command(Monitor, Uart),
    Port = open_port({spawn_executable, Program},
                     [{args, Words},
                      {line, 1000}, exit_status, binary, stderr_to_stdout, hide]),
    {os_pid, Os} = erlang:port_info(Port, os_pid),
    outlived(self(), Port, Os),
    MonitorSocket = connect(Monitor, Port),
    UartSocket = connect(Uart, Port),
    _ = reply(MonitorSocket, <<>>),
    ok = file:del_dir_r(Dir),
    #{port => Port, monitor => MonitorSocket, uart => UartSocket}.

%% Ends qemu after a killed test, which ends nothing itself. qemu ignores the closed port.
outlived(Test, Port, Os) ->
    spawn(fun() ->
                  monitor(port, Port),
                  monitor(process, Test),
                  receive
                      {'DOWN', _, process, _, _} -> os:cmd("kill " ++ integer_to_list(Os));
                      {'DOWN', _, port, _, _} -> off
                  end
          end).

connect(Path, Port) ->
    case gen_tcp:connect({local, Path}, 0, [local, binary, {active, false}]) of
        {ok, Socket} ->
            Socket;
        {error, _} ->
            %% The lines stay for line/1.
            receive {Port, {exit_status, Status}} -> error({qemu, Status, said(Port)})
            after 20 -> connect(Path, Port)
            end
    end.

said(Port) ->
    receive {Port, {data, {_, Text}}} -> [Text | said(Port)]
    after 0 -> []
    end.

%% @doc Returns the next line on the console, or `ended' if the machine is off.
-spec line(machine()) -> binary() | ended.
line(Machine) -> line(Machine, <<>>).

line(#{port := Port} = Machine, Before) ->
    receive
        {Port, {data, {noeol, Text}}} -> line(Machine, <<Before/binary, Text/binary>>);
        {Port, {data, {eol, Text}}} ->
            string:trim(<<Before/binary, Text/binary>>, trailing, "\r");
        {Port, {exit_status, _}} -> ended
    after ?PATIENCE_MS -> error(silent)
    end.

%% @doc Waits for a line that contains an expression, and skips other lines.
-spec expect(machine(), string()) -> binary().
expect(Machine, Expression) ->
    case line(Machine) of
        ended -> error({ended, Expression});
        Line ->
            case re:run(Line, Expression, [{capture, none}]) of
                match -> Line;
                nomatch -> expect(Machine, Expression)
            end
    end.

%% @doc Types text on the console of a machine that boot/2 started.
-spec say(machine(), iodata()) -> ok.
say(#{port := Port}, Text) ->
    true = port_command(Port, Text),
    ok.

%% @doc Waits until the machine is off.
-spec ended(machine()) -> ok.
ended(Machine) ->
    case line(Machine) of
        ended -> ok;
        _ -> ended(Machine)
    end.

%% @doc Switches the machine off if it still runs.
-spec stop(machine()) -> ok.
stop(#{port := Port} = Machine) ->
    case erlang:port_info(Port) of
        undefined -> ok;
        _ ->
            _ = gen_tcp:send(maps:get(monitor, Machine), "quit\n"),
            ended(Machine)
    end.

%% @doc Presses the button: line 3 goes up, and after 100 ms down again.
-spec press(machine()) -> ok.
press(Machine) ->
    _ = ask(Machine, "system_powerdown"),
    ok.

%% @doc Returns the levels of the PL061's lines; bit 0 is line 0.
-spec lines(machine()) -> 0..255.
lines(Machine) ->
    Answer = ask(Machine, "xp /1wx " ++ ?PL061_DATA),
    {match, [Hex]} = re:run(Answer, "[0-9a-f]+: 0x([0-9a-f]{8})", [{capture, [1], list}]),
    list_to_integer(Hex, 16).

%% @doc Returns the test's end of ttyS0, a passive socket.
-spec uart(machine()) -> gen_tcp:socket().
uart(#{uart := Uart}) -> Uart.

%% @doc Makes the kernel of a 32-bit board hang for ever: its processor repeats one instruction, and
%% takes no interrupt. This goes through the stub for gdb, which a command of the monitor starts. In
%% the stub's list of registers, the program counter is at byte 60 and the state at byte 164.
-spec hang(machine()) -> ok.
hang(Machine) ->
    Port = integer_to_list(running:free_port()),
    _ = ask(Machine, "gdbserver tcp:127.0.0.1:" ++ Port),
    {ok, Stub} = gen_tcp:connect("127.0.0.1", list_to_integer(Port), [binary, {active, false}]),
    %% The stub stops the board, and says so.
    <<"T", _/binary>> = packet(Stub, <<>>),
    Registers = binary:decode_hex(said_by(Stub, "g")),
    <<Before:60/binary, At:32/little, Between:100/binary, State:32/little, Rest/binary>> =
        Registers,
    %% A branch to itself, in the instructions that the state tells: Thumb or ARM.
    Loop = case State band 16#20 of
               0 -> "feffffea";
               _ -> "fee7"
           end,
    <<"OK">> = said_by(Stub, io_lib:format("M~.16b,~.16b:~s", [At, length(Loop) div 2, Loop])),
    Masked = State bor 16#c0,
    <<"OK">> = said_by(Stub, ["G", binary:encode_hex(
                                     <<Before/binary, At:32/little, Between/binary,
                                       Masked:32/little, Rest/binary>>)]),
    %% The board goes on.
    <<"OK">> = said_by(Stub, "D"),
    ok = gen_tcp:close(Stub).

said_by(Stub, Command) ->
    Sum = lists:sum(binary_to_list(iolist_to_binary(Command))) rem 256,
    ok = gen_tcp:send(Stub, [$$, Command, $#, io_lib:format("~2.16.0b", [Sum])]),
    packet(Stub, <<>>).

%% Reads the next packet of the stub, `$TEXT#SUM', and confirms it.
packet(Stub, Before) ->
    case re:run(Before, "\\$([^#]*)#..", [{capture, all_but_first, binary}]) of
        {match, [Text]} ->
            ok = gen_tcp:send(Stub, "+"),
            Text;
        nomatch ->
            {ok, More} = gen_tcp:recv(Stub, 0, ?PATIENCE_MS),
            packet(Stub, <<Before/binary, More/binary>>)
    end.

ask(#{monitor := Monitor}, Words) ->
    ok = gen_tcp:send(Monitor, [Words, "\n"]),
    reply(Monitor, <<>>).

%% Reads the reply up to the next prompt. The echo of the command comes after the first prompt.
reply(Monitor, Before) ->
    {ok, Text} = gen_tcp:recv(Monitor, 0, ?PATIENCE_MS),
    All = <<Before/binary, Text/binary>>,
    case re:run(All, "\n\\(qemu\\) $") of
        nomatch -> reply(Monitor, All);
        _ -> All
    end.
