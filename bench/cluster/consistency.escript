#!/usr/bin/env escript
%%! +Bd
%% Injects faults into a stage of docket while clients work, and judges what they have seen.
%%
%% run: bench/cluster/consistency (which ends the stage), with the options that --help prints
-mode(compile).

main(Arguments) ->
    Dir = filename:dirname(escript:script_name()),
    %% The behavior comes first.
    Sources = [filename:join(Dir, "linearizable.erl")
               | filelib:wildcard(filename:join(Dir, "*.erl"))],
    _ = [begin
             {ok, Module, Beam} = compile:file(File, [binary, report]),
             {module, Module} = code:load_binary(Module, File, Beam)
         end || File <- Sources],
    halt(case consistency_options:read(Arguments) of
             {ok, Run, Output} -> ran(Run, Output, os:getenv("STAGE_TAKEN"));
             help ->
                 io:put_chars(consistency_options:usage()),
                 0;
             {error, Why} ->
                 io:format(standard_error, "consistency: ~ts~n~ts",
                           [Why, consistency_options:usage()]),
                 2
         end).

ran(Run, Output, false) ->
    case consistency_run:run(Run) of
        {ok, Report} ->
            io:put_chars(case Output of
                             json -> consistency_report:json(Run, Report);
                             text -> consistency_report:text(Run, Report)
                         end),
            case consistency_report:outcome(Run, Report) of kept -> 0; broken -> 1; open -> 3 end;
        {error, Why} ->
            io:format(standard_error, "consistency: the run did not start, so nothing is judged:"
                      "~n~ts", [Why]),
            3
    end;
ran(_, _, Taken) ->
    io:format(standard_error, "consistency: a stage is up in ~ts; end it first~n", [Taken]),
    3.
