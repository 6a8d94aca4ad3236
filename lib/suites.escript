#!/usr/bin/env escript
%% Compiles the libraries, some examples and the tests with the OTP that runs this
%% script, and runs all suites. Each release of OTP has its own output directory. The script writes
%% the numbers of passed and failed cases to a file.
%%
%% usage: suites.escript DEVICE-DIR BUILD-DIR PROPER-DIR RESULT-FILE [APPLICATION...]

-mode(compile).

main([Device, Build, Proper, Result | Only]) ->
    Release = erlang:system_info(otp_release),
    Flavor = erlang:system_info(emu_flavor),
    io:format("== OTP ~s (~p), ~p schedulers~n",
              [Release, Flavor, erlang:system_info(schedulers)]),
    Out = filename:join(Build, "otp-" ++ Release),
    HasJson = code:ensure_loaded(json) =:= {module, json},
    _ = [io:format("docket: skipped, OTP before 27 has no json~n") || not HasJson],
    Apps = [filename:dirname(filename:dirname(F))
            || Where <- ["*", "*/dropin", "../examples/sensors", "../examples/blinky",
                         "../examples/mixed", "../examples/presence"]
                   ++ ["../examples/docket" || HasJson],
               F <- lists:sort(filelib:wildcard(filename:join([Device, Where, "src/*.app.src"])))],
    rebuild(Proper, filename:join(Out, "proper")),
    %% Libraries that examples/docket/fetch-ra has fetched. Without Ra, docket_ra_SUITE skips its
    %% cases.
    [rebuild(Library, filename:join(Out, hd(string:split(filename:basename(Library), "-"))))
     || Library <- filelib:wildcard(filename:join(Device, "../_build/ra/*-*"))],
    %% The nodes that the tests start must not take the name of this one.
    true = os:unsetenv("ERL_FLAGS"),
    true = os:putenv("ERL_LIBS", Out),
    ok = filelib:ensure_dir(filename:join(Out, "x")),
    [build(App, Out) || App <- Apps],
    Tests = filename:join(Out, "tests"),
    ok = filelib:ensure_path(Tests),
    %% Compile the tests of all applications, because some use modules of others.
    Suites = lists:append([Own || App <- Apps, Own <- [tests(App, Tests)], Only =:= []
                               orelse lists:member(filename:basename(App), Only)]),
    code:add_patha(Tests),
    %% The test cases cause log events. Hide these, because only failures matter here.
    ok = logger:set_primary_config(level, none),
    Private = filename:join(Out, "private"),
    Results = lists:append([timed(Suite, fun() -> [run(Suite, Case, Private)
                                                   || Case <- Suite:all()] end)
                            || Suite <- Suites]),
    Failed = length([failed || failed <- Results]),
    ok = file:write_file(Result, io_lib:format("~b ~b~n", [length(Results) - Failed, Failed])).

%% Prints the time of a suite that takes long, because `make test' has a limit.
timed(Suite, Run) ->
    {Time, Results} = timer:tc(Run),
    _ = [io:format("~s: ~b s~n", [Suite, Time div 1_000_000]) || Time > 10_000_000],
    Results.

%% Runs each case in its own process, as common_test does. The script does not use common_test,
%% because it may not work: an OTP from Debian's source lacks a file for its HTML pages.
run(Suite, Case, Private) ->
    ok = filelib:ensure_path(Private),
    Config = [{priv_dir, Private}],
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Config1 = Suite:init_per_testcase(Case, Config),
                                       try Suite:Case(Config1)
                                       after Suite:end_per_testcase(Case, Config1)
                                       end
                               end),
    receive
        {'DOWN', Ref, process, Pid, normal} -> passed;
        {'DOWN', Ref, process, Pid, Reason} -> failed(Suite, Case, Reason)
    after 120000 ->
            Stack = process_info(Pid, current_stacktrace),
            exit(Pid, kill),
            failed(Suite, Case, {timetrap, Stack})
    end.

failed(Suite, Case, Reason) ->
    io:format("FAILED ~s:~s~n  ~P~n", [Suite, Case, Reason, 40]),
    failed.

%% Compiles a library of Debian again from the abstract code in its beam files. Debian compiled
%% these for its own OTP, and not every later release loads them.
rebuild(From, To) ->
    Ebin = filename:join(To, "ebin"),
    ok = filelib:ensure_path(Ebin),
    ok = filelib:ensure_path(filename:join(To, "include")),
    [{ok, _} = file:copy(F, filename:join([To, "include", filename:basename(F)]))
     || F <- filelib:wildcard(filename:join(From, "include/*.hrl"))],
    [{ok, _} = file:copy(F, filename:join(Ebin, filename:basename(F)))
     || F <- filelib:wildcard(filename:join(From, "ebin/*.app"))],
    [begin
         {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
             beam_lib:chunks(File, [abstract_code]),
         {ok, Module, Beam} = compile:forms(Forms, [debug_info]),
         ok = file:write_file(filename:join(Ebin, filename:basename(File)), Beam)
     end || File <- filelib:wildcard(filename:join(From, "ebin/*.beam"))],
    true = code:add_patha(Ebin).

build(App, Out) ->
    [Spec] = filelib:wildcard(filename:join(App, "src/*.app.src")),
    Name = filename:basename(Spec, ".app.src"),
    Ebin = filename:join([Out, Name, "ebin"]),
    ok = filelib:ensure_path(Ebin),
    code:add_patha(Ebin),
    %% Compile modules that define a behavior first: the compiler checks other modules against them.
    Sources = filelib:wildcard(filename:join(App, "src/*.erl")),
    {Behaviours, Others} = lists:partition(fun is_behaviour/1, lists:sort(Sources)),
    Modules = [compile(F, Ebin, []) || F <- Behaviours ++ Others],
    {ok, [{application, Id, Props}]} = file:consult(Spec),
    ok = file:write_file(filename:join(Ebin, Name ++ ".app"),
                         io_lib:format("~p.~n", [{application, Id, [{modules, Modules} | Props]}])),
    Priv = filename:join([Out, Name, "priv"]),
    ok = filelib:ensure_path(Priv),
    [{ok, _} = file:copy(F, filename:join(Priv, filename:basename(F)))
     || F <- filelib:wildcard(filename:join(App, "priv/*")), filelib:is_regular(F)],
    natives(filename:join(App, "c_src"), Priv).

%% Compiles the NIFs into Priv with c_src/Makefile and the headers of this OTP.
natives(Source, Priv) ->
    case filelib:is_regular(filename:join(Source, "Makefile")) of
        false -> ok;
        true ->
            Include = filename:join([code:root_dir(), "usr", "include"]),
            Make = open_port({spawn_executable, os:find_executable("make")},
                             [{args, ["-s", "-C", Source, "PRIV=" ++ Priv,
                                      "ERL_INCLUDE=" ++ Include]},
                              exit_status, use_stdio, stderr_to_stdout]),
            made(Make)
    end.

made(Make) ->
    receive
        {Make, {data, Text}} -> io:put_chars(Text), made(Make);
        {Make, {exit_status, 0}} -> ok;
        {Make, {exit_status, _}} -> halt(1)
    end.

is_behaviour(File) ->
    {ok, Text} = file:read_file(File),
    binary:match(Text, <<"-callback ">>) =/= nomatch.

tests(App, Tests) ->
    Files = lists:sort(filelib:wildcard(filename:join(App, "test/*.erl"))),
    Modules = [compile(F, Tests, [{i, filename:join(App, "src")}]) || F <- Files],
    [M || M <- Modules, lists:suffix("_SUITE", atom_to_list(M))].

compile(File, Out, Options) ->
    case compile:file(File, [{outdir, Out}, debug_info, report, warnings_as_errors | Options]) of
        {ok, Module} -> Module;
        error -> halt(1)
    end.
