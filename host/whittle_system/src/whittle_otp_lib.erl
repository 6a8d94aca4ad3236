%% @doc The chosen OTP's library: what its applications are and how it boots.
%%
%% It is an installed OTP, or the `lib' directory that a built runtime keeps:
%% `LIB/APP-VSN/ebin/…', with `releases/VSN/start_clean.boot' beside `lib'.
%% That boot file is OTP's own word on which modules are preloaded, what the
%% kernel needs before it can load code by itself, and which processes start
%% first; our boot scripts are made from it ({@link whittle_boot}), since
%% `systools' of the host's OTP writes them for the host's OTP.
-module(whittle_otp_lib).

-export([open/1, otp/1, erts/1, template/1, app_dir/2, app_dirs/1, module_home/2, homes/1,
         preloaded/1, program/2]).

-export_type([otp_lib/0]).

-record(otp_lib, {root :: file:filename(),
                  otp :: string(),
                  erts :: string(),
                  template :: whittle_system:boot_script(),
                  dirs :: #{whittle_system:app_name() => file:filename()},
                  homes :: #{module() => whittle_system:app_name()}}).
-opaque otp_lib() :: #otp_lib{}.

%% @doc Opens the library at `LIB'; an open one is returned. Errors: `{no_otp, Lib}' where it
%% holds no OTP, `{bad_boot_file, File}'.
-spec open(file:filename() | otp_lib()) ->
          {ok, otp_lib()} | {error, whittle_system:error()}.
open(#otp_lib{} = Open) -> {ok, Open};
open(Lib) ->
    Root = filename:dirname(filename:absname(Lib)),
    case filelib:wildcard(filename:join(Root, "releases/*/start_clean.boot")) of
        [] -> {error, {no_otp, Lib}};
        Boots -> open(Lib, Root, lists:last(lists:sort(Boots)))
    end.

%% @doc The OTP release, `"29"'.
-spec otp(otp_lib()) -> string().
otp(#otp_lib{otp = Otp}) -> Otp.

%% @doc The version of its ERTS.
-spec erts(otp_lib()) -> string().
erts(#otp_lib{erts = Erts}) -> Erts.

%% @doc The boot script that starts kernel and stdlib alone.
-spec template(otp_lib()) -> whittle_system:boot_script().
template(#otp_lib{template = Template}) -> Template.

%% @doc The directory of an application.
-spec app_dir(whittle_system:app_name(), otp_lib()) ->
          {ok, file:filename()} | error.
app_dir(Name, #otp_lib{dirs = Dirs}) -> maps:find(Name, Dirs).

%% @doc The applications of library directories, as `ERL_LIBS' names them, and where each
%% is: in the first directory that has its `.app' file, its newest version there.
-spec app_dirs([file:filename()]) -> #{whittle_system:app_name() => file:filename()}.
app_dirs(Libs) ->
    lists:foldr(fun(Lib, Dirs) -> maps:merge(Dirs, lib_dirs(Lib)) end, #{}, Libs).

%% @doc Where a module of OTP is: in an application, or in the VM itself.
-spec module_home(module(), otp_lib()) ->
          {application, whittle_system:app_name()} | preloaded | unknown.
module_home(Module, #otp_lib{template = {script, _, [{preLoaded, Preloaded} | _]},
                             homes = Homes}) ->
    case Homes of
        #{Module := Name} -> {application, Name};
        _ ->
            case lists:member(Module, Preloaded) of
                true -> preloaded;
                false -> unknown
            end
    end.

%% @doc Which application has a module, of those in these directories; by the files' names.
-spec homes(#{whittle_system:app_name() => file:filename()}) ->
          #{module() => whittle_system:app_name()}.
homes(Dirs) ->
    maps:from_list([{list_to_atom(filename:basename(File, ".beam")), Name}
                    || {Name, Dir} <- maps:to_list(Dirs),
                       {ok, Files} <- [file:list_dir(filename:join(Dir, "ebin"))],
                       File <- Files, filename:extension(File) =:= ".beam"]).

%% @doc The modules that are in the VM itself, as files beside the library has them.
-spec preloaded(otp_lib()) -> {ok, #{module() => binary()}} | {error, whittle_system:error()}.
preloaded(#otp_lib{root = Root, template = {script, _, [{preLoaded, Modules} | _]}}) ->
    Found = [{Module, File}
             || Module <- Modules,
                File <- lists:sublist(filelib:wildcard(
                                        filename:join([Root, "lib/erts-*/ebin",
                                                       atom_to_list(Module) ++ ".beam"])), 1)],
    read_all(Found, #{}).

read_all([{Module, File} | Files], Read) ->
    case file:read_file(File) of
        {ok, Bytes} -> read_all(Files, Read#{Module => Bytes});
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end;
read_all([], Read) ->
    {ok, Read}.

%% @doc A program of that OTP (`erl', `erlc') that runs on this machine.
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

%% Some installations name it only in the directory's name.
erts_vsn(Lib, Root) ->
    case file:read_file(filename:join(Root, "releases/start_erl.data")) of
        {ok, Data} ->
            hd(string:lexemes(unicode:characters_to_list(Data), " \n"));
        {error, _} ->
            Dirs = filelib:wildcard(filename:join(Root, "erts-*"))
                ++ filelib:wildcard(filename:join(Lib, "erts-*")),
            case Dirs of
                [] -> "";
                _ -> "erts-" ++ Vsn = filename:basename(lists:last(Dirs)), Vsn
            end
    end.

%% As `erl' searches: by the .app files, whatever their directories are called. Of several
%% directories that differ in the version behind the name the newest counts; of directories
%% with other names the one that is called as the application, or else the first.
lib_dirs(Lib) ->
    Found = [{Name, Base =:= Name, reversed(Base), Vsn, Dir}
             || App <- filelib:wildcard(filename:join(Lib, "*/ebin/*.app")),
                Dir <- [filename:dirname(filename:dirname(App))],
                Name <- [filename:basename(App, ".app")],
                {Base, Vsn} <- [parted(filename:basename(Dir))],
                %% Its modules are preloaded: they are in the VM.
                Name =/= "erts"],
    maps:from_list([{list_to_atom(Name), Dir}
                    || {Name, _, _, _, Dir} <- lists:sort(Found)]).

%% In the list the last one counts, and so the first by name has to come last.
reversed(Base) -> [-Char || Char <- Base] ++ [1].

%% A directory's name, and the version behind it as numbers. `code' takes for a version
%% what follows the last dash and is digits with dots between.
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
