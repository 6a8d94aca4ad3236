%% @doc Lays out the view of a run that goes on, for a terminal of any size. This module is pure.
%% @hidden
-module(whittle_load_view).

-export([new/2, sample/2, lines/2]).

-export_type([view/0, line/0, style/0]).

-record(view, {title :: unicode:chardata(),
               duration :: non_neg_integer(),                   % nanoseconds
               result = whittle_load_result:new() :: whittle_load_result:result(),
               last = [] :: [whittle_load_second:second()]}).   % the newest first

-opaque view() :: #view{}.

%% A line consists of texts with a style, and has no control characters.
-type line() :: [{style(), unicode:chardata()}].
-type style() :: plain | bold | good | bad.

%% The seconds of the newer percentiles. One more tells the CPU time at their begin.
-define(LAST, 5).
%% From this width on, all values of a line have room.
-define(WIDE, 60).

%% @doc Makes the view of a run that begins.
-spec new(Title :: unicode:chardata(), Duration :: non_neg_integer()) -> view().
new(Title, Duration) -> #view{title = Title, duration = Duration}.

%% @doc Adds the samples of a second.
-spec sample(whittle_load_second:second(), view()) -> view().
sample(Second, #view{result = Result, last = Last} = View) ->
    View#view{result = whittle_load_result:second(Second, Result),
              last = lists:sublist([Second | Last], ?LAST + 1)}.

%% @doc Lays out the lines for a terminal with so many columns and rows. No line is wider, and there
%% are fewer lines than rows.
-spec lines(view(), {Columns :: pos_integer(), Rows :: pos_integer()}) -> [line()].
lines(#view{last = Last, result = Result} = View, {Columns, Rows}) ->
    %% The last column stays free, because some terminals wrap behind it.
    Width = max(10, Columns - 1),
    Recent = whittle_load_series:rows(lists:reverse(Last)),
    All = head(View, Width)
        ++ users(Result, Recent, Width)
        ++ latencies(Recent, Result, Width)
        ++ errors(Result, Width)
        ++ machines(Last, Recent, Width),
    lists:sublist([cut(Line, Width) || Line <- All], max(1, Rows - 1)).

%% Internal functions: parts

head(#view{title = Title, duration = Duration, last = Last}, Width) ->
    Whole = ceil(Duration / 1.0e9),
    Done = min(Whole, case Last of [#{second := At} | _] -> At + 1; [] -> 0 end),
    Time = io_lib:format("~ts of ~ts, ~ts left", [time(Done), time(Whole), time(Whole - Done)]),
    Room = Width - string:length(Time) - 2,
    First = case string:length(Title) =< Room of
                true -> [[{bold, string:pad(Title, Room + 2)}, {plain, Time}]];
                false -> [[{bold, Title}], [{plain, Time}]]
            end,
    Cells = Width - 2,
    Filled = case Whole of 0 -> Cells; _ -> Cells * Done div Whole end,
    First ++ [[{plain, "["}, {good, lists:duplicate(Filled, $=)},
               {plain, [lists:duplicate(Cells - Filled, $\s), "]"]}]].

time(Seconds) when Seconds < 100 -> io_lib:format("~b s", [Seconds]);
time(Seconds) when Seconds < 3600 ->
    io_lib:format("~b:~2..0b min", [Seconds div 60, Seconds rem 60]);
time(Seconds) -> io_lib:format("~b:~2..0b h", [Seconds div 3600, Seconds rem 3600 div 60]).

users(Result, Recent, Width) ->
    Event = fun(Name) -> count(whittle_load_result:event(Name, Result)) end,
    Started = whittle_load_result:event(started, Result),
    Ended = whittle_load_result:event(ended, Result),
    #{planned := Planned, actual := Actual, sent := Sent, received := Received} = newest(Recent),
    flow("users", [["running ", count(Started - Ended)],
                   ["held ", count(whittle_load_result:held(Result))],
                   ["started ", count(Started)], ["connected ", Event(connected)],
                   ["ended ", count(Ended)]], Width)
        ++ flow("arrivals", [["planned ", count(Planned), "/s"], ["actual ", count(Actual), "/s"]],
                Width)
        ++ [[{bad, "the agents are too slow for this scenario"}]
            || whittle_load_result:slow(Result) =/= []]
        ++ flow("messages", [["sent ", count(Sent), "/s"], ["received ", count(Received), "/s"]],
                Width).

newest([]) -> #{planned => 0, actual => 0, sent => 0, received => 0};
newest(Rows) -> lists:last(Rows).

latencies(Recent, Result, Width) ->
    Newest = lists:foldl(fun(#{latency := Latency}, Sum) ->
                                 whittle_load_second:distribution(Latency, Sum)
                         end, none, lists:nthtail(max(0, length(Recent) - ?LAST), Recent)),
    Label = case Width >= ?WIDE of true -> 12; false -> 6 end,
    Row = fun(Name, Cells, Style) ->
                  [{plain, string:pad(Name, Label)},
                   {Style, [string:pad(Cell, 10 - 2 * (12 - Label) div 6, leading)
                            || Cell <- Cells]}]
          end,
    [Row(case Label of 12 -> "latency"; _ -> "" end, ["p50", "p90", "p99", "max"], plain),
     Row(case Label of 12 -> io_lib:format("last ~b s", [?LAST]); _ -> "last" end, values(Newest),
         plain),
     Row("all", values(whittle_load_result:latency(all, Result)), plain)].

values(#{count := Count} = Latency) when Count > 0 ->
    [whittle_load_unit:format_time(whittle_load_result:quantile(Part, Latency))
     || Part <- [0.5, 0.9, 0.99, 1.0]];
values(_) -> ["-", "-", "-", "-"].

errors(Result, Width) ->
    case whittle_load_result:errors(Result) of
        [] -> [[{plain, [string:pad("errors", 10), "0"]}]];
        Errors ->
            Kinds = lists:foldl(fun({{_, Kind}, N}, Sum) ->
                                        whittle_load_second:sums(#{Kind => N}, Sum)
                                end, #{}, Errors),
            Sorted = lists:reverse(lists:sort([{N, Kind} || {Kind, N} <- maps:to_list(Kinds)])),
            [[{bad, Text} || {_, Text} <- Line]
             || Line <- flow("errors", [[Kind, $\s, count(N)] || {N, Kind} <- Sorted], Width)]
    end.

machines(Last, Recent, Width) ->
    case {Last, Recent} of
        {[#{agents := Agents, server := Server} | _], [_ | _]} ->
            #{cpu := Cpu, busiest := Busiest, queue := Queue, rss := Rss,
              server_cpu := Used} = lists:last(Recent),
            flow("agents", [[count(map_size(Agents))], cpus(Cpu), ["busiest ", cpus(Busiest)],
                            ["queue ", count(Queue)], megabytes(Rss)], Width)
                ++ [Line || #{processes := Count, rss := Bytes} <- [Server],
                            Line <- flow("server", [processes(Count)]
                                         ++ [cpus(Used) || Used =/= none] ++ [megabytes(Bytes)],
                                         Width)];
        _ -> []
    end.

processes(1) -> "1 process";
processes(Count) -> [count(Count), " processes"].

cpus(Number) -> io_lib:format("~.2f CPUs", [float(Number)]).

megabytes(Bytes) -> io_lib:format("~.1f MB", [Bytes / 1.0e6]).

count(N) -> whittle_load_unit:format_count(N).

%% Internal functions: lines

%% A label and as many texts behind it as have room. The others go on below.
flow(Label, Texts, Width) ->
    Lines = filled([lists:flatten(io_lib:format("~ts", [Text])) || Text <- Texts], Width - 10, []),
    [[{plain, [string:pad(Name, 10), lists:join("  ", Line)]}]
     || {Name, Line} <- lists:zip([Label | ["" || _ <- tl(Lines)]], Lines)].

filled([], _, Line) -> [lists:reverse(Line)];
filled([Text | Texts], Room, []) -> filled(Texts, Room, [Text]);
filled([Text | Texts], Room, Line) ->
    Long = lists:sum([string:length(Each) + 2 || Each <- Line]) + string:length(Text),
    case Long =< Room of
        true -> filled(Texts, Room, [Text | Line]);
        false -> [lists:reverse(Line) | filled([Text | Texts], Room, [])]
    end.

cut([{Style, Text} | Parts], Width) when Width > 0 ->
    Length = string:length(Text),
    case Length =< Width of
        true -> [{Style, Text} | cut(Parts, Width - Length)];
        false -> [{Style, string:slice(Text, 0, Width)}]
    end;
cut(_, _) -> [].
