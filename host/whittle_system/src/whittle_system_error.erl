%% @hidden The room's errors as lines for a person.
-module(whittle_system_error).

-export([format/1]).

%% @doc One line that ends with what to do.
-spec format(whittle_system:error()) -> unicode:chardata().
%% The input
format({no_such_path, Path}) when Path =:= ""; Path =:= <<>> ->
    "the path is empty: name an application, a release or an escript";
format({no_such_path, Path}) ->
    line("~ts is not there: name an application, a release or an escript", [Path]);
format({packed_release, Path}) ->
    line("~ts is a packed archive: unpack it first and name the release's directory", [Path]);
format({no_application, Path}) ->
    line("~ts holds no application and no release: name a directory with "
         "ebin/*.app, src/*.app.src, rebar.config or releases/", [Path]);
format({mix_project, Path}) ->
    line("~ts is a Mix project: run `MIX_ENV=prod mix release' in it and name "
         "the directory that it prints", [Path]);
format({no_program, {Program, From}}) ->
    line("~ts is not on the PATH: install it (~ts)", [Program, From]);
format({no_temporary, {Dir, Reason}}) ->
    line("~ts cannot be written (~ts): make room there, or name another directory with "
         "TMPDIR", [Dir, file:format_error(Reason)]);
format({not_fetched, {Dir, Line}}) ->
    line("~ts lacks a dependency, and nothing is fetched here: run `rebar3 get-deps' in it and "
         "try again: rebar3 said: ~ts", [Dir, Line]);
format({not_compiled, {Dir, Command, Output}}) ->
    line("~ts does not compile; mend this and try again: ~ts said: ~ts",
         [Dir, Command, tail(Output)]);
format({unreadable, {File, eloop}}) ->
    line("~ts is a link that leads back to where it lies: remove it", [File]);
format({unreadable, {File, eilseq}}) ->
    line("~ts has a name that is not UTF-8: rename it", [File]);
format({unreadable, {File, eftype}}) ->
    line("~ts is a pipe, a socket or a device: remove it", [File]);
format({unreadable, {File, enoent}}) ->
    line("~ts is a link that leads nowhere: remove it", [File]);
format({unreadable, {File, Reason}}) ->
    line("~ts cannot be read (~ts): check its permissions",
         [File, file:format_error(Reason)]);
format({no_escript, File}) ->
    line("~ts is no escript, which begins with #! and holds Erlang source, a module or "
         "an archive: name one, or the directory of an application, a project or a release",
         [File]);
format({other_script, {File, Interpreter}}) ->
    line("~ts is a script for ~ts, no escript: name an escript; or, of a release's start "
         "script, the release's directory", [File, Interpreter]);
format({not_a_file, Path}) ->
    line("~ts is neither a file nor a directory: name an application, a release or an escript",
         [Path]);
format({bad_config, {File, Why}}) ->
    line("~ts is no configuration (~ts): mend it, since the kernel would end with it",
         [File, Why]);
format({bad_archive, File}) ->
    line("the archive in ~ts is damaged: make the escript again", [File]);
format({no_main, {File, Module}}) ->
    line("~ts has no ~ts:main/1: name the module with `%%! -escript main MODULE' "
         "and export main/1", [File, Module]);
format({no_device_application, {Name, Dir}}) ->
    line("~ts is not built: run `rebar3 compile' in Whittle's own tree (looked in ~ts)",
         [Name, Dir]);
%% Applications
format({no_app_file, Dir}) ->
    line("~ts holds no .app file: compile the application first", [Dir]);
format({several_app_files, {Dir, Paths}}) ->
    line("~ts holds several .app files (~ts): leave one", [Dir, list(Paths)]);
format({bad_app_file, {File, Why}}) ->
    line("~ts: ~ts; mend the file", [File, Why]);
format({no_vsn, {Name, File}}) ->
    line("application ~ts has no version: give `vsn' in ~ts", [Name, File]);
format({absent_modules, {Name, Modules, File}}) ->
    line("application ~ts lists modules that are not there (~ts): compile it "
         "again, or take them out of ~ts", [Name, list(Modules), File]);
format({absent_start_module, {Name, Module}}) ->
    line("application ~ts starts with module ~ts (`mod' in its .app file), which is not there: "
         "compile it, or mend `mod'", [Name, Module]);
format({application_twice, {Name, Paths}}) ->
    line("application ~ts is there twice (~ts): remove one", [Name, list(Paths)]);
format({missing_application, {Name, Askers, Otp}}) ->
    line("application ~ts, which ~ts, is neither in the input nor in OTP ~ts: add it to "
         "the release, name its directory's directory in ERL_LIBS, or take it out of "
         "`applications'",
         [Name, askers(Askers), Otp]);
format({unsupported_application, {Name, Askers, Why}}) ->
    line("application ~ts, which ~ts, cannot work in one file (~ts): take it "
         "out of `applications'", [Name, askers(Askers), Why]);
format({absent_programs, {Name, Askers, Paths}}) ->
    line("application ~ts of OTP, which ~ts, runs programs that the VM of a built file does not "
         "have (~ts): take it out of `applications'",
         [Name, askers(Askers), list(Paths)]);
format({circular_applications, Circle}) ->
    line("applications need each other in a circle (~ts): take one out of "
         "another's `applications'", [list(Circle)]);
format({prebuilt_nif, {Path, Name, Loaders}}) ->
    line("application ~ts brings the shared object ~ts, loaded by ~ts; a static "
         "VM cannot load one: describe its sources with --native (docs/natives.md), or "
         "remove the file if it is never loaded",
         [Name, Path, case Loaders of [] -> "no module of it"; _ -> list(Loaders) end]);
format({bad_native, {File, Why}}) ->
    line("~ts: ~ts: see docs/natives.md for what is in such a file", [File, Why]);
format({native_unused, {File, Name, Module}}) ->
    line("~ts: no application has the module ~ts, which loads ~ts: name the one that does "
         "with {module, NAME}", [File, Module, Name]);
format({absent_application, {Name, Vsn, Dir}}) ->
    line("the release lists ~ts ~ts, which is neither in ~ts/lib nor in the "
         "chosen OTP: make the release again", [Name, Vsn, Dir]);
format({bad_start_data, Dir}) ->
    line("~ts/releases does not say which version is current: make the release "
         "again", [Dir]);
format({bad_own_boot, File}) ->
    line("~ts is no boot file: make the release again", [File]);
format({bad_rel_file, {File, Why}}) ->
    line("~ts: ~ts; make the release again", [File, Why]);
%% Modules
format({bad_beam, {File, Error}}) ->
    line("~ts ~ts", [File, whittle_beam:format_error(Error)]);
format({misnamed_module, {File, Module}}) ->
    line("~ts holds module ~ts: give the file the module's name", [File, Module]);
format({needs_newer_otp, {Name, Module, Needs, Why, Otp}}) ->
    line("module ~ts of ~ts was compiled by OTP ~w (~ts), newer than the chosen "
         "OTP ~ts: compile it with OTP ~ts or older, or choose a newer `--otp' "
         "(`whittle help build' lists them)", [Module, Name, Needs, Why, Otp, Otp]);
format({too_old, {Name, Module, Opcodes, Otp}}) ->
    line("module ~ts of ~ts was compiled by an OTP so old that OTP ~ts cannot load "
         "it (instruction ~ts), nor compile it again from debug information in it: "
         "choose an older `--otp', 25 the oldest, or compile it with OTP ~ts",
         [Module, Name, Otp, list(Opcodes), Otp]);
format({module_twice, {Module, One, Other}}) ->
    line("module ~ts is in both ~ts and ~ts: rename one or remove one of the "
         "applications", [Module, One, Other]);
format({source_twice, {Dir, Name, Files}}) ->
    line("module ~ts has two sources in ~ts (~ts): rename or remove one", [Name, Dir, list(Files)]);
%% The chosen OTP
format({no_otp, Lib}) ->
    line("~ts is no library of an OTP installation: build the runtime again",
         [Lib]);
format({bad_boot_file, File}) ->
    line("~ts is no boot file: build the runtime again", [File]).

line(Format, Arguments) ->
    io_lib:format(Format, Arguments).

list(Things) ->
    lists:join(", ", [if is_integer(Thing) -> integer_to_list(Thing);
                         true -> io_lib:format("~ts", [Thing])
                      end || Thing <- Things]).

askers([]) -> "you asked for";
askers(Names) -> [list(Names), case Names of [_] -> " needs"; _ -> " need" end].

%% A compiler's last words on one line.
tail(Output) ->
    Lines = string:lexemes(Output, "\r\n"),
    lists:join(" | ", lists:nthtail(max(0, length(Lines) - 5), Lines)).
