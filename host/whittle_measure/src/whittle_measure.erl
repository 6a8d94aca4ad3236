%% @doc Measures what the options of a build and of the VM cost a program: size, start, memory,
%% speed.
%%
%% A study is a file that declares programs, factors and responses (docs/measure.md). {@link run/2}
%% builds each program, runs every combination in random order within blocks, and keeps each sample.
%% {@link results/1} computes medians with intervals, ratios against the baseline, effects of
%% factors, and corrected tests.
-module(whittle_measure).

-export([studies/0, names/0, study/2, run/2]).
-export([results/1, report/1, pictures/1, tables/1, interval_head/1, titles/1, levels/1, noise/1,
         json/1]).
-export([compare/3, comparison_tables/1, comparison_notes/1, comparison_json/1]).
-export([format_error/1, details/1, code/1]).

-export_type([reason/0, report/0]).

-type reason() :: whittle_measure_study:error() | whittle_measure_run:reason()
                | whittle_measure_otp:reason()
                | whittle_measure_compare:error()
                | {no_charts, unicode:chardata()}.

%% The results of a directory of samples.
-type report() :: #{study := whittle_measure_study:study(),
                    facts := whittle_measure_samples:facts(),
                    samples := [whittle_measure_samples:sample()],
                    results := whittle_measure_analysis:results(),
                    noise := whittle_measure_analysis:noise(),
                    page => file:filename(),              % of report/1
                    notes => [unicode:chardata()]}.       % of report/1

%% @doc Lists the studies that come with Whittle, with their titles.
-spec studies() -> [{string(), unicode:chardata()}].
studies() ->
    [{Name, Title} || {Name, _} <- whittle_measure_study:shipped(),
                      {ok, #{title := Title}} <- [whittle_measure_study:read(Name)]].

%% @doc Lists the names of these studies.
-spec names() -> [string()].
names() -> [Name || {Name, _} <- whittle_measure_study:shipped()].

%% @doc Reads a study by name or from a file, and keeps the given levels of factors.
-spec study(string(), [{string(), string()}]) ->
          {ok, whittle_measure_study:study()} | {error, reason()}.
study(Name, Only) ->
    whittle_work:steps([fun(_) -> whittle_measure_study:read(Name) end,
                        fun(Study) -> whittle_measure_study:only(Only, Study) end]).

%% @doc Runs a study and returns its directory. The error is `no_values' if no run gave a value; the
%% samples with the reasons are in the directory.
-spec run(whittle_measure_study:study(), whittle_measure_run:options()) ->
          {ok, file:filename()} | {error, reason()}.
run(Study, Options) ->
    whittle_measure_run:run(Study, Options).

%% @doc Computes the results of a directory.
-spec results(file:filename()) -> {ok, report()} | {error, reason()}.
results(Dir) ->
    case whittle_measure_samples:read_study(Dir) of
        {ok, {_, _, []}} -> {error, {empty, Dir}};
        {ok, {Facts, Study, Samples}} ->
            {ok, #{study => Study, facts => Facts, samples => Samples,
                   results => whittle_measure_analysis:results(Study, Samples),
                   noise => whittle_measure_analysis:noise(Samples)}};
        {error, _} = Error -> Error
    end.

%% @doc Computes the results of a directory and writes its page, `page.html'. Without Node.js, or
%% without the packages of `web/chart', the page has no charts, and a note says so.
-spec report(file:filename()) -> {ok, report()} | {error, reason()}.
report(Dir) ->
    case results(Dir) of
        {ok, Report} ->
            Charts = whittle_measure_page:charts(Report),
            {Drawings, Notes} = case whittle_measure_draw:svg(Charts) of
                                    {ok, Svgs} -> {Svgs, []};
                                    {error, Line} -> {[], [["the page has no charts: ", Line]]}
                                end,
            Page = filename:join(Dir, "page.html"),
            %% Page and pictures replace a link; they are not written to where it points.
            case whittle_file:replace(Page, whittle_measure_page:html(Report, Drawings)) of
                ok -> {ok, Report#{page => Page, notes => lacks(Dir, Report) ++ Notes}};
                {error, Reason} -> {error, {file, Page, Reason}}
            end;
        {error, _} = Error -> Error
    end.

%% A search of `whittle tune' has no plan: it chooses its runs on the way.
lacks(Dir, #{study := #{front := _}}) -> whittle_measure_samples:notes(Dir, {0, 0});
lacks(Dir, #{study := Study, samples := Samples}) ->
    Done = [Run || #{<<"block">> := Block, <<"cell">> := _} = Run <- Samples, is_integer(Block)],
    whittle_measure_samples:notes(Dir, {length(Done), whittle_measure_run:count_planned(Study)}).

%% @doc Writes each chart of a report as a PNG file beside the page, and returns the files. The name
%% of a file has the response and the program: `rss_mean-relay-1.png'.
-spec pictures(report()) -> {ok, [file:filename()]} | {error, reason()}.
pictures(#{page := Page} = Report) ->
    Charts = whittle_measure_page:charts(Report),
    Names = [filename:join(filename:dirname(Page), Name)
             || Name <- whittle_measure_page:chart_names(Report)],
    case whittle_measure_draw:png(Charts) of
        {ok, Pictures} ->
            Written = [case whittle_file:replace(Name, Picture) of
                           ok -> ok;
                           {error, Reason} -> {error, {file, Name, Reason}}
                       end || {Name, Picture} <- lists:zip(Names, Pictures)],
            case [Error || {error, _} = Error <- Written] of
                [] -> {ok, Names};
                [Error | _] -> Error
            end;
        {error, Line} -> {error, {no_charts, Line}}
    end.

%% @doc Writes the results as tables for a terminal, each with the lines below it. The first row of
%% a table is its head.
-spec tables(report()) -> [{[[unicode:chardata() | integer()]], [unicode:chardata()]}].
tables(#{results := Results, study := #{references := References}}) ->
    [{whittle_measure_series:table(Series), []}
     || Series <- whittle_measure_series:of_results(Results)] ++
    [{whittle_measure_table:rows(Result, References),
      whittle_measure_table:notes(Result, References)} || Result <- Results].

%% @doc Writes the head of a column of intervals for the numbers of values behind them, such as
%% `95 % interval'.
-spec interval_head([non_neg_integer()]) -> unicode:chardata().
interval_head(Counts) -> whittle_measure_table:interval_head(Counts).

%% @doc Returns the titles of factors and levels as a table, or `[]' if the study has none.
-spec titles(report()) -> [[unicode:chardata()]].
titles(#{study := Study}) -> whittle_measure_table:titles(Study).

%% @doc Describes how noisy the machine was, as a part of a sentence.
-spec noise(report()) -> unicode:chardata().
noise(#{noise := Noise}) -> whittle_measure_table:noise(Noise).

%% @doc Writes a cell, as `run/2' tells it: `program=hello, build=stock'.
-spec levels(#{atom() => atom()}) -> unicode:chardata().
levels(Cell) -> whittle_measure_table:levels(Cell).

%% @doc Compares the cells that two directories have in common, for example before and after a
%% change. Their blocks are independent, so Welch's test decides. The runs may have different levels
%% of the factors in `Differs', for example two OTP releases.
-spec compare(file:filename(), file:filename(), Differs :: [string()]) ->
          {ok, [whittle_measure_compare:comparison()]} | {error, reason()}.
compare(One, Other, Differs) ->
    whittle_work:steps(
      [fun(_) -> results(One) end,
       fun(First) ->
               case results(Other) of
                   {ok, Second} ->
                       whittle_measure_compare:compare({One, First}, {Other, Second}, Differs);
                   {error, _} = Error -> Error
               end
       end]).

%% @doc Writes comparisons as tables for a terminal, one for each response.
-spec comparison_tables([whittle_measure_compare:comparison()]) -> [[[unicode:chardata()]]].
comparison_tables(Comparisons) -> whittle_measure_compare:tables(Comparisons).

%% @doc Returns the lines below these tables.
-spec comparison_notes([whittle_measure_compare:comparison()]) -> [unicode:chardata()].
comparison_notes(Comparisons) -> whittle_measure_compare:notes(Comparisons).

%% @doc Writes comparisons as data.
-spec comparison_json([whittle_measure_compare:comparison()]) -> whittle_json:json().
comparison_json(Comparisons) -> whittle_measure_compare:json(Comparisons).

%% @doc Returns the results as data.
-spec json(report()) -> whittle_json:json().
json(#{results := Results, noise := Noise, facts := Facts,
       study := #{references := References}}) ->
    #{machine => maps:get(<<"machine">>, Facts), noise => Noise,
      results => [whittle_measure_table:json(Result, References) || Result <- Results]}.

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({make, Reason}) -> whittle_make:format_error(Reason);
format_error({build, Cell, Reason}) ->
    [whittle_measure_study:build_name(Cell), ": ", whittle_make:format_error(Reason)];
format_error({no_program, Name}) ->
    ["the program ", Name, " is not on the PATH: correct the study"];
format_error({no_tool, Response, Program, Remedy}) ->
    ["the response ", atom_to_list(Response), " needs ", Program, ", which is not on the PATH: ",
     Remedy];
format_error({no_pauses, Program, Response}) ->
    io_lib:format("the response ~ts cannot be measured in a build of ~ts with `missing => crash', "
                  "because it may lack the code that loads the counter: use `missing => load', or "
                  "remove the response", [Response, Program]);
format_error({too_many_runs, Runs, Limit}) ->
    Shown = case Runs > 1_000_000_000_000 of
                true -> "more than 1000000000000";
                false -> integer_to_list(Runs)
            end,
    io_lib:format("the study would have ~ts runs, and the limit is ~b: let factors vary alone "
                  "(`crossed' names those that do not), keep fewer levels (--only), or lower "
                  "`blocks'", [Shown, Limit]);
format_error({no_charts, Line}) -> ["the charts cannot be drawn: ", Line];
format_error({library, Name, Line}) -> ["the library ", Name, " cannot be measured: ", Line];
format_error({no_unit, Name}) ->
    ["a build of the program ", atom_to_list(Name), " has the option `shake' without `unit': add "
     "unit => functions or unit => modules to the study"];
format_error({no_directory, Name, Dir}) ->
    ["`libs' in a build of the program ", atom_to_list(Name), " names ", Dir,
     ", which is not a directory: correct the study"];
format_error({Tag, _} = Error) when Tag =:= bad_source; Tag =:= source ->
    whittle_measure_source:format_error(Error);
format_error({recording, Name, Line}) ->
    io_lib:format("the recording of ~ts for `seen' failed: ~ts: correct the program or its "
                  "workload, or name a recording with `evidence_file' (docs/recordings.md of "
                  "Whittle's source)",
                  [Name, Line]);
format_error({stock, Name, _}) ->
    ["the stock OTP made no boot script for ", Name, "; its lines are above: correct the "
     "applications of the program, or remove the runner `stock' from the study"];
format_error({no_values, Dir}) ->
    ["every run of the study failed: correct the study or its programs (the reasons are in ",
     filename:join(Dir, "samples.jsonl"), ")"];
format_error(Error) when element(1, Error) =:= different_studies;
                         element(1, Error) =:= not_a_factor;
                         element(1, Error) =:= several_levels ->
    whittle_measure_compare:format_error(Error);
format_error({Tag, _} = Error) when Tag =:= exists; Tag =:= in_use; Tag =:= link;
                                   Tag =:= no_samples; Tag =:= changed; Tag =:= of_a_load_test;
                                   Tag =:= not_empty; Tag =:= empty ->
    whittle_measure_samples:format_error(Error);
format_error({Tag, _, _} = Error) when Tag =:= damaged; Tag =:= damaged_study;
                                      Tag =:= unknown_cell; Tag =:= file ->
    whittle_measure_samples:format_error(Error);
format_error(Error) when element(1, Error) =:= no_otp; element(1, Error) =:= nothing_left;
                         element(1, Error) =:= no_given; element(1, Error) =:= no_objects;
                         element(1, Error) =:= no_run; element(1, Error) =:= nothing_to_resume;
                         element(1, Error) =:= no_store; element(1, Error) =:= unreadable_run;
                         element(1, Error) =:= other_format;
                         element(1, Error) =:= damaged_run ->
    whittle_measure_otp:format_error(Error);
format_error(Error) -> whittle_measure_study:format_error(Error).

%% @doc Returns the lines that belong above the line of {@link format_error/1}.
-spec details(reason()) -> [unicode:chardata()].
details({make, Reason}) -> whittle_make:details(Reason);
details({build, _, Reason}) -> whittle_make:details(Reason);
details({stock, _, Output}) -> binary:split(Output, <<"\n">>, [global, trim_all]);
details(_) -> [].

%% @doc Returns the name of an error, for programs (docs/json.md).
-spec code(reason()) -> atom().
code({make, Reason}) -> whittle_make:code(Reason);
code({build, _, Reason}) -> whittle_make:code(Reason);
code(Reason) -> element(1, Reason).
