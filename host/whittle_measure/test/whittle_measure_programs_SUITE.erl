%% Tests the programs that shipped studies run.
-module(whittle_measure_programs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([serving/1, storing/1, wrong_arguments/1]).

all() -> [serving, storing, wrong_arguments].

init_per_suite(Config) ->
    Ebin = proplists:get_value(priv_dir, Config),
    [begin
         Source = filename:join([code:priv_dir(whittle_measure), "programs", Name, "src", Name]),
         {ok, _} = compile:file(Source, [{outdir, Ebin}]),
         {ok, _} = file:copy(Source ++ ".app.src", filename:join(Ebin, Name ++ ".app"))
     end || Name <- ["serving", "storing"]],
    Config.

end_per_suite(_) -> ok.

%% The score is the number of answers for each second of the given ones.
serving(Config) -> scores("serving", "answered ([0-9]+) requests", ["1", "3"], Config).

storing(Config) -> scores("storing", "made ([0-9]+) transactions", ["1", "100"], Config).

scores(Name, Line, Arguments, Config) ->
    {0, Output} = run(Name, Arguments, Config),
    {match, [Work, Score]} = re:run(Output, "^" ++ Line ++ "\nscore ([0-9.]+)\n$",
                                    [{capture, all_but_first, list}]),
    ?assert(list_to_integer(Work) > 0),
    %% The program works for one second at least.
    ?assert(0 < list_to_float(Score) andalso list_to_float(Score) =< list_to_integer(Work)).

wrong_arguments(Config) ->
    [?assertMatch({Name, Words, {2, <<"usage: ", _/binary>>}},
                  {Name, Words, run(Name, Words, Config)})
     || Name <- ["serving", "storing"], Words <- [["0"], ["x"], ["1", "0"], ["1", "1", "1"]]].

run(Name, Arguments, Config) ->
    whittle_program:run(os:find_executable("erl"),
                        ["-noshell", "-pa", ".", "-eval",
                         "{ok, _} = application:ensure_all_started(" ++ Name ++ ").", "-extra"
                         | Arguments], #{cd => proplists:get_value(priv_dir, Config)}).
