%% @hidden Finds the applications that a system calls and lacks, and says how to add them.
%%
%% Two kinds of callers count. A call in a module of the input counts in any case, also one like
%% `spawn_link(ssh, start, [])' with the names in the code, and so does
%% `application:ensure_all_started(ssh)' (whittle_beam_calls). A module of OTP
%% counts if the input reaches it: the input names it, or names a module that calls it, in any
%% number of steps. OTP's own applications call some others that their `.app' files name only in
%% `runtime_dependencies'. For example, `httpc' calls `public_key' in its first request.
-module(whittle_missing_applications).

-export([notes/4]).

-type apps() :: #{whittle_system:app_name() => whittle_system:app()}.

%% The application of a call, and the caller's application, the caller's module and the callee. The
%% function of `start' starts or loads the application.
-type call() :: {whittle_system:app_name(),
                 {whittle_system:app_name(), module(),
                  whittle_beam_calls:call()
                  | {start, {module(), atom()}, whittle_system:app_name()}}}.

%% @doc Writes one line for each called application that is not packed. `Used' holds the packed
%% applications. `Apps' also holds the rest of the input. The error `bad_beam' names a module of the
%% input with a literal that cannot be decoded.
-spec notes(apps(), apps(), whittle_otp_lib:otp_lib(),
            #{whittle_system:app_name() => file:filename()}) ->
          {ok, [unicode:chardata()]} | {error, whittle_system:error()}.
notes(Used, Apps, Otp, Libs) ->
    Here = modules(Used),
    InInput = modules(Apps),
    InLibs = whittle_otp_lib:homes(Libs),
    Home = fun(Module) ->
                   case {InInput, whittle_otp_lib:module_home(Module, Otp),
                         whittle_otp_lib:home(Module, InLibs)} of
                       {#{Module := Name}, _, _} -> {ok, Name};
                       {_, {application, Name}, _} -> {ok, Name};
                       {_, unknown, {ok, Name}} -> {ok, Name};
                       {_, unknown, error} -> whittle_otp:left_out_home(Module);
                       _ -> none
                   end
           end,
    {Otps, Inputs} = lists:partition(fun(#{name := Name}) -> whittle_otp:is_otp(Name) end,
                                     maps:values(Used)),
    Read = [{Name, Module, Beam} || #{name := Name, modules := Modules,
                                      origin := #{kind := input}} <- Inputs,
                                    {Module, Bytes} <- lists:sort(maps:to_list(Modules)),
                                    {ok, Beam} <- [whittle_beam:read(Bytes)]],
    Absent = fun(Module) -> not is_map_key(Module, Here) end,
    Held = fun(Name) ->
                   is_map_key(Name, Apps) orelse is_map_key(Name, Libs)
                       orelse whittle_otp_lib:app_dir(Name, Otp) =/= error
           end,
    Lacks = fun(Name) ->
                    not is_map_key(Name, Used)
                        andalso (Held(Name) orelse whittle_otp:is_left_out(Name))
            end,
    %% whittle_complete writes a note about each of these.
    Optional = lists:append([maps:get(optional, whittle_needs:direct(App))
                             || #{origin := #{kind := input}} = App <- Inputs]),
    case led_to(Read, Otps) of
        {ok, Led} ->
            ByInput = calls(Read, Absent, Home)
                ++ named_calls(Read, Absent, Home, Lacks),
            ByOtp = [Call || {App, {By, _, _}} = Call <- calls(Led, Absent, Home),
                             not whittle_otp:does_without(By, App),
                             not lists:keymember(App, 1, ByInput)],
            {ok, [by_input(Group, Held) || {App, _} = Group <- grouped(ByInput),
                                           not is_map_key(App, Used),
                                           not lists:member(App, Optional)]
             ++ by_otp(grouped(ByOtp), Held, Otp)};
        {error, _} = Error -> Error
    end.

%% Internal

modules(Apps) ->
    maps:from_list([{Module, Name} || {Name, #{modules := Modules}} <- maps:to_list(Apps),
                                      Module <- maps:keys(Modules)]).

-spec calls([{whittle_system:app_name(), module(), whittle_beam:beam()}],
            fun((module()) -> boolean()),
            fun((module()) -> {ok, whittle_system:app_name()} | none)) -> [call()].
calls(Read, Absent, Home) ->
    [{App, {Name, Module, Mfa}}
     || {Name, Module, Beam} <- Read, {Callee, _, _} = Mfa <- whittle_beam:imports(Beam),
        Absent(Callee), {ok, App} <- [Home(Callee)]].

%% Only a module with the name of an absent module or application among its atoms is disassembled:
%% it takes time. A module that cannot be disassembled has other errors.
-spec named_calls([{whittle_system:app_name(), module(), whittle_beam:beam()}],
                  fun((module()) -> boolean()),
                  fun((module()) -> {ok, whittle_system:app_name()} | none),
                  fun((whittle_system:app_name()) -> boolean())) -> [call()].
named_calls(Read, Absent, Home, Lacks) ->
    [{App, {Name, Module, What}}
     || {Name, Module, Beam} <- Read,
        {ok, Atoms} <- [whittle_beam:all_atoms(Beam)],
        lists:any(fun(Atom) ->
                          Absent(Atom) andalso Home(Atom) =/= none orelse Lacks(Atom)
                  end, Atoms),
        {ok, Code} <- [whittle_beam:disassemble(Beam)],
        Use <- whittle_beam_calls:uses(Code),
        {App, What} <- used(Use, Absent, Home, Lacks),
        not whittle_otp:does_without(Name, App)].

used({call, {Callee, _, _} = Call}, Absent, Home, _) ->
    [{App, Call} || Absent(Callee), {ok, App} <- [Home(Callee)]];
used({start, App, Function}, _, _, Lacks) ->
    [{App, {start, Function, App}} || Lacks(App)].

grouped(Calls) ->
    [{App, lists:sort(By)}
     || {App, By} <- lists:sort(maps:to_list(maps:groups_from_list(
                                               fun({App, _}) -> App end,
                                               fun({_, By}) -> By end, Calls)))].

%% Finds the modules of OTP's applications that the input reaches. kernel and stdlib check whether
%% a module exists before they call it.
led_to(Read, Otps) ->
    Modules = maps:from_list([{Module, {Name, Bytes}}
                              || #{name := Name, modules := Here} <- Otps,
                                 Name =/= kernel, Name =/= stdlib,
                                 {Module, Bytes} <- maps:to_list(Here)]),
    Named = [{App, Module, whittle_beam:all_atoms(Beam)}
             || map_size(Modules) > 0, {App, Module, Beam} <- Read],
    case [{bad_beam, {io_lib:format("module ~ts of ~ts", [Module, App]), Error}}
          || {App, Module, {error, Error}} <- Named] of
        [] ->
            Atoms = lists:usort(lists:append([Each || {_, _, {ok, Each}} <- Named])),
            {ok, led_to(Atoms, Modules, [])};
        [First | _] -> {error, First}
    end.

led_to([Module | Rest], Modules, Found) ->
    case maps:take(Module, Modules) of
        {{Name, Bytes}, Others} ->
            {ok, Beam} = whittle_beam:read(Bytes),
            Callees = lists:usort([Callee || {Callee, _, _} <- whittle_beam:imports(Beam)]),
            led_to(Callees ++ Rest, Others, [{Name, Module, Beam} | Found]);
        error ->
            led_to(Rest, Modules, Found)
    end;
led_to([], _, Found) ->
    lists:sort(Found).

by_input({App, [{_, Module, Mfa} | _] = By}, Held) ->
    Count = length(lists:usort([M || {_, M, _} <- By])),
    io_lib:format("~ts calls ~ts, which no .app file names, so Whittle does not pack it "
                  "(~ts calls ~ts~ts): ~ts",
                  [names([Name || {Name, _, _} <- By]), App, Module, function(Mfa),
                   others(Count - 1), remedy(App, Held(App), whittle_otp:unsupported(App))]).

%% Writes one line for each application to add, because it may add other missing applications too.
by_otp(Groups, Held, Otp) ->
    Names = [App || {App, _} <- Groups],
    Brings = [{App, brought(App, Otp)} || App <- Names],
    Tops = [App || App <- Names,
                   not lists:any(fun({One, Others}) ->
                                         One =/= App andalso lists:member(App, Others)
                                 end, Brings)],
    [with_others(Top, Held, [Group || {App, _} = Group <- Groups,
                                      lists:member(App, proplists:get_value(Top, Brings))])
     || Top <- Tops].

with_others(Top, Held, [{_, [{_, Module, Mfa} | _]} | _] = Groups) ->
    Callees = [App || {App, _} <- Groups],
    io_lib:format("OTP's ~ts calls ~ts, which no .app file names, so Whittle does not pack ~ts "
                  "(~ts calls ~ts): such a call fails; ~ts",
                  [names([Name || {_, By} <- Groups, {Name, _, _} <- By]), names(Callees),
                   case Callees of [_] -> "it"; _ -> "them" end, Module, function(Mfa),
                   case Callees of
                       [_] -> remedy(Top, Held(Top), whittle_otp:unsupported(Top));
                       _ -> io_lib:format("`--app ~ts' adds them", [Top])
                   end]).

%% Lists an application of the chosen OTP and the applications that it needs. The chosen OTP may
%% lack the application itself.
brought(App, Otp) ->
    lists:usort([App | whittle_needs:reachable([App], described([App], Otp, #{}))]).

described([App | Rest], Otp, Apps) when is_map_key(App, Apps) ->
    described(Rest, Otp, Apps);
described([App | Rest], Otp, Apps) ->
    case whittle_otp_lib:app_dir(App, Otp) of
        {ok, Dir} ->
            {ok, Described} = whittle_read_app:described(Dir),
            #{needed := Needed} = whittle_needs:direct(Described),
            described(Needed ++ Rest, Otp, Apps#{App => Described});
        error ->
            described(Rest, Otp, Apps)
    end;
described([], _, Apps) ->
    Apps.

%% A build refuses some applications. The note does not suggest those.
remedy(App, true, false) -> io_lib:format("`--app ~ts' adds it", [App]);
remedy(App, false, false) ->
    io_lib:format("Whittle does not build OTP's ~ts: add it to the release, or add its parent "
                  "directory to ERL_LIBS and give `--app ~ts'", [App, App]);
remedy(_, _, Why) -> ["it cannot be added, because ", Why, "; such a call fails"].

others(0) -> "";
others(1) -> ", and one other module";
others(Count) -> io_lib:format(", and ~b other modules", [Count]).

function({start, {M, F}, App}) -> io_lib:format("~ts:~ts(~ts)", [M, F, App]);
function({M, any, _}) -> io_lib:format("~ts", [M]);
function({M, F, any}) -> io_lib:format("~ts:~ts", [M, F]);
function({M, F, A}) -> io_lib:format("~ts:~ts/~b", [M, F, A]).

names(Names) -> lists:join(", ", [atom_to_list(Name) || Name <- lists:usort(Names)]).
