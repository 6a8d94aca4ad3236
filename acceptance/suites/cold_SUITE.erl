%% Tests that the VM loads code that `--shake functions --missing load' made cold at its first call,
%% and that nothing else differs (the table of docs/shaking-internals.md). In each case the fixture
%% `cut' answers a question twice: in a stock OTP, and in a build whose plan omits the code in
%% question.
-module(cold_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([funs/1, funs_from_a_stock_node/1, funs_to_a_stock_node/1,
         funs_where_the_rest_is_gone/1, introspection/1, calls/1, errors/1, atoms/1, upgrade/1,
         handlers/1, tracing/1, tracing_all/1, loops/1, at_once/1]).
-export([purging/1, modified/1, modified_unshaken/1, modified_where_the_rest_is_gone/1]).
-export([infos/1, infos_of_late/1, infos_of_all/1]).
-export([nothing_cold_at_start/1, said_once/1, said_to_the_terminal/1, said_of_modules/1]).
-export([sizes/1, why/1]).
-export([no_descriptors/1, dynamic_calls_are_noted/1, cost_is_noted/1, in_directory/1]).
-export([only_what_was_seen/1, only_the_boot_at_hand/1, any_half_at_hand/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= init_per_suite,
               F =/= end_per_suite, F =/= module_info].

init_per_suite(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Ebin = filename:join(Dir, "ebin"),
    ok = filelib:ensure_path(Ebin),
    ok = compiled("src", Ebin),
    Out = filename:join(Dir, "cut"),
    {0, Said} = running:whittle(["build", running:fixture("cut"), "-o", Out,
                                 "--shake", "functions"]),
    [{ebin, Ebin}, {cut, Out}, {said, Said} | Config].

end_per_suite(_) -> ok.

%% The table

funs(Config) -> same("funs", [], Config).

funs_from_a_stock_node(Config) ->
    File = file("from_stock", Config),
    {0, _} = stock("fun_out", [File], Config),
    same("fun_in", [File], Config).

funs_to_a_stock_node(Config) ->
    [Shaken, Stock] = [file(Name, Config) || Name <- ["of_shaken", "of_stock"]],
    {0, _} = cut("fun_out", [Shaken], Config),
    {0, _} = stock("fun_out", [Stock], Config),
    {0, Answer} = stock("fun_in", [Stock], Config),
    ?assertEqual({0, Answer}, stock("fun_in", [Shaken], Config)),
    same("fun_in", [Shaken], Config).

%% The remaining funs keep their identity, also without the cold code.
funs_where_the_rest_is_gone(Config) ->
    Kept = "cut_checks:fun_in/1,cut_checks:fun_out/1",
    Cut = running:build(running:fixture("cut"), file("gone", Config),
                        ["--shake", "functions", "--missing", "crash", "--data", "none",
                         "--code", "none", "--atoms", Kept]),
    ?assertMatch({0, <<"sofs:image/2 was removed", _/binary>>},
                 running:whittle(["why", Cut, "sofs:image/2"])),
    [Gone, Stock] = [file(Name, Config) || Name <- ["of_gone", "of_stock"]],
    {0, _} = cut("fun_out", [Gone], [{cut, Cut} | proplists:delete(cut, Config)]),
    {0, _} = stock("fun_out", [Stock], Config),
    [same("fun_in", [File], [{cut, Cut} | proplists:delete(cut, Config)])
     || File <- [Gone, Stock]].

introspection(Config) -> same("introspection", [], Config).

calls(Config) -> same("calls", [], Config).

errors(Config) -> same("errors", [], Config).

%% Atoms of cold functions, of a cold module without callers, and one that exists nowhere.
atoms(Config) ->
    same("atoms", ["nobody_says_this", "in_a_literal", "cut_word_of_nobody"], Config),
    ?assertEqual({0, <<"[\"family_specification\",family_specification]">>},
                 cut("atoms", ["family_specification"], Config)).

upgrade(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "two"),
    ok = filelib:ensure_path(Dir),
    {ok, One} = file:read_file(filename:join([running:fixture("cut"), "src", "cut_lib.erl"])),
    Two = binary:replace(binary:replace(One, <<"-vsn(\"one\")">>, <<"-vsn(\"two\")">>),
                         <<"self(), one">>, <<"self(), two">>),
    File = filename:join(Dir, "cut_lib.erl"),
    ok = file:write_file(File, binary:replace(Two, <<"{far, inner">>, <<"{new, inner">>)),
    ok = compiled(File, Dir),
    same("upgrade", [filename:rootname(File) ++ ".beam"], Config).

handlers(Config) -> same("handlers", [], Config).

tracing(Config) -> same("tracing", [], Config).

%% A tracer does not see the calls between the two halves of a module.
tracing_all(Config) -> same("tracing_all", [], Config).

loops(Config) -> same("loops", [], Config).

%% The companion counts as a part of its module if a process runs in it.
purging(Config) -> same("purging", [], Config).

%% c:lm() would load such modules.
modified(Config) -> same("modified", [], Config).

%% Every output has shrunk modules, also without tree shaking.
modified_unshaken(Config) ->
    Whole = running:build(running:fixture("cut"), file("unshaken", Config)),
    same("modified", [], [{cut, Whole} | proplists:delete(cut, Config)]).

modified_where_the_rest_is_gone(Config) ->
    Kept = "cut_checks:modified/1",
    Gone = running:build(running:fixture("cut"), file("modified_gone", Config),
                         ["--shake", "functions", "--missing", "crash", "--data", "none",
                          "--code", "none", "--atoms", Kept]),
    same("modified", [], [{cut, Gone} | proplists:delete(cut, Config)]).

infos(Config) -> same("infos", [], Config).

%% The VM has nothing of these modules. A question with the module's name loads the module.
infos_of_late(Config) ->
    ?assertEqual({0, <<"[{false,cut_late,true,true},{false,dict,true,true}]">>},
                 cut("infos_of_late", [], Config)).

%% The program has all of these modules in memory, or loads nothing for the question.
infos_of_all(Config) ->
    ?assertEqual({0, <<"{true,[],[],[]}">>}, cut("infos_of_all", [], Config)).

at_once(Config) -> same("at_once", [], Config).

%% The stock node has these.
no_descriptors(Config) ->
    {0, <<"{some,", Answers/binary>>} = stock("no_descriptors", ["0"], Config),
    Words = ["-c", "ulimit -n 80; exec \"$@\"", "sh", proplists:get_value(cut, Config),
             "cut_checks", "no_descriptors", "80"],
    None = {0, <<"{none,", Answers/binary>>},
    ?assertEqual(None, answer(running:run("/bin/sh", Words))),
    %% With these settings of the kernel, each new memory file can get seals.
    [?assertEqual({Setting, None}, {Setting, answer(Ran)})
     || Setting <- ["1", "2"],
        Ran <- [running:with_memory_files(Setting, "/bin/sh", Words, #{})], Ran =/= none].

nothing_cold_at_start(Config) ->
    ?assertEqual({0, <<"{list,[]}">>}, cut("cold_at_start", [], Config)).

%% Messages for a person

said_once(Config) ->
    {0, Said} = cut("said", [], Config),
    ?assertEqual(iolist_to_binary(io_lib:format("~0p", [{loaded("cut_lib:far/1", "cut_lib:far/1"),
                                                         no_more}])), Said).

loaded(What, Name) ->
    What ++ " was cold (not in memory), and this call loaded it. To have it in memory from the "
        "start, write " ++ Name ++ " into a file and build with `whittle build --keep FILE'".

%% logger's own handler also writes the message, if its level permits.
said_to_the_terminal(Config) ->
    Port = running:start(proplists:get_value(cut, Config), ["cut_checks", "stay"],
                         #{env => [{"ERL_FLAGS", "-kernel logger_level info"}]}),
    _ = running:until(Port, <<"\ncut_lib:far/1 was cold (not in memory), and this call "
                              "loaded it">>),
    ok = running:signal(Port, "TERM"),
    {0, _} = running:ended(Port).

%% The same for a module of which the VM has nothing.
said_of_modules(Config) ->
    File = file("late_fun", Config),
    {0, _} = stock("late_fun_out", [File], Config),
    Said = [{loaded(What, Name), no_more}
            || {What, Name} <- [{"dict:new/0", "dict:new/0"}, {"a fun of cut_late", "cut_late"}]],
    ?assertEqual({0, iolist_to_binary(io_lib:format("~0p", [Said]))},
                 cut("said_of_modules", [File], Config)).

%% Hot and cold code together are little larger than the code without tree shaking.
sizes(Config) ->
    Whole = running:build(running:fixture("cut"), file("whole", Config)),
    Cut = proplists:get_value(cut, Config),
    ?assert(pack(Cut) =< 1.15 * pack(Whole)),
    {0, Text} = running:whittle(["size", Cut]),
    {match, [Cold]} = re:run(Text, "(?m)^cold code +([0-9,]+)", [{capture, [1], list}]),
    ?assert(list_to_integer(Cold -- ",,") > pack(Cut) div 2).

why(Config) ->
    Cut = proplists:get_value(cut, Config),
    ?assertEqual({0, <<"cut_lib:far/1 is cold (the VM loads it when something calls it): no kept "
                       "function calls it\n\n">>}, running:whittle(["why", Cut, "cut_lib:far/1"])),
    {0, Json} = running:whittle(["why", Cut, "cut_lib:far/1", "--json"]),
    ?assertMatch({match, _}, re:run(Json, "\"cold\":true.*\"kept\":false")).

dynamic_calls_are_noted(Config) ->
    ?assertMatch({match, _},
                 re:run(proplists:get_value(said, Config),
                        "(?m)^whittle: note: atoms that the program makes from text may name any "
                        "module or function \\(cut:run/1\\); the VM loads such functions when "
                        "something calls them$")).

%% The note also shows how to get a smaller output.
cost_is_noted(Config) ->
    ?assertMatch({match, _},
                 re:run(proplists:get_value(said, Config),
                        "(?m)^note: shaking made the modules [0-9]+(,[0-9]{3})* bytes larger: "
                        "[0-9]+(,[0-9]{3})* bytes are hot, and the VM loads the other "
                        "[0-9]+(,[0-9]{3})* bytes only when something calls them "
                        "\\(without debug information, before compression\\); the start also "
                        "creates "
                        "[0-9]+(,[0-9]{3})* atoms, because the program asks "
                        "whether an atom exists; to save memory, record a run with "
                        "`whittle trace`, and build with --evidence FILE --seen only$")).

in_directory(Config) ->
    Dir = running:build(running:fixture("cut"), file("in_directory", Config),
                        ["--shake", "functions", "--format", "dir"]),
    Answer = stock("calls", [], Config),
    ?assertEqual(Answer, answer(running:run(filename:join(Dir, "cut"), ["cut_checks", "calls"]))).

%% The recording asked one question only. The program answers all others too, and its start loads
%% nothing.
only_what_was_seen(Config) ->
    [Whole, Trace, Cut] = [file("seen." ++ Name, Config) || Name <- ["whole", "trace", "only"]],
    Whole = running:build(running:fixture("cut"), Whole),
    {0, _} = running:whittle(["trace", "-o", Trace, "--", Whole, "cut_checks", "cold_at_start"]),
    {0, Json} = running:whittle(["build", running:fixture("cut"), "-o", Cut, "--json", "--shake",
                                 "functions", "--evidence", Trace, "--seen", "only"]),
    #{<<"costs">> := #{<<"applications">> := Applications}} =
        jiffy:decode(lists:last(binary:split(Json, <<"\n">>, [global, trim])), [return_maps]),
    %% Of the functions that only the application needs, the run called just its own.
    [{Hot, Retained}] = [{Hot, Retained}
                         || #{<<"name">> := <<"cut">>, <<"hot">> := #{<<"bytes">> := Hot},
                              <<"retained">> := #{<<"bytes">> := Retained}} <- Applications],
    ?assertEqual(Hot, Retained),
    ?assert(hot(Cut) < hot(proplists:get_value(cut, Config)) / 1.5),
    Asked = [{cut, Cut} | proplists:delete(cut, Config)],
    [same(Check, [], Asked)
     || Check <- ["funs", "introspection", "calls", "errors", "handlers", "loops", "at_once"]],
    ?assertEqual({0, <<"{list,[]}">>}, cut("cold_at_start", [], Asked)),
    ?assertMatch({0, <<"supervisor:handle_cast/2 is cold (the VM loads it when something calls "
                       "it): the recorded run did not call it. The path to it:\n  ", _/binary>>},
                 running:whittle(["why", Cut, "supervisor:handle_cast/2"])).

%% Plans with wrong contents

only_the_boot_at_hand(Config) ->
    Hello = planned:build(running:example("hello"),
                          file("hello", Config), planned:called_at_boot()),
    ?assertEqual({0, <<"Hello from one file.\n">>}, running:alone(Hello, [], #{})).

any_half_at_hand(Config) ->
    Half = planned:build(running:fixture("cut"), file("half", Config), planned:a_half(1)),
    [same(Check, [], [{cut, Half} | proplists:delete(cut, Config)])
     || Check <- ["funs", "introspection", "calls", "errors", "handlers", "tracing", "loops",
                  "at_once"]].

%% Internal functions

same(Check, Arguments, Config) ->
    {0, Answer} = stock(Check, Arguments, Config),
    ?assertEqual({0, Answer}, cut(Check, Arguments, Config)).

cut(Check, Arguments, Config) ->
    answer(running:run(proplists:get_value(cut, Config), ["cut_checks", Check | Arguments])).

%% Loads all modules of the application, as the start of a release does.
stock(Check, Arguments, Config) ->
    answer(running:run(filename:join([running:otp_root(), "bin", "erl"]),
                       ["-noshell", "-pa", proplists:get_value(ebin, Config), "-eval",
                        "ok = application:start(cut, permanent)", "-extra", "cut_checks",
                        Check | Arguments])).

answer({Code, Output}) -> {Code, string:trim(Output)}.

%% Compiles as `whittle build' does, with the OTP on which it runs.
compiled("src", Ebin) ->
    Src = filename:join(running:fixture("cut"), "src"),
    {ok, [{application, Name, Props}]} = file:consult(filename:join(Src, "cut.app.src")),
    Files = lists:sort(filelib:wildcard(filename:join(Src, "*.erl"))),
    Modules = [list_to_atom(filename:basename(File, ".erl")) || File <- Files],
    ok = file:write_file(filename:join(Ebin, "cut.app"),
                         io_lib:format("~p.~n", [{application, Name,
                                                  [{modules, Modules} | Props]}])),
    lists:foreach(fun(File) -> ok = compiled(File, Ebin) end, Files);
compiled(File, Dir) ->
    {ok, _} = compile:file(File, [debug_info, deterministic, {outdir, Dir}]),
    ok.

file(Name, Config) -> filename:join(proplists:get_value(priv_dir, Config), Name).

hot(File) ->
    {0, Text} = running:whittle(["size", File]),
    {match, [Code]} = re:run(Text, "(?m)^code +([0-9,]+)", [{capture, [1], list}]),
    list_to_integer(Code -- ",,").

pack(File) ->
    {ok, #{size := Size, vm := Vm}} = whittle_pack:read(File),
    Size - Vm.
