%% @doc Opens the library of the chosen OTP and reads its applications and boot file.
%%
%% The library belongs to an installed OTP, or it is the `lib' directory of a built runtime. It
%% contains `LIB/APP-VSN/ebin/…', and `releases/VSN/start_clean.boot' lies beside `lib'. That boot
%% file is OTP's own list of the preloaded modules, of the modules that the kernel needs before it
%% can load code, and of the first processes. Whittle makes its boot scripts from it ({@link
%% whittle_boot}), because `systools' of the host's OTP writes boot scripts for the host's OTP.
-module(whittle_otp_lib).

-export([open/1, otp/1, erts/1, template/1, app_dir/2, app_dirs/1, module_home/2, homes/1,
         home/2, preloaded/1, program/2]).

-export_type([otp_lib/0, homes/0]).

-record(otp_lib, {root :: file:filename(),
                  otp :: string(),
                  erts :: string(),
                  template :: whittle_system:boot_script(),
                  dirs :: #{whittle_system:app_name() => file:filename()},
                  homes :: homes()}).
-opaque otp_lib() :: #otp_lib{}.

%% The applications of modules. The names of files stay text: a library may have many more files
%% than this VM has room for atoms.
-opaque homes() :: #{string() => whittle_system:app_name()}.

%% @doc Opens the library at `LIB'. It returns an open library unchanged. The errors are `{no_otp,
%% Lib}' if the directory holds no OTP, and `{bad_boot_file, File}'.
-spec open(file:filename() | otp_lib()) ->
          {ok, otp_lib()} | {error, whittle_system:error()}.
open(#otp_lib{} = Open) -> {ok, Open};
open(Lib) ->
    Root = filename:dirname(filename:absname(Lib)),
    case whittle_file:found("releases/*/start_clean.boot", Root) of
        [] -> {error, {no_otp, Lib}};
        Boots -> open(Lib, Root, lists:last(lists:sort(Boots)))
    end.

%% @doc Returns the OTP release, such as `"29"'.
-spec otp(otp_lib()) -> string().
otp(#otp_lib{otp = Otp}) -> Otp.

%% @doc Returns the version of its ERTS.
-spec erts(otp_lib()) -> string().
erts(#otp_lib{erts = Erts}) -> Erts.

%% @doc Returns the boot script that starts only kernel and stdlib.
-spec template(otp_lib()) -> whittle_system:boot_script().
template(#otp_lib{template = Template}) -> Template.

%% @doc Finds the directory of an application.
-spec app_dir(whittle_system:app_name(), otp_lib()) ->
          {ok, file:filename()} | error.
app_dir(Name, #otp_lib{dirs = Dirs}) -> maps:find(Name, Dirs).

%% @doc Finds the applications of library directories such as those in `ERL_LIBS', with their
%% directories. For each application the first library with its `.app' file counts, and its newest
%% version there.
-spec app_dirs([file:filename()]) -> #{whittle_system:app_name() => file:filename()}.
app_dirs(Libs) ->
    lists:foldr(fun(Lib, Dirs) -> maps:merge(Dirs, lib_dirs(Lib)) end, #{}, Libs).

%% @doc Finds the home of a module of OTP: an application, or the VM itself.
-spec module_home(module(), otp_lib()) ->
          {application, whittle_system:app_name()} | preloaded | unknown.
module_home(Module, #otp_lib{template = {script, _, [{preLoaded, Preloaded} | _]},
                             homes = Homes}) ->
    case home(Module, Homes) of
        {ok, Name} -> {application, Name};
        error ->
            case lists:member(Module, Preloaded) of
                true -> preloaded;
                false -> unknown
            end
    end.

%% @doc Finds the modules of applications in these directories, by file name.
-spec homes(#{whittle_system:app_name() => file:filename()}) -> homes().
homes(Dirs) ->
    maps:from_list([{filename:basename(File, ".beam"), Name}
                    || {Name, Dir} <- maps:to_list(Dirs),
                       {ok, Files} <- [file:list_dir(filename:join(Dir, "ebin"))],
                       File <- Files, filename:extension(File) =:= ".beam"]).

%% @doc Finds the application of a module.
-spec home(module(), homes()) -> {ok, whittle_system:app_name()} | error.
home(Module, Homes) -> maps:find(atom_to_list(Module), Homes).

%% @doc Reads the modules that are built into the VM, from their files beside the library.
-spec preloaded(otp_lib()) -> {ok, #{module() => binary()}} | {error, whittle_system:error()}.
preloaded(#otp_lib{root = Root, template = {script, _, [{preLoaded, Modules} | _]}}) ->
    Found = [{Module, File}
             || Module <- Modules,
                File <- lists:sublist(whittle_file:found("lib/erts-*/ebin/"
                                                         ++ atom_to_list(Module) ++ ".beam",
                                                         Root), 1)],
    read_all(Found, #{}).

read_all([{Module, File} | Files], Read) ->
    case file:read_file(File) of
        {ok, Bytes} -> read_all(Files, Read#{Module => Bytes});
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end;
read_all([], Read) ->
    {ok, Read}.

%% @doc Finds a program of that OTP (`erl', `erlc') that runs on this machine.
-spec program(string(), otp_lib()) -> {ok, file:filename()} | error.
program(Name, #otp_lib{root = Root}) ->
    case os:find_executable(Name, filename:join(Root, "bin")) of
        false -> error;
        Program -> {ok, Program}
    end.

%% Internal

open(Lib, Root, Boot) ->
    Otp = filename:basename(filename:dirname(Boot)),
    case read_boot(Boot) of
        {ok, Template} ->
            Dirs = lib_dirs(Lib),
            {ok, #otp_lib{root = Root, otp = Otp, erts = erts_vsn(Lib, Root), template = Template,
                          dirs = Dirs, homes = homes(Dirs)}};
        error ->
            {error, {bad_boot_file, Boot}}
    end.

read_boot(File) ->
    case whittle_boot:read(File) of
        {ok, {script, _, [_ | _]} = Script} -> {ok, Script};
        _ -> error
    end.

%% Reads the version of ERTS. Some installations have it only in the name of a directory.
erts_vsn(Lib, Root) ->
    case file:read_file(filename:join(Root, "releases/start_erl.data")) of
        {ok, Data} ->
            hd(string:lexemes(unicode:characters_to_list(Data), " \n"));
        {error, _} ->
            Dirs = whittle_file:found("erts-*", Root)
                ++ whittle_file:found("erts-*", Lib),
            case Dirs of
                [] -> "";
                _ -> "erts-" ++ Vsn = filename:basename(lists:last(Dirs)), Vsn
            end
    end.

%% Finds the applications of a library like `erl', by their .app files and not by the names of
%% their directories. If several directories differ only in the version in their names, the newest
%% counts. Among other directories, the one with the name of the application counts, or else the
%% first.
lib_dirs(Lib) ->
    Found = [{Name, Base =:= Name, reversed(Base), Vsn, Dir}
             || App <- whittle_file:found("*/ebin/*.app", Lib),
                Dir <- [filename:dirname(filename:dirname(App))],
                Name <- [filename:basename(App, ".app")],
                {Base, Vsn} <- [parted(filename:basename(Dir))],
                %% The modules of erts are preloaded, so they are in the VM.
                Name =/= "erts"],
    maps:from_list([{list_to_atom(Name), Dir}
                    || {Name, _, _, _, Dir} <- lists:sort(Found)]).

%% Inverts the order of names. The last entry of the list counts, so the first name must come
%% last.
reversed(Base) -> [-Char || Char <- Base] ++ [1].

%% Splits the name of a directory into its base and its version as numbers. For `code' the version
%% is the part after the last dash, if it consists of digits and dots.
parted(Dir) ->
    case re:run(Dir, "^(.+)-([0-9][^-]*)$", [unicode, {capture, all_but_first, list}]) of
        {match, [Base, Vsn]} -> {Base, [numeric(Part) || Part <- string:lexemes(Vsn, ".")]};
        nomatch -> {Dir, []}
    end.

numeric(Part) ->
    case string:to_integer(Part) of
        {Number, []} -> {Number, ""};
        _ -> {0, Part}
    end.
