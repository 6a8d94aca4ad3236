%% @doc Runs load tests: simulated users in agent VMs against a server, from the file of a scenario.
%%
%% {@link run/2} builds the agent with Whittle, starts as many as the scenario needs, and adds up
%% their samples. Latencies count from the intended start of each step.
-module(whittle_load).

-export([account/2, account_tables/1, account_json/1, account_progress/1]).
-export([run/2, stop/1, report/1, check/2, need/1]).
-export([compare/2, comparison_tables/1, comparison_json/1]).
-export([view/2, viewed/2, view_lines/2]).
-export([progress/2, warnings/1, tables/1, json/1, met/1, code/1, format_error/1, details/1]).

-export_type([options/0, report/0, event/0, need/0, reason/0]).

-type options() ::
        #{agents => pos_integer(),              % default: as many as the scenario needs
          seed => integer(),                    % instead of the scenario's
          allow_remote => boolean(),            % default: false
          %% The directory of the results, or a name for a new one. Default: none
          dir => file:filename() | {new, file:filename()},
          command => [string()],                % for the page
          hosts => [string()],                  % other machines for the agents, by ssh
          trial => boolean(),                   % of check/2: runs some users; default: false
          tell => fun((event()) -> term())}.

%% `needs' comes before a run, and lists the limits that it will hit. `building_agent' comes before
%% the build of the agent, and `starting_agents' before its start, with the number of its copies.
-type event() :: whittle_make:event() | whittle_load_run:event() | {needs, [need()]}
               | building_agent | {starting_agents, pos_integer()}
               | {writing, Directory :: file:filename()}.

-type need() :: whittle_load_limits:need().

%% Of run/2 and report/1. `dir', `page' and `notes' are there if the run has a directory. `failure'
%% says that the last files could not be written.
-type report() :: #{result := whittle_load_result:result(), dir => file:filename(),
                    page => file:filename(), notes => [unicode:chardata()], failure => reason(),
                    _ => _}.

-type reason() :: whittle_load_scenario:error()
                | whittle_load_run:error()
                | whittle_load_target:error()
                | whittle_load_limits:error()
                | whittle_load_samples:error()
                | whittle_load_build:error()
                | whittle_load_account:error()
                | whittle_load_trial:error()
                | whittle_load_hosts:error()
                | whittle_load_account_text:error().

%% @doc Runs a scenario and returns its report. Errors are those of {@link format_error/1}.
-spec run(file:filename(), options()) -> {ok, report()} | {error, reason()}.
run(File, Options) ->
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    whittle_work:steps(
      [fun(_) ->
               case whittle_load_hosts:check(hosts(Options)) of
                   ok -> whittle_load_scenario:read(File);
                   {error, _} = Error -> Error
               end
       end,
       fun(Scenario) -> whittle_load_target:resolve(Scenario, Options) end,
       fun(Scenario) -> planned(Scenario, Options) end,
       fun({Scenario, Spread, Needs}) ->
               _ = [Tell({needs, Missing})
                    || [_ | _] = Missing <- [[Need || Need <- Needs,
                                                      not whittle_load_limits:enough(Need)]]],
               kept(File, changed(Scenario, Spread, Options), Spread, Options,
                    fun(Changed, Keep) ->
                            _ = Tell(building_agent),
                            whittle_load_build:with_agent(
                              Scenario, Spread, hosts(Options), Tell,
                              fun(Commands) -> run(Changed, Commands, Spread, Tell, Keep) end)
                    end)
       end]).

%% Opens the directory of the results before anything is built, and writes its last files.
kept(File, Scenario, #{agents := Agents}, #{dir := Given} = Options, Run) ->
    Dir = case Given of
              {new, Name} -> whittle_load_samples:free(Name);
              _ -> Given
          end,
    Facts = whittle_load_report:facts(File, Scenario, Options#{agents => Agents,
                                                               holds => holds(Scenario)}),
    Created = whittle_work:steps(
                [fun(_) -> whittle_load_samples:check(Dir) end,
                 fun(_) ->
                         whittle_unfinished:begun(Dir,
                                                  fun() -> whittle_load_samples:remove(Dir) end)
                 end,
                 fun(_) -> whittle_load_samples:create(Dir, Facts) end]),
    case Created of
        {ok, Log} ->
            try Run(Scenario, fun(Second) -> keep(Dir, Log, Second) end) of
                {ok, Outcome} -> {ok, finished(Dir, Log, Options, Outcome#{dir => Dir})};
                {error, _} = Error ->
                    ok = whittle_load_samples:remove(Dir),
                    Error
            after
                ok = whittle_unfinished:done(Dir),
                whittle_load_samples:close(Log)
            end;
        {error, _} = Error ->
            ok = whittle_unfinished:done(Dir),
            Error
    end;
kept(_, Scenario, _, _, Run) -> Run(Scenario, fun(_) -> ok end).

keep(Dir, Log, Second) ->
    %% With a sample, the directory is a result.
    ok = whittle_unfinished:done(Dir),
    case whittle_load_samples:append(Log, Second) of
        ok -> ok;
        {error, {cannot_write, {File, Reason}}} ->
            {stop, [File, " cannot be written (", file:format_error(Reason), "). Free space there; "
                    "then `whittle load report ", Dir, "' writes the page from the samples up to "
                    "there"]}
    end.

%% If the samples could not be written, neither can the other files.
finished(_, _, _, #{stopped := {{kept, _}, _}} = Outcome) -> Outcome;
finished(Dir, Log, Options, #{lost := Lost, stopped := Stopped} = Outcome) ->
    _ = (maps:get(tell, Options, fun(_) -> ok end))({writing, Dir}),
    Written = whittle_work:steps(
                [fun(_) ->
                         whittle_load_samples:finish(Log, #{lost => Lost, stopped => Stopped})
                 end,
                 fun(_) -> report(Dir) end]),
    case Written of
        {ok, #{page := Page, notes := Notes, phases := Phases}} ->
            Outcome#{page => Page, notes => Notes, phases := Phases};
        {error, Reason} -> Outcome#{failure => Reason}
    end.

%% @doc Computes the report of a directory again, and writes its files. Errors are those of {@link
%% format_error/1}.
-spec report(file:filename()) -> {ok, report()} | {error, reason()}.
report(Dir) ->
    case whittle_load_report:read(Dir) of
        {ok, Report} ->
            case whittle_load_report:write(Dir, Report) of
                {ok, Page, Notes} -> {ok, Report#{dir => Dir, page => Page, notes => Notes}};
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

hosts(Options) -> maps:get(hosts, Options, []).

%% Each host has an agent at least.
planned(Scenario, Options) ->
    Machine = whittle_load_machine:limits(),
    case whittle_load_limits:spread(Scenario, Options#{least => max(1, length(hosts(Options)))},
                                    Machine) of
        {ok, Spread} ->
            {ok, {Scenario, Spread, whittle_load_limits:check(Scenario, Spread, Machine)}};
        {error, _} = Error -> Error
    end.

changed(#{seed := Seed} = Scenario, #{sources := Sources}, Options) ->
    Scenario#{seed := maps:get(seed, Options, Seed), sources := Sources}.

run(Scenario, Commands, #{agents := Agents}, Tell, Keep) ->
    _ = Tell({starting_agents, Agents}),
    %% Machines have different clocks.
    {Second, Whole} = case Commands of
                          [_] -> {fun(Each) -> Each end, fun(Each) -> Each end};
                          _ -> {fun whittle_load_second:without_delivery/1,
                                fun whittle_load_result:without_delivery/1}
                      end,
    case whittle_load_run:run(Scenario, #{agents => Agents, commands => Commands, tell => Tell,
                                          keep => fun(Each) -> Keep(Second(Each)) end,
                                          server => server(Scenario)}) of
        {ok, #{result := Counted} = Outcome} ->
            #{thresholds := Thresholds} = Scenario,
            Result = Whole(Counted),
            {ok, Outcome#{result := Result, machines => length(Commands), scenario => Scenario,
                          agents => Agents, holds => holds(Scenario), phases => [],
                          verdicts => whittle_load_result:judge(Thresholds, Result)}};
        {error, _} = Error -> Error
    end.

%% The server is here, or its owner watches it.
server(#{target := Target}) ->
    Pids = whittle_load_server:find(Target),
    fun() -> whittle_load_server:read(Pids) end.

%% HTTP users never count as held.
holds(#{classes := Classes}) ->
    lists:any(fun(#{program := Program}) -> lists:member(held, tuple_to_list(Program)) end,
              Classes).

%% @doc Compares two directories: users, errors and the latencies of the steps that both have.
%% Errors are those of {@link format_error/1}.
-spec compare(file:filename(), file:filename()) ->
          {ok, whittle_load_comparison:comparison()} | {error, reason()}.
compare(One, Other) ->
    whittle_work:steps(
      [fun(_) -> whittle_load_report:read(One) end,
       fun(First) ->
               case whittle_load_report:read(Other) of
                   {ok, Second} ->
                       {ok, whittle_load_comparison:compare({One, First}, {Other, Second})};
                   {error, _} = Error -> Error
               end
       end]).

%% @doc Writes a comparison as tables for a terminal. The first row of a table is its head.
-spec comparison_tables(whittle_load_comparison:comparison()) ->
          [[[unicode:chardata() | integer()]]].
comparison_tables(Comparison) -> whittle_load_comparison:tables(Comparison).

%% @doc Writes a comparison as data.
-spec comparison_json(whittle_load_comparison:comparison()) -> whittle_json:json().
comparison_json(Comparison) -> whittle_load_comparison:json(Comparison).

%% @doc Stops a run in order. The pid comes with the event `running'.
-spec stop(pid()) -> ok.
stop(Pid) -> whittle_load_run:stop(Pid).

%% @doc Lists the limits of this machine that matter for a scenario, without a run, or with a short
%% trial for the CPU time. Errors are those
%% of {@link format_error/1}.
-spec check(file:filename(), options()) ->
          {ok, #{users := non_neg_integer(), agents := pos_integer(), needs := [need()],
                 enough := boolean()}} | {error, reason()}.
check(File, Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_load_scenario:read(File) end,
       fun(Scenario) -> whittle_load_target:resolve(Scenario, Options) end,
       fun(Scenario) -> planned(Scenario, Options) end,
       fun({Scenario, Spread, Needs}) ->
               case trial(Scenario, Spread, Options) of
                   {ok, Tried} -> {ok, {Spread, Needs ++ Tried}};
                   {error, _} = Error -> Error
               end
       end,
       fun({#{users := Users, agents := Agents}, Needs}) ->
               {ok, #{users => Users, agents => Agents, needs => Needs,
                      enough => lists:all(fun whittle_load_limits:enough/1, Needs)}}
       end]).

%% The process collects the seconds of the trial in its dictionary: `tell' runs in it.
trial(Scenario, #{users := Users}, #{trial := true} = Options) ->
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    Watch = fun({second, _, Result}) -> put(?MODULE, [second(Result) | get(?MODULE)]);
               ({running, _, _}) -> ok;
               ({sample, _}) -> ok;
               (Event) -> Tell(Event)
            end,
    Trial = whittle_load_trial:scenario(Scenario),
    undefined = put(?MODULE, []),
    _ = Tell(building_agent),
    Run = whittle_load_build:with_agent(
            Trial, #{files => 1024, agents => 1}, [], Tell,
            fun(Commands) ->
                    whittle_load_run:run(Trial, #{agents => 1, commands => Commands, tell => Watch})
            end),
    case {Run, lists:reverse(erase(?MODULE))} of
        {{ok, #{result := Result}}, Seconds} ->
            case whittle_load_trial:need(Scenario, Users, Seconds,
                                         whittle_load_result:event(connected, Result),
                                         erlang:system_info(logical_processors_available)) of
                {ok, Need} -> {ok, [Need]};
                {error, _} = Error -> Error
            end;
        {{error, _} = Error, _} -> Error
    end;
trial(_, _, _) -> {ok, []}.

second(Result) ->
    {lists:sum([Cpu || {_, #{cpu := Cpu}} <- whittle_load_result:agents(Result)]),
     whittle_load_result:event(started, Result), whittle_load_result:event(ended, Result)}.

%% @doc Measures what a connection costs at each end. The choices have the form `FACTOR=VALUE'.
%% Errors are those of {@link format_error/1}.
-spec account([string()], #{connections := pos_integer(),
                            tell := fun((whittle_load_account:event()) -> term())}) ->
          {ok, [whittle_load_account:account()]} | {error, reason()}.
account(Choices, Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_load_account_text:choices(Choices) end,
       fun(Kinds) -> whittle_load_account:measure(Options#{kinds => Kinds}) end]).

%% @doc Writes accounts as tables for a terminal. The first row of a table is its head.
-spec account_tables([whittle_load_account:account()]) -> [[[unicode:chardata() | integer()]]].
account_tables(Accounts) -> whittle_load_account_text:tables(Accounts).

%% @doc Writes accounts as data.
-spec account_json([whittle_load_account:account()]) -> whittle_json:json().
account_json(Accounts) -> whittle_load_account_text:json(Accounts).

%% @doc Writes the state of the measurement as a line.
-spec account_progress(whittle_load_account:event()) -> unicode:chardata().
account_progress({measuring, Kind, N, Of, Held}) ->
    [io_lib:format("~b of ~b: ", [N, Of]), whittle_load_account_text:name(Kind), ": ",
     whittle_load_unit:format_count(Held), " connections"].

%% @doc Writes what a run needs, what the machine has, and what to do if it is not enough.
-spec need(need()) -> {Limit :: string(), Needs :: string(), Has :: string(), Lift :: string()}.
need(#{limit := Limit, needs := Needs, has := Has, lift := Lift} = Need) ->
    {Limit, whittle_load_unit:format_count(Needs),
     case Has of unknown -> "unknown"; _ -> whittle_load_unit:format_count(Has) end,
     case whittle_load_limits:enough(Need) of true -> "enough"; false -> Lift end}.

%% @doc Makes the view of a run that begins, for a terminal. The duration comes with the event
%% `running'.
-spec view(Title :: unicode:chardata(), Duration :: non_neg_integer()) -> whittle_load_view:view().
view(Title, Duration) -> whittle_load_view:new(Title, Duration).

%% @doc Adds what comes with the event `sample'.
-spec viewed(whittle_load_second:second(), whittle_load_view:view()) -> whittle_load_view:view().
viewed(Second, View) -> whittle_load_view:sample(Second, View).

%% @doc Lays out the view for a terminal with so many columns and rows.
-spec view_lines(whittle_load_view:view(), {Columns :: pos_integer(), Rows :: pos_integer()}) ->
          [[{plain | bold | good | bad, unicode:chardata()}]].
view_lines(View, Size) -> whittle_load_view:lines(View, Size).

%% @doc Writes the line of one second of a run.
-spec progress(non_neg_integer(), whittle_load_result:result()) -> unicode:chardata().
progress(Second, Result) -> whittle_load_table:progress(Second, Result).

%% @doc Writes a line for each thing that one must know before one reads the numbers. The first says
%% that the agents could not keep up with the scenario.
-spec warnings(report()) -> [unicode:chardata()].
warnings(Report) -> whittle_load_table:warnings(Report).

%% @doc Tells whether all thresholds are met, no agent was lost, a user could connect, not all users
%% failed, a step got an answer if steps wait for answers, and a user was held if the users of the
%% scenario can be.
-spec met(report()) -> boolean().
met(Report) -> whittle_load_table:met(Report).

%% @doc Writes the report as tables for a terminal. The first row of a table is its head.
-spec tables(report()) -> [[[unicode:chardata() | integer()]]].
tables(Report) -> whittle_load_table:tables(Report).

%% @doc Writes the report as data, with the names of its directory and its page.
-spec json(report()) -> whittle_json:json().
json(Report) ->
    Name = fun(Key) ->
                   case Report of
                       #{Key := File} -> unicode:characters_to_binary(File);
                       #{} -> null
                   end
           end,
    (whittle_load_table:json(Report))#{directory => Name(dir), page => Name(page)}.

%% @doc Returns the name of an error.
-spec code(reason()) -> atom().
code({make, Reason}) -> whittle_make:code(Reason);
code({Code, _}) -> Code;
code(Code) -> Code.

%% @doc Returns the lines to print above an error: the last output of another program.
-spec details(reason()) -> [unicode:chardata()].
details({make, Reason}) -> whittle_make:details(Reason);
details(_) -> [].

%% @doc Formats an error as one line for a person.
-spec format_error(reason()) -> unicode:chardata().
format_error({Tag, _} = Reason) when Tag =:= unreadable; Tag =:= scenario ->
    whittle_load_scenario:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= unknown_host; Tag =:= remote;
                                      Tag =:= source; Tag =:= no_source ->
    whittle_load_target:format_error(Reason);
format_error({too_many_agents, _} = Reason) -> whittle_load_limits:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= make; Tag =:= directory ->
    whittle_load_build:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= exists; Tag =:= not_empty; Tag =:= no_samples;
                                     Tag =:= damaged; Tag =:= cannot_write ->
    whittle_load_samples:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= host; Tag =:= host_name; Tag =:= no_ssh ->
    whittle_load_hosts:format_error(Reason);
format_error({trial, _} = Reason) -> whittle_load_trial:format_error(Reason);
format_error({Tag, _} = Reason) when Tag =:= account; Tag =:= memory; Tag =:= few_files ->
    whittle_load_account:format_error(Reason);
format_error(unknown) -> whittle_load_account:format_error(unknown);
format_error(Reason)
  when Reason =:= impossible; element(1, Reason) =:= choice; element(1, Reason) =:= factor;
       element(1, Reason) =:= value ->
    whittle_load_account_text:format_error(Reason);
format_error(Reason) -> whittle_load_run:format_error(Reason).
