%% @hidden Compiles the user's source with the host's own tools.
-module(whittle_compile).

-export([with_rebar3/3, rebar_config/1, check/2, with_erlc/4, escript/4, again/2]).

%% The longest name of a module in bytes: with `.beam' it is a file name of 255 bytes.
-define(LONGEST_MODULE, 250).

%% @doc Compiles a rebar3 project. It calls the function with the directory of the applications
%% that rebar3 built, and returns the function's result.
%%
%% The lock of the project's directory lets only one build at a time write to `_build' and read
%% it. If another program holds the lock, the function tells so and waits. The compilation fetches
%% nothing. A missing dependency gives the error `not_fetched'. For the libraries see {@link
%% with_erlc/4}. The context tells whether it refuses links out of the project.
-spec with_rebar3(file:filename(),
                  {[file:filename()], whittle_read_app:context(), whittle_read:tell()},
                  fun((file:filename()) -> {ok, Read} | {error, whittle_system:error()})) ->
          {ok, Read} | {error, whittle_system:error()}.
with_rebar3(Dir, {Libs, Context, Tell}, Read) ->
    case os:find_executable("rebar3") of
        false -> {error, {no_program, {"rebar3", "Debian package rebar3"}}};
        Rebar3 ->
            case lock(Dir, Tell) of
                {ok, Lock} ->
                    try
                        rebar3(Rebar3, Dir, {Libs, Context}, Read)
                    after
                        whittle_lock:release(Lock)
                    end;
                {error, no_flock} ->
                    {error, {no_program, {"flock", "Debian package util-linux"}}};
                {error, Reason} ->
                    {error, {not_locked, {Dir, Reason}}}
            end
    end.

lock(Dir, Tell) ->
    case whittle_lock:take(Dir, #{wait => 0}) of
        busy ->
            _ = Tell({waiting, [Dir, ": waiting for another build of this project"]}),
            whittle_lock:take(Dir, #{wait => infinity});
        Result -> Result
    end.

rebar3(Rebar3, Dir, {Libs, Context}, Read) ->
    Env = [{"REBAR_OFFLINE", "1"}, {"REBAR_COLOR", "none"},
           {"REBAR_PROFILE", false}, {"REBAR_BASE_DIR", false}, {"TERM", "dumb"}]
        ++ [{"ERL_AFLAGS", quoted(Words)} || [_ | _] = Words <- [behind_otp(Libs)]]
        %% rebar3 crashes without it, as in a job of cron. It makes nothing there.
        ++ [{"HOME", "/nonexistent"} || os:getenv("HOME") =:= false],
    whittle_work:steps(
      [fun(_) -> whittle_compile_check:check_project(Dir, {includes(Dir), Libs}, Context) end,
       fun(_) ->
               case run(Rebar3, ["compile"], Dir, Env) of
                   {0, _} -> Read(lib(Rebar3, Dir, Env));
                   {_, Output} -> {error, not_built(Dir, Output)}
               end
       end]).

%% Lists the directories that the options of the compiler name.
includes(Dir) ->
    Options = proplists:get_value(erl_opts, rebar_config(Dir), []),
    [Included || length(Options) >= 0, {i, Included} <- Options, io_lib:char_list(Included)].

%% @doc Reads a project's `rebar.config'. It returns the empty list if the file cannot be read.
-spec rebar_config(file:filename()) -> [term()].
rebar_config(Dir) ->
    case whittle_file:text(filename:join(Dir, "rebar.config")) of
        {ok, Bytes} ->
            case whittle_term:parse(Bytes) of
                {ok, Terms} -> Terms;
                {error, _} -> []
            end;
        {error, _} -> []
    end.

%% @doc Checks what {@link with_erlc/4} would compile, as far as this is possible without a
%% compiler: that it can read the sources to their end, that no two have one name, and that there is
%% an `.app.src' file.
-spec check(file:filename(), [file:filename()]) -> ok | {error, whittle_system:error()}.
check(Dir, Libs) ->
    whittle_work:steps([fun(_) -> whittle_compile_check:check_application(Dir, Libs) end,
                        fun(_) -> no_two(Dir, sources(Dir) ++ grammars(Dir)) end,
                        fun(_) -> app_src(Dir) end,
                        fun(_) -> ok end]).

%% @doc Compiles an application's directory into a temporary directory. It calls the function with
%% the path `TMP/ebin', and removes the directory after the call.
%%
%% The compiler finds the applications of the libraries behind those of its OTP, as the build does.
%% So it can include their files and call their parse transforms, and they cannot replace a module
%% of the compiler.
-spec with_erlc(file:filename(), whittle_otp_lib:otp_lib(), [file:filename()],
                fun((file:filename()) -> Result)) ->
          Result | {error, whittle_system:error()}.
with_erlc(Dir, Otp, Libs, Read) ->
    in_temporary(fun(Tmp) ->
                         Ebin = filename:join(Tmp, "ebin"),
                         done(file:make_dir(Ebin), Ebin),
                         Compiled = whittle_work:steps(
                                      [fun(_) -> check(Dir, Libs) end,
                                       fun(_) -> erlc(Dir, Tmp, Ebin, Otp, Libs) end]),
                         case Compiled of
                             {error, _} = Error -> Error;
                             _ -> Read(Ebin)
                         end
                 end).

%% @doc Compiles modules again from their debug information, with the compiler of the given `erl'.
%% The result omits modules that cannot be compiled. An `erl' that fails is an error.
-spec again(file:filename(), [{module(), binary()}]) ->
          {ok, #{module() => binary()}} | {error, whittle_system:error()}.
again(Erl, Modules) ->
    in_temporary(
      fun(Tmp) ->
              File = fun(Name, N) -> filename:join(Tmp, Name ++ integer_to_list(N)) end,
              _ = [write(File("in", N), Bytes) || {N, {_, Bytes}} <- numbered(Modules)],
              case run(Erl, ["-noshell", "-noinput", "-boot", "no_dot_erlang",
                             "-eval", again_expression(), "-extra", Tmp], Tmp, []) of
                  {0, _} ->
                      {ok, maps:from_list([{Module, Bytes}
                                           || {N, {Module, _}} <- numbered(Modules),
                                              {ok, Bytes} <- [file:read_file(File("out", N))]])};
                  {_, Output} ->
                      [{First, _} | _] = Modules,
                      {error, {not_compiled, {["module ", atom_to_list(First)], Erl, Output}}}
              end
      end).

numbered(List) ->
    lists:zip(lists:seq(1, length(List)), List).

%% The expression runs in the chosen OTP, which may be newer than the OTP that compiled Whittle.
%% Of the module's original compiler options it keeps only the inlining.
again_expression() ->
    "[Tmp] = init:get_plain_arguments(),"
    "[catch begin"
    "   {ok, Old} = file:read_file(F),"
    "   {ok, {M, [{debug_info, {debug_info_v1, B, D}}]}} = beam_lib:chunks(Old, [debug_info]),"
    "   {ok, Forms} = B:debug_info(erlang_v1, M, D, []),"
    "   {ok, {M, [{compile_info, I}]}} = beam_lib:chunks(Old, [compile_info]),"
    "   Given = proplists:get_value(options, I, []),"
    "   Inline = [O || O <- Given, lists:member(if is_tuple(O) -> element(1, O); true -> O end,"
    "                                           [inline, inline_list_funcs, inline_size])],"
    %% The caller's ERL_COMPILER_OPTIONS are not for these modules.
    "   {ok, M, Beam} = compile:noenv_forms(Forms, [deterministic, debug_info | Inline]),"
    "   ok = file:write_file(filename:join(Tmp, \"out\" ++ tl(tl(filename:basename(F)))), Beam)"
    " end || N <- filelib:wildcard(\"in*\", Tmp), F <- [filename:join(Tmp, N)]],"
    "halt(0).".

%% @doc Compiles an escript that is source, from its name and its text. The module takes the name in
%% the script, or else the name of the file. `escript' would put the time into the name, and the
%% same input must give the same bytes. For the libraries see {@link with_erlc/4}.
-spec escript({file:filename(), binary()}, string(), whittle_otp_lib:otp_lib(),
              [file:filename()]) -> {ok, binary()} | {error, whittle_system:error()}.
escript({File, Text}, Name, Otp, Libs) ->
    [_Shebang, Body] = binary:split(Text, <<"\n">>),
    {Module, Lines} = whole_module(Body, Name),
    case whittle_file_name:check(Module) of
        ok ->
            case byte_size(unicode:characters_to_binary(Module)) > ?LONGEST_MODULE of
                true -> {error, {odd_name, {File, "the module's name", Module,
                                            "is longer than 250 bytes"}}};
                false -> compiled_escript(File, Module, Lines, Otp, Libs)
            end;
        {error, Why} -> {error, {odd_name, {File, "the module's name", Module, Why}}}
    end.

compiled_escript(File, Module, Lines, Otp, Libs) ->
    in_temporary(fun(Tmp) ->
                         Source = filename:join(Tmp, Module ++ ".erl"),
                         write(Source, Lines),
                         Words = ["+deterministic" | behind_otp(Libs)] ++ ["-o", Tmp, Source],
                         case whittle_work:steps(
                                [fun(_) ->
                                         whittle_compile_check:check_includes([Source], [], Libs)
                                 end,
                                 fun(_) -> erlc_steps([Words], Tmp, Otp) end]) of
                             ok -> file:read_file(filename:join(Tmp, Module ++ ".beam"));
                             {error, {not_compiled, Output}} ->
                                 Names = [{Source, File}, {Module ++ ".erl", File}],
                                 {error, {not_compiled, {File, "erlc", shown(Output, Names)}}};
                             {error, _} = Error -> Error
                         end
                 end).

%% Internal

%% Makes the error of a failed build. After rebar3 reports a missing dependency, it prints a crash
%% of its own.
not_built(Dir, Output) ->
    Reason = case binary:match(Output, <<"rebar_fetch,offline">>) of
                 {_, _} -> "^Fetching .*$";
                 nomatch -> "^Package not found in any repo.*$"
             end,
    case re:run(Output, Reason, [multiline, global, {capture, first, binary}]) of
        {match, Lines} -> {not_fetched, {Dir, hd(lists:last(Lines))}};
        nomatch -> {not_compiled, {Dir, "rebar3 compile", Output}}
    end.

%% Makes a module of an escript, with its name. Like `escript', it adds `-module' and the export
%% of main/1 if they are missing. They replace the shebang line or share a line with the script,
%% so that line numbers stay right.
whole_module(Body, Name) ->
    Export = case exports_main(Body) of
                 true -> "";
                 false -> " -export([main/1])."
             end,
    Pattern = "-\\s*+module\\s*+\\(\\s*+('[^'\\n]*+'|\\w++)\\s*+\\)\\s*+\\.",
    case re:run(Body, Pattern, [anchored, {offset, first_form(Body, 0)},
                                {capture, [0, 1], index}]) of
        {match, [{Begin, Size}, {At, Length}]} ->
            End = Begin + Size,
            <<Head:End/binary, Rest/binary>> = Body,
            Given = whittle_term:text(binary:part(Body, At, Length)),
            {string:trim(Given, both, "'"), [$\n, Head, Export, Rest]};
        nomatch ->
            {Name, [unicode:characters_to_binary(
                      [io_lib:format("-module(~tp).", [list_to_atom(Name)]), Export, $\n]),
                    Body]}
    end.

%% Looks for main/1 in the lists of exports. Only white space stands before an attribute in its
%% line, so a comment contains none. The search reads each list once, and the blanks of a line once.
exports_main(Body) ->
    case re:run(Body, "^[^\\S\\n]*+-\\s*+export\\s*+\\(\\s*+\\[([^\\]]*+)",
                [multiline, global, {capture, [1], binary}]) of
        {match, Lists} ->
            lists:any(fun([List]) ->
                              re:run(List, "\\bmain\\s*+/\\s*+1\\b", [{capture, none}]) =:= match
                      end, Lists);
        nomatch -> false
    end.

%% Finds the end of the white space and the comments. An expression for both would reach the limits
%% of `re' in a long text.
first_form(Text, At) ->
    case Text of
        <<_:At/binary, C, _/binary>> when C =:= $\s; C >= $\t, C =< $\r ->
            first_form(Text, At + 1);
        <<_:At/binary, $%, _/binary>> ->
            case binary:match(Text, <<"\n">>, [{scope, {At, byte_size(Text) - At}}]) of
                {End, 1} -> first_form(Text, End + 1);
                nomatch -> byte_size(Text)
            end;
        _ -> At
    end.

%% Finds the library directory. A call of rebar3 takes a second. The answer can differ only if
%% there is a configuration script.
lib(Rebar3, Dir, Env) ->
    case filelib:is_regular(filename:join(Dir, "rebar.config.script")) of
        true ->
            {0, Output} = run(Rebar3, ["path", "--lib"], Dir, Env),
            unicode:characters_to_list(lists:last([<<>> | string:lexemes(Output, "\n")]));
        false ->
            filename:join([Dir, proplists:get_value(base_dir, rebar_config(Dir), "_build"),
                           "default", "lib"])
    end.

erlc(Given, Tmp, Ebin, Otp, Libs) ->
    Dir = whittle_file:absolute(Given),
    Grammars = grammars(Dir),
    Include = ["-I", filename:join(Dir, "include"), "-I", filename:join(Dir, "src"),
               "-I", filename:dirname(Dir)],
    Generated = [filename:join(Tmp, filename:basename(filename:rootname(File)) ++ ".erl")
                 || File <- Grammars],
    %% Parse transforms and behaviors come first, because the compiler needs them for the other
    %% modules.
    {Tools, Rest} = lists:partition(fun is_tool/1, sources(Dir)),
    %% The temporary directory has another name each time.
    Options = ["+debug_info", "+deterministic" | behind_otp(Libs)],
    Steps = [{["-o", Tmp | Grammars], Grammars},
             {Options ++ ["-o", Ebin | Include] ++ Tools, Tools},
             {Options ++ ["-pa", Ebin, "-o", Ebin | Include] ++ Generated ++ Rest,
              Generated ++ Rest}],
    Compiled = whittle_work:steps(
                 [fun(_) -> erlc_steps([Arguments || {Arguments, [_ | _]} <- Steps], Tmp, Otp) end,
                  fun(_) -> app_file(Dir, Ebin) end]),
    case Compiled of
        {error, {not_compiled, Output}} ->
            {error, {not_compiled, {Given, "erlc", shown(Output, [{Dir, Given}])}}};
        _ -> Compiled
    end.

grammars(Dir) -> whittle_file:found("src/**/*.{xrl,yrl}", Dir).

%% A module that was generated from a grammar earlier is not the newest source.
sources(Dir) ->
    whittle_file:found("src/**/*.erl", Dir)
        -- [filename:rootname(File) ++ ".erl" || File <- grammars(Dir)].

%% Refuses two sources of one name. The order of compilation would decide which one remains.
no_two(Dir, Sources) ->
    Named = lists:sort([{filename:basename(filename:rootname(File)), File} || File <- Sources]),
    case [Name || {{Name, _}, {Name, _}} <- lists:zip(lists:droplast([none | Named]), Named)] of
        [] -> ok;
        [Name | _] ->
            {error, {source_twice, {Dir, Name, [File || {N, File} <- Named, N =:= Name]}}}
    end.

quoted(Words) ->
    unicode:characters_to_list(lists:join($\s, [whittle_program:quoted(Word) || Word <- Words])).

%% Returns the words of a command line that put the applications of libraries behind OTP's own.
behind_otp(Libs) ->
    lists:append([["-pz", filename:absname(filename:join(Dir, "ebin"))]
                  || Dir <- lists:sort(maps:values(whittle_device:offered(Libs)))]).

%% Compiles the sources. The compiler of the chosen OTP fits best. If it is missing, the host's
%% compiler runs. erlc runs in a temporary directory, because it strips the name of its working
%% directory from the beginning of file names.
erlc_steps([Arguments | Rest], Tmp, Otp) ->
    case program("erlc", Otp) of
        false -> {error, {no_program, {"erlc", "Debian package erlang-base"}}};
        Erlc ->
            case run(Erlc, Arguments, Tmp, []) of
                {0, _} -> erlc_steps(Rest, Tmp, Otp);
                {_, Output} -> {error, {not_compiled, Output}}
            end
    end;
erlc_steps([], _, _) ->
    ok.

%% Replaces temporary names in the compiler's output with the names that the user knows.
shown(Output, Names) ->
    iolist_to_binary(lists:foldl(fun({Ours, Theirs}, Text) ->
                                         string:replace(Text, Ours, Theirs, all)
                                 end, Output, Names)).

program(Name, Otp) ->
    case whittle_otp_lib:program(Name, Otp) of
        {ok, Program} -> Program;
        error -> os:find_executable(Name)
    end.

%% If a file cannot be read, erlc reports it.
is_tool(File) ->
    case whittle_input_file:read(File) of
        {ok, Text} ->
            re:run(Text, "^-callback|^parse_transform\\(", [multiline, {capture, none}]) =:= match;
        {error, _} ->
            false
    end.

%% Makes the .app file from the one in the source, with the modules that were compiled.
app_file(Dir, Ebin) ->
    Compiled = [list_to_atom(filename:basename(File, ".beam"))
                || File <- lists:sort(whittle_file:found("*.beam", Ebin))],
    case app_src(Dir) of
        {ok, {application, Name, Props}} ->
            Spec = {application, Name, lists:keystore(modules, 1, Props, {modules, Compiled})},
            write(filename:join(Ebin, atom_to_list(Name) ++ ".app"), whittle_term:to_text(Spec));
        {error, _} = Error -> Error
    end.

app_src(Dir) ->
    case whittle_file:matches("src/*.app.src", Dir) of
        [Path] -> spec(filename:join(Dir, Path));
        [_ | _] = Paths -> {error, {several_app_files, {Dir, Paths}}};
        [] -> {error, {no_app_file, Dir}}
    end.

spec(File) ->
    case whittle_file:text(File) of
        {ok, Bytes} ->
            whittle_work:steps([fun(_) -> whittle_read_app:spec(File, Bytes) end,
                                fun(Spec) -> named(filename:basename(File, ".app.src"), File, Spec)
                                end]);
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% The name of a compiled application's file must be the application's too.
named(Base, File, {application, Name, _} = Spec) ->
    case atom_to_list(Name) of
        Base -> {ok, Spec};
        Other -> {error, {bad_app_file, {File, ["it describes the application ", Other]}}}
    end.

%% Calls the function with a temporary directory and removes the directory after the call.
in_temporary(Fun) ->
    case whittle_unfinished:make_directory("whittle") of
        {ok, Dir} ->
            try
                Fun(Dir)
            catch
                throw:{?MODULE, Error} -> {error, Error}
            after
                whittle_unfinished:remove_directory(Dir)
            end;
        {error, Error} ->
            {error, {no_temporary, Error}}
    end.

write(File, Bytes) ->
    done(file:write_file(File, Bytes), File).

done(ok, _) -> ok;
done({error, Reason}, File) ->
    throw({?MODULE, {no_temporary, {filename:dirname(File), Reason}}}).

run(Program, Arguments, Dir, Env) ->
    whittle_program:run(Program, Arguments, #{cd => Dir, env => Env}).
