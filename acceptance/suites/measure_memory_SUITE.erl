%% Tests studies of the memory of programs that Whittle built: the recording that the engine makes,
%% the account, the pauses, and the page with its charts in a browser.
-module(measure_memory_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([seen_only/1, pauses/1, recording_is_kept/1, page/1, estone/1]).

all() -> [seen_only, pauses, recording_is_kept, page, estone].

%% mixed goes on for longer than the study watches it.
init_per_suite(Config) ->
    ok = running:install_charts(),
    Dir = running:directory("memory", Config),
    File = filename:join(Dir, "made.study"),
    Input = filename:join([running:root(), "examples", "mixed"]),
    Shake = #{unit => functions, missing => load},
    Study = #{title => "memory", blocks => 1, duration => 4, crossed => [],
              programs => [#{name => mixed, input => Input, arguments => ["600"]}],
              factors => [#{name => loading,
                            levels => [#{name => whole},
                                       #{name => shaken, request => #{shake => Shake}},
                                       #{name => seen,
                                         request => #{shake => Shake#{seen => only}}}]},
                          #{name => schedulers,
                            levels => [#{name => all}, #{name => one, flags => ["+S", "1:1"]}]}],
              responses => [rss_mean, #{name => terms, kind => account, line => terms},
                            #{name => code, kind => account, line => code},
                            gc_pause_p50, gc_pause_max]},
    ok = file:write_file(File, io_lib:format("~tp.~n", [Study])),
    Out = filename:join(Dir, "out"),
    {0, _} = running:whittle(["measure", File, "-o", Out]),
    [{dir, Out}, {study, File} | Config].

end_per_suite(_) -> ok.

%% Less code is in memory, the less of it the build loads at the start.
seen_only(Config) ->
    Code = fun(Loading) ->
                   [Code] = [Code || #{<<"cell">> := #{<<"loading">> := Of,
                                                       <<"schedulers">> := <<"all">>},
                                       <<"values">> := #{<<"code">> := Code}} <- samples(Config),
                                     Of =:= Loading],
                   Code
           end,
    ?assertEqual(4, length(samples(Config))),
    ?assert(Code(<<"seen">>) < Code(<<"shaken">>)),
    ?assert(Code(<<"shaken">>) < Code(<<"whole">>)).

%% Outputs load the counter of pauses, also if functions are cold.
pauses(Config) ->
    [begin
         #{<<"gc_pause_p50">> := Half, <<"gc_pause_max">> := Most} = Values,
         ?assert(0 < Half andalso Half =< 1.01 * Most, Values)
     end || #{<<"values">> := Values} <- samples(Config)].

%% A study that goes on uses the recording that it has made.
recording_is_kept(Config) ->
    [File] = filelib:wildcard(filename:join([dir(Config), "recordings", "mixed-*.trace"])),
    {ok, Before} = file:read_file(File),
    ?assertMatch(<<"whittle evidence ", _/binary>>, Before),
    {0, _} = running:whittle(["measure", proplists:get_value(study, Config), "-o", dir(Config),
                              "--resume"]),
    ?assertEqual({ok, Before}, file:read_file(File)),
    ?assertEqual(4, length(samples(Config))).

%% A chart for each response, two for the curves of two factors, and one for the account.
page(Config) ->
    Page = filename:join(dir(Config), "page.html"),
    #{text := Shown} = Opened = pages:opened(Page),
    ?assertMatch(#{figures := 5 + 2 + 1}, Opened),
    [?assertMatch({Text, {_, _}}, {Text, binary:match(Shown, Text)})
     || Text <- [<<"loading, with the other factors as in the baseline">>, <<"resident set, MB">>,
                 <<"free space in carriers">>, <<"seconds">>]].

%% OTP's own benchmark, from the source from which Whittle builds OTP.
estone(Config) ->
    Dir = running:directory("estone", Config),
    File = filename:join(Dir, "made.study"),
    Source = #{files => ["erts/emulator/test/estone_SUITE.erl"], defines => ["PGO"],
               start => {estone_SUITE, pgo}},
    Study = #{title => "estone", blocks => 1, duration => 600,
              programs => [#{name => estone, otp_source => Source}],
              responses => [#{name => estones, kind => printed, pattern => "ESTONES = ([0-9]+)",
                              unit => "estones", better => more}]},
    ok = file:write_file(File, io_lib:format("~tp.~n", [Study])),
    {0, Output} = running:whittle(["measure", File, "-o", filename:join(Dir, "out")]),
    ?assertMatch({match, _}, re:run(Output, "estones, estones +median.*\n.*[0-9]{3}")).

samples(Config) ->
    {ok, Lines} = file:read_file(filename:join(dir(Config), "samples.jsonl")),
    [jiffy:decode(Line, [return_maps]) || Line <- binary:split(Lines, <<"\n">>, [global, trim])].

dir(Config) -> proplists:get_value(dir, Config).
