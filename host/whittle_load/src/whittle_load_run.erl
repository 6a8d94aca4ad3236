%% @doc Runs a scenario with its agents, and adds up their samples.
%%
%% Each agent is a VM that talks over its standard input and output. All agents get their plan, then
%% all start at the same moment. The run ends when all phases are over.
%% @hidden
-module(whittle_load_run).

-export([run/2, format_error/1]).

-export_type([options/0, error/0, event/0, outcome/0]).

-type options() ::
        #{agents := pos_integer(),
          %% The agents take them in turn.
          commands := [whittle_load_build:command(), ...],
          tell := fun((event()) -> term())}.

%% `second' comes once a second.
-type event() :: {second, non_neg_integer(), whittle_load_result:result()}
               | {agent_ended, pos_integer(), ExitCode :: non_neg_integer()}
               | {agent_silent, pos_integer()}.               % and killed

-type outcome() :: #{result := whittle_load_result:result(),
                     lost := [pos_integer()],                 % agents that ended too soon
                     duration := non_neg_integer()}.          % planned, nanoseconds

-type error() :: {agent_start, Why :: term()}
               | {agent_version, {Theirs :: term(), Ours :: pos_integer()}}.

%% The milliseconds between the order to start and the start: all agents must have the order.
-define(LEAD, 200).
%% The longest time for an agent to say hello, to read a plan, and to send its last sample.
-define(PATIENCE, 30_000).

-record(run, {agents :: #{port() => pos_integer()},
              options :: options(),
              result :: whittle_load_result:result(),
              end_at :: integer(),                            % monotonic milliseconds
              second = 0 :: non_neg_integer(),
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

%% An agent on another machine is not trusted. Its atoms are those of its modules here.
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

started(Agents, #{phases := Phases}, Options) ->
    [say({start, ?LEAD}, Port) || Port <- maps:keys(Agents)],
    Duration = whittle_load_agent:duration(Phases),
    End = erlang:monotonic_time(millisecond) + ?LEAD + Duration div 1_000_000,
    Run = watch(#run{agents = Agents, options = Options, result = whittle_load_result:new(),
                     end_at = End}),
    [say(stop, Port) || Port <- maps:keys(Run#run.agents)],
    #run{result = Result, lost = Lost} =
        stopped(Run, erlang:monotonic_time(millisecond) + ?PATIENCE),
    #{result => Result, lost => lists:sort(Lost), duration => Duration}.

watch(#run{agents = Agents, end_at = End} = Run) when map_size(Agents) > 0 ->
    receive
        {Port, Message} when is_map_key(Port, Agents) -> watch(heard(Port, Message, Run))
    after max(0, End - erlang:monotonic_time(millisecond)) -> Run
    end;
watch(Run) -> Run.

stopped(#run{agents = Agents} = Run, _) when map_size(Agents) =:= 0 -> Run;
stopped(#run{agents = Agents, lost = Lost, options = #{tell := Tell}} = Run, Until) ->
    receive
        {Port, {data, Bytes}} when is_map_key(Port, Agents) ->
            case decoded(Bytes) of
                {stopped, Sample} ->
                    #run{agents = #{Port := N} = Left, result = Result} = Run,
                    stopped(Run#run{agents = maps:remove(Port, Left),
                                    result = whittle_load_result:add(N, Sample, Result)}, Until);
                _ -> stopped(heard(Port, {data, Bytes}, Run), Until)
            end;
        {Port, Message} when is_map_key(Port, Agents) -> stopped(heard(Port, Message, Run), Until)
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
            Silent = maps:values(Agents),
            [begin
                 _ = [os:cmd("kill -KILL " ++ integer_to_list(Pid))
                      || {os_pid, Pid} <- [erlang:port_info(Port, os_pid)]],
                 _ = Tell({agent_silent, N})
             end || {Port, N} <- maps:to_list(Agents)],
            Run#run{agents = #{}, lost = Silent ++ Lost,
                    result = lists:foldl(fun whittle_load_result:lost/2, Run#run.result, Silent)}
    end.

heard(Port, {data, Bytes}, #run{agents = Agents, result = Result} = Run) ->
    case decoded(Bytes) of
        {sample, #{second := Second} = Sample} ->
            #{Port := N} = Agents,
            told(Second, Run#run{result = whittle_load_result:add(N, Sample, Result)});
        _ -> Run
    end;
heard(Port, {exit_status, Status}, #run{agents = Agents, lost = Lost, options = Options,
                                        result = Result} = Run) ->
    #{Port := N} = Agents,
    #{tell := Tell} = Options,
    _ = Tell({agent_ended, N, Status}),
    Run#run{agents = maps:remove(Port, Agents), lost = [N | Lost],
            result = whittle_load_result:lost(N, Result)}.

%% The first sample of a second tells about the second before, of which all agents have sent theirs.
told(Second, #run{second = Before} = Run) when Second =< Before -> Run;
told(Second, #run{result = Result, options = #{tell := Tell}} = Run) ->
    _ = Tell({second, Second - 1, Result}),
    Run#run{second = Second}.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({agent_start, {exit_status, Status}}) ->
    io_lib:format("an agent ended at its start (exit code ~b): its messages stand above", [Status]);
format_error({agent_start, timeout}) ->
    io_lib:format("an agent did not answer within ~b s: run fewer agents", [?PATIENCE div 1000]);
format_error({agent_start, Other}) ->
    io_lib:format("an agent did not start in order (~0tP): this is a bug in Whittle", [Other, 8]);
format_error({agent_version, {Theirs, Ours}}) ->
    io_lib:format("an agent speaks version ~0tp of the protocol, and this Whittle version ~b: "
                  "build it with this Whittle", [Theirs, Ours]).
