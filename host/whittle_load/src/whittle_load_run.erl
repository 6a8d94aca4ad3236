%% @doc Runs a scenario with its agents, and adds up their samples.
%%
%% Each agent is a VM that talks over its standard input and output. All agents get their plan, then
%% all start at the same moment. The run ends when all phases are over, or when somebody stops it.
%% @hidden
-module(whittle_load_run).

-export([run/2, stop/1, format_error/1]).

-export_type([options/0, error/0, event/0, outcome/0, stopped/0]).

-type options() ::
        #{agents := pos_integer(),
          %% The agents take them in turn.
          commands := [whittle_load_build:command(), ...],
          tell := fun((_) -> term()),              % gets each event()
          %% Called once a second. A reason that is not `ok' stops the run.
          keep => fun((whittle_load_second:second()) -> ok | {stop, Reason :: term()}),
          %% The milliseconds in which some agent has to send its last sample. Default: 30,000
          patience => non_neg_integer(),
          %% Reads the CPU time and the memory of the server.
          server => fun(() -> none | whittle_load_second:server())}.

%% `sample' comes once a second, and `second' with the result follows it. If the coordinator is
%% behind its agents, there is no `second', because a newer result is about to come. `running' comes
%% when the users begin to start; from then on stop/1 stops the run.
-type event() :: {running, pid(), Duration :: non_neg_integer()}
               | {sample, whittle_load_second:second()}
               | {second, non_neg_integer(), whittle_load_result:result()}
               | {agent_ended, pos_integer(), ExitCode :: non_neg_integer()}
               | {agent_silent, pos_integer()}                % and killed
               | {agent_garbage, pos_integer()}.              % and given up

-type outcome() :: #{result := whittle_load_result:result(),
                     lost := [pos_integer()],                 % agents that ended too soon
                     duration := non_neg_integer(),           % planned, nanoseconds
                     stopped := none | stopped()}.

%% Why a run ended before its plan, and after how many nanoseconds
-type stopped() :: {asked | {kept, Reason :: term()}, After :: non_neg_integer()}.

-type error() :: {agent_start, Why :: term()}
               | {agent_version, {Theirs :: term(), Ours :: pos_integer()}}.

%% The milliseconds between the order to start and the start: all agents must have the order.
-define(LEAD, 200).
%% The longest time for an agent to say hello, to read a plan, and to send its last sample after
%% that of another agent
-define(PATIENCE, 30_000).
%% All last samples have to come in so many of these times.
-define(LAST_PATIENCES, 4).
%% If more messages wait, the coordinator is behind its agents. 50 agents send so many in 2 s.
-define(BEHIND, 100).

%% The longest message of an agent
-define(MOST_BYTES, 16_000_000).

-record(run, {agents :: #{port() => pos_integer()},
              options :: options(),
              result :: whittle_load_result:result(),
              start :: integer(),                             % monotonic milliseconds
              end_at :: integer(),
              second = whittle_load_second:new() :: whittle_load_second:second(),
              heard = [] :: [pos_integer()],                  % agents with a sample in `second'
              stopped = none :: none | stopped(),
              lost = [] :: [pos_integer()]}).

%% @doc Runs a scenario.
-spec run(whittle_load_scenario:scenario(), options()) -> {ok, outcome()} | {error, error()}.
run(Scenario, #{agents := Count, commands := Commands} = Options) ->
    ok = known_atoms(),
    Ports = [whittle_load_build:open(lists:nth((N - 1) rem length(Commands) + 1, Commands))
             || N <- lists:seq(1, Count)],
    Numbered = lists:zip(Ports, lists:seq(1, Count)),
    try
        case prepared(Numbered, Scenario, Count) of
            ok -> {ok, started(maps:from_list(Numbered), Scenario, Options)};
            {error, _} = Error -> Error
        end
    after
        [catch port_close(Port) || Port <- Ports]
    end.

%% @doc Stops a run in order: no more users start, and the agents send their last samples.
-spec stop(pid()) -> ok.
stop(Pid) ->
    Pid ! {?MODULE, stop},
    ok.

known_atoms() ->
    _ = application:load(whittle_load_agent),
    {ok, Modules} = application:get_key(whittle_load_agent, modules),
    code:ensure_modules_loaded(Modules).

%% Internal functions: preparation

prepared([], _, _) -> ok;
prepared([{Port, N} | Others], Scenario, Count) ->
    case answer(Port) of
        {hello, #{protocol := Version}} ->
            Ours = whittle_load_agent:protocol(),
            case Version of
                Ours ->
                    say({plan, plan(N, Scenario, Count)}, Port),
                    case answer(Port) of
                        ready -> prepared(Others, Scenario, Count);
                        Other -> {error, {agent_start, Other}}
                    end;
                _ -> {error, {agent_version, {Version, Ours}}}
            end;
        Other -> {error, {agent_start, Other}}
    end.

plan(N, #{target := Target, phases := Phases, classes := Classes, seed := Seed,
          sources := Sources, hibernate := Hibernate, rows := Rows}, Count) ->
    #{target => Target, phases => Phases, classes => Classes, seed => Seed,
      shard => {N - 1, Count}, rows => rows(Rows), sources => Sources,
      hibernate => Hibernate}.

rows({function, _} = Rows) -> Rows;
rows(Rows) -> list_to_tuple(Rows).

answer(Port) ->
    receive
        {Port, {data, Bytes}} -> decoded(Bytes);
        {Port, {exit_status, Status}} -> {exit_status, Status}
    after ?PATIENCE -> timeout
    end.

%% An agent on another machine is not trusted. Its atoms are those of its modules here. No agent
%% compresses its terms, because a few bytes could claim gigabytes.
decoded(<<131, 80, _/binary>> = Bytes) -> {garbage, byte_size(Bytes)};
decoded(Bytes) when byte_size(Bytes) > ?MOST_BYTES -> {garbage, byte_size(Bytes)};
decoded(Bytes) ->
    try binary_to_term(Bytes, [safe])
    catch error:badarg -> {garbage, byte_size(Bytes)}
    end.

%% An agent that has ended is noticed by its exit status.
say(Message, Port) ->
    try port_command(Port, term_to_binary(Message)) of
        true -> ok
    catch error:badarg -> ok
    end.

%% Internal functions: the run

started(Agents, #{phases := Phases}, #{tell := Tell} = Options) ->
    [say({start, ?LEAD}, Port) || Port <- maps:keys(Agents)],
    Duration = whittle_load_agent:duration(Phases),
    Start = erlang:monotonic_time(millisecond) + ?LEAD,
    _ = Tell({running, self(), Duration}),
    Run = watch(#run{agents = Agents, options = Options, result = whittle_load_result:new(),
                     start = Start, end_at = Start + Duration div 1_000_000}),
    [say(stop, Port) || Port <- maps:keys(Run#run.agents)],
    Now = erlang:monotonic_time(millisecond),
    Patience = maps:get(patience, Options, ?PATIENCE),
    Last = stopped(Run, Patience, Now + Patience, Now + ?LAST_PATIENCES * Patience),
    #run{result = Result, lost = Lost, stopped = Stopped} = flushed(Last),
    #{result => Result, lost => lists:sort(Lost), duration => Duration, stopped => Stopped}.

%% An agent that sends without an end must not keep the run from its end: `after' alone counts only
%% while no message waits.
watch(#run{agents = Agents, end_at = End, stopped = none} = Run) when map_size(Agents) > 0 ->
    case End - erlang:monotonic_time(millisecond) of
        Left when Left > 0 ->
            receive
                {Port, Message} when is_map_key(Port, Agents) -> watch(heard(Port, Message, Run));
                {?MODULE, stop} -> ended_by(asked, Run)
            after Left -> Run
            end;
        _ -> Run
    end;
watch(Run) -> Run.

ended_by(Why, #run{start = Start, stopped = none} = Run) ->
    After = max(0, erlang:monotonic_time(millisecond) - Start),
    Run#run{stopped = {Why, After * 1_000_000}};
ended_by(_, Run) -> Run.

%% On a machine that is too busy the agents answer one after the other, and each end leaves more of
%% the processors to the others. So each last sample prolongs the wait for the next.
stopped(#run{agents = Agents} = Run, _, _, _) when map_size(Agents) =:= 0 -> Run;
stopped(#run{agents = Agents} = Run, Patience, Until, Latest) ->
    Now = erlang:monotonic_time(millisecond),
    case min(Until, Latest) - Now of
        Left when Left > 0 ->
            receive
                {Port, Message} when is_map_key(Port, Agents) ->
                    case heard(Port, Message, Run) of
                        #run{agents = Agents} = Next -> stopped(Next, Patience, Until, Latest);
                        Next -> stopped(Next, Patience, Now + Patience, Latest)
                    end
            after Left -> silent(Run)
            end;
        _ -> silent(arrived(waiting(), Run))
    end.

%% Samples that have arrived count, also if this process was too slow for them. Those that arrive
%% meanwhile do not, because an agent may send without an end.
arrived(Waiting, #run{agents = Agents} = Run) when Waiting > 0 ->
    receive
        {Port, Message} when is_map_key(Port, Agents) ->
            arrived(Waiting - 1, heard(Port, Message, Run))
    after 0 -> Run
    end;
arrived(_, Run) -> Run.

waiting() ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    Waiting.

%% The agents that have not answered in time
silent(#run{agents = Agents, options = #{tell := Tell}} = Run) ->
    _ = [begin
             kill(Port),
             Tell({agent_silent, N})
         end || {Port, N} <- maps:to_list(Agents)],
    lists:foldl(fun lost/2, Run#run{agents = #{}}, maps:values(Agents)).

kill(Port) ->
    _ = [os:cmd("kill -KILL " ++ integer_to_list(Pid))
         || {os_pid, Pid} <- [erlang:port_info(Port, os_pid)]],
    _ = catch port_close(Port),
    ok.

heard(Port, {data, Bytes}, #run{agents = Agents} = Run) ->
    #{Port := N} = Agents,
    case decoded(Bytes) of
        {Kind, Sample} when Kind =:= sample; Kind =:= stopped ->
            case whittle_load_second:is_sample(Sample) of
                true when Kind =:= sample -> sampled(N, Sample, Run);
                true -> (sampled(N, Sample, Run))#run{agents = maps:remove(Port, Agents)};
                false -> given_up(Port, Run)
            end;
        paced -> Run;
        _ -> given_up(Port, Run)
    end;
heard(Port, {exit_status, Status}, #run{agents = Agents, options = Options} = Run) ->
    #{Port := N} = Agents,
    #{tell := Tell} = Options,
    _ = Tell({agent_ended, N, Status}),
    lost(N, Run#run{agents = maps:remove(Port, Agents)}).

given_up(Port, #run{agents = Agents, options = #{tell := Tell}} = Run) ->
    #{Port := N} = Agents,
    _ = Tell({agent_garbage, N}),
    _ = catch port_close(Port),
    lost(N, Run#run{agents = maps:remove(Port, Agents)}).

lost(N, #run{lost = Lost, second = Second} = Run) ->
    Run#run{lost = [N | Lost], second = whittle_load_second:lost(N, Second)}.

%% A second is complete when each agent has sent its sample. An agent that was late must not delay
%% the others, so the sample of a later second also completes it.
sampled(N, #{second := At} = Sample, #run{second = #{second := Before}, heard = Heard} = Run) ->
    #run{second = Second, heard = Now} = Begun =
        case Heard =/= [] andalso At > Before of
            true -> flushed(Run);
            false -> Run
        end,
    Next = Begun#run{second = whittle_load_second:add(N, Sample, Second),
                     heard = lists:usort([N | Now])},
    case lists:sort(maps:values(Next#run.agents)) -- Next#run.heard of
        [] -> flushed(Next);
        _ -> Next
    end.

flushed(#run{second = Second, result = Result, options = #{tell := Tell} = Options} = Run) ->
    case whittle_load_second:is_empty(Second) of
        true -> Run;
        false ->
            %% A coordinator that is behind must not fall back further: the CPU time of the server
            %% would count for a wrong second, and nobody could see each view.
            IsBehind = waiting() > ?BEHIND,
            Read = case Options of
                       #{server := Server} when not IsBehind -> Server;
                       #{} -> fun() -> none end
                   end,
            Keep = maps:get(keep, Options, fun(_) -> ok end),
            Whole = whittle_load_second:server(Read(), Second),
            Next = Run#run{result = whittle_load_result:second(Whole, Result), heard = [],
                           second = whittle_load_second:new()},
            #{second := At} = Whole,
            Kept = Keep(Whole),
            _ = Tell({sample, Whole}),
            _ = [Tell({second, At, Next#run.result}) || not IsBehind],
            case Kept of
                ok -> Next;
                {stop, Why} -> ended_by({kept, Why}, Next)
            end
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({agent_start, {exit_status, Status}}) ->
    io_lib:format("an agent ended at its start (exit code ~b): its messages stand above", [Status]);
format_error({agent_start, timeout}) ->
    io_lib:format("an agent did not answer within ~b s: run fewer agents", [?PATIENCE div 1000]);
format_error({agent_start, Other}) ->
    io_lib:format("an agent did not start in order (~0tP): this is a bug in Whittle", [Other, 8]);
format_error({agent_version, {Theirs, Ours}}) ->
    io_lib:format("an agent speaks version ~0tP of the protocol, and this Whittle version ~b: "
                  "build it with this Whittle", [Theirs, 8, Ours]).
