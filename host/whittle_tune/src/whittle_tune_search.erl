%% @doc Searches for settings: it runs candidates in random order within blocks, and keeps each run.
%%
%% The search has four parts. One run gives the account. Then each move runs alone, two blocks. Then
%% the combinations of the useful moves race: each block runs all that are left, and after each
%% block {@link whittle_tune_race} takes out those that cannot win. In what is left of the time,
%% variants of the best race against it. At last the best runs in new blocks against the references;
%% these runs decide.
%% @hidden
-module(whittle_tune_search).

-export([run/3, fits/2]).

-export_type([options/0, found/0, event/0, error/0]).

-type options() ::
        #{dir := file:filename(),               % of the samples
          ram := pos_integer() | none,          % bytes
          slowdown := float(),
          seconds := pos_integer(),             % for the whole search
          'try' => [whittle_tune_settings:tried()],   % keys of applications
          blocks => pos_integer(),              % the most of each part; default: 10
          command => unicode:chardata(),        % the user's, for the page
          seed => integer(),
          run := whittle_tune_program:options(),
          tell => fun((event()) -> term())}.

-type event() :: {account, whittle_measure_account:account()}
               | {run, atom(), atom(), {left, integer()}}
               | {failed, atom(), unicode:chardata()}
               | {out, atom(), whittle_tune_race:why()}.

%% `holds' is false if no candidate but the program's own settings holds the limits in the
%% validation, or if these do not hold them either.
-type found() ::
        #{account := whittle_measure_account:account(),
          settings := [whittle_tune_settings:setting()],
          about := whittle_tune_study:about(),
          candidates := [whittle_tune_candidate:candidate()],
          results := [whittle_tune_race:result()],     % of the search
          validation := [whittle_tune_race:result()],
          validated := [atom()],
          best := atom(), holds := boolean(),
          build => #{evidence := file:filename(), seen := only},   % of whittle_tune:tune/2
          detectable := float()}.              % the slowdown that the validation could detect

-type error() :: whittle_tune_program:error() | whittle_tune_settings:error()
               | whittle_measure_samples:error()
               | {budget_below_code, pos_integer(), pos_integer(),
                  whittle_measure_account:account()}
               | {short_work, pos_integer()}
               | {short_time, pos_integer(), pos_integer()}
               | {fails_without, unicode:chardata()}.

%% A time below this is too short to compare.
-define(LEAST_WORK_MS, 300).
%% The runs that a search needs: one block of moves, one of combinations and the validation.
-define(LEAST_RUNS, 35).
%% The seconds that a run takes besides the program: its start and end, and the samples.
-define(AROUND, 0.2).
%% The part of the time that the validation gets, and its blocks.
-define(VALIDATION, 0.3).
-define(LEAST_BLOCKS, 3).
-define(MOST_BLOCKS, 10).
%% The combinations that race.
-define(COMBINATIONS, 6).
%% The candidates of the search that the validation runs.
-define(FINAL, 3).
%% The blocks in which each move runs.
-define(MOVE_BLOCKS, 2).

%% @doc Searches settings for a program. The samples are complete when it returns, and each is on
%% the disk before the next run.
-spec run(file:filename(), whittle_measure_observe:subject(), options()) ->
          {ok, found()} | {error, error()}.
run(Path, Subject, #{run := RunOptions, seconds := Seconds} = Options) ->
    Start = erlang:monotonic_time(second),
    Tell = maps:get(tell, Options, fun(_) -> ok end),
    whittle_work:steps(
      [fun(_) -> first(Subject, RunOptions) end,
       fun({Account, _} = First) -> ok = told(Tell({account, Account})), fits(First, Options) end,
       fun({#{vm := #{otp := Otp}} = Account, Outcome}) ->
               whittle_work:steps(
                 [fun(_) -> whittle_tune_settings:read(release(Otp)) end,
                  fun(Known) ->
                          Settings = Known
                              ++ whittle_tune_settings:tried(maps:get('try', Options, [])),
                          Each = took(Outcome),
                          Least = ceil(?LEAST_RUNS * Each),
                          case Seconds < Least of
                              true -> {error, {short_time, Seconds, Least}};
                              false -> {ok, {Account, Outcome, Settings, Each}}
                          end
                  end])
       end,
       fun({Account, Outcome, Settings, Each}) ->
               Dir = maps:get(dir, Options),
               Blocks = maps:get(blocks, Options, ?MOST_BLOCKS),
               About = #{path => Path, seed => maps:get(seed, Options, 1), blocks => Blocks,
                         kinds => [kind(Work) || Work <- [work(Outcome)], Work =/= none]},
               Facts = whittle_tune_study:facts(
                         About,
                         Options#{candidates => names(first_candidates(Account, Settings))}),
               case whittle_measure_samples:create(
                      Dir, whittle_measure_samples:with_maker(Options, Facts)) of
                   {ok, Log} ->
                       State = #{dir => Dir, about => About, subject => Subject,
                                 settings => Settings, log => Log,
                                 options => RunOptions, tell => Tell, work => work(Outcome),
                                 variable => variable(Outcome),
                                 limits => maps:with([ram, slowdown], Options), block => 1,
                                 random => rand:seed_s(exsss, maps:get(seed, Options, 1)),
                                 program => filename:basename(Path), results => [],
                                 blocks => Blocks,
                                 each => Each, until => Start + Seconds},
                       Found = search(Account, Seconds, State),
                       ok = whittle_measure_samples:close(Log),
                       Found;
                   {error, _} = Error -> Error
               end
       end]).

told(_) -> ok.

%% The seconds of a run, with those around it.
took(#{memory := Memory} = Outcome) ->
    Last = lists:max([maps:get(ended, Outcome, 0) | [At || {At, _} <- Memory]]),
    Last / 1.0e6 + ?AROUND.

release(<<>>) -> list_to_integer(erlang:system_info(otp_release));
release(Otp) -> binary_to_integer(Otp).

%% Internal functions: before the search

first(Subject, RunOptions) ->
    case whittle_tune_program:explain(Subject, RunOptions) of
        {ok, Account, Outcome} -> {ok, {Account, Outcome}};
        {error, {run, {failed, _, _} = Reason}} ->
            {error, {fails_without, whittle_measure_observe:format_error(Reason)}};
        {error, _} = Error -> Error
    end.

%% @doc Checks the first run. The work must be long enough to compare; and no setting makes the VM's
%% files, its code, the atoms and the literals smaller than `ram'.
-spec fits({whittle_measure_account:account(), whittle_measure_response:outcome()},
           #{ram := pos_integer() | none, atom() => term()}) ->
          {ok, {whittle_measure_account:account(), whittle_measure_response:outcome()}}
        | {error, error()}.
fits({Account, Outcome} = First, #{ram := Ram}) ->
    Fixed = whittle_measure_account:fixed(Account),
    Time = case work(Outcome) of
               none -> infinity;
               Key -> maps:get(Key, Outcome) / 1000
           end,
    if
        Ram =/= none, Fixed > Ram -> {error, {budget_below_code, Ram, Fixed, Account}};
        Time < ?LEAST_WORK_MS -> {error, {short_work, max(1, round(Time))}};
        true -> {ok, First}
    end.

%% The time that tells how fast the program is: that of its workload, or of the program if it ends
%% by itself.
work(#{workload := _}) -> workload;
work(#{ended := _}) -> ended;
work(_) -> none.

%% Internal functions: the parts of the search

%% The candidates that are known before the first run: the program's own settings, the moves, and
%% the references.
first_candidates(Account, Settings) ->
    [whittle_tune_candidate:own() | moves(Account, Settings)]
        ++ whittle_tune_candidate:references(Settings).

moves(Account, Settings) ->
    whittle_tune_candidate:moves(Account, Settings) ++ whittle_tune_candidate:tried(Settings).

search(Account, Seconds, #{settings := Settings, blocks := Blocks} = State0) ->
    Moves = moves(Account, Settings),
    References = whittle_tune_candidate:references(Settings),
    Own = whittle_tune_candidate:own(),
    Validation = Seconds * ?VALIDATION,
    whittle_work:steps(
      [fun(_) -> blocks([Own | Moves], min(?MOVE_BLOCKS, Blocks), State0) end,
       fun(#{results := Results, limits := Limits} = State) ->
               Useful = whittle_tune_race:useful(names(Moves), Results, Limits),
               Mixes = mixes(Useful, Moves, Results, Limits),
               Racing = Mixes ++ [named(Name, Moves) || Name <- lists:sublist(Useful, 2)],
               race(Racing, [Own | Moves] ++ Mixes, Validation, State)
       end,
       fun({Candidates, #{results := Results, limits := Limits} = State}) ->
               case whittle_tune_race:best(names(Candidates) -- [own], Results, Limits) of
                   [] -> {ok, {Candidates, State}};
                   [Best | _] ->
                       Near = whittle_tune_candidate:neighbours(named(Best, Candidates), Settings),
                       race([named(Best, Candidates) | Near], Candidates ++ Near, Validation, State)
               end
       end,
       fun({Candidates, #{results := Results, limits := Limits} = State}) ->
               Ranked = lists:sublist(whittle_tune_race:best(names(Candidates) -- [own], Results,
                                                             Limits), ?FINAL),
               Final = [Own | [named(Name, Candidates) || Name <- Ranked]] ++ References,
               Last = validation_blocks(length(Final), State),
               case blocks(Final, Last, State#{results := [], phase => validation}) of
                   {ok, #{results := Validated}} ->
                       Holding = whittle_tune_race:best(Ranked, Validated, Limits),
                       Chosen = hd(Holding ++ [own]),
                       {ok, #{account => Account, settings => Settings,
                              about => maps:get(about, State),
                              candidates => Candidates ++ References, results => Results,
                              validation => Validated, validated => names(Final), best => Chosen,
                              detectable => whittle_tune_race:detectable(Ranked, Validated),
                              holds => Holding =/= []
                                  orelse whittle_tune_race:holds(own, Validated, Limits)}};
                   {error, _} = Error -> Error
               end
       end]).

%% Combinations of all useful moves, of those that were not slower than allowed, and those that race
%% in any case. A move that failed is in none.
mixes(Useful, Moves, Results, #{slowdown := Allowed}) ->
    Fast = [Name || Name <- Useful, whittle_tune_race:slowdown(Name, Results) =< 1 + Allowed],
    [All, Quick] = [whittle_tune_candidate:combined(Prefix, [named(Name, Moves) || Name <- Names],
                                                    ?COMBINATIONS)
                    || {Prefix, Names} <- [{"mix_", Useful}, {"fast_", Fast}]],
    Failed = [Name || #{name := Name, failed := _} <- Results],
    Extremes = whittle_tune_candidate:extremes([Move || #{name := Name} = Move <- Moves,
                                                        not lists:member(Name, Failed)]),
    lists:foldl(fun(#{values := Values} = Candidate, Before) ->
                        case [same || #{values := Of} <- Before, Of =:= Values] of
                            [] -> Before ++ [Candidate];
                            _ -> Before
                        end
                end, All, Quick ++ Extremes).

names(Candidates) -> [Name || #{name := Name} <- Candidates].

named(Name, Candidates) ->
    hd([Candidate || #{name := Of} = Candidate <- Candidates, Of =:= Name]).

%% Races candidates against the baseline until one is left, or until the time of the validation.
race(Racing, All, Validation, #{blocks := Blocks, settings := Settings, dir := Dir,
                               about := About} = State) ->
    Known = names(All) ++ names(whittle_tune_candidate:references(Settings)),
    case whittle_tune_study:complete(Dir, Known, [], About) of
        ok -> race(Racing, All, Validation, State, Blocks);
        {error, _} = Error -> Error
    end.

race(Racing, All, Validation, #{until := Until, each := Each} = State, Blocks) ->
    Left = Until - Validation - erlang:monotonic_time(second),
    Needed = (length(Racing) + 1) * Each,
    case Blocks > 0 andalso Racing =/= [] andalso Left >= Needed of
        false -> {ok, {All, State}};
        true ->
            case block([whittle_tune_candidate:own() | Racing], State) of
                {ok, #{results := Results, limits := Limits, tell := Tell} = After} ->
                    Out = whittle_tune_race:out(names(Racing), Results, Limits),
                    _ = [Tell({out, Name, Why}) || {Name, Why} <- Out],
                    Alive = [Candidate || #{name := Name} = Candidate <- Racing,
                                          not lists:keymember(Name, 1, Out)],
                    case Alive of
                        [_, _ | _] -> race(Alive, All, Validation, After, Blocks - 1);
                        _ -> {ok, {All, After}}
                    end;
                {error, _} = Error -> Error
            end
    end.

validation_blocks(Cells, #{until := Until, each := Each, blocks := Blocks}) ->
    Left = Until - erlang:monotonic_time(second),
    max(min(?LEAST_BLOCKS, Blocks), min(Blocks, trunc(Left / (Cells * Each)))).

%% Internal functions: blocks and runs

%% A candidate that failed does not run again. The baseline does: the others are compared with it.
blocks(_, 0, State) -> {ok, State};
blocks(Candidates, Count, State) ->
    case block(Candidates, State) of
        {ok, #{results := Results} = After} ->
            Failed = [Name || #{name := Name, failed := _} <- Results, Name =/= own],
            Left = [Candidate || #{name := Name} = Candidate <- Candidates,
                                 not lists:member(Name, Failed)],
            blocks(Left, Count - 1, After);
        {error, _} = Error -> Error
    end.

%% One run of each candidate, in random order.
block(Candidates, #{block := Block, random := Random0} = State) ->
    {Drawn, Random} = lists:mapfoldl(fun(Candidate, R0) ->
                                             {Number, R} = rand:uniform_s(R0),
                                             {{Number, Candidate}, R}
                                     end, Random0, Candidates),
    Ordered = [Candidate || {_, Candidate} <- lists:keysort(1, Drawn)],
    lists:foldl(fun({Position, Candidate}, {ok, Before}) -> one(Position, Candidate, Before);
                   (_, {error, _} = Error) -> Error
                end, {ok, State#{block := Block + 1, random := Random}},
                lists:enumerate(Ordered)).

one(Position, #{name := Name, values := Values},
    #{block := Block, tell := Tell, log := Log, results := Results, program := Program,
      until := Until, each := Each} = State) ->
    Phase = maps:get(phase, State, search),
    Start = erlang:monotonic_time(second),
    Tell({run, Phase, Name, {left, max(0, Until - Start)}}),
    Pace = whittle_measure_machine:pace(),
    Before = whittle_measure_machine:look(),
    Outcome = whittle_tune_program:run(with_settings(Values, State), maps:get(options, State)),
    Result = result(Block, Name, Outcome, State),
    Load = whittle_measure_machine:between(Before, whittle_measure_machine:look(),
                                           whittle_measure_observe:cpu_apart(Outcome)),
    _ = [Tell({failed, Name, Line}) || #{failed := Line} <- [Result]],
    Sample = #{block => Block, position => Position, phase => Phase,
               cell => #{program => unicode:characters_to_binary(Program), settings => Name},
               at => erlang:system_time(millisecond), machine => Load#{pace => Pace},
               values => maps:from_list([{Response, maps:get(Key, Result)}
                                         || {Key, Response} <- responses(State),
                                            is_map_key(Key, Result)]),
               failed => maps:from_list([{run, Line} || #{failed := Line} <- [Result]]),
               curve => []},
    Took = max(1, erlang:monotonic_time(second) - Start),
    whittle_work:steps(
      [fun(_) ->
               whittle_measure_samples:keep_log(maps:get(dir, State), {Block, Position},
                                                failed_output(Result, Outcome))
       end,
       fun(Named) -> whittle_measure_samples:append(Log, maps:merge(Sample, Named)) end,
       fun(_) -> {ok, State#{results := Results ++ [Result], each := (Each + Took) / 2}} end]).

failed_output(#{failed := _}, {error, {run, Reason}}) -> whittle_measure_observe:output(Reason);
failed_output(#{failed := _}, {ok, #{output := Output}}) -> Output;
failed_output(_, _) -> <<>>.

%% The names of docs/measure.md.
responses(#{work := none}) -> [{peak, rss_peak}, {cpu, cpu}];
responses(#{work := Work}) -> [{peak, rss_peak}, {time, kind(Work)}, {cpu, cpu}].

kind(ended) -> run_time;
kind(workload) -> workload_time.

result(Block, Name, {ok, #{peak := Peak} = Outcome}, #{work := Work}) ->
    Time = case {Work, Outcome} of
               {none, _} -> #{};
               {_, #{Work := Microseconds}} ->
                   #{time => Microseconds / 1000, kind => kind(Work)};
               _ -> #{failed => <<"the program did not end by itself">>}
           end,
    Cpu = maps:get(cpu, Outcome, 0),
    Time#{block => Block, name => Name, peak => Peak, cpu => Cpu};
result(Block, Name, {ok, _}, _) ->
    #{block => Block, name => Name, failed => <<"the program ended before its memory was read">>};
result(Block, Name, {error, {run, Reason}}, _) ->
    #{block => Block, name => Name,
      failed => unicode:characters_to_binary(whittle_measure_observe:format_error(Reason))}.

%% The flags in ERL_ZFLAGS come behind those of the program and of the user, so they win. Behind an
%% `-extra' the VM would not read them.
variable(#{extra := true}) -> "ERL_AFLAGS";
variable(_) -> "ERL_ZFLAGS".

with_settings(Values, #{subject := #{environment := Environment} = Subject,
                        settings := Settings, variable := Variable}) ->
    {Flags, Variables} = whittle_tune_settings:command(Values, Settings),
    Config = [["-", Application, " ", Key, " ", Text]
               || {Application, Key, Text} <- whittle_tune_settings:config(Values, Settings)],
    Words = lists:join($\s, [whittle_environment:value(Variable, "") | Flags ++ Config]),
    Subject#{environment := [{Variable, lists:flatten(Words)} | Variables] ++ Environment}.
