%% @doc Sets the LED, and prints a line for each report:
%%
%% ```
%% 4 shown 5D0E4C0A8B1F2E36 1: LED on
%% '''
%%
%% The first number is the report's. If the process is killed before it confirms the print
%% to the owner, the next one prints the report again, under the same number.
-module(blinky_lamp).
-behaviour(gen_server).

-export([start_link/1, show/2, format/1, number/2, boot/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {led :: whittle_gpio:request() | none,
                %% The last report that was printed.
                last = 0 :: non_neg_integer()}).

%% @doc Starts the process with the LED's line, or none.
-spec start_link(blinky_pin:pin() | none) -> {ok, pid()} | {error, term()} | ignore.
start_link(Led) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Led, []).

%% @doc Shows the LED and the reports when the process is there; one that starts asks for them.
-spec show(0 | 1, [{pos_integer(), blinky_link:report()}]) -> ok.
show(Led, Reports) -> gen_server:cast(?MODULE, {show, Led, Reports}).

%% @private
-spec init(blinky_pin:pin() | none) -> {ok, #state{}} | {stop, term()}.
init(Led) ->
    blinky_owner:again(),
    case blinky_pin:request(Led, #{direction => output, value => blinky_owner:led()}) of
        {ok, Request} -> {ok, #state{led = Request}};
        {error, Reason} -> {stop, {led, Led, Reason}}
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, ok, #state{}}.
handle_call(_, _, State) -> {reply, ok, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({show, Level, Reports}, #state{led = Led, last = Last} = State) ->
    ok = set(Led, Level),
    New = [Report || {N, _} = Report <- Reports, N > Last],
    io:put_chars([[integer_to_list(N), $\s, format(Report), $\n] || {N, Report} <- New]),
    case New of
        [] -> {noreply, State};
        _ ->
            {N, _} = lists:last(New),
            ok = blinky_owner:reported(N),
            {noreply, State#state{last = N}}
    end.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(_, State) -> {noreply, State}.

set(none, _) -> ok;
set(Led, Level) -> blinky_pin:set(Led, Level).

%% @doc Formats a report.
-spec format(blinky_link:report()) -> iolist().
format({up, Boot}) -> ["up ", boot(Boot)];
format({down, Boot}) -> ["down ", boot(Boot)];
format({shown, Boot, Seq, Led}) -> ["shown ", number(Boot, Seq), ": LED ", led(Led)];
format({gap, Boot, Seq, Reason, Count}) ->
    ["gap ", number(Boot, Seq), ": ", count(Count), reason(Reason)];
format({missing, Boot, From, To}) ->
    ["gap ", number(Boot, From), "..", integer_to_list(To), ": handed to nobody"];
format({ended, Boot, none}) -> ["gap ", boot(Boot), " after nothing: it has ended"];
format({ended, Boot, Last}) -> ["gap ", boot(Boot), " after ", integer_to_list(Last),
                                ": it has ended"];
format({line, open}) -> "line open";
format({line, Reason}) -> io_lib:format("line ~0p", [Reason]).

%% @doc Formats an item's number.
-spec number(blinky_frame:boot(), blinky_frame:seq()) -> iolist().
number(Boot, Seq) -> [boot(Boot), $\s, integer_to_list(Seq)].

%% @doc Formats a boot number: 16 digits.
-spec boot(blinky_frame:boot()) -> iolist().
boot(Boot) ->
    Digits = integer_to_list(Boot, 16),
    [lists:duplicate(16 - length(Digits), $0) | Digits].

count(0) -> "some";
count(N) -> integer_to_list(N).

reason(full) -> " not taken, too many waited";
reason(edges) -> " lost before the button's owner read them";
reason(unheard) -> " may have been made while nobody listened to the button";
reason(doubt) -> " sent; whether it was shown nobody knows".

led(0) -> "off";
led(1) -> "on".
