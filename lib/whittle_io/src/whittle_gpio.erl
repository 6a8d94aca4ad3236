%% @doc Reads, sets and watches lines of GPIO chips.
%%
%% It uses Linux's GPIO character device (kernel 5.10 or later).
%%
%% ```
%% {ok, R} = whittle_gpio:request("gpiochip0", [17, {"LED", #{direction => output}}],
%%                                #{edges => both, debounce => 5000}),
%% receive {gpio, R, #{line := 17, edge := falling}} -> whittle_gpio:set(R, "LED", 1) end
%% '''
%%
%% A request holds its lines until {@link release/1}, or until its owner dies. The first owner is
%% the process that asked for the request. {@link controlling_process/2} changes the owner. A
%% request is a term that you can compare and send. Getting and setting go straight to the kernel.
%% Events come from a process of the request, which reads them when the VM's poll reports them.
%% The library uses no thread and no program beside the VM.
%%
%% == Messages to the owner ==
%% <ul>
%% <li>`{gpio, Request, Event}': an edge; see the type event();</li>
%% <li>`{gpio_lost, Request, Count}': Count edges were dropped, by the kernel's numbers, before the
%%   next event;</li>
%% <li>`{gpio_passive, Request}': the last of N events was delivered (active => N);</li>
%% <li>`{gpio_error, Request, Posix}' and `{gpio_closed, Request}': the lines are gone, for example
%%   because the chip was unplugged (enodev);</li>
%% <li>`{gpio_changed, Watch, Change}': see {@link watch/2}.</li>
%% </ul>
%%
%% == Slow owners ==
%% Delivery follows the option `active' as in gen_tcp. In addition, the request puts no more than
%% about `backlog' messages (default 1000) into an owner's mailbox. While more wait there, events
%% stay in the kernel. The kernel keeps `event_buffer' of them (default 16 for each line, 1024 at
%% most) and drops the oldest. The request finds dropped events by gaps in the sequence numbers.
%% `gpio_lost' reports them, and {@link stats/1} counts them. So the memory has a bound for any
%% behaviour of the lines.
%%
%% == Errors ==
%% `{error, Posix}' has these reasons:
%% <ul>
%% <li>enoent: there is no such chip;</li>
%% <li>eacces: access is denied;</li>
%% <li>enotty: the device is not a chip;</li>
%% <li>ebusy: another program holds a line;</li>
%% <li>einval: an offset that the chip does not have, a line outside the request, more than 64
%%   lines,
%%   or settings that exclude each other;</li>
%% <li>enxio: no line has this name, or the line cannot report edges;</li>
%% <li>e2big: one request has settings of more than ten kinds;</li>
%% <li>eperm: a value for an input;</li>
%% <li>enodev: the chip was unplugged;</li>
%% <li>`unknown': an error without a name here.</li>
%% </ul>
%% After the release of a request the error is `{error, closed}'. A term that is not an option, a
%% chip or a line gives `{error, {bad_option, Term}}'.
%%
%% Texts may be binaries or charlists. Texts in answers are binaries. A line in an answer has its
%% name from the request.
-module(whittle_gpio).

%% Chips and lines
-export([chips/0, info/1, lines/1, line_info/2, find/1, watch/2]).
%% Requests
-export([request/2, request/3, configure/2, configure/3, release/1,
         controlling_process/2, set_active/2, stats/1]).
%% Values
-export([get/1, get/2, get_many/2, get_bits/1, set/2, set/3, set_bits/3]).
-export([format_error/1]).

-export_type([request/0, chip/0, line/0, name/0, value/0, options/0, line_options/0, active/0,
              event/0, change/0, posix/0, error/0]).

-opaque request() :: reference().
%% Requested lines, or a watch.
-type name() :: binary() | string().
-type chip() :: non_neg_integer() | name().
%% 0 and "gpiochip0" are /dev/gpiochip0. A text with a "/" is a path. Any other text is the label
%% of a chip, and stands for the first chip with this label.
-type line() :: non_neg_integer() | name().
%% An offset, or a name, which stands for the chip's first line with this name.
-type value() :: 0 | 1.
%% 1 means active. Active is high unless the line is active_low.
-type posix() :: atom().
-type error() :: {error, posix() | {bad_option, term()}}.
-type active() :: boolean() | once | pos_integer().
%% As in inet:setopts/2.

-type line_options() ::
        #{direction => input | output | as_is,   % default: input
          value => value(),                      % the first value of an output; default: 0
          bias => as_is | none | pull_up | pull_down,       % default: as_is
          drive => push_pull | open_drain | open_source,    % default: push_pull
          active_low => boolean(),               % default: false
          edges => none | rising | falling | both,          % default: none
          debounce => non_neg_integer(),         % microseconds; default 0: none
          clock => monotonic | realtime}.        % of the timestamps; default: monotonic

-type options() ::
        %% name of the holder for other programs, 31 bytes at most; default: whittle
        #{consumer => name(),
          %% events that the kernel keeps; default 0: 16 for each line
          event_buffer => non_neg_integer(),
          active => active(),                    % default: true
          backlog => pos_integer(),              % messages; default: 1000
          %% and any of line_options(), as defaults for the lines
          _ => _}.

-type event() ::
        #{line := line(),                        % its name in the request
          edge := rising | falling,              % to active, to inactive
          timestamp := non_neg_integer(),        % nanoseconds of the request's clock
          seqno := non_neg_integer(),            % of the request's events, from 1, 32 bits
          line_seqno := non_neg_integer()}.      % of the line's

-type line_info() ::
        #{offset := non_neg_integer(), name := binary(), consumer := binary(),
          used := boolean(), direction := input | output, active_low := boolean(),
          bias := as_is | none | pull_up | pull_down,
          drive := push_pull | open_drain | open_source,
          edges := none | rising | falling | both, debounce := non_neg_integer(),
          clock := monotonic | realtime | hardware}.

-type change() ::
        #{line := line(), change := requested | released | configured,
          timestamp := non_neg_integer(),        % nanoseconds, monotonic
          info := line_info()}.

%% @doc Gives the paths of all chips, by their numbers. Without /dev the result is `{ok, []}'.
-spec chips() -> {ok, [binary()]} | {error, posix()}.
chips() -> whittle_gpio_chip:all().

%% @doc Describes a chip.
-spec info(chip()) -> {ok, #{path := binary(), name := binary(), label := binary(),
                             lines := non_neg_integer()}} | error().
info(Chip) -> checked(fun() -> whittle_gpio_chip:info(Chip) end).

%% @doc Describes all lines of a chip, by offset.
-spec lines(chip()) -> {ok, [line_info()]} | error().
lines(Chip) -> checked(fun() -> whittle_gpio_chip:lines(Chip) end).

%% @doc Describes one line of a chip.
-spec line_info(chip(), line()) -> {ok, line_info()} | error().
line_info(Chip, Line) ->
    checked(fun() -> whittle_gpio_chip:line_info(Chip, whittle_gpio_config:line(Line)) end).

%% @doc Gives the chip and the offset of the first line with this name on any chip. The error
%% enxio means that no line has the name. The search skips chips that the caller may not open.
-spec find(name()) -> {ok, {binary(), non_neg_integer()}} | error().
find(Name) -> checked(fun() -> whittle_gpio_chip:find(Name) end).

%% @doc Watches changes that any program makes to lines. `{gpio_changed, Watch, Change}' comes
%% when a program requests, releases or configures one. The function also gives the present state.
%% The kernel keeps 32 changes and drops further ones without a number. A watch has an owner and a
%% release, as a request has.
-spec watch(chip(), [line()]) -> {ok, request(), [line_info()]} | error().
watch(Chip, Lines) -> checked(fun() -> whittle_gpio_request:watch(self(), Chip, Lines) end).

%% @equiv request(Chip, Lines, #{})
-spec request(chip(), [line() | {line(), line_options()}]) -> {ok, request()} | error().
request(Chip, Lines) -> request(Chip, Lines, #{}).

%% @doc Requests lines of a chip, 1 to 64, each with its own options or with those of all. The
%% caller becomes the owner. The function requests either all lines or none.
-spec request(chip(), [line() | {line(), line_options()}], options()) ->
          {ok, request()} | error().
request(Chip, Lines, Options) ->
    checked(fun() ->
                    Config = whittle_gpio_config:request(Lines, Options),
                    whittle_gpio_request:start(self(), Chip, Config)
            end).

%% @doc Changes options of all lines of a request. See configure/3.
-spec configure(request(), line_options()) -> ok | error() | {error, closed}.
configure(Request, Options) -> configure(Request, all, Options).

%% @doc Changes options of some lines. Other options stay. An output keeps its last set value
%% unless `value' gives another. A line that becomes an output keeps its level. (The change may
%% undo values that another process sets at the same time, because the kernel wants a value for
%% each output.) After an error of the chip, the lines before the failed one have their new
%% settings already.
-spec configure(request(), all | [line()], line_options()) -> ok | error() | {error, closed}.
configure(Request, Lines, Options) ->
    checked(fun() ->
                    call(Request, {configure, whittle_gpio_config:chosen(Lines),
                                   whittle_gpio_config:line_options(Options)})
            end).

%% @doc Releases the lines. When the function returns, other programs can request them. Any
%% process may release.
-spec release(request()) -> ok | {error, closed}.
release(Request) -> call(Request, release).

%% @doc Makes another process the owner. Events in the caller's mailbox go to the new owner, in
%% their order. Only the owner may call it. Otherwise the error is not_owner.
-spec controlling_process(request(), pid()) -> ok | {error, closed | not_owner}.
controlling_process(Request, Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case call(Request, {hand_over, self()}) of
        ok ->
            _ = Pid =:= self() orelse forward(Request, Pid),
            call(Request, {owner, Pid});
        Error ->
            Error
    end.

forward(Request, Pid) ->
    receive
        Message when element(2, Message) =:= Request,
                     element(1, Message) =:= gpio orelse element(1, Message) =:= gpio_lost
                     orelse element(1, Message) =:= gpio_passive
                     orelse element(1, Message) =:= gpio_error
                     orelse element(1, Message) =:= gpio_closed
                     orelse element(1, Message) =:= gpio_changed ->
            Pid ! Message,
            forward(Request, Pid)
    after 0 ->
        ok
    end.

%% @doc Chooses the delivered events: all, the next one, the next N (added to the remaining
%% count), or none.
-spec set_active(request(), active()) -> ok | {error, closed | {bad_option, term()}}.
set_active(Request, Active) ->
    checked(fun() -> call(Request, {active, whittle_gpio_config:active(Active)}) end).

%% @doc Counts since the request was made: delivered and lost events, and how often more than
%% `backlog' waiting messages stopped delivery.
-spec stats(request()) -> {ok, #{delivered := non_neg_integer(), lost := integer(),
                                 held_up := non_neg_integer()}} | {error, closed}.
stats(Request) -> call(Request, stats).

%% @doc Reads the values of all lines together. The error einval means that two lines have the
%% same name.
-spec get(request()) -> {ok, #{line() => value()}} | {error, posix() | closed}.
get(Request) -> whittle_gpio_nif:get(Request, map).

%% @doc Reads the value of one line. For an output it is the value that the chip reads back.
-spec get(request(), line()) -> {ok, value()} | {error, posix() | closed}.
get(Request, Line) -> whittle_gpio_nif:get(Request, {one, Line}).

%% @doc Reads the values of some lines together, and gives them in the order of the argument.
-spec get_many(request(), [line()]) -> {ok, [value()]} | {error, posix() | closed}.
get_many(Request, Lines) -> whittle_gpio_nif:get(Request, {list, Lines}).

%% @doc Reads the values of all lines as an integer; bit 0 is the request's first line.
-spec get_bits(request()) -> {ok, non_neg_integer()} | {error, posix() | closed}.
get_bits(Request) -> whittle_gpio_nif:get(Request, bits).

%% @doc Sets some lines at once, as far as the chip can.
-spec set(request(), #{line() => value()} | [{line(), value()}]) ->
          ok | {error, posix() | closed}.
set(Request, Values) when is_map(Values) -> whittle_gpio_nif:set(Request, maps:to_list(Values));
set(Request, Values) when is_list(Values) -> whittle_gpio_nif:set(Request, Values).

%% @doc Sets one line.
-spec set(request(), line(), value()) -> ok | {error, posix() | closed}.
set(Request, Line, Value) -> whittle_gpio_nif:set(Request, [{Line, Value}]).

%% @doc Sets the lines in Mask to the bits of Bits; bit 0 is the request's first line.
-spec set_bits(request(), non_neg_integer(), non_neg_integer()) ->
          ok | {error, posix() | closed}.
set_bits(Request, Bits, Mask) -> whittle_gpio_nif:set(Request, {Bits, Mask}).

%% @doc Formats a reason of this module's errors.
-spec format_error(term()) -> string().
format_error({error, Reason}) -> format_error(Reason);
format_error({bad_option, Term}) ->
    lists:flatten(io_lib:format("there is no such option, chip or line: ~0tp", [Term]));
format_error(closed) -> "the lines were released; request them again";
format_error(not_owner) -> "only the owner of a request can give it away";
format_error(enxio) -> "no line has that name, or the line cannot report edges";
format_error(Posix) -> file:format_error(Posix).

checked(Do) ->
    try Do()
    catch throw:{bad_option, _} = Bad -> {error, Bad}
    end.

%% The process is gone once the request is closed, or ends during the call.
call(Request, Question) ->
    try
        gen_server:call(whittle_gpio_nif:server(Request), Question, infinity)
    catch
        exit:_ -> {error, closed}
    end.
