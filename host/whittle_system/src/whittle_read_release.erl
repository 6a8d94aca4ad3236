%% @hidden Reads a release directory. relx and `mix release' use this layout: `lib/APP-VSN',
%% `releases/start_erl.data', `releases/VSN/*'.
%%
%% The `.rel' file lists the contents. The release's own `start.boot', if there is one, determines
%% the order of starts and the calls in between. `mix release' puts the call there that reads
%% `runtime.exs'.
-module(whittle_read_release).

-export([read/3]).

%% @doc Reads the release in a directory. Without an OTP, the function assumes that the release
%% contains each application of OTP. With `refuse' it enters no directory behind a link out of the
%% release.
-spec read(file:filename(), whittle_otp_lib:otp_lib() | none, whittle_read:how()) ->
          {ok, whittle_read:found()} | {error, whittle_system:error()}.
read(Dir, Otp, #{outside_links := Links}) ->
    try
        {ok, found(Dir, Otp, #{kind => input, root => whittle_links:root(Dir, Dir),
                               outside_links => Links})}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Internal

found(Dir, Otp, #{root := Root} = Context) ->
    Vsn = current(Dir),
    Place = filename:join([Dir, "releases", Vsn]),
    {{Name, RelVsn}, Erts, Listed} = rel(Place),
    {Apps0, Notes0} = apps(Dir, Context, Listed, Otp),
    {Apps, Notes1} = consolidated(Place, Apps0),
    {Files, Env, Notes2} = release_files(Dir, Place, {Name, RelVsn}, Context),
    ok = for_this_otp(Files, Place, Otp),
    Links = whittle_links:outside(Root, Dir, read_here(Place, Vsn, Apps, maps:keys(Files))),
    Found = #{name => Name, vsn => RelVsn, apps => Apps, erts => Erts, links => Links,
              roots => [App || {App, _, _} <- Listed],
              starts => [{App, Type} || {App, _, Type} <- Listed],
              files => Files, env => Env,
              notes => erts_note(Erts, Otp) ++ Notes0 ++ Notes1 ++ Notes2},
    case own_boot(Place) of
        {ok, Boot} -> Found#{boot => Boot};
        none -> Found
    end.

release_files(Dir, Place, {Name, Vsn}, Context) ->
    case whittle_release_files:read(Dir, Place, Name, Vsn, Context) of
        {ok, Read} -> Read;
        {error, {unreadable, _} = Error} ->
            fail(whittle_links:blame(Error, {"the release", Dir, []}, Context));
        {error, Error} -> fail(Error)
    end.

%% OTP 27 has new strings and new keywords, and the parser of the OTP that runs here knows only one
%% side.
for_this_otp(_, _, none) -> ok;
for_this_otp(Files, Place, Otp) ->
    Release = whittle_otp_lib:otp(Otp),
    IsNew = list_to_integer(Release) >= 27,
    _ = [fail({bad_config, {filename:join(Place, Path), Why}})
         || {Path, #{bytes := Bytes}} <- maps:to_list(maps:with([<<"sys.config">>,
                                                                 <<"sys.config.src">>], Files)),
            Text <- [whittle_template:with_defaults(Bytes, <<"0">>)],
            Why <- [["it has a sigil or a triple-quoted string, which OTP ", Release,
                     " cannot read"]
                    || not IsNew, whittle_term:has_new_strings(Text)]
                ++ [["it has ", Word, " without quotes, which is a keyword of OTP ", Release]
                    || IsNew, Word <- whittle_term:new_keywords(Text)]],
    ok.

%% Lists all paths that this module reads, except the files of the applications.
read_here(Place, Vsn, Apps, Files) ->
    Others = [Path || Pattern <- ["{*.rel,start.boot,env.sh,vm.args.src}", "consolidated/*.beam"],
                      Path <- filelib:wildcard(Pattern, Place)],
    [<<"releases/start_erl.data">> | [<<"lib">> || Apps =/= []]]
        ++ [unicode:characters_to_binary(["releases/", Vsn, $/, Path]) || Path <- Files ++ Others].

%% Reads the current version. `releases' may contain older versions.
current(Dir) ->
    File = filename:join(Dir, "releases/start_erl.data"),
    case whittle_file:text(File) of
        {ok, Data} ->
            Text = unicode:characters_to_list(Data),
            case is_list(Text) andalso string:lexemes(Text, " \r\n") of
                [_Erts, Vsn | _] ->
                    plain_names([{"the version", Vsn}], File),
                    Vsn;
                _ -> fail({bad_start_data, Dir})
            end;
        {error, Reason} when Reason =/= enoent ->
            fail({unreadable, {File, Reason}});
        {error, enoent} ->
            case whittle_file:found("releases/*/*.rel", Dir) of
                [Rel] -> filename:basename(filename:dirname(Rel));
                _ -> fail({bad_start_data, Dir})
            end
    end.

%% Checks names that become parts of paths, here and in the output.
plain_names(Names, File) ->
    lists:foreach(fun({Kind, Text}) ->
                          case whittle_file_name:check(Text) of
                              ok -> ok;
                              {error, Why} ->
                                  fail({bad_rel_file,
                                        {File, io_lib:format("~ts `~ts' ~ts",
                                                             [Kind, Text, Why])}})
                          end
                  end, Names).

rel(Place) ->
    case whittle_file:found("*.rel", Place) of
        [File] ->
            case whittle_term:parse(bytes(File)) of
                {ok, [{release, {Name, Vsn}, {erts, Erts}, Apps}]} when length(Apps) >= 0 ->
                    lists:all(fun io_lib:char_list/1, [Name, Vsn, Erts]) orelse
                        fail({bad_rel_file, {File, "it has a name or a version that is not a "
                                                   "string"}}),
                    plain_names([{"the release's name", Name}, {"the release's version", Vsn},
                                 {"the version of ERTS", Erts}], File),
                    Listed = [rel_app(App, File) || App <- Apps],
                    ok = listed_once([App || {App, _, _} <- Listed], File),
                    {{Name, Vsn}, Erts, Listed};
                {ok, _} -> fail({bad_rel_file, {File, "it is not a release term"}});
                {error, Why} -> fail({bad_rel_file, {File, Why}})
            end;
        [] -> fail({bad_rel_file, {Place, "it holds no .rel file"}});
        Several ->
            Names = [filename:basename(File) || File <- Several],
            fail({bad_rel_file,
                  {Place, ["it holds several .rel files: ", lists:join(", ", Names)]}})
    end.

listed_once(Names, File) ->
    case Names -- lists:usort(Names) of
        [] -> ok;
        [Twice | _] ->
            fail({bad_rel_file,
                  {File, ["it lists the application ", atom_to_list(Twice), " twice"]}})
    end.

rel_app(App, File) ->
    {Name, Vsn, Type} =
        case App of
            {N, V} -> {N, V, permanent};
            {N, V, Included} when is_list(Included) -> {N, V, permanent};
            {N, V, T} -> {N, V, T};
            {N, V, T, _Included} -> {N, V, T};
            _ -> {none, none, none}
        end,
    is_atom(Name) andalso io_lib:char_list(Vsn) orelse
        fail({bad_rel_file, {File, "it lists a term that is not an application"}}),
    lists:member(Type, [permanent, transient, temporary, load, none]) orelse
        fail({bad_rel_file, {File, io_lib:format("it gives the application ~ts the start type "
                                                 "~0tp; the types are permanent, transient, "
                                                 "temporary, load and none", [Name, Type])}}),
    plain_names([{"the application's name", Name}, {"the application's version", Vsn}], File),
    {Name, Vsn, Type}.

%% Reads the listed applications. A listed application that is absent must belong to OTP, because
%% releases without system libraries are common. The reader skips applications that are not
%% listed.
apps(Dir, Context, Listed, Otp) ->
    Read = lists:append([app(Dir, Context, App) || App <- Listed]),
    There = [Name || {#{name := Name}, _} <- Read],
    Absent = [{Name, Vsn} || {Name, Vsn, _} <- Listed, not lists:member(Name, There),
                             not is_in(Name, Otp)],
    Absent =:= [] orelse refuse_absent(Absent, Dir),
    Names = [atom_to_list(Name) ++ "-" ++ Vsn || {Name, Vsn, _} <- Listed],
    Others = [Base || Lib <- whittle_file:found("lib/*/ebin", Dir),
                      Base <- [filename:basename(filename:dirname(Lib))],
                      not lists:member(Base, Names)],
    {[App || {App, _} <- Read],
     lists:append([Notes || {_, Notes} <- Read]) ++
         [["Whittle left out ", lists:join(", ", Others), ", because the .rel file does not list ",
           them(Others)]
          || Others =/= []]}.

-spec refuse_absent([{whittle_system:app_name(), string()}], file:filename()) -> no_return().
refuse_absent(Absent, Dir) ->
    case [{Name, File} || {Name, _} <- Absent,
                          File <- whittle_read_app:archives(Name, filename:join(Dir, "lib"))] of
        [First | _] -> fail({archived_application, First});
        [] -> fail({absent_applications, {Absent, Dir}})
    end.

is_in(Name, none) -> whittle_otp:is_otp(Name);
is_in(Name, Otp) -> whittle_otp_lib:app_dir(Name, Otp) =/= error.

app(Dir, Given, {Name, Vsn, _}) ->
    Place = filename:join([Dir, "lib", atom_to_list(Name) ++ "-" ++ Vsn]),
    Kind = case whittle_otp:is_otp(Name) of
               true -> otp;
               false -> input
           end,
    Context = case {Kind, file:read_link_all(Place)} of
                  {otp, {ok, _}} -> #{kind => otp};   % the installed OTP: its packager's links
                  _ -> Given#{kind := Kind}
              end,
    case filelib:is_dir(Place) andalso whittle_read_app:read(Place, Context) of
        {ok, App, Notes} -> [{App, Notes}];
        {error, Error} -> fail(Error);
        false -> []
    end.

%% Replaces protocols by Elixir's consolidated ones. In the code path of a release they come
%% before the applications. Here they replace their original modules.
consolidated(Place, Apps) ->
    Files = whittle_file:found("consolidated/*.beam", Place),
    Made = maps:from_list([{Module, ok(whittle_read_app:beam(Module, File, bytes(File)))}
                           || File <- Files,
                              Module <- [list_to_atom(filename:basename(File, ".beam"))]]),
    {[App#{modules := maps:merge(Modules, maps:with(maps:keys(Modules), Made))}
      || #{modules := Modules} = App <- Apps],
     [io_lib:format("~w consolidated protocols replace their original modules",
                    [map_size(Made)]) || Files =/= []]}.

own_boot(Place) ->
    File = filename:join(Place, "start.boot"),
    case whittle_boot:read(File) of
        {ok, {script, _, Steps} = Script} ->
            lists:member({progress, init_kernel_started}, Steps) orelse
                fail({bad_own_boot, File}),
            {ok, Script};
        {error, enoent} -> none;
        {error, not_a_script} -> fail({bad_own_boot, File});
        {error, efbig} -> fail({large_boot, File});
        {error, {too_many_atoms, Limit}} -> fail({boot_names, {File, Limit}});
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

them([_]) -> "it";
them(_) -> "them".

erts_note(_, none) -> [];
erts_note(Erts, Otp) ->
    Chosen = whittle_otp_lib:erts(Otp),
    [io_lib:format("the release was made for ERTS ~ts; the output has ERTS ~ts and the "
                   "applications of OTP ~ts",
                   [Erts, Chosen, whittle_otp_lib:otp(Otp)]) || Erts =/= Chosen].

bytes(File) ->
    case whittle_input_file:read(File) of
        {ok, Bytes} -> Bytes;
        {error, Reason} -> fail({unreadable, {File, Reason}})
    end.

ok({ok, Value}) -> Value;
ok({error, Error}) -> fail(Error).

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
