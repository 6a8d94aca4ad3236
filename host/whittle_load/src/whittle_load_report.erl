%% @doc Makes the report of a run from the samples in its directory, and writes its files.
%% @hidden
-module(whittle_load_report).

-export([read/1, write/2, facts/3]).

-export_type([report/0, error/0]).

%% The keys of {@link whittle_load_table} and these
-type report() ::
        #{facts := whittle_load_samples:facts(),
          seconds := [whittle_load_second:second()],
          result := whittle_load_result:result(),
          verdicts := [whittle_load_result:verdict()],
          agents := pos_integer(),
          phases := [whittle_load_phases:row()],
          holds := boolean(),
          machines := pos_integer(),            % of the agents
          lost := [pos_integer()],
          duration := non_neg_integer(),
          stopped := none | {term(), non_neg_integer()}}.

-type error() :: whittle_load_samples:error().

%% @doc Describes a run for `run.json'.
-spec facts(file:filename(), whittle_load_scenario:scenario(),
            #{agents := pos_integer(), holds := boolean(), command => [string()], _ => _}) ->
          whittle_json:json().
facts(File, #{target := Target, phases := Phases, thresholds := Thresholds, seed := Seed},
      #{agents := Agents, holds := Holds} = Options) ->
    #{scenario => text(filename:basename(File)), target => text(target(Target)), agents => Agents,
      holds => Holds, seed => Seed,
      machines => max(1, length(maps:get(hosts, Options, []))),
      duration => whittle_load_agent:duration(Phases),
      phases => whittle_load_phases:spans(Phases),
      thresholds => [text(Text) || #{text := Text} <- Thresholds],
      started => text(calendar:system_time_to_rfc3339(erlang:system_time(second), [{offset, "Z"}])),
      command => text(lists:join($\s, maps:get(command, Options, ["whittle", "load", File]))),
      whittle => whittle_measure_samples:whittle(), machine => whittle_measure_machine:facts()}.

target(#{transport := Transport, host := Host, port := Port}) ->
    [atom_to_list(Transport), $\s,
     case Host of
         _ when is_binary(Host) -> Host;
         _ when tuple_size(Host) =:= 8 -> [$[, inet:ntoa(Host), $]];
         _ -> inet:ntoa(Host)
     end, $:, integer_to_list(Port)].

text(Chars) -> unicode:characters_to_binary(Chars).

%% @doc Computes the report of a directory. If the coordinator was killed, the report has the
%% samples up to there.
-spec read(file:filename()) -> {ok, report()} | {error, error()}.
read(Dir) ->
    case whittle_load_samples:read(Dir) of
        {ok, #{<<"thresholds">> := Texts} = Facts, Seconds, Ending} ->
            Read = [whittle_load_scenario:threshold(Text) || Text <- Texts],
            case lists:member(error, Read) of
                true -> {error, {damaged, {filename:join(Dir, "run.json"), 1}}};
                false -> {ok, report(Facts, Seconds, Ending, [Each || {ok, Each} <- Read])}
            end;
        {error, _} = Error -> Error
    end.

report(#{<<"agents">> := Agents, <<"duration">> := Duration, <<"holds">> := Holds} = Facts, Seconds,
       Ending, Thresholds) ->
    Result = lists:foldl(fun whittle_load_result:second/2, whittle_load_result:new(), Seconds),
    #{lost := Lost, stopped := Stopped} =
        case Ending of
            none ->
                #{lost => lists:usort(lists:append([Lost || #{lost := Lost} <- Seconds])),
                  stopped => {killed, 1_000_000_000
                              * lists:max([0 | [At + 1 || #{second := At} <- Seconds]])}};
            _ -> Ending
        end,
    #{facts => Facts, seconds => Seconds, result => Result, agents => Agents, holds => Holds,
      %% Results from before there were phases have no such key.
      phases => whittle_load_phases:rows(maps:get(<<"phases">>, Facts, []), Seconds),
      machines => case Facts of
                      #{<<"machines">> := Machines} when is_integer(Machines) -> Machines;
                      _ -> 1
                  end,
      lost => Lost, duration => Duration, stopped => Stopped,
      verdicts => whittle_load_result:judge(Thresholds, Result)}.

%% @doc Writes `result.json', the tables in CSV and the page. Without Node.js, or without the
%% packages
%% of `web/chart', the page has no charts, and a note says so.
-spec write(file:filename(), report()) ->
          {ok, Page :: file:filename(), Notes :: [unicode:chardata()]} | {error, error()}.
write(Dir, #{seconds := Seconds} = Report) ->
    {Drawings, Notes} = case whittle_measure_draw:svg(whittle_load_page:charts(Report)) of
                            {ok, Svgs} -> {Svgs, []};
                            {error, Line} -> {[], [["the page has no charts: ", Line]]}
                        end,
    Rows = whittle_load_series:rows(Seconds),
    Files = [{"result.json", [whittle_json:encode(whittle_load_table:json(Report)), $\n]},
             {"seconds.csv", whittle_load_series:csv(Rows)},
             {"steps.csv", whittle_load_table:csv(Report)},
             {"phases.csv", whittle_load_table:phases_csv(Report)},
             {"page.html", whittle_load_page:html(Report, Drawings)}],
    Done = whittle_work:steps([fun(_) -> whittle_load_samples:write(Dir, Name, Bytes) end
                               || {Name, Bytes} <- Files]),
    case Done of
        {error, _} = Error -> Error;
        _ -> {ok, filename:join(Dir, "page.html"), Notes}
    end.
