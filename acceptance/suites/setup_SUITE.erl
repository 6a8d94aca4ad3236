%% Tests the messages of tools/setup about a machine, by the commands that it finds there, and that
%% make does nothing if everything is built.
-module(setup_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([all_there/1, missing_elsewhere/1, missing_without_rights/1, asks_nothing/1,
         said_at_once/1, made_once/1, packages_are_well_formed/1]).

all() ->
    [all_there, missing_elsewhere, missing_without_rights, asks_nothing, said_at_once,
     made_once, packages_are_well_formed].

%% The tests run, so this machine has everything, with Debian's packages or without. A test never
%% installs anything.
all_there(Config) ->
    ?assertEqual({0, <<>>}, install(without(["apt-get"], Config))),
    ?assertEqual({0, <<>>}, install(without(["apt-get", "dpkg-query"], Config))).

missing_elsewhere(Config) ->
    ?assertEqual({2, <<"setup: this is not a Debian system; install what has these "
                       "(Debian's package):\n"
                       "  zstd (zstd): compresses the pack\n"
                       "  strace (strace): shows that nothing is written to disk\n">>},
                 install(without(["dpkg-query", "zstd", "strace"], Config))).

missing_without_rights(Config) ->
    Bin = without(["dpkg-query", "zstd", "strace", "id", "sudo"], Config),
    command(Bin, "dpkg-query", "exit 1"),
    command(Bin, "id", "echo 1000"),
    {2, Said} = install(Bin),
    ?assertMatch({match, _}, re:run(Said, "^setup: no rights .*\n  apt-get install "
                                    "--no-install-recommends .*\\bzstd\\b.*\\bstrace\\b.*\n$")),
    %% Only its package identifies this one, so a machine without packages lacks it.
    ?assertMatch({match, _}, re:run(Said, "\\bdpkg-dev\\b")),
    ?assertEqual(nomatch, re:run(Said, "\\bpatch\\b")).

%% sudo passes on no environment, and no package may ask a question.
asks_nothing(Config) ->
    Bin = without(["dpkg-query", "zstd", "id", "sudo", "apt-get"], Config),
    Said = filename:join(Bin, "said"),
    command(Bin, "dpkg-query", "exit 1"),
    command(Bin, "id", "echo 1000"),
    command(Bin, "sudo", "shift; exec env -i PATH=\"$PATH\" \"$@\""),
    command(Bin, "apt-get", "echo \"$1 $DEBIAN_FRONTEND\" >>'" ++ Said ++ "'"),
    ?assertMatch({0, <<"setup: installing ", _/binary>>}, install(Bin)),
    ?assertEqual({ok, <<"update \ninstall noninteractive\n">>}, file:read_file(Said)).

%% The message comes before any other work.
said_at_once(_Config) ->
    {0, Commands} = running:run(os:find_executable("make"),
                                ["-n", "--no-print-directory", "-C", running:root(), "test"]),
    ?assertMatch([<<"tools/setup build test cross board web lib">> | _],
                 binary:split(Commands, <<"\n">>)).

%% make compiles no module and builds no VM: each such step would print a line.
made_once(_Config) ->
    Before = beams(),
    {0, Said} = running:run(os:find_executable("make"), ["-C", running:root(), "runtimes"],
                            #{env => keep}),
    ?assertEqual([], beams() -- Before),
    ?assertEqual(nomatch, re:run(Said, "^.+: .+ (\\(\\d+ of \\d+\\)|\\d+ %)$", [multiline])).

beams() ->
    [{File, filelib:last_modified(File)}
     || File <- filelib:wildcard(filename:join(running:root(),
                                               "_build/default/lib/*/ebin/*.beam"))].

packages_are_well_formed(_Config) ->
    {ok, Text} = file:read_file(filename:join(running:root(), "tools/packages")),
    Lines = [Line || Line <- binary:split(Text, <<"\n">>, [global, trim]),
                     binary:first(Line) =/= $#],
    [?assertMatch({match, _}, re:run(Line, "^(build|test|cross|targets|board|web|lib) +"
                                     "[a-z0-9.+-]+ +(-|(erl:|c:|py:|/)?[A-Za-z0-9_.+/|-]+) +"
                                     "[^ ].*[^ ]$"))
     || Line <- Lines].

install(Path) ->
    running:run(filename:join(running:root(), "tools/setup"), ["build", "test"],
                #{env => [{"PATH", Path}]}).

%% Creates a directory with all commands except these.
without(Names, Config) ->
    Bin = running:directory(lists:flatten(lists:join($-, ["without" | Names])), Config),
    [_ = file:make_symlink(Command, filename:join(Bin, Name))
     || Dir <- string:lexemes(os:getenv("PATH"), ":"),
        Command <- filelib:wildcard(filename:join(Dir, "*")),
        Name <- [filename:basename(Command)], not lists:member(Name, Names)],
    Bin.

command(Bin, Name, Line) ->
    File = filename:join(Bin, Name),
    ok = file:write_file(File, ["#!/bin/sh\n", Line, "\n"]),
    ok = file:change_mode(File, 8#755).
