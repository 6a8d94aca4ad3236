%% @doc Opens, reads and writes serial lines, as gen_tcp does with sockets.
%%
%% ```
%% {ok, Port} = whittle_serial:open("/dev/ttyUSB0", [{rate, 115200}, {packet, line}]),
%% ok = whittle_serial:send(Port, <<"hello\n">>),
%% receive {serial, Port, Line} -> Line end.
%% '''
%%
%% One Erlang process for each open line (whittle_serial_port) reads and delivers; no thread
%% and no program of the system's is added: the VM's own poll waits (enif_select). A send
%% runs in the process that sends.
%%
%% The process that opens is the owner. It gets what comes in as messages, by `active':
%%
%% <ul>
%% <li>`{serial, Port, Data}'</li>
%% <li>`{serial_passive, Port}': the count of `{active, N}' is used up;</li>
%% <li>`{serial_error, Port, Posix}': what came in was no frame (`emsgsize': longer than
%%     `packet_size'; `etimedout': stopped in its middle) or could not be read; it is a
%%     message as others are for `once' and a count;</li>
%% <li>`{serial_closed, Port}': hung up, as when the adapter is unplugged. The descriptor is
%%     closed by then, and calls give `{error, closed}'.</li>
%% </ul>
%%
%% When the owner ends, the line is closed. In `{active, false}' the line is read ahead, up
%% to `buffer' bytes; then the kernel's queue fills, and flow control, if any, holds the
%% other side up. What no queue takes is lost, and counted as `overrun' in {@link info/1}.
%%
%% Errors are `{error, Posix}' as open(2) and the kernel name them: `enoent', `eacces',
%% `ebusy' (`exclusive', or taken by a program that says so), `enotty' (no terminal, or it
%% has no modem lines or break), `einval' (the kernel or the driver did not take a rate, a
%% frame or a flow control: what it set is read back), and `closed'. An option that is none
%% is `{error, {bad_option, Option}}'. A value that is no line raises `badarg'.
-module(whittle_serial).

%% A line.
-export([open/1, open/2, close/1, controlling_process/2, list/0]).
%% Bytes.
-export([send/2, send/3, recv/2, recv/3, drain/1, drain/2, flush/2]).
%% Settings and wires.
-export([setopts/2, getopts/2, send_break/2, modem_lines/1, set_modem_lines/2, info/1,
         format_error/1]).
%% The longest time to wait, in milliseconds: what `receive' takes, about 50 days.
-define(LONGEST, 16#ffffffff).

-export_type([serial/0, device/0, option/0, option_name/0, error/0, line/0, tag/0,
              modem_line/0, info/0]).

%% Equal only to itself; made by open, good until close.
-opaque serial() :: {whittle_serial, pid(), line()}.
%% The name of a line for the NIFs.
-type line() :: reference().
%% The name of a send for the NIFs.
-type tag() :: {pid(), reference()}.
%% A path, or a name in /dev; as a binary it is UTF-8.
-type device() :: string() | binary().

-type option() ::
        %% Bits per second; any that the kernel takes. 9600 by default.
        {rate, pos_integer()}
        %% 8 by default.
      | {bits, 5..8}
      | {parity, none | odd | even | mark | space}
      | {stop_bits, 1 | 2}
        %% RTS/CTS or XON/XOFF; `none' by default.
      | {flow, none | hardware | software}
        %% As gen_tcp's; `true' by default.
      | {active, true | once | false | -32768..32767}
        %% The form of a message: the bytes that came (`raw'), a line with its end, or a frame
        %% after its length in 1, 2 or 4 bytes, most significant first, which send puts there.
      | {packet, raw | line | 1 | 2 | 4}
        %% Longest frame or line in bytes; a longer line comes in pieces. 65536.
      | {packet_size, pos_integer()}
        %% `binary' by default.
      | {mode, binary | list}
        %% Milliseconds. The line silent for so long ends a message in raw and line; a
        %% frame that stopped in its middle is dropped. As exact as the VM is awake.
      | {inter_byte_timeout, pos_integer() | infinity}
        %% Nobody else may open the device, but for root's programs that do not lock it
        %% (TIOCEXCL, and flock, which an open with `true' heeds whoever runs it). `true' by
        %% default; only for open.
      | {exclusive, boolean()}
        %% Bytes read ahead in passive mode; 16384.
      | {buffer, pos_integer()}
        %% Milliseconds that send/2 waits for the kernel to take all; `infinity'.
      | {send_timeout, timeout()}
        %% Milliseconds that close waits for bytes sent to leave; then they are thrown away.
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
        %% Bytes in the kernel's queues, and read but not delivered yet.
        queued_in := non_neg_integer(), queued_out := non_neg_integer(),
        buffered := non_neg_integer(),
        %% Sends (and drains and breaks) that wait, and recvs.
        senders := non_neg_integer(), receivers := non_neg_integer(),
        %% Frames dropped (emsgsize, etimedout).
        dropped := non_neg_integer(),
        %% The driver's counts since the machine started, where it counts.
        counters => #{cts | dsr | ri | cd | rx | tx | frame | overrun | parity | break |
                      buffer_overrun => non_neg_integer()}}.

%% @doc Opens with the options' defaults.
-spec open(device()) -> {ok, serial()} | error().
open(Device) -> open(Device, []).

%% @doc Opens a device; the caller becomes the owner. The device is set to raw bytes and to
%% the options; modem control is ignored (CLOCAL), a break is not a byte.
%% Bytes that came in before are thrown away.
-spec open(device(), [option()] | #{option_name() => term()}) -> {ok, serial()} | error().
open(Device, Options) ->
    case {whittle_serial_device:path(Device), whittle_serial_option:parse(Options)} of
        {{ok, Path}, {ok, Parsed}} -> whittle_serial_port:start(self(), Path, Parsed);
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error
    end.

%% @doc Closes; returns when the device is free. Bytes that were sent are given `linger' to
%% leave; sends and recvs that wait get `{error, closed}'. Any process may close.
-spec close(serial()) -> ok.
close(Port) ->
    _ = call(Port, close),
    ok.

%% @doc Makes another process the owner; only the owner can. Messages that the old owner has
%% not received go to the new one first, in order. `{error, not_owner}', `{error, closed}'.
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

%% @doc Lists the machine's serial devices that have a driver, by name, with what the kernel knows
%% of them (`driver', and for USB `vendor_id', `product_id', `manufacturer', `product',
%% `serial_number').
-spec list() -> [whittle_serial_device:found()].
list() -> whittle_serial_device:list().

%% @doc Sends with `send_timeout'. See send/3.
-spec send(serial(), iodata()) -> ok | error() | {error, {timeout, binary()} | ecanceled}.
send(Port, Data) -> send(Port, Data, default).

%% @doc Sends; returns when the kernel has all of it, in the order in which processes asked,
%% never one within another. `{error, {timeout, Rest}}' after Timeout milliseconds: Rest was
%% not sent, and will not be. It is all of Data, or what is left on the wire of it (with
%% `{packet, N}' it may begin within the length).
%% `{error, emsgsize}': longer than the packet's length can say; `{error, ecanceled}': flushed.
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

%% @doc Receives without end. See recv/3.
-spec recv(serial(), non_neg_integer()) -> {ok, binary() | string()} | error().
recv(Port, Length) -> recv(Port, Length, infinity).

%% @doc Receives in passive mode (`{error, einval}' in another): Length bytes, or for 0 what
%% has come, one byte at least; with another `packet' than raw, and with an
%% `inter_byte_timeout', one message, whatever Length. `{error, timeout}' after Timeout
%% milliseconds: nothing is lost by it. Processes that wait are served in turn. Length is
%% 64 MB at most (`enomem').
-spec recv(serial(), non_neg_integer(), timeout()) ->
          {ok, binary() | string()} | error() | {error, timeout}.
recv(Port, Length, Timeout)
  when is_integer(Length), Length >= 0,
       (Timeout =:= infinity orelse (is_integer(Timeout) andalso Timeout >= 0
                                    andalso Timeout =< ?LONGEST)) ->
    call(Port, {recv, Length, Timeout}).

%% @doc Waits without end. See drain/2.
-spec drain(serial()) -> ok | error().
drain(Port) -> drain(Port, infinity).

%% @doc Waits until all bytes are on the wire, as tcdrain(3) does. `{error, timeout}'.
-spec drain(serial(), timeout()) -> ok | error() | {error, timeout}.
drain(Port, Timeout)
  when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout =< ?LONGEST ->
    call(Port, {drain, Timeout}).

%% @doc Throws away what came in and was not delivered, or what waits to be sent: sends that
%% wait get `{error, ecanceled}'.
-spec flush(serial(), input | output | both) -> ok | error().
flush(Port, What) when What =:= input; What =:= output; What =:= both ->
    call(Port, {flush, What}).

%% @doc Changes options, all or none. The device is set at once: drain first if what was
%% sent is to go out as it was.
-spec setopts(serial(), [option()] | #{option_name() => term()}) -> ok | error().
setopts(Port, Options) ->
    case whittle_serial_option:check(Options) of
        {ok, Changes} -> call(Port, {setopts, Changes});
        Error -> Error
    end.

%% @doc Gives the options as they are; rate, bits, parity, stop_bits and flow are the kernel's.
-spec getopts(serial(), [option_name()]) -> {ok, [option()]} | error().
getopts(Port, Names) ->
    case whittle_serial_option:names(Names) of
        ok -> call(Port, {getopts, Names});
        Error -> Error
    end.

%% @doc Sends a break of so many milliseconds, after what was sent before; returns when it
%% is over. `{error, enotty}' where there is no break.
-spec send_break(serial(), 1..60000) -> ok | error().
send_break(Port, Time) when is_integer(Time), Time > 0, Time =< 60000 ->
    call(Port, {break, Time}).

%% @doc Reads the modem lines, true where on. `{error, enotty}' where there are none.
-spec modem_lines(serial()) -> {ok, #{modem_line() => boolean()}} | error().
modem_lines(Port) -> call(Port, modem_lines).

%% @doc Sets those of `dtr' and `rts' that are given.
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
    lists:flatten(io_lib:format("there is no such device, option or value: ~0tp", [Option]));
format_error({timeout, Rest}) ->
    lists:flatten(io_lib:format("the send timed out with ~b bytes not sent", [byte_size(Rest)]));
format_error(timeout) -> "the call timed out";
format_error(closed) -> "the line is closed; open it again";
format_error(not_owner) -> "only the owner of a line can give it away";
format_error(Posix) -> file:format_error(Posix).

%% A server that ends is a line that is closed.
call({whittle_serial, Pid, _}, Request) ->
    try gen_server:call(Pid, Request, infinity)
    catch exit:_ -> {error, closed}
    end;
call(_, _) -> error(badarg).
