%% @hidden Computes rates over windows. For metrics with the option `windows' a process keeps
%% samples of their values, about a tenth of each window apart. The rate is the growth per second
%% over the window. A window has at most thirteen samples, whatever its length. It has fewer where
%% a tenth of another window does not divide its own.
-module(whittle_counters_rate).
-behaviour(gen_server).

-export([start_link/0, rate/3]).
-export([sample/2, growth/4]).
-export_type([samples/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-include("whittle_counters_series.hrl").

-type samples() :: #{{atom(), [binary()]} =>
                         {Series :: term(), #{Window :: pos_integer() => [sample(), ...]}}}.
%% Samples of a series for each window in seconds, newest first. A series that is deleted and
%% created again counts as a different series.
-type sample() :: {Millisecond :: integer(), Value :: number()}.
%% The total value, which a reset does not change.

%% @doc Starts the process.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Gives the growth per second over the last Window seconds, or over the available part. For
%% histograms it counts observations.
-spec rate(atom(), [binary()], pos_integer()) -> {ok, float()} | {error, whittle_counters:reason()}.
rate(Name, Values, Window) ->
    case whittle_counters_table:metric(Name) of
        {ok, #{windows := []}, _} -> {error, {no_samples, {Name, Window}}};
        {ok, #{windows := Windows}, _} ->
            case whittle_counters_option:is_positive(Window)
                andalso Window =< lists:max(Windows) of
                true -> growth({Name, Values}, Window, now_ms(), samples({Name, Values}));
                false -> {error, {bad_option, {window, Window}}}
            end;
        {error, _} = Error -> Error
    end.

%% The process only keeps samples. The calling process computes its rate itself.
samples(Key) ->
    try gen_server:call(?MODULE, {samples, Key}, infinity)
    catch
        %% The process crashed, perhaps too often. A new one begins without samples.
        exit:_ -> _ = whittle_counters_sup:start_helpers(), #{}
    end.

-spec init([]) -> {ok, samples()}.
init([]) ->
    {ok, schedule(#{})}.

-spec handle_call({samples, term()}, gen_server:from(), samples()) -> {reply, term(), samples()}.
handle_call({samples, Key}, _, Samples) ->
    {reply, maps:with([Key], Samples), Samples}.

-spec handle_cast(term(), samples()) -> {noreply, samples()}.
handle_cast(_, Samples) -> {noreply, Samples}.

-spec handle_info(term(), samples()) -> {noreply, samples(), hibernate}.
handle_info(sample, Samples) -> {noreply, schedule(sample(now_ms(), Samples)), hibernate};
handle_info(_, Samples) -> {noreply, Samples, hibernate}.

schedule(Samples) ->
    Windows = lists:append([W || #{windows := W} <- whittle_counters_table:metrics()]),
    Pause = lists:min([10 | Windows]) * 100,
    _ = erlang:send_after(Pause, self(), sample),
    Samples.

%% @doc Adds a sample of each series that has windows, at millisecond Now. It drops deleted
%% series.
-spec sample(integer(), samples()) -> samples().
sample(Now, Samples) ->
    lists:foldl(
      fun(#{name := Name, windows := [_ | _] = Windows}, Acc) ->
              whittle_counters_table:fold_series(
                fun(Values, _, Parts, A) ->
                        Id = id(Parts),
                        Old = case Samples of
                                  #{{Name, Values} := {Id, Taken}} -> Taken;
                                  _ -> #{}
                              end,
                        Sample = {Now, count(Parts)},
                        A#{{Name, Values} =>
                               {Id, maps:from_list([{W, add(Sample, maps:get(W, Old, []), W)}
                                                    || W <- Windows])}}
                end, Acc, Name);
         (_, Acc) -> Acc
      end, #{}, whittle_counters_table:metrics()).

%% A timer may be late and the next one in time, so nine tenths of the interval are enough.
add({Now, _}, [{Newest, _} | _] = Samples, Window) when Now - Newest < 90 * Window -> Samples;
add({Now, _} = Sample, Samples, Window) -> [Sample | trim(Samples, Now - 1000 * Window)].

%% Keeps one sample that is older than the window, so that the samples cover the whole window.
trim([{T, _} = Sample | _], Since) when T =< Since -> [Sample];
trim([Sample | Samples], Since) -> [Sample | trim(Samples, Since)];
trim([], _) -> [].

%% @doc Computes the growth of a series per second, at millisecond Now. A gauge may have fallen.
-spec growth({atom(), [binary()]}, pos_integer(), integer(), samples()) ->
          {ok, float()} | {error, whittle_counters:reason()}.
growth({Name, Values} = Key, Window, Now, Samples) ->
    case {whittle_counters_table:series(Key), Samples} of
        {{ok, #series{parts = Parts, expired = false}}, #{Key := {Id, Taken}}} ->
            %% Takes the samples of the shortest window that is long enough.
            case [W || Id =:= id(Parts), W <- lists:sort(maps:keys(Taken)), W >= Window] of
                [Long | _] ->
                    {Then, Old} = lists:last(trim(map_get(Long, Taken), Now - 1000 * Window)),
                    {ok, grown(Name, count(Parts) - Old) * 1000 / max(1, Now - Then)};
                [] -> {error, {no_samples, {Name, Window}}}
            end;
        _ ->
            case whittle_counters_table:read(Name, Values) of
                {ok, _} -> {error, {no_samples, {Name, Window}}};
                Error -> Error
            end
    end.

%% Only a gauge falls. Another value has wrapped around to -2^63.
grown(Name, Change) when Change < 0 ->
    case whittle_counters_table:metric(Name) of
        {ok, #{type := gauge}, _} -> Change;
        _ -> Change + (1 bsl 64)
    end;
grown(_, Change) -> Change.

%% The oldest part lives as long as the series.
id(Parts) -> whittle_counters_cell:id(element(1, lists:last(Parts))).

count(Parts) ->
    case whittle_counters_table:value(Parts, raw) of
        #{count := Count} -> Count;
        Number -> Number
    end.

now_ms() -> erlang:monotonic_time(millisecond).
