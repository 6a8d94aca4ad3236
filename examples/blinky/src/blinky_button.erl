%% @doc Takes presses from the button: each rising edge is a press (`active_low' for one
%% that pulls down). It reports to the other side as gaps the edges that the kernel dropped, and
%% those that nobody heard after this process was killed.
-module(blinky_button).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Microseconds; where the chip and the kernel cannot, the configuration says 0.
-define(DEBOUNCE, 5000).

%% @doc Starts the process.
-spec start_link(blinky_pin:pin()) -> {ok, pid()} | {error, term()} | ignore.
start_link(Button) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Button, []).

%% @private
-spec init(blinky_pin:pin()) -> {ok, whittle_gpio:request()} | {stop, term()}.
init(Button) ->
    case blinky_pin:request(Button, #{edges => rising, debounce => ?DEBOUNCE}) of
        {ok, Request} ->
            %% From here on edges are heard; before, somebody was here already, or nobody.
            ets:insert_new(blinky_owner, {button, heard}) orelse unheard(),
            {ok, Request};
        {error, Reason} -> {stop, {button, Button, Reason}}
    end.

unheard() ->
    _ = blinky_owner:take({gap, unheard, 0}),
    ok.

%% @private
-spec handle_call(term(), gen_server:from(), whittle_gpio:request()) ->
          {reply, ok, whittle_gpio:request()}.
handle_call(_, _, Request) -> {reply, ok, Request}.

%% @private
-spec handle_cast(term(), whittle_gpio:request()) -> {noreply, whittle_gpio:request()}.
handle_cast(_, Request) -> {noreply, Request}.

%% @private
-spec handle_info(term(), whittle_gpio:request()) ->
          {noreply, whittle_gpio:request()} | {stop, term(), whittle_gpio:request()}.
handle_info({gpio, Request, #{seqno := Seqno}}, Request) ->
    _ = blinky_owner:take({Request, Seqno}, press),
    {noreply, Request};
handle_info({gpio_lost, Request, Count}, Request) ->
    _ = blinky_owner:take({gap, edges, Count}),
    {noreply, Request};
handle_info({gpio_closed, Request}, Request) -> {stop, gpio_closed, Request};
handle_info(_, Request) -> {noreply, Request}.
