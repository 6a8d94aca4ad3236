%% @doc Runs a study: it builds the programs, runs the cells in order, and keeps each sample.
%% @hidden
-module(whittle_measure_run).

-import(whittle_measure_study, [sample_key/1]).
-import(whittle_work, [steps/1]).

-export([run/2, count_planned/1]).

-export_type([options/0, event/0, reason/0]).

-type options() :: #{dir := file:filename(),
                     resume => boolean(),                 % default: false
                     command => unicode:chardata(),       % the user's, for the page
                     tell => fun((event()) -> term())}.

%% `left' is the estimate of the time left, in seconds.
-type event() :: {build, pos_integer(), pos_integer(), atom()}
               | {make, whittle_make:event()}
               | {run, pos_integer(), pos_integer(), map(), {left, non_neg_integer()}}
               | {failed, map(), unicode:chardata()}.

%% The cell in `build' is the first one that needs the build that failed.
-type reason() :: whittle_measure_samples:error() | whittle_measure_subject:reason()
                | {build, whittle_measure_study:cell(), whittle_make:reason()}
                | {no_values, file:filename()}
                | {no_tool, atom(), string(), unicode:chardata()}
                | {no_pauses, atom(), atom()}
                | {too_many_runs, pos_integer(), pos_integer()}.    % the runs, the limit

%% The milliseconds between two readings of memory, and the fewest readings in a duration.
-define(INTERVAL, 1000).
-define(READINGS, 10).

%% The most points of a curve in a sample.
-define(POINTS, 600).


%% @doc Runs the study and returns its directory. The samples are complete when it returns. A cell
%% whose program cannot be built ends the study; a program that fails under a setting is a result.
%% The error is `no_values' if no sample has a value.
%%
%% Everything that would end the study is checked first, as far as that needs no build.
-spec run(whittle_measure_study:study(), options()) -> {ok, file:filename()} | {error, reason()}.
run(Study, Options) ->
    steps([fun(_) -> check_runs(Study) end, fun(_) -> run_checked(Study, Options) end]).

check_runs(#{blocks := Blocks, warmup := Warmup} = Study) ->
    Most = whittle_measure_study:most_runs(),
    case whittle_measure_study:count_cells(Study) * (Blocks + Warmup) of
        Runs when Runs > Most -> {error, {too_many_runs, Runs, Most}};
        _ -> ok
    end.

run_checked(Study, #{dir := Dir} = Options) ->
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    Cells = whittle_measure_study:cells(Study),
    CheckInputs = fun(_) -> whittle_measure_inputs:check(Dir, maps:get(resume, Options, false),
                                                         Study) end,
    steps([CheckInputs,
           fun(_) -> check_tools(Study) end,
           fun(_) -> check_builds(Cells, Study) end,
           fun(_) -> make_dir(Dir) end,
           %% Another run may have ended since the first check.
           fun(_) -> whittle_measure_samples:alone(
                       Dir, fun() -> steps([CheckInputs,
                                            fun(_) -> whittle_measure_samples:claim(Dir) end,
                                            fun(_) -> make_dir(filename:join(Dir, "builds")) end,
                                            fun(_) -> run_alone(Cells, Study, Options, Tell) end])
                            end) end]).

%% Replaces the programs of an earlier run, so no other run may use them.
run_alone(Cells, Study, #{dir := Dir} = Options, Tell) ->
    steps([fun(_) -> prepare(Cells, Study, Dir, Tell) end,
           fun(Prepared) ->
                   steps([fun(_) -> log(Study, Prepared, Options) end,
                          fun({Log, Before}) ->
                                  Done = measure(Cells, Before, Study, Prepared,
                                                 #{dir => Dir, log => Log, tell => Tell}),
                                  ok = whittle_measure_samples:close(Log),
                                  Done
                          end])
           end,
           fun with_values/1]).

with_values(Dir) ->
    case whittle_measure_samples:read(Dir) of
        {ok, _, Samples} ->
            case [Values || #{<<"values">> := Values} <- Samples, map_size(Values) > 0] of
                [] -> {error, {no_values, Dir}};
                _ -> {ok, Dir}
            end;
        {error, _} = Error -> Error
    end.

check_tools(#{responses := Responses}) ->
    case [{no_tool, Name, Program, Remedy}
          || #{name := Name} = Response <- Responses,
             {Program, Remedy} <- [whittle_measure_response:lacks(Response)]] of
        [] -> ok;
        [Error | _] -> {error, Error}
    end.

check_builds(Cells, #{base := Base} = Study) ->
    Builds = whittle_measure_subject:builds(Cells),
    steps([fun(_) -> check_pauses(Build, Study) end || Build <- Builds]
          ++ [fun(_) -> of_cell(Build, Cells, whittle_measure_subject:check(Build, Base)) end
              || Build <- Builds]).

%% Adds the cell to an error of `whittle_make', which knows nothing of the study.
of_cell(Build, Cells, {error, {make, Reason}}) ->
    [First | _] = [Cell || Cell <- Cells, whittle_measure_subject:build(Cell) =:= Build],
    {error, {build, First, Reason}};
of_cell(_, _, Result) -> Result.

%% Without code that nothing can reach, a system cannot load the counter of pauses.
check_pauses(#{program := #{name := Name} = Program, runner := whittle,
               request := #{shake := #{missing := crash}}}, #{responses := Responses}) ->
    case [Kind || #{kind := Kind} = Response <- Responses,
                  whittle_measure_instruments:is_counter_needed(Response),
                  whittle_measure_response:applies(Response, Program)] of
        [] -> ok;
        [Kind | _] -> {error, {no_pauses, Name, Kind}}
    end;
check_pauses(_, _) -> ok.

make_dir(Dir) ->
    case filelib:ensure_path(Dir) of
        ok -> ok;
        {error, Reason} -> {error, {file, Dir, Reason}}
    end.

%% Builds each program once. The modules of OTP's source come first: the source may lack one.
prepare(Cells, Study, Dir, Tell) ->
    Builds = whittle_measure_subject:builds(Cells),
    TellMake = fun(Event) -> Tell({make, Event}) end,
    Sourced = steps([fun(_) -> {ok, #{}} end
                     | [fun(Before) ->
                                steps([fun(_) -> whittle_measure_source:complete(Build, Dir,
                                                                                 TellMake)
                                       end,
                                       fun(WithInput) -> {ok, Before#{Build => WithInput}} end])
                        end || Build <- Builds]]),
    case Sourced of
        {ok, WithInputs} -> build_all(Cells, Builds, WithInputs, Study, Dir, Tell);
        {error, _} -> Sourced
    end.

build_all(Cells, Builds, WithInputs, #{base := Base} = Study, Dir, Tell) ->
    Count = length(Builds),
    Outputs = filename:join(Dir, "builds"),
    TellMake = fun(Event) -> Tell({make, Event}) end,
    Each = steps([fun(_) -> {ok, {#{}, none}} end
                  | [fun({Before, Shared}) ->
                             #{program := #{name := Name}} = Build,
                             Tell({build, Index, Count, Name}),
                             steps([fun(_) ->
                                            whittle_measure_record:complete(
                                              map_get(Build, WithInputs), Study, Dir, TellMake)
                                    end,
                                    fun(Complete) ->
                                            of_cell(Build, Cells,
                                                    whittle_measure_subject:prepare(
                                                      Complete, Base, Outputs, TellMake, Shared))
                                    end,
                                    fun({Made, New}) -> {ok, {Before#{Build => Made}, New}} end])
                     end || {Index, Build} <- lists:enumerate(Builds)]]),
    case Each of
        {ok, {Prepared, _}} -> {ok, Prepared};
        {error, _} -> Each
    end.

log(Study, Prepared, #{dir := Dir} = Options) ->
    Facts = whittle_measure_samples:with_maker(Options, facts(Study, Prepared)),
    case maps:get(resume, Options, false) of
        false ->
            case whittle_measure_samples:create(Dir, Facts) of
                {ok, Log} -> {ok, {Log, []}};
                {error, _} = Error -> Error
            end;
        true ->
            case whittle_measure_samples:open(Dir, Facts) of
                {ok, Log, Samples} -> {ok, {Log, Samples}};
                {error, _} = Error -> Error
            end
    end.

facts(#{name := Name, title := Title, seed := Seed} = Study, Prepared) ->
    #{study => unicode:characters_to_binary(Name), title => unicode:characters_to_binary(Title),
      term => unicode:characters_to_binary(io_lib:format("~tp.~n", [Study])),
      seed => Seed, machine => whittle_measure_machine:facts(),
      inputs => whittle_measure_inputs:digests(Study, Prepared)}.

%% Measures what no sample has yet: first the builds, then the runs.
measure(Cells, Before, Study, Prepared, Context) ->
    steps([fun(_) -> measure_builds(Cells, Before, Study, Prepared, Context) end,
           fun(_) -> measure_runs(Before, Study, Prepared, Context) end]).

%% Takes the exact responses once from each build. The sample names the cells that share the build.
measure_builds(Cells, Before, #{responses := Responses} = Study, Prepared, Context) ->
    Exact = Study#{responses := [Each || Each <- Responses,
                                         whittle_measure_response:is_exact(Each)]},
    Done = [Of || #{<<"block">> := <<"build">>, <<"cells">> := Of} <- Before],
    ByBuild = maps:groups_from_list(fun whittle_measure_subject:build/1, Cells),
    steps([fun(_) -> measure_build(Of, maps:get(Build, Prepared), Exact, Context) end
           || {Build, Of} <- lists:sort(maps:to_list(ByBuild)),
              not lists:member([sample_key(Cell) || Cell <- Of], Done)]).

measure_build([First | _] = Cells, Made, Study, #{log := Log} = Context) ->
    case taken(First, static(Made), Study, Context) of
        #{values := Values, failed := Failed}
          when map_size(Values) =:= 0, map_size(Failed) =:= 0 -> ok;
        Taken ->
            Keys = [sample_key(Cell) || Cell <- Cells],
            whittle_measure_samples:append(Log, Taken#{block => build, cells => Keys,
                                                       at => erlang:system_time(millisecond)})
    end.

%% Lists the runs of a study in their order, also those that warm up.
planned(Study) -> whittle_measure_order:runs(Study, measured(Study)).

%% @doc Counts the runs of a stored study, whose numbers somebody may have changed.
-spec count_planned(map()) -> non_neg_integer().
count_planned(#{blocks := Blocks} = Study) ->
    Warmup = case Study of
                 #{warmup := Count} when is_integer(Count) -> Count;
                 _ -> 0
             end,
    max(0, Blocks + Warmup) * length(measured(Study)).

%% A study of builds alone has nothing to run.
measured(#{responses := Responses} = Study) ->
    Varying = varying(Responses),
    [Cell || #{program := Program} = Cell <- whittle_measure_study:cells(Study),
             lists:any(fun(Each) -> whittle_measure_response:applies(Each, Program) end, Varying)].

varying(Responses) ->
    [Each || Each <- Responses, not whittle_measure_response:is_exact(Each)].

measure_runs(Before, #{responses := Responses} = Study, Prepared, #{dir := Dir} = Context) ->
    Done = maps:from_keys([{Block, Cell} || #{<<"block">> := Block, <<"cell">> := Cell} <- Before],
                          []),
    Todo = [Run || #{block := Block, cell := Cell} = Run <- planned(Study),
                   not is_map_key({Block, sample_key(Cell)}, Done)],
    case all(Todo, 1, length(Todo), erlang:monotonic_time(second),
             Study#{responses := varying(Responses)}, Prepared, Context) of
        ok -> {ok, Dir};
        {error, _} = Error -> Error
    end.

all([], _, _, _, _, _, _) -> ok;
all([#{cell := Cell} = Run | Rest], Index, Count, Start, Study, Prepared,
    #{log := Log, tell := Tell} = Context) ->
    Tell({run, Index, Count, whittle_measure_study:key(Cell),
          {left, left(Index, Count, Start, Study)}}),
    Kept = steps([fun(_) -> sample(Run, Study, Prepared, Context) end,
                  fun(Sample) -> whittle_measure_samples:append(Log, Sample) end]),
    case Kept of
        {error, _} = Error -> Error;
        _ -> all(Rest, Index + 1, Count, Start, Study, Prepared, Context)
    end.

%% Estimates with the mean of the runs so far, or at first with the duration in the study.
left(1, Count, _, #{duration := Duration}) -> Count * Duration;
left(Index, Count, Start, _) ->
    round((erlang:monotonic_time(second) - Start) / (Index - 1) * (Count - Index + 1)).

sample(#{block := Block, position := Position, cell := Cell}, Study, Prepared,
       #{dir := Dir, tell := Tell} = Context) ->
    Pace = whittle_measure_machine:pace(),
    Before = whittle_measure_machine:look(),
    Outcome = outcome(Cell, maps:get(whittle_measure_subject:build(Cell), Prepared), Study,
                      Context),
    Load = whittle_measure_machine:between(Before, whittle_measure_machine:look(),
                                           whittle_measure_observe:cpu_apart(Outcome)),
    Common = #{block => Block, position => Position, cell => sample_key(Cell),
               at => erlang:system_time(millisecond), machine => Load#{pace => Pace}},
    case Outcome of
        {ok, Seen} ->
            Taken = taken(Cell, Seen, Study, Context),
            {ok, maps:merge(Common, (account(Seen))#{curve => curve(Seen),
                                                     values => maps:get(values, Taken),
                                                     failed => maps:get(failed, Taken)})};
        {error, Reason} ->
            Line = unicode:characters_to_binary(whittle_measure_observe:format_error(Reason)),
            Tell({failed, whittle_measure_study:key(Cell), Line}),
            Failed = Common#{values => #{}, failed => #{run => Line}, curve => []},
            case whittle_measure_samples:keep_log(Dir, {Block, Position},
                                                  whittle_measure_observe:output(Reason)) of
                {ok, Named} -> {ok, maps:merge(Failed, Named)};
                {error, _} = Error -> Error
            end
    end.

curve(Seen) ->
    whittle_measure_curve:thin(
      ?POINTS,
      [[At div 1000, Rss, Pss, Anonymous]
       || {At, #{rss := Rss, pss := Pss, anonymous := Anonymous}} <- maps:get(memory, Seen, [])]).

account(#{account := {ok, Account}}) -> #{account => whittle_measure_account:sample(Account)};
account(_) -> #{}.

%% Takes the numbers of the responses from an outcome.
taken(#{program := Program} = Cell, Seen, #{responses := Responses}, #{dir := Dir, tell := Tell}) ->
    Values = [{atom_to_binary(Name),
               whittle_measure_response:value(Response, Seen#{directory => Dir})}
              || #{name := Name} = Response <- Responses,
                 whittle_measure_response:applies(Response, Program)],
    _ = [Tell({failed, whittle_measure_study:key(Cell), Line}) || {_, {error, Line}} <- Values],
    #{values => maps:from_list([{Name, Value} || {Name, {ok, Value}} <- Values]),
      failed => maps:from_list([{Name, unicode:characters_to_binary(Line)}
                                || {Name, {error, Line}} <- Values])}.

static(Made) -> maps:with([out, size, vm, library], Made).

%% Runs the program only if one of its responses needs it. Responses of other programs change
%% nothing about the run.
outcome(#{program := Program} = Cell, Made,
        #{responses := All, duration := Duration, base := Base}, #{dir := Dir}) ->
    Responses = [Each || Each <- All, whittle_measure_response:applies(Each, Program)],
    Static = static(Made),
    case [run || Response <- Responses, whittle_measure_response:needs(Response) =:= run] of
        [] -> {ok, Static};
        _ ->
            Settings = (settings(Program, Duration))
                #{variables => whittle_measure_subject:variables(Cell, Base)},
            {Subject, Set} = whittle_measure_instruments:attach(
                               Responses, whittle_measure_subject:subject(Cell, Made), Settings,
                               Dir),
            case whittle_measure_observe:run(Subject, Set) of
                {ok, Seen} ->
                    {ok, maps:merge(Static,
                                    whittle_measure_instruments:read(Responses, Dir, Seen))};
                {error, _} = Error -> Error
            end
    end.

settings(Program, Duration) ->
    maps:merge(maps:with([ready, workload], Program),
               #{duration => 1000 * Duration,
                 patience => whittle_measure_observe:patience(1000 * Duration),
                 interval => min(?INTERVAL, 1000 * Duration div ?READINGS)}).
