#!/usr/bin/env escript
%%! +Bd
%% Injects faults into a stage of docket while clients work, and judges what they have seen.
%%
%% run: bench/cluster/consistency (which ends the stage), with the options that usage/0 prints
-mode(compile).

-define(DEFAULTS, #{mode => "sync_transaction", nodes => 4, clients => 8, faults => 30, round => 20,
                    kinds => all, seed => 1, time => infinity, out => "out/consistency",
                    keep => false, json => false, cpu => "0.25", tick => "2", room => "64MB",
                    program => none}).

main(Arguments) ->
    Dir = filename:dirname(escript:script_name()),
    %% The behavior comes first.
    Sources = [filename:join(Dir, "linearizable.erl")
               | filelib:wildcard(filename:join(Dir, "*.erl"))],
    _ = [begin
             {ok, Module, Beam} = compile:file(File, [binary, report]),
             {module, Module} = code:load_binary(Module, File, Beam)
         end || File <- Sources],
    case options(Arguments, ?DEFAULTS) of
        {ok, #{json := Json} = Options} ->
            Run = prepared(Options),
            Report = consistency_run:run(Run),
            io:put_chars(case Json of
                             true -> consistency_report:json(Run, Report);
                             false -> consistency_report:text(Run, Report)
                         end),
            halt(case consistency_report:is_kept(Run, Report) of true -> 0; false -> 1 end);
        {error, Why} ->
            io:format(standard_error, "consistency: ~ts~n~ts", [Why, usage()]),
            halt(2)
    end.

usage() ->
    "usage: bench/cluster/consistency [OPTION...]\n"
    "  --mode MODE       of docket; default sync_transaction\n"
    "  --faults N        default 30\n"
    "  --kinds K,K...    of faults; default all: kill_one, kill_two, kill_all, halves, alone,\n"
    "                    one_way, bridge, pause, disk_full; and clock (README.md)\n"
    "  --seed N          of the faults; default 1\n"
    "  --nodes N         two or more; default 4\n"
    "  --clients N       default 8\n"
    "  --time SECONDS    end earlier, after this time\n"
    "  --round N         faults between two looks at all cases; default 20\n"
    "  --cpu SHARE, --program FILE, --tick SECONDS, --room BYTES\n"
    "                    for `stage up'; default 0.25, a new build, 2, 64MB; --room none: the\n"
    "                    directories are on the disk, and no disk is full\n"
    "  --out DIR         for histories and verdicts of bad rounds; default out/consistency\n"
    "  --keep            keep the histories of good rounds too\n"
    "  --json            print an object instead of a table\n"
    "exit: 0 the mode has kept its promises, 1 not, 2 wrong arguments\n".

options([], Options) -> {ok, Options};
options(["--json" | Others], Options) -> options(Others, Options#{json := true});
options(["--keep" | Others], Options) -> options(Others, Options#{keep := true});
options(["--" ++ Name, Value | Others], Options) ->
    case value(Name, Value) of
        {ok, Key, Read} -> options(Others, Options#{Key := Read});
        error -> {error, ["--", Name, " cannot be ", Value]};
        unknown -> {error, ["there is no option --", Name]}
    end;
options([Other | _], _) -> {error, ["cannot read ", Other]}.

value("kinds", Value) ->
    Names = string:lexemes(Value, ","),
    Known = [atom_to_list(Kind) || Kind <- faults:kinds() ++ faults:special()],
    case {Names, Names -- Known} of
        {[_ | _], []} -> {ok, kinds, [list_to_existing_atom(Name) || Name <- Names]};
        _ -> error
    end;
value(Name, Value)
  when Name =:= "mode"; Name =:= "out"; Name =:= "cpu"; Name =:= "program"; Name =:= "tick";
       Name =:= "room" -> {ok, list_to_existing_atom(Name), Value};
value(Name, Value)
  when Name =:= "faults"; Name =:= "seed"; Name =:= "nodes"; Name =:= "clients"; Name =:= "time";
       Name =:= "round" ->
    case string:to_integer(Value) of
        {Number, ""} when Number > 1; Number =:= 1, Name =/= "nodes" ->
            {ok, list_to_existing_atom(Name), Number};
        _ -> error
    end;
value(_, _) -> unknown.

prepared(#{kinds := Kinds0, cpu := Cpu, tick := Tick, room := Room,
           program := Program} = Options) ->
    Kinds = case {Kinds0, Room} of
                {all, "none"} -> faults:kinds() -- [disk_full];
                {all, _} -> faults:kinds();
                _ -> Kinds0
            end,
    maps:merge(maps:without([cpu, tick, room, program, json], Options),
               #{kinds => Kinds,
                 stage => ["--cpu", Cpu, "--tick", Tick]
                 ++ lists:append([["--room", Room] || Room =/= "none"])
                 ++ lists:append([["--program", Program] || Program =/= none])}).
