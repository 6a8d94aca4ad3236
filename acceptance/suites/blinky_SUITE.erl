%% Tests examples/blinky with two instances at the ends of an unreliable line (blinky_line.c): both
%% for this machine, both for ARMv7 in its emulator, and one of each.
-module(blinky_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2, end_per_group/2,
         init_per_testcase/2, end_per_testcase/2]).
-export([both_ways/1, cut/1, garbled/1, partly_garbled/1, doubled/1, killed/1,
         receiver_restarted/1, sender_restarted/1, too_many/1]).

-define(KEEP, 64).

all() -> [{group, Group} || {Group, _, _} <- groups()].

groups() ->
    [{Group, [], [both_ways, cut, garbled, partly_garbled, doubled, killed, receiver_restarted,
                  sender_restarted, too_many]}
     || Group <- [x86_64_x86_64, armv7_armv7, x86_64_armv7]].

init_per_suite(Config) ->
    Dir = running:directory("blinky", Config),
    Line = filename:join(Dir, "line"),
    {0, <<>>} = running:run(os:find_executable("cc"),
                            ["-O2", "-Wall", "-Wextra", "-Werror", "-o", Line,
                             filename:join(running:root(), "acceptance/suites/blinky_line.c")]),
    %% `whittle build' finds whittle_io there.
    Before = os:getenv("ERL_LIBS", ""),
    true = os:putenv("ERL_LIBS", filename:dirname(code:lib_dir(whittle_io))),
    [{line, Line}, {libs, Before} | Config].

end_per_suite(Config) -> os:putenv("ERL_LIBS", proplists:get_value(libs, Config)).

%% The builds equal the shipped ones, except for configuration from the command line.
init_per_group(Group, Config) ->
    Dir = running:directory("blinky", Config),
    Names = case Group of
                x86_64_x86_64 -> ["x86_64", "x86_64"];
                armv7_armv7 -> ["armv7", "armv7"];
                x86_64_armv7 -> ["x86_64", "armv7"]
            end,
    Targets = [Target || Name <- Names,
                         Target = #{name := Known} <- whittle_runtime:targets(), Known =:= Name],
    case [Lack || Target <- Targets, Lack <- [emulated:lacks(Target)], Lack =/= none] of
        [] ->
            Ends = [{Target, program(filename:join(Dir, Name), Name)}
                    || #{name := Name} = Target <- Targets],
            [{ends, Ends} | Config];
        [Lack | _] -> {skip, Lack}
    end.

end_per_group(_, _) -> ok.

program(Out, Target) ->
    case filelib:is_regular(Out) of
        true -> Out;
        false ->
            running:build(running:example("blinky"), Out,
                          ["--target", Target, "--shake", "functions", "--missing", "crash",
                           "--feature", "+terms"])
    end.

%% One end: its program and place, its boot number (as soon as the other end knows it), the number
%% of presses that it accepted, and its output, the latest line first.
-record(e, {target, program, device, port, boot, taken = 0, lines = []}).

init_per_testcase(_, Config) ->
    Line = running:start(proplists:get_value(line, Config), []),
    Devices = [running:line(Line), running:line(Line)],
    [{on, Line}, {ends, [#e{target = Target, program = Program, device = Device}
                         || {{Target, Program}, Device} <- lists:zip(ends(Config), Devices)]}
     | Config].

end_per_testcase(_, _) -> ok.

ends(Config) -> proplists:get_value(ends, Config).

%%% Cases

both_ways(Config) ->
    {A, B, Line} = met(Config),
    finish(Line, exchanged(press(5, A), press(5, B))).

cut(Config) -> broken("c", Config).

garbled(Config) -> broken("g", Config).

%% The line delivers nothing for a while. Afterwards the other end shows the presses of that time.
broken(How, Config) ->
    {A, B, Line} = met(Config),
    line(How, Line),
    A1 = press(3, heard("down", A)),
    B1 = press(3, heard("down", B)),
    line("r", Line),
    finish(Line, exchanged(A1, B1)).

partly_garbled(Config) -> damaged("p", Config).

doubled(Config) -> damaged("d", Config).

%% The line stays damaged.
damaged(How, Config) ->
    {A, B, Line} = met(Config),
    line(How, Line),
    finish(Line, exchanged(press(10, A), press(10, B))).

%% The test kills the processes of either side, while presses are on their way.
killed(Config) ->
    {A, B, Line} = met(Config),
    Kill = fun(Name, End) -> press(2, command("kill " ++ Name, "^killed$", press(2, End))) end,
    Names = ["owner", "lamp", "owner", "lamp"],
    finish(Line, exchanged(lists:foldl(Kill, A, Names), lists:foldl(Kill, B, Names))).

%% The next instance shows the presses from the time without an instance, from its first number
%% on. It shows none that the instance before has shown.
receiver_restarted(Config) ->
    {A, B, Line} = met(Config),
    {A1, B1} = exchanged(press(2, A), press(3, B)),
    B2 = ended(B1, Line),
    A2 = press(3, A1),
    Next = start(B2),
    {A3, B3} = meet(told_of_end(B1, 3, A2), Next),
    {A4, B4} = exchanged(A3, B3),
    ?assertEqual([1, 2], shown(A4, B1)),
    ?assertEqual([3, 4, 5], shown(A4, B4)),
    finish(Line, exchanged(press(1, A4), press(1, B4)), {3, 1}).

%% The presses that the other side has not received end with the sender. The other side learns
%% from which number on.
sender_restarted(Config) ->
    {A, B, Line} = met(Config),
    {A1, B1} = exchanged(A, press(2, B)),
    line("c", Line),
    A2 = heard("down", A1),
    B2 = press(2, heard("down", B1)),
    B3 = ended(B2, Line),
    line("r", Line),
    Next = start(B3),
    {A3, B4} = meet(told_of_end(B1, 2, A2), Next),
    {A4, B5} = exchanged(press(1, A3), press(1, B4)),
    ?assertEqual([1, 2], shown(B1, A4)),
    finish(Line, {A4, B5}).

%% The sender counts the presses that it refuses.
too_many(Config) ->
    {A, B, Line} = met(Config),
    line("c", Line),
    A1 = press(?KEEP, heard("down", A)),
    A2 = lists:foldl(fun(_, End) -> command("press", "^full$", End) end, A1, lists:seq(1, 6)),
    line("r", Line),
    {A3, B1} = exchanged(A2, B),
    Gap = io_lib:format("gap ~s ~b: 6 not taken", [A3#e.boot, ?KEEP + 1]),
    finish(Line, {A3, wait(Gap, B1)}).

%%% Both ends

%% Returns both ends after they have heard of each other.
met(Config) ->
    [A, B] = ends(Config),
    {A1, B1} = meet(start(A), start(B)),
    {A1, B1, proplists:get_value(on, Config)}.

meet(A, B) ->
    A1 = wait("^[0-9]+ up ", A),
    B1 = wait("^[0-9]+ up ", B),
    {A1#e{boot = boot(B1)}, B1#e{boot = boot(A1)}}.

boot(#e{lines = [Up | _]}) -> lists:last(string:lexemes(Up, " ")).

%% Returns both ends after each has shown the other's last press.
exchanged(A, B) -> {shows_last(B, A), shows_last(A, B)}.

shows_last(#e{taken = 0}, End) -> End;
shows_last(#e{taken = Taken} = Other, End) ->
    case lists:member(Taken, shown(Other, End)) of
        true -> End;
        false -> wait(io_lib:format(" shown ~s ~b: ", [Other#e.boot, Taken]), End)
    end.

%% Checks that each press appeared once, none is missing, and each turned the LED over.
finish(Line, Ends) -> finish(Line, Ends, {1, 1}).

%% First holds the numbers of the first presses of each end that the other end shows.
finish(Line, {A, B}, {FirstOfA, FirstOfB}) ->
    [begin
         ?assertEqual(lists:seq(First, From#e.taken), shown(From, To)),
         Leds = [Led || {_, Text} <- reports(To), "shown " ++ _ <- [Text],
                        Led <- [lists:last(string:lexemes(Text, " "))]],
         ?assertEqual(lists:sublist(lists:append(lists:duplicate(length(Leds), ["on", "off"])),
                                    length(Leds)), Leds),
         true = port_close(To#e.port)
     end || {From, First, To} <- [{A, FirstOfA, B}, {B, FirstOfB, A}]],
    true = port_close(Line).

%% Returns the numbers of one end's presses that the other end has shown, in its order.
shown(#e{boot = Boot}, To) ->
    [list_to_integer(lists:takewhile(fun(C) -> C =/= $: end, Number))
     || {_, Text} <- reports(To), ["shown", By, Number | _] <- [string:lexemes(Text, " ")],
        By =:= Boot].

%% Sorts the reports by number. A killed lamp may have printed one twice.
reports(#e{lines = Lines}) ->
    lists:usort([{list_to_integer(Number), Text}
                 || Line <- Lines, [Number, Text] <- [string:split(Line, " ")],
                    Number =/= [], lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Number)]).

%%% One end

start(#e{target = Target, program = Program, device = Device} = End) ->
    Flags = io_lib:format("-blinky device '~0p' -blinky console true", [Device]),
    Port = emulated:start(Target, Program, [], [{"ERL_FLAGS", lists:flatten(Flags)}]),
    End#e{port = Port}.

%% Kills an end, as a loss of power does, and returns what a new start needs.
ended(#e{port = Port, program = Program, target = Target, device = Device}, Line) ->
    running:signal(Port, "KILL"),
    {_, _} = running:ended(Port),
    line("x", Line),
    #e{program = Program, target = Target, device = Device}.

press(0, End) -> End;
press(N, #e{taken = Taken} = End) ->
    End1 = command("press", io_lib:format("^taken [0-9A-F]+ ~b$", [Taken + 1]), End),
    press(N - 1, End1#e{taken = Taken + 1}).

command(Command, Answer, #e{port = Port} = End) ->
    true = port_command(Port, [Command, $\n]),
    wait(Answer, End).

heard(What, End) -> wait("^[0-9]+ " ++ What ++ " ", End).

%% Waits until this end reports the end of the other, with the last number from it.
told_of_end(#e{boot = Boot}, Last, End) ->
    wait(io_lib:format(" gap ~s after ~b: it has ended", [Boot, Last]), End).

%% Returns the end after it has printed a matching line.
wait(Pattern, #e{port = Port, lines = Lines} = End) ->
    Line = binary_to_list(running:line(Port)),
    End1 = End#e{lines = [Line | Lines]},
    case re:run(Line, Pattern, [{capture, none}]) of
        match -> End1;
        nomatch -> wait(Pattern, End1)
    end.

line(Command, Line) ->
    true = port_command(Line, Command),
    <<"ok">> = running:line(Line),
    ok.
