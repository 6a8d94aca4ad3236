%% @hidden Reads an escript: an archive of applications, one compiled module, or source.
%%
%% An escript runs with all of OTP in its code path. So its `.app' files, if it has any, may omit
%% its dependencies. The reader also adds the OTP applications that its modules call by name.
-module(whittle_read_escript).

-export([read/3]).

%% The limit in bytes for an archive and for its inflated contents.
-define(MAX_ARCHIVE, 256 * 1024 * 1024).

%% The limit in bytes for source, as for other texts.
-define(MAX_SOURCE, 4 * 1024 * 1024).

%% @doc Reads the escript in a file.
-spec read(file:filename(), whittle_otp_lib:otp_lib(), whittle_read:how()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
read(File, Otp, #{libs := Libs}) ->
    try
        {ok, found(File, Otp, Libs)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Internal

found(File, Otp, Libs) ->
    Name = filename:rootname(filename:basename(File)),
    {Flags, Type, Body} = sections(File),
    ok = plain("the script's name", Name, File),
    {Main, Apps, Notes} = body(Type, Body, Flags, Name, File, {Otp, Libs}),
    Starter = starter(),
    {Imported, Unknown} = imported(Apps, Otp),
    FlagNotes = case whittle_vm_args:check(Flags) of
                    {ok, Texts} -> [["the escript's flags: ", Text] || Text <- Texts];
                    {error, Why} -> fail({bad_flags, {File, Why}})
                end,
    {VmArgs, Cookie} = whittle_vm_args:without_cookie(Flags),
    #{name => Name, vsn => vsn(Main, Apps), main => Main, starts => none,
      apps => Apps ++ [Starter],
      roots => [App || #{name := App} <- Apps ++ [Starter]],
      imported => Imported,
      files => #{<<"vm.args">> => #{mode => 8#644, bytes => <<VmArgs/binary, $\n>>}},
      notes => Notes ++ FlagNotes ++
          [whittle_vm_args:cookie_note("the escript's flags") || Cookie] ++
          [["the escript calls modules that are neither in it nor in the chosen OTP: ",
            names(Unknown)] || Unknown =/= []]}.

sections(File) ->
    ok = check_shebang(File),
    case whittle_file:whole(File, ?MAX_ARCHIVE) of
        {ok, Text} ->
            [_ | Behind] = binary:split(Text, <<"\n">>),
            {Flags, Body} = flags(iolist_to_binary(Behind)),
            case type(Body) of
                none -> fail({empty_escript, File});
                source when byte_size(Text) > ?MAX_SOURCE -> fail({unreadable, {File, efbig}});
                source -> {Flags, source, Text};
                Type -> {Flags, Type, Body}
            end;
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

%% Finds the flags and the body as `escript' does. It does not use `escript:extract/2', which has no
%% limit. The flags are in the second line, or in the third one behind a comment.
flags(<<"%%!", _/binary>> = Text) -> flags_line(Text);
flags(<<"%", _/binary>> = Text) ->
    case binary:split(Text, <<"\n">>) of
        [_, <<"%%!", _/binary>> = Third] -> flags_line(Third);
        [_, Rest] -> {<<>>, Rest};
        [_] -> {<<>>, <<>>}
    end;
flags(Text) -> {<<>>, Text}.

flags_line(<<"%%!", Text/binary>>) ->
    [Flags | Rest] = binary:split(Text, <<"\n">>),
    {unicode:characters_to_binary(string:trim(whittle_term:text(Flags))), iolist_to_binary(Rest)}.

type(<<>>) -> none;
type(<<"PK", _/binary>>) -> archive;
type(<<"FOR1", _/binary>>) -> beam;
type(_) -> source.

check_shebang(File) ->
    case whittle_file:first(File, 256) of
        {ok, <<"#!", Rest/binary>>} ->
            [Line | _] = binary:split(Rest, <<"\n">>),
            case binary:match(Line, <<"escript">>) of
                nomatch -> fail({other_script, {File, string:trim(whittle_term:text(Line))}});
                _ -> ok
            end;
        {ok, _} -> fail({no_escript, File});
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

body(archive, Archive, Flags, Name, File, _) ->
    case whittle_zip:files(Archive, ?MAX_ARCHIVE) of
        {ok, Files} ->
            {Apps, Notes} = archived(placed(Files, Name, File), Name, File),
            Main = main(Flags, Name, File),
            exports_main(Main, Apps, File),
            {Main, Apps, Notes};
        {error, Error} -> fail({bad_archive, {File, Error}})
    end;
body(beam, Beam, _, Name, File, _) ->
    single(Beam, Name, File);
body(source, Text, _, Name, File, {Otp, Libs}) ->
    case whittle_compile:escript({File, Text}, Name, Otp, Libs) of
        {ok, Beam} -> single(Beam, Name, File);
        {error, Error} -> fail(Error)
    end.

single(Beam, Name, File) ->
    case whittle_beam:read(Beam) of
        {ok, Read} ->
            Module = whittle_beam:module(Read),
            ok = plain("the module's name", atom_to_list(Module), File),
            {App, Notes} = wrapped([{Module, Beam}], Name, File),
            exports_main(Module, [App], File),
            {Module, [App], Notes};
        {error, Error} -> fail({bad_beam, {File, Error}})
    end.

%% Chooses the main module like escript.erl.
main(Flags, Name, File) ->
    case re:run(Flags, "-escript\\s+main\\s+(\\S+)", [unicode, {capture, [1], list}]) of
        {match, [Main]} ->
            ok = plain("the main module's name", Main, File),
            list_to_atom(Main);
        nomatch -> list_to_atom(Name)
    end.

%% Checks a name that becomes an atom and part of a path.
plain(Kind, Name, File) ->
    case whittle_file_name:check(Name) of
        ok -> ok;
        {error, Why} -> fail({odd_name, {File, Kind, Name, Why}})
    end.

exports_main(Main, Apps, File) ->
    Exports = [whittle_beam:exports(Read)
               || #{modules := #{Main := Bytes}} <- Apps,
                  {ok, Read} <- [whittle_beam:read(Bytes)]],
    lists:member({main, 1}, lists:append(Exports)) orelse
        fail({no_main, {File, Main}}).

vsn(Main, Apps) ->
    [Vsn] = [Vsn || #{vsn := Vsn, modules := #{Main := _}} <- Apps],
    Vsn.

%% Internal: the archive

%% Moves files from the top of an archive into the directories of their applications, because
%% `mix escript.build' puts all .app files and modules at the top. Mix also adds a module with
%% `main/1' that no .app file lists. Such a module becomes a part of the application with the name
%% of the escript, if there is one.
placed(Files, Name, File) ->
    Own = unicode:characters_to_binary(Name),
    Top = [{filename:rootname(Path), filename:extension(Path), Bytes}
           || {Path, Bytes} <- Files, binary:match(Path, <<"/">>) =:= nomatch],
    Specs = maps:from_list([{App, spec(filename:join(File, <<App/binary, ".app">>), Bytes)}
                            || {App, <<".app">>, Bytes} <- Top]),
    Listed = maps:from_list([{atom_to_binary(Module), App}
                             || {App, {_, _, Props}} <- maps:to_list(Specs),
                                Module <- proplists:get_value(modules, Props, [])]),
    Added = [Module || {Module, <<".beam">>, _} <- Top, is_map_key(Own, Specs),
                       not is_map_key(Module, Listed)],
    Homes = maps:merge(Listed, maps:from_keys(Added, Own)),
    Place = fun(App, Path) -> <<App/binary, "/ebin/", Path/binary>> end,
    [case {filename:rootname(Path), filename:extension(Path)} of
         {App, <<".app">>} when App =:= Own, Added =/= [] ->
             {Place(App, Path), with_modules(maps:get(App, Specs), Added, File)};
         {App, <<".app">>} when is_map_key(App, Specs) -> {Place(App, Path), Bytes};
         {Module, <<".beam">>} when is_map_key(Module, Homes) ->
             {Place(maps:get(Module, Homes), Path), Bytes};
         _ -> {Path, Bytes}
     end || {Path, Bytes} <- Files].

spec(AppFile, Bytes) ->
    case whittle_read_app:spec(AppFile, Bytes) of
        {ok, Spec} -> Spec;
        {error, Error} -> fail(Error)
    end.

%% Writes the .app file of an application with further modules.
with_modules({application, App, Props}, Added, File) ->
    Modules = proplists:get_value(modules, Props, []) ++ [loose(Name, File) || Name <- Added],
    Spec = {application, App, lists:keystore(modules, 1, Props, {modules, Modules})},
    whittle_term:to_text(Spec).

%% Reads an archive. Entries lie below one directory per application. Modules outside of an
%% application with an .app file form one application with the name of the escript.
archived(Files, Name, File) ->
    Tops = lists:usort([hd(binary:split(Path, <<"/">>))
                        || {Path, _} <- Files, filename:extension(Path) =:= <<".app">>]),
    IsTop = maps:from_keys(Tops, []),
    Below = maps:groups_from_list(fun({[Top, _], _}) -> Top end,
                                  fun({[_, Path], Bytes}) -> {Path, Bytes} end,
                                  [{Parts, Bytes}
                                   || {Path, Bytes} <- Files,
                                      [_, _] = Parts <- [binary:split(Path, <<"/">>)]]),
    Read = [archived_app(Top, maps:get(Top, Below, []), File) || Top <- Tops],
    Loose = [{loose(filename:basename(Path, <<".beam">>), File), Bytes}
             || {Path, Bytes} <- Files, filename:extension(Path) =:= <<".beam">>,
                is_searched(filename:split(Path)),
                not is_map_key(hd(binary:split(Path, <<"/">>)), IsTop)],
    More = [wrapped(Loose, Name, File) || Loose =/= []],
    {Apps, Notes} = lists:unzip(Read ++ More),
    {Apps, lists:append(Notes)}.

%% The code path of an escript has the archive, and the directory ebin of each directory in it.
is_searched([_]) -> true;
is_searched([_, <<"ebin">>, _]) -> true;
is_searched(_) -> false.

loose(Name, File) ->
    ok = plain("the module's name", Name, File),
    binary_to_atom(Name).

archived_app(Top, Files, File) ->
    Below = [{Path, mode(Bytes), fun() -> {ok, Bytes} end} || {Path, Bytes} <- Files],
    from_files(filename:join(File, Top), Below, File).

%% Chooses the mode of a file. Archives of escripts have the modes of the build machine, or none.
mode(<<"#!", _/binary>>) -> 8#755;
mode(_) -> 8#644.

wrapped(Modules, Name, File) ->
    App = list_to_atom(Name),
    Spec = {application, App, [{description, "An escript"}, {vsn, "0"},
                               {modules, [Module || {Module, _} <- Modules]},
                               {registered, []}, {applications, [kernel, stdlib]}]},
    Text = whittle_term:to_text(Spec),
    Files = [{<<"ebin/", (atom_to_binary(App))/binary, ".app">>, 8#644,
              fun() -> {ok, Text} end}
             | [{<<"ebin/", (atom_to_binary(Module))/binary, ".beam">>, 8#644,
                 fun() -> {ok, Bytes} end} || {Module, Bytes} <- Modules]],
    from_files(File, Files, File).

from_files(Dir, Files, File) ->
    Context = #{kind => input, path => File},
    case whittle_read_app:from_files(Dir, Files, Context) of
        {ok, App, Notes} -> {App, Notes};
        {error, Error} -> fail(Error)
    end.

%% Internal: what it needs

starter() ->
    case whittle_device:read(whittle_start) of
        {ok, App} -> App;
        {error, Error} -> fail(Error)
    end.

imported(Apps, Otp) ->
    Own = lists:append([maps:keys(Modules) || #{modules := Modules} <- Apps]),
    Called = lists:usort([Module || #{modules := Modules} <- Apps,
                                    Bytes <- maps:values(Modules),
                                    {ok, Read} <- [whittle_beam:read(Bytes)],
                                    {Module, _, _} <- whittle_beam:imports(Read)]),
    Homes = [{Module, whittle_otp_lib:module_home(Module, Otp)} || Module <- Called -- Own],
    {lists:usort([App || {_, {application, App}} <- Homes]),
     [Module || {Module, unknown} <- Homes]}.

names(Modules) ->
    lists:join(", ", [atom_to_list(Module) || Module <- Modules]).

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
