%% @doc Reads one application that is compiled: `DIR/{ebin,priv,include}', and the
%% notices beside them.
%%
%% The `.app' file says which modules there are. One that is listed and absent
%% is an error; one that is present and not listed is read too, and left for a
%% pass to drop, since a note in the ledger is all that it deserves.
-module(whittle_read_app).

-include_lib("kernel/include/file.hrl").

-export([read/2, files/1, tree/1, from_files/3, prebuilt/1]).

-export_type([context/0, source/0]).

-type context() ::
        #{kind := input | otp | device,
          asked_by => [whittle_system:app_name()],
          path => file:filename_all()}.         % where it came from; default:
                                                % the directory

%% A file that can be read: path below the application, mode, and how.
-type source() :: {whittle_system:path(), non_neg_integer(),
                   fun(() -> {ok, binary()} | {error, term()})}.

-type read() :: {ok, whittle_system:app(), [unicode:chardata()]}  % and notes
              | {error, whittle_system:error()}.

%% @doc Reads the application in a directory.
-spec read(file:filename(), context()) -> read().
read(Dir, Context) ->
    from_files(Dir, files(Dir), Context).

%% @doc The files of an application's directory that a release holds.
-spec files(file:filename()) -> [source()].
files(Dir) ->
    [{<<Top/binary, $/, Path/binary>>, Mode, Read}
     || Top <- [<<"ebin">>, <<"priv">>, <<"include">>],
        {Path, Mode, Read} <- tree(filename:join(Dir, Top))]
        ++ [File || {Name, _, _} = File <- tree(Dir, <<>>, 1), whittle_system:is_notice(Name)].

%% @doc All files below a directory. Links are followed, as rebar3 links priv.
-spec tree(file:filename()) -> [source()].
tree(Dir) ->
    tree(Dir, <<>>, 32).

%% @doc Makes an application of files; the directory is for error messages.
-spec from_files(file:filename(), [source()], context()) -> read().
from_files(Dir, Files, Context) ->
    try
        {ok, App, Notes} = app(Dir, Files, Context),
        {ok, App, Notes}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc The shared objects in an application's priv, and the modules that load
%% one. A static VM cannot load it, so such a NIF could only fail on the board.
-spec prebuilt(whittle_system:app()) ->
          none | {[whittle_system:path()], Loaders :: [module()]}.
prebuilt(#{modules := Modules, files := Files}) ->
    case [Path || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(Files)),
                  is_native(Bytes), is_library(Path)] of
        [] -> none;
        Paths -> {Paths, loaders(Modules)}
    end.

%% Internal

app(Dir, Files, #{kind := Kind} = Context) ->
    {AppFile, {application, Name, Props} = Spec} = spec(Dir, Files),
    Beams = maps:from_list(
              [{binary_to_atom(filename:basename(Path, <<".beam">>)), {Path, Read}}
               || {<<"ebin/", _/binary>> = Path, _, Read} <- Files,
                  filename:extension(Path) =:= <<".beam">>]),
    Listed = proplists:get_value(modules, Props, []),
    case [Module || Module <- Listed, not is_map_key(Module, Beams)] of
        [] -> ok;
        Absent -> fail({absent_modules, {Name, Absent, AppFile}})
    end,
    Modules = maps:map(fun(Module, {Path, Read}) ->
                               beam(Module, where(Dir, Path), Read, Kind)
                       end, Beams),
    {Kept, Dropped} = data_files(Name, Dir, Files, Kind),
    App = #{name => Name, vsn => vsn(Name, Props, AppFile), spec => Spec,
            modules => Modules, files => Kept,
            origin => #{kind => Kind, path => maps:get(path, Context, Dir),
                        asked_by => maps:get(asked_by, Context, [])}},
    {ok, App, notes(Name, Listed, Modules, Dropped, Kind)}.

spec(Dir, Files) ->
    case [{Path, Read} || {<<"ebin/", _/binary>> = Path, _, Read} <- Files,
                          filename:extension(Path) =:= <<".app">>] of
        [{Path, Read}] ->
            File = where(Dir, Path),
            case whittle_term:parse(bytes(File, Read)) of
                {ok, [{application, Name, Props} = Spec]}
                  when is_atom(Name), is_list(Props) ->
                    check_props(Props, File),
                    {File, Spec};
                {ok, _} -> fail({bad_app_file, {File, "is no application term"}});
                {error, Why} -> fail({bad_app_file, {File, Why}})
            end;
        [] -> fail({no_app_file, Dir});
        Several -> fail({several_app_files, {Dir, [P || {P, _} <- Several]}})
    end.

check_props(Props, File) ->
    lists:all(fun(Prop) -> is_tuple(Prop) andalso tuple_size(Prop) =:= 2 end, Props)
        orelse fail({bad_app_file, {File, "its keys are no pairs"}}),
    _ = [fail({bad_app_file, {File, io_lib:format("`~ts' is no list of atoms", [Key])}})
         || Key <- [modules, applications, included_applications, optional_applications],
            Value <- [proplists:get_value(Key, Props, [])],
            not (is_list(Value) andalso lists:all(fun is_atom/1, Value))],
    ok.

vsn(Name, Props, File) ->
    case proplists:get_value(vsn, Props) of
        [_ | _] = Vsn ->
            %% It becomes part of a path.
            io_lib:char_list(Vsn) andalso not lists:member($/, Vsn) orelse
                fail({no_vsn, {Name, File}}),
            Vsn;
        _ -> fail({no_vsn, {Name, File}})
    end.

%% A module of the input is checked; OTP's own were, when it was built.
beam(_, File, Read, otp) ->
    bytes(File, Read);
beam(Module, File, Read, _) ->
    Bytes = bytes(File, Read),
    case whittle_beam:read(Bytes) of
        {ok, Beam} ->
            whittle_beam:module(Beam) =:= Module orelse
                fail({misnamed_module, {File, whittle_beam:module(Beam)}}),
            plain(Bytes, Beam);
        {error, Error} ->
            fail({bad_beam, {File, Error}})
    end.

%% A file that is gzipped whole would only spoil the pack's compression.
plain(<<"FOR1", _/binary>> = Bytes, _) -> Bytes;
plain(_, Beam) -> whittle_beam:strip(#{keep => all}, Beam).

%% OTP's own libraries and port programs are for the machine it was built on;
%% the runtime links what it needs (whittle_otp:natives/1).
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

%% Whether bytes are a program or a library of some machine.
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
    [io_lib:format("~ts: modules that its .app file does not list: ~ts",
                   [Name, lists:join(", ", [atom_to_list(M) || M <- Unlisted])])
     || Unlisted =/= [], Kind =:= input] ++
    [io_lib:format("~ts: left out, for the build machine only: ~ts",
                   [Name, lists:join(", ", Dropped)])
     || Dropped =/= []].

where(Dir, Path) -> filename:join(Dir, unicode:characters_to_list(Path)).

bytes(File, Read) ->
    case Read() of
        {ok, Bytes} -> Bytes;
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

%% Deeper than this only a link to itself goes.
tree(Dir, Above, Depth) ->
    Names = case Depth > 0 andalso file:list_dir(Dir) of
                {ok, Found} -> lists:sort(Found);
                _ -> []
            end,
    lists:append([node(filename:join(Dir, Name),
                       <<Above/binary, (unicode:characters_to_binary(Name))/binary>>,
                       Depth)
                  || Name <- Names]).

node(File, Path, Depth) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = directory}} -> tree(File, <<Path/binary, $/>>, Depth - 1);
        {ok, #file_info{type = regular, mode = Mode}} ->
            [{Path, Mode band 8#777, fun() -> file:read_file(File) end}];
        _ -> []
    end.

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
