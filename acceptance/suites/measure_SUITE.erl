%% Tests `whittle measure' with real builds, and opens its page in a browser.
-module(measure_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([table/1, samples/1, page/1, report_again/1, compared/1, json/1, interrupted/1,
         wrong_arguments/1]).

all() -> [table, samples, page, report_again, compared, json, interrupted, wrong_arguments].

%% The page needs the packages of web/chart, which the tests of web/ install later.
init_per_suite(Config) ->
    {0, _} = running:run(os:find_executable("make"),
                         ["-C", filename:join(running:root(), "web"),
                          "node_modules/.package-lock.json"], #{env => keep}),
    Dir = filename:join(running:directory("measure", Config), "a study"),
    {0, Output} = running:whittle(["measure", "start", "--blocks", "3", "--only", "build=stock",
                                   "--only", "build=whole", "-o", Dir]),
    [{dir, Dir}, {output, Output} | Config].

end_per_suite(_) -> ok.

%% A built hello starts faster than the stock OTP does.
table(Config) ->
    Output = proplists:get_value(output, Config),
    [?assertMatch({Pattern, {match, _}}, {Pattern, re:run(Output, Pattern, [multiline, unicode])})
     || Pattern <- ["^first_line, ms +median +95 % interval +against the baseline +verdict$",
                    "^build=stock +[0-9.,]+ .* 1 \\(baseline\\)",
                    "^build=whole +[0-9.,]+ ",
                    "^size, bytes",
                    "^the page: .*/a study/page.html$"]].

samples(Config) ->
    {ok, Lines} = file:read_file(filename:join(dir(Config), "samples.jsonl")),
    Samples = [jiffy:decode(Line, [return_maps])
               || Line <- binary:split(Lines, <<"\n">>, [global, trim])],
    %% One block warms up.
    ?assertEqual(lists:sort([{Block, Build} || Block <- [0, 1, 2, 3],
                                               Build <- [<<"stock">>, <<"whole">>]]),
                 lists:sort([{Block, Build} || #{<<"block">> := Block,
                                                 <<"cell">> := #{<<"build">> := Build}}
                                                   <- Samples])),
    [?assert(Time > 0 andalso Time < 10_000)
     || #{<<"values">> := #{<<"first_line">> := Time}} <- Samples].

%% The browser shows a chart for each response, and asks for nothing outside of the file.
page(Config) ->
    Page = filename:join(dir(Config), "page.html"),
    {0, Dom} = running:run(os:find_executable("chromium"),
                           ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                            "file://" ++ uri_string:quote(Page, "/")], #{}),
    ?assertEqual(3, length(binary:matches(Dom, <<"<figure><svg">>))),
    ?assertEqual(3, length(binary:matches(Dom, <<"<table>">>))),
    ?assertMatch({_, _}, binary:match(Dom, <<"href=\"samples.jsonl\"">>)),
    {ok, Html} = file:read_file(Page),
    ?assertEqual(nomatch, re:run(Html, "(src|href)=\"(https?:|//)")).

report_again(Config) ->
    Page = filename:join(dir(Config), "page.html"),
    {ok, Before} = file:read_file(Page),
    ok = file:delete(Page),
    {0, _} = running:whittle(["measure", "report", dir(Config)]),
    ?assertEqual({ok, Before}, file:read_file(Page)).

compared(Config) ->
    {0, Output} = running:whittle(["measure", "compare", dir(Config), dir(Config)]),
    ?assertMatch({match, _}, re:run(Output, "no difference")).

json(Config) ->
    {0, Output} = running:whittle(["measure", "report", dir(Config), "--json"]),
    #{<<"results">> := Results} = jiffy:decode(Output, [return_maps]),
    ?assertEqual([<<"first_line">>, <<"run_time">>, <<"size">>],
                 [Name || #{<<"response">> := Name} <- Results]).

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
    Measure = running:start(filename:join(running:root(), "whittle"),
                            ["measure", Study, "-o", Out], #{env => keep}),
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
