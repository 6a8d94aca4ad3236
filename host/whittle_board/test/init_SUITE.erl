%% Tests native/init as the first process of a namespace on this machine: it runs a program, reaps,
%% and ends as the policy says. In a namespace of processes, the kernel turns a reboot into the
%% signal SIGHUP, and a power-off or halt into SIGINT.
-module(init_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([ends/1, crashes/1, unknown_policy/1, environment/1, orphans/1, no_program/1, restarts/1]).

-define(REBOOTED, 128 + 1).
-define(OFF, 128 + 2).

all() -> [ends, crashes, unknown_policy, environment, orphans, no_program, restarts].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "init"),
    ok = filelib:ensure_path(Dir),
    Init = filename:join(Dir, "init"),
    Source = filename:join(code:priv_dir(whittle_board), "../../../native/init/init.c"),
    made:tool("gcc", ["-Os", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector",
                      "-fno-pie", "-no-pie", "-Wall", "-Wextra", "-Werror", "-o", Init,
                      filename:absname(Source)], Dir),
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

%%% The namespace

run(Code, Environment, Config) -> run(Code, Environment, [], Config).

run(Code, Environment, Given, Config) ->
    Root = root(Config),
    Source = filename:join(Root, "program.c"),
    ok = file:write_file(Source, ["#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n"
                                  "#include <stdlib.h>\n#include <sys/stat.h>\n"
                                  "#include <sys/wait.h>\n#include <unistd.h>\n"
                                  "int main(void) { ", Code, " }\n"]),
    made:tool("musl-gcc", ["-static", "-o", filename:join(Root, "program"), Source], Root),
    ok = file:write_file(filename:join(Root, "etc/environment"), Environment),
    boot(Root, Given, Config).

root(Config) ->
    Root = proplists:get_value(dir, Config),
    [ok = filelib:ensure_path(filename:join(Root, Name))
     || Name <- ["dev", "proc", "sys", "tmp", "etc"]],
    {ok, _} = file:copy(proplists:get_value(init, Config), filename:join(Root, "init")),
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
