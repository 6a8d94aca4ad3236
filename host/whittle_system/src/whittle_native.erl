%% @doc Reads the descriptions of NIFs and drivers in C or C++ that an application contains. Whittle
%% links them into the VM, because a static executable loads no library.
%%
%% A description is a file of terms. It is `native.config' at the top of the application. For an
%% application without one, the command line can name a description:
%%
%% ```
%% {nif, "jiffy", [{sources, ["c_src/*.c", "c_src/*.cc"]}, {include, ["c_src"]}]}.
%% {driver, "setuid_drv", [{sources, ["c_src/setuid_drv.c"]}, {module, yaws}]}.
%% {nif, "meter", [{archive, "lib/$TARGET/libmeter.a"}]}.
%% '''
%%
%% The name is that of the library that the application loads. All paths are relative to the
%% description's directory. The option `sources' gives wildcards of C and C++ files. `archive'
%% gives a compiled static library, with `$TARGET' for the name of the target. `include' gives
%% header directories, in addition to those of the sources. `cflags' gives further compiler flags.
%% Each flag is one word, exactly as the compiler receives it. `libs' gives libraries that Whittle
%% has for every target. `module' gives the module that loads the library (default: the library's
%% name). Whittle links the library if the output contains that module.
-module(whittle_native).

-import(whittle_term, [all/2]).

-export([of_application/2, description/1, read_all/1, assign/2, without_libraries/1]).

-export_type([native/0, lib/0]).

%% OpenSSL's libcrypto; its libssl, with libcrypto; ERTS's own zlib.
-type lib() :: crypto | ssl | zlib.

-type native() ::
        #{kind := nif | driver,
          name := string(),
          module := module(),                           % the module that loads it
          sources := [whittle_system:path()],           % among the files
          include := [string()],                        % directories; "." for the top
          cflags := [string()],
          libs := [lib()],
          archives := #{string() => binary()},          % by target: compiled archives
          files := #{whittle_system:path() => binary()},    % all files that may be included
          paths => [whittle_system:path()]}.            % all files that were read

-type apps() :: #{whittle_system:app_name() => whittle_system:app()}.

-define(SOURCES, [".c", ".cc", ".cpp", ".cxx"]).
%% The files that a compiler may read besides the given sources. A source may include another
%% source that is not compiled by itself.
-define(INCLUDED, "*.{h,hh,hpp,hxx,inc,def,tcc,ipp,c,cc,cpp,cxx}").
-define(LIBS, [crypto, ssl, zlib]).

%% @doc Reads the description at the top of an application's directory. One of the application's
%% modules must load each native. The result is empty if there is no description.
-spec of_application(file:filename(), [module()]) ->
          {ok, [native()]} | {error, whittle_system:error()}.
of_application(Dir, Modules) ->
    case description(Dir) of
        none -> {ok, []};
        {ok, File} -> loaded(File, Modules, read(File))
    end.

%% @doc Finds the description of an application. For a project's own application rebar3 makes a
%% directory that holds only links to its parts. The description then lies beside the directory
%% that `src' links to.
-spec description(file:filename()) -> {ok, file:filename()} | none.
description(Dir) ->
    Linked = case file:read_link(filename:join(Dir, "src")) of
                 {ok, To} -> [filename:dirname(filename:absname(To, Dir))];
                 {error, _} -> []
             end,
    %% The list includes broken links and entries that are not files. The read reports them.
    Files = [File || Place <- [Dir | Linked], File <- [filename:join(Place, "native.config")],
                     {ok, _} <- [file:read_link_info(File)]],
    case Files of
        [] -> none;
        [File | _] -> {ok, File}
    end.

%% @doc Reads the natives of several descriptions, each with its file.
-spec read_all([file:filename()]) ->
          {ok, [{file:filename(), native()}]} | {error, whittle_system:error()}.
read_all([]) ->
    {ok, []};
read_all([File | Files]) ->
    whittle_work:steps([fun(_) -> read(File) end,
                         fun(Natives) ->
                                 case read_all(Files) of
                                     {ok, Others} -> {ok, [{File, N} || N <- Natives] ++ Others};
                                     Error -> Error
                                 end
                         end]).

%% @doc Assigns each native to the application that has its loading module.
-spec assign([{file:filename(), native()}], apps()) ->
          {ok, apps()} | {error, whittle_system:error()}.
assign(Natives, Apps) ->
    lists:foldl(fun({File, Native}, {ok, Given}) -> assign(File, Native, Given);
                   (_, {error, _} = Error) -> Error
                end, {ok, Apps}, Natives).

%% @doc Removes the shared objects of an application that are linked into the VM.
-spec without_libraries(whittle_system:app()) -> whittle_system:app().
without_libraries(#{natives := Natives, files := Files} = App) ->
    Names = [unicode:characters_to_binary(Name) || #{name := Name} <- Natives],
    App#{files := maps:filter(fun(Path, _) -> not is_library_of(Path, Names) end, Files)};
without_libraries(App) ->
    App.

%% Internal

%% Reads the natives of a description.
read(File) ->
    try
        {ok, [native(Term, File) || Term <- terms(File)]}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

loaded(File, Modules, {ok, Natives}) ->
    case [{Name, Module} || #{name := Name, module := Module} <- Natives,
                            not lists:member(Module, Modules)] of
        [] -> {ok, Natives};
        [{Name, Module} | _] -> {error, {native_unused, {File, Name, Module}}}
    end;
loaded(_, _, Error) ->
    Error.

assign(File, #{module := Module, name := Name} = Native, Apps) ->
    case [App || #{modules := Modules} = App <- maps:values(Apps), is_map_key(Module, Modules)] of
        [#{name := Owner} = App | _] ->
            Others = [N || #{name := Other} = N <- maps:get(natives, App, []), Other =/= Name],
            {ok, Apps#{Owner := App#{natives => Others ++ [Native]}}};
        [] ->
            {error, {native_unused, {File, Name, Module}}}
    end.

is_library_of(Path, Names) ->
    Base = filename:basename(Path),
    filename:extension(Base) =:= <<".so">>
        andalso lists:member(filename:rootname(Base), Names).

terms(File) ->
    case whittle_term:parse(bytes(File)) of
        {ok, Terms} -> Terms;
        {error, Why} -> fail({bad_native, {File, Why}})
    end.

unread(File, Reason) when Reason =:= eisdir; Reason =:= eftype ->
    {bad_native, {File, ["this ", whittle_file:format_error(Reason)]}};
unread(File, enoent) -> {bad_native, {File, "there is no such file"}};
unread(File, Reason) -> {unreadable, {File, Reason}}.

native({Kind, Name, Options}, File) when Kind =:= nif; Kind =:= driver ->
    is_name(Name)
        orelse not_understood(Name, "a name is a string of at most 64 letters, digits and _ that "
                              "does not begin with a digit", File),
    all(fun(Option) -> is_option(Option) orelse not_understood(Option, wanted(Option), File) end,
        Options)
        orelse not_understood(Options, "options are a list", File),
    Keys = [Key || {Key, _} <- Options],
    [not_understood(Key, "it occurs twice", File) || Key <- Keys -- lists:usort(Keys)],
    native(Kind, Name, Options, File);
native(Term, File) ->
    fail({bad_native, {File, io_lib:format("a term is neither a nif nor a driver: ~0tP",
                                         [Term, 10])}}).

-spec not_understood(term(), string(), file:filename()) -> no_return().
not_understood(Term, Why, File) ->
    fail({bad_native, {File, io_lib:format("the term ~0tP is wrong: ~ts", [Term, 10, Why])}}).

wanted({Key, _}) when Key =:= sources; Key =:= include ->
    "it takes a list of strings, paths below the file's directory";
wanted({cflags, _}) ->
    "it takes a list of strings; each is one flag of the compiler: -DNAME=TEXT, -UNAME, -O, -g,"
        " -std=, -w, -ansi, -pedantic, -pthread, and those that begin with -W, -f or -m, without a"
        " path (docs/natives.md says which); `include' takes directories";
wanted({libs, _}) ->
    "it takes a list of " ++ lists:join(", ", [atom_to_list(Lib) || Lib <- ?LIBS]);
wanted({archive, _}) -> "it takes a string, a path below the file's directory without wildcards";
wanted({module, _}) -> "it takes an atom";
wanted(_) -> "there is no such option".

native(Kind, Name, Options, File) ->
    Dir = filename:dirname(File),
    Sources = [Path || Pattern <- proplists:get_value(sources, Options, []),
                       Path <- found(Pattern, Dir, Name, File)],
    {Archives, Libraries} = archives(proplists:get_value(archive, Options), Dir),
    case {Sources, Archives =:= #{}} of
        {[], true} -> fail({bad_native, {File, [Name, " has neither sources nor an archive"]}});
        {[_ | _], false} -> fail({bad_native, {File, [Name, " has sources and an archive"]}});
        _ -> ok
    end,
    Include = proplists:get_value(include, Options, []),
    [fail({bad_native, {File, [Name, ": there is no directory ", Below]}})
     || Below <- Include, not filelib:is_dir(filename:join(Dir, Below))],
    Included = [filename:join(Below, Path)
                || Below <- lists:usort(Include ++ [filename:dirname(S) || S <- Sources]),
                   Path <- whittle_file:matches("**/" ?INCLUDED, filename:join(Dir, Below)),
                   filelib:is_regular(filename:join([Dir, Below, Path]))],
    #{kind => Kind, name => Name,
      module => proplists:get_value(module, Options, list_to_atom(Name)),
      sources => [path(Path) || Path <- Sources],
      include => Include,
      cflags => proplists:get_value(cflags, Options, []),
      libs => lists:usort(proplists:get_value(libs, Options, [])),
      archives => Archives,
      paths => [path(Path) || Path <- lists:usort(Libraries ++ Sources ++ Included)],
      files => maps:from_list([{path(Path), bytes(filename:join(Dir, Path))}
                               || Path <- lists:usort(Sources ++ Included)])}.

%% Checks a name. It becomes a C identifier and part of a path.
is_name(Name) ->
    is_text(Name)
        andalso re:run(Name, "^[A-Za-z_][A-Za-z0-9_]{0,63}\\z", [{capture, none}]) =:= match.

is_option({Key, Texts}) when Key =:= sources; Key =:= include ->
    all(fun is_below/1, Texts);
is_option({cflags, Flags}) ->
    all(fun is_flag/1, Flags);
is_option({libs, Libs}) ->
    all(fun(Lib) -> lists:member(Lib, ?LIBS) end, Libs);
is_option({archive, Path}) ->
    %% A wildcard could match more than the name of the target.
    is_below(Path) andalso re:run(Path, "[*?{\\[\\\\]", [unicode, {capture, none}]) =:= nomatch;
is_option({module, Module}) -> is_atom(Module);
is_option(_) -> false.

is_text(Text) -> io_lib:printable_unicode_list(Text) andalso Text =/= [].

is_below(Path) ->
    is_text(Path) andalso filename:pathtype(Path) =:= relative
        andalso not lists:member("..", filename:split(Path)).

%% Checks a compiler flag. The recipe quotes it for sh. The check lets only flags through that
%% neither name a file nor run a program: the cache would not notice another file, and a
%% description must not run anything.
is_flag(Flag) ->
    Patterns = ["-D[A-Za-z_][^[:cntrl:]]*", "-U[A-Za-z_][A-Za-z0-9_]*", "-O[0-3gsz]?|-Ofast",
                "-g[0-3]?", "-std=[a-z0-9+:]+", "-w|-ansi|-pedantic|-pedantic-errors|-pthread",
                "-W[A-Za-z0-9+=_-]*", "-m(?!(arch|tune|cpu)=native)[A-Za-z0-9+=_.,-]+",
                "-f(?!plugin|dump|deps|profile|auto-profile|opt-info|save-|callgraph|lto|use-|"
                "module|diagnostics-f|syntax-only|self-test|compare-debug|sarif|test-coverage|"
                "offload|preprocessed|pch)"
                "[A-Za-z0-9+=_.,-]+"],
    is_text(Flag)
        andalso re:run(Flag, ["^(", lists:join($|, Patterns), ")\\z"], [{capture, none}, unicode])
            =:= match.

found(Pattern, Dir, Name, File) ->
    case [Path || Path <- whittle_file:matches(Pattern, Dir),
                  lists:member(filename:extension(Path), ?SOURCES)] of
        [] ->
            fail({bad_native, {File, [Name, ": ", Pattern, " names no file that ends in ",
                                      lists:join(", ", ?SOURCES)]}});
        Paths -> Paths
    end.

archives(undefined, _) ->
    {#{}, []};
archives(Path, Dir) ->
    case string:split(Path, "$TARGET") of
        [Before, After] ->
            Files = filelib:wildcard(Before ++ "*" ++ After, Dir),
            Files =:= [] andalso fail(unread(filename:join(Dir, Path), enoent)),
            {maps:from_list([{lists:sublist(File, length(Before) + 1,
                                            length(File) - length(Before) - length(After)),
                              archive(filename:join(Dir, File))} || File <- Files]), Files};
        [_] ->
            {#{"" => archive(filename:join(Dir, Path))}, [Path]}
    end.

%% Checks that a file is an archive from ar with at least one member.
archive(File) ->
    case bytes(File) of
        <<"!<arch>\n", _, _/binary>> = Archive -> Archive;
        _ -> fail({bad_native, {File, "is not a static library that ar made of object files"}})
    end.

bytes(File) ->
    case whittle_input_file:read(File) of
        {ok, Bytes} -> Bytes;
        {error, Reason} -> fail(unread(File, Reason))
    end.

path(Path) -> unicode:characters_to_binary(Path).

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
