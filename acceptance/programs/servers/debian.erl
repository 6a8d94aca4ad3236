%% Provides packages of Debian and of Python for the programs, and the work directory.
-module(debian).

-export([packages/1, source/2, application/1, python/1, otp_root/1, build/3, work/1, fail/2]).

%% Unpacks packages below out/programs/packages, and returns their directories.
-spec packages([string()]) -> [file:filename()].
packages(Names) -> [package(Name) || Name <- Names].

package(Name) ->
    case packages:unpacked(Name, work(["packages"])) of
        {ok, Dir} -> Dir;
        {error, Text} -> fail("~ts", [Text])
    end.

%% Returns the unpacked source of a package of a major version, from Debian 12, or from Debian 13
%% if the archive of Debian 12 no longer has it. An archive may hold only the author's part of a
%% package and not Debian's; apt has checked that file, too.
-spec source(string(), string()) -> file:filename().
source(Package, Major) ->
    Dir = work(["sources", Package]),
    Fetched = Dir ++ ".files",
    case filelib:is_dir(Dir) of
        true -> Dir;
        false ->
            ok = filelib:ensure_path(Fetched),
            Found = whittle_apt:fetch(Package, Major, ["bookworm", "trixie"], Fetched,
                                      #{tell => fun(_, _) -> ok end}),
            case {Found, filelib:wildcard(filename:join(Fetched, "*.orig.tar.*"))} of
                {{ok, #{main := Dsc}}, _} ->
                    shell("dpkg-source --no-check --extract \"$1\" \"$2\" 2>&1",
                          [filename:join(Fetched, Dsc), Dir]);
                {{error, _}, [Original | _]} ->
                    shell("mkdir \"$2\" && tar -xf \"$1\" -C \"$2\" --strip-components=1 2>&1",
                          [Original, Dir]);
                {{error, Error}, []} ->
                    fail("the source of ~ts could not be fetched: ~ts",
                         [Package, whittle_runtime:format_error(Error)])
            end,
            Dir
    end.

shell(Script, Words) ->
    case running:run("/bin/sh", ["-c", Script, "sh" | Words], #{env => keep}) of
        {0, _} -> ok;
        {_, Said} -> fail("~ts: ~ts", [Script, Said])
    end.

%% Reads the term of an .app file.
-spec application(file:filename()) -> {atom(), [{atom(), term()}]}.
application(File) ->
    {ok, [{application, Name, Keys}]} = file:consult(File),
    {Name, Keys}.

%% Returns a Python with the packages of a requirements file, installed once for each content.
-spec python(file:filename()) -> file:filename().
python(Requirements) ->
    {ok, Text} = file:read_file(Requirements),
    Dir = work(["python-" ++ integer_to_list(erlang:phash2(Text))]),
    Python = filename:join(Dir, "bin/python"),
    Script = "rm -rf \"$1\" && python3 -m venv \"$1\" && \"$1/bin/pip\" install -q"
        " --disable-pip-version-check --require-hashes -r \"$2\" && touch \"$1/complete\"",
    case filelib:is_file(filename:join(Dir, "complete")) of
        true -> Python;
        false ->
            case running:run("/bin/sh", ["-c", Script, "sh", Dir, Requirements],
                             #{env => keep}) of
                {0, _} -> Python;
                {_, Said} -> fail("the clients could not be installed: ~ts", [Said])
            end
    end.

%% Returns the stock OTP of a release.
-spec otp_root(string()) -> file:filename().
otp_root(Otp) ->
    {ok, #{root := Root}} = whittle_runtime:otp(Otp, #{}),
    Root.

%% Builds a path with `whittle build --json' if the output does not exist, and returns the JSON.
-spec build([atom() | string()], file:filename(), [string()]) -> map().
build(Parts, Path, Options) ->
    Out = work(Parts),
    Kept = Out ++ ".result",
    case file:read_file(Kept) of
        {ok, Bytes} -> binary_to_term(Bytes);
        {error, _} ->
            io:format(standard_error, "servers: building ~ts~n", [Out]),
            Log = Out ++ ".log",
            Script = "exec \"$0\" \"$@\" 2>" ++ Log,
            Words = [filename:join(running:root(), "whittle"), "build", Path, "-o", Out,
                     "--json" | Options],
            case running:run("/bin/sh", ["-c", Script | Words], #{env => keep}) of
                {0, Json} ->
                    Result = #{file => Out, size => filelib:file_size(Out), stock => stock(Json)},
                    ok = file:write_file(Kept, term_to_binary(Result)),
                    Result;
                {_, Json} ->
                    {ok, Said} = file:read_file(Log),
                    fail("~ts was not built: ~ts~ts", [Out, Said, Json])
            end
    end.

%% Returns the bytes of the stock release, from the output of `whittle build --json'.
stock(Json) ->
    {match, [Bytes]} = re:run(Json, "\"stock\":\\{[^}]*\"size\":(\\d+)",
                              [{capture, all_but_first, list}]),
    list_to_integer(Bytes).

%% Returns a path below out/programs, and creates its directory.
-spec work([atom() | string() | iolist()]) -> file:filename().
work(Parts) ->
    Path = filename:join([running:root(), "out", "programs"
                          | [lists:flatten(io_lib:format("~s", [part(Part)])) || Part <- Parts]]),
    ok = filelib:ensure_dir(Path),
    Path.

part(Part) when is_list(Part) -> [part(One) || One <- Part];
part(Part) -> if is_atom(Part) -> atom_to_list(Part); true -> Part end.

%% Ends the use of one server with a reason.
-spec fail(string(), [term()]) -> no_return().
fail(Format, Arguments) -> throw({servers, io_lib:format(Format, Arguments)}).
