%% @doc Runs the quick checks of a level: programs whose results are known, whole and shaken.
%%
%% They find out in a minute whether a release works at all: the VM boots, an application starts
%% and stops, and each phase of `mixed' checks its own results (processes, messages, ETS, binaries,
%% maps, timers, lists). A shaken program without its unreachable code fails if the release calls
%% functions in a way that Whittle does not know yet.
%% @hidden
-module(whittle_measure_otp_checks).

-export([run/3]).

-export_type([check/0]).

-type check() :: #{name := binary(), passed := boolean(), line := binary()}.

%% A program, its options, and the pattern of its last line.
-define(CHECKS, [{<<"hello">>, hello, none, "^Hello from one file\\.$"},
                 {<<"hello, shaken">>, hello, shaken, "^Hello from one file\\.$"},
                 {<<"mixed">>, mixed, none, "^score [0-9.]+$"},
                 {<<"mixed, shaken">>, mixed, shaken, "^score [0-9.]+$"}]).

%% A check takes a second; an emulated or busy machine may need many.
-define(PATIENCE_MS, 120_000).

%% @doc Runs all checks on outputs that it builds in a temporary directory. A check that cannot be
%% built has failed.
-spec run([{atom(), file:filename()}],
          #{otp := string(), options := whittle_runtime:options()},
          fun((whittle_make:event()) -> term())) -> [check()].
run(Inputs, Level, Tell) ->
    case whittle_unfinished:make_directory("whittle-otp") of
        {ok, Dir} ->
            Checks = [check(Check, Inputs, Level, Tell, Dir) || Check <- ?CHECKS],
            ok = whittle_unfinished:remove_directory(Dir),
            Checks;
        {error, {Base, Reason}} ->
            Line = [Base, " cannot be written: ", file:format_error(Reason)],
            [result(Name, false, Line) || {Name, _, _, _} <- ?CHECKS]
    end.

check({Name, Program, Shaken, Pattern}, Inputs, #{otp := Otp, options := Options}, Tell, Dir) ->
    {Program, Input} = lists:keyfind(Program, 1, Inputs),
    Out = filename:join(Dir, "checked"),
    Request = #{input => Input, otp => Otp, runtime => Options, out => Out, tell => Tell,
                shake => case Shaken of
                             none -> none;
                             shaken -> #{unit => functions, missing => crash}
                         end},
    case whittle_make:make(Request) of
        {ok, _} ->
            Ran = whittle_measure_observe:run(#{program => Out, arguments => [], environment => []},
                                              #{duration => ?PATIENCE_MS, interval => 1000}),
            judged(Name, Ran, Pattern);
        {error, Reason} -> result(Name, false, whittle_make:format_error(Reason))
    end.

judged(Name, {ok, #{ended := _, output := Output}}, Pattern) ->
    Last = last(Output),
    case re:run(Last, Pattern, [{capture, none}]) of
        match -> result(Name, true, Last);
        nomatch -> result(Name, false, ["its last line is `", Last, "'"])
    end;
judged(Name, {ok, _}, _) ->
    result(Name, false, io_lib:format("it did not end within ~b s", [?PATIENCE_MS div 1000]));
judged(Name, {error, Reason}, _) ->
    result(Name, false, whittle_measure_observe:format_error(Reason)).

last(Output) ->
    case binary:split(Output, <<"\n">>, [global, trim_all]) of
        [] -> "";
        Lines -> whittle_file_name:printable(lists:last(Lines))
    end.

result(Name, Passed, Line) ->
    #{name => Name, passed => Passed, line => unicode:characters_to_binary(Line)}.
