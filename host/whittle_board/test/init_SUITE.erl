%% Tests native/init as the first process of a namespace on this machine: it runs a program, reaps,
%% and ends as the policy says. In a namespace of processes, the kernel turns a reboot into the
%% signal SIGHUP, and a power-off or halt into SIGINT.
-module(init_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([ends/1, crashes/1, unknown_policy/1, environment/1, orphans/1, no_program/1, restarts/1]).
-export([signs/1, no_sign/1, stale_signs/1, stopped_watchdog/1, closed_pipe/1, watched_orphans/1,
         no_watchdog/1, wrong_seconds/1]).

-define(REBOOTED, 128 + 1).
-define(OFF, 128 + 2).

all() ->
    [ends, crashes, unknown_policy, environment, orphans, no_program, restarts, signs, no_sign,
     stale_signs, stopped_watchdog, closed_pipe, watched_orphans, no_watchdog, wrong_seconds].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "init"),
    ok = filelib:ensure_path(Dir),
    [Init | _] =
        [begin
             Init = filename:join(Dir, Name),
             Source = filename:join(code:priv_dir(whittle_board), "../../../native/init/init.c"),
             made:tool("gcc", ["-Os", "-nostdlib", "-static", "-ffreestanding",
                               "-fno-stack-protector", "-fno-pie", "-no-pie", "-Wall", "-Wextra",
                               "-Werror", "-o", Init, filename:absname(Source) | Macros], Dir),
             Init
         end || {Name, Macros} <- [{"init", []}, {"init-watchdog", ["-DWATCHDOG"]},
                                   %% No test runs it here, but it must compile.
                                   {"init-all", ["-DNETWORK", "-DWATCHDOG"]}]],
    case namespace(["true"]) of
        {0, _} -> [{init, Init} | Config];
        {_, Said} -> {skip, "no namespaces here: " ++ binary_to_list(Said)}
    end.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

ends(Config) ->
    ?assertEqual({?OFF, <<"hello\n">>}, said(run("write(1, \"hello\\n\", 6); return 0;", "",
                                                 Config))),
    ?assertMatch({?REBOOTED, _}, run("return 0;", "WHITTLE_END=reboot", Config)).

%% After a crash the default is a reboot.
crashes(Config) ->
    {?REBOOTED, Code} = run("return 3;", "", Config),
    contains(<<"init: the program ended with exit code 3\ninit: next: reboot\n">>, Code),
    {?OFF, Signal} = run("kill(getpid(), 11); return 0;", "WHITTLE_CRASH=poweroff", Config),
    contains(<<"init: the program was killed by signal 11\ninit: next: poweroff\n">>, Signal).

%% A wrong word on the kernel's command line does not turn the board off.
unknown_policy(Config) ->
    {?REBOOTED, Crash} = run("return 3;", "WHITTLE_CRASH=poweroff", ["WHITTLE_CRASH=explode"],
                             Config),
    contains(<<"init: WHITTLE_CRASH must be poweroff, reboot, restart or halt, and not explode\n"
               "init: WHITTLE_CRASH is now reboot\n">>, Crash),
    {?OFF, End} = run("return 0;", "WHITTLE_END=reboot", ["WHITTLE_END=rebootx"], Config),
    contains(<<"and not rebootx\ninit: WHITTLE_END is now poweroff\n">>, End),
    {?REBOOTED, Empty} = run("return 3;", "", ["WHITTLE_CRASH="], Config),
    contains(<<"init: WHITTLE_CRASH is now reboot\n">>, Empty),
    {?REBOOTED, Known} = run("return 3;", "WHITTLE_CRASH=reboot", Config),
    ?assertEqual(nomatch, binary:match(Known, <<"must be">>)).

%% Lines of the file are variables. Those of the kernel's command line have precedence; other lines
%% are ignored.
environment(Config) ->
    Code = "puts(getenv(\"A\")); puts(getenv(\"B\")); puts(getenv(\"LAST\")); return 0;",
    {?OFF, Said} = run(Code, "A=from the file\n\nB=b = c\nnonsense\n=x\nLAST=end", ["A=given"],
                       Config),
    contains(<<"given\nb = c\nend\n">>, Said).

%% A process that the program leaves does not hold up the end.
orphans(Config) ->
    Code = "if (fork() == 0) { if (fork() == 0) for (;;) pause(); _exit(0); }"
        " wait(0); write(1, \"left\\n\", 5); return 0;",
    ?assertEqual({?OFF, <<"left\n">>}, said(run(Code, "", Config))).

no_program(Config) ->
    Root = root(Config),
    {?REBOOTED, Said} = boot(Root, [], Config),
    contains(<<"init: cannot run /program: the error is 2\n">>, Said).

%% The program ends twice, and the third time it wants no more.
restarts(Config) ->
    Code = "int fd = open(\"/tmp/count\", O_RDWR | O_CREAT | O_APPEND, 0600); struct stat s;"
        " write(fd, \"x\", 1); fstat(fd, &s); write(1, \"run\\n\", 4);"
        " return s.st_size < 3 ? 7 : 0;",
    {?OFF, Said} = run(Code, "WHITTLE_CRASH=restart", Config),
    ?assertEqual(3, length(binary:matches(Said, <<"run\n">>))).

%%% The watchdog is a file. Each byte in it is a sign that reached the watchdog, apart from those
%%% with which init sets a time; a file refuses that, and init says so.

-define(SIGN, "write(atoi(getenv(\"WHITTLE_HEALTH\")), \"+\", 1);").
-define(KEEPS(Seconds), "init: the watchdog keeps its own time, because it refuses this number of "
        "seconds: " Seconds "\n").

%% The first sign sets the period; the time until it is 60 seconds. Before a reboot the board has
%% the period again.
signs(Config) ->
    Code = "puts(getenv(\"WHITTLE_RESET\")); fflush(stdout);" ++ taken(3) ++ "return 3;",
    {?REBOOTED, Said, Fed} = watched(Code, "WHITTLE_WATCHDOG=5", Config),
    contains(<<?KEEPS("60")>>, Said),
    contains(<<"unknown\n">>, Said),
    ?assertEqual([60, 5, 5], seconds(Said)),
    %% The start, the three signs, and the reboot.
    ?assertEqual(<<0:5/unit:8>>, Fed).

%% A program that gives a sign, and waits until init has taken it.
taken(Count) ->
    lists:flatten(["int fd = atoi(getenv(\"WHITTLE_HEALTH\"));"
                   "struct stat s; stat(\"/dev/watchdog\", &s); long was = s.st_size;",
                   lists:duplicate(Count, ?SIGN "while (s.st_size == was)"
                                   " stat(\"/dev/watchdog\", &s); was = s.st_size;"), "(void)fd;"]).

%% Without a sign only the start feeds the watchdog, however long the program runs and however often
%% it runs again.
no_sign(Config) ->
    Code = "int fd = open(\"/tmp/count\", O_RDWR | O_CREAT | O_APPEND, 0600); struct stat s;"
        " write(fd, \"x\", 1); fstat(fd, &s); return s.st_size < 3 ? 7 : 0;",
    {?OFF, Said, Fed} = watched(Code, "WHITTLE_WATCHDOG=5,7\nWHITTLE_CRASH=restart", Config),
    ?assertEqual([7], seconds(Said)),
    ?assertEqual(<<0, "V">>, Fed).

%% The signs that a program leaves in its pipe do not count for the next one. After a sign, the next
%% program has the time of a start again.
stale_signs(Config) ->
    Code = "int count = open(\"/tmp/count\", O_RDWR | O_CREAT | O_APPEND, 0600); struct stat t;"
        " write(count, \"x\", 1); fstat(count, &t); if (t.st_size == 3) return 0;"
        " if (t.st_size == 1) { " ++ taken(1) ++ " static char many[6400]; write(fd, many, 6400); }"
        " return 7;",
    {?OFF, Said, Fed} = watched(Code, "WHITTLE_WATCHDOG=5,7\nWHITTLE_CRASH=restart", Config),
    ?assertEqual([7, 5, 7], seconds(Said)),
    ?assertEqual($V, binary:last(Fed)).

%% A board that goes off or halts stops its watchdog: it would reset the board.
stopped_watchdog(Config) ->
    [?assertMatch({_, {?OFF, _, <<0, "V">>}},
                  {How, watched("return 0;", "WHITTLE_WATCHDOG=5\nWHITTLE_END=" ++ How, Config)})
     || How <- ["poweroff", "halt"]].

%% init notices the end of a program that closes its end of the pipe, and does no work until then:
%% it has used less than half of the 0.2 seconds that the program waits.
closed_pipe(Config) ->
    Code = "close(atoi(getenv(\"WHITTLE_HEALTH\"))); usleep(200000);"
        " char line[512]; int got = read(open(\"/proc/1/stat\", 0), line, 511); line[got] = 0;"
        " char *at = strrchr(line, ')') + 2; long user, system;"
        " sscanf(at, \"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu\","
        " &user, &system);"
        " return user + system < 10 ? 3 : 4;",
    {?REBOOTED, Said, <<0, 0>>} = watched(Code, "WHITTLE_WATCHDOG=5", Config),
    contains(<<"the program ended with exit code 3\n">>, Said).

%% init reaps other processes when a sign comes, and takes none of them for the program.
watched_orphans(Config) ->
    Code = "if (fork() == 0) { if (fork() == 0) _exit(1); _exit(0); } wait(0);"
        ++ taken(2) ++ "return 4;",
    {?REBOOTED, Said, _} = watched(Code, "WHITTLE_WATCHDOG=5", Config),
    contains(<<"init: the program ended with exit code 4\n">>, Said).

%% A board without the device starts the program in any case.
no_watchdog(Config) ->
    Root = root(Config),
    compile(Root, "puts(getenv(\"WHITTLE_HEALTH\") ? \"watched\" : \"free\"); return 0;"),
    ok = file:write_file(filename:join(Root, "etc/environment"), "WHITTLE_WATCHDOG=5"),
    ok = with_watchdog(Root),
    {?OFF, Said} = boot(Root, [], Config),
    contains(<<"init: cannot open /dev/watchdog: the program starts without a watchdog\n">>, Said),
    contains(<<"free\n">>, Said).

%% A wrong word on the kernel's command line does not hold up the program.
wrong_seconds(Config) ->
    [begin
         {?OFF, Said, <<>>} = watched("return 0;", "WHITTLE_WATCHDOG=" ++ Value, Config),
         contains(<<"init: WHITTLE_WATCHDOG is not SECONDS[,START]: the program starts without a "
                    "watchdog\n">>, Said)
     end || Value <- ["", "1", "1000", "5,", "5,1", "5;7", "x", "5,7,"]].

watched(Code, Environment, Config) ->
    Root = root(Config),
    compile(Root, Code),
    ok = with_watchdog(Root),
    _ = file:delete(filename:join(Root, "tmp/count")),
    Device = filename:join(Root, "dev/watchdog"),
    ok = file:write_file(Device, <<>>),
    ok = file:write_file(filename:join(Root, "etc/environment"), Environment),
    {Code1, Said} = boot(Root, [], Config),
    {ok, Fed} = file:read_file(Device),
    {Code1, Said, Fed}.

with_watchdog(Root) ->
    {ok, _} = file:copy(filename:join(Root, "init-watchdog"), filename:join(Root, "init")),
    ok.

%% The times that init wanted to set.
seconds(Said) ->
    {match, Found} = re:run(Said, "this number of seconds: ([0-9]+)\n",
                            [global, {capture, all_but_first, list}]),
    [list_to_integer(Digits) || [Digits] <- Found].

%%% The namespace

run(Code, Environment, Config) -> run(Code, Environment, [], Config).

run(Code, Environment, Given, Config) ->
    Root = root(Config),
    compile(Root, Code),
    ok = file:write_file(filename:join(Root, "etc/environment"), Environment),
    boot(Root, Given, Config).

compile(Root, Code) ->
    Source = filename:join(Root, "program.c"),
    ok = file:write_file(Source, ["#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n"
                                  "#include <stdlib.h>\n#include <string.h>\n"
                                  "#include <sys/stat.h>\n"
                                  "#include <sys/wait.h>\n#include <unistd.h>\n"
                                  "int main(void) { ", Code, " }\n"]),
    made:tool("musl-gcc", ["-static", "-o", filename:join(Root, "program"), Source], Root).

root(Config) ->
    Root = proplists:get_value(dir, Config),
    [ok = filelib:ensure_path(filename:join(Root, Name))
     || Name <- ["dev", "proc", "sys", "tmp", "etc"]],
    Init = proplists:get_value(init, Config),
    {ok, _} = file:copy(Init, filename:join(Root, "init")),
    {ok, _} = file:copy(Init ++ "-watchdog", filename:join(Root, "init-watchdog")),
    ok = file:change_mode(filename:join(Root, "init"), 8#755),
    Root.

%% /dev of the root stays empty, so init keeps the test's pipes as its console. A user namespace
%% refuses some of init's mounts, and init says so.
boot(Root, Given, _Config) ->
    namespace(["env", "-i"] ++ Given ++ [os:find_executable("chroot", "/usr/sbin:/sbin:/usr/bin"),
                                         Root, "/init"]).

namespace(Words) ->
    whittle_program:run(os:find_executable("unshare"),
                        ["--user", "--map-root-user", "--mount", "--pid", "--fork",
                         "--kill-child" | Words], #{}).

%% Drops init's own lines about its mounts.
said({Code, Text}) ->
    {Code, iolist_to_binary([[Line, $\n] || Line <- string:lexemes(Text, "\n"),
                                            string:prefix(Line, "init: ") =:= nomatch])}.

contains(Part, Text) -> ?assertNotEqual({nomatch, Text}, {binary:match(Text, Part), Text}).
