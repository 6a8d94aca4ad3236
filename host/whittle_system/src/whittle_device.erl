%% @doc Reads Whittle's own applications for the device and adds them to a system. `whittle_start'
%% is for the start of a system and for escripts. `whittle_control' is for commands such as
%% `--whittle-ping'. They are built beside the host's applications.
-module(whittle_device).

-export([read/1, add/1, is_device/1, recorder/0, instruments/0, lib_dir/0, offered/1]).

%% The applications that every system contains.
-define(ADDED, [whittle_start, whittle_control]).

%% @doc Tells whether every system contains the application.
-spec is_device(whittle_system:app_name()) -> boolean().
is_device(Name) -> lists:member(Name, ?ADDED).

%% @doc Returns the modules that `whittle trace' loads into a program. One of them has the name of
%% their application.
-spec recorder() -> [module()].
recorder() -> [whittle_trace, whittle_trace_begin].

%% @doc Returns all modules of that application: those that `whittle trace' and `whittle measure'
%% load into a program.
-spec instruments() -> [module()].
instruments() -> [whittle_trace_pauses | recorder()].

%% @doc Returns the directory of the compiled applications. It also holds the libraries that a
%% program may list among its applications, such as whittle_io, and the host tools.
-spec lib_dir() -> file:filename().
lib_dir() -> filename:dirname(code:lib_dir(whittle_system)).

%% @doc Finds the applications of library directories, as {@link whittle_otp_lib:app_dirs/1} does.
%% It omits Whittle's host tools, because no program can contain them.
-spec offered([file:filename()]) -> #{whittle_system:app_name() => file:filename()}.
offered(Libs) ->
    Ours = lib_dir(),
    Tools = case lists:member(Ours, Libs) of
                true -> host_tools(Ours);
                false -> []
            end,
    maps:filter(fun(Name, Dir) ->
                        filename:dirname(Dir) =/= Ours orelse not lists:member(Name, Tools)
                end, whittle_otp_lib:app_dirs(Libs)).

%% The command uses every host tool, so its .app file names them all.
host_tools(Ours) ->
    case whittle_read_app:described(filename:join(Ours, whittle)) of
        {ok, #{spec := {application, Name, Keys}}} ->
            [Name | proplists:get_value(applications, Keys, [])];
        error ->
            []
    end.

%% @doc Reads one of the applications.
-spec read(whittle_system:app_name()) ->
          {ok, whittle_system:app()} | {error, whittle_system:error()}.
read(Name) ->
    Dir = filename:join(lib_dir(), Name),
    case whittle_read_app:read(Dir, #{kind => device}) of
        {ok, App, _Notes} -> {ok, App};
        {error, {no_app_file, _}} -> {error, {no_device_application, {Name, Dir}}};
        {error, _} = Error -> Error
    end.

%% @doc Adds the applications that every system contains. They become roots, because nothing in
%% the program calls them. Boot scripts name their modules directly. The error is `reserved_name'
%% if an application or module of the program has the name of one that Whittle adds or that
%% `whittle trace' loads.
-spec add(whittle_system:system()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
add(System) ->
    Given = whittle_system:apps(System),
    case reserved(instruments(), instruments(), none, Given) of
        [] -> add(?ADDED, Given, System);
        [First | _] -> {error, {reserved_name, First}}
    end.

add([], _, System) ->
    {ok, System};
add([Name | Names], Given, System) ->
    whittle_work:steps(
      [fun(_) -> read(Name) end,
       fun(#{modules := Modules, origin := #{path := Dir}} = App) ->
               case reserved([Name], maps:keys(Modules), Dir, Given) of
                   [] -> {ok, App};
                   [First | _] -> {error, {reserved_name, First}}
               end
       end,
       fun(App) ->
               Roots = lists:usort([Name | whittle_system:roots(System)]),
               With = whittle_system:set_roots(Roots, whittle_system:put_app(App, System)),
               add(Names, Given, With)
       end]).

%% Finds applications and modules of the program with reserved names. An application may list one
%% of Whittle's applications as a dependency. It then means the one in Whittle's own directory.
reserved(Names, Modules, Ours, Given) ->
    lists:append([[{application, Name, Dir} || lists:member(Name, Names)]
                  ++ [{module, Module, Dir} || Module <- lists:sort(maps:keys(Here)),
                                               lists:member(Module, Modules)]
                  || #{name := Name, modules := Here, origin := Origin} <- Given,
                     Dir <- [maps:get(path, Origin, "the input")],
                     Ours =:= none orelse whittle_links:identity(Dir) =:= none
                         orelse whittle_links:identity(Dir) =/= whittle_links:identity(Ours)]).
