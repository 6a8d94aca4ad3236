%% `whittle trace' on what runs for real: executables of Whittle's, the stock VMs of two OTP
%% releases, commands that end badly; and what `whittle build --evidence' makes of it.
-module(trace_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([from_first_to_last/1, two_nodes/1, killed/1, halted/1, loaded_late/1]).
-export([the_commands_own/1, nothing_recorded/1, no_command/1, nowhere_to_write/1]).
-export([plan_holds/1, feature_that_was_used/1, edge_that_is_missing/1, other_build/1,
         bad_evidence/1, bad_words/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= init_per_suite,
               F =/= end_per_suite, F =/= module_info].

init_per_suite(Config) ->
    Hello = running:build(example(), out("hello", Config)),
    {0, _} = trace(out("hello.trace", Config), [Hello]),
    [{hello, Hello} | Config].

end_per_suite(_) -> ok.

%% What is recorded

%% Before the kernel and after the last application; what nobody called is not there.
from_first_to_last(Config) ->
    Hello = proplists:get_value(hello, Config),
    File = out("first.trace", Config),
    {0, Output} = trace(File, [Hello]),
    ?assertMatch({match, _},
                 re:run(Output, "^Hello from one file.\n.*first.trace: \\d+ functions of \\d+ "
                        "modules, called in one VM\n$")),
    [?assertEqual({Mfa, Is}, {Mfa, is_called(Mfa, File)})
     || {Mfa, Is} <- [{{logger_server, start_link, 0}, true}, {{kernel, init, 1}, true},
                      {{hello, start, 2}, true}, {{hello, stop, 1}, true}, {{hello, wait, 0}, true},
                      {{sofs, set, 1}, false}]].

%% Of several releases of OTP, and one after the other in one command.
two_nodes(Config) ->
    File = out("two.trace", Config),
    {0, Output} = trace(File, ["sh", "-c", "\"$0\" -noshell -s sets new -s init stop && "
                               "\"$1\" -noshell -s orddict new -s init stop",
                               os:find_executable("erl"), stock()]),
    ?assertMatch({_, _}, binary:match(Output, <<" in 2 VMs\n">>)),
    ?assert(is_called({sets, new, 0}, File)),
    ?assert(is_called({orddict, new, 0}, File)).

%% What was called long before a node's end is there, however it ends.
killed(Config) ->
    File = out("killed.trace", Config),
    ?assertMatch({137, _}, trace(File, node_that("os:cmd(\"kill -9 \" ++ os:getpid())"))),
    ?assert(is_called({sofs, empty_set, 0}, File)).

halted(Config) ->
    File = out("halted.trace", Config),
    ?assertMatch({5, _}, trace(File, node_that("halt(5)"))),
    ?assert(is_called({sofs, empty_set, 0}, File)).

%% A module that comes after the recorder, and again.
loaded_late(Config) ->
    File = out("late.trace", Config),
    {0, _} = trace(File, node_that("code:unstick_mod(sofs), code:purge(sofs),"
                                   "{module, _} = code:load_file(sofs), sofs:set([]),"
                                   "init:stop()")),
    ?assert(is_called({sofs, empty_set, 0}, File)),
    ?assert(is_called({sofs, set, 1}, File)).

%% It goes on once its record has a call, and not after a time.
node_that(Goes) ->
    ["erl", "-noshell", "-eval",
     "false = code:is_loaded(sofs), sofs:empty_set(),"
     "[Mine] = filelib:wildcard(os:getenv(\"WHITTLE_TRACE\") ++ \"/*-*\"),"
     "Wait = fun(Wait) -> {ok, Bytes} = file:read_file(Mine),"
     " case binary:match(Bytes, <<\"empty_set\">>) of nomatch -> Wait(Wait); _ -> ok end end,"
     "Wait(Wait), " ++ Goes ++ "."].

%% The command

the_commands_own(Config) ->
    File = out("own.trace", Config),
    ?assertMatch({3, <<"in a  b\n", _/binary>>},
                 running:run(whittle(), ["trace", "-o", File, "--", "sh", "-c",
                                         "read -r x; echo \"$x $1\"; erl -noshell -s init stop;"
                                         " exit 3", "sh", "a  b"],
                             #{input => "in\n", env => [{"ERL_AFLAGS", "-s sets new"}]})),
    %% The flags of its user hold too.
    ?assert(is_called({sets, new, 0}, File)).

nothing_recorded(Config) ->
    File = out("nothing.trace", Config),
    Line = iolist_to_binary(["whittle: nothing was recorded, and ", File, " not written: the "
                             "command started no Erlang VM, or none that takes ERL_AFLAGS\n"]),
    ?assertEqual({1, Line}, trace(File, ["true"])),
    ?assertEqual({7, Line}, trace(File, ["sh", "-c", "exit 7"])),
    ?assertNot(filelib:is_file(File)).

no_command(Config) ->
    [?assertEqual({Code, iolist_to_binary(["whittle: ", Line, $\n])},
                  running:whittle(["trace" | Words]))
     || {Code, Words, Line} <-
            [{1, ["--", "no/such"], "no/such is no program that can be run: correct the command"},
             {2, [], "`whittle trace' needs -- CMD; see `whittle help trace'"},
             {2, ["-o", "x", "--"], "`whittle trace' needs -- CMD; see `whittle help trace'"},
             {2, ["erl"], "`erl' has to stand behind --: `whittle trace -- CMD'; see `whittle help "
              "trace'"},
             {2, ["-o"], "--out needs a value; see `whittle help trace'"}]],
    ?assertEqual([], filelib:wildcard(out("no*", Config))).

%% Said before the command runs.
nowhere_to_write(Config) ->
    Dir = filename:dirname(out("x", Config)),
    [?assertEqual({1, iolist_to_binary(["whittle: ", Line, $\n])},
                  trace(File, ["sh", "-c", "echo ran"]))
     || {File, Line} <- [{Dir, [Dir, " is a directory: name a file with -o"]},
                         {Dir ++ "/no/x",
                          [Dir, "/no is no directory: name another file with -o"]}]].

%% The build

%% All that the whole system called is in what is shaken, or is answered for.
plan_holds(Config) ->
    ?assertMatch({0, _}, build("holds", ["--evidence", out("hello.trace", Config)], Config)).

%% A setting given at start, which is read as a term.
feature_that_was_used(Config) ->
    File = out("terms.trace", Config),
    Set = [{"ERL_FLAGS", "-hello foo 1"}],
    {0, _} = running:run(whittle(), ["trace", "-o", File, "--", proplists:get_value(hello, Config)],
                         #{env => Set}),
    {1, Lines} = build("terms", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^erl_scan:string/1: the feature terms is off$")),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^whittle: \\d+ of the functions that the evidence "
                                    "names would be cut: keep them with --seen keep, or decide "
                                    "with --keep FILE and --feature$")),
    ?assertMatch({0, _}, build("terms", ["--evidence", File, "--seen", "keep"], Config)),
    ?assertEqual({0, <<"Hello from one file.\n">>},
                 running:run(out("terms", Config), [], #{env => Set})).

edge_that_is_missing(Config) ->
    File = out("edge.trace", Config),
    {0, _} = trace(File, [stock(), "-noshell", "-boot", "no_dot_erlang", "-s", "sofs", "empty_set",
                          "-s", "init", "stop"]),
    {1, Lines} = build("edge", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Lines, "(?m)^sofs:empty_set/0: nothing that is in can be seen "
                                    "to call it$")),
    {0, _} = build("edge", ["--evidence", File, "--seen", "keep"], Config),
    ?assertEqual({0, <<"sofs:empty_set/0 is in\n  called by the evidence\n\n">>},
                 running:whittle(["why", out("edge", Config), "sofs:empty_set/0"])),
    %% What is not cut, only cold, is at hand when it was seen.
    Load = out("edge_load", Config),
    {0, _} = running:whittle(["build", example(), "-o", Load, "--shake", "functions",
                              "--evidence", File]),
    ?assertEqual({0, <<"sofs:empty_set/0 is in\n  called by the evidence\n\n">>},
                 running:whittle(["why", Load, "sofs:empty_set/0"])).

%% Of another OTP than the one that is built for.
other_build(Config) ->
    File = out("other.trace", Config),
    {0, _} = trace(File, ["erl", "-noshell", "-s", "init", "stop"]),
    {1, Line} = build("other", ["--evidence", File], Config),
    ?assertMatch({match, _}, re:run(Line, "^whittle: the evidence is of another build: its \\w+ is "
                                    "not the one that is built; record it again with `whittle "
                                    "trace'\n$")).

bad_evidence(Config) ->
    File = out("bad.trace", Config),
    {ok, Good} = file:read_file(out("hello.trace", Config)),
    [begin
         ok = file:write_file(File, Bytes),
         ?assertEqual({1, iolist_to_binary(["whittle: ", File, $\s, Words, $\n])},
                      build("bad", ["--evidence", File], Config))
     end || {Bytes, Words} <-
                [{"lists:map/2\n", "is no file of `whittle trace': name one with --evidence"},
                 {binary:part(Good, 0, byte_size(Good) - 1),
                  "is damaged: record it again with `whittle trace'"}]],
    ?assertEqual({1, iolist_to_binary(["whittle: ", File, ".no cannot be read (no such file or "
                                       "directory): name a file with --evidence\n"])},
                 build("bad", ["--evidence", File ++ ".no"], Config)).

bad_words(Config) ->
    [?assertEqual({2, iolist_to_binary(["whittle: ", Line, $\n])},
                  running:whittle(["build", example(), "-o", out("words", Config) | Words]))
     || {Words, Line} <- [{["--evidence", "x"], "--evidence needs --shake functions"},
                          {["--shake", "functions", "--seen", "keep"],
                           "--seen needs --evidence FILE"}]].

%% Internal

whittle() -> filename:join(running:root(), "whittle").

stock() -> filename:join(running:otp_root(), "bin/erl").

trace(File, Command) -> running:whittle(["trace", "-o", File, "--" | Command]).

build(Name, Options, Config) ->
    running:whittle(["build", example(), "-o", out(Name, Config), "--shake", "functions",
                     "--missing", "crash" | Options]).

is_called({M, F, A}, File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, _} = whittle_shake_evidence:from_binary(Bytes),
    %% Behind the two lines of its head.
    [_, Rest] = binary:split(Bytes, <<"\n">>),
    [_, Terms] = binary:split(Rest, <<"\n">>),
    {ok, Calls} = whittle_term:parse(Terms),
    lists:any(fun({Of, _, Functions}) -> Of =:= M andalso lists:member({F, A}, Functions) end,
              Calls).

example() -> filename:join([running:root(), "examples", "hello"]).

out(Name, Config) ->
    Out = filename:join([proplists:get_value(priv_dir, Config), "trace", Name]),
    ok = filelib:ensure_dir(Out),
    Out.
