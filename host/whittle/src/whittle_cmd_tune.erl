%% @doc Implements `whittle tune'. It explains the memory of a program or of a running node
%% ({@link whittle_tune}).
-module(whittle_cmd_tune).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "tune", arguments => ["[PATH]"],
      help => "explain where the memory of a program or of a running node is",
      options => [#{name => explain, long => "explain",
                    help => "explain the memory"},
                  #{name => node, long => "node", value => "NAME",
                    help => "explain the memory of this running node"},
                  #{name => workload, long => "workload", value => "CMD",
                    help => "a command of sh that uses the program; it starts when the program is "
                            "ready, and the run ends with it"},
                  #{name => words, long => "arguments", value => "WORDS",
                    help => "the arguments of the program, as on a command line"},
                  #{name => ready, long => "ready", value => "REGEX",
                    help => "the line that says that the program is ready (default: its first "
                            "line)"},
                  #{name => seconds, long => "seconds", value => "N",
                    help => "run the program for N seconds, or its workload for at most N seconds "
                            "(default: 10; 600 with --workload)"},
                  whittle_command_line:json()]}.

%% @doc Explains a program or a node.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{explain := true, arguments := [], node := Name}) ->
    explained(whittle_tune:explain_node(Name));
run(#{arguments := [Path], node := _}) ->
    whittle_failure:usage(["--node explains a running node, so `", Path, "' has no effect: give "
                           "one of the two; see `whittle help tune'"]);
run(#{explain := true, arguments := [Path]} = Values) ->
    whittle_work:steps([fun(_) -> options(Values) end,
                        fun(Options) -> explained(whittle_tune:explain(Path, Options)) end]);
run(#{explain := true}) ->
    whittle_failure:usage("`whittle tune --explain' needs PATH or --node NAME; see `whittle help "
                          "tune'");
run(_) ->
    whittle_failure:usage("`whittle tune' needs --explain; see `whittle help tune'").

%% Internal functions: options

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

tell({runtime, Progress}) -> whittle_progress:event(Progress);
tell(_) -> ok.

%% Internal functions: results

explained({ok, Account}) ->
    {ok, #{text => [[[whittle_table:text(Table), $\n]
                     || Table <- [whittle_tune:rows(Account) | whittle_tune:tops(Account)]],
                    doubt(whittle_tune:unexplained(Account))],
           json => whittle_tune:json(Account)}};
explained({error, Reason}) -> whittle_failure:tune(Reason).

doubt(Part) when Part > 0.05 ->
    io_lib:format("~.1f % of the memory is unexplained: C code of the program may have mapped "
                  "it.\n", [100 * Part]);
doubt(_) -> "".
