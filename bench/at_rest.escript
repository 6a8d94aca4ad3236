#!/usr/bin/env escript
%% Measures the memory of programs at rest. It starts each in turn, RUNS times.
%%
%% usage: escript bench/at_rest.escript RUNS NAME=COMMAND...
%%
%% Model. COMMAND is a line for sh that ends in the program itself. The program is at rest two
%% seconds after its first output. The kernel reports RSS and its anonymous part (VmRSS, RssAnon).
%% "Code" is the VM's memory for the code of modules, including the preloaded ones. "modules" is
%% their number. Both come from the crash dump that a VM writes on SIGUSR1, so that the measurement
%% loads nothing. Each figure is the median. The ratios compare with the first program.
-mode(compile).

main([Runs | Words = [_ | _]]) ->
    Programs = [program(string:split(Word, "=")) || Word <- Words],
    Dump = string:trim(os:cmd("mktemp")),
    Rounds = [[at_rest(Command, Dump) || {_, Command} <- Programs]
              || _ <- lists:seq(1, list_to_integer(Runs))],
    ok = file:delete(Dump),
    Figures = [figures([lists:nth(N, Round) || Round <- Rounds])
               || N <- lists:seq(1, length(Programs))],
    io:format("at rest       RSS kB       anonymous kB   code bytes  modules~n"),
    [print(Name, Row, hd(Figures)) || {{Name, _}, Row} <- lists:zip(Programs, Figures)];
main(_) ->
    io:put_chars(standard_error, "usage: escript bench/at_rest.escript RUNS NAME=COMMAND...\n"),
    halt(2).

program([Name, Command]) -> {Name, Command};
program([Word]) -> io:put_chars(standard_error, ["not NAME=COMMAND: ", Word, "\n"]), halt(2).

%% One list of figures for each thing measured, smallest first.
figures(Runs) ->
    [lists:sort([element(N, Run) || Run <- Runs]) || N <- [1, 2, 3, 4]].

print(Name, Row, First) ->
    [Rss, Anonymous, Code, Modules] = [median(Figures) || Figures <- Row],
    [RssRatio, AnonymousRatio, CodeRatio, _] =
        [median(Ours) / median(Theirs) || {Ours, Theirs} <- lists:zip(Row, First)],
    io:format("~-9ts ~6b (~.2f)      ~6b (~.2f)  ~9b (~.2f)  ~4b   RSS ~b to ~b~n",
              [Name, Rss, RssRatio, Anonymous, AnonymousRatio, Code, CodeRatio, Modules,
               hd(hd(Row)), lists:last(hd(Row))]).

at_rest(Command, Dump) ->
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", "exec " ++ Command ++ " 2>/dev/null"]},
                      {env, [{"ERL_CRASH_DUMP", Dump}]}, binary, exit_status]),
    receive
        {Port, {data, _}} -> ok;
        {Port, {exit_status, Status}} -> error({ended_without_a_line, Command, Status})
    end,
    timer:sleep(2000),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    {ok, Kernel} = file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/status"),
    os:cmd("kill -USR1 " ++ integer_to_list(Pid)),
    ended(Port),
    {ok, Text} = file:read_file(Dump),
    {number(Kernel, "VmRSS:\\s+(\\d+) kB"), number(Kernel, "RssAnon:\\s+(\\d+) kB"),
     number(Text, "=loaded_modules\\nCurrent code: (\\d+)"),
     length(binary:matches(Text, <<"\n=mod:">>))}.

ended(Port) ->
    receive
        {Port, {exit_status, _}} -> ok;
        {Port, {data, _}} -> ended(Port)
    end.

number(Text, Pattern) ->
    {match, [Number]} = re:run(Text, Pattern, [{capture, [1], list}]),
    list_to_integer(Number).

median(Sorted) -> lists:nth((length(Sorted) + 1) div 2, Sorted).
