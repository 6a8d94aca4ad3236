%% Tests that programs in an application's priv directory run from the one file, where no shell and
%% no kernel finds them.
-module(programs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([script/1, program/1, by_a_command/1, alone/1, not_executable/1, without_memory/1]).

all() -> [script, program, by_a_command, alone, not_executable, without_memory].

init_per_suite(Config) ->
    Below = running:directory("programs", Config),
    Dir = running:copy("probe", Below),
    Priv = filename:join(Dir, "priv"),
    ok = file:write_file(filename:join(Priv, "say.sh"), "#!/bin/sh\necho \"$# $2\"; exit 3\n"),
    ok = file:change_mode(filename:join(Priv, "say.sh"), 8#755),
    ok = file:write_file(filename:join(Priv, "say.c"),
                         "#include <stdio.h>\nint main(int argc, char **argv)\n"
                         "{ printf(\"%s %d %s\\n\", argv[0], argc, argv[2]); return 4; }\n"),
    {0, _} = running:run(os:find_executable("gcc"), ["-static", "-o", filename:join(Priv, "say"),
                                                     filename:join(Priv, "say.c")]),
    Out = filename:join(Below, "program"),
    [{probe, running:build(Dir, Out)} | Config].

end_per_suite(_) -> ok.

script(Config) ->
    ?assertEqual({0, <<"{3,<<\"2 b c\\n\">>}\n">>},
                 probe(Config, ["port", path("say.sh"), "a", "b c"])).

program(Config) ->
    ?assertEqual({0, <<"{4,<<\"", (path("say"))/binary, " 3 b c\\n\">>}\n">>},
                 probe(Config, ["port", path("say"), "a", "b c"])).

%% open_port({spawn, Command}, _), as os:cmd/1 does for a single program.
by_a_command(Config) ->
    ?assertEqual({0, <<"{4,<<\"", (path("say"))/binary, " 3 b\\n\">>}\n">>},
                 probe(Config, ["spawn", <<(path("say"))/binary, " a b">>])).

%% The machine has neither a shell nor /proc.
alone(Config) ->
    Dir = running:directory("programs/alone", Config),
    {Enter, Words} = running:in_empty_root(proplists:get_value(probe, Config), Dir),
    ?assertEqual({0, <<"{4,<<\"", (path("say"))/binary, " 3 b\\n\">>}\n">>},
                 running:run(Enter, Words ++ ["port", path("say"), "a", "b"])).

not_executable(Config) ->
    {0, Said} = probe(Config, ["port", path("note.txt")]),
    ?assertMatch({match, _}, re:run(Said, "eacces")).

%% The kernel runs no memory files (vm.memfd_noexec=2).
without_memory(Config) ->
    Starter = running:forbidden_call(running:directory("programs/memory", Config)),
    Port = fun(Words) ->
                   running:run(Starter, ["memfd_create-unsealed",
                                         proplists:get_value(probe, Config) | Words])
           end,
    Said = <<"erl_child_setup: cannot run ", (path("say"))/binary, ": the kernel runs no program "
             "from memory; set vm.memfd_noexec to 0 or 1 (sysctl)\n">>,
    %% 13 is EACCES.
    ?assertEqual({0, <<Said/binary, "{13,<<>>}\n">>}, Port(["port", path("say"), "a", "b"])),
    %% The program's own programs do not run from memory.
    ?assertEqual({0, <<"{0,<<\"1\\n\">>}\n">>}, Port(["spawn", "echo 1"])).

path(Name) -> <<"/.whittle/lib/probe-1.2.3/priv/", (list_to_binary(Name))/binary>>.

probe(Config, Words) -> running:run(proplists:get_value(probe, Config), Words).
