%% @doc Opens, reads and writes serial lines, as gen_tcp does with sockets.
%%
%% ```
%% {ok, Port} = whittle_serial:open("/dev/ttyUSB0", [{rate, 115200}, {packet, line}]),
%% ok = whittle_serial:send(Port, <<"hello\n">>),
%% receive {serial, Port, Line} -> Line end.
%% '''
%%
%% One Erlang process for each open line (whittle_serial_port) reads and delivers. The library
%% adds no thread and no program of the system, because the VM's own poll waits (enif_select). A
%% send runs in the sending process.
%%
%% The process that opens a line is the owner. It gets the input as messages, by the option
%% `active':
%%
%% <ul>
%% <li>`{serial, Port, Data}'</li>
%% <li>`{serial_passive, Port}': the count of `{active, N}' is used up;</li>
%% <li>`{serial_error, Port, Posix}': the input was not a frame, or the read failed. `emsgsize'
%%     means that the frame was longer than `packet_size'. `etimedout' means that the frame stopped
%%     in its middle. The message counts for `once' and for `{active, N}' as any other;</li>
%% <li>`{serial_closed, Port}': the line hung up, for example because the adapter was unplugged. The
%%     descriptor is closed by then, and calls give `{error, closed}'.</li>
%% </ul>
%%
%% When the owner ends, the line closes. In `{active, false}' the process reads ahead, up to
%% `buffer' bytes. Then the kernel's queue fills, and flow control, if any, stops the other side.
%% Input without room in a queue is lost, and {@link info/1} counts it as `overrun'.
%%
%% Errors are `{error, Posix}' with the names of open(2) and the kernel:
%% <ul>
%% <li>`enoent': there is no such device;</li>
%% <li>`eacces': access is denied;</li>
%% <li>`ebusy': the device is `exclusive', or another program has marked it as taken;</li>
%% <li>`enotty': the device is not a terminal, or has no modem lines or break;</li>
%% <li>`einval': the kernel or the driver refused a rate, a frame or a flow control. The library
%%     reads the settings back to check this;</li>
%% <li>`closed': the line is closed.</li>
%% </ul>
%% An invalid option gives `{error, {bad_option, Option}}'. A value that is not a line raises
%% `badarg'.
-module(whittle_serial).

%% The life of a line.
-export([open/1, open/2, close/1, controlling_process/2, list/0]).
%% Bytes.
-export([send/2, send/3, recv/2, recv/3, drain/1, drain/2, flush/2]).
%% Settings and wires.
-export([setopts/2, getopts/2, send_break/2, modem_lines/1, set_modem_lines/2, info/1,
         format_error/1]).
%% The longest time to wait, in milliseconds. It is the limit of `receive', about 50 days.
-define(LONGEST, 16#ffffffff).

-export_type([serial/0, device/0, option/0, option_name/0, error/0, line/0, tag/0,
              modem_line/0, info/0]).

%% A line equals only itself. open makes it, and it is valid until close.
-opaque serial() :: {whittle_serial, pid(), line()}.
%% The name of a line for the NIFs.
-type line() :: reference().
%% The name of a send for the NIFs.
-type tag() :: {pid(), reference()}.
%% A path, or a name in /dev. A binary is UTF-8.
-type device() :: string() | binary().

-type option() ::
        %% Bits per second, any rate that the kernel takes. Default: 9600.
        {rate, pos_integer()}
        %% Default: 8.
      | {bits, 5..8}
      | {parity, none | odd | even | mark | space}
      | {stop_bits, 1 | 2}
        %% RTS/CTS or XON/XOFF. Default: `none'.
      | {flow, none | hardware | software}
        %% As in gen_tcp. Default: `true'.
      | {active, true | once | false | -32768..32767}
        %% The form of a message: the arrived bytes (`raw'), a line with its end, or a frame after
        %% its length in 1, 2 or 4 bytes, most significant first. send adds the length.
      | {packet, raw | line | 1 | 2 | 4}
        %% The longest frame or line in bytes. A longer line comes in pieces. Default: 65536.
      | {packet_size, pos_integer()}
        %% Default: `binary'.
      | {mode, binary | list}
        %% Milliseconds. In raw and line, this time of silence ends a message. A frame that stops
        %% in its middle is dropped. The precision depends on how fast the VM wakes up.
      | {inter_byte_timeout, pos_integer() | infinity}
        %% Excludes other programs from opening the device (TIOCEXCL, and flock). Programs of root
        %% that do not lock the device still can open it. An open with `true' respects the lock of
        %% any user. Default: `true'. Only open takes this option.
      | {exclusive, boolean()}
        %% Bytes to read ahead in passive mode. Default: 16384.
      | {buffer, pos_integer()}
        %% Milliseconds that send/2 waits until the kernel has taken all bytes. Default:
        %% `infinity'.
      | {send_timeout, timeout()}
        %% Milliseconds that close waits for sent bytes to leave. Then it discards them. Default:
        %% 5000.
      | {linger, non_neg_integer()}.
-type option_name() :: rate | bits | parity | stop_bits | flow | active | packet
                     | packet_size | mode | inter_byte_timeout | exclusive | buffer
                     | send_timeout | linger.
-type error() :: {error, closed | inet:posix() | {bad_option, term()}}.
-type modem_line() :: dtr | rts | cts | dsr | ri | cd.

-type info() :: #{
        %% The device's path, and the owner.
        device := file:filename_all(), owner := pid(),
        %% Bytes read and written since open.
        read := non_neg_integer(), written := non_neg_integer(),
        %% Bytes in the kernel's queues, and bytes that were read but not delivered yet.
        queued_in := non_neg_integer(), queued_out := non_neg_integer(),
        buffered := non_neg_integer(),
        %% The waiting sends (with drains and breaks), and the waiting recvs.
        senders := non_neg_integer(), receivers := non_neg_integer(),
        %% Frames dropped (emsgsize, etimedout).
        dropped := non_neg_integer(),
        %% The driver's counts since the start of the machine, if it counts.
        counters => #{cts | dsr | ri | cd | rx | tx | frame | overrun | parity | break |
                      buffer_overrun => non_neg_integer()}}.

%% @doc Opens a device with the default options.
-spec open(device()) -> {ok, serial()} | error().
open(Device) -> open(Device, []).

%% @doc Opens a device. The caller becomes the owner. The function sets the device to raw bytes
%% and to the options. The device ignores modem control (CLOCAL), and a break is not a byte. The
%% function discards earlier input.
-spec open(device(), [option()] | #{option_name() => term()}) -> {ok, serial()} | error().
open(Device, Options) ->
    case {whittle_serial_device:path(Device), whittle_serial_option:parse(Options)} of
        {{ok, Path}, {ok, Parsed}} -> whittle_serial_port:start(self(), Path, Parsed);
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error
    end.

%% @doc Closes a line. The function returns when the device is free. Sent bytes have `linger'
%% milliseconds to leave. Waiting sends and recvs get `{error, closed}'. Any process may close.
-spec close(serial()) -> ok.
close(Port) ->
    _ = call(Port, close),
    ok.

%% @doc Makes another process the owner. Only the owner can do so. Messages that the old owner has
%% not received go to the new one first, in order. Errors: `{error, not_owner}', `{error,
%% closed}'.
-spec controlling_process(serial(), pid()) -> ok | {error, not_owner | closed | badarg}.
controlling_process({whittle_serial, _, _} = Port, New)
  when is_pid(New), node(New) =:= node() ->
    case call(Port, hold) of
        ok ->
            _ = New =:= self() orelse forward(Port, New),
            call(Port, {give, New});
        Error -> Error
    end;
controlling_process({whittle_serial, _, _}, _) -> {error, badarg}.

forward(Port, New) ->
    receive
        {serial, Port, _} = Message -> New ! Message, forward(Port, New);
        {serial_passive, Port} = Message -> New ! Message, forward(Port, New);
        {serial_error, Port, _} = Message -> New ! Message, forward(Port, New);
        {serial_closed, Port} = Message -> New ! Message, forward(Port, New)
    after 0 -> ok
    end.

%% @doc Lists the machine's serial devices that have a driver, by name. Each has the kernel's
%% information: `driver', and for USB `vendor_id', `product_id', `manufacturer', `product',
%% `serial_number'.
-spec list() -> [whittle_serial_device:found()].
list() -> whittle_serial_device:list().

%% @doc Sends with `send_timeout'. See send/3.
-spec send(serial(), iodata()) -> ok | error() | {error, {timeout, binary()} | ecanceled}.
send(Port, Data) -> send(Port, Data, default).

%% @doc Sends data. The function returns when the kernel has all of it. Data goes out in the order
%% of the calls, and no data interrupts other data. `{error, {timeout, Rest}}' comes after Timeout
%% milliseconds. Rest was not sent, and will not be. It is all of Data, or the unsent part of it
%% (with `{packet, N}' it may begin within the length). `{error, emsgsize}' means that Data is too
%% long for the packet's length. `{error, ecanceled}' means that flush/2 discarded it.
-spec send(serial(), iodata(), timeout() | default) ->
          ok | error() | {error, {timeout, binary()} | ecanceled}.
send({whittle_serial, _, Line} = Port, Data, Timeout)
  when Timeout =:= default; Timeout =:= infinity;
       is_integer(Timeout), Timeout >= 0, Timeout =< ?LONGEST ->
    Bytes = iolist_to_binary(Data),
    Tag = {self(), make_ref()},
    case whittle_serial_nif:send(Line, Bytes, Tag) of
        wait -> call(Port, {sent, Tag, Timeout});
        busy -> call(Port, {send, Tag, Bytes, Timeout});
        Done -> Done
    end.

%% @doc Receives data without a time limit. See recv/3.
-spec recv(serial(), non_neg_integer()) -> {ok, binary() | string()} | error().
recv(Port, Length) -> recv(Port, Length, infinity).

%% @doc Receives data in passive mode (`{error, einval}' in another). The result has Length bytes.
%% For 0 it has the available bytes, at least one. With another `packet' than raw, and with an
%% `inter_byte_timeout', it is one message, for any Length. `{error, timeout}' comes after Timeout
%% milliseconds, and no data is lost. Waiting processes get data in turn. Length is 64 MB at most
%% (`enomem').
-spec recv(serial(), non_neg_integer(), timeout()) ->
          {ok, binary() | string()} | error() | {error, timeout}.
recv(Port, Length, Timeout)
  when is_integer(Length), Length >= 0,
       (Timeout =:= infinity orelse (is_integer(Timeout) andalso Timeout >= 0
                                    andalso Timeout =< ?LONGEST)) ->
    call(Port, {recv, Length, Timeout}).

%% @doc Waits without a time limit. See drain/2.
-spec drain(serial()) -> ok | error().
drain(Port) -> drain(Port, infinity).

%% @doc Waits until all bytes are on the wire, as tcdrain(3) does. Error: `{error, timeout}'.
-spec drain(serial(), timeout()) -> ok | error() | {error, timeout}.
drain(Port, Timeout)
  when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout =< ?LONGEST ->
    call(Port, {drain, Timeout}).

%% @doc Discards undelivered input, or output that waits. Waiting sends get `{error, ecanceled}'.
-spec flush(serial(), input | output | both) -> ok | error().
flush(Port, What) when What =:= input; What =:= output; What =:= both ->
    call(Port, {flush, What}).

%% @doc Changes options, all or none. The device changes at once. So call drain first if earlier
%% data must go out with the old settings.
-spec setopts(serial(), [option()] | #{option_name() => term()}) -> ok | error().
setopts(Port, Options) ->
    case whittle_serial_option:check(Options) of
        {ok, Changes} -> call(Port, {setopts, Changes});
        Error -> Error
    end.

%% @doc Gives the present options. The kernel reports rate, bits, parity, stop_bits and flow.
-spec getopts(serial(), [option_name()]) -> {ok, [option()]} | error().
getopts(Port, Names) ->
    case whittle_serial_option:names(Names) of
        ok -> call(Port, {getopts, Names});
        Error -> Error
    end.

%% @doc Sends a break of so many milliseconds, after the earlier output. The function returns when
%% the break is over. A device without breaks gives `{error, enotty}'.
-spec send_break(serial(), 1..60000) -> ok | error().
send_break(Port, Time) when is_integer(Time), Time > 0, Time =< 60000 ->
    call(Port, {break, Time}).

%% @doc Reads the modem lines. A line that is on is true. A device without them gives `{error,
%% enotty}'.
-spec modem_lines(serial()) -> {ok, #{modem_line() => boolean()}} | error().
modem_lines(Port) -> call(Port, modem_lines).

%% @doc Sets `dtr', `rts' or both.
-spec set_modem_lines(serial(), #{dtr => boolean(), rts => boolean()}) -> ok | error().
set_modem_lines(Port, Lines) when is_map(Lines) ->
    Bad = [L || {N, V} = L <- maps:to_list(Lines),
                not lists:member(N, [dtr, rts]) orelse not is_boolean(V)],
    case Bad of
        [] -> call(Port, {set_modem_lines, Lines});
        [Line | _] -> {error, {bad_option, Line}}
    end.

%% @doc Describes the state of the line.
-spec info(serial()) -> {ok, info()} | error().
info(Port) -> call(Port, info).

%% @doc Formats a reason of this module's errors.
-spec format_error(term()) -> string().
format_error({error, Reason}) -> format_error(Reason);
format_error({bad_option, Option}) ->
    lists:flatten(io_lib:format("this is not a valid device, option or value: ~0tp", [Option]));
format_error({timeout, Rest}) ->
    lists:flatten(io_lib:format("the send timed out with ~b bytes not sent", [byte_size(Rest)]));
format_error(timeout) -> "the call timed out";
format_error(closed) -> "the line is closed; open it again";
format_error(not_owner) -> "only the owner of a line can give it away";
format_error(Posix) -> file:format_error(Posix).

%% A call to a server that ends returns closed.
call({whittle_serial, Pid, _}, Request) ->
    try gen_server:call(Pid, Request, infinity)
    catch exit:_ -> {error, closed}
    end;
call(_, _) -> error(badarg).
