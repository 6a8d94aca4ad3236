#!/usr/bin/env escript
%% Builds real programs of Debian's packages, and compares how they work and how large they are.
%%
%% It builds each program whole, with tree shaking (`--shake functions'; missing code loads), and
%% with `--missing crash', and then uses it. It also gives programs on OTP 29 a VM of their own
%% (`--vm program'). The results must be the same each time.
%% `whittle trace' records the whole program during its use. The script compares the recording
%% with the third build (`--evidence') and prints a line for each recorded function that the build
%% would remove. It prints another line for the code that the second build loaded (by its log).
%%
%% Model: bytes are those of the ledger of `whittle build --json' and are the same in every run;
%% the script measures no times. apt fetches the packages and checks their signatures. The script
%% unpacks them below out/programs and installs nothing. It uses existing files again, so a new run
%% continues an interrupted one; remove out/programs to start again.
%%
%% usage: escript acceptance/programs/programs.escript [PROGRAM...]    default: all of them
%% exit:  0 all results are the same, 1 there is a difference (the output names it)
-mode(compile).

main(Words) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    Root = filename:dirname(filename:dirname(Here)),
    put(root, Root),
    put(here, Here),
    Known = [pages, tsung_29, tsung, rebar3, mix, desk],
    Names = case Words of
                [] -> Known;
                _ -> [known(Word, Known) || Word <- Words]
            end,
    ok = filelib:ensure_path(work([])),
    ok = shared(),
    Results = [{Name, program(Name)} || Name <- Names],
    [print(Name, Result) || {Name, {ok, Result}} <- Results],
    Failed = [{Name, Why} || {Name, {error, Why}} <- Results],
    [io:format(standard_error, "programs: ~s: ~ts~n", [Name, Why]) || {Name, Why} <- Failed],
    halt(case Failed of [] -> 0; _ -> 1 end).

known(Word, Known) ->
    case [Name || Name <- Known, atom_to_list(Name) =:= Word] of
        [Name] -> Name;
        [] ->
            io:format(standard_error, "programs: ~ts is none of ~ts~n",
                      [Word, lists:join(", ", [atom_to_list(Name) || Name <- Known])]),
            halt(2)
    end.

%% Compiles the tests' modules that run programs and visit the server. mochiweb reads JSON.
shared() ->
    [begin
         File = filename:join([get(root), "acceptance", "suites", Name]),
         {ok, Module, Code} = compile:file(File, [binary]),
         {module, Module} = code:load_binary(Module, Name, Code)
     end || Name <- ["running.erl", "packages.erl", "visits.erl"]],
    ok = code:add_pathsz(filelib:wildcard(filename:join(get(root),
                                                        "_build/default/lib/*/ebin"))),
    case package("erlang-mochiweb") of
        {ok, Dir} -> true = code:add_patha(filename:join(Dir, mochiweb("ebin"))), ok;
        {error, Why} ->
            io:format(standard_error, "programs: ~ts~n", [Why]),
            halt(1)
    end.

mochiweb(Below) -> filename:join("usr/lib/erlang/lib/mochiweb", Below).

program(Name) ->
    io:format(standard_error, "programs: ~s~n", [Name]),
    Kept = work([Name, "result"]),
    try
        case file:read_file(Kept) of
            {ok, Bytes} -> {ok, binary_to_term(Bytes)};
            {error, _} ->
                Result = result(Name, given(Name)),
                ok = file:write_file(Kept, term_to_binary(Result)),
                {ok, Result}
        end
    catch throw:{programs, Why} -> {error, Why}
    end.

fail(Format, Arguments) -> throw({programs, io_lib:format(Format, Arguments)}).

%% Describes each program: its place (path), the Debian packages that it needs beside OTP (libs),
%% its OTP release, the declarations for --missing crash, and its use: use(Command, Env, Way)
%% returns the results that must be the same, and the output.

given(pages) ->
    #{path => running:fixture("pages"), otp => "29",
      libs => [filename:dirname(package(mochiweb, "erlang-mochiweb", mochiweb("")))],
      told => ["--atoms", "none", "--data", "none"],
      use => fun visit/3};
given(tsung) ->
    (loaded())#{path => tsung("25", package(tsung, "tsung", "usr/lib/x86_64-linux-gnu/tsung"))};
given(tsung_29) ->
    (loaded())#{path => tsung("29", package(tsung_29, "tsung", "usr/lib/x86_64-linux-gnu/tsung")),
                otp => "29"};
given(rebar3) ->
    #{path => package(rebar3, "rebar3", "usr/bin/rebar3"), otp => "25", libs => [],
      told => ["--atoms", "none", "--code", "calendar:iso_week_number/1", "--data", "none",
               "--remote", "none"],
      use => fun project/3};
given(mix) ->
    (released())#{path => mix(mix, "greeter", running:fixture("greeter")), use => fun greet/3};
given(desk) ->
    (released())#{path => mix(desk, "desk", filename:join(get(here), "desk")), use => fun work/3}.

released() ->
    #{otp => "25", libs => [],
      told => ["--atoms", "none", "--code", "none", "--data", "none", "--remote", "none"]}.

loaded() ->
    #{otp => "25", libs => [], told => ["--atoms", "ts_http,ts_os_mon_erlang", "--code", "none",
                                       "--data", "none", "--remote", "none"],
      use => fun load/3}.

result(Name, #{told := Told, otp := Otp} = Given) ->
    Crash = ["--shake", "functions", "--missing", "crash" | Told],
    Ways = [{whole, []}, {load, ["--shake", "functions"]}, {crash, Crash}]
        ++ [{program, Crash ++ ["--vm", "program"]} || Otp =:= "29"],
    Record = work([Name, "trace"]),
    Whole = build(Name, whole, [], Given),
    Traced = recorded(Name, Record, Given),
    Shaken = [{Way, Options, build(Name, Way, Options, Given)} || {Way, Options} <- tl(Ways)],
    Same = used(Name, whole, [file(Name, whole)], [], Given),
    Same =:= Traced orelse fail("what was recorded is another answer: ~0tp and ~0tp",
                                [Traced, Same]),
    [begin
         Answer = used(Name, Way, [file(Name, Way)], [], Given),
         Answer =:= Same orelse fail("~s answers ~0tp, and not ~0tp", [Way, Answer, Same])
     end || {Way, _, _} <- Shaken],
    #{accounts => [{whole, Whole} | [{Way, Account} || {Way, _, Account} <- Shaken]],
      parts => parts(file(Name, load)),
      told => Told, said => said(Name, Given), cold => cold(Record, file(Name, load)),
      unplanned => unplanned(Name, Record, Given), checks => length(Same)}.

%% Fetching

package(Name, Package, Path) ->
    case package(Package) of
        {ok, Dir} ->
            Found = filename:join(Dir, Path),
            filelib:is_file(Found) orelse fail("~s: the package ~s has no ~s",
                                               [Name, Package, Path]),
            Found;
        {error, Why} -> fail("~ts", [Why])
    end.

package(Package) -> packages:unpacked(Package, work(["packages"])).

%% Building

build(Name, Way, Options, #{path := Path, otp := Otp, libs := Libs}) ->
    io:format(standard_error, "programs: ~s: ~s~n", [Name, Way]),
    Words = ["build", Path, "-o", file(Name, Way), "--otp", Otp, "--json" | Options],
    os:putenv("ERL_LIBS", lists:append(lists:join(":", Libs))),
    %% Progress and notes are on standard error.
    Script = "exec \"$0\" \"$@\" 2>" ++ work([Name, [atom_to_list(Way), ".log"]]),
    Ended = running:run("/bin/sh", ["-c", Script, whittle() | Words], #{env => keep}),
    os:unsetenv("ERL_LIBS"),
    case Ended of
        {0, Json} -> mochijson2:decode(Json, [{format, proplist}]);
        _ ->
            {ok, Log} = file:read_file(work([Name, [atom_to_list(Way), ".log"]])),
            fail("~s was not built: ~ts", [Way, Log])
    end.

%% Lists the recorded functions that a build with all dynamic calls closed would remove: they need a
%% declaration, or the analysis cannot find them.
unplanned(Name, Record, #{path := Path, otp := Otp, libs := Libs, told := Told}) ->
    os:putenv("ERL_LIBS", lists:append(lists:join(":", Libs))),
    {Code, Said} = running:run(whittle(), ["build", Path, "-o", work([Name, "seen"]), "--otp", Otp,
                                           "--shake", "functions", "--missing", "crash",
                                           "--evidence", Record | shut(Told)], #{env => keep}),
    os:unsetenv("ERL_LIBS"),
    case Code of
        0 -> [];
        1 -> string:lexemes(Said, "\n")
    end.

shut([Door, _ | Told]) -> [Door, "none" | shut(Told)];
shut([]) -> [].

parts(File) ->
    {0, Json} = running:whittle(["size", File, "--json"]),
    Parts = proplists:get_value(<<"parts">>, mochijson2:decode(Json, [{format, proplist}])),
    Stored = fun(Part) -> proplists:get_value(<<"stored">>, Part) end,
    Name = fun(Part) -> proplists:get_value(<<"name">>, Part) end,
    [Cold] = [Stored(Part) || Part <- Parts, Name(Part) =:= <<"cold code">>],
    #{cold => Cold,
      hot => lists:sum([Stored(Part) || Part <- Parts, Name(Part) =/= <<"vm">>]) - Cold}.

%% Using

used(Name, Way, Command, Env, #{use := Use}) ->
    io:format(standard_error, "programs: ~s: ~s is used~n", [Name, Way]),
    {Same, Printed} = Use(Command, Env, work([Name])),
    ok = file:write_file(work([Name, [atom_to_list(Way), ".txt"]]), Printed),
    Same.

%% Merges the recordings of the program's starts into one.
recorded(Name, Record, Given) ->
    Dir = work([Name, "traces"]),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    Traced = used(Name, whole, [whittle(), "trace", "-o", {new_file, Dir}, "--",
                                file(Name, whole)], [], Given),
    {ok, Files} = file:list_dir(Dir),
    Evidence = whittle_shake_evidence:join([evidence(filename:join(Dir, File)) || File <- Files]),
    ok = file:write_file(Record, whittle_shake_evidence:to_binary(Evidence)),
    Traced.

calls(File) -> whittle_shake_evidence:calls(evidence(File)).

evidence(File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, Evidence} = whittle_shake_evidence:from_binary(Bytes),
    Evidence.

%% Counts the recorded functions that are cold in the second build, by module.
cold(Record, File) ->
    {ok, Account} = whittle_plan_file:read(File),
    [io_lib:format("~ts: ~b", [M, length(Cold)])
     || {M, _, Functions} <- calls(Record),
        Cold <- [[FA || {{_, F, A}, {cold, _}} <- whittle_shake_saved:why({M}, Account),
                        FA <- [{F, A}], lists:member(FA, Functions)]],
        Cold =/= []].

%% Reads from the second build's log which modules it loaded, each once. The log needs its own
%% handler, because tsung sends nothing to the existing one.
said(Name, #{use := Use}) ->
    Log = work([Name, "said.log"]),
    _ = file:delete(Log),
    Handler = io_lib:format("[{handler,said,logger_std_h,#{config=>#{file=>~w}}}]", [Log]),
    Info = [{"ERL_FLAGS", lists:flatten(["-kernel logger_level info -kernel logger ", Handler])}],
    _ = Use([file(Name, load)], Info, work([Name])),
    {ok, Said} = file:read_file(Log),
    case re:run(Said, "(\\S+)\\s+was\\s+cold\\s+\\(not\\s+in\\s+memory\\)",
                [global, {capture, [1], list}]) of
        {match, Found} -> lists:usort(lists:append(Found));
        nomatch -> []
    end.

start([Program | Words], More, Env, Dir) ->
    Given = [case Word of
                 {new_file, Below} ->
                     filename:join(Below, integer_to_list(erlang:unique_integer([positive])));
                 _ -> Word
             end || Word <- Words],
    running:start(Program, Given ++ More, #{env => Env, cd => Dir}).

run(Command, More, Env, Dir) -> running:ended(start(Command, More, Env, Dir)).

%% A server with mochiweb
visit(Command, Env, Dir) ->
    {Server, Port, _} = serve(Command, Env, Dir),
    Answers = visits:all(Port),
    {0, Printed} = visits:stop(Server, Port),
    {Answers, Printed}.

serve(Command, Env, Dir) ->
    Server = start(Command, ["0"], Env, Dir),
    Before = running:until(Server, <<"pages on port ">>),
    {Server, binary_to_integer(running:line(Server)), Before}.

%% Starts tsung as its script does, without the web pages of its controller (`-n'). The release has
%% the package's two applications and those that they call, with settings from the environment.
%% The start does not load tsung itself: the controller does that. os_mon's programs belong to the
%% build machine and are not in the output: the measurements of the machine are off.
%%
%% The package is for OTP 25. For OTP 29 the script compiles its sources again. It omits the parts
%% that the package lacks (its copy of mochiweb, which Debian's replaces; codecs of other
%% protocols than HTTP) or that no longer compile (SNMP).
tsung(Otp, Package) ->
    Dir = work(["tsung_" ++ Otp, "release"]),
    _ = file:del_dir_r(Dir),
    Settings = filename:join(Dir, "releases/1.7.0"),
    ok = filelib:ensure_path(Settings),
    Libs = otp_lib(Otp),
    [begin
         Ebin = filename:join([Dir, "lib", App, "ebin"]),
         ok = filelib:ensure_path(Ebin),
         From = filename:join(Package, App),
         case Otp of
             "25" -> copied(filename:join(From, "ebin"), Ebin);
             "29" -> compiled(Libs, From, Ebin),
                     App =:= "tsung-1.7.0" andalso of_mochiweb(Ebin)
         end,
         listed(filename:join(From, "ebin"), Ebin)
     end || App <- ["tsung-1.7.0", "tsung_controller-1.7.0"]],
    Write = fun(Name, Text) -> ok = file:write_file(filename:join(Settings, Name), Text) end,
    Apps = [{App, version(App, Libs), permanent} || App <- [kernel, stdlib, asn1, crypto,
                                                            public_key, ssl, xmerl]]
        ++ [{App, version(App, Libs), load} || App <- [inets, sasl, os_mon]]
        ++ [{tsung_controller, "1.7.0", permanent}, {tsung, "1.7.0", none}],
    Write("tsung.rel", io_lib:format("~p.~n", [{release, {"tsung", "1.7.0"},
                                                {erts, version(erts, Libs)}, Apps}])),
    Write("vm.args", "-sname tsung_controller\n+P 250000\n"),
    Write("sys.config.src",
          "[{tsung_controller, [{config_file, \"${TSUNG_XML}\"}, {log_dir, \"${TSUNG_LOG}/\"},\n"
          "                     {mon_file, \"tsung.log\"}, {web_gui, false}, {smp_disable, true},\n"
          "                     {debug_level, 5}, {warm_time, 1}, {exclude_tag, \"\"},\n"
          "                     {dumpstats_interval, 2000}]},\n"
          " {ssl, [{session_cb, ts_ssl_session_cache}, {session_lifetime, 600}]},\n"
          " {sasl, [{sasl_error_logger, false}]},\n"
          " {os_mon, [{start_cpu_sup, false}, {start_disksup, false}, {start_memsup, false}]}].\n"),
    Dir.

copied(From, To) ->
    [{ok, _} = file:copy(filename:join(From, Beam), filename:join(To, Beam))
     || Beam <- filelib:wildcard("*.beam", From)].

compiled(Libs, From, To) ->
    Erlc = filename:join(Libs, "../bin/erlc"),
    Words = ["+debug_info", "+deterministic", "-I", filename:join(From, "include"),
             "-I", hd(filelib:wildcard(filename:join(Libs, "xmerl-*/include"))), "-o", To],
    Sources = filelib:wildcard(filename:join([From, "src", "*.erl"]))
        -- filelib:wildcard(filename:join([From, "src", "ts_os_mon_snmp.erl"])),
    case running:run(Erlc, Words ++ Sources, #{env => keep}) of
        {0, _} -> ok;
        {_, Said} -> fail("tsung was not compiled: ~ts", [Said])
    end.

of_mochiweb(Ebin) ->
    From = package(tsung_29, "erlang-mochiweb", mochiweb("ebin")),
    [{ok, _} = file:copy(filename:join(From, Module ++ ".beam"),
                         filename:join(Ebin, Module ++ ".beam"))
     || Module <- ["mochijson2", "mochinum", "mochiutf8", "mochiweb_charref", "mochiweb_headers",
                   "mochiweb_html", "mochiweb_util"]].

%% The package's .app files list a module that does not exist, and omit one that does.
listed(From, To) ->
    [Name] = filelib:wildcard("*.app", From),
    {ok, [{application, App, Props}]} = file:consult(filename:join(From, Name)),
    Modules = [list_to_atom(filename:rootname(Beam)) || Beam <- filelib:wildcard("*.beam", To)],
    Listed = lists:keystore(modules, 1, Props, {modules, Modules}),
    ok = file:write_file(filename:join(To, Name),
                         io_lib:format("~p.~n", [{application, App, Listed}])).

otp_lib(Otp) ->
    {0, Said} = running:run(filename:join([get(root), "tools", "otp-root"]), [Otp], #{env => keep}),
    filename:join(string:trim(binary_to_list(Said)), "lib").

version(erts, Libs) -> version(filename:join(Libs, "../erts-*"));
version(App, Libs) -> version(filename:join(Libs, atom_to_list(App) ++ "-*")).

version(Pattern) ->
    case filelib:wildcard(Pattern) of
        [Dir | _] -> lists:last(string:split(filename:basename(Dir), "-"));
        [] -> fail("there is no ~ts", [Pattern])
    end.

%% Puts the load of 40 users, with three requests each, on the server of mochiweb that was built
%% whole. The numbers in tsung's log must equal the numbers of requests.
load(Command, Env, Dir) ->
    filelib:is_regular(file(pages, whole)) orelse build(pages, whole, [], given(pages)),
    {Server, Port, _} = serve([file(pages, whole)], [], Dir),
    Logs = filename:join(Dir, "logs"),
    _ = file:del_dir_r(Logs),
    ok = filelib:ensure_path(Logs),
    Xml = filename:join(Dir, "load.xml"),
    {ok, Template} = file:read_file(filename:join(get(here), "load.xml")),
    ok = file:write_file(Xml, string:replace(string:replace(Template, "PORT",
                                                            integer_to_list(Port)),
                                             "DTD", package(load, "tsung",
                                                            "usr/share/tsung/tsung-1.0.dtd"))),
    {Code, Printed} = run(Command, [], [{"TSUNG_XML", Xml}, {"TSUNG_LOG", Logs},
                                        {"ERL_DIST_PORT", integer_to_list(running:free_port())}
                                        | Env], Dir),
    {0, _} = visits:stop(Server, Port),
    Log = fun(Name) -> [Text || File <- filelib:wildcard(filename:join([Logs, "*", Name])),
                                {ok, Text} <- [file:read_file(File)]]
          end,
    Sums = maps:groups_from_list(fun({Name, _}) -> Name end, fun({_, Sum}) -> Sum end,
                                 counted(iolist_to_binary(Log("tsung.log")))),
    Counted = [{Name, lists:max(Counts)} || {Name, Counts} <- lists:sort(maps:to_list(Sums))],
    Wanted = [{<<"users_count">>, 40}, {<<"finish_users_count">>, 40}, {<<"request">>, 120},
              {<<"200">>, 120}, {<<"match">>, 40}],
    case {Code, Wanted -- Counted} of
        {0, []} -> {Counted, [Printed | Log("*@*.log")]};
        {_, Other} -> fail("tsung ended with ~b, and counted ~0tp, of which ~0tp is not so: ~ts",
                           [Code, Counted, Other, Printed])
    end.

%% Reads the sums from the last dump: the last number of a counter, and the first and last number of
%% a value with a mean. The dump may have a line twice, for before and after.
counted(Log) ->
    Dump = lists:last(binary:split(Log, <<"# stats: dump">>, [global])),
    [{Name, lists:sum([binary_to_integer(Number) || Number <- Numbers])}
     || Line <- binary:split(Dump, <<"\n">>, [global]),
        [<<"stats:">>, Name, First | Rest] <- [binary:split(Line, <<" ">>, [global])],
        Numbers <- [case Rest of
                        [Sum] -> [Sum];
                        _ -> [First, lists:last(Rest)]
                    end],
        lists:member(Name, [<<"users_count">>, <<"finish_users_count">>, <<"request">>,
                            <<"page">>, <<"connect">>, <<"match">>, <<"200">>, <<"size_rcv">>,
                            <<"size_sent">>])].

%% Runs rebar3 on a project with includes, a parse transform, a lexer, a grammar and tests: it
%% builds and tests the project, and does all else that rebar3 does with the OTP in the file. One
%% test fails and one is not Erlang. Debian's source of OTP lacks the scripts of common_test's
%% pages, which common_test requires without `--basic_html'. The option `--code' declares functions
%% of OTP that the project calls and rebar3 does not.
project(Command, Env, Dir) ->
    Project = filename:join(Dir, "project"),
    _ = file:del_dir_r(Project),
    {0, <<>>} = running:run("/bin/cp", ["-R", filename:join(get(here), "project"), Project]),
    Rebar = fun(Words) ->
                    run(Command, Words, [{"TERM", "dumb"} | Env], Project)
            end,
    Write = fun(Name, Text) ->
                    ok = file:write_file(filename:join([Project, "test", Name ++ ".erl"]),
                                         ["-module(", Name, ").\n", Text, "\n"])
            end,
    Runs = [{version, Rebar(["version"])}, {compile, Rebar(["compile"])},
            {eunit, Rebar(["eunit"])},
            {failing, begin
                          Write("more_tests", "-include_lib(\"eunit/include/eunit.hrl\").\n"
                                "bad_test() -> ?assertEqual(1, length([]))."),
                          Rebar(["eunit"])
                      end},
            {wrong, begin Write("wrong_tests", "bad( ->"), Rebar(["eunit"]) end},
            {tree, Rebar(["tree"])}, {help, Rebar(["help", "compile"])},
            {ct, begin
                     [ok = file:delete(filename:join([Project, "test", Test]))
                      || Test <- ["more_tests.erl", "wrong_tests.erl"]],
                     Rebar(["ct", "--basic_html", "true"])
                 end},
            {covered, Rebar(["eunit", "--cover"])}, {cover, Rebar(["cover", "--verbose"])},
            {xref, Rebar(["xref"])},
            {escript, Rebar(["escriptize"])},
            {ran, running:run(os:find_executable("escript"),
                              [filename:join(Project, "_build/default/bin/shapes"), "1 + 2"])},
            {unknown, Rebar(["unknown"])}],
    Built = filelib:wildcard("_build/default/lib/*/ebin/*", Project),
    {Code, Said} = Rebar(["clean"]),
    {[{built, Built}, {clean, Code, plain(Said)},
      {left, filelib:wildcard("_build/default/lib/*/ebin/*", Project)}
      | [{What, Ended, plain(Printed)} || {What, {Ended, Printed}} <- Runs]],
     [Said | [Printed || {_, {_, Printed}} <- Runs]]}.

%% Removes colors, durations, process identifiers, and the lines of `whittle trace'.
plain(Said) ->
    lists:foldl(fun({Pattern, Instead}, Text) ->
                        re:replace(Text, Pattern, Instead, [global, {return, binary}])
                end, Said, [{"\e\\[[0-9;]*m", ""}, {"[0-9.]+ seconds", "TIME"},
                            {"<[0-9]+\\.[0-9.]+>", "PID"},
                            {"\\S+/traces/[0-9]+: [0-9]+ functions of .*\n", ""},
                            {"whittle: note: .*\n", ""}]).

%% Builds an Elixir application with `mix release' of Debian's package.
mix(Program, App, Source) ->
    Elixir = package(Program, "elixir", "usr/lib/elixir"),
    Dir = work([Program, "source"]),
    _ = file:del_dir_r(Dir),
    {0, <<>>} = running:run("/bin/cp", ["-R", Source, Dir]),
    Path = filename:join(Elixir, "bin") ++ ":" ++ os:getenv("PATH"),
    case running:run(filename:join(Elixir, "bin/mix"), ["release"],
                     #{env => [{"MIX_ENV", "prod"}, {"HEX_OFFLINE", "1"}, {"PATH", Path}],
                       cd => Dir}) of
        {0, _} -> filename:join([Dir, "_build/prod/rel", App]);
        {_, Said} -> fail("mix release: ~ts", [Said])
    end.

%% Returns the output and the exit code.
greet(Command, Env, Dir) ->
    answers([run(Command, [], Env, Dir),
             run(Command, ["one", "two"], [{"GREETING", "Good morning"} | Env], Dir)]).

%% Uses all functions of the program, including failing ones, and an invalid environment. In that
%% case the output comes from two processes, in any order.
work(Command, Env, Dir) ->
    All = ["drawers", "stuck", "tasks", "agent", "words", "dates", "terms", "evaluated"],
    {Answers, Printed} =
        answers([run(Command, [One], Env, Dir) || One <- All]
                ++ [run(Command, All, [{"TITLE", " my desk "}, {"COPIES", "2"} | Env], Dir),
                    run(Command, ["tasks", "nothing"], Env, Dir)]),
    {Wrong, Said} = run(Command, ["tasks"], [{"COPIES", "some"} | Env], Dir),
    [_, _] = binary:split(Said, <<"ERROR! Config provider Config.Reader failed with:">>),
    {[{Wrong, no_number} | Answers], [Said | Printed]}.

answers(Runs) -> {[{Code, plain(Said)} || {Code, Said} <- Runs], [Said || {_, Said} <- Runs]}.

print(Name, #{accounts := Accounts, parts := #{hot := Hot, cold := Rest}, told := Told,
              said := Said, cold := Cold, unplanned := Unplanned, checks := Checks}) ->
    io:format("~n~s: ~b answers, the same each time~n~n", [Name, Checks]),
    {_, Last} = lists:last(Accounts),
    Passes = [Pass || {Pass, _} <- passes(Last)],
    row(["bytes" | [atom_to_list(Way) || {Way, _} <- Accounts]]),
    row(["---" | ["--:" || _ <- Accounts]]),
    row(["stock release" | [number([<<"stock">>, <<"size">>], Account)
                            || {_, Account} <- Accounts]]),
    [row([["code: ", Pass] | [case lists:keyfind(Pass, 1, passes(Account)) of
                                  {_, Bytes} -> grouped(Bytes);
                                  false -> ""
                              end || {_, Account} <- Accounts]]) || Pass <- Passes],
    row(["code: stored" | [number([<<"code">>], Account) || {_, Account} <- Accounts]]),
    row(["vm" | [number([<<"vm">>], Account) || {_, Account} <- Accounts]]),
    row(["file" | [number([<<"size">>], Account) || {_, Account} <- Accounts]]),
    io:format("~nhot ~ts, cold ~ts~n", [grouped(Hot), grouped(Rest)]),
    io:format("told (crash): ~ts~n", [lists:join(" ", Told)]),
    io:format("asked of the cold pack, functions: ~ts~n", [listed(Cold)]),
    io:format("of it said by the log (load): ~ts~n", [listed(Said)]),
    io:format("called, and cut with all doors shut (crash): ~ts~n", [listed(Unplanned)]).

row(Cells) -> io:format("| ~ts |~n", [lists:join(" | ", Cells)]).

listed([]) -> "nothing";
listed(List) -> lists:join("\n  ", ["" | List]).

passes(Account) ->
    [{proplists:get_value(<<"pass">>, Pass), proplists:get_value(<<"bytes">>, Pass)}
     || Pass <- proplists:get_value(<<"passes">>, Account)].

number(Keys, Account) ->
    grouped(lists:foldl(fun(Key, Value) -> proplists:get_value(Key, Value) end, Account, Keys)).

grouped(Number) when Number < 1000 -> integer_to_list(Number);
grouped(Number) -> [grouped(Number div 1000), io_lib:format(",~3..0b", [Number rem 1000])].

whittle() -> filename:join(get(root), "whittle").

file(Name, Way) -> work([Name, Way]).

work(Parts) ->
    Path = filename:join([get(root), "out", "programs"
                          | [case Part of
                                 _ when is_atom(Part) -> atom_to_list(Part);
                                 _ -> lists:flatten(Part)
                             end || Part <- Parts]]),
    ok = filelib:ensure_dir(Path),
    Path.
