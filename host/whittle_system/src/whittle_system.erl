%% @doc Represents a release as a value with the whole contents of the output, in memory.
%%
%% Readers ({@link whittle_read}) make the value. Passes ({@link whittle_pass}) are functions from
%% value to value. `whittle_pack' turns the value into bytes. No function here accesses a file. An
%% application holds the bytes of its modules and of its other files. Paths are binaries with `/'
%% between names, without a slash at either end. Sizes are in bytes.
%%
%% Misuse raises `badarg', for example a path that leaves the tree or an invalid file name ({@link
%% whittle_file_name}). A problem with the input gives `{error, {Tag, Context}}'. {@link
%% format_error/1} formats it as one line that ends with the next step.
-module(whittle_system).

%% A system and its name
-export([new/1, name/1, vsn/1, otp/1, main/1, set_main/2]).
%% Applications
-export([apps/1, app/2, put_app/2, remove_app/2, app_dir/1, started/1, modules/1]).
%% Start
-export([boot/1, set_boot/2, roots/1, set_roots/2]).
%% Modules that are loaded on their first call
-export([cold/1, set_cold/2, companion/1, companion_of/1, removed/1, set_removed/2]).
%% Files and environment of the release
-export([files/1, input_files/1, put_file/3, env/1, put_env/3]).
%% Queries of other applications
-export([natives/1, is_notice/1, sizes/1, format_error/1, details/1]).
%% The ledger
-export([ledger/1, note/2, enter/4]).

-export_type([system/0, app/0, app_name/0, file/0, path/0, origin/0,
              boot_script/0, start_type/0, env_value/0, native/0, entry/0,
              error/0]).

-type app_name() :: atom().
-type path() :: binary().

-type file() :: #{mode := 0..8#777,     % the lower nine bits of st_mode
                  bytes := binary()}.

-type origin() ::
        #{kind := input | otp | device, % the user's, OTP's own (of the release
                                        % or of the chosen OTP's library), or one of Whittle's
                                        % applications for the device
          path := file:filename_all(),  % its directory or archive
          links => [whittle_links:link()],  % that lead out of the input; default: none
          asked_by := [app_name()]}.    % applications that need it; [] = a root

-type app() ::
        #{name := app_name(),
          vsn := string(),
          spec := {application, app_name(), [{atom(), term()}]}, % the .app term
          modules := #{module() => binary()},   % BEAM file of each module
          files := #{path() => file()},         % below the application, without
                                                % ebin/: <<"priv/www/a.html">>
          natives => [whittle_native:native()], % its C code; default: none
          absent_programs => [path()],          % programs of OTP that no VM of Whittle has;
                                                % default: none
          origin := origin()}.

-type boot_script() :: {script, {string(), string()}, [term()]}.

%% The start types of a .rel file. The boot script neither loads nor starts an application with
%% `none'.
-type start_type() :: permanent | transient | temporary | load | none.

%% `default' sets the variable for the VM if it is not set already. `always' sets it in any case.
-type env_value() :: {default | always, binary()}.

%% A NIF or driver that the runtime has to link: an application of OTP that expects its
%% own, or one of another application.
-type native() :: crypto | asn1 | whittle_native:native().

-type entry() ::
        #{pass := atom(),                           % the pass, or `read'
          doc := string(),                          % its effect, for a person
          before := #{app_name() => non_neg_integer()},  % bytes per application
          'after' := #{app_name() => non_neg_integer()},
          notes := [binary()]}.                     % lines for a person

%% format_error/1 makes a line of each.
-type error() :: whittle_system_error:error().

-record(system, {name :: string(),
                 vsn :: string(),
                 otp :: string(),
                 main = undefined :: module() | undefined,
                 apps = #{} :: #{app_name() => app()},
                 boot :: boot_script(),
                 roots = [] :: [app_name()],
                 cold = #{} :: #{module() => []},
                 removed = none :: binary() | none,
                 files = #{} :: #{path() => file()},
                 env = #{} :: #{binary() => env_value()},
                 notes = [] :: [binary()],          % newest first
                 ledger = [] :: [entry()]}).        % newest first

-opaque system() :: #system{}.

%% The VM uses the same suffix (native/patches).
-define(COMPANION, "~cold").

%% @doc Makes a system without applications. `otp' is its OTP release, such as `"29"'.
-spec new(#{name := string(), vsn := string(), otp := string()}) -> system().
new(#{name := Name, vsn := Vsn, otp := Otp}) ->
    ok = check_name(Name),
    ok = check_name(Vsn),
    #system{name = Name, vsn = Vsn, otp = Otp, boot = {script, {Name, Vsn}, []}}.

%% @doc Returns the name of the release. It is also the default name of the output.
-spec name(system()) -> string().
name(#system{name = Name}) -> Name.

%% @doc Returns the version of the release.
-spec vsn(system()) -> string().
vsn(#system{vsn = Vsn}) -> Vsn.

%% @doc Returns the OTP release of the system, such as `"29"'.
-spec otp(system()) -> string().
otp(#system{otp = Otp}) -> Otp.

%% @doc Returns the main module of an escript. Its function `main/1' is the program. The result is
%% `undefined' for a system of applications.
-spec main(system()) -> module() | undefined.
main(#system{main = Main}) -> Main.

%% @doc Makes `Module:main/1' the program.
-spec set_main(module(), system()) -> system().
set_main(Module, System) -> System#system{main = Module}.

%% @doc Lists the applications, in the order of their names.
-spec apps(system()) -> [app()].
apps(#system{apps = Apps}) ->
    [App || {_, App} <- lists:sort(maps:to_list(Apps))].

%% @doc Finds the application of a name.
-spec app(app_name(), system()) -> {ok, app()} | error.
app(Name, #system{apps = Apps}) -> maps:find(Name, Apps).

%% @doc Adds an application, or replaces the one of the same name. It does not change the boot
%% script. See {@link whittle_boot:generate/2}.
-spec put_app(app(), system()) -> system().
put_app(#{name := Name, vsn := Vsn, modules := Modules, files := Files} = App,
        #system{apps = Apps} = System)
  when is_atom(Name) ->
    ok = lists:foreach(fun check_name/1, [Name, Vsn | maps:keys(Modules)]),
    ok = lists:foreach(fun check_path/1, maps:keys(Files)),
    System#system{apps = Apps#{Name => App}}.

%% @doc Removes an application, if it exists. It does not change the boot script.
-spec remove_app(app_name(), system()) -> system().
remove_app(Name, #system{apps = Apps} = System) ->
    System#system{apps = maps:remove(Name, Apps)}.

%% @doc Returns the directory of an application below the virtual root: `<<"lib/kernel-8.5.3">>'.
-spec app_dir(app()) -> path().
app_dir(#{name := Name, vsn := Vsn}) ->
    unicode:characters_to_binary(["lib/", atom_to_list(Name), $-, Vsn]).

%% @doc Returns the module that starts an application, if the `mod' of its `.app' file names one.
-spec started(app()) -> [module()].
started(#{spec := {application, _, Props}}) ->
    [Module || {Module, _} <- [proplists:get_value(mod, Props)], is_atom(Module)].

%% @doc Lists all modules with their applications and bytes, ordered by application and module.
-spec modules(system()) -> [{app_name(), module(), binary()}].
modules(System) ->
    [{Name, Module, Beam}
     || #{name := Name, modules := Modules} <- apps(System),
        {Module, Beam} <- lists:sort(maps:to_list(Modules))].

%% @doc Returns the boot script. Its paths begin at the virtual root `/.whittle'.
-spec boot(system()) -> boot_script().
boot(#system{boot = Boot}) -> Boot.

%% @doc Replaces the boot script.
-spec set_boot(boot_script(), system()) -> system().
set_boot({script, {_, _}, Instructions} = Boot, System)
  when is_list(Instructions) ->
    System#system{boot = Boot}.

%% @doc Lists the applications that the user asked for. The system contains the others because
%% these need them.
-spec roots(system()) -> [app_name()].
roots(#system{roots = Roots}) -> Roots.

%% @doc Sets the applications that the user asked for.
-spec set_roots([app_name()], system()) -> system().
set_roots(Roots, System) -> System#system{roots = Roots}.

%% @doc Lists the cold modules, which no known code calls. They lie after the others in small
%% blocks, and the start does not load them. The list includes the companions ({@link
%% companion/1}), which the code server does not find.
-spec cold(system()) -> #{module() => []}.
cold(#system{cold = Cold}) -> Cold.

%% @doc Sets the cold modules.
-spec set_cold([module()], system()) -> system().
set_cold(Modules, System) -> System#system{cold = maps:from_keys(Modules, [])}.

%% @doc Returns the set of removed functions, or `none' if nothing was removed. The program
%% queries it when it raises `undef'.
-spec removed(system()) -> binary() | none.
removed(#system{removed = Removed}) -> Removed.

%% @doc Sets the set of removed functions.
-spec set_removed(binary(), system()) -> system().
set_removed(Removed, System) -> System#system{removed = Removed}.

%% @doc Returns the name of a module's companion. The companion holds the functions that were left
%% out of the module.
-spec companion(module()) -> module().
companion(Module) -> list_to_atom(atom_to_list(Module) ++ ?COMPANION).

%% @doc Finds the module of a companion, by its name.
-spec companion_of(module()) -> {ok, module()} | none.
companion_of(Module) ->
    Name = atom_to_list(Module),
    case lists:suffix(?COMPANION, Name) of
        true -> {ok, list_to_atom(lists:sublist(Name, length(Name) - length(?COMPANION)))};
        false -> none
    end.

%% @doc Lists the release's own files by path below `releases/VSN': `sys.config', `vm.args',
%% `runtime.exs', ….
-spec files(system()) -> #{path() => file()}.
files(#system{files = Files}) -> Files.

%% @doc Lists the files of the input's applications, without their modules, each with its path in
%% the pack and its bytes.
-spec input_files(system()) -> [{path(), binary()}].
input_files(System) ->
    [{iolist_to_binary([app_dir(App), $/, Path]), Bytes}
     || #{files := Files, origin := #{kind := input}} = App <- apps(System),
        {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(Files))].

%% @doc Adds or replaces a file of the release.
-spec put_file(path(), file(), system()) -> system().
put_file(Path, #{mode := _, bytes := _} = File, #system{files = Files} = System) ->
    ok = check_path(Path),
    System#system{files = Files#{Path => File}}.

%% @doc Returns the environment variables that the VM gets in addition to the caller's.
-spec env(system()) -> #{binary() => env_value()}.
env(#system{env = Env}) -> Env.

%% @doc Sets an environment variable of the VM.
-spec put_env(binary(), env_value(), system()) -> system().
put_env(Name, {How, Value} = EnvValue, #system{env = Env} = System)
  when is_binary(Name), is_binary(Value), (How =:= default orelse How =:= always) ->
    System#system{env = Env#{Name => EnvValue}}.

%% @doc Tells whether a file of an application is a license or a notice. It lies at the top of the
%% application, or a build has put it into priv.
-spec is_notice(path()) -> boolean().
is_notice(Path) ->
    re:run(Path, "^(priv/)?(LICEN[CS]E|COPYING|NOTICE)([.-][^/]*)?$") =/= nomatch.

%% @doc Lists the natives that the runtime must link for the modules of the system, sorted.
-spec natives(system()) -> [native()].
natives(System) ->
    lists:usort([Native || App <- apps(System),
                           Native <- whittle_otp:natives(App) ++ brought(App)]).

%% @doc Computes the size of each application in bytes, with its modules and files.
-spec sizes(system()) -> #{app_name() => non_neg_integer()}.
sizes(#system{apps = Apps}) ->
    maps:map(fun(_, App) -> app_size(App) end, Apps).

%% @doc Formats every error of this application as one line that ends with the next step.
-spec format_error(error()) -> unicode:chardata().
format_error(Error) -> whittle_system_error:format(Error).

%% @doc Returns the lines that belong above the line of {@link format_error/1}: the first lines of a
%% compiler that failed.
-spec details(error()) -> [unicode:chardata()].
details(Error) -> whittle_system_error:details(Error).

%% @doc Lists the passes that ran on the system, oldest first.
-spec ledger(system()) -> [entry()].
ledger(#system{ledger = Ledger}) -> lists:reverse(Ledger).

%% @doc Adds a note to the ledger's next entry. It escapes control characters, which names may
%% contain.
-spec note(unicode:chardata(), system()) -> system().
note(Text, #system{notes = Notes} = System) ->
    Line = unicode:characters_to_binary(whittle_file_name:printable(Text)),
    System#system{notes = [Line | Notes]}.

%% @doc Ends a pass. It writes the entry of the pass with its description, the sizes before and
%% after it, and its notes.
-spec enter(atom(), string(), #{app_name() => non_neg_integer()}, system()) -> system().
enter(Pass, Doc, Before, #system{ledger = Ledger, notes = Notes} = System) ->
    Entry = #{pass => Pass, doc => Doc, before => Before, 'after' => sizes(System),
              notes => lists:reverse(Notes)},
    System#system{ledger = [Entry | Ledger], notes = []}.

%% Internal

brought(#{natives := Natives, modules := Modules}) ->
    [Native || #{module := Module} = Native <- Natives, is_map_key(Module, Modules)];
brought(_) ->
    [].

app_size(#{modules := Modules, files := Files}) ->
    Add = fun(_, Beam, Sum) when is_binary(Beam) -> Sum + byte_size(Beam);
             (_, #{bytes := Bytes}, Sum) -> Sum + byte_size(Bytes)
          end,
    maps:fold(Add, maps:fold(Add, 0, Modules), Files).

check_path(Path) -> sound(whittle_file_name:check_path(Path), Path).

check_name(Name) -> sound(whittle_file_name:check(Name), Name).

sound(ok, _) -> ok;
sound({error, _}, Text) -> error(badarg, [Text]).
