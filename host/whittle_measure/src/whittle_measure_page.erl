%% @doc Writes the page of a study: one HTML file with charts and tables, without scripts.
%% @hidden
-module(whittle_measure_page).

-export([html/2, charts/1, chart_names/1]).

-import(whittle_measure_html, [escaped/1, table/1]).

%% @doc Describes the charts of a report, in the order of the page ({@link whittle_measure_chart}).
-spec charts(whittle_measure:report()) -> [whittle_json:json()].
charts(Report) ->
    [Chart || #{chart := Chart} <- front(Report)]
        ++ [Chart || #{charts := Charts} <- sections(Report), Chart <- Charts].

%% @doc Names a PNG file for each chart of {@link charts/1}.
-spec chart_names(whittle_measure:report()) -> [file:filename()].
chart_names(Report) ->
    Front = front(Report),
    ["front-" ++ integer_to_list(Index) ++ ".png" || Index <- lists:seq(1, length(Front))] ++
    [lists:flatten(io_lib:format("~ts-~ts-~b.png", [Name, Program, Index]))
     || #{charts := Charts} = Section <- sections(Report),
        {Name, Program} <- [names(Section)],
        Index <- lists:seq(1, length(Charts))].

names(#{series := #{name := Name, program := Program}}) -> {Name ++ "_N", Program};
names(#{result := #{response := #{name := Name}, program := Program}}) ->
    {atom_to_list(Name), Program}.

%% @doc Writes the page. `Drawings' are the SVG texts of {@link charts/1}. Without them the page has
%% its tables only.
-spec html(whittle_measure:report(), [unicode:chardata()]) -> iodata().
html(#{study := #{title := Title, question := Question}} = Report, Drawings) ->
    #{study := #{references := References}} = Report,
    {Front, Rest} = lists:mapfoldl(fun front/2, Drawings, front(Report)),
    {Sections, _} = lists:mapfoldl(fun(Section, Left) -> section(Section, References, Left) end,
                                   Rest, sections(Report)),
    whittle_measure_html:document(
      Title, ["<h1>", escaped(Title), "</h1>\n<p>", escaped(Question), "</p>\n", summary(Report),
              titles(Report), Front, Sections, footer(Report)]).

%% The charts of `whittle tune' are in its study.
front(#{study := Study}) -> maps:get(front, Study, []).

front(#{title := Title, text := Text} = Front, Drawings) ->
    {Own, Rest} = lists:split(min(1, length(Drawings)), Drawings),
    {["<section>\n<h2>", escaped(Title), "</h2>\n<p>", escaped(Text), "</p>\n",
      [whittle_measure_html:figure(Svg) || Svg <- Own],
      [table(Table) || #{table := Table} <- [Front]], "</section>\n"], Rest}.

%% One section for each series, and then one for each response, with the programs one after another.
%% The chart of a series has the values of all its responses.
sections(#{study := Study, results := Results, samples := Samples}) ->
    AllSeries = whittle_measure_series:of_results(Results),
    [#{series => Series, charts => [whittle_measure_chart:series(Series)]}
     || Series <- AllSeries] ++
    [#{result => Result, charts => [whittle_measure_chart:intervals(Result, values(Result, Samples))
                                    || has_values(Result), not is_in(Result, AllSeries)]
                                   ++ curves(Result, Study, Samples)
                                   ++ accounts(Result, Samples)}
     || Result <- Results].

is_in(Result, AllSeries) ->
    lists:any(fun(Series) -> whittle_measure_series:has(Series, Result) end, AllSeries).

%% The values of each row's runs.
values(#{response := #{name := Name} = Response, program := Program, rows := Rows}, Samples) ->
    case whittle_measure_response:is_exact(Response) of
        true -> [[] || _ <- Rows];
        false ->
            Key = atom_to_binary(Name),
            [[Value || #{<<"values">> := #{Key := Value}} <- of_cell(Levels, Program, Samples)]
             || #{levels := Levels} <- Rows]
    end.

has_values(#{rows := Rows}) -> lists:any(fun(Row) -> is_map_key(median, Row) end, Rows).

%% The curves of memory belong to the mean of the same memory. Each factor has a chart: its levels,
%% with the other factors as in the baseline.
curves(#{response := #{kind := Kind}, program := Program, rows := Rows}, Study, Samples) ->
    case lists:keyfind(Kind, 1, [{rss_mean, 2, "resident set"}, {pss_mean, 3, "proportional set"},
                                 {anonymous_mean, 4, "anonymous memory"}]) of
        false -> [];
        {Kind, Column, Title} ->
            Base = maps:remove(program, whittle_measure_study:baseline(Program, Study)),
            Measured = [Levels || #{levels := Levels, median := _} <- Rows],
            [whittle_measure_chart:curves(
               Column, Title,
               {Name, [{Level, whittle_measure_curve:median(Curves)}
                       || {Level, Levels} <- Lines,
                          Curves <- [[Curve || #{<<"curve">> := [_ | _] = Curve}
                                                   <- of_cell(Levels, Program, Samples)]],
                          Curves =/= []]})
             || {Name, Lines} <- lines(Base, Measured)]
    end.

%% A program without factors has one line.
lines(Base, Measured) when map_size(Base) =:= 0 ->
    [{"", [{"all", Levels} || Levels <- Measured]}];
lines(Base, Measured) ->
    [{[atom_to_list(Factor), others(Base)],
      [{atom_to_list(maps:get(Factor, Levels)), Levels} || Levels <- Own]}
     || Factor <- lists:sort(maps:keys(Base)),
        Own <- [[Levels || Levels <- Measured,
                           maps:remove(Factor, Levels) =:= maps:remove(Factor, Base)]],
        length(Own) > 1 orelse map_size(Base) =:= 1].

others(Base) when map_size(Base) > 1 -> ", with the other factors as in the baseline";
others(_) -> "".

%% The groups of the account stand with the first of their responses.
accounts(#{response := #{kind := account, line := terms}, program := Program, rows := Rows},
         Samples) ->
    Cells = [{whittle_measure_table:levels(Short), groups(Accounts)}
             || {#{levels := Short}, #{levels := Levels}}
                    <- lists:zip(whittle_measure_table:varied(Rows), Rows),
                Accounts <- [[Lines || #{<<"account">> := #{<<"lines">> := Lines}}
                                           <- of_cell(Levels, Program, Samples)]],
                Accounts =/= []],
    [whittle_measure_chart:accounts(Cells) || Cells =/= []];
accounts(_, _) -> [].

%% The medians over the runs. Pages that nothing has touched are a negative number, and most of them
%% belong to C code, so the chart has both as one bar.
groups(Accounts) ->
    [{Title, max(0, whittle_measure_statistics:median([bytes(Groups, Lines) || Lines <- Accounts]))}
     || {Groups, Title} <- [{[c_code, untouched], "memory of C code, without untouched pages"}
                            | [{[Group], Title}
                               || {Group, Title} <- whittle_measure_account:groups(),
                                  not lists:member(Group, [c_code, untouched, unexplained])]]].

bytes(Groups, Lines) ->
    Names = [atom_to_binary(Group) || Group <- Groups],
    lists:sum([Bytes || #{<<"group">> := Of, <<"bytes">> := Bytes} <- Lines,
                        lists:member(Of, Names)]).

of_cell(Levels, Program, Samples) ->
    Key = maps:from_list([{atom_to_binary(Name), atom_to_binary(Level)}
                          || {Name, Level} <- [{program, Program} | maps:to_list(Levels)]]),
    [Sample || #{<<"cell">> := Cell} = Sample <- whittle_measure_samples:runs(Samples),
               Cell =:= Key].

%% The chart's axis has the title of the response, and the heading has the names of the table.
section(#{series := Series, charts := Charts} = Section, _, Drawings) ->
    {Own, Rest} = lists:split(min(length(Charts), length(Drawings)), Drawings),
    {Name, Program} = names(Section),
    {["<section>\n<h2>", Name, " of ", atom_to_list(Program), "</h2>\n",
      [whittle_measure_html:figure(Svg) || Svg <- Own],
      table(whittle_measure_series:table(Series)), "</section>\n"], Rest};
section(#{result := #{response := #{name := Name}, program := Program} = Result, charts := Charts},
        References, Drawings) ->
    Count = min(length(Charts), length(Drawings)),
    {Own, Rest} = lists:split(Count, Drawings),
    {["<section>\n<h2>", atom_to_list(Name), " of ", atom_to_list(Program), "</h2>\n",
      [whittle_measure_html:figure(Svg) || Svg <- Own],
      table(whittle_measure_table:rows(Result, References)),
      [["<p>", escaped(Note), "</p>\n"]
       || Note <- whittle_measure_table:notes(Result, References)], "</section>\n"], Rest}.

titles(#{study := Study}) ->
    [table(Titles) || [_ | _] = Titles <- [whittle_measure_table:titles(Study)]].

summary(#{samples := Samples} = Report) ->
    Builds = length(whittle_measure_samples:builds(Samples)),
    [["<p>The study measured ", counted(Builds, "build"), ", once each: what depends on nothing "
      "but the build is exact.</p>\n"] || Builds > 0]
        ++ [runs(length(Samples) - Builds, Report) || length(Samples) > Builds].

%% A run that was stopped has fewer blocks than its study.
runs(Count, #{study := #{seed := Seed}, samples := Samples,
              noise := #{verdict := Verdict} = Noise}) ->
    Blocks = lists:usort([Block || #{<<"block">> := Block} <- Samples, is_integer(Block)]),
    ["<p>", counted(Count, "run"), " in ", counted(length(Blocks), "block"),
     ", in random order (seed ", integer_to_list(Seed), "). Each value that is not exact "
     "is a median with its bootstrap interval; the head of its column has the confidence. "
     "Its ratio compares with the baseline in the same block. ",
     case Verdict of
         quiet -> "The machine was quiet: ";
         noisy -> "<strong>The machine was noisy, so small differences mean little:</strong> "
     end,
     whittle_measure_table:noise(Noise), ".</p>\n"].

counted(1, Noun) -> ["1 ", Noun];
counted(Count, Noun) -> [integer_to_list(Count), $\s, Noun, $s].

footer(#{study := #{name := Name}, facts := Facts} = Report) ->
    Command = case {Facts, front(Report)} of
                  {#{<<"command">> := Text}, _} when is_binary(Text) -> Text;
                  {_, [_ | _]} -> ["whittle ", Name];
                  {_, []} -> ["whittle measure ", Name]
              end,
    Machine = maps:get(<<"machine">>, Facts),
    ["<footer><p>Made by <code>", escaped(Command), "</code>", whittle_measure_html:version(Facts),
     ". Raw samples: <a href=\"samples.jsonl\">samples.jsonl</a>. Machine: ",
     escaped(maps:get(<<"cpu">>, Machine)), ", ", integer_to_list(maps:get(<<"cpus">>, Machine)),
     " CPUs, ", integer_to_list(maps:get(<<"memory">>, Machine) div 1_000_000_000), " GB, Linux ",
     escaped(maps:get(<<"kernel">>, Machine)), ".</p></footer>\n"].
