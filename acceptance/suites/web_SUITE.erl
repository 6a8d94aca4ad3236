%% Tests a third-party web server: Debian's mochiweb gives the same answers with and without tree
%% shaking (acceptance/suites/visits.erl). acceptance/programs does the same with more of Debian's
%% programs.
-module(web_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([whole/1, loads/1, crashes/1, smaller/1]).

all() -> [whole, loads, crashes, smaller].

%% The build takes mochiweb, and nothing else, from the place where the tests' erl has it.
init_per_suite(Config) ->
    Libs = running:directory("web/libs", Config),
    ok = file:make_symlink(code:lib_dir(mochiweb), filename:join(Libs, "mochiweb")),
    Before = os:getenv("ERL_LIBS", ""),
    true = os:putenv("ERL_LIBS", Libs),
    Built = [{Way, running:build(running:fixture("pages"),
                                 filename:join(filename:dirname(Libs), Way), Options)}
             || {Way, Options} <-
                    [{"whole", []}, {"loads", ["--shake", "functions"]},
                     %% The server's name comes from text; inets and ssl read their own terms.
                     {"crashes", ["--shake", "functions", "--missing", "crash", "--atoms", "none",
                                  "--data", "none"]}]],
    true = os:putenv("ERL_LIBS", Before),
    [{built, Built} | Config].

end_per_suite(_) -> ok.

whole(Config) ->
    Answers = visited("whole", Config),
    {pages, [{200, _, Page} | _]} = lists:keyfind(pages, 1, Answers),
    ?assertEqual(<<"<body><h1>Pages</h1></body>">>, Page),
    {forms, [{200, _, _}, {200, _, Sizes} | _]} = lists:keyfind(forms, 1, Answers),
    ?assertEqual(<<"[[\"a\",1],[\"file\",20000]]">>, Sizes),
    {session, [_, {200, _, Known}]} = lists:keyfind(session, 1, Answers),
    ?assertEqual(<<"visitor came again\n">>, Known),
    {many, [{200, _, _}]} = lists:keyfind(many, 1, Answers).

loads(Config) -> ?assertEqual(visited("whole", Config), visited("loads", Config)).

crashes(Config) -> ?assertEqual(visited("whole", Config), visited("crashes", Config)).

%% The unreachable code, such as compiler and shell, is gone: less than half remains.
smaller(Config) ->
    [Whole, Crashes] = [pack(file(Way, Config)) || Way <- ["whole", "crashes"]],
    ?assert(Crashes < Whole div 2).

%% Internal functions

visited(Way, Config) ->
    {Program, Port} = visits:start(file(Way, Config), []),
    Answers = visits:all(Port),
    {0, _} = visits:stop(Program, Port),
    Answers.

file(Way, Config) -> proplists:get_value(Way, proplists:get_value(built, Config)).

pack(File) ->
    {ok, #{size := Size, vm := Vm}} = whittle_pack:read(File),
    Size - Vm.
