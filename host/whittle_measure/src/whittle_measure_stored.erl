%% @doc Checks the files of a study that has run, when a report reads them: the study in
%% `study.json', and each line of `samples.jsonl'.
%%
%% The files may be damaged, edited or made by another program. So the check covers each key that
%% the analysis, the tables, the page and the comparisons read. They rely on it. A study that
%% `whittle tune' wrote has names that a study in a file could not have, and `--only' leaves
%% references to levels that did not run. So this check differs from that of
%% {@link whittle_measure_check}.
%% @hidden
-module(whittle_measure_stored).

-export([study/1, is_sample/1, cells/1, unknown/2]).

%% The bounds of numbers, beside 0. Products and quotients of such numbers are floats too.
-define(MOST, 1.0e100).
-define(LEAST, 1.0e-100).

%% @doc Returns the study in the facts about a run. The error is the key that is missing or wrong.
-spec study(map()) -> {ok, whittle_measure_study:study()} | {error, unicode:chardata()}.
study(#{<<"term">> := Text, <<"machine">> := Machine}) when is_binary(Text) ->
    case {is_machine(Machine), whittle_term:parse(Text)} of
        {false, _} -> {error, "machine"};
        {true, {ok, [Study]}} when is_map(Study) ->
            case wrong(Study, keys()) of
                [] -> consistent(Study);
                [Key | _] -> {error, ["term, key ", atom_to_list(Key)]}
            end;
        _ -> {error, "term"}
    end;
study(#{<<"machine">> := _}) -> {error, "term"};
study(_) -> {error, "machine"}.

%% @doc Tells whether a decoded line is a sample.
-spec is_sample(term()) -> boolean().
is_sample(#{<<"block">> := Block, <<"values">> := Values, <<"failed">> := Failed} = Sample)
  when is_map(Values), is_map(Failed) ->
    is_of_block(Block, Sample)
        andalso lists:all(fun is_value/1, maps:values(Values))
        andalso lists:all(fun is_binary/1, maps:values(Failed))
        andalso whittle_term:all(fun is_point/1, maps:get(<<"curve">>, Sample, []))
        andalso is_load(maps:get(<<"machine">>, Sample, #{}))
        andalso is_account(maps:get(<<"account">>, Sample, #{}));
is_sample(_) ->
    false.

%% @doc Lists the cells of a sample: one, or those that share a build.
-spec cells(map()) -> [#{binary() => binary()}].
cells(#{<<"cells">> := Cells}) -> Cells;
cells(#{<<"cell">> := Cell}) -> [Cell].

%% @doc Finds the first sample of a cell that the study does not have, and returns its place in the
%% list and the cell.
-spec unknown(whittle_measure_study:study(), [map()]) ->
          none | {pos_integer(), #{binary() => binary()}}.
unknown(Study, Samples) ->
    Known = maps:from_keys([whittle_measure_study:sample_key(Cell)
                            || Cell <- whittle_measure_study:cells(Study)], known),
    case [{Place, Cell} || {Place, Sample} <- lists:enumerate(Samples), Cell <- cells(Sample),
                           not is_map_key(Cell, Known)] of
        [First | _] -> First;
        [] -> none
    end.

%% Internal functions: a sample

is_of_block(<<"build">>, #{<<"cells">> := Cells}) -> whittle_term:all(fun is_cell/1, Cells);
is_of_block(Block, #{<<"cell">> := Cell}) -> is_integer(Block) andalso is_cell(Cell);
is_of_block(_, _) -> false.

is_cell(#{<<"program">> := _} = Cell) -> lists:all(fun is_binary/1, maps:values(Cell));
is_cell(_) -> false.

is_value(Value) when is_number(Value) ->
    Value == 0 orelse abs(Value) >= ?LEAST andalso abs(Value) =< ?MOST;
is_value(_) -> false.

%% A point has the time and three kinds of memory.
is_point([_, _, _, _] = Point) -> lists:all(fun is_value/1, Point);
is_point(_) -> false.

%% The pace is the time of some work, so it is not 0.
is_load(Load) when is_map(Load) ->
    lists:all(fun is_value/1, maps:values(maps:with([<<"steal">>, <<"others">>, <<"memory_wait">>],
                                                 Load)))
        andalso case Load of
                    #{<<"pace">> := Pace} -> is_value(Pace) andalso Pace > 0;
                    #{} -> true
                end;
is_load(_) -> false.

is_account(Account) when is_map(Account) ->
    whittle_term:all(fun is_line/1, maps:get(<<"lines">>, Account, []));
is_account(_) -> false.

is_line(#{<<"bytes">> := Bytes}) -> is_value(Bytes);
is_line(Line) -> is_map(Line).

%% Internal functions: the study

is_machine(#{<<"cpu">> := Cpu, <<"cpus">> := Cpus, <<"memory">> := Memory,
             <<"kernel">> := Kernel}) ->
    is_binary(Cpu) andalso is_count(Cpus) andalso is_count(Memory) andalso is_binary(Kernel);
is_machine(_) -> false.

is_count(Value) -> is_integer(Value) andalso Value >= 0 andalso is_value(Value).

%% Each key, whether it must be there, and its check.
keys() ->
    [{name, required, fun is_text/1}, {title, required, fun is_text/1},
     {question, required, fun is_text/1}, {programs, required, several(fun is_program/1)},
     {factors, required, fun(Factors) -> Factors =:= [] orelse is_several(fun is_factor/1, Factors)
                         end},
     {crossed, optional, fun are_names/1}, {baseline, required, fun is_map/1},
     {responses, required, several(fun is_response/1)}, {blocks, required, fun is_integer/1},
     {seed, required, fun is_integer/1}, {references, required, list_of(fun is_reference/1)},
     {front, optional, list_of(fun is_front/1)}].

%% Lists the keys that are missing or wrong.
wrong(Map, Keys) when is_map(Map) ->
    [Key || {Key, Kind, Check} <- Keys,
            case Map of
                #{Key := Value} -> not Check(Value);
                #{} -> Kind =:= required
            end];
wrong(_, _) -> [not_a_map].

has(Map, Keys) -> wrong(Map, Keys) =:= [].

is_program(Program) ->
    has(Program, [{name, required, fun is_file_name/1}, {factors, optional, fun are_names/1}]).

%% Names of programs and responses become parts of file names.
is_file_name(Name) -> is_atom(Name) andalso whittle_file_name:check(Name) =:= ok.

is_factor(Factor) ->
    has(Factor, [{name, required, fun is_atom/1}, {title, optional, fun is_text/1},
                 {levels, required, several(fun is_level/1)}]).

is_level(Level) -> has(Level, [{name, required, fun is_atom/1}, {title, optional, fun is_text/1}]).

is_response(Response) ->
    is_map(Response) andalso is_map_key(name, Response)
        andalso element(1, whittle_measure_response:check(Response)) =:= ok.

is_reference(Reference) ->
    has(Reference, [{source, required, fun is_text/1}, {program, required, fun is_atom/1},
                    {response, required, fun is_atom/1}, {levels, optional, fun is_names/1},
                    {values, required, list_of(fun is_number/1)}, {unit, required, fun is_text/1},
                    {note, optional, fun is_text/1}]).

is_front(Front) ->
    has(Front, [{title, required, fun is_text/1}, {text, required, fun is_text/1},
                {chart, required, fun is_json/1}, {table, optional, list_of(fun is_row/1)}])
        andalso maps:get(table, Front, none) =/= [].

is_row(Row) -> whittle_term:all(fun(Cell) -> is_integer(Cell) orelse is_text(Cell) end, Row).

%% The level of each factor in the baseline is one of its levels.
consistent(#{factors := Factors, baseline := Baseline} = Study) ->
    Sound = maps:keys(Baseline) -- [Name || #{name := Name} <- Factors] =:= []
        andalso lists:all(fun(#{name := Name, levels := Levels}) ->
                                  case Baseline of
                                      #{Name := Base} -> lists:member(Base, names(Levels));
                                      #{} -> false
                                  end
                          end, Factors),
    case Sound of
        true -> bounded(Study);
        false -> {error, "term, key baseline"}
    end.

%% A report makes all cells. A study with more of them than a study may have runs cannot have run.
bounded(Study) ->
    case whittle_measure_study:count_cells(Study) > whittle_measure_study:most_runs() of
        true -> {error, "term, key factors"};
        false -> {ok, Study}
    end.

%% Internal functions: kinds of terms

several(Check) -> fun(List) -> is_several(Check, List) end.

%% A list of maps with different names.
is_several(Check, [_ | _] = List) ->
    whittle_term:all(Check, List) andalso length(lists:usort(names(List))) =:= length(List);
is_several(_, _) -> false.

names(Maps) -> [Name || #{name := Name} <- Maps].

list_of(Check) -> fun(List) -> whittle_term:all(Check, List) end.

are_names(List) -> whittle_term:all(fun is_atom/1, List).

is_names(Map) ->
    is_map(Map) andalso lists:all(fun is_atom/1, maps:keys(Map) ++ maps:values(Map)).

is_text(Text) ->
    try unicode:characters_to_list(Text) of
        Chars -> is_list(Chars)
    catch error:badarg -> false
    end.

is_json(Term) ->
    try iolist_size(whittle_json:encode(Term)) of
        _ -> true
    catch error:_ -> false
    end.
