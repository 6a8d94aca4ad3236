%% Enforces the layout in docs/architecture.md. The rules follow from the .app files and from the
%% directories host, lib and device. The suite checks the modules that were compiled for this run.
-module(borders_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([calls_are_declared/1, sides/1, hidden_modules/1, hidden_from_tests/1, no_circles/1,
         variables_are_seen/1, only_the_command_prints_or_halts/1, only_make_builds/1,
         page_agrees/1, pages_name_files/1, called_functions_exist/1, named_functions_exist/1,
         product_and_command/1]).

%% The tests and measurements that call a hidden module of an application that is not theirs.
-define(ALLOWED,
        [%% It starts cards whose images are not Linux, on the serial line of its test.
         {"acceptance/suites/card_boot_SUITE.erl", whittle_board_card},
         {"acceptance/suites/card_boot_SUITE.erl", whittle_board_emulator},
         {"acceptance/suites/card_boot_SUITE.erl", whittle_board_label},
         {"acceptance/suites/card_boot_SUITE.erl", whittle_board_uboot},
         %% It makes tables for OTP's own suites, in the OTP in which it runs.
         {"acceptance/suites/beam_files.erl", whittle_table_forms},
         %% They compare whole programs with the bytes of an executable and of its pack.
         {"acceptance/suites/entry_SUITE.erl", whittle_elf},
         {"acceptance/suites/launcher_SUITE.erl", whittle_elf},
         {"acceptance/suites/launcher_SUITE.erl", whittle_pack_format},
         {"acceptance/suites/start_SUITE.erl", whittle_elf},
         %% They compile with a target's own tools.
         {"acceptance/suites/otp_suites.erl", whittle_target},
         {"acceptance/suites/otp_suites_tree.erl", whittle_toolchain},
         %% It fetches Debian's sources, as the build of OTP does.
         {"acceptance/natives/natives.escript", whittle_apt},
         %% They measure one part of an application.
         {"bench/counters/idle.escript", whittle_counters_registry},
         {"bench/counters/scrape.escript", whittle_counters_registry},
         {"bench/counters/updates.escript", whittle_counters_registry},
         {"bench/gpio/calls.escript", whittle_gpio_nif},
         {"bench/load/million.escript", whittle_load_cgroup},
         {"bench/load/million.escript", whittle_load_memory},
         {"bench/load/million.escript", whittle_load_result},
         {"bench/pack_blocks", whittle_elf},
         {"bench/pack_blocks", whittle_pack_format},
         {"bench/pack_blocks", whittle_pack_tree},
         %% It compares a table with the applications that the recipe omits.
         {"host/whittle_make/test/whittle_left_out_SUITE.erl", whittle_recipe_otp},
         %% It stops a VM between two steps of a removal.
         {"host/whittle/test/whittle_stop_SUITE.erl", whittle_cache_clean},
         %% It makes an image and a card for an emulator that boots nothing.
         {"host/whittle/test/whittle_SUITE.erl", whittle_board_label},
         {"host/whittle/test/whittle_SUITE.erl", whittle_board_card},
         %% They read the lines of a console with the code that writes them.
         {"host/whittle_tune/test/whittle_tune_lines_SUITE.erl", whittle_console_line},
         {"host/whittle_tune/test/whittle_tune_serial_SUITE.erl", whittle_console_line},
         %% It replaces the building of VMs, but not the cache and the texts of errors.
         {"host/whittle/test/stand_in/whittle_runtime.erl", whittle_cache},
         {"host/whittle/test/stand_in/whittle_runtime.erl", whittle_cache_clean},
         {"host/whittle/test/stand_in/whittle_runtime.erl", whittle_recipe_otp},
         {"host/whittle/test/stand_in/whittle_runtime.erl", whittle_runtime_error},
         {"host/whittle/test/stand_in/whittle_runtime.erl", whittle_target}]).

%% The steps of a build: only whittle_make takes them.
-define(STEPS, [{whittle_pack, write}, {whittle_pass, run}, {whittle_read, read}]).

all() ->
    [calls_are_declared, sides, hidden_modules, hidden_from_tests, no_circles, variables_are_seen,
     only_the_command_prints_or_halts, only_make_builds, page_agrees,
     pages_name_files, called_functions_exist, named_functions_exist,
     product_and_command].

%% In messages, the product is Whittle, and the command is `whittle' in quotes.
product_and_command(_) ->
    Product = "(?<![`_./-])\\bwhittle (?!evidence |completion|measure |build )[a-z]"
        "|\\b(of|by|run) whittle\\b",
    Files = filelib:wildcard(filename:join(root(), "{host,lib,device}/*/src/*.erl")),
    ?assertMatch([_ | _], Files),
    ?assertEqual([], [{File, Text} || File <- Files, Text <- texts(File),
                                      re:run(Text, Product, [unicode]) =/= nomatch]).

texts(File) ->
    {ok, Source} = file:read_file(File),
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Source)),
    [Text || {string, _, Text} <- Tokens].

init_per_suite(Config) ->
    {ok, _} = xref:start(?MODULE),
    [{ok, _} = xref:add_directory(?MODULE, ebin(App)) || App <- applications()],
    {ok, Seen} = xref:q(?MODULE, "E"),
    Homes = homes(),
    Calls = [{M, N} || {{M, _, _}, {N, _, _}} <- Seen]
        ++ lists:append([through_variables(File, Homes)
                         || App <- applications(), File <- beams(App)]),
    Dir = proplists:get_value(priv_dir, Config),
    [{homes, Homes},
     {calls, lists:usort([Call || {M, N} = Call <- Calls, M =/= N])},
     {outside, whittle_work:map(fun(File) -> outside(File, Dir) end, outside_files())} | Config].

end_per_suite(_) ->
    xref:stop(?MODULE).

%% An application calls only those that its .app file names. An application that is loaded by name
%% at run time names its callers itself, because it may be missing when they start.
calls_are_declared(Config) ->
    ?assertEqual([], [Call || {From, To, _} = Call <- between(Config),
                              not lists:member(To, needed(From)),
                              not lists:member(From, loaded_by(To))]).

%% Host tools may use libraries. Libraries and the device applications use none of the others.
sides(Config) ->
    ?assertEqual([], [Call || {From, To, _} = Call <- between(Config),
                              not may_use(side(From), side(To))]),
    ?assertEqual([], [{From, To} || From <- applications(), To <- needed(From),
                                    is_ours(To), not may_use(side(From), side(To))]).

may_use(host, lib) -> true;
may_use(Side, Side) -> true;
may_use(_, _) -> false.

%% Only its own application calls a module whose doc begins with @hidden.
hidden_modules(Config) ->
    Hidden = hidden(),
    ?assertEqual([], [Call || {_, _, {_, Module}} = Call <- between(Config),
                              is_map_key(Module, Hidden)]).

%% Tests and measurements outside its application call a hidden module only if this list names
%% them.
hidden_from_tests(Config) ->
    Hidden = hidden(),
    Calls = lists:usort([{File, Module} || #{file := File, calls := Calls}
                                               <- proplists:get_value(outside, Config),
                                           {Module, _, _} <- Calls,
                                           #{Module := App} <- [Hidden],
                                           not lists:prefix("/" ++ atom_to_list(App) ++ "/",
                                                            string:find(File, "/"))]),
    ?assertEqual(lists:sort(?ALLOWED), Calls).

%% Returns each hidden module with its application.
hidden() ->
    maps:from_list([{module(File), App} || App <- applications(), File <- sources(App),
                                           is_hidden(File)]).

no_circles(Config) ->
    Graph = digraph:new(),
    Calls = proplists:get_value(calls, Config),
    Own = proplists:get_value(homes, Config),
    [digraph:add_vertex(Graph, M) || M <- maps:keys(Own)],
    [digraph:add_edge(Graph, M, N) || {M, N} <- Calls, is_map_key(M, Own), is_map_key(N, Own)],
    ?assertEqual([], [lists:sort(Circle)
                      || Circle <- digraph_utils:cyclic_strong_components(Graph)]).

%% This tests the check itself: a call through a variable that holds a module's name.
variables_are_seen(Config) ->
    Homes = proplists:get_value(homes, Config),
    Called = fun(Text) ->
                     {ok, Tokens, _} = erl_scan:string(Text),
                     {ok, Form} = erl_parse:parse_form(Tokens),
                     named_and_called(Form, Homes)
             end,
    ?assertEqual([whittle_trace], Called("f() -> R = whittle_trace, R:go().")),
    ?assertEqual([], Called("f(R) -> X = whittle_trace, R:go(X).")).

%% An application that prints and ends the VM says so in its .app file.
only_the_command_prints_or_halts(Config) ->
    {ok, Calls} = xref:q(?MODULE, "XC"),
    Homes = proplists:get_value(homes, Config),
    ?assertEqual([whittle], [App || App <- applications(host), prints(App)]),
    ?assertEqual([], [{Caller, Called} || {{From, _, _} = Caller, {M, F, _} = Called} <- Calls,
                                          is_printing(M, F), #{From := App} <- [Homes],
                                          side(App) =:= host, not prints(App)]).

is_printing(M, _) when M =:= io; M =:= user; M =:= logger; M =:= error_logger -> true;
is_printing(erlang, F) -> lists:member(F, [halt, display, display_nl, display_string]);
is_printing(init, F) -> lists:member(F, [stop, restart, reboot]);
is_printing(_, _) -> false.

%% One application decides the order of a build. No other runs a build's steps.
only_make_builds(Config) ->
    {ok, Calls} = xref:q(?MODULE, "XC"),
    Homes = proplists:get_value(homes, Config),
    ?assertEqual([{whittle_make, Step} || Step <- ?STEPS],
                 lists:usort([{maps:get(From, Homes), {M, F}}
                              || {{From, _, _}, {M, F, _}} <- Calls, M =/= From,
                                 lists:member({M, F}, ?STEPS)])).

%% docs/architecture.md has a row for each application: its directory, its contents, and the
%% applications that it may call.
page_agrees(_Config) ->
    {ok, Page} = file:read_file(filename:join([root(), "docs", "architecture.md"])),
    {match, Rows} = re:run(Page, "^\\| `(host|lib|device)/(\\w+)` \\|[^|]*\\|([^|]*)\\|$",
                           [global, multiline, {capture, all_but_first, list}]),
    ?assertEqual(lists:sort([{side(App), App, lists:sort(lists:filter(fun is_ours/1, needed(App)))}
                             || App <- applications()]),
                 lists:sort([{list_to_atom(Side), list_to_atom(App), lists:sort(named(Cell))}
                             || [Side, App, Cell] <- Rows])).

%% The check covers links in every page, and paths in the pages that describe the layout.
pages_name_files(_Config) ->
    Pages = ["*.md", "docs/*.md", "docs/studies/*.md", "{bench,lib,examples}/**/README.md",
             "acceptance/programs/**/README.md", "web/*/README.md"],
    Links = [{Page, filename:join(filename:dirname(Page), Link)}
             || Page <- lists:append([filelib:wildcard(P, root()) || P <- Pages]),
                Link <- found(Page, "\\]\\(([^)#]+)[^)]*\\)"),
                re:run(Link, "^https?:", [{capture, none}]) =:= nomatch],
    Paths = [{Page, Path} || Page <- ["CONTRIBUTING.md", "docs/architecture.md"],
                             Path <- found(Page, "`((?:acceptance|bench|device|docs|examples|"
                                                 "fixtures|host|lib|native|tools|vectors|web)"
                                                 "/[\\w./-]+)`")],
    ?assertNotEqual([], Paths),
    ?assertEqual([], [Named || {_, File} = Named <- Links ++ Paths,
                               not filelib:is_file(filename:join(root(), File))]).

%% Each function that a test, a measurement or a script of this repository calls exists. The
%% compiler does not check this, and some of this code runs seldom.
called_functions_exist(Config) ->
    Outside = proplists:get_value(outside, Config),
    ?assertEqual([], [Unread || #{unread := [_ | _] = Unread} <- Outside]),
    Applications = proplists:get_value(homes, Config),
    Here = maps:from_list([{Module, Defined} || #{module := Module, defined := Defined} <- Outside,
                                                not is_map_key(Module, Applications)]),
    ?assertEqual([], [{File, Call} || #{file := File, calls := Calls} <- Outside, Call <- Calls,
                                      not exists(Call, Here)]).

%% Each function that a page or a comment names exists.
named_functions_exist(_Config) ->
    Pages = [Page || Pattern <- ["*.md", "docs/*.md",
                                 "{bench,lib,acceptance,examples}/**/README.md"],
                     Page <- filelib:wildcard(Pattern, root())],
    Sources = [{module(File), Text} || App <- applications(), File <- sources(App),
                                       {ok, Text} <- [file:read_file(File)]],
    Full = "(?<![\\w:])(whittle\\w*):(\\w+)/(\\d+)",
    Local = "@link\\s+(?:%%\\s+)?(\\w+)/(\\d+)}",
    Named = [{Page, list_to_atom(M), F, A} || Page <- Pages, [M, F, A] <- all_found(Page, Full)]
        ++ [{Module, list_to_atom(M), F, A} || {Module, Text} <- Sources,
                                               [M, F, A] <- matches(Text, Full)]
        ++ [{Module, Module, F, A} || {Module, Text} <- Sources, [F, A] <- matches(Text, Local)],
    ?assertNotEqual([], Named),
    ?assertEqual([], [{Where, {M, F, A}}
                      || {Where, M, F, A} <- Named,
                         not exists({M, list_to_atom(F), list_to_integer(A)}, #{})]).

exists({Module, Name, Arity}, Here) ->
    case Here of
        #{Module := Defined} ->
            lists:member({Name, Arity}, [{module_info, 0}, {module_info, 1} | Defined]);
        #{} ->
            case code:ensure_loaded(Module) of
                {module, _} -> erlang:function_exported(Module, Name, Arity)
                                   orelse erlang:is_builtin(Module, Name, Arity);
                %% A module of a package that only the called program has.
                {error, _} -> not lists:prefix("whittle", atom_to_list(Module))
            end
    end.

%% Tests, measurements and scripts: the code that no application contains.
outside_files() ->
    [File || Pattern <- ["host/*/{test,matrix}/*.erl", "host/*/test/*/*.erl",
                         "lib/*/test/*.erl", "acceptance/suites/*.erl",
                         "bench/{interpreter,cluster}/*.erl",
                         "{acceptance,bench,lib,tools}/*", "{acceptance,bench,lib}/*/*.escript"],
             File <- filelib:wildcard(Pattern, root()),
             filename:extension(File) =:= ".erl" orelse is_escript(File)].

is_escript(File) ->
    case file:open(filename:join(root(), File), [read, binary]) of
        {ok, Open} ->
            Line = file:read_line(Open),
            ok = file:close(Open),
            Line =:= {ok, <<"#!/usr/bin/env escript\n">>};
        {error, eisdir} -> false
    end.

%% Reads such a file: the functions that it defines, and the calls to other modules. A script gets
%% the module's name in place of its first line.
outside(File, Dir) ->
    Path = filename:join(root(), File),
    Read = case is_escript(File) of
               true ->
                   {ok, Text} = file:read_file(Path),
                   [_, Body] = binary:split(Text, <<"\n">>),
                   Copy = filename:join(Dir, lists:join("-", filename:split(File))),
                   Head = io_lib:format("-module(~p).\n", [list_to_atom(File)]),
                   ok = file:write_file(Copy, [Head, Body]),
                   Copy;
               false ->
                   Path
           end,
    {ok, Forms} = epp:parse_file(Read, []),
    #{file => File, module => hd([Module || {attribute, _, module, Module} <- Forms]),
      calls => lists:usort(remote_calls(parts(Forms))),
      defined => [{Name, Arity} || {function, _, Name, Arity, _} <- Forms],
      unread => [{File, Form} || Form <- Forms, lists:member(element(1, Form), [error, warning])]}.

remote_calls(Parts) ->
    [{Module, Name, length(Args)}
     || {call, _, {remote, _, {atom, _, Module}, {atom, _, Name}}, Args} <- Parts]
        ++ [{Module, Name, Arity}
            || {function, {atom, _, Module}, {atom, _, Name}, {integer, _, Arity}} <- Parts]
        ++ [{Module, Name, Arity} || {attribute, _, import, {Module, Names}} <- Parts,
                                     {Name, Arity} <- Names].

all_found(Page, Pattern) ->
    {ok, Text} = file:read_file(filename:join(root(), Page)),
    matches(Text, Pattern).

matches(Text, Pattern) ->
    case re:run(Text, Pattern, [global, {capture, all_but_first, list}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

found(Page, Pattern) -> lists:append(all_found(Page, Pattern)).

named(Cell) -> [list_to_atom(Name) || [Name] <- matches(Cell, "`(\\w+)`")].

%% Returns the calls between applications: {From, To, {CallingModule, CalledModule}}.

between(Config) ->
    Homes = proplists:get_value(homes, Config),
    [{maps:get(M, Homes), maps:get(N, Homes), Call}
     || {M, N} = Call <- proplists:get_value(calls, Config),
        is_map_key(M, Homes), is_map_key(N, Homes),
        maps:get(M, Homes) =/= maps:get(N, Homes)].

%% Finds modules that a function calls through a variable that it sets.
through_variables(File, Homes) ->
    {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
        beam_lib:chunks(File, [abstract_code]),
    [{Module, Called} || Form <- Forms, Called <- named_and_called(Form, Homes)].

named_and_called({function, _, _, _, _} = Form, Homes) ->
    Parts = parts(Form),
    Called = [Var || {call, _, {remote, _, {var, _, Var}, _}, _} <- Parts],
    lists:usort([Name || {match, _, {var, _, Var}, {atom, _, Name}} <- Parts,
                         lists:member(Var, Called), is_map_key(Name, Homes)]);
named_and_called(_, _) -> [].

%% Lists every tuple in a form.
parts(Form) when is_tuple(Form) ->
    [Form | lists:append(lists:map(fun parts/1, tuple_to_list(Form)))];
parts(Forms) when is_list(Forms) -> lists:append(lists:map(fun parts/1, Forms));
parts(_) -> [].

%% Contents of the tree

applications() ->
    [App || Side <- [host, lib, device], App <- applications(Side)].

applications(Side) ->
    [list_to_atom(filename:basename(filename:dirname(Dir)))
     || Dir <- filelib:wildcard(filename:join([root(), Side, "*", "src"]))].

side(App) ->
    hd([Side || Side <- [host, lib, device], lists:member(App, applications(Side))]).

is_ours(App) -> lists:member(App, applications()).

homes() ->
    maps:from_list([{module(File), App} || App <- applications(), File <- beams(App)]).

module(File) -> list_to_atom(filename:basename(filename:rootname(File))).

beams(App) -> filelib:wildcard(filename:join(ebin(App), "*.beam")).

sources(App) ->
    filelib:wildcard(filename:join([root(), side(App), App, "src", "*.erl"])).

is_hidden(File) ->
    {ok, Text} = file:read_file(File),
    re:run(Text, "\\A(%.*\\n)*%% @hidden", [{capture, none}]) =:= match.

needed(App) -> property(applications, App).

loaded_by(App) -> proplists:get_value(loaded_by, property(env, App), []).

prints(App) -> proplists:get_value(prints, property(env, App), false).

property(Key, App) ->
    {ok, [{application, App, Properties}]} =
        file:consult(filename:join(ebin(App), atom_to_list(App) ++ ".app")),
    proplists:get_value(Key, Properties).

ebin(App) -> filename:join([lib(), App, "ebin"]).

%% ROOT/_build/PROFILE/lib/whittle/ebin/whittle.beam
root() -> filename:dirname(filename:dirname(filename:dirname(lib()))).

lib() -> filename:dirname(filename:dirname(filename:dirname(code:which(whittle)))).
