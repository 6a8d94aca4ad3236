%% @doc Rates over windows: for metrics with the option `windows' it remembers
%% what they had come to, a tenth of the shortest window apart, and tells how
%% much they grew in a second over the last so many.
-module(whittle_counters_rate).
-behaviour(gen_server).

-export([start_link/0, rate/3, sample/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Samples of a series, newest first, as {Millisecond, Value}.
-type state() :: #{{atom(), [binary()]} => [{integer(), number()}]}.

%% @doc Starts the process; it sleeps while no metric has windows.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Growth in a second over the last Window seconds, or over as much of it
%% as there is. Histograms tell how many observations.
-spec rate(atom(), [binary()], pos_integer()) -> {ok, float()} | {error, whittle_counters:reason()}.
rate(Name, Values, Window) ->
    gen_server:call(?MODULE, {rate, {Name, Values}, Window, now_ms()}).

%% @doc Takes samples as though it were millisecond Now.
-spec sample(integer()) -> ok.
sample(Now) -> gen_server:call(?MODULE, {sample, Now}).

-spec init([]) -> {ok, state()}.
init([]) ->
    {ok, schedule(#{})}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call({sample, Now}, _, State) ->
    {reply, ok, take(Now, State)};
handle_call({rate, {Name, Values} = Key, Window, Now}, _, State) ->
    case {whittle_counters_table:read(Name, Values), State} of
        {{ok, Value}, #{Key := [_ | _] = Samples}} ->
            {reply, {ok, growth(count(Value), Now, oldest(Samples, Now - 1000 * Window))}, State};
        {{ok, _}, _} ->
            {reply, {error, {no_samples, {Name, Window}}}, State};
        {Error, _} ->
            {reply, Error, State}
    end.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state(), hibernate}.
handle_info(sample, State) -> {noreply, schedule(take(now_ms(), State)), hibernate};
handle_info(_, State) -> {noreply, State, hibernate}.

schedule(State) ->
    Windows = lists:append([W || #{windows := W} <- whittle_counters_table:metrics()]),
    Pause = lists:min([10 | Windows]) * 100,
    _ = erlang:send_after(Pause, self(), sample),
    State.

%% Series that are gone are left out.
take(Now, State) ->
    lists:foldl(
      fun(#{name := Name, windows := [_ | _] = Windows}, Acc) ->
              Since = Now - 1000 * lists:max(Windows),
              whittle_counters_table:fold_series(
                fun(Values, _, Parts, A) ->
                        Value = count(whittle_counters_table:value(Parts, since_reset)),
                        Old = maps:get({Name, Values}, State, []),
                        A#{{Name, Values} => [{Now, Value} | trim(Old, Since)]}
                end, Acc, Name);
         (_, Acc) -> Acc
      end, #{}, whittle_counters_table:metrics()).

%% Keeps one that is older than the window, for the whole of it to be covered.
trim([{T, _} = Sample | _], Since) when T =< Since -> [Sample];
trim([Sample | Samples], Since) -> [Sample | trim(Samples, Since)];
trim([], _) -> [].

oldest(Samples, Since) -> lists:last(trim(Samples, Since)).

growth(Value, Now, {Then, Old}) when Now > Then -> max(0, Value - Old) * 1000 / (Now - Then);
growth(_, _, _) -> 0.0.

count(#{count := Count}) -> Count;
count(Number) -> Number.

now_ms() -> erlang:monotonic_time(millisecond).
