%% @hidden Reads one compiled application: `DIR/{ebin,priv,include}' and the notices beside them.
%%
%% The `.app' file lists the modules. A listed module that is absent is an error. The reader also
%% reads a module that is present but not listed. A pass removes it later, so that the ledger
%% notes it.
-module(whittle_read_app).

-include_lib("kernel/include/file.hrl").

-import(whittle_term, [all/2]).

-export([read/2, read/3, described/1, archives/2, files/2, tree/2, from_files/3, spec/2, beam/3,
         prebuilt/1, refuse_links/2]).

-export_type([context/0, source/0]).

%% The number of names in a note about files that are left out.
-define(SHOWN, 5).

%% The limit of paths below one directory. The walk through a net of links takes 15
%% seconds for them on a machine with two cores.
-define(MOST_PATHS, 100_000).

-type context() ::
        #{kind := input | otp | device,
          root => file:filename(),              % of the input; the reader reports links out
                                                % of it; default: it reports none
          outside_links => note | refuse,       % `refuse' enters no directory behind such a
                                                % link; default: note
          made_of => [whittle_system:path()],   % further files that it was compiled from;
                                                % default: none
          asked_by => [whittle_system:app_name()],
          path => file:filename_all()}.         % its origin; default:
                                                % the directory

%% A file that can be read: path below the application, mode, and a function that reads it.
-type source() :: {whittle_system:path(), non_neg_integer(),
                   fun(() -> {ok, binary()} | {error, term()})}.

-type read() :: {ok, whittle_system:app(), [unicode:chardata()]}  % with notes
              | {error, whittle_system:error()}.

%% @doc Reads the application in a directory.
-spec read(file:filename(), context()) -> read().
read(Dir, Context) ->
    read(Dir, files(Dir, Context), Context).

%% @doc Reads the application in a directory that contains the given files.
-spec read(file:filename(), [source()], context()) -> read().
read(Dir, Files, Context) ->
    case from_files(Dir, Files, Context) of
        {ok, #{modules := Modules, origin := Origin} = App, Notes} ->
            case whittle_native:of_application(Dir, maps:keys(Modules)) of
                {ok, Natives} ->
                    Links = links(Dir, Files, Natives, Context),
                    {ok, with_natives(Natives, App#{origin := Origin#{links => Links}}),
                     Notes ++ left_out(Dir, App)};
                {error, _} = Error -> Error
            end;
        {error, {unreadable, _} = Error} ->
            {error, whittle_links:blame(Error, {owner(Files), Dir, Files}, Context)};
        {error, _} = Error ->
            Error
    end.

%% @doc Reads only the description of an application. It comes from `ebin', or from `src' if the
%% application is not compiled yet.
-spec described(file:filename()) -> {ok, whittle_system:app()} | error.
described(Dir) ->
    Files = filelib:wildcard("ebin/*.app", Dir) ++ filelib:wildcard("src/*.app.src", Dir),
    case [App || File <- lists:sublist(Files, 1), App <- [description(filename:join(Dir, File))],
                 App =/= error] of
        [{application, Name, Props} = Spec] ->
            {ok, #{name => Name, vsn => proplists:get_value(vsn, Props), spec => Spec,
                   modules => #{}, files => #{},
                   origin => #{kind => input, path => Dir, asked_by => []}}};
        [] ->
            error
    end.

%% @doc Lists the archives in a directory that have the name of an application, with or without a
%% version. OTP reads such archives, and Whittle does not.
-spec archives(whittle_system:app_name(), file:filename()) -> [file:filename()].
archives(Name, Dir) ->
    [File || File <- whittle_file:found("*.ez", Dir),
             hd(string:split(filename:basename(File, ".ez"), "-")) =:= atom_to_list(Name)].

description(File) ->
    case whittle_file:text(File) of
        {ok, Bytes} ->
            case spec(File, Bytes) of
                {ok, Spec} -> Spec;
                {error, _} -> error             % the read reports the reason
            end;
        {error, _} -> error
    end.

%% @doc Lists the files of an application's directory that belong into a release.
-spec files(file:filename(), context()) -> [source()].
files(Dir, Context) ->
    [{below(Top, Path), Mode, Read}
     || Top <- [<<"ebin">>, <<"priv">>, <<"include">>],
        {Path, Mode, Read} <- tree(filename:join(Dir, Top), Context)]
        ++ notices(Dir, Context).

%% @doc Checks that no link leads out of the application, if the context refuses such links. It
%% reads no file and enters no directory behind such a link. So it comes before all work with the
%% sources.
-spec refuse_links(file:filename(), context()) -> ok | {error, whittle_system:error()}.
refuse_links(Dir, #{outside_links := refuse} = Context) ->
    %% The read of the application reports a wrong description.
    Natives = [Native || {ok, File} <- [whittle_native:description(Dir)],
                         {ok, Read} <- [whittle_native:read_all([File])], {_, Native} <- Read],
    case links(Dir, files(Dir, Context), Natives, Context) of
        [] -> ok;
        Links ->
            Whose = ["application", [[$\s, atom_to_list(Name)]
                                     || {ok, #{name := Name}} <- [described(Dir)]]],
            {error, {outside_links, [{Whose, At, To} || {At, To} <- Links]}}
    end;
refuse_links(_, _) ->
    ok.

%% @doc Lists all files below a directory. The list is empty if there is no such directory, or if
%% the path is a link without a target, which rebar3 makes for an application without priv. The
%% function follows links, because rebar3 makes a link to priv. A link back to a directory above
%% it is unreadable. A directory that cannot be listed and a path that is too long for the system
%% are unreadable too. The read of such a source reports the error. If the context refuses links
%% out of the input, such a link is also unreadable, because its target may be large or endless.
%% If more than 100,000 paths lead to files and directories, only the directory itself is listed, as
%% unreadable: links can form a net in which the number of paths doubles with each level.
-spec tree(file:filename(), context()) -> [source()].
tree(Dir, Context) ->
    case file:read_file_info(Dir) of
        {error, enoent} -> [];
        _ ->
            try node(Dir, <<>>, [], Context, {0, []}) of
                {_, Files} -> lists:reverse(Files)
            catch
                throw:{?MODULE, {too_many_paths, _} = Reason} -> [unreadable(<<>>, Reason)]
            end
    end.

%% @doc Makes an application from files. The directory is for error messages.
-spec from_files(file:filename(), [source()], context()) -> read().
from_files(Dir, Files, Context) ->
    try
        app(Dir, Files, Context)
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Parses and checks the term of an .app file. The name is for errors.
-spec spec(file:filename_all(), binary()) ->
          {ok, {application, whittle_system:app_name(), [{atom(), term()}]}}
        | {error, whittle_system:error()}.
spec(File, Bytes) ->
    case whittle_term:parse(Bytes) of
        {ok, [{application, Name, Props} = Spec]} when is_atom(Name), length(Props) >= 0 ->
            case [Error || Check <- [fun pairs/1, fun atoms/1, fun env/1, fun mod/1, fun vsn/1],
                           {error, Error} <- [Check(Props)]] ++ name(Name) of
                [] -> {ok, Spec};
                [no_vsn | _] -> {error, {no_vsn, {Name, File}}};
                [Why | _] -> {error, {bad_app_file, {File, Why}}}
            end;
        {ok, _} -> {error, {bad_app_file, {File, "it holds no application term"}}};
        {error, Why} -> {error, {bad_app_file, {File, Why}}}
    end.

%% @doc Checks the bytes of a module that does not belong to OTP. The name is for errors.
-spec beam(module(), file:filename_all(), binary()) ->
          {ok, binary()} | {error, whittle_system:error()}.
beam(Module, File, Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} ->
            case whittle_beam:module(Beam) of
                Module -> {ok, plain(Bytes, Beam)};
                Other -> {error, {misnamed_module, {File, Other}}}
            end;
        {error, Error} ->
            {error, {bad_beam, {File, Error}}}
    end.

%% @doc Finds the shared objects in an application's priv, and the modules that load one. A static
%% VM cannot load a shared object, so such a NIF would fail only on the device.
-spec prebuilt(whittle_system:app()) ->
          none | {[whittle_system:path()], Loaders :: [module()]}.
prebuilt(#{modules := Modules, files := Files}) ->
    case [Path || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(Files)),
                  is_native(Bytes), is_library(Path)] of
        [] -> none;
        Paths -> {Paths, loaders(Modules)}
    end.

%% Internal

%% Names an application that cannot be read, after its .app file.
owner(Files) ->
    ["application", [[$\s, unicode:characters_to_list(filename:basename(Path, <<".app">>))]
                     || {<<"ebin/", _/binary>> = Path, _, _} <- Files,
                        filename:extension(Path) =:= <<".app">>]].

with_natives([], App) -> App;
with_natives(Natives, App) -> App#{natives => Natives}.

%% Lists files that a program might look for in its application's directory and that a stock
%% release contains. A directory is listed as a whole.
left_out(Dir, #{name := Name, origin := #{kind := input}}) ->
    Others = [File || File <- names(Dir), not is_expected(File)]
        ++ ["ebin/" ++ File || File <- names(filename:join(Dir, "ebin")),
                               not lists:member(filename:extension(File), [".beam", ".app"]),
                               hd(File) =/= $.]
        ++ (empty(Dir, "priv") -- [empty("priv")]),
    Shown = lists:sublist(Others, ?SHOWN),
    [io_lib:format("~ts: Whittle packs only modules, priv and include, and leaves out: ~ts~ts",
                   [Name, lists:join(", ", Shown),
                    [io_lib:format(" and ~b more", [length(Others) - ?SHOWN])
                     || length(Others) > ?SHOWN]])
     || Others =/= [], not whittle_otp:is_otp(Name)];
left_out(_, _) ->
    [].

%% Names the empty directories. A pack has only files, and the directories of their paths.
empty(Dir, Path) ->
    case file:list_dir_all(filename:join(Dir, Path)) of
        {ok, []} -> [empty(Path)];
        {ok, Names} ->
            lists:append([empty(Dir, Below) || Name <- lists:sort(Names), is_list(Name),
                                               Below <- [Path ++ "/" ++ Name],
                                               {ok, #file_info{type = directory}}
                                                   <- [file:read_link_info(
                                                         filename:join(Dir, Below))]]);
        {error, _} -> []
    end.

empty(Path) -> Path ++ "/ (empty)".

names(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} -> [case filelib:is_dir(filename:join(Dir, Name)) of
                            true -> Name ++ "/";
                            false -> Name
                        end || Name <- lists:sort(Names),
                               %% rebar3 links `priv' and `include' also where they are missing.
                               filelib:is_file(filename:join(Dir, Name))];
        {error, _} -> []
    end.

%% Recognizes the files to pack and the files for development: sources, tests, documents, builds.
is_expected(Name) ->
    re:run(Name, "^([._].*|(ebin|priv|include|src|apps|lib|libs|test|tests|doc|docs|examples?|"
           "c_src|asn1|mibs|bench|benchmarks|tools|scripts?|log|logs|deps|native)/|"
           "(rebar|Makefile|makefile|erlang\\.mk|mix\\.|README|CHANGE|CHANGELOG|LICEN[CS]E|COPYING|"
           "NOTICE|AUTHORS|CONTRIBUT|CODE_OF|HISTORY|NEWS|RELEASE|SECURITY|THANKS|TODO|VERSION|"
           "hex_metadata|elvis|native\\.config|Dockerfile|Vagrantfile|Emakefile|.*\\.(md|adoc|rst|"
           "ya?ml|dump|beam|erl|mk)$).*)", [{capture, none}, caseless, unicode]) =:= match.

%% Lists the links to the application's files, to its sources, and to C code that is linked in.
links(Dir, Files, Natives, #{root := Root} = Context) ->
    Paths = [Path || {Path, _, _} <- Files] ++ maps:get(made_of, Context, []),
    Own = whittle_links:outside(Root, Dir, Paths),
    Ours = [<<"native.config">> | lists:append([Read || #{paths := Read} <- Natives])],
    OfC = [Link || {ok, File} <- [whittle_native:description(Dir)],
                   Link <- whittle_links:outside(Root, filename:dirname(File), Ours)],
    Own ++ (OfC -- Own);
links(_, _, _, _) ->
    [].

app(Dir, Files, #{kind := Kind} = Context) ->
    {AppFile, {application, Name, Props} = Spec} = app_spec(Dir, Files),
    Beams = maps:from_list(
              [{module_name(Dir, Path), {Path, Read}}
               || {<<"ebin/", File/binary>> = Path, _, Read} <- Files,
                  is_directly(File, <<".beam">>)]),
    Listed = proplists:get_value(modules, Props, []),
    case [Module || Module <- Listed, not is_map_key(Module, Beams)] of
        [] -> ok;
        Absent -> fail({absent_modules, {Name, Absent, AppFile}})
    end,
    Modules = maps:map(fun(Module, {Path, Read}) ->
                               module(Module, where(Dir, Path), Read, Kind)
                       end, Beams),
    {Kept, Dropped} = data_files(Name, Dir, Files, Kind),
    App0 = #{name => Name, vsn => proplists:get_value(vsn, Props), spec => Spec,
             modules => Modules, files => Kept,
             origin => #{kind => Kind, path => maps:get(path, Context, Dir),
                         asked_by => maps:get(asked_by, Context, [])}},
    App = case [Path || Path <- Dropped, whittle_otp:program(Name, Path) =:= unknown,
                        not is_library(Path)] of
              [] -> App0;
              Programs -> App0#{absent_programs => Programs}
          end,
    {ok, App, notes(Name, Listed, Modules, Dropped, Kind)}.

%% A VM searches no directories below ebin.
is_directly(File, Extension) ->
    filename:extension(File) =:= Extension andalso filename:basename(File) =:= File.

%% Takes the name of a module from its path. The path is safe even in an archive: see whittle_zip.
module_name(Dir, Path) ->
    Name = filename:basename(Path, <<".beam">>),
    case whittle_file_name:check(Name) of
        ok ->
            Module = binary_to_atom(Name),
            whittle_system:companion_of(Module) =:= none
                orelse fail({odd_name, {where(Dir, Path), "the module's name", Name,
                                        "ends with ~cold, and Whittle makes modules of such "
                                        "names"}}),
            Module;
        {error, Why} -> fail({odd_name, {where(Dir, Path), "the module's name", Name, Why}})
    end.

app_spec(Dir, Files) ->
    case [{Path, Read} || {<<"ebin/", Own/binary>> = Path, _, Read} <- Files,
                          is_directly(Own, <<".app">>)] of
        [{Path, Read}] ->
            File = where(Dir, Path),
            {application, Name, _} = Spec = ok(spec(File, bytes(File, Read))),
            %% Otherwise `application' would not find the file.
            filename:basename(Path, <<".app">>) =:= atom_to_binary(Name)
                orelse fail({bad_app_file, {File, io_lib:format("it describes the application ~ts",
                                                                [Name])}}),
            {File, Spec};
        [] -> fail({no_app_file, Dir});
        Several -> fail({several_app_files, {Dir, [P || {P, _} <- Several]}})
    end.

pairs(Props) ->
    case all(fun(Prop) -> is_tuple(Prop) andalso tuple_size(Prop) =:= 2 end, Props) of
        true -> ok;
        false -> {error, "its properties are not pairs"}
    end.

%% Checks the lists of names. These names become parts of paths. Registered names do not.
atoms(Props) ->
    Lists = [{Key, proplists:get_value(Key, Props, [])}
             || Key <- [modules, applications, included_applications, optional_applications]],
    case [Key || {Key, List} <- Lists, not all(fun is_atom/1, List)] of
        [] ->
            case [{Key, Name, Why} || {Key, Names} <- Lists, Name <- Names,
                                      {error, Why} <- [whittle_file_name:check(Name)]] of
                [] -> once(Lists);
                [{Key, Name, Why} | _] ->
                    {error, io_lib:format("the name `~ts' in `~ts' ~ts", [Name, Key, Why])}
            end;
        [Key | _] -> {error, io_lib:format("`~ts' is not a list of atoms", [Key])}
    end.

%% An application that includes another one and also waits for its start waits forever.
once(Lists) ->
    [Applications, Included] = [proplists:get_value(Key, Lists)
                                || Key <- [applications, included_applications]],
    case [Name || Name <- Included, lists:member(Name, Applications)] of
        [] -> ok;
        [Name | _] ->
            {error, io_lib:format("`~ts' stands in `applications' and in `included_applications'",
                                  [Name])}
    end.

%% Checks the environment. An application with a malformed one does not start, and no message says
%% so.
env(Props) ->
    IsSetting = fun({Key, _}) -> is_atom(Key); (_) -> false end,
    Env = proplists:get_value(env, Props, []),
    case all(IsSetting, Env) of
        true ->
            Keys = [Key || {Key, _} <- Env],
            case Keys -- lists:usort(Keys) of
                [] -> ok;
                [Key | _] -> {error, io_lib:format("`env' has the key `~ts' twice", [Key])}
            end;
        false -> {error, "`env' is not a list of pairs that begin with an atom"}
    end.

%% Checks the module that starts the application. OTP does not load an application in which `mod'
%% has another form.
mod(Props) ->
    case proplists:get_value(mod, Props, []) of
        [] -> ok;
        {Module, _} when is_atom(Module) -> ok;
        _ -> {error, "`mod' is not a pair {Module, Argument}"}
    end.

%% Checks the version. It becomes part of a path.
vsn(Props) ->
    Vsn = proplists:get_value(vsn, Props),
    case all(fun(Char) -> io_lib:char_list([Char]) end, Vsn) andalso Vsn =/= [] of
        false when Vsn =:= undefined; Vsn =:= [] -> {error, no_vsn};
        false -> {error, "`vsn' is not a string"};
        true ->
            case whittle_file_name:check(Vsn) of
                ok -> ok;
                {error, Why} -> {error, ["`vsn' ", Why]}
            end
    end.

%% Checks the application's name. It becomes part of a path.
name(Name) ->
    [["the application's name `", atom_to_list(Name), "' ", Why]
     || {error, Why} <- [whittle_file_name:check(Name)]].

%% Reads a module. OTP's own modules were checked when OTP was built.
module(_, File, Read, otp) -> bytes(File, Read);
module(Module, File, Read, _) -> ok(beam(Module, File, bytes(File, Read))).

%% Inflates a module that is gzipped as a whole, because it would spoil the compression of the
%% pack.
plain(<<"FOR1", _/binary>> = Bytes, _) -> Bytes;
plain(_, Beam) -> whittle_beam:strip(#{keep => all}, Beam).

%% Reads the data files. OTP's own libraries and port programs fit only the machine that OTP was
%% built on. The runtime has the ones that it needs (whittle_otp:program/2).
data_files(Name, Dir, Files, Kind) ->
    Data = [{Path, #{mode => Mode, bytes => bytes(where(Dir, Path), Read)}}
            || {Path, Mode, Read} <- Files,
               not lists:prefix("ebin/", binary_to_list(Path))],
    Native = fun({_, #{bytes := Bytes}}) -> is_native(Bytes) end,
    case Kind =:= otp orelse whittle_otp:is_otp(Name) of
        true ->
            {Dropped, Kept} = lists:partition(Native, Data),
            {maps:from_list(Kept), [Path || {Path, _} <- Dropped]};
        false ->
            {maps:from_list(Data), []}
    end.

%% Recognizes a program or a library of any machine.
is_native(<<127, "ELF", _/binary>>) -> true;
is_native(<<"!<arch>\n", _/binary>>) -> true;
is_native(<<16#CFFAEDFE:32, _/binary>>) -> true;         % Mach-O, 64 bits
is_native(<<16#CAFEBABE:32, _/binary>>) -> true;         % Mach-O, fat
is_native(_) -> false.

is_library(Path) ->
    re:run(Path, "\\.(so|dylib|dll)(\\.[0-9.]+)?$", [{capture, none}]) =:= match.

loaders(Modules) ->
    [Module || {Module, Bytes} <- lists:sort(maps:to_list(Modules)),
               {ok, Beam} <- [whittle_beam:read(Bytes)],
               lists:any(fun({erlang, load_nif, 2}) -> true;
                            ({erl_ddll, _, _}) -> true;
                            (_) -> false
                         end, whittle_beam:imports(Beam))].

notes(Name, Listed, Modules, Dropped, Kind) ->
    Unlisted = lists:sort(maps:keys(Modules)) -- Listed,
    [io_lib:format("~ts: its .app file does not list these modules: ~ts",
                   [Name, lists:join(", ", [atom_to_list(M) || M <- Unlisted])])
     || Unlisted =/= [], Kind =:= input] ++
    [io_lib:format("~ts: Whittle left out these files, which work on the build machine only: ~ts",
                   [Name, lists:join(", ", Absent)])
     || Absent <- [[Path || Path <- Dropped, whittle_otp:program(Name, Path) =/= linked]],
        Absent =/= []].

where(Dir, Path) -> filename:join(Dir, unicode:characters_to_list(Path)).

bytes(File, Read) ->
    case Read() of
        {ok, Bytes} -> Bytes;
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

%% Lists a directory. The directories passed so far reveal a link back to one of them. `Found'
%% counts and holds the files found so far.
tree(Dir, Path, Passed, Context, Found) ->
    case file:list_dir_all(Dir) of
        {ok, Names} ->
            lists:foldl(fun(Name, Before) -> named(Dir, Path, Name, Passed, Context, Before) end,
                        Found, lists:sort(Names));
        {error, Reason} ->
            found(unreadable(Path, Reason), Found)
    end.

%% Lists the license and notice files. The read reports an error if one is not a regular file.
notices(Dir, Context) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            [File || Name <- lists:sort(Names),
                     whittle_system:is_notice(unicode:characters_to_binary(Name)),
                     not filelib:is_dir(filename:join(Dir, Name)),
                     File <- element(2, named(Dir, <<>>, Name, [], Context, {0, []}))];
        {error, _} -> []
    end.

%% A name that is a binary is not valid UTF-8.
named(_, _, _, _, _, {?MOST_PATHS, _}) ->
    throw({?MODULE, {too_many_paths, ?MOST_PATHS}});
named(Dir, Above, Name, Passed, Context, {Count, Files}) when is_list(Name) ->
    Path = below(Above, unicode:characters_to_binary(Name)),
    case whittle_file_name:check_path(Path) of
        ok -> node(filename:join(Dir, Name), Path, Passed, Context, {Count + 1, Files});
        {error, Why} -> found(unreadable(Path, {odd_name, Why}), {Count + 1, Files})
    end;
named(_, Above, Name, _, _, {Count, Files}) ->
    found(unreadable(below(Above, unicode:characters_to_binary(Name, latin1)), eilseq),
          {Count + 1, Files}).

found(File, {Count, Files}) -> {Count, [File | Files]}.

below(<<>>, Name) -> Name;
below(Above, <<>>) -> Above;
below(Above, Name) -> <<Above/binary, $/, Name/binary>>.

node(File, Path, Passed, Context, Found) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = directory, major_device = Device, inode = Inode}} ->
            case {lists:member({Device, Inode}, Passed), whittle_links:is_refused(File, Context)} of
                {false, false} -> tree(File, Path, [{Device, Inode} | Passed], Context, Found);
                {true, false} -> found(unreadable(Path, eloop), Found);
                {_, true} -> found(unreadable(Path, outside_link), Found)
            end;
        {ok, #file_info{type = regular}} when Path =:= <<>> ->
            found(unreadable(Path, enotdir), Found);
        {ok, #file_info{type = regular, mode = Mode}} ->
            found({Path, Mode band 8#777, fun() -> whittle_input_file:read(File) end}, Found);
        {ok, _} -> found(unreadable(Path, eftype), Found);
        {error, Reason} -> found(unreadable(Path, Reason), Found)
    end.

unreadable(Path, Reason) -> {Path, 0, fun() -> {error, Reason} end}.

ok({ok, Value}) -> Value;
ok({error, Error}) -> fail(Error).

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
