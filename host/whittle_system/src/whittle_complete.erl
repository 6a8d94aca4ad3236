%% @hidden Completes the result of a reader into a whole system.
-module(whittle_complete).

-export([complete/3, check/2]).

%% @doc Adds missing applications from the chosen OTP, checks that the parts fit together, and
%% makes the boot script.
-spec complete(whittle_read:found(), whittle_otp_lib:otp_lib(),
               whittle_read:options()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
complete(Found, Otp, Options) ->
    try
        {ok, system(Found, Otp, Options)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Checks that all applications exist, as far as this is possible without an OTP. Call it
%% before the long work.
-spec check(#{apps := [whittle_system:app()], roots := [whittle_system:app_name()],
              atom() => term()}, whittle_read:needs()) ->
          ok | {error, whittle_system:error()}.
check(#{apps := Given, roots := Roots} = Found, #{otp := Otp} = Options) ->
    Dirs = maps:get(libs, Options, []),
    Libs = whittle_device:offered(Dirs),
    Asked = maps:get(add, Options, []) ++ [Name || Name <- Roots, not is_map_key(main, Found)],
    try
        ok = check_names_of_otp(Found),
        case whittle_lacking:missing(Asked, by_name(Given), Libs,
                                     fun whittle_read_app:described/1) of
            [] -> ok;
            Missing -> refuse_missing(Missing, Dirs, Otp)
        end
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

system(#{name := Name, vsn := Vsn, apps := Given, roots := Roots0} = Found,
       Otp, Options) ->
    %% A reader gives a better error for a name from a file.
    _ = [fail({odd_name, {"the input", Kind, Text, Why}})
         || {Kind, Text} <- [{"the name", Name}, {"the version", Vsn}],
            {error, Why} <- [whittle_file_name:check(Text)]],
    {Kept, Replaced} = without_other_otp(Given, Found, Otp),
    ok = check_names(Kept),
    ok = check_names_of_otp(Found),
    Own = lists:usort([kernel, stdlib] ++ Roots0),
    Added = maps:get(add, Options, []),
    Roots = lists:usort(Own ++ Added),
    Dirs = maps:get(libs, Options, []),
    Libs = whittle_device:offered(Dirs),
    {Apps0, Notes0} = add_needed(Roots, Added, Replaced, Found, by_name(Kept),
                                 {Otp, Libs, Dirs, maps:get(outside_links, Options, note)}),
    %% The check treats an application that the code calls like one that an .app file names.
    Needed = lists:usort(Roots ++ [App || App <- maps:get(imported, Found, []),
                                          is_map_key(App, Apps0)]),
    Used0 = maps:with(whittle_needs:reachable(Needed, Apps0), Apps0),
    {Used1, Fitted} = fit(Used0, Otp),
    Used = native(maps:get(natives, Options, []), Used1),
    Apps = maps:merge(Apps0, Used),
    Notes = Notes0 ++ Fitted,
    ok = check_modules(Used),
    ok = check_started(Found, Used),
    ok = lists:foreach(fun refuse_prebuilt/1, maps:values(Used)),
    Links = links(Found, Used) ++ described(maps:get(natives, Options, [])),
    Links =:= [] orelse maps:get(outside_links, Options, note) =:= note
        orelse fail({outside_links, Links}),
    ok = lists:foreach(fun(App) -> refuse_without_program(Found, Added, App) end,
                       maps:values(Used)),
    System0 = whittle_system:new(#{name => Name, vsn => Vsn,
                                   otp => whittle_otp_lib:otp(Otp)}),
    System1 = lists:foldl(fun whittle_system:put_app/2, System0, maps:values(Apps)),
    System2 = whittle_system:set_roots(Needed, System1),
    System3 = maps:fold(fun whittle_system:put_file/3, System2,
                        maps:get(files, Found, #{})),
    System4 = maps:fold(fun whittle_system:put_env/3, System3,
                        maps:get(env, Found, #{})),
    System5 = case Found of
                  #{main := Main} -> whittle_system:set_main(Main, System4);
                  _ -> System4
              end,
    System6 = boot(Found, Own, Used, Otp, System5),
    %% If the chosen OTP's application replaces one of the input, its note occurs twice.
    Texts = [unicode:characters_to_binary(Note)
             || Note <- maps:get(notes, Found, []) ++ Notes ++ told(Links)
                                   ++ ok(whittle_missing_applications:notes(Used, Apps0, Otp, Libs))
                                   ++ idle(Found, Used)],
    System7 = lists:foldl(fun whittle_system:note/2, System6, lists:uniq(Texts)),
    whittle_system:enter(read, "the input, and the applications that it needs",
                         whittle_system:sizes(System7), System7).

%% Internal: applications

%% Removes OTP applications of another release. An application of OTP fits only the ERTS of its
%% own release. If the release was made for another ERTS, the application must come from the
%% chosen OTP.
without_other_otp(Given, Found, Otp) ->
    Erts = whittle_otp_lib:erts(Otp),
    Same = maps:get(erts, Found, Erts) =:= Erts,
    lists:partition(fun(#{name := Name}) ->
                            Same orelse not whittle_otp:is_otp(Name)
                                orelse whittle_otp_lib:app_dir(Name, Otp) =:= error
                    end, Given).

add_needed(Roots, Added, Replaced, Found, Given, {Otp, Libs, Dirs, Links}) ->
    Imported = [Name || Name <- maps:get(imported, Found, []),
                        not is_map_key(Name, Given),
                        whittle_otp_lib:app_dir(Name, Otp) =/= error],
    Asked = [{Name, []} || Name <- Roots ++ Imported]
        ++ [{Name, []} || #{name := Name} <- Replaced],
    Lacking = case Found of
                  #{main := _} -> note;
                  #{} -> error
              end,
    {Apps, Notes, Missing} = add(Asked, Given, #{}, {[], #{}}, {Otp, Libs, Lacking, Links}),
    Missing =:= #{} orelse
        refuse_missing([{Name, asker(Name, lists:usort(By), Added)}
                        || {Name, By} <- lists:sort(maps:to_list(Missing))],
                       Dirs, whittle_otp_lib:otp(Otp)),
    {Apps, [replaced(App, Apps) || App <- Replaced] ++ lists:reverse(Notes)
     ++ optional(Apps)}.

%% Takes each needed application from the input, or else from the chosen OTP or the other library
%% directories.
add([{Name, By} | Rest], Given, Apps, Told, From) when is_map_key(Name, Apps) ->
    add(Rest, Given, Apps#{Name := asked_by(By, maps:get(Name, Apps))}, Told, From);
add([{Name, By} | Rest], Given, Apps, {Notes, Missing}, From) ->
    Found = case Given of
                #{Name := Input} -> {ok, asked_by(By, Input), []};
                #{} -> from_libraries(Name, By, From)
            end,
    case Found of
        {ok, App, New} ->
            #{needed := Needed, optional := Optional} = whittle_needs:direct(App),
            Needs = [{Need, [Name]} || Need <- Needed]
                ++ [{Option, [Name]} || Option <- Optional, is_map_key(Option, Given)],
            add(Needs ++ Rest, Given, Apps#{Name => App}, {lists:reverse(New) ++ Notes, Missing},
                From);
        {lacking, Note} ->
            add(Rest, Given, Apps, {[Note | Notes], Missing}, From);
        missing ->
            Before = maps:get(Name, Missing, []),
            add(Rest, Given, Apps, {Notes, Missing#{Name => By ++ Before}}, From)
    end;
add([], Given, Apps, {Notes, Missing}, _) ->
    %% Applications of the input that are not needed stay here. A pass removes them later, so that
    %% the ledger shows it.
    {maps:merge(Given, Apps), Notes, Missing}.

asked_by(By, #{origin := #{asked_by := Before} = Origin} = App) ->
    App#{origin := Origin#{asked_by := lists:usort(By ++ Before)}}.

from_libraries(Name, By, {Otp, Libs, Lacking, Links}) ->
    Home = case {whittle_otp_lib:app_dir(Name, Otp), Libs} of
               {{ok, InOtp}, _} -> {otp, InOtp};
               {error, #{Name := InLibs}} -> {input, InLibs};
               {error, _} -> none
           end,
    case {Home, whittle_otp:unsupported(Name)} of
        {{Kind, Dir}, false} ->
            {App, Notes} = ok(whittle_read_app:read(Dir, context(Kind, Dir, By, Links))),
            {ok, App, Notes};
        %% An escript runs until it calls something that is missing.
        {_, Why} when Lacking =:= note, (Why =/= false orelse By =/= []) ->
            {lacking, io_lib:format("~ts, which ~ts needs, is missing: calls to it will fail",
                                    [Name, lists:join(", ", [atom_to_list(A) || A <- By])])};
        _ ->
            missing
    end.

%% Finds the source of an application that no `.app' file names: the user, or the release.
asker(Name, [], Added) ->
    case lists:member(Name, Added) of
        true -> [];
        false -> release
    end;
asker(_, By, _) -> By.

%% Links inside OTP are the responsibility of its packager.
context(otp, _, By, _) -> #{kind => otp, asked_by => By};
context(Kind, Dir, By, Links) ->
    #{kind => Kind, asked_by => By, root => whittle_links:root(Dir, filename:dirname(Dir)),
      outside_links => Links}.

replaced(#{name := Name, vsn := Vsn}, Apps) ->
    #{Name := #{vsn := New}} = Apps,
    io_lib:format("~ts ~ts of the chosen OTP replaces version ~ts of the input", [Name, New, Vsn]).

optional(Apps) ->
    [[io_lib:format("~ts can use ~ts, which is missing", [Name, Option]),
      [io_lib:format("; `--app ~ts' adds it", [Option])
       || whittle_otp:unsupported(Option) =:= false]]
     || {Name, #{origin := #{kind := input}} = App} <- lists:sort(maps:to_list(Apps)),
        Option <- maps:get(optional, whittle_needs:direct(App)),
        not is_map_key(Option, Apps)].

%% Writes a note about an input of libraries alone. Such a program waits forever.
idle(#{starts := all, roots := Roots}, Apps) ->
    Starting = [Name || Name <- Roots, #{Name := App} <- [Apps],
                        whittle_system:started(App) =/= []],
    [["the input starts no process: none of its applications has a `mod' (",
      lists:join(", ", [atom_to_list(Name) || Name <- Roots]), ")"] || Starting =:= []];
idle(_, _) ->
    [].

modules(Apps) ->
    maps:from_keys(lists:append([maps:keys(Here) || #{modules := Here} <- maps:values(Apps)]), []).

%% Lists each link with its place and its target.
links(Found, Apps) ->
    [{"the release", Path, To} || {Path, To} <- maps:get(links, Found, [])]
        ++ [{["application ", atom_to_list(Name)], Path, To}
            || {Name, #{origin := #{links := Links}}} <- lists:sort(maps:to_list(Apps)),
               {Path, To} <- Links].

%% Lists links out of the directories of the descriptions that the command line names.
described(Natives) ->
    lists:usort([{["the description ", File], Path, To}
                 || {File, #{paths := Paths}} <- Natives, Dir <- [filename:dirname(File)],
                    {Path, To} <- whittle_links:outside(Dir, Dir, Paths)]).

told(Links) ->
    [[Whose, ": ", linked(Path), " points outside the input, to ", To,
      ": the output contains a copy of the target"] || {Whose, Path, To} <- Links].

linked(<<>>) -> "its directory is a link and";
linked(Path) -> ["the link ", Path].

fit(Apps, Otp) ->
    case whittle_recompile:fit(Apps, Otp) of
        {ok, Fitting, Notes} -> {Fitting, Notes};
        {error, Error} -> fail(Error)
    end.

%% Assigns the descriptions of the command line, in addition to those of the applications.
native(Natives, Apps) ->
    case whittle_native:assign(Natives, Apps) of
        {ok, Assigned} ->
            maps:map(fun(_, App) -> whittle_native:without_libraries(App) end, Assigned);
        {error, Error} ->
            fail(Error)
    end.

by_name(Apps) -> maps:from_list([{Name, App} || #{name := Name} = App <- Apps]).

%% Internal: refusals. Each throws the error of an input that no build accepts.

%% Refuses two applications of one name.
check_names(Apps) ->
    Names = [Name || #{name := Name} <- Apps],
    case Names -- lists:usort(Names) of
        [] -> ok;
        [Twice | _] ->
            Paths = [Path || #{name := Name, origin := #{path := Path}} <- Apps,
                             Name =:= Twice],
            fail({application_twice, {Twice, Paths}})
    end.

%% Refuses an application of the input with the name of a part of every system: the output could not
%% boot. A release has OTP's own. An escript may contain them too, and the VM loads them before it.
check_names_of_otp(#{main := _}) -> ok;
check_names_of_otp(#{apps := Apps}) ->
    case [{Name, Path} || #{name := Name, origin := #{kind := input, path := Path}} <- Apps,
                          lists:member(Name, whittle_otp:parts())] of
        [] -> ok;
        [First | _] -> fail({name_of_otp, First})
    end.

%% Refuses a system without some of its applications. A library directory may have one as an
%% archive, which `erl' would read.
-spec refuse_missing([{whittle_system:app_name(), Askers :: term()}], [file:filename()],
                     Otp :: string()) -> no_return().
refuse_missing(Missing, Dirs, Otp) ->
    case [{Name, File} || {Name, _} <- Missing, Dir <- Dirs,
                          File <- whittle_read_app:archives(Name, Dir)] of
        [First | _] -> fail({archived_application, First});
        [] -> fail({missing_applications, {Missing, Otp}})
    end.

%% Refuses two modules of one name. It would be undefined which one the VM loads.
check_modules(Apps) ->
    Homes = lists:sort([{Module, Name}
                        || {Name, #{modules := Modules}} <- maps:to_list(Apps),
                           Module <- maps:keys(Modules)]),
    case [{Module, One, Other} || {{Module, One}, {Module, Other}}
                                      <- pairs(Homes)] of
        [] -> ok;
        [Clash | _] -> fail({module_twice, Clash})
    end.

%% Refuses an application without the module that starts it. An application starts with a call of
%% its `mod'. An escript starts applications itself, so the check skips it.
check_started(#{main := _}, _) ->
    ok;
check_started(_, Apps) ->
    Modules = modules(Apps),
    case [{Name, Module} || {Name, App} <- lists:sort(maps:to_list(Apps)),
                            Module <- whittle_system:started(App),
                            not is_map_key(Module, Modules)] of
        [] -> ok;
        [Absent | _] -> fail({absent_start_module, Absent})
    end.

%% Refuses a shared object, because the static VM cannot load one.
refuse_prebuilt(#{name := Name} = App) ->
    case whittle_read_app:prebuilt(App) of
        none -> ok;
        {[Path | _], Loaders} -> fail({prebuilt_nif, {Path, Name, Loaders}})
    end.

%% Refuses an application of OTP that cannot work without its program. An application from the
%% input has not been checked before. An escript runs until it calls something that is missing.
refuse_without_program(#{main := _}, _, _) ->
    ok;
refuse_without_program(_, Added, #{name := Name, origin := #{asked_by := AskedBy}} = App) ->
    By = asker(Name, AskedBy, Added),
    case {whittle_otp:unsupported(Name), App} of
        {false, #{absent_programs := Paths}} -> fail({absent_programs, {Name, By, Paths}});
        {false, _} -> ok;
        {Why, _} -> fail({unsupported_application, {Name, By, Why}})
    end.

pairs([One, Two | Rest]) -> [{One, Two} | pairs([Two | Rest])];
pairs(_) -> [].

%% Internal: the boot script

boot(#{starts := Starts} = Found, Roots, Apps, Otp, System) ->
    Wanted = case Starts of
                 all -> Roots;
                 none -> [kernel, stdlib];
                 _ -> [Name || {Name, _} <- Starts]
             end,
    Types = [{Name, type(Name, Starts, Apps)}
             || Name <- order(Wanted, Apps)],
    Steps = case Found of
                #{boot := Own} -> with_added(whittle_boot:own_steps(Own), Types);
                #{main := Main} ->
                    whittle_boot:steps(Types)
                        ++ [{apply, {whittle_start, escript, [Main]}}];
                #{} -> whittle_boot:steps(Types)
            end,
    whittle_boot:generate(#{template => whittle_otp_lib:template(Otp),
                            order => order(lists:sort(maps:keys(Apps)), Apps),
                            steps => Steps}, System).

%% Adds steps for the applications that the chosen OTP needs and the release did not hold. They
%% start with OTP's applications, before the applications of the release.
with_added(Steps, Types) ->
    Known = [Name || {load, Name} <- Steps] ++ [Name || {start, Name, _} <- Steps],
    New = [{Name, Type} || {Name, Type} <- Types, not lists:member(Name, [kernel | Known])],
    {Loads, Starts} = lists:splitwith(fun(Step) -> element(1, Step) =:= load end, Steps),
    {First, Rest} = lists:splitwith(fun({start, Name, _}) ->
                                            lists:member(Name, [kernel, stdlib]);
                                       ({Kind, _}) -> Kind =:= progress
                                    end, Starts),
    Loads ++ [{load, Name} || {Name, Type} <- New, Type =/= none] ++ First
        ++ [{start, Name, Type} || {Name, Type} <- New, Type =/= none, Type =/= load]
        ++ Rest.

%% kernel and stdlib come first, because all others depend on them.
order(Names, Apps) ->
    case whittle_needs:start_order([kernel, stdlib] ++ Names, Apps) of
        {ok, Order} -> Order;
        {error, Error} -> fail(Error)
    end.

%% Returns the start type. An included application is loaded. The application that includes it
%% starts it.
type(Name, Starts, Apps) ->
    Included = [Name || #{spec := {application, _, Props}} <- maps:values(Apps),
                        lists:member(Name, proplists:get_value(
                                             included_applications, Props, []))],
    case Included of
        [] when is_list(Starts) -> proplists:get_value(Name, Starts, permanent);
        [] -> permanent;
        _ -> load
    end.

ok({ok, App, Notes}) -> {App, Notes};
ok({ok, Notes}) -> Notes;
ok({error, Error}) -> fail(Error).

-spec fail(whittle_system:error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
