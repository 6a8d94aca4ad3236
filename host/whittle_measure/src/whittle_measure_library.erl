%% @doc Measures the applications of a system as files: compressed one by one, by application, or in
%% one stream.
%%
%% The files are those of `ebin': the modules and the `.app' file. A form says what happens to them,
%% in this order: strip the modules, compress each module, put each application into an archive,
%% compress everything in one stream.
%% @hidden
-module(whittle_measure_library).

-include_lib("kernel/include/file.hrl").

%% The same files make the same archive.
-define(TIME, {{1980, 1, 1}, {0, 0, 0}}).

-export([choices/0, request/1, files/2, size/3, archive/2]).

-export_type([form/0, files/0]).

-type form() ::
        #{strip => boolean(),             % Whittle's own passes; default: true
          modules => plain | gzip,        % gzip: as `erlc +compressed'; default: plain
          applications => plain | zip,    % zip: one archive for each application, as the `.ez'
                                          % files of OTP; default: plain
          stream => none | zstd}.         % zstd -22 over all files; default: none

%% The files of each application. A path begins with the application's name.
-type files() :: [{atom(), [{string(), binary()}]}].

%% @doc Lists the keys of a form and their values.
-spec choices() -> [{atom(), [atom()]}].
choices() ->
    [{strip, [true, false]}, {modules, [plain, gzip]}, {applications, [plain, zip]},
     {stream, [none, zstd]}].

%% @doc Returns the passes of a form, as an option for `whittle_make:system/1'. Only the passes
%% decide about the files of a system, so that forms with the same passes can share it.
-spec request(#{request := map(), form := form()}) -> map().
request(#{request := Request, form := Form}) ->
    Left = case maps:get(strip, Form, true) of
               true -> [];
               false -> [whittle_pass_strip, whittle_pass_literals]
           end,
    Request#{passes => whittle_make:passes(maps:get(shake, Request, none)) -- Left}.

%% @doc Lists the files of some applications of a system.
-spec files([atom()], whittle_system:system()) -> files().
files(Names, System) ->
    [{Name, [{path(Name, [atom_to_list(Name), ".app"]), app_file(Spec)}
             | [{path(Name, [atom_to_list(Module), ".beam"]), Bytes}
                || {Module, Bytes} <- lists:sort(maps:to_list(Modules))]]}
     || #{name := Name, modules := Modules, spec := Spec} <- whittle_system:apps(System),
        lists:member(Name, Names)].

path(Name, File) -> lists:flatten([atom_to_list(Name), "/ebin/", File]).

app_file(Spec) -> unicode:characters_to_binary(io_lib:format("~tp.~n", [Spec])).

%% @doc Returns the bytes that the files take in a form. `File' is the path of a temporary file.
-spec size(form(), files(), file:filename()) ->
          {ok, #{size := pos_integer(), sha256 := binary()}} | {error, unicode:chardata()}.
size(Form, Files, File) ->
    Sum = list_to_binary(whittle_digest:bytes(term_to_binary({Form, Files}, [deterministic]))),
    Bytes = [archived(maps:get(applications, Form, plain), Name,
                      [{Path, compressed(maps:get(modules, Form, plain), Path, Each)}
                       || {Path, Each} <- Own])
             || {Name, Own} <- Files],
    case maps:get(stream, Form, none) of
        none -> {ok, #{size => iolist_size(Bytes), sha256 => Sum}};
        zstd ->
            case stream(Bytes, File) of
                {ok, Size} -> {ok, #{size => Size, sha256 => Sum}};
                {error, _} = Error -> Error
            end
    end.

compressed(gzip, Path, Bytes) ->
    case filename:extension(Path) of
        ".beam" -> zlib:gzip(Bytes);
        _ -> Bytes
    end;
compressed(plain, _, Bytes) -> Bytes.

archived(plain, _, Files) -> [Bytes || {_, Bytes} <- Files];
archived(zip, Name, Files) -> archive(Name, Files).

%% @doc Puts the files of an application into an archive. Two archives of the same files are equal.
-spec archive(atom(), [{string(), binary()}]) -> binary().
archive(Name, Files) ->
    Entries = [{Path, Bytes, #file_info{size = byte_size(Bytes), type = regular, mode = 8#644,
                                        mtime = ?TIME, atime = ?TIME, ctime = ?TIME}}
               || {Path, Bytes} <- Files],
    {ok, {_, Archive}} = zip:create(atom_to_list(Name) ++ ".ez", Entries, [memory]),
    Archive.

%% The options are those of Whittle's packs.
stream(Bytes, File) ->
    Compressed = File ++ ".zst",
    Result = case file:write_file(File, Bytes) of
                 ok -> whittle_program:capture("zstd", ["-q", "-22", "--ultra", "--no-check", "-f",
                                                        "-o", Compressed, File]);
                 {error, Reason} -> {error, {file, Reason}}
             end,
    Size = filelib:file_size(Compressed),
    _ = [file:delete(Each) || Each <- [File, Compressed]],
    case Result of
        {ok, _} -> {ok, Size};
        {error, {file, Why}} -> {error, [File, " cannot be written: ", file:format_error(Why)]};
        {error, not_found} -> {error, "zstd is not on the PATH: run `tools/setup build'"};
        {error, {status, _, Text}} -> {error, ["zstd failed: ", string:trim(Text)]}
    end.
