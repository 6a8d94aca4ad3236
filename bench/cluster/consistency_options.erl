%% @doc Reads the options of a run. Everything that a run needs is checked here, before its stage
%% starts; the stage checks its own options (`stage check').
-module(consistency_options).

-export([read/1, usage/0]).

-define(DEFAULTS, #{store => "mnesia", mode => default, nodes => 4, clients => 8, faults => 30,
                    round => 20, kinds => all, seed => 1, time => infinity, out =>
                    "out/consistency", keep => false, json => false, cpu => "0.25", tick => "2",
                    room => "64MB", program => none}).

%% @doc Reads the words of the command line, and makes the directory of the results. An error is one
%% line.
-spec read([string()]) ->
          {ok, consistency_run:options(), Output :: text | json} | help
              | {error, unicode:chardata()}.
read(Arguments) ->
    case lists:member("--help", Arguments) orelse lists:member("-h", Arguments) of
        true -> help;
        false ->
            case words(Arguments, ?DEFAULTS) of
                {ok, Options} -> checked(Options);
                {error, _} = Error -> Error
            end
    end.

%% @doc Returns the text that lists all options.
-spec usage() -> string().
usage() ->
    "usage: bench/cluster/consistency [OPTION...]\n"
    "  --store STORE     of docket: mnesia (default), ra\n"
    "  --mode MODE       of mnesia: sync_transaction (default), transaction, sync_dirty,\n"
    "                    async_dirty\n"
    "  --faults N        default 30\n"
    "  --kinds K,K...    of faults; default all: kill_one, kill_two, kill_all, halves, alone,\n"
    "                    one_way, bridge, pause, disk_full; and damage, clock (README.md)\n"
    "  --seed N          of the faults; default 1\n"
    "  --nodes N         2 to 64; default 4\n"
    "  --clients N       default 8\n"
    "  --time SECONDS    end earlier, after this time\n"
    "  --round N         faults between two looks at all cases; default 20\n"
    "  --cpu SHARE, --program FILE, --tick SECONDS, --room BYTES\n"
    "                    for `stage up'; default 0.25, a new build, 2, 64MB; --room none: the\n"
    "                    directories are on the disk, and no disk is full\n"
    "  --out DIR         for histories and verdicts of rounds with a verdict; default\n"
    "                    out/consistency\n"
    "  --keep            keep the histories of the other rounds too\n"
    "  --json            print an object instead of a table\n"
    "  --help            print this\n"
    "exit: 0 the store has kept its promises, 1 it has broken one, 2 wrong arguments, 3 the run\n"
    "      ended early and found no broken promise, or judged nothing, 130 Ctrl-C, 143 SIGTERM\n".

words([], Options) -> {ok, Options};
words(["--json" | Others], Options) -> words(Others, Options#{json := true});
words(["--keep" | Others], Options) -> words(Others, Options#{keep := true});
words(["--" ++ Name | Others], Options) ->
    case {value(Name, Others), Others} of
        {{ok, Key, Read}, [_ | Rest]} -> words(Rest, Options#{Key := Read});
        {unknown, _} -> {error, ["there is no option --", Name]};
        {error, []} -> {error, ["--", Name, " needs a value"]};
        {error, ["ets" | _]} when Name =:= "mode" ->
            {error, "--mode cannot be ets: it is for one node, so no run checks it"};
        {{error, Wanted}, _} -> {error, ["--", Name, " takes ", Wanted]};
        {error, [Value | _]} -> {error, ["--", Name, " cannot be ", Value]}
    end;
words([Other | _], _) -> {error, ["cannot read ", Other]}.

value("kinds", [Value | _]) ->
    Names = string:lexemes(Value, ","),
    Known = [atom_to_list(Kind) || Kind <- faults:kinds() ++ faults:special()],
    case {Names, Names -- Known} of
        {[_ | _], []} -> {ok, kinds, [list_to_existing_atom(Name) || Name <- Names]};
        _ -> error
    end;
value("mode", [Value | _]) ->
    case lists:member(Value, promises:modes()) of
        true -> {ok, mode, Value};
        false -> error
    end;
value("store", [Value | _]) ->
    case lists:member(Value, promises:stores()) of
        true -> {ok, store, Value};
        false -> error
    end;
value("out", ["" | _]) -> error;
value(Name, [Value | _])
  when Name =:= "out"; Name =:= "cpu"; Name =:= "program"; Name =:= "tick"; Name =:= "room" ->
    {ok, list_to_existing_atom(Name), Value};
value(Name, [Value | _])
  when Name =:= "faults"; Name =:= "seed"; Name =:= "clients"; Name =:= "time"; Name =:= "round" ->
    case string:to_integer(Value) of
        {Number, ""} when Number >= 1 -> {ok, list_to_existing_atom(Name), Number};
        _ -> {error, "a number, 1 or more"}
    end;
%% The stage takes at most 64.
value("nodes", [Value | _]) ->
    case string:to_integer(Value) of
        {Number, ""} when Number >= 2, Number =< 64 -> {ok, nodes, Number};
        _ -> {error, "a number from 2 to 64"}
    end;
value(Name, []) ->
    case [Key || Key <- maps:keys(?DEFAULTS), atom_to_list(Key) =:= Name] of
        [_] -> error;
        [] -> unknown
    end;
value(_, _) -> unknown.

%% The options also have to fit together, and the world has to let them work.
checked(#{store := "ra", mode := Mode}) when Mode =/= default ->
    {error, "--store ra has no modes: leave --mode out"};
checked(#{mode := default} = Options) -> fitting(Options#{mode := "sync_transaction"});
checked(Options) -> fitting(Options).

fitting(#{store := Store, kinds := Kinds0, room := Room, program := Program, json := Json,
          out := Out} = Options) ->
    Kinds = case {Kinds0, Room} of
                {all, "none"} -> faults:kinds() -- [disk_full];
                {all, _} -> faults:kinds();
                _ -> Kinds0
            end,
    Run = maps:merge(maps:without([cpu, tick, room, program, json], Options),
                     #{kinds => Kinds, stage => stage(Options)}),
    case {lists:member(clock, Kinds) andalso Program =:= none,
          lists:member(disk_full, Kinds) andalso Room =:= "none",
          lists:member(damage, Kinds) andalso Store =:= "ra"} of
        {true, _, _} -> {error, "--kinds clock needs --program bench/cluster/with_clock"};
        {_, true, _} -> {error, "--kinds disk_full needs --room with a size such as 64MB"};
        {_, _, true} -> {error, "--kinds damage changes files of Mnesia: leave --store ra out"};
        {false, false, false} ->
            case docket_stage:command(["check" | consistency_run:up(Run)]) of
                ok ->
                    case writable(Out) of
                        ok -> {ok, Run, case Json of true -> json; false -> text end};
                        {error, Why} -> {error, ["--out cannot be ", Out, ": ", Why]}
                    end;
                {error, Output} ->
                    [Line | _] = binary:split(Output, <<"\n">>),
                    {error, string:replace(Line, "stage: ", "")}
            end
    end.

stage(#{cpu := Cpu, tick := Tick, room := Room, program := Program}) ->
    ["--cpu", Cpu, "--tick", Tick]
        ++ lists:append([["--room", Room] || Room =/= "none"])
        ++ lists:append([["--program", Program] || Program =/= none]).

%% Makes the directory, and writes into it.
writable(Out) ->
    File = filename:join(Out, "writable"),
    Made = case filelib:ensure_path(Out) of
               ok -> file:write_file(File, <<>>);
               {error, _} = Error -> Error
           end,
    case Made of
        ok -> file:delete(File);
        {error, Reason} -> {error, file:format_error(Reason)}
    end.
