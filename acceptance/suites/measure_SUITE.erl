%% Tests `whittle measure' with real builds, and opens its page in a browser.
-module(measure_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([table/1, samples/1, page/1, pictures/1, report_again/1, compared/1, json/1,
         builds_alone/1, library/1, stock_sources/1, stock_changed/1, interrupted/1,
         wrong_arguments/1]).

all() ->
    [table, samples, page, pictures, report_again, compared, json, builds_alone, library,
     stock_sources, stock_changed, interrupted, wrong_arguments].

init_per_suite(Config) ->
    ok = running:install_charts(),
    Dir = filename:join(running:directory("measure", Config), "a study"),
    {0, Output} = running:whittle(["measure", "start", "--blocks", "3", "--only", "build=stock",
                                   "--only", "build=whole", "-o", Dir]),
    [{dir, Dir}, {output, Output} | Config].

end_per_suite(_) -> ok.

%% The table holds the medians and the sizes of the samples.
table(Config) ->
    Output = proplists:get_value(output, Config),
    Found = fun(Pattern) ->
                    Matched = re:run(Output, Pattern,
                                     [multiline, unicode, {capture, all_but_first, list}]),
                    ?assertMatch({Pattern, {match, _}}, {Pattern, Matched}),
                    {match, Texts} = Matched,
                    [number(Text) || Text <- Texts]
            end,
    Times = "^first_line, ms +median +75 % interval +against the baseline +verdict\n",
    [Stock] = Found(Times ++ "build=stock +([0-9.,]+) +[0-9.,]+ to [0-9.,]+ +1 "
                    "\\(baseline\\)"),
    [Whole, Low, High, Ratio] =
        Found(Times ++ ".*\nbuild=whole +([0-9.,]+) +([0-9.,]+) to ([0-9.,]+) +"
              "([0-9.]+) \\([0-9.]+ to [0-9.]+\\) +[a-z]"),
    [?assert(abs(Shown - Median) < 0.01 * Median)
     || {Shown, Build} <- [{Stock, <<"stock">>}, {Whole, <<"whole">>}],
        Median <- [lists:nth(2, lists:sort([Time || #{<<"block">> := Block,
                                                      <<"cell">> := #{<<"build">> := Of},
                                                      <<"values">> := #{<<"first_line">> := Time}}
                                                        <- read_samples(dir(Config)),
                                                    Of =:= Build, Block > 0]))]],
    ?assert(Low =< Whole andalso Whole =< High),
    ?assert(Ratio > 0),
    [Size] = [Size || #{<<"values">> := #{<<"size">> := Size}} <- read_samples(dir(Config))],
    ?assertMatch({match, _},
                 re:run(Output, ["^size, bytes +exact +against the baseline +verdict\n(?:.*\n)?"
                                 "build=whole +", whittle_number:text(Size), " "], [multiline])),
    ?assertMatch({match, _}, re:run(Output, "^the page: .*/a study/page.html$", [multiline])).

samples(Config) ->
    Samples = read_samples(dir(Config)),
    %% One block warms up.
    ?assertEqual(lists:sort([{Block, Build} || Block <- [0, 1, 2, 3],
                                               Build <- [<<"stock">>, <<"whole">>]]),
                 lists:sort([{Block, Build} || #{<<"block">> := Block,
                                                 <<"cell">> := #{<<"build">> := Build}}
                                                   <- Samples])),
    %% The stock OTP has no output.
    ?assertMatch([#{<<"cells">> := [#{<<"build">> := <<"whole">>}],
                    <<"values">> := #{<<"size">> := _}}],
                 [Sample || #{<<"block">> := <<"build">>} = Sample <- Samples]),
    ?assertEqual([], [Size || #{<<"cell">> := _, <<"values">> := #{<<"size">> := Size}}
                                  <- Samples]),
    [?assert(Time > 0 andalso Time < 10_000)
     || #{<<"values">> := #{<<"first_line">> := Time}} <- Samples].

%% The browser shows a chart for each response.
page(Config) ->
    Page = filename:join(dir(Config), "page.html"),
    %% The first table has the titles of the levels.
    ?assertMatch(#{figures := 3, tables := 4}, pages:opened(Page)).

%% The charts of a report as files for pages that show no SVG.
pictures(Config) ->
    {0, Output} = running:whittle(["measure", "report", dir(Config), "--png"]),
    Files = filelib:wildcard(filename:join(dir(Config), "*.png")),
    ?assertEqual(["first_line-hello-1.png", "run_time-hello-1.png", "size-hello-1.png"],
                 [filename:basename(File) || File <- Files]),
    [begin
         ?assertMatch({ok, <<16#89, "PNG\r\n", _/binary>>}, file:read_file(File)),
         ?assertMatch({_, _}, binary:match(Output, unicode:characters_to_binary(
                                                     ["a picture: ", File])))
     end || File <- Files].

report_again(Config) ->
    Page = filename:join(dir(Config), "page.html"),
    {ok, Before} = file:read_file(Page),
    ok = file:delete(Page),
    {0, _} = running:whittle(["measure", "report", dir(Config)]),
    ?assertEqual({ok, Before}, file:read_file(Page)).

compared(Config) ->
    {0, Output} = running:whittle(["measure", "compare", dir(Config), dir(Config)]),
    ?assertMatch({match, _}, re:run(Output, "no difference")),
    ?assertMatch({match, _}, re:run(Output, "build=whole.*1.000 +the same\n")).

json(Config) ->
    {0, Output} = running:whittle(["measure", "report", dir(Config), "--json"]),
    #{<<"results">> := Results} = jiffy:decode(Output, [return_maps]),
    ?assertEqual([<<"first_line">>, <<"run_time">>, <<"size">>],
                 [Name || #{<<"response">> := Name} <- Results]).

%% A study of builds runs no program: the cells of one build share one sample, and its twenty blocks
%% take none. The table of symbols is not in the output.
builds_alone(Config) ->
    {Samples, Output} =
        measured(Config, #{title => "builds", blocks => 20,
                           responses => [size, vm, vm_symbols, squashfs_xz],
                           programs => [#{name => hello, input => example("hello")}],
                           factors => [#{name => flags,
                                         levels => [#{name => none},
                                                    #{name => min, flags => ["+Mea", "min"]}]}]}),
    [#{<<"block">> := <<"build">>, <<"cells">> := [_, _],
       <<"values">> := #{<<"size">> := Size, <<"vm">> := Vm, <<"vm_symbols">> := Symbols,
                         <<"squashfs_xz">> := Image}}] = Samples,
    ?assert(Vm < Symbols andalso Vm < Size andalso Symbols < 2 * Vm),
    ?assert(Image < Size andalso Image > Size div 2),
    ?assertMatch({match, _}, re:run(Output, "flags=min +[0-9,]+ +1.000 +the same\n")),
    ?assertEqual(nomatch, re:run(Output, "interval|noisy|detected")).

%% Each step makes the files of an application smaller, and compression inside of a stream does not
%% pay.
library(Config) ->
    Factor = fun(Name, Level, Form) ->
                     #{name => Name, levels => [#{name => no}, #{name => Level, library => Form}]}
             end,
    {Samples, _} =
        measured(Config, #{title => "library", responses => [library],
                           programs => [#{name => kernel, input => example("hello"),
                                          library => [kernel]}],
                           factors => [Factor(debug, yes, #{strip => false}),
                                       Factor(modules, gzip, #{modules => gzip}),
                                       Factor(applications, zip, #{applications => zip}),
                                       Factor(stream, zstd, #{stream => zstd})]}),
    Size = fun(Wanted) ->
                   [Size] = [Size || #{<<"cells">> := [Cell],
                                       <<"values">> := #{<<"library">> := Size}} <- Samples,
                                     Cell =:= maps:merge(cell(), Wanted)],
                   Size
           end,
    ?assertEqual(16, length(Samples)),
    Stream = Size(#{<<"stream">> => <<"zstd">>}),
    ?assert(Size(#{<<"debug">> => <<"yes">>}) > Size(#{})),
    ?assert(Size(#{}) > Size(#{<<"modules">> => <<"gzip">>})),
    ?assert(Size(#{}) > Size(#{<<"applications">> => <<"zip">>})),
    ?assert(Size(#{<<"applications">> => <<"zip">>}) > Stream),
    ?assert(Size(#{<<"modules">> => <<"gzip">>, <<"stream">> => <<"zstd">>}) > Stream).

%% The stock OTP runs an application of which only the sources exist, and a program that waits has
%% memory.
stock_sources(Config) ->
    Waiting = filename:join(running:root(), "host/whittle_measure/priv/programs/waiting"),
    {Samples, _} =
        measured(Config, #{title => "stock", responses => [first_line, rss_mean], blocks => 1,
                           duration => 1,
                           programs => [#{name => waiting, input => Waiting}],
                           factors => [#{name => build,
                                         levels => [#{name => stock, runner => stock},
                                                    #{name => whole}]}]}),
    ?assertMatch([#{<<"first_line">> := _, <<"rss_mean">> := _},
                  #{<<"first_line">> := _, <<"rss_mean">> := _}],
                 [Values || #{<<"values">> := Values} <- Samples]).

%% The stock VM runs `erl', so the modules of the program count. The second compilation of the same
%% source, in another directory, changes nothing.
stock_changed(Config) ->
    Dir = running:directory("stock changed", Config),
    Waiting = filename:join(running:root(), "host/whittle_measure/priv/programs/waiting/src"),
    Sources = filename:join(Dir, "waiting/src"),
    ok = filelib:ensure_path(Sources),
    [{ok, _} = file:copy(filename:join(Waiting, Name), filename:join(Sources, Name))
     || Name <- ["waiting.erl", "waiting.app.src"]],
    Study = filename:join(Dir, "made.study"),
    ok = file:write_file(Study,
                         io_lib:format("~tp.~n",
                                       [#{title => "stock", responses => [first_line],
                                          blocks => 1, duration => 1,
                                          programs => [#{name => waiting, input => "waiting"}],
                                          factors => [#{name => build,
                                                        levels => [#{name => stock,
                                                                     runner => stock}]}]}])),
    Again = ["measure", Study, "-o", filename:join(Dir, "out"), "--resume"],
    {0, _} = running:whittle(lists:droplast(Again)),
    {0, _} = running:whittle(Again),
    Source = filename:join(Sources, "waiting.erl"),
    {ok, Text} = file:read_file(Source),
    [Head, Rest] = string:split(Text, "\n\n"),
    ok = file:write_file(Source, [Head, "\n-export([more/0]).\n\n", Rest, "\nmore() -> more.\n"]),
    {1, Line} = running:whittle(Again),
    ?assertMatch({match, _}, re:run(Line, "inputs have changed: waiting-[0-9A-F]+; start it anew")).

cell() ->
    #{<<"program">> => <<"kernel">>, <<"debug">> => <<"no">>, <<"modules">> => <<"no">>,
      <<"applications">> => <<"no">>, <<"stream">> => <<"no">>}.

example(Name) -> filename:join([running:root(), "examples", Name]).

measured(Config, Study) ->
    Dir = running:directory(maps:get(title, Study), Config),
    File = filename:join(Dir, "made.study"),
    ok = file:write_file(File, io_lib:format("~tp.~n", [Study])),
    Out = filename:join(Dir, "out"),
    {0, Output} = running:whittle(["measure", File, "-o", Out]),
    {read_samples(Out), Output}.

%% `1,234' or `12.34'.
number(Text) ->
    Plain = lists:flatten(string:replace(Text, ",", "", all)),
    try list_to_float(Plain) catch error:badarg -> list_to_integer(Plain) end.

read_samples(Dir) ->
    {ok, Lines} = file:read_file(filename:join(Dir, "samples.jsonl")),
    [jiffy:decode(Line, [return_maps]) || Line <- binary:split(Lines, <<"\n">>, [global, trim])].

%% Ctrl-C ends a study at once, and --resume continues it. Each run of the program says so in one
%% pipe. From the second run on it waits for a line from another pipe.
interrupted(Config) ->
    Dir = running:directory("stopped", Config),
    [Said, Gate] = [filename:join(Dir, Name) || Name <- ["said", "gate"]],
    "" = os:cmd("mkfifo '" ++ Said ++ "' '" ++ Gate ++ "'"),
    Study = filename:join(Dir, "pipe.study"),
    Script = "cd \"$0\"; echo run >said; test ! -e second || read line <gate; : >second; echo done",
    ok = file:write_file(Study,
                         io_lib:format("~tp.~n",
                                       [#{title => "a pipe", blocks => 3, responses => [run_time],
                                          programs => [#{name => writer,
                                                         command => ["sh", "-c", Script, Dir]}]}])),
    Out = filename:join(Dir, "out"),
    Reader = running:start("/bin/sh", ["-c", "exec 3<>\"$0\"; cat <&3", Said]),
    %% The tests may have started in the background, where a shell ignores SIGINT.
    Measure = running:start("/usr/bin/env", ["--default-signal=INT",
                                             filename:join(running:root(), "whittle"),
                                             "measure", Study, "-o", Out], #{env => keep}),
    _ = running:until(Reader, <<"run\nrun\n">>),
    ok = running:signal(Measure, "INT"),
    {130, _} = running:ended(Measure),
    Samples = filename:join(Out, "samples.jsonl"),
    {ok, Before} = file:read_file(Samples),
    ?assertEqual(1, length(binary:matches(Before, <<"\n">>))),
    Writer = running:start("/bin/sh", ["-c", "exec 3<>\"$0\"; exec yes >&3", Gate]),
    {0, _} = running:whittle(["measure", Study, "-o", Out, "--resume"]),
    [ok = running:signal(Port, "TERM") || Port <- [Reader, Writer]],
    {ok, After} = file:read_file(Samples),
    ?assertEqual(Before, binary:part(After, 0, byte_size(Before))),
    ?assertEqual(3, length(binary:matches(After, <<"\n">>))).

wrong_arguments(_) ->
    [begin
         {Got, Line} = running:whittle(["measure" | Arguments]),
         ?assertEqual({Arguments, Code}, {Arguments, Got}),
         ?assertMatch({Line, {match, _}}, {Line, re:run(Line, Pattern)})
     end
     || {Arguments, Code, Pattern} <-
            [{["nosuch"], 1, "^whittle: there is no study nosuch; the studies are .*start"},
             {[], 2, "needs STUDY"},
             {["start", "extra"], 2, "unexpected argument `extra'"},
             {["report"], 2, "needs DIR"},
             {["compare", "one"], 2, "needs two directories"},
             {["start", "--blocks", "0"], 2, "--blocks cannot be `0'"},
             {["start", "--only", "build"], 2, "--only cannot be `build'"},
             {["start", "--only", "build=nothing"], 1, "no level nothing; its levels are stock"},
             {["report", "/nowhere"], 1, "holds no samples"}]].

dir(Config) -> proplists:get_value(dir, Config).
