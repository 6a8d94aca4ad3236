%% @doc Implements `whittle tune'. It searches settings of the VM for a program, or explains the
%% memory of a program or of a running node ({@link whittle_tune}).
-module(whittle_cmd_tune).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "tune", arguments => ["[PATH]"],
      help => "find VM settings that save memory, by running the program; --explain shows where "
              "its memory is",
      options => [#{name => out, long => "out", short => $o, value => "FILE",
                    help => "the file of the settings, for `build --settings' (default: the "
                            "program's name with .settings); the samples and the page are in "
                            "FILE.tuning"},
                  #{name => ram, long => "ram", value => "SIZE",
                    help => "the memory that the program may take at its peak, such as 24M (at "
                            "least 1M)"},
                  #{name => slowdown, long => "max-slowdown", value => "PERCENT",
                    help => "how much slower the program may become (default: 5%)"},
                  #{name => time, long => "time", value => "TIME",
                    help => "the time of the search, such as 90s or 10m (default: 10m)"},
                  #{name => blocks, long => "blocks", value => "N",
                    help => "run each candidate at most N times in each part of the search "
                            "(default: 10)"},
                  #{name => 'try', long => "try", value => "KEY", many => true,
                    help => "also try values of an application's environment: `APP KEY VALUE...', "
                            "such as `relay workers 2 8'; you can repeat this option"},
                  #{name => record, long => "record",
                    help => "also record the functions that the workload calls; `build --settings' "
                            "then makes only these hot (--seen only)"},
                  #{name => explain, long => "explain",
                    help => "only show where the memory is"},
                  #{name => node, long => "node", value => "NAME",
                    help => "with --explain: look at this running node"},
                  #{name => serial, long => "serial", value => "LINE",
                    help => "with --explain: look at a running program over its serial console: "
                            "/dev/ttyUSB0, /dev/ttyUSB0:9600 (default: 115200 bits per second), "
                            "tcp:HOST:PORT or unix:PATH; the program needs the application "
                            "whittle_console"},
                  #{name => workload, long => "workload", value => "CMD",
                    help => "a command of sh that uses the program; it starts when the program is "
                            "ready, and the run ends with it"},
                  #{name => words, long => "arguments", value => "WORDS",
                    help => "the arguments of the program, as on a command line"},
                  #{name => ready, long => "ready", value => "REGEX",
                    help => "the line that says that the program is ready (default: its first "
                            "line)"},
                  #{name => seconds, long => "seconds", value => "N",
                    help => "run the program for N seconds in each run, or its workload for at "
                            "most N seconds (default: 10; with --workload, 600 for --explain, else "
                            "a twentieth of --time); before, the program has N seconds to get "
                            "ready, but at least 60"},
                  whittle_command_line:json()]}.

%% @doc Searches settings for a program, or explains a program or a node.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{node := _, serial := _}) ->
    whittle_failure:usage("--node has no effect with --serial: remove one of the two; see "
                          "`whittle help tune'");
run(#{arguments := [Path], node := _}) ->
    whittle_failure:usage(["--node explains a running node, so `", Path, "' has no effect: give "
                           "one of the two; see `whittle help tune'"]);
run(#{arguments := [Path], serial := _}) ->
    whittle_failure:usage(["--serial explains a running program, so `", Path, "' has no effect: "
                           "give one of the two; see `whittle help tune'"]);
run(#{explain := true, arguments := [], serial := Line} = Values) ->
    whittle_work:steps([fun(_) -> without(for_search() ++ for_run(), "--serial", Values) end,
                        fun(_) -> explained(whittle_tune:explain_serial(Line, fun tell/1)) end]);
run(#{explain := true, arguments := [], node := Name} = Values) ->
    whittle_work:steps([fun(_) -> without(for_search() ++ for_run(), "--node", Values) end,
                        fun(_) -> explained(whittle_tune:explain_node(Name)) end]);
run(#{explain := true, arguments := [Path]} = Values) ->
    whittle_work:steps([fun(_) -> without(for_search(), "--explain", Values) end,
                        fun(_) -> no_image(Path) end,
                        fun(_) -> options(Values) end,
                        fun(Options) -> explained(whittle_tune:explain(Path, Options)) end]);
run(#{explain := true}) ->
    whittle_failure:usage("`whittle tune --explain' needs PATH, --node NAME or --serial LINE; "
                          "see `whittle help tune'");
run(#{node := _}) ->
    whittle_failure:usage("--node needs --explain; see `whittle help tune'");
run(#{serial := _}) ->
    whittle_failure:usage("--serial needs --explain; see `whittle help tune'");
run(#{arguments := [Path]} = Values) ->
    Out = maps:get(out, Values, filename:basename(Path) ++ ".settings"),
    whittle_work:steps(
      [fun(_) -> no_image(Path) end,
       fun(_) -> whittle_failure:replaces(Out, Path) end,
       fun(_) -> options(Values) end,
       fun(Options) -> amount(ram, fun bytes/1, "a size such as 24M", Values, Options) end,
       fun(Options) -> large_enough(Options) end,
       fun(Options) -> amount(slowdown, fun percent/1, "a number such as 5%", Values, Options) end,
       fun(Options) ->
               amount(time, fun seconds/1, "a time such as 90s or 10m", Values, Options)
       end,
       fun(Options) -> amount(blocks, fun number/1, "a whole number above 0", Values, Options) end,
       fun(Options) -> tried(Values, Options) end,
       fun(Options) -> checked(Out, maps:merge(maps:with([record], Values), Options)) end,
       fun(Options) ->
               Command = whittle_command_line:to_shell(command(), for_search() ++ for_run(),
                                                       Values),
               tuned(whittle_tune:tune(Path, Options#{out => Out, command => Command}), Options)
       end]);
run(_) ->
    whittle_failure:usage("`whittle tune' needs PATH; see `whittle help tune'").

%% Internal functions: options

%% A shell runs a file of an unknown kind as a script.
no_image(Path) ->
    whittle_failure:no_image(Path, "tune", "a program for this machine: build it without --board, "
                             "or look at it on its board with --explain --serial LINE").

%% The options that only a search heeds, and those that only a run of the program heeds.
for_search() -> [out, ram, slowdown, time, blocks, 'try', record].

for_run() -> [workload, words, ready, seconds].

without(Names, Mode, Values) ->
    case [Name || Name <- Names, is_map_key(Name, Values)] of
        [] -> ok;
        [Name | _] ->
            whittle_failure:usage(["--", long(Name), " has no effect with ", Mode,
                                   ": remove one of the two; see `whittle help tune'"])
    end.

long(Name) ->
    #{options := Options} = command(),
    hd([Long || #{name := Of, long := Long} <- Options, Of =:= Name]).

options(Values) ->
    Given = maps:merge(maps:with([workload], Values),
                       maps:from_list([{arguments, Words} || #{words := Words} <- [Values]])),
    whittle_work:steps([fun(_) -> ready(Values, Given) end,
                        fun(Options) -> seconds(Values, Options#{tell => fun tell/1}) end]).

ready(#{ready := Text}, Options) ->
    case re:compile(Text, [unicode]) of
        {ok, _} -> {ok, Options#{ready => Text}};
        {error, {Why, At}} ->
            whittle_failure:usage(io_lib:format("--ready: ~ts at character ~b of the regular "
                                                "expression; see `whittle help tune'", [Why, At]))
    end;
ready(_, Options) -> {ok, Options}.

seconds(#{seconds := Text}, Options) ->
    case string:to_integer(Text) of
        {Number, ""} when Number >= 1, Number =< 1_000_000 -> {ok, Options#{seconds => Number}};
        _ -> whittle_failure:usage(["--seconds cannot be `", Text, "'; give a whole number from 1 "
                                    "to 1000000"])
    end;
seconds(_, Options) -> {ok, Options}.

%% The words reach the VM in a variable, so they contain nothing that is special there.
tried(#{'try' := Texts}, Options) ->
    Tried = [key(string:lexemes(Text, " ")) || Text <- Texts],
    case [Text || {error, Text} <- lists:zip(Tried, Texts)] of
        [] -> {ok, Options#{'try' => Tried}};
        [Text | _] ->
            whittle_failure:usage(["--try cannot be `", Text, "'; give an application, a key and "
                                   "values: terms without blanks, quotes, # and $"])
    end;
tried(_, Options) -> {ok, Options}.

key([Application, Key | [_ | _] = Values]) ->
    Names = [Name || Name <- [Application, Key],
                     re:run(Name, "^[a-z][A-Za-z0-9_@]{0,254}$",
                            [unicode, dollar_endonly, {capture, none}]) =:= match],
    Terms = [Value || Value <- Values, length(Value) < 256,
                      re:run(Value, "^[!%-~]+$",
                             [unicode, dollar_endonly, {capture, none}]) =:= match,
                      re:run(Value, "['\\\\]", [{capture, none}]) =:= nomatch,
                      {ok, [_]} <- [whittle_term:parse(list_to_binary([Value, ".\n"]))]],
    case length(Names) =:= 2 andalso Terms =:= Values of
        true -> {Application, Key, Values};
        false -> error
    end;
key(_) -> error.

%% The search takes minutes, so the files are checked before.
checked(Out, Options) ->
    Files = [{Out, whittle_tune:signature()}
             | [{whittle_tune:recording(Out), whittle_shake_evidence:signature()}
                || is_map_key(record, Options)]],
    case whittle_work:steps([fun(_) -> whittle_pack:check_beside(File, Signature) end
                             || {File, Signature} <- Files]) of
        {error, Error} -> whittle_failure:work(whittle_pack:format_error(Error));
        _ -> {ok, Options}
    end.

amount(Name, Read, Hint, Values, Options) ->
    case Values of
        #{Name := Text} ->
            case Read(Text) of
                {ok, Amount} -> {ok, Options#{Name => Amount}};
                error ->
                    whittle_failure:usage(["--", long(Name), " cannot be `", Text, "'; give ",
                                           Hint])
            end;
        _ -> {ok, Options}
    end.

%% No VM is so small. Most likely the unit is missing.
large_enough(#{ram := Bytes}) when Bytes < 1 bsl 20 ->
    whittle_failure:usage(["--ram is ", whittle_number:text(Bytes), " bytes: give a size such as "
                           "24M"]);
large_enough(Options) -> {ok, Options}.

bytes(Text) -> in_units(Text, [{"", 1}, {"K", 1 bsl 10}, {"M", 1 bsl 20}, {"G", 1 bsl 30}]).

seconds(Text) -> in_units(Text, [{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}]).

number(Text) -> in_units(Text, [{"", 1}]).

in_units(Text, Units) ->
    case string:to_integer(Text) of
        {Number, Unit} when is_integer(Number), Number > 0 ->
            case lists:keyfind(Unit, 1, Units) of
                {Unit, Factor} -> {ok, Number * Factor};
                false -> error
            end;
        _ -> error
    end.

percent(Text) ->
    Digits = string:trim(Text, trailing, "%"),
    case {string:to_float(Digits), string:to_integer(Digits)} of
        {{Number, ""}, _} when is_float(Number), Number >= 0 -> {ok, Number / 100};
        {_, {Number, ""}} when is_integer(Number), Number >= 0 -> {ok, Number / 100};
        _ -> error
    end.

tell({runtime, Progress}) -> whittle_progress:event(Progress);
tell({waiting, Text}) -> whittle_progress:stage(Text);
tell({run, Phase, Name, {left, Seconds}}) ->
    whittle_progress:step(io_lib:format("~ts: ~ts, about ~b s left", [Phase, Name, Seconds]));
tell({console, Got, Of}) ->
    whittle_progress:step(io_lib:format("reading the console: ~b of ~b lines", [Got, Of]));
tell({failed, Name, Line}) -> whittle_progress:note([atom_to_list(Name), ": ", Line]);
tell(_) -> ok.

%% Internal functions: results

explained({ok, Account}) ->
    {ok, #{text => [[[whittle_table:text(Table), $\n]
                     || Table <- [whittle_tune:rows(Account) | whittle_tune:tops(Account)]],
                    changes(Account), doubt(whittle_tune:unexplained(Account)),
                    source(Account)],
           json => whittle_tune:json(Account)}};
explained({error, Reason}) -> whittle_failure:tune(Reason).

%% Without a change, the head alone would say nothing.
changes(Account) ->
    {Rows, Notes} = whittle_tune:changes(Account),
    [[[whittle_table:text(Rows), $\n] || [_, _ | _] <- [Rows]],
     [[Note, $\n] || Note <- Notes]].

tuned({ok, #{found := #{account := Account, best := Best, holds := Holds,
                        detectable := Detectable},
             out := Out, page := Page, notes := Notes} = Tuned}, Options) ->
    _ = [whittle_progress:note(Note) || Note <- Notes],
    {ok, #{text => [[[whittle_table:text(Table), $\n] || [_, _ | _] = Table
                                                             <- whittle_tune:tables(Tuned)],
                    changes(Account), verdict(Best, Holds),
                    noise(Detectable, maps:get(slowdown, Options, 0.05)),
                    "the settings: ", Out, "\nthe page: ", Page, "\n"],
           json => whittle_tune:found_json(Tuned)}};
tuned({error, Reason}, _) -> whittle_failure:tune(Reason).

%% A limit below the noise refuses good settings.
noise(Detectable, Allowed) when Detectable > Allowed ->
    io_lib:format("The runs varied so much that they show a slowdown of ~b %, but not of ~b %. "
                  "Tune on a quiet machine, or give a longer workload, more --time or a larger "
                  "--max-slowdown.\n", [ceil(100 * Detectable), round(100 * Allowed)]);
noise(_, _) -> "".

verdict(own, true) -> "No settings saved memory within the limits: keep the program's own.\n";
verdict(own, false) ->
    "No settings hold the limits, and the program's own do not either: give it more memory.\n";
verdict(_, _) -> "".

source(#{second_source := true}) -> "";
source(#{second_source := false}) ->
    "The line of C code is what the other lines leave. It has no second source in this program, so "
        "no unexplained part can show.\n".

doubt(Part) when Part > 0.05 ->
    io_lib:format("~.1f % of the memory is unexplained: C code of the program may have mapped "
                  "it.\n", [100 * Part]);
doubt(_) -> "".
