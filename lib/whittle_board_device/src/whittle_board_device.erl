%% @doc Tells the board's watchdog that the program is healthy, and why the board started. Replaces
%% the program by a new image, if the board started from a card.
%%
%% If the program lists `whittle_board_device' among its applications, nothing else is to do. The
%% application gives signs of health to the board's init, which feeds the watchdog with them. It
%% gives a sign only after a check of the program's health, three times in each period of the
%% watchdog:
%%
%% <ol>
%% <li>The boot is complete: all applications of the release have started.</li>
%% <li>Each scheduler of the VM gives a turn to a process with the usual priority.</li>
%% <li>The applications of the release still run. The application's environment `applications' may
%%   name others ({@link applications()}).</li>
%% <li>The program's own check returns `ok' ({@link set_check/1}).</li>
%% </ol>
%%
%% All of this must end within a third of the period. Without a watchdog, as on a desk, the
%% application gives no signs and logs a line that says so.
%%
%% A card has two slots for images. {@link install/1} writes an image into the slot that does not
%% run. The next boot starts it on trial: if it does not call {@link confirm/0}, the boot after that
%% starts the old image again. On a desk, and on a board without a card, all these functions return
%% `{error, no_card}'.
-module(whittle_board_device).

-export([watchdog/0, reset_reason/0]).
-export([set_check/1, health/0]).
-export([slot/0, confirm/0]).
-export([install/1, start_install/0, write/2, finish/1, cancel/1]).
-export([format_error/1]).

-export_type([check/0, applications/0, slot/0, install/0, error/0]).

%% The program's own check. It returns `ok' if the program is healthy. Any other value, an
%% exception, and a check that takes too long mean that it is not. A new process calls it each time.
-type check() :: whittle_board_device_health:check().

%% The applications that must run. `all', the default, are those that run when the boot is complete.
-type applications() :: whittle_board_device_health:applications().

%% `slot' is the slot that runs. `on_trial' means that nobody has confirmed its image. `next' is the
%% slot that the next boot starts. `failed' means that the image in the other slot started on trial,
%% or was damaged, and nobody confirmed it.
-type slot() :: whittle_board_device_card:info().

%% An image that is not complete yet. It ends with the process that began it.
-opaque install() :: reference().

-type error() :: whittle_board_device_health:error()
               | whittle_board_device_card:error()
               | busy                           % another process installs an image
               | ended                          % this installation has ended
               | {not_started, whittle_board_device}.

%% The bytes that install/1 reads at a time.
-define(PIECE, 65536).
%% The server may be in the middle of a check, which takes a third of the longest period at most.
-define(CALL_MS, 400_000).

%% @doc Returns the period of the watchdog in seconds: the watchdog resets the board so long after
%% the last sign of health. Without a watchdog the result is `none'.
-spec watchdog() -> {ok, pos_integer()} | none.
watchdog() ->
    case whittle_board_device_init:watchdog() of
        {ok, #{period := Period}} -> {ok, Period};
        none -> none
    end.

%% @doc Returns the reason of the board's last start. `watchdog' means that the watchdog reset the
%% board. `unknown' means that the hardware reports no reset by the watchdog: the power came, the
%% program or the kernel wanted a reboot, or the hardware keeps no record. On a desk the result is
%% `unknown'.
-spec reset_reason() -> watchdog | unknown.
reset_reason() -> whittle_board_device_init:reset_reason().

%% @doc Sets the program's own check, in place of the one in the application's environment `check'.
%% `none' means that there is no such check; this is the default. Raises `badarg' for any other
%% term that is not a check.
-spec set_check(check() | none) -> ok | {error, error()}.
set_check(Check) ->
    whittle_board_device_health:is_check(Check) orelse error(badarg, [Check]),
    call({set_check, Check}).

%% @doc Checks the program's health now, and returns `ok' or the first fault. It gives no sign of
%% health. It takes at most a third of the watchdog's period, or 5 seconds without a watchdog. So it
%% also tests a check on a desk.
-spec health() -> ok | {error, error()}.
health() -> call(health).

%% @doc Returns the slot that runs, and the one that the next boot starts.
-spec slot() -> {ok, slot()} | {error, error()}.
slot() -> whittle_board_device_slots:call(info).

%% @doc Confirms the running image: from now on each boot starts it. It writes nothing if the image
%% is confirmed already. After an error the image is still on trial: `no_card' on a desk,
%% `no_layout', `other_card' or `{card, Reason}' if the card cannot be read or written.
-spec confirm() -> ok | {error, error()}.
confirm() -> whittle_board_device_slots:call(confirm).

%% @doc Writes an image from a file into the other slot. `ok' means that the card has the whole
%% image, that it is for this board, and that the next boot starts it on trial. After an error the
%% running image stays the one that starts.
-spec install(file:filename_all()) -> ok | {error, error()}.
install(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            try copied(Fd, start_install())
            after file:close(Fd)
            end;
        {error, Reason} -> {error, {unreadable, Reason}}
    end.

copied(Fd, {ok, Install}) ->
    case file:read(Fd, ?PIECE) of
        {ok, Bytes} ->
            case write(Install, Bytes) of
                ok -> copied(Fd, {ok, Install});
                {error, _} = Error -> Error
            end;
        eof -> finish(Install);
        {error, Reason} ->
            _ = cancel(Install),
            {error, {unreadable, Reason}}
    end;
copied(_, {error, _} = Error) -> Error.

%% @doc Begins to write an image into the other slot, for bytes that come in pieces. One process can
%% do this at a time. The installation ends with {@link finish/1} or {@link cancel/1}, with the
%% first error, or with the end of the calling process. It is an error if the running image is on
%% trial: the other slot then has the image to fall back to.
-spec start_install() -> {ok, install()} | {error, error()}.
start_install() -> whittle_board_device_slots:call(start).

%% @doc Writes the next bytes of an image to the card. It returns when the kernel has them. An error
%% ends the installation: `{too_large, Room}' if the slot holds only Room bytes, `{card, Reason}' if
%% the card takes no more, `ended' if it had ended before. Raises `badarg' for any other term.
-spec write(install(), iodata()) -> ok | {error, error()}.
write(Install, Bytes) ->
    %% The server must not fail because of its caller.
    try iolist_size(Bytes) of
        _ -> whittle_board_device_slots:call({write, Install, Bytes})
    catch error:badarg -> error(badarg, [Install, Bytes])
    end.

%% @doc Reads the image back from the card and checks it, with the results of {@link install/1}.
-spec finish(install()) -> ok | {error, error()}.
finish(Install) -> whittle_board_device_slots:call({finish, Install}).

%% @doc Ends an installation. The other slot does not start until it has a whole image.
-spec cancel(install()) -> ok | {error, error()}.
cancel(Install) -> whittle_board_device_slots:call({cancel, Install}).

%% @doc Formats an error as one line.
-spec format_error(error()) -> unicode:chardata().
format_error(busy) -> "another process installs an image: wait for its end";
format_error(ended) -> "this installation has ended: begin another one";
format_error({not_started, App}) ->
    ["the application ", atom_to_list(App), " does not run: start it"];
format_error(Error)
  when Error =:= no_card; Error =:= no_layout; Error =:= other_card; Error =:= on_trial;
       Error =:= not_an_image; Error =:= not_for_a_card; Error =:= damaged_image;
       element(1, Error) =:= other_board; element(1, Error) =:= too_large;
       element(1, Error) =:= card; element(1, Error) =:= unreadable ->
    whittle_board_device_card:format_error(Error);
format_error(Error) ->
    whittle_board_device_health:format_error(Error).

call(Request) ->
    try gen_server:call(whittle_board_device_watch, Request, ?CALL_MS)
    catch
        exit:{Reason, _} when Reason =:= noproc; Reason =:= normal; Reason =:= shutdown ->
            {error, {not_started, whittle_board_device}}
    end.
