%% @doc Computes the results of a study from its samples.
%%
%% The model is a randomized block design. Each cell is compared with the baseline cell of its
%% program in the same block, as a ratio, so that the state of the machine in a block cancels. The
%% logarithms of the ratios give a t test; Holm's correction covers all tests of one response. An
%% effect of a factor compares one level with the baseline level over all settings of the other
%% factors; an interaction is the difference between two such effects.
%% @hidden
-module(whittle_measure_analysis).

-export([results/2, noise/1]).

-export_type([results/0, result/0, row/0, comparison/0, effect/0, noise/0]).

-type results() :: [result()].

-type result() :: #{response := whittle_measure_response:request(),
                    program := atom(),
                    rows := [row()],
                    effects := [effect()]}.

-type row() :: #{levels := #{atom() => atom()},
                 n := non_neg_integer(),
                 failed := non_neg_integer(),
                 median => float(),
                 %% absent if the response is exact
                 interval => whittle_measure_statistics:interval(),
                 ratio => comparison() | baseline}.

%% A ratio against the baseline. `detectable' is the ratio above 1 that a run like this one detects
%% in four of five cases.
-type comparison() :: #{median := float(),
                        %% absent if the response is exact
                        interval => whittle_measure_statistics:interval(),
                        n := non_neg_integer(),
                        p => float(),                       % corrected; absent for one block
                        %% same: exact, and no difference; none: no difference found
                        verdict := better | worse | same | none | unknown,
                        noisy => true,                      % the machine was; never if exact
                        detectable => float()}.

%% One factor and level: a main effect. Two: an interaction.
-type effect() :: #{changed := [{atom(), atom()}], effect := comparison()}.

%% The machine's own spread. `pace' is the spread of a fixed piece of work, as a ratio. `memory' is
%% the share of the time in which a task waited for memory.
-type noise() :: #{pace := float(), steal := float(), others := float(), memory := float(),
                   verdict := quiet | noisy}.

-define(LEVEL, 0.05).

%% @doc Computes the results: one element for each program and each response that applies to it.
-spec results(whittle_measure_study:study(), [whittle_measure_samples:sample()]) -> results().
results(#{responses := Responses, programs := Programs} = Study, Samples) ->
    Runs = whittle_measure_samples:runs(Samples),
    #{verdict := Machine} = noise(Samples),
    %% A build is as good as one block that has each cell of the build.
    Builds = [Sample#{<<"block">> := 1, <<"cell">> => Cell}
              || #{<<"cells">> := Cells} = Sample <- whittle_measure_samples:builds(Samples),
                 Cell <- Cells],
    [case whittle_measure_response:is_exact(Response) of
         true -> result(Response, Program, Study, Builds);
         false -> marked(Machine, result(Response, Program, Study, Runs))
     end || Response <- Responses, Program <- Programs,
        whittle_measure_response:applies(Response, Program)].

%% Each comparison says that the machine was noisy, so that no verdict stands alone.
marked(quiet, Result) -> Result;
marked(noisy, #{rows := Rows, effects := Effects} = Result) ->
    Result#{rows := [case Row of
                         #{ratio := #{} = Ratio} -> Row#{ratio := Ratio#{noisy => true}};
                         #{} -> Row
                     end || Row <- Rows],
            effects := [Each#{effect := Effect#{noisy => true}}
                        || #{effect := Effect} = Each <- Effects]}.

result(Response, #{name := Name} = Program, All, Samples) ->
    Study = whittle_measure_study:of_program(Program, All),
    Cells = whittle_measure_study:cells(Study),
    Values = values(Response, Samples),
    Base = maps:remove(program, whittle_measure_study:baseline(Name, Study)),
    Rows = [row(Cell, Base, Values, Samples, Response) || Cell <- Cells],
    Effects = of_study(Cells, Base, Values, Study),
    Better = whittle_measure_response:better(Response),
    {CorrectedRows, CorrectedEffects} = case whittle_measure_response:is_exact(Response) of
                                            true -> exact(Rows, Effects, Better);
                                            false -> corrected(Rows, Effects, Better)
                                        end,
    #{response => Response, program => Name, rows => CorrectedRows,
      effects => CorrectedEffects}.

%% The value of each cell in each block, by the names of the cell's levels.
values(#{name := Name}, Samples) ->
    Key = atom_to_binary(Name),
    maps:from_list([{{Cell, Block}, Value}
                    || #{<<"cell">> := Cell, <<"block">> := Block,
                         <<"values">> := #{Key := Value}} <- Samples]).

row(#{levels := Levels, program := Program} = Cell, Base, Values, Samples, #{name := Response}) ->
    Names = maps:map(fun(_, #{name := Name}) -> Name end, Levels),
    Key = whittle_measure_study:sample_key(Cell),
    BaseLevels = maps:map(fun(_, Name) -> #{name => Name} end, Base),
    BaseKey = whittle_measure_study:sample_key(#{program => Program, levels => BaseLevels}),
    Blocks = lists:usort([Block || #{<<"block">> := Block} <- Samples]),
    Own = [Value || Block <- Blocks, {ok, Value} <- [maps:find({Key, Block}, Values)]],
    Failed = [Of || #{<<"cell">> := Of, <<"failed">> := Failures} <- Samples, Of =:= Key,
                    is_map_key(<<"run">>, Failures)
                        orelse is_map_key(atom_to_binary(Response), Failures)],
    Row = #{levels => Names, n => length(Own), failed => length(Failed)},
    case Own of
        [] -> Row;
        _ -> Row#{median => whittle_measure_statistics:median(Own),
                  interval => whittle_measure_statistics:median_interval(Own),
                  ratio => case Key of
                               BaseKey -> baseline;
                               _ -> [Ratio || Block <- Blocks,
                                              {ok, Value} <- [maps:find({Key, Block}, Values)],
                                              {ok, Other} <- [maps:find({BaseKey, Block}, Values)],
                                              Ratio <- log_ratio(Value, Other)]
                           end}
    end.

log_ratio(Value, Other) when Value > 0, Other > 0 -> [math:log(Value / Other)];
log_ratio(_, _) -> [].

%% Main effects, then interactions of two factors. The effect of a factor that varies alone is its
%% row's ratio.
of_study(Cells, Base, Values, Study) ->
    effects(whittle_measure_study:crossed(Study), Cells, Base, Values).

effects([_, _ | _] = Crossed, Cells, Base, Values) ->
    Changed = [{Name, Level} || #{name := Name, levels := Levels} <- Crossed,
                                #{name := Level} <- Levels, Level =/= maps:get(Name, Base)],
    Pairs = [[One, Other] || {Name, _} = One <- Changed, {Of, _} = Other <- Changed,
                             Name < Of],
    Program = whittle_measure_study:sample_key(maps:put(levels, #{}, hd(Cells))),
    Keys = [maps:map(fun(_, #{name := Name}) -> Name end, Levels) || #{levels := Levels} <- Cells],
    Blocks = lists:usort([Block || {_, Block} <- maps:keys(Values)]),
    [#{changed => Of, effect => [Mean || Block <- Blocks,
                                    Mean <- of_block(Of, Keys, Base, Program, Block, Values)]}
     || Of <- [[One] || One <- Changed] ++ Pairs];
effects(_, _, _, _) ->
    [].

%% The mean over all settings of the other factors, in one block.
of_block(Of, Keys, Base, Program, Block, Values) ->
    Differences = [Difference
                   || Key <- Keys,
                      lists:all(fun({Name, Level}) -> maps:get(Name, Key) =:= Level end, Of),
                      Difference <- difference(Of, Key, Base, Program, Block, Values)],
    [whittle_measure_statistics:mean(Differences) || Differences =/= []].

%% The logarithm at the levels, less that at the baseline; for two factors the difference of two
%% such differences.
difference([{Name, _}], Key, Base, Program, Block, Values) ->
    [One - Other || One <- logarithm(Key, Program, Block, Values),
                    Other <- logarithm(Key#{Name := maps:get(Name, Base)}, Program, Block, Values)];
difference([First, {Name, _}], Key, Base, Program, Block, Values) ->
    [One - Other || One <- difference([First], Key, Base, Program, Block, Values),
                    Other <- difference([First], Key#{Name := maps:get(Name, Base)}, Base, Program,
                                        Block, Values)].

logarithm(Key, Program, Block, Values) ->
    Cell = maps:fold(fun(Name, Level, Cell) ->
                             Cell#{atom_to_binary(Name) => atom_to_binary(Level)}
                     end, Program, Key),
    case Values of
        #{{Cell, Block} := Value} when Value > 0 -> [math:log(Value)];
        _ -> []
    end.

%% A response without chance needs no test.
exact(Rows, Effects, Better) ->
    {[case maps:without([interval], Row) of
          #{ratio := Logs} = Exact when is_list(Logs) -> Exact#{ratio := exact(Logs, Better)};
          Exact -> Exact
      end || Row <- Rows],
     [Effect#{effect := exact(Logs, Better)} || #{effect := Logs} = Effect <- Effects]}.

exact([], _) -> #{median => 1.0, n => 0, verdict => unknown};
exact([Log], _) when abs(Log) < 1.0e-12 -> #{median => 1.0, n => 1, verdict => same};
exact([Log], Better) -> #{median => math:exp(Log), n => 1, verdict => verdict(0.0, Log, Better)}.

%% Turns the logarithms into comparisons. One correction covers the rows and the effects.
corrected(Rows, Effects, Better) ->
    Logs = [Ratios || #{ratio := Ratios} <- Rows, is_list(Ratios)]
        ++ [Each || #{effect := Each} <- Effects],
    Ps = [P || Each <- Logs, length(Each) > 1,
               P <- [maps:get(p, whittle_measure_statistics:t_test(Each))]],
    Tests = max(1, length(Ps)),
    {Compared, []} = lists:mapfoldl(fun(Each, Left) -> compared(Each, Left, Tests, Better) end,
                                    whittle_measure_statistics:holm(Ps), Logs),
    {NewRows, Rest} = lists:mapfoldl(fun(#{ratio := Ratios} = Row, [First | Left])
                                           when is_list(Ratios) -> {Row#{ratio := First}, Left};
                                        (Row, Left) -> {Row, Left}
                                     end, Compared, Rows),
    {NewRows, [Effect#{effect := Comparison} || {Effect, Comparison} <- lists:zip(Effects, Rest)]}.

compared([], Ps, _, _) ->
    {#{median => 1.0, interval => {1.0, 1.0}, n => 0, verdict => unknown}, Ps};
compared([Log], Ps, _, _) ->
    {#{median => math:exp(Log), interval => {math:exp(Log), math:exp(Log)}, n => 1,
       verdict => unknown}, Ps};
compared(Logs, [P | Ps], Tests, Better) ->
    Median = whittle_measure_statistics:median(Logs),
    {Low, High} = whittle_measure_statistics:median_interval(Logs),
    {#{median => math:exp(Median), interval => {math:exp(Low), math:exp(High)},
       n => length(Logs), p => P, verdict => verdict(P, Median, Better),
       detectable => detectable(whittle_measure_statistics:detectable(Logs, ?LEVEL / Tests))}, Ps}.

%% Two blocks and many tests need a difference beyond all numbers. No float is larger than e^709.
detectable(Log) -> math:exp(min(Log, 700.0)).

verdict(P, _, _) when P >= ?LEVEL -> none;
verdict(_, Log, less) when Log < 0 -> better;
verdict(_, Log, more) when Log > 0 -> better;
verdict(_, _, _) -> worse.

%% @doc Judges the machine by what the study saw of it. It is noisy if a fixed piece of work varied
%% by more than a tenth between the quartiles, if others used or took more than a twentieth of the
%% CPU time, or if a task waited for memory in more than a twentieth of the time.
-spec noise([whittle_measure_samples:sample()]) -> noise().
noise(Samples) ->
    Of = fun(Key) -> [Value || #{<<"machine">> := #{Key := Value}} <- Samples] end,
    Paces = Of(<<"pace">>),
    Spread = case Paces of
                 [] -> 1.0;
                 _ -> whittle_measure_statistics:quantile(0.75, Paces)
                          / whittle_measure_statistics:quantile(0.25, Paces)
             end,
    Steal = upper(Of(<<"steal">>)),
    Others = upper(Of(<<"others">>)),
    Memory = upper(Of(<<"memory_wait">>)),
    #{pace => Spread, steal => Steal, others => Others, memory => Memory,
      verdict => case Spread > 1.1 orelse lists:max([Steal, Others, Memory]) > 0.05 of
                     true -> noisy;
                     false -> quiet
                 end}.

upper([]) -> 0.0;
upper(Values) -> float(whittle_measure_statistics:quantile(0.75, Values)).
