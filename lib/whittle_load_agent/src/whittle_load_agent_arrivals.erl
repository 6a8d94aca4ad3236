%% @doc Computes the intended start of each user of one agent.
%%
%% The stream is a value; {@link next/1} takes the next start from it. The phases follow each other.
%% In a phase with a rate r(t), the expected number of users until t is its integral R(t). A Poisson
%% process has its users where R(t) grows by amounts with the exponential distribution of mean 1
%% (inversion; Çinlar, Introduction to Stochastic Processes, 1975, chapter 4). A constant stream
%% has them where R(t) grows by 1.
%%
%% Each of N agents draws its own Poisson process with the rate r(t)/N; the sum of these is a
%% Poisson process with the rate r(t). Of constant streams, bursts and traces, agent I takes each
%% Nth user.
%% @hidden
-module(whittle_load_agent_arrivals).

-export([new/3, next/1, duration/1]).

-export_type([stream/0, phase/0, shard/0, kind/0]).

%% Times are nanoseconds, rates are users per second.
-type phase() ::
        {rate, kind(), From :: number(), To :: number(), Duration :: pos_integer()}
      | {burst, Users :: pos_integer()}
      | {pause, Duration :: non_neg_integer()}
      | {trace, [Start :: non_neg_integer()], Duration :: non_neg_integer()}
      | {closed, Users :: non_neg_integer(), Duration :: pos_integer()}.

-type kind() :: poisson | constant.

%% The number of this agent, from 0, and the number of agents.
-type shard() :: {non_neg_integer(), pos_integer()}.

-record(stream, {phases :: [phase()],
                 start = 0 :: non_neg_integer(),          % of the first phase
                 position :: none | ended | number() | [non_neg_integer()],
                 shard :: shard(),
                 random :: whittle_load_agent_random:state()}).

-opaque stream() :: #stream{}.

-define(SECOND, 1_000_000_000).

%% @doc Makes the stream of an agent.
-spec new([phase()], shard(), Seed :: term()) -> stream().
new(Phases, {Index, _} = Shard, Seed) ->
    opened(#stream{phases = Phases, position = none, shard = Shard,
                   random = whittle_load_agent_random:seed({Seed, arrivals, Index})}).

%% @doc Computes the nanoseconds of all phases.
-spec duration([phase()]) -> non_neg_integer().
duration(Phases) -> lists:sum([length_of(Phase) || Phase <- Phases]).

length_of({rate, _, _, _, Duration}) -> Duration;
length_of({burst, _}) -> 0;
length_of({pause, Duration}) -> Duration;
length_of({trace, _, Duration}) -> Duration;
length_of({closed, _, Duration}) -> Duration.

%% @doc Takes the next start: nanoseconds after the start of the run. The result is `{closed, At,
%% Users}' where the number of closed users of this agent changes, and `none' after the last.
-spec next(stream()) ->
          {start, non_neg_integer(), stream()}
        | {closed, non_neg_integer(), non_neg_integer(), stream()}
        | none.
next(#stream{phases = []}) -> none;
next(#stream{phases = [{rate, _, From, To, Duration} | _], position = Position, start = Start}
     = Stream) ->
    Seconds = Duration / ?SECOND,
    Total = (From + To) / 2 * Seconds,
    case Position < Total of
        true ->
            %% R(t) = From t + Slope t^2 / 2, solved for t without a difference of large numbers.
            Slope = (To - From) / Seconds,
            Root = math:sqrt(max(0.0, From * From + 2 * Slope * Position)),
            At = case From + Root of
                     +0.0 -> 0.0;
                     Sum -> 2 * Position / Sum
                 end,
            {start, Start + min(Duration, round(At * ?SECOND)), stepped(Stream)};
        false -> next(following(Stream))
    end;
next(#stream{phases = [{closed, Users, _} | _], position = none, start = Start,
             shard = {Index, Count}} = Stream) ->
    {closed, Start, own(Users, Index, Count), Stream#stream{position = ended}};
next(#stream{phases = [{closed, _, _} | Phases], position = ended} = Stream) ->
    #stream{start = End} = Next = following(Stream),
    case Phases of
        [{closed, _, _} | _] -> next(Next);
        _ -> {closed, End, 0, Next}
    end;
next(#stream{phases = [{burst, _} | _], position = 0} = Stream) -> next(following(Stream));
next(#stream{phases = [{burst, _} | _], position = Left, start = Start} = Stream) ->
    {start, Start, Stream#stream{position = Left - 1}};
next(#stream{phases = [{trace, _, _} | _], position = [At | More], start = Start} = Stream) ->
    {start, Start + At, Stream#stream{position = More}};
next(Stream) -> next(following(Stream)).

following(#stream{phases = [Phase | Phases], start = Start} = Stream) ->
    opened(Stream#stream{phases = Phases, start = Start + length_of(Phase)}).

%% Sets the position of the first phase: its first R(t), the users or the times that are left.
opened(#stream{phases = [{rate, _, _, _, _} | _], shard = {Index, Count}} = Stream) ->
    case Stream of
        #stream{phases = [{rate, constant, _, _, _} | _]} -> Stream#stream{position = Index + 0.5};
        _ ->
            {E, Random} = whittle_load_agent_random:exponential(Stream#stream.random),
            Stream#stream{position = E * Count, random = Random}
    end;
opened(#stream{phases = [{burst, Users} | _], shard = {Index, Count}} = Stream) ->
    Stream#stream{position = own(Users, Index, Count)};
opened(#stream{phases = [{trace, Times, _} | _], shard = {Index, Count}} = Stream) ->
    Stream#stream{position = [At || {N, At} <- lists:zip(lists:seq(0, length(Times) - 1), Times),
                                    N rem Count =:= Index]};
opened(Stream) -> Stream#stream{position = none}.

stepped(#stream{phases = [{rate, constant, _, _, _} | _], position = Position,
                shard = {_, Count}} = Stream) ->
    Stream#stream{position = Position + Count};
stepped(#stream{position = Position, shard = {_, Count}, random = Random} = Stream) ->
    {E, Next} = whittle_load_agent_random:exponential(Random),
    Stream#stream{position = Position + E * Count, random = Next}.

%% The users of N in all that belong to one agent.
own(N, Index, Count) -> (N + Count - 1 - Index) div Count.
