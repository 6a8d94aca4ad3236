%% @doc Writes the page of a run: one HTML file with charts and tables, without scripts.
%% @hidden
-module(whittle_load_page).

-export([charts/1, html/2]).

%% @doc Describes the charts of a report, in the order of the page ({@link whittle_load_chart}).
-spec charts(whittle_load_report:report()) -> [whittle_json:json()].
charts(Report) -> [Chart || {_, _, Chart} <- sections(Report)].

%% @doc Writes the page. `Drawings' are the SVG texts of {@link charts/1}. Without them the page has
%% its tables only.
-spec html(whittle_load_report:report(), [unicode:chardata()]) -> binary().
html(#{facts := Facts} = Report, Drawings) ->
    Title = ["Load test: ", maps:get(<<"scenario">>, Facts, <<"a scenario">>)],
    whittle_measure_html:document(
      Title, style(),
      ["<h1>", escaped(Title), "</h1>\n",
       [["<p class=\"warning\" role=\"alert\"><strong>Warning:</strong> ", escaped(Line), ".</p>\n"]
        || Line <- whittle_load_table:warnings(Report)],
       verdict(Report), figures(Report), thresholds(Report),
       "<div class=\"charts\">\n",
       [["<section>\n<h2>", Heading, "</h2>\n<p>", Text, "</p>\n", whittle_measure_html:figure(Svg),
         "</section>\n"] || {{Heading, Text, _}, Svg} <- pairs(sections(Report), Drawings)],
       "</div>\n",
       [["<h2>", Heading, "</h2>\n", whittle_measure_html:table(Table)]
        || {Heading, Table} <- tables(Report)],
       footer(Facts)]).

pairs([Section | Sections], [Svg | Drawings]) -> [{Section, Svg} | pairs(Sections, Drawings)];
pairs(_, _) -> [].

%% Internal functions: the first look

verdict(#{verdicts := []}) -> "";
verdict(#{verdicts := Verdicts}) ->
    Text = case length([1 || #{met := false} <- Verdicts]) of
               0 -> "All thresholds are met.";
               Missed -> io_lib:format("~b of ~b thresholds missed.", [Missed, length(Verdicts)])
           end,
    ["<p><strong>", Text, "</strong></p>\n"].

figures(#{result := Result}) ->
    Count = fun(Event) ->
                    whittle_load_unit:format_count(whittle_load_result:event(Event, Result))
            end,
    Errors = lists:sum([N || {_, N} <- whittle_load_result:errors(Result)]),
    ["<dl>\n",
     [["<div><dt>", Name, "</dt><dd>", escaped(Value), "</dd></div>\n"]
      || {Name, Value} <- [{"users started", Count(started)},
                           {"held at the end", whittle_load_unit:format_count(
                                                 whittle_load_result:held(Result))}]
             ++ [{Name, whittle_load_unit:format_time(whittle_load_result:quantile(Part, Latency))}
                 || Latency <- [whittle_load_result:latency(all, Result)], Latency =/= none,
                    {Name, Part} <- [{"p50", 0.5}, {"p99", 0.99}, {"max", 1.0}]]
             ++ [{"errors", whittle_load_unit:format_count(Errors)}]],
     "</dl>\n"].

thresholds(#{verdicts := []}) -> "";
thresholds(#{verdicts := Verdicts}) ->
    ["<ul class=\"thresholds\">\n",
     [["<li class=\"", Class, "\"><span>", Word, "</span> ", escaped(Text), " <em>",
       escaped(whittle_load_table:value(Measure, Value)), "</em></li>\n"]
      || #{text := Text, measure := Measure, value := Value, met := Met} <- Verdicts,
         {Class, Word} <- [case Met of
                               true -> {"met", "met"};
                               false -> {"missed", "missed"}
                           end]],
     "</ul>\n"].

%% Internal functions: charts and tables

sections(#{result := Result, seconds := Seconds}) ->
    Rows = whittle_load_series:rows(Seconds),
    Steps = [{Step, whittle_load_result:latency(Step, Result)}
             || Step <- whittle_load_result:steps(Result)],
    Failed = lists:any(fun(#{errors := Errors}) -> map_size(Errors) > 0 end, Rows),
    [{Heading, Text, Chart()}
     || {true, Heading, Text, Chart} <-
            [{Steps =/= [], "Percentiles",
              "Each nine to the right leaves a tenth of the answers: the slowest ones.",
              fun() -> whittle_load_chart:percentiles(Steps) end},
             {Steps =/= [], "Latency over time",
              "The answers of each second, without connections if the users have other steps.",
              fun() -> whittle_load_chart:latencies(Rows) end},
             {Steps =/= [], "Heat map of latencies",
              "The stronger the color, the more answers took this time. The scale is logarithmic.",
              fun() -> whittle_load_chart:heat(Rows) end},
             {Rows =/= [], "Users",
              "Users that run their steps, and those that the server holds.",
              fun() -> whittle_load_chart:users(Rows) end},
             {Rows =/= [], "Arrivals",
              "Where the lines differ, the agents did not keep the plan.",
              fun() -> whittle_load_chart:arrivals(Rows) end},
             {Rows =/= [], "Messages or requests",
              "Writes of the users, and the answers and messages that they got.",
              fun() -> whittle_load_chart:messages(Rows) end},
             {Failed, "Errors", "Each error ends its user, or its cycle.",
              fun() -> whittle_load_chart:errors(Rows) end},
             {Rows =/= [], "Processors",
              "An agent near one processor, or near the number of the machine, is too slow.",
              fun() -> whittle_load_chart:cpu(Rows) end},
             {Rows =/= [], "Memory", "The resident sets.",
              fun() -> whittle_load_chart:memory(Rows) end}]].

tables(Report) ->
    [{heading(Head), case Head of "users" -> [["users", "count"] | Rows]; _ -> Table end}
     || [[Head | _] | Rows] = Table <- whittle_load_table:tables(Report), Head =/= "threshold"].

heading("users") -> "Users";
heading("latency") -> "Latencies";
heading("closed users") -> "Phases";
heading("error") -> "Errors";
heading("agent") -> "Agents";
heading(Other) -> Other.

footer(Facts) ->
    Machine = maps:get(<<"machine">>, Facts),
    ["<footer><p>", [["Made by <code>", escaped(Command), "</code>"]
                     || #{<<"command">> := Command} <- [Facts], is_binary(Command)],
     whittle_measure_html:version(Facts),
     [[" on ", escaped(Time)] || #{<<"started">> := Time} <- [Facts], is_binary(Time)],
     [[", against ", escaped(Target)] || #{<<"target">> := Target} <- [Facts], is_binary(Target)],
     ". Raw samples: <a href=\"samples.jsonl\">samples.jsonl</a>, "
     "<a href=\"seconds.csv\">seconds.csv</a>, <a href=\"steps.csv\">steps.csv</a>, "
     "<a href=\"phases.csv\">phases.csv</a>, "
     "<a href=\"result.json\">result.json</a>. Machine: ",
     [[escaped(Cpu), ", "] || #{<<"cpu">> := Cpu} <- [Machine], is_binary(Cpu)],
     [[integer_to_list(Cpus), " CPUs, "] || #{<<"cpus">> := Cpus} <- [Machine], is_integer(Cpus)],
     [[integer_to_list(Memory div 1_000_000_000), " GB, "]
      || #{<<"memory">> := Memory} <- [Machine], is_integer(Memory)],
     [["Linux ", escaped(Kernel)] || #{<<"kernel">> := Kernel} <- [Machine], is_binary(Kernel)],
     ".</p></footer>\n"].

escaped(Text) -> whittle_measure_html:escaped(Text).

style() ->
    ":root { --good: #00734f; --bad: #b34700; --tint: rgba(213, 94, 0, 0.12); }\n"
    "@media screen and (prefers-color-scheme: dark) {\n"
    "  :root { --good: #4fd1a5; --bad: #ff9c59; }\n}\n"
    "main { max-width: 68rem; }\n"
    ".warning { border-left: 0.3rem solid var(--bad); background: var(--tint);\n"
    "  padding: 0.6rem 0.9rem; border-radius: 0.2rem;\n"
    "  print-color-adjust: exact; }\n"
    "dl { display: flex; flex-wrap: wrap; gap: 0.6rem 2rem; margin: 1rem 0; }\n"
    "dt { font-size: 0.8rem; opacity: 0.75; }\n"
    "dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }\n"
    ".thresholds { list-style: none; padding: 0; }\n"
    ".thresholds span { display: inline-block; min-width: 4rem; font-weight: 600; }\n"
    ".thresholds em { font-style: normal; opacity: 0.75; }\n"
    ".met span { color: var(--good); } .missed span { color: var(--bad); }\n"
    ".charts { display: grid; gap: 0 2rem;\n"
    "  grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); }\n"
    ".charts section { min-width: 0; } .charts h2 { margin-bottom: 0; }\n"
    ".charts p { margin: 0; font-size: 0.85rem; opacity: 0.75; }\n"
    ".charts figure svg { min-width: 22rem; width: 100%; }\n".
